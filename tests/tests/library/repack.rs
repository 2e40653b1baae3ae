//! repack beside other commands, cut off anywhere, on a full disk and in damaged repositories.

use dmv_core::hash::ObjectId;
use dmv_core::job::{Job, Moment, Probe};
use dmv_core::object::ObjectType;
use dmv_core::refs::testing;
use dmv_core::repo::{
    BusyError, GcOptions, RepackOptions, RepackReport, Repo, RepoError, ResetFiles,
};
use dmv_core::store::{CheckedObject, IncomingObjects};
use dmv_tests::drops::drop_all;
use dmv_tests::garbage::{forget_operations, named, raw_objects, walk};
use dmv_tests::lab::Lab;
use dmv_tests::packs::{damage_copy, data_packs, merge_some, store_again};
use dmv_tests::peers::{Done, Place, fetch};
use dmv_tests::rng::Rng;
use dmv_tests::scratch::{commit, request};
use dmv_tests::simfs::{Fault, Op, Survival};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const DAY: i64 = 24 * 60 * 60;

fn options() -> RepackOptions {
    RepackOptions {
        now: request("repack").time,
        until: None,
        dry_run: false,
    }
}

fn repack(repo: &Repo) -> Result<RepackReport, RepoError> {
    repo.repack(&options(), &Job::default())
}

/// Makes a repository with many small commits in several packs of each kind, merged indexes, content
/// that is stored twice, and garbage. Returns a chunk that is stored twice.
fn small_commits(seed: u64) -> Done<(Place, ObjectId)> {
    let place = Place::new()?;
    let mut rng = Rng::new(seed);
    place.write("large", &rng.bytes(150_000))?;
    for n in 0..8 {
        place.write(&format!("d{}/f{}", n % 3, n % 5), &rng.bytes(400))?;
        commit(&place.again()?, "one by one")?;
    }
    let first = place.tip()?;
    // While a writer holds the packs, commits begin new ones.
    let other = place.again()?;
    let held = testing::writer(other.store())?;
    for n in 0..6 {
        place.write(&format!("d{}/g{n}", n % 3), &rng.bytes(300))?;
        commit(&place.again()?, "beside")?;
    }
    drop(held);
    let mut chunks = Vec::new();
    other.store().refresh()?;
    other.store().for_each_object(&mut |id, ty, _| {
        chunks.extend((ty == ObjectType::Chunk).then_some(id));
        Ok(())
    })?;
    chunks.retain(|id| {
        let mut bytes = Vec::new();
        let read = other.store().read_into(ObjectType::Chunk, id, &mut bytes);
        read.is_ok() && bytes.len() < 1_000
    });
    let twice = chunks[0];
    store_again(&place, &[chunks])?;
    place.write("dead", &rng.bytes(30_000))?;
    commit(&place.again()?, "dead")?;
    let (settings, job) = (Default::default(), Job::default());
    let repo = place.again()?;
    repo.reset(first, ResetFiles::Match, &request("reset"), &settings, &job)?;
    merge_some(&repo, &mut rng)?;
    Ok((place, twice))
}

/// Returns the ids of everything that is listed, needed or not.
fn listed(repo: &Repo) -> Done<BTreeSet<ObjectId>> {
    let mut out = BTreeSet::new();
    for row in repo.refs().catalogue()?.packs {
        for segment in repo.refs().segments_of(row.id)? {
            repo.store()
                .files()
                .each_of_segment(&segment, &mut |id, _| {
                    out.insert(*id);
                    Ok(())
                })?;
        }
    }
    Ok(out)
}

/// Returns everything that the repository needs. Fails if something of it cannot be read.
fn live(repo: &Repo) -> Done<BTreeSet<ObjectId>> {
    let live = walk(repo, &named(repo)?)?;
    for id in &live {
        let mut out = Vec::new();
        let is_chunk = repo.store().read_into(ObjectType::Chunk, id, &mut out);
        if !repo.store().has(id)? || is_chunk.is_err() {
            return Err(format!("{id} is lost").into());
        }
    }
    Ok(live)
}

