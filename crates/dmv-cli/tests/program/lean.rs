//! Lean repositories: content that only files of the worktree and a remote have.

mod model;

use crate::place::several::several;
use crate::place::{Outcome, Place};
use dmv_random::noise;
use serde_json::Value;
use std::fs;
use std::process::Command;

/// The files of the clone, without its repository.
const CONTENT_BYTES: u64 = 2 * (3 << 20) + 20_000;

/// `nas`, a bare repository with two commits, and `lap`, a lean clone of it.
fn place() -> Outcome<Place> {
    let place = several()?;
    place.write("film/raw/a.mov", noise(1, 3 << 20))?;
    place.write("film/raw/b.mov", noise(2, 3 << 20))?;
    place.ok(&["-C", "film", "commit", "-m", "raw"])?;
    place.write("film/raw/a.mov", noise(3, 3 << 20))?;
    std::os::unix::fs::symlink("raw/a.mov", place.work().join("film/best"))?;
    place.ok(&["-C", "film", "commit", "-m", "better"])?;
    place.ok(&["clone", "--copy", "--bare", "film", "nas"])?;
    place.ok(&["clone", "--lean", "nas", "lap"])?;
    Ok(place)
}

/// Moves the remote away, or back.
fn is_away(place: &Place, away: bool) -> Outcome {
    let (here, there) = (place.work().join("nas"), place.work().join("away"));
    let (from, to) = if away { (here, there) } else { (there, here) };
    Ok(fs::rename(from, to)?)
}

fn packs_len(place: &Place) -> Outcome<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(place.work().join("lap/.dmv/packs"))? {
        bytes += entry?.metadata()?.len();
    }
    Ok(bytes)
}

fn lean(place: &Place) -> Outcome<Value> {
    place.json(&["-C", "lap", "lean", "status", "--json"])
}

fn cat(place: &Place, at: &str) -> Outcome<(Option<i32>, Vec<u8>)> {
    let done = place.run(&["-C", "lap", "cat", at])?;
    Ok((done.status.code(), done.stdout))
}

#[test]
fn a_lean_clone_has_each_file_once_and_what_became_something_else_is_absent() -> Outcome {
    let place = place()?;
    assert!(packs_len(&place)? < CONTENT_BYTES / 20);
    let found = lean(&place)?;
    assert_eq!(
        (&found["lean"], &found["lean_files"], &found["stored_files"]),
        (&true.into(), &22.into(), &0.into())
    );
    let status = place.json(&["-C", "lap", "status", "--json"])?;
    assert_eq!(
        (&status["clean"], &status["branch"]),
        (&true.into(), &"main".into())
    );
    let stats = place.json(&["-C", "lap", "stats", "--json"])?;
    assert_eq!(stats["lean_bytes"], found["lean_bytes"]);
    // Files stand in for their content; what no file has comes from the remote.
    is_away(&place, true)?;
    assert_eq!(cat(&place, "raw/a.mov")?, (Some(0), noise(3, 3 << 20)));
    assert_eq!(cat(&place, "@:raw/b.mov")?, (Some(0), noise(2, 3 << 20)));
    assert_eq!(cat(&place, "@~1:raw/a.mov")?.0, Some(6));
    place.ok(&["-C", "lap", "export", "@", "--to", "../out"])?;
    assert_eq!(
        fs::read(place.work().join("out/raw/b.mov"))?,
        noise(2, 3 << 20)
    );
    place.ok(&["-C", "lap", "verify", "--full"])?;
    place.ok(&["-C", "lap", "gc"])?;
    place.ok(&["-C", "lap", "recover"])?;
    assert_eq!(cat(&place, "raw/a.mov")?, (Some(0), noise(3, 3 << 20)));
    is_away(&place, false)?;
    assert_eq!(cat(&place, "@~1:raw/a.mov")?, (Some(0), noise(1, 3 << 20)));

    // A file that became something else is absent content.
    is_away(&place, true)?;
    let path = place.work().join("lap/raw/a.mov");
    fs::remove_file(&path)?;
    Command::new("mkfifo").arg(&path).status()?;
    assert_eq!(cat(&place, "raw/a.mov")?.0, Some(6));
    fs::remove_file(&path)?;
    // Even where the bytes behind a link would be right.
    fs::write(place.work().join("a.mov"), noise(3, 3 << 20))?;
    std::os::unix::fs::symlink(place.work().join("a.mov"), &path)?;
    assert_eq!(cat(&place, "raw/a.mov")?.0, Some(6));
    fs::remove_file(&path)?;
    let mut bytes = noise(3, 3 << 20);
    bytes[2 << 20] ^= 1;
    fs::write(&path, &bytes)?;
    assert_eq!(cat(&place, "raw/a.mov")?.0, Some(6));
    fs::write(&path, noise(3, 3 << 20))?;
    assert_eq!(cat(&place, "raw/a.mov")?, (Some(0), noise(3, 3 << 20)));
    Ok(())
}

