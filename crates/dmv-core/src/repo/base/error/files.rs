//! Errors of the files of a worktree: room `files`.

use super::more;
use crate::object::name::RepoPath;
use crate::path::DiskPath;

/// The files of a worktree are in the way of a command, or it does not accept their paths.
#[derive(Debug, thiserror::Error)]
pub enum FilesError {
    /// The command would lose work that is stored nowhere else.
    #[error("{what} would lose uncommitted changes in {}{}; nothing was changed", paths[0], more(paths.len()))]
    WouldLose {
        /// The requested action.
        what: &'static str,
        /// The paths of that work.
        paths: Vec<DiskPath>,
    },
    /// A command would overwrite more than can be stored for an undo.
    #[error(
        "{what} would overwrite {bytes} bytes of uncommitted changes, but dmv keeps at most {limit} bytes for undo; nothing was changed"
    )]
    TooMuchToKeep {
        /// The requested action.
        what: &'static str,
        /// Bytes that it would overwrite.
        bytes: u64,
        /// The greatest number of bytes that are stored.
        limit: u64,
    },
    /// A file that a command would overwrite cannot be read completely, so an undo could not
    /// restore it.
    #[error(
        "{what} would overwrite {path}, but dmv cannot keep it for undo: {why}; nothing was changed"
    )]
    NotKept {
        /// The requested action.
        what: &'static str,
        /// The file.
        path: DiskPath,
        /// Why it cannot be stored.
        why: String,
    },
    /// The path is outside the worktree's subset.
    #[error("'{0}' is outside of the worktree's subset")]
    OutsideSubset(RepoPath),
    /// A commit has met a new file that is larger than its caller allows. It may be a moved one.
    #[error("{0} is a large new file; nothing was committed")]
    Large(DiskPath),
    /// A command on tracked files does not accept a path.
    #[error("'{}' {why}; nothing was changed", if path.is_root() { ".".to_owned() } else { path.to_string() })]
    PathRefused {
        /// The path.
        path: RepoPath,
        /// Why not.
        why: PathRefusal,
    },
}

/// Why a command that removes or moves tracked files does not accept a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PathRefusal {
    /// The path is neither on disk nor in the commit.
    #[error("is neither in the worktree nor in its commit")]
    Nowhere,
    /// The commit has the path, but nothing is on disk.
    #[error("is missing from the worktree")]
    Missing,
    /// The commit does not have the path.
    #[error("is not tracked")]
    Untracked,
    /// The ignore rules cover the path, so it is in no commit.
    #[error("is ignored, and is in no commit")]
    Ignored,
    /// The path is a directory, and the caller allowed only files.
    #[error("is a directory")]
    Directory,
    /// The path is neither a file nor a symlink.
    #[error("is not a regular file")]
    NotAFile,
    /// There is no directory at the path.
    #[error("is not an existing directory")]
    NoDirectory,
    /// The path belongs to an unresolved conflict.
    #[error("has an unresolved conflict")]
    Conflict,
    /// Something is already at the path.
    #[error("already exists")]
    Exists,
    /// A directory cannot be moved into itself.
    #[error("cannot be moved into itself")]
    IntoItself,
    /// The ignore rules cover the new path.
    #[error("is covered by ignore rules, so the next commit would not include it")]
    IgnoredTarget,
    /// An ignore file that cannot be used may cover the new path.
    #[error("is below an ignore file that cannot be used, so the next commit would not include it")]
    UnknownTarget,
    /// Names have to be portable, and some systems refuse the path's name, for this reason.
    #[error("has a name that is not portable: it {0}, and names.portable is set")]
    NotPortable(&'static str),
    /// Names have to be portable, and a name beside the path's is equal to it on some systems.
    #[error(
        "would stand beside a name that systems cannot tell from it if they ignore case or forms of \
         letters, and names.portable is set"
    )]
    Collides,
    /// Two arguments mean the same path, or one lies in the other.
    #[error("is named twice")]
    Twice,
    /// The worktree has only a part of the directory.
    #[error("has files outside of the worktree's subset")]
    Partial,
}
