//! Writing a message in the user's editor, or on a line of the terminal if the user has never named one.
//!
//! Which program that is the user alone decides: by the environment or the user's own settings. A
//! repository's settings never name a program.

use crate::context::Context;
use crate::failure::{EXIT_OTHER, Failure};
use crate::format::text::clean;
use crate::progress::while_lent;
use crate::terminal::{Lent, Whom};
use dmv_core::escape::Argument;
use dmv_core::escape::Hint;
use dmv_core::hint;
use dmv_core::object::commit::tidy_message;
use dmv_core::platform::by_shell;
use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use tempfile::TempDir;

/// The name of the file, which editors know: they wrap its lines and mark its comments.
const FILE: &str = "COMMIT_EDITMSG";
/// What a comment may begin with. The first that no line of the message begins with is taken.
const MARKS: [char; 6] = ['#', ';', '@', '!', '%', '|'];
/// The most lines above a question for a message.
const MAX_LINES: usize = 12;

/// Whether a user at a terminal can write a message.
pub fn is_possible(context: &Context) -> bool {
    !context.globals.json && io::stdin().is_terminal() && io::stdout().is_terminal()
}

/// What the user wrote, until it is used.
pub struct EditedText {
    /// The message, without comments. Never empty.
    pub message: String,
    /// The directory of the file, if it was written in one.
    dir: Option<TempDir>,
}

impl EditedText {
    /// Keeps the text, because it could not be used, and returns the path of its file.
    pub fn keep(self) -> Result<PathBuf, Failure> {
        if let Some(dir) = self.dir {
            return Ok(dir.keep().join(FILE));
        }
        let path = new_dir()?.keep().join(FILE);
        std::fs::write(&path, self.message).map_err(unwritten)?;
        Ok(path)
    }
}

/// Lets the user write a message, starting from `message`, with `notes` below it as comments.
pub fn write(context: &Context, message: &str, notes: &[String]) -> Result<EditedText, Failure> {
    let Some(editor) = editor(context)? else {
        return ask(context, message, notes);
    };
    let dir = new_dir()?;
    let path = dir.path().join(FILE);
    let mark = mark(message);
    std::fs::write(&path, template(message, notes, mark)).map_err(unwritten)?;
    // Nothing is drawn meanwhile, and Ctrl-C is the editor's.
    while_lent(context.job.clone());
    let lent = Lent::to(Whom::Editor);
    let status = by_shell(&editor, &[path.as_os_str()]).status();
    drop(lent);
    let failed = |why: String| {
        let message = format!("the editor '{editor}' {why}; nothing was committed");
        let failure = Failure::new("editor", EXIT_OTHER, message);
        failure.hint("dmv config set --user core.editor PROGRAM, or dmv commit -m MESSAGE")
    };
    let status = status.map_err(|e| failed(format!("cannot be started: {e}")))?;
    if !status.success() {
        return Err(failed(match status.code() {
            Some(127) => "was not found".to_owned(),
            Some(code) => format!("ended with exit code {code}"),
            None => "was killed".to_owned(),
        }));
    }
    let bytes = std::fs::read(&path).map_err(|e| Failure::file("read", &path, &e))?;
    let Ok(text) = String::from_utf8(bytes) else {
        let kept = dir.keep().join(FILE);
        let message = format!("the message in {} is not UTF-8", kept.display());
        return Err(Failure::new("bad-text", EXIT_OTHER, message));
    };
    let Some(message) = without_comments(&text, mark) else {
        return Err(no_message());
    };
    let dir = Some(dir);
    Ok(EditedText { message, dir })
}

fn new_dir() -> Result<TempDir, Failure> {
    let dir = tempfile::Builder::new().prefix("dmv-").tempdir();
    dir.map_err(unwritten)
}

fn unwritten(e: io::Error) -> Failure {
    Failure::file("write a message in", &std::env::temp_dir(), &e)
}

fn no_message() -> Failure {
    let failure = Failure::new(
        "no-message",
        EXIT_OTHER,
        "the message is empty; nothing was committed",
    );
    failure.hint("dmv commit, and write a message; or dmv commit -m MESSAGE")
}

