//! What a command prints arrives, or the command fails; and the user's files are where they belong.

use crate::place::hints::commands;
use crate::place::{Outcome, Place};
use std::fs::{self, File};
use std::process::Stdio;

/// Runs a command whose output nobody can store.
fn to_a_full_disk(place: &Place, args: &[&str]) -> Outcome<(Option<i32>, String)> {
    let full = File::options().write(true).open("/dev/full")?;
    let done = place.command(args).stdout(full).output()?;
    Ok((done.status.code(), String::from_utf8(done.stderr)?))
}

#[test]
fn help_and_version_fail_where_they_cannot_be_written() -> Outcome {
    let place = Place::new()?;
    let fails = |args: &[&str]| -> Outcome {
        let (exit, said) = to_a_full_disk(&place, args)?;
        assert_eq!(exit, Some(20), "{args:?}: {said}");
        assert!(said.contains("cannot write output"), "{args:?}: {said}");
        Ok(())
    };
    for args in [
        &["help"][..],
        &["--help"],
        &["-h"],
        &["--version"],
        &["-V"],
        &["--json", "--help"],
        &["man"],
        &["completions", "bash"],
        &["completions", "zsh"],
        &["completions", "fish"],
        &["help", "subset", "add"],
    ] {
        fails(args)?;
    }
    let names = commands();
    assert!(names.len() > 40, "{names:?}");
    for name in names.iter().map(String::as_str) {
        fails(&[name, "--help"])?;
        fails(&["help", name])?;
    }
    Ok(())
}

#[test]
fn commands_fail_where_their_output_cannot_be_written() -> Outcome {
    let place = Place::with_repository()?;
    place.write("a", "one\n")?;
    place.commit("first")?;
    place.ok(&["clone", "--copy", ".", "../backup"])?;
    place.ok(&["remote", "add", "backup", "../backup"])?;
    place.ok(&["tag", "v1"])?;
    place.ok(&["keep", "set", "*.exr", "last:5"])?;
    place.write("a", "two\n")?;
    for args in [
        &["status"][..],
        &["status", "-s"],
        &["log"],
        &["log", "--oneline"],
        &["show"],
        &["diff"],
        &["diff", "--stat"],
        &["diff", "--name-only"],
        &["blame", "a"],
        &["ls"],
        &["ls", "-l"],
        &["cat", "a"],
        &["du"],
        &["du", "--history"],
        &["stats"],
        &["branch"],
        &["tag"],
        &["worktree", "list"],
        &["op", "log"],
        &["remote"],
        &["keep"],
        &["config", "list"],
        &["config", "get", "remote.backup.url"],
        &["verify"],
        &["gc", "--dry-run"],
        &["repack", "--dry-run"],
        &["id"],
        &["export", "@", "--tar", "-"],
        &["fetch", "backup"],
        &["push", "backup", "--dry-run"],
    ] {
        let (exit, said) = to_a_full_disk(&place, args)?;
        if place.run(args)?.stdout.is_empty() {
            continue;
        }
        assert_eq!(exit, Some(20), "{args:?}: {said}");
        assert!(said.contains("cannot write output"), "{args:?}: {said}");
        let with_json = [args, &["--json"]].concat();
        let done = place.run(&with_json)?;
        if done.status.code() != Some(2) && !done.stdout.is_empty() {
            let (exit, said) = to_a_full_disk(&place, &with_json)?;
            assert_eq!(exit, Some(20), "{with_json:?}: {said}");
        }
    }
    Ok(())
}

#[test]
fn a_reader_that_has_gone_is_no_failure_and_a_relative_home_counts_as_unset() -> Outcome {
    let place = Place::with_repository()?;
    // A relative home counts as unset.
    for (home, config) in [
        ("home", ""),
        ("", "config"),
        ("home", "config"),
        ("", ""),
        (".", ".."),
        ("~", ""),
    ] {
        let relative = |args: &[&str]| {
            let mut command = place.command(args);
            command
                .env("HOME", home)
                .env("XDG_CONFIG_HOME", config)
                .output()
        };
        let settings = relative(&["config", "set", "--user", "user.name", "Ada"])?;
        let said = String::from_utf8(settings.stderr)?;
        assert_eq!(settings.status.code(), Some(20), "{home} {config}: {said}");
        let why = match (home, config) {
            ("", "") => "neither HOME nor XDG_CONFIG_HOME is set",
            (_, "") => "HOME is not an absolute path",
            _ => "XDG_CONFIG_HOME is not an absolute path",
        };
        assert!(said.contains(why), "{home} {config}: {said}");
        let done = relative(&["status"])?;
        assert_eq!(done.status.code(), Some(0), "{done:?}");
        #[cfg(feature = "quic")]
        {
            let key = relative(&["id"])?;
            assert_eq!(key.status.code(), Some(20), "{key:?}");
            assert!(String::from_utf8(key.stderr)?.contains(why));
        }
        let names: Vec<_> = fs::read_dir(place.work())?.collect::<Result<_, _>>()?;
        assert_eq!(names.len(), 1, "{names:?}");
    }
    // The other one counts.
    let mut command = place.command(&["config", "set", "--user", "user.name", "Ada"]);
    let done = command.env("XDG_CONFIG_HOME", "config").output()?;
    assert_eq!(done.status.code(), Some(0), "{done:?}");
    assert!(place.home().join(".config/dmv/config.toml").exists());

    // A reader that has gone is no failure.
    for args in [
        &["help"][..],
        &["--version"],
        &["log", "--help"],
        &["status"],
        &["completions", "bash"],
    ] {
        let (reader, writer) = std::io::pipe()?;
        drop(reader);
        let done = place.command(args).stdout(Stdio::from(writer)).output()?;
        let said = String::from_utf8(done.stderr)?;
        assert_eq!((done.status.code(), &said[..]), (Some(0), ""), "{args:?}");
    }
    Ok(())
}
