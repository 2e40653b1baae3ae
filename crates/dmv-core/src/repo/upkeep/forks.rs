//! Keeps the commits of a diverged operation history.
//!
//! If an older `refs.db` is put back and work goes on, two histories exist. `recover` continues
//! from the newest and uses this module for the other.

use crate::hash::ObjectId;
use crate::refs::Effect;
use crate::refs::Operation;
use crate::repo::base::error::RepoError;
use crate::repo::base::level::commits_of;
use crate::repo::base::publish::set;
use crate::repo::base::repo::Repo;
use crate::repo::base::transaction::recovering;
use std::collections::{BTreeMap, BTreeSet, HashSet};

/// Makes a branch for each newest commit that only operations outside `chain` name. Returns the
/// branches' names.
///
/// Commits that an operation of `chain` names are reachable already. Ancestors of a commit with
/// such a branch are reachable, too.
pub fn keep_lost(
    repo: &Repo,
    found: &[Operation],
    chain: &[Operation],
) -> Result<Vec<String>, RepoError> {
    let counts: HashSet<[u8; 16]> = chain.iter().map(|op| op.id).collect();
    let named: HashSet<ObjectId> = chain.iter().flat_map(commits_of).collect();
    let lost: Vec<&Operation> = found.iter().filter(|op| !counts.contains(&op.id)).collect();
    let mut kept: BTreeMap<ObjectId, String> = BTreeMap::new();
    for operation in &lost {
        for change in &operation.changes {
            let id = change.new.as_deref().and_then(|id| id.try_into().ok());
            let Some(id) = id.map(ObjectId::from_bytes) else {
                continue;
            };
            let name = match change.key.split_once('/') {
                Some(("branch" | "tag", name)) => name,
                // Other repositories have what their refs name. A base is a commit of some branch.
                Some(("worktree", rest)) if rest.ends_with("/base") => "worktree",
                _ => continue,
            };
            if kept.get(&id).is_none_or(|known| known == "worktree") {
                kept.insert(id, name.to_owned());
            }
        }
    }
    let mut parents = BTreeSet::new();
    for id in kept.keys() {
        // A commit that is not stored cannot be kept.
        if let Ok(commit) = repo.read_commit(id) {
            parents.extend(commit.parents);
        } else {
            parents.insert(*id);
        }
    }
    kept.retain(|id, _| !parents.contains(id) && !named.contains(id));
    let (Some(last), false) = (lost.last(), kept.is_empty()) else {
        return Ok(Vec::new());
    };
    let (mut names, mut changes) = (Vec::new(), Vec::new());
    for (id, name) in kept {
        let name = format!("recovered/{}-{name}", id.short(12));
        let key = format!("branch/{name}");
        if repo.refs.get(&key)?.is_none() && crate::refs::check_ref_name(&name).is_ok() {
            changes.push(set(key, id.as_bytes().to_vec()));
            names.push(name);
        }
    }
    if !changes.is_empty() {
        recovering(repo, last.time, &last.who)
            .with(changes)
            .publish(Effect::Kept)?;
    }
    Ok(names)
}
