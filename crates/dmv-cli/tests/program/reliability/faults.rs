//! System calls of every command fail, once and for ever.

use super::cases::Case;
use super::kills::traced;
use super::trial::{Book, Fate, Known, Tally, UNSAID, run};
use super::world::World;
use crate::place::Outcome;
use crate::place::has_strace;
use dmv_random::{Rng, number, seed};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;

/// System calls, and what they may fail with.
const FAULTS: &[(&str, &[&str])] = &[
    ("write", &["ENOSPC", "EIO", "EDQUOT", "EINTR"]),
    ("pwrite64", &["ENOSPC", "EIO", "EDQUOT", "EINTR"]),
    ("fsync", &["EIO", "ENOSPC", "EDQUOT"]),
    ("fdatasync", &["EIO", "ENOSPC", "EDQUOT"]),
    ("syncfs", &["EIO", "ENOSPC"]),
    (
        "openat",
        &["EMFILE", "ENOSPC", "EACCES", "EROFS", "EIO", "ENOMEM"],
    ),
    (
        "openat2",
        &["EMFILE", "ENOSPC", "EACCES", "EROFS", "EIO", "ENOMEM"],
    ),
    ("rename", &["ENOSPC", "EIO", "EACCES", "EROFS"]),
    ("renameat", &["ENOSPC", "EIO", "EACCES", "EROFS"]),
    ("renameat2", &["ENOSPC", "EIO", "EACCES", "EROFS"]),
    ("link", &["ENOSPC", "EIO", "EACCES", "EROFS"]),
    ("linkat", &["ENOSPC", "EIO", "EACCES", "EROFS"]),
    ("symlinkat", &["ENOSPC", "EIO", "EACCES", "EROFS"]),
    ("unlink", &["EIO", "EACCES", "EROFS"]),
    ("unlinkat", &["EIO", "EACCES", "EROFS"]),
    ("rmdir", &["EIO", "EACCES", "EROFS"]),
    ("mkdir", &["ENOSPC", "EIO", "EACCES", "EROFS"]),
    ("mkdirat", &["ENOSPC", "EIO", "EACCES", "EROFS"]),
    ("ftruncate", &["ENOSPC", "EIO", "EINTR"]),
    ("fallocate", &["ENOSPC", "EIO", "EINTR"]),
    ("fchmod", &["EIO", "EACCES", "EROFS"]),
    ("utimensat", &["EIO", "EACCES", "EROFS"]),
    ("mmap", &["ENOMEM"]),
    ("read", &["EIO", "EINTR"]),
    ("pread64", &["EIO", "EINTR"]),
    ("flock", &["ENOLCK", "EIO", "EINTR"]),
    ("fcntl", &["ENOLCK"]),
    ("statx", &["EACCES", "EIO", "ENOMEM"]),
    ("newfstatat", &["EACCES", "EIO", "ENOMEM"]),
    ("fstat", &["EIO", "ENOMEM"]),
    ("getdents64", &["EIO", "ENOMEM"]),
    ("copy_file_range", &["ENOSPC", "EIO"]),
];

/// One call of one command fails, or all from it on.
struct Point {
    case: u64,
    call: &'static str,
    errno: &'static str,
    at: u64,
    for_ever: bool,
}

/// How often a thread of the command makes each call, at most.
fn counts(
    world: &World,
    one: &Known,
) -> Outcome<Vec<(&'static str, &'static [&'static str], u64)>> {
    world.reset(one.case.parts)?;
    let log = world.beside("calls");
    let log = log.to_str().ok_or("a path of ours is text")?;
    let calls: Vec<&str> = FAULTS.iter().map(|(call, _)| *call).collect();
    let trace = format!("trace={}", calls.join(","));
    let mut args = vec!["-f", "--seccomp-bpf", "-qq", "-o", log, "-e", &trace];
    args.push(env!("CARGO_BIN_EXE_dmv"));
    args.extend(one.case.words());
    run(world, world.command("strace", &args), None)?;
    let mut seen: BTreeMap<(&str, &str), u64> = BTreeMap::new();
    let text = String::from_utf8_lossy(&fs::read(log)?).into_owned();
    for line in text.lines() {
        let (thread, rest) = line.split_once(' ').unwrap_or_default();
        if let Some((call, _)) = rest.trim_start().split_once('(') {
            *seen.entry((thread, call)).or_default() += 1;
        }
    }
    let most = |call: &str| {
        seen.iter()
            .filter(|(key, _)| key.1 == call)
            .map(|(_, n)| *n)
            .max()
    };
    let found = FAULTS
        .iter()
        .filter_map(|(call, errnos)| Some((*call, *errnos, most(call)?)));
    Ok(found.collect())
}

/// Whether it may fail for ever: a call that is interrupted is made again, and without locks a
/// command waits for as long as for somebody who holds them.
fn modes(errno: &str) -> &'static [bool] {
    match errno {
        "EINTR" | "ENOLCK" => &[false],
        _ => &[false, true],
    }
}

/// Whether a call fails in a way that no system shows: the network's run-time wakes its threads by
/// writes to an event counter, which strace cannot tell from a file.
fn is_unreal(case: &Case, call: &str) -> bool {
    call == "write" && case.args.contains(" pair ")
}

