//! The command line of `report`: which sessions are still to be run, and runs them.

use std::cell::RefCell;
use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::Parser;
use dmv_benches::machine;
use dmv_benches::measure::Conditions;
use dmv_benches::page;
use dmv_benches::peers::{self, Installation, PEERS, Peer};
use dmv_benches::results::{Header, Results, Row, Status, Tool};
use dmv_benches::runner;
use dmv_benches::scaling::{Experiment, Point};
use dmv_benches::session::{Bench, DataSet, Event, Kind};
use dmv_benches::size;
use dmv_benches::tables::Record;
use dmv_benches::trash::Trash;

/// The tools of the page.
const TOOLS: [&str; 8] = ["dmv", "cp", "git", "hg", "bup", "borg", "restic", "casync"];
/// Where sessions keep their data, below `--base`.
const SCRATCH: &str = "dmv-report-scratch";
/// A file in it that is locked while a run uses it.
const LOCK: &str = "made-by-benches-report";
/// Memory that is touched before every step, whatever its data.
const LEAST_PRIME_BYTES: u64 = 256 << 20;

/// Measures DMV and other tools on ever larger files and ever more files, and writes the tables and
/// plots of docs/benchmarks.md.
///
/// Results are kept after every session. The same command again goes on where it was interrupted.
#[derive(Parser)]
struct Cli {
    /// Write the tables and plots from the results alone, without measuring.
    #[arg(long)]
    draw: bool,
    /// The smallest file of the first experiment, to measure a part of it.
    #[arg(long, default_value = "1B", value_name = "SIZE", value_parser = size::parse_bytes)]
    min_file: u64,
    /// The largest file of the first experiment; 0 leaves the experiment out.
    #[arg(long, default_value = "32GiB", value_name = "SIZE", value_parser = size::parse_bytes)]
    max_file: u64,
    /// The fewest files of the second experiment.
    #[arg(long, default_value_t = 1, value_name = "N")]
    min_files: u64,
    /// The most files of the second experiment; 0 leaves the experiment out.
    #[arg(long, default_value_t = 1_000_000, value_name = "N")]
    max_files: u64,
    /// Runs of each tool at each size.
    #[arg(long, default_value_t = 3, value_name = "N")]
    reps: u32,
    /// The tools to run, in this order.
    #[arg(long, value_name = "TOOL,…", value_delimiter = ',', default_values = TOOLS)]
    tools: Vec<String>,
    /// Seconds after which a step is stopped. The tool is not tried at larger sizes.
    #[arg(long, default_value_t = 3600.0, value_name = "SECONDS")]
    limit: f64,
    /// Do not repeat what took a tool longer than this in its first run, all steps together.
    #[arg(long, default_value_t = 600.0, value_name = "SECONDS")]
    once_above: f64,
    /// Drop the results of these tools and measure them again, for example after a new build.
    #[arg(long, value_name = "TOOL,…", value_delimiter = ',')]
    again: Vec<String>,
    /// Measure again what failed, was stopped or had no room.
    #[arg(long)]
    retry: bool,
    /// The raw results.
    #[arg(
        long,
        default_value = "benches/results/scaling.tsv",
        value_name = "FILE"
    )]
    results: PathBuf,
    /// The page to write tables into. Plots go into `plots/` beside it.
    #[arg(long, default_value = "docs/benchmarks.md", value_name = "FILE")]
    page: PathBuf,
    /// Where to put scratch data, a few times the largest size; its file system is what is measured.
    #[arg(long, default_value = "target", value_name = "DIR")]
    base: PathBuf,
    /// GiB of memory to touch and free before each step, at most.
    #[arg(long, default_value_t = 2.0, value_name = "GIB")]
    prime_gib: f64,
    /// GiB to leave free on disk: below it, finished trees are deleted during the run.
    #[arg(long, default_value_t = 16, value_name = "GIB")]
    keep_free_gib: u64,
    /// The dmv program. Default: beside this program, else in PATH.
    #[arg(long, value_name = "PROGRAM")]
    dmv: Option<PathBuf>,
}

