//! Which paths have a newer version on another branch.
//!
//! A version counts if it differs from the one at the merge base, and from one's own. Ids are compared, so
//! no content is read, and a change that was taken back does not count.

use crate::diff::{DiffVisitor, Slice, diff_slices};
use crate::hash::ObjectId;
use crate::history::forks::{Fork, forks};
use crate::history::load_commit;
use crate::job::Job;
use crate::object::name::RepoPath;
use crate::object::tree::{Kind, TreeEntry, lookup_path};
use crate::object::{ObjectError, ObjectRead};
use crate::repo::base::branch::BranchPlace;
use crate::repo::base::change::ChangeKind;
use crate::repo::base::error::RepoError;
use crate::repo::base::repo::Repo;
use crate::repo::base::worktree;
use crate::repo::look::history;
use crate::subset::Subset;
use crate::worktree::scan::Select;
use crate::worktree::split_path;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::ControlFlow;

/// How many commits a command reads at most that only shows newer versions beside other things, to stay fast
/// beside a branch that parted long ago.
pub const QUICK_COMMITS: usize = 2_000;

/// What to look for.
pub struct NewerOptions<'a> {
    /// The commit with one's own versions.
    pub own: ObjectId,
    /// The paths that matter.
    pub select: &'a dyn Select,
    /// Other paths do not matter.
    pub subset: &'a Subset,
    /// How many commits to read at most to find out where the branches parted.
    pub max_commits: usize,
}

/// A version that one's own commit does not have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewerVersion {
    /// The path.
    pub path: RepoPath,
    /// What happened to the path since the merge base.
    pub kind: ChangeKind,
    /// Where it is.
    pub on: BranchPlace,
    /// The newest commit that brought it there; the branch's last commit if none did, for example
    /// because a merge took up an old version.
    pub commit: ObjectId,
}

/// The newer versions of some paths.
#[derive(Debug, Default)]
pub struct NewerReport {
    /// The versions in path order. A version that several branches have stands there once, with the
    /// first of them: the worktree's branch at remotes, then local branches, then others.
    pub versions: Vec<NewerVersion>,
    /// Branches of which too little is known: their history or directories are absent, or too many
    /// commits lie between.
    pub unknown: Vec<BranchPlace>,
}

impl Repo {
    /// Returns the commit with which branches are compared: that of the files, or of a bare repository.
    pub fn own_commit(&self) -> Result<Option<ObjectId>, RepoError> {
        match self.worktree_root() {
            Some(_) => self.base_commit(),
            None => self.head_commit(),
        }
    }

    /// Returns the newer versions on all branches and remote branches.
    ///
    /// Branches whose history does not meet the own one are left out, and so are those that another
    /// branch contains.
    pub fn newer(&self, options: &NewerOptions<'_>, job: &Job) -> Result<NewerReport, RepoError> {
        let places = self.remembered.branches.get(&self.refs, || places(self))?;
        let mut tips: Vec<ObjectId> = Vec::new();
        let mut named: Vec<&BranchPlace> = Vec::new();
        let mut known = BTreeSet::from([options.own]);
        for (place, tip) in &*places {
            if known.insert(*tip) {
                tips.push(*tip);
                named.push(place);
            }
        }
        let objects = self.objects();
        let forks = self.remembered.forks(&options.own, &tips, || {
            forks(objects, &options.own, &tips, options.max_commits)
        })?;
        if forks
            .iter()
            .all(|fork| matches!(fork, Fork::Contained | Fork::Covered))
        {
            return Ok(NewerReport::default());
        }
        let mut search = Search {
            objects,
            options,
            own_tree: load_commit(objects, &options.own)?.tree,
            job,
            found: BTreeMap::new(),
        };
        let mut unknown = Vec::new();
        for ((place, tip), fork) in named.into_iter().zip(&tips).zip(forks.iter()) {
            job.check()?;
            match fork {
                Fork::Contained | Fork::Covered => {}
                Fork::Unknown => unknown.push(place.clone()),
                Fork::From(bases) => {
                    let added = search.add(place, *tip, bases);
                    match added.and_then(|pending| search.attribute(self, *tip, pending)) {
                        Err(RepoError::Object(ObjectError::Missing { .. })) => {
                            unknown.push(place.clone())
                        }
                        other => other?,
                    }
                }
            }
        }
        let versions = search.found.into_values().flatten();
        Ok(NewerReport {
            versions: versions.map(|(_, version)| version).collect(),
            unknown,
        })
    }
}

