//! `dmv du`

mod advise;

use crate::partial_repository::held_paths;
use crate::path_arguments::place_or_path;
use crate::prelude::*;
use crate::subset_options::LimitArgs;
use dmv_core::repo::{HistoryUse, LackOf, PathUse};
use dmv_core::subset::Union;
use dmv_core::worktree::select::is_under;

/// Show the size of a directory or file: in total, without duplicates, and as stored
///
/// With --history, lists the paths whose versions take the most space in the history of all branches,
/// tags and worktrees. Content that several files or versions share counts once, for the newest. What was
/// dropped, expired or purged counts as stored only until its space is free.
///
/// With --advise, shows which files take more space over all history than they need, and what to do about
/// it. A file that is saved compressed as a whole changes everywhere with each edit, so its versions share
/// nothing. Saved without compression, they share what was not edited, and dmv compresses it. Each advice
/// shows the most that you can save: the size of all versions but the newest.
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  dmv du\n  dmv du media\n  dmv du v1.0:media\n  dmv du --subset media/scene4 '*.edl'\n  dmv du --history\n  dmv du --history -n 0 media\n  dmv du --advise"
)]
pub struct Args {
    /// The commit, a directory or file in it, or a path in @ (default: where you are)
    #[arg(value_name = "REV[:PATH]|PATH", add = candidates::place_or_path())]
    place: Option<OsString>,
    /// List the paths that take the most space over all history; PATH limits the list
    #[arg(long, conflicts_with = "limit")]
    history: bool,
    /// With --history: further paths
    #[arg(value_name = "PATH", requires = "history", add = candidates::path())]
    more: Vec<OsString>,
    /// With --history: list at most N paths; 0 for all (default: 20; with --json all)
    #[arg(short = 'n', long, value_name = "N", requires = "history")]
    number: Option<usize>,
    /// Show which files take more space than they need, and what to do about it
    #[arg(long, conflicts_with_all = ["history", "limit", "place"])]
    advise: bool,
    #[command(flatten)]
    limit: LimitArgs,
}

/// How many paths are listed without `-n`.
const LISTED: usize = 20;

/// Runs the command.
pub fn run(context: &Context, args: &Args) -> Result<u8, Failure> {
    let repo = context.repo()?;
    if args.advise {
        return advise::run(context, &repo);
    }
    if args.history {
        return history(context, &repo, args);
    }
    let place = place_or_path(context, &repo, args.place.as_deref(), false)?;
    let held = if args.limit.is_given() {
        Union::default()
    } else {
        held_paths(context, &repo, &place.commit, LackOf::Lists)?
    };
    let subset = args
        .limit
        .read_for(context, &repo, place.commit.tree, held)?;
    let watch = context.watch("adding up sizes");
    let sum = repo.disk_use(place.wanted(&subset), &context.job)?;
    drop(watch);
    let document =
        || object! { ..path(&place.path), sum.{bytes, unique_bytes, stored_bytes, files} };
    context.ui.show(document, |out| {
        let path = if place.path.is_root() {
            ".".to_owned()
        } else {
            escape(&place.path).to_string()
        };
        writeln!(
            out,
            "{path}: {} in {}; {} without duplicates, about {} stored",
            bytes(sum.bytes),
            count(sum.files, "file", "files"),
            bytes(sum.unique_bytes),
            bytes(sum.stored_bytes),
        )?;
        Ok(())
    })?;
    Ok(EXIT_OK)
}

fn history(context: &Context, repo: &Repo, args: &Args) -> Result<u8, Failure> {
    let mut limits = Vec::new();
    for arg in args.place.iter().chain(&args.more) {
        let path = context.path(repo, arg)?;
        if path.is_root() {
            limits.clear();
            break;
        }
        limits.push(path);
    }
    let watch = context.watch("adding up versions");
    let found = repo.history_use(&limits, &context.job)?;
    drop(watch);
    for limit in &limits {
        let is_in = |used: &PathUse| is_under(used.path.as_bytes(), limit.as_bytes());
        if !found.paths.iter().any(is_in) {
            let path = escape(limit.as_bytes());
            context.ui.warn(format_args!("no commit has '{path}'"));
        }
    }
    tell_incomplete(context, &found);
    let number = match args.number {
        Some(0) => usize::MAX,
        Some(number) => number,
        None if context.ui.is_json() => usize::MAX,
        None => LISTED,
    };
    let (listed, others) = found.paths.split_at(number.min(found.paths.len()));
    if context.ui.is_json() {
        for used in listed {
            context.ui.json(&object! {
                ..path(&used.path),
                used.{versions, bytes, unique_bytes, stored_bytes, given_up},
            })?;
        }
        return Ok(EXIT_OK);
    }
    context.page();
    print_history(context, &found, listed)?;
    if !others.is_empty() {
        context.ui.note(format_args!(
            "hint: {} more: dmv du --history -n 0",
            count(others.len() as u64, "path", "paths")
        ));
    }
    Ok(EXIT_OK)
}

fn print_history(context: &Context, found: &HistoryUse, listed: &[PathUse]) -> Result<(), Failure> {
    let mut out = context.ui.out();
    if !listed.is_empty() {
        writeln!(
            out,
            "{:>8}  {:>10}  {:>10}  path",
            "versions", "total", "stored"
        )?;
    }
    for used in listed {
        let (total, stored) = (bytes(used.bytes), bytes(used.stored_bytes));
        let path = escape(used.path.as_bytes());
        writeln!(
            out,
            "{:>8}  {total:>10}  {stored:>10}  {path}",
            used.versions
        )?;
    }
    let sum = |of: fn(&PathUse) -> u64| found.paths.iter().map(of).sum::<u64>();
    writeln!(
        out,
        "{} in {}, {} in {}; about {} stored",
        count(sum(|used| used.versions), "version", "versions"),
        count(found.commits, "commit", "commits"),
        bytes(sum(|used| used.bytes)),
        count(found.paths.len() as u64, "path", "paths"),
        bytes(sum(|used| used.stored_bytes)),
    )?;
    match sum(|used| used.given_up) {
        0 => {}
        n => {
            let n = count(n, "version is", "versions are");
            writeln!(out, "{n} given up: dropped, expired or purged")?;
        }
    }
    Ok(())
}

/// Says that a partial repository does not know all versions.
fn tell_incomplete(context: &Context, found: &HistoryUse) {
    if found.is_partial {
        context.ui.warn(format_args!(
            "this repository does not have the metadata of all versions; what it lacks does not count"
        ));
    }
}
