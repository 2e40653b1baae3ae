//! Fetching content that a command lacks: what is said if no remote has it.

use crate::context::Context;
use crate::failure::{EXIT_ABSENT, EXIT_INTERRUPTED, EXIT_NO_REPOSITORY, EXIT_REFUSED, Failure};
use crate::format::text::SHORT_ID;
use crate::ownership::{find_own, path_argument};
use crate::partial_repository::{expiry_words, words};
use crate::peers::{Call, no_such_ref, session_failure, tell_skipped, why_silent};
use crate::room;
use dmv_core::escape::Argument;
use dmv_core::escape::Hint;
use dmv_core::hash::ObjectId;
use dmv_core::hint;
use dmv_core::object::ObjectType;
use dmv_core::object::name::escape;
use dmv_core::object::root::{Lack, Root};
use dmv_core::repo::{HEAD, Location, PlaceError, Repo, RepoError};
use dmv_net::ops::{self, Absent, Answer, OpsError, PeerAnswer, Remote};
use dmv_net::session::NetError;
use dmv_net::transport::Url;
use std::collections::HashSet;
use std::path::Path;

/// Paths that a message names.
const MAX_PATHS_NAMED: usize = 3;

/// Runs `work`, after fetching what it turns out to lack. `doing`: the words of the progress.
pub fn supplied<T>(
    context: &Context,
    repo: &Repo,
    doing: &'static str,
    work: impl FnMut() -> Result<T, RepoError>,
) -> Result<T, Failure> {
    let call = Call::to(context, doing);
    let supplied = ops::supplied(repo, &call, &context.job, work);
    drop(call);
    let supplied = supplied.map_err(|e| ops_failure(context, e))?;
    tell_skipped(context, supplied.skipped);
    Ok(supplied.done?)
}

/// Fetches the ignore files outside of the worktree's subset whose rules hold in it. If no remote gives
/// them, the command that needs them says what it leaves out.
pub fn bring_rules(context: &Context, repo: &Repo) -> Result<(), Failure> {
    let settings = context.settings()?;
    let fetched = supplied(context, repo, "fetching ignore files", || {
        repo.check_rules_here(&settings)
    });
    match fetched {
        Err(failure) if failure.exit == EXIT_INTERRUPTED => Err(failure),
        _ => Ok(()),
    }
}

/// The failure of a command of `ops`.
pub fn ops_failure(context: &Context, e: OpsError) -> Failure {
    let failure = sorted(context, e);
    match find_own() {
        Ok(place) => room::told(&context.job, &place.dmv, failure),
        Err(_) => failure,
    }
}

fn sorted(context: &Context, e: OpsError) -> Failure {
    match e {
        OpsError::Session(e) => match e.source {
            NetError::Lacking(objects) => cannot_give(context, &objects),
            _ => session_failure(*e),
        },
        OpsError::Repo(e) => e.into(),
        OpsError::Net(e) => e.into(),
        OpsError::Absent(absent) => absent_failure(context, &absent),
        OpsError::NoSuchRef { remote, name } => no_such_ref(&remote, &name),
        OpsError::NotNew { .. } => Failure::new("exists", EXIT_REFUSED, e.to_string()),
    }
}

/// The failure of a command with a remote, which it names.
pub fn remote_failure(context: &Context, remote: &Remote, e: OpsError) -> Failure {
    let is_theirs = match &e {
        OpsError::Session(e) => match &e.source {
            NetError::Repo(RepoError::Place(PlaceError::NotFound(_))) => true,
            NetError::Repo(_) | NetError::Caller(_) | NetError::Thread(_) => false,
            NetError::Cancelled | NetError::BadUrl { .. } => false,
            _ => true,
        },
        _ => false,
    };
    let mut failure = ops_failure(context, e);
    if !is_theirs {
        return failure;
    }
    if let (false, Some(hint)) = (remote.once, &failure.hint) {
        failure.hint = Some(hint.for_remote(&remote.name));
    }
    // An address is mostly part of the message already.
    let names_it = |name: &str| remote.once && failure.message.contains(name);
    if !names_it(&remote.name) && !names_it(&remote.url.to_string()) {
        failure.message = format!("remote {}: {}", remote.name, failure.message);
    }
    if failure.exit == EXIT_NO_REPOSITORY
        && failure.hint.is_none()
        && let Some(hint) = way_to_a_repository(context, remote)
    {
        failure = failure.hint(hint);
    }
    failure
}

