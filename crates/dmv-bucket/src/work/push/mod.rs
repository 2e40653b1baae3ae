//! A push to a bucket: docs/format/bucket.md, "Push".
//!
//! [`push`] drives the state machine of [`machines`](crate::machines) over [`Files`](crate::files::Files). It walks from the
//! wanted commits to those of the root, uploads what is between, and notes on the device what a
//! push after a kill need not upload again. It judges no refs: its caller says which to change.

mod expired;
mod omissions;
mod packs;
mod upload;
mod upload_log;

use super::attempt_note::AttemptNote;
use super::cache::Cache;
pub(super) use super::client::BucketClient;
use super::drive::Drive;
pub use super::error::PushError;
use super::hints::{self, FrameOf, HintFiles};
use super::log::find_id;
use crate::format::{Name, Purges, Root, Row, View};
use crate::machines::{
    Limits, Preparation, Prepare, Push, PushEnd, Stamp, Tag, UploadedPack, intended,
};
use crate::work::access::BucketAccess;
use dmv_core::hash::ObjectId;
use dmv_core::job::{Bound, Job};
use dmv_core::object::codec::put_bytes;
use dmv_core::object::root::Root as Source;
use dmv_core::object::{ObjectRead, ObjectType};
use dmv_core::reach::{Detail, Filter, Reach};
use dmv_core::refs::Change;
use dmv_core::store::{CheckedRecord, FrameCollector, OutgoingItem, SegmentTail, random_bytes};
use dmv_net::ops::{PushForecast, measure};
pub use expired::{ids_of, of_tips};
pub(super) use omissions::each_chunk;
use omissions::{Omissions, let_go};
use packs::UploadedPacks;
pub use packs::{JOINT_BYTES, Packer, UploadedPacks as Packed, frames_of, writes_of};
use std::collections::HashSet;
pub(super) use upload::with_uploads;
pub(super) use upload_log::UploadLog;

/// Objects that a failed push reports as absent.
const MAX_LACKING: usize = 64;
/// The first bytes of a chunk's id by which a push knows what it has uploaded.
const KEY_BYTES: usize = 16;

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

/// Publishes `changes` over the root, as far as their keys have not moved. `None`: all have moved.
///
/// The commits that they name, and everything below, are uploaded first, as far as no commit in the
/// view or log of the root leads to it.
pub fn push(
    with: &BucketAccess<'_>,
    root: (Root, Tag),
    changes: Vec<Change>,
    stamp: &Stamp,
) -> Result<Option<PushResult>, PushError> {
    let repository = root.0.repository;
    let note = match with.dir {
        Some(dir) => UploadLog::open(&dir.join("push"), repository),
        None => UploadLog::none(),
    };
    let known = match with.dir {
        Some(dir) => HintFiles::open(&dir.join(hints::DIR)),
        None => HintFiles::none(),
    };
    let sent = resume(with, &root.0, &note);
    let mut unanswered = AttemptNote::open(with.dir, aim(&changes));
    let earlier = unanswered.noted().cloned();
    let stamp = &Stamp {
        id: earlier.as_ref().map_or(stamp.id, |earlier| earlier.id),
        ..stamp.clone()
    };
    let mut run = PushRun {
        with,
        stamp,
        note: &note,
        known,
        made: UploadedPacks::default(),
    };
    let mut machine = Push::new(stamp.clone(), changes, Some(root), sent, Limits::default());
    if let Some(earlier) = earlier {
        machine.resume(earlier.attempt);
    }
    let done = run.run(&mut machine, &mut unanswered);
    if !machine.tainted().is_empty() && let_go(with, machine.tainted(), stamp) {
        note.clear();
    }
    done
}

/// How the aims of pushes begin.
const PUSH: &[u8] = b"push ";

/// What a push is to do: which refs have which values after it.
fn aim(changes: &[Change]) -> Vec<u8> {
    let mut aim = PUSH.to_vec();
    for change in changes {
        put_bytes(&mut aim, change.key.as_bytes());
        put_bytes(&mut aim, change.new.as_deref().unwrap_or_default());
    }
    aim
}

