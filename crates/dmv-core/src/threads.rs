//! Starting threads: an error in place of a panic if the system has none left.
//!
//! `std::thread::spawn` and `Scope::spawn` panic if the system refuses another thread or the memory
//! for one. The library and the program start every thread here. This module knows nothing of what
//! the threads do.

use std::io;
use std::sync::OnceLock;
use std::thread::{Builder, JoinHandle, Scope, ScopedJoinHandle, available_parallelism};

/// The system starts no further thread: a limit of processes or memory is reached.
#[derive(Debug, thiserror::Error)]
#[error("cannot start a thread: {0}")]
pub struct NoThread(pub io::Error);

impl From<NoThread> for io::Error {
    fn from(e: NoThread) -> io::Error {
        e.0
    }
}

/// Returns how many threads can run at the same time. The system is asked once: it reads files to find out.
pub fn cores() -> usize {
    static CORES: OnceLock<usize> = OnceLock::new();
    *CORES.get_or_init(|| available_parallelism().map_or(1, usize::from))
}

/// Starts a thread that runs `work`.
///
/// If this fails, `work` is dropped and never runs.
pub fn start<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<JoinHandle<T>, NoThread> {
    Builder::new().spawn(work).map_err(NoThread)
}

/// Starts a thread that runs `work` and ends before `scope` does.
///
/// If this fails, `work` is dropped and never runs.
pub fn start_in<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    work: impl FnOnce() -> T + Send + 'scope,
) -> Result<ScopedJoinHandle<'scope, T>, NoThread> {
    Builder::new().spawn_scoped(scope, work).map_err(NoThread)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_gives_its_result() {
        let sum = start(|| 1 + 2).expect("the system has threads");
        assert_eq!(sum.join().ok(), Some(3));
        let text = String::from("text");
        let len = std::thread::scope(|scope| {
            let len = start_in(scope, || text.len()).expect("the system has threads");
            len.join().ok()
        });
        assert_eq!(len, Some(4));
    }
}
