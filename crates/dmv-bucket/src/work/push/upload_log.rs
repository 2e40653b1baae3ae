//! What a push notes on the device, so that the next one goes on where it was killed.
//!
//! The store lists no parts (docs/format/bucket.md asks for nothing that not every store has), so
//! the ids of parts are noted here. The note is a log of lines; a line that does not decode ends it.
//! It is not trusted with content: a part counts only if its bytes come out the same again, and a
//! finished pack only if its table is whole. Next to the note lie the tails of finished packs.
//!
//! One push at a time uses the note. Another one at the same time works without.

use crate::format::{Age, Name, Row, RowKind};
use crate::machines::UploadedPack;
use crate::work::cache::put;
use dmv_core::hash::{ObjectId, decode_hex, encode_hex};
use dmv_core::platform::{OwnAccess, append_only, create_own_dirs, open_own, try_lock};
use dmv_core::store::{RepositoryId, SegmentTail};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The greatest length of a note that is read.
const MAX_BYTES: u64 = 64 << 20;
/// The greatest accepted size of a noted tail in bytes.
const MAX_TAIL_BYTES: u64 = 64 << 20;

/// An upload that was not ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResumedUpload {
    /// The pack.
    pub name: Name,
    /// The id of the upload.
    pub upload: String,
    /// Its parts: what identifies the bytes, and the id that the store has given.
    pub parts: BTreeMap<usize, (ObjectId, String)>,
    /// How many uploads had begun before it.
    before: usize,
}

/// A pack of which all bytes are known, but the end of its upload is not noted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnendedPack {
    /// The pack.
    pub sent: UploadedPack,
    /// Its upload.
    pub upload: ResumedUpload,
    /// The number of its parts.
    parts: usize,
}

impl UnendedPack {
    /// Returns the ids of its parts, if the store has all of them.
    pub fn all_parts(&self) -> Option<Vec<String>> {
        let part = |n| self.upload.parts.get(&n).map(|(_, id)| id.clone());
        (0..self.parts).map(part).collect()
    }
}

#[derive(Default)]
struct State {
    file: Option<File>,
    /// How many uploads have begun.
    begun: usize,
    /// Uploads to go on with, in the order in which they began, and the counts of freed files then.
    uploads: Vec<(ResumedUpload, Age)>,
    sent: Vec<UploadedPack>,
    unended: Vec<UnendedPack>,
}

/// The note of a push.
#[derive(Default)]
pub struct UploadLog {
    dir: Option<PathBuf>,
    state: Mutex<State>,
}

impl UploadLog {
    /// Returns a note that keeps nothing.
    pub fn none() -> UploadLog {
        UploadLog::default()
    }

    /// Opens the note in `dir` about pushes to a repository in a bucket.
    ///
    /// If it cannot be used, nothing is noted.
    pub fn open(dir: &Path, repository: RepositoryId) -> UploadLog {
        UploadLog::open_in(dir, repository).unwrap_or_default()
    }

