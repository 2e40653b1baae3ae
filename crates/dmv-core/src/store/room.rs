//! Memory that the stores of a process share.
//!
//! A process that serves many peers has a store for each, and a clone has three. What each of them
//! keeps only to be faster comes out of one room.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};

/// For tables that are kept whole: enough for those of two full segments and some smaller ones.
const TABLES_BYTES: usize = 32 << 20;
/// For decoded frames: enough for four stores that keep all that one may.
const FRAMES_BYTES: usize = 48 << 20;

/// How much more memory may be taken.
#[derive(Clone)]
pub struct Room(Option<Arc<AtomicUsize>>);

impl Room {
    /// For index tables, of all stores of this process.
    pub fn for_tables() -> Room {
        static OF_PROCESS: LazyLock<Room> = LazyLock::new(|| Room::of(TABLES_BYTES));
        OF_PROCESS.clone()
    }

    /// For frames, of all stores of this process.
    pub fn for_frames() -> Room {
        static OF_PROCESS: LazyLock<Room> = LazyLock::new(|| Room::of(FRAMES_BYTES));
        OF_PROCESS.clone()
    }

    /// For what is not going to be kept.
    pub const fn none() -> Room {
        Room(None)
    }

    /// Whether it is for what is not going to be kept.
    pub fn is_none(&self) -> bool {
        self.0.is_none()
    }

    /// So many bytes.
    pub fn of(bytes: usize) -> Room {
        Room(Some(Arc::new(AtomicUsize::new(bytes))))
    }

    /// Takes so many bytes; `false`: there is no room for them.
    pub fn take(&self, bytes: usize) -> bool {
        let order = Ordering::Relaxed;
        self.0.as_ref().is_some_and(|room| {
            let taken = room.fetch_update(order, order, |n| n.checked_sub(bytes));
            taken.is_ok()
        })
    }

    /// Gives back what was taken.
    pub fn give_back(&self, bytes: usize) {
        if let Some(room) = &self.0 {
            room.fetch_add(bytes, Ordering::Relaxed);
        }
    }
}
