//! Every command that accepts paths, with every sort of path: which exit code, and which words. The
//! tables lie in `words`; CONTRIBUTING.md says how to write them anew.

// A test that is left out says why.
#![allow(clippy::print_stdout)]

use crate::place::{Outcome, Place, temp_dir};
use snapbox::{assert_data_eq, file};
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

/// The words of the commands; `PATH` stands for one path or several.
const COMMANDS: &[&[&str]] = &[
    &["status", "PATH"],
    &["diff", "--stat", "--", "PATH"],
    &["diff", "--exit-code", "--name-only", "--", "PATH"],
    &["commit", "-m", "m", "PATH"],
    &["stash", "push", "PATH"],
    &["restore", "PATH"],
    &["rm", "-r", "PATH"],
    &["rm", "-r", "--cached", "PATH"],
    &["mv", "PATH", "taken"],
    &["resolve", "PATH", "--ours"],
    &["log", "--oneline", "--", "PATH"],
    &["ls", "PATH"],
    &["cat", "PATH"],
    &["blame", "PATH"],
    &["du", "PATH"],
    &["get", "PATH"],
    &["drop", "PATH"],
    &["purge", "--dry-run", "PATH"],
    &["subset", "add", "PATH"],
    &["subset", "remove", "PATH"],
    &["export", "@", "--tar", "-", "--subset", "PATH"],
    &["expire", "--dry-run", "PATH"],
];

/// Commands that change nothing that another one answers about: all of their runs are in one copy.
const LOOKS: [&str; 6] = ["diff", "log", "ls", "cat", "blame", "du"];

/// The sorts of paths. `ROOT` stands for the worktree.
const KINDS: &[(&str, &[&str])] = &[
    ("a file", &["f"]),
    ("a directory", &["d"]),
    ("with a slash at its end", &["d/"]),
    ("the root", &["."]),
    ("with ./", &["./f"]),
    ("with ..", &["d/../f"]),
    ("absolute", &["ROOT/f"]),
    ("a symlink", &["link"]),
    ("through a symlink", &["link/a"]),
    ("repeated", &["f", "f"]),
    ("overlapping", &["d", "d/a"]),
    ("overlapping, the other way", &["d/a", "d"]),
    ("missing", &["nope"]),
    ("below a file", &["f/x"]),
    ("one of two missing", &["f", "nope"]),
    ("untracked", &["u"]),
    ("ignored", &["x.log"]),
    ("in an ignored directory", &["build/x"]),
    ("outside of the worktree", &["../home"]),
    ("outside of the subset", &["out/z"]),
    ("absent", &["gone"]),
    ("empty", &[""]),
];

/// Those that need another user than root.
const UNREADABLE: &[(&str, &[&str])] = &[
    ("an unreadable file", &["secret"]),
    ("beside an unreadable file", &["secret", "d"]),
    ("an unreadable directory", &["locked"]),
    ("in an unreadable directory", &["locked/x"]),
];

/// A repository with one of each: `f` and `d` have changed, and the content of `gone` is at a remote
/// that cannot be reached.
fn template() -> Outcome<Place> {
    let place = Place::with_repository()?;
    place.write(".dmvignore", "*.log\nbuild/\n")?;
    for path in ["f", "d/a", "d/b", "out/z", "secret", "locked/x"] {
        place.write(path, format!("the first line of {path}\n"))?;
    }
    symlink("d", place.work().join("link"))?;
    place.commit("first")?;
    // In a pack of its own, which a drop frees.
    let lines: String = (0..60_000).map(|n| format!("{n}\n")).collect();
    place.write("gone", lines)?;
    place.commit("second")?;
    place.ok(&["clone", "--copy", ".", "../backup"])?;
    place.ok(&["remote", "add", "backup", "../backup"])?;
    place.ok(&["drop", "gone"])?;
    place.ok(&["subset", "remove", "out"])?;
    fs::rename(
        place.dir.path().join("backup"),
        place.dir.path().join("away"),
    )?;
    for path in ["f", "d/a", "u", "x.log", "build/x"] {
        place.write(path, "changed\n")?;
    }
    fs::remove_file(place.work().join("gone"))?;
    Ok(place)
}

/// A copy of the template, which can be removed at its end whatever was locked in it.
struct TemplateCopy(TempDir);

