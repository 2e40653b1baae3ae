//! Overwritten files: the repository keeps what commands overwrite on request.
//!
//! Before a command touches a file, the file's bytes are stored. The steps of the command keep them, so
//! that an undo can bring them back (docs/format/notes.md, "Overwritten files"). Nothing is overwritten
//! before these steps are published, so a crash loses nothing. Checkout, restore,
//! resolve, undo and the removal of worktrees use this module.

use crate::fsutil::{FileKind, FileStat, Fingerprint};
use crate::job::Job;
use crate::limits::MAX_DIR_ENTRIES;
use crate::merge::Edits;
use crate::object::name::RepoPath;
use crate::object::tree::{Kind, TreeEntry, empty_tree_id};
use crate::object::{ObjectError, ObjectRead, ObjectType, ObjectWrite};
use crate::path::DiskPath;
use crate::repo::base::error::{FilesError, RepoError};
use crate::repo::base::keys::LOG_UNKEPT;
use crate::repo::base::repo::Repo;
use crate::repo::base::steps::Steps;
use crate::repo::base::transaction::Transaction;
use crate::repo::base::worktree::Keep;
use crate::repo::conflict::names::last_name;
use crate::repo::conflict::settle::stat_of;
use crate::repo::files::open_worktree::OpenWorktree;
use crate::repo::files::same::{SameError, same_as};
use crate::repo::files::steps;
use crate::repo::files::steps::StoredSteps;
use crate::repo::look::lack;
use crate::worktree::ingest::{TASK_FILES, Task, TaskFile};
use crate::worktree::properties::{Properties, with_properties};
use crate::worktree::{join, split_path};
use std::collections::{BTreeMap, BTreeSet};

/// How a command changes a path on request.
#[derive(Clone, Debug)]
pub struct Overwrite {
    /// The present entry, if it is known to be committed. Otherwise the file on disk is read.
    pub committed: Option<TreeEntry>,
    /// The entry that the command leaves there.
    pub after: Option<TreeEntry>,
}

/// The paths that a command overwrites or removes, and the paths where it restores a file that the
/// user had removed.
pub type Overwrites = BTreeMap<Vec<u8>, Overwrite>;

/// What a command has overwritten, for the report to the user.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OverwrittenFiles {
    /// The number of files and symlinks that were in no commit.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Whether an undo can bring them back. If not, they were too large to keep.
    pub kept: bool,
}

/// Files that were stored before a command overwrites them.
#[derive(Default)]
pub struct SavedFiles {
    /// The steps that overwrite the files. `None` if nothing is kept.
    pub steps: Option<StoredSteps>,
    /// The fingerprint of each file when it was read. Only a file with this fingerprint may be
    /// overwritten.
    pub seen: BTreeMap<Vec<u8>, Fingerprint>,
    pub told: OverwrittenFiles,
}

/// Stores the files at `paths`. Changes nothing in the worktree.
///
/// `what` names the request for error messages. `earlier` are the steps that the same command has begun
/// before it was cut off: files that it has overwritten by then are kept together with the others.
pub fn take(
    tx: &mut Transaction<'_>,
    tree: &OpenWorktree,
    paths: &Overwrites,
    earlier: Option<&Steps>,
    what: &'static str,
    keep: Keep,
    job: &Job,
) -> Result<SavedFiles, RepoError> {
    let (mut before, mut after) = match earlier {
        Some(steps) => overwritten_by(tx.repo(), tree, steps, paths)?,
        None => Default::default(),
    };
    let mut taken = SavedFiles::default();
    let read = look(tree, paths, what, keep, &mut taken, &mut before)?;
    match keep {
        Keep::UpTo(limit) if taken.told.bytes > limit => {
            let bytes = taken.told.bytes;
            return Err(FilesError::TooMuchToKeep { what, bytes, limit }.into());
        }
        Keep::UpToOrNothing(limit) if taken.told.bytes > limit => return Ok(taken),
        _ => {}
    }
    taken.told.kept = true;
    let seen = &mut taken.seen;
    ingest(tx, tree, what, read, job, |path, entry, stat| {
        seen.insert(path.as_bytes().to_vec(), stat.fingerprint());
        before.insert(path, Some(entry));
    })?;
    for (path, overwrite) in paths {
        if let Some(entry) = &overwrite.after {
            after.insert(Repo::parse_path(path)?, Some(entry.clone()));
        }
    }
    let steps = steps::between(tx.repo(), &before, &after)?;
    taken.steps = Some(steps::put(tx, steps)?);
    Ok(taken)
}

