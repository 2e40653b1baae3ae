//! Reads the content of files into the store, on all cores, in bounded memory.
//!
//! ```text
//! tasks -> readers: open, read, cut -> hashers: hash, claim, compress, append -> collector
//! ```
//!
//! Every arrow is a bounded channel, and blocks circulate in a fixed pool of buffers. The collector
//! (the caller's thread) puts the chunks of large files back in order, and gets one report per
//! file. A file that changes while it is read is read again, and skipped after several attempts.
//! It is never stored as a mixture.

mod hashing;
mod settle;
mod task;

use self::hashing::hash_block;
use self::settle::{SETTLE_FROM_BYTES, same_file, settle};
pub(crate) use self::task::{Failure, IngestError, IngestResult, StoredFile, Task, TaskFile};
use super::join;
use super::properties::KeptProperties;
use crate::chunker::{Cutter, MAX_CUT_BYTES};
use crate::fsutil::{FileKind, FileStat, SafeDir, notice_mapped_writes, wait_for_write};
use crate::hash::ObjectId;
use crate::job::Job;
use crate::object::ObjectWrite;
use crate::object::list::{Blob, ListBuilder};
use crate::path::PathError;
use crate::platform::{has_attributes, has_hole};
use crate::store::{FRAME_TARGET_BYTES, FrameEncoder, SHARED_FROM_BYTES, StoreError, StoreWriter};
use crate::threads::{cores, start_in};
use crossbeam_channel::{Receiver, Sender, bounded, unbounded};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::File;
use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Bytes of a block's buffer: one frame, and the chunk that is still growing.
const BLOCK_BYTES: usize = FRAME_TARGET_BYTES + MAX_CUT_BYTES;
/// Files in a block. The data about each takes more memory than the content of a tiny file.
const BLOCK_PARTS: usize = 8 << 10;
/// Blocks in the pool: each reader and hasher holds one, and a few wait in between.
const BLOCKS: usize = 12;
/// Tasks that wait for a reader.
const TASKS: usize = 64;
/// Files in one task: enough to share the cost of opening their directory.
pub(crate) const TASK_FILES: usize = 128;
/// How often a file that keeps changing is read before it is skipped.
const ATTEMPTS: u32 = 3;

/// One part of a file in a block.
struct Part {
    key: u64,
    /// Position among the parts of its file.
    number: u32,
    chunks: usize,
    end: Option<End>,
}

/// What was read of a file besides its content.
struct ReadProperties {
    stat: FileStat,
    kept: Option<Box<KeptProperties>>,
    /// Whether it has extended attributes.
    attributes: bool,
}

/// What is known about a file once its last part has been read.
struct End {
    dir: usize,
    name: Box<[u8]>,
    outcome: Result<ReadProperties, Failure>,
    /// Set if these parts are void and the file is being read again.
    again: bool,
}

struct Block {
    buf: Vec<u8>,
    /// Length of each chunk in bytes, in order from the start of `buf`.
    cuts: Vec<u32>,
    parts: Vec<Part>,
    /// Where a file that does not change has all of these bytes.
    origin: Option<BlockOrigin>,
}

/// Bytes of a file that does not change, from an offset on.
struct BlockOrigin {
    file: Arc<File>,
    at: u64,
}

struct HashedFile {
    parts: Vec<Part>,
    chunks: Vec<(ObjectId, u32)>,
}

