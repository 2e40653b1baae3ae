//! Measures work in one directory of a large repository against the same work in small ones.
//!
//! `subset DMV BASE [DIRS [FILES]]` makes three repositories in the new directory BASE: one of DIRS x
//! FILES (1,000 x 1,000) files of 100 to 1,000 bytes, one of a single such directory, one of 100 files. The
//! first one's worktree is limited to a directory; then `DMV` is run in each, and the medians of
//! seven runs are printed. A tmpfs of 6 GiB holds the whole of it.

// It is a program; its output is for people.
#![allow(clippy::print_stdout)]

use anyhow::{Context, Result, ensure};
use dmv_benches::prng::Prng;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

const RUNS: usize = 7;
const SMALL_FILES: u32 = 100;

struct Bench {
    dmv: PathBuf,
    base: PathBuf,
}

fn main() -> Result<()> {
    let args: Vec<OsString> = std::env::args_os().skip(1).collect();
    let number = |at: usize| -> Result<u32> {
        let Some(arg) = args.get(at) else {
            return Ok(1000);
        };
        Ok(arg.to_str().context("a number is not text")?.parse()?)
    };
    let (dirs, files) = (number(2)?, number(3)?);
    let bench = Bench {
        dmv: fs::canonicalize(args.first().context("DMV is missing")?)?,
        base: PathBuf::from(args.get(1).context("BASE is missing")?),
    };
    fs::create_dir(&bench.base)?;
    let part = dir_name(dirs / 2);
    bench.repository("small", &[dir_name(0)], SMALL_FILES)?;
    bench.repository("one", std::slice::from_ref(&part), files)?;
    let all: Vec<String> = (0..dirs).map(dir_name).collect();
    bench.repository("large", &all, files)?;
    bench.dmv("large", &["checkout", "--subset", &part])?;

    println!("| work | {SMALL_FILES} files | {files} files | subset of {dirs} x {files} |");
    println!("|---|---:|---:|---:|");
    let places = ["small", "one", "large"];
    let row = |name: &str, work: &dyn Fn(&str) -> Result<f64>| -> Result<()> {
        let mut line = format!("| {name} |");
        for place in places {
            let mut runs = Vec::new();
            for _ in 0..RUNS {
                runs.push(work(place)?);
            }
            runs.sort_unstable_by(f64::total_cmp);
            let (least, median, most) = (runs[0], runs[RUNS / 2], runs[RUNS - 1]);
            line += &format!(" {median:.4} ({least:.4}-{most:.4}) |");
        }
        println!("{line}");
        Ok(())
    };
    row("checkout", &|place| {
        let whole = ["checkout", "--all"];
        let limited = ["checkout", "--subset", &part];
        bench.dmv(place, &["checkout", "--subset", "nothing"])?;
        let args: &[&str] = if place == "large" { &limited } else { &whole };
        bench.dmv(place, args)
    })?;
    row("export", &|place| {
        let out = bench.base.join("out");
        let to = out.to_str().context("BASE is not text")?;
        let whole = ["export", "main", "--to", to];
        let limited = ["export", "main", "--to", to, "--subset", &part];
        let args: &[&str] = if place == "large" { &limited } else { &whole };
        let seconds = bench.dmv(place, args)?;
        fs::remove_dir_all(out)?;
        Ok(seconds)
    })?;
    row("status", &|place| bench.dmv(place, &["status"]))?;
    row("commit of one changed file", &|place| {
        let dir = if place == "small" {
            dir_name(0)
        } else {
            part.clone()
        };
        let file = bench.base.join(place).join(dir).join(file_name(7));
        let mut content = fs::read(&file)?;
        content.push(b'x');
        fs::write(&file, content)?;
        bench.dmv(place, &["commit", "-m", "one"])
    })?;
    row("commit of nothing", &|place| {
        bench.dmv(place, &["commit", "-m", "none"])
    })?;
    row("ls", &|place| bench.dmv(place, &["ls"]))?;
    row("log -n 20", &|place| bench.dmv(place, &["log", "-n", "20"]))?;
    row("du of the directory", &|place| {
        let dir = if place == "small" {
            dir_name(0)
        } else {
            part.clone()
        };
        bench.dmv(place, &["du", &format!("@:{dir}")])
    })?;
    Ok(())
}

fn dir_name(n: u32) -> String {
    format!("d{n:04}")
}

fn file_name(n: u32) -> String {
    format!("f{n:04}.bin")
}

impl Bench {
    /// Makes a repository of these directories, and commits it.
    fn repository(&self, place: &str, dirs: &[String], files: u32) -> Result<()> {
        let top = self.base.join(place);
        let mut content = [0; 1000];
        for dir in dirs {
            // The directory's own seed: the same one is the same in every repository.
            let mut prng = Prng::new(dir.bytes().fold(0, |n, b| n * 31 + u64::from(b)));
            fs::create_dir_all(top.join(dir))?;
            for file in 0..files {
                let len = 100 + prng.below(900) as usize;
                prng.fill(&mut content[..len]);
                fs::write(top.join(dir).join(file_name(file)), &content[..len])?;
            }
        }
        self.dmv(place, &["init"])?;
        self.dmv(place, &["commit", "-m", "all"])?;
        Ok(())
    }

    /// Runs the program in one of the repositories; returns the seconds that it took.
    fn dmv(&self, place: &str, args: &[&str]) -> Result<f64> {
        let dir: &Path = &self.base.join(place);
        let start = Instant::now();
        let mut command = Command::new(&self.dmv);
        command.args(args).current_dir(dir).stdout(Stdio::null());
        let done = command.output().context("run dmv")?;
        let seconds = start.elapsed().as_secs_f64();
        let message = String::from_utf8_lossy(&done.stderr);
        ensure!(done.status.success(), "dmv {args:?} in {place}: {message}");
        Ok(seconds)
    }
}
