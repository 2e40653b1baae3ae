//! The words of the program, so that a change of them shows up in review: the help of every command,
//! and what is said in the most frequent failures. CONTRIBUTING.md says how to write them anew.

use crate::place::several::{commit, several};
use crate::place::{Outcome, Place};
use snapbox::{assert_data_eq, file};
use std::fs;

/// Where the options that every help repeats begin.
const GLOBAL: &str = "Options for every command:\n";

/// Commands, and what they printed.
#[derive(Default)]
struct Transcript(String);

impl Transcript {
    /// Says what the commands below are about.
    fn title(&mut self, text: &str) {
        self.0 += &format!("# {text}\n");
    }

    /// Runs a command in a directory below the worktree.
    fn run(&mut self, place: &Place, dir: &str, args: &[&str]) -> Outcome {
        let done = place
            .command(args)
            .current_dir(place.work().join(dir))
            .output()?;
        let (out, err) = (
            String::from_utf8(done.stdout)?,
            String::from_utf8(done.stderr)?,
        );
        let quoted = |arg: &&str| {
            if arg.contains(' ') {
                format!("'{arg}'")
            } else {
                (*arg).to_owned()
            }
        };
        let args: Vec<String> = args.iter().map(quoted).collect();
        let exit = match done.status.code() {
            Some(0) => String::new(),
            Some(exit) => format!("[exit {exit}]\n"),
            None => "[killed]\n".to_owned(),
        };
        let text = format!("$ dmv {}\n{out}{err}{exit}\n", args.join(" "));
        self.0 += &neutral(place, &text);
        Ok(())
    }
}

/// The text without what differs from run to run: directories, ids, times.
fn neutral(place: &Place, text: &str) -> String {
    let text = text.replace(&place.work().display().to_string(), "/home/ada");
    let text = text.replace(&place.dir.path().display().to_string(), "");
    let mut out = String::new();
    for line in text.split_inclusive('\n') {
        // How small ids and times get depends on what they are.
        let line = match line.split_once("stored as ") {
            Some((before, _)) => format!("{before}stored as [SIZE]\n"),
            None if line.starts_with("sent ") => "sent [SIZE]\n".to_owned(),
            None if line.starts_with("received ") => "received [SIZE]\n".to_owned(),
            None => line.to_owned(),
        };
        let mut rest = &line[..];
        while let Some(at) = rest.find(|c: char| c.is_ascii_hexdigit()) {
            let len = rest[at..].find(|c: char| !c.is_ascii_hexdigit());
            let (digits, after) = rest[at..].split_at(len.unwrap_or(rest.len() - at));
            let is_id = digits.len() >= 12;
            out += &rest[..at];
            out += if is_id { "[ID]" } else { digits };
            rest = after;
        }
        out += rest;
    }
    out
}

/// The text with a mark for each amount of bytes and each date: what is stored depends on ids.
fn without_amounts(text: &str) -> String {
    // Of "164 %)" no letter is left.
    let is_unit = |word: &str| {
        let letters = word.trim_end_matches(|c: char| !c.is_ascii_alphabetic());
        !word.is_empty() && ["B", "KiB", "MiB", "GiB", "times", ""].contains(&letters)
    };
    let is_number =
        |word: &str| word.chars().all(|c| c.is_ascii_digit() || c == '.') && !word.is_empty();
    let is_date = |word: &str| word.len() == 10 && word.matches('-').count() == 2;
    let mut out = String::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let mut shown: Vec<String> = Vec::new();
        for (n, word) in words.iter().enumerate() {
            let bare = word.trim_start_matches('(');
            let begin = &word[..word.len() - bare.len()];
            let is_amount = is_number(bare) && words.get(n + 1).is_some_and(|next| is_unit(next));
            let core = bare.trim_end_matches([',', ':', ')']);
            shown.push(match () {
                () if is_amount => format!("{begin}[N]"),
                () if is_date(core) && core.starts_with("20") => {
                    format!("{begin}[DATE]{}", &bare[core.len()..])
                }
                () if core.len() == 8 && core.matches(':').count() == 2 => "[TIME]".to_owned(),
                () => (*word).to_owned(),
            });
        }
        // Columns are as wide as the amounts in them.
        let words = shown.iter().filter(|word| !word.is_empty());
        let is_column = shown.iter().find(|word| !word.is_empty()) == Some(&"[N]".to_owned());
        let indent = if is_column {
            2
        } else {
            line.len() - line.trim_start().len()
        };
        out += &" ".repeat(indent);
        out += &words.cloned().collect::<Vec<_>>().join(" ");
        out.push('\n');
    }
    out
}

