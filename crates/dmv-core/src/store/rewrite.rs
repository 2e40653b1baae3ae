//! Moving needed objects out of a pack, so that the pack can be removed.
//!
//! Frames whose objects all stay are copied as stored, in their order. From other frames the
//! objects that stay are packed again. Every object is decoded and hashed on the way, so the needed
//! objects of a removed pack are known to be intact elsewhere.

use super::checked::{CheckedObject, CheckedRecord};
use super::error::StoreError;
use super::ids::PackId;
use super::receive::Incoming;
use super::write::FinishedJob;
use super::{Place, Store};
use crate::hash::ObjectId;
use std::collections::{BTreeSet, HashSet};

impl Store {
    /// Stores the needed objects of `pack` again, unless a pack outside `leaving` has them. The
    /// caller holds the pack's lock.
    ///
    /// `frames` are the offsets of their frames. `stays` decides for each object there. `moved`
    /// receives the bytes of each finished frame and returns whether to continue.
    ///
    /// Returns the result to publish; `None` if `moved` ended the work. Fails if it meets damage:
    /// then the pack must stay.
    pub fn move_out(
        &self,
        pack: PackId,
        leaving: &HashSet<PackId>,
        frames: &BTreeSet<u64>,
        stays: &dyn Fn(&ObjectId) -> Result<bool, StoreError>,
        moved: &mut dyn FnMut(u64) -> bool,
    ) -> Result<Option<FinishedJob>, StoreError> {
        let mut incoming = Incoming::new(self.mover(leaving.clone())?);
        for offset in frames {
            let damaged = |why| StoreError::DamagedFile {
                path: self.pack_path(pack),
                offset: *offset,
                why,
            };
            let record = CheckedRecord::new(self.record_at(pack, *offset)?).map_err(damaged)?;
            let (mut stay, mut bytes) = (Vec::new(), 0);
            for (n, object) in record.objects().iter().enumerate() {
                bytes += u64::from(object.len);
                let place = Place {
                    offset: *offset,
                    ordinal: n as u16,
                    ty: object.ty,
                };
                // In a raw frame, damage shows as an unknown id. If the id is known at another
                // place, another copy counts.
                if self.is_placed(&object.id, pack, place)? {
                    stay.extend(stays(&object.id)?.then_some(*object));
                } else if self.locate(&object.id)?.is_none() {
                    return Err(damaged("an object's bytes are wrong"));
                }
            }
            if stay.len() == record.objects().len() {
                incoming.add_record(record)?;
            } else {
                for object in stay {
                    let mut bytes = Vec::new();
                    self.read_into(object.ty, &object.id, &mut bytes)?;
                    let object = CheckedObject::new(object.ty, bytes).map_err(damaged)?;
                    incoming.add_object(&object)?;
                }
            }
            if !moved(bytes) {
                return Ok(None);
            }
        }
        incoming.finish().map(Some)
    }

    /// Stores the objects of some frames, given by pack and offset, unless a table lists them.
    ///
    /// Their index was lost, and nothing can be appended to their packs. Damaged frames are
    /// skipped. Returns the result to publish.
    pub fn store_unlisted(&self, frames: &[(PackId, u64)]) -> Result<FinishedJob, StoreError> {
        let mut incoming = Incoming::new(self.writer()?);
        for (pack, offset) in frames {
            let record = self.record_at(*pack, *offset);
            if let Some(record) = record.ok().and_then(|r| CheckedRecord::new(r).ok()) {
                incoming.add_record(record)?;
            }
        }
        incoming.finish()
    }

    fn record_at(&self, pack: PackId, offset: u64) -> Result<Vec<u8>, StoreError> {
        let table = self.frame_table(pack, offset)?;
        self.record((pack, offset), &table.header)
    }
}
