//! What the verbs of other tools are called here, for a user who types one that this program does
//! not have.
//!
//! The table is the one in the guide: its page for users of Git is part of the program. So a verb is
//! described in one place, and a row added there also answers a user who types the verb.

use dmv_core::escape::Hint;

/// The page with the tables.
const PAGE: &str = include_str!("../../../docs/guide/for-git-users.md");

/// The tools whose verbs the tables have, in order of precedence. Words of everyday language stand as
/// those of this program.
const TOOLS: [&str; 4] = ["git", "hg", "svn", "dmv"];

/// In a cell: there is nothing to say.
const NOTHING: &str = "–";
/// In a cell: the command is called the same here.
const SAME: &str = "the same";

/// A row of a table: a verb of another tool, the one here, and what differs.
struct Row {
    /// Commands of the other tool, each as its words: `["git", "remote", "-v"]`.
    theirs: Vec<Vec<&'static str>>,
    /// The command here, as it stands in the page.
    ours: &'static str,
    /// What differs.
    difference: &'static str,
}

/// The rows of all tables about commands.
fn rows() -> impl Iterator<Item = Row> {
    PAGE.lines().filter_map(row)
}

fn row(line: &'static str) -> Option<Row> {
    let cells = line.strip_prefix("| ")?.strip_suffix(" |")?;
    let [theirs, ours, difference] = cells.split(" | ").collect::<Vec<_>>()[..] else {
        return None;
    };
    // What is in backquotes.
    let spans = theirs.split('`').skip(1).step_by(2);
    let words = spans.map(|span| span.split_whitespace().collect::<Vec<_>>());
    let is_command = |words: &Vec<&str>| words.len() > 1 && TOOLS.contains(&words[0]);
    let theirs: Vec<_> = words.filter(is_command).collect();
    (!theirs.is_empty()).then_some(Row {
        theirs,
        ours,
        difference,
    })
}

/// What to run in place of the command `verb`, followed by `rest`, if a table has it. The verb has two
/// words where it is one of a command, such as `remote rm`. Of several rows about it, the one that has
/// most of the rest is taken.
pub fn instead_of(verb: &[&str], rest: &[&str]) -> Option<Hint> {
    let mut best: Option<(usize, Row)> = None;
    for tool in TOOLS {
        // "The same" helps only with another tool's word.
        for row in rows().filter(|row| row.ours != SAME) {
            let theirs = row.theirs.iter().filter(|words| words[0] == tool);
            let options = theirs.filter_map(|words| words[1..].strip_prefix(verb));
            let fits = options.map(|options| fit(options, rest)).max();
            if let Some(fits) = fits
                && best.as_ref().is_none_or(|(before, _)| *before < fits)
            {
                best = Some((fits, row));
            }
        }
        if best.is_some() {
            break;
        }
    }
    best.map(|(_, row)| Hint::of_page(advice(&row)))
}

/// What a word stands for in a table that the user chooses.
const ANY: &str = "PATH";

/// What to run in place of a command with an argument that it does not have, if a table has this
/// argument of the other tool's command.
pub fn in_place_of(command: &[&str], argument: &str) -> Option<Hint> {
    let is_it = |word: &&str| {
        if argument.starts_with('-') {
            *word == argument
        } else {
            *word == ANY
        }
    };
    let has = |words: &Vec<&str>| {
        let rest = words[1..].strip_prefix(command);
        // The word before a path is a revision, which the command has.
        rest.and_then(|rest| rest.last()).is_some_and(is_it)
    };
    let mut rows = rows().filter(|row| row.ours != SAME);
    rows.find(|row| row.theirs.iter().any(has))
        .map(|row| Hint::of_page(advice(&row)))
}

/// How well the options of a command in a table fit what was typed: none at all are better than some
/// that the user did not type.
fn fit(options: &[&str], typed: &[&str]) -> usize {
    let same = options.iter().filter(|word| typed.contains(word)).count();
    match (options.len(), same) {
        (0, _) => 1,
        (_, same) => 2 * same,
    }
}

