//! The short forms of `status` and `diff`: Git's letters, folded directories, names alone.

use crate::place::{Outcome, Place};
use serde_json::json;
use std::fs;

/// A worktree with a change of each kind.
fn changed() -> Outcome<Place> {
    let place = Place::with_repository()?;
    let text: String = (0..40).map(|n| format!("{n}\n")).collect();
    place.write("d/edited", "1\n")?;
    place.write("d/gone", "gone\n")?;
    place.write("d/moved", &text)?;
    place.write("d/typed", "typed\n")?;
    place.commit("first")?;
    place.write("d/edited", "2\n")?;
    fs::remove_file(place.work().join("d/gone"))?;
    place.write("d/there", text + "more\n")?;
    fs::remove_file(place.work().join("d/moved"))?;
    fs::remove_file(place.work().join("d/typed"))?;
    std::os::unix::fs::symlink("edited", place.work().join("d/typed"))?;
    place.write("new/a", "a\n")?;
    place.write("new/sub/b", "b\n")?;
    place.write("other", "c\n")?;
    Ok(place)
}

#[test]
fn a_short_status_has_the_letters_of_git_and_folds_new_directories() -> Outcome {
    let place = changed()?;
    let lines = " M d/edited\n D d/gone\n R d/moved -> d/there\n T d/typed\n?? new/\n?? other\n";
    assert_eq!(place.ok(&["status", "-s"])?, lines);
    let all = lines.replace("?? new/\n", "?? new/a\n?? new/sub/b\n");
    assert_eq!(place.ok(&["status", "-s", "--all"])?, all);
    assert_eq!(place.ok(&["status", "-su"])?, all);
    let branch = place.ok(&["status", "-sb"])?;
    assert_eq!(branch, format!("## main\n{lines}"));
    assert_eq!(place.ok(&["status", "-s", "new/sub"])?, "?? new/sub/\n");
    assert_eq!(place.ok(&["status", "-s", "new/sub/b"])?, "?? new/sub/b\n");
    place.fails(2, &["status", "-b"])?;
    // The long form folds, too, and counts every file.
    let long = place.ok(&["status"])?;
    assert!(
        long.contains("  added     new/ (2 files)\n") && !long.contains("new/a"),
        "{long}"
    );
    assert!(
        long.contains("\n3 added, 1 modified, 1 deleted, 1 changed type, 1 renamed\n"),
        "{long}"
    );
    assert!(
        place
            .ok(&["status", "-a"])?
            .contains("  added     new/sub/b\n")
    );
    // Programs get every path.
    let status = place.json(&["status", "--json"])?;
    assert_eq!(status["changes"].as_array().map(Vec::len), Some(7));
    place.commit("second")?;
    assert_eq!(place.ok(&["status", "-s"])?, "");
    Ok(())
}

#[test]
fn before_the_first_commit_every_directory_is_new() -> Outcome {
    let place = Place::with_repository()?;
    place.write("a/b/c", "c\n")?;
    place.write("d", "d\n")?;
    assert_eq!(
        place.ok(&["status", "-sb"])?,
        "## No commits yet on main\n?? a/\n?? d\n"
    );
    Ok(())
}

#[test]
fn a_short_status_marks_conflicts_and_the_distance_to_the_remote() -> Outcome {
    let place = Place::with_repository()?;
    place.write("f", "base\n")?;
    place.commit("base")?;
    place.ok(&["clone", ".", "../copy"])?;
    place.write("f", "one\n")?;
    place.commit("one")?;
    let copy = |args: &[&str]| place.run(&[&["-C", "../copy"], args].concat());
    fs::write(place.dir.path().join("copy/f"), "two\n")?;
    copy(&["commit", "-m", "two"])?;
    copy(&["fetch"])?;
    let short = copy(&["status", "-sb"])?;
    let want = "## main...origin/main [ahead 1, behind 1]\n";
    assert_eq!(String::from_utf8(short.stdout)?, want);
    assert_eq!(copy(&["pull"])?.status.code(), Some(4));
    assert_eq!(
        String::from_utf8(copy(&["status", "-s"])?.stdout)?,
        "UU f\n"
    );
    Ok(())
}

#[test]
fn a_diff_can_show_names_alone_or_with_letters() -> Outcome {
    let place = changed()?;
    let names = "d/edited\nd/gone\nd/there\nd/typed\nnew/a\nnew/sub/b\nother\n";
    assert_eq!(place.ok(&["diff", "--name-only"])?, names);
    let letters = place.ok(&["diff", "--name-status"])?;
    let want = "M\td/edited\nD\td/gone\nR095\td/moved\td/there\nT\td/typed\n\
                A\tnew/a\nA\tnew/sub/b\nA\tother\n";
    assert_eq!(letters, want);
    place.commit("second")?;
    assert_eq!(place.ok(&["diff", "--name-only", "@~1", "@"])?, names);
    assert_eq!(place.ok(&["diff", "--name-status", "@~1", "@"])?, want);
    assert_eq!(
        place.ok(&["diff", "--name-only", "@~1..@", "--", "new"])?,
        "new/a\nnew/sub/b\n"
    );
    let records = place.records(&["diff", "--name-status", "--json", "@~1", "@"])?;
    let moved =
        json!({"path": "d/there", "change": "renamed", "from": "d/moved", "similarity": 95});
    assert!(records.contains(&moved), "{records:?}");
    place.fails(1, &["diff", "--name-only", "--exit-code", "@~1", "@"])?;
    assert_eq!(place.ok(&["diff", "--name-only", "--exit-code"])?, "");
    place.fails(2, &["diff", "--name-only", "--stat"])?;
    Ok(())
}
