//! Ten clients commit at once, beside a merge, a status and a log that spin: does anybody stand in a queue?
//!
//! ```sh
//! cargo run --profile dist -p dmv-benches --example lockjam -- target/dist/dmv /tmp/jam
//! ```
//!
//! All clients are worktrees of one repository, with 10,000 files each. Every commit changes ten of
//! them. First each thing is measured alone, then everything at once; the table says how much of its
//! speed is left. Nothing else should run on the machine.
//!
//! With `--apart`, status and log read another repository of the same size. They then share no lock
//! and no file with the clients, only the machine. So the difference between the two runs is what
//! DMV makes readers wait.

#![allow(clippy::print_stdout)]

use anyhow::{Context, Result, bail};
use clap::Parser;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Ten clients commit at once, beside a merge, a status and a log that spin.
#[derive(Parser)]
struct Args {
    /// The dmv program
    dmv: PathBuf,
    /// A directory that does not exist yet; it is removed at the end
    base: PathBuf,
    /// Worktrees that commit
    #[arg(long, default_value_t = 10)]
    clients: usize,
    /// Files of each
    #[arg(long, default_value_t = 10_000)]
    files: usize,
    /// Seconds of each measurement
    #[arg(long, default_value_t = 120)]
    seconds: u64,
    /// Samples of status and log that each measurement takes at least
    #[arg(long, default_value_t = 1000)]
    samples: usize,
    /// Let status and log read a repository of their own
    #[arg(long)]
    apart: bool,
}

/// What every measurement needs.
struct Jam {
    args: Args,
    home: PathBuf,
}

impl Jam {
    fn dir(&self, name: &str) -> PathBuf {
        self.args.base.join(name)
    }

    /// Runs a command and returns how long it took.
    fn dmv(&self, dir: &str, args: &[&str]) -> Result<Duration> {
        let started = Instant::now();
        let output = Command::new(&self.args.dmv)
            .args(args)
            .current_dir(self.dir(dir))
            .env_clear()
            .env("HOME", &self.home)
            .env("USER", "ada")
            .stdin(Stdio::null())
            .output()
            .with_context(|| self.args.dmv.display().to_string())?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            bail!("dmv {args:?} in {dir}: {:?}: {said}", output.status.code());
        }
        Ok(started.elapsed())
    }

    /// Where status and log run.
    fn readers(&self) -> [&'static str; 2] {
        if self.args.apart {
            ["apart", "apart-log"]
        } else {
            ["status", "log"]
        }
    }

    /// A repository with one commit.
    fn repository(&self, dir: &str) -> Result<()> {
        fs::create_dir_all(self.dir(dir))?;
        self.dmv(dir, &["init"])?;
        for n in 0..self.args.files {
            write(&self.dir(dir), n, "first")?;
        }
        self.dmv(dir, &["commit", "-m", "first"])?;
        Ok(())
    }

    /// A repository, a worktree for each client, and one each for merge, status and log.
    fn prepare(&self) -> Result<()> {
        fs::create_dir_all(&self.home)?;
        self.repository("status")?;
        if self.args.apart {
            self.repository("apart")?;
            self.dmv("apart", &["worktree", "add", "../apart-log"])?;
        }
        let mut names: Vec<String> = (0..self.args.clients).map(client).collect();
        names.extend(["merge", "side", "log"].map(str::to_owned));
        for name in &names {
            self.dmv("status", &["worktree", "add", &format!("../{name}")])?;
        }
        // Two branches that differ in a tenth of the files each.
        for (dir, from) in [("merge", 0), ("side", 1)] {
            for n in (0..self.args.files / 10).map(|n| n * 10 + from) {
                write(&self.dir(dir), n, dir)?;
            }
            self.dmv(dir, &["commit", "-m", dir])?;
        }
        Ok(())
    }

    /// One commit of ten changed files.
    fn commit(&self, client_number: usize, round: usize) -> Result<Duration> {
        let (name, files) = (client(client_number), self.args.files);
        for n in 0..10 {
            let text = format!("client {client_number}, round {round}");
            write(&self.dir(&name), (round * 10 + n) % files, &text)?;
        }
        self.dmv(&name, &["commit", "-q", "-m", "work"])
    }

    /// Commits by all clients, one after another; commits a second.
    fn in_turn(&self, from: usize) -> Result<f64> {
        let (mut round, mut spent) = (0, Duration::ZERO);
        let started = Instant::now();
        while started.elapsed().as_secs() < self.args.seconds {
            spent += self.commit(round % self.args.clients, from + round)?;
            round += 1;
        }
        Ok(round as f64 / spent.as_secs_f64())
    }

    /// The same by all clients at once; commits a second, and how long each took.
    fn at_once(&self, from: usize) -> Result<(f64, Vec<Duration>)> {
        let started = Instant::now();
        let work = |number: usize| -> Result<Vec<Duration>> {
            let mut times = Vec::new();
            while started.elapsed().as_secs() < self.args.seconds {
                times.push(self.commit(number, from + times.len())?);
            }
            Ok(times)
        };
        let all = std::thread::scope(|scope| {
            let clients = 0..self.args.clients;
            let threads = Vec::from_iter(clients.map(|n| scope.spawn(move || work(n))));
            let results = threads.into_iter().map(join);
            results.collect::<Result<Vec<_>>>()
        })?;
        let all: Vec<Duration> = all.into_iter().flatten().collect();
        Ok((all.len() as f64 / started.elapsed().as_secs_f64(), all))
    }

    /// Status and log, alone; `samples` of each.
    fn idle(&self) -> Result<[Vec<Duration>; 2]> {
        let [status, log] = self.readers();
        let mut times = [Vec::new(), Vec::new()];
        for _ in 0..self.args.samples {
            times[0].push(self.dmv(status, STATUS)?);
            times[1].push(self.dmv(log, LOG)?);
        }
        Ok(times)
    }

    /// Runs something while merge, status and log spin, until they have their samples.
    fn while_spinning<T>(
        &self,
        work: impl FnOnce() -> Result<T>,
    ) -> Result<(T, [Vec<Duration>; 3])> {
        let done = AtomicBool::new(false);
        let is_over = |times: &[Duration], wanted: usize| {
            done.load(Ordering::Relaxed) && times.len() >= wanted
        };
        let spin = |dir: &'static str, commands: &'static [&'static [&'static str]], wanted| {
            let is_over = &is_over;
            move || -> Result<Vec<Duration>> {
                let mut times = Vec::new();
                while !is_over(&times, wanted) {
                    for (n, args) in commands.iter().enumerate() {
                        let took = self.dmv(dir, args)?;
                        if n == 0 {
                            times.push(took);
                        }
                    }
                }
                Ok(times)
            }
        };
        std::thread::scope(|scope| {
            let (samples, [status, log]) = (self.args.samples, self.readers());
            let merge = scope.spawn(spin("merge", &[MERGE, &["undo", "-q"]], 1));
            let status = scope.spawn(spin(status, &[STATUS], samples));
            let log = scope.spawn(spin(log, &[LOG], samples));
            let result = work();
            done.store(true, Ordering::Relaxed);
            let times = [join(merge)?, join(status)?, join(log)?];
            Ok((result?, times))
        })
    }
}

