//! Checkout: makes the worktree equal to a commit without losing uncommitted work.
//!
//! | task | files |
//! |---|---|
//! | the request and the differences | [`target`], [`span`] |
//! | the decision | [`check`]: would anything be lost? [`left`]: what did interrupted switches leave? [`seen`]: what was there at the time of the decision? |
//! | the changes to files | [`switch`], with [`way`] (removes entries in the place of new ones), [`moves`] (files that the target has at another path), [`dirs`] |
//! | afterwards | [`written`] notes the written files, [`remember`] puts them into the stat cache |
//! | other commands | [`restore`]: single files; [`empty`]: all files; [`coming`]: a checkout during a transfer; [`portions`]: one that fetches content itself |

pub mod check;
pub mod clear;
pub mod coming;
pub mod dirs;
pub mod durable;
pub mod empty;
pub mod left;
pub mod moves;
pub mod portions;
pub mod purged;
pub mod remember;
pub mod restore;
pub mod seen;
pub mod span;
pub mod stages;
pub mod stays;
pub mod switch;
pub mod target;
pub mod way;
pub mod written;

use self::portions::Portions;
use self::switch::Switch;
use crate::hash::ObjectId;
use crate::history::is_ancestor;
use crate::job::{Job, Moment};
use crate::object::ObjectError;
use crate::object::name::RepoPath;
use crate::refs::{Change, Effect};
use crate::repo::base::branch::RefKind;
use crate::repo::base::error::{AbsentError, BranchError, LookError, RepoError};
use crate::repo::base::head::Head;
use crate::repo::base::keys::{base_key, head_key, previous_key, subset_key};
use crate::repo::base::notes::{Note, PathNotes};
use crate::repo::base::publish::{OperationRequest, change};
use crate::repo::base::repo::Repo;
use crate::repo::base::transaction::Transaction;
use crate::repo::base::worktree::{WorktreeLock, WorktreeSettings};
use crate::repo::base::{branch, whole, worktree};
use crate::repo::conflict::form;
use crate::repo::files::checkout::target::{SwitchResult, SwitchTo};
use crate::repo::files::emptied::{EmptiedPattern, IdlePattern};
use crate::repo::files::open_worktree::OpenWorktree;
use crate::repo::files::pending::PutAside;
use crate::repo::files::saved::{OverwrittenFiles, set_steps, take};
use crate::repo::files::steps::StoredSteps;
use crate::repo::files::unfinished::Target;
use crate::repo::files::{
    emptied, notes, open_worktree, pending, steps, unfinished, untracked, unwritten,
};
use crate::repo::look::entries::{Location, Selection};
use crate::repo::look::lack::LackOf;
use crate::subset::Subset;
use crate::worktree::snapshot::Problem;

/// The head to switch to.
#[derive(Clone, Debug)]
pub enum CheckoutTarget {
    /// A branch. Later commits move it.
    Branch(String),
    /// A new branch at a commit. The same operation makes it.
    NewBranch(String, ObjectId),
    /// A commit without a branch.
    Commit(ObjectId),
}

/// How to switch.
#[derive(Clone, Debug)]
pub struct CheckoutOptions {
    /// The worktree's new subset. `None` keeps the present one.
    pub subset: Option<Subset>,
    /// Whether to discard uncommitted changes to tracked files.
    pub force: bool,
    /// How files are read into the store.
    pub settings: WorktreeSettings,
    /// What the operation log records about the request.
    pub request: OperationRequest,
}

impl CheckoutOptions {
    /// Returns options that keep the subset and refuse to overwrite uncommitted changes.
    pub fn new(request: OperationRequest) -> CheckoutOptions {
        CheckoutOptions {
            subset: None,
            force: false,
            settings: WorktreeSettings::default(),
            request,
        }
    }
}

/// What a checkout or restore did.
#[derive(Debug)]
pub struct CheckoutReport {
    /// The worktree's present head.
    pub head: Head,
    /// The commit whose files were written.
    pub commit: ObjectId,
    /// The number of files and symlinks written.
    pub files: u64,
    /// The bytes written.
    pub bytes: u64,
    /// The number of files and symlinks removed.
    pub removed: u64,
    /// Paths that could not be made equal to the commit, and why.
    pub refused: Vec<Problem>,
    /// The worktree's present subset.
    pub subset: Subset,
    /// New patterns of the subset that match nothing in the commit.
    pub idle_patterns: Vec<IdlePattern>,
    /// Earlier patterns that matched something before and match nothing now.
    pub emptied: Vec<EmptiedPattern>,
    /// Existing files of the user that were left in place. They count as edits.
    pub adopted: Vec<RepoPath>,
    /// Uncommitted work that was overwritten.
    pub overwritten: OverwrittenFiles,
}

