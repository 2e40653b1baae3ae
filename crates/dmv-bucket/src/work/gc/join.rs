//! Joining packs of a bucket: small ones, and those of which little is needed.
//!
//! What is needed of them goes into new packs, and the root that lists these lets the old ones go
//! (docs/format/bucket.md, "gc"). Frames of chunks are copied as they are if all of them is needed.
//! What is in memory is bounded by [`MAX_NODE_BYTES`] and the packs that are read at once.

use super::{Joins, NeededIds, Use, damaged, index_at, start_of};
use crate::format::{Age, Name, Row, RowKind};
use crate::machines::{Mark, Stamp, intended};
use crate::ranges::{Range, Terms, plan};
use crate::work::access::BucketAccess;
use crate::work::client::BucketClient;
use crate::work::hints::{self, FrameOf, HintFiles};
use crate::work::parallel::parallel;
use crate::work::push::{
    JOINT_BYTES, Packed, Packer, PushError, UploadLog, frames_of, with_uploads,
};
use dmv_core::hash::ObjectId;
use dmv_core::job::Job;
use dmv_core::object::ObjectType;
use dmv_core::store::{CheckedRecord, FrameAt, SegmentTail};
use std::collections::{BTreeMap, BTreeSet, HashSet};

/// A pack of at most this length is small.
const SMALL_BYTES: u64 = 4 << 20;
/// Fewer small packs are not worth the requests.
const MIN_SMALL: usize = 8;
/// The most packs that one run joins, and the most bytes that it reads.
const MAX_PACKS: usize = 2048;
const MAX_BYTES: u64 = 2 << 30;
/// The most bytes of commits, trees and lists that one run joins. They are in memory.
const MAX_NODE_BYTES: u64 = 96 << 20;
/// Reads that are under way at once, and the most bytes of each.
const AT_ONCE: usize = 8;
const READ_BYTES: u64 = 4 << 20;

/// What was joined, or would be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JoinReport {
    /// The packs that were joined.
    pub packs: u64,
    /// Their bytes.
    pub bytes: u64,
    /// The packs that have what was needed of them.
    pub new_packs: u64,
    /// The bytes of those, or about how many there would be.
    pub new_bytes: u64,
    /// The bytes to be read for that.
    pub read_bytes: u64,
}

/// Packs that were made of others, and that no root lists yet.
pub struct NewPacks {
    /// The rows of the new packs.
    pub rows: Vec<Row>,
    /// The packs whose content they have.
    pub sources: BTreeSet<Name>,
    /// What to report.
    pub report: JoinReport,
    /// The age of the root that was read before the upload began.
    age: Age,
    /// The purged chunks, of which none is in the new packs.
    without: BTreeSet<ObjectId>,
    /// The objects of the sources that were not needed, by the first bytes of their ids.
    left_out: Vec<u64>,
    hints: Vec<(ObjectId, FrameOf)>,
}

impl NewPacks {
    /// Returns whether one of the new packs has this name.
    pub fn has(&self, name: &Name) -> bool {
        self.rows.iter().any(|row| row.name == *name)
    }

    /// Returns whether the new packs have all that another root needs of the sources. Nothing may have
    /// been freed or purged since the upload began: neither the sources nor the new packs, which are stray
    /// files for others.
    pub fn counts(&self, mark: &Mark, needed: &NeededIds) -> bool {
        let mut left_out = self.left_out.iter();
        mark.root.age() == self.age
            && needed.pieces.is_subset(&self.without)
            && !left_out.any(|start| needed.has_start(*start))
    }

    /// Notes where the objects lie now, for the places of later pushes.
    pub fn keep_hints(self, with: &BucketAccess<'_>) {
        if let Some(dir) = with.dir {
            // What cannot be noted is looked for by the readers.
            let _ = HintFiles::open(&dir.join(hints::DIR)).add(self.hints);
        }
    }
}

/// Returns the packs that are worth joining, the oldest first.
pub fn sources(rows: &[Row], uses: &BTreeMap<Name, Use>) -> Vec<Row> {
    let used = |row: &Row| uses.get(&row.name).map_or(0, |used| used.bytes);
    let alive = rows.iter().filter(|row| used(row) > 0);
    let is_small = |row: &Row| row.len <= SMALL_BYTES;
    let few = alive.clone().filter(|row| is_small(row)).count() < MIN_SMALL;
    let alive = alive.filter_map(|row| {
        if is_small(row) {
            (!few).then_some((*row, row.len))
        } else {
            (used(row) < row.len / 2).then(|| (*row, used(row)))
        }
    });
    as_many_as_fit(alive.collect())
}

