//! The commit point: the only way to change the objects and refs of a repository.
//!
//! The objects that a job wrote and its changes of the view become visible in one transaction, or
//! not at all.

use crate::fsutil::machine_now;
use crate::refs::{Change, Effect, NewOperation, Operation, Origin, Refs, RefsError, Timestamp};
use crate::repo::base::error::RepoError;
use crate::repo::base::handle::Handle;
use crate::repo::base::keys::named_by;
use crate::repo::base::{arrived, budget, leaving, level, named, refused, relying, reserve, whole};
use crate::store::{FinishedJob, PackId, StoreError};
use crate::vfs::OpenMode;

/// Publishes what a transfer has stored, without a name.
///
/// The transfer may have found objects that are gone by now. That does no harm before something
/// gets a name, and then it is noticed that something was freed.
pub(in crate::repo) fn keep_arrivals(
    repo: &Handle,
    mut sealed: FinishedJob,
) -> Result<(), RepoError> {
    refused::check_job(repo, &sealed)?;
    budget::check_job(repo, &sealed)?;
    sealed.relied.clear();
    arrived::note(repo, &sealed);
    keep(repo, sealed)
}

/// Publishes what a job has stored, without a name. Fails if it counts on a pack that is gone.
pub(in crate::repo) fn keep(repo: &Handle, sealed: FinishedJob) -> Result<(), RepoError> {
    let is_new = !sealed.segments.is_empty();
    keep_unmerged(repo, sealed)?;
    if is_new {
        merge_tables(repo);
    }
    Ok(())
}

/// Publishes what a job has stored, without a name, and leaves it to the caller to merge tables.
pub(in crate::repo) fn keep_unmerged(repo: &Handle, sealed: FinishedJob) -> Result<(), RepoError> {
    keep_as_of(repo, sealed, machine_now().seconds)
}

/// Publishes objects that were stored before, at a time in seconds since 1970, without a name.
pub(in crate::repo) fn keep_as_of(
    repo: &Handle,
    sealed: FinishedJob,
    at: i64,
) -> Result<(), RepoError> {
    if sealed.segments.is_empty() {
        return Ok(());
    }
    repo.refs
        .add_segments(&sealed.segments, &sealed.relied, Some(at))?;
    repo.store.adopt(&sealed);
    Ok(())
}

/// Publishes copies of objects whose packs are about to go. Nothing is appended to the new packs. `at`
/// has the time of each segment.
pub(in crate::repo) fn keep_moved(
    repo: &Handle,
    sealed: FinishedJob,
    at: &[i64],
) -> Result<(), RepoError> {
    if sealed.segments.is_empty() {
        return Ok(());
    }
    let segments: Vec<_> = sealed
        .segments
        .iter()
        .copied()
        .zip(at.iter().copied())
        .collect();
    repo.refs.add_moved(&segments, &sealed.relied)?;
    repo.store.adopt(&sealed);
    Ok(())
}

/// Publishes what was copied out of one pack that is about to go. If the new packs may have frames
/// with bases, nothing is appended to them: repack looks for bases in all other packs.
pub(in crate::repo) fn keep_rewritten(
    repo: &Handle,
    sealed: FinishedJob,
    at: i64,
) -> Result<(), RepoError> {
    let mut segments = sealed.segments.iter();
    if segments.all(|row| row.pack.may_have_bases()) {
        let at = vec![at; sealed.segments.len()];
        keep_moved(repo, sealed, &at)
    } else {
        keep_as_of(repo, sealed, at)
    }
}

/// The request for an operation: who, when and which command. The operation log shows it.
#[derive(Clone, Debug)]
pub struct OperationRequest {
    /// The time of the request.
    pub time: Timestamp,
    /// The user.
    pub who: String,
    /// The command line.
    pub command: String,
}

