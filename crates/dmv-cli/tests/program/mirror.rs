//! Bare repositories that follow a remote, and those that do not and say so.

use crate::place::several::{commit, several, tip};
use crate::place::{Outcome, Place};
use std::fs;

/// What a command says on standard error, with its exit code 0.
fn said(place: &Place, args: &[&str]) -> Outcome<String> {
    let done = place.run(args)?;
    let said = String::from_utf8(done.stderr)?;
    assert_eq!(done.status.code(), Some(0), "{args:?}: {said}");
    Ok(said)
}

/// The names of branches or tags.
fn refs(place: &Place, repo: &str, kind: &str) -> Outcome<Vec<String>> {
    let records = place.records(&["-C", repo, kind, "--json"])?;
    let names = records.iter().filter_map(|record| record["name"].as_str());
    Ok(names.map(str::to_owned).collect())
}

/// `film` with a branch and a tag, and its mirror.
fn mirrored() -> Outcome<Place> {
    let place = several()?;
    place.ok(&["-C", "film", "branch", "regrade"])?;
    place.ok(&["-C", "film", "tag", "v1"])?;
    place.ok(&["clone", "--mirror", "film", "cache"])?;
    Ok(place)
}

#[test]
fn the_branches_and_tags_of_a_mirror_follow_also_backwards() -> Outcome {
    let place = mirrored()?;
    for command in ["fetch", "sync"] {
        commit(&place, "film", command)?;
        place.ok(&["-C", "cache", command])?;
        assert_eq!(tip(&place, "cache", "main")?, tip(&place, "film", "main")?);
        // Replaced, not moved on; and a tag that moved, a new branch.
        place.ok(&["-C", "film", "commit", "--amend", "-m", command])?;
        place.ok(&["-C", "film", "tag", "-d", "v1"])?;
        place.ok(&["-C", "film", "tag", "v1"])?;
        place.ok(&["-C", "film", "branch", &format!("new-{command}")])?;
        let said = said(&place, &["-C", "cache", command])?;
        assert!(said.contains("overwritten or deleted here: "), "{said}");
        assert!(said.contains("main") && said.contains("dmv undo"), "{said}");
        for name in ["main", "v1", &format!("new-{command}")] {
            assert_eq!(
                tip(&place, "cache", name)?,
                tip(&place, "film", name)?,
                "{name}"
            );
        }
    }
    place.ok(&["-C", "cache", "verify"])?;
    // A pipeline reads what is newest.
    let said = said(&place, &["-C", "cache", "export", "main", "--to", "../out"])?;
    assert!(!said.contains("newer"), "{said}");
    assert!(place.work().join("out/sync").exists());
    Ok(())
}

#[test]
fn what_a_mirror_had_of_its_own_or_has_deleted_comes_back_by_undo() -> Outcome {
    let place = mirrored()?;
    // What a mirror had of its own comes back by undo.
    // Somebody has pushed to the mirror by mistake.
    place.ok(&["clone", "cache", "second"])?;
    commit(&place, "second", "mine")?;
    place.ok(&["-C", "second", "push"])?;
    place.ok(&["-C", "second", "push", "origin", "main", "--create"])?;
    let mine = tip(&place, "second", "main")?;
    assert_eq!(tip(&place, "cache", "main")?, mine);
    let text = said(&place, &["-C", "cache", "fetch"])?;
    assert!(text.contains("overwritten or deleted here: main"), "{text}");
    assert_eq!(tip(&place, "cache", "main")?, tip(&place, "film", "main")?);
    place.ok(&["-C", "cache", "gc", "--grace", "0d"])?;
    place.ok(&["-C", "cache", "undo"])?;
    assert_eq!(tip(&place, "cache", "main")?, mine);
    place.ok(&["-C", "cache", "verify"])?;

    // Only a sync with mirror deletes and undo brings back what it was.
    place.ok(&["-C", "film", "checkout", "regrade"])?;
    commit(&place, "film", "graded")?;
    place.ok(&["-C", "cache", "fetch"])?;
    let graded = tip(&place, "film", "regrade")?;
    place.ok(&["-C", "film", "checkout", "main"])?;
    place.ok(&["-C", "film", "branch", "-d", "regrade"])?;
    place.ok(&["-C", "film", "tag", "-d", "v1"])?;
    for command in ["fetch", "sync"] {
        place.ok(&["-C", "cache", command])?;
        assert_eq!(refs(&place, "cache", "branch")?, ["main", "regrade"]);
        assert_eq!(
            refs(&place, "film", "branch")?,
            ["main"],
            "nothing is pushed back"
        );
    }
    let text = said(&place, &["-C", "cache", "sync", "--mirror"])?;
    assert!(
        text.contains("overwritten or deleted here: regrade, v1"),
        "{text}"
    );
    assert_eq!(refs(&place, "cache", "branch")?, ["main"]);
    assert!(refs(&place, "cache", "tag")?.is_empty());
    place.ok(&["-C", "cache", "undo"])?;
    assert_eq!(tip(&place, "cache", "regrade")?, graded);
    assert_eq!(refs(&place, "cache", "tag")?, ["v1"]);
    Ok(())
}

