//! Power cuts, failing syncs and full disks, at every operation.
//!
//! The heavy tier: `cargo test -p dmv-tests --release --test crash -- --ignored`.

use dmv_tests::crashlab::{Lab, Outcome};
use dmv_tests::rng::Rng;
use dmv_tests::simfs::{Fault, Lie, Op, Survival};
use std::path::Path;
use std::sync::Arc;

/// Operations of a whole workload.
fn operations() -> Outcome<u64> {
    let mut lab = Lab::new()?;
    lab.work()?;
    lab.check_now()?;
    Ok(lab.sim.operations())
}

/// Crashes in operation `at` and checks what each seed leaves.
fn crash_at(at: u64, seeds: std::ops::Range<u64>, lie: Option<Lie>) -> Outcome {
    let mut lab = Lab::new()?;
    lab.sim.lie(lie.clone());
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
        lab.check_after_crash(seed, survival, lie.clone())
            .map_err(|e| format!("operation {at}, seed {seed}: {e}"))?;
    }
    Ok(())
}

/// Every operation, `seeds` random outcomes each, on `threads` threads.
fn crash_everywhere(first: u64, seeds: u64, threads: u64) -> Outcome {
    let end = operations()? + 2;
    let failed = std::thread::scope(|scope| {
        let work = |n| {
            move || {
                let mut points = (1..=end).filter(|at| at % threads == n);
                points.find_map(|at| {
                    let from = first + at * seeds;
                    crash_at(at, from..from + seeds, None)
                        .err()
                        .map(|e| e.to_string())
                })
            }
        };
        let threads: Vec<_> = (0..threads).map(|n| scope.spawn(work(n))).collect();
        let results = threads.into_iter().map(|t| t.join());
        results.filter_map(|r| r.unwrap_or(Some("a thread panicked".into()))).next()
    });
    failed.map_or(Ok(()), |e| Err(e.into()))
}

#[test]
fn a_crash_in_any_operation_loses_nothing_that_was_acknowledged() -> Outcome {
    crash_everywhere(0, 1, 2)
}

/// Thousands of outcomes; see the top of this file.
#[test]
#[ignore = "an hour"]
fn many_outcomes_of_a_crash_in_any_operation_lose_nothing() -> Outcome {
    crash_everywhere(1 << 32, 64, 2)
}
