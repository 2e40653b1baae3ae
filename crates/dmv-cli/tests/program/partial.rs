//! Clones that hold a part of a repository, as a user makes and uses them.

use crate::place::{Outcome, Place};
use std::fs;

/// A directory with the repository `full`: ten directories of ten files, three commits.
fn place() -> Outcome<Place> {
    let place = Place::new()?;
    place.ok(&["init", "full"])?;
    for n in 0..100 {
        let text = format!("file {n} ").repeat(40);
        place.write(format!("full/d{}/f{n:02}", n / 10), text)?;
    }
    commit(&place, "full", "one")?;
    place.write("full/d7/f70", "two")?;
    commit(&place, "full", "two")?;
    place.write("full/d3/f30", "three")?;
    commit(&place, "full", "three")?;
    Ok(place)
}

fn commit(place: &Place, repo: &str, message: &str) -> Outcome<String> {
    let done = place.json(&["-C", repo, "commit", "-m", message, "--json"])?;
    Ok(done["commit"].as_str().ok_or("nothing to commit")?.into())
}

fn tip(place: &Place, repo: &str) -> Outcome<String> {
    let record = place.json(&["-C", repo, "log", "-n", "1", "--json"])?;
    Ok(record["id"].as_str().ok_or("it has an id")?.into())
}

/// Checks a repository, which is whole for what it is to hold; returns how much is absent.
fn verified(place: &Place, repo: &str) -> Outcome<u64> {
    let report = place.json(&["-C", repo, "verify", "--full", "--json"])?;
    assert_eq!(
        (&report["ok"], &report["missing"]),
        (&true.into(), &serde_json::json!([]))
    );
    Ok(report["absent"].as_u64().ok_or("it counts")?)
}

#[test]
fn a_slice_is_cloned_edited_committed_pushed_and_pulled() -> Outcome {
    let place = place()?;
    let cloned = place.json(&["clone", "full", "part", "--subset", "d3", "--json"])?;
    assert_eq!(cloned["files"], 10);
    assert_eq!(cloned["partial"]["subset"], serde_json::json!(["d3"]));
    // Three commits, their roots, one directory in two states, eleven files.
    assert_eq!(cloned["objects_received"], 3 + 3 + 2 + 11);
    assert!(verified(&place, "part")? >= 9);
    let names: Vec<_> = fs::read_dir(place.work().join("part"))?
        .map(|e| e.map(|e| e.file_name()))
        .collect::<Result<_, _>>()?;
    assert_eq!(names.len(), 2, "{names:?}");
    let status = place.json(&["-C", "part", "status", "--json"])?;
    assert_eq!(status["clean"], true);
    assert_eq!(status["partial"]["subset"], serde_json::json!(["d3"]));
    assert_eq!(
        place.json(&["-C", "full", "status", "--json"])?["partial"],
        serde_json::Value::Null
    );
    // What is done in the slice gives the commit that the same work gives in a whole clone.
    place.ok(&["clone", "full", "whole"])?;
    for repo in ["part", "whole"] {
        place.write(format!("{repo}/d3/f31"), "edited")?;
        fs::remove_file(place.work().join(repo).join("d3/f32"))?;
        place.write(format!("{repo}/d3/new/file"), "new")?;
        commit(&place, repo, "in the slice")?;
    }
    let tree = |repo: &str| -> Outcome<serde_json::Value> {
        Ok(place.json(&["-C", repo, "log", "-n", "1", "--json"])?["tree"].clone())
    };
    assert_eq!(tree("part")?, tree("whole")?);
    let pushed = place.json(&["-C", "part", "push", "--json"])?;
    assert_eq!(pushed["refs"][0]["refused"], serde_json::Value::Null);
    assert_eq!(tip(&place, "full")?, tip(&place, "part")?);
    verified(&place, "full")?;
    // Others work elsewhere; a pull brings the commit and nothing of their files.
    place.ok(&["-C", "full", "checkout", "main", "--force"])?;
    place.write("full/d8/f80", "elsewhere")?;
    commit(&place, "full", "elsewhere")?;
    let pulled = place.json(&["-C", "part", "pull", "--json"])?;
    assert_eq!(pulled["objects_received"], 2);
    assert_eq!(tip(&place, "part")?, tip(&place, "full")?);
    verified(&place, "part")?;
    Ok(())
}

