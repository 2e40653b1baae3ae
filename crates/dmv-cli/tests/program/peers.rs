//! Commands between repositories, as a user runs them.

// What is skipped is told.
#![allow(clippy::print_stdout)]

use crate::place::Outcome;
use crate::place::mount::Mount;
use crate::place::several::{commit, several, tip};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

#[test]
fn clones_and_pushes_that_were_cut_off_or_fell_short_are_completed() -> Outcome {
    let place = several()?;
    // A bare clone goes on where making the repository was cut off.
    // As after a power cut while the database is made, and in the last moment of making the repository.
    place.ok(&["init", "--bare", "disk.dmv"])?;
    let made = place.work().join("disk.dmv");
    fs::rename(made.join("format"), made.join("format.tmp7"))?;
    fs::write(made.join("refs.db-journal"), [0; 512])?;
    place.ok(&["clone", "--bare", "film", "disk.dmv"])?;
    assert_eq!(
        tip(&place, "disk.dmv", "main")?,
        tip(&place, "film", "main")?
    );

    // A push of what is there already notes that it is there.
    // As after a push that was cut off when the other side had moved its branch.
    place.ok(&["-C", "film", "remote", "add", "disk", "../disk.dmv"])?;
    place.ok(&["-C", "film", "push", "disk"])?;
    assert_eq!(
        tip(&place, "film", "disk/main")?,
        tip(&place, "film", "main")?
    );

    // A clone that cannot write a file is incomplete.
    // Its content has come; what is missing is the file.
    // It compresses to little, so that only the file is longer than files may be.
    place.write("film/long", vec![0; 4 << 20])?;
    place.ok(&["-C", "film", "commit", "-m", "long"])?;
    let limited = format!(
        "ulimit -f 2000; exec '{}' clone film copy",
        env!("CARGO_BIN_EXE_dmv")
    );
    let mut command = Command::new("sh");
    command.args(["-c", &limited]).current_dir(place.work());
    let output = command
        .env_clear()
        .env("HOME", place.home())
        .env("USER", "ada")
        .output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("not written: long: "), "{said}");
    assert_eq!(output.status.code(), Some(3));
    place.ok(&["-C", "copy", "restore", "long"])?;
    place.ok(&["-C", "copy", "status", "--exit-code"])?;
    Ok(())
}

#[test]
fn two_repositories_and_a_disk_between_them() -> Outcome {
    let place = several()?;
    place.ok(&["-C", "film", "tag", "v1"])?;
    let cloned = place.json(&["clone", "--copy", "--bare", "film", "disk.dmv", "--json"])?;
    assert_eq!(cloned["branch"], "main");
    assert_eq!(cloned["objects_received"], 23);
    let cloned = place.json(&["clone", "disk.dmv", "--json"])?;
    assert_eq!(
        (&cloned["path"], &cloned["files"]),
        (&"disk".into(), &20.into())
    );
    assert!(cloned["round_trips"].as_u64() <= Some(2), "{cloned}");
    assert_eq!(tip(&place, "disk", "v1")?, tip(&place, "film", "main")?);
    assert_eq!(
        tip(&place, "disk", "origin/main")?,
        tip(&place, "film", "main")?
    );
    assert_eq!(
        fs::read(place.work().join("disk/shots/7"))?,
        fs::read(place.work().join("film/shots/7"))?
    );

    place.ok(&["-C", "film", "remote", "add", "disk", "disk.dmv"])?;
    let listed = place.json(&["-C", "film", "remote", "--json"])?;
    assert_eq!(listed["name"], "disk");
    assert!(
        listed["url"]
            .as_str()
            .is_some_and(|url| url.ends_with("/film/disk.dmv"))
    );
    place.fails(10, &["-C", "film", "fetch"])?;
    place.ok(&["-C", "film", "remote", "remove", "disk"])?;
    place.ok(&["-C", "film", "remote", "add", "disk", "../disk.dmv"])?;

    commit(&place, "film", "one")?;
    let pushed = place.json(&["-C", "film", "push", "--json"])?;
    assert_eq!(pushed["refs"][0]["name"], "main");
    assert_eq!(pushed["refs"][0]["pushed"], true);
    assert_eq!(pushed["objects_sent"], 3);
    assert!(pushed["round_trips"].as_u64() <= Some(4), "{pushed}");
    let fetched = place.json(&["-C", "disk", "fetch", "--json"])?;
    assert_eq!(fetched["refs"][0]["name"], "origin/main");
    assert_eq!(fetched["objects_received"], 3);
    assert_eq!(
        tip(&place, "disk", "origin/main")?,
        tip(&place, "film", "main")?
    );

    // The branch of a worktree moves under it: it is told, and nothing is lost.
    place.ok(&["-C", "disk", "remote", "add", "film", "../film"])?;
    place.ok(&["-C", "disk", "checkout", "origin/main"])?;
    place.ok(&["-C", "disk", "branch", "work", "origin/main"])?;
    place.ok(&["-C", "disk", "checkout", "work"])?;
    commit(&place, "disk", "two")?;
    let synced = place.json(&["-C", "disk", "sync", "origin", "--json"])?;
    assert_eq!(synced["refs"].as_array().map(Vec::len), Some(2), "{synced}");
    assert_eq!(
        tip(&place, "disk.dmv", "work")?,
        tip(&place, "disk", "work")?
    );
    for repo in ["film", "disk", "disk.dmv"] {
        place.ok(&["-C", repo, "verify", "--full"])?;
    }
    Ok(())
}

