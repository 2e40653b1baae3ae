//! What was in the worktree at the time of the decision that nothing would be lost.
//!
//! A switch may take long, and the entries that it replaces or removes must still be the same:
//!
//! - for a file that equalled the base, the fingerprint that the scan accepted;
//! - for a path that is overwritten on request, the stat at the time of the decision;
//! - for every other path, nothing at all.
//!
//! The scan's answers come from the stat cache, and for files that the cache did not know from a
//! [`WrittenFiles`](super::written::WrittenFiles). So memory does not grow with the number of files.

use crate::fsutil::{FileStat, FileTime, Fingerprint, SafeDir, fs_now};
use crate::object::tree::TreeEntry;
use crate::repo::base::error::RepoError;
use crate::repo::files::checkout::switch::Switch;
use crate::repo::files::same::{SameError, same_as};
use crate::repo::files::seen::Expectation;
use crate::worktree::checkout::{PlacedEntry, Report};
use crate::worktree::statcache::RACY_NANOS;
use std::time::Duration;

/// The time in which two changes of a file may have the same stat. A decision about such a file
/// waits this long.
const TICK: Duration = Duration::from_nanos(RACY_NANOS + RACY_NANOS / 4);

/// The bytes of files written within a tick that are worth the wait: about what is read and hashed meanwhile.
const WORTH_A_TICK_BYTES: u64 = 32 << 20;

/// The most such waits in one switch.
const MAX_WAITS: u32 = 50;

/// Returns the time at which a run has ended, on the clock of the file system. If it wrote much just now, this waits
/// until the stat of these files is trusted, so that the next command need not read them.
pub fn end_of_run(own: &SafeDir, report: &Report) -> FileTime {
    let now = fs_now(own);
    let young = |placed: &&PlacedEntry| placed.fingerprint(now) == Fingerprint::SUSPECT;
    let young = report.files.iter().flatten().filter(young);
    let bytes: u64 = young.map(|placed| placed.stat.size).sum();
    if bytes < WORTH_A_TICK_BYTES {
        return now;
    }
    std::thread::sleep(TICK);
    fs_now(own)
}

impl Switch<'_> {
    /// Returns what has to be at `path` so that it may be replaced or removed. `old` is the entry
    /// that was last written there.
    pub fn expected(
        &mut self,
        path: &[u8],
        old: Option<&TreeEntry>,
    ) -> Result<Expectation, RepoError> {
        match self.decision.seen.get(path) {
            Some(Some(print)) => return Ok(Expectation::This(*print)),
            Some(None) => return Ok(Expectation::Nothing),
            None => {}
        }
        if self.known.dirty.contains_key(path) || self.known.left.contains_key(path) {
            return Ok(Expectation::Nothing);
        }
        let accepted = match &mut self.known.scanned {
            Some(seen) => seen.accepted(path)?,
            None => None,
        };
        match accepted {
            None => Ok(Expectation::Nothing),
            Some(Fingerprint::SUSPECT) => self.look_again(path, old),
            Some(print) => Ok(Expectation::This(print)),
        }
    }

    /// Compares a file by content again. It had changed so shortly before the scan that its stat
    /// proves nothing.
    fn look_again(
        &mut self,
        path: &[u8],
        old: Option<&TreeEntry>,
    ) -> Result<Expectation, RepoError> {
        let base;
        let old = match old {
            Some(old) => Some(old),
            None => {
                base = self.base_entry(path)?;
                base.as_ref()
            }
        };
        let Some(old) = old else {
            return Ok(Expectation::Other);
        };
        loop {
            let stat = self.stat(path)?;
            let Some(stat) = stat else {
                return Ok(Expectation::Other);
            };
            let must_wait = self.is_young(&stat);
            match same_as(self.request.repo, self.request.tree, path, old, &stat) {
                Ok(true) if must_wait => std::thread::sleep(TICK),
                Ok(true) => return Ok(Expectation::This(stat.fingerprint())),
                Ok(false) | Err(SameError::Path(_)) => return Ok(Expectation::Other),
                Err(SameError::Repo(e)) => return Err(e),
            }
        }
    }

    /// Returns whether the file could change again without a change of its stat. The ctime shows
    /// this, since no program can set it.
    fn is_young(&mut self, stat: &FileStat) -> bool {
        let own = &self.request.tree.own;
        let Some(seen) = &mut self.known.scanned else {
            return false;
        };
        let is_old = |now: &FileTime| stat.ctime < now.minus_nanos(RACY_NANOS);
        // If the file system's times are whole seconds, the wait would be too long.
        if stat.ctime.nanos == 0
            || seen.waits >= MAX_WAITS
            || seen.now.is_some_and(|now| is_old(&now))
        {
            return false;
        }
        let now = *seen.now.insert(fs_now(own));
        // A time in the future means that the clock was set back.
        let is_young = !is_old(&now) && stat.ctime.seconds <= now.seconds + 1;
        seen.waits += u32::from(is_young);
        is_young
    }
}
