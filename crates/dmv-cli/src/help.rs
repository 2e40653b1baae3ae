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

const TEMPLATE: &str = "{about-with-newline}\n{usage-heading} {usage}\n\n";

/// The command line with its help as it is shown. Completions and manual pages are made from the one
/// without.
pub fn command() -> Command {
    let command = Cli::command();
    let groups = groups(&command);
    command
        .help_template(format!(
            "{TEMPLATE}{groups}Options:\n{{options}}{{after-help}}"
        ))
        .mut_subcommands(|command| with_details_first(command.mut_subcommands(with_details_last)))
}

fn groups(command: &Command) -> String {
    let mut text = String::new();
    for (title, names) in GROUPS {
        text += &format!("{title}:\n");
        for name in names {
            let about = match *name {
                "help" => "Show this list, or the help of a command".to_owned(),
                name => about(command, name),
            };
            text += &format!("  {name:<11}  {about}\n");
        }
        text += "\n";
    }
    text
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
