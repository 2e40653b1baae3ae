//! Which part of what commits need is wanted: which paths, how much history, with chunks or
//! without.
//!
//! Whether an object is wanted follows from the commits and trees above it alone, so that whoever
//! has those comes to the same answer (docs/protocol.md, "Filters").

use crate::hash::{ObjectId, derived_id};
use crate::object::name::{NameError, RepoPath};
use crate::object::tree::{Kind, TreeEntry};
use crate::subset::{Extent, Union};
use std::collections::BTreeSet;
use std::sync::Arc;

/// A part of what commits need. The default is everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// The paths.
    pub paths: Union,
    /// Whether chunks are left out.
    pub metadata_only: bool,
    /// How far to go from the tips, in commits along the shortest line, the tip being the first;
    /// 0: all the way.
    pub depth: u32,
    /// Commits made before this time, in seconds since 1970, are the last of their line.
    pub since: Option<i64>,
    /// Of those commits that are hidden: some whose parents are not here, and so not hidden.
    pub shallow: BTreeSet<ObjectId>,
    /// Blobs, by their root, that are not wanted.
    pub dropped: BTreeSet<ObjectId>,
}

/// What is wanted of what lies at a place.
#[derive(Clone, Debug)]
pub(crate) enum Scope {
    /// All of it.
    All,
    /// What the paths say of this one and those below.
    Part(Arc<RepoPath>),
}

impl Filter {
    /// What is wanted of the root directory; `None`: nothing.
    pub(crate) fn root(&self) -> Option<Scope> {
        self.dir(RepoPath::root())
    }

    /// What is wanted of an entry of the directory at `scope`.
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
            // A side of it may be a directory.
            Kind::Conflict if self.has_dir(&path) => Some(Scope::Part(Arc::new(path))),
            _ => self.file(path),
        })
    }

    /// What is wanted of a side of the conflict at `scope`.
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
    /// What a walk remembers an object by that was visited in this scope: what was visited for all
    /// of it, by its id; for a part, by the id and the path.
    pub(crate) fn key(&self, id: &ObjectId) -> ObjectId {
        self.key_besides(id, &[])
    }

    /// The same for a visit that passed over what `old` objects share with it.
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
