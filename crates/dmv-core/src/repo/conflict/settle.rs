//! The state of the conflicts in a worktree's base, judged by the user's edits of their files.
//!
//! Inside the subset, nothing is recorded: the files show the state.
//!
//! - A conflict is **open** while its file is as the form shows it, or still has marker lines.
//! - A conflict is **settled** when its file was changed and has no marker left, or was deleted. If
//!   the file has no markers to begin with, the conflict is settled when none of the sides beside
//!   it is left.
//!
//! Outside the subset, and only there, a choice settles a conflict (see `choices`).

use crate::fsutil::{FileKind, FileStat, SafeDir};
use crate::hash::ObjectId;
use crate::limits::MAX_MERGE_TEXT_BYTES;
use crate::merge::Edits;
use crate::object::name::RepoPath;
use crate::object::tree::{Kind, TreeEntry, lookup_path};
use crate::path::PathError;
use crate::repo::base::change::{ChangeKind, PathChange};
use crate::repo::base::error::RepoError;
use crate::repo::base::repo::Repo;
use crate::repo::conflict::at;
use crate::repo::conflict::at::ConflictAt;
use crate::repo::conflict::choices::ConflictResolution;
use crate::repo::conflict::form::{Form, Shown, ShownSide};
use crate::repo::conflict::names::last_name;
use crate::repo::look::entries::blob_of;
use crate::worktree::scan::Select;
use crate::worktree::select::is_under;
use crate::worktree::split_path;
use std::collections::BTreeMap;
use std::io::Read;

/// The greatest size of a file with markers, in bytes: room for two sides, the base and the markers
/// between them.
pub const MAX_MARKED_BYTES: u64 = 4 * MAX_MERGE_TEXT_BYTES;

/// A conflict whose file was edited and still has marker lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MarkersLeft {
    /// The path of the conflict.
    pub path: RepoPath,
    /// The number of the first marker line, counted from 1, or `None` if the file is too long to
    /// read.
    pub line: Option<u64>,
}

/// The conflicts of a commit that is being created.
#[derive(Debug, Default)]
pub struct SettledConflicts {
    /// Conflicts that stay in the commit.
    pub open: Vec<ConflictAt>,
    /// Open conflicts whose file was edited and still has markers.
    pub edited: Vec<MarkersLeft>,
    /// Open conflicts with a new directory of the user in their place. The commit cannot have it.
    pub covered: Vec<RepoPath>,
    /// Conflicts that are settled.
    pub settled: Vec<RepoPath>,
    /// Unedited files beside settled conflicts.
    pub leftover: Vec<(RepoPath, TreeEntry)>,
    /// Choices that the commit does not include. They stay in effect.
    pub waiting: Vec<ConflictResolution>,
    /// Conflicts that no commit has, this one included: the commit leaves their files out.
    pub left_out: Vec<UnsettledConflict>,
}

impl SettledConflicts {
    /// Returns the paths of the conflicts that stay in the commit.
    pub fn open_paths(&self) -> Vec<RepoPath> {
        let open = self.open.iter().map(|at| &at.path);
        let waiting = self.waiting.iter().map(|chosen| &chosen.path);
        open.chain(waiting).cloned().collect()
    }
}

/// A conflict that is in no commit and is not settled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnsettledConflict {
    /// The path of the conflict.
    pub path: RepoPath,
    /// What shows that the conflict is not settled.
    pub what: UnsettledReason,
}

/// What shows that a conflict is not settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnsettledReason {
    /// The text still has a marker line. Its number is counted from 1, or `None` if the file is too
    /// long to read.
    Marker(Option<u64>),
    /// The versions are as DMV wrote them.
    Versions,
}

/// Returns the conflicts of a worktree whose files are as the form shows them.
pub fn unchanged(repo: &Repo, form: &Form) -> Result<SettledConflicts, RepoError> {
    let mut out = SettledConflicts::default();
    for shown in &form.shown {
        if shown.is_pending {
            out.left_out
                .push(unsettled(repo, shown, shown.entry().as_ref())?);
        } else {
            out.open.push(shown.at.clone());
        }
    }
    Ok(out)
}

