//! The worktree of an open repository: where it is, what it is on, its lock and stat cache.

use super::conflict::Form;
use super::{Repo, RepoError, layout};
use crate::fsutil::{SafeDir, is_temp_name};
use crate::hash::ObjectId;
use crate::limits::MAX_DIR_ENTRIES;
use crate::locks;
use crate::subset::Subset;
use crate::worktree::cacheupdate::STAT_NAME;
use crate::worktree::ignore::IgnoreRules;
use crate::worktree::known::TreeKnown;
use crate::worktree::scan::Known;
use crate::worktree::statcache::{StatCache, subset_check};
use std::fs::File;
use std::path::{Path, PathBuf};

pub(super) fn head_key(name: &str) -> String {
    format!("worktree/{name}/head")
}

pub(super) fn base_key(name: &str) -> String {
    format!("worktree/{name}/base")
}

pub(super) fn path_key(name: &str) -> String {
    format!("worktree/{name}/path")
}

pub(super) fn subset_key(name: &str) -> String {
    format!("worktree/{name}/subset")
}

pub(super) fn settled_key(name: &str) -> String {
    format!("worktree/{name}/settled")
}

/// The commit that keeps what the last command has overwritten: see `saved`.
pub(super) fn saved_key(name: &str) -> String {
    format!("worktree/{name}/saved")
}

/// The same of a command that has not finished.
pub(super) fn saving_key(name: &str) -> String {
    format!("worktree/{name}/saving")
}

/// What a worktree is on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Head {
    /// A branch, by name; it may have no commit yet.
    Branch(String),
    /// A commit, with no branch.
    Commit(ObjectId),
}

impl Head {
    /// The branch's name, if it is on one.
    pub fn branch(&self) -> Option<&str> {
        match self {
            Head::Branch(name) => Some(name),
            Head::Commit(_) => None,
        }
    }

    pub(super) fn value(&self) -> Vec<u8> {
        match self {
            Head::Branch(name) => format!("branch/{name}").into_bytes(),
            Head::Commit(id) => id.to_string().into_bytes(),
        }
    }

    pub(super) fn parse(value: &[u8]) -> Option<Head> {
        let text = std::str::from_utf8(value).ok()?;
        match text.strip_prefix("branch/") {
            Some(name) => Some(Head::Branch(name.to_owned())),
            None => ObjectId::from_hex(text).map(Head::Commit),
        }
    }
}

/// What a user can set about how files are taken in.
#[derive(Clone, Debug, Default)]
pub struct WorktreeSettings {
    /// Whether `.gitignore` files count, too.
    pub git_ignore: bool,
    /// The user's own ignore file.
    pub global_ignore: Option<PathBuf>,
    /// Whether names that other systems refuse are left out.
    pub portable_names: bool,
    /// How much of what a command overwrites is kept for an undo.
    pub keep: Keep,
}

/// How much of what a command overwrites on request is kept, so that an undo can bring it back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Keep {
    /// All of it.
    #[default]
    All,
    /// All of it; a command that overwrites more bytes is refused.
    UpTo(u64),
    /// All of it, or nothing where there are more bytes.
    UpToOrNothing(u64),
}

/// A worktree at work.
pub(super) struct Tree {
    pub root: SafeDir,
    pub name: String,
    /// Its own directory under `.dmv`.
    pub own: SafeDir,
    pub ignore: IgnoreRules,
    /// The commit whose tree the files were last made equal to.
    pub base: Option<ObjectId>,
    /// The tree that the files are compared with: that commit's, in its form.
    pub base_tree: Option<ObjectId>,
    /// How that form shows conflicts.
    pub form: Option<Form>,
    pub cache: Option<StatCache>,
    /// The paths of a commit that the worktree has.
    pub subset: Subset,
    /// Nobody has chosen that subset: the first commit of the worktree makes it last.
    pub has_implied_subset: bool,
    pub ignore_warnings: Vec<String>,
}

impl Tree {
    /// Whether the stat cache is of the base tree and the subset, so that it alone tells what is known.
    pub fn cache_fits(&self) -> bool {
        match (&self.cache, self.base_tree) {
            (Some(cache), Some(tree)) => {
                cache.base_tree() == tree && cache.subset() == subset_check(&self.subset)
            }
            _ => false,
        }
    }

