//! The `dmv` command: parses arguments, calls the library, prints what comes back.

mod alias;
mod api;
mod args;
mod author_notice;
#[cfg(feature = "store")]
mod bucket;
mod budget;
mod candidates;
mod claim_news;
mod claim_request;
mod command_line;
mod commands;
mod compare;
mod config;
mod conflict;
mod context;
mod copies;
mod cost;
mod covering_paths;
mod damage;
mod date;
mod deletions;
#[cfg(feature = "quic")]
mod device;
mod devices;
mod editor;
mod error;
mod failure;
mod format;
mod globals;
mod graph;
mod headline;
mod help;
mod hooks;
mod joined_texts;
mod lean_setting;
mod lock_wait;
mod message;
mod mirror;
mod on_demand;
mod other_tools;
mod overwrites;
mod ownership;
mod pager;
mod partial_repository;
mod path_arguments;
mod peers;
mod prelude;
mod print;
mod programs;
mod progress;
mod remotes;
mod revisions;
mod room;
mod signers;
mod signing;
mod ssh_keys;
mod stash_name;
#[cfg(feature = "store")]
mod store_options;
mod subset_options;
mod suggestions;
mod terminal;
mod topics;
mod traffic;
mod ui;
mod unfinished_clone;

use args::Cli;
use clap::CommandFactory;
use command_line::TypedText;
use context::Context;
use failure::Failure;
use std::process::ExitCode;

/// In place of the allocator of musl: docs/decisions/program.md, "A static program with an allocator of its
/// own".
#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    // A page starts this program again for each preview. The process may have no thread and no open file.
    #[cfg(feature = "previews")]
    if std::env::args_os()
        .nth(1)
        .is_some_and(|command| command == "preview-worker")
    {
        return dmv_preview::worker();
    }
    candidates::answer_shell(Cli::command);
    // A write beyond the limit on the size of files (`ulimit -f`) then fails instead of killing.
    // Without the handler that is still safe, only rude.
    #[cfg(unix)]
    let _ = signal_hook::flag::register(signal_hook::consts::SIGXFSZ, std::sync::Arc::default());
    let TypedText {
        name,
        args,
        mut globals,
        command,
    } = match command_line::parse() {
        Ok(typed) => typed,
        Err(exit) => return ExitCode::from(exit),
    };
    globals.started_in = std::env::current_dir().ok();
    if let Some(dir) = &globals.directory
        && let Err(e) = std::env::set_current_dir(dir)
    {
        let failure = Failure::new(
            "no-directory",
            failure::EXIT_OTHER,
            format!("cannot change to {}: {e}", dir.display()),
        );
        return ExitCode::from(ui::report(&failure, globals.failure_form()));
    }
    let context = Context::new(globals, name, args);
    let exit = match commands::run_explained(&context, &command, Cli::command) {
        Ok(exit) => exit,
        Err(failure) => {
            // What was printed before it failed belongs to the output; that it cannot be written
            // would only hide the failure.
            let _ = context.ui.finish();
            #[cfg(feature = "store")]
            if context.globals.json {
                // The failure stays the only object on standard error.
                context.buckets.is_told.set(true);
            }
            ui::report(&failure, context.globals.failure_form())
        }
    };
    #[cfg(feature = "store")]
    cost::tell_cost(&context);
    ExitCode::from(exit)
}
