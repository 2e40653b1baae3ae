//! What a command should have removed and could not: it belongs to no commit that follows, every
//! command tells it from the user's work, and a restore removes it once that is possible. And the
//! directories that somebody is in, which no command removes.

use crate::place::{Outcome, Place};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Output;

/// Who is refused by permissions, where root runs the tests.
const OTHER: u32 = 54_321;

/// Runs the program in a directory of the worktree, as somebody whom permissions bind.
fn bound(place: &Place, dir: &str, args: &[&str]) -> Outcome<Output> {
    let mut command = place.command(args);
    command.current_dir(place.work().join(dir));
    if rustix::process::geteuid().is_root() {
        give_to_other(place.dir.path())?;
        command.uid(OTHER).gid(OTHER);
    }
    Ok(command.output()?)
}

/// Gives everything to the other user.
fn give_to_other(top: &Path) -> Outcome {
    let mut paths: Vec<PathBuf> = vec![top.to_owned()];
    while let Some(path) = paths.pop() {
        std::os::unix::fs::lchown(&path, Some(OTHER), Some(OTHER))?;
        if fs::symlink_metadata(&path)?.is_dir() {
            for entry in fs::read_dir(&path)? {
                paths.push(entry?.path());
            }
        }
    }
    Ok(())
}

/// The same, with this exit code. Returns the outputs together.
fn ends(place: &Place, exit: i32, args: &[&str]) -> Outcome<String> {
    ends_in(place, "", exit, args)
}

fn ends_in(place: &Place, dir: &str, exit: i32, args: &[&str]) -> Outcome<String> {
    let output = bound(place, dir, args)?;
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8(said)?;
    assert_eq!(output.status.code(), Some(exit), "{args:?}: {said}");
    Ok(said)
}

/// The changed paths, and those that were not written.
fn states(place: &Place) -> Outcome<(Vec<String>, Vec<String>)> {
    let output = bound(place, "", &["status", "--json"])?;
    let status: Value = serde_json::from_slice(&output.stdout)?;
    let paths = |list: &Value| -> Vec<String> {
        let list = list.as_array().into_iter().flatten();
        list.filter_map(|one| Some(one["path"].as_str()?.to_owned()))
            .collect()
    };
    Ok((paths(&status["changes"]), paths(&status["not_written"])))
}

fn assert_states(place: &Place, changes: &[&str], not_written: &[&str]) -> Outcome {
    let (changed, left) = states(place)?;
    assert_eq!((changed, left), {
        let own = |list: &[&str]| list.iter().map(|one| one.to_string()).collect::<Vec<_>>();
        (own(changes), own(not_written))
    });
    Ok(())
}

fn allow(place: &Place, dirs: &[&str], mode: u32) -> Outcome {
    for dir in dirs {
        fs::set_permissions(place.work().join(dir), fs::Permissions::from_mode(mode))?;
    }
    Ok(())
}

fn names(place: &Place) -> Outcome<String> {
    ends(place, 0, &["ls", "-r", "@"])
}

/// On `main` there are `d/keep` and `k`; the commit before also has `d/a`, `d/e/f` and `g/h/i`.
fn with_files_to_remove() -> Outcome<Place> {
    let place = Place::with_repository()?;
    for path in ["d/a", "d/e/f", "d/keep", "g/h/i", "k"] {
        place.write(path, path)?;
    }
    place.commit("one")?;
    for gone in ["d/a", "d/e", "g"] {
        let path = place.work().join(gone);
        if path.is_dir() {
            fs::remove_dir_all(path)?;
        } else {
            fs::remove_file(path)?;
        }
    }
    place.write("k", "two")?;
    place.commit("two")?;
    place.ok(&["checkout", "@~1"])?;
    Ok(place)
}

