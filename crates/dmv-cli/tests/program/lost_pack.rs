//! A pack is away: `status`, `verify`, `recover`, `checkout` and `verify --heal` tell one true story of it,
//! and after the repair everything is there.

use crate::place::{Outcome, Place};
use serde_json::Value;
use std::fs;
use std::path::PathBuf;

const FILES: usize = 30;

/// `film` with two commits of many files, and `nas`, a bare clone of it and a remote.
fn place() -> Outcome<Place> {
    let place = Place::new()?;
    place.ok(&["init", "film"])?;
    for version in ["first", "second"] {
        for n in 0..FILES {
            place.write(
                format!("film/shots/{n}"),
                format!("{version} {n}").repeat(99),
            )?;
        }
        place.ok(&["-C", "film", "commit", "-m", version])?;
    }
    place.ok(&["clone", "--bare", "--copy", "film", "nas"])?;
    place.ok(&["-C", "film", "remote", "add", "nas", "../nas"])?;
    Ok(place)
}

/// The largest pack of `film`: the one with the content.
fn content_pack(place: &Place) -> Outcome<PathBuf> {
    let packs = fs::read_dir(place.work().join("film/.dmv/packs"))?;
    let packs = packs.map(|entry| Ok(entry?.path()));
    let mut packs = packs.collect::<Outcome<Vec<PathBuf>>>()?;
    packs.sort_by_key(|pack| fs::metadata(pack).map_or(0, |pack| pack.len()));
    packs.pop().ok_or_else(|| "a pack".into())
}

/// The pack of `film` with commits and trees: docs/format/pack.md gives the kind in the header.
fn metadata_pack(place: &Place) -> Outcome<PathBuf> {
    for entry in fs::read_dir(place.work().join("film/.dmv/packs"))? {
        let path = entry?.path();
        if fs::read(&path)?.get(10) == Some(&2) {
            return Ok(path);
        }
    }
    Err("no pack has metadata".into())
}

/// Takes the pack away. Returns its id.
fn lose(place: &Place) -> Outcome<String> {
    let pack = content_pack(place)?;
    fs::rename(&pack, place.work().join("away"))?;
    let id = pack.file_stem().ok_or("a name")?;
    Ok(id.to_string_lossy().into_owned())
}

fn film(place: &Place, exit: i32, args: &[&str]) -> Outcome<String> {
    let output = place.run(&[&["-C", "film"][..], args].concat())?;
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8(said)?;
    assert_eq!(output.status.code(), Some(exit), "{args:?}: {said}");
    Ok(said)
}

/// What is said about a lost pack, which files it affects, and what repairs it.
fn tells(said: &str, pack: &str) {
    let lost = format!("pack {pack} is missing");
    assert!(said.contains(&lost), "{said}");
    assert!(said.contains("60 objects are missing"), "{said}");
    assert!(said.contains("30 paths need them:"), "{said}");
    assert!(said.contains("… and 20 more"), "{said}");
    assert!(said.contains("hint: dmv verify --heal"), "{said}");
    assert!(said.lines().count() < 20, "{said}");
}

#[test]
fn healing_takes_a_lost_pack_out_of_use_once_nothing_needs_it() -> Outcome {
    let place = place()?;
    let pack = lose(&place)?;
    let said = film(&place, 0, &["verify", "--heal"])?;
    assert!(
        said.contains(&format!("healed: the missing pack {pack}")),
        "{said}"
    );
    for _ in 0..2 {
        film(&place, 0, &["verify"])?;
        let said = film(&place, 0, &["status"])?;
        assert!(!said.contains("missing"), "{said}");
    }
    film(&place, 0, &["gc"])?;
    Ok(())
}

#[test]
fn a_lost_pack_with_the_commit_of_the_worktree_is_healed() -> Outcome {
    let place = place()?;
    fs::remove_file(metadata_pack(&place)?)?;
    film(&place, 7, &["status"])?;
    let said = film(&place, 0, &["verify", "--heal"])?;
    assert!(said.contains("healed: "), "{said}");
    let said = film(&place, 0, &["status"])?;
    assert!(said.contains("nothing changed"), "{said}");
    film(&place, 0, &["checkout", "@~1"])?;
    Ok(())
}

#[test]
fn content_that_came_back_by_get_is_no_damage_though_its_pack_is_away() -> Outcome {
    let place = place()?;
    let pack = lose(&place)?;
    let said = film(&place, 0, &["get", "@~1:shots"])?;
    assert!(said.contains("30 files fetched"), "{said}");
    film(&place, 0, &["get", "@:shots"])?;
    let said = film(&place, 0, &["verify"])?;
    assert!(said.contains(&format!("pack {pack} is missing")), "{said}");
    assert!(said.contains("stored elsewhere"), "{said}");
    Ok(())
}

