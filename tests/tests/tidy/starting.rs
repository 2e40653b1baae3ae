//! Where the product may start other programs. A repository names none of them, whatever lies in it.

use super::code::paths_in;

/// Files that name `std::process::Command`, with who has named the program. A test fails if one no longer does.
pub const STARTS: [(&str, &str); 9] = [
    (
        "crates/dmv-bucket/src/store/profile.rs",
        "the user's profile of the store",
    ),
    ("crates/dmv-cli/build.rs", "a fixed name, while it is built"),
    ("crates/dmv-cli/src/commands/bisect.rs", "the command line"),
    ("crates/dmv-cli/src/commands/demo.rs", "dmv itself"),
    ("crates/dmv-cli/src/commands/web.rs", "a fixed name"),
    ("crates/dmv-cli/src/hooks.rs", SETTINGS),
    ("crates/dmv-git/src/", "a fixed name"),
    ("crates/dmv-net/src/transport/ssh.rs", SETTINGS),
    ("crates/dmv-preview/src/", "dmv itself, or a fixed name"),
];
const SETTINGS: &str = "the user's own settings";

/// Returns the lines that name the way to start a program.
pub fn lines_that_start(code: &str) -> Vec<usize> {
    let found = paths_in(code).into_iter();
    let found = found.filter(|named| {
        let parts: Vec<&str> = named.parts.iter().map(String::as_str).collect();
        parts.starts_with(&["std", "process", "Command"])
    });
    found.map(|named| named.line).collect()
}