/// Returns the conflict that no commit has and that is not settled, with the entry `now` at its
/// path.
fn unsettled(
    repo: &Repo,
    shown: &Shown,
    now: Option<&TreeEntry>,
) -> Result<UnsettledConflict, RepoError> {
    let left = match now {
        Some(now) => markers_left(repo, shown, now)?,
        None => None,
    };
    let what = match left {
        Some(left) => UnsettledReason::Marker(left.line),
        None => UnsettledReason::Versions,
    };
    Ok(UnsettledConflict {
        path: shown.at.path.clone(),
        what,
    })
}

/// A worktree compared with its base.
#[derive(Debug, Default)]
pub struct WorktreeComparison {
    pub changes: Vec<PathChange>,
    /// The paths of open conflicts. The next field has those of settled ones.
    pub open: Vec<RepoPath>,
    pub settled: Vec<RepoPath>,
}

/// Turns the changes that a scan found against the form of the base into changes against the base
/// itself.
pub fn explain(root: &SafeDir, form: &Form, changes: Vec<PathChange>) -> WorktreeComparison {
    let unseen = form.unseen.iter().map(|lack| lack.path.clone());
    if form.shown.is_empty() && form.chosen.is_empty() {
        return WorktreeComparison {
            changes,
            open: unseen.collect(),
            ..WorktreeComparison::default()
        };
    }
    let mut found: BTreeMap<Vec<u8>, ChangeKind> = changes
        .into_iter()
        .map(|c| (c.path.into_bytes(), c.kind))
        .collect();
    let (mut open, mut settled) = (Vec::new(), Vec::new());
    for shown in &form.shown {
        let path = shown.at.path.as_bytes();
        match find_settled(root, shown, &found) {
            Some(kind) => {
                found.insert(path.to_vec(), kind);
                settled.push(shown.at.path.clone());
            }
            None => open.push(shown.at.path.clone()),
        }
    }
    for (path, kind) in form.chosen.iter().flat_map(ConflictResolution::changes) {
        let path = path.as_bytes().to_vec();
        let kind = match (kind, found.remove(&path)) {
            (kind, None) => kind,
            (ChangeKind::Added, Some(ChangeKind::Deleted)) => continue,
            (ChangeKind::Added, Some(_)) => ChangeKind::Added,
            (_, Some(ChangeKind::Deleted)) => ChangeKind::Deleted,
            (_, Some(_)) => ChangeKind::Modified,
        };
        found.insert(path, kind);
    }
    open.extend(unseen);
    open.sort();
    settled.extend(form.chosen.iter().map(|c| c.path.clone()));
    let told = |(path, kind): (Vec<u8>, ChangeKind)| {
        // The files beside a conflict are not in the commit. They cannot be missing, only new.
        let kind = match (form.is_side(&path), kind) {
            (true, ChangeKind::Deleted) => return None,
            (true, _) => ChangeKind::Added,
            (false, kind) => kind,
        };
        let path = RepoPath::from_checked(path);
        Some(PathChange { path, kind })
    };
    let mut changes: Vec<PathChange> = found.into_iter().filter_map(told).collect();
    changes.sort_by(|a, b| a.path.cmp(&b.path));
    settled.sort();
    WorktreeComparison {
        changes,
        open,
        settled,
    }
}

/// Returns how the path of a conflict differs from its commit, if the conflict is settled.
pub fn find_settled(
    root: &SafeDir,
    shown: &Shown,
    changes: &BTreeMap<Vec<u8>, ChangeKind>,
) -> Option<ChangeKind> {
    let path = shown.at.path.as_bytes();
    let is_dir = shown.own.is_none() && is_dir_there(root, path, changes);
    match changes.get(path).filter(|_| !is_dir) {
        Some(ChangeKind::Deleted) => Some(ChangeKind::Deleted),
        Some(_) if has_markers(root, shown) => None,
        Some(_) => Some(ChangeKind::Modified),
        None if shown.markers.are_possible() || shown.sides.is_empty() => None,
        None => {
            let left = |side: &&ShownSide| match side.term.kind {
                // What cannot be examined does not count as settled.
                Kind::Directory => !matches!(stat_of(root, side.path.as_bytes()), Ok(None)),
                _ => !changes.contains_key(side.path.as_bytes()),
            };
            let left = shown.sides.iter().filter(left).count();
            let is_settled = is_answered(shown, is_dir, left);
            is_settled.then_some(match shown.own {
                Some(_) => ChangeKind::Modified,
                None => ChangeKind::Deleted,
            })
        }
    }
}

