//! Storing content once more, so that chunks that resemble others are encoded with these as bases
//! (docs/format/pack.md, "Frames with bases").
//!
//! First everything is read and sampled. [`Pieces`] decides which chunks get bases. Then all other
//! chunks are stored, and after them the frames with bases. Each of these is decoded again before it is
//! stored, and only if it saves enough. Nothing here knows paths or commits, so files that were renamed
//! or moved resemble their former versions like any others.

use super::similarity::{Origin, Pieces, Stretch};
use super::{ListedObject, RepackRefusal, RepackResult, by_frame};
use crate::hash::ObjectId;
use crate::object::ObjectType;
use crate::path::{PathContext, PathError};
use crate::store::catalogue::SegmentRow;
use crate::store::error::StoreError;
use crate::store::frame::{EncodedFrame, FrameEncoder, FrameObject, decode_payload};
use crate::store::incoming_objects::IncomingObjects;
use crate::store::index_entry::Place;
use crate::store::layout::{PackKind, RecordHeader};
use crate::store::pack_store::Store;
use crate::store::random_id::PackId;
use crate::store::write::StoreWriter;
use crate::threads::{cores, start_in};
use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;

/// Most chunks, and most samples, that are compared with each other: some 100 MiB of memory.
const MOST_CHUNKS: usize = 512 << 10;
const MOST_SAMPLES: usize = 4 << 20;
/// A frame with bases must be smaller than the same without by this part of it, and by these bytes.
const SAVED_PART: usize = 8;
const SAVED_BYTES: usize = 512;
/// A frame with bases that has more than this part of its decoded bytes is not kept if new content comes: it
/// may have other versions that resemble it more than its bases do.
const WEAK_PART: u64 = 12;
/// Threads that encode. Each takes some 30 MiB.
const MOST_THREADS: usize = 3;
/// Decoded bytes from which a frame is copied as stored. Smaller ones come from small commits, and their
/// objects share frames afterwards.
const COPIED_FROM_BYTES: u32 = 32 << 10;
/// Decoded bytes of a frame of joined content. Files that were last changed at different times lie in
/// different frames, and a checkout reads each of these frames for one file.
const JOINED_BYTES: usize = 64 << 10;
/// Decoded bytes of a frame of bases. A stretch needs a few chunks from each of several frames, so a reader
/// decodes such frames again and again. Smaller ones have less that it does not need, and more of them fit in
/// its cache.
const BASE_FRAME_BYTES: usize = 256 << 10;
/// Decoded bytes from which a frame with bases in it is cut into such frames.
const CUT_FROM_BYTES: u32 = 384 << 10;

/// A frame of an old pack.
struct OldFrame {
    pack: PackId,
    offset: u64,
    group: usize,
    /// Whether it has bases and is copied as it is.
    is_kept: bool,
    /// Its length in bytes, stored and decoded.
    stored_len: u64,
    raw_len: u32,
}

/// A chunk that may get bases.
#[derive(Clone, Copy)]
struct Piece {
    id: ObjectId,
    frame: u32,
    len: u32,
    ordinal: u16,
    is_based: bool,
    /// Whether a frame needs it as a base.
    is_base: bool,
}

/// A part of the work in which all chunks are compared with each other.
#[derive(Default)]
struct Part {
    frames: Vec<OldFrame>,
    pieces: Vec<Piece>,
    samples: Pieces,
}

impl Store {
    /// [`Store::repack`] for data packs, with bases where these save space.
    pub(super) fn repack_content(
        &self,
        groups: &[Vec<SegmentRow>],
        moved: &mut dyn FnMut(u64) -> bool,
    ) -> Result<RepackResult, RepackRefusal> {
        let leaving: HashSet<PackId> = groups.iter().flatten().map(|row| row.pack).collect();
        let bases = self.bases_of_others(&leaving);
        let bases = bases.map_err(RepackRefusal::Failed)?;
        let writer = StoreWriter::fresh(self, leaving).with_bases(true);
        let writer = writer.keeping_plain(bases);
        let mut packs = groups.iter().flatten().map(|row| row.pack);
        let mut pass = Pass {
            store: self,
            has_new: packs.any(|pack| !pack.may_have_bases()),
            incoming: IncomingObjects::thorough(writer),
            groups: Vec::new(),
        };
        pass.run(groups, moved)?;
        let job = pass.incoming.finish().map_err(RepackRefusal::Failed)?;
        Ok(RepackResult {
            job,
            groups: pass.groups,
        })
    }

