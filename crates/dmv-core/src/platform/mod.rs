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
mod stat;
#[cfg(unix)]
mod unix;

#[cfg(unix)]
use unix as system;

#[cfg(not(unix))]
compile_error!(
    "DMV does not run on this system yet: src/platform needs a module for it, like `unix`"
);

pub use self::dir::Dir;
pub use self::disk::{
    LOCKLESS_SQLITE, is_network_disk, is_own, is_read_only_disk, is_written_by_this_user_only,
    may_write,
};
pub use self::error::{Cause, SystemError, cause_of};
pub use self::file::{
    Sharing, append_only, has_attributes, has_hole, open_unfollowed, open_unfollowed_waiting,
    read_at, read_exact_at, readable_by_all, set_exec, set_modified, set_permissions, share_file,
    share_like_directory, start_writeback, stat_at, stat_at_unfollowed, stat_of, sync_dir,
    wait_for_write, widen_pipe, write_all_at, write_mapped_pages_back,
};
pub use self::holder::{Holder, holder_of};
pub use self::name::{bytes_of, name_of, string_of};
pub use self::stat::{FileKind, FileStat, FileTime, Inode};
/// What everything that has a handle of the system can do: files, pipes, standard streams.
pub use system::AsHandle;

#[cfg(test)]
mod tests;
