//! Makes packs of the objects that a push uploads: docs/format/bucket.md, "Packs" and "Places".
//!
//! Chunks come first, so that the places of the nodes above can name their frames. What is in
//! memory grows with the number of objects, not with their bytes.

use super::upload::{PART_BYTES, PartSink, Uploads};
use crate::format::{FramePlace, MAX_PLACES, Name, Node, Places, Row, RowKind};
use crate::work::hints::{FrameOf, HintFiles};
use dmv_core::hash::ObjectId;
use dmv_core::object::ObjectType;
use dmv_core::store::{
    CheckedRecord, FrameAt, FrameBuilder, FrameEncoder, PackId, RepositoryId, SealedHeader,
    SealedKind, SealedWriter, SegmentTail,
};
use dmv_net::ops::{OBJECT_BYTES, PushForecast};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::io;

/// Length at which a pack is ended.
const PACK_BYTES: u64 = 1 << 30;
/// Number of objects at which a pack is ended. The most that fit in a segment are a few more.
const PACK_OBJECTS: usize = 7 << 16;
/// The greatest length of the chunks, and number of nodes, of a joint pack.
pub const JOINT_BYTES: u64 = if cfg!(test) { 8 << 16 } else { 8 << 20 };
const JOINT_NODES: usize = 8 << 10;
/// Bytes of a frame of trees and lists, and of one of small chunks, before compression. A reader of a part of
/// a repository reads whole frames: of a slice of 200 KiB in small files, frames of the usual 1 MiB would be
/// most of what is read.
const SMALL_FRAME_BYTES: usize = 128 << 10;
/// A frame of more chunks than this is one of small files.
const FEW_CHUNKS: usize = 4;
/// Children that are looked up together.
const LOOK_UPS: usize = 1 << 14;

/// Returns about how many requests upload the packs of a push.
pub fn writes_of(push: &PushForecast) -> u64 {
    let PushForecast { nodes, chunks, .. } = *push;
    if nodes == 0 {
        return 0;
    }
    let of_nodes = push.node_bytes + OBJECT_BYTES * nodes;
    let of_chunks = push.chunk_bytes + OBJECT_BYTES * chunks;
    if of_chunks <= JOINT_BYTES && nodes <= JOINT_NODES as u64 {
        return requests_for(of_nodes + of_chunks);
    }
    let packs = |bytes: u64, objects: u64| {
        let by_objects = objects.div_ceil(PACK_OBJECTS as u64);
        let packs = bytes.div_ceil(PACK_BYTES).max(by_objects);
        let whole = packs.saturating_sub(1);
        let each = bytes / packs.max(1);
        whole * requests_for(each) + requests_for(bytes - whole * each)
    };
    packs(of_nodes, nodes) + packs(of_chunks, chunks)
}

/// Returns how many requests upload a pack of this length.
fn requests_for(len: u64) -> u64 {
    let part = PART_BYTES as u64;
    match len {
        0 => 0,
        _ if len <= part => 1,
        // One begins, and one ends it.
        _ => 2 + len.div_ceil(part),
    }
}

/// What a push has uploaded.
#[derive(Debug, Default)]
pub struct UploadedPacks {
    /// The rows of new packs.
    pub rows: Vec<Row>,
    /// Where the chunks of packs lie that have no noted tail.
    pub hints: Vec<(ObjectId, FrameOf)>,
    /// Objects uploaded.
    pub objects: u64,
}

type Pack<'s, 'u> = SealedWriter<PartSink<'s, 'u>>;

/// Frames by number, in the order in which they became known.
#[derive(Default)]
struct Frames {
    packs: Vec<Name>,
    all: Vec<(u32, FrameAt)>,
    /// The numbers of packs, and of frames of other pushes.
    numbers: HashMap<Name, u32>,
    others: HashMap<FrameOf, u32>,
}

impl Frames {
    fn pack(&mut self, name: Name) -> u32 {
        *self.numbers.entry(name).or_insert_with(|| {
            self.packs.push(name);
            self.packs.len() as u32 - 1
        })
    }

    fn push(&mut self, pack: u32, at: FrameAt) -> u32 {
        self.all.push((pack, at));
        self.all.len() as u32 - 1
    }

