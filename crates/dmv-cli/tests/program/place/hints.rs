//! Every command line that a test makes the program print is looked at: it has to parse, and where that
//! is harmless it runs, in a copy of the test's directory, as a shell reads it.
//!
//! A line that a run prints is `hint: dmv restore x; or dmv undo`, a note with a command at its end, or
//! the `hint` of a failure as JSON. A command begins at the word `dmv` and the name of a command, and
//! ends where the sentence goes on.

use super::{Outcome, Place, temp_dir};
use std::collections::{BTreeSet, HashSet};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStringExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::{LazyLock, Mutex};

/// Words that go on with the sentence behind a command.
const SENTENCE: [&str; 20] = [
    "or", "then", "lists", "shows", "and", "to", "if", "when", "in", "where", "with", "run",
    "again", "for", "also", "brings", "fetches", "would", "as", "of",
];

/// Commands that only look, or change what the copy of a test has: no other repository, no peer and
/// no settings of a remote.
const HARMLESS: [&str; 21] = [
    "branch",
    "cat",
    "checkout",
    "conflicts",
    "diff",
    "du",
    "keep",
    "log",
    "ls",
    "op",
    "redo",
    "resolve",
    "restore",
    "rm",
    "show",
    "stash",
    "stats",
    "status",
    "subset",
    "undo",
    "verify",
];

/// Above this size no copy of a directory is made.
const MAX_COPIED: u64 = 4 << 20;

/// The commands of the program, as its help lists them.
static COMMANDS: LazyLock<BTreeSet<String>> = LazyLock::new(|| {
    let help = program()
        .args(["help", "--all"])
        .output()
        .expect("the program runs");
    let help = String::from_utf8_lossy(&help.stdout).into_owned();
    let names = help
        .lines()
        .filter_map(|line| line.strip_prefix("  ")?.split_once("  "));
    let is_name = |name: &&str| {
        name.starts_with(|c: char| c.is_ascii_lowercase()) && !name.contains(' ') && *name != "help"
    };
    let names = names.map(|(name, _)| name).filter(is_name);
    names.map(str::to_owned).collect()
});

/// The commands of the program.
pub fn commands() -> &'static BTreeSet<String> {
    &COMMANDS
}

/// Command lines that were looked at, since most of them come again and again.
static KNOWN: LazyLock<Mutex<HashSet<String>>> = LazyLock::new(Mutex::default);

/// A command line in a text.
#[derive(Debug, PartialEq, Eq)]
pub struct PrintedCommand {
    /// As it stands there.
    pub text: String,
    /// Its words behind `dmv`, as a shell reads them.
    pub words: Vec<OsString>,
}

impl PrintedCommand {
    /// The command lines of a sentence.
    pub fn all_in(sentence: &str) -> Vec<PrintedCommand> {
        let mut out = Vec::new();
        let mut from = 0;
        while let Some(found) = sentence[from..].find("dmv ") {
            let at = from + found;
            from = at + 4;
            let before = sentence[..at].chars().next_back();
            if before.is_some_and(|c| c != ' ' && c != '(') {
                continue;
            }
            let (words, end) = words(sentence, from);
            let text = sentence[at..end].trim_end().to_owned();
            let command = PrintedCommand { text, words };
            if COMMANDS.contains(command.name()) {
                from = end.max(from);
                out.push(command);
            }
        }
        out
    }

    /// Whether a word stands for something that the user chooses.
    fn has_placeholder(&self) -> bool {
        self.words.iter().any(|word| {
            let word = word.to_string_lossy();
            let parts = word.split([':', '@', '.']);
            let is_open =
                |part: &str| part.len() > 1 && part.chars().all(|c| c.is_ascii_uppercase());
            parts.into_iter().any(is_open)
        })
    }

    /// The words with a value for each placeholder that is no text.
    fn filled(&self) -> Vec<OsString> {
        let value = |word: &OsString| match word.to_str() {
            Some("SIZE") => "1GiB".into(),
            Some("SECONDS" | "N") => "5".into(),
            Some("IP:PORT") => "127.0.0.1:0".into(),
            Some("KEY") => "0".repeat(64).into(),
            _ => word.clone(),
        };
        self.words.iter().map(value).collect()
    }