#[test]
fn a_sync_leaves_the_current_branch_alone_and_a_push_loses_no_commits() -> Outcome {
    let place = several()?;
    // A sync says that it leaves the current branch to a pull.
    place.ok(&["clone", "film", "two"])?;
    commit(&place, "film", "more")?;
    let before = tip(&place, "two", "main")?;
    let output = place.run(&["-C", "two", "sync"])?;
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(
        said.contains("behind origin/main; to update it: dmv pull origin"),
        "{said}"
    );
    assert_eq!(tip(&place, "two", "main")?, before);
    place.ok(&["-C", "two", "pull"])?;
    let output = place.run(&["-C", "two", "sync"])?;
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!said.contains("dmv pull"), "{said}");

    // A push that would lose commits is refused.
    commit(&place, "film", "theirs")?;
    commit(&place, "two", "ours")?;
    let said = place.fails(5, &["-C", "two", "push"])?;
    assert!(said.contains("commits that yours does not have"), "{said}");
    assert!(said.contains("hint: dmv pull origin"), "{said}");
    let theirs = tip(&place, "film", "main")?;
    let output = place.run(&["-C", "two", "sync"])?;
    assert_eq!(output.status.code(), Some(3));
    assert_eq!(tip(&place, "film", "main")?, theirs);
    assert_eq!(tip(&place, "two", "origin/main")?, theirs);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("both have new commits on main"), "{said}");
    assert!(said.contains("to combine them: dmv pull origin"), "{said}");
    place.ok(&["-C", "two", "push", "--force"])?;
    assert_eq!(tip(&place, "film", "main")?, tip(&place, "two", "main")?);
    place.fails(20, &["-C", "two", "push", "origin", "none"])?;
    Ok(())
}

#[test]
fn a_repository_that_takes_nothing_is_named_with_the_reason() -> Outcome {
    let place = several()?;
    let disk = place.work().join("disk");
    fs::create_dir(&disk)?;
    place.ok(&["clone", "--bare", "film", "disk/film.dmv"])?;
    place.ok(&["-C", "film", "remote", "add", "disk", "../disk/film.dmv"])?;
    commit(&place, "film", "more")?;
    let Some(_mounted) = Mount::read_only(&disk) else {
        return Ok(());
    };
    let said = place.fails(5, &["-C", "film", "push"])?;
    let why = "disk/film.dmv is on a disk that is mounted read-only";
    assert!(said.contains("main was not pushed to disk"), "{said}");
    assert!(said.contains(why), "{said}");
    let said = place.ok(&["-C", "film", "remote", "show", "disk"])?;
    assert!(
        said.contains("fetch only: ") && said.contains(why),
        "{said}"
    );
    let shown = place.json(&["-C", "film", "remote", "show", "disk", "--json"])?;
    assert_eq!(shown["read_only"], "repository");
    let output = place.run(&["-C", "film", "sync"])?;
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains("not pushed to disk: main"), "{said}");
    assert!(said.contains(why), "{said}");
    Ok(())
}

