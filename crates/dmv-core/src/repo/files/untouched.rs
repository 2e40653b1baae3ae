//! The files that show conflicts: finds which version a file is, and removes unchanged files.
//!
//! `commit`, `restore` and `resolve` use it.

use crate::fsutil::{FileKind, FileStat, Fingerprint};
use crate::job::Job;
use crate::merge::entry_of;
use crate::object::name::RepoPath;
use crate::object::tree::{Kind, TreeEntry};
use crate::repo::base::error::RepoError;
use crate::repo::base::repo::Repo;
use crate::repo::conflict::form::Shown;
use crate::repo::conflict::names::last_name;
use crate::repo::conflict::settle::stat_of;
use crate::repo::files::open_worktree::OpenWorktree;
use crate::repo::files::same::{SameError, equals};
use crate::repo::files::stored;
use crate::worktree::checkout::{
    CheckoutError, Plan, Refusal, Removal, ReplacedEntries, apply_plan,
};
use crate::worktree::snapshot::Problem;
use std::ops::ControlFlow;

/// Returns the version of a conflict that its file with the stat `stat` equals, if any.
pub fn side_at(
    repo: &Repo,
    tree: &OpenWorktree,
    shown: &Shown,
    stat: &FileStat,
) -> Result<Option<TreeEntry>, RepoError> {
    let path = shown.at.path.as_bytes();
    let conflict = &shown.at.conflict;
    let terms = conflict.sides.iter().chain(&conflict.bases).flatten();
    let name = last_name(&shown.at.path);
    for term in terms.filter(|term| term.kind != Kind::Directory) {
        let entry = entry_of(&name, term, None);
        if equals(repo, &tree.root, path, &entry, stat).map_err(SameError::any)? {
            return Ok(Some(entry));
        }
    }
    Ok(None)
}

/// Returns whether the file at `path` equals an entry, and its fingerprint; `None` if there is none.
fn is_at(
    repo: &Repo,
    tree: &OpenWorktree,
    path: &[u8],
    entry: &TreeEntry,
) -> Result<Option<(bool, Fingerprint)>, RepoError> {
    let Some(stat) = stat_of(&tree.root, path)? else {
        return Ok(None);
    };
    let is_same = equals(repo, &tree.root, path, entry, &stat).map_err(SameError::any)?;
    Ok(Some((is_same, stat.fingerprint())))
}

/// Removes files and directories that equal `entries`. Others stay, with a message that says why.
pub fn remove_untouched(
    repo: &Repo,
    tree: &OpenWorktree,
    entries: &[(RepoPath, TreeEntry)],
    job: &Job,
) -> Result<Vec<Problem>, RepoError> {
    let mut files = Vec::new();
    let mut plan = Plan::<crate::object::list::Blob> {
        in_use: tree.in_use.clone(),
        ..Plan::default()
    };
    for (path, entry) in entries {
        if entry.kind != Kind::Directory {
            files.push((path.clone(), entry.clone()));
            continue;
        }
        plan.remove_dirs.push(path.as_bytes().to_vec());
        repo.list(path, entry.id, true, &mut |listed| {
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
        let why = match is_at(repo, tree, path, &entry) {
            Ok(Some((true, expected))) => {
                let path = path.to_vec();
                plan.remove.push(Removal { path, expected });
                continue;
            }
            Ok(None) => continue,
            Ok(Some((false, _))) => "it was edited, so it stays".to_owned(),
            Err(e) => format!("{e}, so it stays"),
        };
        let path = path.to_vec();
        problems.push(Problem::new(path, why));
    }
    plan.remove.sort_by(|a, b| a.path.cmp(&b.path));
    plan.remove_dirs
        .sort_by(|a, b| crate::worktree::compare_dirs(a, b));
    plan.remove_dirs.dedup();
    let kept = |dir: &Vec<u8>| matches!(stat_of(&tree.root, dir), Ok(Some(stat)) if stat.kind == FileKind::Dir);
    plan.remove_dirs.retain(kept);
    let content = stored::StoreContent::new(repo, &tree.root);
    let asides = ReplacedEntries::new(&tree.root);
    let done = apply_plan(&tree.root, &plan, &content, 1, job.cancel_flag(), &asides);
    let done = done.map_err(|e| match e {
        CheckoutError::Cancelled => RepoError::Cancelled,
        CheckoutError::Disk(e) => RepoError::Path(e),
    })?;
    let left = done.refused.into_iter().chain(asides.finish());
    let stays = |why: &Refusal| matches!(why, Refusal::NotEmpty | Refusal::InUse);
    let left = left.filter(|refused| !stays(&refused.why));
    problems.extend(left.map(|refused| Problem::new(refused.path, refused.why.to_string())));
    Ok(problems)
}
