//! The limit on the repository's size, as a user sets it and runs into it.

use crate::place::{Outcome, Place};
use dmv_random::noise;
use serde_json::{Value, json};

#[test]
fn a_limit_is_set_shown_and_undone() -> Outcome {
    let place = Place::with_repository()?;
    let none = place.json(&["budget", "--json"])?;
    assert_eq!(
        (&none["limit_bytes"], &none["over"]),
        (&Value::Null, &json!(false))
    );
    let set = place.json(&["budget", "1.5GB", "--json"])?;
    assert_eq!(set["limit_bytes"], 1_500_000_000);
    assert!(set["used_bytes"].as_u64() > Some(10_000), "{set}");
    let text = place.ok(&["budget"])?;
    assert!(text.contains(" of 1.4 GiB used (0 %)"), "{text}");
    place.ok(&["undo"])?;
    assert!(place.ok(&["budget"])?.starts_with("no limit; "));
    place.ok(&["redo"])?;
    place.ok(&["recover"])?;
    assert_eq!(
        place.json(&["budget", "--json"])?["limit_bytes"],
        1_500_000_000
    );
    let text = place.ok(&["budget", "10"])?;
    assert!(text.contains(" times the limit)\n"), "{text}");
    assert!(text.contains("no command of dmv frees space"), "{text}");
    assert!(!text.contains("free most"), "{text}");
    place.ok(&["budget", "none"])?;
    assert!(place.ok(&["budget"])?.starts_with("no limit; "));
    for bad in ["", "much", "-1", "1XB"] {
        place.fails(2, &["budget", "--", bad])?;
    }
    Ok(())
}

#[test]
fn what_stores_something_is_refused_with_the_ways_to_free_most() -> Outcome {
    let place = Place::new()?;
    place.ok(&["init", "film"])?;
    place.write("film/.dmvattributes", "*.exr keep=last:1\n")?;
    for n in 0..3 {
        place.write("film/renders/a.exr", noise(n, 400_000))?;
        place.write("film/raw/b.mov", noise(9, 600_000))?;
        place.ok(&["-C", "film", "commit", "-m", "take"])?;
    }
    place.ok(&["clone", "film", "copy"])?;
    place.ok(&["clone", "--meta-only", "film", "meta"])?;
    place.ok(&["-C", "film", "remote", "add", "copy", "../copy"])?;
    place.write("film/next", "next")?;
    place.ok(&["-C", "film", "commit", "-m", "next"])?;
    for repo in ["film", "copy", "meta"] {
        let set = place.json(&["-C", repo, "budget", "40kB", "--json"])?;
        assert_eq!(set["over"], true, "{set}");
    }
    place.write("film/more", "more")?;
    for args in [
        &["-C", "film", "commit", "-m", "more"][..],
        &["-C", "copy", "fetch"],
        &["-C", "copy", "pull"],
        &["-C", "copy", "sync"],
        &["-C", "meta", "get", "raw"],
    ] {
        let said = place.fails(5, args)?;
        assert!(said.contains("its budget is 39.1 KiB"), "{args:?}: {said}");
    }
    let said = place.fails(5, &["-C", "film", "commit", "-m", "more"])?;
    // Each way has a line of its own, and JSON lists them.
    let named = |way: &str| {
        said.lines()
            .any(|line| line.starts_with(' ') && line.ends_with(way))
    };
    assert!(named("  dmv expire") && named("  dmv drop raw"), "{said}");
    let said_json = place.fails(5, &["-C", "film", "commit", "-m", "more", "--json"])?;
    let error: serde_json::Value = serde_json::from_str(said_json.trim())?;
    assert!(
        error["details"].as_array().is_some_and(|d| d.len() >= 2),
        "{error}"
    );
    let expire = said.find("  dmv expire").ok_or("expire is named")?;
    let drop = said.find("  dmv drop raw").ok_or("drop is named")?;
    assert!(expire < drop, "{said}");
    assert!(said.contains("hint: dmv expire"), "{said}");
    // What frees space, reads or steps back goes on.
    place.ok(&["-C", "film", "status"])?;
    place.ok(&["-C", "film", "undo"])?;
    place.ok(&["-C", "film", "redo"])?;
    place.ok(&["-C", "film", "expire", "--last-copy"])?;
    place.ok(&["-C", "film", "gc"])?;
    place.ok(&["-C", "film", "budget", "2MB"])?;
    place.ok(&["-C", "film", "commit", "-m", "more"])?;
    Ok(())
}

#[test]
fn a_command_that_reaches_the_limit_stops_and_changes_nothing() -> Outcome {
    let place = Place::with_repository()?;
    place.write("small", "small")?;
    let before = place.commit("small")?;
    place.ok(&["budget", "6MB"])?;
    place.write("large", noise(1, 60_000_000))?;
    let said = place.fails(5, &["commit", "-m", "large"])?;
    assert!(said.contains("its budget is 5.7 MiB"), "{said}");
    let log = place.records(&["log", "--json"])?;
    assert_eq!(log[0]["id"], json!(before));
    assert_eq!(log.len(), 1);
    assert_eq!(place.json(&["verify", "--full", "--json"])?["ok"], true);
    place.ok(&["budget", "none"])?;
    place.commit("large")?;
    assert_eq!(place.json(&["verify", "--full", "--json"])?["ok"], true);
    Ok(())
}

/// Content may be compressed: what a command frees is what it takes in packs.
#[test]
fn the_ways_to_free_name_bytes_of_packs() -> Outcome {
    let place = Place::new()?;
    place.ok(&["init", "film"])?;
    place.write("film/.dmvattributes", "*.exr keep=last:1\n")?;
    for n in 0..2 {
        place.write("film/a.exr", vec![n; 3_000_000])?;
        place.write("film/b.txt", vec![b'b'; 5_000_000])?;
        place.ok(&["-C", "film", "commit", "-m", "take"])?;
    }
    place.ok(&["clone", "--copy", "film", "copy"])?;
    place.ok(&["-C", "film", "remote", "add", "copy", "../copy"])?;
    let found = place.json(&["-C", "film", "budget", "1KB", "--json"])?;
    let ways = found["ways"].as_array().ok_or("no ways")?;
    assert!(!ways.is_empty(), "{found}");
    for way in ways {
        assert!(way["bytes"].as_u64() < Some(100_000), "{found}");
    }
    let dropped = place.json(&["-C", "film", "drop", "b.txt", "--json"])?;
    assert_eq!(dropped["bytes"], 5_000_000, "{dropped}");
    assert!(
        dropped["stored_bytes"].as_u64() < Some(100_000),
        "{dropped}"
    );
    let given = |key: &str| dropped[key].as_u64().unwrap_or(0);
    assert!(
        given("freed_bytes") + given("waiting_bytes") < 100_000,
        "{dropped}"
    );
    Ok(())
}
