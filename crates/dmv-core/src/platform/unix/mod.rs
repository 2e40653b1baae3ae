//! The platform room on Linux. The room's other modules say what each item means.

mod dir;
mod disk;
mod error;
mod file;
mod holder;
mod name;
mod stat;
mod streams;
mod xattr;

pub use self::dir::Dir;
pub use self::disk::{
    LOCKLESS_SQLITE, free_bytes, is_network_disk, is_own, is_read_only_disk,
    is_written_by_this_user_only, may_read, may_write,
};
pub use self::error::{INVALID, NAME_TOO_LONG, TOO_BIG, cause};
pub use self::file::{
    append_only, clone_blocks, copy_range, has_hole, is_reader_gone, next_data, open_unfollowed,
    open_without_waiting, read_at, read_exact_at, readable_by_all, set_directory_permissions,
    set_modified, set_permissions, shared_bytes, start_writeback, stat_at, stat_at_unfollowed,
    stat_of, sync_dir, umask, unnamed_file, wait_for_write, widen_pipe, write_all_at,
    write_mapped_pages_back,
};
pub use self::holder::holder_of;
pub use self::name::{bytes_of, name_of, string_of};
pub use self::streams::take_streams;
pub use self::xattr::{has_attributes, set_attribute, user_attributes};
pub use std::os::fd::AsFd as AsHandle;