/// Runs `body` with a pipeline. Its threads end when `body` does.
pub(crate) fn with_ingest<T>(
    root: &SafeDir,
    writer: &StoreWriter<'_>,
    job: &Job,
    body: impl FnOnce(&mut Ingest<'_>) -> Result<T, IngestError>,
) -> Result<T, IngestError> {
    let workers = cores().max(2);
    let (task_in, task_out) = bounded::<Task>(TASKS);
    let (block_in, block_out) = bounded::<Block>(BLOCKS);
    let (free_in, free_out) = bounded::<Vec<u8>>(BLOCKS + workers);
    // Unbounded, but never longer than the blocks in flight and the files of the tasks.
    let (done_in, done_out) = unbounded::<Result<HashedFile, StoreError>>();
    for _ in 0..BLOCKS {
        free_in
            .send(Vec::new())
            .expect("the pool has room for every block");
    }
    let (next_key, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let mut started = 0;
        for _ in 0..workers {
            let reader = Reader {
                root,
                writer,
                job,
                cutter: Cutter::new(),
                blocks: block_in.clone(),
                free: free_out.clone(),
                next_key: &next_key,
                is_over: &is_over,
                looks: true,
                open: None,
            };
            let tasks = task_out.clone();
            let reading = start_in(scope, move || reader.run(&tasks));
            let (blocks, done, free) = (block_out.clone(), done_in.clone(), free_in.clone());
            let hash = move || hash_blocks(&blocks, &done, &free, writer, job);
            match reading.and_then(|_| start_in(scope, hash)) {
                Ok(_) => started += 1,
                // The threads that there are do the work.
                Err(_) if started > 0 => break,
                Err(e) => {
                    // A reader may already wait for its first task.
                    drop((task_in, task_out));
                    return Err(e.into());
                }
            }
        }
        // Only the threads' own ends may keep the channels open.
        drop((task_out, block_in, block_out, free_in, free_out, done_in));
        let mut ingest = Ingest {
            tasks: Some(task_in),
            done: done_out,
            job,
            refused: writer.refused(),
            pending: 0,
            files: HashMap::new(),
        };
        let result = body(&mut ingest);
        if result.is_err() {
            // The caller may go on with its job.
            is_over.store(true, Ordering::Relaxed);
        }
        drop(ingest);
        result
    })
}

/// The caller's end of the pipeline.
pub(crate) struct Ingest<'a> {
    tasks: Option<Sender<Task>>,
    done: Receiver<Result<HashedFile, StoreError>>,
    job: &'a Job,
    /// Chunks that must not be stored.
    refused: Arc<BTreeSet<ObjectId>>,
    pending: usize,
    /// Files with several parts, or whose parts arrived out of order.
    files: HashMap<u64, OpenFile>,
}

#[derive(Default)]
struct OpenFile {
    builder: ListBuilder,
    /// Whether a chunk of it was not stored.
    is_refused: bool,
    next: u32,
    early: BTreeMap<u32, (Part, Vec<(ObjectId, u32)>)>,
}

