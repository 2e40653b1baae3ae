//! The states of single paths: for programs that show each file with its state.
//!
//! What a file's stat shows to be unchanged costs one look at that file. Only the others are compared as `status` does.

use crate::fsutil::{FileKind, SafeDir};
use crate::job::Job;
use crate::object::name::RepoPath;
use crate::object::tree::lookup_path;
use crate::repo::base::change::ChangeKind;
use crate::repo::base::error::{RepoError, WorktreeError};
use crate::repo::base::notes::Note;
use crate::repo::base::remembered::QuickState;
use crate::repo::base::repo::Repo;
use crate::repo::base::worktree;
use crate::repo::base::worktree::WorktreeSettings;
use crate::repo::conflict::form::Form;
use crate::repo::conflict::settle::stat_of;
use crate::repo::files::ignored::verdict;
use crate::repo::files::open_worktree;
use crate::repo::files::open_worktree::OpenWorktree;
use crate::repo::files::pending::Which;
use crate::repo::files::status::{StatusOptions, StatusReport};
use crate::subset::Extent;
use crate::worktree::cacheupdate::STAT_NAME;
use crate::worktree::ignore::Verdict;
use crate::worktree::quick::QuickLook;
use crate::worktree::select::{Paths, is_under};
use crate::worktree::split_path;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The state of a path in a worktree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileState {
    /// As in the commit; also a directory, whatever has changed in it.
    Unchanged,
    /// It differs from the commit.
    Changed(ChangeKind),
    /// An open conflict.
    Conflict,
    /// A command could not write it.
    Unwritten,
    /// The ignore rules leave it out.
    Ignored,
    /// Outside of the worktree's subset.
    Outside,
    /// It or a directory above it cannot be read, so nobody can tell.
    Unreadable,
    /// Neither in the worktree nor in the commit.
    Unknown,
}

impl FileState {
    /// Returns the word for this state.
    pub fn word(self) -> &'static str {
        match self {
            FileState::Unchanged => "unchanged",
            FileState::Changed(kind) => kind.word(),
            FileState::Conflict => "conflict",
            FileState::Unwritten => "unwritten",
            FileState::Ignored => "ignored",
            FileState::Outside => "outside",
            FileState::Unreadable => "unreadable",
            FileState::Unknown => "unknown",
        }
    }
}

impl Repo {
    /// Returns the state of each path. It is what [`status`](Repo::status) reports of the path.
    pub fn states(
        &self,
        paths: &[RepoPath],
        settings: &WorktreeSettings,
        job: &Job,
    ) -> Result<Vec<FileState>, RepoError> {
        let left = not_quick(self, settings, paths)?;
        if left.is_empty() {
            return Ok(vec![FileState::Unchanged; paths.len()]);
        }
        let tree = open_worktree::open_with_conflicts(self, settings, Which::Live)?;
        let select = Paths::new(&left);
        let options = StatusOptions {
            select: &select,
            settings: settings.clone(),
        };
        let report = self.status(&options, job)?;
        let told = report.states();
        let is_unreadable = |path: &RepoPath| {
            let problems = report.problems.iter();
            let mut unread = problems.map(|problem| problem.path.as_bytes());
            unread.any(|above| is_under(path.as_bytes(), above))
        };
        let state = |path: &RepoPath| match told.get(path.as_bytes()) {
            _ if !left.contains(path.as_bytes()) => Ok(FileState::Unchanged),
            Some(state) => Ok(*state),
            None if is_unreadable(path) => Ok(FileState::Unreadable),
            None => untold(self, &tree, path),
        };
        paths.iter().map(state).collect()
    }
}