/// The names in a list of commands: each stands alone in front of its line.
fn listed(help: &str) -> Vec<String> {
    let name = |line: &str| {
        let rest = line.strip_prefix("  ")?;
        let (name, about) = rest.split_once("  ")?;
        let is_name = !name.is_empty() && name.chars().all(|c| c.is_ascii_lowercase() || c == '-');
        (is_name && !about.is_empty() && name != "help").then(|| name.to_owned())
    };
    let lines = help.lines().take_while(|line| *line != "Options:");
    lines.filter_map(name).collect()
}

#[test]
fn the_help_of_every_command() -> Outcome {
    let place = Place::new()?;
    let short = place.ok(&["help"])?;
    assert!(short.lines().count() <= 50, "{short}");
    assert!(
        short.lines().all(|line| line.chars().count() <= 80),
        "{short}"
    );
    let overview = place.ok(&["help", "--all"])?;
    let mut text = format!("$ dmv help\n{short}\n$ dmv help --all\n{overview}\n");
    for command in listed(&overview) {
        let help = place.ok(&[&command, "--help"])?;
        assert!(help.contains("Example:\n  dmv "), "{help}");
        text += &format!("$ dmv {command} --help\n{}\n", own(&help));
        if !help.contains("\nCommands:\n") {
            continue;
        }
        for below in listed(&help) {
            let help = place.ok(&[&command, &below, "--help"])?;
            text += &format!("$ dmv {command} {below} --help\n{}\n", own(&help));
        }
    }
    assert_data_eq!(text, file!["words/help.txt"].raw());
    Ok(())
}

/// The help without the options that every command has.
fn own(help: &str) -> String {
    let Some((before, after)) = help.split_once(GLOBAL) else {
        return help.to_owned();
    };
    let after = after.split_once("\n\n").map_or("", |(_, after)| after);
    format!("{before}{after}")
}

#[test]
fn every_line_of_help_is_short_and_no_riddle() -> Outcome {
    let help = fs::read_to_string("tests/program/words/help.txt")?;
    for line in help.lines() {
        assert!(line.chars().count() <= 120, "{line}");
        for word in [" brought", " whoever", " nobody", "Of a ", "parted"] {
            assert!(!line.contains(word), "{word} in: {line}");
        }
    }
    Ok(())
}

