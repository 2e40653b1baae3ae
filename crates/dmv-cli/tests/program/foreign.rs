//! Repositories that somebody else made: what their files may set, and who may open them.

// What is skipped is said.
#![allow(clippy::print_stdout)]

use crate::place::{Outcome, Place};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// Settings that are the user's alone, each with a value that would count.
const USERS_OWN: [(&str, &str); 7] = [
    ("ignore.file", "/tmp/rules"),
    ("init.branch", "evil"),
    ("color.ui", "always"),
    ("net.relay", "https://relay.example"),
    ("net.patience", "7"),
    ("ssh.command", "sh -c 'touch pwned'"),
    ("ssh.remote", "rm"),
];
/// More than enough for a command that waits for nothing.
const SOON: Duration = Duration::from_secs(20);

#[test]
fn a_repository_sets_nothing_that_could_harm_its_user() -> Outcome {
    let place = Place::with_repository()?;
    place.write("file", "content")?;
    place.write("rules", "*\n")?;
    let rules = place.work().join("rules");
    let config = place.work().join(".dmv/config.toml");
    for (key, value) in USERS_OWN {
        let value = match key {
            "ignore.file" => rules.display().to_string(),
            _ => value.to_owned(),
        };
        let (section, name) = key.split_once('.').ok_or("it has two parts")?;
        fs::write(&config, format!("[{section}]\n{name} = {value:?}\n"))?;
        let output = place.run(&["status", "--json"])?;
        let said = String::from_utf8(output.stderr)?;
        let is_warning = |line: &&str| line.contains("\"type\":\"warning\"");
        let warnings: Vec<&str> = said.lines().filter(is_warning).collect();
        assert_eq!(warnings.len(), 1, "{key}: {said}");
        assert!(warnings[0].contains(key), "{said}");
        assert!(warnings[0].contains(".dmv/config.toml"), "{said}");
        let status: serde_json::Value = serde_json::from_slice(&output.stdout)?;
        let seen = status["changes"].as_array().map(Vec::len);
        assert_eq!(seen, Some(2), "{key}: the rules hide nothing: {status}");
        let records = place.records(&["config", "list", "--json"])?;
        let record = records.iter().find(|record| record["key"] == key);
        let record = record.ok_or("it is listed")?;
        assert_ne!(record["origin"], "repository", "{record}");
        assert_ne!(record["value"], value.as_str(), "{record}");
        // The user's own word counts.
        let mut asked = place.command(&["config", "get", key]);
        let variable = format!("DMV_{}", key.to_uppercase().replace('.', "_"));
        let output = asked.env(variable, &value).output()?;
        assert_eq!(String::from_utf8(output.stdout)?.trim(), value, "{key}");
        fs::remove_file(&config)?;
        // Nor is it put there.
        let said = place.fails(2, &["config", "set", key, &value])?;
        assert!(said.contains("dmv config set --user"), "{said}");
        assert!(!config.exists(), "{key}");
        place.ok(&["config", "set", "--user", key, &value])?;
        place.ok(&["config", "unset", "--user", key])?;
    }
    let help = place.ok(&["config", "--help"])?;
    for (key, _) in USERS_OWN {
        assert!(help.contains(&format!("    {key} ")), "{key}: {help}");
    }
    assert!(help.contains("  * user.name "), "{help}");
    Ok(())
}

#[test]
fn a_repositorys_settings_neither_hold_up_a_command_nor_fill_memory() -> Outcome {
    let place = Place::with_repository()?;
    let config = place.work().join(".dmv/config.toml");
    let fails_soon = |why: &str| -> Outcome {
        let started = Instant::now();
        let said = place.fails(20, &["status"])?;
        assert!(said.contains(why) && said.contains("config.toml"), "{said}");
        assert!(started.elapsed() < SOON, "{why}");
        fs::remove_file(&config)?;
        Ok(())
    };
    let made = Command::new("mkfifo").arg(&config).status()?;
    assert!(made.success());
    fails_soon("not a regular file")?;
    fs::File::create(&config)?.set_len(64 << 30)?;
    fails_soon("larger than")?;
    std::os::unix::fs::symlink("/dev/zero", &config)?;
    fails_soon("symbolic link")?;
    let elsewhere = place.home().join("elsewhere.toml");
    fs::write(&elsewhere, "[net]\noffline = true\n")?;
    std::os::unix::fs::symlink(&elsewhere, &config)?;
    fails_soon("symbolic link")?;
    place.ok(&["status"])?;
    Ok(())
}

/// Somebody who owns nothing of what root makes.
const OTHER: u32 = 54_321;

/// A repository `film` of root with a commit, and another user with a home and a directory `own`.
///
/// `None`: only root can run a program as somebody else.
fn of_root() -> Outcome<Option<Place>> {
    if !rustix::process::geteuid().is_root() {
        dmv_random::skip("only root can run a program as another user");
        return Ok(None);
    }
    let place = Place::new()?;
    let open = fs::Permissions::from_mode(0o755);
    fs::set_permissions(place.dir.path(), open)?;
    for dir in ["other", "other/home", "own"] {
        fs::create_dir_all(place.work().join(dir))?;
        std::os::unix::fs::chown(place.work().join(dir), Some(OTHER), Some(OTHER))?;
    }
    place.ok(&["init", "film"])?;
    place.write("film/shots/one", "one")?;
    place.ok(&["-C", "film", "commit", "-m", "first"])?;
    let config = place.work().join("film/.dmv/config.toml");
    fs::write(config, "[user]\nname = \"Mallory\"\n")?;
    Ok(Some(place))
}

