//! Pulls that rebase, as a user does it.

use crate::place::files::{lines, read, subjects_of};
use crate::place::several::{commit, several, tip};
use crate::place::{Outcome, Place};
use serde_json::json;

/// `film` and its clone `two` each have a commit of their own.
fn diverged() -> Outcome<Place> {
    let place = several()?;
    place.ok(&["clone", "film", "two"])?;
    commit(&place, "film", "theirs")?;
    commit(&place, "two", "ours")?;
    Ok(place)
}

#[test]
fn a_pull_that_rebases_puts_own_commits_on_top_and_one_undo_takes_it_back() -> Outcome {
    let place = diverged()?;
    let before = tip(&place, "two", "main")?;
    place.write("two/shots/1", "an edit")?;
    let pulled = place.json(&["-C", "two", "pull", "--rebase", "--json"])?;
    let made = pulled["rebase"]["commits"].as_array().ok_or("a list")?;
    assert_eq!(made.len(), 1);
    assert_eq!(made[0]["from"], json!(before));
    assert_eq!(subjects_of(&place, "two")?, ["ours", "theirs", "first"]);
    assert_eq!(read(&place, "two/shots/1")?, "an edit");
    assert_eq!(read(&place, "two/theirs")?, "theirs");
    place.ok(&["-C", "two", "undo"])?;
    assert_eq!(tip(&place, "two", "main")?, before);
    assert_eq!(
        tip(&place, "two", "origin/main")?,
        tip(&place, "film", "main")?
    );
    assert_eq!(read(&place, "two/shots/1")?, "an edit");
    assert!(!place.work().join("two/theirs").exists());
    place.ok(&["-C", "two", "redo"])?;
    place.ok(&["-C", "two", "push"])?;
    assert_eq!(tip(&place, "film", "main")?, tip(&place, "two", "main")?);
    let said = place.ok(&["-C", "two", "pull", "--rebase"])?;
    assert!(said.contains("already up to date"), "{said}");
    Ok(())
}

#[test]
fn the_setting_makes_it_the_default_and_flags_turn_it_off() -> Outcome {
    let place = diverged()?;
    place.ok(&["-C", "two", "config", "set", "pull.rebase", "true"])?;
    place.fails(5, &["-C", "two", "pull", "--ff-only"])?;
    let pulled = place.json(&["-C", "two", "pull", "--no-rebase", "--json"])?;
    assert_eq!(pulled["merge"]["up_to_date"], false);
    place.ok(&["-C", "two", "undo"])?;
    let said = place.ok(&["-C", "two", "pull"])?;
    assert!(said.contains("rebased 1 commit"), "{said}");
    place.fails(2, &["-C", "two", "pull", "--rebase", "--ff-only"])?;
    // Without own commits it is a fast-forward.
    commit(&place, "film", "more")?;
    place.ok(&["clone", "film", "three"])?;
    commit(&place, "film", "last")?;
    let pulled = place.json(&["-C", "three", "pull", "--rebase", "--json"])?;
    assert_eq!(pulled["rebase"]["fast_forward"], true);
    assert_eq!(tip(&place, "three", "main")?, tip(&place, "film", "main")?);
    Ok(())
}

#[test]
fn conflicts_are_data() -> Outcome {
    let place = several()?;
    place.write("film/text", lines(&[]))?;
    place.ok(&["-C", "film", "commit", "-m", "text"])?;
    place.ok(&["clone", "film", "two"])?;
    place.write("film/text", lines(&[(2, "theirs")]))?;
    place.ok(&["-C", "film", "commit", "-m", "theirs"])?;
    place.write("two/text", lines(&[(2, "ours"), (8, "eight")]))?;
    place.ok(&["-C", "two", "commit", "-m", "ours"])?;
    let output = place.run(&["-C", "two", "pull", "--rebase", "--json"])?;
    assert_eq!(output.status.code(), Some(4));
    let status = place.json(&["-C", "two", "status", "--json"])?;
    assert_eq!(status["conflicts"], json!([{"path": "text"}]));
    place.ok(&["-C", "two", "resolve", "text", "--ours"])?;
    place.ok(&["-C", "two", "commit", "-m", "settled"])?;
    Ok(())
}

#[test]
fn what_the_remote_has_removed_is_not_brought_back() -> Outcome {
    let place = several()?;
    commit(&place, "film", "mistake")?;
    place.ok(&["clone", "film", "two"])?;
    commit(&place, "two", "ours")?;
    place.ok(&["-C", "film", "reset", "--hard", "@~1"])?;
    commit(&place, "film", "better")?;
    place.fails(5, &["-C", "two", "pull"])?;
    place.ok(&["-C", "two", "pull", "--rebase"])?;
    assert_eq!(subjects_of(&place, "two")?, ["ours", "better", "first"]);
    assert!(!place.work().join("two/mistake").exists());
    Ok(())
}
