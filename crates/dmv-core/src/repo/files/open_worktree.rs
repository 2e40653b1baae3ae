//! A worktree in use: its root, base, subset, ignore rules and stat cache, opened together.
//!
//! Every command on the worktree's files starts with [`open`].

use crate::fsutil::{FileKind, Inode, SafeDir};
use crate::hash::ObjectId;
use crate::job::Job;
use crate::object::name::RepoPath;
use crate::object::tree::{Kind, TreeEntry};
use crate::platform::NAMES_MAY_MEET;
use crate::repo::base::error::{RepoError, WorktreeError};
use crate::repo::base::keys::subset_key;
use crate::repo::base::notes;
use crate::repo::base::notes::PathNotes;
use crate::repo::base::repo::Repo;
use crate::repo::base::worktree;
use crate::repo::base::worktree::WorktreeSettings;
use crate::repo::conflict;
use crate::repo::conflict::form;
use crate::repo::conflict::form::Form;
use crate::repo::conflict::pending::PendingConflict;
use crate::repo::conflict::settle::stat_of;
use crate::repo::files::pending::Which;
use crate::repo::files::untracked::UntrackNotes;
use crate::repo::files::{pending, untracked, unwritten};
use crate::subset::Subset;
use crate::worktree::base::TreeBase;
use crate::worktree::cacheupdate::STAT_NAME;
use crate::worktree::ignore::IgnoreRules;
use crate::worktree::properties::{AttributeFiles, Properties, PropertyRules};
use crate::worktree::scan::{BaseEntries, ScanOptions, Select};
use crate::worktree::split_path;
use crate::worktree::statcache::{StatCache, subset_check};
use std::path::Path;
use std::sync::Arc;

/// A worktree in use.
pub struct OpenWorktree {
    pub root: SafeDir,
    pub name: String,
    /// The worktree's own directory under `.dmv`.
    pub own: SafeDir,
    pub ignore: IgnoreRules,
    /// What commits keep of files besides their content.
    pub properties: PropertyRules,
    /// The commit whose tree the files were last made equal to.
    pub base: Option<ObjectId>,
    /// The tree that the files are compared with: the base's tree in its form.
    pub base_tree: Option<ObjectId>,
    /// How that form shows conflicts.
    pub form: Option<Form>,
    /// What is noted of paths.
    pub notes: PathNotes,
    /// Conflicts that no commit has yet. They are not in that form, unless
    /// [`open_with_conflicts`] has moved them there.
    pub pending: Vec<PendingConflict>,
    pub cache: Option<StatCache>,
    /// The files that the next commit leaves out.
    pub untracked: UntrackNotes,
    /// The worktree's subset.
    pub subset: Subset,
    /// Whether that subset was not chosen by the user. The worktree's first commit makes it permanent.
    pub has_implied_subset: bool,
    /// Directories that the user is in.
    pub in_use: Arc<[Inode]>,
}

impl OpenWorktree {
    /// Returns whether the stat cache belongs to the base tree and the subset, so that it alone is
    /// enough.
    pub fn cache_fits(&self) -> bool {
        match (&self.cache, self.base_tree) {
            (Some(cache), Some(tree)) => {
                cache.base_tree() == tree && cache.subset() == subset_check(&self.subset)
            }
            _ => false,
        }
    }

    /// Returns the options of a scan that compares the selected files with the entries `known`.
    pub fn scan_options<'a>(
        &'a self,
        known: &'a dyn BaseEntries,
        select: &'a dyn Select,
        job: &'a Job,
    ) -> ScanOptions<'a> {
        ScanOptions {
            known,
            ignore: &self.ignore,
            select,
            subset: &self.subset,
            list_ignored: false,
            one_file_system: false,
            threads: 0,
            cancel: job.cancel_flag(),
        }
    }

    /// Returns what commits keep of the file at `path` besides its content.
    pub fn properties_of(&self, repo: &Repo, path: &[u8]) -> Properties {
        let (dir, name) = split_path(path).unwrap_or((b"", path));
        let known = TreeBase::new(repo.objects(), self.base_tree, None, &self.subset);
        let files = AttributeFiles {
            root: Some(&self.root),
            known: &known,
            subset: &self.subset,
        };
        self.properties.of(&files, dir, name)
    }

    /// Returns the base's entries, for a scan.
    pub fn known<'a>(&'a self, repo: &'a Repo) -> Box<dyn BaseEntries + 'a> {
        match &self.cache {
            Some(cache) if self.cache_fits() => Box::new(ByCache {
                cache,
                tree: TreeBase::new(repo.objects(), self.base_tree, None, &self.subset),
            }),
            older => Box::new(TreeBase::new(
                repo.objects(),
                self.base_tree,
                older.as_ref(),
                &self.subset,
            )),
        }
    }
}

/// The stat cache. The tree stands in for a section that is damaged or missing.
struct ByCache<'a> {
    cache: &'a StatCache,
    tree: TreeBase<'a>,
}

