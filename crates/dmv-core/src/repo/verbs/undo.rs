//! Undo of operations.
//!
//! An operation is undone by another operation that restores the old values of its keys. The keys
//! must still have the new values. The operation's [`Effect`] says what happens to files. An undo
//! is an operation, so another undo can reverse it. [`check`] finds what stands in the way.

mod check;

use crate::hash::{ObjectId, encode_hex};
use crate::job::Job;
use crate::object::tree::put_empty_tree;
use crate::refs::{Change, Effect, Operation};
use crate::repo::base::error::{RepoError, UndoError};
use crate::repo::base::head::Head;
use crate::repo::base::keys::{
    CLAIM_LISTS, LOG_IMPORTED, LOG_UNKEPT, base_key, begun_key, is_about_claims, notes_key,
    path_key, steps_key, subset_key, worktree_of,
};
use crate::repo::base::notes::{Note, notes_in};
use crate::repo::base::publish::OperationRequest;
use crate::repo::base::record;
use crate::repo::base::repo::Repo;
use crate::repo::base::steps::Steps;
use crate::repo::base::transaction::Transaction;
use crate::repo::base::worktree::WorktreeSettings;
use crate::repo::base::{keeping, window, worktree};
use crate::repo::conflict::form;
use crate::repo::conflict::form::Form;
use crate::repo::files::checkout::stays;
use crate::repo::files::checkout::target::{SwitchResult, SwitchTo};
use crate::repo::files::moving::EntryMove;
use crate::repo::files::open_worktree::OpenWorktree;
use crate::repo::files::saved::{OverwrittenFiles, Return, plan_return};
use crate::repo::files::worktrees::NewWorktree;
use crate::repo::files::worktrees::removal::{RemovalMode, take_down};
use crate::repo::files::worktrees::{WholeWorktree, refuse_unless_free, whole_worktree};
use crate::repo::files::{checkout, moving, open_worktree, unwritten, worktrees};
use crate::repo::look::operations::{find_operation, is_intent};
use crate::repo::verbs::claim::claims_back;
use crate::repo::verbs::undo::check::{check_heads, check_unchanged};
use crate::worktree::snapshot::Problem;
use std::collections::HashSet;
use std::ops::ControlFlow;

/// The most operations that a clone consists of, with its attempts that were cut off.
const MAX_MAKING: usize = 64;

/// Which operation to undo.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum UndoWhat {
    /// The last operation in this worktree that is in force and is not an undo. So each further
    /// undo goes one operation back. Operations that changed only remote branches are skipped.
    #[default]
    Last,
    /// The operation that [`Last`](Self::Last) would undo, if it is the one with this id. A caller
    /// that has shown the operation to a user then undoes this one or none.
    LastIf([u8; 16]),
    /// The last undo in this worktree, unless something else was done since.
    LastUndo,
    /// The operation whose id begins with these digits.
    Operation(String),
}

/// Which operation to undo, and how.
pub struct UndoOptions {
    /// The operation.
    pub what: UndoWhat,
    /// How files are read into the store.
    pub settings: WorktreeSettings,
    /// What the operation log records about the request.
    pub request: OperationRequest,
}

impl UndoOptions {
    /// Names the action in messages that refuse it.
    fn named(&self) -> &'static str {
        match self.what {
            UndoWhat::LastUndo => "this redo",
            _ => "this undo",
        }
    }
}

/// What an undo does about files whose content is absent from this repository.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AbsentContent {
    /// It fails with `AbsentError::Lacking` and changes nothing.
    Needed,
    /// It does not write these files, and reports them.
    Skipped,
}

