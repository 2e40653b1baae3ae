//! `dmv gc`

#[cfg(feature = "store")]
mod bucket;
mod undo_only;

use crate::context::now;
use crate::date::{length, span};
use crate::lock_wait::begin_when_free;
use crate::prelude::*;
use crate::print::freed_space::no_room;
use dmv_core::repo::{GcOptions, GcReport};
use std::time::{Duration, Instant};
use undo_only::UndoOnlyFile;

/// A file that only undo needs is named if it has at least this many bytes.
const LARGE_BYTES: u64 = 1 << 20;

/// Free the space of what no branch, tag, worktree or undo needs
///
/// Frees what interrupted transfers and killed commands left, and everything that nothing names any more.
/// Content that undo can bring back stays.
///
/// Other commands may run meanwhile, and gc may be interrupted at any moment: the next gc continues.
///
/// No server frees the space of a bucket. --at REMOTE does it from here: it frees what interrupted pushes
/// left. What deleted branches led to stays until --forget shortens the bucket's log of operations.
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  dmv gc --dry-run\n  dmv gc\n  dmv gc --grace 0 --max-time 10m\n  dmv gc --at studio --dry-run\n\n\
                  Exit code 3: the time was over or other commands interfered; run it again to free the rest.\n\
                  Exit code 20: the disk is full, and what is left needs room for copies."
)]
pub struct Args {
    /// Only report what would be freed
    #[arg(long)]
    dry_run: bool,
    /// Keep objects that were stored within this time, such as 36h; 0 keeps none
    #[arg(long, value_name = "TIME", value_parser = span, default_value = "14d")]
    grace: Duration,
    /// Stop after this time, such as 10m
    #[arg(long, value_name = "TIME", value_parser = span)]
    max_time: Option<Duration>,
    /// Free space in the bucket of this remote instead
    #[cfg(feature = "store")]
    #[arg(long, value_name = "REMOTE", conflicts_with = "max_time", add = crate::candidates::remote())]
    at: Option<String>,
    /// In a bucket, also free what only operations older than this lead to, such as 90d
    #[cfg(feature = "store")]
    #[arg(long, value_name = "TIME", value_parser = span, requires = "at")]
    forget: Option<Duration>,
}

/// Runs the command.
pub fn run(context: &Context, args: &Args) -> Result<u8, Failure> {
    #[cfg(feature = "store")]
    if let Some(remote) = &args.at {
        return bucket::run(context, args, remote);
    }
    let options = GcOptions {
        grace: args.grace,
        now: now(),
        until: args
            .max_time
            .and_then(|time| Instant::now().checked_add(time)),
        thorough: false,
        dry_run: args.dry_run,
    };
    let repo = context.repo()?;
    let watch = context.watch(if args.dry_run {
        "counting"
    } else {
        "freeing space"
    });
    let report = begin_when_free(context, || repo.gc(&options, &context.job))?;
    drop(watch);
    if context.ui.is_json() {
        context.ui.json(&document(&report))?
    } else {
        print(context, args, &report)?;
        tell_undo(context, &repo, &report)
    }
    if let Some(why) = &report.no_room {
        let stays = format!("{} could not be freed", bytes(report.no_room_bytes));
        return Err(no_room(&stays, why));
    }
    Ok(if report.finished {
        EXIT_OK
    } else {
        EXIT_INCOMPLETE
    })
}

fn document(report: &GcReport) -> Json {
    object! {
        report.{
            freed_bytes, freed_objects, kept_bytes, packs_removed, packs_rewritten, copied_bytes,
            young_bytes, undo_bytes, waiting_bytes, linked_bytes, undo_lacks, finished, why_not,
            no_room_bytes,
        },
    }
}

