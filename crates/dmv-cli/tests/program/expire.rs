//! Giving up old versions by keep rules, as a user does it.

use crate::place::{Outcome, Place};
use dmv_random::noise;
use serde_json::{Value, json};
use std::fs;
use std::path::Path;

/// The bytes of the packs in a repository's own directory.
fn stored(dmv: &Path) -> Outcome<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(dmv.join("packs"))? {
        bytes += entry?.metadata()?.len();
    }
    Ok(bytes)
}

/// `film` with `count` versions of two pictures, and `nas` with all of them.
fn place(count: u64, rules: &str) -> Outcome<Place> {
    let place = Place::new()?;
    place.ok(&["init", "film"])?;
    place.write("film/.dmvattributes", rules)?;
    place.write("film/notes", "notes")?;
    for n in 0..count {
        place.write("film/renders/a.exr", noise(2 * n, 40_000))?;
        place.write("film/renders/b.exr", noise(2 * n + 1, 20_000))?;
        place.ok(&["-C", "film", "commit", "-m", &format!("take {n}")])?;
    }
    place.ok(&["clone", "--bare", "film", "nas"])?;
    place.ok(&["-C", "film", "remote", "add", "nas", "../nas"])?;
    Ok(place)
}

fn verified(place: &Place, repo: &str) -> Outcome<Value> {
    let report = place.json(&["-C", repo, "verify", "--full", "--json"])?;
    assert_eq!(report["ok"], true, "{report}");
    Ok(report)
}

fn cat(place: &Place, repo: &str, what: &str) -> Outcome<Vec<u8>> {
    let output = place.run(&["-C", repo, "cat", what])?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{what}: {said}");
    Ok(output.stdout)
}

#[test]
fn of_12_versions_of_a_folder_five_take_space_and_all_commits_verify() -> Outcome {
    let place = place(12, "/renders/** keep=last:5\n")?;
    let dry = place.records(&["-C", "film", "expire", "--dry-run", "--json"])?;
    let done = place.records(&["-C", "film", "expire", "--json"])?;
    let of = |path: &str, bytes: u64| json!({"path": path, "versions": 7, "bytes": bytes, "rule": "last:5"});
    assert_eq!(done[0], of("renders/a.exr", 7 * 40_000));
    assert_eq!(done[1], of("renders/b.exr", 7 * 20_000));
    assert_eq!(done, dry);
    assert_eq!(done.len(), 2);
    place.ok(&["-C", "film", "gc", "--grace", "0"])?;
    let stats = place.json(&["-C", "film", "stats", "--json"])?;
    let now = stats["data_bytes"].as_u64().ok_or("content takes space")?;
    assert!(now <= 5 * 60_000 * 105 / 100, "{stats}");

    let report = verified(&place, "film")?;
    assert_eq!(report["expired"][0]["versions"], 14, "{report}");
    assert_eq!(report["expired"][0]["rule"], "last:5");
    let log = place.records(&["-C", "film", "log", "--json"])?;
    assert_eq!(log.len(), 12);
    let listed = place.records(&["-C", "film", "ls", "@~10:renders", "--json"])?;
    assert_eq!(listed[0]["size"], 40_000);
    assert_eq!(listed[0]["expired"]["pattern"], "/renders/**");
    let long = place.ok(&["-C", "film", "ls", "-l", "@~10:renders"])?;
    assert!(long.contains("by keep=last:5 (/renders/**)"), "{long}");
    let status = place.json(&["-C", "film", "status", "--json"])?;
    assert_eq!(status["partial"]["expired"], 14, "{status}");
    assert_eq!(status["expired"], report["expired"]);
    let plain = place.ok(&["-C", "film", "status"])?;
    assert!(!plain.contains("keep="), "{plain}");
    let verbose = place.ok(&["-C", "film", "status", "-v"])?;
    assert!(verbose.contains("\n  14 versions expired 20"), "{verbose}");
    assert!(
        verbose.contains(" by keep=last:5 (/renders/**)\n"),
        "{verbose}"
    );
    assert_eq!(
        cat(&place, "film", "@~4:renders/a.exr")?,
        noise(2 * 7, 40_000)
    );
    assert_eq!(cat(&place, "film", "@~11:notes")?, b"notes");

    // A clone of it says what it lacks, and an expired file comes from the archive.
    let clone = place.json(&["clone", "film", "copy", "--json"])?;
    assert_eq!(clone["expired"], 14, "{clone}");
    assert_eq!(clone["partial"]["expired"], 14, "{clone}");
    verified(&place, "copy")?;
    let gone = place.fails(6, &["-C", "copy", "cat", "@~10:renders/a.exr"])?;
    assert!(gone.contains("by keep=last:5 (/renders/**)"), "{gone}");
    place.ok(&["-C", "copy", "remote", "add", "nas", "../nas"])?;
    assert_eq!(cat(&place, "copy", "@~10:renders/a.exr")?, noise(2, 40_000));
    let got = place.json(&["-C", "film", "get", "@~10:renders/a.exr", "--json"])?;
    assert_eq!(got["bytes"], 40_000);
    let report = verified(&place, "film")?;
    assert_eq!(report["expired"][0]["versions"], 13, "{report}");
    Ok(())
}

