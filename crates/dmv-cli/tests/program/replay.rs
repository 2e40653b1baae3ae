//! Cherry-pick and rebase, as a user does it.

use crate::place::files::{lines, read, subjects_of};
use crate::place::{Outcome, Place};
use serde_json::{Value, json};
use std::fs;

/// `main` has changed line 5, and `side` lines 2 and 8 with a new file between; on `main`.
fn place() -> Outcome<Place> {
    let place = Place::with_repository()?;
    place.write("a", lines(&[]))?;
    place.write("b", "b")?;
    place.commit("base")?;
    place.ok(&["checkout", "-b", "side"])?;
    place.write("a", lines(&[(2, "two")]))?;
    place.ok(&["commit", "-m", "two", "--author", "Bo <bo@example.org>"])?;
    place.write("new", "new")?;
    place.commit("new")?;
    place.write("a", lines(&[(2, "two"), (8, "eight")]))?;
    place.commit("eight")?;
    place.ok(&["checkout", "main"])?;
    place.write("a", lines(&[(5, "five")]))?;
    place.commit("five")?;
    Ok(place)
}

fn subjects(place: &Place) -> Outcome<Vec<String>> {
    subjects_of(place, ".")
}

#[test]
fn a_clone_without_content_rebases_commits_that_share_no_file() -> Outcome {
    let place = Place::new()?;
    place.ok(&["init", "full"])?;
    let commit = |path: &str, text: &str| -> Outcome {
        place.write(format!("full/{path}"), text)?;
        place.ok(&["-C", "full", "commit", "-m", path])?;
        Ok(())
    };
    commit("d/one", "one")?;
    commit("e/two", "two")?;
    place.ok(&["-C", "full", "branch", "side", "@~1"])?;
    place.ok(&["-C", "full", "checkout", "side"])?;
    commit("d/three", "three")?;
    commit("d/one", "one, changed")?;
    place.ok(&["clone", "full", "meta", "--meta-only", "--branch", "side"])?;
    // Nobody can give any content.
    fs::rename(place.work().join("full"), place.work().join("away"))?;
    place.ok(&["-C", "meta", "rebase", "origin/main"])?;
    let stats = place.records(&["-C", "meta", "ls", "-r", "--json"])?;
    assert_eq!(stats.len(), 3, "{stats:?}");
    place.ok(&["-C", "meta", "verify"])?;
    // A text that both sides changed is asked for, before anything changes.
    fs::rename(place.work().join("away"), place.work().join("full"))?;
    place.ok(&["-C", "full", "checkout", "main"])?;
    commit("d/one", "one\n\n\nand more")?;
    place.ok(&["-C", "meta", "fetch"])?;
    fs::rename(place.work().join("full"), place.work().join("away"))?;
    let before = place.ok(&["-C", "meta", "log", "--oneline"])?;
    let said = place.fails(6, &["-C", "meta", "rebase", "origin/main"])?;
    assert!(said.contains("d/one"), "{said}");
    assert_eq!(place.ok(&["-C", "meta", "log", "--oneline"])?, before);
    fs::rename(place.work().join("away"), place.work().join("full"))?;
    place.run(&["-C", "meta", "rebase", "origin/main"])?;
    assert_ne!(place.ok(&["-C", "meta", "log", "--oneline"])?, before);
    Ok(())
}

