//! How the help looks: commands in groups, one line for each option.

use crate::args::Cli;
use clap::{Command, CommandFactory};

/// The commands as `dmv help` shows them. Each visible command is in exactly one group.
const GROUPS: [(&str, &[&str]); 10] = [
    ("Start", &["init", "clone", "demo"]),
    (
        "Work on files",
        &[
            "status", "diff", "commit", "checkout", "restore", "mv", "rm", "stash", "subset",
            "worktree",
        ],
    ),
    (
        "Look at commits and files",
        &[
            "log", "show", "blame", "bisect", "ls", "cat", "du", "stats", "advise", "export", "web",
        ],
    ),
    (
        "Branch and merge",
        &[
            "branch",
            "tag",
            "merge",
            "rebase",
            "cherry-pick",
            "conflicts",
            "resolve",
            "revert",
        ],
    ),
    ("Undo", &["undo", "redo", "reset", "op"]),
    (
        "Exchange with other repositories",
        &["remote", "fetch", "pull", "push", "sync", "get", "drop"],
    ),
    (
        "Connect devices",
        &["id", "pair", "peers", "trust", "untrust", "serve"],
    ),
    ("Check and repair", &["verify", "recover"]),
    (
        "Free space",
        &["gc", "repack", "keep", "expire", "purge", "budget"],
    ),
    ("Settings and help", &["config", "completions", "help"]),
];

/// The commands that `dmv help` explains. It names the others; `dmv help --all` explains all.
const COMMON: [&str; 27] = [
    "init", "clone", "status", "diff", "commit", "checkout", "restore", "mv", "rm", "log", "show",
    "export", "web", "branch", "merge", "resolve", "undo", "redo", "remote", "pull", "push",
    "sync", "get", "drop", "verify", "gc", "config",
];

/// How wide the list of the other commands is.
const COLUMNS: usize = 80;

/// Where the options of every command are explained, and everything else that few need.
const MORE: &str = "\
dmv COMMAND --help   explains a command
dmv help --all       lists all commands, and the options of every command
dmv help topics      lists the pages of the guide";

/// Which commands a list explains.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum ListExtent {
    /// Those that most people need, in one screen.
    Common,
    /// All.
    All,
}

const TEMPLATE: &str = "{about-with-newline}\n{usage-heading} {usage}\n\n";

/// The command line with its help as it is shown. Completions and manual pages are made from the one
/// without.
pub fn command() -> Command {
    listing(ListExtent::Common)
}

/// The same, with a list of these commands.
pub fn listing(listed: ListExtent) -> Command {
    let command = Cli::command();
    let groups = groups(&command, listed);
    let template = match listed {
        ListExtent::Common => format!("{TEMPLATE}{groups}{MORE}\n"),
        ListExtent::All => format!("{TEMPLATE}{groups}Options:\n{{options}}{{after-help}}"),
    };
    command
        .help_template(template)
        .mut_subcommands(|command| with_details_first(command.mut_subcommands(with_details_last)))
}

fn groups(command: &Command, listed: ListExtent) -> String {
    let mut text = String::new();
    let mut others = Vec::new();
    for (title, names) in GROUPS {
        let is_shown = |name: &&str| listed == ListExtent::All || COMMON.contains(name);
        let (shown, more): (Vec<&str>, Vec<&str>) = names.iter().partition(|name| is_shown(name));
        // Whoever reads the list has found the help.
        others.extend(more.into_iter().filter(|name| *name != "help"));
        if shown.is_empty() {
            continue;
        }
        text += &format!("{title}:\n");
        for name in shown {
            let about = match name {
                "help" => "Show this list, or the help of a command".to_owned(),
                name => about(command, name),
            };
            text += &format!("  {name:<11}  {about}\n");
        }
        if listed == ListExtent::All {
            text.push('\n');
        }
    }
    if !others.is_empty() {
        text += &format!("More commands:\n{}\n", wrapped(&others));
    }
    text
}

/// Words in lines that are indented.
fn wrapped(words: &[&str]) -> String {
    let mut text = String::new();
    let mut width = COLUMNS;
    for word in words {
        if width + 2 + word.len() > COLUMNS {
            text += if text.is_empty() { "  " } else { "\n  " };
            width = 2;
        } else {
            text += "  ";
            width += 2;
        }
        text += word;
        width += word.len();
    }
    text + "\n"
}

fn about(command: &Command, name: &str) -> String {
    let about = command.find_subcommand(name).and_then(Command::get_about);
    about.map(ToString::to_string).unwrap_or_default()
}

/// The whole description stands at the top, and the options below it take a line each: with a separate
/// long form clap would spread them over several.
fn with_details_first(command: Command) -> Command {
    match command.get_long_about().cloned() {
        Some(details) => command.about(details).long_about(None),
        None => command,
    }
}

/// The same for the commands of a command. Their first line is shown in a list, so the rest goes below.
fn with_details_last(command: Command) -> Command {
    let text = |text: Option<&clap::builder::StyledStr>| text.map(ToString::to_string);
    let details = text(command.get_long_about()).unwrap_or_default();
    let Some((_, details)) = details.split_once("\n\n") else {
        return command;
    };
    let example = text(command.get_after_help()).unwrap_or_default();
    let below = format!("{details}\n\n{example}");
    command
        .long_about(None)
        .after_help(below.trim_end().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_common_commands_are_commands_of_groups() {
        for name in COMMON {
            let is_grouped = GROUPS.iter().any(|(_, names)| names.contains(&name));
            assert!(is_grouped, "{name}");
        }
    }

    #[test]
    fn words_are_wrapped() {
        let word = "x".repeat(20);
        let text = wrapped(&[&word[..]; 5]);
        assert_eq!(text.lines().map(str::len).collect::<Vec<_>>(), [66, 44]);
    }

    #[test]
    fn each_command_is_in_one_group() {
        let command = Cli::command();
        let shown = command.get_subcommands().filter(|c| !c.is_hide_set());
        let mut there: Vec<&str> = shown.map(Command::get_name).collect();
        there.push("help");
        there.sort_unstable();
        let mut grouped: Vec<&str> = GROUPS
            .iter()
            .flat_map(|(_, names)| *names)
            .copied()
            .collect();
        grouped.sort_unstable();
        if cfg!(all(feature = "quic", feature = "web")) {
            assert_eq!(grouped, there);
        }
    }
}