/// A row as a hint.
fn advice(row: &Row) -> String {
    let (ours, difference) = (plain(row.ours), plain(row.difference));
    match (&ours[..], &difference[..]) {
        (NOTHING, difference) => difference.to_owned(),
        (_, NOTHING) => ours,
        _ => format!("{ours} ({difference})"),
    }
}

/// The text of a cell without its marks: code, and links.
fn plain(cell: &str) -> String {
    let mut text = cell.replace('`', "");
    while let Some((before, rest)) = text.split_once('[')
        && let Some((name, rest)) = rest.split_once("](")
        && let Some((_, after)) = rest.split_once(')')
    {
        text = format!("{before}{name}{after}");
    }
    text
}

/// The names that `typed` is probably a slip for: one or two letters are wrong, or its end is missing.
pub fn near<'n>(typed: &str, names: &[&'n str]) -> Vec<&'n str> {
    let begun = |name: &&&str| typed.len() >= 3 && name.starts_with(typed);
    let begun: Vec<&str> = names.iter().filter(begun).copied().collect();
    if !begun.is_empty() {
        return begun;
    }
    let far = |name: &&&str| {
        let allowed = (typed.len().max(name.len()) / 3).min(2);
        let distance = distance(typed, name);
        (distance <= allowed).then_some(distance)
    };
    let least = names.iter().filter_map(|name| far(&name)).min();
    let best = names
        .iter()
        .filter(|name| least.is_some() && far(name) == least);
    best.copied().collect()
}

