//! Paths that a switch could not make equal to its target: a small file beside the stat cache.
//!
//! What is at these paths is from the former commit, or nothing, and the user has not edited it. So they
//! are no edits: a commit does not include them, `status` lists them separately, and the next switch
//! or a restore continues from there (docs/format/layout.md, "Paths that were not written"). An entry
//! of a directory stands for any directory, whatever is in it.

use crate::diff::is_wanted;
use crate::fsutil::{FileKind, FileStat, Fingerprint};
use crate::hash::{ObjectId, decode_hex, encode_hex};
use crate::object::ObjectType;
use crate::object::name::RepoPath;
use crate::object::tree::{Kind, TreeEntry};
use crate::path::{PathContext, PathError};
use crate::repo::base::error::RepoError;
use crate::repo::base::note::read_note;
use crate::repo::base::repo::Repo;
use crate::repo::base::worktree;
use crate::repo::base::worktree::WorktreeSettings;
use crate::repo::conflict::names::last_name;
use crate::repo::files::checkout::dirs::is_dir;
use crate::repo::files::open_worktree;
use crate::repo::files::open_worktree::OpenWorktree;
use crate::repo::files::same::{SameError, equals};
use crate::repo::files::saved::{all_gone, empty_dir, obstacle, stat_at};
use crate::vfs::{OsVfs, write_durably};
use crate::worktree::base::entry_at;
use crate::worktree::snapshot::Snapshot;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

const UNWRITTEN_FILE: &str = "unwritten";

const FIRST_LINE: &str = "dmv-unwritten 1";

/// The longest file that is read or written, in bytes. A status prints every path in it.
const MAX_BYTES: usize = 256 << 20;

/// A path that differs from its commit because it could not be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnwrittenPath {
    pub path: RepoPath,
    /// The entry that should be there.
    pub want: Option<TreeEntry>,
    /// The entry that is there instead: the former base's, or nothing.
    pub have: Option<TreeEntry>,
}

impl UnwrittenPath {
    /// Returns a path that a switch should have made `want`, and that has `former` or nothing.
    /// Returns `None` if it is as it should be, or if the user has changed it since: then it is an
    /// edit.
    pub fn find(
        repo: &Repo,
        tree: &OpenWorktree,
        path: RepoPath,
        (want, former): (Option<TreeEntry>, Option<TreeEntry>),
    ) -> Result<Option<UnwrittenPath>, RepoError> {
        let stat = stat_at(tree, path.as_bytes())?;
        let plain = |entry: TreeEntry| match entry.kind {
            Kind::Directory => empty_dir(&path),
            _ => entry,
        };
        let want = want.map(plain);
        let have = match stat {
            // The switch has made room for the file, and then it could not write it.
            None => None,
            // The same, of a directory that could not go.
            Some(stat) if stat.kind == FileKind::Dir => Some(empty_dir(&path)),
            Some(_) => former.map(plain),
        };
        let is_written = is_as((repo, tree), &path, want.as_ref(), stat)? == Some(true);
        let at = UnwrittenPath { path, want, have };
        let is_former = at.is_former(repo, tree, stat)?;
        Ok((is_former && !is_written).then_some(at))
    }

    /// Returns whether it is a directory that should be gone.
    pub fn is_left_dir(&self) -> bool {
        self.want.is_none() && self.have.as_ref().is_some_and(is_dir)
    }

    /// Returns the fingerprint of the file that should be gone, so that it can be removed. `None` if
    /// it is no longer what it was.
    pub fn seen(&self, repo: &Repo, tree: &OpenWorktree) -> Result<Option<Fingerprint>, RepoError> {
        let stat = stat_at(tree, self.path.as_bytes())?;
        let is_same = is_as((repo, tree), &self.path, self.have.as_ref(), stat)? == Some(true);
        Ok(stat.filter(|_| is_same).map(|stat| stat.fingerprint()))
    }

