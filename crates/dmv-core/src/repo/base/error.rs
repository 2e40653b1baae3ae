//! What can go wrong with a repository, sorted by what the user can do about it.

use crate::fsutil::PathError;
use crate::hash::ObjectId;
use crate::locks::{self, Holder};
use crate::merge::MergeError;
use crate::object::name::escape;
use crate::object::root::Lack;
use crate::object::{ObjectError, ObjectType};
use crate::refs::{RefNameError, RefsError};
use crate::repo::base::moved::{Mover, moved_clause};
use crate::store::StoreError;
use crate::worktree::ingest::IngestError;
use crate::worktree::scan::ScanError;
use crate::worktree::snapshot::SnapshotError;
use std::path::PathBuf;

/// A failure of a whole command.
#[derive(Debug, thiserror::Error)]
pub enum RepoError {
    /// No repository at or above this directory.
    #[error("no dmv repository in {} or in a directory above it", .0.display())]
    NotFound(PathBuf),
    /// There is one where a new one was asked for.
    #[error("there is already a repository at {}; nothing was changed", .0.display())]
    Exists(PathBuf),
    /// The repository belongs to somebody else.
    #[error("{} belongs to another user", .0.display())]
    ForeignOwner(PathBuf),
    /// A format from the future.
    #[error("{} was written by a newer dmv ({found}); this version cannot read it", path.display())]
    TooNew {
        /// The file that says so.
        path: PathBuf,
        /// What it says.
        found: String,
    },
    /// A file of the repository makes no sense.
    #[error("{} is damaged: {why}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// The packs are there, the file that makes them a repository is gone.
    #[error("{} has packs, but its file 'format' is missing", .0.display())]
    NoFormat(PathBuf),
    /// The directory of packs is gone.
    #[error("{} is missing: this repository has lost all its content", .0.display())]
    NoPacks(PathBuf),
    /// A part of the repository is a symlink.
    #[error("{} is a symbolic link; dmv does not follow links inside a repository", .0.display())]
    Symlink(PathBuf),
    /// The database is gone; the packs may well be there.
    #[error("the database {} is missing", .0.display())]
    NoDatabase(PathBuf),
    /// The command needs a worktree and the repository has none here.
    #[error("this command needs a worktree, and the current directory is not in one")]
    NoWorktree,
    /// Another command is changing this worktree.
    #[error("another dmv command is changing this worktree{}", locks::told(.0))]
    Busy(Option<Holder>),
    /// A revision that names nothing, or more than one thing.
    #[error("{0}")]
    Revision(#[from] RevisionError),
    /// A path that a revision does not have.
    #[error("'{}' does not exist in {revision}", escape(path))]
    NoSuchPath {
        /// The revision, as given.
        revision: String,
        /// The path.
        path: Vec<u8>,
    },
    /// A path that cannot be one in a repository.
    #[error("'{}' is not a valid path in a repository: {why}", escape(path))]
    BadPath {
        /// The path.
        path: Vec<u8>,
        /// Why not.
        why: String,
    },
    /// A directory where a file was asked for, or the other way round.
    #[error("'{}' is {what}", if path.is_empty() { ".".to_owned() } else { escape(path).to_string() })]
    WrongKind {
        /// The path.
        path: Vec<u8>,
        /// What it is.
        what: &'static str,
    },
    /// A name that no ref can have.
    #[error(transparent)]
    RefName(#[from] RefNameError),
    /// The ref is there already.
    #[error("{kind} '{name}' already exists")]
    RefExists {
        /// "branch" or "tag".
        kind: &'static str,
        /// Its name.
        name: String,
    },
    /// The ref is not there.
    #[error("there is no {kind} '{name}'")]
    NoRef {
        /// "branch" or "tag".
        kind: &'static str,
        /// Its name.
        name: String,
    },
    /// The branch is what a worktree is on.
    #[error("branch '{name}' is checked out at {at}")]
    InUse {
        /// Its name.
        name: String,
        /// The worktree's path.
        at: String,
    },
    /// A directory that a worktree cannot be made in.
    #[error("cannot create a worktree in {}: {why}", dir.display())]
    NotFree {
        /// The directory.
        dir: PathBuf,
        /// Why not.
        why: String,
    },
    /// No worktree of this repository is known there.
    #[error("{} is not a worktree of this repository", .0.display())]
    NoSuchWorktree(PathBuf),
    /// The worktree that holds the repository itself.
    #[error("{} is the main worktree: it contains the repository itself", .0.display())]
    OwnWorktree(PathBuf),
    /// A worktree that was copied, so that there are two of one name.
    #[error("{} is a copy of the worktree at {}", dir.display(), at.display())]
    WorktreeCopy {
        /// The copy.
        dir: PathBuf,
        /// The worktree.
        at: PathBuf,
    },
    /// The repository of a worktree is not where its `.dmv` file says.
    #[error("the worktree {} belongs to the repository at {}, which does not exist; the files of the worktree are unchanged", worktree.display(), at.display())]
    LostRepository {
        /// The worktree.
        worktree: PathBuf,
        /// Where the repository should be.
        at: PathBuf,
    },
    /// The branch was moved by somebody else since the worktree's files were last made equal to it.
    #[error("{}; your files are unchanged", moved_clause(&format!("branch '{name}'"), (*base, *tip), by.as_deref()))]
    Moved {
        /// Its name.
        name: String,
        /// The commit that the files come from.
        base: Option<ObjectId>,
        /// The commit that the branch is at.
        tip: Option<ObjectId>,
        /// Who moved it, if the operation log says so.
        by: Option<Box<Mover>>,
        /// Whether the branch only went on from there.
        forward: bool,
    },
    /// A switch of the worktree was cut off, so its files are a mix of two commits or subsets.
    #[error(
        "'{command}' was interrupted in this worktree: some files are from before and some from after it"
    )]
    Unfinished {
        /// What goes on with it.
        command: String,
    },
    /// Doing it would lose work that is nowhere else.
    #[error("{what} would lose uncommitted changes in {}{}; nothing was changed", escape(&paths[0]), more(paths.len()))]
    WouldLose {
        /// What was asked for.
        what: &'static str,
        /// The paths.
        paths: Vec<Vec<u8>>,
    },
    /// A choice for a conflict would overwrite what somebody made of its file.
    #[error(
        "{}{} not overwritten: {} by hand",
        escape(&paths[0]),
        match paths.len() {
            1 => " is".to_owned(),
            n => format!(" and {} more are", n - 1),
        },
        if *settled { "the conflict was settled" } else { "the file was edited" }
    )]
    EditedByHand {
        /// The conflicts, or what is in the way of a choice for them.
        paths: Vec<Vec<u8>>,
        /// Whether nothing of the conflict is left to see.
        settled: bool,
    },
    /// A command would overwrite more than is kept for an undo.
    #[error(
        "{what} would overwrite {bytes} bytes of uncommitted changes, but dmv keeps at most {limit} bytes for undo; nothing was changed"
    )]
    TooMuchToKeep {
        /// What was asked for.
        what: &'static str,
        /// Bytes that it would overwrite.
        bytes: u64,
        /// Bytes that are kept.
        limit: u64,
    },
    /// A file that a command would overwrite cannot be read as a whole, so an undo could not bring it back.
    #[error(
        "{what} would overwrite {}, but dmv cannot keep it for undo: {why}; nothing was changed",
        escape(path)
    )]
    NotKept {
        /// What was asked for.
        what: &'static str,
        /// The file.
        path: Vec<u8>,
        /// Why it cannot be kept.
        why: String,
    },
    /// An operation's id that names none, or several.
    #[error("{} '{id}'", if *ambiguous { "several operations start with" } else { "there is no operation" })]
    NoOperation {
        /// The id or its beginning, as given.
        id: String,
        /// Whether several begin so.
        ambiguous: bool,
    },
    /// Nothing has been done in this worktree.
    #[error("there is nothing to undo in this worktree")]
    NothingToUndo,
    /// Nothing has been undone in this worktree since the last operation.
    #[error("there is nothing to redo in this worktree")]
    NothingToRedo,
    /// What an operation changed was changed again.
    #[error("operation {operation} {}", since(what, *undone, by.as_ref()))]
    ChangedSince {
        /// The operation that was to be undone.
        operation: String,
        /// What was changed again.
        what: String,
        /// Whether it was the undo of the operation that did it.
        undone: bool,
        /// The last operation that did, and its command line.
        by: Option<(String, String)>,
    },
    /// An operation that cannot be undone as things are.
    #[error("operation {operation} cannot be undone: {why}")]
    NotUndone {
        /// The operation.
        operation: String,
        /// Why not.
        why: String,
    },
    /// A branch that can only be merged, where that was not wanted.
    #[error(
        "branch '{name}' cannot be fast-forwarded: both sides have new commits; the branch has not moved"
    )]
    NotFastForward {
        /// Its name.
        name: String,
    },
    /// A merge commit, or one without the parent asked for: which change is meant is not clear.
    #[error("commit {} has {parents} parents: name the parent to return to", commit.short(12))]
    Mainline {
        /// The commit.
        commit: ObjectId,
        /// How many it has.
        parents: usize,
    },
    /// A conflict would have more sides than the format holds.
    #[error(
        "the conflict at '{}' would have too many sides; resolve the existing conflict first",
        escape(path)
    )]
    TooManySides {
        /// Where.
        path: Vec<u8>,
    },
    /// No conflict at or under a path.
    #[error("there is no conflict at '{}'", escape(path))]
    NoConflict {
        /// The path.
        path: Vec<u8>,
    },
    /// Names in a tree that this file system takes for one.
    #[error("'{}' and '{}' are the same name on this file system", escape(.0), escape(.1))]
    Collision(Vec<u8>, Vec<u8>),
    /// There is nothing to change.
    #[error("there is no commit yet")]
    NoCommit,
    /// A path that the worktree does not have.
    #[error("'{}' is outside of the worktree's subset", escape(.0))]
    OutsideSubset(Vec<u8>),
    /// An object is stored and wrong.
    #[error("{0}")]
    Object(ObjectError),
    /// Bytes that nobody here has.
    #[error("{} {id} is needed, but absent from this repository", ty.word())]
    Absent {
        /// The object.
        id: ObjectId,
        /// Its type.
        ty: ObjectType,
    },
    /// The command needs content that is not here; it was found out before anything was changed.
    #[error("{}", lacking(.0))]
    Lacking(Vec<Lack>),
    /// The store failed.
    #[error(transparent)]
    Store(StoreError),
    /// The refs failed.
    #[error(transparent)]
    Refs(#[from] RefsError),
    /// A file of the worktree could not be handled.
    #[error(transparent)]
    Path(#[from] PathError),
    /// A file operation failed.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// On which file.
        path: PathBuf,
        /// The system's answer.
        source: std::io::Error,
    },
    /// Somebody frees space here, or counts on it that nobody does.
    #[error("another command is freeing space, or a peer relies on objects of this repository{}", locks::told(.0))]
    Freeing(Option<Holder>),
    /// A peer that had confirmed that it keeps something is no longer there.
    #[error(
        "a remote that had confirmed its copies no longer answers, so dmv stopped freeing space"
    )]
    Unconfirmed,
    /// The user asked to stop.
    #[error("interrupted")]
    Cancelled,
    /// Text that an object cannot hold: a message or an author.
    #[error("{0}")]
    Text(String),
}

