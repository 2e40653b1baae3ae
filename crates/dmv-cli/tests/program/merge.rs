//! Merging, conflicts and reverting, as a user does it.

use crate::place::temp_dir;
use serde_json::Value;
use std::error::Error;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

type Outcome = Result<(), Box<dyn Error>>;

struct Place {
    dir: TempDir,
}

impl Place {
    fn new() -> Result<Place, Box<dyn Error>> {
        let place = Place { dir: temp_dir()? };
        fs::create_dir_all(place.work())?;
        place.ok(&["init"])?;
        Ok(place)
    }

    /// Two branches, `main` and `side`, that have changed the same files; on `main`.
    fn diverged(
        base: &[(&str, &str)],
        ours: &[(&str, &str)],
        theirs: &[(&str, &str)],
    ) -> Result<Place, Box<dyn Error>> {
        let place = Place::new()?;
        place.set(base)?;
        place.ok(&["commit", "--allow-empty", "-m", "base"])?;
        place.ok(&["branch", "side"])?;
        place.set(ours)?;
        place.ok(&["commit", "-m", "ours"])?;
        place.ok(&["checkout", "side"])?;
        place.set(theirs)?;
        place.ok(&["commit", "-m", "theirs"])?;
        place.ok(&["checkout", "main"])?;
        Ok(place)
    }

    fn work(&self) -> PathBuf {
        self.dir.path().join("work")
    }

    fn run(&self, args: &[&str]) -> Result<Output, Box<dyn Error>> {
        let mut command = Command::new(env!("CARGO_BIN_EXE_dmv"));
        command
            .args(args)
            .current_dir(self.work())
            .env_clear()
            .env("HOME", self.dir.path())
            .env("USER", "ada")
            .env("NO_COLOR", "1")
            .stdin(Stdio::null());
        Ok(command.output()?)
    }

    fn ends(&self, exit: i32, args: &[&str]) -> Result<(String, String), Box<dyn Error>> {
        let output = self.run(args)?;
        let (out, errors) = (
            String::from_utf8(output.stdout)?,
            String::from_utf8(output.stderr)?,
        );
        assert_eq!(output.status.code(), Some(exit), "{args:?}: {out}{errors}");
        Ok((out, errors))
    }

    fn ok(&self, args: &[&str]) -> Result<String, Box<dyn Error>> {
        Ok(self.ends(0, args)?.0)
    }

    fn json(&self, exit: i32, args: &[&str]) -> Result<Value, Box<dyn Error>> {
        Ok(serde_json::from_str(
            &self.ends(exit, &[args, &["--json"]].concat())?.0,
        )?)
    }

    /// Writes files; a dash for content deletes.
    fn set(&self, files: &[(&str, &str)]) -> Outcome {
        for (path, content) in files {
            let path = self.work().join(path);
            if *content == "-" {
                fs::remove_file(path)?;
                continue;
            }
            fs::create_dir_all(path.parent().ok_or("no parent")?)?;
            fs::write(path, content)?;
        }
        Ok(())
    }

    fn read(&self, path: &str) -> Option<String> {
        fs::read_to_string(self.work().join(path)).ok()
    }

    fn names(&self) -> Result<Vec<String>, Box<dyn Error>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(self.work())? {
            names.push(entry?.file_name().to_string_lossy().into_owned());
        }
        names.retain(|name| name != ".dmv");
        names.sort();
        Ok(names)
    }

    /// Changes and conflicts as `status` tells them.
    fn status(&self) -> Result<(Vec<String>, Vec<String>), Box<dyn Error>> {
        let status = self.json(0, &["status"])?;
        let list = |key: &str| -> Vec<String> {
            let text = |v: &Value| {
                let path = v["path"].as_str().unwrap_or_default();
                match v["change"].as_str() {
                    Some(change) => format!("{change} {path}"),
                    None => path.to_owned(),
                }
            };
            status[key]
                .as_array()
                .map_or(Vec::new(), |all| all.iter().map(text).collect())
        };
        Ok((list("changes"), list("conflicts")))
    }
}

