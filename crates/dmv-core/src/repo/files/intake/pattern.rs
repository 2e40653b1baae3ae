//! Patterns for numbered copies of files: `shots/*_v{N}.psd`.
//!
//! `*` stands for a part of a name, `**/` for any directories, and `{N}` for a number; all other bytes stand
//! for themselves. What the wildcards stand for names a series, and the number orders it.

/// The longest number that is read, in digits.
const MAX_DIGITS: usize = 18;
/// The most bytes of a pattern.
const MAX_PATTERN_BYTES: usize = 4096;
/// Words before a number that are left out of the name of a series, if nothing but a separator is before
/// them.
const VERSION_WORDS: [&[u8]; 7] = [b"version", b"rev", b"ver", b"r", b"v", b"V", b"copy"];
/// What separates parts of a name.
const SEPARATORS: &[u8] = b"_-. ";
const NUMBER: &[u8] = b"{N}";

/// Why a pattern names no series.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatternFault {
    /// It has no number.
    #[error("the first pattern has no {{N}}, which stands for the number")]
    NoNumber,
    /// It has two numbers.
    #[error("it has more than one {{N}}")]
    TwoNumbers,
    /// Nothing is left without the number.
    #[error("no name is left without the number")]
    NoName,
    /// The pattern is too long.
    #[error("it is too long")]
    TooLong,
    /// Another number of wildcards than in the first pattern.
    #[error("it needs as many wildcards as the first pattern, in the same order")]
    OtherWildcards,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Piece {
    Byte(u8),
    /// `*`
    Star,
    /// `**/`
    Deep,
    Number,
}

/// A pattern for the paths of copies.
#[derive(Clone, Debug)]
pub struct SeriesPattern {
    pieces: Vec<Piece>,
}

/// A path that matches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeriesMatch {
    /// What each wildcard stands for.
    pub parts: Vec<Vec<u8>>,
    /// The number; 0 if the pattern has none.
    pub number: u64,
}

impl SeriesPattern {
    /// Parses a pattern below the directory `dir`, which is taken as it is and is empty or ends in a slash.
    pub fn parse(dir: &[u8], text: &[u8]) -> Result<SeriesPattern, PatternFault> {
        if dir.len() + text.len() > MAX_PATTERN_BYTES {
            return Err(PatternFault::TooLong);
        }
        let mut pieces: Vec<Piece> = dir.iter().copied().map(Piece::Byte).collect();
        let mut rest = text;
        while let [first, more @ ..] = rest {
            let at_start = matches!(pieces.last(), None | Some(Piece::Byte(b'/') | Piece::Deep));
            let (piece, len) = if rest.starts_with(NUMBER) {
                (Piece::Number, NUMBER.len())
            } else if at_start && rest.starts_with(b"**/") {
                (Piece::Deep, 3)
            } else if *first == b'*' {
                (
                    Piece::Star,
                    1 + more.iter().take_while(|b| **b == b'*').count(),
                )
            } else {
                (Piece::Byte(*first), 1)
            };
            pieces.push(piece);
            rest = &rest[len..];
        }
        if pieces
            .iter()
            .filter(|piece| **piece == Piece::Number)
            .count()
            > 1
        {
            return Err(PatternFault::TwoNumbers);
        }
        Ok(SeriesPattern { pieces })
    }

    /// Returns the pattern of the paths that the series get: this one without the number and what belongs
    /// to it.
    pub fn without_number(&self) -> Result<SeriesPattern, PatternFault> {
        let is_number = |piece: &Piece| *piece == Piece::Number;
        let at = self.pieces.iter().position(is_number);
        let at = at.ok_or(PatternFault::NoNumber)?;
        let literal = |pieces: &mut dyn Iterator<Item = &Piece>| -> Vec<u8> {
            let bytes = pieces.map_while(|piece| match piece {
                Piece::Byte(b) if *b != b'/' => Some(*b),
                _ => None,
            });
            bytes.collect()
        };
        let mut before = literal(&mut self.pieces[..at].iter().rev());
        before.reverse();
        let after = literal(&mut self.pieces[at + 1..].iter());
        let start = at - before.len();
        let follows_wildcard = start > 0 && self.pieces[start - 1] == Piece::Star;
        let kept = without_version_word(&before, follows_wildcard);
        let begins_name = kept == 0 && !follows_wildcard;
        let is_separator = |b: &&u8| SEPARATORS.contains(b);
        let separators = after.iter().take_while(is_separator).count();
        let has_more = self.pieces.len() > at + 1 + separators;
        let end = match after[..separators].last() {
            // An extension stays with its dot.
            Some(last) if begins_name && has_more && *last != b'.' => separators,
            _ => 0,
        };
        let pieces = [&self.pieces[..start + kept], &self.pieces[at + 1 + end..]].concat();
        let last = pieces
            .iter()
            .rposition(|piece| matches!(piece, Piece::Byte(b'/') | Piece::Deep));
        match pieces[last.map_or(0, |last| last + 1)..].first() {
            None | Some(Piece::Byte(b'.')) => Err(PatternFault::NoName),
            Some(_) => Ok(SeriesPattern { pieces }),
        }
    }