/// The program, as the other user runs it in a directory of the place.
fn other(place: &Place, dir: &str, args: &[&str]) -> Command {
    let mut command = place.command(args);
    command
        .current_dir(place.work().join(dir))
        .env("HOME", place.work().join("other/home"))
        .env("XDG_CONFIG_HOME", place.work().join("other/home/config"))
        .env_remove("DMV_USER_NAME")
        .uid(OTHER)
        .gid(OTHER);
    command
}

/// Runs it, which has to end with `exit`, and returns both outputs.
fn by_other(place: &Place, exit: i32, dir: &str, args: &[&str]) -> Outcome<(String, String)> {
    let output = other(place, dir, args).output()?;
    let (out, err) = (
        String::from_utf8(output.stdout)?,
        String::from_utf8(output.stderr)?,
    );
    assert_eq!(output.status.code(), Some(exit), "{args:?}: {out}{err}");
    Ok((out, err))
}

/// Every file below `dir`: its path, length, times, mode and owner.
fn state_of(dir: &Path) -> Outcome<BTreeMap<PathBuf, [i64; 7]>> {
    let mut out = BTreeMap::new();
    let mut left = vec![dir.to_owned()];
    while let Some(path) = left.pop() {
        let m = fs::symlink_metadata(&path)?;
        if m.is_dir() {
            for entry in fs::read_dir(&path)? {
                left.push(entry?.path());
            }
        }
        let (mode, uid) = (i64::from(m.mode()), i64::from(m.uid()));
        let len = i64::try_from(m.len())?;
        let times = [m.mtime(), m.mtime_nsec(), m.ctime(), m.ctime_nsec()];
        out.insert(
            path,
            [len, mode, uid, times[0], times[1], times[2], times[3]],
        );
    }
    Ok(out)
}

/// Commands that look at a repository.
const LOOKS: [&[&str]; 13] = [
    &["status"],
    &["log"],
    &["show", "@"],
    &["diff"],
    &["ls", "-r"],
    &["cat", "@:shots/one"],
    &["du"],
    &["stats"],
    &["branch"],
    &["op", "log"],
    &["worktree", "list"],
    &["verify", "--full"],
    &["conflicts"],
];
/// Commands that change one.
const CHANGES: [&[&str]; 14] = [
    &["commit", "-m", "x"],
    &["checkout", "-b", "x"],
    &["branch", "x"],
    &["tag", "x"],
    &["undo"],
    &["restore", "shots/one"],
    &["subset", "add", "shots"],
    &["worktree", "add", "../own/side", "--detach"],
    &["remote", "add", "x", "/x"],
    &["config", "set", "user.name", "x"],
    &["verify", "--heal"],
    &["drop", "shots/one"],
    &[
        "trust",
        "0000000000000000000000000000000000000000000000000000000000000001",
    ],
    &["recover"],
];

#[test]
fn another_users_repository_is_read_where_it_is_named_and_nothing_is_written() -> Outcome {
    let Some(place) = of_root()? else {
        return Ok(());
    };
    let film = place.work().join("film");
    // Also where its files would let everybody write.
    for mode in ["a-w", "a+w"] {
        place.ok(&["-C", "film", "status"])?;
        let changed = Command::new("chmod")
            .args(["-R", mode])
            .arg(&film)
            .status()?;
        assert!(changed.success());
        let before = state_of(&film)?;
        for args in LOOKS {
            let named = [&["-C", "../film"], args].concat();
            by_other(&place, 0, "own", &named)?;
            let (_, said) = by_other(&place, 12, "film", args)?;
            assert!(said.contains("belongs to another user"), "{said}");
            assert!(said.contains("dmv -C"), "{said}");
            assert!(said.contains("safe.repositories"), "{said}");
            // Named is what is in the directory, not what lies above it.
            by_other(
                &place,
                12,
                "own",
                &[&["-C", "../film/shots"], args].concat(),
            )?;
            assert_eq!(state_of(&film)?, before, "{args:?}");
        }
        for args in CHANGES {
            let named = [&["-C", "../film"], args].concat();
            let (_, said) = by_other(&place, 12, "own", &named)?;
            assert!(said.contains("belongs to another user"), "{args:?}: {said}");
            assert_eq!(state_of(&film)?, before, "{args:?}");
        }
        // Its settings are not the reader's.
        by_other(
            &place,
            1,
            "own",
            &["-C", "../film", "config", "get", "user.name"],
        )?;
        let copy = format!("copy{mode}");
        by_other(&place, 0, "own", &["clone", "../film", &copy])?;
        by_other(&place, 0, "own", &["-C", &copy, "fetch"])?;
        by_other(&place, 0, "own", &["-C", &copy, "verify"])?;
        assert_eq!(state_of(&film)?, before);
    }
    Ok(())
}

