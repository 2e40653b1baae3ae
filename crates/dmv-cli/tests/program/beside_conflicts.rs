//! The names of the files beside a conflict, and worktrees in which an earlier build named them.

use crate::place::{Outcome, Place};
use serde_json::{Value, json};
use std::fs;

fn names(place: &Place) -> Outcome<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(place.work())? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        names.extend((name != ".dmv").then_some(name));
    }
    names.sort();
    Ok(names)
}

fn status(place: &Place) -> Outcome<Value> {
    place.json(&["status", "--json"])
}

/// A repository in which a merge has left conflicts in these binary files.
fn merged(files: &[&str]) -> Outcome<Place> {
    let place = Place::with_repository()?;
    let write = |version: &[u8]| -> Outcome {
        for file in files {
            place.write(file, [&[0], version].concat())?;
        }
        Ok(())
    };
    place.write("other", "other")?;
    write(b"base")?;
    place.commit("base")?;
    place.ok(&["checkout", "-b", "side"])?;
    write(b"theirs")?;
    place.commit("theirs")?;
    place.ok(&["checkout", "main"])?;
    write(b"ours!")?;
    place.commit("ours")?;
    place.fails(4, &["merge", "side"])?;
    Ok(place)
}

/// Gives the versions beside `rock.png` the names of earlier builds.
fn name_as_before(place: &Place) -> Outcome {
    for label in ["ours", "theirs", "base"] {
        let (new, old) = (format!("rock.{label}.png"), format!("rock.png.{label}"));
        fs::rename(place.work().join(new), place.work().join(old))?;
    }
    Ok(())
}

const FORMER: [&str; 5] = [
    "other",
    "rock.png",
    "rock.png.base",
    "rock.png.ours",
    "rock.png.theirs",
];

#[test]
fn versions_keep_their_extension() -> Outcome {
    let place = merged(&["rock.png", "film.tar.gz", ".rc", "README"])?;
    let names = names(&place)?;
    for name in [
        "rock.theirs.png",
        "film.theirs.tar.gz",
        ".rc.theirs",
        "README.theirs",
    ] {
        assert!(names.iter().any(|n| n == name), "{name} in {names:?}");
    }
    assert_eq!(status(&place)?["changes"], json!([]));
    Ok(())
}

#[test]
fn names_that_differ_in_case_only_get_numbers() -> Outcome {
    let place = merged(&["Rock.png", "rock.png"])?;
    let names = names(&place)?;
    let mut folded: Vec<String> = names.iter().map(|name| name.to_lowercase()).collect();
    folded.sort();
    folded.dedup();
    // Only the two files themselves differ in nothing else.
    assert_eq!(folded.len(), names.len() - 1, "{names:?}");
    Ok(())
}

#[test]
fn files_with_the_former_names_are_versions_and_nothing_of_them_is_committed() -> Outcome {
    let place = merged(&["rock.png"])?;
    name_as_before(&place)?;
    let told = status(&place)?;
    assert_eq!(told["changes"], json!([]), "{told}");
    assert_eq!(told["conflicts"], json!([{"path": "rock.png"}]), "{told}");
    place.write("other", "changed")?;
    place.ok(&["commit", "-m", "other"])?;
    assert_eq!(place.ok(&["ls", "-r"])?.lines().count(), 2);
    assert_eq!(status(&place)?["conflicts"], json!([{"path": "rock.png"}]));
    assert_eq!(names(&place)?, FORMER);
    // A version that the user deletes or edits settles nothing as long as another one is there.
    fs::remove_file(place.work().join("rock.png.base"))?;
    assert_eq!(status(&place)?["conflicts"], json!([{"path": "rock.png"}]));
    // A restore brings what is missing. What is there keeps its name.
    place.ok(&["restore", "rock.png"])?;
    assert_eq!(
        names(&place)?,
        [
            "other",
            "rock.base.png",
            "rock.png",
            "rock.png.ours",
            "rock.png.theirs"
        ]
    );
    assert_eq!(status(&place)?["changes"], json!([]));
    Ok(())
}

#[test]
fn a_switch_renames_them_and_resolve_removes_them() -> Outcome {
    let place = merged(&["rock.png"])?;
    name_as_before(&place)?;
    place.ok(&["checkout", "main"])?;
    assert_eq!(
        names(&place)?,
        [
            "other",
            "rock.base.png",
            "rock.ours.png",
            "rock.png",
            "rock.theirs.png"
        ]
    );
    assert_eq!(status(&place)?["changes"], json!([]));
    assert_eq!(status(&place)?["conflicts"], json!([{"path": "rock.png"}]));
    name_as_before(&place)?;
    place.ok(&["resolve", "rock.png", "--theirs"])?;
    assert_eq!(names(&place)?, ["other", "rock.png"]);
    place.ok(&["undo"])?;
    assert_eq!(status(&place)?["conflicts"], json!([{"path": "rock.png"}]));
    assert_eq!(status(&place)?["changes"], json!([]));
    Ok(())
}

#[test]
fn deleting_all_versions_settles_the_conflict_under_either_name() -> Outcome {
    for former in [false, true] {
        let place = merged(&["rock.png"])?;
        if former {
            name_as_before(&place)?;
        }
        for name in names(&place)? {
            if name.starts_with("rock.") && name != "rock.png" {
                fs::remove_file(place.work().join(name))?;
            }
        }
        assert_eq!(status(&place)?["conflicts"], json!([]));
        place.ok(&["commit", "-m", "ours"])?;
        assert_eq!(place.ok(&["ls", "-r"])?.lines().count(), 2);
        assert_eq!(status(&place)?["clean"], json!(true));
    }
    Ok(())
}
