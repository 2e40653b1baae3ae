//! Linked worktrees of one repository: add, list, remove, and repair after a move.
//!
//! Each worktree has its own head, base, stat cache and lock, so commits from several worktrees
//! never wait for each other's data. A `.dmv` file in the worktree names the repository. The view
//! stores the worktree's path.

use crate::fsutil::{Fingerprint, is_temp_name};
use crate::hash::ObjectId;
use crate::job::Job;
use crate::object::name::escape;
use crate::path::{DiskPath, PathContext, PathError};
use crate::platform::{bytes_of, string_of};
use crate::refs::{Change, Effect, check_ref_name};
use crate::repo::base::change::ChangeKind;
use crate::repo::base::error::{BranchError, PlaceError, RepoError, WorktreeError};
use crate::repo::base::handle::Handle;
use crate::repo::base::head::Head;
use crate::repo::base::keys::{
    Record, base_key, head_key, path_key, saved_key, saving_key, subset_key,
};
use crate::repo::base::layout::{DMV_DIR, MAIN, Pointer, RepositoryLocation};
use crate::repo::base::publish::{OperationRequest, change, set};
use crate::repo::base::vacancy::refuse_inside;
use crate::repo::base::worktree::WorktreeSettings;
use crate::repo::base::{branch, layout, open, publish, whole, worktree};
use crate::repo::conflict::form;
use crate::repo::files::checkout::target::{SwitchResult, SwitchTo};
use crate::repo::files::checkout::{CheckoutOptions, CheckoutTarget, empty};
use crate::repo::files::saved::{
    OverwrittenFiles, all_gone, overwritten_changes, plan_return, saving_change, stat_at, take,
};
use crate::repo::files::{checkout, open_worktree, status, unwritten};
use crate::repo::look::entries;
use crate::subset::Subset;
use crate::worktree::checkout::Refusal;
use crate::worktree::scan::{DirScan, ScanOptions, State, scan};
use crate::worktree::select::Paths;
use crate::worktree::snapshot::Problem;
use crate::worktree::{Skip, join};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Whether a worktree is at its last known path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorktreeState {
    /// The worktree is there.
    Here,
    /// The directory is gone: it was deleted, or it was moved and not used since.
    Missing,
}

/// One worktree of a repository.
#[derive(Clone, Debug)]
pub struct WorktreeInfo {
    /// Its name in the repository.
    pub name: String,
    /// Its last known path.
    pub path: PathBuf,
    /// Its head.
    pub head: Head,
    /// The head's commit, if there is one.
    pub commit: Option<ObjectId>,
    /// Whether it is the worktree that the repository was opened in.
    pub current: bool,
    /// Whether it is at its last known path.
    pub state: WorktreeState,
}

/// Where to add a worktree, and its head.
pub struct AddOptions {
    /// The directory. It must be missing, empty, or left by an attempt that was cut off.
    pub dir: PathBuf,
    /// The head of the new worktree.
    pub head: Head,
    /// The commit. A branch that does not exist yet is made at this commit.
    pub commit: ObjectId,
    /// The paths that it has.
    pub subset: Subset,
    /// How files are read into the store.
    pub settings: WorktreeSettings,
    /// What the operation log records about the request.
    pub request: OperationRequest,
}

/// A worktree that was added.
#[derive(Debug)]
pub struct AddReport {
    /// The worktree.
    pub info: WorktreeInfo,
    /// The number of files and symlinks written.
    pub files: u64,
    /// The bytes written.
    pub bytes: u64,
    /// Paths that could not be written, and why.
    pub refused: Vec<crate::worktree::snapshot::Problem>,
}

/// The uncommitted files stored before a worktree is removed.
#[derive(Default)]
struct KeptFiles {
    /// The commit that keeps the files.
    commit: Option<ObjectId>,
    told: OverwrittenFiles,
    /// The fingerprint of each uncommitted file at the time when it was stored.
    seen: BTreeMap<Vec<u8>, Option<Fingerprint>>,
}

/// Returns all worktrees by name, the repository's own first.
pub(in crate::repo) fn worktrees(repo: &Handle) -> Result<Vec<WorktreeInfo>, RepoError> {
    let mut out = Vec::new();
    for (key, value) in repo.refs.with_prefix("worktree/")? {
        let name = key.strip_prefix("worktree/");
        let Some(name) = name.and_then(|rest| rest.strip_suffix("/path")) else {
            continue;
        };
        out.push(worktree_info(repo, name, PathBuf::from(string_of(value)))?);
    }
    out.sort_by_key(|info| info.name != MAIN);
    Ok(out)
}

