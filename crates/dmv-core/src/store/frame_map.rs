//! A number for every place of some packs, so that one bit per place says something about it.
//!
//! A map takes 12 bytes for each frame, whatever the number of objects. It is read from the
//! segments' own tables, so it also has the places that merged indexes hide.

use super::catalogue::{PackRow, SegmentRow};
use super::error::StoreError;
use super::index_entry::Place;
use super::layout::ENTRY_BYTES;
use super::random_id::PackId;
use super::store_files::StoreFiles;
use std::collections::{HashMap, HashSet};
use std::ops::Range;

/// The frames of some packs, with a number for each place.
pub struct FrameMap {
    packs: Vec<MappedPack>,
    by_id: HashMap<PackId, usize>,
    /// Packs that are not mapped, because a table of theirs is damaged, with the reason.
    unmapped: Vec<(PackId, String)>,
    gone: HashSet<PackId>,
    places: usize,
}

/// The frames of one pack.
pub(super) struct MappedPack {
    pub row: PackRow,
    pub segments: Vec<MappedSegment>,
    /// The number of the pack's first place.
    first: usize,
    /// The offset of each frame, in order.
    offsets: Vec<u64>,
    /// For each frame, its first place, counted from the pack's first one. At the end the number of
    /// all places.
    firsts: Vec<u32>,
}

/// A segment, and where its frames stand in the list of the pack's frames.
pub(super) struct MappedSegment {
    /// The segment. Segments that overlap count as one: a writer that continues a pack takes over the
    /// frames of a killed one, whose own segment may be listed nevertheless.
    pub rows: Vec<SegmentRow>,
    /// Offset after its last record.
    records_end: u64,
    frames: Range<usize>,
    pub is_young: bool,
}

/// A frame of a map.
#[derive(Clone, Debug)]
pub(super) struct MappedFrame {
    pub pack: usize,
    pub offset: u64,
    /// The numbers of its places.
    pub places: Range<usize>,
}

impl StoreFiles {
    /// Maps the packs `rows`, whose segments are `segments`. `is_young` notes a property of
    /// segments. Returns `None` if `goes_on` ends the work.
    ///
    /// A pack with a damaged table is left out. The segments' own tables are checked completely.
    pub fn frame_map(
        &self,
        rows: &[PackRow],
        segments: &[SegmentRow],
        is_young: &dyn Fn(&SegmentRow) -> bool,
        goes_on: &dyn Fn() -> bool,
    ) -> Result<Option<FrameMap>, StoreError> {
        let mut by_pack: HashMap<PackId, Vec<SegmentRow>> = HashMap::new();
        for segment in segments {
            by_pack.entry(segment.pack).or_default().push(*segment);
        }
        let mut map = FrameMap {
            packs: Vec::new(),
            by_id: HashMap::new(),
            unmapped: Vec::new(),
            gone: HashSet::new(),
            places: 0,
        };
        for row in rows {
            let mut segments = by_pack.remove(&row.id).unwrap_or_default();
            segments.sort_by_key(|segment| segment.start);
            let mut pack = MappedPack::new(*row, map.places);
            let mut why_not = None;
            for rows in overlapping(segments) {
                if !goes_on() {
                    return Ok(None);
                }
                let is_young = rows.iter().any(is_young);
                if let Err(e) = self.add_segment(&mut pack, rows, is_young) {
                    why_not = Some(e.to_string());
                    break;
                }
            }
            match why_not {
                Some(why) => map.unmapped.push((row.id, why)),
                None => {
                    pack.shrink();
                    map.places += pack.len();
                    map.by_id.insert(row.id, map.packs.len());
                    map.packs.push(pack);
                }
            }
        }
        Ok(Some(map))
    }

    fn add_segment(
        &self,
        pack: &mut MappedPack,
        rows: Vec<SegmentRow>,
        is_young: bool,
    ) -> Result<(), StoreError> {
        let mut records_end = 0;
        let mut places: Vec<(u64, u16)> = Vec::new();
        for row in &rows {
            let end = self.add_places(row, &mut places)?;
            records_end = end.max(records_end);
        }
        places.sort_unstable();
        let from = pack.offsets.len();
        for frame in places.chunk_by(|a, b| a.0 == b.0) {
            let (offset, last) = frame[frame.len() - 1];
            pack.push(offset, u32::from(last) + 1);
        }
        pack.segments.push(MappedSegment {
            rows,
            records_end,
            frames: from..pack.offsets.len(),
            is_young,
        });
        Ok(())
    }

    /// Adds the places that the table of a segment names. Returns the offset after its last record.
    fn add_places(
        &self,
        row: &SegmentRow,
        places: &mut Vec<(u64, u16)>,
    ) -> Result<u64, StoreError> {
        let table = self.checked_table_of(row)?;
        let records_end = table.records_end().unwrap_or(row.end);
        places.reserve(table.entries() as usize);
        let mut is_outside = false;
        table.walk(&mut |entry, _| {
            let Place {
                offset, ordinal, ..
            } = entry.place;
            is_outside |= !(row.start..records_end).contains(&offset);
            places.push((offset, ordinal));
            Ok(())
        })?;
        if is_outside {
            let why = "index names a place outside its segment";
            return Err(self.damaged(row.pack, row.start, why));
        }
        Ok(records_end)
    }
}

/// Puts those segments of a pack together that overlap. They are sorted by their start.
fn overlapping(segments: Vec<SegmentRow>) -> Vec<Vec<SegmentRow>> {
    let mut out: Vec<Vec<SegmentRow>> = Vec::new();
    let mut end = 0;
    for segment in segments {
        match out.last_mut() {
            Some(last) if segment.start < end => last.push(segment),
            _ => out.push(vec![segment]),
        }
        end = end.max(segment.end);
    }
    out
}

