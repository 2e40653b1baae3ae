//! Makes previews: looks into the cache, starts a process for each file that is not there, serves it the bytes that it
//! asks for, and ends it when its time is over.

use crate::cache::Cache;
use crate::confine::{self, End};
#[cfg(target_os = "linux")]
use crate::film;
use crate::preview::{Kind, Limits, Preview, PreviewKind, Reason, Source};
use crate::wire::{self, Job};
use crate::worker::ending;
use std::collections::HashSet;
use std::ffi::OsString;
use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How to start the process that decodes: a program that calls [`crate::worker`].
#[derive(Clone, Debug)]
pub struct WorkerCommand {
    /// The program.
    pub program: PathBuf,
    /// Its arguments.
    pub args: Vec<OsString>,
}

/// Makes previews. Threads may share it; each call blocks until its preview is made.
pub struct Maker {
    command: WorkerCommand,
    limits: Limits,
    cache: Option<Cache>,
    state: Mutex<State>,
    changed: Condvar,
    /// Counts what is made once.
    once: AtomicU64,
}

#[derive(Default)]
struct State {
    running: usize,
    /// What is being made, so that nothing is made twice at a time.
    making: HashSet<String>,
}

impl Maker {
    /// Returns a maker. Nothing is started before the first preview is wanted.
    pub fn new(command: WorkerCommand, limits: Limits, cache: Option<Cache>) -> Self {
        Self {
            command,
            limits,
            cache,
            state: Mutex::default(),
            changed: Condvar::new(),
            once: AtomicU64::new(0),
        }
    }

    /// Returns the preview of a file, from the cache or newly made; or the reason why there is none.
    pub fn make(&self, source: &Source<'_>, wanted: PreviewKind) -> Result<Preview, Reason> {
        check(wanted)?;
        let key = key(source, wanted);
        if let Some(known) = self.known(&key) {
            return known;
        }
        let _turn = self.turn(&key);
        // Another thread may have made it meanwhile.
        if let Some(known) = self.known(&key) {
            return known;
        }
        let result = self.run(source, wanted);
        let lasts = result.as_ref().err().is_none_or(Reason::is_lasting);
        if let (Some(cache), true) = (&self.cache, lasts) {
            cache.put(&key, &wire::encode_result(&result));
        }
        result
    }

    /// Returns the preview of a file that may change, newly made: the cache neither has nor gets it, and its source
    /// needs no id.
    pub fn make_once(&self, source: &Source<'_>, wanted: PreviewKind) -> Result<Preview, Reason> {
        check(wanted)?;
        let key = format!("once\n{}", self.once.fetch_add(1, Ordering::Relaxed));
        let _turn = self.turn(&key);
        self.run(source, wanted)
    }

    /// Returns the preview or the reason that lies in the cache. Nothing is made, and no content is read.
    pub fn cached(
        &self,
        id: &str,
        name: &str,
        wanted: PreviewKind,
    ) -> Option<Result<Preview, Reason>> {
        self.known(&key_of(id, name, wanted))
    }

    fn known(&self, key: &str) -> Option<Result<Preview, Reason>> {
        let bytes = self.cache.as_ref()?.get(key)?;
        wire::decode_result(&bytes)
    }

