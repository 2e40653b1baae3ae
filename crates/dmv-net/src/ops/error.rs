//! Why a command failed.

use super::absent::Absent;
use super::session_error::SessionError;
use crate::session::NetError;
use dmv_core::repo::RepoError;
use std::path::PathBuf;

/// Why a command on an open repository failed.
#[derive(Debug, thiserror::Error)]
pub enum OpsError {
    /// The session failed. Received objects stay stored.
    #[error(transparent)]
    Session(#[from] Box<SessionError>),
    /// This repository failed outside of a session.
    #[error(transparent)]
    Repo(#[from] RepoError),
    /// The work lacks content, and no remote has given it.
    #[error("{0}")]
    Absent(Box<Absent>),
    /// The remote has no branch or tag of this name.
    #[error("{remote} has no branch or tag '{name}'")]
    NoSuchRef {
        /// The remote's name.
        remote: String,
        /// The branch or tag.
        name: String,
    },
    /// A new repository was to be created, and there is one with other branches or tags.
    #[error("there is already a repository at {remote}")]
    NotNew {
        /// The remote's name.
        remote: String,
    },
    /// The settings of the program are unusable, or the job was cancelled.
    #[error(transparent)]
    Net(#[from] NetError),
}

/// Why there is no clone.
#[derive(Debug, thiserror::Error)]
pub enum CloneError {
    /// There is a repository in the directory that is not an unfinished clone of the same source.
    #[error("{} is already a repository", .0.display())]
    IsRepository(PathBuf),
    /// There is an unfinished clone in the directory that is to store another slice.
    #[error("{} is already a clone that stores another part of the source", .0.display())]
    OtherSlice(PathBuf),
    /// There is an unfinished clone in the directory that may share packs, and everything is to be
    /// copied.
    #[error("{} is an unfinished clone that was begun without --copy", .0.display())]
    Shares(PathBuf),
    /// The directory has files that DMV did not make.
    #[error("{} is not empty", .0.display())]
    NotEmpty(PathBuf),
    /// The directory is inside of the repository that is to be cloned.
    #[error("{} is inside {}, the repository that is to be cloned", dir.display(), source_dir.display())]
    InsideSource {
        /// The directory.
        dir: PathBuf,
        /// The source.
        source_dir: PathBuf,
    },
    /// The transfer or the checkout failed. Received objects stay stored, for the next try.
    #[error(transparent)]
    Session(#[from] Box<SessionError>),
    /// The source is a path, and there is no repository that can be opened.
    #[error(transparent)]
    Source(NetError),
    /// The history is here, and the files could not be written.
    #[error(transparent)]
    Files(Box<OpsError>),
    /// The new repository failed.
    #[error(transparent)]
    Repo(#[from] RepoError),
}
