//! How the help looks: commands in groups, one line for each option.

use crate::args::Cli;
use crate::commands::{LIST, ListedCommand};
use clap::{Command, CommandFactory};

/// The command that clap adds. It stands in the group of the last command of the list.
const HELP: &str = "help";

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
    // The longest names are not in the short list.
    let width = if listed == ListExtent::All { 13 } else { 11 };
    let mut others = Vec::new();
    for group in LIST.chunk_by(|one, next| one.group == next.group) {
        let is_shown = |one: &&ListedCommand| listed == ListExtent::All || one.is_common;
        let (shown, more): (Vec<_>, Vec<_>) = group.iter().partition(is_shown);
        others.extend(more.iter().map(|one| one.name));
        if shown.is_empty() {
            continue;
        }
        text += &format!("{}:\n", group[0].group);
        for ListedCommand { name, .. } in shown {
            text += &format!("  {name:<width$}  {}\n", about(command, name));
        }
        if group.as_ptr_range().end == LIST.as_ptr_range().end && listed == ListExtent::All {
            text += &format!("  {HELP:<width$}  Show this list, or the help of a command\n");
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
    fn words_are_wrapped() {
        let word = "x".repeat(20);
        let text = wrapped(&[&word[..]; 5]);
        assert_eq!(text.lines().map(str::len).collect::<Vec<_>>(), [66, 44]);
    }

    #[test]
    fn the_list_has_the_visible_commands_under_their_names() {
        let command = Cli::command();
        let shown = command.get_subcommands().filter(|c| !c.is_hide_set());
        let there: Vec<&str> = shown.map(Command::get_name).collect();
        let listed: Vec<&str> = LIST.iter().map(|one| one.name).collect();
        assert_eq!(listed, there);
    }

    #[test]
    fn groups_stand_together() {
        let mut groups: Vec<&str> = LIST.iter().map(|one| one.group).collect();
        groups.dedup();
        let all = groups.len();
        groups.sort_unstable();
        groups.dedup();
        assert_eq!(groups.len(), all);
    }
}
