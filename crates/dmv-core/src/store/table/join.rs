//! Looking up many ids at once.
//!
//! A table of ten million entries fits no cache, so each single look-up waits for the memory or the
//! disk. Sorted ids visit a table from its start to its end: neighbours are read together, and no
//! part is read twice.

use super::{Table, read_exactly};
use crate::hash::ObjectId;
use crate::object::ObjectType;
use crate::store::error::StoreError;
use crate::store::index_entry::{Place, slot};
use crate::store::random_id::PackId;
use std::borrow::Cow;

/// Most bytes of a table that are read at a time, apart from those of one slot.
const BLOCK_BYTES: usize = 1 << 20;
/// Most bytes that are read without need, because one read is faster than two.
const SKIP_BYTES: usize = 32 << 10;

/// An object that is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct WantedObject {
    /// Its id.
    pub id: ObjectId,
    /// Its type.
    pub ty: ObjectType,
}

/// Receives the number of a wanted object, and a place of it.
pub(crate) type OnPlace<'f> = dyn FnMut(usize, PackId, Place) -> Result<(), StoreError> + 'f;

impl Table {
    /// Calls `found` with the places of those of `wanted` that the table has. They must be sorted by
    /// id, without duplicates.
    pub(crate) fn join(
        &self,
        wanted: &[WantedObject],
        found: &mut OnPlace<'_>,
    ) -> Result<(), StoreError> {
        debug_assert!(wanted.windows(2).all(|pair| pair[0].id < pair[1].id));
        let mut next = 0;
        while next < wanted.len() {
            let (last, from, to) = self.block_from(wanted, next);
            let block = self.entries_within(from, to)?;
            let entries = block.as_deref().unwrap_or_default();
            for (at, wanted) in wanted.iter().enumerate().take(last).skip(next) {
                let (first, end) = self.bounds(&wanted.id);
                let slot = self.part(entries, first - from, end - from);
                if let Some((_, pack, place)) = self.search(slot, first, &wanted.id)? {
                    found(at, pack, place)?;
                }
            }
            next = last;
        }
        Ok(())
    }

    /// Returns where the block of entries ends in `wanted` that begins with number `next`, and the
    /// numbers of the block's first entry and of the entry after it.
    fn block_from(&self, wanted: &[WantedObject], next: usize) -> (usize, usize, usize) {
        let (from, mut to) = self.bounds(&wanted[next].id);
        let mut last = next + 1;
        while last < wanted.len() {
            let (first, end) = self.bounds(&wanted[last].id);
            let is_far = first.saturating_sub(to) * self.stride() > SKIP_BYTES;
            let is_long = end > to && (end - from) * self.stride() > BLOCK_BYTES;
            if is_far || is_long {
                break;
            }
            (to, last) = (end, last + 1);
        }
        (last, from, to)
    }

    /// Returns the numbers of the first entry in the slot of `id` and of the entry after the slot.
    fn bounds(&self, id: &ObjectId) -> (usize, usize) {
        match slot(id.as_bytes(), self.bits) {
            0 => (0, self.fanout[0] as usize),
            slot => (self.fanout[slot - 1] as usize, self.fanout[slot] as usize),
        }
    }

    /// Returns the bytes of the entries `from..to`; `None` if there are none.
    fn entries_within(&self, from: usize, to: usize) -> Result<Option<Cow<'_, [u8]>>, StoreError> {
        if from == to {
            return Ok(None);
        }
        if let Some(kept) = self.uses.kept.get() {
            return Ok(Some(self.part(&kept.entries, from, to).into()));
        }
        let stride = self.stride();
        let at = self.entries_at + (from * stride) as u64;
        let bytes = read_exactly(&*self.file, &self.path, at, (to - from) * stride)?;
        Ok(Some(bytes.into()))
    }

    fn part<'e>(&self, entries: &'e [u8], from: usize, to: usize) -> &'e [u8] {
        &entries[from * self.stride()..to * self.stride()]
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{ids, table_of};
    use super::*;
    use std::sync::atomic::Ordering;

    #[test]
    fn a_join_finds_what_single_look_ups_find_and_reads_no_byte_twice() -> Result<(), StoreError> {
        for (n, every) in [
            (0, 1),
            (1, 1),
            (100, 1),
            (5_000, 1),
            (70_000, 1),
            (70_000, 50),
            (70_000, 9_000),
        ] {
            let all = ids(n + n / 2);
            // The table lacks every third.
            let known: Vec<ObjectId> = all
                .iter()
                .enumerate()
                .filter(|(at, _)| at % 3 != 2)
                .map(|(_, id)| *id)
                .collect();
            let (table, file) = table_of(&known)?;
            let wanted: Vec<WantedObject> = all
                .iter()
                .step_by(every)
                .map(|id| WantedObject {
                    id: *id,
                    ty: ObjectType::Chunk,
                })
                .collect();
            let before = file.1.load(Ordering::Relaxed);
            let mut found = Vec::new();
            table.join(&wanted, &mut |at, _, _| {
                found.push(wanted[at].id);
                Ok(())
            })?;
            let read = file.1.load(Ordering::Relaxed) - before;
            let expected = wanted.iter().map(|wanted| wanted.id);
            let expected: Vec<ObjectId> = expected
                .filter(|id| known.binary_search(id).is_ok())
                .collect();
            assert_eq!(found, expected, "{n}, {every}");
            assert!(read <= known.len() * table.stride(), "{n}, {every}: {read}");
            assert!(every < 9_000 || read < 200_000, "{read}");
        }
        Ok(())
    }
}
