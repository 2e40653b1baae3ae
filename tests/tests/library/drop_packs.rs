//! Drops from several packs that have some objects in common. The needed objects remain, whatever
//! the indexes say and wherever the drop is interrupted.

use dmv_core::hash::ObjectId;
use dmv_core::object::ObjectType;
use dmv_core::object::list::{Blob, BlobChunks};
use dmv_core::refs::testing;
use dmv_core::repo::{Repo, RepositoryLocation as RepoPlace};
use dmv_core::store::PackId;
use dmv_core::vfs::{OpenMode, Vfs};
use dmv_tests::drops::{Contents, contents, drop_blobs, droppable, dropped, keeps_all_but};
use dmv_tests::packs::{
    damage_copy, data_packs, merge, merge_some, small_files, store_again, take_away,
};
use dmv_tests::peers::{Done, Place};
use dmv_tests::rng::Rng;
use dmv_tests::scratch::commit;
use dmv_tests::simfs::{SimVfs, Survival};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use tempfile::TempDir;

/// Two packs have `x`, and a merged index names the copy in one of them only. A third pack is
/// removed first. So the merged index goes out of use, and both copies become visible.
#[test]
fn what_two_packs_hold_outlives_that_both_are_rewritten() -> Done {
    let place = Place::new()?;
    let mut rng = Rng::new(1);
    let names = ["x", "a0", "a1", "a2", "b0", "b1", "b2", "goes0", "goes1"];
    let ids = small_files(&place, &names, &mut rng)?;
    let contents = contents(&place.again()?)?;
    let repo = place.again()?;
    let first = data_packs(&repo)?.pop_first().ok_or("a pack")?;
    let of = |numbers: &[usize]| -> Vec<Vec<ObjectId>> {
        numbers.iter().map(|n| vec![ids[*n]]).collect()
    };
    let (a, b) = (
        store_again(&place, &of(&[0, 1, 2, 3]))?,
        store_again(&place, &of(&[0, 4, 5, 6]))?,
    );
    let goes = store_again(&place, &of(&[7, 8]))?;
    let repo = place.again()?;
    take_away(&repo, first)?;
    assert!(merge(&repo)?);
    let named = repo.store().pack_of(&ids[0])?.ok_or("it is here")?;
    // The pack that the index names has more content to free, so it is rewritten first.
    let numbers = if named == a {
        [1, 2, 3, 4, 5, 7, 8]
    } else {
        [4, 5, 6, 1, 2, 7, 8]
    };
    assert!(named == a || named == b);
    drop(repo);
    let blobs: Vec<Blob> = numbers.iter().map(|n| contents[&ids[*n]].0).collect();
    let freed = drop_blobs(&place.again()?, &blobs)?;
    assert_eq!(freed.why_not_freed, None);
    let now = place.again()?;
    keeps_all_but(&now, &contents, &dropped(&now)?)?;
    let left = data_packs(&now)?;
    assert!([a, b, goes].iter().all(|pack| !left.contains(pack)));
    assert!(freed.freed_bytes > 70_000, "{freed:?}");
    drop(now);
    place.is_sound()
}

/// An unreadable index names no objects. The objects of its pack are needed nevertheless.
#[test]
fn a_pack_whose_index_is_damaged_stays() -> Done {
    // Offsets from the end of the pack: in the trailer, in the index, and in an id there.
    for back in [3, 60, 100] {
        let place = Place::new()?;
        let mut rng = Rng::new(2);
        let ids = small_files(&place, &["stays", "goes"], &mut rng)?;
        let contents = contents(&place.again()?)?;
        let first = data_packs(&place.again()?)?.pop_first().ok_or("a pack")?;
        let stays = store_again(&place, &[vec![ids[0]]])?;
        store_again(&place, &[vec![ids[1]]])?;
        take_away(&place.again()?, first)?;
        let path = place.again()?.store().pack_path(stays);
        let whole = std::fs::read(&path)?;
        let mut bytes = whole.clone();
        let at = bytes.len() - back;
        bytes[at] ^= 0x10;
        std::fs::write(&path, bytes)?;
        let refused = drop_blobs(&place.again()?, &[contents[&ids[1]].0]);
        let refused = refused.expect_err("an index is damaged").to_string();
        assert!(refused.starts_with("an index is damaged"), "{refused}");
        assert!(path.exists());
        std::fs::write(&path, whole)?;
        keeps_all_but(&place.again()?, &contents, &BTreeSet::new())?;
    }
    Ok(())
}

