//! What a command could not write is told by status, is no edit, and is written by the next try.

use crate::place::{Outcome, Place};
use serde_json::Value;
use std::fs::{self, File, FileTimes};
use std::process::Output;
use std::time::{Duration, SystemTime};

/// Longer than the files that a [`limited`] command may write. It compresses to little.
const LONG: usize = 4 << 20;

/// The program where no file may be longer than 2,000 blocks.
fn limited(place: &Place, args: &[&str]) -> Outcome<Output> {
    let mut command = place.command(args);
    let program = command.get_program().to_owned();
    let all: Vec<_> = command.get_args().map(ToOwned::to_owned).collect();
    let limited = "ulimit -f 2000; exec \"$0\" \"$@\"";
    let mut shell = std::process::Command::new("sh");
    shell.arg("-c").arg(limited).arg(program).args(all);
    shell.env_clear();
    for (key, value) in command.get_envs() {
        if let Some(value) = value {
            shell.env(key, value);
        }
    }
    shell.current_dir(place.work());
    command.stdin(std::process::Stdio::null());
    Ok(shell.output()?)
}

/// Runs a command that cannot write `f` and `n/big`.
fn falls_short(place: &Place, args: &[&str]) -> Outcome {
    let output = limited(place, args)?;
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{args:?}: {said}");
    assert!(said.contains("not written: f: "), "{said}");
    assert!(said.contains("not written: n/big: "), "{said}");
    assert!(said.contains("dmv restore f"), "{said}");
    Ok(())
}

fn paths(value: &Value) -> Vec<&str> {
    let list = value.as_array().into_iter().flatten();
    list.filter_map(|item| item["path"].as_str()).collect()
}

fn assert_status(place: &Place, changes: &[&str], not_written: &[&str]) -> Outcome {
    let status = place.json(&["status", "--json"])?;
    assert_eq!(paths(&status["changes"]), changes, "{status}");
    assert_eq!(paths(&status["not_written"]), not_written, "{status}");
    let is_clean = changes.is_empty() && not_written.is_empty();
    assert_eq!(status["clean"], is_clean);
    Ok(())
}

/// On `main` there is a short `f`; on `side` a long one, and another long file.
fn with_a_long_side() -> Outcome<Place> {
    let place = Place::with_repository()?;
    place.write("f", "short")?;
    place.write("other", "one")?;
    place.commit("one")?;
    place.ok(&["checkout", "-b", "side"])?;
    place.write("f", vec![0; LONG])?;
    place.write("n/big", vec![0; LONG + 1])?;
    place.write("also", "side")?;
    place.commit("side")?;
    place.ok(&["checkout", "main"])?;
    place.write("mine", "main")?;
    place.commit("main")?;
    Ok(place)
}

fn len_in(place: &Place, path: &str) -> Outcome<usize> {
    Ok(place.run(&["cat", &format!("@:{path}")])?.stdout.len())
}

#[test]
fn what_a_merge_could_not_write_is_not_reverted_by_the_next_commit() -> Outcome {
    let place = with_a_long_side()?;
    falls_short(&place, &["merge", "side"])?;
    assert_status(&place, &[], &["f", "n/big"])?;
    place.fails(1, &["status", "--exit-code"])?;
    let told = place.ok(&["status"])?;
    assert!(told.contains("not written  f"), "{told}");
    place.write("other", "two")?;
    let said = place.fails(3, &["commit", "-m", "two"])?;
    assert!(said.contains("not committed: f: "), "{said}");
    assert!(said.contains("not committed: n/big: "), "{said}");
    assert!(said.contains("dmv restore f"), "{said}");
    assert_eq!(len_in(&place, "f")?, LONG);
    assert_eq!(len_in(&place, "n/big")?, LONG + 1);
    assert_eq!(len_in(&place, "other")?, 3);
    // Another time of change is no edit.
    let past = SystemTime::now() - Duration::from_secs(1000);
    let times = FileTimes::new().set_modified(past);
    File::options()
        .write(true)
        .open(place.work().join("f"))?
        .set_times(times)?;
    assert_status(&place, &[], &["f", "n/big"])?;
    place.fails(3, &["commit", "-m", "three"])?;
    place.fails(3, &["commit", "-m", "three", "f"])?;
    assert_eq!(len_in(&place, "f")?, LONG);
    // An edit is one.
    place.write("f", "edited")?;
    assert_status(&place, &["f"], &["n/big"])?;
    place.fails(3, &["commit", "-m", "three"])?;
    assert_eq!(len_in(&place, "f")?, 6);
    place.ok(&["restore", "n/big"])?;
    assert_status(&place, &[], &[])?;
    place.ok(&["verify", "--full"])?;
    Ok(())
}

