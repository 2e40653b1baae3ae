//! Sending: frames are sent as stored. If little of a frame is wanted, its objects are sent one by
//! one. So are those of a frame with bases, unless the receiver takes such frames.

use super::cache::RecordKey;
use super::checked_record::CheckedRecord;
use super::error::StoreError;
use super::frame::FrameTable;
use super::id_search::head_of;
use super::index_entry::Place;
use super::layout::{Encoding, PAYLOAD_CHECK_BYTES};
use super::pack_store::Store;
use super::random_id::PackId;
use crate::hash::ObjectId;
use crate::memory::{Budget, LookUps};
use crate::object::ObjectType;
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::Arc;

/// Most objects that wait until the rest of their frames is wanted, too.
const MAX_WAITING: usize = 128 << 10;
/// Approximate memory of a waiting object, and of each frame in addition.
const OBJECT_BYTES: usize = 80;
const FRAME_BYTES: usize = 640;
/// Bytes that may wait without a share of the budget, and the step in which more is taken from it.
const OWN_BYTES: usize = 256 << 10;
const STEP_BYTES: usize = 64 << 10;

/// Most chunks that are remembered as sent, so that frames based on them can follow.
const MOST_SENT: usize = 1 << 20;

/// A record or object to send.
#[derive(Debug)]
pub enum OutgoingItem {
    /// A complete record of a pack, as it is stored.
    Record {
        /// Its bytes.
        record: Vec<u8>,
        /// Number of its objects.
        objects: u16,
        /// Length in bytes of its objects together.
        raw_len: u32,
    },
    /// A complete record that was decoded and hashed.
    Checked(CheckedRecord),
    /// One object.
    Object(ObjectType, Vec<u8>),
}

struct PartialFrame {
    /// Number of objects in the frame.
    count: u16,
    /// Its bases. They are sent first, as far as they are wanted.
    bases: Vec<ObjectId>,
    /// The wanted objects, by their number in the frame.
    wanted: BTreeMap<u16, (ObjectType, ObjectId)>,
}

/// Which frames with bases a receiver gets as they are stored. Of others it gets the chunks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GivenBases {
    /// None.
    #[default]
    None,
    /// Those whose bases it got in this transfer.
    Sent,
    /// All: it has the bases, or asks for the chunks.
    All,
}

/// Collects wanted objects until frames are complete.
///
/// All senders of a process share one memory budget for this. When it is used up, the objects that
/// have waited longest are sent without the rest of their frames.
///
/// A frame is sent as a whole only if all its objects are wanted. So no receiver gets an object it
/// should not have because that object shares a frame with a wanted one.
pub struct FrameCollector<'s> {
    store: &'s Store,
    /// Whether records are decoded and hashed before they are sent.
    checks: bool,
    given: GivenBases,
    /// The chunks that were sent without bases, as far as they may be bases: the first bytes of their ids.
    sent: HashSet<u64>,
    /// Objects that are to be looked up together.
    added: Vec<(ObjectType, ObjectId)>,
    look_ups: LookUps,
    frames: HashMap<RecordKey, PartialFrame>,
    order: VecDeque<RecordKey>,
    objects: usize,
    budget: Budget,
    /// Bytes that it has taken from the budget.
    taken: usize,
}

