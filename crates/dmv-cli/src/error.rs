//! From an error of the library to the failure that the user sees: its code, exit code and hint.

mod bucket;
#[cfg(feature = "git")]
mod git;
mod repo;

pub use repo::way_to_rename;

use crate::failure::{
    BROKEN_PIPE, EXIT_ABSENT, EXIT_BUSY, EXIT_DAMAGE, EXIT_INTERRUPTED, EXIT_NO_REPOSITORY,
    EXIT_OK, EXIT_OTHER, EXIT_PERMISSION, EXIT_REFUSED, EXIT_TOO_NEW, EXIT_UNREACHABLE, EXIT_USAGE,
    Failure,
};
use crate::partial_repository::{purge_words, words};
use bucket::{bucket_hint, sort_bucket};
use dmv_core::escape::Argument;
use dmv_core::escape::Hint;
use dmv_core::hint;
use dmv_core::job::Cancelled;
use dmv_core::object::ObjectError;
use dmv_core::object::name::RepoPath;
use dmv_core::path::{DiskPath, PathError};
use dmv_core::platform::argument_bytes;
#[cfg(feature = "quic")]
use dmv_core::platform::{is_of_this_user, open_named};
use dmv_core::refs::RefsError;
use dmv_core::repo::{
    AbsentError, ConflictError, FilesError, PlaceError, Purge, RepoError, RevisionError,
    WorktreeError,
};
#[cfg(feature = "quic")]
use dmv_net::identity::KeyError;
use dmv_net::session::NetError;
use dmv_net::sync::SyncError;
use dmv_net::transport::Url;
#[cfg(feature = "quic")]
use dmv_net::transport::quic::{PairError, QuicError};
use dmv_net::wire::Code;
pub use repo::way_to_name;
use repo::{CONTINUE, sort, why_unwritable};
#[cfg(feature = "quic")]
use repo::{hinted, sort_io};
use std::io;
use std::path::Path;

impl From<Cancelled> for Failure {
    fn from(Cancelled: Cancelled) -> Failure {
        RepoError::Cancelled.into()
    }
}

impl From<RepoError> for Failure {
    fn from(e: RepoError) -> Failure {
        repo_failure(&e)
    }
}

fn repo_failure(e: &RepoError) -> Failure {
    if let RepoError::Io(io) = e
        && io.kind() == io::ErrorKind::BrokenPipe
    {
        return Failure::new(BROKEN_PIPE, EXIT_OK, e.to_string());
    }
    let (code, exit, hint) = sort(e);
    Failure {
        code,
        exit,
        message: repo_message(e),
        details: Box::default(),
        hint,
        paths: paths_of(e).into(),
        no_revision: match e {
            RepoError::Revision(RevisionError::Unknown(name)) => Some(name.as_str().into()),
            _ => None,
        },
    }
}

/// What the error says. SQLite does not tell why it cannot write, so the system is asked.
fn repo_message(e: &RepoError) -> String {
    if let RepoError::Refs(refs) = e
        && (refs.is_refused() || matches!(refs, RefsError::ReadOnly(_)))
        && let Some(why) = why_unwritable()
    {
        // The directory stands in the message already.
        return match refs {
            RefsError::ReadOnly(path) if path.starts_with(why.path.to_path_buf()) => {
                format!("{e}: {}", why.source)
            }
            _ => format!("{e}: {why}"),
        };
    }
    match e {
        RepoError::Absent(AbsentError::Purged { path, purge, .. }) => purged(path.as_ref(), purge),
        e => e.to_string(),
    }
}

/// What was purged, when and why. The library does not know how to write a day.
fn purged(path: Option<&RepoPath>, purge: &Purge) -> String {
    let what = match path {
        None => "this content".to_owned(),
        Some(path) => format!("the content of '{path}'"),
    };
    format!("{what} was {}", purge_words(purge))
}

/// The paths that an error is about, where there may be many.
fn paths_of(e: &RepoError) -> Vec<Vec<u8>> {
    let bytes = |path: &DiskPath| path.as_bytes().to_vec();
    match e {
        RepoError::Files(FilesError::WouldLose { paths, .. })
        | RepoError::Worktree(WorktreeError::WouldLoseThere { paths, .. })
        | RepoError::Conflict(ConflictError::EditedByHand { paths, .. }) => {
            paths.iter().map(bytes).collect()
        }
        RepoError::Absent(AbsentError::Purged { path, .. }) => {
            path.iter().map(|path| path.as_bytes().to_vec()).collect()
        }
        RepoError::Absent(AbsentError::Lacking(lacks)) => lacks
            .iter()
            .map(|lack| lack.path.clone().into_bytes())
            .collect(),
        _ => Vec::new(),
    }
}

