//! The conflicts of a commit, and their content.

use crate::hash::ObjectId;
use crate::history::merge_bases;
use crate::merge::{ConflictKind, entry_of, read_conflict};
use crate::object::commit::Commit;
use crate::object::conflict::{Conflict, Term};
use crate::object::name::RepoPath;
use crate::object::root::{Lack, Root};
use crate::object::tree::{Kind, TreeEntry, TreeIter, lookup_path};
use crate::object::{ObjectError, ObjectRead, ObjectType};
use crate::repo::base::error::{AbsentError, RepoError};
use crate::repo::base::repo::Repo;
use crate::repo::conflict::names::last_name;
use crate::repo::look::entries::ListingLine;
use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;

/// The key of the commit extra that lists the conflicts (docs/format/objects.md, "Commit").
const CONFLICTS_KEY: &[u8] = b"conflicts";

/// The greatest size of that list in bytes. A longer list is stored empty, and readers search the
/// tree.
const MAX_LIST_BYTES: usize = 32 << 10;

/// A conflict in a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConflictAt {
    /// The path of its entry.
    pub path: RepoPath,
    /// The id of the conflict object.
    pub id: ObjectId,
    /// The content of that object.
    pub conflict: Arc<Conflict>,
}

/// The unresolved conflicts of a commit that may be incomplete in this repository.
#[derive(Debug, Default)]
pub struct FoundConflicts {
    /// The conflicts that can be read, in path order.
    pub here: Vec<ConflictAt>,
    /// One missing object for each conflict that lies outside this repository's slice.
    pub unseen: Vec<Lack>,
}

impl ConflictAt {
    /// Returns the kind of the conflict.
    pub fn kind(&self) -> ConflictKind {
        ConflictKind::of(&self.conflict)
    }

    /// Returns the versions that a merge by lines would read.
    pub(crate) fn texts(&self) -> Vec<Term> {
        let conflict = &self.conflict;
        let terms = conflict.bases.iter().chain(&conflict.sides);
        terms.flatten().copied().collect()
    }

    /// Returns the version of the side that was merged into.
    pub fn ours(&self) -> Option<Term> {
        self.conflict.sides.first().copied().flatten()
    }

    /// Returns the version of the side that was merged.
    pub fn theirs(&self) -> Option<Term> {
        self.conflict.sides.last().copied().flatten()
    }

    /// Returns the version that both sides started from.
    pub fn base(&self) -> Option<Term> {
        self.conflict.bases.first().copied().flatten()
    }

    /// Returns all versions with their labels: `ours`, `theirs`, `base`, and numbered ones for more
    /// sides and bases. `None` means that a version has nothing at this path.
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

impl Repo {
    /// Returns the unresolved conflicts of a commit, in path order.
    pub fn conflicts(&self, commit: &Commit) -> Result<Vec<ConflictAt>, RepoError> {
        let mut out = Vec::new();
        match listed_paths(commit) {
            ListedPaths::These(paths) => {
                for path in paths {
                    out.extend(conflict_at(self, &commit.tree, path)?);
                }
            }
            ListedPaths::TooMany => each_conflict(self, &commit.tree, &mut |listed| {
                out.push(self.conflict_of(&listed.path, &listed.entry)?);
                Ok(())
            })?,
        }
        out.shrink_to_fit();
        Ok(out)
    }

