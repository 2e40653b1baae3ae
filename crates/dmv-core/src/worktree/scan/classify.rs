//! What each entry of one directory is: unchanged, in doubt, new, gone, ignored, outside, skipped.
//!
//! [`classify`] compares the listing and the stats with the base's section. It opens nothing.

use super::inside::{Inside, Subdir};
use super::stats::Stat;
use super::{DirScan, Entry, NONE, Pair, ScanOptions, StateWithStat};
use crate::fsutil::{FileKind, FileStat, Listing};
use crate::limits::{MAX_PATH_BYTES, MAX_PATH_DEPTH};
use crate::object::name::NameError;
use crate::object::tree::Kind;
use crate::platform::{Cause, SystemError};
use crate::worktree::ignore::{IgnoreRules, Verdict};
use crate::worktree::statcache::{KnownEntry, Section};
use crate::worktree::{Skip, refused_name};
use std::iter::Peekable;
use std::sync::Arc;

/// Makes entries of the pairs that may differ. Returns the directories to enter.
///
/// `stats` are the stats of pairs that are not known to be unchanged, in order.
pub(super) fn classify(
    options: &ScanOptions<'_>,
    rules: &IgnoreRules,
    is_ignored_above: bool,
    pairs: &[Pair],
    stats: Vec<Stat>,
    result: &mut DirScan,
) -> Vec<Subdir> {
    let path = match &result.path[..] {
        b"" => Vec::new(),
        dir => [dir, b"/"].concat(),
    };
    let listing = result.listing.clone();
    let section: Option<Arc<Section>> = result.known.clone();
    let mut classifier = Classifier {
        options,
        rules,
        is_ignored_above,
        inside: Inside::new(options, &result.path),
        listing: &listing,
        dir_len: path.len(),
        depth: path.iter().filter(|b| **b == b'/').count(),
        path,
        stats: stats.into_iter().peekable(),
        result,
        subdirs: Vec::new(),
    };
    for (number, pair) in pairs.iter().enumerate() {
        let known = match &section {
            Some(section) if pair.known != NONE => Some(section.get(pair.known as usize)),
            _ => None,
        };
        if let Some(state) = classifier.state_of(number, pair, known) {
            let entry = Entry { pair: *pair, state };
            classifier.result.entries.push(entry);
        }
    }
    classifier.subdirs
}

/// The state of the walk over the pairs of one directory.
struct Classifier<'a> {
    options: &'a ScanOptions<'a>,
    rules: &'a IgnoreRules,
    is_ignored_above: bool,
    inside: Inside<'a>,
    listing: &'a Listing,
    /// The directory's path with a slash after it, and at times a name after that.
    path: Vec<u8>,
    dir_len: usize,
    depth: usize,
    stats: Peekable<std::vec::IntoIter<Stat>>,
    result: &'a mut DirScan,
    subdirs: Vec<Subdir>,
}

/// What the file system says about an entry.
enum OnDisk {
    /// Its stat is the one of the base's section.
    Unchanged,
    /// It is of this kind. The stat is there if the kind alone does not show a difference.
    Present(FileKind, Option<FileStat>),
    /// It is gone since the directory was listed.
    Vanished,
    /// It cannot be examined.
    Unreadable(SystemError),
}