#[test]
fn a_clone_of_limited_depth_knows_where_history_ends() -> Outcome {
    let place = place()?;
    for n in 4..8 {
        place.write("full/d1/f10", n.to_string())?;
        commit(&place, "full", &n.to_string())?;
    }
    let cloned = place.json(&["clone", "full", "short", "--depth", "2", "--json"])?;
    assert_eq!(
        (&cloned["files"], &cloned["partial"]["boundary"]),
        (&100.into(), &1.into())
    );
    assert_eq!(place.records(&["-C", "short", "log", "--json"])?.len(), 2);
    assert_eq!(verified(&place, "short")?, 1);
    place.write("short/d1/f10", "new")?;
    commit(&place, "short", "new")?;
    place.ok(&["-C", "short", "push"])?;
    verified(&place, "full")?;
    // A branch that parted before the boundary brings the days since then, not all of history.
    place.ok(&["-C", "full", "branch", "side", "@~5"])?;
    place.ok(&["-C", "full", "checkout", "side", "--force"])?;
    place.write("full/d2/f20", "side")?;
    commit(&place, "full", "side")?;
    place.ok(&["-C", "short", "fetch"])?;
    verified(&place, "short")?;
    place.ok(&["-C", "short", "checkout", "origin/side"])?;
    // From a repository without old commits a new one can be made that wants no more.
    let error = place.fails(6, &["clone", "short", "all"])?;
    assert!(
        error.contains("a partial repository: history without the parents of 1 commit"),
        "{error}"
    );
    assert!(
        error.contains("hint: dmv clone short all --depth 1"),
        "{error}"
    );
    place.ok(&[
        "clone", "short", "shorter", "--depth", "1", "--branch", "main",
    ])?;
    verified(&place, "shorter")?;
    Ok(())
}

#[test]
fn history_is_deepened_up_to_all_of_it() -> Outcome {
    let place = place()?;
    for n in 4..10 {
        place.write("full/d1/f10", n.to_string())?;
        commit(&place, "full", &n.to_string())?;
    }
    place.ok(&["clone", "full", "short", "--depth", "2"])?;
    let commits =
        || -> Outcome<usize> { Ok(place.records(&["-C", "short", "log", "--json"])?.len()) };
    place.write("short/d2/f20", "mine")?;
    commit(&place, "short", "mine")?;
    assert_eq!(commits()?, 3);
    place.ok(&["-C", "short", "fetch", "--depth", "5"])?;
    assert_eq!((commits()?, verified(&place, "short")?), (6, 1));
    // Less than there is changes nothing, which is said, with what does.
    let told = || -> Outcome<String> {
        let output = place.run(&["-C", "short", "fetch", "--depth", "1"])?;
        Ok(String::from_utf8(output.stderr)?)
    };
    let (said, stays) = (
        told()?,
        "history stays at 5 commits: --depth and --since remove",
    );
    assert!(said.contains(stays), "{said}");
    let less = said
        .split("make a new clone: dmv ")
        .nth(1)
        .ok_or("no command")?;
    let less = less
        .lines()
        .next()
        .unwrap_or_default()
        .replace("DIR", "less");
    place.ok(&less.split(' ').collect::<Vec<_>>())?;
    let few = place.records(&["-C", "less", "log", "--json"])?;
    assert_eq!((few.len(), verified(&place, "less")?), (1, 1));
    let same = place.run(&["-C", "short", "fetch", "--depth", "5"])?;
    let same = String::from_utf8(same.stderr)?;
    assert!(!same.contains("history stays"), "{same}");
    let since = ["-C", "short", "fetch", "--since", "2099-01-01"];
    let since = String::from_utf8(place.run(&since)?.stderr)?;
    assert!(since.contains("DIR --since 20"), "{since}");
    assert_eq!((commits()?, verified(&place, "short")?), (6, 1));
    // A branch from before: where the two meet is not known here, which is said and no merge.
    place.ok(&["-C", "full", "checkout", "@~7", "--force"])?;
    place.ok(&["-C", "full", "branch", "old"])?;
    place.ok(&["-C", "full", "checkout", "old"])?;
    place.write("full/d5/f50", "old")?;
    commit(&place, "full", "old")?;
    place.ok(&["-C", "short", "fetch"])?;
    let error = place.fails(6, &["-C", "short", "merge", "origin/old"])?;
    assert!(error.contains("fetch --all-history"), "{error}");
    place.ok(&["-C", "short", "fetch", "--all-history"])?;
    assert_eq!((commits()?, verified(&place, "short")?), (10, 0));
    // Nor does it take away from a complete history, and says so.
    let said = told()?;
    assert!(
        said.contains("--depth and --since remove no commits"),
        "{said}"
    );
    assert_eq!((commits()?, verified(&place, "short")?), (10, 0));
    let status = place.json(&["-C", "short", "status", "--json"])?;
    assert_eq!(status["partial"], serde_json::Value::Null);
    place.ok(&["-C", "short", "merge", "origin/old", "-m", "old"])?;
    verified(&place, "short")?;
    Ok(())
}

