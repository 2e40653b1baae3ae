//! Values as programs read them.

use crate::format::text::{raw_person, rfc3339};
use data_encoding::BASE64;
use dmv_core::hash::ObjectId;
use dmv_core::object::commit::{Commit, Person};
use dmv_core::object::conflict::Term;
use dmv_core::object::name::RepoPath;
use dmv_core::repo::{ConflictAt, EntryMove, Rename};
use dmv_core::worktree::snapshot::Problem;
use serde::Serialize;

/// A path: text, and its bytes where they are not text.
#[derive(Serialize)]
pub struct PathValue {
    path: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    path_b64: Option<String>,
}

impl PathValue {
    /// A path of a repository.
    pub fn new<T: AsRef<[u8]> + ?Sized>(path: &T) -> PathValue {
        let path = path.as_ref();
        PathValue {
            path: String::from_utf8_lossy(path).into_owned(),
            path_b64: base64_unless_text(path),
        }
    }
}

/// An entry that was moved.
#[derive(Serialize)]
pub struct MovedValue {
    from: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    from_b64: Option<String>,
    to: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    to_b64: Option<String>,
}

impl MovedValue {
    pub fn new(moved: &EntryMove) -> MovedValue {
        let text = |path: &RepoPath| String::from_utf8_lossy(path.as_bytes()).into_owned();
        MovedValue {
            from: text(&moved.from),
            from_b64: base64_unless_text(moved.from.as_bytes()),
            to: text(&moved.to),
            to_b64: base64_unless_text(moved.to.as_bytes()),
        }
    }
}

/// The bytes in base 64, if they are not UTF-8.
pub fn base64_unless_text(bytes: &[u8]) -> Option<String> {
    std::str::from_utf8(bytes)
        .is_err()
        .then(|| BASE64.encode(bytes))
}

/// A path with a reason.
#[derive(Serialize)]
pub struct ProblemValue {
    #[serde(flatten)]
    path: PathValue,
    why: String,
}

/// Paths with reasons.
pub fn problems(problems: &[Problem]) -> Vec<ProblemValue> {
    let value = |problem: &Problem| ProblemValue {
        path: PathValue::new(problem.path.as_bytes()),
        why: problem.why.clone(),
    };
    problems.iter().map(value).collect()
}

/// A path that differs.
#[derive(Serialize)]
pub struct ChangeValue {
    #[serde(flatten)]
    path: PathValue,
    change: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    from_b64: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    similarity: Option<u8>,
}

impl ChangeValue {
    pub fn new(path: &[u8], change: &'static str, renamed: Option<&Rename>) -> ChangeValue {
        ChangeValue {
            path: PathValue::new(path),
            change,
            from: renamed.map(|r| String::from_utf8_lossy(r.from.as_bytes()).into_owned()),
            from_b64: renamed.and_then(|r| base64_unless_text(r.from.as_bytes())),
            similarity: renamed.map(|r| r.percent),
        }
    }
}

/// A conflict, with the ids of its sides.
#[derive(Serialize)]
pub struct ConflictValue {
    #[serde(flatten)]
    path: PathValue,
    kind: &'static str,
    base: Option<String>,
    ours: Option<String>,
    theirs: Option<String>,
    id: String,
}

/// Conflicts, as `conflicts` and `merge` tell them.
pub fn conflict_values(conflicts: &[ConflictAt]) -> Vec<ConflictValue> {
    let id = |term: Option<Term>| term.map(|term| term.id.to_string());
    let value = |at: &ConflictAt| ConflictValue {
        path: PathValue::new(at.path.as_bytes()),
        kind: at.kind().word(),
        base: id(at.base()),
        ours: id(at.ours()),
        theirs: id(at.theirs()),
        id: at.id.to_string(),
    };
    conflicts.iter().map(value).collect()
}

/// A commit, as `log` tells it.
#[derive(Serialize)]
pub struct CommitValue {
    id: String,
    parents: Vec<String>,
    tree: String,
    author: String,
    time: String,
    committer: String,
    commit_time: String,
    message: String,
    bytes: u64,
    files: u64,
}

impl CommitValue {
    /// The commit `id`.
    pub fn new(id: &ObjectId, commit: &Commit) -> CommitValue {
        CommitValue {
            id: id.to_string(),
            parents: commit.parents.iter().map(ObjectId::to_string).collect(),
            tree: commit.tree.to_string(),
            author: raw_person(&commit.author),
            time: when(&commit.author),
            committer: raw_person(&commit.committer),
            commit_time: when(&commit.committer),
            message: commit.message.clone(),
            bytes: commit.tree_bytes,
            files: commit.tree_files,
        }
    }
}

fn when(person: &Person) -> String {
    rfc3339(person.seconds, person.nanos, person.tz_minutes)
}
