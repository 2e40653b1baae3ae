//! Whether another command moved the branch of a worktree, and who ran it. The command may be a
//! push, or one in another worktree.

use crate::hash::ObjectId;
use crate::history::is_ancestor;
use crate::repo::base::error::{LookError, RepoError};
use crate::repo::base::head::Head;
use crate::repo::base::moved::{BranchPosition, Mover};
use crate::repo::base::repo::Repo;
use crate::repo::base::worktree;
use std::ops::ControlFlow;

/// Compares the branch with `base`. Returns `None` if they are equal.
pub fn moved(
    repo: &Repo,
    base: Option<ObjectId>,
    head: &Head,
) -> Result<Option<BranchPosition>, RepoError> {
    let tip = match head {
        Head::Commit(id) => Some(*id),
        Head::Branch(name) => worktree::ref_id(repo, &format!("branch/{name}"))?,
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
    Ok(Some(BranchPosition { base, tip, forward }))
}

/// Returns whether a branch was ever at a commit. A commit that a worktree made after its branch
/// was moved was not on the branch until it is merged.
fn was_at(repo: &Repo, branch: &str, commit: &ObjectId) -> Result<bool, RepoError> {
    let key = format!("branch/{branch}");
    let mut found = false;
    repo.each_operation(&mut |operation, _| {
        let mut changes = operation.changes.iter().filter(|change| change.key == key);
        found = changes.any(|change| {
            let values = change.old.iter().chain(&change.new);
            values.into_iter().any(|value| value == commit.as_bytes())
        });
        Ok(if found {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        })
    })?;
    Ok(found)
}

impl Repo {
    /// Returns who moved the branch of `head` last, according to the operation log.
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
}

/// Returns the error that reports the move.
pub fn refused(repo: &Repo, head: &Head, found: BranchPosition) -> RepoError {
    RepoError::Look(LookError::Moved {
        name: head.branch().unwrap_or("the head").to_owned(),
        base: found.base,
        tip: found.tip,
        // An unreadable log is reported by the commands that need it.
        by: repo.mover(head).unwrap_or_default().map(Box::new),
        forward: found.forward,
    })
}
