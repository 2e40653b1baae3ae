//! `dmv checkout --subset` and `dmv subset` as a user runs them.

// A test says aloud what it could not try.
#![allow(clippy::print_stdout)]

use crate::place::{Outcome, Place};
use serde_json::json;
use std::fs;

/// A repository of five files.
fn studio() -> Result<Place, Box<dyn std::error::Error>> {
    let place = Place::with_repository()?;
    for path in [
        "media/s1/a",
        "media/s1/raw/r",
        "media/s2/b",
        "titles/d",
        "notes.txt",
    ] {
        place.write(path, path)?;
    }
    place.commit("all")?;
    Ok(place)
}

fn has(place: &Place, path: &str) -> bool {
    place.work().join(path).exists()
}

#[test]
fn files_outside_of_the_subset_are_left_and_commands_say_so() -> Outcome {
    let place = studio()?;
    // Commands name what is outside and what is nowhere.
    place.write("titles/d", "changed")?;
    place.write("media/s1/a", "changed")?;
    place.commit("both")?;
    place.ok(&["checkout", "--subset", "titles"])?;
    // Against another commit, too, only what the worktree has.
    let diff = place.ok(&["diff", "@~1", "--stat"])?;
    assert!(
        diff.contains("titles/d") && !diff.contains("media"),
        "{diff}"
    );
    for args in [
        &["status", "media/s1"][..],
        &["diff", "--", "media/s1"],
        &["diff", "@~1", "--", "media/s1"],
        &["commit", "-m", "no", "media/s1"],
        &["restore", "media/s1"],
    ] {
        let err = place.fails(20, args)?;
        assert!(err.contains("outside of the worktree's subset"), "{err}");
        assert!(err.contains("hint: dmv subset add media/s1"), "{err}");
    }
    // Two commits are compared as a whole.
    let diff = place.ok(&["diff", "@~1", "@", "--", "media/s1"])?;
    assert!(diff.contains("media/s1/a"), "{diff}");
    for args in [
        &["commit", "-m", "no", "titles/nowhere"][..],
        &["status", "titles/nowhere"],
        &["diff", "--", "titles/nowhere"],
    ] {
        place.fails(20, args)?;
    }
    for args in [
        &["subset", "remove", "nowhere"][..],
        &["subset", "add", "titles/d"],
    ] {
        let said = String::from_utf8(place.run(args)?.stderr)?;
        assert!(said.starts_with("warning: "), "{args:?}: {said}");
        place.ok(args)?;
    }
    assert_eq!(place.ok(&["subset"])?, "titles\n");

    place.ok(&["checkout", "--all"])?;
    // Files outside of the subset are told of and left.
    place.ok(&["checkout", "--subset", "titles"])?;
    place.write("notes.txt", "mine")?;
    place.write("new/file", "mine")?;
    place.write("titles/e", "taken")?;
    let status = place.json(&["status", "--json"])?;
    assert_eq!(
        status["outside"],
        json!([{"path": "new"}, {"path": "notes.txt"}])
    );
    assert_eq!(
        status["changes"],
        json!([{"path": "titles/e", "change": "added"}])
    );
    let err = place.fails(3, &["commit", "-m", "titles"])?;
    assert!(err.contains("notes.txt") && err.contains("dmv subset add new"));
    assert_eq!(place.ok(&["cat", "@:notes.txt"])?, "notes.txt");
    assert_eq!(fs::read(place.work().join("notes.txt"))?, b"mine");
    // They come in as they are, and count as edits.
    let said = String::from_utf8(place.run(&["subset", "add", "notes.txt"])?.stderr)?;
    assert!(said.contains("notes.txt: your file stays"), "{said}");
    place.ok(&["subset", "add", "new"])?;
    assert_eq!(fs::read(place.work().join("notes.txt"))?, b"mine");
    let changes = &place.json(&["status", "--json"])?["changes"];
    assert_eq!(changes[0]["path"], "new/file");
    assert_eq!(changes[1]["path"], "notes.txt");
    assert_eq!(changes[1]["change"], "modified");
    let err = place.fails(20, &["restore", "media/s1"])?;
    assert!(err.contains("dmv subset add media/s1"), "{err}");
    // A directory in the place of a file is still in the way.
    place.write("media/s2/b/d/h", "mine")?;
    place.fails(5, &["subset", "add", "media/s2/b"])?;
    fs::remove_dir_all(place.work().join("media"))?;
    place.commit("mine")?;
    assert_eq!(place.ok(&["cat", "@:notes.txt"])?, "mine");
    Ok(())
}

