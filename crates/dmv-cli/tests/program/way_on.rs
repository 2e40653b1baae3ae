//! Messages after which a person knows how to go on: what a drop has not freed, content without files, files
//! that were deleted by hand, and a repository that is complete but for what was purged.

use crate::place::{Outcome, Place};
use std::fs;

const FILES: usize = 20;

/// `film` with files in `concepts` and `shots`, and `nas`, a bare clone of it and a remote.
fn place() -> Outcome<Place> {
    let place = Place::new()?;
    place.ok(&["init", "film"])?;
    for version in ["first", "second"] {
        for n in 0..FILES {
            let noise: Vec<u8> = (0..20_000u32)
                .map(|at| (at.wrapping_mul(2_654_435_761 + n as u32) >> 13) as u8)
                .collect();
            let concept = [version.as_bytes(), &noise].concat();
            place.write(format!("film/concepts/{n}"), concept)?;
            place.write(
                format!("film/shots/deep/{n}"),
                [b"shot", &noise[1..]].concat(),
            )?;
            place.write(
                format!("film/shots/wide/{n}"),
                [b"wide", &noise[2..]].concat(),
            )?;
        }
        place.ok(&["-C", "film", "commit", "-m", version])?;
    }
    place.ok(&["clone", "--bare", "--copy", "film", "nas"])?;
    place.ok(&["-C", "film", "remote", "add", "nas", "../nas"])?;
    Ok(place)
}

fn dmv(place: &Place, dir: &str, exit: i32, args: &[&str]) -> Outcome<String> {
    let output = place.run(&[&["-C", dir][..], args].concat())?;
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8(said)?;
    assert_eq!(output.status.code(), Some(exit), "{args:?}: {said}");
    Ok(said)
}

fn says(said: &str, words: &[&str]) {
    for word in words {
        assert!(said.contains(word), "'{word}': {said}");
    }
}

#[test]
fn a_drop_names_what_it_leaves_and_how_to_go_on() -> Outcome {
    // Content outside of the subset comes with the way to its files.
    let place = place()?;
    place.ok(&["clone", "--subset", "concepts", "--", "nas", "part"])?;
    let said = dmv(&place, "part", 0, &["get", "shots/deep"])?;
    says(
        &said,
        &[
            "20 files are outside of the subset",
            "dmv subset add shots/deep",
        ],
    );
    // Also where the content is here already.
    let said = dmv(&place, "part", 0, &["get", "shots/deep"])?;
    says(&said, &["dmv subset add shots/deep"]);
    dmv(&place, "part", 0, &["subset", "add", "shots/deep"])?;
    let said = dmv(&place, "part", 0, &["get", "shots/deep", "concepts"])?;
    assert!(!said.contains("subset add"), "{said}");
    assert!(place.work().join("part/shots/deep/7").exists());

    // A refused drop names ten files, and all on request.
    for n in 0..FILES {
        place.write(format!("film/new/{n}"), format!("new {n}"))?;
    }
    dmv(&place, "film", 0, &["commit", "-m", "new"])?;
    let said = dmv(&place, "film", 5, &["drop", "new"])?;
    says(&said, &["… and 10 more", "hint: dmv push"]);
    assert_eq!(said.matches("\n  new/").count(), 10, "{said}");
    let said = dmv(&place, "film", 5, &["drop", "new", "-v"])?;
    assert_eq!(said.matches("\n  new/").count(), FILES, "{said}");
    let output = place.run(&["-C", "film", "drop", "new", "--json"])?;
    let failure: serde_json::Value = serde_json::from_slice(&output.stderr)?;
    assert_eq!(failure["paths"].as_array().map(Vec::len), Some(FILES));

    // A drop names directories, and how to free what waits.
    let said = dmv(&place, "film", 0, &["drop", "concepts/1*"])?;
    says(
        &said,
        &[
            "not freed yet: ",
            "hint: ",
            "dmv drop --thorough 'concepts/1*'",
        ],
    );
    says(&said, &["dmv subset remove 'concepts/1*'"]);
    let said = dmv(&place, "film", 0, &["drop", "--thorough", "concepts/1*"])?;
    assert!(!said.contains("not freed yet"), "{said}");
    let said = dmv(&place, "film", 0, &["drop", "shots"])?;
    says(
        &said,
        &["40 files stay in the worktree", "dmv subset remove shots"],
    );
    let remove = ["subset", "remove", "shots"];
    dmv(&place, "film", 0, &remove)?;
    assert!(!place.work().join("film/shots").exists());
    Ok(())
}