/// Makes a branch of some commits that begins before the last two of `main`.
fn branch_off(place: &Place, repo: &str, name: &str, commits: usize) -> Outcome {
    place.ok(&["-C", repo, "checkout", "main~2", "--force"])?;
    place.ok(&["-C", repo, "checkout", "-b", name])?;
    for n in 0..commits {
        place.write(format!("{repo}/d5/f50"), format!("{name} {n}"))?;
        commit(place, repo, name)?;
    }
    place.ok(&["-C", repo, "checkout", "main", "--force"])?;
    Ok(())
}

#[test]
fn of_a_branch_that_is_gone_no_end_of_history_is_left() -> Outcome {
    let place = place()?;
    place.ok(&["clone", "full", "other"])?;
    branch_off(&place, "other", "old", 3)?;
    branch_off(&place, "full", "near", 2)?;
    branch_off(&place, "full", "far", 4)?;
    place.ok(&["clone", "full", "short", "--depth", "2"])?;
    for name in ["near", "far"] {
        place.ok(&["-C", "full", "branch", "-d", name])?;
    }
    place.ok(&["-C", "short", "fetch", "--prune"])?;
    place.ok(&["-C", "short", "fetch", "--all-history"])?;
    let partial = || -> Outcome<serde_json::Value> {
        Ok(place.json(&["-C", "short", "status", "--json"])?["partial"].clone())
    };
    assert_eq!(partial()?, serde_json::Value::Null);
    // Of one of the two everything has come, and of the other it would be needed again.
    let slice = fs::read_to_string(place.work().join("short/.dmv/slice"))?;
    assert_eq!(slice.matches("boundary ").count(), 1, "{slice}");
    // An older branch comes with all of its history: the end of the other does not count.
    place.ok(&["-C", "other", "push", "origin", "old"])?;
    place.ok(&["-C", "short", "fetch"])?;
    assert_eq!(partial()?, serde_json::Value::Null);
    verified(&place, "short")?;
    // Named again, it ends where it ended.
    let operations = place.records(&["-C", "short", "op", "log", "--json"])?;
    let is_prune = |op: &&serde_json::Value| op["command"].to_string().contains("--prune");
    let prune = operations.iter().find(is_prune).ok_or("it was logged")?;
    place.ok(&["-C", "short", "undo", prune["id"].as_str().ok_or("an id")?])?;
    assert_eq!(partial()?["boundary"], 1);
    verified(&place, "short")?;
    Ok(())
}

