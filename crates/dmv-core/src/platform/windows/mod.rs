//! The platform room on Windows. The room's other modules say what each item means.
//!
//! A directory is opened by its handle, one name at a time, and no link is ever followed on the way. Nothing is mapped
//! into memory. What Windows has no counterpart for is refused as unsupported, so that callers do without it: exchanging
//! two names in one step, sharing blocks, symlinks, extended attributes.

// The only module of DMV that is `unsafe`. It says why.
#[allow(unsafe_code)]
mod calls;
mod dir;
mod disk;
mod error;
mod file;
mod holder;
mod lock;
mod name;
mod patience;
mod process;
mod stat;
mod streams;
mod xattr;

pub use self::dir::Dir;
pub use self::disk::{
    LOCKLESS_SQLITE, check_access, free_bytes, has_room, is_network_disk, is_of_this_user, is_own,
    is_read_only_disk, is_written_by_this_user_only, may_read, may_write,
};
pub use self::error::{ABSENT, INVALID, NAME_TOO_LONG, TOO_BIG, cause};
pub use self::file::{
    FULL_SYNC, TIME_STEP_NANOS, append_only, clone_blocks, closed_to_others, copy_range, has_hole,
    is_reader_gone, next_data, open_unfollowed, open_without_waiting, read_at, read_exact_at,
    readable_by_all, rename, same_file, set_directory_permissions, set_modified, set_permissions,
    settle, share_blocks, shared_bytes, start_writeback, stat_at, stat_at_unfollowed, stat_of,
    sync, sync_dir, umask, unnamed_file, usual_permissions, wait_for_write, widen_pipe,
    write_all_at, write_mapped_pages_back,
};
pub use self::holder::holder_of;
pub use self::lock::{try_lock, try_lock_dir, try_lock_shared, unlock};
pub use self::name::{
    NAMES_MAY_MEET, argument_bytes, as_written, bytes_of, name_of, string_of, with_slashes,
};
pub use self::process::{
    HOME_VARIABLES, by_shell, host_name, in_own_group, login_name, may_execute, stop_group,
    terminal_size,
};
pub use self::stat::{HAS_EXECUTABLE_BIT, LISTS_STATS};
pub use self::streams::take_streams;
pub use self::xattr::{has_attributes, set_attribute, user_attributes};
pub use std::os::windows::io::AsHandle;
