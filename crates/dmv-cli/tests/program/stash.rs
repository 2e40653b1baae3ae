//! Stashes, as a user makes and brings them back.

// A test says aloud that it was skipped.
#![allow(clippy::print_stdout)]

use crate::place::files::{changes, exists, lines, paths, read};
use crate::place::several::several;
use crate::place::{Outcome, Place, has_strace};
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::PermissionsExt;

/// A commit, and changes of every sort.
fn place() -> Outcome<Place> {
    let place = Place::with_repository()?;
    place.write("a", lines(&[]))?;
    place.write("gone", "gone")?;
    place.write("script", "#!/bin/sh\n")?;
    place.write("d/same", "same")?;
    place.commit("base")?;
    place.write("a", lines(&[(2, "two")]))?;
    fs::remove_file(place.work().join("gone"))?;
    let mode = fs::Permissions::from_mode(0o755);
    fs::set_permissions(place.work().join("script"), mode)?;
    place.write("new/file", "new")?;
    Ok(place)
}

#[test]
fn a_stash_takes_all_changes_and_stashes_are_named_by_their_numbers() -> Outcome {
    let place = place()?;
    // A stash takes all changes and a pop brings them back.
    let before = changes(&place)?;
    assert_eq!(before.len(), 4);
    let done = place.json(&["stash", "-m", "half", "--json"])?;
    assert_eq!(done["stash"]["message"], "on main: half");
    assert_eq!(changes(&place)?, []);
    assert_eq!(read(&place, "a")?, lines(&[]));
    assert!(exists(&place, "gone") && !exists(&place, "new"));
    assert_eq!(place.ok(&["stash", "list"])?, "stash@{0}: on main: half\n");
    let shown = place.ok(&["stash", "show"])?;
    assert!(
        shown.contains("+two") && shown.contains("new/file"),
        "{shown}"
    );
    place.ok(&["stash", "pop"])?;
    assert_eq!(changes(&place)?, before);
    assert_eq!(read(&place, "a")?, lines(&[(2, "two")]));
    assert_eq!(place.ok(&["stash", "list"])?, "");
    assert_eq!(place.ok(&["stash", "list", "--json"])?, "");
    place.ok(&["verify", "--full"])?;

    // Stashes are named by their numbers.
    let said = place.fails(20, &["stash", "push", "nosuch"])?;
    assert!(said.contains("nosuch"), "{said}");
    place.ok(&["stash", "push", "-m", "text", "a"])?;
    place.ok(&["stash", "push", "new"])?;
    let list = place.ok(&["stash", "list"])?;
    assert_eq!(list.lines().nth(1), Some("stash@{1}: on main: text"));
    place.ok(&["stash", "pop", "stash@{1}"])?;
    assert_eq!(read(&place, "a")?, lines(&[(2, "two")]));
    assert!(!exists(&place, "new"));
    place.ok(&["stash", "pop", "0"])?;
    assert_eq!(read(&place, "new/file")?, "new");
    let said = place.fails(20, &["stash", "pop"])?;
    assert!(said.contains("nothing is stashed"), "{said}");
    let said = place.fails(2, &["stash", "pop", "stash@{x}"])?;
    assert!(said.contains("stash@{0}"), "{said}");

    // Without changes there is nothing to stash, and without a commit nothing that changed.
    place.write(".dmvignore", "*.tmp\n")?;
    place.commit("all")?;
    assert_eq!(place.ok(&["stash"])?, "no changes to stash\n");
    place.write("x.tmp", "ignored")?;
    assert_eq!(place.json(&["stash", "--json"])?["stash"], json!(null));
    assert!(exists(&place, "x.tmp"));
    place.ok(&["init", "../new"])?;
    place.write("../new/f", "f")?;
    place.fails(20, &["-C", "../new", "stash"])?;
    Ok(())
}

/// A pop that has left markers in `a`, and a version of `b.bin` beside it. `d/same` is an edit.
fn popped_with_conflicts() -> Outcome<Place> {
    let place = place()?;
    place.write("b.bin", b"\0theirs")?;
    place.ok(&["stash"])?;
    place.write("a", lines(&[(2, "zwei")]))?;
    place.write("b.bin", b"\0ours")?;
    place.write("d/same", "edited")?;
    let output = place.run(&["stash", "pop", "--json"])?;
    assert_eq!(output.status.code(), Some(4));
    let done: Value = serde_json::from_slice(&output.stdout)?;
    assert_eq!(done["dropped"], json!(false));
    assert_eq!(paths(&done["conflicts"]), ["a", "b.bin"]);
    assert_eq!(place.records(&["stash", "list", "--json"])?.len(), 1);
    let text = read(&place, "a")?;
    assert!(text.contains("zwei\n") && text.contains("two\n"), "{text}");
    Ok(place)
}

/// The files at the top of a worktree.
fn texts(place: &Place) -> Outcome<Vec<(String, String)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(place.work())? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if entry.file_type()?.is_file() {
            found.push((
                name,
                String::from_utf8_lossy(&fs::read(entry.path())?).into_owned(),
            ));
        }
    }
    found.sort();
    Ok(found)
}

