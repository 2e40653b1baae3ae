//! What commands overwrite on request comes back by undo.

use crate::place::files::read;
use crate::place::{Outcome, Place};
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::symlink;

#[test]
fn more_than_is_kept_is_overwritten_only_after_a_yes() -> Outcome {
    let place = Place::with_repository()?;
    place.write("f", "one")?;
    place.commit("one")?;
    place.write("f", "x".repeat(2000))?;
    place.ok(&["config", "set", "undo.keep-max-size", "1.5KB"])?;
    let errors = place.fails(5, &["restore", "f"])?;
    assert!(
        errors.contains("undo.keep-max-size") && errors.contains("-y"),
        "{errors}"
    );
    assert_eq!(read(&place, "f")?.len(), 2000);
    let errors = place.fails(5, &["checkout", "--force", "main"])?;
    assert!(errors.contains("undo.keep-max-size"), "{errors}");
    let told = place.json(&["-y", "restore", "f", "--json"])?;
    assert_eq!(told["overwritten"]["kept"], false);
    assert_eq!(read(&place, "f")?, "one");
    place.write("f", "x".repeat(1400))?;
    symlink("f", place.work().join("link"))?;
    place.ok(&["commit", "-m", "link", "link"])?;
    fs::remove_file(place.work().join("link"))?;
    symlink("elsewhere", place.work().join("link"))?;
    let told = place.json(&["restore", ".", "--json"])?;
    let bytes = 1400 + "elsewhere".len();
    let told = &told["overwritten"];
    assert_eq!(*told, json!({"files": 2, "bytes": bytes, "kept": true}));
    let undone = place.json(&["undo", "--json"])?;
    assert_eq!(undone["command"], "dmv restore . --json");
    assert_eq!(read(&place, "f")?.len(), 1400);
    place.fails(20, &["config", "set", "undo.keep-max-size", "much"])?;
    Ok(())
}

/// A repository with two commits and more uncommitted bytes in `f` than an undo keeps.
fn with_too_much() -> Outcome<Place> {
    let place = Place::with_repository()?;
    place.ok(&["config", "set", "undo.keep-max-size", "1KB"])?;
    place.write("f", "one")?;
    place.commit("one")?;
    place.write("g", "two")?;
    place.commit("two")?;
    place.write("f", "x".repeat(2000))?;
    Ok(place)
}

#[test]
fn undo_takes_back_nothing_else_when_what_was_overwritten_was_too_large_to_keep() -> Outcome {
    let place = with_too_much()?;
    let log = place.ok(&["log", "--json"])?;
    for command in [
        &["restore", "f"][..],
        &["checkout", "--force", "main"],
        &["reset", "--hard"],
        &["rm", "--force", "f"],
    ] {
        place.write("f", "x".repeat(2000))?;
        place.ok(&[&["-y"], command].concat())?;
        let name = command.join(" ");
        let errors = place.fails(5, &["undo"])?;
        assert!(errors.contains("too large to keep"), "{name}: {errors}");
        assert!(errors.contains(&format!("dmv -y {name}")), "{errors}");
        let id = errors.split(" dmv undo ").nth(1).unwrap_or_default();
        let id = id.split(',').next().unwrap_or_default();
        assert_eq!(place.ok(&["log", "--json"])?, log, "{name}");
        // Now the user goes past it.
        place.ok(&["undo", id])?;
        if command == ["restore", "f"] {
            assert!(errors.contains(": dmv commit -m two"), "{name}: {errors}");
            assert_ne!(place.ok(&["log", "--json"])?, log, "{name}");
        }
        place.ok(&["redo"])?;
        assert_eq!(place.ok(&["log", "--json"])?, log, "{name}");
        let errors = place.fails(5, &["undo"])?;
        assert!(errors.contains("too large to keep"), "{name}: {errors}");
    }
    place.ok(&["verify", "--full"])?;

    // An undo says what of an operation does not come back.
    place.ok(&["restore", "f"])?;
    place.write("f", "x".repeat(2000))?;
    place.ok(&["-y", "checkout", "--force", "-b", "side"])?;
    let undone = place.run(&["undo"])?;
    let told = String::from_utf8(undone.stderr)?;
    assert!(told.contains("1 file (2.0 KiB)"), "{told}");
    assert!(told.contains("do not come back"), "{told}");
    place.ok(&["worktree", "add", "../side"])?;
    place.write("../side/f", "x".repeat(2000))?;
    place.ok(&["-y", "worktree", "remove", "--force", "../side"])?;
    let undone = place.run(&["undo", "--json"])?;
    let told = String::from_utf8(undone.stderr)?;
    assert!(told.contains("do not come back"), "{told}");
    assert_eq!(read(&place, "../side/f")?, "one");
    Ok(())
}

