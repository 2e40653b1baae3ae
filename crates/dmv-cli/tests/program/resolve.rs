//! Settling conflicts, and taking that back, as a user does it.

use crate::place::{Outcome, Place};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// All files of the worktree with their content; an empty directory ends with a slash.
type Files = BTreeMap<String, String>;

fn files(place: &Place) -> Outcome<Files> {
    let mut out = Files::new();
    let mut dirs = vec![place.work()];
    while let Some(dir) = dirs.pop() {
        let name = |path: &Path| -> Outcome<String> {
            let below = path.strip_prefix(place.work())?;
            Ok(below.to_str().ok_or("not text")?.to_owned())
        };
        let listed: Vec<_> = fs::read_dir(&dir)?.collect::<Result<_, _>>()?;
        if listed.is_empty() {
            out.insert(name(&dir)? + "/", String::new());
        }
        for entry in listed {
            let path = entry.path();
            match entry.file_name().to_str() {
                Some(".dmv") => {}
                _ if path.is_dir() => dirs.push(path),
                _ => drop(out.insert(name(&path)?, fs::read_to_string(&path)?)),
            }
        }
    }
    Ok(out)
}

/// Makes the worktree have these files.
fn set(place: &Place, now: &[(&str, &str)]) -> Outcome {
    for entry in fs::read_dir(place.work())? {
        let path = entry?.path();
        match path.file_name().and_then(|name| name.to_str()) {
            Some(".dmv") => {}
            _ if path.is_dir() => fs::remove_dir_all(path)?,
            _ => fs::remove_file(path)?,
        }
    }
    for (path, content) in now {
        place.write(path, content)?;
    }
    Ok(())
}

/// A merge that ends in conflicts: three states of the files.
fn merged(states: [&[(&str, &str)]; 3]) -> Outcome<Place> {
    let place = Place::with_repository()?;
    let commit = |files: &[(&str, &str)], message: &str| -> Outcome {
        set(&place, files)?;
        place.ok(&["commit", "-q", "--allow-empty", "-m", message])?;
        Ok(())
    };
    commit(states[0], "base")?;
    place.ok(&["branch", "side"])?;
    commit(states[1], "ours")?;
    place.ok(&["checkout", "-q", "side"])?;
    commit(states[2], "theirs")?;
    place.ok(&["checkout", "-q", "main"])?;
    place.fails(4, &["merge", "side"])?;
    Ok(place)
}

/// Paths of `changes` or `conflicts` in the status.
fn status(place: &Place, key: &str) -> Outcome<Vec<String>> {
    let status = place.json(&["status", "--json"])?;
    let all = status[key].as_array().ok_or("no list")?;
    let path = |v: &Value| v["path"].as_str().unwrap_or_default().to_owned();
    Ok(all.iter().map(path).collect())
}

#[test]
fn versions_whose_names_are_cut_to_the_same_bytes_are_all_kept() -> Outcome {
    let names = ["1", "2"].map(|end| "n".repeat(254) + end);
    let [one, two] = &names;
    let place = merged([
        &[(one.as_str(), "\0base 1"), (two, "\0base 2"), ("k", "k")],
        &[(one, "\0ours 1"), (two, "\0ours 2"), ("k", "k")],
        &[(one, "\0theirs 1"), (two, "\0theirs 2"), ("k", "k")],
    ])?;
    place.ok(&["resolve", "--all", "--both"])?;
    let left: BTreeSet<String> = files(&place)?.into_values().collect();
    let all = ["k", "\0ours 1", "\0ours 2", "\0theirs 1", "\0theirs 2"];
    assert_eq!(left, all.map(str::to_owned).into());
    Ok(())
}

#[test]
fn what_settles_nothing_is_named_and_nothing_happens() -> Outcome {
    let place = merged([
        &[("a", "\0b"), ("t", "1\nbase\n")],
        &[("a", "\0o"), ("t", "1\nours\n")],
        &[("a", "\0t"), ("t", "1\ntheirs\n")],
    ])?;
    let before = files(&place)?;
    // A file that is none.
    let errors = place.fails(20, &["resolve", "a", "--with", "nofile"])?;
    assert!(errors.contains("there is no file 'nofile'"), "{errors}");
    place.write("d/f", "")?;
    let errors = place.fails(20, &["resolve", "a", "--with", "d"])?;
    assert!(
        errors.contains("'d'") && errors.contains("not a file"),
        "{errors}"
    );
    fs::remove_dir_all(place.work().join("d"))?;
    place.fails(2, &["resolve", "a"])?;
    place.fails(2, &["resolve", "--ours"])?;
    assert_eq!(files(&place)?, before);
    // An edit by hand is kept, and the message says what to do.
    place.write("t", "by hand\n")?;
    let errors = place.fails(5, &["resolve", "t", "--ours"])?;
    assert!(errors.contains("settled by hand"), "{errors}");
    assert!(errors.contains("dmv restore t"), "{errors}");
    assert_eq!(files(&place)?["t"], "by hand\n");
    // A commit over marker lines names the file and the line.
    place.write("t", format!("edited\n{}", before["t"]))?;
    let errors = place.fails(4, &["commit", "-m", "m"])?;
    assert!(errors.contains("t:3 "), "{errors}");
    assert!(errors.contains("<<<<<<<"), "{errors}");
    assert_eq!(status(&place, "conflicts")?, ["a", "t"]);
    // One of the versions beside it is a file like any other.
    place.ok(&["resolve", "a", "--with", "a.theirs"])?;
    let left = files(&place)?;
    assert_eq!(left["a"], "\0t");
    assert!(!left.keys().any(|path| path.starts_with("a.")), "{left:?}");
    Ok(())
}