/// Returns all branches with their commits, in the order in which a version names them.
fn places(repo: &Repo) -> Result<Vec<(BranchPlace, ObjectId)>, RepoError> {
    let current = repo.head()?;
    let current = current.branch();
    let mut out = Vec::new();
    for (key, value) in repo.refs.with_prefix("branch/")? {
        let tip = worktree::id_value(repo, &key, &value)?;
        let branch = key["branch/".len()..].to_owned();
        let remote = None;
        out.push((BranchPlace { remote, branch }, tip));
    }
    for (key, value) in repo.refs.with_prefix("remote/")? {
        let Some((remote, branch)) = key["remote/".len()..].split_once('/') else {
            continue;
        };
        let tip = worktree::id_value(repo, &key, &value)?;
        let (remote, branch) = (Some(remote.to_owned()), branch.to_owned());
        out.push((BranchPlace { remote, branch }, tip));
    }
    out.sort_by_cached_key(|(place, _)| {
        let is_current = current == Some(&place.branch);
        let rank = match (place.remote.is_some(), is_current) {
            (true, true) => 0,
            (false, _) => 1,
            (true, false) => 2,
        };
        (rank, place.clone())
    });
    Ok(out)
}

/// What a branch has at a path; `None` if it is deleted there.
type Entry = Option<TreeEntry>;

/// The versions of one branch whose commits are not known yet.
type PendingVersions = HashMap<RepoPath, Entry>;

struct Search<'a> {
    objects: &'a dyn ObjectRead,
    options: &'a NewerOptions<'a>,
    own_tree: ObjectId,
    job: &'a Job,
    /// The versions that were found at each path.
    found: BTreeMap<RepoPath, Vec<(Entry, NewerVersion)>>,
}

impl Search<'_> {
    /// Adds the newer versions of one branch that no other one has, and returns them.
    fn add(
        &mut self,
        place: &BranchPlace,
        tip: ObjectId,
        bases: &[ObjectId],
    ) -> Result<PendingVersions, RepoError> {
        let tree_of = |id: &ObjectId| load_commit(self.objects, id).map(|commit| commit.tree);
        let tree = tree_of(&tip)?;
        let bases = bases.iter().map(tree_of).collect::<Result<Vec<_>, _>>()?;
        let Some((first, others)) = bases.split_first() else {
            return Ok(PendingVersions::new());
        };
        let changes = self.changes(Some(*first), tree)?;
        let mut pending = PendingVersions::new();
        for ChangedFile { path, kind, entry } in changes {
            // A change that a branch has taken over from here is none, and so is one that
            // another base has.
            let is_known =
                |tree: &ObjectId| Ok(tree != first && self.has(tree, &path, entry.as_ref())?);
            if is_known(&self.own_tree)? || any(others, is_known)? {
                continue;
            }
            let at = self.found.entry(path.clone()).or_default();
            if at
                .iter()
                .any(|(other, _)| is_same(other.as_ref(), entry.as_ref()))
            {
                continue;
            }
            let version = NewerVersion {
                path: path.clone(),
                kind,
                on: place.clone(),
                commit: tip,
            };
            at.push((entry.clone(), version));
            pending.insert(path, entry);
        }
        Ok(pending)
    }

    /// Returns the selected files that differ between two trees.
    fn changes(&self, old: Option<ObjectId>, new: ObjectId) -> Result<Vec<ChangedFile>, RepoError> {
        let mut visitor = Changes {
            select: self.options.select,
            job: self.job,
            changes: Vec::new(),
        };
        let subset = self.options.subset;
        let slice = |tree: Option<ObjectId>| Slice { tree, subset };
        match diff_slices(self.objects, slice(old), slice(Some(new)), &mut visitor)? {
            ControlFlow::Continue(()) => Ok(visitor.changes),
            ControlFlow::Break(()) => Err(RepoError::Cancelled),
        }
    }

    /// Returns whether a tree has this version of a path.
    fn has(
        &self,
        tree: &ObjectId,
        path: &RepoPath,
        entry: Option<&TreeEntry>,
    ) -> Result<bool, ObjectError> {
        let theirs = lookup_path(self.objects, tree, path)?;
        let theirs = theirs.filter(|entry| entry.kind != Kind::Directory);
        Ok(is_same(theirs.as_ref(), entry))
    }

    /// Finds the newest commit that brought each of the versions to `tip`.
    fn attribute(
        &mut self,
        repo: &Repo,
        tip: ObjectId,
        mut pending: PendingVersions,
    ) -> Result<(), RepoError> {
        if pending.is_empty() {
            return Ok(());
        }
        let only = history::only_in(repo, tip, self.options.own)?;
        if only == [tip] {
            // The branch's last commit stands in the versions until another one is found.
            return Ok(());
        }
        for id in only {
            if pending.is_empty() {
                break;
            }
            self.job.check()?;
            for path in self.brought(&id, &pending)? {
                let Some(entry) = pending.remove(&path) else {
                    continue;
                };
                let versions = self.found.get_mut(&path).into_iter().flatten();
                for (known, version) in versions {
                    if is_same(known.as_ref(), entry.as_ref()) {
                        version.commit = id;
                    }
                }
            }
        }
        Ok(())
    }

    /// Returns the pending paths whose version a commit has and none of its parents.
    fn brought(
        &self,
        id: &ObjectId,
        pending: &PendingVersions,
    ) -> Result<Vec<RepoPath>, RepoError> {
        let commit = load_commit(self.objects, id)?;
        let mut parents = Vec::new();
        for parent in &commit.parents {
            match load_commit(self.objects, parent) {
                Ok(parent) => parents.push(parent.tree),
                Err(ObjectError::Missing { .. }) => {}
                Err(e) => return Err(e.into()),
            }
        }
        let others = parents.get(1..).unwrap_or_default();
        let mut brought = Vec::new();
        for ChangedFile { path, entry, .. } in
            self.changes(parents.first().copied(), commit.tree)?
        {
            let wanted = pending.get(&path);
            let is_wanted = wanted.is_some_and(|wanted| is_same(wanted.as_ref(), entry.as_ref()));
            if is_wanted && !any(others, |tree| self.has(tree, &path, entry.as_ref()))? {
                brought.push(path);
            }
        }
        Ok(brought)
    }
}

