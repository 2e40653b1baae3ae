//! Several worktrees on one repository.

use crate::place::{Outcome, Place};
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::symlink;

fn repository() -> Outcome<Place> {
    let place = Place::with_repository()?;
    place.write("f", "one")?;
    place.commit("one")?;
    Ok(place)
}

fn status(place: &Place, dir: &str) -> Outcome<Value> {
    place.json(&["-C", dir, "status", "--json"])
}

#[test]
fn worktrees_share_what_is_stored_and_no_branch() -> Outcome {
    let place = repository()?;
    // A worktree has a branch of its own and shares what is stored.
    let added = place.json(&["worktree", "add", "../side", "--json"])?;
    assert_eq!(
        (&added["branch"], &added["files"]),
        (&json!("side"), &json!(1))
    );
    fs::write(place.work().join("../side/f"), "two")?;
    place.ok(&["-C", "../side", "commit", "-m", "two"])?;
    assert_eq!(place.ok(&["cat", "side:f"])?, "two");
    assert_eq!(place.ok(&["cat", "main:f"])?, "one");
    assert_eq!(place.json(&["status", "--json"])?["clean"], json!(true));
    let list = place.records(&["-C", "../side", "worktree", "list", "--json"])?;
    let names: Vec<&Value> = list.iter().map(|w| &w["name"]).collect();
    assert_eq!(names, [&json!("main"), &json!("side")]);
    assert_eq!(
        (&list[0]["current"], &list[1]["current"]),
        (&json!(false), &json!(true))
    );
    // A commit, on no branch; an existing branch; an empty directory.
    place.ok(&["branch", "other"])?;
    fs::create_dir(place.work().join("../empty"))?;
    place.ok(&["worktree", "add", "../empty", "other"])?;
    assert_eq!(status(&place, "../empty")?["branch"], json!("other"));
    place.ok(&["worktree", "add", "--detach", "../old", "side"])?;
    assert_eq!(status(&place, "../old")?["branch"], Value::Null);
    place.ok(&["verify"])?;

    // Two worktrees are never on one branch by accident.
    for command in [
        &["checkout", "side"][..],
        &["worktree", "add", "../more", "side"],
        &["worktree", "add", "../more", "main"],
        &["-C", "../side", "checkout", "main"],
        &["branch", "-d", "side"],
    ] {
        let errors = place.fails(5, command)?;
        assert!(
            errors.contains("is checked out at"),
            "{command:?}: {errors}"
        );
    }
    assert!(!place.work().join("../more").exists());
    // By undo neither.
    place.ok(&["-C", "../side", "checkout", "@~0"])?;
    place.ok(&["checkout", "side"])?;
    place.fails(5, &["-C", "../side", "undo"])?;
    // A renamed branch takes its worktree along.
    place.ok(&["-C", "../side", "branch", "-m", "side", "renamed"])?;
    assert_eq!(
        place.json(&["status", "--json"])?["branch"],
        json!("renamed")
    );
    Ok(())
}

