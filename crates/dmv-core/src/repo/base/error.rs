//! The errors of a repository, sorted by what the user can do about them.

use crate::fsutil::PathError;
use crate::hash::ObjectId;
use crate::locks::{self, Holder};
use crate::merge::MergeError;
use crate::object::name::escape;
use crate::object::root::Lack;
use crate::object::{ObjectError, ObjectType};
use crate::refs::{RefNameError, RefsError, Timestamp};
use crate::repo::base::moved::{Mover, moved_clause};
use crate::repo::base::slice::Purge;
use crate::store::StoreError;
use crate::threads::NoThread;
use crate::worktree::ingest::IngestError;
use crate::worktree::scan::ScanError;
use crate::worktree::snapshot::SnapshotError;
use std::path::PathBuf;

/// The failure of a whole command.
#[derive(Debug, thiserror::Error)]
pub enum RepoError {
    /// There is no repository at or above this directory.
    #[error("no dmv repository in {} or in a directory above it", .0.display())]
    NotFound(PathBuf),
    /// There is already a repository where a new one was to be created.
    #[error("there is already a repository at {}; nothing was changed", .0.display())]
    Exists(PathBuf),
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
    /// A part of the repository is a symlink.
    #[error("{} is a symbolic link; dmv does not follow links inside a repository", .0.display())]
    Symlink(PathBuf),
    /// The database is missing. The packs may still be intact.
    #[error("the database {} is missing", .0.display())]
    NoDatabase(PathBuf),
    /// The command needs a worktree, and the current directory is not in one.
    #[error("this command needs a worktree, and the current directory is not in one")]
    NoWorktree,
    /// Another command is changing this worktree.
    #[error("another dmv command is changing this worktree{}", locks::told(.0))]
    Busy(Option<Holder>),
    /// A revision names nothing, or more than one commit.
    #[error("{0}")]
    Revision(#[from] RevisionError),
    /// A revision does not have this path.
    #[error("'{}' does not exist in {revision}", escape(path))]
    NoSuchPath {
        /// The revision, as given.
        revision: String,
        /// The path.
        path: Vec<u8>,
    },
    /// A path is not valid in a repository.
    #[error("'{}' is not a valid path in a repository: {why}", escape(path))]
    BadPath {
        /// The path.
        path: Vec<u8>,
        /// Why it is not valid.
        why: String,
    },
    /// A directory was given where a file was expected, or the reverse.
    #[error("'{}' is {what}", if path.is_empty() { ".".to_owned() } else { escape(path).to_string() })]
    WrongKind {
        /// The path.
        path: Vec<u8>,
        /// What the path is.
        what: &'static str,
    },
    /// A name is not valid for a ref.
    #[error(transparent)]
    RefName(#[from] RefNameError),
    /// The ref already exists.
    #[error("{kind} '{name}' already exists")]
    RefExists {
        /// "branch" or "tag".
        kind: &'static str,
        /// The ref's name.
        name: String,
    },
    /// The ref does not exist.
    #[error("there is no {kind} '{name}'")]
    NoRef {
        /// "branch" or "tag".
        kind: &'static str,
        /// The ref's name.
        name: String,
    },
    /// A worktree is on the branch, or it is the default branch of a bare repository.
    #[error("branch '{name}' is {}", if at.is_empty() {
        "the default branch of this repository: clones start with it".to_owned()
    } else {
        format!("checked out at {at}")
    })]
    InUse {
        /// The branch's name.
        name: String,
        /// The worktree's path; empty for a bare repository.
        at: String,
    },
    /// A worktree cannot be created in this directory.
    #[error("cannot create a worktree in {}: {why}", dir.display())]
    NotFree {
        /// The directory.
        dir: PathBuf,
        /// Why not.
        why: String,
    },
    /// This repository has no worktree at this path.
    #[error("{} is not a worktree of this repository", .0.display())]
    NoSuchWorktree(PathBuf),
    /// The worktree is the main one: it contains the repository itself.
    #[error("{} is the main worktree: it contains the repository itself", .0.display())]
    OwnWorktree(PathBuf),
    /// The worktree is a copy, so two worktrees have the same name.
    #[error("{} is a copy of the worktree at {}", dir.display(), at.display())]
    WorktreeCopy {
        /// The copy.
        dir: PathBuf,
        /// The original worktree.
        at: PathBuf,
    },
    /// The repository of a worktree is not where the `.dmv` file says.
    #[error("the worktree {} belongs to the repository at {}, which does not exist; the files of the worktree are unchanged", worktree.display(), at.display())]
    LostRepository {
        /// The worktree.
        worktree: PathBuf,
        /// The expected path of the repository.
        at: PathBuf,
    },
    /// Another command moved the branch since the worktree's files were last made equal to it.
    #[error("{}; your files are unchanged", moved_clause(&format!("branch '{name}'"), (*base, *tip), by.as_deref()))]
    Moved {
        /// The branch's name.
        name: String,
        /// The commit that the files come from.
        base: Option<ObjectId>,
        /// The branch's current commit.
        tip: Option<ObjectId>,
        /// Who moved the branch, if the operation log says so.
        by: Option<Box<Mover>>,
        /// Whether the branch only moved forward.
        forward: bool,
    },
    /// A switch of the worktree was cut off, so the files are a mix of two commits or subsets.
    #[error(
        "'{command}' was interrupted in this worktree: some files are from before and some from after it"
    )]
    Unfinished {
        /// The command that completes the switch.
        command: String,
    },
    /// The command would lose work that is stored nowhere else.
    #[error("{what} would lose uncommitted changes in {}{}; nothing was changed", escape(&paths[0]), more(paths.len()))]
    WouldLose {
        /// The requested action.
        what: &'static str,
        /// The paths of that work.
        paths: Vec<Vec<u8>>,
    },
    /// The removal of a worktree would lose work that is stored nowhere else.
    #[error("removing the worktree at {} would lose uncommitted changes in {}{}; nothing was changed", at.display(), escape(&paths[0]), more(paths.len()))]
    WouldLoseThere {
        /// The directory of the worktree.
        at: PathBuf,
        /// The paths of that work, from there.
        paths: Vec<Vec<u8>>,
    },
    /// A choice for a conflict would overwrite a manual edit of its file.
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
        /// The conflicts, or the files that are in the way of a choice for them.
        paths: Vec<Vec<u8>>,
        /// Whether the conflicts no longer show in the files.
        settled: bool,
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
        "{what} would overwrite {}, but dmv cannot keep it for undo: {why}; nothing was changed",
        escape(path)
    )]
    NotKept {
        /// The requested action.
        what: &'static str,
        /// The file.
        path: Vec<u8>,
        /// Why it cannot be stored.
        why: String,
    },
    /// An operation id matches no operation, or several.
    #[error("{} '{id}'", if *ambiguous { "several operations start with" } else { "there is no operation" })]
    NoOperation {
        /// The id or its first digits, as given.
        id: String,
        /// Whether several operations match.
        ambiguous: bool,
    },
    /// This worktree has no operation to undo.
    #[error("there is nothing to undo in this worktree")]
    NothingToUndo,
    /// This worktree has no undone operation since its last one.
    #[error("there is nothing to redo in this worktree")]
    NothingToRedo,
    /// No bisection is under way in this worktree.
    #[error("no bisection is under way in this worktree")]
    NotBisecting,
    /// A good commit of a bisection descends from the bad one.
    #[error(
        "commit {} is bad, but the good commit {} contains it: the fault was repaired between them, or a result is wrong",
        bad.short(12),
        good.short(12)
    )]
    GoodAfterBad {
        /// The bad commit.
        bad: ObjectId,
        /// The good commit.
        good: ObjectId,
    },
    /// A later operation changed the same keys or files.
    #[error("operation {operation} {}", since(what, *undone, by.as_ref()))]
    ChangedSince {
        /// The operation that was to be undone.
        operation: String,
        /// What was changed again.
        what: String,
        /// Whether the later change was the undo of this operation.
        undone: bool,
        /// The last operation that changed it, and its command line.
        by: Option<(String, String)>,
    },
    /// The operation cannot be undone in the current state.
    #[error("operation {operation} cannot be undone: {why}")]
    NotUndone {
        /// The operation.
        operation: String,
        /// Why not.
        why: String,
    },
    /// The last operation is a purge, which cannot be undone.
    #[error(
        "the last operation is a purge ({operation}), which cannot be undone; nothing was undone"
    )]
    UndoOfPurge {
        /// The purge.
        operation: String,
        /// The operation that the undo would otherwise take back, and its command.
        before: Option<(String, String)>,
    },
    /// Undo cannot reach the operation any more: what it named may be freed.
    #[error("operation {operation} is out of reach{}", out_since(at.as_ref()))]
    Expired {
        /// The operation.
        operation: String,
        /// When the last operations got out of reach.
        at: Option<Timestamp>,
    },
    /// The branch can only be merged, and the caller allowed only a fast-forward.
    #[error(
        "branch '{name}' cannot be fast-forwarded: both sides have new commits; the branch has not moved"
    )]
    NotFastForward {
        /// The branch's name.
        name: String,
    },
    /// The commit has several parents or not the requested one, so it is unclear which change is
    /// meant.
    #[error("commit {} has {parents} parents: name the one that its change starts from", commit.short(12))]
    Mainline {
        /// The commit.
        commit: ObjectId,
        /// The number of its parents.
        parents: usize,
        /// The command that needs to know.
        verb: &'static str,
    },
    /// There is no stash with this number.
    #[error("there is no stash@{{{n}}}: {}", stash_count(*count))]
    NoStash {
        /// The number, counted from the newest one, which is 0.
        n: usize,
        /// How many stashes there are.
        count: usize,
    },
    /// A conflict would have more sides than the format allows.
    #[error(
        "the conflict at '{}' would have too many sides; resolve the existing conflict first",
        escape(path)
    )]
    TooManySides {
        /// The path of the conflict.
        path: Vec<u8>,
    },
    /// There is no conflict at or under this path.
    #[error("there is no conflict at '{}'", escape(path))]
    NoConflict {
        /// The path.
        path: Vec<u8>,
    },
    /// The version that was to settle a conflict has conflicts of its own. The worktree cannot show
    /// them there.
    #[error(
        "the chosen version of '{}' has a conflict of its own at '{}'; nothing was changed",
        escape(path),
        escape(inner)
    )]
    NestedConflict {
        /// The path of the conflict.
        path: Vec<u8>,
        /// The path of the first conflict in the version.
        inner: Vec<u8>,
        /// Where the worktree shows the version, if it is one.
        shown_at: Option<Vec<u8>>,
    },
    /// This file system treats two names of a tree as the same name.
    #[error("'{}' and '{}' are the same name on this file system", escape(.0), escape(.1))]
    Collision(Vec<u8>, Vec<u8>),
    /// There is no commit to work on yet.
    #[error("there is no commit yet")]
    NoCommit,
    /// The path is outside the worktree's subset.
    #[error("'{}' is outside of the worktree's subset", escape(.0))]
    OutsideSubset(Vec<u8>),
    /// A command on tracked files does not accept a path.
    #[error("'{}' {why}; nothing was changed", escape(path))]
    PathRefused {
        /// The path.
        path: Vec<u8>,
        /// Why not.
        why: PathRefusal,
    },
    /// An object is stored but damaged.
    #[error("{0}")]
    Object(ObjectError),
    /// An object is needed and is absent from this repository.
    #[error("{} {id} is needed, but absent from this repository", ty.word())]
    Absent {
        /// The object's id.
        id: ObjectId,
        /// The object's type.
        ty: ObjectType,
    },
    /// A commit cannot get a name because objects that it needs are absent. A fetch was cut.
    #[error(
        "commit {} is not complete here: at least {missing} {} that it needs {} missing",
        id.short(12), if *missing == 1 { "object" } else { "objects" },
        if *missing == 1 { "is" } else { "are" }
    )]
    Incomplete {
        /// The commit.
        id: ObjectId,
        /// The number of absent objects that are known to be needed.
        missing: u64,
    },
    /// The command needs content that is absent from this repository. It failed before it changed
    /// anything.
    #[error("{}", lacking(.0))]
    Lacking(Vec<Lack>),
    /// The command needs content that was purged.
    #[error("{}", purged(path, .purge))]
    Purged {
        /// A path of it in a commit; empty if unknown.
        path: Vec<u8>,
        /// Who has purged it, when and why.
        purge: Box<Purge>,
    },
    /// Content that this command has stored was purged while it ran. Nothing was published.
    #[error(
        "content that this command was about to store was purged meanwhile; nothing was changed"
    )]
    PurgedMeanwhile,
    /// The store failed.
    #[error(transparent)]
    Store(StoreError),
    /// The refs failed.
    #[error(transparent)]
    Refs(#[from] RefsError),
    /// A file of the worktree could not be processed.
    #[error(transparent)]
    Path(#[from] PathError),
    /// A file operation failed.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// The attempted action.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// The system starts no further thread.
    #[error(transparent)]
    Thread(#[from] NoThread),
    /// An undo runs beside `op expire`.
    #[error("another command is undoing an operation, or shortening what undo can reach{}", locks::told(.0))]
    Reaching(Option<Holder>),
    /// Another command is freeing space, or a peer relies on this repository not to free any.
    #[error("another command is freeing space, or a peer relies on objects of this repository{}", locks::told(.0))]
    Freeing(Option<Holder>),
    /// A peer confirmed that it keeps objects, and is no longer connected.
    #[error(
        "a remote that had confirmed its copies no longer answers, so dmv stopped freeing space"
    )]
    Unconfirmed,
    /// Something that is needed is damaged or missing, so nothing shows what else is needed.
    #[error(
        "nothing was freed: {} {} is {}",
        ty.word(),
        id.short(12),
        if *is_damaged { "damaged" } else { "missing" }
    )]
    NothingFreed {
        /// Its type.
        ty: ObjectType,
        /// Its id.
        id: ObjectId,
        /// Whether it is stored, and damaged.
        is_damaged: bool,
    },
    /// The user cancelled the command.
    #[error("interrupted")]
    Cancelled,
    /// A message or an author contains text that an object cannot store.
    #[error("{0}")]
    Text(String),
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
    /// Two arguments mean the same path, or one lies in the other.
    #[error("is named twice")]
    Twice,
    /// The worktree has only a part of the directory.
    #[error("has files outside of the worktree's subset")]
    Partial,
}

