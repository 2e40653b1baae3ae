//! Failures as the user sees them. The only place that knows exit codes.

use crate::context::quoted;
use crate::partial::words;
use crate::whose::{find_own, way_to_read, way_to_trust};
use dmv_core::fsutil::PathError;
use dmv_core::object::{ObjectError, ObjectType};
use dmv_core::refs::RefsError;
use dmv_core::repo::{DMV_DIR, RepoError, RevisionError};
use dmv_core::store::StoreError;
#[cfg(feature = "quic")]
use dmv_net::identity::KeyError;
use dmv_net::session::NetError;
use dmv_net::sync::SyncError;
use dmv_net::transport::Url;
#[cfg(feature = "quic")]
use dmv_net::transport::quic::{PairError, QuicError};
use dmv_net::wire::Code;
use std::io;
use std::path::Path;

/// All went well.
pub const EXIT_OK: u8 = 0;
/// The answer is "no", or "they differ".
pub const EXIT_DIFFERS: u8 = 1;
/// The command line makes no sense.
pub const EXIT_USAGE: u8 = 2;
/// Done, but for items that were listed.
pub const EXIT_INCOMPLETE: u8 = 3;
/// Done, and conflicts are left.
pub const EXIT_CONFLICTS: u8 = 4;
/// Refused, because something could be lost.
pub const EXIT_REFUSED: u8 = 5;
/// Needs bytes that are not here.
pub const EXIT_ABSENT: u8 = 6;
/// Damage found.
pub const EXIT_DAMAGE: u8 = 7;
/// No repository here.
pub const EXIT_NO_REPOSITORY: u8 = 10;
/// Another command is at work.
pub const EXIT_BUSY: u8 = 11;
/// A key or a permission is wanting.
pub const EXIT_PERMISSION: u8 = 12;
/// A peer cannot be reached.
pub const EXIT_UNREACHABLE: u8 = 13;
/// The repository is of a later format.
pub const EXIT_TOO_NEW: u8 = 14;
/// Any other failure.
pub const EXIT_OTHER: u8 = 20;
/// Nobody reads the output any more, and it was to be whole: 128 and the number of SIGPIPE.
pub const EXIT_BROKEN_PIPE: u8 = 141;
/// The user stopped it.
pub const EXIT_INTERRUPTED: u8 = 130;

/// A command that failed.
#[derive(Debug)]
pub struct Failure {
    /// A word for programs.
    pub code: &'static str,
    /// The exit code.
    pub exit: u8,
    /// What failed, on which path or object.
    pub message: String,
    /// A command to run.
    pub hint: Option<String>,
    /// The paths it is about, where there may be many.
    pub paths: Vec<Vec<u8>>,
}

impl Failure {
    /// A failure without a hint.
    pub fn new(code: &'static str, exit: u8, message: impl Into<String>) -> Failure {
        let message = message.into();
        Failure {
            code,
            exit,
            message,
            hint: None,
            paths: Vec::new(),
        }
    }

    /// Arguments that the parser lets pass and that make no sense together.
    pub fn usage(message: impl Into<String>) -> Failure {
        Failure::new("usage", EXIT_USAGE, message)
    }

    /// A failure of a file operation outside of the repository.
    pub fn file(action: &str, path: &Path, source: &io::Error) -> Failure {
        let message = format!("cannot {action} {}: {source}", path.display());
        Failure::new("file", EXIT_OTHER, message)
    }

    /// Adds a command to run.
    pub fn hint(mut self, command: impl Into<String>) -> Failure {
        self.hint = Some(command.into());
        self
    }

    /// Of output that is worth nothing unless it is whole: that nobody reads it any more is as quiet,
    /// and no success. The code is the one that a shell shows for other programs.
    pub fn incomplete_output(mut self) -> Failure {
        if self.is_broken_pipe() {
            self.exit = EXIT_BROKEN_PIPE;
        }
        self
    }

    /// Whether it says only that the user stopped it.
    pub fn is_plain_interrupt(&self) -> bool {
        self.exit == EXIT_INTERRUPTED && self.message == RepoError::Cancelled.to_string()
    }

