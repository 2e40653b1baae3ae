//! Which conflicts a commit has, and what each holds.

use crate::hash::ObjectId;
use crate::history::merge_bases;
use crate::merge::{ConflictKind, entry_of, read_conflict};
use crate::object::commit::Commit;
use crate::object::conflict::{Conflict, Term};
use crate::object::name::RepoPath;
use crate::object::root::{Lack, Root};
use crate::object::tree::{Kind, TreeEntry, lookup_path};
use crate::object::{ObjectError, ObjectType};
use crate::repo::base::error::RepoError;
use crate::repo::base::handle::Handle;
use crate::repo::base::slice;
use crate::repo::conflict::names::last_name;
use crate::repo::look::entries;
use std::collections::BTreeSet;
use std::ops::ControlFlow;

/// The key of a commit's extra that lists its conflicts: docs/format/objects.md, "Commit".
const CONFLICTS_KEY: &[u8] = b"conflicts";

/// Bytes of that list; a longer one is left empty, and the tree is searched.
const MAX_LIST_BYTES: usize = 32 << 10;

/// A conflict in a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConflictAt {
    /// Where its entry is.
    pub path: RepoPath,
    /// The conflict object.
    pub id: ObjectId,
    /// What it holds.
    pub conflict: Conflict,
}

impl ConflictAt {
    /// What kind of question it asks.
    pub fn kind(&self) -> ConflictKind {
        ConflictKind::of(&self.conflict)
    }

    /// What would be merged by lines.
    pub(in crate::repo) fn texts(&self) -> Vec<Term> {
        let conflict = &self.conflict;
        let terms = conflict.bases.iter().chain(&conflict.sides);
        terms.flatten().copied().collect()
    }

    /// What the side merged into has.
    pub fn ours(&self) -> Option<Term> {
        self.conflict.sides.first().copied().flatten()
    }

    /// What the side that was merged has.
    pub fn theirs(&self) -> Option<Term> {
        self.conflict.sides.last().copied().flatten()
    }

    /// What both started from.
    pub fn base(&self) -> Option<Term> {
        self.conflict.bases.first().copied().flatten()
    }

    /// All versions with what they are called: `ours`, `theirs`, `base`, and more of them with
    /// numbers. `None`: it has nothing there.
    pub fn versions(&self) -> Vec<(String, Option<Term>)> {
        let mut out = Vec::new();
        let last = self.conflict.sides.len() - 1;
        for (n, side) in self.conflict.sides.iter().enumerate() {
            let label = match n {
                0 => "ours".to_owned(),
                n if n == last => "theirs".to_owned(),
                n => format!("side{}", n + 1),
            };
            out.push((label, *side));
        }
        for (n, base) in self.conflict.bases.iter().enumerate() {
            let label = match n {
                0 => "base".to_owned(),
                n => format!("base{}", n + 1),
            };
            out.push((label, *base));
        }
        out
    }
}

/// The unresolved conflicts of a commit, in path order.
pub(in crate::repo) fn conflicts(
    repo: &Handle,
    commit: &Commit,
) -> Result<Vec<ConflictAt>, RepoError> {
    let mut out = Vec::new();
    for path in conflict_paths(repo, commit)? {
        out.extend(conflict_at(repo, &commit.tree, path)?);
    }
    Ok(out)
}

/// The same of a commit of which not all is here: the conflicts that can be looked at, and what is
/// missing of each of those that lie outside of what this repository holds.
pub(in crate::repo) fn conflicts_here(
    repo: &Handle,
    commit: &Commit,
) -> Result<(Vec<ConflictAt>, Vec<Lack>), RepoError> {
    if !slice::is_partial(repo) {
        return Ok((conflicts(repo, commit)?, Vec::new()));
    }
    let (mut here, mut unseen) = (Vec::new(), Vec::new());
    // A slice that cannot be read is told of by others, and stops nobody who only looks.
    let slice = slice::slice(repo).ok();
    for path in conflict_paths(repo, commit)? {
        let is_outside = slice
            .as_ref()
            .is_none_or(|slice| slice.may_lack(ObjectType::Conflict, path.as_bytes(), None));
        let lack = |ty, id| Lack {
            path: path.as_bytes().to_vec(),
            root: Root::Object(ty, id),
        };
        if is_outside && repo.store.is_being_filled() {
            // To look for what is not going to come is to wait for the end of the transfer.
            unseen.push(lack(ObjectType::Tree, commit.tree));
            continue;
        }
        match conflict_at(repo, &commit.tree, path.clone()) {
            Ok(at) => here.extend(at),
            Err(RepoError::Absent { id, ty }) if is_outside => unseen.push(lack(ty, id)),
            Err(e) => return Err(e),
        }
    }
    Ok((here, unseen))
}

