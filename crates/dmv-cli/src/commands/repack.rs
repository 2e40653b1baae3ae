//! `dmv repack`

#[cfg(feature = "store")]
mod bucket;

use crate::context::now;
use crate::date::span;
use crate::lock_wait::begin_when_free;
use crate::prelude::*;
use dmv_core::repo::{RepackOptions, RepackReport};
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

/// Runs the command.
pub fn run(context: &Context, args: &Args) -> Result<u8, Failure> {
    #[cfg(feature = "store")]
    if let Some(remote) = &args.at {
        return bucket::run(context, args, remote);
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
    let report = begin_when_free(context, || repo.repack(&options, &context.job))?;
    drop(watch);
    if context.ui.is_json() {
        let document = object! {
            report.{
                before_bytes, after_bytes, packs_before, packs_after, copied_bytes, commits_compared,
                finished, why_not, failed,
            },
        };
        context.ui.json(&document)?
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
    context.ui.text(|out| {
        writeln!(out, "{}", told(args.dry_run, report))?;
        if report.commits_compared > 0 {
            let commits = count(report.commits_compared, "commit", "commits");
            writeln!(
                out,
                "noted which paths {commits} changed, for log and blame"
            )?;
        }
        Ok(())
    })?;
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
