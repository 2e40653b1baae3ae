//! `rm`: files that are removed, and files that are only no longer tracked.

use crate::place::files::{exists, read};
use crate::place::{Outcome, Place};
use serde_json::{Value, json};
use std::fs;

/// The files of a revision.
fn files(place: &Place, revision: &str) -> Outcome<Vec<String>> {
    let list = place.ok(&["ls", "-r", revision])?;
    Ok(list.lines().map(|line| line.trim().to_owned()).collect())
}

fn status(place: &Place) -> Outcome<Value> {
    place.json(&["status", "--json"])
}

fn place() -> Outcome<Place> {
    let place = Place::with_repository()?;
    place.write("a.txt", "one")?;
    place.write("local.cfg", "config")?;
    place.write("d/x", "x")?;
    place.write("d/e/y", "y")?;
    place.commit("first")?;
    Ok(place)
}

#[test]
fn cached_stops_tracking_keeps_the_file_and_y_ignores_it() -> Outcome {
    let place = place()?;
    // Cached stops tracking and keeps the file.
    let output = place.run(&["rm", "--cached", "local.cfg"])?;
    let (said, errors) = (
        String::from_utf8(output.stdout)?,
        String::from_utf8(output.stderr)?,
    );
    assert_eq!(said, "no longer tracked after the next commit: local.cfg\n");
    assert!(errors.contains("dmv rm --cached -y local.cfg"), "{errors}");
    let told = status(&place)?;
    assert_eq!(
        told["untracking"],
        json!([{"path": "local.cfg", "on_disk": true}])
    );
    assert_eq!(
        (&told["clean"], &told["changes"]),
        (&json!(false), &json!([]))
    );
    place.fails(1, &["diff", "--exit-code"])?;
    // Edits of it are of no concern.
    place.write("local.cfg", "edited")?;
    assert_eq!(status(&place)?["changes"], json!([]));
    let done = place.json(&["commit", "-m", "untracked", "--json"])?;
    assert_eq!(done["untracked"], json!([{"path": "local.cfg"}]));
    assert_eq!(done["files"], json!(1));
    assert_eq!(files(&place, "@")?, ["a.txt", "d/e/y", "d/x"]);
    assert_eq!(read(&place, "local.cfg")?, "edited");
    // Nothing covers it, so it is new again.
    assert_eq!(
        status(&place)?["changes"],
        json!([{"path": "local.cfg", "change": "added"}])
    );
    // The undo of the commit notes the file again, and the next one forgets it.
    place.ok(&["undo"])?;
    assert_eq!(
        status(&place)?["untracking"].as_array().map(Vec::len),
        Some(1)
    );
    place.ok(&["undo"])?;
    assert_eq!(status(&place)?["untracking"], json!([]));
    assert_eq!(
        status(&place)?["changes"],
        json!([{"path": "local.cfg", "change": "modified"}])
    );
    place.ok(&["redo"])?;
    assert_eq!(
        status(&place)?["untracking"].as_array().map(Vec::len),
        Some(1)
    );

    place.ok(&["undo"])?;
    place.ok(&["restore", "local.cfg"])?;
    // Y adds the line that ignores the file in the same operation.
    place.write(".dmvignore", "*.tmp")?;
    place.commit("rules")?;
    let said = place.ok(&["rm", "--cached", "-y", "local.cfg"])?;
    assert!(said.contains("added to .dmvignore: /local.cfg"), "{said}");
    assert_eq!(read(&place, ".dmvignore")?, "*.tmp\n/local.cfg\n");
    place.ok(&["undo"])?;
    assert_eq!(read(&place, ".dmvignore")?, "*.tmp");
    assert_eq!(status(&place)?["clean"], json!(true));
    place.ok(&["redo"])?;
    place.commit("untracked")?;
    assert_eq!(status(&place)?["clean"], json!(true));
    assert_eq!(files(&place, "@")?, [".dmvignore", "a.txt", "d/e/y", "d/x"]);
    assert_eq!(read(&place, "local.cfg")?, "config");
    // A directory gets one line.
    let said = place.ok(&["rm", "--cached", "-r", "-y", "d"])?;
    assert!(said.contains("added to .dmvignore: /d/\n"), "{said}");
    place.commit("without d")?;
    assert_eq!(files(&place, "@")?, [".dmvignore", "a.txt"]);
    assert_eq!(read(&place, "d/e/y")?, "y");
    assert_eq!(status(&place)?["clean"], json!(true));
    Ok(())
}

