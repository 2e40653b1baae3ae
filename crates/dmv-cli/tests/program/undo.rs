//! Undo, and the operations it takes back, as a user types them.

use crate::place::files::read;
use crate::place::{Outcome, Place};
use serde_json::{Value, json};

/// The id of the newest operation whose command line contains `text`.
fn operation(place: &Place, text: &str) -> Outcome<String> {
    let all = place.records(&["op", "log", "--json"])?;
    let command = |op: &Value| op["command"].as_str().unwrap_or_default().contains(text);
    let found = all.iter().find(|op| command(op)).ok_or("no operation")?;
    Ok(found["id"].as_str().ok_or("no id")?.to_owned())
}

#[test]
fn undo_and_redo_take_back_commits_branches_and_checkouts() -> Outcome {
    let place = Place::with_repository()?;
    place.fails(20, &["undo"])?;
    let errors = place.fails(5, &["undo", &operation(&place, "init")?])?;
    assert!(errors.contains("it created the repository"), "{errors}");
    // Undo of a commit leaves its edits and redo commits them again.
    place.write("f", "one")?;
    let one = place.commit("one")?;
    place.write("f", "two")?;
    let two = place.commit("two")?;
    let undone = place.json(&["undo", "--json"])?;
    assert_eq!(
        (&undone["commit"], &undone["uncommitted"]),
        (&json!(one), &json!(true))
    );
    assert_eq!(undone["refs"][0]["from"], json!(two));
    assert_eq!(read(&place, "f")?, "two");
    let status = place.json(&["status", "--json"])?;
    assert_eq!(status["changes"][0]["change"], "modified");
    assert_eq!(status["moved"], json!(false));
    let redone = place.json(&["redo", "--json"])?;
    assert_eq!(redone["commit"], json!(two));
    assert_eq!(place.json(&["status", "--json"])?["clean"], json!(true));
    let log = place.records(&["op", "log", "--json"])?;
    let undone: Vec<bool> = log.iter().filter_map(|op| op["undone"].as_bool()).collect();
    assert_eq!(undone, [false, true, false, false, false]);

    // A branch made on the way is one operation.
    place.write("f", "one")?;
    let one = place.commit("one")?;
    place.write("f", "two")?;
    place.commit("two")?;
    let said = place.ok(&["checkout", "-b", "side", "@~1"])?;
    assert!(said.contains("created branch side"), "{said}");
    assert_eq!(read(&place, "f")?, "one");
    let status = place.json(&["status", "--json"])?;
    assert_eq!(
        (&status["branch"], &status["commit"]),
        (&json!("side"), &json!(one))
    );
    // One that exists stays, and so do the files.
    place.fails(20, &["checkout", "-b", "main"])?;
    place.ok(&["undo"])?;
    assert_eq!(read(&place, "f")?, "two");
    assert!(!place.ok(&["branch"])?.contains("side"));

    // A refused redo says that it is one.
    for text in ["one", "two"] {
        place.write("f", text)?;
        place.commit(text)?;
    }
    place.ok(&["checkout", "@~1"])?;
    place.ok(&["undo"])?;
    place.write("f", "edited")?;
    let said = place.fails(5, &["redo"])?;
    assert!(said.contains("this redo would lose"), "{said}");
    place.write("f", "two")?;
    place.ok(&["redo"])?;
    place.write("f", "edited")?;
    let said = place.fails(5, &["undo"])?;
    assert!(said.contains("this undo would lose"), "{said}");

    place.ok(&["checkout", "--force", "main"])?;
    // An older operation is undone while nothing changed again what it changed.
    place.write("f", "one")?;
    place.commit("one")?;
    place.ok(&["branch", "side"])?;
    place.ok(&["tag", "v1"])?;
    place.write("f", "two")?;
    place.commit("two")?;
    place.ok(&["undo", &operation(&place, "branch side")?])?;
    let first = operation(&place, "-m one")?;
    let errors = place.fails(5, &["undo", &first])?;
    assert!(errors.contains("changed branch 'main' later"), "{errors}");
    assert!(errors.contains("-m two"), "{errors}");
    let again = operation(&place, "branch side")?;
    let errors = place.fails(5, &["undo", &operation(&place, "dmv branch side")?])?;
    assert!(errors.contains("was already undone"), "{errors} {again}");
    // Further back, one by one.
    place.ok(&["undo", &operation(&place, "-m two")?])?;
    place.fails(20, &["undo", "12"])?;
    place.fails(20, &["undo", "ffffffff"])?;

    // What would leave the worktree on no branch is refused.
    place.ok(&["branch", "aside"])?;
    place.ok(&["checkout", "--force", "aside"])?;
    let errors = place.fails(5, &["undo", &operation(&place, "branch aside")?])?;
    assert!(
        errors.contains("branch 'aside' is checked out at"),
        "{errors}"
    );
    place.ok(&["branch", "-d", "main"])?;
    let errors = place.fails(5, &["undo", &operation(&place, "force aside")?])?;
    assert!(
        errors.contains("branch 'main', which it left, no longer exists"),
        "{errors}"
    );
    Ok(())
}