/// A repository whose packs and index files lie on a simulated disk.
struct Lab {
    dir: TempDir,
    sim: SimVfs,
    contents: Contents,
}

impl Lab {
    /// Takes over a repository that no process has open.
    fn over(dir: TempDir) -> Done<Lab> {
        let repo = Repo::open(dir.path())?;
        let sim = SimVfs::new(repo.dmv_dir());
        for part in ["packs", "index"] {
            sim.import(&repo.dmv_dir().join(part))?;
        }
        let contents = contents(&repo)?;
        Ok(Lab { dir, sim, contents })
    }

    fn open(&self) -> Done<Repo> {
        let root = self.dir.path().to_owned();
        let place = RepoPlace {
            dmv: root.join(".dmv"),
            worktree: Some((root, "main".into())),
        };
        Ok(Repo::open_place_on(place, Arc::new(self.sim.clone()))?)
    }

    /// Drops, with a crash in operation `at`. Checks the repository after this crash and after two
    /// further ones: they lose all, none and some of the unsynced data. Returns whether the first
    /// crash happened.
    fn crash_in_drop(mut self, at: u64, goes: &[Blob]) -> Done<bool> {
        self.sim.crash_at(at);
        let done = drop_blobs(&self.open()?, goes);
        let crashed = self.sim.has_crashed();
        if !crashed {
            done?;
        }
        let survival = [Survival::Nothing, Survival::Everything, Survival::Some];
        for (seed, survival) in survival.into_iter().enumerate() {
            let dmv = self.dir.path().join(".dmv");
            let mut rng = Rng::new(seed as u64 + at);
            self.sim = self.sim.crash(&dmv, survival, &mut rng);
            self.check(goes)
                .map_err(|e| format!("operation {at}, {survival:?}: {e}"))?;
        }
        Ok(crashed)
    }

    fn check(&self, goes: &[Blob]) -> Done {
        let repo = self.open()?;
        keeps_all_but(&repo, &self.contents, &dropped(&repo)?)?;
        // A pack is in use and there, or it leaves, or it is gone. Others belong to the killed job.
        for row in repo.refs().catalogue()?.packs {
            assert!(!repo.refs().is_leaving(row.id)?);
            self.sim
                .open(&repo.store().pack_path(row.id), OpenMode::Read)?;
        }
        let leaving = repo.refs().leaving()?;
        // A file that is recorded as dropped, but is stored again, can be dropped again.
        drop_blobs(&repo, goes)?;
        let goes: BTreeSet<ObjectId> = goes.iter().map(|blob| blob.id).collect();
        let repo = self.open()?;
        assert_eq!(dropped(&repo)?, goes);
        assert_eq!(repo.refs().leaving()?, []);
        for id in leaving {
            let file = self.sim.open(&repo.store().pack_path(id), OpenMode::Read);
            assert!(file.is_err(), "{id} is still there");
        }
        keeps_all_but(&repo, &self.contents, &goes)
    }
}

/// Makes files in packs of their own, a file that shares its pack, and the files to drop.
fn packs_and_company() -> Done<(TempDir, Vec<Blob>)> {
    let Place { dir, repo } = Place::new()?;
    let write = |name: &str, len: usize| {
        std::fs::write(
            dir.path().join(name),
            Rng::new(name.len() as u64).bytes(len),
        )
    };
    write("stays", 200_000)?;
    commit(&repo, "one")?;
    for name in ["goes", "goes too"] {
        let held = testing::writer(repo.store())?;
        write("beside", 30_000)?;
        write(name, 200_000)?;
        commit(&Repo::open(dir.path())?, name)?;
        drop(held);
    }
    // These files share a pack, so it must be rewritten.
    let held = testing::writer(repo.store())?;
    for name in ["goes, in company", "stays, beside"] {
        write(name, 90_000)?;
    }
    commit(&Repo::open(dir.path())?, "company")?;
    drop(held);
    drop(repo);
    let goes = droppable(&Repo::open(dir.path())?, "goes*")?.files;
    let goes: Vec<Blob> = goes.into_iter().map(|(_, blob)| blob).collect();
    assert_eq!(goes.len(), 3);
    Ok((dir, goes))
}

