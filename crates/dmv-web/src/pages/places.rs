//! Places in commits, as addresses name them: always found in a tree.

use crate::program::Stop;
use crate::site::Ask;
use crate::words::SHORT_ID;
use dmv_core::hash::ObjectId;
use dmv_core::object::commit::Commit;
use dmv_core::object::name::RepoPath;
use dmv_core::object::tree::TreeEntry;
use dmv_core::repo::{Location, Repo};

/// Digits of a commit's id in addresses: enough to stay one commit's for good.
const LINK_DIGITS: usize = 20;
/// From so many digits on, an address names a commit by its id and so always the same bytes.
const FIXED_DIGITS: usize = 16;

/// A place in a commit.
pub struct CommitPath {
    /// The commit's id.
    pub id: ObjectId,
    /// The commit.
    pub commit: Commit,
    /// The path from the commit's root.
    pub path: RepoPath,
    /// What is there.
    pub located: Location,
    /// Whether the address names the commit by its id.
    pub is_fixed: bool,
    /// Which version of a conflict it is, if it is one.
    pub side: Option<String>,
}

impl CommitPath {
    /// The commit's id for addresses.
    pub fn link(&self) -> String {
        link_id(&self.id)
    }

    /// The commit's id for the eye.
    pub fn short(&self) -> String {
        self.id.short(SHORT_ID)
    }

    /// The entry, unless this is the root.
    pub fn entry(&self) -> Option<&TreeEntry> {
        match &self.located {
            Location::Entry(entry) => Some(entry),
            Location::Root { .. } => None,
        }
    }
}

/// A commit's id for addresses.
pub fn link_id(id: &ObjectId) -> String {
    id.short(LINK_DIGITS)
}

/// The place that the address names: a revision, and a path from segment `from` on.
pub fn place(ask: &Ask<'_>, from: usize) -> Result<CommitPath, Stop> {
    place_at(&ask.repo, ask.revision()?, &ask.target.path_from(from))
}

/// The place at `path` in `revision`.
pub fn place_at(repo: &Repo, revision: &str, path: &[u8]) -> Result<CommitPath, Stop> {
    let path = Repo::parse_path(path)?;
    let id = repo.resolve(revision)?;
    let commit = repo.read_commit(&id)?;
    let located = repo.locate(revision, &commit, &path)?;
    let is_fixed = revision.len() >= FIXED_DIGITS && id.to_string().starts_with(revision);
    Ok(CommitPath {
        id,
        commit,
        path,
        located,
        is_fixed,
        side: None,
    })
}

/// The place that `REV:PATH` names.
pub fn place_of(repo: &Repo, text: &[u8]) -> Result<CommitPath, Stop> {
    const WRONG: Stop = Stop::Bad("write a place as REV:PATH");
    let colon = text.iter().position(|b| *b == b':').ok_or(WRONG)?;
    let revision = std::str::from_utf8(&text[..colon]).map_err(|_| WRONG)?;
    place_at(repo, revision, &text[colon + 1..])
}