/// What the user wants for an editor: a setting, or what the environment says. `None`: the user has never
/// named one. Whoever has not may not know how to leave the one that a system has.
fn editor(context: &Context) -> Result<Option<String>, Failure> {
    if let Some(editor) = context.config()?.value("core.editor")? {
        return Ok(Some(editor));
    }
    let named = |name: &&str| {
        std::env::var(name)
            .ok()
            .filter(|value| !value.trim().is_empty())
    };
    Ok(["VISUAL", "EDITOR"].iter().find_map(named))
}

/// Asks for a message of one line, below a summary. An empty line leaves `message` as it is.
fn ask(context: &Context, message: &str, notes: &[String]) -> Result<EditedText, Failure> {
    context.ui.finish()?;
    let mut out = io::stdout().lock();
    for line in question(message, notes) {
        writeln!(out, "{line}")?;
    }
    write!(out, "Message: ")?;
    out.flush()?;
    drop(out);
    let mut line = String::new();
    let read = io::stdin().read_line(&mut line);
    read.map_err(|e| Failure::file("read", std::path::Path::new("the message"), &e))?;
    if !line.ends_with('\n') {
        // The terminal was closed, or the user has ended the input.
        return Err(no_message());
    }
    let typed = tidy_message(&line);
    let message = typed.or_else(|| tidy_message(message));
    let message = message.ok_or_else(no_message)?;
    Ok(EditedText { message, dir: None })
}

/// What stands above the question for a message.
fn question(message: &str, notes: &[String]) -> Vec<String> {
    let mut lines: Vec<String> = notes.iter().take(MAX_LINES).cloned().collect();
    if notes.len() > MAX_LINES {
        lines.push(format!(
            "  and {} more: dmv status",
            notes.len() - MAX_LINES
        ));
    }
    lines.push(String::new());
    if let Some(first) = message.lines().next() {
        lines.push(format!("The message is now: {}", clean(first)));
        lines.push("Write another one on one line, or press Enter to keep it.".to_owned());
    } else {
        lines.push("Say in one line what changes; an empty line stops the commit.".to_owned());
    }
    lines.push("For an editor instead: dmv config set --user core.editor PROGRAM".to_owned());
    lines
}

/// What comments begin with below this message.
fn mark(message: &str) -> char {
    let is_free = |mark: &&char| !message.lines().any(|line| line.starts_with(**mark));
    MARKS.iter().find(is_free).copied().unwrap_or(MARKS[0])
}

/// The file as the editor finds it.
fn template(message: &str, notes: &[String], mark: char) -> String {
    let mut text = format!("{}\n\n", message.trim_end());
    let rules = [
        format!("Write the commit message above. Lines that start with '{mark}' are left out."),
        "An empty message stops the commit.".to_owned(),
        String::new(),
    ];
    for line in rules.iter().chain(notes) {
        text += format!("{mark} {line}").trim_end();
        text.push('\n');
    }
    text
}

/// The message in a file that was edited, without comments.
fn without_comments(text: &str, mark: char) -> Option<String> {
    let lines = text.split_inclusive('\n');
    let text: String = lines.filter(|line| !line.starts_with(mark)).collect();
    tidy_message(&text)
}

/// The command that uses a message that was kept.
pub fn way_to_use(path: &std::path::Path) -> Hint {
    hint!("dmv commit -F {}", Argument::on_disk(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_idle_space_are_left_out_of_a_message() {
        for (text, message) in [
            ("", ""),
            ("# only\n#a comment\n", ""),
            (" \n\t\n", ""),
            ("one", "one"),
            (
                "\n\none  \n\n\n\ntwo\nthree\n\n# four\n",
                "one\n\ntwo\nthree",
            ),
            ("one\n# two\nthree\n", "one\nthree"),
            ("  indented\n #kept\n", "  indented\n #kept"),
        ] {
            let found = without_comments(text, '#').unwrap_or_default();
            assert_eq!(found, message, "{text:?}");
        }
    }

    #[test]
    fn no_line_of_an_old_message_is_taken_for_a_comment() {
        for message in ["fix", "fix\n\n#12 is solved", "#1\n;2\n@3"] {
            let mark = mark(message);
            let text = template(message, &["On branch main".to_owned()], mark);
            assert_eq!(without_comments(&text, mark).as_deref(), Some(message));
        }
        assert_eq!((mark("a"), mark("#a"), mark("b\n#a\n;")), ('#', ';', '@'));
    }
}
