//! What a repository takes on disk.

use std::collections::HashSet;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use anyhow::Result;
use serde::{Deserialize, Serialize};

use crate::files;

/// Unit of `st_blocks`, whatever the file system's own block size.
const STAT_BLOCK_BYTES: u64 = 512;

/// Size of a directory tree; a file with several links counts once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Sum of the files' lengths.
    pub apparent_bytes: u64,
    /// Disk blocks in use by files and directories, as `du` counts them.
    pub disk_bytes: u64,
    /// Regular files and symbolic links.
    pub files: u64,
    /// Files and directories.
    pub inodes: u64,
}

/// Measures everything below `top`, repositories included.
pub fn usage(top: &Path) -> Result<Usage> {
    let mut sum = Usage::default();
    let mut seen = HashSet::new();
    files::walk(top, &mut |_, meta| {
        if meta.nlink() > 1 && !meta.is_dir() && !seen.insert(meta.ino()) {
            return Ok(());
        }
        sum.disk_bytes += meta.blocks() * STAT_BLOCK_BYTES;
        sum.inodes += 1;
        if !meta.is_dir() {
            sum.apparent_bytes += meta.len();
            sum.files += 1;
        }
        Ok(())
    })?;
    Ok(sum)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn hard_links_count_once() -> Result<()> {
        let dir = tempfile::tempdir()?;
        fs::write(dir.path().join("a"), [7; 5000])?;
        fs::hard_link(dir.path().join("a"), dir.path().join("b"))?;
        fs::create_dir(dir.path().join("d"))?;
        let got = usage(dir.path())?;
        assert_eq!((got.apparent_bytes, got.files, got.inodes), (5000, 1, 3));
        assert!(got.disk_bytes >= 5000);
        Ok(())
    }
}