impl From<NetError> for Failure {
    fn from(e: NetError) -> Failure {
        net_failure(&e)
    }
}

/// The failure of a session.
pub fn net_failure(e: &NetError) -> Failure {
    match e {
        NetError::Repo(RepoError::Place(PlaceError::NotFound(path))) => nothing_there(path),
        NetError::Repo(e) => {
            let mut failure = repo_failure(e);
            if failure.exit == EXIT_DAMAGE {
                failure.message.push_str(DAMAGED_HERE);
            }
            failure
        }
        NetError::Caller(e) => match e.downcast_ref::<Failure>() {
            Some(failure) => failure.clone(),
            None => Failure::new("settings", EXIT_OTHER, e.to_string()),
        },
        e => {
            let (code, exit) = sort_net(e);
            let failure = Failure::new(code, exit, net_message(e));
            match net_hint(e) {
                Some(command) => failure.hint(command),
                None => failure,
            }
        }
    }
}

/// The failure where another repository was looked for: not in the directory that the command was
/// started in.
fn nothing_there(path: &Path) -> Failure {
    let message = format!("no repository at {}", path.display());
    let failure = Failure::new("no-repository", EXIT_NO_REPOSITORY, message);
    if let (Some(url), Some((host, rest))) = (like_ssh(path), scp_parts(path)) {
        let url = Argument::value(url);
        let given = format!("{host}:{rest}");
        if may_be_of_git(&given) {
            let given = Argument::value(given);
            let hint = hint!(
                "dmv import git {}, if it is a repository of Git; otherwise write {}",
                given,
                url
            );
            return failure.hint(hint);
        }
        return failure.hint(hint!("this looks like an ssh address: write {}", url));
    }
    if is_of_git(path) {
        let path = Argument::on_disk(path);
        return failure.hint(hint!("it is a repository of Git: dmv import git {}", path));
    }
    failure
}

/// Whether an address looks like one of a repository of Git: by its end, its user, or its host, such as `git.x.org`.
pub fn may_be_of_git(address: &str) -> bool {
    let (scheme, rest) = address.split_once("://").unwrap_or(("", address));
    let host = rest.split(['/', ':']).next().unwrap_or_default();
    let (user, host) = host.split_once('@').unwrap_or(("", host));
    let is_elsewhere = !scheme.is_empty() || rest.contains(':');
    let is_named = address.trim_end_matches('/').ends_with(".git") || scheme == "git";
    is_elsewhere && (is_named || user == "git" || host.starts_with("git"))
}

/// Whether there is a repository of Git, as far as names of files tell.
fn is_of_git(path: &Path) -> bool {
    path.join(".git").exists() || path.join("HEAD").is_file() && path.join("objects").is_dir()
}

fn net_message(e: &NetError) -> String {
    let mut message = e.to_string();
    if let NetError::Closed | NetError::Lost(_) | NetError::Stalled(_) | NetError::Endless(_) = e {
        message.push_str("; received data is kept");
    }
    if let NetError::Partial { held, .. } = e
        && let Some(words) = words(&**held)
    {
        message = format!("{message}: {words}");
    }
    if let NetError::Peer(Code::Damaged, _) = e {
        message.push_str(DAMAGED_THERE);
    }
    message
}

/// Code and exit code of an error between peers.
fn sort_net(e: &NetError) -> (&'static str, u8) {
    match e {
        NetError::Unreachable { .. }
        | NetError::NotAtRelay { .. }
        | NetError::Closed
        | NetError::Lost(_)
        | NetError::Stalled(_)
        | NetError::Endless(_)
        | NetError::NoProgram { .. }
        | NetError::NoDmv { .. }
        | NetError::NotDmv(_) => ("unreachable", EXIT_UNREACHABLE),
        NetError::NotLetIn { .. } => ("not-let-in", EXIT_PERMISSION),
        NetError::Version(_) | NetError::CannotCreate { .. } => ("too-new", EXIT_TOO_NEW),
        NetError::Peer(code, _) => match code {
            Code::NoRepository => ("no-repository", EXIT_NO_REPOSITORY),
            Code::Denied => ("not-let-in", EXIT_PERMISSION),
            Code::Version => ("too-new", EXIT_TOO_NEW),
            Code::Busy => ("busy", EXIT_BUSY),
            Code::Damaged => ("damaged", EXIT_DAMAGE),
            Code::Full => ("full", EXIT_OTHER),
            _ => ("peer", EXIT_OTHER),
        },
        NetError::Sync(SyncError::Absent { .. })
        | NetError::Partial { .. }
        | NetError::Lacking(_) => ("absent", EXIT_ABSENT),
        NetError::Purged { .. } => ("purged", EXIT_REFUSED),
        NetError::Listen(_) => ("listen", EXIT_OTHER),
        NetError::Thread(_) => ("no-thread", EXIT_OTHER),
        NetError::BadUrl { .. } => ("usage", EXIT_USAGE),
        NetError::Bucket { trouble, .. } => sort_bucket(trouble),
        NetError::Cancelled => ("interrupted", EXIT_INTERRUPTED),
        _ => ("protocol", EXIT_OTHER),
    }
}

