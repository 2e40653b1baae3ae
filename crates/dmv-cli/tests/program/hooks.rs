//! Hooks: what the user's own programs hear and refuse, and that nobody else can name one.

use crate::place::several::tip;
use crate::place::{Outcome, Place};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// A script in the user's home that notes what it gets in `NAME.log`, and then does `body`.
fn script(place: &Place, name: &str, body: &str) -> Outcome<PathBuf> {
    let path = place.home().join(name);
    let text = format!("#!/bin/sh\ncat >> \"$HOME/{name}.log\"\n{body}\n");
    fs::write(&path, text)?;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
    Ok(path)
}

/// What a script has noted.
fn noted(place: &Place, name: &str) -> Outcome<Vec<Value>> {
    let text = fs::read_to_string(place.home().join(format!("{name}.log"))).unwrap_or_default();
    let parsed = text.lines().map(serde_json::from_str);
    Ok(parsed.collect::<Result<_, _>>()?)
}

/// The user's settings, made of hooks: the event, the rest of the lines.
fn configure(place: &Place, hooks: &[(&str, String)]) -> Outcome {
    let dir = place.home().join("config/dmv");
    fs::create_dir_all(&dir)?;
    let text: String = hooks
        .iter()
        .map(|(on, rest)| format!("[[hook]]\non = '{on}'\n{rest}\n"))
        .collect();
    Ok(fs::write(dir.join("config.toml"), text)?)
}

fn all(run: &Path) -> String {
    format!(
        "run = ['{}', 'x y', '$HOME']\nrepositories = 'all'",
        run.display()
    )
}

#[test]
fn hooks_run_in_order_and_hear_what_happens() -> Outcome {
    let mut place = Place::with_repository()?;
    let id = place.ok(&["id", "--repository"])?.trim().to_owned();
    let first = script(
        &place,
        "first",
        "echo \"$#:$2\" >> \"$HOME/order\"; pwd >> \"$HOME/order\"; env >> \"$HOME/env\"",
    )?;
    let second = script(&place, "second", "echo second >> \"$HOME/order\"")?;
    let other = script(&place, "other", "")?;
    let only =
        |run: &PathBuf, id: &str| format!("run = ['{}']\nrepositories = ['{id}']", run.display());
    configure(
        &place,
        &[
            ("pre-commit", all(&first)),
            ("post-commit", all(&first)),
            ("pre-commit", only(&second, &id)),
            ("pre-commit", only(&other, &"0".repeat(32))),
        ],
    )?;
    place.write("a.txt", "1\n")?;
    let commit = place.commit("it's a \"test\"")?;
    let heard = noted(&place, "first")?;
    assert_eq!(heard.len(), 2);
    assert_eq!(heard[0]["event"], "pre-commit");
    assert_eq!(heard[0]["repository"], *id);
    assert_eq!(heard[0]["root"], *place.work().to_string_lossy());
    assert_eq!(heard[0]["message"], "it's a \"test\"");
    assert_eq!(heard[0]["branch"], "main");
    assert_eq!(heard[0]["changes"][0]["path"], "a.txt");
    assert_eq!(heard[1]["event"], "post-commit");
    assert_eq!(heard[1]["commit"], *commit);
    assert_eq!(noted(&place, "second")?.len(), 1);
    assert!(noted(&place, "other")?.is_empty());
    let home = place.home().to_string_lossy().into_owned();
    let order = fs::read_to_string(place.home().join("order"))?;
    // No shell reads the arguments, and no directory of the repository is the current one.
    assert_eq!(order, format!("2:$HOME\n{home}\nsecond\n2:$HOME\n{home}\n"));
    let environment = fs::read_to_string(place.home().join("env"))?;
    for line in environment.lines() {
        let name = line.split('=').next().unwrap_or_default();
        let known = [
            "HOME",
            "USER",
            "PATH",
            "PWD",
            "OLDPWD",
            "SHLVL",
            "_",
            "DMV_HOOK",
            "XDG_CONFIG_HOME",
        ];
        assert!(known.contains(&name), "{line}");
    }
    // Without hooks, and a hook that runs dmv does not begin again.
    place.write("a.txt", "2\n")?;
    place.ok(&["commit", "-m", "x", "--no-hooks"])?;
    assert_eq!(noted(&place, "first")?.len(), 2);
    let listed = place.records(&["hooks", "--json"])?;
    let here: Vec<_> = listed.iter().map(|hook| hook["here"].clone()).collect();
    assert_eq!(here, [true, true, true, false]);
    place.ok(&["hooks"])?;
    place.ok(&["hooks", "test", "post-commit"])?;
    assert_eq!(noted(&place, "first")?[2]["test"], true);
    place.fails(20, &["hooks", "test", "claim"])?;
    place.env = vec![("DMV_HOOK", "post-commit".into())];
    place.fails(20, &["hooks", "test", "post-commit"])?;
    assert_eq!(noted(&place, "first")?.len(), 3);
    Ok(())
}

