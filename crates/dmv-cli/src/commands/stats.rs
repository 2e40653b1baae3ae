//! `dmv stats`

use crate::context::Context;
use crate::failure::{EXIT_OK, Failure};
use crate::format::text::bytes;
use crate::partial::{SliceValue, told_slice, words};
use serde::Serialize;
use std::io::Write;

/// Show the size of the repository: objects, packs and bytes
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
    partial: Option<SliceValue>,
}

/// Runs the command.
pub fn run(context: &Context, _: &Args) -> Result<u8, Failure> {
    let repo = context.repo_as_it_is()?;
    let stats = repo.store_stats()?;
    let slice = told_slice(context, &repo);
    if context.globals.json {
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
            partial: SliceValue::new(&slice),
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
    line(
        "on disk",
        format!("{} in {} files", bytes(stats.disk_bytes), stats.disk_files),
    )?;
    line(
        "newest tree",
        format!("{} in {} files", bytes(stats.head_bytes), stats.head_files),
    )?;
    if repo.repack_pays()? {
        let why = "many small commits; to join them: dmv repack".to_owned();
        line("repack", why)?;
    }
    if let Some(words) = words(&slice) {
        line("partial", words)?;
    }
    Ok(EXIT_OK)
}