/// Returns packs of which less than the half is needed, the oldest first. All uses have to be exact.
pub fn wasted(rows: &[Row], uses: &BTreeMap<Name, Use>) -> Vec<Row> {
    let used = |row: &Row| uses.get(&row.name).copied().unwrap_or_default();
    // Tables do not count: a new pack has them as well.
    let is_wasted = |used: Use| used.bytes > 0 && used.all_bytes() < used.frame_bytes / 2;
    let wasted = rows.iter().filter(|row| is_wasted(used(row)));
    as_many_as_fit(wasted.map(|row| (*row, used(row).all_bytes())).collect())
}

/// Returns the oldest of some packs, as many as one run joins. Each is given with the bytes that it takes.
fn as_many_as_fit(mut packs: Vec<(Row, u64)>) -> Vec<Row> {
    packs.sort_unstable();
    let (mut chosen, mut bytes, mut node_bytes) = (Vec::new(), 0, 0);
    for (row, taken) in packs {
        bytes += taken;
        node_bytes += if row.kind.has_metadata() {
            row.len - row.metadata
        } else {
            0
        };
        if chosen.len() >= MAX_PACKS || bytes > MAX_BYTES || node_bytes > MAX_NODE_BYTES {
            break;
        }
        chosen.push(row);
    }
    chosen
}

/// Returns packs that have purged chunks beside what is needed, as many as one run makes anew.
pub fn held(rows: &[Row], uses: &BTreeMap<Name, Use>) -> Vec<Row> {
    let (mut chosen, mut bytes, mut node_bytes): (Vec<Row>, u64, u64) = (Vec::new(), 0, 0);
    for row in rows {
        let used = uses.get(&row.name).copied().unwrap_or_default();
        if used.pieces == 0 || used.bytes == 0 {
            continue;
        }
        bytes += row.len;
        node_bytes += row.len - row.metadata;
        let is_full = bytes > MAX_BYTES || node_bytes > MAX_NODE_BYTES;
        if !chosen.is_empty() && (is_full || chosen.len() >= MAX_PACKS) {
            break;
        }
        chosen.push(*row);
    }
    chosen.sort_unstable();
    chosen
}

/// Returns what joining these packs would do.
pub fn foresee(sources: &[Row], uses: &BTreeMap<Name, Use>, joins: Joins) -> JoinReport {
    let mut joined = JoinReport::default();
    for row in sources {
        joined.packs += 1;
        joined.bytes += row.len;
        let used = uses.get(&row.name).map_or(0, Use::all_bytes);
        let is_small = row.len <= SMALL_BYTES;
        joined.read_bytes += if is_small { row.len } else { used };
        joined.new_bytes += match (joins, is_small) {
            // How much of a small one is needed was not counted.
            (Joins::Small, true) => row.len,
            _ => used,
        };
    }
    // About: content and directories lie apart if they are large.
    joined.new_packs = match joined.new_bytes {
        0 => 0,
        n if n <= JOINT_BYTES => 1,
        n => 1 + n.div_ceil(1 << 30),
    };
    joined
}

/// A frame of a source with needed objects.
struct Frame {
    at: FrameAt,
    needed: Vec<ObjectId>,
}

/// Uploads packs with what is needed of the `sources`. `None`: there are none. Other packs stay, apart from
/// those that are `dead`.
pub fn join(
    with: &BucketAccess<'_>,
    client: &BucketClient<'_>,
    mark: &Mark,
    sources: &[Row],
    dead: &BTreeSet<Name>,
    needed: &NeededIds,
    stamp: &Stamp,
) -> Result<Option<NewPacks>, PushError> {
    let Some(generation) = sources.iter().map(|row| row.generation).max() else {
        return Ok(None);
    };
    let root = &mark.root;
    let mut known = match with.dir {
        Some(dir) => HintFiles::open(&dir.join(hints::DIR)),
        None => HintFiles::none(),
    };
    let names: BTreeSet<Name> = sources.iter().map(|row| row.name).collect();
    let stay = mark.rows.iter().map(|row| row.name);
    let stays = |name: &Name| !names.contains(name) && !dead.contains(name);
    known.only_in(stay.filter(stays).collect());
    let mut left_out = Vec::new();
    let mut report = JoinReport {
        packs: sources.len() as u64,
        bytes: sources.iter().map(|row| row.len).sum(),
        ..JoinReport::default()
    };
    let operation = intended(root, stamp, &[]).encode();
    let note = UploadLog::none();
    let packed = with_uploads(with.files, root.repository, root.age(), &note, |uploads| {
        let mut reading = SourceReader {
            with,
            client,
            mark,
            needed,
            taken: HashSet::new(),
            nodes: Default::default(),
            left_out: &mut left_out,
            read_bytes: 0,
        };
        let mut packer = Packer::new(uploads, root.repository);
        for some in sources.chunks(AT_ONCE) {
            reading.take(some, &mut packer)?;
        }
        report.read_bytes = reading.read_bytes;
        let nodes = reading.nodes;
        let mut packer = packer.nodes(nodes.iter().map(Vec::len).sum(), &mut known)?;
        for (ty, id, bytes) in nodes.iter().flatten() {
            packer.add(*ty, *id, bytes)?;
        }
        Ok::<Packed, PushError>(packer.finish(&operation)?)
    })??;
    let mut rows = packed.rows;
    for row in &mut rows {
        // Who has fetched the old packs has all of it.
        row.generation = generation;
        report.new_packs += 1;
        report.new_bytes += row.len;
    }
    Ok(Some(NewPacks {
        rows,
        sources: names,
        report,
        age: root.age(),
        without: needed.pieces.clone(),
        left_out,
        hints: packed.hints,
    }))
}