fn print(context: &Context, args: &Args, report: &GcReport) -> Result<(), Failure> {
    context
        .ui
        .text(|out| print_freed(out, args.dry_run, report))?;
    if report.young_bytes > 0 {
        let (young, grace) = (bytes(report.young_bytes), length(args.grace));
        context.ui.note(format_args!(
            "note: {young} that nothing needs were stored within the last {grace} and stay until they are older; to free them now: dmv gc --grace 0"
        ));
    }
    if report.waiting_bytes > 0 {
        let waiting = bytes(report.waiting_bytes);
        context.ui.note(format_args!(
            "note: {waiting} that nothing needs stay in packs that hold mostly needed content; a later gc rewrites such a pack when more of it can go"
        ));
    }
    if report.linked_bytes > 0 {
        let linked = bytes(report.linked_bytes);
        context.ui.note(format_args!(
            "note: {linked} that nothing needs here take space until no other repository on this disk uses the same packs"
        ));
    }
    if report.undo_lacks > 0 {
        let lacks = count(report.undo_lacks, "object", "objects");
        context.ui.warn(format_args!(
            "undo cannot bring back everything: {lacks} that it needs are missing or damaged"
        ));
    }
    for why in &report.why_not {
        context
            .ui
            .warn(format_args!("some space was not freed: {}", clean(why)));
    }
    if !report.finished {
        context.ui.note(match args.max_time {
            Some(_) => "the time is over; the next 'dmv gc' continues",
            None => "other commands changed the repository meanwhile; the next 'dmv gc' continues",
        });
    }
    Ok(())
}

/// Says what undo alone needs, and how to give it up: a large file by itself, since it may be new, else what
/// is old.
fn tell_undo(context: &Context, repo: &Repo, report: &GcReport) {
    if report.undo_bytes == 0 {
        return;
    }
    let undo = bytes(report.undo_bytes);
    let least = (report.undo_bytes / 2).max(LARGE_BYTES);
    // It is only a note.
    match UndoOnlyFile::largest(repo, least).unwrap_or_default() {
        Some(file) => {
            let (path, size) = (escape(&file.path), bytes(file.bytes));
            let id = file.operation_id();
            context.ui.note(format_args!(
                "note: {undo} are kept for undo only, most of it {path} ({size}) of operation {id}: {}",
                clean(&file.operation.command)
            ));
            context.ui.note(hint!(
                "hint: to give up this operation and its undo, and nothing else: dmv op forget {}",
                Argument::value(id)
            ));
        }
        None => context.ui.note(format_args!(
            "note: {undo} are kept for undo only; to give up what is older: dmv op expire --older 90d"
        )),
    }
}

fn print_freed(out: &mut impl Write, is_dry_run: bool, report: &GcReport) -> Result<(), Failure> {
    let freed = bytes(report.freed_bytes);
    if report.freed_bytes == 0 && report.packs_removed + report.packs_rewritten == 0 {
        let is_all = report.finished && report.why_not.is_empty();
        let is_all =
            is_all && report.waiting_bytes + report.no_room_bytes + report.linked_bytes == 0;
        let is_all = is_all && report.young_bytes == 0;
        let told = match (is_all, is_dry_run) {
            (true, _) => "nothing to free",
            (false, true) => "nothing can be freed now",
            (false, false) => "nothing was freed",
        };
        return Ok(writeln!(out, "{told}")?);
    }
    let what = match report.freed_objects {
        0 => "what interrupted commands left".to_owned(),
        n => format!("{} that nothing needs", count(n, "object", "objects")),
    };
    if is_dry_run {
        writeln!(out, "{freed} can be freed: {what}")?;
    } else {
        writeln!(out, "freed {freed}: {what}")?;
    }
    if report.packs_removed + report.packs_rewritten == 0 {
        return Ok(writeln!(out, "kept {}", bytes(report.kept_bytes))?);
    }
    let removed = count(report.packs_removed, "pack", "packs");
    let (will, rewritten) = if is_dry_run {
        ("would be ", "would be rewritten")
    } else {
        ("", "rewritten")
    };
    let copied = bytes(report.copied_bytes);
    writeln!(
        out,
        "{removed} {will}removed, {} {rewritten} ({copied} copied)",
        report.packs_rewritten
    )?;
    Ok(writeln!(out, "kept {}", bytes(report.kept_bytes))?)
}
