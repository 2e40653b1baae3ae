//! The requests of a session that have no answer yet, and which of them may begin.

use crate::api::message::notification;
use crate::api::request::Request;
use dmv_core::job::Job;
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::Thread;
use std::time::{Duration, Instant};

/// Requests that run at the same time.
pub const MAX_RUNNING: usize = 8;
/// Requests that wait.
pub const MAX_WAITING: usize = 1024;
/// Requests that wait take together at most so many bytes, unless there is only one.
pub const MAX_WAITING_BYTES: usize = 32 << 20;
/// A request is long if it takes more bytes. One that runs needs several times as many.
pub const LONG_BYTES: usize = 64 << 10;
/// Long requests that run take together at most so many bytes, unless there is only one.
pub const MAX_RUNNING_BYTES: usize = 16 << 20;
/// How often a client hears of a running request.
pub const PROGRESS: Duration = Duration::from_millis(250);

/// The requests that have no answer yet.
#[derive(Default)]
pub struct Work {
    pub waiting: VecDeque<Request>,
    pub running: Vec<RunningRequest>,
    /// Threads that wait for a request.
    pub resting: Vec<Thread>,
    /// The bytes of long requests that have begun and are not answered.
    pub long_bytes: usize,
    /// How many have begun.
    pub begun: u64,
    /// The thread that tells progress sleeps until a request begins.
    pub is_progress_asleep: bool,
    /// No further request comes.
    pub is_over: bool,
}

impl Work {
    /// Whether a further request may wait. A client may send requests faster than they are answered.
    pub fn has_room(&self, bytes: usize) -> bool {
        let waiting: usize = self.waiting.iter().map(|one| one.bytes).sum();
        self.waiting.is_empty()
            || self.waiting.len() < MAX_WAITING && waiting + bytes <= MAX_WAITING_BYTES
    }

    /// Takes out the next request that may begin. Short ones pass long ones.
    pub fn pop(&mut self) -> Option<Request> {
        let mut has_passed = false;
        let at = self.waiting.iter().position(|one| {
            let bytes = long_bytes(one);
            let has_room = self.long_bytes == 0 || self.long_bytes + bytes <= MAX_RUNNING_BYTES;
            let may_begin = bytes == 0 || has_room && !has_passed;
            has_passed |= bytes > 0;
            may_begin
        })?;
        let request = self.waiting.remove(at)?;
        self.long_bytes += long_bytes(&request);
        Some(request)
    }

    /// Wakes the thread that began to rest last. A client that waits for each answer is served by one thread, which has in
    /// the caches of the processor what it needs, and the others take no memory.
    pub fn wake_one(&mut self) {
        if let Some(thread) = self.resting.pop() {
            thread.unpark();
        }
    }

    /// Wakes all threads that rest.
    pub fn wake_all(&mut self) {
        self.resting.drain(..).for_each(|thread| thread.unpark());
    }
}

/// The bytes of a request that count while it runs: none if it is short.
pub fn long_bytes(request: &Request) -> usize {
    match request.bytes {
        ..=LONG_BYTES => 0,
        bytes => bytes,
    }
}

/// A request that has begun.
pub struct RunningRequest {
    pub id: Option<Value>,
    /// It ends only when it is canceled.
    pub is_endless: bool,
    pub job: Arc<Job>,
    pub since: Instant,
    /// What the client has heard last.
    pub told: [u64; 6],
}

impl RunningRequest {
    /// A message with what has been done since the last one.
    pub fn news(&mut self) -> Option<Vec<u8>> {
        let id = self.id.as_ref()?;
        let progress = &self.job.progress;
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let now = [
            get(&progress.files),
            get(&progress.bytes),
            get(&progress.new_bytes),
            get(&progress.objects),
            get(&progress.total_files),
            get(&progress.total_bytes),
        ];
        if now == self.told || self.since.elapsed() < PROGRESS {
            return None;
        }
        self.told = now;
        let [files, bytes, new_bytes, objects, total_files, total_bytes] = now;
        let params = json!({
            "id": id, "files": files, "bytes": bytes, "new_bytes": new_bytes, "objects": objects,
            "total_files": total_files, "total_bytes": total_bytes,
        });
        Some(notification("progress", &params))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_thread_that_began_to_rest_last_is_woken_first() {
        let other = std::thread::spawn(|| {});
        let (first, last) = (std::thread::current(), other.thread().clone());
        let mut work = Work {
            resting: vec![first.clone(), last],
            ..Work::default()
        };
        work.wake_one();
        assert_eq!(work.resting.len(), 1);
        assert_eq!(work.resting[0].id(), first.id());
        other.join().expect("it does nothing");
    }

    #[test]
    fn long_requests_run_one_after_the_other_and_short_ones_pass() {
        let request = |method: &str, bytes| {
            let (id, params) = (None, serde_json::Map::new());
            let (method, raw) = (method.to_owned(), false);
            Request {
                id,
                method,
                params,
                raw,
                bytes,
            }
        };
        let mut work = Work::default();
        for (method, bytes) in [
            ("a", MAX_RUNNING_BYTES + 1),
            ("b", MAX_RUNNING_BYTES / 2),
            ("c", LONG_BYTES),
            ("d", MAX_RUNNING_BYTES / 2),
            ("e", LONG_BYTES + 1),
            ("f", 1),
        ] {
            work.waiting.push_back(request(method, bytes));
        }
        let begun = |work: &mut Work| {
            let begun = std::iter::from_fn(|| work.pop()).map(|one| one.method);
            begun.collect::<Vec<_>>()
        };
        assert_eq!(begun(&mut work), ["a", "c", "f"]);
        work.long_bytes = 0;
        // The last one would fit with neither, and waits for its turn.
        assert_eq!(begun(&mut work), ["b", "d"]);
        work.long_bytes = 0;
        assert_eq!(begun(&mut work), ["e"]);
    }
}
