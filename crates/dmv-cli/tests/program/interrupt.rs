//! Ctrl-C in the middle of every command that can take long: it ends soon, and nothing is in the
//! way of the next command.
//!
//! A few commands in the ordinary run; all of them with
//! `DMV_INTERRUPTS=5 cargo test -p dmv-cli --test program -- interrupt:: --ignored`, that many times each.

// A test says aloud how long it took.
#![allow(clippy::print_stdout)]

use crate::place::{Outcome, Place};
use dmv_random::noise;
use std::fs;
use std::io::{self, BufRead};
use std::net::UdpSocket;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// From the signal to the end of the program, on a machine that has nothing else to do.
const SOON: Duration = Duration::from_millis(200);
/// What a busy machine adds.
const SLACK: Duration = Duration::from_millis(100);
/// How often a moment is tried again, for the machine may be busier still.
const TRIES: usize = 6;
const INTERRUPTED: i32 = 130;

/// One command that takes long.
struct Case {
    /// What it begins with: a directory of the lab.
    scene: &'static str,
    /// The directory in it where the command runs.
    at: &'static str,
    args: &'static [&'static str],
    /// A command that has to work afterwards, and how it may end.
    next: (&'static [&'static str], &'static [i32]),
    /// Whether it is in the ordinary run.
    is_usual: bool,
}

const STATUS: (&[&str], &[i32]) = (&["status"], &[0]);
const CASES: &[Case] = &[
    case("new", "", &["commit", "-m", "x"], STATUS).usual(),
    case("edited", "", &["status"], STATUS),
    case("edited", "", &["diff"], STATUS),
    case("edited", "", &["diff", "--stat"], STATUS),
    case("two", "", &["diff", "main", "other"], STATUS).usual(),
    case("two", "", &["log", "-p", "other"], STATUS),
    case(
        "two",
        "",
        &["log", "--follow", "other", "--", "d0/f1"],
        STATUS,
    ),
    case("two", "", &["show", "other"], STATUS),
    case(
        "two",
        "",
        &["checkout", "other"],
        (&["checkout", "other"], &[0]),
    ),
    case("two", "", &["restore", "--source", "other", "."], STATUS),
    case("two", "", &["export", "other", "--to", "out"], STATUS),
    case("two", "", &["export", "other", "--tar", "out.tar"], STATUS),
    case("two", "", &["merge", "far"], (&["merge", "far"], &[0, 4])).usual(),
    case("two", "", &["merge", "side"], (&["merge", "side"], &[0, 4])).usual(),
    case("two", "", &["du", "other"], STATUS),
    case("two", "", &["stats"], STATUS),
    case(
        "two",
        "",
        &["verify", "--full"],
        (&["verify", "--quick"], &[0]),
    ),
    case("two", "", &["recover"], (&["log", "-n", "1"], &[0])),
    case("two", "", &["clone", ".", "../copy"], STATUS).usual(),
    case("pair", "here", &["fetch"], (&["fetch"], &[0])),
    case("pair", "there", &["push", "../here", "main"], STATUS),
    case("pair", "here", &["pull"], (&["pull"], &[0])),
    case("pair", "there", &["drop", "main:big"], STATUS),
];

const fn case(
    scene: &'static str,
    at: &'static str,
    args: &'static [&'static str],
    next: (&'static [&'static str], &'static [i32]),
) -> Case {
    Case {
        scene,
        at,
        args,
        next,
        is_usual: false,
    }
}

impl Case {
    const fn usual(mut self) -> Case {
        self.is_usual = true;
        self
    }
}

/// How much there is in the lab.
#[derive(Clone, Copy)]
struct Amount {
    files: usize,
    big: usize,
    lines: usize,
}

/// Files in `dir`: many small ones, each with lines of its own, some of which say `side`; a large
/// one; and a long text in which one line in ten says so.
fn fill(place: &Place, dir: &str, side: &str, amount: Amount) -> Outcome {
    for n in 0..amount.files {
        let line = |m: usize| match m % 4 {
            1 => format!("{side} line {m} of file {n}\n"),
            _ => format!("line {m} of file {n}\n"),
        };
        let content: String = (0..40).map(line).collect();
        place.write(format!("{dir}/d{}/f{n}", n % 20), content)?;
    }
    let mut big = noise(1, amount.big / 2);
    big.extend(noise(side.len() as u64 + 2, amount.big / 2));
    place.write(format!("{dir}/big"), big)?;
    let line = |n: usize| {
        if n % 10 == side.len() {
            format!("{side} {n}\n")
        } else {
            format!("{n}\n")
        }
    };
    place.write(
        format!("{dir}/long"),
        (0..amount.lines).map(line).collect::<String>(),
    )?;
    Ok(())
}

