//! Files that are read-only until they are claimed, as the attribute file of the commit asks.
//!
//! A checkout writes them without the permission to write, and a claim gives it. No commit stores this permission. A
//! file with edits keeps the one it has.

use crate::claims::{SignedList, Writer};
use crate::fsutil::{FileKind, SafeDir, set_permissions, stat_file};
use crate::hash::ObjectId;
use crate::job::Job;
use crate::object::name::RepoPath;
use crate::path::PathContext;
use crate::repo::base::error::RepoError;
use crate::repo::base::keys::claim_list_key;
use crate::repo::base::repo::Repo;
use crate::repo::base::worktree::WorktreeSettings;
use crate::repo::conflict::settle::stat_of;
use crate::repo::files::states::FileState;
use crate::repo::look::entries::{ListingLine, Location};
use crate::subset::Subset;
use crate::worktree::base::TreeBase;
use crate::worktree::checkout::WriteAccess;
use crate::worktree::claim_rules::{ClaimRule, ClaimRules};
use crate::worktree::select::is_under;
use crate::worktree::split_path;
use std::ops::ControlFlow;

/// The bits of a file's permissions that let somebody write to it.
const WRITE_BITS: u32 = 0o222;
/// The one that lets its owner do so.
const OWNER_WRITES: u32 = 0o200;

/// Which files a switch writes read-only.
#[derive(Default)]
pub struct Guard {
    /// The rules of the commit that the worktree is on.
    old: ClaimRules,
    /// The rules of the commit that it goes to.
    new: ClaimRules,
    /// What this device has claimed in this repository.
    claimed: Vec<RepoPath>,
}

impl Guard {
    /// Returns the guard of a switch between two trees.
    pub fn between(repo: &Repo, old: Option<ObjectId>, new: ObjectId) -> Guard {
        let (old, new) = (rules(repo, old), rules(repo, Some(new)));
        let any = old.has_read_only() || new.has_read_only();
        let claimed = if any { claimed_here(repo) } else { Vec::new() };
        Guard { old, new, claimed }
    }

    /// Returns who may write to a file of the commit that is about to be written. `is_edit`: it is a version of the
    /// user instead.
    pub fn access(&self, path: &[u8], is_edit: bool) -> WriteAccess {
        let is_guarded = |rules: &ClaimRules| rules.of(path) == Some(ClaimRule::ReadOnly);
        match (is_guarded(&self.new), is_guarded(&self.old)) {
            (false, false) => WriteAccess::Usual,
            (true, _) if !is_edit && !is_claimed(&self.claimed, path) => WriteAccess::ReadOnly,
            _ => WriteAccess::Owner,
        }
    }
}

/// Returns the rules about claims of a commit's tree.
fn rules(repo: &Repo, tree: Option<ObjectId>) -> ClaimRules {
    let everything = Subset::everything();
    ClaimRules::read(&TreeBase::new(repo.objects(), tree, None, &everything))
}

/// Returns what this device has claimed in this repository. A list that cannot be read has no claims.
fn claimed_here(repo: &Repo) -> Vec<RepoPath> {
    let place = *repo.id.as_bytes();
    let key = repo
        .own_device()
        .map(|device| claim_list_key(&Writer { device, place }));
    let value = key.and_then(|key| repo.refs.get(&key).ok().flatten());
    let list = value.and_then(|value| SignedList::decode_checked(&value).ok());
    let claims = list.map(|list| list.list().claims.clone());
    claims
        .unwrap_or_default()
        .into_iter()
        .map(|claim| claim.path)
        .collect()
}

fn is_claimed(claimed: &[RepoPath], path: &[u8]) -> bool {
    claimed.iter().any(|claim| is_under(path, claim.as_bytes()))
}

impl Repo {
    /// Returns the rules about claims of the commit that the worktree is on.
    pub fn claim_rules(&self) -> Result<ClaimRules, RepoError> {
        let base = self.base_commit()?;
        let base = base.map(|base| self.read_commit(&base)).transpose()?;
        Ok(rules(self, base.map(|base| base.tree)))
    }

