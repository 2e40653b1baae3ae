//! What was in the worktree when it was decided that nothing would be lost.
//!
//! A switch may take long, and what it replaces or removes must still be what was seen then: for a
//! file that was as the base has it, the fingerprint that the scan accepted; for what it was decided
//! to overwrite, the stat of that moment; for everything else, nothing at all. The answers of the
//! scan are read from the stat cache, and what the cache did not know from a [`Written`]: memory
//! does not grow with the number of files.

use crate::fsutil::{FileKind, FileStat, FileTime, Fingerprint, fs_now};
use crate::object::tree::TreeEntry;
use crate::repo::base::error::RepoError;
use crate::repo::files::checkout::switch::Switch;
use crate::repo::files::same::{SameError, same_as};
use crate::repo::files::seen::Expected;
use crate::worktree::statcache::RACY_NANOS;
use std::time::Duration;

/// How long two changes of a file may look like one. Whoever must know waits for so long.
const TICK: Duration = Duration::from_nanos(RACY_NANOS + RACY_NANOS / 4);

/// How often a switch waits for that, all in all.
const MAX_WAITS: u32 = 50;

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
    pub(in crate::repo) fn expected(
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
