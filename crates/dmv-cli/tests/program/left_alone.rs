//! Uncommitted states that a command finds as its target has them: the undo leaves them there.

use crate::place::files::{changes, exists, read};
use crate::place::{Outcome, Place};
use std::fs;

fn change(path: &str, how: &str) -> (String, String) {
    (path.to_owned(), how.to_owned())
}

/// `one` has `a` and `gone`. `two` changes `a`, adds `b` and removes `gone`. The worktree is on `one`
/// with all of this uncommitted.
fn uncommitted() -> Outcome<Place> {
    let place = Place::with_repository()?;
    place.write("a", "one")?;
    place.write("gone", "gone")?;
    place.write("d/x", "x")?;
    place.commit("one")?;
    place.write("a", "two")?;
    place.write("d/b", "b")?;
    fs::remove_file(place.work().join("gone"))?;
    place.commit("two")?;
    place.ok(&["tag", "two"])?;
    place.ok(&["reset", "@~1"])?;
    Ok(place)
}

#[test]
fn an_undo_leaves_edits_that_equal_the_target() -> Outcome {
    let all = [
        change("a", "modified"),
        change("d/b", "added"),
        change("gone", "deleted"),
    ];
    for command in [
        "merge two",
        "rebase two",
        "cherry-pick two",
        "checkout two",
        "checkout --force two",
        "reset --hard two",
    ] {
        let place = uncommitted()?;
        assert_eq!(changes(&place)?, all);
        let args: Vec<&str> = command.split(' ').collect();
        place.ok(&args)?;
        assert_eq!(changes(&place)?, [], "{command}");
        for _ in 0..2 {
            place.ok(&["undo"])?;
            assert_eq!(changes(&place)?, all, "{command}");
            assert_eq!(
                (read(&place, "a")?, read(&place, "d/b")?),
                ("two".into(), "b".into())
            );
            assert!(!exists(&place, "gone"), "{command}");
            place.ok(&["redo"])?;
            assert_eq!(changes(&place)?, [], "{command}");
        }
        place.ok(&["verify", "--full"])?;
    }
    Ok(())
}

#[test]
fn an_edit_after_the_command_is_left_alone_as_well() -> Outcome {
    let place = uncommitted()?;
    place.ok(&["merge", "two"])?;
    place.write("d/b", "edited since")?;
    place.write("gone", "made again")?;
    place.ok(&["undo"])?;
    assert_eq!(
        (
            read(&place, "d/b")?,
            read(&place, "gone")?,
            read(&place, "a")?
        ),
        ("edited since".into(), "made again".into(), "two".into())
    );
    Ok(())
}

#[test]
fn an_undo_goes_back_over_what_took_the_place_of_a_file_or_directory() -> Outcome {
    let place = Place::with_repository()?;
    place.write("a", "a")?;
    place.commit("one")?;
    fs::create_dir(place.work().join("emp"))?;
    place.write("f", "f")?;
    place.commit("two")?;
    fs::remove_dir(place.work().join("emp"))?;
    place.write("emp", "precious")?;
    for command in [&["reset", "--hard", "@~1"][..], &["checkout", "@~1"]] {
        place.ok(command)?;
        assert_eq!(read(&place, "emp")?, "precious");
        place.ok(&["undo"])?;
        assert_eq!(
            (read(&place, "emp")?, read(&place, "f")?),
            ("precious".into(), "f".into())
        );
    }
    // A directory in the place of a file.
    fs::remove_file(place.work().join("f"))?;
    place.write("f/inside", "inside")?;
    place.ok(&["checkout", "--force", "@~1"])?;
    assert_eq!(read(&place, "f/inside")?, "inside");
    place.ok(&["undo"])?;
    assert_eq!(read(&place, "f/inside")?, "inside");
    let left: Vec<_> = changes(&place)?.into_iter().map(|(path, _)| path).collect();
    assert!(left.contains(&"f".to_owned()), "{left:?}");
    Ok(())
}

#[test]
fn an_untracked_file_at_the_path_of_a_conflict_is_no_answer() -> Outcome {
    let place = Place::with_repository()?;
    place.write("f", "base")?;
    place.write("other", "o")?;
    place.commit("one")?;
    place.ok(&["checkout", "-b", "side"])?;
    place.write("f", "theirs")?;
    place.commit("theirs")?;
    place.ok(&["checkout", "main"])?;
    fs::remove_file(place.work().join("f"))?;
    place.commit("gone")?;
    place.write("f", "my notes")?;
    for command in ["merge", "cherry-pick"] {
        let said = place.fails(5, &[command, "side"])?;
        assert!(said.contains("uncommitted changes in f"), "{said}");
    }
    assert_eq!(read(&place, "f")?, "my notes");
    // Without it the conflict is there, and a file that is written then is the answer.
    fs::remove_file(place.work().join("f"))?;
    place.fails(4, &["merge", "side"])?;
    place.write("f", "both")?;
    place.commit("settled")?;
    Ok(())
}

