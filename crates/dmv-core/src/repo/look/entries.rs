//! Reading commits: the entry at a path, and lists of paths.

use crate::diff::entries_in;
use crate::hash::ObjectId;
use crate::history::load_commit;
use crate::object::commit::Commit;
use crate::object::list::Blob;
use crate::object::name::RepoPath;
use crate::object::tree::{Kind, TreeEntry, TreeIter, lookup_path};
use crate::repo::base::error::{LookError, PlaceError, RepoError};
use crate::repo::base::repo::Repo;
use crate::subset::{Extent, PathSet};
use std::ops::ControlFlow;

/// A place in a commit: the root or an entry.
#[derive(Clone, Debug)]
pub enum Location {
    /// The root directory.
    Root {
        /// The root tree.
        tree: ObjectId,
        /// Bytes below the root.
        bytes: u64,
        /// Files below the root.
        files: u64,
    },
    /// An entry below the root.
    Entry(TreeEntry),
}

impl Location {
    /// Returns the tree, if this is a directory.
    pub fn tree(&self) -> Option<ObjectId> {
        match self {
            Location::Root { tree, .. } => Some(*tree),
            Location::Entry(e) => (e.kind == Kind::Directory).then_some(e.id),
        }
    }
}

/// A part of a commit: a place, and a subset of the paths below it.
#[derive(Clone, Copy)]
pub struct Selection<'a> {
    /// The path of the place from the commit's root. The subset's patterns are relative to that
    /// root.
    pub path: &'a RepoPath,
    /// The entry at the place.
    pub located: &'a Location,
    /// The wanted paths.
    pub subset: &'a dyn PathSet,
}

impl Selection<'_> {
    /// Returns the number of bytes and files, or zeros if counting them would need a walk.
    pub fn totals(&self) -> (u64, u64) {
        match self.located {
            _ if !self.subset.is_everything() => (0, 0),
            Location::Root { bytes, files, .. } => (*bytes, *files),
            Location::Entry(entry) => (entry.size, entry.file_count()),
        }
    }
}

/// One line of a listing.
#[derive(Clone, Debug)]
pub struct ListingLine {
    /// The path from the root of the commit.
    pub path: RepoPath,
    /// The entry.
    pub entry: TreeEntry,
}

impl Repo {
    /// Reads a commit.
    pub fn read_commit(&self, id: &ObjectId) -> Result<Commit, RepoError> {
        Ok(load_commit(self.objects(), id)?)
    }

    /// Finds the entry of a commit at `path`.
    ///
    /// Fails with [`LookError::NoSuchPath`](crate::repo::LookError::NoSuchPath), which names
    /// `revision`, if there is none.
    pub fn locate(
        &self,
        revision: &str,
        commit: &Commit,
        path: &RepoPath,
    ) -> Result<Location, RepoError> {
        if path.is_root() {
            let (tree, bytes, files) = (commit.tree, commit.tree_bytes, commit.tree_files);
            return Ok(Location::Root { tree, bytes, files });
        }
        let found = lookup_path(self.objects(), &commit.tree, path)?;
        found.map(Location::Entry).ok_or_else(|| {
            RepoError::Look(LookError::NoSuchPath {
                revision: revision.to_owned(),
                path: path.into(),
            })
        })
    }

