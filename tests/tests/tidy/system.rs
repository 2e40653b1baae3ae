//! What only one operating system has, and where the product may name it.

use super::code::paths_in;

/// Other files that name `std::os` or `rustix`, with the reason. A directory ends with a slash. A test
/// fails if one no longer does.
pub const SYSTEM: [(&str, &str); 21] = [
    ("crates/dmv-preview/src/confine.rs", "it takes rights away"),
    (
        "crates/dmv-preview/src/confine/film.rs",
        "it takes rights away",
    ),
    ("crates/dmv-preview/src/film.rs", "it becomes ffmpeg"),
    ("crates/dmv-net/src/identity.rs", "its owner and mode"),
    ("crates/dmv-cli/src/commands/export.rs", ARGUMENTS),
    ("crates/dmv-cli/src/commands/pair.rs", HOST),
    ("crates/dmv-cli/src/commands/resolve.rs", ARGUMENTS),
    ("crates/dmv-cli/src/commands/serve.rs", STREAMS),
    ("crates/dmv-cli/src/commands/serve/quic.rs", HOST),
    ("crates/dmv-cli/src/commands/subset.rs", ARGUMENTS),
    ("crates/dmv-cli/src/commands/worktree.rs", ARGUMENTS),
    ("crates/dmv-cli/src/context.rs", HOST),
    (
        "crates/dmv-cli/src/error.rs",
        "it looks for the reason of a failed write",
    ),
    (
        "crates/dmv-cli/src/error/repo.rs",
        "it looks for the reason of a failed write",
    ),
    ("crates/dmv-cli/src/subset_options.rs", ARGUMENTS),
    ("crates/dmv-cli/src/pager.rs", "the size of the terminal"),
    ("crates/dmv-cli/src/partial_repository.rs", ARGUMENTS),
    (
        "crates/dmv-cli/src/peers.rs",
        "it asks how a disk is mounted",
    ),
    ("crates/dmv-cli/src/path_arguments.rs", ARGUMENTS),
    (
        "crates/dmv-cli/src/programs.rs",
        "what can be executed, and groups of processes",
    ),
    ("crates/dmv-cli/src/ui.rs", STREAMS),
];
const ARGUMENTS: &str = "bytes of arguments and paths";
const HOST: &str = "names of the user and the machine";
const STREAMS: &str = "standard streams without a buffer";

/// Returns the lines that name what only one operating system has.
pub fn lines_of_one_system(code: &str) -> Vec<usize> {
    let is_one = |parts: &[String]| {
        parts[0] == "rustix" || parts.len() > 1 && parts[0] == "std" && parts[1] == "os"
    };
    let mut lines: Vec<usize> = paths_in(code)
        .into_iter()
        .filter(|named| is_one(&named.parts))
        .map(|named| named.line)
        .collect();
    lines.dedup();
    lines
}
