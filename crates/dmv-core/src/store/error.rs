//! What can go wrong in the store.

use crate::hash::ObjectId;
use crate::object::{ObjectError, ObjectType};
use std::io;
use std::path::{Path, PathBuf};

/// A failure of the store.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// A file operation failed.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// What was tried, as a verb.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// An object is stored, but its bytes are not what its id says.
    #[error("{} {id} is damaged in {} at {offset}: {why}", ty.word(), pack.display())]
    DamagedObject {
        /// The object.
        id: ObjectId,
        /// Its type.
        ty: ObjectType,
        /// The pack that holds it.
        pack: PathBuf,
        /// Offset of its record in bytes.
        offset: u64,
        /// What was found.
        why: String,
    },
    /// A file of the store is not what it should be.
    #[error("{} is damaged at {offset}: {why}", path.display())]
    DamagedFile {
        /// The file.
        path: PathBuf,
        /// Where, in bytes.
        offset: u64,
        /// What was found.
        why: &'static str,
    },
    /// A file of a version that this program does not know.
    #[error("{} has format version {version}; this dmv knows 1", path.display())]
    TooNew {
        /// The file.
        path: PathBuf,
        /// The version found.
        version: u16,
    },
    /// An earlier write or sync of this pack failed, so nothing more is built on it.
    #[error("{} failed before and is not written to again", path.display())]
    Poisoned {
        /// The pack.
        path: PathBuf,
    },
    /// Something wanted is not found, and an index table is damaged: it may well be there.
    #[error("an index is damaged, so stored objects cannot be found: {why}")]
    DamagedTable {
        /// What is wrong with the table.
        why: String,
    },
    /// The catalogue does not answer: what it would tell of may well be there.
    #[error("the catalogue of packs cannot be read: {why}")]
    Catalogue {
        /// What it says.
        why: String,
    },
    /// Making a pack durable failed: what it holds of this job may be lost.
    #[error("cannot sync {}: {source}", path.display())]
    SyncFailed {
        /// The pack.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// The user asked to stop.
    #[error("interrupted")]
    Cancelled,
    /// An object exceeds what the format allows.
    #[error("{} of {bytes} bytes is larger than the format allows", ty.word())]
    TooLarge {
        /// Its type.
        ty: ObjectType,
        /// Its size.
        bytes: usize,
    },
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

/// Adds the action and path to an I/O error.
pub(crate) trait IoContext<T> {
    fn at(self, action: &'static str, path: &Path) -> Result<T, StoreError>;
}

impl<T> IoContext<T> for io::Result<T> {
    fn at(self, action: &'static str, path: &Path) -> Result<T, StoreError> {
        self.map_err(|source| StoreError::Io {
            action,
            path: path.to_owned(),
            source,
        })
    }
}
