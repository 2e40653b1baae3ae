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