/// Returns whether the worktree has a directory at a path where the base's form has nothing.
fn is_dir_there(root: &SafeDir, path: &[u8], changes: &BTreeMap<Vec<u8>, ChangeKind>) -> bool {
    let mut below = changes.range([path, b"/"].concat()..);
    let is_below = below.next().is_some_and(|(below, _)| is_under(below, path));
    let is_dir = |stat: &FileStat| stat.kind == FileKind::Dir;
    is_below
        || matches!(stat_of(root, path), Ok(Some(stat)) if changes.contains_key(path) && is_dir(&stat))
}

/// Returns whether a conflict without markers is settled, if `left` of the versions beside it are
/// left. A directory at a path where the conflict shows nothing (`is_dir`) is an answer if one of the
/// versions has gone. While all are there, it need not have to do with the conflict at all.
fn is_answered(shown: &Shown, is_dir: bool, left: usize) -> bool {
    if is_dir {
        left < shown.sides.len()
    } else {
        left == 0
    }
}

/// Returns whether a conflict's file on disk has marker lines.
pub fn has_markers(root: &SafeDir, shown: &Shown) -> bool {
    let Some((dir, name)) = split_path(shown.at.path.as_bytes()) else {
        return false;
    };
    if !shown.markers.are_possible() {
        return false;
    }
    // Something else than a file has no marker lines. A file that cannot be read does not count as
    // settled.
    match stat_of(root, shown.at.path.as_bytes()) {
        Ok(Some(stat)) if stat.kind == FileKind::File => {}
        Ok(_) => return false,
        Err(_) => return true,
    }
    let opened = root.open_dir(dir).and_then(|dir| dir.open_file_read(name));
    let Ok((file, stat)) = opened else {
        return true;
    };
    let mut text = Vec::new();
    let read = file.take(MAX_MARKED_BYTES).read_to_end(&mut text);
    stat.size > MAX_MARKED_BYTES || read.is_err() || shown.markers.line_in(&text).is_some()
}

/// Returns the stat of a path in the worktree, or `None` if nothing is there. Directories above the
/// path may be missing, too.
pub fn stat_of(root: &SafeDir, path: &[u8]) -> Result<Option<FileStat>, PathError> {
    let Some((dir, name)) = split_path(path) else {
        return Ok(None);
    };
    match root.open_dir(dir) {
        Ok(dir) => dir.stat_opt(name),
        Err(e) if e.is_absent() => Ok(None),
        Err(e) => Err(e),
    }
}

/// Finds out which conflicts the tree `made` of a worktree settles, whose base has the form `form`. Adds
/// the edits with which open conflicts become entries again, and without the unedited files beside them.
///
/// `made` must be readable. With `allow_markers`, a file counts as settled although it still has markers.
pub fn take_back(
    repo: &Repo,
    form: &Form,
    made: ObjectId,
    select: &dyn Select,
    allow_markers: bool,
    edits: &mut Edits,
) -> Result<SettledConflicts, RepoError> {
    let mut out = SettledConflicts::default();
    take_chosen(repo, form, made, select, &mut out, edits)?;
    for shown in &form.shown {
        if shown.is_pending && allow_markers {
            continue;
        }
        let path = &shown.at.path;
        let now = lookup_path(repo.objects(), &made, path)?;
        let (mut untouched, mut left_beside) = (Vec::new(), 0);
        for (side, entry) in shown.sides.iter().map(ShownSide::file) {
            // Any other content with that name is the user's.
            let there = lookup_path(repo.objects(), &made, &side)?;
            let Some(there) = there else { continue };
            let is_same = there.same_content(&entry);
            let is_dir = there.kind == Kind::Directory && entry.kind == Kind::Directory;
            left_beside += usize::from(is_same || is_dir);
            if is_same {
                edits.insert(side.clone(), None);
                untouched.push((side, entry));
            }
        }
        let is_dir = |now: &TreeEntry| now.kind == Kind::Directory;
        let is_dir = shown.own.is_none() && now.as_ref().is_some_and(is_dir);
        let is_same = match (&now, &shown.entry()) {
            (Some(now), Some(entry)) => now.same_content(entry),
            (now, entry) => is_dir || now.is_none() && entry.is_none(),
        };
        let left = match &now {
            Some(now) if !is_same && !allow_markers => markers_left(repo, shown, now)?,
            _ => None,
        };
        let is_open = match is_same {
            true if shown.markers.are_possible() || shown.sides.is_empty() => true,
            true => !is_answered(shown, is_dir, left_beside),
            false => left.is_some(),
        };
        if !is_open {
            out.settled.push(path.clone());
            out.leftover.extend(untouched);
            continue;
        }
        if shown.is_pending {
            edits.extend(without(repo, form, shown)?);
            out.left_out.push(unsettled(repo, shown, now.as_ref())?);
            continue;
        }
        edits.insert(path.clone(), Some(conflict_entry(&shown.at)));
        out.open.push(shown.at.clone());
        out.covered.extend(is_dir.then(|| path.clone()));
        out.edited.extend(left);
    }
    out.open.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(out)
}