/// The program says so seldom, and only while it is true.
#[test]
fn repack_pays_after_some_hundred_single_commits_and_no_longer_after_a_run() -> Done {
    let (place, mut rng) = (Place::new()?, Rng::new(5));
    let mut commits = |number: u64| -> Done<usize> {
        let mut told = 0;
        for _ in 0..number {
            let path = format!("d{}/f{}", rng.below(5), rng.below(9));
            place.write(&path, &rng.bytes(200))?;
            let repo = place.again()?;
            commit(&repo, "one by one")?;
            told += usize::from(repo.repack_pays_now()?);
        }
        Ok(told)
    };
    assert_eq!(commits(150)?, 0);
    assert!(!place.again()?.repack_pays()?);
    commits(110)?;
    assert!(place.again()?.repack_pays()?);
    let told = commits(144)?;
    assert!((1..=4).contains(&told), "{told} of 144 commits say so");
    let report = repack(&place.again()?)?;
    assert!(report.after_bytes * 2 < report.before_bytes, "{report:?}");
    assert!(!place.again()?.repack_pays()?);
    assert_eq!(commits(100)?, 0);
    Ok(())
}

/// After one run each kind has one pack, with everything that was listed.
fn is_joined(place: &Place, before: &BTreeSet<ObjectId>) -> Done {
    let report = repack(&place.again()?)?;
    assert!(report.finished && report.why_not.is_empty(), "{report:?}");
    let repo = place.again()?;
    let listed = listed(&repo)?;
    assert_eq!(before.difference(&listed).count(), 0, "something is lost");
    live(&repo)?;
    let report = repack(&repo)?;
    let is_quiet = report.copied_bytes == 0 && report.packs_before == report.packs_after;
    assert!(
        is_quiet && report.before_bytes == report.after_bytes,
        "{report:?}"
    );
    drop(repo);
    place.is_sound()
}

#[test]
fn small_packs_and_frames_are_joined_and_nothing_is_lost() -> Done {
    let (place, twice) = small_commits(1)?;
    let before = listed(&place.again()?)?;
    let all = raw_objects(&place.again()?)?;
    let foretold = place.again()?.repack(
        &RepackOptions {
            dry_run: true,
            ..options()
        },
        &Job::default(),
    )?;
    assert_eq!(
        listed(&place.again()?)?,
        before,
        "a dry run changes nothing"
    );
    let report = repack(&place.again()?)?;
    assert!(report.finished && report.why_not.is_empty(), "{report:?}");
    assert_eq!(
        (report.packs_before, report.packs_after),
        (foretold.packs_before, foretold.packs_after)
    );
    assert!(
        report.packs_before >= 5 && report.packs_after <= 3,
        "{report:?}"
    );
    assert!(report.after_bytes < report.before_bytes, "{report:?}");
    assert!(
        report.after_bytes <= foretold.after_bytes,
        "{report:?} {foretold:?}"
    );
    let repo = place.again()?;
    assert_eq!(listed(&repo)?, before);
    assert_eq!(raw_objects(&repo)?, all);
    let mut copies = 0;
    repo.store().for_each_object(&mut |id, _, _| {
        copies += usize::from(id == twice);
        Ok(())
    })?;
    assert_eq!(copies, 1, "copies are folded");
    assert!(repo.store().table_stats().0 <= 3);
    drop(repo);
    is_joined(&place, &before)
}

#[test]
fn later_commits_go_into_other_packs_and_join_in_time() -> Done {
    let (place, _) = small_commits(2)?;
    repack(&place.again()?)?;
    let sealed = |repo: &Repo| -> Done<Vec<_>> {
        let packs = repo.refs().catalogue()?.packs.into_iter();
        let sealed = packs.filter(|row| row.poisoned);
        Ok(sealed.map(|row| (row.id, row.len)).collect())
    };
    let mut made = sealed(&place.again()?)?;
    assert_eq!(made.len(), 2);
    let mut most = 0;
    for n in 0..12 {
        place.write("later", &Rng::new(n).bytes(500))?;
        commit(&place.again()?, "later")?;
        let repo = place.again()?;
        assert_eq!(sealed(&repo)?, made, "one has grown");
        if n % 3 == 2 {
            repack(&repo)?;
            made = sealed(&repo)?;
        }
        most = most.max(repo.store().packs().len());
    }
    assert!(most <= 8, "{most}");
    let before = listed(&place.again()?)?;
    is_joined(&place, &before)
}

