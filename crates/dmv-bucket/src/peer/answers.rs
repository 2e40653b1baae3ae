//! Answers to requests by id: which frames to read for the wanted objects, and what of these is wanted.
//!
//! Nodes are found in tables. Chunks are found below the node that names them, in the frames that its
//! places name; the newest first if the other side has the older ones. Only if a chunk is in none of
//! them, the tables of chunks are read.

use super::catalog::{Catalog, SHORT, SMALL_BYTES};
use super::range_reader::{NotRead, Stop};
use crate::files::FileFailure;
use crate::format::{Name, Row};
use crate::frames::{Cut, Cuts};
use crate::ranges::{Range, Terms, plan};
use crate::work::hints::GatheredHints;
use dmv_core::hash::ObjectId;
use dmv_core::object::ObjectType;
use dmv_core::store::{CheckedRecord, FrameObject, PACK_HEADER_BYTES};
use dmv_net::session::NetError;
use dmv_net::sync::Clue;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// How much of the commits of a pack is read along with one of them, before and after it.
const COMMITS_BYTES: u64 = 4 << 20;
/// How often the root is read again because files are gone that it names.
const TRIES: usize = 5;

/// Wanted objects that were not found yet.
pub type WantedObjects = HashMap<ObjectId, ObjectType>;

/// Takes a record in which at least one object is wanted.
pub type Take<'t> = &'t mut dyn FnMut(CheckedRecord, &mut WantedObjects) -> Result<(), NetError>;

/// Where wanted chunks are named: the node above each, and the length of the chunk.
pub type Clues = HashMap<ObjectId, Clue>;

/// Where to look for objects that are still wanted. Each step is tried after the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// In the newest frames below the node that names a chunk; nodes by the tables.
    Newest,
    /// In all frames below the node.
    Below,
    /// Wherever the tables of chunks say.
    Tables,
}

impl Catalog {
    /// Finds the wanted objects, and passes records with them to `take`, which removes from `wanted`
    /// what it has taken. What stays in `wanted` is not in the bucket.
    ///
    /// `since`: the other side has what roots up to this generation listed.
    pub fn give(
        &mut self,
        wanted: &mut WantedObjects,
        clues: &Clues,
        since: u64,
        take: Take<'_>,
    ) -> Result<(), NetError> {
        for _ in 0..TRIES {
            let gone = self.gone.len();
            self.give_once(wanted, clues, since, take)?;
            // A file may be gone because gc has removed it since. Then there is a newer root.
            let is_lost = !wanted.is_empty() && self.gone.len() > gone;
            if !is_lost || !self.look_again()? {
                break;
            }
        }
        Ok(())
    }

    /// Returns what would be read for wanted chunks, as far as places name them, and the bytes of those that
    /// none names.
    pub fn foresee(
        &mut self,
        wanted: &WantedObjects,
        clues: &Clues,
    ) -> Result<(Vec<Range>, u64), NetError> {
        let frames = self.frames(Step::Newest, wanted, clues, 0, &mut Vec::new())?;
        let above = self.nodes_above(wanted, clues)?;
        let unnamed = above.iter();
        let unnamed = unnamed.filter(|(node, _)| self.nodes.below(node).is_empty());
        let bytes = unnamed.map(|(_, bytes)| bytes).sum();
        let wide = frames.iter().map(|frame| self.widened(frame)).collect();
        Ok((plan(wide, Terms::default()), bytes))
    }

    fn give_once(
        &mut self,
        wanted: &mut WantedObjects,
        clues: &Clues,
        since: u64,
        take: Take<'_>,
    ) -> Result<(), NetError> {
        let mut read = HashSet::new();
        for step in [Step::Newest, Step::Below, Step::Tables] {
            if wanted.is_empty() {
                return Ok(());
            }
            let mut listed = Vec::new();
            let mut frames = self.frames(step, wanted, clues, since, &mut listed)?;
            frames.retain(|frame| read.insert(*frame));
            self.read_frames(frames, wanted, take)?;
            for (id, file) in listed {
                if wanted.contains_key(&id) {
                    self.note_damage(&file, "a frame does not have what the table says");
                }
            }
        }
        if wanted.values().any(|ty| *ty == ObjectType::Chunk) {
            self.read_joint(wanted, take)?;
        }
        Ok(())
    }

