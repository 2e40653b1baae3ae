//! Looking at history: renames, graphs, the commits of a path.

use crate::place::{Outcome, Place};
use dmv_random::noise;
use serde_json::{Value, json};
use std::fs;

const LINES: &str = "one\ntwo\nthree\nfour\nfive\nsix\nseven\neight\nnine\nten\n";

fn renamed<'a>(changes: &'a Value, path: &str) -> Outcome<&'a Value> {
    let all = changes.as_array().ok_or("no list")?;
    let found = all.iter().find(|change| change["path"] == path);
    Ok(found.ok_or("no such change")?)
}

#[test]
fn a_file_that_was_moved_and_edited_is_told_with_how_much_is_the_same() -> Outcome {
    let place = Place::with_repository()?;
    place.write("notes.txt", LINES)?;
    place.write("film", vec![7; 300_000])?;
    place.commit("one")?;
    fs::create_dir(place.work().join("sub"))?;
    fs::rename(place.work().join("film"), place.work().join("sub/film"))?;
    fs::remove_file(place.work().join("notes.txt"))?;
    place.write("sub/text.txt", format!("{LINES}eleven\n"))?;
    let want = |change: &Value| {
        let percent = change["similarity"].as_u64().unwrap_or_default();
        assert_eq!(change["change"], json!("renamed"));
        assert_eq!(change["from"], json!("notes.txt"));
        assert!((80..95).contains(&percent), "{change}");
    };
    let status = place.json(&["status", "--json"])?;
    assert_eq!(status["changes"].as_array().map(Vec::len), Some(2));
    want(renamed(&status["changes"], "sub/text.txt")?);
    assert_eq!(
        renamed(&status["changes"], "sub/film")?["similarity"],
        json!(100)
    );
    let text = place.ok(&["status"])?;
    assert!(text.contains("notes.txt -> sub/text.txt (8"), "{text}");
    want(renamed(
        &json!(place.records(&["diff", "--json"])?),
        "sub/text.txt",
    )?);
    place.commit("two")?;
    let between = json!(place.records(&["diff", "@~1", "@", "--json"])?);
    want(renamed(&between, "sub/text.txt")?);
    let diff = place.ok(&["diff", "@~1", "@"])?;
    assert!(
        diff.contains("--- a/notes.txt\n+++ b/sub/text.txt\n"),
        "{diff}"
    );
    assert!(
        diff.contains("+eleven\n") && !diff.contains("+one\n"),
        "{diff}"
    );
    let stat = place.ok(&["show", "--stat"])?;
    assert!(stat.contains("film -> sub/film"), "{stat}");
    assert!(
        stat.contains("+1 -0, ") && stat.contains(" % the same\n"),
        "{stat}"
    );
    // Half is the least.
    place.write("sub/text.txt", "something else altogether\n")?;
    fs::rename(
        place.work().join("sub/text.txt"),
        place.work().join("third"),
    )?;
    let changes = place.json(&["status", "--json"])?["changes"].clone();
    assert_eq!(renamed(&changes, "third")?["change"], json!("added"));
    Ok(())
}

/// Messages of the commits that a log shows.
fn messages(place: &Place, args: &[&str]) -> Outcome<Vec<String>> {
    let args = [&["log", "--json"], args].concat();
    let records = place.records(&args)?;
    let message = |record: &Value| record["message"].as_str().unwrap_or_default().to_owned();
    Ok(records.iter().map(message).collect())
}

