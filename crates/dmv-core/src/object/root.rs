//! Parts of commits that are requested by their own id: content that a command lacks, and content
//! that is requested from a peer.

use super::list::{Blob, BlobChunks};
use super::name::RepoPath;
use super::tree::{Kind, TreeEntry};
use super::{ObjectError, ObjectRead, ObjectType};
use crate::hash::ObjectId;

/// Content below a commit that is wanted by its own id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Root {
    /// One object, without the objects that it refers to.
    Object(ObjectType, ObjectId),
    /// A file's content.
    Blob(Blob),
    /// A directory with everything below it.
    Directory {
        /// Its tree.
        tree: ObjectId,
        /// Bytes below it.
        bytes: u64,
        /// Number of files below it.
        files: u64,
    },
}

impl Root {
    /// Returns the content of an entry: a directory with everything below it, or a file's content.
    /// For a conflict this is only the conflict object, without the content of its terms.
    pub fn of(entry: &TreeEntry) -> Root {
        match entry.kind {
            Kind::Directory => Root::Directory {
                tree: entry.id,
                bytes: entry.size,
                files: entry.files,
            },
            Kind::Conflict => Root::Object(ObjectType::Conflict, entry.id),
            _ => Root::Blob(Blob {
                id: entry.id,
                is_list: entry.is_list,
                size: entry.size,
            }),
        }
    }

    /// Returns the id of the object from which everything else of it is reached.
    pub fn id(&self) -> ObjectId {
        match self {
            Root::Object(_, id) | Root::Directory { tree: id, .. } => *id,
            Root::Blob(blob) => blob.id,
        }
    }
}

/// Content that a command needs and that is absent, wholly or in part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lack {
    /// A path of it in a commit, from the root; the root if unknown.
    pub path: RepoPath,
    /// What it is.
    pub root: Root,
}

/// Returns whether all chunks of a blob are stored. Does not read their bytes.
pub(crate) fn has_blob(reader: &dyn ObjectRead, blob: Blob) -> Result<bool, ObjectError> {
    for chunk in BlobChunks::new(reader, blob) {
        match chunk {
            Ok((_, id, _)) if reader.holds(ObjectType::Chunk, &id)? => {}
            Ok(_) | Err(ObjectError::Missing { .. }) => return Ok(false),
            Err(e) => return Err(e),
        }
    }
    Ok(true)
}
