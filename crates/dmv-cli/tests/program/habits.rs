//! What Git's users type from habit and what works the same: paths without `--`, dates as revisions,
//! lists of remote branches, all tags at once.

use crate::place::{Outcome, Place};
use std::fs;

/// The messages of the commits that `log` lists, newest first.
fn listed(place: &Place, args: &[&str]) -> Outcome<Vec<String>> {
    let records = place.records(&[&["log", "--json"], args].concat())?;
    let text =
        |record: &serde_json::Value| record["message"].as_str().unwrap_or_default().to_owned();
    Ok(records.iter().map(text).collect())
}

#[test]
fn a_path_needs_no_dashes_where_it_is_no_revision() -> Outcome {
    let place = Place::with_repository()?;
    place.write("notes.txt", "one\n")?;
    place.write("shots/1.exr", "1\n")?;
    place.write("old/2020", "2\n")?;
    place.commit("first")?;
    place.write("notes.txt", "two\n")?;
    fs::remove_dir_all(place.work().join("old"))?;
    place.commit("second")?;
    place.write("shots/1.exr", "2\n")?;
    place.commit("third")?;
    place.write("here only", "x\n")?;
    for (args, commits) in [
        (&["notes.txt"][..], &["second", "first"][..]),
        (&["main", "notes.txt"], &["second", "first"]),
        (&["@~1", "shots"], &["first"]),
        (&["main~2..main", "notes.txt", "-1"], &["second"]),
        (&["notes.txt", "shots/"], &["third", "second", "first"]),
        // Gone from the worktree, but not from the history.
        (&["old"], &["second", "first"]),
        (&["old/2020"], &["second", "first"]),
        (&["here only"], &[]),
        (&["."], &["third", "second", "first"]),
        (&["./notes.txt", "-n1"], &["second"]),
        (&["--follow", "notes.txt"], &["second", "first"]),
    ] {
        assert_eq!(listed(&place, args)?, commits, "{args:?}");
    }
    // In a directory, paths count from there.
    let done = place
        .command(&["log", "--json", "1.exr"])
        .current_dir(place.work().join("shots"))
        .output()?;
    assert_eq!(String::from_utf8(done.stdout)?.lines().count(), 2);
    place.fails(20, &["log", "nope"])?;
    place.fails(20, &["log", "nope", "--", "notes.txt"])?;
    place.fails(20, &["log", "notes.txt", "nope"])?;
    place.fails(2, &["log", "main", "@~1"])?;
    place.fails(2, &["log", "--follow"])?;

    assert_eq!(
        place.ok(&["diff", "--name-only", "@~2", "@", "notes.txt"])?,
        "notes.txt\n"
    );
    assert_eq!(
        place.ok(&["diff", "--name-only", "@~2..@", "shots"])?,
        "shots/1.exr\n"
    );
    place.write("notes.txt", "three\n")?;
    place.write("shots/1.exr", "3\n")?;
    assert_eq!(
        place.ok(&["diff", "--name-only", "notes.txt"])?,
        "notes.txt\n"
    );
    assert_eq!(
        place.ok(&["diff", "--name-only", "@", "shots", "notes.txt"])?,
        "notes.txt\nshots/1.exr\n"
    );

    // A revision goes first.
    place.ok(&["branch", "shots", "@~2"])?;
    assert_eq!(listed(&place, &["shots"])?, ["first"]);
    assert_eq!(listed(&place, &["./shots"])?, ["third", "first"]);
    let said = place.run(&["log", "shots"])?.stderr;
    assert!(String::from_utf8(said)?.contains("dmv log ./shots"));
    Ok(())
}