#[test]
fn a_worktree_is_added_to_a_free_directory_and_undone_from_elsewhere() -> Outcome {
    let place = repository()?;
    // A directory that is not free is refused.
    fs::create_dir_all(place.work().join("../full"))?;
    fs::write(place.work().join("../full/x"), "mine")?;
    let errors = place.fails(5, &["worktree", "add", "../full"])?;
    assert!(errors.contains("the directory is not empty"), "{errors}");
    let errors = place.fails(5, &["worktree", "add", "inside"])?;
    assert!(errors.contains("inside the worktree"), "{errors}");
    assert_eq!(fs::read(place.work().join("../full/x"))?, b"mine");
    place.fails(20, &["worktree", "add", "../new", "nonsense"])?;
    // A killed command may leave a temporary file.
    fs::create_dir_all(place.work().join("../killed"))?;
    fs::write(place.work().join("../killed/.dmv-tmp-0123456789abcdef"), "")?;
    place.ok(&["worktree", "add", "../killed"])?;

    // A copy of a worktree is refused.
    let at = |name: &str| place.work().join("..").join(name);
    place.ok(&["worktree", "add", "../side"])?;
    fs::create_dir(at("copy"))?;
    fs::copy(at("side/.dmv"), at("copy/.dmv"))?;
    let errors = place.fails(5, &["-C", "../copy", "status"])?;
    assert!(errors.contains("is a copy of the worktree at"), "{errors}");
    fs::write(at("copy/.dmv"), "repository /nowhere\nworktree ../../x\n")?;
    place.fails(7, &["-C", "../copy", "status"])?;

    // A refused removal hints at the worktree with the changes.
    let side = place.dir.path().join("side");
    fs::write(side.join("new"), "new")?;
    for args in [&["undo"][..], &["worktree", "remove", "../side"]] {
        let said = place.fails(5, args)?;
        let side = side.display();
        assert!(
            said.contains(&format!("removing the worktree at {side} would lose")),
            "{said}"
        );
        assert!(
            said.contains(&format!("dmv -C {side} commit -m MESSAGE")),
            "{said}"
        );
    }

    fs::remove_file(side.join("new"))?;
    // Undo elsewhere moves the branch back and leaves the files.
    let file = place.work().join("../side/f");
    fs::write(&file, "two")?;
    place.ok(&["-C", "../side", "commit", "-m", "two"])?;
    // Without an id, only what was done here.
    let log = place.records(&["op", "log", "--json", "-n", "1"])?;
    let id = log[0]["id"].as_str().ok_or("no id")?;
    place.ok(&["undo", id])?;
    assert_eq!(fs::read(&file)?, b"two");
    let there = status(&place, "../side")?;
    assert_eq!(there["moved"], json!(true));
    fs::write(&file, "three")?;
    place.fails(5, &["-C", "../side", "commit", "-m", "three"])?;
    place.ok(&["redo"])?;
    place.ok(&["-C", "../side", "commit", "-m", "three"])?;
    // What it did to that worktree alone is undone there.
    place.ok(&["-C", "../side", "checkout", "@~1"])?;
    let log = place.records(&["op", "log", "--json", "-n", "1"])?;
    let errors = place.fails(5, &["undo", log[0]["id"].as_str().ok_or("no id")?])?;
    assert!(errors.contains("undo it there"), "{errors}");
    Ok(())
}

#[test]
fn a_worktree_is_removed_only_when_nothing_is_lost_and_nobody_is_in_it() -> Outcome {
    let place = repository()?;
    // A worktree is removed only when nothing is lost.
    place.write(".dmvignore", "*.tmp\n")?;
    place.commit("ignore")?;
    place.ok(&["worktree", "add", "../side"])?;
    let side = place.work().join("../side");
    for (path, content) in [("f", "edited"), ("untracked", "x"), ("a.tmp", "ignored")] {
        let before = fs::read(side.join(path)).ok();
        fs::write(side.join(path), content)?;
        let errors = place.fails(5, &["worktree", "remove", "../side"])?;
        assert!(errors.contains(path), "{errors}");
        match before {
            Some(bytes) => fs::write(side.join(path), bytes)?,
            None => fs::remove_file(side.join(path))?,
        }
    }
    fs::create_dir_all(side.join("sub/.git"))?;
    place.fails(5, &["worktree", "remove", "../side"])?;
    fs::remove_dir_all(side.join("sub"))?;
    fs::write(side.join("untracked"), "x")?;
    // What a symlink points at is not the worktree's.
    fs::create_dir(place.work().join("../precious"))?;
    fs::write(place.work().join("../precious/x"), "x")?;
    symlink(place.work().join("../precious"), side.join("link"))?;
    place.ok(&["worktree", "remove", "--force", "../side"])?;
    assert!(!side.exists() && place.work().join("../precious/x").exists());
    assert_eq!(place.records(&["branch", "--json"])?.len(), 2);
    place.fails(5, &["worktree", "remove", "."])?;
    place.fails(20, &["worktree", "remove", "../nowhere"])?;

    // No worktree is removed around somebody.
    place.ok(&["worktree", "add", "../second"])?;
    let second = place.work().join("../second");
    std::fs::create_dir_all(second.join("deep/er"))?;
    std::fs::write(second.join("deep/er/file"), "text")?;
    place.ok(&["-C", "../second", "commit", "-m", "deep"])?;
    let main = place.work().canonicalize()?;
    let at = second.canonicalize()?;
    let hint = format!(
        "hint: cd {}; then: dmv worktree remove {}",
        main.display(),
        at.display()
    );
    for (dir, named) in [
        ("", "."),
        ("", "../second"),
        ("deep/er", "../.."),
        ("deep", ".."),
    ] {
        for options in [
            &["worktree", "remove", named][..],
            &["worktree", "remove", "-f", named],
        ] {
            let mut command = place.command(options);
            let done = command.current_dir(at.join(dir)).output()?;
            let said = String::from_utf8(done.stderr)?;
            assert_eq!(done.status.code(), Some(5), "{dir} {named}: {said}");
            assert!(said.contains(&hint), "{said}");
            assert!(at.join("deep/er/file").exists());
        }
    }
    place.ok(&["worktree", "remove", "../second"])?;
    assert!(!at.exists());
    Ok(())
}

