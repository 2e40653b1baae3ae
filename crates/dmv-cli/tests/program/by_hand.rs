//! `dmv import dirs` and `dmv import --series` as a user runs them. The library's tests have the facts.

use crate::place::files::{exists, read, subjects_of};
use crate::place::{Outcome, Place};
use std::fs;
use std::time::{Duration, UNIX_EPOCH};

/// Writes a file that was changed some days after 2020-12-31.
fn write(place: &Place, path: &str, content: &str, days: u64) -> Outcome {
    let whole = place.work().join(path);
    fs::create_dir_all(whole.parent().ok_or("a file in a directory")?)?;
    fs::write(&whole, content)?;
    let time = UNIX_EPOCH + Duration::from_secs(1_609_416_000 + days * 86_400);
    fs::File::options()
        .write(true)
        .open(&whole)?
        .set_modified(time)?;
    Ok(())
}

#[test]
fn numbered_copies_become_versions_of_one_file() -> Outcome {
    let mut place = Place::with_repository()?;
    place.env.push(("TZ", "UTC".into()));
    write(&place, "shots/rock_v1.psd", "one", 1)?;
    write(&place, "shots/rock_v2.psd", "two", 2)?;
    write(&place, "shots/rock_final.psd", "last", 3)?;
    let command = [
        "import",
        "--series",
        "shots/*_v{N}.psd",
        "shots/*_final.psd",
    ];
    let plan = place.ok(&[&command[..], &["--dry-run"]].concat())?;
    let lines: Vec<&str> = plan.lines().collect();
    assert_eq!(lines.len(), 4, "{plan}");
    let first = "  shots/rock_v1.psd → shots/rock.psd  2021-01-01 12:00:00 +00:00, 3 B";
    assert_eq!((lines[0], lines[3]), (first, "3 commits to make"));
    assert_eq!(place.ok(&["log"])?, "");
    let said = place.ok(&command)?;
    assert!(said.ends_with("3 commits made on main\n"), "{said}");
    // The file is written, and the copies stay.
    assert_eq!(read(&place, "shots/rock.psd")?, "last");
    assert!(exists(&place, "shots/rock_v1.psd"));
    assert_eq!(place.ok(&["cat", "@~1:shots/rock.psd"])?, "two");
    // Commits of one's own, and one more copy.
    fs::remove_dir_all(place.work().join("shots"))?;
    write(&place, "shots/rock.psd", "last", 4)?;
    write(&place, "mine", "m", 4)?;
    place.commit("mine")?;
    write(&place, "shots/rock_v3.psd", "three", 5)?;
    let said = place.ok(&command[..3])?;
    assert!(said.contains("1 commit made as series/main"), "{said}");
    place.ok(&["merge", "series/main"])?;
    assert_eq!(read(&place, "shots/rock.psd")?, "three");
    assert_eq!(read(&place, "mine")?, "m");
    let said = place.ok(&command[..3])?;
    assert_eq!(said, "nothing new; 1 were there already\n");
    Ok(())
}

#[test]
fn a_file_with_the_name_of_a_series_is_not_overwritten() -> Outcome {
    let place = Place::with_repository()?;
    write(&place, "rock_v1.psd", "one", 1)?;
    write(&place, "rock.psd", "newest", 2)?;
    let said = place.fails(5, &["import", "--series", "*_v{N}.psd"])?;
    assert!(
        said.contains("its files are not written") && said.contains("rock.psd"),
        "{said}"
    );
    assert_eq!(read(&place, "rock.psd")?, "newest");
    fs::rename(place.work().join("rock.psd"), place.work().join("aside"))?;
    place.ok(&["checkout", "main"])?;
    assert_eq!(read(&place, "rock.psd")?, "one");
    // Named last, it is the last version.
    let place = Place::with_repository()?;
    write(&place, "rock_v1.psd", "one", 1)?;
    write(&place, "rock.psd", "newest", 2)?;
    place.ok(&["import", "--series", "*_v{N}.psd", "*.psd"])?;
    assert_eq!(place.ok(&["log", "--oneline"])?.lines().count(), 2);
    assert_eq!(read(&place, "rock.psd")?, "newest");
    Ok(())
}