#[test]
fn a_pack_that_comes_back_is_read_again() -> Outcome {
    let place = place()?;
    let pack = content_pack(&place)?;
    lose(&place)?;
    film(&place, 7, &["verify"])?;
    // Commits go on meanwhile, into another pack.
    for n in 0..20 {
        place.write("film/new", n.to_string())?;
        film(&place, 0, &["commit", "-m", "new"])?;
    }
    fs::rename(place.work().join("away"), pack)?;
    film(&place, 0, &["verify"])?;
    let said = film(&place, 0, &["status"])?;
    assert!(!said.contains("damaged"), "{said}");
    film(&place, 0, &["checkout", "@~21"])?;
    Ok(())
}

#[test]
fn a_quick_check_knows_what_a_full_one_has_found() -> Outcome {
    let place = place()?;
    let pack = content_pack(&place)?;
    let mut bytes = fs::read(&pack)?;
    bytes[150] ^= 1;
    fs::write(&pack, bytes)?;
    // Nobody knows of it yet.
    film(&place, 0, &["verify", "--quick"])?;
    film(&place, 7, &["verify"])?;
    let said = film(&place, 7, &["verify", "--quick"])?;
    assert!(said.contains("damaged"), "{said}");
    assert!(said.contains("hint: dmv verify --heal"), "{said}");
    let said = film(&place, 0, &["status"])?;
    assert!(said.contains("dmv verify --heal"), "{said}");
    let status = place.json(&["-C", "film", "status", "--json"])?;
    assert!(status["damage"]["objects"].as_u64() > Some(0), "{status}");
    film(&place, 0, &["verify", "--heal"])?;
    film(&place, 0, &["verify", "--quick"])?;
    let status = place.json(&["-C", "film", "status", "--json"])?;
    assert_eq!(status["damage"], Value::Null, "{status}");
    Ok(())
}

#[test]
fn one_story_of_a_lost_pack_ends_with_everything_there() -> Outcome {
    let place = place()?;
    // All that is affected is listed on request.
    let pack = lose(&place)?;
    let said = film(&place, 7, &["verify", "--quick", "-v"])?;
    for n in 0..FILES {
        assert!(said.contains(&format!("\n  shots/{n}  in ")), "{n}: {said}");
    }
    assert!(!said.contains("more (-v"), "{said}");
    let output = place.run(&["-C", "film", "verify", "--quick", "--json"])?;
    let found: Value = serde_json::from_slice(&output.stdout)?;
    assert_eq!(found["lost_packs"][0]["pack"], pack.as_str());
    assert_eq!(found["affected"].as_array().map(Vec::len), Some(FILES));
    assert!(found["lost_bytes"].as_u64() > Some(0), "{found}");

    // One story of a lost pack ends with everything there.
    let said = film(&place, 0, &["status"])?;
    assert!(said.contains(&format!("pack {pack} is missing")), "{said}");
    assert!(said.contains("dmv verify --heal"), "{said}");
    tells(&film(&place, 7, &["verify", "--quick"])?, &pack);
    tells(&film(&place, 7, &["verify"])?, &pack);
    tells(&film(&place, 7, &["verify", "--quick"])?, &pack);
    // Whatever needs the content names the pack, not an index.
    let said = film(&place, 7, &["cat", "@~1:shots/7"])?;
    assert!(said.contains(&format!("pack {pack} is missing")), "{said}");
    assert!(said.contains("hint: dmv verify --heal"), "{said}");
    // Without its row nobody misses the pack. What it had is still missed.
    let said = film(&place, 0, &["recover"])?;
    assert!(said.contains(&format!("not found: pack {pack}")), "{said}");
    assert!(said.contains("60 objects are missing"), "{said}");
    assert!(said.contains("hint: dmv verify --heal"), "{said}");
    let said = film(&place, 0, &["status"])?;
    assert!(
        said.contains("found 60 objects missing or damaged"),
        "{said}"
    );
    let said = film(&place, 7, &["verify", "--quick"])?;
    assert!(said.contains("60 objects are missing"), "{said}");
    // The files have half of it, and the remote the rest.
    let said = film(&place, 0, &["verify", "--heal"])?;
    assert!(
        said.contains("healed: 30 objects, stored again from the worktree"),
        "{said}"
    );
    assert!(
        said.contains("healed: 30 objects, stored again from nas"),
        "{said}"
    );
    film(&place, 0, &["verify"])?;
    let said = film(&place, 0, &["status"])?;
    assert!(!said.contains("damaged"), "{said}");
    film(&place, 0, &["checkout", "@~1"])?;
    let read = fs::read_to_string(place.work().join("film/shots/7"))?;
    assert!(read.starts_with("first 7"), "{read}");
    Ok(())
}
