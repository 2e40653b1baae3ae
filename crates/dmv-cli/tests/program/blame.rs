//! `dmv blame`: which commit each line comes from.

use crate::place::{Outcome, Place};
use serde_json::json;
use std::fs;

const LINES: &str = "one\ntwo\nthree\nfour\nfive\nsix\nseven\neight\n";

/// The first words of the messages of the commits of all lines.
fn summaries(place: &Place, args: &[&str]) -> Outcome<Vec<String>> {
    let records = place.records(&[&["blame", "--json"], args].concat())?;
    let summary = |record: &serde_json::Value| record["summary"].as_str().unwrap_or("").to_owned();
    Ok(records.iter().map(summary).collect())
}

fn edited() -> Outcome<Place> {
    let place = Place::with_repository()?;
    place.write("d/notes.txt", LINES)?;
    place.commit("first")?;
    place.write("other", "x")?;
    place.commit("elsewhere")?;
    place.write("d/notes.txt", LINES.replace("three\n", "3\n"))?;
    place.commit("second")?;
    Ok(place)
}

#[test]
fn each_line_has_its_commit_also_in_clones_and_after_a_move() -> Outcome {
    let place = edited()?;
    // Each line is shown with its commit.
    let text = place.ok(&["blame", "d/notes.txt"])?;
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 8);
    let second = place.ok(&["log", "-1", "--oneline"])?;
    assert!(lines[2].starts_with(&second[..12]), "{text}");
    assert!(
        lines[2].contains(" (ada ") && lines[2].ends_with(" 3) 3"),
        "{text}"
    );
    assert!(lines[3].ends_with(" 4) four"), "{text}");
    // The same from elsewhere, and in the ways that Git has.
    for args in [
        &["-C", "d", "blame", "notes.txt"][..],
        &["blame", "@:d/notes.txt"],
        &["blame", "HEAD", "--", "d/notes.txt"],
        &["-C", "d", "blame", "HEAD", "notes.txt"],
    ] {
        assert_eq!(place.ok(args)?, text, "{args:?}");
    }
    assert_eq!(summaries(&place, &["@~1:d/notes.txt"])?, ["first"; 8]);
    let some = place.ok(&["blame", "-L", "3,+2", "d/notes.txt"])?;
    assert_eq!(some.lines().collect::<Vec<_>>(), lines[2..4]);
    assert_eq!(
        summaries(&place, &["-L", "3,4", "d/notes.txt"])?,
        ["second", "first"]
    );
    let records = place.records(&["blame", "--json", "-L", "3,3", "d/notes.txt"])?;
    let record = &records[0];
    assert_eq!(
        (&record["line"], &record["original_line"]),
        (&json!(3), &json!(3))
    );
    assert_eq!(
        (&record["text"], &record["path"]),
        (&json!("3"), &json!("d/notes.txt"))
    );
    assert_eq!(record["boundary"], json!(false));

    // Absent versions are fetched and the end of stored history is marked.
    let want = place.ok(&["blame", "d/notes.txt"])?;
    place.ok(&["clone", "--meta-only", ".", "../meta"])?;
    let offline = ["-C", "../meta", "blame", "--offline", "d/notes.txt"];
    place.fails(6, &offline)?;
    assert_eq!(place.ok(&["-C", "../meta", "blame", "d/notes.txt"])?, want);
    assert_eq!(place.ok(&offline)?, want);
    place.ok(&["clone", "--depth", "2", ".", "../short"])?;
    let records = place.records(&["-C", "../short", "blame", "--json", "d/notes.txt"])?;
    let ends: Vec<bool> = records
        .iter()
        .map(|r| r["boundary"] == json!(true))
        .collect();
    assert_eq!(ends, [true, true, false, true, true, true, true, true]);
    let text = place.ok(&["-C", "../short", "blame", "d/notes.txt"])?;
    assert!(text.starts_with('^'), "{text}");
    // A clone of some paths.
    place.ok(&["clone", "--subset", "other", "--", ".", "../part"])?;
    assert_eq!(place.ok(&["-C", "../part", "blame", "d/notes.txt"])?, want);

    // What has no lines is refused in plain words.
    place.write("film.mov", [7, 0, 7])?;
    std::os::unix::fs::symlink("other", place.work().join("link"))?;
    place.write("empty", "")?;
    place.commit("more")?;
    let refused = |path: &str, why: &str| -> Outcome {
        let err = place.fails(20, &["blame", path])?;
        assert!(err.contains(why), "{err}");
        Ok(())
    };
    refused(
        "film.mov",
        "'film.mov' is a binary file, without lines of text",
    )?;
    refused("link", "'link' is a symlink")?;
    refused("d", "'d' is a directory")?;
    refused("nothing", "'nothing' does not exist in @")?;
    assert_eq!(place.ok(&["blame", "empty"])?, "");
    place.fails(2, &["blame", "-L", "0,3", "d/notes.txt"])?;
    let err = place.fails(2, &["blame", "-L", "9", "d/notes.txt"])?;
    assert!(err.contains("has 8 lines; line 9 does not exist"), "{err}");

    // A moved file is followed and its former path is shown.
    fs::rename(place.work().join("d/notes.txt"), place.work().join("text"))?;
    place.write("text", LINES.replace("three\n", "3\n") + "nine\n")?;
    place.commit("moved")?;
    let want = [
        "first", "first", "second", "first", "first", "first", "first", "first", "moved",
    ];
    assert_eq!(summaries(&place, &["text"])?, want);
    let text = place.ok(&["blame", "text"])?;
    assert!(
        text.lines()
            .next()
            .is_some_and(|line| line.contains(" d/notes.txt (")),
        "{text}"
    );
    Ok(())
}

/// Both sides edit one line, and a commit settles the conflict later.
#[test]
fn lines_go_through_a_commit_with_an_open_conflict() -> Outcome {
    let place = edited()?;
    place.ok(&["checkout", "-b", "side", "@~1"])?;
    place.write(
        "d/notes.txt",
        LINES.replace("three\n", "III\n").replace("eight\n", "8\n"),
    )?;
    place.commit("side")?;
    place.ok(&["checkout", "main"])?;
    place.fails(4, &["merge", "side", "-m", "merged"])?;
    let err = place.fails(20, &["blame", "d/notes.txt"])?;
    assert!(
        err.contains("unresolved conflict") && err.contains("dmv conflicts"),
        "{err}"
    );
    place.write(
        "d/notes.txt",
        LINES
            .replace("three\n", "3\nIII\n")
            .replace("eight\n", "8\n9\n"),
    )?;
    place.commit("settled")?;
    let want = [
        "first", "first", "second", "side", "first", "first", "first", "first", "side", "settled",
    ];
    assert_eq!(summaries(&place, &["d/notes.txt"])?, want);
    Ok(())
}
