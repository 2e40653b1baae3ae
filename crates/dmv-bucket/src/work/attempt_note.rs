//! What a device notes of an operation that it tries to publish at a bucket: its id, what it is to do, and
//! the attempts without an answer. So the same command, run again, recognises its own operation: it never
//! does a second time what has happened, or takes back the operation before it.
//!
//! The note is derived. Without it, a command that is run again looks at the bucket as it is. One command
//! at a time uses the note; another one at the same time works without.

use crate::machines::Attempt;
use dmv_core::hash::check;
use dmv_core::object::codec::{DecodeError, Decoder, put_bytes, put_varint};
use dmv_core::platform::{OwnAccess, create_own_dirs, open_own, try_lock};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;

/// The file below the directory of a bucket.
const FILE: &str = "unanswered";
/// The longest note.
const MAX_BYTES: usize = 16 << 20;
const CHECK_BYTES: usize = 8;

/// An operation that may have been published.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotedOperation {
    /// Its id.
    pub id: [u8; 16],
    /// What it is to do. The same command has the same text.
    pub aim: Vec<u8>,
    /// The attempts to publish it.
    pub attempt: Attempt,
}

/// The note.
#[derive(Debug, Default)]
pub struct AttemptNote {
    /// The locked file; `None`: nothing is noted.
    file: Option<File>,
    /// What the command is to do.
    aim: Vec<u8>,
    noted: Option<NotedOperation>,
}

impl AttemptNote {
    /// Returns a note that keeps nothing.
    pub fn none() -> AttemptNote {
        AttemptNote::default()
    }

    /// Opens the note in the directory of a bucket, for a command with this `aim`. If it cannot be used,
    /// nothing is noted.
    pub fn open(dir: Option<&Path>, aim: Vec<u8>) -> AttemptNote {
        let file = dir.and_then(open);
        let noted = file.as_ref().and_then(read);
        AttemptNote { file, aim, noted }
    }

    /// Returns the operation of an earlier command with the same aim, if it is unknown what became of it.
    pub fn noted(&self) -> Option<&NotedOperation> {
        self.noted.as_ref().filter(|noted| noted.aim == self.aim)
    }

    /// Returns the operation of an earlier command of whatever aim.
    pub fn any(&self) -> Option<&NotedOperation> {
        self.noted.as_ref()
    }

    /// Notes an attempt to publish an operation.
    pub fn keep(&mut self, id: [u8; 16], attempt: Option<Attempt>) {
        let Some(attempt) = attempt else {
            return;
        };
        let aim = self.aim.clone();
        let noted = NotedOperation { id, aim, attempt };
        if let Some(file) = &mut self.file {
            // What cannot be noted is not recognised later; nothing else depends on it.
            let _ = write(file, &encode(&noted));
        }
        self.noted = Some(noted);
    }

    /// Forgets the operation: its end is known.
    pub fn forget(&mut self) {
        self.noted = None;
        if let Some(file) = &mut self.file {
            // A note that stays is of an operation that the log has, or that is too late.
            let _ = file.set_len(0);
        }
    }
}

fn open(dir: &Path) -> Option<File> {
    create_own_dirs(dir).ok()?;
    let file = open_own(&dir.join(FILE), OwnAccess::Create).ok()?;
    try_lock(&file).ok()?;
    Some(file)
}

fn read(file: &File) -> Option<NotedOperation> {
    let mut bytes = Vec::new();
    let most = MAX_BYTES as u64 + 1024;
    { file }.take(most).read_to_end(&mut bytes).ok()?;
    let sum = bytes.split_off(bytes.len().checked_sub(CHECK_BYTES)?);
    if check(&[&bytes]) != *sum {
        return None;
    }
    decode(&bytes).ok()
}

fn write(file: &mut File, bytes: &[u8]) -> std::io::Result<()> {
    file.set_len(0)?;
    file.seek(SeekFrom::Start(0))?;
    file.write_all(&[bytes, &check(&[bytes])].concat())
}

fn encode(noted: &NotedOperation) -> Vec<u8> {
    let mut out = Vec::new();
    out.extend_from_slice(&noted.id);
    out.extend_from_slice(&noted.attempt.over);
    put_varint(&mut out, noted.attempt.seq);
    put_bytes(&mut out, &noted.aim);
    out
}

fn decode(bytes: &[u8]) -> Result<NotedOperation, DecodeError> {
    let mut input = Decoder::new(bytes);
    let mut sixteen = || -> Result<[u8; 16], DecodeError> {
        let bytes = input.take(16)?;
        Ok(bytes.try_into().expect("sixteen bytes"))
    };
    let (id, over) = (sixteen()?, sixteen()?);
    let seq = input.varint()?;
    let aim = input.bytes(MAX_BYTES, "aim is too long")?.to_vec();
    input.finish()?;
    let attempt = Attempt { seq, over };
    Ok(NotedOperation { id, aim, attempt })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attempt(seq: u64) -> Option<Attempt> {
        let over = [seq as u8; 16];
        Some(Attempt { seq, over })
    }

    #[test]
    fn an_attempt_is_noted_until_its_end_is_known_and_only_for_the_same_aim() -> std::io::Result<()>
    {
        let dir = tempfile::tempdir()?;
        let open = |aim: &str| AttemptNote::open(Some(dir.path()), aim.into());
        let mut note = open("undo");
        assert_eq!(note.noted(), None);
        note.keep([1; 16], attempt(3));
        note.keep([1; 16], attempt(4));
        assert_eq!(open("undo").noted(), None, "another process has it");
        drop(note);
        assert_eq!(open("redo").noted(), None);
        let mut note = open("undo");
        let noted = note.noted().expect("it was noted");
        assert_eq!((noted.id, Some(noted.attempt)), ([1; 16], attempt(4)));
        note.forget();
        drop(note);
        assert_eq!(open("undo").noted(), None);
        Ok(())
    }

    #[test]
    fn a_damaged_note_is_as_good_as_none() -> std::io::Result<()> {
        let dir = tempfile::tempdir()?;
        let path = dir.path().join(FILE);
        AttemptNote::open(Some(dir.path()), b"undo".to_vec()).keep([1; 16], attempt(3));
        let whole = std::fs::read(&path)?;
        for len in 0..whole.len() {
            std::fs::write(&path, &whole[..len])?;
            let note = AttemptNote::open(Some(dir.path()), b"undo".to_vec());
            assert_eq!(note.noted(), None, "{len} bytes");
        }
        let mut none = AttemptNote::none();
        none.keep([1; 16], attempt(3));
        assert!(none.noted().is_some(), "within the command it is known");
        Ok(())
    }
}