#[test]
fn a_crash_at_any_point_of_a_drop_loses_nothing_else() -> Done {
    let mut crashes = 0;
    for at in 1.. {
        let (dir, goes) = packs_and_company()?;
        if !Lab::over(dir)?.crash_in_drop(at, &goes)? {
            break;
        }
        crashes += 1;
    }
    assert!(
        crashes >= 8,
        "packs are written, synced and removed: {crashes}"
    );
    Ok(())
}

/// Makes files that share chunks, in packs that share chunks. Each pack has several segments, and
/// some segments have a merged index. Returns some of the files.
fn packs_at_random(seed: u64) -> Done<(Place, Vec<Blob>)> {
    let mut rng = Rng::new(seed);
    let place = Place::new()?;
    let blocks: Vec<Vec<u8>> = (0..3).map(|_| rng.bytes(150_000)).collect();
    for n in 0..20 {
        let content = match rng.below(5) {
            0 => [0, 1].map(|_| &blocks[rng.below(3) as usize][..]).concat(),
            _ => {
                let len = 200 + rng.below(12_000) as usize;
                rng.bytes(len)
            }
        };
        place.write(&format!("f{n}"), &content)?;
    }
    commit(&place.again()?, "all")?;
    let repo = place.again()?;
    let files: Vec<Blob> = contents(&repo)?.into_values().map(|file| file.0).collect();
    let mut chunks = BTreeSet::new();
    for blob in &files {
        for chunk in BlobChunks::new(repo.objects(), *blob) {
            chunks.insert(chunk?.1);
        }
    }
    let chunks: Vec<ObjectId> = chunks.into_iter().collect();
    let packs = 2 + rng.below(4);
    let mut segments: Vec<Vec<Vec<ObjectId>>> = Vec::new();
    for _ in 0..packs {
        let batches = 1 + rng.below(4) as usize;
        segments.push(vec![Vec::new(); batches]);
    }
    for id in &chunks {
        for _ in 0..1 + rng.below(2) {
            let pack = &mut segments[rng.below(packs) as usize];
            let batch = rng.below(pack.len() as u64) as usize;
            let is_known = pack.iter().flatten().any(|known| known == id);
            pack[batch].extend((!is_known).then_some(*id));
        }
    }
    let first = data_packs(&repo)?.pop_first().ok_or("a pack")?;
    for mut batches in segments {
        batches.retain(|batch| !batch.is_empty());
        if !batches.is_empty() {
            store_again(&place, &batches)?;
        }
    }
    let repo = place.again()?;
    take_away(&repo, first)?;
    if rng.one_in(2) {
        merge_some(&repo, &mut rng)?;
    }
    let goes = files.into_iter().filter(|_| !rng.one_in(3)).collect();
    Ok((place, goes))
}

#[test]
fn whatever_several_packs_hold_only_what_is_dropped_goes() -> Done {
    for seed in 1..=24 {
        let failed = |e: Box<dyn std::error::Error>| format!("seed {seed}: {e}");
        let (place, goes) = packs_at_random(seed)?;
        let contents = contents(&place.again()?)?;
        let mut dropped_now = BTreeSet::new();
        for part in goes.chunks(goes.len() / 2 + 1) {
            dropped_now.extend(part.iter().map(|blob| blob.id));
            let freed = drop_blobs(&place.again()?, part).map_err(failed)?;
            assert_eq!(freed.why_not_freed, None, "seed {seed}");
            let now = place.again()?;
            keeps_all_but(&now, &contents, &dropped_now).map_err(failed)?;
        }
        place.is_sound().map_err(failed)?;
        // Behind a merged index, another copy may have become visible. Two further drops remove
        // these copies.
        for _ in 0..2 {
            drop_blobs(&place.again()?, &[])?;
        }
        wastes_little(&place.again()?, &contents, &dropped_now).map_err(failed)?;
    }
    Ok(())
}