#[test]
fn what_was_moved_by_hand_is_found_again() -> Outcome {
    let place = repository()?;
    let at = |name: &str| place.work().join("..").join(name);
    place.ok(&["worktree", "add", "../side"])?;
    fs::rename(at("side"), at("moved"))?;
    assert_eq!(
        place.records(&["worktree", "list", "--json"])?[1]["missing"],
        json!(true)
    );
    assert_eq!(status(&place, "../moved")?["clean"], json!(true));
    assert_eq!(
        place.records(&["worktree", "list", "--json"])?[1]["missing"],
        json!(false)
    );
    // That it was noted is nothing to undo.
    place.fails(20, &["-C", "../moved", "undo"])?;
    // The repository moves, the worktree's file names its old place.
    fs::rename(place.work(), at("elsewhere"))?;
    fs::create_dir(place.work())?;
    let errors = place.fails(10, &["-C", "../moved", "status"])?;
    assert!(errors.contains("worktree repair"), "{errors}");
    place.ok(&["-C", "../elsewhere", "status"])?;
    assert_eq!(status(&place, "../moved")?["clean"], json!(true));
    // Both at once.
    fs::rename(at("elsewhere"), at("third"))?;
    fs::rename(at("moved"), at("side"))?;
    place.ok(&["-C", "../third", "worktree", "repair", "../side"])?;
    assert_eq!(status(&place, "../side")?["clean"], json!(true));
    // Deleted by hand.
    fs::remove_dir_all(at("side"))?;
    place.ok(&["-C", "../third", "worktree", "remove", "../side"])?;
    assert_eq!(
        place
            .records(&["-C", "../third", "worktree", "list", "--json"])?
            .len(),
        1
    );
    Ok(())
}

