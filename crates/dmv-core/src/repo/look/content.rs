//! Reading the content of files in commits.

use crate::hash::ObjectId;
use crate::limits::MAX_OBJECT_BYTES;
use crate::object::list::{Blob, BlobChunks};
use crate::object::name::RepoPath;
use crate::object::tree::{Kind, TreeEntry};
use crate::object::{ObjectError, ObjectRead, ObjectType};
use crate::path::PathContext;
use crate::repo::base::error::{AbsentError, LookError, RepoError};
use crate::repo::base::repo::Repo;
use crate::repo::look::entries::{Location, blob_of};
use crate::store::BytesFrom;
use crate::threads;
use std::io::Write;
use std::ops::Range;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{channel, sync_channel};
use std::sync::{Mutex, MutexGuard, PoisonError};

impl Repo {
    /// Writes the bytes in `range` of the file at `path` in the commit that `revision` names.
    ///
    /// Returns the number of bytes written. Fails with
    /// [`LookError::NoSuchPath`](crate::repo::LookError::NoSuchPath) if the commit has no file there.
    pub fn read_file(
        &self,
        revision: &str,
        path: &RepoPath,
        range: Option<Range<u64>>,
        out: &mut dyn Write,
    ) -> Result<u64, RepoError> {
        let commit = self.read_commit(&self.resolve(revision)?)?;
        match self.locate(revision, &commit, path)? {
            Location::Entry(e) if matches!(e.kind, Kind::File | Kind::Executable) => {
                self.cat(blob_of(&e), range, out)
            }
            _ => Err(LookError::NoSuchPath {
                revision: revision.to_owned(),
                path: path.into(),
            }
            .into()),
        }
    }

    /// Writes a file's bytes in `range` to `out`. Reads only the chunks that hold them.
    ///
    /// Returns the number of bytes written. Verifies each chunk before it writes any of it.
    pub fn cat(
        &self,
        blob: Blob,
        range: Option<Range<u64>>,
        out: &mut dyn Write,
    ) -> Result<u64, RepoError> {
        let range = range.unwrap_or(0..blob.size);
        let range = range.start..range.end.min(blob.size);
        if range.start >= range.end {
            return Ok(0);
        }
        let mut written = 0;
        let mut write = |bytes: &[u8]| {
            written += bytes.len() as u64;
            let done = out.write_all(bytes);
            done.context("write to", &b"output"[..])
                .map_err(RepoError::Io)
        };
        let is_long = range.end - range.start > PIECE_BYTES as u64;
        match is_long.then(ReadingAhead::begin).flatten() {
            Some(_turn) => read_ahead(self, blob, range, &mut write)?,
            None => read_here(self, blob, range, &mut write)?,
        }
        Ok(written)
    }
}

/// A file is read in pieces of whole chunks, of at most so many bytes. While one is written, the next is read.
const PIECE_BYTES: usize = MAX_OBJECT_BYTES;

/// The turn of the one caller in the process that reads ahead, with three pieces. Several that read at the same time keep
/// the processors busy without it, and each of them has one piece in memory.
struct ReadingAhead;

static IS_READING_AHEAD: AtomicBool = AtomicBool::new(false);

impl ReadingAhead {
    fn begin() -> Option<ReadingAhead> {
        let is_taken = IS_READING_AHEAD.swap(true, Ordering::AcqRel);
        (!is_taken).then_some(ReadingAhead)
    }
}

impl Drop for ReadingAhead {
    fn drop(&mut self) {
        IS_READING_AHEAD.store(false, Ordering::Release);
    }
}

/// Pieces of more bytes use memory that is kept for the next ones.
const SHORT_PIECE_BYTES: usize = 128 << 10;

/// So many pieces are kept: one for each request of a session, and those that are read ahead.
const MAX_SPARE_PIECES: usize = 12;

/// Memory that no piece uses just now. An allocator would keep as much for each thread that ever read a file.
static SPARE_PIECES: Mutex<Vec<Vec<u8>>> = Mutex::new(Vec::new());

/// A piece of a file in memory.
#[derive(Default)]
struct Piece(Vec<u8>);

impl Piece {
    /// Makes room for so many bytes, at most [`PIECE_BYTES`], in an empty piece. One that grew would need twice the memory
    /// meanwhile.
    fn reserve(&mut self, bytes: usize) {
        if self.0.capacity() >= bytes {
            return;
        }
        self.0 = match bytes {
            ..=SHORT_PIECE_BYTES => Vec::with_capacity(bytes),
            _ => spare_pieces()
                .pop()
                .unwrap_or_else(|| Vec::with_capacity(PIECE_BYTES)),
        };
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        let mut memory = std::mem::take(&mut self.0);
        if memory.capacity() == PIECE_BYTES {
            memory.clear();
            let mut spare = spare_pieces();
            if spare.len() < MAX_SPARE_PIECES {
                spare.push(memory);
            }
        }
    }
}