/// Looks at the files at `paths`, before anything is stored. Notes their fingerprints and counts in
/// `taken`, and the entries that are known without reading in `before`. Returns the files to read.
fn look(
    tree: &OpenWorktree,
    paths: &Overwrites,
    what: &'static str,
    keep: Keep,
    taken: &mut SavedFiles,
    before: &mut Edits,
) -> Result<Vec<(RepoPath, FileKind)>, RepoError> {
    let (mut read, mut looked) = (Vec::new(), BTreeSet::new());
    for (path, overwrite) in paths {
        let parsed = match Repo::parse_path(path) {
            Ok(parsed) => parsed,
            // The user has allowed the loss of files that cannot be kept.
            Err(_) if matches!(keep, Keep::UpToOrNothing(_)) => continue,
            Err(_) => {
                let (path, why) = (path.into(), "its name cannot be stored".to_owned());
                return Err(FilesError::NotKept { what, path, why }.into());
            }
        };
        let stat = stat_at(tree, path)?;
        match (&overwrite.committed, stat) {
            (_, None) => {
                if overwrite.after.is_some()
                    && let Some(dir) = empty_above(tree, path, &mut looked)?
                {
                    before.insert(dir.clone(), Some(empty_dir(&dir)));
                }
            }
            (_, Some(stat)) if stat.kind == FileKind::Dir => {
                // The files in a directory stand for it, unless it is empty.
                let prefix = [&path[..], b"/"].concat();
                let mut below = paths.range(prefix.clone()..);
                if below
                    .next()
                    .is_none_or(|(below, _)| !below.starts_with(&prefix))
                {
                    before.insert(parsed.clone(), Some(empty_dir(&parsed)));
                }
            }
            (Some(entry), Some(stat)) => {
                taken.seen.insert(path.clone(), stat.fingerprint());
                before.insert(parsed, Some(entry.clone()));
            }
            (None, Some(stat)) if matches!(stat.kind, FileKind::File | FileKind::Symlink) => {
                taken.told.files += 1;
                taken.told.bytes += stat.size;
                taken.seen.insert(path.clone(), stat.fingerprint());
                read.push((parsed, stat.kind));
            }
            // A pipe or a socket has no content.
            (None, Some(_)) => {}
        }
    }
    Ok(read)
}

/// Returns the directory in which a new entry is made, if it is empty now: an undo leaves it there.
/// `looked` has the directories that were looked at before.
pub fn empty_above(
    tree: &OpenWorktree,
    path: &[u8],
    looked: &mut BTreeSet<Vec<u8>>,
) -> Result<Option<RepoPath>, RepoError> {
    let mut path = path;
    while let Some((dir, _)) = split_path(path) {
        if dir.is_empty() || !looked.insert(dir.to_vec()) {
            return Ok(None);
        }
        match tree.root.open_dir(dir) {
            Ok(opened) if opened.list(MAX_DIR_ENTRIES)?.is_empty() => {
                return Ok(Some(Repo::parse_path(dir)?));
            }
            Err(e) if e.is_absent() => path = dir,
            // Something else is in its place, or in it.
            _ => return Ok(None),
        }
    }
    Ok(None)
}