impl<'s> FrameCollector<'s> {
    /// Returns a collector of objects of `store`.
    ///
    /// With `checks`, it decodes and hashes records, for a receiver in this process, which does not
    /// repeat that. Any other receiver must check them itself.
    pub fn new(store: &'s Store, checks: bool) -> FrameCollector<'s> {
        FrameCollector::within(store, checks, Budget::for_waiting())
    }

    fn within(store: &'s Store, checks: bool, budget: Budget) -> FrameCollector<'s> {
        FrameCollector {
            store,
            checks,
            given: GivenBases::None,
            sent: HashSet::new(),
            added: Vec::new(),
            look_ups: LookUps::default(),
            frames: HashMap::new(),
            order: VecDeque::new(),
            objects: 0,
            budget,
            taken: 0,
        }
    }

    /// Sets which frames with bases the receiver gets from now on.
    pub fn give_bases(&mut self, given: GivenBases) {
        self.given = given;
        if given != GivenBases::Sent {
            self.sent = HashSet::new();
        }
    }

    /// Adds an object, and passes to `out` what is ready. Ignores objects that are not stored here.
    ///
    /// Objects are looked up together, so what is ready may come with a later one.
    pub fn add<E: From<StoreError>>(
        &mut self,
        ty: ObjectType,
        id: ObjectId,
        out: &mut dyn FnMut(OutgoingItem) -> Result<(), E>,
    ) -> Result<(), E> {
        self.added.push((ty, id));
        if self.added.len() >= self.look_ups.size() {
            self.look_up(out)
        } else {
            Ok(())
        }
    }

    /// Looks up the objects that were added, and adds them to their frames.
    fn look_up<E: From<StoreError>>(
        &mut self,
        out: &mut dyn FnMut(OutgoingItem) -> Result<(), E>,
    ) -> Result<(), E> {
        self.look_ups.grow();
        let added = std::mem::take(&mut self.added);
        let places = self.store.places_of(&added)?;
        for ((ty, id), found) in added.into_iter().zip(places) {
            if let Some((pack, place)) = found.filter(|(_, place)| place.ty == ty) {
                self.add_at(pack, place, id, out)?;
            }
        }
        Ok(())
    }

    fn add_at<E: From<StoreError>>(
        &mut self,
        pack: PackId,
        place: Place,
        id: ObjectId,
        out: &mut dyn FnMut(OutgoingItem) -> Result<(), E>,
    ) -> Result<(), E> {
        let offset = place.offset;
        let key = RecordKey { pack, offset };
        if !self.frames.contains_key(&key) {
            let frame = self.partial_frame(key);
            self.frames.insert(key, frame);
            self.order.push_back(key);
        }
        let frame = self.frames.get_mut(&key).expect("it was inserted above");
        if frame.wanted.insert(place.ordinal, (place.ty, id)).is_none() {
            self.objects += 1;
        }
        // A frame with bases waits until they had a chance to be sent.
        if frame.wanted.len() == usize::from(frame.count) && frame.bases.is_empty() {
            self.release(key, out)?;
        }
        // Frames that were sent completely wait no more.
        while self
            .order
            .front()
            .is_some_and(|oldest| !self.frames.contains_key(oldest))
        {
            self.order.pop_front();
        }
        while self.objects > MAX_WAITING || !self.has_room() {
            let Some(oldest) = self.order.pop_front() else {
                break;
            };
            self.release(oldest, out)?;
        }
        Ok(())
    }

    /// Returns a frame of which nothing is wanted yet.
    fn partial_frame(&self, key: RecordKey) -> PartialFrame {
        let table = self.store.reader.table(key.pack, key.offset).ok();
        let bases = table.as_ref().map(|table| table.base.clone());
        let bases = bases.unwrap_or_default();
        let is_given = bases.is_empty() || self.given != GivenBases::None;
        PartialFrame {
            // Otherwise this frame is never complete: its objects are sent one by one, or its damage is
            // reported then.
            count: table
                .filter(|_| is_given)
                .map_or(u16::MAX, |table| table.header.count),
            bases,
            wanted: BTreeMap::new(),
        }
    }

    /// Returns whether the budget has room for the waiting objects.
    fn has_room(&mut self) -> bool {
        let bytes = self.objects * OBJECT_BYTES + self.frames.len() * FRAME_BYTES;
        let more = bytes.saturating_sub(OWN_BYTES + self.taken);
        let more = more.next_multiple_of(STEP_BYTES);
        let has_room = more == 0 || self.budget.take(more);
        if has_room {
            self.taken += more;
        }
        has_room
    }

    fn give_back(&mut self) {
        self.budget.give_back(std::mem::take(&mut self.taken));
    }

    /// Passes everything that still waits to `out`: first the frames without bases, each kind in the order of
    /// the packs.
    pub fn flush<E: From<StoreError>>(
        &mut self,
        out: &mut dyn FnMut(OutgoingItem) -> Result<(), E>,
    ) -> Result<(), E> {
        self.look_up(out)?;
        self.look_ups.shrink();
        let keys = self.frames.iter();
        let mut keys: Vec<_> = keys
            .map(|(key, frame)| (!frame.bases.is_empty(), *key))
            .collect();
        keys.sort_unstable();
        self.order.clear();
        self.give_back();
        keys.into_iter()
            .try_for_each(|(_, key)| self.release(key, out))
    }

    fn release<E: From<StoreError>>(
        &mut self,
        key: RecordKey,
        out: &mut dyn FnMut(OutgoingItem) -> Result<(), E>,
    ) -> Result<(), E> {
        let Some(frame) = self.frames.remove(&key) else {
            return Ok(());
        };
        self.objects -= frame.wanted.len();
        self.note_sent(key.pack, &frame);
        let are_there = |bases: &[ObjectId]| {
            self.given != GivenBases::Sent
                || bases
                    .iter()
                    .all(|id| self.sent.contains(&head_of(id.as_bytes())))
        };
        if frame.wanted.len() == usize::from(frame.count)
            && are_there(&frame.bases)
            && let Some(whole) = self.store.intact_record(key, &frame.wanted, self.checks)
        {
            return out(whole);
        }
        for (ty, id) in frame.wanted.into_values() {
            let mut bytes = Vec::new();
            // If it was removed meanwhile, it is absent: the receiver will request it and get that
            // answer.
            if self.store.read_into(ty, &id, &mut bytes)? {
                out(OutgoingItem::Object(ty, bytes))?;
            }
        }
        Ok(())
    }
}

impl FrameCollector<'_> {
    /// Notes the chunks of a frame that may be bases of later ones. A base is in the pack of the frames on it.
    fn note_sent(&mut self, pack: PackId, frame: &PartialFrame) {
        if self.given == GivenBases::Sent && pack.may_have_bases() && frame.bases.is_empty() {
            let chunks = frame.wanted.values();
            let chunks = chunks.filter(|(ty, _)| *ty == ObjectType::Chunk);
            let room = MOST_SENT.saturating_sub(self.sent.len());
            self.sent
                .extend(chunks.take(room).map(|(_, id)| head_of(id.as_bytes())));
        }
    }
}

impl Drop for FrameCollector<'_> {
    fn drop(&mut self) {
        self.give_back();
    }
}

