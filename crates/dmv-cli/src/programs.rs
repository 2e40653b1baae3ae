//! Other programs that the user has named, as a shell command: an editor, a pager.

use dmv_core::platform::is_program;

/// Whether a program of this name is in one of the directories of `PATH`.
pub fn is_there(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|dir| is_program(&dir.join(name)))
}
