//! The files that show conflicts: finds which version a file is, and removes unchanged files.
//!
//! `commit`, `restore` and `resolve` use it.

use crate::fsutil::{FileKind, FileStat};
use crate::job::Job;
use crate::merge::entry_of;
use crate::object::name::RepoPath;
use crate::object::tree::{Kind, TreeEntry};
use crate::repo::base::error::RepoError;
use crate::repo::base::handle::Handle;
use crate::repo::conflict::form::Shown;
use crate::repo::conflict::names::last_name;
use crate::repo::conflict::settle::stat_of;
use crate::repo::files::open_worktree::Tree;
use crate::repo::files::same::same_as;
use crate::repo::files::stored;
use crate::repo::look::entries;
use crate::worktree::checkout::{
    CheckoutError, Plan, Refusal, Removal, ReplacedEntries, apply_plan,
};
use crate::worktree::snapshot::Problem;
use std::ops::ControlFlow;

/// Returns the version of a conflict that its file with the stat `stat` equals, if any.
pub(in crate::repo) fn side_at(
    repo: &Handle,
    tree: &Tree,
    shown: &Shown,
    stat: &FileStat,
) -> Option<TreeEntry> {
    let path = shown.at.path.as_bytes();
    let conflict = &shown.at.conflict;
    let terms = conflict.sides.iter().chain(&conflict.bases).flatten();
    let name = last_name(&shown.at.path);
    let files = terms.filter(|term| term.kind != Kind::Directory);
    // An unreadable file may be the user's work.
    let is_there =
        |entry: &TreeEntry| matches!(same_as(repo, &tree.root, path, entry, stat), Ok(true));
    files.map(|term| entry_of(&name, term, None)).find(is_there)
}

/// Removes files and directories that equal `entries`. Others stay, with a message that says why.
pub(in crate::repo) fn remove_untouched(
    repo: &Handle,
    tree: &Tree,
    entries: &[(RepoPath, TreeEntry)],
    job: &Job,
) -> Result<Vec<Problem>, RepoError> {
    let mut files = Vec::new();
    let mut plan = Plan::<crate::object::list::Blob>::default();
    for (path, entry) in entries {
        if entry.kind != Kind::Directory {
            files.push((path.clone(), entry.clone()));
            continue;
        }
        plan.remove_dirs.push(path.as_bytes().to_vec());
        entries::list(repo, path, entry.id, true, &mut |listed| {
            let mut dir = listed.path.parent();
            while let Some(above) = dir.filter(|above| above.depth() > path.depth()) {
                plan.remove_dirs.push(above.as_bytes().to_vec());
                dir = above.parent();
            }
            match listed.entry.kind {
                Kind::Directory => plan.remove_dirs.push(listed.path.as_bytes().to_vec()),
                _ => files.push((listed.path, listed.entry)),
            }
            Ok(ControlFlow::Continue(()))
        })?;
    }
    let mut problems = Vec::new();
    for (path, entry) in files {
        let path = path.as_bytes();
        let Some(stat) = stat_of(&tree.root, path) else {
            continue;
        };
        if let Ok(true) = same_as(repo, &tree.root, path, &entry, &stat) {
            let (path, expected) = (path.to_vec(), stat.fingerprint());
            plan.remove.push(Removal { path, expected });
        } else {
            let why = "it was edited, so it stays".to_owned();
            let path = path.to_vec();
            problems.push(Problem { path, why });
        }
    }
    plan.remove.sort_by(|a, b| a.path.cmp(&b.path));
    plan.remove_dirs
        .sort_by(|a, b| crate::worktree::compare_dirs(a, b));
    plan.remove_dirs.dedup();
    let kept = |dir: &Vec<u8>| stat_of(&tree.root, dir).is_some_and(|s| s.kind == FileKind::Dir);
    plan.remove_dirs.retain(kept);
    let content = stored::StoreContent(repo);
    let asides = ReplacedEntries::new(&tree.root);
    let done = apply_plan(&tree.root, &plan, &content, 1, job.cancel_flag(), &asides);
    let done = done.map_err(|e| match e {
        CheckoutError::Cancelled => RepoError::Cancelled,
        CheckoutError::Disk(e) => RepoError::Path(e),
    })?;
    let left = done.refused.into_iter().chain(asides.finish());
    let left = left.filter(|refused| !matches!(refused.why, Refusal::NotEmpty));
    problems.extend(left.map(|refused| Problem {
        path: refused.path,
        why: refused.why.to_string(),
    }));
    Ok(problems)
}
