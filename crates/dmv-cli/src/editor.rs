//! Writing a message in the user's editor.
//!
//! Which program that is the user alone decides: by the environment or the user's own settings. A
//! repository's settings never name a program.

use crate::context::Context;
use crate::failure::{EXIT_OTHER, Failure};
use crate::programs::{by_shell, is_there};
use crate::progress::while_lent;
use crate::terminal::{Lent, Whom};
use dmv_core::escape::Argument;
use dmv_core::escape::Hint;
use dmv_core::hint;
use dmv_core::object::commit::tidy_message;
use std::io::{self, IsTerminal};
use std::path::PathBuf;
use tempfile::TempDir;

/// The name of the file, which editors know: they wrap its lines and mark its comments.
const FILE: &str = "COMMIT_EDITMSG";
/// What a comment may begin with. The first that no line of the message begins with is taken.
const MARKS: [char; 6] = ['#', ';', '@', '!', '%', '|'];
/// Editors for those who have named none.
const USUAL: [&str; 3] = ["vi", "nano", "emacs"];

/// Whether somebody is at a terminal who can write a message.
pub fn is_possible(context: &Context) -> bool {
    !context.globals.json && io::stdin().is_terminal() && io::stdout().is_terminal()
}

/// What somebody wrote, until it is used.
pub struct EditedText {
    /// The message, without comments. Never empty.
    pub message: String,
    dir: TempDir,
}

impl EditedText {
    /// Keeps the text, because it could not be used, and returns the path of its file.
    pub fn keep(self) -> PathBuf {
        self.dir.keep().join(FILE)
    }
}

/// Lets the user write a message, starting from `message`, with `notes` below it as comments.
pub fn write(context: &Context, message: &str, notes: &[String]) -> Result<EditedText, Failure> {
    let editor = editor(context)?;
    let dir = tempfile::Builder::new().prefix("dmv-").tempdir();
    let fail = |e: io::Error| Failure::file("write a message in", &std::env::temp_dir(), &e);
    let dir = dir.map_err(fail)?;
    let path = dir.path().join(FILE);
    let mark = mark(message);
    std::fs::write(&path, template(message, notes, mark)).map_err(fail)?;
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
        let failure = Failure::new(
            "no-message",
            EXIT_OTHER,
            "the message is empty; nothing was committed",
        );
        return Err(failure.hint("dmv commit, and write a message; or dmv commit -m MESSAGE"));
    };
    Ok(EditedText { message, dir })
}

/// What the user wants for an editor: a setting, what the environment says, or one that is there.
fn editor(context: &Context) -> Result<String, Failure> {
    if let Some(editor) = context.config()?.value("core.editor")? {
        return Ok(editor);
    }
    let named = |name: &&str| {
        std::env::var(name)
            .ok()
            .filter(|value| !value.trim().is_empty())
    };
    if let Some(editor) = ["VISUAL", "EDITOR"].iter().find_map(named) {
        return Ok(editor);
    }
    let usual = USUAL.iter().find(|name| is_there(name));
    usual.map(|name| (*name).to_owned()).ok_or_else(|| {
        let failure = Failure::usage("a commit needs a message, and no editor was found");
        failure.hint("dmv commit -m MESSAGE; or set EDITOR")
    })
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