#[test]
fn a_file_that_is_no_longer_tracked_survives_an_undo_of_a_switch() -> Outcome {
    let place = uncommitted()?;
    place.ok(&["restore", "."])?;
    fs::remove_file(place.work().join("d/b"))?;
    place.ok(&["checkout", "-b", "x", "two"])?;
    place.ok(&["rm", "--cached", "d/b"])?;
    place.ok(&["checkout", "main"])?;
    place.write("d/b", "edited")?;
    place.ok(&["undo"])?;
    assert_eq!(read(&place, "d/b")?, "edited");
    Ok(())
}

/// Returns whether a directory is there.
fn is_dir(place: &Place, path: &str) -> bool {
    place.work().join(path).is_dir()
}

#[test]
fn an_undo_leaves_no_directory_that_was_not_there() -> Outcome {
    for command in [
        "reset --hard",
        "stash",
        "checkout --force main",
        "restore .",
    ] {
        let place = Place::with_repository()?;
        place.write("d0/f", "f")?;
        place.write("a", "a")?;
        place.commit("one")?;
        place.ok(&["mv", "d0", "d9"])?;
        let args: Vec<&str> = command.split(' ').collect();
        place.ok(&args)?;
        for _ in 0..2 {
            place.ok(&["undo"])?;
            assert!(!is_dir(&place, "d0") && exists(&place, "d9/f"), "{command}");
            place.ok(&["redo"])?;
            assert!(exists(&place, "d0/f"), "{command}");
        }
        place.ok(&["undo"])?;
        // Nothing is in the way of the next undo.
        place.ok(&["undo"])?;
        assert!(exists(&place, "d0/f") && !is_dir(&place, "d9"), "{command}");
        assert_eq!(changes(&place)?, []);
    }
    Ok(())
}

#[test]
fn an_undo_leaves_the_empty_directories_that_were_there() -> Outcome {
    for command in [
        "reset --hard",
        "stash",
        "checkout --force main",
        "restore .",
    ] {
        let place = Place::with_repository()?;
        place.write("d/f", "f")?;
        place.write("a", "a")?;
        fs::create_dir(place.work().join("emp"))?;
        place.commit("one")?;
        fs::remove_file(place.work().join("d/f"))?;
        fs::remove_dir(place.work().join("emp"))?;
        place.write("a", "edited")?;
        let before = changes(&place)?;
        let args: Vec<&str> = command.split(' ').collect();
        place.ok(&args)?;
        for _ in 0..2 {
            place.ok(&["undo"])?;
            assert!(is_dir(&place, "d") && !exists(&place, "d/f"), "{command}");
            assert!(!exists(&place, "emp"), "{command}");
            assert_eq!(changes(&place)?, before, "{command}");
            place.ok(&["redo"])?;
            assert!(exists(&place, "d/f") && is_dir(&place, "emp"), "{command}");
        }
    }
    Ok(())
}

#[test]
fn an_empty_directory_of_the_user_survives_what_a_switch_puts_into_it() -> Outcome {
    for command in ["checkout two", "merge two", "reset --hard two"] {
        let place = Place::with_repository()?;
        place.write("a", "a")?;
        place.commit("one")?;
        place.write("e/g/f", "f")?;
        place.commit("two")?;
        place.ok(&["tag", "two"])?;
        place.ok(&["reset", "--hard", "@~1"])?;
        assert!(!exists(&place, "e"));
        fs::create_dir_all(place.work().join("e/g"))?;
        let args: Vec<&str> = command.split(' ').collect();
        place.ok(&args)?;
        for _ in 0..2 {
            place.ok(&["undo"])?;
            assert!(
                is_dir(&place, "e/g") && !exists(&place, "e/g/f"),
                "{command}"
            );
            place.ok(&["redo"])?;
            assert!(exists(&place, "e/g/f"), "{command}");
        }
    }
    Ok(())
}

