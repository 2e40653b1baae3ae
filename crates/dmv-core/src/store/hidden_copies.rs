//! Copies that merged indexes hide.
//!
//! A merged index names one place of each object. If a second pack contains the object, only that
//! pack's own table knows it. Such copies matter only when the named place turns out to be damaged.
//! Then all own tables are asked in turn, so reading intact objects costs nothing extra.

use super::error::StoreError;
use super::table::{Entry, Place, Table};
use super::{IndexId, PackId, SegmentRow, Store, read};
use crate::hash::ObjectId;
use crate::memory::Budget;
use crate::object::ObjectType;
use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;

/// A table is read completely if more than one in this number of its entries is looked for.
const WORTH_WALKING: usize = 64;

impl Store {
    /// Reads an object whose places in tables in use are damaged, from a hidden copy. Returns
    /// whether it succeeded.
    pub(super) fn read_hidden(
        &self,
        ty: ObjectType,
        id: &ObjectId,
        out: &mut Vec<u8>,
    ) -> Result<bool, StoreError> {
        let start = out.len();
        let mut is_read = false;
        self.each_hidden_table(&mut |table| {
            if let Ok(Some((pack, place))) = table.lookup(id, &Budget::none()) {
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

    /// Visits the places of `wanted` in hidden tables, until `visit` returns `Break`.
    pub(super) fn hidden_places(
        &self,
        wanted: &HashMap<ObjectId, ObjectType>,
        visit: &mut dyn FnMut(Entry, PackId) -> ControlFlow<()>,
    ) -> Result<(), StoreError> {
        self.each_hidden_table(&mut |table| {
            let mut flow = ControlFlow::Continue(());
            if wanted.len() < table.entries() as usize / WORTH_WALKING {
                for id in wanted.keys() {
                    if let (true, Ok(Some((pack, place)))) =
                        (flow.is_continue(), table.lookup(id, &Budget::none()))
                    {
                        flow = visit(Entry { id: *id, place }, pack);
                    }
                }
                return flow;
            }
            // If a table is damaged further on, its entries before that still count.
            let _ = table.walk(&mut |entry, pack| {
                if flow.is_continue() && wanted.contains_key(&entry.id) {
                    flow = visit(entry, pack);
                }
                Ok(())
            });
            flow
        })
    }

    /// Visits all entries of hidden tables, as far as these are intact.
    pub(super) fn walk_hidden(
        &self,
        visit: &mut dyn FnMut(Entry, PackId),
    ) -> Result<(), StoreError> {
        self.each_hidden_table(&mut |table| {
            let _ = table.walk(&mut |entry, pack| {
                visit(entry, pack);
                Ok(())
            });
            ControlFlow::Continue(())
        })
    }

    pub(super) fn each_hidden_table(
        &self,
        visit: &mut dyn FnMut(&Table) -> ControlFlow<()>,
    ) -> Result<(), StoreError> {
        for segment in self.source.merged_segments()? {
            // The caller is here because of damage, so there may be more of it.
            let Ok(table) = self.open_segment(&segment) else {
                continue;
            };
            if visit(&table).is_break() {
                break;
            }
        }
        Ok(())
    }

    /// Returns the merged indexes that should not be used: those that are damaged, and those that
    /// name a damaged place for one of `copies` and hide an intact one.
    pub(crate) fn poor_indexes(&self, copies: &[ObjectId]) -> Vec<IndexId> {
        let tables = read(&self.tables).clone();
        let hides = |table: &Table, id: &ObjectId| {
            matches!(table.lookup(id, &self.budget), Ok(Some(_)))
                && matches!(self.has_outside(id, &HashSet::new()), Ok(false))
        };
        let merged = tables.iter().filter_map(|t| Some((t, t.index_id()?)));
        let poor = merged.filter(|(table, _)| {
            copies.iter().any(|id| hides(table, id)) || table.verify().is_err()
        });
        poor.map(|(_, id)| id).collect()
    }

    /// Returns whether the objects of `segments` can be found by the segments' own tables, without
    /// the merged index that replaces them. Reads every byte of these tables.
    pub(crate) fn have_own_tables(&self, segments: &[SegmentRow]) -> bool {
        segments.iter().all(|row| self.check_own_table(row).is_ok())
    }

    /// Reads a segment's own table and checks every byte of it.
    pub(crate) fn check_own_table(&self, segment: &SegmentRow) -> Result<(), StoreError> {
        self.open_segment(segment)?.verify()
    }

    /// Visits all entries of a segment's own table, in use or not.
    ///
    /// The table is checked first: with a damaged table its segment would seem empty.
    pub fn each_of_segment(
        &self,
        segment: &SegmentRow,
        visit: &mut dyn FnMut(&ObjectId, Place) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let table = self.open_segment(segment)?;
        table.verify()?;
        table.walk(&mut |entry, _| visit(&entry.id, entry.place))
    }

    /// Returns whether a pack other than `pack` has intact bytes of `id`, at a place that a table
    /// in use names.
    pub(crate) fn is_intact_outside(
        &self,
        id: &ObjectId,
        pack: PackId,
    ) -> Result<bool, StoreError> {
        let tables = read(&self.tables).clone();
        for table in tables {
            if let Some((other, place)) = table.lookup(id, &self.budget)?
                && other != pack
                && self.is_intact_at(id, other, place)
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns whether the bytes at a place are those of `id`, and depend on no other pack.
    pub(super) fn is_intact_at(&self, id: &ObjectId, pack: PackId, place: Place) -> bool {
        let read = self.read_at_place(place.ty, id, pack, place, &mut Vec::new());
        read.is_ok() && self.has_own_bases(pack, place.offset)
    }
}
