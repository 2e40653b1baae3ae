//! The questions of a scan: which entries should be there, and which part to scan.

use crate::worktree::statcache::{Section, StatCache, StatCacheError};

/// The base commit's entries, with fingerprints from the stat cache.
pub trait BaseEntries: Sync {
    /// Returns all entries of the base commit in the directory `dir`; `None` if it has no such
    /// directory.
    fn section(
        &self,
        dir: &[u8],
    ) -> Result<Option<Section>, Box<dyn std::error::Error + Send + Sync>>;

    /// Returns the content of the file at `path` in the base commit, also outside of the subset.
    /// `None` if there is no such entry, or if this source is not asked for content. Fails with the reason, as a clause, if it cannot be read or
    /// has more than `most` bytes.
    fn file(&self, _path: &[u8], _most: u64) -> Result<Option<Vec<u8>>, String> {
        Ok(None)
    }

    /// Closes the stat cache, so that it can be replaced on every system. From then on, nothing of it is known.
    fn close(&self) {}
}

impl BaseEntries for StatCache {
    fn section(
        &self,
        dir: &[u8],
    ) -> Result<Option<Section>, Box<dyn std::error::Error + Send + Sync>> {
        StatCache::section(self, dir).map_err(|e: StatCacheError| e.into())
    }

    fn close(&self) {
        StatCache::close(self);
    }
}

/// A base without entries: every entry is new.
pub struct EmptyBase;

impl BaseEntries for EmptyBase {
    fn section(
        &self,
        _dir: &[u8],
    ) -> Result<Option<Section>, Box<dyn std::error::Error + Send + Sync>> {
        Ok(None)
    }
}

/// The part of the worktree to scan. The rest is not reported in any way.
pub trait Select: Sync {
    /// Returns whether anything in the directory `dir` may be wanted.
    fn enters(&self, _dir: &[u8]) -> bool {
        true
    }

    /// Returns whether the entry `name` of `dir` is wanted. A directory that is entered must be
    /// wanted.
    fn takes(&self, _dir: &[u8], _name: &[u8]) -> bool {
        true
    }

    /// Returns whether the directory `dir` is wanted with everything below it. If such a directory is
    /// gone, it is gone as a whole; otherwise only what is wanted of it is.
    fn takes_all(&self, _dir: &[u8]) -> bool {
        true
    }
}

/// Selects the complete worktree.
pub struct Everything;

impl Select for Everything {}
