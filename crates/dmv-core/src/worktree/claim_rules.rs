//! Which files are to be claimed before they are changed, as the attribute file at the root of a commit says.
//!
//! A line with `claim=ask` or `claim=readonly` is about the files that its pattern names, and one with `-claim` takes
//! them out again. The last such line counts. Attribute files of other directories say nothing about claims: a checkout
//! would have to look for one in each directory.

use super::attributes::{DMVATTRIBUTES, Patterns, attribute_lines};
use super::scan::BaseEntries;
use crate::limits::MAX_IGNORE_BYTES;

/// The attribute of files that need no claim.
const NO_CLAIM: &str = "-claim";
/// The attribute that says how files are claimed.
const CLAIM: &str = "claim";

/// What is asked of somebody who changes a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClaimRule {
    /// A claim.
    Ask,
    /// A claim; and before that, the file is read-only.
    ReadOnly,
}

/// The rules of one commit.
#[derive(Debug, Default)]
pub struct ClaimRules {
    patterns: Option<Patterns>,
    says: Vec<Option<ClaimRule>>,
}

impl ClaimRules {
    /// Reads the rules among the entries of a commit. A file that cannot be used says nothing: it must not stop a
    /// checkout.
    pub fn read(known: &dyn BaseEntries) -> ClaimRules {
        match known.file(DMVATTRIBUTES, MAX_IGNORE_BYTES) {
            Ok(Some(text)) => ClaimRules::parse(&text),
            Ok(None) | Err(_) => ClaimRules::default(),
        }
    }

    fn parse(text: &[u8]) -> ClaimRules {
        let (lines, _) = attribute_lines(text);
        let (mut patterns, mut says) = (Vec::new(), Vec::new());
        for line in &lines {
            for word in &line.words {
                if let Some(Ok(rule)) = said(word) {
                    patterns.push(&line.pattern[..]);
                    says.push(rule);
                }
            }
        }
        if says.iter().all(Option::is_none) {
            return ClaimRules::default();
        }
        match Patterns::new(patterns) {
            Ok(patterns) => ClaimRules {
                patterns: Some(patterns),
                says,
            },
            Err(_) => ClaimRules::default(),
        }
    }

    /// Returns whether no file needs a claim.
    pub fn is_empty(&self) -> bool {
        self.patterns.is_none()
    }

    /// Returns whether some files are read-only until they are claimed.
    pub fn has_read_only(&self) -> bool {
        self.says.contains(&Some(ClaimRule::ReadOnly))
    }

    /// Returns the rule for the file at `path`.
    pub fn of(&self, path: &[u8]) -> Option<ClaimRule> {
        let at = self.patterns.as_ref()?.last(path)?;
        self.says[at]
    }
}

/// Returns what a word of an attribute file says about claims: no rule, a rule, or why it says nothing. `None`: it is
/// about something else.
fn said(word: &str) -> Option<Result<Option<ClaimRule>, String>> {
    if word == NO_CLAIM {
        return Some(Ok(None));
    }
    match word.split_once('=')? {
        (CLAIM, "ask") => Some(Ok(Some(ClaimRule::Ask))),
        (CLAIM, "readonly") => Some(Ok(Some(ClaimRule::ReadOnly))),
        (CLAIM, _) => Some(Err("write claim=ask or claim=readonly".to_owned())),
        _ => None,
    }
}

/// Returns why a word about claims has no effect. `None`: it is about something else.
pub(crate) fn check_claim_word(word: &str) -> Option<Result<(), String>> {
    Some(said(word)?.map(drop))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_about_claims_decides() {
        let text =
            b"*.psd claim=readonly times\n*.blend claim=ask\nold/ -claim\nold/kept.psd claim=ask\n\
                     *.mov claim=auto\n*.txt times";
        let rules = ClaimRules::parse(text);
        for (path, want) in [
            ("a/rock.psd", Some(ClaimRule::ReadOnly)),
            ("rock.blend", Some(ClaimRule::Ask)),
            ("old/rock.psd", None),
            ("old/kept.psd", Some(ClaimRule::Ask)),
            ("a.mov", None),
            ("a.txt", None),
        ] {
            assert_eq!(rules.of(path.as_bytes()), want, "{path}");
        }
        assert!(rules.has_read_only() && !rules.is_empty());
        assert!(ClaimRules::parse(b"*.psd -claim\n* keep=all").is_empty());
        assert!(!ClaimRules::parse(b"* claim=ask").has_read_only());
        assert!(matches!(check_claim_word("claim=auto"), Some(Err(_))));
        assert_eq!(check_claim_word("times"), None);
    }
}
