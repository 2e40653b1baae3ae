//! Passes the bytes of stored files to `worktree`, which writes them to disk.

use crate::fsutil::SafeDir;
use crate::hash::ObjectId;
use crate::job::{Job, Moment};
use crate::limits::MAX_FRAME_BYTES;
use crate::object::list::{Blob, BlobChunks};
use crate::platform::{BLOCK_BYTES, Origin, name_of};
use crate::repo::base::error::RepoError;
use crate::repo::base::repo::Repo;
use crate::repo::look::content::read_chunk;
use crate::store::{BytesFrom, PackId, SHARED_FROM_BYTES};
use crate::threads::start_in;
use crate::worktree::checkout::{Content, Piece, Plan, Sink};
use crossbeam_channel::bounded;
use std::error::Error;
use std::io;
use std::path::Path;
use std::sync::OnceLock;

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
    /// The chunks, with their lengths, whose bytes a pack has and nobody has read.
    unread: Vec<(ObjectId, u64)>,
    /// The number of all bytes.
    len: u64,
    /// The pack that has the same bytes in a row, and their offset there.
    place: Option<(PackId, u64)>,
}

impl Batch {
    /// Returns whether bytes with this place can be added.
    fn goes_on_at(&self, place: Option<(PackId, u64)>) -> bool {
        self.len == 0 || place == self.place.map(|(pack, at)| (pack, at + self.len))
    }

    fn is_full(&self) -> bool {
        let most = match self.place {
            Some(_) => SHARED_BATCH_BYTES,
            None => BATCH_BYTES,
        };
        self.len >= most as u64
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.unread.clear();
        (self.len, self.place) = (0, None);
    }
}

/// The store as a source of file content. Every chunk is verified before it is passed on, unless a sample is enough
/// where blocks are shared.
pub struct StoreContent<'a> {
    repo: &'a Repo,
    /// The directory that the files are below.
    root: &'a SafeDir,
    samples: OnceLock<bool>,
}