#[test]
fn a_directory_in_the_place_of_a_file_stays_through_undo_and_redo() -> Outcome {
    for inside in ["f/inside", "f"] {
        let place = Place::with_repository()?;
        place.write("a", "a")?;
        place.commit("one")?;
        place.write("f", "f")?;
        place.commit("two")?;
        fs::remove_file(place.work().join("f"))?;
        match inside {
            "f" => fs::create_dir(place.work().join("f"))?,
            _ => place.write(inside, "inside")?,
        }
        place.write("a", "edited")?;
        place.ok(&["checkout", "--force", "@~1"])?;
        for step in ["undo", "redo", "undo"] {
            assert!(is_dir(&place, "f") && exists(&place, inside), "{step}");
            place.ok(&[step])?;
        }
        assert!(is_dir(&place, "f") && exists(&place, inside));
        assert_eq!(read(&place, "a")?, "edited");
    }
    Ok(())
}

/// `o` has changed `f`, and `main` has removed it: a merge shows only `f.base` and `f.theirs`.
fn removed_and_changed() -> Outcome<Place> {
    let place = Place::with_repository()?;
    place.write("f", "base")?;
    place.write("a", "a")?;
    place.commit("one")?;
    place.ok(&["checkout", "-b", "o"])?;
    place.write("f", "theirs")?;
    place.commit("theirs")?;
    place.ok(&["checkout", "main"])?;
    fs::remove_file(place.work().join("f"))?;
    place.commit("gone")?;
    Ok(place)
}

#[test]
fn a_file_with_the_name_of_a_side_is_in_nobodys_way() -> Outcome {
    let place = removed_and_changed()?;
    place.write("f.theirs", "mine")?;
    for command in ["merge", "cherry-pick"] {
        place.fails(4, &[command, "o"])?;
        place.ok(&["undo"])?;
        assert_eq!(read(&place, "f.theirs")?, "mine", "{command}");
        assert!(!exists(&place, "f.base"), "{command}");
        assert_eq!(changes(&place)?, [change("f.theirs", "added")], "{command}");
    }
    // Nor does it keep the worktree on the commit with the conflict.
    place.fails(4, &["merge", "o"])?;
    place.ok(&["checkout", "o"])?;
    assert_eq!(changes(&place)?, [change("f.theirs", "added")]);
    place.ok(&["undo"])?;
    assert_eq!(read(&place, "f.theirs")?, "mine");
    Ok(())
}

#[test]
fn files_with_the_names_of_all_sides_are_no_answer() -> Outcome {
    let place = removed_and_changed()?;
    place.write("f.theirs", "mine")?;
    place.write("f.base", "mine, too")?;
    let said = place.fails(5, &["merge", "o"])?;
    assert!(
        said.contains("f.base") && said.contains("f.theirs"),
        "{said}"
    );
    assert_eq!(read(&place, "f.base")?, "mine, too");
    Ok(())
}

#[test]
fn a_new_directory_at_the_path_of_a_conflict_is_no_answer() -> Outcome {
    let place = Place::with_repository()?;
    place.write("z", "base")?;
    place.commit("one")?;
    place.ok(&["checkout", "-b", "o"])?;
    place.write("d/x", "in")?;
    place.commit("dir")?;
    place.ok(&["checkout", "-b", "p", "main"])?;
    place.write("d", "file")?;
    place.commit("file")?;
    place.ok(&["checkout", "o"])?;
    place.fails(4, &["merge", "p"])?;
    let open = |place: &Place| -> Outcome<usize> {
        let status = place.json(&["status", "--json"])?;
        Ok(status["conflicts"].as_array().map_or(0, Vec::len))
    };
    fs::create_dir(place.work().join("d"))?;
    assert_eq!(open(&place)?, 1);
    place.write("d/new", "new")?;
    place.write("z", "edited")?;
    assert_eq!(open(&place)?, 1);
    let said = place.fails(3, &["commit", "-m", "n"])?;
    assert!(said.contains("not committed: d: "), "{said}");
    assert_eq!(open(&place)?, 1);
    assert_eq!(changes(&place)?, [change("d/new", "added")]);
    assert!(exists(&place, "d.theirs") && exists(&place, "d.ours/x"));
    // A resolve leaves the directory, unless a file has to take its place.
    let said = place.fails(5, &["resolve", "d", "--theirs"])?;
    assert!(said.contains("d/new"), "{said}");
    place.ok(&["resolve", "d", "--ours"])?;
    assert_eq!(
        (read(&place, "d/new")?, read(&place, "d/x")?),
        ("new".into(), "in".into())
    );
    place.ok(&["undo"])?;
    // To put a version there by hand is an answer, for status as for commit.
    fs::rename(place.work().join("d.ours/x"), place.work().join("d/x"))?;
    fs::remove_dir(place.work().join("d.ours"))?;
    assert_eq!(open(&place)?, 0);
    place.ok(&["commit", "-m", "settled"])?;
    assert_eq!(changes(&place)?, []);
    assert!(!exists(&place, "d.theirs"));
    Ok(())
}

