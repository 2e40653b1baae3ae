//! The commits of a bucket, without anything else: for its log.
//!
//! Commits lie together at the start of each pack's metadata, so a history is a few ranges. They are read
//! when somebody asks for a commit that those already read do not have: the newest packs first, and more
//! each time. So the newest commits cost little, and all of them few requests.
//!
//! A commit is found by its id, which is the hash of its bytes. So order, damage and malice in the bucket
//! cost time only, or end in an error. Nothing is stored.

use super::hands::{NotRead, Stop};
use super::stock::{SHORT, Stock};
use super::{Shelf, refs_of, slice_of};
use crate::bucket::files::FileFailure;
use crate::bucket::format::Name;
use crate::bucket::ranges::Range;
use crate::bucket::read::Cuts;
use crate::bucket::trouble::Trouble;
use crate::session::NetError;
use dmv_core::hash::ObjectId;
use dmv_core::object::{ObjectError, ObjectRead, ObjectType};
use dmv_core::store::CheckedRecord;
use std::collections::{HashMap, HashSet, VecDeque};
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// How many reads are made at first. Then twice as many each time.
const FIRST_READS: usize = 4;
/// How many bytes are read at first: most frames of commits are shorter. Then four times as many each time.
const FIRST_BYTES: u64 = 1 << 20;
/// The most bytes that are read before somebody asks again.
const MOST_BYTES: u64 = 64 << 20;
/// The most bytes of one read.
const READ_BYTES: u64 = 8 << 20;
/// A rest of this length is read along: another request would cost more.
const REST_BYTES: u64 = 64 << 10;
/// The most memory for frames. What is dropped is read again if somebody asks for it.
const HELD_BYTES: usize = 48 << 20;
/// How often the root is read again because files are gone that it names.
const TRIES: usize = 5;

/// The commits of a bucket, read as far as somebody asks for them.
pub struct BucketHistory<'r> {
    place: String,
    /// Commits that need not be read.
    here: Option<&'r dyn ObjectRead>,
    refs: Vec<(String, ObjectId)>,
    is_partial: bool,
    reader: Mutex<CommitReader>,
}

impl<'r> BucketHistory<'r> {
    /// Reads the root of a bucket. Commits that are stored `here` are not read.
    pub fn open(
        shelf: Shelf,
        here: Option<&'r dyn ObjectRead>,
    ) -> Result<BucketHistory<'r>, NetError> {
        let place = shelf.place.clone();
        let stock = shelf.open()?;
        let refs = refs_of(&stock)?.into_iter();
        Ok(BucketHistory {
            place,
            here,
            refs: refs
                .map(|(key, id)| (key, ObjectId::from_bytes(id)))
                .collect(),
            is_partial: slice_of(&stock)?.is_some_and(|slice| !slice.boundary.is_empty()),
            reader: Mutex::new(CommitReader::new(stock)),
        })
    }

    /// Returns the branches and tags of the bucket, with their keys in the view, sorted.
    pub fn refs(&self) -> &[(String, ObjectId)] {
        &self.refs
    }

    /// Returns the commits of the bucket whose ids begin with these lower-case digits. Reads all commits,
    /// unless it is a complete id.
    pub fn with_prefix(&self, hex: &str) -> Result<Vec<ObjectId>, ObjectError> {
        let mut reader = self.reader();
        if let Some(id) = ObjectId::from_hex(hex) {
            let found = reader.find(&id).map_err(unreadable)?;
            return Ok(found.map(|_| id).into_iter().collect());
        }
        while reader.read_on().map_err(unreadable)? {}
        let found = reader.places.keys();
        let found = found.filter(|id| id.to_string().starts_with(hex));
        Ok(found.copied().collect())
    }

    /// Returns an error in reading these commits as what is wrong with the bucket, or gives the error back.
    pub fn explain(&self, e: ObjectError) -> Result<NetError, ObjectError> {
        let trouble = match e {
            ObjectError::Store(e) => match e.downcast::<NetError>() {
                Ok(e) => return Ok(*e),
                Err(e) => return Err(ObjectError::Store(e)),
            },
            ObjectError::Damaged { .. } => Trouble::Damaged(e.to_string()),
            ObjectError::TooNew { .. } => Trouble::TooNew,
            e => return Err(e),
        };
        let place = self.place.clone();
        Ok(NetError::Bucket { place, trouble })
    }

    fn reader(&self) -> MutexGuard<'_, CommitReader> {
        self.reader.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ObjectRead for BucketHistory<'_> {
    /// Returns a commit. `None`: the bucket has only the newest part of its history, and this is an
    /// older one. Fails if a complete bucket lacks it.
    fn read(&self, ty: ObjectType, id: &ObjectId) -> Result<Option<Arc<[u8]>>, ObjectError> {
        if ty != ObjectType::Commit {
            return Ok(None);
        }
        // What cannot be read here is read there.
        if let Some(Ok(Some(bytes))) = self.here.map(|here| here.read(ty, id)) {
            return Ok(Some(bytes));
        }
        let found = self.reader().find(id).map_err(unreadable)?;
        if found.is_none() && !self.is_partial {
            let place = self.place.clone();
            let why = format!("no pack has commit {id}, to which others lead");
            let trouble = Trouble::Damaged(why);
            return Err(unreadable(NetError::Bucket { place, trouble }));
        }
        Ok(found)
    }
}