/// Runs `other` at each moment of a repack, in a repository of its own each time.
fn beside(what: &str, other: impl Fn(&Place) -> Done + Send + Sync + Copy + 'static) -> Done {
    use Moment::{Condemning, Copied, Unlinked};
    for moment in [Copied, Condemning, Unlinked] {
        let failed = |e: Box<dyn std::error::Error>| format!("{what} at {moment:?}: {e}");
        let place = Arc::new(small_commits(3)?.0);
        let before = listed(&place.again()?)?;
        let met = Arc::new(AtomicBool::new(false));
        let result = Arc::new(Mutex::new(Ok(())));
        let (theirs, hit, told) = (place.clone(), met.clone(), result.clone());
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
        let report = place.again()?.repack(&options(), &job);
        report.map_err(|e| failed(e.into()))?;
        assert!(
            met.load(Ordering::Relaxed),
            "{what} at {moment:?} was not met"
        );
        let told = result.lock().map_err(|_| "poisoned")?.clone();
        told.map_err(|e| failed(e.into()))?;
        is_joined(&place, &before).map_err(failed)?;
    }
    Ok(())
}

#[test]
fn commits_fetches_and_gc_beside_repack_lose_nothing() -> Done {
    beside("a new file", |place| {
        place.write("new", b"new")?;
        commit(&place.again()?, "new")?;
        Ok(())
    })?;
    beside("content of the garbage by an old process", |place| {
        let mut rng = Rng::new(3);
        place.write("again", &rng.bytes(150_000))?;
        commit(&place.repo, "again")?;
        Ok(())
    })?;
    beside("fetch", |place| {
        let theirs = Place::with_files(4, 3, 900)?;
        fetch(place, &theirs)?;
        Ok(())
    })?;
    beside("those who free space are refused", |place| {
        let repo = place.again()?;
        let again = repack(&repo);
        assert!(
            matches!(again, Err(RepoError::Busy(BusyError::Freeing(_)))),
            "{again:?}"
        );
        let all = GcOptions {
            grace: Duration::ZERO,
            now: request("gc").time,
            until: None,
            thorough: true,
            dry_run: false,
        };
        let gc = repo.gc(&all, &Job::default());
        assert!(
            matches!(gc, Err(RepoError::Busy(BusyError::Freeing(_)))),
            "{gc:?}"
        );
        assert!(drop_all(&repo, "large").is_err());
        Ok(())
    })
}

#[test]
fn packs_that_a_writer_holds_stay_and_all_others_are_joined() -> Done {
    let (place, _) = small_commits(4)?;
    let repo = place.again()?;
    // A third pack of each kind: whichever the writer holds, two others are there to be joined.
    let held = [
        testing::writer(repo.store())?,
        testing::writer(repo.store())?,
    ];
    for n in 0..4 {
        place.write("third", format!("{n}").as_bytes())?;
        commit(&place.again()?, "third")?;
    }
    drop(held);
    let before = listed(&place.again()?)?;
    let repo = place.again()?;
    let mut incoming = IncomingObjects::new(testing::writer(repo.store())?);
    let bytes = Rng::new(9).bytes(5_000);
    incoming.add_object(&CheckedObject::new(ObjectType::Chunk, bytes)?)?;
    let report = repack(&place.again()?)?;
    assert_eq!(report.why_not.len(), 2, "{report:?}");
    let says_so = |why: &String| why.contains("is writing to");
    assert!(
        report.finished && !report.failed && report.why_not.iter().all(says_so),
        "{report:?}"
    );
    assert!(report.packs_after < report.packs_before, "{report:?}");
    live(&place.again()?)?;
    drop(incoming);
    drop(repo);
    is_joined(&place, &before)
}