    /// Whether nobody reads the output any more, which is not worth a word.
    pub fn is_broken_pipe(&self) -> bool {
        self.code == BROKEN_PIPE
    }
}

const BROKEN_PIPE: &str = "broken-pipe";

/// Failures of writing to standard output. Other files go through [`Failure::file`].
impl From<io::Error> for Failure {
    fn from(e: io::Error) -> Failure {
        match e.kind() {
            io::ErrorKind::BrokenPipe => Failure::new(BROKEN_PIPE, EXIT_OK, e.to_string()),
            _ => Failure::new("output", EXIT_OTHER, format!("cannot write output: {e}")),
        }
    }
}

impl From<RepoError> for Failure {
    fn from(e: RepoError) -> Failure {
        if let RepoError::Io { source, .. } = &e
            && source.kind() == io::ErrorKind::BrokenPipe
        {
            return Failure::new(BROKEN_PIPE, EXIT_OK, e.to_string());
        }
        let (code, exit, hint) = sort(&e);
        let mut message = e.to_string();
        if let RepoError::Refs(refs) = &e
            && (refs.is_refused() || matches!(refs, RefsError::ReadOnly(_)))
            && let Some(why) = why_unwritable()
        {
            message = format!("{message}: {why}");
        }
        let paths = match e {
            RepoError::WouldLose { paths, .. } | RepoError::EditedByHand { paths, .. } => paths,
            RepoError::Lacking(lacks) => lacks.into_iter().map(|lack| lack.path).collect(),
            _ => Vec::new(),
        };
        Failure {
            code,
            exit,
            message,
            hint,
            paths,
        }
    }
}

impl From<NetError> for Failure {
    fn from(e: NetError) -> Failure {
        let e = match e {
            NetError::Repo(RepoError::NotFound(path)) => {
                // It is not about the directory that the command was started in.
                let message = format!("no repository at {}", path.display());
                let failure = Failure::new("no-repository", EXIT_NO_REPOSITORY, message);
                return match like_ssh(&path) {
                    Some(url) => {
                        failure.hint(format!("this looks like an ssh address: write {url}"))
                    }
                    None => failure,
                };
            }
            NetError::Repo(e) => {
                let mut failure = Failure::from(e);
                if failure.exit == EXIT_DAMAGE {
                    failure.message.push_str(DAMAGED_HERE);
                }
                return failure;
            }
            e => e,
        };
        let mut message = e.to_string();
        if let NetError::Closed | NetError::Stalled(_) | NetError::Endless(_) = e {
            message.push_str("; received data is kept");
        }
        if let NetError::Partial { held, .. } = &e
            && let Some(words) = words(&**held)
        {
            message = format!("{message}: {words}");
        }
        if let NetError::Peer(Code::Damaged, _) = e {
            message.push_str(DAMAGED_THERE);
        }
        let (code, exit) = match &e {
            NetError::Unreachable { .. }
            | NetError::NotAtRelay { .. }
            | NetError::Closed
            | NetError::Stalled(_)
            | NetError::Endless(_)
            | NetError::NoProgram { .. }
            | NetError::NotDmv(_) => ("unreachable", EXIT_UNREACHABLE),
            NetError::NotLetIn { .. } => ("not-let-in", EXIT_PERMISSION),
            NetError::Version(_) => ("too-new", EXIT_TOO_NEW),
            NetError::Peer(code, _) => match code {
                Code::NoRepository => ("no-repository", EXIT_NO_REPOSITORY),
                Code::Denied => ("not-let-in", EXIT_PERMISSION),
                Code::Version => ("too-new", EXIT_TOO_NEW),
                Code::Busy => ("busy", EXIT_BUSY),
                Code::Damaged => ("damaged", EXIT_DAMAGE),
                _ => ("peer", EXIT_OTHER),
            },
            NetError::Sync(SyncError::Absent { .. }) | NetError::Partial { .. } => {
                ("absent", EXIT_ABSENT)
            }
            NetError::Listen(_) => ("listen", EXIT_OTHER),
            NetError::BadUrl { .. } => ("usage", EXIT_USAGE),
            NetError::Cancelled => ("interrupted", EXIT_INTERRUPTED),
            _ => ("protocol", EXIT_OTHER),
        };
        let hint = net_hint(&e);
        let failure = Failure::new(code, exit, message);
        match hint {
            Some(command) => failure.hint(command),
            None => failure,
        }
    }
}

