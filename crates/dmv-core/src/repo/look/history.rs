//! Questions about history: which commits are complete, and which of two lines has which commits.

use crate::hash::ObjectId;
use crate::reach::{Detail, Reach};
use crate::repo::base::error::RepoError;
use crate::repo::base::handle::Handle;
use crate::repo::base::worktree;
use crate::repo::look::entries;
use std::collections::{BTreeSet, HashSet};

/// The commits that refs and worktrees name: of each, everything that belongs to this
/// repository is here.
pub(in crate::repo) fn complete_commits(repo: &Handle) -> Result<Vec<ObjectId>, RepoError> {
    let mut out = BTreeSet::new();
    for (key, value) in repo.refs.with_prefix("")? {
        let of_ref = ["branch/", "tag/", "remote/"]
            .iter()
            .any(|prefix| key.starts_with(prefix));
        let of_worktree = key.starts_with("worktree/") && key.ends_with("/base");
        if let (true, Ok(bytes)) = (of_ref || of_worktree, <[u8; 32]>::try_from(value)) {
            out.insert(ObjectId::from_bytes(bytes));
        }
    }
    Ok(out.into_iter().collect())
}

/// How many commits `ours` has that `theirs` has not, and the reverse, as far as history is
/// here.
pub(in crate::repo) fn distance(
    repo: &Handle,
    ours: ObjectId,
    theirs: ObjectId,
) -> Result<(usize, usize), RepoError> {
    let count = |tip, hidden| Ok::<_, RepoError>(only_in(repo, tip, hidden)?.len());
    Ok((count(ours, theirs)?, count(theirs, ours)?))
}

/// Commits that `tip` has and `hidden` has not, as far as history is here.
pub(in crate::repo) fn only_in(
    repo: &Handle,
    tip: ObjectId,
    hidden: ObjectId,
) -> Result<Vec<ObjectId>, RepoError> {
    let mut reach = Reach::new([tip], [hidden], Detail::Commits);
    let mut only = Vec::new();
    while let Some(found) = reach.next(repo.objects())? {
        if found.here {
            only.push(found.id);
        }
    }
    Ok(only)
}

/// The commits at which a walk over what `new` has and `old` has not ends: they are in `old`.
pub(in crate::repo) fn end_of_range(
    repo: &Handle,
    old: ObjectId,
    new: ObjectId,
) -> Result<Vec<ObjectId>, RepoError> {
    let only: HashSet<ObjectId> = only_in(repo, new, old)?.into_iter().collect();
    let mut end = HashSet::new();
    for id in &only {
        end.extend(entries::read_commit(repo, id)?.parents);
    }
    if only.is_empty() {
        end.insert(new);
    }
    end.retain(|id| !only.contains(id));
    Ok(end.into_iter().collect())
}

/// Whether a branch, a tag or a branch of a remote leads to a commit.
pub(in crate::repo) fn is_on_a_branch(repo: &Handle, commit: ObjectId) -> Result<bool, RepoError> {
    let mut tips = Vec::new();
    for prefix in ["branch/", "tag/", "remote/"] {
        for (key, _) in repo.refs.with_prefix(prefix)? {
            tips.extend(worktree::ref_id(repo, &key)?);
        }
    }
    let mut reach = Reach::new([commit], tips, Detail::Commits);
    Ok(reach.next(repo.objects())?.is_none())
}
