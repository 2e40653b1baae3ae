//! The files of a bucket, as the engine sees them. A transport implements [`Files`] for a real
//! store; tests implement it in memory, with faults.
//!
//! Names are relative to the place of the repository in the store: `root`, or `ID/NAME`. Nothing
//! here knows what the files contain.

use crate::machines::Tag;
use dmv_net::trouble::Trouble;
use std::ops::Range;

#[cfg(test)]
pub(crate) mod memory;

/// Why an operation on a file failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileFailure {
    /// The file does not exist.
    Missing,
    /// The file is in the state that was named.
    Unchanged,
    /// The condition of a write does not hold.
    Refused,
    /// The range is outside of the file, or the file is longer than accepted.
    Length,
    /// Anything else. A write may have been carried out, and may still be.
    Trouble(Trouble),
}

/// A file, as a listing names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BucketFile {
    /// Its name.
    pub name: String,
    /// Its length in bytes.
    pub len: u64,
    /// When it was last written, in seconds since 1970 by the store's clock.
    pub written: i64,
}

/// Reads and writes files of a bucket.
///
/// Each call blocks its thread until the store has answered. Calls from several threads run at the
/// same time. Only what a call was asked for is in memory, so the caller bounds the memory.
pub trait Files: Send + Sync {
    /// Returns whether it makes requests again by itself that fail and may be repeated. Its callers then
    /// try less often.
    fn repeats(&self) -> bool {
        false
    }

    /// Reads a range of a file. The file has to have all of it.
    fn read_range(&self, name: &str, range: Range<u64>) -> Result<Vec<u8>, FileFailure>;

    /// Reads a range of a file into a buffer, in place of what was there. So one buffer serves many
    /// reads.
    fn read_into(
        &self,
        name: &str,
        range: Range<u64>,
        into: &mut Vec<u8>,
    ) -> Result<(), FileFailure> {
        *into = self.read_range(name, range)?;
        Ok(())
    }

    /// Reads a whole file of at most 16 MiB, unless it is still in the state `known`.
    fn read_whole(&self, name: &str, known: Option<&Tag>) -> Result<(Vec<u8>, Tag), FileFailure>;

    /// Returns the length of a file.
    fn length(&self, name: &str) -> Result<u64, FileFailure>;

    /// Writes a file whose name no other writer uses. It may be repeated with the same bytes.
    fn write(&self, name: &str, bytes: Vec<u8>) -> Result<(), FileFailure>;

    /// Writes a file on a condition: that there is none, or that it is in the state `old`. Sends
    /// one request, and never repeats it.
    fn write_if(&self, name: &str, bytes: Vec<u8>, old: Option<&Tag>) -> Result<Tag, FileFailure>;

    /// Begins an upload in parts and returns its id.
    fn begin_upload(&self, name: &str) -> Result<String, FileFailure>;

    /// Uploads a part, counted from 0, and returns its id. All parts but the last have one length,
    /// of at least 5 MiB.
    fn upload_part(
        &self,
        name: &str,
        upload: &str,
        part: usize,
        bytes: Vec<u8>,
    ) -> Result<String, FileFailure>;

    /// Ends an upload: the file then consists of these parts, `len` bytes in all. May be repeated.
    fn end_upload(
        &self,
        name: &str,
        upload: &str,
        parts: &[String],
        len: u64,
    ) -> Result<(), FileFailure>;

    /// Gives an upload up. One that is not there was ended or given up before.
    fn drop_upload(&self, name: &str, upload: &str) -> Result<(), FileFailure>;

    /// Deletes files. Those that are not there count as deleted.
    fn delete_all(&self, names: &[String]) -> Result<(), FileFailure>;

    /// Returns the names of the folders at the place of the repository: that of each repository whose
    /// files are there. Asked for before the first root is made, and in recovery.
    fn list_folders(&self) -> Result<Vec<String>, FileFailure>;

    /// Returns the files below `folder`. Only gc and recovery ask for that.
    fn list_all(&self, folder: &str) -> Result<Vec<BucketFile>, FileFailure>;
}
