//! Places: which frames of which packs hold the children of a segment's nodes.
//! docs/format/bucket.md, "Places".

use super::Name;
use dmv_core::limits::MAX_SEGMENT_ENTRIES;
use dmv_core::object::codec::{DecodeError, Decoder, EncodeError, put_varint};

const VERSION: u8 = 1;
const MAX_PACKS: u64 = 65_536;
/// The maximum number of frames that the places of a segment name.
pub const MAX_PLACES: usize = 1 << 22;
const MAX_OFFSET: u64 = 1 << 40;
const MAX_FRAME: u64 = 4 << 20;

/// The place of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FramePlace {
    /// The number of its pack in [`Places::packs`].
    pub pack: u32,
    /// Where its record begins.
    pub offset: u64,
    /// The length of its record, which is not 0.
    pub len: u32,
}

impl FramePlace {
    /// Returns whether a record at this offset and of this length can be named.
    pub fn fits(offset: u64, len: u32) -> bool {
        let len = u64::from(len);
        len > 0 && len <= MAX_FRAME && offset <= MAX_OFFSET - len
    }
}

/// A node, and the frames that hold its children.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// The number of the node in the table of the segment.
    pub ordinal: u32,
    /// The frames, sorted and without overlaps; at least one.
    pub frames: Vec<FramePlace>,
}

/// The places of one segment. They are not trusted: whatever is read there is hashed, and a wrong
/// place is a missing object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Places {
    /// The packs, sorted. Each is named by a frame.
    pub packs: Vec<Name>,
    /// The nodes, sorted by their number.
    pub nodes: Vec<Node>,
}

impl Places {
    /// Returns the payload of the record. Fails if there are too many places.
    pub fn encode(&self) -> Result<Vec<u8>, EncodeError> {
        let frames: usize = self.nodes.iter().map(|node| node.frames.len()).sum();
        if frames > MAX_PLACES || self.packs.len() as u64 > MAX_PACKS {
            return Err(EncodeError {
                what: "too many places",
            });
        }
        let mut out = vec![VERSION];
        put_varint(&mut out, self.packs.len() as u64);
        for pack in &self.packs {
            out.extend_from_slice(&pack.0);
        }
        put_varint(&mut out, self.nodes.len() as u64);
        let mut next = 0;
        for node in &self.nodes {
            put_varint(&mut out, u64::from(node.ordinal - next));
            next = node.ordinal + 1;
            put_varint(&mut out, node.frames.len() as u64);
            let (mut pack, mut end) = (0, 0);
            for frame in &node.frames {
                if frame.pack != pack {
                    end = 0;
                }
                put_varint(&mut out, u64::from(frame.pack - pack));
                put_varint(&mut out, frame.offset - end);
                put_varint(&mut out, u64::from(frame.len));
                (pack, end) = (frame.pack, frame.offset + u64::from(frame.len));
            }
        }
        Ok(out)
    }

    /// Decodes the payload. Fails for bytes that [`encode`](Self::encode) does not make.
    pub fn decode(bytes: &[u8]) -> Result<Places, DecodeError> {
        let mut input = Decoder::new(bytes);
        input.version(VERSION..=VERSION)?;
        let mut packs: Vec<Name> = Vec::new();
        for _ in 0..input.varint_up_to(MAX_PACKS, "too many packs")? {
            let pack = Name::decode(&mut input)?;
            if packs.last().is_some_and(|last| *last >= pack) {
                return Err(input.error("packs are not sorted"));
            }
            packs.push(pack);
        }
        let count = input.varint_up_to(MAX_SEGMENT_ENTRIES as u64, "too many nodes")?;
        let mut nodes: Vec<Node> = Vec::new();
        let (mut next, mut left) = (0u32, MAX_PLACES as u64);
        let mut named = vec![false; packs.len()];
        for _ in 0..count {
            let most = (MAX_SEGMENT_ENTRIES as u64).saturating_sub(1 + u64::from(next));
            let ordinal = next + input.varint_up_to(most, "no such node")? as u32;
            next = ordinal + 1;
            let frames = frames(&mut input, left, &mut named)?;
            left -= frames.len() as u64;
            nodes.push(Node { ordinal, frames });
        }
        input.finish()?;
        if named.contains(&false) {
            return Err(input.error("a pack is not used"));
        }
        Ok(Places { packs, nodes })
    }
}

fn frames(
    input: &mut Decoder,
    most: u64,
    named: &mut [bool],
) -> Result<Vec<FramePlace>, DecodeError> {
    let count = input.varint_up_to(most, "too many places")?;
    if count == 0 {
        return Err(input.error("node without a place"));
    }
    let mut frames = Vec::new();
    let (mut pack, mut end) = (0, 0);
    for _ in 0..count {
        let step = input.varint_up_to(MAX_PACKS, "no such pack")? as u32;
        if step > 0 {
            end = 0;
        }
        pack += step;
        let offset = end + input.varint_up_to(MAX_OFFSET - end, "offset is too large")?;
        let len = input.varint_up_to(MAX_FRAME.min(MAX_OFFSET - offset), "frame is too large")?;
        if len == 0 {
            return Err(input.error("frame is empty"));
        }
        match named.get_mut(pack as usize) {
            Some(named) => *named = true,
            None => return Err(input.error("no such pack")),
        }
        end = offset + len;
        frames.push(FramePlace {
            pack,
            offset,
            len: len as u32,
        });
    }
    Ok(frames)
}
