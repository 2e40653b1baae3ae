//! Single system calls of a command: those on one file fail, as on a full disk, or they are counted.

// A test says aloud what it could not try.
#![allow(clippy::print_stdout)]

use crate::place::{Outcome, Place, has_strace};
use std::fs;
use std::process::Output;

/// Runs a command in which no write to the database's write-ahead log succeeds: each fails with
/// `error`.
fn without_room(place: &Place, error: &str, args: &[&str]) -> Outcome<Output> {
    let wal = place.work().join(".dmv/refs.db-wal");
    let wal = wal.to_string_lossy();
    let inject = format!("inject=pwrite64,fallocate:error={error}");
    let options = ["-f", "-qq", "-o", "/dev/null", "-e", &inject, "-P", &wal];
    Ok(place.traced(&options, args).output()?)
}

fn subjects(place: &Place) -> Outcome<Vec<String>> {
    let records = place.records(&["log", "--json"])?.into_iter();
    Ok(records
        .map(|record| record["message"].to_string())
        .collect())
}

#[test]
fn a_commit_that_was_told_to_have_failed_does_not_count_later() -> Outcome {
    if !has_strace() {
        dmv_random::skip("strace is not installed");
        return Ok(());
    }
    for (error, is_away) in [("ENOSPC", true), ("EIO", false)] {
        let place = Place::with_repository()?;
        place.write("f", "one")?;
        place.commit("one")?;
        let before = subjects(&place)?;
        place.write("f", "two")?;
        let failed = without_room(&place, error, &["commit", "-m", "two"])?;
        let said = String::from_utf8(failed.stderr)?;
        assert_eq!(failed.status.code(), Some(20), "{error}: {said}");
        assert!(said.contains("cannot write to"), "{error}: {said}");
        assert_eq!(said.contains("operation log"), !is_away, "{error}: {said}");
        if is_away {
            assert_eq!(subjects(&place)?, before);
        }
        place.ok(&["verify", "--full"])?;
        place.write("f", "three")?;
        place.commit("three")?;
        place.ok(&["verify", "--full"])?;
        place.ok(&["recover"])?;
        assert_eq!(
            subjects(&place)?.len(),
            if is_away { 2 } else { 3 },
            "{error}"
        );
    }
    Ok(())
}

#[test]
fn a_check_writes_nothing_that_it_needs() -> Outcome {
    if !has_strace() {
        dmv_random::skip("strace is not installed");
        return Ok(());
    }
    let place = Place::with_repository()?;
    place.write("f", "one")?;
    place.commit("one")?;
    place.write("f", "two")?;
    // It is in the log, and not in the database.
    let failed = without_room(&place, "EIO", &["commit", "-m", "two"])?;
    assert_eq!(failed.status.code(), Some(20));
    for args in [&["log"][..], &["verify", "--full"]] {
        let done = without_room(&place, "ENOSPC", args)?;
        let said = String::from_utf8(done.stderr)?;
        assert_eq!(done.status.code(), Some(0), "{args:?}: {said}");
    }
    Ok(())
}

#[test]
fn the_copy_of_the_former_database_goes_when_the_new_one_is_whole() -> Outcome {
    if !has_strace() {
        dmv_random::skip("strace is not installed");
        return Ok(());
    }
    let place = Place::with_repository()?;
    place.write("f", "one")?;
    place.commit("one")?;
    place.ok(&["recover"])?;
    let former = place.work().join(".dmv/refs.former.db");
    let first = fs::read(&former)?;
    place.write("f", "two")?;
    place.commit("two")?;
    let inject = "inject=copy_file_range,sendfile,write,pwrite64:error=ENOSPC";
    let fresh = place.work().join(".dmv/refs.former.new.db");
    let fresh = fresh.to_string_lossy().into_owned();
    let former_text = former.to_string_lossy().into_owned();
    let options = [
        "-f",
        "-qq",
        "-o",
        "/dev/null",
        "-e",
        inject,
        "-P",
        &fresh,
        "-P",
        &former_text,
    ];
    let failed = place.traced(&options, &["recover"]).output()?;
    assert_eq!(failed.status.code(), Some(20), "{failed:?}");
    assert_eq!(fs::read(&former)?, first);
    assert!(!fs::exists(&fresh)?);
    place.ok(&["recover"])?;
    assert_ne!(fs::read(&former)?, first);
    place.ok(&["verify", "--full"])?;
    Ok(())
}

/// Runs a command. Returns how often it waited for the disk, and the calls.
fn waits_for_the_disk(place: &Place, args: &[&str]) -> Outcome<(usize, String)> {
    let calls = "trace=fsync,fdatasync,sync_file_range,syncfs,sync";
    let told = place.dir.path().join("calls");
    let told_text = told.to_string_lossy().into_owned();
    let options = ["-f", "-qq", "-o", &told_text, "-e", calls];
    let done = place.traced(&options, args).status()?;
    assert!(done.success());
    let told = fs::read_to_string(told)?;
    let count = told.lines().filter(|line| line.contains("sync")).count();
    Ok((count, told))
}

