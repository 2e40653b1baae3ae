//! Printable forms of bytes that came from a disk.
//!
//! [`Argument`] is the form in which a person can paste a name or a path into a shell, and [`Hint`] a
//! sentence with command lines.
//!
//! The module works on bytes and characters alone and uses no other module. `path`, the names of
//! `object` and the program use it.

mod argument;
mod hint;

pub use argument::{Argument, pattern};
pub(crate) use hint::hint;
pub use hint::{Hint, HintValue, places};
use std::fmt;

/// Returns a printable form of a name or path that can neither control a terminal nor look like
/// another name.
///
/// Control and invisible characters become `\n`, `\u{202e}` and the like. Bytes that are not UTF-8
/// become `\xff`. A backslash is doubled. Distinct bytes give distinct text.
pub fn escape<T: AsRef<[u8]> + ?Sized>(bytes: &T) -> impl fmt::Display + '_ {
    EscapedBytes(bytes.as_ref())
}

struct EscapedBytes<'a>(&'a [u8]);

impl fmt::Display for EscapedBytes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use fmt::Write;
        for chunk in self.0.utf8_chunks() {
            for c in chunk.valid().chars() {
                if c == '\\' || c.is_control() || is_hidden(c) {
                    c.escape_default().try_for_each(|c| f.write_char(c))?;
                } else {
                    f.write_char(c)?;
                }
            }
            for byte in chunk.invalid() {
                write!(f, "\\x{byte:02x}")?;
            }
        }
        Ok(())
    }
}

/// Returns whether `c` is a code point that HFS+ ignores when it compares names
/// (docs/format/objects.md, "Names").
pub(crate) fn is_ignorable(c: char) -> bool {
    matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
        | '\u{feff}')
}

/// Returns whether `c` is invisible or changes the direction of the text around it.
pub fn is_hidden(c: char) -> bool {
    // The joiners U+200C and U+200D are refused, too, though some scripts and emoji use them: file
    // systems disagree on whether they count.
    is_ignorable(c)
        || matches!(c, '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}'
            | '\u{17b5}' | '\u{180b}'..='\u{180f}' | '\u{2028}' | '\u{2029}' | '\u{3164}'
            | '\u{ffa0}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}')
}
