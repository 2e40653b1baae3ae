//! Choices for conflicts outside the worktree's subset, where no file can show the choice.
//!
//! The worktree's notes have them (docs/format/notes.md). A choice is in effect while the base has the
//! same conflict at the same path. Otherwise, it is ignored but stays noted.

use crate::fsutil::{FileKind, SafeDir};
use crate::hash::ObjectId;
use crate::job::Job;
use crate::merge::{Edits, entry_of};
use crate::object::conflict::Term;
use crate::object::name::RepoPath;
use crate::object::tree::{Kind, TreeEntry, lookup_path};
use crate::path::PathError;
use crate::platform::bytes_of;
use crate::repo::base::change::ChangeKind;
use crate::repo::base::error::RepoError;
use crate::repo::base::notes::{Note, PathNotes};
use crate::repo::base::repo::Repo;
use crate::repo::base::transaction::Transaction;
use crate::repo::conflict::at::ConflictAt;
use crate::repo::conflict::choice::Choice;
use crate::repo::conflict::names::last_name;
use crate::repo::conflict::settle::conflict_entry;
use crate::worktree::ingest::{Task, TaskFile};
use std::path::Path;

/// The choice for one conflict.
#[derive(Clone, Debug)]
pub struct ConflictResolution {
    pub path: RepoPath,
    /// The conflict's entry.
    pub conflict: TreeEntry,
    /// The entry that replaces it, or `None` for nothing.
    pub entry: Option<TreeEntry>,
    /// Further versions in the same directory. One of them may belong to several conflicts.
    pub beside: Vec<(RepoPath, TreeEntry)>,
}

impl ConflictResolution {
    /// Returns the edits that turn the tree with the conflict into the chosen one.
    pub fn edits(&self) -> impl Iterator<Item = (RepoPath, Option<TreeEntry>)> + '_ {
        let beside = self.beside.iter();
        let beside = beside.map(|(path, entry)| (path.clone(), Some(entry.clone())));
        std::iter::once((self.path.clone(), self.entry.clone())).chain(beside)
    }

    /// Returns the paths that have the chosen versions.
    pub fn paths(&self) -> Vec<RepoPath> {
        let beside = self.beside.iter().map(|(path, _)| path);
        let own = self.entry.iter().map(|_| &self.path);
        own.chain(beside).cloned().collect()
    }

    /// Returns the note of the choice.
    pub fn note(&self) -> (RepoPath, Note) {
        let note = Note::Choice {
            conflict: self.conflict.clone(),
            entry: self.entry.clone(),
            beside: self.beside.clone(),
        };
        (self.path.clone(), note)
    }

    /// Returns the edits as changes of paths against the commit.
    pub fn changes(&self) -> impl Iterator<Item = (&RepoPath, ChangeKind)> {
        let kind = match self.entry {
            Some(_) => ChangeKind::Modified,
            None => ChangeKind::Deleted,
        };
        let beside = self.beside.iter();
        let beside = beside.map(|(path, _)| (path, ChangeKind::Added));
        std::iter::once((&self.path, kind)).chain(beside)
    }
}

/// Returns the edits of several choices to the tree that has the conflicts.
pub fn edits_of(chosen: &[ConflictResolution]) -> Edits {
    chosen.iter().flat_map(ConflictResolution::edits).collect()
}

/// Returns the error for a chosen path that is not a file.
pub fn no_file() -> std::io::Error {
    std::io::Error::other("it is not a file")
}

/// Returns the choices in `notes` that are in effect for a base with the tree `base`, in path order.
pub fn chosen(
    repo: &Repo,
    notes: &PathNotes,
    base: &ObjectId,
) -> Result<Vec<ConflictResolution>, RepoError> {
    let mut out = Vec::new();
    for (path, note) in notes.iter() {
        let Note::Choice {
            conflict,
            entry,
            beside,
        } = note
        else {
            continue;
        };
        let now = lookup_path(repo.objects(), base, path)?;
        if now.is_some_and(|now| now.same_content(conflict)) {
            out.push(ConflictResolution {
                path: path.clone(),
                conflict: conflict.clone(),
                entry: entry.clone(),
                beside: beside.clone(),
            });
        }
    }
    Ok(out)
}

/// Replaces the choices in `notes`.
pub fn note_in(notes: &mut PathNotes, chosen: &[ConflictResolution]) {
    notes.retain(|_, note| !matches!(note, Note::Choice { .. }));
    notes.extend(chosen.iter().map(ConflictResolution::note));
}

/// Returns the choices for the conflicts `these` of the tree `stored`, beside the choices `others`.
///
/// `file` is the content of [`Choice::With`]. `is_free` says whether a further version can have a
/// name that the tree does not have.
pub fn choose(
    repo: &Repo,
    stored: ObjectId,
    others: &[ConflictResolution],
    these: &[ConflictAt],
    choice: &Choice,
    file: Option<Term>,
    is_free: &dyn Fn(&RepoPath) -> bool,
) -> Result<Vec<ConflictResolution>, RepoError> {
    let mut taken = edits_of(others);
    let mut out = Vec::new();
    for at in these {
        let wanted = match file {
            Some(term) => vec![(at.path.clone(), term)],
            None => at.wanted(choice, &|path, _| {
                let in_tree = lookup_path(repo.objects(), &stored, path)?.is_some();
                Ok(!in_tree && !taken.contains_key(path) && is_free(path))
            })?,
        };
        let files = wanted.into_iter();
        let files = files.map(|(path, term)| (last_name(&path), path, term));
        let files = files.map(|(name, path, term)| (path, entry_of(&name, &term, None)));
        let (own, beside) = files.partition::<Vec<_>, _>(|(path, _)| *path == at.path);
        let one = ConflictResolution {
            path: at.path.clone(),
            conflict: conflict_entry(at),
            entry: own.into_iter().map(|(_, entry)| entry).next(),
            beside,
        };
        taken.extend(one.edits());
        out.push(one);
    }
    Ok(out)
}

/// Stores the file of a choice, if the choice is a file.
pub fn take_chosen_file(
    tx: &mut Transaction<'_>,
    choice: &Choice,
    job: &Job,
) -> Result<Option<Term>, RepoError> {
    match choice {
        Choice::With(file) => Ok(Some(take_in(tx, file, job)?)),
        _ => Ok(None),
    }
}

/// Stores a file of the user.
fn take_in(tx: &mut Transaction<'_>, file: &Path, job: &Job) -> Result<Term, RepoError> {
    let io = |source| RepoError::Io(PathError::new("read", file, source));
    let real = std::fs::canonicalize(file).map_err(io)?;
    let stat = std::fs::metadata(&real).map_err(io)?;
    let (Some(dir), Some(name), true) = (real.parent(), real.file_name(), stat.is_file()) else {
        return Err(io(no_file()));
    };
    let root = SafeDir::open_root(dir)?;
    let task = Task {
        dir: 0,
        path: Vec::new().into(),
        files: vec![TaskFile::of_content(bytes_of(name), FileKind::File)],
    };
    let mut found = None;
    tx.read_files(&root, [task], job, |done| found = Some(done.result))?;
    let stored = match found {
        Some(Ok(stored)) => stored,
        Some(Err(e)) => return Err(io(std::io::Error::other(e.to_string()))),
        None => return Err(RepoError::Cancelled),
    };
    let kind = if stored.stat.exec {
        Kind::Executable
    } else {
        Kind::File
    };
    Ok(Term {
        kind,
        is_list: stored.blob.is_list,
        is_private: stored.stat.privacy() == Some(true),
        id: stored.blob.id,
        size: stored.blob.size,
        files: 0,
    })
}
