//! Commands at a real object store, killed at some moment: the same command succeeds when it runs again,
//! and the bucket is intact.
//!
//! `DMV_BUCKET_KILLS=20 cargo test -p dmv-cli --test program -- bucket::cut` kills each command that often.

// A test says aloud how often it came in time.
#![allow(clippy::print_stdout)]

use super::gateway::Gateway;
use super::{KEY, SECRET, place};
use crate::place::{Outcome, Place};
use std::fs;
use std::process::Stdio;
use std::time::{Duration, Instant};

/// Commands that change a bucket.
const COMMANDS: &[&[&str]] = &[
    &["push", "studio"],
    &["repack", "--at", "studio"],
    &["gc", "--at", "studio", "--grace", "0"],
    &["undo", "--at", "studio"],
    &["redo", "--at", "studio"],
];

/// How often each command is killed, if the environment does not say it.
const KILLS: u32 = 1;

/// A repository with some commits in a bucket, and one more that is not there.
fn pushed(gateway: &Gateway, bucket: &str) -> Outcome<Place> {
    let place = place()?;
    gateway.add(&place, "studio", bucket)?;
    for n in 0..6 {
        let noise: Vec<u8> = (0..40_000_u32)
            .flat_map(|at| (at ^ n).wrapping_mul(0x9e37_79b9).to_le_bytes())
            .collect();
        place.write("film", noise)?;
        place.write(format!("d/f{n}"), format!("{n}"))?;
        place.commit(&n.to_string())?;
        if n < 5 {
            place.ok(&["push", "studio"])?;
        }
    }
    Ok(place)
}

/// Brings the place to where `command` has something to do.
fn prepare(place: &Place, command: &[&str]) -> Outcome {
    if command[0] != "push" {
        place.ok(&["push", "studio"])?;
    }
    if command[0] == "redo" {
        place.ok(&["undo", "--at", "studio"])?;
    }
    Ok(())
}

/// Runs a command and kills it after a time. Returns whether it was still at work.
fn kill_after(place: &Place, command: &[&str], after: Duration) -> Outcome<bool> {
    let mut command = place.command(command);
    let mut child = command
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    std::thread::sleep(after);
    let was_at_work = child.try_wait()?.is_none();
    child.kill()?;
    child.wait()?;
    Ok(was_at_work)
}

#[test]
fn a_killed_command_at_a_bucket_succeeds_when_it_runs_again() -> Outcome {
    let Some(gateway) = Gateway::start(KEY, SECRET)? else {
        return Ok(());
    };
    let asked = std::env::var("DMV_BUCKET_KILLS");
    let kills = asked
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(KILLS);
    for (number, command) in COMMANDS.iter().enumerate() {
        let what = command.join(" ");
        let mut hits = 0;
        let mut whole = Duration::from_millis(400);
        for n in 0..kills {
            let bucket = format!("s3://film/{number}-{n}");
            let place = pushed(&gateway, &bucket)?;
            prepare(&place, command)?;
            let after = whole * (2 * n + 1) / (2 * kills);
            hits += u32::from(kill_after(&place, command, after)?);
            let began = Instant::now();
            let again = place.run(command)?;
            whole = began.elapsed();
            let said = String::from_utf8(again.stderr)?;
            // An undo or redo that was killed too late has happened, and is refused a second time.
            let may_be_done = matches!(command[0], "undo" | "redo");
            let code = again.status.code();
            assert!(
                code == Some(0) || may_be_done && matches!(code, Some(5 | 20)),
                "{what}, killed after {after:?}, then: {code:?} {said}"
            );
            place.ok(&["push", "studio"])?;
            place.ok(&["verify", "--at", "studio", "--full"])?;
            place.ok(&["clone", &bucket, "copy", "--endpoint", &gateway.endpoint])?;
            let copied = fs::read(place.work().join("copy/film"))?;
            assert_eq!(copied, fs::read(place.work().join("film"))?, "{what}");
        }
        println!("{what}: killed {hits} of {kills} times at work");
    }
    Ok(())
}
