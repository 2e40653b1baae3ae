//! gc beside other commands, cut off anywhere, on a full disk and in damaged repositories.

use dmv_core::hash::ObjectId;
use dmv_core::job::{Job, Moment, Probe};
use dmv_core::object::ObjectType;
use dmv_core::refs::testing;
use dmv_core::repo::{
    BusyError, GcOptions, GcReport, RefKind, Repo, RepoError, RepositoryLocation as RepoPlace,
    ResetFiles, UndoOptions, UndoWhat, discover,
};
use dmv_core::store::{CheckedObject, IncomingObjects, SegmentRow};
use dmv_tests::drops::drop_all;
use dmv_tests::garbage::{forget_operations, named, raw_objects, walk};
use dmv_tests::hookvfs::HookVfs;
use dmv_tests::packs::{damage_copy, data_packs};
use dmv_tests::peers::{Done, Place, fetch};
use dmv_tests::rng::Rng;
use dmv_tests::scratch::{commit, request};
use dmv_tests::simfs::{Fault, Op, SimVfs, Survival};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tempfile::TempDir;

const ALL: GcOptions = GcOptions {
    grace: Duration::ZERO,
    now: dmv_core::refs::Timestamp {
        seconds: 1_700_000_000,
        nanos: 0,
        tz_minutes: 0,
    },
    until: None,
    thorough: true,
    dry_run: false,
};

fn gc(repo: &Repo) -> Result<GcReport, RepoError> {
    repo.gc(&ALL, &Job::default())
}

/// What a place has: the garbage is a commit that nothing names, with files of its own, and one that
/// it shares with the files that stay.
struct Garbage {
    place: Place,
    dead: ObjectId,
    /// The content of a file in a pack of garbage.
    dead_content: Vec<u8>,
    /// The content of a file of the garbage in a pack with files that stay.
    dead_beside: Vec<u8>,
    /// The repository, opened before anything went.
    old: Repo,
}

/// Makes a repository in which some packs hold only garbage and some hold garbage as well.
fn garbage(seed: u64) -> Done<Garbage> {
    let place = Place::new()?;
    let mut rng = Rng::new(seed);
    let write = |name: &str, content: &[u8]| place.write(name, content);
    write("stays/large", &rng.bytes(200_000))?;
    write("stays/small", &rng.bytes(300))?;
    let first = commit(&place.again()?, "stays")?.commit.ok_or("made")?;
    let dead_content = rng.bytes(150_000);
    write("dead/large", &dead_content)?;
    write("dead/same", b"both have this")?;
    write("stays/beside", &rng.bytes(40_000))?;
    // In a pack of its own, and in one that also has something else.
    let other = place.again()?;
    let held = testing::writer(other.store())?;
    let dead = commit(&place.again()?, "dead")?.commit.ok_or("made")?;
    drop(held);
    // Nothing else may go into the packs of the garbage.
    let mut locks = Vec::new();
    for row in place.again()?.store().packs() {
        if other.store().packs().iter().all(|known| known.id != row.id) {
            let file = std::fs::File::open(other.store().pack_path(row.id))?;
            file.try_lock()?;
            locks.push(file);
        }
    }
    assert_eq!(locks.len(), 2);
    let dead_beside = rng.bytes(60_000);
    write("dead/too", &dead_beside)?;
    commit(&place.again()?, "dead, too")?;
    let repo = place.again()?;
    repo.reset(
        first,
        ResetFiles::Match,
        &request("reset"),
        &Default::default(),
        &Job::default(),
    )?;
    std::fs::remove_dir_all(place.dir.path().join("dead")).ok();
    write("stays/beside", &rng.bytes(40_000))?;
    write("stays/same", b"both have this")?;
    commit(&place.again()?, "stays, too")?;
    forget_operations(&place.again()?)?;
    let old = place.again()?;
    Ok(Garbage {
        place,
        dead,
        dead_content,
        dead_beside,
        old,
    })
}

