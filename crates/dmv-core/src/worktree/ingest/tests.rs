//! Tests of the pipeline as a whole.

use super::settle::{SETTLE, SETTLE_MAX, settles_in};
use super::*;
use crate::chunker::MIN_CUT_BYTES;
use crate::fsutil::stat_file;
use crate::object::ObjectType;
use crate::object::list::BlobChunks;
use crate::repo::{OperationRequest, Repo};
use crate::store::MetaWriter;
use dmv_random::noise;
use std::time::{Duration, UNIX_EPOCH};

/// Sizes at which the way of reading a file changes, each beside small files.
#[test]
fn files_of_every_size_keep_their_own_chunks() -> Result<(), Box<dyn std::error::Error>> {
    let dir = tempfile::tempdir()?;
    let time = crate::refs::Timestamp {
        seconds: 0,
        nanos: 0,
        tz_minutes: 0,
    };
    let request = OperationRequest {
        time,
        who: String::new(),
        command: String::new(),
    };
    let repo = Repo::init(&dir.path().join("r"), "main", false, request)?;
    let edges = [
        0,
        1,
        MIN_CUT_BYTES,
        FRAME_TARGET_BYTES,
        BLOCK_BYTES,
        3 * BLOCK_BYTES,
    ];
    let mut contents = Vec::new();
    for (n, edge) in edges.into_iter().enumerate() {
        for size in [edge.saturating_sub(1), edge, edge + 1, 100, 20_000] {
            contents.push(noise((contents.len() + n) as u64, size));
        }
    }
    let files = dir.path().join("files");
    std::fs::create_dir(&files)?;
    for (n, content) in contents.iter().enumerate() {
        std::fs::write(files.join(format!("{n:03}")), content)?;
    }
    let root = SafeDir::open_root(&files)?;
    let writer = repo.store().writer()?;
    let mut meta = MetaWriter::new(&writer);
    let job = Job::default();
    let mut blobs = HashMap::new();
    with_ingest(&root, &writer, &job, |ingest| {
        let mut on_done = |done: IngestResult, _: &mut dyn ObjectWrite| {
            let stored = done.result.expect("nothing changes here");
            blobs.insert(done.name, stored.blob);
            Ok(())
        };
        let names = (0..contents.len()).map(|n| format!("{n:03}").into_bytes());
        let files = names
            .map(|name: Vec<u8>| TaskFile::of_content(&name, FileKind::File))
            .collect();
        let task = Task {
            dir: 0,
            path: Arc::from(&b""[..]),
            files,
        };
        ingest.submit(task, &mut meta, &mut on_done)?;
        ingest.finish(&mut meta, &mut on_done)
    })?;
    meta.flush()?;
    repo.store().adopt(&writer.finish()?);
    for (n, content) in contents.iter().enumerate() {
        let blob = blobs[format!("{n:03}").as_bytes()];
        let mut bytes = Vec::new();
        for chunk in BlobChunks::new(repo.objects(), blob) {
            let (_, id, _) = chunk?;
            assert!(repo.store().read_into(ObjectType::Chunk, &id, &mut bytes)?);
        }
        assert!(bytes == *content, "file {n} of {} bytes", content.len());
    }
    Ok(())
}

#[test]
fn a_large_file_that_was_changed_just_now_has_to_settle() -> Result<(), Box<dyn std::error::Error>>
{
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("f");
    let stat = |size: u64| -> Result<FileStat, Box<dyn std::error::Error>> {
        let file = std::fs::File::create(&path)?;
        file.set_len(size)?;
        Ok(stat_file(&file)?)
    };
    let at = |stat: &FileStat| {
        UNIX_EPOCH + Duration::new(stat.mtime.seconds.unsigned_abs(), stat.mtime.nanos)
    };
    let small = stat(SETTLE_FROM_BYTES - 1)?;
    assert_eq!(settles_in(&small, at(&small), false), None);
    let large = stat(SETTLE_FROM_BYTES)?;
    assert_eq!(settles_in(&large, at(&large), false), Some(SETTLE));
    assert_eq!(settles_in(&large, at(&large) + SETTLE, false), None);
    assert_eq!(settles_in(&large, at(&large) - SETTLE, false), None);
    let huge = stat(1 << 40)?;
    assert_eq!(settles_in(&huge, at(&huge), false), Some(SETTLE_MAX));
    Ok(())
}