#[test]
fn what_is_deleted_at_a_remote_can_be_brought_back_there() -> Outcome {
    let place = several()?;
    place.ok(&["clone", "film", "two"])?;
    place.ok(&["-C", "two", "checkout", "-b", "regrade"])?;
    commit(&place, "two", "ours")?;
    place.ok(&["-C", "two", "tag", "v1", "main"])?;
    place.ok(&["-C", "two", "push", "origin", "regrade", "v1"])?;
    let regrade = tip(&place, "two", "regrade")?;

    // Its commits are nowhere else there; what the other repository is on stays in any case.
    let said = place.fails(5, &["-C", "two", "push", "--delete", "regrade", "v1"])?;
    assert!(said.contains("no other branch or tag there has"), "{said}");
    assert!(
        said.contains("hint: dmv push origin --force --delete regrade"),
        "{said}"
    );
    assert!(!place.ok(&["-C", "film", "tag"])?.contains("v1"));
    let said = place.fails(5, &["-C", "two", "push", "-f", "--delete", "main"])?;
    assert!(
        said.contains("main was not deleted on origin: the remote repository is on this branch"),
        "{said}"
    );
    let said = place.fails(20, &["-C", "two", "push", "origin", "--delete", "none"])?;
    assert!(
        said.contains("origin has no branch or tag 'none'"),
        "{said}"
    );

    let deleted = place.json(&[
        "-C", "two", "push", "origin", "-f", "-d", "regrade", "--json",
    ])?;
    let expected = serde_json::json!([
        {"name": "regrade", "old": regrade, "new": null, "pushed": true, "refused": null}
    ]);
    assert_eq!(deleted["refs"], expected);
    assert!(!place.ok(&["-C", "film", "branch"])?.contains("regrade"));
    // What is here stays, and what was known of the remote is up to date.
    assert_eq!(tip(&place, "two", "regrade")?, regrade);
    assert!(
        place
            .run(&["-C", "two", "log", "origin/regrade"])?
            .status
            .code()
            == Some(20)
    );
    place.ok(&["-C", "film", "undo"])?;
    assert_eq!(tip(&place, "film", "regrade")?, regrade);
    place.ok(&["-C", "film", "verify"])?;

    // Under another name, in one go.
    place.ok(&["-C", "two", "branch", "-m", "regrade", "final"])?;
    let said = place.ok(&[
        "-C", "two", "push", "origin", "final", "--delete", "regrade",
    ])?;
    assert!(said.contains("final  new on the remote, at"), "{said}");
    assert!(
        said.contains("regrade  deleted on the remote, was at"),
        "{said}"
    );
    assert_eq!(tip(&place, "film", "final")?, regrade);
    Ok(())
}

#[test]
fn a_remote_is_kept_and_shown_as_the_path_that_it_means() -> Outcome {
    let place = several()?;
    let work = fs::canonicalize(place.work())?;
    let film = work.join("film").display().to_string();
    let url = |repo: &str, name: &str| -> Outcome<String> {
        let all = place.records(&["-C", repo, "remote", "--json"])?;
        let found = all.iter().find(|remote| remote["name"] == name);
        Ok(found.ok_or("no such remote")?["url"].to_string())
    };
    place.ok(&["-C", "film", "clone", ".", "../two"])?;
    assert_eq!(url("two", "origin")?, format!("{film:?}"));
    place.ok(&["-C", "two/shots", "clone", "../../film/./", "../../three"])?;
    assert_eq!(url("three", "origin")?, format!("{film:?}"));
    std::os::unix::fs::symlink("film/shots", work.join("link"))?;
    let adds = [("up", "../../film/../film"), ("linked", "../../link/..")];
    for (name, at) in adds {
        place.ok(&["-C", "two/shots", "remote", "add", name, at])?;
        assert_eq!(url("two", name)?, format!("{film:?}"), "{at}");
    }
    // As somebody may have written it by hand, or an older version: from the repository's directory.
    let written = "[remote.old]\nurl = \"../film/./../film\"\n";
    let config = work.join("two/.dmv/config.toml");
    let text = fs::read_to_string(&config)?;
    fs::write(&config, text + written)?;
    place.ok(&[
        "-C", "two", "worktree", "add", "../four", "main~0", "--detach",
    ])?;
    for from in ["two", "two/shots", "four"] {
        assert_eq!(url(from, "old")?, format!("{film:?}"), "{from}");
        for name in ["origin", "up", "linked", "old"] {
            place.ok(&["-C", from, "fetch", name])?;
        }
    }
    let shown = place.ok(&["-C", "two/shots", "remote", "show"])?;
    assert!(!shown.contains(".."), "{shown}");
    Ok(())
}