/// The conflict that an entry of a tree is.
pub(in crate::repo) fn conflict_of(
    repo: &Handle,
    path: &RepoPath,
    entry: &TreeEntry,
) -> Result<ConflictAt, RepoError> {
    Ok(ConflictAt {
        path: path.clone(),
        id: entry.id,
        conflict: read_conflict(repo.objects(), &entry.id)?,
    })
}

/// The commits that a merge commit brought together, and what they started from: where the
/// versions of its conflicts come from. None for other commits, or where they are not here.
pub(in crate::repo) fn merged_by(
    repo: &Handle,
    commit: &Commit,
) -> Result<Vec<ObjectId>, RepoError> {
    let [ours, theirs, ..] = commit.parents[..] else {
        return Ok(Vec::new());
    };
    match merge_bases(repo.objects(), &ours, &theirs) {
        Ok(bases) => Ok([commit.parents.clone(), bases].concat()),
        Err(ObjectError::Missing { .. }) => Ok(Vec::new()),
        Err(e) => Err(e.into()),
    }
}

/// The first of `commits` that has just `term` at `path`.
pub(in crate::repo) fn origin_of(
    repo: &Handle,
    path: &RepoPath,
    term: &Term,
    commits: &[ObjectId],
) -> Result<Option<ObjectId>, RepoError> {
    let wanted = entry_of(&last_name(path), term, None);
    for id in commits {
        let tree = entries::read_commit(repo, id)?.tree;
        let found = lookup_path(repo.objects(), &tree, path)?;
        if found.is_some_and(|found| found.same_content(&wanted)) {
            return Ok(Some(*id));
        }
    }
    Ok(None)
}

/// The conflict at `path` in a tree, if there is one.
pub(in crate::repo) fn conflict_at(
    repo: &Handle,
    tree: &ObjectId,
    path: RepoPath,
) -> Result<Option<ConflictAt>, RepoError> {
    let entry = lookup_path(repo.objects(), tree, &path)?;
    let Some(entry) = entry.filter(|entry| entry.kind == Kind::Conflict) else {
        return Ok(None);
    };
    conflict_of(repo, &path, &entry).map(Some)
}

/// Paths where a commit has, or is said to have, conflicts.
pub(in crate::repo) fn conflict_paths(
    repo: &Handle,
    commit: &Commit,
) -> Result<Vec<RepoPath>, RepoError> {
    let listed = commit.extras.iter().find(|(key, _)| key == CONFLICTS_KEY);
    let Some((_, list)) = listed else {
        return Ok(Vec::new());
    };
    if !list.is_empty() {
        let paths = list.split(|b| *b == 0);
        let paths: BTreeSet<RepoPath> = paths.filter_map(|p| RepoPath::parse(p).ok()).collect();
        return Ok(paths.into_iter().filter(|path| !path.is_root()).collect());
    }
    let mut out = Vec::new();
    entries::list(repo, &RepoPath::root(), commit.tree, true, &mut |listed| {
        if listed.entry.kind == Kind::Conflict {
            out.push(listed.path);
        }
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(out)
}

/// Sets a commit's list of conflicts, which are at `paths`, in order.
pub(in crate::repo) fn list_conflicts(extras: &mut Vec<(Vec<u8>, Vec<u8>)>, paths: &[RepoPath]) {
    extras.retain(|(key, _)| key != CONFLICTS_KEY);
    if paths.is_empty() {
        return;
    }
    let mut list = paths
        .iter()
        .map(|path| path.as_bytes())
        .collect::<Vec<_>>()
        .join(&0);
    if list.len() > MAX_LIST_BYTES {
        list.clear();
    }
    extras.push((CONFLICTS_KEY.to_vec(), list));
    extras.sort();
}
