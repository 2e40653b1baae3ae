//! Settings: flag, `DMV_*` environment, the repository's file, the user's file, built in.
//!
//! A repository may be another user's: an unpacked archive, a shared disk. Its file is read as such.
//! Only a few settings count there ([`Scope`]), and it cannot make this program wait or fill memory.

pub mod device;
mod home;
pub mod hook;
mod remote;
mod value;

#[cfg(feature = "quic")]
pub use home::user_dir;
pub use home::{no_home, user_file};
pub use remote::{MIRROR, keys_of_remote, of_remote};
pub use value::{check, size, size_option};

use crate::alias;
use crate::failure::{EXIT_BUSY, EXIT_OTHER, Failure};
use device::device_key;
use dmv_core::escape::Argument;
use dmv_core::hint;
use dmv_core::platform::{OddKind, OwnAccess, open_named, open_own, share_new, sync_dir};
use dmv_core::repo::{DMV_DIR, PeerKey};
use dmv_core::store::{SharingMode, SharingRules};
use dmv_core::worktree::properties::{Properties, XattrNames};
use dmv_net::transport::{Url, without_secret};
use home::{home, worktree_of_user_file};
use hook::Hook;
use remote::remote_key;
use std::borrow::Cow;
use std::ffi::OsStr;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;
use toml::{Table, Value};
use toml_edit::DocumentMut;
use value::{PATHS_APART, apart, as_text, bad};

/// What a value has to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Any text.
    Text,
    /// `true` or `false`.
    Bool,
    /// A path; `~/` is the home directory.
    Path,
    /// A branch's name.
    Branch,
    /// The URL of a relay; empty: none.
    Relay,
    /// `auto`, `always` or `never`.
    Color,
    /// `auto`, `off` or `require`.
    Sharing,
    /// `full` or `sample`.
    Check,
    /// A whole number of seconds, at least one.
    Seconds,
    /// A whole number, at least one.
    Count,
    /// A number of bytes, with a unit or without: `500MB`, `10GiB`.
    Size,
    /// A number of dollars.
    Price,
    /// The address of an object store.
    Endpoint,
    /// A program with arguments.
    Program,
    /// Paths, with a colon between them; a list in a file.
    Paths,
    /// Patterns of the names of extended attributes, with a comma between them; a list in a file.
    Xattrs,
    /// A command with arguments, which the name of the setting stands for.
    Alias,
    /// The key of a device.
    Device,
}

/// Who may set a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Also the repository's file: its author can do no harm with it.
    Repository,
    /// The user alone, by flag, environment or the user's file. A repository's file could use it to run
    /// programs, to read other files, to connect to other hosts, to hide files or to hold up commands.
    User,
}

/// A setting that exists.
#[derive(Clone)]
pub struct Key {
    /// `section.name`.
    pub name: Cow<'static, str>,
    /// What its values are.
    pub kind: Kind,
    /// Who may set it.
    pub scope: Scope,
    /// Its value where nothing sets it.
    pub built_in: Option<&'static str>,
    /// What it is for.
    pub about: &'static str,
}

/// Settings: the name, its values, who may set it, its value where nothing sets it, what it is for.
macro_rules! keys {
    ($($name:expr => $kind:ident, $scope:ident, $built_in:expr, $about:literal;)*) => {
        &[$(key($name, Kind::$kind, Scope::$scope, $built_in, $about)),*]
    };
}