/// Returns the edits that leave a conflict out that no commit has: what the commit has stays at its
/// path, and nothing beside it is new. What the user has put into the versions stays in the files.
fn without(repo: &Repo, form: &Form, shown: &Shown) -> Result<Edits, RepoError> {
    let path = &shown.at.path;
    let mut edits: Edits = shown
        .sides
        .iter()
        .map(|side| (side.path.clone(), None))
        .collect();
    edits.insert(
        path.clone(),
        lookup_path(repo.objects(), &form.stored, path)?,
    );
    Ok(edits)
}

/// Adds the choices for conflicts at selected paths to `out`, and their edits of the tree
/// `made`, which has all of them. Entries that stay the same are written again, too, because they
/// may not be stored.
fn take_chosen(
    repo: &Repo,
    form: &Form,
    made: ObjectId,
    select: &dyn Select,
    out: &mut SettledConflicts,
    edits: &mut Edits,
) -> Result<(), RepoError> {
    let is_selected = |chosen: &&ConflictResolution| {
        let path = chosen.path.as_bytes();
        split_path(path).is_some_and(|(dir, name)| select.takes(dir, name))
    };
    let (taken, waiting): (Vec<&ConflictResolution>, Vec<&ConflictResolution>) =
        form.chosen.iter().partition(is_selected);
    for chosen in waiting {
        edits.insert(chosen.path.clone(), Some(chosen.conflict.clone()));
        for (path, entry) in &chosen.beside {
            let now = lookup_path(repo.objects(), &made, path)?;
            edits.insert(path.clone(), now.filter(|now| !now.same_content(entry)));
        }
        out.waiting.push(chosen.clone());
    }
    for chosen in taken {
        for (path, _) in chosen.edits() {
            let now = lookup_path(repo.objects(), &made, &path)?;
            if let Some(now) = &now {
                // A chosen version may have conflicts of its own.
                for path in at::paths_in(repo.objects(), &path, now)? {
                    out.open.extend(at::conflict_at(repo, &made, path)?);
                }
            }
            edits.insert(path, now);
        }
        out.settled.push(chosen.path.clone());
    }
    Ok(())
}

/// Returns the first marker line of a conflict's file, if there is one.
fn markers_left(
    repo: &Repo,
    shown: &Shown,
    now: &TreeEntry,
) -> Result<Option<MarkersLeft>, RepoError> {
    if !shown.markers.are_possible() || !now.kind.is_blob() {
        return Ok(None);
    }
    let left = |line| MarkersLeft {
        path: shown.at.path.clone(),
        line,
    };
    if now.size > MAX_MARKED_BYTES {
        return Ok(Some(left(None)));
    }
    let mut text = Vec::new();
    match repo.cat(blob_of(now), None, &mut text) {
        Ok(_) => Ok(shown.markers.line_in(&text).map(|line| left(Some(line)))),
        // A file that is still as it was committed may have been dropped since.
        Err(RepoError::Absent(_)) => Ok(None),
        Err(e) => Err(e),
    }
}

/// Returns the tree entry of a conflict.
pub fn conflict_entry(at: &ConflictAt) -> TreeEntry {
    TreeEntry {
        name: last_name(&at.path),
        kind: Kind::Conflict,
        is_list: false,
        id: at.id,
        size: 0,
        files: 0,
        attrs: None,
    }
}