#[test]
fn a_worktree_that_was_moved_keeps_its_subset_and_its_changes() -> Outcome {
    let place = repository()?;
    place.write("media/m", "1")?;
    place.write("text/t", "1")?;
    place.commit("more")?;
    let at = |name: &str| place.work().join("..").join(name);
    place.ok(&["worktree", "add", "../side"])?;
    place.ok(&["-C", "../side", "subset", "set", "media"])?;
    place.ok(&["subset", "set", "text"])?;
    fs::write(at("side/media/m"), "2")?;
    fs::write(at("work/text/t"), "2")?;
    fs::rename(at("side"), at("side2"))?;
    fs::rename(place.work(), at("work2"))?;
    fs::create_dir(place.work())?;
    // Both at once: neither knows where the other is.
    place.ok(&["-C", "../work2", "worktree", "repair", "../side2"])?;
    for (dir, subset, path) in [
        ("../work2", "text", "text/t"),
        ("../side2", "media", "media/m"),
    ] {
        let status = status(&place, dir)?;
        assert_eq!(status["subset"], json!([subset]));
        let changes = json!([{"path": path, "change": "modified"}]);
        assert_eq!(status["changes"], changes);
        place.ok(&["-C", dir, "commit", "-m", "moved"])?;
        let out = place.ok(&["-C", dir, "subset", "clear"])?;
        assert!(out.contains("written"), "{out}");
        place.ok(&["-C", dir, "status", "--exit-code"])?;
        place.ok(&["-C", dir, "undo"])?;
        let log = place.ok(&["-C", dir, "ls", "-r"])?;
        assert!(log.contains("media/m") && log.contains("text/t"));
    }
    assert!(!at("side2/text").exists() && !at("work2/media").exists());
    Ok(())
}

#[test]
fn a_moved_repository_does_not_wait_to_note_its_place() -> Outcome {
    let place = Place::with_repository()?;
    place.write("f", "one")?;
    place.commit("one")?;
    let moved = place.work().join("../moved");
    fs::rename(place.work(), &moved)?;
    fs::create_dir(place.work())?;
    let lock = fs::File::open(moved.join(".dmv/refs.lock"))?;
    lock.lock()?;
    let start = std::time::Instant::now();
    let log = place.ok(&["-C", "../moved", "log"])?;
    assert!(log.contains("one"), "{log}");
    // Whoever waits does so for ten seconds.
    assert!(start.elapsed().as_secs() < 5, "{:?}", start.elapsed());
    lock.unlock()?;
    let output = place.run(&["-C", "../moved", "log"])?;
    let said = String::from_utf8(output.stderr)?;
    assert!(said.contains("this worktree has moved"), "{said}");
    Ok(())
}

/// The id of the last operation.
fn last_operation(place: &Place) -> Outcome<String> {
    let all = place.records(&["op", "log", "-n", "1", "--json"])?;
    Ok(all[0]["id"].as_str().ok_or("an id")?.to_owned())
}

#[test]
fn the_undo_of_an_added_worktree_removes_no_other_one() -> Outcome {
    let place = Place::with_repository()?;
    // An undo does not remove the worktree that it runs in.
    place.write("a", "a")?;
    place.commit("one")?;
    place.ok(&["branch", "side"])?;
    place.ok(&["worktree", "add", "../side", "side"])?;
    let id = last_operation(&place)?;
    let said = place.fails(5, &["-C", "../side", "undo", &id])?;
    assert!(said.contains("another worktree"), "{said}");
    assert!(place.work().join("../side/a").exists());
    place.ok(&["undo", &id])?;
    assert!(!place.work().join("../side").exists());
    place.ok(&["redo"])?;
    assert!(place.work().join("../side/a").exists());

    // The undo of an added worktree finds it where it was moved.
    let (old, new) = (place.work().join("../side"), place.work().join("../moved"));
    fs::rename(&old, &new)?;
    // Nobody has told the repository yet.
    let said = place.fails(5, &["undo"])?;
    assert!(
        said.contains("moved or deleted") && said.contains("repair"),
        "{said}"
    );
    assert_eq!(place.records(&["worktree", "list", "--json"])?.len(), 2);
    assert_eq!(fs::read_to_string(new.join("a"))?, "a");
    place.ok(&["-C", "../moved", "status"])?;
    place.ok(&["undo"])?;
    assert!(!new.exists() && !old.exists());
    assert_eq!(place.records(&["worktree", "list", "--json"])?.len(), 1);
    place.ok(&["redo"])?;
    assert_eq!(fs::read_to_string(new.join("a"))?, "a");
    place.ok(&["verify", "--full"])?;
    Ok(())
}
