//! How commits and paths are named: `HEAD`, `-`, `REV:./PATH`, paths from where the user stands.

use crate::place::{Outcome, Place};
use dmv_core::object::ObjectType;
use dmv_core::repo::Repo;
use dmv_core::store::CheckedObject;
use serde_json::json;
use std::fs;

/// What the program prints when it runs in a directory of the worktree.
fn at(place: &Place, dir: &str, args: &[&str]) -> Outcome<String> {
    place.ok(&[&["-C", dir], args].concat())
}

fn two_directories() -> Outcome<Place> {
    let place = Place::with_repository()?;
    place.write("shots/a/one.txt", "one\n")?;
    place.write("shots/two.txt", "two\n")?;
    place.write("notes.txt", "notes\n")?;
    place.commit("first")?;
    place.write("shots/two.txt", "two and more\n")?;
    place.commit("second")?;
    Ok(place)
}

#[test]
fn commits_and_paths_are_named_as_in_git_and_from_where_the_user_stands() -> Outcome {
    let place = two_directories()?;
    // Head names what the worktree is on as in git.
    let id = |revision: &str| place.ok(&["log", "-1", "--json", revision]);
    assert_eq!(id("HEAD")?, id("@")?);
    assert_eq!(id("HEAD~1")?, id("@~1")?);
    assert_eq!(id("HEAD^")?, id("main~1")?);
    assert_eq!(place.ok(&["cat", "HEAD~1:shots/two.txt"])?, "two\n");
    let err = place.fails(20, &["branch", "HEAD"])?;
    assert!(err.contains("reserved"), "{err}");
    place.fails(20, &["branch", "-m", "main", "HEAD"])?;

    // Paths count from where the user stands.
    assert_eq!(at(&place, "shots", &["ls"])?, "shots/a/\nshots/two.txt\n");
    assert_eq!(at(&place, "shots", &["ls", "a"])?, "shots/a/one.txt\n");
    assert_eq!(
        at(&place, "shots/a", &["ls", ".."])?,
        "shots/a/\nshots/two.txt\n"
    );
    assert_eq!(
        at(&place, "shots/a", &["ls", ":/notes.txt"])?,
        "notes.txt\n"
    );
    assert_eq!(at(&place, "shots", &["ls", "@"])?, "notes.txt\nshots/\n");
    assert_eq!(at(&place, "shots", &["cat", "two.txt"])?, "two and more\n");
    assert_eq!(at(&place, "shots", &["cat", "@~1:./two.txt"])?, "two\n");
    assert_eq!(
        at(&place, "shots", &["cat", "@~1:../notes.txt"])?,
        "notes\n"
    );
    assert_eq!(at(&place, "shots", &["cat", "@:notes.txt"])?, "notes\n");
    let sum = at(&place, "shots", &["du", "--json", "a"])?;
    assert!(
        sum.contains(r#""path":"shots/a""#) && sum.contains(r#""bytes":4"#),
        "{sum}"
    );
    assert!(at(&place, "shots", &["du"])?.starts_with("shots: "));
    let messages = |dir: &str, path: &str| -> Outcome<usize> {
        Ok(at(&place, dir, &["log", "--oneline", "--", path])?
            .lines()
            .count())
    };
    assert_eq!(
        (messages("shots", "two.txt")?, messages("shots", "a")?),
        (2, 1)
    );
    assert_eq!(
        (
            messages("shots", ":/notes.txt")?,
            messages("shots/a", "../..")?
        ),
        (1, 2)
    );
    let diff = at(&place, "shots", &["diff", "@~1", "@", "--", "a"])?;
    assert_eq!(diff, "");
    let diff = at(
        &place,
        "shots",
        &["diff", "@~1", "@", "--stat", "--", "two.txt"],
    )?;
    assert!(diff.contains(" shots/two.txt | +1 -1\n"), "{diff}");
    place.fails(20, &["-C", "shots", "cat", "../../outside"])?;

    // A dash names the branch or commit before the last checkout.
    let err = place.fails(20, &["checkout", "-"])?;
    assert!(err.contains("has not been on another branch"), "{err}");
    place.ok(&["checkout", "-b", "side"])?;
    place.write("notes.txt", "side\n")?;
    place.commit("on side")?;
    place.ok(&["checkout", "-"])?;
    assert_eq!(place.json(&["status", "--json"])?["branch"], "main");
    assert_eq!(place.ok(&["cat", "@{-1}:notes.txt"])?, "side\n");
    // It follows a renamed branch, and an undone checkout.
    place.ok(&["branch", "-m", "side", "aside"])?;
    let shown = place.ok(&["log", "--oneline", "-"])?;
    assert!(shown.starts_with(&place.ok(&["log", "--oneline", "aside"])?[..12]));
    place.ok(&["checkout", "@~1"])?;
    place.ok(&["checkout", "-"])?;
    assert_eq!(place.json(&["status", "--json"])?["branch"], "main");
    place.ok(&["undo"])?;
    assert_eq!(place.json(&["status", "--json"])?["branch"], json!(null));
    place.ok(&["checkout", "-"])?;
    assert_eq!(place.json(&["status", "--json"])?["branch"], "main");
    place.ok(&["checkout", "aside"])?;
    place.ok(&["checkout", "-"])?;
    place.ok(&["merge", "-"])?;
    assert_eq!(place.ok(&["cat", "notes.txt"])?, "side\n");
    place.ok(&["branch", "-d", "aside"])?;
    let err = place.fails(20, &["checkout", "-"])?;
    assert!(
        err.contains("branch 'aside'") && err.contains("deleted"),
        "{err}"
    );

    // A revision goes before a path of the same name and dmv says so.
    place.write("main/in", "x\n")?;
    place.commit("a directory with the name of the branch")?;
    let output = place.run(&["ls", "main"])?;
    assert_eq!(output.stdout, b"main/\nnotes.txt\nshots/\n");
    let said = String::from_utf8(output.stderr)?;
    assert!(said.contains("dmv ls ./main"), "{said}");
    assert_eq!(place.ok(&["ls", "./main"])?, "main/in\n");
    let err = place.fails(20, &["ls", "nowhere"])?;
    assert!(
        err.contains("no branch, tag, commit or path 'nowhere'"),
        "{err}"
    );
    let err = place.fails(20, &["cat", "nowhere"])?;
    assert!(err.contains("'nowhere' does not exist in @"), "{err}");

    // A log takes a number and says which path no commit has.
    assert_eq!(place.ok(&["log", "-1", "--oneline"])?.lines().count(), 1);
    assert_eq!(
        place
            .ok(&["log", "main", "-2", "--oneline"])?
            .lines()
            .count(),
        2
    );
    assert_eq!(
        place
            .ok(&["log", "-1", "--oneline", "--", "notes.txt"])?
            .lines()
            .count(),
        1
    );
    place.write("new.txt", "")?;
    let said = |path: &str| -> Outcome<String> {
        let output = place.run(&["log", "--", path])?;
        assert_eq!((output.status.code(), output.stdout.len()), (Some(0), 0));
        Ok(String::from_utf8(output.stderr)?)
    };
    assert_eq!(said("nosuch")?, "no commit has 'nosuch'\n");
    assert_eq!(
        said("new.txt")?,
        "no commit has 'new.txt': it is only in the worktree\n"
    );
    fs::remove_file(place.work().join("notes.txt"))?;
    place.commit("without notes")?;
    assert_eq!(
        place
            .ok(&["log", "--oneline", "--", "notes.txt"])?
            .lines()
            .count(),
        3
    );
    let output = place.run(&["log", "--author", "nobody", "--", "notes.txt"])?;
    assert_eq!(String::from_utf8(output.stderr)?, "no matching commits\n");
    Ok(())
}

#[test]
fn a_branch_that_only_remotes_have_and_a_commit_without_its_content_are_named() -> Outcome {
    let place = two_directories()?;
    // A branch that only remotes have is named and a checkout makes it.
    place.ok(&["branch", "studio"])?;
    for name in ["one", "two"] {
        place.ok(&["clone", "--bare", ".", &format!("../{name}")])?;
    }
    let clone = |name: &str| place.ok(&["clone", "../one", name]);
    clone("../copy")?;
    let err = place.fails(20, &["-C", "../copy", "log", "studio"])?;
    assert!(
        err.contains("only the remote branch origin/studio"),
        "{err}"
    );
    assert!(err.contains("dmv checkout studio"), "{err}");
    place.ok(&["-C", "../copy", "checkout", "studio"])?;
    let status = place.json(&["-C", "../copy", "status", "--json"])?;
    assert_eq!(status["branch"], "studio");
    // A remote without the usual name is enough, if it is the only one.
    clone("../other")?;
    for (name, from) in [("nas", "../one"), ("usb", "../two")] {
        place.ok(&["-C", "../other", "remote", "add", name, from])?;
    }
    place.ok(&["-C", "../other", "remote", "remove", "origin"])?;
    place.ok(&["-C", "../other", "fetch", "nas"])?;
    place.ok(&["-C", "../other", "checkout", "studio"])?;
    place.ok(&["-C", "../other", "undo"])?;
    place.ok(&["-C", "../other", "fetch", "usb"])?;
    let err = place.fails(20, &["-C", "../other", "checkout", "studio"])?;
    assert!(err.contains("nas/studio, usb/studio"), "{err}");
    assert!(err.contains("dmv checkout -b studio nas/studio"), "{err}");

    // A commit that a cut fetch left without its content gets no name before a fetch.
    place.ok(&["init", "../theirs"])?;
    fs::write(place.dir.path().join("theirs/new.txt"), "new\n")?;
    place.ok(&["-C", "../theirs", "commit", "-m", "new"])?;
    place.ok(&["remote", "add", "origin", "../theirs"])?;
    let id = receive_only_the_commit(&place, ".", "../theirs")?;
    let before = place.ok(&["op", "log"])?;
    for args in [
        &["branch", "new", &id][..],
        &["tag", "new", &id],
        &["checkout", &id],
        &["checkout", "-b", "new", &id],
        &["reset", "--hard", &id],
        &["merge", &id],
        &["cherry-pick", &id],
        &["worktree", "add", "../two", &id],
    ] {
        let err = place.fails(6, args)?;
        let short = &id[..12];
        let told = format!("error: commit {short} is not complete here: at least 1 object");
        assert!(err.contains(&told), "{args:?}: {err}");
        assert!(err.contains("hint: dmv fetch"), "{args:?}: {err}");
    }
    let told = place.run(&["branch", "new", &id, "--json"])?;
    let told: serde_json::Value = serde_json::from_slice(&told.stderr)?;
    assert_eq!(told["code"], "incomplete", "{told}");
    assert_eq!(place.ok(&["op", "log"])?, before);
    place.ok(&["fetch"])?;
    place.ok(&["branch", "new", &id])?;
    assert_eq!(place.ok(&["cat", "new:new.txt"])?, "new\n");
    place.ok(&["verify"])?;
    Ok(())
}

/// Stores in `ours` the commit of `theirs` without its content, as a fetch does that is cut.
fn receive_only_the_commit(place: &Place, ours: &str, theirs: &str) -> Outcome<String> {
    let open = |name: &str| Repo::open(&place.work().join(name));
    let (ours, theirs) = (open(ours)?, open(theirs)?);
    let id = theirs.resolve("main")?;
    let bytes = theirs.objects().read(ObjectType::Commit, &id)?;
    let bytes = bytes.ok_or("it is stored")?.to_vec();
    let mut incoming = ours.incoming()?;
    incoming.add_object(&CheckedObject::new(ObjectType::Commit, bytes)?)?;
    ours.keep_incoming(incoming)?;
    Ok(id.to_string())
}
