//! Bringing a stash back into the files, and dropping it.

use super::{StashInfo, as_if_on, each_difference, is_file, keep, refuse_unfinished, removal};
use crate::hash::ObjectId;
use crate::history::load_commit;
use crate::job::Job;
use crate::merge::{Edits, MergeResult, MovedEntry, Trees, edit_tree, merge_trees};
use crate::object::commit::Commit;
use crate::object::name::RepoPath;
use crate::refs::Effect;
use crate::repo::base::error::{ConflictError, FilesError, LookError, RepoError, VerbError};
use crate::repo::base::publish::OperationRequest;
use crate::repo::base::repo::Repo;
use crate::repo::base::transaction::Transaction;
use crate::repo::base::worktree;
use crate::repo::base::worktree::WorktreeSettings;
use crate::repo::conflict::at::{ConflictAt, list_conflicts};
use crate::repo::conflict::form;
use crate::repo::conflict::form::{Form, Shown, ShownSide};
use crate::repo::conflict::pending::PendingConflict;
use crate::repo::conflict::settle::{conflict_entry, stat_of};
use crate::repo::files::checkout::target::SwitchTo;
use crate::repo::files::open_worktree::OpenWorktree;
use crate::repo::files::same::{SameError, same_as};
use crate::repo::files::status::StatusOptions;
use crate::repo::files::unwritten::UnwrittenPath;
use crate::repo::files::who::Who;
use crate::repo::files::{checkout, notes, open_worktree, pending, snapshot_of, steps, unwritten};
use crate::repo::verbs::undo::{UndoOptions, UndoWhat};
use crate::worktree::base::entry_at;
use crate::worktree::scan::Select;
use crate::worktree::select::Paths;
use crate::worktree::snapshot::Problem;
use std::collections::BTreeSet;

/// How often the part of the worktree that a stash meets is extended: by moved files and by files
/// that show conflicts. Two rounds are usual.
const MAX_ROUNDS: usize = 8;

/// Who works with a stash, and how.
pub struct StashOptions {
    /// Who makes the stash.
    pub committer: Who,
    /// How files are read into the store.
    pub settings: WorktreeSettings,
    /// What the operation log records about the request.
    pub request: OperationRequest,
}

/// What bringing back a stash did.
#[derive(Debug)]
pub struct StashApplyReport {
    /// The stash.
    pub stash: StashInfo,
    /// Whether the stash is gone, because all of it was applied.
    pub dropped: bool,
    /// Conflicts with the files. The worktree shows all versions.
    pub conflicts: Vec<ConflictAt>,
    /// Changes of the stash outside the worktree's subset. They were not applied.
    pub outside: Vec<RepoPath>,
    /// Files that were moved since, and got the changes at their new path.
    pub moves: Vec<MovedEntry>,
    /// The number of files and symlinks written.
    pub files: u64,
    /// The bytes written.
    pub bytes: u64,
    /// The number of files and symlinks removed.
    pub removed: u64,
    /// Paths that could not be written, and why.
    pub refused: Vec<Problem>,
}

/// Which stash is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StashAt {
    /// The n-th newest of this repository, counted from 0.
    Number(usize),
    /// A commit: a stash that another repository has sent. It cannot be dropped here.
    Commit(ObjectId),
}

impl Repo {
    /// Merges the change of a stash into the files. With `drops`, the stash goes if all of it was applied
    /// without conflicts.
    ///
    /// If the same command was cut off before, its files are taken back first: a merge with them would
    /// show conflicts within conflicts.
    pub fn stash_apply(
        &self,
        at: StashAt,
        drops: bool,
        options: &StashOptions,
        job: &Job,
    ) -> Result<StashApplyReport, RepoError> {
        let not_taken_back = take_back(self, options, job)?;
        let _lock = worktree::lock_worktree(self)?;
        let stash = match at {
            StashAt::Number(n) => stash_at(self, n)?,
            StashAt::Commit(id) => stash_of(id, self.read_commit(&id)?),
        };
        let drops = drops && !stash.key.is_empty();
        let tree = open_worktree::open(self, &options.settings)?;
        let Some(base_tree) = tree.base_tree else {
            return Err(LookError::NoCommit.into());
        };
        refuse_unfinished(self, &tree)?;
        let stored = load_commit(self.objects(), &stash.commit)?;
        let before = stashed_from(self, &tree, &stored)?;
        let from = before.tree;
        let StashChanges { inside, outside } = changed_paths(self, &tree, (from, stored.tree))?;
        refuse_in_conflict(self, &tree, (&before, &inside), options, job)?;
        let mut tx = Transaction::within_budget(self, &options.request)?;
        let change = Trees {
            base: Some(from),
            ours: base_tree,
            theirs: without(self, (from, stored.tree), &outside)?,
        };
        let held = conflicts_in(self, &tree, &stored.tree)?;
        let meeting = meet(&mut tx, &tree, (change, &held), inside, options, job)?;
        let mut report = StashApplyReport {
            stash,
            dropped: false,
            conflicts: meeting
                .form
                .shown
                .iter()
                .map(|shown| shown.at.clone())
                .collect(),
            outside,
            moves: meeting.merged.moves.clone(),
            files: 0,
            bytes: 0,
            removed: 0,
            refused: not_taken_back,
        };
        carry_out(tx, meeting, drops, &mut report, options, job)?;
        Ok(report)
    }
}

