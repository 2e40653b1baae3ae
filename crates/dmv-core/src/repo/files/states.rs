//! The states of single paths: for programs that show each file with its state.
//!
//! What a file's stat shows to be unchanged costs one look at that file. Only the others are compared as `status` does.

use crate::fsutil::{FileKind, Fingerprint, SafeDir};
use crate::job::Job;
use crate::object::name::RepoPath;
use crate::object::tree::lookup_path;
use crate::repo::base::change::ChangeKind;
use crate::repo::base::error::RepoError;
use crate::repo::base::repo::Repo;
use crate::repo::base::worktree::WorktreeSettings;
use crate::repo::conflict::settle::stat_of;
use crate::repo::files::ignored::verdict;
use crate::repo::files::open_worktree;
use crate::repo::files::open_worktree::OpenWorktree;
use crate::repo::files::pending::Which;
use crate::repo::files::status::{StatusOptions, StatusReport};
use crate::subset::Extent;
use crate::worktree::ignore::Verdict;
use crate::worktree::select::{Paths, is_under};
use crate::worktree::split_path;
use crate::worktree::statcache::{Section, StatCache};
use std::collections::{BTreeMap, BTreeSet};

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
        let tree = open_worktree::open_with_conflicts(self, settings, Which::Live)?;
        let left = not_quick(&tree, paths);
        if left.is_empty() {
            return Ok(vec![FileState::Unchanged; paths.len()]);
        }
        let select = Paths::new(left.iter().map(|path| path.as_bytes().to_vec()).collect());
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
            _ if !left.contains(path) => Ok(FileState::Unchanged),
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

/// Returns the paths that a look at their stats does not show to be unchanged. It goes through them by directory, so
/// that each directory is opened and its section read once.
fn not_quick<'p>(tree: &OpenWorktree, paths: &'p [RepoPath]) -> BTreeSet<&'p RepoPath> {
    let mut left: BTreeSet<&RepoPath> = paths.iter().collect();
    let mut sorted: Vec<(&[u8], &[u8], &RepoPath)> = left
        .iter()
        .filter_map(|path| split_path(path.as_bytes()).map(|(dir, name)| (dir, name, *path)))
        .collect();
    sorted.sort_unstable();
    let Some(mut quick) = QuickLook::new(tree) else {
        return left;
    };
    for (dir, name, path) in sorted {
        if quick.is_unchanged(dir, name, path.as_bytes()) {
            left.remove(path);
        }
    }
    left
}

/// Tells by their stats alone which files are unchanged. It knows less than a scan, and nothing wrong.
struct QuickLook<'t> {
    tree: &'t OpenWorktree,
    cache: &'t StatCache,
    /// The directory that was looked at last, by its path.
    open: Option<(Vec<u8>, Option<OpenDirectory>)>,
}

/// A directory of which several files are looked at.
struct OpenDirectory {
    dir: SafeDir,
    known: Section,
}

impl<'t> QuickLook<'t> {
    /// `None`: the stat cache is about another base, or other files show a conflict.
    fn new(tree: &'t OpenWorktree) -> Option<QuickLook<'t>> {
        let is_plain = |form: &crate::repo::conflict::form::Form| {
            !form.has_conflicts() && form.unseen.is_empty() && form.tree == form.stored
        };
        let can_tell = tree.cache_fits() && tree.form.as_ref().is_some_and(is_plain);
        let cache = tree.cache.as_ref().filter(|_| can_tell)?;
        Some(QuickLook {
            tree,
            cache,
            open: None,
        })
    }

    fn is_unchanged(&mut self, dir: &[u8], name: &[u8], path: &[u8]) -> bool {
        if self.tree.untracked.has(path) || !self.tree.subset.includes(path, false) {
            return false;
        }
        self.open(dir).is_some_and(|open| {
            // A directory has no fingerprint.
            let known = open.known.position(name).map(|at| open.known.get(at));
            let known = known.filter(|known| known.fingerprint != Fingerprint::SUSPECT);
            known.is_some_and(|known| {
                let stat = open.dir.try_stat(name);
                stat.is_ok_and(|stat| stat.fingerprint() == known.fingerprint)
            })
        })
    }

    fn open(&mut self, path: &[u8]) -> Option<&OpenDirectory> {
        if self.open.as_ref().is_none_or(|(open, _)| open != path) {
            let known = self.cache.section(path).ok().flatten();
            let opened = known.and_then(|known| {
                let dir = self.tree.root.open_dir(path).ok()?;
                Some(OpenDirectory { dir, known })
            });
            self.open = Some((path.to_vec(), opened));
        }
        self.open.as_ref()?.1.as_ref()
    }
}
