//! Memory and time against the number of files and lines: merge, diff, status, log.
//!
//! Each command runs with some amount and with four times as much. Its memory and its time must not
//! grow faster than that, and its memory has a bound. `tests/tier.sh` runs it; up to
//! 100,000 files and 1,000,000 lines with
//! `DMV_GROWTH=25000 cargo test --release -p dmv-cli --test program -- growth:: --ignored --nocapture`.

// A test says aloud what it measured.
#![allow(clippy::print_stdout)]

use crate::place::{Outcome, Place};
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
use std::fs;
use std::process::Stdio;
use std::time::Duration;

/// What any merge or diff may have at most.
const MAX_PEAK_KIB: u64 = 256 << 10;
/// Four times as much may take so many times as long: n log n, and a busy machine.
const MAX_SLOWER: u64 = 7;
/// Below this a time says nothing.
const LEAST_TICKS: u64 = 20;
/// Four times as much may take so much more memory.
const MAX_LARGER: u64 = 5;

/// How a command ended: its exit code, the most memory it had, and its time on all cores.
struct Measured {
    exit: Option<i32>,
    peak_kib: u64,
    ticks: u64,
}

/// Where file `n` lies.
#[derive(Clone, Copy)]
enum Shape {
    Spread,
    Flat,
    Deep,
}

impl Shape {
    fn path(self, root: &str, n: usize) -> String {
        match self {
            Shape::Spread => format!("{root}/d{}/e{}/f{n}", n % 50, n / 50 % 20),
            Shape::Flat => format!("{root}/f{n}"),
            Shape::Deep => {
                let above: String = (0..n % 60).map(|level| format!("/level{level}")).collect();
                format!("{root}{above}/f{n}")
            }
        }
    }
}

/// A file of some lines, of which each side may have one of its own.
fn content(n: usize, ours: &str, theirs: &str) -> String {
    let line = |m: usize| match m {
        2 => format!("{ours} {n}\n"),
        8 => format!("{theirs} {n}\n"),
        _ => format!("line {m} of {n}\n"),
    };
    (0..11).map(line).collect()
}

fn fill(place: &Place, count: usize, shape: Shape, root: &str, own: [&str; 2]) -> Outcome {
    for n in 0..count {
        place.write(shape.path(root, n), content(n, own[0], own[1]))?;
    }
    Ok(())
}

/// The ticks of user and system time in `/proc/PID/stat`.
fn ticks(stat: &str) -> Option<u64> {
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    let mut field = || fields.next()?.parse::<u64>().ok();
    Some(field()? + field()?)
}