/// Returns what a command that was cut off has overwritten outside `paths`: the entries before and
/// after.
fn overwritten_by(
    repo: &Repo,
    tree: &OpenWorktree,
    steps: &Steps,
    paths: &Overwrites,
) -> Result<(Edits, Edits), RepoError> {
    let (mut before, mut after) = (Edits::new(), Edits::new());
    for (path, old, new) in steps.overwritten() {
        let there = stat_at(tree, path.as_bytes())?;
        // An entry that was in the way has been replaced by a directory.
        let gave_way = new.is_none() && there.is_some_and(|stat| stat.kind == FileKind::Dir);
        let is_done = gave_way || is_as(repo, tree, path.as_bytes(), new, there.as_ref())?;
        if !paths.contains_key(path.as_bytes()) && is_done {
            before.extend(old.map(|old| (path.clone(), Some(old.clone()))));
            after.extend(new.map(|new| (path.clone(), Some(new.clone()))));
        }
    }
    Ok((before, after))
}

/// Reads files into the store. `note` receives the entry and stat of each.
fn ingest(
    tx: &mut Transaction<'_>,
    tree: &OpenWorktree,
    what: &'static str,
    mut files: Vec<(RepoPath, FileKind)>,
    job: &Job,
    mut note: impl FnMut(RepoPath, TreeEntry, FileStat),
) -> Result<(), RepoError> {
    if files.is_empty() {
        return Ok(());
    }
    let dir_of = |path: &RepoPath| path.parent().unwrap_or_default();
    files.sort_by_cached_key(|(path, _)| (dir_of(path), path.clone()));
    let dirs: Vec<&[(RepoPath, FileKind)]> = files
        .chunk_by(|(a, _), (b, _)| dir_of(a) == dir_of(b))
        .flat_map(|same| same.chunks(TASK_FILES))
        .collect();
    let mut failed = None;
    let mut found = Vec::new();
    let repo = tx.repo();
    let name = |(path, kind): &(RepoPath, FileKind)| TaskFile {
        properties: Properties {
            times: false,
            ..tree.properties_of(repo, path.as_bytes())
        },
        ..TaskFile::of_content(path.file_name().unwrap_or_default(), *kind)
    };
    let tasks = dirs.iter().enumerate().map(|(number, files)| Task {
        dir: number,
        path: dir_of(&files[0].0).as_bytes().into(),
        files: files.iter().map(name).collect(),
    });
    tx.read_files(&tree.root, tasks, job, |done| match done.result {
        Ok(stored) => found.push((done.dir, done.name, stored)),
        Err(e) => {
            failed.get_or_insert((done.dir, done.name, e.to_string()));
        }
    })?;
    let path_of = |number: usize, name: &[u8]| join(dir_of(&dirs[number][0].0).as_bytes(), name);
    if let Some((number, name, why)) = failed {
        let path = path_of(number, &name).into();
        return Err(FilesError::NotKept { what, path, why }.into());
    }
    for (number, name, stored) in found {
        let path = Repo::parse_path(&path_of(number, &name))?;
        let entry = TreeEntry {
            name: last_name(&path),
            kind: match (stored.stat.kind, stored.stat.exec) {
                (FileKind::Symlink, _) => Kind::Symlink,
                (_, true) => Kind::Executable,
                (_, false) => Kind::File,
            },
            is_list: stored.blob.is_list,
            id: stored.blob.id,
            size: stored.blob.size,
            files: 0,
            attrs: None,
        };
        let entry = entry.with_privacy(stored.stat.privacy() == Some(true));
        let entry = with_properties(entry, stored.kept.as_deref(), None);
        note(path, entry, stored.stat);
    }
    Ok(())
}

/// Returns the entry of an empty directory.
pub fn empty_dir(path: &RepoPath) -> TreeEntry {
    TreeEntry {
        name: last_name(path),
        kind: Kind::Directory,
        is_list: false,
        id: empty_tree_id(),
        size: 0,
        files: 0,
        attrs: None,
    }
}