#[test]
fn what_parts_lack_is_told_of_and_not_read_and_the_options_of_a_clone_combine() -> Outcome {
    let place = place()?;
    let limits = ["--subset", "d3", "--meta-only", "--depth", "1"];
    place.ok(&[&["clone", "full", "index"][..], &limits].concat())?;
    let listed = place.records(&["-C", "index", "ls", "-r", "--json"])?;
    assert_eq!(listed.len(), 10);
    verified(&place, "index")?;
    // What is left out is not here, and nobody can tell whether it would be there.
    place.ok(&["-C", "index", "subset", "set", "d3", "!d7/none"])?;
    place.ok(&["-C", "index", "status", "--exit-code"])?;

    // What is not here is told of, and not read.
    place.ok(&["clone", "full", "part", "--subset", "d3"])?;
    let listed = place.records(&["-C", "part", "ls", "-r", "--json"])?;
    assert_eq!(listed.len(), 10);
    assert_eq!(place.records(&["-C", "part", "ls", "--json"])?.len(), 10);
    assert_eq!(place.json(&["-C", "part", "du", "--json"])?["files"], 10);
    let output = place.run(&["-C", "part", "diff", "@~2", "@", "--stat"])?;
    let (text, note) = (
        String::from_utf8(output.stdout)?,
        String::from_utf8(output.stderr)?,
    );
    assert!(text.contains("d3/f30") && !text.contains("d7"), "{text}");
    assert!(
        note.contains("absent from this repository: d7 (1 directory)"),
        "{note}"
    );
    place.ok(&["-C", "part", "show", "@~1"])?;
    place.fails(
        6,
        &["-C", "part", "export", "--offline", "@", "--to", "out"],
    )?;
    place.ok(&["-C", "part", "export", "@", "--to", "out", "--subset", "d3"])?;

    // A clone since a day has the state before it as well.
    let cloned = place.json(&["clone", "full", "new", "--since", "2100-01-01", "--json"])?;
    assert_eq!(cloned["partial"]["boundary"], 1);
    assert_eq!(place.records(&["-C", "new", "log", "--json"])?.len(), 1);
    place.ok(&["clone", "full", "old", "--since", "2000-01-01"])?;
    assert_eq!(place.records(&["-C", "old", "log", "--json"])?.len(), 3);
    assert_eq!(
        place.json(&["-C", "old", "stats", "--json"])?["partial"],
        serde_json::Value::Null
    );
    place.fails(2, &["clone", "full", "no", "--since", "some day"])?;
    place.fails(
        2,
        &[
            "clone",
            "full",
            "no",
            "--since",
            "2000-01-01",
            "--depth",
            "1",
        ],
    )?;
    place.fails(2, &["clone", "full", "no", "--depth", "0"])?;
    assert!(!place.work().join("no").exists());

    // A clone of metadata lists and tells without content.
    let cloned = place.json(&["clone", "full", "meta", "--meta-only", "--json"])?;
    assert_eq!(
        (&cloned["files"], &cloned["partial"]["metadata_only"]),
        (&0.into(), &true.into())
    );
    assert_eq!(fs::read_dir(place.work().join("meta"))?.count(), 1);
    assert!(verified(&place, "meta")? >= 100);
    let status = place.ok(&["-C", "meta", "status"])?;
    assert!(!status.contains("!**"), "{status}");
    for said in [
        "by choice; to write some: dmv subset add PATH",
        "dmv get PATH",
    ] {
        assert!(status.contains(said), "{said}: {status}");
    }
    assert_eq!(
        place.records(&["-C", "meta", "ls", "-r", "--json"])?.len(),
        100
    );
    assert_eq!(place.records(&["-C", "meta", "log", "--json"])?.len(), 3);
    assert_eq!(
        place
            .records(&["-C", "meta", "log", "--json", "--", "d7"])?
            .len(),
        2
    );
    let of = |repo: &str| place.ok(&["-C", repo, "du", "--json"]);
    let bytes =
        |text: String| serde_json::from_str::<serde_json::Value>(&text).map(|v| v["bytes"].clone());
    assert_eq!(bytes(of("meta")?)?, bytes(of("full")?)?);
    place.fails(6, &["-C", "meta", "cat", "--offline", "@:d3/f30"])?;
    let stat = place.ok(&["-C", "meta", "diff", "@~2", "@", "--stat"])?;
    assert!(stat.contains("d3/f30") && stat.contains("d7/f70"), "{stat}");
    // New commits come without content, too; work in it can be committed and pushed.
    place.write("full/d6/f60", "six")?;
    commit(&place, "full", "six")?;
    place.ok(&["-C", "meta", "pull"])?;
    verified(&place, "meta")?;
    assert_eq!(
        place.json(&["-C", "meta", "status", "--json"])?["clean"],
        true
    );
    Ok(())
}