#[test]
fn what_could_be_the_last_copy_stays_unless_the_user_says_so() -> Outcome {
    let place = place(6, "*.exr keep=last:2\n")?;
    place.write("film/renders/a.exr", noise(100, 9_000))?;
    place.ok(&["-C", "film", "commit", "-m", "not pushed"])?;
    place.ok(&["-C", "film", "remote", "remove", "nas"])?;
    let before = stored(&place.work().join("film/.dmv"))?;
    let said = place.fails(5, &["-C", "film", "expire"])?;
    assert!(said.contains("nothing was given up"), "{said}");
    assert!(said.contains("'renders/a.exr', 'renders/b.exr'"), "{said}");
    assert_eq!(stored(&place.work().join("film/.dmv"))?, before);
    assert!(!place.work().join("film/.dmv/slice").exists());
    let text = place.ok(&["-C", "film", "expire", "--last-copy", "--max-free", "120KB"])?;
    assert!(text.contains("no remote was asked for a copy"), "{text}");
    assert!(text.contains("left for another time: "), "{text}");
    // The oldest first.
    let said = place.fails(6, &["-C", "film", "cat", "@~6:renders/a.exr"])?;
    assert!(said.contains("no remote is configured"), "{said}");
    let expired = |what: &str| -> Outcome<bool> {
        let listed = place.json(&["-C", "film", "ls", what, "--json"])?;
        Ok(listed["expired"].is_object())
    };
    assert!(expired("@~5:renders/b.exr")? && !expired("@~4:renders/b.exr")?);
    place.ok(&["-C", "film", "expire", "--last-copy", "renders/b.exr"])?;
    assert!(expired("@~3:renders/b.exr")? && !expired("@~2:renders/b.exr")?);
    assert!(!expired("@~2:renders/a.exr")?);
    assert_eq!(cat(&place, "film", "@~2:renders/a.exr")?, noise(8, 40_000));
    verified(&place, "film")?;
    let none = place.ok(&["-C", "film", "expire", "--last-copy", "--max-free", "10"])?;
    assert!(
        none.contains("every version is larger than --max-free"),
        "{none}"
    );
    let said = place.fails(2, &["-C", "film", "expire", "--max-free", "many"])?;
    assert!(said.contains("write a size as"), "{said}");
    Ok(())
}

