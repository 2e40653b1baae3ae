//! Random histories with collectors that delete only after a recovery.

use super::*;
use crate::files::{BucketFile, FileFailure};
use crate::work::access::BucketAccess;
use dmv_random::Rng;
use std::ops::Range;
use std::sync::Mutex;

/// How many histories there are. `DMV_LOST_ROOTS` asks for more.
const HISTORIES: u64 = 2;

/// Files whose deletions wait.
struct SlowDeletes<'f> {
    files: &'f MemFiles,
    waiting: Mutex<Vec<String>>,
}

impl Files for SlowDeletes<'_> {
    fn read_range(&self, name: &str, range: Range<u64>) -> Result<Vec<u8>, FileFailure> {
        self.files.read_range(name, range)
    }

    fn read_whole(&self, name: &str, known: Option<&Tag>) -> Result<(Vec<u8>, Tag), FileFailure> {
        self.files.read_whole(name, known)
    }

    fn length(&self, name: &str) -> Result<u64, FileFailure> {
        self.files.length(name)
    }

    fn write(&self, name: &str, bytes: Vec<u8>) -> Result<(), FileFailure> {
        self.files.write(name, bytes)
    }

    fn write_if(&self, name: &str, bytes: Vec<u8>, old: Option<&Tag>) -> Result<Tag, FileFailure> {
        self.files.write_if(name, bytes, old)
    }

    fn begin_upload(&self, name: &str) -> Result<String, FileFailure> {
        self.files.begin_upload(name)
    }

    fn upload_part(
        &self,
        name: &str,
        upload: &str,
        part: usize,
        bytes: Vec<u8>,
    ) -> Result<String, FileFailure> {
        self.files.upload_part(name, upload, part, bytes)
    }

    fn end_upload(
        &self,
        name: &str,
        upload: &str,
        parts: &[String],
        len: u64,
    ) -> Result<(), FileFailure> {
        self.files.end_upload(name, upload, parts, len)
    }

    fn drop_upload(&self, name: &str, upload: &str) -> Result<(), FileFailure> {
        self.files.drop_upload(name, upload)
    }

    fn delete_all(&self, names: &[String]) -> Result<(), FileFailure> {
        let mut waiting = self.waiting.lock().expect("no test panics with it");
        waiting.extend_from_slice(names);
        Ok(())
    }

    fn list_folders(&self) -> Result<Vec<String>, FileFailure> {
        self.files.list_folders()
    }

    fn list_all(&self, folder: &str) -> Result<Vec<BucketFile>, FileFailure> {
        self.files.list_all(folder)
    }
}

/// Pushes a new commit to a branch, or removes the branch.
fn step(world: &mut World, rng: &mut Rng) -> Outcome {
    let root = world.root()?;
    let branch = ["main", "side"][rng.below(2) as usize];
    let key = format!("branch/{branch}");
    let old = root.0.view.get(&key).cloned().flatten();
    if branch == "side" && old.is_some() && rng.below(2) == 0 {
        let with = BucketAccess::new(&*world.files, world.ada.repo.store(), &world.ada.job, None);
        let new = None;
        let change = dmv_core::refs::Change { key, old, new };
        crate::work::push::push(&with, root, vec![change], &stamp())?.ok_or("moved")?;
        return Ok(());
    }
    let name = ["a", "b", "d/a"][rng.below(3) as usize];
    let tip = world
        .ada
        .commit(&[(name, noise(rng.below(1 << 40), 2000))])?;
    world
        .ada
        .push(&world.files, root, branch, &tip)?
        .ok_or("moved")?;
    Ok(())
}

/// Runs gc with deletions that wait.
fn collect(world: &World, slow: &SlowDeletes<'_>, rng: &mut Rng) -> Outcome {
    let with = BucketAccess::new(slow, world.ada.repo.store(), &world.ada.job, None);
    let options = FreeOptions {
        stamp: stamp(),
        forget_before: (rng.below(2) == 0).then_some(i64::MAX),
        young_from: i64::MAX,
        joins: [Joins::None, Joins::Wasted, Joins::Small][rng.below(3) as usize],
        purge: None,
        dry_run: false,
        limits: Limits::default(),
    };
    free(&with, Some(world.root()?), &options)?;
    Ok(())
}

#[test]
fn whatever_a_collector_deletes_late_a_restored_state_stays_complete() -> Outcome {
    let asked = std::env::var("DMV_LOST_ROOTS").ok();
    let count = asked
        .and_then(|text| text.parse().ok())
        .unwrap_or(HISTORIES);
    for seed in 1..=count {
        history(seed).map_err(|e| format!("seed {seed}: {e}"))?;
    }
    Ok(())
}

fn history(seed: u64) -> Outcome {
    let mut rng = Rng::new(seed);
    let mut world = World::new(1)?;
    let files = world.files.clone();
    let slow = SlowDeletes {
        files: &files,
        waiting: Mutex::default(),
    };
    let mut seen = vec![world.root()?];
    for _ in 0..20 + rng.below(70) {
        match rng.below(12) {
            0 => collect(&world, &slow, &mut rng)?,
            _ => step(&mut world, &mut rng)?,
        }
        seen.push(world.root()?);
    }
    world.files.remove(ROOT);
    let known = match rng.below(4) {
        0 => None,
        _ => seen.get(rng.below(seen.len() as u64) as usize),
    };
    let report = world.look(known)?;
    let good: Vec<&LostState> = report.states.iter().filter(|s| s.flaw.is_none()).collect();
    let chosen = good.get(rng.below(good.len().max(1) as u64) as usize);
    let chosen = chosen.ok_or_else(|| format!("no state is complete: {report:?}"))?;
    world.recover(known, Some(&chosen.id))??;
    let waiting = slow.waiting.into_inner()?;
    waiting.iter().for_each(|name| files.remove(name));
    let (mut root, _) = world.root()?;
    let is_there = |row: &Row| files.content(&row.name.path(root.repository)).is_some();
    let rows: Vec<Row> = root
        .rows
        .iter()
        .filter(|row| is_there(row))
        .copied()
        .collect();
    assert!(root.meta_pages.is_empty() && root.view_page.is_none());
    root.rows = rows;
    let content = content(&files, &root)?;
    for (_, tip) in &chosen.refs {
        is_stored(&content, tip)?;
    }
    let values = root.log.iter().flat_map(|entry| &entry.operation.changes);
    for value in values.flat_map(|change| change.old.iter().chain(&change.new)) {
        is_stored(&content, &id_of(value).ok_or("an id")?)?;
    }
    let now = world.root()?;
    let tip = world.ada.commit(&[("last", noise(3, 900))])?;
    let branch = format!("last-{seed}");
    world
        .ada
        .push(&world.files, now, &branch, &tip)?
        .ok_or("moved")?;
    Ok(())
}
