//! Everything that only one operating system has: its calls, its error numbers, its rules for names.
//!
//! The modules here give names, meanings and types; `unix` implements them and is the only
//! place that names `std::os` and `rustix`. For another system, write a module with the same
//! functions beside `unix` and choose it below: everything that it lacks is an error in this room.
//!
//! A function here makes one call, or the few that stand for one call. It chooses no names and does
//! not check what a path contains: `fsutil` and `vfs` do that, in the same way on every system. Nothing
//! here knows objects or repositories.

mod dir;
mod disk;
mod error;
mod file;
mod holder;
mod name;
mod own;
mod stat;
mod streams;
#[cfg(unix)]
mod unix;
mod xattr;

#[cfg(unix)]
use unix as system;

#[cfg(not(unix))]
compile_error!(
    "DMV does not run on this system yet: src/platform needs a module for it, like `unix`"
);

pub use self::dir::Dir;
pub(crate) use self::disk::{
    LOCKLESS_SQLITE, is_network_disk, is_read_only_disk, is_written_by_this_user_only, may_read,
    may_write,
};
pub use self::disk::{free_bytes, is_own};

pub(crate) use self::error::cause_of;
pub use self::error::{Cause, SystemError};
pub use self::file::{
    BLOCK_BYTES, Origin, Sharing, append_only, is_reader_gone, read_at, read_exact_at,
    set_modified, set_permissions, start_writeback, stat_of, sync_dir, widen_pipe, write_all_at,
    write_shared,
};
pub(crate) use self::file::{
    can_share_blocks, has_hole, share_file, shared_bytes, skip_hole, snapshot, stat_at,
    stat_at_unfollowed, umask, unnamed_file, wait_for_write, write_mapped_pages_back,
};

pub use self::holder::Holder;
pub(crate) use self::holder::holder_of;
pub(crate) use self::name::string_of;
pub use self::name::{bytes_of, name_of};
pub use self::own::{OddKind, OwnAccess, create_own_dirs, open_named, open_own, share_new};
pub(crate) use self::own::{copy_own, share_like};
pub use self::stat::{FileKind, FileStat, FileTime, Inode};
pub use self::streams::{TakenStreams, take_streams};
pub(crate) use self::xattr::{UserAttributes, has_attributes, set_attribute, user_attributes};
/// What everything that has a handle of the system can do: files, pipes, standard streams.
pub use system::AsHandle;

#[cfg(test)]
mod tests;
