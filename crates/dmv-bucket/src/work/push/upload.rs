//! Packs on their way to the store: in one request, or in parts that several threads upload.
//!
//! A [`PartSink`] collects the bytes of one pack. At most [`WORKERS`] parts are in memory besides the
//! one that each open sink fills.

use super::upload_log::{ResumedUpload, UploadLog};
use crate::files::{FileFailure, Files};
use crate::format::{Age, Name, Row};
use dmv_core::hash::ObjectId;
use dmv_core::object::ObjectType;
use dmv_core::store::{RepositoryId, random_bytes};
use dmv_core::threads;
use dmv_net::trouble::Trouble;
use std::io::{self, Write};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Length of a part, except the last one of a pack. A pack of 1 GiB has 57. Tests of this crate have small parts, so
/// that a few MiB are several.
pub const PART_BYTES: usize = if cfg!(test) { 18 << 16 } else { 18 << 20 };
/// Parts that are uploaded at the same time.
const WORKERS: usize = 6;

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An upload in parts.
struct OpenUpload {
    name: Name,
    path: String,
    upload: String,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The ids of the parts that the store has.
    ids: Vec<Option<String>>,
    stored: usize,
    /// The number of parts and the row, once the last byte is known.
    ended: Option<(usize, Row)>,
}

enum Task {
    Part(Arc<OpenUpload>, usize, Vec<u8>),
    Whole(String, Vec<u8>),
}

/// The uploads of a push.
pub struct Uploads<'u> {
    files: &'u dyn Files,
    repository: RepositoryId,
    /// The age of the root for which the push prepares.
    age: Age,
    note: &'u UploadLog,
    give: SyncSender<Task>,
    failed: &'u Mutex<Option<FileFailure>>,
}

/// Runs `work` with uploads, and waits for their end.
///
/// If an upload fails, `work` gets an error from its sink. Then that failure is returned, not the
/// result of `work`.
pub fn with_uploads<T>(
    files: &dyn Files,
    repository: RepositoryId,
    age: Age,
    note: &UploadLog,
    work: impl FnOnce(&Uploads<'_>) -> T,
) -> Result<T, FileFailure> {
    let failed = Mutex::new(None);
    let (give, take) = sync_channel(0);
    let take = Mutex::new(take);
    let done = std::thread::scope(|scope| {
        for n in 0..WORKERS {
            // One is enough.
            match threads::start_in(scope, || carry(files, note, &take, &failed)) {
                Err(e) if n == 0 => {
                    let trouble = Trouble::Other(e.to_string());
                    return Err(FileFailure::Trouble(trouble));
                }
                _ => {}
            }
        }
        let uploads = Uploads {
            files,
            repository,
            age,
            note,
            give,
            failed: &failed,
        };
        Ok(work(&uploads))
    });
    match failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
        Some(failed) => Err(failed),
        None => done,
    }
}

fn carry(
    files: &dyn Files,
    note: &UploadLog,
    take: &Mutex<Receiver<Task>>,
    failed: &Mutex<Option<FileFailure>>,
) {
    loop {
        let Ok(task) = lock(take).recv() else {
            return;
        };
        if lock(failed).is_some() {
            continue;
        }
        let done = match task {
            Task::Whole(path, bytes) => files.write(&path, bytes),
            Task::Part(open, number, bytes) => put_part(files, note, &open, number, bytes),
        };
        if let Err(e) = done {
            lock(failed).get_or_insert(e);
        }
    }
}

fn put_part(
    files: &dyn Files,
    note: &UploadLog,
    open: &OpenUpload,
    number: usize,
    bytes: Vec<u8>,
) -> Result<(), FileFailure> {
    let print = print_of(&bytes);
    let id = files.upload_part(&open.path, &open.upload, number, bytes);
    let id = id.inspect_err(|e| {
        if *e == FileFailure::Missing {
            // The store has given the upload up. The next push begins the pack again.
            note.forget(&open.name);
        }
    })?;
    note.part(&open.name, number, &print, &id);
    open.stored(files, note, number, id)
}

/// Returns what identifies the bytes of a part.
fn print_of(bytes: &[u8]) -> ObjectId {
    ObjectType::Chunk.id_of(bytes)
}

impl OpenUpload {
    /// Notes that a part is stored. Ends the upload with the last one.
    fn stored(
        &self,
        files: &dyn Files,
        note: &UploadLog,
        number: usize,
        id: String,
    ) -> Result<(), FileFailure> {
        let mut state = lock(&self.state);
        if state.ids.len() <= number {
            state.ids.resize(number + 1, None);
        }
        state.stored += usize::from(state.ids[number].replace(id).is_none());
        self.end_if_complete(files, note, state)
    }

    fn end_if_complete(
        &self,
        files: &dyn Files,
        note: &UploadLog,
        state: MutexGuard<'_, State>,
    ) -> Result<(), FileFailure> {
        let Some((_, row)) = state.ended.filter(|(parts, _)| *parts == state.stored) else {
            return Ok(());
        };
        let ids: Vec<String> = state.ids.iter().flatten().cloned().collect();
        drop(state);
        files.end_upload(&self.path, &self.upload, &ids, row.len)?;
        note.done(&self.name);
        Ok(())
    }
}

