//! Putting single files back.

use super::CheckoutReport;
use super::switch::{Pending, Switch};
use crate::diff::is_wanted;
use crate::fsutil::FileKind;
use crate::hash::ObjectId;
use crate::job::Job;
use crate::object::name::RepoPath;
use crate::object::tree::{Kind, TreeEntry};
use crate::refs::Effect;
use crate::repo::choices::Chosen;
use crate::repo::conflict::Form;
use crate::repo::worktree::settled_key;
use crate::repo::{Asked, Repo, RepoError, WorktreeSettings, change};
use crate::store::MetaWriter;
use crate::subset::Subset;
use crate::worktree::known::entry_at;
use crate::worktree::select::is_under;
use std::collections::BTreeSet;
use std::ops::ControlFlow;

impl Repo {
    /// Puts the files at `paths` back as the commit `from` (the worktree's own without it) has
    /// them, discarding their uncommitted changes. Files that the commit does not have stay. Where
    /// content is not here, nothing is written ([`RepoError::Lacking`]).
    ///
    /// Conflicts are open again, also those that were settled without a file: that is an operation.
    pub fn restore(
        &self,
        from: Option<ObjectId>,
        paths: &[Vec<u8>],
        settings: &WorktreeSettings,
        asked: Asked,
        job: &Job,
    ) -> Result<CheckoutReport, RepoError> {
        let _lock = self.lock_worktree()?;
        let tree = self.tree(settings)?;
        let commit = from.or(tree.base).ok_or(RepoError::NoCommit)?;
        let is_base = from.is_none() || from == tree.base;
        let (dropped, kept) = match &tree.form {
            Some(form) if is_base => split(form.chosen.clone(), paths),
            _ => Default::default(),
        };
        let form = self.form_of(&self.read_commit(&commit)?, kept)?;
        let root = form.tree;
        let mut switch = Switch::new(self, &tree, &form, &tree.subset, job);
        switch.find_dirty(settings)?;
        let mut wanted = Vec::new();
        for path in paths {
            let parsed = Repo::parse_path(path)?;
            if parsed.is_root() {
                self.collect(&parsed, root, &tree.subset, &mut wanted)?;
                continue;
            }
            let found = entry_at(self.objects(), &root, parsed.as_bytes())?;
            // A conflict is its own file and those beside it.
            let shown = form.shown.iter().find(|shown| shown.at.path == parsed);
            if let Some(shown) = shown {
                for (path, entry) in &shown.sides {
                    match entry.kind {
                        _ if !is_wanted(&tree.subset, path, entry) => {}
                        Kind::Directory => {
                            self.collect(path, entry.id, &tree.subset, &mut wanted)?;
                        }
                        _ => wanted.push((path.clone(), entry.clone())),
                    }
                }
                if found.is_none() {
                    // What settled it by a choice can be had again.
                    if self.is_a_side(&tree, shown)? {
                        self.remove_file(&tree, &parsed)?;
                    }
                    continue;
                }
            }
            let found = found.ok_or_else(|| RepoError::NoSuchPath {
                revision: commit.short(12),
                path: path.clone(),
            })?;
            if !is_wanted(&tree.subset, &parsed, &found) {
                if dropped.iter().any(|c| is_under(c.path.as_bytes(), path)) {
                    continue;
                }
                return Err(RepoError::OutsideSubset(path.clone()));
            }
            match found.kind {
                Kind::Directory => self.collect(&parsed, found.id, &tree.subset, &mut wanted)?,
                _ => wanted.push((parsed, found)),
            }
        }
        let gone: Vec<_> = dropped
            .iter()
            .flat_map(Chosen::edits)
            .filter_map(|(path, entry)| Some((path, entry?)))
            .collect();
        switch.put_back(wanted)?;
        switch.sync()?;
        let stay = self.remove_untouched(&tree, &self.not_in(&root, gone)?, job)?;
        switch.refused.extend(stay);
        if is_base {
            let _ = switch.remember();
        }
        if !dropped.is_empty() {
            self.publish_choices(&tree.name, &form, asked)?;
        }
        let Switch {
            files,
            bytes,
            removed,
            refused,
            ..
        } = switch;
        Ok(CheckoutReport {
            head: self.head()?,
            commit,
            files,
            bytes,
            removed,
            refused,
            subset: tree.subset.clone(),
            idle_patterns: Vec::new(),
        })
    }

    /// Those of `entries` that a tree has nothing in place of.
    fn not_in(
        &self,
        root: &ObjectId,
        entries: Vec<(RepoPath, TreeEntry)>,
    ) -> Result<Vec<(RepoPath, TreeEntry)>, RepoError> {
        let mut out = Vec::new();
        for (path, entry) in entries {
            if entry_at(self.objects(), root, path.as_bytes())?.is_none() {
                out.push((path, entry));
            }
        }
        Ok(out)
    }

    /// Makes the choices of `form`, which are a part of those that were made, all there are.
    fn publish_choices(&self, name: &str, form: &Form, asked: Asked) -> Result<(), RepoError> {
        let writer = self.store.writer()?;
        let mut meta = MetaWriter::new(&writer);
        let record = self.record_of(form.stored, &form.chosen, &mut meta)?;
        meta.flush()?;
        drop(meta);
        let sealed = self.seal(writer)?;
        let value = record.map(|record| record.value());
        let changes = vec![change(&self.refs, settled_key(name), value)?];
        self.publish(asked, Some(sealed), changes, Effect::Written)?;
        Ok(())
    }

    fn collect(
        &self,
        at: &RepoPath,
        tree: ObjectId,
        subset: &Subset,
        out: &mut Vec<(RepoPath, TreeEntry)>,
    ) -> Result<(), RepoError> {
        self.list_subset(at, tree, subset, &mut |listed| {
            out.push((listed.path, listed.entry));
            Ok(ControlFlow::Continue(()))
        })
    }
}

/// Choices for conflicts at or under `paths`, and all others.
fn split(chosen: Vec<Chosen>, paths: &[Vec<u8>]) -> (Vec<Chosen>, Vec<Chosen>) {
    let is_named = |chosen: &Chosen| {
        let path = chosen.path.as_bytes();
        paths.iter().any(|dir| is_under(path, dir))
    };
    chosen.into_iter().partition(is_named)
}

impl Switch<'_> {
    /// Writes entries over whatever tracked files are there.
    fn put_back(&mut self, wanted: Vec<(RepoPath, TreeEntry)>) -> Result<(), RepoError> {
        let mut absent = BTreeSet::new();
        let mut moves = Vec::new();
        let mut lost = Vec::new();
        for (path, entry) in wanted {
            let bytes = path.as_bytes().to_vec();
            if let Some(stat) = self.stat(&bytes, &mut absent)? {
                if stat.kind == FileKind::Dir && entry.kind != Kind::Directory {
                    lost.push(bytes);
                    continue;
                }
                // As the base has it, and the base has what is wanted: nothing to do.
                let clean = !self.dirty.contains_key(&bytes)
                    && self
                        .base_entry(&bytes)?
                        .is_some_and(|have| have.same_content(&entry));
                if clean {
                    continue;
                }
            }
            moves.push((bytes, entry));
        }
        if !lost.is_empty() {
            return Err(RepoError::WouldLose {
                what: "this restore",
                paths: lost,
            });
        }
        let needed = moves.iter().map(|(path, entry)| (&path[..], entry));
        self.repo.check_entries_here(needed)?;
        let mut pending = Pending::default();
        for (path, entry) in moves {
            self.add(&mut pending, path, &entry)?;
        }
        self.flush(&mut pending)
    }
}
