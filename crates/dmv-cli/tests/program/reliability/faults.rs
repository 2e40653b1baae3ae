//! System calls of every command fail, once and for ever.

use super::kills::traced;
use super::trial::{Book, Fate, Known, Tally, UNSAID, run};
use super::world::World;
use crate::place::Outcome;
use crate::place::has_strace;
use dmv_random::{Rng, number, seed};
use std::collections::BTreeMap;
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

/// Every point of every command, in an order that the seed determines.
fn points(world: &World, book: &mut Book, seed: u64) -> Outcome<Vec<Point>> {
    let mut points = Vec::new();
    for case in 0..book.len() {
        for (call, errnos, most) in counts(world, book.get(world, case)?)? {
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
    let mut rng = Rng::new(seed);
    for n in (1..points.len()).rev() {
        points.swap(n, rng.below(n as u64 + 1) as usize);
    }
    Ok(points)
}

fn fail(world: &World, one: &Known, point: &Point, rng: &mut Rng) -> Outcome {
    world.reset(one.case.parts)?;
    let mut ended = run(world, traced(world, one, &point.inject()), None)?;
    if point.call == "write" && ended.said.is_empty() {
        // What it had to say did not come out.
        ended.said = UNSAID.into();
    }
    let fate = match point.call {
        // No memory for the run-time: the loader or the allocator ends the program.
        "mmap" if ended.code.is_none_or(|code| code == 127) => Fate::Cut,
        _ => Fate::Ended(ended),
    };
    one.check(world, &fate, rng)
}

impl Point {
    fn inject(&self) -> String {
        let (call, errno, at) = (self.call, self.errno, self.at);
        let on = if self.for_ever { "+" } else { "" };
        format!("inject={call}:error={errno}:when={at}{on}")
    }
}

/// `count` points from a position in their order on.
fn fail_calls(from: u64, count: u64) -> Outcome {
    if !has_strace() {
        println!("skipped: strace is not installed");
        return Ok(());
    }
    let (world, mut book, seed) = (World::new()?, Book::new(), seed(1));
    let points = points(&world, &mut book, seed)?;
    let mut tally = Tally::new("faults", seed);
    for (n, point) in points
        .iter()
        .enumerate()
        .skip(from as usize)
        .take(count as usize)
    {
        let one = book.get(&world, point.case)?;
        let done = fail(&world, one, point, &mut Rng::new(n as u64));
        let what = || {
            format!(
                "DMV_SEED={seed} DMV_FROM={n}: {} {}",
                one.case.args,
                point.inject()
            )
        };
        tally.count(what, done);
    }
    tally.finish(&format!(
        "failing calls from number {from} of {}",
        points.len()
    ))
}

/// A few commands in the ordinary run: each that failed once, and those that write most.
#[test]
fn failing_system_calls_lose_nothing_and_are_named() -> Outcome {
    if !has_strace() {
        println!("skipped: strace is not installed");
        return Ok(());
    }
    let (world, mut book, mut tally) = (World::new()?, Book::new(), Tally::new("faults", 1));
    let mut rng = Rng::new(seed(1));
    for _ in 0..16 {
        let case = rng.below(book.len());
        let one = book.get(&world, case)?;
        let found = counts(&world, one)?;
        let (call, errnos, most) = found[rng.below(found.len() as u64) as usize];
        let errno = errnos[rng.below(errnos.len() as u64) as usize];
        let point = Point {
            case,
            call,
            errno,
            at: 1 + rng.below(most),
            for_ever: rng.below(modes(errno).len() as u64) == 1,
        };
        let done = fail(&world, one, &point, &mut rng);
        tally.count(|| format!("{} {}", one.case.args, point.inject()), done);
    }
    tally.finish("failing calls")
}

/// `DMV_COUNT` of them, all otherwise, from number `DMV_FROM` on.
#[test]
#[ignore = "hours"]
fn every_failing_system_call_loses_nothing_and_is_named() -> Outcome {
    fail_calls(number("DMV_FROM", 0), number("DMV_COUNT", u64::MAX))
}
