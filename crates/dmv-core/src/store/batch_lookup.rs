//! Looking up many objects at once.
//!
//! A walk over ten million objects asks for each of them, and each look-up in a table that no cache
//! holds costs a read. So walks collect ids and look them up together: sorted ids pass each table
//! once, from its start to its end. The answers are those of single look-ups.

use super::bit_set::Bits;
use super::error::StoreError;
use super::id_search::head_of;
use super::index_entry::{Entry, Place};
use super::pack_store::Store;
use super::random_id::PackId;
use super::table::Table;
use super::table::join::WantedObject;
use crate::hash::ObjectId;
use crate::object::ObjectType;
use std::cmp::Reverse;
use std::sync::Arc;

/// Fewer ids than this are looked up one by one, which keeps small tables in memory.
const LEAST_IDS: usize = 256;

/// Receives the number of an id, and a place of its object.
type OnFound<'f> = dyn FnMut(u32, PackId, Place) + 'f;

/// Something with an id to look up.
pub(super) trait HasId {
    /// Returns the id.
    fn id(&self) -> &ObjectId;
}

impl HasId for (ObjectType, ObjectId) {
    fn id(&self) -> &ObjectId {
        &self.1
    }
}

impl HasId for Entry {
    fn id(&self) -> &ObjectId {
        &self.id
    }
}

/// Ids in the order of the tables, each with the numbers that it has for the caller.
struct SortedIds<'i, N> {
    named: &'i [N],
    /// The first bytes of each id, and its number.
    order: Vec<(u64, u32)>,
}

impl<'i, N: HasId> SortedIds<'i, N> {
    fn new(named: &'i [N]) -> SortedIds<'i, N> {
        let ids = named.iter().map(HasId::id).zip(0_u32..);
        let mut order: Vec<(u64, u32)> = ids.map(|(id, n)| (head_of(id.as_bytes()), n)).collect();
        let id = |n: u32| named[n as usize].id();
        order.sort_unstable_by(|a, b| a.0.cmp(&b.0).then_with(|| id(a.1).cmp(id(b.1))));
        SortedIds { named, order }
    }

    fn id(&self, at: usize) -> ObjectId {
        *self.named[self.order[at].1 as usize].id()
    }

    /// Returns each id once, in order, with the position of its first occurrence.
    fn distinct(&self) -> (Vec<WantedObject>, Vec<u32>) {
        let (mut wanted, mut firsts): (Vec<WantedObject>, _) = (Vec::new(), Vec::new());
        wanted.reserve_exact(self.order.len());
        firsts.reserve_exact(self.order.len());
        for at in 0..self.order.len() {
            let id = self.id(at);
            if wanted.last().is_none_or(|last| last.id != id) {
                // The type is not compared.
                let ty = ObjectType::Chunk;
                wanted.push(WantedObject { id, ty });
                firsts.push(at as u32);
            }
        }
        (wanted, firsts)
    }

    /// Calls `visit` with the numbers of all ids that are equal to the one at position `first`.
    fn each_equal(&self, first: u32, visit: &mut dyn FnMut(u32)) {
        let first = first as usize;
        visit(self.order[first].1);
        let rest = self.order[first + 1..].iter().zip(first + 1..);
        // The ids themselves are far apart in memory, and are seldom looked at here.
        let equal = rest.take_while(|((start, _), at)| {
            *start == self.order[first].0 && self.id(*at) == self.id(first)
        });
        equal.for_each(|((_, number), _)| visit(*number));
    }
}

impl Store {
    /// Returns the places of `objects`, whatever their types. Also finds objects that another process has
    /// stored meanwhile, and waits for objects that may still come from the store that this one follows.
    pub(super) fn places_of(
        &self,
        objects: &[(ObjectType, ObjectId)],
    ) -> Result<Vec<Option<(PackId, Place)>>, StoreError> {
        let mut places = vec![None; objects.len()];
        self.locate_all(objects, &mut |n, pack, place| {
            places[n as usize] = Some((pack, place));
        })?;
        Ok(places)
    }

