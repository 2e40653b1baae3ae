//! Names of branches and tags that another revision has, too: new ones are refused, and existing ones
//! are said to be ambiguous.

use crate::place::several::{commit, tip};
use crate::place::{Outcome, Place};
use std::fs;

/// `film` with two commits and the branch `side`, and its clone `copy` with the remote `origin`.
fn film_and_copy() -> Outcome<Place> {
    let place = Place::new()?;
    place.ok(&["init", "film"])?;
    commit(&place, "film", "one")?;
    commit(&place, "film", "two")?;
    place.ok(&["-C", "film", "branch", "side", "@~1"])?;
    place.ok(&["clone", "film", "copy"])?;
    Ok(place)
}

/// Names that mean something else everywhere.
fn reserved() -> Vec<String> {
    let fixed = [
        "HEAD",
        "FETCH_HEAD",
        "FETCH_HEAD/main",
        "@",
        "@{-1}",
        "@{yesterday}",
        "git:0123",
        "refs/heads/x",
    ];
    let hex = [40, 64].map(|digits| "a1".repeat(digits / 2));
    fixed.map(str::to_owned).into_iter().chain(hex).collect()
}

#[test]
fn no_command_gives_anything_a_name_of_another_revision() -> Outcome {
    // A fetch and a clone make no such tag or branch, and a push no such ref there.
    let place = film_and_copy()?;
    place.ok(&["-C", "film", "tag", "origin/v1"])?;
    place.ok(&["-C", "film", "tag", "v2"])?;
    let said = place.ok(&["-C", "copy", "fetch"])?;
    assert!(said.contains("origin/v1  not fetched"), "{said}");
    let tags = place.ok(&["-C", "copy", "tag"])?;
    assert!(tags.contains("v2") && !tags.contains("origin/v1"), "{tags}");
    place.ok(&["clone", "film", "again"])?;
    assert!(!place.ok(&["-C", "again", "tag"])?.contains("origin/v1"));
    // A clone does not begin on a branch that would be one of its remote.
    place.ok(&["-C", "film", "checkout", "-b", "origin/main"])?;
    place.fails(20, &["clone", "film", "third"])?;
    place.ok(&["clone", "film", "third", "--branch", "side"])?;
    // The receiving side knows its remotes.
    commit(&place, "film", "three")?;
    for name in ["origin/main", "origin/v1"] {
        let said = place.fails(5, &["-C", "film", "push", "../copy", name])?;
        assert!(said.contains(name), "{said}");
    }
    let theirs = tip(&place, "copy", "origin/main")?;
    assert_eq!(theirs, tip(&place, "film", "main")?);

    // A new branch or tag has no name of another revision.
    let before = place.ok(&["-C", "copy", "branch"])? + &place.ok(&["-C", "copy", "tag"])?;
    let of_remote = ["origin/main", "origin/side", "origin/new", "origin/a/b"].map(str::to_owned);
    // A dash is an option to the parser of arguments.
    for name in reserved().into_iter().chain(of_remote) {
        for args in [
            &["branch", &name][..],
            &["branch", "-m", "main", &name],
            &["tag", &name],
            &["checkout", "-b", &name],
        ] {
            let said = place.fails(20, &[&["-C", "copy"], args].concat())?;
            assert!(said.contains("name"), "{said}");
        }
    }
    for name in reserved() {
        let dir = format!("new{}", name.len());
        place.fails(20, &["init", &dir, "--branch", &name])?;
        if !name.contains(['/', ':']) {
            place.fails(
                20,
                &["-C", "copy", "worktree", "add", &format!("../{name}")],
            )?;
        }
        place.fails(20, &["-C", "copy", "remote", "add", &name, "../film"])?;
    }
    let after = place.ok(&["-C", "copy", "branch"])? + &place.ok(&["-C", "copy", "tag"])?;
    assert_eq!(after, before);
    // Names that only look similar are free.
    for name in ["original/main", "origin", "beef", "head", "refs-x"] {
        place.ok(&["-C", "copy", "branch", name])?;
    }

    // A remote does not get the first part of a branchs name.
    place.ok(&["-C", "copy", "branch", "nas/mine"])?;
    place.ok(&["-C", "copy", "tag", "disk/v1"])?;
    let said = place.fails(20, &["-C", "copy", "remote", "add", "nas", "../film"])?;
    assert!(said.contains("dmv branch -m nas/mine"), "{said}");
    let said = place.fails(20, &["-C", "copy", "remote", "add", "disk", "../film"])?;
    assert!(said.contains("refs/tags/disk/v1"), "{said}");
    place.ok(&["-C", "copy", "branch", "-m", "nas/mine", "nas-mine"])?;
    place.ok(&["-C", "copy", "remote", "add", "nas", "../film"])?;

    // A remote that is only in the settings counts and so do its recorded branches.
    place.fails(20, &["-C", "copy", "branch", "nas/x"])?;
    place.ok(&["-C", "copy", "fetch", "nas"])?;
    fs::remove_file(place.work().join("copy/.dmv/config.toml"))?;
    place.fails(20, &["-C", "copy", "branch", "nas/x"])?;
    Ok(())
}

