//! Passes the bytes of stored files to `worktree`, which writes them to disk.

use crate::job::{Job, Moment};
use crate::object::list::{Blob, BlobChunks};
use crate::repo::base::error::RepoError;
use crate::repo::base::repo::Repo;
use crate::threads::start_in;
use crate::worktree::checkout::Content;
use crossbeam_channel::bounded;
use std::error::Error;
use std::io;

/// Files of at least this size are read and verified by one thread while another thread writes.
const PREFETCH_FROM_BYTES: u64 = 4 << 20;

/// The bytes that the reader passes to the writer at a time.
const BATCH_BYTES: usize = 1 << 20;

/// The most batches between the two threads.
const BATCHES: usize = 4;

type Emit<'e> = dyn FnMut(&mut Vec<u8>) -> Result<(), Box<dyn Error + Send + Sync>> + 'e;

/// The store as a source of file content. Every chunk is verified before it is passed on.
pub struct StoreContent<'a>(pub &'a Repo);

impl StoreContent<'_> {
    fn pump(&self, blob: Blob, emit: &mut Emit<'_>) -> Result<(), Box<dyn Error + Send + Sync>> {
        let mut batch = Vec::new();
        for chunk in BlobChunks::new(self.0.objects(), blob) {
            let (_, id, len) = chunk.map_err(RepoError::from)?;
            crate::repo::look::content::read_chunk(self.0, &id, len, &mut batch)?;
            if batch.len() >= BATCH_BYTES {
                emit(&mut batch)?;
                batch.clear();
            }
        }
        if batch.is_empty() {
            Ok(())
        } else {
            emit(&mut batch)
        }
    }
}

impl Content<Blob> for StoreContent<'_> {
    fn write_blob(
        &self,
        blob: &Blob,
        sink: &mut dyn FnMut(&[u8]) -> io::Result<()>,
    ) -> Result<(), Box<dyn Error + Send + Sync>> {
        if blob.size < PREFETCH_FROM_BYTES {
            return self.pump(*blob, &mut |batch| Ok(sink(batch)?));
        }
        let (full_in, full_out) = bounded::<Vec<u8>>(BATCHES);
        let (free_in, free_out) = bounded::<Vec<u8>>(BATCHES + 1);
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
                written = sink(&batch);
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
        sink: &mut dyn FnMut(&[u8]) -> io::Result<()>,
    ) -> Result<(), Box<dyn Error + Send + Sync>> {
        let progress = &self.job.progress;
        self.inner.write_blob(blob, &mut |bytes| {
            sink(bytes)?;
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
