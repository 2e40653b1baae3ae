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

/// The revision for the commit that a worktree is on. It names no branch.
pub const HEAD: &str = "HEAD";
/// The name that stands for a remote in the keys of branches that were fetched from an address, which
/// no remote has: `remote/FETCH_HEAD/main`. The next such fetch replaces all of them. As a revision,
/// it means the branch with the name of the current one.
pub const FETCH_HEAD: &str = "FETCH_HEAD";
/// How full names of refs begin: `refs/heads/main`.
const FULL: &str = "refs";
/// The number of digits of an id of Git.
const GIT_ID_DIGITS: usize = 40;

/// Checks the name of a new branch, tag or remote: [`check_ref_name`], without names that a revision
/// with another meaning has. Refs that have such a name already stay usable by their full names.
pub fn check_new_ref_name(name: &str) -> Result<(), RefNameError> {
    check_ref_name(name)?;
    let fail = |why| {
        Err(RefNameError {
            name: name.to_owned(),
            why,
        })
    };
    if name.len() == GIT_ID_DIGITS && name.bytes().all(|b| b.is_ascii_hexdigit()) {
        return fail("it looks like an id");
    }
    match name.split('/').next().unwrap_or_default() {
        HEAD if name == HEAD => fail("it is reserved for the commit that the worktree is on"),
        FETCH_HEAD => fail("it is reserved for what was last fetched from an address"),
        FULL => fail("full names of branches and tags begin with 'refs'"),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_other_revisions_have_are_refused_for_new_refs() {
        for good in [
            "main",
            "head",
            "beef",
            "HEAD/x",
            "origin/main",
            &"a".repeat(39),
        ] {
            assert_eq!(check_new_ref_name(good), Ok(()), "{good}");
        }
        let (git, own) = ("0123456789abcdefABCD".repeat(2), "d".repeat(64));
        let bad = [
            "HEAD",
            "FETCH_HEAD",
            "FETCH_HEAD/main",
            "refs",
            "refs/heads/main",
            "@",
            "-",
            "@{-1}",
            "@{yesterday}",
            "git:0123",
            &git,
            &own,
        ];
        for name in bad {
            assert!(check_new_ref_name(name).is_err(), "{name:?}");
        }
    }

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
