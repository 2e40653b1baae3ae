//! Content that is elsewhere: brought when a command needs it, and by `get`.

use crate::place::several::several;
use crate::place::{Outcome, Place};
use std::fs;

/// `film` with a large file and two branches that changed one text, and a clone of it without
/// content.
fn place() -> Outcome<Place> {
    let place = several()?;
    place.write("film/text", "a\nb\nc\n")?;
    let large: Vec<u8> = (0..700_000u32).flat_map(u32::to_le_bytes).collect();
    place.write("film/large", large)?;
    place.ok(&["-C", "film", "commit", "-m", "second"])?;
    place.ok(&["-C", "film", "branch", "side"])?;
    place.write("film/text", "a\nb\nC\n")?;
    place.ok(&["-C", "film", "commit", "-m", "third"])?;
    place.ok(&["-C", "film", "checkout", "side"])?;
    place.write("film/text", "A\nb\nc\n")?;
    place.ok(&["-C", "film", "commit", "-m", "other"])?;
    place.ok(&["-C", "film", "checkout", "main"])?;
    place.ok(&["clone", "film", "meta", "--meta-only"])?;
    Ok(place)
}

fn absent(place: &Place, repo: &str) -> Outcome<u64> {
    let report = place.json(&["-C", repo, "verify", "--full", "--json"])?;
    assert_eq!(report["ok"], true, "{report}");
    Ok(report["absent"].as_u64().ok_or("it counts")?)
}

/// Makes the clone's remote unreachable, or reachable again.
fn hide(place: &Place, hidden: bool) -> Outcome {
    let (here, away) = (place.work().join("film"), place.work().join("away"));
    if hidden {
        fs::rename(here, away)?;
    } else {
        fs::rename(away, here)?;
    }
    Ok(())
}

#[test]
fn commands_bring_what_they_need_and_no_more() -> Outcome {
    let place = place()?;
    let all = absent(&place, "meta")?;
    assert_eq!(place.ok(&["-C", "meta", "cat", "@:text"])?, "a\nb\nC\n");
    assert_eq!(absent(&place, "meta")?, all - 1);
    let range = ["-C", "meta", "cat", "@:large", "--range", "400000-400008"];
    let bytes = place.run(&range)?.stdout;
    assert_eq!(bytes, [100_000u32, 100_001].map(u32::to_le_bytes).concat());
    assert_eq!(absent(&place, "meta")?, all - 2, "one chunk of many");
    let diff = place.ok(&["-C", "meta", "diff", "@~1", "@"])?;
    assert!(diff.contains("-c\n+C\n"), "{diff}");
    // What was brought stays.
    hide(&place, true)?;
    place.ok(&["-C", "meta", "diff", "@~1", "@"])?;
    place.ok(&["-C", "meta", "show", "--stat"])?;
    hide(&place, false)?;
    place.ok(&["-C", "meta", "subset", "set", "text"])?;
    assert_eq!(fs::read(place.work().join("meta/text"))?, b"a\nb\nC\n");
    place.ok(&["-C", "meta", "merge", "origin/side"])?;
    assert_eq!(fs::read(place.work().join("meta/text"))?, b"A\nb\nC\n");
    place.ok(&["-C", "meta", "revert", "@", "-m", "1"])?;
    assert_eq!(fs::read(place.work().join("meta/text"))?, b"a\nb\nC\n");
    place.ok(&["-C", "meta", "undo"])?;
    let tar = place.run(&["-C", "meta", "export", "@:shots", "--tar", "-"])?;
    assert!(tar.status.success() && tar.stdout.len() > 20 * 512);
    place.ok(&["-C", "meta", "export", "@", "--to", "../out"])?;
    assert_eq!(
        fs::read(place.work().join("out/large"))?,
        fs::read(place.work().join("film/large"))?
    );
    Ok(())
}

#[test]
fn nothing_is_changed_where_nobody_has_it() -> Outcome {
    let place = place()?;
    hide(&place, true)?;
    place.ok(&[
        "-C",
        "meta",
        "commit",
        "--allow-empty",
        "-m",
        "no files are needed",
    ])?;
    let state = || -> Outcome<String> {
        let log = place.ok(&["-C", "meta", "op", "log"])?;
        Ok(log + &place.ok(&["-C", "meta", "status"])?)
    };
    let before = state()?;
    // What only looks says what is absent.
    for looks in [&["diff", "@~2", "@"][..], &["show", "origin/side"]] {
        let args = [&["-C", "meta"], looks].concat();
        let output = place.run(&args)?;
        let said = String::from_utf8(output.stderr)?;
        assert_eq!(output.status.code(), Some(0), "{said}");
        assert!(said.contains("is absent from this repository"), "{said}");
    }
    let commands: [&[&str]; 7] = [
        &["cat", "@:text"],
        &["subset", "set", "text"],
        &["checkout", "--all"],
        &["export", "@", "--to", "../out"],
        &["export", "@", "--tar", "../out"],
        &["merge", "origin/side"],
        &["get", "shots"],
    ];
    for command in commands {
        let args = [&["-C", "meta"], command].concat();
        let said = place.fails(6, &args)?;
        assert!(
            said.contains("origin may have it, but did not answer (no repository"),
            "{said}"
        );
        let hint = said.split("hint: ").nth(1).unwrap_or_default();
        assert!(hint.starts_with("dmv get "), "{said}");
        assert!(hint.contains(", when origin is reachable"), "{said}");
        assert_eq!(state()?, before, "{command:?}");
        assert!(!place.work().join("out").exists(), "{command:?}");
    }
    let said = place.fails(6, &["-C", "meta", "checkout", "--all"])?;
    assert!(
        said.contains("'large', 'shots/0', 'shots/1' and 19 more"),
        "{said}"
    );
    // Nobody is asked where that is not wanted.
    hide(&place, false)?;
    let said = place.fails(6, &["-C", "meta", "--offline", "cat", "@:text"])?;
    assert!(said.contains("offline: origin was not asked"), "{said}");
    assert!(said.contains("hint: dmv get text\n"), "{said}");
    place.ok(&["-C", "meta", "config", "set", "net.offline", "true"])?;
    let said = place.fails(6, &["-C", "meta", "cat", "@:text"])?;
    let hint = "hint: DMV_NET_OFFLINE=false dmv get text\n";
    assert!(said.contains(hint), "{said}");
    place.ok(&["-C", "meta", "config", "set", "net.offline", "false"])?;
    place.ok(&["-C", "meta", "cat", "@:text"])?;
    place.ok(&["-C", "meta", "remote", "remove", "origin"])?;
    let said = place.fails(6, &["-C", "meta", "cat", "@:large"])?;
    assert!(said.contains("no remote is configured"), "{said}");
    Ok(())
}

