//! The command lines of the README and the guide, run as a reader would run them.
//!
//! Each `sh` block is run line by line with the real program. `documents/stages.txt` prepares the
//! places, gives the exit codes that are not 0, and lists the lines that cannot run, with the reason.
//! Hosts, devices and disks are directories: `documents/ssh` stands in for ssh.

use crate::place::{Outcome, temp_dir};
use std::collections::VecDeque;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tempfile::TempDir;

const STAGES: &str = include_str!("documents/stages.txt");
const PRELUDE: &str = include_str!("documents/prelude.sh");
const SSH: &str = include_str!("documents/ssh");

/// The number of lines that do not run here. Each has its reason in `stages.txt`.
const SKIPPED: usize = 73;

/// Directories of the documents that are directories of the test instead.
const ELSEWHERE: [&str; 4] = ["/media/", "/srv/", "/scratch", "/tmp/shots"];

/// Programs that the documents use and that need not be installed, with what stands in for them.
const STAND_INS: [(&str, &str); 3] = [
    ("jq", "exec cat"),
    ("render", "test -d \"$1\""),
    ("chgrp", "exit 0"),
];

/// How a line is run.
#[derive(Clone, Debug, Default)]
struct Stage {
    line: String,
    before: Option<String>,
    exit: i32,
    run: Option<String>,
    skip: Option<String>,
}

/// The stages of one page, in the order of its lines.
fn stages(page: &str) -> Outcome<VecDeque<Stage>> {
    let mut out: VecDeque<Stage> = VecDeque::new();
    let mut is_here = false;
    for text in STAGES.lines() {
        if let Some(name) = text.strip_prefix("= ") {
            is_here = name == page;
        } else if !is_here || text.is_empty() || text.starts_with('#') {
        } else if let Some(line) = text.strip_prefix("> ") {
            let line = line.to_owned();
            out.push_back(Stage {
                line,
                ..Stage::default()
            });
        } else {
            let stage = out.back_mut().ok_or("a stage begins with a line")?;
            let (key, value) = text.split_once(": ").ok_or("no colon")?;
            let value = value.trim().to_owned();
            match key {
                "before" => stage.before = Some(value),
                "exit" => stage.exit = value.parse()?,
                "run" => stage.run = Some(value),
                "skip" => stage.skip = Some(value),
                _ => return Err(format!("{page}: unknown: {text}").into()),
            }
        }
    }
    Ok(out)
}

/// The command lines of a page, without comments.
fn command_lines(page: &str) -> Vec<String> {
    let (mut block, mut out) = (None, Vec::new());
    for line in page.lines() {
        if let Some(kind) = line.trim_start().strip_prefix("```") {
            block = match block {
                None => Some(kind),
                Some(_) => None,
            };
        } else if block == Some("sh") {
            let line = without_comment(line);
            out.extend((!line.is_empty()).then(|| line.to_owned()));
        }
    }
    out
}

/// A line of a shell without the comment at its end.
fn without_comment(line: &str) -> &str {
    let (mut quote, mut before) = (None, ' ');
    for (at, c) in line.char_indices() {
        match quote {
            Some(q) if q == c => quote = None,
            Some(_) => {}
            None if c == '\'' || c == '"' => quote = Some(c),
            None if c == '#' && before == ' ' => return line[..at].trim(),
            None => {}
        }
        before = c;
    }
    line.trim()
}

/// A place of its own for one page.
struct Page {
    dir: TempDir,
    /// The directory that the last line has left the shell in.
    here: PathBuf,
}

impl Page {
    fn new() -> Outcome<Page> {
        let dir = temp_dir()?;
        let bin = dir.path().join("bin");
        let home = dir.path().join("home");
        fs::create_dir_all(&bin)?;
        fs::create_dir_all(&home)?;
        symlink(env!("CARGO_BIN_EXE_dmv"), bin.join("dmv"))?;
        fs::write(dir.path().join("prelude.sh"), PRELUDE)?;
        let program = |name: &str, text: &str| -> Outcome {
            fs::write(bin.join(name), text)?;
            let may_run = fs::Permissions::from_mode(0o755);
            Ok(fs::set_permissions(bin.join(name), may_run)?)
        };
        program("ssh", SSH)?;
        for (name, text) in STAND_INS {
            program(name, &format!("#!/bin/sh\n{text}\n"))?;
        }
        Ok(Page { dir, here: home })
    }

