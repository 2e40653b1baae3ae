//! Other programs, the user, and the machine.

use super::system;
use std::ffi::OsStr;
use std::path::Path;
use std::process::{Child, Command};
use std::sync::OnceLock;

/// Returns the command that runs `text` with more arguments, as the system's shell reads it. So quotes,
/// options and variables in it mean what the user expects; the shell does not read the arguments.
pub fn by_shell(text: &str, args: &[&OsStr]) -> Command {
    system::by_shell(text, args)
}

/// Returns whether the file at `path` can be executed.
pub fn is_program(path: &Path) -> bool {
    path.is_file() && system::may_execute(path)
}

/// Lets a command and everything that it starts be stopped together.
pub fn in_own_group(command: &mut Command) {
    system::in_own_group(command);
}

/// Stops a command that has a group of its own, and everything in that. It may have ended by itself.
pub fn stop_group(child: &mut Child) {
    system::stop_group(child);
}

/// The variables that may name the user's home, the first one that is set.
pub const HOME_VARIABLES: &[&str] = system::HOME_VARIABLES;

/// Returns the name of this machine; empty if the system does not tell it.
pub fn host_name() -> String {
    system::host_name()
}

/// Returns the name of this user, where no variable tells it. The system is asked once.
pub fn login_name() -> Option<&'static str> {
    static NAME: OnceLock<Option<String>> = OnceLock::new();
    NAME.get_or_init(system::login_name).as_deref()
}

/// How many characters a terminal shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TerminalSize {
    /// Lines.
    pub lines: usize,
    /// Columns.
    pub columns: usize,
}

/// Returns the size of the terminal that `stream` leads to. `None` if it is none, or does not tell.
pub fn terminal_size(stream: impl system::AsHandle) -> Option<TerminalSize> {
    system::terminal_size(stream).filter(|size| size.lines > 0 && size.columns > 0)
}
