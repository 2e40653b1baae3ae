//! Programs, users and the machine, by the system's calls.

use crate::platform::TerminalSize;
use rustix::fs::{Access, access};
use rustix::process::{Pid, Signal, kill_process_group};
use std::ffi::OsStr;
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command};

pub const HOME_VARIABLES: &[&str] = &["HOME"];

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

pub fn may_execute(path: &Path) -> bool {
    access(path, Access::EXEC_OK).is_ok()
}

pub fn in_own_group(command: &mut Command) {
    command.process_group(0);
}

pub fn stop_group(child: &mut Child) {
    let _ = kill_process_group(Pid::from_child(child), Signal::KILL);
}

pub fn host_name() -> String {
    let system = rustix::system::uname();
    system.nodename().to_string_lossy().into_owned()
}

/// The name that this user's number has in the list of users.
pub fn login_name() -> Option<String> {
    let users = std::fs::read_to_string("/etc/passwd").ok()?;
    let uid = rustix::process::getuid().as_raw().to_string();
    let mut fields = users.lines().map(|line| line.split(':'));
    fields.find_map(|mut user| {
        let name = user.next()?;
        (user.nth(1)? == uid && !name.is_empty()).then(|| name.to_owned())
    })
}

pub fn terminal_size(stream: impl AsFd) -> Option<TerminalSize> {
    let size = rustix::termios::tcgetwinsize(stream).ok()?;
    Some(TerminalSize {
        lines: usize::from(size.ws_row),
        columns: usize::from(size.ws_col),
    })
}