    fn other(&mut self, frame: FrameOf) -> u32 {
        if let Some(number) = self.others.get(&frame) {
            return *number;
        }
        let pack = self.pack(frame.pack);
        let (offset, len) = (frame.offset, frame.len);
        let number = self.push(pack, FrameAt { offset, len });
        self.others.insert(frame, number);
        number
    }
}

/// A node of the open segment that names chunks.
struct Above {
    id: ObjectId,
    /// Frames with the chunks, by number.
    frames: Vec<u32>,
}

/// Makes the packs of one push.
pub struct Packer<'s, 'u> {
    uploads: &'s Uploads<'u>,
    repository: RepositoryId,
    encoder: FrameEncoder,
    data: Option<Pack<'s, 'u>>,
    loose: FrameBuilder,
    frames: Frames,
    /// The first bytes of the id of each chunk, and its frame. Sorted once chunks have ended.
    placed: Vec<(u64, u32)>,
    /// The chunks of the open data pack, for hints.
    open: Vec<(ObjectId, FrameAt)>,
    made: UploadedPacks,
}

impl<'s, 'u> Packer<'s, 'u> {
    /// Returns a packer for a repository in a bucket.
    pub fn new(uploads: &'s Uploads<'u>, repository: RepositoryId) -> Packer<'s, 'u> {
        Packer {
            uploads,
            repository,
            encoder: FrameEncoder::default(),
            data: None,
            loose: FrameBuilder::default(),
            frames: Frames::default(),
            placed: Vec::new(),
            open: Vec::new(),
            made: UploadedPacks::default(),
        }
    }

    fn begin(&self, kind: SealedKind) -> io::Result<Pack<'s, 'u>> {
        let sink = self.uploads.begin(kind == SealedKind::Data);
        let header = self.header(kind, sink.name());
        SealedWriter::begin(sink, &header)
    }

    fn header(&self, kind: SealedKind, name: Name) -> SealedHeader {
        SealedHeader {
            kind,
            repo: self.repository,
            id: PackId::from_bytes(name.0),
        }
    }

    /// Notes where the chunks of a pack lie that was uploaded earlier.
    pub fn knows(&mut self, name: Name, tail: &SegmentTail, frames_end: u64) {
        let pack = self.frames.pack(name);
        let mut at_offset: BTreeMap<u64, u32> = BTreeMap::new();
        for (_, frame) in frames_of(tail, frames_end) {
            at_offset
                .entry(frame.offset)
                .or_insert_with(|| self.frames.push(pack, frame));
        }
        for entry in &tail.entries {
            if let Some(frame) = at_offset.get(&entry.place.offset) {
                self.placed.push((start_of(&entry.id), *frame));
            }
        }
    }

    /// Adds a frame of chunks as it is stored; one of many small files in smaller frames.
    pub fn add_record(&mut self, record: &CheckedRecord) -> io::Result<()> {
        let objects = record.objects();
        if objects.len() > FEW_CHUNKS && record.raw_len() as usize > 2 * SMALL_FRAME_BYTES {
            for (n, object) in objects.iter().enumerate() {
                let bytes = record.bytes_of(n);
                let bytes = bytes.ok_or_else(|| io::Error::other("a frame lacks an object"))?;
                self.add_chunk(object.id, bytes)?;
            }
            return Ok(());
        }
        let mut pack = self.pack_for(record.objects().len())?;
        let at = pack.add_record(record)?;
        let ids = record.objects().iter().map(|object| object.id);
        self.note(&mut pack, at, ids);
        self.data = Some(pack);
        Ok(())
    }

    /// Adds a chunk.
    pub fn add_chunk(&mut self, id: ObjectId, bytes: &[u8]) -> io::Result<()> {
        if is_full_frame(&self.loose, bytes.len()) {
            self.flush()?;
        }
        self.loose.push(id, ObjectType::Chunk, bytes);
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.loose.objects.is_empty() {
            return Ok(());
        }
        let mut pack = self.pack_for(self.loose.objects.len())?;
        let (encoder, loose) = (&mut self.encoder, &self.loose);
        let at = pack.add_objects(encoder, &loose.raw, &loose.objects)?;
        let ids: Vec<ObjectId> = loose.objects.iter().map(|object| object.id).collect();
        self.note(&mut pack, at, ids.into_iter());
        self.loose.clear();
        self.data = Some(pack);
        Ok(())
    }