    /// Returns whether the patterns have the same wildcards in the same order.
    pub fn fits(&self, other: &SeriesPattern) -> bool {
        let wildcards = |pattern: &SeriesPattern| -> Vec<Piece> {
            let pieces = pattern.pieces.iter().copied();
            pieces
                .filter(|piece| matches!(piece, Piece::Star | Piece::Deep))
                .collect()
        };
        wildcards(self) == wildcards(other)
    }

    /// Returns the path in which the wildcards stand for `parts`.
    pub fn path(&self, parts: &[Vec<u8>]) -> Vec<u8> {
        let mut parts = parts.iter();
        let mut path = Vec::new();
        for piece in &self.pieces {
            match piece {
                Piece::Byte(b) => path.push(*b),
                Piece::Star | Piece::Deep => path.extend(parts.next().into_iter().flatten()),
                Piece::Number => {}
            }
        }
        path
    }

    /// Returns the directory in which all paths lie that match, and how many directories deep they lie in
    /// it; `None` for any depth.
    pub fn place(&self) -> (Vec<u8>, Option<usize>) {
        let bytes = self.pieces.iter().map_while(|piece| match piece {
            Piece::Byte(b) => Some(*b),
            _ => None,
        });
        let mut dir: Vec<u8> = bytes.collect();
        dir.truncate(dir.iter().rposition(|b| *b == b'/').map_or(0, |at| at + 1));
        let rest = &self.pieces[dir.len()..];
        let depth = rest
            .iter()
            .filter(|piece| **piece == Piece::Byte(b'/'))
            .count();
        dir.pop();
        (dir, (!rest.contains(&Piece::Deep)).then_some(depth))
    }

    /// Returns how a path matches. Takes at most as many steps as the lengths of both multiplied, and for
    /// each wildcard those of the path once more.
    pub fn matches(&self, path: &[u8]) -> Option<SeriesMatch> {
        let mut search = Search {
            pieces: &self.pieces,
            path,
            failed: vec![false; (self.pieces.len() + 1) * (path.len() + 1)],
            found: SeriesMatch {
                parts: Vec::new(),
                number: 0,
            },
        };
        if !search.from(0, 0) {
            return None;
        }
        // They were found from the end.
        search.found.parts.reverse();
        Some(search.found)
    }
}

/// Returns how many bytes of the text before a number belong to the name.
fn without_version_word(before: &[u8], follows_wildcard: bool) -> usize {
    let trim = |text: &[u8]| {
        let kept = text.iter().rposition(|b| !SEPARATORS.contains(b));
        kept.map_or(0, |last| last + 1)
    };
    let kept = trim(before);
    for word in VERSION_WORDS {
        if let Some(rest) = before[..kept].strip_suffix(word) {
            let is_apart = match rest.last() {
                Some(b) => SEPARATORS.contains(b),
                None => true,
            };
            if is_apart {
                return trim(rest);
            }
        }
    }
    // A wildcard takes what else stands before the number, as in `*_final{N}`.
    if follows_wildcard && kept == before.len() && kept > 0 {
        return before.len();
    }
    kept
}

struct Search<'s> {
    pieces: &'s [Piece],
    path: &'s [u8],
    /// Whether the pieces from one on are known not to match the path from one byte on.
    failed: Vec<bool>,
    found: SeriesMatch,
}

