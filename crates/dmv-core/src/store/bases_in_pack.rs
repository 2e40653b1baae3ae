//! The bases of frames in a pack that is read without a catalogue: everything is found in the pack
//! itself.

use super::frame::{FrameTable, decode_payload};
use super::index_entry::Place;
use super::layout::Encoding;
use super::scan::{ScannedPart, checked_payload, record_at};
use crate::hash::ObjectId;
use crate::limits::MAX_BASE_BYTES;
use crate::object::ObjectType;
use crate::vfs::VfsFile;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::path::Path;
use std::rc::Rc;

/// Number of decoded frames that are remembered: neighbouring frames have neighbouring bases.
const KEPT_FRAMES: usize = 4;

struct DecodedFrame {
    at: u64,
    table: FrameTable,
    raw: Vec<u8>,
}

/// A pack file, with its frames that were decoded last.
pub(super) struct InPack<'p> {
    file: &'p dyn VfsFile,
    path: &'p Path,
    len: u64,
    recent: RefCell<VecDeque<Rc<DecodedFrame>>>,
}

impl<'p> InPack<'p> {
    pub fn new(file: &'p dyn VfsFile, path: &'p Path, len: u64) -> InPack<'p> {
        let recent = RefCell::default();
        InPack {
            file,
            path,
            len,
            recent,
        }
    }

    /// Returns the bytes of a frame's bases in a row; `None` if one is not intact at the place that
    /// `find` returns, or has bases itself.
    pub fn prefix(
        &self,
        table: &FrameTable,
        find: &dyn Fn(&ObjectId) -> Option<Place>,
    ) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        for id in &table.base {
            let place = find(id)?;
            let frame = self.frame(place.offset)?;
            let (ty, range) = frame.table.objects.get(usize::from(place.ordinal))?;
            let bytes = frame.raw.get(range.start as usize..range.end as usize)?;
            let is_it = *ty == ObjectType::Chunk && ty.id_of(bytes) == *id;
            if !is_it || out.len() + bytes.len() > MAX_BASE_BYTES {
                return None;
            }
            out.extend_from_slice(bytes);
        }
        Some(out)
    }

    /// Returns the frame at an offset, if it needs no bases.
    fn frame(&self, at: u64) -> Option<Rc<DecodedFrame>> {
        let mut recent = self.recent.borrow_mut();
        if let Some(known) = recent.iter().find(|frame| frame.at == at) {
            return Some(known.clone());
        }
        if at >= self.len {
            return None;
        }
        let (found, _) = record_at(self.file, self.path, at, self.len).ok()??;
        let ScannedPart::Frame(table) = found else {
            return None;
        };
        if table.header.encoding == Encoding::ZstdWithBase {
            return None;
        }
        let stored = checked_payload(self.file, self.path, at, &table.header).ok()??;
        let raw = decode_payload(&table.header, &stored, &[]).ok()?;
        let raw = raw.into_owned();
        let frame = Rc::new(DecodedFrame { at, table, raw });
        recent.push_back(frame.clone());
        if recent.len() > KEPT_FRAMES {
            recent.pop_front();
        }
        Some(frame)
    }
}