#[test]
fn what_the_view_names_stays_whatever_a_rule_says() -> Outcome {
    let place = place(3, "*.exr keep=none\n")?;
    place.ok(&["-C", "film", "tag", "v1", "@~2"])?;
    place.ok(&["-C", "film", "worktree", "add", "../second", "@~1"])?;
    place.write("film/renders/a.exr", noise(50, 30_000))?;
    place.ok(&["-C", "film", "stash"])?;
    // A conflict of two branches that are gone.
    for (branch, seed) in [("left", 60), ("right", 70)] {
        place.ok(&["-C", "film", "checkout", "-b", branch, "main"])?;
        place.write("film/renders/b.exr", noise(seed, 30_000))?;
        place.ok(&["-C", "film", "commit", "-m", branch])?;
    }
    place.fails(4, &["-C", "film", "merge", "left"])?;
    place.ok(&["-C", "film", "commit", "--allow-empty", "-m", "still open"])?;
    place.ok(&["-C", "film", "expire", "--last-copy"])?;
    verified(&place, "film")?;
    for (what, seed, len) in [
        ("v1:renders/a.exr", 0, 40_000),
        ("main:renders/a.exr", 4, 40_000),
        ("left:renders/b.exr", 60, 30_000),
    ] {
        assert_eq!(cat(&place, "film", what)?, noise(seed, len), "{what}");
    }
    assert_eq!(
        fs::read(place.work().join("second/renders/a.exr"))?,
        noise(2, 40_000)
    );
    place.ok(&["-C", "film", "resolve", "renders/b.exr", "--theirs"])?;
    assert_eq!(
        fs::read(place.work().join("film/renders/b.exr"))?,
        noise(60, 30_000)
    );
    Ok(())
}

#[test]
fn rules_that_are_unclear_give_nothing_up() -> Outcome {
    let place = place(3, "*.exr keep=last:1\n/renders keep=first:2\n*.exr text\n")?;
    let said = place.fails(5, &["-C", "film", "expire", "--last-copy"])?;
    assert!(
        said.contains(".dmvattributes:2: 'first:2' is not a keep rule"),
        "{said}"
    );
    assert!(
        said.contains(".dmvattributes:3: unknown attribute 'text'"),
        "{said}"
    );
    assert!(
        said.contains("nothing has expired: 1 rule is unclear (.dmvattributes:2)"),
        "{said}"
    );
    place.write(
        "film/.dmvattributes",
        "*.exr keep=last:1\n*.exr keep=all\n*.none keep=none\n",
    )?;
    // What is not committed does not count.
    place.fails(5, &["-C", "film", "expire", "--last-copy"])?;
    place.ok(&["-C", "film", "commit", "-m", "rules"])?;
    let output = place.run(&["-C", "film", "expire", "--dry-run"])?;
    let said = String::from_utf8(output.stderr)?;
    assert!(
        said.contains("replaces line 1, which says keep=last:1"),
        "{said}"
    );
    assert!(said.contains("'*.none' decides about no file"), "{said}");
    // One line about each rule.
    assert!(!said.contains(".dmvattributes:1"), "{said}");
    assert_eq!(
        String::from_utf8(output.stdout)?,
        "nothing to expire: the rules keep all versions that are stored\n"
    );
    fs::remove_file(place.work().join("film/.dmvattributes"))?;
    std::os::unix::fs::symlink("notes", place.work().join("film/.dmvattributes"))?;
    place.ok(&["-C", "film", "commit", "-m", "a link"])?;
    let said = place.fails(5, &["-C", "film", "expire", "--dry-run"])?;
    assert!(said.contains(".dmvattributes: it is not a file"), "{said}");
    fs::remove_file(place.work().join("film/.dmvattributes"))?;
    place.write("film/.dmvattributes", vec![b'\n'; (1 << 20) + 1])?;
    place.ok(&["-C", "film", "commit", "-m", "large"])?;
    let said = place.fails(5, &["-C", "film", "expire", "--dry-run"])?;
    assert!(said.contains("it is larger than 1048576 bytes"), "{said}");
    Ok(())
}