impl Classifier<'_> {
    /// Returns what to report about a pair; `None` for an unchanged one, and for one that is only
    /// counted.
    fn state_of(
        &mut self,
        number: usize,
        pair: &Pair,
        known: Option<KnownEntry<'_>>,
    ) -> Option<StateWithStat> {
        if pair.listed == NONE {
            return Some(self.missing(&known.expect("a pair has one side at least")));
        }
        let entry = known;
        let known = known.map(|known| known.kind);
        let listing = self.listing;
        let name = listing.name(pair.listed as usize);
        if let Some(reason) = self.reason_to_skip(name) {
            return Some(StateWithStat::Skipped(known, reason));
        }
        let (kind, stat) = match self.on_disk(number, listing.kind(pair.listed as usize), known) {
            OnDisk::Unchanged => {
                self.result.clean += 1;
                return None;
            }
            OnDisk::Vanished => return entry.map(|known| self.missing(&known)),
            OnDisk::Unreadable(e) => {
                let reason = Skip::Unreadable(e.code());
                return Some(StateWithStat::Skipped(known, reason));
            }
            OnDisk::Present(kind, stat) => (kind, stat),
        };
        if !matches!(kind, FileKind::File | FileKind::Symlink | FileKind::Dir) {
            return Some(StateWithStat::Skipped(known, Skip::Special(kind)));
        }
        let is_dir = kind == FileKind::Dir;
        let verdict = self.verdict(name, is_dir, known.is_some());
        let is_ignored = verdict == Verdict::Ignored;
        let state = match known {
            None if is_ignored => {
                self.result.ignored += 1;
                return self
                    .options
                    .list_ignored
                    .then_some(StateWithStat::Ignored(kind));
            }
            None if !self.inside.takes(name, is_dir) => return Some(StateWithStat::Outside(kind)),
            None if verdict == Verdict::Unknown => {
                self.result.held += 1;
                return Some(StateWithStat::Held(kind));
            }
            None if is_dir => StateWithStat::Dir(false),
            None => StateWithStat::New(kind),
            // A file in the place of a directory of which only a part is wanted: the file is not.
            Some(known) if !is_dir && self.inside.selects_part(name, known) => {
                self.enter_absent(name);
                return Some(StateWithStat::Dir(true));
            }
            Some(known) => self.compared(known, kind, stat),
        };
        if is_dir {
            let is_known = known == Some(Kind::Directory);
            self.enter(name, is_known, is_ignored);
        }
        Some(state)
    }

    /// Returns the state of an entry of the base that is not listed.
    fn missing(&mut self, known: &KnownEntry<'_>) -> StateWithStat {
        if !self.inside.keeps(known.name, known.kind) {
            return StateWithStat::Gone(known.kind);
        }
        self.enter_absent(known.name);
        StateWithStat::Dir(true)
    }

    /// Notes a directory of the base to enter that is not there.
    fn enter_absent(&mut self, name: &[u8]) {
        let dir = &self.result.path;
        self.subdirs.extend(Subdir::absent(self.options, dir, name));
    }

    /// Returns why a name cannot be in a commit.
    fn reason_to_skip(&self, name: &[u8]) -> Option<Skip> {
        if let Some(reason) = refused_name(name) {
            return Some(reason);
        }
        // No command could read such an entry back.
        if self.dir_len + name.len() > MAX_PATH_BYTES {
            Some(Skip::BadName(NameError::PathTooLong))
        } else if self.depth >= MAX_PATH_DEPTH {
            Some(Skip::BadName(NameError::PathTooDeep))
        } else {
            None
        }
    }

    /// Returns what is known about pair `number`, which is listed as `listed`.
    fn on_disk(&mut self, number: usize, listed: FileKind, known: Option<Kind>) -> OnDisk {
        if !needs_stat(listed, known) {
            return OnDisk::Present(listed, None);
        }
        // A name that was skipped has a stat, too, if the directory does not tell kinds.
        while self
            .stats
            .next_if(|(index, _)| (*index as usize) < number)
            .is_some()
        {}
        match self.stats.next_if(|(index, _)| *index as usize == number) {
            None => OnDisk::Unchanged,
            Some((_, Ok(stat))) => OnDisk::Present(stat.kind, Some(stat)),
            Some((_, Err(e))) if e.cause() == Cause::Absent => OnDisk::Vanished,
            Some((_, Err(e))) => OnDisk::Unreadable(e),
        }
    }

    fn verdict(&mut self, name: &[u8], is_dir: bool, is_known: bool) -> Verdict {
        if self.is_ignored_above {
            return Verdict::Ignored;
        }
        // The rules do not matter for a file that the base has.
        if self.rules.is_empty() || (is_known && !is_dir) {
            return Verdict::Wanted;
        }
        let path = path_to(&mut self.path, self.dir_len, name);
        self.rules.verdict(path, is_dir)
    }

    /// Returns the state of an entry that the base has as `known`.
    fn compared(&mut self, known: Kind, kind: FileKind, stat: Option<FileStat>) -> StateWithStat {
        match stat {
            _ if known == Kind::Directory && kind == FileKind::Dir => StateWithStat::Dir(true),
            Some(stat) if fits(known, kind) => {
                self.result.stats.push(stat);
                // MAX_DIR_ENTRIES is below 2^32.
                StateWithStat::Suspect(known, self.result.stats.len() as u32 - 1)
            }
            _ => StateWithStat::TypeChanged(known, kind),
        }
    }

    /// Notes a directory to enter, if the selection wants it.
    fn enter(&mut self, name: &[u8], is_known: bool, is_ignored: bool) {
        let path = path_to(&mut self.path, self.dir_len, name);
        if self.options.select.enters(path) {
            self.subdirs.push(Subdir {
                name: name.into(),
                known: is_known,
                ignored: is_ignored,
                absent: false,
            });
        }
    }
}

/// Puts `name` after the first `dir_len` bytes of `path`.
fn path_to<'p>(path: &'p mut Vec<u8>, dir_len: usize, name: &[u8]) -> &'p [u8] {
    path.truncate(dir_len);
    path.extend_from_slice(name);
    path
}

/// Returns whether the kind that the directory reports for an entry is not enough.
pub(super) fn needs_stat(listed: FileKind, known: Option<Kind>) -> bool {
    match known {
        None => listed == FileKind::Unknown,
        Some(known) => listed == FileKind::Unknown || fits(known, listed),
    }
}

/// Returns whether an entry of the base commit can be this kind of file. Directories need no
/// comparison.
fn fits(known: Kind, kind: FileKind) -> bool {
    match known {
        Kind::File | Kind::Executable => kind == FileKind::File,
        Kind::Symlink => kind == FileKind::Symlink,
        Kind::Conflict => matches!(kind, FileKind::File | FileKind::Symlink),
        Kind::Directory => false,
    }
}
