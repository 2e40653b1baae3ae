//! Reads of byte ranges, several at once, within a number of bytes. What was read is passed on in
//! order.

use crate::bucket::files::{Failed, Files};
use crate::bucket::ranges::Range;
use crate::bucket::trouble::Trouble;
use crate::session::NetError;
use dmv_core::store::RepositoryId;
use dmv_core::threads;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// The most reads that are under way at once.
const AT_ONCE: usize = 16;
/// The most bytes that are under way, or read and not passed on, unless there is one read only.
const BYTES_AT_ONCE: u64 = 48 << 20;
/// How often a read is tried whose connection is cut.
const TRIES: u32 = 4;
/// The time before the second try. Before each further one it is twice as long.
const PAUSE: Duration = Duration::from_millis(200);

/// A read that failed.
#[derive(Debug)]
pub struct NotRead {
    /// What was to be read.
    pub range: Range,
    /// Why.
    pub why: Failed,
}

/// What ends a series of reads early.
#[derive(Debug)]
pub enum Stop {
    /// A read failed.
    Read(NotRead),
    /// The session failed.
    Net(NetError),
}

impl From<NetError> for Stop {
    fn from(e: NetError) -> Stop {
        Stop::Net(e)
    }
}

/// Takes a range and what became of its read.
pub type Each<'e> = &'e mut dyn FnMut(&Range, Result<Vec<u8>, Failed>) -> Result<(), Stop>;

struct Task {
    number: usize,
    range: Range,
    name: String,
    done: Sender<(usize, Result<Vec<u8>, Failed>)>,
    is_over: Arc<AtomicBool>,
}

/// Threads that read. They end when this is dropped.
pub struct Hands {
    files: Arc<dyn Files>,
    tasks: Sender<Task>,
    /// What the threads take tasks from.
    taken: Arc<Mutex<Receiver<Task>>>,
    started: usize,
}

impl Hands {
    /// Returns hands without threads. They start when they are needed.
    pub fn new(files: Arc<dyn Files>) -> Hands {
        let (tasks, taken) = channel();
        Hands {
            files,
            tasks,
            taken: Arc::new(Mutex::new(taken)),
            started: 0,
        }
    }

    /// Reads ranges of files of a repository, and passes each with its bytes to `each`, in order.
    /// A read that fails is passed on, too: `each` decides whether that ends the others.
    pub fn read(
        &mut self,
        repository: RepositoryId,
        ranges: &[Range],
        each: Each<'_>,
    ) -> Result<(), Stop> {
        let is_over = Arc::new(AtomicBool::new(false));
        let done = self.read_until(repository, ranges, &is_over, each);
        is_over.store(true, Ordering::Relaxed);
        done
    }

    fn read_until(
        &mut self,
        repository: RepositoryId,
        ranges: &[Range],
        is_over: &Arc<AtomicBool>,
        each: Each<'_>,
    ) -> Result<(), Stop> {
        let (done, came) = channel();
        let mut waiting = BTreeMap::new();
        let (mut begun, mut passed, mut bytes) = (0, 0, 0);
        while passed < ranges.len() {
            while let Some(range) = ranges.get(begun) {
                let is_full = begun - passed >= AT_ONCE || bytes + range.len > BYTES_AT_ONCE;
                if begun > passed && is_full {
                    break;
                }
                self.begin(Task {
                    number: begun,
                    range: *range,
                    name: range.file.path(repository),
                    done: done.clone(),
                    is_over: is_over.clone(),
                })?;
                bytes += range.len;
                begun += 1;
            }
            let Some(found) = waiting.remove(&passed) else {
                let Ok((number, found)) = came.recv() else {
                    return Err(NetError::Closed.into());
                };
                waiting.insert(number, found);
                continue;
            };
            let range = &ranges[passed];
            each(range, found)?;
            bytes -= range.len;
            passed += 1;
        }
        Ok(())
    }

    /// Starts a task, and a thread for it unless there are enough.
    fn begin(&mut self, task: Task) -> Result<(), NetError> {
        if self.started < AT_ONCE {
            let (files, taken) = (self.files.clone(), self.taken.clone());
            match threads::start(move || work(&*files, &taken)) {
                Ok(_) => self.started += 1,
                Err(e) if self.started == 0 => return Err(e.into()),
                // Those that run do it alone.
                Err(_) => {}
            }
        }
        self.tasks.send(task).map_err(|_| NetError::Closed)
    }
}

fn work(files: &dyn Files, taken: &Mutex<Receiver<Task>>) {
    loop {
        let task = {
            let taken = taken.lock().unwrap_or_else(PoisonError::into_inner);
            taken.recv()
        };
        let Ok(task) = task else {
            return;
        };
        if task.is_over.load(Ordering::Relaxed) {
            continue;
        }
        let found = read(files, &task);
        // Nobody waits for it any more if the series ended early.
        let _ = task.done.send((task.number, found));
    }
}

/// Reads a range. Tries again if the connection was cut.
fn read(files: &dyn Files, task: &Task) -> Result<Vec<u8>, Failed> {
    let (from, to) = (task.range.offset, task.range.offset + task.range.len);
    let mut pause = PAUSE;
    for _ in 1..TRIES {
        match files.read_range(&task.name, from..to) {
            Err(Failed::Trouble(Trouble::Cut(_) | Trouble::Busy)) => {
                if task.is_over.load(Ordering::Relaxed) {
                    break;
                }
                std::thread::sleep(pause);
                pause *= 2;
            }
            done => return done,
        }
    }
    files.read_range(&task.name, from..to)
}