/// Stores objects that an entry names but that are not stored: conflicts in the form of files.
pub fn store_made(tx: &mut Transaction<'_>, entry: &TreeEntry) -> Result<(), RepoError> {
    let ty = match (entry.kind, entry.is_list) {
        (Kind::Directory, _) => ObjectType::Tree,
        (Kind::Conflict, _) => ObjectType::Conflict,
        (_, true) => ObjectType::List,
        (_, false) => ObjectType::Chunk,
    };
    let mut stack = vec![(ty, entry.id)];
    while let Some((ty, id)) = stack.pop() {
        if let Some(bytes) = tx.repo().made.read(ty, &id)? {
            tx.put(ty, &bytes)?;
            let links = ty.links(&bytes);
            stack.extend(links.map_err(|e| ObjectError::undecodable(ty, &id, e))?);
        }
    }
    Ok(())
}

/// Records in the view what a command does to paths: the steps `saved` that overwrite files, or that these
/// were too large to keep, and `more` steps.
pub fn set_steps(
    tx: &mut Transaction<'_>,
    name: &str,
    saved: Option<&StoredSteps>,
    told: &OverwrittenFiles,
    mut more: Steps,
) -> Result<(), RepoError> {
    let mut id = saved.map(|saved| saved.id);
    if !more.is_empty() {
        let saved = saved.iter().flat_map(|saved| saved.steps.iter());
        more.extend(saved.map(|(path, step)| (path.clone(), step.clone())));
        id = Some(steps::put(tx, more)?.id);
    }
    if saved.is_none() && told.files > 0 {
        tx.record(LOG_UNKEPT, format!("{} {}", told.files, told.bytes))?;
    }
    match (id, saved) {
        (Some(id), Some(_)) => steps::set_done(tx, name, id),
        (Some(id), None) => steps::set_last(tx, name, id),
        (None, _) => Ok(()),
    }
}

/// Adds all files and empty directories below the directory `path` to `out`, as removed.
fn add_below(tree: &OpenWorktree, path: Vec<u8>, out: &mut Overwrites) -> Result<(), RepoError> {
    let gone = Overwrite {
        committed: None,
        after: None,
    };
    let mut dirs = vec![path];
    while let Some(dir) = dirs.pop() {
        let listing = tree.root.open_dir(&dir)?.list(MAX_DIR_ENTRIES)?;
        if listing.is_empty() {
            out.insert(dir.clone(), gone.clone());
        }
        for (name, kind) in listing.iter() {
            let path = join(&dir, name);
            match kind {
                FileKind::Dir => dirs.push(path),
                _ => {
                    out.insert(path, gone.clone());
                }
            }
        }
    }
    Ok(())
}

/// Returns everything that is removed if the entries at `paths` are removed, directories with all
/// their content.
pub fn all_gone(tree: &OpenWorktree, paths: Vec<Vec<u8>>) -> Result<Overwrites, RepoError> {
    let mut out = Overwrites::new();
    for path in paths {
        let Some(stat) = stat_at(tree, &path)? else {
            continue;
        };
        if stat.kind == FileKind::Dir {
            add_below(tree, path, &mut out)?;
        } else {
            let gone = Overwrite {
                committed: None,
                after: None,
            };
            out.insert(path, gone);
        }
    }
    Ok(out)
}

/// Returns the stat of a path in the worktree, or `None` if nothing is there. Directories above the
/// path may be missing, too.
pub fn stat_at(tree: &OpenWorktree, path: &[u8]) -> Result<Option<FileStat>, RepoError> {
    Ok(stat_of(&tree.root, path)?)
}

/// A path that gets back its former entry.
#[derive(Clone, Debug)]
pub struct PathReturn {
    pub path: Vec<u8>,
    /// The present stat.
    pub there: Option<FileStat>,
    /// The former entry, which comes back.
    pub to: Option<TreeEntry>,
}