/// How the words begin that say whose store is damaged.
pub const IN_ONE_OF_BOTH: &str = "; the damage is in ";
/// Whose store a transfer has found damaged.
const DAMAGED_HERE: &str =
    "; the damage is in this repository, not in the remote one, and no branch or tag has moved";
const DAMAGED_THERE: &str =
    "; the damage is in the remote repository, not in this one, and received data is kept";

/// The command that looks for damage where `url` leads.
pub fn verify_there(url: &Url) -> Hint {
    run_there(url, "verify")
}

/// The command that frees space where `url` leads.
pub fn free_there(url: &Url) -> Hint {
    run_there(url, "gc")
}

/// A command without arguments, in the repository where `url` leads.
fn run_there(url: &Url, verb: &str) -> Hint {
    let run = |path| hint!("dmv -C {} {}", path, Argument::value(verb));
    let found = match url {
        Url::Path(path) => Some(run(Argument::on_disk(path))),
        url => over_ssh(&url.to_string(), run),
    };
    let there = || hint!("dmv {}, run in the other repository", Argument::value(verb));
    found.unwrap_or_else(there)
}

/// The command line that runs a command with the path of an ssh address at its host.
fn over_ssh(place: &str, command: impl FnOnce(Argument) -> Hint) -> Option<Hint> {
    let ssh = ssh_to(place)?;
    let path = place.strip_prefix("ssh://")?.split_once('/')?.1;
    // Below the home directory, where a login begins.
    let path = path
        .strip_prefix("~/")
        .map_or_else(|| format!("/{path}"), str::to_owned);
    // Two shells read it.
    let command = command(Argument::on_disk(path));
    let command = Argument::value(command.as_str());
    Some(hint!("{} {}", ssh, command))
}

/// The address that a path was perhaps meant to be: `user@host:path`, as scp writes it.
pub fn like_ssh(path: &Path) -> Option<String> {
    let (host, rest) = scp_parts(path)?;
    Some(if rest.starts_with('/') {
        format!("ssh://{host}{rest}")
    } else {
        format!("ssh://{host}/~/{rest}")
    })
}

/// What stands before and behind the colon of such a path.
fn scp_parts(path: &Path) -> Option<(String, String)> {
    let text = String::from_utf8(argument_bytes(path).into_owned()).ok()?;
    // A drive of Windows is no host. Elsewhere a host of one letter gets no hint for that.
    let text = match text.as_bytes() {
        [drive, b':', b'/', ..] if drive.is_ascii_alphabetic() => &text[3..],
        _ => &text,
    };
    let (host, rest) = text.split_once(':')?;
    let host = host.rsplit('/').next()?;
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.@".contains(c);
    let is_host = !host.is_empty() && host.chars().all(is_plain);
    is_host.then(|| (host.to_owned(), rest.to_owned()))
}

/// What to run next.
fn net_hint(e: &NetError) -> Option<Hint> {
    let command = match e {
        NetError::NotLetIn { place, .. } if is_key(place) => "dmv pair",
        NetError::Unreachable { place, .. } if is_key(place) => {
            "dmv peers --lan, to see which devices are reachable; the same command continues"
        }
        NetError::NotAtRelay { place, met, .. } => return Some(way_past_relay(place, *met)),
        NetError::CannotCreate { place } => {
            return over_ssh(place, |path| hint!("dmv init --bare {}", path));
        }
        NetError::NoDmv { program, .. } => {
            return Some(hint!(
                "dmv config set --user ssh.remote /PATH/TO/dmv, with its path there; or install {} there",
                Argument::value(program)
            ));
        }
        NetError::NotLetIn { place, .. } | NetError::Unreachable { place, .. } => {
            return ssh_to(place).map(|ssh| hint!("{} dmv help", ssh));
        }
        NetError::Purged { .. } => {
            "dmv purge PATH --reason REASON, to purge it here, too; then push again"
        }
        NetError::Bucket { place, trouble } => return bucket_hint(place, trouble),
        NetError::Closed | NetError::Lost(_) => CONTINUE,
        NetError::Listen(_) => "dmv serve --listen IP:PORT, with a free port; port 0 takes any",
        NetError::Thread(_) => repo::FEWER_PROCESSES,
        NetError::NoProgram { .. } => "dmv config set --user ssh.command PROGRAM",
        NetError::Stalled(_) | NetError::Endless(_) => {
            "run the same command again to continue; to wait longer: \
             dmv config set --user net.patience SECONDS"
        }
        _ => return None,
    };
    Some(command.into())
}

