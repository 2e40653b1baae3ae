//! How the help looks: commands in groups, one line for each option. And what is said to somebody who
//! types a command of Git that dmv does not have.

use crate::args::Cli;
use clap::{Command, CommandFactory};

/// The commands as `dmv help` shows them. Each visible command is in exactly one group.
const GROUPS: [(&str, &[&str]); 9] = [
    ("Start", &["init", "clone", "demo"]),
    (
        "Work on files",
        &[
            "status", "diff", "commit", "checkout", "restore", "subset", "worktree",
        ],
    ),
    (
        "Look at commits and files",
        &["log", "show", "ls", "cat", "du", "stats", "export"],
    ),
    (
        "Branch and merge",
        &["branch", "tag", "merge", "conflicts", "resolve", "revert"],
    ),
    ("Undo", &["undo", "redo", "op"]),
    (
        "Exchange with other repositories",
        &["remote", "fetch", "pull", "push", "sync", "get", "drop"],
    ),
    (
        "Connect devices",
        &["id", "pair", "peers", "trust", "untrust", "serve"],
    ),
    ("Check and repair", &["verify", "recover"]),
    ("Settings and help", &["config", "completions", "help"]),
];

/// Git's commands that dmv does not have, with what to do instead.
const GIT: [(&str, &str); 37] = [
    (
        "add",
        "There is no staging area: 'dmv commit' commits all changes, 'dmv commit PATH...' those of some paths.",
    ),
    (
        "am",
        "There are no patch mails: use 'dmv push' and 'dmv pull'.",
    ),
    (
        "apply",
        "dmv does not apply patches: use the program 'patch', then 'dmv commit'.",
    ),
    ("archive", "Use 'dmv export REV --tar FILE'."),
    (
        "bisect",
        "There is no bisect: check out a commit between a good and a bad one ('dmv log'), and test it.",
    ),
    (
        "blame",
        "There is no blame: 'dmv log -p -- PATH' shows each change of a file.",
    ),
    (
        "cat-file",
        "Use 'dmv cat REV:PATH' for a file, or 'dmv show REV' for a commit.",
    ),
    (
        "cherry-pick",
        "There is no cherry-pick: 'dmv merge REV' merges a commit and all before it.",
    ),
    (
        "clean",
        "There is no clean: 'dmv status' lists the untracked files.",
    ),
    ("daemon", "Use 'dmv serve'."),
    (
        "describe",
        "Use 'dmv log', which shows tags beside the commits.",
    ),
    ("difftool", "Use 'dmv diff'."),
    (
        "format-patch",
        "There are no patch mails: use 'dmv push' and 'dmv pull'.",
    ),
    ("fsck", "Use 'dmv verify'."),
    (
        "gc",
        "There is no gc: 'dmv drop PATH' frees local space if a remote has a copy.",
    ),
    (
        "grep",
        "There is no grep: search the files, or the messages with 'dmv log --grep TEXT'.",
    ),
    ("lfs", "dmv stores large files itself: use 'dmv commit'."),
    ("ls-files", "Use 'dmv ls -r'."),
    ("ls-remote", "Use 'dmv remote show'."),
    ("ls-tree", "Use 'dmv ls REV:PATH'."),
    ("mergetool", "Use 'dmv conflicts' and 'dmv resolve'."),
    (
        "mv",
        "Move the file with 'mv', then run 'dmv commit': dmv finds renames itself.",
    ),
    (
        "prune",
        "There is no prune: 'dmv drop PATH' frees local space if a remote has a copy.",
    ),
    ("range-diff", "Use 'dmv diff A B'."),
    (
        "rebase",
        "There is no rebase: use 'dmv merge REV' or 'dmv pull'.",
    ),
    (
        "reflog",
        "Use 'dmv op log', and 'dmv undo OP' to reverse an operation.",
    ),
    (
        "repack",
        "There is no repack: dmv packs objects when it stores them.",
    ),
    (
        "reset",
        "Use 'dmv undo' to reverse a command, 'dmv restore PATH' for files, 'dmv pull --reset' to match the remote.",
    ),
    ("rev-parse", "Use 'dmv show REV' or 'dmv branch --json'."),
    ("rm", "Delete the file with 'rm', then run 'dmv commit'."),
    ("shortlog", "Use 'dmv log --oneline'."),
    (
        "sparse-checkout",
        "Use 'dmv subset', or 'dmv clone --subset'.",
    ),
    (
        "stage",
        "There is no staging area: 'dmv commit' commits all changes.",
    ),
    (
        "stash",
        "There is no stash: put the changes on a branch with 'dmv checkout -b NAME' and 'dmv commit'.",
    ),
    (
        "submodule",
        "There are no submodules: a repository can be as large as needed; see 'dmv subset'.",
    ),
    (
        "switch",
        "Use 'dmv checkout BRANCH'; 'dmv checkout -b NAME' creates a branch.",
    ),
    (
        "unstage",
        "There is no staging area: 'dmv commit PATH...' commits only some paths.",
    ),
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

/// What to do instead of a command of Git that there is not.
pub fn instead_of(name: &str) -> Option<&'static str> {
    let known = GIT.iter().find(|(known, _)| *known == name);
    known.map(|(_, instead)| *instead)
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
        if cfg!(feature = "quic") {
            assert_eq!(grouped, there);
        }
    }

    #[test]
    fn commands_that_exist_are_not_replaced() {
        let command = Cli::command();
        for (name, _) in GIT {
            let found = command.find_subcommand(name).is_some();
            assert!(!found, "{name} is a command now: take it out of the table");
        }
        assert!(GIT.is_sorted_by_key(|(name, _)| *name));
    }

    #[test]
    fn what_is_advised_exists() {
        let command = Cli::command();
        for (name, text) in GIT {
            for advised in text.split("'dmv ").skip(1) {
                let word = advised.split([' ', '\'']).next().unwrap_or_default();
                let found = command.find_subcommand(word).is_some();
                assert!(found, "{name}: there is no 'dmv {word}'");
            }
        }
    }
}
