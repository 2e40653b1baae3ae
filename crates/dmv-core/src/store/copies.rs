//! Copies that merged index files hide: each names one place of an object. Where a second pack holds
//! it as well, that pack's own table alone knows.
//!
//! Nobody needs them until the place that is named turns out damaged. Then all own tables are asked,
//! one after the other; reading what is sound costs nothing.

use super::error::StoreError;
use super::table::{Entry, Place, Table};
use super::{FileId, SegmentRow, Store, read};
use crate::hash::ObjectId;
use crate::memory::Room;
use crate::object::ObjectType;
use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;

/// The segments whose own tables are not in use, because merged index files stand for them.
pub type MergedSource = Box<dyn Fn() -> Result<Vec<SegmentRow>, StoreError> + Send + Sync>;

/// A table is read from front to back if more than one in so many of its entries is looked for.
const WORTH_WALKING: usize = 64;

impl Store {
    /// Gives the store a way to learn which segments have tables that it does not use.
    pub fn set_merged(&self, merged: MergedSource) {
        // A store has one for its whole life.
        let _ = self.merged.set(merged);
    }

    /// Reads an object that is damaged where tables in use say that it is; whether that succeeded.
    pub(super) fn read_hidden(
        &self,
        ty: ObjectType,
        id: &ObjectId,
        out: &mut Vec<u8>,
    ) -> Result<bool, StoreError> {
        let start = out.len();
        let mut is_read = false;
        self.each_hidden_table(&mut |table| {
            if let Ok(Some((pack, place))) = table.lookup(id, &Room::none()) {
                is_read = self.read_at_place(ty, id, pack, place, out).is_ok();
            }
            if is_read {
                return ControlFlow::Break(());
            }
            out.truncate(start);
            ControlFlow::Continue(())
        })?;
        Ok(is_read)
    }

    /// Visits the places that hidden tables have for `wanted`, until `visit` says that it is enough.
    pub(super) fn hidden_places(
        &self,
        wanted: &HashMap<ObjectId, ObjectType>,
        visit: &mut dyn FnMut(Entry, FileId) -> ControlFlow<()>,
    ) -> Result<(), StoreError> {
        self.each_hidden_table(&mut |table| {
            let mut flow = ControlFlow::Continue(());
            if wanted.len() < table.entries() as usize / WORTH_WALKING {
                for id in wanted.keys() {
                    if let (true, Ok(Some((pack, place)))) =
                        (flow.is_continue(), table.lookup(id, &Room::none()))
                    {
                        flow = visit(Entry { id: *id, place }, pack);
                    }
                }
                return flow;
            }
            // Of a table that is damaged further on, what comes before counts.
            let _ = table.walk(&mut |entry, pack| {
                if flow.is_continue() && wanted.contains_key(&entry.id) {
                    flow = visit(entry, pack);
                }
                Ok(())
            });
            flow
        })
    }

    /// Visits everything that hidden tables name, as far as these are whole.
    pub(super) fn walk_hidden(
        &self,
        visit: &mut dyn FnMut(Entry, FileId),
    ) -> Result<(), StoreError> {
        self.each_hidden_table(&mut |table| {
            let _ = table.walk(&mut |entry, pack| {
                visit(entry, pack);
                Ok(())
            });
            ControlFlow::Continue(())
        })
    }

    fn each_hidden_table(
        &self,
        visit: &mut dyn FnMut(&Table) -> ControlFlow<()>,
    ) -> Result<(), StoreError> {
        let Some(merged) = self.merged.get() else {
            return Ok(());
        };
        for segment in merged()? {
            // Whoever asks does so because of damage: there may be more of it.
            let Ok(table) = self.open_segment(&segment) else {
                continue;
            };
            if visit(&table).is_break() {
                break;
            }
        }
        Ok(())
    }

    /// Merged index files that should not be in use: those that are damaged, and those that name a
    /// damaged place for one of `copies` and hide a whole one.
    pub fn poor_indexes(&self, copies: &[ObjectId]) -> Vec<FileId> {
        let tables = read(&self.tables).clone();
        let hides = |table: &Table, id: &ObjectId| {
            matches!(table.lookup(id, &self.room), Ok(Some(_)))
                && matches!(self.has_outside(id, &HashSet::new()), Ok(false))
        };
        let merged = tables.iter().filter_map(|t| Some((t, t.index_id()?)));
        let poor = merged.filter(|(table, _)| {
            copies.iter().any(|id| hides(table, id)) || table.verify().is_err()
        });
        poor.map(|(_, id)| id).collect()
    }

    /// Whether segments can be found by their own tables, each byte of which is read: without the
    /// merged index that stands for them.
    pub fn have_own_tables(&self, segments: &[SegmentRow]) -> bool {
        segments.iter().all(|row| self.check_own_table(row).is_ok())
    }

    /// Reads a segment's own table and checks every byte of it.
    pub fn check_own_table(&self, segment: &SegmentRow) -> Result<(), StoreError> {
        self.open_segment(segment)?.verify()
    }

    /// Visits everything that a segment's own table names, in use or not. The table is checked first:
    /// if it is damaged, its segment would seem to hold nothing.
    pub fn each_of_segment(
        &self,
        segment: &SegmentRow,
        visit: &mut dyn FnMut(&ObjectId, Place) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let table = self.open_segment(segment)?;
        table.verify()?;
        table.walk(&mut |entry, _| visit(&entry.id, entry.place))
    }

    /// Whether the bytes of `id` are whole in another pack than `pack`, where a table in use says so.
    pub fn is_whole_outside(&self, id: &ObjectId, pack: FileId) -> Result<bool, StoreError> {
        let tables = read(&self.tables).clone();
        for table in tables {
            if let Some((other, place)) = table.lookup(id, &self.room)?
                && other != pack
                && self.is_whole_at(id, other, place)
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether what lies at a place is `id`, by its bytes.
    pub(super) fn is_whole_at(&self, id: &ObjectId, pack: FileId, place: Place) -> bool {
        let read = self.read_at_place(place.ty, id, pack, place, &mut Vec::new());
        read.is_ok()
    }
}