#[test]
fn a_checkout_that_fell_short_goes_on_goes_back_and_goes_elsewhere() -> Outcome {
    let place = with_a_long_side()?;
    let short = || Ok::<_, std::io::Error>(fs::metadata(place.work().join("f"))?.len() == 5);
    for _ in 0..2 {
        falls_short(&place, &["checkout", "side"])?;
        assert_status(&place, &[], &["f", "n/big"])?;
        // Again, and it falls short again.
        falls_short(&place, &["checkout", "side"])?;
        assert_status(&place, &[], &["f", "n/big"])?;
        place.ok(&["checkout", "side"])?;
        assert_status(&place, &[], &[])?;
        assert!(!short()?);
        place.ok(&["checkout", "main"])?;
        assert!(short()?);
        falls_short(&place, &["checkout", "side"])?;
        place.ok(&["checkout", "main"])?;
        assert_status(&place, &[], &[])?;
        assert!(short()?);
        falls_short(&place, &["checkout", "side"])?;
        place.ok(&["undo"])?;
        assert_status(&place, &[], &[])?;
        assert!(short()? && !place.work().join("n").exists());
    }
    // To where the file is another one.
    place.write("f", "third")?;
    place.ok(&["commit", "-m", "third", "--json"])?;
    place.ok(&["branch", "third"])?;
    falls_short(&place, &["checkout", "side"])?;
    place.ok(&["checkout", "third"])?;
    assert_eq!(fs::read_to_string(place.work().join("f"))?, "third");
    assert_status(&place, &[], &[])?;
    // What was edited since is the user's.
    falls_short(&place, &["checkout", "side"])?;
    place.write("f", "edited")?;
    place.fails(5, &["checkout", "main"])?;
    assert_eq!(fs::read_to_string(place.work().join("f"))?, "edited");
    Ok(())
}

#[test]
fn worktrees_clones_and_merges_that_fell_short_are_completed() -> Outcome {
    // A worktree is completed by the same command.
    let place = with_a_long_side()?;
    let add = ["worktree", "add", "../other", "side"];
    for _ in 0..2 {
        let output = limited(&place, &add)?;
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(3), "{said}");
        assert!(said.contains("other restore "), "{said}");
    }
    place.ok(&add)?;
    place.ok(&["-C", "../other", "status", "--exit-code"])?;
    let long = fs::metadata(place.work().join("../other/f"))?;
    assert_eq!(long.len(), LONG as u64);
    place.fails(5, &add)?;

    place.ok(&["worktree", "remove", "../other"])?;
    // A clone that is there names the command that goes on.
    place.ok(&["checkout", "side"])?;
    let output = limited(&place, &["clone", ".", "../copy"])?;
    assert_eq!(output.status.code(), Some(3));
    let said = place.fails(5, &["clone", ".", "../copy"])?;
    assert!(said.contains("could not write all files"), "{said}");
    assert!(said.contains("dmv -C ../copy restore f"), "{said}");
    place.ok(&["-C", "../copy", "restore", "."])?;
    let said = place.fails(5, &["clone", ".", "../copy"])?;
    assert!(said.contains("dmv -C ../copy pull, to update it"), "{said}");

    place.ok(&["checkout", "main"])?;
    // A restore writes what could not be written and may choose the former.
    falls_short(&place, &["merge", "side"])?;
    place.ok(&["restore", "."])?;
    assert_status(&place, &[], &[])?;
    assert_eq!(fs::metadata(place.work().join("f"))?.len(), LONG as u64);
    place.ok(&["undo"])?;
    place.ok(&["undo"])?;
    assert_status(&place, &[], &[])?;
    falls_short(&place, &["merge", "side"])?;
    // Whoever wants the former file says so.
    place.ok(&["restore", "--from", "@^1", "f"])?;
    assert_status(&place, &["f"], &["n/big"])?;
    place.fails(3, &["commit", "-m", "the short one"])?;
    assert_eq!(len_in(&place, "f")?, 5);
    Ok(())
}

