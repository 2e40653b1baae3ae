//! What a commit without a worktree does at each path, and how that fits a tree.
//!
//! An archive may have a million paths, so a path takes as little as it can, and nothing is stored twice.

use crate::fsutil::FileTime;
use crate::hash::ObjectId;
use crate::job::Job;
use crate::merge::{EditSource, Edits, NewContent, entry_of};
use crate::object::ObjectRead;
use crate::object::conflict::Term;
use crate::object::name::RepoPath;
use crate::object::tree::{
    Kind, ModifiedTime, TreeEntry, TreeIter, empty_tree_id, lookup, lookup_path,
};
use crate::repo::base::error::{LookError, RepoError, VerbError};
use crate::repo::conflict::names::last_name;
use std::collections::{BTreeMap, BTreeSet};

/// A file or symlink that comes to a path.
#[derive(Clone, Copy, Debug)]
pub struct NewFile {
    pub term: Term,
    /// When its content was changed for the last time.
    pub modified: Option<FileTime>,
}

/// What changes at each path. Nothing at a path removes what is there.
#[derive(Debug, Default)]
pub struct Changes {
    /// The index of each file in `new`. A map of the files themselves would take half as much memory again, as a part of
    /// its nodes is empty.
    files: BTreeMap<RepoPath, Option<u32>>,
    new: Vec<NewFile>,
    /// Directories that are to be there.
    dirs: BTreeSet<RepoPath>,
}

/// Tells whether the commit keeps the time of the file at a path.
pub type KeepsTime<'r> = dyn Fn(&RepoPath) -> bool + 'r;

/// How the changes fit one tree: its edits.
#[derive(Debug)]
pub struct Fit<'c> {
    changes: &'c Changes,
    /// Entries that are more than the new content, and what else changes.
    own: Edits,
    /// Paths that stay as they are, and removals that paths below stand for.
    left_out: BTreeSet<&'c RepoPath>,
    /// How many files change.
    pub files: u64,
}

/// The directory of a path, as the tree and the changes have it.
struct Above {
    path: RepoPath,
    /// `None`: the tree has no such directory.
    tree: Option<ObjectId>,
    /// Whether it or one above it goes away, so that nothing there is in the way.
    is_removed: bool,
    /// Whether something that stays or comes there is no directory.
    is_blocked: bool,
}

impl Changes {
    pub fn put(&mut self, path: RepoPath, file: Option<NewFile>) {
        let index = file.map(|file| {
            self.new.push(file);
            u32::try_from(self.new.len() - 1).expect("four billion paths do not fit the memory")
        });
        self.files.insert(path, index);
    }

    pub fn put_directory(&mut self, path: RepoPath) {
        self.dirs.insert(path);
    }

    pub fn len(&self) -> usize {
        self.files.len() + self.dirs.len()
    }

    pub fn has_directories(&self) -> bool {
        !self.dirs.is_empty()
    }

    /// Returns what comes to `path`; `None`: nothing is said about it.
    pub fn at(&self, path: &RepoPath) -> Option<Option<&NewFile>> {
        let found = self.files.get(path)?;
        Some(found.map(|index| self.file(index)))
    }

    fn file(&self, index: u32) -> &NewFile {
        &self.new[index as usize]
    }

    /// Returns whether a new file has this name, in any directory.
    pub fn brings(&self, name: &[u8]) -> bool {
        let mut files = self.files.iter();
        files.any(|(path, file)| file.is_some() && path.file_name() == Some(name))
    }

    /// Returns whether `path` is a path that changes, or one below it.
    pub fn covers(&self, path: &RepoPath) -> bool {
        ancestors(path).any(|at| self.files.contains_key(&at))
    }

    /// Returns whether `path` is a path that changes, or one above or below it.
    pub fn meets(&self, path: &RepoPath) -> bool {
        self.covers(path) || self.has_below(path)
    }

    fn has_below(&self, path: &RepoPath) -> bool {
        let mut from = self.files.range::<RepoPath, _>(path..);
        from.next().is_some_and(|(at, _)| at.starts_with(path))
    }

    /// Returns whether a file or directory is to be at `path` or below it.
    fn wants_below(&self, path: &RepoPath) -> bool {
        let files = self.files.range::<RepoPath, _>(path..);
        let mut files = files.take_while(|(at, _)| at.starts_with(path));
        let mut dirs = self.dirs.range::<RepoPath, _>(path..);
        files.any(|(_, file)| file.is_some()) || dirs.next().is_some_and(|at| at.starts_with(path))
    }

