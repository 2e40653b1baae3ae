//! Objects that a transfer of this process is writing, for a second store of the same repository
//! that reads them as they arrive.
//!
//! The writing store has [`Arrivals`]; its writers record in them what they have written. A
//! [`FollowedStore`] is the reading store's end of them. [`OpenArrivals`] ends them.
//!
//! They are neither durable nor in the catalogue yet, so they may only be read. Each is verified
//! when it is read, like any other. The exception are objects of records that were handed over in
//! memory: these were verified in this process.

use super::cache::RecordKey;
use super::checked_record::CheckedRecord;
use super::error::StoreError;
use super::index_entry::{Entry, Place};
use super::random_id::PackId;
use super::table::Table;
use crate::hash::ObjectId;
use crate::memory::Budget;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Bytes of the newest records that are handed over in memory. A reader that is not further behind
/// the transfer need not read what was just written.
const HANDED_BYTES: usize = 12 << 20;

/// The objects that a store's jobs have written and not published, if another store follows it.
#[derive(Default)]
pub(super) struct Arrivals {
    state: Mutex<State>,
    more: Condvar,
}

#[derive(Default)]
struct State {
    /// Whether another store follows.
    is_followed: bool,
    /// Objects of open segments.
    open: HashMap<ObjectId, (PackId, Place)>,
    /// Tables of closed segments.
    closed: Vec<Arc<Table>>,
    /// The newest records with their places, and the memory that they take.
    handed: VecDeque<(RecordKey, Arc<CheckedRecord>)>,
    handed_bytes: usize,
    /// A counter that grows with every event.
    version: u64,
}

impl State {
    fn keep(&mut self, key: RecordKey, record: Arc<CheckedRecord>) {
        self.handed_bytes += record.size();
        self.handed.push_back((key, record));
        while self.handed_bytes > HANDED_BYTES
            && let Some((_, oldest)) = self.handed.pop_front()
        {
            self.handed_bytes -= oldest.size();
        }
    }
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

    /// Begins to record what is written, for a store that reads it with the value returned.
    pub(super) fn begin(self: &Arc<Arrivals>) -> (FollowedStore, OpenArrivals) {
        self.lock().is_followed = true;
        (FollowedStore(self.clone()), OpenArrivals(self.clone()))
    }

    /// Ends the arrivals. Waiting readers find what the catalogue has, or nothing.
    fn end(&self) {
        self.change(|state| {
            state.is_followed = false;
            state.open = HashMap::new();
            state.closed.clear();
        });
        self.lock().version += 1;
        self.more.notify_all();
    }

    /// Records objects that have been written in the record at `key`, and keeps that record for
    /// readers.
    pub(super) fn wrote(
        &self,
        key: RecordKey,
        entries: impl Iterator<Item = Entry>,
        checked: Option<Arc<CheckedRecord>>,
    ) {
        self.change(|state| {
            let places = entries.map(|entry| (entry.id, (key.pack, entry.place)));
            state.open.extend(places);
            if let Some(record) = checked {
                state.keep(key, record);
            }
        });
    }

    /// Records that a table knows these objects from now on.
    pub(super) fn closed(&self, table: &Arc<Table>, entries: &[Entry]) {
        self.change(|state| {
            state.closed.push(table.clone());
            for entry in entries {
                state.open.remove(&entry.id);
            }
        });
    }

    /// Records that the catalogue lists all of them from now on.
    pub(super) fn published(&self) {
        self.change(|state| {
            state.open = HashMap::new();
            state.closed.clear();
        });
    }
}

/// A store's view of the objects that the jobs of another store are writing.
pub(super) struct FollowedStore(Arc<Arrivals>);

impl FollowedStore {
    /// Returns whether more objects may come.
    pub(super) fn expects_more(&self) -> bool {
        self.0.lock().is_followed
    }

    /// Returns the place of an object that the other store has not published.
    pub(super) fn locate(&self, id: &ObjectId) -> Result<Option<(PackId, Place)>, StoreError> {
        let state = self.0.lock();
        if let Some(found) = state.open.get(id) {
            return Ok(Some(*found));
        }
        let closed = state.closed.clone();
        drop(state);
        // They are soon published, and then other tables are used.
        for table in closed {
            if let Some(found) = table.lookup(id, &Budget::none())? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// Returns the record at `key`, if it was written recently and its objects were checked
    /// before.
    pub(super) fn handed(&self, key: RecordKey) -> Option<Arc<CheckedRecord>> {
        let state = self.0.lock();
        let found = state.handed.iter().rfind(|(at, _)| *at == key);
        found.map(|(_, record)| record.clone())
    }

    /// Returns what `find` finds. Calls it again for each arrival, until no more can come.
    pub(super) fn find_or_wait<T>(
        &self,
        find: impl Fn() -> Result<Option<T>, StoreError>,
    ) -> Result<Option<T>, StoreError> {
        loop {
            // Before the search: what arrives during it counts as news.
            let version = self.0.lock().version;
            if let Some(found) = find()? {
                return Ok(Some(found));
            }
            if !self.wait(version) {
                return Ok(None);
            }
        }
    }

    /// Waits until there are more events than `version`. Returns `false` if there will be none.
    fn wait(&self, version: u64) -> bool {
        let mut state = self.0.lock();
        while state.is_followed && state.version == version {
            let woken = self.0.more.wait(state);
            state = woken.unwrap_or_else(PoisonError::into_inner);
        }
        state.version != version
    }
}

/// While it lives, readers that follow a store wait for objects that they do not find.
///
/// Dropping it ends their waiting, also when the thread that brings the objects panics.
pub(crate) struct OpenArrivals(Arc<Arrivals>);

impl Drop for OpenArrivals {
    fn drop(&mut self) {
        self.0.end();
    }
}