#[test]
fn files_deleted_by_hand_are_named_by_undo_and_checkout() -> Outcome {
    let place = place()?;
    let delete = || fs::remove_dir_all(place.work().join("film/concepts"));
    delete()?;
    let said = dmv(&place, "film", 0, &["checkout", "main"])?;
    says(
        &said,
        &[
            "20 files were deleted and not committed",
            "hint: dmv restore concepts",
        ],
    );
    // The undo of a commit does not bring them back.
    let said = dmv(&place, "film", 0, &["undo"])?;
    says(
        &said,
        &[
            "20 files were deleted",
            "dmv redo, then dmv restore concepts",
        ],
    );
    dmv(&place, "film", 0, &["redo"])?;
    dmv(&place, "film", 0, &["restore", "concepts"])?;
    assert!(place.work().join("film/concepts/7").exists());
    // Neither does that of a purge, which cannot be undone.
    let purge = ["purge", "--yes", "--reason", "secret", "shots/deep/1"];
    dmv(&place, "film", 0, &purge)?;
    delete()?;
    fs::remove_file(place.work().join("film/shots/wide/1"))?;
    let said = dmv(&place, "film", 5, &["undo"])?;
    says(&said, &["21 files were deleted and not committed"]);
    says(&said, &["hint: dmv restore concepts shots/wide/1"]);
    dmv(&place, "film", 0, &["restore", "concepts", "shots/wide/1"])?;
    let said = dmv(&place, "film", 0, &["checkout", "main"])?;
    assert!(!said.contains("deleted"), "{said}");
    Ok(())
}

#[test]
fn a_repository_without_purged_content_is_complete() -> Outcome {
    let place = place()?;
    let purge = [
        "purge",
        "--yes",
        "--everywhere",
        "--reason",
        "secret",
        "shots/deep/1",
    ];
    dmv(&place, "film", 0, &purge)?;
    for dir in ["film", "nas"] {
        let said = dmv(&place, dir, 0, &["stats"])?;
        assert!(!said.contains("in part"), "{said}");
        let said = dmv(&place, dir, 0, &["verify"])?;
        says(&said, &["1 version purged", "secret"]);
    }
    let said = dmv(&place, "film", 0, &["status"])?;
    assert!(
        !said.contains("partial") && !said.contains("purged"),
        "{said}"
    );
    let status = place.json(&["-C", "film", "status", "--json"])?;
    assert!(status["partial"].is_null(), "{status}");
    assert_eq!(status["purged"][0]["versions"], 1, "{status}");
    // What is left out besides is told.
    dmv(&place, "film", 0, &["drop", "concepts"])?;
    let said = dmv(&place, "film", 0, &["status"])?;
    says(&said, &["stored here in part: 20 files dropped\n"]);
    Ok(())
}

#[test]
fn gc_names_a_large_mistake_with_a_command_that_frees_it_and_keeps_undo() -> Outcome {
    let place = place()?;
    let noise: Vec<u8> = (0..3_000_000u32)
        .flat_map(|at| {
            at.wrapping_mul(2_654_435_761)
                .rotate_left(at % 31)
                .to_le_bytes()
        })
        .collect();
    place.write("film/huge.bin", noise)?;
    dmv(&place, "film", 0, &["commit", "-m", "oops"])?;
    dmv(&place, "film", 0, &["undo"])?;
    fs::remove_file(place.work().join("film/huge.bin"))?;
    place.write("film/good", "good")?;
    dmv(&place, "film", 0, &["commit", "-m", "good"])?;
    let said = dmv(&place, "film", 0, &["gc"])?;
    says(&said, &["huge.bin", "commit -m oops", "hint: "]);
    let id = said.split_whitespace().last().ok_or("an id")?.to_owned();
    let said = dmv(&place, "film", 0, &["op", "forget", &id])?;
    says(
        &said,
        &["dmv -C film undo\n", "commit -m oops\n", "gc --grace 0"],
    );
    let said = dmv(&place, "film", 0, &["op", "forget", &id])?;
    says(&said, &["nothing to forget"]);
    let said = dmv(&place, "film", 0, &["gc", "--grace", "0"])?;
    says(&said, &["freed 11.5 MiB"]);
    assert!(!said.contains("huge.bin"), "{said}");
    // Everything else is still there to be redone or undone.
    let said = dmv(&place, "film", 5, &["undo", &id])?;
    says(&said, &["out of reach since 'dmv op forget' of 2"]);
    let log = place.records(&["-C", "film", "op", "log", "--json"])?;
    let expired = log.iter().filter(|op| op["expired"] == true);
    assert_eq!(expired.count(), 2, "{log:?}");
    let good = log
        .iter()
        .find(|op| op["command"] == "dmv -C film commit -m good");
    let good = good
        .and_then(|op| op["id"].as_str())
        .ok_or("an operation")?
        .to_owned();
    dmv(&place, "film", 0, &["undo", &good])?;
    dmv(&place, "film", 0, &["verify"])?;
    Ok(())
}