impl BaseEntries for ByCache<'_> {
    fn section(
        &self,
        dir: &[u8],
    ) -> Result<Option<crate::worktree::statcache::Section>, Box<dyn std::error::Error + Send + Sync>>
    {
        match self.cache.section(dir) {
            Ok(Some(section)) => Ok(Some(section)),
            // The cache is derived data: a missing section says nothing about the directory.
            Ok(None) | Err(_) => self.tree.section(dir),
        }
    }

    fn file(&self, path: &[u8], most: u64) -> Result<Option<Vec<u8>>, String> {
        self.tree.file(path, most)
    }

    fn close(&self) {
        self.cache.close();
    }
}

/// Returns whether a file with the kind and size of `entry` is at `path`.
pub fn is_like(root: &SafeDir, path: &RepoPath, entry: &TreeEntry) -> Result<bool, RepoError> {
    let stat = stat_of(root, path.as_bytes())?;
    Ok(stat.is_some_and(|stat| match entry.kind {
        Kind::Directory => stat.kind == FileKind::Dir,
        Kind::Symlink => stat.kind == FileKind::Symlink && stat.size == entry.size,
        _ => stat.kind == FileKind::File && stat.size == entry.size,
    }))
}

/// Opens the worktree with the conflicts that no commit has in the form of its base. Content may be
/// absent: then a conflict whose texts are absent counts as shown by ours, with markers.
pub fn open_with_conflicts(
    repo: &Repo,
    settings: &WorktreeSettings,
    which: Which,
) -> Result<OpenWorktree, RepoError> {
    pending::with_conflicts(repo, open_as_far(repo, settings)?, which)
}

/// Opens the worktree as it is recorded, for a command that changes files. Fails with
/// `AbsentError::Lacking` if it is unknown how a conflict is shown.
pub fn open(repo: &Repo, settings: &WorktreeSettings) -> Result<OpenWorktree, RepoError> {
    let tree = open_as_far(repo, settings)?;
    if let Some(form) = &tree.form {
        form.check_known(|path| tree.subset.includes(path, false))?;
    }
    Ok(tree)
}

/// Opens the worktree as it is recorded, as far as content is not absent.
pub fn open_as_far(repo: &Repo, settings: &WorktreeSettings) -> Result<OpenWorktree, RepoError> {
    let root = SafeDir::open_root(repo.worktree_root().ok_or(WorktreeError::NoWorktree)?)?;
    let own = SafeDir::open_root(&worktree::own_dir(repo)?)?;
    let root = if may_meet(&own) { root.exact() } else { root };
    let base = repo.base_commit()?;
    let is_there = |path: &RepoPath, entry: &TreeEntry| is_like(&root, path, entry);
    let notes = notes::read(repo)?;
    let form = base.map(|id| form::form_of_base(repo, &id, &notes, &is_there));
    let form = form.transpose()?;
    let base_tree = form.as_ref().map(|form| form.tree);
    let cache = StatCache::open(&own, STAT_NAME, &repo.id);
    let ignore = IgnoreRules::new(settings.global_ignore.as_deref(), settings.git_ignore);
    let name = worktree::worktree_name(repo)?.to_owned();
    let subset = repo.subset()?;
    let stored = form.as_ref().map(|form| form.stored);
    let mut tree = OpenWorktree {
        pending: conflict::pending::noted(repo, &notes)?,
        untracked: untracked::counting(repo, &notes, stored)?,
        notes,
        root,
        has_implied_subset: base.is_none()
            && !subset.is_everything()
            && repo.refs.get(&subset_key(&name))?.is_none(),
        subset,
        name,
        own,
        ignore,
        properties: PropertyRules::new(settings.properties.clone()),
        base,
        base_tree,
        form,
        cache,
        in_use: settings
            .in_use
            .iter()
            .filter_map(|dir| inode_of(dir))
            .collect(),
    };
    tree.ignore = unwritten_rules(repo, &tree)?;
    Ok(tree)
}

/// Returns whether the file system of a worktree may take two names for one.
fn may_meet(own: &SafeDir) -> bool {
    // The worktree's lock file exists, with a lower-case name.
    NAMES_MAY_MEET || own.stat_opt(b"LOCK").is_ok_and(|stat| stat.is_some())
}

/// Returns the ignore rules of a worktree without those of files that could not be written.
fn unwritten_rules(repo: &Repo, tree: &OpenWorktree) -> Result<IgnoreRules, RepoError> {
    let mut lacking = unwritten::unwritten(repo, tree)?;
    lacking.retain(|at| at.want.is_some());
    let paths = lacking.into_iter().map(|at| at.path.as_bytes().to_vec());
    Ok(tree.ignore.clone().without(paths.collect()))
}

/// Returns which directory is at a path. `None` if there is none.
fn inode_of(dir: &Path) -> Option<Inode> {
    let stat = SafeDir::open_root(dir).and_then(|dir| dir.stat_self());
    stat.ok().map(|stat| stat.inode())
}
