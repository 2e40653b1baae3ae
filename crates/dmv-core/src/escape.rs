//! How bytes that came from a disk are shown to a person.

use std::fmt;

/// Shows a name or path so that it cannot command a terminal nor look like another.
///
/// Control and invisible characters come out as `\n`, `\u{202e}` and the like, bytes that are not
/// UTF-8 as `\xff`, the backslash doubled. Distinct bytes give distinct text.
pub fn escape(bytes: &[u8]) -> impl fmt::Display + '_ {
    Escaped(bytes)
}

struct Escaped<'a>(&'a [u8]);

impl fmt::Display for Escaped<'_> {
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

/// The code points that HFS+ leaves out when it compares names: docs/format/objects.md, "Names".
pub fn is_ignorable(c: char) -> bool {
    matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
        | '\u{feff}')
}

/// Characters that show nothing or turn the text around them.
pub fn is_hidden(c: char) -> bool {
    // Joiners (U+200C, U+200D) are refused with the rest, though some scripts and emoji use them:
    // file systems disagree on whether they count.
    is_ignorable(c)
        || matches!(c, '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}'
            | '\u{17b5}' | '\u{180b}'..='\u{180f}' | '\u{2028}' | '\u{2029}' | '\u{3164}'
            | '\u{ffa0}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}')
}
