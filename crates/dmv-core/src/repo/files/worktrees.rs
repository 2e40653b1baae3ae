//! Linked worktrees of one repository: add, list, remove, and repair after a move.
//!
//! Each worktree has its own head, base, stat cache and lock, so commits from several worktrees
//! never wait for each other's data. A `.dmv` file in the worktree names the repository. The view
//! stores the worktree's path.

use crate::fsutil::is_temp_name;
use crate::hash::ObjectId;
use crate::job::Job;
use crate::path::PathContext;
use crate::platform::{bytes_of, string_of, whole_path};
use crate::refs::{Change, Effect, RefsError, check_ref_name};
use crate::repo::base::error::{BranchError, PlaceError, RepoError, WorktreeError};
use crate::repo::base::head::Head;
use crate::repo::base::keys::{base_key, head_key, path_key, subset_key};
use crate::repo::base::layout::{DMV_DIR, MAIN, Pointer, RepositoryLocation};
use crate::repo::base::notes::PathNotes;
use crate::repo::base::publish::{OperationRequest, change, set};
use crate::repo::base::repo::Repo;
use crate::repo::base::steps::Steps;
use crate::repo::base::transaction::Transaction;
use crate::repo::base::vacancy::refuse_inside;
use crate::repo::base::worktree::WorktreeSettings;
use crate::repo::base::{branch, layout, whole, worktree};
use crate::repo::conflict::form;
use crate::repo::files::checkout::target::{SwitchResult, SwitchTo};
use crate::repo::files::checkout::{CheckoutOptions, CheckoutTarget};
use crate::repo::files::saved::plan_return;
use crate::repo::files::worktrees::removal::remove_root;
use crate::repo::files::{checkout, lean, open_worktree, unwritten};
use crate::subset::Subset;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

pub mod removal;

/// Whether a worktree is at its last known path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorktreeState {
    /// The worktree is there.
    Here,
    /// The directory is gone: it was deleted, or it was moved and not used since.
    Missing,
    /// The system does not let this user look at it.
    Hidden,
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

impl Repo {
    /// Returns all worktrees sorted by name, the main worktree first.
    pub fn worktrees(&self) -> Result<Vec<WorktreeInfo>, RepoError> {
        let mut out = Vec::new();
        for (key, value) in self.refs.with_prefix("worktree/")? {
            let name = key.strip_prefix("worktree/");
            let Some(name) = name.and_then(|rest| rest.strip_suffix("/path")) else {
                continue;
            };
            out.push(worktree_info(self, name, PathBuf::from(string_of(value)))?);
        }
        out.sort_by_key(|info| info.name != MAIN);
        Ok(out)
    }
}