fn worktree_info(repo: &Handle, name: &str, path: PathBuf) -> Result<WorktreeInfo, RepoError> {
    let current = worktree::worktree_name(repo).is_ok_and(|here| here == name);
    let path = match (current, worktree::worktree_root(repo), repo.dmv.parent()) {
        (true, Some(root), _) => root.to_owned(),
        (false, _, Some(root)) if name == MAIN => root.to_owned(),
        _ => path,
    };
    let key = head_key(name);
    let head = repo.refs.get(&key)?.as_deref().and_then(Head::parse);
    let head = head.ok_or_else(|| {
        RepoError::Place(PlaceError::Damaged {
            path: repo.refs.path().to_owned(),
            why: format!("{key} is missing or invalid"),
        })
    })?;
    let commit = match &head {
        Head::Commit(id) => Some(*id),
        Head::Branch(branch) => worktree::ref_id(repo, &format!("branch/{branch}"))?,
    };
    let is_here = name == MAIN || is_pointed_from(repo, &path, name);
    Ok(WorktreeInfo {
        name: name.to_owned(),
        path,
        head,
        commit,
        current,
        state: if is_here {
            WorktreeState::Here
        } else {
            WorktreeState::Missing
        },
    })
}

/// Returns whether the directory's `.dmv` file names this repository and the worktree `name`.
fn is_pointed_from(repo: &Handle, dir: &Path, name: &str) -> bool {
    Pointer::read(&dir.join(DMV_DIR)).is_ok_and(|pointer| {
        pointer.worktree == name && is_same_place(&pointer.repository, &repo.dmv)
    })
}

/// Makes a linked worktree in a directory of its own. Its head is a commit, or a branch that is not
/// the head of another worktree.
pub(in crate::repo) fn add_worktree(
    repo: &Handle,
    options: &AddOptions,
    job: &Job,
) -> Result<AddReport, RepoError> {
    let dir = absolute(&options.dir)?;
    refuse_inside(&dir)?;
    if let Some(report) = continue_adding(repo, &dir, options, job)? {
        return Ok(report);
    }
    whole::check_complete(repo, &[options.commit])?;
    let mut changes = Vec::new();
    if let Head::Branch(branch) = &options.head {
        branch::refuse_taken(repo, branch)?;
        let key = format!("branch/{branch}");
        match worktree::ref_id(repo, &key)? {
            None => {
                branch::check_new_name(repo, branch)?;
                changes.push(set(key, options.commit.as_bytes().to_vec()));
            }
            Some(id) if id == options.commit => {}
            Some(_) => {
                let name = branch.clone();
                return Err(BranchError::RefExists {
                    kind: "branch",
                    name,
                }
                .into());
            }
        }
    }
    let name = name_for(repo, &dir)?;
    changes.extend([
        set(head_key(&name), options.head.value()),
        set(path_key(&name), bytes_of(&dir).to_vec()),
        set(base_key(&name), options.commit.as_bytes().to_vec()),
    ]);
    let limit = checkout::subset_value(&options.subset);
    changes.extend(limit.map(|value| set(subset_key(&name), value)));
    let (request, settings) = (&options.request, &options.settings);
    let what = (options.commit, &options.subset, None);
    let made = set_up(
        repo,
        &name,
        &dir,
        what,
        None,
        (request, settings),
        job,
        || {
            publish::publish(repo, request.clone(), None, changes, Effect::Worktree)?;
            Ok(())
        },
    )?;
    Ok(AddReport {
        info: worktree_info(repo, &name, dir)?,
        files: made.files,
        bytes: made.bytes,
        refused: made.refused,
    })
}

