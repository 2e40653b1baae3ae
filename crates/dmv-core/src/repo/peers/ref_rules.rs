//! The rules for moving refs in a push, for a repository here and for a bucket. They know neither: a
//! [`RefHolder`] answers what they ask.

use super::exchange::{RefUpdate, Refusal};
use crate::hash::ObjectId;
use crate::history::is_ancestor;
use crate::object::{ObjectRead, ObjectType};
use crate::reach::{Detail, Reach};
use crate::refs::{check_new_ref_name, check_ref_name};
use crate::repo::base::error::RepoError;
use std::collections::HashSet;

/// What has the refs that a push is to move.
pub trait RefHolder {
    /// Returns the commit of a branch or tag, by its key.
    fn commit_of(&self, key: &str) -> Result<Option<ObjectId>, RepoError>;

    /// Returns all branches and tags.
    fn refs(&self) -> Result<Vec<(String, ObjectId)>, RepoError>;

    /// Returns whether a new branch or tag may have this name, which is well-formed.
    fn is_free_name(&self, name: &str) -> Result<bool, RepoError> {
        let _ = name;
        Ok(true)
    }

    /// Returns whether a worktree is on a branch.
    fn is_in_use(&self, branch: &str) -> Result<bool, RepoError> {
        let _ = branch;
        Ok(false)
    }
}

/// Returns why an update, as one of `all`, must be refused, or `None` if it is acceptable.
///
/// `objects` has the commits of this device. An update to a commit that is not among them is accepted, so
/// the check is incomplete until the commit has arrived.
pub fn judge_update(
    holder: &dyn RefHolder,
    objects: &dyn ObjectRead,
    update: &RefUpdate,
    all: &[RefUpdate],
) -> Result<Option<Refusal>, RepoError> {
    let (kind, name) = update.key.split_once('/').unwrap_or_default();
    if !["branch", "tag"].contains(&kind) || check_ref_name(name).is_err() {
        return Ok(Some(Refusal::BadName));
    }
    let now = holder.commit_of(&update.key)?;
    if now == update.new {
        return Ok(None);
    }
    if now != update.old {
        return Ok(Some(Refusal::Moved));
    }
    if now.is_none() && (check_new_ref_name(name).is_err() || !holder.is_free_name(name)?) {
        return Ok(Some(Refusal::BadName));
    }
    if update.new.is_none() && kind == "branch" && holder.is_in_use(name)? {
        return Ok(Some(Refusal::InUse));
    }
    let Some(now) = now.filter(|_| !update.force) else {
        return Ok(None);
    };
    let loses_nothing = match update.new {
        None => is_named_besides(holder, objects, now, all)?,
        // A tag does not move.
        Some(_) if kind == "tag" => false,
        Some(new) => !objects.holds(ObjectType::Commit, &new)? || is_ancestor(objects, &now, &new)?,
    };
    Ok((!loses_nothing).then_some(Refusal::NotForward))
}