/// Whose store a transfer has found damaged.
const DAMAGED_HERE: &str =
    "; the damage is in this repository, not in the remote one, and no branch or tag has moved";
const DAMAGED_THERE: &str =
    "; the damage is in the remote repository, not in this one, and received data is kept";

/// The command that looks for damage where `url` leads.
pub fn verify_there(url: &Url) -> String {
    let ssh = match url {
        Url::Path(path) => return format!("dmv -C {} verify", quoted(&path.to_string_lossy())),
        Url::Ssh(_) => ssh_to(&url.to_string()),
        #[cfg(feature = "quic")]
        Url::Quic(_) => None,
    };
    let found = ssh.and_then(|ssh| {
        let url = url.to_string();
        let path = url.strip_prefix("ssh://")?.split_once('/')?.1;
        Some(format!(
            "{ssh} dmv -C {} verify",
            quoted(&format!("/{path}"))
        ))
    });
    found.unwrap_or_else(|| "dmv verify, run in the other repository".to_owned())
}

/// The address that a path was perhaps meant to be: `user@host:path`, as scp writes it.
pub fn like_ssh(path: &Path) -> Option<String> {
    let path = path.to_str()?;
    let colon = path.find(':')?;
    let host = path[..colon].rsplit('/').next()?;
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.@".contains(c);
    if host.is_empty() || !host.chars().all(is_plain) {
        return None;
    }
    let rest = &path[colon + 1..];
    Some(match rest.starts_with('/') {
        true => format!("ssh://{host}{rest}"),
        false => format!("ssh://{host}/~/{rest}"),
    })
}

/// What to run next.
fn net_hint(e: &NetError) -> Option<String> {
    let command = match e {
        NetError::NotLetIn { place, .. } if is_key(place) => "dmv pair",
        NetError::Unreachable { place, .. } if is_key(place) => {
            "dmv peers --lan, to see which devices are reachable; the same command continues"
        }
        NetError::NotAtRelay { place, met, .. } => return Some(way_past_relay(place, *met)),
        NetError::NotLetIn { place, .. } | NetError::Unreachable { place, .. } => {
            return ssh_to(place).map(|ssh| format!("{ssh} dmv help"));
        }
        NetError::Closed => CONTINUE,
        NetError::Listen(_) => "dmv serve --listen IP:PORT, with a free port; port 0 takes any",
        NetError::NoProgram { .. } => "dmv config set --user ssh.command PROGRAM",
        NetError::Stalled(_) | NetError::Endless(_) => {
            "run the same command again to continue; to wait longer: \
             dmv config set --user net.patience SECONDS"
        }
        _ => return None,
    };
    Some(command.to_owned())
}

/// What helps where a device was found neither by its key nor at the relay. `met`: the relay has let
/// us in, so it is the other device that is not there.
fn way_past_relay(place: &str, met: bool) -> String {
    let key = place.split('@').next().unwrap_or(place);
    let other = match met {
        true => "dmv serve, on the other device, with the same net.relay",
        false => {
            "dmv config set --user net.relay URL, on both devices, with a relay that gives them access"
        }
    };
    format!(
        "{other}; or, without a relay, use the address that 'dmv serve --listen' prints: {key}@HOST:PORT"
    )
}

/// The command that shows whether ssh and the program at the other end work.
fn ssh_to(place: &str) -> Option<String> {
    let (host, _) = place.strip_prefix("ssh://")?.split_once('/')?;
    let (user, at) = match host.rsplit_once('@') {
        Some((user, at)) => (format!("{user}@"), at),
        None => (String::new(), host),
    };
    // A port follows the last colon, unless that is within the brackets of an address.
    let (name, port) = match at.rsplit_once(':') {
        Some((name, port)) if !port.contains(']') => (name, format!("-p {port} ")),
        _ => (at, String::new()),
    };
    let name = name.trim_matches(['[', ']']);
    Some(format!("ssh {port}{user}{name}"))
}

