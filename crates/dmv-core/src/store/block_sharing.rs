//! Whether packs share blocks with files of a worktree and with each other (docs/format/pack.md, "Shared
//! blocks"). Nothing depends on it: where blocks cannot be shared, the same bytes are written.

use super::error::StoreError;
use super::random_id::random_number;
use crate::platform::{can_share_blocks, snapshot};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// Size in bytes from which a file shares blocks with packs.
pub const SHARED_FROM_BYTES: u64 = 4 << 20;
/// Least length in bytes of a payload that is placed for it: two blocks and a gap are lost each time.
pub(super) const LEAST_SHARED_BYTES: usize = 64 << 10;

/// Whether files share blocks with packs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SharingMode {
    /// Where the file system can.
    #[default]
    Auto,
    /// Never.
    Off,
    /// Always: a large file is neither stored nor written where the file system cannot.
    Require,
}

/// Of so many stretches whose blocks are shared, one is read, if only a sample is to be.
const SAMPLED_STRETCHES: u64 = 32;

/// How files share blocks with packs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SharingRules {
    /// Whether they do.
    pub mode: SharingMode,
    /// Whether only a sample of the bytes that a checkout shares is read and checked, and not all of them.
    pub samples: bool,
}

/// What a store knows about sharing blocks.
pub(super) struct BlockSharing {
    packs_dir: PathBuf,
    rules: OnceLock<SharingRules>,
    between_packs: OnceLock<bool>,
    /// The stretches that might have been left unread. It starts anywhere, so each time other ones are read.
    stretches: AtomicU64,
}

impl BlockSharing {
    /// Returns that of the packs in a directory.
    pub fn new(packs_dir: &Path) -> BlockSharing {
        BlockSharing {
            packs_dir: packs_dir.to_owned(),
            rules: OnceLock::new(),
            between_packs: OnceLock::new(),
            stretches: AtomicU64::new(random_number()),
        }
    }

    /// Sets the rules. A second call has no effect.
    pub fn set(&self, rules: SharingRules) {
        let _ = self.rules.set(rules);
    }

    /// Returns whether blocks may be shared.
    pub fn is_on(&self) -> bool {
        self.mode() != SharingMode::Off
    }

    /// Returns the rules.
    pub fn rules(&self) -> SharingRules {
        self.rules.get().copied().unwrap_or_default()
    }

    fn mode(&self) -> SharingMode {
        self.rules().mode
    }

    /// Returns whether files in `dir` share blocks with packs, and only a sample of them is to be checked.
    pub fn samples_in(&self, dir: &Path) -> bool {
        let is_asked = self.is_on() && self.rules().samples;
        is_asked && can_share_blocks(&self.packs_dir, dir)
    }

    /// Returns whether the next stretch of a file belongs to the sample.
    pub fn reads_next(&self) -> bool {
        let nth = self.stretches.fetch_add(1, Ordering::Relaxed);
        nth.is_multiple_of(SAMPLED_STRETCHES)
    }

    /// Returns a [`snapshot`] of a file that shares its blocks, for packs to share them; `None` where that is
    /// impossible. Fails with [`StoreError::NotShared`] if it is required.
    pub fn snapshot_of(&self, file: &File) -> Result<Option<File>, StoreError> {
        match self.mode() {
            SharingMode::Off => Ok(None),
            SharingMode::Auto => Ok(snapshot(file, &self.packs_dir).ok()),
            SharingMode::Require => {
                let made = snapshot(file, &self.packs_dir);
                made.map(Some).map_err(|_| self.not_shared())
            }
        }
    }

    /// Fails with [`StoreError::NotShared`] if files in `dir` have to share blocks with packs and cannot.
    pub fn check_with(&self, dir: &Path) -> Result<(), StoreError> {
        if self.mode() == SharingMode::Require && !can_share_blocks(&self.packs_dir, dir) {
            return Err(self.not_shared());
        }
        Ok(())
    }

    /// Returns whether packs can share blocks with each other.
    pub fn is_between_packs(&self) -> bool {
        let can = || self.is_on() && can_share_blocks(&self.packs_dir, &self.packs_dir);
        *self.between_packs.get_or_init(can)
    }

    fn not_shared(&self) -> StoreError {
        let path = self.packs_dir.clone();
        StoreError::NotShared { path }
    }
}