#[test]
fn a_pull_brings_both_sides_together() -> Outcome {
    let place = several()?;
    place.ok(&["clone", "film", "two"])?;
    commit(&place, "film", "theirs")?;
    let pulled = place.json(&["-C", "two", "pull", "--json"])?;
    assert_eq!(pulled["merge"]["fast_forward"], true, "{pulled}");
    assert!(place.work().join("two/theirs").exists());
    commit(&place, "film", "more")?;
    commit(&place, "two", "ours")?;
    place.ok(&["-C", "two", "fetch"])?;
    let status = place.json(&["-C", "two", "status", "--json"])?;
    let upstream = serde_json::json!({"name": "origin/main", "ahead": 1, "behind": 1});
    assert_eq!(status["upstream"], upstream);
    let said = place.ok(&["-C", "two", "status"])?;
    assert!(
        said.contains("you and origin/main both have new commits (1 here, 1 there)"),
        "{said}"
    );
    let pulled = place.json(&["-C", "two", "pull", "--json"])?;
    assert_eq!(
        pulled["merge"]["conflicts"],
        serde_json::json!([]),
        "{pulled}"
    );
    assert!(place.work().join("two/more").exists() && place.work().join("two/ours").exists());
    place.ok(&["-C", "two", "push"])?;
    assert_eq!(tip(&place, "film", "main")?, tip(&place, "two", "main")?);

    place.ok(&["-C", "film", "checkout", "main"])?;
    place.write("film/shots/1", "theirs")?;
    place.ok(&["-C", "film", "commit", "-m", "theirs"])?;
    place.write("two/shots/1", "ours")?;
    place.ok(&["-C", "two", "commit", "-m", "ours"])?;
    place.fails(4, &["-C", "two", "pull"])?;
    // Conflicts are data: they can be sent, and are whole at the other end.
    place.ok(&["-C", "two", "push"])?;
    place.ok(&["-C", "film", "verify"])?;
    Ok(())
}

#[test]
fn ssh_reaches_another_host() -> Outcome {
    let place = several()?;
    let url = format!("ssh://ada@host:2222{}", place.work().join("film").display());
    place.ok(&["clone", &url, "two"])?;
    place.ok(&["-C", "two", "verify"])?;
    commit(&place, "two", "one")?;
    let pushed = place.json(&["-C", "two", "push", "--json"])?;
    assert_eq!(pushed["refs"][0]["refused"], Value::Null);
    assert_eq!(tip(&place, "film", "main")?, tip(&place, "two", "main")?);
    let none = format!("ssh://host{}", place.work().join("none").display());
    for (url, code, word) in [
        ("ssh://unknown/x", 13, "Could not resolve"),
        ("ssh://strange/x", 12, "Host key verification failed"),
        (
            "ssh://mute/x",
            13,
            "the connection to ssh://mute/x was lost",
        ),
        (&url.replace("ada@host:2222", "chatty"), 13, "Welcome!"),
        (&none, 10, "no repository at"),
        ("ssh://-oProxyCommand=x/x", 2, "host"),
        ("ssh://-l@host/x", 2, "user"),
        ("http://host/x", 2, "use https://"),
        ("ftp://host/x", 2, "an address is a path"),
    ] {
        let said = place.fails(code, &["clone", url, "three"])?;
        assert!(said.contains(word), "{url}: {said}");
        assert!(!place.work().join("three").exists(), "{url}");
    }
    Ok(())
}

