//! Refs on both sides of an exchange: what a server offers, and how a local ref stands to it.

use dmv_core::hash::ObjectId;
use dmv_core::history::is_ancestor;
use dmv_core::object::ObjectType;
use dmv_core::repo::{OfferedRefs, RefChange, RefUpdate, Repo, RepoError};

/// A branch or tag with its commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefTip {
    /// `branch/NAME` or `tag/NAME`.
    pub key: String,
    /// The commit.
    pub commit: ObjectId,
}

impl RefTip {
    /// Returns the branch `name` at `commit`.
    pub fn branch(name: &str, commit: ObjectId) -> RefTip {
        let key = format!("branch/{name}");
        RefTip { key, commit }
    }

    /// Returns the tag `name` at `commit`.
    pub fn tag(name: &str, commit: ObjectId) -> RefTip {
        let key = format!("tag/{name}");
        RefTip { key, commit }
    }
}

/// Returns all commits that a server offers.
pub fn tips(offered: &OfferedRefs) -> Vec<ObjectId> {
    offered.refs.iter().map(|(_, id)| *id).collect()
}

/// Returns the commit that a server has under `key`.
pub fn tip_at(offered: &OfferedRefs, key: &str) -> Option<ObjectId> {
    let found = offered.refs.iter().find(|(known, _)| known == key);
    found.map(|(_, id)| *id)
}

/// How a local branch stands to the same branch of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BranchStanding {
    /// Both name the same commit.
    Same,
    /// The server does not have the branch, or the local commit descends from the server's.
    Ahead,
    /// The server's commit descends from the local one.
    Behind,
    /// Each side has commits that the other lacks, or the server's commit is not stored here.
    Diverged,
}

/// Compares a local branch with the same branch of a server.
pub fn standing(
    repo: &Repo,
    ours: ObjectId,
    theirs: Option<ObjectId>,
) -> Result<BranchStanding, RepoError> {
    let Some(theirs) = theirs else {
        return Ok(BranchStanding::Ahead);
    };
    let objects = repo.objects();
    Ok(if ours == theirs {
        BranchStanding::Same
    } else if is_ancestor(objects, &theirs, &ours)? {
        BranchStanding::Ahead
    } else if objects.holds(ObjectType::Commit, &theirs)? && is_ancestor(objects, &ours, &theirs)? {
        BranchStanding::Behind
    } else {
        BranchStanding::Diverged
    })
}

/// Returns an update that moves `tip.key` from `old` to `tip.commit`.
pub fn update(tip: &RefTip, old: Option<ObjectId>, force: bool) -> RefUpdate {
    RefUpdate {
        key: tip.key.clone(),
        old,
        new: Some(tip.commit),
        force,
    }
}

/// Returns the refs that a server has after a push, as far as the push moved them.
pub fn moved_there(moved: &[RefChange]) -> OfferedRefs {
    let done = moved.iter().filter(|moved| moved.refused.is_none());
    OfferedRefs {
        head: None,
        refs: done
            .filter_map(|moved| Some((moved.key.clone(), moved.new?)))
            .collect(),
    }
}