/// Runs the program; exit code 1: a checkout was not what had been committed.
pub fn main() -> Result<ExitCode> {
    if std::env::args().nth(1).as_deref() == Some(runner::FLAG) {
        runner::serve()?;
        return Ok(ExitCode::SUCCESS);
    }
    let cli = Cli::parse();
    let mut wrong = Vec::new();
    if !cli.draw {
        measure(&cli, &mut wrong)?;
    }
    // From the file in both cases, so that the same results always give the same page.
    page::write(&Results::read(&cli.results)?, &cli.page)?;
    eprintln!("wrote {}", cli.page.display());
    if wrong.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    eprintln!("error: {}", wrong.join("; "));
    Ok(ExitCode::FAILURE)
}

/// Runs every session that the results lack.
fn measure(cli: &Cli, wrong: &mut Vec<String>) -> Result<()> {
    let dmv = match &cli.dmv {
        Some(path) => path
            .canonicalize()
            .with_context(|| path.display().to_string())?,
        None => peers::default_dmv(),
    };
    fs::create_dir_all(&cli.base).with_context(|| cli.base.display().to_string())?;
    let (tools, header) = find_tools(cli, &dmv)?;
    let again = |row: &Row| {
        let bad = matches!(
            row.status,
            Status::Failed | Status::TimedOut | Status::NoRoom | Status::NotTried
        );
        cli.again.contains(&row.tool) || (cli.retry && bad)
    };
    let mut results = Results::open(&cli.results, header, again)?;
    let scratch = Scratch::new(&cli.base)?;
    eprintln!("scratch: {}", scratch.dir.display());
    let events = RefCell::new(Vec::new());
    let mut emit = |event: Event| -> Result<()> {
        events.borrow_mut().push(event);
        Ok(())
    };
    let mut bench = Bench {
        conditions: Conditions {
            base: scratch.dir.clone(),
            prime_bytes: 0,
            warm: true,
        },
        trash: Trash::new(scratch.dir.join("trash"), cli.keep_free_gib << 30)?,
        dmv,
        limit_s: cli.limit,
        ops: Vec::new(),
        emit: &mut emit,
        wrong_checkouts: Vec::new(),
    };
    for point in points(cli) {
        eprintln!("\n{}", point.label());
        for run in 0..cli.reps {
            for (peer, version) in &tools {
                let rows = match due(cli, &results, point, peer, run) {
                    Due::Done => continue,
                    Due::Hopeless(why) => not_tried(point, peer, run, &why),
                    Due::Now => {
                        prepare(&mut bench.conditions, cli, point);
                        let failure = session(&mut bench, point, (peer, version), run, wrong);
                        rows_of(events.take(), point, peer, run, cli.limit, failure)
                    }
                };
                let rows = finish(rows, &scratch);
                tell(&rows);
                results.append(rows)?;
            }
        }
    }
    eprintln!("\ncleaning up");
    scratch.remove()
}

fn points(cli: &Cli) -> Vec<Point> {
    let range = |experiment| match experiment {
        Experiment::File => (cli.min_file, cli.max_file),
        Experiment::Files => (cli.min_files, cli.max_files),
    };
    let all = Experiment::ALL.into_iter().flat_map(|experiment| {
        let (least, most) = range(experiment);
        let points = experiment.points(most).into_iter();
        points.filter(move |point| point.amount >= least)
    });
    all.collect()
}

