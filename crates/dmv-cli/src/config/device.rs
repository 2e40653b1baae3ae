//! The names of devices in the user's file: `device.NAME`.

use super::{Key, Kind, Scope, key};
use std::borrow::Cow;

/// The section that holds them.
pub const SECTION: &str = "device";
/// The fewest digits that stand for a key.
pub const MIN_DIGITS: usize = 8;
/// The most characters of a name.
pub const MAX_NAME_LEN: usize = 32;

/// The setting of a device's name.
pub(super) fn device_key(short: &str) -> Key {
    Key {
        name: Cow::Owned(format!("{SECTION}.{short}")),
        ..key("", Kind::Device, Scope::User, None, "the key of a device")
    }
}

/// Whether a device may have this name. What looks like the beginning of a key is none.
pub fn is_name(name: &str) -> bool {
    let is_fit = |c: char| c.is_alphanumeric() || c == '-' || c == '_';
    let is_key = name.len() >= MIN_DIGITS && name.bytes().all(|b| b.is_ascii_hexdigit());
    name.chars().count() <= MAX_NAME_LEN
        && name.starts_with(char::is_alphanumeric)
        && name.chars().all(is_fit)
        && !is_key
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_a_word_that_is_no_beginning_of_a_key() {
        for (name, fits) in [
            ("desktop", true),
            ("vm-2", true),
            ("a1b2", true),
            ("B\u{fc}ro", true),
            ("deadbeef", false),
            ("DEADBEEF00", false),
            ("", false),
            ("-x", false),
            ("a/b", false),
            ("a.b", false),
            ("a b", false),
            ("\u{202e}x", false),
            (&"x".repeat(33), false),
        ] {
            assert_eq!(is_name(name), fits, "{name}");
        }
    }
}