/// What an undo did.
#[derive(Debug)]
pub struct UndoReport {
    /// The operation that was undone.
    pub undone: Operation,
    /// Later operations in force that were skipped, newest first. They changed only remote
    /// branches.
    pub passed_over: Vec<Operation>,
    /// The operation that the undo made.
    pub operation: Operation,
    /// Set if an undo was undone: the command that is in force again.
    pub again: Option<String>,
    /// The worktree's present head.
    pub head: Head,
    /// The head's commit, if there is one.
    pub commit: Option<ObjectId>,
    /// Whether the files stayed while their base went back. Then the content of the undone commits
    /// is uncommitted now.
    pub kept_files: bool,
    /// The number of files and symlinks written.
    pub files: u64,
    /// The bytes written.
    pub bytes: u64,
    /// The number of files and symlinks removed.
    pub removed: u64,
    /// Paths that could not be restored, and why.
    pub refused: Vec<Problem>,
    /// Files and directories that were moved.
    pub moved: Vec<EntryMove>,
    /// What the undone operation had overwritten and an undo cannot bring back: it was too large to
    /// keep.
    pub not_kept: Option<OverwrittenFiles>,
}

impl Repo {
    /// Undoes one operation. The undo is an operation itself.
    ///
    /// Fails with [`UndoError::ChangedSince`](crate::repo::UndoError::ChangedSince) if a later
    /// operation changed the same keys. If files must follow, fails like [`checkout`](Self::checkout).
    /// For an operation of another worktree, restores only the refs. The files and the base of that
    /// worktree stay, and its status reports that they are behind.
    pub fn undo(&self, options: &UndoOptions, job: &Job) -> Result<UndoReport, RepoError> {
        undo(self, options, AbsentContent::Needed, job)
    }

    /// Undoes one operation like [`undo`](Self::undo), without the files whose content is absent from
    /// this repository. They are reported as refused.
    pub fn undo_without_absent(
        &self,
        options: &UndoOptions,
        job: &Job,
    ) -> Result<UndoReport, RepoError> {
        undo(self, options, AbsentContent::Skipped, job)
    }
}

fn undo(
    repo: &Repo,
    options: &UndoOptions,
    absent: AbsentContent,
    job: &Job,
) -> Result<UndoReport, RepoError> {
    let _lock = worktree::lock_if_worktree(repo)?;
    // `op expire` and `gc` would otherwise take away what the files below get.
    let _reach = keeping::reach(repo)?;
    let mut passed_over = Vec::new();
    let undone = match &options.what {
        UndoWhat::Operation(prefix) => find_operation(repo, prefix)?,
        UndoWhat::Last => last_operation(repo, &mut passed_over)?,
        UndoWhat::LastIf(id) => last_if(repo, id, &mut passed_over)?,
        UndoWhat::LastUndo => last_undo(repo)?,
    };
    window::check_reach(repo, &undone)?;
    if let Some(why) = why_final(repo, &undone)? {
        return Err(refused(&undone, why.to_owned()));
    }
    let changes = inverse(repo, &undone)?;
    check_unchanged(repo, &undone, &changes)?;
    check_heads(repo, &undone, &changes)?;
    // Outside of a worktree no key of the view is meant, and none is empty.
    let name = worktree::worktree_name(repo).ok();
    let own = [base_key, subset_key, notes_key, steps_key, begun_key]
        .map(|key| name.map(key).unwrap_or_default());
    let [own_base, ..] = &own;
    let is_about_files = changes.iter().any(|change| own.contains(&change.key));
    let effect = undone.effect();
    let (operation, done, moved) = if effect == Effect::Worktree {
        let (made, switched) = undo_worktree(repo, &undone, changes, options, job)?;
        (made, switched, Vec::new())
    } else if is_about_files && effect == Effect::Written {
        undo_moves(repo, &undone, changes, (options, absent), job)?
    } else {
        let tx = Transaction::begin(repo, &options.request).undoing(undone.seq);
        let made = tx.with(changes).publish(effect)?;
        (made, SwitchResult::default(), Vec::new())
    };
    let moved_base = operation.changes.iter().any(|c| c.key == *own_base);
    Ok(UndoReport {
        kept_files: effect == Effect::Kept && moved_base,
        head: repo.head()?,
        commit: repo.head_commit()?,
        again: done_again(repo, &undone)?,
        not_kept: not_kept(&undone),
        undone,
        passed_over,
        operation,
        files: done.files,
        bytes: done.bytes,
        removed: done.removed,
        refused: done.refused,
        moved,
    })
}