/// All settings but aliases, which have names of the user's choice.
pub static KEYS: &[Key] = keys! {
    "user.name" => Text, Repository, None, "the author's name";
    "user.email" => Text, Repository, None, "the author's address";
    "ignore.git" => Bool, Repository, Some("false"), "also use .gitignore files: true or false";
    "ignore.file" => Path, User, None, "a file of ignore rules for all repositories";
    "names.portable" => Bool, Repository, Some("false"),
        "leave out files whose names other systems do not allow: true or false";
    "files.times" => Bool, Repository, Some("false"),
        "commits keep when files were changed: true or false";
    "files.xattrs" => Xattrs, Repository, None,
        "commits keep the extended attributes with such names: user.*,user.rating";
    "init.branch" => Branch, User, Some(DEFAULT_BRANCH), "the first branch of a new repository";
    "color.ui" => Color, User, Some("auto"), "when to use colours: auto, always or never";
    "core.editor" => Program, User, None,
        "the program in which you write commit messages; else VISUAL or EDITOR";
    "core.pager" => Text, User, None,
        "the program that shows long output, or cat for none; else PAGER, or less";
    "undo.keep-max-size" => Size, Repository, Some("10GiB"),
        "how much overwritten data a command keeps for dmv undo without asking";
    "commit.large" => Size, Repository, Some("2GiB"),
        "the size from which a new file is asked about before a commit; 0 for never";
    "sign.commits" => Bool, Repository, Some("false"),
        "sign the commits that you make: true or false";
    "sign.key" => Path, User, None,
        "the ssh key that signs: a file, or a public key whose other half ssh-agent has; else the device key";
    "sign.allowed-signers" => Path, User, None,
        "a file of the ssh keys that may sign, as ssh-keygen reads it";
    "ssh.keygen" => Program, User, Some("ssh-keygen"),
        "the program that makes and checks signatures by ssh keys, with its arguments";
    "worktree.share" => Sharing, Repository, Some("auto"),
        "whether large files share blocks with packs: auto, off or require";
    "worktree.check" => Check, User, Some("full"),
        "whether a checkout reads and checks all bytes that share blocks, or a sample of them: full or sample";
    LEAN => Bool, Repository, Some("false"),
        "whether unchanged files that a remote keeps have no second copy: true or false (dmv lean on, off)";
    "drop.copies" => Count, Repository, Some("1"),
        "how many remotes must keep a file before dmv drop frees it here";
    "pull.rebase" => Bool, Repository, Some("false"),
        "whether dmv pull rebases instead of merging: true or false";
    "net.offline" => Bool, Repository, Some("false"),
        "do not fetch absent content from remotes: true or false";
    "net.relay" => Relay, User, None,
        "the URL of a relay for dmv:// addresses, used if no direct connection is possible";
    "net.patience" => Seconds, User, Some("300"),
        "seconds to wait for a peer that sends almost nothing";
    "serve.repack-after" => Seconds, Repository, None,
        "seconds after the last push in which dmv serve repacks; by default it never does";
    "bucket.price-write" => Price, Repository, Some("0.005"),
        "dollars for 1,000 requests to a bucket that write or list";
    "bucket.price-read" => Price, Repository, Some("0.0004"),
        "dollars for 1,000 requests to a bucket that read";
    "bucket.price-download" => Price, Repository, Some("0.09"),
        "dollars for 1 GB that comes from a bucket";
    BUDGET => Size, Repository, None,
        "the most that the repository's own files may take on this disk, such as 500GB";
    CLAIMS_ENFORCE => Bool, Repository, None,
        "whether pushes to this repository may not change what another device has claimed";
    "claims.land" => Text, Repository, None,
        "the branch on which work lands; by default main, or the branch of a claim where there is no main";
    PUSH_SIGNED => Bool, Repository, None,
        "whether this repository takes only pushed commits that devices on its allow-list have signed";
    "ssh.command" => Program, User, Some("ssh"),
        "the program for ssh connections, with its arguments";
    "ssh.remote" => Program, User, Some("dmv"),
        "the dmv program on the remote machine of an ssh connection";
    "safe.repositories" => Paths, User, None,
        "repositories of other users that you trust like your own; DIR/* for all below DIR";
};

/// The setting that the repository itself keeps, since pushes from elsewhere obey it as well.
pub const BUDGET: &str = "repository.budget";
/// The same for pushes that keep to claims.
pub const CLAIMS_ENFORCE: &str = "claims.enforce";
/// The same for pushes that bring only signed commits.
pub const PUSH_SIGNED: &str = "push.require-signed";
/// Whether files of the worktree stand in for content.
pub const LEAN: &str = "worktree.lean";

/// The remote that a clone makes.
pub const ORIGIN: &str = "origin";
/// The first branch of a new repository, if nothing says another.
pub const DEFAULT_BRANCH: &str = "main";
/// The section of the repository's file that holds remotes.
pub const REMOTES: &str = "remote";

/// Bytes of a settings file.
const MAX_FILE_BYTES: u64 = 1 << 20;

const fn key(
    name: &'static str,
    kind: Kind,
    scope: Scope,
    built_in: Option<&'static str>,
    about: &'static str,
) -> Key {
    Key {
        name: Cow::Borrowed(name),
        kind,
        scope,
        built_in,
        about,
    }
}

