//! Ignore files that cannot be used do not switch themselves off: no command takes what they may
//! cover.

#![allow(clippy::print_stdout)]

use crate::place::{Outcome, Place};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use std::process::Command;

/// Puts something that cannot be used at a path.
type Put = fn(&Path) -> std::io::Result<()>;

/// Larger than an ignore file may be.
fn large() -> Vec<u8> {
    b"secret\n".repeat(200_000)
}

fn utf16(text: &str) -> Vec<u8> {
    let units = std::iter::once(0xfeff).chain(text.encode_utf16());
    units.flat_map(u16::to_le_bytes).collect()
}

fn fifo(path: &Path) -> std::io::Result<()> {
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    Ok(rustix::fs::mkfifoat(rustix::fs::CWD, path, mode)?)
}

const UNUSABLE: [(&str, Put); 8] = [
    ("too large", |path| fs::write(path, large())),
    ("UTF-16", |path| fs::write(path, utf16("secret\r\n"))),
    ("NUL bytes", |path| fs::write(path, b"secret\0\n")),
    ("carriage returns", |path| fs::write(path, b"x\rsecret\r")),
    ("a directory", |path| fs::create_dir(path)),
    ("a symlink", |path| std::os::unix::fs::symlink("real", path)),
    ("a link to nowhere", |path| {
        std::os::unix::fs::symlink("no", path)
    }),
    ("a named pipe", fifo),
];

fn remove(path: &Path) -> std::io::Result<()> {
    if path.symlink_metadata()?.is_dir() {
        fs::remove_dir_all(path)
    } else {
        fs::remove_file(path)
    }
}

/// A repository with the tracked files `t` and `d/t`.
fn place() -> Outcome<Place> {
    let place = Place::with_repository()?;
    place.write("t", "1")?;
    place.write("d/t", "1")?;
    place.write("other/t", "1")?;
    place.commit("tracked")?;
    Ok(place)
}

fn files(place: &Place) -> Outcome<Vec<String>> {
    let records = place.records(&["ls", "-r", "@", "--json"])?;
    let paths = records.iter().filter_map(|record| record["path"].as_str());
    Ok(paths.map(str::to_owned).collect())
}

/// Runs a command that must do what it can and say that it is incomplete.
fn incomplete(place: &Place, args: &[&str], name: &str) -> Outcome<Value> {
    let output = place.run(args)?;
    assert_eq!(output.status.code(), Some(3), "{name}: {args:?} {output:?}");
    Ok(serde_json::from_slice(&output.stdout)?)
}

fn names(value: &Value, field: &str) -> Vec<String> {
    let all = value[field].as_array().into_iter().flatten();
    let paths = all.filter_map(|one| one["path"].as_str().or(one.as_str()));
    paths.map(str::to_owned).collect()
}

#[test]
fn below_an_unusable_ignore_file_nothing_new_is_committed() -> Outcome {
    for (n, (name, put)) in UNUSABLE.into_iter().enumerate() {
        let place = place()?;
        let ignore = place.work().join("d/.dmvignore");
        put(&ignore)?;
        for path in ["t", "d/t"] {
            place.write(path, "2")?;
        }
        for path in ["new", "d/secret", "d/deep/er/secret", "other/new"] {
            place.write(path, "x")?;
        }
        let status = incomplete(&place, &["status", "--json"], name)?;
        assert_eq!(names(&status, "problems"), ["d/.dmvignore"], "{name}");
        assert_eq!(
            names(&status, "changes"),
            ["d/t", "new", "other/new", "t"],
            "{name}"
        );
        let said = place.run(&["status"])?;
        let said = String::from_utf8(said.stderr)?;
        assert!(
            said.contains("d/.dmvignore") && said.contains("stay out of commits"),
            "{said}"
        );
        let done = incomplete(&place, &["commit", "-m", "more", "--json"], name)?;
        assert_eq!(names(&done, "problems"), ["d/.dmvignore"], "{name}");
        let tracked = ["d/t", "new", "other/new", "other/t", "t"];
        assert_eq!(files(&place)?, tracked, "{name}");
        // What other commands do with it depends on its kind no more.
        if n % 4 > 0 {
            continue;
        }
        // The commit of paths and the stash leave out the same.
        incomplete(&place, &["commit", "-m", "one", "d/secret", "--json"], name)?;
        place.write("t", "3")?;
        incomplete(&place, &["stash", "--json"], name)?;
        assert!(place.work().join("d/secret").exists(), "{name}");
        place.run(&["stash", "pop"])?;
        // A file that moves there would be lost to the next commit.
        let said = place.fails(5, &["mv", "t", "d/moved"])?;
        assert!(said.contains("cannot be used"), "{name}: {said}");
        let said = place.run(&["rm", "--cached", "-y", "d/t"])?;
        assert_eq!(said.status.code(), Some(3), "{name}: {said:?}");
        place.ok(&["undo"])?;
        // A checkout does not overwrite it, and nothing else does.
        place.ok(&["branch", "side"])?;
        // Mended, it takes what the rules leave.
        remove(&ignore)?;
        fs::write(&ignore, "secret\n")?;
        place.ok(&["commit", "-m", "mended"])?;
        assert!(
            files(&place)?.contains(&"d/.dmvignore".to_owned()),
            "{name}"
        );
        assert!(
            !files(&place)?.iter().any(|path| path.contains("secret")),
            "{name}"
        );
    }
    Ok(())
}

