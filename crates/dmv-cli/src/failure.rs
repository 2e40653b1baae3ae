//! A failure as the user sees it, and the exit codes. It knows no error of the library: `error`
//! turns those into failures.

use dmv_core::escape::Hint;
use dmv_core::repo::RepoError;
use std::io;
use std::path::Path;

/// All went well.
pub const EXIT_OK: u8 = 0;
/// The answer is "no", or "they differ".
pub const EXIT_DIFFERS: u8 = 1;
/// The command line makes no sense.
pub const EXIT_USAGE: u8 = 2;
/// Done, but for items that were listed.
pub const EXIT_INCOMPLETE: u8 = 3;
/// Done, and conflicts are left.
pub const EXIT_CONFLICTS: u8 = 4;
/// Refused, because something could be lost.
pub const EXIT_REFUSED: u8 = 5;
/// Needs bytes that are not here.
pub const EXIT_ABSENT: u8 = 6;
/// Damage found.
pub const EXIT_DAMAGE: u8 = 7;
/// No repository here.
pub const EXIT_NO_REPOSITORY: u8 = 10;
/// Another command is at work.
pub const EXIT_BUSY: u8 = 11;
/// A key or a permission is wanting.
pub const EXIT_PERMISSION: u8 = 12;
/// A peer cannot be reached.
pub const EXIT_UNREACHABLE: u8 = 13;
/// The repository is of a later format.
pub const EXIT_TOO_NEW: u8 = 14;
/// Any other failure.
pub const EXIT_OTHER: u8 = 20;
/// Nobody reads the output any more, and it was to be whole: 128 and the number of SIGPIPE.
pub const EXIT_BROKEN_PIPE: u8 = 141;
/// The user stopped it.
pub const EXIT_INTERRUPTED: u8 = 130;

/// Returns the exit code of a command that has done everything but this.
pub fn exit_for<T>(left_out: &[T]) -> u8 {
    if left_out.is_empty() {
        EXIT_OK
    } else {
        EXIT_INCOMPLETE
    }
}

/// The word of a failure for programs: the repository's budget refuses the command.
pub const OVER_BUDGET: &str = "over-budget";

/// A command that failed.
#[derive(Clone, Debug)]
pub struct Failure {
    /// A word for programs.
    pub code: &'static str,
    /// The exit code.
    pub exit: u8,
    /// What failed, on which path or object.
    pub message: String,
    /// Lines below the message.
    pub details: Box<[String]>,
    /// A command to run.
    pub hint: Option<Hint>,
    /// The paths it is about, where there may be many.
    pub paths: Box<[Vec<u8>]>,
    /// The name that was to be a revision, and is none.
    pub no_revision: Option<Box<str>>,
}

/// How a failure is reported.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum FailureForm {
    /// As one line of JSON.
    Json,
    /// As text, with the first of its paths.
    Text,
    /// As text, with all paths.
    LongText,
}

impl FailureForm {
    /// The form for a command line without --verbose.
    pub fn json_if(json: bool) -> FailureForm {
        if json {
            FailureForm::Json
        } else {
            FailureForm::Text
        }
    }
}

impl Failure {
    /// A failure without a hint.
    pub fn new(code: &'static str, exit: u8, message: impl Into<String>) -> Failure {
        let message = message.into();
        Failure {
            code,
            exit,
            message,
            details: Box::default(),
            hint: None,
            paths: Box::default(),
            no_revision: None,
        }
    }

    /// Arguments that the parser lets pass and that make no sense together.
    pub fn usage(message: impl Into<String>) -> Failure {
        Failure::new("usage", EXIT_USAGE, message)
    }

    /// A failure of a file operation outside of the repository.
    pub fn file(action: &str, path: &Path, source: &io::Error) -> Failure {
        let message = format!("cannot {action} {}: {source}", path.display());
        match source.kind() {
            io::ErrorKind::PermissionDenied => Failure::new("permission", EXIT_PERMISSION, message),
            _ => Failure::new("file", EXIT_OTHER, message),
        }
    }

    /// Adds a command to run.
    pub fn hint(mut self, command: impl Into<Hint>) -> Failure {
        self.hint = Some(command.into());
        self
    }

    /// Of output that is worth nothing unless it is whole: that its reader has gone is as quiet,
    /// and no success. The code is the one that a shell shows for other programs.
    pub fn incomplete_output(mut self) -> Failure {
        if self.is_broken_pipe() {
            self.exit = EXIT_BROKEN_PIPE;
        }
        self
    }

    /// Whether it says only that the user stopped it.
    pub fn is_plain_interrupt(&self) -> bool {
        self.exit == EXIT_INTERRUPTED && self.message == RepoError::Cancelled.to_string()
    }

    /// Whether the reader of the output has gone, which is not worth a word.
    pub fn is_broken_pipe(&self) -> bool {
        self.code == BROKEN_PIPE
    }
}

/// The code of a refusal, because something that is in no commit would be lost.
pub const WOULD_LOSE: &str = "would-lose";
/// The code of a failure to write to a reader that has gone.
pub const BROKEN_PIPE: &str = "broken-pipe";

/// Failures of writing to standard output. Other files go through [`Failure::file`].
impl From<io::Error> for Failure {
    fn from(e: io::Error) -> Failure {
        match e.kind() {
            io::ErrorKind::BrokenPipe => Failure::new(BROKEN_PIPE, EXIT_OK, e.to_string()),
            _ => Failure::new("output", EXIT_OTHER, format!("cannot write output: {e}")),
        }
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

/// So that it passes through a command of the library that asks this program for settings.
impl std::error::Error for Failure {}