/// The setting `name`, if there is one.
pub fn find(name: &str) -> Result<Key, Failure> {
    if let Some((alias::SECTION, short)) = name.split_once('.')
        && alias::is_name(short)
    {
        return Ok(alias_key(short));
    }
    if let Some((device::SECTION, short)) = name.split_once('.')
        && device::is_name(short)
    {
        return Ok(device_key(short));
    }
    if let Some(key) = remote_key(name) {
        return Ok(key);
    }
    let found = KEYS.iter().find(|key| key.name == name).cloned();
    found.ok_or_else(|| {
        let message = format!("there is no setting '{name}'");
        Failure::new("unknown-setting", EXIT_OTHER, message).hint("dmv config list")
    })
}

/// The setting of an alias.
fn alias_key(short: &str) -> Key {
    Key {
        name: Cow::Owned(format!("{}.{short}", alias::SECTION)),
        ..key("", Kind::Alias, Scope::User, None, "an alias of a command")
    }
}

/// Where a value comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A `DMV_*` variable.
    Environment,
    /// The repository's file.
    Repository,
    /// The user's file.
    User,
    /// Nowhere: the built-in value.
    BuiltIn,
}

impl Origin {
    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            Origin::Environment => "environment",
            Origin::Repository => "repository",
            Origin::User => "user",
            Origin::BuiltIn => "built-in",
        }
    }
}

/// The settings in force.
#[derive(Default)]
pub struct Config {
    repository: Table,
    user: Table,
    /// The repository's file.
    file: PathBuf,
    /// The repository's directory: the worktree's of `.dmv`, or a bare repository's own.
    directory: PathBuf,
}

impl Config {
    /// Reads the files; one that is not there says nothing.
    pub fn load(repository: Option<&Path>) -> Result<Config, Failure> {
        let read = |path: Option<&Path>, whose| {
            path.map_or(Ok(Table::new()), |path| read_table(path, whose))
        };
        let dmv = repository.and_then(Path::parent).unwrap_or(Path::new(""));
        let directory = if dmv.file_name().is_some_and(|name| name == DMV_DIR) {
            dmv.parent().unwrap_or(dmv)
        } else {
            dmv
        };
        Ok(Config {
            repository: read(repository, Scope::Repository)?,
            user: read(user_file().as_deref(), Scope::User)?,
            file: repository.unwrap_or(Path::new("")).to_owned(),
            directory: directory.to_owned(),
        })
    }

    /// The value of a setting and where it comes from; `None`: nothing sets it.
    pub fn get(&self, key: &Key) -> Result<Option<(String, Origin)>, Failure> {
        let variable = variable(key);
        // An alias or a device is no setting that a user changes for one command.
        let is_named = matches!(key.kind, Kind::Alias | Kind::Device);
        let set = (!is_named).then(|| std::env::var_os(&variable));
        if let Some(value) = set.flatten() {
            let value = value.to_string_lossy().into_owned();
            check(key, &value, &variable)?;
            return Ok(Some((value, Origin::Environment)));
        }
        let tables = [
            (&self.repository, Origin::Repository),
            (&self.user, Origin::User),
        ];
        for (table, origin) in tables {
            if origin == Origin::Repository && key.scope == Scope::User {
                continue;
            }
            if let Some(value) = lookup(table, key) {
                let text = as_text(key, value).ok_or_else(|| bad(key, &value.to_string(), ""))?;
                check(key, &text, &format!("the {} file", origin.word()))?;
                return Ok(Some((text, origin)));
            }
        }
        Ok(key.built_in.map(|v| (v.to_owned(), Origin::BuiltIn)))
    }

    /// The value of the setting `name`, which exists.
    pub fn value(&self, name: &'static str) -> Result<Option<String>, Failure> {
        Ok(self.get(&find(name)?)?.map(|(value, _)| value))
    }

    /// Whether the setting `name` is `true`.
    pub fn is_set(&self, name: &'static str) -> Result<bool, Failure> {
        Ok(self.value(name)?.as_deref() == Some("true"))
    }

    /// What commits keep of files besides their content.
    pub fn properties(&self) -> Result<Properties, Failure> {
        let names = self.value("files.xattrs")?.unwrap_or_default();
        Ok(Properties {
            times: self.is_set("files.times")?,
            // What cannot be parsed was refused when it was read.
            xattrs: XattrNames::parse(&names).unwrap_or_default(),
        })
    }

    /// How files share blocks with packs.
    pub fn sharing(&self) -> Result<SharingRules, Failure> {
        Ok(SharingRules {
            mode: match self.value("worktree.share")?.as_deref() {
                Some("off") => SharingMode::Off,
                Some("require") => SharingMode::Require,
                _ => SharingMode::Auto,
            },
            samples: self.value("worktree.check")?.as_deref() == Some("sample"),
        })
    }

