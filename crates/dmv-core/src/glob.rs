//! Patterns with wildcards, as Git's ignore files have them.
//!
//! `Glob` is one pattern: `*`, `?`, `[...]`, `\` and, between slashes, `**`. Patterns and names are
//! bytes. `list` has the lines of an ignore file, and says which of them names a path. A match takes
//! at most as many steps as the lengths of pattern and text multiplied, whatever a hostile pattern
//! looks like.

pub(crate) mod list;

/// A pattern with wildcards.
#[derive(Clone, Debug)]
pub struct Glob {
    pieces: Box<[Piece]>,
    /// The literal bytes at its start and at its end.
    prefix: Box<[u8]>,
    suffix: Box<[u8]>,
    /// The least number of bytes that it matches.
    least: usize,
}

/// A part of a pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    /// This byte.
    Byte(u8),
    /// `?`: any byte but a slash.
    Any,
    /// `[...]`: a byte of a set, which has no slash.
    Set(Box<Set>),
    /// `*`: any number of bytes that are no slashes.
    Star,
    /// `**`: any number of bytes.
    Deep,
    /// Before the `**` and the slash of `**/`, which may both stand for nothing.
    Optional,
}

/// The number of pieces after [`Piece::Optional`] that may stand for nothing.
const OPTIONAL: usize = 2;

/// Why a pattern can match nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GlobFault {
    /// It ends in a backslash.
    #[error("a backslash at the end escapes nothing")]
    Backslash,
    /// A class is not closed.
    #[error("its class that begins with '[' has no ']'")]
    OpenClass,
    /// A class names a class that does not exist.
    #[error("it has an unknown class between '[:' and ':]'")]
    UnknownClass,
}

impl Glob {
    /// Parses a pattern.
    pub fn parse(source: &[u8]) -> Result<Glob, GlobFault> {
        Glob::parse_after(source, 0)
    }

    /// Parses a pattern in which `**` may also stand behind the first `open` bytes, as if a slash
    /// were there. Git matches the text before a path's first wildcard on its own, and then forgets
    /// it.
    fn parse_after(source: &[u8], open: usize) -> Result<Glob, GlobFault> {
        let mut pieces = Vec::with_capacity(source.len());
        let mut at = 0;
        while let Some(byte) = source.get(at) {
            at += 1;
            match byte {
                b'\\' => {
                    let byte = source.get(at).ok_or(GlobFault::Backslash)?;
                    pieces.push(Piece::Byte(*byte));
                    at += 1;
                }
                b'?' => pieces.push(Piece::Any),
                b'[' => {
                    let (set, end) = Set::parse(source, at)?;
                    pieces.push(Piece::Set(Box::new(set)));
                    at = end;
                }
                b'*' => {
                    let start = at - 1;
                    at += source[at..].iter().take_while(|b| **b == b'*').count();
                    let begins = start == open || source[..start].ends_with(b"/");
                    let rest = &source[at..];
                    let ends =
                        rest.is_empty() || [&b"/"[..], b"\\/"].iter().any(|s| rest.starts_with(s));
                    if at - start == 1 || !begins || !ends {
                        pieces.push(Piece::Star);
                    } else if rest.starts_with(b"/") {
                        at += 1;
                        push_optional(&mut pieces);
                    } else {
                        pieces.push(Piece::Deep);
                    }
                }
                byte => pieces.push(Piece::Byte(*byte)),
            }
        }
        Ok(Glob::of(pieces))
    }

    fn of(pieces: Vec<Piece>) -> Glob {
        let literal = |piece: &Piece| match piece {
            Piece::Byte(byte) => Some(*byte),
            _ => None,
        };
        let prefix: Box<[u8]> = pieces.iter().map_while(literal).collect();
        let mut suffix: Vec<u8> = pieces.iter().rev().map_while(literal).collect();
        let optional = pieces.iter().filter(|t| **t == Piece::Optional).count();
        let before = pieces.len() - suffix.len();
        if before >= OPTIONAL && pieces[before - OPTIONAL] == Piece::Optional {
            // The slash of `**/` may be missing.
            suffix.pop();
        }
        suffix.reverse();
        let is_one = |t: &&Piece| matches!(t, Piece::Byte(_) | Piece::Any | Piece::Set(_));
        Glob {
            least: pieces.iter().filter(is_one).count() - optional,
            prefix,
            suffix: suffix.into(),
            pieces: pieces.into(),
        }
    }

    /// Returns the only text that it matches, if it has no wildcards.
    pub(crate) fn literal(&self) -> Option<&[u8]> {
        (self.prefix.len() == self.pieces.len()).then_some(&*self.prefix)
    }

    /// Returns whether it matches the complete text.
    pub fn matches(&self, text: &[u8]) -> bool {
        let fits = text.len() >= self.least
            && text.starts_with(&self.prefix)
            && text.ends_with(&self.suffix);
        if !fits || self.literal().is_some() {
            return fits && self.prefix.len() == text.len();
        }
        let words = self.pieces.len() / 64 + 1;
        match words {
            1 => self.walk(text, &mut [0], &mut [0]),
            _ => self.walk(text, &mut vec![0; words], &mut vec![0; words]),
        }
    }

