//! A process that frees all garbage and moves everything else, for tests of those beside it.
//!
//! It is written for tests: it walks all objects with a set in memory, and knows the keys of the view by
//! itself. So it also checks what the product takes for garbage.

use crate::peers::Done;
use dmv_core::hash::ObjectId;
use dmv_core::object::{ObjectRead, ObjectType};
use dmv_core::refs::CondemnResult;
use dmv_core::refs::testing;
use dmv_core::repo::Repo;
use dmv_core::store::{LogPack, PackId, PackRow};
use dmv_core::vfs::{OpenMode, OsVfs, Vfs, VfsFile};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;

/// Returns the ids that a value may mean: raw ones, and those among the words of a text.
fn ids_in(value: &[u8]) -> Vec<ObjectId> {
    let (raw, rest) = value.as_chunks::<32>();
    let mut ids = Vec::new();
    if rest.is_empty() {
        ids.extend(raw.iter().map(|id| ObjectId::from_bytes(*id)));
    }
    let text = String::from_utf8_lossy(value);
    ids.extend(text.split_whitespace().filter_map(ObjectId::from_hex));
    ids
}

/// Returns all objects that the view and the operations that undo can reach lead to.
pub fn live(repo: &Repo) -> Done<HashSet<ObjectId>> {
    let from = match repo.refs().get("log/from")? {
        Some(value) => String::from_utf8(value)?.parse()?,
        None => 0,
    };
    let mut stack = Vec::new();
    for (_, value) in repo.refs().with_prefix("")? {
        stack.extend(ids_in(&value));
    }
    for operation in repo.refs().operations(usize::MAX)? {
        let changes = operation.changes.iter().filter(|_| operation.seq >= from);
        let values = changes.flat_map(|change| change.old.iter().chain(&change.new));
        stack.extend(values.flat_map(|value| ids_in(value)));
    }
    let mut live = HashSet::new();
    while let Some(id) = stack.pop() {
        if !live.insert(id) {
            continue;
        }
        for number in 1..=5 {
            let ty = ObjectType::from_number(number).ok_or("there are five types")?;
            if let Some(bytes) = repo.store().read(ty, &id)? {
                stack.extend(ty.links(&bytes)?.into_iter().map(|(_, id)| id));
            }
        }
    }
    Ok(live)
}

/// Moves everything that is live into new packs, and frees the others. Leaves out packs that another
/// process writes to. Returns how many objects went, or `None` if another process is at its commit
/// point.
pub fn free_all(dir: &Path) -> Done<Option<usize>> {
    let repo = Repo::open(dir)?;
    let Some(lock) = repo.refs().try_lock_database()? else {
        return Ok(None);
    };
    drop(lock);
    let seen = repo.refs().seen()?;
    repo.store().refresh()?;
    let live = live(&repo)?;
    let mut leaving: Vec<(PackRow, Arc<dyn VfsFile>)> = Vec::new();
    for row in repo.refs().catalogue()?.packs {
        let file = OsVfs.open(&repo.store().pack_path(row.id), OpenMode::Append)?;
        if file.try_lock()? {
            leaving.push((row, file));
        }
    }
    let ids: HashSet<PackId> = leaving.iter().map(|(row, _)| row.id).collect();
    let mut frames: HashMap<PackId, BTreeSet<u64>> = HashMap::new();
    let mut gone = HashSet::new();
    repo.store().marks().each(&mut |id, pack, place, _| {
        if live.contains(id) {
            frames.entry(pack).or_default().insert(place.offset);
        } else if ids.contains(&pack) {
            gone.insert(*id);
        }
        Ok(())
    })?;
    for (row, _) in &leaving {
        let frames = frames.remove(&row.id).unwrap_or_default();
        let stays = |id: &ObjectId| Ok(live.contains(id));
        let moved = testing::move_out(repo.store(), row.id, &ids, &frames, &stays)?;
        let refs = repo.refs();
        testing::add_segments(refs, &moved.segments, &moved.relied)?;
        testing::adopt(repo.store(), &moved);
    }
    let log = LogPack::open(&OsVfs, repo.store().packs_dir(), repo.id(), OpenMode::Read)?;
    let rows: Vec<PackRow> = leaving.iter().map(|(row, _)| *row).collect();
    let (lock, mut dissolved) = (repo.refs().lock_database()?, Vec::new());
    loop {
        let done = testing::condemn(repo.refs(), &lock, &log, &rows, seen, &dissolved)?;
        match done {
            CondemnResult::Done(_) => break,
            CondemnResult::Hiding(indexes) => dissolved.extend(indexes),
            why_not => return Err(format!("in vain: {why_not:?}").into()),
        }
    }
    for (row, _) in &leaving {
        std::fs::remove_file(repo.store().pack_path(row.id))?;
    }
    let rows: Vec<PackId> = rows.iter().map(|row| row.id).collect();
    testing::forget_leaving(repo.refs(), &lock, &rows)?;
    Ok(Some(gone.len()))
}