    /// Returns the frames to read in a step. Adds to `listed` the objects that a table lists, with
    /// their packs.
    fn frames(
        &mut self,
        step: Step,
        wanted: &WantedObjects,
        clues: &Clues,
        since: u64,
        listed: &mut Vec<(ObjectId, Name)>,
    ) -> Result<Vec<Range>, NetError> {
        let mut frames = BTreeSet::new();
        match step {
            Step::Newest => {
                let nodes = wanted.iter().filter(|(_, ty)| **ty != ObjectType::Chunk);
                let nodes: Vec<_> = nodes.map(|(id, ty)| (*ty, *id)).collect();
                self.read_nodes_until(&|tables| {
                    nodes.iter().all(|(ty, id)| tables.find(*ty, id).is_some())
                })?;
                for (ty, id) in nodes {
                    if let Some(frame) = self.nodes.find(ty, &id) {
                        listed.push((id, frame.file));
                        frames.insert(frame);
                    }
                }
                for (node, missing) in self.nodes_above(wanted, clues)? {
                    let below = self.nodes.below(&node);
                    frames.extend(self.nearest(below, missing, since));
                }
            }
            Step::Below => {
                for (node, _) in self.nodes_above(wanted, clues)? {
                    frames.extend(self.nodes.below(&node));
                }
            }
            Step::Tables => {
                let chunks = wanted.iter().filter(|(_, ty)| **ty == ObjectType::Chunk);
                let chunks: Vec<ObjectId> = chunks.map(|(id, _)| *id).collect();
                if chunks.is_empty() {
                    return Ok(Vec::new());
                }
                let packs = self.data()?;
                self.find_chunks(chunks, &packs, &mut |id, frame| {
                    listed.push((id, frame.file));
                    frames.insert(frame);
                })?;
            }
        }
        Ok(frames.into_iter().collect())
    }

    /// Returns the nodes that name wanted chunks, each with the bytes of these. Reads the tables that
    /// have them.
    fn nodes_above(
        &mut self,
        wanted: &WantedObjects,
        clues: &Clues,
    ) -> Result<HashMap<ObjectId, u64>, NetError> {
        let mut above: HashMap<ObjectId, u64> = HashMap::new();
        for clue in wanted.keys().filter_map(|id| clues.get(id)) {
            *above.entry(clue.above).or_default() += clue.len;
        }
        self.read_nodes_until(&|tables| above.keys().all(|id| tables.has_object(id)))?;
        Ok(above)
    }

    /// Returns those of the frames that most probably have what is missing: all, or, if the other
    /// side has the older part of the node, those of newer packs.
    fn nearest(&self, frames: Vec<Range>, missing: u64, since: u64) -> Vec<Range> {
        let all: u64 = frames.iter().map(|frame| frame.len).sum();
        let is_new = |frame: &&Range| {
            let row = self.row(&frame.file);
            row.is_some_and(|row| row.generation > since)
        };
        // If most of it is missing, so is the older part.
        if since == 0 || missing.saturating_mul(2) > all {
            return frames;
        }
        let new: Vec<Range> = frames.iter().filter(is_new).copied().collect();
        if new.is_empty() { frames } else { new }
    }

