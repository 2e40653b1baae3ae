//! Settling conflicts that no file of the worktree stands for: outside of its subset, and where
//! there is no worktree.

use crate::place::{Outcome, Place};
use serde_json::Value;
use std::fs;

/// Two branches that have changed the same three files, merged in a worktree that has none of them.
fn merged_outside() -> Outcome<Place> {
    let place = Place::with_repository()?;
    for path in ["media/m", "code/a.c", "code/logo.png", "code/k"] {
        place.write(path, format!("\0{path}"))?;
    }
    place.write("code/a.c", "1\n2\n3\n")?;
    place.commit("base")?;
    place.ok(&["branch", "side"])?;
    place.write("code/a.c", "1\nours\n3\n")?;
    place.write("code/logo.png", "\0ours")?;
    fs::remove_file(place.work().join("code/k"))?;
    place.commit("ours")?;
    place.ok(&["checkout", "side"])?;
    place.write("code/a.c", "1\ntheirs\n3\n")?;
    place.write("code/logo.png", "\0theirs")?;
    place.write("code/k", "\0theirs")?;
    place.commit("theirs")?;
    place.ok(&["checkout", "main", "--subset", "media"])?;
    place.fails(4, &["merge", "side"])?;
    Ok(place)
}

fn paths(place: &Place, key: &str) -> Outcome<Vec<String>> {
    let status = place.json(&["status", "--json"])?;
    let all = status[key].as_array().ok_or("no list")?;
    let text = |value: &Value| value["path"].as_str().unwrap_or_default().to_owned();
    Ok(all.iter().map(text).collect())
}

#[test]
fn a_choice_counts_where_the_conflict_is_and_without_a_worktree_it_is_committed_at_once() -> Outcome
{
    // Without a worktree, a choice is committed at once.
    let place = merged_outside()?;
    let bare = place.dir.path().join("bare");
    let bare = bare.to_str().ok_or("path")?;
    place.ok(&["clone", "--bare", ".", bare])?;
    let there = |args: &[&str]| place.ok(&[&["-C", bare], args].concat());
    there(&["resolve", "code/k", "--theirs", "-m", "k stays"])?;
    assert!(there(&["log", "-n", "1"])?.contains("k stays"));
    let done = there(&["resolve", "--all", "--ours", "--json"])?;
    assert!(done.contains("\"conflicts\":[]"), "{done}");
    assert_eq!(there(&["conflicts", "--json"])?, "");
    assert_eq!(there(&["cat", "@:code/logo.png"])?, "\0ours");
    there(&["undo"])?;
    assert_eq!(there(&["conflicts"])?.lines().count(), 3);
    there(&["verify"])?;
    place.fails(2, &["resolve", "code/k", "--ours", "-m", "here"])?;

    // Outside of a subset it counts where the conflict is, and rests elsewhere.
    place.ok(&["resolve", "--all", "--theirs"])?;
    let diff = place.ok(&["diff", "--", "code"])?;
    assert!(diff.contains("+theirs"), "{diff}");
    let done = place.json(&["commit", "-m", "settled", "--json"])?;
    assert_eq!(done["resolved"].as_array().map(Vec::len), Some(3));
    assert_eq!(place.ok(&["cat", "@:code/a.c"])?, "1\ntheirs\n3\n");
    assert!(!place.work().join("code").exists());
    place.ok(&["undo"])?;
    place.ok(&["branch", "copy"])?;
    place.ok(&["checkout", "side"])?;
    place.ok(&["status", "--exit-code"])?;
    place.ok(&["checkout", "copy"])?;
    assert_eq!(paths(&place, "settled")?.len(), 3);
    // A worktree of its own has none of them, and one that comes back has its own again.
    let other = place.dir.path().join("other");
    let other = other.to_str().ok_or("path")?;
    place.ok(&["worktree", "add", other, "main"])?;
    let there = |args: &[&str]| place.ok(&[&["-C", other], args].concat());
    assert_eq!(there(&["conflicts"])?.lines().count(), 4);
    there(&["subset", "set", "media"])?;
    there(&["resolve", "code/a.c", "--base"])?;
    assert!(there(&["status"])?.contains("1 modified, 2 conflicts"));
    place.ok(&["worktree", "remove", other])?;
    place.ok(&["undo"])?;
    assert!(there(&["status"])?.contains("1 modified, 2 conflicts"));
    Ok(())
}