#[test]
fn a_hook_before_refuses_and_a_hook_after_does_not() -> Outcome {
    let place = Place::with_repository()?;
    let no = script(
        &place,
        "no",
        "echo checked; echo 'frame 7 is black' >&2; exit 3",
    )?;
    let quiet = script(&place, "quiet", "exit 1")?;
    configure(
        &place,
        &[("pre-commit", all(&no)), ("pre-commit", all(&quiet))],
    )?;
    place.write("a.txt", "1\n")?;
    let said = place.fails(5, &["commit", "-m", "x"])?;
    assert!(
        said.contains("frame 7 is black") && said.contains("checked"),
        "{said}"
    );
    place.fails(
        5,
        &["commit", "-m", "x", "--onto", "main", "--put", "b=a.txt"],
    )?;
    assert!(noted(&place, "quiet")?.is_empty(), "the first one ends it");
    assert!(place.records(&["log", "--json"])?.is_empty());
    configure(
        &place,
        &[
            ("post-commit", all(&no)),
            ("pre-commit", all(Path::new("/none/at/all"))),
        ],
    )?;
    let said = place.fails(5, &["commit", "-m", "x"])?;
    assert!(said.contains("there is no such program"), "{said}");
    configure(
        &place,
        &[
            ("post-commit", all(&no)),
            ("post-commit", all(Path::new("/none/at/all"))),
        ],
    )?;
    let done = place.run(&["commit", "-m", "x"])?;
    assert_eq!(done.status.code(), Some(0));
    assert!(String::from_utf8_lossy(&done.stderr).contains("frame 7 is black"));
    // A push is refused before anything is sent, and a fetch is told.
    place.ok(&["init", "--bare", "../there"])?;
    place.ok(&["remote", "add", "origin", "../there"])?;
    configure(&place, &[("pre-push", all(&no))])?;
    for command in [&["push", "origin", "main"][..], &["sync"]] {
        let said = place.fails(5, command)?;
        assert!(said.contains("frame 7 is black"), "{said}");
    }
    let heard = noted(&place, "no")?;
    let push = heard.iter().find(|heard| heard["event"] == "pre-push");
    let push = push.ok_or("it was not asked")?;
    assert_eq!(
        (&push["remote"], &push["refs"][0]["name"]),
        (&"origin".into(), &"branch/main".into())
    );
    assert!(
        place
            .records(&["-C", "../there", "log", "--json"])?
            .is_empty()
    );
    let yes = script(&place, "yes", "")?;
    configure(
        &place,
        &[("pre-push", all(&yes)), ("post-fetch", all(&yes))],
    )?;
    place.ok(&["push", "origin", "main"])?;
    place.ok(&["fetch"])?;
    place.ok(&["clone", "../there", "../clone"])?;
    place.ok(&["-C", "../clone", "commit", "--allow-empty", "-m", "later"])?;
    place.ok(&["-C", "../clone", "push", "--no-hooks"])?;
    place.ok(&["pull"])?;
    let heard = noted(&place, "yes")?;
    let last = heard.last().ok_or("it heard nothing")?;
    assert_eq!(last["event"], "post-fetch");
    assert_eq!(last["refs"][0]["name"], "remote/origin/main");
    assert_eq!(last["refs"][0]["new"], *tip(&place, "../clone", "main")?);
    // A sync that is refused has fetched. What was pushed is no news.
    let count = heard.len();
    place.ok(&["-C", "../clone", "commit", "--allow-empty", "-m", "again"])?;
    place.ok(&["-C", "../clone", "push", "--no-hooks"])?;
    place.ok(&["branch", "other"])?;
    configure(&place, &[("pre-push", all(&no)), ("post-fetch", all(&yes))])?;
    place.fails(5, &["sync"])?;
    let heard = noted(&place, "yes")?;
    assert_eq!(heard.len(), count + 1);
    let refs = &heard[count]["refs"];
    assert_eq!(refs[0]["new"], *tip(&place, "../clone", "main")?);
    configure(&place, &[("post-fetch", all(&yes))])?;
    place.ok(&["sync"])?;
    assert_eq!(noted(&place, "yes")?.len(), count + 1);
    Ok(())
}

#[test]
fn a_hook_that_takes_too_long_is_stopped_with_all_that_it_has_started() -> Outcome {
    let place = Place::with_repository()?;
    let slow = script(&place, "slow", "sleep 600 & echo waiting; sleep 600")?;
    let run = format!(
        "run = ['{}']\nrepositories = 'all'\ntimeout = 1",
        slow.display()
    );
    configure(&place, &[("pre-commit", run)])?;
    place.write("a.txt", "1\n")?;
    let begin = Instant::now();
    let said = place.fails(5, &["commit", "-m", "x"])?;
    let is_told = said.contains("it was stopped after 1 seconds");
    assert!(is_told && said.contains("waiting"), "{said}");
    assert!(begin.elapsed() < Duration::from_secs(60));
    // One that prints without an end, one that reads nothing, and one that leaves a process behind.
    for (name, body) in [
        ("noise", "yes | head -c 5000000"),
        ("deaf", "exec <&-"),
        ("leaves", "sleep 600 >/dev/null 2>&1 &"),
    ] {
        let path = place.home().join(name);
        fs::write(&path, format!("#!/bin/sh\n{body}\n"))?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
        configure(&place, &[("pre-commit", all(&path))])?;
        place.write("a.txt", name)?;
        place.ok(&["commit", "-m", name])?;
    }
    Ok(())
}

