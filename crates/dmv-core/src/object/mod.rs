//! The five object types: their values, their single encoding, their ids.
//!
//! docs/format/objects.md specifies them. Values are always valid: a decoder rejects every encoding
//! that no encoder writes, and it checks names when it decodes a tree. The module does not know
//! where objects are stored: it reads them through [`ObjectRead`] and writes them through
//! [`ObjectWrite`]. It uses `escape`, `hash` and `limits` only; every room above uses it.

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
pub mod signature;
pub mod tree;

use crate::hash::{ObjectId, chunk_id, derived_id};
use codec::{DecodeError, EncodeError};
use std::sync::Arc;

/// The type of an object. The numbers are part of the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum ObjectType {
    /// A piece of a file's content, as raw bytes.
    Chunk = 1,
    /// A node of a file's list of chunks.
    List = 2,
    /// A node of a directory's tree.
    Tree = 3,
    /// The open question of a merge.
    Conflict = 4,
    /// A state of the complete tree, with its history.
    Commit = 5,
}

impl ObjectType {
    /// All types.
    pub const ALL: [ObjectType; 5] = [
        ObjectType::Chunk,
        ObjectType::List,
        ObjectType::Tree,
        ObjectType::Conflict,
        ObjectType::Commit,
    ];

    /// Returns the type with this number; `None` if there is none.
    pub fn from_number(number: u8) -> Option<ObjectType> {
        let mut all = ObjectType::ALL.into_iter();
        all.find(|ty| *ty as u8 == number)
    }

    /// Returns the id of `bytes` as an object of this type.
    pub fn id_of(self, bytes: &[u8]) -> ObjectId {
        match self {
            ObjectType::Chunk => chunk_id(bytes),
            ObjectType::List => derived_id("dmv v1 list", bytes),
            ObjectType::Tree => derived_id("dmv v1 tree", bytes),
            ObjectType::Conflict => derived_id("dmv v1 conflict", bytes),
            ObjectType::Commit => derived_id("dmv v1 commit", bytes),
        }
    }

    /// Returns the objects that an object with these `bytes` refers to.
    pub fn links(self, bytes: &[u8]) -> Result<Vec<(ObjectType, ObjectId)>, DecodeError> {
        let blob = tree::Kind::linked;
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

    /// Calls `visit` with the objects that an object with these `bytes` refers to, and with the name of
    /// each in a tree. That of a node below a tree node is the last name in it.
    pub(crate) fn each_link(
        self,
        bytes: &[u8],
        visit: &mut dyn FnMut(&[u8], ObjectType, ObjectId),
    ) -> Result<(), DecodeError> {
        match self {
            ObjectType::Tree => tree::each_link(bytes, visit),
            _ => {
                let links = self.links(bytes)?;
                links.into_iter().for_each(|(ty, id)| visit(b"", ty, id));
                Ok(())
            }
        }
    }

    /// Checks bytes from a peer as far as they can be checked alone: limits, encoding, names, and
    /// the end of a tree node.
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

    /// Returns the word for this type in messages.
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

/// Why an object could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum ObjectError {
    /// The object is not stored here, though another object refers to it.
    #[error("{} {id} is absent from this repository", ty.word())]
    Missing {
        /// The id of the object.
        id: ObjectId,
        /// Its type.
        ty: ObjectType,
    },
    /// The object is stored, but its bytes are wrong.
    #[error("{} {id} is damaged: {why}", ty.word())]
    Damaged {
        /// The id of the object.
        id: ObjectId,
        /// Its type.
        ty: ObjectType,
        /// The fault that was found.
        why: String,
    },
    /// The object is stored in a version that this program does not know.
    #[error("{} {id} was written by a newer dmv; this version cannot read it", ty.word())]
    TooNew {
        /// The id of the object.
        id: ObjectId,
        /// Its type.
        ty: ObjectType,
    },
    /// The value to write has no encoding in the format.
    #[error(transparent)]
    Unencodable(#[from] EncodeError),
    /// The store failed.
    #[error(transparent)]
    Store(Box<dyn std::error::Error + Send + Sync>),
}

impl ObjectError {
    /// Returns the error for bytes that are stored under `id` and do not decode.
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
    /// Returns the verified bytes of an object.
    ///
    /// `Ok(None)` means that the object is not stored here, which is normal in a partial
    /// repository. Bytes that do not hash to `id` are never returned; they are
    /// [`ObjectError::Damaged`].
    fn read(&self, ty: ObjectType, id: &ObjectId) -> Result<Option<Arc<[u8]>>, ObjectError>;

    /// Returns whether an object is stored here. Its bytes may not have been checked.
    fn holds(&self, ty: ObjectType, id: &ObjectId) -> Result<bool, ObjectError> {
        Ok(self.read(ty, id)?.is_some())
    }

    /// Returns for each of `objects` whether it is stored here. A store looks them up together, which is
    /// faster for many.
    fn holds_all(&self, objects: &[(ObjectType, ObjectId)]) -> Result<Vec<bool>, ObjectError> {
        let held = |(ty, id): &(ObjectType, ObjectId)| self.holds(*ty, id);
        objects.iter().map(held).collect()
    }

    /// Returns a rank for each of `objects`. Many are read fastest in the order of their ranks.
    fn reading_ranks(&self, objects: &[(ObjectType, ObjectId)]) -> Result<Vec<u32>, ObjectError> {
        Ok(vec![0; objects.len()])
    }

    /// Like [`read`](Self::read), but fails with [`ObjectError::Missing`] if the object is not
    /// stored here.
    fn require(&self, ty: ObjectType, id: &ObjectId) -> Result<Arc<[u8]>, ObjectError> {
        self.read(ty, id)?
            .ok_or(ObjectError::Missing { id: *id, ty })
    }
}

/// Stores new objects.
pub trait ObjectWrite {
    /// Stores `bytes` as an object of type `ty` and returns its id. Storing an object again costs
    /// nothing.
    fn put(&mut self, ty: ObjectType, bytes: &[u8]) -> Result<ObjectId, ObjectError>;
}