    /// Returns the packs that an earlier `repack` has written, and to which nothing was appended since.
    fn settled_packs(&self) -> HashSet<PackId> {
        let current = self.current();
        let packs = current.packs.iter();
        let settled = packs.filter(|row| row.id.may_have_bases() && row.poisoned);
        settled.map(|row| row.id).collect()
    }
}

struct Pass<'s> {
    store: &'s Store,
    /// Whether bases of some of the content were never looked for.
    has_new: bool,
    incoming: IncomingObjects<'s>,
    /// The group of each new segment.
    groups: Vec<usize>,
}

impl Pass<'_> {
    fn run(
        &mut self,
        groups: &[Vec<SegmentRow>],
        moved: &mut dyn FnMut(u64) -> bool,
    ) -> Result<(), RepackRefusal> {
        let mut part = Part::default();
        let mut number = 0;
        let settled = self.store.settled_packs();
        for (group, rows) in groups.iter().enumerate() {
            for row in rows {
                number += 1;
                let is_settled = settled.contains(&row.pack);
                let origin = Origin { number, is_settled };
                let stays = |e| RepackRefusal::Stays(row.pack, e);
                let listed = self.store.listed(row).map_err(stays)?;
                for frame in by_frame(&listed) {
                    let added = self.add_frame(&mut part, frame, row.pack, group, origin);
                    let len = added.map_err(stays)?;
                    go_on(moved, len / 2)?;
                    if part.pieces.len() >= MOST_CHUNKS || part.samples.samples() >= MOST_SAMPLES {
                        self.write(std::mem::take(&mut part), moved)?;
                    }
                }
            }
        }
        self.write(part, moved)
    }

    /// Reads and samples a frame. Returns its length in bytes.
    fn add_frame(
        &self,
        part: &mut Part,
        listed: &[ListedObject],
        pack: PackId,
        group: usize,
        origin: Origin,
    ) -> Result<u64, StoreError> {
        let (record, _) = self.store.checked_frame(PackKind::Data, pack, listed)?;
        // Its bases are in the same pack. If they end up elsewhere, its chunks are packed without.
        let stored_len = record.as_bytes().len() as u64;
        let is_weak = stored_len * WEAK_PART > u64::from(record.raw_len());
        let is_kept = !record.bases().is_empty()
            && listed.len() == record.objects().len()
            && !(self.has_new && is_weak);
        let frame = part.frames.len() as u32;
        part.frames.push(OldFrame {
            pack,
            offset: listed[0].offset,
            group,
            is_kept,
            stored_len,
            raw_len: record.raw_len(),
        });
        for object in listed.iter().filter(|_| !is_kept) {
            let bytes = object.bytes_in(&record).unwrap_or_default();
            part.samples.add(bytes, origin);
            part.pieces.push(Piece {
                id: object.id,
                frame,
                len: bytes.len() as u32,
                ordinal: object.ordinal,
                is_based: false,
                is_base: false,
            });
        }
        if !is_kept {
            // Chunks of small frames share frames afterwards.
            part.samples
                .end_frame(record.raw_len().max(JOINED_BYTES as u32));
        }
        Ok(stored_len)
    }

    /// Stores everything of a part: first what needs no base.
    fn write(
        &mut self,
        mut part: Part,
        moved: &mut dyn FnMut(u64) -> bool,
    ) -> Result<(), RepackRefusal> {
        if part.frames.is_empty() {
            return Ok(());
        }
        self.pin_bases(&mut part)?;
        let stretches = std::mem::take(&mut part.samples).stretches();
        for chunk in stretches.iter().flat_map(|stretch| &stretch.chunks) {
            part.pieces[*chunk as usize].is_based = true;
        }
        for base in stretches.iter().flat_map(|stretch| &stretch.bases) {
            part.pieces[*base as usize].is_base = true;
        }
        self.write_plain(&part, moved)?;
        // That of the youngest, so that none seems older than it is.
        let group_of = |stretch: &Stretch| {
            let pieces = stretch.chunks.iter().map(|n| part.pieces[*n as usize]);
            let groups = pieces.map(|piece| part.frames[piece.frame as usize].group);
            groups.max().unwrap_or(0)
        };
        let mut by_group: Vec<(usize, Stretch)> = stretches
            .into_iter()
            .map(|stretch| (group_of(&stretch), stretch))
            .collect();
        by_group.sort_by_key(|(group, stretch)| (*group, stretch.chunks[0]));
        let last = part.frames.iter().map(|frame| frame.group).max();
        for group in 0..=last.unwrap_or(0) {
            let kept = part.frames.iter().filter(|frame| frame.is_kept);
            for frame in kept.filter(|frame| frame.group == group) {
                let read = self.store.checked_at(frame.pack, frame.offset);
                let (record, _) = read.map_err(|e| RepackRefusal::Stays(frame.pack, e))?;
                let added = self.incoming.add_record(record);
                added.map_err(RepackRefusal::Failed)?;
                go_on(moved, frame.stored_len / 2)?;
            }
            let from = by_group.partition_point(|(of, _)| *of < group);
            let to = by_group.partition_point(|(of, _)| *of <= group);
            self.write_stretches(&part, &by_group[from..to], moved)?;
            self.end_segment(group)?;
        }
        Ok(())
    }

    /// Notes which chunks are bases of frames that are copied as they are, or that stay where they are.
    fn pin_bases(&self, part: &mut Part) -> Result<(), RepackRefusal> {
        let mut pinned: HashSet<ObjectId> = self.incoming.writer().keeps_plain().clone();
        for frame in part.frames.iter().filter(|frame| frame.is_kept) {
            let table = self.store.reader.table(frame.pack, frame.offset);
            let table = table.map_err(|e| RepackRefusal::Stays(frame.pack, e))?;
            pinned.extend(&table.base);
        }
        if !pinned.is_empty() {
            for piece in &mut part.pieces {
                piece.is_base = pinned.contains(&piece.id);
            }
            part.samples
                .pin(part.pieces.iter().map(|piece| piece.is_base));
        }
        Ok(())
    }

    /// Stores the chunks that get no base, in their order. Those that lie in large frames with bases get
    /// smaller frames.
    fn write_plain(
        &mut self,
        part: &Part,
        moved: &mut dyn FnMut(u64) -> bool,
    ) -> Result<(), RepackRefusal> {
        let mut pieces = part.pieces.iter().peekable();
        let mut group = 0;
        for (number, frame) in part.frames.iter().enumerate() {
            if frame.is_kept {
                continue;
            }
            if frame.group != group {
                self.end_segment(group)?;
                group = frame.group;
            }
            let (mut plain, mut has_base) = (Vec::new(), false);
            while let Some(piece) = pieces.next_if(|piece| piece.frame == number as u32) {
                plain.extend((!piece.is_based).then_some(piece.ordinal));
                has_base |= piece.is_base;
            }
            if !plain.is_empty() {
                let read = self.store.checked_at(frame.pack, frame.offset);
                let (record, prefix) = read.map_err(|e| RepackRefusal::Stays(frame.pack, e))?;
                let added = match frame.raw_len {
                    ..COPIED_FROM_BYTES => self.incoming.add_joined(&record, &plain, JOINED_BYTES),
                    CUT_FROM_BYTES.. if has_base => {
                        self.incoming.add_joined(&record, &plain, BASE_FRAME_BYTES)
                    }
                    _ => self.incoming.add_part(record, &plain, &prefix),
                };
                added.map_err(RepackRefusal::Failed)?;
            }
            go_on(moved, frame.stored_len / 2)?;
        }
        self.end_segment(group)
    }

    fn end_segment(&mut self, group: usize) -> Result<(), RepackRefusal> {
        let segments = self.incoming.end_segment(PackKind::Data);
        let segments = segments.map_err(RepackRefusal::Failed)?;
        self.groups.resize(segments.max(self.groups.len()), group);
        Ok(())
    }

    /// Encodes and stores stretches, on several threads.
    fn write_stretches(
        &mut self,
        part: &Part,
        stretches: &[(usize, Stretch)],
        moved: &mut dyn FnMut(u64) -> bool,
    ) -> Result<(), RepackRefusal> {
        let work = Work {
            store: self.store,
            writer: self.incoming.writer(),
            part,
            stretches,
            next: AtomicUsize::new(0),
            stops: AtomicBool::new(false),
        };
        let threads = cores();
        let threads = threads.min(MOST_THREADS).min(stretches.len());
        let (tell, told) = mpsc::sync_channel(threads.max(1));
        let mut failed = None;
        std::thread::scope(|scope| {
            let work = &work;
            for n in 0..threads {
                let tell = tell.clone();
                let started = start_in(scope, move || work.run(&tell));
                if let (Err(e), 0) = (started, n) {
                    let e = PathError::new("compress for", self.store.packs_dir(), e);
                    failed = Some(RepackRefusal::Failed(e.into()));
                }
            }
            drop(tell);
            for done in told {
                let done: Result<(), RepackRefusal> = done;
                if let Err(e) = done.and_then(|()| go_on(moved, 0)) {
                    failed.get_or_insert(e);
                    work.stops.store(true, Ordering::Relaxed);
                }
            }
        });
        failed.map_or(Ok(()), Err)
    }
}