#[test]
fn local_rules_win_and_what_they_gave_up_comes_back_from_a_remote_alone() -> Outcome {
    let place = place(4, "*.exr keep=last:1\n")?;
    // Local rules are set listed undone and win.
    place.ok(&["-C", "film", "keep", "set", "a.exr", "all"])?;
    let set = place.json(&["-C", "film", "keep", "set", "a.exr", "last:3", "--json"])?;
    assert_eq!(
        set,
        json!({"pattern": "a.exr", "old": "all", "new": "last:3"})
    );
    let listed = place.records(&["-C", "film", "keep", "--json"])?;
    let of = |pattern: &str, rule: &str, from: &str, line: Value| json!({"pattern": pattern, "rule": rule, "from": from, "line": line, "used": true});
    assert_eq!(listed[0], of("*.exr", "last:1", ".dmvattributes", json!(1)));
    assert_eq!(listed[1], of("a.exr", "last:3", "local", Value::Null));
    let dry = place.records(&["-C", "film", "expire", "--dry-run", "--json"])?;
    assert_eq!(
        (&dry[0]["versions"], &dry[1]["versions"]),
        (&json!(1), &json!(3))
    );
    place.ok(&["-C", "film", "undo"])?;
    assert_eq!(
        place.records(&["-C", "film", "keep", "--json"])?[1]["rule"],
        "all"
    );
    place.ok(&["-C", "film", "redo"])?;
    assert_eq!(
        place.records(&["-C", "film", "keep", "--json"])?[1]["rule"],
        "last:3"
    );
    place.ok(&["-C", "film", "recover"])?;
    assert_eq!(
        place.records(&["-C", "film", "keep", "--json"])?[1]["rule"],
        "last:3"
    );
    place.ok(&["-C", "film", "keep", "remove", "a.exr"])?;
    let said = place.fails(20, &["-C", "film", "keep", "remove", "a.exr"])?;
    assert!(
        said.contains("there is no local rule for 'a.exr'"),
        "{said}"
    );
    place.fails(2, &["-C", "film", "keep", "set", "a", "last:0"])?;
    for bad in ["!a", "", "#a", "[a"] {
        place.fails(20, &["-C", "film", "keep", "set", "--", bad, "all"])?;
    }
    // A clone has the file's rules, not the local ones.
    place.ok(&["clone", "film", "copy"])?;
    assert_eq!(place.records(&["-C", "copy", "keep", "--json"])?.len(), 1);

    // Undo passes over it and says why it cannot bring content back.
    place.ok(&["-C", "film", "keep", "set", "*.x", "all"])?;
    place.ok(&["-C", "film", "expire"])?;
    let log = place.records(&["-C", "film", "op", "log", "--json"])?;
    assert_eq!(log[0]["command"], "dmv -C film expire");
    let id = log[0]["id"].as_str().ok_or("an id")?;
    let said = place.fails(5, &["-C", "film", "undo", &id[..12]])?;
    assert!(said.contains("does not come back by itself"), "{said}");
    assert!(said.contains("dmv get"), "{said}");
    place.ok(&["-C", "film", "undo"])?;
    assert_eq!(place.records(&["-C", "film", "keep", "--json"])?.len(), 1);
    // An undo that needs expired content fetches it before it changes anything.
    place.ok(&["-C", "film", "reset", "--hard", "@~1"])?;
    assert_eq!(
        fs::read(place.work().join("film/renders/a.exr"))?,
        noise(4, 40_000)
    );
    place.ok(&["-C", "film", "undo"])?;
    verified(&place, "film")?;

    // The hint for an expired version names its revision.
    // The hint of a failed read is a command that helps once a remote has the content again.
    place.ok(&["-C", "film", "expire"])?;
    fs::rename(place.work().join("nas"), place.work().join("away"))?;
    let at = place.ok(&["-C", "film", "log", "--json"])?;
    let log: Vec<Value> = at
        .lines()
        .map(serde_json::from_str)
        .collect::<Result<_, _>>()?;
    let id = log[2]["id"].as_str().ok_or("no id")?[..12].to_owned();
    let by_id = format!("dmv get {id}:renders/a.exr, when ");
    for (args, hint) in [
        (
            &["cat", "@~2:renders/a.exr"][..],
            "dmv get @~2:renders/a.exr, when ",
        ),
        (
            &["cat", "main~2:renders/a.exr"],
            "dmv get main~2:renders/a.exr, when ",
        ),
        (
            &["cat", "@~2:renders/a.exr", "--range", "10-20"],
            "dmv get @~2:renders/a.exr, when ",
        ),
        (&["get", "@~2:renders"], "dmv get @~2:PATH, when "),
        (&["restore", "--from", "@~2", "renders/a.exr"], &by_id),
    ] {
        let said = place.fails(6, &[&["-C", "film"][..], args].concat())?;
        assert!(said.contains(hint), "{args:?}: {said}");
    }
    fs::rename(place.work().join("away"), place.work().join("nas"))?;
    let got = place.json(&["-C", "film", "get", "@~2:renders/a.exr", "--json"])?;
    assert_eq!(got["bytes"], 40_000);
    // Content of the current commit needs no revision, but a path from the root.
    place.ok(&["-C", "film", "drop", "renders"])?;
    fs::rename(place.work().join("nas"), place.work().join("away"))?;
    let said = place.fails(6, &["-C", "film", "cat", "renders/b.exr"])?;
    assert!(said.contains("dmv get renders/b.exr, when "), "{said}");
    let said = place.fails(6, &["-C", "film/renders", "cat", "b.exr"])?;
    assert!(said.contains("dmv get :/renders/b.exr, when "), "{said}");
    Ok(())
}

