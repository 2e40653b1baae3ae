//! `dmv export --git`

use crate::context::Context;
use crate::failure::{EXIT_INCOMPLETE, EXIT_OK, Failure};
use crate::format::text::{clean, count};
use dmv_git::export::{ExportOptions, ExportReport, algorithm_for, export};
use dmv_git::source::GitSource;
use serde::Serialize;
use std::fmt;
use std::io::Write;
use std::path::Path;

#[derive(Serialize)]
struct Document {
    commits: u64,
    refs: Vec<RefDocument>,
    changed: Vec<String>,
    empty_directories: u64,
    conflicts: u64,
}

#[derive(Serialize)]
struct RefDocument {
    r#ref: String,
    old: Option<String>,
    new: String,
    refused: Option<String>,
}

/// Says that commits came back.
pub struct SameId(pub u64);

impl fmt::Display for SameId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let own = count(self.0, "of them is a commit", "of them are commits");
        write!(f, "{own} that dmv had exported")
    }
}

/// Exports to the Git repository in `dir`, and makes a bare one if there is none.
pub fn run(context: &Context, dir: &Path, options: &ExportOptions) -> Result<u8, Failure> {
    let repo = context.repo()?;
    let target = if dir.exists() {
        GitSource::open(dir)?
    } else {
        GitSource::create(dir, algorithm_for(&repo)?)?
    };
    let watch = context.watch("exporting");
    let done = export(&repo, &target, options, &context.job);
    drop(watch);
    let done = done?;
    if context.globals.json {
        context.ui.json(&document(&done))?;
    } else {
        tell(context, dir, &done)?;
    }
    let is_complete =
        done.changed.is_empty() && done.refs.iter().all(|moved| moved.refused.is_none());
    Ok(if is_complete {
        EXIT_OK
    } else {
        EXIT_INCOMPLETE
    })
}

fn tell(context: &Context, dir: &Path, done: &ExportReport) -> Result<(), Failure> {
    if !context.ui.quiet() {
        let commits = count(done.commits, "commit", "commits");
        let mut out = context.ui.out();
        writeln!(
            out,
            "{commits} exported to {}",
            clean(&dir.to_string_lossy())
        )?;
        for moved in done.refs.iter().filter(|moved| moved.refused.is_none()) {
            let word = if moved.old.is_some() { "moved" } else { "new" };
            writeln!(out, "  {word:<5}  {}", clean(&moved.name))?;
        }
    }
    for moved in &done.refs {
        if let Some(why) = &moved.refused {
            let name = clean(&moved.name);
            context.ui.warn(format_args!("not moved: {name}: {why}"));
        }
    }
    if let Some(first) = done.changed.first() {
        let commits = count(done.changed.len() as u64, "commit has", "commits have");
        context.ui.warn(format_args!(
            "{commits} another id than before the import, the first is {first}: the import had left something out"
        ));
    }
    if done.empty_directories > 0 {
        let directories = count(
            done.empty_directories,
            "empty directory",
            "empty directories",
        );
        context
            .ui
            .warn(format_args!("{directories} left out: Git has none"));
    }
    if done.conflicts > 0 {
        let commits = count(done.conflicts, "commit has", "commits have");
        context.ui.warn(format_args!(
            "{commits} open conflicts: these files have markers in Git"
        ));
    }
    Ok(())
}

fn document(done: &ExportReport) -> Document {
    let refs = done.refs.iter().map(|moved| RefDocument {
        r#ref: moved.name.clone(),
        old: moved.old.map(|id| id.to_string()),
        new: moved.new.to_string(),
        refused: moved.refused.clone(),
    });
    Document {
        commits: done.commits,
        refs: refs.collect(),
        changed: done.changed.iter().map(ToString::to_string).collect(),
        empty_directories: done.empty_directories,
        conflicts: done.conflicts,
    }
}