#[test]
fn a_partial_repository_serves_what_it_has() -> Outcome {
    let place = place()?;
    place.ok(&["clone", "full", "part", "--subset", "d3", "d4"])?;
    place.ok(&["clone", "part", "less", "--subset", "d4"])?;
    verified(&place, "less")?;
    place.write("less/d4/f40", "changed")?;
    commit(&place, "less", "changed")?;
    place.ok(&["-C", "less", "push"])?;
    verified(&place, "part")?;
    place.ok(&["-C", "part", "push"])?;
    verified(&place, "full")?;
    assert_eq!(tip(&place, "less")?, tip(&place, "full")?);
    // More than it has is named and not made up.
    let error = place.fails(6, &["clone", "part", "more", "--subset", "d5"])?;
    assert!(
        error.contains("does not have") && error.contains("a partial repository: only d3 d4"),
        "{error}"
    );
    // What is certain before anything is sent is said then.
    let error = place.fails(6, &["clone", "part", "all"])?;
    assert!(!error.contains("does not have"), "{error}");
    assert!(
        error.contains("a partial repository: only d3 d4"),
        "{error}"
    );
    assert!(
        error.contains("hint: dmv clone part all --subset d3 d4"),
        "{error}"
    );
    assert!(!place.work().join("all").exists());
    place.ok(&["clone", "part", "same", "--subset", "d3", "d4"])?;
    let shown = place.records(&["-C", "less", "remote", "show", "--json"])?;
    let expected = serde_json::json!({
        "subset": ["d3", "d4"], "metadata_only": false, "boundary": 0, "dropped": 0
    });
    assert_eq!(shown[0]["partial"], expected);
    assert_eq!(
        (&shown[0]["full"], &shown[0]["access"]),
        (&false.into(), &"write".into())
    );
    place.ok(&["-C", "less", "remote", "add", "gone", "../none"])?;
    let output = place.run(&["-C", "less", "remote", "show"])?;
    assert_eq!(output.status.code(), Some(3));
    let said = String::from_utf8(output.stdout)?;
    assert!(said.contains("a partial repository: only d3 d4"), "{said}");
    assert!(said.contains("no answer: no repository at"), "{said}");
    place.fails(10, &["-C", "less", "remote", "show", "gone"])?;
    place.ok(&["-C", "less", "remote", "remove", "gone"])?;
    let said = place.ok(&["-C", "part", "remote", "show"])?;
    assert!(said.contains("a full repository\n"), "{said}");
    // Commits from elsewhere pass through it.
    place.ok(&["-C", "part", "checkout", "main"])?;
    place.ok(&["-C", "full", "checkout", "main", "--force"])?;
    place.write("full/d9/f90", "nine")?;
    commit(&place, "full", "nine")?;
    place.ok(&["-C", "part", "pull"])?;
    place.ok(&["-C", "less", "pull"])?;
    verified(&place, "less")?;
    Ok(())
}

/// `src`, whose branch `main` has conflicts in `b` and none in `a`. `other` can be merged into it.
fn with_conflicts() -> Outcome<Place> {
    let place = Place::new()?;
    place.ok(&["init", "src"])?;
    let write = |line: &str| -> Outcome {
        for path in ["b/g", "b/sub/h"] {
            place.write(format!("src/{path}"), format!("1\n{line}\n3\n"))?;
        }
        place.write("src/b/bin", format!("\0{line}"))
    };
    place.write("src/a/f", "a")?;
    write("2")?;
    place.ok(&["-C", "src", "commit", "-m", "base"])?;
    place.ok(&["-C", "src", "branch", "other"])?;
    place.ok(&["-C", "src", "branch", "side"])?;
    write("ours")?;
    place.ok(&["-C", "src", "commit", "-m", "ours"])?;
    place.ok(&["-C", "src", "checkout", "side"])?;
    write("theirs")?;
    place.ok(&["-C", "src", "commit", "-m", "theirs"])?;
    place.ok(&["-C", "src", "checkout", "other"])?;
    place.write("src/a/new", "new")?;
    place.ok(&["-C", "src", "commit", "-m", "new"])?;
    place.ok(&["-C", "src", "checkout", "main"])?;
    place.fails(4, &["-C", "src", "merge", "side"])?;
    Ok(place)
}

const CONFLICTS: [&str; 3] = ["b/bin", "b/g", "b/sub/h"];

fn conflicts(place: &Place, repo: &str) -> Outcome<Vec<String>> {
    let status = place.json(&["-C", repo, "status", "--json"])?;
    let all = status["conflicts"].as_array().ok_or("no list")?;
    let text = |value: &serde_json::Value| value["path"].as_str().unwrap_or_default().to_owned();
    Ok(all.iter().map(text).collect())
}