#[test]
fn a_command_stores_what_it_replaces_or_removes() -> Outcome {
    let place = place()?;
    is_away(&place, true)?;
    place.ok(&["-C", "lap", "rm", "raw/a.mov"])?;
    assert!(!place.work().join("lap/raw/a.mov").exists());
    assert_eq!(cat(&place, "raw/a.mov")?, (Some(0), noise(3, 3 << 20)));
    place.ok(&["-C", "lap", "undo"])?;
    assert_eq!(
        fs::read(place.work().join("lap/raw/a.mov"))?,
        noise(3, 3 << 20)
    );
    // A checkout of a commit without these files.
    place.ok(&["-C", "lap", "checkout", "@~2"])?;
    assert_eq!(cat(&place, "main:raw/b.mov")?, (Some(0), noise(2, 3 << 20)));
    place.ok(&["-C", "lap", "checkout", "main"])?;
    assert_eq!(
        fs::read(place.work().join("lap/raw/b.mov"))?,
        noise(2, 3 << 20)
    );
    // Once a remote has confirmed again, it goes.
    is_away(&place, false)?;
    let stored = packs_len(&place)?;
    place.ok(&["-C", "lap", "lean", "on"])?;
    assert!(packs_len(&place)? + (6 << 20) < stored);
    assert_eq!(lean(&place)?["stored_files"], 0);
    Ok(())
}

/// What only files of one worktree have, another one gets without a remote.
#[test]
fn another_worktree_needs_no_remote_and_its_removal_stores_its_content() -> Outcome {
    // What only files of one worktree have, another one gets without a remote.
    let place = place()?;
    is_away(&place, true)?;
    place.ok(&["-C", "lap", "worktree", "add", "../side"])?;
    let there = fs::read(place.work().join("side/raw/a.mov"))?;
    assert_eq!(there, noise(3, 3 << 20));
    place.ok(&["-C", "side", "verify", "--full"])?;

    // The worktree's files may be the only ones here that have their content.
    is_away(&place, false)?;
    place.ok(&["-C", "lap", "lean", "on"])?;
    is_away(&place, true)?;
    fs::remove_file(place.work().join("lap/raw/a.mov"))?;
    place.ok(&["-C", "lap", "worktree", "remove", "../side"])?;
    place.ok(&["-C", "lap", "undo"])?;
    let back = fs::read(place.work().join("side/raw/a.mov"))?;
    assert_eq!(back, noise(3, 3 << 20));
    place.ok(&["-C", "lap", "restore", "raw/a.mov"])?;
    // Of what no file has any more, the message says who may have it.
    place.ok(&["-C", "lap", "worktree", "remove", "../side"])?;
    is_away(&place, false)?;
    place.ok(&["-C", "lap", "lean", "on"])?;
    is_away(&place, true)?;
    place.write("lap/raw/b.mov", "edited")?;
    let said = place.fails(6, &["-C", "lap", "undo"])?;
    assert!(said.contains("did not answer"), "{said}");
    Ok(())
}

