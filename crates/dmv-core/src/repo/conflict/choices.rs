//! Choices for conflicts outside the worktree's subset, where no file can show the choice.
//!
//! The view stores them as two trees: the base's tree at the time of the choices, and the same tree
//! with the chosen versions in place of the conflicts (docs/format/layout.md, "The view"). A choice
//! is in effect while the base has the same conflict at the same path. Otherwise, it is ignored but
//! stays recorded.

use crate::diff::{diff_trees, entries_in};
use crate::fsutil::{FileKind, SafeDir};
use crate::hash::ObjectId;
use crate::job::Job;
use crate::merge::{Edits, edit_tree, entry_of};
use crate::object::conflict::Term;
use crate::object::name::RepoPath;
use crate::object::tree::{Kind, TreeEntry, lookup_path};
use crate::object::{ObjectError, ObjectWrite};
use crate::path::PathError;
use crate::platform::bytes_of;
use crate::repo::base::change::ChangeKind;
use crate::repo::base::error::{PlaceError, RepoError};
use crate::repo::base::handle::Handle;
use crate::repo::base::keys::{Record, settled_key};
use crate::repo::base::{path, worktree};
use crate::repo::conflict::at::ConflictAt;
use crate::repo::conflict::choice::Choice;
use crate::repo::conflict::names::{last_name, stem_and_ending};
use crate::store::{MetaWriter, StoreWriter};
use crate::subset::Subset;
use crate::worktree::ingest::{IngestResult, Task, with_ingest};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::path::Path;