/// Overwritten files that an undo brings back, or that a redo overwrites again.
#[derive(Debug, Default)]
pub struct Return {
    /// The steps, in path order.
    pub steps: Vec<PathReturn>,
    /// The paths that stay as they are: the command left them alone (see `left_alone`).
    pub stays: BTreeSet<Vec<u8>>,
    /// Those of them where nothing was: what the command has put there goes.
    pub gone: BTreeSet<Vec<u8>>,
    /// Directories that were there and empty, although the base has something in them.
    pub emptied: BTreeSet<Vec<u8>>,
    /// Whether directories that become empty go, too. The directories that were empty before are
    /// among the steps.
    pub empties: bool,
    /// Whether the steps have all of these directories: a redo does not know those that the commit
    /// has.
    pub knows_empty: bool,
    /// The paths of conflicts that no commit has once this is done. No directory of the base is there.
    pub conflicts: BTreeSet<Vec<u8>>,
    /// Whether absent content stays absent: then its files are not written.
    pub skips_absent: bool,
    /// Whether this is a redo: it does what the first run did.
    pub is_redo: bool,
}

impl Return {
    /// Fails with a list of all content that is needed and not stored, unless it may stay absent.
    pub fn check_content_here(&self, repo: &Repo) -> Result<(), RepoError> {
        if self.skips_absent {
            return Ok(());
        }
        let needed = self.steps.iter();
        let needed = needed.filter_map(|step| Some((&step.path[..], step.to.as_ref()?)));
        lack::check_entries_here(repo, needed)
    }

    /// Returns the step for a path, if the path changes.
    pub fn step(&self, path: &[u8]) -> Option<&PathReturn> {
        let found = self.steps.binary_search_by(|step| step.path[..].cmp(path));
        found.ok().map(|at| &self.steps[at])
    }

    /// Returns whether a redo removes a file at the path of a step, so that a directory of the target
    /// can come. The steps of an undo have each directory that was there instead.
    pub fn has_room(&self, step: &PathReturn) -> bool {
        let is_file = |stat: FileStat| stat.kind != FileKind::Dir;
        !self.knows_empty && step.to.is_none() && step.there.is_some_and(is_file)
    }

    /// Returns whether a path is that of a conflict, or below it.
    pub fn is_in_conflict(&self, path: &[u8]) -> bool {
        let above = path.iter().enumerate().filter(|(_, b)| **b == b'/');
        let mut ends = above.map(|(end, _)| end).chain([path.len()]);
        ends.any(|end| self.conflicts.contains(&path[..end]))
    }

    /// Returns whether a step decides about a path. Steps above or below the path count, too.
    pub fn has(&self, path: &[u8]) -> bool {
        let above = path.iter().enumerate().filter(|(_, b)| **b == b'/');
        let is_file_above = |end: usize| {
            let found = self.step(&path[..end]).and_then(|step| step.to.as_ref());
            found.is_some_and(|entry| entry.kind != Kind::Directory)
        };
        let prefix = [path, b"/"].concat();
        let from = self.steps.partition_point(|step| step.path < prefix);
        let below = self.steps[from..].iter();
        let mut below = below.take_while(|step| step.path.starts_with(&prefix));
        self.step(path).is_some()
            || above.map(|(end, _)| end).any(is_file_above)
            || below.any(|step| step.to.is_some())
    }
}

/// Returns the entries that were at paths before the command overwrote them.
pub fn former_entries(steps: &Steps) -> BTreeMap<Vec<u8>, TreeEntry> {
    let entries = steps.overwritten();
    let entries =
        entries.filter_map(|(path, before, _)| Some((path.as_bytes().to_vec(), before?.clone())));
    entries.collect()
}

/// Returns the paths where nothing was before the command put something there.
pub fn missing_before(steps: &Steps) -> BTreeSet<Vec<u8>> {
    let made = steps.overwritten();
    let made = made.filter(|(_, before, after)| before.is_none() && after.is_some());
    made.map(|(path, ..)| path.as_bytes().to_vec()).collect()
}

