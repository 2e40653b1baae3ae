//! Passes the bytes of stored files to `worktree`, which writes them to disk.

use crate::fsutil::SafeDir;
use crate::job::{Job, Moment};
use crate::limits::MAX_FRAME_BYTES;
use crate::object::list::{Blob, BlobChunks};
use crate::platform::{BLOCK_BYTES, Origin, name_of};
use crate::repo::base::error::RepoError;
use crate::repo::base::repo::Repo;
use crate::repo::look::content::read_chunk;
use crate::store::{BytesFrom, PackId, SHARED_FROM_BYTES};
use crate::threads::start_in;
use crate::worktree::checkout::{Content, Plan, Sink};
use crossbeam_channel::bounded;
use std::error::Error;
use std::io;
use std::path::Path;

/// Files of at least this size are read and verified by one thread while another thread writes. They are those
/// that share blocks with packs.
const PREFETCH_FROM_BYTES: u64 = SHARED_FROM_BYTES;

/// The bytes that the reader passes to the writer at a time.
const BATCH_BYTES: usize = 1 << 20;
/// The same for bytes whose blocks are shared: those of a frame.
const SHARED_BATCH_BYTES: usize = MAX_FRAME_BYTES;

/// The most batches between the two threads.
const BATCHES: usize = 4;

type Emit<'e> = dyn FnMut(&mut Batch) -> Result<(), Box<dyn Error + Send + Sync>> + 'e;

/// Bytes that are written together.
#[derive(Default)]
struct Batch {
    bytes: Vec<u8>,
    /// The pack that has the same bytes in a row, and their offset there.
    place: Option<(PackId, u64)>,
}

impl Batch {
    /// Returns whether bytes with this place can be added.
    fn goes_on_at(&self, place: Option<(PackId, u64)>) -> bool {
        let len = self.bytes.len() as u64;
        len == 0 || place == self.place.map(|(pack, at)| (pack, at + len))
    }

    fn is_full(&self) -> bool {
        let most = match self.place {
            Some(_) => SHARED_BATCH_BYTES,
            None => BATCH_BYTES,
        };
        self.bytes.len() >= most
    }
}

/// The store as a source of file content. Every chunk is verified before it is passed on.
pub struct StoreContent<'a>(pub &'a Repo);

impl StoreContent<'_> {
    /// Fails if large files of a plan have to share blocks with packs, and files below `root` cannot.
    pub fn check_sharing(&self, root: &SafeDir, plan: &Plan<Blob>) -> Result<(), RepoError> {
        let mut files = plan.files.iter();
        if files.any(|file| file.blob.size >= SHARED_FROM_BYTES) {
            let root = Path::new(name_of(root.path()));
            self.0.store.check_sharing_with(root)?;
        }
        Ok(())
    }

    fn pump(&self, blob: Blob, emit: &mut Emit<'_>) -> Result<(), Box<dyn Error + Send + Sync>> {
        let shares = blob.size >= SHARED_FROM_BYTES && self.0.store.may_share_blocks();
        let (mut batch, mut chunk_bytes) = (Batch::default(), Vec::new());
        for chunk in BlobChunks::new(self.0.objects(), blob) {
            let (offset, id, len) = chunk.map_err(RepoError::from)?;
            if !shares {
                read_chunk(self.0, &id, len, &mut batch.bytes)?;
            } else {
                let place = match read_chunk(self.0, &id, len, &mut chunk_bytes)? {
                    BytesFrom::Pack { pack, at } if at % BLOCK_BYTES == offset % BLOCK_BYTES => {
                        Some((pack, at))
                    }
                    _ => None,
                };
                if !batch.goes_on_at(place) {
                    emit(&mut batch)?;
                    batch.bytes.clear();
                }
                if batch.bytes.is_empty() {
                    batch.place = place;
                }
                batch.bytes.append(&mut chunk_bytes);
            }
            if batch.is_full() {
                emit(&mut batch)?;
                batch.bytes.clear();
            }
        }
        if batch.bytes.is_empty() {
            Ok(())
        } else {
            emit(&mut batch)
        }
    }

    fn write(&self, batch: &Batch, sink: &mut Sink<'_>) -> io::Result<()> {
        let pack = batch.place.and_then(|(pack, at)| {
            // If it cannot be opened any more, the bytes are written.
            let file = self.0.store.pack_file(pack).ok()?;
            Some((file, at))
        });
        let origin = pack.as_ref().and_then(|(file, at)| {
            let file = file.system()?;
            Some(Origin { file, at: *at })
        });
        sink(&batch.bytes, origin)
    }
}

impl Content<Blob> for StoreContent<'_> {
    fn write_blob(
        &self,
        blob: &Blob,
        sink: &mut Sink<'_>,
    ) -> Result<(), Box<dyn Error + Send + Sync>> {
        if blob.size < PREFETCH_FROM_BYTES {
            return self.pump(*blob, &mut |batch| Ok(self.write(batch, sink)?));
        }
        let (full_in, full_out) = bounded::<Batch>(BATCHES);
        let (free_in, free_out) = bounded::<Batch>(BATCHES + 1);
        std::thread::scope(|scope| {
            let reader = start_in(scope, move || {
                self.pump(*blob, &mut |batch| {
                    let next = free_out.try_recv().unwrap_or_default();
                    let full = std::mem::replace(batch, next);
                    // The writer has stopped. Its own error gives the reason.
                    full_in
                        .send(full)
                        .map_err(|_| io::Error::from(io::ErrorKind::BrokenPipe))?;
                    Ok(())
                })
            })?;
            let mut written = Ok(());
            for batch in &full_out {
                written = self.write(&batch, sink);
                if written.is_err() {
                    break;
                }
                let _ = free_in.try_send(batch);
            }
            drop(full_out);
            let read = reader.join().expect("the reader does not panic");
            written?;
            read
        })
    }
}

/// Counts the written bytes for progress reports.
pub struct CountingWriter<'a> {
    pub inner: StoreContent<'a>,
    pub job: &'a Job,
}

impl Content<Blob> for CountingWriter<'_> {
    fn write_blob(
        &self,
        blob: &Blob,
        sink: &mut Sink<'_>,
    ) -> Result<(), Box<dyn Error + Send + Sync>> {
        let progress = &self.job.progress;
        self.inner.write_blob(blob, &mut |bytes, origin| {
            sink(bytes, origin)?;
            Job::add(&progress.bytes, bytes.len() as u64);
            Ok(())
        })?;
        Job::add(&progress.files, 1);
        Ok(())
    }

    fn replacing(&self) {
        self.job.reached(Moment::Replacing);
    }
}
