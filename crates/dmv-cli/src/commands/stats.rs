//! `dmv stats`

use crate::budget::{GRACE, ways};
use crate::context::now;
use crate::partial_repository::{slice_value, told_slice, words};
use crate::prelude::*;
use dmv_core::repo::{GcOptions, StoreStats};

/// With more objects than this, it takes longer than a moment to count what gc can free.
const MAX_COUNTED_OBJECTS: u64 = 2_000_000;

/// Show the size of the repository: objects, packs and bytes
///
/// Also shows how much 'dmv gc' can free, unless the repository has more than two million objects: then
/// 'dmv gc --dry-run' counts it. If the setting repository.budget limits the repository, it shows how much of
/// the budget is used. When it is used up, it lists the commands that free most.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  dmv stats --json")]
pub struct Args {}

/// Runs the command.
pub fn run(context: &Context, _: &Args) -> Result<u8, Failure> {
    let repo = context.repo_as_it_is()?;
    let stats = repo.store_stats()?;
    let shared = repo.shared_bytes(&context.job)?;
    let lean_bytes = repo.is_lean().then(|| repo.lean_use()).transpose()?;
    let lean_bytes = lean_bytes.map_or(0, |found| found.lean_bytes);
    let exclusive = shared.map(|shared| stats.disk_bytes.saturating_sub(shared));
    let slice = told_slice(context, &repo);
    let garbage = garbage(context, &repo, &stats)?;
    let budget = repo.budget()?;
    let over = budget.is_some_and(|limit| stats.disk_bytes >= limit);
    let ways = if over {
        ways(context, &repo)
    } else {
        Vec::new()
    };
    let repack_pays = repo.repack_pays()?;
    let document = || {
        let way = |(bytes, command): &(u64, Hint)| object! { bytes: bytes, command: command };
        object! {
            stats.{
                commits, trees, lists, chunks, packs, data_bytes, meta_bytes, tables, disk_bytes, disk_files,
                head_bytes, head_files,
            },
            shared_bytes: shared,
            exclusive_bytes: exclusive,
            lean_bytes: lean_bytes,
            repack_pays: repack_pays,
            garbage_bytes: garbage.map(|(old, _)| old),
            young_garbage_bytes: garbage.map(|(_, young)| young),
            partial: slice_value(&slice),
            budget_bytes: budget,
            ways: Json::List(ways.iter().map(way).collect()),
        }
    };
    context.ui.show(document, |out| {
    let mut line = |what: &str, value: String| writeln!(out, "{what:<16} {value}");
    line("commits", stats.commits.to_string())?;
    line("chunks", stats.chunks.to_string())?;
    line(
        "metadata",
        format!("{} tree nodes, {} list nodes", stats.trees, stats.lists),
    )?;
    line(
        "packs",
        format!(
            "{}, with {} of content and {} of metadata",
            stats.packs,
            bytes(stats.data_bytes),
            bytes(stats.meta_bytes)
        ),
    )?;
    line("index tables", stats.tables.to_string())?;
    line("on disk", in_files(stats.disk_bytes, stats.disk_files))?;
    if let Some(words) = told_shared(shared, exclusive) {
        line("shared", words)?;
    }
    if lean_bytes > 0 {
        line("lean", format!("{} of content only in the worktree", bytes(lean_bytes)))?;
    }
    line("newest tree", in_files(stats.head_bytes, stats.head_files))?;
    match garbage.unwrap_or_default() {
        (0, 0) => {}
        (0, young) => line(
            "garbage",
            format!("{}, stored within 14 days", bytes(young)),
        )?,
        (old, _) => line("garbage", format!("{} can be freed: dmv gc", bytes(old)))?,
    }
    if repack_pays {
        let why = "many small commits; to join them: dmv repack".to_owned();
        line("repack", why)?;
    }
    if let Some(words) = words(&slice) {
        line("partial", words)?;
    }
    if let Some(limit) = budget {
        let used = part(stats.disk_bytes, limit);
        line("budget", format!("{}, {used} used", bytes(limit)))?;
    }
    if over && ways.is_empty() {
        let text = "the budget is used up, and no command of dmv frees space: dmv config set repository.budget SIZE";
        writeln!(out, "{text}")?;
    } else if over {
        writeln!(out, "the budget is used up; these commands free most:")?;
        for (freed, command) in &ways {
            writeln!(out, "  {:>10}  {command}", bytes(*freed))?;
        }
    }
        Ok(())
    })?;
    Ok(EXIT_OK)
}

/// How many bytes of packs lie in blocks that other files have, too, and how many other bytes the repository has.
/// `None` if it shares nothing.
fn told_shared(shared: Option<u64>, exclusive: Option<u64>) -> Option<String> {
    let (Some(shared), Some(exclusive)) = (shared, exclusive) else {
        return Some("unknown: this file system does not tell".to_owned());
    };
    let words = || {
        let (shared, exclusive) = (bytes(shared), bytes(exclusive));
        format!("{shared} lie in blocks of other files, too; {exclusive} are the repository's own")
    };
    (shared > 0).then(words)
}

/// How much of a limit is used, in percent or as a multiple.
fn part(used: u64, limit: u64) -> String {
    let percent = u128::from(used) * 100 / u128::from(limit.max(1));
    match percent {
        0..1000 => format!("{percent} %"),
        _ => format!("{} times that", percent / 100),
    }
}

/// `4 B in 1 file`.
fn in_files(size: u64, files: u64) -> String {
    format!("{} in {}", bytes(size), count(files, "file", "files"))
}

/// Returns the bytes that gc can free, and those that it leaves because they are young. Returns `None` if there are too many objects to count, or if
/// damage keeps gc from freeing anything, which `verify` reports.
fn garbage(
    context: &Context,
    repo: &Repo,
    stats: &StoreStats,
) -> Result<Option<(u64, u64)>, Failure> {
    if stats.commits + stats.trees + stats.lists + stats.chunks > MAX_COUNTED_OBJECTS {
        return Ok(None);
    }
    let options = GcOptions::dry_run(GRACE, now());
    match repo.gc(&options, &context.job) {
        Ok(report) => Ok(report
            .finished
            .then_some((report.freed_bytes, report.young_bytes))),
        Err(e @ RepoError::Cancelled) => Err(e.into()),
        Err(_) => Ok(None),
    }
}