    /// The path that the setting `name` gives.
    pub fn path(&self, name: &'static str) -> Result<Option<PathBuf>, Failure> {
        let value = self.value(name)?.filter(|v| !v.is_empty());
        Ok(value.map(|v| at_home(&v)))
    }

    /// The time that the setting `name` gives, which has a built-in value.
    pub fn seconds(&self, name: &'static str) -> Result<Duration, Failure> {
        let value = self.value(name)?.and_then(|value| value.parse().ok());
        Ok(Duration::from_secs(value.expect("it was checked")))
    }

    /// The time that the setting `name` gives, if it is set.
    #[cfg(feature = "quic")]
    pub fn seconds_if_set(&self, name: &'static str) -> Result<Option<Duration>, Failure> {
        let value = self.value(name)?.and_then(|value| value.parse().ok());
        Ok(value.map(Duration::from_secs))
    }

    /// The number that the setting `name` gives, which has a built-in value.
    pub fn count(&self, name: &'static str) -> Result<usize, Failure> {
        let value = self.value(name)?.and_then(|value| value.parse().ok());
        Ok(value.expect("it was checked"))
    }

    /// The number of bytes that the setting `name` gives, which has a built-in value.
    pub fn size(&self, name: &'static str) -> Result<u64, Failure> {
        let value = self.value(name)?.and_then(|value| size(&value));
        Ok(value.expect("it was checked"))
    }

    /// The repository's remotes and their addresses, by name.
    pub fn remotes(&self) -> Vec<(String, String)> {
        let table = self.repository.get(REMOTES).and_then(Value::as_table);
        let remotes = table.into_iter().flatten();
        let url = |(name, remote): (&String, &Value)| {
            let url = remote.get("url")?.as_str()?;
            Some((name.clone(), self.absolute(url)))
        };
        remotes.filter_map(url).collect()
    }

    /// A setting of the remote `name`.
    pub fn of_remote(&self, name: &str, setting: &str) -> Result<Option<String>, Failure> {
        let found = self.get(&find(&format!("{REMOTES}.{name}.{setting}"))?)?;
        Ok(found
            .map(|(value, _)| value)
            .filter(|value| !value.is_empty()))
    }

    /// What is noted beside the address of a remote, and is no setting.
    #[cfg(feature = "store")]
    pub fn noted(&self, name: &str, what: &str) -> Option<&str> {
        let remote = self.repository.get(REMOTES)?.get(name)?;
        remote.get(what)?.as_str()
    }

    /// The number of dollars that the setting `name` gives, which has a built-in value.
    #[cfg(feature = "store")]
    pub fn price(&self, name: &'static str) -> Result<f64, Failure> {
        let value = self.value(name)?.and_then(|value| value.parse().ok());
        Ok(value.expect("it was checked"))
    }

    /// A remote's address that means the same from every directory: a path that a user has written
    /// into the file counts from the repository's directory. One that makes no sense stays as it is, as
    /// does one below a directory whose name is no text.
    fn absolute(&self, url: &str) -> String {
        let parsed = Url::parse(OsStr::new(url)).ok();
        match parsed.map(|parsed| parsed.absolute(&self.directory)) {
            Some(Url::Path(path)) => path.to_str().unwrap_or(url).to_owned(),
            Some(_) => url.to_owned(),
            // Whoever uses it says that it is refused.
            None => without_secret(url),
        }
    }

    /// The remote that commands use where none is named: `origin`, or the only one.
    pub fn default_remote(&self) -> Option<String> {
        let mut names: Vec<String> = self.remotes().into_iter().map(|(name, _)| name).collect();
        match names.iter().position(|name| name == ORIGIN) {
            Some(at) => Some(names.swap_remove(at)),
            None if names.len() == 1 => names.pop(),
            None => None,
        }
    }

    /// What the repository's file sets although only the user may, in words. It has no effect.
    pub fn misplaced(&self) -> Vec<String> {
        let aliases = names_in(&self.repository, alias::SECTION);
        let aliases = aliases.map(alias_key);
        let keys = KEYS.iter().filter(|key| key.scope == Scope::User);
        let found = keys.filter(|key| lookup(&self.repository, key).is_some());
        let say = |key: Key| {
            let (file, name) = (self.file.display(), &*key.name);
            let yourself = hint!("dmv config set --user {} VALUE", Argument::value(name));
            format!(
                "{file} sets {name}; a repository cannot set it, so dmv ignores it (to set it \
                 yourself: {yourself})"
            )
        };
        let hooks = self.repository.contains_key(hook::SECTION).then(|| {
            let file = self.file.display();
            format!("{file} has hooks; a repository cannot name programs, so dmv ignores them")
        });
        let others = found.cloned().chain(aliases).map(say);
        others.chain(hooks).chain(self.vain_hooks()).collect()
    }

