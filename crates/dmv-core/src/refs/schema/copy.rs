//! Reading a database that another process keeps locked.
//!
//! A process that recovers the write-ahead log excludes readers meanwhile, and may be stopped just
//! then. The files on the disk can still be read: they are what a kill at this moment would leave.
//! They are copied, and the copy is read, because the other process may continue at any time.

use super::open_reading;
use crate::fsutil::{os_str, temp_name};
use crate::path::PathError;
use crate::platform::{OwnAccess, copy_own, open_own};
use crate::refs::RefsError;
use rusqlite::Connection;
use std::io::{self, Read};
use std::path::Path;

/// Size of the largest file that is copied.
const MAX_BYTES: u64 = 4 << 30;
/// How often files that change during the copy are copied again.
const TRIES: usize = 5;

/// Opens a copy of the present database and its write-ahead log.
pub(super) fn open(path: &Path) -> Result<Connection, RefsError> {
    let dir = path.parent().unwrap_or(path).join(os_str(&temp_name()));
    let trouble = |source: io::Error| RefsError::Lock(PathError::new("lock", &dir, source));
    std::fs::create_dir(&dir).map_err(trouble)?;
    let copy = dir.join("refs.db");
    let read = copied(path, &copy)
        .map_err(trouble)
        .and_then(|()| open_reading(&copy));
    // Its files stay readable while they are open.
    let _ = std::fs::remove_dir_all(&dir);
    read
}

/// Copies the database and its log, both as they were at one moment.
fn copied(from: &Path, to: &Path) -> io::Result<()> {
    let files = ["db", "db-wal"].map(|end| (from.with_extension(end), to.with_extension(end)));
    for _ in 0..TRIES {
        for (from, to) in &files {
            let _ = std::fs::remove_file(to);
            match copy_own(from, to) {
                Err(e) if e.kind() == io::ErrorKind::NotFound => {}
                other => drop(other?),
            }
        }
        // If the first file is unchanged after the second was read, and the second after that, this
        // is a state of both at one moment in between.
        let mut same = true;
        for (from, to) in &files {
            same &= !from.exists() && !to.exists() || is_same(from, to)?;
        }
        if same {
            return Ok(());
        }
    }
    Err(io::ErrorKind::WouldBlock.into())
}

fn is_same(a: &Path, b: &Path) -> io::Result<bool> {
    let mut files = [open_own(a, OwnAccess::Read)?, open_own(b, OwnAccess::Read)?];
    if files[0].metadata()?.len() > MAX_BYTES {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    let mut parts = [vec![0; 64 << 10], vec![0; 64 << 10]];
    loop {
        let mut lens = [0; 2];
        for ((file, part), len) in files.iter_mut().zip(&mut parts).zip(&mut lens) {
            while *len < part.len() {
                match file.read(&mut part[*len..])? {
                    0 => break,
                    n => *len += n,
                }
            }
        }
        if parts[0][..lens[0]] != parts[1][..lens[1]] {
            return Ok(false);
        }
        if lens[0] == 0 {
            return Ok(true);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::refs::{Refs, SegmentRow};
    use crate::store::PackId;
    use crate::store::PackKind;
    use std::time::{Duration, Instant};

    #[test]
    fn a_database_that_somebody_keeps_locked_is_read_and_not_written()
    -> Result<(), Box<dyn std::error::Error>> {
        let temp = tempfile::tempdir()?;
        let path = temp.path().join("refs.db");
        let refs = Refs::create(&path)?;
        let segment = SegmentRow {
            pack: PackId::from_bytes([1; 16]),
            kind: PackKind::Data,
            start: 64,
            end: 128,
            entries: 1,
        };
        refs.add_segments(&[segment], &[], None)?;
        drop(refs);
        // Like a process that is stopped while it recovers the write-ahead log. What it has written
        // and not committed does not count.
        let stopped = Connection::open(&path)?;
        stopped.pragma_update(None, "locking_mode", "EXCLUSIVE")?;
        stopped.execute_batch("BEGIN EXCLUSIVE; DELETE FROM segments")?;
        let begin = Instant::now();
        let copy = Refs::open(&path)?;
        assert!(begin.elapsed() < Duration::from_secs(5));
        assert!(copy.is_copy());
        assert_eq!(copy.catalogue()?.segments, [segment]);
        let refused = copy.add_segments(&[segment], &[], None);
        assert!(matches!(refused, Err(RefsError::Busy(_))));
        assert_eq!(copy.catalogue()?.segments, [segment]);
        drop(copy);
        drop(stopped);
        let refs = Refs::open(&path)?;
        assert!(!refs.is_copy());
        assert_eq!(refs.catalogue()?.segments, [segment]);
        let names = std::fs::read_dir(temp.path())?.collect::<Result<Vec<_>, _>>()?;
        let left = names
            .iter()
            .any(|entry| entry.file_name().as_encoded_bytes()[0] == b'.');
        assert!(!left, "{names:?}");
        Ok(())
    }
}
