//! The errors of a repository.
//!
//! [`RepoError`] has one enum for each group of errors that belong together, in a file of its own.
//! The name of a group is that of the room or file that most often makes its errors. The groups hold
//! data only, so that this room needs none of the rooms above it.

mod absent;
mod branch;
mod busy;
mod claim;
mod conflict;
mod files;
mod look;
mod place;
mod revision;
mod signature;
mod undo;
mod upkeep;
mod verbs;
mod worktree;

pub use absent::AbsentError;
pub use branch::BranchError;
pub use busy::BusyError;
pub use claim::ClaimError;
pub use conflict::ConflictError;
pub use files::{FilesError, PathRefusal};
pub use look::LookError;
pub use place::PlaceError;
pub use revision::RevisionError;
pub use signature::UntrustedCommit;
pub use undo::{LaterChange, UndoError};
pub use upkeep::UpkeepError;
pub use verbs::VerbError;
pub use worktree::WorktreeError;

use crate::job::Cancelled;
use crate::merge::MergeError;
use crate::object::ObjectError;
use crate::path::PathError;
use crate::refs::{RefNameError, RefsError};
use crate::store::StoreError;
use crate::threads::NoThread;
use crate::worktree::ingest::IngestError;
use crate::worktree::scan::ScanError;
use crate::worktree::snapshot::SnapshotError;
use std::path::PathBuf;