/// How many letters have to be put in, left out, replaced or swapped with the next to make one text of
/// the other.
fn distance(one: &str, other: &str) -> usize {
    let (one, other): (Vec<char>, Vec<char>) = (one.chars().collect(), other.chars().collect());
    // The line of the table for each start of `one`: the distances to each start of `other`.
    let mut lines: Vec<Vec<usize>> = vec![(0..=other.len()).collect()];
    for (i, a) in one.iter().enumerate() {
        let mut line = vec![i + 1];
        for (j, b) in other.iter().enumerate() {
            let above = &lines[i];
            let mut best = (above[j] + usize::from(a != b))
                .min(above[j + 1] + 1)
                .min(line[j] + 1);
            if i > 0 && j > 0 && *a == other[j - 1] && one[i - 1] == *b {
                best = best.min(lines[i - 1][j - 1] + 1);
            }
            line.push(best);
        }
        lines.push(line);
    }
    lines[one.len()][other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Cli;
    use clap::{Command, CommandFactory};

    /// Git's commands for people, and those that the most used extensions and tools add.
    const WELL_KNOWN: &str = "add am annotate apply archive bisect blame branch bundle cat-file \
        checkout cherry cherry-pick clean clone commit config count-objects daemon describe diff \
        difftool fetch filter-branch format-patch fsck gc grep gui help init lfs log ls-files \
        ls-remote ls-tree maintenance merge mergetool mv notes prune pull push range-diff rebase \
        reflog remote repack replace reset restore rev-list rev-parse revert rm send-email \
        shortlog show show-branch sparse-checkout stage stash status submodule subtree switch tag \
        undo unstage whatchanged worktree annex ci co st up update shelve unshelve graft strip \
        backout bookmark id summary heads tip serve";

    fn is_command(command: &Command, name: &str) -> bool {
        name == "help" || command.find_subcommand(name).is_some()
    }

    #[test]
    fn every_well_known_verb_is_a_command_or_has_an_answer() {
        let command = Cli::command();
        for name in WELL_KNOWN.split_whitespace() {
            let answer = instead_of(&[name], &[]);
            assert!(is_command(&command, name) || answer.is_some(), "{name}");
        }
    }

    #[test]
    fn what_the_table_advises_exists() {
        let command = Cli::command();
        for row in rows() {
            let text = format!("{} {}", row.ours, row.difference);
            for span in text.split('`').skip(1).step_by(2) {
                let mut words = span.split_whitespace();
                if words.next() == Some("dmv")
                    && let Some(name) = words.find(|word| !word.starts_with('-'))
                {
                    let found = name == "COMMAND" || is_command(&command, name);
                    assert!(found, "{:?}: there is no {span}", row.theirs);
                }
            }
        }
    }

    #[test]
    fn no_row_calls_a_command_missing_that_exists() {
        let command = Cli::command();
        for row in rows() {
            // "the same" is a promise, and so is an answer without a command.
            let git = row.theirs.iter().filter(|words| words[0] == "git");
            let [has, has_not] = [true, false].map(|has| {
                let verbs = git.clone().filter(|words| words.len() == 2);
                verbs
                    .filter(|words| is_command(&command, words[1]) == has)
                    .count()
            });
            assert!(row.ours != SAME || has_not == 0, "{:?}", row.theirs);
            assert!(row.ours != NOTHING || has == 0, "{:?}", row.theirs);
        }
    }

    #[test]
    fn the_row_with_the_words_that_were_typed_is_taken() {
        let row = |line| row(line).expect("it is a row");
        let rows = [
            row("| `git x --hard`, `git y` | `dmv undo` | – |"),
            row("| `git x` | – | there is no x: see [y](z.md) and `dmv log` |"),
        ];
        let options = |n: usize| &rows[n].theirs[0][2..];
        assert_eq!((fit(options(0), &[]), fit(options(1), &[])), (0, 1));
        assert_eq!(
            (fit(options(0), &["--hard"]), fit(options(1), &["--hard"])),
            (2, 1)
        );
        assert_eq!(advice(&rows[0]), "dmv undo");
        assert_eq!(advice(&rows[1]), "there is no x: see y and dmv log");
        assert_eq!(
            instead_of(&["remote", "rm"], &["nas"])
                .as_ref()
                .map(Hint::as_str),
            Some("dmv remote remove")
        );
        assert_eq!(instead_of(&["worktree", "lst"], &[]), None);
    }

    #[test]
    fn an_argument_of_another_tool_has_an_answer() {
        for (command, argument, answer) in [
            (
                &["diff"][..],
                "--cached",
                "dmv diff (there is no staging area",
            ),
            (&["restore"], "--staged", "dmv commit PATH"),
            (&["commit"], "-am", "dmv commit (there is no staging area"),
            (&["stash"], "-u", "dmv stash (takes new files"),
            (&["stash", "push"], "-u", "dmv stash (takes new files"),
            (&["stash", "show"], "-p", "dmv stash show"),
            (
                &["cherry-pick"],
                "-n",
                "dmv cherry-pick REV, then dmv reset @~1",
            ),
            (&["rebase"], "-i", "there is no interactive rebase"),
            (&["rm"], "--ignore-unmatch", "dmv rm PATH"),
            (&["checkout"], "a", "dmv restore --from REV PATH"),
            (
                &["reset"],
                "a",
                "there is no staging area; dmv restore PATH",
            ),
        ] {
            let found = in_place_of(command, argument);
            let found = found.as_ref().map_or("", Hint::as_str);
            assert!(found.starts_with(answer), "{command:?} {argument}: {found}");
        }
        assert_eq!(in_place_of(&["diff"], "--nothing"), None);
        assert_eq!(in_place_of(&["merge"], "a"), None);
        assert_eq!(
            instead_of(&["stash", "clear"], &[])
                .as_ref()
                .map(|hint| &hint.as_str()[..14]),
            Some("dmv stash drop")
        );
    }

    #[test]
    fn only_what_is_near_is_suggested() {
        let names = [
            "commit",
            "conflicts",
            "push",
            "status",
            "stats",
            "tag",
            "ls",
            "log",
        ];
        for (typed, wanted) in [
            ("comit", &["commit"][..]),
            ("comimt", &["commit"]),
            ("psuh", &["push"]),
            ("stauts", &["status", "stats"]),
            ("stat", &["status", "stats"]),
            ("conf", &["conflicts"]),
            ("tga", &["tag"]),
            ("lg", &["log"]),
            ("frobnicate", &[]),
            ("reset", &[]),
            ("x", &[]),
            ("", &[]),
        ] {
            assert_eq!(near(typed, &names), wanted, "{typed}");
        }
        assert_eq!(distance("ab", "ba"), 1);
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("kitten", "sitting"), 3);
    }
}
