//! The limit on the repository's size, as a user sets it and runs into it.

use crate::place::{Outcome, Place};
use dmv_random::noise;
use serde_json::{Value, json};

/// The setting.
const BUDGET: &str = "repository.budget";

#[test]
fn a_limit_is_set_and_stops_a_command_that_reaches_it_but_no_step_back() -> Outcome {
    let place = Place::with_repository()?;
    // A limit is set shown and undone.
    place.fails(1, &["config", "get", BUDGET])?;
    assert!(place.json(&["stats", "--json"])?["budget_bytes"].is_null());
    place.ok(&["config", "set", BUDGET, "1.5GB"])?;
    let set = place.json(&["stats", "--json"])?;
    assert_eq!(set["budget_bytes"], 1_500_000_000);
    assert_eq!(set["ways"], json!([]));
    assert_eq!(place.ok(&["config", "get", BUDGET])?, "1500000000\n");
    assert!(
        place
            .ok(&["config", "list"])?
            .contains("repository.budget 1500000000")
    );
    let text = place.ok(&["stats"])?;
    assert!(
        text.contains("budget           1.4 GiB, 0 % used"),
        "{text}"
    );
    place.ok(&["undo"])?;
    place.fails(1, &["config", "get", BUDGET])?;
    place.ok(&["redo"])?;
    place.ok(&["recover"])?;
    assert_eq!(place.ok(&["config", "get", BUDGET])?, "1500000000\n");
    place.ok(&["config", "set", BUDGET, "10"])?;
    let text = place.ok(&["stats"])?;
    assert!(text.contains(" times that used\n"), "{text}");
    assert!(text.contains("no command of dmv frees space"), "{text}");
    assert!(!text.contains("free most"), "{text}");
    place.ok(&["config", "unset", BUDGET])?;
    assert!(!place.ok(&["stats"])?.contains("budget"));
    for bad in ["", "much", "-1", "1XB"] {
        place.fails(20, &["config", "set", BUDGET, "--", bad])?;
    }
    let said = place.fails(2, &["config", "set", "--user", BUDGET, "1GB"])?;
    assert!(said.contains("a setting of one repository"), "{said}");

    // A step back is never refused.
    // What steps back needs no room, although it keeps what it overwrites.
    place.write("a", "1")?;
    place.commit("1")?;
    place.write("a", "2")?;
    place.commit("2")?;
    place.write("a", noise(3, 300_000))?;
    place.ok(&["config", "set", BUDGET, "10"])?;
    place.ok(&["restore", "a"])?;
    place.ok(&["undo"])?;
    place.ok(&["redo"])?;
    place.ok(&["gc"])?;

    place.ok(&["config", "unset", BUDGET])?;
    // A command that reaches the limit stops and changes nothing.
    place.write("small", "small")?;
    let before = place.commit("small")?;
    place.ok(&["config", "set", BUDGET, "6MB"])?;
    place.write("large", noise(1, 24_000_000))?;
    let said = place.fails(5, &["commit", "-m", "large"])?;
    assert!(said.contains("its budget is 5.7 MiB"), "{said}");
    let log = place.records(&["log", "--json"])?;
    assert_eq!(log[0]["id"], json!(before));
    assert_eq!(place.json(&["verify", "--full", "--json"])?["ok"], true);
    place.ok(&["config", "unset", BUDGET])?;
    place.commit("large")?;
    assert_eq!(place.json(&["verify", "--full", "--json"])?["ok"], true);
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
        place.ok(&["-C", repo, "config", "set", BUDGET, "40kB"])?;
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
    place.ok(&["-C", "film", "config", "set", BUDGET, "2MB"])?;
    place.ok(&["-C", "film", "commit", "-m", "more"])?;
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
    place.ok(&["-C", "film", "config", "set", BUDGET, "1KB"])?;
    let found = place.json(&["-C", "film", "stats", "--json"])?;
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

/// Bytes that a repository may pass its limit by: pages of its database, and a record of the log.
const LITTLE: u64 = 64 << 10;

/// Fails unless a command is refused and leaves nothing behind that takes space, and a small commit still
/// has room.
fn is_refused(place: &Place, repo: &str, room: u64, args: &[&str]) -> Outcome {
    let used = || -> Outcome<u64> {
        let found = place.json(&["-C", repo, "stats", "--json"])?;
        Ok(found["disk_bytes"].as_u64().ok_or("no size")?)
    };
    let before = used()?;
    let limit = (before + room).to_string();
    place.ok(&["-C", repo, "config", "set", BUDGET, &limit])?;
    let log = place.ok(&["-C", repo, "log", "--json"])?;
    let said = place.fails(5, args)?;
    assert!(said.contains("its budget is"), "{args:?}: {said}");
    assert!(said.contains("hint: "), "{args:?}: {said}");
    let after = used()?;
    assert!(after < before + LITTLE, "{args:?}: {before} {after}");
    assert_eq!(place.ok(&["-C", repo, "log", "--json"])?, log, "{args:?}");
    place.ok(&["-C", repo, "verify", "--full"])?;
    // A clone without content accepts no new files.
    if repo != "meta" {
        let small = format!("small-{before}");
        place.write(format!("{repo}/{small}"), "small")?;
        place.ok(&["-C", repo, "commit", "-m", "small", &small])?;
        assert!(used()? < before + room, "{args:?}");
    }
    place.ok(&["-C", repo, "config", "unset", BUDGET])?;
    Ok(())
}

/// A command that ends in a moment is measured, too: by what it writes.
#[test]
fn what_writes_a_little_too_much_in_a_moment_is_refused_and_leaves_nothing() -> Outcome {
    let place = Place::new()?;
    place.ok(&["init", "film"])?;
    place.write("film/a", noise(1, 100_000))?;
    // Each side changes its own tenth of the lines, so the merged text shares few chunks with any version.
    let text = |ours: &str, theirs: &str| -> String {
        let line = |n: u64| match n % 10 {
            3 => format!("{ours} {n}\n"),
            8 => format!("{theirs} {n}\n"),
            _ => format!("{}\n", n.wrapping_mul(0x9e37_79b9_7f4a_7c15)),
        };
        (0..20_000).map(line).collect()
    };
    place.write("film/text", text("base", "base"))?;
    place.ok(&["-C", "film", "commit", "-m", "a"])?;
    place.write("film/a", noise(2, 900_000))?;
    is_refused(
        &place,
        "film",
        700_000,
        &["-C", "film", "commit", "-m", "b"],
    )?;
    is_refused(
        &place,
        "film",
        700_000,
        &["-C", "film", "commit", "--amend", "-m", "b"],
    )?;
    is_refused(&place, "film", 700_000, &["-C", "film", "stash"])?;
    // Many small files, each of which would fit.
    for n in 0..300 {
        place.write(format!("film/many/{n}"), noise(n, 3_000))?;
    }
    is_refused(
        &place,
        "film",
        700_000,
        &["-C", "film", "commit", "-m", "many"],
    )?;
    place.ok(&["-C", "film", "commit", "-m", "all"])?;
    // A merge stores the text that it makes.
    place.ok(&["-C", "film", "branch", "side"])?;
    place.write("film/text", text("ours", "base"))?;
    place.ok(&["-C", "film", "commit", "-m", "ours"])?;
    place.ok(&["-C", "film", "checkout", "side"])?;
    place.write("film/text", text("base", "theirs"))?;
    place.ok(&["-C", "film", "commit", "-m", "theirs"])?;
    for verb in ["merge", "cherry-pick", "rebase"] {
        is_refused(&place, "film", 90_000, &["-C", "film", verb, "main"])?;
    }
    Ok(())
}

#[test]
fn what_would_arrive_beyond_the_limit_is_refused_and_leaves_nothing() -> Outcome {
    let place = Place::new()?;
    place.ok(&["init", "film"])?;
    place.write("film/raw/a", noise(1, 6 << 20))?;
    place.ok(&["-C", "film", "commit", "-m", "a"])?;
    place.ok(&["clone", "--meta-only", "film", "meta"])?;
    is_refused(&place, "meta", 1_000_000, &["-C", "meta", "get", "raw"])?;
    is_refused(&place, "meta", 1_000_000, &["-C", "meta", "cat", "@:raw/a"])?;
    place.ok(&["clone", "--copy", "film", "copy"])?;
    place.write("film/raw/b", noise(2, 6 << 20))?;
    place.ok(&["-C", "film", "commit", "-m", "b"])?;
    for verb in ["fetch", "pull", "sync"] {
        is_refused(&place, "copy", 1_000_000, &["-C", "copy", verb])?;
    }
    // The repository at the other end has the limit.
    place.ok(&["init", "--bare", "store"])?;
    place.ok(&["-C", "store", "config", "set", BUDGET, "1MB"])?;
    place.ok(&["-C", "film", "remote", "add", "store", "../store"])?;
    let said = place.fails(20, &["-C", "film", "push", "store", "--json"])?;
    assert!(said.contains("budget"), "{said}");
    let told: Value = serde_json::from_str(said.trim())?;
    assert_eq!(told["code"], "full", "{told}");
    let hint = told["hint"].as_str().unwrap_or_default();
    assert!(
        hint.starts_with("dmv -C ") && hint.ends_with("store gc"),
        "{told}"
    );
    let used = place.json(&["-C", "store", "stats", "--json"])?;
    assert!(used["disk_bytes"].as_u64() < Some(300_000), "{used}");
    place.ok(&["-C", "store", "config", "unset", BUDGET])?;
    place.ok(&["-C", "film", "push", "store"])?;
    place.ok(&["-C", "copy", "pull"])?;
    place.ok(&["-C", "meta", "get", "raw"])?;
    Ok(())
}
