//! `mv`: files and directories that move within the worktree, and back.

use crate::place::files::{exists, read};
use crate::place::{Outcome, Place};
use serde_json::json;
use std::fs;

fn place() -> Outcome<Place> {
    let place = Place::with_repository()?;
    place.write("a.txt", "one")?;
    place.write("b.txt", "two")?;
    place.write("d/x", "x")?;
    place.write("d/e/y", "y")?;
    place.commit("first")?;
    Ok(place)
}

#[test]
fn files_and_directories_move_with_their_edits_and_are_refused_with_the_way_out() -> Outcome {
    let place = place()?;
    // A file moves with its edits and undo and redo move it back and forth.
    place.write("a.txt", "edited")?;
    let said = place.ok(&["mv", "a.txt", "c.txt"])?;
    assert_eq!(said, "moved a.txt -> c.txt\n");
    assert_eq!(read(&place, "c.txt")?, "edited");
    assert!(!exists(&place, "a.txt"));
    let said = place.ok(&["undo"])?;
    assert!(said.contains("moved c.txt -> a.txt"), "{said}");
    assert_eq!(read(&place, "a.txt")?, "edited");
    assert!(!exists(&place, "c.txt"));
    place.ok(&["redo"])?;
    assert_eq!(read(&place, "c.txt")?, "edited");
    // What was edited since moves back, too.
    place.write("c.txt", "edited again")?;
    let done = place.json(&["undo", "--json"])?;
    assert_eq!(done["moved"], json!([{"from": "c.txt", "to": "a.txt"}]));
    assert_eq!(read(&place, "a.txt")?, "edited again");

    place.ok(&["restore", "a.txt"])?;
    // Status and the next commit see a rename.
    place.ok(&["mv", "d", "moved"])?;
    let status = place.json(&["status", "--json"])?;
    let changes = status["changes"].as_array().ok_or("no changes")?;
    assert_eq!(changes.len(), 2, "{status}");
    for change in changes {
        assert_eq!(change["change"], "renamed", "{status}");
    }
    place.commit("moved")?;
    assert_eq!(place.json(&["status", "--json"])?["clean"], json!(true));
    assert_eq!(place.ok(&["cat", "@:moved/e/y"])?, "y");
    // The commit, then the move.
    place.ok(&["undo"])?;
    place.ok(&["undo"])?;
    assert_eq!(read(&place, "d/e/y")?, "y");
    assert_eq!(place.json(&["status", "--json"])?["clean"], json!(true));

    // Several paths move into a directory and nowhere else.
    let done = place.json(&["mv", "--json", "a.txt", "b.txt", "d"])?;
    assert_eq!(done["moved"][0], json!({"from": "a.txt", "to": "d/a.txt"}));
    assert_eq!(done["moved"][1], json!({"from": "b.txt", "to": "d/b.txt"}));
    let errors = place.fails(20, &["mv", "d/a.txt", "d/b.txt", "new"])?;
    assert!(
        errors.contains("'new' is not an existing directory"),
        "{errors}"
    );
    assert!(errors.contains("hint: mkdir -p new"), "{errors}");
    place.fails(20, &["mv", "d/a.txt", "new/"])?;
    place.fails(20, &["mv", "d/a.txt", "no/such/place"])?;
    place.fails(2, &["mv", "d", "d/e"])?;
    place.fails(2, &["mv", "d/e", "d/e/y", "."])?;
    place.fails(2, &["mv", "d/a.txt", "d/a.txt"])?;
    place.fails(2, &["mv", "d/a.txt"])?;
    // To the root, from a directory.
    let mut command = place.command(&["mv", "a.txt", "../"]);
    let done = command.current_dir(place.work().join("d")).status()?;
    assert!(done.success());
    assert_eq!(read(&place, "a.txt")?, "one");

    place.ok(&["undo"])?;
    place.ok(&["undo"])?;
    // Paths that cannot be moved are refused with the way out.
    place.write(".dmvignore", "*.tmp\n")?;
    place.write("x.tmp", "x")?;
    let errors = place.fails(20, &["mv", "x.tmp", "y"])?;
    assert!(errors.contains("is ignored"), "{errors}");
    let errors = place.fails(5, &["mv", "a.txt", "b.txt"])?;
    assert!(errors.contains("'b.txt' already exists"), "{errors}");
    // A directory is never replaced.
    fs::create_dir(place.work().join("d/a.txt"))?;
    place.fails(5, &["mv", "--force", "a.txt", "d"])?;
    fs::remove_dir(place.work().join("d/a.txt"))?;
    let errors = place.fails(5, &["mv", "a.txt", "a.tmp"])?;
    assert!(errors.contains("ignore rules"), "{errors}");
    place.ok(&["mv", "--force", "a.txt", "a.tmp"])?;
    place.ok(&["undo"])?;
    place.fails(20, &["mv", "nosuch", "y"])?;
    place.fails(20, &["mv", "a.txt", ".dmv/x"])?;
    place.fails(20, &["mv", "a.txt", "../x"])?;
    fs::remove_file(place.work().join("b.txt"))?;
    let errors = place.fails(20, &["mv", "b.txt", "y"])?;
    assert!(errors.contains("hint: dmv restore b.txt"), "{errors}");
    // A new file is the user's, and goes with the next commit wherever it is.
    place.write("new", "n")?;
    place.ok(&["mv", "new", "newer"])?;
    assert_eq!(read(&place, "newer")?, "n");
    Ok(())
}

#[test]
fn neither_what_is_outside_of_the_subset_nor_a_conflict_is_moved() -> Outcome {
    let place = place()?;
    // In a subset only what is there moves.
    place.ok(&["subset", "set", "d"])?;
    let errors = place.fails(20, &["mv", "a.txt", "d"])?;
    assert!(errors.contains("hint: dmv subset add a.txt"), "{errors}");
    place.fails(20, &["mv", "d/x", "x"])?;
    place.ok(&["mv", "d/x", "d/z"])?;
    let errors = place.fails(5, &["subset", "set", "d/e"])?;
    assert!(
        errors.contains("would lose uncommitted changes in d/x"),
        "{errors}"
    );
    place.commit("moved")?;
    place.ok(&["subset", "set", "d/e"])?;
    let errors = place.fails(5, &["mv", "d", "f"])?;
    assert!(
        errors.contains("outside of the worktree's subset"),
        "{errors}"
    );

    place.ok(&["subset", "clear"])?;
    // A conflict is not moved.
    place.ok(&["checkout", "-b", "side"])?;
    place.write("a.txt", "theirs")?;
    place.commit("theirs")?;
    place.ok(&["checkout", "main"])?;
    place.write("a.txt", "ours")?;
    place.commit("ours")?;
    place.fails(4, &["merge", "side"])?;
    let errors = place.fails(5, &["mv", "a.txt", "c.txt"])?;
    assert!(errors.contains("unresolved conflict"), "{errors}");
    place.fails(5, &["mv", "b.txt", "a.txt"])?;
    Ok(())
}