#[test]
fn an_unusable_file_of_the_user_covers_the_whole_worktree() -> Outcome {
    for (name, put) in UNUSABLE
        .into_iter()
        .filter(|(name, _)| *name != "a symlink")
    {
        let place = place()?;
        let file = place.home().join("ignored");
        put(&file)?;
        let path = file.to_string_lossy().into_owned();
        place.ok(&["config", "set", "--user", "ignore.file", &path])?;
        place.write("secret", "x")?;
        place.write("t", "2")?;
        let done = incomplete(&place, &["commit", "-m", "more", "--json"], name)?;
        assert_eq!(names(&done, "problems"), [path], "{name}");
        assert_eq!(files(&place)?, ["d/t", "other/t", "t"], "{name}");
    }
    Ok(())
}

#[test]
fn an_ignore_file_that_may_not_be_read_is_unusable() -> Outcome {
    use std::os::unix::fs::PermissionsExt;
    let place = place()?;
    place.write(".dmvignore", "secret\n")?;
    place.write("secret", "x")?;
    let file = place.work().join(".dmvignore");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o000))?;
    if fs::read(&file).is_ok() {
        dmv_random::skip("this user may read everything");
        return Ok(());
    }
    let status = incomplete(&place, &["status", "--json"], "unreadable")?;
    assert_eq!(names(&status, "problems"), [".dmvignore"]);
    incomplete(&place, &["commit", "-m", "more", "--json"], "unreadable")?;
    assert_eq!(files(&place)?, ["d/t", "other/t", "t"]);
    Ok(())
}

#[test]
fn any_text_of_lines_is_used() -> Outcome {
    let place = place()?;
    place.write("d/secret", "x")?;
    place.write("new", "x")?;
    let many: String = (0..40_000).map(|n| format!("/x{n}/[0-9]*.tmp\n")).collect();
    let long = format!("{}\nsecret\n", "[ab]*".repeat(30_000));
    for (name, text) in [
        ("CRLF", b"*.tmp\r\nsecret\r\n".to_vec()),
        ("a mark", b"\xef\xbb\xbfsecret\n".to_vec()),
        ("Latin-1", b"caf\xe9\nsecret\n".to_vec()),
        ("a long line", long.into_bytes()),
        ("no end", b"secret".to_vec()),
        ("CRLF without an end", b"a\r\nsecret\r".to_vec()),
        ("many", (many + "secret\n").into_bytes()),
        ("a class", b"[[:lower:]]ecret\n".to_vec()),
    ] {
        place.write(".dmvignore", text)?;
        place.ok(&["status"])?;
        place.ok(&["commit", "-m", name])?;
        let want = [".dmvignore", "d/t", "new", "other/t", "t"];
        assert_eq!(files(&place)?, want, "{name}");
    }
    Ok(())
}

#[test]
fn an_ignore_file_that_cannot_be_used_is_named_and_nothing_is_taken_or_removed() -> Outcome {
    let place = place()?;
    // A line that matches nothing is named.
    place.write(".dmvignore", "[a\nsecret\n")?;
    place.write("secret", "x")?;
    let status = place.json(&["status", "--json"])?;
    let why = status["warnings"][0]["why"].as_str().unwrap_or_default();
    assert!(why.contains("line 1 has no effect"), "{status}");
    assert_eq!(names(&status, "changes"), [".dmvignore"]);

    for name in [".dmvignore", "secret"] {
        fs::remove_file(place.work().join(name))?;
    }
    // An unusable gitignore counts only if it is read.
    place.write(".gitignore", large())?;
    place.ok(&["config", "set", "ignore.git", "true"])?;
    incomplete(&place, &["commit", "-m", "more", "--json"], ".gitignore")?;
    assert_eq!(files(&place)?, ["d/t", "other/t", "t"]);
    place.ok(&["config", "set", "ignore.git", "false"])?;
    place.ok(&["commit", "-m", "more"])?;
    assert!(files(&place)?.contains(&".gitignore".to_owned()));

    // A worktree with files of unknown rules is not removed.
    place.ok(&["worktree", "add", "../second"])?;
    let second = place.work().with_file_name("second");
    fs::write(second.join(".dmvignore"), large())?;
    fs::write(second.join("kept"), "x")?;
    place.fails(5, &["worktree", "remove", "../second"])?;
    assert!(second.join("kept").exists());
    Ok(())
}