/// A conflict at `dir` between a directory with a conflict of its own, at `dir/f`, and a file.
fn nested() -> Outcome<Place> {
    let place = Place::with_repository()?;
    let lines = |middle: &str| format!("1\n2\n3\n4\n{middle}\n6\n7\n8\n9\n");
    place.write("dir/f", lines("5"))?;
    place.write("other", "other")?;
    place.commit("base")?;
    for branch in ["one", "two", "three"] {
        place.ok(&["branch", branch])?;
    }
    for branch in ["one", "two"] {
        place.ok(&["checkout", branch])?;
        place.write("dir/f", lines(branch))?;
        place.commit(branch)?;
    }
    place.ok(&["checkout", "three"])?;
    fs::remove_dir_all(place.work().join("dir"))?;
    place.write("dir", "file")?;
    place.commit("three")?;
    place.ok(&["checkout", "one"])?;
    place.fails(4, &["merge", "two"])?;
    place.fails(4, &["merge", "three"])?;
    Ok(place)
}

fn conflicts_at(place: &Place, args: &[&str]) -> Outcome<Vec<Value>> {
    let all = place.records(args)?;
    Ok(all.into_iter().map(|one| one["path"].clone()).collect())
}

#[test]
fn a_conflict_in_a_chosen_version_stays_a_conflict() -> Outcome {
    // In a bare repository.
    let place = nested()?;
    place.ok(&["clone", "--bare", ".", "../bare"])?;
    place.ok(&["-C", "../bare", "checkout", "one"])?;
    place.ok(&["-C", "../bare", "resolve", "dir", "--ours"])?;
    let asked = ["-C", "../bare", "conflicts", "one", "--json"];
    assert_eq!(conflicts_at(&place, &asked)?, ["dir/f"]);
    // Whoever clones it has the conflict in files, and keeps it by committing something else.
    place.ok(&["clone", "../bare", "../fresh"])?;
    let fresh = place.work().join("../fresh");
    assert!(fs::read_to_string(fresh.join("dir/f"))?.contains("<<<<<<<"));
    fs::write(fresh.join("new"), "new")?;
    place.ok(&["-C", "../fresh", "commit", "-m", "something else"])?;
    let asked = ["-C", "../fresh", "conflicts", "one", "--json"];
    assert_eq!(conflicts_at(&place, &asked)?, ["dir/f"]);
    place.ok(&["-C", "../bare", "resolve", "dir/f", "--theirs"])?;
    assert!(
        place
            .ok(&["-C", "../bare", "cat", "one:dir/f"])?
            .contains("\ntwo\n")
    );

    // A worktree does not take such a version.
    let before = files(&place)?;
    for choice in ["--ours", "--both"] {
        let said = place.fails(4, &["resolve", "dir", choice])?;
        assert!(
            said.contains("has a conflict of its own at 'dir/f'"),
            "{said}"
        );
        assert_eq!(files(&place)?, before, "{choice}");
    }
    let said = place.fails(4, &["resolve", "--all", "--ours"])?;
    assert!(said.contains("hint: mv dir.ours dir; then edit"), "{said}");
    // The other version is a file. And by hand both are possible.
    place.ok(&["resolve", "dir", "--theirs"])?;
    assert_eq!(fs::read_to_string(place.work().join("dir"))?, "file");
    place.ok(&["undo"])?;
    assert_eq!(files(&place)?, before);
    fs::rename(place.work().join("dir.ours"), place.work().join("dir"))?;
    place.write("dir/f", "mine")?;
    for side in ["base", "ours", "theirs"] {
        fs::remove_file(place.work().join("dir").join(format!("f.{side}")))?;
    }
    place.ok(&["commit", "-m", "by hand"])?;
    assert_eq!(place.ok(&["cat", "@:dir/f"])?, "mine");
    assert_eq!(place.ok(&["cat", "@:other"])?, "other");

    // Outside of the subset it does.
    place.ok(&["reset", "--hard", "@~1"])?;
    place.ok(&["checkout", "--subset", "other"])?;
    place.ok(&["resolve", "dir", "--ours"])?;
    place.write("other", "mine")?;
    place.ok(&["commit", "-m", "other"])?;
    assert_eq!(conflicts_at(&place, &["conflicts", "--json"])?, ["dir/f"]);
    assert_eq!(
        conflicts_at(&place, &["conflicts", "@", "--json"])?,
        ["dir/f"]
    );
    place.ok(&["checkout", "--all"])?;
    assert!(fs::read_to_string(place.work().join("dir/f"))?.contains("<<<<<<<"));
    place.ok(&["resolve", "dir/f", "--ours"])?;
    place.ok(&["commit", "-m", "settled"])?;
    assert!(place.ok(&["cat", "@:dir/f"])?.contains("\none\n"));
    Ok(())
}