/// Returns what an earlier push has changed, if it ended without an answer and the log of `root` has it.
pub fn landed_unanswered(
    with: &BucketAccess<'_>,
    client: &mut BucketClient<'_>,
    root: &Root,
) -> Result<Vec<Change>, PushError> {
    let mut note = AttemptNote::open(with.dir, Vec::new());
    let Some(earlier) = note
        .any()
        .filter(|noted| noted.aim.starts_with(PUSH))
        .cloned()
    else {
        return Ok(Vec::new());
    };
    let landed = find_id(client, root, &earlier)?;
    if landed.is_some() || earlier.attempt.over != root.write {
        note.forget();
    }
    Ok(landed.map_or_else(Vec::new, |operation| operation.changes))
}

/// Ends the uploads of an earlier push that were complete. Returns the packs that it has uploaded.
fn resume(with: &BucketAccess<'_>, root: &Root, note: &UploadLog) -> Vec<UploadedPack> {
    let mut sent = note.sent();
    for unended in note.unended() {
        let row = unended.sent.row;
        let (path, upload) = (row.name.path(root.repository), &unended.upload.upload);
        if unended.sent.age.purged != root.purges.count {
            // It may have content that was purged since, and may have ended: it will be let go.
            let _ = with.files.drop_upload(&path, upload);
            sent.push(unended.sent);
            continue;
        }
        let Some(ids) = unended.all_parts() else {
            // The store would make a shorter file of those that it has.
            note.go_on_with(&row.name);
            continue;
        };
        match with.files.end_upload(&path, upload, &ids, row.len) {
            Ok(()) => {
                note.done(&row.name);
                sent.push(unended.sent);
            }
            // It is uploaded again.
            Err(_) => note.forget(&row.name),
        }
    }
    sent.retain(|sent| note.tail(&sent.row).is_some());
    sent
}

/// A push between its steps.
struct PushRun<'a> {
    with: &'a BucketAccess<'a>,
    stamp: &'a Stamp,
    note: &'a UploadLog,
    known: HintFiles,
    /// What it has uploaded.
    made: UploadedPacks,
}

impl PushRun<'_> {
    /// Makes the requests and the packs that the machine asks for, to its end.
    fn run(
        &mut self,
        machine: &mut Push,
        note: &mut AttemptNote,
    ) -> Result<Option<PushResult>, PushError> {
        let mut client = self.with.client();
        if let Some(root) = machine.root() {
            client.know(root.repository);
        }
        let fresh = &mut random_bytes;
        let drive = Drive {
            operation: self.stamp.id,
            note,
        };
        let first = machine.start(fresh);
        let ended = drive.run(
            &mut client,
            machine,
            first,
            &mut |client, machine, prepare| {
                let done = self.prepare(client, &prepare)?;
                Ok(machine.prepared(done, &mut random_bytes))
            },
        )?;
        let PushEnd::Landed { root, changes } = ended else {
            return Ok(None);
        };
        let hints = std::mem::take(&mut self.made.hints);
        keep_hints(&mut self.known, self.note, hints, machine.sent());
        keep_tables(&Cache::at(self.with.dir), self.note, machine.sent());
        self.note.clear();
        Ok(Some(PushResult {
            root,
            changes,
            objects: self.made.objects,
        }))
    }

    /// Uploads what the root lacks. `None`: a file is missing that the root names.
    fn prepare(
        &mut self,
        client: &mut BucketClient<'_>,
        prepare: &Prepare,
    ) -> Result<Option<Preparation>, PushError> {
        let Some(left) = Omissions::read(self.with, client, prepare)? else {
            return Ok(client.lost_or_failed().map(|()| None)?);
        };
        let back = left.back.keys().copied().collect();
        let (new, purges) = upload_all(
            self.with,
            prepare,
            left,
            self.stamp,
            self.note,
            &mut self.known,
        )?;
        self.made.hints.extend(new.hints);
        self.made.objects += new.objects;
        let rows = new.rows;
        Ok(Some(Preparation { rows, purges, back }))
    }
}

/// Returns what a push of `changes` over a root and its view would upload. Fails for what [`push`] fails
/// for, as far as that is known here.
pub fn foresee(
    with: &BucketAccess<'_>,
    root: &Root,
    view: View,
    changes: Vec<Change>,
) -> Result<PushForecast, PushError> {
    let mut client = with.client();
    client.know(root.repository);
    let prepare = Prepare {
        root: root.clone(),
        view,
        changes,
        sent: Vec::new(),
    };
    let left = Omissions::read(with, &mut client, &prepare)?;
    let walk = Walk::new(&prepare, left.ok_or_else(|| client.failure())?);
    walk.nodes(with)?;
    let (foreseen, lacking) = measure(with.store, walk.reach(Detail::All), with.job)?;
    if lacking.is_empty() {
        Ok(foreseen)
    } else {
        Err(PushError::Lacking(lacking))
    }
}

