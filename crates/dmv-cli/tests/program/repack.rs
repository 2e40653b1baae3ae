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
    place.ok(&["repack"])?;
    assert!(packs(".")?.is_disjoint(&shared));
    for dir in [".", "../to"] {
        place.ok(&["-C", dir, "verify", "--full"])?;
    }
    Ok(())
}

#[test]
fn wrong_times_are_refused_and_a_run_without_time_continues_later() -> Outcome {
    let place = place()?;
    place.fails(2, &["repack", "--max-time=soon"])?;
    place.fails(2, &["repack", "all"])?;
    let late = place.fails(3, &["repack", "--max-time", "0"])?;
    assert!(late.contains("the next 'dmv repack' continues"), "{late}");
    let done = place.ok(&["repack"])?;
    assert!(
        done.starts_with("2 packs of ") && done.contains(" are now 2 packs of "),
        "{done}"
    );
    place.ok(&["verify", "--full"])?;
    Ok(())
}

#[test]
fn a_bare_repository_and_a_part_of_one_are_repacked() -> Outcome {
    let place = place()?;
    place.ok(&["clone", "--bare", ".", "../bare"])?;
    place.ok(&["clone", "--meta-only", ".", "../index"])?;
    place.ok(&["clone", ".", "../part", "--subset", "d1"])?;
    for dir in ["../bare", "../index", "../part"] {
        let report = place.json(&["-C", dir, "repack", "--json"])?;
        assert_eq!(report["finished"], true, "{report}");
        place.ok(&["-C", dir, "verify"])?;
    }
    Ok(())
}
