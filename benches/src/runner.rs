//! Runs the commands of one step in a process of its own.
//!
//! A separate small process, because Linux counts CPU time and peak memory of *all* waited-for
//! children together, and because a child starts with the peak of whoever started it. The
//! comparison starts its own program again with [`FLAG`]; the step comes as JSON on stdin and the
//! result leaves as JSON on stdout.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use nix::sys::resource::{Usage as Rusage, UsageWho, getrusage};
use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};

/// First argument that makes the program a runner.
pub const FLAG: &str = "--run-step-of-comparison";

/// How often the process tree is sampled.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(20);

/// One command, without a shell.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandLine {
    /// Program and arguments.
    pub argv: Vec<String>,
    /// Exit code other than 0 that is success too (Mercurial: 1 for "nothing changed").
    pub also_ok: Option<i32>,
}

/// Commands to run one after the other, and where.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Step {
    /// The commands; the first that fails ends the step.
    pub commands: Vec<CommandLine>,
    /// Their working directory.
    pub cwd: PathBuf,
    /// Their whole environment.
    pub env: Vec<(String, String)>,
    /// Receives what they print.
    pub log: PathBuf,
    /// Seconds after which they are killed.
    pub limit_s: f64,
}

/// What running a step took.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Outcome {
    /// Whether every command succeeded in time.
    pub ok: bool,
    /// What went wrong, if something did.
    pub error: Option<String>,
    /// Seconds from the first start to the last exit.
    pub wall_s: f64,
    /// CPU seconds in user mode, all waited-for processes.
    pub user_s: f64,
    /// CPU seconds in the kernel.
    pub system_s: f64,
    /// The larger of: the largest sum of resident memory over the process tree, sampled; the
    /// largest peak of a single process, exact.
    pub peak_rss_bytes: u64,
    /// Most threads seen at once.
    pub threads: u64,
}

/// The runner's `main`: one step from stdin, one outcome to stdout.
pub fn serve() -> Result<()> {
    let mut text = String::new();
    io::stdin().read_to_string(&mut text)?;
    let step: Step = serde_json::from_str(&text).context("step")?;
    let outcome = run(&step)?;
    serde_json::to_writer(io::stdout(), &outcome)?;
    Ok(())
}

/// Runs `step` in a new runner process and returns its outcome; a failing step is an outcome,
/// not an error.
pub fn run_apart(step: &Step) -> Result<Outcome> {
    let program = std::env::current_exe().context("own program")?;
    let mut runner = Command::new(program)
        .arg(FLAG)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .context("start the runner")?;
    let mut stdin = runner.stdin.take().context("runner without stdin")?;
    stdin.write_all(&serde_json::to_vec(step)?)?;
    drop(stdin);
    let output = runner.wait_with_output()?;
    if !output.status.success() {
        bail!("the runner failed: {}", output.status);
    }
    serde_json::from_slice(&output.stdout).context("outcome")
}

fn run(step: &Step) -> Result<Outcome> {
    // Threads and /proc are set up before the clock starts.
    let mut sampler = Sampler::new(std::process::id());
    let done = AtomicBool::new(false);
    let timed_out = AtomicBool::new(false);
    let log = File::create(&step.log).with_context(|| step.log.display().to_string())?;
    let before = getrusage(UsageWho::RUSAGE_SELF)?;
    let start = Instant::now();
    let (error, wall) = thread::scope(|scope| {
        let sampling = scope.spawn(|| {
            while !done.load(Ordering::Acquire) {
                thread::park_timeout(SAMPLE_INTERVAL);
                sampler.sample();
                if start.elapsed().as_secs_f64() > step.limit_s {
                    timed_out.store(true, Ordering::Release);
                    sampler.kill_all();
                }
            }
        });
        let error = step
            .commands
            .iter()
            .find_map(|command| run_command(command, step, &log, &timed_out).err());
        let wall = start.elapsed();
        done.store(true, Ordering::Release);
        sampling.thread().unpark();
        (error, wall)
    });
    let children = getrusage(UsageWho::RUSAGE_CHILDREN)?;
    Ok(Outcome {
        ok: error.is_none(),
        error: error.map(|e| format!("{e:#}; {}", tail(&step.log))),
        wall_s: wall.as_secs_f64(),
        user_s: seconds(children.user_time()),
        system_s: seconds(children.system_time()),
        peak_rss_bytes: sampler.peak_rss_bytes.max(own_peak(children, before)),
        threads: sampler.peak_threads,
    })
}

fn run_command(
    command: &CommandLine,
    step: &Step,
    log: &File,
    timed_out: &AtomicBool,
) -> Result<()> {
    let Some((program, arguments)) = command.argv.split_first() else {
        bail!("empty command");
    };
    let status = Command::new(program)
        .args(arguments)
        .current_dir(&step.cwd)
        .env_clear()
        .envs(step.env.iter().map(|(k, v)| (k, v)))
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log.try_clone()?)
        .status()
        .with_context(|| format!("start {program}"))?;
    if timed_out.load(Ordering::Acquire) {
        bail!("killed after {} s", step.limit_s);
    }
    if !(status.success() || status.code().is_some() && status.code() == command.also_ok) {
        bail!("{program}: {status}");
    }
    Ok(())
}

/// Peak of the largest child; 0 where it shows no more than the runner's own memory, which every
/// child starts with.
fn own_peak(children: Rusage, runner: Rusage) -> u64 {
    let (child, own) = (children.max_rss(), runner.max_rss());
    if child > own + own / 50 {
        child as u64 * 1024
    } else {
        0
    }
}

