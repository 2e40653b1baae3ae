//! Commands beside one another in several processes: every command at once, and one that is stopped
//! at any moment while others want to go on.
//!
//! The counts are small here. More: `DMV_ROUNDS=200 DMV_STOPS=500 cargo test -p dmv-cli --release
//! --test program -- beside::`.

use crate::place::{Outcome, Place};
use dmv_random::{Rng, number, seed};
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A figure for whoever runs the heavy counts.
fn tell(figure: &str) -> Outcome {
    Ok(writeln!(std::io::stderr(), "{figure}")?)
}

/// A commit that was acknowledged: its id, and a file of it with its content.
struct Made {
    id: String,
    path: String,
    content: String,
}

/// A repository with three worktrees and another repository that has what it has.
fn three_worktrees() -> Outcome<Place> {
    let place = Place::new()?;
    place.ok(&["init", "film"])?;
    place.write("film/first", "first")?;
    place.ok(&["-C", "film", "commit", "-m", "first"])?;
    for name in ["w1", "w2"] {
        place.ok(&["-C", "film", "worktree", "add", &format!("../{name}")])?;
    }
    place.ok(&["clone", "--bare", "film", "nas"])?;
    place.ok(&["-C", "film", "remote", "add", "nas", "../nas"])?;
    // Something that the first undos may take back: otherwise they remove the worktrees.
    for name in ["film", "w1", "w2"] {
        for n in 0..UNDOABLE {
            place.write(format!("{name}/at-first"), format!("{name} {n}"))?;
            place.ok(&["-C", name, "commit", "-m", &format!("{name} {n}")])?;
        }
    }
    Ok(place)
}

/// Commits of each worktree before the work begins.
const UNDOABLE: u64 = 6;

/// Runs a command that may find others in its way; what it printed if it did its work.
fn may(place: &Place, exits: &[i32], args: &[&str]) -> Result<Option<String>, String> {
    let output = place.run(args).map_err(|e| e.to_string())?;
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    match output.status.code() {
        Some(0) => Ok(Some(String::from_utf8_lossy(&output.stdout).into_owned())),
        Some(code) if exits.contains(&code) => Ok(None),
        code => Err(format!("{args:?} ended with {code:?}: {errors}")),
    }
}

/// How often a merge is tried.
const MERGE_TRIES: u64 = 3;

/// Busy, or changed meanwhile.
const BUSY: i32 = 11;

/// One worktree's commands, `rounds` of them; returns what was acknowledged.
fn work(place: &Place, name: &str, seed: u64, rounds: u64) -> Result<Vec<Made>, String> {
    let mut rng = Rng::new(seed);
    let mut made = Vec::new();
    for n in 0..rounds {
        let at = |args: &[&str], exits: &[i32]| may(place, exits, &[&["-C", name], args].concat());
        match rng.below(20) {
            // There may be nothing that this worktree could undo.
            0 => drop(at(&["undo"], &[BUSY, 5, 20])?),
            1 => drop(at(&["tag", &format!("{name}-{n}")], &[BUSY])?),
            2 => drop(at(&["branch", &format!("{name}/at-{n}")], &[BUSY])?),
            3 => {
                // One that gave up while others were at work has perhaps written files.
                let merge = ["merge", ["main", "w1", "w2"][rng.below(3) as usize]];
                let mut tries = 0..MERGE_TRIES;
                while at(&merge, &[BUSY, 4, 5])?.is_none() && tries.next().is_some() {}
            }
            4 => drop(at(&["push", "nas"], &[BUSY, 5])?),
            5 => {
                let path = format!("{name}-{}", rng.below(n + 1));
                // It may not be there, or not be at the other repository.
                drop(at(&["drop", &path], &[BUSY, 3, 5, 6, 20])?);
            }
            6 => drop(at(&["status"], &[])?),
            7 => drop(at(&["log", "-n", "3"], &[])?),
            _ => {
                let (path, content) = (format!("{name}-{n}"), format!("{name} {n} {seed}"));
                place
                    .write(format!("{name}/{path}"), &content)
                    .map_err(|e| e.to_string())?;
                let done = at(&["commit", "-m", &path, "--json"], &[BUSY])?;
                let done =
                    done.and_then(|text| serde_json::from_str::<serde_json::Value>(&text).ok());
                if let Some(id) = done.as_ref().and_then(|done| done["commit"].as_str()) {
                    let id = id.to_owned();
                    made.push(Made { id, path, content });
                }
            }
        }
    }
    Ok(made)
}

