//! Directories: Merkle trees of named entries, docs/format/objects.md, "Tree node".
//!
//! The id of its root node names a directory. Content decides where nodes end
//! ([`boundary`](super::boundary)). So one set of entries has one id, and a change of one entry
//! makes one new node per level. [`TreeBuilder`] writes a directory, [`TreeIter`] reads it in
//! order, and [`lookup`] finds one name. Each holds at most one node per level.

mod apart;
mod attrs;
mod build;
mod iter;
mod node;
mod parts;
mod raw;
mod xattrs;

pub(crate) use attrs::merge_attrs;
pub use attrs::{Attrs, ModifiedTime};
pub use build::{TreeBuilder, TreeSummary, empty_tree_id, put_empty_tree};
pub(crate) use iter::{Cursor, Peek};
pub use iter::{TreeIter, lookup, lookup_path};
pub use node::Node;
pub use parts::{Child, Totals};
pub(super) use parts::{FLAG_LIST, FLAG_PRIVATE};
pub(super) use raw::each_link;
pub use xattrs::{XATTR_PREFIX, Xattrs, XattrsTooLarge};

use self::attrs::check_attrs;
use super::ObjectType;
use super::codec::EncodeError;
use super::name::SafeName;
use crate::hash::ObjectId;
use crate::limits::MAX_SYMLINK_BYTES;

/// The kind of an entry. The numbers are part of the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Kind {
    /// A plain file.
    File = 1,
    /// An executable file.
    Executable = 2,
    /// A symbolic link. Its object is a chunk that holds the target.
    Symlink = 3,
    /// A directory. Its object is the root node of its tree.
    Directory = 4,
    /// An unresolved conflict. Its object is a conflict.
    Conflict = 5,
}

impl Kind {
    /// Returns the type of the object that an entry of this kind refers to.
    pub(super) fn linked(self, is_list: bool) -> ObjectType {
        match self {
            Kind::Directory => ObjectType::Tree,
            Kind::Conflict => ObjectType::Conflict,
            _ if is_list => ObjectType::List,
            _ => ObjectType::Chunk,
        }
    }

    /// Returns the kind with this number; `None` if there is none.
    pub fn from_number(number: u8) -> Option<Kind> {
        use Kind::{Conflict, Directory, Executable, File, Symlink};
        [File, Executable, Symlink, Directory, Conflict]
            .into_iter()
            .find(|kind| *kind as u8 == number)
    }

    /// Returns the word for this kind in messages.
    pub fn word(self) -> &'static str {
        match self {
            Kind::File => "file",
            Kind::Executable => "executable",
            Kind::Symlink => "symlink",
            Kind::Directory => "directory",
            Kind::Conflict => "conflict",
        }
    }

    /// Returns whether the content is a blob: whether the kind is file or executable.
    pub fn is_blob(self) -> bool {
        matches!(self, Kind::File | Kind::Executable)
    }
}

/// One name in a directory with its content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TreeEntry {
    /// The name.
    pub name: SafeName,
    /// Its kind.
    pub kind: Kind,
    /// Whether `id` is a list node. Only for files and executables.
    pub is_list: bool,
    /// The id of its object: a blob, a chunk with a target, a root node or a conflict.
    pub id: ObjectId,
    /// Bytes of content. For a directory, those of everything below it; 0 for a conflict.
    pub size: u64,
    /// Number of files below a directory; 0 for other kinds.
    pub files: u64,
    /// Encoded attributes: docs/format/objects.md, "Tree node".
    pub attrs: Attrs,
}

impl TreeEntry {
    /// Returns the entry of the directory that `summary` describes.
    pub fn directory(name: SafeName, summary: &TreeSummary, attrs: Attrs) -> TreeEntry {
        TreeEntry {
            name,
            kind: Kind::Directory,
            is_list: false,
            id: summary.id,
            size: summary.bytes,
            files: summary.files,
            attrs,
        }
    }

    /// Returns the number of files of this entry: 1 unless it is a directory.
    pub fn file_count(&self) -> u64 {
        match self.kind {
            Kind::Directory => self.files,
            _ => 1,
        }
    }

    /// Returns whether it is a file that only its owner may read.
    pub fn is_private(&self) -> bool {
        self.kind.is_blob() && attrs::is_private(self.attrs.as_deref())
    }

    /// Returns the entry with the attribute of private files, or without it.
    pub fn with_privacy(self, private: bool) -> TreeEntry {
        let attrs = attrs::with_privacy(self.attrs, private && self.kind.is_blob());
        TreeEntry { attrs, ..self }
    }

    /// Returns when the content of a file was changed for the last time, if the commit keeps that.
    pub fn modified(&self) -> Option<ModifiedTime> {
        let is_file = self.kind.is_blob();
        attrs::modified(self.attrs.as_deref()).filter(|_| is_file)
    }

    /// Returns the entry with this time of the last change, or without one.
    pub fn with_modified(self, time: Option<ModifiedTime>) -> TreeEntry {
        let attrs = attrs::with_modified(self.attrs, time);
        TreeEntry { attrs, ..self }
    }

    /// Returns the extended attributes of a file that the commit keeps.
    pub fn xattrs(&self) -> Xattrs {
        let is_file = self.kind.is_blob();
        attrs::xattrs(self.attrs.as_deref())
            .filter(|_| is_file)
            .unwrap_or_default()
    }

    /// Returns the entry of a file with these extended attributes alone.
    pub fn with_xattrs(self, xattrs: &Xattrs) -> TreeEntry {
        let attrs = attrs::with_xattrs(self.attrs, xattrs);
        TreeEntry { attrs, ..self }
    }

    /// Returns whether both entries have the same content and attributes, whatever their names.
    pub fn same_content(&self, other: &TreeEntry) -> bool {
        (self.kind, self.id, self.is_list) == (other.kind, other.id, other.is_list)
            && self.attrs == other.attrs
    }

    /// Checks the rules that the types do not enforce.
    pub fn check(&self) -> Result<(), EncodeError> {
        check_value(self.kind, self.is_list, self.size, self.files)
            .map_err(|what| EncodeError { what })?;
        match &self.attrs {
            Some(attrs) => check_attrs(attrs).map_err(|e| EncodeError { what: e.what }),
            None => Ok(()),
        }
    }
}

/// Checks the rules on size, files and list flag that tree entries and conflict terms share.
pub(super) fn check_value(
    kind: Kind,
    is_list: bool,
    size: u64,
    files: u64,
) -> Result<(), &'static str> {
    if is_list && !kind.is_blob() {
        return Err("only a file's content can be a list");
    }
    if files != 0 && kind != Kind::Directory {
        return Err("only a directory counts files");
    }
    match kind {
        Kind::Symlink if size == 0 || size > MAX_SYMLINK_BYTES as u64 => {
            Err("symlink target is empty or too long")
        }
        Kind::Conflict if size != 0 => Err("a conflict has no size"),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