#[test]
fn a_repository_that_is_listed_counts_like_an_own_one() -> Outcome {
    let Some(place) = of_root()? else {
        return Ok(());
    };
    let film = fs::canonicalize(place.work().join("film"))?;
    by_other(&place, 12, "film/shots", &["log"])?;
    // A repository cannot list itself.
    let config = place.work().join("film/.dmv/config.toml");
    let text = fs::read_to_string(&config)?;
    fs::write(&config, format!("{text}[safe]\nrepositories = [\"*\"]\n"))?;
    by_other(&place, 12, "film/shots", &["log"])?;
    fs::write(&config, text)?;
    let name = film.display().to_string();
    for list in [name.clone(), format!("/none:{}/*", place.work().display())] {
        let set = ["config", "set", "--user", "safe.repositories", &list];
        by_other(&place, 0, "own", &set)?;
        by_other(&place, 0, "film/shots", &["log"])?;
        let got = by_other(&place, 0, "film/shots", &["config", "get", "user.name"])?;
        assert_eq!(got.0, "Mallory\n");
        let shown = by_other(&place, 0, "own", &["config", "get", "safe.repositories"])?;
        assert_eq!(shown.0.trim(), list);
    }
    by_other(
        &place,
        0,
        "own",
        &["config", "set", "--user", "safe.repositories", "/none"],
    )?;
    let (_, said) = by_other(&place, 12, "film/shots", &["log"])?;
    // What is listed already stays in the list.
    assert!(
        said.contains(&format!("safe.repositories /none:{name}")),
        "{said}"
    );
    Ok(())
}

/// A shared folder: whoever may write into the files may push.
#[test]
fn a_shared_folder_takes_what_several_users_push() -> Outcome {
    let Some(place) = of_root()? else {
        return Ok(());
    };
    let mode = fs::Permissions::from_mode(0o777);
    place.ok(&["clone", "--bare", "film", "shared.dmv"])?;
    let shared = place.work().join("shared.dmv");
    by_other(&place, 0, "own", &["clone", "../shared.dmv", "copy"])?;
    fs::write(place.work().join("own/copy/new"), "new")?;
    by_other(&place, 0, "own", &["-C", "copy", "commit", "-m", "new"])?;
    let (_, said) = by_other(&place, 12, "own", &["-C", "copy", "push"])?;
    assert!(said.contains("is not writable"), "{said}");
    let opened = Command::new("chmod")
        .args(["-R", "a+rwX"])
        .arg(&shared)
        .status()?;
    assert!(opened.success());
    fs::set_permissions(&shared, mode)?;
    by_other(&place, 0, "own", &["-C", "copy", "push"])?;
    place.ok(&["clone", "shared.dmv", "mine"])?;
    for n in 0..3 {
        place.write(format!("mine/{n}"), "of root")?;
        place.ok(&["-C", "mine", "commit", "-m", "of root"])?;
        place.ok(&["-C", "mine", "push"])?;
        by_other(&place, 0, "own", &["-C", "copy", "pull"])?;
        fs::write(place.work().join(format!("own/copy/other{n}")), "of other")?;
        by_other(
            &place,
            0,
            "own",
            &["-C", "copy", "commit", "-m", "of other"],
        )?;
        by_other(&place, 0, "own", &["-C", "copy", "push"])?;
        place.ok(&["-C", "mine", "pull"])?;
    }
    place.ok(&["-C", "shared.dmv", "verify", "--full"])?;
    Ok(())
}

/// Whoever reads without the right to write meets the owner at work, and sees whole states.
#[test]
fn a_reader_without_the_right_to_write_sees_what_the_owner_has_committed() -> Outcome {
    let Some(place) = of_root()? else {
        return Ok(());
    };
    let place = &place;
    for n in 0..10 {
        place.write("film/shots/one", format!("version {n}"))?;
        place.ok(&["-C", "film", "commit", "-m", &format!("number {n}")])?;
        let newest = by_other(place, 0, "own", &["-C", "../film", "log", "-n", "1"])?;
        assert!(newest.0.contains(&format!("number {n}")), "{}", newest.0);
    }
    std::thread::scope(|scope| -> Outcome {
        let writer = scope.spawn(|| {
            for n in 10..40 {
                let write = place.write("film/shots/one", format!("version {n}"));
                let done = place.run(&["-C", "film", "commit", "-m", &format!("number {n}")]);
                let ended_well = done.is_ok_and(|output| output.status.success());
                assert!(write.is_ok() && ended_well, "number {n}");
            }
        });
        let mut reads = 0;
        while !writer.is_finished() {
            let (out, _) = by_other(place, 0, "own", &["-C", "../film", "log", "--json"])?;
            assert!(out.lines().count() > reads.min(10), "{out}");
            reads += 1;
        }
        assert!(reads > 3, "{reads}");
        Ok(())
    })?;
    let (out, _) = by_other(place, 0, "own", &["-C", "../film", "log", "--json"])?;
    assert_eq!(out.lines().count(), 41);
    Ok(())
}
