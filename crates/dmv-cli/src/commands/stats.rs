//! `dmv stats`

use crate::budget::{GRACE, ways};
use crate::context::{Context, now};
use crate::failure::{EXIT_OK, Failure};
use crate::format::text::{bytes, count};
use crate::partial::{SliceValue, told_slice, words};
use dmv_core::escape::Hint;
use dmv_core::repo::{GcOptions, Repo, RepoError, StoreStats};
use serde::Serialize;
use std::io::Write;

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

#[derive(Serialize)]
struct Document {
    commits: u64,
    trees: u64,
    lists: u64,
    chunks: u64,
    packs: u64,
    data_bytes: u64,
    meta_bytes: u64,
    tables: u64,
    disk_bytes: u64,
    disk_files: u64,
    head_bytes: u64,
    head_files: u64,
    /// Whether `dmv repack` would pay.
    repack_pays: bool,
    /// The bytes that `dmv gc` can free; null if they were not counted.
    garbage_bytes: Option<u64>,
    /// The bytes that nothing needs and that arrived within `dmv gc`'s time of grace.
    young_garbage_bytes: Option<u64>,
    partial: Option<SliceValue>,
    /// The most that the files may take on disk.
    budget_bytes: Option<u64>,
    /// If they take more: the commands that free most.
    ways: Vec<Way>,
}

#[derive(Serialize)]
struct Way {
    bytes: u64,
    command: String,
}

/// Runs the command.
pub fn run(context: &Context, _: &Args) -> Result<u8, Failure> {
    let repo = context.repo_as_it_is()?;
    let stats = repo.store_stats()?;
    let slice = told_slice(context, &repo);
    let garbage = garbage(context, &repo, &stats)?;
    let budget = repo.budget()?;
    let over = budget.is_some_and(|limit| stats.disk_bytes >= limit);
    let ways = if over {
        ways(context, &repo)
    } else {
        Vec::new()
    };
    if context.globals.json {
        let way = |(bytes, command): (u64, Hint)| Way {
            bytes,
            command: command.to_string(),
        };
        context.ui.json(&Document {
            commits: stats.commits,
            trees: stats.trees,
            lists: stats.lists,
            chunks: stats.chunks,
            packs: stats.packs,
            data_bytes: stats.data_bytes,
            meta_bytes: stats.meta_bytes,
            tables: stats.tables,
            disk_bytes: stats.disk_bytes,
            disk_files: stats.disk_files,
            head_bytes: stats.head_bytes,
            head_files: stats.head_files,
            repack_pays: repo.repack_pays()?,
            garbage_bytes: garbage.map(|(old, _)| old),
            young_garbage_bytes: garbage.map(|(_, young)| young),
            partial: SliceValue::new(&slice),
            budget_bytes: budget,
            ways: ways.into_iter().map(way).collect(),
        })?;
        return Ok(EXIT_OK);
    }
    let mut out = context.ui.out();
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
    line("newest tree", in_files(stats.head_bytes, stats.head_files))?;
    match garbage.unwrap_or_default() {
        (0, 0) => {}
        (0, young) => line(
            "garbage",
            format!("{}, stored within 14 days", bytes(young)),
        )?,
        (old, _) => line("garbage", format!("{} can be freed: dmv gc", bytes(old)))?,
    }
    if repo.repack_pays()? {
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
        for (freed, command) in ways {
            writeln!(out, "  {:>10}  {command}", bytes(freed))?;
        }
    }
    Ok(EXIT_OK)
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