#[test]
fn a_pick_asks_for_the_content_that_it_lacks_before_anything_changes() -> Outcome {
    let place = Place::new()?;
    place.ok(&["init", "full"])?;
    let commit = |path: &str, text: &str| -> Outcome {
        place.write(format!("full/{path}"), text)?;
        place.ok(&["-C", "full", "commit", "-m", path])?;
        Ok(())
    };
    commit("a", &lines(&[]))?;
    commit("b", &lines(&[]))?;
    place.ok(&["-C", "full", "checkout", "-b", "side"])?;
    commit("a", &lines(&[(2, "two")]))?;
    commit("b", &lines(&[(2, "two")]))?;
    commit("new", "new")?;
    place.ok(&["-C", "full", "checkout", "main"])?;
    commit("a", &lines(&[(8, "eight")]))?;
    commit("b", &lines(&[(8, "eight")]))?;
    place.ok(&["clone", "full", "meta", "--meta-only"])?;
    let state = || -> Outcome<(String, String, Value)> {
        let log = place.ok(&["-C", "meta", "log", "--oneline"])?;
        let operations = place.ok(&["-C", "meta", "op", "log"])?;
        Ok((
            log,
            operations,
            place.json(&["-C", "meta", "status", "--json"])?,
        ))
    };
    // Where nothing meets, nothing is read.
    fs::rename(place.work().join("full"), place.work().join("away"))?;
    place.ok(&["-C", "meta", "cherry-pick", "origin/side"])?;
    place.ok(&["-C", "meta", "undo"])?;
    // All that is lacking is named at once, and nothing changes.
    let before = state()?;
    let pick = ["-C", "meta", "cherry-pick", "main..origin/side"];
    let said = place.fails(6, &pick)?;
    assert!(
        said.contains("is absent") && said.contains("origin"),
        "{said}"
    );
    assert_eq!(state()?, before);
    let said = place.fails(6, &[&pick[..], &["--offline"]].concat())?;
    assert!(said.contains("offline"), "{said}");
    assert_eq!(state()?, before);
    fs::rename(place.work().join("away"), place.work().join("full"))?;
    place.ok(&pick)?;
    for path in ["a", "b"] {
        let text = place.ok(&["-C", "meta", "cat", &format!("@:{path}")])?;
        assert_eq!(text, lines(&[(2, "two"), (8, "eight")]), "{path}");
    }
    place.ok(&["-C", "meta", "verify"])?;
    place.ok(&["-C", "meta", "undo"])?;
    assert_eq!(state()?.0, before.0);
    Ok(())
}

