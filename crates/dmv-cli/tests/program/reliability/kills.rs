//! The program is killed at a random moment, or at a random system call.

use super::trial::{Book, Fate, Known, Tally, fresh_seed, run};
use super::world::World;
use crate::place::{Outcome, has_strace};
use dmv_random::{Rng, number, seed};
use std::process::Command;

/// System calls that change something outside of the process.
const CALLS: &str = "openat,write,pwrite64,fsync,fdatasync,rename,renameat,renameat2,link,linkat,unlink,unlinkat,mkdir,mkdirat,symlinkat,ftruncate,fallocate,flock,fcntl,rmdir";

/// Runs `count` trials over all cases.
fn kill_everything(count: u64, seed: u64) -> Outcome {
    let world = World::new()?;
    let by_calls = has_strace();
    if !by_calls {
        dmv_random::skip("strace is not installed, so kills come at random moments only");
    }
    let mut book = Book::new();
    let mut tally = Tally::new("kills", seed);
    for n in 0..count {
        let mut rng = Rng::new(seed.wrapping_add(n));
        let one = book.get(&world, rng.below(book.len()))?;
        let cut = if by_calls && rng.below(2) == 0 {
            Cut::Call(1 + rng.below(calls_of(one)))
        } else {
            Cut::Moment(rng.below(1200))
        };
        let done = kill(&world, one, &cut, &mut rng);
        let what = || {
            format!(
                "DMV_SEED={} DMV_COUNT=1: {} {cut:?}",
                seed.wrapping_add(n),
                one.case.args
            )
        };
        tally.count(what, done);
    }
    tally.finish("kills")
}

#[derive(Debug)]
enum Cut {
    /// In thousandths of the time that the command takes.
    Moment(u64),
    /// At a system call of a thread.
    Call(u64),
}

/// About as many system calls as a thread of the command makes: more for longer commands.
fn calls_of(one: &Known) -> u64 {
    20 + one.took.as_millis() as u64 * 3
}

fn kill(world: &World, one: &Known, cut: &Cut, rng: &mut Rng) -> Outcome {
    world.reset(one.case.parts)?;
    let ended = match cut {
        Cut::Moment(part) => {
            let delay = one.took.mul_f64(*part as f64 / 1000.0);
            run(world, world.dmv(&one.case.words()), Some(delay))?
        }
        Cut::Call(n) => {
            let inject = format!("inject={CALLS}:signal=SIGKILL:when={n}");
            run(world, traced(world, one, &inject), None)?
        }
    };
    let fate = match ended.code {
        Some(code) if code == one.case.exit => Fate::Done,
        Some(_) => Fate::Ended(ended),
        None => Fate::Cut,
    };
    one.check(world, &fate, rng)
}

/// The command under strace.
pub fn traced(world: &World, one: &Known, inject: &str) -> Command {
    let calls = inject.split(['=', ':']).nth(1).unwrap_or_default();
    let trace = format!("trace={calls}");
    let program = env!("CARGO_BIN_EXE_dmv");
    let mut args = vec!["-f", "--seccomp-bpf", "-qq", "-o", "/dev/null"];
    args.extend(["-e", &trace, "-e", inject, program]);
    args.extend(one.case.words());
    world.command("strace", &args)
}

/// A few in the ordinary run.
#[test]
fn kills_at_any_moment_lose_nothing() -> Outcome {
    kill_everything(number("DMV_COUNT", 6), seed(1))
}

/// `DMV_COUNT` of them, 10,000 otherwise.
#[test]
#[ignore = "an hour"]
fn many_kills_at_any_moment_lose_nothing() -> Outcome {
    kill_everything(number("DMV_COUNT", 10_000), fresh_seed())
}