#[test]
fn commits_beside_every_other_command_are_read_back_by_a_fresh_process() -> Outcome {
    let (rounds, seed) = (number("DMV_ROUNDS", 4), seed(1));
    let place = three_worktrees()?;
    let ends = AtomicBool::new(false);
    let again = |args: &'static [&'static str], exits: &'static [i32]| {
        let (place, ends) = (&place, &ends);
        move || {
            let mut done = 0;
            while !ends.load(Ordering::Relaxed) {
                done += u64::from(may(place, exits, args)?.is_some());
            }
            Ok::<u64, String>(done)
        }
    };
    let (made, beside) = std::thread::scope(|scope| {
        let beside = [
            scope.spawn(again(&["-C", "film", "recover"], &[BUSY])),
            scope.spawn(again(&["-C", "film", "verify", "--full"], &[BUSY])),
            scope.spawn(again(&["-C", "film", "verify", "--heal"], &[BUSY])),
        ];
        let place = &place;
        let workers = [("film", seed), ("w1", seed + 1), ("w2", seed + 2)]
            .map(|(name, seed)| scope.spawn(move || work(place, name, seed, rounds)));
        let made = workers.map(|worker| worker.join());
        ends.store(true, Ordering::Relaxed);
        (made, beside.map(|thread| thread.join()))
    });
    let mut acknowledged = 0;
    for done in made {
        for made in done.map_err(|_| "a thread panicked")?? {
            let file = format!("{}:{}", made.id, made.path);
            assert_eq!(place.ok(&["-C", "film", "cat", &file])?, made.content);
            acknowledged += 1;
        }
    }
    for done in beside {
        assert!(done.map_err(|_| "a thread panicked")?? > 0);
    }
    place.ok(&["-C", "film", "verify", "--full"])?;
    fs::remove_file(place.work().join("film/.dmv/refs.db"))?;
    place.ok(&["-C", "film", "recover"])?;
    place.ok(&["-C", "film", "verify", "--full"])?;
    tell(&format!(
        "harness beside: {acknowledged} commits acknowledged and read back, 0 failed, seed {seed}"
    ))?;
    assert!(acknowledged > rounds);
    Ok(())
}

/// Whether a process has a lock on one of `files`.
fn has_lock(pid: u32, files: &[PathBuf]) -> bool {
    let inodes: Vec<u64> = files
        .iter()
        .filter_map(|file| fs::metadata(file).ok().map(|stat| stat.ino()))
        .collect();
    let locks = fs::read_to_string("/proc/locks").unwrap_or_default();
    locks.lines().any(|line| {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let place = words.iter().find(|word| word.matches(':').count() == 2);
        let inode = place.and_then(|place| place.rsplit(':').next()?.parse().ok());
        words.contains(&pid.to_string().as_str()) && inode.is_some_and(|n| inodes.contains(&n))
    })
}

/// Stops a process and waits until it is; `false` where it had ended.
fn stop(child: &mut Child) -> Outcome<bool> {
    kill_process(Pid::from_child(child), Signal::STOP)?;
    loop {
        let stat = fs::read_to_string(format!("/proc/{}/stat", child.id()))?;
        match stat
            .rsplit_once(')')
            .and_then(|(_, rest)| rest.trim_start().chars().next())
        {
            Some('T') => return Ok(true),
            Some('Z') => return Ok(false),
            _ => std::thread::yield_now(),
        }
    }
}

/// How long a command may take when another is stopped: reading is not to wait for it at all, but a
/// busy machine may be slow.
const READING: Duration = Duration::from_secs(5);
const WRITING: Duration = Duration::from_secs(12);

/// Runs commands while `stopped` is; returns whether writers had to give up.
fn others_go_on(place: &Place, n: u64, stopped: u32) -> Outcome<bool> {
    for args in [&["-C", "w1", "log", "-n", "1"][..], &["-C", "w1", "status"]] {
        let begin = Instant::now();
        place.ok(args)?;
        let took = begin.elapsed();
        assert!(took < READING, "{args:?} took {took:?} beside {stopped}");
    }
    place.write(format!("w1/beside-{n}"), "beside")?;
    let begin = Instant::now();
    let output = place.run(&["-C", "w1", "commit", "-m", "beside"])?;
    let took = begin.elapsed();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(took < WRITING, "{took:?} beside {stopped}: {errors}");
    match output.status.code() {
        Some(0) => Ok(false),
        Some(BUSY) => {
            let told = format!("process {stopped} is stopped");
            assert!(errors.contains(&told), "{errors}");
            Ok(true)
        }
        code => Err(format!("{code:?}: {errors}").into()),
    }
}