#[test]
fn what_only_undo_can_reach_outlives_gc() -> Done {
    let place = Place::new()?;
    let mut rng = Rng::new(36);
    place.write("stays", &rng.bytes(50_000))?;
    let first = commit(&place.again()?, "first")?.commit.ok_or("made")?;
    let content = rng.bytes(50_000);
    place.write("taken-back", &content)?;
    commit(&place.again()?, "second")?;
    let (request_of_reset, job) = (request("reset"), Job::default());
    let how = (ResetFiles::Match, &Default::default());
    place
        .again()?
        .reset(first, how.0, &request_of_reset, how.1, &job)?;
    let file = place.dir.path().join("taken-back");
    assert!(!file.exists());
    gc(&place.again()?)?;
    let undo = UndoOptions {
        what: UndoWhat::Last,
        settings: Default::default(),
        request: request("undo"),
    };
    place.again()?.undo(&undo, &job)?;
    assert!(std::fs::read(file)? == content);
    Ok(())
}

fn live(repo: &Repo) -> Done<BTreeSet<ObjectId>> {
    let live = walk(repo, &named(repo)?)?;
    for id in &live {
        if !repo.store().has(id)? {
            return Err(format!("{id} is lost").into());
        }
    }
    Ok(live)
}

/// After two runs exactly the live objects are left.
fn is_clean(place: &Place) -> Done {
    for _ in 0..2 {
        let report = gc(&place.again()?)?;
        assert!(report.finished && report.why_not.is_empty(), "{report:?}");
    }
    let repo = place.again()?;
    let (live, raw) = (live(&repo)?, raw_objects(&repo)?);
    assert_eq!(raw.difference(&live).count(), 0, "garbage is left");
    assert_eq!(live.difference(&raw).count(), 0, "something is lost");
    drop(repo);
    place.is_sound()
}

#[test]
fn a_dry_run_foretells_what_gc_frees_and_changes_nothing() -> Done {
    let Garbage { place, .. } = garbage(1)?;
    let before = raw_objects(&place.again()?)?;
    let dry = GcOptions {
        dry_run: true,
        ..ALL
    };
    let foretold = place.again()?.gc(&dry, &Job::default())?;
    assert_eq!(raw_objects(&place.again()?)?, before);
    let done = gc(&place.again()?)?;
    assert_eq!(foretold.freed_objects, done.freed_objects);
    assert_eq!(foretold.packs_removed, done.packs_removed);
    assert_eq!(foretold.packs_rewritten, done.packs_rewritten);
    let (told, freed) = (foretold.freed_bytes, done.freed_bytes);
    assert!(
        freed > 200_000 && told.abs_diff(freed) < freed / 10,
        "{told} {freed}"
    );
    assert!(
        done.packs_rewritten > 0 && done.copied_bytes > 0,
        "{done:?}"
    );
    is_clean(&place)
}

#[test]
fn what_a_killed_command_wrote_counts_as_young_and_goes_without_grace() -> Done {
    let place = Place::new()?;
    let repo = place.again()?;
    let mut incoming = repo.incoming()?;
    let noise = dmv_random::noise(7, 3 << 20);
    for part in noise.chunks(64 << 10) {
        incoming.add_object(&CheckedObject::new(ObjectType::Chunk, part.to_vec())?)?;
    }
    drop(incoming);
    drop(repo);
    for dry_run in [true, false] {
        let options = GcOptions {
            grace: Duration::from_secs(2000),
            dry_run,
            ..ALL
        };
        let report = place.again()?.gc(&options, &Job::default())?;
        assert!(report.young_bytes > 2 << 20, "{dry_run}: {report:?}");
        assert_eq!(report.freed_bytes, 0, "{dry_run}: {report:?}");
    }
    let options = GcOptions {
        dry_run: true,
        ..ALL
    };
    let foretold = place.again()?.gc(&options, &Job::default())?;
    let report = gc(&place.again()?)?;
    assert!(
        report.freed_bytes > 2 << 20 && report.young_bytes == 0,
        "{report:?}"
    );
    assert_eq!(foretold.freed_bytes, report.freed_bytes);
    is_clean(&place)
}

#[test]
fn what_arrived_lately_stays_for_the_time_of_grace() -> Done {
    let Garbage { place, .. } = garbage(2)?;
    let before = raw_objects(&place.again()?)?;
    // The commits were made at the time that `request` tells.
    let gc_later = |seconds: i64, grace: u64| -> Done<GcReport> {
        let mut options = GcOptions {
            grace: Duration::from_secs(grace),
            ..ALL
        };
        options.now.seconds += seconds;
        Ok(place.again()?.gc(&options, &Job::default())?)
    };
    let young = gc_later(1000, 2000)?;
    assert!(
        young.freed_objects == 0 && young.young_bytes > 200_000,
        "{young:?}"
    );
    assert_eq!(raw_objects(&place.again()?)?, before);
    let old = gc_later(1000, 500)?;
    assert!(old.freed_objects > 0 && old.young_bytes == 0, "{old:?}");
    is_clean(&place)
}