impl Repo {
    /// Switches the worktree to a branch or commit.
    ///
    /// Keeps uncommitted changes that do not collide. Fails before it changes anything:
    ///
    /// - with [`FilesError::WouldLose`](crate::repo::FilesError::WouldLose), which lists the paths,
    ///   if uncommitted changes would be lost
    /// - with [`AbsentError::Lacking`](crate::repo::AbsentError::Lacking) if the switch needs
    ///   content that is absent from this repository
    ///
    /// After an interruption, the worktree is still on the former commit, with some files of the
    /// new one. Running the same command again completes the switch.
    pub fn checkout(
        &self,
        target: CheckoutTarget,
        options: &CheckoutOptions,
        job: &Job,
    ) -> Result<CheckoutReport, RepoError> {
        let call = CheckoutCall::new("this checkout", &options.request);
        self.checkout_as(target, call, options, job)
    }

    /// Switches as [`checkout`](Self::checkout) does, with content that comes in `portions`. If it is
    /// interrupted, the command `go_on` continues it.
    ///
    /// The targets of symlinks have to be stored.
    pub fn checkout_in_portions(
        &self,
        target: CheckoutTarget,
        go_on: &str,
        options: &CheckoutOptions,
        portions: &dyn Portions,
        job: &Job,
    ) -> Result<CheckoutReport, RepoError> {
        let call = CheckoutCall {
            what: "this checkout",
            command: go_on,
            portions: Some(portions),
        };
        self.checkout_as(target, call, options, job)
    }

    fn checkout_as(
        &self,
        target: CheckoutTarget,
        call: CheckoutCall<'_>,
        options: &CheckoutOptions,
        job: &Job,
    ) -> Result<CheckoutReport, RepoError> {
        let lock = worktree::lock_worktree(self)?;
        let (now, mut new) = (self.head()?, None);
        let (head, commit) = match target {
            CheckoutTarget::Branch(name) => {
                let id = worktree::ref_id(self, &format!("branch/{name}"))?;
                let missing = || {
                    RepoError::Branch(BranchError::NoRef {
                        kind: "branch",
                        name: name.clone(),
                    })
                };
                let id = id.ok_or_else(missing)?;
                (Head::Branch(name), id)
            }
            CheckoutTarget::NewBranch(name, id) => {
                new = Some(branch::new_ref(self, RefKind::Branch, &name, id)?);
                (Head::Branch(name), id)
            }
            CheckoutTarget::Commit(id) => (Head::Commit(id), id),
        };
        whole::check_complete(self, &[commit])?;
        if let Some(name) = head.branch().filter(|_| head != now) {
            branch::refuse_taken(self, name)?;
        }
        let mut more: Vec<Change> = new.into_iter().collect();
        if head != now {
            more.extend(Some(left(self, &now)?).filter(|c| c.old != c.new));
        }
        checkout_locked(self, &lock, (head, commit), call, options, job, |tx| {
            Ok(tx.with(more))
        })
    }
}

/// What a checkout is part of.
pub struct CheckoutCall<'a> {
    /// The name of the action in messages that refuse it.
    pub what: &'static str,
    /// The command that continues the switch if it is cut off.
    pub command: &'a str,
    /// Where content comes from that is not here yet, if the switch is to bring it.
    pub portions: Option<&'a dyn Portions>,
}

impl<'a> CheckoutCall<'a> {
    /// Returns a checkout whose content is here. The same command continues it.
    pub fn new(what: &'static str, request: &'a OperationRequest) -> CheckoutCall<'a> {
        CheckoutCall {
            what,
            command: &request.command,
            portions: None,
        }
    }
}

/// Returns the change that records the head that a checkout leaves: the revision `-` names it.
fn left(repo: &Repo, head: &Head) -> Result<Change, RepoError> {
    let key = previous_key(worktree::worktree_name(repo)?);
    Ok(change(&repo.refs, key, Some(head.value()))?)
}

