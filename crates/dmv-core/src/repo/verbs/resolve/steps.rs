//! The file changes that settle conflicts. They are planned before any file is touched.
//!
//! `resolve` makes [`Steps`], adds its choices and carries out the result.

use crate::fsutil::{FileKind, FileStat};
use crate::merge::entry_of;
use crate::object::conflict::Term;
use crate::object::name::RepoPath;
use crate::object::tree::{Kind, TreeEntry, empty_tree_id, lookup_path};
use crate::repo::base::change::ChangeKind;
use crate::repo::base::error::RepoError;
use crate::repo::base::repo::Repo;
use crate::repo::conflict::at::ConflictAt;
use crate::repo::conflict::choice::Choice;
use crate::repo::conflict::form::{Form, Shown, ShownSide};
use crate::repo::conflict::names::last_name;
use crate::repo::conflict::settle::stat_of;
use crate::repo::files::open_worktree::OpenWorktree;
use crate::repo::files::same::{SameError, equals};
use crate::repo::files::saved::{Overwrite, Overwrites, PathReturn, Return, all_gone, obstacle};
use crate::repo::files::untouched;
use crate::worktree::snapshot::Problem;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

/// A path that changes.
struct PlannedPath {
    there: Option<FileStat>,
    before: Option<TreeEntry>,
    after: Option<TreeEntry>,
}

/// The changes for some conflicts.
pub struct Steps<'a> {
    repo: &'a Repo,
    tree: &'a OpenWorktree,
    form: &'a Form,
    /// The paths that differ from the form.
    dirty: &'a BTreeMap<Vec<u8>, ChangeKind>,
    planned: BTreeMap<Vec<u8>, PlannedPath>,
    /// Work of the user that is in the way.
    pub lost: BTreeSet<Vec<u8>>,
    /// Files of the user in the place of directories.
    pub in_the_way: BTreeSet<Vec<u8>>,
    /// Files beside conflicts that stay.
    pub kept: Vec<Problem>,
}