/// What is read of the sources.
struct SourceReader<'a, 'f> {
    with: &'a BucketAccess<'f>,
    client: &'a BucketClient<'f>,
    mark: &'a Mark,
    needed: &'a NeededIds,
    taken: HashSet<ObjectId>,
    /// Commits, then trees and conflicts, then lists.
    nodes: [Vec<(ObjectType, ObjectId, Vec<u8>)>; 3],
    left_out: &'a mut Vec<u64>,
    read_bytes: u64,
}

impl SourceReader<'_, '_> {
    /// Takes what is needed of some packs.
    fn take(&mut self, rows: &[Row], packer: &mut Packer<'_, '_>) -> Result<(), PushError> {
        let whole = |row: &Row| row.len <= SMALL_BYTES;
        // Small packs as a whole; of others, what is after the last frame.
        let ranges = rows.iter().map(|row| Range {
            file: row.name,
            offset: if whole(row) { 0 } else { row.tail },
            len: if whole(row) {
                row.len
            } else {
                row.len - row.tail
            },
        });
        let found = self.read(&ranges.collect::<Vec<_>>())?;
        for (row, bytes) in rows.iter().zip(found) {
            if whole(row) {
                for frame in self.frames_of_small(row, &bytes)? {
                    let record = bytes.get(frame.at.offset as usize..);
                    self.take_frame(row, &frame, record.unwrap_or_default(), packer)?;
                }
                continue;
            }
            let tail = SegmentTail::decode(&bytes, row.tail).map_err(|why| damaged(row, why))?;
            let frames = self.frames(&tail, row.tail);
            if row.kind == RowKind::Joint {
                // A push makes joint packs of at most twice the length that counts as small.
                self.take_chunks_of_joint(row, packer)?;
            }
            self.take_frames(row, &frames, packer)?;
        }
        Ok(())
    }

    fn take_chunks_of_joint(
        &mut self,
        row: &Row,
        packer: &mut Packer<'_, '_>,
    ) -> Result<(), PushError> {
        let range = Range {
            file: row.name,
            offset: 0,
            len: row.metadata,
        };
        let bytes = self.read(&[range])?.pop().unwrap_or_default();
        let index = index_at(&bytes).and_then(|at| Some((at, bytes.get(at as usize..)?)));
        let (at, index) = index.ok_or_else(|| damaged(row, "no trailer"))?;
        let tail = SegmentTail::decode(index, at).map_err(|why| damaged(row, why))?;
        for frame in self.frames(&tail, at) {
            let record = bytes.get(frame.at.offset as usize..);
            self.take_frame(row, &frame, record.unwrap_or_default(), packer)?;
        }
        Ok(())
    }

    fn take_frames(
        &mut self,
        row: &Row,
        frames: &[Frame],
        packer: &mut Packer<'_, '_>,
    ) -> Result<(), PushError> {
        let range = |frame: &Frame| Range {
            file: row.name,
            offset: frame.at.offset,
            len: u64::from(frame.at.len),
        };
        let terms = Terms {
            gap: 1 << 16,
            most: READ_BYTES,
        };
        // No frame is cut in two: each is wanted by itself.
        for some in frames.chunks(AT_ONCE * 4) {
            let reads = plan(some.iter().map(range).collect(), terms);
            let found = self.read(&reads)?;
            for frame in some {
                let bytes = piece(&reads, &found, &range(frame));
                self.take_frame(row, frame, &bytes, packer)?;
            }
        }
        Ok(())
    }

