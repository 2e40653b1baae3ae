//! Marking in bulk finds what a plain walk finds: on stores with several packs, merged indexes,
//! hidden copies, absent objects and damage.

use dmv_core::hash::ObjectId;
use dmv_core::object::{ObjectRead, ObjectType};
use dmv_core::refs::testing;
use dmv_core::repo::Repo;
use dmv_core::store::{Lack, Mark, MarkEnd, Marker, PackId, SegmentRow};
use dmv_tests::packs::{merge_some, store_objects_again, take_away};
use dmv_tests::peers::{Done, Place};
use dmv_tests::rng::Rng;
use std::collections::{BTreeMap, BTreeSet};

type Object = (ObjectType, ObjectId);

/// Makes commits in several packs. Some objects are stored twice, and merged indexes hide some of
/// the copies. Sometimes a pack is missing.
fn store_at_random(rng: &mut Rng) -> Done<Place> {
    let place = Place::new()?;
    let blocks: Vec<Vec<u8>> = (0..3).map(|_| rng.bytes(300_000)).collect();
    for commit in 0..2 + rng.below(5) {
        for _ in 0..1 + rng.below(8) {
            let name = format!("d{}/e{}/f{}", rng.below(3), rng.below(2), rng.below(9));
            let content = match rng.below(6) {
                0 => blocks[rng.below(3) as usize].repeat(1 + rng.below(3) as usize),
                _ => {
                    let len = rng.below(9_000) as usize;
                    rng.bytes(len)
                }
            };
            place.write(&name, &content)?;
        }
        // While its packs are locked, a commit begins new ones.
        let held = rng.one_in(2).then(|| testing::writer(place.repo.store()));
        dmv_tests::scratch::commit(&place.again()?, &format!("commit {commit}"))?;
        drop(held);
        if rng.one_in(3) {
            merge_some(&place.again()?, rng)?;
        }
    }
    for is_chunk in [true, false] {
        let mut objects = all_objects(&place.again()?)?;
        objects.retain(|(ty, _)| (*ty == ObjectType::Chunk) == is_chunk && rng.one_in(3));
        let batches: Vec<Vec<Object>> = objects.chunks(4).map(<[Object]>::to_vec).collect();
        if !batches.is_empty() {
            store_objects_again(&place, &batches)?;
        }
    }
    merge_some(&place.again()?, rng)?;
    let repo = place.again()?;
    if rng.one_in(2) {
        let packs = repo.store().packs();
        take_away(&repo, packs[rng.below(packs.len() as u64) as usize].id)?;
    }
    drop(repo);
    Ok(place)
}

fn all_objects(repo: &Repo) -> Done<Vec<Object>> {
    let mut objects = BTreeSet::new();
    repo.store().for_each_object(&mut |id, ty, _| {
        objects.insert((ty, id));
        Ok(())
    })?;
    Ok(objects.into_iter().collect())
}

/// Walks from the roots with a map of all objects. Returns what is stored, and what is not.
fn plain_walk(repo: &Repo, roots: &[Object]) -> Done<(BTreeSet<ObjectId>, BTreeSet<Object>)> {
    let (mut needed, mut lacking) = (BTreeSet::new(), BTreeSet::new());
    let mut stack = roots.to_vec();
    while let Some((ty, id)) = stack.pop() {
        if ty == ObjectType::Chunk {
            needed.insert(id);
        } else if !lacking.contains(&(ty, id)) && !needed.contains(&id) {
            match repo.store().read(ty, &id) {
                Ok(Some(bytes)) => {
                    needed.insert(id);
                    stack.extend(ty.links(&bytes)?);
                }
                _ => drop(lacking.insert((ty, id))),
            }
        }
    }
    Ok((needed, lacking))
}

/// Marks from the roots in bulk, with pauses. Returns for each place whether it is marked, and
/// what is lacking.
struct Marked {
    places: BTreeMap<(PackId, u64, u16), (ObjectId, bool)>,
    lacking: BTreeSet<Object>,
    unmapped: BTreeSet<PackId>,
}

fn segments_of(repo: &Repo) -> Done<Vec<SegmentRow>> {
    let mut segments = Vec::new();
    for row in repo.store().packs() {
        segments.extend(repo.refs().segments_of(row.id)?);
    }
    Ok(segments)
}

fn mark(repo: &Repo, roots: &[Object], rng: &mut Rng) -> Done<Marked> {
    let store = repo.store();
    let segments = segments_of(repo)?;
    let map = store
        .files()
        .frame_map(&store.packs(), &segments, &|_| false, &|| true)?;
    let mut marker = Marker::new(store, map.ok_or("it goes on")?)?;
    let mut lacking = BTreeSet::new();
    for part in roots.chunks(2) {
        part.iter().for_each(|(ty, id)| marker.root(*ty, *id));
        let left = std::cell::Cell::new(rng.below(20));
        let stops = || left.replace(left.get().saturating_sub(1)) > 0;
        let mut note = |lack: Lack| {
            lacking.insert((lack.ty, lack.id));
            Ok(())
        };
        marker.settle(&stops, &mut note)?;
        assert_eq!(marker.settle(&|| true, &mut note)?, MarkEnd::All);
    }
    let unmapped = marker.map().unmapped().iter().map(|(id, _)| *id).collect();
    let mut places = BTreeMap::new();
    for segment in &segments {
        // A damaged table has no places.
        let _ = store.files().each_of_segment(segment, &mut |id, place| {
            if let Some(is_marked) = marker.is_marked(segment.pack, place) {
                let key = (segment.pack, place.offset, place.ordinal);
                places.insert(key, (*id, is_marked));
            }
            Ok(())
        });
    }
    let uses = marker.uses();
    let marked: u64 = uses.iter().map(|pack| pack.marked).sum();
    assert_eq!(marked as usize, marker.marked());
    for pack in uses {
        assert!(pack.staying_bytes() <= pack.row.len, "{pack:?}");
    }
    Ok(Marked {
        places,
        lacking,
        unmapped,
    })
}

