//! Making the worktree equal to a commit, without losing what is not committed.
//!
//! [`check`] decides whether anything would be lost, [`switch`] carries out, [`remember`] writes
//! the stat cache, [`restore`] puts single files back.

mod check;
mod remember;
mod restore;
mod switch;

use self::switch::Switch;
use super::worktree::{Head, base_key, head_key};
use super::{Asked, Repo, RepoError, WorktreeSettings, change};
use crate::fsutil::SafeDir;
use crate::hash::ObjectId;
use crate::job::Job;
use crate::refs::Effect;
use crate::worktree::snapshot::Problem;

/// What to switch to.
#[derive(Clone, Debug)]
pub enum CheckoutTarget {
    /// A branch; commits will move it.
    Branch(String),
    /// A commit, with no branch.
    Commit(ObjectId),
}

/// How to switch.
pub struct CheckoutOptions {
    /// Discard uncommitted changes to tracked files.
    pub force: bool,
    /// How files are taken in.
    pub settings: WorktreeSettings,
    /// For the operation log.
    pub asked: Asked,
}

/// What a checkout or restore did.
#[derive(Debug)]
pub struct CheckoutReport {
    /// What the worktree is on now.
    pub head: Head,
    /// The commit whose files were written.
    pub commit: ObjectId,
    /// Files and symlinks written.
    pub files: u64,
    /// Bytes written.
    pub bytes: u64,
    /// Files and symlinks removed.
    pub removed: u64,
    /// Paths that could not be made as the commit has them, and why.
    pub refused: Vec<Problem>,
}

impl Repo {
    /// Switches the worktree to a branch or commit.
    ///
    /// Uncommitted changes that do not collide are kept. Where they would be lost, nothing is
    /// touched and [`RepoError::WouldLose`] lists the paths. Cut off in the middle, the worktree is
    /// still on the former commit with some files of the new one; the same command goes on.
    pub fn checkout(
        &self,
        target: CheckoutTarget,
        options: &CheckoutOptions,
        job: &Job,
    ) -> Result<CheckoutReport, RepoError> {
        let _lock = self.lock_worktree()?;
        let tree = self.tree(&options.settings)?;
        let (head, commit) = match target {
            CheckoutTarget::Branch(name) => {
                let id = self.ref_id(&format!("branch/{name}"))?;
                let missing = || RepoError::NoRef {
                    kind: "branch",
                    name: name.clone(),
                };
                (Head::Branch(name.clone()), id.ok_or_else(missing)?)
            }
            CheckoutTarget::Commit(id) => (Head::Commit(id), id),
        };
        let new_tree = self.read_commit(&commit)?.tree;
        let mut switch = Switch::new(self, &tree, new_tree, job);
        switch.find_dirty(&options.settings)?;
        switch.check(options.force)?;
        if is_case_blind(&tree.own) {
            switch.check_collisions()?;
        }
        switch.carry_out(options.force)?;
        let changes = vec![
            change(&self.refs, head_key(&tree.name), Some(head.value()))?,
            change(
                &self.refs,
                base_key(&tree.name),
                Some(commit.as_bytes().to_vec()),
            )?,
        ];
        let changes: Vec<_> = changes.into_iter().filter(|c| c.old != c.new).collect();
        switch.sync()?;
        if !changes.is_empty() {
            self.publish(options.asked.clone(), None, changes, Effect::Written)?;
        }
        // A convenience for the next scan; without it files are compared by content.
        let _ = switch.remember();
        let Switch {
            files,
            bytes,
            removed,
            refused,
            ..
        } = switch;
        Ok(CheckoutReport {
            head,
            commit,
            files,
            bytes,
            removed,
            refused,
        })
    }
}

/// Whether the file system takes names that differ in case for one.
fn is_case_blind(own: &SafeDir) -> bool {
    // The lock file of the worktree is there, in lower case.
    own.stat_opt(b"LOCK").is_ok_and(|stat| stat.is_some())
}
