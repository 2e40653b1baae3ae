//! Progress on a terminal, and Ctrl-C.
//!
//! A short command pays nothing for either: no thread is started unless a terminal shows it, and
//! nothing is drawn before [`FIRST`].

use crate::failure::{EXIT_INTERRUPTED, Failure, FailureForm};
use crate::format::text::{bytes, count, duration};
use crate::terminal::{self, Whom, screen};
use crate::ui::{is_watched, report};
use dmv_core::job::{Bound, Job};
use dmv_core::threads;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, Once};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// When the first line is drawn.
const FIRST: Duration = Duration::from_millis(250);
const NEXT: Duration = Duration::from_millis(100);
/// What a job has to come to a safe point after Ctrl-C.
const GRACE: Duration = Duration::from_millis(120);
/// No end is foretold before this much is known.
const ETA_FROM: Duration = Duration::from_secs(2);

/// A job being watched.
pub struct Watch {
    drawing: Option<(Sender<()>, JoinHandle<()>)>,
}

impl Watch {
    /// Only lets Ctrl-C stop `job`, which takes the time that it needs to end.
    pub fn patient(job: Arc<Job>) -> Watch {
        on_interrupt(job, None);
        Watch { drawing: None }
    }

    /// Watches `job`; `shown`: draws its progress where a terminal is; `told`: how an end is told.
    pub fn start(job: Arc<Job>, doing: &'static str, shown: bool, told: InterruptionNote) -> Watch {
        on_interrupt(job.clone(), Some(told));
        if !shown || !is_watched() {
            return Watch { drawing: None };
        }
        job.ask_for_totals();
        let (stop, stopped) = channel();
        let thread = threads::start(move || {
            let started = Instant::now();
            if stopped.recv_timeout(FIRST) != Err(RecvTimeoutError::Timeout) {
                return;
            }
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
            let style = ProgressStyle::with_template("{spinner} {wide_msg}");
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
            let mut pace = Pace::default();
            loop {
                let elapsed = started.elapsed();
                let left = pace.left(&job, elapsed);
                let mut screen = screen();
                if screen.asking == 0 {
                    bar.set_message(line(&job, doing, pace.bytes_per_second, left));
                    bar.tick();
                    screen.bar = Some(bar.clone());
                }
                drop(screen);
                if stopped.recv_timeout(NEXT) != Err(RecvTimeoutError::Timeout) {
                    break;
                }
            }
            bar.finish_and_clear();
        });
        Watch {
            // Without a further thread, the command runs without this display.
            drawing: thread.ok().map(|thread| (stop, thread)),
        }
    }
}

/// How an interruption is told.
#[derive(Clone, Copy)]
pub struct InterruptionNote {
    /// The words.
    pub words: &'static str,
    /// Whether as JSON.
    pub json: bool,
}

/// What to say when `command` is interrupted, wherever it was.
pub fn interrupted(command: &str) -> &'static str {
    match command {
        "clone" | "fetch" | "get" | "sync" | "push" => {
            "interrupted; received data is kept: run the same command again to continue"
        }
        "pull" => {
            "interrupted; received data is kept: see 'dmv status', or run the same command again"
        }
        "checkout" | "restore" | "subset" | "merge" | "revert" | "cherry-pick" | "rebase"
        | "reset" | "stash" | "bisect" | "mv" | "rm" | "undo" | "redo" | "worktree" | "resolve" => {
            "interrupted; some files may have changed already: 'dmv status' shows how to continue"
        }
        "drop" | "gc" => "interrupted; run the same command again to free the rest",
        "repack" => "interrupted; what was joined stays joined: run it again to continue",
        "verify" => "interrupted; the check is incomplete: run it again",
        "recover" => "interrupted; the packs are unchanged: run 'dmv recover' again",
        "export" => {
            "interrupted; the export is incomplete: run it again, without --git with a new or empty directory"
        }
        _ => "interrupted; run the same command again",
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if let Some((stop, thread)) = self.drawing.take() {
            drop(stop);
            // A panic there has been reported; the work itself is unharmed.
            let _ = thread.join();
        }
    }
}

/// What Ctrl-C stops, and how that is told.
type StoppableJob = (Arc<Job>, Option<InterruptionNote>);

fn stopped() -> MutexGuard<'static, Option<StoppableJob>> {
    static STOPPED: Mutex<Option<StoppableJob>> = Mutex::new(None);
    STOPPED
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Lets the first Ctrl-C stop the job at a safe point, and the second end the program. Where `told`
/// says how it is told, the program ends after [`GRACE`] even if the job has not come to
/// such a point: a commit that was not published is as good as none, and what was written to a
/// worktree is taken up by the next command.
fn on_interrupt(job: Arc<Job>, told: Option<InterruptionNote>) {
    *stopped() = Some((job, told));
    install();
}

