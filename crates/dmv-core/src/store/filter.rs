//! Ids of tables in little memory, for writers that mostly store new objects.
//!
//! A writer asks for each object whether it is stored. A new object is in no table, and without this
//! each of them would be read to say so: with the tables of ten million objects that takes longer
//! than to store the object. The filter is a Bloom filter: it never rules out an id that it has.

use super::error::StoreError;
use super::shared::{read, write};
use super::table::Table;
use crate::hash::ObjectId;
use crate::memory::Budget;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, RwLock};

/// Ids in the first layer.
const FIRST_IDS: usize = 32 << 10;
/// Bits for each id. With [`PROBES`], two in a thousand ids are taken for others.
const BITS_PER_ID: usize = 16;
const PROBES: u32 = 7;
/// All bits of an id are in one block, which is one line of a processor's cache.
const BLOCK_WORDS: usize = 8;
const BLOCK_BITS: usize = BLOCK_WORDS * 64;

/// The ids of the tables that say so: see [`Table::is_in_filter`].
struct Filter {
    /// Tells the filters of this process apart.
    number: u64,
    /// Each layer has room for twice as many ids as the one before.
    layers: Vec<Layer>,
}

impl Default for Filter {
    fn default() -> Filter {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Filter {
            number: NEXT.fetch_add(1, Ordering::Relaxed),
            layers: Vec::new(),
        }
    }
}

struct Layer {
    words: Vec<u64>,
    /// How many more ids it may have.
    room: usize,
    budget: Budget,
}

impl Drop for Layer {
    fn drop(&mut self) {
        self.budget.give_back(size_of_val(&self.words[..]));
    }
}

impl Layer {
    /// Returns an empty layer; `None` if the budget has no room for it.
    fn new(ids: usize, budget: &Budget) -> Option<Layer> {
        let words = ids * BITS_PER_ID / 64;
        budget.take(words * size_of::<u64>()).then(|| Layer {
            words: vec![0; words],
            room: ids,
            budget: budget.clone(),
        })
    }

    /// Returns the word and bit of each probe.
    fn probes(&self, id: &ObjectId) -> impl Iterator<Item = (usize, u64)> + use<> {
        // Ids are hashes. A peer can choose objects whose ids share bits, which only costs it time.
        let [block, bits] = [16, 24].map(|at| {
            let bytes = super::layout::array(&id.as_bytes()[at..at + 8]);
            u64::from_le_bytes(bytes)
        });
        let blocks = (self.words.len() / BLOCK_WORDS) as u128;
        let first = ((u128::from(block) * blocks) >> 64) as usize * BLOCK_WORDS;
        (0..PROBES).map(move |probe| {
            let bit = (bits >> (probe * BLOCK_BITS.ilog2())) as usize % BLOCK_BITS;
            (first + bit / 64, 1 << (bit % 64))
        })
    }

    fn may_have(&self, id: &ObjectId) -> bool {
        self.probes(id)
            .all(|(word, bit)| self.words[word] & bit != 0)
    }

    fn insert(&mut self, id: &ObjectId) {
        for (word, bit) in self.probes(id) {
            self.words[word] |= bit;
        }
        self.room = self.room.saturating_sub(1);
    }
}

impl Filter {
    /// Returns `false` if it certainly does not have `id`.
    fn may_have(&self, id: &ObjectId) -> bool {
        self.layers.iter().any(|layer| layer.may_have(id))
    }

    /// Adds an id. Returns `false` if there is no room.
    fn insert(&mut self, id: &ObjectId, budget: &Budget) -> bool {
        if self.may_have(id) {
            return true;
        }
        if self.layers.last().is_none_or(|layer| layer.room == 0) {
            let ids = FIRST_IDS << self.layers.len();
            let Some(layer) = Layer::new(ids, budget) else {
                return false;
            };
            self.layers.push(layer);
        }
        let layer = self.layers.last_mut();
        layer.expect("it was made above").insert(id);
        true
    }
}

/// A filter that the threads of a process share. Tables are added to it while it is used.
pub(super) struct IdFilter {
    filter: RwLock<Filter>,
    budget: Budget,
}

impl Default for IdFilter {
    fn default() -> IdFilter {
        IdFilter {
            filter: RwLock::default(),
            budget: Budget::for_filters(),
        }
    }
}

impl IdFilter {
    /// Calls `visit` with those of `tables` that may have `id`, until it returns `Break`. A table that
    /// often did not have what was looked for is added to the filter.
    pub fn each_with(
        &self,
        id: &ObjectId,
        tables: &[Arc<Table>],
        visit: &mut dyn FnMut(&Table) -> ControlFlow<()>,
    ) {
        let mut often = None;
        // While it is locked, no table is added that `may_have` did not know.
        let filter = read(&self.filter);
        let may_have = filter.may_have(id);
        for table in tables {
            let is_known = table.is_in_filter(filter.number);
            if is_known && !may_have {
                continue;
            }
            if visit(table).is_break() {
                break;
            }
            if !is_known && table.is_asked_often() {
                often = Some(table.clone());
            }
        }
        drop(filter);
        if let Some(table) = often {
            // A table that cannot be read is looked up as before, and that tells why.
            let _ = self.add(&table);
        }
    }

    fn add(&self, table: &Table) -> Result<(), StoreError> {
        let mut filter = write(&self.filter);
        let mut has_room = true;
        table.walk(&mut |entry, _| {
            has_room = has_room && filter.insert(&entry.id, &self.budget);
            Ok(())
        })?;
        if has_room {
            table.note_in_filter(filter.number);
        }
        Ok(())
    }

    /// Returns what tells it apart from the other filters of this process.
    #[cfg(test)]
    pub fn number(&self) -> u64 {
        read(&self.filter).number
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::table::tests::ids;

    #[test]
    fn a_filter_has_every_id_that_was_added_and_few_others() {
        let all = ids(300_000);
        let (known, others): (Vec<_>, Vec<_>) =
            all.iter().enumerate().partition(|(n, _)| n % 2 == 0);
        let (mut filter, budget) = (Filter::default(), Budget::of(4 << 20));
        for (_, id) in &known {
            assert!(filter.insert(id, &budget));
        }
        assert!(known.iter().all(|(_, id)| filter.may_have(id)));
        let wrong = others.iter().filter(|(_, id)| filter.may_have(id)).count();
        assert!(wrong < others.len() / 50, "{wrong} of {}", others.len());
        assert_eq!(filter.layers.len(), 3, "each holds twice as many");
        drop(filter);
        assert!(budget.take(4 << 20), "the memory is given back");
    }

    #[test]
    fn a_filter_without_room_says_so() {
        let (mut filter, budget) = (Filter::default(), Budget::of(FIRST_IDS * BITS_PER_ID / 8));
        let all = ids(2 * FIRST_IDS as u32);
        let added = all.iter().filter(|id| filter.insert(id, &budget)).count();
        assert!((FIRST_IDS..FIRST_IDS + 2_000).contains(&added), "{added}");
    }
}
