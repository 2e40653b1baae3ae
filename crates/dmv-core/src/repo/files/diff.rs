//! The differences between a commit and the worktree, with both sides of each.
//!
//! `rename` uses them, too.

use crate::chunker::{Cutter, MAX_CUT_BYTES};
use crate::diff::{Slice, diff_slices};
use crate::fsutil::{FileKind, FileStat, SafeDir};
use crate::hash::ObjectId;
use crate::job::Job;
use crate::merge::Edits;
use crate::object::ObjectType;
use crate::object::name::RepoPath;
use crate::object::tree::{Kind, TreeEntry, Xattrs, lookup_path};
use crate::repo::base::change::{ChangeKind, PathChange};
use crate::repo::base::error::{RepoError, WorktreeError};
use crate::repo::base::notes;
use crate::repo::base::repo::Repo;
use crate::repo::conflict::choices;
use crate::repo::conflict::choices::edits_of;
use crate::repo::conflict::settle::{conflict_entry, stat_of};
use crate::repo::files::open_worktree;
use crate::repo::files::open_worktree::OpenWorktree;
use crate::repo::files::same::{SameError, same_as, xattrs_at};
use crate::repo::files::status::{StatusOptions, UntrackedFile};
use crate::subset::Subset;
use crate::worktree::select::Paths;
use crate::worktree::snapshot::Problem;
use std::collections::BTreeMap;
use std::io::{self, Read};
use std::ops::ControlFlow;

/// The worktree's side of a difference.
#[derive(Clone, Debug)]
pub enum WorktreeSide {
    /// The file or symlink on disk equals this entry of the commit that it comes from.
    Entry(TreeEntry),
    /// The file or symlink on disk is not committed. An empty directory counts, too.
    Disk(DiskFile),
}

/// A file, a symlink or an empty directory on disk.
#[derive(Clone, Debug)]
pub struct DiskFile {
    /// Its stat.
    pub stat: FileStat,
    /// The extended attributes that a commit would keep of it.
    pub xattrs: Xattrs,
}

/// A path that differs between a commit and the worktree.
#[derive(Clone, Debug)]
pub struct WorktreeChange {
    /// The path.
    pub path: RepoPath,
    /// The commit's entry.
    pub old: Option<TreeEntry>,
    /// The worktree's entry.
    pub new: Option<WorktreeSide>,
}

/// What differs between a commit and the worktree.
#[derive(Debug, Default)]
pub struct WorktreeDiff {
    /// The paths that differ, in order.
    pub changes: Vec<WorktreeChange>,
    /// The paths that could not be compared.
    pub problems: Vec<Problem>,
}

