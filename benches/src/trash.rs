//! Where trees go between timed steps.
//!
//! Creating files just after deleting many is up to ten times slower on ext4, so large trees are
//! only renamed aside, and deleted at the very end. Trees of few inodes have no such effect and
//! go at once, for their space.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result};

/// Trees of at most this many inodes are deleted at once.
const SMALL_INODES: u64 = 500;

/// Space on a file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// Bytes.
    pub bytes: u64,
    /// Files and directories.
    pub inodes: u64,
}

impl Room {
    /// Whether `free` has at least as much.
    pub fn fits_in(self, free: Room) -> bool {
        self.bytes <= free.bytes && self.inodes <= free.inodes
    }
}

/// A directory on the same file system that trees are renamed into.
pub struct Trash {
    dir: PathBuf,
    keep_free_bytes: u64,
    next: u64,
    held: bool,
    emptied: Option<Instant>,
}

impl Trash {
    /// A trash in `dir`, which is created. It is emptied early when less than `keep_free_bytes`
    /// are left on the file system.
    pub fn new(dir: PathBuf, keep_free_bytes: u64) -> Result<Trash> {
        fs::create_dir_all(&dir).with_context(|| format!("create {}", dir.display()))?;
        Ok(Trash {
            dir,
            keep_free_bytes,
            next: 0,
            held: false,
            emptied: None,
        })
    }

    /// Takes `path` (file or tree) out of the way. Nothing there is fine.
    pub fn discard(&mut self, path: &Path) -> Result<()> {
        let Ok(meta) = fs::symlink_metadata(path) else {
            return Ok(());
        };
        if !meta.is_dir() {
            return fs::remove_file(path).with_context(|| format!("remove {}", path.display()));
        }
        if is_small(path, &mut { SMALL_INODES })? {
            return fs::remove_dir_all(path).with_context(|| format!("remove {}", path.display()));
        }
        let aside = self.dir.join(self.next.to_string());
        self.next += 1;
        self.held = true;
        fs::rename(path, &aside).with_context(|| format!("move {} aside", path.display()))
    }

    /// Empties the trash if space is short; true if it did, which disturbs what follows.
    pub fn make_room(&mut self) -> Result<bool> {
        let need = Room {
            bytes: self.keep_free_bytes,
            inodes: 0,
        };
        self.make_room_for(need)
    }

    /// Empties the trash if less than `need` is free; true if it did.
    pub fn make_room_for(&mut self, need: Room) -> Result<bool> {
        if !self.held || need.fits_in(self.free()?) {
            return Ok(false);
        }
        for entry in fs::read_dir(&self.dir)? {
            let path = entry?.path();
            fs::remove_dir_all(&path).with_context(|| format!("remove {}", path.display()))?;
        }
        self.held = false;
        self.emptied = Some(Instant::now());
        Ok(true)
    }

    /// What is free on the file system, for a user without privileges.
    pub fn free(&self) -> Result<Room> {
        let stat = rustix::fs::statvfs(&self.dir)
            .with_context(|| format!("free space of {}", self.dir.display()))?;
        Ok(Room {
            bytes: stat.f_bavail.saturating_mul(stat.f_frsize),
            // File systems without a fixed number of inodes report none at all.
            inodes: if stat.f_files == 0 {
                u64::MAX
            } else {
                stat.f_favail
            },
        })
    }

    /// Seconds since a large tree was deleted; `None` if none was.
    pub fn seconds_since_emptied(&self) -> Option<f64> {
        self.emptied.map(|at| at.elapsed().as_secs_f64())
    }
}

/// Whether the tree has at most `left` entries; stops counting as soon as it has not.
fn is_small(dir: &Path, left: &mut u64) -> Result<bool> {
    let context = || format!("list {}", dir.display());
    for entry in fs::read_dir(dir).with_context(context)? {
        let entry = entry.with_context(context)?;
        if *left == 0 {
            return Ok(false);
        }
        *left -= 1;
        if entry.file_type().with_context(context)?.is_dir() && !is_small(&entry.path(), left)? {
            return Ok(false);
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn many_files(dir: &Path) -> Result<()> {
        fs::create_dir(dir)?;
        (0..=SMALL_INODES).try_for_each(|n| Ok(fs::write(dir.join(n.to_string()), "")?))
    }

    #[test]
    fn large_trees_stay_until_space_is_short() -> Result<()> {
        let dir = tempfile::tempdir()?;
        let held = |dir: &Path| Ok::<_, anyhow::Error>(fs::read_dir(dir.join("trash"))?.count());
        let tree = dir.path().join("tree");
        for (keep_free, left) in [(0, 1), (u64::MAX, 0)] {
            let mut trash = Trash::new(dir.path().join("trash"), keep_free)?;
            many_files(&tree)?;
            trash.discard(&tree)?;
            assert!(!tree.exists());
            assert_eq!(held(dir.path())?, 1);
            assert_eq!(trash.make_room()?, left == 0);
            assert_eq!(held(dir.path())?, left);
            fs::remove_dir_all(dir.path().join("trash"))?;
        }
        Ok(())
    }

    #[test]
    fn small_trees_and_nothing_go_at_once() -> Result<()> {
        let dir = tempfile::tempdir()?;
        let mut trash = Trash::new(dir.path().join("trash"), 0)?;
        let tree = dir.path().join("tree");
        fs::create_dir(&tree)?;
        trash.discard(&tree)?;
        trash.discard(&tree)?;
        assert_eq!(fs::read_dir(dir.path().join("trash"))?.count(), 0);
        Ok(())
    }
}
