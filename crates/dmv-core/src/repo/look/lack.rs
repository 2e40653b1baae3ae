//! Finding the content that a command needs and that this repository lacks.
//!
//! The search runs before a command changes anything, and finds everything at once. So the content
//! can be fetched together, and the command can run again. A full repository skips the search.

use crate::diff::{entries_in, is_wanted};
use crate::merge::read_conflict;
use crate::object::list::{Blob, BlobChunks};
use crate::object::name::RepoPath;
use crate::object::root::{Lack, Root, has_blob};
use crate::object::tree::{Kind, TreeEntry, TreeIter, empty_tree_id};
use crate::object::{ObjectError, ObjectRead, ObjectType};
use crate::reach::Reach;
use crate::repo::base::error::{AbsentError, RepoError};
use crate::repo::base::objects::ReadableObjects;
use crate::repo::base::repo::Repo;
use crate::repo::look::entries::{Location, Selection, blob_of};
use crate::subset::{Extent, PathSet};
use std::ops::Range;

/// How far a search looks. Each level includes the ones before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LackOf {
    /// Only names: for an absent directory, only its own tree node.
    Names,
    /// Absent directories, with everything that is wanted below them.
    Trees,
    /// Also the lists of files in stored directories.
    Lists,
    /// Also the content of files in stored directories.
    Content,
}

impl Repo {
    /// Returns whether all content of a file is in packs, so that an edit in the worktree cannot lose it.
    pub fn stores_blob(&self, blob: Blob) -> Result<bool, RepoError> {
        Ok(has_blob(self, blob)?)
    }

    /// Returns whether everything under `root` can be read here.
    pub fn has_root(&self, root: Root) -> Result<bool, RepoError> {
        if let Root::Blob(blob) = root {
            return Ok(has_blob(&ReadableObjects(self), blob)?);
        }
        let mut reach = Reach::under([root]);
        while let Some(found) = reach.next(&ReadableObjects(self))? {
            if !found.here {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Returns the missing parts of `wanted`.
    ///
    /// An absent directory that is wanted completely is one item. If only a part of it is wanted,
    /// the item is the next tree node that is missing.
    pub fn lacking(&self, wanted: Selection<'_>, of: LackOf) -> Result<Vec<Lack>, RepoError> {
        let mut search = Search {
            repo: self,
            subset: wanted.subset,
            of,
            stack: Vec::new(),
            found: Vec::new(),
        };
        match wanted.located {
            Location::Root { tree, bytes, files } => {
                let (tree, bytes, files) = (*tree, *bytes, *files);
                search.add(wanted.path, Root::Directory { tree, bytes, files });
            }
            Location::Entry(entry) if is_wanted(wanted.subset, wanted.path, entry) => {
                search.enter(wanted.path, entry)?;
            }
            Location::Entry(_) => {}
        }
        search.run()
    }

    /// Fails with [`AbsentError::Lacking`](crate::repo::AbsentError::Lacking) if a part of `wanted` is
    /// known to be missing.
    pub fn check_here(&self, wanted: Selection<'_>) -> Result<(), RepoError> {
        if self.is_partial() {
            refuse(self.lacking(wanted, LackOf::Content)?)
        } else {
            Ok(())
        }
    }

    /// Fails with an error if names in a directory are missing. `deep` includes the names of all
    /// levels below.
    ///
    /// The error is [`AbsentError::Lacking`](crate::repo::AbsentError::Lacking) if `deep`. Otherwise,
    /// it is [`AbsentError::Object`](crate::repo::AbsentError::Object), which names the missing object.
    pub fn check_names_here(&self, wanted: Selection<'_>, deep: bool) -> Result<(), RepoError> {
        if !self.is_partial() {
            return Ok(());
        }
        if deep {
            return refuse(self.lacking(wanted, LackOf::Names)?);
        }
        let names = wanted.located.tree().map(|tree| TreeIter::new(self, tree));
        for entry in names.into_iter().flatten() {
            // The error for an absent node names it.
            entry?;
        }
        Ok(())
    }
}

/// Fails with [`AbsentError::Lacking`] if the content of one of these entries is missing.
pub fn check_entries_here<'e>(
    repo: &Repo,
    entries: impl IntoIterator<Item = (&'e [u8], &'e TreeEntry)>,
) -> Result<(), RepoError> {
    if !repo.is_partial() {
        return Ok(());
    }
    let mut lacks = Vec::new();
    for (path, entry) in entries {
        let path = RepoPath::from_checked(path.to_vec());
        lacks.extend(lack_at(repo, &path, entry)?);
    }
    refuse(lacks)
}

impl Repo {
    /// Fails with [`AbsentError::Lacking`](crate::repo::AbsentError::Lacking) if bytes in a range of
    /// the file at `path` are missing.
    pub fn check_range_here(
        &self,
        path: &RepoPath,
        blob: Blob,
        range: Range<u64>,
    ) -> Result<(), RepoError> {
        if range.is_empty() || !self.is_partial() {
            return Ok(());
        }
        let lack = |root| Lack {
            path: path.clone(),
            root,
        };
        if range.start == 0 && range.end >= blob.size {
            // Ask for the file as a whole and not chunk by chunk: then a dropped file counts as stored
            // again.
            let root = Root::Blob(blob);
            let is_here = has_blob(&ReadableObjects(self), blob)?;
            return refuse((!is_here).then(|| lack(root)).into_iter().collect());
        }
        let lack = |ty, id| lack(Root::Object(ty, id));
        let mut lacks = Vec::new();
        for chunk in BlobChunks::starting_at(self, blob, range.start) {
            match chunk {
                Ok((offset, ..)) if offset >= range.end => break,
                Ok((_, id, _)) if ReadableObjects(self).holds(ObjectType::Chunk, &id)? => {}
                Ok((_, id, _)) => lacks.push(lack(ObjectType::Chunk, id)),
                Err(ObjectError::Missing { id, ty }) => lacks.push(lack(ty, id)),
                Err(e) => return Err(e.into()),
            }
        }
        refuse(lacks)
    }
}

/// Returns the missing content of a file or symlink, if any.
pub fn lack_at(repo: &Repo, path: &RepoPath, entry: &TreeEntry) -> Result<Option<Lack>, RepoError> {
    let root = Root::of(entry);
    let is_here = match root {
        Root::Blob(blob) => has_blob(&ReadableObjects(repo), blob)?,
        _ => true,
    };
    let path = path.clone();
    Ok((!is_here).then_some(Lack { path, root }))
}

/// Fails with [`AbsentError::Lacking`] unless `lacks` is empty.
pub fn refuse(lacks: Vec<Lack>) -> Result<(), RepoError> {
    if lacks.is_empty() {
        Ok(())
    } else {
        Err(AbsentError::Lacking(lacks).into())
    }
}

struct Search<'a> {
    repo: &'a Repo,
    subset: &'a dyn PathSet,
    of: LackOf,
    /// Directories that are still to be searched.
    stack: Vec<(RepoPath, Root)>,
    found: Vec<Lack>,
}

impl Search<'_> {
    fn run(mut self) -> Result<Vec<Lack>, RepoError> {
        while let Some((dir, root)) = self.stack.pop() {
            let extent = self.subset.extent(dir.as_bytes());
            if extent == Extent::None || root.id() == empty_tree_id() {
                continue;
            }
            if !self.repo.holds(ObjectType::Tree, &root.id())? {
                let part = Root::Object(ObjectType::Tree, root.id());
                let whole = extent == Extent::All && self.of != LackOf::Names;
                self.lack(&dir, if whole { root } else { part });
                continue;
            }
            let entries = match entries_in(self.repo, &root.id(), self.subset, &dir) {
                // This is a node of a large directory. The search asks for the others once this one
                // is stored.
                Err(ObjectError::Missing { id, ty }) => {
                    self.lack(&dir, Root::Object(ty, id));
                    continue;
                }
                entries => entries?,
            };
            let from = self.stack.len();
            for entry in entries {
                if let Ok(path) = dir.join(&entry.name) {
                    self.enter(&path, &entry)?;
                }
            }
            self.stack[from..].reverse();
        }
        Ok(self.found)
    }