    /// Returns whether the path is unchanged since then, and `base` still has the entry that should
    /// be there. What is above it counts separately: see [`retain_reached`].
    pub fn holds(
        &self,
        repo: &Repo,
        tree: &OpenWorktree,
        base: Option<&TreeEntry>,
    ) -> Result<bool, RepoError> {
        let as_wanted = match (base, &self.want) {
            (Some(base), Some(want)) => same_blob(base, want) || is_dir(base) && is_dir(want),
            (base, want) => base.is_none() && want.is_none(),
        };
        Ok(as_wanted && self.is_former(repo, tree, stat_at(tree, self.path.as_bytes())?)?)
    }

    fn is_former(
        &self,
        repo: &Repo,
        tree: &OpenWorktree,
        stat: Option<FileStat>,
    ) -> Result<bool, RepoError> {
        // A file that cannot be read counts as unchanged.
        let is = is_as((repo, tree), &self.path, self.have.as_ref(), stat)?;
        Ok(is != Some(false))
    }

    fn line(&self) -> String {
        let want = self.want.as_ref().map_or("-".to_owned(), entry_text);
        let have = self.have.as_ref().map_or("-".to_owned(), entry_text);
        let path = encode_hex(self.path.as_bytes());
        format!("{want} {have} {path}\n")
    }

    fn parse(line: &str) -> Option<UnwrittenPath> {
        let mut words = line.split(' ');
        let (want, have, path) = (words.next()?, words.next()?, words.next()?);
        let path = RepoPath::parse(&decode_hex(path)?).ok()?;
        let parse = |text: &str| match text {
            "-" => Some(None),
            text => parse_entry(&path, text).map(Some),
        };
        let (want, have) = (parse(want)?, parse(have)?);
        let found = UnwrittenPath { path, want, have };
        (found.line().trim_end() == line).then_some(found)
    }
}

/// Returns an entry as text: kind, flags, size and id. The flags are 1 for a list and 2 for a private file.
fn entry_text(entry: &TreeEntry) -> String {
    let flags = u8::from(entry.is_list) | u8::from(entry.is_private()) << 1;
    format!("{}.{flags}.{}.{}", entry.kind as u8, entry.size, entry.id)
}

fn parse_entry(path: &RepoPath, text: &str) -> Option<TreeEntry> {
    let mut parts = text.split('.');
    let kind = Kind::from_number(parts.next()?.parse().ok()?)?;
    let flags: u8 = parts.next()?.parse().ok()?;
    let size = parts.next()?.parse().ok()?;
    let entry = TreeEntry {
        name: last_name(path),
        kind,
        is_list: flags & 1 != 0,
        id: ObjectId::from_hex(parts.next()?)?,
        size,
        files: 0,
        attrs: None,
    };
    Some(entry.with_privacy(flags & 2 != 0))
}

fn same_blob(a: &TreeEntry, b: &TreeEntry) -> bool {
    let parts = |entry: &TreeEntry| (entry.kind, entry.is_list, entry.is_private(), entry.id);
    parts(a) == parts(b)
}

/// Returns whether a path has the given entry, or nothing if there is no entry. Returns `None` if
/// the file cannot be read.
fn is_as(
    (repo, tree): (&Repo, &OpenWorktree),
    path: &RepoPath,
    entry: Option<&TreeEntry>,
    stat: Option<FileStat>,
) -> Result<Option<bool>, RepoError> {
    let (Some(entry), Some(stat)) = (entry, stat) else {
        return Ok(Some(entry.is_none() && stat.is_none()));
    };
    if is_dir(entry) {
        return Ok(Some(stat.kind == FileKind::Dir));
    }
    match equals(repo, &tree.root, path.as_bytes(), entry, &stat) {
        Ok(same) => Ok(Some(same)),
        Err(SameError::Path(_)) => Ok(None),
        Err(SameError::Repo(e)) => Err(e),
    }
}

fn unwritten_file(repo: &Repo) -> Result<PathBuf, RepoError> {
    Ok(worktree::own_dir(repo)?.join(UNWRITTEN_FILE))
}