#[test]
fn what_a_checkout_could_not_remove_is_left_over_until_a_restore_removes_it() -> Outcome {
    let place = with_files_to_remove()?;
    let closed = ["d/e", "d", "g/h"];
    allow(&place, &closed, 0o555)?;
    let said = ends(&place, 3, &["checkout", "main"])?;
    assert!(said.contains("not written: d/a: "), "{said}");
    assert!(
        said.contains("hint: when that is mended: dmv restore d/a"),
        "{said}"
    );
    let left = ["d/a", "d/e/f", "g/h/i"];
    assert_states(&place, &[], &left)?;
    assert_eq!(ends(&place, 0, &["diff"])?, "");
    // New files beside them are committed; they are not, not even by their names.
    allow(&place, &["d"], 0o755)?;
    place.write("d/new", "new")?;
    allow(&place, &["d"], 0o555)?;
    assert_states(&place, &["d/new"], &left)?;
    ends(&place, 3, &["commit", "-m", "three"])?;
    ends(&place, 3, &["commit", "-m", "by name", "d/a", "g"])?;
    assert_eq!(names(&place)?, "d/keep\nd/new\nk\n");
    // As long as the cause is there, a restore fails in the same way and forgets nothing.
    for hint in ["d/a", "d", "."] {
        let said = ends(&place, 3, &["restore", hint])?;
        assert!(said.contains("not written: d/a: "), "{said}");
        assert_states(&place, &[], &left)?;
    }
    // A restore from another commit writes what that commit has, and nothing else.
    allow(&place, &closed, 0o755)?;
    ends(&place, 0, &["restore", "d/a"])?;
    assert_states(&place, &[], &left[1..])?;
    ends(&place, 0, &["restore", "d", "g/h"])?;
    assert_states(&place, &[], &[])?;
    assert!(!place.work().join("d/e").exists() && !place.work().join("g").exists());
    // What the user brings back later is an edit.
    ends(&place, 0, &["restore", "--from", "@~2", "d/a"])?;
    assert_states(&place, &["d/a"], &[])?;
    Ok(())
}

/// A left-over is nothing that somebody has edited: no command says so, and no undo makes an edit of it.
#[test]
fn what_replaces_a_left_over_overwrites_no_edits() -> Outcome {
    let commands: [&[&str]; 6] = [
        &["restore", "d/a"],
        &["restore", "."],
        &["restore", "--from", "@~1", "d/a"],
        &["rm", "d/a"],
        &["mv", "--force", "k", "d/a"],
        &["mv", "--force", "k", "gone/b"],
    ];
    for args in commands {
        let place = Place::with_repository()?;
        for path in ["d/a", "gone/b", "k"] {
            place.write(path, "one")?;
        }
        place.commit("one")?;
        place.write("d/a", "two")?;
        fs::remove_dir_all(place.work().join("gone"))?;
        place.commit("two")?;
        place.ok(&["checkout", "@~1"])?;
        allow(&place, &["d", "gone"], 0o555)?;
        ends(&place, 3, &["checkout", "main"])?;
        assert_states(&place, &[], &["d/a", "gone/b"])?;
        allow(&place, &["d", "gone"], 0o755)?;
        let said = ends(&place, 0, args)?;
        assert!(!said.contains("overwrote"), "{args:?}: {said}");
        ends(&place, 0, &["undo"])?;
        let edits = states(&place)?.0;
        let is_left_over = edits.iter().all(|path| path == "gone/b");
        assert!(is_left_over, "{args:?}: {edits:?}");
    }
    Ok(())
}

