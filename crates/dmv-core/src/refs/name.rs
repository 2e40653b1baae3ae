//! The rules for names of branches, tags and remotes.

use crate::limits::MAX_REF_BYTES;

/// Why a name is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{}' is not a valid name: {why}", name.escape_debug())]
pub struct RefNameError {
    /// The refused name.
    pub name: String,
    /// What is wrong with it.
    pub why: &'static str,
}

/// Checks the name of a branch or tag. Git's rules apply, without names that would collide with the
/// syntax of revisions.
///
/// Components are separated by `/`. None may be empty, start with `.` or `-`, or end with `.lock`
/// or `.`. Control characters, spaces, and ``~ ^ : ? * [ ] \ @{`` are not allowed. `@` alone is
/// reserved, and so are 64 hex digits.
pub fn check_ref_name(name: &str) -> Result<(), RefNameError> {
    let fail = |why| {
        Err(RefNameError {
            name: name.to_owned(),
            why,
        })
    };
    if name.is_empty() {
        return fail("it is empty");
    }
    if name.len() > MAX_REF_BYTES {
        return fail("it is longer than 255 bytes");
    }
    if name == "@" || name.contains("@{") {
        return fail("'@' is reserved");
    }
    if name.len() == 64 && name.bytes().all(|b| b.is_ascii_hexdigit()) {
        return fail("it looks like an id");
    }
    if name.contains("..") {
        return fail("it contains '..'");
    }
    if name.chars().any(|c| c.is_control() || c.is_whitespace()) {
        return fail("it contains a space or control character");
    }
    if name.chars().any(|c| "~^:?*[]\\".contains(c)) {
        return fail("it contains one of ~ ^ : ? * [ ] \\");
    }
    for part in name.split('/') {
        if part.is_empty() {
            return fail("it has an empty part");
        }
        if part.starts_with('.') || part.starts_with('-') {
            return fail("a part starts with '.' or '-'");
        }
        if part.ends_with('.') || part.ends_with(".lock") {
            return fail("a part ends with '.' or '.lock'");
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_would_confuse_are_refused() {
        for good in ["main", "feature/x-1", "v1.0", "日本", "a@b", "user/o'neil"] {
            assert_eq!(check_ref_name(good), Ok(()), "{good}");
        }
        let long = "x".repeat(256);
        let bad = [
            "",
            "@",
            "a@{1}",
            "a..b",
            "a b",
            "a\tb",
            "a~1",
            "a^",
            "a:b",
            "a?",
            "a*",
            "a[",
            "a\\b",
            "/a",
            "a/",
            "a//b",
            ".a",
            "a/.b",
            "-a",
            "a.lock",
            "a.lock/b",
            "a.",
            "\u{1b}[2J",
            long.as_str(),
        ];
        for name in bad {
            assert!(check_ref_name(name).is_err(), "{name:?}");
        }
    }
}