/// Whether a place is a device that is known by its key.
fn is_key(place: &str) -> bool {
    place.starts_with("dmv://")
}

impl From<ObjectError> for Failure {
    fn from(e: ObjectError) -> Failure {
        RepoError::from(e).into()
    }
}

impl From<RefsError> for Failure {
    fn from(e: RefsError) -> Failure {
        RepoError::from(e).into()
    }
}

impl From<PathError> for Failure {
    fn from(e: PathError) -> Failure {
        RepoError::from(e).into()
    }
}

#[cfg(feature = "quic")]
impl From<KeyError> for Failure {
    fn from(e: KeyError) -> Failure {
        let (code, exit, hint) = match &e {
            KeyError::Exposed { path, .. } => {
                let own = std::fs::metadata(path).is_ok_and(|stat| is_ours(&stat));
                let command = format!("chmod 600 {}", quoted(&path.to_string_lossy()));
                ("key-exposed", EXIT_PERMISSION, own.then_some(command))
            }
            KeyError::Malformed { path, .. } => {
                let path = path.to_string_lossy();
                let command = format!("mv {} {}", quoted(&path), quoted(&format!("{path}.bad")));
                ("key-malformed", EXIT_PERMISSION, Some(command))
            }
            KeyError::Io { source, .. } => sort_io(source, true),
        };
        Failure {
            hint,
            ..Failure::new(code, exit, e.to_string())
        }
    }
}

#[cfg(feature = "quic")]
fn is_ours(stat: &std::fs::Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;
    stat.uid() == rustix::process::geteuid().as_raw()
}

#[cfg(feature = "quic")]
impl From<QuicError> for Failure {
    fn from(e: QuicError) -> Failure {
        NetError::from(e).into()
    }
}

#[cfg(feature = "quic")]
impl From<PairError> for Failure {
    fn from(e: PairError) -> Failure {
        let (code, exit, hint) = match e {
            PairError::Quic(e) => return e.into(),
            PairError::OtherCode => hinted("other-code", EXIT_PERMISSION, "dmv pair"),
            PairError::Nobody => hinted("nobody-there", EXIT_UNREACHABLE, "dmv pair --help"),
            PairError::Declined(_) => ("declined", EXIT_PERMISSION, None),
            PairError::Stopped => ("interrupted", EXIT_INTERRUPTED, None),
        };
        Failure {
            hint,
            ..Failure::new(code, exit, e.to_string())
        }
    }
}

/// Hints that several failures share.
const NEWER: &str = "install a newer version of dmv";
const LATER: &str = "run the same command again when the other one has ended";
const AGAIN: &str = "run the same command again";
const CONTINUE: &str = "run the same command again to continue";
const FULL: &str = "free some disk space, then run the same command again";

