//! Showing long output in the user's pager.
//!
//! Output that fits on the screen is written as if there were no pager. The pager is started when more
//! comes than fits, so a short answer never depends on another program. If it turns out that the pager
//! cannot be run, everything goes to the screen.

use crate::config::Config;
use crate::failure::Failure;
use crate::programs::is_there;
use crate::terminal::{Lent, Whom};
use dmv_core::platform::{TerminalSize, by_shell, terminal_size};
use std::io::{self, Write};
use std::process::{Child, ChildStdin, Stdio};

/// The pager for those who have named none.
const USUAL: &str = "less";
/// What is set for `less` unless the user has set something: colours are shown, and text that fits on
/// the screen stays there.
const FOR_LESS: &str = "FRX";
/// The size of a terminal that does not tell it.
const USUAL_SIZE: TerminalSize = TerminalSize {
    lines: 24,
    columns: 80,
};
/// More than a pipe holds: if so much was written to it, the pager has read.
const UNREAD: usize = 1 << 20;
/// What a shell ends with if it cannot run a command.
const NOT_RUN: [i32; 2] = [126, 127];

/// The pager that the user wants: a setting, what the environment says, or the usual one if it is
/// there. `None`: none at all.
pub fn wanted(config: &Config) -> Result<Option<String>, Failure> {
    let named = match config.value("core.pager")? {
        Some(pager) => Some(pager),
        None => std::env::var("PAGER").ok(),
    };
    let pager = match named {
        Some(pager) => Some(pager.trim().to_owned()),
        None => is_there(USUAL).then(|| USUAL.to_owned()),
    };
    Ok(pager.filter(|pager| !matches!(&pager[..], "" | "cat")))
}

/// Output on its way to a terminal, or to a pager there.
pub struct PagedOutput {
    state: State,
    command: String,
    /// Called before the pager gets the terminal.
    before: Box<dyn Fn()>,
    room: Room,
    /// Why the pager has shown nothing.
    wrong: Option<String>,
}

enum State {
    /// All fits on the screen so far.
    Fits,
    Shows(OpenPager),
    /// It has ended, and reads no more.
    Gone,
}

struct OpenPager {
    child: Child,
    input: ChildStdin,
    /// All that was written, as long as it may be that the pager has read none of it.
    unread: Option<Vec<u8>>,
    _lent: Lent,
}

impl OpenPager {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.input.write(bytes)?;
        match &mut self.unread {
            Some(unread) if unread.len() < UNREAD => unread.extend(&bytes[..written]),
            _ => self.unread = None,
        }
        Ok(written)
    }

    /// Waits until the pager has ended. If it could not be run, returns the exit code and what it
    /// should have shown.
    fn end(self) -> Option<(i32, Vec<u8>)> {
        let OpenPager {
            mut child,
            input,
            unread,
            ..
        } = self;
        drop(input);
        // What it ended with is its own affair; only a pager that never ran has shown nothing.
        let code = child.wait().ok().and_then(|status| status.code());
        code.filter(|code| NOT_RUN.contains(code)).zip(unread)
    }
}

impl PagedOutput {
    /// Output that `command` shows if it is long. `before` is called when that begins.
    pub fn new(command: String, before: Box<dyn Fn()>) -> PagedOutput {
        PagedOutput {
            state: State::Fits,
            command,
            before,
            room: Room::of_terminal(),
            wrong: None,
        }
    }

    /// Whether the pager has the terminal.
    pub fn is_shown(&self) -> bool {
        matches!(self.state, State::Shows(_))
    }

    /// Whether the pager has ended.
    pub fn is_over(&self) -> bool {
        matches!(self.state, State::Gone)
    }