#[test]
fn copies_outside_of_the_worktree_keep_the_path_from_there() -> Outcome {
    let place = Place::new()?;
    place.ok(&["init", "film"])?;
    write(&place, "old/a/x_1.ma", "one", 1)?;
    write(&place, "old/a/x_2.ma", "two", 2)?;
    let command = [
        "-C",
        "film",
        "import",
        "--keep-names",
        "--series",
        "../old/**/*_{N}.ma",
    ];
    let said = place.json(&[&command[..], &["--json"]].concat())?;
    assert_eq!(said["commits"], 2);
    assert_eq!(said["versions"][1]["path"], "a/x_2.ma");
    assert_eq!(said["refused"], serde_json::json!([]));
    assert!(exists(&place, "film/a/x_2.ma") && !exists(&place, "film/a/x_1.ma"));
    Ok(())
}

#[test]
fn a_pattern_that_names_no_series_is_refused_and_versions_beside_a_history_are_merged() -> Outcome {
    let place = Place::with_repository()?;
    // A pattern that names no series is refused.
    for (patterns, why) in [
        (&["*.psd"][..], "has no {N}"),
        (&["*_{N}_{N}.psd"], "more than one {N}"),
        (&["v{N}.psd"], "no name is left"),
        (&["*_{N}.psd", "a.psd"], "as many wildcards"),
        (&["*_{N}.psd", "../*.psd"], "the same directory"),
    ] {
        let said = place.fails(2, &[&["import", "--series"], patterns].concat())?;
        assert!(said.contains(why), "{said}");
    }
    let said = place.fails(20, &["import", "--series", "*_v{N}.psd"])?;
    assert!(said.contains("no file matches '*_v{N}.psd'"), "{said}");
    place.fails(2, &["import", "--keep-names"])?;

    // Versions beside a history of ones own are merged.
    write(&place, "rock.psd", "mine", 1)?;
    write(&place, "tree.psd", "tree", 1)?;
    place.commit("mine")?;
    write(&place, "rock_v1.psd", "one", 2)?;
    write(&place, "tree_v1.psd", "tree", 3)?;
    place.ok(&["import", "--series", "*_v{N}.psd"])?;
    assert_eq!(read(&place, "rock.psd")?, "mine");
    // Nobody knows which of the two is newer.
    place.fails(4, &["merge", "series/main"])?;
    assert_eq!(place.ok(&["cat", "@:rock.psd", "--side", "ours"])?, "mine");
    assert_eq!(place.ok(&["cat", "@:rock.psd", "--side", "theirs"])?, "one");
    assert_eq!(place.ok(&["cat", "@:tree.psd"])?, "tree");
    Ok(())
}

#[test]
fn directories_become_commits() -> Outcome {
    let mut place = Place::new()?;
    place.env.push(("TZ", "UTC".into()));
    write(&place, "film-2024/a", "one", 1)?;
    write(&place, "film-2025/a", "two", 2)?;
    place.ok(&["init", "film"])?;
    let command = [
        "-C",
        "film",
        "import",
        "dirs",
        "../film-2024",
        "../film-2025",
    ];
    let plan = place.ok(&[&command[..], &["--dry-run"]].concat())?;
    let first = "  ../film-2024  2021-01-01 12:00:00 +00:00, 1 file, 3 B\n";
    assert!(plan.starts_with(first), "{plan}");
    let said = place.ok(&command)?;
    assert!(said.ends_with("2 commits made on main\n"), "{said}");
    assert_eq!(read(&place, "film/a")?, "two");
    assert_eq!(subjects_of(&place, "film")?, ["film-2025", "film-2024"]);
    assert_eq!(place.ok(&command)?, "nothing new; 2 were there already\n");
    let said = place.fails(20, &["-C", "film", "import", "dirs", "../absent"])?;
    assert!(said.contains("../absent"), "{said}");
    Ok(())
}