#[test]
fn a_pop_with_conflicts_that_was_cut_off_begins_anew() -> Outcome {
    if !has_strace() {
        dmv_random::skip("strace is not installed");
        return Ok(());
    }
    let wanted = texts(&popped_with_conflicts()?)?;
    let mut half_done = 0;
    // Locks fail from the n-th on, so that the command ends at different points.
    for n in 14.. {
        let place = popped_with_conflicts()?;
        place.ok(&["undo"])?;
        let inject = format!("inject=flock:error=EIO:when={n}+");
        let options = ["-f", "-qq", "-o", "/dev/null", "-e", "trace=flock", "-e"];
        let mut command = place.traced(&[&options[..], &[&inject]].concat(), &["stash", "pop"]);
        if command.output()?.status.code() == Some(4) {
            break;
        }
        half_done += u64::from(texts(&place)? == wanted);
        place.fails(4, &["stash", "pop"])?;
        assert_eq!(texts(&place)?, wanted, "cut off at lock {n}");
    }
    assert!(half_done > 0);
    Ok(())
}

#[test]
fn a_commit_leaves_out_what_still_shows_the_conflicts_of_a_pop() -> Outcome {
    let place = popped_with_conflicts()?;
    let all = [
        "a",
        "a.base",
        "a.ours",
        "a.theirs",
        "b.bin",
        "b.ours.bin",
        "b.theirs.bin",
    ];
    assert_eq!(paths(&place.json(&["status", "--json"])?["markers"]), all);
    let text = read(&place, "a")?;
    let output = place.run(&["commit", "-m", "the rest", "--json"])?;
    assert_eq!(output.status.code(), Some(4));
    let done: Value = serde_json::from_slice(&output.stdout)?;
    assert_eq!(
        done["markers"],
        json!([{"path": "a", "line": 2}, {"path": "b.bin", "line": null}])
    );
    // Only these are left, and as they were.
    assert_eq!(read(&place, "a")?, text);
    let left = place.json(&["status", "--json"])?;
    assert_eq!(left["changes"], json!([]));
    assert_eq!(paths(&left["markers"]), all);
    assert_eq!(paths(&left["conflicts"]), ["a", "b.bin"]);
    let said = place.fails(4, &["commit", "-m", "again"])?;
    assert!(said.contains("a:2 ") && said.contains("b.bin"), "{said}");
    assert_eq!(place.records(&["log", "--json"])?.len(), 2);
    // A commit of other paths says nothing about them.
    place.write("d/same", "edited again")?;
    place.ok(&["commit", "-m", "elsewhere", "d"])?;
    // What is settled is committed, and lines that only look like markers are.
    place.write("a", "<<<<<<<< ours\n<<<<<<<_\nboth\n")?;
    let status = place.json(&["status", "--json"])?;
    assert_eq!(paths(&status["settled"]), ["a"]);
    assert_eq!(paths(&status["markers"]), all[4..]);
    place.ok(&["commit", "-m", "one is settled", "a"])?;
    assert_eq!(changes(&place)?, []);
    assert_eq!(
        paths(&place.json(&["status", "--json"])?["markers"]),
        all[4..]
    );
    fs::remove_file(place.work().join("b.ours.bin"))?;
    fs::rename(
        place.work().join("b.theirs.bin"),
        place.work().join("b.bin"),
    )?;
    place.commit("theirs")?;
    assert_eq!(changes(&place)?, []);
    // Once settled, the file may have any line.
    place.write("a", text)?;
    place.commit("markers on purpose")?;
    place.ok(&["verify", "--full"])?;
    Ok(())
}

#[test]
fn an_undo_takes_back_the_guard_and_a_flag_passes_it() -> Outcome {
    let place = popped_with_conflicts()?;
    let text = read(&place, "a")?;
    // Put aside, the markers stay what they are.
    place.ok(&["stash"])?;
    place.ok(&["stash", "pop"])?;
    place.fails(4, &["commit", "-m", "no", "a"])?;
    place.ok(&["commit", "-m", "as it is", "--allow-markers"])?;
    assert_eq!(changes(&place)?, []);
    assert_eq!(read(&place, "a")?, text);
    place.ok(&["undo"])?;
    place.fails(4, &["commit", "-m", "guarded again"])?;
    // Before the pop they are lines like any other.
    for _ in 0..4 {
        place.ok(&["undo"])?;
    }
    place.write("a", &text)?;
    place.commit("these lines are the user's own")?;
    Ok(())
}