    /// Returns how the changes fit the tree `root` of a branch. Fails if something is in the way of a file.
    pub fn fit(
        &self,
        objects: &dyn ObjectRead,
        branch: &str,
        root: ObjectId,
        keeps_time: &KeepsTime<'_>,
        job: &Job,
    ) -> Result<Fit<'_>, RepoError> {
        let mut fit = Fit {
            changes: self,
            own: Edits::new(),
            left_out: BTreeSet::new(),
            files: 0,
        };
        let mut above: Option<Above> = None;
        let mut removed: Option<&RepoPath> = None;
        for (path, index) in &self.files {
            job.check()?;
            let file = index.map(|index| self.file(index));
            let parent = path.parent().unwrap_or_else(RepoPath::root);
            if above.as_ref().is_none_or(|above| above.path != parent) {
                above = None;
            }
            let above = match &mut above {
                Some(above) => above,
                none => none.insert(self.above(objects, root, parent)?),
            };
            let name = path.file_name().unwrap_or_default();
            let old = above.tree.map(|tree| lookup(objects, &tree, name));
            let old = old.transpose()?.flatten();
            match (file, old) {
                (None, None) => return Err(no_such_path(branch, path)),
                (None, Some(_)) if removed.is_some_and(|above| path.starts_with(above)) => {
                    fit.left_out.insert(path);
                }
                (None, Some(old)) if self.wants_below(path) => {
                    fit.left_out.insert(path);
                    self.clear(objects, path, &old, &mut fit)?;
                }
                (None, Some(old)) => {
                    removed = Some(path);
                    fit.files += old.file_count();
                }
                (Some(_), _) if above.is_blocked => return Err(blocked(path)),
                (Some(_), Some(old)) if old.kind == Kind::Directory && !above.is_removed => {
                    return Err(cannot_put(path, "a directory is there"));
                }
                (Some(file), Some(old)) if file.is_in(&old) => {
                    fit.left_out.insert(path);
                }
                (Some(file), old) => {
                    fit.files += 1 + old.as_ref().map_or(0, |old| old.files);
                    // What nobody was asked about stays.
                    let old = old.filter(|_| !above.is_removed);
                    let entry = file.entry_with_more(path, old, keeps_time);
                    fit.own
                        .extend(entry.map(|entry| (path.clone(), Some(entry))));
                }
            }
        }
        for dir in &self.dirs {
            job.check()?;
            self.fit_directory(objects, root, dir, &mut fit)?;
        }
        Ok(fit)
    }

    /// Looks at the directory `path`, at those above it and at what comes there.
    fn above(
        &self,
        objects: &dyn ObjectRead,
        root: ObjectId,
        path: RepoPath,
    ) -> Result<Above, RepoError> {
        let (mut tree, mut nearest) = (None, None);
        let (mut is_removed, mut comes) = (false, false);
        for at in ancestors(&path) {
            match self.files.get(&at) {
                Some(None) => is_removed = true,
                Some(Some(_)) => comes = true,
                None => {}
            }
            if nearest.is_none() {
                nearest = lookup_path(objects, &root, &at)?;
                let entry = nearest.as_ref().filter(|_| at == path);
                let entry = entry.filter(|entry| entry.kind == Kind::Directory);
                tree = entry.map(|entry| entry.id);
            }
        }
        if path.is_root() {
            tree = Some(root);
        }
        let stays = nearest.is_some_and(|entry| entry.kind != Kind::Directory) && !is_removed;
        Ok(Above {
            path,
            tree,
            is_removed,
            is_blocked: comes || stays,
        })
    }

    /// Makes room below a path that is removed, and of which something is made again.
    fn clear(
        &self,
        objects: &dyn ObjectRead,
        path: &RepoPath,
        old: &TreeEntry,
        fit: &mut Fit<'_>,
    ) -> Result<(), RepoError> {
        if old.kind != Kind::Directory {
            fit.files += 1;
            return Ok(());
        }
        let mut open = vec![(path.clone(), old.id)];
        while let Some((dir, tree)) = open.pop() {
            for entry in TreeIter::new(objects, tree) {
                let entry = entry?;
                let at = dir.join(&entry.name);
                let at = at.map_err(|e| RepoError::Text(e.to_string()))?;
                if self.files.contains_key(&at) {
                    // It has its own turn.
                } else if !self.wants_below(&at) {
                    fit.files += entry.file_count();
                    fit.own.insert(at, None);
                } else if entry.kind == Kind::Directory {
                    open.push((at, entry.id));
                } else {
                    fit.files += 1;
                }
            }
        }
        Ok(())
    }

    fn fit_directory(
        &self,
        objects: &dyn ObjectRead,
        root: ObjectId,
        dir: &RepoPath,
        fit: &mut Fit<'_>,
    ) -> Result<(), RepoError> {
        let said = self.files.get(dir);
        if said.is_some_and(Option::is_some) {
            return Err(cannot_put(dir, "it is both a file and a directory"));
        }
        let parent = dir.parent().unwrap_or_else(RepoPath::root);
        let above = self.above(objects, root, parent)?;
        match lookup_path(objects, &root, dir)? {
            Some(old) if old.kind == Kind::Directory => return Ok(()),
            Some(_) if said.is_none() && !above.is_removed => {
                return Err(cannot_put(dir, "a file is there"));
            }
            _ if above.is_blocked => return Err(blocked(dir)),
            _ => {}
        }
        let is_below = |next: &RepoPath| next.starts_with(dir);
        let mut dirs = self.dirs.range::<RepoPath, _>(dir..);
        let mut files = self.files.range::<RepoPath, _>(dir..);
        let is_made = dirs.nth(1).is_some_and(is_below)
            || files
                .find(|(_, file)| file.is_some())
                .is_some_and(|(next, _)| is_below(next));
        if !is_made {
            fit.own.insert(dir.clone(), Some(empty_directory(dir)));
        }
        Ok(())
    }
}

