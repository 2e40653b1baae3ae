//! Which repositories have the content of files.

use crate::place::several::several;
use crate::place::{Outcome, Place};
use serde_json::{Value, json};
use std::fs;

/// `film` with a remote `nas` that has its first commit, and a file that only `film` has.
fn place() -> Outcome<Place> {
    let place = several()?;
    place.ok(&["clone", "--copy", "--bare", "film", "nas"])?;
    on(&place, &["remote", "add", "nas", "../nas"])?;
    on(&place, &["fetch", "nas"])?;
    place.write("film/notes", "notes")?;
    place.write("film/empty", "")?;
    on(&place, &["commit", "-m", "notes"])?;
    Ok(place)
}

fn on(place: &Place, args: &[&str]) -> Outcome<String> {
    place.ok(&[&["-C", "film"], args].concat())
}

/// Path, whether it is here, number of copies, and the states at the remotes.
fn told(place: &Place, args: &[&str]) -> Outcome<Value> {
    let found = place.records(&[&["-C", "film", "whereis", "--json"], args].concat())?;
    let line = |file: &Value| {
        let remotes = file["remotes"].as_array().into_iter().flatten();
        let states: Vec<&Value> = remotes.map(|remote| &remote["state"]).collect();
        json!([file["path"], file["here"], file["copies"], states])
    };
    Ok(found.iter().map(line).collect())
}

#[test]
fn files_are_listed_by_who_has_them() -> Outcome {
    let place = place()?;
    let said = on(&place, &["whereis"])?;
    let want = "1 copy: only here\n  notes\n2 copies: here, nas\n  shots/ (20 files)\n\
                as of the last news from nas, just now (--ask asks now)\n";
    assert_eq!(said, want);
    let found = place.records(&["-C", "film", "whereis", "--json", "shots/3", "notes"])?;
    let [notes, shot] = &found[..] else {
        return Err("two files".into());
    };
    assert_eq!(
        json!([notes["path"], notes["bytes"], notes["copies"]]),
        json!(["notes", 5, 1])
    );
    assert_eq!(shot["remotes"][0]["name"], "nas");
    assert!(shot["remotes"][0]["as_of"].is_string() && shot["id"].is_string());
    // What a remote has at another path, or had before, it has.
    place.write("film/copy", "shot 3".repeat(100))?;
    on(&place, &["commit", "-m", "copy"])?;
    assert_eq!(
        told(&place, &["copy"])?,
        json!([["copy", true, 2, ["has"]]])
    );
    on(&place, &["push", "nas"])?;
    fs::remove_file(place.work().join("film/notes"))?;
    on(&place, &["commit", "-m", "no notes"])?;
    on(&place, &["push", "nas"])?;
    assert_eq!(
        told(&place, &["@~1:notes"])?,
        json!([["notes", true, 2, ["has"]]])
    );
    assert!(
        place
            .fails(20, &["-C", "film", "whereis", "nothing"])?
            .contains("nothing")
    );
    Ok(())
}