#[test]
fn rules_outside_of_the_subset_hold_in_it() -> Outcome {
    let place = Place::with_repository()?;
    place.write(".dmvignore", "*.log\n")?;
    place.write("shots/.dmvignore", "*.tmp\n")?;
    place.write("shots/a/x", "x")?;
    place.write("other/y", "y")?;
    place.commit("all")?;
    // A worktree of a subset, and a clone that has nothing else.
    place.ok(&["worktree", "add", "../part"])?;
    let part = "../part";
    place.ok(&["-C", part, "checkout", "--subset", "shots/a"])?;
    let clone = "../clone";
    place.ok(&["clone", ".", clone, "--subset", "shots/a"])?;
    for dir in [part, clone] {
        let at = place.work().join(dir).join("shots/a");
        for name in ["n.log", "n.tmp", "new"] {
            fs::write(at.join(name), "x")?;
        }
        let output = place.run(&["-C", dir, "commit", "-m", "new"])?;
        assert_eq!(output.status.code(), Some(0), "{dir}: {output:?}");
        let records = place.records(&["-C", dir, "ls", "-r", "@:shots", "--json"])?;
        let paths: Vec<&str> = records.iter().filter_map(|r| r["path"].as_str()).collect();
        assert_eq!(
            paths,
            ["shots/.dmvignore", "shots/a/new", "shots/a/x"],
            "{dir}"
        );
    }
    Ok(())
}

#[test]
fn the_line_that_rm_offers_works_for_every_name() -> Outcome {
    const NAMES: [&str; 14] = [
        "a\nb", "a\r", " lead", "trail ", "tab\t", "#x", "!x", "[x]", "*", "a\\", "?", "{a,b}",
        "**", "é",
    ];
    // Each in a directory of its own, so that no other line covers it.
    let place = Place::with_repository()?;
    for (n, name) in NAMES.into_iter().enumerate() {
        place.write(format!("{n}/{name}"), "x")?;
        place.write(format!("{n}/other"), "x")?;
    }
    place.commit("all")?;
    for (n, name) in NAMES.into_iter().enumerate() {
        let path = format!("./{n}/{name}");
        place.ok(&["rm", "--cached", "-y", &path])?;
        place.ok(&["commit", "-m", "less"])?;
        let left = files(&place)?.len();
        assert_eq!(left, 2 * NAMES.len() - n, "{name:?}");
        assert_eq!(
            place.json(&["status", "--json"])?["clean"],
            json!(true),
            "{name:?}"
        );
    }
    // A name that is not UTF-8, and rules that include it again.
    use std::os::unix::ffi::OsStrExt;
    let place = Place::with_repository()?;
    let latin = std::ffi::OsStr::from_bytes(b"caf\xe9");
    place.write(latin, "x")?;
    place.write("d/.dmvignore", "!x\n")?;
    place.write("d/x", "x")?;
    place.commit("all")?;
    place.ok(&[
        std::ffi::OsStr::new("rm"),
        "--cached".as_ref(),
        "-y".as_ref(),
        latin,
    ])?;
    place.ok(&["commit", "-m", "less"])?;
    assert_eq!(files(&place)?, [".dmvignore", "d/.dmvignore", "d/x"]);
    let output = place.run(&["rm", "--cached", "-y", "d/x"])?;
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    let said = String::from_utf8(output.stderr)?;
    assert!(said.contains("no line in the root's .dmvignore"), "{said}");
    Ok(())
}

#[test]
fn patterns_of_every_kind_know_classes() -> Outcome {
    let place = Place::with_repository()?;
    place.write("Abc", "x")?;
    place.write("abc", "x")?;
    place.write(".dmvattributes", "[[:upper:]]* keep=last:1\n")?;
    place.commit("all")?;
    place.ok(&["keep", "set", "[[:digit:]]*", "last:2"])?;
    place.ok(&["checkout", "--subset", "[[:upper:]]*"])?;
    assert!(place.work().join("Abc").exists() && !place.work().join("abc").exists());
    let kept = place.ok(&["keep"])?;
    assert!(kept.contains("[[:upper:]]*"), "{kept}");
    Ok(())
}

/// Times `status` with many patterns beside `git status`. It measures, so it is not for every run.
#[test]
#[ignore = "it measures for a minute"]
fn many_patterns_are_fast() -> Outcome {
    let place = Place::with_repository()?;
    let kinds: [fn(u32) -> String; 5] = [
        |n| format!("/dir{n}/build\n"),
        |n| format!("*.ext{n}\n"),
        |n| format!("name{n}\n"),
        |n| format!("pre{n}*[0-9]?.tmp\n"),
        |n| format!("**/cache{n}/*.o\n"),
    ];
    let patterns: String = (0..10_000).map(|n| kinds[(n % 5) as usize](n)).collect();
    place.write(".dmvignore", &patterns)?;
    place.write(".gitignore", &patterns)?;
    for n in 0..50_000 {
        place.write(format!("d{}/file{n}.txt", n / 500), "")?;
    }
    let work = place.work();
    let git = |args: &[&str]| Command::new("git").current_dir(&work).args(args).output();
    git(&["init", "--quiet"])?;
    for _ in 0..3 {
        let start = std::time::Instant::now();
        place.ok(&["status", "--json"])?;
        let ours = start.elapsed();
        let start = std::time::Instant::now();
        git(&["status", "--porcelain", "-uall"])?;
        println!("dmv status: {ours:?}, git status: {:?}", start.elapsed());
    }
    Ok(())
}
