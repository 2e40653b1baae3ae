//! Looking up many objects at once gives the answers of single look-ups.

use super::*;
use crate::object::ObjectRead;
use crate::refs::Timestamp;
use crate::repo::{OperationRequest, Repo};
use crate::store::{BadPlaces, CheckedObject};
use dmv_random::Rng;
use std::path::Path;

type Outcome<T = ()> = Result<T, Box<dyn std::error::Error>>;

fn made(dir: &Path) -> Outcome<Repo> {
    let time = Timestamp {
        seconds: 0,
        nanos: 0,
        tz_minutes: 0,
    };
    let (who, command) = ("test".to_owned(), "test".to_owned());
    Ok(Repo::init(
        dir,
        "main",
        true,
        OperationRequest { time, who, command },
    )?)
}

fn chunk(n: u64) -> Outcome<CheckedObject> {
    Ok(CheckedObject::new(
        ObjectType::Chunk,
        n.to_le_bytes().to_vec(),
    )?)
}

/// Stores these chunks in a job of their own.
fn store(repo: &Repo, numbers: impl IntoIterator<Item = u64>) -> Outcome {
    let mut incoming = repo.incoming()?;
    for n in numbers {
        incoming.add_object(&chunk(n)?)?;
    }
    Ok(repo.keep_incoming(incoming)?)
}

fn id(n: u64) -> Outcome<ObjectId> {
    Ok(chunk(n)?.id())
}

#[test]
fn many_ids_are_located_as_each_of_them_alone() -> Outcome {
    for seed in 1..=6_u64 {
        let dir = tempfile::tempdir()?;
        let repo = made(dir.path())?;
        let mut random = Rng::new(seed);
        // Several tables, some of them merged.
        for job in 0..1 + random.below(12) {
            let count = 1 + random.below(400);
            store(&repo, (0..count).map(|n| job * 1_000 + n))?;
        }
        let here = repo.store();
        for len in [0, 1, LEAST_IDS - 1, LEAST_IDS, 3_000] {
            let mut ids: Vec<(ObjectType, ObjectId)> = Vec::new();
            for _ in 0..len {
                let (job, n) = (random.below(14), random.below(500));
                ids.push((ObjectType::Chunk, id(job * 1_000 + n)?));
            }
            if random.below(2) == 0
                && let Some((pack, place)) = ids.iter().find_map(|(_, id)| here.locate(id).ok()?)
            {
                let mut bad = BadPlaces::default();
                bad.insert(pack, place.offset);
                here.remember_bad(bad)?;
            }
            let mut alone = Vec::new();
            for (_, id) in &ids {
                alone.push(here.locate_or_wait(id)?);
            }
            assert_eq!(here.places_of(&ids)?, alone, "seed {seed}, {len} ids");
            let held = here.holds_all(&ids)?;
            let expected: Vec<bool> = alone.iter().map(Option::is_some).collect();
            assert_eq!(held, expected, "seed {seed}, {len} ids");
            let trees = ids.iter().map(|(_, id)| (ObjectType::Tree, *id));
            let held = here.holds_all(&trees.collect::<Vec<_>>())?;
            assert!(held.iter().all(|held| !held), "they are no trees");
        }
    }
    Ok(())
}

#[test]
fn what_another_process_stores_meanwhile_is_found() -> Outcome {
    let dir = tempfile::tempdir()?;
    let repo = made(dir.path())?;
    store(&repo, 0..1_000)?;
    let other = Repo::open_place(crate::repo::RepositoryLocation {
        dmv: dir.path().to_owned(),
        worktree: None,
    })?;
    store(&other, 1_000..2_000)?;
    let mut ids = Vec::new();
    for n in 0..3_000 {
        ids.push((ObjectType::Chunk, id(n)?));
    }
    let held = repo.store().holds_all(&ids)?;
    assert_eq!(held.iter().filter(|held| **held).count(), 2_000);
    assert!(held[..2_000].iter().all(|held| *held));
    Ok(())
}

#[test]
fn entries_are_placed_only_where_a_table_has_them() -> Outcome {
    let dir = tempfile::tempdir()?;
    let repo = made(dir.path())?;
    store(&repo, 0..1_000)?;
    store(&repo, 2_000..2_500)?;
    let here = repo.store();
    let (mut entries, mut expected) = (Vec::new(), Vec::new());
    let (pack, _) = here.locate(&id(0)?)?.ok_or("it is stored")?;
    for n in 0..1_200 {
        let id = id(n)?;
        let place = here.locate(&id)?.map(|(_, place)| place);
        let mut at = place.unwrap_or(Place {
            offset: 64,
            ordinal: 0,
            ty: ObjectType::Chunk,
        });
        let is_moved = n % 5 == 0;
        at.offset += u64::from(is_moved);
        entries.push(Entry { id, place: at });
        expected.push((place.is_some() && !is_moved, place.is_some()));
    }
    // The same id at two places: one of them is right.
    let twice = entries[1];
    entries.push(Entry {
        place: Place {
            offset: 1,
            ..twice.place
        },
        ..twice
    });
    expected.push((false, true));
    assert_eq!(here.are_placed(pack, &entries), expected);
    let elsewhere = PackId::from_bytes([9; 16]);
    assert!(
        here.are_placed(elsewhere, &entries)
            .iter()
            .all(|(is_placed, _)| !is_placed)
    );
    Ok(())
}

#[test]
fn a_writer_claims_new_objects_without_reading_tables_for_each() -> Outcome {
    let dir = tempfile::tempdir()?;
    let repo = made(dir.path())?;
    for job in 0..5 {
        store(&repo, job * 10_000..job * 10_000 + 4_000)?;
    }
    let here = repo.store();
    let writer = here.writer()?;
    for n in 100_000..120_000 {
        assert!(writer.claim(&id(n)?)?, "{n} is new");
        assert!(!writer.claim(&id(n)?)?, "{n} was claimed");
    }
    let filtered = |table: &Arc<Table>| table.is_in_filter(here.index.filter.number());
    assert!(here.current().tables.iter().all(filtered));
    for n in (0..5).flat_map(|job| job * 10_000..job * 10_000 + 4_000) {
        assert!(!writer.claim(&id(n)?)?, "{n} is stored");
    }
    Ok(())
}

#[test]
fn stored_objects_are_found_without_single_look_ups() -> Outcome {
    let dir = tempfile::tempdir()?;
    let made = made(dir.path())?;
    for job in 0..4 {
        store(&made, job * 10_000..job * 10_000 + 3_000)?;
    }
    // The jobs have asked whether their objects are new.
    let afresh = Repo::open_place(crate::repo::RepositoryLocation {
        dmv: dir.path().to_owned(),
        worktree: None,
    })?;
    let here = afresh.store();
    let mut ids = Vec::new();
    for n in 0..40_000 {
        ids.push((ObjectType::Chunk, id(n)?));
    }
    let held = here.holds_all(&ids)?;
    assert_eq!(held.iter().filter(|held| **held).count(), 12_000);
    let tables = &here.current().tables;
    let single: u32 = tables.iter().map(|table| table.look_ups()).sum();
    assert_eq!(single, 0, "neither for what is there nor for what is not");
    Ok(())
}
