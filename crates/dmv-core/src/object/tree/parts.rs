//! The values that both a node and its parent record, and the flags of an entry.

use super::TreeEntry;
use crate::hash::ObjectId;
use crate::limits::MAX_DIR_ENTRIES;
use crate::object::name::SafeName;
use crate::object::{ObjectError, ObjectType};

/// Flag: the entry has attributes.
pub(super) const FLAG_ATTRS: u8 = 1;
/// Flag: the content is a list of chunks. Terms of a conflict use the same flag.
pub(in crate::object) const FLAG_LIST: u8 = 2;
/// Flag of a term of a conflict: only its owner may read the file. An entry has an attribute for that.
pub(in crate::object) const FLAG_PRIVATE: u8 = 4;

/// The totals of everything below a node or directory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Number of names, without those inside subdirectories.
    pub entries: u64,
    /// Bytes of content, including subdirectories.
    pub bytes: u64,
    /// Number of files, including subdirectories.
    pub files: u64,
}

impl Totals {
    /// Returns the sum; `None` if it overflows.
    pub(super) fn plus(self, other: Totals) -> Option<Totals> {
        Some(Totals {
            entries: self
                .entries
                .checked_add(other.entries)
                .filter(|n| *n <= MAX_DIR_ENTRIES)?,
            bytes: self.bytes.checked_add(other.bytes)?,
            files: self.files.checked_add(other.files)?,
        })
    }

    /// Returns the totals of one entry.
    pub(super) fn of_entry(entry: &TreeEntry) -> Totals {
        Totals {
            entries: 1,
            bytes: entry.size,
            files: entry.file_count(),
        }
    }
}

/// A node as its parent records it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Child {
    /// The last name below it.
    pub last: SafeName,
    /// Its id.
    pub id: ObjectId,
    /// The totals below it.
    pub totals: Totals,
}

/// The values of a node that its parent also records.
pub(super) struct Outline<'a> {
    pub level: u8,
    pub count: usize,
    pub totals: Option<Totals>,
    /// The first and last name.
    pub range: Option<(&'a [u8], &'a [u8])>,
}

/// Where a node stands, with what its own values have to agree.
pub(super) enum NodePlace<'a> {
    /// It is the root of the directory with this id.
    Root(&'a ObjectId),
    /// A node names it.
    Below {
        /// The level of the node that names it.
        level: u8,
        /// What that one records.
        child: &'a Child,
        /// The last name before it, if known.
        after: Option<&'a SafeName>,
    },
}

impl NodePlace<'_> {
    /// Returns the id of the node.
    pub(super) fn id(&self) -> &ObjectId {
        match self {
            NodePlace::Root(id) => id,
            NodePlace::Below { child, .. } => &child.id,
        }
    }

    /// Checks the values of the node that is stored.
    pub(super) fn check(&self, node: &Outline<'_>) -> Result<(), ObjectError> {
        let why = match self {
            NodePlace::Root(_) if node.level > 0 && node.count < 2 => {
                Some("root node has a single child")
            }
            NodePlace::Root(_) => None,
            NodePlace::Below {
                level,
                child,
                after,
            } => node.differs_from(*level, child, *after),
        };
        match why {
            Some(why) => Err(damaged(self.id(), why)),
            None => Ok(()),
        }
    }
}

impl Outline<'_> {
    /// Returns in what the node differs from what a node of `parent_level` says about it.
    fn differs_from(
        &self,
        parent_level: u8,
        child: &Child,
        after: Option<&SafeName>,
    ) -> Option<&'static str> {
        if Some(self.level) != parent_level.checked_sub(1) {
            Some("level is not what the node above says")
        } else if self.totals != Some(child.totals) {
            Some("totals are not what the node above says")
        } else if self.range.map(|(_, last)| last) != Some(child.last.as_bytes()) {
            Some("last name is not what the node above says")
        } else if self.range.map(|(first, _)| first) <= after.map(SafeName::as_bytes) {
            Some("names do not rise from the node before")
        } else {
            None
        }
    }
}

fn damaged(id: &ObjectId, why: &str) -> ObjectError {
    ObjectError::Damaged {
        id: *id,
        ty: ObjectType::Tree,
        why: why.to_owned(),
    }
}
