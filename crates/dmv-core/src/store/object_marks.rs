//! Marks on objects, one bit each, for walks over all stored objects. The memory does not depend on
//! the number of absent objects.

use super::error::StoreError;
use super::index_entry::Place;
use super::pack_store::Store;
use super::random_id::PackId;
use super::table::Table;
use crate::hash::ObjectId;
use crate::memory::Budget;
use std::sync::Arc;

/// The result of marking an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// It had no mark before.
    New,
    /// It had a mark already.
    Known,
    /// It is not in the store.
    Absent,
}

/// Receives an object, its pack and place, and whether it is marked.
pub type Visit<'v> = dyn FnMut(&ObjectId, PackId, Place, bool) -> Result<(), StoreError> + 'v;

/// Marks on the objects that a store had when the marks were made.
pub struct Marks {
    tables: Vec<(Arc<Table>, Vec<u64>)>,
    budget: Budget,
}

impl Store {
    /// Returns marks on the objects that are stored now, without any mark set.
    pub fn marks(&self) -> Marks {
        let blank = |table: &Arc<Table>| {
            let words = (table.entries() as usize).div_ceil(64);
            (table.clone(), vec![0; words])
        };
        Marks {
            tables: self.current().tables.iter().map(blank).collect(),
            budget: Budget::for_tables(),
        }
    }
}

impl Marks {
    /// Returns marks on the same objects, without any mark set.
    pub fn blank(&self) -> Marks {
        let blank = |(table, words): &(Arc<Table>, Vec<u64>)| (table.clone(), vec![0; words.len()]);
        Marks {
            tables: self.tables.iter().map(blank).collect(),
            budget: self.budget.clone(),
        }
    }

    /// Marks an object, in all its copies.
    pub fn mark(&mut self, id: &ObjectId) -> Result<Mark, StoreError> {
        let mut found = Mark::Absent;
        for (table, words) in &mut self.tables {
            if let Some(number) = table.number_of(id, &self.budget)? {
                let (word, bit) = (&mut words[number / 64], 1 << (number % 64));
                found = match *word & bit {
                    0 => Mark::New,
                    _ => Mark::Known,
                };
                *word |= bit;
            }
        }
        Ok(found)
    }

    /// Returns whether an object is marked.
    pub fn has(&self, id: &ObjectId) -> Result<bool, StoreError> {
        for (table, words) in &self.tables {
            if let Some(number) = table.number_of(id, &self.budget)? {
                return Ok(words[number / 64] & 1 << (number % 64) != 0);
            }
        }
        Ok(false)
    }

    /// Returns whether a table gives this place for an object. If not, a merged index hides the
    /// copy.
    pub(crate) fn is_placed(
        &self,
        id: &ObjectId,
        pack: PackId,
        place: Place,
    ) -> Result<bool, StoreError> {
        for (table, _) in &self.tables {
            if table.lookup(id, &self.budget)? == Some((pack, place)) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns the packs that contain an object, as far as the tables show. A merged index names
    /// one copy only.
    pub(crate) fn packs_of(&self, id: &ObjectId) -> Result<Vec<PackId>, StoreError> {
        let mut packs = Vec::new();
        for (table, _) in &self.tables {
            packs.extend(table.lookup(id, &self.budget)?.map(|(pack, _)| pack));
        }
        Ok(packs)
    }

    /// Visits every object with its pack and place, and whether it is marked. An object that is
    /// stored twice is visited twice.
    pub fn each(&self, visit: &mut Visit<'_>) -> Result<(), StoreError> {
        for (table, words) in &self.tables {
            table.walk_numbered(&mut |number, entry, pack| {
                let marked = words[number / 64] & 1 << (number % 64) != 0;
                visit(&entry.id, pack, entry.place, marked)
            })?;
        }
        Ok(())
    }
}
