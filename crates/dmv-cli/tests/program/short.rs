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
fn directories_that_are_gone_or_moved_as_a_whole_are_one_line() -> Outcome {
    let place = Place::with_repository()?;
    let work = place.work();
    for n in 0..4 {
        let text: String = (0..40).map(|line| format!("{n} {line}\n")).collect();
        place.write(format!("film/reel/{n}"), &text)?;
        place.write(format!("gone/deep/{n}"), format!("gone {n}\n"))?;
        place.write(format!("part/{n}"), format!("part {n}\n"))?;
        place.write(format!("free/{n}"), format!("free {n}\n"))?;
        place.write(format!("kept/{n}"), format!("kept {n}\n"))?;
    }
    place.write("gone.d", "beside\n")?;
    place.write("one/only", "only\n")?;
    place.commit("first")?;

    // One file of each kind stays: then every path is told.
    fs::remove_dir_all(work.join("gone"))?;
    fs::remove_dir_all(work.join("one"))?;
    fs::create_dir(work.join("archive"))?;
    fs::rename(work.join("film"), work.join("archive/film"))?;
    let edited = fs::read_to_string(work.join("archive/film/reel/2"))? + "more\n";
    fs::write(work.join("archive/film/reel/2"), edited)?;
    place.write("archive/film/reel/notes", "new\n")?;
    fs::remove_file(work.join("part/1"))?;
    fs::remove_file(work.join("part/2"))?;
    place.ok(&["rm", "--cached", "-r", "free", "-y"])?;
    place.ok(&["rm", "--cached", "kept/1", "-y"])?;
    let long = place.ok(&["status"])?;
    let listed = "  renamed   film/ -> archive/film/ (4 files, 1 edited)\n\
                  \x20 added     archive/ (1 file)\n\
                  \x20 deleted   gone/ (4 files)\n\
                  \x20 deleted   one/only\n\
                  \x20 deleted   part/1\n\
                  \x20 deleted   part/2\n";
    assert!(long.contains(listed), "{long}");
    for line in [
        "  untracked free/ (4 files) (after the next commit; the files stay)\n",
        "  untracked kept/1 (after the next commit; the file stays)\n",
        "2 added, 7 deleted, 4 renamed, 5 no longer tracked\n",
    ] {
        assert!(long.contains(line), "{line}: {long}");
    }
    // A directory beyond what was asked for is not named.
    let below = place.ok(&["status", "gone/deep"])?;
    assert!(
        below.contains("  deleted   gone/deep/ (4 files)\n"),
        "{below}"
    );
    // All of them one by one, and to programs.
    let all = place.ok(&["status", "-a"])?;
    assert!(
        all.contains("  renamed   film/reel/1 -> archive/film/reel/1\n"),
        "{all}"
    );
    assert!(all.contains("  untracked free/2 (after"), "{all}");
    assert!(place.ok(&["status", "-s"])?.contains(" D gone/deep/0\n"));

    // A directory that is there and empty, or holds something new, is not gone.
    fs::create_dir_all(work.join("gone/deep"))?;
    place.write("gone/deep/new", "n\n")?;
    let long = place.ok(&["status"])?;
    assert!(long.contains("  deleted   gone/deep/0\n"), "{long}");
    Ok(())
}

#[test]
fn a_short_status_marks_new_repositories_conflicts_and_the_distance_to_the_remote() -> Outcome {
    let place = Place::with_repository()?;
    place.write("a/b/c", "c\n")?;
    place.write("d", "d\n")?;
    assert_eq!(
        place.ok(&["status", "-sb"])?,
        "## No commits yet on main\n?? a/\n?? d\n"
    );

    // Conflicts, and the distance to the remote.
    fs::remove_dir_all(place.work().join("a"))?;
    fs::remove_file(place.work().join("d"))?;
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
fn a_short_status_and_a_diff_have_the_letters_of_git_and_fold_new_directories() -> Outcome {
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

    // A short status has the same letters.
    place.ok(&["undo"])?;
    let lines = " M d/edited\n D d/gone\n R d/moved -> d/there\n T d/typed\n?? new/\n?? other\n";
    assert_eq!(place.ok(&["status", "-s"])?, lines);
    let all = lines.replace("?? new/\n", "?? new/a\n?? new/sub/b\n");
    assert_eq!(place.ok(&["status", "-s", "--all"])?, all);
    assert_eq!(place.ok(&["status", "-su"])?, all);
    let branch = place.ok(&["status", "-sb"])?;
    assert_eq!(branch, format!("## main\n{lines}"));
    assert_eq!(place.ok(&["status", "-s", "new/sub"])?, "?? new/sub/\n");
    assert_eq!(place.ok(&["status", "-s", "new/sub/b"])?, "?? new/sub/b\n");
    assert_eq!(place.ok(&["status", "--porcelain"])?, lines);
    assert_eq!(place.ok(&["status", "--porcelain=v1", "-b"])?, branch);
    place.fails(2, &["status", "--porcelain=v2"])?;
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