#[test]
fn rm_removes_files_here_outside_of_the_subset_and_without_content() -> Outcome {
    let place = place()?;
    // In a clone without content files are removed and untracked.
    let (from, to) = (place.work(), place.dir.path().join("meta"));
    let (from, to) = (from.to_str().ok_or("path")?, to.to_str().ok_or("path")?);
    place.ok(&["clone", "--meta-only", from, to])?;
    place.ok(&["-C", to, "rm", "-r", "d"])?;
    place.ok(&["-C", to, "rm", "--cached", "local.cfg"])?;
    place.ok(&["-C", to, "commit", "-m", "less"])?;
    assert_eq!(place.ok(&["-C", to, "ls", "-r"])?, "a.txt\n");
    place.ok(&["-C", to, "verify"])?;

    // Files outside of the subset go by the note alone.
    place.ok(&["subset", "set", "d"])?;
    let said = place.ok(&["rm", "a.txt"])?;
    assert!(said.contains("outside of the subset"), "{said}");
    assert_eq!(
        status(&place)?["untracking"],
        json!([{"path": "a.txt", "on_disk": false}])
    );
    place.commit("removed")?;
    assert_eq!(files(&place, "@")?, ["d/e/y", "d/x", "local.cfg"]);
    place.ok(&["undo"])?;
    place.ok(&["undo"])?;
    assert_eq!(status(&place)?["clean"], json!(true));

    place.ok(&["subset", "clear"])?;
    // A directory needs r and untracked files in it stay.
    place.write("d/new", "mine")?;
    let errors = place.fails(2, &["rm", "d"])?;
    assert!(errors.contains("the option -r"), "{errors}");
    let done = place.json(&["rm", "-r", "d", "--json"])?;
    assert_eq!(done["removed"], json!([{"path": "d/e/y"}, {"path": "d/x"}]));
    assert!(exists(&place, "d/new") && !exists(&place, "d/e"));
    assert_eq!(
        place.ok(&["rm", "-r", "d"])?,
        "nothing to remove: these files are gone already\n"
    );
    let errors = place.fails(20, &["rm", "d/new"])?;
    assert!(errors.contains("'d/new' is not tracked"), "{errors}");
    place.fails(20, &["rm", "nosuch"])?;

    place.ok(&["undo"])?;
    fs::remove_file(place.work().join("d/new"))?;
    // Rm removes files and emptied directories and undo restores them.
    let said = place.ok(&["rm", "a.txt", "d/e/y"])?;
    assert_eq!(said, "removed a.txt\nremoved d/e/y\n");
    assert!(!exists(&place, "a.txt") && !exists(&place, "d/e") && exists(&place, "d/x"));
    // What dmv has removed is not told as deleted by the user.
    let undone = place.run(&["undo"])?;
    assert_eq!(String::from_utf8(undone.stderr)?, "");
    assert_eq!(
        (read(&place, "a.txt")?, read(&place, "d/e/y")?),
        ("one".into(), "y".into())
    );
    assert_eq!(status(&place)?["clean"], json!(true));
    place.ok(&["redo"])?;
    assert!(!exists(&place, "a.txt") && !exists(&place, "d/e"));
    place.commit("removed")?;
    assert_eq!(files(&place, "@")?, ["d/x", "local.cfg"]);
    place.write("d/x", "edited")?;
    let errors = place.fails(5, &["rm", "d/x"])?;
    assert!(
        errors.contains("this rm would lose uncommitted changes in d/x"),
        "{errors}"
    );
    let output = place.run(&["rm", "--force", "d/x"])?;
    assert_eq!(String::from_utf8(output.stdout)?, "removed d/x\n");
    let errors = String::from_utf8(output.stderr)?;
    assert!(errors.contains("to restore them: dmv undo"), "{errors}");
    Ok(())
}

#[test]
fn conflicts_ignored_files_and_pipes_are_removed_with_care() -> Outcome {
    let place = place()?;
    // Conflicts are removed but not untracked.
    place.write("rock.png", [0, 1, 2])?;
    place.commit("rock")?;
    place.ok(&["checkout", "-b", "side"])?;
    place.write("rock.png", [0, 1, 3])?;
    place.commit("theirs")?;
    place.ok(&["checkout", "main"])?;
    place.write("rock.png", [0, 1, 4])?;
    place.commit("ours")?;
    place.fails(4, &["merge", "side"])?;
    let errors = place.fails(5, &["rm", "--cached", "rock.png"])?;
    assert!(errors.contains("unresolved conflict"), "{errors}");
    place.ok(&["rm", "rock.png"])?;
    assert_eq!(status(&place)?["conflicts"], json!([]));
    place.commit("without the rock")?;
    assert_eq!(files(&place, "@")?, ["a.txt", "d/e/y", "d/x", "local.cfg"]);
    assert_eq!(status(&place)?["clean"], json!(true));

    // A tracked file that rules cover is named once when it is committed.
    place.write(".dmvignore", "*.cfg\nd/\n")?;
    place.commit("rules")?;
    let said = |place: &Place| -> Outcome<String> {
        let output = place.run(&["commit", "-m", "more"])?;
        Ok(String::from_utf8(output.stderr)?)
    };
    place.write("a.txt", "two")?;
    assert_eq!(said(&place)?, "");
    place.write("local.cfg", "two")?;
    let note = said(&place)?;
    assert_eq!(note.lines().count(), 1, "{note}");
    assert!(note.contains("dmv rm --cached local.cfg"), "{note}");
    place.write("local.cfg", "three")?;
    place.write("d/x", "three")?;
    place.write("d/e/y", "three")?;
    let note = said(&place)?;
    assert_eq!(note.lines().count(), 1, "{note}");
    assert!(note.contains("and 2 more"), "{note}");
    // Nothing is offered for what is ignored already.
    let output = place.run(&["rm", "--cached", "local.cfg"])?;
    assert_eq!(String::from_utf8(output.stderr)?, "");
    place.commit("untracked")?;
    assert_eq!(status(&place)?["clean"], json!(true));

    // A pipe in the place of a file is refused.
    let pipe = place.work().join("d/x");
    fs::remove_file(&pipe)?;
    let made = std::process::Command::new("mkfifo").arg(&pipe).status()?;
    assert!(made.success());
    for args in [
        &["rm", "d/x"][..],
        &["rm", "-f", "d/x"],
        &["mv", "-f", "a.txt", "d/x"],
        &["mv", "d/x", "y"],
    ] {
        let said = place.fails(20, args)?;
        assert!(
            said.contains("'d/x' is not a regular file"),
            "{args:?}: {said}"
        );
    }
    assert!(place.work().join("a.txt").exists() && pipe.exists());
    Ok(())
}
