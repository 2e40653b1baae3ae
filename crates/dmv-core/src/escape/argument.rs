//! Names and paths as arguments of commands that a person pastes into a shell.

use super::{escape, is_hidden};
use std::ffi::OsStr;
use std::fmt;

/// One word of a command line, quoted for the shell.
///
/// Its text has visible characters only, so no message has to escape it again. Names with other bytes
/// take the form `$'a\xff'`, which bash, zsh and ksh read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Argument(String);

impl Argument {
    /// A name, an address or a value: what is no path.
    pub fn value(text: impl AsRef<[u8]>) -> Argument {
        Argument(word(text.as_ref()))
    }

    /// A path for a command of the system, or for an option that names a file or a directory.
    pub fn on_disk(path: impl AsRef<OsStr>) -> Argument {
        Argument::given_path(path.as_ref().as_encoded_bytes())
    }

    /// A path as a user has written it.
    pub fn given_path(path: impl AsRef<[u8]>) -> Argument {
        Argument(word(&no_option(path.as_ref())))
    }

    /// A path from the worktree's root, for a command that accepts paths. `at_root` says that the
    /// user stands there; elsewhere the argument begins with `:/`.
    ///
    /// Commands that also accept revisions take it for a path unless it equals the name of one.
    pub fn path(path: impl AsRef<[u8]>, at_root: bool) -> Argument {
        let path = path.as_ref();
        Argument(word(&match (at_root, path) {
            (true, b"") => b".".to_vec(),
            // Text before a colon would be a revision.
            (true, path) if path.contains(&b':') => [b"./", path].concat(),
            (true, path) => no_option(path),
            (false, path) => [b":/", path].concat(),
        }))
    }

    /// A path in a revision: `REV:PATH`.
    pub fn place(revision: &str, path: impl AsRef<[u8]>) -> Argument {
        let place = [revision.as_bytes(), b":", path.as_ref()].concat();
        Argument(word(&no_option(&place)))
    }

    /// The pattern that names `path`, for a command that accepts patterns.
    pub fn pattern(path: impl AsRef<[u8]>) -> Argument {
        Argument::given_pattern(pattern(path.as_ref()))
    }

    /// The pattern that excludes `path`.
    pub fn excluding_pattern(path: impl AsRef<[u8]>) -> Argument {
        let pattern = pattern(path.as_ref());
        Argument(word(&[b"!", &pattern[..]].concat()))
    }

    /// A pattern as a user has written it.
    pub fn given_pattern(pattern: impl AsRef<[u8]>) -> Argument {
        let pattern = pattern.as_ref();
        Argument(word(&match pattern {
            // The escaped dash is the same character, and begins no option.
            [b'-', ..] => [b"\\", pattern].concat(),
            pattern => pattern.to_vec(),
        }))
    }
}

impl fmt::Display for Argument {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Returns the pattern of a subset or an ignore file that names `path`, counted from the root.
///
/// No line can hold a line break: in its place stands a class that also matches a tab and a vertical
/// tab. Bytes beside it that are not UTF-8 become `?`, since wildcards need UTF-8.
pub fn pattern(path: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(path.len());
    for (number, name) in path.split(|b| *b == b'/').enumerate() {
        if number > 0 {
            out.push(b'/');
        }
        if name.contains(&b'\n') {
            for chunk in name.utf8_chunks() {
                push_escaped(&mut out, chunk.valid().as_bytes());
                out.extend(chunk.invalid().iter().map(|_| b'?'));
            }
        } else {
            push_escaped(&mut out, name);
        }
    }
    if path.contains(&b'\n') {
        // With wildcards and without a slash it would match at any depth.
        out.insert(0, b'/');
    } else if matches!(out.first(), Some(b'!' | b'#')) {
        out.insert(0, b'\\');
    }
    out
}

fn push_escaped(out: &mut Vec<u8>, name: &[u8]) {
    for byte in name {
        match byte {
            b'\n' => out.extend(b"[\t-\x0b]"),
            b'*' | b'?' | b'[' | b'\\' => out.extend([b'\\', *byte]),
            byte => out.push(*byte),
        }
    }
}

/// Returns a path that no command takes for an option.
fn no_option(path: &[u8]) -> Vec<u8> {
    match path {
        [b'-', ..] => [b"./", path].concat(),
        path => path.to_vec(),
    }
}

/// Returns `bytes` as one word of a shell.
fn word(bytes: &[u8]) -> String {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return by_escapes(bytes);
    };
    let plain = |c: char| c.is_alphanumeric() || "-_./:=@~^+,%".contains(c);
    // The shell replaces a tilde at the start of a word, and some do after these characters.
    let is_home = text.starts_with('~') || text.contains("=~") || text.contains(":~");
    if text.chars().any(|c| c.is_control() || is_hidden(c)) {
        by_escapes(bytes)
    } else if !text.is_empty() && !is_home && !text.starts_with('=') && text.chars().all(plain) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', "'\\''"))
    }
}