/// The choice for one conflict.
#[derive(Clone, Debug)]
pub(in crate::repo) struct ConflictResolution {
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

/// Conflicts, each with the paths that hold the chosen versions.
pub(in crate::repo) type Settlements = Vec<(RepoPath, Vec<RepoPath>)>;

/// Returns the edits of several choices to the tree that has the conflicts.
pub(in crate::repo) fn edits_of(chosen: &[ConflictResolution]) -> Edits {
    chosen.iter().flat_map(ConflictResolution::edits).collect()
}

/// Returns whether `name` is a name that [`ConflictAt::wanted`] gives to a further version of the
/// conflict at `path`.
fn is_version(path: &RepoPath, name: &[u8]) -> bool {
    let (stem, ending) = stem_and_ending(path);
    let Some(name) = name.strip_suffix(ending) else {
        return false;
    };
    let Some(dash) = name.iter().rposition(|b| *b == b'-') else {
        return false;
    };
    let (begin, label) = (&name[..dash], &name[dash + 1..]);
    let number = [&b"theirs"[..], b"side"].map(|word| label.strip_prefix(word));
    let is_label = number
        .iter()
        .flatten()
        .any(|number| number.iter().all(u8::is_ascii_digit));
    // A long stem is cut in the name.
    is_label && (begin == stem || begin.len() >= SURE_STEM_BYTES && stem.starts_with(begin))
}

/// The number of bytes of a stem that are always in the names of further versions.
const SURE_STEM_BYTES: usize = 40;

/// Returns the error for a chosen path that is not a file.
pub(in crate::repo) fn no_file() -> std::io::Error {
    std::io::Error::other("it is not a file")
}

/// Returns the recorded choices of this worktree.
pub(in crate::repo) fn record(repo: &Handle) -> Result<Option<Record>, RepoError> {
    let Ok(name) = worktree::worktree_name(repo) else {
        return Ok(None);
    };
    let value = repo.refs.get(&settled_key(name))?;
    record_value(repo, name, value.as_deref())
}

/// Parses the view's value for the choices of the worktree `name`.
pub(in crate::repo) fn record_value(
    repo: &Handle,
    name: &str,
    value: Option<&[u8]>,
) -> Result<Option<Record>, RepoError> {
    let Some(value) = value else {
        return Ok(None);
    };
    let damaged = || {
        RepoError::Place(PlaceError::Damaged {
            path: repo.refs.path().to_owned(),
            why: format!("{} is invalid", settled_key(name)),
        })
    };
    Record::parse(value).map(Some).ok_or_else(damaged)
}

/// Returns a record of choices for conflicts of the tree `from`.
pub(in crate::repo) fn record_of(
    repo: &Handle,
    from: ObjectId,
    chosen: &[ConflictResolution],
    writer: &mut dyn ObjectWrite,
) -> Result<Option<Record>, RepoError> {
    if chosen.is_empty() {
        return Ok(None);
    }
    let to = edit_tree(repo.objects(), writer, from, &edits_of(chosen))?.id;
    Ok(Some(Record { from, to }))
}

/// Returns the choices of a record that are in effect for a base with the tree `base`, in path
/// order.
pub(in crate::repo) fn chosen(
    repo: &Handle,
    record: Option<Record>,
    base: &ObjectId,
) -> Result<Vec<ConflictResolution>, RepoError> {
    let Some(Record { from, to }) = record else {
        return Ok(Vec::new());
    };
    let mut conflicts: BTreeMap<RepoPath, TreeEntry> = BTreeMap::new();
    let mut note = |path: &RepoPath, old: Option<&TreeEntry>, _: Option<&TreeEntry>| {
        if let Some(old) = old.filter(|old| old.kind == Kind::Conflict) {
            conflicts.insert(path.clone(), old.clone());
        }
        Ok::<_, ObjectError>(ControlFlow::Continue(()))
    };
    // The result is never `Break`, because `note` accepts every change.
    let _ = diff_trees(repo.objects(), Some(from), Some(to), &mut note)?;
    let mut out = Vec::new();
    let mut added = BTreeMap::new();
    for (path, conflict) in conflicts {
        let now = lookup_path(repo.objects(), base, &path)?;
        if !now.is_some_and(|now| now.same_content(&conflict)) {
            continue;
        }
        let entry = lookup_path(repo.objects(), &to, &path)?;
        let dir = path.parent().unwrap_or_default();
        if !added.contains_key(&dir) {
            added.insert(dir.clone(), new_names(repo, &dir, &from, &to)?);
        }
        let mut beside = Vec::new();
        for new in &added[&dir] {
            if is_version(&path, new.name.as_bytes()) {
                let at = crate::worktree::join(dir.as_bytes(), new.name.as_bytes());
                beside.push((path::parse_path(&at)?, new.clone()));
            }
        }
        out.push(ConflictResolution {
            path,
            conflict,
            entry,
            beside,
        });
    }
    Ok(out)
}

/// Returns the entries of a directory that only `to` has.
fn new_names(
    repo: &Handle,
    dir: &RepoPath,
    from: &ObjectId,
    to: &ObjectId,
) -> Result<Vec<TreeEntry>, RepoError> {
    let old = dir_entries(repo, from, dir)?;
    let old: BTreeSet<_> = old.into_iter().map(|entry| entry.name).collect();
    let mut new = dir_entries(repo, to, dir)?;
    new.retain(|entry| !old.contains(&entry.name));
    Ok(new)
}

fn dir_entries(
    repo: &Handle,
    root: &ObjectId,
    dir: &RepoPath,
) -> Result<Vec<TreeEntry>, RepoError> {
    let tree = if dir.is_root() {
        Some(*root)
    } else {
        lookup_path(repo.objects(), root, dir)?
            .filter(|entry| entry.kind == Kind::Directory)
            .map(|entry| entry.id)
    };
    match tree {
        Some(tree) => {
            let all = Subset::everything();
            Ok(entries_in(repo.objects(), &tree, &all, dir)?)
        }
        None => Ok(Vec::new()),
    }
}

/// Returns the edits to the tree `stored` that replace the conflicts `these` and apply the choices
/// `others`. Also returns the paths that hold the chosen versions for each of `these`.
///
/// `file` is the content of [`Choice::With`]. `is_free` says whether a further version can have a
/// name that the tree does not have.
pub(in crate::repo) fn choose(
    repo: &Handle,
    stored: ObjectId,
    (others, these): (&[ConflictResolution], &[ConflictAt]),
    (choice, file): (&Choice, Option<Term>),
    is_free: &dyn Fn(&RepoPath) -> bool,
) -> Result<(Edits, Settlements), RepoError> {
    let mut edits = edits_of(others);
    let mut settled = Vec::new();
    for at in these {
        let wanted = match file {
            Some(term) => vec![(at.path.clone(), term)],
            None => at.wanted(choice, &|path, _| {
                let in_tree = lookup_path(repo.objects(), &stored, path)?.is_some();
                Ok(!in_tree && !edits.contains_key(path) && is_free(path))
            })?,
        };
        edits.insert(at.path.clone(), None);
        for (path, term) in &wanted {
            let entry = entry_of(&last_name(path), term, None);
            edits.insert(path.clone(), Some(entry));
        }
        let paths = wanted.into_iter().map(|(path, _)| path);
        settled.push((at.path.clone(), paths.collect()));
    }
    Ok((edits, settled))
}

/// Stores the file of a choice, if the choice is a file.
pub(in crate::repo) fn take_chosen_file<'s>(
    repo: &'s Handle,
    choice: &Choice,
    writer: &StoreWriter<'s>,
    job: &Job,
) -> Result<Option<Term>, RepoError> {
    let Choice::With(file) = choice else {
        return Ok(None);
    };
    let mut meta = MetaWriter::new(writer);
    let term = take_in(repo, file, writer, &mut meta, job)?;
    meta.flush()?;
    Ok(Some(term))
}