/// What to do where a remote's address leads to nothing: connect it, or create a repository there.
fn way_to_a_repository(context: &Context, remote: &Remote) -> Option<Hint> {
    let is_sent = ["push", "sync"].contains(&&context.command[..]);
    let create = hint!("dmv push {} --create", Argument::value(&remote.name));
    let see: Option<Hint> = (!remote.once).then(|| "dmv remote, to see its address".into());
    let connect = "run the same command again when it is connected";
    match &remote.url {
        // Its directory is not there either: a disk, or a share.
        Url::Path(path) if !path.parent().is_some_and(Path::is_dir) => {
            Some(see.map_or(connect.into(), |see| hint!("{}; or {}", connect, see)))
        }
        Url::Path(_) if is_sent => Some(hint!(
            "{}, to create a repository there; or {}",
            create,
            connect
        )),
        Url::Ssh(_) if is_sent => Some(match see {
            Some(see) => hint!("{}, to create a repository there; or {}", create, see),
            None => hint!("{}, to create a repository there", create),
        }),
        Url::Path(_) => see.map(|see| hint!("{}; or {}", connect, see)),
        _ => see,
    }
}

/// Says what no remote has, which were asked, and what to do.
pub fn absent_failure(context: &Context, absent: &Absent) -> Failure {
    let paths = paths_of(&absent.lacks);
    let what = match (&paths[..], &absent.lacks[..]) {
        ([], [lack, ..]) => format!("object {}", lack.root.id().short(12)),
        (paths, _) => format!("the content of {}", some_of(paths)),
    };
    let why = why_absent(absent);
    let expiry = expiry(context, &absent.lacks).map(|why| format!(" ({why})"));
    let expiry = expiry.unwrap_or_default();
    let message = format!("{what} is absent from this repository{expiry}{why}");
    let mut failure = Failure::new("absent", EXIT_ABSENT, message);
    failure = failure.hint(way_to_have(context, absent, &paths));
    failure.paths = paths.into();
    failure
}

/// The failure of a transfer to a remote that needs content which is absent here.
fn cannot_give(context: &Context, objects: &[(ObjectType, ObjectId)]) -> Failure {
    let ids = objects.iter().map(|(_, id)| *id).collect();
    let uses = context.repo().ok();
    let uses = uses.and_then(|repo| repo.uses_of(&ids, &context.job).ok());
    let uses = uses.unwrap_or_default();
    let error = NetError::Lacking(objects.to_vec());
    let Some((path, commit)) = uses.first() else {
        return Failure::new("absent", EXIT_ABSENT, error.to_string()).hint("dmv status");
    };
    let paths: Vec<Vec<u8>> = uses
        .iter()
        .map(|(path, _)| path.as_bytes().into())
        .collect();
    let at = commit.short(SHORT_ID);
    let message = format!(
        "the remote needs content that is absent here: {} (commit {at})",
        some_of(&paths)
    );
    let hint = hint!(
        "dmv get {}, then push again",
        Argument::place(&at, path.as_bytes())
    );
    let mut failure = Failure::new("absent", EXIT_ABSENT, message).hint(hint);
    failure.paths = paths.into();
    failure
}

/// When the first content that is lacking has expired, and by which rule, if it has.
fn expiry(context: &Context, lacks: &[Lack]) -> Option<String> {
    let expired = context.repo().ok()?.slice().ok()?.expired;
    let found = lacks.iter().find_map(|lack| expired.get(&lack.root.id()))?;
    Some(expiry_words(found))
}

/// The paths that are known of what is lacking, in order.
fn paths_of(lacks: &[Lack]) -> Vec<Vec<u8>> {
    let paths = lacks.iter().map(|lack| lack.path.as_bytes().to_vec());
    let mut paths: Vec<Vec<u8>> = paths.collect();
    paths.retain(|path| !path.is_empty());
    paths.sort();
    paths.dedup();
    paths
}