#[test]
fn conflicts_outside_of_a_slice_are_carried_on() -> Outcome {
    let place = with_conflicts()?;
    for more in [&["--depth", "1"][..], &["--meta-only"], &["--bare"], &[]] {
        fs::remove_dir_all(place.work().join("part")).ok();
        place.ok(&[&["clone", "src", "part", "--subset", "a"][..], more].concat())?;
        verified(&place, "part")?;
    }
    fn offline<'a>(args: &[&'a str]) -> Vec<&'a str> {
        [&["-C", "part", "--offline"][..], args].concat()
    }
    assert_eq!(conflicts(&place, "part")?, CONFLICTS);
    place.ok(&offline(&["log", "-p", "-n", "1"]))?;
    // A commit and a merge carry them on, though nobody is asked for what they are.
    place.write("part/a/mine", "mine")?;
    place.ok(&offline(&["commit", "-m", "mine"]))?;
    assert_eq!(conflicts(&place, "part")?, CONFLICTS);
    let merged = place.run(&offline(&["merge", "origin/other"]))?;
    assert_eq!(merged.status.code(), Some(4), "conflicts are left");
    let said = String::from_utf8(merged.stdout)?;
    assert!(CONFLICTS.iter().all(|path| said.contains(path)), "{said}");
    assert_eq!(conflicts(&place, "part")?, CONFLICTS);
    place.ok(&offline(&["checkout", "origin/other"]))?;
    assert_eq!(conflicts(&place, "part")?, [""; 0]);
    place.ok(&offline(&["checkout", "main"]))?;
    verified(&place, "part")?;
    // What they are comes when somebody asks.
    place.fails(6, &offline(&["resolve", "b/g", "--ours"]))?;
    place.fails(6, &offline(&["subset", "add", "b/sub"]))?;
    assert_eq!(
        place.records(&["-C", "part", "conflicts", "--json"])?.len(),
        3
    );
    place.ok(&["-C", "part", "subset", "add", "b/sub"])?;
    let shown = fs::read_to_string(place.work().join("part/b/sub/h"))?;
    assert!(
        shown.contains("ours") && shown.contains("theirs"),
        "{shown}"
    );
    place.ok(&["-C", "part", "resolve", "b/g", "--theirs"])?;
    place.ok(&["-C", "part", "resolve", "b/sub", "--ours"])?;
    place.ok(&["-C", "part", "commit", "-m", "settled"])?;
    assert_eq!(conflicts(&place, "part")?, ["b/bin"]);
    place.ok(&["-C", "part", "push"])?;
    place.ok(&["clone", "src", "whole"])?;
    assert_eq!(conflicts(&place, "whole")?, ["b/bin"]);
    assert_eq!(
        place.ok(&["-C", "whole", "cat", "@:b/g"])?,
        "1\ntheirs\n3\n"
    );
    place.ok(&["-C", "whole", "verify", "--full"])?;
    Ok(())
}

