//! Packs that store the same objects, and tables that name one copy of each. Tests of drops and of
//! damage start with them.

use crate::peers::{Done, Place};
use crate::rng::Rng;
use crate::scratch::commit;
use dmv_core::hash::ObjectId;
use dmv_core::object::ObjectType;
use dmv_core::refs::CondemnResult;
use dmv_core::refs::testing;
use dmv_core::repo::Repo;
use dmv_core::store::{Catalogue, CheckedObject, IncomingObjects, LogPack, PackId, PackKind};
use dmv_core::vfs::{OpenMode, OsVfs};
use std::collections::{BTreeSet, HashSet};

/// Returns the ids of the data packs.
pub fn data_packs(repo: &Repo) -> Done<BTreeSet<PackId>> {
    let packs = repo.refs().catalogue()?.packs.into_iter();
    let data = packs.filter(|row| row.kind == PackKind::Data);
    Ok(data.map(|row| row.id).collect())
}

/// Stores chunks once more in one new pack, each batch in a segment of its own. Returns the pack.
///
/// This acts like another process, since a pack stays locked while its writer lives.
pub fn store_again(place: &Place, batches: &[Vec<ObjectId>]) -> Done<PackId> {
    let of_chunks = |batch: &Vec<ObjectId>| {
        let chunks = batch.iter().map(|id| (ObjectType::Chunk, *id));
        chunks.collect::<Vec<_>>()
    };
    let batches: Vec<Vec<(ObjectType, ObjectId)>> = batches.iter().map(of_chunks).collect();
    store_objects_again(place, &batches)
}

/// Does the same for objects of one kind of pack.
pub fn store_objects_again(place: &Place, batches: &[Vec<(ObjectType, ObjectId)>]) -> Done<PackId> {
    let repo = place.again()?;
    let known: HashSet<PackId> = repo.store().packs().iter().map(|row| row.id).collect();
    // With the known packs locked, the writer must begin a new pack.
    let mut locks = Vec::new();
    for id in &known {
        let file = std::fs::File::open(repo.store().pack_path(*id))?;
        // A program that another test is starting may have inherited it for a moment.
        file.lock()?;
        locks.push(file);
    }
    let mut made = None;
    for batch in batches {
        testing::load(repo.store(), repo.refs().catalogue()?)?;
        let mut incoming = IncomingObjects::new(testing::mover(repo.store(), known.clone())?);
        for (ty, id) in batch {
            let mut bytes = Vec::new();
            assert!(repo.store().read_into(*ty, id, &mut bytes)?);
            incoming.add_object(&CheckedObject::new(*ty, bytes)?)?;
        }
        let sealed = incoming.finish()?;
        testing::add_segments(repo.refs(), &sealed.segments, &sealed.relied)?;
        made = sealed.segments.first().map(|row| row.pack).or(made);
    }
    Ok(made.ok_or("nothing was stored")?)
}

/// Removes a pack whose objects are all in other packs. Merged indexes over it go out of use, so that
/// all copies are visible.
pub fn take_away(repo: &Repo, pack: PackId) -> Done {
    let indexes = repo.refs().indexes_over(pack)?;
    testing::forget_indexes(repo.refs(), &indexes)?;
    condemn(repo, pack)?;
    testing::remove_indexes(repo.store(), &indexes);
    std::fs::remove_file(repo.store().pack_path(pack))?;
    testing::load(repo.store(), repo.refs().catalogue()?)?;
    Ok(())
}

/// Takes a pack out of use. Its file stays.
pub fn condemn(repo: &Repo, pack: PackId) -> Done {
    let row = repo.refs().pack(pack)?.ok_or("it is known")?;
    let log = LogPack::open(&OsVfs, repo.store().packs_dir(), repo.id(), OpenMode::Read)?;
    let (lock, seen) = (repo.refs().lock_database()?, repo.refs().seen()?);
    match testing::condemn(repo.refs(), &lock, &log, &[row], seen, &[])? {
        CondemnResult::Done(_) => Ok(()),
        why_not => Err(format!("in vain: {why_not:?}").into()),
    }
}

/// Replaces the tables of all segments by one merged index. Returns `false` if there are too few
/// segments.
pub fn merge(repo: &Repo) -> Done<bool> {
    merge_of(repo, &repo.refs().catalogue()?)
}

/// Does the same for a random part of the segments.
pub fn merge_some(repo: &Repo, rng: &mut Rng) -> Done<bool> {
    let mut some = repo.refs().catalogue()?;
    some.segments.retain(|_| !rng.one_in(4));
    merge_of(repo, &some)
}

fn merge_of(repo: &Repo, catalogue: &Catalogue) -> Done<bool> {
    let Some(merged) = testing::merge_tables(repo.store(), catalogue)? else {
        return Ok(false);
    };
    assert!(testing::register_merged(repo.refs(), &merged)?);
    testing::load(repo.store(), repo.refs().catalogue()?)?;
    Ok(true)
}

/// Writes a file of one chunk for each name, and commits the files. Returns their chunks.
pub fn small_files(place: &Place, names: &[&str], rng: &mut Rng) -> Done<Vec<ObjectId>> {
    let mut ids = Vec::new();
    for name in names {
        let bytes = rng.bytes(10_000);
        place.write(name, &bytes)?;
        ids.push(ObjectType::Chunk.id_of(&bytes));
    }
    commit(&place.again()?, "small files")?;
    Ok(ids)
}

/// Flips a bit of the object with content `bytes` in `pack`, if the pack stores it uncompressed.
/// Returns `false` if it does not, or if the bytes occur twice.
pub fn damage_copy(repo: &Repo, pack: PackId, bytes: &[u8]) -> Done<bool> {
    let path = repo.store().pack_path(pack);
    let mut all = std::fs::read(&path)?;
    let windows = all.windows(bytes.len()).enumerate();
    let mut places = windows.filter(|(_, window)| *window == bytes);
    let (Some((at, _)), None) = (places.next(), places.next()) else {
        return Ok(false);
    };
    all[at + bytes.len() / 2] ^= 0x10;
    std::fs::write(&path, all)?;
    Ok(true)
}
