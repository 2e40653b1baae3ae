//! Directories kept open for their subdirectories, a bounded number of them.

use super::lock;
use crate::fsutil::{PathError, SafeDir};
use crate::worktree::ignore::IgnoreRules;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, Weak};

/// How many are kept open.
pub(super) const OPEN_DIRS: usize = 128;

/// The open directories, in the order they were opened.
#[derive(Default)]
pub(super) struct OpenDirs(Mutex<VecDeque<Weak<Handle>>>);

/// A directory whose subdirectories are being scanned.
pub(super) struct Handle {
    pub(super) parent: Option<Arc<Handle>>,
    pub(super) name: Box<[u8]>,
    pub(super) path: Vec<u8>,
    pub(super) depth: usize,
    pub(super) rules: IgnoreRules,
    /// Closed when many others were opened since.
    pub(super) open: Mutex<Option<Arc<SafeDir>>>,
}

impl OpenDirs {
    /// Counts `handle` as open. The root's is not counted and never closed.
    pub(super) fn keep(&self, handle: Handle) -> Arc<Handle> {
        let handle = Arc::new(handle);
        if handle.parent.is_some() {
            self.count(&handle);
        }
        handle
    }

    /// Puts `handle` among the open ones, and closes the longest open one if they are too many: in
    /// a walk depth first it is the one needed last.
    fn count(&self, handle: &Arc<Handle>) {
        let mut open = lock(&self.0);
        if open.len() >= OPEN_DIRS {
            open.retain(|handle| handle.strong_count() > 0);
        }
        if open.len() >= OPEN_DIRS
            && let Some(oldest) = open.pop_front().and_then(|handle| handle.upgrade())
        {
            *lock(&oldest.open) = None;
        }
        open.push_back(Arc::downgrade(handle));
    }

    /// The directory of `handle`, opened again from the nearest open one above if it was closed.
    pub(super) fn open(&self, handle: &Arc<Handle>) -> Result<Arc<SafeDir>, PathError> {
        let mut closed = Vec::new();
        let mut above = handle;
        let mut dir = loop {
            if let Some(dir) = lock(&above.open).clone() {
                break dir;
            }
            closed.push(above);
            above = above.parent.as_ref().expect("the root's is never closed");
        };
        for below in closed.iter().rev() {
            dir = Arc::new(dir.open_dir(&below.name)?);
        }
        if !closed.is_empty() {
            *lock(&handle.open) = Some(dir.clone());
            self.count(handle);
        }
        Ok(dir)
    }
}
