//! Other programs that the user has named, as a shell command: an editor, a pager.

use std::ffi::OsStr;
use std::path::Path;
use std::process::{Child, Command};

/// The command that runs `text` with more arguments, as a shell reads it. So quotes, options and
/// variables in it mean what the user expects; the arguments themselves are not read by the shell.
pub fn by_shell(text: &str, args: &[&OsStr]) -> Command {
    let mut command = Command::new("sh");
    command.arg("-c");
    if args.is_empty() {
        command.arg(text);
    } else {
        command.arg(format!("{text} \"$@\"")).arg(text).args(args);
    }
    command
}

/// Whether a program of this name is in one of the directories of `PATH`.
pub fn is_there(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|dir| is_program(&dir.join(name)))
}

/// Lets a command and everything that it starts be stopped together.
pub fn in_own_group(command: &mut Command) {
    use std::os::unix::process::CommandExt;
    command.process_group(0);
}

/// Stops a command that has a group of its own, and everything in that.
pub fn stop_group(child: &mut Child) {
    use rustix::process::{Pid, Signal, kill_process_group};
    // It may just have ended by itself.
    let _ = kill_process_group(Pid::from_child(child), Signal::KILL);
}

/// Whether a file can be executed.
pub fn is_program(path: &Path) -> bool {
    use rustix::fs::{Access, access};
    path.is_file() && access(path, Access::EXEC_OK).is_ok()
}
