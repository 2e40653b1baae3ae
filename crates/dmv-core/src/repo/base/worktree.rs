//! The worktree of an open repository: its path, head, lock and own directory.

use crate::fsutil::{SafeDir, is_temp_name};
use crate::hash::ObjectId;
use crate::limits::MAX_DIR_ENTRIES;
use crate::locks;
use crate::path::PathContext;
use crate::platform::create_own_dirs;
use crate::repo::base::error::{PlaceError, RepoError, WorktreeError};
use crate::repo::base::head::Head;
use crate::repo::base::keys::{base_key, head_key, path_key, previous_key, subset_key};
use crate::repo::base::lock::{lock_file, unlockable};
use crate::repo::base::relying::Reliance;
use crate::repo::base::repo::Repo;
use crate::repo::base::{layout, relying};
use crate::subset::Subset;
use crate::worktree::properties::Properties;
use std::fs::File;
use std::path::{Path, PathBuf};

/// The user's settings for reading files of a worktree.
#[derive(Clone, Debug, Default)]
pub struct WorktreeSettings {
    /// Whether `.gitignore` files count, too.
    pub git_ignore: bool,
    /// The user's own ignore file.
    pub global_ignore: Option<PathBuf>,
    /// Whether to leave out names that other systems reject.
    pub portable_names: bool,
    /// What commits keep of files besides their content, where no attribute file says otherwise.
    pub properties: Properties,
    /// How much of the overwritten files is stored for an undo.
    pub keep: Keep,
    /// Directories that the user is in. No command removes one: in a removed directory, no further
    /// command would work.
    pub in_use: Vec<PathBuf>,
}

/// How much of the files that a command overwrites on request is stored, so that an undo can
/// restore them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Keep {
    /// Everything.
    #[default]
    All,
    /// Everything. A command that overwrites more than this many bytes fails.
    UpTo(u64),
    /// Everything, or nothing if there are more than this many bytes.
    UpToOrNothing(u64),
}

/// Returns whether a file in a worktree's own directory is a temporary file that was never renamed.
fn is_leftover(name: &[u8]) -> bool {
    let noted = || {
        let rest = name.strip_prefix(b"switch.tmp");
        let rest = rest.or_else(|| name.strip_prefix(b"unwritten.tmp"));
        let rest = rest.or_else(|| name.strip_prefix(b"private.tmp"));
        rest.is_some_and(|pid| !pid.is_empty() && pid.iter().all(u8::is_ascii_digit))
    };
    is_temp_name(name) || noted()
}

/// The lock that a command holds while it changes a worktree. As long as it holds it, it relies on
/// what it finds stored. A bare repository has no worktree to lock.
pub struct WorktreeLock {
    _file: Option<File>,
    _relying: Reliance,
}

impl Repo {
    /// Returns the root of the worktree that the repository was opened in, if any.
    pub fn worktree_root(&self) -> Option<&Path> {
        self.worktree.as_ref().map(|(root, _)| root.as_path())
    }
}

pub fn worktree_name(repo: &Repo) -> Result<&str, RepoError> {
    repo.worktree
        .as_ref()
        .map(|(_, name)| name.as_str())
        .ok_or(RepoError::Worktree(WorktreeError::NoWorktree))
}

impl Repo {
    /// Returns the worktree's head. In a bare repository, returns the head that a clone would start
    /// with.
    pub fn head(&self) -> Result<Head, RepoError> {
        let name = self
            .worktree
            .as_ref()
            .map_or(layout::MAIN, |(_, name)| name);
        let key = head_key(name);
        let value = self.refs.get(&key)?;
        value
            .as_deref()
            .and_then(Head::parse)
            .or_else(|| self.coming.clone())
            .ok_or_else(|| {
                RepoError::Place(PlaceError::Damaged {
                    path: self.refs.path().to_owned(),
                    why: format!("{key} is missing or invalid"),
                })
            })
    }
}

/// Returns the head that the worktree had before the last checkout, if there was one.
pub fn previous(repo: &Repo) -> Result<Option<Head>, RepoError> {
    let value = repo.refs.get(&previous_key(worktree_name(repo)?))?;
    Ok(value.as_deref().and_then(Head::parse))
}

impl Repo {
    /// Returns the commit of the head, or `None` before the first commit.
    pub fn head_commit(&self) -> Result<Option<ObjectId>, RepoError> {
        match self.head()? {
            Head::Commit(id) => Ok(Some(id)),
            Head::Branch(name) => ref_id(self, &format!("branch/{name}")),
        }
    }

    /// Returns the base of the worktree: the commit that its files were last made equal to.
    pub fn base_commit(&self) -> Result<Option<ObjectId>, RepoError> {
        ref_id(self, &base_key(worktree_name(self)?))
    }
}

pub fn ref_id(repo: &Repo, key: &str) -> Result<Option<ObjectId>, RepoError> {
    let Some(value) = repo.refs.get(key)? else {
        return Ok(None);
    };
    id_value(repo, key, &value).map(Some)
}

