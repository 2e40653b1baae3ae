//! What the commands that talk to other repositories share: their remotes, how they are reached, and
//! what is said about them.

use crate::claim_news::tell_displaced;
use crate::context::Context;
use crate::devices::expand;
use crate::error::{free_there, net_failure, verify_there};
use crate::failure::{EXIT_OTHER, EXIT_PERMISSION, EXIT_REFUSED, Failure};
use crate::hooks;
use crate::progress::Watch;
use crate::terminal::Hush;
#[cfg(feature = "store")]
use dmv_bucket::ops::{BucketCaller, CallerBuckets};
#[cfg(feature = "store")]
use dmv_bucket::store::{Settings, probe::TestCost};
use dmv_core::escape::Argument;
use dmv_core::escape::Hint;
use dmv_core::hint;
use dmv_core::platform::is_read_only_disk;
use dmv_core::repo::{CONFIG_FILE, DMV_DIR, KnownSigners, RefChange, Repo};
#[cfg(feature = "store")]
use dmv_net::ops::Buckets;
use dmv_net::ops::{
    Caller, ClaimsNews, ComingPush, NoAnswer, Remote, Remotes, SessionError, SilentPeer, Step,
};
use dmv_net::session::NetError;
#[cfg(feature = "store")]
use dmv_net::transport::BucketAddress;
use dmv_net::transport::{Purpose, Reach, Url, without_secret};
use dmv_net::wire::{Code, ReadOnly};
use std::cell::RefCell;
use std::ffi::OsStr;
use std::path::Path;

/// The program as the caller of a command of the library: its settings, its remotes, and the
/// progress, which is shown until this is dropped.
pub struct Call<'a> {
    context: &'a Context,
    /// What the command does apart from transfers.
    doing: &'static str,
    watch: RefCell<Option<Watch>>,
    hush: RefCell<Option<Hush>>,
    /// An address that the user named in place of a remote. It may have content that is lacking, too.
    named: Option<Remote>,
}

impl<'a> Call<'a> {
    /// A command that transfers, and nothing else that takes long.
    pub fn new(context: &'a Context) -> Call<'a> {
        Call::to(context, "")
    }

    /// A command that also works on this repository.
    pub fn to(context: &'a Context, doing: &'static str) -> Call<'a> {
        Call {
            context,
            doing,
            watch: RefCell::new(None),
            hush: RefCell::new(None),
            named: None,
        }
    }

    /// The same for a command with this remote.
    pub fn with(mut self, remote: &Remote) -> Call<'a> {
        self.named = remote.once.then(|| remote.clone());
        self
    }

    /// Shows nothing more, until the next step begins.
    pub fn rest(&self) {
        drop(self.watch.borrow_mut().take());
    }

    fn show(&self, doing: &'static str) {
        self.rest();
        *self.watch.borrow_mut() = Some(self.context.watch(doing));
    }
}

impl Caller for Call<'_> {
    fn reach(&self, url: &Url, purpose: Purpose) -> Result<Reach, NetError> {
        let reach = reach(self.context, url, purpose);
        reach.map_err(|failure| NetError::Caller(Box::new(failure)))
    }

    fn remotes(&self) -> Result<Remotes, NetError> {
        let remotes = || -> Result<Remotes, Failure> {
            let mut list = remotes(self.context)?;
            list.extend(self.named.clone());
            Ok(Remotes {
                offline: self.context.is_offline()?,
                list,
            })
        };
        remotes().map_err(|failure| NetError::Caller(Box::new(failure)))
    }

    #[cfg(feature = "store")]
    fn buckets(&self) -> Option<Box<dyn Buckets + '_>> {
        Some(Box::new(CallerBuckets(self)))
    }

    fn known_signers(&self) -> Result<KnownSigners, NetError> {
        let known = crate::signers::known_signers(self.context);
        known.map_err(|failure| NetError::Caller(Box::new(failure)))
    }

    fn heard_of_claims(&self, news: ClaimsNews<'_>) {
        match news {
            ClaimsNews::Displaced(claims) => tell_displaced(self.context, claims),
            ClaimsNews::Unknown => self
                .context
                .ui
                .note("note: the dmv there does not know claims, so yours stay here"),
            ClaimsNews::Unreadable(why) => self.context.ui.warn(format_args!(
                "the claims there cannot be read, so the push keeps to what was known of them here: {why}"
            )),
        }
    }

    fn before_push(&self, push: &ComingPush<'_>) -> Result<(), NetError> {
        hooks::before_push(self.context, push)
    }

    fn fetched(&self, repo: &Repo, remote: &Remote, moved: &[RefChange]) {
        hooks::after_fetch(self.context, repo, remote, moved);
    }

    fn began(&self, step: Step<'_>) {
        match step {
            Step::Transfer => self.show("transferring"),
            Step::Supply => self.show("fetching"),
            Step::Work => self.show(self.doing),
            // ssh may ask whether a host is the right one, or for a password.
            Step::Dial(Url::Ssh(_)) => *self.hush.borrow_mut() = Some(Hush::start()),
            Step::Dial(_) => {}
            Step::Dialled => *self.hush.borrow_mut() = None,
            Step::Wait(why, limit) => {
                let minutes = limit.as_secs() / 60;
                self.context.ui.note(format_args!(
                    "{why}; waiting for a turn, up to {minutes} minutes"
                ));
            }
        }
    }
}

