//! `dmv get`

use crate::context::Context;
use crate::error::{EXIT_OK, Failure};
use crate::format::text::{bytes, count};
use crate::places::chosen;
use crate::supply::Supplier;
use dmv_core::object::root::{Lack, Root};
use dmv_core::repo::LackOf;
use serde::Serialize;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::Write;

/// Bring the content of files that is not in this repository
///
/// Where a repository holds only a part, or files were dropped, history names content that is
/// elsewhere. It is asked of all remotes, one after the other. Commands that need content ask for
/// it themselves; this is for what will be needed where nobody can be asked.
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  dmv get media/scene4\n  dmv get '*.wav'\n  dmv get v1.0:media/clip.mov\n\n\
                  Exit code 6: no remote that could be reached has all of it; what they had was brought."
)]
pub struct Args {
    /// Files and directories of the worktree's commit, or of REV; wildcards as in a subset
    #[arg(value_name = "[REV:]PATH", required = true)]
    paths: Vec<OsString>,
}

#[derive(Serialize)]
struct Document {
    files: u64,
    bytes: u64,
}

/// Runs the command.
pub fn run(context: &Context, args: &Args) -> Result<u8, Failure> {
    let repo = context.repo()?;
    let mut brought = Brought::default();
    let mut left = Vec::new();
    let mut supplier = Supplier::new(context, &repo)?;
    for chosen in chosen(context, &repo, &args.paths)? {
        // A directory that is wanted in part shows what it holds when it has come.
        loop {
            let lacks = repo.lacking(chosen.wanted(), LackOf::Content)?;
            if lacks.is_empty() {
                break;
            }
            let failed = supplier.bring(lacks.clone())?;
            brought.note(&lacks, &failed);
            if !failed.is_empty() {
                left.extend(failed);
                break;
            }
        }
        repo.no_longer_dropped(chosen.wanted())?;
    }
    brought.print(context, left.is_empty())?;
    if !left.is_empty() {
        return Err(supplier.failure(&left));
    }
    supplier.finish();
    Ok(EXIT_OK)
}

/// Files that have come, by the id and size of their content.
#[derive(Default)]
struct Brought {
    files: BTreeMap<Vec<u8>, (u64, u64)>,
}

impl Brought {
    fn note(&mut self, lacks: &[Lack], failed: &[Lack]) {
        for lack in lacks.iter().filter(|lack| !failed.contains(lack)) {
            let counts = match lack.root {
                Root::Blob(blob) => (1, blob.size),
                Root::Directory { bytes, files, .. } => (files, bytes),
                Root::Object(..) => continue,
            };
            self.files.insert(lack.path.clone(), counts);
        }
    }

    fn print(&self, context: &Context, is_all: bool) -> Result<(), Failure> {
        let sum = |of: fn(&(u64, u64)) -> u64| self.files.values().map(of).sum::<u64>();
        let document = Document {
            files: sum(|(files, _)| *files),
            bytes: sum(|(_, bytes)| *bytes),
        };
        if context.globals.json {
            return context.ui.json(&document);
        }
        if context.ui.quiet() {
            return Ok(());
        }
        let mut out = context.ui.out();
        match (document.files, is_all) {
            (0, true) => writeln!(out, "all of it is here already")?,
            (0, false) => {}
            (n, _) => {
                let files = count(n, "file", "files");
                writeln!(out, "{files} brought ({})", bytes(document.bytes))?;
            }
        }
        Ok(())
    }
}
