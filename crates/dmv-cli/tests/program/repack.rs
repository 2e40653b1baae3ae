//! Joining the packs of many small commits, as a user does it.

use crate::place::{Outcome, Place};
use std::collections::BTreeSet;
use std::fs;

/// A repository with many small commits.
fn place() -> Outcome<Place> {
    let place = Place::with_repository()?;
    for n in 0..12 {
        place.write(format!("d{}/f", n % 4), format!("{n}\n").repeat(60))?;
        place.commit(&format!("c{n}"))?;
    }
    Ok(place)
}

fn stored(place: &Place) -> Outcome<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(place.work().join(".dmv/packs"))? {
        bytes += entry?.metadata()?.len();
    }
    Ok(bytes)
}

#[test]
fn many_small_commits_take_less_space_and_are_the_same() -> Outcome {
    let place = place()?;
    let log = place.ok(&["log", "--stat"])?;
    let before = stored(&place)?;
    place.fails(2, &["repack", "--max-time=soon"])?;
    place.fails(2, &["repack", "all"])?;
    let late = place.fails(3, &["repack", "--max-time", "0"])?;
    assert!(late.contains("the next 'dmv repack' continues"), "{late}");
    let dry = place.json(&["repack", "--dry-run", "--json"])?;
    assert_eq!(stored(&place)?, before);
    let told = place.ok(&["repack", "--dry-run"])?;
    assert!(
        told.starts_with("2 packs of ") && told.contains(" would become 2 packs of at most "),
        "{told}"
    );
    let report = place.json(&["repack", "--json"])?;
    let number = |name: &str| report[name].as_u64().ok_or(format!("{name} in {report}"));
    assert_eq!(number("packs_before")?, 2);
    assert_eq!(number("packs_after")?, 2);
    assert_eq!(report["before_bytes"], dry["before_bytes"]);
    assert_eq!(report["finished"], true, "{report}");
    assert!(
        number("after_bytes")? * 2 < number("before_bytes")?,
        "{report}"
    );
    assert_eq!(
        before - stored(&place)?,
        number("before_bytes")? - number("after_bytes")?
    );
    assert_eq!(place.ok(&["log", "--stat"])?, log);
    place.ok(&["verify", "--full"])?;
    let again = place.ok(&["repack"])?;
    assert!(again.starts_with("nothing to join: 2 packs of "), "{again}");
    place.ok(&["undo"])?;
    place.ok(&["redo"])?;
    place.ok(&["checkout", "@~5"])?;
    assert_eq!(
        fs::read(place.work().join("d1/f"))?,
        "5\n".repeat(60).into_bytes()
    );
    Ok(())
}

#[test]
fn packs_that_a_clone_shares_stay_and_the_source_is_repacked_by_itself() -> Outcome {
    let place = place()?;
    place.ok(&["clone", ".", "../to"])?;
    let packs = |dir: &str| -> Outcome<BTreeSet<String>> {
        let entries = fs::read_dir(place.work().join(dir).join(".dmv/packs"))?;
        let names =
            entries.map(|entry| entry.map(|e| e.file_name().to_string_lossy().into_owned()));
        Ok(names.collect::<Result<_, _>>()?)
    };
    let shared: BTreeSet<String> = packs(".")?
        .intersection(&packs("../to")?)
        .cloned()
        .collect();
    assert_eq!(shared.len(), 2, "{shared:?}");
    for n in 0..4 {
        place.write("../to/new", format!("{n}"))?;
        place.ok(&["-C", "../to", "commit", "-m", "new"])?;
    }
    let report = place.json(&["-C", "../to", "repack", "--json"])?;
    assert!(report["copied_bytes"].as_u64() > Some(0), "{report}");
    assert!(packs("../to")?.is_superset(&shared));
    let done = place.ok(&["repack"])?;
    assert!(
        done.starts_with("2 packs of ") && done.contains(" are now 2 packs of "),
        "{done}"
    );
    assert!(packs(".")?.is_disjoint(&shared));
    for dir in [".", "../to"] {
        place.ok(&["-C", dir, "verify", "--full"])?;
    }
    Ok(())
}