    /// Fails if the program does not understand the words.
    fn check_words(&self) -> Outcome {
        // They take all words that follow.
        if ["help", "add"].contains(&self.name()) || self.words.iter().any(|word| word == "run") {
            return Ok(());
        }
        let mut words = self.filled();
        let at = words
            .iter()
            .position(|word| word == "--")
            .unwrap_or(words.len());
        words.insert(at, "--help".into());
        let done = program().args(&words).output()?;
        let errors = String::from_utf8_lossy(&done.stderr);
        assert_eq!(
            done.status.code(),
            Some(0),
            "a hint does not parse: {}: {errors}",
            self.text
        );
        Ok(())
    }

    /// The name of the command, behind the directory that it runs in.
    fn name(&self) -> &str {
        let is_there = self.words.first().is_some_and(|word| word == "-C");
        let at = if is_there { 2 } else { 0 };
        self.words
            .get(at)
            .and_then(|word| word.to_str())
            .unwrap_or_default()
    }

    fn is_harmless(&self) -> bool {
        let is_local = !self.words.iter().any(|word| word == "--at");
        HARMLESS.contains(&self.name()) && is_local && !self.has_placeholder()
    }
}

/// The words of a command that begins at `from`, and where it ends.
fn words(text: &str, from: usize) -> (Vec<OsString>, usize) {
    let bytes = text.as_bytes();
    let (mut at, mut words) = (from, Vec::new());
    loop {
        let begin = at;
        let mut word = Vec::new();
        while at < bytes.len() && bytes[at] != b' ' {
            let rest = &bytes[at..];
            // What belongs to the sentence: at the end of a word.
            let is_last = rest.len() == 1 || rest[1] == b' ';
            let is_mark = matches!(rest[0], b',' | b';' | b'?' | b'.') && is_last;
            if is_mark || matches!(rest[0], b')' | b'|' | b'(' | b'"') {
                if !word.is_empty() {
                    words.push(OsString::from_vec(word));
                }
                return (words, at);
            }
            at += match rest {
                [b'$', b'\'', ..] => push_escaped(&mut word, rest),
                [b'\'', ..] => push_quoted(&mut word, rest),
                [b'\\', byte, ..] => {
                    word.push(*byte);
                    2
                }
                [byte, ..] => {
                    word.push(*byte);
                    1
                }
                [] => unreachable!("the loop has looked"),
            };
        }
        if word.is_empty() || SENTENCE.iter().any(|end| text[begin..at] == **end) {
            return (words, begin);
        }
        words.push(OsString::from_vec(word));
        at += 1;
        if at >= bytes.len() {
            return (words, bytes.len());
        }
    }
}

/// Adds what stands in single quotes, and returns how much of the text that was.
fn push_quoted(word: &mut Vec<u8>, rest: &[u8]) -> usize {
    let len = rest[1..]
        .iter()
        .position(|b| *b == b'\'')
        .unwrap_or(rest.len() - 2);
    word.extend(&rest[1..=len]);
    len + 2
}

/// The same for `$'...'`.
fn push_escaped(word: &mut Vec<u8>, rest: &[u8]) -> usize {
    let mut at = 2;
    while at < rest.len() && rest[at] != b'\'' {
        if rest[at] != b'\\' {
            word.push(rest[at]);
            at += 1;
            continue;
        }
        at += 2;
        match rest[at - 1] {
            b'n' => word.push(b'\n'),
            b't' => word.push(b'\t'),
            b'r' => word.push(b'\r'),
            b'x' => {
                let hex = String::from_utf8_lossy(&rest[at..at + 2]);
                word.push(u8::from_str_radix(&hex, 16).expect("two digits follow"));
                at += 2;
            }
            byte => word.push(byte),
        }
    }
    at + 1
}

/// The sentences of a run that may name commands.
fn sentences(output: &Output) -> Vec<String> {
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    let sentence = |line: &str| {
        if !line.starts_with('{') {
            return Some(line.to_owned());
        }
        let record: serde_json::Value = serde_json::from_str(line).ok()?;
        let said = if record["type"] == "error" {
            &record["hint"]
        } else {
            &record["message"]
        };
        Some(format!("hint: {}", said.as_str()?))
    };
    // The parser's own words are no hints.
    let lines = text.lines().filter(|line| !line.starts_with("Usage: "));
    lines.filter_map(sentence).collect()
}