#[test]
fn files_with_too_few_copies_are_listed_and_a_remote_that_is_asked_has_only_what_it_keeps()
-> Outcome {
    let place = place()?;
    let said = on(&place, &["whereis", "--min", "2"])?;
    assert!(
        said.starts_with("1 copy: only here\n  notes\nas of"),
        "{said}"
    );
    assert_eq!(
        told(&place, &["--min", "2"])?,
        json!([["notes", true, 1, ["lacks"]]])
    );
    let min = ["-C", "film", "whereis", "--min", "2", "--exit-code"];
    assert_eq!(place.run(&min)?.status.code(), Some(1));
    on(&place, &["push", "nas"])?;
    let done = place.run(&min)?;
    assert_eq!(done.status.code(), Some(0));
    let said = String::from_utf8(done.stdout)?;
    assert!(
        said.starts_with("21 files: each has at least 2 copies\n"),
        "{said}"
    );
    assert!(
        place
            .fails(2, &["-C", "film", "whereis", "--exit-code"])?
            .contains("--min")
    );

    // A remote that is asked has only what it keeps.
    place.ok(&["-C", "nas", "remote", "add", "film", "../film"])?;
    place.ok(&["-C", "nas", "drop", "shots/3"])?;
    let shots = ["shots/3", "shots/4"];
    assert_eq!(
        told(&place, &shots)?,
        json!([["shots/3", true, 2, ["has"]], ["shots/4", true, 2, ["has"]]])
    );
    let asked = [&["--ask"], &shots[..]].concat();
    assert_eq!(
        told(&place, &asked)?,
        json!([
            ["shots/3", true, 1, ["lacks"]],
            ["shots/4", true, 2, ["has"]]
        ])
    );
    let said = on(&place, &["whereis", "--ask", "shots"])?;
    let want = "1 copy: only here\n  shots/3\n2 copies: here, nas\n";
    assert!(
        said.starts_with(want) && said.ends_with("nas was asked just now\n"),
        "{said}"
    );

    // The same repository by another name is no further copy, and this one is none at all.
    on(&place, &["remote", "add", "again", "../nas/."])?;
    on(&place, &["remote", "add", "me", "."])?;
    let found = told(&place, &["--ask", "shots/4"])?;
    assert_eq!(found, json!([["shots/4", true, 2, ["has", "has"]]]));
    // A remote that does not answer does not hide the others.
    on(&place, &["remote", "remove", "me"])?;
    on(&place, &["remote", "add", "away", "../away"])?;
    let done = place.run(&["-C", "film", "whereis", "--ask", "--json", "shots/4"])?;
    assert_eq!(done.status.code(), Some(3));
    let file: Value = serde_json::from_slice(&done.stdout)?;
    assert_eq!(file["copies"], 2, "{file}");
    let away = file["remotes"]
        .as_array()
        .and_then(|all| all.iter().find(|r| r["name"] == "away"));
    assert_eq!(
        away,
        Some(&json!({"name": "away", "state": "unknown", "as_of": null}))
    );
    assert!(String::from_utf8(done.stderr)?.contains("away was skipped"));
    assert_eq!(
        told(&place, &["--ask", "--remote", "nas", "notes"])?,
        json!([["notes", true, 2, ["has"]]])
    );
    Ok(())
}

#[test]
fn what_cannot_be_known_here_is_unknown() -> Outcome {
    let place = place()?;
    // No news of it yet.
    on(&place, &["remote", "add", "disk", "../nas"])?;
    let said = on(&place, &["whereis", "notes"])?;
    assert!(
        said.starts_with("1 known copy: here (not known: disk)\n"),
        "{said}"
    );
    let said = place.fails(2, &["-C", "film", "whereis", "--remote", "../nas"])?;
    assert!(said.contains("dmv whereis --ask --remote ../nas"), "{said}");
    // History that is not here may have it.
    on(&place, &["push", "nas"])?;
    place.ok(&["clone", "--copy", "--depth", "1", "nas", "part"])?;
    place.write("part/new", "new")?;
    place.ok(&["-C", "part", "commit", "-m", "new"])?;
    let found = place.records(&["-C", "part", "whereis", "--json", "new", "notes"])?;
    let states: Vec<&Value> = found.iter().map(|f| &f["remotes"][0]["state"]).collect();
    assert_eq!(states, ["unknown", "has"]);
    Ok(())
}

#[test]
fn dropped_files_are_not_here_and_lean_ones_are() -> Outcome {
    let place = place()?;
    let large = (0..250_000u32).flat_map(|n| n.wrapping_mul(0x9e37_79b9).to_le_bytes());
    place.write("film/raw", large.collect::<Vec<u8>>())?;
    on(&place, &["commit", "-m", "raw"])?;
    on(&place, &["push", "nas"])?;
    on(&place, &["drop", "shots/3"])?;
    let said = on(&place, &["whereis", "shots"])?;
    assert!(
        said.starts_with("1 copy, not here: nas\n  shots/3\n"),
        "{said}"
    );
    on(&place, &["lean", "on"])?;
    let raw = |is_here: bool, copies: u32| json!([["raw", is_here, copies, ["has"]]]);
    assert_eq!(told(&place, &["raw"])?, raw(true, 2));
    fs::remove_file(place.work().join("film/raw"))?;
    assert_eq!(told(&place, &["raw"])?, raw(false, 1));
    Ok(())
}

#[test]
fn a_repository_without_remotes_or_commits_says_so() -> Outcome {
    let place = several()?;
    let done = place.run(&["-C", "film", "whereis"])?;
    assert_eq!(
        String::from_utf8(done.stdout)?,
        "1 copy: only here\n  shots/ (20 files)\n"
    );
    assert!(String::from_utf8(done.stderr)?.contains("dmv remote add NAME URL"));
    place.ok(&["init", "new"])?;
    assert_eq!(
        place.ok(&["-C", "new", "whereis"])?,
        "no files with content\n"
    );
    Ok(())
}