/// Runs `other` at each moment of a gc, in a repository of its own each time.
fn beside(what: &str, other: impl Fn(&Garbage) -> Done + Send + Sync + Copy + 'static) -> Done {
    use Moment::{Condemning, Copied, Mapped, Marked, Unlinked};
    for moment in [Mapped, Marked, Copied, Condemning, Unlinked] {
        let failed = |e: Box<dyn std::error::Error>| format!("{what} at {moment:?}: {e}");
        let garbage = Arc::new(garbage(3)?);
        let met = Arc::new(AtomicBool::new(false));
        let result = Arc::new(Mutex::new(Ok(())));
        let (theirs, hit, told) = (garbage.clone(), met.clone(), result.clone());
        let job = Job::with_probe(Probe {
            portion: 1,
            at: Box::new(move |at| {
                if at == moment && !hit.swap(true, Ordering::Relaxed) {
                    let done = other(&theirs).map_err(|e| e.to_string());
                    if let Ok(mut told) = told.lock() {
                        *told = done;
                    }
                }
            }),
        });
        garbage
            .place
            .again()?
            .gc(&ALL, &job)
            .map_err(|e| failed(e.into()))?;
        assert!(
            met.load(Ordering::Relaxed),
            "{what} at {moment:?} was not met"
        );
        let told = result.lock().map_err(|_| "poisoned")?.clone();
        told.map_err(|e| failed(e.into()))?;
        live(&garbage.place.again()?).map_err(failed)?;
        is_clean(&garbage.place).map_err(failed)?;
    }
    Ok(())
}

#[test]
fn commits_beside_gc_have_everything() -> Done {
    beside("a new file", |garbage| {
        garbage.place.write("new", b"new")?;
        commit(&garbage.place.again()?, "new")?;
        Ok(())
    })?;
    beside("content of the garbage", |garbage| {
        garbage.place.write("again", &garbage.dead_content)?;
        commit(&garbage.place.again()?, "again")?;
        Ok(())
    })?;
    beside("content of garbage beside other content", |garbage| {
        garbage.place.write("again", &garbage.dead_beside)?;
        commit(&garbage.place.again()?, "again")?;
        Ok(())
    })
}

/// The process has the repository open since before gc began.
#[test]
fn a_process_that_knows_old_tables_loses_nothing() -> Done {
    beside("by an old process", |garbage| {
        garbage.place.write("again", &garbage.dead_content)?;
        garbage.place.write("beside", &garbage.dead_beside)?;
        commit(&garbage.old, "again")?;
        Ok(())
    })
}

#[test]
fn a_name_for_a_commit_that_goes_is_refused_or_keeps_it() -> Done {
    beside("branch", |garbage| {
        let repo = garbage.place.again()?;
        let _ = repo.create_ref(RefKind::Branch, "back", garbage.dead, request("branch"));
        Ok(())
    })?;
    beside("reset", |garbage| {
        let repo = garbage.place.again()?;
        let (settings, job) = (Default::default(), Job::default());
        let _ = repo.reset(
            garbage.dead,
            ResetFiles::Match,
            &request("reset"),
            &settings,
            &job,
        );
        Ok(())
    })
}

#[test]
fn undo_fetch_drop_and_another_gc_beside_gc_lose_nothing() -> Done {
    beside("undo", |garbage| {
        let options = UndoOptions {
            what: UndoWhat::Last,
            settings: Default::default(),
            request: request("undo"),
        };
        let repo = garbage.place.again()?;
        garbage.place.write("one more", b"one more")?;
        commit(&repo, "one more")?;
        repo.undo(&options, &Job::default())?;
        Ok(())
    })?;
    beside("fetch", |garbage| {
        let theirs = Place::new()?;
        theirs.write("again", &garbage.dead_content)?;
        theirs.commit("again")?;
        fetch(&garbage.place, &theirs)?;
        Ok(())
    })?;
    beside("commit and expiry", |garbage| {
        let repo = garbage.place.again()?;
        garbage.place.write("again", &garbage.dead_content)?;
        commit(&repo, "again")?;
        repo.expire_operations(i64::MAX, request("op expire"))?;
        Ok(())
    })?;
    beside("drop", |garbage| {
        let refused = drop_all(&garbage.place.again()?, "stays/large");
        assert!(refused.is_err(), "{refused:?}");
        Ok(())
    })?;
    beside("gc", |garbage| {
        let refused = gc(&garbage.place.again()?);
        assert!(
            matches!(refused, Err(RepoError::Busy(BusyError::Freeing(_)))),
            "{refused:?}"
        );
        Ok(())
    })
}