#[test]
fn an_edited_file_leaves_its_former_content_at_the_remote() -> Outcome {
    let place = place()?;
    place.write("lap/raw/a.mov", noise(4, 3 << 20))?;
    is_away(&place, true)?;
    let said = place.fails(6, &["-C", "lap", "restore", "raw/a.mov"])?;
    assert!(said.contains("'raw/a.mov'"), "{said}");
    assert_eq!(
        fs::read(place.work().join("lap/raw/a.mov"))?,
        noise(4, 3 << 20)
    );
    // What is new is stored by the commit, and stays until a remote has it.
    place.ok(&["-C", "lap", "commit", "-m", "best"])?;
    place.fails(5, &["-C", "lap", "lean", "on"])?;
    is_away(&place, false)?;
    place.run(&["-C", "lap", "lean", "on"])?;
    assert_eq!(lean(&place)?["stored_files"], 1);
    place.ok(&["-C", "lap", "push"])?;
    place.ok(&["-C", "lap", "lean", "on"])?;
    assert_eq!(lean(&place)?["stored_files"], 0);
    assert_eq!(cat(&place, "@~1:raw/a.mov")?, (Some(0), noise(3, 3 << 20)));
    Ok(())
}

#[test]
fn a_full_clone_becomes_lean_and_back_and_one_that_was_cut_off_goes_on() -> Outcome {
    let place = place()?;
    place.ok(&["clone", "--copy", "nas", "full"])?;
    place.ok(&["-C", "full", "lean"])?;
    let done = place.json(&["-C", "full", "lean", "on", "--json"])?;
    assert_eq!((&done["files"], &done["left"]), (&22.into(), &0.into()));
    is_away(&place, true)?;
    // Older versions stay.
    let old = place.run(&["-C", "full", "cat", "@~1:raw/a.mov"])?;
    assert_eq!(old.stdout, noise(1, 3 << 20));
    let now = place.run(&["-C", "full", "cat", "raw/a.mov"])?;
    assert_eq!(now.stdout, noise(3, 3 << 20));
    place.ok(&["-C", "full", "lean", "off"])?;
    fs::remove_file(place.work().join("full/raw/a.mov"))?;
    place.ok(&["-C", "full", "restore", "raw/a.mov"])?;
    assert!(!place.work().join("full/.dmv/slice").exists());

    is_away(&place, false)?;
    // Cut off by a remote that has lost what it has to send.
    let packs = place.work().join("nas/packs");
    let large = |entry: &fs::DirEntry| entry.metadata().is_ok_and(|stat| stat.len() > 3 << 20);
    let mut entries = fs::read_dir(&packs)?.filter_map(Result::ok);
    let pack = entries.find(large).ok_or("a data pack")?.path();
    let away = place.work().join("pack");
    fs::rename(&pack, &away)?;
    place.fails(6, &["clone", "--lean", "nas", "cut"])?;
    place.fails(6, &["clone", "--lean", "nas", "cut"])?;
    for dir in ["other", "third"] {
        place.fails(6, &["clone", "--lean", "nas", dir])?;
    }
    fs::rename(&away, &pack)?;
    // Somebody has copied a file there meanwhile.
    fs::create_dir_all(place.work().join("cut/raw"))?;
    place.write("cut/raw/a.mov", noise(3, 3 << 20))?;
    // The same clone goes on where it was cut off, and so do the commands that status names.
    place.ok(&["clone", "--lean", "nas", "cut"])?;
    place.ok(&["-C", "other", "checkout", "--all"])?;
    place.ok(&["-C", "third", "checkout", "main"])?;
    for dir in ["cut", "other", "third"] {
        let status = place.json(&["-C", dir, "status", "--json"])?;
        assert_eq!(status["clean"], true, "{status}");
        assert_eq!(
            fs::read(place.work().join(dir).join("raw/b.mov"))?,
            noise(2, 3 << 20)
        );
        let found = place.json(&["-C", dir, "lean", "--json"])?;
        assert_eq!(found["lean_files"], 22);
    }
    Ok(())
}
