//! Reset, with and without the files, as a user does it.

use crate::place::files::{changes, read};
use crate::place::{Outcome, Place};
use serde_json::json;
use std::fs;

fn change(path: &str, how: &str) -> (String, String) {
    (path.to_owned(), how.to_owned())
}

/// Two commits: `f` is changed, `gone` is removed and `new` is added by the second one.
fn place() -> Outcome<Place> {
    let place = Place::with_repository()?;
    place.write("f", "one")?;
    place.write("gone", "gone")?;
    place.write("same", "same")?;
    place.commit("one")?;
    place.write("f", "two")?;
    place.write("new", "new")?;
    fs::remove_file(place.work().join("gone"))?;
    place.commit("two")?;
    Ok(place)
}

#[test]
fn a_reset_keeps_conflicts_as_they_are_in_the_files_and_markers_are_no_choice() -> Outcome {
    let place = Place::with_repository()?;
    // A commit does not take the markers of a merge that a reset took back.
    place.write("f", "base\n")?;
    place.commit("base")?;
    place.ok(&["branch", "side"])?;
    place.write("f", "ours\n")?;
    place.commit("ours")?;
    place.ok(&["checkout", "side"])?;
    place.write("f", "theirs\n")?;
    place.commit("theirs")?;
    place.ok(&["checkout", "main"])?;
    place.fails(4, &["merge", "side"])?;
    place.ok(&["reset", "@~1"])?;
    let said = place.fails(4, &["commit", "-m", "markers"])?;
    assert!(said.contains("f:1 still has a conflict marker"), "{said}");
    place.write("f", "both\n")?;
    place.commit("both")?;

    place.ok(&["reset", "--hard", "@~1"])?;
    // A reset keeps conflicts as they are in the files.
    place.fails(4, &["merge", "side"])?;
    let merge = place.json(&["log", "-n", "1", "--json"])?["id"].clone();
    place.ok(&["resolve", "f", "--theirs"])?;
    // The choice is discarded, and the conflict is open again.
    place.ok(&["reset", "--hard"])?;
    assert_eq!(
        place.json(&["status", "--json"])?["conflicts"],
        json!([{"path": "f"}])
    );
    place.ok(&["undo"])?;
    assert_eq!(read(&place, "f")?, "theirs\n");
    // The merge is gone; the file is an edit.
    place.ok(&["reset", "@~1"])?;
    assert_eq!(changes(&place)?, [change("f", "modified")]);
    place.commit("theirs, without a merge")?;
    assert_eq!(read(&place, "f")?, "theirs\n");
    // Back to a commit with a conflict: the file stays, and settles it.
    place.ok(&["reset", merge.as_str().unwrap_or_default()])?;
    let status = place.json(&["status", "--json"])?;
    assert_eq!(status["conflicts"], json!([]));
    assert_eq!(status["settled"], json!([{"path": "f"}]));
    place.commit("settled")?;
    assert_eq!(place.json(&["status", "--json"])?["clean"], true);
    Ok(())
}

#[test]
fn a_reset_moves_the_branch_and_says_what_becomes_of_the_files() -> Outcome {
    let place = place()?;
    // A bare repository resets its branch and has no files to match.
    place.ok(&["clone", "--bare", ".", "../bare"])?;
    let bare = place.work().join("../bare");
    let bare = bare.to_str().ok_or("a path")?;
    place.fails(20, &["-C", bare, "reset", "--hard", "@~1"])?;
    place.ok(&["-C", bare, "reset", "@~1"])?;
    assert_eq!(place.records(&["-C", bare, "log", "--json"])?.len(), 1);

    // Arguments of git are answered from the guide.
    for (args, answer) in [
        (
            &["reset", "HEAD", "f"][..],
            "dmv restore PATH puts files back",
        ),
        (&["checkout", "@", "f"], "dmv restore --from REV PATH"),
        (&["diff", "--cached"], "there is no staging area"),
        (&["restore", "--staged", "f"], "there is no staging area"),
        (&["commit", "-am", "x"], "there is no staging area"),
        (&["commit", "-a", "-m", "x"], "there is no staging area"),
        (&["stash", "-u"], "takes new files, too"),
        (&["stash", "save", "x"], "dmv stash -m MESSAGE"),
        (&["stash", "clear"], "dmv stash drop"),
        (&["stash", "show", "-p"], "dmv stash show"),
        (&["cherry-pick", "-n", "@"], "then dmv reset @~1"),
        (&["rebase", "-i", "@~1"], "there is no interactive rebase"),
        (&["rm", "-f", "--ignore-unmatch", "f"], "dmv rm PATH"),
    ] {
        let said = place.fails(2, args)?;
        let hint = said.lines().find(|line| line.starts_with("hint: "));
        assert!(
            hint.is_some_and(|hint| hint.contains(answer)),
            "{args:?}: {said}"
        );
    }
    let said = place.fails(2, &["diff", "--cached", "--json"])?;
    assert!(
        said.contains(r#""code":"usage""#) && said.contains("staging area"),
        "{said}"
    );

    // A reset turns the last commit into uncommitted changes.
    place.write("same", "edited")?;
    let done = place.json(&["reset", "@~1", "--json"])?;
    assert_eq!(done["left"].as_array().map(Vec::len), Some(1));
    let edits = [
        change("f", "modified"),
        change("gone", "deleted"),
        change("new", "added"),
        change("same", "modified"),
    ];
    assert_eq!(changes(&place)?, edits);
    assert_eq!(read(&place, "f")?, "two");
    place.ok(&["undo"])?;
    assert_eq!(changes(&place)?, [change("same", "modified")]);
    place.ok(&["redo"])?;
    assert_eq!(changes(&place)?, edits);
    // The same commit once more.
    place.commit("two again")?;
    assert_eq!(changes(&place)?, []);
    let said = place.ok(&["reset"])?;
    assert!(said.starts_with("nothing to reset"), "{said}");

    // What writes no files does not count them.
    for text in ["one", "two"] {
        place.write("f", text)?;
        place.commit(text)?;
    }
    let said = place.ok(&["reset", "--soft", "@~1"])?;
    assert!(!said.contains("written"), "{said}");
    let said = place.ok(&["reset", "--hard"])?;
    assert!(said.contains("1 file written"), "{said}");

    // A subset says what cannot become uncommitted.
    place.write("a/f", "one")?;
    place.write("b/f", "one")?;
    place.commit("one")?;
    place.write("a/f", "two")?;
    place.write("b/f", "two")?;
    place.commit("two")?;
    place.ok(&["checkout", "--subset", "a"])?;
    let done = place.json(&["reset", "@~1", "--json"])?;
    assert_eq!(done["outside"], 1);
    assert_eq!(changes(&place)?, [change("a/f", "modified")]);
    place.ok(&["undo"])?;
    assert_eq!(changes(&place)?, []);
    place.ok(&["reset", "--hard", "@~1"])?;
    assert_eq!(read(&place, "a/f")?, "one");
    Ok(())
}