#[test]
fn a_repack_that_is_cancelled_or_out_of_time_loses_nothing() -> Done {
    use Moment::{Condemning, Copied, Unlinked};
    for moment in [Copied, Condemning, Unlinked] {
        let (place, _) = small_commits(5)?;
        let before = listed(&place.again()?)?;
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
        let ended = place.again()?.repack(&options(), &job);
        assert!(
            matches!(ended, Err(RepoError::Cancelled) | Ok(_)),
            "{moment:?}: {ended:?}"
        );
        live(&place.again()?)?;
        is_joined(&place, &before)?;
    }
    let (place, _) = small_commits(5)?;
    let before = listed(&place.again()?)?;
    let late = RepackOptions {
        until: Some(Instant::now()),
        ..options()
    };
    let files = || std::fs::read_dir(place.dir.path().join(".dmv/packs")).map(Iterator::count);
    let packs = files()?;
    let report = place.again()?.repack(&late, &Job::default())?;
    assert!(!report.finished && report.copied_bytes == 0, "{report:?}");
    assert_eq!(files()?, packs, "what was begun is removed");
    is_joined(&place, &before)
}

#[test]
fn a_pack_with_damage_stays_and_all_others_are_joined() -> Done {
    let (place, _) = small_commits(6)?;
    let repo = place.again()?;
    let mut content = Vec::new();
    for name in ["d0/f0", "d1/f1", "large"] {
        let bytes = std::fs::read(place.dir.path().join(name))?;
        content.push(bytes[100..200].to_vec());
    }
    let mut damaged = 0;
    for pack in data_packs(&repo)? {
        damaged += usize::from(damage_copy(&repo, pack, &content[2])?);
    }
    assert_eq!(damaged, 1);
    let before = listed(&repo)?;
    let packs = repo.store().packs().len() as u64;
    drop(repo);
    let report = repack(&place.again()?)?;
    assert_eq!(report.why_not.len(), 1, "{report:?}");
    assert!(report.failed, "{report:?}");
    assert!(
        report.finished && report.packs_before == packs,
        "{report:?}"
    );
    assert!(report.packs_after < packs, "{report:?}");
    let repo = place.again()?;
    assert_eq!(listed(&repo)?, before);
    // What is damaged is still there to be healed, and everything else can be read.
    let mut unread = 0;
    for id in walk(&repo, &named(&repo)?)? {
        let mut out = Vec::new();
        unread += usize::from(
            repo.store()
                .read_into(ObjectType::Chunk, &id, &mut out)
                .is_err(),
        );
    }
    assert_eq!(unread, 1);
    Ok(())
}

#[test]
fn an_intact_copy_of_a_damaged_object_does_not_go() -> Done {
    let (place, twice) = small_commits(7)?;
    let repo = place.again()?;
    let mut bytes = Vec::new();
    assert!(
        repo.store()
            .read_into(ObjectType::Chunk, &twice, &mut bytes)?
    );
    let mut damaged = false;
    for pack in data_packs(&repo)? {
        damaged = damaged || damage_copy(&repo, pack, &bytes)?;
    }
    assert!(damaged);
    drop(repo);
    for _ in 0..2 {
        let report = repack(&place.again()?)?;
        assert!(report.finished, "{report:?}");
        live(&place.again()?)?;
    }
    Ok(())
}

/// Garbage is as old afterwards as before, to the day, and gc decides.
#[test]
fn gc_frees_the_same_with_and_without_repack() -> Done {
    for is_repacked in [false, true] {
        let (place, _) = small_commits(8)?;
        forget_operations(&place.again()?)?;
        let mut now = request("gc").time;
        let gc = |place: &Place, now, days: u64| -> Done<u64> {
            let options = GcOptions {
                grace: Duration::from_secs(days * DAY as u64),
                now,
                until: None,
                thorough: true,
                dry_run: false,
            };
            Ok(place.again()?.gc(&options, &Job::default())?.freed_objects)
        };
        now.seconds += 20 * DAY;
        if is_repacked {
            let options = RepackOptions { now, ..options() };
            place.again()?.repack(&options, &Job::default())?;
        }
        assert_eq!(gc(&place, now, 21)?, 0, "it is too young");
        assert!(gc(&place, now, 19)? > 0, "it is old enough");
        live(&place.again()?)?;
        place.is_sound()?;
    }
    Ok(())
}