    /// Waits until a process may start, and no other request makes the same.
    fn turn<'a>(&'a self, key: &'a str) -> Turn<'a> {
        let mut state = self.state();
        while state.running >= self.limits.workers.max(1) || state.making.contains(key) {
            let woken = self.changed.wait(state);
            state = woken.unwrap_or_else(PoisonError::into_inner);
        }
        state.running += 1;
        state.making.insert(key.to_owned());
        Turn { maker: self, key }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a preview: of a film from the picture that `ffmpeg` finds in it.
    fn run(&self, source: &Source<'_>, wanted: PreviewKind) -> Result<Preview, Reason> {
        #[cfg(target_os = "linux")]
        if let (Some(format), true) = (
            film::format(&ending(source.name), wanted),
            Self::shows_films(),
        ) {
            let bytes = self.picture_of_film(source, format)?;
            let picture = Source {
                id: source.id,
                name: "poster.png",
                len: bytes.len() as u64,
                bytes: &bytes,
            };
            let mut preview = self.decode(&picture, wanted)?;
            // The picture may be smaller than the film.
            preview.original = None;
            preview.facts.clear();
            return Ok(preview);
        }
        self.decode(source, wanted)
    }

    /// Returns whether films get pictures: the system has `ffmpeg`.
    pub fn shows_films() -> bool {
        #[cfg(target_os = "linux")]
        return film::installed().is_some();
        #[cfg(not(target_os = "linux"))]
        return false;
    }

    /// Starts a process that becomes `ffmpeg`, and takes the file with a picture that it writes.
    #[cfg(target_os = "linux")]
    fn picture_of_film(&self, source: &Source<'_>, format: &str) -> Result<Vec<u8>, Reason> {
        let unreadable = |e| {
            let words = format!("the content cannot be read: {e}");
            Reason::new(Kind::Unreadable, words)
        };
        let film = film::in_memory(source).map_err(unreadable)?;
        let mut command = Command::new(&self.command.program);
        command.args(&self.command.args).args([film::MARK, format]);
        command.env_clear().stdin(film);
        command.stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().map_err(not_started)?;
        let from = child.stdout.take();
        let watched = WatchedProcess::new(child);
        let mut bytes = Vec::new();
        let read = std::thread::scope(|scope| {
            let watch = || watched.watch(self.limits.wall);
            let thread = std::thread::Builder::new().spawn_scoped(scope, watch);
            let read = match (thread, from) {
                (Ok(_), Some(from)) => from.take(film::MAX_PICTURE).read_to_end(&mut bytes),
                (Err(e), _) => Err(e),
                (_, None) => Err(std::io::ErrorKind::BrokenPipe.into()),
            };
            watched.finish();
            read
        });
        let (end, late) = watched.end();
        read.map_err(not_started)?;
        match (bytes.is_empty(), late || end == End::Time) {
            (false, false) => Ok(bytes),
            (_, true) => Err(why(End::Time, late, &self.limits)),
            (true, _) if end == End::Refused => Err(why(End::Refused, false, &self.limits)),
            (true, _) => {
                let words = "ffmpeg finds no picture at the beginning of this film";
                Err(Reason::new(Kind::Absent, words))
            }
        }
    }

    /// Starts a process and lets it decode the file.
    fn decode(&self, source: &Source<'_>, wanted: PreviewKind) -> Result<Preview, Reason> {
        let mut child = self.start().map_err(not_started)?;
        let pipes = child.stdin.take().zip(child.stdout.take());
        let job = Job {
            ending: ending(source.name),
            len: source.len,
            wanted,
            limits: self.limits,
        };
        let watched = WatchedProcess::new(child);
        let answer = std::thread::scope(|scope| {
            let watch = || watched.watch(self.limits.wall);
            let thread = std::thread::Builder::new().spawn_scoped(scope, watch);
            let answer = match (thread, pipes) {
                (Ok(_), Some((to, from))) => converse(to, from, source, &job),
                (Err(e), _) => Err(ConversationEnd::Start(e)),
                (_, None) => Err(ConversationEnd::Child),
            };
            watched.finish();
            answer
        });
        let (end, late) = watched.end();
        match answer {
            Ok(result) => result,
            Err(ConversationEnd::Content(e)) => {
                let words = format!("the content cannot be read: {e}");
                Err(Reason::new(Kind::Unreadable, words))
            }
            Err(ConversationEnd::Start(e)) => Err(not_started(e)),
            Err(ConversationEnd::Child) => Err(why(end, late, &self.limits)),
        }
    }

    fn start(&self) -> std::io::Result<Child> {
        let mut command = Command::new(&self.command.program);
        command.args(&self.command.args).env_clear();
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        command.stderr(Stdio::null()).spawn()
    }
}

/// The right to run one process for one key. Dropping it gives the right back.
struct Turn<'a> {
    maker: &'a Maker,
    key: &'a str,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut state = self.maker.state();
        state.running -= 1;
        state.making.remove(self.key);
        self.maker.changed.notify_all();
    }
}

/// Why a conversation ended without an answer.
enum ConversationEnd {
    /// No thread is left to watch it.
    Start(std::io::Error),
    /// The file's content could not be read.
    Content(std::io::Error),
    /// The process ended, or says what it must not.
    Child,
}

impl From<std::io::Error> for ConversationEnd {
    fn from(_: std::io::Error) -> Self {
        Self::Child
    }
}

/// Sends the job, serves ranges, and returns the answer.
fn converse(
    mut to: impl Write,
    mut from: impl Read,
    source: &Source<'_>,
    job: &Job,
) -> Result<Result<Preview, Reason>, ConversationEnd> {
    wire::send(&mut to, wire::JOB, &job.encode())?;
    let mut left = job.limits.read_bytes;
    let mut bytes = Vec::new();
    loop {
        match wire::head(&mut from)? {
            Some((wire::READ, 12)) => {
                let (offset, len) = range(&mut from)?;
                let end = offset.checked_add(u64::from(len));
                if len > wire::MAX_READ || end.is_none_or(|end| end > source.len) {
                    return Err(ConversationEnd::Child);
                }
                left = left
                    .checked_sub(u64::from(len))
                    .ok_or(ConversationEnd::Child)?;
                bytes.resize(len as usize, 0);
                let read = source.bytes.read_at(offset, &mut bytes);
                read.map_err(ConversationEnd::Content)?;
                wire::send(&mut to, wire::BYTES, &bytes)?;
            }
            Some((wire::DONE, len)) => {
                if u64::from(len) > job.limits.output_bytes + wire::MAX_EXTRA {
                    return Err(ConversationEnd::Child);
                }
                let answer = wire::payload(&mut from, len)?;
                return wire::decode_result(&answer).ok_or(ConversationEnd::Child);
            }
            _ => return Err(ConversationEnd::Child),
        }
    }
}