#[test]
fn a_merge_has_two_parents_and_both_changes_and_is_taken_back_towards_either() -> Outcome {
    let place = Place::diverged(
        &[("a", "1"), ("b", "1"), ("t", "1\n2\n3\n")],
        &[("a", "2"), ("t", "x\n2\n3\n")],
        &[("b", "2"), ("d/new", "n"), ("t", "1\n2\ny\n")],
    )?;
    place.set(&[("mine", "not committed")])?;
    let merged = place.json(0, &["merge", "side"])?;
    assert_eq!(
        (&merged["fast_forward"], &merged["conflicts"]),
        (&false.into(), &Value::Array(vec![]))
    );
    assert_eq!(place.read("t").as_deref(), Some("x\n2\ny\n"));
    assert_eq!(
        (place.read("a"), place.read("b"), place.read("d/new")),
        (Some("2".into()), Some("2".into()), Some("n".into()))
    );
    assert_eq!(place.status()?.0, ["added mine"]);
    let log = place.ok(&["log", "-n", "1", "--json"])?;
    let log: Value = serde_json::from_str(&log)?;
    assert_eq!(log["parents"].as_array().map(Vec::len), Some(2));
    assert_eq!(log["message"], "Merge branch 'side' into main");
    assert_eq!(place.json(0, &["merge", "side"])?["up_to_date"], true);
    place.ok(&["verify"])?;
    // It is taken back towards the parent that is named.
    let (_, errors) = place.ends(2, &["revert", "@"])?;
    assert!(errors.contains("2 parents"), "{errors}");
    place.ends(2, &["revert", "@", "-m", "3"])?;
    let done = place.json(0, &["revert", "@", "-m", "1"])?;
    assert_eq!(done["conflicts"], Value::Array(vec![]));
    assert_eq!(place.names()?, ["a", "b", "mine", "t"]);
    assert_eq!(place.read("t").as_deref(), Some("x\n2\n3\n"));
    assert!(place.ok(&["log", "-n", "1"])?.contains("Revert \"Merge "));
    let again = place.json(0, &["revert", "@~1", "-m", "1"])?;
    assert_eq!(again["up_to_date"], true);
    place.ok(&["undo"])?;
    // The other branch only has to be moved, and not when a merge commit is wanted.
    place.ok(&["checkout", "side"])?;
    assert_eq!(
        place.json(0, &["merge", "--no-ff", "main"])?["fast_forward"],
        false
    );
    place.ok(&["undo"])?;
    assert_eq!(
        place.json(0, &["merge", "--ff-only", "main"])?["fast_forward"],
        true
    );
    // The directory of the repository itself is a bare repository to whoever stands in it.
    place.set(&[("z", "1")])?;
    place.ok(&["commit", "-m", "z"])?;
    let merged = place.json(0, &["-C", ".dmv", "merge", "--no-ff", "side"])?;
    assert_eq!(merged["conflicts"], Value::Array(vec![]));
    Ok(())
}

#[test]
fn conflicts_are_committed_shown_carried_on_and_settled() -> Outcome {
    let place = Place::diverged(
        &[
            ("t", "1\n2\n3\n"),
            ("m", "\0base"),
            ("gone", "1"),
            ("k", "1"),
        ],
        &[("t", "1\nours\n3\n"), ("m", "\0ours"), ("gone", "-")],
        &[("t", "1\ntheirs\n3\n"), ("m", "\0theirs"), ("gone", "2")],
    )?;
    let merged = place.json(4, &["merge", "side"])?;
    let kinds: Vec<&str> = merged["conflicts"]
        .as_array()
        .ok_or("no list")?
        .iter()
        .filter_map(|c| c["kind"].as_str())
        .collect();
    assert_eq!(kinds, ["delete/modify", "content", "content"]);
    let shown = [
        "gone.base",
        "gone.theirs",
        "k",
        "m",
        "m.base",
        "m.ours",
        "m.theirs",
        "t",
        "t.base",
        "t.ours",
        "t.theirs",
    ];
    assert_eq!(place.names()?, shown);
    assert_eq!(place.read("m").as_deref(), Some("\0ours"));
    let marked = "1\n<<<<<<< ours\nours\n||||||| base\n2\n=======\ntheirs\n>>>>>>> theirs\n3\n";
    assert_eq!(place.read("t").as_deref(), Some(marked));
    let open = vec!["gone".to_owned(), "m".into(), "t".into()];
    assert_eq!(place.status()?, (vec![], open.clone()));
    // Nothing of it is news, and other work goes on.
    assert_eq!(
        place.json(0, &["commit", "-m", "x"])?["commit"],
        Value::Null
    );
    place.set(&[("k", "2")])?;
    let (_, errors) = place.ends(0, &["commit", "-m", "go on"])?;
    assert!(errors.contains("3 conflicts are unresolved"), "{errors}");
    assert_eq!(place.names()?, shown);
    assert_eq!(
        place.ok(&["conflicts", "main", "--json"])?.lines().count(),
        3
    );
    // An edit with markers left is neither lost nor taken.
    let half = marked.replace("ours\nours", "ours\nbetter");
    place.set(&[("t", &half), ("k", "3")])?;
    let (_, errors) = place.ends(4, &["commit", "-m", "half"])?;
    assert!(
        errors.contains("t:2 still has a conflict marker"),
        "{errors}"
    );
    assert_eq!(place.read("t"), Some(half.clone()));
    assert_eq!(place.status()?, (vec!["modified t".into()], open.clone()));
    let (_, errors) = place.ends(5, &["resolve", "t", "--ours"])?;
    assert!(errors.contains("t is not overwritten"), "{errors}");
    // By hand, by choice, by deletion of what is beside it.
    place.set(&[
        ("t", "1\nboth\n3\n"),
        ("m.ours", "-"),
        ("m.base", "-"),
        ("m.theirs", "-"),
    ])?;
    place.ok(&["resolve", "gone", "--theirs"])?;
    let changes = ["modified gone", "modified m", "modified t"].map(str::to_owned);
    assert_eq!(place.status()?, (changes.to_vec(), vec![]));
    let done = place.json(0, &["commit", "-m", "settled"])?;
    assert_eq!(
        (done["resolved"].as_array().map(Vec::len), &done["files"]),
        (Some(3), &3.into())
    );
    assert_eq!(place.names()?, ["gone", "k", "m", "t"]);
    assert_eq!(place.status()?, (vec![], vec![]));
    assert_eq!(place.ok(&["conflicts"])?, "no conflicts\n");
    assert_eq!(place.ok(&["ls", "-r"])?.lines().count(), 4);
    place.ok(&["verify"])?;
    // Back in time it is shown again, and goes away again.
    place.ok(&["checkout", "@~1"])?;
    assert_eq!(place.names()?, shown);
    assert_eq!(place.status()?, (vec![], open));
    place.ok(&["checkout", "main"])?;
    assert_eq!(place.names()?, ["gone", "k", "m", "t"]);
    Ok(())
}