    /// Walks over the text. `now` has a bit for each number of pieces that the text so far may have
    /// used up.
    fn walk(&self, text: &[u8], now: &mut [u64], next: &mut [u64]) -> bool {
        let (mut now, mut next) = (now, next);
        self.reach(now, self.prefix.len());
        for byte in &text[self.prefix.len()..] {
            next.fill(0);
            for (number, word) in now.iter().enumerate() {
                let mut bits = *word;
                while bits != 0 {
                    let at = number * 64 + bits.trailing_zeros() as usize;
                    bits &= bits - 1;
                    match self.pieces.get(at) {
                        Some(Piece::Star) if *byte != b'/' => self.reach(next, at),
                        Some(Piece::Deep) => self.reach(next, at),
                        Some(piece) if piece.accepts(*byte) => self.reach(next, at + 1),
                        _ => {}
                    }
                }
            }
            if next.iter().all(|word| *word == 0) {
                return false;
            }
            std::mem::swap(&mut now, &mut next);
        }
        has(now, self.pieces.len())
    }

    /// Notes that the first `at` pieces may be used up, and what follows from that without a byte.
    /// The depth is bounded: stars and `**/` that follow each other are one piece or group.
    fn reach(&self, states: &mut [u64], at: usize) {
        if has(states, at) {
            return;
        }
        states[at / 64] |= 1 << (at % 64);
        match self.pieces.get(at) {
            Some(Piece::Star | Piece::Deep) => self.reach(states, at + 1),
            Some(Piece::Optional) => {
                self.reach(states, at + 1);
                self.reach(states, at + 1 + OPTIONAL);
            }
            _ => {}
        }
    }
}

fn has(states: &[u64], at: usize) -> bool {
    states[at / 64] >> (at % 64) & 1 == 1
}

/// Adds the pieces of `**/`. A further one after it changes nothing.
fn push_optional(pieces: &mut Vec<Piece>) {
    let group = [Piece::Optional, Piece::Deep, Piece::Byte(b'/')];
    if !pieces.ends_with(&group) {
        pieces.extend(group);
    }
}

impl Piece {
    /// Returns whether it stands for exactly this byte.
    fn accepts(&self, byte: u8) -> bool {
        match self {
            Piece::Byte(own) => *own == byte,
            Piece::Any => byte != b'/',
            Piece::Set(set) => set.has(byte),
            Piece::Star | Piece::Deep | Piece::Optional => false,
        }
    }
}

/// A set of bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Set([u64; 4]);

impl Set {
    /// Parses a class, whose `[` stands before `at`. Returns it and the end of it.
    fn parse(source: &[u8], mut at: usize) -> Result<(Set, usize), GlobFault> {
        let byte = |at: usize| source.get(at).copied().ok_or(GlobFault::OpenClass);
        let is_negated = matches!(byte(at)?, b'!' | b'^');
        at += usize::from(is_negated);
        let (mut set, first) = (Set::default(), at);
        // The byte that a range may begin with.
        let mut before = None;
        while at == first || byte(at)? != b']' {
            let c = byte(at)?;
            let is_range = c == b'-' && source.get(at + 1).is_some_and(|b| *b != b']');
            if let (true, Some(low)) = (is_range, before) {
                at += 1 + usize::from(byte(at + 1)? == b'\\');
                set.add(low..=byte(at)?);
                before = None;
            } else if c == b'\\' {
                at += 1;
                set.add(byte(at)?..=byte(at)?);
                before = Some(byte(at)?);
            } else if let (true, Some((class, end))) = (c == b'[', named_class(source, at)?) {
                (0..=u8::MAX)
                    .filter(|b| class(*b))
                    .for_each(|b| set.add(b..=b));
                (before, at) = (None, end);
            } else {
                set.add(c..=c);
                before = Some(c);
            }
            at += 1;
        }
        if is_negated {
            set.0 = set.0.map(|word| !word);
        }
        set.remove(b'/');
        Ok((set, at + 1))
    }

    fn add(&mut self, bytes: std::ops::RangeInclusive<u8>) {
        for byte in bytes {
            self.0[usize::from(byte / 64)] |= 1 << (byte % 64);
        }
    }

    fn remove(&mut self, byte: u8) {
        self.0[usize::from(byte / 64)] &= !(1 << (byte % 64));
    }

    fn has(&self, byte: u8) -> bool {
        self.0[usize::from(byte / 64)] >> (byte % 64) & 1 == 1
    }
}

/// Which bytes a named class has.
type Class = fn(u8) -> bool;

