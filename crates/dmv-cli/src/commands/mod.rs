//! One file for each command, and the list of all of them: `commands!` below. A new command adds its file, a
//! line with `mod`, and a line in the list.

pub mod add;
pub mod api;
pub mod bisect;
pub mod blame;
pub mod branch;
pub mod cat;
pub mod checkout;
pub mod cherry_pick;
pub mod claim;
pub mod claims;
pub mod clone;
pub mod commit;
pub mod completions;
pub mod config;
pub mod conflicts;
pub mod demo;
pub mod diff;
pub mod drop;
pub mod du;
pub mod expire;
pub mod export;
pub mod fetch;
pub mod gc;
pub mod get;
pub mod hooks;
#[cfg(feature = "quic")]
pub mod id;
pub mod import;
pub mod init;
pub mod keep;
pub mod lean;
pub mod log;
pub mod ls;
pub mod man;
pub mod merge;
pub mod mv;
pub mod newer;
pub mod op;
#[cfg(feature = "quic")]
pub mod pair;
pub mod peers;
pub mod pull;
pub mod purge;
pub mod push;
pub mod rebase;
pub mod recover;
pub mod redo;
pub mod release;
pub mod remote;
pub mod repack;
pub mod reset;
pub mod resolve;
pub mod restore;
pub mod revert;
pub mod rm;
pub mod serve;
pub mod show;
pub mod stash;
pub mod states;
pub mod stats;
pub mod status;
pub mod subset;
pub mod sync;
pub mod tag;
pub mod trust;
pub mod undo;
pub mod untrust;
pub mod verify;
pub mod verify_commit;
pub mod watch;
#[cfg(feature = "web")]
pub mod web;
pub mod whereis;
pub mod worktree;

use crate::context::{CommandUse, Context};
use crate::failure::Failure;
use crate::format::text::count;
use crate::{budget, progress, suggestions};
use clap::{Args, Subcommand};
use std::sync::atomic::Ordering;

fn changes<T>(_: &T) -> CommandUse {
    CommandUse::Changes
}

fn reads<T>(_: &T) -> CommandUse {
    CommandUse::Reads
}

fn shows<T>(_: &T) -> CommandUse {
    CommandUse::Shows
}

/// A command as `dmv help` lists it.
pub struct ListedCommand {
    /// The title of its group. Groups stand together.
    pub group: &'static str,
    /// Its name.
    pub name: &'static str,
    /// Whether most people need it, so that the short list explains it.
    pub is_common: bool,
}

