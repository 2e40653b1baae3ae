//! Messages that are written in an editor, and what else decides about a commit's message and date.

use crate::place::terminal::has_script;
use crate::place::{Outcome, Place};
use std::fs;

/// Puts a line in front of what it finds, and keeps a copy of that.
const EDITOR: &str = r#"cp "$1" "$HOME/found"; { echo "$SAYS"; cat "$HOME/found"; } > "$1""#;

fn message(place: &Place) -> Outcome<String> {
    let record = place.json(&["log", "-n", "1", "--json"])?;
    Ok(record["message"].as_str().ok_or("no message")?.to_owned())
}

fn commits(place: &Place) -> Outcome<usize> {
    Ok(place.records(&["log", "--json"])?.len())
}

#[test]
fn at_a_terminal_a_commit_opens_the_editor_of_the_user_and_keeps_what_was_written() -> Outcome {
    // At a terminal a commit without a message opens the editor.
    if !has_script() {
        return Ok(());
    }
    let place = Place::with_repository()?;
    let editor = place.script("editor", EDITOR)?;
    place.write("notes.txt", "one\n")?;
    place.write("a\nb", "two\n")?;
    let env = [
        ("VISUAL", &editor[..]),
        ("EDITOR", "false"),
        ("SAYS", "first\n# no\n\n\nmore  "),
    ];
    let seen = place.at_terminal(24, &env, &["commit"])?;
    assert_eq!(seen.exit, Some(0), "{}", seen.text);
    assert!(seen.text.contains("] first\n"), "{}", seen.text);
    assert_eq!(message(&place)?, "first\n\nmore");
    let found = fs::read_to_string(place.home().join("found"))?;
    assert!(
        found.starts_with("\n\n# Write the commit message"),
        "{found}"
    );
    for line in [
        "# On branch main",
        "#   added     notes.txt",
        "#   added     a\\nb",
    ] {
        assert!(found.lines().any(|found| found == line), "{line}: {found}");
    }

    // Nothing to commit: no editor.
    let seen = place.at_terminal(24, &[("EDITOR", "false")], &["commit"])?;
    assert_eq!(
        (seen.exit, &seen.text[..]),
        (Some(0), "nothing to commit\n")
    );

    // The old message, of which no line is lost.
    place.ok(&["commit", "--amend", "-m", "first\n\n# 12 is solved"])?;
    let env = [("EDITOR", &editor[..]), ("SAYS", "again:")];
    let seen = place.at_terminal(24, &env, &["commit", "--amend"])?;
    assert_eq!(seen.exit, Some(0), "{}", seen.text);
    assert_eq!(message(&place)?, "again:\nfirst\n\n# 12 is solved");
    let seen = place.at_terminal(
        24,
        &[("EDITOR", "false")],
        &["commit", "--amend", "--no-edit"],
    )?;
    assert_eq!(seen.exit, Some(0), "{}", seen.text);
    assert_eq!(
        (message(&place)?.lines().next(), commits(&place)?),
        (Some("again:"), 1)
    );

    // A message is kept if the commit fails.
    place.write("notes.txt", "two\n")?;
    // While the message is written, the repository goes away.
    let editor = place.script("editor", r#"echo precious > "$1"; mv .dmv/packs .dmv/away"#)?;
    let seen = place.at_terminal(24, &[("EDITOR", &editor)], &["commit"])?;
    assert!(seen.exit.is_some_and(|exit| exit > 2), "{}", seen.text);
    let kept = seen
        .text
        .split("dmv commit -F ")
        .nth(1)
        .and_then(|rest| rest.lines().next());
    let kept = kept.ok_or_else(|| seen.text.clone())?;
    assert_eq!(fs::read_to_string(kept)?, "precious\n");
    fs::rename(
        place.work().join(".dmv/away"),
        place.work().join(".dmv/packs"),
    )?;
    place.ok(&["commit", "-F", kept])?;
    assert_eq!(message(&place)?, "precious");
    fs::remove_dir_all(std::path::Path::new(kept).parent().ok_or("no parent")?)?;

    // The user alone names the editor.
    let (mine, theirs) = (
        place.script("mine", "echo mine > $1")?,
        place.script("theirs", "touch $HOME/run")?,
    );
    place.fails(2, &["config", "set", "core.editor", &theirs])?;
    fs::write(
        place.work().join(".dmv/config.toml"),
        format!("[core]\neditor = \"{theirs}\"\npager = \"{theirs}\"\n[alias]\nci = \"commit\"\n"),
    )?;
    place.write("notes.txt", "one\n")?;
    let seen = place.at_terminal(24, &[("EDITOR", &mine)], &["commit"])?;
    assert_eq!(
        (seen.exit, &message(&place)?[..]),
        (Some(0), "mine"),
        "{}",
        seen.text
    );
    assert!(
        seen.text
            .contains("sets core.editor; a repository cannot set it"),
        "{}",
        seen.text
    );
    assert!(!place.home().join("run").exists());
    place.ok(&[
        "config",
        "set",
        "--user",
        "core.editor",
        &format!("{mine} #"),
    ])?;
    assert_eq!(
        place.ok(&["config", "get", "core.editor"])?,
        format!("{mine} #\n")
    );
    Ok(())
}

#[test]
fn an_empty_message_commits_nothing_and_the_draft_folds_directories() -> Outcome {
    // An empty message or a failed editor commits nothing.
    if !has_script() {
        return Ok(());
    }
    let place = Place::with_repository()?;
    place.write("notes.txt", "one\n")?;
    for (editor, says) in [
        ("true", "the message is empty; nothing was committed"),
        ("false", "ended with exit code 1; nothing was committed"),
        (
            "no-such-editor --wait",
            "was not found; nothing was committed",
        ),
        ("printf '\\377' >", "is not UTF-8"),
    ] {
        let seen = place.at_terminal(24, &[("EDITOR", editor)], &["commit"])?;
        assert_eq!(seen.exit, Some(20), "{editor}: {}", seen.text);
        assert!(seen.text.contains(says), "{editor}: {}", seen.text);
        assert_eq!(commits(&place).unwrap_or(0), 0);
    }
    // Options and quotes mean what they mean to a shell.
    let seen = place.at_terminal(
        24,
        &[("EDITOR", "sh -c 'echo \"a  b\" > \"$0\"'")],
        &["commit"],
    )?;
    assert_eq!(
        (seen.exit, &message(&place)?[..]),
        (Some(0), "a  b"),
        "{}",
        seen.text
    );

    // The draft folds directories as status does.
    for n in 0..3 {
        place.write(format!("old/{n}"), format!("old {n} with some text\n"))?;
        place.write(format!("gone/{n}"), format!("{n}"))?;
    }
    place.commit("first")?;
    fs::rename(place.work().join("old"), place.work().join("moved"))?;
    fs::remove_dir_all(place.work().join("gone"))?;
    place.write("new/a", "x")?;
    let editor = place.script("editor", EDITOR)?;
    let env = [("EDITOR", &editor[..]), ("SAYS", "second")];
    let seen = place.at_terminal(24, &env, &["commit"])?;
    assert_eq!(seen.exit, Some(0), "{}", seen.text);
    let found = fs::read_to_string(place.home().join("found"))?;
    let listed = "#   deleted   gone/ (3 files)\n#   renamed   old/ -> moved/ (3 files)\n\
                  #   added     new/ (1 file)\n";
    assert!(found.contains(listed), "{found}");
    Ok(())
}

#[test]
fn whoever_has_named_no_editor_is_asked_for_one_line() -> Outcome {
    if !has_script() {
        return Ok(());
    }
    let place = Place::with_repository()?;
    place.write("notes.txt", "one\n")?;
    for n in 0..3 {
        place.write(format!("shots/{n}.exr"), n.to_string())?;
    }
    let blank = [("VISUAL", ""), ("EDITOR", " ")];
    let seen = place.typing_at_terminal("\n", 24, &blank, &["commit"])?;
    assert_eq!(seen.exit, Some(20), "{}", seen.text);
    assert!(
        seen.text
            .contains("the message is empty; nothing was committed"),
        "{}",
        seen.text
    );
    // The input ends before the line does.
    let seen = place.typing_at_terminal("half\x04\x04", 24, &[], &["commit"])?;
    assert_eq!(
        (seen.exit, commits(&place).unwrap_or(0)),
        (Some(20), 0),
        "{}",
        seen.text
    );

    let seen = place.typing_at_terminal("  first scan \n", 24, &[], &["commit"])?;
    assert_eq!(
        (seen.exit, &message(&place)?[..]),
        (Some(0), "  first scan"),
        "{}",
        seen.text
    );
    let asked = "On branch main\n\nTo be committed:\n  added     notes.txt\n  added     shots/ (3 files)\n\n\
                 Say in one line what changes; an empty line stops the commit.\n\
                 For an editor instead: dmv config set --user core.editor PROGRAM\nMessage: ";
    assert!(seen.text.contains(asked), "{}", seen.text);

    // The old message stays with an empty line.
    let seen = place.typing_at_terminal("\n", 24, &[], &["commit", "--amend"])?;
    assert_eq!(
        (seen.exit, &message(&place)?[..]),
        (Some(0), "  first scan"),
        "{}",
        seen.text
    );
    let seen = place.typing_at_terminal("better\n", 24, &[], &["commit", "--amend"])?;
    assert_eq!(
        (seen.exit, &message(&place)?[..]),
        (Some(0), "better"),
        "{}",
        seen.text
    );

    // What no longer is tracked is a change to write about.
    place.ok(&["rm", "--cached", "-r", "shots", "-y"])?;
    let seen = place.typing_at_terminal("untracked\n", 24, &[], &["commit"])?;
    assert_eq!(seen.exit, Some(0), "{}", seen.text);
    assert!(
        seen.text.contains("\n  untracked shots/ (3 files)\n"),
        "{}",
        seen.text
    );
    Ok(())
}

#[test]
fn the_first_commit_without_a_name_says_once_how_to_set_one() -> Outcome {
    let mut place = Place::with_repository()?;
    place.env = vec![
        ("DMV_USER_NAME", "".into()),
        ("DMV_USER_EMAIL", "ada@nas".into()),
    ];
    let said = |place: &Place, args: &[&str]| -> Outcome<String> {
        let done = place.run(args)?;
        assert_eq!(done.status.code(), Some(0), "{args:?}");
        Ok(String::from_utf8(done.stderr)?)
    };
    place.write("a", "1")?;
    let first = said(&place, &["commit", "-m", "first"])?;
    assert!(
        first.contains("note: recorded as ada <ada@nas>, because you have not set a name"),
        "{first}"
    );
    assert!(first.contains("dmv config set --user user.name"), "{first}");
    place.write("a", "2")?;
    assert_eq!(said(&place, &["commit", "-m", "second"])?, "");
    assert_eq!(said(&place, &["commit", "--amend", "-m", "again"])?, "");

    // What it says to run puts the commit right.
    place.env = vec![
        ("DMV_USER_NAME", "Ada".into()),
        ("DMV_USER_EMAIL", "ada@example.org".into()),
    ];
    place.ok(&[
        "commit",
        "--amend",
        "--author",
        "Bob <bob@nas>",
        "--date",
        "2001-02-03",
    ])?;
    assert_eq!(
        said(
            &place,
            &["commit", "--amend", "--reset-author", "--no-edit"]
        )?,
        ""
    );
    let record = place.json(&["log", "-n", "1", "--json"])?;
    assert_eq!(record["author"], "Ada <ada@example.org>");
    assert_eq!(
        (&record["message"], &record["time"]),
        (&"again".into(), &record["commit_time"])
    );
    place.fails(2, &["commit", "--reset-author", "-m", "x"])?;
    Ok(())
}

#[test]
fn without_a_terminal_a_commit_has_the_message_date_and_branch_that_were_given() -> Outcome {
    let mut place = Place::with_repository()?;
    // Without a terminal a commit needs a message.
    place.env = vec![("EDITOR", "touch".into())];
    place.write("notes.txt", "one\n")?;
    let said = place.fails(2, &["commit"])?;
    assert_eq!(
        said,
        "error: a commit needs a message\nhint: dmv commit -m MESSAGE\n"
    );
    place.commit("first")?;
    place.write("notes.txt", "two\n")?;
    place.ok(&["commit", "--amend"])?;
    assert_eq!((message(&place)?.as_str(), commits(&place)?), ("first", 1));

    // A commit has the date that was given.
    place.write("notes.txt", "one\n")?;
    let date = "2001-02-03T04:05:06+07:00";
    place.ok(&["commit", "-m", "old", "--date", date])?;
    let record = place.json(&["log", "-n", "1", "--json"])?;
    assert_eq!(record["time"], date);
    assert_ne!(record["commit_time"], date);
    // Another author later: the date stays, as in Git.
    place.ok(&["commit", "--amend", "--author", "Bob <bob@example.org>"])?;
    let record = place.json(&["log", "-n", "1", "--json"])?;
    assert_eq!(
        (&record["time"], &record["author"]),
        (&date.into(), &"Bob <bob@example.org>".into())
    );
    place.ok(&["commit", "--amend", "--date", "2002-02-03T04:05:06Z"])?;
    let record = place.json(&["log", "-n", "1", "--json"])?;
    assert_eq!(record["time"], "2002-02-03T04:05:06+00:00");
    assert_eq!(record["author"], "Bob <bob@example.org>");
    place.fails(2, &["commit", "-m", "x", "--date", "soon"])?;

    // A commit on no branch says so.
    place.write("notes.txt", "1\n")?;
    let id = place.commit("first")?;
    place.ok(&["checkout", &id])?;
    place.write("notes.txt", "two\n")?;
    let done = place.run(&["commit", "-m", "second", "--json"])?;
    let record: serde_json::Value = serde_json::from_slice(&done.stdout)?;
    assert_eq!(
        (&record["detached"], &record["branch"]),
        (&true.into(), &serde_json::Value::Null)
    );
    let said = String::from_utf8(done.stderr)?;
    assert!(
        said.contains("this commit is on no branch; to put it on one: dmv checkout -b NAME "),
        "{said}"
    );
    place.ok(&["checkout", "-b", "side"])?;
    place.write("notes.txt", "three\n")?;
    let done = place.json(&["commit", "-m", "third", "--json"])?;
    assert_eq!(
        (&done["detached"], &done["branch"]),
        (&false.into(), &"side".into())
    );
    Ok(())
}