/// Refuses changes of files that show a conflict: its versions would become versions of another one. A change that
/// was made `before` in the files of the same conflict fits.
fn refuse_in_conflict(
    repo: &Repo,
    tree: &OpenWorktree,
    (before, paths): (&Form, &BTreeSet<Vec<u8>>),
    options: &StashOptions,
    job: &Job,
) -> Result<(), RepoError> {
    let shown = tree.form.iter().flat_map(|form| &form.shown);
    let is_same =
        |now: &Shown, then: &Shown| now.at.path == then.at.path && now.at.id == then.at.id;
    let is_other = |now: &&Shown| !before.shown.iter().any(|then| is_same(now, then));
    let committed = shown.filter(is_other).map(PendingConflict::of);
    let all: Vec<PendingConflict> = committed.chain(tree.pending.iter().cloned()).collect();
    let met = |one: &&PendingConflict| paths.iter().any(|path| one.touches(path));
    if !all.iter().any(|one| met(&one)) {
        return Ok(());
    }
    let select = Paths::default();
    let look = StatusOptions {
        select: &select,
        settings: options.settings.clone(),
    };
    let open = repo.status(&look, job)?.conflicts;
    let mut open = all.iter().filter(|one| open.contains(&one.at.path));
    match open.find(met) {
        Some(one) => {
            let path = one.at.path.clone();
            Err(ConflictError::Unresolved { path }.into())
        }
        None => Ok(()),
    }
}

/// Undoes the last operation if it is what the same command announced before it was cut off. If
/// the user has changed the files since, they stay as they are. Returns the paths that could not be
/// restored, and why.
fn take_back(repo: &Repo, options: &StashOptions, job: &Job) -> Result<Vec<Problem>, RepoError> {
    let announced = steps::announced(repo, worktree::worktree_name(repo)?)?;
    let Some(last) = announced.filter(|last| last.command == options.request.command) else {
        return Ok(Vec::new());
    };
    let undo = UndoOptions {
        what: UndoWhat::LastIf(last.id),
        settings: options.settings.clone(),
        request: options.request.clone(),
    };
    match repo.undo(&undo, job) {
        Err(RepoError::Files(FilesError::WouldLose { .. })) => Ok(Vec::new()),
        done => Ok(done?.refused),
    }
}

impl Repo {
    /// Removes the `n`-th newest stash. An undo brings it back.
    pub fn stash_drop(&self, n: usize, request: OperationRequest) -> Result<StashInfo, RepoError> {
        let _lock = worktree::lock_if_worktree(self)?;
        let stash = stash_at(self, n)?;
        let tx = Transaction::begin(self, &request).with([removal(&stash)]);
        tx.publish(Effect::Kept)?;
        Ok(stash)
    }
}

/// Returns a commit as a stash that no key of the view names.
fn stash_of(id: ObjectId, commit: Commit) -> StashInfo {
    StashInfo {
        key: String::new(),
        commit: id,
        message: commit.message,
        seconds: commit.committer.seconds,
    }
}

fn stash_at(repo: &Repo, n: usize) -> Result<StashInfo, RepoError> {
    let all = repo.stashes()?;
    let count = all.len();
    let found = all.into_iter().nth(n);
    found.ok_or(RepoError::Verb(VerbError::NoStash { n, count }))
}

