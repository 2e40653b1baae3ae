//! One file for each command, and the list of all of them.

pub mod add;
pub mod advise;
pub mod bisect;
pub mod blame;
pub mod branch;
pub mod budget;
pub mod cat;
pub mod checkout;
pub mod cherry_pick;
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
#[cfg(feature = "quic")]
pub mod id;
pub mod init;
pub mod keep;
pub mod log;
pub mod ls;
pub mod man;
pub mod merge;
pub mod mv;
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
pub mod stats;
pub mod status;
pub mod subset;
pub mod sync;
pub mod tag;
pub mod trust;
pub mod undo;
pub mod untrust;
pub mod verify;
#[cfg(feature = "web")]
pub mod web;
pub mod worktree;

use crate::context::Context;
use crate::failure::Failure;
use clap::Subcommand;

/// The commands. Their help is that of their arguments.
#[derive(Subcommand)]
pub enum Command {
    Init(init::Args),
    Clone(clone::Args),
    Status(status::Args),
    Commit(commit::Args),
    Log(log::Args),
    Show(show::Args),
    Diff(diff::Args),
    Blame(blame::Args),
    Bisect(bisect::Args),
    Ls(ls::Args),
    Cat(cat::Args),
    Du(du::Args),
    Stats(stats::Args),
    Advise(advise::Args),
    Checkout(checkout::Args),
    Subset(subset::Args),
    Restore(restore::Args),
    Mv(mv::Args),
    Rm(rm::Args),
    Branch(branch::Args),
    Tag(tag::Args),
    Worktree(worktree::Args),
    Stash(stash::Args),
    Undo(undo::Args),
    Reset(reset::Args),
    Redo(redo::Args),
    Merge(merge::Args),
    Conflicts(conflicts::Args),
    Resolve(resolve::Args),
    Revert(revert::Args),
    CherryPick(cherry_pick::Args),
    Rebase(rebase::Args),
    Op(op::Args),
    Remote(remote::Args),
    Fetch(fetch::Args),
    Pull(pull::Args),
    Push(push::Args),
    Sync(sync::Args),
    Get(get::Args),
    Drop(drop::Args),
    Gc(gc::Args),
    Repack(repack::Args),
    Keep(keep::Args),
    Expire(expire::Args),
    Purge(purge::Args),
    Budget(budget::Args),
    Serve(serve::Args),
    #[cfg(feature = "web")]
    Web(web::Args),
    Export(export::Args),
    Verify(verify::Args),
    Recover(recover::Args),
    #[cfg(feature = "quic")]
    Id(id::Args),
    #[cfg(feature = "quic")]
    Pair(pair::Args),
    Trust(trust::Args),
    Untrust(untrust::Args),
    Peers(peers::Args),
    Config(config::Args),
    Demo(demo::Args),
    Completions(completions::Args),
    #[command(hide = true)]
    Add(add::Args),
    #[command(hide = true)]
    Man(man::Args),
}

