//! A file whose space commands get on a full disk that free some: the database needs it before a pack
//! can go.
//!
//! The file has no content that matters, and anybody may remove it. Small repositories have none.

use crate::platform::free_bytes;
use crate::repo::base::layout::RESERVE_FILE;
use crate::repo::base::repo::Repo;
use crate::store::random_block;
use crate::vfs::OpenMode;

/// The file has one of so many parts of the packs, within the next two bounds.
const PART_OF_PACKS: u64 = 64;
/// Bytes that the database needs to take a few packs out of use: a dozen pages.
const LEAST_BYTES: u64 = 128 << 10;
const MOST_BYTES: u64 = 1 << 20;
/// The file is made only while so many times its length are free.
const TIMES_FREE: u64 = 16;

/// Makes the file, if there is none, the repository is large enough and the disk has plenty of room.
pub fn keep(repo: &Repo) {
    let packs: u64 = repo.store.packs().iter().map(|row| row.len).sum();
    let len = (packs / PART_OF_PACKS).min(MOST_BYTES);
    let path = repo.dmv.join(RESERVE_FILE);
    if len < LEAST_BYTES || path.symlink_metadata().is_ok() {
        return;
    }
    if !free_bytes(&repo.dmv).is_ok_and(|free| free >= TIMES_FREE * len) {
        return;
    }
    // Random bytes, which no file system stores in less space. Without the file, gc needs some free space.
    let block = random_block(LEAST_BYTES as usize);
    // Another command may have made it just now.
    let Ok(file) = repo.vfs.open(&path, OpenMode::CreateNew) else {
        return;
    };
    let mut parts = (0..len).step_by(block.len());
    let written = parts.try_for_each(|at| {
        let part = (len - at).min(block.len() as u64);
        file.write_at(&block[..part as usize], at)
    });
    if written.is_err() {
        let _ = repo.vfs.remove(&path);
    }
}

/// Removes the file if the disk has less room than a command may need that frees space.
pub fn give(repo: &Repo) {
    if free_bytes(&repo.dmv).is_ok_and(|free| free < MOST_BYTES) {
        // If there is none, gc goes on with the room that there is.
        let _ = repo.vfs.remove(&repo.dmv.join(RESERVE_FILE));
    }
}