fn more(n: usize) -> String {
    match n {
        0 | 1 => String::new(),
        n => format!(" and {} more", n - 1),
    }
}

/// Says what was purged, by whom and why.
fn purged(path: &[u8], purge: &Purge) -> String {
    let what = match path {
        [] => "this content".to_owned(),
        path => format!("the content of '{}'", escape(path)),
    };
    let (by, reason) = (escape(purge.by.as_bytes()), escape(purge.reason.as_bytes()));
    format!("{what} was purged by {by}: {reason}")
}

fn lacking(lacks: &[Lack]) -> String {
    let Some(first) = lacks.first() else {
        return "some content is absent from this repository".to_owned();
    };
    let path = match first.path.is_root() {
        true => ".".to_owned(),
        false => first.path.to_string(),
    };
    let more = more(lacks.len());
    format!("the content of '{path}'{more} is absent from this repository")
}

fn out_since(at: Option<&Timestamp>) -> String {
    let on = at.map(|at| format!(" of {}", at.date()));
    format!(" since 'dmv op expire'{}", on.unwrap_or_default())
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

/// The reason why a revision could not be resolved.
#[derive(Debug, thiserror::Error)]
pub enum RevisionError {
    /// The revision names nothing.
    #[error("there is no branch, tag or commit '{0}'")]
    Unknown(String),
    /// Only remotes have a branch of this name.
    #[error(
        "there is no local branch, tag or commit '{name}', only the remote {} {}",
        if remotes.len() == 1 { "branch" } else { "branches" },
        remotes.join(", ")
    )]
    OnlyRemote {
        /// The revision.
        name: String,
        /// The remote branches, each with the name of its remote.
        remotes: Vec<String>,
    },
    /// The worktree was on no other branch or commit before.
    #[error("'{0}' does not exist: this worktree has not been on another branch or commit")]
    NoPrevious(String),
    /// The worktree was on a branch before that does not exist any more.
    #[error(
        "'{name}' does not exist: branch '{branch}', on which this worktree was before, was deleted"
    )]
    PreviousGone {
        /// The revision.
        name: String,
        /// The branch.
        branch: String,
    },
    /// The prefix matches several commits.
    #[error("'{prefix}' is ambiguous; it matches the commits {}", list(candidates))]
    Ambiguous {
        /// The prefix.
        prefix: String,
        /// The commits whose ids begin with it.
        candidates: Vec<ObjectId>,
    },
    /// The revision goes back further than the history, or names a parent that does not exist.
    #[error("'{0}' does not exist: the history has no such ancestor")]
    Beyond(String),
    /// The text is not a valid revision.
    #[error("'{0}' is not a valid revision")]
    Syntax(String),
}

fn list(ids: &[ObjectId]) -> String {
    ids.iter()
        .map(|id| id.short(12))
        .collect::<Vec<_>>()
        .join(", ")
}

fn stash_count(count: usize) -> String {
    match count {
        0 => "nothing is stashed".to_owned(),
        1 => "there is one stash".to_owned(),
        n => format!("there are {n} stashes"),
    }
}

impl From<MergeError> for RepoError {
    fn from(e: MergeError) -> RepoError {
        match e {
            MergeError::Object(e) => e.into(),
            MergeError::Cancelled => RepoError::Cancelled,
            MergeError::Lacking { lacks, .. } => RepoError::Lacking(lacks),
            MergeError::TooManySides { path } => RepoError::TooManySides {
                path: path.as_bytes().to_vec(),
            },
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
            IngestError::Thread(e) => e.into(),
        }
    }
}

impl From<ScanError> for RepoError {
    fn from(e: ScanError) -> RepoError {
        match e {
            ScanError::Cancelled => RepoError::Cancelled,
            ScanError::Path(e) => RepoError::Path(e),
            ScanError::Thread(e) => e.into(),
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