impl StatusReport {
    /// Returns the states of the paths that the report names.
    pub fn states(&self) -> BTreeMap<&[u8], FileState> {
        let mut told: BTreeMap<&[u8], FileState> = BTreeMap::new();
        for change in &self.changes {
            told.insert(change.path.as_bytes(), FileState::Changed(change.kind));
        }
        let outside = self.outside.iter();
        told.extend(outside.map(|path| (&path[..], FileState::Outside)));
        for (paths, state) in [
            (&self.unwritten, FileState::Unwritten),
            (&self.conflicts, FileState::Conflict),
        ] {
            told.extend(paths.iter().map(|path| (path.as_bytes(), state)));
        }
        told
    }
}

/// Returns the state of a path that a report about it does not name.
fn untold(repo: &Repo, tree: &OpenWorktree, path: &RepoPath) -> Result<FileState, RepoError> {
    let bytes = path.as_bytes();
    let stored = tree.form.as_ref().map(|form| form.stored);
    let entry = match stored {
        Some(root) if !path.is_root() => lookup_path(repo.objects(), &root, path)?,
        _ => None,
    };
    if entry.is_some() && tree.subset.includes(bytes, false) {
        return Ok(FileState::Unchanged);
    }
    let stat = stat_of(&tree.root, bytes)?;
    if entry.is_none() && !path.is_root() {
        let is_dir = stat.is_some_and(|stat| stat.kind == FileKind::Dir);
        if verdict(repo, tree, path, is_dir)? == Verdict::Ignored {
            return Ok(FileState::Ignored);
        }
    }
    let is_inside = tree.subset.includes(bytes, false) || tree.subset.extent(bytes) != Extent::None;
    Ok(match () {
        () if !is_inside => FileState::Outside,
        // A directory, of which files may have changed.
        () if path.is_root() || stat.is_some() || entry.is_some() => FileState::Unchanged,
        () => FileState::Unknown,
    })
}

/// Returns the paths that a look at their stats does not show to be unchanged.
fn not_quick<'p>(
    repo: &Repo,
    settings: &WorktreeSettings,
    paths: &'p [RepoPath],
) -> Result<BTreeSet<&'p [u8]>, RepoError> {
    let mut sorted: Vec<&[u8]> = paths.iter().map(RepoPath::as_bytes).collect();
    let Some(quick) = quick_look(repo, settings)? else {
        return Ok(sorted.into_iter().collect());
    };
    let root = SafeDir::open_root(repo.worktree_root().ok_or(WorktreeError::NoWorktree)?)?;
    // By directory.
    sorted.sort_by_cached_key(|path| split_path(path));
    Ok(quick.not_unchanged(&root, &sorted).into_iter().collect())
}

/// Returns what is known of the files without a look at them. `None`: the stat cache is about another base, or other
/// files show a conflict.
fn quick_look(
    repo: &Repo,
    settings: &WorktreeSettings,
) -> Result<Option<Arc<QuickLook>>, RepoError> {
    let own = SafeDir::open_root(&worktree::own_dir(repo)?)?;
    // First, so that it is too old rather than too new.
    let state = QuickState::of(repo, &own, STAT_NAME);
    let remembered = &repo.remembered;
    if let Some(known) = state.as_ref().and_then(|state| remembered.quick(state)) {
        return Ok(Some(known));
    }
    let tree = open_worktree::open_with_conflicts(repo, settings, Which::Live)?;
    let is_plain =
        |form: &Form| !form.has_conflicts() && form.unseen.is_empty() && form.tree == form.stored;
    // Whether a noted conflict is over depends on files.
    let is_noted = |(_, note): (&RepoPath, &Note)| matches!(note, Note::Conflict { .. });
    if !tree.cache_fits()
        || !tree.form.as_ref().is_some_and(is_plain)
        || tree.notes.iter().any(is_noted)
    {
        return Ok(None);
    }
    let left_out = tree.untracked.paths().cloned().collect();
    let Some(cache) = tree.cache else {
        return Ok(None);
    };
    let quick = Arc::new(QuickLook::new(cache, tree.subset, left_out));
    if let Some(state) = state {
        remembered.set_quick(state, quick.clone());
    }
    Ok(Some(quick))
}
