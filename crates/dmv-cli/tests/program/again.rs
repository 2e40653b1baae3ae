//! Commands that find content missing, fetch it and run again: what they publish is whole.

use crate::place::several::{commit, several};
use crate::place::{Outcome, Place};
use std::fs;

/// `film` and its clone `far`. `film` has a commit that `far` has fetched, without the content of `big`,
/// which `far` has given up. `far` has a commit of its own.
fn place(big: &str) -> Outcome<Place> {
    let place = several()?;
    place.ok(&["clone", "film", "far"])?;
    place.write(format!("film/{big}"), "large\n".repeat(30_000))?;
    place.ok(&["-C", "film", "commit", "-m", "big"])?;
    commit(&place, "far", "own")?;
    place.ok(&["-C", "far", "fetch"])?;
    place.ok(&["-C", "far", "drop", &format!("origin/main:{big}")])?;
    Ok(place)
}

/// Processes of their own read every commit, tree and file that `far` names, also away from its source.
fn is_whole(place: &Place) -> Outcome {
    place.ok(&["-C", "far", "verify", "--full"])?;
    place.ok(&["-C", "far", "log", "--stat"])?;
    place.ok(&["-C", "far", "status", "--exit-code"])?;
    place.ok(&["clone", "far", "copy"])?;
    Ok(fs::remove_dir_all(place.work().join("copy"))?)
}

#[test]
fn what_a_command_publishes_after_it_has_fetched_content_is_stored() -> Outcome {
    let place = place("big")?;
    // An undo that fetches is stored.
    place.ok(&["-C", "far", "checkout", "origin/main"])?;
    place.ok(&["-C", "far", "checkout", "main"])?;
    place.ok(&["-C", "far", "drop", "origin/main:big"])?;
    place.ok(&["-C", "far", "undo"])?;
    is_whole(&place)?;

    place.ok(&["-C", "far", "checkout", "main"])?;
    place.ok(&["-C", "far", "drop", "origin/main:big"])?;
    // A merge that fetches is stored.
    let said = place.ok(&["-C", "far", "merge", "origin/main"])?;
    assert!(said.starts_with("merged"), "{said}");
    is_whole(&place)?;
    assert_eq!(
        place.ok(&["-C", "far", "cat", "@:big"])?,
        "large\n".repeat(30_000)
    );

    place.ok(&["-C", "far", "undo"])?;
    place.ok(&["-C", "far", "drop", "origin/main:big"])?;
    // A pull that fetches is stored.
    place.ok(&["-C", "far", "pull"])?;
    is_whole(&place)?;

    // A revert that fetches is stored.
    fs::remove_file(place.work().join("far/big"))?;
    place.ok(&["-C", "far", "commit", "-m", "gone"])?;
    place.ok(&["-C", "far", "push"])?;
    place.ok(&["-C", "far", "drop", "@~1:big"])?;
    place.ok(&["-C", "far", "revert", "@"])?;
    is_whole(&place)?;
    Ok(())
}

#[test]
fn a_conflict_settled_with_content_that_has_to_come_is_stored() -> Outcome {
    let place = several()?;
    place.ok(&["clone", "film", "far"])?;
    let versions = [("film", "theirs\n"), ("far", "ours\n")];
    for (repo, line) in versions {
        for name in ["a.bin", "sub/b.bin"] {
            let content = format!("\0{name}{}", line.repeat(20_000));
            place.write(format!("{repo}/{name}"), content)?;
        }
        place.ok(&["-C", repo, "commit", "-m", repo])?;
    }
    place.ok(&["-C", "far", "fetch"])?;
    place.ok(&[
        "-C",
        "far",
        "drop",
        "origin/main:a.bin",
        "origin/main:sub/b.bin",
    ])?;
    place.fails(4, &["-C", "far", "merge", "origin/main"])?;
    place.ok(&["-C", "far", "verify"])?;
    for path in ["a.bin", "sub/b.bin"] {
        let drops = format!("origin/main:{path}");
        place.run(&["-C", "far", "drop", &drops])?;
        place.ok(&["-C", "far", "resolve", path, "--theirs"])?;
    }
    place.ok(&["-C", "far", "commit", "-m", "settled"])?;
    is_whole(&place)
}
