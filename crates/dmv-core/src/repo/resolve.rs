//! Settling conflicts: the files of a worktree are made what was chosen; the next commit records it.

use super::checkout::switch::{Pending, Switch};
use super::conflict::{Form, Shown, last_name};
use super::settle::stat_of;
use super::status::same_as;
use super::worktree::Tree;
use super::{ChangeKind, PathChange, Repo, RepoError, StatusOptions, WorktreeSettings};
use crate::fsutil::{FileKind, PathError};
use crate::job::Job;
use crate::merge::entry_of;
use crate::object::conflict::Term;
use crate::object::name::RepoPath;
use crate::object::tree::{Kind, TreeEntry, lookup_path};
use crate::worktree::select::{Paths, is_under};
use crate::worktree::snapshot::Problem;
use crate::worktree::split_path;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

/// How a conflict is to be settled.
#[derive(Clone, Debug)]
pub enum Choice {
    /// What the side merged into has, also if that is nothing.
    Ours,
    /// What the side that was merged has.
    Theirs,
    /// What both started from.
    Base,
    /// Every side: ours under the name, others beside it.
    Both,
    /// A copy of this file.
    With(PathBuf),
}

/// What a resolve did.
#[derive(Debug, Default)]
pub struct ResolveReport {
    /// The conflicts, with the paths that hold what was chosen; none where it is deleted.
    pub settled: Vec<(RepoPath, Vec<RepoPath>)>,
    /// Conflicts of the worktree that are still open.
    pub open: Vec<Vec<u8>>,
    /// Files that stay because somebody changed them.
    pub kept: Vec<Problem>,
}

impl Repo {
    /// Settles the conflicts at or under `paths` in the worktree.
    ///
    /// Conflicts outside of the worktree's subset stay open; if there are only such,
    /// [`RepoError::OutsideSubset`] names one.
    ///
    /// A conflict's file that was edited by hand is not overwritten: then nothing is touched and
    /// [`RepoError::WouldLose`] lists the paths. A conflict can be settled again until it is
    /// committed.
    pub fn resolve_conflicts(
        &self,
        paths: &[Vec<u8>],
        choice: &Choice,
        settings: &WorktreeSettings,
        job: &Job,
    ) -> Result<ResolveReport, RepoError> {
        let _lock = self.lock_worktree()?;
        let tree = self.tree(settings)?;
        let form = tree.form.clone().ok_or(RepoError::NoCommit)?;
        let chosen = choose(&form, paths)?;
        let (chosen, outside): (Vec<&Shown>, Vec<&Shown>) = chosen
            .into_iter()
            .partition(|shown| tree.subset.includes(shown.at.path.as_bytes(), false));
        if let ([], [first, ..]) = (&chosen[..], &outside[..]) {
            // A commit takes nothing from outside, so nothing written there would settle it.
            let path = first.at.path.as_bytes().to_vec();
            return Err(RepoError::OutsideSubset(path));
        }
        if let (Choice::With(_), [_, _, ..]) = (choice, &chosen[..]) {
            return Err(RepoError::WrongKind {
                path: paths.first().cloned().unwrap_or_default(),
                what: "more than one conflict, and a file can settle only one",
            });
        }
        let select = Paths::default();
        let options = StatusOptions {
            select: &select,
            settings: settings.clone(),
        };
        let changes = self.changes_of(&tree, &options, job)?;
        let changes: BTreeMap<Vec<u8>, ChangeKind> = changes
            .into_iter()
            .map(|PathChange { path, kind }| (path, kind))
            .collect();
        let mut lost = Vec::new();
        for shown in &chosen {
            let path = shown.at.path.as_bytes();
            if changes.contains_key(path) && !self.is_a_side(&tree, shown)? {
                lost.push(path.to_vec());
            }
        }
        if !lost.is_empty() {
            let what = "this resolve";
            return Err(RepoError::WouldLose { what, paths: lost });
        }
        let mut report = ResolveReport::default();
        let mut switch = Switch::new(self, &tree, &form, &tree.subset, job);
        for shown in &chosen {
            let made = match choice {
                Choice::With(file) => self.copy_in(&tree, &shown.at.path, file)?,
                choice => self.put_chosen(&tree, &mut switch, shown, choice)?,
            };
            let left = self.remove_untouched(&tree, &shown.sides, job)?;
            report.kept.extend(left);
            report.settled.push((shown.at.path.clone(), made));
        }
        switch.sync()?;
        report.kept.append(&mut switch.refused);
        let changes = self.changes_of(&tree, &options, job)?;
        report.open = super::settle::explain(&tree.root, &form, changes).1;
        Ok(report)
    }