/// Returns a free name for a worktree in `dir`, or the name that an earlier attempt gave it before
/// it was cut off. Refuses a directory that is not free.
fn name_for(repo: &Handle, dir: &Path) -> Result<String, RepoError> {
    let above = dir.parent().unwrap_or(dir);
    if let Ok(place) = layout::discover(above)
        && let Some((root, _)) = place.worktree
    {
        return Err(WorktreeError::NotFree {
            dir: dir.to_owned(),
            why: format!("it would be inside the worktree at {}", root.display()),
        }
        .into());
    }
    let taken = |name: &str| Ok::<_, RepoError>(repo.refs.get(&head_key(name))?.is_some());
    if let Ok(pointer) = Pointer::read(&dir.join(DMV_DIR))
        && is_same_place(&pointer.repository, &repo.dmv)
        && !taken(&pointer.worktree)?
    {
        return Ok(pointer.worktree);
    }
    refuse_unless_free(dir)?;
    let base: String = dir.file_name().unwrap_or_default().to_string_lossy().into();
    let good = |c: char| c.is_alphanumeric() || "-_.".contains(c);
    let base: String = base
        .chars()
        .take(60)
        .map(|c| if good(c) { c } else { '-' })
        .collect();
    let base = match check_ref_name(&base) {
        Ok(()) => base,
        Err(_) => "worktree".to_owned(),
    };
    let mut name = base.clone();
    let mut n = 1;
    while name == MAIN || taken(&name)? {
        n += 1;
        name = format!("{base}-{n}");
    }
    Ok(name)
}

/// Makes the directory of a worktree, writes the files of a commit in a subset with choices for its
/// conflicts, then calls `publish`. `brings` are the uncommitted files that an undo brings back.
#[expect(clippy::too_many_arguments, reason = "two callers, one step of both")]
pub(in crate::repo) fn set_up(
    repo: &Handle,
    name: &str,
    dir: &Path,
    (commit, subset, record): (ObjectId, &Subset, Option<Record>),
    brings: Option<(ObjectId, bool)>,
    (request, settings): (&OperationRequest, &WorktreeSettings),
    job: &Job,
    publish: impl FnOnce() -> Result<(), RepoError>,
) -> Result<SwitchResult, RepoError> {
    repo.check_own()?;
    std::fs::create_dir_all(dir)
        .context("create", dir)
        .map_err(RepoError::Io)?;
    let pointer = Pointer {
        repository: absolute(&repo.dmv)?,
        worktree: name.to_owned(),
    };
    pointer.write(&dir.join(DMV_DIR))?;
    let there = beside(repo, name, dir, Some(Head::Commit(commit)))?;
    let _lock = worktree::lock_worktree(&there)?;
    let tree = open_worktree::open(&there, settings)?;
    let brings = brings.map(|kept| plan_return(&there, &tree, kept, "adding this worktree"));
    let brings = brings.transpose()?;
    if let Some(brings) = &brings {
        brings.check_content_here(repo)?;
    }
    let to = SwitchTo {
        what: "adding this worktree",
        request,
        form: form::form_with(&there, &entries::read_commit(repo, &commit)?, record)?,
        subset,
        force: false,
        adopts: false,
        leaves: false,
        brings: brings.as_ref(),
        settings,
    };
    checkout::switch_files(&there, &tree, &to, job, |_| publish())
}

/// Opens this repository as another worktree sees it. `coming` is the head of a worktree that is
/// not in the view yet.
fn beside(
    repo: &Handle,
    name: &str,
    dir: &Path,
    coming: Option<Head>,
) -> Result<Handle, RepoError> {
    let place = RepositoryLocation {
        dmv: repo.dmv.clone(),
        worktree: Some((dir.to_owned(), name.to_owned())),
    };
    let mut there = open::open(place, repo.vfs.clone())?;
    there.coming = coming;
    there.whose = repo.whose;
    Ok(there)
}

/// Removes a worktree with its files, and returns what it was. Its branch stays.
pub(in crate::repo) fn remove_worktree(
    repo: &Handle,
    dir: &Path,
    force: bool,
    settings: &WorktreeSettings,
    request: OperationRequest,
    job: &Job,
) -> Result<(WorktreeInfo, OverwrittenFiles), RepoError> {
    let info = worktree_at(repo, dir)?;
    let told = take_down(
        repo,
        &info,
        (force, &request),
        settings,
        job,
        |kept, told| {
            let saved = saved_key(&info.name);
            let keys = repo.refs.with_prefix(&format!("worktree/{}/", info.name))?;
            let gone = |(key, value): (String, Vec<u8>)| Change {
                key,
                old: Some(value),
                new: None,
            };
            let mut changes: Vec<Change> = keys.into_iter().map(gone).collect();
            match kept {
                Some(id) => {
                    // The commit stays reachable only while this key names it.
                    changes.retain(|change| change.key != saved);
                    let value = Some(id.as_bytes().to_vec());
                    changes.push(change(&repo.refs, saved.clone(), value)?);
                }
                None => changes.extend(overwritten_changes(repo, &info.name, None, told)?),
            }
            publish::publish(repo, request.clone(), None, changes, Effect::Worktree)?;
            Ok(())
        },
    )?;
    Ok((info, told))
}

