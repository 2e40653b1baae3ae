//! A bounded number of directories that are kept open for their subdirectories.

use super::lock;
use crate::fsutil::SafeDir;
use crate::path::PathError;
use crate::worktree::ignore::IgnoreRules;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, Weak};

/// Most directories that are kept open.
pub(super) const OPEN_DIRS: usize = 128;

/// The open directories, in the order of opening.
#[derive(Default)]
pub(super) struct OpenDirs(Mutex<VecDeque<Weak<Handle>>>);

/// A directory whose subdirectories are being scanned.
pub(super) struct Handle {
    pub(super) parent: Option<Arc<Handle>>,
    pub(super) name: Box<[u8]>,
    pub(super) path: Vec<u8>,
    pub(super) depth: usize,
    pub(super) rules: IgnoreRules,
    /// The open directory; `None` if it was closed because many others were opened since.
    pub(super) open: Mutex<Option<Arc<SafeDir>>>,
}

impl OpenDirs {
    /// Counts `handle` as open. The root's handle is not counted and never closed.
    pub(super) fn keep(&self, handle: Handle) -> Arc<Handle> {
        let handle = Arc::new(handle);
        if handle.parent.is_some() {
            self.count(&handle);
        }
        handle
    }

    /// Adds `handle` to the open ones. If there are too many, closes the one that was opened first:
    /// in a depth-first walk it is needed last.
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

    /// Returns the directory of `handle`. If it was closed, opens it again from the nearest open
    /// directory above.
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