/// Every point of every command, in an order that the seed determines: first one position of each
/// call, error and mode of each command, then a second position of each, and so on. The beginning
/// of the list is thus a sample of all of them.
fn points(world: &World, book: &mut Book, seed: u64) -> Outcome<Vec<Point>> {
    let mut points = Vec::new();
    for case in 0..book.len() {
        let one = book.get(world, case)?;
        let mut counts = counts(world, one)?;
        counts.retain(|(call, ..)| !is_unreal(one.case, call));
        for (call, errnos, most) in counts {
            for (at, errno) in (1..=most).flat_map(|at| errnos.iter().map(move |e| (at, *e))) {
                let modes = modes(errno);
                points.extend(modes.iter().map(|for_ever| Point {
                    case,
                    call,
                    errno,
                    at,
                    for_ever: *for_ever,
                }));
            }
        }
    }
    Rng::new(seed).shuffle(&mut points);
    let mut seen: BTreeMap<_, u64> = BTreeMap::new();
    points.sort_by_cached_key(|point| {
        let nth = seen.entry(point.kind()).or_default();
        *nth += 1;
        *nth
    });
    Ok(points)
}

/// Runs a command with a failing call, in the words of strace (`write:error=EIO:when=3+`), and
/// checks what is left.
fn fail(world: &World, one: &Known, inject: &str, rng: &mut Rng) -> Outcome {
    world.reset(one.case.parts)?;
    let call = inject.split(':').next().unwrap_or_default();
    let mut ended = run(world, traced(world, one, &format!("inject={inject}")), None)?;
    let is_fine = ended.code == Some(0) || ended.code == Some(one.case.exit);
    let is_silent = ended.said.is_empty() || !is_fine && !ended.said.contains("error: ");
    if call == "write" && is_silent {
        // What it had to say did not come out.
        ended.said = UNSAID.into();
    }
    let first = format!("the first run ended with {:?}: {}", ended.code, ended.said);
    let fate = match call {
        // No memory for the run-time: the loader or the allocator ends the program.
        "mmap" if ended.code.is_none_or(|code| code == 127) => Fate::Cut,
        "mmap" if ended.said.contains("OS can't spawn worker thread") => Fate::Cut,
        // SQLite takes a lock that cannot be had for one that somebody has.
        "fcntl" if ended.code == Some(11) => Fate::Cut,
        _ => Fate::Ended(ended),
    };
    let checked = one.check(world, &fate, rng);
    checked.map_err(|e| format!("{e}; {first}").into())
}

impl Point {
    /// What is the same for all positions of a call.
    fn kind(&self) -> (u64, &'static str, &'static str, bool) {
        (self.case, self.call, self.errno, self.for_ever)
    }

    fn inject(&self) -> String {
        let (call, errno, at) = (self.call, self.errno, self.at);
        let on = if self.for_ever { "+" } else { "" };
        format!("{call}:error={errno}:when={at}{on}")
    }
}

/// What repeats one trial alone.
fn repeat(one: &Known, inject: &str) -> String {
    format!("DMV_ONLY='{}' DMV_INJECT={inject}", one.case.args)
}

/// The call of `DMV_INJECT` fails in every command of `DMV_ONLY`, `count` times.
fn fail_one_call(inject: &str, count: u64) -> Outcome {
    let (world, mut book, seed) = (World::new()?, Book::new(), seed(1));
    let mut tally = Tally::new("faults", seed);
    for case in 0..book.len() {
        let one = book.get(&world, case)?;
        for n in 0..count {
            let done = fail(&world, one, inject, &mut Rng::new(seed + n));
            tally.count(|| repeat(one, inject), done);
        }
    }
    tally.finish(&format!("times {inject}"))
}

/// `count` points from a position in their order on.
fn fail_calls(from: u64, count: u64) -> Outcome {
    let (world, mut book, seed) = (World::new()?, Book::new(), seed(1));
    let points = points(&world, &mut book, seed)?;
    let mut tally = Tally::new("faults", seed);
    let some = points.iter().skip(from as usize).take(count as usize);
    for (n, point) in some.enumerate() {
        let one = book.get(&world, point.case)?;
        let done = fail(&world, one, &point.inject(), &mut Rng::new(from + n as u64));
        tally.count(|| repeat(one, &point.inject()), done);
    }
    let kinds: BTreeSet<_> = points.iter().map(Point::kind).collect();
    tally.finish(&format!(
        "failing calls from number {from} of {} ({} kinds)",
        points.len(),
        kinds.len()
    ))
}

/// A few commands in the ordinary run: each that failed once, and those that write most.
#[test]
fn failing_system_calls_lose_nothing_and_are_named() -> Outcome {
    if !has_strace() {
        dmv_random::skip("strace is not installed");
        return Ok(());
    }
    let (world, mut book, mut tally) = (World::new()?, Book::new(), Tally::new("faults", 1));
    let mut rng = Rng::new(seed(1));
    for _ in 0..10 {
        let case = rng.below(book.len());
        let one = book.get(&world, case)?;
        let mut found = counts(&world, one)?;
        found.retain(|(call, ..)| !is_unreal(one.case, call));
        let (call, errnos, most) = found[rng.below(found.len() as u64) as usize];
        let errno = errnos[rng.below(errnos.len() as u64) as usize];
        let point = Point {
            case,
            call,
            errno,
            at: 1 + rng.below(most),
            for_ever: rng.below(modes(errno).len() as u64) == 1,
        };
        let done = fail(&world, one, &point.inject(), &mut rng);
        tally.count(|| repeat(one, &point.inject()), done);
    }
    tally.finish("failing calls")
}

/// `DMV_COUNT` of them, all otherwise, from number `DMV_FROM` on; with `DMV_INJECT` that call alone.
#[test]
#[ignore = "hours"]
fn every_failing_system_call_loses_nothing_and_is_named() -> Outcome {
    if !has_strace() {
        dmv_random::skip("strace is not installed");
        return Ok(());
    }
    match std::env::var("DMV_INJECT") {
        Ok(inject) => fail_one_call(&inject, number("DMV_COUNT", 1)),
        Err(_) => fail_calls(number("DMV_FROM", 0), number("DMV_COUNT", u64::MAX)),
    }
}
