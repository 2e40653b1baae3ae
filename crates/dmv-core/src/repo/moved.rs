//! A branch that was moved from elsewhere while a worktree is on it: by a push, or from another worktree.
//!
//! The worktree's files stay, and so does its base: the commit that they were last made equal to. A
//! commit goes on from the base, and is then merged with what the branch has.

use super::merge::Site;
use super::worktree::{Head, Tree};
use super::{MergeOptions, MergeReport, Repo, RepoError};
use crate::hash::ObjectId;
use crate::history::is_ancestor;
use crate::job::Job;
use std::ops::ControlFlow;

/// Who moved a branch last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mover {
    /// The user, or the name of the device.
    pub who: String,
    /// The command.
    pub command: String,
}

/// What happened to a branch, as a clause: who moved it from where to where, and how. `branch` is how
/// it is called.
pub fn moved_clause(
    branch: &str,
    (base, tip): (Option<ObjectId>, Option<ObjectId>),
    by: Option<&Mover>,
) -> String {
    let short = |id: Option<ObjectId>| id.map_or("no commit".to_owned(), |id| id.short(12));
    let (base, tip) = (short(base), short(tip));
    match by {
        Some(Mover { who, command }) => {
            format!("'{who}' moved {branch} from {base} to {tip} ({command})")
        }
        None => format!("another command moved {branch} from {base} to {tip}"),
    }
}

/// How a branch stands to the files of a worktree that is on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BranchMoved {
    /// The commit that the files come from.
    pub base: Option<ObjectId>,
    /// The commit that the branch is at.
    pub tip: Option<ObjectId>,
    /// Whether the branch only went on, so that a commit of these files can be merged with it. If
    /// not, commits were taken off it.
    pub forward: bool,
}

impl Repo {
    /// Whether the branch that the worktree is on was moved from elsewhere.
    pub fn branch_moved(&self) -> Result<Option<BranchMoved>, RepoError> {
        moved(self, self.base_commit()?, &self.head()?)
    }

    /// Merges a commit that was made on a branch which had been moved with what the branch has now.
    /// `None`: there is nothing to merge.
    pub fn merge_moved(
        &self,
        options: &MergeOptions,
        job: &Job,
    ) -> Result<Option<MergeReport>, RepoError> {
        let _lock = self.lock_worktree()?;
        let (tree, head) = (self.tree(&options.settings)?, self.head()?);
        let Some(found) = moved(self, tree.base, &head)? else {
            return Ok(None);
        };
        let (Some(base), Some(tip), true) = (found.base, found.tip, found.forward) else {
            return Ok(None);
        };
        if is_ancestor(self.objects(), &base, &tip)? {
            return Ok(None);
        }
        let site = Site::moved(tree, head, (base, tip));
        self.merge_commits_at(&site, (base, tip), options, job)
            .map(Some)
    }

    /// Who moved the branch of `head` last, as the operation log has it.
    pub fn mover(&self, head: &Head) -> Result<Option<Mover>, RepoError> {
        let Some(branch) = head.branch() else {
            return Ok(None);
        };
        let key = format!("branch/{branch}");
        let mut found = None;
        self.each_operation(&mut |operation, _| {
            if operation.changes.iter().any(|change| change.key == key) {
                let who = operation.who.split(" <").next().unwrap_or_default();
                found = Some(Mover {
                    who: who.to_owned(),
                    command: operation.command.clone(),
                });
                return Ok(ControlFlow::Break(()));
            }
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(found)
    }

    /// Refuses a worktree whose branch was moved.
    pub(super) fn refuse_moved(&self, tree: &Tree, head: &Head) -> Result<(), RepoError> {
        match moved(self, tree.base, head)? {
            Some(found) => Err(refused(self, head, found)),
            None => Ok(()),
        }
    }
}

/// The error that says so.
pub(super) fn refused(repo: &Repo, head: &Head, found: BranchMoved) -> RepoError {
    RepoError::Moved {
        name: head.branch().unwrap_or("the head").to_owned(),
        base: found.base,
        tip: found.tip,
        // A log that cannot be read is reported by a command that needs it.
        by: repo.mover(head).unwrap_or_default().map(Box::new),
        forward: found.forward,
    }
}

/// How the branch stands to `base`, if it is not at it.
pub(super) fn moved(
    repo: &Repo,
    base: Option<ObjectId>,
    head: &Head,
) -> Result<Option<BranchMoved>, RepoError> {
    let tip = match head {
        Head::Commit(id) => Some(*id),
        Head::Branch(name) => repo.ref_id(&format!("branch/{name}"))?,
    };
    if base == tip {
        return Ok(None);
    }
    let forward = match (head, base, tip) {
        (Head::Branch(_), None, Some(_)) => true,
        (Head::Branch(name), Some(base), Some(tip)) => {
            is_ancestor(repo.objects(), &base, &tip)? || !was_at(repo, name, &base)?
        }
        _ => false,
    };
    Ok(Some(BranchMoved { base, tip, forward }))
}

/// Whether a branch was ever at a commit. A commit of a worktree whose branch had been moved was not,
/// until it is merged.
fn was_at(repo: &Repo, branch: &str, commit: &ObjectId) -> Result<bool, RepoError> {
    let key = format!("branch/{branch}");
    let mut found = false;
    repo.each_operation(&mut |operation, _| {
        let mut changes = operation.changes.iter().filter(|change| change.key == key);
        found = changes.any(|change| {
            let values = change.old.iter().chain(&change.new);
            values.into_iter().any(|value| value == commit.as_bytes())
        });
        Ok(match found {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        })
    })?;
    Ok(found)
}