fn unreadable(e: NetError) -> ObjectError {
    ObjectError::Store(Box::new(e))
}

/// A frame of commits.
struct CommitFrame {
    range: Range,
    /// `None`: it was dropped.
    record: Option<CheckedRecord>,
}

/// The part of a pack that is being read.
struct OpenPart {
    file: Name,
    start: u64,
    /// Where the next read begins.
    next: u64,
    /// Where the last complete frame ends.
    passed: u64,
    cuts: Cuts,
}

struct CommitReader {
    stock: Stock,
    /// The commits of packs that were not read yet, the newest first.
    left: VecDeque<Range>,
    /// The packs whose commits are no longer in `left`.
    begun: HashSet<Name>,
    open: Option<OpenPart>,
    reads_at_once: usize,
    bytes_at_once: u64,
    frames: Vec<CommitFrame>,
    /// For each commit the number of its frame, and its number in it.
    places: HashMap<ObjectId, (u32, u16)>,
    /// The frames that are in memory, the oldest first, and their bytes.
    held: VecDeque<u32>,
    held_bytes: usize,
    most_held: usize,
}

impl CommitReader {
    fn new(stock: Stock) -> CommitReader {
        let mut reader = CommitReader {
            stock,
            left: VecDeque::new(),
            begun: HashSet::new(),
            open: None,
            reads_at_once: FIRST_READS,
            bytes_at_once: FIRST_BYTES,
            frames: Vec::new(),
            places: HashMap::new(),
            held: VecDeque::new(),
            held_bytes: 0,
            most_held: HELD_BYTES,
        };
        reader.queue();
        reader
    }

    /// Queues the commits of all packs that were not begun.
    fn queue(&mut self) {
        let rows = self.stock.meta.iter();
        let rows = rows.filter(|row| row.metadata < row.commits_end);
        let parts = rows.map(|row| Range {
            file: row.name,
            offset: row.metadata,
            len: row.commits_end - row.metadata,
        });
        self.left = parts
            .filter(|part| !self.begun.contains(&part.file))
            .collect();
    }

    /// Returns the bytes of a commit. `None`: no pack has it.
    fn find(&mut self, id: &ObjectId) -> Result<Option<Arc<[u8]>>, NetError> {
        loop {
            if let Some((frame, n)) = self.places.get(id).copied() {
                return self.commit(id, frame, n).map(Some);
            }
            if !self.read_on()? {
                break;
            }
        }
        match self.stock.damage.clone() {
            Some(damage) => Err(self.stock.failed(damage)),
            None => Ok(None),
        }
    }

    /// Returns a commit of a frame, which is read again if it was dropped.
    fn commit(&mut self, id: &ObjectId, frame: u32, n: u16) -> Result<Arc<[u8]>, NetError> {
        let CommitFrame { range, record } = &self.frames[frame as usize];
        if record.is_none() {
            let (range, mut again) = (*range, Vec::new());
            let repository = self.stock.repository();
            let done = self
                .stock
                .hands
                .read(repository, &[range], &mut |_, bytes| {
                    again =
                        std::mem::take(bytes.map_err(|why| Stop::Read(NotRead { range, why }))?);
                    Ok(())
                });
            self.stock.explain(done)?;
            let record = CheckedRecord::new(again).map_err(|why| self.damaged(&range.file, why))?;
            self.hold(frame, record);
        }
        let CommitFrame { range, record } = &self.frames[frame as usize];
        let n = usize::from(n);
        // What was read again may be something else.
        let is_it = |record: &&CheckedRecord| record.objects().get(n).is_some_and(|o| o.id == *id);
        let record = record.as_ref().filter(is_it);
        record
            .and_then(|record| record.bytes_of(n))
            .map(Arc::from)
            .ok_or_else(|| self.damaged(&range.file, "a frame has changed"))
    }

    fn damaged(&self, file: &Name, why: &str) -> NetError {
        let path = file.path(self.stock.repository());
        self.stock
            .failed(Trouble::Damaged(format!("{path}: {why}")))
    }