/// Makes the files equal to those of `commit`. Once `is_there` has succeeded, the worktree is on
/// `head`; `is_there` may add to the transaction that says so.
pub fn checkout_locked<'r>(
    repo: &'r Repo,
    _lock: &WorktreeLock,
    (mut head, mut commit): (Head, ObjectId),
    call: CheckoutCall<'_>,
    options: &CheckoutOptions,
    job: &Job,
    is_there: impl FnOnce(Transaction<'r>) -> Result<Transaction<'r>, RepoError>,
) -> Result<CheckoutReport, RepoError> {
    let tree = open_worktree::open(repo, &options.settings)?;
    let subset = options.subset.as_ref().unwrap_or(&tree.subset);
    let form = form::form_at(repo, &commit)?;
    let root = form.tree;
    let go_on = OperationRequest {
        command: call.command.to_owned(),
        ..options.request.clone()
    };
    let to = SwitchTo {
        leaves: leaves(repo, &tree, &commit)?,
        subset,
        force: options.force,
        portions: call.portions,
        ..SwitchTo::new(call.what, &go_on, form, &tree, &options.settings)
    };
    let tx = Transaction::begin(repo, &options.request);
    let done = switch_files(tx, &tree, &to, job, |tx| {
        let mut tx = is_there(tx)?;
        if let Head::Commit(id) = &mut head {
            // The name of an annotated tag in another repository. It has the tree of its commit.
            *id = repo.tagged_by(*id)?;
            commit = *id;
        }
        tx.set(head_key(&tree.name), Some(head.value()))?;
        tx.set(base_key(&tree.name), Some(commit.as_bytes().to_vec()))?;
        tx.set(subset_key(&tree.name), subset_value(subset))?;
        tx.publish_changes(Effect::Written)
    })?;
    let idle_patterns = match &options.subset {
        // All patterns are new to a worktree without files.
        Some(subset) if tree.base.is_none() => {
            repo.idle_patterns(root, &Subset::everything(), subset)?
        }
        Some(subset) => repo.idle_patterns(root, &tree.subset, subset)?,
        None => Vec::new(),
    };
    Ok(CheckoutReport {
        head,
        commit,
        files: done.files,
        bytes: done.bytes,
        removed: done.removed,
        refused: done.refused,
        subset: subset.clone(),
        idle_patterns,
        emptied: done.emptied,
        adopted: done.adopted,
        overwritten: done.overwritten,
    })
}

/// Returns whether a worktree that shows conflicts would leave its base for a `commit` that does
/// not descend from it.
fn leaves(repo: &Repo, tree: &OpenWorktree, commit: &ObjectId) -> Result<bool, RepoError> {
    let (Some(base), Some(form)) = (tree.base, &tree.form) else {
        return Ok(false);
    };
    if form.shown.is_empty() {
        return Ok(false);
    }
    match is_ancestor(repo.objects(), &base, commit) {
        Ok(goes_on) => Ok(!goes_on),
        // The ancestor lies behind the boundary of a shallow history.
        Err(ObjectError::Missing { .. }) => Ok(true),
        Err(e) => Err(e.into()),
    }
}

impl Repo {
    /// Changes the subset of the worktree. The commit stays the same.
    ///
    /// Writes the files that the new subset adds and removes the files that it leaves out. Fails
    /// like [`checkout`](Self::checkout) if it would remove a changed file. Leaves uncommitted
    /// files where they are.
    pub fn set_subset(
        &self,
        subset: Subset,
        settings: &WorktreeSettings,
        request: OperationRequest,
        job: &Job,
    ) -> Result<CheckoutReport, RepoError> {
        let _lock = worktree::lock_worktree(self)?;
        let tree = open_worktree::open(self, settings)?;
        let (Some(commit), Some(root)) = (tree.base, tree.base_tree) else {
            return Err(LookError::NoCommit.into());
        };
        let mut tx = Transaction::begin(self, &request);
        tx.set(subset_key(&tree.name), subset_value(&subset))?;
        let (what, form) = ("this change of the subset", form::form_at(self, &commit)?);
        let to = SwitchTo {
            subset: &subset,
            adopts: true,
            ..SwitchTo::new(what, &request, form, &tree, settings)
        };
        let done = switch_files(tx, &tree, &to, job, |tx| {
            tx.publish_changes(Effect::Written)
        })?;
        Ok(CheckoutReport {
            head: self.head()?,
            commit,
            files: done.files,
            bytes: done.bytes,
            removed: done.removed,
            refused: done.refused,
            idle_patterns: self.idle_patterns(root, &tree.subset, &subset)?,
            emptied: done.emptied,
            adopted: done.adopted,
            subset,
            overwritten: done.overwritten,
        })
    }