impl Search<'_> {
    /// Matches the pieces from `piece` on with the path from `at` on. A star takes as much as it can.
    fn from(&mut self, piece: usize, at: usize) -> bool {
        let (mut piece, mut at) = (piece, at);
        loop {
            let state = piece * (self.path.len() + 1) + at;
            if self.failed[state] {
                return false;
            }
            let Some(next) = self.pieces.get(piece) else {
                return at == self.path.len();
            };
            let is_found = match next {
                Piece::Byte(b) if self.path.get(at) == Some(b) => {
                    piece += 1;
                    at += 1;
                    continue;
                }
                Piece::Byte(_) => false,
                Piece::Star => self.wildcard(piece, at, |b| b != b'/', false),
                Piece::Deep => self.wildcard(piece, at, |_| true, true),
                Piece::Number => self.number(piece, at),
            };
            self.failed[state] = !is_found;
            return is_found;
        }
    }

    fn wildcard(&mut self, piece: usize, at: usize, may: fn(u8) -> bool, dirs: bool) -> bool {
        let most = self.path[at..].iter().take_while(|b| may(**b)).count();
        for len in (0..=most).rev() {
            let part = &self.path[at..at + len];
            if dirs && !part.is_empty() && part.last() != Some(&b'/') {
                continue;
            }
            if self.from(piece + 1, at + len) {
                self.found.parts.push(self.path[at..at + len].to_vec());
                return true;
            }
        }
        false
    }

    /// A number has all digits that stand together.
    fn number(&mut self, piece: usize, at: usize) -> bool {
        let digits = self.path[at..]
            .iter()
            .take_while(|b| b.is_ascii_digit())
            .count();
        let follows_digit = at > 0 && self.path[at - 1].is_ascii_digit();
        if digits == 0 || digits > MAX_DIGITS || follows_digit || !self.from(piece + 1, at + digits)
        {
            return false;
        }
        let text = self.path[at..at + digits].iter();
        self.found.number = text.fold(0, |number, b| number * 10 + u64::from(b - b'0'));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(text: &str) -> SeriesPattern {
        SeriesPattern::parse(b"", text.as_bytes()).expect("a pattern")
    }

    fn found(text: &str, path: &str) -> Option<(Vec<String>, u64)> {
        let found = pattern(text).matches(path.as_bytes())?;
        let text = |part: Vec<u8>| String::from_utf8(part).expect("text");
        Some((found.parts.into_iter().map(text).collect(), found.number))
    }

    /// The path of the series that `path` belongs to.
    fn target(text: &str, path: &str) -> String {
        let pattern = pattern(text);
        let found = pattern.matches(path.as_bytes()).expect("it matches");
        let named = pattern.without_number().expect("a name");
        String::from_utf8(named.path(&found.parts)).expect("text")
    }

    #[test]
    fn wildcards_and_the_number_are_found() {
        let some = |parts: &[&str], number| {
            Some((
                parts.iter().map(|part| (*part).to_owned()).collect(),
                number,
            ))
        };
        assert_eq!(
            found("shots/*_v{N}.psd", "shots/rock_v012.psd"),
            some(&["rock"], 12)
        );
        assert_eq!(found("*_v{N}.psd", "rock_v2_v3.psd"), some(&["rock_v2"], 3));
        assert_eq!(found("*{N}.psd", "rock12.psd"), some(&["rock"], 12));
        assert_eq!(
            found("**/*_{N}.c4d", "a/b/x_7.c4d"),
            some(&["a/b/", "x"], 7)
        );
        assert_eq!(found("**/*_{N}.c4d", "x_7.c4d"), some(&["", "x"], 7));
        assert_eq!(found("*_final.psd", "rock_final.psd"), some(&["rock"], 0));
        for (text, path) in [
            ("*_v{N}.psd", "shots/rock_v1.psd"),
            ("*_v{N}.psd", "rock_v.psd"),
            ("*_v{N}.psd", "rock_v1.psd.bak"),
            ("*_v{N}.psd", "rock_v1234567890123456789.psd"),
            ("a{N}", "a1b"),
            ("1{N}", "12"),
            ("", "a"),
        ] {
            assert_eq!(found(text, path), None, "{text} {path}");
        }
    }

    #[test]
    fn a_series_has_the_name_without_the_number() {
        assert_eq!(
            target("shots/*_v{N}.psd", "shots/rock_v1.psd"),
            "shots/rock.psd"
        );
        assert_eq!(
            target("*-version_{N}.psd", "rock-version_1.psd"),
            "rock.psd"
        );
        assert_eq!(
            target("hero_rev{N}_*.ma", "hero_rev3_rig.ma"),
            "hero_rig.ma"
        );
        assert_eq!(target("rock{N}.psd", "rock3.psd"), "rock.psd");
        assert_eq!(target("v{N}_*.psd", "v3_rock.psd"), "rock.psd");
        assert_eq!(target("*.{N}.psd", "rock.3.psd"), "rock.psd");
        assert_eq!(
            target("over{N}.psd", "over3.psd"),
            "over.psd",
            "no word of a version"
        );
        assert_eq!(
            target("*_final{N}.psd", "rock_final2.psd"),
            "rock_final.psd"
        );
        for (text, fault) in [
            ("*.psd", PatternFault::NoNumber),
            ("{N}.psd", PatternFault::NoName),
            ("a/v{N}", PatternFault::NoName),
        ] {
            assert_eq!(pattern(text).without_number().err(), Some(fault), "{text}");
        }
        let two = SeriesPattern::parse(b"", b"{N}_{N}");
        assert_eq!(two.err(), Some(PatternFault::TwoNumbers));
    }

    #[test]
    fn a_pattern_says_where_to_look() {
        let place = |text: &str| {
            let (dir, depth) = pattern(text).place();
            (String::from_utf8(dir).expect("text"), depth)
        };
        assert_eq!(place("a/b/*_v{N}"), ("a/b".to_owned(), Some(0)));
        assert_eq!(place("*/b_{N}/c"), (String::new(), Some(2)));
        assert_eq!(place("a/**/b{N}"), ("a".to_owned(), None));
    }

    #[test]
    fn a_hostile_pattern_takes_no_time() {
        let text = "*a".repeat(60) + "{N}b";
        let path = "a".repeat(400);
        assert_eq!(found(&text, &path), None);
    }
}