type Sorted = (&'static str, u8, Option<String>);

fn hinted(code: &'static str, exit: u8, command: &str) -> Sorted {
    (code, exit, Some(command.to_owned()))
}

/// Code, exit code and hint of an error.
fn sort(e: &RepoError) -> Sorted {
    match e {
        RepoError::NotFound(_) => hinted("no-repository", EXIT_NO_REPOSITORY, "dmv init"),
        RepoError::Exists(_) => hinted("exists", EXIT_OTHER, "dmv status"),
        RepoError::ForeignOwner(dmv) => {
            let (read, trust) = (way_to_read(dmv), way_to_trust(dmv));
            let hint = format!("to read it: {read}; to trust it: {trust}");
            ("foreign-owner", EXIT_PERMISSION, Some(hint))
        }
        RepoError::TooNew { .. } | RepoError::Object(ObjectError::TooNew { .. }) => {
            hinted("too-new", EXIT_TOO_NEW, NEWER)
        }
        RepoError::Damaged { path, .. } => match path.file_name() {
            // What `recover` makes anew; `verify` would fail in the same way.
            Some(name) if name == "format" || name == "refs.db" => damaged("dmv recover"),
            Some(name) if name == DMV_DIR => ("damaged", EXIT_DAMAGE, None),
            _ => damaged("dmv verify"),
        },
        RepoError::Object(_) => damaged("dmv verify"),
        RepoError::NoFormat(_) => damaged("dmv recover"),
        RepoError::NoPacks(_) => damaged("dmv clone SOURCE DIR"),
        RepoError::Symlink(_) => ("symlink", EXIT_DAMAGE, None),
        RepoError::NoDatabase(_) => damaged("dmv recover"),
        RepoError::NoWorktree => ("no-worktree", EXIT_OTHER, way_to_worktree()),
        RepoError::Busy(_) => hinted("busy", EXIT_BUSY, LATER),
        RepoError::Revision(RevisionError::Unknown(_)) => {
            hinted("unknown-revision", EXIT_OTHER, "dmv branch")
        }
        RepoError::Revision(RevisionError::Ambiguous { candidates, .. }) => {
            let hint = candidates
                .first()
                .map(|id| format!("dmv show {}", id.short(16)));
            ("ambiguous-revision", EXIT_OTHER, hint)
        }
        RepoError::Revision(_) => hinted("bad-revision", EXIT_OTHER, "dmv log"),
        RepoError::NoSuchPath { revision, .. } => {
            let hint = format!("dmv ls -r {revision}");
            ("no-such-path", EXIT_OTHER, Some(hint))
        }
        RepoError::BadPath { .. } => ("bad-path", EXIT_OTHER, None),
        RepoError::WrongKind { .. } => ("wrong-kind", EXIT_OTHER, None),
        RepoError::RefName(_) => ("bad-name", EXIT_OTHER, None),
        RepoError::RefExists { kind, .. } => {
            ("ref-exists", EXIT_OTHER, Some(format!("dmv {kind}")))
        }
        RepoError::NoRef { kind, .. } => {
            // One that another repository was to have is not listed here.
            let is_ours = ["branch", "tag"].contains(kind);
            ("no-ref", EXIT_OTHER, is_ours.then(|| format!("dmv {kind}")))
        }
        RepoError::InUse { at, .. } => {
            let at = quoted(at);
            let hint = format!("dmv -C {at} checkout BRANCH, to switch it to another branch first");
            ("in-use", EXIT_REFUSED, Some(hint))
        }
        RepoError::WouldLose { .. } => hinted(
            "would-lose",
            EXIT_REFUSED,
            "dmv commit -m MESSAGE, to keep them; or dmv status, to see them",
        ),
        RepoError::EditedByHand { paths, .. } => {
            let path = quoted(&String::from_utf8_lossy(&paths[0]));
            let hint = format!("dmv restore {path}, then resolve it again");
            ("would-lose", EXIT_REFUSED, Some(hint))
        }
        RepoError::TooMuchToKeep { .. } => hinted(
            "too-much-to-keep",
            EXIT_REFUSED,
            "dmv config set undo.keep-max-size SIZE",
        ),
        RepoError::NotKept { .. } => hinted(
            "not-kept",
            EXIT_REFUSED,
            "dmv status; or add -y, to overwrite it for good",
        ),
        RepoError::Moved {
            name,
            base,
            forward,
            ..
        } => {
            let name = quoted(name);
            let hint = match (base, forward) {
                (Some(base), false) => format!(
                    "dmv checkout -b NAME {}, to keep your edits on a new branch; or dmv checkout {name}, to update the files",
                    base.short(12)
                ),
                _ => format!(
                    "dmv commit -m MESSAGE, to keep your edits; or dmv checkout {name}, to update the files"
                ),
            };
            ("branch-moved", EXIT_REFUSED, Some(hint))
        }
        RepoError::NotFree { .. } => ("not-free", EXIT_REFUSED, None),
        RepoError::NoSuchWorktree(_) => hinted("no-such-worktree", EXIT_OTHER, "dmv worktree list"),
        RepoError::OwnWorktree(_) => hinted("own-worktree", EXIT_REFUSED, "dmv worktree list"),
        RepoError::WorktreeCopy { at, .. } => {
            let hint = format!("dmv -C {} worktree add DIR", at.display());
            ("worktree-copy", EXIT_REFUSED, Some(hint))
        }
        RepoError::LostRepository { worktree, .. } => {
            let hint = format!("dmv -C REPOSITORY worktree repair {}", worktree.display());
            ("lost-repository", EXIT_NO_REPOSITORY, Some(hint))
        }
        RepoError::NoOperation { .. } => hinted("no-operation", EXIT_OTHER, "dmv op log"),
        RepoError::NothingToUndo => hinted("nothing-to-undo", EXIT_OTHER, "dmv op log"),
        RepoError::NothingToRedo => hinted("nothing-to-redo", EXIT_OTHER, "dmv op log"),
        RepoError::ChangedSince {
            by: Some((id, _)), ..
        } => (
            "changed-since",
            EXIT_REFUSED,
            Some(format!("dmv undo {id}")),
        ),
        RepoError::ChangedSince { .. } | RepoError::NotUndone { .. } => {
            hinted("not-undone", EXIT_REFUSED, "dmv op log")
        }
        RepoError::Unfinished { command } => {
            let hint = format!("{command}, to continue; or dmv status, to see how to go back");
            ("unfinished", EXIT_REFUSED, Some(hint))
        }
        RepoError::NotFastForward { .. } => hinted(
            "not-fast-forward",
            EXIT_REFUSED,
            "the same command without --ff-only, to combine them in a merge commit",
        ),
        RepoError::Mainline { commit, .. } => {
            let hint = format!("dmv revert {} --mainline 1", commit.short(12));
            ("mainline", EXIT_USAGE, Some(hint))
        }
        RepoError::TooManySides { .. } => hinted("too-many-sides", EXIT_OTHER, "dmv conflicts"),
        RepoError::NoConflict { .. } => hinted("no-conflict", EXIT_OTHER, "dmv conflicts"),
        RepoError::Collision(..) => ("name-collision", EXIT_OTHER, None),
        RepoError::OutsideSubset(path) => {
            let path = quoted(&String::from_utf8_lossy(path));
            let hint = format!("dmv subset add {path}");
            ("outside-subset", EXIT_OTHER, Some(hint))
        }
        RepoError::NoCommit => hinted("no-commit", EXIT_OTHER, "dmv commit -m MESSAGE"),
        RepoError::Absent {
            ty: ObjectType::Commit,
            ..
        } => hinted("absent", EXIT_ABSENT, "dmv fetch --all-history"),
        RepoError::Absent { .. } | RepoError::Lacking(_) => {
            hinted("absent", EXIT_ABSENT, "dmv get PATH")
        }
        RepoError::Freeing(_) => hinted("busy", EXIT_BUSY, LATER),
        RepoError::Unconfirmed => hinted("unconfirmed", EXIT_REFUSED, AGAIN),
        RepoError::Store(e) => sort_store(e),
        RepoError::Refs(e) => sort_refs(e),
        RepoError::Path(e) => sort_io(&e.source, false),
        RepoError::Io { source, .. } => sort_io(source, true),
        RepoError::Cancelled => ("interrupted", EXIT_INTERRUPTED, None),
        RepoError::Text(_) => ("bad-text", EXIT_OTHER, None),
    }
}

/// The command that leads out of the `.dmv` directory of a worktree, if that is where we are.
fn way_to_worktree() -> Option<String> {
    let place = find_own().ok()?;
    let is_inside = place.dmv.file_name().is_some_and(|name| name == DMV_DIR);
    let root = place.dmv.parent().filter(|_| is_inside)?;
    Some(format!("cd {}", quoted(&root.to_string_lossy())))
}

fn damaged(hint: &str) -> Sorted {
    hinted("damaged", EXIT_DAMAGE, hint)
}

fn sort_store(e: &StoreError) -> Sorted {
    match e {
        StoreError::Io { source, .. } | StoreError::SyncFailed { source, .. } => {
            sort_io(source, true)
        }
        StoreError::DamagedObject { .. } | StoreError::DamagedFile { .. } => damaged("dmv verify"),
        StoreError::DamagedTable { .. } => damaged("dmv recover"),
        StoreError::Catalogue { .. } => ("refs", EXIT_OTHER, None),
        StoreError::TooNew { .. } => hinted("too-new", EXIT_TOO_NEW, NEWER),
        StoreError::Poisoned { .. } => hinted("poisoned", EXIT_OTHER, "dmv verify"),
        StoreError::Cancelled => ("interrupted", EXIT_INTERRUPTED, None),
        StoreError::TooLarge { .. } => ("too-large", EXIT_OTHER, None),
    }
}

fn sort_refs(e: &RefsError) -> Sorted {
    match e {
        RefsError::MayCount(e) => sort_refs(e),
        _ if e.is_busy() => hinted("busy", EXIT_BUSY, LATER),
        _ if e.is_damage() => damaged("dmv recover"),
        _ if e.is_refused() => sort_unwritable(),
        RefsError::TooNew(_) | RefsError::NewerOperation => hinted("too-new", EXIT_TOO_NEW, NEWER),
        RefsError::Moved { .. } | RefsError::PackGone(_) => {
            hinted("changed-meanwhile", EXIT_BUSY, AGAIN)
        }
        RefsError::Replaced(db) if !db.exists() => damaged("dmv recover"),
        RefsError::Replaced(_) => hinted("changed-meanwhile", EXIT_BUSY, AGAIN),
        RefsError::NotStored { .. } => damaged("dmv verify"),
        RefsError::ReadOnly(_) => sort_unwritable(),
        RefsError::Lock { source, .. } => sort_io(source, true),
        _ if e.is_disk_full() => hinted("disk-full", EXIT_OTHER, FULL),
        RefsError::Log(e) => sort_store(e),
        _ => ("refs", EXIT_OTHER, None),
    }
}

/// A database that cannot be written to, by what the system says about writing beside it.
fn sort_unwritable() -> Sorted {
    match why_unwritable() {
        Some(e) => sort_io(&e, true),
        None => ("refs", EXIT_OTHER, None),
    }
}

/// Why nothing can be written into the repository: SQLite does not tell. The system is asked, and
/// nothing is written to find out.
fn why_unwritable() -> Option<io::Error> {
    use rustix::fs::{Access, access, statvfs};
    let place = find_own().ok()?;
    // On a file system that is mounted read-only it says so, whatever the permissions are.
    if let Err(e) = access(&place.dmv, Access::WRITE_OK | Access::EXEC_OK) {
        return Some(e.into());
    }
    let disk = statvfs(&place.dmv).ok()?;
    let room = disk.f_bavail.saturating_mul(disk.f_frsize);
    let has_files = disk.f_files == 0 || disk.f_favail > 0;
    let is_full = room < ROOM_BYTES || !has_files;
    is_full.then(|| io::ErrorKind::StorageFull.into())
}

/// As much as SQLite needs to open a database for writing.
const ROOM_BYTES: u64 = 64 << 10;

/// `own`: it is a file of the repository, where a permission is the user's to set.
fn sort_io(e: &io::Error, own: bool) -> Sorted {
    match e.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            hinted("disk-full", EXIT_OTHER, FULL)
        }
        io::ErrorKind::FileTooLarge => hinted("file-limit", EXIT_OTHER, "ulimit -f unlimited"),
        io::ErrorKind::ReadOnlyFilesystem => ("read-only", EXIT_OTHER, None),
        io::ErrorKind::PermissionDenied if own => ("permission", EXIT_PERMISSION, None),
        _ => ("io", EXIT_OTHER, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_the_relay_is_of_no_help_the_hint_says_what_is() {
        for place in ["dmv://8f4c", "dmv://8f4c@nas:4711"] {
            for (met, helps) in [(true, "dmv serve, on the other"), (false, "net.relay URL")] {
                let (place, why) = (place.to_owned(), "the time is up".to_owned());
                let failure = Failure::from(NetError::NotAtRelay { place, why, met });
                assert_eq!(failure.exit, EXIT_UNREACHABLE);
                let hint = failure.hint.unwrap_or_default();
                assert!(hint.contains(helps), "{hint}");
                assert!(hint.ends_with(": dmv://8f4c@HOST:PORT"), "{hint}");
            }
        }
    }
}
