//! Whether packs share blocks with files of a worktree and with each other (docs/format/pack.md, "Shared
//! blocks"). Nothing depends on it: where blocks cannot be shared, the same bytes are written.

use super::error::StoreError;
use crate::platform::{can_share_blocks, snapshot};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

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

/// What a store knows about sharing blocks.
pub(super) struct BlockSharing {
    packs_dir: PathBuf,
    mode: OnceLock<SharingMode>,
    between_packs: OnceLock<bool>,
}

impl BlockSharing {
    /// Returns that of the packs in a directory.
    pub fn new(packs_dir: &Path) -> BlockSharing {
        BlockSharing {
            packs_dir: packs_dir.to_owned(),
            mode: OnceLock::new(),
            between_packs: OnceLock::new(),
        }
    }

    /// Sets the mode. A second call has no effect.
    pub fn set(&self, mode: SharingMode) {
        let _ = self.mode.set(mode);
    }

    /// Returns whether blocks may be shared.
    pub fn is_on(&self) -> bool {
        self.mode() != SharingMode::Off
    }

    /// Returns the mode.
    pub fn mode(&self) -> SharingMode {
        self.mode.get().copied().unwrap_or_default()
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