#[cfg(feature = "store")]
impl BucketCaller for Call<'_> {
    fn store(&self, address: &BucketAddress) -> Result<Settings, NetError> {
        let settings = crate::bucket::settings(self.context, address);
        settings.map_err(|failure| NetError::Caller(Box::new(failure)))
    }

    fn test_store(&self, address: &BucketAddress, is_first: bool) -> Result<(), NetError> {
        let is_shown = self.watch.borrow().is_some();
        self.rest();
        let tested = crate::bucket::test_before_writing(self.context, address, is_first);
        if is_shown {
            self.show("transferring");
        }
        tested.map_err(|failure| NetError::Caller(Box::new(failure)))
    }

    fn cost_of_test(&self, address: &BucketAddress, is_first: bool) -> Result<TestCost, NetError> {
        crate::bucket::cost_of_test(self.context, address, is_first)
            .map_err(|failure| NetError::Caller(Box::new(failure)))
    }
}

/// What a connection to `url` needs.
#[cfg_attr(
    not(feature = "quic"),
    expect(
        unused_variables,
        reason = "paths and ssh need the same for all addresses"
    )
)]
pub fn reach(context: &Context, url: &Url, purpose: Purpose) -> Result<Reach, Failure> {
    let words = |text: String| text.split_whitespace().map(str::to_owned).collect();
    let config = context.config()?;
    Ok(Reach {
        request: context.request()?,
        purpose,
        create: None,
        ssh: config.value("ssh.command")?.map(words).unwrap_or_default(),
        remote_program: config.value("ssh.remote")?.unwrap_or_default(),
        #[cfg(feature = "quic")]
        device: match url {
            Url::Quic(_) => Some(dmv_net::transport::quic::Device {
                key: crate::device::device_key()?,
                relays: relays(context)?,
            }),
            _ => None,
        },
        patience: config.seconds("net.patience")?,
    })
}

/// All remotes.
pub fn remotes(context: &Context) -> Result<Vec<Remote>, Failure> {
    let remotes = context.config()?.remotes().into_iter();
    let remote = |(name, url): (String, String)| {
        Ok(Remote::new(name, parse_url(context, OsStr::new(&url))?))
    };
    remotes.map(remote).collect()
}

/// The remote `name`; without it `origin`, or the only one. A name that no remote has may be an
/// address, which then stands for a remote in this command.
pub fn remote(context: &Context, name: Option<&str>) -> Result<Remote, Failure> {
    let config = context.config()?;
    let fail =
        |message: String, hint: Hint| Failure::new("no-remote", EXIT_OTHER, message).hint(hint);
    let name = match name {
        Some(name) => name.to_owned(),
        None => config.default_remote().ok_or_else(|| {
            let names: Vec<String> = config.remotes().into_iter().map(|(name, _)| name).collect();
            if names.is_empty() {
                return fail(
                    "no remote is configured".to_owned(),
                    "dmv remote add origin URL".into(),
                );
            }
            let command = Argument::value(&context.command);
            let one = |name: &String| hint!("dmv {} {}", command, Argument::value(name));
            let hint = Hint::join(names.iter().map(one), ", or ");
            fail(
                "this repository has several remotes: name one of them".to_owned(),
                hint,
            )
        })?,
    };
    let remotes = config.remotes();
    let found = remotes.iter().find(|(known, _)| *known == name);
    if let Some((name, url)) = found {
        return Ok(Remote::new(
            name.clone(),
            parse_url(context, OsStr::new(url))?,
        ));
    }
    let no_remote = |hint: Hint| Err(fail(format!("there is no remote '{name}'"), hint));
    // A slip of the fingers that is no path: `push origin/main`, for `push origin main`.
    if let Some((first, rest)) = name.split_once('/')
        && remotes.iter().any(|(known, _)| known == first)
        && !Path::new(&name).exists()
    {
        return no_remote(hint!(
            "dmv {} {} {}",
            Argument::value(&context.command),
            Argument::value(first),
            Argument::value(rest)
        ));
    }
    if !is_address(&name) {
        return no_remote("dmv remote".into());
    }
    let here = std::env::current_dir().map_err(|e| Failure::file("find", ".".as_ref(), &e))?;
    let url = parse_url(context, OsStr::new(&name))?.absolute(&here);
    Ok(Remote::once(name, url))
}

/// The address that the user wrote, perhaps with the name of a device.
pub fn parse_url(context: &Context, text: &OsStr) -> Result<Url, Failure> {
    Ok(Url::parse(&expand(context, text)?.text)?)
}

/// Whether a text that is no remote's name is to be taken for an address.
pub fn is_address(text: &str) -> bool {
    let path = Path::new(text);
    let is_repository = || path.join(DMV_DIR).exists() || path.join(CONFIG_FILE).exists();
    text.contains(['/', ':']) || text == "." || text == ".." || is_repository()
}

