//! A directory of the base with the changes that a scan has found in it.

use super::{Builder, EntryChange, Problem, SnapshotError};
use crate::diff::is_wanted;
use crate::hash::ObjectId;
use crate::object::ObjectWrite;
use crate::object::name::{RepoPath, SafeName};
use crate::object::tree::{Kind, TreeBuilder, TreeEntry, TreeIter, TreeSummary};
use crate::worktree::join;
use crate::worktree::properties::with_properties;
use std::collections::BTreeSet;

/// A directory of the base with the changes of the worktree.
pub(super) struct MergedDir<'n> {
    pub summary: TreeSummary,
    /// Whether it differs from the base.
    pub changed: bool,
    /// The names of changes that it does not have: the commit has something outside of the subset there.
    pub refused: BTreeSet<&'n [u8]>,
}

impl Builder<'_, '_> {
    /// Applies `changes`, sorted by name, to the base directory.
    pub(super) fn merge<'n>(
        &mut self,
        base: Option<ObjectId>,
        dir: &[u8],
        changes: impl Iterator<Item = (&'n [u8], &'n EntryChange)>,
        meta: &mut dyn ObjectWrite,
    ) -> Result<MergedDir<'n>, SnapshotError> {
        let mut builder = TreeBuilder::new();
        let (mut changed, mut refused) = (false, BTreeSet::new());
        let mut rest = changes.peekable();
        if let Some(base) = base {
            for entry in TreeIter::new(self.input.reader, base) {
                let old = entry?;
                while let Some((name, change)) =
                    rest.next_if(|(name, _)| *name < old.name.as_bytes())
                {
                    changed |= self.push_new((name, change), None, &mut builder, meta)?;
                }
                match rest.next_if(|(name, _)| *name == old.name.as_bytes()) {
                    Some((name, _)) if !self.is_inside(dir, &old) => {
                        refused.insert(name);
                        let why = "the commit has something outside of the subset there";
                        self.out
                            .problems
                            .push(Problem::new(join(dir, old.name.as_bytes()), why.to_owned()));
                        builder.push(&old, meta)?;
                    }
                    Some((name, change)) => {
                        let differs =
                            self.push_new((name, change), Some(old), &mut builder, meta)?;
                        changed |= differs;
                        if differs && !self.covered.is_empty() {
                            self.note_covered(join(dir, name));
                        }
                    }
                    None => builder.push(&old, meta)?,
                }
            }
        }
        for (name, change) in rest {
            changed |= self.push_new((name, change), None, &mut builder, meta)?;
        }
        Ok(MergedDir {
            summary: builder.finish(meta)?,
            changed,
            refused,
        })
    }

    /// Counts a changed file if ignore rules cover it.
    fn note_covered(&mut self, path: Vec<u8>) {
        if self.covered.contains(&path) {
            let (count, first) = &mut self.out.tracked_ignored;
            *count += 1;
            if *count == 1 {
                *first = path;
            }
        }
    }

    /// Returns whether this worktree may change an entry of the base commit.
    fn is_inside(&self, dir: &[u8], entry: &TreeEntry) -> bool {
        let subset = self.input.scan.subset;
        let path = RepoPath::parse(&join(dir, entry.name.as_bytes()));
        subset.is_everything() || path.is_ok_and(|path| is_wanted(subset, &path, entry))
    }

    /// Adds a changed entry. Returns whether it differs from the old one.
    fn push_new(
        &mut self,
        (name, change): (&[u8], &EntryChange),
        old: Option<TreeEntry>,
        builder: &mut TreeBuilder,
        meta: &mut dyn ObjectWrite,
    ) -> Result<bool, SnapshotError> {
        let Ok(name) = SafeName::new(name) else {
            // The scan reports no other names.
            return Ok(false);
        };
        let attrs = None;
        let entry = match change {
            EntryChange::Gone => {
                self.out.changed_files += old.as_ref().map_or(0, files_of);
                return Ok(old.is_some());
            }
            EntryChange::File {
                kind,
                is_list,
                id,
                size,
                private,
                kept,
                ..
            } => {
                let was_private = || old.as_ref().is_some_and(TreeEntry::is_private);
                let entry = TreeEntry {
                    name,
                    kind: *kind,
                    is_list: *is_list,
                    id: *id,
                    size: *size,
                    files: 0,
                    attrs,
                };
                let entry = entry.with_privacy(private.unwrap_or_else(was_private));
                with_properties(entry, kept.as_deref(), old.as_ref())
            }
            EntryChange::Dir(tree) => TreeEntry {
                name,
                kind: Kind::Directory,
                is_list: false,
                id: tree.id,
                size: tree.bytes,
                files: tree.files,
                attrs,
            },
        };
        let is_dir = |kind: Kind| kind == Kind::Directory;
        let replaced = old
            .as_ref()
            .filter(|old| is_dir(old.kind) != is_dir(entry.kind))
            .map_or(0, files_of);
        let parts = |entry: &TreeEntry| (entry.kind, entry.id, entry.is_list);
        let entry = match old.filter(|old| parts(old) == parts(&entry)) {
            // What else is known of the entry stays with its content. A time alone is no change.
            Some(old) => {
                let (private, xattrs) = (entry.is_private(), entry.xattrs());
                if old.is_private() == private && old.xattrs() == xattrs {
                    builder.push(&old, meta)?;
                    return Ok(false);
                }
                old.with_privacy(private).with_xattrs(&xattrs)
            }
            None => entry,
        };
        self.out.changed_files += replaced + u64::from(!is_dir(entry.kind));
        builder.push(&entry, meta)?;
        Ok(true)
    }
}

/// Returns the number of files of an entry, including those below a directory.
fn files_of(entry: &TreeEntry) -> u64 {
    match entry.kind {
        Kind::Directory => entry.files,
        _ => 1,
    }
}