#[test]
fn a_conflict_is_shown_with_its_versions_and_each_can_be_read() -> Outcome {
    let place = Place::diverged(
        &[("a", "1\n"), ("k", "1")],
        &[("a", "2\n"), ("k", "-")],
        &[("a", "3\n"), ("k", "2")],
    )?;
    place.ends(4, &["merge", "side"])?;
    let id = |rev: &str| -> Result<String, Box<dyn Error>> {
        Ok(place.ok(&["log", "-n", "1", "--oneline", rev])?[..12].to_owned())
    };
    let shown = place.ok(&["show"])?;
    assert!(shown.contains("unresolved: content\n"), "{shown}");
    for (name, rev) in [("ours  ", "@^1"), ("theirs", "side"), ("base  ", "@~2")] {
        let line = format!("  {name}  file, 2 B, as in {}\n", id(rev)?);
        assert!(shown.contains(&line), "{line}: {shown}");
    }
    assert!(shown.contains("unresolved: delete/modify\n  ours    nothing\n"));
    let shown = place.json(0, &["show"])?;
    let versions = &shown["changes"][0]["conflict"]["versions"];
    assert_eq!(versions[1]["name"], "theirs");
    assert!(place.ok(&["diff", "side", "@"])?.contains("unresolved"));
    assert!(
        place
            .ok(&["show", "--stat"])?
            .contains(" a | conflict (content)\n")
    );
    let (_, errors) = place.ends(20, &["cat", "@:k"])?;
    assert!(
        errors.contains("hint: dmv cat @:k --side theirs"),
        "{errors}"
    );
    assert_eq!(place.ok(&["cat", "@:k", "--side", "theirs"])?, "2");
    assert_eq!(place.ok(&["cat", "@:a", "--side", "base"])?, "1\n");
    place.ends(20, &["cat", "@:k", "--side", "ours"])?;
    place.ends(2, &["cat", "@:k", "--side", "side3"])?;
    place.ends(20, &["cat", "side:a", "--side", "ours"])?;
    Ok(())
}

#[test]
fn a_merge_into_a_branch_without_commits_takes_the_other() -> Outcome {
    let place = Place::new()?;
    place.set(&[("a", "1")])?;
    place.ok(&["commit", "-m", "one"])?;
    let other = place.dir.path().join("other");
    let other = other.to_str().ok_or("path")?;
    place.ok(&["init", other])?;
    let there = |exit: i32, args: &[&str]| place.ends(exit, &[&["-C", other], args].concat());
    there(0, &["remote", "add", "origin", "../work"])?;
    there(0, &["fetch"])?;
    // Work that is not committed is not overwritten, here neither.
    fs::write(format!("{other}/a"), "mine")?;
    let (_, errors) = there(5, &["merge", "origin/main"])?;
    assert!(errors.contains("in a"), "{errors}");
    fs::remove_file(format!("{other}/a"))?;
    fs::write(format!("{other}/b"), "mine")?;
    let (out, _) = there(0, &["merge", "origin/main"])?;
    assert!(out.starts_with("fast-forward: main is at"), "{out}");
    assert_eq!(fs::read(format!("{other}/a"))?, b"1");
    assert!(there(0, &["status"])?.0.contains("added     b"));
    there(0, &["undo"])?;
    assert!(there(0, &["status"])?.0.contains("no commits yet"));
    let unborn = there(20, &["revert", "@"])?.1;
    assert!(unborn.contains("there is no commit yet"), "{unborn}");
    Ok(())
}