#[test]
fn a_subset_is_set_in_many_ways_and_a_pattern_without_files_is_named() -> Outcome {
    let place = studio()?;
    // A command inside of the repository s directory says where the worktree is.
    let err = place.fails(20, &["-C", ".dmv/packs", "status"])?;
    assert!(err.contains("is not in one\nhint: cd /"), "{err}");

    // A part is exported from a bare repository.
    let bare = place.dir.path().join("bare");
    let bare = bare.to_str().ok_or("path")?;
    place.ok(&["clone", "--bare", ".", bare])?;
    let out = place.dir.path().join("out");
    let to = out.to_str().ok_or("path")?;
    let export = [
        "-C", bare, "export", "main", "--subset", "media/s1", "*.txt",
    ];
    let done = place.json(&[&export[..], &["--to", to, "--json"]].concat())?;
    assert_eq!(done["files"], 3);
    assert_eq!(fs::read(out.join("media/s1/a"))?, b"media/s1/a");
    assert!(out.join("notes.txt").exists() && !out.join("titles").exists());
    // A tar of the same, streamed to whoever reads.
    let mut child = place
        .command(&[&export[..], &["--tar", "-"]].concat())
        .stdout(std::process::Stdio::piped())
        .spawn()?;
    let unpacked = place.dir.path().join("unpacked");
    fs::create_dir(&unpacked)?;
    let tar = std::process::Command::new("tar")
        .args(["-x", "-C"])
        .arg(&unpacked)
        .stdin(child.stdout.take().ok_or("stdout")?)
        .status();
    match tar {
        Ok(status) => assert!(status.success()),
        Err(e) => dmv_random::skip(format_args!("no tar: {e}")),
    }
    assert!(child.wait()?.success());
    let differs = std::process::Command::new("diff")
        .arg("-r")
        .args([&out, &unpacked])
        .status()?;
    assert!(differs.success());

    // A subset is checked out changed and dropped.
    place.ok(&["checkout", "--subset", "media/s1", "!media/s1/raw", "*.txt"])?;
    assert!(has(&place, "media/s1/a") && has(&place, "notes.txt"));
    assert!(!has(&place, "media/s1/raw") && !has(&place, "media/s2") && !has(&place, "titles"));
    let status = place.json(&["status", "--json"])?;
    let patterns = json!(["media/s1", "!media/s1/raw", "*.txt"]);
    assert_eq!(
        (&status["subset"], &status["clean"]),
        (&patterns, &true.into())
    );
    assert_eq!(place.json(&["subset", "--json"])?["subset"], patterns);
    place.ok(&["subset", "add", "titles"])?;
    place.ok(&["subset", "remove", "media", "notes.txt"])?;
    assert_eq!(
        place.ok(&["subset"])?,
        "*.txt\ntitles\n!media\n!notes.txt\n"
    );
    assert!(has(&place, "titles/d") && !has(&place, "media") && !has(&place, "notes.txt"));
    place.ok(&["undo"])?;
    assert!(has(&place, "media/s1/a") && !has(&place, "media/s2"));
    place.ok(&["checkout", "--all"])?;
    assert_eq!(place.ok(&["subset"])?, "");
    assert!(has(&place, "media/s1/raw/r") && has(&place, "media/s2/b"));
    place.ok(&["status", "--exit-code"])?;

    assert_eq!(
        place.json(&["status", "--json"])?["idle_patterns"],
        json!([])
    );
    // A pattern that matches nothing is said and a bad one refused.
    let done = place.json(&["checkout", "--subset", "titles", "nowhere/*.x", "--json"])?;
    assert_eq!(done["idle_patterns"], json!(["nowhere/*.x"]));
    for bad in ["a[", "../x", ""] {
        place.fails(2, &["subset", "add", bad])?;
    }
    place.fails(2, &["checkout"])?;
    place.fails(2, &["checkout", "--all", "--subset", "titles"])?;
    assert_eq!(place.ok(&["subset"])?, "titles\nnowhere/*.x\n");

    // Status names patterns that match nothing.
    let said = place.ok(&["status"])?;
    assert!(
        said.contains("nothing in the commit matches 'nowhere/*.x'"),
        "{said}"
    );
    assert_eq!(
        place.json(&["status", "--json"])?["idle_patterns"],
        json!(["nowhere/*.x"])
    );

    place.ok(&["checkout", "--all"])?;
    // Patterns come from a file on disk or in a commit.
    place.write("needs", "# the render\n\nmedia/s1\n!media/s1/raw\n")?;
    place.commit("what the render needs")?;
    place.ok(&["checkout", "--subset-file", "@:needs"])?;
    assert_eq!(place.ok(&["subset"])?, "media/s1\n!media/s1/raw\n");
    assert!(!has(&place, "needs"));
    place.write("media/s1/list", "titles\n")?;
    place.ok(&["subset", "set", "--subset-file", "media/s1/list"])?;
    assert!(has(&place, "titles/d") && has(&place, "media/s1/list"));
    place.fails(20, &["subset", "set", "--subset-file", "nowhere"])?;

    // Whether two names are one is the file system's own answer. It tells them apart here, whatever a file says that
    // stands where one would be that knows no case. tests/windows.sh tries a file system that takes them for one.
    place.ok(&["checkout", "--all"])?;
    place.write("titles/D", "two")?;
    place.commit("names that differ in case")?;
    place.ok(&["subset", "set", "notes.txt"])?;
    fs::write(place.work().join(".dmv/worktrees/main/LOCK"), "")?;
    place.ok(&["subset", "add", "titles"])?;
    assert!(has(&place, "titles/d") && has(&place, "titles/D"));
    place.ok(&["status", "--exit-code"])?;
    let own = fs::read_dir(place.work().join(".dmv/worktrees/main"))?;
    let names = own.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
    let left: Vec<String> = names.collect::<Result<_, std::io::Error>>()?;
    let is_tried = |name: &&String| name.starts_with(".dmv-");
    assert_eq!(left.iter().filter(is_tried).count(), 0, "{left:?}");
    Ok(())
}