/// One copy of each object that is stored twice is damaged, and no check has found it. Files that
/// can be read before a drop can be read after it.
#[test]
fn what_is_needed_outlives_a_drop_by_its_one_whole_copy() -> Done {
    let (mut damaged, mut left) = (0, 0);
    for seed in 1..=12 {
        let failed = |e: Box<dyn std::error::Error>| format!("seed {seed}: {e}");
        let (place, goes) = packs_at_random(seed)?;
        let repo = place.again()?;
        let mut contents = contents(&repo)?;
        let mut packs: BTreeMap<ObjectId, Vec<PackId>> = BTreeMap::new();
        for row in repo.store().packs() {
            for segment in repo.refs().segments_of(row.id)? {
                repo.store()
                    .files()
                    .each_of_segment(&segment, &mut |id, _| {
                        packs.entry(*id).or_default().push(row.id);
                        Ok(())
                    })?;
            }
        }
        let mut rng = Rng::new(seed);
        packs.retain(|_, packs| packs.len() > 1);
        for (id, packs) in packs {
            let mut bytes = Vec::new();
            if repo.store().read_into(ObjectType::Chunk, &id, &mut bytes)? {
                let pack = packs[rng.below(packs.len() as u64) as usize];
                damaged += usize::from(damage_copy(&repo, pack, &bytes)?);
            }
        }
        // Objects that share a compressed frame with a damaged object may be lost with it.
        let repo = place.again()?;
        contents.retain(|_, (blob, _)| repo.cat(*blob, None, &mut Vec::new()).is_ok());
        drop_blobs(&repo, &goes).map_err(failed)?;
        goes.iter().for_each(|blob| drop(contents.remove(&blob.id)));
        left += contents.len();
        keeps_all_but(&place.again()?, &contents, &BTreeSet::new()).map_err(failed)?;
    }
    assert!(damaged > 50 && left > 50, "{damaged}, {left}");
    Ok(())
}

/// Fails if more than a quarter of a pack is chunks that only dropped files need.
fn wastes_little(repo: &Repo, contents: &Contents, dropped: &BTreeSet<ObjectId>) -> Done {
    let mut needed = HashSet::new();
    for (id, (blob, _)) in contents {
        if !dropped.contains(id) {
            for chunk in BlobChunks::new(repo.objects(), *blob) {
                needed.insert(chunk?.1);
            }
        }
    }
    let mut wasted: HashMap<PackId, u64> = HashMap::new();
    repo.store().for_each_object(&mut |id, ty, pack| {
        if ty == ObjectType::Chunk && !needed.contains(&id) {
            let mut bytes = Vec::new();
            repo.store().read_into(ty, &id, &mut bytes)?;
            *wasted.entry(pack).or_default() += bytes.len() as u64;
        }
        Ok(())
    })?;
    for row in repo.store().packs() {
        let waste = wasted.get(&row.id).copied().unwrap_or_default();
        if waste * 4 > row.len {
            return Err(format!("{} wastes {waste} of {}", row.id, row.len).into());
        }
    }
    Ok(())
}

#[test]
fn a_crash_in_a_drop_from_several_packs_loses_nothing_else() -> Done {
    for seed in 1..=2 {
        let mut at = Rng::new(seed).below(6) + 1;
        loop {
            let (place, goes) = packs_at_random(seed)?;
            let Place { dir, repo } = place;
            drop(repo);
            let crashed = Lab::over(dir)?.crash_in_drop(at, &goes);
            if !crashed.map_err(|e| format!("seed {seed}, {e}"))? {
                break;
            }
            at += 1 + Rng::new(at).below(9);
        }
    }
    Ok(())
}