    fn frames_of_small(&mut self, row: &Row, bytes: &[u8]) -> Result<Vec<Frame>, PushError> {
        let segment = |from: u64, to: u64| bytes.get(from as usize..to as usize);
        let tail = segment(row.tail, row.len).unwrap_or_default();
        let tail = SegmentTail::decode(tail, row.tail).map_err(|why| damaged(row, why))?;
        let mut frames = Vec::new();
        if row.kind == RowKind::Joint {
            let chunks = segment(0, row.metadata).unwrap_or_default();
            let at = index_at(chunks).ok_or_else(|| damaged(row, "no trailer"))?;
            let index = segment(at, row.metadata).unwrap_or_default();
            let tail = SegmentTail::decode(index, at).map_err(|why| damaged(row, why))?;
            frames.extend(self.frames(&tail, at));
        }
        frames.extend(self.frames(&tail, row.tail));
        Ok(frames)
    }

    /// Returns the frames with needed objects. Notes the objects that are not.
    fn frames(&mut self, tail: &SegmentTail, end: u64) -> Vec<Frame> {
        let mut frames: BTreeMap<FrameAt, Vec<ObjectId>> = BTreeMap::new();
        for (id, at) in frames_of(tail, end) {
            if self.needed.has(&id) {
                frames.entry(at).or_default().push(id)
            } else {
                self.left_out.push(start_of(&id))
            }
        }
        let frames = frames.into_iter();
        frames.map(|(at, needed)| Frame { at, needed }).collect()
    }

    /// Takes the needed objects of a frame. `bytes` begin with its record.
    fn take_frame(
        &mut self,
        row: &Row,
        frame: &Frame,
        bytes: &[u8],
        packer: &mut Packer<'_, '_>,
    ) -> Result<(), PushError> {
        self.with.job.check()?;
        let record = whole_record(bytes).map_err(|why| damaged(row, why))?;
        let found: HashSet<ObjectId> = record.objects().iter().map(|object| object.id).collect();
        if !frame.needed.iter().all(|id| found.contains(id)) {
            return Err(damaged(row, "a frame does not have what the table says").into());
        }
        let needed: HashSet<&ObjectId> = frame.needed.iter().collect();
        let is_new = |id: &ObjectId| needed.contains(id) && !self.taken.contains(id);
        let new: Vec<bool> = record.objects().iter().map(|o| is_new(&o.id)).collect();
        let is_chunks = record.objects().iter().all(|o| o.ty == ObjectType::Chunk);
        let all_new = new.iter().all(|new| *new) && found.len() == new.len();
        if is_chunks && all_new {
            packer.add_record(&record)?;
            self.taken.extend(found);
            return Ok(());
        }
        for (n, object) in record.objects().iter().enumerate() {
            if !new[n] || !self.taken.insert(object.id) {
                continue;
            }
            let bytes = record.bytes_of(n).unwrap_or_default();
            let part = match object.ty {
                ObjectType::Chunk => {
                    packer.add_chunk(object.id, bytes)?;
                    continue;
                }
                ObjectType::Commit => 0,
                ObjectType::List => 2,
                _ => 1,
            };
            self.nodes[part].push((object.ty, object.id, bytes.to_vec()));
        }
        Ok(())
    }

    /// Reads ranges, several at once.
    fn read(&mut self, ranges: &[Range]) -> Result<Vec<Vec<u8>>, PushError> {
        let (client, repository) = (self.client, self.mark.root.repository);
        let read = |range: &Range| {
            let path = range.file.path(repository);
            client.repeat(|files| files.read_range(&path, range.offset..range.offset + range.len))
        };
        let found = parallel(AT_ONCE, ranges, read)?;
        for bytes in &found {
            self.read_bytes += bytes.len() as u64;
            Job::add(&self.with.job.progress.bytes, bytes.len() as u64);
        }
        Ok(found)
    }
}

/// Returns the bytes of a range out of the reads that cover it.
fn piece(reads: &[Range], found: &[Vec<u8>], wanted: &Range) -> Vec<u8> {
    let mut out = Vec::new();
    for (read, bytes) in reads.iter().zip(found) {
        let from = (wanted.offset + out.len() as u64).max(read.offset);
        let to = (wanted.offset + wanted.len).min(read.offset + read.len);
        if from == wanted.offset + out.len() as u64 && from < to {
            let part = bytes.get((from - read.offset) as usize..(to - read.offset) as usize);
            out.extend_from_slice(part.unwrap_or_default());
        }
    }
    out
}

/// Decodes and hashes the record at the beginning of some bytes.
fn whole_record(bytes: &[u8]) -> Result<CheckedRecord, &'static str> {
    const HEAD_BYTES: usize = 32;
    if bytes.len() < HEAD_BYTES {
        return Err("a frame ends too soon");
    }
    let len = CheckedRecord::len_of(bytes)? as usize;
    CheckedRecord::new(bytes.get(..len).ok_or("a frame ends too soon")?.to_vec())
}