    /// Reads frames, and passes on those with wanted objects.
    pub fn read_frames(
        &mut self,
        mut frames: Vec<Range>,
        wanted: &mut WantedObjects,
        take: Take<'_>,
    ) -> Result<(), NetError> {
        frames.sort_unstable();
        let mut left = Vec::new();
        let mut damage: Vec<(Name, &'static str)> = Vec::new();
        for frame in frames {
            match self.held.get(&frame) {
                Some(bytes) => {
                    if let Err(why) = give_record(&frame, bytes, wanted, &mut self.hints, take)? {
                        damage.push((frame.file, why));
                    }
                }
                None if self.gone.contains(&frame.file) => {}
                None => left.push(frame),
            }
        }
        let wide = left.iter().map(|frame| self.widened(frame)).collect();
        let reads = plan(wide, Terms::default());
        let mut cut = Cut::new(left);
        let (repository, mut missing) = (self.repository(), BTreeMap::new());
        let (hands, held, rows) = (&mut self.hands, &mut self.held, &self.rows_by_name);
        let hints = &mut self.hints;
        let done = hands.read(repository, &reads, &mut |read, bytes| {
            let bytes = match bytes {
                Ok(bytes) => bytes,
                // A wrong place names what does not exist.
                Err(why @ (FileFailure::Missing | FileFailure::Length)) => {
                    missing.insert(read.file, why);
                    return Ok(());
                }
                Err(why) => return Err(Stop::Read(NotRead { range: *read, why })),
            };
            if rows.get(&read.file).is_some_and(|row| is_held(row, read)) {
                held.add(*read, bytes.clone());
            }
            cut.take(read, bytes, &mut |frame, bytes| -> Result<(), Stop> {
                if let Err(why) = give_record(frame, bytes, wanted, hints, take)? {
                    damage.push((frame.file, why));
                }
                Ok(())
            })
        });
        self.explain(done)?;
        for (file, why) in damage {
            self.note_damage(&file, why);
        }
        for (file, why) in missing {
            match self.lists(&file)? {
                true if why == FileFailure::Missing => self.note_loss(&file),
                true => self.note_damage(&file, SHORT),
                false => {}
            }
        }
        Ok(())
    }

    /// Returns what to read for a frame: a small pack as a whole, and commits together.
    fn widened(&self, frame: &Range) -> Range {
        let Some(row) = self.row(&frame.file) else {
            return *frame;
        };
        let (mut from, mut to) = (frame.offset, frame.offset + frame.len);
        if row.len <= SMALL_BYTES {
            (from, to) = (0, row.len);
        } else if from >= row.metadata && to <= row.commits_end {
            from = from.saturating_sub(COMMITS_BYTES).max(row.metadata);
            to = (to + COMMITS_BYTES).min(row.commits_end);
        }
        Range {
            file: frame.file,
            offset: from,
            len: to - from,
        }
    }

    /// Looks for chunks in all packs that have both chunks and metadata.
    fn read_joint(&mut self, wanted: &mut WantedObjects, take: Take<'_>) -> Result<(), NetError> {
        let joint = self
            .meta
            .iter()
            .filter(|row| row.metadata > PACK_HEADER_BYTES);
        let parts = joint.map(|row| Range {
            file: row.name,
            offset: PACK_HEADER_BYTES,
            len: row.metadata - PACK_HEADER_BYTES,
        });
        let parts: Vec<Range> = parts
            .filter(|part| !self.gone.contains(&part.file))
            .collect();
        let mut missing = BTreeSet::new();
        let reads = plan(parts, Terms::default());
        let (mut open, mut cuts) = (None, Cuts::default());
        let (repository, hints) = (self.repository(), &mut self.hints);
        let done = self.hands.read(repository, &reads, &mut |read, bytes| {
            let Ok(bytes) = bytes else {
                missing.insert(read.file);
                return Ok(());
            };
            if wanted.is_empty() {
                return Ok(());
            }
            if open != Some(read.file) {
                (open, cuts) = (Some(read.file), Cuts::default());
            }
            // After the frames, the index ends the series. What is damaged is as good as absent.
            let ended = cuts.take(bytes, &mut |at, record| -> Result<(), Stop> {
                let frame = Range {
                    file: read.file,
                    offset: PACK_HEADER_BYTES + at,
                    len: record.len() as u64,
                };
                let _ = give_record(&frame, record, wanted, hints, take)?;
                Ok(())
            })?;
            if ended.is_err() {
                cuts = Cuts::default();
            }
            Ok(())
        });
        self.explain(done)?;
        self.gone.extend(missing);
        Ok(())
    }
}

/// Returns whether what was read of a pack is probably wanted again: it is small, or metadata.
fn is_held(row: &Row, read: &Range) -> bool {
    row.len <= SMALL_BYTES || read.offset >= row.metadata
}

/// Decodes and hashes the record of a frame, and passes it on if something of it is wanted. Returns
/// what is wrong with it.
fn give_record(
    frame: &Range,
    bytes: &[u8],
    wanted: &mut WantedObjects,
    hints: &mut GatheredHints,
    take: Take<'_>,
) -> Result<Result<(), &'static str>, NetError> {
    let record = CheckedRecord::len_of(bytes).and_then(|len| {
        let len = usize::try_from(len).map_err(|_| "record is too long")?;
        let bytes = bytes.get(..len).ok_or("record ends too soon")?;
        CheckedRecord::new(bytes.to_vec())
    });
    let record = match record {
        Ok(record) => record,
        Err(why) => return Ok(Err(why)),
    };
    let is_wanted = |object: &FrameObject| wanted.get(&object.id) == Some(&object.ty);
    if record.objects().iter().any(is_wanted) {
        hints.add(frame.file, frame.offset, &record);
        take(record, wanted)?;
    }
    Ok(Ok(()))
}
