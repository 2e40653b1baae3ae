//! The part of the needed objects that is wanted: which paths, how much history, with chunks or
//! without.
//!
//! Whether an object is wanted depends on the commits and trees above it alone. So both sides of a
//! transfer reach the same answer (docs/protocol.md, "Filters").

use crate::hash::{ObjectId, derived_id};
use crate::object::name::{NameError, RepoPath};
use crate::object::tree::{Kind, TreeEntry};
use crate::subset::{Extent, Union};
use std::collections::BTreeSet;
use std::sync::Arc;

/// A part of the objects that commits need. The default is everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// The wanted paths.
    pub paths: Union,
    /// Whether chunks are left out.
    pub metadata_only: bool,
    /// How many commits to follow from each tip along the shortest line, including the tip; 0 for
    /// all.
    pub depth: u32,
    /// Time in seconds since 1970. The first commit before it ends its line.
    pub since: Option<i64>,
    /// Hidden commits whose parents are absent and so not hidden.
    pub shallow: BTreeSet<ObjectId>,
    /// Unwanted blobs, by the id of their chunk or root list.
    pub dropped: BTreeSet<ObjectId>,
}

/// How much of an object at a path is wanted.
#[derive(Clone, Debug)]
pub(crate) enum Scope {
    /// All of it.
    All,
    /// The wanted part of this path and those below it.
    Part(Arc<RepoPath>),
}

impl Filter {
    /// Returns the scope of the root directory; `None` if nothing in it is wanted.
    pub(crate) fn root(&self) -> Option<Scope> {
        self.dir(RepoPath::root())
    }

    /// Returns the scope of an entry in the directory of `scope`; `None` if nothing of it is
    /// wanted. Fails if its path exceeds a limit.
    pub(crate) fn below(
        &self,
        scope: &Scope,
        entry: &TreeEntry,
    ) -> Result<Option<Scope>, NameError> {
        let Scope::Part(dir) = scope else {
            return Ok(Some(Scope::All));
        };
        let path = dir.join(&entry.name)?;
        Ok(match entry.kind {
            Kind::Directory => self.dir(path),
            // A side of the conflict may be a directory.
            Kind::Conflict if self.has_dir(&path) => Some(Scope::Part(Arc::new(path))),
            _ => self.file(path),
        })
    }

    /// Returns the scope of a side of the conflict with `scope`; `None` if nothing of it is wanted.
    pub(crate) fn side(&self, scope: &Scope, kind: Kind) -> Option<Scope> {
        match (scope, kind) {
            (Scope::All, _) => Some(Scope::All),
            (Scope::Part(path), Kind::Directory) => self.dir(RepoPath::clone(path)),
            (Scope::Part(path), _) => self.file(RepoPath::clone(path)),
        }
    }

    fn has_dir(&self, path: &RepoPath) -> bool {
        self.paths.extent(path.as_bytes()) != Extent::None
    }

    fn dir(&self, path: RepoPath) -> Option<Scope> {
        match self.paths.extent(path.as_bytes()) {
            Extent::All => Some(Scope::All),
            Extent::Part => Some(Scope::Part(Arc::new(path))),
            Extent::None => None,
        }
    }

    fn file(&self, path: RepoPath) -> Option<Scope> {
        let inside = self.paths.includes(path.as_bytes(), false);
        inside.then(|| Scope::Part(Arc::new(path)))
    }
}

impl Scope {
    /// Returns the key under which a walk remembers a visit in this scope: the id if all of the
    /// object is wanted, otherwise a hash of id and path.
    pub(crate) fn key(&self, id: &ObjectId) -> ObjectId {
        self.key_besides(id, &[])
    }

    /// Like [`key`](Self::key), for a visit that skipped what the object shares with the objects
    /// `old`.
    pub(crate) fn key_besides(&self, id: &ObjectId, old: &[ObjectId]) -> ObjectId {
        let path = match self {
            Scope::All if old.is_empty() => return *id,
            Scope::All => &[][..],
            Scope::Part(path) => path.as_bytes(),
        };
        let is_part = matches!(self, Scope::Part(_));
        let mut bytes = [&[u8::from(is_part)][..], id.as_bytes()].concat();
        let mut old: Vec<&ObjectId> = old.iter().collect();
        old.sort_unstable();
        old.dedup();
        bytes.extend_from_slice(&(old.len() as u64).to_le_bytes());
        old.iter()
            .for_each(|old| bytes.extend_from_slice(old.as_bytes()));
        bytes.extend_from_slice(path);
        derived_id("dmv v1 visited in part", &bytes)
    }
}