/// Runs a command and returns the exit code. `program` makes the description of the command line,
/// for the commands that print it in another form.
pub fn run(
    context: &Context,
    command: Command,
    program: fn() -> clap::Command,
) -> Result<u8, Failure> {
    context.reads.set(only_reads(&command));
    if only_reads(&command) && is_paged(&command) {
        context.page();
    }
    match command {
        Command::Init(args) => init::run(context, args),
        Command::Clone(args) => clone::run(context, args),
        Command::Status(args) => status::run(context, &args),
        Command::Commit(args) => commit::run(context, args),
        Command::Log(args) => log::run(context, &args),
        Command::Show(args) => show::run(context, &args),
        Command::Diff(args) => diff::run(context, &args),
        Command::Blame(args) => blame::run(context, &args),
        Command::Bisect(args) => bisect::run(context, &args),
        Command::Ls(args) => ls::run(context, &args),
        Command::Cat(args) => cat::run(context, &args),
        Command::Du(args) => du::run(context, &args),
        Command::Stats(args) => stats::run(context, &args),
        Command::Advise(args) => advise::run(context, &args),
        Command::Checkout(args) => checkout::run(context, &args),
        Command::Subset(args) => subset::run(context, &args),
        Command::Restore(args) => restore::run(context, &args),
        Command::Mv(args) => mv::run(context, &args),
        Command::Rm(args) => rm::run(context, &args),
        Command::Branch(args) => branch::run(context, &args),
        Command::Tag(args) => tag::run(context, &args),
        Command::Worktree(args) => worktree::run(context, &args),
        Command::Reset(args) => reset::run(context, &args),
        Command::Stash(args) => stash::run(context, &args),
        Command::Undo(args) => undo::run(context, &args),
        Command::Redo(args) => redo::run(context, &args),
        Command::Merge(args) => merge::run(context, args),
        Command::Conflicts(args) => conflicts::run(context, &args),
        Command::Resolve(args) => resolve::run(context, &args),
        Command::Revert(args) => revert::run(context, args),
        Command::CherryPick(args) => cherry_pick::run(context, &args),
        Command::Rebase(args) => rebase::run(context, &args),
        Command::Op(args) => op::run(context, &args),
        Command::Remote(args) => remote::run(context, &args),
        Command::Fetch(args) => fetch::run(context, &args),
        Command::Pull(args) => pull::run(context, args),
        Command::Push(args) => push::run(context, &args),
        Command::Sync(args) => sync::run(context, &args),
        Command::Get(args) => get::run(context, &args),
        Command::Drop(args) => drop::run(context, &args),
        Command::Gc(args) => gc::run(context, &args),
        Command::Repack(args) => repack::run(context, &args),
        Command::Keep(args) => keep::run(context, &args),
        Command::Expire(args) => expire::run(context, &args),
        Command::Purge(args) => purge::run(context, &args),
        Command::Budget(args) => budget::run(context, &args),
        Command::Serve(args) => serve::run(context, &args),
        #[cfg(feature = "web")]
        Command::Web(args) => web::run(context, &args),
        Command::Export(args) => export::run(context, &args),
        Command::Verify(args) => verify::run(context, &args),
        Command::Recover(args) => recover::run(context, &args),
        #[cfg(feature = "quic")]
        Command::Id(args) => id::run(context, &args),
        #[cfg(feature = "quic")]
        Command::Pair(args) => pair::run(context, &args),
        Command::Trust(args) => trust::run(context, &args),
        Command::Untrust(args) => untrust::run(context, &args),
        Command::Peers(args) => peers::run(context, &args),
        Command::Config(args) => config::run(context, &args, program),
        Command::Demo(args) => demo::run(context, &args),
        Command::Completions(args) => completions::run(context, &args),
        Command::Add(args) => add::run(context, &args),
        Command::Man(args) => man::run(context, &args, program()),
    }
}

/// Whether a command is for looking at a repository, so that it may be another user's. What it could
/// change all the same the library refuses.
fn only_reads(command: &Command) -> bool {
    match command {
        Command::Add(_)
        | Command::Status(_)
        | Command::Log(_)
        | Command::Show(_)
        | Command::Diff(_)
        | Command::Blame(_)
        | Command::Ls(_)
        | Command::Cat(_)
        | Command::Du(_)
        | Command::Stats(_)
        | Command::Advise(_)
        | Command::Subset(_)
        | Command::Branch(_)
        | Command::Tag(_)
        | Command::Worktree(_)
        | Command::Conflicts(_)
        | Command::Op(_)
        | Command::Export(_) => true,
        Command::Verify(args) => !args.heals(),
        #[cfg(feature = "web")]
        Command::Web(args) => args.read_only,
        _ => false,
    }
}

/// Whether a pager may show what a command for looking prints. Not if that is data for a file or a
/// pipe, if the exit code is the answer, or if it is a list of what was done.
fn is_paged(command: &Command) -> bool {
    match command {
        Command::Status(args) => !args.asks_by_exit_code(),
        Command::Diff(args) => !args.asks_by_exit_code(),
        Command::Cat(_) | Command::Export(_) | Command::Verify(_) | Command::Worktree(_) => false,
        #[cfg(feature = "web")]
        Command::Web(_) => false,
        _ => true,
    }
}
