//! The log of a bucket, and taking an operation of it back.
//!
//! An undo is an operation of its own: it sets the refs that an operation has changed to what they
//! were before. It uploads nothing: gc keeps what the log leads to, so everything below these
//! commits is there as long as the log has the operation.

use super::attempt_note::AttemptNote;
use super::cache::Cache;
use super::client::BucketClient;
use super::drive::{Drive, short};
use super::error::PushError;
pub use super::log::each_operation;
use super::log::{find, find_id};
use super::push::{ids_of, of_tips};
use crate::format::Root;
use crate::machines::{
    Answer, Limits, Preparation, Prepare, Push, PushEnd, Request, Stamp, Step, Tag,
};
use crate::work::access::BucketAccess;
use dmv_core::hash::encode_hex;
use dmv_core::refs::{Change, Operation};
use dmv_core::store::random_bytes;
use dmv_net::trouble::{RootLoss, Trouble};
use std::collections::HashMap;
use std::ops::ControlFlow;

/// The fewest digits by which an operation is named.
const MIN_DIGITS: usize = 4;

/// Which operation to take back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Which {
    /// The newest one that changed refs and is not undone.
    Last,
    /// The newest undo, if no other operation came after it.
    LastUndo,
    /// The one whose id begins with these digits.
    Id(String),
}

/// What an undo has done.
#[derive(Debug)]
pub struct Undone {
    /// The root that has it, or a later one.
    pub root: Box<(Root, Tag)>,
    /// The id of the new operation.
    pub id: [u8; 16],
    /// The operation that was taken back.
    pub undone: Operation,
    /// What that one had taken back itself, if it was an undo.
    pub original: Option<Operation>,
    /// The changes that were made.
    pub changes: Vec<Change>,
}