#[test]
fn a_graph_is_drawn_and_the_log_of_a_path_follows_it_where_it_was_before() -> Outcome {
    // A graph is drawn beside the commits.
    let place = Place::with_repository()?;
    for n in ["one", "two"] {
        place.write("f", n)?;
        place.commit(n)?;
    }
    let graph = place.ok(&["log", "--graph"])?;
    let starts: Vec<String> = graph
        .lines()
        .map(|line| line.chars().take(3).collect())
        .collect();
    assert_eq!(
        starts,
        [
            "○ c", "│ A", "│ D", "│", "│  ", "│", "○ c", "  A", "  D", "", "   ", ""
        ]
    );

    // The log of a path tells its commits.
    place.write("d/old.txt", LINES)?;
    place.write("other", "x")?;
    place.commit("made")?;
    place.write("other", "y")?;
    place.commit("elsewhere")?;
    place.write("d/old.txt", format!("{LINES}eleven\n"))?;
    place.commit("edited")?;
    fs::create_dir(place.work().join("e"))?;
    fs::remove_file(place.work().join("d/old.txt"))?;
    place.write("e/new.txt", format!("{LINES}eleven\ntwelve\n"))?;
    place.commit("moved")?;
    place.write("other", "z")?;
    place.commit("elsewhere again")?;
    assert_eq!(messages(&place, &["--", "e/new.txt"])?, ["moved"]);
    assert_eq!(messages(&place, &["--", "d"])?, ["moved", "edited", "made"]);
    assert_eq!(messages(&place, &["--", "d/old.txt", "other"])?.len(), 5);
    assert_eq!(
        messages(&place, &["--follow", "--", "e/new.txt"])?,
        ["moved", "edited", "made"]
    );
    assert_eq!(
        messages(&place, &["--follow", "-n", "2", "--", "e/new.txt"])?.len(),
        2
    );
    assert_eq!(messages(&place, &["--author", "nobody"])?.len(), 0);
    assert_eq!(messages(&place, &["--author", "ada", "--", "e"])?.len(), 1);
    place.fails(2, &["log", "--follow"])?;
    place.fails(2, &["log", "--follow", "--", "d", "e"])?;
    Ok(())
}

fn subjects(place: &Place, args: &[&str]) -> Outcome<Vec<String>> {
    let shown = place.ok(&[&["log", "--oneline"], args].concat())?;
    let subject = |line: &str| line.rsplit(' ').next().unwrap_or_default().to_owned();
    Ok(shown.lines().map(subject).collect())
}

#[test]
fn a_log_is_limited_by_dates_words_and_ranges() -> Outcome {
    let place = Place::with_repository()?;
    place.write("a", "1")?;
    place.commit("first")?;
    place.ok(&["branch", "side"])?;
    place.write("a", "2")?;
    place.commit("second")?;
    place.ok(&["checkout", "side"])?;
    place.write("b", "1")?;
    place.ok(&["commit", "-m", "third", "--author", "Bob <b@x>"])?;
    place.ok(&["merge", "main", "-m", "fourth"])?;
    assert_eq!(
        subjects(&place, &[])?,
        ["fourth", "third", "second", "first"],
    );
    assert_eq!(subjects(&place, &["main..side"])?, ["fourth", "third"]);
    assert_eq!(subjects(&place, &["main.."])?, ["fourth", "third"]);
    assert_eq!(subjects(&place, &["--no-merges", "main.."])?, ["third"]);
    assert_eq!(subjects(&place, &["side..main"])?, [""; 0]);
    assert_eq!(subjects(&place, &["--grep", "ir"])?, ["third", "first"]);
    assert_eq!(subjects(&place, &["--author", "Bob"])?, ["third"]);
    for since in ["yesterday", "today", "1 day ago", "2 weeks", "2020-02-29"] {
        assert_eq!(subjects(&place, &["--since", since])?.len(), 4, "{since}");
        let until = subjects(&place, &["--until", since])?.len();
        assert_eq!(until, if since == "today" { 4 } else { 0 }, "{since}");
    }
    let err = place.fails(2, &["log", "--since", "some day"])?;
    assert!(err.contains("2 weeks ago"), "{err}");
    place.fails(20, &["log", "main..nowhere"])?;
    let (range, two) = (
        place.ok(&["diff", "main..side"])?,
        place.ok(&["diff", "main", "side"])?,
    );
    assert_eq!(range, two);
    assert_eq!(place.ok(&["log", "--", "nowhere"])?, "");
    Ok(())
}