impl TemplateCopy {
    fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for TemplateCopy {
    fn drop(&mut self) {
        let locked = self.path().join("work/locked");
        let _ = fs::set_permissions(locked, Permissions::from_mode(0o755));
    }
}

fn copied(template: &Place) -> Outcome<TemplateCopy> {
    let copy = TemplateCopy(temp_dir()?);
    let mut command = Command::new("cp");
    command
        .arg("-a")
        .arg(template.dir.path().join("."))
        .arg(copy.path());
    assert!(command.status()?.success());
    Ok(copy)
}

/// Runs `program` in a copy of the template.
fn run(copy: &Path, program: &[&str], words: &[&str], paths: &[&str]) -> Outcome<Output> {
    let work = copy.join("work");
    let root = work.display().to_string();
    let mut args: Vec<String> = Vec::new();
    for word in words {
        match *word {
            "PATH" => args.extend(paths.iter().map(|path| path.replace("ROOT", &root))),
            word => args.push(word.to_owned()),
        }
    }
    let mut command = Command::new(program[0]);
    command
        .args(&program[1..])
        .args(args)
        .current_dir(&work)
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("HOME", copy.join("home"))
        .env("XDG_CONFIG_HOME", copy.join("home/config"))
        .env("USER", "ada")
        .env("NO_COLOR", "1")
        .stdin(Stdio::null());
    Ok(command.output()?)
}

/// The exit code and the first words on the side, without what differs from run to run.
fn told(template: &Place, copy: &Path, output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stderr);
    let note = |line: &&str| !line.starts_with("note: this worktree has moved");
    let first = text.lines().find(note).unwrap_or_default();
    let root = copy.join("work").display().to_string();
    // A pattern has lost its slash.
    let first = first.replace(&root, "ROOT").replace(&root[1..], "ROOT");
    let first = first.replace(&template.dir.path().display().to_string(), "THERE");
    let words = first.split(' ').map(|word| {
        let bare = word.trim_end_matches([',', ';', ':', ')']);
        let is_id = bare.len() >= 12 && bare.chars().all(|c| c.is_ascii_hexdigit());
        if is_id {
            word.replace(bare, "[ID]")
        } else {
            word.to_owned()
        }
    });
    let words: Vec<String> = words.collect();
    let exit = output
        .status
        .code()
        .map_or("killed".to_owned(), |code| code.to_string());
    format!("{exit:>3}  {}", words.join(" "))
        .trim_end()
        .to_owned()
}

/// The table of all commands with these sorts of paths. `program` runs `dmv`, `prepare` changes a copy.
fn table(
    kinds: &[(&str, &[&str])],
    program: &[&str],
    prepare: impl Fn(&Path) -> Outcome,
) -> Outcome<String> {
    let template = template()?;
    let mut out = String::new();
    for words in COMMANDS {
        out += &format!("dmv {}\n", words.join(" "));
        let mut last = None;
        for (kind, paths) in kinds {
            let copy = match last.take().filter(|_| LOOKS.contains(&words[0])) {
                Some(copy) => copy,
                None => {
                    let copy = copied(&template)?;
                    prepare(copy.path())?;
                    copy
                }
            };
            let done = run(copy.path(), program, words, paths)?;
            out += &format!("  {kind:<27}{}\n", told(&template, copy.path(), &done));
            last = Some(copy);
        }
    }
    Ok(out)
}

#[test]
fn each_command_has_an_answer_for_each_sort_of_path() -> Outcome {
    let found = table(KINDS, &[env!("CARGO_BIN_EXE_dmv")], |_| Ok(()))?;
    assert_data_eq!(found, file!["words/paths.txt"].raw());
    Ok(())
}

#[test]
fn what_cannot_be_read_is_said_and_is_no_success() -> Outcome {
    let nobody = [
        "setpriv",
        "--reuid=65534",
        "--regid=65534",
        "--clear-groups",
    ];
    let is_root = rustix::process::geteuid().is_root();
    let mut program = vec![env!("CARGO_BIN_EXE_dmv")];
    if is_root {
        let tried = Command::new(nobody[0])
            .args(&nobody[1..])
            .arg(program[0])
            .arg("help")
            .output();
        if !tried.is_ok_and(|done| done.status.success()) {
            dmv_random::skip("root can read everything, and setpriv cannot run the program");
            return Ok(());
        }
        program = [&nobody[..], &program[..]].concat();
    }
    let prepare = |copy: &Path| -> Outcome {
        let work = copy.join("work");
        fs::write(work.join("secret"), "changed\n")?;
        if is_root {
            let mut chown = Command::new("chown");
            chown.args(["-R", "-h", "65534:65534"]).arg(copy);
            assert!(chown.status()?.success());
        }
        fs::set_permissions(work.join("secret"), Permissions::from_mode(0o0))?;
        fs::set_permissions(work.join("locked"), Permissions::from_mode(0o0))?;
        Ok(())
    };
    let found = table(UNREADABLE, &program, prepare)?;
    assert_data_eq!(found, file!["words/unreadable.txt"].raw());
    Ok(())
}