/// As if the process were stopped for ever: its packs stay, and all others go.
#[test]
fn a_writer_that_never_ends_keeps_its_own_packs_only() -> Done {
    let Garbage { place, .. } = garbage(4)?;
    let repo = place.again()?;
    let mut incoming = IncomingObjects::new(testing::writer(repo.store())?);
    let bytes = Rng::new(9).bytes(5_000);
    incoming.add_object(&CheckedObject::new(ObjectType::Chunk, bytes)?)?;
    let before = data_packs(&repo)?;
    let report = gc(&place.again()?)?;
    assert!(
        report.freed_objects > 0 && report.why_not.len() >= 2,
        "{report:?}"
    );
    assert!(
        report
            .why_not
            .iter()
            .all(|why| why.contains("is writing to")),
        "{report:?}"
    );
    assert!(!data_packs(&place.again()?)?.is_superset(&before));
    live(&place.again()?)?;
    drop(incoming);
    drop(repo);
    is_clean(&place)
}

/// A new pack has a name before it has a lock, and nothing lists it.
#[test]
fn a_first_commit_succeeds_with_gc_before_any_of_its_file_operations() -> Done {
    let try_at = |at: usize| -> Done<(usize, bool)> {
        let place = Place::new()?;
        place.write("file", b"content")?;
        let vfs = HookVfs::default();
        let found = discover(place.dir.path())?;
        let repo = Repo::open_place_on(found, Arc::new(vfs.clone()))?;
        let (beside, runs) = (place.again()?, Arc::new(AtomicBool::new(false)));
        let ran = runs.clone();
        vfs.before(at, move || {
            // At its commit point the commit holds this lock, and gc would wait for it.
            if matches!(beside.refs().try_lock_database(), Ok(Some(_))) {
                ran.store(gc(&beside).is_ok(), Ordering::Relaxed);
            }
        });
        commit(&repo, "first").map_err(|e| format!("with gc before {at}: {e}"))?;
        let operations = vfs.count();
        live(&place.again()?)?;
        is_clean(&place)?;
        Ok((operations, runs.load(Ordering::Relaxed)))
    };
    let (operations, _) = try_at(usize::MAX)?;
    let mut runs = 0;
    for at in 0..operations {
        runs += usize::from(try_at(at)?.1);
    }
    assert!(runs > 10, "{runs} of {operations}");
    Ok(())
}

/// A job was killed after the log pack had its operation. Another one took over its frames before the
/// database knew of them.
#[test]
fn a_pack_with_two_segments_that_overlap_is_freed_like_any_other() -> Done {
    let place = Place::new()?;
    place.write("first", &Rng::new(1).bytes(1000))?;
    commit(&place.again()?, "first")?;
    let (garbage, needed) = (Rng::new(2).bytes(50_000), Rng::new(3).bytes(50_000));
    let killed = {
        let repo = place.again()?;
        let mut incoming = IncomingObjects::new(testing::writer(repo.store())?);
        for content in [&garbage, &needed] {
            incoming.add_object(&CheckedObject::new(ObjectType::Chunk, content.clone())?)?;
        }
        incoming.finish()?.segments.clone()
    };
    place.write("second", &needed)?;
    commit(&place.again()?, "second")?;
    let repo = place.again()?;
    let (refs, log_end) = (repo.refs(), repo.refs().log_position()?.log_end);
    testing::roll_forward(refs, &killed, log_end.ok_or("set")?)?;
    let segments = refs.rows()?.segments;
    let overlaps = |row: &SegmentRow| {
        let others = segments.iter().filter(|other| *other != row);
        let mut of_pack = others.filter(|other| other.pack == row.pack);
        of_pack.any(|other| other.start < row.end && row.start < other.end)
    };
    assert!(segments.iter().any(overlaps), "{segments:?}");
    drop(repo);
    let report = gc(&place.again()?)?;
    assert!(report.freed_bytes > 40_000, "{report:?}");
    is_clean(&place)
}

