//! What a shell offers for a word, asked as its script asks.

use crate::place::{Outcome, Place};
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

/// What the program answers to the script of bash when the last of `words` is being typed.
fn asked(place: &Place, words: &[&str]) -> Outcome<Output> {
    let index = words.len().to_string();
    let mut command = place.command(&[&["--", "dmv"], words].concat());
    command
        .env("DMV_COMPLETE", "bash")
        .env("_CLAP_COMPLETE_INDEX", index)
        .env("_CLAP_COMPLETE_COMP_TYPE", "9")
        .env("_CLAP_IFS", "\n");
    Ok(command.output()?)
}

/// The words that are offered.
fn offered(place: &Place, words: &[&str]) -> Outcome<Vec<String>> {
    let output = asked(place, words)?;
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), &*said), (Some(0), ""), "{words:?}");
    let text = String::from_utf8(output.stdout)?;
    Ok(text.lines().map(str::to_owned).collect())
}

/// A repository with something of each kind.
fn with_everything() -> Outcome<Place> {
    let place = Place::with_repository()?;
    place.write("my notes.txt", "one\n")?;
    place.write("media/clip one.mov", "two\n")?;
    place.write("media/gone.mov", "three\n")?;
    place.commit("first")?;
    place.ok(&["branch", "regrade"])?;
    place.ok(&["tag", "release-1"])?;
    place.ok(&["remote", "add", "studio", "../studio"])?;
    place.ok(&["worktree", "add", "../hotfix"])?;
    fs::remove_file(place.work().join("media/gone.mov"))?;
    place.write("my notes.txt", "other\n")?;
    place.ok(&["stash"])?;
    fs::remove_file(place.work().join("media/gone.mov"))?;
    place.write("new.txt", "four\n")?;
    Ok(place)
}

#[test]
fn nothing_is_offered_outside_of_a_repository() -> Outcome {
    let place = Place::new()?;
    place.write("notes.txt", "one\n")?;
    for words in [
        &["checkout", "m"][..],
        &["tag", "-d", "v"],
        &["push", "o"],
        &["rm", "n"],
        &["cat", "@:n"],
        &["stash", "pop", "0"],
        &["worktree", "remove", "../"],
        &["-C", "nowhere", "checkout", "m"],
    ] {
        assert_eq!(offered(&place, words)?, [""; 0], "{words:?}");
    }
    // The user's own settings can be changed everywhere.
    let found = offered(&place, &["config", "set", "user.n"])?;
    assert_eq!(found, ["user.name"]);
    Ok(())
}

/// All files below a directory with their content and their time.
fn state(dir: &Path) -> Outcome<Vec<String>> {
    let mut out = Vec::new();
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        let found = fs::symlink_metadata(&path)?;
        out.push(format!("{path:?} {} {:?}", found.len(), found.modified()?));
        if found.is_dir() {
            out.extend(state(&path)?);
        }
    }
    out.sort();
    Ok(out)
}