/// Lets Ctrl-C stop the job as the program that now has the terminal wants it ([`terminal::Lent`]).
pub fn while_lent(job: Arc<Job>) {
    on_interrupt(job, None);
}

/// Lets Ctrl-C end the program at once: nothing runs.
pub fn forget_stoppable() {
    *stopped() = None;
}

/// Returns whether the user has stopped the program once.
pub fn is_interrupted() -> bool {
    ASKED.load(Ordering::Relaxed)
}

/// The user has stopped the program once.
static ASKED: AtomicBool = AtomicBool::new(false);

fn install() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // Without a handler, Ctrl-C ends the program at once, which is safe as well.
        on_stop(|| {
            let lent = terminal::lent();
            if lent == Some(Whom::Editor) {
                return;
            }
            let found = stopped().clone();
            if lent.is_none() && ASKED.swap(true, Ordering::Relaxed) {
                std::process::exit(i32::from(EXIT_INTERRUPTED));
            }
            let Some((job, told)) = found else {
                std::process::exit(i32::from(EXIT_INTERRUPTED));
            };
            job.cancel();
            if let Some(told) = told.filter(|_| lent.is_none()) {
                std::thread::sleep(GRACE);
                let failure = Failure::new("interrupted", EXIT_INTERRUPTED, told.words);
                std::process::exit(i32::from(report(&failure, FailureForm::json_if(told.json))));
            }
        });
    });
}

/// Calls `stop` in a thread of its own each time that somebody wants the program to end.
#[cfg(unix)]
fn on_stop(stop: impl Fn() + Send + 'static) {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    if let Ok(mut signals) = signal_hook::iterator::Signals::new([SIGHUP, SIGINT, SIGTERM]) {
        let wait = move || signals.forever().for_each(|_| stop());
        let _ = std::thread::Builder::new().spawn(wait);
    }
}

/// Calls `stop` in a thread of its own each time that somebody wants the program to end.
#[cfg(windows)]
fn on_stop(stop: impl Fn() + Send + 'static) {
    let _ = ctrlc::set_handler(stop);
}

/// How fast it goes, and so how long it will take. What is shown must not jump about: the speed is
/// that of the last while, and how long it takes follows slowly.
#[derive(Default)]
struct Pace {
    /// Bytes, and when that was.
    last: (u64, Duration),
    /// When the first byte was seen to move.
    since: Option<Duration>,
    bytes_per_second: f64,
    /// Seconds, as shown last.
    left: Option<f64>,
}

/// How long the past counts.
const MEMORY: f64 = 8.0;

impl Pace {
    /// Seconds that are left, `elapsed` after the beginning; `None`: not known, or not worth a word.
    fn left(&mut self, job: &Job, elapsed: Duration) -> Option<f64> {
        let progress = &job.progress;
        let bytes = progress.bytes.load(Ordering::Relaxed);
        let total = progress.total_bytes.load(Ordering::Relaxed);
        if bytes < self.last.0 {
            // Another part of the job.
            *self = Pace::default();
        }
        let seconds = elapsed.saturating_sub(self.last.1).as_secs_f64();
        let moved = (bytes - self.last.0) as f64;
        self.last = (bytes, elapsed);
        let Some(since) = self.since else {
            self.since = (bytes > 0).then_some(elapsed);
            return None;
        };
        if seconds <= 0.0 {
            return self.left;
        }
        let lasted = elapsed.saturating_sub(since).as_secs_f64();
        // At first all of the past counts the same.
        let share = (seconds / lasted.min(MEMORY)).min(1.0);
        self.bytes_per_second += share * (moved / seconds - self.bytes_per_second);
        let is_known = total > bytes && progress.total_bound() != Bound::AtLeast;
        if !is_known || lasted < ETA_FROM.as_secs_f64() || self.bytes_per_second < 1.0 {
            self.left = None;
            return None;
        }
        let now = (total - bytes) as f64 / self.bytes_per_second;
        let left = match self.left {
            // What was said runs off by itself; the rest is made up for slowly.
            Some(before) => {
                let before = (before - seconds).max(0.0);
                before + (seconds / MEMORY).min(1.0) * (now - before)
            }
            None => now,
        };
        self.left = Some(left);
        self.left
    }
}