#[test]
fn get_brings_paths_and_patterns_and_says_what_is_left() -> Outcome {
    let place = place()?;
    let all = absent(&place, "meta")?;
    let got = place.json(&["-C", "meta", "get", "shots/1*", "text", "--json"])?;
    assert_eq!(got["files"], 12);
    assert_eq!(absent(&place, "meta")?, all - 12);
    let got = place.json(&["-C", "meta", "get", "shots", "--json"])?;
    assert_eq!(
        (&got["files"], absent(&place, "meta")?),
        (&9.into(), all - 21)
    );
    assert_eq!(
        place.ok(&["-C", "meta", "get", "shots"])?,
        "nothing to fetch: all of this content is already here\n"
    );
    let got = place.ok(&["-C", "meta", "get", "origin/side:text", "origin/side:large"])?;
    assert!(got.starts_with("2 files fetched (2.7 MiB)"), "{got}");
    assert_eq!(absent(&place, "meta")?, 1);
    place.fails(20, &["-C", "meta", "get", "nothing"])?;
    place.fails(2, &["-C", "meta", "get"])?;
    Ok(())
}

#[test]
fn what_one_remote_lacks_the_next_is_asked_for_and_who_may_have_it_is_named() -> Outcome {
    let place = place()?;
    // Directories outside of a slice are brought with all under them.
    let url = format!("ssh://here{}", place.work().join("film").display());
    place.ok(&["clone", &url, "part", "--subset", "text"])?;
    assert!(place.ok(&["-C", "part", "ls", "@:shots"])?.contains("17"));
    let got = place.json(&["-C", "part", "get", "shots", "--json"])?;
    assert_eq!(got["files"], 20);
    let done = place.json(&[
        "-C",
        "part",
        "subset",
        "add",
        "shots",
        "--offline",
        "--json",
    ])?;
    assert_eq!(done["files"], 20);
    let done = place.json(&["-C", "part", "checkout", "--all", "--json"])?;
    assert_eq!(done["files"], 1);
    place.ok(&["-C", "part", "verify"])?;
    // Merges read directories that only one side has changed by their ids alone.
    place.ok(&["-C", "part", "merge", "origin/side"])?;

    // Who is believed to have it is named with the hint.
    // One that answers and lacks it, one that has it, and one that was never there.
    place.ok(&["clone", "film", "other", "--meta-only"])?;
    for (name, at) in [("lacks", "../other"), ("never", "../nowhere")] {
        place.ok(&["-C", "meta", "remote", "add", name, at])?;
    }
    place.ok(&["-C", "meta", "fetch", "lacks"])?;
    hide(&place, true)?;
    let said = place.fails(6, &["-C", "meta", "get", "text"])?;
    assert!(said.contains("lacks does not have it"), "{said}");
    let hint = "hint: dmv get text, when origin is reachable\n";
    assert!(said.contains(hint), "{said}");

    hide(&place, false)?;
    for name in ["lacks", "never"] {
        place.ok(&["-C", "meta", "remote", "remove", name])?;
    }
    // What one remote lacks the next is asked for.
    // Each of two disks has a part; the first remote is not there at all.
    place.ok(&["clone", "film", "one", "--subset", "text"])?;
    place.ok(&["clone", "film", "two", "--subset", "shots"])?;
    place.ok(&["-C", "meta", "remote", "add", "a", "../one"])?;
    place.ok(&["-C", "meta", "remote", "add", "b", "../two"])?;
    hide(&place, true)?;
    let output = place.run(&["-C", "meta", "get", "text", "shots", "large"])?;
    let (out, said) = (
        String::from_utf8(output.stdout)?,
        String::from_utf8(output.stderr)?,
    );
    assert_eq!(output.status.code(), Some(6));
    assert!(out.starts_with("21 files fetched"), "{out}");
    assert!(
        said.contains("the content of 'large' is absent from this"),
        "{said}"
    );
    // What each of them holds says why.
    let asked = "a does not have it (a partial repository: only text); b does not have it (a \
                 partial repository: only shots); origin may";
    assert!(said.contains(asked), "{said}");
    let output = place.run(&["-C", "meta", "subset", "set", "text", "shots"])?;
    assert_eq!(output.status.code(), Some(0));
    Ok(())
}