impl MappedPack {
    fn new(row: PackRow, first: usize) -> MappedPack {
        MappedPack {
            row,
            segments: Vec::new(),
            first,
            offsets: Vec::new(),
            firsts: vec![0],
        }
    }

    fn push(&mut self, offset: u64, places: u32) {
        let next = self.firsts[self.firsts.len() - 1] + places;
        self.offsets.push(offset);
        self.firsts.push(next);
    }

    fn shrink(&mut self) {
        self.offsets.shrink_to_fit();
        self.firsts.shrink_to_fit();
    }

    fn len(&self) -> usize {
        self.firsts[self.firsts.len() - 1] as usize
    }

    /// Returns the numbers of the places of some frames.
    fn places_of(&self, frames: Range<usize>) -> Range<usize> {
        let [from, to] = [frames.start, frames.end].map(|at| self.firsts[at] as usize);
        self.first + from..self.first + to
    }
}

impl MappedSegment {
    /// Returns the numbers of the segment's places.
    pub fn places(&self, pack: &MappedPack) -> Range<usize> {
        pack.places_of(self.frames.clone())
    }
}

impl FrameMap {
    /// Returns how many numbers there are. Not every number has an object.
    pub fn places(&self) -> usize {
        self.places
    }

    /// Returns the packs that could not be mapped, with the reasons.
    pub fn unmapped(&self) -> &[(PackId, String)] {
        &self.unmapped
    }

    pub(super) fn packs(&self) -> &[MappedPack] {
        &self.packs
    }

    pub(super) fn pack(&self, id: PackId) -> Option<(usize, &MappedPack)> {
        let at = *self.by_id.get(&id)?;
        Some((at, &self.packs[at]))
    }

    /// Forgets a pack whose file is gone. The numbers of all other places stay.
    pub(super) fn forget(&mut self, id: PackId) {
        if let Some(at) = self.by_id.remove(&id) {
            self.packs[at].segments.clear();
            self.gone.insert(id);
        }
    }

    /// Returns whether the pack was forgotten.
    pub(super) fn is_gone(&self, id: PackId) -> bool {
        self.gone.contains(&id)
    }

    /// Returns the number of a place; `None` if the map does not have it.
    pub(super) fn number(&self, pack: PackId, place: Place) -> Option<usize> {
        let (_, pack) = self.pack(pack)?;
        let frame = pack.offsets.binary_search(&place.offset).ok()?;
        let places = pack.places_of(frame..frame + 1);
        let number = places.start + usize::from(place.ordinal);
        (number < places.end).then_some(number)
    }

    /// Returns the frame with a place.
    pub(super) fn frame_with(&self, number: usize) -> MappedFrame {
        // Packs without places have the number of the next pack's first place.
        let at = self.packs.partition_point(|pack| pack.first <= number) - 1;
        let pack = &self.packs[at];
        let within = (number - pack.first) as u32;
        let frame = pack.firsts.partition_point(|first| *first <= within) - 1;
        let offset = pack.offsets[frame];
        MappedFrame {
            pack: at,
            offset,
            places: pack.places_of(frame..frame + 1),
        }
    }

    /// Returns the frames of a pack in order, with the segment and the length in bytes of each.
    pub(super) fn frames(
        &self,
        at: usize,
    ) -> impl Iterator<Item = (&MappedSegment, MappedFrame, u64)> + use<'_> {
        let pack = &self.packs[at];
        pack.segments.iter().flat_map(move |segment| {
            segment.frames.clone().map(move |frame| {
                let offset = pack.offsets[frame];
                let end = if frame + 1 < segment.frames.end {
                    pack.offsets[frame + 1]
                } else {
                    segment.records_end
                };
                let mapped = MappedFrame {
                    pack: at,
                    offset,
                    places: pack.places_of(frame..frame + 1),
                };
                (segment, mapped, end - offset)
            })
        })
    }
}

/// How the bytes of a pack are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PackUse {
    /// The pack, as it was mapped.
    pub row: PackRow,
    /// The bytes of marked objects and their index entries.
    pub marked_bytes: u64,
    /// The number of marked objects.
    pub marked: u64,
    /// The same for objects in young segments that are not marked.
    pub young_bytes: u64,
    /// The number of objects that must stay: those that are marked and those in young segments.
    pub stays: u64,
    /// The number of all other places.
    pub others: u64,
}

impl PackUse {
    /// Returns the bytes that must stay.
    pub fn staying_bytes(&self) -> u64 {
        self.marked_bytes + self.young_bytes
    }
}

impl FrameMap {
    /// Returns how a pack is used. `marked` counts the marked places in a range, and `share_of` returns
    /// how many bytes of a frame of some length its marked objects take.
    pub(super) fn use_of(
        &self,
        at: usize,
        marked: &dyn Fn(Range<usize>) -> usize,
        share_of: &dyn Fn(PackId, &MappedFrame, u64) -> u64,
    ) -> PackUse {
        let mut out = PackUse {
            row: self.packs[at].row,
            marked_bytes: 0,
            marked: 0,
            young_bytes: 0,
            stays: 0,
            others: 0,
        };
        for (segment, frame, len) in self.frames(at) {
            let (all, marked) = (
                frame.places.len() as u64,
                marked(frame.places.clone()) as u64,
            );
            let share = match marked {
                0 => 0,
                marked if marked == all => len,
                _ => share_of(out.row.id, &frame, len).min(len),
            };
            let entries = |n: u64| n * ENTRY_BYTES as u64;
            out.marked += marked;
            out.marked_bytes += share + entries(marked);
            out.stays += marked;
            if segment.is_young {
                out.young_bytes += len - share + entries(all - marked);
                out.stays += all - marked;
            } else {
                out.others += all - marked
            }
        }
        out
    }
}