/// Returns what the changes of a stash start from: its parent's tree, with files in place of conflicts.
fn stashed_from(repo: &Repo, tree: &OpenWorktree, stash: &Commit) -> Result<Form, RepoError> {
    let [parent] = stash.parents[..] else {
        let text = "this commit is not a stash: it does not have exactly one parent";
        return Err(RepoError::Text(text.to_owned()));
    };
    let parent = load_commit(repo.objects(), &parent)?;
    let form = form::form_of(repo, &parent, Vec::new(), None)?;
    form.check_known(|path| tree.subset.includes(path, false))?;
    Ok(form)
}

/// The paths that a stash changes.
struct StashChanges {
    /// Those in the worktree's subset.
    inside: BTreeSet<Vec<u8>>,
    /// The others.
    outside: Vec<RepoPath>,
}

/// Returns the paths that a stash changes.
fn changed_paths(
    repo: &Repo,
    tree: &OpenWorktree,
    (from, to): (ObjectId, ObjectId),
) -> Result<StashChanges, RepoError> {
    let (mut inside, mut outside) = (BTreeSet::new(), Vec::new());
    each_difference(repo, from, to, &mut |path, old, new| {
        let is_dir = !old.is_some_and(is_file) && !new.is_some_and(is_file);
        if tree.subset.includes(path.as_bytes(), is_dir) {
            inside.insert(path.as_bytes().to_vec());
        } else {
            outside.push(path.clone())
        }
    })?;
    Ok(StashChanges { inside, outside })
}

/// Returns the second tree without its changes at these paths. What is not applied must not end in conflicts either.
fn without(
    repo: &Repo,
    (from, to): (ObjectId, ObjectId),
    paths: &[RepoPath],
) -> Result<ObjectId, RepoError> {
    let mut edits = Edits::new();
    for path in paths {
        let former = entry_at(repo.objects(), &from, path.as_bytes())?;
        edits.insert(path.clone(), former);
    }
    if edits.is_empty() {
        return Ok(to);
    }
    Ok(edit_tree(repo.objects(), &mut &repo.made, to, &edits)?.id)
}

/// A stash merged with the files as they are.
struct StashMerge {
    /// The tree of the files, as far as the merge meets them.
    now: ObjectId,
    merged: MergeResult,
    /// The merged tree as files show it.
    form: Form,
}

/// Merges a change with the files at `paths`, and at the paths that the result touches, too. `change`
/// goes from its base to `theirs`, which has the files of the conflicts `held`; `ours` is the worktree's base.
fn meet(
    tx: &mut Transaction<'_>,
    tree: &OpenWorktree,
    (change, held): (Trees, &[Shown]),
    mut paths: BTreeSet<Vec<u8>>,
    options: &StashOptions,
    job: &Job,
) -> Result<StashMerge, RepoError> {
    let repo = tx.repo();
    for round in 1.. {
        let only = Only(&paths);
        let made = snapshot_of::snapshot_of(tx, tree, &only, &options.settings, job)?;
        if let Some(problem) = made.problems.into_iter().next() {
            // What cannot be read cannot be merged, and must not be overwritten.
            let (what, path) = ("this stash", problem.path);
            let why = problem.why;
            return Err(FilesError::NotKept { what, path, why }.into());
        }
        if made.tree.is_some() {
            tx.objects()?;
        }
        let now = made.tree.map_or(change.ours, |made| made.id);
        let trees = Trees {
            ours: now,
            theirs: with_conflicts(repo, change, now, held)?,
            ..change
        };
        // The merged tree serves only to find the files to write, so it is not stored.
        let merged = merge_trees(repo.objects(), &mut &repo.made, trees, job.cancel_flag())?;
        let form = form_of(repo, &merged, options)?;
        form.check_known(|path| tree.subset.includes(path, false))?;
        let before = paths.len();
        each_difference(repo, now, form.tree, &mut |path, _, _| {
            if tree.subset.includes(path.as_bytes(), false) {
                paths.insert(path.as_bytes().to_vec());
            }
        })?;
        if paths.len() == before || round >= MAX_ROUNDS {
            return Ok(StashMerge { now, merged, form });
        }
    }
    unreachable!("the rounds are limited")
}

/// Returns the conflicts that no commit has and whose files a stash has, exactly as they show them.
fn conflicts_in(
    repo: &Repo,
    tree: &OpenWorktree,
    stash: &ObjectId,
) -> Result<Vec<Shown>, RepoError> {
    let mut held = Vec::new();
    for one in &tree.pending {
        let shown = form::show_pending(repo, one)?;
        let own = entry_at(repo.objects(), stash, shown.at.path.as_bytes())?;
        let is_own = match (own, shown.entry()) {
            (Some(own), Some(entry)) => own.same_content(&entry),
            (own, entry) => own.is_none() && entry.is_none(),
        };
        if is_own && pending::has_files_of(repo, stash, &shown)? {
            held.push(shown);
        }
    }
    Ok(held)
}