    fn hold(&mut self, frame: u32, record: CheckedRecord) {
        self.held_bytes += record.size();
        self.frames[frame as usize].record = Some(record);
        self.held.push_back(frame);
        while self.held_bytes > self.most_held && self.held.len() > 1 {
            let oldest = self.held.pop_front();
            let dropped = oldest.and_then(|oldest| self.frames[oldest as usize].record.take());
            self.held_bytes -= dropped.map_or(0, |record| record.size());
        }
    }

    /// Reads the next commits. Returns `false` if there are no more.
    fn read_on(&mut self) -> Result<bool, NetError> {
        let mut reads = self.next_reads();
        for _ in 0..TRIES {
            // A file may be gone because gc has removed it since. Then there is a newer root.
            if !reads.is_empty() || self.stock.gone.is_empty() || !self.stock.look_again()? {
                break;
            }
            self.queue();
            reads = self.next_reads();
        }
        if reads.is_empty() {
            return Ok(false);
        }
        let repository = self.stock.repository();
        let (mut hands, mut ended) = (self.stock.take_hands(), 0);
        let done = hands.read(repository, &reads, &mut |read, bytes| {
            match bytes {
                Ok(bytes) => self.take(read, bytes),
                Err(FileFailure::Missing) => self.stock.note_loss(&read.file),
                Err(FileFailure::Length) => self.stock.note_damage(&read.file, SHORT),
                Err(why) => return Err(Stop::Read(NotRead { range: *read, why })),
            }
            ended += 1;
            Ok(())
        });
        self.stock.give_back_hands(hands);
        if done.is_err() {
            // Whoever asks again gets them again.
            for read in reads[ended..].iter().rev() {
                self.left.push_front(*read);
            }
        }
        self.stock.explain(done)?;
        Ok(true)
    }

    /// Takes the next reads from what is left.
    fn next_reads(&mut self) -> Vec<Range> {
        let (mut reads, mut bytes) = (Vec::new(), 0);
        while reads.len() < self.reads_at_once
            && bytes < self.bytes_at_once
            && let Some(part) = self.left.front_mut()
        {
            let mut len = (self.bytes_at_once - bytes).min(READ_BYTES).min(part.len);
            if part.len - len <= REST_BYTES {
                len = part.len;
            }
            reads.push(Range { len, ..*part });
            bytes += len;
            (part.offset, part.len) = (part.offset + len, part.len - len);
            self.begun.insert(part.file);
            if part.len == 0 {
                self.left.pop_front();
            }
        }
        self.reads_at_once = self.reads_at_once.saturating_mul(2);
        self.bytes_at_once = (self.bytes_at_once * 4).min(MOST_BYTES);
        reads
    }

    /// Takes the frames that are complete with a read.
    fn take(&mut self, read: &Range, bytes: &[u8]) {
        let is_next = |open: &OpenPart| open.file == read.file && open.next == read.offset;
        let open = self.open.take().filter(is_next);
        let mut open = open.unwrap_or_else(|| OpenPart {
            file: read.file,
            start: read.offset,
            next: read.offset,
            passed: read.offset,
            cuts: Cuts::default(),
        });
        open.next = read.end();
        let (start, passed, mut damage) = (open.start, &mut open.passed, None);
        let each = &mut |at: u64, record: &[u8]| -> Result<(), Infallible> {
            let range = Range {
                file: read.file,
                offset: start + at,
                len: record.len() as u64,
            };
            *passed = range.end();
            match CheckedRecord::new(record.to_vec()) {
                Ok(record) => self.add(range, record),
                Err(why) => damage = damage.or(Some(why)),
            }
            Ok(())
        };
        let Ok(ended) = open.cuts.take(bytes, each);
        let row = self.stock.row(&read.file);
        let is_end = row.is_some_and(|row| row.commits_end == read.end());
        let is_cut =
            (is_end && open.passed < read.end()).then_some("a frame of commits is cut off");
        // Where no record can follow, later reads of this part find none either.
        if let Some(why) = damage.or(ended.err()).or(is_cut) {
            self.stock.note_damage(&read.file, why);
        }
        self.open = Some(open);
    }

    fn add(&mut self, range: Range, record: CheckedRecord) {
        let number = self.frames.len() as u32;
        let mut has_new = false;
        for (n, object) in record.objects().iter().enumerate() {
            if object.ty == ObjectType::Commit
                && !self.places.contains_key(&object.id)
                && let Ok(n) = u16::try_from(n)
            {
                self.places.insert(object.id, (number, n));
                has_new = true;
            }
        }
        if has_new {
            self.frames.push(CommitFrame {
                range,
                record: None,
            });
            self.hold(number, record);
        }
    }
}

#[cfg(test)]
mod tests;