#[test]
fn what_is_said_in_a_repository() -> Outcome {
    let place = Place::new()?;
    let mut said = Transcript::default();
    said.title("Commands that there are not");
    for name in [
        "switch",
        "submodule",
        "reflog",
        "annotate",
        "comit",
        "frobnicate",
    ] {
        said.run(&place, "", &[name])?;
    }
    said.run(&place, "", &["remote", "rm", "nas"])?;
    said.run(&place, "", &["worktree", "lst"])?;
    said.run(&place, "", &["add", "-A"])?;
    said.title("No repository, or one already");
    said.run(&place, "", &["status"])?;
    place.ok(&["init", "."])?;
    said.run(&place, "", &["init"])?;
    said.run(&place, "", &["log", "main"])?;
    said.run(&place, "", &["undo", "1234"])?;
    said.title("Commits");
    place.write("notes.txt", "one\n")?;
    said.run(&place, "", &["add", "."])?;
    said.run(&place, "", &["add", "notes.txt"])?;
    said.run(&place, "", &["commit"])?;
    said.run(&place, "", &["commit", "-m", "x", "nothing.txt"])?;
    said.run(&place, "", &["commit", "-m", "first"])?;
    said.run(&place, "", &["commit", "-m", "again"])?;
    said.run(&place, "", &["add", "."])?;
    said.run(&place, "", &["commit", "-m", "x", "../elsewhere"])?;
    said.title("Revisions and paths");
    said.run(&place, "", &["checkout", "nope"])?;
    said.run(&place, "", &["show", "@~9"])?;
    said.run(&place, "", &["show", "@:notes.txt"])?;
    said.run(&place, "", &["log", "--oneline", "notes.txt"])?;
    said.run(&place, "", &["cat", "notes.txt"])?;
    said.run(&place, "", &["cat", "@:nope.txt"])?;
    said.run(&place, "", &["restore", "nope.txt"])?;
    said.title("Branches");
    said.run(&place, "", &["branch", "main"])?;
    said.run(&place, "", &["branch", "a b"])?;
    said.run(&place, "", &["branch", "-d", "main"])?;
    said.run(&place, "", &["branch", "-d", "nope"])?;
    place.ok(&["checkout", "-b", "side"])?;
    place.write("notes.txt", "side\n")?;
    place.ok(&["commit", "-m", "side"])?;
    said.title("Uncommitted work in the way");
    place.write("notes.txt", "edited\n")?;
    said.run(&place, "", &["checkout", "main"])?;
    said.run(&place, "", &["checkout", "main", "--force"])?;
    said.title("A merge with a conflict");
    place.write("notes.txt", "main\n")?;
    place.ok(&["commit", "-m", "main"])?;
    said.run(&place, "", &["merge", "side", "--ff-only"])?;
    said.run(&place, "", &["merge", "side"])?;
    said.run(&place, "", &["status"])?;
    said.run(&place, "", &["resolve", "nope.txt", "--ours"])?;
    said.run(&place, "", &["resolve", "notes.txt", "--theirs"])?;
    said.run(&place, "", &["commit", "-m", "resolved"])?;
    said.title("Undo and redo");
    said.run(&place, "", &["undo"])?;
    said.run(&place, "", &["redo"])?;
    said.run(&place, "", &["redo"])?;
    said.run(&place, "", &["revert", "@"])?;
    said.title("Worktrees and subsets");
    said.run(&place, "", &["worktree", "add", "../other", "main"])?;
    place.ok(&["worktree", "add", "../other"])?;
    said.run(&place, "", &["worktree", "remove", "."])?;
    said.run(&place, "", &["worktree", "remove", "nope"])?;
    said.run(&place, "", &["checkout", "side", "--subset", "nothing"])?;
    said.run(&place, "", &["status"])?;
    said.run(&place, "", &["commit", "-m", "x", "notes.txt"])?;
    said.title("Settings");
    said.run(&place, "", &["config", "get", "user.nme"])?;
    said.run(&place, "", &["config", "set", "color.ui", "blue"])?;
    said.run(&place, "", &["config", "set", "ssh.command", "ssh -4"])?;
    said.title("Without a remote");
    said.run(&place, "", &["push"])?;
    said.run(&place, "", &["drop", "@:notes.txt"])?;
    assert_data_eq!(said.0, file!["words/repository.txt"].raw());
    Ok(())
}

#[test]
fn what_is_answered_to_the_habits_of_other_tools() -> Outcome {
    let place = Place::new()?;
    let mut said = Transcript::default();
    said.title("Outside of a repository");
    said.run(&place, "", &["add", "."])?;
    said.run(&place, "", &["add", "notes.txt", "-v"])?;
    place.ok(&["init", "."])?;
    place.write("notes.txt", "one\n")?;
    place.write("shots/1.exr", "1\n")?;
    place.ok(&["commit", "-m", "first"])?;
    said.title("Everyday words");
    for words in [
        &["gui"][..],
        &["compare", "a", "b"],
        &["history"],
        &["versions", "notes.txt"],
        &["lock", "notes.txt"],
        &["ignore", "*.tmp"],
        &["save"],
        &["discard", "notes.txt"],
        &["revert", "notes.txt"],
        &["checkout", "--", "."],
        &["checkout", "--", "notes.txt", "shots"],
        &["config", "user.name", "Ada Lovelace"],
        &["config", "--global", "user.name", "Ada"],
        &["config", "user.name"],
        &["config", "-l"],
    ] {
        said.run(&place, "", words)?;
    }
    said.title("Options");
    for words in [
        &["status", "--porcelain"][..],
        &["status", "--porcelain=v2"],
        &["status", "-z"],
        &["branch", "-a"],
        &["branch", "-vv"],
        &["tag", "-l"],
        &["tag", "-m", "final", "v1"],
        &["tag", "-a", "v1"],
        &["-c", "user.name=Ada", "commit"],
        &["commit", "--amnd"],
        &["commit", "--frobnicate"],
        &["log", "-n", "many"],
        &["cat"],
        &["cat", "notes.txt", "shots"],
        &["stash", "frobnicate"],
        &["help", "undoin"],
        &["help", "frobnicate"],
        &["push", "-u", "origin", "main"],
        &["clone", "--subset", "shots", "film", "part"],
        &[
            "clone", "--depth", "1", "--subset", "a", "!b", "film", "part", "--bare",
        ],
        &["clone", "--subset", "shots"],
    ] {
        said.run(&place, "", words)?;
    }
    said.title("Revisions, dates and paths");
    for words in [
        &["log", "nope"][..],
        &["log", "main", "main"],
        &["diff", "main", "nope"],
        &["show", "yesterday"],
        &["show", "main@{soon}"],
    ] {
        said.run(&place, "", words)?;
    }
    assert_data_eq!(said.0, file!["words/habits.txt"].raw());
    Ok(())
}