#[test]
fn a_stash_is_sent_on_request_alone_applied_elsewhere_and_kept_by_a_recovery() -> Outcome {
    let place = several()?;
    place.ok(&["clone", "--bare", "film", "nas"])?;
    place.ok(&["-C", "film", "remote", "add", "nas", "../nas"])?;
    let ssh = format!("ssh://host{}", place.work().join("nas").display());
    place.ok(&["clone", &ssh, "other"])?;
    place.write("film/shots/1", "put aside")?;
    place.write("film/new", "new")?;
    place.ok(&["-C", "film", "stash", "-m", "half"])?;
    place.write("film/shots/2", "second")?;
    place.ok(&["-C", "film", "stash"])?;
    // Nothing else sends it.
    place.ok(&["-C", "film", "push", "nas"])?;
    place.ok(&["-C", "film", "sync", "nas"])?;
    assert_eq!(place.records(&["-C", "nas", "branch", "--json"])?.len(), 1);
    place.fails(20, &["-C", "film", "push", "nas", "stash@{2}"])?;
    let sent = place.json(&["-C", "film", "push", "nas", "stash@{1}", "--json"])?;
    let name = sent["refs"][0]["name"].as_str().ok_or("a name")?.to_owned();
    assert!(name.starts_with("stash/"), "{sent}");
    place.ok(&["-C", "film", "push", "nas", "stash"])?;
    place.ok(&["-C", "other", "fetch"])?;
    let from = format!("origin/{name}");
    let shown = place.ok(&["-C", "other", "stash", "show", &from, "--stat"])?;
    assert!(
        shown.contains("new") && shown.contains("shots/1"),
        "{shown}"
    );
    place.write("other/shots/3", "mine")?;
    let done = place.json(&["-C", "other", "stash", "apply", &from, "--json"])?;
    assert_eq!(done["stash"]["message"], json!("on main: half"));
    assert_eq!(
        (read(&place, "other/shots/1")?, read(&place, "other/new")?),
        ("put aside".into(), "new".into())
    );
    place.ok(&["-C", "other", "undo"])?;
    assert!(!exists(&place, "other/new"));
    assert_eq!(read(&place, "other/shots/3")?, "mine");
    // A pull takes nothing of it, and the remote forgets it on request.
    place.ok(&["-C", "other", "pull"])?;
    place.ok(&["-C", "film", "push", "nas", "--force", "--delete", &name])?;
    place.ok(&["-C", "nas", "verify", "--full"])?;
    // No clone has it, and a recovery keeps it.
    place.ok(&["clone", "film", "copy"])?;
    assert_eq!(place.ok(&["-C", "copy", "stash", "list"])?, "");
    for name in ["refs.db", "refs.db-wal", "refs.db-shm"] {
        let file = place.work().join("film/.dmv").join(name);
        if file.exists() {
            fs::remove_file(file)?;
        }
    }
    place.ok(&["-C", "film", "recover"])?;
    place.ok(&["-C", "film", "stash", "pop", "1"])?;
    assert_eq!(read(&place, "film/shots/1")?, "put aside");
    place.ok(&["-C", "film", "verify", "--full"])?;
    Ok(())
}

#[test]
fn a_stash_asks_for_the_content_that_it_lacks_before_anything_changes() -> Outcome {
    let place = Place::new()?;
    place.ok(&["init", "full"])?;
    for path in ["a", "b"] {
        place.write(format!("full/{path}"), lines(&[]))?;
    }
    place.ok(&["-C", "full", "commit", "-m", "one"])?;
    place.ok(&["clone", "full", "meta", "--meta-only"])?;
    // A part of the files is here.
    place.ok(&["-C", "meta", "subset", "set", "a"])?;
    let away = |away: bool| {
        let (full, there) = (place.work().join("full"), place.work().join("away"));
        if away {
            fs::rename(full, there)
        } else {
            fs::rename(there, full)
        }
    };
    let state = || -> Outcome<(String, serde_json::Value, String)> {
        let operations = place.ok(&["-C", "meta", "op", "log"])?;
        let status = place.json(&["-C", "meta", "status", "--json"])?;
        Ok((
            operations,
            status,
            fs::read_to_string(place.work().join("meta/a"))?,
        ))
    };
    // The file goes back to content that was dropped here: only a remote has it.
    place.write("meta/a", lines(&[(2, "two")]))?;
    place.ok(&["-C", "meta", "drop", "a"])?;
    let before = state()?;
    away(true)?;
    let said = place.fails(6, &["-C", "meta", "stash"])?;
    assert!(said.contains("'a'") && said.contains("origin"), "{said}");
    assert_eq!(state()?, before);
    away(false)?;
    place.ok(&["-C", "meta", "stash"])?;
    assert_eq!(state()?.2, lines(&[]));
    // The change meets another one, which a remote has.
    place.write("full/a", lines(&[(8, "eight")]))?;
    place.ok(&["-C", "full", "commit", "-m", "two"])?;
    place.ok(&["-C", "meta", "pull"])?;
    place.ok(&["-C", "meta", "stash", "pop"])?;
    assert_eq!(state()?.2, lines(&[(2, "two"), (8, "eight")]));
    place.ok(&["-C", "meta", "undo"])?;
    assert_eq!(state()?.2, lines(&[(8, "eight")]));
    place.ok(&["-C", "meta", "verify"])?;
    Ok(())
}
