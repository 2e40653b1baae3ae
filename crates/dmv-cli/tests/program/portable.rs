//! Names that other systems refuse, or take for one, with `names.portable = true`.

use crate::place::{Outcome, Place};
use std::fs;

/// Pairs of names that some systems take for one.
const PAIRS: [(&str, &str); 5] = [
    ("README", "Readme"),
    ("caf\u{e9}", "cafe\u{301}"),
    ("stra\u{df}e", "STRASSE"),
    ("\u{3a3}", "\u{3c2}"),
    ("k", "\u{212a}"),
];

fn place() -> Outcome<Place> {
    let place = Place::with_repository()?;
    place.ok(&["config", "set", "names.portable", "true"])?;
    Ok(place)
}

fn files(place: &Place) -> Outcome<Vec<String>> {
    let records = place.records(&["ls", "-r", "@", "--json"])?;
    let paths = records.iter().filter_map(|record| record["path"].as_str());
    Ok(paths.map(str::to_owned).collect())
}

#[test]
fn names_that_some_systems_take_for_one_are_not_committed_together() -> Outcome {
    let place = place()?;
    // Each pair in both orders, in a directory of its own.
    let both = |(first, second)| [(first, second), (second, first)];
    let pairs: Vec<(usize, (&str, &str))> = PAIRS.into_iter().flat_map(both).enumerate().collect();
    let write = |n: usize, name: &str| -> Outcome {
        place.write(format!("{n}/{name}"), name)?;
        place.write(format!("{n}/d/{name}/f"), name)
    };
    let has = |names: &[(usize, &str)]| -> Outcome {
        let mut want = vec!["new".to_owned()];
        for (n, name) in names {
            want.extend([format!("{n}/{name}"), format!("{n}/d/{name}/f")]);
        }
        want.sort();
        assert_eq!(files(&place)?, want);
        Ok(())
    };
    for (n, (one, _)) in &pairs {
        write(*n, one)?;
    }
    place.commit("one")?;
    for (n, (_, other)) in &pairs {
        write(*n, other)?;
    }
    place.write("new", "2")?;
    let said = place.fails(3, &["commit", "-m", "two"])?;
    assert!(said.contains("not portable"), "{said}");
    has(&pairs
        .iter()
        .map(|(n, (one, _))| (*n, *one))
        .collect::<Vec<_>>())?;
    // The name alone may change.
    for (n, (one, _)) in &pairs {
        fs::remove_file(place.work().join(format!("{n}/{one}")))?;
        fs::remove_dir_all(place.work().join(format!("{n}/d/{one}")))?;
    }
    place.ok(&["commit", "-m", "renamed"])?;
    has(&pairs
        .iter()
        .map(|(n, (_, other))| (*n, *other))
        .collect::<Vec<_>>())
}

#[test]
fn a_directory_with_a_name_that_others_refuse_is_left_out() -> Outcome {
    let place = place()?;
    for path in [
        "aux/f",
        "d/nul/deep/f",
        "end./f",
        "space /f",
        "fine/f",
        "a:b",
    ] {
        place.write(path, "x")?;
    }
    fs::create_dir(place.work().join("con"))?;
    let said = place.fails(3, &["commit", "-m", "one"])?;
    for name in ["aux", "d/nul", "end.", "space ", "a:b", "con"] {
        assert!(
            said.contains(&format!("{name}: its name is not portable")),
            "{name}: {said}"
        );
    }
    assert_eq!(files(&place)?, ["fine/f"]);
    Ok(())
}

#[test]
fn a_move_and_a_merge_that_would_put_such_names_together_are_refused() -> Outcome {
    let place = place()?;
    place.write("base", "x")?;
    place.commit("base")?;
    place.ok(&["checkout", "-b", "side"])?;
    place.write("Readme", "theirs")?;
    place.commit("theirs")?;
    place.ok(&["checkout", "main"])?;
    place.write("README", "ours")?;
    let ours = place.commit("ours")?;
    let said = place.fails(5, &["merge", "side"])?;
    assert!(said.contains("names.portable"), "{said}");
    assert_eq!(place.records(&["log", "-n", "1", "--json"])?[0]["id"], ours);
    assert_eq!(files(&place)?, ["README", "base"]);
    let said = place.fails(5, &["mv", "base", "readme"])?;
    assert!(said.contains("names.portable"), "{said}");
    place.ok(&["mv", "README", "Readme"])?;
    // Who has both already may go on with them.
    place.ok(&["undo"])?;
    place.ok(&["config", "set", "names.portable", "false"])?;
    place.ok(&["merge", "side"])?;
    place.ok(&["config", "set", "names.portable", "true"])?;
    place.write("README", "more")?;
    place.ok(&["commit", "-m", "more"])?;
    assert_eq!(files(&place)?, ["README", "Readme", "base"]);
    Ok(())
}

#[test]
fn no_new_commit_brings_names_that_its_parents_do_not_have() -> Outcome {
    let place = Place::with_repository()?;
    place.write("base", "x")?;
    place.write("README", "x")?;
    place.commit("base")?;
    for (branch, path) in [("single", "d/aux/f"), ("pair", "Readme")] {
        place.ok(&["checkout", "-b", branch, "main"])?;
        place.write(path, "theirs")?;
        place.commit("theirs")?;
        place.ok(&["rm", path])?;
        place.commit("gone")?;
    }
    place.ok(&["checkout", "main"])?;
    place.write("own", "x")?;
    let own = place.commit("own")?;
    place.ok(&["config", "set", "names.portable", "true"])?;
    for branch in ["single", "pair"] {
        let bad = format!("{branch}~1");
        place.ok(&["checkout", "main"])?;
        let said = place.fails(5, &["cherry-pick", &bad])?;
        assert!(said.contains("names.portable"), "{said}");
        // A revert would bring the name back.
        place.ok(&["checkout", branch])?;
        let said = place.fails(5, &["revert", branch])?;
        assert!(said.contains("names.portable"), "{said}");
        // Every commit of a rebase counts.
        let said = place.fails(5, &["rebase", "main"])?;
        assert!(said.contains("names.portable"), "{said}");
        // Commits of others come as they are, and what is there already is no reason to refuse.
        place.ok(&["checkout", "-b", &format!("{branch}-2"), &bad])?;
        place.write("own", "x")?;
        place.ok(&["commit", "-m", "more"])?;
    }
    place.ok(&["checkout", "main"])?;
    assert_eq!(place.records(&["log", "-n", "1", "--json"])?[0]["id"], own);
    let said = place.fails(5, &["mv", "own", "con"])?;
    assert!(said.contains("names.portable"), "{said}");
    Ok(())
}