fn range(from: &mut impl Read) -> std::io::Result<(u64, u32)> {
    let (mut offset, mut len) = ([0; 8], [0; 4]);
    from.read_exact(&mut offset)?;
    from.read_exact(&mut len)?;
    Ok((u64::from_le_bytes(offset), u32::from_le_bytes(len)))
}

/// A process that is killed when its time is over.
struct WatchedProcess {
    child: Mutex<Child>,
    finished: Mutex<bool>,
    woken: Condvar,
    late: Mutex<bool>,
}

impl WatchedProcess {
    fn new(child: Child) -> Self {
        Self {
            child: Mutex::new(child),
            finished: Mutex::new(false),
            woken: Condvar::new(),
            late: Mutex::new(false),
        }
    }

    /// Waits for the end of the conversation, but not longer than `wall`; then kills the process. Its pipes close, so
    /// that the conversation ends, too.
    fn watch(&self, wall: Duration) {
        let start = Instant::now();
        let mut finished = lock(&self.finished);
        while !*finished {
            let Some(left) = wall.checked_sub(start.elapsed()) else {
                *lock(&self.late) = true;
                break;
            };
            let woken = self.woken.wait_timeout(finished, left);
            finished = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
        if *lock(&self.late) {
            // It may have ended by itself meanwhile.
            let _ = lock(&self.child).kill();
        }
    }

    fn finish(&self) {
        *lock(&self.finished) = true;
        self.woken.notify_all();
    }

    /// Returns how the process ended, and whether it was killed for its time. A process whose pipes are closed has
    /// nothing more to do; if it goes on all the same, it is killed.
    fn end(self) -> (End, bool) {
        let late = *lock(&self.late);
        let mut child = lock(&self.child);
        for _ in 0..50 {
            match child.try_wait() {
                Ok(Some(status)) => return (confine::end_of(status), late),
                Ok(None) => std::thread::sleep(Duration::from_millis(2)),
                Err(_) => break,
            }
        }
        let _ = child.kill();
        let _ = child.wait();
        (End::Crash, late)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn not_started(e: std::io::Error) -> Reason {
    let words = format!("the process that decodes cannot be started: {e}");
    Reason::new(Kind::NoWorker, words)
}

/// Says why a process gave no answer.
fn why(end: End, late: bool, limits: &Limits) -> Reason {
    if late {
        let words = format!(
            "making the preview takes longer than {} seconds",
            limits.wall.as_secs()
        );
        return Reason::new(Kind::TooSlow, words);
    }
    match end {
        End::Time => {
            let words = format!(
                "making the preview takes longer than {} seconds of processor time",
                limits.cpu_seconds
            );
            Reason::new(Kind::TooSlow, words)
        }
        End::Memory => {
            let words = format!(
                "decoding needs more memory than the {} MiB that a preview may use",
                limits.memory >> 20
            );
            Reason::new(Kind::TooLarge, words)
        }
        End::Crash => Reason::new(
            Kind::Crash,
            "decoding the file ended with a crash, which is a defect of dmv: the file may be intact",
        ),
        End::Refused => Reason::new(
            Kind::NoWorker,
            "this system cannot take the rights from the process that decodes",
        ),
    }
}

/// Refuses wishes that no preview can meet.
fn check(wanted: PreviewKind) -> Result<(), Reason> {
    let fits = match wanted {
        PreviewKind::Pixels { max_edge } => max_edge > 0,
        PreviewKind::Waveform { from, to, buckets } => {
            from < to && (1..=PreviewKind::MAX_BUCKETS).contains(&buckets)
        }
        PreviewKind::Exposed { stops } => {
            stops.unsigned_abs() <= PreviewKind::MAX_STOPS.unsigned_abs()
        }
        PreviewKind::Thumbnail | PreviewKind::Large | PreviewKind::Metadata => true,
    };
    if fits {
        Ok(())
    } else {
        Err(Reason::new(Kind::Absent, "the wanted range is empty"))
    }
}

/// Changes with each change of what previews look like.
const VERSION: u32 = 3;

fn key(source: &Source<'_>, wanted: PreviewKind) -> String {
    key_of(source.id, source.name, wanted)
}

fn key_of(id: &str, name: &str, wanted: PreviewKind) -> String {
    format!("{VERSION}\n{}\n{wanted:?}\n{id}", ending(name))
}