/// Scenes in a place, which are copied before each run.
fn lab(amount: Amount) -> Outcome<Place> {
    let place = Place::new()?;
    let at = |dir: &'static str, args: &[&'static str]| -> Outcome {
        place.ok(&[&["-C", dir], args].concat())?;
        Ok(())
    };
    place.ok(&["init", "new"])?;
    fill(&place, "new", "main", amount)?;
    place.ok(&["init", "two"])?;
    fill(&place, "two", "main", amount)?;
    at("two", &["commit", "-m", "main"])?;
    at("two", &["checkout", "-b", "other"])?;
    fill(&place, "two", "other", amount)?;
    at("two", &["commit", "-m", "other"])?;
    // What `far` has moved and changed, main changes as well.
    at("two", &["checkout", "-b", "far", "main"])?;
    fill(&place, "two", "f", amount)?;
    fs::rename(
        place.work().join("two/d1"),
        place.work().join("two/elsewhere"),
    )?;
    for n in 2..20 {
        let [from, to] = ["d", "e"].map(|dir| place.work().join(format!("two/{dir}{n}")));
        fs::rename(from, to)?;
    }
    at("two", &["commit", "-m", "far"])?;
    at("two", &["checkout", "-b", "side", "main"])?;
    fill(&place, "two", "si", amount)?;
    at("two", &["commit", "-m", "side"])?;
    at("two", &["checkout", "main"])?;
    fill(&place, "two", "mai", amount)?;
    at("two", &["commit", "-m", "again"])?;
    copy(&place.work().join("two"), &place.work().join("edited"))?;
    fill(&place, "edited", "edits", amount)?;
    place.ok(&["init", "pair/there"])?;
    place.write("pair/there/first", "first")?;
    at("pair/there", &["commit", "-m", "first"])?;
    place.ok(&["clone", "pair/there", "pair/here"])?;
    place.ok(&["-C", "pair/here", "checkout", "-b", "mine"])?;
    fill(&place, "pair/there", "main", amount)?;
    at("pair/there", &["commit", "-m", "more"])?;
    Ok(place)
}

fn copy(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let to = to.join(entry.file_name());
        match entry.file_type()? {
            kind if kind.is_dir() => copy(&entry.path(), &to)?,
            kind if kind.is_symlink() => {
                std::os::unix::fs::symlink(fs::read_link(entry.path())?, to)?;
            }
            _ => drop(fs::copy(entry.path(), to)?),
        }
    }
    Ok(())
}

/// A fresh copy of what the case begins with; the directory where its command runs.
fn stage(lab: &Place, case: &Case) -> Outcome<String> {
    let work = lab.work();
    let stage = work.join("stage");
    for used in [&stage, &work.join("copy")] {
        if used.exists() {
            fs::remove_dir_all(used)?;
        }
    }
    assert!(!case.scene.is_empty(), "a stage cannot hold itself");
    copy(&work.join(case.scene), &stage)?;
    Ok(format!("stage/{}", case.at))
}

fn start(lab: &Place, dir: &str, args: &[&str]) -> io::Result<Child> {
    let mut command = lab.command(&[&["-C", dir], args].concat());
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn()
}

/// How the command ended after a signal, and how long that took; `None`: it had ended before.
fn interrupted(
    lab: &Place,
    dir: &str,
    case: &Case,
    after: Duration,
) -> Outcome<Option<(ExitStatus, Duration)>> {
    let mut child = start(lab, dir, case.args)?;
    std::thread::sleep(after);
    if child.try_wait()?.is_some() {
        return Ok(None);
    }
    let pid = rustix::process::Pid::from_child(&child);
    let signalled = Instant::now();
    rustix::process::kill_process(pid, rustix::process::Signal::INT)?;
    let status = child.wait()?;
    Ok(Some((status, signalled.elapsed())))
}

/// Interrupts a program that waits for others, once it has printed its first line. Returns its exit
/// code and how long it took to end.
fn interrupted_while_it_waits(
    place: &Place,
    args: &[&str],
    first_line: First,
) -> Outcome<(Option<i32>, Duration)> {
    let mut command = place.command(args);
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let mut line = String::new();
    match first_line {
        First::Out => {
            let out = child.stdout.as_mut().ok_or("no output")?;
            io::BufReader::new(out).read_line(&mut line)?;
        }
        First::Err => {
            let err = child.stderr.as_mut().ok_or("no output")?;
            io::BufReader::new(err).read_line(&mut line)?;
        }
    }
    let signalled = Instant::now();
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT)?;
    let code = child.wait()?.code();
    Ok((code, signalled.elapsed()))
}

/// Where a program prints its first line.
#[derive(Clone, Copy)]
enum First {
    Out,
    Err,
}