/// Parses the value of `key` as an id.
pub fn id_value(repo: &Repo, key: &str, value: &[u8]) -> Result<ObjectId, RepoError> {
    let bytes: [u8; 32] = value.try_into().map_err(|_| {
        RepoError::Place(PlaceError::Damaged {
            path: repo.refs.path().to_owned(),
            why: format!("{key} is not an id"),
        })
    })?;
    Ok(ObjectId::from_bytes(bytes))
}

/// Returns the last known path of a worktree, for messages.
pub fn worktree_path(repo: &Repo, name: &str) -> Result<String, RepoError> {
    let path = repo.refs.get(&path_key(name))?.unwrap_or_default();
    Ok(String::from_utf8_lossy(&path).into_owned())
}

impl Repo {
    /// Returns the subset of the worktree.
    ///
    /// A worktree without files will get the paths that the repository stores, because nobody has
    /// asked for more.
    pub fn subset(&self) -> Result<Subset, RepoError> {
        let name = worktree_name(self)?;
        let value = self.refs.get(&subset_key(name))?;
        if value.is_none() && self.is_partial() && self.base_commit()?.is_none() {
            let slice = self.slice()?;
            return Ok(if slice.metadata_only {
                Subset::nothing()
            } else {
                slice.subset
            });
        }
        subset_value(self, name, value.as_deref())
    }
}

/// Parses the view's value for the subset of the worktree `name`.
pub fn subset_value(repo: &Repo, name: &str, value: Option<&[u8]>) -> Result<Subset, RepoError> {
    Subset::parse(value.unwrap_or_default()).map_err(|e| {
        RepoError::Place(PlaceError::Damaged {
            path: repo.refs.path().to_owned(),
            why: format!("{} is invalid: {e}", subset_key(name)),
        })
    })
}

pub fn own_dir(repo: &Repo) -> Result<PathBuf, RepoError> {
    let dir = own_dir_in(&repo.dmv, worktree_name(repo)?);
    if !dir.is_dir() && !repo.refs.is_read_only() {
        create_own_dirs(&dir)
            .context("create", &dir)
            .map_err(RepoError::Io)?;
    }
    Ok(dir)
}

/// Returns the own directory of the worktree `name` in the repository's directory `dmv`.
pub fn own_dir_in(dmv: &Path, name: &str) -> PathBuf {
    dmv.join("worktrees").join(name)
}

/// Returns the own directories of all worktrees, also of those whose files are gone.
pub fn own_dirs(repo: &Repo) -> Result<Vec<PathBuf>, RepoError> {
    let dir = repo.dmv.join("worktrees");
    let listed = || -> std::io::Result<Vec<PathBuf>> {
        let entries = std::fs::read_dir(&dir)?;
        entries.map(|entry| Ok(entry?.path())).collect()
    };
    match listed() {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
        listed => listed.context("list", &dir).map_err(RepoError::Io),
    }
}

/// Waits for other commands on this worktree, a few seconds at most.
pub fn lock_worktree(repo: &Repo) -> Result<WorktreeLock, RepoError> {
    repo.check_own()?;
    let file = lock_file(&own_dir(repo)?.join("lock"))?;
    // See everything that other commands have committed until now.
    let relying = relying::rely(repo)?;
    tidy_own_dir(repo);
    Ok(WorktreeLock {
        _file: Some(file),
        _relying: relying,
    })
}

/// Locks the worktree as [`lock_worktree`] does, if the repository was opened in one.
pub fn lock_if_worktree(repo: &Repo) -> Result<WorktreeLock, RepoError> {
    match repo.worktree_root() {
        Some(_) => lock_worktree(repo),
        None => Ok(WorktreeLock {
            _file: None,
            _relying: relying::rely(repo)?,
        }),
    }
}

/// Removes temporary files of killed commands from the worktree's own directory.
///
/// While the lock is held, no command needs these files. A `status` without the lock may have one
/// for a short time, and can lose it without harm.
fn tidy_own_dir(repo: &Repo) {
    let Ok(own) = own_dir(repo).and_then(|dir| Ok(SafeDir::open_root(&dir)?)) else {
        return;
    };
    let Ok(listing) = own.list(MAX_DIR_ENTRIES) else {
        return;
    };
    for (name, _) in listing.iter().filter(|(name, _)| is_leftover(name)) {
        // A file that stays does no harm.
        let _ = own.unlink(name);
    }
}

/// Takes the worktree's lock. Returns `None` if another command holds it.
pub fn try_lock_worktree(repo: &Repo) -> Result<Option<WorktreeLock>, RepoError> {
    repo.check_own()?;
    let path = own_dir(repo)?.join("lock");
    let file = locks::try_take(&path).map_err(|source| unlockable(&path, source))?;
    let Some(file) = file else {
        return Ok(None);
    };
    Ok(Some(WorktreeLock {
        _file: Some(file),
        _relying: relying::rely(repo)?,
    }))
}