const STATUS: &[&str] = &["status"];
const LOG: &[&str] = &["log", "-n", "20"];
const MERGE: &[&str] = &["merge", "-q", "side"];

fn client(number: usize) -> String {
    format!("client{number}")
}

fn write(dir: &Path, n: usize, text: &str) -> Result<()> {
    let dir = dir.join(format!("d{:02}", n % 100));
    fs::create_dir_all(&dir)?;
    Ok(fs::write(
        dir.join(format!("f{n}")),
        format!("{text} {n}\n").repeat(20),
    )?)
}

fn join<T>(thread: std::thread::ScopedJoinHandle<'_, Result<T>>) -> Result<T> {
    match thread.join() {
        Ok(result) => result,
        Err(_) => bail!("a thread panicked"),
    }
}

/// Milliseconds that a share of the samples stays below.
fn part(times: &[Duration], share: f64) -> f64 {
    let mut sorted = times.to_vec();
    sorted.sort();
    let at = (sorted.len() as f64 * share) as usize;
    let found = sorted.get(at.min(sorted.len().saturating_sub(1)));
    found.map_or(0.0, |time| time.as_secs_f64() * 1000.0)
}

fn row(what: &str, times: &[Duration]) {
    let [half, most, max] = [0.5, 0.99, 1.0].map(|share| part(times, share));
    println!(
        "| {what} | {} | {half:.1} | {most:.1} | {max:.1} |",
        times.len()
    );
}

fn main() -> Result<()> {
    let args = Args::parse();
    if args.base.exists() {
        bail!("{} exists", args.base.display());
    }
    fs::create_dir_all(&args.base)?;
    let dmv = args.dmv.canonicalize().context("the program")?;
    let base = args.base.canonicalize()?;
    let home = base.join("home");
    let jam = Jam {
        args: Args { dmv, base, ..args },
        home,
    };
    jam.prepare()?;
    let idle = jam.idle()?;
    let alone = jam.in_turn(0)?;
    let (in_turn, _) = jam.while_spinning(|| jam.in_turn(1000))?;
    let ((at_once, commits), spun) = jam.while_spinning(|| jam.at_once(100_000))?;
    println!("| milliseconds | samples | p50 | p99 | most |");
    println!("|---|---|---|---|---|");
    row("status, idle", &idle[0]);
    row("log, idle", &idle[1]);
    row("status, in the jam", &spun[1]);
    row("log, in the jam", &spun[2]);
    row("merge, in the jam", &spun[0]);
    row("commit, in the jam", &commits);
    println!();
    println!("| commits a second | |");
    println!("|---|---|");
    println!("| one after another, nothing else | {alone:.1} |");
    println!("| one after another, while merge, status and log spin | {in_turn:.1} |");
    println!(
        "| {} at once, while they spin | {at_once:.1} |",
        jam.args.clients
    );
    println!();
    let ratio = |n: usize| part(&spun[n + 1], 0.99) / part(&idle[n], 0.99);
    println!(
        "harness lockjam: throughput {:.2} x of one after another ({:.2} x of that on an idle machine), status p99 {:.2} x, log p99 {:.2} x",
        at_once / in_turn,
        at_once / alone,
        ratio(0),
        ratio(1)
    );
    jam.dmv("status", &["verify", "--full"])?;
    fs::remove_dir_all(&jam.args.base)?;
    Ok(())
}
