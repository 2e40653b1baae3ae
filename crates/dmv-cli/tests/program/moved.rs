//! Branches that somebody else moves: by a push onto the branch that is checked out, or by replacing
//! the branch of a remote.

use crate::place::files::read;
use crate::place::{Outcome, Place};
use serde_json::{Value, json};

/// `here` with a commit of `f` and `g`, and a clone of it, `there`.
fn two() -> Outcome<Place> {
    let place = Place::new()?;
    place.ok(&["init", "here"])?;
    place.write("here/f", lines("one"))?;
    place.write("here/g", "g\n")?;
    place.ok(&["-C", "here", "commit", "-m", "one"])?;
    place.ok(&["clone", "here", "there"])?;
    Ok(place)
}

/// A text whose first line is `first`.
fn lines(first: &str) -> String {
    format!("{first}\n2\n3\n4\n5\n6\n7\n")
}

fn commit(place: &Place, repo: &str, message: &str) -> Outcome<String> {
    let done = place.json(&["-C", repo, "commit", "-m", message, "--json"])?;
    Ok(done["commit"]
        .as_str()
        .ok_or("nothing committed")?
        .to_owned())
}

fn status(place: &Place, repo: &str) -> Outcome<Value> {
    place.json(&["-C", repo, "status", "--json"])
}

/// The subjects of a branch's commits, in alphabetical order.
fn log(place: &Place, repo: &str) -> Outcome<Vec<String>> {
    let all = place.records(&["-C", repo, "log", "--json"])?;
    let subject = |record: &Value| record["message"].as_str().unwrap_or_default().to_owned();
    let mut all: Vec<String> = all.iter().map(subject).collect();
    all.sort();
    Ok(all)
}

#[test]
fn a_commit_after_a_push_onto_the_branch_is_merged_with_what_came() -> Outcome {
    let place = two()?;
    let one = status(&place, "here")?["commit"].clone();
    place.write("there/f", lines("one") + "pushed\n")?;
    place.write("there/new", "pushed\n")?;
    let pushed = commit(&place, "there", "pushed")?;
    // Edits begin before the push, to the same file.
    place.write("here/f", lines("edited"))?;
    place.ok(&["-C", "there", "push"])?;
    let now = status(&place, "here")?;
    assert_eq!(
        (&now["moved"], &now["base"], &now["commit"]),
        (&json!(true), &one, &json!(pushed))
    );
    assert_eq!(now["changes"].as_array().map(Vec::len), Some(1), "{now}");
    let said = place.ok(&["-C", "here", "status"])?;
    let one = one.as_str().ok_or("no id")?;
    assert!(
        said.contains(&pushed[..12]) && said.contains(&one[..12]),
        "{said}"
    );
    // Against what the files come from.
    let diff = place.ok(&["-C", "here", "diff"])?;
    assert!(
        diff.contains("+edited") && !diff.contains("pushed"),
        "{diff}"
    );
    let done = place.json(&["-C", "here", "commit", "-m", "edited", "--json"])?;
    assert_eq!(done["merge"]["conflicts"], json!([]));
    assert_eq!(read(&place, "here/f")?, lines("edited") + "pushed\n");
    assert_eq!(read(&place, "here/new")?, "pushed\n");
    let now = status(&place, "here")?;
    assert_eq!(
        (&now["clean"], &now["moved"]),
        (&json!(true), &json!(false))
    );
    assert_eq!(now["commit"], done["merge"]["commit"]);
    assert_eq!(
        log(&place, "here")?,
        ["Merge new commits on main", "edited", "one", "pushed"]
    );
    // First the merge is taken back, then the commit: its edits stay, uncommitted.
    place.ok(&["-C", "here", "undo"])?;
    assert_eq!(read(&place, "here/f")?, lines("edited"));
    assert_eq!(status(&place, "here")?["commit"], json!(pushed));
    place.ok(&["-C", "here", "undo"])?;
    assert_eq!(read(&place, "here/f")?, lines("edited"));
    assert_eq!(status(&place, "here")?["changes"][0]["change"], "modified");
    place.ok(&["-C", "here", "redo"])?;
    // A commit that was cut off before the merge goes on with it.
    let done = place.json(&["-C", "here", "commit", "-m", "unused", "--json"])?;
    assert_eq!(done["commit"], Value::Null);
    assert_eq!(status(&place, "here")?["commit"], done["merge"]["commit"]);
    assert_eq!(read(&place, "here/f")?, lines("edited") + "pushed\n");
    place.ok(&["-C", "there", "pull"])?;
    assert_eq!(read(&place, "there/f")?, lines("edited") + "pushed\n");
    place.ok(&["-C", "here", "verify", "--full"])?;
    Ok(())
}

