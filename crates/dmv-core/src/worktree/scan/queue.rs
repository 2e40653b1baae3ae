//! The directories of a scan, in the order of their results.

use super::dirs::Handle;
use super::stats::StatWork;
use super::{DirScan, NONE, ScanError};
use std::sync::Arc;

/// How many directories workers may read before the caller has taken them.
pub(super) const AHEAD_DIRS: usize = 64;
/// Most entries in directories that were read and that the caller has not taken.
const AHEAD_ENTRIES: usize = 200_000;

/// A directory to scan.
pub(super) struct Job {
    /// The parent; `None` for the root.
    pub(super) parent: Option<Arc<Handle>>,
    pub(super) name: Box<[u8]>,
    pub(super) known: bool,
    pub(super) ignored: bool,
    /// Whether it is missing: see [`DirScan::absent`].
    pub(super) absent: bool,
}

/// The directories of a scan in the order of their results. It is a linked list, because the
/// subdirectories of one directory become known while later ones are being read.
pub(super) struct Queue {
    nodes: Vec<Node>,
    free: Vec<u32>,
    pub(super) head: u32,
    ahead_dirs: usize,
    ahead_entries: usize,
    /// Large directories that any worker may help with.
    pub(super) shared_stats: Vec<Arc<StatWork>>,
    /// Workers that wait for work.
    pub(super) idle: u32,
    /// Whether the caller waits for the first result.
    pub(super) is_awaited: bool,
    pub(super) stop: bool,
    pub(super) error: Option<ScanError>,
}

struct Node {
    next: u32,
    slot: Slot,
}

enum Slot {
    Free,
    Waiting(Job),
    Running,
    Done(Box<DirScan>),
}

impl Queue {
    /// Returns a queue that begins with one directory.
    pub(super) fn new(root: Job) -> Queue {
        Queue {
            nodes: vec![Node {
                next: NONE,
                slot: Slot::Waiting(root),
            }],
            free: Vec::new(),
            head: 0,
            ahead_dirs: 0,
            ahead_entries: 0,
            shared_stats: Vec::new(),
            idle: 0,
            is_awaited: false,
            stop: false,
            error: None,
        }
    }

    /// Returns the first directory that may be read now.
    pub(super) fn take_job(&mut self) -> Option<(u32, Job)> {
        let mut at = self.head;
        while at != NONE {
            let node = &mut self.nodes[at as usize];
            if matches!(node.slot, Slot::Waiting(_)) {
                // The first one is always returned. Otherwise the bounds could block the scan.
                let room = self.ahead_dirs < AHEAD_DIRS && self.ahead_entries < AHEAD_ENTRIES;
                if at != self.head && !room {
                    return None;
                }
                let Slot::Waiting(job) = std::mem::replace(&mut node.slot, Slot::Running) else {
                    unreachable!("looked at above");
                };
                self.ahead_dirs += 1;
                return Some((at, job));
            }
            at = node.next;
        }
        None
    }

    /// Stores the result of the directory `at`, and inserts its subdirectories after it.
    pub(super) fn put_result(&mut self, at: u32, result: Box<DirScan>, jobs: Vec<Job>) {
        self.ahead_entries += result.weight();
        let mut last = at;
        for job in jobs {
            let slot = Slot::Waiting(job);
            let next = self.nodes[last as usize].next;
            let node = Node { next, slot };
            let new = match self.free.pop() {
                Some(index) => {
                    self.nodes[index as usize] = node;
                    index
                }
                None => {
                    self.nodes.push(node);
                    // Each takes more than 32 bytes, so memory is exhausted before the numbers are.
                    (self.nodes.len() - 1) as u32
                }
            };
            self.nodes[last as usize].next = new;
            last = new;
        }
        self.nodes[at as usize].slot = Slot::Done(result);
    }

    /// Returns the next result in order, if it is there.
    pub(super) fn pop_done(&mut self) -> Option<DirScan> {
        let node = &mut self.nodes[self.head as usize];
        match std::mem::replace(&mut node.slot, Slot::Free) {
            Slot::Done(result) => {
                self.free.push(self.head);
                self.head = node.next;
                self.ahead_dirs -= 1;
                self.ahead_entries -= result.weight();
                Some(*result)
            }
            other => {
                node.slot = other;
                None
            }
        }
    }
}
