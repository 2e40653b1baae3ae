//! The states of single paths: for programs that show each file with its state.
//!
//! What a file's stat shows to be unchanged costs one look at that file. Only the others are compared as `status` does.

use crate::fsutil::{FileKind, FileStat, Fingerprint, SafeDir};
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
use crate::worktree::select::Paths;
use crate::worktree::split_path;
use std::collections::{BTreeSet, HashMap};

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
        let mut quick = QuickLook::new(&tree);
        let left: Vec<&RepoPath> = paths
            .iter()
            .filter(|path| !quick.is_unchanged(path.as_bytes()))
            .collect();
        if left.is_empty() {
            return Ok(vec![FileState::Unchanged; paths.len()]);
        }
        let listed: BTreeSet<&RepoPath> = left.iter().copied().collect();
        let select = Paths::new(listed.iter().map(|path| path.as_bytes().to_vec()).collect());
        let options = StatusOptions {
            select: &select,
            settings: settings.clone(),
        };
        let report = self.status(&options, job)?;
        let told = told(&report);
        let state = |path: &RepoPath| match told.get(path.as_bytes()) {
            _ if !listed.contains(path) => Ok(FileState::Unchanged),
            Some(state) => Ok(*state),
            None => untold(self, &tree, path),
        };
        paths.iter().map(state).collect()
    }
}

/// Returns the states of the paths that a report names.
fn told(report: &StatusReport) -> HashMap<&[u8], FileState> {
    let mut told: HashMap<&[u8], FileState> = HashMap::new();
    for change in &report.changes {
        let state = told.entry(change.path.as_bytes());
        // A directory in the place of a file is a deletion and an addition.
        let state = state.and_modify(|state| *state = FileState::Changed(ChangeKind::Type));
        state.or_insert(FileState::Changed(change.kind));
    }
    let outside = report.outside.iter();
    told.extend(outside.map(|path| (&path[..], FileState::Outside)));
    for (paths, state) in [
        (&report.unwritten, FileState::Unwritten),
        (&report.conflicts, FileState::Conflict),
    ] {
        told.extend(paths.iter().map(|path| (path.as_bytes(), state)));
    }
    told
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

/// Tells by their stats alone which files are unchanged. It knows less than a scan, and nothing wrong.
struct QuickLook<'t> {
    tree: &'t OpenWorktree,
    /// The stat cache is about this base, and no conflict is shown by other files.
    can_tell: bool,
    /// The directory that was opened last.
    open: Option<(Vec<u8>, Option<SafeDir>)>,
}

impl<'t> QuickLook<'t> {
    fn new(tree: &'t OpenWorktree) -> QuickLook<'t> {
        let is_plain = |form: &crate::repo::conflict::form::Form| {
            !form.has_conflicts() && form.unseen.is_empty() && form.tree == form.stored
        };
        QuickLook {
            tree,
            can_tell: tree.cache_fits() && tree.form.as_ref().is_some_and(is_plain),
            open: None,
        }
    }

    fn is_unchanged(&mut self, path: &[u8]) -> bool {
        let (Some(cache), Some((dir, name)), true) =
            (&self.tree.cache, split_path(path), self.can_tell)
        else {
            return false;
        };
        if self.tree.untracked.has(path) || !self.tree.subset.includes(path, false) {
            return false;
        }
        // A directory has no fingerprint.
        let known = match cache.entry(dir, name) {
            Ok(Some((_, fingerprint))) if fingerprint != Fingerprint::SUSPECT => fingerprint,
            _ => return false,
        };
        self.stat(dir, name)
            .is_some_and(|stat| stat.fingerprint() == known)
    }

    fn stat(&mut self, dir: &[u8], name: &[u8]) -> Option<FileStat> {
        if self.open.as_ref().is_none_or(|(open, _)| open != dir) {
            let opened = self.tree.root.open_dir(dir).ok();
            self.open = Some((dir.to_vec(), opened));
        }
        let (_, opened) = self.open.as_ref()?;
        opened.as_ref()?.try_stat(name).ok()
    }
}
