//! What only one operating system has, and where the product may name it.

use super::code::paths_in;

/// Other files that name `std::os` or a crate for one system, with the reason. A directory ends with a slash. A test
/// fails if one no longer does.
pub const SYSTEM: [(&str, &str); 3] = [
    ("crates/dmv-preview/src/confine.rs", "it takes rights away"),
    (
        "crates/dmv-preview/src/confine/film.rs",
        "it takes rights away",
    ),
    ("crates/dmv-preview/src/film.rs", "it becomes ffmpeg"),
];
/// Crates that only some systems have.
const SYSTEM_CRATES: [&str; 2] = ["rustix", "windows_sys"];

/// Returns the lines that name what only one operating system has.
pub fn lines_of_one_system(code: &str) -> Vec<usize> {
    let is_one = |parts: &[String]| {
        SYSTEM_CRATES.contains(&&*parts[0])
            || parts.len() > 1 && parts[0] == "std" && parts[1] == "os"
    };
    let mut lines: Vec<usize> = paths_in(code)
        .into_iter()
        .filter(|named| is_one(&named.parts))
        .map(|named| named.line)
        .collect();
    lines.dedup();
    lines
}