#[test]
fn undo_brings_back_a_worktree_that_was_removed_by_force() -> Outcome {
    let place = Place::with_repository()?;
    place.write("f", "one")?;
    place.write("d/a", "one")?;
    place.write("x", "one")?;
    place.write(".dmvignore", "*.tmp\n")?;
    place.commit("one")?;
    place.ok(&["worktree", "add", "../side"])?;
    let side = place.work().join("../side");
    fs::write(side.join("f"), "edited")?;
    fs::write(side.join("new"), "untracked")?;
    fs::create_dir_all(side.join("cache.tmp/deep"))?;
    fs::write(side.join("cache.tmp/deep/file"), "ignored")?;
    // A file in place of a directory, and the reverse.
    fs::remove_dir_all(side.join("d"))?;
    fs::write(side.join("d"), "file")?;
    fs::remove_file(side.join("x"))?;
    fs::create_dir(side.join("x"))?;
    fs::write(side.join("x/y"), "dir")?;
    place.ok(&["worktree", "remove", "--force", "../side"])?;
    assert!(!side.exists());
    place.ok(&["verify", "--full"])?;
    place.ok(&["undo"])?;
    for (path, content) in [
        ("f", "edited"),
        ("new", "untracked"),
        ("cache.tmp/deep/file", "ignored"),
        ("d", "file"),
        ("x/y", "dir"),
    ] {
        assert_eq!(fs::read_to_string(side.join(path))?, content, "{path}");
    }
    // What cannot be kept is removed only after a yes.
    fs::create_dir_all(side.join("sub/.git"))?;
    fs::write(side.join("sub/.git/HEAD"), "x")?;
    let errors = place.fails(5, &["worktree", "remove", "--force", "../side"])?;
    assert!(
        errors.contains("cannot keep it for undo") && side.join("new").exists(),
        "{errors}"
    );
    place.ok(&["-y", "worktree", "remove", "--force", "../side"])?;
    assert!(!side.exists());
    Ok(())
}

#[test]
fn a_commit_is_counted_and_named_and_what_cannot_be_kept_stops_a_restore() -> Outcome {
    let place = Place::with_repository()?;
    // A commit counts files in directories and moved ones once.
    for n in 0..30 {
        place.write(format!("d/sub{}/{n}", n % 3), format!("file {n}"))?;
    }
    place.write("other", "x")?;
    place.commit("made")?;
    let files = |message: &str| -> Outcome<Value> {
        Ok(place.json(&["commit", "-m", message, "--json"])?["files"].clone())
    };
    fs::rename(place.work().join("d/sub0"), place.work().join("moved"))?;
    assert_eq!(files("moved")?, 10);
    fs::remove_dir_all(place.work().join("d"))?;
    assert_eq!(files("gone")?, 20);
    fs::remove_dir_all(place.work().join("moved"))?;
    place.write("moved", "a file")?;
    assert_eq!(files("a file in its place")?, 11);

    // A commit that is on no branch is named when it is left.
    place.write("f", "one")?;
    let one = place.commit("one")?;
    place.ok(&["checkout", &one])?;
    place.write("f", "two")?;
    let two = place.commit("two")?;
    let said = |args: &[&str]| -> Outcome<String> {
        let output = place.run(args)?;
        assert!(output.status.success());
        Ok(String::from_utf8(output.stderr)?)
    };
    let hint = format!("dmv branch NAME {}", &two[..12]);
    let text = said(&["checkout", "main"])?;
    assert!(text.contains(&hint), "{text}");
    place.ok(&["branch", "kept", &two])?;
    place.ok(&["checkout", &two])?;
    assert!(!said(&["checkout", "main"])?.contains("on no branch"));

    // What cannot be kept in a directory stops the file in its place.
    fs::remove_file(place.work().join("f"))?;
    place.write("f/sub/.git/HEAD", "another repository")?;
    place.write("f/x", "mine")?;
    for args in [
        &["restore", "f"][..],
        &["-y", "restore", "f"],
        &["checkout", "--force", "main"],
    ] {
        let errors = place.fails(5, args)?;
        assert!(errors.contains("f/sub/.git"), "{errors}");
        assert_eq!(read(&place, "f/sub/.git/HEAD")?, "another repository");
        assert_eq!(read(&place, "f/x")?, "mine");
    }
    Ok(())
}
