//! An open repository: the store, the view and their paths.
//!
//! Each room has methods of [`Repo`] for what it does, and functions that take a repository for what only
//! `repo` needs. This module knows none of them.

use crate::claims::{ClaimSignature, DEVICE_BYTES};
use crate::hash::ObjectId;
use crate::object::signature::Signature;
use crate::object::{ObjectError, ObjectRead};
use crate::refs::Refs;
use crate::repo::base::arrived::ArrivedPacks;
use crate::repo::base::error::{PlaceError, RepoError};
use crate::repo::base::head::Head;
use crate::repo::base::layout::Whose;
use crate::repo::base::lean::LeanFiles;
use crate::repo::base::made::MadeObjects;
use crate::repo::base::relying::RelianceList;
use crate::repo::base::remembered::RememberedFacts;
use crate::store::{LogPack, RepositoryId, Store};
use crate::vfs::Vfs;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock};

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

/// Signs the statement of a commit, or says why it cannot.
pub type CommitSigner = Box<dyn Fn(&[u8]) -> Result<Signature, String> + Send + Sync>;

/// Who claims paths in a repository: the user, with the key of the device.
pub trait Claimant: Send + Sync {
    /// Returns the key of the device, if it has been made.
    fn known_device(&self) -> Option<[u8; DEVICE_BYTES]>;

    /// Returns the key of the device; made where there is none. Fails with the reason.
    fn device(&self) -> Result<[u8; DEVICE_BYTES], String>;

    /// Returns the user's name.
    fn name(&self) -> String;

    /// Signs the statement of a list of claims with the device's key, or says why it cannot.
    fn sign(&self, statement: &[u8]) -> Result<ClaimSignature, String>;
}

/// What a repository knows only from its caller.
#[derive(Default)]
pub struct CallerAnswers {
    /// The names of remotes in the settings, if the caller has told them.
    pub remotes: OnceLock<BTreeSet<String>>,
    /// Reads the dates in revisions, if the caller can: the library has no clock and no time zone.
    pub dates: OnceLock<DateReader>,
    /// Finds the commits that have some id in Git, if the caller can.
    pub git_ids: OnceLock<GitIdReader>,
    /// Signs the user's new commits, if the user wants that.
    pub signer: OnceLock<CommitSigner>,
    /// Who claims paths, if anybody does.
    pub claimant: OnceLock<Box<dyn Claimant>>,
}

/// An open repository.
pub struct Repo {
    pub(crate) dmv: PathBuf,
    pub(crate) id: RepositoryId,
    pub(crate) vfs: Arc<dyn Vfs>,
    pub(crate) store: Store,
    /// Objects that show conflicts as files. They are never stored.
    pub(crate) made: MadeObjects,
    pub(crate) refs: Arc<Refs>,
    pub(crate) log: Mutex<Option<LogPack>>,
    /// The jobs that rely on what they have found stored.
    pub(crate) relied: RelianceList,
    /// What has arrived within a budget and has no name yet.
    pub(crate) arrived: ArrivedPacks,
    pub(crate) worktree: Option<(PathBuf, String)>,
    /// The future head of a worktree that is being created and that the view does not list yet.
    pub(crate) coming: Option<Head>,
    /// The owner of the repository. Another user's repository is read-only.
    pub(crate) whose: Whose,
    /// The number of operations that the database had lost and that were restored from the log pack
    /// when the repository was opened.
    pub(crate) caught_up: usize,
    /// What the caller has told.
    pub(crate) caller: CallerAnswers,
    /// The content that only files of the worktree have.
    pub(crate) lean: LeanFiles,
    /// What was found out before and may still be true.
    pub(crate) remembered: RememberedFacts,
}

impl Repo {
    /// Fails with [`PlaceError::ForeignOwner`] if the repository belongs to another user.
    pub(crate) fn check_own(&self) -> Result<(), RepoError> {
        match self.whose {
            Whose::Own => Ok(()),
            Whose::Foreign => Err(PlaceError::ForeignOwner(self.dmv.clone()).into()),
        }
    }

    /// Returns the directory of the repository: `.dmv`, or the bare repository itself.
    pub fn dmv_dir(&self) -> &Path {
        &self.dmv
    }

    /// Returns the id of the repository.
    pub fn id(&self) -> RepositoryId {
        self.id
    }

    /// Returns the store of objects, to read from. Only the commands write to it.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Returns a reader of all objects: the stored ones, and those that exist only to show
    /// conflicts.
    pub fn objects(&self) -> &dyn ObjectRead {
        self
    }

    /// Returns the view and the operation log, to read from. Each change of them passes the commit
    /// point, in a command.
    pub fn refs(&self) -> &Refs {
        &self.refs
    }

    /// Returns whether the repository belongs to this user.
    pub fn whose(&self) -> Whose {
        self.whose
    }

    /// Returns the number of operations that opening took over from the log pack, because the
    /// database lacked them: an older database was put back, or a command was killed at its
    /// last moment.
    pub fn caught_up(&self) -> usize {
        self.caught_up
    }

    /// Tells which remotes the settings name, once. New branches and tags will not have names of their
    /// branches.
    pub fn name_remotes(&self, remotes: impl IntoIterator<Item = String>) {
        // A second call comes from the same settings.
        let _ = self.caller.remotes.set(remotes.into_iter().collect());
    }

    /// Tells how commits are found by their ids in Git, once. Without it, no revision begins with `git:`.
    pub fn read_git_ids_by(&self, reader: GitIdReader) {
        // A later caller gets what the first one asked for.
        let _ = self.caller.git_ids.set(reader);
    }

    /// Tells how the user's new commits are signed, once. Without it, they are not.
    pub fn sign_commits_by(&self, signer: CommitSigner) {
        // A later signer is one of the same user.
        let _ = self.caller.signer.set(signer);
    }

    /// Tells who claims paths here, once. Without it, nobody does.
    pub fn claim_as(&self, claimant: Box<dyn Claimant>) {
        // A later claimant is the same user.
        let _ = self.caller.claimant.set(claimant);
    }

    /// Returns the key of this device, if the caller has told it and it has been made.
    pub fn own_device(&self) -> Option<[u8; DEVICE_BYTES]> {
        self.caller.claimant.get()?.known_device()
    }

    /// Tells how dates in revisions are read, once. Without it, a revision has no date.
    pub fn read_dates_by(&self, reader: DateReader) {
        // A second call comes from the same program.
        let _ = self.caller.dates.set(reader);
    }
}