    /// What the base has, for a scan.
    pub fn known<'a>(&'a self, repo: &'a Repo) -> Box<dyn Known + 'a> {
        match &self.cache {
            Some(cache) if self.cache_fits() => Box::new(ByCache {
                cache,
                tree: TreeKnown::new(repo.objects(), self.base_tree, None, &self.subset),
            }),
            older => Box::new(TreeKnown::new(
                repo.objects(),
                self.base_tree,
                older.as_ref(),
                &self.subset,
            )),
        }
    }
}

/// The stat cache, with the tree behind it for a section that is damaged or not there.
struct ByCache<'a> {
    cache: &'a StatCache,
    tree: TreeKnown<'a>,
}

impl Known for ByCache<'_> {
    fn section(
        &self,
        dir: &[u8],
    ) -> Result<Option<crate::worktree::statcache::Section>, Box<dyn std::error::Error + Send + Sync>>
    {
        match self.cache.section(dir) {
            Ok(Some(section)) => Ok(Some(section)),
            // The cache is derived: what it lacks says nothing about the directory.
            Ok(None) | Err(_) => self.tree.section(dir),
        }
    }
}

/// Whether a file in a worktree's own directory is one that was to be renamed.
fn is_leftover(name: &[u8]) -> bool {
    let noted = || {
        let rest = name.strip_prefix(b"switch.tmp");
        let rest = rest.or_else(|| name.strip_prefix(b"unwritten.tmp"));
        let rest = rest.or_else(|| name.strip_prefix(b"private.tmp"));
        rest.is_some_and(|pid| !pid.is_empty() && pid.iter().all(u8::is_ascii_digit))
    };
    is_temp_name(name) || noted()
}

/// Held while a command changes a worktree.
pub(super) struct WorktreeLock {
    _file: File,
}

impl Repo {
    /// The worktree's root, if this is one.
    pub fn worktree_root(&self) -> Option<&Path> {
        self.worktree.as_ref().map(|(root, _)| root.as_path())
    }

    pub(super) fn worktree_name(&self) -> Result<&str, RepoError> {
        self.worktree
            .as_ref()
            .map(|(_, name)| name.as_str())
            .ok_or(RepoError::NoWorktree)
    }