fn not_kept(operation: &Operation) -> Option<OverwrittenFiles> {
    window::unkept(operation).map(|(files, bytes)| OverwrittenFiles {
        files,
        bytes,
        kept: false,
    })
}

/// Returns why an operation of this kind cannot be undone, if it cannot.
fn why_final(repo: &Repo, operation: &Operation) -> Result<Option<&'static str>, RepoError> {
    Ok(if window::is_expiry(operation) {
        Some("what it gave up cannot come back")
    } else if window::purged(operation) {
        Some(
            "what was purged does not come back; \
             'dmv purge --lift' lets the content be stored again",
        )
    } else if window::gave_up(operation) {
        Some(
            "content that has expired does not come back by itself; \
             'dmv get' fetches it from a remote that kept it",
        )
    } else if window::is_only_unkept(operation) {
        Some("what it overwrote was too large to keep (undo.keep-max-size)")
    } else if made_repository(repo, operation)? {
        Some("it created the repository")
    } else {
        None
    })
}

/// Undoes an operation on files. Entries that it moved go back before all others change, and
/// forward again after them.
fn undo_moves(
    repo: &Repo,
    undone: &Operation,
    changes: Vec<Change>,
    (options, absent): (&UndoOptions, AbsentContent),
    job: &Job,
) -> Result<(Operation, SwitchResult, Vec<EntryMove>), RepoError> {
    let (steps, back) = steps_of(repo, undone, worktree::worktree_name(repo)?)?;
    let moves = steps.map_or_else(Vec::new, |steps| moving::moves_of(&steps, back));
    if moves.is_empty() {
        let (made, done) = undo_files(repo, undone, changes, (options, absent), job)?;
        return Ok((made, done, moves));
    }
    let tree = open(repo, options, absent)?;
    let switch = |tree: &OpenWorktree| -> Result<(Operation, SwitchResult), RepoError> {
        // These have no file before the undo either, so it lacks nothing.
        let purged = unwritten::purged_paths(repo, tree)?;
        let (made, mut done) = undo_files(repo, undone, changes, (options, absent), job)?;
        done.refused
            .retain(|problem| !purged.contains(problem.path.as_bytes()));
        Ok((made, done))
    };
    if back {
        let moved = moving::move_all(&tree, &moves, options.named())?;
        let (made, done) = switch(&tree).inspect_err(|_| moving::move_back(&tree, &moved))?;
        return Ok((made, done, moved));
    }
    let (made, mut done) = switch(&tree)?;
    let mut moved = Vec::new();
    for one in moves {
        match moving::move_all(&tree, std::slice::from_ref(&one), options.named()) {
            Ok(more) => moved.extend(more),
            Err(e) => done.refused.push(Problem::new(one.from, e.to_string())),
        }
    }
    Ok((made, done, moved))
}

/// Opens the worktree, as far as content is not absent if it may be.
fn open(
    repo: &Repo,
    options: &UndoOptions,
    absent: AbsentContent,
) -> Result<OpenWorktree, RepoError> {
    match absent {
        AbsentContent::Needed => open_worktree::open(repo, &options.settings),
        AbsentContent::Skipped => open_worktree::open_as_far(repo, &options.settings),
    }
}