/// The directories below the worktree that are empty.
fn empty_dirs(place: &Place) -> Outcome<Vec<String>> {
    let (mut found, mut dirs) = (Vec::new(), vec![place.work()]);
    while let Some(dir) = dirs.pop() {
        let mut is_empty = true;
        for entry in fs::read_dir(&dir)? {
            let path = entry?.path();
            is_empty = false;
            if path.is_dir() && !path.ends_with(".dmv") {
                dirs.push(path);
            }
        }
        if is_empty {
            let path = dir.strip_prefix(place.work())?;
            found.push(path.to_string_lossy().into_owned());
        }
    }
    found.sort();
    Ok(found)
}

#[test]
fn an_undo_brings_back_what_was_done_to_empty_directories() -> Outcome {
    for command in [
        "checkout bare",
        "checkout --force bare",
        "reset --hard bare",
    ] {
        let place = Place::with_repository()?;
        place.write("a", "a")?;
        place.commit("bare")?;
        place.ok(&["tag", "bare"])?;
        for dir in ["gone", "file", "deep/gone", "same"] {
            fs::create_dir_all(place.work().join(dir))?;
        }
        place.write("d/e/x", "x")?;
        place.commit("directories")?;
        // Removed, replaced by a file, emptied, and new.
        fs::remove_dir(place.work().join("gone"))?;
        fs::remove_dir(place.work().join("file"))?;
        place.write("file", "precious")?;
        fs::remove_dir_all(place.work().join("deep"))?;
        fs::remove_dir_all(place.work().join("d/e"))?;
        fs::create_dir_all(place.work().join("new/dir"))?;
        let (was, all) = (empty_dirs(&place)?, changes(&place)?);
        assert_eq!(was, ["d", "new/dir", "same"]);
        for _ in 0..2 {
            place.ok(&command.split(' ').collect::<Vec<_>>())?;
            assert_eq!(empty_dirs(&place)?, ["new/dir"], "{command}");
            place.ok(&["undo"])?;
            assert_eq!(empty_dirs(&place)?, was, "{command}");
            assert_eq!(changes(&place)?, all, "{command}");
            assert_eq!(read(&place, "file")?, "precious");
        }
        place.ok(&["redo"])?;
        assert_eq!(empty_dirs(&place)?, ["new/dir"], "{command}");
        place.ok(&["verify", "--full"])?;
    }
    Ok(())
}

#[test]
fn files_that_a_worktree_without_a_commit_had_stay_when_its_checkout_is_undone() -> Outcome {
    let place = Place::with_repository()?;
    place.write("a", "a")?;
    let one = place.commit("one")?;
    place.ok(&["tag", "one"])?;
    place.ok(&["undo"])?;
    place.ok(&["undo"])?;
    place.write("b", "b")?;
    place.ok(&["checkout", &one])?;
    place.ok(&["undo"])?;
    assert_eq!(
        (read(&place, "a")?, read(&place, "b")?),
        ("a".into(), "b".into())
    );
    Ok(())
}

/// A side of the outer conflict is a directory, and one of its files is a conflict itself.
#[test]
fn a_conflict_within_a_version_of_another_is_shown() -> Outcome {
    let place = Place::with_repository()?;
    place.write("d/z", "base")?;
    place.commit("base")?;
    place.ok(&["checkout", "-q", "-b", "one"])?;
    place.write("d/z", "one")?;
    place.commit("one")?;
    place.ok(&["checkout", "-q", "-b", "two", "main"])?;
    place.write("d/z", "two")?;
    place.commit("two")?;
    place.ok(&["checkout", "-q", "-b", "file", "main"])?;
    fs::remove_dir_all(place.work().join("d"))?;
    place.write("d", "file")?;
    place.commit("file")?;
    place.ok(&["checkout", "-q", "one"])?;
    place.fails(4, &["merge", "two"])?;
    let said = place.fails(4, &["merge", "file"])?;
    assert!(!said.contains("not written"), "{said}");
    assert_eq!(read(&place, "d.theirs")?, "file");
    let shown = ["d.ours/z", "d.ours/z.ours", "d.ours/z.theirs"];
    assert!(shown.iter().any(|path| exists(&place, path)));
    let before = changes(&place)?;
    place.ok(&["undo"])?;
    place.ok(&["redo"])?;
    assert_eq!(changes(&place)?, before);
    place.ok(&["resolve", "d", "--theirs"])?;
    place.ok(&["commit", "-m", "the file"])?;
    assert_eq!(read(&place, "d")?, "file");
    assert_eq!(changes(&place)?, []);
    place.ok(&["verify", "--full"])?;
    Ok(())
}
