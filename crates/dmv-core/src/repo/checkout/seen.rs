//! What was in the worktree when it was decided that nothing would be lost.
//!
//! A switch may take long, and what it replaces or removes must still be what was seen then: for a
//! file that was as the base has it, the fingerprint that the scan accepted; for what it was decided
//! to overwrite, the stat of that moment; for everything else, nothing at all. The answers of the
//! scan are read from the stat cache, and what the cache did not know from a [`Written`]: memory
//! does not grow with the number of files.

use super::switch::Switch;
use super::written::Written;
use crate::fsutil::{FileKind, FileStat, FileTime, Fingerprint, fs_now};
use crate::object::tree::{Kind, TreeEntry};
use crate::repo::RepoError;
use crate::repo::status::{SameError, same_as};
use crate::worktree::scan::{Known, ScanError};
use crate::worktree::split_path;
use crate::worktree::statcache::{RACY_NANOS, Section};
use std::time::Duration;

/// How long two changes of a file may look like one. Whoever must know waits for so long.
const TICK: Duration = Duration::from_nanos(RACY_NANOS + RACY_NANOS / 4);
/// How often a switch waits for that, all in all.
const MAX_WAITS: u32 = 50;

/// What has to be at a path before it is replaced or removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Expected {
    /// Nothing.
    Nothing,
    /// This.
    This(Fingerprint),
    /// Something else is there already.
    Other,
}

/// What a scan saw of the files that are as the base has them.
pub(in crate::repo) struct Seen<'a> {
    known: Box<dyn Known + 'a>,
    /// Files that were compared by content: the cache says nothing of them.
    compared: Written,
    /// The sections of the directory that was last asked for, and of those above it.
    open: Vec<(Vec<u8>, Option<Section>)>,
    now: Option<FileTime>,
    waits: u32,
}

impl<'a> Seen<'a> {
    /// `compared` is what the scan against `known` found equal by content.
    pub(in crate::repo) fn new(known: Box<dyn Known + 'a>, mut compared: Written) -> Seen<'a> {
        compared.sort();
        Seen {
            known,
            compared,
            open: Vec::new(),
            now: None,
            waits: 0,
        }
    }

    /// The fingerprint that the file at `path` was accepted by; `None`: the base has none there.
    fn accepted(&mut self, path: &[u8]) -> Result<Option<Fingerprint>, RepoError> {
        let Some((dir, name)) = split_path(path) else {
            return Ok(None);
        };
        let is_above = |above: &[u8]| {
            let rest = dir.strip_prefix(above);
            above.is_empty() || rest.is_some_and(|rest| rest.is_empty() || rest[0] == b'/')
        };
        while self.open.last().is_some_and(|(above, _)| !is_above(above)) {
            self.open.pop();
        }
        if self.open.last().is_none_or(|(last, _)| last != dir) {
            let mut section = self.known.section(dir).map_err(|source| {
                RepoError::from(ScanError::Known {
                    dir: dir.to_vec(),
                    source,
                })
            })?;
            if let Some(section) = &mut section {
                // Without it files are compared by content again.
                let _ = self.compared.apply(dir, section);
            }
            self.open.push((dir.to_vec(), section));
        }
        let section = self.open.last().and_then(|(_, section)| section.as_ref());
        Ok(section.and_then(|section| {
            let entry = section.get(section.position(name)?);
            (entry.kind != Kind::Directory).then_some(entry.fingerprint)
        }))
    }
}

impl Switch<'_> {
    /// Notes what is at a path that is not as the base has it, and may be overwritten.
    ///
    /// Not a directory: it goes when it is empty, and by no other way.
    pub(in crate::repo) fn note_found(&mut self, path: &[u8], stat: &FileStat) {
        if stat.kind != FileKind::Dir {
            let print = Some(stat.fingerprint());
            self.seen.insert(path.to_vec(), print);
        }
    }

    /// What has to be at `path` for it to be replaced or removed. `old` is what was put there last.
    pub(super) fn expected(
        &mut self,
        path: &[u8],
        old: Option<&TreeEntry>,
    ) -> Result<Expected, RepoError> {
        match self.seen.get(path) {
            Some(Some(print)) => return Ok(Expected::This(*print)),
            Some(None) => return Ok(Expected::Nothing),
            None => {}
        }
        if self.dirty.contains_key(path) || self.left.contains_key(path) {
            return Ok(Expected::Nothing);
        }
        let accepted = match &mut self.scanned {
            Some(seen) => seen.accepted(path)?,
            None => None,
        };
        match accepted {
            None => Ok(Expected::Nothing),
            Some(Fingerprint::SUSPECT) => self.look_again(path, old),
            Some(print) => Ok(Expected::This(print)),
        }
    }

    /// Compares a file by content again that had changed so shortly before the scan that its stat
    /// says nothing.
    fn look_again(&mut self, path: &[u8], old: Option<&TreeEntry>) -> Result<Expected, RepoError> {
        let base;
        let old = match old {
            Some(old) => Some(old),
            None => {
                base = self.base_entry(path)?;
                base.as_ref()
            }
        };
        let Some(old) = old else {
            return Ok(Expected::Other);
        };
        loop {
            let stat = self.stat(path, &mut Default::default())?;
            let Some(stat) = stat else {
                return Ok(Expected::Other);
            };
            let must_wait = self.is_young(&stat);
            match same_as(self.repo, &self.tree.root, path, old, &stat) {
                Ok(true) if must_wait => std::thread::sleep(TICK),
                Ok(true) => return Ok(Expected::This(stat.fingerprint())),
                Ok(false) | Err(SameError::Path(_)) => return Ok(Expected::Other),
                Err(SameError::Repo(e)) => return Err(e),
            }
        }
    }

    /// Whether the file could change again without its stat showing it. Its ctime tells, which no
    /// program can set.
    fn is_young(&mut self, stat: &FileStat) -> bool {
        let own = &self.tree.own;
        let Some(seen) = &mut self.scanned else {
            return false;
        };
        let is_old = |now: &FileTime| stat.ctime < now.minus_nanos(RACY_NANOS);
        // Where times have whole seconds, nobody waits that long.
        if stat.ctime.nanos == 0
            || seen.waits >= MAX_WAITS
            || seen.now.is_some_and(|now| is_old(&now))
        {
            return false;
        }
        let now = *seen.now.insert(fs_now(own));
        // The clock was set back.
        let is_young = !is_old(&now) && stat.ctime.seconds <= now.seconds + 1;
        seen.waits += u32::from(is_young);
        is_young
    }
}
