//! The commit point: the only way to change what the repository holds and names.
//!
//! Objects that a job wrote and changes of the view become visible in one transaction, or not at all.

use crate::refs::{Change, Effect, NewOperation, Operation, Origin, Refs, RefsError, Timestamp};
use crate::repo::base::error::RepoError;
use crate::repo::base::handle::Handle;
use crate::repo::base::{level, named};
use crate::store::{FinishedJob, PackId, StoreError};
use crate::vfs::Open;

pub(in crate::repo) fn keep(repo: &Handle, sealed: FinishedJob) -> Result<(), RepoError> {
    if sealed.segments.is_empty() {
        return Ok(());
    }
    repo.refs.add_segments(&sealed.segments, &sealed.relied)?;
    repo.store.adopt(&sealed);
    drop(sealed);
    merge_tables(repo);
    Ok(())
}

/// Who asks for an operation, when, and with which words: what the operation log shows.
#[derive(Clone, Debug)]
pub struct Asked {
    /// When.
    pub time: Timestamp,
    /// Who.
    pub who: String,
    /// The command line.
    pub command: String,
}

impl Asked {
    /// `who` asks for `command` at `time`.
    pub fn new(
        who: impl Into<String>,
        command: impl Into<String>,
        time: impl Into<Timestamp>,
    ) -> Asked {
        Asked {
            time: time.into(),
            who: who.into(),
            command: command.into(),
        }
    }
}

/// The commit point: makes what `sealed` holds and `changes` visible together, or neither.
pub(in crate::repo) fn publish(
    repo: &Handle,
    asked: Asked,
    sealed: Option<FinishedJob>,
    changes: Vec<Change>,
    effect: Effect,
) -> Result<Operation, RepoError> {
    publish_undo(repo, asked, sealed, changes, effect, 0)
}

/// [`publish`](Repo::publish) of an operation that takes back number `undoes`.
pub(in crate::repo) fn publish_undo(
    repo: &Handle,
    asked: Asked,
    sealed: Option<FinishedJob>,
    changes: Vec<Change>,
    effect: Effect,
    undoes: u64,
) -> Result<Operation, RepoError> {
    repo.check_own()?;
    let named = named::places_named(repo, &changes, sealed.as_ref())?;
    let (time, who, command) = (asked.time, asked.who, asked.command);
    let worktree = repo.worktree.as_ref().map(|(_, name)| name.clone());
    let origin = Origin {
        worktree: worktree.unwrap_or_default(),
        effect,
    };
    let operation = NewOperation {
        time,
        who,
        command,
        undoes,
        origin,
        changes,
    };
    let (segments, relied) = match &sealed {
        Some(sealed) => (sealed.segments.as_slice(), sealed.relied.as_slice()),
        None => (&[][..], &[][..]),
    };
    let mut held = repo
        .log
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner());
    if repo.refs.is_read_only() {
        return Err(RefsError::ReadOnly(repo.refs.path().to_owned()).into());
    }
    let log = match &mut *held {
        Some(log) => log,
        none => none.insert(level::open_log(&repo.store, Open::Append)?),
    };
    let publish = |operation| repo.refs.publish(operation, segments, relied, &named, log);
    let done = match publish(operation.clone()) {
        Err(RefsError::OtherLog(_)) => {
            // Another command was killed since this one began. What it did counts.
            let lock = repo.refs.lock_database()?;
            level::catch_up(&repo.store, &repo.refs, &lock)?;
            drop(lock);
            publish(operation)
        }
        done => done,
    };
    let done = match done {
        Ok(done) => done,
        Err(e) => {
            // Another file may have the log's place by now: the next publication opens it again.
            *held = None;
            return Err(e.into());
        }
    };
    if let Some(sealed) = &sealed {
        repo.store.adopt(sealed);
    }
    // The locks on the packs end here, after the database knows their new lengths.
    drop(sealed);
    merge_tables(repo);
    Ok(done)
}

/// Ends a job's writer; a pack whose sync failed takes no more.
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
        if let StoreError::SyncFailed { path, .. } = &e {
            let id = path
                .file_stem()
                .and_then(|s| s.to_str())
                .and_then(PackId::from_hex);
            // The report of the failed sync matters more than one that this cannot be noted.
            let _ = id.map(|id| repo.refs.poison(id));
        }
        e.into()
    })
}

/// Joins piled-up index tables. A failure only leaves them piled up, for the next command.
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
            // Its own is registered; nobody needs its lock any more.
            drop(merged);
            let catalogue = || repo.refs.catalogue().ok();
            repo.store
                .remove_strays(|| catalogue().map(|now| now.indexes));
        }
        _ => repo.store.remove_indexes(&[merged.id]),
    }
}

/// A change that gives a key its first value.
pub(in crate::repo) fn set(key: String, new: Vec<u8>) -> Change {
    Change {
        key,
        old: None,
        new: Some(new),
    }
}

/// A change from what the view holds now.
pub(in crate::repo) fn change(
    refs: &Refs,
    key: String,
    new: Option<Vec<u8>>,
) -> Result<Change, RefsError> {
    let old = refs.get(&key)?;
    Ok(Change { key, old, new })
}