/// Whether an argument for a directory is an address, with a scheme.
pub fn has_scheme(dir: &Path) -> bool {
    let text = dir.to_str().and_then(|text| text.split_once("://"));
    text.is_some_and(|(scheme, _)| {
        !scheme.is_empty() && scheme.chars().all(|c| c.is_ascii_alphanumeric())
    })
}

/// Fails if a directory of this machine was to be named and an address was.
pub fn refuse_address(dir: &Path) -> Result<(), Failure> {
    if !has_scheme(dir) {
        return Ok(());
    }
    let text = dir.to_string_lossy();
    let message = format!("{} is an address, not a directory", without_secret(&text));
    let hint = hint!(
        "to copy a repository there: dmv clone --bare . {}",
        Argument::value(without_secret(&text))
    );
    Err(Failure::usage(message).hint(hint))
}

/// The failure of a session, with what helps where the other end is damaged or full.
pub fn session_failure(e: SessionError) -> Failure {
    let hint = match &e.source {
        NetError::Peer(Code::Damaged, _) if e.answered => Some(verify_there(&e.url)),
        NetError::Peer(Code::Full, _) if e.answered => Some(free_there(&e.url)),
        _ => None,
    };
    let failure = Failure::from(e.source);
    match hint {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}

/// The failure for a name that a remote does not have.
pub fn no_such_ref(remote: &str, name: &str) -> Failure {
    let message = format!("{remote} has no branch or tag '{name}'; nothing was pushed or deleted");
    let hint = hint!("dmv fetch --prune {}", Argument::value(remote));
    Failure::new("no-ref", EXIT_OTHER, message).hint(hint)
}

/// Why a peer does not answer, in words.
pub fn why_silent(why: &NoAnswer) -> String {
    match why {
        NoAnswer::Unreached(e) => net_failure(e).message,
        NoAnswer::Cut(e) => e.to_string(),
    }
}

/// Says who did not answer, and why.
pub fn tell_skipped(context: &Context, skipped: impl IntoIterator<Item = SilentPeer>) {
    for SilentPeer { name, why } in skipped {
        let why = why_silent(&why);
        let text = format_args!("note: {name} was skipped: {why}");
        context.ui.note(text);
    }
}

/// The relay of the user's choice, if there is one.
#[cfg(feature = "quic")]
pub fn relays(context: &Context) -> Result<Vec<String>, Failure> {
    let relay = context.config()?.value("net.relay")?;
    Ok(relay.into_iter().filter(|url| !url.is_empty()).collect())
}

/// Says which branches a remote has no more.
pub fn tell_gone(context: &Context, remote: &str, gone: &[String], forgotten: bool) {
    for name in gone {
        let known = format!("{remote}/{name}");
        context.ui.note(if forgotten {
            format!("{remote} has deleted {name}; {known} is forgotten")
        } else {
            let forget = hint!("dmv fetch --prune {}", Argument::value(remote));
            format!("{remote} has deleted {name}; to forget {known}: {forget}")
        });
    }
}

/// Why nothing can be pushed to a remote that lets us fetch only, as far as it has told.
pub fn why_closed(url: &Url, told: Option<ReadOnly>) -> String {
    let path = match (url, told) {
        (Url::Path(path), _) => path,
        (_, Some(ReadOnly::Client)) => {
            return format!("it allows this device only to fetch{}", way_to_write(url));
        }
        (_, Some(ReadOnly::Server)) => return "it was started with --read-only".to_owned(),
        (_, Some(ReadOnly::Repository)) => {
            return "its repository cannot be written to: the disk there is read-only or full, or it fails"
                .to_owned();
        }
        (_, None) => return "it allows only fetch, and gives no reason".to_owned(),
    };
    if is_read_only_disk(path) {
        format!("{} is on a disk that is mounted read-only", path.display())
    } else {
        format!("{} is not writable", path.display())
    }
}

/// A remote that lets us fetch only: no key or permission is enough, or its disk does not take it.
pub fn closed(url: &Url, told: Option<ReadOnly>) -> ClosedRemote {
    let exit = match url {
        Url::Path(path) if is_read_only_disk(path) => EXIT_REFUSED,
        _ => EXIT_PERMISSION,
    };
    let why = why_closed(url, told);
    ClosedRemote { why, exit }
}

/// What the owner of `url` can do about it, in parentheses.
fn way_to_write(url: &Url) -> String {
    match url {
        #[cfg(feature = "quic")]
        Url::Quic(_) => match crate::device::device_key() {
            Ok(key) => format!(
                " (to allow it, run there: {})",
                hint!(
                    "dmv trust {} --write",
                    Argument::value(key.public().to_string())
                )
            ),
            Err(_) => String::new(),
        },
        _ => String::new(),
    }
}

/// Why a server takes nothing, as a word for programs.
pub fn word_of(why: ReadOnly) -> &'static str {
    match why {
        ReadOnly::Client => "key",
        ReadOnly::Server => "server",
        ReadOnly::Repository => "repository",
    }
}

/// Why a remote takes nothing, and the exit code for that.
pub struct ClosedRemote {
    /// In words.
    pub why: String,
    /// The exit code of a push.
    pub exit: u8,
}
