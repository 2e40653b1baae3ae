//! Commands that only look, and content that is absent while no remote is in reach: nothing that
//! looks needs it, and whatever needs it changes nothing.

use crate::place::{Outcome, Place};
use dmv_random::number;
use std::fs;

/// Commands that only look.
const LOOKS: &[&[&str]] = &[
    &["status"],
    &["status", "--json"],
    &["status", "--short", "--exit-code"],
    &["diff"],
    &["diff", "--json"],
    &["diff", "--stat"],
    &["diff", "main~1"],
    &["diff", "main~1", "main"],
    &["log"],
    &["log", "-p"],
    &["log", "--stat", "--json"],
    &["show"],
    &["show", "side"],
    &["conflicts"],
    &["conflicts", "--json"],
    &["conflicts", "main"],
    &["branch"],
    &["tag"],
    &["op", "log"],
    &["ls", "-l"],
    &["ls", "-r", "@"],
    &["stash", "list"],
    &["stash", "show"],
    &["stash", "show", "--stat"],
    &["worktree", "list"],
    &["subset"],
];

/// Commands that need content, and that fail without it.
const NEEDS: &[&[&str]] = &[
    &["resolve", "text", "--theirs"],
    &["resolve", "bin", "--theirs"],
    &["resolve", "--all", "--both"],
    &["resolve", "--all", "--base"],
    &["checkout", "side"],
    &["checkout", "main~1"],
    &["merge", "other"],
    &["rebase", "other"],
    &["cherry-pick", "other"],
    &["revert", "-m", "1", "@"],
    &["restore", "text", "bin"],
    &["restore", "--from", "side", "text"],
    &["reset", "--hard", "side"],
    &["stash", "pop"],
    &["stash", "apply"],
    &["subset", "clear"],
    &["undo"],
];

/// A repository whose last commit has conflicts in a text and in a file that is none, beside other
/// branches and a stash.
fn full(place: &Place) -> Outcome {
    place.ok(&["init", "full"])?;
    let run = |args: &[&str]| place.ok(&[&["-C", "full"], args].concat());
    let state = |text: &str| -> Outcome {
        place.write("full/text", format!("1\n{text}\n3\n"))?;
        place.write("full/bin", format!("\0{text}"))?;
        place.write(format!("full/only-{text}"), text)
    };
    state("base")?;
    run(&["commit", "-m", "base"])?;
    run(&["checkout", "-b", "side"])?;
    state("theirs")?;
    run(&["commit", "-m", "theirs"])?;
    run(&["checkout", "-b", "other", "main"])?;
    state("other")?;
    run(&["commit", "-m", "other"])?;
    run(&["checkout", "main"])?;
    state("ours")?;
    run(&["commit", "-m", "ours"])?;
    place.fails(4, &["-C", "full", "merge", "side"])?;
    Ok(())
}

/// Everything that a command could have changed: the operations, the status and the files.
fn state(place: &Place) -> Outcome<Vec<String>> {
    let mut all = vec![
        place.ok(&["-C", "part", "op", "log", "--json"])?,
        place.ok(&["-C", "part", "status", "--json"])?,
        place.ok(&["-C", "part", "stash", "list"])?,
        place.ok(&["-C", "part", "worktree", "list"])?,
    ];
    let mut names = Vec::new();
    for entry in fs::read_dir(place.work().join("part"))? {
        let entry = entry?;
        if entry.file_type()?.is_file() {
            let content = fs::read(entry.path())?;
            names.push(format!("{:?} {content:?}", entry.file_name()));
        }
    }
    names.sort();
    all.extend(names);
    Ok(all)
}

/// Clones with different content absent, each as steps after the clone.
const CLONES: &[(&[&str], &[&[&str]])] = &[
    (&["--meta-only"], &[]),
    // Files of the conflicts are there, and what they come from was dropped since.
    (
        &["--meta-only"],
        &[&["subset", "set", "text", "bin"], &["drop", "text", "bin"]],
    ),
    (&[], &[&["drop", "text"]]),
    (&[], &[&["drop", "bin"]]),
    (&["--subset", "only-*"], &[]),
];