#[test]
fn a_log_lists_the_files_of_each_commit() -> Outcome {
    let place = Place::with_repository()?;
    let text: String = (0..50).map(|n| format!("{n}\n")).collect();
    place.write("a", &text)?;
    place.write("z", "1\n")?;
    place.commit("first")?;
    fs::rename(place.work().join("a"), place.work().join("b"))?;
    place.write("b", text + "more\n")?;
    place.write("z", "2\n")?;
    place.commit("moved")?;
    let shown = place.ok(&["log", "--stat"])?;
    assert!(
        shown.contains(" a -> b | +1 -0, 96 % the same\n"),
        "{shown}"
    );
    assert!(shown.contains(" z      | +1 -1\n") && shown.contains(" 2 files changed"));
    let shown = place.ok(&["log", "-p", "-n", "1", "--", "z"])?;
    assert!(shown.contains("\n-1\n+2\n") && !shown.contains("renamed"));
    let followed = place.records(&["log", "--follow", "--stat", "--json", "--", "b"])?;
    assert_eq!(followed[0]["changes"][0]["from"], "a");
    assert_eq!(followed[1]["changes"][0]["path"], "a");
    assert_eq!(followed[0]["changes"].as_array().map(Vec::len), Some(1));
    place.fails(2, &["log", "--stat", "--graph"])?;
    // Without a worktree paths are from the root.
    let dmv = place.work().join(".dmv");
    let dmv = dmv.to_str().ok_or("path")?;
    assert!(place.ok(&["-C", dmv, "log", "--", "z"])?.contains("moved"));
    Ok(())
}

#[test]
fn the_paths_that_take_the_space_over_all_history_are_listed() -> Outcome {
    let place = Place::with_repository()?;
    fs::create_dir(place.work().join("film"))?;
    let shared = noise(99, 3 << 20);
    let mut notes = Vec::new();
    for n in 0..3u64 {
        // Nothing in common but the magic of zstd.
        let saved = [&b"\x28\xb5\x2f\xfd"[..], &noise(n, 8 << 20)].concat();
        place.write("film/scene.blend", saved)?;
        place.write("film/take.raw", [&shared[..], &[n as u8; 100]].concat())?;
        place.write("notes.txt", format!("{n}"))?;
        let done = place.run(&["commit", "-m", "version"])?;
        assert_eq!(done.status.code(), Some(0));
        notes.push(String::from_utf8(done.stderr)?);
    }
    let told = "film/scene.blend is saved compressed (zstd), so it shares only 0 % with its previous version";
    let tells: Vec<bool> = notes.iter().map(|note| note.contains(told)).collect();
    assert_eq!(tells, [false, true, true], "{notes:?}");
    // Larger files that are not compressed, or share much, hide nothing.
    let saved = |n| [&b"\x28\xb5\x2f\xfd"[..], &noise(n, 8 << 20)].concat();
    let long = noise(98, 20 << 20);
    place.write("film/plain.raw", noise(7, 9 << 20))?;
    place.write(
        "film/alike.gz",
        [&b"\x1f\x8b\x08"[..], &long, b"1"].concat(),
    )?;
    place.commit("larger ones")?;
    place.write("film/plain.raw", noise(8, 9 << 20))?;
    place.write(
        "film/alike.gz",
        [&b"\x1f\x8b\x08"[..], &long, b"2"].concat(),
    )?;
    place.write("film/scene.blend", saved(9))?;
    let done = place.run(&["commit", "-m", "all together"])?;
    let said = String::from_utf8(done.stderr)?;
    assert!(said.contains(told), "{said}");
    place.ok(&["undo"])?;
    place.ok(&["undo"])?;
    place.ok(&["restore", "."])?;
    for name in ["film/plain.raw", "film/alike.gz"] {
        fs::remove_file(place.work().join(name))?;
    }
    // The same content under another name, and a version that another branch has.
    place.write("copy.raw", [&shared[..], &[2; 100]].concat())?;
    place.commit("copy")?;
    place.ok(&["checkout", "-b", "side"])?;
    place.write("notes.txt", "side")?;
    place.commit("side")?;
    place.ok(&["checkout", "main"])?;

    let records = place.records(&["du", "--history", "--json"])?;
    let of = |path: &str, key: &str| {
        let found = records.iter().find(|record| record["path"] == path);
        found.map_or(0, |record| record[key].as_u64().unwrap_or_default())
    };
    assert_eq!(records.len(), 4);
    assert_eq!(records[0]["path"], json!("film/scene.blend"));
    let blend = 3 * (4 + (8 << 20));
    assert_eq!(of("film/scene.blend", "versions"), 3);
    assert_eq!(of("film/scene.blend", "bytes"), blend);
    assert_eq!(of("film/scene.blend", "unique_bytes"), blend);
    assert_eq!(of("notes.txt", "versions"), 4);
    assert_eq!(of("film/take.raw", "bytes"), 3 * (100 + (3 << 20)));
    // Shared content counts once, whichever of the two paths it counts for.
    let raw = of("film/take.raw", "unique_bytes") + of("copy.raw", "unique_bytes");
    assert!((3 << 20..5 << 20).contains(&raw), "{raw}");

    let text = place.ok(&["du", "--history", "-n", "1"])?;
    assert!(text.contains("film/scene.blend"), "{text}");
    assert!(!text.contains("take.raw"), "{text}");
    assert!(text.contains("5 commits"), "{text}");
    let only = place.records(&["du", "--history", "--json", "notes.txt", "copy.raw"])?;
    assert_eq!(only.len(), 2);
    let none = place.run(&["du", "--history", "nosuch"])?;
    let none = String::from_utf8(none.stderr)?;
    assert!(none.contains("no commit has 'nosuch'"), "{none}");

    let advice = place.records(&["du", "--advise", "--json"])?;
    assert_eq!(advice.len(), 1, "{advice:?}");
    assert_eq!(advice[0]["path"], json!("film/scene.blend"));
    assert_eq!(advice[0]["compressed"], json!("zstd"));
    assert_eq!(advice[0]["shared_percent"], json!(0));
    // Noise does not compress.
    let saves = advice[0]["saves_bytes"].as_u64().unwrap_or_default();
    assert!((15 << 20..17 << 20).contains(&saves), "{advice:?}");
    let text = place.ok(&["du", "--advise"])?;
    assert!(
        text.contains("as many versions saved like this take up to 1"),
        "{text}"
    );
    assert!(text.contains("is saved compressed (zstd)"), "{text}");
    assert!(text.contains("in Blender"), "{text}");
    Ok(())
}

