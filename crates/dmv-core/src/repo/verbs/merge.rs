//! Merge and revert: merges another history into this one, or commits the reverse of a commit.
//!
//! Both make a tree from three trees, write a commit with it, make the worktree equal to the commit
//! and move the branch, as one operation. Conflicts are part of the commit.

use crate::hash::ObjectId;
use crate::history::is_ancestor;
use crate::job::Job;
use crate::merge::{MergeError, MergeResult, MovedEntry, Trees, merge_commits, merge_trees};
use crate::object::commit::Commit;
use crate::object::name::RepoPath;
use crate::object::tree::put_empty_tree;
use crate::object::{ObjectError, ObjectRead, ObjectWrite};
use crate::refs::{Change, Effect};
use crate::repo::base::error::{LookError, RepoError, VerbError, WorktreeError};
use crate::repo::base::head::Head;
use crate::repo::base::publish::OperationRequest;
use crate::repo::base::repo::Repo;
use crate::repo::base::transaction::Transaction;
use crate::repo::base::worktree::WorktreeSettings;
use crate::repo::base::{notes, whole, worktree};
use crate::repo::conflict::at::{ConflictAt, list_conflicts};
use crate::repo::conflict::form::Form;
use crate::repo::conflict::{at, form};
use crate::repo::files::checkout::target::{SwitchResult, SwitchTo};
use crate::repo::files::commit::advance;
use crate::repo::files::emptied::EmptiedPattern;
use crate::repo::files::open_worktree::OpenWorktree;
use crate::repo::files::who::Who;
use crate::repo::files::{checkout, commit, open_worktree, portable};
use crate::repo::look::moved;
use crate::repo::verbs::mainline::mainline_parent;
use crate::worktree::snapshot::Problem;
use std::collections::BTreeSet;

/// Whether a branch may be moved without a merge commit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FastForward {
    /// Fast-forward if possible, otherwise make a merge commit.
    #[default]
    Auto,
    /// Always make a merge commit.
    Never,
    /// Only fast-forward. Refuse if a merge commit is needed.
    Only,
}

/// How to merge or revert.
pub struct MergeOptions {
    /// The message of the commit.
    pub message: String,
    /// Who commits.
    pub committer: Who,
    /// How files are read into the store.
    pub settings: WorktreeSettings,
    /// What the operation log records about the request.
    pub request: OperationRequest,
}

impl MergeOptions {
    /// Returns options for a merge or revert with the default settings.
    pub fn new(
        message: impl Into<String>,
        committer: Who,
        request: OperationRequest,
    ) -> MergeOptions {
        MergeOptions {
            message: message.into(),
            committer,
            settings: WorktreeSettings::default(),
            request,
        }
    }
}

/// What a merge or revert did.
#[derive(Debug)]
pub struct MergeReport {
    /// The branch's present commit: the new commit, the one it was fast-forwarded to, or the one it
    /// was on if there was nothing to do.
    pub commit: ObjectId,
    /// The head of the worktree.
    pub head: Head,
    /// Whether the branch was only fast-forwarded.
    pub fast_forward: bool,
    /// Whether there was nothing to do.
    pub up_to_date: bool,
    /// All conflicts of a new commit.
    pub conflicts: Vec<ConflictAt>,
    /// Paths of the conflicts that lie outside this repository's slice.
    pub unseen: Vec<RepoPath>,
    /// Files that one side moved and the other side changed. The merge applied the changes at the
    /// new path.
    pub moves: Vec<MovedEntry>,
    /// Whether there were too many files to look for moves among all of them.
    pub moves_skipped: bool,
    /// Text conflicts whose versions differ too much to separate all changes.
    pub coarse: Vec<RepoPath>,
    /// The bytes of file content that the merge had to read.
    pub content_bytes: u64,
    /// The number of files and symlinks written.
    pub files: u64,
    /// The bytes written.
    pub bytes: u64,
    /// The number of files and symlinks removed.
    pub removed: u64,
    /// Paths that could not be made equal to the commit, and why.
    pub refused: Vec<Problem>,
    /// Patterns of the worktree's subset that matched something before and match nothing now.
    pub emptied: Vec<EmptiedPattern>,
}

impl MergeReport {
    pub(crate) fn new(commit: ObjectId, head: Head) -> MergeReport {
        MergeReport {
            commit,
            head,
            fast_forward: false,
            up_to_date: false,
            conflicts: Vec::new(),
            unseen: Vec::new(),
            moves: Vec::new(),
            moves_skipped: false,
            coarse: Vec::new(),
            content_bytes: 0,
            files: 0,
            bytes: 0,
            removed: 0,
            refused: Vec::new(),
            emptied: Vec::new(),
        }
    }
}