#[test]
fn neither_an_edit_nor_an_undo_that_falls_short_is_lost() -> Outcome {
    let place = Place::with_repository()?;
    // A hint never names a command that overwrites an edit.
    place.write("f", vec![0; LONG])?;
    place.commit("one")?;
    place.write("f", "edit")?;
    let failed = limited(&place, &["reset", "--hard"])?;
    let said = String::from_utf8_lossy(&failed.stderr).into_owned();
    assert_eq!(failed.status.code(), Some(3), "{said}");
    assert!(said.contains("not written: f: "), "{said}");
    assert!(
        said.contains("dmv undo") && !said.contains("dmv restore"),
        "{said}"
    );
    // The file is as it was: the undo has nothing to write.
    let undone = limited(&place, &["undo"])?;
    assert_eq!(undone.status.code(), Some(0));
    assert_eq!(std::fs::read(place.work().join("f"))?, b"edit");

    // An undo that falls short can be done again.
    place.write("f", "short")?;
    place.commit("one")?;
    place.write("f", vec![0; LONG])?;
    place.ok(&["reset", "--hard"])?;
    let failed = limited(&place, &["undo"])?;
    let said = String::from_utf8_lossy(&failed.stderr).into_owned();
    assert_eq!(failed.status.code(), Some(3), "{said}");
    assert!(
        said.contains("dmv redo, then dmv undo") && !said.contains("restore"),
        "{said}"
    );
    place.ok(&["redo"])?;
    place.ok(&["undo"])?;
    assert_eq!(std::fs::read(place.work().join("f"))?.len(), LONG);
    Ok(())
}

#[test]
fn a_conflict_whose_file_could_not_be_written_is_not_settled() -> Outcome {
    let place = Place::with_repository()?;
    let text = |word: &str| {
        let line = |n: usize| match n % 2 {
            0 => format!("line {n} of all\n"),
            _ => format!("line {n} of {word}, and of nobody else\n"),
        };
        (0..20_000).map(line).collect::<String>()
    };
    place.write("f", text("base"))?;
    place.commit("base")?;
    place.write("f", text("theirs"))?;
    place.ok(&["stash"])?;
    place.write("f", text("ours"))?;
    place.commit("ours")?;
    // Each version is shorter than what shows all of them.
    let output = limited(&place, &["stash", "pop"])?;
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("not written: f: "), "{said}");
    assert!(place.work().join("f.theirs").exists(), "{said}");
    for _ in 0..2 {
        let status = place.json(&["status", "--json"])?;
        assert_eq!(paths(&status["conflicts"]), ["f"], "{status}");
        place.run(&["commit", "-m", "early"])?;
        assert!(place.work().join("f.theirs").exists());
    }
    place.ok(&["resolve", "f", "--theirs"])?;
    place.commit("settled")?;
    assert_eq!(crate::place::files::read(&place, "f")?, text("theirs"));
    assert!(!place.work().join("f.theirs").exists());
    Ok(())
}