#[test]
fn a_commit_waits_for_the_disk_eight_times_whatever_it_has() -> Outcome {
    // A small commit waits for the disk eight times.
    // Each of them waits for the disk: the packs of content and metadata, the operation log, the
    // write-ahead log's header, directory and end, and two to write it back.
    if !has_strace() {
        dmv_random::skip("strace is not installed");
        return Ok(());
    }
    let place = Place::with_repository()?;
    place.write("f", "one")?;
    place.commit("one")?;
    place.write("f", "two")?;
    let (count, told) = waits_for_the_disk(&place, &["commit", "-m", "two"])?;
    assert!((5..=8).contains(&count), "{count}: {told}");

    // A commit of a thousand files waits for the disk eight times.
    // All changes of a commit are one batch: a thousand files wait for the disk as often as one does.
    for n in 0..1000 {
        place.write(format!("many/f{n}"), format!("{n}"))?;
    }
    for step in ["created", "deleted"] {
        let (count, told) = waits_for_the_disk(&place, &["commit", "-m", step])?;
        assert!((5..=8).contains(&count), "{step}: {count}: {told}");
        if step == "created" {
            fs::remove_dir_all(place.work().join("many"))?;
        }
    }
    Ok(())
}

#[test]
fn a_command_that_gets_no_further_thread_says_so() -> Outcome {
    if !has_strace() {
        dmv_random::skip("strace is not installed");
        return Ok(());
    }
    let place = Place::with_repository()?;
    for n in 0..100 {
        place.write(format!("d{n}/f"), format!("{n}"))?;
    }
    place.commit("one")?;
    place.ok(&["branch", "other"])?;
    place.write("d1/f", "two")?;
    place.commit("two")?;
    let mut failed = 0;
    for first in 1..8 {
        let inject = format!("inject=clone3,clone:error=EAGAIN:when={first}+");
        let options = ["-f", "-qq", "-o", "/dev/null", "-e", &inject];
        place.write("d2/f", format!("{first}"))?;
        // Half of the commands at each number.
        let commands: &[&[&str]] = if first % 2 == 1 {
            &[
                &["status"],
                &["commit", "-m", "more"],
                &["checkout", "other"],
                &["checkout", "main"],
            ]
        } else {
            &[
                &["commit", "-m", "more"],
                &["clone", ".", "../copy"],
                &["export", "@", "--to", "../out"],
                &["verify", "--full"],
                &["log", "--", "d1/f"],
            ]
        };
        for args in commands {
            let done = place.traced(&options, args).output()?;
            let said = String::from_utf8(done.stderr)?;
            let case = format!("{args:?}, no thread from number {first}: {said}");
            match done.status.code() {
                Some(0) => {}
                Some(20) => {
                    assert!(said.contains("cannot start a thread"), "{case}");
                    failed += 1;
                }
                code => panic!("{code:?}: {case}"),
            }
        }
        for dir in ["copy", "out"] {
            let _ = fs::remove_dir_all(place.dir.path().join(dir));
        }
        place.ok(&["checkout", "main"])?;
    }
    assert!(failed > 0);
    place.ok(&["verify", "--full"])?;
    Ok(())
}

/// A version beside a conflict that cannot be read may be the user's work, so nothing is removed.
/// The command says so with its exit code, too.
#[test]
fn a_version_that_cannot_be_read_stops_a_resolve_before_it_changes_anything() -> Outcome {
    if !has_strace() {
        dmv_random::skip("strace is not installed");
        return Ok(());
    }
    let place = Place::with_repository()?;
    place.write("text.txt", "one\ntwo\nthree\n")?;
    place.commit("base")?;
    place.ok(&["branch", "side"])?;
    place.write("text.txt", "one\nmain\nthree\n")?;
    place.commit("main")?;
    place.ok(&["checkout", "side"])?;
    place.write("text.txt", "one\nside\nthree\n")?;
    place.commit("side")?;
    place.fails(4, &["merge", "main"])?;
    let theirs = place.work().join("text.theirs.txt");
    let (theirs, before) = (theirs.to_string_lossy(), place.ok(&["status", "--json"])?);
    let inject = "inject=read:error=EIO";
    let options = ["-f", "-qq", "-o", "/dev/null", "-e", inject, "-P", &theirs];
    let args = ["resolve", "text.txt", "--ours"];
    let failed = place.traced(&options, &args).output()?;
    let said = String::from_utf8(failed.stderr)?;
    assert_eq!(failed.status.code(), Some(20), "{said}");
    assert!(said.contains("text.theirs.txt"), "{said}");
    assert_eq!(place.ok(&["status", "--json"])?, before);
    place.ok(&args)?;
    assert!(!place.work().join("text.theirs.txt").exists());
    Ok(())
}

