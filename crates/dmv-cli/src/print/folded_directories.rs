//! Directories that are new, gone or moved as a whole: each is told in one line, as Git does, instead of
//! all its files.

use crate::compare::share;
use crate::covering_paths::above;
use crate::format::text::count;
use crate::print::worktree_state::{Renames, origin};
use anstyle::AnsiColor;
use dmv_core::hash::ObjectId;
use dmv_core::object::name::{RepoPath, escape};
use dmv_core::object::tree::lookup_path;
use dmv_core::platform::name_of;
use dmv_core::repo::{ChangeKind, PathChange, Repo, RepoError, UntrackedFile};
use dmv_core::worktree::select::{Paths, is_under};
use std::collections::HashMap;

/// A line of a status: one change, or all those of a directory.
pub enum Line<'a> {
    /// A single change.
    Change(&'a PathChange),
    /// A directory.
    Directory(FoldedDirectory<'a>),
}

/// A directory of which every file has changed in the same way.
pub struct FoldedDirectory<'a> {
    /// How.
    pub how: DirectoryChange<'a>,
    /// The directory.
    pub dir: &'a [u8],
    /// The number of paths below it.
    pub files: u64,
    /// How many of them were edited, too.
    edited: u64,
}

/// How a whole directory has changed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum DirectoryChange<'a> {
    /// The commit does not have it.
    New,
    /// The worktree does not have it.
    Gone,
    /// The commit has it at this place.
    MovedFrom(&'a [u8]),
}

/// What a line says.
pub struct LineText {
    /// The kind of the change, in a word.
    pub word: &'static str,
    /// The colour of that word.
    pub shade: AnsiColor,
    /// The path, and more about it.
    pub text: String,
}

impl Line<'_> {
    /// Returns what the line says.
    pub fn told(&self, renames: &Renames) -> LineText {
        let told = |word, shade, text| LineText { word, shade, text };
        match self {
            Line::Directory(folded) => {
                let files = count(folded.files, "file", "files");
                let edited = match folded.edited {
                    0 => String::new(),
                    n => format!(", {n} edited"),
                };
                let dir = format!("{}/ ({files}{edited})", escape(folded.dir));
                match folded.how {
                    DirectoryChange::New => told("added", AnsiColor::Green, dir),
                    DirectoryChange::Gone => told("deleted", AnsiColor::Red, dir),
                    DirectoryChange::MovedFrom(from) => {
                        let text = format!("{}/ -> {dir}", escape(from));
                        told("renamed", AnsiColor::Cyan, text)
                    }
                }
            }
            Line::Change(change) => {
                let path = escape(&change.path);
                if let Some(from) = origin(renames, change) {
                    let text = format!("{} -> {path}{}", escape(&from.from), share(from));
                    return told("renamed", AnsiColor::Cyan, text);
                }
                let shade = match change.kind {
                    ChangeKind::Added => AnsiColor::Green,
                    ChangeKind::Modified => AnsiColor::Yellow,
                    ChangeKind::Deleted => AnsiColor::Red,
                    ChangeKind::Type => AnsiColor::Magenta,
                };
                told(change.kind.word(), shade, path.to_string())
            }
        }
    }
}

/// Which directories get a line instead of their files.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum FoldExtent {
    /// None.
    Nothing,
    /// New ones, as in Git's short form.
    New,
    /// Those that are new, gone or moved.
    Whole,
}

