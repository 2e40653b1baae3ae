//! Which content the branches of a remote lead to, as far as this repository knows. Nothing here asks a remote.

use crate::hash::ObjectId;
use crate::job::Job;
use crate::merge::{entry_of, read_conflict};
use crate::object::list::Blob;
use crate::object::name::RepoPath;
use crate::object::tree::{Kind, TreeEntry};
use crate::object::{ObjectRead, ObjectType};
use crate::repo::base::error::RepoError;
use crate::repo::base::repo::Repo;
use crate::repo::base::worktree;
use crate::repo::look::entries::{ListingLine, Selection, blob_of};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ops::ControlFlow;

/// How many commits, directories and conflicts are read to find out what a remote has.
const MOST_READ: usize = 100_000;

/// Whether a repository has some content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CopyState {
    /// One of its branches leads to the content.
    Has,
    /// None of its branches leads to the content, or it has purged it.
    Lacks,
    /// Nothing is known of its branches, or too little of their history is stored here.
    Unknown,
}

impl CopyState {
    /// Returns the word for this state.
    pub fn word(self) -> &'static str {
        match self {
            CopyState::Has => "has",
            CopyState::Lacks => "lacks",
            CopyState::Unknown => "unknown",
        }
    }
}

/// What a remote has of some content, as its branches told when it was last heard of.
pub struct RemoteContent {
    /// What its branches do not lead to, as far as they were followed.
    rest: BTreeMap<ObjectId, ObjectType>,
    /// What it has purged, as it says.
    purged: BTreeSet<ObjectId>,
    /// Whether everything was followed.
    is_complete: bool,
}

impl RemoteContent {
    /// Returns whether the remote has the content `id`, one of those that were asked about.
    pub fn state(&self, id: &ObjectId) -> CopyState {
        if self.purged.contains(id) {
            return CopyState::Lacks;
        }
        match (self.rest.contains_key(id), self.is_complete) {
            (false, _) => CopyState::Has,
            (true, true) => CopyState::Lacks,
            (true, false) => CopyState::Unknown,
        }
    }
}

impl Repo {
    /// Visits the files and symlinks of `wanted` that have any bytes, in path order. Of a path in conflict it visits
    /// each version.
    pub fn each_content(
        &self,
        wanted: Selection<'_>,
        visit: &mut dyn FnMut(&RepoPath, Blob),
    ) -> Result<(), RepoError> {
        let mut one = |path: &RepoPath, entry: &TreeEntry| {
            if entry.kind.is_blob() && entry.size > 0 {
                visit(path, blob_of(entry));
            }
        };
        self.list_wanted(wanted, &mut |ListingLine { path, entry }| {
            if entry.kind != Kind::Conflict {
                one(&path, &entry);
            } else if self.holds(ObjectType::Conflict, &entry.id)? {
                let conflict = read_conflict(self, &entry.id)?;
                for term in conflict.bases.iter().chain(&conflict.sides).flatten() {
                    one(&path, &entry_of(&entry.name, term, None));
                }
            }
            Ok(ControlFlow::Continue(()))
        })
    }

    /// Returns which of the files and symlinks in `wanted` a remote has at whatever path and in whatever commit of
    /// its branches.
    ///
    /// A remote that has dropped content, or that is partial, may have less.
    pub fn content_at(
        &self,
        remote: &str,
        wanted: BTreeMap<ObjectId, ObjectType>,
        job: &Job,
    ) -> Result<RemoteContent, RepoError> {
        let mut tips = BTreeSet::new();
        for (key, _) in self.refs.with_prefix(&format!("remote/{remote}/"))? {
            tips.extend(worktree::ref_id(self, &key)?);
        }
        let is_known = !tips.is_empty();
        let told = self.slice()?.told;
        let there = told.iter().filter(|(_, told)| told.place == remote);
        let purged = there.map(|(id, _)| *id).collect();
        let mut rest = wanted;
        let all = take_led_to(self, tips, &mut rest, MOST_READ, job)?;
        Ok(RemoteContent {
            rest,
            purged,
            is_complete: is_known && all,
        })
    }
}

/// Removes the files that `commits` and their history lead to from `wanted`. Walks the newest commits first, until
/// all files are found or `most` objects were read. Returns whether it has seen everything that it looked for.
///
/// An absent or damaged object leads to nothing.
pub fn take_led_to(
    repo: &Repo,
    commits: BTreeSet<ObjectId>,
    wanted: &mut BTreeMap<ObjectId, ObjectType>,
    most: usize,
    job: &Job,
) -> Result<bool, RepoError> {
    let mut commits: Vec<ObjectId> = commits.into_iter().collect();
    let mut seen: HashSet<ObjectId> = commits.iter().copied().collect();
    let (mut read, mut is_complete) = (0, true);
    while !commits.is_empty() && !wanted.is_empty() {
        let mut parents = Vec::new();
        for commit in commits {
            let Ok(commit) = repo.read_commit(&commit) else {
                is_complete = false;
                continue;
            };
            let mut stack = vec![(ObjectType::Tree, commit.tree)];
            while let Some((ty, id)) = stack.pop() {
                job.check()?;
                if !matches!(ty, ObjectType::Tree | ObjectType::Conflict) {
                    wanted.remove(&id);
                } else if !wanted.is_empty() && seen.insert(id) {
                    read += 1;
                    match repo.read(ty, &id) {
                        _ if read > most => return Ok(false),
                        Ok(Some(bytes)) => stack.extend(ty.links(&bytes).unwrap_or_default()),
                        Ok(None) | Err(_) => is_complete = false,
                    }
                }
            }
            parents.extend(commit.parents.into_iter().filter(|id| seen.insert(*id)));
        }
        commits = parents;
    }
    Ok(is_complete)
}