    fn add(&mut self, path: &RepoPath, root: Root) {
        self.stack.push((path.clone(), root));
    }

    fn lack(&mut self, path: &RepoPath, root: Root) {
        let path = path.clone();
        self.found.push(Lack { path, root });
    }

    fn enter(&mut self, path: &RepoPath, entry: &TreeEntry) -> Result<(), RepoError> {
        match entry.kind {
            Kind::Directory => self.add(path, Root::of(entry)),
            _ if matches!(self.of, LackOf::Names | LackOf::Trees) => {}
            _ if self.of == LackOf::Lists => self.enter_lists(path, entry)?,
            Kind::Conflict => self.enter_conflict(path, entry)?,
            _ => {
                let lack = lack_at(self.repo, path, entry)?;
                self.found.extend(lack);
            }
        }
        Ok(())
    }

    /// Records the first missing list of a file, if any.
    fn enter_lists(&mut self, path: &RepoPath, entry: &TreeEntry) -> Result<(), RepoError> {
        if !entry.kind.is_blob() {
            return Ok(());
        }
        for chunk in BlobChunks::new(self.repo, blob_of(entry)) {
            match chunk {
                Ok(_) => {}
                Err(ObjectError::Missing { id, ty }) => {
                    self.lack(path, Root::Object(ty, id));
                    return Ok(());
                }
                Err(e) => return Err(e.into()),
            }
        }
        Ok(())
    }

    /// Records the missing content of all versions of a conflict, because a worktree shows all of
    /// them.
    fn enter_conflict(&mut self, path: &RepoPath, entry: &TreeEntry) -> Result<(), RepoError> {
        if !self.repo.holds(ObjectType::Conflict, &entry.id)? {
            self.lack(path, Root::of(entry));
            return Ok(());
        }
        let conflict = read_conflict(self.repo, &entry.id)?;
        for term in conflict.bases.iter().chain(&conflict.sides).flatten() {
            let term = crate::merge::entry_of(&entry.name, term, None);
            if term.kind != Kind::Conflict {
                self.enter(path, &term)?;
            }
        }
        Ok(())
    }
}
