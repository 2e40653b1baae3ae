//! The repositories, and how a command runs among others: undisturbed, killed, stopped for a moment,
//! or with a server that dies.

use crate::place::several::speaking_ssh;
use crate::place::{Outcome, Place};
use dmv_random::Rng;
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use std::os::unix::process::CommandExt;
use std::process::{Child, Stdio};
use std::thread::sleep;
use std::time::Duration;

/// All of them.
pub const REPOSITORIES: [&str; 4] = ["film", "laptop", "hub", "archive"];

/// Those that workers push to.
pub const HUBS: [&str; 2] = ["hub", "archive"];

/// An ssh that stays on this machine. With `CUT`, the server is killed after so many seconds.
const SSH: &str = r#"#!/bin/sh
while [ "$1" != "--" ]; do shift; done
if [ -n "$CUT" ]; then exec timeout --foreground -s KILL "$CUT" sh -c "exec $3"; fi
exec sh -c "exec $3"
"#;

/// `film` with the worktree `film2`, a clone of the hub that speaks ssh, and two bare repositories, of
/// which one shares packs with `film`.
pub fn network() -> Outcome<Place> {
    let place = speaking_ssh(SSH)?;
    place.ok(&["init", "film"])?;
    place.write("film/first", "first")?;
    place.ok(&["-C", "film", "commit", "-m", "first"])?;
    place.ok(&["-C", "film", "worktree", "add", "../film2"])?;
    place.ok(&["-C", "film", "keep", "set", "film/f0", "last:2"])?;
    place.ok(&["clone", "--bare", "--copy", "film", "hub"])?;
    place.ok(&["clone", "--bare", "film", "archive"])?;
    let url = |name: &str| format!("ssh://host{}", place.work().join(name).display());
    place.ok(&["clone", &url("hub"), "laptop"])?;
    place.ok(&["-C", "laptop", "checkout", "-b", "laptop"])?;
    for (repo, name, at) in [
        ("film", "hub", "../hub".to_owned()),
        ("film", "archive", "../archive".to_owned()),
        ("laptop", "hub", url("hub")),
        ("laptop", "archive", url("archive")),
        ("hub", "archive", "../archive".to_owned()),
        ("archive", "hub", "../hub".to_owned()),
    ] {
        place.ok(&["-C", repo, "remote", "add", name, &at])?;
    }
    Ok(place)
}

/// How a command ended.
#[derive(Debug)]
pub struct Ended {
    /// None: it was killed.
    pub code: Option<i32>,
    pub out: String,
    pub said: String,
}

/// What happens to a command while it runs.
#[derive(Clone, Copy, Debug)]
enum Luck {
    Good,
    Killed,
    Stopped,
    /// The server of an ssh remote dies.
    Cut,
}

/// The longest time before something happens to a command, in milliseconds.
const SOON: u64 = 60;
/// The longest time that one is stopped, in milliseconds.
const STOPPED: u64 = 300;

/// Exit codes of commands that did their work, or part of it, or were refused, or found others in
/// their way, or no remote that has something.
const EXITS: [i32; 8] = [0, 3, 5, 6, 11, 12, 13, 20];

/// Runs a command in a repository, and lets something happen to it now and then. Fails if it ends in a
/// way that others at work do not excuse.
pub fn run(place: &Place, rng: &mut Rng, args: &[&str]) -> Result<Ended, String> {
    let luck = match rng.below(12) {
        0 => Luck::Killed,
        1 => Luck::Stopped,
        2 => Luck::Cut,
        _ => Luck::Good,
    };
    let ended = meet(place, rng, luck, args).map_err(|e| format!("{args:?}: {e}"))?;
    let is_fine = match (ended.code, luck) {
        (None, _) => matches!(luck, Luck::Killed),
        (Some(code), _) => EXITS.contains(&code) && !ended.said.contains("panicked"),
    };
    if !is_fine {
        return Err(format!("{args:?} ({luck:?}): {ended:?}"));
    }
    Ok(ended)
}

fn meet(place: &Place, rng: &mut Rng, luck: Luck, args: &[&str]) -> Outcome<Ended> {
    let mut command = place.command(args);
    command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0);
    if matches!(luck, Luck::Cut) {
        command.env("CUT", format!("0.{:03}", 1 + rng.below(SOON)));
    }
    let child = command.spawn()?;
    let pause = |rng: &mut Rng, longest| sleep(Duration::from_millis(rng.below(longest)));
    match luck {
        Luck::Good | Luck::Cut => {}
        Luck::Killed => {
            pause(rng, SOON);
            // It may have ended.
            let _ = kill_process_group(pid(&child), Signal::KILL);
        }
        Luck::Stopped => {
            pause(rng, SOON);
            let _ = kill_process(pid(&child), Signal::STOP);
            pause(rng, STOPPED);
            let _ = kill_process(pid(&child), Signal::CONT);
        }
    }
    let output = child.wait_with_output()?;
    Ok(Ended {
        code: output.status.code(),
        out: String::from_utf8_lossy(&output.stdout).into_owned(),
        said: String::from_utf8_lossy(&output.stderr).into_owned(),
    })
}

fn pid(child: &Child) -> Pid {
    Pid::from_child(child)
}
