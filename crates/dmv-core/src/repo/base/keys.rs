//! The keys of the view: how they are named, and which of them name commits (docs/format/layout.md,
//! "The view").

use crate::hash::ObjectId;

/// The name that stands for a remote in the keys of branches that were fetched from an address, which
/// no remote has: `remote/FETCH_HEAD/main`. The next such fetch replaces all of them. As a revision,
/// it means the branch with the name of the current one.
pub const FETCH_HEAD: &str = "FETCH_HEAD";

/// The prefix of the keys that name stashes.
pub(in crate::repo) const STASH: &str = "stash/";

/// Returns the key of the stash with this number.
pub(in crate::repo) fn stash_key(number: u64) -> String {
    format!("{STASH}{number:012}")
}

/// Returns whether the value of this key is the id of a commit.
pub(in crate::repo) fn names_commit(key: &str) -> bool {
    let is_ref = ["branch/", "tag/", "remote/", STASH]
        .iter()
        .any(|prefix| key.starts_with(prefix));
    let of_worktree = ["/base", "/saved", "/saving", "/untracked", "/moved"]
        .iter()
        .any(|end| key.ends_with(end));
    is_ref || key.starts_with("worktree/") && of_worktree
}

/// Returns the trees in the value of this key if it records a worktree's choices.
pub(in crate::repo) fn names_choices(key: &str, value: &[u8]) -> Option<Record> {
    let is_record = key.starts_with("worktree/") && key.ends_with("/settled");
    is_record.then(|| Record::parse(value))?
}

pub(in crate::repo) fn head_key(name: &str) -> String {
    format!("worktree/{name}/head")
}

pub(in crate::repo) fn base_key(name: &str) -> String {
    format!("worktree/{name}/base")
}

pub(in crate::repo) fn path_key(name: &str) -> String {
    format!("worktree/{name}/path")
}

pub(in crate::repo) fn subset_key(name: &str) -> String {
    format!("worktree/{name}/subset")
}

/// Returns the key of the head that the worktree had before the last checkout.
pub(in crate::repo) fn previous_key(name: &str) -> String {
    format!("worktree/{name}/previous")
}

/// Returns the key of the worktree's search for a first bad commit.
pub(in crate::repo) fn bisect_key(name: &str) -> String {
    format!("worktree/{name}/bisect")
}

pub(in crate::repo) fn settled_key(name: &str) -> String {
    format!("worktree/{name}/settled")
}

/// Returns the key of the commit that stores the files that the last command overwrote (see
/// `saved`).
pub(in crate::repo) fn saved_key(name: &str) -> String {
    format!("worktree/{name}/saved")
}

/// Returns the same key for a command that has not finished.
pub(in crate::repo) fn saving_key(name: &str) -> String {
    format!("worktree/{name}/saving")
}

/// Returns the key of the commit with the files that are no longer tracked (see `untracked`).
pub(in crate::repo) fn untracked_key(name: &str) -> String {
    format!("worktree/{name}/untracked")
}

/// Returns the key of the commit with the paths that the last command moved (see `moving`).
pub(in crate::repo) fn moved_key(name: &str) -> String {
    format!("worktree/{name}/moved")
}

/// The value of `worktree/NAME/settled`: choices for conflicts without files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::repo) struct Record {
    /// The base's tree at the time of the choices.
    pub from: ObjectId,
    /// The same tree with the chosen versions.
    pub to: ObjectId,
}

impl Record {
    /// Returns the value for the view.
    pub fn value(&self) -> Vec<u8> {
        [&self.from.as_bytes()[..], self.to.as_bytes()].concat()
    }

    /// Parses a value of the view. Returns `None` if it is not such a record.
    pub fn parse(value: &[u8]) -> Option<Record> {
        let (from, to) = value.split_first_chunk::<32>()?;
        Some(Record {
            from: ObjectId::from_bytes(*from),
            to: ObjectId::from_bytes(to.try_into().ok()?),
        })
    }
}