#[test]
fn a_gc_that_is_cancelled_or_out_of_time_at_any_moment_loses_nothing() -> Done {
    use Moment::{Condemning, Copied, Mapped, Marked, Unlinked};
    for moment in [Mapped, Marked, Copied, Condemning, Unlinked] {
        let Garbage { place, .. } = garbage(5)?;
        let cancel: Arc<Mutex<Option<Arc<AtomicBool>>>> = Arc::default();
        let inner = cancel.clone();
        let job = Job::with_probe(Probe {
            portion: 1,
            at: Box::new(move |at| {
                if at == moment
                    && let Ok(flag) = inner.lock()
                    && let Some(flag) = &*flag
                {
                    flag.store(true, Ordering::Relaxed);
                }
            }),
        });
        *cancel.lock().map_err(|_| "poisoned")? = Some(job.cancel_handle());
        let ended = place.again()?.gc(&ALL, &job);
        assert!(
            matches!(ended, Err(RepoError::Cancelled) | Ok(_)),
            "{moment:?}: {ended:?}"
        );
        live(&place.again()?)?;
        is_clean(&place)?;
    }
    let Garbage { place, .. } = garbage(6)?;
    let late = GcOptions {
        until: Some(Instant::now()),
        ..ALL
    };
    let report = place.again()?.gc(&late, &Job::default())?;
    assert!(!report.finished && report.freed_objects == 0, "{report:?}");
    is_clean(&place)
}

#[test]
fn nothing_is_freed_while_something_needed_is_missing_or_damaged() -> Done {
    for is_missing in [false, true] {
        let Garbage { place, .. } = garbage(7)?;
        let repo = place.again()?;
        let tree = repo.read_commit(&place.tip()?)?.tree;
        let (mut pack, mut offset) = (None, 0);
        for row in repo.store().packs() {
            for segment in repo.refs().segments_of(row.id)? {
                repo.store()
                    .files()
                    .each_of_segment(&segment, &mut |id, place| {
                        if *id == tree {
                            (pack, offset) = (Some(segment.pack), place.offset);
                        }
                        Ok(())
                    })?;
            }
        }
        let path = repo.store().pack_path(pack.ok_or("it is here")?);
        let whole = std::fs::read(&path)?;
        if is_missing {
            std::fs::remove_file(&path)?
        } else {
            let mut bytes = whole.clone();
            bytes[offset as usize + 50] ^= 1;
            std::fs::write(&path, bytes)?;
        }
        drop(repo);
        let others = || -> Done<Vec<_>> {
            let entries = std::fs::read_dir(place.dir.path().join(".dmv/packs"))?;
            let names = entries.map(|entry| entry.map(|entry| entry.file_name()));
            Ok(names.collect::<Result<_, _>>()?)
        };
        let before = others()?;
        let refused = gc(&place.again()?).expect_err("it is not known what is needed");
        let text = refused.to_string();
        assert!(
            text.starts_with("nothing was freed: ") || is_missing,
            "{text}"
        );
        assert_eq!(others()?, before);
        std::fs::write(&path, whole)?;
        is_clean(&place)?;
    }
    Ok(())
}

/// A pack cannot be rewritten if something that stays in it is damaged.
#[test]
fn a_pack_with_damaged_content_that_stays_is_left_alone() -> Done {
    let Garbage { place, .. } = garbage(11)?;
    let repo = place.again()?;
    let content = std::fs::read(place.dir.path().join("stays/beside"))?;
    let mut damaged = 0;
    for pack in data_packs(&repo)? {
        // A part of a chunk: a file may have several.
        damaged += usize::from(damage_copy(&repo, pack, &content[1_000..2_000])?);
    }
    assert_eq!(damaged, 1);
    drop(repo);
    let report = gc(&place.again()?)?;
    assert!(
        report.packs_removed > 0 && report.freed_objects > 0,
        "{report:?}"
    );
    assert_eq!(report.why_not.len(), 1, "{report:?}");
    // Nothing that can be read is lost, and what is damaged is still there to be healed.
    let repo = place.again()?;
    assert_eq!(walk(&repo, &named(&repo)?)?, live(&repo)?);
    Ok(())
}

