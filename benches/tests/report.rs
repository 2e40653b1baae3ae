//! The program `report` from end to end, at small sizes and with stand-ins for some tools.

#![cfg(target_os = "linux")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Output};

use anyhow::{Context, Result};

/// A tool whose commits fail.
const FAILS: &str =
    "case $1 in --version) echo stand-in 1;; init) ;; *) echo no space >&2; exit 3;; esac";
/// A tool whose commits do not end.
const HANGS: &str = "case $1 in --version) echo stand-in 2;; init) ;; *) exec sleep 60;; esac";
/// A tool that cannot even tell its version.
const BROKEN: &str = "exit 1";

struct Bench {
    dir: tempfile::TempDir,
}

impl Bench {
    fn new() -> Result<Bench> {
        let dir = tempfile::tempdir()?;
        let bin = dir.path().join("bin");
        fs::create_dir(&bin)?;
        for (name, body) in [("hg", FAILS), ("borg", HANGS), ("bup", BROKEN)] {
            let path = bin.join(name);
            fs::write(&path, format!("#!/bin/sh\n{body}\n"))?;
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
        }
        Ok(Bench { dir })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn run(&self, more: &[&str]) -> Result<Output> {
        let path = std::env::var("PATH").context("PATH")?;
        let output = Command::new(env!("CARGO_BIN_EXE_report"))
            .current_dir(self.dir.path())
            .env("PATH", format!("{}:{path}", self.path("bin").display()))
            .args(["--max-files", "1", "--reps", "2"])
            .args(["--limit", "0.5", "--prime-gib", "0", "--keep-free-gib", "0"])
            .args(["--results", "raw/results.tsv", "--page", "page.md"])
            .args(["--base", "scratch"])
            .args(more)
            .output()?;
        Ok(output)
    }

    fn text(&self, name: &str) -> Result<String> {
        fs::read_to_string(self.path(name)).context(name.to_owned())
    }

    /// The rows of the results that begin a session, without dates and numbers.
    fn outcomes(&self) -> Result<Vec<String>> {
        let text = self.text("raw/results.tsv")?;
        let rows = text
            .lines()
            .map(|line| line.split('\t').collect::<Vec<_>>());
        let first = rows.filter(|cells| cells.get(5) == Some(&"first"));
        Ok(first.map(|cells| cells[1..7].join(" ")).collect())
    }
}

fn succeeded(output: &Output) {
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{told}");
}

#[test]
fn one_command_measures_goes_on_and_draws() -> Result<()> {
    let bench = Bench::new()?;
    let all = ["--tools", "cp,hg,borg,bup", "--max-file", "4B"];
    succeeded(&bench.run(&all)?);
    let wanted = [
        "file 1 cp 0 first ok",
        "file 1 hg 0 first failed",
        "file 1 borg 0 first timed-out",
        "file 1 cp 1 first ok",
        "file 4 cp 0 first ok",
        "file 4 hg 0 first failed",
        "file 4 borg 0 first not-tried",
        "file 4 cp 1 first ok",
        "files 1 cp 0 first ok",
        "files 1 hg 0 first failed",
        "files 1 borg 0 first timed-out",
        "files 1 cp 1 first ok",
    ];
    assert_eq!(bench.outcomes()?, wanted);
    let results = bench.text("raw/results.tsv")?;
    assert!(results.contains("\n# missing\tbup\t"), "{results}");
    assert!(results.contains("no space"), "{results}");
    let place = bench.dir.path().display().to_string();
    assert!(!results.contains(&place), "{results}");
    assert!(!bench.path("scratch/dmv-report-scratch").exists());

    let page = bench.text("page.md")?;
    for wanted in [
        "| 4 B | cp |",
        "| 4 B | hg | failed |",
        "| 1 B | borg | time limit |",
        "- bup: not measured",
    ] {
        assert!(page.contains(wanted), "{wanted}\n{page}");
    }
    let plot = bench.text("plots/file-first.svg")?;
    assert!(plot.contains("× fails at 1 B"), "{plot}");

    // Again: nothing is left to do. After a loss, what was lost.
    succeeded(&bench.run(&all)?);
    assert_eq!(bench.text("raw/results.tsv")?, results);
    let at = results.rfind("files\t1\thg").context("rows of hg")?;
    fs::write(bench.path("raw/results.tsv"), &results[..at])?;
    succeeded(&bench.run(&all)?);
    let mut again = bench.outcomes()?;
    again.sort();
    let mut wanted = wanted.map(str::to_owned).to_vec();
    wanted.sort();
    assert_eq!(again, wanted);

    // From the results alone.
    let page = bench.text("page.md")?;
    fs::remove_file(bench.path("page.md"))?;
    fs::remove_dir_all(bench.path("plots"))?;
    succeeded(&bench.run(&["--draw"])?);
    assert_eq!(bench.text("page.md")?, page);
    assert!(bench.path("plots/files-checkout.svg").exists());
    Ok(())
}

#[test]
fn what_an_interrupted_run_left_is_deleted_and_nothing_else() -> Result<()> {
    let bench = Bench::new()?;
    let scratch = bench.path("scratch/dmv-report-scratch");
    fs::create_dir_all(scratch.join("cp-0/work"))?;
    let output = bench.run(&["--tools", "cp", "--max-file", "0"])?;
    assert!(!output.status.success() && scratch.join("cp-0/work").exists());
    fs::write(scratch.join("made-by-benches-report"), "")?;
    succeeded(&bench.run(&["--tools", "cp", "--max-file", "0"])?);
    assert!(!scratch.exists());
    Ok(())
}

#[test]
fn what_the_disk_has_no_room_for_is_left_out() -> Result<()> {
    let bench = Bench::new()?;
    let huge = ["--min-file", "512T", "--max-file", "512T"];
    succeeded(&bench.run(&[&["--tools", "cp", "--min-files", "2"][..], &huge].concat())?);
    assert_eq!(
        bench.outcomes()?,
        ["file 562949953421312 cp 0 first no-room"]
    );
    let page = bench.text("page.md")?;
    assert!(page.contains("| 512 TiB | cp | no room |"), "{page}");
    assert!(!bench.path("plots").exists());
    Ok(())
}