impl OperationRequest {
    /// Creates a request by `who` for `command` at `time`.
    pub fn new(
        who: impl Into<String>,
        command: impl Into<String>,
        time: impl Into<Timestamp>,
    ) -> OperationRequest {
        OperationRequest {
            time: time.into(),
            who: who.into(),
            command: command.into(),
        }
    }
}

/// Passes the commit point: makes the objects of `sealed` and the `changes` visible together, or
/// neither of them. Fails with `AbsentError::Incomplete` rather than name an incomplete commit.
pub(in crate::repo) fn publish(
    repo: &Handle,
    request: OperationRequest,
    sealed: Option<FinishedJob>,
    changes: Vec<Change>,
    effect: Effect,
) -> Result<Operation, RepoError> {
    publish_undo(repo, request, sealed, changes, effect, 0)
}

/// Publishes like [`publish`] an operation that undoes the operation number `undoes`.
pub(in crate::repo) fn publish_undo(
    repo: &Handle,
    request: OperationRequest,
    sealed: Option<FinishedJob>,
    changes: Vec<Change>,
    effect: Effect,
    undoes: u64,
) -> Result<Operation, RepoError> {
    let proof = Proof::Missing;
    publish_proved(repo, request, sealed, changes, effect, undoes, proof)
}

/// What shows that everything is complete that a publication names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::repo) enum Proof {
    /// Nothing yet: the publication has to look.
    Missing,
    /// A transfer has looked, which has relied on what it found until now.
    Transfer,
    /// Nothing, and it need not be complete: this names what is left of a damaged history.
    Needless,
}

/// How often a publication looks again because others free objects meanwhile.
const ROUNDS: usize = 5;

/// Publishes what is left of a damaged history, as an operation of `dmv recover`. What the changes name
/// need not be complete.
pub(in crate::repo) fn publish_recovered(
    repo: &Handle,
    time: Timestamp,
    who: String,
    changes: Vec<Change>,
) -> Result<(), RepoError> {
    let request = OperationRequest {
        time,
        who,
        command: "dmv recover".to_owned(),
    };
    let proof = Proof::Needless;
    publish_proved(repo, request, None, changes, Effect::Kept, 0, proof).map(drop)
}

/// Publishes like [`publish_undo`] changes with or without a proof that they name complete commits.
pub(in crate::repo) fn publish_proved(
    repo: &Handle,
    request: OperationRequest,
    sealed: Option<FinishedJob>,
    changes: Vec<Change>,
    effect: Effect,
    undoes: u64,
    proof: Proof,
) -> Result<Operation, RepoError> {
    repo.check_own()?;
    if let Some(sealed) = &sealed {
        budget::check_job(repo, sealed)?;
    }
    // Before the first look at what is named.
    let mut since = if proof == Proof::Needless || !names_objects(&changes) {
        None
    } else {
        Some(relying::look_anew(repo)?)
    };
    if proof == Proof::Missing || proof == Proof::Transfer && !repo.relied.any() {
        whole::check_changes(repo, &changes, sealed.as_ref(), undoes)?;
    }
    let worktree = repo.worktree.as_ref().map(|(_, name)| name.clone());
    let mut operation = NewOperation {
        time: request.time,
        who: request.who,
        command: request.command,
        undoes,
        origin: Origin {
            worktree: worktree.unwrap_or_default(),
            effect,
        },
        changes,
        since,
    };
    let mut relied = sealed.as_ref().map_or(Vec::new(), |job| job.relied.clone());
    let mut must_look = since.is_some_and(|now| !repo.relied.nothing_freed_until(now));
    for round in 0.. {
        if must_look {
            since = Some(whole::look_again(
                repo,
                &operation.changes,
                sealed.as_ref(),
                proof == Proof::Transfer,
            )?);
            (operation.since, relied) = (since, Vec::new());
        }
        match pass(repo, operation.clone(), sealed.as_ref(), &relied) {
            Err(e) if e.may_be_gone() && since.is_some() && round < ROUNDS => must_look = true,
            Err(e) => return Err(e),
            Ok(done) => {
                if let Some(sealed) = &sealed {
                    repo.store.adopt(sealed);
                }
                // This releases the locks on the packs. The database already records their new
                // lengths.
                drop(sealed);
                merge_tables(repo);
                leaving::sweep_one(repo);
                reserve::keep(repo);
                return Ok(done);
            }
        }
    }
    unreachable!("the last round returns")
}