/// Why nothing was undone.
#[derive(Debug, thiserror::Error)]
pub enum UndoError {
    /// The bucket cannot be read or written.
    #[error(transparent)]
    Failed(#[from] PushError),
    /// It cannot be undone.
    #[error(transparent)]
    Refused(#[from] NotUndone),
}

impl From<Trouble> for UndoError {
    fn from(trouble: Trouble) -> UndoError {
        PushError::Trouble(trouble).into()
    }
}

/// Why an operation of a bucket cannot be undone.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotUndone {
    /// No operation in the log changes refs, or all are undone.
    #[error("there is nothing to undo")]
    Nothing,
    /// The newest operation is no undo.
    #[error("there is nothing to redo")]
    NothingToRedo,
    /// An id matches no operation, or several.
    #[error("{} '{id}'", if *ambiguous { "several operations start with" } else { "there is no operation" })]
    NoOperation {
        /// The id or its first digits, as given.
        id: String,
        /// Whether several operations match.
        ambiguous: bool,
    },
    /// It was undone before.
    #[error("operation {0} is undone already")]
    Already(String),
    /// It changed no refs.
    #[error("operation {0} changed no branches or tags")]
    NoRefs(String),
    /// A ref is not what the operation has left.
    #[error("operation {operation} cannot be undone: {} has changed since{}", name_of(key), told(by.as_ref()))]
    ChangedSince {
        /// The operation.
        operation: String,
        /// The ref.
        key: String,
        /// The last operation that changed it, with its user and its command line.
        by: Option<(String, String, String)>,
    },
    /// Files of the commits that refs would go back to have expired.
    #[error("operation {operation} cannot be undone: {files} {} have expired that these commits need", if *files == 1 { "file" } else { "files" })]
    Expired {
        /// The operation.
        operation: String,
        /// The number of files.
        files: u64,
    },
    /// gc has removed the operation from the log meanwhile.
    #[error("operation {0} has left the log")]
    Forgotten(String),
}

fn name_of(key: &str) -> &str {
    key.split_once('/').map_or(key, |(_, name)| name)
}

fn told(by: Option<&(String, String, String)>) -> String {
    let escape = |text: &str| text.escape_debug().to_string();
    by.map_or(String::new(), |(id, who, command)| {
        format!(" (operation {id}, by {}: {})", escape(who), escape(command))
    })
}

/// Returns the newest root, unless it is gone or older than the known one.
pub fn newest(
    client: &mut BucketClient<'_>,
    known: Option<(Root, Tag)>,
) -> Result<(Root, Tag), PushError> {
    let unless = known.as_ref().map(|(_, tag)| tag.clone());
    if let Some((root, _)) = &known {
        client.know(root.repository);
    }
    match (client.answer(&Request::GetRoot { unless, lost: 0 }), known) {
        (Answer::Root(root, tag), known) => {
            if known.is_some_and(|(known, _)| !root.can_follow(&known)) {
                Err(Trouble::Forked.into())
            } else {
                Ok((*root, tag))
            }
        }
        (Answer::Unchanged, Some(known)) => Ok(known),
        (Answer::NoRoot, Some(_)) => Err(Trouble::LostRoot(RootLoss::Gone).into()),
        (Answer::NoRoot, None) => Err(Trouble::NoRoot.into()),
        _ => Err(client.failure().into()),
    }
}

/// Takes an operation back: all that it has changed, or nothing. `known` is the root as this device has
/// seen it last, and `dir` its directory for notes about the bucket; the stamp's `undoes` is set here.
///
/// If the same command has ended before without an answer, this is about the same operation: if it has
/// happened, it is not done again.
pub fn undo(
    with: &BucketAccess<'_>,
    known: Option<(Root, Tag)>,
    which: &Which,
    mut stamp: Stamp,
) -> Result<Undone, UndoError> {
    let mut client = with.client();
    let known = newest(&mut client, known)?;
    let mut note = AttemptNote::open(with.dir, aim(which));
    let earlier = note.noted().cloned();
    if let Some(earlier) = &earlier
        && let Some(landed) = find_id(&mut client, &known.0, earlier)?
    {
        note.forget();
        return undone_before(&mut client, known, landed);
    }
    let chosen = choose(&mut client, &known.0, which)?;
    let changes = inverse(&mut client, &known.0, &chosen)?;
    let original = match chosen.undoes {
        0 => None,
        seq => find(&mut client, &known.0, seq)?,
    };
    stamp.undoes = chosen.seq;
    let open = earlier.filter(|earlier| earlier.attempt.over == known.0.write);
    stamp.id = open.as_ref().map_or(stamp.id, |open| open.id);
    let id = stamp.id;
    let mut machine = Push::new(stamp, changes, Some(known), Vec::new(), Limits::default()).whole();
    if let Some(open) = open {
        machine.resume(open.attempt);
    }
    let first = machine.start(&mut random_bytes);
    let drive = Drive {
        operation: id,
        note: &mut note,
    };
    // gc may have forgotten it since, and freed what only it led to.
    let mut is_forgotten = false;
    let mut expired = 0;
    let ended = drive.run(
        &mut client,
        &mut machine,
        first,
        &mut |client, machine, prepare| {
            is_forgotten = find(client, &prepare.root, chosen.seq)?.as_ref() != Some(&chosen);
            expired = expired_files(with, client, &prepare)?;
            Ok(if is_forgotten || expired > 0 {
                Step::Done(PushEnd::Moved)
            } else {
                machine.prepared(Some(Preparation::default()), &mut random_bytes)
            })
        },
    );
    match ended.map_err(|e| undoing(e, &chosen))? {
        PushEnd::Landed { root, changes } => Ok(Undone {
            root,
            id,
            undone: chosen,
            original,
            changes,
        }),
        PushEnd::Moved if is_forgotten => Err(NotUndone::Forgotten(short(&chosen.id)).into()),
        PushEnd::Moved if expired > 0 => {
            let (operation, files) = (short(&chosen.id), expired);
            Err(NotUndone::Expired { operation, files }.into())
        }
        PushEnd::Moved => {
            let (root, _) = newest(&mut client, None)?;
            inverse(&mut client, &root, &chosen)?;
            // It has changed back in this moment.
            Err(Trouble::Busy.into())
        }
    }
}

/// Returns how many files have expired of the commits that refs go back to.
fn expired_files(
    with: &BucketAccess<'_>,
    client: &mut BucketClient<'_>,
    prepare: &Prepare,
) -> Result<u64, PushError> {
    let expired = client.expired(&prepare.root, &Cache::at(with.dir));
    let expired = ids_of(&expired.ok_or_else(|| client.failure())?);
    let needed = of_tips(with, &prepare.view, &prepare.changes, &expired)?;
    Ok(needed.len() as u64)
}

/// What an undo is to do, for the note of an operation without an answer.
fn aim(which: &Which) -> Vec<u8> {
    match which {
        Which::Last => b"undo".to_vec(),
        Which::LastUndo => b"redo".to_vec(),
        Which::Id(id) => format!("undo {}", id.to_ascii_lowercase()).into_bytes(),
    }
}

/// Returns what an earlier undo has done, which the log has.
fn undone_before(
    client: &mut BucketClient<'_>,
    root: (Root, Tag),
    landed: Operation,
) -> Result<Undone, UndoError> {
    let forgotten = || NotUndone::Forgotten(short(&landed.id));
    let undone = find(client, &root.0, landed.undoes)?.ok_or_else(forgotten)?;
    let original = match undone.undoes {
        0 => None,
        seq => find(client, &root.0, seq)?,
    };
    Ok(Undone {
        root: Box::new(root),
        id: landed.id,
        undone,
        original,
        changes: landed.changes,
    })
}

/// Adds to a failure which operation was to be undone.
fn undoing(e: PushError, chosen: &Operation) -> PushError {
    match e {
        PushError::Trouble(Trouble::Unanswered { operation, .. }) => {
            let undoes = Some(short(&chosen.id));
            Trouble::Unanswered { operation, undoes }.into()
        }
        e => e,
    }
}

fn choose(
    client: &mut BucketClient<'_>,
    root: &Root,
    which: &Which,
) -> Result<Operation, UndoError> {
    match which {
        Which::Last => {
            let mut found = None;
            each_operation(client, root, &mut |entry, is_undone| {
                let operation = &entry.operation;
                if is_undone || operation.undoes != 0 || operation.changes.is_empty() {
                    return ControlFlow::Continue(());
                }
                found = Some(operation.clone());
                ControlFlow::Break(())
            })?;
            Ok(found.ok_or(NotUndone::Nothing)?)
        }
        Which::LastUndo => last_undo(client, root),
        Which::Id(id) => by_id(client, root, id),
    }
}

/// Returns the newest undo that is not itself undone and that undid no undo.
fn last_undo(client: &mut BucketClient<'_>, root: &Root) -> Result<Operation, UndoError> {
    let mut undos: Vec<Operation> = Vec::new();
    // The operations that the undos have taken back, each with what it had undone itself.
    let mut targets: HashMap<u64, u64> = HashMap::new();
    let mut ended = false;
    each_operation(client, root, &mut |entry, is_undone| {
        let operation = &entry.operation;
        targets.insert(operation.seq, operation.undoes);
        if !is_undone && !ended {
            match operation.undoes {
                0 => ended = !operation.changes.is_empty(),
                _ => undos.push(operation.clone()),
            }
        }
        if ended && undos.iter().all(|undo| undo.undoes >= operation.seq) {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    })?;
    let is_redo = |undo: &Operation| targets.get(&undo.undoes).is_some_and(|of| *of != 0);
    let found = undos.into_iter().find(|undo| !is_redo(undo));
    Ok(found.ok_or(NotUndone::NothingToRedo)?)
}

fn by_id(client: &mut BucketClient<'_>, root: &Root, id: &str) -> Result<Operation, UndoError> {
    let none = |ambiguous| NotUndone::NoOperation {
        id: id.to_owned(),
        ambiguous,
    };
    let digits = id.to_ascii_lowercase();
    if digits.len() < MIN_DIGITS {
        return Err(none(false).into());
    }
    let mut found = Vec::new();
    each_operation(client, root, &mut |entry, is_undone| {
        if encode_hex(&entry.operation.id).starts_with(&digits) {
            found.push((entry.operation.clone(), is_undone));
        }
        match found.len() {
            2 => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        }
    })?;
    match (found.pop(), found.is_empty()) {
        (None, _) => Err(none(false).into()),
        (Some(_), false) => Err(none(true).into()),
        (Some((operation, true)), true) => Err(NotUndone::Already(short(&operation.id)).into()),
        (Some((operation, _)), true) if operation.changes.is_empty() => {
            Err(NotUndone::NoRefs(short(&operation.id)).into())
        }
        (Some((operation, false)), true) => Ok(operation),
    }
}

/// Returns the changes that take an operation back. Fails if a ref is not what the operation has left.
fn inverse(
    client: &mut BucketClient<'_>,
    root: &Root,
    of: &Operation,
) -> Result<Vec<Change>, UndoError> {
    let view = client.view(root).ok_or_else(|| client.failure())?;
    let changed = of.changes.iter();
    let mut changed = changed.filter(|change| view.get(&change.key) != change.new.as_ref());
    if let Some(first) = changed.next() {
        let mut by = None;
        each_operation(client, root, &mut |entry, is_undone| {
            let later = &entry.operation;
            // What was taken back since, and what took it back, stands in nobody's way.
            let cancels = is_undone || later.undoes > of.seq;
            let changes = later.changes.iter().any(|c| c.key == first.key);
            let is_it = later.seq > of.seq && !cancels && changes;
            if is_it {
                by = Some((short(&later.id), later.who.clone(), later.command.clone()));
            }
            if is_it || later.seq <= of.seq {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        })?;
        let (operation, key) = (short(&of.id), first.key.clone());
        return Err(NotUndone::ChangedSince { operation, key, by }.into());
    }
    let back = |change: &Change| Change {
        key: change.key.clone(),
        old: change.new.clone(),
        new: change.old.clone(),
    };
    Ok(of.changes.iter().map(back).collect())
}

#[cfg(test)]
mod tests;