/// Of a history with merges, moved files, removed files and empty directories.
fn history() -> Outcome<Place> {
    let place = Place::with_repository()?;
    for n in 0..40 {
        place.write(
            format!("d{}/sub/f{}", n % 4, n % 7),
            format!("{n}\n").repeat(9),
        )?;
        match n {
            10 => drop(place.ok(&["checkout", "-b", "side"])?),
            20 => drop(place.ok(&["checkout", "main"])?),
            30 => drop(place.ok(&["merge", "side"])?),
            33 => fs::rename(place.work().join("d1"), place.work().join("moved"))?,
            35 => fs::remove_dir_all(place.work().join("d2/sub"))?,
            36 => fs::create_dir(place.work().join("empty"))?,
            38 => fs::remove_dir(place.work().join("empty"))?,
            _ => {}
        }
        place.ok(&["commit", "--allow-empty", "-m", &format!("c{n}")])?;
    }
    Ok(place)
}

fn asked_of_paths(place: &Place) -> Outcome<Vec<String>> {
    let mut out = Vec::new();
    for path in [
        "d1",
        "d2/sub",
        "moved/sub/f1",
        "d3/sub/f3",
        "empty",
        "d0/sub",
    ] {
        out.push(place.ok(&["log", "--graph", "--json", "--", path])?);
        out.push(place.ok(&["log", "--oneline", "--", path, "d3"])?);
    }
    out.push(place.ok(&["log", "--follow", "--oneline", "--", "moved/sub/f1"])?);
    out.push(place.ok(&["blame", "moved/sub/f1"])?);
    Ok(out)
}

#[test]
fn the_log_of_a_path_is_the_same_with_and_without_the_table_of_changes_also_in_parts() -> Outcome {
    let place = history()?;
    // Parts of a repository compare what they have.
    place.ok(&["clone", "--meta-only", ".", "../index"])?;
    place.ok(&["clone", ".", "../recent", "--depth", "5"])?;
    place.ok(&["clone", ".", "../part", "--subset", "d3"])?;
    for (dir, some) in [("../index", 41), ("../recent", 1), ("../part", 1)] {
        let asked = ["-C", dir, "log", "--json", "--", "d3"];
        let expected = place.ok(&asked)?;
        let report = place.json(&["-C", dir, "repack", "--json"])?;
        let compared = report["commits_compared"].as_u64().ok_or("a number")?;
        assert!(compared >= some, "{dir}: {report}");
        assert_eq!(place.ok(&asked)?, expected, "{dir}");
    }

    // The log of a path is the same with and without the table of changes.
    let file = place.work().join(".dmv/changed-paths");
    let expected = asked_of_paths(&place)?;
    assert!(!file.exists());
    let told = place.ok(&["repack"])?;
    assert!(
        told.contains("noted which paths 41 commits changed"),
        "{told}"
    );
    assert_eq!(asked_of_paths(&place)?, expected);
    // Only the commits since then are compared.
    let told = place.ok(&["repack"])?;
    assert!(!told.contains("noted"), "{told}");
    place.write("d3/sub/f3", "new")?;
    place.commit("new")?;
    let expected = asked_of_paths(&place)?;
    assert_eq!(place.json(&["repack", "--json"])?["commits_compared"], 1);
    assert_eq!(asked_of_paths(&place)?, expected);
    // A damaged table is not used, and made anew.
    let good = fs::read(&file)?;
    for bad in [&b""[..], b"nonsense", &good[..good.len() / 2]] {
        fs::write(&file, bad)?;
        assert_eq!(asked_of_paths(&place)?, expected);
    }
    assert_eq!(place.json(&["repack", "--json"])?["commits_compared"], 42);
    assert_eq!(fs::read(&file)?, good);
    // One of a later version is not used, and stays.
    let mut later = good;
    later[8] = 2;
    fs::write(&file, &later)?;
    assert_eq!(asked_of_paths(&place)?, expected);
    assert_eq!(place.json(&["repack", "--json"])?["commits_compared"], 0);
    assert_eq!(fs::read(&file)?, later);
    place.ok(&["verify", "--full"])?;
    Ok(())
}
