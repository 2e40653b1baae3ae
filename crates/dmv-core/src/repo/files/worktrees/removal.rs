//! Removing a linked worktree with its files, and the redo of such a removal.

use super::{WorktreeInfo, beside, is_here, worktree_at};
use crate::escape::{self, Argument};
use crate::fsutil::Fingerprint;
use crate::hash::ObjectId;
use crate::job::Job;
use crate::object::name::{RepoPath, escape};
use crate::path::{DiskPath, PathError};
use crate::refs::{Change, Effect};
use crate::repo::base::change::ChangeKind;
use crate::repo::base::error::{RepoError, WorktreeError};
use crate::repo::base::keys::steps_key;
use crate::repo::base::layout::{DMV_DIR, MAIN};
use crate::repo::base::publish::OperationRequest;
use crate::repo::base::repo::Repo;
use crate::repo::base::steps::Steps;
use crate::repo::base::transaction::Transaction;
use crate::repo::base::worktree;
use crate::repo::base::worktree::WorktreeSettings;
use crate::repo::files::checkout::empty;
use crate::repo::files::saved::{
    Overwrite, OverwrittenFiles, all_gone, former_entries, is_as, missing_before, set_steps,
    stat_at, take,
};
use crate::repo::files::unfinished::Target;
use crate::repo::files::{open_worktree, pending, status, steps, unfinished};
use crate::worktree::base::entry_at;
use crate::worktree::checkout::Refusal;
use crate::worktree::scan::{DirScan, ScanOptions, State, scan};
use crate::worktree::select::Paths;
use crate::worktree::snapshot::Problem;
use crate::worktree::{Skip, join};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Names the action in messages that refuse it.
const REMOVING: &str = "removing this worktree";

/// What becomes of the uncommitted changes in a worktree that is removed.
#[derive(Clone, Copy)]
pub enum RemovalMode<'a> {
    /// Files that are in no commit refuse the removal. That committed files are missing is kept.
    Refused,
    /// All of them are kept, so that an undo can bring them back.
    Kept,
    /// These steps have kept them before. Any other changes refuse the removal.
    KeptBy(Option<&'a Steps>),
}

impl Repo {
    /// Removes a worktree with its files, and returns its last state. Its branch stays.
    ///
    /// Fails with [`FilesError::WouldLose`](crate::repo::FilesError::WouldLose) if a file is in no
    /// commit, even if it is ignored. If forced, stores such files first, so that an undo brings
    /// them back. If the worktree's directory is already gone, removes only the record. The main
    /// worktree cannot be removed.
    pub fn remove_worktree(
        &self,
        dir: &Path,
        force: bool,
        settings: &WorktreeSettings,
        request: OperationRequest,
        job: &Job,
    ) -> Result<(WorktreeInfo, OverwrittenFiles), RepoError> {
        let info = worktree_at(self, dir)?;
        let how = if force {
            RemovalMode::Kept
        } else {
            RemovalMode::Refused
        };
        let told = take_down(self, &info, (how, &request), settings, job, |kept, told| {
            let last = steps_key(&info.name);
            let keys = self.refs.with_prefix(&format!("worktree/{}/", info.name))?;
            let gone = |(key, value): (String, Vec<u8>)| Change {
                key,
                old: Some(value),
                new: None,
            };
            // The record of the steps stays reachable only while its key names it.
            let stays = |key: &str| kept.is_some() && key == last;
            let keys = keys.into_iter().filter(|(key, _)| !stays(key));
            let mut tx = Transaction::begin(self, &request).with(keys.map(gone));
            match kept {
                Some(id) => steps::set_last(&mut tx, &info.name, id)?,
                None => set_steps(&mut tx, &info.name, None, told, Steps::default())?,
            }
            tx.publish(Effect::Worktree)?;
            Ok(())
        })?;
        Ok((info, told))
    }
}

/// Removes a worktree's files, then calls `publish` with the record of the steps that keep the
/// uncommitted changes, and with how much they are.
pub fn take_down(
    repo: &Repo,
    info: &WorktreeInfo,
    (how, request): (RemovalMode<'_>, &OperationRequest),
    settings: &WorktreeSettings,
    job: &Job,
    publish: impl FnOnce(Option<ObjectId>, &OverwrittenFiles) -> Result<(), RepoError>,
) -> Result<OverwrittenFiles, RepoError> {
    let mut told = OverwrittenFiles::default();
    if info.name == MAIN {
        return Err(WorktreeError::OwnWorktree(info.path.clone()).into());
    }
    let own = repo.dmv.join("worktrees").join(&info.name);
    let io = |action, path: &Path| {
        let path = path.to_owned();
        move |source| RepoError::Io(PathError::new(action, path, source))
    };
    if is_here(repo, info)? {
        refuse_in_use(repo, info, settings)?;
        let there = beside(repo, &info.name, &info.path, None)?;
        let _lock = worktree::lock_worktree(&there)?;
        let kept = match how {
            RemovalMode::Refused => {
                refuse_lost(&info.path, uncommitted(&there, settings, job)?.changed)?;
                keep_uncommitted(&there, request, settings, job)?
            }
            RemovalMode::Kept => keep_uncommitted(&there, request, settings, job)?,
            RemovalMode::KeptBy(steps) => check_kept(&there, &info.path, steps, settings, job)?,
        };
        told = kept.told;
        begin_removal(&there, info, how, settings)?;
        let stay = empty::remove_all_files(&there, settings, kept.seen, job)?;
        if !stay.is_empty() {
            return Err(not_removed(&info.path, stay));
        }
        remove_root(&info.path)?;
        publish(kept.steps, &told)?;
    } else {
        publish(None, &told)?;
    }
    match std::fs::remove_dir_all(&own) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(io("remove", &own)(e)),
        _ => Ok(told),
    }
}

