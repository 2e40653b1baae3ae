//! Reads arbitrary bytes as packs and index files, for the fuzz targets and the tests here.
//!
//! The decoders of the store are private. This module is the only way to all of them, and it is not
//! part of the library's interface.

use super::bases_in_pack::InPack;
use super::frame::{FrameTable, decode_payload};
use super::index_entry::{Place, gaps_of};
use super::layout::{Encoding, PackHeader, RecordHeader, RecordType, Trailer};
use super::random_id::PackId;
use super::scan::{ScannedPart, checked_payload, entries_of, scan};
use super::table::Table;
use crate::hash::ObjectId;
use crate::memory::Budget;
use crate::vfs::VfsFile;
use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// Reads `bytes` as a pack, as a frame's table and payload, and as an index file. Returns how many
/// parts were intact.
///
/// It must not panic, and its memory must be in proportion to `bytes` and the format's limits.
pub fn read_all(bytes: &[u8]) -> usize {
    let file: Arc<dyn VfsFile> = Arc::new(Bytes(bytes.to_vec()));
    let path = Path::new("fuzzed");
    let mut intact = usize::from(PackHeader::decode(bytes).is_ok());
    let len = bytes.len() as u64;
    let bases = InPack::new(&*file, path, len);
    let mut places: HashMap<ObjectId, Place> = HashMap::new();
    let scanned = scan(&*file, path, 0, len, &mut |at, found| {
        match found {
            ScannedPart::Frame(table) => {
                let find = |id: &ObjectId| places.get(id).copied();
                let prefix = |table: &FrameTable| bases.prefix(table, &find);
                let entries = entries_of(&*file, path, at, &table, &prefix)?;
                intact += entries.len();
                places.extend(entries.into_iter().map(|entry| (entry.id, entry.place)));
            }
            ScannedPart::Index(header) => {
                if let Some(payload) = checked_payload(&*file, path, at, &header)? {
                    intact += 1 + gaps_of(&payload).len();
                }
            }
            ScannedPart::Trailer(_) => {
                let end = at + super::layout::TRAILER_BYTES as u64;
                let table =
                    Table::open_segment(path, file.clone(), PackId::from_bytes([0; 16]), end);
                intact += table.map_or(0, |table| read_table(&table));
            }
            ScannedPart::Operation(_) => intact += 1,
            ScannedPart::Garbage(_) => {}
        }
        Ok(())
    });
    // Reading cannot fail here, and a scan treats a truncated record as garbage.
    intact += usize::from(scanned.is_err());
    let merged = Table::open_merged(path, file, None, &|_| true);
    intact += merged.map_or(0, |table| read_table(&table));
    intact + read_frame(bytes) + read_index(bytes)
}

/// Returns the ids of the objects in the intact frames of a pack.
pub fn objects_of_pack(bytes: &[u8]) -> Vec<ObjectId> {
    let file: Arc<dyn VfsFile> = Arc::new(Bytes(bytes.to_vec()));
    let (path, len) = (Path::new("pack"), bytes.len() as u64);
    let bases = InPack::new(&*file, path, len);
    let mut places: HashMap<ObjectId, Place> = HashMap::new();
    // Reading cannot fail here.
    let _ = scan(&*file, path, 0, len, &mut |at, found| {
        if let ScannedPart::Frame(table) = found {
            let find = |id: &ObjectId| places.get(id).copied();
            let prefix = |table: &FrameTable| bases.prefix(table, &find);
            let entries = entries_of(&*file, path, at, &table, &prefix)?;
            places.extend(entries.into_iter().map(|entry| (entry.id, entry.place)));
        }
        Ok(())
    });
    places.into_keys().collect()
}

/// Reads the bytes that the checks protect, as if their author had made valid checks.
fn read_frame(bytes: &[u8]) -> usize {
    let Some((head, rest)) = bytes.split_at_checked(8) else {
        return 0;
    };
    let number = |at: usize| u16::from_le_bytes([head[at], head[at + 1]]);
    let (table, payload) = rest.split_at(usize::from(number(0)).min(rest.len()));
    let Ok(stored) = u32::try_from(payload.len()) else {
        return 0;
    };
    let encoding = match head[2] % 3 {
        0 => Encoding::Raw,
        1 => Encoding::Zstd,
        _ => Encoding::ZstdWithBase,
    };
    let raw = match encoding {
        Encoding::Raw => stored,
        _ => u32::from(number(4)),
    };
    let made = RecordHeader::new(RecordType::Frame, encoding, number(6), raw, stored, table);
    // By way of the bytes, so that the header's own limits apply.
    let Ok(header) = RecordHeader::decode(&made.encode()) else {
        return 0;
    };
    let objects = FrameTable::decode(header, table).map_or(0, |table| table.objects.len());
    objects + decode_payload(&header, payload, table).map_or(0, |raw| raw.len().min(1))
}

/// Reads the bytes as a segment's index with valid checks around them.
fn read_index(payload: &[u8]) -> usize {
    let Ok(len) = u32::try_from(payload.len()) else {
        return 0;
    };
    let header = RecordHeader::new(RecordType::Index, Encoding::Raw, 0, len, len, &[]);
    let trailer = Trailer {
        index_at: 0,
        start: 0,
    };
    let check = header.payload_check(payload);
    let parts: [&[u8]; 4] = [&header.encode(), payload, &check, &trailer.encode()];
    let file = parts.concat();
    let end = file.len() as u64;
    let file: Arc<dyn VfsFile> = Arc::new(Bytes(file));
    let table = Table::open_segment(Path::new("fuzzed"), file, PackId::from_bytes([0; 16]), end);
    table.map_or(0, |table| read_table(&table))
}