/// Why no remote has given it, as the rest of a sentence.
fn why_absent(absent: &Absent) -> String {
    if absent.peers.is_empty() {
        return ", and no remote is configured".to_owned();
    }
    if absent.offline {
        let names: Vec<&str> = absent.peers.iter().map(|peer| &peer.name[..]).collect();
        return format!("; offline: {} was not asked", names.join(", "));
    }
    let (mut lacking, mut gone) = (Vec::new(), Vec::new());
    for PeerAnswer { name, answer, .. } in &absent.peers {
        match answer {
            Answer::Lacks(held) => {
                let holds = held.as_deref().and_then(words);
                let holds = holds.map(|words| format!(" (a partial repository: {words})"));
                let holds = holds.unwrap_or_default();
                lacking.push(format!("{name} does not have it{holds}"));
            }
            Answer::Missing(why) => {
                let why = why_silent(why);
                gone.push(format!("{name} may have it, but did not answer ({why})"));
            }
        }
    }
    lacking.extend(gone);
    format!("; {}", lacking.join("; "))
}

/// What to run to have it.
fn way_to_have(context: &Context, absent: &Absent, paths: &[Vec<u8>]) -> Hint {
    const ADD: &str = "dmv remote add NAME URL";
    if absent.peers.is_empty() {
        return ADD.into();
    }
    let again = get_command(context, &absent.lacks, paths);
    if absent.offline {
        return if context.globals.offline {
            again
        } else {
            hint!("DMV_NET_OFFLINE=false {}", again)
        };
    }
    let holders = believed_to_have_it(absent);
    if holders.is_empty() {
        ADD.into()
    } else {
        // As long as none of them answers, it would fail likewise.
        hint!(
            "{}, when {} is reachable",
            again,
            Hint::names(&holders, " or ")
        )
    }
}

/// The command that fetches what is lacking. It names the commit, unless the worktree is on it.
fn get_command(context: &Context, lacks: &[Lack], paths: &[Vec<u8>]) -> Hint {
    let revision = lacks.first().and_then(|lack| revision_of(context, lack));
    let path = match paths {
        [path] => &path[..],
        _ => b"PATH",
    };
    let argument = match revision {
        Some(revision) => Argument::place(&revision, path),
        None if paths.len() == 1 => path_argument(path),
        None => Argument::path(path, true),
    };
    hint!("dmv get {}", argument)
}

/// A revision other than `@` that has what is lacking at its path: one that the user has named, or else any
/// commit. A hint is a courtesy: if none is found, the path has to do.
fn revision_of(context: &Context, lack: &Lack) -> Option<String> {
    let repo = context.repo().ok()?;
    if lack.path.is_root() {
        return None;
    }
    let named = context.revisions.borrow();
    let mut revisions = named.iter().map(String::as_str).chain([HEAD]);
    match revisions.find(|revision| has_at(&repo, revision, lack)) {
        Some("@" | HEAD) => None,
        Some(revision) => Some(revision.to_owned()),
        None => {
            let ids = HashSet::from([lack.root.id()]);
            let uses = repo.uses_of(&ids, &context.job).ok()?;
            let mut at_path = uses.iter().filter(|(path, _)| *path == lack.path);
            at_path.next().map(|(_, commit)| commit.short(SHORT_ID))
        }
    }
}

/// Whether a revision has what is lacking at its path. A part of a file counts as the file.
fn has_at(repo: &Repo, revision: &str, lack: &Lack) -> bool {
    let commit = repo.resolve(revision).and_then(|id| repo.read_commit(&id));
    let Ok(Location::Entry(entry)) =
        commit.and_then(|commit| repo.locate(revision, &commit, &lack.path))
    else {
        return false;
    };
    match lack.root {
        Root::Object(ObjectType::List | ObjectType::Chunk, _) => entry.kind.is_blob(),
        root => Root::of(&entry).id() == root.id(),
    }
}

/// Of those that do not answer, the remotes that something was fetched from or pushed to; all of
/// them if there is none such.
fn believed_to_have_it(absent: &Absent) -> Vec<&str> {
    let gone = absent.peers.iter();
    let gone = gone.filter(|peer| matches!(peer.answer, Answer::Missing(_)));
    let (known, others): (Vec<&PeerAnswer>, Vec<&PeerAnswer>) =
        gone.partition(|peer| peer.is_known);
    let some = if known.is_empty() { others } else { known };
    some.into_iter().map(|peer| &peer.name[..]).collect()
}

/// The first of several paths, and how many more there are.
pub fn some_of(paths: &[Vec<u8>]) -> String {
    let names = paths.iter().take(MAX_PATHS_NAMED);
    let names: Vec<String> = names.map(|path| format!("'{}'", escape(path))).collect();
    let names = names.join(", ");
    match paths.len().saturating_sub(MAX_PATHS_NAMED) {
        0 => names,
        more => format!("{names} and {more} more"),
    }
}