/// The place of a merge. A bare repository has no files to change.
pub struct Site {
    tree: Option<OpenWorktree>,
    head: Head,
    pub ours: Option<ObjectId>,
    /// The branch's commit: `ours`, unless another worktree or a push moved the branch.
    tip: Option<ObjectId>,
}

impl Site {
    pub fn new(tree: Option<OpenWorktree>, head: Head, ours: Option<ObjectId>) -> Site {
        Site {
            tree,
            head,
            ours,
            tip: ours,
        }
    }

    /// Returns the head of the place.
    pub fn head(&self) -> &Head {
        &self.head
    }

    /// Returns the site for a worktree whose commit `ours` is not on its branch. The branch is at
    /// `tip`.
    pub fn moved(tree: OpenWorktree, head: Head, (ours, tip): (ObjectId, ObjectId)) -> Site {
        Site {
            tree: Some(tree),
            head,
            ours: Some(ours),
            tip: Some(tip),
        }
    }
}

/// A commit of a transaction that is not published yet.
pub struct UnpublishedCommit {
    id: ObjectId,
    commit: Commit,
    merged: MergeResult,
}

impl Repo {
    /// Merges the commit `theirs` into the head.
    ///
    /// Keeps uncommitted changes that do not collide. If changes would be lost, fails with
    /// [`FilesError::WouldLose`](crate::repo::FilesError::WouldLose), which lists the paths, before it
    /// changes anything. Otherwise, the merge completes: it commits conflicts as such, and the report
    /// lists them.
    pub fn merge(
        &self,
        theirs: ObjectId,
        fast_forward: FastForward,
        options: &MergeOptions,
        job: &Job,
    ) -> Result<MergeReport, RepoError> {
        let _lock = worktree::lock_if_worktree(self)?;
        let site = site(self, &options.settings)?;
        whole::check_complete(self, &[theirs])?;
        let Some(ours) = site.ours else {
            return go_forward(self, &site, theirs, options, job);
        };
        let objects = self.objects();
        if is_ancestor(objects, &theirs, &ours)? {
            let mut report = MergeReport::new(ours, site.head);
            report.up_to_date = true;
            return Ok(report);
        }
        if fast_forward != FastForward::Never && is_ancestor(objects, &ours, &theirs)? {
            return go_forward(self, &site, theirs, options, job);
        }
        if fast_forward == FastForward::Only {
            let name = site.head.branch().unwrap_or("the head").to_owned();
            return Err(VerbError::NotFastForward { name }.into());
        }
        merge_commits_at(self, &site, (ours, theirs), options, job)
    }
}

/// Merges two commits. Neither is an ancestor of the other.
pub fn merge_commits_at(
    repo: &Repo,
    site: &Site,
    (ours, theirs): (ObjectId, ObjectId),
    options: &MergeOptions,
    job: &Job,
) -> Result<MergeReport, RepoError> {
    let (our_commit, their_commit) = (repo.read_commit(&ours)?, repo.read_commit(&theirs)?);
    let inherited = paths_of(repo, [&our_commit, &their_commit])?;
    let (objects, cancel) = (repo.objects(), job.cancel_flag());
    let mut merge =
        |writer: &mut dyn ObjectWrite| merge_commits(objects, writer, &ours, &theirs, cancel);
    let mut tx = Transaction::within_budget(repo, &options.request)?;
    let made = make(&mut tx, &mut merge, inherited, vec![ours, theirs], options)?;
    land(tx, site, made, "this merge", options, job)
}

impl Repo {
    /// Commits the reverse of the changes that `commit` made to its parent.
    ///
    /// For a merge commit, `mainline` names the parent, counted from 1. A later change becomes a
    /// conflict if it overlaps a reverted one.
    pub fn revert(
        &self,
        commit: ObjectId,
        mainline: Option<usize>,
        options: &MergeOptions,
        job: &Job,
    ) -> Result<MergeReport, RepoError> {
        let _lock = worktree::lock_if_worktree(self)?;
        let site = site(self, &options.settings)?;
        let ours = site.ours.ok_or(LookError::NoCommit)?;
        whole::check_complete(self, &[commit])?;
        let (undone, head) = (self.read_commit(&commit)?, self.read_commit(&ours)?);
        let parent = mainline_parent(commit, &undone.parents, mainline, "revert")?;
        let before = parent.map(|id| self.read_commit(&id)).transpose()?;
        let mut inherited = paths_of(self, [&undone, &head])?;
        let theirs = match &before {
            Some(before) => {
                inherited.extend(at::conflict_paths(self, before)?);
                before.tree
            }
            None => put_empty_tree(&mut &self.made)?,
        };
        let trees = Trees {
            base: Some(undone.tree),
            ours: head.tree,
            theirs,
        };
        let (objects, cancel) = (self.objects(), job.cancel_flag());
        let mut merge = |writer: &mut dyn ObjectWrite| merge_trees(objects, writer, trees, cancel);
        let mut tx = Transaction::within_budget(self, &options.request)?;
        let made = make(&mut tx, &mut merge, inherited, vec![ours], options)?;
        if made.commit.tree == head.tree {
            let mut report = MergeReport::new(ours, site.head);
            report.up_to_date = true;
            return Ok(report);
        }
        land(tx, &site, made, "this revert", options, job)
    }
}