#[test]
fn what_a_push_and_an_edit_disagree_on_is_committed_as_a_conflict() -> Outcome {
    let place = two()?;
    place.write("there/f", lines("pushed"))?;
    commit(&place, "there", "pushed")?;
    place.write("here/f", lines("edited"))?;
    place.ok(&["-C", "there", "push"])?;
    place.fails(4, &["-C", "here", "commit", "-m", "edited"])?;
    let now = status(&place, "here")?;
    assert_eq!(now["moved"], json!(false));
    assert_eq!(now["conflicts"][0]["path"], "f");
    let text = read(&place, "here/f")?;
    assert!(text.contains("edited") && text.contains("pushed"), "{text}");
    Ok(())
}

#[test]
fn without_edits_the_branch_that_was_pushed_to_is_checked_out() -> Outcome {
    let place = two()?;
    place.write("there/f", lines("pushed"))?;
    commit(&place, "there", "pushed")?;
    place.ok(&["-C", "there", "push"])?;
    let output = place.run(&["-C", "here", "commit", "-m", "none"])?;
    assert!(output.status.success());
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("dmv checkout main"), "{said}");
    assert!(place.ok(&["-C", "here", "diff"])?.is_empty());
    place.ok(&["-C", "here", "checkout", "main"])?;
    assert_eq!(read(&place, "here/f")?, lines("pushed"));
    Ok(())
}

#[test]
fn a_commit_of_some_paths_says_what_stands_in_the_way_of_the_merge() -> Outcome {
    let place = two()?;
    place.write("there/f", lines("pushed"))?;
    commit(&place, "there", "pushed")?;
    place.write("here/f", lines("edited"))?;
    place.write("here/g", "edited\n")?;
    place.ok(&["-C", "there", "push"])?;
    let errors = place.fails(5, &["-C", "here", "commit", "-m", "g", "g"])?;
    assert!(
        errors.contains("is stored, but not yet merged") && errors.contains("in f"),
        "{errors}"
    );
    assert_eq!(read(&place, "here/f")?, lines("edited"));
    place.fails(4, &["-C", "here", "commit", "-m", "f"])?;
    assert_eq!(status(&place, "here")?["moved"], json!(false));
    Ok(())
}

#[test]
fn of_a_branch_that_was_replaced_the_hint_leads_to_a_branch_of_its_own() -> Outcome {
    let place = two()?;
    place.write("here/f", lines("two"))?;
    let two = commit(&place, "here", "two")?;
    place.write("there/f", lines("other"))?;
    commit(&place, "there", "other")?;
    place.write("here/f", lines("edited"))?;
    place.ok(&["-C", "there", "push", "--force"])?;
    let errors = place.fails(5, &["-C", "here", "commit", "-m", "edited"])?;
    let hint = format!("dmv checkout -b NAME {}", &two[..12]);
    assert!(errors.contains(&hint), "{errors}");
    place.ok(&["-C", "here", "checkout", "-b", "mine", &two[..12]])?;
    commit(&place, "here", "edited")?;
    assert_eq!(read(&place, "here/f")?, lines("edited"));
    assert_eq!(log(&place, "here")?, ["edited", "one", "two"]);
    Ok(())
}