#[test]
fn a_date_is_a_revision() -> Outcome {
    let place = Place::with_repository()?;
    place.write("notes.txt", "one\n")?;
    let first = place.commit("first")?;
    place.write("notes.txt", "two\n")?;
    let second = place.commit("second")?;
    let id = |revision: &str| -> Outcome<String> {
        let record = place.json(&["log", "-n", "1", "--json", revision])?;
        Ok(record["id"].as_str().ok_or("no id")?.to_owned())
    };
    for revision in [
        "@{now}",
        "main@{2999-01-01}",
        "HEAD@{today}",
        "@@{0 seconds ago}",
        "refs/heads/main@{today}",
    ] {
        assert_eq!(id(revision)?, second, "{revision}");
    }
    for revision in [
        "@{1}",
        "HEAD@{1}",
        "main@{1}",
        "main@{now}~1",
        "@{2999-01-01 10:00}^",
    ] {
        assert_eq!(id(revision)?, first, "{revision}");
    }
    assert_eq!(
        place.ok(&["cat", "main@{2999-01-01 15:04}~1:notes.txt"])?,
        "one\n"
    );
    place.ok(&["restore", "--from", "2999-01-01", "notes.txt"])?;
    for revision in ["@{2 days ago}", "main@{yesterday}"] {
        let said = place.fails(20, &["show", revision])?;
        assert!(
            said.contains("the operation log goes back only to 20"),
            "{said}"
        );
    }
    let said = place.fails(20, &["restore", "--from", "2 days ago", "notes.txt"])?;
    assert!(said.contains("'@{2 days ago}' is not known"), "{said}");
    place.fails(20, &["restore", "--from", "no date", "notes.txt"])?;
    // A directory that is named by a day stays a path.
    place.write("2026-11-20/a", "x\n")?;
    place.commit("third")?;
    assert!(place.ok(&["ls", "2026-11-20"])?.contains('a'));
    // A branch that was deleted is found by its former name.
    place.ok(&["branch", "side", "@~1"])?;
    place.ok(&["branch", "-d", "side"])?;
    assert_eq!(id("side@{1}")?, second);
    place.fails(20, &["show", "side@{now}"])?;
    Ok(())
}

#[test]
fn branches_and_tags_are_listed_and_sent_at_once_and_the_program_has_the_guide() -> Outcome {
    let place = Place::with_repository()?;
    // Remote branches and tags are listed and sent at once.
    place.write("notes.txt", "one\n")?;
    place.commit("first")?;
    place.ok(&["clone", "--bare", ".", "../nas"])?;
    place.ok(&["remote", "add", "nas", "../nas"])?;
    for tag in ["v1", "v2", "draft"] {
        place.ok(&["tag", tag])?;
    }
    place.ok(&["branch", "side"])?;
    place.ok(&["fetch", "nas"])?;
    let names = |args: &[&str]| -> Outcome<Vec<String>> {
        let records = place.records(&[args, &["--json"]].concat())?;
        let name =
            |record: &serde_json::Value| record["name"].as_str().unwrap_or_default().to_owned();
        Ok(records.iter().map(name).collect())
    };
    assert_eq!(names(&["branch"])?, ["main", "side"]);
    assert_eq!(names(&["branch", "-a"])?, ["main", "side", "nas/main"]);
    assert_eq!(names(&["branch", "-r"])?, ["nas/main"]);
    assert_eq!(names(&["branch", "--list", "m*"])?, ["main"]);
    assert_eq!(names(&["tag", "-l"])?, ["draft", "v1", "v2"]);
    assert_eq!(names(&["tag", "-l", "v*"])?, ["v1", "v2"]);
    place.fails(2, &["branch", "-a", "name"])?;

    place.ok(&["push", "nas", "--tags"])?;
    let there = |args: &[&str]| place.records(&[&["-C", "../nas"], args, &["--json"]].concat());
    assert_eq!(there(&["tag"])?.len(), 3);
    assert_eq!(there(&["branch"])?.len(), 1);
    place.ok(&["push", "nas", "--all"])?;
    assert_eq!(there(&["branch"])?.len(), 2);
    for tag in ["v1", "v2", "draft"] {
        place.ok(&["tag", "-d", tag])?;
    }
    let said = place.fails(2, &["push", "nas", "--tags"])?;
    assert!(said.contains("there is no tag to send"), "{said}");

    // A further worktree can have a subset.
    place.write("titles/a", "a\n")?;
    place.write("shots/b", "b\n")?;
    place.commit("first")?;
    place.ok(&["worktree", "add", "../titles", "--subset", "titles"])?;
    let there = place.dir.path().join("titles");
    assert!(there.join("titles/a").exists() && !there.join("shots").exists());
    let status = place.json(&["-C", "../titles", "status", "--json"])?;
    assert_eq!(
        (&status["clean"], &status["subset"]),
        (&true.into(), &serde_json::json!(["titles"]))
    );
    // What it commits has the rest.
    fs::write(there.join("titles/a"), "changed\n")?;
    place.ok(&["-C", "../titles", "commit", "-m", "second"])?;
    assert_eq!(place.ok(&["cat", "titles:shots/b"])?, "b\n");
    let said = place.run(&["worktree", "add", "../other", "--subset", "nope"])?;
    assert!(String::from_utf8(said.stderr)?.contains("nothing in the commit matches"));

    // The program has the guide.
    let page = place.ok(&["help", "undoing"])?;
    assert!(page.starts_with("# Undoing\n"), "{page}");
    let list = place.ok(&["help", "topics"])?;
    assert!(
        list.contains("  usb-disk                   A USB disk\n"),
        "{list}"
    );
    // A command goes before a page of its name.
    assert!(place.ok(&["help", "web"])?.contains("Usage: dmv web"));
    Ok(())
}