/// Makes the files equal to the base and subset that result from `changes`, and publishes the
/// changes. Without a base, all files go.
fn undo_files(
    repo: &Repo,
    undone: &Operation,
    changes: Vec<Change>,
    (options, absent): (&UndoOptions, AbsentContent),
    job: &Job,
) -> Result<(Operation, SwitchResult), RepoError> {
    let tree = open(repo, options, absent)?;
    let after = |key: &str| match changes.iter().find(|change| change.key == key) {
        Some(change) => Ok(change.new.clone()),
        None => repo.refs.get(key),
    };
    let subset = after(&subset_key(&tree.name))?;
    let subset = worktree::subset_value(repo, &tree.name, subset.as_deref())?;
    let noted = after(&notes_key(&tree.name))?;
    let noted = notes_in(repo, &tree.name, noted.as_deref())?;
    let (steps, back) = steps_of(repo, undone, &tree.name)?;
    let steps = steps.unwrap_or_default();
    let mut brings = match steps.overwritten().next() {
        Some(_) => plan_return(repo, &tree, (&steps, back), options.named())?,
        None => Return::default(),
    };
    brings.skips_absent = absent == AbsentContent::Skipped;
    brings.check_content_here(repo)?;
    brings.is_redo = !back;
    let conflicts = noted
        .iter()
        .filter(|(_, note)| matches!(note, Note::Conflict { .. }));
    brings.conflicts = conflicts
        .map(|(path, _)| path.as_bytes().to_vec())
        .collect();
    if back {
        stays::add_noted(&steps, &mut brings);
    }
    let mut tx = Transaction::begin(repo, &options.request).undoing(undone.seq);
    let target = match after(&base_key(&tree.name))? {
        Some(value) => {
            let id = worktree::id_value(repo, &base_key(&tree.name), &value)?;
            form::form_with(repo, &repo.read_commit(&id)?, &noted)?
        }
        None => {
            let empty = put_empty_tree(&mut tx)?;
            // The checkout reads it before it is published.
            tx.objects()?;
            Form::plain(empty)
        }
    };
    let what = options.named();
    let to = SwitchTo {
        subset: &subset,
        notes: &noted,
        // A redo of a wider subset takes the user's own files for edits, as the command did.
        adopts: !back,
        brings: Some(&brings),
        ..SwitchTo::new(what, &options.request, target, &tree, &options.settings)
    };
    let mut operation = None;
    tx.change(changes);
    let switched = checkout::switch_files(tx, &tree, &to, job, |tx| {
        operation = Some(tx.publish(Effect::Written)?);
        Ok(())
    })?;
    let operation = operation.expect("what was switched was published");
    Ok((operation, switched))
}

/// Returns the steps that the undo of `undone` takes back, or takes again: those of the operation that
/// was not an undo. The flag says whether it takes them back.
fn steps_of(
    repo: &Repo,
    undone: &Operation,
    worktree: &str,
) -> Result<(Option<Steps>, bool), RepoError> {
    let (mut first, mut back) = (undone.clone(), true);
    while first.undoes != 0 {
        back = !back;
        match operation_at(repo, first.undoes)? {
            Some(before) => first = before,
            None => break,
        }
    }
    for key in [steps_key(worktree), begun_key(worktree)] {
        let change = first.changes.iter().find(|change| change.key == key);
        // An undo whose operation is no longer in the log has replaced its steps.
        let value = change.and_then(|change| match first.undoes {
            0 => change.new.as_deref(),
            _ => change.old.as_deref(),
        });
        if let Some(value) = value {
            return Ok((Some(record::read(repo, &key, value)?), back));
        }
    }
    Ok((None, back))
}

/// Returns the command that is in force again once an undo has been undone.
fn done_again(repo: &Repo, undone: &Operation) -> Result<Option<String>, RepoError> {
    if !is_undo(repo, undone)? {
        return Ok(None);
    }
    let (mut command, mut next) = (None, undone.undoes);
    while next != 0 {
        let found = operation_at(repo, next)?;
        next = found.as_ref().map_or(0, |op| op.undoes);
        command = found.map(|op| op.command).or(command);
    }
    Ok(command)
}

fn operation_at(repo: &Repo, seq: u64) -> Result<Option<Operation>, RepoError> {
    let mut found = repo.refs.operations_before(Some(seq + 1), 1)?;
    Ok(found.pop().filter(|op| op.seq == seq))
}