pub fn site(repo: &Repo, settings: &WorktreeSettings) -> Result<Site, RepoError> {
    let (head, ours) = (repo.head()?, repo.head_commit()?);
    let tree = match repo.worktree_root() {
        Some(_) => Some(open_worktree::open(repo, settings)?),
        None => None,
    };
    if let Some(tree) = &tree {
        refuse_moved(repo, tree, &head)?;
    }
    Ok(Site::new(tree, head, ours))
}

fn go_forward(
    repo: &Repo,
    site: &Site,
    theirs: ObjectId,
    options: &MergeOptions,
    job: &Job,
) -> Result<MergeReport, RepoError> {
    let form = form::form_at(repo, &theirs)?;
    let tx = Transaction::begin(repo, &options.request);
    let done = go_to(tx, site, theirs, form, "this merge", options, job)?;
    let mut report = MergeReport::new(theirs, moved(&site.head, theirs));
    report.fast_forward = true;
    report.take(done);
    Ok(report)
}

fn paths_of(repo: &Repo, commits: [&Commit; 2]) -> Result<BTreeSet<RepoPath>, RepoError> {
    let mut paths = BTreeSet::new();
    for commit in commits {
        paths.extend(at::conflict_paths(repo, commit)?);
    }
    Ok(paths)
}

/// Adds a merged tree and a commit with it to `tx`. `inherited` names the places where the sides already
/// have conflicts.
pub fn make(
    tx: &mut Transaction<'_>,
    merge: &mut dyn FnMut(&mut dyn ObjectWrite) -> Result<MergeResult, MergeError>,
    inherited: BTreeSet<RepoPath>,
    parents: Vec<ObjectId>,
    options: &MergeOptions,
) -> Result<UnpublishedCommit, RepoError> {
    let repo = tx.repo();
    let mut merged = merge(tx)?;
    // The commit names its conflicts, so this list of them is not needed any more.
    let made = std::mem::take(&mut merged.conflicts);
    let mut paths: BTreeSet<RepoPath> = made.into_iter().map(|c| c.path).collect();
    for path in inherited {
        // The merged tree shows which of the old conflicts it still has.
        let objects = tx.objects()?;
        for path in after_moves(path, &merged.moves)? {
            match at::paths_at(objects, &merged.tree.id, &path) {
                Ok(found) => paths.extend(found),
                // The conflict lies in a part that the merge did not touch, so it is unchanged.
                Err(ObjectError::Missing { .. }) if repo.is_partial() => {
                    paths.insert(path);
                }
                Err(e) => return Err(e.into()),
            }
        }
    }
    let mut commit = new_commit(repo, &merged, &paths, parents, options)?;
    let id = tx.put_own_commit(&mut commit)?;
    tx.objects()?;
    check_names(repo, &commit.parents, merged.tree.id, options)?;
    Ok(UnpublishedCommit { id, commit, merged })
}

/// Fails if names have to be portable, and a new commit has a name that none of its `parents` has and that
/// is not.
fn check_names(
    repo: &Repo,
    parents: &[ObjectId],
    tree: ObjectId,
    options: &MergeOptions,
) -> Result<(), RepoError> {
    if !options.settings.portable_names {
        return Ok(());
    }
    let trees = parents.iter().map(|id| Ok(repo.read_commit(id)?.tree));
    let trees = trees.collect::<Result<Vec<_>, RepoError>>()?;
    check_names_in(repo, repo.objects(), &trees, tree)
}

/// Fails if `tree` has a name that is not portable and that none of the trees `parents` has at its path.
pub fn check_names_in(
    repo: &Repo,
    objects: &dyn ObjectRead,
    parents: &[ObjectId],
    tree: ObjectId,
) -> Result<(), RepoError> {
    match portable::check_tree(objects, parents, tree) {
        // In a partial repository, a part that is absent is one that the command did not touch.
        Err(RepoError::Absent(_)) if repo.is_partial() => Ok(()),
        done => done,
    }
}

