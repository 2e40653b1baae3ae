//! Power cuts, failing syncs and full disks, at every operation.
//!
//! Long run: `DMV_COUNT=1000000 cargo test -p dmv-tests --release --test library -- crash:: --ignored
//! --nocapture`.

// The long run prints how many crashes it tried.
#![allow(clippy::print_stdout)]

use dmv_core::repo::Repo;
use dmv_tests::crashlab::{Lab, Lies, Outcome};
use dmv_tests::rng::{Rng, number, seed};
use dmv_tests::scratch::commit;
use dmv_tests::simfs::{Fault, Op, Survival};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Returns the number of operations of a complete workload.
fn operations() -> Outcome<u64> {
    let mut lab = Lab::new()?;
    lab.work()?;
    lab.check_now()?;
    Ok(lab.sim.operations())
}

/// Crashes in operation `at` and checks the outcome of each seed. If `every` divides the seed,
/// recovery and further crashes follow.
fn crash_at(at: u64, seeds: std::ops::Range<u64>, every: u64, lies: &Lies) -> Outcome {
    let mut lab = Lab::new()?;
    lab.sim.lie(lies.work.clone());
    lab.sim.crash_at(at);
    let done = lab.work();
    if let (Err(e), false) = (&done, lab.sim.has_crashed()) {
        return Err(format!("the workload fails by itself: {e}").into());
    }
    for seed in seeds {
        let survival = match seed % 16 {
            0 => Survival::Nothing,
            1 => Survival::Everything,
            _ => Survival::Some,
        };
        let done = match seed % every {
            0 => lab.check_after_crash(seed, survival, lies),
            _ => lab.look_after_crash(seed, survival),
        };
        done.map_err(|e| format!("operation {at}, seed {seed}: {e}"))?;
    }
    Ok(())
}

/// The number of outcomes for one run of the workload, in the long run.
const SHARED: u64 = 64;
/// One in this many outcomes is followed by further crashes and by recovery.
const FULL: u64 = 16;

/// Checks `count` outcomes with the seeds from `from` on, in each operation that is `step` after the last one, and
/// over two threads.
fn crash_everywhere(from: u64, count: u64, step: u64, shared: u64, every: u64) -> Outcome {
    const THREADS: u64 = 2;
    let end = operations()? + 2;
    let work = |thread| {
        (0..count.div_ceil(shared))
            .filter(|n| n % THREADS == thread)
            .find_map(|n| {
                let seed = from + n * shared;
                let seeds = seed..(seed + shared).min(from + count);
                let failed = crash_at(1 + n * step % end, seeds, every, &Lies::default()).err();
                failed.map(|e| e.to_string())
            })
    };
    let failed = std::thread::scope(|scope| {
        let work = &work;
        let threads = Vec::from_iter((0..THREADS).map(|n| scope.spawn(move || work(n))));
        let results = threads.into_iter().map(|t| t.join());
        let mut errors = results.filter_map(|r| r.unwrap_or(Some("a thread panicked".into())));
        errors.next()
    });
    failed.map_or(Ok(()), |e| Err(e.into()))
}

/// In every fifth operation; the long run has all.
#[test]
fn a_crash_in_any_operation_loses_nothing_that_was_acknowledged() -> Outcome {
    crash_everywhere(0, operations()?.div_ceil(5) + 1, 5, 1, 3)
}

/// Checks `DMV_COUNT` outcomes with the seeds from `DMV_SEED` on. The top of this file shows how to
/// run it.
///
/// The further crashes after some outcomes do not count.
#[test]
#[ignore = "half an hour"]
fn many_outcomes_of_a_crash_in_any_operation_lose_nothing() -> Outcome {
    let (count, seed) = (number("DMV_COUNT", 40_000), seed(1000));
    crash_everywhere(seed, count, 1, SHARED, FULL)?;
    println!("harness crash: {count} simulated crash points, 0 failed, seed {seed}");
    Ok(())
}

/// Crashes with lying syncs until a check fails. Returns whether one did.
fn is_noticed(lies: &Lies) -> Outcome<bool> {
    let end = operations()? + 1;
    let mut points: Vec<u64> = (1..=end).collect();
    Rng::new(3).shuffle(&mut points);
    // When all is done, most is lost that was never synced.
    points.insert(0, end);
    // Each operation has three outcomes: everything unsynced is lost, the process was only killed,
    // or a random outcome.
    let mut seeds = points.iter().map(|at| at * 16..at * 16 + 3);
    let noticed = |at: &u64| crash_at(*at, seeds.next().unwrap_or(0..1), 1, lies).is_err();
    Ok(points.iter().any(noticed))
}

/// Selects syncs by path and content.
type Which = fn(&Path, &[u8]) -> bool;

/// The kinds of syncs that are left out: a name, and a test on path and content.
const SYNCS: [(&str, Which); 5] = [
    ("data packs", |_, content| is_pack(content, 1)),
    ("meta packs", |_, content| is_pack(content, 2)),
    ("the log pack", |_, content| is_pack(content, 3)),
    ("the directory of packs", |path, _| {
        path == Path::new("packs")
    }),
    ("index files", |_, content| content.starts_with(b"DMVINDX")),
];

fn is_pack(content: &[u8], kind: u8) -> bool {
    content.starts_with(b"DMVPACK") && content[10] == kind
}

