//! The content of files: reading it if it is short, and writing it.

use crate::chunker::Cutter;
use crate::limits::MAX_MERGE_TEXT_BYTES;
use crate::object::conflict::Term;
use crate::object::list::{Blob, ListBuilder, read_blob};
use crate::object::name::RepoPath;
use crate::object::root::{Lack, Root, has_blob};
use crate::object::{ObjectError, ObjectRead, ObjectType, ObjectWrite};

/// Returns whether content can be merged by lines: whether it has no NUL byte.
pub fn is_text(content: &[u8]) -> bool {
    !content.contains(&0)
}

/// Returns the blob of a file's term.
pub(super) fn blob_of(term: &Term) -> Blob {
    Blob {
        id: term.id,
        is_list: term.is_list,
        size: term.size,
    }
}

/// Returns a blob's bytes; `None` if it is longer than `MAX_MERGE_TEXT_BYTES`, or if a part of it
/// is absent. Adds the bytes read to `count`.
pub(super) fn read_short(
    reader: &dyn ObjectRead,
    blob: Blob,
    count: &mut u64,
) -> Result<Option<Vec<u8>>, ObjectError> {
    let bytes = read_blob(reader, blob, MAX_MERGE_TEXT_BYTES)?;
    *count += bytes.as_ref().map_or(0, |bytes| bytes.len() as u64);
    Ok(bytes)
}

/// Returns the content of a file's term, if it is completely stored and a text that can be merged.
pub fn read_text(reader: &dyn ObjectRead, term: &Term) -> Result<Option<Vec<u8>>, ObjectError> {
    read_counted(reader, term, &mut 0)
}

/// Returns the absent content of the versions of the file at `path`, after one of them could not be
/// read as a text.
///
/// Returns nothing if any version is too long: then fetching the others would not help.
pub fn unread(
    reader: &dyn ObjectRead,
    path: &RepoPath,
    terms: &[Term],
) -> Result<Vec<Lack>, ObjectError> {
    let mut lacks = Vec::new();
    if terms.iter().any(|term| term.size > MAX_MERGE_TEXT_BYTES) {
        return Ok(lacks);
    }
    for blob in terms.iter().map(blob_of) {
        if !has_blob(reader, blob)? {
            let (path, root) = (path.clone(), Root::Blob(blob));
            lacks.push(Lack { path, root });
        }
    }
    Ok(lacks)
}

/// Like [`read_text`], and adds the bytes read to `count`.
pub(super) fn read_counted(
    reader: &dyn ObjectRead,
    term: &Term,
    count: &mut u64,
) -> Result<Option<Vec<u8>>, ObjectError> {
    Ok(read_short(reader, blob_of(term), count)?.filter(|bytes| is_text(bytes)))
}

/// Cuts `content` and writes its chunks and lists.
pub fn write_blob(content: &[u8], writer: &mut dyn ObjectWrite) -> Result<Blob, ObjectError> {
    let cutter = Cutter::new();
    let mut list = ListBuilder::new();
    let mut rest = content;
    while !rest.is_empty() {
        let (chunk, behind) = rest.split_at(cutter.cut(rest));
        let id = writer.put(ObjectType::Chunk, chunk)?;
        list.push(id, chunk.len() as u64, writer)?;
        rest = behind;
    }
    list.finish(writer)
}
