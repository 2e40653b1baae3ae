//! `dmv get`

use crate::cost::print_with_cost;
use crate::covering_paths::command;
use crate::on_demand::{absent_failure, ops_failure};
use crate::path_arguments::{ChosenPaths, chosen};
use crate::peers::{Call, tell_skipped};
use crate::prelude::*;
use dmv_core::object::root::{Lack, Root};
use dmv_core::repo::LackOf;
use dmv_net::ops::Suppliers;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

/// Download absent file content now, such as before you go offline
///
/// In a partial repository, or after 'dmv drop', some file content is absent. dmv asks the remotes for
/// it, one after the other. Other commands fetch the content that they need on their own.
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  dmv get media/scene4\n  dmv get '*.wav'\n  dmv get v1.0:media/clip.mov\n\n\
                  Exit code 6: the reachable remotes do not have all of it; dmv fetched and kept what they have."
)]
pub struct Args {
    /// Files, directories or wildcard patterns, in the commit REV (default: @)
    #[arg(value_name = "[REV:]PATH", required = true, add = candidates::place_or_path())]
    paths: Vec<OsString>,
}

/// Runs the command.
pub fn run(context: &Context, args: &Args) -> Result<u8, Failure> {
    let repo = context.repo()?;
    let mut brought = Brought::default();
    let mut left = Vec::new();
    let call = Call::new(context);
    let mut suppliers = Suppliers::new(&repo, &call, &context.job)?;
    let chosen = chosen(context, &repo, &args.paths)?;
    for chosen in &chosen {
        // A directory that is wanted in part shows what it holds when it has come.
        loop {
            let lacks = repo.lacking(chosen.wanted(), LackOf::Content)?;
            if lacks.is_empty() {
                break;
            }
            let failed = suppliers.fetch(lacks.clone());
            call.rest();
            let failed = failed.map_err(|e| ops_failure(context, e))?;
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
        return Err(not_fetched(context, suppliers, left));
    }
    tell_skipped(context, suppliers.finish());
    tell_outside(context, &repo, &chosen)?;
    Ok(EXIT_OK)
}

/// Says that content has come whose files the subset of the worktree leaves out, and how to have them.
fn tell_outside(context: &Context, repo: &Repo, chosen: &[ChosenPaths]) -> Result<(), Failure> {
    if repo.worktree_root().is_none() {
        return Ok(());
    }
    let (subset, head) = (repo.subset()?, repo.head_commit()?);
    let Some(head) = head.filter(|_| !subset.is_everything()) else {
        return Ok(());
    };
    let tree = repo.read_commit(&head)?.tree;
    let (mut files, mut patterns) = (0, BTreeSet::new());
    for chosen in chosen.iter().filter(|chosen| chosen.tree() == Some(tree)) {
        let before = files;
        repo.list_subset(&RepoPath::root(), tree, chosen.subset(), &mut |line| {
            files += u64::from(!subset.includes(line.path.as_bytes(), false));
            Ok(ControlFlow::Continue(()))
        })?;
        if files > before {
            patterns.extend(chosen.subset().patterns());
        }
    }
    if files > 0 {
        let files = count(files, "file is", "files are");
        context.ui.note(format_args!(
            "note: {files} outside of the subset of this worktree, so only the content is here"
        ));
        let add = command("dmv subset add", &patterns, |p| Argument::given_pattern(p));
        let add = add.unwrap_or_else(|| hint!("dmv subset add PATTERN"));
        context
            .ui
            .note(hint!("hint: to have the files, too: {}", add));
    }
    Ok(())
}

/// The failure if some content has not come. That content was purged is no remote's fault.
fn not_fetched(context: &Context, suppliers: Suppliers<'_>, mut left: Vec<Lack>) -> Failure {
    let purged = suppliers.purged(&left);
    left.retain(|lack| purged.iter().all(|purged| purged.path != lack.path));
    let failures = purged.into_iter().map(RepoError::from);
    let mut failures: Vec<Failure> = failures.map(Failure::from).collect();
    let last = if left.is_empty() {
        failures.pop()
    } else {
        None
    };
    for failure in failures {
        context.ui.warn(format_args!("{failure}"));
    }
    last.unwrap_or_else(|| absent_failure(context, &suppliers.absent(left)))
}

/// Files that have come, by the id and size of their content.
#[derive(Default)]
struct Brought {
    files: BTreeMap<RepoPath, (u64, u64)>,
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
        let (files, size) = (sum(|(files, _)| *files), sum(|(_, bytes)| *bytes));
        if context.ui.is_json() {
            return print_with_cost(context, object! { files: files, bytes: size });
        }
        context.ui.text(|out| {
            match (files, is_all) {
                (0, true) => {
                    writeln!(out, "nothing to fetch: all of this content is already here")?
                }
                (0, false) => {}
                (n, _) => {
                    let files = count(n, "file", "files");
                    writeln!(out, "{files} fetched ({})", bytes(size))?;
                }
            }
            Ok(())
        })
    }
}