    /// Writes some of `bytes`; to `screen` as long as all fits there.
    pub fn write(&mut self, bytes: &[u8], screen: &mut impl Write) -> io::Result<usize> {
        if matches!(self.state, State::Fits) && !self.room.takes(bytes) {
            self.start();
        }
        match &mut self.state {
            State::Fits => screen.write(bytes),
            State::Shows(showing) => match showing.write(bytes) {
                Err(e) if e.kind() == io::ErrorKind::BrokenPipe && showing.unread.is_some() => {
                    self.end(screen)?;
                    match self.state {
                        State::Fits => screen.write(bytes),
                        _ => Err(e),
                    }
                }
                done => done,
            },
            State::Gone => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }

    /// Waits until the user has left the pager. If it could not be run, the screen gets what it has not
    /// shown, and all that follows.
    fn end(&mut self, screen: &mut impl Write) -> io::Result<()> {
        let before = std::mem::replace(&mut self.state, State::Gone);
        let State::Shows(showing) = before else {
            self.state = before;
            return Ok(());
        };
        let Some((code, unread)) = showing.end() else {
            return Ok(());
        };
        (self.state, self.room) = (State::Fits, Room::endless());
        let command = &self.command;
        self.wrong = Some(format!(
            "the pager '{command}' cannot be run (exit code {code}); without it: --no-pager"
        ));
        screen.write_all(&unread)
    }

    fn start(&mut self) {
        (self.before)();
        let lent = Lent::to(Whom::Pager);
        let mut command = by_shell(&self.command, &[]);
        command.stdin(Stdio::piped());
        for (name, value) in [("LESS", FOR_LESS), ("LV", "-c")] {
            if std::env::var_os(name).is_none() {
                command.env(name, value);
            }
        }
        match command.spawn() {
            Ok(mut child) => {
                let input = child.stdin.take().expect("it was asked for");
                self.state = State::Shows(OpenPager {
                    child,
                    input,
                    unread: Some(Vec::new()),
                    _lent: lent,
                });
            }
            // Not even a shell can be started: all goes to the screen.
            Err(_) => self.room = Room::endless(),
        }
    }

    /// Waits until the user has left the pager. Returns what is wrong with it, if it could not be run.
    pub fn finish(&mut self, screen: &mut impl Write) -> Option<String> {
        // A screen that is gone was not lost by the pager.
        let _ = self.end(screen);
        self.wrong.take()
    }
}

/// How much of a terminal's screen is left.
struct Room {
    lines: usize,
    columns: usize,
    /// Columns that are used in the last line.
    column: usize,
    in_escape: bool,
}

impl Room {
    fn of_terminal() -> Room {
        let size = terminal_size(io::stdout()).unwrap_or(USUAL_SIZE);
        Room {
            // The prompt takes a line.
            lines: size.lines.saturating_sub(1),
            columns: size.columns,
            column: 0,
            in_escape: false,
        }
    }

    fn endless() -> Room {
        Room {
            lines: usize::MAX,
            columns: usize::MAX,
            column: 0,
            in_escape: false,
        }
    }

    /// Whether the screen has room for more bytes, which are then there.
    fn takes(&mut self, bytes: &[u8]) -> bool {
        for byte in bytes {
            match byte {
                // A colour takes no room.
                b'\x1b' => self.in_escape = true,
                byte if self.in_escape => self.in_escape = !byte.is_ascii_alphabetic(),
                b'\n' if self.lines == 0 => return false,
                b'\n' => {
                    self.lines -= 1;
                    self.column = 0;
                }
                // What follows the first byte of a letter in UTF-8.
                byte if byte & 0xc0 == 0x80 => {}
                _ => {
                    self.column += 1;
                    if self.column > self.columns {
                        if self.lines == 0 {
                            return false;
                        }
                        self.lines -= 1;
                        self.column = 1;
                    }
                }
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_has_room_up_to_the_last_line_but_one() {
        let room = || Room {
            lines: 3,
            columns: 10,
            column: 0,
            in_escape: false,
        };
        for (text, fits) in [
            ("", true),
            ("1\n2\n3\n", true),
            ("1\n2\n3\n4", true),
            ("1\n2\n3\n4\n", false),
            ("0123456789\n0123456789\n0123456789\n", true),
            ("0123456789a\n2\n", true),
            ("0123456789a\n2\n3\n", false),
            ("äöüäöüäöüä\näöüäöüäöüä\n3\n", true),
            ("\x1b[32m0123456789\x1b[0m\n2\n3\n", true),
        ] {
            assert_eq!(room().takes(text.as_bytes()), fits, "{text:?}");
            let mut room = room();
            assert_eq!(
                text.bytes().all(|byte| room.takes(&[byte])),
                fits,
                "{text:?}"
            );
        }
    }
}