/// Returns the paths noted in this worktree. Ignores a malformed file.
pub fn noted_unwritten(repo: &Repo) -> Result<Vec<UnwrittenPath>, RepoError> {
    noted_in(&unwritten_file(repo)?)
}

fn noted_in(file: &Path) -> Result<Vec<UnwrittenPath>, RepoError> {
    let bytes = read_note(file, MAX_BYTES)?;
    let parse = |text: &str| {
        let rest = text.strip_prefix(FIRST_LINE)?.strip_prefix('\n')?;
        rest.lines()
            .map(UnwrittenPath::parse)
            .collect::<Option<_>>()
    };
    let text = std::str::from_utf8(&bytes).ok();
    Ok(text.and_then(parse).unwrap_or_default())
}

/// Returns the objects that the file in a worktree's own directory notes.
pub fn noted_objects(own_dir: &Path) -> Result<Vec<(ObjectType, ObjectId)>, RepoError> {
    let noted = noted_in(&own_dir.join(UNWRITTEN_FILE))?.into_iter();
    let entries = noted.flat_map(|at| at.want.into_iter().chain(at.have));
    // The empty tree stands for any directory, and need not be stored.
    let entries = entries.filter(|entry| !is_dir(entry));
    let object = |entry: TreeEntry| {
        let ty = match entry.kind {
            Kind::Conflict => ObjectType::Conflict,
            _ if entry.is_list => ObjectType::List,
            _ => ObjectType::Chunk,
        };
        (ty, entry.id)
    };
    Ok(entries.map(object).collect())
}

/// Returns the notes whose paths are still unchanged.
pub fn unwritten(repo: &Repo, tree: &OpenWorktree) -> Result<Vec<UnwrittenPath>, RepoError> {
    let mut found = noted_unwritten(repo)?;
    let mut error = None;
    found.retain(|at| {
        let holds = base_blob(repo, tree, &at.path).and_then(|base| {
            // Paths outside the subset do not matter in this worktree.
            let wanted = tree.subset.includes(at.path.as_bytes(), false);
            Ok(wanted && at.holds(repo, tree, base.as_ref())?)
        });
        holds.unwrap_or_else(|e| {
            error.get_or_insert(e);
            false
        })
    });
    match error {
        None => retain_reached(tree, found),
        Some(e) => Err(e),
    }
}

/// Returns those of some paths to which nothing of the user bars the way. A file of the user in the
/// place of a directory above decides about the paths below it, and a directory with files of the
/// user about the file in whose place it is; what is a left-over itself does not.
pub fn retain_reached(
    tree: &OpenWorktree,
    found: Vec<UnwrittenPath>,
) -> Result<Vec<UnwrittenPath>, RepoError> {
    let left: BTreeSet<Vec<u8>> = found.iter().map(|at| at.path.as_bytes().to_vec()).collect();
    let mut out = Vec::with_capacity(found.len());
    for at in found {
        let above = obstacle(tree, at.path.as_bytes())?;
        let replaces_file = at.want.as_ref().is_some_and(|want| !is_dir(want))
            && at.have.as_ref().is_some_and(is_dir);
        let below = if replaces_file {
            all_gone(tree, vec![at.path.as_bytes().to_vec()])?
        } else {
            Default::default()
        };
        let is_own = |path: &Vec<u8>| path != at.path.as_bytes() && !left.contains(path);
        if above.is_none_or(|above| left.contains(&above)) && !below.keys().any(is_own) {
            out.push(at);
        }
    }
    Ok(out)
}

/// Returns the noted paths that are still unchanged.
pub fn unwritten_paths(repo: &Repo, tree: &OpenWorktree) -> Result<BTreeSet<Vec<u8>>, RepoError> {
    let found = unwritten(repo, tree)?.into_iter();
    Ok(found.map(|at| at.path.as_bytes().to_vec()).collect())
}