/// Stores everything that is in no commit, and publishes a record of it.
fn keep_uncommitted(
    repo: &Handle,
    request: &OperationRequest,
    settings: &WorktreeSettings,
    job: &Job,
) -> Result<KeptFiles, RepoError> {
    let tree = open_worktree::open(repo, settings)?;
    let paths = all_gone(&tree, uncommitted(repo, settings, job)?)?;
    // Files that an interrupted removal has kept are kept together with the others.
    let earlier = worktree::ref_id(repo, &saving_key(&tree.name))?;
    if paths.is_empty() && earlier.is_none() {
        return Ok(Default::default());
    }
    let how = (REMOVING, settings.keep, request);
    let taken = take(repo, &tree, (&paths, earlier), how, job)?;
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
    let Some((id, sealed)) = taken.kept else {
        return Ok(out);
    };
    let intent = vec![saving_change(repo, &tree.name, id)?];
    publish::publish(repo, request.clone(), Some(sealed), intent, Effect::Written)?;
    out.commit = Some(id);
    Ok(out)
}

/// Removes a worktree's files, then calls `publish` with the commit that keeps the uncommitted
/// files, and with how much they are.
pub(in crate::repo) fn take_down(
    repo: &Handle,
    info: &WorktreeInfo,
    (force, request): (bool, &OperationRequest),
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
    if info.state == WorktreeState::Missing {
        publish(None, &told)?;
    } else {
        let there = beside(repo, &info.name, &info.path, None)?;
        let _lock = worktree::lock_worktree(&there)?;
        let lost = if force {
            Vec::new()
        } else {
            uncommitted(&there, settings, job)?
        };
        if !lost.is_empty() {
            return Err(WorktreeError::WouldLoseThere {
                at: info.path.clone(),
                paths: DiskPath::all(lost),
            }
            .into());
        }
        let kept = if force {
            keep_uncommitted(&there, request, settings, job)?
        } else {
            Default::default()
        };
        told = kept.told;
        let stay = empty::remove_all_files(&there, settings, kept.seen, job)?;
        if !stay.is_empty() {
            return Err(not_removed(&info.path, stay));
        }
        remove_root(&info.path)?;
        publish(kept.commit, &told)?;
    }
    match std::fs::remove_dir_all(&own) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(io("remove", &own)(e)),
        _ => Ok(told),
    }
}

/// Returns everything that is on disk and in no commit.
fn uncommitted(
    repo: &Handle,
    settings: &WorktreeSettings,
    job: &Job,
) -> Result<Vec<Vec<u8>>, RepoError> {
    let select = Paths::default();
    let tree = open_worktree::open(repo, settings)?;
    let options = status::StatusOptions {
        select: &select,
        settings: settings.clone(),
    };
    let changes = status::changes_of(repo, &tree, &options, job)?;
    // Missing files are in the commit. A removal that was cut off leaves such paths, too.
    let changes = changes
        .into_iter()
        .filter(|c| c.kind != ChangeKind::Deleted);
    let mut lost: Vec<Vec<u8>> = changes.map(|change| change.path.into_bytes()).collect();
    let known = tree.known(repo);
    let options = ScanOptions {
        list_ignored: true,
        ..tree.scan_options(&*known, &select, job)
    };
    scan(&tree.root, &options, |dir: DirScan| {
        for (name, state) in dir.entries() {
            let path = join(&dir.path, name);
            let own = path == DMV_DIR.as_bytes();
            match state {
                State::Ignored { .. } | State::Held { .. } | State::Outside { .. } => {
                    lost.push(path);
                }
                State::Skipped { reason, .. } if !own && !matches!(reason, Skip::Temporary) => {
                    lost.push(path);
                }
                _ => {}
            }
        }
        Ok::<_, RepoError>(())
    })?;
    Ok(lost)
}