#[test]
fn a_mirror_is_on_the_branch_of_its_source_and_loses_not_everything_at_once() -> Outcome {
    let place = mirrored()?;
    place.ok(&["-C", "film", "checkout", "-b", "trunk"])?;
    place.ok(&["-C", "film", "branch", "-d", "main"])?;
    place.ok(&["-C", "cache", "sync", "--mirror"])?;
    assert_eq!(refs(&place, "cache", "branch")?, ["regrade", "trunk"]);
    place.ok(&["clone", "cache", "second"])?;
    let status = place.json(&["-C", "second", "status", "--json"])?;
    assert_eq!(status["branch"], "trunk");
    // A worktree that is on a branch keeps it.
    place.ok(&["-C", "cache", "worktree", "add", "../tree", "regrade"])?;
    place.ok(&["-C", "film", "branch", "-d", "regrade"])?;
    place.ok(&["-C", "cache", "sync", "--mirror"])?;
    assert_eq!(refs(&place, "cache", "branch")?, ["regrade", "trunk"]);
    // A source that was made anew has no branches: it is not what it was.
    fs::rename(place.work().join("film"), place.work().join("old"))?;
    place.ok(&["init", "film"])?;
    place.ok(&["-C", "cache", "sync", "--mirror"])?;
    assert_eq!(refs(&place, "cache", "branch")?, ["regrade", "trunk"]);
    Ok(())
}

#[test]
fn a_bare_repository_that_does_not_follow_says_where_it_is_behind() -> Outcome {
    let place = several()?;
    place.ok(&["clone", "--bare", "film", "cache"])?;
    commit(&place, "film", "new")?;
    let old = tip(&place, "cache", "main")?;
    let hint = "origin/main has newer commits than main here; to let this repository follow: dmv \
                sync --mirror origin";
    assert!(said(&place, &["-C", "cache", "fetch"])?.contains(hint));
    assert_eq!(tip(&place, "cache", "main")?, old);
    for args in [
        &["export", "main", "--to", "../out"][..],
        &["export", "main:shots", "--to", "../shots"],
        &["ls", "main"],
        &["ls", "@~0"],
        &["cat", "main:shots/1"],
        &["log", "-n", "1"],
        &["log", "-n", "1", "main"],
        &["show", "main"],
        &["du", "main"],
    ] {
        let text = said(&place, &[&["-C", "cache"], args].concat())?;
        assert_eq!(text.matches(hint).count(), 1, "{args:?}: {text}");
    }
    for args in [&["ls", "origin/main"][..], &["show", &old]] {
        let text = said(&place, &[&["-C", "cache"], args].concat())?;
        assert!(!text.contains("newer commits"), "{args:?}: {text}");
    }
    // The hint does what it says, once; the setting does it always.
    place.ok(&["-C", "cache", "sync", "--mirror", "origin"])?;
    assert_eq!(tip(&place, "cache", "main")?, tip(&place, "film", "main")?);
    assert!(!said(&place, &["-C", "cache", "ls", "main"])?.contains("newer"));
    place.ok(&[
        "-C",
        "cache",
        "config",
        "set",
        "remote.origin.mirror",
        "true",
    ])?;
    commit(&place, "film", "newer")?;
    place.ok(&["-C", "cache", "fetch"])?;
    assert_eq!(tip(&place, "cache", "main")?, tip(&place, "film", "main")?);
    // Where somebody works, branches belong to them.
    place.ok(&["clone", "film", "second"])?;
    let text = place.fails(2, &["-C", "second", "sync", "--mirror"])?;
    assert!(
        text.contains("only a bare repository can be a mirror"),
        "{text}"
    );
    place.ok(&[
        "-C",
        "second",
        "config",
        "set",
        "remote.origin.mirror",
        "true",
    ])?;
    commit(&place, "second", "mine")?;
    let mine = tip(&place, "second", "main")?;
    place.ok(&["-C", "second", "fetch"])?;
    assert_eq!(tip(&place, "second", "main")?, mine);
    Ok(())
}