/// Returns the tree of a stash with conflicts in place of their files, if what the conflicts started from has changed
/// since: merged as texts, they would become conflicts within conflicts.
fn with_conflicts(
    repo: &Repo,
    change: Trees,
    now: ObjectId,
    held: &[Shown],
) -> Result<ObjectId, RepoError> {
    let mut edits = Edits::new();
    for shown in held {
        let path = &shown.at.path;
        let at = |tree: &ObjectId| entry_at(repo.objects(), tree, path.as_bytes());
        let before = change.base.as_ref().map(at).transpose()?.flatten();
        let is_same = match (at(&now)?, before) {
            (Some(now), Some(before)) => now.same_content(&before),
            (now, before) => now.is_none() && before.is_none(),
        };
        if is_same {
            continue;
        }
        for (side, entry) in shown.sides.iter().map(ShownSide::file) {
            let there = entry_at(repo.objects(), &change.theirs, side.as_bytes())?;
            if there.is_some_and(|there| there.same_content(&entry)) {
                edits.insert(side, None);
            }
        }
        edits.insert(path.clone(), Some(conflict_entry(&shown.at)));
    }
    if edits.is_empty() {
        return Ok(change.theirs);
    }
    Ok(edit_tree(repo.objects(), &mut &repo.made, change.theirs, &edits)?.id)
}

/// Returns how files show a merged tree that is in no commit.
fn form_of(repo: &Repo, merged: &MergeResult, options: &StashOptions) -> Result<Form, RepoError> {
    let open: Vec<RepoPath> = merged.conflicts.iter().map(|c| c.path.clone()).collect();
    let mut extras = Vec::new();
    list_conflicts(&mut extras, &open);
    let person = options.committer.at(options.request.time);
    let commit = Commit {
        tree: merged.tree.id,
        tree_bytes: merged.tree.bytes,
        tree_files: merged.tree.files,
        generation: 1,
        parents: Vec::new(),
        author: person.clone(),
        committer: person,
        message: String::new(),
        extras,
        signature: None,
    };
    form::form_of(repo, &commit, Vec::new(), None)
}

/// Makes the files equal to the merged ones, and publishes what was overwritten.
fn carry_out(
    mut tx: Transaction<'_>,
    meeting: StashMerge,
    drops: bool,
    report: &mut StashApplyReport,
    options: &StashOptions,
    job: &Job,
) -> Result<(), RepoError> {
    let (repo, now, after) = (tx.repo(), meeting.now, meeting.form.tree);
    let tree = as_if_on(repo, now, &options.settings)?;
    let kept = keep(&mut tx, &tree, &meeting.form, now)?;
    let new = shown_by(&tree, &meeting.form)?;
    let shown = meeting.form.shown.clone();
    let noted = pending::with_new(repo, &tree, new)?;
    let to = SwitchTo::new(
        "this stash",
        &options.request,
        meeting.form,
        &tree,
        &options.settings,
    );
    // The files that are overwritten are named before the first one goes. If the command is cut off
    // after that, the stash is still there, and the same command merges it again.
    let name = &tree.name;
    let first = || {
        steps::set_begun(&mut tx, name, kept)?;
        tx.publish(Effect::Written).map(drop)
    };
    let is_complete = drops && report.conflicts.is_empty() && report.outside.is_empty();
    let gone = removal(&report.stash);
    let mut dropped = false;
    let not_taken_back = std::mem::take(&mut report.refused);
    let left = &mut report.refused;
    let done = checkout::switch_uncommitted(repo, &tree, &to, job, false, first, |refused| {
        let mut tx = Transaction::begin(repo, &options.request);
        steps::set_done(&mut tx, name, kept)?;
        *left = still_different(repo, &tree, after, not_taken_back);
        // A path that is refused once more is told once.
        left.retain(|problem| refused.iter().all(|again| again.path != problem.path));
        dropped = is_complete && refused.is_empty() && left.is_empty();
        tx.change(dropped.then_some(gone));
        notes::put(&mut tx, &tree, &noted)?;
        note_unwritten(repo, &tree, (&shown, now), refused)?;
        tx.publish(Effect::Written).map(drop)
    })?;
    report.dropped = dropped;
    report.files = done.files;
    report.bytes = done.bytes;
    report.removed = done.removed;
    report.refused.extend(done.refused);
    Ok(())
}