/// Fails if the user is in the worktree: in a directory that is gone no command works.
fn refuse_in_use(
    repo: &Repo,
    info: &WorktreeInfo,
    settings: &WorktreeSettings,
) -> Result<(), RepoError> {
    let at = real_path(&info.path);
    if !settings
        .in_use
        .iter()
        .any(|dir| real_path(dir).starts_with(&at))
    {
        return Ok(());
    }
    let from = match repo.dmv.parent() {
        Some(parent) if repo.dmv.file_name() == Some(DMV_DIR.as_ref()) => parent,
        _ => &repo.dmv,
    };
    let (at, from) = (info.path.clone(), from.to_owned());
    Err(WorktreeError::InUse { at, from }.into())
}

fn real_path(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}

/// Notes durably that the files of a worktree are about to go, and the command that continues if that is cut off. So
/// the files that are gone count as removed by this command, and not by the user.
fn begin_removal(
    there: &Repo,
    info: &WorktreeInfo,
    how: RemovalMode<'_>,
    settings: &WorktreeSettings,
) -> Result<(), RepoError> {
    let tree = open_worktree::open(there, settings)?;
    let Some(base) = tree.base_tree else {
        // No file is committed.
        return Ok(());
    };
    let dir = Argument::on_disk(&info.path);
    let command = match how {
        RemovalMode::Kept => escape::hint!("dmv worktree remove --force {}", dir),
        RemovalMode::Refused | RemovalMode::KeptBy(_) => {
            escape::hint!("dmv worktree remove {}", dir)
        }
    };
    let before = unfinished::unfinished(there, tree.base_tree, &tree.subset)?;
    let target = Target::without_files(base);
    unfinished::begin_switch(there, before.as_ref(), target, command.as_str())
}

/// The uncommitted files stored before a worktree is removed.
#[derive(Default)]
struct KeptFiles {
    /// The record of the steps that keep the files.
    steps: Option<ObjectId>,
    told: OverwrittenFiles,
    /// The fingerprint of each uncommitted file at the time when it was stored.
    seen: BTreeMap<Vec<u8>, Option<Fingerprint>>,
}

/// Stores everything that is in no commit, and which committed files are missing, and publishes a
/// record of it. There is one, too, if there is nothing to keep: the removal may be cut off.
fn keep_uncommitted(
    repo: &Repo,
    request: &OperationRequest,
    settings: &WorktreeSettings,
    job: &Job,
) -> Result<KeptFiles, RepoError> {
    let tree = open_worktree::open(repo, settings)?;
    let mut found = uncommitted(repo, settings, job)?;
    // Files that an interrupted removal has kept are kept together with the others, and what it has removed
    // is not missing.
    let earlier = steps::read_begun(repo, &tree.name)?;
    let cut = unfinished::unfinished(repo, tree.base_tree, &tree.subset)?;
    if let Some(steps) = &earlier {
        let were_missing = missing_before(steps);
        found.missing.retain(|path| were_missing.contains(path));
    } else if cut.is_some_and(|cut| cut.is_removal()) {
        // It was an undo or a redo, for which these files had been kept before.
        found.missing.clear();
    }
    let mut paths = all_gone(&tree, found.changed)?;
    for path in found.missing {
        let after = match tree.base_tree {
            Some(base) => entry_at(repo.objects(), &base, &path)?,
            None => None,
        };
        let committed = None;
        // A file in the place of an empty directory is there, and its directory is missing.
        paths.entry(path).or_insert(Overwrite { committed, after });
    }
    let mut tx = Transaction::begin(repo, request);
    let (earlier, keep) = (earlier.as_ref(), settings.keep);
    let taken = take(&mut tx, &tree, &paths, earlier, REMOVING, keep, job)?;
    let mut out = KeptFiles {
        told: taken.told,
        ..KeptFiles::default()
    };
    for path in paths.into_keys() {
        // Nothing was stored for a pipe, or for a file that may be lost.
        let print = match taken.seen.get(&path) {
            Some(print) => Some(*print),
            None => stat_at(&tree, &path)?.map(|stat| stat.fingerprint()),
        };
        out.seen.insert(path, print);
    }
    let Some(steps) = taken.steps else {
        return Ok(out);
    };
    steps::set_begun(&mut tx, &tree.name, steps.id)?;
    tx.publish(Effect::Written)?;
    out.steps = Some(steps.id);
    Ok(out)
}