fn read_table(table: &Table) -> usize {
    let mut entries = usize::from(table.verify().is_ok());
    let mut last = None;
    let walked = table.walk(&mut |entry, _| {
        entries += 1;
        last = Some(entry.id);
        Ok(())
    });
    let found = last.map(|id| table.lookup(&id, &Budget::none()));
    let prefix = table.with_prefix(&[0, 0], None, 4);
    entries + usize::from(walked.is_ok() && matches!(found, Some(Ok(_))) && prefix.is_ok())
}

struct Bytes(Vec<u8>);

impl VfsFile for Bytes {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let from = usize::try_from(offset).map_or(self.0.len(), |at| at.min(self.0.len()));
        let n = buf.len().min(self.0.len() - from);
        buf[..n].copy_from_slice(&self.0[from..from + n]);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::{ObjectType, ObjectWrite};
    use crate::store::{
        Catalogue, FrameEncoder, FrameObject, LogPack, MetaWriter, NoSource, Owners, PackKind,
        RepositoryId, Store, StoreWriter,
    };
    use crate::vfs::OsVfs;
    use proptest::prelude::*;
    use std::collections::HashSet;

    type Outcome = Result<(), Box<dyn std::error::Error>>;

    /// Returns the bytes of a meta pack with two segments, and of an index over both.
    fn good_files() -> Result<Vec<Vec<u8>>, Box<dyn std::error::Error>> {
        let dir = tempfile::tempdir()?;
        let (packs, repo) = (dir.path().join("packs"), RepositoryId::from_bytes([9; 16]));
        std::fs::create_dir_all(&packs)?;
        LogPack::create(&OsVfs, &packs, repo)?;
        let empty = Catalogue::default();
        let store = Store::open(
            Arc::new(OsVfs),
            dir.path(),
            Owners::alone(repo),
            empty,
            Arc::new(NoSource),
        )?;
        let fill = |writer: StoreWriter<'_>, from: u32| -> Outcome {
            let mut meta = MetaWriter::new(&writer);
            for n in from..from + 40 {
                meta.put(ObjectType::Tree, format!("object number {n}").as_bytes())?;
            }
            meta.flush()?;
            writer.finish()?;
            Ok(())
        };
        fill(store.writer()?, 0)?;
        fill(store.writer()?, 40)?;
        let mut files = vec![pack_with_bases()?];
        for entry in std::fs::read_dir(&packs)? {
            files.push(std::fs::read(entry?.path())?);
        }
        Ok(files)
    }

    /// Returns the bytes of a pack with a chunk, and a frame that has it as base.
    fn pack_with_bases() -> Result<Vec<u8>, Box<dyn std::error::Error>> {
        let dir = tempfile::tempdir()?;
        std::fs::create_dir_all(dir.path().join("packs"))?;
        let (repo, empty) = (RepositoryId::from_bytes([9; 16]), Catalogue::default());
        let store = Store::open(
            Arc::new(OsVfs),
            dir.path(),
            Owners::alone(repo),
            empty,
            Arc::new(NoSource),
        )?;
        let writer = StoreWriter::fresh(&store, HashSet::new()).with_bases(true);
        let base: Vec<u8> = (0..400u32).flat_map(|n| (n * n).to_le_bytes()).collect();
        let raw = [&base[..700], b"something else", &base[700..]].concat();
        let chunk = |bytes: &[u8]| FrameObject {
            id: ObjectType::Chunk.id_of(bytes),
            ty: ObjectType::Chunk,
            len: bytes.len() as u32,
        };
        let (objects, bases) = ([chunk(&raw)], [chunk(&base)]);
        let mut encoder = FrameEncoder::default();
        assert!(writer.claim(&bases[0].id)? && writer.claim(&objects[0].id)?);
        writer.append(PackKind::Data, &mut encoder, &base, &bases)?;
        let ids = [bases[0].id];
        let frame = encoder.encode_with_bases(&raw, &objects, &ids, &base)?;
        assert!(writer.append_frame(&frame)?);
        let job = writer.finish()?;
        let bytes = std::fs::read(store.pack_path(job.segments[0].pack))?;
        assert_eq!(objects_of_pack(&bytes).len(), 2);
        Ok(bytes)
    }

    #[test]
    fn good_files_are_read() -> Outcome {
        let files = good_files()?;
        assert!(files.iter().any(|bytes| read_all(bytes) > 80));
        Ok(())
    }

    #[test]
    fn every_flip_and_every_cut_of_good_files_is_taken() -> Outcome {
        for bytes in good_files()? {
            let whole = read_all(&bytes);
            for at in 0..bytes.len() {
                let mut bad = bytes.clone();
                bad[at] ^= 1 << (at % 8);
                read_all(&bad);
                if at % 7 == 0 {
                    assert!(read_all(&bytes[..at]) <= whole + 2, "cut at {at}");
                }
            }
        }
        Ok(())
    }

    proptest! {
        #[test]
        fn any_bytes_are_taken(bytes in proptest::collection::vec(any::<u8>(), 0..2000)) {
            read_all(&bytes);
        }

        #[test]
        fn any_bytes_behind_good_magic_are_taken(
            kind in 1u8..4,
            encoding in 0u8..3,
            bytes in proptest::collection::vec(any::<u8>(), 28..400),
        ) {
            let mut record = super::super::layout::RECORD_MAGIC.to_vec();
            record.extend_from_slice(&[kind, encoding]);
            record.extend_from_slice(&bytes);
            read_all(&record);
        }
    }
}
