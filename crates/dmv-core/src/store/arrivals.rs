//! Objects that a transfer of this process is bringing, for a second store of the same repository
//! that reads them as they come.
//!
//! They are neither durable nor in the catalogue yet. So nothing but reading may be built on them;
//! each is verified as it is read, like any other.

use super::error::StoreError;
use super::layout::FileId;
use super::room::Room;
use super::table::{Entry, Place, Table};
use crate::hash::ObjectId;
use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// What a store's jobs have written and not published, if anybody follows them.
#[derive(Default)]
pub(super) struct Arrivals {
    state: Mutex<State>,
    more: Condvar,
}

#[derive(Default)]
struct State {
    /// Whether there is somebody to note anything for.
    is_followed: bool,
    /// Objects of open segments.
    open: HashMap<ObjectId, (FileId, Place)>,
    /// Tables of closed segments.
    closed: Vec<Arc<Table>>,
    /// Grows with everything that happens.
    version: u64,
}

impl Arrivals {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        let mut state = self.lock();
        if state.is_followed {
            change(&mut state);
            state.version += 1;
            drop(state);
            self.more.notify_all();
        }
    }

    /// Begins to note what comes.
    pub(super) fn begin(&self) {
        self.lock().is_followed = true;
    }

    /// Whether more may come.
    pub(super) fn is_followed(&self) -> bool {
        self.lock().is_followed
    }

    /// Nothing more will come: whoever waits finds what the catalogue has, or nothing.
    pub(super) fn end(&self) {
        self.change(|state| *state = State::default());
        self.lock().version += 1;
        self.more.notify_all();
    }

    /// Notes objects that have been handed to the system.
    pub(super) fn wrote(&self, pack: FileId, entries: impl Iterator<Item = Entry>) {
        self.change(|state| {
            let places = entries.map(|entry| (entry.id, (pack, entry.place)));
            state.open.extend(places);
        });
    }

    /// Notes that a table answers for objects from now on.
    pub(super) fn closed(&self, table: &Arc<Table>, entries: &[Entry]) {
        self.change(|state| {
            state.closed.push(table.clone());
            for entry in entries {
                state.open.remove(&entry.id);
            }
        });
    }

    /// Notes that the catalogue answers for all of them from now on.
    pub(super) fn published(&self) {
        self.change(|state| {
            state.open = HashMap::new();
            state.closed.clear();
        });
    }

    /// What has happened so far, for [`wait`](Self::wait).
    pub(super) fn version(&self) -> u64 {
        self.lock().version
    }

    /// Where an object is that has not been published.
    pub(super) fn locate(&self, id: &ObjectId) -> Result<Option<(FileId, Place)>, StoreError> {
        let state = self.lock();
        if let Some(found) = state.open.get(id) {
            return Ok(Some(*found));
        }
        let closed = state.closed.clone();
        drop(state);
        // They are soon published, and then other tables answer.
        for table in closed {
            if let Some(found) = table.lookup(id, &Room::none())? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// Returns when more has happened than when `version` was asked for; `false`: nothing will.
    pub(super) fn wait(&self, version: u64) -> bool {
        let mut state = self.lock();
        while state.is_followed && state.version == version {
            let woken = self.more.wait(state);
            state = woken.unwrap_or_else(PoisonError::into_inner);
        }
        state.version != version
    }
}
