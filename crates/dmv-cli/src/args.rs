//! The command line as a whole.

use crate::commands::Command;
use crate::globals::Globals;
use clap::Parser;
use std::env::consts::{ARCH, OS};
use std::sync::LazyLock;

/// The version, and what is built in.
static LONG_VERSION: LazyLock<String> = LazyLock::new(|| {
    let parts = [
        ("git", cfg!(feature = "git")),
        ("previews", cfg!(feature = "previews")),
        ("quic", cfg!(feature = "quic")),
        ("store", cfg!(feature = "store")),
        ("web", cfg!(feature = "web")),
    ];
    let has: Vec<&str> = parts
        .iter()
        .filter(|part| part.1)
        .map(|part| part.0)
        .collect();
    let parts = if has.is_empty() {
        "no features".to_owned()
    } else {
        has.join(", ")
    };
    format!(
        "{}\nfor {OS} on {ARCH}, with {parts}",
        env!("CARGO_PKG_VERSION")
    )
});

/// Version control for projects with files of any size.
#[derive(Parser)]
#[command(
    name = "dmv",
    version,
    long_version = LONG_VERSION.as_str(),
    arg_required_else_help = true,
    after_help = "Example:\n  dmv init\n  dmv commit -m \"first state\"\n  dmv log\n\n\
                  REV is a branch, a tag, a remote branch such as origin/main, a commit id (4 digits \
                  or more), git: and an id of Git, or @ for the commit that the worktree is on. REV~2 is two commits before \
                  REV. REV:PATH is a file or directory in REV.\n\n\
                  'dmv help COMMAND' explains a command and its options."
)]
pub struct Cli {
    /// Options of every command.
    #[command(flatten)]
    pub globals: Globals,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}