/// Returns the worktree that is, or was, in `dir`.
fn worktree_at(repo: &Handle, dir: &Path) -> Result<WorktreeInfo, RepoError> {
    let wanted = absolute(dir)?;
    let mut all = worktrees(repo)?.into_iter();
    all.find(|info| info.path == wanted || is_same_place(&info.path, &wanted))
        .ok_or(RepoError::Worktree(WorktreeError::NoSuchWorktree(wanted)))
}

/// Returns the former path of this worktree if the user has moved it, or `None` if it is at the
/// path that the view stores.
pub(in crate::repo) fn moved_from(repo: &Handle) -> Result<Option<PathBuf>, RepoError> {
    let Some((root, name)) = &repo.worktree else {
        return Ok(None);
    };
    let Some(path) = repo.refs.get(&path_key(name))? else {
        return Ok(None);
    };
    let path = PathBuf::from(string_of(path));
    Ok((path != *root && !is_same_place(&path, root)).then_some(path))
}

/// Writes the files that an earlier attempt to add the same worktree could not write. Returns
/// `None` if there is no such worktree or if it lacks no files.
fn continue_adding(
    repo: &Handle,
    dir: &Path,
    options: &AddOptions,
    job: &Job,
) -> Result<Option<AddReport>, RepoError> {
    let Ok(info) = worktree_at(repo, dir) else {
        return Ok(None);
    };
    let is_same = info.head == options.head && info.commit == Some(options.commit);
    if info.state != WorktreeState::Here || !is_same {
        return Ok(None);
    }
    let there = beside(repo, &info.name, &info.path, None)?;
    if unwritten::noted_unwritten(&there)?.is_empty() {
        return Ok(None);
    }
    let target = match &info.head {
        Head::Branch(name) => CheckoutTarget::Branch(name.clone()),
        Head::Commit(id) => CheckoutTarget::Commit(*id),
    };
    let how = CheckoutOptions {
        subset: Some(options.subset.clone()),
        force: false,
        settings: options.settings.clone(),
        request: options.request.clone(),
    };
    let done = checkout::checkout(&there, target, &how, job)?;
    Ok(Some(AddReport {
        info,
        files: done.files,
        bytes: done.bytes,
        refused: done.refused,
    }))
}

/// Stores the present path of this worktree in the view. If this is the repository's own worktree,
/// it also corrects the `.dmv` files of linked worktrees that still name its former path.
pub(in crate::repo) fn note_place(
    repo: &Handle,
    request: OperationRequest,
) -> Result<bool, RepoError> {
    let Some((root, name)) = &repo.worktree else {
        return Ok(false);
    };
    if repo.refs.try_lock_database()?.is_none() {
        return Ok(false);
    }
    let path = bytes_of(&root).to_vec();
    let changes = vec![change(&repo.refs, path_key(name), Some(path))?];
    publish::publish(repo, request, None, changes, Effect::Worktree)?;
    if name == MAIN {
        for info in worktrees(repo)? {
            let file = info.path.join(DMV_DIR);
            if let Ok(pointer) = Pointer::read(&file)
                && info.name != MAIN
                && pointer.worktree == info.name
                && !pointer.repository.exists()
            {
                point_here(repo, &info.path, &info.name)?;
            }
        }
    }
    Ok(true)
}

/// Connects the worktree in `dir` with this repository again, after the worktree or the repository
/// was moved.
pub(in crate::repo) fn repair_worktree(
    repo: &Handle,
    dir: &Path,
    request: OperationRequest,
) -> Result<WorktreeInfo, RepoError> {
    let dir = absolute(dir)?;
    let pointer = Pointer::read(&dir.join(DMV_DIR))?;
    let name = pointer.worktree;
    let key = path_key(&name);
    if repo.refs.get(&key)?.is_none() {
        return Err(WorktreeError::NoSuchWorktree(dir).into());
    }
    if pointer.repository.exists() && !is_same_place(&pointer.repository, &repo.dmv) {
        return Err(WorktreeError::NoSuchWorktree(dir).into());
    }
    refuse_copy(repo, &dir, &name)?;
    point_here(repo, &dir, &name)?;
    let path = bytes_of(&dir).to_vec();
    let changes = vec![change(&repo.refs, key, Some(path))?];
    if changes.iter().any(|c| c.old != c.new) {
        publish::publish(repo, request, None, changes, Effect::Worktree)?;
    }
    worktree_info(repo, &name, dir)
}