/// Returns `bytes` in quotes in which escapes stand for what cannot be shown.
fn by_escapes(bytes: &[u8]) -> String {
    let mut out = "$'".to_owned();
    let push_hex = |out: &mut String, bytes: &[u8]| {
        bytes
            .iter()
            .for_each(|byte| out.push_str(&format!("\\x{byte:02x}")));
    };
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '\\' | '\'' => out.extend(['\\', c]),
                '\n' | '\t' | '\r' => out.push_str(&escape(&[c as u8]).to_string()),
                // An interactive shell might look for it in its history.
                '!' => push_hex(&mut out, b"!"),
                c if c.is_control() || is_hidden(c) => {
                    push_hex(&mut out, c.encode_utf8(&mut [0; 4]).as_bytes());
                }
                c => out.push(c),
            }
        }
        push_hex(&mut out, chunk.invalid());
    }
    out.push('\'');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: [&[u8]; 22] = [
        b"s*",
        b"take[02]",
        b"a:b",
        b"-x",
        b"it's",
        b"a b",
        b"\xff",
        b"a\nb",
        b"#x",
        b"!x",
        b"$(x)",
        b"~",
        b"~root",
        b"..a",
        b"a\\b",
        b"=x",
        b"a=~",
        "\u{1f600}".as_bytes(),
        "\u{1f468}\u{200d}\u{1f469}".as_bytes(),
        b"a\t\x1b[2J'",
        b"\xff\n'\\!1",
        "\u{202e}é".as_bytes(),
    ];

    #[test]
    #[cfg_attr(windows, ignore = "it needs the shell of Unix")]
    fn an_argument_is_the_same_bytes_in_a_shell() -> std::io::Result<()> {
        let mut script = String::new();
        for name in NAMES {
            script.push_str(&format!("printf '%s\\0' {}\n", Argument::value(name)));
        }
        assert!(
            script
                .chars()
                .all(|c| c == '\n' || !c.is_control() && !is_hidden(c))
        );
        let mut bash = std::process::Command::new("bash");
        let done = bash.env("HOME", "/h").args(["-c", &script]).output()?;
        let read: Vec<&[u8]> = done.stdout.split(|b| *b == 0).collect();
        assert_eq!(read[..NAMES.len()], NAMES);
        Ok(())
    }

    #[test]
    fn a_path_is_neither_an_option_nor_a_revision() {
        let at_root = |path: &str| Argument::path(path, true).to_string();
        assert_eq!(at_root("a-b.mov"), "a-b.mov");
        assert_eq!(at_root("-rf"), "./-rf");
        assert_eq!(at_root("a:b"), "./a:b");
        assert_eq!(at_root(""), ".");
        assert_eq!(Argument::path("a:b", false).to_string(), ":/a:b");
        assert_eq!(Argument::on_disk("-r f").to_string(), "'./-r f'");
        assert_eq!(Argument::place("@", "a b").to_string(), "'@:a b'");
    }

    #[test]
    fn a_pattern_names_no_other_path() {
        let of = |path: &[u8]| Argument::pattern(path).to_string();
        assert_eq!(of(b"media/scene4"), "media/scene4");
        assert_eq!(of(b"s*"), "'s\\*'");
        assert_eq!(of(b"take[02]"), "'take\\[02]'");
        assert_eq!(of(b"!x"), "'\\!x'");
        assert_eq!(of(b"-x"), "'\\-x'");
        assert_eq!(of(b"a\nb"), "$'/a[\\t-\\x0b]b'");
        assert_eq!(Argument::excluding_pattern("s*").to_string(), "'!s\\*'");
        assert_eq!(Argument::given_pattern("-*").to_string(), "'\\-*'");
    }
}
