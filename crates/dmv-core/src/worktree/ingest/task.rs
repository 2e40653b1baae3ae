//! What ingest is asked to read in, and what it answers.

use crate::fsutil::{FileKind, FileStat};
use crate::hash::ObjectId;
use crate::job::Cancelled;
use crate::object::ObjectError;
use crate::object::list::Blob;
use crate::path::PathError;
use crate::store::StoreError;
use crate::threads::NoThread;
use crate::worktree::properties::{KeptProperties, Properties};
use std::sync::Arc;

/// Files of one directory that are to be read in.
pub struct Task {
    /// The caller's number for the directory.
    pub dir: usize,
    /// The directory's path.
    pub path: Arc<[u8]>,
    /// The files.
    pub files: Vec<TaskFile>,
}

/// A file or symlink that is to be read in.
pub struct TaskFile {
    /// Its name.
    pub name: Box<[u8]>,
    /// Its kind when it was listed.
    pub kind: FileKind,
    /// What the commit keeps of it besides its content.
    pub properties: Properties,
}

impl TaskFile {
    /// A file of which only its content is kept.
    pub fn of_content(name: &[u8], kind: FileKind) -> TaskFile {
        TaskFile {
            name: name.into(),
            kind,
            properties: Properties::default(),
        }
    }
}

/// The result for one file.
pub(crate) struct IngestResult {
    /// The caller's number for its directory.
    pub dir: usize,
    /// Its name.
    pub name: Box<[u8]>,
    /// Its content, or why there is none.
    pub result: Result<StoredFile, Failure>,
}

/// A file whose content is stored.
pub(crate) struct StoredFile {
    /// The content.
    pub blob: Blob,
    /// The stat before the content was read, which was still the same afterwards.
    pub stat: FileStat,
    /// What the commit keeps of it besides its content; `None` if nothing was asked for.
    pub kept: Option<Box<KeptProperties>>,
    /// Whether it has extended attributes, which may not be kept. Known for the first files of a task
    /// up to one without: to look at each would make a commit of small files some 4 % slower.
    pub attributes: bool,
}

/// Why a file could not be read in.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The file could not be opened or read.
    #[error(transparent)]
    Path(#[from] PathError),
    /// The blocks of the file have to be shared, and the file system cannot.
    #[error("its blocks cannot be shared with the repository, which worktree.share requires")]
    NotShared,
    /// The file kept changing while it was read.
    #[error("it changed while dmv read it")]
    Changed,
    /// No tree can contain the symlink's target.
    #[error("its target is empty or too long")]
    BadTarget,
    /// The file has content that must not be stored.
    #[error("it has content that was purged from this repository (dmv purge --status)")]
    Purged(ObjectId),
    /// The entry is no longer of the kind that was listed.
    #[error("it was replaced by something that is not a file")]
    Replaced,
}

/// Why all of the work ended.
#[derive(Debug, thiserror::Error)]
pub enum IngestError {
    /// The user asked to stop.
    #[error("interrupted")]
    Cancelled,
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// An object could not be made or stored.
    #[error(transparent)]
    Object(#[from] ObjectError),
    /// The system starts no thread to read files.
    #[error(transparent)]
    Thread(#[from] NoThread),
}

impl From<Cancelled> for IngestError {
    fn from(Cancelled: Cancelled) -> IngestError {
        IngestError::Cancelled
    }
}
