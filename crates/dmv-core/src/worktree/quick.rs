//! Which files are unchanged, told by their stats alone: for programs that ask about a few files again and again.
//!
//! It knows less than a scan, and nothing wrong. What it has read of the stat cache stays in memory, within a bound.

use crate::fsutil::{Fingerprint, SafeDir};
use crate::subset::Subset;
use crate::threads;
use crate::worktree::split_path;
use crate::worktree::statcache::{Section, StatCache};
use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

/// How many bytes of sections stay in memory.
const MAX_SECTION_BYTES: usize = 32 << 20;

/// How many paths are worth a thread. A look at a file takes 3 to 5 µs.
const PATHS_OF_A_THREAD: usize = 50;

/// What is known of the files of a worktree without a look at them.
#[derive(Debug)]
pub struct QuickLook {
    cache: StatCache,
    subset: Subset,
    /// Files about which the cache says nothing.
    left_out: BTreeSet<Vec<u8>>,
    sections: Mutex<Sections>,
}

#[derive(Debug, Default)]
struct Sections {
    /// `None`: the cache has no such directory, or it cannot be read there.
    by_dir: HashMap<Vec<u8>, Option<Arc<Section>>>,
    bytes: usize,
}

/// A directory of which several files are looked at.
struct OpenDirectory<'p> {
    path: &'p [u8],
    /// `None`: nothing is known of it, or it cannot be opened.
    open: Option<(SafeDir, Arc<Section>)>,
}

impl QuickLook {
    /// `cache` must belong to what the files are compared with, in this subset.
    pub fn new(cache: StatCache, subset: Subset, left_out: BTreeSet<Vec<u8>>) -> QuickLook {
        QuickLook {
            cache,
            subset,
            left_out,
            sections: Mutex::default(),
        }
    }

    /// Returns those of the paths that are not shown to be unchanged. `paths` is sorted, so that most directories are
    /// opened once. Several threads look at many paths.
    pub fn not_unchanged<'p>(&self, root: &SafeDir, paths: &[&'p [u8]]) -> Vec<&'p [u8]> {
        let part = paths.len().div_ceil(threads::cores());
        let part = part.max(PATHS_OF_A_THREAD);
        let Some((first, others)) = paths.split_at_checked(part) else {
            return self.not_unchanged_here(root, paths);
        };
        std::thread::scope(|scope| {
            let look = |part: &'_ [&'p [u8]]| self.not_unchanged_here(root, part);
            let others = others.chunks(part);
            let others = others.map(|part| (part, threads::start_in(scope, move || look(part))));
            let others: Vec<_> = others.collect();
            let mut left = look(first);
            for (part, thread) in others {
                // After a panic, which has been reported, nothing is known of its files.
                let found = thread.map(|thread| thread.join().unwrap_or_else(|_| part.to_vec()));
                left.extend(found.unwrap_or_else(|_| look(part)));
            }
            left
        })
    }

    fn not_unchanged_here<'p>(&self, root: &SafeDir, paths: &[&'p [u8]]) -> Vec<&'p [u8]> {
        let mut at: Option<OpenDirectory<'p>> = None;
        let mut left = Vec::new();
        for path in paths {
            if !self.is_unchanged(root, path, &mut at) {
                left.push(*path);
            }
        }
        left
    }

    fn is_unchanged<'p>(
        &self,
        root: &SafeDir,
        path: &'p [u8],
        at: &mut Option<OpenDirectory<'p>>,
    ) -> bool {
        let Some((dir, name)) = split_path(path) else {
            return false;
        };
        if self.left_out.contains(path) || !self.subset.includes(path, false) {
            return false;
        }
        if at.as_ref().is_none_or(|at| at.path != dir) {
            let known = self.section(dir);
            let open = known.and_then(|known| Some((root.open_dir(dir).ok()?, known)));
            *at = Some(OpenDirectory { path: dir, open });
        }
        let Some((dir, known)) = at.as_ref().and_then(|at| at.open.as_ref()) else {
            return false;
        };
        // A directory has no fingerprint.
        let known = known.position(name).map(|at| known.get(at).fingerprint);
        known
            .filter(|known| *known != Fingerprint::SUSPECT)
            .is_some_and(|known| {
                let stat = dir.try_stat(name);
                stat.is_ok_and(|stat| stat.fingerprint() == known)
            })
    }

    fn section(&self, dir: &[u8]) -> Option<Arc<Section>> {
        let lock = || self.sections.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = lock().by_dir.get(dir) {
            return known.clone();
        }
        let read = self.cache.section(dir).ok().flatten().map(Arc::new);
        let mut sections = lock();
        let bytes = dir.len() + read.as_ref().map_or(0, |section| section.memory_bytes());
        if sections.bytes + bytes > MAX_SECTION_BYTES {
            *sections = Sections::default();
        }
        // One that is larger than everything is read again each time.
        if bytes <= MAX_SECTION_BYTES {
            sections.bytes += bytes;
            sections.by_dir.insert(dir.to_vec(), read.clone());
        }
        read
    }
}
