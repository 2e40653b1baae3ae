//! `dmv bisect`: each step is one operation.

use crate::place::{Outcome, Place};
use serde_json::{Value, json};
use std::fs;

/// A line of commits, of which the sixth introduces a fault; and their ids.
fn faulty() -> Outcome<(Place, Vec<String>)> {
    let place = Place::with_repository()?;
    let mut ids = Vec::new();
    for n in 0..10 {
        place.write("n", format!("{n}\n"))?;
        place.write("fault", if n < 6 { "no" } else { "yes" })?;
        ids.push(place.commit(&format!("commit {n}"))?);
    }
    Ok((place, ids))
}

fn number(place: &Place) -> Outcome<String> {
    Ok(fs::read_to_string(place.work().join("n"))?
        .trim()
        .to_owned())
}

#[test]
fn a_search_by_hand_or_by_a_command_finds_the_first_bad_commit() -> Outcome {
    let (place, ids) = faulty()?;
    // A search by hand finds the first bad commit and returns.
    let err = place.fails(20, &["bisect", "good"])?;
    assert!(
        err.contains("no bisection is under way") && err.contains("bisect start"),
        "{err}"
    );
    let text = place.ok(&["bisect", "start", "@", &ids[0]])?;
    assert!(
        text.contains("5 commits left after this, about 2 tests\n"),
        "{text}"
    );
    assert!(
        text.contains("test this commit: ") && text.contains("commit 4\n"),
        "{text}"
    );
    assert_eq!(number(&place)?, "4");
    place.ok(&["bisect", "good"])?;
    assert_eq!(number(&place)?, "6");
    let told = place.json(&["bisect", "bad", "--json"])?;
    assert_eq!(
        (&told["state"], &told["commit"]),
        (&json!("testing"), &json!(ids[5]))
    );
    let log = place.ok(&["bisect", "log"])?;
    assert!(
        log.starts_with("started on main\nbad   ") && log.contains("commit 4"),
        "{log}"
    );
    let text = place.ok(&["bisect", "good"])?;
    assert!(
        text.contains("commit 6 is the first bad commit\n"),
        "{text}"
    );
    assert!(text.contains("dmv bisect end"), "{text}");
    place.ok(&["bisect", "end"])?;
    assert_eq!(
        (number(&place)?, place.ok(&["status", "-sb"])?),
        ("9".into(), "## main\n".into())
    );
    place.fails(20, &["bisect", "end"])?;

    // A run tests until it has found the commit.
    place.ok(&["bisect", "start", "@", &ids[0]])?;
    let text = place.ok(&["bisect", "run", "grep", "-q", "no", "fault"])?;
    assert!(
        text.contains("commit 6 is the first bad commit\n"),
        "{text}"
    );
    place.ok(&["bisect", "end"])?;
    // 125 skips, 128 stops, and the same command continues.
    place.ok(&["bisect", "start", "@", &ids[0]])?;
    let log = place.ok(&["bisect", "log"])?;
    let err = place.fails(20, &["bisect", "run", "sh", "-c", "exit 128"])?;
    assert!(
        err.contains("ended with exit code 128") && err.contains("again"),
        "{err}"
    );
    place.fails(20, &["bisect", "run", "no-such-command"])?;
    place.fails(20, &["bisect", "run", "sh", "-c", "kill -9 $$"])?;
    assert_eq!(place.ok(&["bisect", "log"])?, log);
    let script = "test $(cat n) = 5 && exit 125; grep -q no fault";
    let told: Value = place.json(&["--json", "bisect", "run", "sh", "-c", script])?;
    assert_eq!(
        (&told["state"], &told["first_bad"]),
        (&json!("skipped"), &json!(null))
    );
    assert_eq!(told["candidates"], json!([ids[6], ids[5]]));

    place.ok(&["bisect", "end"])?;
    // A run after the end of the search tests nothing.
    place.ok(&["bisect", "start", "@", &ids[0]])?;
    let found = place.ok(&["bisect", "run", "grep", "-q", "no", "fault"])?;
    let log = place.ok(&["bisect", "log"])?;
    let again = place.ok(&["bisect", "run", "sh", "-c", "echo tested; exit 125"])?;
    let first_bad = |text: &str| {
        let line = text
            .lines()
            .find(|line| line.ends_with("is the first bad commit"));
        line.map(str::to_owned)
    };
    assert!(first_bad(&again).is_some());
    assert_eq!(first_bad(&found), first_bad(&again));
    assert!(!again.contains("tested"), "{again}");
    assert_eq!(place.ok(&["bisect", "log"])?, log);

    place.ok(&["bisect", "end"])?;
    // Edits stay or the step is refused and nothing is noted.
    place.write("mine", "uncommitted")?;
    place.ok(&["bisect", "start", "@", &ids[0]])?;
    assert_eq!(fs::read(place.work().join("mine"))?, b"uncommitted");
    place.write("n", "edited")?;
    let log = place.ok(&["bisect", "log"])?;
    for args in [&["bisect", "good"][..], &["bisect", "end"]] {
        let said = place.fails(5, args)?;
        assert!(said.contains("bisection would lose"), "{said}");
    }
    assert_eq!(place.ok(&["bisect", "log"])?, log);
    assert_eq!(number(&place)?, "edited");
    place.ok(&["restore", "n"])?;
    place.ok(&["bisect", "good"])?;

    place.ok(&["bisect", "end"])?;
    // Both ends may come one after the other and a contradiction is refused.
    let said = place.ok(&["bisect", "start"])?;
    assert!(said.contains("needs a bad and a good commit"), "{said}");
    assert!(
        place
            .ok(&["bisect", "bad"])?
            .contains("needs a good commit")
    );
    place.fails(2, &["bisect", "run", "true"])?;
    place.ok(&["bisect", "good", &ids[0], &ids[1]])?;
    assert_eq!(number(&place)?, "5");
    let log = place.ok(&["bisect", "log"])?;
    let err = place.fails(20, &["bisect", "good", "main"])?;
    assert!(
        err.contains("but the good commit") && err.contains("dmv bisect log"),
        "{err}"
    );
    assert_eq!(place.ok(&["bisect", "log"])?, log);
    // 'reset' is Git's word for the end, which follows a renamed branch.
    place.ok(&["branch", "-m", "main", "trunk"])?;
    place.ok(&["bisect", "reset"])?;
    assert_eq!(place.json(&["status", "--json"])?["branch"], "trunk");
    let err = place.fails(20, &["bisect", "start", &ids[2], &ids[5]])?;
    assert!(err.contains("contains it"), "{err}");
    Ok(())
}