    /// Whether a conflict's file is nothing but what one of its sides has, or is not there.
    pub(super) fn is_a_side(&self, tree: &Tree, shown: &Shown) -> Result<bool, RepoError> {
        let path = shown.at.path.as_bytes();
        let Some(stat) = stat_of(&tree.root, path) else {
            return Ok(true);
        };
        let conflict = &shown.at.conflict;
        let terms = conflict.sides.iter().chain(&conflict.bases).flatten();
        let name = last_name(&shown.at.path);
        for term in terms.filter(|term| term.kind != Kind::Directory) {
            let entry = entry_of(&name, term, None);
            // What cannot be read is somebody's.
            if let Ok(true) = same_as(self, &tree.root, path, &entry, &stat) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Writes what was chosen; returns where.
    fn put_chosen(
        &self,
        tree: &Tree,
        switch: &mut Switch<'_>,
        shown: &Shown,
        choice: &Choice,
    ) -> Result<Vec<RepoPath>, RepoError> {
        let at = &shown.at;
        let mut wanted: Vec<(RepoPath, Term)> = Vec::new();
        let mut want = |term: Option<Term>| wanted.extend(term.map(|t| (at.path.clone(), t)));
        match choice {
            Choice::Ours => want(at.ours()),
            Choice::Theirs => want(at.theirs()),
            Choice::Base => want(at.base()),
            Choice::Both => {
                for (n, side) in at.conflict.sides.iter().enumerate() {
                    let Some(side) = side else { continue };
                    let path = match n {
                        0 => at.path.clone(),
                        n if n + 1 == at.conflict.sides.len() => {
                            self.other_name(tree, at, "theirs")?
                        }
                        n => self.other_name(tree, at, &format!("side{}", n + 1))?,
                    };
                    wanted.push((path, *side));
                }
                // One version alone has the name to itself.
                if let [(path, _)] = &mut wanted[..] {
                    *path = at.path.clone();
                }
            }
            Choice::With(_) => {}
        }
        let is_kept = wanted
            .iter()
            .any(|(path, term)| *path == at.path && term.kind != Kind::Directory);
        if !is_kept {
            self.remove_file(tree, &at.path)?;
        }
        let mut pending = Pending::default();
        for (path, term) in &wanted {
            let entry = entry_of(&last_name(path), term, None);
            if term.kind != Kind::Directory {
                switch.add(&mut pending, path.as_bytes().to_vec(), &entry)?;
                continue;
            }
            switch.add(&mut pending, path.as_bytes().to_vec(), &entry)?;
            let mut below: Vec<(RepoPath, TreeEntry)> = Vec::new();
            self.list(path, term.id, true, &mut |listed| {
                below.push((listed.path, listed.entry));
                Ok(ControlFlow::Continue(()))
            })?;
            for (path, entry) in below {
                switch.add(&mut pending, path.as_bytes().to_vec(), &entry)?;
            }
        }
        switch.flush(&mut pending)?;
        Ok(wanted.into_iter().map(|(path, _)| path).collect())
    }

    /// A name for another version of a file, before its ending: `shot-theirs.png`. Nothing has it.
    fn other_name(
        &self,
        tree: &Tree,
        at: &super::ConflictAt,
        label: &str,
    ) -> Result<RepoPath, RepoError> {
        let name = at.path.file_name().unwrap_or_default();
        let dot = name.iter().rposition(|b| *b == b'.').filter(|dot| *dot > 0);
        let (stem, ending) = name.split_at(dot.unwrap_or(name.len()));
        let dir = at.path.parent().unwrap_or_default();
        for n in 1u32.. {
            let number = if n > 1 { n.to_string() } else { String::new() };
            let middle = format!("-{label}{number}");
            let room = crate::limits::MAX_NAME_BYTES - (middle.len() + ending.len()).min(200);
            let stem = &stem[..stem.len().min(room)];
            let name = [stem, middle.as_bytes(), ending].concat();
            let path = Repo::parse_path(&crate::worktree::join(dir.as_bytes(), &name))?;
            let in_tree = match tree.base_tree {
                Some(base) => lookup_path(self.objects(), &base, &path)?.is_some(),
                None => false,
            };
            if !in_tree && stat_of(&tree.root, path.as_bytes()).is_none() {
                return Ok(path);
            }
        }
        unreachable!("a directory has fewer names than numbers")
    }

    /// Removes what is at `path` unless it is a directory.
    pub(super) fn remove_file(&self, tree: &Tree, path: &RepoPath) -> Result<(), RepoError> {
        let there = stat_of(&tree.root, path.as_bytes());
        if let (Some((dir, name)), Some(stat)) = (split_path(path.as_bytes()), there)
            && stat.kind != FileKind::Dir
        {
            tree.root.open_dir(dir)?.unlink(name)?;
        }
        Ok(())
    }

    /// Puts a copy of `file` at `path`.
    fn copy_in(
        &self,
        tree: &Tree,
        path: &RepoPath,
        file: &PathBuf,
    ) -> Result<Vec<RepoPath>, RepoError> {
        let io = |source| RepoError::Io {
            action: "read",
            path: file.clone(),
            source,
        };
        let mut from = std::fs::File::open(file).map_err(io)?;
        let meta = from.metadata().map_err(io)?;
        if !meta.is_file() {
            return Err(io(std::io::ErrorKind::InvalidInput.into()));
        }
        let Some((dir, name)) = split_path(path.as_bytes()) else {
            return Ok(Vec::new());
        };
        let dir = tree.root.open_dir(dir)?;
        let (mut to, temp) = dir.create_temp(meta.permissions().mode() & 0o100 != 0)?;
        let copied = std::io::copy(&mut from, &mut to).and_then(|_| to.sync_data());
        let placed = copied
            .map_err(|e| PathError::new("write", dir.path_of(name), e))
            .and_then(|()| dir.rename(&temp, name));
        if let Err(e) = placed {
            // The failure matters more than one of tidying up after it.
            let _ = dir.unlink(&temp);
            return Err(e.into());
        }
        Ok(vec![path.clone()])
    }
}

/// The conflicts at or under each of `paths`.
fn choose<'f>(form: &'f Form, paths: &[Vec<u8>]) -> Result<Vec<&'f Shown>, RepoError> {
    let mut out: Vec<&Shown> = Vec::new();
    for path in paths {
        let here = form.shown.iter();
        let mut here = here
            .filter(|shown| is_under(shown.at.path.as_bytes(), path))
            .peekable();
        if here.peek().is_none() {
            return Err(RepoError::NoConflict { path: path.clone() });
        }
        for shown in here {
            if !out.iter().any(|known| known.at.path == shown.at.path) {
                out.push(shown);
            }
        }
    }
    Ok(out)
}
