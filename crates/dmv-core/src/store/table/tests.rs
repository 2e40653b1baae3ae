use super::*;
use crate::store::bad_places::BadPlaces;
use crate::store::index_entry::encode_segment_index;
use crate::store::layout::Encoding;
use crate::vfs::{OpenMode, OsVfs, Vfs};
use std::io;
use std::sync::Mutex;
use std::sync::atomic::AtomicUsize;

/// A file in memory that counts the bytes that are read.
pub(in crate::store) struct Counted(Vec<u8>, pub(in crate::store) AtomicUsize);

impl VfsFile for Counted {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let from = (offset as usize).min(self.0.len());
        let n = buf.len().min(self.0.len() - from);
        buf[..n].copy_from_slice(&self.0[from..from + n]);
        self.1.fetch_add(n, Ordering::Relaxed);
        Ok(n)
    }

    fn write_at(&self, _: &[u8], _: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.0.len() as u64)
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn start_writeback(&self, _: u64, _: u64) {}

    fn try_lock(&self) -> io::Result<bool> {
        Ok(true)
    }
}

pub(in crate::store) fn ids(n: u32) -> Vec<ObjectId> {
    let id = |i: u32| ObjectType::Chunk.id_of(&i.to_le_bytes());
    let mut ids: Vec<ObjectId> = (0..n).map(id).collect();
    ids.sort_unstable();
    ids
}

pub(in crate::store) fn table_of(ids: &[ObjectId]) -> Result<(Table, Arc<Counted>), StoreError> {
    table_in(PackId::from_bytes([0; 16]), 64, ids)
}

/// Returns the table of a segment of `pack` with all `ids` in the frame at `offset`.
pub(in crate::store) fn table_in(
    pack: PackId,
    offset: u64,
    ids: &[ObjectId],
) -> Result<(Table, Arc<Counted>), StoreError> {
    let place = Place {
        offset,
        ordinal: 0,
        ty: ObjectType::Chunk,
    };
    let entries: Vec<Entry> = ids.iter().map(|id| Entry { id: *id, place }).collect();
    let payload = encode_segment_index(&entries, 0, 0, &[]);
    let len = payload.len() as u32;
    let header = RecordHeader::new(RecordType::Index, Encoding::Raw, 0, len, len, &[]);
    let trailer = Trailer {
        index_at: 0,
        start: 0,
    };
    let check = header.payload_check(&payload);
    let parts: [&[u8]; 4] = [&header.encode(), &payload, &check, &trailer.encode()];
    let file = Arc::new(Counted(parts.concat(), AtomicUsize::new(0)));
    let end = file.0.len() as u64;
    let table = Table::open_segment(Path::new("test"), file.clone(), pack, end)?;
    file.1.store(0, Ordering::Relaxed);
    Ok((table, file))
}

#[test]
fn a_table_asked_often_is_kept_where_there_is_room_and_not_read_again() {
    let ids = ids(20_000);
    let bytes = ids.len() * ENTRY_BYTES;
    for (budget, most) in [
        (Budget::of(bytes), 5 * bytes / 2),
        (Budget::none(), usize::MAX),
        (Budget::of(bytes - 1), usize::MAX),
    ] {
        let (table, file) = table_of(&ids).expect("a sound table");
        for id in &ids {
            let found = table.lookup(id, &budget).expect("a sound table");
            assert_eq!(found.map(|(_, place)| place.offset), Some(64));
        }
        let read = file.1.load(Ordering::Relaxed);
        assert!(read <= most, "{read} bytes of {bytes}");
        assert_eq!(table.uses.kept.get().is_some(), most < usize::MAX);
    }
}

/// What another process does to a file between its making and its locking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Meanwhile {
    Nothing,
    Removed,
    Replaced,
    Locked,
}

/// The system's files; each new one meets a process that takes it for one that is never registered.
struct Meddling(Meanwhile, Mutex<Vec<Arc<dyn VfsFile>>>);

impl Vfs for Meddling {
    fn open(&self, path: &Path, how: OpenMode) -> io::Result<Arc<dyn VfsFile>> {
        let file = OsVfs.open(path, how)?;
        if how != OpenMode::CreateNew {
            return Ok(file);
        }
        match self.0 {
            Meanwhile::Nothing => {}
            Meanwhile::Removed => std::fs::remove_file(path)?,
            Meanwhile::Replaced => {
                std::fs::remove_file(path)?;
                std::fs::write(path, "")?;
            }
            Meanwhile::Locked => {
                let theirs = OsVfs.open(path, OpenMode::Append)?;
                assert!(theirs.try_lock()?);
                self.1.lock().expect("no panic").push(theirs);
            }
        }
        Ok(file)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        OsVfs.list(dir)
    }

    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        OsVfs.create_dir_all(dir)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        OsVfs.sync_dir(dir)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        OsVfs.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        OsVfs.remove(path)
    }
}

#[test]
fn an_index_that_somebody_took_before_it_was_locked_is_not_registered() {
    use Meanwhile::*;
    let (table, _) = table_of(&ids(100)).expect("a sound table");
    for meanwhile in [Nothing, Removed, Replaced, Locked] {
        let temp = tempfile::tempdir().expect("a directory");
        let path = temp.path().join("index");
        let vfs = Meddling(meanwhile, Mutex::default());
        let made = write_merged(&vfs, &path, &[&table], &BadPlaces::default());
        assert_eq!(made.is_ok(), meanwhile == Nothing, "{meanwhile:?}");
        if let Err(e) = made {
            let is_busy = matches!(&e, StoreError::Io(e)
                if e.kind() == io::ErrorKind::WouldBlock);
            assert!(is_busy, "{meanwhile:?}: {e}");
        }
    }
}

#[test]
fn whoever_keeps_nothing_leaves_the_table_to_be_kept_by_others() {
    let ids = ids(20_000);
    let (table, _) = table_of(&ids).expect("a sound table");
    for budget in [Budget::none(), Budget::of(ids.len() * ENTRY_BYTES)] {
        for id in &ids {
            let found = table.lookup(id, &budget).expect("a sound table");
            assert!(found.is_some());
        }
    }
    assert!(table.uses.kept.get().is_some());
}