fn point_here(repo: &Handle, dir: &Path, name: &str) -> Result<(), RepoError> {
    let pointer = Pointer {
        repository: absolute(&repo.dmv)?,
        worktree: name.to_owned(),
    };
    pointer.write(&dir.join(DMV_DIR))
}

/// Refuses a linked worktree that the view does not know, or that is a copy of another one.
pub(in crate::repo) fn check_place(repo: &Handle) -> Result<(), RepoError> {
    let Some((root, name)) = repo.worktree.as_ref().filter(|(_, name)| name != MAIN) else {
        return Ok(());
    };
    match repo.refs.get(&path_key(name))? {
        Some(path) if path == bytes_of(&root) => Ok(()),
        Some(_) => refuse_copy(repo, root, name),
        None => Err(WorktreeError::NoSuchWorktree(root.clone()).into()),
    }
}

fn refuse_copy(repo: &Handle, dir: &Path, name: &str) -> Result<(), RepoError> {
    let at = repo.refs.get(&path_key(name))?.unwrap_or_default();
    let at = PathBuf::from(string_of(at));
    if !is_same_place(&at, dir) && is_pointed_from(repo, &at, name) {
        Err(WorktreeError::WorktreeCopy {
            dir: dir.to_owned(),
            at,
        }
        .into())
    } else {
        Ok(())
    }
}

/// Names the action in messages that refuse it.
const REMOVING: &str = "removing this worktree";

/// What an operation did to a whole worktree, if it did anything.
pub(in crate::repo) enum WholeWorktree {
    /// It added the worktree with this name.
    Came(String),
    /// It removed the worktree with this name, path and commit.
    Went(String, PathBuf, Option<Vec<u8>>),
    /// It changed only the path.
    Moved,
}

/// Returns what the `changes` of an operation with [`Effect::Worktree`] did.
pub(in crate::repo) fn whole_worktree(changes: &[Change]) -> WholeWorktree {
    for change in changes {
        let name = change.key.strip_prefix("worktree/");
        let Some(name) = name.and_then(|rest| rest.strip_suffix("/head")) else {
            continue;
        };
        let old = |key: String| {
            let found = changes.iter().find(|change| change.key == key);
            found.and_then(|change| change.old.clone())
        };
        if change.old.is_none() {
            return WholeWorktree::Came(name.to_owned());
        }
        let path = old(path_key(name)).unwrap_or_default();
        let path = PathBuf::from(string_of(path));
        return WholeWorktree::Went(name.to_owned(), path, old(base_key(name)));
    }
    WholeWorktree::Moved
}

/// Removes an emptied worktree directory with its `.dmv` file. Fails if other entries have
/// appeared.
fn remove_root(dir: &Path) -> Result<(), RepoError> {
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

fn absolute(path: &Path) -> Result<PathBuf, RepoError> {
    let path = std::path::absolute(path).context("find", path);
    let path = path.map_err(RepoError::Io)?;
    // Resolve `..` and symlinks for the part of the path that exists.
    let mut rest = Vec::new();
    for above in path.ancestors() {
        if let Ok(real) = std::fs::canonicalize(above) {
            return Ok(rest.iter().rev().fold(real, |path, part| path.join(part)));
        }
        rest.extend(above.file_name().map(std::ffi::OsStr::to_owned));
    }
    Ok(path)
}

fn is_same_place(a: &Path, b: &Path) -> bool {
    match (std::fs::canonicalize(a), std::fs::canonicalize(b)) {
        (Ok(a), Ok(b)) => a == b,
        _ => false,
    }
}

pub(in crate::repo) fn refuse_unless_free(dir: &Path) -> Result<(), RepoError> {
    let not_free = |why: &str| {
        Err(WorktreeError::NotFree {
            dir: dir.to_owned(),
            why: why.to_owned(),
        }
        .into())
    };
    // A killed command may have left a temporary file. It belongs to nobody.
    let is_left = |entry: &std::io::Result<std::fs::DirEntry>| {
        let name = entry.as_ref().map(std::fs::DirEntry::file_name);
        name.is_ok_and(|name| is_temp_name(bytes_of(Path::new(&name))))
    };
    match std::fs::read_dir(dir) {
        Ok(entries) => {
            if entries.into_iter().all(|entry| is_left(&entry)) {
                Ok(())
            } else {
                not_free("the directory is not empty")
            }
        }
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(e) => not_free(&e.to_string()),
    }
}
