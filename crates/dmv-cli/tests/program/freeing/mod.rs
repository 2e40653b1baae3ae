//! Several repositories that free space while others commit, push and fetch beside them, in processes
//! that are killed, stopped for a moment, and cut off in the middle of a transfer.
//!
//! Three workers commit in two repositories, one of them over ssh. Two bare repositories have what they
//! push, and give up what the other one has. In each repository a collector frees everything that it
//! may. In the end everything that was acknowledged is read back, and nothing that could go is left.
//!
//! The count is small here. More: `DMV_FREEING_ROUNDS=300 cargo test -p dmv-cli --release --test program
//! -- freeing::`. `DMV_SEED` sets where the numbers begin; processes meet in another order each time.

#![allow(clippy::print_stdout)]

mod collector;
mod network;
mod worker;

use crate::place::{Outcome, Place};
use dmv_core::hash::ObjectId;
use dmv_core::job::Job;
use dmv_core::repo::{GcOptions, Repo};
use dmv_random::{number, seed};
use dmv_tests::garbage::{bases, named, raw_objects, walk};
use dmv_tests::scratch::request;
use network::{Ended, HUBS, REPOSITORIES, network};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use worker::{Made, WORKERS, Work};

/// Commands that did their work, were refused, and were cut off.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    done: u64,
    refused: u64,
    cut: u64,
}

impl Tally {
    fn count(&mut self, ended: &Ended) {
        *match ended.code {
            Some(0) => &mut self.done,
            Some(_) => &mut self.refused,
            None => &mut self.cut,
        } += 1;
    }

    fn add(&mut self, other: Tally) {
        self.done += other.done;
        self.refused += other.refused;
        self.cut += other.cut;
    }
}

#[test]
fn repositories_that_free_space_beside_each_other_lose_nothing_and_leave_nothing() -> Outcome {
    let (rounds, seed) = (number("DMV_FREEING_ROUNDS", 2), seed(1));
    let place = network()?;
    let ends = AtomicBool::new(false);
    let (works, collectors) = std::thread::scope(|scope| {
        let (place, ends) = (&place, &ends);
        let collectors: Vec<_> = REPOSITORIES
            .iter()
            .zip(100 + seed..)
            .map(|(repo, seed)| scope.spawn(move || collector::collect(place, repo, seed, ends)))
            .collect();
        let workers: Vec<_> = WORKERS
            .iter()
            .zip(1_000 * seed..)
            .map(|(worker, seed)| scope.spawn(move || Work::new(place, worker, seed)?.run(rounds)))
            .collect();
        let works: Vec<_> = workers.into_iter().map(|thread| thread.join()).collect();
        ends.store(true, Ordering::Relaxed);
        let collectors: Vec<_> = collectors.into_iter().map(|thread| thread.join()).collect();
        (works, collectors)
    });
    let (mut made, mut tally, mut freeing) = (Vec::new(), Tally::default(), Tally::default());
    for work in works {
        let work = work.map_err(|_| "a worker panicked")??;
        tally.add(work.tally);
        made.extend(work.made);
    }
    for done in collectors {
        freeing.add(done.map_err(|_| "a collector panicked")??);
    }
    // On a busy machine one of them may have been late all the time.
    assert!(!made.is_empty() && freeing.done > 0, "nothing was done");
    let read = everything_is_there(&place, &made)?;
    for repo in REPOSITORIES {
        nothing_else_is_left(&place, repo)?;
    }
    everything_is_there(&place, &made)?;
    println!(
        "harness freeing: {} commits acknowledged and {read} read back, {tally:?} beside {freeing:?} that free, 0 \
         failed, seed {seed}",
        made.len()
    );
    Ok(())
}

/// The commits that the branches and tags of a repository lead to.
fn reachable(place: &Place, repo: &str) -> Outcome<BTreeSet<String>> {
    let mut ids = BTreeSet::new();
    for branch in place.records(&["-C", repo, "branch", "--json"])? {
        let name = branch["name"].as_str().ok_or("a branch has a name")?;
        for commit in place.records(&["-C", repo, "log", "--json", name])? {
            ids.extend(commit["id"].as_str().map(str::to_owned));
        }
    }
    Ok(ids)
}

/// Reads every acknowledged commit that is still on a branch, wherever it is, and returns how many
/// files that were.
fn everything_is_there(place: &Place, made: &[Made]) -> Outcome<usize> {
    let mut read = 0;
    let mut at = BTreeMap::new();
    for repo in REPOSITORIES {
        place.ok(&["-C", repo, "verify", "--full"])?;
        at.insert(repo, reachable(place, repo)?);
    }
    for made in made {
        let own = WORKERS.iter().find(|worker| worker.name == made.by);
        let own = own.ok_or("there is such a worker")?.repo;
        // What was pushed stays there: nobody deletes these branches.
        for hub in HUBS {
            if made.pushed.contains(&hub) && !at[hub].contains(&made.id) {
                return Err(format!("{hub} has lost commit {}", made.id).into());
            }
        }
        for repo in [own].into_iter().chain(HUBS) {
            if !at[repo].contains(&made.id) {
                continue;
            }
            for (path, content) in &made.files {
                let file = format!("{}:{path}", made.id);
                let output = place.run(&["-C", repo, "cat", &file])?;
                if output.status.code() != Some(0) || output.stdout != content.bytes() {
                    let said = String::from_utf8_lossy(&output.stderr);
                    return Err(format!("{repo} has lost {file} ({content:?}): {said}").into());
                }
                read += 1;
            }
        }
    }
    Ok(read)
}

/// Checks that two runs of gc leave no object that nothing needs.
fn nothing_else_is_left(place: &Place, repo: &str) -> Outcome {
    place.ok(&["-C", repo, "op", "expire", "--older", "0s"])?;
    let options = GcOptions {
        thorough: true,
        ..GcOptions::new(Duration::ZERO, request("gc").time)
    };
    let dir = place.work().join(repo);
    for _ in 0..2 {
        let report = Repo::open(&dir)?.gc(&options, &Job::default())?;
        if !report.finished || !report.why_not.is_empty() {
            return Err(format!("{repo}: {report:?}").into());
        }
    }
    let opened = Repo::open(&dir)?;
    let live = walk(&opened, &named(&opened)?)?;
    let raw = raw_objects(&opened)?;
    let bases = bases(&opened)?;
    let left = raw.difference(&live).filter(|id| !bases.contains(id));
    let left: Vec<&ObjectId> = left.collect();
    match left[..] {
        [] => Ok(()),
        [first, ..] => Err(format!("{repo}: {} objects are left, {first}", left.len()).into()),
    }
}
