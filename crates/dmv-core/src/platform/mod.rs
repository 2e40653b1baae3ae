//! Everything that only one operating system has: its calls, its error numbers, its rules for names.
//!
//! The modules here give names, meanings and types; `unix` and `windows` implement them and are the only
//! places that name `std::os` and the crates for it. For another system, write a module with the same
//! functions and choose it below: everything that it lacks is an error in this room.
//!
//! A function here makes one call, or the few that stand for one call. It chooses no names and does
//! not check what a path contains: `fsutil` and `vfs` do that, in the same way on every system. Nothing
//! here knows objects or repositories.

mod dir;
mod disk;
mod error;
mod file;
mod holder;
mod lock;
mod name;
mod own;
mod process;
mod stat;
mod streams;
#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;
mod xattr;

#[cfg(unix)]
use unix as system;
#[cfg(windows)]
use windows as system;

#[cfg(not(any(unix, windows)))]
compile_error!(
    "DMV does not run on this system yet: src/platform needs a module for it, like `unix`"
);

pub use self::dir::Dir;
pub(crate) use self::disk::{
    LOCKLESS_SQLITE, is_network_disk, is_written_by_this_user_only, may_read, may_write,
};
pub use self::disk::{
    check_access, free_bytes, has_room, is_of_this_user, is_own, is_read_only_disk,
};

pub(crate) use self::error::cause_of;
pub use self::error::{Cause, SystemError};
pub use self::file::{
    BLOCK_BYTES, Origin, Sharing, append_only, closed_to_others, is_reader_gone, read_at,
    read_exact_at, rename, same_file, set_modified, set_permissions, start_writeback, stat_of,
    sync_dir, usual_permissions, widen_pipe, write_all_at, write_shared,
};
pub(crate) use self::file::{
    FULL_SYNC, TIME_STEP_NANOS, can_share_blocks, has_hole, settle, share_file, share_range,
    shared_bytes, skip_hole, snapshot, stat_at, stat_at_unfollowed, sync, umask, unnamed_file,
    wait_for_write, write_mapped_pages_back,
};

pub(crate) use self::holder::holder_of;
pub use self::holder::{FileUser, Holder};
pub use self::lock::try_lock;
pub(crate) use self::lock::{try_lock_at, try_lock_dir, try_lock_shared, unlock};
pub(crate) use self::name::{NAMES_MAY_MEET, with_slashes};
pub use self::name::{argument_bytes, bytes_of, name_of, string_of, whole_path};
pub use self::own::{OddKind, OwnAccess, create_own_dirs, open_named, open_own, share_new};
pub(crate) use self::own::{copy_own, share_like};
pub use self::process::{
    HOME_VARIABLES, TerminalSize, by_shell, host_name, in_own_group, is_program, login_name,
    stop_group, terminal_size,
};
pub use self::stat::{FileKind, FileStat, FileTime, Inode};
pub(crate) use self::stat::{HAS_EXECUTABLE_BIT, LISTS_STATS};
pub use self::streams::{TakenStreams, take_streams};
pub(crate) use self::xattr::{UserAttributes, has_attributes, set_attribute, user_attributes};
/// What everything that has a handle of the system can do: files, pipes, standard streams.
pub use system::AsHandle;

#[cfg(test)]
pub(crate) mod tests;