impl Ingest<'_> {
    /// Submits a task. While there is no room for it, reports finished files to `on_done`.
    pub fn submit(
        &mut self,
        task: Task,
        meta: &mut dyn ObjectWrite,
        on_done: &mut dyn FnMut(IngestResult, &mut dyn ObjectWrite) -> Result<(), IngestError>,
    ) -> Result<(), IngestError> {
        self.pending += task.files.len();
        let sender = self
            .tasks
            .clone()
            .expect("tasks are submitted before the end");
        let mut task = Some(task);
        while let Some(next) = task.take() {
            self.job.check()?;
            // Take the finished blocks first: they occupy memory.
            if let Ok(hashed) = self.done.try_recv() {
                task = Some(next);
                self.take(hashed?, meta, on_done)?;
                continue;
            }
            match sender.try_send(next) {
                Ok(()) => {}
                Err(crossbeam_channel::TrySendError::Full(next)) => {
                    task = Some(next);
                    let hashed = self.done.recv().map_err(|_| IngestError::Cancelled)?;
                    self.take(hashed?, meta, on_done)?;
                }
                Err(crossbeam_channel::TrySendError::Disconnected(_)) => {
                    return Err(IngestError::Cancelled);
                }
            }
        }
        Ok(())
    }

    /// Waits until every submitted file has been reported.
    pub fn finish(
        &mut self,
        meta: &mut dyn ObjectWrite,
        on_done: &mut dyn FnMut(IngestResult, &mut dyn ObjectWrite) -> Result<(), IngestError>,
    ) -> Result<(), IngestError> {
        self.tasks = None;
        while self.pending > 0 {
            self.job.check()?;
            let hashed = self.done.recv().map_err(|_| IngestError::Cancelled)?;
            self.take(hashed?, meta, on_done)?;
        }
        Ok(())
    }

    fn take(
        &mut self,
        hashed: HashedFile,
        meta: &mut dyn ObjectWrite,
        on_done: &mut dyn FnMut(IngestResult, &mut dyn ObjectWrite) -> Result<(), IngestError>,
    ) -> Result<(), IngestError> {
        let mut chunks = hashed.chunks.into_iter();
        for part in hashed.parts {
            let own: Vec<(ObjectId, u32)> = chunks.by_ref().take(part.chunks).collect();
            let key = part.key;
            if let (0, [(id, len)], Some(end)) = (part.number, own.as_slice(), &part.end)
                && !end.again
                && end.outcome.is_ok()
            {
                // Most files have one part of one chunk.
                let blob = Blob {
                    id: *id,
                    is_list: false,
                    size: u64::from(*len),
                };
                let end = part.end.expect("matched just above");
                let content = match end.outcome {
                    Ok(_) if self.refused.contains(id) => Err(Failure::Purged(*id)),
                    outcome => outcome.map(|read| (blob, read)),
                };
                self.report(end.dir, end.name, content, meta, on_done)?;
                continue;
            }
            let mut file = self.files.remove(&key).unwrap_or_default();
            file.early.insert(part.number, (part, own));
            let mut ended = false;
            while let Some((part, own)) = file.early.remove(&file.next) {
                file.next += 1;
                for (id, len) in own {
                    file.is_refused |= self.refused.contains(&id);
                    file.builder.push(id, u64::from(len), meta)?;
                }
                let Some(end) = part.end else { continue };
                ended = true;
                if end.again {
                    break;
                }
                let content = match end.outcome {
                    Ok(stat) => {
                        let blob = std::mem::take(&mut file.builder).finish(meta)?;
                        if file.is_refused {
                            Err(Failure::Purged(blob.id))
                        } else {
                            Ok((blob, stat))
                        }
                    }
                    Err(failure) => Err(failure),
                };
                self.report(end.dir, end.name, content, meta, on_done)?;
            }
            if !ended {
                self.files.insert(key, file);
            }
        }
        Ok(())
    }

    fn report(
        &mut self,
        dir: usize,
        name: Box<[u8]>,
        content: Result<(Blob, ReadProperties), Failure>,
        meta: &mut dyn ObjectWrite,
        on_done: &mut dyn FnMut(IngestResult, &mut dyn ObjectWrite) -> Result<(), IngestError>,
    ) -> Result<(), IngestError> {
        let result = content.and_then(|(blob, read)| {
            let ReadProperties {
                stat,
                kept,
                attributes,
            } = read;
            // Whatever goes wrong, chunks of another file must never pass as those of this one.
            if blob.size == stat.size || stat.kind != FileKind::File {
                Ok(StoredFile {
                    blob,
                    stat,
                    kept,
                    attributes,
                })
            } else {
                Err(Failure::Changed)
            }
        });
        self.pending -= 1;
        on_done(IngestResult { dir, name, result }, meta)
    }
}

/// Reads files into blocks.
struct Reader<'a> {
    root: &'a SafeDir,
    writer: &'a StoreWriter<'a>,
    job: &'a Job,
    cutter: Cutter,
    blocks: Sender<Block>,
    free: Receiver<Vec<u8>>,
    next_key: &'a AtomicU64,
    /// Whether nobody waits for the files any more.
    is_over: &'a AtomicBool,
    /// Whether to look for extended attributes.
    looks: bool,
    /// The block that is being filled with small files, and the number of bytes in it.
    open: Option<(Block, usize)>,
}

/// The threads behind have ended, so the work is over.
struct Over;

