//! An open repository, as the rooms of `repo` use it: the store, the view and their paths.
//!
//! The functions of the rooms take it as an argument. This module knows none of them. The facade
//! ([`Repo`](crate::repo::Repo)) holds one and passes it on.

use crate::hash::ObjectId;
use crate::object::{ObjectError, ObjectRead};
use crate::refs::Refs;
use crate::repo::base::arrived::ArrivedPacks;
use crate::repo::base::error::{PlaceError, RepoError};
use crate::repo::base::head::Head;
use crate::repo::base::layout::Whose;
use crate::repo::base::made::MadeObjects;
use crate::repo::base::relying::RelianceList;
use crate::store::{LogPack, RepositoryId, Store};
use crate::vfs::Vfs;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::SystemTime;

/// Returns the second since 1970 that a date names, or why it names none.
pub type DateReader = fn(&str) -> Result<i64, String>;

/// What is asked for the commits with some id in Git.
pub struct GitIdQuery<'q> {
    /// The objects of the repository.
    pub objects: &'q dyn ObjectRead,
    /// The directory of the repository.
    pub dmv_dir: &'q Path,
    /// The commits that have names.
    pub tips: Vec<ObjectId>,
    /// The first digits of the id, in lower case.
    pub hex: &'q str,
}

/// Returns the commits that a query asks for.
pub type GitIdReader = fn(&GitIdQuery<'_>) -> Result<Vec<ObjectId>, ObjectError>;

/// What a repository knows only from its caller.
#[derive(Default)]
pub struct CallerAnswers {
    /// The names of remotes in the settings, if the caller has told them.
    pub remotes: OnceLock<BTreeSet<String>>,
    /// Reads the dates in revisions, if the caller can: the library has no clock and no time zone.
    pub dates: OnceLock<DateReader>,
    /// Finds the commits that have some id in Git, if the caller can.
    pub git_ids: OnceLock<GitIdReader>,
}

/// An open repository.
pub struct Handle {
    pub dmv: PathBuf,
    pub id: RepositoryId,
    pub vfs: Arc<dyn Vfs>,
    pub store: Store,
    /// Objects that show conflicts as files. They are never stored.
    pub made: MadeObjects,
    pub refs: Arc<Refs>,
    pub log: Mutex<Option<LogPack>>,
    /// The jobs that rely on what they have found stored.
    pub relied: RelianceList,
    /// What has arrived within a budget and has no name yet.
    pub arrived: ArrivedPacks,
    pub worktree: Option<(PathBuf, String)>,
    /// The future head of a worktree that is being created and that the view does not list yet.
    pub coming: Option<Head>,
    /// The owner of the repository. Another user's repository is read-only.
    pub whose: Whose,
    /// The number of operations that the database had lost and that were restored from the log pack
    /// when the repository was opened.
    pub caught_up: usize,
    /// What the caller has told.
    pub caller: CallerAnswers,
    /// What the slice was like when the store last heard which chunks it must not store.
    pub heard: Mutex<Option<(u64, SystemTime)>>,
}

impl Handle {
    /// Fails with [`PlaceError::ForeignOwner`] if the repository belongs to another user.
    pub fn check_own(&self) -> Result<(), RepoError> {
        match self.whose {
            Whose::Own => Ok(()),
            Whose::Foreign => Err(PlaceError::ForeignOwner(self.dmv.clone()).into()),
        }
    }

    /// Returns the repository's directory.
    pub fn dmv_dir(&self) -> &Path {
        &self.dmv
    }

    /// Returns the repository's id.
    pub fn id(&self) -> RepositoryId {
        self.id
    }

    /// Returns the object store.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Returns the objects as a plain reader, the form that the lower rooms use.
    pub fn objects(&self) -> &dyn ObjectRead {
        self
    }

    /// Returns the view and the operation log.
    pub fn refs(&self) -> &Refs {
        &self.refs
    }
}
