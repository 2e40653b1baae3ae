//! The command line as a whole: options of every command, and the list of commands.

use crate::commands;
use clap::{Args, Parser, Subcommand, ValueEnum};
use std::path::PathBuf;

/// Version control for projects with files of any size.
#[derive(Parser)]
#[command(
    name = "dmv",
    version,
    arg_required_else_help = true,
    after_help = "Example:\n  dmv init\n  dmv commit -m \"first state\"\n  dmv log\n\n\
                  REV is a branch, a tag, a remote branch such as origin/main, a commit id (4 digits \
                  or more), or @ for the commit that the worktree is on. REV~2 is two commits before \
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

/// Options of every command.
#[derive(Args, Clone, Debug, Default)]
pub struct Globals {
    /// Run as if dmv had been started in DIR
    #[arg(short = 'C', global = true, value_name = "DIR", help_heading = GLOBAL)]
    pub directory: Option<PathBuf>,
    /// Print only results, warnings and errors
    #[arg(short, long, global = true, help_heading = GLOBAL)]
    pub quiet: bool,
    /// Print more details
    #[arg(short, long, global = true, help_heading = GLOBAL)]
    pub verbose: bool,
    /// Print results as JSON, and lists as one record per line
    #[arg(long, global = true, help_heading = GLOBAL)]
    pub json: bool,
    /// Use colours: auto (on a terminal, unless NO_COLOR is set), always or never
    #[arg(
        long,
        global = true,
        value_enum,
        value_name = "WHEN",
        help_heading = GLOBAL,
        hide_possible_values = true
    )]
    pub color: Option<Color>,
    /// Do not fetch absent content from remotes
    #[arg(long, global = true, help_heading = GLOBAL)]
    pub offline: bool,
    /// Answer yes to every question
    #[arg(short, long, global = true, help_heading = GLOBAL)]
    pub yes: bool,
}

const GLOBAL: &str = "Options for every command";

/// When to use colours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Color {
    /// On a terminal, unless NO_COLOR is set
    #[default]
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

/// The commands. Their help is that of their arguments.
#[derive(Subcommand)]
pub enum Command {
    Init(commands::init::Args),
    Clone(commands::clone::Args),
    Status(commands::status::Args),
    Commit(commands::commit::Args),
    Log(commands::log::Args),
    Show(commands::show::Args),
    Diff(commands::diff::Args),
    Ls(commands::ls::Args),
    Cat(commands::cat::Args),
    Du(commands::du::Args),
    Stats(commands::stats::Args),
    Checkout(commands::checkout::Args),
    Subset(commands::subset::Args),
    Restore(commands::restore::Args),
    Branch(commands::branch::Args),
    Tag(commands::tag::Args),
    Worktree(commands::worktree::Args),
    Undo(commands::undo::Args),
    Redo(commands::redo::Args),
    Merge(commands::merge::Args),
    Conflicts(commands::conflicts::Args),
    Resolve(commands::resolve::Args),
    Revert(commands::revert::Args),
    Op(commands::op::Args),
    Remote(commands::remote::Args),
    Fetch(commands::fetch::Args),
    Pull(commands::pull::Args),
    Push(commands::push::Args),
    Sync(commands::sync::Args),
    Get(commands::get::Args),
    Drop(commands::drop::Args),
    Serve(commands::serve::Args),
    Export(commands::export::Args),
    Verify(commands::verify::Args),
    Recover(commands::recover::Args),
    #[cfg(feature = "quic")]
    Id(commands::id::Args),
    #[cfg(feature = "quic")]
    Pair(commands::pair::Args),
    Trust(commands::trust::Args),
    Untrust(commands::untrust::Args),
    Peers(commands::peers::Args),
    Config(commands::config::Args),
    Demo(commands::demo::Args),
    Completions(commands::completions::Args),
    #[command(hide = true)]
    Man(commands::man::Args),
}
