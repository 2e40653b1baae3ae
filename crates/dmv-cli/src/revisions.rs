//! Arguments that are revisions and then paths, for commands that need no `--` between them.

use crate::context::Context;
use crate::failure::Failure;
use crate::mirror::tell_behind;
use crate::path_arguments::{exists, looks_like_path, neither, warn_of_path};
use dmv_core::escape::Argument;
use dmv_core::hint;
use dmv_core::history::paths::PathLog;
use dmv_core::object::name::{RepoPath, escape};
use dmv_core::repo::{Repo, RepoError, RevisionError};
use std::ffi::{OsStr, OsString};

/// Arguments, sorted.
#[derive(Default)]
pub struct RevisionsAndPaths {
    /// The revisions and ranges.
    pub revisions: Vec<String>,
    /// The paths, as they were typed.
    pub paths: Vec<OsString>,
}

/// Sorts `words`: revisions first, `most` of them at most, then paths that are in the worktree or the
/// history. `after`: what stood after `--`, which are paths in any case; then all words are revisions.
///
/// A revision goes first, because scripts name branches and do not know which files there are.
pub fn sort(
    context: &Context,
    repo: &Repo,
    words: &[&OsString],
    most: usize,
    after: &[OsString],
) -> Result<RevisionsAndPaths, Failure> {
    let mut out = RevisionsAndPaths::default();
    for word in words {
        let is_first = out.paths.is_empty();
        let failed = match resolved(repo, word) {
            Ok(revision) if is_first && out.revisions.len() < most => {
                if after.is_empty() {
                    warn_of_path(context, repo, word);
                }
                tell_behind(context, repo, &revision);
                out.revisions.push(revision);
                continue;
            }
            Ok(_) => None,
            Err(e) => Some(e),
        };
        if after.is_empty() && is_path(context, repo, word) {
            out.paths.push((*word).clone());
            continue;
        }
        return Err(match failed {
            None => too_many(context, word, most),
            Some(RepoError::Revision(e)) if after.is_empty() => neither(word, e),
            Some(e) => e.into(),
        });
    }
    out.paths.extend_from_slice(after);
    Ok(out)
}

/// The text of a revision or range, if the word is one.
fn resolved(repo: &Repo, word: &OsStr) -> Result<String, RepoError> {
    let text = String::from_utf8_lossy(word.as_encoded_bytes()).into_owned();
    if looks_like_path(word.as_encoded_bytes()) && !text.starts_with("..") || word.is_empty() {
        return Err(RevisionError::Unknown(text).into());
    }
    let one = |text: &str| repo.resolve(if text.is_empty() { "@" } else { text });
    match text.split_once("..") {
        // No revision has two dots in it.
        Some((old, new)) => one(old).and_then(|_| one(new)).map(drop)?,
        None => one(&text).map(drop)?,
    }
    Ok(text)
}

/// Whether the worktree or the history has something at a path.
fn is_path(context: &Context, repo: &Repo, word: &OsStr) -> bool {
    let path = context.path(repo, word).ok();
    path.is_some_and(|path| {
        path.is_root()
            || repo.worktree_root().is_some() && std::fs::symlink_metadata(word).is_ok()
            || exists(repo, &path)
            || was_there(repo, &path)
    })
}

/// Whether a commit of the current history has had something at a path.
fn was_there(repo: &Repo, path: &RepoPath) -> bool {
    let Ok(Some(start)) = repo.head_commit() else {
        return false;
    };
    let paths = std::slice::from_ref(path);
    let changed = repo.changed_paths(paths);
    let Ok(mut log) = PathLog::new(repo.objects(), &changed, &[start], paths) else {
        return false;
    };
    // Where the history cannot be read, the word is no path that is known.
    while let Ok(Some(visited)) = log.advance::<RepoError>(None) {
        if visited.shown {
            return true;
        }
    }
    false
}

/// The failure for one more revision than a command accepts.
fn too_many(context: &Context, word: &OsStr, most: usize) -> Failure {
    let command = &context.command;
    let accepts = match most {
        1 => "one commit",
        _ => "two commits",
    };
    let shown = escape(word.as_encoded_bytes());
    let message = format!("{command} accepts {accepts}, then paths; '{shown}' is another commit");
    let (command, word) = (
        Argument::value(command),
        Argument::value(word.as_encoded_bytes()),
    );
    Failure::usage(message).hint(hint!("dmv {} -- {}, if it is a path", command, word))
}