/// `there` has commits of its own and one that `here` takes off the branch.
fn replaced() -> Outcome<(Place, String)> {
    let place = two()?;
    place.write("here/f", lines("secret"))?;
    commit(&place, "here", "secret")?;
    place.ok(&["-C", "there", "pull"])?;
    place.write("there/g", "mine\n")?;
    let mine = commit(&place, "there", "mine")?;
    place.ok(&["-C", "here", "undo"])?;
    place.write("here/f", lines("public"))?;
    commit(&place, "here", "public")?;
    Ok((place, mine))
}

#[test]
fn a_pull_of_a_branch_that_was_replaced_merges_nothing_unasked() -> Outcome {
    let (place, mine) = replaced()?;
    // The second time it is known already, also after a fetch.
    for _ in 0..2 {
        let errors = place.fails(5, &["-C", "there", "pull"])?;
        assert!(errors.contains("origin/main was rewritten"), "{errors}");
        assert!(errors.contains("pull --reset") && errors.contains("dmv merge origin/main"));
        assert_eq!(status(&place, "there")?["commit"], json!(mine));
    }
    let errors = place.fails(5, &["-C", "there", "pull", "--ff-only"])?;
    assert!(errors.contains("origin/main was rewritten"), "{errors}");
    // Uncommitted work that does not collide stays; what collides is never lost.
    place.write("there/new", "n\n")?;
    place.write("there/f", lines("edited"))?;
    place.fails(5, &["-C", "there", "pull", "--reset"])?;
    assert_eq!(read(&place, "there/f")?, lines("edited"));
    place.ok(&["-C", "there", "restore", "f"])?;
    let output = place.run(&["-C", "there", "pull", "--reset"])?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    assert!(
        said.contains("2 commits are no longer on the branch"),
        "{said}"
    );
    assert!(
        said.contains(&format!("dmv branch NAME {}", &mine[..12])),
        "{said}"
    );
    assert_eq!(log(&place, "there")?, ["one", "public"]);
    assert_eq!(read(&place, "there/f")?, lines("public"));
    assert_eq!(
        (read(&place, "there/g")?, read(&place, "there/new")?),
        ("g\n".into(), "n\n".into())
    );
    place.ok(&["-C", "there", "undo"])?;
    assert_eq!(status(&place, "there")?["commit"], json!(mine));
    assert_eq!(
        (read(&place, "there/g")?, read(&place, "there/new")?),
        ("mine\n".into(), "n\n".into())
    );

    // After a merge that was asked for, the branch is pulled as ever.
    place.fails(5, &["-C", "there", "pull"])?;
    place.fails(4, &["-C", "there", "merge", "origin/main"])?;
    place.ok(&["-C", "there", "resolve", "f", "--theirs"])?;
    commit(&place, "there", "both")?;
    place.write("here/g", "more\n")?;
    commit(&place, "here", "more")?;
    place.fails(4, &["-C", "there", "pull"])?;
    assert!(log(&place, "there")?.contains(&"more".to_owned()));
    Ok(())
}

#[test]
fn a_branch_that_was_set_back_is_not_up_to_date() -> Outcome {
    let place = two()?;
    place.write("here/f", lines("secret"))?;
    commit(&place, "here", "secret")?;
    place.ok(&["-C", "there", "pull"])?;
    place.ok(&["-C", "here", "undo"])?;
    let errors = place.fails(5, &["-C", "there", "pull"])?;
    let told = "origin/main went back to an earlier commit";
    assert!(errors.contains(told), "{errors}");
    let done = place.json(&["-C", "there", "pull", "--reset", "--json"])?;
    assert_eq!(
        done["merge"]["left"].as_array().map(Vec::len),
        Some(1),
        "{done}"
    );
    assert_eq!(read(&place, "there/f")?, lines("one"));
    Ok(())
}
