//! Results on disk, so that nothing is decoded twice. The directory can be deleted at any time, and several processes
//! may use it at once.
//!
//! An entry's file name is the hash of its key, so no id can name another file. An entry holds a hash of its bytes
//! under its key; an entry that does not match is removed. Files appear by renaming. When the entries are larger than
//! the cap, those go that were not used for the longest time.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

/// A directory of previews.
pub struct Cache {
    dir: PathBuf,
    cap: u64,
    /// Bytes that were written since the entries were last counted; `u64::MAX` before the first count.
    written: AtomicU64,
    names: AtomicU64,
}

const MAGIC: &[u8; 8] = b"dmvprev1";
const HASH: usize = 32;
/// Separates these hashes from all others.
const CONTEXT: &str = "dmv 2026-11 preview cache";
/// An entry's time is written again only after this long.
const TOUCH: Duration = Duration::from_secs(60);
/// A temporary file of this age is left over.
const STALE: Duration = Duration::from_secs(3600);

impl Cache {
    /// A cache in `dir` of at most about `cap` bytes. The directory is made when something is put into it.
    pub fn new(dir: impl Into<PathBuf>, cap: u64) -> Self {
        Self {
            dir: dir.into(),
            cap,
            written: AtomicU64::new(u64::MAX),
            names: AtomicU64::new(0),
        }
    }

    /// Returns the entry of a key. Damage and errors mean that there is none.
    pub(crate) fn get(&self, key: &str) -> Option<Vec<u8>> {
        let path = self.path(key);
        // Something else would keep the process waiting.
        let is_file = fs::symlink_metadata(&path).ok()?.is_file();
        let mut file = is_file.then(|| File::open(&path))?.ok()?;
        let stat = file.metadata().ok()?;
        if stat.len() > self.cap {
            return None;
        }
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).ok()?;
        let Some(content) = unwrap(key, bytes) else {
            // A missing preview is made again.
            let _ = fs::remove_file(&path);
            return None;
        };
        let age = stat.modified().ok().and_then(|at| at.elapsed().ok());
        if age.is_none_or(|age| age > TOUCH) {
            // It only decides what is removed first.
            let _ = file.set_modified(SystemTime::now());
        }
        Some(content)
    }

    /// Puts an entry in. A cache that cannot be written stays as it is.
    pub(crate) fn put(&self, key: &str, content: &[u8]) {
        let len = (MAGIC.len() + HASH + content.len()) as u64;
        if len > self.cap / 2 || self.write(key, content).is_err() {
            return;
        }
        let before = self.written.load(Ordering::Relaxed);
        let written = before.saturating_add(len);
        self.written.store(written, Ordering::Relaxed);
        // Counting reads the directory, so it waits until a sixteenth of the cap was written.
        if before == u64::MAX || written > self.cap / 16 {
            self.written.store(0, Ordering::Relaxed);
            self.shrink();
        }
    }

    fn path(&self, key: &str) -> PathBuf {
        let hash = blake3::Hasher::new_derive_key(CONTEXT)
            .update(key.as_bytes())
            .finalize();
        let hex = hash.to_hex();
        self.dir.join(&hex[..2]).join(&hex[2..])
    }

    fn write(&self, key: &str, content: &[u8]) -> io::Result<()> {
        let path = self.path(key);
        let dir = path.parent().unwrap_or(&self.dir);
        fs::create_dir_all(dir)?;
        let number = self.names.fetch_add(1, Ordering::Relaxed);
        let temporary = dir.join(format!("tmp-{}-{number}", std::process::id()));
        let written = File::create(&temporary).and_then(|mut file| {
            file.write_all(MAGIC)?;
            file.write_all(&check(key, content))?;
            file.write_all(content)
        });
        let written = written.and_then(|()| fs::rename(&temporary, &path));
        if written.is_err() {
            let _ = fs::remove_file(&temporary);
        }
        written
    }

    /// Removes the entries that were not used for the longest time, until a sixteenth of the cap is free.
    fn shrink(&self) {
        let mut entries = self.entries();
        let mut total: u64 = entries.iter().map(|entry| entry.len).sum();
        if total <= self.cap - self.cap / 16 {
            return;
        }
        entries.sort_by_key(|entry| entry.used);
        for entry in entries {
            if total <= self.cap - self.cap / 8 {
                break;
            }
            if fs::remove_file(&entry.path).is_ok() {
                total -= entry.len;
            }
        }
    }

    /// Lists the entries, and removes temporary files that no process writes any more.
    fn entries(&self) -> Vec<Entry> {
        let mut out = Vec::new();
        for dir in list(&self.dir) {
            for path in list(&dir) {
                let Ok(stat) = fs::symlink_metadata(&path) else {
                    continue;
                };
                let used = stat.modified().unwrap_or(SystemTime::UNIX_EPOCH);
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                if name.starts_with("tmp-") {
                    if used.elapsed().is_ok_and(|age| age > STALE) {
                        let _ = fs::remove_file(&path);
                    }
                } else if stat.is_file() {
                    let len = stat.len();
                    out.push(Entry { path, used, len });
                }
            }
        }
        out
    }
}