#[test]
fn words_of_each_kind_are_offered_nothing_is_written_and_bash_completes_with_the_script() -> Outcome
{
    let place = with_everything()?;
    // Asking writes nothing.
    let dmv = place.work().join(".dmv");
    let before = state(&dmv)?;
    for words in [
        &["checkout", ""][..],
        &["push", ""],
        &["restore", "media/"],
        &["cat", "@:"],
        &["stash", "show", ""],
        &["worktree", "remove", ""],
        &["config", "set", ""],
    ] {
        assert!(!offered(&place, words)?.is_empty(), "{words:?}");
    }
    assert_eq!(state(&dmv)?, before);

    // Words of each kind are offered.
    for (words, expected) in [
        (&["checkout", "ma"][..], &["main"][..]),
        (&["checkout", "re"], &["regrade", "release-1"]),
        (
            &["merge", "main..re"],
            &["main..regrade", "main..release-1"],
        ),
        (&["branch", "-d", "re"], &["regrade"]),
        (&["branch", "-m", "re"], &["regrade"]),
        (&["tag", "-d", "re"], &["release-1"]),
        (&["tag", "new", "reg"], &["regrade"]),
        (&["push", "st"], &["studio"]),
        (&["push", "studio", "re"], &["regrade", "release-1"]),
        (&["remote", "remove", "s"], &["studio"]),
        (&["rm", "my"], &["my notes.txt"]),
        (&["log", "me"], &["media/"]),
        (
            &["restore", "media/"],
            &["media/clip one.mov", "media/gone.mov"],
        ),
        (&["add", "new"], &["new.txt"]),
        (
            &["cat", "release-1:media/c"],
            &["release-1:media/clip one.mov"],
        ),
        (&["cat", ":/media/c"], &[":/media/clip one.mov"]),
        (&["diff", "regrade", "./my"], &["./my notes.txt"]),
        (&["expire", "media/g"], &["media/gone.mov"]),
        (&["config", "get", "user.e"], &["user.email"]),
        (
            &["config", "set", "remote.studio.re"],
            &["remote.studio.region"],
        ),
        (&["config", "set", "names.portable", "t"], &["true"]),
        (
            &["config", "set", "--user", "color.ui", "a"],
            &["auto", "always"],
        ),
        (&["--color", "n"], &["never"]),
        (&["--color=n"], &["--color=never"]),
        (&["completions", "z"], &["zsh"]),
        (&["worktree", "remove", "../h"], &["../hotfix"]),
        (&["-C", "media", "restore", "g"], &["gone.mov"]),
        (&["-C", "media", "restore", "../my"], &["../my notes.txt"]),
        (&["-C", "med"], &["media/"]),
        (&["checkout", "nothing-of-this"], &[]),
        (&["rm", "../"], &[]),
        (&["rm", ".d"], &[]),
    ] {
        let mut found = offered(&place, words)?;
        found.sort();
        let mut expected = expected.to_vec();
        expected.sort_unstable();
        assert_eq!(found, expected, "{words:?}");
    }
    assert!(offered(&place, &["stash", "pop", ""])?.contains(&"0".to_owned()));

    // Bash completes with the script.
    let bash = Command::new("bash").arg("--version").output();
    if !bash.is_ok_and(|done| done.status.success()) {
        return Ok(());
    }
    for (line, words, last, expected) in [
        ("dmv checkout ma", &["checkout", "ma"][..], "ma", "main\n"),
        (
            "dmv rm my\\ n",
            &["rm", "my\\ n"],
            "my\\ n",
            "my notes.txt\n",
        ),
        ("dmv rm \"my n", &["rm", "\"my n"], "my n", "my notes.txt\n"),
        // bash splits at these characters, and replaces only what is after them.
        (
            "dmv cat @:media/c",
            &["cat", "@:", "media/c"],
            "media/c",
            "media/clip one.mov\n",
        ),
        ("dmv cat @:", &["cat", "@:"], "", "media/\nmy notes.txt\n"),
        (
            "dmv cat main:my",
            &["cat", "main", ":", "my"],
            "my",
            "my notes.txt\n",
        ),
        ("dmv log @ my", &["log", "@", "my"], "my", "my notes.txt\n"),
        ("dmv --color=n", &["--color", "=", "n"], "n", "never\n"),
    ] {
        let found = completed_by_bash(&place, line, words, last)?;
        assert_eq!(found, expected, "{line}");
    }
    Ok(())
}

#[test]
fn few_of_many_are_offered_and_none_that_a_terminal_would_obey() -> Outcome {
    let place = Place::with_repository()?;
    for n in 0..250 {
        place.write(format!("many/f{n:03}"), "")?;
    }
    place.write("odd/a\u{1b}[2J", "")?;
    place.write("odd/b", "")?;
    place.commit("first")?;
    let found = offered(&place, &["rm", "many/f"])?;
    assert_eq!((found.len(), &found[199][..]), (200, "many/f199"));
    // The limit counts only what continues the word.
    assert_eq!(offered(&place, &["rm", "many/f24"])?.len(), 10);
    assert_eq!(offered(&place, &["rm", "odd/"])?[..1], ["odd/b"]);
    Ok(())
}

/// What bash has in COMPREPLY for a line that it has split into these words, and of which it replaces `last`.
fn completed_by_bash(place: &Place, line: &str, words: &[&str], last: &str) -> Outcome<String> {
    let ask = "shift; source ./script\nCOMP_LINE=$1; last=$2; shift 2; COMP_WORDS=(\"$@\"); COMP_CWORD=$(($# - 1))\n\
               COMP_TYPE=9; _dmv dmv \"$last\" ''; printf '%s\\n' \"${COMPREPLY[@]}\"";
    let script = place.ok(&["completions", "bash"])?;
    place.write("script", script)?;
    let program = Path::new(env!("CARGO_BIN_EXE_dmv")).parent();
    let path = std::env::join_paths(
        program
            .into_iter()
            .chain([Path::new("/usr/bin"), Path::new("/bin")]),
    )?;
    let output = Command::new("bash")
        .args(["--norc", "-c", ask, "bash", "-", line, last, "dmv"])
        .args(words)
        .current_dir(place.work())
        .env("PATH", path)
        .env("HOME", place.home())
        .output()?;
    let said = String::from_utf8(output.stderr)?;
    assert_eq!(
        (output.status.code(), &said[..]),
        (Some(0), ""),
        "{words:?}"
    );
    Ok(String::from_utf8(output.stdout)?)
}