/// A repository whose packs and index files lie on a simulated disk.
struct Lab {
    dir: TempDir,
    sim: SimVfs,
    live: BTreeSet<ObjectId>,
}

impl Lab {
    fn over(garbage: Garbage) -> Done<Lab> {
        let Garbage {
            place: Place { dir, repo },
            old,
            ..
        } = garbage;
        drop((repo, old));
        let repo = Repo::open(dir.path())?;
        let sim = SimVfs::new(repo.dmv_dir());
        for part in ["packs", "index"] {
            sim.import(&repo.dmv_dir().join(part))?;
        }
        let live = live(&repo)?;
        Ok(Lab { dir, sim, live })
    }

    fn open(&self) -> Done<Repo> {
        let root = self.dir.path().to_owned();
        let place = RepoPlace {
            dmv: root.join(".dmv"),
            worktree: Some((root, "main".into())),
        };
        Ok(Repo::open_place_on(place, Arc::new(self.sim.clone()))?)
    }

    fn check(&self) -> Done {
        assert_eq!(live(&self.open()?)?, self.live);
        Ok(())
    }

    /// Checks that two more runs leave what is live and nothing else.
    fn check_clean(&self) -> Done {
        for _ in 0..2 {
            gc(&self.open()?)?;
        }
        self.check()?;
        let repo = self.open()?;
        let mut listed = BTreeSet::new();
        repo.store().for_each_object(&mut |id, _, _| {
            listed.insert(id);
            Ok(())
        })?;
        assert_eq!(listed, self.live);
        let packs = self.sim.seen().into_keys();
        let packs = packs.filter(|path| path.extension().is_some_and(|ext| ext == "pack"));
        // And the log pack.
        assert_eq!(packs.count(), repo.store().packs().len() + 1);
        Ok(())
    }
}

#[test]
fn a_crash_in_any_file_operation_of_gc_loses_nothing() -> Done {
    let mut crashes = 0;
    for at in 1.. {
        let mut lab = Lab::over(garbage(8)?)?;
        lab.sim.crash_at(at);
        let done = gc(&lab.open()?);
        let has_crashed = lab.sim.has_crashed();
        if !has_crashed {
            done?;
        }
        for (seed, survival) in [Survival::Nothing, Survival::Everything, Survival::Some]
            .into_iter()
            .enumerate()
        {
            let dmv = lab.dir.path().join(".dmv");
            let mut rng = Rng::new(seed as u64 + at);
            lab.sim = lab.sim.crash(&dmv, survival, &mut rng);
            lab.check()
                .map_err(|e| format!("operation {at}, {survival:?}: {e}"))?;
        }
        lab.check_clean()
            .map_err(|e| format!("operation {at}: {e}"))?;
        if !has_crashed {
            break;
        }
        crashes += 1;
    }
    assert!(
        crashes >= 12,
        "packs are written, synced and removed: {crashes}"
    );
    Ok(())
}

#[test]
fn a_disk_that_is_full_or_fails_loses_nothing_and_packs_without_copies_go() -> Done {
    const FULL: i32 = 28;
    const BROKEN: i32 = 5;
    for op in [Op::Write, Op::Sync, Op::SyncDir, Op::Remove, Op::Create] {
        for forever in [true, false] {
            for after in [0, 1, 3] {
                let lab = Lab::over(garbage(10)?)?;
                let errno = if op == Op::Write { FULL } else { BROKEN };
                lab.sim.fail(Fault {
                    op,
                    after,
                    forever,
                    errno,
                });
                let done = gc(&lab.open()?);
                if op == Op::Write && forever && after == 0 {
                    let report = done?;
                    assert!(
                        report.packs_removed > 0 && report.packs_rewritten == 0,
                        "{report:?}"
                    );
                    assert!(report.no_room.is_some(), "{report:?}");
                    assert!(report.no_room_bytes > 0, "{report:?}");
                    assert!(report.why_not.is_empty(), "{report:?}");
                }
                lab.check().map_err(|e| format!("{op:?} {after}: {e}"))?;
                lab.sim.clear_faults();
                lab.check_clean()
                    .map_err(|e| format!("{op:?} {after}: {e}"))?;
            }
        }
    }
    Ok(())
}
