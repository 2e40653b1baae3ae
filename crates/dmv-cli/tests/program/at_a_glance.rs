//! What is seen at a glance: which remotes lack commits, which files are absent, and what `--json` says on
//! the side.

use crate::place::several::{commit, several};
use crate::place::{Outcome, Place};
use serde_json::{Value, json};
use std::fs;

/// `film` with the remotes nas and usb, which have everything, and cloud, of which nothing is known.
fn with_remotes() -> Outcome<Place> {
    let place = several()?;
    for name in ["nas", "usb", "cloud"] {
        place.ok(&["clone", "--bare", "film", name])?;
        place.ok(&[
            "-C",
            "film",
            "remote",
            "add",
            name,
            &place.work().join(name).display().to_string(),
        ])?;
    }
    place.ok(&["-C", "film", "sync", "nas", "usb"])?;
    Ok(place)
}

fn lacks(place: &Place) -> Outcome<Value> {
    let status = place.json(&["-C", "film", "status", "--json"])?;
    Ok(status["remotes"].clone())
}

#[test]
fn status_names_each_remote_that_lacks_commits() -> Outcome {
    let place = with_remotes()?;
    let status = place.ok(&["-C", "film", "status"])?;
    assert!(!status.contains("not at"), "{status}");
    assert!(
        status.contains("nothing was sent to cloud yet: dmv sync cloud\n"),
        "{status}"
    );
    commit(&place, "film", "one")?;
    let status = place.ok(&["-C", "film", "status"])?;
    assert!(
        status.contains("1 commit not at nas, usb: dmv sync nas usb\n"),
        "{status}"
    );
    // It is known from the exchange, and nobody is asked.
    fs::rename(place.work().join("usb"), place.work().join("away"))?;
    place.ok(&["-C", "film", "push", "nas"])?;
    commit(&place, "film", "two")?;
    let status = place.ok(&["-C", "film", "status"])?;
    assert!(
        status.contains("1 commit not at nas: dmv sync nas\n"),
        "{status}"
    );
    assert!(
        status.contains("2 commits not at usb: dmv sync usb\n"),
        "{status}"
    );
    let want = json!([
        {"name": "cloud", "missing": null},
        {"name": "nas", "missing": 1},
        {"name": "usb", "missing": 2},
    ]);
    assert_eq!(lacks(&place)?, want);
    Ok(())
}

#[test]
fn a_commit_counts_as_there_on_whichever_branch_it_is_and_the_upstream_is_named_once() -> Outcome {
    let place = with_remotes()?;
    commit(&place, "film", "one")?;
    place.ok(&["-C", "film", "branch", "side"])?;
    place.ok(&["-C", "film", "push", "nas", "side"])?;
    assert_eq!(lacks(&place)?[1], json!({"name": "nas", "missing": 0}));
    assert_eq!(lacks(&place)?[2], json!({"name": "usb", "missing": 1}));
    place.ok(&["clone", "film", "second"])?;
    commit(&place, "second", "three")?;
    let status = place.ok(&["-C", "second", "status"])?;
    assert!(
        status.contains("1 commit ahead of origin/main: dmv push"),
        "{status}"
    );
    assert!(!status.contains("not at"), "{status}");
    // Without a commit there is nothing to lack.
    place.ok(&["init", "new"])?;
    place.ok(&["-C", "new", "remote", "add", "nas", "../nas"])?;
    let status = place.ok(&["-C", "new", "status"])?;
    assert!(!status.contains("nas"), "{status}");
    Ok(())
}

#[test]
fn a_long_listing_marks_the_files_whose_content_is_absent() -> Outcome {
    let place = several()?;
    place.write("film/big/a", dmv_random::noise(3, 3 << 20))?;
    place.ok(&["-C", "film", "commit", "-m", "big"])?;
    place.ok(&["clone", "film", "part", "--subset", "shots"])?;
    for (dir, is_absent) in [("big", true), ("shots", false)] {
        let long = place.ok(&["-C", "part", "ls", "-l", dir])?;
        let is_right = |line: &str| line.ends_with("  (absent)") == is_absent;
        assert!(!long.is_empty() && long.lines().all(is_right), "{long}");
        let records = place.records(&["-C", "part", "ls", "--json", dir])?;
        let is_right = |record: &Value| (record["absent"] == true) == is_absent;
        assert!(
            !records.is_empty() && records.iter().all(is_right),
            "{records:?}"
        );
    }
    place.ok(&["-C", "part", "get", "big/a"])?;
    let long = place.ok(&["-C", "part", "ls", "-l", "big"])?;
    assert!(long.contains("big/a") && !long.contains("absent"), "{long}");
    let short = place.ok(&["-C", "film", "ls", "-l", "-r"])?;
    assert!(!short.contains("absent"), "{short}");
    Ok(())
}

#[test]
fn with_json_warnings_and_notes_are_objects_and_the_document_stays_alone() -> Outcome {
    let place = with_remotes()?;
    place.write("film/new", "n")?;
    place.ok(&["-C", "film", "config", "set", "names.portable", "true"])?;
    place.write("film/shots/CON", "c")?;
    for (args, word) in [
        (&["log", "--json", "--author", "nobody"][..], "note"),
        (&["commit", "--json", "-m", "some"], "warning"),
        (&["diff", "--json", "--", "no-such-path"], "error"),
        (&["sync", "--json", "nas", "gone"], ""),
    ] {
        // `run` has looked at the form of each line.
        let done = place.run(&[&["-C", "film"], args].concat())?;
        let said = String::from_utf8(done.stderr)?;
        let types = said
            .lines()
            .map(serde_json::from_str::<Value>)
            .collect::<Result<Vec<_>, _>>()?;
        let has = types
            .iter()
            .any(|line| line["type"] == word && line["message"].is_string());
        assert!(has || word.is_empty(), "{args:?}: {said}");
        for line in String::from_utf8(done.stdout)?.lines() {
            let value: Value = serde_json::from_str(line)?;
            assert!(
                value.is_object() && value["type"] != "warning",
                "{args:?}: {line}"
            );
        }
        let quiet = place.run(&[&["-C", "film", "-q"], args].concat())?;
        assert!(
            !String::from_utf8_lossy(&quiet.stderr).contains("\"note\""),
            "{args:?}"
        );
    }
    Ok(())
}