#[test]
fn peers_are_not_made_partial_in_silence() -> Outcome {
    let place = place(5, "*.exr keep=last:2\n")?;
    place.ok(&["clone", "film", "full"])?;
    place.ok(&["-C", "film", "expire"])?;
    place.write("film/renders/a.exr", noise(90, 10_000))?;
    place.ok(&["-C", "film", "commit", "-m", "next"])?;
    // A full one that has the old versions stays full.
    let fetched = place.json(&["-C", "full", "pull", "--json"])?;
    assert!(!place.work().join("full/.dmv/slice").exists(), "{fetched}");
    verified(&place, "full")?;
    // One that lacks them hears of it.
    place.ok(&["init", "empty"])?;
    place.ok(&["-C", "empty", "remote", "add", "film", "../film"])?;
    let output = place.run(&["-C", "empty", "fetch", "film"])?;
    let said = String::from_utf8(output.stderr)?;
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(
        said.contains("6 old versions have expired at the other side"),
        "{said}"
    );
    let status = place.ok(&["-C", "empty", "status"])?;
    assert!(status.contains("6 versions expired"), "{status}");
    verified(&place, "empty")?;
    // It does not count as a copy, and a push from there makes nobody partial.
    place.ok(&["-C", "full", "remote", "add", "empty", "../empty"])?;
    place.ok(&["-C", "full", "remote", "remove", "origin"])?;
    let said = place.fails(5, &["-C", "full", "expire"])?;
    assert!(said.contains("empty does not keep a copy"), "{said}");
    place.ok(&["init", "--bare", "target"])?;
    place.ok(&["-C", "film", "remote", "add", "target", "../target"])?;
    let said = place.fails(6, &["-C", "film", "--offline", "push", "target"])?;
    assert!(
        said.contains("the content of 'renders/") && said.contains("is absent"),
        "{said}"
    );
    place.ok(&["-C", "film", "push", "nas"])?;
    // What another peer kept completes it.
    place.ok(&["-C", "empty", "remote", "add", "nas", "../nas"])?;
    for rev in ["film/main~3", "film/main~4", "film/main~5"] {
        place.ok(&["-C", "empty", "get", &format!("{rev}:renders")])?;
    }
    assert!(!place.work().join("empty/.dmv/slice").exists());
    verified(&place, "empty")?;
    Ok(())
}