impl<'a> StoreContent<'a> {
    /// Returns the content for files below `root`.
    pub fn new(repo: &'a Repo, root: &'a SafeDir) -> StoreContent<'a> {
        StoreContent {
            repo,
            root,
            samples: OnceLock::new(),
        }
    }

    fn root(&self) -> &Path {
        Path::new(name_of(self.root.path()))
    }

    /// Fails if large files of a plan have to share blocks with packs and cannot.
    pub fn check_sharing(&self, plan: &Plan<Blob>) -> Result<(), RepoError> {
        let mut files = plan.files.iter();
        if files.any(|file| file.blob.size >= SHARED_FROM_BYTES) {
            self.repo.store.check_sharing_with(self.root())?;
        }
        Ok(())
    }

    fn pump(&self, blob: Blob, emit: &mut Emit<'_>) -> Result<(), Box<dyn Error + Send + Sync>> {
        let chunks = BlobChunks::new(self.repo.objects(), blob);
        let shares = self.may_share(&blob);
        let mut batch = Batch::default();
        if shares {
            self.pump_shared(chunks, &mut batch, emit)?;
        } else {
            for chunk in chunks {
                let (_, id, len) = chunk.map_err(RepoError::from)?;
                read_chunk(self.repo, &id, len, &mut batch.bytes)?;
                batch.len += len;
                if batch.is_full() {
                    emit(&mut batch)?;
                    batch.clear();
                }
            }
        }
        match batch.len {
            0 => Ok(()),
            _ => emit(&mut batch),
        }
    }

    /// Passes on a file whose blocks may be shared: bytes that lie in a row in a pack go together.
    fn pump_shared(
        &self,
        chunks: BlobChunks<'_>,
        batch: &mut Batch,
        emit: &mut Emit<'_>,
    ) -> Result<(), Box<dyn Error + Send + Sync>> {
        let store = &self.repo.store;
        let samples = *self
            .samples
            .get_or_init(|| store.samples_blocks_in(self.root()));
        let (mut is_read, mut bytes) = (true, Vec::new());
        for chunk in chunks {
            let (offset, id, len) = chunk.map_err(RepoError::from)?;
            if batch.len == 0 {
                is_read = !samples || store.reads_next_sample();
            }
            let level = |(_, at): &(PackId, u64)| at % BLOCK_BYTES == offset % BLOCK_BYTES;
            let raw = (!is_read).then(|| store.raw_place(&id, len)).flatten();
            let unread = raw.filter(level);
            let place = match unread {
                Some(place) => Some(place),
                None => match read_chunk(self.repo, &id, len, &mut bytes)? {
                    BytesFrom::Pack { pack, at } => Some((pack, at)).filter(level),
                    BytesFrom::Memory => None,
                },
            };
            let is_same = batch.unread.is_empty() == unread.is_none();
            if batch.len > 0 && !(is_same && batch.goes_on_at(place)) {
                emit(batch)?;
                batch.clear();
            }
            if batch.len == 0 {
                batch.place = place;
            }
            match unread {
                Some(_) => batch.unread.push((id, len)),
                None => batch.bytes.append(&mut bytes),
            }
            batch.len += len;
            if batch.is_full() {
                emit(batch)?;
                batch.clear();
            }
        }
        Ok(())
    }

    fn write(
        &self,
        batch: &Batch,
        sink: &mut Sink<'_>,
    ) -> Result<(), Box<dyn Error + Send + Sync>> {
        let pack = batch.place.and_then(|(pack, at)| {
            // If it cannot be opened any more, the bytes are written.
            let file = self.repo.store.pack_file(pack).ok()?;
            Some((file, at))
        });
        let origin = pack.as_ref().and_then(|(file, at)| {
            let file = file.system()?;
            Some(Origin { file, at: *at })
        });
        if batch.unread.is_empty() {
            return Ok(sink(Piece::Read(&batch.bytes, origin))?);
        }
        if let Some(origin) = origin
            && sink(Piece::Unread(origin, batch.len)).is_ok()
        {
            return Ok(());
        }
        let mut bytes = Vec::new();
        for (id, len) in &batch.unread {
            read_chunk(self.repo, id, *len, &mut bytes)?;
        }
        Ok(sink(Piece::Read(&bytes, None))?)
    }
}

impl Content<Blob> for StoreContent<'_> {
    fn may_share(&self, blob: &Blob) -> bool {
        blob.size >= SHARED_FROM_BYTES && self.repo.store.may_share_blocks()
    }

    fn write_blob(
        &self,
        blob: &Blob,
        sink: &mut Sink<'_>,
    ) -> Result<(), Box<dyn Error + Send + Sync>> {
        if blob.size < PREFETCH_FROM_BYTES {
            return self.pump(*blob, &mut |batch| self.write(batch, sink));
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
            let (mut written, mut has_length) = (Ok(()), false);
            for batch in &full_out {
                if batch.place.is_some() && !has_length {
                    // If each piece made the file longer, XFS would prepare its new end to be zeroed.
                    written = sink(Piece::Length(blob.size)).map_err(Into::into);
                    has_length = true;
                }
                written = written.and_then(|()| self.write(&batch, sink));
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
    fn may_share(&self, blob: &Blob) -> bool {
        self.inner.may_share(blob)
    }

    fn write_blob(
        &self,
        blob: &Blob,
        sink: &mut Sink<'_>,
    ) -> Result<(), Box<dyn Error + Send + Sync>> {
        let progress = &self.job.progress;
        self.inner.write_blob(blob, &mut |piece| {
            sink(piece)?;
            Job::add(&progress.bytes, piece.bytes());
            Ok(())
        })?;
        Job::add(&progress.files, 1);
        Ok(())
    }

    fn replacing(&self) {
        self.job.reached(Moment::Replacing);
    }
}