    /// The settings of the user's aliases.
    pub fn aliases(&self) -> Vec<Key> {
        names_in(&self.user, alias::SECTION)
            .map(alias_key)
            .collect()
    }

    /// The user's devices by name, with their keys. A damaged line counts for none.
    pub fn devices(&self) -> Vec<(String, PeerKey)> {
        let names = names_in(&self.user, device::SECTION);
        let named = |name: &str| {
            let (value, _) = self.get(&device_key(name)).ok()??;
            Some((name.to_owned(), value.parse().ok()?))
        };
        names.filter_map(named).collect()
    }

    /// The user's hooks, in their order.
    pub fn hooks(&self) -> Result<Vec<Hook>, Failure> {
        if self.user.contains_key(hook::SECTION) && worktree_of_user_file().is_some() {
            return Ok(Vec::new());
        }
        hook::of_user_file(&self.user)
    }

    /// What of the user's hooks does not count, and why.
    fn vain_hooks(&self) -> Vec<String> {
        let mut out = Vec::new();
        let file = user_file().unwrap_or_default();
        let file = file.display();
        if self.user.contains_key("hooks") {
            out.push(format!(
                "{file} has 'hooks', which nothing reads: write each hook as [[hook]]"
            ));
        }
        if self.user.contains_key(hook::SECTION)
            && let Some(root) = worktree_of_user_file()
        {
            let root = root.display();
            out.push(format!(
                "{file} lies in the worktree {root}, where others' commits could add hooks, so dmv runs none"
            ));
        }
        out
    }

    /// What the user's alias of this name stands for.
    pub fn alias(&self, short: &str) -> Result<Option<String>, Failure> {
        Ok(self.get(&alias_key(short))?.map(|(value, _)| value))
    }

    /// Settings in the files that this program does not know.
    pub fn unknown(&self) -> Vec<String> {
        let mut out = Vec::new();
        for (section, value) in self.repository.iter().chain(&self.user) {
            let known = [REMOTES, alias::SECTION, device::SECTION, hook::SECTION];
            if known.contains(&&section[..]) {
                continue;
            }
            let Value::Table(table) = value else {
                out.push(section.clone());
                continue;
            };
            let names = table.keys().map(|name| format!("{section}.{name}"));
            out.extend(names.filter(|name| KEYS.iter().all(|key| key.name != name.as_str())));
        }
        out
    }
}

/// The other users' repositories that the user trusts, by `safe.repositories`.
pub fn safe_repositories() -> Result<Vec<PathBuf>, Failure> {
    // Before any repository is found, so without its file.
    let value = Config::load(None)?.value("safe.repositories")?;
    let value = value.unwrap_or_default();
    let paths = value.split(PATHS_APART).filter(|path| !path.is_empty());
    Ok(paths.map(at_home).collect())
}

/// Paths as one text.
pub fn joined(paths: &[PathBuf]) -> String {
    let texts: Vec<_> = paths.iter().map(|path| path.to_string_lossy()).collect();
    texts.join(PATHS_APART)
}

/// A list as a file holds it.
pub fn list_of(key: &Key, text: &str) -> toml_edit::Array {
    text.split(apart(key.kind))
        .filter(|part| !part.is_empty())
        .collect()
}

/// A path as a user writes it: `~/` is the home directory.
fn at_home(text: &str) -> PathBuf {
    match (text.strip_prefix("~/"), home()) {
        (Some(rest), Some(home)) => home.join(rest),
        _ => PathBuf::from(text),
    }
}

/// The environment variable of a setting: `user.name` is `DMV_USER_NAME`, `core.pager` is `DMV_PAGER`.
pub fn variable(key: &Key) -> String {
    let name = key.name.strip_prefix("core.").unwrap_or(&key.name);
    format!("DMV_{}", name.to_ascii_uppercase().replace(['.', '-'], "_"))
}

/// The names in a section of a file.
fn names_in<'t>(table: &'t Table, section: &str) -> impl Iterator<Item = &'t str> {
    let section = table.get(section).and_then(Value::as_table);
    section.into_iter().flatten().map(|(name, _)| name.as_str())
}