    /// Returns the patterns that only `new` has and that match nothing in the tree `root`.
    ///
    /// Does not return a pattern that leads to absent directories, because it may match something
    /// there.
    pub fn idle_patterns(
        &self,
        root: ObjectId,
        old: &Subset,
        new: &Subset,
    ) -> Result<Vec<IdlePattern>, RepoError> {
        let mut idle = Vec::new();
        for (alone, text) in new.each().iter().zip(new.patterns()) {
            let is_old = old.patterns().any(|old| old == text);
            if !is_old && !emptied::matches_in(self, root, alone)? {
                idle.push(IdlePattern {
                    pattern: text.to_vec(),
                    namesake: emptied::namesake(self, root, text)?,
                });
            }
        }
        Ok(idle)
    }
}

/// Makes the files of a worktree equal to a tree, then calls `publish` to make that tree its base.
/// The caller holds the worktree's lock. `publish` receives `tx` with changes that record what was
/// overwritten. Refuses in the same cases as [`checkout`].
///
/// If the switch is cut off, the worktree has a note of it that names the command to continue with.
pub fn switch_files<'r>(
    mut tx: Transaction<'r>,
    tree: &OpenWorktree,
    to: &SwitchTo<'_>,
    job: &Job,
    publish: impl FnOnce(Transaction<'r>) -> Result<(), RepoError>,
) -> Result<SwitchResult, RepoError> {
    let repo = tx.repo();
    let mut switch = checked(repo, tree, to, job)?;
    let target = Target {
        tree: to.form.tree,
        subset: to.subset.clone(),
    };
    let (saved, overwritten) = keep_overwritten(repo, tree, &mut switch, to, job)?;
    // If this is cut off, the next command has to know the target to tell what was left from work of the user.
    tx.keep()?;
    // If the target is the base, the notes of other switches stay until everything is done.
    if tree.base_tree != Some(target.tree) || tree.subset != target.subset {
        unfinished::begin_switch(
            repo,
            switch.known.unfinished.as_ref(),
            target,
            &to.request.command,
        )?;
    }
    let noted = match to.brings {
        None if !to.force => pending::after_switch(repo, tree, to)?,
        None => with_all_tracked(repo, tree, to.notes)?,
        Some(_) => to.notes.clone(),
    };
    switch.decision.given_up = untracked::counting(repo, &noted, Some(to.form.stored))?;
    carry_out(&mut switch, to.force)?;
    switch.sync()?;
    switch.bring()?;
    // Until the view has moved, the base does not have these paths and the note has no effect.
    unwritten::note_unwritten(repo, &switch.unwritten_now()?)?;
    // An undo names the steps that it has taken back or again itself.
    if to.brings.is_none() {
        let left = stays::steps_of(&switch.decision.left_alone);
        let saved = saved.as_ref().or(to.steps);
        set_steps(&mut tx, &tree.name, saved, &overwritten, left)?;
        notes::put(&mut tx, tree, &noted)?;
    }
    publish(tx)?;
    unfinished::end_switch(repo);
    // The stat cache is an optimization for the next scan. Without it, files are compared by
    // content.
    let _ = switch.remember();
    let emptied = match tree.base_tree {
        // A pattern can only have lost its last match if something was removed.
        Some(base) if switch.progress.removed > 0 && *to.subset == tree.subset => {
            emptied::emptied(repo, base, to.form.tree, to.subset)
        }
        _ => Vec::new(),
    };
    Ok(SwitchResult {
        emptied,
        adopted: RepoPath::all_checked(switch.decision.adopted),
        files: switch.progress.files,
        bytes: switch.progress.bytes,
        removed: switch.progress.removed,
        refused: switch.progress.refused,
        overwritten,
    })
}

/// Returns the notes after a forced switch. It writes all files of its target, and they are tracked: also
/// those of which an older note would count again with this base.
/// Conflicts that a stash has put aside are not concerned.
fn with_all_tracked(
    repo: &Repo,
    tree: &OpenWorktree,
    notes: &PathNotes,
) -> Result<PathNotes, RepoError> {
    let aside = PutAside::find(repo, tree, &tree.pending)?;
    let mut notes = notes.clone();
    notes.retain(|path, note| match note {
        Note::Choice { .. } => true,
        Note::Conflict { .. } => aside.has(path),
        _ => false,
    });
    Ok(notes)
}

