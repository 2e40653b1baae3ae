//! Better hints for failures, from a look at the repository: what a name that is no revision may have
//! meant, and what helps with an ignored file in the way.

use crate::context::Context;
use crate::failure::{Failure, WOULD_LOSE};
use crate::format::text::quoted;
use crate::verbs::near;
use dmv_core::object::name::escape;
use dmv_core::repo::{PathState, RefKind, Repo};
use std::ffi::OsStr;
use std::path::Path;

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
        let path = quoted(&name);
        return match command {
            "checkout" => failure.hint(format!("dmv restore {path}")),
            "reset" => failure.hint(format!(
                "dmv restore {path}, to discard its changes; there is no staging area"
            )),
            "show" => failure.hint(format!("dmv log -p -- {path}, or dmv cat {path}")),
            // Those that accept paths have said how.
            _ => failure,
        };
    }
    let names = match names(&repo) {
        Ok(names) => names,
        Err(_) => return failure,
    };
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let close: Vec<String> = near(&name, &names).into_iter().map(quoted).collect();
    if close.is_empty() {
        failure
    } else {
        failure.hint(format!("did you mean {}?", close.join(" or ")))
    }
}

/// Neither a commit nor a stash takes ignored files, so they have to go out of the way.
fn in_the_way(context: &Context, failure: Failure) -> Failure {
    // As above: the failure stays.
    let (Ok(repo), Ok(settings)) = (context.repo_as_it_is(), context.settings()) else {
        return failure;
    };
    let is_ignored = |path: &&Vec<u8>| {
        let path = Repo::parse_path(path).ok();
        path.is_some_and(|path| repo.is_ignored(&path, &settings).unwrap_or(false))
    };
    let Some(ignored) = failure.paths.iter().find(is_ignored) else {
        return failure;
    };
    let name = String::from_utf8_lossy(ignored).into_owned();
    let root = repo.worktree_root().map(Path::to_owned);
    // The command works from where the user is.
    let here = std::env::current_dir().ok();
    let is_root = here.is_some() && here == root.as_deref().and_then(|r| r.canonicalize().ok());
    let path = match (is_root, root) {
        (false, Some(root)) => root.join(&name).to_string_lossy().into_owned(),
        _ => name.clone(),
    };
    let (from, to) = (quoted(&path), quoted(&format!("{path}.mine")));
    let name = escape(name.as_bytes());
    failure.hint(format!(
        "{name} is ignored; to move it out of the way: mv {from} {to}"
    ))
}

/// Whether the worktree or its commit has this path.
fn is_path(context: &Context, repo: &Repo, name: &str) -> bool {
    let path = context.path(repo, OsStr::new(name)).ok();
    let path = path.and_then(|path| Repo::parse_path(&path).ok());
    let state = path.filter(|path| !path.as_bytes().is_empty());
    state.is_some_and(|path| matches!(repo.path_state(&path), Ok(PathState::Known)))
}

/// All branches and tags, those of remotes as well.
fn names(repo: &Repo) -> Result<Vec<String>, Failure> {
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
