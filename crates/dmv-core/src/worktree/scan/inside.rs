//! Scanning a worktree that is limited to a subset: which entries are inside, and directories that
//! are missing because only paths outside of the subset keep them.

use super::dirs::Handle;
use super::queue::Job;
use super::{DirScan, Entry, NONE, Outcome, Pair, ScanOptions, SharedScan, StateWithStat};
use crate::object::tree::Kind;
use crate::subset::{Extent, Subset};
use crate::worktree::join;
use crate::worktree::scan::Select;
use crate::worktree::statcache::Section;
use std::sync::{Arc, Mutex};

/// A subdirectory to scan.
pub(super) struct Subdir {
    pub(super) name: Box<[u8]>,
    /// Whether the base commit has it.
    pub(super) known: bool,
    pub(super) ignored: bool,
    /// Whether it is missing: see [`DirScan::absent`].
    pub(super) absent: bool,
}

impl Subdir {
    /// Returns a missing subdirectory of `dir`, if the selection wants it.
    pub(super) fn absent(options: &ScanOptions<'_>, dir: &[u8], name: &[u8]) -> Option<Subdir> {
        let is_entered = options.select.enters(&join(dir, name));
        is_entered.then(|| Subdir {
            name: name.into(),
            known: true,
            ignored: false,
            absent: true,
        })
    }

    pub(super) fn job(self, parent: Arc<Handle>) -> Job {
        Job {
            parent: Some(parent),
            name: self.name,
            known: self.known,
            ignored: self.ignored,
            absent: self.absent,
        }
    }
}

/// The answers of the subset and the selection for the entries of one directory.
pub(super) struct Inside<'a> {
    subset: &'a Subset,
    select: &'a dyn Select,
    dir: Vec<u8>,
    /// Whether the subset has everything below the directory.
    all: bool,
}

impl<'a> Inside<'a> {
    pub(super) fn new(options: &ScanOptions<'a>, dir: &[u8]) -> Inside<'a> {
        let subset = options.subset;
        Inside {
            subset,
            select: options.select,
            dir: dir.to_vec(),
            all: subset.is_everything() || subset.extent(dir) == Extent::All,
        }
    }

    /// Returns whether the subset includes an entry or, for a directory, may include a path below
    /// it.
    pub(super) fn takes(&self, name: &[u8], is_dir: bool) -> bool {
        if self.all {
            return true;
        }
        let path = join(&self.dir, name);
        if is_dir {
            self.subset.extent(&path) != Extent::None
        } else {
            self.subset.includes(&path, false)
        }
    }

    /// Returns whether a missing directory of the base commit does not count as removed, because it
    /// may have paths outside of the subset or of the selection.
    pub(super) fn keeps(&self, name: &[u8], kind: Kind) -> bool {
        let is_part = || self.subset.extent(&join(&self.dir, name)) == Extent::Part;
        self.selects_part(name, kind) || kind == Kind::Directory && !self.all && is_part()
    }

    /// Returns whether an entry of the base commit is a directory of which only a part is selected.
    pub(super) fn selects_part(&self, name: &[u8], kind: Kind) -> bool {
        kind == Kind::Directory && !self.select.takes_all(&join(&self.dir, name))
    }
}

impl SharedScan<'_> {
    /// Returns the result for a missing directory, which counts as empty.
    pub(super) fn absent_dir(
        &self,
        job: Job,
        path: Vec<u8>,
        depth: usize,
        known: Option<Arc<Section>>,
    ) -> (Box<DirScan>, Vec<Job>) {
        let inside = Inside::new(self.options, &path);
        let mut result = DirScan::empty(path, Outcome::Read, known);
        result.absent = true;
        let known = result.known.clone();
        let mut subdirs = Vec::new();
        for (number, entry) in known.iter().flat_map(|known| known.iter()).enumerate() {
            if !self.options.select.takes(&result.path, entry.name) {
                continue;
            }
            let state = if inside.keeps(entry.name, entry.kind) {
                subdirs.extend(Subdir::absent(self.options, &result.path, entry.name));
                StateWithStat::Dir(true)
            } else {
                StateWithStat::Gone(entry.kind)
            };
            let pair = Pair {
                listed: NONE,
                // MAX_DIR_ENTRIES is below 2^32.
                known: number as u32,
            };
            result.entries.push(Entry { pair, state });
        }
        if subdirs.is_empty() {
            return (Box::new(result), Vec::new());
        }
        // Nothing below it is opened, so it is neither opened nor counted among the open ones.
        let rules = match &job.parent {
            Some(parent) => parent.rules.clone(),
            None => self.options.ignore.clone(),
        };
        let handle = Arc::new(Handle {
            parent: job.parent,
            name: job.name,
            path: result.path.clone(),
            depth,
            rules,
            open: Mutex::new(None),
        });
        let jobs = subdirs.into_iter().map(|subdir| subdir.job(handle.clone()));
        (Box::new(result), jobs.collect())
    }
}
