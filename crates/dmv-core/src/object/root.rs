//! Parts of commits that are named by themselves: what a command lacks, what a peer is asked for.

use super::list::{Blob, BlobChunks};
use super::tree::{Kind, TreeEntry};
use super::{ObjectError, ObjectRead, ObjectType};
use crate::hash::ObjectId;

/// Something below a commit that is wanted for itself, by its id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Root {
    /// One object, without what it refers to.
    Object(ObjectType, ObjectId),
    /// A file's content.
    Blob(Blob),
    /// A directory with all under it.
    Directory {
        /// Its tree.
        tree: ObjectId,
        /// Bytes under it.
        bytes: u64,
        /// Files under it.
        files: u64,
    },
}

impl Root {
    /// What an entry stands for: a directory with all under it, a file's content. Of a conflict
    /// only what it asks.
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

    /// The object that everything else of it hangs on.
    pub fn id(&self) -> ObjectId {
        match self {
            Root::Object(_, id) | Root::Directory { tree: id, .. } => *id,
            Root::Blob(blob) => blob.id,
        }
    }
}

/// Something that is needed and not here, or not all of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lack {
    /// Where a commit has it, from the root; empty where that is not known.
    pub path: Vec<u8>,
    /// What it is.
    pub root: Root,
}

/// Whether all chunks of a blob are stored. Their bytes are not looked at.
pub fn has_blob(reader: &dyn ObjectRead, blob: Blob) -> Result<bool, ObjectError> {
    for chunk in BlobChunks::new(reader, blob) {
        match chunk {
            Ok((_, id, _)) if reader.holds(ObjectType::Chunk, &id)? => {}
            Ok(_) | Err(ObjectError::Missing { .. }) => return Ok(false),
            Err(e) => return Err(e),
        }
    }
    Ok(true)
}