/// `speed`: bytes a second.
fn line(job: &Job, doing: &str, speed: f64, left: Option<f64>) -> String {
    let get = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
    let progress = &job.progress;
    let (files, read, new) = (
        get(&progress.files),
        get(&progress.bytes),
        get(&progress.new_bytes),
    );
    let (total_files, total) = (get(&progress.total_files), get(&progress.total_bytes));
    let mut parts = Vec::new();
    if files > 0 {
        parts.push(match total_files {
            0 => count(files, "file", "files"),
            // It was not so, or it is about to be said anew.
            all if all < files => count(files, "file", "files"),
            all => {
                let sign = match progress.total_bound() {
                    Bound::AtLeast if total > 0 => sign(Bound::AtLeast),
                    _ => "",
                };
                format!("{files} of {sign}{}", count(all, "file", "files"))
            }
        });
    }
    let mut more = Vec::new();
    if read > 0 {
        let of = match total {
            0 => String::new(),
            // It is about to be said anew, or it was not so.
            all if all < read => String::new(),
            all => format!(" of {}{}", sign(progress.total_bound()), bytes(all)),
        };
        parts.push(format!("{}{of}", bytes(read)));
        if speed >= 1.0 {
            more.push(format!("{}/s", bytes(speed as u64)));
        }
    }
    let objects = get(&progress.objects);
    if objects > 0 {
        more.push(count(objects, "object", "objects"));
    }
    if new > 0 && new < read {
        let saved = 100.0 * (read - new) as f64 / read as f64;
        more.push(format!("{saved:.0} % of it not new"));
    }
    // A narrow terminal cuts off the end of the line.
    if job.is_cancelled() {
        parts.push("stopping".to_owned());
    }
    if let Some(left) = left {
        parts.push(format!("{} left", duration(left)));
    }
    parts.append(&mut more);
    format!("{doing} {}", parts.join(", "))
}

/// What stands before a total that may change.
fn sign(bound: Bound) -> &'static str {
    match bound {
        Bound::Exact => "",
        Bound::AtLeast => "≥ ",
        Bound::AtMost => "≤ ",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TICK: Duration = Duration::from_millis(100);

    /// The seconds that are shown, tick by tick, while `moves` bytes come in each.
    fn shown(job: &Job, total: u64, moves: impl Fn(u64) -> u64, ticks: u64) -> Vec<Option<f64>> {
        let mut pace = Pace::default();
        let mut all = Vec::new();
        for n in 1..=ticks {
            Job::add(&job.progress.bytes, moves(n));
            let left = total.saturating_sub(job.progress.bytes.load(Ordering::Relaxed));
            job.progress.foresee(left, job.progress.total_bound());
            all.push(pace.left(job, TICK * n as u32));
        }
        all
    }

    #[test]
    fn an_even_pace_gives_an_end_that_comes_nearer_second_by_second() {
        let job = Job::default();
        job.progress.foresee(0, Bound::AtMost);
        let shown = shown(&job, 60_000, |_| 100, 300);
        assert!(shown[..19].iter().all(Option::is_none));
        for (n, left) in shown.iter().enumerate().skip(25) {
            let really = 60.0 - (n + 1) as f64 / 10.0;
            let left = left.expect("it is known");
            assert!((left - really).abs() < 0.5, "{n}: {left} and {really}");
        }
    }

    #[test]
    fn an_end_does_not_jump_about() {
        let job = Job::default();
        job.progress.foresee(0, Bound::Exact);
        // All comes in one tick of five.
        let moves = |n: u64| if n.is_multiple_of(5) { 500 } else { 0 };
        let shown = shown(&job, 60_000, moves, 300);
        let known: Vec<f64> = shown.into_iter().flatten().collect();
        assert!(known.len() > 250);
        for pair in known.windows(2) {
            assert!((pair[1] - pair[0]).abs() < 1.0, "{pair:?}");
        }
    }

    #[test]
    fn nothing_is_foretold_while_the_total_grows() {
        let job = Job::default();
        job.progress.foresee(0, Bound::AtLeast);
        let shown = shown(&job, 60_000, |_| 100, 100);
        assert!(shown.iter().all(Option::is_none));
        let line = line(&job, "transferring", 1000.0, None);
        assert!(line.contains("9.8 KiB of ≥ 58.6 KiB"), "{line}");
        assert!(!line.contains("left"), "{line}");
    }

    #[test]
    fn the_time_that_is_left_fits_on_a_narrow_terminal() {
        let job = Job::default();
        let progress = &job.progress;
        progress.expect(123_456, 987 << 30, Bound::AtMost);
        for (counter, n) in [
            (&progress.files, 98_765),
            (&progress.bytes, 876 << 30),
            (&progress.new_bytes, 123 << 30),
            (&progress.objects, 12_345_678),
        ] {
            Job::add(counter, n);
        }
        let line = line(&job, "transferring", 3e9, Some(3599.0));
        let (shown, _) = line.split_once(" left, ").expect("it is shown");
        // Two columns are the spinner's.
        assert!(shown.len() + " left".len() <= 78, "{line}");
        assert!(line.ends_with("not new"), "{line}");
    }

    #[test]
    fn a_total_that_was_passed_is_not_shown() {
        let job = Job::default();
        job.progress.foresee(500, Bound::AtMost);
        Job::add(&job.progress.bytes, 100);
        assert!(line(&job, "x", 0.0, None).contains("100 B of ≤ 500 B"));
        Job::add(&job.progress.bytes, 500);
        let line = line(&job, "x", 0.0, Some(9.0));
        assert!(line.contains("600 B, 9 s left"), "{line}");
    }
}