fn spare_pieces() -> MutexGuard<'static, Vec<Vec<u8>>> {
    SPARE_PIECES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Hands the bytes in `range` of a file to `take`, in pieces that are read by another thread.
fn read_ahead(
    repo: &Repo,
    blob: Blob,
    range: Range<u64>,
    take: &mut dyn FnMut(&[u8]) -> Result<(), RepoError>,
) -> Result<(), RepoError> {
    let (full, pieces) = sync_channel(1);
    let (used, spare) = channel();
    std::thread::scope(|scope| {
        let wanted = range.clone();
        let reader = threads::start_in(scope, move || {
            read_pieces(repo, blob, wanted, &mut |piece| {
                // Nobody takes further pieces after an error of the other side.
                full.send(piece).map_err(|_| RepoError::Cancelled)?;
                Ok(spare.try_recv().unwrap_or_default())
            })
        });
        let Ok(reader) = reader else {
            return read_here(repo, blob, range, take);
        };
        for piece in pieces {
            take(&piece.0)?;
            // The reader may be done.
            let _ = used.send(piece);
        }
        reader.join().unwrap_or_else(|panic| resume_unwind(panic))
    })
}

/// Hands the bytes in `range` of a file to `take`, in pieces.
fn read_here(
    repo: &Repo,
    blob: Blob,
    range: Range<u64>,
    take: &mut dyn FnMut(&[u8]) -> Result<(), RepoError>,
) -> Result<(), RepoError> {
    read_pieces(repo, blob, range, &mut |piece| {
        take(&piece.0)?;
        Ok(piece)
    })
}

/// Hands the bytes in `range` of a file to `take`, in pieces, and fills what that returns with the next piece. What was
/// read before an error is handed on.
fn read_pieces(
    repo: &Repo,
    blob: Blob,
    range: Range<u64>,
    take: &mut dyn FnMut(Piece) -> Result<Piece, RepoError>,
) -> Result<(), RepoError> {
    let mut piece = Piece::default();
    let add = |piece: &mut Piece, (offset, id, len): (u64, ObjectId, u64)| {
        if piece.0.is_empty() {
            let wanted = len.max(range.end - offset).min(PIECE_BYTES as u64);
            piece.reserve(wanted as usize);
        }
        let piece = &mut piece.0;
        let begin = piece.len();
        if let Err(e) = read_chunk(repo, &id, len, piece) {
            piece.truncate(begin);
            return Err(e);
        }
        piece.truncate(begin + (range.end - offset).min(len) as usize);
        piece.drain(begin..begin + range.start.saturating_sub(offset) as usize);
        Ok(())
    };
    let chunks = BlobChunks::starting_at(repo.objects(), blob, range.start);
    let is_wanted = |chunk: &Result<(u64, _, _), _>| match chunk {
        Ok((offset, ..)) => *offset < range.end,
        Err(_) => true,
    };
    for chunk in chunks.take_while(is_wanted) {
        if let Ok((.., len)) = &chunk
            && !piece.0.is_empty()
            && piece.0.len() as u64 + len > PIECE_BYTES as u64
        {
            piece = take(piece)?;
            piece.0.clear();
        }
        let added = chunk.map_err(RepoError::from);
        if let Err(e) = added.and_then(|chunk| add(&mut piece, chunk)) {
            take(piece)?;
            return Err(e);
        }
    }
    take(piece).map(drop)
}

/// Appends a chunk's verified bytes to `out`. Fails unless there are exactly `len` of them, the
/// length that its list or entry names. Returns where they come from.
pub fn read_chunk(
    repo: &Repo,
    id: &ObjectId,
    len: u64,
    out: &mut Vec<u8>,
) -> Result<BytesFrom, RepoError> {
    let start = out.len();
    let ty = ObjectType::Chunk;
    let made = if repo.made.is_empty() {
        None
    } else {
        repo.made.read(ty, id)?
    };
    let from = if let Some(bytes) = made {
        out.extend_from_slice(&bytes);
        BytesFrom::Memory
    } else {
        let from = repo.store.read_from(ty, id, out)?;
        match from {
            Some(from) => from,
            None if repo.read_lean(id, out) => BytesFrom::Memory,
            None => return Err(AbsentError::Object { id: *id, ty }.into()),
        }
    };
    if (out.len() - start) as u64 == len {
        return Ok(from);
    }
    let why = format!("it has {} bytes instead of {len}", out.len() - start);
    Err(ObjectError::Damaged { id: *id, ty, why }.into())
}

impl Repo {
    /// Returns a symlink's target.
    pub fn link_target(&self, entry: &TreeEntry) -> Result<Vec<u8>, RepoError> {
        let mut out = Vec::new();
        read_chunk(self, &entry.id, entry.size, &mut out)?;
        Ok(out)
    }
}