impl Store {
    /// Returns the record of a frame if it is intact; otherwise its objects are read one by one.
    fn intact_record(
        &self,
        key: RecordKey,
        wanted: &BTreeMap<u16, (ObjectType, ObjectId)>,
        checks: bool,
    ) -> Option<OutgoingItem> {
        let RecordKey { pack, offset } = key;
        let table = self.reader.table(pack, offset).ok()?;
        let record = self.reader.record(key, &table.header).ok()?;
        if checks {
            let bases = self.base_bytes(&table, pack, offset).ok()?;
            let record = CheckedRecord::with_prefix(record, &bases).ok()?;
            let found = record.objects().iter().map(|object| (object.ty, object.id));
            return found
                .eq(wanted.values().copied())
                .then_some(OutgoingItem::Checked(record));
        }
        is_intact(&table, &record, wanted).then_some(OutgoingItem::Record {
            record,
            objects: table.header.count,
            raw_len: table.header.raw_len,
        })
    }
}

/// Returns whether a record is intact: by the hash of each object in a raw frame, by the payload's
/// check in a compressed one. The receiver hashes all objects.
fn is_intact(
    table: &Arc<FrameTable>,
    record: &[u8],
    wanted: &BTreeMap<u16, (ObjectType, ObjectId)>,
) -> bool {
    let payload_at = table.header.payload_at() as usize;
    let Some((body, sum)) = record.split_at_checked(record.len() - PAYLOAD_CHECK_BYTES) else {
        return false;
    };
    let payload = &body[payload_at..];
    if table.header.encoding != Encoding::Raw {
        return table.header.payload_check(payload) == sum;
    }
    wanted.iter().all(|(n, (ty, id))| {
        table
            .objects
            .get(usize::from(*n))
            .is_some_and(|(found, range)| {
                found == ty && ty.id_of(&payload[range.start as usize..range.end as usize]) == *id
            })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::refs::Timestamp;
    use crate::repo::{OperationRequest, Repo};
    use crate::store::CheckedObject;

    fn made(dir: &std::path::Path) -> Repo {
        let time = Timestamp {
            seconds: 0,
            nanos: 0,
            tz_minutes: 0,
        };
        let (who, command) = ("test".to_owned(), "test".to_owned());
        let request = OperationRequest { time, who, command };
        Repo::init(dir, "main", true, request).expect("a repository")
    }

    /// Returns what is sent for `ids`: the numbers of records and of single objects.
    fn sent(mut gather: FrameCollector<'_>, ids: &[ObjectId]) -> (usize, usize) {
        let (mut records, mut objects) = (0, 0);
        let mut out = |out| {
            match out {
                OutgoingItem::Object(..) => objects += 1,
                _ => records += 1,
            }
            Ok::<_, StoreError>(())
        };
        for id in ids {
            let added = gather.add(ObjectType::Chunk, *id, &mut out);
            added.expect("a sound store");
        }
        gather.flush(&mut out).expect("a sound store");
        (records, objects)
    }

    #[test]
    fn objects_wait_for_their_frame_as_long_as_there_is_room_for_them() {
        const BYTES: usize = 1 << 20;
        let dir = tempfile::tempdir().expect("a directory");
        let repo = made(dir.path());
        let mut incoming = repo.incoming().expect("a writer");
        let all = 2 * OWN_BYTES / OBJECT_BYTES;
        let ids: Vec<ObjectId> = (0..all)
            .map(|n| {
                let chunk = CheckedObject::new(ObjectType::Chunk, n.to_le_bytes().to_vec());
                let chunk = chunk.expect("a chunk");
                incoming.add_object(&chunk).expect("it is written");
                chunk.id()
            })
            .collect();
        repo.keep_incoming(incoming).expect("it is kept");
        let budget = Budget::of(BYTES);
        let sent_in = |budget: &Budget| {
            sent(
                FrameCollector::within(repo.store(), false, budget.clone()),
                &ids,
            )
        };
        assert_eq!(sent_in(&budget), (1, 0));
        assert_eq!(budget.left(), BYTES, "nobody waits any more");
        assert_eq!(sent_in(&Budget::none()), (0, all));
    }
}