fn worktree_info(repo: &Repo, name: &str, path: PathBuf) -> Result<WorktreeInfo, RepoError> {
    let current = worktree::worktree_name(repo).is_ok_and(|here| here == name);
    let path = match (current, repo.worktree_root(), repo.dmv.parent()) {
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
    Ok(WorktreeInfo {
        name: name.to_owned(),
        head,
        commit,
        current,
        state: match is_pointed_from(repo, &path, name) {
            Ok(is_here) if is_here || name == MAIN => WorktreeState::Here,
            Ok(_) => WorktreeState::Missing,
            Err(_) => WorktreeState::Hidden,
        },
        path,
    })
}

/// Returns whether the directory's `.dmv` file names this repository and the worktree `name`. Fails if
/// the system does not let this user look.
fn is_pointed_from(repo: &Repo, dir: &Path, name: &str) -> Result<bool, RepoError> {
    match Pointer::read(&dir.join(DMV_DIR)) {
        Ok(pointer) => {
            Ok(pointer.worktree == name && is_same_place(&pointer.repository, &repo.dmv))
        }
        Err(RepoError::Io(e)) if e.source.kind() == io::ErrorKind::PermissionDenied => {
            Err(RepoError::Io(e))
        }
        Err(_) => Ok(false),
    }
}

/// Returns whether a worktree is at its last known path. Fails if this user may not look there.
pub fn is_here(repo: &Repo, info: &WorktreeInfo) -> Result<bool, RepoError> {
    Ok(info.name == MAIN || is_pointed_from(repo, &info.path, &info.name)?)
}

impl Repo {
    /// Creates a worktree in a directory of its own, on a commit or on a branch that no other
    /// worktree is on.
    ///
    /// The view does not list the worktree before it is complete. After an interruption, the same
    /// command continues.
    pub fn add_worktree(&self, options: &AddOptions, job: &Job) -> Result<AddReport, RepoError> {
        let dir = absolute(&options.dir)?;
        refuse_inside(&dir)?;
        if let Some(report) = continue_adding(self, &dir, options, job)? {
            return Ok(report);
        }
        whole::check_complete(self, &[options.commit])?;
        let mut changes = Vec::new();
        if let Head::Branch(branch) = &options.head {
            branch::refuse_taken(self, branch)?;
            let key = format!("branch/{branch}");
            match worktree::ref_id(self, &key)? {
                None => {
                    branch::check_new_name(self, branch)?;
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
        let name = name_for(self, &dir)?;
        changes.extend([
            set(head_key(&name), options.head.value()),
            set(path_key(&name), bytes_of(&dir).to_vec()),
            set(base_key(&name), options.commit.as_bytes().to_vec()),
        ]);
        let limit = checkout::subset_value(&options.subset);
        changes.extend(limit.map(|value| set(subset_key(&name), value)));
        let (request, settings) = (&options.request, &options.settings);
        let new = NewWorktree {
            name: &name,
            dir: &dir,
            commit: options.commit,
            subset: &options.subset,
            notes: &PathNotes::default(),
            brings: None,
            request,
            settings,
        };
        let made = set_up(self, &new, job, || {
            let tx = Transaction::begin(self, request).with(changes);
            tx.publish(Effect::Worktree).map(drop)
        })?;
        Ok(AddReport {
            info: worktree_info(self, &name, dir)?,
            files: made.files,
            bytes: made.bytes,
            refused: made.refused,
        })
    }
}

/// Returns a free name for a worktree in `dir`, or the name that an earlier attempt gave it before
/// it was cut off. Refuses a directory that is not free.
fn name_for(repo: &Repo, dir: &Path) -> Result<String, RepoError> {
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

/// A worktree that is to be made.
pub struct NewWorktree<'a> {
    pub name: &'a str,
    pub dir: &'a Path,
    pub commit: ObjectId,
    pub subset: &'a Subset,
    /// Notes with choices for conflicts of the commit.
    pub notes: &'a PathNotes,
    /// The steps whose overwritten files an undo brings back, or takes away again (`false`).
    pub brings: Option<(&'a Steps, bool)>,
    pub request: &'a OperationRequest,
    pub settings: &'a WorktreeSettings,
}

/// Makes the directory of a worktree, writes its files, then calls `publish`.
///
/// If this fails before it has written a file, it leaves no directory.
pub fn set_up(
    repo: &Repo,
    new: &NewWorktree<'_>,
    job: &Job,
    publish: impl FnOnce() -> Result<(), RepoError>,
) -> Result<SwitchResult, RepoError> {
    repo.check_own()?;
    if repo.refs.is_read_only() {
        return Err(RefsError::ReadOnly(repo.refs.path().to_owned()).into());
    }
    let dir = new.dir;
    let above = dir.ancestors().find(|above| above.exists());
    std::fs::create_dir_all(dir)
        .context("create", dir)
        .map_err(RepoError::Io)?;
    point_here(repo, dir, new.name)?;
    let done = fill(repo, new, job, publish);
    if done.is_err() && remove_root(dir).is_ok() {
        let made = dir.ancestors().skip(1);
        for dir in made.take_while(|dir| Some(*dir) != above) {
            // A directory that has got something else stays.
            let _ = std::fs::remove_dir(dir);
        }
        let _ = std::fs::remove_dir_all(repo.dmv.join("worktrees").join(new.name));
    }
    done
}

/// Writes the files of a new worktree, whose directory is there.
fn fill(
    repo: &Repo,
    new: &NewWorktree<'_>,
    job: &Job,
    publish: impl FnOnce() -> Result<(), RepoError>,
) -> Result<SwitchResult, RepoError> {
    let (what, settings) = ("adding this worktree", new.settings);
    let there = beside(repo, new.name, new.dir, Some(Head::Commit(new.commit)))?;
    let _lock = worktree::lock_worktree(&there)?;
    let tree = open_worktree::open(&there, settings)?;
    let brings = new.brings;
    let brings = brings.map(|kept| plan_return(&there, &tree, kept, what));
    let brings = brings.transpose()?;
    if let Some(brings) = &brings {
        brings.check_content_here(repo)?;
    }
    let commit = repo.read_commit(&new.commit)?;
    let form = form::form_with(&there, &commit, new.notes)?;
    lean::store_lean_of(repo, commit.tree, new.subset, job)?;
    let to = SwitchTo {
        subset: new.subset,
        brings: brings.as_ref(),
        ..SwitchTo::new(what, new.request, form, &tree, settings)
    };
    let own = Transaction::begin(&there, new.request);
    checkout::switch_files(own, &tree, &to, job, |_| publish())
}

/// Opens this repository as another worktree sees it. `coming` is the head of a worktree that is
/// not in the view yet.
fn beside(repo: &Repo, name: &str, dir: &Path, coming: Option<Head>) -> Result<Repo, RepoError> {
    let place = RepositoryLocation {
        dmv: repo.dmv.clone(),
        worktree: Some((dir.to_owned(), name.to_owned())),
    };
    let mut there = Repo::open_place_on(place, repo.vfs.clone())?;
    there.store.share_blocks_as(&repo.store);
    if repo.is_lean() {
        there.be_lean();
    }
    there.coming = coming;
    there.whose = repo.whose;
    Ok(there)
}

/// Returns the worktree that is, or was, in `dir`.
fn worktree_at(repo: &Repo, dir: &Path) -> Result<WorktreeInfo, RepoError> {
    let wanted = absolute(dir)?;
    let mut all = repo.worktrees()?.into_iter();
    all.find(|info| info.path == wanted || is_same_place(&info.path, &wanted))
        .ok_or(RepoError::Worktree(WorktreeError::NoSuchWorktree(wanted)))
}

impl Repo {
    /// Returns the former path of this worktree if the user has moved it, or `None` if it is at the
    /// path that the view stores.
    pub fn moved_from(&self) -> Result<Option<PathBuf>, RepoError> {
        let Some((root, name)) = &self.worktree else {
            return Ok(None);
        };
        let is_in_place = &self.remembered.is_in_place;
        if is_in_place.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let Some(path) = self.refs.get(&path_key(name))? else {
            return Ok(None);
        };
        let path = PathBuf::from(string_of(path));
        if path != *root && !is_same_place(&path, root) {
            return Ok(Some(path));
        }
        is_in_place.store(true, Ordering::Relaxed);
        Ok(None)
    }
}

/// Writes the files that an earlier attempt to add the same worktree could not write. Returns
/// `None` if there is no such worktree or if it lacks no files.
fn continue_adding(
    repo: &Repo,
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
    let done = there.checkout(target, &how, job)?;
    Ok(Some(AddReport {
        info,
        files: done.files,
        bytes: done.bytes,
        refused: done.refused,
    }))
}

impl Repo {
    /// Records the current path of this worktree. In the main worktree, also corrects the `.dmv`
    /// files of other worktrees that still name its former path.
    ///
    /// Returns `false` and records nothing if another command is changing the database, because
    /// this note is not worth waiting for.
    pub fn note_place(&self, request: OperationRequest) -> Result<bool, RepoError> {
        let Some((root, name)) = &self.worktree else {
            return Ok(false);
        };
        if self.refs.try_lock_database()?.is_none() {
            return Ok(false);
        }
        let path = bytes_of(&root).to_vec();
        let change = change(&self.refs, path_key(name), Some(path))?;
        let tx = Transaction::begin(self, &request).with([change]);
        tx.publish(Effect::Worktree)?;
        if name == MAIN {
            for info in self.worktrees()? {
                let file = info.path.join(DMV_DIR);
                if let Ok(pointer) = Pointer::read(&file)
                    && info.name != MAIN
                    && pointer.worktree == info.name
                    && !pointer.repository.exists()
                {
                    point_here(self, &info.path, &info.name)?;
                }
            }
        }
        Ok(true)
    }

    /// Connects the worktree in `dir` with this repository again, after the worktree or the repository
    /// was moved.
    pub fn repair_worktree(
        &self,
        dir: &Path,
        request: OperationRequest,
    ) -> Result<WorktreeInfo, RepoError> {
        let dir = absolute(dir)?;
        let pointer = Pointer::read(&dir.join(DMV_DIR))?;
        let name = pointer.worktree;
        let key = path_key(&name);
        if self.refs.get(&key)?.is_none() {
            return Err(WorktreeError::NoSuchWorktree(dir).into());
        }
        if pointer.repository.exists() && !is_same_place(&pointer.repository, &self.dmv) {
            return Err(WorktreeError::NoSuchWorktree(dir).into());
        }
        refuse_copy(self, &dir, &name)?;
        point_here(self, &dir, &name)?;
        let path = bytes_of(&dir).to_vec();
        let mut tx = Transaction::begin(self, &request);
        tx.set(key, Some(path))?;
        tx.publish_changes(Effect::Worktree)?;
        worktree_info(self, &name, dir)
    }
}

fn point_here(repo: &Repo, dir: &Path, name: &str) -> Result<(), RepoError> {
    let pointer = Pointer {
        repository: absolute(&repo.dmv)?,
        worktree: name.to_owned(),
    };
    pointer.write(&dir.join(DMV_DIR))
}

/// Refuses a linked worktree that the view does not know, or that is a copy of another one.
pub fn check_place(repo: &Repo) -> Result<(), RepoError> {
    let Some((root, name)) = repo.worktree.as_ref().filter(|(_, name)| name != MAIN) else {
        return Ok(());
    };
    match repo.refs.get(&path_key(name))? {
        Some(path) if path == bytes_of(&root) => Ok(()),
        Some(_) => refuse_copy(repo, root, name),
        None => Err(WorktreeError::NoSuchWorktree(root.clone()).into()),
    }
}

fn refuse_copy(repo: &Repo, dir: &Path, name: &str) -> Result<(), RepoError> {
    let at = repo.refs.get(&path_key(name))?.unwrap_or_default();
    let at = PathBuf::from(string_of(at));
    // What this user may not look at may be the original.
    let is_copy = || !matches!(is_pointed_from(repo, &at, name), Ok(false));
    if !is_same_place(&at, dir) && is_copy() {
        Err(WorktreeError::WorktreeCopy {
            dir: dir.to_owned(),
            at,
        }
        .into())
    } else {
        Ok(())
    }
}

/// What an operation did to a whole worktree, if it did anything.
pub enum WholeWorktree {
    /// It added the worktree with this name.
    Came(String),
    /// It removed the worktree with this name, path and commit.
    Went(String, PathBuf, Option<Vec<u8>>),
    /// It changed only the path.
    Moved,
}

/// Returns what the `changes` of an operation with [`Effect::Worktree`] did.
pub fn whole_worktree(changes: &[Change]) -> WholeWorktree {
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

fn absolute(path: &Path) -> Result<PathBuf, RepoError> {
    let path = std::path::absolute(path).context("find", path);
    let path = path.map_err(RepoError::Io)?;
    // Resolve `..` and symlinks for the part of the path that exists.
    let mut rest = Vec::new();
    for above in path.ancestors() {
        if let Ok(real) = whole_path(above) {
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

pub fn refuse_unless_free(dir: &Path) -> Result<(), RepoError> {
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