fn lookup<'t>(table: &'t Table, key: &Key) -> Option<&'t Value> {
    if let Some((remote, setting)) = of_remote(&key.name) {
        return table.get(REMOTES)?.get(remote)?.get(setting);
    }
    let (section, name) = key.name.split_once('.')?;
    table.get(section)?.get(name)
}

/// A file's text; empty where there is no file. `whose`: a repository's file is followed nowhere.
///
/// Neither a pipe nor a file without an end holds up the program or fills its memory.
fn read_text(path: &Path, whose: Scope) -> Result<String, Failure> {
    let refuse = |why: &str| {
        let message = format!("{} {why}", path.display());
        Failure::new("bad-config-file", EXIT_OTHER, message)
    };
    let fail = |e: io::Error| Failure::file("read", path, &e);
    let opened = match whose {
        Scope::Repository => open_own(path, OwnAccess::Read),
        Scope::User => open_named(path),
    };
    let file = match opened {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(String::new()),
        Err(e) => match OddKind::in_error(&e) {
            Some(odd) => return Err(refuse(&format!("cannot be used: {odd}"))),
            None => return Err(fail(e)),
        },
        Ok(file) => file,
    };
    let mut text = String::new();
    let mut file = file.take(MAX_FILE_BYTES + 1);
    file.read_to_string(&mut text).map_err(fail)?;
    if text.len() as u64 > MAX_FILE_BYTES {
        Err(refuse("is larger than 1 MiB"))
    } else {
        Ok(text)
    }
}

fn read_table(path: &Path, whose: Scope) -> Result<Table, Failure> {
    let text = read_text(path, whose)?;
    text.parse::<Table>().map_err(|e| {
        let line = e.span().map(|span| {
            let before = text.get(..span.start).unwrap_or_default();
            format!(" in line {}", before.matches('\n').count() + 1)
        });
        let (line, why) = (line.unwrap_or_default(), e.message());
        let message = format!("{}{line}: {why}", path.display());
        Failure::new("bad-config-file", EXIT_OTHER, message)
    })
}

/// How long a command waits for others that change the same settings.
const TURN: Duration = Duration::from_secs(10);

/// The lock of a directory of settings. The directory itself is locked, so that no further file
/// has to lie there.
fn take_turn(dir: &Path, path: &Path) -> Result<std::fs::File, Failure> {
    let fail = |e: io::Error| Failure::file("write", path, &e);
    std::fs::create_dir_all(dir).map_err(fail)?;
    match dmv_core::locks::take_dir(dir, TURN).map_err(fail)? {
        Ok(lock) => Ok(lock),
        Err(holder) => {
            let who = dmv_core::locks::told(&holder);
            let message = format!(
                "cannot change {}: another process has locked it{who}",
                path.display()
            );
            Err(Failure::new("busy", EXIT_BUSY, message))
        }
    }
}

/// Changes a file, keeping its comments and order; it takes its place in one rename.
///
/// Commands that change settings at the same time take turns: each starts from what the one before
/// has written.
pub fn edit(
    path: &Path,
    whose: Scope,
    change: impl FnOnce(&mut DocumentMut),
) -> Result<(), Failure> {
    let dir = path.parent().unwrap_or(Path::new("."));
    let _turn = take_turn(dir, path)?;
    let text = read_text(path, whose)?;
    let mut document: DocumentMut = text.parse().map_err(|e: toml_edit::TomlError| {
        let message = format!("{}: {}", path.display(), e.message());
        Failure::new("bad-config-file", EXIT_OTHER, message)
    })?;
    change(&mut document);
    let new = document.to_string();
    if new == text {
        return Ok(());
    }
    let write = || -> io::Result<()> {
        let mut file = tempfile::Builder::new()
            .prefix(".config")
            .tempfile_in(dir)
            // Its own words would name the temporary file.
            .map_err(|e| io::Error::from(e.kind()))?;
        file.write_all(new.as_bytes())?;
        if let Ok(meta) = std::fs::metadata(path) {
            file.as_file().set_permissions(meta.permissions())?;
        }
        if whose == Scope::Repository {
            // The others who share the repository need its settings.
            share_new(file.as_file(), path);
        }
        file.as_file().sync_all()?;
        file.persist(path).map_err(|e| e.error)?;
        // Else the name may lead to the former settings after a power cut.
        sync_dir(dir)
    };
    write().map_err(|e| Failure::file("write", path, &e))
}