fn part(clone: (&[&str], &[&[&str]])) -> Outcome<Place> {
    let place = Place::new()?;
    full(&place)?;
    place.ok(&[&["clone", "full", "part"], clone.0].concat())?;
    for name in ["side", "other"] {
        let from = format!("origin/{name}");
        place.ok(&["-C", "part", "branch", name, &from])?;
    }
    for step in clone.1 {
        place.ok(&[&["-C", "part"], *step].concat())?;
    }
    fs::rename(place.work().join("full"), place.work().join("away"))?;
    Ok(place)
}

#[test]
fn what_looks_needs_no_content_and_what_lacks_content_changes_nothing() -> Outcome {
    // After each command another part of those that only look; with `DMV_ABSENT=1`, all of them.
    let every = if number("DMV_ABSENT", 0) == 0 { 24 } else { 1 };
    for clone in CLONES {
        let place = part(*clone)?;
        // What only looks needs no content.
        for look in LOOKS
            .iter()
            .filter(|look| !look.starts_with(&["stash", "show"]))
        {
            let output = place.run(&[&["-C", "part"], *look].concat())?;
            let said = String::from_utf8_lossy(&output.stderr);
            let code = output.status.code();
            let looks = matches!(code, Some(0 | 1));
            assert!(looks, "{clone:?} {look:?}: {code:?} {said}");
        }
        let mut before = state(&place)?;
        for (turn, need) in NEEDS.iter().enumerate() {
            let output = place.run(&[&["-C", "part"], *need].concat())?;
            let said = String::from_utf8_lossy(&output.stderr);
            let told = format!("{clone:?} {need:?}: {:?} {said}", output.status.code());
            match output.status.code() {
                // Without files in the worktree, a choice or a step needs no content.
                Some(0 | 3 | 4) => before = state(&place)?,
                Some(5 | 6 | 20) => {
                    assert_eq!(state(&place)?, before, "{told}");
                }
                _ => return Err(told.into()),
            }
            let looks = LOOKS.iter().filter(|look| look[0] != "stash");
            for look in looks.skip(turn % every).step_by(every) {
                let output = place.run(&[&["-C", "part"], *look].concat())?;
                let code = output.status.code();
                let said = String::from_utf8_lossy(&output.stderr);
                assert!(
                    matches!(code, Some(0 | 1)),
                    "{told} then {look:?}: {code:?} {said}"
                );
            }
        }
    }
    Ok(())
}

#[test]
fn the_undo_of_a_settled_conflict_does_not_need_its_versions() -> Outcome {
    let place = Place::new()?;
    full(&place)?;
    place.ok(&["clone", "full", "part"])?;
    place.ok(&["-C", "part", "branch", "side", "origin/side"])?;
    place.ok(&["-C", "part", "resolve", "--all", "--theirs"])?;
    place.ok(&["-C", "part", "commit", "-m", "theirs"])?;
    place.ok(&["-C", "part", "drop", "text", "bin"])?;
    fs::rename(place.work().join("full"), place.work().join("away"))?;
    place.ok(&["-C", "part", "undo"])?;
    for look in LOOKS.iter().filter(|look| look[0] != "stash") {
        let output = place.run(&[&["-C", "part"], *look].concat())?;
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(
            matches!(output.status.code(), Some(0 | 1)),
            "{look:?}: {said}"
        );
    }
    // The files are the user's choice; what a further undo would write is told as absent.
    let output = place.run(&["-C", "part", "undo"])?;
    assert!(matches!(output.status.code(), Some(0 | 3)), "{output:?}");
    place.ok(&["-C", "part", "status"])?;
    fs::rename(place.work().join("away"), place.work().join("full"))?;
    place.ok(&["-C", "part", "verify"])?;
    Ok(())
}