/// Passes the bytes of a frame on. Fails if the work is to end.
fn go_on(moved: &mut dyn FnMut(u64) -> bool, bytes: u64) -> Result<(), RepackRefusal> {
    if moved(bytes) {
        Ok(())
    } else {
        Err(RepackRefusal::Stopped)
    }
}

/// Stretches that threads take one after the other.
struct Work<'w> {
    store: &'w Store,
    writer: &'w StoreWriter<'w>,
    part: &'w Part,
    stretches: &'w [(usize, Stretch)],
    next: AtomicUsize,
    stops: AtomicBool,
}

impl Work<'_> {
    fn run(&self, tell: &mpsc::SyncSender<Result<(), RepackRefusal>>) {
        let (mut plain, mut based) = (FrameEncoder::default(), FrameEncoder::default());
        while !self.stops.load(Ordering::Relaxed) {
            let next = self.next.fetch_add(1, Ordering::Relaxed);
            let Some((_, stretch)) = self.stretches.get(next) else {
                break;
            };
            let done = self.encode(stretch, &mut plain, &mut based);
            if tell.send(done).is_err() {
                break;
            }
        }
    }

    /// Stores a stretch with its bases, or without if that saves too little.
    fn encode(
        &self,
        stretch: &Stretch,
        plain: &mut FrameEncoder,
        based: &mut FrameEncoder,
    ) -> Result<(), RepackRefusal> {
        let (mut raw, mut objects) = (Vec::new(), Vec::new());
        for chunk in &stretch.chunks {
            let piece = self.part.pieces[*chunk as usize];
            let is_new = self.writer.claim(&piece.id);
            if is_new.map_err(RepackRefusal::Failed)? {
                self.read(piece, &mut raw)?;
                let (id, ty, len) = (piece.id, ObjectType::Chunk, piece.len);
                objects.push(FrameObject { id, ty, len });
            }
        }
        if objects.is_empty() {
            return Ok(());
        }
        let (mut prefix, mut bases) = (Vec::new(), Vec::new());
        for chunk in &stretch.bases {
            let piece = self.part.pieces[*chunk as usize];
            self.read(piece, &mut prefix)?;
            bases.push(piece.id);
        }
        let dir = self.store.packs_dir();
        let mut append = || -> Result<(), StoreError> {
            let without = plain.encode(&raw, &objects).context("compress for", dir)?;
            let with = based.encode_with_bases(&raw, &objects, &bases, &prefix);
            let with = with.context("compress for", dir)?;
            let is_good = saves(&with, &without) && is_decoded(&with, &prefix, &raw);
            if !is_good || !self.writer.append_frame(&with)? {
                self.writer.append_frame(&without)?;
            }
            Ok(())
        };
        append().map_err(RepackRefusal::Failed)
    }

    fn read(&self, piece: Piece, out: &mut Vec<u8>) -> Result<(), RepackRefusal> {
        let frame = &self.part.frames[piece.frame as usize];
        let place = Place {
            offset: frame.offset,
            ordinal: piece.ordinal,
            ty: ObjectType::Chunk,
        };
        let read = self
            .store
            .read_at_place(place.ty, &piece.id, frame.pack, place, out);
        read.map_err(|e| RepackRefusal::Stays(frame.pack, e))
    }
}

/// Returns whether a frame with bases is clearly smaller than the one without.
fn saves(with: &EncodedFrame<'_>, without: &EncodedFrame<'_>) -> bool {
    let len = |frame: &EncodedFrame<'_>| frame.head.len() + frame.payload.len();
    let (with, without) = (len(with), len(without));
    with + without / SAVED_PART <= without && with + SAVED_BYTES <= without
}

/// Returns whether a frame decodes to the bytes from which it was made.
fn is_decoded(frame: &EncodedFrame<'_>, prefix: &[u8], raw: &[u8]) -> bool {
    let header = RecordHeader::decode(&frame.head);
    let decoded = header.and_then(|header| decode_payload(&header, frame.payload, prefix));
    decoded.is_ok_and(|decoded| *decoded == *raw)
}
