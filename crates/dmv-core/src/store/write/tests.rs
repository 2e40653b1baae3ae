//! Frames that are placed so that their pack can share blocks with a file.

use super::*;
use crate::object::ObjectType::Chunk;
use crate::platform::BLOCK_BYTES;
use crate::store::{BytesFrom, Catalogue, NoSource, Owners, PackRow, RepositoryId, verify_pack};
use crate::vfs::OsVfs;
use dmv_random::Rng;
use std::path::Path;

type Outcome<T = ()> = Result<T, Box<dyn std::error::Error>>;

fn store(dir: &Path) -> Outcome<Store> {
    std::fs::create_dir_all(dir.join("packs"))?;
    let (repo, empty) = (RepositoryId::from_bytes([9; 16]), Catalogue::default());
    let owners = Owners::alone(repo);
    Ok(Store::open(
        Arc::new(OsVfs),
        dir,
        owners,
        empty,
        Arc::new(NoSource),
    )?)
}

/// A file, parts of which become frames.
struct Parts {
    file: File,
    bytes: Vec<u8>,
    parts: Vec<std::ops::Range<usize>>,
}

impl Parts {
    fn new(dir: &Path, rng: &mut Rng) -> Outcome<Parts> {
        let mut bytes = rng.bytes(1 << 20);
        bytes.extend(vec![b'a'; 1 << 20]);
        bytes.extend(rng.bytes(1 << 20));
        std::fs::write(dir.join("file"), &bytes)?;
        let parts = (0..40).map(|_| {
            let from = rng.below(bytes.len() as u64 - 300_000) as usize;
            from..from + rng.below(300_000) as usize + 1
        });
        let parts = parts.collect();
        let file = File::open(dir.join("file"))?;
        Ok(Parts { file, bytes, parts })
    }

    fn write(&self, writer: &StoreWriter<'_>) -> Outcome {
        let mut encoder = FrameEncoder::default();
        for part in &self.parts {
            let raw = &self.bytes[part.clone()];
            let (id, ty, len) = (Chunk.id_of(raw), Chunk, raw.len() as u32);
            if writer.claim(&id)? {
                let (file, at) = (&self.file, part.start as u64);
                let origin = Some(Origin { file, at });
                writer.append_read(&mut encoder, raw, &[FrameObject { id, ty, len }], origin)?;
            }
        }
        Ok(())
    }

    /// Returns how many parts a store has at the place of a block at which the file has them.
    fn check(&self, store: &Store) -> Outcome<usize> {
        let mut placed = 0;
        for part in &self.parts {
            let (raw, mut out) = (&self.bytes[part.clone()], Vec::new());
            let from = store.read_from(Chunk, &Chunk.id_of(raw), &mut out)?;
            assert!(out == raw);
            if let Some(BytesFrom::Pack { at, .. }) = from {
                placed += usize::from(at % BLOCK_BYTES == part.start as u64 % BLOCK_BYTES);
            }
        }
        let current = store.current();
        for &pack in current.tables.iter().flat_map(|table| table.packs()) {
            let path = store.pack_path(pack);
            let len = std::fs::metadata(&path)?.len();
            let (id, kind, poisoned) = (pack, PackKind::Data, false);
            let row = PackRow {
                id,
                kind,
                len,
                poisoned,
            };
            let report = verify_pack(store, &row, &mut |_| true)?;
            assert!(report.damage.is_empty(), "{:?}", report.damage);
        }
        Ok(placed)
    }
}

#[test]
fn frames_behind_gaps_are_read_verified_and_found_like_others() -> Outcome {
    for seed in 0..5 {
        let (dir, mut rng) = (tempfile::tempdir()?, Rng::new(seed));
        let parts = Parts::new(dir.path(), &mut rng)?;
        let first = store(dir.path())?;
        let writer = first.writer()?;
        parts.write(&writer)?;
        if rng.one_in(2) {
            // The job is killed. The next one takes its frames over.
            drop(writer);
            let second = first.writer()?;
            let known = parts.parts.iter().filter(|part| {
                let id = Chunk.id_of(&parts.bytes[(*part).clone()]);
                second.claim(&id).is_ok_and(|is_new| !is_new)
            });
            assert_eq!(known.count(), parts.parts.len());
            first.adopt(&second.finish()?);
        } else {
            first.adopt(&writer.finish()?);
        }
        assert!(parts.check(&first)? > 10);
    }
    Ok(())
}

#[test]
fn a_full_list_of_gaps_is_not_exceeded() -> Outcome {
    let dir = tempfile::tempdir()?;
    let store = store(dir.path())?;
    let writer = store.writer()?;
    let lane = &writer.lanes[0];
    let mut state = lock(&lane.state);
    let pack = writer.pack_of_lane(lane, &mut state)?;
    assert!(pack.leave_gap(100, 5) < BLOCK_BYTES);
    assert_eq!((pack.offset + 100) % BLOCK_BYTES, 5);
    pack.gaps = vec![(0, 0); MAX_GAPS];
    assert_eq!(pack.leave_gap(100, 6), 0);
    Ok(())
}