impl Reader<'_> {
    fn run(mut self, tasks: &Receiver<Task>) {
        loop {
            let task = match tasks.try_recv() {
                Ok(task) => task,
                Err(_) => {
                    // The thread that sends the next task may be waiting for the files in the open
                    // block.
                    if self.flush().is_err() {
                        return;
                    }
                    match tasks.recv() {
                        Ok(task) => task,
                        Err(_) => return,
                    }
                }
            };
            if self.is_stopped() || self.read_task(task).is_err() {
                return;
            }
        }
    }

    fn read_task(&mut self, task: Task) -> Result<(), Over> {
        let dir = self.root.open_dir(&task.path);
        self.looks = true;
        for file in task.files {
            if self.is_stopped() {
                return Err(Over);
            }
            match &dir {
                Ok(dir) => self.read_file(dir, task.dir, file)?,
                Err(e) => {
                    let path = join(&task.path, &file.name);
                    let error = PathError::new("open", path, io::Error::from(e.kind()));
                    self.fail(task.dir, file.name, error.into())?;
                }
            }
            Job::add(&self.job.progress.files, 1);
        }
        Ok(())
    }

    fn is_stopped(&self) -> bool {
        self.job.is_cancelled() || self.is_over.load(Ordering::Relaxed)
    }

    fn key(&self) -> u64 {
        self.next_key.fetch_add(1, Ordering::Relaxed)
    }

    /// Returns an open block with room for `bytes` more. Sends the present one off first if it is
    /// full.
    fn room(&mut self, bytes: usize) -> Result<&mut (Block, usize), Over> {
        if self.open.as_ref().is_some_and(|(block, used)| {
            used + bytes > FRAME_TARGET_BYTES
                || block.parts.len() >= BLOCK_PARTS
                || block.cuts.len() + 8 > usize::from(u16::MAX)
        }) {
            self.flush()?;
        }
        if self.open.is_none() {
            let mut buf = self.free.recv().map_err(|_| Over)?;
            // The system gives zeroed memory. To fill a new block would take longer than the rest of a small commit.
            if buf.len() < BLOCK_BYTES {
                buf = vec![0; BLOCK_BYTES];
            }
            self.open = Some((
                Block {
                    buf,
                    cuts: Vec::new(),
                    parts: Vec::new(),
                    origin: None,
                },
                0,
            ));
        }
        Ok(self.open.as_mut().expect("set just above"))
    }

    fn flush(&mut self) -> Result<(), Over> {
        match self.open.take() {
            Some((block, _)) => self.blocks.send(block).map_err(|_| Over),
            None => Ok(()),
        }
    }

    fn fail(&mut self, dir: usize, name: Box<[u8]>, failure: Failure) -> Result<(), Over> {
        let key = self.key();
        self.end_part(
            key,
            0,
            0,
            End {
                dir,
                name,
                outcome: Err(failure),
                again: false,
            },
        )
    }

    /// Ends a part in the block that contains its chunks.
    fn end_part(&mut self, key: u64, number: u32, chunks: usize, end: End) -> Result<(), Over> {
        if self.open.is_none() {
            self.room(0)?;
        }
        let (block, _) = self.open.as_mut().expect("opened just above");
        block.parts.push(Part {
            key,
            number,
            chunks,
            end: Some(end),
        });
        Ok(())
    }

    fn read_file(&mut self, dir: &SafeDir, number: usize, wanted: TaskFile) -> Result<(), Over> {
        let (name, properties) = (wanted.name, wanted.properties);
        if wanted.kind == FileKind::Symlink {
            return self.read_link(dir, number, name);
        }
        for attempt in 1..=ATTEMPTS {
            let last = attempt == ATTEMPTS;
            let (file, mut before) = match dir.open_file_read(&name) {
                Ok(opened) => opened,
                Err(e) => return self.fail(number, name, e.into()),
            };
            if before.size >= SETTLE_FROM_BYTES {
                match settle(&file, before) {
                    Some(settled) => before = settled,
                    None if last => return self.fail(number, name, Failure::Changed),
                    None => continue,
                }
            }
            if before.kind != FileKind::File {
                return self.fail(number, name, Failure::Replaced);
            }
            notice_mapped_writes(&file, &before);
            let key = self.key();
            let snapshot = match before.size {
                SHARED_FROM_BYTES.. => match self.writer.snapshot_of(&file) {
                    Ok(snapshot) => snapshot.map(Arc::new),
                    Err(_) => return self.fail(number, name, Failure::NotShared),
                },
                _ => None,
            };
            // Whatever happens to the file from here on, the snapshot stays.
            let copied = snapshot.as_ref().map(|_| dir.stat_open(&file));
            let small = before.size < FRAME_TARGET_BYTES as u64;
            let read = match &snapshot {
                Some(snapshot) => self.read_large(snapshot, key, Some(snapshot))?,
                None if small => self.read_small(&file, &before)?,
                None => self.read_large(&file, key, None)?,
            };
            let (number_of_part, chunks, outcome) = match read {
                Ok(read) => {
                    if before.size >= SETTLE_FROM_BYTES && copied.is_none() {
                        wait_for_write(&file);
                    }
                    let after = copied.unwrap_or_else(|| dir.stat_open(&file));
                    let same = after.is_ok_and(|a| same_file(&a, &before));
                    let whole = same && read.bytes == before.size;
                    let outcome = if whole {
                        before.sparse = before.sparse && has_hole(&file, before.size);
                        self.looks = self.looks && has_attributes(&file);
                        let kept = properties.read(&file, &before);
                        let kept = kept.map_err(|e| dir.error("read the attributes of", &name, e));
                        kept.map_err(Failure::Path).map(|kept| ReadProperties {
                            stat: before,
                            kept,
                            attributes: self.looks,
                        })
                    } else {
                        Err(Failure::Changed)
                    };
                    (read.part, read.chunks, outcome)
                }
                Err((part, e)) => {
                    let e = PathError::new("read", dir.path_of(&name), e);
                    (part, 0, Err(Failure::Path(e)))
                }
            };
            let again = !last && matches!(outcome, Err(Failure::Changed));
            let end = End {
                dir: number,
                name: name.clone(),
                outcome,
                again,
            };
            self.end_part(key, number_of_part, chunks, end)?;
            if snapshot.is_some() {
                // Its last block has the bytes of no other file.
                self.flush()?;
            }
            if !again {
                return Ok(());
            }
        }
        Ok(())
    }

    fn read_link(&mut self, dir: &SafeDir, number: usize, name: Box<[u8]>) -> Result<(), Over> {
        let read = dir
            .stat(&name)
            .and_then(|stat| Ok((stat, dir.readlink(&name)?)));
        let (stat, target) = match read {
            Ok(read) => read,
            Err(e) => return self.fail(number, name, e.into()),
        };
        if stat.kind != FileKind::Symlink {
            return self.fail(number, name, Failure::Replaced);
        }
        if target.is_empty() || target.len() > crate::limits::MAX_SYMLINK_BYTES {
            return self.fail(number, name, Failure::BadTarget);
        }
        let key = self.key();
        let (block, used) = self.room(target.len())?;
        block.buf[*used..*used + target.len()].copy_from_slice(&target);
        *used += target.len();
        block.cuts.push(target.len() as u32);
        self.end_part(
            key,
            0,
            1,
            End {
                dir: number,
                name,
                outcome: Ok(ReadProperties {
                    stat,
                    kept: None,
                    attributes: false,
                }),
                again: false,
            },
        )
    }

    /// Reads a file that fits completely into the open block.
    fn read_small(&mut self, file: &File, stat: &FileStat) -> Result<ReadResult, Over> {
        let size = stat.size as usize;
        // One byte more than expected shows that the file has grown.
        self.room(size + 1)?;
        let Some((block, used)) = self.open.as_mut() else {
            return Err(Over);
        };
        let n = match read_full(file, &mut block.buf[*used..*used + size + 1]) {
            Ok(n) => n,
            Err(e) => return Ok(Err((0, e))),
        };
        if n != size {
            return Ok(Ok(ReadFile {
                bytes: n as u64,
                part: 0,
                chunks: 0,
            }));
        }
        let (end, mut chunks) = (*used + n, 0);
        // An empty file is one chunk, too.
        while *used < end || chunks == 0 {
            let len = self.cutter.cut(&block.buf[*used..end]);
            block.cuts.push(len as u32);
            *used += len;
            chunks += 1;
        }
        Job::add(&self.job.progress.bytes, n as u64);
        Ok(Ok(ReadFile {
            bytes: n as u64,
            part: 0,
            chunks,
        }))
    }

    /// Reads and cuts a file. When it returns, all chunks except those of the last part have been
    /// sent off.
    ///
    /// `snapshot` is the file itself, if nothing can change it.
    fn read_large(
        &mut self,
        file: &File,
        key: u64,
        snapshot: Option<&Arc<File>>,
    ) -> Result<ReadResult, Over> {
        let (mut part, mut bytes) = (0, 0u64);
        // The bytes of the previous block that belong to an unfinished chunk.
        let mut carry: Vec<u8> = Vec::new();
        loop {
            // A large file shares a block with small ones only at its end.
            self.room(BLOCK_BYTES)?;
            let (mut block, _) = self.open.take().expect("room opens a block");
            block.buf[..carry.len()].copy_from_slice(&carry);
            let n = match read_full(file, &mut block.buf[carry.len()..]) {
                Ok(n) => n,
                Err(e) => {
                    self.open = Some((block, 0));
                    return Ok(Err((part, e)));
                }
            };
            block.origin = snapshot.map(|file| BlockOrigin {
                file: file.clone(),
                at: bytes - carry.len() as u64,
            });
            bytes += n as u64;
            Job::add(&self.job.progress.bytes, n as u64);
            let filled = carry.len() + n;
            let at_end = filled < block.buf.len();
            let (mut at, mut chunks) = (0, 0);
            while at < filled && (at_end || filled - at > MAX_CUT_BYTES) {
                let len = self.cutter.cut(&block.buf[at..filled]);
                block.cuts.push(len as u32);
                chunks += 1;
                at += len;
            }
            if at_end {
                self.open = Some((block, at));
                return Ok(Ok(ReadFile {
                    bytes,
                    part,
                    chunks,
                }));
            }
            carry.clear();
            carry.extend_from_slice(&block.buf[at..filled]);
            block.parts.push(Part {
                key,
                number: part,
                chunks,
                end: None,
            });
            part += 1;
            self.blocks.send(block).map_err(|_| Over)?;
            if self.is_stopped() {
                return Err(Over);
            }
        }
    }
}