#[test]
fn what_op_expire_let_go_is_out_of_the_reach_of_undo_and_redo() -> Outcome {
    let place = Place::with_repository()?;
    for n in ["one", "two", "three"] {
        place.write("f", n)?;
        place.commit(n)?;
    }
    place.ok(&["undo"])?;
    // Nothing is that old.
    let none = place.json(&["op", "expire", "--older", "90d", "--json"])?;
    assert_eq!(
        (&none["expired"], &none["operation"]),
        (&json!(0), &Value::Null)
    );
    let before = place.records(&["op", "log", "--json"])?.len();
    let done = place.json(&["op", "expire", "--older", "0", "--json"])?;
    assert_eq!(
        (&done["expired"], &done["left"]),
        (&json!(before), &json!(1))
    );
    let log = place.records(&["op", "log", "--json"])?;
    let expired: Vec<bool> = log
        .iter()
        .filter_map(|op| op["expired"].as_bool())
        .collect();
    assert_eq!(expired.len(), before + 1);
    assert!(!expired[0] && expired[1..].iter().all(|expired| *expired));
    let again = place.json(&["op", "expire", "--older", "0", "--json"])?;
    assert_eq!(again["operation"], Value::Null, "nothing more to let go");
    assert_eq!(
        (&again["expired"], &again["left"]),
        (&done["expired"], &json!(1))
    );
    assert_eq!(again["reaches_to"], done["reaches_to"]);
    // By its id, as the last one, and the undo itself.
    let two = operation(&place, "two")?;
    for refused in [&["undo", &two][..], &["undo"], &["redo"]] {
        let said = place.fails(5, refused)?;
        assert!(
            said.contains("is out of reach since 'dmv op expire' of 2"),
            "{said}"
        );
    }
    let expiry = operation(&place, "expire")?;
    let said = place.fails(5, &["undo", &expiry])?;
    assert!(said.contains("what it gave up cannot come back"), "{said}");
    // Later operations are undone and redone as ever, beside further expiries.
    place.write("f", "four")?;
    let four = place.commit("four")?;
    place.ok(&["undo"])?;
    let done = place.run(&["op", "expire", "--older", "1h"])?;
    assert!(
        !String::from_utf8(done.stderr)?.contains("gc"),
        "nothing has changed"
    );
    assert_eq!(place.json(&["redo", "--json"])?["commit"], json!(four));
    place.ok(&["undo"])?;
    assert_eq!(read(&place, "f")?, "four");
    let done = place.run(&["op", "expire", "--older", "0"])?;
    assert!(
        String::from_utf8(done.stderr)?.contains("need: dmv gc"),
        "the next step"
    );
    Ok(())
}

/// A clone with a commit of its own, in `work/here`, of `work/there`.
fn cloned() -> Outcome<Place> {
    let place = Place::new()?;
    place.ok(&["init", "there"])?;
    place.write("there/f", "one")?;
    place.ok(&["-C", "there", "commit", "-q", "-m", "one"])?;
    place.ok(&["clone", "-q", "there", "here"])?;
    Ok(place)
}

