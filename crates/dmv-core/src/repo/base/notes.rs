//! Notes of paths: what DMV remembers of a path beside the base commit and the files on disk
//! (docs/format/notes.md).

use crate::object::codec::{DecodeError, Decoder, put_varint};
use crate::object::name::RepoPath;
use crate::object::tree::TreeEntry;
use crate::repo::base::error::RepoError;
use crate::repo::base::keys::{FORMER, notes_key};
use crate::repo::base::record::{
    self, Item, Record, put_entry, put_path, take_entry, take_path, take_some,
};
use crate::repo::base::repo::Repo;
use crate::repo::base::worktree;

/// Files that belong to a conflict and stand beside it, with their entries.
pub type FilesBeside = Vec<(RepoPath, TreeEntry)>;

/// What DMV remembers of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Note {
    /// The next commit leaves the file out, as long as the base has this entry.
    Untracked(TreeEntry),
    /// A conflict that files show and no commit has.
    Conflict {
        /// The entry that a commit would have.
        conflict: TreeEntry,
        /// The versions in files beside it.
        beside: FilesBeside,
    },
    /// The choice for a conflict that has no file in the worktree.
    Choice {
        /// The conflict. The choice counts as long as the base has it.
        conflict: TreeEntry,
        /// The entry that replaces it, if there is one.
        entry: Option<TreeEntry>,
        /// Further versions in the same directory. One of them may belong to several conflicts.
        beside: FilesBeside,
    },
}

/// The notes of a worktree.
pub type PathNotes = Record<Note>;

impl PathNotes {
    /// Returns the entries whose content has to stay stored, with the paths where a tree can have them.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (&RepoPath, &TreeEntry)> {
        self.iter().flat_map(|(path, note)| {
            let (own, beside) = match note {
                Note::Untracked(entry) => (Some(entry), None),
                Note::Conflict { conflict, beside } => (Some(conflict), Some(beside)),
                Note::Choice { entry, beside, .. } => (entry.as_ref(), Some(beside)),
            };
            let beside = beside.into_iter().flatten();
            let own = own.map(|entry| (path, entry)).into_iter();
            own.chain(beside.map(|(path, entry)| (path, entry)))
        })
    }
}

impl Item for Note {
    fn kind(&self) -> u8 {
        match self {
            Note::Untracked(_) => 1,
            Note::Conflict { .. } => 2,
            Note::Choice { .. } => 3,
        }
    }

    fn put(&self, out: &mut Vec<u8>) {
        match self {
            Note::Untracked(entry) => put_entry(out, Some(entry)),
            Note::Conflict { conflict, beside } => {
                put_entry(out, Some(conflict));
                put_files(out, beside);
            }
            Note::Choice {
                conflict,
                entry,
                beside,
            } => {
                put_entry(out, Some(conflict));
                put_entry(out, entry.as_ref());
                put_files(out, beside);
            }
        }
    }

    fn take(kind: u8, path: &RepoPath, input: &mut Decoder<'_>) -> Result<Note, DecodeError> {
        Ok(match kind {
            1 => Note::Untracked(take_some(path, input)?),
            2 => Note::Conflict {
                conflict: take_some(path, input)?,
                beside: take_files(input)?,
            },
            3 => Note::Choice {
                conflict: take_some(path, input)?,
                entry: take_entry(path, input)?,
                beside: take_files(input)?,
            },
            _ => return Err(input.error("unknown kind of note")),
        })
    }
}

fn put_files(out: &mut Vec<u8>, files: &FilesBeside) {
    put_varint(out, files.len() as u64);
    for (path, entry) in files {
        put_path(out, path);
        put_entry(out, Some(entry));
    }
}

fn take_files(input: &mut Decoder<'_>) -> Result<FilesBeside, DecodeError> {
    let count = input.varint()?;
    let mut files = Vec::new();
    for _ in 0..count {
        let path = take_path(input)?;
        let entry = take_some(&path, input)?;
        files.push((path, entry));
    }
    Ok(files)
}

/// Returns the notes of this worktree; none outside of a worktree.
pub fn read(repo: &Repo) -> Result<PathNotes, RepoError> {
    let Ok(name) = worktree::worktree_name(repo) else {
        return Ok(PathNotes::default());
    };
    refuse_former(repo, name)?;
    notes_in(repo, name, repo.refs.get(&notes_key(name))?.as_deref())
}

/// Fails if an earlier build has left notes in another form.
fn refuse_former(repo: &Repo, name: &str) -> Result<(), RepoError> {
    let prefix = format!("worktree/{name}/");
    let keys = repo.refs.with_prefix(&prefix)?.into_iter();
    let mut parts = keys.filter_map(|(key, _)| Some(key.strip_prefix(&prefix)?.to_owned()));
    match parts.find(|part| FORMER.contains(&&part[..])) {
        Some(part) => Err(RepoError::Text(format!(
            "an earlier build of dmv has left '{part}' of this worktree in a form that is no longer read; \
             a new clone of the repository has none"
        ))),
        None => Ok(()),
    }
}

/// Returns the notes that a value of the view names, for the worktree `name`.
pub fn notes_in(repo: &Repo, name: &str, value: Option<&[u8]>) -> Result<PathNotes, RepoError> {
    match value {
        Some(value) => record::read(repo, &notes_key(name), value),
        None => Ok(PathNotes::default()),
    }
}