#[test]
fn left_overs_stay_out_of_stashes_merges_and_commits() -> Outcome {
    let place = with_files_to_remove()?;
    // A stash a merge and a reset leave left overs alone.
    allow(&place, &["d/e", "d", "g/h"], 0o555)?;
    ends(&place, 3, &["checkout", "main"])?;
    let left = ["d/a", "d/e/f", "g/h/i"];
    place.write("k", "edited")?;
    ends(&place, 3, &["stash"])?;
    assert_states(&place, &[], &left)?;
    ends(&place, 0, &["stash", "pop"])?;
    assert_states(&place, &["k"], &left)?;
    ends(&place, 3, &["reset", "--hard"])?;
    assert_states(&place, &[], &left)?;
    allow(&place, &["d/e", "d", "g/h"], 0o755)?;
    ends(&place, 0, &["reset", "--hard"])?;
    assert_states(&place, &[], &[])?;
    assert!(!place.work().join("g").exists() && !place.work().join("d/a").exists());

    ends(&place, 0, &["checkout", "main~1"])?;
    // A directory that could not be removed is not committed.
    // The files in it go, but not the directory.
    allow(&place, &["d", "g"], 0o555)?;
    let said = ends(&place, 3, &["checkout", "main"])?;
    assert!(said.contains("not written: d/e: "), "{said}");
    assert!(!place.work().join("d/e/f").exists());
    assert_states(&place, &[], &["d/a", "d/e", "g/h"])?;
    place.write("k", "three")?;
    ends(&place, 3, &["commit", "-m", "three"])?;
    assert_eq!(names(&place)?, "d/keep\nk\n");
    // What the user puts there is the user's.
    place.write("g/h/mine", "mine")?;
    assert_states(&place, &["g/h/mine"], &["d/a", "d/e"])?;
    ends(&place, 3, &["commit", "-m", "four"])?;
    assert_eq!(names(&place)?, "d/keep\ng/h/mine\nk\n");
    allow(&place, &["d", "g"], 0o755)?;
    ends(&place, 0, &["restore", "d/e", "d/a"])?;
    assert_states(&place, &[], &[])?;
    assert!(!place.work().join("d/e").exists());
    Ok(())
}

#[test]
fn a_file_where_a_directory_must_be_and_the_reverse_are_no_deletions() -> Outcome {
    let place = Place::with_repository()?;
    for path in ["p/s", "p/t/x", "k"] {
        place.write(path, path)?;
    }
    place.commit("one")?;
    let p = place.work().join("p");
    fs::rename(p.join("s"), p.join("u"))?;
    fs::rename(p.join("t"), p.join("s"))?;
    fs::rename(p.join("u"), p.join("t"))?;
    place.commit("two")?;
    place.ok(&["checkout", "@~1"])?;
    // Neither can `p/s` go, nor anything come.
    allow(&place, &["p"], 0o555)?;
    ends(&place, 3, &["checkout", "main"])?;
    assert_eq!(states(&place)?.0, [""; 0]);
    place.write("k", "edited")?;
    ends(&place, 3, &["commit", "-m", "three"])?;
    assert_eq!(names(&place)?, "k\np/s/x\np/t\n");
    allow(&place, &["p"], 0o755)?;
    ends(&place, 0, &["restore", "."])?;
    assert_states(&place, &[], &[])?;
    assert_eq!(fs::read_to_string(p.join("s/x"))?, "p/t/x");
    assert_eq!(fs::read_to_string(p.join("t"))?, "p/s");
    Ok(())
}

#[test]
fn no_command_removes_the_directory_that_one_is_in() -> Outcome {
    let place = with_files_to_remove()?;
    ends_in(&place, "g/h", 0, &["checkout", "main"])?;
    assert!(place.work().join("g/h").is_dir() && !place.work().join("g/h/i").exists());
    assert!(!place.work().join("d/e").exists());
    ends_in(&place, "g/h", 0, &["status"])?;
    assert_states(&place, &[], &["g/h"])?;
    place.write("k", "three")?;
    ends_in(&place, "g/h", 0, &["commit", "-m", "three"])?;
    assert_eq!(names(&place)?, "d/keep\nk\n");
    let said = ends_in(&place, "g/h", 3, &["restore", "."])?;
    assert!(
        said.contains("not written: g/h: it is the current directory"),
        "{said}"
    );
    // Elsewhere, the next switch removes it.
    ends(&place, 0, &["checkout", "main"])?;
    assert!(!place.work().join("g").exists());
    // The shell's directory counts, and the one that `-C` names.
    for (dir, to) in [("g/h", "../.."), ("d/e", "../../g/h")] {
        ends(&place, 0, &["checkout", "main~2"])?;
        ends_in(&place, dir, 0, &["-C", to, "reset", "--hard", "main"])?;
        assert!(place.work().join(dir).is_dir());
        assert!(place.work().join(dir).join(to).is_dir());
        ends(&place, 0, &["restore", "."])?;
        assert!(!place.work().join("g").exists() && !place.work().join("d/e").exists());
    }
    Ok(())
}
