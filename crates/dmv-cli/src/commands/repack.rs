//! `dmv repack`

#[cfg(feature = "store")]
mod at;

use crate::context::{Context, now};
use crate::date::span;
use crate::failure::{EXIT_INCOMPLETE, EXIT_OK, Failure};
use crate::format::text::{bytes, clean, count};
use crate::patience::patiently;
use dmv_core::repo::{RepackOptions, RepackReport, Repo};
use serde::Serialize;
use std::io::Write;
use std::time::{Duration, Instant};

/// Join small packs, and store similar content as differences
///
/// Each commit stores its objects by themselves. After many small commits, repack makes the repository
/// smaller and log, blame and checkout faster. Versions of a file that share most of their bytes take
/// little more space than one of them. Nothing is freed: that is what gc does. Repack also notes which
/// paths each commit changed, so that log and blame need not compare their trees again.
///
/// Other commands may run meanwhile, and repack may be interrupted at any moment: the next repack
/// continues. It needs free space for one pack at most.
///
/// Each push leaves a pack in a bucket. --at REMOTE joins the small ones there, and writes large ones again
/// of which less than half is needed. It reads them through this device, so it costs requests.
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  dmv repack --dry-run\n  dmv repack\n  dmv repack --max-time 10m\n  dmv repack --at studio --dry-run\n\n\
                  Exit code 3: the time was over, other commands interfered, or packs have damage ('dmv verify').\n\
                  Exit code 20: the disk is full. A pack that another command is writing to waits for the next\n\
                  repack, and that is no error."
)]
pub struct Args {
    /// Only report which packs would be joined
    #[arg(long)]
    dry_run: bool,
    /// Stop after this time, such as 10m
    #[arg(long, value_name = "TIME", value_parser = span)]
    max_time: Option<Duration>,
    /// Join packs in the bucket of this remote instead
    #[cfg(feature = "store")]
    #[arg(long, value_name = "REMOTE", conflicts_with = "max_time", add = crate::candidates::remote())]
    at: Option<String>,
}

#[derive(Serialize)]
struct Document<'r> {
    before_bytes: u64,
    after_bytes: u64,
    packs_before: u64,
    packs_after: u64,
    copied_bytes: u64,
    commits_compared: u64,
    finished: bool,
    why_not: &'r [String],
    failed: bool,
}

/// Runs the command.
pub fn run(context: &Context, args: &Args) -> Result<u8, Failure> {
    #[cfg(feature = "store")]
    if let Some(remote) = &args.at {
        return at::run(context, args, remote);
    }
    let options = RepackOptions {
        now: now(),
        until: args
            .max_time
            .and_then(|time| Instant::now().checked_add(time)),
        dry_run: args.dry_run,
    };
    let repo = context.repo()?;
    let watch = context.watch("repacking");
    let report = patiently(context, || repo.repack(&options, &context.job))?;
    drop(watch);
    if context.globals.json {
        context.ui.json(&Document {
            before_bytes: report.before_bytes,
            after_bytes: report.after_bytes,
            packs_before: report.packs_before,
            packs_after: report.packs_after,
            copied_bytes: report.copied_bytes,
            commits_compared: report.commits_compared,
            finished: report.finished,
            why_not: &report.why_not,
            failed: report.failed,
        })?
    } else {
        print(context, args, &report)?
    }
    Ok(if report.finished && !report.failed {
        EXIT_OK
    } else {
        EXIT_INCOMPLETE
    })
}

fn print(context: &Context, args: &Args, report: &RepackReport) -> Result<(), Failure> {
    if !context.ui.quiet() {
        writeln!(context.ui.out(), "{}", told(args.dry_run, report))?;
        if report.commits_compared > 0 {
            let commits = count(report.commits_compared, "commit", "commits");
            writeln!(
                context.ui.out(),
                "noted which paths {commits} changed, for log and blame"
            )?;
        }
    }
    for why in &report.why_not {
        context.ui.warn(format_args!(
            "some packs were left as they are: {}",
            clean(why)
        ));
    }
    if !report.finished {
        context.ui.note(match args.max_time {
            Some(_) => "the time is over; the next 'dmv repack' continues",
            None => {
                "other commands changed the repository meanwhile; the next 'dmv repack' continues"
            }
        });
    }
    Ok(())
}

fn told(is_dry_run: bool, report: &RepackReport) -> String {
    let packs = |number, of| format!("{} of {}", count(number, "pack", "packs"), bytes(of));
    let before = packs(report.packs_before, report.before_bytes);
    if report.copied_bytes == 0 && report.packs_before == report.packs_after {
        let is_all = report.finished && report.why_not.is_empty();
        return if is_all {
            format!("nothing to join: {before}")
        } else {
            format!("nothing was joined: {before}")
        };
    }
    let after = count(report.packs_after, "pack", "packs");
    let size = bytes(report.after_bytes);
    match (is_dry_run, report.packs_before) {
        (true, _) => format!("{before} would become {after} of at most {size}"),
        (false, 1) => format!("{before} is now {after} of {size}"),
        (false, _) => format!("{before} are now {after} of {size}"),
    }
}

/// Says now and then after a commit that many small commits have their metadata apart.
pub fn hint(context: &Context, repo: &Repo) {
    // It is only advice, so a failure is no news.
    if repo.repack_pays_now().unwrap_or(false) {
        context
            .ui
            .note("note: many small commits take more space and time than they need; to join them: dmv repack");
    }
}