#[test]
fn what_is_said_between_repositories() -> Outcome {
    let place = several()?;
    let mut said = Transcript::default();
    said.title("Addresses");
    said.run(&place, "", &["clone", "nowhere"])?;
    said.run(&place, "", &["clone", "user@nas:srv/film"])?;
    said.run(&place, "", &["clone", "ssh://unknown/srv/other"])?;
    said.run(&place, "", &["clone", "ftp://nas/other"])?;
    said.run(&place, "", &["clone", "film"])?;
    said.title("Clone, fetch, push");
    said.run(&place, "", &["clone", "film", "copy"])?;
    said.run(&place, "copy", &["fetch"])?;
    said.run(&place, "copy", &["push"])?;
    commit(&place, "film", "new")?;
    said.run(&place, "copy", &["fetch"])?;
    said.run(&place, "copy", &["status"])?;
    commit(&place, "copy", "other")?;
    said.run(&place, "copy", &["status"])?;
    said.run(&place, "copy", &["push"])?;
    said.run(&place, "copy", &["push", "origin", "nope"])?;
    said.run(&place, "copy", &["push", "--delete", "nope"])?;
    said.run(&place, "copy", &["pull", "--ff-only"])?;
    said.run(&place, "copy", &["sync"])?;
    said.run(&place, "copy", &["pull"])?;
    said.run(&place, "copy", &["push"])?;
    said.title("The branch was moved by a push");
    said.run(&place, "film", &["status"])?;
    said.run(&place, "film", &["merge", "main"])?;
    said.title("The remote's branch was replaced");
    place.ok(&["-C", "film", "checkout", "main"])?;
    place.ok(&["-C", "film", "commit", "--amend", "-m", "amended"])?;
    said.run(&place, "copy", &["pull"])?;
    said.run(&place, "copy", &["pull", "--reset"])?;
    said.title("Several remotes");
    place.ok(&["-C", "copy", "remote", "remove", "origin"])?;
    place.ok(&["-C", "copy", "remote", "add", "nas", "ssh://unknown/film"])?;
    place.ok(&["-C", "copy", "remote", "add", "usb", "../film"])?;
    said.run(&place, "copy", &["push"])?;
    said.run(&place, "copy", &["push", "nope"])?;
    said.run(&place, "copy", &["remote", "add", "usb", "../film"])?;
    said.run(&place, "copy", &["sync"])?;
    said.title("A partial repository");
    said.run(&place, "", &["clone", "film", "part", "--subset", "nope"])?;
    said.run(&place, "", &["clone", "film", "meta", "--meta-only"])?;
    said.run(&place, "meta", &["status"])?;
    said.run(&place, "meta", &["--offline", "cat", "@:shots/1"])?;
    fs::rename(place.work().join("film"), place.work().join("moved"))?;
    said.run(&place, "meta", &["cat", "@:shots/1"])?;
    said.run(&place, "meta", &["fetch"])?;
    fs::rename(place.work().join("moved"), place.work().join("film"))?;
    said.run(&place, "meta", &["get", "shots/1"])?;
    said.run(&place, "meta", &["get", "shots/1"])?;
    said.run(&place, "meta", &["drop", "shots/1"])?;
    said.title("Devices");
    said.run(&place, "film", &["peers"])?;
    said.run(&place, "film", &["trust", "12"])?;
    said.run(&place, "film", &["untrust", "laptop"])?;
    assert_data_eq!(said.0, file!["words/exchange.txt"].raw());
    Ok(())
}

