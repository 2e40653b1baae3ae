//! Programs, users and the machine.

use super::calls;
use crate::platform::TerminalSize;
use std::ffi::OsStr;
use std::os::windows::io::AsHandle;
use std::os::windows::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command};

/// Endings of files that can be executed.
const PROGRAMS: [&str; 4] = ["exe", "com", "bat", "cmd"];

/// Git and other tools from Unix set the first one, Windows the second.
pub const HOME_VARIABLES: &[&str] = &["HOME", "USERPROFILE"];

/// `cmd` reads the text between the first and the last quote as it is. The arguments are paths, which have no quotes.
pub fn by_shell(text: &str, args: &[&OsStr]) -> Command {
    let mut command = Command::new("cmd");
    command.args(["/D", "/S", "/C"]);
    let mut line = std::ffi::OsString::from("\"");
    line.push(text);
    for arg in args {
        line.push(" \"");
        line.push(arg);
        line.push("\"");
    }
    line.push("\"");
    command.raw_arg(line);
    command
}

pub fn may_execute(path: &Path) -> bool {
    let ending = path.extension().unwrap_or_default();
    PROGRAMS
        .iter()
        .any(|known| ending.eq_ignore_ascii_case(known))
}

/// Windows knows which process has started which.
pub fn in_own_group(_: &mut Command) {}

pub fn stop_group(child: &mut Child) {
    let pid = child.id().to_string();
    // Its output is taken, so that nobody sees it.
    let tree = Command::new("taskkill")
        .args(["/T", "/F", "/PID", &pid])
        .output();
    if !tree.is_ok_and(|done| done.status.success()) {
        let _ = child.kill();
    }
}

pub fn host_name() -> String {
    calls::host_name().unwrap_or_default()
}

/// The variable `USERNAME` tells it.
pub fn login_name() -> Option<String> {
    None
}

pub fn terminal_size(stream: impl AsHandle) -> Option<TerminalSize> {
    let [lines, columns] = calls::terminal_size(&stream).ok()?;
    Some(TerminalSize {
        lines: usize::try_from(lines).ok()?,
        columns: usize::try_from(columns).ok()?,
    })
}