#[test]
fn a_new_directory_counts_only_if_it_is_empty_and_in_the_subset() -> Outcome {
    let place = Place::with_repository()?;
    place.write(".dmvignore", "*.tmp")?;
    place.commit("rules")?;
    // Nothing that comes of it can be committed.
    place.write("ignored/below/x.tmp", "")?;
    fs::create_dir_all(place.work().join("control/.git"))?;
    assert_eq!(place.json(&["status", "--json"])?["clean"], true);
    let none = place.json(&["commit", "-m", "x", "--json"])?;
    assert_eq!(none["commit"], serde_json::Value::Null);
    fs::remove_dir_all(place.work().join("ignored"))?;
    // These are empty, and one is in the subset.
    place.ok(&["subset", "set", "*.x", ".dmvignore"])?;
    for dir in ["lone", "deep/er", "in.x"] {
        fs::create_dir_all(place.work().join(dir))?;
    }
    let status = place.json(&["status", "--json"])?;
    let paths = |list: &serde_json::Value| -> Vec<String> {
        let list = list.as_array().into_iter().flatten();
        list.map(|item| item["path"].as_str().unwrap_or_default().to_owned())
            .collect()
    };
    assert_eq!(paths(&status["changes"]), ["in.x"], "{status}");
    assert_eq!(paths(&status["outside"]), ["deep/er", "lone"], "{status}");
    place.ok(&["commit", "-m", "one directory"])?;
    assert_eq!(place.ok(&["ls", "-r", "@"])?, ".dmvignore\nin.x/\n");
    Ok(())
}