/// Returns those of the noted paths that are absent because their content was purged. They cannot be written.
pub fn purged_paths(repo: &Repo, tree: &OpenWorktree) -> Result<BTreeSet<Vec<u8>>, RepoError> {
    let noted = noted_unwritten(repo)?;
    if noted.is_empty() {
        return Ok(BTreeSet::new());
    }
    let slice = repo.slice()?;
    let is_purged = |at: &UnwrittenPath| {
        let want = at.want.as_ref();
        at.have.is_none() && want.is_some_and(|want| slice.purge_of(&want.id).is_some())
    };
    let found = unwritten(repo, tree)?.into_iter().filter(is_purged);
    Ok(found.map(|at| at.path.as_bytes().to_vec()).collect())
}

/// Takes paths off the problems of a snapshot: it is known that they stay as they were.
pub fn excuse(made: &mut Snapshot, paths: &BTreeSet<Vec<u8>>) {
    let unwritten = std::mem::take(&mut made.unwritten);
    let (excused, stay): (BTreeSet<_>, Vec<_>) = (
        unwritten
            .iter()
            .filter(|path| paths.contains(*path))
            .cloned()
            .collect(),
        unwritten
            .iter()
            .filter(|path| !paths.contains(*path))
            .cloned()
            .collect(),
    );
    made.problems
        .retain(|problem| !excused.contains(problem.path.as_bytes()));
    made.unwritten = stay;
}

impl Repo {
    /// Returns the paths that an earlier command could not write and that are as they were before:
    /// a restore of them overwrites no work of the user.
    pub fn unwritten(&self, settings: &WorktreeSettings) -> Result<Vec<Vec<u8>>, RepoError> {
        let tree = open_worktree::open_as_far(self, settings)?;
        Ok(unwritten_paths(self, &tree)?.into_iter().collect())
    }
}

fn base_blob(
    repo: &Repo,
    tree: &OpenWorktree,
    path: &RepoPath,
) -> Result<Option<TreeEntry>, RepoError> {
    let Some(base) = tree.base_tree else {
        return Ok(None);
    };
    let found = entry_at(repo.objects(), &base, path.as_bytes())?;
    Ok(found.filter(|entry| is_wanted(&tree.subset, path, entry)))
}

/// Notes durably which paths could not be written. Replaces earlier notes.
pub fn note_unwritten(repo: &Repo, list: &[UnwrittenPath]) -> Result<(), RepoError> {
    let path = unwritten_file(repo)?;
    if list.is_empty() {
        return match std::fs::remove_file(&path) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(failed(path)(e)),
            _ => Ok(()),
        };
    }
    let mut text = format!("{FIRST_LINE}\n");
    for at in list {
        let line = at.line();
        if text.len() + line.len() > MAX_BYTES {
            break;
        }
        text.push_str(&line);
    }
    write_durably(&OsVfs, &path, text.as_bytes())
        .context("write", &path)
        .map_err(RepoError::Io)
}

fn failed(path: PathBuf) -> impl FnOnce(std::io::Error) -> RepoError {
    move |source| RepoError::Io(PathError::new("write", path, source))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_reads_back_and_anything_else_is_none() -> Result<(), Box<dyn std::error::Error>> {
        let path = RepoPath::parse(b"d/a b\n\xff")?;
        let entry = |n: u8, kind: Kind| TreeEntry {
            name: last_name(&path),
            kind,
            is_list: n == 2,
            id: ObjectId::from_bytes([n; 32]),
            size: u64::from(n),
            files: 0,
            attrs: None,
        };
        for have in [None, Some(entry(2, Kind::File))] {
            for want in [None, Some(entry(1, Kind::Executable))] {
                let (path, have) = (path.clone(), have.clone());
                let at = UnwrittenPath { path, want, have };
                let line = at.line();
                let line = line.trim_end();
                assert_eq!(UnwrittenPath::parse(line), Some(at));
                for broken in [
                    "",
                    &line[1..],
                    &line[..line.len() - 1],
                    &format!("{line} x"),
                ] {
                    assert_eq!(UnwrittenPath::parse(broken), None, "{broken}");
                }
            }
        }
        Ok(())
    }
}