#[test]
fn undo_takes_back_what_was_done_here_and_not_what_made_the_repository() -> Outcome {
    let place = cloned()?;
    // What made a repository is not undone.
    place.ok(&["-C", "here", "sync"])?;
    let errors = place.fails(20, &["-C", "here", "undo"])?;
    assert!(errors.contains("nothing to undo"), "{errors}");
    assert_eq!(read(&place, "here/f")?, "one");
    let all = place.records(&["-C", "here", "op", "log", "--json"])?;
    for op in &all {
        let id = op["id"].as_str().ok_or("no id")?;
        let errors = place.fails(5, &["-C", "here", "undo", id])?;
        assert!(errors.contains("created the repository"), "{errors}");
    }
    assert_eq!(read(&place, "here/f")?, "one");
    place.ok(&["clone", "-q", "--bare", "there", "bare"])?;
    place.fails(20, &["-C", "bare", "undo"])?;
    assert!(place.ok(&["-C", "bare", "branch"])?.contains("main"));
    // What is done in it later can be.
    place.ok(&["-C", "here", "tag", "v1"])?;
    place.ok(&["-C", "here", "undo"])?;
    assert_eq!(place.ok(&["-C", "here", "tag"])?, "");

    // Undo passes over what only tells of remotes and says so.
    let here = |args: &[&str]| place.ok(&[&["-C", "here"], args].concat());
    let files = || read(&place, "here/f");
    place.write("here/f", "two")?;
    here(&["commit", "-q", "-m", "two"])?;
    here(&["push", "-q"])?;
    let said = here(&["undo"])?;
    assert!(said.contains("skipped: dmv -C here push"), "{said}");
    assert!(said.contains("undone: dmv -C here commit"), "{said}");
    assert_eq!(files()?, "two");
    assert!(here(&["status"])?.contains("modified  f"));
    // A fetch does not end what redo can bring.
    here(&["fetch", "-q"])?;
    here(&["redo"])?;
    assert!(here(&["status"])?.contains("nothing changed"));
    // A push and a pull that were refused are nothing to take back either.
    place.write("there/f", "three")?;
    place.ok(&["-C", "there", "checkout", "-q", "--force", "main"])?;
    place.write("there/f", "three")?;
    place.ok(&["-C", "there", "commit", "-q", "-m", "three"])?;
    place.write("here/g", "g")?;
    here(&["commit", "-q", "-m", "four"])?;
    place.fails(5, &["-C", "here", "push"])?;
    place.fails(5, &["-C", "here", "pull", "--ff-only"])?;
    let done = place.json(&["-C", "here", "undo", "--json"])?;
    assert!(done["command"].as_str().is_some_and(|c| c.contains("four")));
    let passed = done["passed_over"].as_array().ok_or("no list")?;
    assert!(!passed.is_empty());
    // By its id it can be undone.
    let id = passed[0].as_str().ok_or("no id")?;
    let said = here(&["undo", id])?;
    assert!(said.contains("remote/origin/main"), "{said}");
    here(&["redo"])?;
    Ok(())
}

/// Runs a command, and what its hints say, until it succeeds.
fn follow(place: &Place, first: &[&str]) -> Outcome<usize> {
    let first: Vec<String> = first.iter().map(|word| (*word).to_owned()).collect();
    let mut next = first.clone();
    for n in 0..12 {
        let done = place.run(&next)?;
        let said = String::from_utf8(done.stderr)?;
        match done.status.code() {
            Some(0) if next == first => return Ok(n),
            Some(0) => next.clone_from(&first),
            _ => {
                let (_, hint) = said.split_once("hint: dmv ").ok_or(said.clone())?;
                let command = hint
                    .lines()
                    .next()
                    .and_then(|line| line.split([',', ';']).next());
                let words = command.ok_or("no hint")?.split(' ').map(str::to_owned);
                next = words.collect();
            }
        }
    }
    Err(format!("the hints of {first:?} lead in a circle").into())
}

#[test]
fn the_hints_of_an_undo_lead_to_its_end() -> Outcome {
    let world = || -> Outcome<Place> {
        let place = Place::with_repository()?;
        place.write("f", "one")?;
        place.commit("one")?;
        Ok(place)
    };
    // A tag was made, deleted and made again.
    let place = world()?;
    place.ok(&["tag", "v"])?;
    let id = operation(&place, "tag v")?;
    place.write("f", "two")?;
    place.commit("two")?;
    place.ok(&["tag", "-d", "v"])?;
    place.ok(&["tag", "v"])?;
    assert!(follow(&place, &["undo", &id])? > 0);
    // A branch was renamed after an undo and a redo.
    let place = world()?;
    place.write("f", "two")?;
    place.commit("two")?;
    let id = operation(&place, "-m two")?;
    place.write("f", "three")?;
    place.commit("three")?;
    place.ok(&["undo"])?;
    place.ok(&["redo"])?;
    place.ok(&["branch", "-m", "main", "trunk"])?;
    assert!(follow(&place, &["undo", &id])? > 0);
    // Something was done in a worktree that was added.
    let place = world()?;
    place.ok(&["worktree", "add", "../second"])?;
    place.ok(&["-C", "../second", "commit", "--allow-empty", "-m", "there"])?;
    let said = place.fails(5, &["undo"])?;
    assert!(said.contains("was used since it was added"), "{said}");
    assert!(said.contains("hint: dmv worktree remove "), "{said}");
    // A commit was made in another worktree, on a branch that was here before.
    let place = world()?;
    place.ok(&["checkout", "-b", "side"])?;
    place.write("g", "two")?;
    place.commit("two")?;
    let id = operation(&place, "-m two")?;
    place.ok(&["checkout", "main"])?;
    place.ok(&["worktree", "add", "../second", "side"])?;
    place.ok(&["-C", "../second", "commit", "--allow-empty", "-m", "there"])?;
    let said = place.fails(5, &["undo", &id])?;
    let at = place.work().join("../second").canonicalize()?;
    let there = format!("hint: dmv -C {} undo ", at.display());
    assert!(said.contains(&there), "{said}");
    Ok(())
}