/// Returns whether an operation undoes another one. A redo does not: it is the undo of an undo.
fn is_undo(repo: &Repo, operation: &Operation) -> Result<bool, RepoError> {
    let (mut is_undo, mut next) = (false, operation.undoes);
    while next != 0 {
        is_undo = !is_undo;
        // An operation that is no longer in the log counts as no undo.
        next = operation_at(repo, next)?.map_or(0, |op| op.undoes);
    }
    Ok(is_undo)
}

/// Removes a worktree that the operation added, or adds one that it removed.
fn undo_worktree(
    repo: &Repo,
    undone: &Operation,
    changes: Vec<Change>,
    options: &UndoOptions,
    job: &Job,
) -> Result<(Operation, SwitchResult), RepoError> {
    let settings = &options.settings;
    let mut operation = None;
    let publish = || {
        let tx = Transaction::begin(repo, &options.request).undoing(undone.seq);
        operation = Some(tx.with(changes).publish(Effect::Worktree)?);
        Ok(())
    };
    let mut switched = SwitchResult::default();
    match whole_worktree(&undone.changes) {
        WholeWorktree::Came(name) => {
            let all = repo.worktrees()?;
            let info = all.iter().find(|info| info.name == name);
            let gone = || refused(undone, format!("worktree '{name}' no longer exists"));
            let info = info.ok_or_else(gone)?;
            if info.current {
                let operation = short(undone);
                return Err(UndoError::OwnWorktree { operation }.into());
            }
            if !worktrees::is_here(repo, info)? {
                let path = info.path.clone();
                return Err(UndoError::WorktreeNotThere { path }.into());
            }
            // A redo of a removal: the undo has brought these changes back.
            let (kept, _) = steps_of(repo, undone, &name)?;
            let how = (RemovalMode::KeptBy(kept.as_ref()), &options.request);
            take_down(repo, info, how, settings, job, |_, _| publish())?;
        }
        WholeWorktree::Went(name, path, Some(base)) => {
            let commit = worktree::id_value(repo, &base_key(&name), &base)?;
            refuse_unless_free(&path)?;
            let former = |key: String| {
                let found = undone.changes.iter().find(|change| change.key == key);
                found.and_then(|change| change.old.as_deref())
            };
            let subset = worktree::subset_value(repo, &name, former(subset_key(&name)))?;
            let noted = notes_in(repo, &name, former(notes_key(&name)))?;
            let (steps, back) = steps_of(repo, undone, &name)?;
            let new = NewWorktree {
                name: &name,
                dir: &path,
                commit,
                subset: &subset,
                notes: &noted,
                brings: steps.as_ref().map(|steps| (steps, back)),
                request: &options.request,
                settings,
            };
            switched = worktrees::set_up(repo, &new, job, publish)?;
        }
        WholeWorktree::Went(..) | WholeWorktree::Moved => {
            let why = "it only records where a worktree is".to_owned();
            return Err(refused(undone, why));
        }
    }
    let operation = operation.expect("what was done was published");
    Ok((operation, switched))
}