/// A repository with a directory of some files, and a clone of that directory alone.
fn cloned_part() -> Outcome<Place> {
    let place = Place::new()?;
    place.ok(&["init", "up"])?;
    for (path, content) in [
        ("a/x", "x\n"),
        ("a/d/y", "y\n"),
        ("a/d/z", "z\n"),
        ("k", "k\n"),
    ] {
        place.write(format!("up/{path}"), content)?;
    }
    place.ok(&["-C", "up", "commit", "-q", "-m", "base"])?;
    place.ok(&["clone", "-q", "up", "part", "--subset", "a"])?;
    Ok(place)
}

fn pull_in_part(place: &Place) -> Outcome<String> {
    place.ok(&["-C", "up", "commit", "-q", "-m", "moved"])?;
    let output = place.run(&["-C", "part", "pull"])?;
    assert_eq!(output.status.code(), Some(0));
    Ok(String::from_utf8(output.stderr)?)
}

#[test]
fn a_directory_of_the_subset_that_was_renamed_is_told_of_with_its_new_place() -> Outcome {
    let place = cloned_part()?;
    let up = place.work().join("up");
    fs::rename(up.join("a"), up.join("b"))?;
    let said = pull_in_part(&place)?;
    assert!(said.contains("'a' of the worktree's subset"), "{said}");
    assert!(said.contains("it is now at b"), "{said}");
    assert!(said.contains("hint: dmv subset set b"), "{said}");
    place.ok(&["-C", "part", "subset", "set", "b"])?;
    assert!(place.work().join("part/b/d/y").exists());
    // The same with a change in it, which makes it another directory.
    fs::create_dir(up.join("deep"))?;
    fs::rename(up.join("b"), up.join("deep/c"))?;
    place.write("up/deep/c/x", "changed\n")?;
    let said = pull_in_part(&place)?;
    assert!(said.contains("'b' of the worktree's subset"), "{said}");
    Ok(())
}

#[test]
fn a_pattern_that_matches_nothing_any_more_is_told_of_by_checkout_and_merge() -> Outcome {
    let place = Place::with_repository()?;
    for (path, content) in [("a/x", "x\n"), ("a/d/y", "y\n"), ("c/k", "k\n")] {
        place.write(path, content)?;
    }
    place.commit("base")?;
    place.ok(&["checkout", "-b", "moved"])?;
    fs::create_dir(place.work().join("b"))?;
    fs::rename(place.work().join("a"), place.work().join("b/a"))?;
    place.write("b/a/x", "changed\n")?;
    place.commit("moved")?;
    place.ok(&["checkout", "main", "--subset", "a", "c"])?;
    let done = place.json(&["checkout", "moved", "--json"])?;
    let told = serde_json::json!([{"pattern": "a", "moved_to": "b/a"}]);
    assert_eq!(done["emptied_patterns"], told);
    place.ok(&["checkout", "main"])?;
    let output = place.run(&["merge", "moved"])?;
    let said = String::from_utf8(output.stderr)?;
    assert!(said.contains("hint: dmv subset add b/a"), "{said}");
    // Once is enough.
    place.ok(&["checkout", "-b", "on"])?;
    place.ok(&["checkout", "moved"])?;
    place.ok(&["subset", "set", "c"])?;
    fs::remove_dir_all(place.work().join("c"))?;
    place.commit("gone")?;
    place.ok(&["checkout", "main"])?;
    place.ok(&["undo"])?;
    Ok(())
}
