//! Each file under `.dmv` lost, or put back from an earlier time: every command says what to do next,
//! `recover` leads out, and nothing is lost that the remaining files hold.

use crate::place::{Outcome, Place};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Files by their path below `.dmv`.
type Tree = BTreeMap<PathBuf, Vec<u8>>;

fn tree_of(dmv: &Path) -> Outcome<Tree> {
    let mut tree = Tree::new();
    let mut dirs = vec![dmv.to_owned()];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(dir)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                dirs.push(entry.path())
            } else {
                let name = entry.path().strip_prefix(dmv)?.to_owned();
                tree.insert(name, fs::read(entry.path())?);
            }
        }
    }
    Ok(tree)
}

fn put(dmv: &Path, tree: &Tree) -> Outcome {
    fs::remove_dir_all(dmv)?;
    for dir in ["packs", "index", "worktrees/main"] {
        fs::create_dir_all(dmv.join(dir))?;
    }
    for (name, content) in tree {
        let path = dmv.join(name);
        fs::create_dir_all(path.parent().ok_or("it has one")?)?;
        fs::write(path, content)?;
    }
    Ok(())
}

/// What is in the repository: content of the file `f` by commit.
type Commits = BTreeMap<String, String>;

fn commit(place: &Place, content: &str) -> Outcome<String> {
    place.write("f", content)?;
    // In the one repository so many commits are made that indexes are merged.
    place.commit(content)
}

/// Runs a command; if it fails, it must say what to do next. Whether it did its work.
fn helps(place: &Place, when: &str, args: &[&str]) -> Outcome<Option<Value>> {
    let args = [args, &["--json"]].concat();
    let output = place.run(&args)?;
    let code = output.status.code();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    if code == Some(0) {
        return Ok(Some(
            serde_json::from_slice(&output.stdout).unwrap_or(Value::Null),
        ));
    }
    if args[0] == "verify" && code == Some(7) {
        return Ok(None);
    }
    let last = errors.lines().last().unwrap_or_default();
    let said: Value =
        serde_json::from_str(last).map_err(|_| format!("{when}: {args:?}: {errors}"))?;
    let hint = said["hint"].as_str();
    assert!(hint.is_some(), "{when}: {args:?} says no way out: {errors}");
    assert_ne!(code, Some(20), "{when}: {args:?}: {errors}");
    Ok(None)
}

/// What is left of the packs.
enum Left {
    /// Everything.
    Packs,
    /// Some of it is gone.
    Less,
}

fn survives(place: &Place, when: &str, commits: &Commits, left: &Left) -> Outcome {
    for args in [&["status"][..], &["log"]] {
        helps(place, when, args)?;
    }
    let mut commits = commits.clone();
    place.write("f", "after")?;
    if let Some(done) = helps(place, when, &["commit", "-m", "after"])?
        && let Some(id) = done["commit"].as_str()
    {
        commits.insert(id.to_owned(), "after".to_owned());
    }
    helps(place, when, &["verify", "--full"])?;
    let recovered = helps(place, when, &["recover"])?;
    if matches!(left, Left::Less) {
        helps(place, when, &["log"])?;
        return Ok(());
    }
    assert!(recovered.is_some(), "{when}: recover");
    for args in [&["status"][..], &["log"], &["verify", "--full"]] {
        let done = place.run(args)?;
        let errors = String::from_utf8_lossy(&[done.stdout, done.stderr].concat()).into_owned();
        assert!(done.status.success(), "{when}: {args:?}: {errors}");
    }
    let id = commit(place, when)?;
    commits.insert(id, when.to_owned());
    for (id, content) in &commits {
        let read = place.ok(&["cat", &format!("{id}:f")])?;
        assert_eq!(&read, content, "{when}");
    }
    // What is there now is whole without the database, too.
    fs::remove_file(place.work().join(".dmv/refs.db"))?;
    place.ok(&["recover"])?;
    for (id, content) in &commits {
        let read = place.ok(&["cat", &format!("{id}:f")])?;
        assert_eq!(&read, content, "{when}, without the database");
    }
    Ok(())
}