/// Notes the files of conflicts that could not be written: what is there is no answer to the conflict. `now` is the
/// tree of the files as they were before.
fn note_unwritten(
    repo: &Repo,
    tree: &OpenWorktree,
    (shown, now): (&[Shown], ObjectId),
    refused: &[Problem],
) -> Result<(), RepoError> {
    let mut noted = unwritten::noted_unwritten(repo)?;
    let before = noted.len();
    for one in shown {
        let path = &one.at.path;
        if refused
            .iter()
            .any(|problem| problem.path.as_bytes() == path.as_bytes())
        {
            let former = entry_at(repo.objects(), &now, path.as_bytes())?;
            let sides = (one.entry(), former);
            noted.extend(UnwrittenPath::find(repo, tree, path.clone(), sides)?);
        }
    }
    if noted.len() > before {
        unwritten::note_unwritten(repo, &noted)?;
    }
    Ok(())
}

/// Returns the conflicts of a merged tree that the files are going to show. A version stays away whose
/// name a file of the user has.
fn shown_by(tree: &OpenWorktree, form: &Form) -> Result<Vec<PendingConflict>, RepoError> {
    let mut out = Vec::new();
    for shown in &form.shown {
        let Some(mut one) = pending::in_subset(tree, shown) else {
            continue;
        };
        let mut sides = Vec::new();
        for side in one.sides {
            if stat_of(&tree.root, side.path.as_bytes())?.is_none() {
                sides.push(side);
            }
        }
        one.sides = sides;
        out.push(one);
    }
    Ok(out)
}

/// Returns those of `problems` whose path does not have what the tree `after` says. A path that cannot
/// be examined stays a problem.
fn still_different(
    repo: &Repo,
    tree: &OpenWorktree,
    after: ObjectId,
    mut problems: Vec<Problem>,
) -> Vec<Problem> {
    let is_right = |path: &[u8]| -> Result<bool, RepoError> {
        let wanted = entry_at(repo.objects(), &after, path)?;
        match (wanted, stat_of(&tree.root, path)?) {
            (Some(wanted), Some(stat)) => {
                same_as(repo, tree, path, &wanted, &stat).map_err(SameError::any)
            }
            (wanted, stat) => Ok(wanted.is_none() && stat.is_none()),
        }
    };
    problems.retain(|problem| !is_right(problem.path.as_bytes()).unwrap_or(false));
    problems
}

/// Exactly these paths, with everything below them.
struct Only<'a>(&'a BTreeSet<Vec<u8>>);

impl Only<'_> {
    /// Returns whether `path` is one of the paths or below one.
    fn has(&self, path: &[u8]) -> bool {
        let ends = path.iter().enumerate().filter(|(_, b)| **b == b'/');
        let mut ends = ends.map(|(end, _)| end).chain([path.len()]);
        ends.any(|end| self.0.contains(&path[..end]))
    }

    /// Returns whether one of the paths is below `dir`.
    fn leads(&self, dir: &[u8]) -> bool {
        if dir.is_empty() {
            return !self.0.is_empty();
        }
        let prefix = [dir, b"/"].concat();
        let next = self.0.range(prefix.clone()..).next();
        next.is_some_and(|next| next.starts_with(&prefix))
    }
}

impl Select for Only<'_> {
    fn enters(&self, dir: &[u8]) -> bool {
        self.leads(dir) || self.has(dir)
    }

    fn takes(&self, dir: &[u8], name: &[u8]) -> bool {
        self.enters(&crate::worktree::join(dir, name))
    }

    fn takes_all(&self, dir: &[u8]) -> bool {
        self.has(dir)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_these_paths_and_the_way_to_them_are_selected() {
        let paths: BTreeSet<Vec<u8>> = [&b"a/b"[..], b"c"].iter().map(|p| p.to_vec()).collect();
        let only = Only(&paths);
        assert!(only.enters(b"") && only.enters(b"a") && only.enters(b"a/b/c"));
        assert!(!only.enters(b"b") && !only.enters(b"a/bc") && !only.enters(b"a/a"));
        assert!(only.takes(b"", b"a") && only.takes(b"", b"c") && only.takes(b"a", b"b"));
        assert!(!only.takes(b"", b"b") && !only.takes(b"a", b"c"));
        assert!(!Only(&BTreeSet::new()).enters(b""));
    }
}
