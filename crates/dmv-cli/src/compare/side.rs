//! One of the two states of a path that are compared.

use dmv_core::fsutil::FileKind;
use dmv_core::object::tree::{Kind, TreeEntry, Xattrs};
use dmv_core::repo::{DiskFile, WorktreeSide};

/// One state of a path.
#[derive(Clone, Copy)]
pub enum Side<'a> {
    /// It is not there.
    Nothing,
    /// It is as a commit has it.
    Entry(&'a TreeEntry),
    /// It is on disk, and as no commit has it.
    Disk(&'a DiskFile),
}

impl<'a> Side<'a> {
    /// A commit's side.
    pub fn of_entry(entry: Option<&'a TreeEntry>) -> Side<'a> {
        entry.map_or(Side::Nothing, Side::Entry)
    }

    /// The worktree's side.
    pub fn of_worktree(side: Option<&'a WorktreeSide>) -> Side<'a> {
        match side {
            None => Side::Nothing,
            Some(WorktreeSide::Entry(entry)) => Side::Entry(entry),
            Some(WorktreeSide::Disk(file)) => Side::Disk(file),
        }
    }

    /// The entry, if the state is a commit's.
    pub fn entry(&self) -> Option<&'a TreeEntry> {
        match self {
            Side::Entry(entry) => Some(entry),
            Side::Nothing | Side::Disk(_) => None,
        }
    }

    /// The kind of entry; `None` if there is none.
    pub fn kind(&self) -> Option<Kind> {
        match self {
            Side::Nothing => None,
            Side::Entry(entry) => Some(entry.kind),
            Side::Disk(DiskFile { stat, .. }) => Some(match (stat.kind, stat.exec) {
                (FileKind::Symlink, _) => Kind::Symlink,
                (FileKind::Dir, _) => Kind::Directory,
                (_, true) => Kind::Executable,
                (_, false) => Kind::File,
            }),
        }
    }

    /// Whether only its owner may read it. `None` if nothing tells that.
    pub fn privacy(&self) -> Option<bool> {
        match self {
            Side::Nothing => None,
            Side::Entry(entry) => Some(entry.is_private()),
            Side::Disk(file) => file.stat.privacy(),
        }
    }

    /// The extended attributes that commits keep of it; `None` if it is not there.
    pub fn xattrs(&self) -> Option<Xattrs> {
        match self {
            Side::Nothing => None,
            Side::Entry(entry) => Some(entry.xattrs()),
            Side::Disk(file) => Some(file.xattrs.clone()),
        }
    }

    /// The size in bytes; `None` if there is nothing.
    pub fn size(&self) -> Option<u64> {
        match self {
            Side::Nothing => None,
            Side::Entry(entry) => Some(entry.size),
            Side::Disk(file) if file.stat.kind == FileKind::Dir => Some(0),
            Side::Disk(file) => Some(file.stat.size),
        }
    }
}
