//! What only one operating system has, and where the product may name it.

use super::code::paths_in;
use super::source::tree;
use super::{PLATFORM, rust};

/// Other files that name `std::os` or a crate for one system, with the reason. A directory ends with a slash. A test
/// fails if one no longer does.
pub const SYSTEM: [(&str, &str); 4] = [
    ("crates/dmv-preview/src/confine.rs", "it takes rights away"),
    (
        "crates/dmv-preview/src/confine/windows.rs",
        "it takes rights away",
    ),
    (
        "crates/dmv-preview/src/confine/film.rs",
        "it takes rights away",
    ),
    ("crates/dmv-preview/src/film.rs", "it becomes ffmpeg"),
];
/// Files with `unsafe` code. Each says why.
pub const UNSAFE: [&str; 2] = [
    "crates/dmv-core/src/platform/windows/calls.rs",
    "crates/dmv-preview/src/confine/windows.rs",
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

/// Words of a condition that holds on some systems or machines only.
const CONDITIONS: [&str; 5] = [
    "unix",
    "windows",
    "target_os",
    "target_vendor",
    "target_env",
];
/// How many conditions on the system the product may have outside of the rooms for systems.
const MAX_CONDITIONS: usize = 30;

/// Returns the lines with a condition on the system.
fn conditions(code: &str) -> Vec<usize> {
    let is_one = |line: &str| {
        let condition = line.split_once("cfg").map(|(_, rest)| rest);
        let mut words = condition
            .into_iter()
            .flat_map(|rest| rest.split(|c: char| !c.is_alphanumeric() && c != '_'));
        words.any(|word| CONDITIONS.contains(&word))
    };
    let numbered = code.lines().enumerate();
    numbered
        .filter(|(_, line)| is_one(line))
        .map(|(n, _)| n + 1)
        .collect()
}

#[test]
fn few_places_outside_of_the_platform_room_depend_on_the_system() {
    let code = "#[cfg(unix)]\n#[cfg(feature = \"a\")]\nif cfg!(target_os = \"linux\") {}\nunix();\n#![cfg_attr(windows, a)]";
    assert_eq!(conditions(code), [1, 3, 5]);
    let files = tree();
    let mut found = Vec::new();
    for (file, code) in rust(&files, false) {
        if file.starts_with("crates/") && !file.starts_with(PLATFORM) {
            found.extend(
                conditions(&code)
                    .iter()
                    .map(|line| format!("{file}:{line}")),
            );
        }
    }
    assert!(
        found.len() <= MAX_CONDITIONS,
        "{} conditions, at most {MAX_CONDITIONS}:\n{}",
        found.len(),
        found.join("\n")
    );
}