    /// What the worktree is on; in a bare repository, what a clone would be on.
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
            .ok_or_else(|| RepoError::Damaged {
                path: self.refs.path().to_owned(),
                why: format!("{key} is missing or invalid"),
            })
    }

    /// The commit that the worktree is on; `None` before the first.
    pub fn head_commit(&self) -> Result<Option<ObjectId>, RepoError> {
        match self.head()? {
            Head::Commit(id) => Ok(Some(id)),
            Head::Branch(name) => self.ref_id(&format!("branch/{name}")),
        }
    }

    /// The commit that the worktree's files were last made equal to.
    pub fn base_commit(&self) -> Result<Option<ObjectId>, RepoError> {
        self.ref_id(&base_key(self.worktree_name()?))
    }

    pub(super) fn ref_id(&self, key: &str) -> Result<Option<ObjectId>, RepoError> {
        let Some(value) = self.refs.get(key)? else {
            return Ok(None);
        };
        self.id_value(key, &value).map(Some)
    }

    /// The id that is the value of `key`.
    pub(super) fn id_value(&self, key: &str, value: &[u8]) -> Result<ObjectId, RepoError> {
        let bytes: [u8; 32] = value.try_into().map_err(|_| RepoError::Damaged {
            path: self.refs.path().to_owned(),
            why: format!("{key} is not an id"),
        })?;
        Ok(ObjectId::from_bytes(bytes))
    }

    /// Where a worktree was last known to be, for messages.
    pub(super) fn worktree_path(&self, name: &str) -> Result<String, RepoError> {
        let path = self.refs.get(&path_key(name))?.unwrap_or_default();
        Ok(String::from_utf8_lossy(&path).into_owned())
    }

    /// The paths of a commit that the worktree has. One that has no files yet is going to have those
    /// that the repository holds: nobody has asked for more.
    pub fn subset(&self) -> Result<Subset, RepoError> {
        let name = self.worktree_name()?;
        let value = self.refs.get(&subset_key(name))?;
        if value.is_none() && self.is_partial() && self.base_commit()?.is_none() {
            let slice = self.slice()?;
            return Ok(match slice.metadata_only {
                true => Subset::nothing(),
                false => slice.subset,
            });
        }
        self.subset_value(name, value.as_deref())
    }

    /// What the view's value for the subset of the worktree `name` means.
    pub(super) fn subset_value(
        &self,
        name: &str,
        value: Option<&[u8]>,
    ) -> Result<Subset, RepoError> {
        Subset::parse(value.unwrap_or_default()).map_err(|e| RepoError::Damaged {
            path: self.refs.path().to_owned(),
            why: format!("{} is invalid: {e}", subset_key(name)),
        })
    }

    pub(super) fn own_dir(&self) -> Result<PathBuf, RepoError> {
        let dir = self.dmv.join("worktrees").join(self.worktree_name()?);
        if !dir.is_dir() && !self.refs.is_read_only() {
            std::fs::create_dir_all(&dir).map_err(|source| RepoError::Io {
                action: "create",
                path: dir.clone(),
                source,
            })?;
        }
        Ok(dir)
    }

    /// Opens the worktree as it is recorded.
    pub(super) fn tree(&self, settings: &WorktreeSettings) -> Result<Tree, RepoError> {
        let root = SafeDir::open_root(self.worktree_root().ok_or(RepoError::NoWorktree)?)?;
        let own = SafeDir::open_root(&self.own_dir()?)?;
        let base = self.base_commit()?;
        let form = base.map(|id| self.form_at(&id)).transpose()?;
        let base_tree = form.as_ref().map(|form| form.tree);
        let cache = StatCache::open(&own, STAT_NAME, &self.id.0);
        let (ignore, warnings) =
            IgnoreRules::new(settings.global_ignore.as_deref(), settings.git_ignore);
        let ignore_warnings = warnings.iter().map(|w| w.to_string()).collect();
        let name = self.worktree_name()?.to_owned();
        let subset = self.subset()?;
        if let Some(form) = &form {
            form.check_known(|path| subset.includes(path, false))?;
        }
        Ok(Tree {
            root,
            has_implied_subset: base.is_none()
                && !subset.is_everything()
                && self.refs.get(&subset_key(&name))?.is_none(),
            subset,
            name,
            own,
            ignore,
            base,
            base_tree,
            form,
            cache,
            ignore_warnings,
        })
    }

    /// Waits for other commands on this worktree, some seconds at most.
    pub(super) fn lock_worktree(&self) -> Result<WorktreeLock, RepoError> {
        self.check_own()?;
        let file = lock_file(&self.own_dir()?.join("lock"))?;
        // What others have committed until now.
        self.store.refresh()?;
        self.tidy_own_dir();
        Ok(WorktreeLock { _file: file })
    }

    /// [`lock_worktree`](Self::lock_worktree), where there is one.
    pub(super) fn lock_if_worktree(&self) -> Result<Option<WorktreeLock>, RepoError> {
        match self.worktree_root() {
            Some(_) => self.lock_worktree().map(Some),
            None => Ok(None),
        }
    }

    /// Removes temporary files of commands that were killed from the worktree's own directory.
    ///
    /// With its lock held they are nobody's; a `status` without the lock may have one for a while,
    /// and gives it up in any case.
    fn tidy_own_dir(&self) {
        let Ok(own) = self.own_dir().and_then(|dir| Ok(SafeDir::open_root(&dir)?)) else {
            return;
        };
        let Ok(listing) = own.list(MAX_DIR_ENTRIES) else {
            return;
        };
        for (name, _) in listing.iter().filter(|(name, _)| is_leftover(name)) {
            // If it stays, no harm.
            let _ = own.unlink(name);
        }
    }

    /// The worktree's lock, unless another command has it.
    pub(super) fn try_lock_worktree(&self) -> Result<Option<WorktreeLock>, RepoError> {
        self.check_own()?;
        let path = self.own_dir()?.join("lock");
        let file = locks::try_take(&path).map_err(|source| unlockable(&path, source))?;
        Ok(file.map(|file| WorktreeLock { _file: file }))
    }
}

/// Waits for the exclusive lock of the file at `path`, which is made where it is missing, some
/// seconds at most. The lock goes with the handle.
pub(super) fn lock_file(path: &Path) -> Result<File, RepoError> {
    let taken = locks::take(path, locks::PATIENCE);
    taken
        .map_err(|source| unlockable(path, source))?
        .map_err(RepoError::Busy)
}

fn unlockable(path: &Path, source: std::io::Error) -> RepoError {
    RepoError::Io {
        action: "lock",
        path: path.to_owned(),
        source,
    }
}
