//! What a scan asks: what should be there, and which part is looked at.

use crate::worktree::statcache::{Section, StatCache, StatCacheError};

/// What is known about the worktree's entries: the base commit's tree, with fingerprints where the
/// stat cache has them.
pub trait Known: Sync {
    /// All entries that the base commit has in the directory `dir`; `None` when it has no such
    /// directory.
    fn section(
        &self,
        dir: &[u8],
    ) -> Result<Option<Section>, Box<dyn std::error::Error + Send + Sync>>;
}

impl Known for StatCache {
    fn section(
        &self,
        dir: &[u8],
    ) -> Result<Option<Section>, Box<dyn std::error::Error + Send + Sync>> {
        StatCache::section(self, dir).map_err(|e: StatCacheError| e.into())
    }
}

/// Nothing is known: every entry is new.
pub struct NothingKnown;

impl Known for NothingKnown {
    fn section(
        &self,
        _dir: &[u8],
    ) -> Result<Option<Section>, Box<dyn std::error::Error + Send + Sync>> {
        Ok(None)
    }
}

/// Which part of the worktree is looked at. What is left out is not reported in any way.
pub trait Select: Sync {
    /// Whether anything in the directory `dir` may be wanted.
    fn enters(&self, _dir: &[u8]) -> bool {
        true
    }

    /// Whether the entry `name` of `dir` is wanted. A directory that is entered must be.
    fn takes(&self, _dir: &[u8], _name: &[u8]) -> bool {
        true
    }
}

/// Selects the whole worktree.
pub struct Everything;

impl Select for Everything {}