fn seconds(time: nix::sys::time::TimeVal) -> f64 {
    time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6
}

/// The last few hundred bytes of what a command printed.
fn tail(log: &Path) -> String {
    let bytes = fs::read(log).unwrap_or_default();
    let start = bytes.len().saturating_sub(400);
    String::from_utf8_lossy(&bytes[start..]).trim().to_owned()
}

/// Watches the descendants of one process through `/proc`.
struct Sampler {
    ours: HashSet<u32>,
    others: HashSet<u32>,
    root: u32,
    peak_rss_bytes: u64,
    peak_threads: u64,
}

impl Sampler {
    fn new(root: u32) -> Sampler {
        let mut sampler = Sampler {
            ours: HashSet::from([root]),
            others: HashSet::new(),
            root,
            peak_rss_bytes: 0,
            peak_threads: 0,
        };
        // Whatever runs already is not ours; this keeps later samples cheap.
        sampler.others = process_ids().filter(|pid| *pid != root).collect();
        sampler
    }

    fn sample(&mut self) {
        let (mut rss, mut threads) = (0, 0);
        // Numbers go up, so a parent nearly always comes before its children.
        let mut pids: Vec<u32> = process_ids().filter(|p| !self.others.contains(p)).collect();
        pids.sort_unstable();
        for pid in pids.into_iter().filter(|pid| *pid != self.root) {
            let Some(status) = read_status(pid) else {
                continue;
            };
            if !self.ours.contains(&pid) {
                if !self.ours.contains(&status.parent) {
                    self.others.insert(pid);
                    continue;
                }
                self.ours.insert(pid);
            }
            rss += status.rss_bytes;
            threads += status.threads;
        }
        self.peak_rss_bytes = self.peak_rss_bytes.max(rss);
        self.peak_threads = self.peak_threads.max(threads);
    }

    fn kill_all(&self) {
        for pid in self.ours.iter().filter(|pid| **pid != self.root) {
            // A number may have been given away since: ask once more whose child it is.
            let still_ours = read_status(*pid).is_some_and(|s| self.ours.contains(&s.parent));
            if let Some(pid) = Pid::from_raw(*pid as i32).filter(|_| still_ours) {
                let _already_gone = kill_process(pid, Signal::KILL);
            }
        }
    }
}

struct Status {
    parent: u32,
    threads: u64,
    rss_bytes: u64,
}

fn process_ids() -> impl Iterator<Item = u32> {
    fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
}

fn read_status(pid: u32) -> Option<Status> {
    parse_status(&fs::read_to_string(format!("/proc/{pid}/status")).ok()?)
}

/// Takes what is needed out of `/proc/PID/status` (proc_pid_status(5)).
fn parse_status(text: &str) -> Option<Status> {
    let field = |key: &str| {
        let value = text
            .lines()
            .find_map(|l| l.strip_prefix(key))?
            .strip_prefix(':')?;
        value.trim().trim_end_matches(" kB").parse::<u64>().ok()
    };
    Some(Status {
        parent: field("PPid")?.try_into().ok()?,
        threads: field("Threads")?,
        // A process that is just ending has no memory any more, and no such line.
        rss_bytes: field("VmRSS").unwrap_or(0) * 1024,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The runner takes all children of its process for its own, and kills them all.
    static ALONE: std::sync::Mutex<()> = std::sync::Mutex::new(());

    fn step(dir: &Path, commands: &[&[&str]], limit_s: f64) -> Step {
        let commands = commands.iter().map(|argv| CommandLine {
            argv: argv.iter().map(|a| a.to_string()).collect(),
            also_ok: None,
        });
        Step {
            commands: commands.collect(),
            cwd: dir.to_owned(),
            env: std::env::vars().filter(|(k, _)| k == "PATH").collect(),
            log: dir.join("log"),
            limit_s,
        }
    }

    #[test]
    fn first_failing_command_ends_the_step() -> Result<()> {
        let _alone = ALONE.lock().unwrap_or_else(|e| e.into_inner());
        let dir = tempfile::tempdir()?;
        let good: &[&str] = &["touch", "good"];
        let outcome = run(&step(
            dir.path(),
            &[good, &["false"], &["touch", "late"]],
            60.0,
        ))?;
        assert!(!outcome.ok && outcome.error.is_some());
        assert!(dir.path().join("good").exists() && !dir.path().join("late").exists());
        assert!(run(&step(dir.path(), &[good], 60.0))?.ok);
        Ok(())
    }

    #[test]
    fn step_over_its_limit_is_killed() -> Result<()> {
        let _alone = ALONE.lock().unwrap_or_else(|e| e.into_inner());
        let dir = tempfile::tempdir()?;
        let outcome = run(&step(dir.path(), &[&["sleep", "600"]], 0.05))?;
        assert!(!outcome.ok && outcome.wall_s < 300.0);
        assert!(outcome.error.is_some_and(|e| e.contains("killed after")));
        Ok(())
    }

    #[test]
    fn status_is_read() {
        let text = "Name:\tx\nPPid:\t3\nVmRSS:\t      55 kB\nThreads:\t9\n";
        let got = parse_status(text).map(|s| (s.parent, s.threads, s.rss_bytes));
        assert_eq!(got, Some((3, 9, 55 * 1024)));
        assert!(parse_status("Name:\tx\n").is_none());
    }
}