impl<'a> Steps<'a> {
    pub fn new(
        repo: &'a Repo,
        tree: &'a OpenWorktree,
        form: &'a Form,
        dirty: &'a BTreeMap<Vec<u8>, ChangeKind>,
    ) -> Steps<'a> {
        Steps {
            repo,
            tree,
            form,
            dirty,
            planned: BTreeMap::new(),
            lost: BTreeSet::new(),
            in_the_way: BTreeSet::new(),
            kept: Vec::new(),
        }
    }

    /// Plans the choice for one conflict, and returns the paths that will have the chosen content.
    /// `file` is the content of [`Choice::With`].
    pub fn settle(
        &mut self,
        shown: &Shown,
        is_open: bool,
        choice: &Choice,
        file: Option<Term>,
    ) -> Result<Vec<RepoPath>, RepoError> {
        let at = &shown.at;
        let wanted = match file {
            Some(term) => vec![(at.path.clone(), term)],
            None => at.wanted(choice, &|path, term| self.is_free(path, term))?,
        };
        let mut beside: Vec<_> = shown.sides.iter().map(ShownSide::file).collect();
        if !is_open {
            beside.extend(self.left_beside(at)?);
        }
        let is_cleared = self.clear(shown)?;
        for (path, entry) in beside {
            if !wanted.iter().any(|(wanted, _)| *wanted == path) {
                self.take_away(&path, &entry)?;
            }
        }
        for (path, term) in &wanted {
            let entry = entry_of(&last_name(path), term, None);
            self.put(path, &entry, is_cleared && *path == at.path)?;
        }
        Ok(wanted.into_iter().map(|(path, _)| path).collect())
    }

    /// Returns the files in new directories of the user that are in the way.
    pub fn lost_in_dirs(&self) -> Result<Vec<Vec<u8>>, RepoError> {
        let mut dirs = Vec::new();
        for path in &self.lost {
            let is_new = matches!(self.dirty.get(path), None | Some(ChangeKind::Added));
            let stat = stat_of(&self.tree.root, path)?.filter(|_| is_new);
            if stat.is_some_and(|stat| stat.kind == FileKind::Dir) {
                dirs.push(path.clone());
            }
        }
        Ok(all_gone(self.tree, dirs)?.into_keys().collect())
    }

    /// Returns all planned changes.
    pub fn finish(self) -> (Return, Overwrites) {
        let (mut moves, mut overwrites) = (Return::default(), Overwrites::new());
        for (path, planned) in self.planned {
            let PlannedPath {
                there,
                before,
                after,
            } = planned;
            if let (Some(before), Some(after)) = (&before, &after)
                && before.same_content(after)
            {
                continue;
            }
            let to = after.clone();
            moves.steps.push(PathReturn {
                path: path.clone(),
                there,
                to,
            });
            let committed = before;
            overwrites.insert(path, Overwrite { committed, after });
        }
        (moves, overwrites)
    }

    /// Plans to remove the entry at a conflict's own path if it is known: the form of the conflict,
    /// or one of its versions. Returns whether a directory is removed.
    fn clear(&mut self, shown: &Shown) -> Result<bool, RepoError> {
        let (at, path) = (&shown.at, shown.at.path.as_bytes());
        let Some(stat) = stat_of(&self.tree.root, path)? else {
            return Ok(false);
        };
        if stat.kind == FileKind::Dir {
            let terms = at.conflict.sides.iter().chain(&at.conflict.bases);
            for term in terms.flatten() {
                if self.has_exactly(&at.path, term)? {
                    let entry = entry_of(&last_name(&at.path), term, None);
                    self.take_away(&at.path, &entry)?;
                    return Ok(true);
                }
            }
            // Where the conflict shows nothing, a directory is the user's. It is in the way only of
            // what has to be written over it.
            if shown.own.is_some() {
                self.lost.insert(path.to_vec());
            }
            return Ok(false);
        }
        let known = if self.dirty.contains_key(path) {
            untouched::side_at(self.repo, self.tree, shown, &stat)?
        } else {
            shown.entry()
        };
        match known {
            Some(entry) => self.goes(path, stat, entry),
            None => drop(self.lost.insert(path.to_vec())),
        }
        Ok(false)
    }

    fn goes(&mut self, path: &[u8], stat: FileStat, entry: TreeEntry) {
        let planned = PlannedPath {
            there: Some(stat),
            before: Some(entry),
            after: None,
        };
        self.planned.insert(path.to_vec(), planned);
    }

    /// Plans to remove an entry. Files that differ from it stay.
    fn take_away(&mut self, path: &RepoPath, entry: &TreeEntry) -> Result<(), RepoError> {
        for (path, entry) in all_of(self.repo, path, entry)? {
            let path = path.as_bytes();
            let Some(stat) = stat_of(&self.tree.root, path)? else {
                continue;
            };
            let is_dir = entry.kind == Kind::Directory && stat.kind == FileKind::Dir;
            if is_dir
                || equals(self.repo, &self.tree.root, path, &entry, &stat)
                    .map_err(SameError::any)?
            {
                self.goes(path, stat, entry);
            } else {
                let why = "it was changed, so it stays".to_owned();
                let path = path.to_vec();
                self.kept.push(Problem::new(path, why));
            }
        }
        Ok(())
    }

    /// Plans to add an entry. With `is_cleared`, a directory at this path is removed before.
    fn put(
        &mut self,
        path: &RepoPath,
        entry: &TreeEntry,
        is_cleared: bool,
    ) -> Result<(), RepoError> {
        for (path, entry) in all_of(self.repo, path, entry)? {
            let path = path.as_bytes();
            if let Some(planned) = self.planned.get_mut(path) {
                planned.after = Some(entry);
                continue;
            }
            if let Some(stat) = stat_of(&self.tree.root, path)?.filter(|_| !is_cleared) {
                let is_dir = entry.kind == Kind::Directory && stat.kind == FileKind::Dir;
                if !is_dir
                    && !equals(self.repo, &self.tree.root, path, &entry, &stat)
                        .map_err(SameError::any)?
                {
                    self.lost.insert(path.to_vec());
                }
                continue;
            }
            let goes = |above: &Vec<u8>| self.planned.contains_key(above);
            let above = obstacle(self.tree, path)?.filter(|above| !goes(above));
            self.in_the_way.extend(above);
            let planned = PlannedPath {
                there: None,
                before: None,
                after: Some(entry),
            };
            self.planned.insert(path.to_vec(), planned);
        }
        Ok(())
    }

    /// Returns whether a further version can be put at `path`: nothing or the same version is
    /// there, and will be there.
    fn is_free(&self, path: &RepoPath, term: &Term) -> Result<bool, RepoError> {
        let planned = self.planned.get(path.as_bytes());
        if let Some(after) = planned.and_then(|planned| planned.after.as_ref()) {
            return Ok(after.same_content(&entry_of(&last_name(path), term, None)));
        }
        for tree in [self.form.stored, self.form.tree] {
            if lookup_path(self.repo.objects(), &tree, path)?.is_some() {
                return Ok(false);
            }
        }
        let is_there = stat_of(&self.tree.root, path.as_bytes())?.is_some();
        Ok(!is_there || self.has_exactly(path, term)?)
    }

    /// Returns whether the worktree has exactly a version of a conflict at `path`, and nothing else
    /// below it.
    fn has_exactly(&self, path: &RepoPath, term: &Term) -> Result<bool, RepoError> {
        let entry = entry_of(&last_name(path), term, None);
        let Some(stat) = stat_of(&self.tree.root, path.as_bytes())? else {
            return Ok(false);
        };
        if (entry.kind == Kind::Directory) != (stat.kind == FileKind::Dir) {
            return Ok(false);
        }
        let all = all_of(self.repo, path, &entry)?;
        if stat.kind == FileKind::Dir {
            let there = all_gone(self.tree, vec![path.as_bytes().to_vec()])?;
            let known: BTreeSet<&[u8]> = all.iter().map(|(path, _)| path.as_bytes()).collect();
            if !there.keys().map(Vec::as_slice).eq(known) {
                return Ok(false);
            }
        }
        for (path, entry) in &all {
            let (root, path) = (&self.tree.root, path.as_bytes());
            let Some(stat) = stat_of(root, path)? else {
                return Ok(false);
            };
            let is_same = match entry.kind {
                Kind::Directory => stat.kind == FileKind::Dir,
                _ => equals(self.repo, root, path, entry, &stat).map_err(SameError::any)?,
            };
            if !is_same {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Returns the entries beside a conflict that [`Choice::Both`] has settled. Returns none if the
    /// conflict was not settled in this way, or if one of the versions has changed since.
    fn left_beside(&self, at: &ConflictAt) -> Result<Vec<(RepoPath, TreeEntry)>, RepoError> {
        let all = at.wanted(&Choice::Both, &|path, term| self.is_free(path, term))?;
        let mut out = Vec::new();
        for (path, term) in all {
            if !self.has_exactly(&path, &term)? {
                return Ok(Vec::new());
            }
            if path != at.path {
                let entry = entry_of(&last_name(&path), &term, None);
                out.push((path, entry));
            }
        }
        Ok(out)
    }
}

/// Returns the files and empty directories of an entry.
fn all_of(
    repo: &Repo,
    path: &RepoPath,
    entry: &TreeEntry,
) -> Result<Vec<(RepoPath, TreeEntry)>, RepoError> {
    if entry.kind != Kind::Directory || entry.id == empty_tree_id() {
        return Ok(vec![(path.clone(), entry.clone())]);
    }
    let mut out = Vec::new();
    repo.list(path, entry.id, true, &mut |listed| {
        out.push((listed.path, listed.entry));
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(out)
}