/// What a killed merge has written is no work of the user: nothing else names its tree.
#[test]
fn the_way_back_from_a_killed_merge_gives_the_files_back() -> Outcome {
    if !has_strace() {
        dmv_random::skip("strace is not installed");
        return Ok(());
    }
    let mut ways_back = 0;
    for kill_at in 1..=3 {
        let place = Place::with_repository()?;
        for name in ["f", "g", "h"] {
            place.write(name, "base")?;
        }
        place.commit("base")?;
        place.ok(&["checkout", "-b", "side"])?;
        for name in ["f", "g", "h"] {
            place.write(name, "side")?;
        }
        place.commit("side")?;
        place.ok(&["checkout", "main"])?;
        place.write("own", "own")?;
        place.commit("own")?;
        let inject = format!("inject=renameat2:signal=KILL:when={kill_at}");
        let options = ["-f", "-qq", "-o", "/dev/null", "-e", &inject];
        let merge = place.traced(&options, &["merge", "side"]).output()?;
        let status = place.json(&["status", "--json"])?;
        let Some(way) = status["unfinished"]["go_back"].as_str() else {
            continue;
        };
        assert!(!merge.status.success(), "it was killed");
        ways_back += 1;
        let args: Vec<&str> = way.split(' ').skip(1).collect();
        place.ok(&args)?;
        for name in ["f", "g", "h"] {
            let file = fs::read_to_string(place.work().join(name))?;
            assert_eq!(
                file, "base",
                "{name}: killed at exchange {kill_at}, then: {way}"
            );
        }
        assert_eq!(place.ok(&["status", "--short"])?, "");
    }
    assert!(ways_back > 0, "no kill met the switch");
    Ok(())
}

/// There were no files before a clone: nothing leads back, and `status` names only the way on.
#[test]
fn a_killed_clone_can_only_go_on() -> Outcome {
    if !has_strace() {
        dmv_random::skip("strace is not installed");
        return Ok(());
    }
    let place = Place::with_repository()?;
    for name in ["f", "g", "h"] {
        place.write(name, name)?;
    }
    place.commit("base")?;
    let mut ways_on = 0;
    for kill_at in 1..=4 {
        let inject = format!("inject=renameat2:signal=KILL:when={kill_at}");
        let options = ["-f", "-qq", "-o", "/dev/null", "-e", &inject];
        let copy = format!("../copy{kill_at}");
        let clone = place.traced(&options, &["clone", ".", &copy]).output()?;
        let in_copy = ["-C", &copy];
        let Ok(status) = place.json(&[&in_copy[..], &["status", "--json"]].concat()) else {
            continue;
        };
        let Some(way) = status["unfinished"]["go_on"].as_str() else {
            continue;
        };
        assert!(!clone.status.success(), "it was killed");
        ways_on += 1;
        assert!(status["unfinished"]["go_back"].is_null(), "{status}");
        let said = place.ok(&[&in_copy[..], &["status"]].concat())?;
        assert!(!said.contains("to go back"), "{said}");
        let args: Vec<&str> = in_copy.into_iter().chain(way.split(' ').skip(1)).collect();
        place.ok(&args)?;
        assert_eq!(
            place.ok(&[&in_copy[..], &["status", "--short"]].concat())?,
            ""
        );
    }
    assert!(ways_on > 0, "no kill met the checkout");
    Ok(())
}

/// After a power cut, a file that a checkout has written may lack its end, although its name is there.
#[test]
fn a_file_that_a_power_cut_has_left_empty_is_no_work_of_the_user() -> Outcome {
    if !has_strace() {
        dmv_random::skip("strace is not installed");
        return Ok(());
    }
    let mut tried = 0;
    for (kill_at, go_on) in [(1, true), (2, true), (2, false), (3, false)] {
        let place = Place::with_repository()?;
        let names = ["f", "g", "h"];
        names
            .iter()
            .try_for_each(|name| place.write(name, "base"))?;
        place.commit("base")?;
        place.ok(&["checkout", "-b", "side"])?;
        names
            .iter()
            .try_for_each(|name| place.write(name, "side"))?;
        place.commit("side")?;
        let inject = format!("inject=renameat2:signal=KILL:when={kill_at}");
        let options = ["-f", "-qq", "-o", "/dev/null", "-e", &inject];
        place.traced(&options, &["checkout", "main"]).output()?;
        let unfinished = place.json(&["status", "--json"])?["unfinished"].clone();
        let Some(way) = unfinished[if go_on { "go_on" } else { "go_back" }].as_str() else {
            continue;
        };
        let is_new =
            |name: &&&str| fs::read(place.work().join(name)).is_ok_and(|file| file == b"base");
        let written: Vec<_> = names.iter().filter(is_new).collect();
        tried += written.len();
        for (n, name) in written.into_iter().enumerate() {
            place.write(name, ["", "ba"][n % 2])?;
        }
        let args: Vec<&str> = way.split(' ').skip(1).collect();
        place.ok(&args)?;
        for name in names {
            let file = fs::read_to_string(place.work().join(name))?;
            let wanted = if go_on { "base" } else { "side" };
            assert_eq!(file, wanted, "{name}: {args:?}");
        }
        assert_eq!(place.ok(&["status", "--short"])?, "");
    }
    assert!(tried > 0, "no kill met the checkout");
    Ok(())
}