fn measured(place: &Place, args: &[&str]) -> Outcome<Measured> {
    let mut command = place.command(args);
    let mut child = command
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    let pid = Pid::from_child(&child);
    let of = |file: &str| fs::read_to_string(format!("/proc/{}/{file}", pid.as_raw_nonzero()));
    let mut found = Measured {
        exit: None,
        peak_kib: 0,
        ticks: 0,
    };
    loop {
        // Until it is waited for, the system still knows all of its time.
        let left_alone = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        let has_ended = waitid(WaitId::Pid(pid), left_alone)?.is_some();
        let text = of("status").unwrap_or_default();
        let peak = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib = peak.and_then(|rest| rest.split_whitespace().next()?.parse().ok());
        found.peak_kib = found.peak_kib.max(kib.unwrap_or(0));
        let now = of("stat").ok().and_then(|text| ticks(&text));
        found.ticks = found.ticks.max(now.unwrap_or(0));
        if has_ended {
            found.exit = child.wait()?.code();
            return Ok(found);
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// What was measured of each command, with little and with much.
#[derive(Default)]
struct Growth(Vec<(String, Vec<Measured>)>);

/// How often everything is measured, as long as something seems to grow too fast. A processor that is
/// shared may be three times as slow from one moment to the next.
const TRIES: usize = 3;

impl Growth {
    fn measure(&mut self, place: &Place, what: &str, args: &[&str], exits: &[i32]) -> Outcome {
        let found = measured(place, args)?;
        if !found.exit.is_some_and(|exit| exits.contains(&exit)) {
            return Err(format!("{what}: {args:?} ended with {:?}", found.exit).into());
        }
        match self.0.iter_mut().find(|(known, _)| known == what) {
            Some((_, list)) => list.push(found),
            None => self.0.push((what.to_owned(), vec![found])),
        }
        Ok(())
    }

    /// Takes the shorter times of another try.
    fn or_shorter(mut self, other: Growth) -> Growth {
        for ((_, list), (_, others)) in self.0.iter_mut().zip(other.0) {
            for (measured, other) in list.iter_mut().zip(others) {
                measured.ticks = measured.ticks.min(other.ticks);
                measured.peak_kib = measured.peak_kib.max(other.peak_kib);
            }
        }
        self
    }

    /// Returns everything that grows too fast.
    fn wrong(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        for (what, list) in &self.0 {
            let peaks: Vec<u64> = list.iter().map(|m| m.peak_kib / 1024).collect();
            let ticks: Vec<u64> = list.iter().map(|m| m.ticks * 10).collect();
            println!("{what}: {peaks:?} MiB, {ticks:?} ms");
            let (Some(first), Some(last)) = (list.first(), list.last()) else {
                continue;
            };
            if last.peak_kib > MAX_PEAK_KIB || last.peak_kib > MAX_LARGER * first.peak_kib {
                wrong.push(format!("{what}: memory {peaks:?} MiB"));
            }
            if last.ticks > MAX_SLOWER * first.ticks.max(LEAST_TICKS) {
                wrong.push(format!("{what}: time {ticks:?} ms"));
            }
        }
        wrong
    }
}

/// Two branches from one commit, on which `ours` and `theirs` put files.
fn branches(place: &Place, fill: impl Fn(&str) -> Outcome, names: [&'static str; 3]) -> Outcome {
    let [base, ours, theirs] = names;
    fill(base)?;
    place.ok(&["commit", "-q", "-m", "base"])?;
    place.ok(&["branch", "theirs"])?;
    fill(ours)?;
    place.ok(&["commit", "-q", "-m", "ours"])?;
    place.ok(&["checkout", "-q", "theirs"])?;
    fill(theirs)?;
    place.ok(&["commit", "-q", "-m", "theirs"])?;
    place.ok(&["checkout", "-q", "main"])?;
    Ok(())
}

/// Both sides change every file, in different places and then in the same.
fn changed_files(growth: &mut Growth, count: usize, shape: Shape, name: &str) -> Outcome {
    let place = Place::with_repository()?;
    let files = |side: &str| match side {
        "ours" => fill(&place, count, shape, "all", ["ours", "base"]),
        "theirs" => fill(&place, count, shape, "all", ["base", "theirs"]),
        _ => fill(&place, count, shape, "all", ["base", "base"]),
    };
    branches(&place, files, ["base", "ours", "theirs"])?;
    growth.measure(
        &place,
        &format!("diff, {name}"),
        &["diff", "@~1", "@"],
        &[0],
    )?;
    let path = shape.path("all", count / 2);
    growth.measure(&place, &format!("log, {name}"), &["log", "--", &path], &[0])?;
    growth.measure(
        &place,
        &format!("merge, {name}"),
        &["merge", "theirs"],
        &[0],
    )?;
    place.ok(&["checkout", "-q", "-b", "back", "@~1"])?;
    fill(&place, count, shape, "all", ["back", "base"])?;
    growth.measure(&place, &format!("status, {name}"), &["status"], &[0])?;
    growth.measure(
        &place,
        &format!("diff of files, {name}"),
        &["diff", "--stat"],
        &[0],
    )
}

fn conflicting_files(growth: &mut Growth, count: usize, shape: Shape, name: &str) -> Outcome {
    let place = Place::with_repository()?;
    let files = |side: &str| fill(&place, count, shape, "all", [side, "base"]);
    branches(&place, files, ["base", "ours", "theirs"])?;
    let (merge, status) = (
        format!("merge, all in conflict, {name}"),
        format!("status, all in conflict, {name}"),
    );
    growth.measure(&place, &merge, &["merge", "theirs"], &[4])?;
    growth.measure(&place, &status, &["status"], &[0])
}

fn moved_files(growth: &mut Growth, count: usize) -> Outcome {
    let place = Place::with_repository()?;
    let files = |side: &str| -> Outcome {
        if side != "ours" {
            return fill(&place, count, Shape::Spread, "all", ["base", side]);
        }
        fs::remove_dir_all(place.work().join("all"))?;
        fill(&place, count, Shape::Spread, "moved", ["ours", "base"])
    };
    branches(&place, files, ["base", "ours", "theirs"])?;
    growth.measure(
        &place,
        "diff, all moved",
        &["diff", "--stat", "@~1", "@"],
        &[0],
    )?;
    growth.measure(
        &place,
        "log --follow, all moved",
        &["log", "--follow", "--", "moved/d0/e0/f0"],
        &[0],
    )?;
    growth.measure(&place, "merge, all moved", &["merge", "theirs"], &[0])?;
    fs::rename(place.work().join("moved"), place.work().join("again"))?;
    fill(&place, count, Shape::Spread, "again", ["again", "again"])?;
    growth.measure(&place, "status, all moved", &["status"], &[0])
}

/// How many files a quarter of the most is: 12 MiB, which the cache of frames has room for.
const SCATTERED_FILES: usize = 400;
/// How many lines the files of [`scattered_files`] have: some 32 KiB, so that thirty are in a frame.
const LONG_LINES: usize = 500;

/// A longer file whose lines no other file has. Each side may have a line of its own.
fn long_content(n: usize, ours: &str, theirs: &str) -> String {
    let mut state = n as u64 + 1;
    let mut word = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let line = |m: usize| match m {
        20 => format!("{ours} {n}\n"),
        400 => format!("{theirs} {n}\n"),
        _ => format!("{:016x} {:016x} {:016x} {n}\n", word(), word(), word()),
    };
    (0..LONG_LINES).map(line).collect()
}

/// One side moves all files into another order, both sides edit them, and the frames of a quarter of
/// them fit into the cache. What decodes a frame for each of its files shows here.
fn scattered_files(growth: &mut Growth, count: usize) -> Outcome {
    let place = Place::with_repository()?;
    // Neighbours lie far apart afterwards. No amount is a multiple of this prime.
    let elsewhere = |n: usize| n * 7919 % count;
    let put = |root: &str, own: [&str; 2], at: &dyn Fn(usize) -> usize| -> Outcome {
        for n in 0..count {
            let path = Shape::Spread.path(root, at(n));
            place.write(path, long_content(n, own[0], own[1]))?;
        }
        Ok(())
    };
    let files = |side: &str| -> Outcome {
        if side != "ours" {
            return put("all", ["base", side], &|n| n);
        }
        fs::remove_dir_all(place.work().join("all"))?;
        put("moved", ["ours", "base"], &elsewhere)
    };
    branches(&place, files, ["base", "ours", "theirs"])?;
    growth.measure(
        &place,
        "diff, scattered",
        &["diff", "--stat", "@~1", "@"],
        &[0],
    )?;
    growth.measure(&place, "log -p, scattered", &["log", "-p", "-n", "1"], &[0])?;
    growth.measure(&place, "merge, scattered", &["merge", "theirs"], &[0])?;
    place.ok(&["undo"])?;
    let pick = ["cherry-pick", "theirs"];
    growth.measure(&place, "cherry-pick, scattered", &pick, &[0])?;
    growth.measure(
        &place,
        "export, scattered",
        &["export", "@", "--to", "out"],
        &[0],
    )?;
    fs::remove_dir_all(place.work().join("out"))?;
    fs::rename(place.work().join("moved"), place.work().join("again"))?;
    put("again", ["again", "theirs"], &|n| n)?;
    growth.measure(&place, "status, scattered", &["status"], &[0])?;
    growth.measure(&place, "stash, scattered", &["stash"], &[0])?;
    growth.measure(&place, "stash pop, scattered", &["stash", "pop"], &[0])
}

/// One text: sides that change one line in ten, and sides that have little in common.
fn lines(growth: &mut Growth, count: usize) -> Outcome {
    let place = Place::with_repository()?;
    let text = |side: &str| -> Outcome {
        let own = match side {
            "ours" => 3,
            "theirs" => 8,
            _ => 10,
        };
        let line = |n: usize| {
            if n % 10 == own {
                format!("{}{n}\n", &side[..1])
            } else {
                format!("{n}\n")
            }
        };
        place.write("text", (0..count).map(line).collect::<String>())?;
        let mut state = u64::from(side.as_bytes()[0]);
        let mut word = |_| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            format!("{}\n", state >> 60)
        };
        place.write("noise", (0..count).map(&mut word).collect::<String>())?;
        Ok(())
    };
    branches(&place, text, ["base", "ours", "theirs"])?;
    growth.measure(&place, "diff, lines", &["diff", "@~1", "@"], &[0])?;
    growth.measure(&place, "merge, lines", &["merge", "theirs"], &[4])
}

fn measure_all(files: usize, text_lines: usize, shapes: &[(Shape, &str)]) -> Outcome<Growth> {
    let mut growth = Growth::default();
    for times in [1, 4] {
        let count = times * files;
        for (shape, name) in shapes {
            changed_files(&mut growth, count, *shape, name)?;
            // Every path of 100,000 conflicts is in memory several times, so deep ones are left out.
            if !matches!(shape, Shape::Deep) {
                conflicting_files(&mut growth, count, *shape, name)?;
            }
        }
        moved_files(&mut growth, count)?;
        scattered_files(&mut growth, times * SCATTERED_FILES)?;
        lines(&mut growth, times * text_lines)?;
    }
    Ok(growth)
}

fn grow(files: usize, text_lines: usize, shapes: &[(Shape, &str)]) -> Outcome {
    let mut growth = measure_all(files, text_lines, shapes)?;
    for _ in 1..TRIES {
        if growth.wrong().is_empty() {
            return Ok(());
        }
        growth = growth.or_shorter(measure_all(files, text_lines, shapes)?);
    }
    let wrong = growth.wrong();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    Ok(())
}

#[test]
#[ignore = "times on a busy machine say little; DMV_GROWTH is a quarter of the files"]
fn memory_and_time_grow_with_the_amount() -> Outcome {
    let asked = std::env::var("DMV_GROWTH");
    let files = asked
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(2500);
    let shapes = [
        (Shape::Spread, "all changed"),
        (Shape::Flat, "one directory"),
        (Shape::Deep, "deep"),
    ];
    grow(files, 10 * files, &shapes)
}
