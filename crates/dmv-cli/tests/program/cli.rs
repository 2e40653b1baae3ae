//! The program as a user runs it: output, exit codes, JSON.

use crate::place::{Outcome, Place};
use dmv_random::noise;
use serde_json::Value;
use std::error::Error;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::process::{Output, Stdio};

#[test]
fn a_first_commit_is_seen_by_status_and_log() -> Outcome {
    let place = Place::with_repository()?;
    let empty = place.json(&["status", "--json"])?;
    assert_eq!(
        (&empty["branch"], &empty["commit"]),
        (&"main".into(), &Value::Null)
    );
    place.write("notes.txt", "one\n")?;
    place.write("media/clip", noise(1, 300_000))?;
    let status = place.json(&["status", "--json"])?;
    assert_eq!(status["clean"], false);
    assert_eq!(
        status["changes"][0],
        serde_json::json!({"path": "media/clip", "change": "added"})
    );
    place.fails(1, &["status", "--exit-code"])?;
    let done = place.json(&["commit", "-m", "first", "-m", "more", "--json"])?;
    assert_eq!(
        (&done["files"], &done["bytes"]),
        (&2.into(), &300_004.into())
    );
    assert_eq!(done["new_bytes"], 300_004);
    let id = done["commit"].as_str().ok_or("no id")?;
    assert_eq!(id.len(), 64);
    let status = place.json(&["status", "--exit-code", "--json"])?;
    assert_eq!(
        (&status["clean"], &status["commit"]),
        (&true.into(), &id.into())
    );
    let log = place.records(&["log", "--json"])?;
    assert_eq!((log.len(), &log[0]["id"]), (1, &id.into()));
    assert_eq!(log[0]["message"], "first\n\nmore");
    assert_eq!(log[0]["parents"], serde_json::json!([]));
    assert!(
        log[0]["author"]
            .as_str()
            .is_some_and(|a| a.starts_with("ada <ada@"))
    );
    assert!(log[0]["time"].as_str().is_some_and(|t| t.contains('T')));
    let text = place.ok(&["log"])?;
    assert!(
        text.contains(&id[..12]) && text.contains("    more\n"),
        "{text}"
    );
    Ok(())
}

#[test]
fn exit_codes_tell_failures_apart() -> Outcome {
    let place = Place::new()?;
    // Exit codes tell usage no repository and other failures apart.
    place.fails(2, &["nonsense"])?;
    place.fails(2, &["log", "-n", "x"])?;
    let error = place.fails(10, &["status"])?;
    assert!(
        error.starts_with("error: ") && error.ends_with("hint: dmv init\n"),
        "{error}"
    );
    let error: Value = serde_json::from_str(&place.fails(10, &["status", "--json"])?)?;
    assert_eq!(
        (&error["type"], &error["code"]),
        (&"error".into(), &"no-repository".into())
    );
    assert_eq!(
        (&error["exit"], &error["hint"]),
        (&10.into(), &"dmv init".into())
    );
    let error: Value = serde_json::from_str(&place.fails(2, &["--json", "nonsense"])?)?;
    assert_eq!(
        (&error["code"], &error["exit"]),
        (&"usage".into(), &2.into())
    );
    place.ok(&["init"])?;
    place.fails(20, &["init"])?;
    place.fails(20, &["log", "@"])?;
    place.write("a", "a")?;
    place.commit("a")?;
    place.fails(20, &["log", "nowhere"])?;
    place.fails(20, &["cat", "@:nowhere"])?;
    place.fails(20, &["commit", "-m", "x", "nowhere"])?;
    place.fails(20, &["commit", "-m", "x", "/etc"])?;
    place.fails(2, &["commit"])?;
    assert_eq!(place.ok(&["-V"])?, "dmv 0.1.0\n");
    // The long form says what is built in.
    let version = place.ok(&["--version"])?;
    let built_in = version.strip_prefix("dmv 0.1.0\nfor ").unwrap_or_default();
    assert!(built_in.contains(std::env::consts::ARCH), "{version}");
    assert_eq!(
        built_in.contains("quic"),
        cfg!(feature = "quic"),
        "{version}"
    );

    // Completions are printed.
    assert!(place.ok(&["completions", "bash"])?.contains("dmv"));
    Ok(())
}