struct Entry {
    path: PathBuf,
    used: SystemTime,
    len: u64,
}

fn list(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).into_iter().flatten();
    entries.flatten().map(|entry| entry.path()).collect()
}

fn check(key: &str, content: &[u8]) -> [u8; HASH] {
    let mut hasher = blake3::Hasher::new_derive_key(CONTEXT);
    hasher.update(&(key.len() as u64).to_le_bytes());
    hasher.update(key.as_bytes());
    *hasher.update(content).finalize().as_bytes()
}

/// Returns an entry's content if all of it is as it was written.
fn unwrap(key: &str, mut bytes: Vec<u8>) -> Option<Vec<u8>> {
    let rest = bytes.strip_prefix(MAGIC)?;
    let (hash, content) = rest.split_at_checked(HASH)?;
    (check(key, content) == hash).then_some(())?;
    bytes.drain(..MAGIC.len() + HASH);
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(dir: &Path) -> Vec<PathBuf> {
        list(dir).iter().flat_map(|dir| list(dir)).collect()
    }

    #[test]
    fn entries_come_back_until_the_directory_is_deleted() {
        let dir = tempfile::tempdir().expect("a directory");
        let cache = Cache::new(dir.path().join("a/b"), 1 << 20);
        assert_eq!(cache.get("k"), None);
        cache.put("k", b"content");
        cache.put("../../k", b"");
        assert_eq!(cache.get("k").as_deref(), Some(&b"content"[..]));
        assert_eq!(cache.get("../../k").as_deref(), Some(&b""[..]));
        assert_eq!(files(&dir.path().join("a/b")).len(), 2, "all lie inside");
        fs::remove_dir_all(dir.path().join("a")).expect("deleted");
        assert_eq!(cache.get("k"), None);
        cache.put("k", b"again");
        assert_eq!(cache.get("k").as_deref(), Some(&b"again"[..]));
    }

    #[test]
    fn damaged_and_swapped_entries_are_thrown_away() {
        let dir = tempfile::tempdir().expect("a directory");
        let cache = Cache::new(dir.path(), 1 << 20);
        cache.put("k", b"content");
        let path = cache.path("k");
        let whole = fs::read(&path).expect("the entry");
        for at in 0..whole.len() {
            let mut bytes = whole.clone();
            bytes[at] ^= 1;
            fs::write(&path, &bytes).expect("damage");
            assert_eq!(cache.get("k"), None, "byte {at}");
            assert!(!path.exists(), "byte {at}");
            fs::write(&path, &whole[..at]).expect("damage");
            assert_eq!(cache.get("k"), None, "{at} bytes");
        }
        cache.put("other", b"of another key");
        fs::create_dir_all(path.parent().expect("a directory")).expect("made");
        fs::copy(cache.path("other"), &path).expect("a swap");
        assert_eq!(cache.get("k"), None);
    }

    #[test]
    fn the_cap_removes_what_was_unused_for_longest() {
        let dir = tempfile::tempdir().expect("a directory");
        let cache = Cache::new(dir.path(), 100_000);
        let hour = |n: u64| SystemTime::now() - Duration::from_secs(3600 * n);
        for n in 0..50 {
            cache.put(&format!("k{n}"), &[7; 5_000]);
            if let Ok(file) = File::options()
                .write(true)
                .open(cache.path(&format!("k{n}")))
            {
                file.set_modified(hour(100 - n)).expect("an old time");
            }
            // This one is in use all the time.
            assert!(cache.get("k0").is_some(), "after k{n}");
        }
        let total: u64 = cache.entries().iter().map(|entry| entry.len).sum();
        assert!((70_000..=100_000).contains(&total), "{total} bytes");
        assert!(cache.get("k49").is_some());
        assert!(cache.get("k1").is_none());
        cache.put("huge", &[7; 60_000]);
        assert!(cache.get("huge").is_none(), "more than half the cap");
    }

    #[test]
    fn a_cache_that_cannot_be_written_holds_nothing() {
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join("file");
        fs::write(&file, "no directory").expect("written");
        let cache = Cache::new(file.join("x"), 1 << 20);
        cache.put("k", b"content");
        assert_eq!(cache.get("k"), None);
    }
}