#[test]
fn what_all_versions_take_is_summed_as_far_as_it_is_stored() -> Outcome {
    let place = Place::with_repository()?;
    // What is given up counts as stored only until it is freed.
    for n in 0..4u64 {
        place.write("take.raw", noise(n, 8 << 20))?;
        place.commit("take")?;
    }
    let stored = |args: &[&str]| -> Outcome<u64> {
        let found = place.json(args)?;
        Ok(found["stored_bytes"].as_u64().ok_or("no size")?)
    };
    let history = ["du", "--history", "--json"];
    assert!(stored(&history)? > 31 << 20);
    let advice = place.json(&["du", "--advise", "--json"])?;
    let saves = advice["saves_bytes"].as_u64().unwrap_or_default();
    assert!((23 << 20..25 << 20).contains(&saves), "{advice}");
    assert!(
        place
            .ok(&["du", "--advise"])?
            .contains("this frees up to 24.0 MiB\n")
    );

    place.ok(&["keep", "set", "take.raw", "last:1"])?;
    place.ok(&["expire", "--last-copy"])?;
    place.ok(&["gc", "--grace", "0"])?;
    let found = place.json(&history)?;
    assert_eq!(
        (&found["versions"], &found["given_up"]),
        (&json!(4), &json!(3))
    );
    assert_eq!(found["bytes"], json!(32 << 20));
    assert!(stored(&history)? < 9 << 20, "{found}");
    let text = place.ok(&["du", "--history"])?;
    assert!(text.contains("3 versions are given up"), "{text}");
    assert_eq!(stored(&["du", "--json", "@~2:take.raw"])?, 0);
    assert!(place.ok(&["du", "--advise"])?.starts_with("no advice: "));

    // A clone without all metadata says that its sum is not complete.
    fs::create_dir(place.work().join("a"))?;
    fs::create_dir(place.work().join("b"))?;
    for n in 0..2 {
        place.write("a/f", format!("{n}"))?;
        place.write("b/f", format!("{n}{n}"))?;
        place.commit("version")?;
    }
    place.ok(&["clone", ".", "../part", "--subset", "a", "-q"])?;
    let records = place.records(&["-C", "../part", "du", "--history", "--json", "a"])?;
    assert_eq!(records.len(), 1);
    assert_eq!(records[0]["versions"], json!(2));
    let all = place.run(&["-C", "../part", "du", "--history"])?;
    assert_eq!(all.status.code(), Some(0));
    let said = String::from_utf8(all.stderr)?;
    assert!(
        said.contains("does not have the metadata of all versions"),
        "{said}"
    );
    Ok(())
}
