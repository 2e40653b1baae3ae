//! How other systems treat a name.
//!
//! These functions do not decide what a tree may contain; [`check_name`](super::name::check_name)
//! does. They serve users who ask for portable names, and a checkout, which must not write two
//! names over each other.

use super::name::is_control_directory;
use crate::escape::{escape, is_hidden, is_ignorable};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use unicode_normalization::UnicodeNormalization;

/// Files that other tools read as their configuration. Some of these tools run commands from it.
const CONFIG_NAMES: [&str; 4] = [".gitmodules", ".gitattributes", ".envrc", ".vscode"];

/// Checks whether the common desktop systems accept `name` as it is. The error is the reason
/// against it.
///
/// The name must have passed [`check_name`](super::name::check_name).
pub fn portability(name: &[u8]) -> Result<(), &'static str> {
    let Ok(text) = std::str::from_utf8(name) else {
        return Err("is not UTF-8");
    };
    if text.starts_with('-') {
        return Err("begins with a dash, which programs take for an option");
    }
    if text.chars().any(char::is_control) {
        return Err("contains a control character");
    }
    if text.contains(['\\', ':', '<', '>', '"', '|', '?', '*']) {
        return Err("contains a character that Windows does not allow");
    }
    if text.ends_with(['.', ' ']) {
        return Err("ends in a dot or a space, which Windows drops");
    }
    if text.chars().any(is_hidden) {
        return Err("contains an invisible character");
    }
    // Compare what a person sees: width, superscripts and other styles do not count.
    let seen: String = text.nfkc().flat_map(char::to_lowercase).collect();
    if is_device(&seen) {
        return Err("names a device on Windows");
    }
    if is_control_directory(seen.as_bytes()) {
        return Err("looks like the name of a control directory");
    }
    if CONFIG_NAMES.contains(&seen.as_str()) {
        return Err("is configuration to another tool");
    }
    Ok(())
}

/// The names of one directory, as far as some common file system treats two of them as one.
#[derive(Debug, Default)]
pub struct FoldedNames(HashMap<Vec<u8>, Vec<u8>>);

impl FoldedNames {
    /// Adds a name, unless another one is equal to it on some file system. Returns that one.
    pub fn other(&mut self, name: &[u8]) -> Option<Vec<u8>> {
        match self.0.entry(fold_key(name)) {
            Entry::Occupied(other) => Some(other.get().clone()).filter(|other| other != name),
            Entry::Vacant(place) => {
                place.insert(name.to_vec());
                None
            }
        }
    }

    /// Adds a name. Fails with the reason if another name is equal to it on some file system, and
    /// then adds nothing.
    pub fn add(&mut self, name: &[u8]) -> Result<(), String> {
        match self.other(name) {
            None => Ok(()),
            Some(other) => Err(format!(
                "systems that ignore case or forms of letters cannot tell it from '{}' beside it",
                escape(&other)
            )),
        }
    }
}

/// Returns whether a lower-case name is that of a Windows device, with any extension.
fn is_device(name: &str) -> bool {
    let stem = name
        .split('.')
        .next()
        .unwrap_or_default()
        .trim_end_matches(' ');
    if matches!(stem, "con" | "prn" | "aux" | "nul" | "conin$" | "conout$") {
        return true;
    }
    // Windows also accepts superscript digits. They have become plain digits by now.
    let port = stem
        .strip_prefix("com")
        .or_else(|| stem.strip_prefix("lpt"));
    port.is_some_and(|n| n.len() == 1 && n.as_bytes()[0].is_ascii_digit())
}

/// Returns a key that is equal for two names if some common file system treats them as one.
///
/// The key ignores case (with full foldings, such as ß and ss), Unicode normalisation, ignorable
/// code points, and dots and spaces at the end. Bytes that are not UTF-8 count as they are.
pub fn fold_key(name: &[u8]) -> Vec<u8> {
    let mut key = if name.is_ascii() {
        name.to_ascii_lowercase()
    } else {
        let mut key = Vec::with_capacity(name.len());
        for chunk in name.utf8_chunks() {
            let kept = chunk.valid().chars().filter(|c| !is_ignorable(*c));
            let folded: String = kept.nfd().flat_map(fold).nfc().collect();
            key.extend_from_slice(folded.as_bytes());
            key.extend_from_slice(chunk.invalid());
        }
        key
    };
    while let [.., b'.' | b' '] = key[..] {
        key.pop();
    }
    key
}

/// Folds the case of `c` completely, by way of upper case: ß and ẞ become ss, ſ becomes s, ς
/// becomes σ.
fn fold(c: char) -> impl Iterator<Item = char> {
    let lower = c.to_lowercase();
    lower.flat_map(|c| {
        // Dotless i has the same upper case as i, but it is a letter of its own.
        let (own, upper) = match c {
            'ı' => (Some(c), None),
            c => (None, Some(c.to_uppercase().flat_map(char::to_lowercase))),
        };
        own.into_iter().chain(upper.into_iter().flatten())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn different_names_keep_different_keys() {
        let names = [
            "a", "b", "a.b", "ab", "a b", "e", "é", "è", "i", "ı", "ss", "s", "日本", "日", "😀",
            "ö", "o",
        ];
        for (i, a) in names.iter().enumerate() {
            for b in &names[i + 1..] {
                assert_ne!(fold_key(a.as_bytes()), fold_key(b.as_bytes()), "{a} {b}");
            }
        }
        assert_ne!(fold_key(b"a\xff"), fold_key(b"a\xfe"));
    }

    #[test]
    fn names_that_some_systems_take_for_one_collide() {
        for (first, second) in [
            ("README", "Readme"),
            ("caf\u{e9}", "cafe\u{301}"),
            ("stra\u{df}e", "STRASSE"),
            ("a", "a."),
        ] {
            let mut names = FoldedNames::default();
            assert_eq!(names.add(first.as_bytes()), Ok(()));
            let why = names.add(second.as_bytes()).expect_err("they collide");
            assert!(why.contains(first), "{why}");
            assert_eq!(names.add(first.as_bytes()), Ok(()));
            assert_eq!(names.add(b"other"), Ok(()));
        }
    }

    #[test]
    fn a_key_is_its_own_key() {
        for name in [
            "Straße.",
            "ẞ",
            "İ",
            "ΑΣ",
            "ﬁ",
            "ŉ",
            "ΐ",
            "K",
            "Å",
            "각",
            "a\u{200c} .",
        ] {
            let key = fold_key(name.as_bytes());
            assert_eq!(fold_key(&key), key, "{name}");
        }
    }

    #[test]
    fn ordinary_names_are_portable() {
        for name in [
            "README.md",
            "a b",
            ".gitignore",
            "naïve",
            "日本語.psd",
            "console",
            "com10",
            "😀",
        ] {
            assert_eq!(portability(name.as_bytes()), Ok(()), "{name}");
        }
    }
}