/// Makes the enum of the commands, their list for the help, the description of one alone, and the function that
/// runs one. A line has the name of the command, its variant and module, a function that returns its
/// [`CommandUse`], and `common` if the short list explains it.
macro_rules! commands {
    (
        $($group:literal {
            $($(#[$cfg:meta])? $name:literal $variant:ident($module:ident) $use:expr $(, $common:ident)?;)*
        })*
        hidden { $($hidden:ident($hidden_module:ident) $hidden_use:expr;)* }
    ) => {
        /// The commands. Their help is that of their arguments.
        #[derive(Subcommand)]
        pub enum Command {
            $($($(#[$cfg])? $variant($module::Args),)*)*
            $(#[command(hide = true)] $hidden($hidden_module::Args),)*
        }

        /// The visible commands, as `dmv help` lists them.
        pub static LIST: &[ListedCommand] = &[
            $($($(#[$cfg])? ListedCommand {
                group: $group,
                name: $name,
                is_common: !<[&str]>::is_empty(&[$(stringify!($common))?]),
            },)*)*
        ];

        /// Returns the description of one visible command alone; `None`: there is none with this name.
        pub fn description(name: &str) -> Option<clap::Command> {
            let describe: fn(clap::Command) -> clap::Command;
            let name = match name {
                $($($(#[$cfg])? $name => {
                    describe = <$module::Args as Args>::augment_args;
                    $name
                })*)*
                _ => return None,
            };
            Some(describe(clap::Command::new(name)))
        }

        /// Returns how a command uses the repository and the terminal.
        fn use_of(command: &Command) -> CommandUse {
            match command {
                $($($(#[$cfg])? Command::$variant(args) => {
                    let of: fn(&$module::Args) -> CommandUse = $use;
                    of(args)
                })*)*
                $(Command::$hidden(args) => {
                    let of: fn(&$hidden_module::Args) -> CommandUse = $hidden_use;
                    of(args)
                })*
            }
        }

        /// Runs a command and returns the exit code. `program` makes the description of the command line.
        pub fn run(
            context: &Context,
            command: &Command,
            program: fn() -> clap::Command,
        ) -> Result<u8, Failure> {
            context.begin(use_of(command), program);
            match command {
                $($($(#[$cfg])? Command::$variant(args) => $module::run(context, args),)*)*
                $(Command::$hidden(args) => $hidden_module::run(context, args),)*
            }
        }
    };
}

/// Runs a command. A failure comes with what the surroundings know of it.
pub fn run_explained(
    context: &Context,
    command: &Command,
    program: fn() -> clap::Command,
) -> Result<u8, Failure> {
    let done = run(context, command, program);
    // Also a command that failed may have written files.
    tell_without_xattrs(context);
    let done = done.and_then(|exit| {
        context.ui.finish()?;
        Ok(exit)
    });
    done.map_err(|failure| {
        let failure = budget::explained(context, failure);
        let mut failure = suggestions::hint(context, failure);
        if failure.is_plain_interrupt() {
            failure.message = progress::interrupted(&context.command).to_owned();
        }
        failure
    })
}

/// Says once that the file system did not take extended attributes of files.
fn tell_without_xattrs(context: &Context) {
    let without = context.job.progress.without_xattrs.load(Ordering::Relaxed);
    if without > 0 {
        let files = count(without, "file", "files");
        context.ui.warn(format_args!(
            "{files} did not get all extended attributes: the file system refused some"
        ));
    }
}

commands! {
    "Start" {
        "init" Init(init) changes, common;
        "clone" Clone(clone) changes, common;
        "import" Import(import) changes;
        "demo" Demo(demo) changes;
    }
    "Work on files" {
        "status" Status(status) status::Args::command_use, common;
        "diff" Diff(diff) diff::Args::command_use, common;
        "commit" Commit(commit) changes, common;
        "checkout" Checkout(checkout) changes, common;
        "restore" Restore(restore) changes, common;
        "mv" Mv(mv) changes, common;
        "rm" Rm(rm) changes, common;
        "stash" Stash(stash) changes;
        "subset" Subset(subset) shows;
        "worktree" Worktree(worktree) reads;
        "states" States(states) reads;
        "watch" Watch(watch) reads;
        "claim" Claim(claim) changes;
        "release" Release(release) changes;
        "claims" Claims(claims) changes;
    }
    "Look at commits and files" {
        "log" Log(log) shows, common;
        "show" Show(show) shows, common;
        "blame" Blame(blame) shows;
        "bisect" Bisect(bisect) changes;
        "ls" Ls(ls) shows;
        "cat" Cat(cat) reads;
        "du" Du(du) shows;
        "stats" Stats(stats) shows;
        "export" Export(export) reads, common;
        #[cfg(feature = "web")]
        "web" Web(web) web::Args::command_use, common;
    }
    "Branch and merge" {
        "branch" Branch(branch) shows, common;
        "tag" Tag(tag) shows;
        "merge" Merge(merge) changes, common;
        "rebase" Rebase(rebase) changes;
        "cherry-pick" CherryPick(cherry_pick) changes;
        "newer" Newer(newer) newer::Args::command_use;
        "conflicts" Conflicts(conflicts) shows;
        "resolve" Resolve(resolve) changes, common;
        "revert" Revert(revert) changes;
    }
    "Undo" {
        "undo" Undo(undo) changes, common;
        "redo" Redo(redo) changes, common;
        "reset" Reset(reset) changes;
        "op" Op(op) shows;
    }
    "Exchange with other repositories" {
        "remote" Remote(remote) changes, common;
        "fetch" Fetch(fetch) changes;
        "pull" Pull(pull) changes, common;
        "push" Push(push) changes, common;
        "sync" Sync(sync) changes, common;
        "get" Get(get) changes, common;
        "drop" Drop(drop) changes, common;
        "whereis" Whereis(whereis) whereis::Args::command_use;
        "lean" Lean(lean) changes;
    }
    "Connect devices" {
        #[cfg(feature = "quic")]
        "id" Id(id) changes;
        #[cfg(feature = "quic")]
        "pair" Pair(pair) changes;
        "peers" Peers(peers) changes;
        "trust" Trust(trust) changes;
        "untrust" Untrust(untrust) changes;
        "serve" Serve(serve) changes;
    }
    "Check and repair" {
        "verify" Verify(verify) verify::Args::command_use, common;
        "verify-commit" VerifyCommit(verify_commit) reads;
        "recover" Recover(recover) changes;
    }
    "Free space" {
        "gc" Gc(gc) changes, common;
        "repack" Repack(repack) changes;
        "keep" Keep(keep) changes;
        "expire" Expire(expire) changes;
        "purge" Purge(purge) changes;
    }
    "Settings and help" {
        "config" Config(config) changes, common;
        "hooks" Hooks(hooks) reads;
        "completions" Completions(completions) changes;
        "api" Api(api) reads;
    }
    hidden {
        Add(add) shows;
        Man(man) changes;
    }
}