/// Commands with a revision.
const COMMANDS: [&[&str]; 14] = [
    &["log", "REV"],
    &["show", "REV"],
    &["diff", "REV"],
    &["ls", "REV"],
    &["cat", "REV:one"],
    &["merge", "REV"],
    &["rebase", "REV"],
    &["cherry-pick", "REV"],
    &["reset", "REV"],
    &["checkout", "REV"],
    &["restore", "--from", "REV", "one"],
    &["branch", "new", "REV"],
    &["tag", "new", "REV"],
    &["worktree", "add", "../tree", "REV"],
];

fn with(args: &[&str], revision: &str) -> Vec<String> {
    let all = ["-C", "copy"].iter().chain(args);
    all.map(|arg| arg.replace("REV", revision)).collect()
}

#[test]
fn an_existing_name_with_two_meanings_is_ambiguous_everywhere() -> Outcome {
    let place = film_and_copy()?;
    // A branch with the digits of another commits id is ambiguous.
    let (first, second) = (tip(&place, "copy", "@~1")?, tip(&place, "copy", "@")?);
    let digits = &first[..12];
    place.ok(&["-C", "copy", "branch", digits, "@"])?;
    for args in COMMANDS {
        let said = place.fails(20, &with(args, digits))?;
        assert!(
            said.contains("ambiguous") && said.contains(&first),
            "{said}"
        );
    }
    assert_eq!(
        tip(&place, "copy", &format!("refs/heads/{digits}"))?,
        second
    );
    assert_eq!(tip(&place, "copy", &first)?, first);
    // On the commit itself, both mean the same.
    place.ok(&["-C", "copy", "branch", "-d", digits])?;
    place.ok(&["-C", "copy", "tag", digits, &first])?;
    assert_eq!(tip(&place, "copy", digits)?, first);

    // An existing branch with the name of a remote branch is ambiguous everywhere.
    place.ok(&["-C", "copy", "branch", "nas/main", "@~1"])?;
    place.ok(&["-C", "copy", "tag", "nas/side", "@"])?;
    // As an earlier dmv made it.
    let config = place.work().join("copy/.dmv/config.toml");
    let url = place.work().join("film").display().to_string();
    let text = fs::read_to_string(&config)?;
    fs::write(&config, format!("{text}\n[remote.nas]\nurl = \"{url}\"\n"))?;
    commit(&place, "film", "three")?;
    place.ok(&["-C", "copy", "fetch", "nas"])?;
    for (name, full) in [
        ("nas/main", ["refs/heads/nas/main", "refs/remotes/nas/main"]),
        ("nas/side", ["refs/tags/nas/side", "refs/remotes/nas/side"]),
    ] {
        for args in COMMANDS {
            let said = place.fails(20, &with(args, name))?;
            assert!(said.contains("ambiguous"), "{args:?}: {said}");
            assert!(
                full.iter().all(|full| said.contains(full)),
                "{args:?}: {said}"
            );
        }
    }
    // Each full name means one thing.
    let [old, new] = ["main~1", "main"].map(|revision| tip(&place, "film", revision));
    let [local, theirs] = ["refs/heads/nas/main", "refs/remotes/nas/main"];
    assert_eq!(tip(&place, "copy", theirs)?, new?);
    assert_eq!(tip(&place, "copy", &format!("{theirs}~1"))?, old?);
    assert_ne!(tip(&place, "copy", local)?, tip(&place, "copy", theirs)?);
    place.fails(20, &["-C", "copy", "log", "refs/heads/none"])?;
    place.ok(&["-C", "copy", "checkout", local])?;
    assert_eq!(
        place.json(&["-C", "copy", "status", "--json"])?["branch"],
        "nas/main"
    );
    place.ok(&["-C", "copy", "merge", theirs])?;
    assert_eq!(tip(&place, "copy", "@")?, tip(&place, "copy", theirs)?);
    // The hint's commands help.
    place.ok(&["-C", "copy", "branch", "-m", "nas/main", "mine"])?;
    assert_eq!(
        tip(&place, "copy", "nas/main")?,
        tip(&place, "film", "main")?
    );
    place.ok(&["-C", "copy", "tag", "v1", "refs/tags/nas/side"])?;
    place.ok(&["-C", "copy", "tag", "-d", "nas/side"])?;
    assert_eq!(
        tip(&place, "copy", "nas/side")?,
        tip(&place, "film", "side")?
    );
    Ok(())
}