/// Looks at the commands that `args` has printed in this place.
pub fn check<S: AsRef<OsStr>>(place: &Place, args: &[S], output: &Output) -> Outcome {
    let sentences = sentences(output);
    for command in sentences
        .iter()
        .flat_map(|line| PrintedCommand::all_in(line))
    {
        let is_new = KNOWN
            .lock()
            .expect("no holder panics")
            .insert(command.text.clone());
        if !is_new {
            continue;
        }
        command.check_words()?;
        if command.is_harmless() && place.env.is_empty() {
            run_in_copy(place, args, output, &command)?;
        }
    }
    Ok(())
}

/// Runs a command that was printed. It must make sense, and not fail as the command did that named it.
fn run_in_copy<S: AsRef<OsStr>>(
    place: &Place,
    args: &[S],
    output: &Output,
    command: &PrintedCommand,
) -> Outcome {
    // A linked worktree and its repository name each other by their places, also after the worktree was removed. So
    // a command in a copy would change the original.
    let has_linked =
        args.iter().any(|arg| arg.as_ref() == "worktree") || has_linked_worktree(place.dir.path());
    if has_linked || size_of(place.dir.path()) > MAX_COPIED {
        return Ok(());
    }
    let copy = temp_dir()?;
    let mut copied = Command::new("cp");
    copied
        .arg("-a")
        .arg(place.dir.path().join("."))
        .arg(copy.path());
    if !copied.stderr(Stdio::null()).status()?.success() {
        return Ok(());
    }
    let (from, to) = (
        place.dir.path().display().to_string(),
        copy.path().display().to_string(),
    );
    let text = command.text.replace(&from, &to);
    let dir = match args {
        [option, dir, ..] if option.as_ref() == "-C" => {
            let dir = Path::new(dir.as_ref());
            match dir.strip_prefix(place.dir.path()) {
                Ok(within) => copy.path().join(within),
                Err(_) if dir.is_absolute() => return Ok(()),
                Err(_) => copy.path().join("work").join(dir),
            }
        }
        _ => copy.path().join("work"),
    };
    let done = pasted(copy.path(), &dir, &text)?;
    let said = String::from_utf8_lossy(&done.stderr).replace(&to, &from);
    assert_ne!(done.status.code(), Some(2), "{text}: {said}");
    let error = |text: &str| {
        text.lines()
            .find(|line| line.starts_with("error: "))
            .map(str::to_owned)
    };
    let before = error(&String::from_utf8_lossy(&output.stderr));
    let is_same = before.is_some() && before == error(&said);
    assert!(!is_same, "the hint fails in the same way: {text}: {said}");
    Ok(())
}

/// Pastes a command line into a shell in `dir`; `base` is the directory of a [`Place`].
pub fn pasted(base: &Path, dir: &Path, text: &str) -> Outcome<Output> {
    let program = Path::new(env!("CARGO_BIN_EXE_dmv"))
        .parent()
        .ok_or("no directory")?;
    let path = std::env::join_paths([program, Path::new("/usr/bin"), Path::new("/bin")])?;
    let mut shell = Command::new("bash");
    shell
        .arg("-c")
        .arg(text)
        .current_dir(dir)
        .env_clear()
        .env("PATH", path)
        .env("HOME", base.join("home"))
        .env("XDG_CONFIG_HOME", base.join("home/config"))
        .env("USER", "ada")
        .env("NO_COLOR", "1")
        .stdin(Stdio::null());
    Ok(shell.output()?)
}

fn program() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dmv"));
    command
        .env_clear()
        .env("NO_COLOR", "1")
        .stdin(Stdio::null());
    command
}

/// Whether a worktree below a directory belongs to a repository elsewhere.
fn has_linked_worktree(dir: &Path) -> bool {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    entries.into_iter().any(|entry| {
        let is_dir = entry.file_type().is_ok_and(|kind| kind.is_dir());
        let is_link = !is_dir && entry.file_name() == ".dmv";
        is_link || is_dir && has_linked_worktree(&entry.path())
    })
}

/// The bytes of all files below a directory.
fn size_of(dir: &Path) -> u64 {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let size = |entry: std::fs::DirEntry| match entry.metadata() {
        Ok(found) if found.is_dir() => size_of(&entry.path()),
        Ok(found) => found.len(),
        Err(_) => 0,
    };
    entries.map(size).sum()
}