/// The failure of a whole command.
#[derive(Debug, thiserror::Error)]
pub enum RepoError {
    /// A repository, or one of its own files, cannot be used.
    #[error(transparent)]
    Place(#[from] PlaceError),
    /// Another command is in the way. Nothing was changed.
    #[error(transparent)]
    Busy(#[from] BusyError),
    /// A branch or tag cannot be used, created or removed.
    #[error(transparent)]
    Branch(#[from] BranchError),
    /// A revision names nothing, or more than one commit.
    #[error("{0}")]
    Revision(#[from] RevisionError),
    /// A revision or path does not lead to what was asked for.
    #[error(transparent)]
    Look(#[from] LookError),
    /// Something that is needed is not stored in this repository.
    #[error(transparent)]
    Absent(#[from] AbsentError),
    /// A conflict cannot be stored, found or resolved.
    #[error(transparent)]
    Conflict(#[from] ConflictError),
    /// The files of a worktree are in the way of a command, or it does not accept their paths.
    #[error(transparent)]
    Files(#[from] FilesError),
    /// A worktree cannot be used, created or removed.
    #[error(transparent)]
    Worktree(#[from] WorktreeError),
    /// An operation cannot be undone or redone.
    #[error(transparent)]
    Undo(#[from] UndoError),
    /// A verb does not fit the history, or what it started from does not exist.
    #[error(transparent)]
    Verb(#[from] VerbError),
    /// A claim cannot be made, released or kept.
    #[error(transparent)]
    Claim(#[from] ClaimError),
    /// Space could not be freed.
    #[error(transparent)]
    Upkeep(#[from] UpkeepError),
    /// An object is stored but damaged.
    #[error("{0}")]
    Object(ObjectError),
    /// The store failed.
    #[error(transparent)]
    Store(StoreError),
    /// The refs failed.
    #[error(transparent)]
    Refs(#[from] RefsError),
    /// A file of the worktree could not be processed.
    #[error(transparent)]
    Path(#[from] PathError),
    /// A file of the repository, or one that the caller named, could not be processed.
    #[error(transparent)]
    Io(PathError),
    /// The system starts no further thread.
    #[error(transparent)]
    Thread(#[from] NoThread),
    /// The command needs more space than the repository's budget leaves. Its objects are not stored.
    #[error("this needs more space than the repository's budget leaves")]
    OverBudget,
    /// The user cancelled the command.
    #[error("interrupted")]
    Cancelled,
    /// The user wants signed commits, and this one cannot be signed. Nothing was committed.
    #[error("cannot sign the commit: {0}")]
    Unsigned(String),
    /// Only signed commits may be pushed. Nothing was pushed.
    #[error(transparent)]
    Untrusted(#[from] UntrustedCommit),
    /// A signature cannot be checked, so nothing is known of it.
    #[error("cannot check the signature: {0}")]
    Unchecked(String),
    /// A message or an author contains text that an object cannot store.
    #[error("{0}")]
    Text(String),
}

impl From<Cancelled> for RepoError {
    fn from(Cancelled: Cancelled) -> RepoError {
        RepoError::Cancelled
    }
}

impl From<MergeError> for RepoError {
    fn from(e: MergeError) -> RepoError {
        match e {
            MergeError::Object(e) => e.into(),
            MergeError::Cancelled => RepoError::Cancelled,
            MergeError::Lacking { lacks, .. } => RepoError::Absent(AbsentError::Lacking(lacks)),
            MergeError::TooManySides { path } => ConflictError::TooManySides { path }.into(),
        }
    }
}

impl RepoError {
    /// Returns whether the command changed nothing because another one has freed objects that it had
    /// found. If it begins again, it stores them again or receives them again.
    pub fn may_be_gone(&self) -> bool {
        let RepoError::Refs(e) = self else {
            return false;
        };
        matches!(e, RefsError::MayBeGone | RefsError::PackGone(_))
    }
}

impl From<RefNameError> for RepoError {
    fn from(e: RefNameError) -> RepoError {
        BranchError::RefName(e).into()
    }
}

impl From<ObjectError> for RepoError {
    fn from(e: ObjectError) -> RepoError {
        match e {
            ObjectError::Missing { id, ty } => RepoError::Absent(AbsentError::Object { id, ty }),
            ObjectError::Store(e) => match e.downcast::<StoreError>() {
                Ok(e) => RepoError::from(*e),
                Err(e) => RepoError::Object(ObjectError::Store(e)),
            },
            other => RepoError::Object(other),
        }
    }
}

impl From<StoreError> for RepoError {
    fn from(e: StoreError) -> RepoError {
        match e {
            StoreError::Cancelled => RepoError::Cancelled,
            StoreError::OverBudget => RepoError::OverBudget,
            StoreError::TooNew { path, version } => RepoError::Place(PlaceError::TooNew {
                path,
                found: format!("version {version}"),
            }),
            e @ StoreError::DamagedObject { .. } => RepoError::Object(e.into()),
            other => RepoError::Store(other),
        }
    }
}

impl From<IngestError> for RepoError {
    fn from(e: IngestError) -> RepoError {
        match e {
            IngestError::Cancelled => RepoError::Cancelled,
            IngestError::Store(e) => e.into(),
            IngestError::Object(e) => e.into(),
            IngestError::Thread(e) => e.into(),
        }
    }
}

impl From<ScanError> for RepoError {
    fn from(e: ScanError) -> RepoError {
        match e {
            ScanError::Cancelled => RepoError::Cancelled,
            ScanError::Path(e) => RepoError::Path(e),
            ScanError::Base { dir, source } => match source.downcast::<ObjectError>() {
                Ok(e) => (*e).into(),
                Err(e) => RepoError::Place(PlaceError::Damaged {
                    path: PathBuf::from(String::from_utf8_lossy(&dir).into_owned()),
                    why: e.to_string(),
                }),
            },
        }
    }
}

impl From<SnapshotError> for RepoError {
    fn from(e: SnapshotError) -> RepoError {
        match e {
            SnapshotError::Scan(e) => e.into(),
            SnapshotError::Ingest(e) => e.into(),
            SnapshotError::Object(e) => e.into(),
            SnapshotError::Path(e) => e.into(),
            SnapshotError::Store(e) => e.into(),
            SnapshotError::Large(path) => FilesError::Large(path).into(),
        }
    }
}

/// Says how many more paths there are than the one that is named.
fn more(n: usize) -> String {
    match n {
        0 | 1 => String::new(),
        n => format!(" and {} more", n - 1),
    }
}