#[test]
fn a_clone_that_was_killed_goes_on() -> Outcome {
    let place = several()?;
    let bytes = dmv_random::noise(1, 24 << 20);
    fs::write(place.work().join("film/large"), &bytes)?;
    place.ok(&["-C", "film", "commit", "-m", "large"])?;
    for millis in [60, 90, 120, 180] {
        let mut child = place
            .command(&["clone", "film", "two"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        std::thread::sleep(Duration::from_millis(millis));
        let _ = child.kill();
        if child.wait()?.success() {
            break;
        }
    }
    let last = place
        .command(&["clone", "film", "two", "--json"])
        .output()?;
    // Whole already, perhaps just before it was killed: then there was nothing to go on with.
    let received = match last.status.code() {
        Some(5) => 0,
        _ => {
            assert!(last.status.success(), "{last:?}");
            let cloned: Value = serde_json::from_slice(&last.stdout)?;
            cloned["bytes_received"].as_u64().unwrap_or(u64::MAX)
        }
    };
    assert!(received <= bytes.len() as u64 + (1 << 20), "{received}");
    assert_eq!(fs::read(place.work().join("two/large"))?, bytes);
    place.ok(&["-C", "two", "verify"])?;
    place.fails(5, &["clone", "film", "two"])?;
    place.write("full/x", "x")?;
    place.fails(5, &["clone", "film", "full"])?;
    Ok(())
}

#[test]
fn clones_begin_where_they_should() -> Outcome {
    let place = several()?;
    place.ok(&["-C", "film", "branch", "regrade"])?;
    place.ok(&["-C", "film", "tag", "v1"])?;
    commit(&place, "film", "more")?;
    place.ok(&["clone", "--branch", "regrade", "film", "two"])?;
    assert_eq!(
        place.json(&["-C", "two", "status", "--json"])?["branch"],
        "regrade"
    );
    assert!(!place.work().join("two/more").exists());
    place.ok(&["clone", "--branch", "v1", "film", "three"])?;
    assert_eq!(
        place.json(&["-C", "three", "status", "--json"])?["branch"],
        Value::Null
    );
    place.fails(20, &["clone", "--branch", "none", "film", "four"])?;
    assert!(!place.work().join("four").exists());
    place.fails(10, &["clone", "nothing"])?;
    assert!(!place.work().join("nothing").exists());
    place.ok(&["init", "empty"])?;
    place.ok(&["clone", "empty", "five"])?;
    commit(&place, "five", "first")?;
    place.ok(&["-C", "five", "push"])?;
    assert_eq!(tip(&place, "empty", "main")?, tip(&place, "five", "main")?);
    let said = place.fails(20, &["-C", "empty", "fetch"])?;
    assert!(said.contains("dmv remote add origin"), "{said}");
    Ok(())
}

#[test]
fn a_branch_that_the_remote_alone_has_is_made_by_checking_it_out() -> Outcome {
    let place = several()?;
    place.ok(&["-C", "film", "branch", "regrade"])?;
    place.ok(&["clone", "film", "two"])?;
    let said = place.ok(&["-C", "two", "checkout", "regrade"])?;
    assert!(said.contains("created branch regrade"), "{said}");
    assert_eq!(
        tip(&place, "two", "regrade")?,
        tip(&place, "film", "regrade")?
    );
    commit(&place, "two", "more")?;
    place.ok(&["-C", "two", "push"])?;
    assert_eq!(
        tip(&place, "two", "regrade")?,
        tip(&place, "film", "regrade")?
    );
    place.fails(20, &["-C", "two", "checkout", "none"])?;
    Ok(())
}

#[test]
fn branches_that_are_gone_there_are_told_and_forgotten_on_request() -> Outcome {
    let place = several()?;
    for branch in ["regrade", "nested/look"] {
        place.ok(&["-C", "film", "branch", branch])?;
    }
    place.ok(&["clone", "film", "two"])?;
    for branch in ["regrade", "nested/look"] {
        place.ok(&["-C", "film", "branch", "-d", branch])?;
    }
    for command in ["fetch", "pull", "sync"] {
        let said = place.run(&["-C", "two", command])?;
        let said = String::from_utf8(said.stderr)?;
        assert!(
            said.contains("origin has deleted regrade"),
            "{command}: {said}"
        );
        assert!(
            said.contains("dmv fetch --prune origin"),
            "{command}: {said}"
        );
    }
    // A push that knows nothing of them is no reason to forget them.
    commit(&place, "two", "one")?;
    place.ok(&["-C", "two", "push"])?;
    let there = tip(&place, "two", "origin/regrade")?;
    let done = place.json(&["-C", "two", "fetch", "--prune", "--json"])?;
    let gone = serde_json::json!(["origin/nested/look", "origin/regrade"]);
    assert_eq!((&done["gone"], &done["pruned"]), (&gone, &true.into()));
    place.fails(20, &["-C", "two", "log", "origin/regrade"])?;
    place.ok(&["-C", "two", "log", "origin/main"])?;
    // It is one operation, and can be taken back.
    let log = place.records(&["-C", "two", "op", "log", "--json"])?;
    let prune = log[0]["id"].as_str().ok_or("an id")?;
    place.ok(&["-C", "two", "undo", prune])?;
    assert_eq!(tip(&place, "two", "origin/regrade")?, there);
    Ok(())
}

/// Flips bits all over the records of the packs, not in their index.
fn damage(dmv: &Path) -> Outcome {
    for entry in fs::read_dir(dmv.join("packs"))? {
        let path = entry?.path();
        let mut bytes = fs::read(&path)?;
        let end = match bytes.len() {
            // The log pack.
            0..3000 => 0,
            meta @ 3000..100_000 => meta - 600,
            data => data / 10 * 6,
        };
        for at in (64..end).step_by(64) {
            bytes[at] ^= 1;
        }
        fs::write(&path, bytes)?;
    }
    Ok(())
}

#[test]
fn damage_is_told_of_the_side_that_has_it() -> Outcome {
    let place = several()?;
    place.ok(&["init", "theirs"])?;
    for n in 0..200_u64 {
        let mut noise = n + 1;
        let mut byte = || {
            noise ^= noise << 13;
            noise ^= noise >> 7;
            noise ^= noise << 17;
            noise as u8
        };
        let noise: Vec<u8> = (0..3000).map(|_| byte()).collect();
        place.write(format!("theirs/{n}"), noise)?;
    }
    place.ok(&["-C", "theirs", "commit", "-m", "noise"])?;
    let there = place.work().join("theirs");
    let urls = [
        there.to_string_lossy().into_owned(),
        format!("ssh://host{}", there.display()),
    ];
    for (n, url) in urls.iter().enumerate() {
        place.ok(&["clone", "--copy", "--bare", url, &format!("ours{n}")])?;
        place.ok(&["clone", "--copy", "--bare", url, &format!("whole{n}")])?;
    }
    commit(&place, "theirs", "more")?;
    for n in ["0", "1"] {
        let ours = format!("ours{n}");
        damage(&place.work().join(&ours))?;
        let said = place.fails(7, &["-C", &ours, "fetch"])?;
        assert!(said.contains("the damage is in this repository"), "{said}");
        assert!(said.contains("hint: dmv verify"), "{said}");
    }
    damage(&there.join(".dmv"))?;
    let hints = [
        format!("hint: dmv -C {} verify", there.display()),
        format!("hint: ssh host 'dmv -C {} verify'", there.display()),
    ];
    for (n, (url, hint)) in urls.iter().zip(hints).enumerate() {
        for args in [
            &["clone", "--copy", url, &format!("new{n}")][..],
            &["-C", &format!("whole{n}"), "fetch"],
        ] {
            let said = place.fails(7, args)?;
            assert!(
                said.contains("the damage is in the remote repository"),
                "{said}"
            );
            assert!(said.contains(&hint), "{said}");
        }
        place.ok(&["-C", &format!("whole{n}"), "verify"])?;
    }
    Ok(())
}

#[test]
fn a_bare_repository_gets_another_default_branch_and_then_the_former_one_can_go() -> Outcome {
    let place = several()?;
    let bare = place.work().join("bare.dmv");
    let bare = bare.to_str().ok_or("path")?;
    place.ok(&["-C", "film", "checkout", "-b", "regrade"])?;
    place.ok(&["clone", "--bare", "film", bare])?;
    place.ok(&["-C", "film", "remote", "add", "disk", bare])?;
    let errors = place.fails(5, &["-C", "film", "push", "disk", "--delete", "regrade"])?;
    assert!(errors.contains("clones start with it"), "{errors}");
    assert!(errors.contains("checkout BRANCH"), "{errors}");
    let errors = place.fails(5, &["-C", bare, "branch", "-d", "regrade"])?;
    assert!(
        errors.contains("the default branch of this repository"),
        "{errors}"
    );
    assert!(errors.contains("dmv checkout BRANCH"), "{errors}");
    place.fails(20, &["-C", bare, "checkout", "nosuch"])?;
    place.fails(20, &["-C", bare, "checkout", "--force", "main"])?;
    let said = place.ok(&["-C", bare, "checkout", "main"])?;
    assert!(said.contains("default branch main"), "{said}");
    place.ok(&["clone", bare, "fresh"])?;
    assert_eq!(
        place.json(&["-C", "fresh", "status", "--json"])?["branch"],
        "main"
    );
    place.ok(&["-C", bare, "undo"])?;
    place.fails(5, &["-C", "film", "push", "disk", "--delete", "regrade"])?;
    place.ok(&["-C", bare, "redo"])?;
    place.ok(&["-C", "film", "push", "disk", "--delete", "regrade"])?;
    Ok(())
}