/// A file that was read to its end: its length, and the part that is still open.
struct ReadFile {
    bytes: u64,
    part: u32,
    chunks: usize,
}

/// An error comes with the number of the part in which it occurred.
type ReadResult = Result<ReadFile, (u32, io::Error)>;

/// Reads until `buf` is full or the file ends.
fn read_full(mut file: &File, buf: &mut [u8]) -> io::Result<usize> {
    let mut done = 0;
    while done < buf.len() {
        match file.read(&mut buf[done..]) {
            Ok(0) => break,
            Ok(n) => done += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(done)
}

/// Hashes the chunks of blocks and stores the new ones.
fn hash_blocks(
    blocks: &Receiver<Block>,
    done: &Sender<Result<HashedFile, StoreError>>,
    free: &Sender<Vec<u8>>,
    writer: &StoreWriter<'_>,
    job: &Job,
) {
    let mut encoder = FrameEncoder::default();
    let mut picked = Vec::new();
    for block in blocks {
        let result = hash_block(&block, writer, &mut encoder, &mut picked, job);
        let failed = result.is_err();
        let hashed = result.map(|chunks| HashedFile {
            parts: block.parts,
            chunks,
        });
        // The pool never holds more buffers than there are blocks, so neither send can block.
        let _ = free.send(block.buf);
        if done.send(hashed).is_err() || failed {
            return;
        }
    }
}

#[cfg(test)]
mod tests;