/// Tests the checks themselves: a commit needs each of its syncs, and a check fails without it.
#[test]
fn a_commit_that_leaves_out_any_of_its_syncs_is_noticed() -> Outcome {
    for (what, lie) in SYNCS {
        let lies = Lies {
            work: Some(Arc::new(lie)),
            recovery: None,
        };
        assert!(is_noticed(&lies)?, "no check needs the sync of {what}");
    }
    Ok(())
}

/// The same for recovery, which writes no index files.
#[test]
fn a_recovery_that_leaves_out_any_of_its_syncs_is_noticed() -> Outcome {
    for (what, lie) in &SYNCS[..4] {
        let lies = Lies {
            work: None,
            recovery: Some(Arc::new(*lie)),
        };
        assert!(is_noticed(&lies)?, "no check needs the sync of {what}");
    }
    Ok(())
}

/// DMV finds what a killed job wrote. If the same job runs again, it writes little more than an
/// index.
#[test]
fn what_a_killed_commit_has_written_is_not_written_again() -> Outcome {
    let mut lab = Lab::new()?;
    lab.commit(1)?;
    let before = lab.sim.operations();
    let files = lab.edit(2)?;
    let whole = {
        let mut other = Lab::new()?;
        other.commit(1)?;
        let files = other.edit(2)?;
        other.retry(&other.open()?, "whole", files)?
    };
    // Late in the commit: its frames are written, but not their index.
    lab.sim.crash_at(before + 7);
    assert!(commit(&lab.open()?, "killed").is_err());
    lab.restart(Survival::Everything, 1);
    let again = lab.retry(&lab.open()?, "again", files)?;
    assert!(whole > 50_000 && again < 2_000, "{again} of {whole} bytes");
    lab.check_after_crash(0, Survival::Nothing, &Lies::default())
}

/// Lets a commit fail at each operation `op` in turn, and checks that the next commit works.
fn fail_each(op: Op, errno: i32, forever: bool) -> Outcome {
    for after in 0.. {
        let mut lab = Lab::new()?;
        lab.commit(1)?;
        let repo = lab.open()?;
        let files = lab.edit(2)?;
        let before = repo.refs().with_prefix("")?;
        lab.sim.fail(Fault {
            op,
            after,
            forever,
            errno,
        });
        let failed = commit(&repo, "fails");
        if failed.is_ok() {
            // The commit has no more operations of this kind.
            assert!(after > 0, "{op:?} never comes");
            return Ok(());
        }
        let when = format!("{op:?} number {after}");
        assert_eq!(before, repo.refs().with_prefix("")?, "{when}");
        lab.sim.clear_faults();
        let poisoned: Vec<_> = poisoned(&repo)?.into_iter().collect();
        let sizes = lab.sim.seen();
        // The same process tries again. It must not build on data that may be lost.
        lab.retry(&repo, "again", files)
            .map_err(|e| format!("{when}: {e}"))?;
        for path in &poisoned {
            assert_eq!(
                sizes.get(path),
                lab.sim.seen().get(path),
                "{when}: written again"
            );
        }
        if op == Op::Sync && after < 2 {
            assert!(!poisoned.is_empty(), "{when}: the pack is not poisoned");
        }
        lab.check_after_crash(0, Survival::Nothing, &Lies::default())
            .map_err(|e| format!("{when}: {e}"))?;
    }
    Ok(())
}

/// Returns the files of the packs that DMV does not write to any more.
fn poisoned(repo: &Repo) -> Outcome<Vec<PathBuf>> {
    let packs = repo.refs().catalogue()?.packs;
    let poisoned = packs.iter().filter(|row| row.poisoned);
    Ok(poisoned
        .map(|row| Path::new("packs").join(format!("{}.pack", row.id)))
        .collect())
}

#[test]
fn after_a_failed_sync_nothing_is_published_and_its_pack_is_never_written_again() -> Outcome {
    fail_each(Op::Sync, EIO, false)
}

#[test]
fn after_a_failed_sync_of_the_directory_nothing_is_published() -> Outcome {
    let mut lab = Lab::new()?;
    let fault = Fault {
        op: Op::SyncDir,
        after: 0,
        forever: false,
        errno: EIO,
    };
    lab.sim.fail(fault);
    let (repo, files) = (lab.open()?, lab.edit(1)?);
    assert!(commit(&repo, "fails").is_err());
    assert_eq!(repo.head_commit()?, None);
    lab.retry(&repo, "again", files)?;
    lab.check_after_crash(0, Survival::Nothing, &Lies::default())
}

#[test]
fn a_full_or_failing_disk_changes_nothing_and_the_next_commit_works() -> Outcome {
    fail_each(Op::Write, ENOSPC, true)?;
    fail_each(Op::Write, EIO, false)
}

/// A pack that cannot be opened any more is no reason to begin another one, and another one.
#[test]
fn a_commit_whose_packs_cannot_be_opened_fails() -> Outcome {
    let mut lab = Lab::new()?;
    let (repo, files) = (lab.open()?, lab.edit(1)?);
    lab.sim.fail(Fault {
        op: Op::Open,
        after: 0,
        forever: true,
        errno: EIO,
    });
    assert!(commit(&repo, "fails").is_err());
    assert!(lab.sim.seen().len() < 10, "{:?}", lab.sim.seen().keys());
    lab.sim.clear_faults();
    lab.retry(&repo, "again", files)?;
    lab.check_after_crash(0, Survival::Nothing, &Lies::default())
}

const EIO: i32 = 5;
const ENOSPC: i32 = 28;