    /// Returns those of `paths` that are to be claimed before they are changed, and that this device has not
    /// claimed here.
    pub fn unclaimed<'p>(
        &self,
        paths: impl Iterator<Item = &'p RepoPath>,
    ) -> Result<Vec<RepoPath>, RepoError> {
        let rules = self.claim_rules()?;
        if rules.is_empty() {
            return Ok(Vec::new());
        }
        let claimed = claimed_here(self);
        let asks = |path: &&RepoPath| {
            rules.of(path.as_bytes()).is_some() && !is_claimed(&claimed, path.as_bytes())
        };
        Ok(paths.filter(asks).cloned().collect())
    }

    /// After a claim or a release: lets the user write to the files below `paths` that are claimed, and makes the
    /// others read-only that are to be claimed first. Returns those that stay as they are because they have edits.
    pub fn guard_files(
        &self,
        paths: &[RepoPath],
        settings: &WorktreeSettings,
        job: &Job,
    ) -> Result<Vec<RepoPath>, RepoError> {
        let Some(root) = self.worktree_root() else {
            return Ok(Vec::new());
        };
        let Some(base) = self.base_commit()? else {
            return Ok(Vec::new());
        };
        let tree = self.read_commit(&base)?.tree;
        let rules = rules(self, Some(tree));
        if !rules.has_read_only() {
            return Ok(Vec::new());
        }
        let root = SafeDir::open_root(root)?;
        let (claimed, guarded) = (claimed_here(self), self.guarded_below(paths, &rules)?);
        let mut closing = Vec::new();
        for path in guarded {
            let Some(stat) = stat_of(&root, path.as_bytes())? else {
                continue;
            };
            let is_open = stat.mode & WRITE_BITS != 0;
            match is_claimed(&claimed, path.as_bytes()) {
                _ if stat.kind != FileKind::File => {}
                true if stat.mode & OWNER_WRITES == 0 => {
                    change_mode(&root, &path, |mode| mode | OWNER_WRITES)?
                }
                false if is_open => closing.push(path),
                _ => {}
            }
        }
        let states = self.states(&closing, settings, job)?;
        let mut edited = Vec::new();
        for (path, state) in closing.into_iter().zip(states) {
            if state == FileState::Unchanged {
                change_mode(&root, &path, |mode| mode & !WRITE_BITS)?;
            } else {
                edited.push(path);
            }
        }
        Ok(edited)
    }

    /// Returns the files at and below `paths` that are to be claimed first, as the worktree has them.
    fn guarded_below(
        &self,
        paths: &[RepoPath],
        rules: &ClaimRules,
    ) -> Result<Vec<RepoPath>, RepoError> {
        let Some(base) = self.base_commit()? else {
            return Ok(Vec::new());
        };
        let (commit, subset) = (self.read_commit(&base)?, self.subset()?);
        let mut found = Vec::new();
        for at in paths {
            // A claim may be on a path that the commit does not have.
            let Ok(located) = self.locate("", &commit, at) else {
                continue;
            };
            if let Location::Entry(entry) = &located
                && entry.kind.is_blob()
            {
                found.push(at.clone());
            } else if let Some(tree) = located.tree() {
                self.list_subset(at, tree, &subset, &mut |ListingLine { path, .. }| {
                    found.push(path);
                    Ok(ControlFlow::Continue(()))
                })?;
            }
        }
        found.retain(|path| rules.of(path.as_bytes()) == Some(ClaimRule::ReadOnly));
        found.sort();
        found.dedup();
        Ok(found)
    }
}

/// Changes the permissions of a file, without following a symlink.
fn change_mode(
    root: &SafeDir,
    path: &RepoPath,
    new: impl FnOnce(u32) -> u32,
) -> Result<(), RepoError> {
    let Some((dir, name)) = split_path(path.as_bytes()) else {
        return Ok(());
    };
    let (file, _) = root.open_dir(dir)?.open_file_read(name)?;
    let changed = stat_file(&file).and_then(|stat| set_permissions(&file, new(stat.mode)));
    changed
        .context("set permissions of", path.as_bytes())
        .map_err(RepoError::Path)
}