    /// Runs a piece of shell where the last one ended. Returns its exit code and what it said.
    fn shell(&mut self, text: &str) -> Outcome<(i32, String)> {
        let root = self.dir.path();
        let path = std::env::var_os("PATH").unwrap_or_default();
        let path = [root.join("bin")]
            .into_iter()
            .chain(std::env::split_paths(&path));
        let script = format!(". \"$ROOT/prelude.sh\"\ntrap 'pwd > \"$ROOT/here\"' EXIT\n{text}");
        let output = Command::new("sh")
            .args(["-c", &script])
            .current_dir(&self.here)
            .env_clear()
            .env("PATH", std::env::join_paths(path)?)
            .env("ROOT", root)
            .env("HOME", root.join("home"))
            .env("work", root.join("scratch/job"))
            .env("USER", "ada")
            .env("NO_COLOR", "1")
            .stdin(Stdio::null())
            .output()?;
        self.here = PathBuf::from(fs::read_to_string(root.join("here"))?.trim_end());
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        Ok((output.status.code().unwrap_or(-1), said))
    }

    /// The line with the directories of the test.
    fn here(&self, line: &str) -> String {
        let root = self.dir.path().display().to_string();
        let mut out = line.to_owned();
        for dir in ELSEWHERE {
            out = out.replace(dir, &format!("{root}{dir}"));
        }
        out
    }
}

/// Runs all lines of a page. Returns how many were skipped, and what went wrong.
fn run_page(name: &str, text: &str) -> Outcome<(usize, usize, Vec<String>)> {
    let mut stages = stages(name)?;
    let (mut ran, mut skipped, mut wrong) = (0, 0, Vec::new());
    let mut page = Page::new()?;
    for line in command_lines(text) {
        let stage = match stages.front() {
            Some(stage) if stage.line == line => stages.pop_front().unwrap_or_default(),
            _ => Stage::default(),
        };
        if stage.skip.is_some() {
            skipped += 1;
            continue;
        }
        if let Some(before) = &stage.before {
            let (code, said) = page.shell(before)?;
            if code != 0 {
                wrong.push(format!("{name}: before '{line}': {code}: {said}"));
            }
        }
        let (code, said) = match &stage.run {
            Some(run) => page.shell(run)?,
            None => page.shell(&page.here(&line))?,
        };
        ran += 1;
        if code != stage.exit {
            let wanted = stage.exit;
            wrong.push(format!(
                "{name}: '{line}' ends with {code}, not {wanted}: {said}"
            ));
        }
    }
    let left = stages.iter().map(|stage| &stage.line);
    wrong.extend(
        left.map(|line| format!("{name}: stages.txt has a line that the page lacks: {line}")),
    );
    Ok((ran, skipped, wrong))
}

#[test]
fn every_command_line_of_the_readme_and_the_guide_does_what_the_page_says() -> Outcome {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut pages = vec!["README.md".to_owned()];
    for entry in fs::read_dir(root.join("docs/guide"))? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        pages.extend(name.ends_with(".md").then(|| format!("docs/guide/{name}")));
    }
    pages.sort();
    let (mut ran, mut skipped, mut wrong) = (0, 0, Vec::new());
    let one = |page: &String| -> Result<_, String> {
        let text = fs::read_to_string(root.join(page)).map_err(|e| e.to_string())?;
        run_page(page, &text).map_err(|e| format!("{page}: {e}"))
    };
    let done: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = pages.iter().map(|page| scope.spawn(|| one(page))).collect();
        threads.into_iter().map(|thread| thread.join()).collect()
    });
    for page in done {
        let (lines, left, more) = page.map_err(|_| "a page panicked")??;
        ran += lines;
        skipped += left;
        wrong.extend(more);
    }
    let named = STAGES.lines().filter_map(|line| line.strip_prefix("= "));
    let unknown = named.filter(|name| !pages.iter().any(|page| page == name));
    wrong.extend(unknown.map(|name| format!("stages.txt has a page that does not exist: {name}")));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(skipped, SKIPPED, "lines that do not run here");
    assert!(ran > 150, "only {ran} lines");
    Ok(())
}

#[test]
fn comments_end_lines_and_quotes_keep_them() {
    assert_eq!(without_comment("dmv log   # all"), "dmv log");
    assert_eq!(without_comment("# all"), "");
    assert_eq!(
        without_comment("dmv commit -m 'a # b'"),
        "dmv commit -m 'a # b'"
    );
    assert_eq!(without_comment("dmv cat a#b"), "dmv cat a#b");
    let page = "```\nno\n```\n```sh\none # x\n\n# y\n```\ntwo\n```sh\nthree\n```\n";
    assert_eq!(command_lines(page), ["one", "three"]);
}
