//! Whoever frees the space of a repository all the time.

use super::Tally;
use super::network::{HUBS, run};
use crate::place::Place;
use dmv_random::Rng;
use std::sync::atomic::{AtomicBool, Ordering};

/// Runs the commands that free space, and a few others, until `ends` is set. Returns how they ended.
pub fn collect(place: &Place, repo: &str, seed: u64, ends: &AtomicBool) -> Result<Tally, String> {
    let (mut rng, mut tally) = (Rng::new(seed), Tally::default());
    while !ends.load(Ordering::Relaxed) {
        let branch;
        let args: &[&str] = match rng.below(10) {
            0..=3 => &["gc", "--grace", "0"],
            4 | 5 => &["op", "expire", "--older", "0s"],
            6 => &["repack"],
            7 => &["verify"],
            // A hub gives up what the other one has, and gets it back. Workers drop by themselves.
            n if HUBS.contains(&repo) => {
                let Some(name) = any_branch(place, repo, &mut rng)? else {
                    continue;
                };
                branch = format!("{name}:*{}", rng.below(4));
                &[if n == 8 { "drop" } else { "get" }, &branch]
            }
            8 => &["fetch", "hub"],
            _ => &["fetch", "archive"],
        };
        let ended = run(place, &mut rng, &[&["-C", repo], args].concat())?;
        tally.count(&ended);
    }
    Ok(tally)
}

fn any_branch(place: &Place, repo: &str, rng: &mut Rng) -> Result<Option<String>, String> {
    let records = place.records(&["-C", repo, "branch", "--json"]);
    let records = records.map_err(|e| e.to_string())?;
    let at = rng.below(records.len() as u64) as usize;
    let name = records.get(at).and_then(|branch| branch["name"].as_str());
    Ok(name.map(str::to_owned))
}
