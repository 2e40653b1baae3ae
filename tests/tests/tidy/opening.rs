//! Ways to open files that ask nothing about them, and where the product may use them.

use super::code::lines_with;

/// Ways to open a file that follow symlinks or wait at a named pipe. `platform::open_own` does neither.
const OPENING: [&str; 11] = [
    "File::open(",
    "File::create(",
    "File::create_new(",
    "File::options(",
    "OpenOptions",
    "fs::read(",
    "fs::read_to_string(",
    "fs::write(",
    "fs::copy(",
    "Connection::open(",
    "open_with_flags(",
];

/// Files of the product that open files in these ways, with the reason. A test fails if one no longer
/// does.
pub const OPENS: [(&str, &str); 13] = [
    (
        "crates/dmv-core/src/refs/schema.rs",
        "SQLite; checked before",
    ),
    (
        "crates/dmv-core/src/worktree/ignore.rs",
        "files of the worktree",
    ),
    ("crates/dmv-git/src/export/lfs.rs", "new files of Git LFS"),
    ("crates/dmv-git/src/map.rs", "SQLite; checked before"),
    (
        "crates/dmv-net/src/identity.rs",
        "a new file that is private",
    ),
    ("crates/dmv-bucket/src/store/", "files of other programs"),
    ("crates/dmv-preview/", "pictures, and what is kept of them"),
    ("crates/dmv-cli/src/commands/commit.rs", NAMED),
    ("crates/dmv-cli/src/commands/demo.rs", "files that it makes"),
    ("crates/dmv-cli/src/commands/export.rs", NAMED),
    ("crates/dmv-cli/src/commands/import/git.rs", NAMED),
    ("crates/dmv-cli/src/editor.rs", "a directory of its own"),
    ("crates/dmv-cli/src/subset_options.rs", NAMED),
];
const NAMED: &str = "a file that the user has named, perhaps a pipe";

/// Returns the lines that open, read or write a file without asking what it is.
pub fn lines_that_open(code: &str) -> Vec<usize> {
    let mut lines: Vec<usize> = OPENING
        .iter()
        .flat_map(|word| lines_with(code, word))
        .collect();
    lines.sort_unstable();
    lines.dedup();
    lines
}
