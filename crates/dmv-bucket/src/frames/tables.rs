//! The tables and places of the segments that were read, and look-ups in all of them.

use super::cut::MAX_RECORD_BYTES;
use crate::format::{FramePlace, Name, Places, Row, RowKind};
use crate::ranges::Range;
use dmv_core::hash::ObjectId;
use dmv_core::object::ObjectType;
use dmv_core::store::{PACK_HEADER_BYTES, SegmentTail};
use std::collections::HashMap;

/// An object of a segment.
struct Item {
    id: ObjectId,
    /// The number of its frame.
    frame: u32,
    ty: ObjectType,
}

struct Segment {
    row: Row,
    /// Sorted by id.
    items: Vec<Item>,
    /// Where each frame begins; at last, where the frames end.
    starts: Vec<u64>,
    places: Places,
}

/// The segments of one kind that were read.
#[derive(Default)]
pub struct Tables {
    segments: Vec<Segment>,
    by_name: HashMap<Name, usize>,
    objects: usize,
}

impl Tables {
    /// Adds the last segment of a pack. `tail` are the pack's bytes from [`Row::tail`] on.
    ///
    /// Fails if they are damaged.
    pub fn add(&mut self, row: &Row, tail: &[u8]) -> Result<(), &'static str> {
        let (from, to) = (first_frame(row), row.tail);
        if self.has(&row.name) {
            return Ok(());
        }
        let tail = SegmentTail::decode(tail, to)?;
        let places = match &tail.places {
            Some(payload) => Places::decode(payload).map_err(|e| e.what)?,
            None => Places::default(),
        };
        let last = places
            .nodes
            .last()
            .map_or(0, |node| node.ordinal as usize + 1);
        if last > tail.entries.len() {
            return Err("places of a node that the table does not have");
        }
        let mut starts: Vec<u64> = tail.entries.iter().map(|e| e.place.offset).collect();
        starts.sort_unstable();
        starts.dedup();
        if starts.first().is_some_and(|first| *first < from)
            || starts.last().is_some_and(|last| *last >= to)
        {
            return Err("a frame outside of its segment");
        }
        let items = tail.entries.iter().map(|entry| Item {
            id: entry.id,
            frame: starts.partition_point(|start| *start < entry.place.offset) as u32,
            ty: entry.place.ty,
        });
        let items: Vec<Item> = items.collect();
        starts.push(to);
        self.objects += items.len();
        self.by_name.insert(row.name, self.segments.len());
        self.segments.push(Segment {
            row: *row,
            items,
            starts,
            places,
        });
        Ok(())
    }

    /// Returns whether the segment of a pack was added.
    pub fn has(&self, pack: &Name) -> bool {
        self.by_name.contains_key(pack)
    }

    /// Returns whether any segment has an object, of whatever type.
    pub fn has_object(&self, id: &ObjectId) -> bool {
        let mut segments = self.segments.iter();
        segments.any(|segment| segment.position(id).is_some())
    }

    /// Returns the number of objects in all segments.
    pub fn objects(&self) -> usize {
        self.objects
    }

    /// Returns the frame with an object, with its bytes up to the next frame.
    pub fn find(&self, ty: ObjectType, id: &ObjectId) -> Option<Range> {
        let found = self
            .segments
            .iter()
            .find_map(|s| Some((s, s.position(id)?)));
        let (segment, at) = found?;
        let item = &segment.items[at];
        (item.ty == ty).then(|| segment.frame(item.frame as usize))
    }

    /// Returns the frames that hold the children of a node, as far as its places say.
    pub fn below(&self, node: &ObjectId) -> Vec<Range> {
        let place = |segment: &Segment| {
            let ordinal = segment.position(node)? as u32;
            let nodes = &segment.places.nodes;
            let at = nodes
                .binary_search_by_key(&ordinal, |node| node.ordinal)
                .ok()?;
            let range = |place: &FramePlace| Range {
                file: segment.places.packs[place.pack as usize],
                offset: place.offset,
                len: u64::from(place.len),
            };
            Some(nodes[at].frames.iter().map(range).collect())
        };
        self.segments.iter().find_map(place).unwrap_or_default()
    }

    /// Returns all objects of a type, each with its frame.
    pub fn all(&self, ty: ObjectType) -> impl Iterator<Item = (ObjectId, Range)> + '_ {
        self.segments.iter().flat_map(move |segment| {
            let items = segment.items.iter().filter(move |item| item.ty == ty);
            items.map(|item| (item.id, segment.frame(item.frame as usize)))
        })
    }
}

impl Segment {
    fn position(&self, id: &ObjectId) -> Option<usize> {
        self.items.binary_search_by_key(id, |item| item.id).ok()
    }

    fn frame(&self, frame: usize) -> Range {
        let (start, end) = (self.starts[frame], self.starts[frame + 1]);
        Range {
            file: self.row.name,
            offset: start,
            len: (end - start).min(MAX_RECORD_BYTES),
        }
    }
}

/// Returns where the frames of a pack's last segment begin.
fn first_frame(row: &Row) -> u64 {
    match row.kind {
        RowKind::Data => PACK_HEADER_BYTES,
        RowKind::Meta | RowKind::Joint => row.metadata,
    }
}