/// Returns whether a question is answered with yes for one of the trees.
fn any(
    trees: &[ObjectId],
    ask: impl Fn(&ObjectId) -> Result<bool, ObjectError>,
) -> Result<bool, ObjectError> {
    for tree in trees {
        if ask(tree)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn is_same(a: Option<&TreeEntry>, b: Option<&TreeEntry>) -> bool {
    match (a, b) {
        (Some(a), Some(b)) => a.same_content(b),
        (None, None) => true,
        _ => false,
    }
}

/// Returns whether an entry is a regular file.
fn is_regular(entry: &TreeEntry) -> bool {
    matches!(entry.kind, Kind::File | Kind::Executable)
}

/// A file that differs between two trees.
struct ChangedFile {
    path: RepoPath,
    kind: ChangeKind,
    /// What the new tree has there.
    entry: Entry,
}

/// Collects the selected files that differ.
struct Changes<'a> {
    select: &'a dyn Select,
    job: &'a Job,
    changes: Vec<ChangedFile>,
}

impl DiffVisitor for Changes<'_> {
    type Error = ObjectError;

    fn enter(&mut self, dir: &RepoPath, _: [Option<ObjectId>; 2]) -> bool {
        self.select.enters(dir.as_bytes())
    }

    fn change(
        &mut self,
        path: &RepoPath,
        old: Option<&TreeEntry>,
        new: Option<&TreeEntry>,
    ) -> Result<ControlFlow<()>, ObjectError> {
        if self.job.is_cancelled() {
            return Ok(ControlFlow::Break(()));
        }
        let is_file = |entry: &&TreeEntry| entry.kind != Kind::Directory;
        let kind = match (old.filter(is_file), new.filter(is_file)) {
            (None, None) => return Ok(ControlFlow::Continue(())),
            (None, Some(_)) => ChangeKind::Added,
            (Some(_), None) => ChangeKind::Deleted,
            (Some(old), Some(new)) if is_regular(old) != is_regular(new) => ChangeKind::Type,
            (Some(_), Some(_)) => ChangeKind::Modified,
        };
        if split_path(path.as_bytes()).is_some_and(|(dir, name)| self.select.takes(dir, name)) {
            let new = new.filter(is_file).cloned();
            self.changes.push(ChangedFile {
                path: path.clone(),
                kind,
                entry: new,
            });
        }
        Ok(ControlFlow::Continue(()))
    }
}
