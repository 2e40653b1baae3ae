//! Moves among files and directories of equal content.

use super::*;

/// Returns a text that is long enough to be recognised after a change of one line.
fn lines(own: &str) -> Item {
    Text(format!("1\n2\n{own}\n4\n5\n6\n7\n8\n"))
}

/// Returns a text whose first and last lines are changed.
fn both() -> Item {
    text("one\n2\nbase\n4\n5\n6\n7\ntwo\n")
}

/// Checks that a merge follows a move.
///
/// `from` are the paths of equal files. One side changes the file `changed` there. The other has
/// them at `to`, with a change of its own in `edited`. The merge must have both changes in one file
/// and change nothing else.
fn expect_followed(from: &[&str], changed: &str, to: &[&str], edited: &str) -> Outcome {
    let lab = Lab::default();
    let state = |paths: &[&str], own: &str, item: Item| -> Files {
        let base = text("1\n2\nbase\n4\n5\n6\n7\n8\n");
        let mut out: Files = paths
            .iter()
            .map(|p| ((*p).to_owned(), base.clone()))
            .collect();
        out.insert(own.to_owned(), item);
        out
    };
    let base = state(from, from[0], lines("base"));
    let ours = state(from, changed, text("one\n2\nbase\n4\n5\n6\n7\n8\n"));
    let theirs = state(to, edited, text("1\n2\nbase\n4\n5\n6\n7\ntwo\n"));
    let want = state(to, edited, both());
    assert_eq!(lab.merged(&base, &ours, &theirs)?, want, "{changed}");
    Ok(())
}

#[test]
fn of_equal_files_that_moved_the_changed_one_goes_on_where_it_was_changed() -> Outcome {
    let from = ["t1", "t2", "t3"];
    let to = ["cfg/t1", "cfg/t2", "cfg/t3"];
    for n in 0..3 {
        expect_followed(&from, from[n], &to, to[n])?;
    }
    // Only the directory distinguishes them.
    let from = ["s/1/f", "s/2/f", "s/3/f", "s/k"];
    let to = ["1/f", "2/f", "3/f", "k"];
    for n in 0..3 {
        expect_followed(&from, from[n], &to, to[n])?;
    }
    Ok(())
}

#[test]
fn of_equal_directories_that_moved_each_goes_on_under_its_own_name() -> Outcome {
    let from = ["s/1/f", "s/2/f", "s/3/f"];
    let to = ["moved/1/f", "moved/2/f", "moved/3/f"];
    for n in 0..3 {
        expect_followed(&from, from[n], &to, to[n])?;
    }
    let deep = |root: &str| -> Vec<String> {
        let dirs = ["a/x", "a/y", "b/x", "b/y"];
        dirs.iter().map(|dir| format!("{root}/{dir}/f")).collect()
    };
    let (from, to) = (deep("s"), deep("moved/on"));
    let from: Vec<&str> = from.iter().map(String::as_str).collect();
    let to: Vec<&str> = to.iter().map(String::as_str).collect();
    for n in 0..4 {
        expect_followed(&from, from[n], &to, to[n])?;
    }
    Ok(())
}

#[test]
fn a_directory_that_moved_as_it_was_takes_what_is_in_it_along() -> Outcome {
    let lab = Lab::default();
    // `1` and `s/1` are equal, and so are `moved/1` and `x`.
    let base = files([("1/f", lines("0")), ("s/1/f", lines("0"))]);
    let theirs = files([("moved/1/f", lines("0")), ("x/f", lines("0"))]);
    let ours = files([("1/f", lines("0")), ("s/1/f", lines("ours"))]);
    let want = files([("moved/1/f", lines("ours")), ("x/f", lines("0"))]);
    assert_eq!(lab.merged(&base, &ours, &theirs)?, want);
    let ours = files([("1/f", lines("ours")), ("s/1/f", lines("0"))]);
    let want = files([("moved/1/f", lines("0")), ("x/f", lines("ours"))]);
    assert_eq!(lab.merged(&base, &ours, &theirs)?, want);
    Ok(())
}

#[test]
fn directories_and_files_that_moved_at_once_each_find_their_place() -> Outcome {
    let lab = Lab::default();
    let base = files([
        ("d/1/f", lines("0")),
        ("d/1/g", lines("0")),
        ("d/2/f", lines("0")),
        ("d/2/g", lines("0")),
        ("f", lines("0")),
        ("g", lines("0")),
    ]);
    // One unchanged directory, one changed directory, and two files.
    let theirs = files([
        ("e/1/f", lines("0")),
        ("e/1/g", lines("0")),
        ("e/2/f", lines("0")),
        ("e/2/g", lines("theirs")),
        ("e/f", lines("0")),
        ("e/g", text("1\n2\n0\n4\n5\n6\n7\ntwo\n")),
    ]);
    let mut ours = base.clone();
    for path in ["d/1/f", "d/2/f", "f", "g"] {
        ours.insert(path.into(), text("one\n2\n0\n4\n5\n6\n7\n8\n"));
    }
    let mut want = theirs.clone();
    for path in ["e/1/f", "e/2/f", "e/f"] {
        want.insert(path.into(), text("one\n2\n0\n4\n5\n6\n7\n8\n"));
    }
    want.insert("e/g".into(), text("one\n2\n0\n4\n5\n6\n7\ntwo\n"));
    assert_eq!(lab.merged(&base, &ours, &theirs)?, want);
    Ok(())
}

#[test]
fn changed_files_of_one_name_are_the_same_file_where_several_are_alike() -> Outcome {
    let lab = Lab::default();
    let base = files([("a/1/f", lines("0")), ("a/2/f", lines("0"))]);
    let ours = files([("a/1/f", lines("ours")), ("a/2/f", lines("0"))]);
    // `b/2/f` is more similar to `a/1/f` than `b/1/f` is.
    let theirs = files([
        ("b/1/f", text("1\n2\n0\n4\n5\n6\n7\n8\n9\na\n")),
        ("b/2/f", text("1\n2\n0\n4\n5\n6\n7\n8\n9\n")),
    ]);
    let mut want = theirs.clone();
    want.insert("b/1/f".into(), text("1\n2\nours\n4\n5\n6\n7\n8\n9\na\n"));
    assert_eq!(lab.merged(&base, &ours, &theirs)?, want);
    Ok(())
}

#[test]
fn what_was_moved_by_itself_is_no_place_for_what_was_deleted() -> Outcome {
    let lab = Lab::default();
    let base = files([("a", lines("0")), ("b", lines("x"))]);
    let ours = files([("a", lines("0")), ("b", lines("ours"))]);
    let theirs = files([("d/a", lines("0"))]);
    let merged = lab.merge(&base, &ours, &theirs)?;
    assert_eq!(merged.moves, []);
    let request: Vec<_> = merged
        .conflicts
        .iter()
        .map(|c| c.path.to_string())
        .collect();
    assert_eq!(request, ["b"]);
    Ok(())
}