    /// Returns the open data pack, or a new one if `more` objects do not fit.
    fn pack_for(&mut self, more: usize) -> io::Result<Pack<'s, 'u>> {
        match self.data.take() {
            Some(pack) if is_full(&pack, more) => {
                self.end_data(pack)?;
                self.begin(SealedKind::Data)
            }
            Some(pack) => Ok(pack),
            None => self.begin(SealedKind::Data),
        }
    }

    fn note(&mut self, pack: &mut Pack<'s, 'u>, at: FrameAt, ids: impl Iterator<Item = ObjectId>) {
        let number = self.frames.pack(pack.sink().name());
        let frame = self.frames.push(number, at);
        for id in ids {
            self.placed.push((start_of(&id), frame));
            self.open.push((id, at));
            self.made.objects += 1;
        }
    }

    fn end_data(&mut self, mut pack: Pack<'s, 'u>) -> io::Result<()> {
        let (frames_end, tail) = pack.end_and_copy(None)?;
        let (sink, len) = pack.finish()?;
        let row = Row {
            generation: 1,
            name: sink.name(),
            kind: RowKind::Data,
            metadata: frames_end,
            commits_end: frames_end,
            tail: frames_end,
            len,
        };
        let open = std::mem::take(&mut self.open);
        if !sink.is_in_parts() {
            self.made.hints.extend(hints(row.name, open));
        }
        sink.end(row, &tail)?;
        self.made.rows.push(row);
        Ok(())
    }

    /// Ends the chunks. Returns the packer of the nodes above them, whose number is `count`.
    pub fn nodes<'p>(
        mut self,
        count: usize,
        known: &'p mut HintFiles,
    ) -> io::Result<NodePacker<'p, 's, 'u>> {
        self.flush()?;
        let is_small = |pack: &Pack<'_, '_>| pack.position() <= JOINT_BYTES;
        let joins = self.made.rows.is_empty() && (1..=JOINT_NODES).contains(&count);
        let pack = match self.data.take() {
            Some(mut pack) if joins && is_small(&pack) => {
                let header = self.header(SealedKind::Joint, pack.sink().name());
                pack.sink().replace_start(&header.encode());
                pack.end_segment(None)?;
                let open = std::mem::take(&mut self.open);
                let name = pack.sink().name();
                self.made.hints.extend(hints(name, open));
                Some((pack, RowKind::Joint))
            }
            Some(pack) => {
                self.end_data(pack)?;
                None
            }
            None => None,
        };
        self.placed.sort_unstable();
        Ok(NodePacker {
            open: pack.map(|(pack, kind)| Segment::new(pack, kind)),
            packer: self,
            known,
            frame: FrameBuilder::default(),
            is_in_commits: true,
            unknown: Vec::new(),
        })
    }
}

/// Whether a frame of small objects should be written before one of `next` bytes is added.
fn is_full_frame(frame: &FrameBuilder, next: usize) -> bool {
    frame.is_full_for(next)
        || !frame.objects.is_empty() && frame.raw.len() + next > SMALL_FRAME_BYTES
}

fn is_full(pack: &Pack<'_, '_>, more: usize) -> bool {
    pack.objects() + more > PACK_OBJECTS || pack.position() > PACK_BYTES
}

fn hints(name: Name, of: Vec<(ObjectId, FrameAt)>) -> impl Iterator<Item = (ObjectId, FrameOf)> {
    of.into_iter().map(move |(id, at)| {
        let frame = FrameOf {
            pack: name,
            offset: at.offset,
            len: at.len,
        };
        (id, frame)
    })
}

