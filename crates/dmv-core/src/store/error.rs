//! The errors of the store.

use super::random_id::PackId;
use crate::hash::ObjectId;
use crate::job::Cancelled;
use crate::object::{ObjectError, ObjectType};
use crate::path::PathError;
use crate::platform::{Cause, OddKind, cause_of};
use std::io;
use std::path::{Path, PathBuf};

/// A failure of the store.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// A file operation failed.
    #[error(transparent)]
    Io(#[from] PathError),
    /// An object is stored, but its bytes do not match its id.
    #[error("{} {id} is damaged in {} at {offset}: {why}", ty.word(), pack.display())]
    DamagedObject {
        /// The id of the object.
        id: ObjectId,
        /// Its type.
        ty: ObjectType,
        /// The pack that contains it.
        pack: PathBuf,
        /// Offset of its record in bytes.
        offset: u64,
        /// The fault that was found.
        why: String,
    },
    /// A file of the store is damaged.
    #[error("{} is damaged at {offset}: {why}", path.display())]
    DamagedFile {
        /// The file.
        path: PathBuf,
        /// Offset of the fault in bytes.
        offset: u64,
        /// The fault that was found.
        why: &'static str,
    },
    /// A file has a version that this program does not know.
    #[error("{} has format version {version}; this dmv reads version 1", path.display())]
    TooNew {
        /// The file.
        path: PathBuf,
        /// The version of the file.
        version: u16,
    },
    /// An earlier write or sync of this pack failed, so nothing more is appended to it.
    #[error("writing to {} failed before, so dmv does not write to it again", path.display())]
    Poisoned {
        /// The pack.
        path: PathBuf,
    },
    /// An object was not found, and an index table is damaged, so the object may be stored.
    #[error("an index is damaged, so stored objects cannot be found: {why}")]
    DamagedTable {
        /// What is wrong with the table.
        why: String,
    },
    /// The file of a pack of the catalogue is gone, and with it the objects that no other pack has.
    #[error("pack {pack} is missing ({})", path.display())]
    LostPack {
        /// The pack.
        pack: PackId,
        /// The path that its file had.
        path: PathBuf,
    },
    /// The catalogue cannot be read, so objects may be stored that the store does not know.
    #[error("the catalogue of packs cannot be read: {why}")]
    Catalogue {
        /// Why it cannot be read.
        why: String,
    },
    /// A pack could not be made durable. The objects of this job in it may be lost.
    #[error("{source}")]
    SyncFailed {
        /// The pack.
        pack: PackId,
        /// The failed operation on its file.
        source: PathError,
    },
    /// The user asked to stop.
    #[error("interrupted")]
    Cancelled,
    /// The job would write more than the repository has room for within its budget.
    #[error("the repository's budget leaves too little room for this")]
    OverBudget,
    /// A file has to share blocks with a pack, and they are on different file systems, or on one that
    /// shares no blocks.
    #[error("files cannot share blocks with {}, and worktree.share requires it", path.display())]
    NotShared {
        /// The directory of the packs.
        path: PathBuf,
    },
    /// An object exceeds the limits of the format.
    #[error("{} of {bytes} bytes is larger than the format allows", ty.word())]
    TooLarge {
        /// Its type.
        ty: ObjectType,
        /// Its length in bytes.
        bytes: usize,
    },
}

impl StoreError {
    /// Returns the error for a fault in a file, at an offset in bytes.
    pub(super) fn damaged(path: &Path, offset: u64, why: &'static str) -> StoreError {
        let path = path.to_owned();
        StoreError::DamagedFile { path, offset, why }
    }

    /// Returns whether a file is not there.
    pub(super) fn is_not_found(&self) -> bool {
        matches!(self, StoreError::Io(e) if e.kind() == io::ErrorKind::NotFound)
    }
}

/// Returns whether the system refused access, which says nothing about the bytes.
pub(super) fn is_refusal(e: &io::Error) -> bool {
    refusal(e).is_some()
}

/// Returns the same error again if the system refused access.
pub(super) fn refusal(e: &io::Error) -> Option<io::Error> {
    if let Some(odd) = OddKind::in_error(e) {
        return Some(odd.into());
    }
    let code = e.raw_os_error()?;
    // The error of a failing disk is damage like any other.
    let is_damage = e.kind() == io::ErrorKind::NotFound || cause_of(e) == Cause::BadMedium;
    (!is_damage).then(|| io::Error::from_raw_os_error(code))
}

impl From<Cancelled> for StoreError {
    fn from(Cancelled: Cancelled) -> StoreError {
        StoreError::Cancelled
    }
}

impl From<StoreError> for ObjectError {
    fn from(e: StoreError) -> ObjectError {
        match e {
            StoreError::DamagedObject {
                id,
                ty,
                pack,
                offset,
                why,
            } => {
                let pack = pack.display();
                ObjectError::Damaged {
                    id,
                    ty,
                    why: format!("{why} (in {pack} at {offset})"),
                }
            }
            other => ObjectError::Store(Box::new(other)),
        }
    }
}
