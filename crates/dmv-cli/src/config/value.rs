//! The values of settings: what fits, and how a file holds them.

use super::remote::is_web_address;
use super::{Key, Kind};
use crate::alias;
use crate::failure::{EXIT_OTHER, Failure};
use dmv_core::refs::check_ref_name;
use dmv_core::repo::PeerKey;
use dmv_core::worktree::properties::XattrNames;
use dmv_net::transport::without_secret;
use toml::Value;

/// What stands between the paths of a list, where it is one text.
pub const PATHS_APART: &str = ":";
/// What stands between patterns.
const PATTERNS_APART: &str = ",";

/// What stands between the parts of a list that is one text.
pub fn apart(kind: Kind) -> &'static str {
    match kind {
        Kind::Paths => PATHS_APART,
        _ => PATTERNS_APART,
    }
}

/// Checks a value that a user gives; `place` says where.
pub fn check(key: &Key, value: &str, place: &str) -> Result<(), Failure> {
    let fits = match key.kind {
        Kind::Text => !value.contains(['\0', '\n']),
        Kind::Program => !value.trim().is_empty() && !value.contains(['\0', '\n']),
        Kind::Bool => matches!(value, "true" | "false"),
        Kind::Path | Kind::Paths => !value.contains('\0'),
        Kind::Branch => check_ref_name(value).is_ok(),
        Kind::Relay | Kind::Endpoint => value.is_empty() || is_web_address(value),
        Kind::Price => value.parse().is_ok_and(|n: f64| n.is_finite() && n >= 0.0),
        Kind::Color => matches!(value, "auto" | "always" | "never"),
        Kind::Xattrs => XattrNames::parse(value).is_ok(),
        Kind::Sharing => matches!(value, "auto" | "off" | "require"),
        Kind::Check => matches!(value, "full" | "sample"),
        Kind::Seconds | Kind::Count => value.parse().is_ok_and(|n: u32| n > 0),
        Kind::Size => size(value).is_some(),
        Kind::Device => value.parse::<PeerKey>().is_ok(),
        Kind::Alias => {
            return alias::words(value).map(drop).map_err(|why| {
                let message = format!("'{value}' is not valid for {}: {why}", key.name);
                Failure::new("bad-setting", EXIT_OTHER, message).hint("dmv config --help")
            });
        }
    };
    if fits {
        Ok(())
    } else {
        Err(bad(key, value, place))
    }
}

/// The same for an option of the command line.
pub fn size_option(text: &str) -> Result<u64, String> {
    size(text.trim()).ok_or_else(|| "write a size as 500G, 1.5TB or 200MiB".to_owned())
}

/// A number of bytes: digits, perhaps with a fraction, and a unit. `K` and `KB` are 1000, `KiB` is 1024.
pub fn size(text: &str) -> Option<u64> {
    let digits = |c: char| c.is_ascii_digit() || c == '.';
    let (number, unit) = text.split_at(text.find(|c| !digits(c)).unwrap_or(text.len()));
    let unit = unit.trim_start().to_ascii_lowercase();
    let factor = match unit.as_str() {
        "" | "b" => 1u64,
        unit => {
            let (prefix, rest) = unit.split_at_checked(1)?;
            let power = 1 + "kmgtpe".find(prefix)? as u32;
            let base: u64 = match rest {
                "" | "b" => 1000,
                "ib" => 1024,
                _ => return None,
            };
            base.checked_pow(power)?
        }
    };
    if let Ok(whole) = number.parse::<u64>() {
        return whole.checked_mul(factor);
    }
    let bytes = number.parse::<f64>().ok()? * factor as f64;
    (bytes < u64::MAX as f64).then_some(bytes as u64)
}

/// The failure for a value that does not fit; `place` says where it stands.
pub fn bad(key: &Key, value: &str, place: &str) -> Failure {
    let wanted = match key.kind {
        Kind::Text => "one line of text",
        Kind::Program => "a program",
        Kind::Bool => "true or false",
        Kind::Path => "a path",
        Kind::Paths => "a list of paths",
        Kind::Xattrs => "patterns that begin with user., with commas between them",
        Kind::Branch => "a branch's name",
        Kind::Relay => "http://HOST:PORT or https://HOST, without a name or a password",
        Kind::Color => "auto, always or never",
        Kind::Sharing => "auto, off or require",
        Kind::Check => "full or sample",
        Kind::Seconds => "a number of seconds, at least 1",
        Kind::Count => "a whole number, at least 1",
        Kind::Size => "a size such as 500MB or 10GiB",
        Kind::Price => "a number of dollars such as 0.005",
        Kind::Endpoint => "https://HOST:PORT; credentials do not belong there",
        Kind::Device => "a key of 64 hex digits",
        Kind::Alias => "a command of dmv, perhaps with arguments",
    };
    let place = if place.is_empty() {
        String::new()
    } else {
        format!(" in {place}")
    };
    let value = match key.kind {
        Kind::Relay | Kind::Endpoint => without_secret(value),
        _ => value.to_owned(),
    };
    let message = format!(
        "'{value}' is not valid for {}{place}: use {wanted}",
        key.name
    );
    Failure::new("bad-setting", EXIT_OTHER, message).hint("dmv config --help")
}

/// The value in a file as text; `None` if it is none for this setting.
pub fn as_text(key: &Key, value: &Value) -> Option<String> {
    match (key.kind, value) {
        (Kind::Bool, Value::Boolean(b)) => Some(b.to_string()),
        (Kind::Bool, _) => None,
        (Kind::Seconds | Kind::Count | Kind::Size | Kind::Price, Value::Integer(n)) => {
            Some(n.to_string())
        }
        (Kind::Price, Value::Float(n)) => Some(n.to_string()),
        (Kind::Paths | Kind::Xattrs, Value::Array(list)) => {
            let parts: Option<Vec<&str>> = list.iter().map(Value::as_str).collect();
            parts.map(|parts| parts.join(apart(key.kind)))
        }
        (_, Value::String(text)) => Some(text.clone()),
        _ => None,
    }
}