/// Returns the objects of a segment with their frames. The frames of a pack in a bucket follow each
/// other without gaps; the last one ends at `end`.
pub fn frames_of(tail: &SegmentTail, end: u64) -> impl Iterator<Item = (ObjectId, FrameAt)> {
    let mut offsets: Vec<u64> = tail.entries.iter().map(|e| e.place.offset).collect();
    offsets.sort_unstable();
    offsets.dedup();
    tail.entries.iter().map(move |entry| {
        let offset = entry.place.offset;
        let next = offsets.partition_point(|other| *other <= offset);
        let end = offsets.get(next).copied().unwrap_or(end);
        let len = (end - offset).min(u64::from(u32::MAX)) as u32;
        (entry.id, FrameAt { offset, len })
    })
}

fn start_of(id: &ObjectId) -> u64 {
    u64::from_le_bytes(id.as_bytes()[..8].try_into().expect("eight bytes"))
}

/// A segment of metadata that is being written.
struct Segment<'s, 'u> {
    pack: Pack<'s, 'u>,
    kind: RowKind,
    begin: u64,
    commits_end: u64,
    above: Vec<Above>,
}

impl<'s, 'u> Segment<'s, 'u> {
    fn new(pack: Pack<'s, 'u>, kind: RowKind) -> Segment<'s, 'u> {
        let begin = pack.position();
        Segment {
            pack,
            kind,
            begin,
            commits_end: begin,
            above: Vec::new(),
        }
    }
}

/// Packs commits, then trees, then lists.
pub struct NodePacker<'p, 's, 'u> {
    packer: Packer<'s, 'u>,
    known: &'p mut HintFiles,
    open: Option<Segment<'s, 'u>>,
    frame: FrameBuilder,
    is_in_commits: bool,
    /// Chunks that are not in this push, with the number of their node in [`Segment::above`].
    unknown: Vec<(ObjectId, usize)>,
}

