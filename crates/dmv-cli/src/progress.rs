//! Progress on a terminal, and Ctrl-C.
//!
//! A short command pays nothing for either: no thread is started unless somebody watches, and
//! nothing is drawn before [`FIRST`].

use crate::error::EXIT_INTERRUPTED;
use crate::format::text::{bytes, count};
use crate::ui::is_watched;
use dmv_core::job::Job;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Once};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// When the first line is drawn.
const FIRST: Duration = Duration::from_millis(250);
const NEXT: Duration = Duration::from_millis(100);
/// No end is foretold before this much is known.
const ETA_FROM: Duration = Duration::from_secs(1);

/// A job being watched.
pub struct Watch {
    drawing: Option<(Sender<()>, JoinHandle<()>)>,
}

impl Watch {
    /// Watches `job`; `shown`: draws its progress where a terminal is.
    pub fn start(job: Arc<Job>, doing: &'static str, shown: bool) -> Watch {
        on_interrupt(job.clone());
        if !shown || !is_watched() {
            return Watch { drawing: None };
        }
        let (stop, stopped) = channel();
        let thread = std::thread::spawn(move || {
            let started = Instant::now();
            if stopped.recv_timeout(FIRST) != Err(RecvTimeoutError::Timeout) {
                return;
            }
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
            let style = ProgressStyle::with_template("{spinner} {wide_msg}");
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
            loop {
                bar.set_message(line(&job, doing, started.elapsed()));
                bar.tick();
                if stopped.recv_timeout(NEXT) != Err(RecvTimeoutError::Timeout) {
                    break;
                }
            }
            bar.finish_and_clear();
        });
        Watch {
            drawing: Some((stop, thread)),
        }
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

/// Lets the first Ctrl-C stop the job at a safe point, and the second end the program.
fn on_interrupt(job: Arc<Job>) {
    static ONCE: Once = Once::new();
    static ASKED: AtomicBool = AtomicBool::new(false);
    ONCE.call_once(|| {
        // Without a handler, Ctrl-C ends the program at once, which is safe as well.
        let _ = ctrlc::set_handler(move || {
            if ASKED.swap(true, Ordering::Relaxed) {
                std::process::exit(i32::from(EXIT_INTERRUPTED));
            }
            job.cancel();
        });
    });
}

fn line(job: &Job, doing: &str, elapsed: Duration) -> String {
    let get = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
    let progress = &job.progress;
    let (files, read, new) = (
        get(&progress.files),
        get(&progress.bytes),
        get(&progress.new_bytes),
    );
    let (total_files, total) = (get(&progress.total_files), get(&progress.total_bytes));
    let seconds = elapsed.as_secs_f64().max(0.001);
    let mut parts = Vec::new();
    if files > 0 {
        parts.push(match total_files {
            0 => count(files, "file", "files"),
            all => format!("{files} of {}", count(all, "file", "files")),
        });
    }
    let objects = get(&progress.objects);
    if objects > 0 {
        parts.push(count(objects, "object", "objects"));
    }
    if read > 0 {
        let of = match total {
            0 => String::new(),
            all => format!(" of {}", bytes(all)),
        };
        parts.push(format!("{}{of}", bytes(read)));
        parts.push(format!("{}/s", bytes((read as f64 / seconds) as u64)));
    }
    if new > 0 && new < read {
        let saved = 100.0 * (read - new) as f64 / read as f64;
        parts.push(format!("{saved:.0}% known already"));
    }
    if total > read && read > 0 && elapsed >= ETA_FROM {
        let left = seconds * (total - read) as f64 / read as f64;
        parts.push(format!("{} left", duration(left)));
    }
    if job.is_cancelled() {
        parts.push("stopping".to_owned());
    }
    format!("{doing} {}", parts.join(", "))
}

fn duration(seconds: f64) -> String {
    let seconds = seconds.min(1e9) as u64;
    match seconds {
        0..60 => format!("{} s", seconds.max(1)),
        60..3600 => format!("{} min {:02} s", seconds / 60, seconds % 60),
        _ => format!("{} h {:02} min", seconds / 3600, seconds / 60 % 60),
    }
}
