//! Decoded frames that are needed again after the cache had to drop them.
//!
//! A frame has up to some hundred small objects. A command that reads objects in another order than
//! packs have them would decode each frame once for each object, as soon as the frames do not fit in
//! memory. So frames that come back go to a temporary file without a name, and further objects of
//! theirs are read there alone. Commands that read in the order of packs decode nothing twice, and
//! write nothing.
//!
//! The file is only a cache: the caller checks what it reads, and if there is no file, frames are
//! decoded again.

use super::cache::RecordKey;
use crate::vfs::VfsFile;
use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Bytes that are decoded again before the file is begun: what a tenth of a second decodes.
const AFTER_BYTES: u64 = 64 << 20;
/// The most bytes of the file.
const MOST_BYTES: u64 = 4 << 30;
/// The file takes at most one of so many parts of the free space.
const PART_OF_ROOM: u64 = 4;
/// The most frames that are remembered: some 10 MiB.
const MAX_FRAMES: usize = 128 << 10;

/// Creates the file. Also returns how many bytes have room there.
type Create<'c> = &'c dyn Fn() -> Option<(Arc<dyn VfsFile>, u64)>;

/// The frames that were decoded, and a file with those that came back.
pub(super) struct Overflow(Mutex<OverflowState>);

struct OverflowState {
    /// The frames that were decoded.
    decoded: HashSet<RecordKey>,
    /// How many more bytes may be decoded again before the file is begun.
    spare: u64,
    /// The frames in the file, and where their bytes begin.
    filed: HashMap<RecordKey, u64>,
    file: OverflowFile,
    len: u64,
}

enum OverflowFile {
    NotBegun,
    Open { file: Arc<dyn VfsFile>, most: u64 },
    Impossible,
}

impl Default for Overflow {
    fn default() -> Overflow {
        Overflow::after(AFTER_BYTES)
    }
}

impl Overflow {
    /// Returns an empty overflow, which begins its file after `bytes` were decoded again.
    fn after(bytes: u64) -> Overflow {
        Overflow(Mutex::new(OverflowState {
            decoded: HashSet::new(),
            spare: bytes,
            filed: HashMap::new(),
            file: OverflowFile::NotBegun,
            len: 0,
        }))
    }

    /// Returns a part of the bytes of a frame, if the file has them. They may be damaged.
    pub(super) fn read(&self, key: RecordKey, part: &Range<u32>) -> Option<Vec<u8>> {
        let (file, at) = {
            let state = self.lock();
            let OverflowFile::Open { file, .. } = &state.file else {
                return None;
            };
            (file.clone(), *state.filed.get(&key)?)
        };
        let mut bytes = vec![0; part.len()];
        let read = file.read_at(&mut bytes, at + u64::from(part.start));
        (read.ok()? == bytes.len()).then_some(bytes)
    }

    /// Notes that a frame was decoded. If frames come back too often, puts its bytes into the file.
    pub(super) fn decoded(&self, key: RecordKey, raw: &[u8], create: Create<'_>) {
        let Some((file, at)) = self.lock().place_for(key, raw.len() as u64, create) else {
            return;
        };
        // Other threads may write to other places meanwhile.
        let written = file.write_at(raw, at);
        let mut state = self.lock();
        match written {
            Ok(()) => {
                state.filed.insert(key, at);
            }
            Err(_) => state.give_up(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, OverflowState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl OverflowState {
    /// Returns where in the file the bytes of a decoded frame are to go. `None`: nowhere.
    fn place_for(
        &mut self,
        key: RecordKey,
        len: u64,
        create: Create<'_>,
    ) -> Option<(Arc<dyn VfsFile>, u64)> {
        if matches!(self.file, OverflowFile::Impossible) {
            return None;
        }
        if !self.decoded.contains(&key) {
            if self.decoded.len() < MAX_FRAMES {
                self.decoded.insert(key);
            }
            return None;
        }
        if self.spare > 0 {
            self.spare = self.spare.saturating_sub(len);
            return None;
        }
        if matches!(self.file, OverflowFile::NotBegun) {
            let Some((file, room)) = create() else {
                self.give_up();
                return None;
            };
            let most = MOST_BYTES.min(room / PART_OF_ROOM);
            self.file = OverflowFile::Open { file, most };
        }
        match &self.file {
            OverflowFile::Open { file, most } if self.len + len <= *most => {
                let at = self.len;
                self.len += len;
                Some((file.clone(), at))
            }
            _ => None,
        }
    }

    /// Closes the file, which gives back its space.
    fn give_up(&mut self) {
        self.file = OverflowFile::Impossible;
        self.filed = HashMap::new();
        self.decoded = HashSet::new();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::platform::tests::NAMES_OF_UNNAMED;
    use crate::store::PackId;
    use crate::vfs::{OsVfs, Vfs};
    use std::cell::Cell;

    fn key(n: u64) -> RecordKey {
        let pack = PackId::from_bytes([0; 16]);
        RecordKey { pack, offset: n }
    }

    #[test]
    fn frames_that_come_back_are_filed_once_enough_came_back() -> std::io::Result<()> {
        let temp = tempfile::tempdir()?;
        let created = Cell::new(0);
        let create = || {
            created.set(created.get() + 1);
            OsVfs.unnamed(temp.path()).ok()
        };
        let overflow = Overflow::after(150);
        let raw = |n: u64| vec![n as u8; 100];
        for n in (0..3).chain(0..2) {
            overflow.decoded(key(n), &raw(n), &create);
        }
        assert_eq!(created.get(), 0, "what comes seldom is decoded again");
        for n in [2, 3, 0] {
            overflow.decoded(key(n), &raw(n), &create);
        }
        assert_eq!(created.get(), 1);
        assert!(NAMES_OF_UNNAMED.contains(&std::fs::read_dir(temp.path())?.count()));
        assert_eq!(overflow.read(key(2), &(10..30)), Some(vec![2; 20]));
        assert_eq!(overflow.read(key(0), &(0..100)), Some(raw(0)));
        for n in [1, 3] {
            assert_eq!(overflow.read(key(n), &(0..1)), None, "{n}");
        }
        assert_eq!(overflow.read(key(0), &(90..101)), None, "beyond the file");
        Ok(())
    }

    #[test]
    fn without_a_file_or_room_nothing_is_filed() -> std::io::Result<()> {
        let temp = tempfile::tempdir()?;
        let no_file: Create<'_> = &|| None;
        let no_room: Create<'_> = &|| Some((OsVfs.unnamed(temp.path()).ok()?.0, 399));
        for create in [no_file, no_room] {
            let overflow = Overflow::after(0);
            for _ in 0..3 {
                overflow.decoded(key(1), &[1; 100], create);
            }
            assert_eq!(overflow.read(key(1), &(0..1)), None);
        }
        Ok(())
    }
}