    /// Visits the content of the directory `tree`, whose path is `at`, in path order.
    ///
    /// If `deep`, visits the files and empty directories of all levels. Otherwise, visits the
    /// directory's own entries.
    pub fn list(
        &self,
        at: &RepoPath,
        tree: ObjectId,
        deep: bool,
        visit: &mut dyn FnMut(ListingLine) -> Result<ControlFlow<()>, RepoError>,
    ) -> Result<(), RepoError> {
        let mut stack = vec![(at.clone(), TreeIter::new(self.objects(), tree))];
        while let Some((path, iter)) = stack.last_mut() {
            let Some(entry) = iter.next().transpose()? else {
                stack.pop();
                continue;
            };
            let path = path_in(self, path, tree, &entry)?;
            let empty = entry.id == crate::object::tree::empty_tree_id();
            if deep && entry.kind == Kind::Directory && !empty {
                stack.push((path, TreeIter::new(self.objects(), entry.id)));
            } else if visit(ListingLine { path, entry })?.is_break() {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Visits the files and empty directories of the directory `tree`, whose path is `at`, in path
    /// order. Does not read what `subset` excludes.
    pub fn list_subset(
        &self,
        at: &RepoPath,
        tree: ObjectId,
        subset: &dyn PathSet,
        visit: &mut dyn FnMut(ListingLine) -> Result<ControlFlow<()>, RepoError>,
    ) -> Result<(), RepoError> {
        let mut stack = Vec::new();
        let mut next = Some((at.clone(), tree));
        let mut flow = ControlFlow::Continue(());
        loop {
            if let Some((dir, tree)) = next.take() {
                match subset.extent(dir.as_bytes()) {
                    Extent::None => {}
                    Extent::All => self.list(&dir, tree, true, &mut |listed| {
                        flow = visit(listed)?;
                        Ok(flow)
                    })?,
                    Extent::Part => {
                        let entries = entries_in(self.objects(), &tree, subset, &dir)?;
                        stack.push((dir, entries.into_iter()));
                    }
                }
            }
            let Some((dir, entries)) = stack.last_mut().filter(|_| flow.is_continue()) else {
                return Ok(());
            };
            let Some(entry) = entries.next() else {
                stack.pop();
                continue;
            };
            let path = path_in(self, dir, tree, &entry)?;
            let is_empty = entry.id == crate::object::tree::empty_tree_id();
            if entry.kind != Kind::Directory {
                flow = visit(ListingLine { path, entry })?;
            } else if !is_empty {
                next = Some((path, entry.id));
            } else if subset.includes(path.as_bytes(), true) {
                flow = visit(ListingLine { path, entry })?;
            }
        }
    }

    /// Visits the files and empty directories of `wanted`, in path order.
    ///
    /// Paths are relative to the place that `wanted` names. If that place is a file, its path is
    /// its name.
    pub fn list_wanted(
        &self,
        wanted: Selection<'_>,
        visit: &mut dyn FnMut(ListingLine) -> Result<ControlFlow<()>, RepoError>,
    ) -> Result<(), RepoError> {
        let Selection {
            path: at,
            located,
            subset,
        } = wanted;
        if let Some(tree) = located.tree() {
            if at.is_root() {
                return self.list_subset(at, tree, subset, visit);
            }
            return self.list_subset(at, tree, subset, &mut |ListingLine { path, entry }| {
                let names = path.components().skip(at.depth());
                let below = names.collect::<Vec<_>>().join(&b'/');
                let path = Repo::parse_path(&below)?;
                visit(ListingLine { path, entry })
            });
        }
        if let Location::Entry(entry) = located
            && subset.includes(at.as_bytes(), false)
        {
            let (path, entry) = (RepoPath::from(&entry.name), entry.clone());
            // There is nothing else to visit.
            let _ = visit(ListingLine { path, entry })?;
        }
        Ok(())
    }
}

pub fn path_in(
    repo: &Repo,
    dir: &RepoPath,
    tree: ObjectId,
    entry: &TreeEntry,
) -> Result<RepoPath, RepoError> {
    dir.join(&entry.name).map_err(|e| {
        RepoError::Place(PlaceError::Damaged {
            path: repo.store().packs_dir().to_owned(),
            why: format!("directory {tree} contains an invalid path: {e}"),
        })
    })
}

/// Returns the content of a file, as its tree entry names it.
pub fn blob_of(entry: &TreeEntry) -> Blob {
    Blob {
        id: entry.id,
        is_list: entry.is_list,
        size: entry.size,
    }
}
