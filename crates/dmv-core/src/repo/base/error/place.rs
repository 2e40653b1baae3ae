//! Errors of finding and opening a repository, and of its own files: `base::layout`, `init`, `open`.

use std::path::PathBuf;

/// A repository, or one of its own files, cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PlaceError {
    /// There is no repository at or above this directory.
    #[error("no dmv repository in {} or in a directory above it", .0.display())]
    NotFound(PathBuf),
    /// There is already a repository where a new one was to be created.
    #[error("there is already a repository at {}; nothing was changed", .0.display())]
    Exists(PathBuf),
    /// A repository was to be created in a directory with other files.
    #[error("{} is not empty, and has no repository; nothing was changed", .0.display())]
    Taken(PathBuf),
    /// A repository was to be created below a directory that does not exist.
    #[error("there is no directory {} to create the repository in", .0.display())]
    NoParent(PathBuf),
    /// A directory was to be made among a repository's own files.
    #[error(
        "{} is inside the repository directory {}, where dmv writes only its own files",
        dir.display(), dmv.display()
    )]
    InsideRepository {
        /// The directory.
        dir: PathBuf,
        /// The repository's directory.
        dmv: PathBuf,
    },
    /// The repository belongs to another user.
    #[error("{} belongs to another user", .0.display())]
    ForeignOwner(PathBuf),
    /// A newer version of dmv wrote the repository.
    #[error("{} was written by a newer dmv ({found}); this version cannot read it", path.display())]
    TooNew {
        /// The file that names the version.
        path: PathBuf,
        /// The version.
        found: String,
    },
    /// A file of the repository is invalid.
    #[error("{} is damaged: {why}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// The packs exist, but the file that makes them a repository is missing.
    #[error("{} has packs, but its file 'format' is missing", .0.display())]
    NoFormat(PathBuf),
    /// The directory of packs is missing.
    #[error("{} is missing: this repository has lost all its content", .0.display())]
    NoPacks(PathBuf),
    /// The database is missing. The packs may still be intact.
    #[error("the database {} is missing", .0.display())]
    NoDatabase(PathBuf),
    /// The repository of a worktree is not where the `.dmv` file says.
    #[error("the worktree {} belongs to the repository at {}, which does not exist; the files of the worktree are unchanged", worktree.display(), at.display())]
    LostRepository {
        /// The worktree.
        worktree: PathBuf,
        /// The expected path of the repository.
        at: PathBuf,
    },
}
