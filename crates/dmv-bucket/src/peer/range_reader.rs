//! Reads of byte ranges, several at once, within a number of bytes. What was read is passed on in
//! order.
//!
//! The thread that waits for the reads makes and frees their buffers, and uses them again. An
//! allocator keeps for the thread that has asked for it what another thread frees: with a buffer of
//! their own for each read, all threads together would hold several times what is bounded here.

use crate::files::{FileFailure, Files};
use crate::ranges::Range;
use dmv_core::store::RepositoryId;
use dmv_core::threads;
use dmv_net::session::NetError;
use dmv_net::trouble::Trouble;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// The most reads that are under way at once.
const AT_ONCE: usize = 16;
/// The most bytes that are under way, or read and not passed on, unless there is one read only.
const BYTES_AT_ONCE: u64 = 48 << 20;
/// The room of the smallest buffer that is kept for further reads.
const LEAST_SPARE: u64 = 256 << 10;
/// The most room that a buffer gets before its bytes come.
const MOST_AT_FIRST: u64 = 16 << 20;
/// How often a read is tried whose connection is cut.
const TRIES: u32 = 4;
/// The same where each of them is repeated below.
const FEW_TRIES: u32 = 2;
/// The time before the second try. Before each further one it is twice as long.
const PAUSE: Duration = Duration::from_millis(200);

/// A read that failed.
#[derive(Debug)]
pub struct NotRead {
    /// What was to be read.
    pub range: Range,
    /// Why.
    pub why: FileFailure,
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

/// Takes a range and what became of its read. The buffer is used again, unless it is taken.
pub type Each<'e> =
    &'e mut dyn FnMut(&Range, Result<&mut Vec<u8>, FileFailure>) -> Result<(), Stop>;

/// The number of a read, and what was read.
type FinishedRead = (usize, Result<Vec<u8>, FileFailure>);

struct Task {
    number: usize,
    range: Range,
    name: String,
    buffer: Vec<u8>,
    done: Sender<FinishedRead>,
    is_over: Arc<AtomicBool>,
}

/// Threads that read. They end when this is dropped.
pub struct RangeReader {
    files: Arc<dyn Files>,
    tasks: Sender<Task>,
    /// What the threads take tasks from.
    taken: Arc<Mutex<Receiver<Task>>>,
    started: usize,
}

impl RangeReader {
    /// Returns hands without threads. They start when they are needed.
    pub fn new(files: Arc<dyn Files>) -> RangeReader {
        let (tasks, taken) = channel();
        RangeReader {
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
        let (done, came) = channel::<FinishedRead>();
        let mut waiting = BTreeMap::new();
        let mut spare = Spare::default();
        let (mut begun, mut passed, mut bytes) = (0, 0, 0);
        while passed < ranges.len() {
            while let Some(range) = ranges.get(begun) {
                let is_full = begun - passed >= AT_ONCE || bytes + range.len > BYTES_AT_ONCE;
                if begun > passed && is_full {
                    break;
                }
                let task = Task {
                    number: begun,
                    range: *range,
                    name: range.file.path(repository),
                    buffer: spare.take(range.len, BYTES_AT_ONCE - bytes.min(BYTES_AT_ONCE)),
                    done: done.clone(),
                    is_over: is_over.clone(),
                };
                self.begin(task, begun - passed - waiting.len())?;
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
            match found {
                Ok(mut buffer) => {
                    each(range, Ok(&mut buffer))?;
                    spare.add(buffer);
                }
                Err(e) => each(range, Err(e))?,
            }
            bytes -= range.len;
            passed += 1;
        }
        Ok(())
    }

    /// Starts a task beside so many `others`, and a thread for it unless one is free.
    fn begin(&mut self, task: Task, others: usize) -> Result<(), NetError> {
        if self.started < AT_ONCE && self.started <= others {
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
        let (number, done) = (task.number, task.done.clone());
        // No reader waits for it any more if the series ended early.
        let _ = done.send((number, read(files, task)));
    }
}

/// Reads a range. Tries again if the connection was cut.
fn read(files: &dyn Files, mut task: Task) -> Result<Vec<u8>, FileFailure> {
    let (from, to) = (task.range.offset, task.range.offset + task.range.len);
    let mut pause = PAUSE;
    let tries = if files.repeats() { FEW_TRIES } else { TRIES };
    for _ in 1..tries {
        match files.read_into(&task.name, from..to, &mut task.buffer) {
            Err(FileFailure::Trouble(Trouble::Cut(_) | Trouble::Busy)) => {
                if task.is_over.load(Ordering::Relaxed) {
                    break;
                }
                std::thread::sleep(pause);
                pause *= 2;
            }
            done => return done.map(|()| task.buffer),
        }
    }
    let done = files.read_into(&task.name, from..to, &mut task.buffer);
    done.map(|()| task.buffer)
}

/// Buffers that no read uses at the moment.
#[derive(Default)]
struct Spare(Vec<Vec<u8>>);

impl Spare {
    fn add(&mut self, buffer: Vec<u8>) {
        if buffer.capacity() as u64 >= LEAST_SPARE {
            self.0.push(buffer);
        }
    }

    /// Returns an empty buffer with room for `len` bytes. Keeps others with at most `left` bytes,
    /// less the one that is returned.
    fn take(&mut self, len: u64, left: u64) -> Vec<u8> {
        let fits = |buffer: &Vec<u8>| {
            let room = buffer.capacity() as u64;
            room >= len && room / 2 <= len
        };
        let found = self.0.iter().position(fits);
        let mut buffer = found.map_or_else(
            || Vec::with_capacity(len.min(MOST_AT_FIRST) as usize),
            |n| self.0.swap_remove(n),
        );
        buffer.clear();
        let mut left = left.saturating_sub(buffer.capacity() as u64);
        self.0.retain(|other| {
            let room = other.capacity() as u64;
            let stays = room <= left;
            left -= if stays { room } else { 0 };
            stays
        });
        buffer
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_used_again_and_together_they_are_no_more_than_may_be_under_way() {
        let mut spare = Spare::default();
        let first = spare.take(2 << 20, 8 << 20);
        let at = first.as_ptr();
        spare.add(first);
        spare.add(Vec::with_capacity(100));
        assert_eq!(spare.0.len(), 1, "small ones are not worth it");
        let other = spare.take(5 << 20, 8 << 20);
        assert_ne!(other.as_ptr(), at, "it is too small");
        assert_eq!(spare.0.len(), 1);
        let again = spare.take((2 << 20) - 10, 3 << 20);
        assert_eq!(again.as_ptr(), at);
        assert_eq!(spare.0.len(), 0);
        spare.add(again);
        let large = spare.take(7 << 20, 8 << 20);
        assert_eq!(
            (large.capacity(), spare.0.len()),
            (7 << 20, 0),
            "no room for both"
        );
        let small = spare.take(10, 8 << 20);
        assert_eq!(small.capacity(), 10);
        assert_eq!(spare.take(u64::MAX, 0).capacity(), MOST_AT_FIRST as usize);
    }
}
