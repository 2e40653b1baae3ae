//! From the arguments as typed to a command and its options, and what is said if there is no such
//! command.

use crate::args::Cli;
use crate::commands::Command;
use crate::failure::{EXIT_OK, EXIT_USAGE, Failure};
use crate::globals::Globals;
use crate::{help, ui, verbs};
use clap::FromArgMatches;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use std::ffi::OsString;

/// What somebody has typed.
pub struct Typed {
    /// The name of the command.
    pub name: String,
    /// The options of every command.
    pub globals: Globals,
    /// The command with its own options.
    pub command: Command,
}

/// Parses the arguments of this process. What is wrong with them is printed, as is help; the error is
/// then the exit code.
pub fn parse() -> Result<Typed, u8> {
    let args: Vec<OsString> = std::env::args_os().collect();
    read(&args).map_err(|e| not_parsed(&e, &args))
}

fn read(args: &[OsString]) -> Result<Typed, clap::Error> {
    let matches = help::command().try_get_matches_from(args)?;
    let cli = Cli::from_arg_matches(&matches).map_err(|e| e.format(&mut help::command()))?;
    Ok(Typed {
        name: matches.subcommand_name().unwrap_or_default().to_owned(),
        globals: cli.globals,
        command: cli.command,
    })
}

/// Prints help, the version, or what is wrong with the arguments.
fn not_parsed(e: &clap::Error, args: &[OsString]) -> u8 {
    let asked_for = matches!(e.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
    let mut options = args.iter().take_while(|arg| *arg != "--");
    let json = options.any(|arg| arg == "--json");
    if let Some(failure) = no_command(e, args) {
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
    if asked_for { EXIT_OK } else { EXIT_USAGE }
}

/// The failure for a command that there is not, with what to run instead.
fn no_command(e: &clap::Error, args: &[OsString]) -> Option<Failure> {
    if e.kind() != ErrorKind::InvalidSubcommand {
        return None;
    }
    let Some(ContextValue::String(name)) = e.get(ContextKind::InvalidSubcommand) else {
        return None;
    };
    let args: Vec<&str> = args[1..].iter().filter_map(|arg| arg.to_str()).collect();
    let at = args.iter().position(|arg| arg == name).unwrap_or(0);
    let known = help::command();
    // The command whose command it was to be, such as `remote`.
    let above = args[..at].iter().find_map(|arg| {
        let found = known.find_subcommand(arg)?;
        Some((*arg, found))
    });
    let after = args.get(at + 1..).unwrap_or_default();
    let (wanted, among) = match above {
        Some((above, command)) => (vec![above, name], command),
        None => (vec![&name[..]], &known),
    };
    let shown = among
        .get_subcommands()
        .filter(|command| !command.is_hide_set());
    let names: Vec<&str> = shown.map(clap::Command::get_name).collect();
    let of = above.map_or(String::new(), |(above, _)| format!("{above} "));
    let hint = match (
        verbs::instead_of(&wanted, after),
        &verbs::near(name, &names)[..],
    ) {
        (Some(instead), _) => instead,
        (None, []) if of.is_empty() => "dmv help".to_owned(),
        (None, []) => format!("dmv {of}--help"),
        (None, close) => {
            let close: Vec<String> = close.iter().map(|c| format!("dmv {of}{c}")).collect();
            close.join(", or ")
        }
    };
    let message = format!("there is no command '{}'", wanted.join(" "));
    Some(Failure::usage(message).hint(hint))
}