/// Returns the last operation that was made in this worktree and is in force. Fails if it cannot be
/// undone, and names the operation before it. Skips undos, and
/// operations that changed only remote branches; the latter are added to `passed_over`.
fn last_operation(repo: &Repo, passed_over: &mut Vec<Operation>) -> Result<Operation, RepoError> {
    let (mut found, mut purge, mut is_newest) = (None, None, true);
    let (mut unkept, mut gone_past) = (None, u64::MAX);
    each_own_operation(repo, &mut |operation, is_undone| {
        // Whoever has just purged may mean the purge. Behind an undo of another operation, none is meant.
        let is_purge = window::purged(&operation) && !window::lifted(&operation);
        let is_meant = is_newest && is_purge;
        is_newest &= operation.undoes == 0 && window::is_about_others(repo, &operation);
        if is_meant {
            purge = Some(operation);
            return Ok(ControlFlow::Continue(()));
        }
        if operation.undoes != 0 && !is_undone {
            gone_past = gone_past.min(operation.undoes);
        }
        if operation.undoes != 0 || is_undone || window::gave_up(&operation) {
            return Ok(ControlFlow::Continue(()));
        }
        if window::is_only_unkept(&operation) {
            // Whoever has undone an older operation has gone past this one.
            if unkept.is_none() && operation.seq < gone_past {
                unkept = Some(operation);
            }
            return Ok(ControlFlow::Continue(()));
        }
        if window::is_about_others(repo, &operation) {
            passed_over.push(operation);
            return Ok(ControlFlow::Continue(()));
        }
        found = Some(operation);
        Ok(ControlFlow::Break(()))
    })?;
    let found = match found {
        Some(found) if !made_repository(repo, &found)? => Some(found),
        _ => None,
    };
    if let Some(found) = &found {
        // What a command has heard of others while it claimed is no news.
        let is_part = |op: &Operation| op.command == found.command && claims_something(found);
        passed_over.retain(|op| !is_part(op));
    }
    if let Some(unkept) = unkept {
        return Err(UndoError::UndoOfUnkept {
            operation: short(&unkept),
            command: unkept.command,
            before: found.map(|before| (short(&before), before.command)),
        }
        .into());
    }
    match (found, purge) {
        (found, Some(purge)) => Err(UndoError::UndoOfPurge {
            operation: short(&purge),
            before: found.map(|before| (short(&before), before.command)),
        }
        .into()),
        (Some(found), None) => Ok(found),
        (None, None) => Err(UndoError::NothingToUndo.into()),
    }
}

impl Repo {
    /// Returns the operation that an undo without a choice would undo; `None` if there is none.
    pub fn next_to_undo(&self) -> Result<Option<Operation>, RepoError> {
        match last_operation(self, &mut Vec::new()) {
            Ok(operation) => Ok(Some(operation)),
            Err(RepoError::Undo(UndoError::NothingToUndo | UndoError::UndoOfUnkept { .. })) => {
                Ok(None)
            }
            Err(e) => Err(e),
        }
    }
}

/// Returns the last operation if its id is `id`.
fn last_if(
    repo: &Repo,
    id: &[u8; 16],
    passed_over: &mut Vec<Operation>,
) -> Result<Operation, RepoError> {
    let why = match last_operation(repo, passed_over) {
        Ok(last) if last.id == *id => return Ok(last),
        Ok(last) => format!("the last operation is now another one: {}", last.command),
        Err(RepoError::Undo(UndoError::NothingToUndo)) => {
            "nothing is left to undo in this worktree".to_owned()
        }
        Err(e) => return Err(e),
    };
    let operation = short_id(id);
    Err(UndoError::NotUndone { operation, why }.into())
}

/// Returns whether an operation is one of those that made the repository: the first one, or in a
/// clone one that the same command made after it. An import can be undone, also where it has made the repository.
fn made_repository(repo: &Repo, operation: &Operation) -> Result<bool, RepoError> {
    if operation.changes.iter().any(|c| c.key == LOG_IMPORTED) {
        return Ok(false);
    }
    let until = repo
        .refs
        .operations_before(Some(operation.seq.saturating_add(1)), MAX_MAKING)?;
    let is_first = |op: &Operation| op.previous == [0; 16];
    let is_same = |op: &Operation| op.command == operation.command;
    Ok(until.last().is_some_and(is_first) && until.iter().all(is_same))
}

/// Returns the last undo that was made in this worktree and is in force, if all operations since
/// then were undos and redos.
fn last_undo(repo: &Repo) -> Result<Operation, RepoError> {
    let mut found = None;
    each_own_operation(repo, &mut |operation, is_undone| {
        if window::gave_up(&operation) {
            return Ok(ControlFlow::Continue(()));
        }
        if operation.undoes == 0 && !window::is_about_others(repo, &operation) {
            return Ok(ControlFlow::Break(()));
        }
        if is_undone || !is_undo(repo, &operation)? {
            return Ok(ControlFlow::Continue(()));
        }
        found = Some(operation);
        Ok(ControlFlow::Break(()))
    })?;
    found.ok_or(RepoError::Undo(UndoError::NothingToRedo))
}