#[test]
fn ctrl_c_ends_serve_and_pair_soon() -> Outcome {
    let place = Place::with_repository()?;
    place.write("f", "one")?;
    place.commit("one")?;
    let key = Place::new()?.ok(&["id"])?;
    // Nobody reads from this socket, so nothing answers.
    let silent = UdpSocket::bind("127.0.0.1:0")?;
    let peer = format!("dmv://{}@{}", key.trim(), silent.local_addr()?);
    let dials = ["pair", "--code", "4829-1370", "--peer", &peer];
    for (args, first_line, exit) in [
        (&["serve", "--json"][..], First::Out, 0),
        (
            &["pair", "--json", "--listen", "127.0.0.1"],
            First::Out,
            INTERRUPTED,
        ),
        (&dials, First::Err, INTERRUPTED),
    ] {
        let mut least = Duration::MAX;
        for _ in 0..TRIES {
            let (code, took) = interrupted_while_it_waits(&place, args, first_line)?;
            assert_eq!(code, Some(exit), "{args:?}");
            least = least.min(took);
            if least <= SOON {
                break;
            }
        }
        println!("{}: ended within {least:?}", args.join(" "));
        assert!(least <= SOON + SLACK, "{args:?}: {least:?}");
        place.ok(&["status"])?;
        place.ok(&["verify", "--quick"])?;
    }
    Ok(())
}

/// Interrupts a command at some moments of its run. Returns how many of them it was still at work.
fn check(lab: &Place, case: &Case, moments: u32) -> Outcome<u32> {
    let what = case.args.join(" ");
    let dir = stage(lab, case)?;
    let started = Instant::now();
    let code = start(lab, &dir, case.args)?.wait()?.code();
    let whole = started.elapsed();
    if !matches!(code, Some(0 | 4)) {
        return Err(format!("{what} ended with {code:?}").into());
    }
    let (mut hits, mut slowest) = (0, Duration::ZERO);
    for n in 0..moments {
        let after = whole * (2 * n + 1) / (2 * moments);
        let mut least = Duration::MAX;
        for _ in 0..TRIES {
            let dir = stage(lab, case)?;
            let Some((status, took)) = interrupted(lab, &dir, case, after)? else {
                least = Duration::ZERO;
                break;
            };
            let by_signal = status.signal() == Some(rustix::process::Signal::INT.as_raw());
            // It may have been done already when the signal came.
            let ended = status.code() == Some(INTERRUPTED) || by_signal;
            if !ended && !matches!(status.code(), Some(0 | 4)) {
                return Err(format!("{what}, interrupted, ended with {status}").into());
            }
            hits += u32::from(ended);
            let (next, exits) = case.next;
            let then = lab.run(&[&["-C", &dir], next].concat())?;
            if !then.status.code().is_some_and(|code| exits.contains(&code)) {
                let said = String::from_utf8_lossy(&then.stderr);
                return Err(format!("{what}, interrupted, then {next:?}: {said}").into());
            }
            least = least.min(took);
            if least <= SOON {
                break;
            }
        }
        if least > SOON + SLACK {
            let text = format!("{what}: {least:?} after Ctrl-C, which came after {after:?}");
            return Err(text.into());
        }
        slowest = slowest.max(least);
    }
    println!("{what}: {whole:?}; interrupted {hits} times, ended within {slowest:?}");
    Ok(hits)
}

fn check_all(cases: &[&Case], amount: Amount, moments: u32) -> Outcome {
    let lab = lab(amount)?;
    let (mut wrong, mut hits) = (Vec::new(), 0);
    for case in cases {
        match check(&lab, case, moments) {
            Ok(hit) => hits += hit,
            Err(e) => wrong.push(e.to_string()),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(hits >= cases.len() as u32 / 2, "only {hits} came in time");
    Ok(())
}

#[test]
fn ctrl_c_ends_long_commands_soon() -> Outcome {
    let usual: Vec<&Case> = CASES.iter().filter(|case| case.is_usual).collect();
    let amount = Amount {
        files: 250,
        big: 16 << 20,
        lines: 30_000,
    };
    check_all(&usual, amount, 1)
}

#[test]
#[ignore = "minutes; DMV_INTERRUPTS says how many moments of each command"]
fn ctrl_c_ends_every_command_soon() -> Outcome {
    let asked = std::env::var("DMV_INTERRUPTS");
    let moments = asked.ok().and_then(|text| text.parse().ok()).unwrap_or(3);
    let all: Vec<&Case> = CASES.iter().collect();
    let amount = Amount {
        files: 6000,
        big: 96 << 20,
        lines: 500_000,
    };
    check_all(&all, amount, moments)
}