    fn open_in(dir: &Path, repository: RepositoryId) -> Option<UploadLog> {
        create_own_dirs(dir).ok()?;
        let file = open_own(&dir.join("note"), OwnAccess::Create).ok()?;
        let mut file = append_only(file).ok()?;
        try_lock(&file).ok()?;
        let mut text = String::new();
        let is_read = file.metadata().ok()?.len() <= MAX_BYTES
            && (&file).take(MAX_BYTES).read_to_string(&mut text).is_ok();
        let first = format!("repository {}\n", encode_hex(repository.as_bytes()));
        let mut state = State::default();
        match text.strip_prefix(&first).filter(|_| is_read) {
            Some(lines) => state.read(lines, dir),
            None => {
                file.set_len(0).ok()?;
                file.write_all(first.as_bytes()).ok()?;
            }
        }
        state.file = Some(file);
        Some(UploadLog {
            dir: Some(dir.to_owned()),
            state: Mutex::new(state),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the packs that are uploaded completely.
    pub fn sent(&self) -> Vec<UploadedPack> {
        self.state().sent.clone()
    }

    /// Returns the packs of which the end was not noted. A push that finds their files in the store calls
    /// [`done`](Self::done). For one that lacks parts, [`go_on_with`](Self::go_on_with) is called.
    pub fn unended(&self) -> Vec<UnendedPack> {
        self.state().unended.clone()
    }

    /// Returns the tail of a pack that was uploaded.
    pub fn tail(&self, row: &Row) -> Option<SegmentTail> {
        SegmentTail::decode(&self.tail_bytes(row)?, row.tail).ok()
    }

    /// Returns the bytes of that tail.
    pub fn tail_bytes(&self, row: &Row) -> Option<Vec<u8>> {
        read_tail(&self.tail_path(&row.name)?)
    }

    fn tail_path(&self, name: &Name) -> Option<PathBuf> {
        Some(self.dir.as_ref()?.join(name.to_string()))
    }

    /// Returns the next upload to go on with, each once, and the age of the root when it began.
    pub fn take_upload(&self) -> Option<(ResumedUpload, Age)> {
        let uploads = &mut self.state().uploads;
        (!uploads.is_empty()).then(|| uploads.remove(0))
    }

    /// Makes a pack that lacks parts an upload to go on with. Its end counts no more: its bytes may come
    /// out differently now.
    pub fn go_on_with(&self, name: &Name) {
        self.line(&format!("reopen {name}"));
        self.state().reopen(name);
    }

    /// Notes that an upload has begun.
    pub fn upload(&self, name: &Name, age: Age, upload: &str) {
        let upload = encode_hex(upload.as_bytes());
        let age = word_of(age);
        self.line(&format!("upload {name} {age} {upload}"));
    }

    /// Notes a part of the upload of a pack.
    pub fn part(&self, name: &Name, number: usize, print: &ObjectId, id: &str) {
        let id = encode_hex(id.as_bytes());
        self.line(&format!("part {name} {number} {print} {id}"));
    }

    /// Notes that a part will be replaced by other bytes.
    pub fn stale(&self, name: &Name, number: usize) {
        self.line(&format!("stale {name} {number}"));
    }

    /// Notes that the upload of a pack is not there any more.
    pub fn forget(&self, name: &Name) {
        self.line(&format!("forget {name}"));
    }

    /// Notes that all bytes of a pack are known, and its number of parts. They may still be on their way.
    pub fn ended(&self, row: &Row, parts: usize, age: Age, tail: &[u8]) {
        let Some(path) = self.tail_path(&row.name) else {
            return;
        };
        // Without the tail, the pack is uploaded again.
        if put(&path, tail).is_ok() {
            let Row {
                name,
                metadata,
                commits_end,
                tail,
                len,
                ..
            } = row;
            let age = word_of(age);
            self.line(&format!(
                "ended {name} {age} {metadata} {commits_end} {tail} {len} {parts}"
            ));
        }
    }

    /// Notes that a pack is uploaded completely.
    pub fn done(&self, name: &Name) {
        self.line(&format!("done {name}"));
    }

    /// Ends the note: the push is published, or nothing of it counts any more.
    pub fn clear(&self) {
        let Some(dir) = &self.dir else {
            return;
        };
        let mut state = self.state();
        for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
            if entry.file_name() != "note" {
                let _ = std::fs::remove_file(entry.path());
            }
        }
        // A reader takes what stays there for the log of another repository, and ignores it.
        if let Some(file) = &state.file {
            let _ = file.set_len(0);
        }
        *state = State::default();
    }

    fn line(&self, line: &str) {
        if let Some(file) = &mut self.state().file {
            // A note that cannot be written costs a repetition only.
            let _ = file.write_all(format!("{line}\n").as_bytes());
        }
    }
}

/// Returns the bytes of a tail that was noted.
fn read_tail(path: &Path) -> Option<Vec<u8>> {
    let file = open_own(path, OwnAccess::Read).ok()?;
    let mut bytes = Vec::new();
    file.take(MAX_TAIL_BYTES).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

impl State {
    fn read(&mut self, lines: &str, dir: &Path) {
        for line in lines.split_inclusive('\n') {
            let words: Option<Vec<&str>> = line.strip_suffix('\n').map(|l| l.split(' ').collect());
            if words.and_then(|words| self.take(&words)).is_none() {
                break;
            }
        }
        let has_tail = |row: &Row| {
            let bytes = read_tail(&dir.join(row.name.to_string()))?;
            SegmentTail::decode(&bytes, row.tail).ok()
        };
        let rows: Vec<Row> = self.unended.iter().map(|u| u.sent.row).collect();
        for row in rows.iter().filter(|row| has_tail(row).is_none()) {
            self.reopen(&row.name);
        }
    }

    fn take(&mut self, words: &[&str]) -> Option<()> {
        match *words {
            ["upload", name, age, upload] => {
                let resumed = ResumedUpload {
                    name: Name::from_hex(name)?,
                    upload: text_of(upload)?,
                    parts: BTreeMap::new(),
                    before: self.begun,
                };
                self.begun += 1;
                self.uploads.push((resumed, age_of(age)?));
            }
            ["part", name, number, print, id] => {
                let part = (ObjectId::from_hex(print)?, text_of(id)?);
                let number = number.parse().ok()?;
                if let Some(upload) = self.upload_of(&Name::from_hex(name)?) {
                    upload.parts.insert(number, part);
                }
            }
            ["stale", name, number] => {
                let number = number.parse().ok()?;
                if let Some(upload) = self.upload_of(&Name::from_hex(name)?) {
                    upload.parts.remove(&number);
                }
            }
            ["forget", name] => {
                let name = Name::from_hex(name)?;
                self.uploads.retain(|(upload, _)| upload.name != name);
                self.unended.retain(|ended| ended.sent.row.name != name);
            }
            ["reopen", name] => self.reopen(&Name::from_hex(name)?),
            ["ended", name, age, metadata, commits_end, tail, len, parts] => {
                let name = Name::from_hex(name)?;
                let row = Row {
                    generation: 1,
                    name,
                    kind: RowKind::Data,
                    metadata: metadata.parse().ok()?,
                    commits_end: commits_end.parse().ok()?,
                    tail: tail.parse().ok()?,
                    len: len.parse().ok()?,
                };
                let age = age_of(age)?;
                let parts = parts.parse().ok()?;
                self.reopen(&name);
                let at = self.uploads.iter().position(|(u, _)| u.name == name)?;
                let sent = UploadedPack { row, age };
                let (upload, _) = self.uploads.remove(at);
                self.unended.push(UnendedPack {
                    sent,
                    upload,
                    parts,
                });
            }
            ["done", name] => {
                let name = Name::from_hex(name)?;
                let found = self.unended.iter().position(|u| u.sent.row.name == name);
                let ended = found.map(|at| self.unended.remove(at).sent);
                self.sent.extend(ended);
            }
            _ => return None,
        }
        Some(())
    }

    /// Returns the upload of a pack. Its parts may be noted after the next one has begun.
    fn upload_of(&mut self, name: &Name) -> Option<&mut ResumedUpload> {
        let open = self.uploads.iter_mut().map(|(upload, _)| upload);
        let ended = self.unended.iter_mut().map(|ended| &mut ended.upload);
        open.chain(ended).find(|upload| upload.name == *name)
    }

    fn reopen(&mut self, name: &Name) {
        let found = self.unended.iter().position(|u| u.sent.row.name == *name);
        if let Some(UnendedPack { sent, upload, .. }) = found.map(|at| self.unended.remove(at)) {
            let before = |(other, _): &(ResumedUpload, Age)| other.before < upload.before;
            let at = self.uploads.partition_point(before);
            self.uploads.insert(at, (upload, sent.age));
        }
    }
}

/// Returns the word for an age: how often files were let go; and, if anything was purged, how often.
fn word_of(age: Age) -> String {
    match age.purged {
        0 => age.freed.to_string(),
        purged => format!("{}+{purged}", age.freed),
    }
}

fn age_of(word: &str) -> Option<Age> {
    let (freed, purged) = word.split_once('+').unwrap_or((word, "0"));
    Some(Age {
        freed: freed.parse().ok()?,
        purged: purged.parse().ok()?,
    })
}

fn text_of(hex: &str) -> Option<String> {
    String::from_utf8(decode_hex(hex)?).ok()
}
