//! Names: the components of paths. They are checked once, when they are made, and are safe from
//! then on.
//!
//! docs/format/objects.md, "Names", lists what is rejected. The rules are the same on every
//! platform, because a tree made on one platform is checked out on another. [`portability`] reports
//! names that are merely awkward on other systems. [`fold_key`] shows which names are equal on some
//! file system.

pub use super::path::RepoPath;
pub use super::portable::{FoldedNames, fold_key, portability};

pub use crate::escape::escape;
use crate::limits::MAX_NAME_BYTES;
use std::fmt;

/// Why bytes are not a valid name or path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.why())]
pub enum NameError {
    /// The name has no bytes.
    Empty,
    /// The name is longer than `MAX_NAME_BYTES`.
    TooLong,
    /// The name is `.` or `..`.
    Dots,
    /// The name contains `/`.
    Separator,
    /// The name contains a NUL byte.
    Nul,
    /// Some file system treats the name as a control directory.
    Control,
    /// The name is the short form (8.3) of a control directory.
    ShortForm,
    /// With `\` as a separator, the name leads upwards or into a control directory.
    Backslash,
    /// The path is longer than [`MAX_PATH_BYTES`](crate::limits::MAX_PATH_BYTES).
    PathTooLong,
    /// The path has more than `MAX_PATH_DEPTH` components.
    PathTooDeep,
}

impl NameError {
    /// Returns the reason in words.
    pub fn why(self) -> &'static str {
        match self {
            NameError::Empty => "a name is empty",
            NameError::TooLong => "a name is longer than 255 bytes",
            NameError::Dots => "a name is . or ..",
            NameError::Separator => "a name contains a slash",
            NameError::Nul => "a name contains a NUL byte",
            NameError::Control => {
                "some file systems treat the name as a control directory, such as .dmv or .git"
            }
            NameError::ShortForm => {
                "the name is the short form of a control directory, such as GIT~1"
            }
            NameError::Backslash => {
                "the name leads to another directory on systems where a backslash separates names"
            }
            NameError::PathTooLong => "a path is too long",
            NameError::PathTooDeep => "a path has too many components",
        }
    }
}

/// One path component that has passed [`check_name`]. Ordered by bytes.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SafeName(Box<[u8]>);

impl SafeName {
    /// Checks and copies `name`.
    pub fn new(name: &[u8]) -> Result<SafeName, NameError> {
        check_name(name)?;
        Ok(SafeName(name.into()))
    }

    /// Returns the name's bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

/// A name that has passed [`check_name`], borrowed from other bytes. Ordered by bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct NameRef<'a>(&'a [u8]);

impl<'a> NameRef<'a> {
    /// Checks `name`.
    pub fn new(name: &'a [u8]) -> Result<NameRef<'a>, NameError> {
        check_name(name)?;
        Ok(NameRef(name))
    }

    /// Returns the name's bytes.
    pub fn as_bytes(self) -> &'a [u8] {
        self.0
    }

    /// Returns a copy.
    pub(crate) fn to_name(self) -> SafeName {
        SafeName(self.0.into())
    }
}

impl std::borrow::Borrow<[u8]> for SafeName {
    fn borrow(&self) -> &[u8] {
        &self.0
    }
}

impl AsRef<[u8]> for SafeName {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Display for SafeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        escape(&self.0).fmt(f)
    }
}

impl fmt::Debug for SafeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{self}\"")
    }
}

/// Bytes that never occur in a name.
const BAD: u8 = 1;
/// Bytes that a dangerous name contains unless it begins with a dot: `\`, `~`, and the first bytes
/// of the ignorable code points, which may precede a dot.
const SUSPECT: u8 = 2;

const CLASS: [u8; 256] = {
    let mut class = [0; 256];
    class[0] = BAD;
    class[b'/' as usize] = BAD;
    class[b'\\' as usize] = SUSPECT;
    class[b'~' as usize] = SUSPECT;
    class[0xe2] = SUSPECT;
    class[0xef] = SUSPECT;
    class
};

/// Checks whether `name` may stand in a tree. Allocates no memory.
pub fn check_name(name: &[u8]) -> Result<(), NameError> {
    if name.is_empty() {
        return Err(NameError::Empty);
    }
    if name.len() > MAX_NAME_BYTES {
        return Err(NameError::TooLong);
    }
    let seen = name.iter().fold(0, |seen, b| seen | CLASS[*b as usize]);
    if seen == 0 && name[0] != b'.' {
        return Ok(());
    }
    if seen & BAD != 0 {
        return Err(if name.contains(&b'/') {
            NameError::Separator
        } else {
            NameError::Nul
        });
    }
    if name == b"." || name == b".." {
        return Err(NameError::Dots);
    }
    if !name.contains(&b'\\') {
        return check_reduced(name);
    }
    // `\` is an ordinary byte here, but a separator on other systems.
    let leads_elsewhere = |part: &[u8]| part == b".." || check_reduced(part).is_err();
    if name.split(|b| *b == b'\\').any(leads_elsewhere) {
        Err(NameError::Backslash)
    } else {
        Ok(())
    }
}

/// Returns whether `name` is a control directory that a walk skips silently.
///
/// Every other name that [`check_name`] refuses is worth a report.
pub fn is_control_name(name: &[u8]) -> bool {
    name == b".dmv" || name == b".git"
}

