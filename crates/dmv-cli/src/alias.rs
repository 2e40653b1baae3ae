//! Aliases: names that stand for a command with some of its arguments.
//!
//! They are the user's own. They stand for arguments of this program and nothing else: no shell reads
//! them.

use dmv_net::transport;

/// The section of the user's file that holds them.
pub const SECTION: &str = "alias";

/// The words of an alias. Quotes keep words together, and a backslash takes away the meaning of what
/// follows it, as in a shell. The error says what is wrong.
pub fn words(text: &str) -> Result<Vec<String>, &'static str> {
    if text.trim_start().starts_with('!') {
        return Err("it begins with '!', and no alias runs a shell command");
    }
    transport::words(text)
}

/// Whether an alias may have this name.
pub fn is_name(name: &str) -> bool {
    let is_fit = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    name.starts_with(|c: char| c.is_ascii_alphanumeric()) && name.chars().all(is_fit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_alias_is_split_into_words() {
        for (text, wanted) in [
            ("checkout", &["checkout"][..]),
            ("  log  --graph\t-n 5 ", &["log", "--graph", "-n", "5"]),
            ("log --grep 'a  b'", &["log", "--grep", "a  b"]),
            (r#"log "it's" a\ b"#, &["log", "it's", "a b"]),
            (r#"x '' "" "a\"b" '\'"#, &["x", "", "", "a\"b", "\\"]),
            ("a'b'c", &["abc"]),
            ("$HOME `ls` ; |", &["$HOME", "`ls`", ";", "|"]),
        ] {
            assert_eq!(
                words(text).as_deref(),
                Ok(&wanted.iter().map(|w| (*w).to_owned()).collect::<Vec<_>>()[..]),
                "{text}"
            );
        }
        for bad in ["", "  ", "'a", "\"a", "a\\", "!ls", " !ls"] {
            assert!(words(bad).is_err(), "{bad}");
        }
        for (name, fits) in [
            ("co", true),
            ("l1-a_b", true),
            ("", false),
            ("-x", false),
            ("a.b", false),
            ("a b", false),
        ] {
            assert_eq!(is_name(name), fits, "{name}");
        }
    }
}