#[test]
fn names_are_escaped_for_people_and_exact_for_programs() -> Outcome {
    let place = Place::with_repository()?;
    place.write("esc\x1b[31m\n", "1")?;
    place.write(OsStr::from_bytes(b"caf\xe9"), "2")?;
    place.write("cafe\u{301}", "3")?;
    let text = place.ok(&["status"])?;
    assert!(!text.contains('\x1b'), "{text}");
    assert!(
        text.contains("esc\\u{1b}[31m\\n\n") && text.contains("caf\\xe9\n"),
        "{text}"
    );
    place.commit("names")?;
    assert!(!place.ok(&["ls"])?.contains('\x1b'));
    let records = place.records(&["ls", "--json"])?;
    let odd: Vec<_> = records
        .iter()
        .filter(|r| r["path_b64"].is_string())
        .collect();
    assert_eq!((odd.len(), &odd[0]["path_b64"]), (1, &"Y2Fm6Q==".into()));
    assert!(records.iter().any(|r| r["path"] == "esc\x1b[31m\n"));
    let arg = OsStr::from_bytes(b"@:caf\xe9").to_owned();
    assert_eq!(place.ok(&[OsString::from("cat"), arg])?, "2");
    Ok(())
}

#[test]
fn content_is_read_whole_and_in_part_and_damage_of_it_is_found() -> Outcome {
    let place = Place::with_repository()?;
    // Content is read from any revision whole or in part.
    let clip = noise(1, 5_000_000);
    place.write("media/clip", &clip)?;
    place.write("a.txt", "old\n")?;
    place.commit("one")?;
    place.write("a.txt", "new\n")?;
    place.commit("two")?;
    assert_eq!(place.ok(&["cat", "@~1:a.txt"])?, "old\n");
    assert_eq!(place.ok(&["cat", "main:a.txt"])?, "new\n");
    for (from, to) in [
        (0, clip.len()),
        (1, 1 << 20),
        (0, (1 << 20) + 1),
        (70_000, 300_001),
        (70_000, 4_999_999),
    ] {
        let part = place.run(&["cat", "@:media/clip", "--range", &format!("{from}-{to}")])?;
        assert!(part.stdout == clip[from..to], "{from}-{to}");
    }
    let whole = place.run(&["cat", "@:media/clip"])?;
    assert!(whole.stdout == clip);
    assert_eq!(place.ok(&["cat", "@:a.txt", "--range", "2-9"])?, "w\n");
    place.fails(2, &["cat", "@:a.txt", "--range", "9-2"])?;
    place.fails(20, &["cat", "@:media"])?;
    let listed = place.records(&["ls", "-r", "--json", "@:media"])?;
    assert_eq!(
        (&listed[0]["path"], &listed[0]["kind"], &listed[0]["size"]),
        (&"media/clip".into(), &"file".into(), &5_000_000.into())
    );
    let used = place.json(&["du", "--json", "@:media"])?;
    assert_eq!(
        (&used["bytes"], &used["files"]),
        (&5_000_000.into(), &1.into())
    );

    // A reader that stops early is no failure.
    let mut child = place
        .command(&["cat", "@:media/clip"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    drop(child.stdout.take());
    let output = child.wait_with_output()?;
    assert_eq!((output.status.code(), output.stderr), (Some(0), Vec::new()));

    // Verify finds damage and says where.
    let report = place.json(&["verify", "--full", "--json"])?;
    assert_eq!(
        (&report["ok"], &report["absent"]),
        (&true.into(), &0.into())
    );
    let mut packs: Vec<_> = fs::read_dir(place.work().join(".dmv/packs"))?
        .filter_map(|entry| entry.ok())
        .filter_map(|entry| Some((entry.metadata().ok()?.len(), entry.path())))
        .collect();
    packs.sort();
    let (len, largest) = packs.pop().ok_or("no pack")?;
    let mut bytes = fs::read(&largest)?;
    bytes[len as usize / 2] ^= 0xff;
    fs::write(&largest, bytes)?;
    let output = place.run(&["verify", "--json"])?;
    assert_eq!(output.status.code(), Some(7));
    let report: Value = serde_json::from_slice(&output.stdout)?;
    assert_eq!(
        (&report["ok"], &report["damaged"][0]["paths"][0]),
        (&false.into(), &"media/clip".into())
    );
    place.fails(7, &["cat", "@:media/clip"])?;
    Ok(())
}

#[test]
fn what_there_is_to_commit() -> Outcome {
    let place = Place::with_repository()?;
    // Nothing to commit is no failure.
    assert_eq!(place.ok(&["commit", "-m", "x"])?, "nothing to commit\n");
    assert_eq!(place.records(&["log", "--json"]).map_or(0, |l| l.len()), 0);

    // A first commit may hold nothing but an empty directory.
    fs::create_dir(place.work().join("x"))?;
    place.commit("an empty directory")?;
    place.ok(&["status", "--exit-code"])?;
    assert_eq!(place.ok(&["ls", "-r"])?, "x/\n");

    let done = place.json(&["commit", "-m", "x", "--json"])?;
    assert_eq!(
        (&done["commit"], &done["branch"]),
        (&Value::Null, &"main".into())
    );
    let done = place.json(&["commit", "-m", "x", "--allow-empty", "--json"])?;
    assert!(done["commit"].is_string());
    Ok(())
}

#[test]
fn a_commit_is_amended_and_takes_the_paths_named_as_seen_from_here() -> Outcome {
    let place = Place::with_repository()?;
    // Amending replaces the last commit.
    place.fails(20, &["commit", "--amend"])?;
    place.write("a", "1")?;
    let first = place.commit("one")?;
    place.write("a", "2")?;
    let author = ["commit", "--amend", "--author", "Eve <eve@x.org>", "--json"];
    let second = place.json(&author)?;
    assert_ne!(second["commit"], first.as_str());
    let log = place.records(&["log", "--json"])?;
    assert_eq!((log.len(), &log[0]["message"]), (1, &"one".into()));
    assert_eq!(log[0]["author"], "Eve <eve@x.org>");
    assert_eq!(place.ok(&["cat", "@:a"])?, "2");
    place.fails(2, &["commit", "-m", "x", "--author", "nobody"])?;

    // A commit takes the paths named as seen from here.
    place.write("in/a", "1")?;
    place.write("out/b", "1")?;
    let from_in = |args: &[&str]| -> Result<Output, Box<dyn Error>> {
        let mut command = place.command(args);
        Ok(command.current_dir(place.work().join("in")).output()?)
    };
    assert!(from_in(&["commit", "-m", "a", "."])?.status.success());
    let left = place.json(&["status", "--json"])?;
    assert_eq!(left["changes"][0]["path"], "out/b");
    assert!(from_in(&["commit", "-m", "b", "../out"])?.status.success());
    assert_eq!(place.json(&["status", "--json"])?["clean"], true);
    let log = |path: &str| place.records(&["log", "--json", "--", path]);
    assert_eq!(
        (log("in")?.len(), log("out/b")?.len(), log("no")?.len()),
        (1, 1, 0)
    );
    Ok(())
}

#[test]
fn names_of_commits_branches_and_tags_lead_to_content_and_a_checkout_loses_nothing() -> Outcome {
    let place = Place::with_repository()?;
    // Branches and tags come and go.
    place.fails(20, &["branch", "early"])?;
    place.write("a", "1")?;
    let one = place.commit("one")?;
    place.write("a", "2")?;
    place.commit("two")?;
    place.ok(&["branch", "old", "@~1"])?;
    place.ok(&["tag", "v1", &one[..8]])?;
    place.fails(20, &["branch", "old"])?;
    place.fails(20, &["branch", "bad..name"])?;
    place.fails(20, &["tag", "-d", "v2"])?;
    place.fails(5, &["branch", "-d", "main"])?;
    let branches = place.records(&["branch", "--json"])?;
    let old = serde_json::json!({"name": "old", "commit": one, "current": false});
    assert_eq!((branches.len(), &branches[1]), (2, &old));
    assert_eq!(branches[0]["current"], true);
    place.ok(&["branch", "-m", "main", "trunk"])?;
    assert_eq!(place.json(&["status", "--json"])?["branch"], "trunk");
    place.ok(&["branch", "-d", "old"])?;
    place.ok(&["tag", "-d", "v1"])?;
    assert_eq!(place.ok(&["tag"])?, "");
    let operations = place.records(&["op", "log", "--json"])?;
    assert_eq!(operations[0]["command"], "dmv tag -d v1");
    assert_eq!(operations[0]["undone"], false);

    // Checkout refuses what would be lost.
    place.write("a", "1")?;
    let one = place.commit("one")?;
    place.write("a", "2")?;
    place.commit("two")?;
    place.ok(&["branch", "old", &one])?;
    place.write("a", "mine")?;
    let error: Value = serde_json::from_str(&place.fails(5, &["checkout", "old", "--json"])?)?;
    assert_eq!(
        (&error["code"], &error["paths"][0]["path"]),
        (&"would-lose".into(), &"a".into())
    );
    place.ok(&["restore", "a"])?;
    assert_eq!(fs::read(place.work().join("a"))?, b"2");
    let done = place.json(&["checkout", "old", "--json"])?;
    assert_eq!((&done["files"], &done["bytes"]), (&1.into(), &1.into()));
    assert_eq!(fs::read(place.work().join("a"))?, b"1");
    place.ok(&["checkout", &one])?;
    assert_eq!(place.json(&["status", "--json"])?["branch"], Value::Null);
    Ok(())
}

#[test]
fn a_path_too_long_to_be_read_back_is_not_committed() -> Outcome {
    let place = Place::with_repository()?;
    let name = [b'n'; 250];
    let mut dir = dmv_core::fsutil::SafeDir::open_root(&place.work())?;
    for depth in 0..140 {
        dir.create_dir(&name, false)?;
        dir = dir.open_dir(&name)?;
        if depth % 20 == 0 {
            dir.create_new(b"file", false)?;
        }
    }
    let done = place.run(&["--json", "commit", "-m", "deep"])?;
    assert_eq!(done.status.code(), Some(3));
    let done: Value = serde_json::from_slice(&done.stdout)?;
    assert_eq!(done["problems"].as_array().map(Vec::len), Some(1));
    assert_eq!(done["tree_files"], 7);
    place.ok(&["verify"])?;
    assert_eq!(place.ok(&["ls", "-r"])?.lines().count(), 7);
    place.ok(&["export", "@", "--tar", "/dev/null"])?;
    Ok(())
}

#[test]
fn many_commands_at_once_wait_for_each_other() -> Outcome {
    let place = Place::with_repository()?;
    let commit = ["commit", "--allow-empty", "-m", "one of many"];
    place.ok(&commit)?;
    for _ in 0..3 {
        let others = [&["status"][..], &["log"], &["verify"]];
        let mut running = Vec::new();
        for args in [&commit[..]; 6].into_iter().chain(others) {
            let mut command = place.command(args);
            command.stdout(Stdio::null()).stderr(Stdio::piped());
            running.push(command.spawn()?);
        }
        for command in running {
            let output = command.wait_with_output()?;
            let errors = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(0), "{errors}");
        }
    }
    assert_eq!(place.ok(&["--json", "log"])?.lines().count(), 19);
    Ok(())
}

#[test]
fn settings_come_from_environment_repository_and_user_in_this_order() -> Outcome {
    let place = Place::with_repository()?;
    let get = |vars: &[(&str, &str)]| -> Result<String, Box<dyn Error>> {
        let mut command = place.command(&["config", "get", "user.email"]);
        let output = command.envs(vars.iter().copied()).output()?;
        Ok(String::from_utf8(output.stdout)?)
    };
    place.fails(1, &["config", "get", "user.email"])?;
    place.ok(&["config", "set", "--user", "user.email", "User"])?;
    assert_eq!(get(&[])?, "User\n");
    place.ok(&["config", "set", "user.email", "Repository"])?;
    assert_eq!(get(&[])?, "Repository\n");
    assert_eq!(get(&[("DMV_USER_EMAIL", "Variable")])?, "Variable\n");
    place.write("a", "1")?;
    place.commit("one")?;
    let author = place.records(&["log", "--json"])?[0]["author"].clone();
    assert!(author.as_str().is_some_and(|a| a == "ada <Repository>"));
    place.ok(&["config", "unset", "user.email"])?;
    assert_eq!(get(&[])?, "User\n");
    place.fails(20, &["config", "set", "no.such", "x"])?;
    place.fails(20, &["config", "set", "ignore.git", "maybe"])?;
    let file = place.home().join("config/dmv/config.toml");
    assert_eq!(fs::read_to_string(file)?, "[user]\nemail = \"User\"\n");
    Ok(())
}

#[test]
fn a_diff_shows_lines_of_text_and_ranges_of_anything_else() -> Outcome {
    let place = Place::with_repository()?;
    let mut clip = noise(1, 900_000);
    place.write("clip", &clip)?;
    place.write("t.txt", "1\n2\n3\n")?;
    place.commit("one")?;
    clip[400_000] ^= 1;
    place.write("clip", &clip)?;
    place.write("t.txt", "1\ntwo\n3\n")?;
    let text = place.ok(&["diff", "--", "t.txt"])?;
    assert!(
        text.ends_with("@@ -1,3 +1,3 @@\n 1\n-2\n+two\n 3\n"),
        "{text}"
    );
    let check = |args: &[&str]| -> Outcome {
        let records = place.records(args)?;
        assert_eq!(records.len(), 2);
        assert_eq!(records[0]["path"], "clip");
        assert_eq!(
            records[0]["ranges"],
            serde_json::json!([[400_000, 400_001]])
        );
        let (shared, new) = (&records[0]["shared_bytes"], &records[0]["new_bytes"]);
        assert_eq!(
            shared.as_u64().zip(new.as_u64()).map(|(s, n)| s + n),
            Some(900_000)
        );
        assert_eq!(
            (&records[1]["insertions"], &records[1]["deletions"]),
            (&1.into(), &1.into())
        );
        Ok(())
    };
    check(&["diff", "--json"])?;
    place.fails(1, &["diff", "--exit-code", "--stat"])?;
    place.commit("two")?;
    check(&["diff", "--json", "@~1", "@"])?;
    check(&["diff", "--json", "@~1"])?;
    assert_eq!(place.ok(&["diff", "--exit-code"])?, "");
    let shown = place.json(&["show", "--json"])?;
    assert_eq!(shown["changes"].as_array().map(Vec::len), Some(2));
    Ok(())
}

#[test]
fn an_export_needs_no_worktree_and_writes_into_what_is_no_regular_file() -> Outcome {
    let place = Place::with_repository()?;
    // An export needs no worktree.
    place.write("d/a", "abc")?;
    std::os::unix::fs::symlink("d/a", place.work().join("link"))?;
    fs::create_dir(place.work().join("empty"))?;
    place.commit("one")?;
    let done = place.json(&["export", "@", "--to", "../out", "--json"])?;
    assert_eq!((&done["files"], &done["bytes"]), (&2.into(), &6.into()));
    let out = place.dir.path().join("out");
    assert_eq!(fs::read(out.join("link"))?, b"abc");
    let archive = place.run(&["export", "@", "--tar", "-"])?.stdout;
    let mut names = Vec::new();
    for entry in tar::Archive::new(&archive[..]).entries()? {
        names.push(entry?.path()?.to_string_lossy().into_owned());
    }
    assert_eq!(names, ["d/a", "empty/", "link"]);
    place.fails(2, &["export", "@"])?;
    place.fails(2, &["export", "@", "--to", "a", "--tar", "b"])?;

    // An archive is written into what is no regular file.
    use std::os::unix::fs::FileTypeExt;
    let place = Place::with_repository()?;
    place.write("a", "abc")?;
    place.commit("one")?;
    let fifo = place.dir.path().join("fifo");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &fifo,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from(0o600),
        0,
    )?;
    let reader = std::thread::spawn({
        let fifo = fifo.clone();
        move || fs::read(fifo)
    });
    place.ok(&["export", "@", "--tar", "../fifo"])?;
    let piped = reader.join().expect("the reader does not panic")?;
    assert!(fs::symlink_metadata(&fifo)?.file_type().is_fifo());
    let linked = place.dir.path().join("linked.tar");
    fs::write(&linked, vec![1; 100_000])?;
    std::os::unix::fs::symlink("linked.tar", place.dir.path().join("link"))?;
    place.ok(&["export", "@", "--tar", "../link"])?;
    assert_eq!(fs::read(linked)?, piped);
    assert_eq!(place.run(&["export", "@", "--tar", "-"])?.stdout, piped);
    Ok(())
}