#[test]
fn whichever_file_is_lost_or_older_what_the_others_hold_is_not_lost() -> Outcome {
    let place = Place::with_repository()?;
    let dmv = place.work().join(".dmv");
    let mut commits = Commits::new();
    let mut make = |n: usize| -> Outcome {
        let content = format!("content {n}");
        commits.insert(commit(&place, &content)?, content);
        Ok(())
    };
    (0..2).try_for_each(&mut make)?;
    place.ok(&["config", "set", "user.name", "Ada"])?;
    let older = tree_of(&dmv)?;
    (2..4).try_for_each(&mut make)?;
    place.ok(&["tag", "one"])?;
    let now = tree_of(&dmv)?;
    let log = now["format".as_ref() as &Path].clone();
    let log = String::from_utf8(log)?;
    let id = log
        .lines()
        .nth(1)
        .and_then(|line| line.strip_prefix("id "))
        .ok_or("no id")?;
    let is_data = |name: &Path| name.starts_with("packs") && !name.ends_with(format!("{id}.pack"));
    let left = |is_less| if is_less { Left::Less } else { Left::Packs };
    for name in now.keys() {
        put(&dmv, &now)?;
        fs::remove_file(dmv.join(name))?;
        let when = format!("{} lost", name.display());
        survives(&place, &when, &commits, &left(is_data(name)))?;
    }
    for (name, content) in older
        .iter()
        .filter(|(name, old)| now.get(*name) != Some(*old))
    {
        put(&dmv, &now)?;
        fs::write(dmv.join(name), content)?;
        let when = format!("{} older", name.display());
        survives(&place, &when, &commits, &left(is_data(name)))?;
    }
    for name in ["packs", "index", "worktrees", "worktrees/main"] {
        put(&dmv, &now)?;
        fs::remove_dir_all(dmv.join(name))?;
        let when = format!("{name} lost");
        survives(&place, &when, &commits, &left(name == "packs"))?;
    }
    Ok(())
}

/// The operation log of the repository at `dmv`.
fn log_of(dmv: &Path) -> Outcome<PathBuf> {
    let format = fs::read_to_string(dmv.join("format"))?;
    let id = format.lines().find_map(|line| line.strip_prefix("id "));
    Ok(dmv.join(format!("packs/{}.pack", id.ok_or("no id")?)))
}

fn lose_both(dmv: &Path) -> Outcome {
    fs::remove_file(log_of(dmv)?)?;
    for name in ["refs.db", "refs.db-wal", "refs.db-shm"] {
        let _ = fs::remove_file(dmv.join(name));
    }
    Ok(())
}

#[test]
fn a_repository_without_database_and_log_goes_on_after_a_recovery() -> Outcome {
    let place = Place::new()?;
    place.ok(&["init", "full"])?;
    for n in 0..4 {
        place.write("full/a/file", format!("content {n}"))?;
        place.write("full/b/file", format!("other {n}"))?;
        place.ok(&["-C", "full", "commit", "-m", &n.to_string()])?;
    }
    place.ok(&["clone", "full", "short", "--depth", "2"])?;
    place.ok(&["clone", "full", "part", "--subset", "a"])?;
    place.ok(&["clone", "--copy", "full", "bare", "--bare"])?;
    for name in ["full", "short", "part", "bare"] {
        let dmv = match name {
            "bare" => place.work().join(name),
            _ => place.work().join(name).join(".dmv"),
        };
        let ok = |args: &[&str]| place.ok(&[&["-C", name], args].concat());
        let before = ok(&["log", "--json"])?;
        lose_both(&dmv)?;
        let said = place.fails(7, &["-C", name, "log"])?;
        assert!(said.contains("hint: dmv recover"), "{name}: {said}");
        let said = ok(&["recover"])?;
        assert!(said.contains("created branch recovered/"), "{name}: {said}");
        let ids = |log: &str| -> Outcome<Vec<Value>> {
            let commits = log.lines().map(serde_json::from_str::<Value>);
            commits
                .map(|c| Ok(c?["id"].clone()))
                .collect::<Outcome<_>>()
        };
        assert_eq!(ids(&ok(&["log", "--json"])?)?, ids(&before)?, "{name}");
        ok(&["verify", "--full"])?;
        if name != "bare" {
            let status: Value = serde_json::from_str(&ok(&["status", "--json"])?)?;
            assert_eq!(status["changes"], json!([]), "{name}: {status}");
            place.write(format!("{name}/a/file"), "edited")?;
            ok(&["commit", "-m", "after"])?;
        }
        ok(&["verify", "--full"])?;
    }
    // What others get from there is whole.
    for name in ["full", "bare"] {
        place.ok(&["clone", name, "copy"])?;
        place.ok(&["-C", "copy", "verify", "--full"])?;
        fs::remove_dir_all(place.work().join("copy"))?;
    }
    Ok(())
}