impl Repo {
    /// Compares the commit `from` with the worktree, in path order.
    ///
    /// Scans the worktree as [`status`](Self::status) does. Combines the result with the
    /// differences between `from` and the worktree's base.
    pub fn diff_worktree(
        &self,
        from: Option<ObjectId>,
        paths: &Paths,
        options: &StatusOptions<'_>,
        job: &Job,
    ) -> Result<WorktreeDiff, RepoError> {
        let tree_of = |commit: Option<ObjectId>| match commit {
            Some(id) => self.read_commit(&id).map(|commit| Some(commit.tree)),
            None => Ok(None),
        };
        let status = self.status(options, job)?;
        let (old_tree, base_tree) = (tree_of(from)?, tree_of(self.base_commit()?)?);
        let mut found = committed(self, (old_tree, base_tree), &status.subset, paths)?;
        let outside = chosen_outside(self, base_tree, &status.subset)?;
        let tree = open_worktree::open_as_far(self, &options.settings)?;
        for change in &status.changes {
            let path = change.path.clone();
            if !paths.includes(path.as_bytes()) {
                continue;
            }
            let old = match old_tree {
                Some(tree) => lookup_path(self.objects(), &tree, &path)?,
                None => None,
            };
            if let Some(chosen) = outside.get(&path) {
                let same = |old: &TreeEntry| chosen.as_ref().is_some_and(|c| c.same_content(old));
                if !old.as_ref().is_some_and(same) {
                    found.insert(path, (old, chosen.clone().map(WorktreeSide::Entry)));
                }
                continue;
            }
            match on_disk(self, &tree, change, old)? {
                (None, None) => found.remove(&path),
                sides => found.insert(path, sides),
            };
        }
        for at in &status.unresolved {
            if !paths.includes(at.path.as_bytes()) {
                continue;
            }
            let old = match old_tree {
                Some(tree) => lookup_path(self.objects(), &tree, &at.path)?,
                None => None,
            };
            let new = conflict_entry(at);
            // What the user has put into its file is a difference of its own.
            let is_edited = status.changes.iter().any(|change| change.path == at.path);
            if !is_edited && !old.as_ref().is_some_and(|old| old.same_content(&new)) {
                found.insert(at.path.clone(), (old, Some(WorktreeSide::Entry(new))));
            }
        }
        for UntrackedFile { path, .. } in status.untracking {
            if !paths.includes(path.as_bytes()) {
                continue;
            }
            let old = match old_tree {
                Some(tree) => lookup_path(self.objects(), &tree, &path)?,
                None => None,
            };
            found.insert(path, (old.filter(|old| old.kind != Kind::Directory), None));
        }
        let changes = found
            .into_iter()
            .filter(|(_, (old, new))| old.is_some() || new.is_some())
            .map(|(path, (old, new))| WorktreeChange { path, old, new });
        Ok(WorktreeDiff {
            changes: changes.collect(),
            problems: status.problems,
        })
    }
}

/// What a path had and has. `None` on both sides: nothing differs.
type Sides = (Option<TreeEntry>, Option<WorktreeSide>);

/// Returns the differences between two trees in `subset` and at `paths`.
fn committed(
    repo: &Repo,
    (old, new): (Option<ObjectId>, Option<ObjectId>),
    subset: &Subset,
    paths: &Paths,
) -> Result<BTreeMap<RepoPath, Sides>, RepoError> {
    let slice = |tree| Slice { tree, subset };
    let mut found: BTreeMap<RepoPath, Sides> = BTreeMap::new();
    let mut note = |path: &RepoPath, old: Option<&TreeEntry>, new: Option<&TreeEntry>| {
        if paths.includes(path.as_bytes()) {
            // If a file and a directory replace each other, one path has two changes.
            let slot = found.entry(path.clone()).or_default();
            slot.0 = slot.0.take().or(old.cloned());
            slot.1 = slot.1.take().or(new.cloned().map(WorktreeSide::Entry));
        }
        Ok::<_, RepoError>(ControlFlow::Continue(()))
    };
    // The result is never `Break`, because `note` accepts everything.
    let _ = diff_slices(repo.objects(), slice(old), slice(new), &mut note)?;
    Ok(found)
}

/// Returns what differs at a changed path between the entry `old` and the disk.
fn on_disk(
    repo: &Repo,
    tree: &OpenWorktree,
    change: &PathChange,
    old: Option<TreeEntry>,
) -> Result<Sides, RepoError> {
    let old = old.filter(|e| e.kind != Kind::Directory || e.size == 0 && e.files == 0);
    let stat = stat_of(&tree.root, change.path.as_bytes())?;
    let is_empty_dir = stat.as_ref().is_some_and(|s| s.kind == FileKind::Dir);
    // The files in a directory stand for it, unless it is empty.
    let stat = stat.filter(|s| s.kind != FileKind::Dir || is_listed(change, s));
    if let (Some(entry), Some(stat)) = (&old, &stat) {
        let same = if is_empty_dir {
            entry.kind == Kind::Directory
        } else {
            match same_as(repo, tree, change.path.as_bytes(), entry, stat) {
                Ok(same) => same,
                Err(SameError::Path(_)) => false,
                Err(SameError::Repo(e)) => return Err(e),
            }
        };
        if same {
            return Ok((None, None));
        }
    }
    let path = change.path.as_bytes();
    let Some(stat) = stat else {
        return Ok((old, None));
    };
    let xattrs = match stat.kind {
        FileKind::File => match xattrs_at(repo, tree, path, old.as_ref()) {
            Ok(xattrs) => xattrs,
            // What cannot be read is not told as changed.
            Err(SameError::Path(_)) => old.as_ref().map(TreeEntry::xattrs).unwrap_or_default(),
            Err(SameError::Repo(e)) => return Err(e),
        },
        _ => Xattrs::default(),
    };
    Ok((old, Some(WorktreeSide::Disk(DiskFile { stat, xattrs }))))
}