fn more(n: usize) -> String {
    match n {
        0 | 1 => String::new(),
        n => format!(" and {} more", n - 1),
    }
}

fn lacking(lacks: &[Lack]) -> String {
    let Some(first) = lacks.first() else {
        return "some content is absent from this repository".to_owned();
    };
    let path = match &first.path[..] {
        [] => ".".to_owned(),
        path => escape(path).to_string(),
    };
    let more = more(lacks.len());
    format!("the content of '{path}'{more} is absent from this repository")
}

fn since(what: &str, undone: bool, by: Option<&(String, String)>) -> String {
    match by {
        Some((by, _)) if undone => format!("was already undone by operation {by}"),
        Some((by, command)) => {
            format!("cannot be undone: operation {by} ({command}) changed {what} later")
        }
        None => format!("cannot be undone: {what} has changed since"),
    }
}

/// Why a revision could not be resolved.
#[derive(Debug, thiserror::Error)]
pub enum RevisionError {
    /// It names nothing.
    #[error("there is no branch, tag or commit '{0}'")]
    Unknown(String),
    /// The prefix fits several commits.
    #[error("'{prefix}' is ambiguous; it matches the commits {}", list(candidates))]
    Ambiguous {
        /// The prefix.
        prefix: String,
        /// Commits that begin with it.
        candidates: Vec<ObjectId>,
    },
    /// It goes back further than the history, or to a parent that is not there.
    #[error("'{0}' does not exist: the history has no such ancestor")]
    Beyond(String),
    /// It is not written as a revision is.
    #[error("'{0}' is not a valid revision")]
    Syntax(String),
}

fn list(ids: &[ObjectId]) -> String {
    ids.iter()
        .map(|id| id.short(12))
        .collect::<Vec<_>>()
        .join(", ")
}

impl From<MergeError> for RepoError {
    fn from(e: MergeError) -> RepoError {
        match e {
            MergeError::Object(e) => e.into(),
            MergeError::Cancelled => RepoError::Cancelled,
            MergeError::Lacking(lacks) => RepoError::Lacking(lacks),
            MergeError::TooManySides { path } => RepoError::TooManySides {
                path: path.as_bytes().to_vec(),
            },
        }
    }
}

impl From<ObjectError> for RepoError {
    fn from(e: ObjectError) -> RepoError {
        match e {
            ObjectError::Missing { id, ty } => RepoError::Absent { id, ty },
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
            StoreError::TooNew { path, version } => RepoError::TooNew {
                path,
                found: format!("version {version}"),
            },
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
                Err(e) => RepoError::Damaged {
                    path: PathBuf::from(String::from_utf8_lossy(&dir).into_owned()),
                    why: e.to_string(),
                },
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
        }
    }
}
