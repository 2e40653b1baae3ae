//! Questions about history: which commits are complete, and which commits only one of two lines
//! has.

use crate::hash::ObjectId;
use crate::history::load_commit;
use crate::object::ObjectRead;
use crate::reach::{Detail, Reach};
use crate::repo::base::error::RepoError;
use crate::repo::base::repo::Repo;
use crate::repo::base::worktree;
use std::collections::{BTreeSet, HashSet};

impl Repo {
    /// Returns the commits that refs and worktrees name. Each of them is complete in this
    /// repository.
    pub fn complete_commits(&self) -> Result<Vec<ObjectId>, RepoError> {
        let mut out = BTreeSet::new();
        for (key, value) in self.refs.with_prefix("")? {
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

    /// Counts the commits that only `ours` has and those that only `theirs` has, as far as history
    /// is stored in this repository.
    pub fn distance(&self, ours: ObjectId, theirs: ObjectId) -> Result<(usize, usize), RepoError> {
        let count = |tip, hidden| Ok::<_, RepoError>(only_in(self, tip, hidden)?.len());
        Ok((count(ours, theirs)?, count(theirs, ours)?))
    }
}

/// Returns the commits that `tip` has and `hidden` does not have, as far as history is stored in
/// this repository.
pub fn only_in(repo: &Repo, tip: ObjectId, hidden: ObjectId) -> Result<Vec<ObjectId>, RepoError> {
    difference(repo.objects(), tip, hidden)
}

fn difference(
    objects: &dyn ObjectRead,
    tip: ObjectId,
    hidden: ObjectId,
) -> Result<Vec<ObjectId>, RepoError> {
    let mut reach = Reach::new([tip], [hidden], Detail::Commits);
    let mut only = Vec::new();
    while let Some(found) = reach.next(objects)? {
        if found.here {
            only.push(found.id);
        }
    }
    Ok(only)
}

impl Repo {
    /// Returns the commits in `old` at which a walk over the commits that only `new` has ends.
    pub fn end_of_range(&self, old: ObjectId, new: ObjectId) -> Result<Vec<ObjectId>, RepoError> {
        let only: HashSet<ObjectId> = difference(self, new, old)?.into_iter().collect();
        let mut end = HashSet::new();
        for id in &only {
            end.extend(load_commit(self, id)?.parents);
        }
        if only.is_empty() {
            end.insert(new);
        }
        end.retain(|id| !only.contains(id));
        Ok(end.into_iter().collect())
    }

    /// Returns whether a branch, tag or remote branch leads to a commit.
    pub fn is_on_a_branch(&self, commit: ObjectId) -> Result<bool, RepoError> {
        let mut tips = Vec::new();
        for prefix in ["branch/", "tag/", "remote/"] {
            for (key, _) in self.refs.with_prefix(prefix)? {
                tips.extend(worktree::ref_id(self, &key)?);
            }
        }
        let mut reach = Reach::new([commit], tips, Detail::Commits);
        Ok(reach.next(self.objects())?.is_none())
    }
}