    /// Calls `found` for each of `objects` whose id is stored.
    pub(super) fn locate_all(
        &self,
        objects: &[(ObjectType, ObjectId)],
        found: &mut OnFound<'_>,
    ) -> Result<(), StoreError> {
        let missing = if objects.len() < LEAST_IDS {
            (0..).take(objects.len()).collect()
        } else {
            self.locate_in_newest(objects, found)?
        };
        for n in missing {
            if let Some((pack, place)) = self.locate_or_wait(&objects[n as usize].1)? {
                found(n, pack, place);
            }
        }
        Ok(())
    }

    /// Locates the objects that tables show at once. Returns the numbers of those that
    /// must be looked for one by one.
    fn locate_in_newest(
        &self,
        objects: &[(ObjectType, ObjectId)],
        found: &mut OnFound<'_>,
    ) -> Result<Vec<u32>, StoreError> {
        let before = self.current().number;
        let (missing, failed) = self.locate_in_tables(objects, found);
        if missing.is_empty() || self.following.is_some() {
            return Ok(missing);
        }
        // Otherwise each absent object would look for a newer catalogue.
        self.refresh()?;
        let current = self.current();
        let is_certain = !failed
            && self.damage.places().is_empty()
            && self.index.has_no_previews()
            && current.is_open()
            && current.number == before;
        Ok(if is_certain { Vec::new() } else { missing })
    }

    /// Returns for each of `entries` whether a table in use has it at its place in `pack`, and whether
    /// the store knows its id.
    pub(super) fn are_placed(&self, pack: PackId, entries: &[Entry]) -> Vec<(bool, bool)> {
        let mut found = vec![(false, false); entries.len()];
        let (others, failed) = self.join_tables(entries, &mut |n, at, place| {
            let is_here = (at, place) == (pack, entries[n as usize].place);
            let (is_placed, is_known) = &mut found[n as usize];
            (*is_placed, *is_known) = (*is_placed || is_here, true);
            is_here
        });
        for n in others {
            let (entry, (is_placed, is_known)) = (&entries[n as usize], &mut found[n as usize]);
            if failed && !*is_placed {
                *is_placed = matches!(self.index.is_placed(&entry.id, pack, entry.place), Ok(true));
            }
            *is_known = *is_known || matches!(self.pack_of(&entry.id), Ok(Some(_)));
        }
        found
    }

    /// Calls `found` for those of `objects` that a table places where no damage is known. Returns the
    /// numbers of the others, and whether a table could not be read.
    fn locate_in_tables(
        &self,
        objects: &[(ObjectType, ObjectId)],
        found: &mut OnFound<'_>,
    ) -> (Vec<u32>, bool) {
        let known_bad = self.damage.places();
        self.join_tables(objects, &mut |n, pack, place| {
            let is_sound = !known_bad.has(pack, place.offset);
            if is_sound {
                found(n, pack, place);
            }
            is_sound
        })
    }

    /// Calls `visit` with the places of `named` in one table after the other. It returns whether it needs
    /// no further place of this id. Returns the numbers of those that need one, and whether a table
    /// could not be read.
    fn join_tables(
        &self,
        named: &[impl HasId],
        visit: &mut dyn FnMut(u32, PackId, Place) -> bool,
    ) -> (Vec<u32>, bool) {
        let sorted = SortedIds::new(named);
        let (mut wanted, mut firsts) = sorted.distinct();
        let mut tables: Vec<Arc<Table>> = self.current().tables.clone();
        // Most ids are found in the largest tables, and the others look for the rest only.
        tables.sort_by_key(|table| Reverse(table.entries()));
        let mut failed = false;
        for table in &tables {
            let mut done = Bits::new(wanted.len());
            let joined = table.join(&wanted, &mut |at, pack, place| {
                let mut is_done = true;
                sorted.each_equal(firsts[at], &mut |n| is_done &= visit(n, pack, place));
                if is_done {
                    done.set(at);
                }
                Ok(())
            });
            // Single look-ups report it, if no other table has what this one hides.
            failed |= joined.is_err();
            let mut next = 0;
            for at in (0..wanted.len()).filter(|at| !done.has(*at)) {
                (wanted[next], firsts[next]) = (wanted[at], firsts[at]);
                next += 1;
            }
            wanted.truncate(next);
            firsts.truncate(next);
            if wanted.is_empty() {
                break;
            }
        }
        let mut rest = Vec::new();
        for first in firsts {
            sorted.each_equal(first, &mut |n| rest.push(n));
        }
        rest.sort_unstable();
        (rest, failed)
    }
}

#[cfg(test)]
mod tests;