    /// Returns the unresolved conflicts of a commit that may be incomplete in this repository, in path
    /// order, and the paths of those that cannot be read here.
    pub fn conflicts_here(
        &self,
        commit: &Commit,
    ) -> Result<(Vec<ConflictAt>, Vec<RepoPath>), RepoError> {
        let found = conflicts_here(self, commit)?;
        let unseen = found.unseen.into_iter().map(|lack| lack.path);
        Ok((found.here, unseen.collect()))
    }
}

/// Returns the unresolved conflicts of a commit that may be incomplete in this repository.
pub fn conflicts_here(repo: &Repo, commit: &Commit) -> Result<FoundConflicts, RepoError> {
    if !repo.is_partial() {
        return Ok(FoundConflicts {
            here: repo.conflicts(commit)?,
            unseen: Vec::new(),
        });
    }
    let FoundConflicts {
        mut here,
        mut unseen,
    } = FoundConflicts::default();
    // Other commands report an unreadable slice. It must not stop a command that only reads.
    let slice = repo.slice().ok();
    for path in conflict_paths(repo, commit)? {
        let is_outside = slice
            .as_ref()
            .is_none_or(|slice| slice.may_lack(ObjectType::Conflict, path.as_bytes(), None));
        let lack = |ty, id| Lack {
            path: path.clone(),
            root: Root::Object(ty, id),
        };
        if is_outside && repo.store.is_being_filled() {
            // During a transfer, a lookup waits for the end of the transfer. This conflict will not
            // arrive, so skip the lookup.
            unseen.push(lack(ObjectType::Tree, commit.tree));
            continue;
        }
        match conflict_at(repo, &commit.tree, path.clone()) {
            Ok(at) => here.extend(at),
            Err(RepoError::Absent(AbsentError::Object { id, ty })) if is_outside => {
                unseen.push(lack(ty, id))
            }
            Err(e) => return Err(e),
        }
    }
    Ok(FoundConflicts { here, unseen })
}

impl Repo {
    /// Reads the conflict that a tree entry names.
    pub fn conflict_of(&self, path: &RepoPath, entry: &TreeEntry) -> Result<ConflictAt, RepoError> {
        Ok(ConflictAt {
            path: path.clone(),
            id: entry.id,
            conflict: Arc::new(read_conflict(self.objects(), &entry.id)?),
        })
    }

    /// Returns the parents of a merge commit and their merge bases: the sources of the versions in
    /// its conflicts.
    ///
    /// Returns nothing for other commits, or if the history is absent from this repository.
    pub fn merged_by(&self, commit: &Commit) -> Result<Vec<ObjectId>, RepoError> {
        let [ours, theirs, ..] = commit.parents[..] else {
            return Ok(Vec::new());
        };
        match merge_bases(self.objects(), &ours, &theirs) {
            Ok(bases) => Ok([commit.parents.clone(), bases].concat()),
            Err(ObjectError::Missing { .. }) => Ok(Vec::new()),
            Err(e) => Err(e.into()),
        }
    }