type Tools = Vec<(&'static Peer, String)>;

/// The tools that can run here, and the head of the results.
fn find_tools(cli: &Cli, dmv: &Path) -> Result<(Tools, Header)> {
    let mut header = Header {
        machine: machine::describe(&cli.base)?,
        settings: format!(
            "Steps were stopped after {} s. Runs of each tool and size: {}; one, where its steps took longer than {} s.",
            cli.limit, cli.reps, cli.once_above
        ),
        tools: Vec::new(),
    };
    let mut tools = Vec::new();
    // Of a program that was built elsewhere the sources are not known.
    let is_own = cli.dmv.is_none();
    for name in &cli.tools {
        let known = || PEERS.iter().map(|p| p.name).collect::<Vec<_>>().join(", ");
        let peer = peers::peer(name)
            .with_context(|| format!("no tool {name}; the tools are: {}", known()))?;
        let tool = match peers::find(peer, dmv) {
            Installation::Version(mut version) => {
                let source =
                    machine::source_commit().filter(|_| is_own && peer.name.starts_with("dmv"));
                if let Some(commit) = source {
                    version = format!("{version}, commit {commit}");
                }
                tools.push((peer, version.clone()));
                Tool::Version(version)
            }
            Installation::Missing(why) => {
                eprintln!("not measured: {name}: {why}");
                Tool::Missing(why)
            }
        };
        header.tools.push((name.clone(), tool));
    }
    if tools.is_empty() {
        bail!("none of the tools is installed");
    }
    Ok((tools, header))
}

/// Whether a session is still to be run.
enum Due {
    /// Now.
    Now,
    /// There are results, or no more are wanted.
    Done,
    /// It cannot succeed, and why.
    Hopeless(String),
}

fn due(cli: &Cli, results: &Results, point: Point, peer: &Peer, run: u32) -> Due {
    let of_run = |run: u32| {
        let here = move |row: &&Row| row.run == run;
        results.of(point, peer.name).filter(here)
    };
    if of_run(run).next().is_some() {
        return Due::Done;
    }
    let took: f64 = of_run(0).map(|row| row.command_s + row.sync_s).sum();
    let complete = |row: &Row| matches!(row.status, Status::Ok | Status::NoCommand);
    if run > 0 && (took > cli.once_above || !of_run(0).all(complete)) {
        return Due::Done;
    }
    if let Some(most) = peer
        .largest_file
        .filter(|most| point.largest_file() > *most)
    {
        let most = size::bytes(most as f64);
        return Due::Hopeless(format!("it holds files in memory whole: at most {most}"));
    }
    let stopped = results.rows.iter().find(|row| {
        row.status == Status::TimedOut
            && row.tool == peer.name
            && row.point.experiment == point.experiment
            && row.point.amount < point.amount
    });
    match stopped {
        Some(row) => Due::Hopeless(format!("stopped at {} already", row.point.label())),
        None => Due::Now,
    }
}

/// The conditions that depend on how much data there is.
fn prepare(conditions: &mut Conditions, cli: &Cli, point: Point) {
    let most = (cli.prime_gib * f64::from(1 << 30)) as u64;
    conditions.prime_bytes = most.min(LEAST_PRIME_BYTES + 2 * point.bytes()) as usize;
    conditions.warm = point.bytes() < machine::memory_bytes() / 2;
}

/// Runs one session. Returns why it broke off, or what was wrong with its checkout.
fn session(
    bench: &mut Bench<'_>,
    point: Point,
    (peer, version): (&'static Peer, &str),
    run: u32,
    wrong: &mut Vec<String>,
) -> Option<String> {
    let set = DataSet {
        name: point.label(),
        kind: Kind::Scaling(point),
        largest_file: point.largest_file(),
    };
    let ended = bench.session(peer, version, &set, run, run == 0);
    let found = std::mem::take(&mut bench.wrong_checkouts);
    let first = found.first().cloned();
    wrong.extend(found);
    ended.err().map(|error| format!("{error:#}")).or(first)
}

/// One row for each step, in their order: those that were not reached have one too. `failure` is
/// that of the session as a whole; it stands for the first step without success, or for the last.
fn rows_of(
    events: Vec<Event>,
    point: Point,
    peer: &Peer,
    run: u32,
    limit_s: f64,
    failure: Option<String>,
) -> Vec<Row> {
    let mut found: Vec<Row> = Vec::new();
    for event in events {
        match event {
            Event::Note(text) => eprintln!("{text}"),
            Event::Skipped { op, why } => {
                let status = Status::NoRoom;
                found.push(Row::without(point, peer.name, run, op, status, &why));
            }
            Event::Measured(record) => found.extend(row(point, *record, limit_s)),
        }
    }
    let steps = point.experiment.steps().iter();
    let complete = |step: &&str| {
        let measured = found.iter().find(|row| row.step == *step).cloned();
        measured.unwrap_or_else(|| {
            let (status, why) = match (*step, peer.status) {
                ("status", None) => (Status::NoCommand, ""),
                _ => (Status::NotTried, "a step before it did not succeed"),
            };
            Row::without(point, peer.name, run, step, status, why)
        })
    };
    let mut rows: Vec<Row> = steps.map(complete).collect();
    if let Some(why) = failure {
        let bad = |row: &Row| !matches!(row.status, Status::Ok | Status::NoCommand);
        let at = rows.iter().position(bad).unwrap_or(rows.len() - 1);
        rows[at].status = Status::Failed;
        rows[at].reason = why;
    }
    rows
}

/// The row of a measured step. Making a repository is no step: only its failure counts, as that of
/// the first commit.
fn row(point: Point, record: Record, limit_s: f64) -> Option<Row> {
    let step = if record.op == "init" {
        if record.ok {
            return None;
        }
        "first"
    } else {
        &record.op
    };
    let status = if record.ok {
        Status::Ok
    } else if record.wall_s >= limit_s {
        Status::TimedOut
    } else {
        Status::Failed
    };
    let repository = record.repository.unwrap_or_default();
    Some(Row {
        seconds: record.durable_s,
        command_s: record.wall_s,
        sync_s: record.sync_s,
        cpu_s: record.user_s + record.system_s,
        peak_bytes: (record.peak_mib * f64::from(1 << 20)) as u64,
        disk_bytes: repository.disk_bytes,
        length_bytes: repository.apparent_bytes,
        inodes: repository.inodes,
        load: record.load,
        reason: record.error.unwrap_or_default(),
        ..Row::without(point, &record.tool, record.rep, step, status, "")
    })
}

/// Rows of a session that was not run.
fn not_tried(point: Point, peer: &Peer, run: u32, why: &str) -> Vec<Row> {
    let steps = point.experiment.steps().iter();
    let row = |step: &&str| Row::without(point, peer.name, run, step, Status::NotTried, why);
    steps.map(row).collect()
}

/// Dates rows. Results are published, and paths of the machine are not.
fn finish(mut rows: Vec<Row>, scratch: &Scratch) -> Vec<Row> {
    let (today, place) = (machine::today(), scratch.dir.display().to_string());
    for row in &mut rows {
        row.date.clone_from(&today);
        let reason = row.reason.replace(&place, "…");
        row.reason = reason.trim_end_matches([';', ' ']).to_owned();
    }
    rows
}

fn tell(rows: &[Row]) {
    for row in rows {
        let Row {
            tool,
            step,
            run,
            reason,
            ..
        } = row;
        match row.status {
            Status::Ok => eprintln!("{tool:>9}  {step:<9} #{run}  {:.3} s", row.seconds),
            Status::NoCommand => {}
            Status::Failed => eprintln!("FAILED: {tool} {step} #{run}: {reason}"),
            Status::TimedOut => eprintln!("STOPPED: {tool} {step} #{run}: {reason}"),
            Status::NoRoom | Status::NotTried => {
                eprintln!("skipped: {tool} {step} #{run}: {reason}");
            }
        }
    }
}

/// The directory for the data of sessions. What an interrupted run left there is deleted.
struct Scratch {
    dir: PathBuf,
    /// Locked as long as this run goes on.
    _lock: File,
}

impl Scratch {
    fn new(base: &Path) -> Result<Scratch> {
        let base = base
            .canonicalize()
            .with_context(|| base.display().to_string())?;
        let dir = base.join(SCRATCH);
        let context = || format!("scratch directory {}", dir.display());
        if dir.exists() && !dir.join(LOCK).exists() {
            bail!("{} is not of this program: move it away", dir.display());
        }
        fs::create_dir_all(&dir).with_context(context)?;
        let lock = File::create(dir.join(LOCK)).with_context(context)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => bail!("another run uses {}", dir.display()),
            Err(TryLockError::Error(error)) => return Err(error).with_context(context),
        }
        for entry in fs::read_dir(&dir).with_context(context)? {
            let entry = entry.with_context(context)?;
            if entry.file_name() != LOCK {
                eprintln!("deleting what an interrupted run left");
                fs::remove_dir_all(entry.path()).with_context(context)?;
            }
        }
        Ok(Scratch { dir, _lock: lock })
    }

    fn remove(self) -> Result<()> {
        let context = || format!("remove {}", self.dir.display());
        fs::remove_dir_all(&self.dir).with_context(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_line_is_consistent() {
        use clap::CommandFactory;
        Cli::command().debug_assert();
    }

    #[test]
    fn the_tools_of_the_page_are_known() {
        for name in TOOLS {
            assert!(peers::peer(name).is_some(), "{name}");
        }
    }
}
