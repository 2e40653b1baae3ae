//! An open repository, as the rooms of `repo` use it: the store, the view, and where they lie.
//!
//! The functions of the rooms take it as an argument. It knows none of them. The facade
//! ([`Repo`](crate::repo::Repo)) holds one and hands it down.

use crate::object::ObjectRead;
use crate::object::mem::MemObjects;
use crate::refs::Refs;
use crate::repo::base::error::RepoError;
use crate::repo::base::head::Head;
use crate::repo::base::layout::Whose;
use crate::store::{LogPack, RepositoryId, Store};
use crate::vfs::Vfs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

/// An open repository.
pub(in crate::repo) struct Handle {
    pub(in crate::repo) dmv: PathBuf,
    pub(in crate::repo) id: RepositoryId,
    pub(in crate::repo) vfs: Arc<dyn Vfs>,
    pub(in crate::repo) store: Store,
    /// Objects that are made to be looked at and not stored: how conflicts appear in files.
    pub(in crate::repo) made: MemObjects,
    pub(in crate::repo) refs: Arc<Refs>,
    pub(in crate::repo) log: Mutex<Option<LogPack>>,
    pub(in crate::repo) worktree: Option<(PathBuf, String)>,
    /// What the worktree will be on, while it is being made and the view does not know it.
    pub(in crate::repo) coming: Option<Head>,
    /// Another user's repository is only read.
    pub(in crate::repo) whose: Whose,
    /// Operations that the database had lost and that were taken from the log pack when it was opened.
    pub(in crate::repo) caught_up: usize,
}

impl Handle {
    /// Refuses to change another user's repository.
    pub(in crate::repo) fn check_own(&self) -> Result<(), RepoError> {
        match self.whose {
            Whose::Own => Ok(()),
            Whose::Foreign => Err(RepoError::ForeignOwner(self.dmv.clone())),
        }
    }

    /// The repository's directory.
    pub fn dmv_dir(&self) -> &Path {
        &self.dmv
    }

    /// The repository's id.
    pub fn id(&self) -> RepositoryId {
        self.id
    }

    /// The objects.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// The objects, as the rooms below see them.
    pub fn objects(&self) -> &dyn ObjectRead {
        self
    }

    /// The view and the operation log.
    pub fn refs(&self) -> &Refs {
        &self.refs
    }
}