    /// Returns the first of `commits` that has exactly `term` at `path`.
    pub fn origin_of(
        &self,
        path: &RepoPath,
        term: &Term,
        commits: &[ObjectId],
    ) -> Result<Option<ObjectId>, RepoError> {
        let wanted = entry_of(&last_name(path), term, None);
        for id in commits {
            let tree = self.read_commit(id)?.tree;
            let found = lookup_path(self.objects(), &tree, path)?;
            if found.is_some_and(|found| found.same_content(&wanted)) {
                return Ok(Some(*id));
            }
        }
        Ok(None)
    }
}

/// Returns the conflict at `path` in a tree, if there is one.
pub fn conflict_at(
    repo: &Repo,
    tree: &ObjectId,
    path: RepoPath,
) -> Result<Option<ConflictAt>, RepoError> {
    let entry = lookup_path(repo.objects(), tree, &path)?;
    let Some(entry) = entry.filter(|entry| entry.kind == Kind::Conflict) else {
        return Ok(None);
    };
    repo.conflict_of(&path, &entry).map(Some)
}

/// Returns the paths of the conflicts in a tree at a path that had one. If a directory is there now,
/// it may be a version of the conflict with conflicts of its own.
///
/// Fails with [`ObjectError::Missing`] if it is unknown what is at the path. Directories below it
/// that are absent are skipped.
pub fn paths_at(
    reader: &dyn ObjectRead,
    tree: &ObjectId,
    path: &RepoPath,
) -> Result<Vec<RepoPath>, ObjectError> {
    match lookup_path(reader, tree, path)? {
        Some(entry) => paths_in(reader, path, &entry),
        None => Ok(Vec::new()),
    }
}

/// Returns the paths of the conflicts in an entry at `path`: there, or below it.
pub fn paths_in(
    reader: &dyn ObjectRead,
    path: &RepoPath,
    entry: &TreeEntry,
) -> Result<Vec<RepoPath>, ObjectError> {
    let mut found = Vec::new();
    let mut left = vec![(path.clone(), entry.clone())];
    while let Some((path, entry)) = left.pop() {
        match entry.kind {
            Kind::Conflict => found.push(path),
            Kind::Directory => match children(reader, &path, &entry.id) {
                Ok(children) => left.extend(children),
                Err(ObjectError::Missing { .. }) => {}
                Err(e) => return Err(e),
            },
            _ => {}
        }
    }
    found.sort();
    Ok(found)
}

/// Returns the conflicts and directories of a directory.
fn children(
    reader: &dyn ObjectRead,
    dir: &RepoPath,
    tree: &ObjectId,
) -> Result<Vec<(RepoPath, TreeEntry)>, ObjectError> {
    let mut out = Vec::new();
    for entry in TreeIter::new(reader, *tree) {
        let entry = entry?;
        if matches!(entry.kind, Kind::Conflict | Kind::Directory) {
            let path = dir.join(&entry.name).map_err(|e| ObjectError::Damaged {
                id: *tree,
                ty: ObjectType::Tree,
                why: e.why().to_owned(),
            })?;
            out.push((path, entry));
        }
    }
    Ok(out)
}

/// Returns the paths where a commit has conflicts. Paths from the commit's list are not checked
/// against its tree.
pub fn conflict_paths(repo: &Repo, commit: &Commit) -> Result<Vec<RepoPath>, RepoError> {
    if let ListedPaths::These(paths) = listed_paths(commit) {
        return Ok(paths.into_iter().collect());
    }
    let mut out = Vec::new();
    each_conflict(repo, &commit.tree, &mut |listed| {
        out.push(listed.path);
        Ok(())
    })?;
    Ok(out)
}

impl Repo {
    /// Returns the paths that a commit lists as its unresolved conflicts, in path order. It reads no tree,
    /// so a damaged commit may list others. `None`: they are too many for the list.
    pub fn listed_conflicts(commit: &Commit) -> Option<Vec<RepoPath>> {
        match listed_paths(commit) {
            ListedPaths::These(paths) => Some(paths.into_iter().collect()),
            ListedPaths::TooMany => None,
        }
    }
}

/// What a commit says about the paths of its conflicts.
enum ListedPaths {
    These(BTreeSet<RepoPath>),
    /// They are too many for the list, so only the tree tells them.
    TooMany,
}

fn listed_paths(commit: &Commit) -> ListedPaths {
    let listed = commit.extras.iter().find(|(key, _)| key == CONFLICTS_KEY);
    match listed {
        None => ListedPaths::These(BTreeSet::new()),
        Some((_, list)) if list.is_empty() => ListedPaths::TooMany,
        Some((_, list)) => {
            let paths = list.split(|b| *b == 0);
            let paths = paths.filter_map(|path| RepoPath::parse(path).ok());
            ListedPaths::These(paths.filter(|path| !path.is_root()).collect())
        }
    }
}

/// Visits the conflicts of a tree, in path order.
pub fn each_conflict(
    repo: &Repo,
    tree: &ObjectId,
    visit: &mut dyn FnMut(ListingLine) -> Result<(), RepoError>,
) -> Result<(), RepoError> {
    repo.list(&RepoPath::root(), *tree, true, &mut |listed| {
        if listed.entry.kind == Kind::Conflict {
            visit(listed)?;
        }
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(())
}

/// Sets a commit's list of conflicts to `paths`, which are in order.
pub fn list_conflicts(extras: &mut Vec<(Vec<u8>, Vec<u8>)>, paths: &[RepoPath]) {
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