/// What helps where a device was found neither by its key nor at the relay. `met`: the relay has let
/// us in, so it is the other device that is not there.
fn way_past_relay(place: &str, met: bool) -> Hint {
    let key = place.split('@').next().unwrap_or(place);
    let other = if met {
        "dmv serve, on the other device, with the same net.relay"
    } else {
        "dmv config set --user net.relay URL, on both devices, with a relay that gives them access"
    };
    hint!(
        "{}; or, without a relay, use the address that 'dmv serve --listen' prints: {}@HOST:PORT",
        other,
        Argument::value(key)
    )
}

/// The command that shows whether ssh and the program at the other end work.
fn ssh_to(place: &str) -> Option<Hint> {
    let (host, _) = place.strip_prefix("ssh://")?.split_once('/')?;
    let (user, at) = match host.rsplit_once('@') {
        Some((user, at)) => (format!("{user}@"), at),
        None => (String::new(), host),
    };
    // A port follows the last colon, unless that is within the brackets of an address.
    let (name, port) = match at.rsplit_once(':') {
        Some((name, port)) if !port.contains(']') => (name, Some(Argument::value(port))),
        _ => (at, None),
    };
    let name = name.trim_matches(['[', ']']);
    let host = Argument::value(format!("{user}{name}"));
    Some(match port {
        Some(port) => hint!("ssh -p {} {}", port, host),
        None => hint!("ssh {}", host),
    })
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
                let own = open_named(path).and_then(|file| is_of_this_user(&file));
                let own = own.unwrap_or(false);
                let command = hint!("chmod 600 {}", Argument::on_disk(path));
                ("key-exposed", EXIT_PERMISSION, own.then_some(command))
            }
            KeyError::Malformed { path, .. } => {
                let mut aside = path.clone().into_os_string();
                aside.push(".bad");
                let (path, aside) = (Argument::on_disk(path), Argument::on_disk(aside));
                let command = hint!("mv {} {}", path, aside);
                ("key-malformed", EXIT_PERMISSION, Some(command))
            }
            KeyError::Io { source, .. } => sort_io(source),
        };
        Failure {
            hint,
            ..Failure::new(code, exit, e.to_string())
        }
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_git_are_known_by_their_look() {
        for address in [
            "git@host:x",
            "host:film.git",
            "https://example.org/x.git/",
            "https://github.com/a/b",
            "git://example.org/x",
            "ssh://git@example.org/x",
            "gitlab.org:x",
        ] {
            assert!(may_be_of_git(address), "{address}");
        }
        for address in [
            "film.git",
            "nas:/srv/film",
            "ssh://nas/srv/film",
            "git",
            "s3://x/git",
        ] {
            assert!(!may_be_of_git(address), "{address}");
        }
    }

    #[test]
    fn a_path_as_scp_writes_it_becomes_an_address_and_a_drive_is_no_host() {
        let like = |path: &str| like_ssh(Path::new(path));
        assert_eq!(like("nas:/srv").as_deref(), Some("ssh://nas/srv"));
        let below = like("C:/films/me@nas:srv/film");
        assert_eq!(below.as_deref(), Some("ssh://me@nas/~/srv/film"));
        assert_eq!(like("C:/films/a"), None);
        assert_eq!(like("films/a"), None);
    }

    #[test]
    fn where_the_relay_is_of_no_help_the_hint_says_what_is() {
        for place in ["dmv://8f4c", "dmv://8f4c@nas:4711"] {
            for (met, helps) in [(true, "dmv serve, on the other"), (false, "net.relay URL")] {
                let (place, why) = (place.to_owned(), "the time is up".to_owned());
                let failure = Failure::from(NetError::NotAtRelay { place, why, met });
                assert_eq!(failure.exit, EXIT_UNREACHABLE);
                let hint = failure
                    .hint
                    .map(|hint| hint.to_string())
                    .unwrap_or_default();
                assert!(hint.contains(helps), "{hint}");
                assert!(hint.ends_with(": dmv://8f4c@HOST:PORT"), "{hint}");
            }
        }
    }
}
