//! What is on its way from a remote, in the background, one place at a time.

use crate::program::ShownFailure;
use dmv_core::job::Job;
use serde_json::{Value, json};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What is on its way, or came last.
#[derive(Default)]
pub struct CurrentTransfer(Mutex<Option<Way>>);

struct Way {
    path: Vec<u8>,
    bytes: u64,
    job: Arc<Job>,
    ended: Option<Result<String, ShownFailure>>,
}

impl CurrentTransfer {
    /// The state for a page: `idle`, or what is on its way and how far it is.
    pub fn state(&self) -> Value {
        match &*self.lock() {
            None => json!({"state": "idle"}),
            Some(way) => {
                let state = match &way.ended {
                    None => "under way",
                    Some(Ok(_)) => "done",
                    Some(Err(_)) => "failed",
                };
                let told = match &way.ended {
                    Some(Ok(text)) => Some(text.clone()),
                    Some(Err(told)) => Some(told.message.clone()),
                    None => None,
                };
                json!({
                    "state": state,
                    "path": String::from_utf8_lossy(&way.path),
                    "bytes": way.job.progress.bytes.load(Ordering::Relaxed).min(way.bytes),
                    "total": way.bytes,
                    "message": told,
                })
            }
        }
    }

    /// Whether something is on its way, and what came of the last thing at `path`.
    pub fn told(&self, path: &[u8]) -> (bool, Option<Result<String, ShownFailure>>) {
        let way = self.lock();
        let Some(way) = way.as_ref() else {
            return (false, None);
        };
        let ended = way.ended.clone().filter(|_| way.path == path);
        (way.ended.is_none(), ended)
    }

    /// Notes that something begins. `false`: something else is on its way.
    pub fn begin(&self, path: &[u8], bytes: u64, job: Arc<Job>) -> bool {
        let mut way = self.lock();
        if way.as_ref().is_some_and(|way| way.ended.is_none()) {
            return false;
        }
        *way = Some(Way {
            path: path.to_vec(),
            bytes,
            job,
            ended: None,
        });
        true
    }

    /// Notes what came of it.
    pub fn end(&self, result: Result<String, ShownFailure>) {
        if let Some(way) = &mut *self.lock() {
            way.ended = Some(result);
        }
    }

    /// Stops it.
    pub fn cancel(&self) {
        if let Some(way) = &*self.lock() {
            way.job.cancel();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Way>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