/// Makes the files of a worktree equal to a tree that does not become its base: the difference is
/// uncommitted, and no note names a command to continue with. The caller holds the worktree's lock.
///
/// `first` runs once nothing can refuse the switch any more and no file has been touched. `then`
/// runs when the files are written, and receives the paths that could not be. With `is_base`, the
/// target is the worktree's recorded base, so its stat cache is written.
pub fn switch_uncommitted(
    repo: &Repo,
    tree: &OpenWorktree,
    to: &SwitchTo<'_>,
    job: &Job,
    is_base: bool,
    first: impl FnOnce() -> Result<(), RepoError>,
    then: impl FnOnce(&[Problem]) -> Result<(), RepoError>,
) -> Result<SwitchResult, RepoError> {
    let mut switch = checked(repo, tree, to, job)?;
    job.check()?;
    first()?;
    carry_out(&mut switch, to.force)?;
    switch.sync()?;
    if is_base {
        unwritten::note_unwritten(repo, &switch.unwritten_now()?)?;
    } else {
        switch.excuse_left()?;
    }
    then(&switch.progress.refused)?;
    if is_base {
        // The stat cache is an optimization for the next scan.
        let _ = switch.remember();
    }
    Ok(SwitchResult {
        files: switch.progress.files,
        bytes: switch.progress.bytes,
        removed: switch.progress.removed,
        refused: switch.progress.refused,
        ..SwitchResult::default()
    })
}

/// Prepares a switch: finds what it changes and whether it would lose something. Touches no file.
fn checked<'a>(
    repo: &'a Repo,
    tree: &'a OpenWorktree,
    to: &'a SwitchTo<'a>,
    job: &'a Job,
) -> Result<Switch<'a>, RepoError> {
    let mut switch = Switch::new(repo, tree, &to.form, to.subset, job);
    (switch.request.brings, switch.request.portions) = (to.brings, to.portions);
    switch.find_dirty(to.settings)?;
    job.reached(Moment::Scanned);
    match switch.find_what_is_needed(to) {
        // Report all absent directories, not one at a time.
        Err(e @ RepoError::Absent(AbsentError::Object { .. })) => {
            let root = Location::Root {
                tree: to.form.tree,
                bytes: 0,
                files: 0,
            };
            let wanted = Selection {
                path: &RepoPath::root(),
                located: &root,
                subset: to.subset,
            };
            let lacks = repo.lacking(wanted, LackOf::Trees)?;
            return Err(if lacks.is_empty() {
                e
            } else {
                RepoError::Absent(AbsentError::Lacking(lacks))
            });
        }
        found => found?,
    }
    job.reached(Moment::Checked);
    Ok(switch)
}

/// Carries out a switch.
fn carry_out(switch: &mut Switch<'_>, force: bool) -> Result<(), RepoError> {
    let Err(e) = switch.carry_out(force) else {
        return Ok(());
    };
    // Objects that a transfer was expected to store have not arrived. Report all of them, not only
    // the first.
    if matches!(e, RepoError::Absent(AbsentError::Object { .. })) {
        switch.check_content_here(force)?;
    }
    Err(e)
}

/// Stores what a switch will overwrite, and publishes a record of it. From then on an undo can
/// bring it back, even if the switch is cut off.
fn keep_overwritten(
    repo: &Repo,
    tree: &OpenWorktree,
    switch: &mut Switch<'_>,
    to: &SwitchTo<'_>,
    job: &Job,
) -> Result<(Option<StoredSteps>, OverwrittenFiles), RepoError> {
    let paths = std::mem::take(&mut switch.decision.overwrites);
    // A switch to the base itself leaves no note of a switch.
    let goes_on = to.force
        && (switch.known.unfinished.is_some() || steps::announced(repo, &tree.name)?.is_some());
    let earlier = if goes_on {
        steps::read_begun(repo, &tree.name)?
    } else {
        None
    };
    if paths.is_empty() && earlier.is_none() {
        return Ok(Default::default());
    }
    let mut tx = Transaction::begin(repo, to.request);
    let (earlier, keep) = (earlier.as_ref(), to.settings.keep);
    let taken = take(&mut tx, tree, &paths, earlier, to.what, keep, job)?;
    switch.decision.note_seen(&taken, paths);
    if let Some(steps) = &taken.steps {
        steps::set_begun(&mut tx, &tree.name, steps.id)?;
        tx.publish(Effect::Written)?;
    }
    Ok((taken.steps, taken.told))
}

/// Returns the value that the view stores for a subset.
pub fn subset_value(subset: &Subset) -> Option<Vec<u8>> {
    (!subset.is_everything()).then(|| subset.text())
}