#[test]
fn a_command_that_is_stopped_anywhere_keeps_no_reader_and_no_writer_for_long() -> Outcome {
    let stops = number("DMV_STOPS", 3);
    let place = three_worktrees()?;
    let dmv = place.work().join("film/.dmv");
    let mut rng = Rng::new(seed(7));
    let (mut blocked, mut stopped) = (0, 0);
    for n in 0..stops {
        place.write(format!("film/stopped-{n}"), format!("content {n}"))?;
        let mut child = place
            .command(&["-C", "film", "commit", "-m", "stopped", "--json"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        // At a random moment, or as soon as it has a lock that is everybody's.
        let files = match rng.below(3) {
            0 => Vec::new(),
            1 => vec![dmv.join("refs.lock")],
            _ => vec![dmv.join("refs.db-shm"), dmv.join("refs.db")],
        };
        let begin = Instant::now();
        let pause = Duration::from_micros(rng.below(30_000));
        while child.try_wait()?.is_none()
            && if files.is_empty() {
                begin.elapsed() < pause
            } else {
                !has_lock(child.id(), &files)
            }
        {
            std::hint::spin_loop();
        }
        if child.try_wait()?.is_none() && stop(&mut child)? {
            let done = others_go_on(&place, n, child.id());
            kill_process(Pid::from_child(&child), Signal::CONT)?;
            blocked += u64::from(done?);
            stopped += 1;
        }
        let output = child.wait_with_output()?;
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{errors}");
        let done: serde_json::Value = serde_json::from_slice(&output.stdout)?;
        let id = done["commit"].as_str().ok_or("nothing to commit")?;
        let file = format!("{id}:stopped-{n}");
        assert_eq!(
            place.ok(&["-C", "film", "cat", &file])?,
            format!("content {n}")
        );
    }
    tell(&format!(
        "{stopped} stopped, {blocked} kept writers waiting"
    ))?;
    place.ok(&["-C", "film", "verify", "--full"])?;
    Ok(())
}

/// A process of this test that takes a lock and stops itself.
struct Frozen(Child);

impl Frozen {
    fn at(file: &Path) -> Outcome<Frozen> {
        let mut child = Command::new(std::env::current_exe()?)
            .args(["--ignored", "--exact", "beside::takes_a_lock_and_stops"])
            .env("DMV_LOCK", file)
            .stdout(Stdio::null())
            .spawn()?;
        loop {
            let stat = fs::read_to_string(format!("/proc/{}/stat", child.id()))?;
            if stat
                .rsplit_once(')')
                .is_some_and(|(_, rest)| rest.starts_with(" T"))
            {
                return Ok(Frozen(child));
            }
            if child.try_wait()?.is_some() {
                return Err("it ended".into());
            }
            std::thread::yield_now();
        }
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
#[ignore = "runs as a process of the tests below"]
fn takes_a_lock_and_stops() -> Outcome {
    let Some(path) = std::env::var_os("DMV_LOCK") else {
        return Ok(());
    };
    let file = fs::File::options().create(true).append(true).open(path)?;
    file.lock()?;
    kill_process(rustix::process::getpid(), Signal::STOP)?;
    // Another thread may be the first that stops.
    loop {
        std::thread::park();
    }
}

#[test]
fn who_waits_for_a_stopped_process_is_told_which_it_is() -> Outcome {
    let place = three_worktrees()?;
    let dmv = place.work().join("film/.dmv");
    let waits: [(&str, &[&str]); 4] = [
        ("refs.lock", &["-C", "film", "tag", "mine"]),
        (
            "worktrees/main/lock",
            &["-C", "film", "commit", "-m", "mine"],
        ),
        ("slice.lock", &["-C", "film", "get", "first"]),
        ("keeping", &["-C", "film", "recover"]),
    ];
    let tried = AtomicU64::new(0);
    std::thread::scope(|scope| {
        let threads = waits.map(|(file, args)| {
            let (place, dmv, tried) = (&place, &dmv, &tried);
            scope.spawn(move || -> Result<(), String> {
                let frozen = Frozen::at(&dmv.join(file)).map_err(|e| e.to_string())?;
                // Reading waits for none of them.
                may(place, &[], &["-C", "w1", "log"])?;
                let begin = Instant::now();
                let output = place.run(args).map_err(|e| e.to_string())?;
                let errors = String::from_utf8_lossy(&output.stderr).into_owned();
                if output.status.success() {
                    return Ok(());
                }
                tried.fetch_add(1, Ordering::Relaxed);
                let pid = frozen.0.id();
                let is_told = errors.contains(&format!("process {pid} is stopped"));
                let in_time = begin.elapsed() < WRITING;
                let ok = is_told && in_time && output.status.code() == Some(BUSY);
                ok.then_some(()).ok_or(format!("{args:?}: {errors}"))
            })
        });
        for thread in threads {
            thread.join().map_err(|_| "a thread panicked")??;
        }
        Ok::<(), String>(())
    })?;
    // `get` of what is here has nothing to note.
    assert!(tried.into_inner() >= 3);
    Ok(())
}
