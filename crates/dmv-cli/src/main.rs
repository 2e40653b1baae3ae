//! The `dmv` command: parses arguments, calls the library, prints what comes back.

mod args;
mod commands;
mod compare;
mod config;
mod conflict;
mod context;
mod date;
#[cfg(feature = "quic")]
mod device;
mod error;
mod failure;
mod format;
mod globals;
mod graph;
mod half;
mod headline;
mod help;
mod keeping;
mod limit;
mod partial;
mod peers;
mod places;
mod progress;
mod supply;
mod traffic;
mod ui;
mod whose;

use args::Cli;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, FromArgMatches};
use context::Context;
use failure::{EXIT_USAGE, Failure};
use std::process::ExitCode;
use std::sync::Arc;

/// In place of the allocator of musl: docs/decisions.md, "a static program with an allocator of its
/// own".
#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    // A write beyond the limit on the size of files (`ulimit -f`) then fails instead of killing.
    // Without the handler that is still safe, only rude.
    let _ = signal_hook::flag::register(signal_hook::consts::SIGXFSZ, Arc::default());
    let cli = match parse() {
        Ok(cli) => cli,
        Err(e) => return ExitCode::from(not_parsed(&e)),
    };
    let (name, cli) = cli;
    let (globals, command) = (cli.globals, cli.command);
    if let Some(dir) = &globals.directory
        && let Err(e) = std::env::set_current_dir(dir)
    {
        let failure = Failure::new(
            "no-directory",
            failure::EXIT_OTHER,
            format!("cannot change to {}: {e}", dir.display()),
        );
        return ExitCode::from(ui::report(&failure, globals.json));
    }
    let context = Context::new(globals, name);
    let done = commands::run(&context, command, Cli::command).and_then(|exit| {
        context.ui.finish()?;
        Ok(exit)
    });
    ExitCode::from(match done {
        Ok(exit) => exit,
        Err(mut failure) => {
            if failure.is_plain_interrupt() {
                failure.message = progress::interrupted(&context.command).to_owned();
            }
            // What was printed before it failed belongs to the output; that it cannot be written
            // would only hide the failure.
            let _ = context.ui.finish();
            ui::report(&failure, context.globals.json)
        }
    })
}

/// The name of the command, and all arguments.
fn parse() -> Result<(String, Cli), clap::Error> {
    let matches = help::command().try_get_matches()?;
    let cli = Cli::from_arg_matches(&matches).map_err(|e| e.format(&mut help::command()))?;
    let name = matches.subcommand_name().unwrap_or_default();
    Ok((name.to_owned(), cli))
}

/// Prints help, the version, or what is wrong with the arguments.
fn not_parsed(e: &clap::Error) -> u8 {
    let asked_for = matches!(e.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
    let json = std::env::args_os()
        .take_while(|arg| arg != "--")
        .any(|arg| arg == "--json");
    if let Some(failure) = no_command(e) {
        return ui::report(&failure, json);
    }
    if json && !asked_for {
        let text = e.render().to_string();
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        let first = lines.split(|line| line.is_empty()).next();
        let message = match e.kind() {
            // Its text is the whole help.
            ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => "no command given".to_owned(),
            _ => first.unwrap_or_default().join(" "),
        };
        let message = message.strip_prefix("error: ").unwrap_or(&message);
        let failure = Failure::new("usage", EXIT_USAGE, message.to_owned()).hint("dmv --help");
        return ui::report(&failure, true);
    }
    // Nobody is left to hear that help could not be printed.
    let _ = e.print();
    if asked_for { 0 } else { EXIT_USAGE }
}

/// The failure for a command that there is not, with what to run instead.
fn no_command(e: &clap::Error) -> Option<Failure> {
    if e.kind() != ErrorKind::InvalidSubcommand {
        return None;
    }
    let Some(ContextValue::String(name)) = e.get(ContextKind::InvalidSubcommand) else {
        return None;
    };
    let known = help::command();
    let mut before = std::env::args().skip(1).take_while(|arg| arg != name);
    // The command of a command, such as `remote add`.
    if before.any(|arg| known.find_subcommand(&arg).is_some()) {
        return None;
    }
    let hint = match (
        help::instead_of(name),
        e.get(ContextKind::SuggestedSubcommand),
    ) {
        (Some(instead), _) => instead.to_owned(),
        (None, Some(ContextValue::String(close))) => format!("dmv {close}; all commands: dmv help"),
        (None, Some(ContextValue::Strings(close))) => {
            // The last one is the most like it.
            let close = close.last().map_or("help", String::as_str);
            format!("dmv {close}; all commands: dmv help")
        }
        (None, _) => "dmv help".to_owned(),
    };
    let message = format!("there is no command '{name}'");
    Some(Failure::usage(message).hint(hint))
}
