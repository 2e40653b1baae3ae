//! Removing a file for good, as a user does it.

use crate::place::{Outcome, Place};
use dmv_random::noise;
use std::fs;
use std::path::Path;

const SECRET: usize = 300_000;

/// Returns whether the packs of a repository have any part of a content.
fn has_bytes(dmv: &Path, content: &[u8]) -> Outcome<bool> {
    let parts: Vec<&[u8]> = content.windows(40).step_by(499).collect();
    let number = |bytes: &[u8]| usize::from(bytes[0]) << 8 | usize::from(bytes[1]);
    let mut starts = vec![false; 1 << 16];
    parts.iter().for_each(|part| starts[number(part)] = true);
    for entry in fs::read_dir(dmv.join("packs"))? {
        let bytes = fs::read(entry?.path())?;
        let is_part = |window: &[u8]| starts[number(window)] && parts.contains(&window);
        if bytes.windows(40).any(is_part) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// `film`, its server `nas`, and two clones of that.
fn four() -> Outcome<Place> {
    let place = Place::new()?;
    place.ok(&["init", "film"])?;
    place.write("film/key", noise(1, SECRET))?;
    place.write("film/notes", "notes")?;
    place.ok(&["-C", "film", "commit", "-m", "one"])?;
    place.write("film/key", noise(2, SECRET))?;
    place.ok(&["-C", "film", "commit", "-m", "two"])?;
    place.ok(&["clone", "--bare", "--copy", "film", "nas"])?;
    place.ok(&["-C", "film", "remote", "add", "nas", "../nas"])?;
    for clone in ["near", "away"] {
        place.ok(&["clone", "--copy", "nas", clone])?;
    }
    Ok(place)
}

fn secret_is_in(place: &Place, dmv: &str) -> Outcome<bool> {
    let dmv = place.work().join(dmv);
    Ok(has_bytes(&dmv, &noise(1, SECRET))? || has_bytes(&dmv, &noise(2, SECRET))?)
}

#[test]
fn a_purge_reaches_four_repositories_one_of_them_late() -> Outcome {
    let place = four()?;
    place.write("away/notes", "written on the road")?;
    place.ok(&["-C", "away", "commit", "-m", "away"])?;
    let done = place.json(&[
        "-C",
        "film",
        "purge",
        "key",
        "--reason",
        "a leaked key",
        "--everywhere",
        "--json",
    ])?;
    assert_eq!(done["files"], 2, "{done}");
    assert_eq!(done["peers"][0]["outcome"], "done", "{done}");
    assert_eq!(done["in_worktree"][0]["path"], "key", "{done}");
    for dmv in ["film/.dmv", "nas"] {
        assert!(!secret_is_in(&place, dmv)?, "{dmv}");
    }
    // A clone whose user is told, and decides.
    let said = place.run(&["-C", "near", "fetch"])?;
    let said = String::from_utf8(said.stderr)?;
    assert!(said.contains("dmv purge "), "{said}");
    assert!(secret_is_in(&place, "near/.dmv")?);
    place.ok(&["-C", "near", "purge", "key", "--reason", "a leaked key"])?;
    assert!(!secret_is_in(&place, "near/.dmv")?);

    // The one that was away still has it. It may push what does not bring it back.
    let said = place.run(&["-C", "away", "push"])?;
    assert_eq!(said.status.code(), Some(0));
    assert!(!secret_is_in(&place, "nas")?);
    place.write("away/key of mine", noise(1, SECRET))?;
    place.ok(&["-C", "away", "commit", "-m", "a copy"])?;
    let said = place.fails(5, &["-C", "away", "push"])?;
    assert!(
        said.contains("has purged content that this push needs"),
        "{said}"
    );
    assert!(said.contains("a leaked key"), "{said}");
    assert!(!secret_is_in(&place, "nas")?);
    place.ok(&["-C", "away", "purge", "key", "--reason", "a leaked key"])?;
    place.ok(&["-C", "away", "push"])?;
    assert!(!secret_is_in(&place, "away/.dmv")?);
    assert!(!secret_is_in(&place, "nas")?);
    place.ok(&["-C", "film", "fetch", "nas"])?;
    for repo in ["film", "nas", "near", "away"] {
        let report = place.json(&["-C", repo, "verify", "--full", "--json"])?;
        assert_eq!(report["ok"], true, "{repo}: {report}");
        assert_eq!(report["purged"][0]["reason"], "a leaked key", "{report}");
    }
    let status = place.json(&["-C", "film", "purge", "--status", "--json"])?;
    assert_eq!(status["purges"][0]["chunks_stored"], 0, "{status}");
    assert_eq!(status["peers"][0]["outcome"], "done", "{status}");
    Ok(())
}

#[test]
fn purged_content_is_named_wherever_it_is_read() -> Outcome {
    let place = four()?;
    place.ok(&["-C", "film", "purge", "key", "--reason", "a leaked key"])?;
    for args in [
        &["-C", "film", "cat", "key"][..],
        &["-C", "film", "cat", "@~1:key"],
        &["-C", "film", "get", "key"],
        &["-C", "film", "restore", "--from", "@~1", "key"],
    ] {
        let said = place.fails(6, args)?;
        assert!(said.contains("was purged on 20"), "{args:?}: {said}");
        assert!(said.contains("a leaked key"), "{args:?}: {said}");
        assert!(!said.contains("answer"), "{args:?}: {said}");
        assert!(
            said.contains("hint: dmv purge --status"),
            "{args:?}: {said}"
        );
    }
    let long = place.ok(&["-C", "film", "ls", "-l"])?;
    assert!(long.contains("a leaked key"), "{long}");
    let status = place.json(&["-C", "film", "status", "--json"])?;
    assert_eq!(status["purged"][0]["versions"], 2, "{status}");
    assert!(status["partial"].is_null(), "{status}");
    // A checkout leaves it out, and says so.
    let said = place.fails(3, &["-C", "film", "checkout", "@~1"])?;
    assert!(
        said.contains("not written: key: its content was purged"),
        "{said}"
    );
    let said = place.fails(3, &["clone", "film", "copy"])?;
    assert!(said.contains("not written: key"), "{said}");
    assert!(!said.contains("restore key"), "{said}");
    let again = place.fails(5, &["clone", "film", "copy"])?;
    assert!(!again.contains("restore key"), "{again}");
    assert_eq!(fs::read(place.work().join("copy/notes"))?, b"notes");
    assert!(!secret_is_in(&place, "copy/.dmv")?);
    // The same content does not come back here.
    place.write("film/other", noise(1, SECRET))?;
    let said = place.fails(3, &["-C", "film", "commit", "-m", "again"])?;
    assert!(said.contains("content that was purged"), "{said}");
    assert!(!secret_is_in(&place, "film/.dmv")?);
    place.ok(&["-C", "film", "verify"])?;
    place.ok(&["-C", "copy", "verify"])?;
    Ok(())
}

#[test]
fn what_was_purged_at_a_remote_is_named_and_a_clone_made_later_works() -> Outcome {
    let place = four()?;
    // What a remote has purged is no matter of reaching it.
    // A remote that answers has purged it: it is not away.
    place.ok(&["-C", "near", "keep", "set", "key", "last:1"])?;
    place.ok(&["-C", "near", "expire"])?;
    let args = ["purge", "key", "--reason", "a leaked key", "--everywhere"];
    place.ok(&[&["-C", "film"][..], &args].concat())?;
    for args in [
        &["-C", "near", "get", "@~1:key"][..],
        &["-C", "near", "cat", "@~1:key"],
    ] {
        let said = place.fails(6, args)?;
        assert!(said.contains("was purged on 20"), "{said}");
        assert!(said.contains("a leaked key"), "{said}");
        assert!(said.contains("hint: dmv remote add NAME URL"), "{said}");
    }
    // What was not purged comes, and the rest is said.
    place.ok(&["-C", "near", "drop", "notes"])?;
    let said = place.fails(6, &["-C", "near", "get", "@~1:."])?;
    assert!(said.contains("was purged on 20"), "{said}");
    assert_eq!(
        place.ok(&["-C", "near", "--offline", "cat", "@~1:notes"])?,
        "notes"
    );

    // A clone made after a purge compares its history.
    // Such a clone has not even the list of the chunks.
    place.fails(3, &["clone", "nas", "late"])?;
    let said = place.ok(&["-C", "late", "log", "-p"])?;
    assert!(said.contains("\ncontent purged on 20"), "{said}");
    assert!(said.contains("new content purged on 20"), "{said}");
    assert!(said.contains("+notes"), "{said}");
    let said = place.ok(&["-C", "late", "log", "--stat"])?;
    assert!(said.contains("key   | new content purged on 20"), "{said}");
    // Looking for moved files meets the list that is absent.
    place.write("late/other", noise(9, SECRET))?;
    place.ok(&["-C", "late", "rm", "key"])?;
    for args in [&["status"][..], &["diff", "--stat"], &["diff"]] {
        let said = place.ok(&[&["-C", "late"], args].concat())?;
        assert!(said.contains("other"), "{said}");
    }
    let said = place.fails(6, &["-C", "late", "export", "@", "--to", "out"])?;
    assert!(said.contains("was purged on 20"), "{said}");
    assert!(said.contains("--subset '!key'"), "{said}");
    let only = ["-C", "late", "export", "@", "--to", "out"];
    place.ok(&[&only[..], &["--subset", "!key"]].concat())?;

    place.fails(3, &["clone", "nas", "later"])?;
    // A clone made after a purge can commit and remove the file.
    // A clone made afterwards refuses nothing, keeps the name until its user removes it, and works.
    let listed = place.records(&["-C", "later", "ls", "--json"])?;
    assert_eq!(listed[0]["purged"]["reason"], "a leaked key", "{listed:?}");
    place.write("later/more", "more")?;
    place.ok(&["-C", "later", "commit", "-m", "more"])?;
    assert!(place.ok(&["-C", "later", "ls"])?.contains("key"));
    assert!(
        place
            .ok(&["-C", "later", "rm", "key"])?
            .contains("removed key")
    );
    place.ok(&["-C", "later", "commit", "-m", "without the key"])?;
    assert_eq!(place.ok(&["-C", "later", "ls"])?, "more\nnotes\n");
    place.ok(&["-C", "later", "push"])?;
    let none = place.ok(&["-C", "later", "purge", "--status"])?;
    assert_eq!(none, "nothing was purged here\n");
    // Somebody else still has it.
    place.ok(&["-C", "later", "remote", "add", "near", "../near"])?;
    place.ok(&["-C", "later", "get", "@~2:key"])?;
    place.ok(&["-C", "later", "purge"])?;
    place.ok(&["-C", "later", "verify", "--full"])?;
    assert!(has_bytes(
        &place.work().join("later/.dmv"),
        &noise(2, SECRET)
    )?);
    Ok(())
}

#[test]
fn what_cannot_be_purged_is_said_and_changes_nothing() -> Outcome {
    let place = four()?;
    let said = place.fails(2, &["-C", "film", "purge", "key"])?;
    assert!(said.contains("needs a reason"), "{said}");
    let said = place.fails(20, &["-C", "film", "purge", "nothing", "--reason", "x"])?;
    assert!(said.contains("nothing was purged"), "{said}");
    place.fails(2, &["-C", "film", "purge", ".", "--reason", "x"])?;
    place.fails(
        20,
        &["-C", "film", "purge", &"a".repeat(64), "--reason", "x"],
    )?;
    let dry = place.json(&["-C", "film", "purge", "key", "--dry-run", "--json"])?;
    assert_eq!(
        (&dry["files"], &dry["bytes"]),
        (&2.into(), &600_000.into()),
        "{dry}"
    );
    assert!(!place.work().join("film/.dmv/slice").exists());
    let none = place.ok(&["-C", "film", "purge", "--status"])?;
    assert_eq!(none, "nothing was purged here\n");
    // One content by its id, and a remote that is not there.
    place.ok(&["-C", "film", "remote", "add", "lost", "../lost"])?;
    let listed = place.records(&["-C", "film", "ls", "@~1:key", "--json"])?;
    let id = listed[0]["id"].as_str().ok_or("a file has an id")?;
    place.fails(
        3,
        &["-C", "film", "purge", id, "--reason", "x", "--everywhere"],
    )?;
    assert!(!has_bytes(&place.work().join("nas"), &noise(1, SECRET))?);
    assert!(has_bytes(&place.work().join("nas"), &noise(2, SECRET))?);
    place.ok(&["-C", "film", "verify"])?;
    Ok(())
}

/// Whoever only reads a repository cannot have others purge it.
#[test]
fn a_purge_that_a_fetch_tells_of_is_never_passed_on() -> Outcome {
    let place = four()?;
    place.write("near/work", noise(3, SECRET))?;
    place.ok(&["-C", "near", "commit", "-m", "work"])?;
    place.ok(&["-C", "near", "push"])?;
    place.ok(&["-C", "away", "pull"])?;
    place.ok(&["-C", "away", "purge", "work", "--reason", "not needed"])?;
    place.ok(&["-C", "away", "rm", "work"])?;
    place.ok(&["-C", "away", "commit", "-m", "no work"])?;
    place.ok(&["-C", "film", "remote", "add", "away", "../away"])?;
    place.ok(&["-C", "film", "fetch", "away"])?;
    for args in [&["purge", "--everywhere"][..], &["purge"]] {
        let done = place.json(&[&["-C", "film"], args, &["--json"]].concat())?;
        assert_eq!(done["files"], 0, "{done}");
        assert!(
            done["peers"].as_array().is_some_and(Vec::is_empty),
            "{done}"
        );
    }
    let args = [
        "purge",
        "key",
        "--reason",
        "leaked",
        "--everywhere",
        "--json",
    ];
    let done = place.json(&[&["-C", "film"][..], &args].concat())?;
    assert_eq!(done["peers"][0]["files"], 2, "{done}");
    assert!(has_bytes(&place.work().join("nas"), &noise(3, SECRET))?);
    place.ok(&["-C", "film", "fetch", "nas"])?;
    place.ok(&["-C", "film", "get", "nas/main:work"])?;
    place.ok(&["-C", "film", "purge"])?;
    assert!(has_bytes(
        &place.work().join("film/.dmv"),
        &noise(3, SECRET)
    )?);
    Ok(())
}

/// A file of text whose second of three versions was purged, and its id.
fn purged_in_the_middle() -> Outcome<(Place, String)> {
    let place = Place::with_repository()?;
    for (key, note, message) in [
        ("a\nb\n", "one\n", "first"),
        ("a\nsecret\nb\n", "two\n", "second"),
        ("a\nb\nc\n", "three\n", "third"),
    ] {
        place.write("key", key)?;
        place.write("notes", note)?;
        place.ok(&["commit", "-m", message])?;
    }
    let listed = place.records(&["ls", "@~1:key", "--json"])?;
    let id = listed[0]["id"].as_str().ok_or("a file has an id")?;
    place.ok(&["purge", id, "--reason", "leaked"])?;
    Ok((place, id.to_owned()))
}

#[test]
fn purged_content_in_the_middle_of_a_history_is_named_and_passed_over() -> Outcome {
    let (place, id) = purged_in_the_middle()?;
    // Comparisons across purged content say so and go on.
    for (args, other) in [
        (&["diff", "@~2", "@~1"][..], "+two"),
        (&["diff", "@~1", "@"], "+three"),
        (&["diff", "@~1"], "+three"),
        (&["show", "@~1"], "+two"),
        (&["log", "-p"], "+one"),
        (&["log", "-p", "--", "key"], "+a"),
    ] {
        let said = place.ok(args)?;
        assert!(said.contains("content purged on 20"), "{args:?}: {said}");
        assert!(said.contains(": leaked"), "{args:?}: {said}");
        assert!(said.contains(other), "{args:?}: {said}");
        assert!(!said.contains("secret"), "{args:?}: {said}");
    }
    let said = place.ok(&["diff", "--stat", "@~2", "@~1"])?;
    assert!(said.contains("key   | new content purged on 20"), "{said}");
    let found = place.records(&["diff", "--json", "@~2", "@~1"])?;
    assert_eq!(found[0]["path"], "key", "{found:?}");
    assert_eq!(found[0]["absent"]["new"], true, "{found:?}");
    assert_eq!(found[0]["absent"]["old"], false, "{found:?}");
    assert_eq!(found[1]["insertions"], 1, "{found:?}");

    // Blame passes over a purged version.
    let commits = place.records(&["log", "--json"])?;
    let lines = place.records(&["blame", "key", "--json"])?;
    let expected = [(2, false), (2, false), (0, true)];
    for (line, (commit, is_boundary)) in lines.iter().zip(expected) {
        assert_eq!(line["commit"], commits[commit]["id"], "{line}");
        assert_eq!(line["boundary"], is_boundary, "{line}");
    }
    assert_eq!(lines.len(), 3, "{lines:?}");
    let said = place.fails(6, &["blame", "@~1:key"])?;
    assert!(said.contains("was purged on 20"), "{said}");

    // A dry run tells what is purged already.
    let said = place.ok(&["purge", &id, "--dry-run"])?;
    assert!(said.contains("(already purged on 20"), "{said}");
    assert!(
        said.contains("nothing to purge: 1 content is already purged"),
        "{said}"
    );
    assert_eq!(
        place.json(&["purge", &id, "--dry-run", "--json"])?["known"],
        1
    );
    let dry = place.json(&["purge", "key", "--dry-run", "--json"])?;
    assert_eq!((&dry["files"], &dry["known"]), (&2.into(), &1.into()));
    assert_eq!(dry["bytes"], 10, "{dry}");
    let said = place.ok(&["purge", "key", "--dry-run"])?;
    assert!(said.contains("2 contents (10 B) would be purged"), "{said}");

    // A stash that did nothing sends nobody to undo.
    let said = place.fails(2, &["purge", "key", "--reason", "one\ntwo"])?;
    assert!(said.contains("one line"), "{said}");
    place.write("copy", "a\nsecret\nb\n")?;
    let said = place.fails(3, &["stash"])?;
    assert!(said.contains("not stashed: copy: "), "{said}");
    assert!(!said.contains("undo"), "{said}");
    fs::remove_file(place.work().join("copy"))?;

    // An undo after a purge names the operation before it.
    let said = place.fails(5, &["undo"])?;
    assert!(said.contains("is a purge"), "{said}");
    let hint = said.split("hint: dmv undo ").nth(1).ok_or("no hint")?;
    assert!(hint.contains("commit -m third"), "{said}");
    let op = hint.split(',').next().ok_or("no operation")?;
    assert!(place.ok(&["undo", op])?.contains("commit -m third"));
    // What is undone now is not the purge.
    assert!(place.ok(&["undo"])?.contains("commit -m second"));
    place.ok(&["redo"])?;
    place.ok(&["purge", "--lift", &id])?;
    let said = place.run(&["undo"])?;
    assert!(!String::from_utf8(said.stderr)?.contains("is a purge"));
    Ok(())
}
