//! The five objects: their values, their one encoding, their ids.
//!
//! docs/format/objects.md is the authority. Values here are always valid: a decoder rejects
//! everything that an encoder would not have written, and names are checked when a tree is
//! decoded. Nothing here knows where objects are kept: they are read through [`ObjectRead`] and
//! handed on through [`ObjectWrite`].

pub mod boundary;
pub mod codec;
pub mod commit;
pub mod conflict;
pub mod list;
pub mod mem;
pub mod name;
mod path;
mod portable;
pub mod root;
pub mod tree;

use crate::hash::{ObjectId, chunk_id, derived_id};
use codec::{DecodeError, EncodeError};
use std::sync::Arc;

/// What an object is. The numbers are part of the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum ObjectType {
    /// Raw bytes of a file.
    Chunk = 1,
    /// Node of a file's list of chunks.
    List = 2,
    /// Node of a directory.
    Tree = 3,
    /// A merge's open question.
    Conflict = 4,
    /// A state of the whole tree, with its history.
    Commit = 5,
}

impl ObjectType {
    /// The type with this number, if there is one.
    pub fn from_number(number: u8) -> Option<ObjectType> {
        use ObjectType::{Chunk, Commit, Conflict, List, Tree};
        [Chunk, List, Tree, Conflict, Commit]
            .into_iter()
            .find(|ty| *ty as u8 == number)
    }

    /// The id that `bytes` have as an object of this type.
    pub fn id_of(self, bytes: &[u8]) -> ObjectId {
        match self {
            ObjectType::Chunk => chunk_id(bytes),
            ObjectType::List => derived_id("dmv v1 list", bytes),
            ObjectType::Tree => derived_id("dmv v1 tree", bytes),
            ObjectType::Conflict => derived_id("dmv v1 conflict", bytes),
            ObjectType::Commit => derived_id("dmv v1 commit", bytes),
        }
    }

    /// What an object of this type refers to, by its bytes.
    pub fn links(self, bytes: &[u8]) -> Result<Vec<(ObjectType, ObjectId)>, DecodeError> {
        let blob = |kind, is_list| match kind {
            tree::Kind::Directory => ObjectType::Tree,
            tree::Kind::Conflict => ObjectType::Conflict,
            _ if is_list => ObjectType::List,
            _ => ObjectType::Chunk,
        };
        Ok(match self {
            ObjectType::Chunk => Vec::new(),
            ObjectType::List => {
                let node = list::ListNode::decode(bytes)?;
                let ty = match node.level {
                    0 => ObjectType::Chunk,
                    _ => ObjectType::List,
                };
                node.entries.iter().map(|e| (ty, e.id)).collect()
            }
            ObjectType::Tree => match tree::Node::decode(bytes)? {
                tree::Node::Leaf(entries) => {
                    let link = |e: &tree::TreeEntry| (blob(e.kind, e.is_list), e.id);
                    entries.iter().map(link).collect()
                }
                tree::Node::Inner { children, .. } => {
                    children.iter().map(|c| (ObjectType::Tree, c.id)).collect()
                }
            },
            ObjectType::Conflict => {
                let conflict = conflict::Conflict::decode(bytes)?;
                let terms = conflict.bases.iter().chain(&conflict.sides).flatten();
                terms.map(|t| (blob(t.kind, t.is_list), t.id)).collect()
            }
            ObjectType::Commit => {
                let commit = commit::Commit::decode(bytes)?;
                let parents = commit.parents.iter().map(|id| (ObjectType::Commit, *id));
                parents.chain([(ObjectType::Tree, commit.tree)]).collect()
            }
        })
    }

    /// Checks bytes from a stranger as far as they alone can be checked: limits, encoding, names,
    /// and where a tree node ends.
    pub fn check(self, bytes: &[u8]) -> Result<(), DecodeError> {
        let fail = |what| Err(DecodeError { what, at: 0 });
        match self {
            ObjectType::Chunk if bytes.len() > crate::limits::MAX_CHUNK_BYTES => {
                fail("chunk is too large")
            }
            ObjectType::Tree if !tree::Node::decode(bytes)?.ends_where_it_should(true) => {
                fail("tree node goes on behind its end")
            }
            ty => ty.links(bytes).map(drop),
        }
    }

    /// The word for this type in messages.
    pub fn word(self) -> &'static str {
        match self {
            ObjectType::Chunk => "chunk",
            ObjectType::List => "list",
            ObjectType::Tree => "tree",
            ObjectType::Conflict => "conflict",
            ObjectType::Commit => "commit",
        }
    }
}

/// Why an object could not be had.
#[derive(Debug, thiserror::Error)]
pub enum ObjectError {
    /// Not stored here, though something else refers to it.
    #[error("{} {id} is not in this repository", ty.word())]
    Missing {
        /// The object wanted.
        id: ObjectId,
        /// Its type.
        ty: ObjectType,
    },
    /// Stored, but its bytes are wrong.
    #[error("{} {id} is damaged: {why}", ty.word())]
    Damaged {
        /// The object wanted.
        id: ObjectId,
        /// Its type.
        ty: ObjectType,
        /// What was found.
        why: String,
    },
    /// Stored, in a version that this program does not know.
    #[error("{} {id} has a format newer than this dmv knows", ty.word())]
    TooNew {
        /// The object wanted.
        id: ObjectId,
        /// Its type.
        ty: ObjectType,
    },
    /// A value that the format cannot hold was to be written.
    #[error(transparent)]
    Unencodable(#[from] EncodeError),
    /// The store could not answer.
    #[error(transparent)]
    Store(Box<dyn std::error::Error + Send + Sync>),
}

impl ObjectError {
    /// Bytes stored under `id` that do not decode.
    pub fn undecodable(ty: ObjectType, id: &ObjectId, error: DecodeError) -> ObjectError {
        if error.is_too_new() {
            return ObjectError::TooNew { id: *id, ty };
        }
        ObjectError::Damaged {
            id: *id,
            ty,
            why: error.to_string(),
        }
    }
}

/// Reads objects by id.
pub trait ObjectRead: Sync {
    /// The verified bytes of an object.
    ///
    /// `Ok(None)`: not stored here, which is normal in a partial repository. Bytes that do not
    /// hash to `id` are [`ObjectError::Damaged`], never returned.
    fn read(&self, ty: ObjectType, id: &ObjectId) -> Result<Option<Arc<[u8]>>, ObjectError>;

    /// Whether an object is stored here; its bytes may not have been looked at.
    fn holds(&self, ty: ObjectType, id: &ObjectId) -> Result<bool, ObjectError> {
        Ok(self.read(ty, id)?.is_some())
    }

    /// Like [`read`](Self::read), with absence as [`ObjectError::Missing`].
    fn require(&self, ty: ObjectType, id: &ObjectId) -> Result<Arc<[u8]>, ObjectError> {
        self.read(ty, id)?
            .ok_or(ObjectError::Missing { id: *id, ty })
    }
}

/// Takes new objects in.
pub trait ObjectWrite {
    /// Keeps `bytes` as an object of type `ty` and returns its id. Keeping an object that is there
    /// already costs nothing.
    fn put(&mut self, ty: ObjectType, bytes: &[u8]) -> Result<ObjectId, ObjectError>;
}