#[test]
fn commits_are_picked_and_rebased_in_order_and_once() -> Outcome {
    let place = place()?;
    // A bare repository rebases its branch.
    place.ok(&["checkout", "side"])?;
    place.ok(&["clone", "--bare", ".", "../bare", "--branch", "side"])?;
    let bare = place.work().join("../bare");
    let bare = bare.to_str().ok_or("a path")?;
    place.ok(&["-C", bare, "rebase", "origin/main"])?;
    let log = place.records(&["-C", bare, "log", "--json"])?;
    assert_eq!(log.len(), 5);

    // A rebase with conflicts completes and later commits go on from them.
    place.write("a", lines(&[(2, "two"), (5, "fuenf"), (8, "eight")]))?;
    place.commit("fuenf")?;
    place.write("b", "changed")?;
    place.commit("b")?;
    place.write("new", "edited")?;
    let output = place.run(&["rebase", "main", "--json"])?;
    assert_eq!(output.status.code(), Some(4));
    let done: Value = serde_json::from_slice(&output.stdout)?;
    assert_eq!(done["conflicts"].as_array().map(Vec::len), Some(1));
    assert_eq!(done["conflicts"][0]["path"], "a");
    let names = ["b", "fuenf", "eight", "new", "two", "five", "base"];
    assert_eq!(subjects(&place)?, names);
    // The uncommitted change is still there, and the worktree goes on working.
    assert_eq!(read(&place, "new")?, "edited");
    place.ok(&["resolve", "a", "--theirs"])?;
    place.commit("settled")?;
    assert!(read(&place, "a")?.contains("fuenf"));
    place.ok(&["undo"])?;
    place.ok(&["undo"])?;
    place.ok(&["undo"])?;
    assert_eq!(subjects(&place)?.first().map(String::as_str), Some("b"));
    assert_eq!(read(&place, "new")?, "edited");
    assert_eq!(
        read(&place, "a")?,
        lines(&[(2, "two"), (5, "fuenf"), (8, "eight")])
    );

    place.ok(&["reset", "--hard", "@~2"])?;
    place.ok(&["checkout", "main"])?;
    // A picked commit keeps its author and message.
    let from = place.json(&["log", "side~2", "-n", "1", "--json"])?;
    let said = place.ok(&["cherry-pick", "-x", "side~2"])?;
    assert!(said.starts_with("picked 1 commit: main is at "), "{said}");
    let made = place.json(&["log", "-n", "1", "--json"])?;
    assert_eq!(made["author"], from["author"]);
    assert_eq!(made["time"], from["time"]);
    let id = from["id"].as_str().unwrap_or_default();
    let message = format!("two\n\n(cherry picked from commit {id})");
    assert_eq!(made["message"], json!(message));
    assert_eq!(read(&place, "a")?, lines(&[(2, "two"), (5, "five")]));
    place.ok(&["undo"])?;
    assert_eq!(read(&place, "a")?, lines(&[(5, "five")]));
    assert_eq!(subjects(&place)?, ["five", "base"]);
    place.ok(&["redo"])?;
    assert_eq!(read(&place, "a")?, lines(&[(2, "two"), (5, "five")]));

    place.ok(&["undo"])?;
    // A range is picked in order without what is already there.
    place.write("new", "new")?;
    place.commit("new, too")?;
    let done = place.json(&["cherry-pick", "main..side", "--json"])?;
    assert_eq!(done["commits"].as_array().map(Vec::len), Some(2));
    assert_eq!(done["dropped"].as_array().map(Vec::len), Some(1));
    assert_eq!(
        subjects(&place)?,
        ["eight", "two", "new, too", "five", "base"]
    );
    // A second time nothing is left to do.
    let tip = done["commit"].clone();
    let done = place.json(&["cherry-pick", "main..side", "side", "--json"])?;
    assert_eq!((&done["commit"], &done["up_to_date"]), (&tip, &json!(true)));
    let said = place.ok(&["cherry-pick", "side"])?;
    let end = "eight (main already has this change)\n";
    assert!(
        said.lines()
            .next()
            .is_some_and(|line| format!("{line}\n").ends_with(end)),
        "{said}"
    );
    // A commit of the branch itself changes nothing, either.
    let said = place.ok(&["cherry-pick", "@~1"])?;
    assert!(
        said.contains("left out") && said.contains("nothing to pick"),
        "{said}"
    );

    place.ok(&["reset", "--hard", "@~3"])?;
    // A merge commit is picked relative to a parent.
    place.ok(&["checkout", "-b", "both"])?;
    place.ok(&["merge", "side"])?;
    place.ok(&["checkout", "main"])?;
    let said = place.fails(2, &["cherry-pick", "both"])?;
    assert!(said.contains("hint: dmv cherry-pick "), "{said}");
    place.ok(&["cherry-pick", "both", "-m", "1"])?;
    assert_eq!(
        read(&place, "a")?,
        lines(&[(2, "two"), (5, "five"), (8, "eight")])
    );

    place.ok(&["reset", "--hard", "@~1"])?;
    // There is nothing to continue or abort.
    for verb in ["rebase", "cherry-pick"] {
        for option in ["--abort", "--continue", "--skip", "--quit"] {
            let said = place.fails(2, &[verb, option])?;
            assert!(
                said.contains("always completes") && said.contains("dmv undo"),
                "{said}"
            );
        }
        place.fails(2, &[verb])?;
    }
    let said = place.fails(2, &["rebase"])?;
    assert!(said.contains("hint: dmv rebase BRANCH"), "{said}");
    place.ok(&["clone", ".", "../two"])?;
    let said = place.fails(2, &["-C", "../two", "rebase"])?;
    assert!(said.contains("hint: dmv rebase origin/main"), "{said}");
    let said = place.ok(&["commit", "--amend"])?;
    assert!(said.contains("] five\n"), "{said}");

    // A rebase leaves out merge commits.
    place.ok(&["checkout", "-b", "topic", "side~2"])?;
    place.write("c", "c")?;
    place.commit("c")?;
    place.ok(&["merge", "side"])?;
    place.write("d", "d")?;
    place.commit("d")?;
    place.ok(&["rebase", "main"])?;
    let found = subjects(&place)?;
    assert_eq!(found.first().map(String::as_str), Some("d"));
    assert_eq!(found.len(), 7, "{found:?}");
    assert!(found.iter().all(|subject| !subject.starts_with("Merge")));
    for name in ["a", "b", "c", "d", "new"] {
        assert!(place.work().join(name).exists(), "{name}");
    }

    place.ok(&["checkout", "main"])?;
    // A rebase goes forward stays or moves only some commits.
    place.ok(&["branch", "old", "@~1"])?;
    place.ok(&["checkout", "old"])?;
    let said = place.ok(&["rebase", "main"])?;
    assert!(said.starts_with("fast-forward: old is at "), "{said}");
    place.ok(&["checkout", "side"])?;
    let said = place.ok(&["rebase", "side~2"])?;
    assert!(said.starts_with("already up to date"), "{said}");
    // Only the last commit moves.
    place.ok(&["rebase", "side~1", "--onto", "main"])?;
    assert_eq!(subjects(&place)?, ["eight", "five", "base"]);
    assert!(!place.work().join("new").exists());
    Ok(())
}