#[test]
fn a_part_gets_what_it_lacks_and_tells_what_it_has() -> Outcome {
    let place = place()?;
    // A push fetches first what it lacks and another remote has.
    place.ok(&["clone", "full", "light", "--meta-only"])?;
    for (name, command) in [("disk", "push"), ("other", "sync")] {
        place.ok(&["init", "--bare", name])?;
        place.ok(&["-C", "light", "remote", "add", name, &format!("../{name}")])?;
        let offline = place.fails(6, &["-C", "light", "--offline", command, name])?;
        assert!(offline.contains("absent"), "{offline}");
        fs::rename(place.work().join("full"), place.work().join("away"))?;
        let silent = place.fails(6, &["-C", "light", command, name])?;
        assert!(
            silent.contains("origin may have it, but did not answer"),
            "{silent}"
        );
        fs::rename(place.work().join("away"), place.work().join("full"))?;
        // What one push has fetched, the next one has.
        place.ok(&["-C", "light", command, name])?;
        assert_eq!(tip(&place, name)?, tip(&place, "full")?);
        assert_eq!(verified(&place, name)?, 0);
        place.ok(&["clone", "full", "fresh", "--meta-only"])?;
        fs::remove_dir_all(place.work().join("light"))?;
        fs::rename(place.work().join("fresh"), place.work().join("light"))?;
    }

    // What a worktree has beyond the slice is listed where it is here.
    place.ok(&["clone", "full", "part", "--subset", "d3"])?;
    let listed = |revision: &str| -> Outcome<(usize, serde_json::Value)> {
        let listed = place.records(&["-C", "part", "ls", "-r", revision, "--json"])?;
        let sum = place.json(&["-C", "part", "du", revision, "--json"])?;
        Ok((listed.len(), sum["files"].clone()))
    };
    place.ok(&["-C", "part", "subset", "add", "d7"])?;
    assert_eq!(listed("@")?, (20, 20.into()));
    // It has another d7, which is not brought for a listing.
    assert_eq!(listed("@~2")?, (10, 10.into()));
    let said = String::from_utf8(place.run(&["-C", "part", "du"])?.stderr)?;
    assert!(
        said.contains("stores: d3; and in a worktree d3 d7"),
        "{said}"
    );
    // What a worktree leaves out is here nevertheless.
    place.ok(&["-C", "part", "subset", "set", "d7", "!d3"])?;
    assert_eq!(listed("@")?, (20, 20.into()));
    place.ok(&["-C", "part", "subset", "clear"])?;
    assert_eq!(listed("@")?, (100, 100.into()));

    fs::remove_dir_all(place.work().join("part"))?;
    // What is lost is told from what is absent by choice.
    place.ok(&["clone", "full", "part", "--subset", "d3"])?;
    // Without its record a slice counts as a whole repository, and with a damaged one it says so.
    let record = place.work().join("part/.dmv/slice");
    let text = fs::read(&record)?;
    fs::write(&record, [&text[..text.len() - 3], b"00\n"].concat())?;
    let error = place.fails(7, &["-C", "part", "verify"])?;
    assert!(error.contains("slice is damaged"), "{error}");
    place.ok(&["-C", "part", "status"])?;
    place.write("part/d3/f30", "still works")?;
    commit(&place, "part", "still works")?;
    fs::remove_file(&record)?;
    place.fails(7, &["-C", "part", "verify"])?;
    fs::write(&record, text)?;
    verified(&place, "part")?;

    fs::remove_dir_all(place.work().join("part"))?;
    // A cut off partial clone is taken up by the same command.
    place.ok(&["clone", "full", "part", "--subset", "d3", "--depth", "1"])?;
    // As if it had been cut off before it noted what came.
    fs::remove_dir_all(place.work().join("part"))?;
    place.ok(&["init", "part"])?;
    let full = place.work().join("full");
    fs::write(
        place.work().join("part/.dmv/config.toml"),
        format!("[remotes.origin]\nurl = \"{}\"\n", full.display()),
    )?;
    let cloned = place.json(&[
        "clone", "full", "part", "--subset", "d3", "--depth", "1", "--json",
    ])?;
    assert_eq!(
        (&cloned["files"], &cloned["partial"]["boundary"]),
        (&10.into(), &1.into())
    );
    verified(&place, "part")?;
    // A finished one is no clone to be gone on with.
    place.fails(5, &["clone", "full", "part", "--subset", "d4"])?;
    place.ok(&["clone", "--bare", "full", "store", "--subset", "d3"])?;
    place.fails(5, &["clone", "--bare", "full", "store", "--subset", "d4"])?;
    place.ok(&["clone", "--bare", "full", "store", "--subset", "d3"])?;
    verified(&place, "store")?;
    Ok(())
}

#[test]
fn a_push_of_a_renamed_directory_of_many_lists_is_small() -> Outcome {
    let place = Place::new()?;
    place.ok(&["init", "full"])?;
    for n in 0..40_u32 {
        let noise =
            (0..200_000_u32).map(|at| at.wrapping_mul(0x9e37_79b9) ^ n.wrapping_mul(0x85eb_ca6b));
        let bytes: Vec<u8> = noise
            .flat_map(|x| x.wrapping_mul(x | 1).to_le_bytes())
            .collect();
        place.write(format!("full/a/f{n}"), bytes)?;
    }
    commit(&place, "full", "one")?;
    place.ok(&["init", "--bare", "disk"])?;
    place.ok(&["-C", "full", "remote", "add", "disk", "../disk"])?;
    place.ok(&["-C", "full", "push", "disk"])?;
    place.ok(&["-C", "full", "mv", "a", "b"])?;
    commit(&place, "full", "two")?;
    let done = place.json(&["-C", "full", "push", "disk", "--json"])?;
    assert!(done["bytes_sent"].as_u64() < Some(4 << 10), "{done}");
    place.ok(&["-C", "disk", "verify", "--full"])?;
    Ok(())
}