#[test]
fn partial_and_metadata_only_repositories_expire_what_they_have() -> Outcome {
    let place = place(5, "*.exr keep=last:1\n")?;
    place.write("film/other/c.exr", noise(200, 10_000))?;
    place.ok(&["-C", "film", "commit", "-m", "other"])?;
    place.ok(&["-C", "film", "push", "nas"])?;
    place.ok(&[
        "clone",
        "nas",
        "part",
        "--subset",
        "renders",
        ".dmvattributes",
    ])?;
    let done = place.records(&["-C", "part", "expire", "--json"])?;
    assert_eq!(done[0]["versions"], 4, "{done:?}");
    assert_eq!(done.len(), 2, "{done:?}");
    verified(&place, "part")?;
    place.ok(&["clone", "--meta-only", "nas", "meta"])?;
    let done = place.records(&["-C", "meta", "expire", "--json"])?;
    assert_eq!(done.len(), 0, "{done:?}");
    // The rules were fetched.
    assert_eq!(
        place
            .records(&["-C", "meta", "--offline", "keep", "--json"])?
            .len(),
        1
    );
    verified(&place, "meta")?;
    place.ok(&["clone", "--depth", "3", "nas", "shallow"])?;
    let done = place.records(&["-C", "shallow", "expire", "--json"])?;
    assert_eq!(done[0]["versions"], 1, "{done:?}");
    verified(&place, "shallow")?;
    // A bare one follows the rules of its branch.
    place.ok(&["clone", "--bare", "nas", "bare"])?;
    let done = place.records(&["-C", "bare", "expire", "--json"])?;
    assert_eq!(done[0]["versions"], 4, "{done:?}");
    verified(&place, "bare")?;
    Ok(())
}

#[test]
fn the_sum_is_json_and_content_under_several_rules_names_them_all() -> Outcome {
    let place = Place::new()?;
    place.ok(&["init", "film"])?;
    let rules = "/a/** keep=last:1\n/b/** keep=last:1\n";
    place.write("film/.dmvattributes", rules)?;
    // The old content compresses well.
    for content in [vec![7; 100_000], noise(2, 100_000)] {
        place.write("film/a/x", &content)?;
        place.write("film/b/y", &content)?;
        place.ok(&["-C", "film", "commit", "-m", "take"])?;
    }
    let sum_of = |args: &[&str]| -> Outcome<serde_json::Value> {
        let output = place.run(&[&["-C", "film", "expire", "--json"], args].concat())?;
        let said = String::from_utf8(output.stderr)?;
        Ok(serde_json::from_str(
            said.lines().last().ok_or(said.clone())?,
        )?)
    };
    let dry = sum_of(&["--dry-run"])?;
    assert_eq!(dry["type"], "summary", "{dry}");
    assert_eq!((&dry["paths"], &dry["versions"]), (&2.into(), &2.into()));
    assert_eq!(dry["bytes"], 100_000, "{dry}");
    assert!(dry["stored_bytes"].as_u64() < Some(2_000), "{dry}");
    let text = place.ok(&["-C", "film", "expire", "--dry-run"])?;
    assert!(text.contains("this frees at most "), "{text}");
    assert!(!text.contains("at most 97.7 KiB"), "{text}");
    let done = sum_of(&["--last-copy"])?;
    assert_eq!(done["versions"], 2, "{done}");
    for path in ["@~1:a/x", "@~1:b/y"] {
        let listed = place.records(&["-C", "film", "ls", path, "--json"])?;
        let pattern = &listed[0]["expired"]["pattern"];
        assert_eq!(pattern, "/a/** and others", "{listed:?}");
    }
    Ok(())
}