/// Returns the lines for some changes, which are in path order. `is_alone`: the change gets a line
/// of its own in any case.
///
/// A directory that reaches beyond what was asked for (`select`) is not named.
pub fn lines<'a>(
    repo: &Repo,
    (changes, renames): (&'a [PathChange], &'a Renames),
    select: &Paths,
    folding: FoldExtent,
    is_alone: &dyn Fn(&PathChange) -> bool,
) -> Result<Vec<Line<'a>>, RepoError> {
    let mut base = Base::new(repo)?;
    let whole = match folding {
        FoldExtent::Whole => WholeDirectories::of(changes, renames),
        FoldExtent::New | FoldExtent::Nothing => WholeDirectories::default(),
    };
    let mut out: Vec<Line<'a>> = Vec::new();
    // Changes that get lines of their own may lie between the files of a directory.
    let mut open: HashMap<DirectoryKey<'a>, usize> = HashMap::new();
    for change in changes {
        let folded = if folding == FoldExtent::Nothing || is_alone(change) {
            None
        } else if let Some(from) = origin(renames, change) {
            whole.moved(
                &mut base,
                from.from.as_bytes(),
                change.path.as_bytes(),
                select,
            )
        } else if change.kind == ChangeKind::Deleted {
            whole.gone(&mut base, change.path.as_bytes(), select)
        } else if change.kind == ChangeKind::Added {
            base.new_above(change.path.as_bytes(), select)
        } else {
            None
        };
        let Some(key) = folded else {
            out.push(Line::Change(change));
            continue;
        };
        let is_edited = origin(renames, change).is_some_and(|from| from.percent < 100);
        let at = *open.entry(key).or_insert_with(|| {
            out.push(Line::Directory(FoldedDirectory {
                how: key.how(),
                dir: key.dir,
                files: 0,
                edited: 0,
            }));
            out.len() - 1
        });
        if let Line::Directory(folded) = &mut out[at] {
            folded.files += 1;
            folded.edited += u64::from(is_edited);
        }
    }
    Ok(out)
}

/// A path that is no longer tracked, or a directory with all its files.
pub struct UntrackedLine<'a> {
    /// The path, or the first one of the directory.
    pub file: &'a UntrackedFile,
    /// The directory, and the number of its files.
    pub whole: Option<(&'a [u8], u64)>,
}

impl<'a> UntrackedLine<'a> {
    /// The line of a single path.
    pub fn of(file: &'a UntrackedFile) -> UntrackedLine<'a> {
        UntrackedLine { file, whole: None }
    }

    /// The path, or the directory with the number of its files.
    pub fn path(&self) -> String {
        match self.whole {
            Some((dir, files)) => {
                let files = count(files, "file", "files");
                format!("{}/ ({files})", escape(dir))
            }
            None => escape(&self.file.path).to_string(),
        }
    }
}

/// Returns the lines for paths that are no longer tracked.
pub fn untracked<'a>(
    repo: &Repo,
    paths: &'a [UntrackedFile],
    select: &Paths,
) -> Result<Vec<UntrackedLine<'a>>, RepoError> {
    let mut base = Base::new(repo)?;
    let mut below: HashMap<&[u8], u64> = HashMap::new();
    for dir in paths.iter().flat_map(|at| above(at.path.as_bytes())) {
        *below.entry(dir).or_default() += 1;
    }
    let mut out: Vec<UntrackedLine<'a>> = Vec::new();
    for at in paths {
        if let Some(last) = out.last()
            && let Some((dir, _)) = last.whole
            && is_under(at.path.as_bytes(), dir)
        {
            continue;
        }
        let mut dirs = above(at.path.as_bytes());
        let whole = dirs.find(|dir| {
            let all = below.get(dir).copied().unwrap_or_default();
            all > 1 && select.includes(dir) && base.at(dir) == InBase::Files(all)
        });
        out.push(UntrackedLine {
            file: at,
            whole: whole.map(|dir| (dir, below[dir])),
        });
    }
    Ok(out)
}

/// A directory that may get a line: where it is, and where it was if it was moved.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct DirectoryKey<'a> {
    dir: &'a [u8],
    from: Option<&'a [u8]>,
    is_gone: bool,
}

impl<'a> DirectoryKey<'a> {
    fn how(self) -> DirectoryChange<'a> {
        match self.from {
            Some(from) => DirectoryChange::MovedFrom(from),
            None if self.is_gone => DirectoryChange::Gone,
            None => DirectoryChange::New,
        }
    }
}

/// The directories that a file may have been moved with, the topmost first: where they were, and where
/// they are.
fn moved_with<'a>(from: &'a [u8], to: &'a [u8]) -> Vec<DirectoryKey<'a>> {
    let same = from.iter().rev().zip(to.iter().rev());
    let same = same.take_while(|(a, b)| a == b).count();
    let mut out: Vec<DirectoryKey<'a>> = Vec::new();
    for dir in above(to) {
        let rest = to.len() - dir.len();
        // The same names follow in both, from a slash on.
        if rest <= same && from.len() > rest {
            let from = Some(&from[..from.len() - rest]);
            out.push(DirectoryKey {
                dir,
                from,
                is_gone: false,
            });
        }
    }
    out
}

/// How many files each directory has lost, and to where.
#[derive(Default)]
struct WholeDirectories<'a> {
    gone: HashMap<&'a [u8], u64>,
    moved: HashMap<DirectoryKey<'a>, u64>,
}

