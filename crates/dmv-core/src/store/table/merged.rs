//! Writing merged index files.
//!
//! A merged file has the entries of several tables, each id once. docs/format/index.md specifies it. This module
//! does not decide which tables are merged, and does not register the file.

use super::{INDEX_MAGIC, INDEX_VERSION, Table, TableWalk, WALK_BYTES};
use crate::path::{PathContext, PathError};
use crate::store::bad_places::BadPlaces;
use crate::store::error::StoreError;
use crate::store::id_search::head_of;
use crate::store::index_entry::{Entry, fanout_bits, slot};
use crate::store::random_id::PackId;
use crate::vfs::{OpenMode, Vfs, VfsFile};
use std::path::Path;
use std::sync::Arc;

/// Writes one merged index file over `tables`. Returns the number of entries and the file.
///
/// The file is locked, and the caller keeps it until it is registered. It is synced, so that the
/// tables it replaces may go out of use afterwards. For an id in several tables, the first place
/// that is not in `bad` counts.
pub fn write_merged(
    vfs: &dyn Vfs,
    path: &Path,
    tables: &[&Table],
    bad: &BadPlaces,
) -> Result<(u32, Arc<dyn VfsFile>), StoreError> {
    let mut packs: Vec<PackId> = tables
        .iter()
        .flat_map(|table| table.packs_in_use())
        .collect();
    packs.sort();
    packs.dedup();
    let mut ids = 0usize;
    let mut counts: Vec<u32> = Vec::new();
    // First pass: the number of entries and their distribution.
    let most: usize = tables.iter().map(|t| t.n as usize).sum();
    let bits = fanout_bits(most);
    counts.resize(1 << bits, 0);
    merge(tables, bad, &mut |entry, _| {
        counts[slot(entry.id.as_bytes(), bits)] += 1;
        ids += 1;
        Ok(())
    })?;
    let n = u32::try_from(ids).expect("merged tables stay far below 4 Gi entries");
    let mut out = merged_head(&packs, n, bits, &counts);
    let file = create_locked(vfs, path)?;
    let mut hasher = crate::hash::Check::default();
    let mut at = 0u64;
    let mut flush = |out: &mut Vec<u8>| -> Result<(), StoreError> {
        hasher.update(out);
        file.write_at(out, at).context("write", path)?;
        at += out.len() as u64;
        out.clear();
        Ok(())
    };
    merge(tables, bad, &mut |entry, pack| {
        let number = packs
            .binary_search(&pack)
            .expect("every pack was collected above") as u16;
        entry.encode(Some(number), &mut out);
        if out.len() >= WALK_BYTES {
            flush(&mut out)
        } else {
            Ok(())
        }
    })?;
    flush(&mut out)?;
    file.write_at(&hasher.finish(), at).context("write", path)?;
    file.sync().context("sync", path)?;
    Ok((n, file))
}

/// Returns everything before the entries of a merged index file. `counts` are the numbers of entries
/// in each slot of the fan-out.
fn merged_head(packs: &[PackId], entries: u32, bits: u8, counts: &[u32]) -> Vec<u8> {
    let mut out = Vec::with_capacity(WALK_BYTES * 2);
    out.extend_from_slice(INDEX_MAGIC);
    out.extend_from_slice(&INDEX_VERSION.to_le_bytes());
    let p = u16::try_from(packs.len()).expect("a merge covers few packs");
    out.extend_from_slice(&p.to_le_bytes());
    out.extend_from_slice(&entries.to_le_bytes());
    out.push(bits);
    out.extend_from_slice(&[0; 7]);
    packs
        .iter()
        .for_each(|id| out.extend_from_slice(id.as_bytes()));
    let mut sum = 0;
    for count in counts {
        sum += count;
        out.extend_from_slice(&sum.to_le_bytes());
    }
    out
}