/// Returns the entries that choices put at paths that the worktree does not have.
fn chosen_outside(
    repo: &Repo,
    base_tree: Option<ObjectId>,
    subset: &Subset,
) -> Result<Edits, RepoError> {
    let Some(tree) = base_tree else {
        return Ok(Edits::new());
    };
    let mut edits = edits_of(&choices::chosen(repo, &notes::read(repo)?, &tree)?);
    edits.retain(|path, _| !subset.includes(path.as_bytes(), false));
    Ok(edits)
}

impl Repo {
    /// Opens a file of the worktree without following symlinks.
    pub fn open_worktree_file(&self, path: &RepoPath) -> Result<std::fs::File, RepoError> {
        let (dir, name) = below(self, path)?;
        Ok(dir.open_file_read(&name)?.0)
    }

    /// Returns the target of a symlink in the worktree.
    pub fn worktree_link(&self, path: &RepoPath) -> Result<Vec<u8>, RepoError> {
        let (dir, name) = below(self, path)?;
        Ok(dir.readlink(&name)?)
    }

    /// Returns the stat of a path in the worktree, without following symlinks.
    pub fn stat_worktree(&self, path: &RepoPath) -> Result<FileStat, RepoError> {
        let (dir, name) = below(self, path)?;
        Ok(dir.stat(&name)?)
    }
}

fn below(repo: &Repo, path: &RepoPath) -> Result<(SafeDir, Vec<u8>), RepoError> {
    let root = SafeDir::open_root(repo.worktree_root().ok_or(WorktreeError::NoWorktree)?)?;
    let dir = root.open_dir(path.parent().unwrap_or_default().as_bytes())?;
    Ok((dir, path.file_name().unwrap_or_default().to_vec()))
}

/// Returns whether a status change at the path of a directory on disk means the directory itself.
fn is_listed(change: &PathChange, stat: &FileStat) -> bool {
    let is_itself = matches!(change.kind, ChangeKind::Added | ChangeKind::Type);
    stat.kind == FileKind::Dir && is_itself
}

/// Returns the chunks that `content` would be stored as: `(offset, chunk, length)`. Empty content
/// has no chunks.
pub fn chunks_of(mut content: impl Read, job: &Job) -> io::Result<Vec<(u64, ObjectId, u64)>> {
    let cutter = Cutter::new();
    let mut out = Vec::new();
    let (mut buf, mut at, mut offset) = (Vec::new(), 0, 0u64);
    loop {
        // The cut may depend on the byte after the chunk, so more bytes than the longest chunk are
        // read.
        if buf.len() - at <= MAX_CUT_BYTES {
            buf.drain(..at);
            at = 0;
            let want = 4 * MAX_CUT_BYTES - buf.len();
            content.by_ref().take(want as u64).read_to_end(&mut buf)?;
        }
        if at == buf.len() || job.is_cancelled() {
            return Ok(out);
        }
        let cut = cutter.cut(&buf[at..]);
        let id = ObjectType::Chunk.id_of(&buf[at..at + cut]);
        out.push((offset, id, cut as u64));
        at += cut;
        offset += cut as u64;
    }
}