/// Returns whether branches and tags that are not in `updates` lead to a commit.
fn is_named_besides(
    holder: &dyn RefHolder,
    objects: &dyn ObjectRead,
    commit: ObjectId,
    updates: &[RefUpdate],
) -> Result<bool, RepoError> {
    let touched: HashSet<&str> = updates.iter().map(|update| &update.key[..]).collect();
    let mut others = holder.refs()?;
    others.retain(|(key, _)| !touched.contains(&key[..]));
    let others: Vec<ObjectId> = others.into_iter().map(|(_, id)| id).collect();
    if others.contains(&commit) {
        return Ok(true);
    }
    // Another device may have pushed it to a bucket.
    if !objects.holds(ObjectType::Commit, &commit)? {
        return Ok(false);
    }
    let mut reach = Reach::new([commit], others, Detail::Commits);
    Ok(reach.next(objects)?.is_none())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::tests::put_commit;
    use crate::object::mem::MemObjects;

    /// A holder with these branches and tags. A worktree is on the branch `used`.
    struct Refs(Vec<(&'static str, ObjectId)>);

    impl RefHolder for Refs {
        fn commit_of(&self, key: &str) -> Result<Option<ObjectId>, RepoError> {
            let found = self.0.iter().find(|(known, _)| *known == key);
            Ok(found.map(|(_, id)| *id))
        }

        fn refs(&self) -> Result<Vec<(String, ObjectId)>, RepoError> {
            let refs = self.0.iter();
            Ok(refs.map(|(key, id)| ((*key).to_owned(), *id)).collect())
        }

        fn is_free_name(&self, name: &str) -> Result<bool, RepoError> {
            Ok(!name.starts_with("origin/"))
        }

        fn is_in_use(&self, branch: &str) -> Result<bool, RepoError> {
            Ok(branch == "used")
        }
    }

    #[test]
    fn a_ref_moves_only_forward_and_from_where_the_peer_saw_it() -> Result<(), RepoError> {
        let mem = MemObjects::default();
        let first = put_commit(&mem, 1, &[], 1)?;
        let second = put_commit(&mem, 2, &[first], 2)?;
        let side = put_commit(&mem, 3, &[first], 2)?;
        let absent = ObjectId::from_bytes([9; 32]);
        let holder = Refs(vec![
            ("branch/main", second),
            ("branch/old", first),
            ("branch/side", side),
            ("branch/used", first),
            ("branch/theirs", absent),
            ("tag/v1", first),
        ]);
        let (one, two, three) = (Some(first), Some(second), Some(side));
        let (no, yes) = (false, true);
        for (key, old, new, force, want) in [
            ("branch/old", one, two, no, None),
            ("branch/old", one, Some(absent), no, None),
            ("branch/main", two, two, no, None),
            ("branch/main", one, two, no, None),
            ("branch/main", one, three, yes, Some(Refusal::Moved)),
            ("branch/main", two, three, no, Some(Refusal::NotForward)),
            ("branch/main", two, three, yes, None),
            ("branch/main", two, one, no, Some(Refusal::NotForward)),
            ("branch/new", None, two, no, None),
            ("branch/new", one, two, no, Some(Refusal::Moved)),
            ("branch/origin/x", None, two, no, Some(Refusal::BadName)),
            ("branch/HEAD", None, two, no, Some(Refusal::BadName)),
            ("branch/a..b", None, two, yes, Some(Refusal::BadName)),
            ("worktree/main/base", None, two, yes, Some(Refusal::BadName)),
            ("tag/v1", one, two, no, Some(Refusal::NotForward)),
            ("tag/v1", one, two, yes, None),
            ("branch/old", one, None, no, None),
            ("tag/v1", one, None, no, None),
            ("branch/side", three, None, no, Some(Refusal::NotForward)),
            ("branch/side", three, None, yes, None),
            ("branch/used", one, None, yes, Some(Refusal::InUse)),
            (
                "branch/theirs",
                Some(absent),
                None,
                no,
                Some(Refusal::NotForward),
            ),
            ("branch/theirs", Some(absent), None, yes, None),
        ] {
            let key = key.to_owned();
            let update = RefUpdate {
                key,
                old,
                new,
                force,
            };
            let all = std::slice::from_ref(&update);
            assert_eq!(
                judge_update(&holder, &mem, &update, all)?,
                want,
                "{update:?}"
            );
        }
        Ok(())
    }

    #[test]
    fn refs_that_go_together_do_not_keep_each_other() -> Result<(), RepoError> {
        let mem = MemObjects::default();
        let commit = put_commit(&mem, 1, &[], 1)?;
        let holder = Refs(vec![("branch/a", commit), ("branch/b", commit)]);
        let delete = |key: &str| RefUpdate {
            key: key.to_owned(),
            old: Some(commit),
            new: None,
            force: false,
        };
        let both = [delete("branch/a"), delete("branch/b")];
        assert_eq!(judge_update(&holder, &mem, &both[0], &both[..1])?, None);
        let lost = Some(Refusal::NotForward);
        assert_eq!(judge_update(&holder, &mem, &both[0], &both)?, lost);
        Ok(())
    }
}
