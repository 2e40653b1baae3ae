//! Memory that everything in a process shares.
//!
//! A process that serves many peers has a session for each, and a clone has three stores. What each
//! of them keeps only to be faster, and what it has on its way, comes out of one room.

use std::sync::atomic::{AtomicIsize, Ordering};
use std::sync::{Arc, LazyLock};

/// For tables that are kept whole: enough for those of two full segments and some smaller ones.
const TABLES_BYTES: usize = 32 << 20;
/// For decoded frames: enough for four stores that keep all that one may.
const FRAMES_BYTES: usize = 48 << 20;
/// For frames between sessions and their peers: nearly one for each of fifty peers.
const TRANSIT_BYTES: usize = 48 << 20;
/// For what walks remember: enough for one that remembers all that it may, and half another.
const MARKS_BYTES: usize = 32 << 20;
/// For what waits for the rest of its frame to be wanted: enough for one sender that keeps all that
/// one may, and some.
const WAITING_BYTES: usize = 24 << 20;

/// How much more memory may be taken.
#[derive(Clone)]
pub struct Room(Option<Arc<AtomicIsize>>);

impl Room {
    /// For index tables, of all stores of this process.
    pub fn for_tables() -> Room {
        static OF_PROCESS: LazyLock<Room> = LazyLock::new(|| Room::of(TABLES_BYTES));
        OF_PROCESS.clone()
    }

    /// For decoded frames, of all stores of this process.
    pub fn for_frames() -> Room {
        static OF_PROCESS: LazyLock<Room> = LazyLock::new(|| Room::of(FRAMES_BYTES));
        OF_PROCESS.clone()
    }

    /// For frames that all connections of this process have on their way.
    pub fn for_transit() -> Room {
        static OF_PROCESS: LazyLock<Room> = LazyLock::new(|| Room::of(TRANSIT_BYTES));
        OF_PROCESS.clone()
    }

    /// For what all walks of this process remember having met.
    pub fn for_marks() -> Room {
        static OF_PROCESS: LazyLock<Room> = LazyLock::new(|| Room::of(MARKS_BYTES));
        OF_PROCESS.clone()
    }

    /// For what all senders of this process have waiting.
    pub fn for_waiting() -> Room {
        static OF_PROCESS: LazyLock<Room> = LazyLock::new(|| Room::of(WAITING_BYTES));
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
        Room(Some(Arc::new(AtomicIsize::new(signed(bytes)))))
    }

    /// Takes so many bytes; `false`: there is no room for them.
    pub fn take(&self, bytes: usize) -> bool {
        let order = Ordering::Relaxed;
        self.0.as_ref().is_some_and(|room| {
            let left = |n: isize| n.checked_sub(signed(bytes)).filter(|left| *left >= 0);
            room.fetch_update(order, order, left).is_ok()
        })
    }

    /// Takes so many bytes, also where there is no room for them.
    pub fn overdraw(&self, bytes: usize) {
        if let Some(room) = &self.0 {
            room.fetch_sub(signed(bytes), Ordering::Relaxed);
        }
    }

    /// Gives back what was taken.
    pub fn give_back(&self, bytes: usize) {
        if let Some(room) = &self.0 {
            room.fetch_add(signed(bytes), Ordering::Relaxed);
        }
    }

    /// How many bytes are left.
    pub fn left(&self) -> usize {
        let left = self
            .0
            .as_ref()
            .map_or(0, |room| room.load(Ordering::Relaxed));
        usize::try_from(left).unwrap_or(0)
    }
}

fn signed(bytes: usize) -> isize {
    isize::try_from(bytes).expect("nothing takes half of the address space")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_overdrawn_has_to_be_given_back_before_anything_is_left() {
        let room = Room::of(10);
        assert!(room.take(6) && !room.take(5));
        assert_eq!(room.left(), 4);
        room.overdraw(7);
        assert_eq!(room.left(), 0);
        assert!(!room.take(1));
        room.give_back(6);
        assert_eq!(room.left(), 3);
        assert!(room.take(3) && !Room::none().take(0));
    }
}
