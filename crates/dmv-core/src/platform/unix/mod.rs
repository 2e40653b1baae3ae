//! The platform room on Linux and macOS. The room's other modules say what each item means.

#[cfg(target_vendor = "apple")]
mod apple;
mod dir;
mod disk;
mod error;
mod file;
mod holder;
#[cfg(target_os = "linux")]
mod linux;
mod lock;
mod name;
mod process;
mod stat;
mod streams;
#[cfg(test)]
mod tests;
mod xattr;

#[cfg(target_vendor = "apple")]
use apple as own_calls;
#[cfg(target_os = "linux")]
use linux as own_calls;
#[cfg(not(any(target_vendor = "apple", target_os = "linux")))]
compile_error!(
    "DMV does not run on this Unix yet: src/platform/unix needs a module for it, like `linux`"
);

pub use self::dir::Dir;
pub use self::disk::{
    LOCKLESS_SQLITE, check_access, free_bytes, has_room, is_of_this_user, is_own,
    is_read_only_disk, is_written_by_this_user_only, may_read, may_write,
};
pub use self::error::{ABSENT, INVALID, NAME_TOO_LONG, TOO_BIG, cause};
pub use self::file::{
    TIME_STEP_NANOS, append_only, closed_to_others, has_hole, is_reader_gone, next_data,
    open_unfollowed, open_without_waiting, read_at, read_exact_at, readable_by_all, rename,
    same_file, set_directory_permissions, set_modified, set_permissions, stat_at,
    stat_at_unfollowed, stat_of, sync, sync_dir, umask, usual_permissions, wait_for_write,
    write_all_at, write_mapped_pages_back,
};
pub use self::holder::holder_of;
pub use self::lock::{try_lock, try_lock_dir, try_lock_shared, unlock};
pub use self::name::{
    NAMES_MAY_MEET, argument_bytes, as_written, bytes_of, name_of, string_of, with_slashes,
};
pub use self::own_calls::{
    FULL_SYNC, clone_blocks, copy_range, is_network_disk, settle, share_blocks, shared_bytes,
    start_writeback, unnamed_file, widen_pipe,
};
pub use self::process::{
    HOME_VARIABLES, by_shell, host_name, in_own_group, login_name, may_execute, stop_group,
    terminal_size,
};
pub use self::stat::{HAS_EXECUTABLE_BIT, LISTS_STATS};
pub use self::streams::take_streams;
pub use self::xattr::{has_attributes, set_attribute, user_attributes};
pub use std::os::fd::AsFd as AsHandle;