impl<'a> WholeDirectories<'a> {
    fn of(changes: &'a [PathChange], renames: &'a Renames) -> WholeDirectories<'a> {
        let mut out = WholeDirectories::default();
        for change in changes {
            let path = change.path.as_bytes();
            if let Some(from) = origin(renames, change) {
                for key in moved_with(from.from.as_bytes(), path) {
                    *out.moved.entry(key).or_default() += 1;
                }
            } else if change.kind == ChangeKind::Deleted {
                for dir in above(path) {
                    *out.gone.entry(dir).or_default() += 1;
                }
            }
        }
        out
    }

    /// The topmost directory that is gone with all its files, of which `path` is one.
    fn gone(
        &self,
        base: &mut Base<'_>,
        path: &'a [u8],
        select: &Paths,
    ) -> Option<DirectoryKey<'a>> {
        let dir = above(path).find(|dir| {
            let lost = self.gone.get(dir).copied().unwrap_or_default();
            lost > 1 && select.includes(dir) && base.has_lost(dir, lost)
        });
        dir.map(|dir| DirectoryKey {
            dir,
            from: None,
            is_gone: true,
        })
    }

    /// The topmost directory that was moved with all its files, of which `to` is one.
    fn moved(
        &self,
        base: &mut Base<'_>,
        from: &'a [u8],
        to: &'a [u8],
        select: &Paths,
    ) -> Option<DirectoryKey<'a>> {
        moved_with(from, to).into_iter().find(|key| {
            let lost = self.moved.get(key).copied().unwrap_or_default();
            let from = key.from.unwrap_or_default();
            lost > 1
                && select.includes(key.dir)
                && base.is_new(key.dir)
                && base.has_lost(from, lost)
        })
    }
}

/// What the commit that the worktree is compared with has at the place of a directory.
#[derive(Clone, Copy, PartialEq, Eq)]
enum InBase {
    /// No directory.
    Nothing,
    /// A directory with this number of files.
    Files(u64),
    /// The commit cannot be read there.
    Unknown,
}

/// The commit that the worktree is compared with, and the disk.
struct Base<'r> {
    repo: &'r Repo,
    tree: Option<ObjectId>,
    known: HashMap<Vec<u8>, InBase>,
}

impl<'r> Base<'r> {
    fn new(repo: &'r Repo) -> Result<Base<'r>, RepoError> {
        let commit = repo.base_commit()?;
        let commit = commit.map(|id| repo.read_commit(&id)).transpose()?;
        Ok(Base {
            repo,
            tree: commit.map(|commit| commit.tree),
            known: HashMap::new(),
        })
    }

    fn at(&mut self, dir: &[u8]) -> InBase {
        if let Some(known) = self.known.get(dir) {
            return *known;
        }
        let path = Repo::parse_path(dir).unwrap_or_else(|_| RepoPath::root());
        let found = match self.tree {
            None => InBase::Nothing,
            Some(tree) => match lookup_path(self.repo.objects(), &tree, &path) {
                Ok(Some(entry)) => InBase::Files(entry.files),
                Ok(None) => InBase::Nothing,
                Err(_) => InBase::Unknown,
            },
        };
        self.known.insert(dir.to_vec(), found);
        found
    }

    /// Whether the commit does not have a directory. Where nothing is known about one, its files are
    /// listed.
    fn is_new(&mut self, dir: &[u8]) -> bool {
        self.at(dir) == InBase::Nothing
    }

    /// The topmost new directory above a path.
    fn new_above<'a>(&mut self, path: &'a [u8], select: &Paths) -> Option<DirectoryKey<'a>> {
        let dir = above(path).find(|dir| self.is_new(dir) && select.includes(dir));
        dir.map(|dir| DirectoryKey {
            dir,
            from: None,
            is_gone: false,
        })
    }

    /// Whether a directory that has lost `lost` paths is not on disk any more.
    fn has_lost(&mut self, dir: &[u8], lost: u64) -> bool {
        // Empty directories are lost paths, too, and no files. So the disk is asked as well.
        matches!(self.at(dir), InBase::Files(files) if files > 0 && files <= lost)
            && self.repo.worktree_root().is_some_and(|root| {
                let there = std::fs::symlink_metadata(root.join(name_of(dir)));
                !there.is_ok_and(|there| there.is_dir())
            })
    }
}