/// Returns the places where something at `path` may be after a merge: there, and where the merge
/// has moved it.
pub fn after_moves(path: RepoPath, moves: &[MovedEntry]) -> Result<Vec<RepoPath>, RepoError> {
    let mut now = Vec::new();
    for MovedEntry { from, to } in moves {
        if path.starts_with(from) {
            let rest = &path.as_bytes()[from.as_bytes().len()..];
            now.push(Repo::parse_path(&[to.as_bytes(), rest].concat())?);
        }
    }
    now.push(path);
    Ok(now)
}

fn new_commit(
    repo: &Repo,
    merged: &MergeResult,
    conflicts: &BTreeSet<RepoPath>,
    parents: Vec<ObjectId>,
    options: &MergeOptions,
) -> Result<Commit, RepoError> {
    let person = options.committer.at(options.request.time);
    let mut extras = Vec::new();
    let paths: Vec<RepoPath> = conflicts.iter().cloned().collect();
    list_conflicts(&mut extras, &paths);
    Ok(Commit {
        tree: merged.tree.id,
        tree_bytes: merged.tree.bytes,
        tree_files: merged.tree.files,
        generation: commit::generation(repo, &parents)?,
        parents,
        author: person.clone(),
        committer: person,
        message: options.message.clone(),
        extras,
        signature: None,
    })
}

/// Makes the worktree equal to a new commit, then publishes the commit.
pub fn land(
    tx: Transaction<'_>,
    site: &Site,
    made: UnpublishedCommit,
    what: &'static str,
    options: &MergeOptions,
    job: &Job,
) -> Result<MergeReport, RepoError> {
    let UnpublishedCommit { id, commit, merged } = made;
    let mut report = MergeReport::new(id, moved(&site.head, id));
    report.moves = merged.moves;
    report.moves_skipped = merged.moves_skipped;
    report.coarse = merged.coarse;
    report.content_bytes = merged.content_bytes;
    let form = report.form_of(tx.repo(), &commit)?;
    let done = go_to(tx, site, id, form, what, options, job)?;
    report.take(done);
    Ok(report)
}

/// Makes the worktree equal to `commit`, then publishes `tx` and moves the head. In a bare repository,
/// only the head moves.
pub fn go_to(
    mut tx: Transaction<'_>,
    site: &Site,
    commit: ObjectId,
    form: Form,
    what: &'static str,
    options: &MergeOptions,
    job: &Job,
) -> Result<SwitchResult, RepoError> {
    job.check()?;
    let Some(tree) = &site.tree else {
        let Head::Branch(name) = &site.head else {
            return Err(WorktreeError::NoWorktree.into());
        };
        tx.change([Change {
            key: format!("branch/{name}"),
            old: site.tip.map(|id| id.as_bytes().to_vec()),
            new: Some(commit.as_bytes().to_vec()),
        }]);
        tx.publish(Effect::Kept)?;
        return Ok(SwitchResult::default());
    };
    tx.change(advance(tree, &site.head, site.tip, commit));
    let to = SwitchTo::new(what, &options.request, form, tree, &options.settings);
    checkout::switch_files(tx, tree, &to, job, |tx| {
        tx.publish(Effect::Written).map(drop)
    })
}

impl MergeReport {
    /// Takes over the conflicts of the new commit. Returns how the worktree shows it.
    pub(crate) fn form_of(&mut self, repo: &Repo, commit: &Commit) -> Result<Form, RepoError> {
        let found = at::conflicts_here(repo, commit)?;
        self.conflicts.clone_from(&found.here);
        self.unseen = found.unseen.iter().map(|lack| lack.path.clone()).collect();
        form::form_showing(repo, commit, &notes::read(repo)?, found)
    }

    pub(crate) fn take(&mut self, done: SwitchResult) {
        self.files = done.files;
        self.bytes = done.bytes;
        self.removed = done.removed;
        self.refused = done.refused;
        self.emptied = done.emptied;
    }
}

/// Returns the head after a commit.
pub fn moved(head: &Head, commit: ObjectId) -> Head {
    match head {
        Head::Branch(name) => Head::Branch(name.clone()),
        Head::Commit(_) => Head::Commit(commit),
    }
}

/// Refuses a worktree whose branch was moved.
fn refuse_moved(repo: &Repo, tree: &OpenWorktree, head: &Head) -> Result<(), RepoError> {
    match moved::moved(repo, tree.base, head)? {
        Some(found) => Err(moved::refused(repo, head, found)),
        None => Ok(()),
    }
}
