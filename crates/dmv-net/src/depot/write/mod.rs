//! A push to a bucket: docs/format/bucket.md, "Push".
//!
//! [`push`] drives the state machine of [`core`](crate::bucket::core) over [`Files`]. It walks from the
//! wanted commits to those of the root, uploads what is between, and notes on the device what a
//! push after a kill need not upload again. It judges no refs: its caller says which to change.

mod note;
mod packs;
mod upload;

pub(super) use super::ask::{Desk, stays};
use super::foresee::{PushForecast, measure};
use super::known::{self, FrameOf, HintFiles};
use crate::bucket::core::{
    Fault, Limits, Prepare, Push, PushEnd, Request, Stamp, Step, Tag, UploadedPack, intended,
};
use crate::bucket::files::{FileFailure, Files};
use crate::bucket::format::{Name, Root, Row, View};
use crate::bucket::trouble::Trouble;
use dmv_core::hash::ObjectId;
use dmv_core::job::{Bound, Job};
use dmv_core::object::{ObjectError, ObjectRead, ObjectType};
use dmv_core::reach::{Detail, Reach};
use dmv_core::refs::Change;
use dmv_core::repo::RepoError;
use dmv_core::store::{
    CheckedRecord, FrameCollector, OutgoingItem, SegmentTail, Store, StoreError, random_bytes,
};
pub(super) use note::Note;
use packs::UploadedPacks;
pub use packs::{JOINT_BYTES, Packer, UploadedPacks as Packed, frames_of, writes_of};
use std::collections::HashSet;
use std::path::Path;
use std::time::Duration;
pub(super) use upload::with_uploads;

/// How often a push tries to replace the root while others do the same.
const ATTEMPTS: u32 = 200;
/// Objects that a failed push reports as absent.
const MAX_LACKING: usize = 64;
/// The first bytes of a chunk's id by which a push knows what it has uploaded.
const KEY_BYTES: usize = 16;

/// What a push works with.
pub struct Pusher<'a> {
    /// The bucket.
    pub files: &'a dyn Files,
    /// Where the objects are.
    pub store: &'a Store,
    /// Progress, and whether the user has cancelled.
    pub job: &'a Job,
    /// A directory of this device for notes about the bucket.
    pub dir: Option<&'a Path>,
}

/// What a push did.
#[derive(Debug)]
pub struct PushResult {
    /// The root that has it, or a later one.
    pub root: Box<(Root, Tag)>,
    /// The changes that were made. Keys that are not among them had moved.
    pub changes: Vec<Change>,
    /// Objects uploaded.
    pub objects: u64,
}