#[test]
fn nothing_in_a_repository_names_a_program() -> Outcome {
    let mut place = Place::with_repository()?;
    let marker = place.home().join("ran");
    let evil = format!("#!/bin/sh\ntouch '{}'\n", marker.display());
    let hook =
        |run: &str| format!("[[hook]]\non = 'pre-commit'\nrun = ['{run}']\nrepositories = 'all'\n");
    // Every place in a repository, or beside it, that another tool might read.
    for at in [
        "evil",
        ".dmv/hooks/pre-commit",
        "hooks/pre-commit",
        ".git/hooks/pre-commit",
        "git",
        "sh",
    ] {
        place.write(at, &evil)?;
        fs::set_permissions(place.work().join(at), fs::Permissions::from_mode(0o755))?;
    }
    let program = place.work().join("evil");
    let settings = hook(&program.to_string_lossy());
    for at in [
        ".dmv/config.toml",
        "config.toml",
        ".dmvattributes",
        ".dmvhooks",
        "dmv/config.toml",
    ] {
        place.write(at, &settings)?;
    }
    let said = place.run(&["commit", "-m", "x"])?;
    let said = String::from_utf8_lossy(&said.stderr).into_owned();
    assert!(said.contains("a repository cannot name programs"), "{said}");
    // A copy of `.dmv` has the id that the user trusts, and no more.
    let id = place.ok(&["id", "--repository"])?.trim().to_owned();
    let good = script(&place, "good", "")?;
    let run = format!("run = ['{}']\nrepositories = ['{id}']", good.display());
    configure(&place, &[("pre-commit", run)])?;
    place.write("a", "1")?;
    place.ok(&["commit", "-m", "y"])?;
    assert_eq!(noted(&place, "good")?.len(), 1);
    // A name is looked up where the user's search path is absolute, and no program of the worktree counts.
    place.env = vec![(
        "PATH",
        format!(".:{}:bin::/usr/bin:/bin", place.work().display()).into(),
    )];
    for (run, why) in [
        ("evil", "there is no such program"),
        (&*program.to_string_lossy(), "it lies in the repository"),
        ("pre-commit", "there is no such program"),
    ] {
        let run = format!("run = ['{run}']\nrepositories = 'all'");
        configure(&place, &[("pre-commit", run)])?;
        place.write("a", why)?;
        let said = place.fails(5, &["commit", "-m", "z"])?;
        assert!(said.contains(why), "{said}");
    }
    // So does a link from elsewhere to one.
    let link = place.home().join("link");
    std::os::unix::fs::symlink(&program, &link)?;
    configure(&place, &[("pre-commit", all(&link))])?;
    let said = place.fails(5, &["commit", "-m", "z"])?;
    assert!(said.contains("it lies in the repository"), "{said}");
    // So does one of another worktree.
    place.ok(&["worktree", "add", "../second"])?;
    let other = place.work().with_file_name("second").join("evil");
    assert!(other.exists());
    configure(&place, &[("pre-commit", all(&other))])?;
    let said = place.fails(5, &["commit", "-m", "z"])?;
    assert!(said.contains("it lies in the repository"), "{said}");
    assert!(!marker.exists(), "a program of the repository has run");
    // Settings that make no sense stop the command before anything is done.
    configure(
        &place,
        &[(
            "pre-commit",
            "run = ['./evil']\nrepositories = 'all'".to_owned(),
        )],
    )?;
    place.fails(20, &["commit", "-m", "z"])?;
    place.fails(20, &["hooks"])?;
    // A settings file that a pull may change names none, and a misspelt section is told.
    let count = noted(&place, "good")?.len();
    place.write(
        "config.toml",
        format!("{}[[hooks]]\n", hook(&good.to_string_lossy())),
    )?;
    let file = place.home().join("config/dmv/config.toml");
    fs::remove_file(&file)?;
    std::os::unix::fs::symlink(place.work().join("config.toml"), &file)?;
    let said = place.run(&["commit", "-m", "z"])?;
    assert_eq!(said.status.code(), Some(0));
    let said = String::from_utf8_lossy(&said.stderr).into_owned();
    assert!(
        said.contains("lies in the worktree") && said.contains("[[hook]]"),
        "{said}"
    );
    assert_eq!(noted(&place, "good")?.len(), count);
    Ok(())
}