/// Four versions of a render that do not compress, and a note.
fn renders(place: &Place, repo: &str) -> Outcome {
    for n in 1..5 {
        let render = dmv_random::noise(n, 300_000);
        place.write(format!("{repo}/shots/render.exr"), render)?;
        place.write(format!("{repo}/note.txt"), format!("version {n}\n"))?;
        place.ok(&["-C", repo, "commit", "-m", &format!("version {n}")])?;
    }
    Ok(())
}

#[test]
fn what_is_said_about_space() -> Outcome {
    let mut place = Place::new()?;
    place.env.push(("DMV_USER_EMAIL", "ada@example.org".into()));
    place.ok(&["init", "film"])?;
    renders(&place, "film")?;
    place.ok(&["clone", "--bare", "--copy", "film", "nas"])?;
    place.ok(&["-C", "film", "remote", "add", "nas", "../nas"])?;
    let mut said = Transcript::default();
    said.title("What takes the space");
    said.run(&place, "film", &["stats"])?;
    said.run(&place, "film", &["du", "--history"])?;
    said.run(&place, "film", &["du", "--advise"])?;
    said.title("Nothing to free");
    said.run(&place, "film", &["gc", "--dry-run"])?;
    said.run(&place, "film", &["gc"])?;
    said.run(&place, "film", &["repack", "--dry-run"])?;
    said.run(&place, "film", &["repack"])?;
    said.run(&place, "film", &["repack"])?;
    said.title("A branch that is gone");
    place.ok(&["-C", "film", "checkout", "-b", "trial"])?;
    place.write("film/trial.exr", dmv_random::noise(9, 200_000))?;
    place.ok(&["-C", "film", "commit", "-m", "trial"])?;
    place.ok(&["-C", "film", "checkout", "main"])?;
    place.ok(&["-C", "film", "branch", "-d", "trial"])?;
    said.run(&place, "film", &["gc", "--dry-run", "--grace", "0d"])?;
    said.run(&place, "film", &["op", "expire", "--older", "0d"])?;
    said.run(&place, "film", &["gc", "--grace", "0d"])?;
    said.title("Keep rules");
    said.run(&place, "film", &["expire"])?;
    said.run(&place, "film", &["keep", "set", "*.exr", "lats:2"])?;
    said.run(&place, "film", &["keep", "set", "*.exr", "last:2"])?;
    said.run(&place, "film", &["keep"])?;
    said.run(&place, "film", &["expire", "--dry-run"])?;
    said.run(&place, "film", &["expire", "nothing"])?;
    said.run(&place, "film", &["expire"])?;
    said.run(&place, "film", &["expire"])?;
    said.run(
        &place,
        "film",
        &["cat", "--offline", "@~3:shots/render.exr"],
    )?;
    said.run(&place, "film", &["get", "@~3:shots/render.exr"])?;
    said.title("Budget");
    said.run(
        &place,
        "film",
        &["config", "set", "repository.budget", "10"],
    )?;
    said.run(
        &place,
        "film",
        &["config", "set", "repository.budget", "600K"],
    )?;
    place.write("film/large.exr", dmv_random::noise(10, 900_000))?;
    said.run(&place, "film", &["commit", "-m", "large"])?;
    said.run(&place, "film", &["config", "unset", "repository.budget"])?;
    said.title("Purge");
    said.run(
        &place,
        "film",
        &["purge", "nothing", "--reason", "court order"],
    )?;
    said.run(&place, "film", &["purge", "shots/render.exr"])?;
    let purge = ["purge", "shots/render.exr", "--reason", "court order"];
    said.run(&place, "film", &[&purge[..], &["--dry-run"]].concat())?;
    said.run(&place, "film", &purge)?;
    said.run(&place, "film", &["cat", "@~1:shots/render.exr"])?;
    said.run(&place, "film", &["purge", "--status"])?;
    assert_data_eq!(without_amounts(&said.0), file!["words/space.txt"].raw());
    Ok(())
}