/// Why a push failed.
#[derive(Debug, thiserror::Error)]
pub enum PushError {
    /// The store does not do its part.
    #[error(transparent)]
    Trouble(#[from] Trouble),
    /// The root or a page is not what it should be, or nobody knows whether the push has landed.
    #[error("the push did not end: {0:?}")]
    Fault(Fault),
    /// Objects that the push needs are neither here nor in the bucket.
    #[error("objects are absent")]
    Lacking(Vec<(ObjectType, ObjectId)>),
    /// The repository cannot be read.
    #[error(transparent)]
    Object(#[from] ObjectError),
    /// The repository cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The repository cannot be read.
    #[error(transparent)]
    Repo(#[from] RepoError),
    /// The user has cancelled it.
    #[error("cancelled")]
    Cancelled,
}

impl From<std::io::Error> for PushError {
    fn from(e: std::io::Error) -> PushError {
        PushError::Trouble(Trouble::Other(e.to_string()))
    }
}

impl From<FileFailure> for PushError {
    fn from(failed: FileFailure) -> PushError {
        PushError::Trouble(match failed {
            FileFailure::Trouble(trouble) => trouble,
            FileFailure::Missing => Trouble::Cut("the store has given up an upload".to_owned()),
            FileFailure::Length | FileFailure::Unchanged | FileFailure::Refused => {
                Trouble::Other("an answer that does not belong to the request".to_owned())
            }
        })
    }
}

/// Waits for a time, and returns whether the job goes on.
pub fn wait(job: &Job, time: Duration) -> bool {
    const LOOK: Duration = Duration::from_millis(20);
    let until = std::time::Instant::now() + time;
    loop {
        let left = until.saturating_duration_since(std::time::Instant::now());
        match job.is_cancelled() {
            true => return false,
            false if left.is_zero() => return true,
            false => std::thread::sleep(left.min(LOOK)),
        }
    }
}

/// Publishes `changes` over the root, as far as their keys have not moved. `None`: all have moved.
///
/// The commits that they name, and everything below, are uploaded first, as far as no commit in the
/// view or log of the root leads to it.
pub fn push(
    with: &Pusher<'_>,
    root: (Root, Tag),
    changes: Vec<Change>,
    stamp: &Stamp,
) -> Result<Option<PushResult>, PushError> {
    let waits = |time| wait(with.job, time);
    let mut desk = Desk::new(with.files, &waits);
    let repository = root.0.repository;
    desk.know(repository);
    let note = match with.dir {
        Some(dir) => Note::open(&dir.join("push"), repository),
        None => Note::none(),
    };
    let mut known = match with.dir {
        Some(dir) => HintFiles::open(&dir.join(known::DIR)),
        None => HintFiles::none(),
    };
    let mut sent = note.sent();
    for unended in note.unended() {
        let row = unended.sent.row;
        let Some(ids) = unended.all_parts() else {
            // The store would make a shorter file of those that it has.
            note.go_on_with(&row.name);
            continue;
        };
        let path = row.name.path(repository);
        match with
            .files
            .end_upload(&path, &unended.upload.upload, &ids, row.len)
        {
            Ok(()) => {
                note.done(&row.name);
                sent.push(unended.sent);
            }
            // It is uploaded again.
            Err(_) => note.forget(&row.name),
        }
    }
    sent.retain(|sent| note.tail(&sent.row).is_some());
    let mut made = UploadedPacks::default();
    let fresh = &mut random_bytes;
    let mut machine = Push::new(stamp.clone(), changes, Some(root), sent, Limits::default());
    let (mut step, mut attempts, mut may_land) = (machine.start(fresh), 0, false);
    loop {
        step = match step {
            Step::Ask(request) => {
                let replaces = matches!(request, Request::PutRoot { .. });
                if replaces {
                    attempts += 1;
                    stop_if_hopeless(with, &desk, attempts)?;
                }
                let answer = desk.answer(&request);
                let unclear = desk.trouble().is_some_and(|trouble| !stays(trouble));
                may_land |= replaces && unclear;
                machine.answer(answer, fresh)
            }
            Step::Work(prepare) => {
                let new = upload_all(with, &prepare, stamp, &note, &mut known)?;
                made.hints.extend(new.hints);
                made.objects += new.objects;
                machine.prepared(Some(new.rows), fresh)
            }
            Step::Done(PushEnd::Landed { root, changes }) => {
                keep_hints(&mut known, &note, made.hints, machine.sent());
                note.clear();
                let objects = made.objects;
                return Ok(Some(PushResult {
                    root,
                    changes,
                    objects,
                }));
            }
            Step::Done(PushEnd::Moved) => return Ok(None),
            Step::Done(PushEnd::Failed(fault)) => {
                let trouble = desk.trouble().cloned();
                return Err(match (fault, trouble) {
                    (Fault::Unreachable, Some(trouble)) => trouble.into(),
                    (Fault::Unknown, Some(trouble)) if desk.is_denied() && !may_land => {
                        trouble.into()
                    }
                    (fault, _) => PushError::Fault(fault),
                });
            }
        };
    }
}

/// Returns what a push of `changes` over a root and its view would upload. Fails for what [`push`] fails
/// for, as far as that is known here.
pub fn foresee(
    with: &Pusher<'_>,
    root: &Root,
    view: View,
    changes: Vec<Change>,
) -> Result<PushForecast, PushError> {
    let walk = Walk::new(&Prepare {
        root: root.clone(),
        view,
        changes,
        sent: Vec::new(),
    });
    let (foreseen, lacking) = measure(with.store, walk.reach(Detail::All), with.job)?;
    match lacking.is_empty() {
        true => Ok(foreseen),
        false => Err(PushError::Lacking(lacking)),
    }
}

/// Fails before another attempt to replace the root if that cannot go well.
fn stop_if_hopeless(with: &Pusher<'_>, desk: &Desk<'_>, attempts: u32) -> Result<(), PushError> {
    match desk.trouble() {
        Some(trouble) if desk.is_denied() => Err(trouble.clone().into()),
        _ if with.job.is_cancelled() => Err(PushError::Cancelled),
        _ if attempts > ATTEMPTS => Err(Trouble::Busy.into()),
        _ => Ok(()),
    }
}

/// Notes where the uploaded objects lie, for the places of later pushes.
fn keep_hints(
    known: &mut HintFiles,
    note: &Note,
    hints: Vec<(ObjectId, FrameOf)>,
    sent: &[UploadedPack],
) {
    // What cannot be noted is looked for by the readers.
    let _ = known.add(hints);
    for UploadedPack { row, .. } in sent {
        if let Some(tail) = note.tail(row) {
            let frames = frames_of(&tail, row.tail).map(|(id, at)| {
                let frame = FrameOf {
                    pack: row.name,
                    offset: at.offset,
                    len: at.len,
                };
                (id, frame)
            });
            let _ = known.add(frames.collect());
        }
    }
}

/// Uploads what the wanted commits need and the root's commits do not have.
fn upload_all(
    with: &Pusher<'_>,
    prepare: &Prepare,
    stamp: &Stamp,
    note: &Note,
    known: &mut HintFiles,
) -> Result<UploadedPacks, PushError> {
    let root = &prepare.root;
    if root.meta_pages.is_empty() && root.data_pages.is_empty() {
        // Packs may have been joined since. With pages, this is not known.
        let mut names: HashSet<Name> = root.rows.iter().map(|row| row.name).collect();
        names.extend(prepare.sent.iter().map(|sent| sent.row.name));
        known.only_in(names);
    }
    let walk = Walk::new(prepare);
    let nodes = walk.nodes(with)?;
    if nodes.is_empty() {
        return Ok(UploadedPacks::default());
    }
    let tails: Vec<(Row, SegmentTail)> = prepare
        .sent
        .iter()
        .filter_map(|sent| Some((sent.row, note.tail(&sent.row)?)))
        .collect();
    let operation = intended(root, stamp, &prepare.changes).encode();
    with_uploads(with.files, root.repository, root.freed, note, |uploads| {
        let mut packer = Packer::new(uploads, root.repository);
        let mut there: HashSet<[u8; KEY_BYTES]> = HashSet::new();
        for (row, tail) in &tails {
            packer.knows(row.name, tail, row.tail);
            there.extend(tail.entries.iter().map(|entry| key(&entry.id)));
        }
        drop(tails);
        walk.chunks(with, &there, &mut packer)?;
        let mut packer = packer.nodes(nodes.len(), known)?;
        for (ty, id) in &nodes {
            let bytes = with.store.require(*ty, id)?;
            packer.add(*ty, *id, &bytes)?;
            Job::add(&with.job.progress.objects, 1);
            Job::add(&with.job.progress.bytes, bytes.len() as u64);
        }
        Ok(packer.finish(&operation)?)
    })?
}

fn key(id: &ObjectId) -> [u8; KEY_BYTES] {
    let mut key = [0; KEY_BYTES];
    key.copy_from_slice(&id.as_bytes()[..KEY_BYTES]);
    key
}

/// The walk from the wanted commits to those that the bucket has.
struct Walk {
    tips: Vec<ObjectId>,
    hidden: Vec<ObjectId>,
}

impl Walk {
    fn new(prepare: &Prepare) -> Walk {
        let id = |value: &Option<Vec<u8>>| {
            let bytes: [u8; 32] = value.as_deref()?.try_into().ok()?;
            Some(ObjectId::from_bytes(bytes))
        };
        let tips = prepare.changes.iter().filter_map(|change| id(&change.new));
        let logged = prepare.root.log.iter().flat_map(|entry| {
            let changes = entry.operation.changes.iter();
            changes.flat_map(|change| [id(&change.old), id(&change.new)])
        });
        let view = prepare.view.values().map(|value| id(&Some(value.clone())));
        let mut hidden: Vec<ObjectId> = view.chain(logged).flatten().collect();
        hidden.sort_unstable();
        hidden.dedup();
        Walk {
            tips: tips.collect(),
            hidden,
        }
    }

    fn reach(&self, detail: Detail) -> Reach {
        Reach::new(
            self.tips.iter().copied(),
            self.hidden.iter().copied(),
            detail,
        )
    }

    /// Returns the commits, then trees and conflicts from the root down, then lists.
    fn nodes(&self, with: &Pusher<'_>) -> Result<Vec<(ObjectType, ObjectId)>, PushError> {
        let mut reach = self.reach(Detail::Metadata).counting();
        let (mut seen, mut lacking) = (HashSet::new(), Vec::new());
        let mut parts: [Vec<(ObjectType, ObjectId)>; 3] = Default::default();
        while let Some(found) = reach.next(with.store)? {
            if with.job.is_cancelled() {
                return Err(PushError::Cancelled);
            }
            if !found.here {
                lacking.push((found.ty, found.id));
                if lacking.len() >= MAX_LACKING {
                    break;
                }
                continue;
            }
            if seen.insert(found.id) {
                let part = match found.ty {
                    ObjectType::Commit => 0,
                    ObjectType::List => 2,
                    _ => 1,
                };
                parts[part].push((found.ty, found.id));
            }
        }
        if !lacking.is_empty() {
            return Err(PushError::Lacking(lacking));
        }
        with.job.progress.foresee(reach.content(), Bound::AtMost);
        Ok(parts.concat())
    }

    /// Uploads the chunks, except those that are `there` already and those that were purged.
    fn chunks(
        &self,
        with: &Pusher<'_>,
        there: &HashSet<[u8; KEY_BYTES]>,
        packer: &mut Packer<'_, '_>,
    ) -> Result<(), PushError> {
        let refused = with.store.refused();
        let mut reach = self.reach(Detail::All);
        let mut frames = FrameCollector::new(with.store, true);
        let mut lacking = Vec::new();
        let progress = &with.job.progress;
        let mut put = |out: OutgoingItem| -> Result<(), PushError> {
            if with.job.is_cancelled() {
                return Err(PushError::Cancelled);
            }
            let bytes = match out {
                OutgoingItem::Checked(record) => {
                    packer.add_record(&record)?;
                    Job::add(&progress.objects, record.objects().len() as u64);
                    u64::from(record.raw_len())
                }
                OutgoingItem::Object(ty, bytes) => {
                    packer.add_chunk(ty.id_of(&bytes), &bytes)?;
                    Job::add(&progress.objects, 1);
                    bytes.len() as u64
                }
                // A collector that checks gives none of these.
                OutgoingItem::Record { record, .. } => {
                    let record = CheckedRecord::new(record).map_err(std::io::Error::other)?;
                    packer.add_record(&record)?;
                    u64::from(record.raw_len())
                }
            };
            Job::add(&progress.bytes, bytes);
            Job::add(&progress.new_bytes, bytes);
            Ok(())
        };
        while let Some(found) = reach.next(with.store)? {
            if found.ty != ObjectType::Chunk || refused.contains(&found.id) {
                continue;
            }
            if there.contains(&key(&found.id)) {
                Job::add(&progress.bytes, found.len);
                continue;
            }
            if !found.here {
                lacking.push((found.ty, found.id));
                if lacking.len() >= MAX_LACKING {
                    break;
                }
                continue;
            }
            frames.add(found.ty, found.id, &mut put)?;
        }
        if !lacking.is_empty() {
            return Err(PushError::Lacking(lacking));
        }
        frames.flush(&mut put)
    }
}

#[cfg(test)]
pub(crate) mod tests;