/// Visits the operations that users made in this worktree, newest first. Tells the visitor whether
/// each has been undone.
fn each_own_operation(
    repo: &Repo,
    visit: &mut dyn FnMut(Operation, bool) -> Result<ControlFlow<()>, RepoError>,
) -> Result<(), RepoError> {
    let here = worktree::worktree_name(repo).unwrap_or_default();
    repo.each_operation(&mut |operation, is_undone| {
        let is_note = operation.effect() == Effect::Worktree
            && matches!(whole_worktree(&operation.changes), WholeWorktree::Moved);
        if operation.worktree() != here || is_note {
            Ok(ControlFlow::Continue(()))
        } else {
            visit(operation, is_undone)
        }
    })
}

/// Returns the changes that undo `operation` from this worktree.
fn inverse(repo: &Repo, operation: &Operation) -> Result<Vec<Change>, RepoError> {
    let here = worktree::worktree_name(repo).unwrap_or_default();
    let changed: HashSet<&str> = operation.changes.iter().map(|c| c.key.as_str()).collect();
    let is_ours = |key: &str| {
        let Some(worktree) = worktree_of(key).filter(|name| *name != here) else {
            return true;
        };
        // An undo here leaves the files of another worktree alone. If that worktree only followed a
        // renamed branch, no files are concerned.
        match operation.effect() {
            Effect::Kept => !changed.contains(&*base_key(worktree)),
            Effect::Written => false,
            Effect::Worktree => true,
        }
    };
    // How much could not be kept or was imported is a fact, which no undo changes.
    let is_fact =
        |key: &str| key == LOG_IMPORTED || key == LOG_UNKEPT && !window::is_only_unkept(operation);
    // A note that a command is about to overwrite files is outdated once the command has finished.
    let is_over = |key: &str| key.ends_with("/begun") && !is_intent(operation);
    let changes = operation.changes.iter();
    let is_left = |key: &str| is_over(key) || is_fact(key) || is_about_claims(key);
    let changes = changes.filter(|c| !is_left(&c.key));
    let changes = changes.filter(|c| is_ours(&c.key));
    let mut changes: Vec<Change> = changes
        .map(|change| Change {
            key: change.key.clone(),
            old: change.new.clone(),
            new: change.old.clone(),
        })
        .collect();
    if let WholeWorktree::Came(name) = whole_worktree(&operation.changes) {
        // A worktree that was moved is still the one that was added.
        let key = path_key(&name);
        if let Some(place) = changes.iter_mut().find(|change| change.key == key) {
            place.old = repo.refs.get(&key)?;
        }
    }
    changes.extend(claims_back(repo, operation)?);
    if !changes.is_empty() {
        return Ok(changes);
    }
    if operation.changes.iter().all(|c| is_about_claims(&c.key)) {
        let why = "its claims are not this device's, or have changed since".to_owned();
        return Err(refused(operation, why));
    }
    let at = worktree::worktree_path(repo, operation.worktree())?;
    let why = format!("it changed only the worktree at {at}; undo it there");
    Err(refused(operation, why))
}

fn claims_something(operation: &Operation) -> bool {
    let mut changes = operation.changes.iter();
    changes.any(|change| change.key.starts_with(CLAIM_LISTS))
}

fn short(operation: &Operation) -> String {
    short_id(&operation.id)
}

fn short_id(id: &[u8; 16]) -> String {
    encode_hex(id)[..12].to_owned()
}

fn refused(operation: &Operation, why: String) -> RepoError {
    RepoError::Undo(UndoError::NotUndone {
        operation: short(operation),
        why,
    })
}