impl<'u> Uploads<'u> {
    /// Returns a sink for a new pack. A pack of chunks `goes_on` where an earlier push was cut.
    pub fn begin(&self, goes_on: bool) -> PartSink<'_, 'u> {
        let resumed = if goes_on {
            self.note.take_upload()
        } else {
            None
        };
        let resumed = resumed.and_then(|(resumed, age)| {
            if age == self.age {
                return Some(resumed);
            }
            // Its name may be burnt, or some of its content purged.
            let path = resumed.name.path(self.repository);
            let _ = self.files.drop_upload(&path, &resumed.upload);
            self.note.forget(&resumed.name);
            None
        });
        let name = match &resumed {
            Some(resumed) => resumed.name,
            None => Name(random_bytes()),
        };
        PartSink {
            uploads: self,
            name,
            path: name.path(self.repository),
            bytes: Vec::new(),
            parts: 0,
            open: None,
            resumed,
            is_noted: goes_on,
        }
    }

    fn give(&self, task: Task) -> io::Result<()> {
        let given = self.give.send(task);
        if lock(self.failed).is_some() || given.is_err() {
            Err(io::Error::other("an upload has failed"))
        } else {
            Ok(())
        }
    }

    fn fail(&self, failed: FileFailure) -> io::Error {
        lock(self.failed).get_or_insert(failed);
        io::Error::other("an upload has failed")
    }
}

/// The bytes of one pack.
pub struct PartSink<'s, 'u> {
    uploads: &'s Uploads<'u>,
    name: Name,
    path: String,
    bytes: Vec<u8>,
    parts: usize,
    open: Option<Arc<OpenUpload>>,
    resumed: Option<ResumedUpload>,
    /// Whether the note keeps its parts.
    is_noted: bool,
}

impl PartSink<'_, '_> {
    /// Returns the name of the pack.
    pub fn name(&self) -> Name {
        self.name
    }

    /// Returns whether the pack goes up in parts.
    pub fn is_in_parts(&self) -> bool {
        self.parts > 0
    }

    /// Replaces the first bytes of the pack. They must not be on their way yet.
    pub fn replace_start(&mut self, with: &[u8]) {
        assert_eq!(self.parts, 0, "the first part is in memory");
        self.bytes[..with.len()].copy_from_slice(with);
    }

    /// Ends the pack. `tail` are its bytes from the end of its frames on, for the note.
    pub fn end(mut self, row: Row, tail: &[u8]) -> io::Result<()> {
        if self.parts == 0 {
            if let Some(resumed) = self.resumed.take() {
                // It has become smaller than one part.
                let _ = self.uploads.files.drop_upload(&self.path, &resumed.upload);
                self.uploads.note.forget(&self.name);
            }
            let bytes = std::mem::take(&mut self.bytes);
            return self.uploads.give(Task::Whole(self.path, bytes));
        }
        if !self.bytes.is_empty() {
            self.send_part()?;
        }
        let Some(open) = self.open.take() else {
            return Err(io::Error::other("the upload of a pack did not begin"));
        };
        let (files, note) = (self.uploads.files, self.uploads.note);
        if self.is_noted {
            note.ended(&row, self.parts, self.uploads.age, tail);
        }
        let mut state = lock(&open.state);
        state.ended = Some((self.parts, row));
        let done = open.end_if_complete(files, note, state);
        done.map_err(|e| self.uploads.fail(e))
    }

    fn send_part(&mut self) -> io::Result<()> {
        let bytes = std::mem::take(&mut self.bytes);
        let number = self.parts;
        self.parts += 1;
        let open = match &self.open {
            Some(open) => Arc::clone(open),
            None => {
                let open = Arc::new(self.begin_upload()?);
                self.open = Some(Arc::clone(&open));
                open
            }
        };
        let noted = self.resumed.as_ref().and_then(|r| r.parts.get(&number));
        if let Some((print, id)) = noted {
            let (files, note) = (self.uploads.files, self.uploads.note);
            if *print == print_of(&bytes) {
                let done = open.stored(files, note, number, id.clone());
                return done.map_err(|e| self.uploads.fail(e));
            }
            note.stale(&self.name, number);
        }
        self.uploads.give(Task::Part(open, number, bytes))
    }

    fn begin_upload(&mut self) -> io::Result<OpenUpload> {
        let upload = match &self.resumed {
            Some(resumed) => resumed.upload.clone(),
            None => {
                let begun = self.uploads.files.begin_upload(&self.path);
                let upload = begun.map_err(|e| self.uploads.fail(e))?;
                if self.is_noted {
                    let age = self.uploads.age;
                    self.uploads.note.upload(&self.name, age, &upload);
                }
                upload
            }
        };
        Ok(OpenUpload {
            name: self.name,
            path: self.path.clone(),
            upload,
            state: Mutex::default(),
        })
    }
}

impl Write for PartSink<'_, '_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.bytes.len() == PART_BYTES {
            self.send_part()?;
        }
        let n = bytes.len().min(PART_BYTES - self.bytes.len());
        if self.bytes.capacity() < self.bytes.len() + n {
            let room = (2 * (self.bytes.len() + n)).min(PART_BYTES);
            self.bytes.reserve_exact(room - self.bytes.len());
        }
        self.bytes.extend_from_slice(&bytes[..n]);
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