/// Returns the class `[:name:]` that begins at `at`, and where its last byte is. `None` if it is
/// only an opening bracket.
fn named_class(source: &[u8], at: usize) -> Result<Option<(Class, usize)>, GlobFault> {
    let Some(rest) = source[at..].strip_prefix(b"[:") else {
        return Ok(None);
    };
    let end = rest.iter().position(|b| *b == b']');
    let end = end.ok_or(GlobFault::OpenClass)?;
    let Some(name) = rest[..end].strip_suffix(b":") else {
        return Ok(None);
    };
    let class: Class = match name {
        b"alnum" => |b| b.is_ascii_alphanumeric(),
        b"alpha" => |b| b.is_ascii_alphabetic(),
        b"blank" => |b| matches!(b, b' ' | b'\t'),
        b"cntrl" => |b| b.is_ascii_control(),
        b"digit" => |b| b.is_ascii_digit(),
        b"graph" => |b| b.is_ascii_graphic(),
        b"lower" => |b| b.is_ascii_lowercase(),
        b"print" => |b| matches!(b, b' '..=b'~'),
        b"punct" => |b| b.is_ascii_punctuation(),
        // Git counts neither the vertical tab nor the form feed.
        b"space" => |b| matches!(b, b' ' | b'\t' | b'\n' | b'\r'),
        b"upper" => |b| b.is_ascii_uppercase(),
        b"xdigit" => |b| b.is_ascii_hexdigit(),
        _ => return Err(GlobFault::UnknownClass),
    };
    Ok(Some((class, at + 2 + end)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matching<'t>(pattern: &str, texts: &[&'t str]) -> Vec<&'t str> {
        let glob = Glob::parse(pattern.as_bytes()).expect("a sound pattern");
        let matching = |text: &&str| glob.matches(text.as_bytes());
        texts.iter().copied().filter(matching).collect()
    }

    #[test]
    fn wildcards_match_as_git_has_it() {
        for (pattern, yes, no) in [
            ("a*c", &["ac", "abc", "abbc"][..], &["ab", "a/c", "xac"][..]),
            ("*", &["", "a"], &["a/b"]),
            ("a?c", &["abc"], &["ac", "a/c", "abbc"]),
            ("**/b", &["b", "a/b", "a/x/b"], &["ab", "b/a"]),
            ("a/**", &["a/", "a/b", "a/b/c"], &["a", "ab"]),
            ("a/**/b", &["a/b", "a/x/b", "a/x/y/b"], &["ab", "a/xb"]),
            ("a/**/**/**/b", &["a/b", "a/x/b"], &["ab"]),
            ("**/a*/**/c", &["ab/c", "x/a/y/c"], &["b/c", "a/c/d"]),
            ("a**b", &["ab", "axb"], &["a/b"]),
            ("**a/b", &["a/b", "xa/b"], &["x/a/b"]),
            ("***/b", &["b", "x/y/b"], &["xb"]),
            ("**\\/b", &["x/b"], &["b"]),
            ("\\*\\?", &["*?"], &["ab"]),
            ("a{b,c}", &["a{b,c}"], &["ab", "ac"]),
            ("[a-c]", &["a", "b"], &["d", "-"]),
            ("[]a]", &["]", "a"], &["[", "b"]),
            ("[!]a]", &["[", "b"], &["]", "a", "/"]),
            ("[^a]", &["b"], &["a", "/"]),
            ("[a-]", &["a", "-"], &["b"]),
            ("[a-c-e]", &["a", "c", "-", "e"], &["d"]),
            ("[z-a]", &["z"], &["a", "m", "-"]),
            ("[[:upper:]]x", &["Ax"], &["ax", ":x", "ux"]),
            ("[^[:digit:]_]", &["a"], &["1", "_"]),
            ("[[:digit:]-z]", &["1", "-", "z"], &["a"]),
            ("[[:a]", &["[", ":", "a"], &["]", "b"]),
            ("[\\]]", &["]"], &["\\"]),
            ("[a\\-c]", &["a", "-", "c"], &["b"]),
            ("[--0]", &["-", ".", "0"], &["1", "/"]),
            ("[[-a]", &["[", "^", "a"], &["b"]),
        ] {
            let texts = [yes, no].concat();
            assert_eq!(matching(pattern, &texts), yes, "{pattern}");
        }
        assert!(Glob::parse(b"a\xff[\x80-\xfe]").is_ok_and(|glob| glob.matches(b"a\xff\x90")));
    }

    #[test]
    fn a_pattern_that_can_match_nothing_says_why() {
        for (pattern, why) in [
            ("a\\", GlobFault::Backslash),
            ("a[b", GlobFault::OpenClass),
            ("[]", GlobFault::OpenClass),
            ("[a\\", GlobFault::OpenClass),
            ("[a-\\", GlobFault::OpenClass),
            ("[!", GlobFault::OpenClass),
            ("[[:alpha:", GlobFault::OpenClass),
            ("[[:word:]]", GlobFault::UnknownClass),
        ] {
            assert_eq!(
                Glob::parse(pattern.as_bytes()).err(),
                Some(why),
                "{pattern}"
            );
        }
    }

    #[test]
    fn hostile_patterns_end() {
        let text = "a/".repeat(1000);
        for pattern in [
            "**/a*/".repeat(900),
            "*a*".repeat(900),
            "**/".repeat(300_000),
        ] {
            let glob = Glob::parse((pattern + "b").as_bytes()).expect("a sound pattern");
            assert!(!glob.matches(text.as_bytes()));
        }
    }
}