fn some_roots(repo: &Repo, rng: &mut Rng) -> Done<Vec<Object>> {
    let mut roots = all_objects(repo)?;
    roots.retain(|(ty, _)| match ty {
        ObjectType::Commit => rng.one_in(2),
        ObjectType::Chunk => rng.one_in(40),
        _ => rng.one_in(12),
    });
    rng.shuffle(&mut roots);
    roots.push((ObjectType::Tree, ObjectType::Tree.id_of(b"absent")));
    roots.push((ObjectType::Commit, ObjectType::Commit.id_of(b"absent")));
    Ok(roots)
}

#[test]
fn marking_in_bulk_marks_every_copy_of_what_a_plain_walk_finds() -> Done {
    let mut hidden = 0;
    for seed in 1..=16 {
        let mut rng = Rng::new(seed);
        let place = store_at_random(&mut rng)?;
        let repo = place.again()?;
        let roots = some_roots(&repo, &mut rng)?;
        let (needed, lacking) = plain_walk(&repo, &roots)?;
        let marked = mark(&repo, &roots, &mut rng)?;
        assert!(marked.unmapped.is_empty(), "seed {seed}");
        for ((pack, offset, ordinal), (id, is_marked)) in &marked.places {
            let place = format!("seed {seed}, {pack} {offset} {ordinal}: {id}");
            assert_eq!(*is_marked, needed.contains(id), "{place}");
        }
        assert_eq!(marked.lacking, lacking, "seed {seed}");
        // The marks by tables say the same of every object that a table names.
        let mut marks = repo.store().marks();
        let mut stack = roots;
        while let Some((ty, id)) = stack.pop() {
            if marks.mark(&id)? == Mark::New
                && ty != ObjectType::Chunk
                && let Some(bytes) = repo.store().read(ty, &id)?
            {
                stack.extend(ty.links(&bytes)?);
            }
        }
        let mut listed = 0;
        marks.each(&mut |id, pack, place, is_marked| {
            listed += 1;
            let found = marked.places.get(&(pack, place.offset, place.ordinal));
            assert_eq!(found, Some(&(*id, is_marked)), "seed {seed}");
            Ok(())
        })?;
        hidden += marked.places.len() - listed;
    }
    assert!(hidden > 5, "merged indexes hide copies: {hidden}");
    Ok(())
}

/// A damaged frame is replaced by its copies, and a pack with a damaged table is left out. What
/// cannot be read is reported, and nothing that can be read stays without a mark.
#[test]
fn damage_hides_nothing_from_marking() -> Done {
    let (mut lacked, mut left_out) = (0, 0);
    for seed in 1..=30 {
        let mut rng = Rng::new(1000 + seed);
        let place = store_at_random(&mut rng)?;
        let repo = place.again()?;
        let roots = some_roots(&repo, &mut rng)?;
        let packs = repo.store().packs();
        for _ in 0..1 + rng.below(4) {
            let row = packs[rng.below(packs.len() as u64) as usize];
            let path = repo.store().pack_path(row.id);
            let mut bytes = std::fs::read(&path)?;
            // Often in the index of the last segment.
            let at = if rng.one_in(4) {
                row.len - 33 - rng.below(60)
            } else {
                64 + rng.below(row.len - 64)
            };
            bytes[at as usize] ^= 1 << rng.below(8);
            std::fs::write(&path, bytes)?;
        }
        drop(repo);
        let repo = place.again()?;
        if repo.store().check_tables().is_err() {
            continue;
        }
        let (needed, lacking) = plain_walk(&repo, &roots)?;
        let marked = mark(&repo, &roots, &mut rng)?;
        for (id, is_marked) in marked.places.values() {
            let is_lacking = || marked.lacking.iter().any(|(_, lacking)| lacking == id);
            // A hidden copy is needed if the copy that counts is in a pack that is left out.
            let may_be = || is_lacking() || !marked.unmapped.is_empty();
            assert!(*is_marked || !needed.contains(id), "seed {seed}: {id}");
            assert!(
                !is_marked || needed.contains(id) || may_be(),
                "seed {seed}: {id}"
            );
        }
        assert_eq!(marked.lacking, lacking, "seed {seed}");
        lacked += marked.lacking.len();
        left_out += marked.unmapped.len();
    }
    assert!(lacked > 8 && left_out > 0, "{lacked}, {left_out}");
    Ok(())
}