#[test]
fn a_search_is_undone_and_redone_and_knows_its_worktree_and_its_branch() -> Outcome {
    let (place, ids) = faulty()?;
    // Every step is undone and redone.
    let state = || -> Outcome<(String, String)> {
        Ok((number(&place)?, place.ok(&["bisect", "log", "--json"])?))
    };
    place.ok(&["bisect", "start", "main", &ids[0]])?;
    let first = state()?;
    place.ok(&["bisect", "good"])?;
    let second = state()?;
    assert_ne!(first, second);
    place.ok(&["undo"])?;
    assert_eq!(state()?, first);
    place.ok(&["redo"])?;
    assert_eq!(state()?, second);
    place.ok(&["bisect", "end"])?;
    place.ok(&["undo"])?;
    assert_eq!(state()?, second);
    for _ in 0..2 {
        place.ok(&["undo"])?;
    }
    place.fails(20, &["bisect", "log"])?;
    assert_eq!(place.json(&["status", "--json"])?["branch"], "main");
    assert_eq!(number(&place)?, "9");

    // Worktrees search on their own and short histories say so.
    place.ok(&["worktree", "add", "../second", &ids[8]])?;
    place.ok(&["bisect", "start", "@", &ids[0]])?;
    place.fails(20, &["-C", "../second", "bisect", "log"])?;
    place.ok(&["-C", "../second", "bisect", "start", "@", &ids[2]])?;
    place.ok(&[
        "-C",
        "../second",
        "bisect",
        "run",
        "grep",
        "-q",
        "no",
        "fault",
    ])?;
    assert_eq!(number(&place)?, "4");
    place.ok(&["bisect", "end"])?;
    // A clone without the good commit.
    place.ok(&["clone", "--depth", "3", ".", "../short"])?;
    place.ok(&["-C", "../short", "bisect", "start", "@", "@~1"])?;
    place.ok(&["clone", "--meta-only", ".", "../meta"])?;
    place.ok(&["-C", "../meta", "bisect", "start", "@", &ids[0]])?;
    place.ok(&["-C", "../meta", "bisect", "end"])?;

    // A merge base is tested first where the good commit is beside the bad one.
    place.ok(&["checkout", "-b", "side", &ids[3]])?;
    place.write("other", "x")?;
    place.commit("beside")?;
    let text = place.ok(&["bisect", "start", "main", "side"])?;
    assert!(
        text.contains("merge base must be tested first") && text.contains("commit 3\n"),
        "{text}"
    );
    assert_eq!(number(&place)?, "3");
    place.ok(&["bisect", "good"])?;
    let text = place.ok(&["bisect", "run", "grep", "-q", "no", "fault"])?;
    assert!(
        text.contains("commit 6 is the first bad commit\n"),
        "{text}"
    );
    place.ok(&["bisect", "start", "main", "side"])?;
    let err = place.fails(20, &["bisect", "bad"])?;
    assert!(err.contains("was repaired between them"), "{err}");
    place.ok(&["bisect", "end"])?;
    assert_eq!(place.json(&["status", "--json"])?["branch"], "side");

    place.ok(&["checkout", "main"])?;
    // A status shows the search and it ends also without the branch it began on.
    place.ok(&["bisect", "start", "@", &ids[0]])?;
    let said = place.ok(&["status"])?;
    assert!(
        said.contains("a bisection is under way: ") && said.contains("1 good commit"),
        "{said}"
    );
    assert_eq!(place.json(&["status", "--json"])?["bisecting"], true);
    place.ok(&["branch", "-d", "main"])?;
    place.ok(&["bisect", "end"])?;
    let status = place.json(&["status", "--json"])?;
    assert_eq!(
        (&status["bisecting"], &status["branch"]),
        (&json!(false), &Value::Null)
    );
    assert_eq!(number(&place)?, "4");
    Ok(())
}