/// Finds the changes that restore the files of `steps`: as they were before the command that overwrote
/// them (`back`), or as the command left them.
///
/// Fails if a file is in neither state: it has changed since.
pub fn plan_return(
    repo: &Repo,
    tree: &OpenWorktree,
    (steps, back): (&Steps, bool),
    what: &'static str,
) -> Result<Return, RepoError> {
    let sides = steps.overwritten().map(|(path, before, after)| {
        let sides = if back {
            (after, before)
        } else {
            (before, after)
        };
        (path.as_bytes().to_vec(), sides)
    });
    let found: BTreeMap<Vec<u8>, Sides<'_>> = sides.collect();
    let mut out = Return {
        empties: true,
        knows_empty: back,
        ..Return::default()
    };
    let mut lost = BTreeSet::new();
    for (path, (old, new)) in &found {
        let (old, new) = (*old, *new);
        let there = stat_at(tree, path)?;
        let as_old = is_as(repo, tree, path, old, there.as_ref())?;
        // The switch that belongs to the undo decides whether a directory is removed with its
        // content.
        let is_dir = there.is_some_and(|stat| stat.kind == FileKind::Dir);
        // Nothing is lost where both are directories and none is there.
        let is_made = there.is_none() && [old, new].iter().all(|e| e.is_some_and(is_tree));
        let as_old = as_old || old.is_none() && is_dir || is_made;
        // The command could not put a file in the place of this directory, for example because a user is in
        // it. What was in it comes back.
        let is_kept = is_dir && new.is_none() && comes_below(&found, path);
        if !as_old {
            let as_new = is_kept || is_as(repo, tree, path, new, there.as_ref())?;
            // The command did not come to this path, or the user has done this already.
            if as_new && (is_kept || !is_dir) {
                out.stays.insert(path.clone());
                continue;
            }
            if !as_new {
                lost.insert(path.clone());
            }
        }
        if let (Some(_), None) = (new, there) {
            lost.extend(obstacle(tree, path)?.filter(|above| !found.contains_key(above)));
        }
        out.steps.push(PathReturn {
            path: path.clone(),
            there,
            to: new.cloned(),
        });
    }
    if !lost.is_empty() {
        let paths = DiskPath::all(lost);
        return Err(FilesError::WouldLose { what, paths }.into());
    }
    Ok(out)
}

/// A path's entry as it is now, and as it is to be.
type Sides<'a> = (Option<&'a TreeEntry>, Option<&'a TreeEntry>);

/// Returns whether something comes below a path.
fn comes_below(sides: &BTreeMap<Vec<u8>, Sides<'_>>, path: &[u8]) -> bool {
    let prefix = [path, b"/"].concat();
    let below = sides.range(prefix.clone()..);
    let mut below = below.take_while(|(path, _)| path.starts_with(&prefix));
    below.any(|(_, (_, new))| new.is_some())
}

/// Returns whether a path has the given entry, or nothing if there is no entry.
pub fn is_as(
    repo: &Repo,
    tree: &OpenWorktree,
    path: &[u8],
    entry: Option<&TreeEntry>,
    there: Option<&FileStat>,
) -> Result<bool, RepoError> {
    match (entry, there) {
        (None, None) => Ok(true),
        (Some(entry), Some(stat)) if entry.kind == Kind::Directory => {
            Ok(stat.kind == FileKind::Dir)
        }
        (Some(entry), Some(stat)) => match same_as(repo, tree, path, entry, stat) {
            Ok(same) => Ok(same),
            Err(SameError::Path(_)) => Ok(false),
            Err(SameError::Repo(e)) => Err(e),
        },
        _ => Ok(false),
    }
}

fn is_tree(entry: &TreeEntry) -> bool {
    entry.kind == Kind::Directory
}

/// Returns the first entry above a path that is not a directory.
pub fn obstacle(tree: &OpenWorktree, path: &[u8]) -> Result<Option<Vec<u8>>, RepoError> {
    for (end, _) in path.iter().enumerate().filter(|(_, b)| **b == b'/') {
        match stat_at(tree, &path[..end])? {
            Some(stat) if stat.kind == FileKind::Dir => {}
            Some(_) => return Ok(Some(path[..end].to_vec())),
            None => return Ok(None),
        }
    }
    Ok(None)
}