#[test]
fn what_is_printed_for_people_fits_a_terminal_and_has_colours() -> Outcome {
    let place = Place::with_repository()?;
    let long = "media/".to_owned() + &"directory/".repeat(12) + "clip.mov";
    place.write(&long, dmv_random::noise(1, 200_000))?;
    place.write("note.txt", "one\n")?;
    place.write("empty/x", "")?;
    fs::remove_file(place.work().join("empty/x"))?;
    place.commit("first")?;
    place.write(&long, dmv_random::noise(2, 200_000))?;
    place.write("note.txt", "one\ntwo\n")?;
    place.ok(&["tag", "v1"])?;
    place.commit("second")?;
    for args in [
        &["show", "--stat", "@"][..],
        &["log", "--stat"],
        &["diff", "--stat", "@~1", "@"],
    ] {
        let text = place.ok(args)?;
        let lines: Vec<&str> = text.lines().filter(|line| line.contains(" | ")).collect();
        assert!(lines.len() >= 2, "{text}");
        for line in &lines {
            assert!(line.chars().count() <= 80, "{line}");
        }
        let at = lines
            .iter()
            .map(|line| line.find(" | ").map(|at| line[..at].chars().count()));
        let at: Vec<Option<usize>> = at.take(2).collect();
        assert_eq!(at[0], at[1], "{text}");
        assert!(text.contains("clip.mov | 195 KiB, 195 KiB new\n"), "{text}");
        // An empty directory is no file.
        assert!(text.contains(" 2 files changed, "), "{text}");
    }
    assert!(!place.ok(&["log"])?.contains(" ago)"));

    let failed = place
        .command(&["show", "nope", "--color=always"])
        .output()?;
    let said = String::from_utf8(failed.stderr)?;
    assert!(
        said.starts_with("\x1b[1m\x1b[31merror:\x1b[0m there is no"),
        "{said:?}"
    );
    assert!(
        said.contains("\n\x1b[1m\x1b[36mhint:\x1b[0m dmv branch"),
        "{said:?}"
    );
    let failed = place
        .command(&["--color", "always", "frobnicate"])
        .output()?;
    let said = String::from_utf8(failed.stderr)?;
    assert!(said.starts_with("\x1b[1m\x1b[31merror:"), "{said:?}");
    for args in [
        &["show", "nope"][..],
        &["frobnicate"],
        &["--color=never", "show", "nope"],
    ] {
        let said = place.command(args).output()?.stderr;
        assert!(said.starts_with(b"error: "), "{args:?}");
    }
    let log = place.ok(&["log", "--oneline", "--color=always"])?;
    assert!(log.contains("(@ = \x1b[32mmain\x1b[0m)"), "{log:?}");
    assert!(log.contains("(tag \x1b[33mv1\x1b[0m)"), "{log:?}");
    let list = place.ok(&["worktree", "list", "--color=always"])?;
    assert!(list.contains("on branch \x1b[32mmain\x1b[0m, "), "{list:?}");
    place.ok(&["clone", "--bare", ".", "../nas"])?;
    place.ok(&["remote", "add", "nas", "../nas"])?;
    let sent = place.ok(&["push", "nas", "--delete", "v1", "--color=always"])?;
    assert!(
        sent.contains("\x1b[33mv1\x1b[0m  deleted on the remote"),
        "{sent:?}"
    );
    place.ok(&["branch", "wet"])?;
    let sent = place.ok(&["push", "nas", "wet", "--color=always"])?;
    assert!(
        sent.contains("\x1b[32mwet\x1b[0m  new on the remote"),
        "{sent:?}"
    );

    let gone = place.run(&["checkout", "@~1"])?;
    let said = String::from_utf8(gone.stderr)?;
    assert_eq!(
        said,
        "to go back: dmv checkout main; to commit here: dmv checkout -b NAME\n"
    );
    let back = place.run(&["checkout", "main"])?;
    assert_eq!(String::from_utf8(back.stderr)?, "");
    Ok(())
}