impl NodePacker<'_, '_, '_> {
    /// Adds a node. Commits come first.
    pub fn add(&mut self, ty: ObjectType, id: ObjectId, bytes: &[u8]) -> io::Result<()> {
        if self.is_in_commits && ty != ObjectType::Commit {
            self.flush()?;
            self.is_in_commits = false;
        }
        let ends = if self.is_in_commits {
            self.frame.is_full_for(bytes.len())
        } else {
            is_full_frame(&self.frame, bytes.len())
        };
        if ends {
            self.flush()?;
        }
        let more = self.frame.objects.len() + 1;
        if self
            .open
            .as_ref()
            .is_some_and(|open| is_full(&open.pack, more))
        {
            self.flush()?;
            self.end_pack(None)?;
        }
        if self.open.is_none() {
            let pack = self.packer.begin(SealedKind::Meta)?;
            self.open = Some(Segment::new(pack, RowKind::Meta));
        }
        self.frame.push(id, ty, bytes);
        self.look_below(ty, id, bytes)?;
        if self.unknown.len() >= LOOK_UPS {
            self.look_up();
        }
        self.packer.made.objects += 1;
        Ok(())
    }

    /// Notes the frames of the chunks that a node names. Other nodes are found without places: their
    /// tables are small, and a history names each of them many times.
    fn look_below(&mut self, ty: ObjectType, id: ObjectId, bytes: &[u8]) -> io::Result<()> {
        let Some(open) = &mut self.open else {
            return Ok(());
        };
        let (number, unknown) = (open.above.len(), self.unknown.len());
        let mut frames = Vec::new();
        let links = ty.links(bytes).map_err(|e| io::Error::other(e.what))?;
        for (_, chunk) in links.into_iter().filter(|(ty, _)| *ty == ObjectType::Chunk) {
            let placed = &self.packer.placed;
            let start = start_of(&chunk);
            let at = placed.partition_point(|(other, _)| *other < start);
            match placed.get(at).filter(|(other, _)| *other == start) {
                Some((_, frame)) => frames.push(*frame),
                None => self.unknown.push((chunk, number)),
            }
        }
        if !frames.is_empty() || self.unknown.len() > unknown {
            frames.sort_unstable();
            frames.dedup();
            open.above.push(Above { id, frames });
        }
        Ok(())
    }

    /// Looks for chunks in what other pushes have uploaded.
    fn look_up(&mut self) {
        let unknown = std::mem::take(&mut self.unknown);
        let ids: Vec<ObjectId> = unknown.iter().map(|(id, _)| *id).collect();
        let found = self.known.find(&ids);
        let Some(open) = &mut self.open else {
            return;
        };
        for ((_, node), frame) in unknown.into_iter().zip(found) {
            // Some hints come from tables that others have written.
            if let Some(frame) = frame.filter(|frame| FramePlace::fits(frame.offset, frame.len)) {
                let number = self.packer.frames.other(frame);
                open.above[node].frames.push(number);
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        let Some(open) = &mut self.open else {
            return Ok(());
        };
        if self.frame.objects.is_empty() {
            return Ok(());
        }
        let (encoder, frame) = (&mut self.packer.encoder, &self.frame);
        open.pack.add_objects(encoder, &frame.raw, &frame.objects)?;
        if self.is_in_commits {
            open.commits_end = open.pack.position();
        }
        self.frame.clear();
        Ok(())
    }

    fn end_pack(&mut self, operation: Option<&[u8]>) -> io::Result<()> {
        self.look_up();
        let Some(mut open) = self.open.take() else {
            return Ok(());
        };
        let name = open.pack.sink().name();
        let table: Vec<ObjectId> = open.pack.table().map(|(id, ..)| id).collect();
        let places = places(&table, &mut open.above, &self.packer.frames);
        let places = places.encode().map_err(|e| io::Error::other(e.what))?;
        let frames_end = open.pack.end_segment(Some(&places))?;
        if open.kind == RowKind::Joint
            && let Some(operation) = operation
        {
            open.pack.add_operation(operation)?;
        }
        let (sink, len) = open.pack.finish()?;
        let row = Row {
            generation: 1,
            name,
            kind: open.kind,
            metadata: open.begin,
            commits_end: open.commits_end,
            tail: frames_end,
            len,
        };
        self.packer.made.rows.push(row);
        sink.end(row, &[])
    }

    /// Ends the last pack. A joint one gets the operation, for recovery.
    pub fn finish(mut self, operation: &[u8]) -> io::Result<UploadedPacks> {
        self.flush()?;
        self.end_pack(Some(operation))?;
        Ok(self.packer.made)
    }
}

/// Returns the places of the nodes of a table.
fn places(table: &[ObjectId], above: &mut [Above], frames: &Frames) -> Places {
    above.sort_unstable_by_key(|node| node.id);
    let mut nodes: Vec<(u32, Vec<u32>)> = Vec::new();
    let (mut ordinal, mut left) = (0, MAX_PLACES);
    for node in above {
        while table[ordinal] != node.id {
            ordinal += 1;
        }
        node.frames.sort_unstable();
        node.frames.dedup();
        let same = nodes
            .last()
            .is_some_and(|(last, _)| *last == ordinal as u32);
        if node.frames.is_empty() || node.frames.len() > left || same {
            continue;
        }
        left -= node.frames.len();
        nodes.push((ordinal as u32, std::mem::take(&mut node.frames)));
    }
    let used: HashSet<u32> = nodes
        .iter()
        .flat_map(|(_, of)| of)
        .map(|frame| frames.all[*frame as usize].0)
        .collect();
    let mut packs: Vec<(Name, u32)> = used
        .into_iter()
        .map(|pack| (frames.packs[pack as usize], pack))
        .collect();
    packs.sort_unstable();
    let numbers: HashMap<u32, u32> = packs
        .iter()
        .zip(0..)
        .map(|((_, old), n)| (*old, n))
        .collect();
    let place = |frame: &u32| {
        let (pack, at) = frames.all[*frame as usize];
        FramePlace {
            pack: numbers[&pack],
            offset: at.offset,
            len: at.len,
        }
    };
    let node = |(ordinal, of): (u32, Vec<u32>)| {
        let mut frames: Vec<FramePlace> = of.iter().map(place).collect();
        frames.sort_unstable();
        frames.dedup();
        // Only wrong hints overlap.
        frames.dedup_by(|next, before| {
            next.pack == before.pack && next.offset < before.offset + u64::from(before.len)
        });
        Node { ordinal, frames }
    };
    Places {
        nodes: nodes.into_iter().map(node).collect(),
        packs: packs.into_iter().map(|(name, _)| name).collect(),
    }
}