/// Checks a component after removing what some file system ignores.
fn check_reduced(component: &[u8]) -> Result<(), NameError> {
    let mut buffer = [0; MAX_NAME_BYTES];
    let mut len = 0;
    let mut at = 0;
    while at < component.len() && component[at] != b':' {
        let skip = ignorable_prefix(&component[at..]);
        if skip == 0 {
            buffer[len] = component[at].to_ascii_lowercase();
            len += 1;
        }
        at += skip.max(1);
    }
    let mut reduced = &buffer[..len];
    while let [rest @ .., b'.' | b' '] = reduced {
        reduced = rest;
    }
    if is_control_directory(reduced) {
        Err(NameError::Control)
    } else if is_short_form(reduced) {
        Err(NameError::ShortForm)
    } else {
        Ok(())
    }
}

/// Returns whether a lower-case name is that of a control directory.
pub(super) fn is_control_directory(name: &[u8]) -> bool {
    matches!(name, b".dmv" | b".git" | b".hg" | b".svn" | b".jj")
}

/// Returns the length in bytes of the ignorable code point at the start of `bytes`, or 0.
fn ignorable_prefix(bytes: &[u8]) -> usize {
    match bytes {
        // U+200B..U+200F and U+202A..U+202E; U+2060..U+206F; U+FEFF. The encoded forms are
        // compared, so that a name that is not UTF-8 elsewhere does not escape the rule.
        [0xe2, 0x80, 0x8b..=0x8f | 0xaa..=0xae, ..]
        | [0xe2, 0x81, 0xa0..=0xaf, ..]
        | [0xef, 0xbb, 0xbf, ..] => 3,
        _ => 0,
    }
}

/// Returns whether a lower-case name is `dmv~1`, `git~1` or a hashed form such as `gi7eba~1`.
fn is_short_form(name: &[u8]) -> bool {
    let Some(tilde) = name.iter().position(|b| *b == b'~') else {
        return false;
    };
    let (stem, number) = (&name[..tilde], &name[tilde + 1..]);
    let known = match stem {
        b"dmv" | b"git" => true,
        [b'd', b'm', hash @ ..] | [b'g', b'i', hash @ ..] => {
            hash.len() == 4 && hash.iter().all(u8::is_ascii_hexdigit)
        }
        _ => false,
    };
    known && !number.is_empty() && number.iter().all(u8::is_ascii_digit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Checks a name by the rules as docs/format/objects.md states them, without a fast path.
    fn check_slowly(name: &[u8]) -> bool {
        let bad = |part: &[u8]| part == b".." || check_reduced(part).is_err();
        !name.is_empty()
            && name.len() <= MAX_NAME_BYTES
            && !name.contains(&b'/')
            && !name.contains(&0)
            && name != b"."
            && !name.split(|b| *b == b'\\').any(bad)
    }

    proptest! {
        #[test]
        fn the_fast_path_accepts_nothing_that_the_rules_refuse(
            parts in prop::collection::vec(prop::sample::select(vec![
                &b"."[..], b"dmv", b"GIT", b"git", b"~", b"1", b"gi", b"7eba", b":", b" ", b"\\", b"/",
                b"\0", b"\xe2\x80\x8c", b"\xef\xbb\xbf", b"\xe2", b"\xff", b"a", b"svn", b"..",
            ]), 0..6)
        ) {
            let name = parts.concat();
            prop_assert_eq!(check_name(&name).is_ok(), check_slowly(&name), "{:?}", name);
        }

        #[test]
        fn escaped_text_is_distinct_and_plain(a: Vec<u8>, b: Vec<u8>) {
            let (x, y) = (escape(&a).to_string(), escape(&b).to_string());
            prop_assert_eq!(x == y, a == b);
            prop_assert!(!x.chars().any(char::is_control));
        }
    }

    #[test]
    fn names_next_to_the_rules_are_accepted() {
        let good: [&[u8]; 18] = [
            b"...",
            b"..a",
            b".dmvx",
            b".dm",
            b"dmv",
            b"git",
            b"GIT~",
            b"GIT~x",
            b"GITX~1",
            b"gi7eb~1",
            b"gi7ebg~1",
            b"a~1",
            b".gitignore",
            b" .git",
            b"a.git",
            b"x:.git",
            b"a\\b",
            b".hgignore",
        ];
        for name in good {
            assert_eq!(check_name(name), Ok(()), "{}", escape(name));
        }
        assert_eq!(check_name(&[b'a'; MAX_NAME_BYTES]), Ok(()));
        assert_eq!(
            check_name(&[b'a'; MAX_NAME_BYTES + 1]),
            Err(NameError::TooLong)
        );
    }

    #[test]
    fn what_a_file_system_ignores_hides_nothing() {
        let bad: [&[u8]; 7] = [
            b"git~1.",
            b"GIT~1:x",
            b"a\\GIT~1",
            b"x\\..",
            b"\xff\\.git",
            b".git\\",
            b".Hg. :x",
        ];
        for name in bad {
            assert!(check_name(name).is_err(), "{}", escape(name));
        }
    }

    #[test]
    fn terminals_are_not_commanded() {
        let shown = escape(b"a\x1b[2J\n\xc2\x9b\xe2\x80\xae\xff\\\xc3\xa9").to_string();
        assert_eq!(shown, "a\\u{1b}[2J\\n\\u{9b}\\u{202e}\\xff\\\\é");
    }
}