/// Creates an index file and locks it. A process that gets the lock later knows that this one no
/// longer intends to register the file.
fn create_locked(vfs: &dyn Vfs, path: &Path) -> Result<Arc<dyn VfsFile>, StoreError> {
    let file = vfs
        .open(path, OpenMode::CreateNew)
        .context("create", path)?;
    let is_ours =
        file.try_lock().context("lock", path)? && file.is_at(path).context("find", path)?;
    if !is_ours {
        // Before this process got the lock, another one treated the file as unregistered.
        return Err(PathError::new("lock", path, std::io::ErrorKind::WouldBlock).into());
    }
    Ok(file)
}

/// Visits the union of `tables` in order of id, with intact copies rather than `bad` ones.
fn merge(
    tables: &[&Table],
    bad: &BadPlaces,
    visit: &mut dyn FnMut(Entry, PackId) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    let (mut walks, mut heads, mut starts) = (Vec::new(), Vec::new(), Vec::new());
    for table in tables {
        let mut walk = TableWalk::new(table);
        if let Some(head) = walk.next()? {
            starts.push(head_of(head.0.id.as_bytes()));
            heads.push(head);
            walks.push(walk);
        }
    }
    let mut equal = Vec::new();
    // Most ids differ in their first bytes, and numbers are compared faster than bytes.
    while let Some(start) = starts.iter().copied().min() {
        equal.clear();
        equal.extend((0..starts.len()).filter(|n| starts[*n] == start));
        let least = equal.iter().map(|n| heads[*n].0.id).min();
        let id = least.expect("at least one begins with the least start");
        equal.retain(|n| heads[*n].0.id == id);
        let is_sound = |n: &&usize| {
            let (entry, pack) = &heads[**n];
            !bad.has(*pack, entry.place.offset)
        };
        let (entry, pack) = heads[*equal.iter().find(is_sound).unwrap_or(&equal[0])];
        visit(entry, pack)?;
        // From the last one, so that what is removed moves none that is still to come.
        for n in equal.drain(..).rev() {
            match walks[n].next()? {
                Some(head) => {
                    starts[n] = head_of(head.0.id.as_bytes());
                    heads[n] = head;
                }
                None => {
                    starts.remove(n);
                    heads.remove(n);
                    walks.remove(n);
                }
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::tests::{ids, table_in};
    use super::*;
    use crate::hash::ObjectId;

    /// Returns ids of which only the last byte differs.
    fn alike(range: std::ops::Range<u8>) -> Vec<ObjectId> {
        let id = |n| {
            let mut bytes = [0x7f; 32];
            bytes[31] = n;
            ObjectId::from_bytes(bytes)
        };
        range.map(id).collect()
    }

    fn join(a: &[ObjectId], b: &[ObjectId]) -> Vec<ObjectId> {
        let mut all = [a, b].concat();
        all.sort_unstable();
        all
    }

    #[test]
    fn each_id_is_visited_once_in_order_with_its_first_intact_copy() -> Result<(), StoreError> {
        let ids = ids(3_000);
        let of = [
            join(&ids[..2_000], &alike(0..30)),
            Vec::new(),
            join(&ids[1_000..], &alike(20..60)),
            join(&ids[1_500..1_600], &alike(10..25)),
        ];
        let packs: Vec<PackId> = (0..4).map(|n| PackId::from_bytes([n; 16])).collect();
        let mut tables = Vec::new();
        for (pack, ids) in packs.iter().zip(&of) {
            tables.push(table_in(*pack, 64, ids)?.0);
        }
        let tables: Vec<&Table> = tables.iter().collect();
        let every = join(&ids, &alike(0..60));
        let mut bad = BadPlaces::default();
        for damaged in [None, Some(packs[0]), Some(packs[2])] {
            if let Some(pack) = damaged {
                bad.insert(pack, 64);
            }
            let mut met = Vec::new();
            merge(&tables, &bad, &mut |entry, pack| {
                met.push((entry.id, pack));
                Ok(())
            })?;
            let expected = every.iter().map(|id| {
                let copies = || packs.iter().zip(&of).filter(|(_, ids)| ids.contains(id));
                let intact = copies().find(|(pack, _)| !bad.has(**pack, 64));
                let copy = intact.or_else(|| copies().next());
                (*id, *copy.expect("each id is in a table").0)
            });
            assert!(met.iter().copied().eq(expected), "damaged: {damaged:?}");
        }
        Ok(())
    }
}