impl EditSource for Fit<'_> {
    fn edit_of(&self, path: &RepoPath) -> Option<Option<NewContent<'_>>> {
        if let Some(entry) = self.own.get(path) {
            return Some(entry.as_ref().map(NewContent::Entry));
        }
        let file = self.changes.at(path);
        let file = file.filter(|_| !self.left_out.contains(path))?;
        Some(file.map(|file| NewContent::Version(&file.term)))
    }

    fn first_from(
        &self,
        from: &RepoPath,
        is_wanted: &dyn Fn(&RepoPath) -> bool,
    ) -> Option<&RepoPath> {
        let own = self.own.range::<RepoPath, _>(from..).map(|(path, _)| path);
        let mut own = own.filter(|path| is_wanted(path));
        let files = self.changes.files.range::<RepoPath, _>(from..);
        let files = files.map(|(path, _)| path);
        let mut files = files.filter(|path| is_wanted(path) && !self.left_out.contains(path));
        own.next().into_iter().chain(files.next()).min()
    }
}

impl NewFile {
    /// Returns whether an entry has this content already.
    fn is_in(&self, old: &TreeEntry) -> bool {
        let term = &self.term;
        (old.kind, old.id, old.is_list) == (term.kind, term.id, term.is_list)
            && old.is_private() == term.is_private
    }

    /// Returns the entry of the file, if that is more than its content.
    fn entry_with_more(
        &self,
        path: &RepoPath,
        old: Option<TreeEntry>,
        keeps_time: &KeepsTime<'_>,
    ) -> Option<TreeEntry> {
        if !self.term.kind.is_blob() {
            return None;
        }
        let xattrs = old.map(|old| old.xattrs()).unwrap_or_default();
        let modified = self.modified.filter(|_| keeps_time(path));
        if xattrs.is_empty() && modified.is_none() {
            return None;
        }
        let entry = entry_of(&last_name(path), &self.term, None).with_xattrs(&xattrs);
        let modified = modified.map(|FileTime { seconds, nanos }| ModifiedTime { seconds, nanos });
        Some(entry.with_modified(modified))
    }
}

/// The path itself and all above it, without the root.
fn ancestors(path: &RepoPath) -> impl Iterator<Item = RepoPath> {
    let below_root = |path: &RepoPath| (!path.is_root()).then(|| path.clone());
    std::iter::successors(below_root(path), move |at| {
        at.parent().filter(|above| !above.is_root())
    })
}

fn empty_directory(path: &RepoPath) -> TreeEntry {
    let term = Term {
        kind: Kind::Directory,
        is_list: false,
        is_private: false,
        id: empty_tree_id(),
        size: 0,
        files: 0,
    };
    entry_of(&last_name(path), &term, None)
}

fn no_such_path(branch: &str, path: &RepoPath) -> RepoError {
    let (revision, path) = (branch.to_owned(), path.into());
    LookError::NoSuchPath { revision, path }.into()
}

fn blocked(path: &RepoPath) -> RepoError {
    cannot_put(path, "a file is where it needs a directory")
}

pub fn cannot_put(path: &RepoPath, why: &'static str) -> RepoError {
    let path = path.clone();
    VerbError::CannotPut { path, why }.into()
}