/// Notes where the uploaded objects lie, for the places of later pushes.
fn keep_hints(
    known: &mut HintFiles,
    note: &UploadLog,
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

/// Keeps the tables of uploaded packs like those that were read, and that this device has what they have.
fn keep_tables(cache: &Cache, note: &UploadLog, sent: &[UploadedPack]) {
    for UploadedPack { row, .. } in sent {
        if let Some(tail) = note.tail_bytes(row) {
            cache.keep_file(&row.name.to_string(), &tail);
        }
    }
    cache.note_own(sent.iter().map(|sent| sent.row.name));
}

/// Uploads what the wanted commits need and the root's commits do not have.
fn upload_all(
    with: &BucketAccess<'_>,
    prepare: &Prepare,
    left: Omissions,
    stamp: &Stamp,
    note: &UploadLog,
    known: &mut HintFiles,
) -> Result<(UploadedPacks, Purges), PushError> {
    let root = &prepare.root;
    if root.meta_pages.is_empty() && root.data_pages.is_empty() {
        // Packs may have been joined since. With pages, this is not known.
        let mut names: HashSet<Name> = root.rows.iter().map(|row| row.name).collect();
        names.extend(prepare.sent.iter().map(|sent| sent.row.name));
        known.only_in(names);
    }
    let walk = Walk::new(prepare, left);
    let (nodes, purges) = walk.nodes(with)?;
    if nodes.is_empty() {
        return Ok((UploadedPacks::default(), purges));
    }
    let tails: Vec<(Row, SegmentTail)> = prepare
        .sent
        .iter()
        .filter_map(|sent| Some((sent.row, note.tail(&sent.row)?)))
        .collect();
    let operation = intended(root, stamp, &prepare.changes).encode();
    let made = with_uploads(with.files, root.repository, root.age(), note, |uploads| {
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
        Ok::<UploadedPacks, PushError>(packer.finish(&operation)?)
    })??;
    Ok((made, purges))
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
    left: Omissions,
}

impl Walk {
    fn new(prepare: &Prepare, left: Omissions) -> Walk {
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
            left,
        }
    }

    fn reach(&self, detail: Detail) -> Reach {
        let filter = Filter {
            dropped: self.left.files(),
            ..Filter::default()
        };
        let (tips, hidden) = (self.tips.iter().copied(), self.hidden.iter().copied());
        // What a commit shares with its parents may have expired there.
        let back = self.left.back.values().map(|blob| Source::Blob(*blob));
        Reach::filtered(tips, hidden, detail, filter)
            .skipping_moved()
            .also(back)
    }

    /// Returns the commits, then trees and conflicts from the root down, then lists; and what the bucket
    /// is told of files that are left out.
    fn nodes(
        &self,
        with: &BucketAccess<'_>,
    ) -> Result<(Vec<(ObjectType, ObjectId)>, Purges), PushError> {
        let mut reach = self.reach(Detail::Metadata).counting();
        let (mut seen, mut lacking) = (HashSet::new(), Vec::new());
        let mut parts: [Vec<(ObjectType, ObjectId)>; 3] = Default::default();
        while let Some(found) = reach.next(with.store)? {
            with.job.check()?;
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
        let left_out = reach.left_out().keys().copied().collect();
        let purges = self.left.judge(with, &left_out, &self.hidden)?;
        Ok((parts.concat(), purges))
    }

    /// Uploads the chunks, except those that are `there` already and those that were purged.
    fn chunks(
        &self,
        with: &BucketAccess<'_>,
        there: &HashSet<[u8; KEY_BYTES]>,
        packer: &mut Packer<'_, '_>,
    ) -> Result<(), PushError> {
        let refused = with.store.refused();
        let mut reach = self.reach(Detail::All);
        let mut frames = FrameCollector::new(with.store, true);
        let mut lacking = Vec::new();
        let progress = &with.job.progress;
        let mut put = |out: OutgoingItem| -> Result<(), PushError> {
            with.job.check()?;
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
            if found.ty != ObjectType::Chunk {
                continue;
            }
            self.left.check(&found.id)?;
            if refused.contains(&found.id) {
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