/// Checks that steps keep all uncommitted files as they are now.
fn check_kept(
    repo: &Repo,
    at: &Path,
    kept: Option<&Steps>,
    settings: &WorktreeSettings,
    job: &Job,
) -> Result<KeptFiles, RepoError> {
    let tree = open_worktree::open(repo, settings)?;
    let paths = all_gone(&tree, uncommitted(repo, settings, job)?.changed)?;
    let former = kept.map(former_entries).unwrap_or_default();
    let mut lost = Vec::new();
    let mut out = KeptFiles::default();
    for path in paths.into_keys() {
        let stat = stat_at(&tree, &path)?;
        let entry = former.get(&path);
        if entry.is_none() || !is_as(repo, &tree, &path, entry, stat.as_ref())? {
            lost.push(path.clone());
        }
        out.seen.insert(path, stat.map(|stat| stat.fingerprint()));
    }
    refuse_lost(at, lost)?;
    Ok(out)
}

fn refuse_lost(at: &Path, lost: Vec<Vec<u8>>) -> Result<(), RepoError> {
    if lost.is_empty() {
        return Ok(());
    }
    Err(WorktreeError::WouldLoseThere {
        at: at.to_owned(),
        paths: DiskPath::all(lost),
    }
    .into())
}

/// How a worktree differs from its commit.
#[derive(Default)]
struct UncommittedPaths {
    /// What is on disk and in no commit.
    changed: Vec<Vec<u8>>,
    /// What its commit has and the disk does not.
    missing: Vec<Vec<u8>>,
}

/// Returns how the worktree differs from its commit.
fn uncommitted(
    repo: &Repo,
    settings: &WorktreeSettings,
    job: &Job,
) -> Result<UncommittedPaths, RepoError> {
    let select = Paths::default();
    let tree = open_worktree::open(repo, settings)?;
    let options = status::StatusOptions {
        select: &select,
        settings: settings.clone(),
    };
    let mut out = UncommittedPaths::default();
    for change in status::changes_of(repo, &tree, &options, job)? {
        match change.kind {
            ChangeKind::Deleted => out.missing.push(change.path.into_bytes()),
            _ => out.changed.push(change.path.into_bytes()),
        }
    }
    let known = tree.known(repo);
    let options = ScanOptions {
        list_ignored: true,
        ..tree.scan_options(&*known, &select, job)
    };
    // The file of a conflict that no commit has is not in its commit, whatever it holds.
    let of_conflicts = pending::own_paths(repo, &tree)?.into_iter();
    out.changed.extend(of_conflicts.map(RepoPath::into_bytes));
    scan(&tree.root, &options, |dir: DirScan| {
        for (name, state) in dir.entries() {
            let path = join(&dir.path, name);
            let own = path == DMV_DIR.as_bytes();
            match state {
                State::Ignored { .. } | State::Held { .. } | State::Outside { .. } => {
                    out.changed.push(path);
                }
                State::Skipped { reason, .. } if !own && !matches!(reason, Skip::Temporary) => {
                    out.changed.push(path);
                }
                _ => {}
            }
        }
        Ok::<_, RepoError>(())
    })?;
    Ok(out)
}

/// Removes an emptied worktree directory with its `.dmv` file. Fails if other entries have
/// appeared.
pub(super) fn remove_root(dir: &Path) -> Result<(), RepoError> {
    let io = |source| RepoError::Io(PathError::new("remove", dir, source));
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(dir).map_err(io)? {
        let name = entry.map_err(io)?.file_name();
        if name != DMV_DIR {
            paths.push(DiskPath::from(Path::new(&name)));
        }
    }
    if !paths.is_empty() {
        return Err(WorktreeError::WouldLoseThere {
            at: dir.to_owned(),
            paths,
        }
        .into());
    }
    std::fs::remove_file(dir.join(DMV_DIR)).map_err(io)?;
    match std::fs::remove_dir(dir) {
        // A file that appeared at the last moment stays. The directory is no worktree any more.
        Err(e) if e.kind() == std::io::ErrorKind::DirectoryNotEmpty => Ok(()),
        removed => removed.map_err(io),
    }
}

/// Returns the error for files that could not be removed.
fn not_removed(dir: &Path, problems: Vec<Problem>) -> RepoError {
    let changed = Refusal::Changed.to_string();
    match problems.iter().find(|problem| problem.why != changed) {
        Some(Problem { path, why }) => {
            RepoError::Text(format!("cannot remove {}: {why}", escape(path)))
        }
        None => RepoError::Worktree(WorktreeError::WouldLoseThere {
            at: dir.to_owned(),
            paths: DiskPath::all(problems.into_iter().map(|problem| problem.path)),
        }),
    }
}
