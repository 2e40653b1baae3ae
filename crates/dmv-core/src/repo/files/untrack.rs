//! `rm --cached`: stops tracking files, which stay on disk.
//!
//! The worktree notes the files (see `untracked`). On request the same operation adds lines to the
//! ignore file in the worktree's root, so that a later commit does not include the files again.

use crate::fsutil::FileKind;
use crate::job::Job;
use crate::merge::write_blob;
use crate::object::name::RepoPath;
use crate::object::tree::{Kind, TreeEntry};
use crate::refs::Effect;
use crate::repo::base::error::{LookError, PathRefusal, RepoError};
use crate::repo::base::handle::Handle;
use crate::repo::base::publish::OperationRequest;
use crate::repo::base::worktree::WorktreeSettings;
use crate::repo::base::{publish, worktree};
use crate::repo::conflict::names::last_name;
use crate::repo::files::checkout::restore::keep_for;
use crate::repo::files::checkout::switch::Switch;
use crate::repo::files::ignored::{is_ignored, line_for};
use crate::repo::files::named::{NamedFiles, conflict_at, named, refused};
use crate::repo::files::open_worktree::OpenWorktree;
use crate::repo::files::saved::{Overwrite, Overwrites, overwritten_changes, stat_at};
use crate::repo::files::{open_worktree, untracked};
use crate::worktree::ignore::DMVIGNORE;
use crate::worktree::snapshot::Problem;
use std::io::Read;

/// What to stop tracking, and how.
pub struct UntrackOptions {
    /// The files and directories, relative to the worktree's root.
    pub paths: Vec<RepoPath>,
    /// Whether directories may be named.
    pub recursive: bool,
    /// Lines to add to the ignore file in the worktree's root.
    pub ignore: Vec<String>,
    /// How files are read into the store.
    pub settings: WorktreeSettings,
    /// What the operation log records about the request.
    pub request: OperationRequest,
}

/// What was done.
#[derive(Debug)]
pub struct UntrackReport {
    /// The files that the next commit leaves out, in path order.
    pub untracked: Vec<RepoPath>,
    /// Set if the ignore file could not be written: why.
    pub refused: Vec<Problem>,
}

/// Names the action in messages that refuse it.
const WHAT: &str = "this rm --cached";

/// Returns the line of the root's ignore file for each of `paths` that no ignore rule covers yet.
/// Paths that no line can name are left out.
pub(in crate::repo) fn ignore_lines(
    repo: &Handle,
    settings: &WorktreeSettings,
    paths: &[RepoPath],
) -> Result<Vec<String>, RepoError> {
    let tree = open_worktree::open(repo, settings)?;
    let mut lines = Vec::new();
    // The file would not be in this worktree's commits.
    if !tree.subset.includes(DMVIGNORE, false) {
        return Ok(lines);
    }
    for path in paths {
        if path.is_root() {
            continue;
        }
        let stat = stat_at(&tree, path.as_bytes())?;
        let is_dir = stat.is_some_and(|stat| stat.kind == FileKind::Dir);
        if !is_ignored(&tree, path, is_dir)? {
            lines.extend(line_for(path, is_dir));
        }
    }
    Ok(lines)
}

/// Stops tracking files: the next commit leaves them out.
pub(in crate::repo) fn untrack(
    repo: &Handle,
    options: &UntrackOptions,
    job: &Job,
) -> Result<UntrackReport, RepoError> {
    let _lock = worktree::lock_worktree(repo)?;
    let tree = open_worktree::open(repo, &options.settings)?;
    let form = tree.form.as_ref().ok_or(LookError::NoCommit)?;
    for path in &options.paths {
        if let Some(shown) = conflict_at(&tree, path.as_bytes()) {
            return Err(refused(&shown.at.path, PathRefusal::Conflict));
        }
    }
    let NamedFiles { inside, outside } = named(repo, &tree, &options.paths, options.recursive)?;
    let mut files = inside;
    files.extend(outside);
    files.retain(|_, entry| entry.kind != Kind::Directory);
    let mut switch = Switch::new(repo, &tree, form, &tree.subset, job);
    let (mut changes, mut stored, mut writes) = (Vec::new(), None, Vec::new());
    if !options.ignore.is_empty() {
        switch.find_dirty(&options.settings)?;
        let (path, entry) = with_lines(repo, &tree, &options.ignore)?;
        let overwrite = Overwrite {
            committed: switch.clean_entry(&path)?,
            after: Some(entry.clone()),
        };
        let overwrites = Overwrites::from([(path.clone(), overwrite)]);
        let how = (WHAT, options.settings.keep, &options.request);
        let (kept, told) = keep_for(repo, &mut switch, overwrites, how, job)?;
        let id;
        (id, stored) = kept.unzip();
        changes.extend(overwritten_changes(repo, &tree.name, id, &told)?);
        writes.push((path, entry));
    }
    let notes = untracked::Edit::Add(&files);
    let noted = (&tree.name[..], &tree.untracked);
    let (noted, stored) = untracked::edit(repo, noted, &notes, stored, &options.request)?;
    changes.extend(noted);
    let effect = if writes.is_empty() {
        Effect::Kept
    } else {
        Effect::Written
    };
    if !changes.is_empty() {
        publish::publish(repo, options.request.clone(), stored, changes, effect)?;
    }
    switch.put_back(writes)?;
    switch.sync()?;
    Ok(UntrackReport {
        untracked: RepoPath::all_checked(files.into_keys()),
        refused: switch.refused,
    })
}

/// Returns the root's ignore file with further lines. Its content is only in memory.
fn with_lines(
    repo: &Handle,
    tree: &OpenWorktree,
    lines: &[String],
) -> Result<(Vec<u8>, TreeEntry), RepoError> {
    let path = RepoPath::parse(DMVIGNORE).expect("the name of the ignore file is a path");
    let (mut text, mut kind) = (Vec::new(), Kind::File);
    if let Some(stat) = stat_at(tree, DMVIGNORE)? {
        if stat.kind != FileKind::File {
            return Err(refused(
                &RepoPath::from_checked(DMVIGNORE.to_vec()),
                PathRefusal::NotAFile,
            ));
        }
        let (mut file, _) = tree.root.open_file_read(DMVIGNORE)?;
        file.read_to_end(&mut text)
            .map_err(|e| crate::path::PathError::new("read", DMVIGNORE, e))?;
        if stat.exec {
            kind = Kind::Executable;
        }
    }
    if text.last().is_some_and(|last| *last != b'\n') {
        text.push(b'\n');
    }
    for line in lines {
        text.extend_from_slice(line.as_bytes());
        text.push(b'\n');
    }
    let blob = write_blob(&text, &mut &repo.made)?;
    let entry = TreeEntry {
        name: last_name(&path),
        kind,
        is_list: blob.is_list,
        id: blob.id,
        size: blob.size,
        files: 0,
        attrs: None,
    };
    Ok((DMVIGNORE.to_vec(), entry))
}
