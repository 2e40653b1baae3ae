//! Better hints for failures, from a look at the repository: what a name that is no revision may have
//! meant, and what helps with an ignored file in the way.

use crate::context::Context;
use crate::date;
use crate::failure::{Failure, WOULD_LOSE};
use crate::other_tools::near;
use crate::ownership::on_disk_argument;
use dmv_core::escape::Argument;
use dmv_core::escape::Hint;
use dmv_core::hint;
use dmv_core::object::name::RepoPath;
use dmv_core::repo::{PathState, RefKind, Repo};
use std::ffi::OsStr;

/// What the keys of remotes' branches begin with.
const REMOTE: &str = "remote/";

/// Adds a better hint to a failure, if the repository shows one.
pub fn hint(context: &Context, failure: Failure) -> Failure {
    if failure.code == WOULD_LOSE {
        return in_the_way(context, failure);
    }
    let Some(name) = failure.no_revision.clone() else {
        return failure;
    };
    // The hint is a courtesy: whatever goes wrong in the search for one, the failure stays.
    let Ok(repo) = context.repo_as_it_is() else {
        return failure;
    };
    let command = &context.command[..];
    if is_path(context, &repo, &name) {
        let path = Argument::on_disk(&*name);
        return match command {
            "checkout" | "revert" => failure.hint(hint!("dmv restore {}", path)),
            "reset" => failure.hint(hint!(
                "dmv restore {}, to discard its changes; there is no staging area",
                path
            )),
            "show" => failure.hint(hint!(
                "dmv log -p -- {}, or dmv cat {}",
                path,
                Argument::path(&*name, true)
            )),
            // Those that accept paths have said how.
            _ => failure,
        };
    }
    if date::until(&name).is_ok() {
        let dated = Argument::value(format!("@{{{name}}}"));
        return failure.hint(hint!("did you mean {}, the branch at that time?", dated));
    }
    let names = match names(&repo) {
        Ok(names) => names,
        Err(_) => return failure,
    };
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let close = near(&name, &names);
    if close.is_empty() {
        failure
    } else {
        failure.hint(hint!("did you mean {}?", Hint::names(&close, " or ")))
    }
}

/// Neither a commit nor a stash takes ignored files, so they have to go out of the way.
fn in_the_way(context: &Context, failure: Failure) -> Failure {
    // As above: the failure stays.
    let (Ok(repo), Ok(settings)) = (context.repo_as_it_is(), context.settings()) else {
        return failure;
    };
    let paths = failure.paths.iter();
    let paths: Vec<RepoPath> = paths
        .filter_map(|path| Repo::parse_path(path).ok())
        .collect();
    let ignored = repo.left_out(&paths, &settings).unwrap_or_default();
    let Some(ignored) = ignored.first().map(|path| path.as_bytes()) else {
        return failure;
    };
    let from = on_disk_argument(ignored);
    let to = on_disk_argument(&[ignored, &b".mine"[..]].concat());
    failure.hint(hint!(
        "{} is ignored; to move it out of the way: mv {} {}",
        Argument::value(ignored),
        from,
        to
    ))
}

/// Whether the worktree or its commit has this path.
fn is_path(context: &Context, repo: &Repo, name: &str) -> bool {
    let path = context.path(repo, OsStr::new(name)).ok();
    path.is_some_and(|path| {
        path.is_root() || matches!(repo.path_state(&path), Ok(PathState::Known))
    })
}

/// All branches and tags, those of remotes as well.
pub fn names(repo: &Repo) -> Result<Vec<String>, Failure> {
    let mut names = Vec::new();
    for kind in [RefKind::Branch, RefKind::Tag] {
        let refs = repo.list_refs(kind)?.into_iter();
        // A branch without a commit is none that a revision can mean.
        names.extend(
            refs.filter(|info| info.commit.is_some())
                .map(|info| info.name),
        );
    }
    for (key, _) in repo.refs().with_prefix(REMOTE)? {
        names.extend(key.strip_prefix(REMOTE).map(str::to_owned));
    }
    Ok(names)
}