#[test]
fn a_part_of_a_repository_is_repacked_like_a_whole_one() -> Done {
    let (place, _) = small_commits(9)?;
    drop_all(&place.again()?, "large")?;
    let before = listed(&place.again()?)?;
    repack(&place.again()?)?;
    assert_eq!(listed(&place.again()?)?, before);
    place.is_sound()
}

#[test]
fn a_crash_in_any_file_operation_of_repack_loses_nothing() -> Done {
    let mut crashes = 0;
    for at in 1.. {
        let (place, _) = small_commits(10)?;
        let (before, needed) = (listed(&place.again()?)?, live(&place.again()?)?);
        let mut lab = Lab::over(place)?;
        lab.sim.crash_at(at);
        let done = repack(&lab.open()?);
        let has_crashed = lab.sim.has_crashed();
        if !has_crashed {
            done?;
        }
        for (n, survival) in [Survival::Nothing, Survival::Everything, Survival::Some]
            .into_iter()
            .enumerate()
        {
            lab.crash(survival, n as u64 + at);
            let now = live(&lab.open()?);
            let now = now.map_err(|e| format!("operation {at}, {survival:?}: {e}"))?;
            assert_eq!(now, needed, "operation {at}, {survival:?}");
        }
        ends_joined(&lab, &before).map_err(|e| format!("operation {at}: {e}"))?;
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

/// Another run joins everything, and leaves no file behind.
fn ends_joined(lab: &Lab, before: &BTreeSet<ObjectId>) -> Done {
    let all = GcOptions {
        grace: Duration::ZERO,
        now: request("gc").time,
        until: None,
        thorough: false,
        dry_run: false,
    };
    let report = repack(&lab.open()?)?;
    assert!(report.finished && report.why_not.is_empty(), "{report:?}");
    let repo = lab.open()?;
    assert_eq!(listed(&repo)?, *before);
    let again = repack(&repo)?;
    assert!(
        again.packs_after <= 3 && again.copied_bytes == 0,
        "{again:?}"
    );
    drop(repo);
    // What a killed command wrote goes with gc, and the log pack stays.
    lab.open()?.gc(&all, &Job::default())?;
    let repo = lab.open()?;
    assert_eq!(lab.pack_files(), repo.store().packs().len() + 1);
    Ok(())
}

#[test]
fn a_disk_that_is_full_or_fails_loses_nothing() -> Done {
    const FULL: i32 = 28;
    const BROKEN: i32 = 5;
    for op in [Op::Write, Op::Sync, Op::SyncDir, Op::Remove, Op::Create] {
        for forever in [true, false] {
            for after in [0, 1, 3] {
                let (place, _) = small_commits(11)?;
                let (before, needed) = (listed(&place.again()?)?, live(&place.again()?)?);
                let lab = Lab::over(place)?;
                let errno = if op == Op::Write { FULL } else { BROKEN };
                lab.sim.fail(Fault {
                    op,
                    after,
                    forever,
                    errno,
                });
                let packs = lab.pack_files();
                let done = repack(&lab.open()?);
                if op == Op::Write && forever && after == 0 {
                    let e = done.expect_err("the disk is full").to_string();
                    assert!(e.contains("No space left"), "{e}");
                    assert_eq!(lab.pack_files(), packs, "what was begun is removed");
                }
                let failed = |e| format!("{op:?} {after}: {e}");
                assert_eq!(live(&lab.open()?).map_err(failed)?, needed);
                lab.sim.clear_faults();
                ends_joined(&lab, &before).map_err(failed)?;
            }
        }
    }
    Ok(())
}
