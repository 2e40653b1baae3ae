//! Small files beside the view, without which a command works, too.

use crate::path::PathError;
use crate::repo::base::error::RepoError;
use crate::vfs::{OsVfs, read_small};
use std::io::ErrorKind;
use std::path::Path;

/// Returns the bytes of the file at `path`; none if it is missing, or larger than such a file can be.
///
/// Fails if the file cannot be read, because that says nothing about its content.
pub fn read_note(path: &Path, limit: usize) -> Result<Vec<u8>, RepoError> {
    match read_small(&OsVfs, path, limit) {
        Err(e) if [ErrorKind::NotFound, ErrorKind::InvalidData].contains(&e.kind()) => {
            Ok(Vec::new())
        }
        read => read.map_err(|e| RepoError::Io(PathError::new("read", path, e))),
    }
}
