//! What a commit has changed, for its place in a history: some files with their former names, how many there are, and the
//! conflicts that a merge has left.

use crate::program::Stop;
use dmv_core::diff::{DiffVisitor, diff_trees};
use dmv_core::hash::ObjectId;
use dmv_core::job::Job;
use dmv_core::object::ObjectError;
use dmv_core::object::commit::Commit;
use dmv_core::object::name::RepoPath;
use dmv_core::object::tree::TreeEntry;
use dmv_core::repo::{Rename, Repo};
use dmv_core::worktree::select::Paths;
use std::collections::HashSet;
use std::ops::ControlFlow;

/// Changed files that are named for each commit.
const MAX_FILES: usize = 4;
/// Changed files that are counted for each commit.
const MAX_COUNTED: usize = 10_000;
/// Added and deleted files of all commits of a page that are compared, to find those that were moved.
const MAX_COMPARED: usize = 4_000;

/// The commit that is asked about, and the path that its history is limited to.
pub struct ChangesAsked<'a> {
    /// The commit.
    pub commit: &'a Commit,
    /// Only changes at or below this path count.
    pub path: &'a RepoPath,
}

/// What a commit has changed.
#[derive(Default)]
pub struct CommitChanges {
    /// The first changed files. A merge has none.
    pub files: Vec<ChangedFile>,
    /// How many files have changed; a moved one counts once.
    pub count: u64,
    /// Whether there are more than were counted.
    pub is_cut: bool,
    /// The first paths that a merge has left in conflict.
    pub conflicts: Vec<RepoPath>,
    /// How many further ones. `None`: so many that the commit does not list them.
    pub more_conflicts: Option<u64>,
}

/// A file that a commit has changed.
pub struct ChangedFile {
    /// Its path.
    pub path: RepoPath,
    /// Where it was before, if it was moved.
    pub from: Option<RepoPath>,
    /// The file; `None` if it was deleted.
    pub now: Option<TreeEntry>,
}

impl CommitChanges {
    /// Finds the changes of a commit. `compared` counts the files that were compared for this page.
    pub fn of(
        repo: &Repo,
        asked: &ChangesAsked<'_>,
        compared: &mut usize,
    ) -> Result<CommitChanges, Stop> {
        let commit = asked.commit;
        if commit.parents.len() > 1 {
            return Ok(CommitChanges::of_merge(commit, asked.path));
        }
        let mut out = CommitChanges {
            more_conflicts: Some(0),
            ..CommitChanges::default()
        };
        let before = match commit.parents.first() {
            Some(parent) => match repo.read_commit(parent) {
                Ok(parent) => Some(parent.tree),
                // Beyond the end of the stored history.
                Err(_) => return Ok(out),
            },
            None => None,
        };
        let mut found = Differences::below(asked.path);
        match diff_trees(repo.objects(), before, Some(commit.tree), &mut found) {
            Ok(_) => {}
            // Trees that are not stored here: the commit is shown all the same.
            Err(ObjectError::Missing { .. }) => out.is_cut = true,
            Err(e) => return Err(e.into()),
        }
        let renames = found.renames(repo, asked, before, compared);
        let gone: HashSet<&RepoPath> = renames.iter().map(|rename| &rename.from).collect();
        out.is_cut |= found.is_cut;
        for file in found.files {
            if file.now.is_none() && gone.contains(&file.path) {
                continue;
            }
            out.count += 1;
            if out.files.len() < MAX_FILES {
                let rename = renames.iter().find(|rename| rename.to == file.path);
                let from = rename.map(|rename| rename.from.clone());
                out.files.push(ChangedFile { from, ..file });
            }
        }
        Ok(out)
    }

    fn of_merge(commit: &Commit, path: &RepoPath) -> CommitChanges {
        let mut out = CommitChanges::default();
        if let Some(mut all) = Repo::listed_conflicts(commit) {
            all.retain(|conflict| conflict.starts_with(path));
            out.more_conflicts = Some(all.len().saturating_sub(MAX_FILES) as u64);
            all.truncate(MAX_FILES);
            out.conflicts = all;
        }
        out
    }

    /// How many changed files are not named.
    pub fn more(&self) -> u64 {
        self.count - self.files.len() as u64
    }

    /// How many files are in conflict. `None`: many.
    pub fn conflict_count(&self) -> Option<u64> {
        Some(self.more_conflicts? + self.conflicts.len() as u64)
    }
}

/// The differences at or below a path. Nothing else is looked at.
struct Differences<'a> {
    path: &'a RepoPath,
    files: Vec<ChangedFile>,
    added: usize,
    deleted: usize,
    is_cut: bool,
}

impl<'a> Differences<'a> {
    fn below(path: &'a RepoPath) -> Differences<'a> {
        Differences {
            path,
            files: Vec::new(),
            added: 0,
            deleted: 0,
            is_cut: false,
        }
    }

    /// The files that were moved. The history of a single file looks for where that came from.
    fn renames(
        &self,
        repo: &Repo,
        asked: &ChangesAsked<'_>,
        before: Option<ObjectId>,
        compared: &mut usize,
    ) -> Vec<Rename> {
        let is_one = matches!(&self.files[..], [file] if file.path == *asked.path);
        let may_have_moved = self.added > 0 && (is_one || self.deleted > 0);
        *compared += self.added + self.deleted;
        let is_small = !self.is_cut && *compared <= MAX_COMPARED;
        if before.is_none() || !may_have_moved || !is_small {
            return Vec::new();
        }
        let paths = if is_one {
            Paths::all()
        } else {
            Paths::new([&asked.path])
        };
        let now = Some(asked.commit.tree);
        let found = repo.renames_between(before, now, &paths, &Job::default());
        // What is absent here cannot be compared; the files are shown as added and deleted.
        found.map(|found| found.list).unwrap_or_default()
    }
}

impl DiffVisitor for Differences<'_> {
    type Error = ObjectError;

    fn joins_kinds(&self) -> bool {
        true
    }

    fn enter(&mut self, dir: &RepoPath, _sides: [Option<ObjectId>; 2]) -> bool {
        dir.starts_with(self.path) || self.path.starts_with(dir)
    }

    fn change(
        &mut self,
        path: &RepoPath,
        old: Option<&TreeEntry>,
        new: Option<&TreeEntry>,
    ) -> Result<ControlFlow<()>, ObjectError> {
        if !path.starts_with(self.path) {
            return Ok(ControlFlow::Continue(()));
        }
        if self.files.len() == MAX_COUNTED {
            self.is_cut = true;
            return Ok(ControlFlow::Break(()));
        }
        self.added += usize::from(old.is_none());
        self.deleted += usize::from(new.is_none());
        self.files.push(ChangedFile {
            path: path.clone(),
            from: None,
            now: new.cloned(),
        });
        Ok(ControlFlow::Continue(()))
    }
}