fn names_objects(changes: &[Change]) -> bool {
    let names = |change: &Change| {
        let new = change.new.as_deref().unwrap_or_default();
        !named_by(&change.key, new).is_empty()
    };
    changes.iter().any(names)
}

/// Tries to pass the commit point once.
fn pass(
    repo: &Handle,
    operation: NewOperation,
    sealed: Option<&FinishedJob>,
    relied: &[PackId],
) -> Result<Operation, RepoError> {
    let named = named::places_named(repo, &operation.changes, sealed)?;
    if let Some(sealed) = sealed {
        refused::check_job(repo, sealed)?;
    }
    let segments = sealed.map_or(&[][..], |sealed| sealed.segments.as_slice());
    let mut held = repo
        .log
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner());
    if repo.refs.is_read_only() {
        return Err(RefsError::ReadOnly(repo.refs.path().to_owned()).into());
    }
    let log = match &mut *held {
        Some(log) => log,
        none => none.insert(level::open_log(&repo.store, OpenMode::Append)?),
    };
    let publish = |operation| repo.refs.publish(operation, segments, relied, &named, log);
    let done = match publish(operation.clone()) {
        Err(RefsError::OtherLog(_)) => {
            // Another command was killed after this one began. Its operation counts.
            let lock = repo.refs.lock_database()?;
            level::catch_up(&repo.store, &repo.refs, &lock)?;
            drop(lock);
            publish(operation)
        }
        done => done,
    };
    done.map_err(|e| {
        // Another file may have replaced the log by now. The next publication opens it again.
        *held = None;
        e.into()
    })
}

/// Ends a job's writer. Poisons a pack if its sync failed.
pub(in crate::repo) fn seal(
    repo: &Handle,
    writer: crate::store::StoreWriter<'_>,
) -> Result<FinishedJob, RepoError> {
    noting_failed_sync(repo, writer.finish())
}

pub(in crate::repo) fn noting_failed_sync(
    repo: &Handle,
    sealed: Result<FinishedJob, StoreError>,
) -> Result<FinishedJob, RepoError> {
    sealed.map_err(|e| {
        if let StoreError::SyncFailed { pack, .. } = &e {
            // The failed sync is the important error. Ignore a failure to record the poisoned pack.
            let _ = repo.refs.poison(*pack);
        }
        e.into()
    })
}

/// Merges accumulated index tables. If this fails, they wait for the next command.
pub(in crate::repo) fn merge_tables(repo: &Handle) {
    let Ok(catalogue) = repo.refs.catalogue() else {
        return;
    };
    let Ok(Some(merged)) = repo.store.merge_tables(&catalogue) else {
        return;
    };
    match repo.refs.register_merged(&merged) {
        Ok(true) => {
            repo.store.remove_indexes(&merged.indexes);
            // The merged index is registered, so its lock is no longer needed.
            drop(merged);
            let catalogue = || repo.refs.catalogue().ok();
            repo.store
                .remove_strays(|| catalogue().map(|now| now.indexes));
        }
        _ => repo.store.remove_indexes(&[merged.id]),
    }
}

/// Returns a change that gives a key its first value.
pub(in crate::repo) fn set(key: String, new: Vec<u8>) -> Change {
    Change {
        key,
        old: None,
        new: Some(new),
    }
}

/// Returns a change from the key's current value in the view.
pub(in crate::repo) fn change(
    refs: &Refs,
    key: String,
    new: Option<Vec<u8>>,
) -> Result<Change, RefsError> {
    let old = refs.get(&key)?;
    Ok(Change { key, old, new })
}