/// Stores a file of the user.
fn take_in(
    _repo: &Handle,
    file: &Path,
    writer: &StoreWriter<'_>,
    meta: &mut MetaWriter<'_>,
    job: &Job,
) -> Result<Term, RepoError> {
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
        files: vec![(bytes_of(name).into(), FileKind::File)],
    };
    let mut found = None;
    with_ingest(&root, writer, job, |ingest| {
        let mut keep = |done: IngestResult, _: &mut dyn ObjectWrite| {
            found = Some(done.result);
            Ok(())
        };
        ingest.submit(task, meta, &mut keep)?;
        ingest.finish(meta, &mut keep)
    })?;
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
        id: stored.blob.id,
        size: stored.blob.size,
        files: 0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_reads_back_and_anything_else_is_none() {
        let record = Record {
            from: ObjectId::from_bytes([1; 32]),
            to: ObjectId::from_bytes([2; 32]),
        };
        let value = record.value();
        assert_eq!(Record::parse(&value), Some(record));
        assert_eq!(Record::parse(&value[1..]), None);
        assert_eq!(Record::parse(&[&value[..], b"x"].concat()), None);
        assert_eq!(Record::parse(b""), None);
    }

    #[test]
    fn a_version_has_the_name_of_its_conflict() -> Result<(), RepoError> {
        let long = "x".repeat(250);
        for (path, name, is_one) in [
            ("a/shot.png", "shot-theirs.png", true),
            ("a/shot.png", "shot-theirs2.png", true),
            ("shot.png", "shot-side3.png", true),
            ("shot", "shot-theirs", true),
            (&long, &format!("{}-theirs", &long[..248]), true),
            ("shot.png", "shot-theirs", false),
            ("shot.png", "shots-theirs.png", false),
            ("shot.png", "sho-theirs.png", false),
            ("shot.png", "shot-old.png", false),
            ("shot.png", "shot-theirs-x.png", false),
            ("shot.png", "shottheirs.png", false),
        ] {
            let path = crate::repo::base::path::parse_path(path.as_bytes())?;
            assert_eq!(is_version(&path, name.as_bytes()), is_one, "{path} {name}");
        }
        Ok(())
    }
}
