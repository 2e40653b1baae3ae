//! `dmv verify --at REMOTE`: a bucket cannot check itself, so a device does it.

use super::Args;
use crate::cost::{MoreRequests, dollars, print_with_cost};
use crate::on_demand::remote_failure;
use crate::partial_repository::{expiry_words, purge_words};
use crate::peers::{Call, remote};
use crate::prelude::*;
use dmv_bucket::ops::{VerifyAtOptions, VerifyAtReport, verify_at};
use dmv_bucket::peer::BucketDepth;

/// Runs the command for a remote.
pub fn run(context: &Context, args: &Args, name: &str) -> Result<u8, Failure> {
    let repo = context.repo_as_it_is()?;
    let remote = remote(context, Some(name))?;
    let options = VerifyAtOptions {
        remote: remote.clone(),
        depth: match (args.sample, args.full) {
            (Some(percent), _) => BucketDepth::Sample(percent / 100.0),
            (None, true) => BucketDepth::Full,
            (None, false) => BucketDepth::Quick,
        },
        dry_run: args.dry_run,
    };
    let watch = context.watch("verifying");
    let call = Call::new(context);
    let done = verify_at(&repo, &options, &call, &context.job);
    drop((call, watch));
    let report = done.map_err(|e| remote_failure(context, &remote, e))?;
    if context.ui.is_json() {
        print_with_cost(context, document(args, &report))?;
    } else {
        print(context, args, &clean(&remote.name), &report)?;
    }
    Ok(if report.found.is_ok() {
        EXIT_OK
    } else {
        EXIT_DAMAGE
    })
}

fn document(args: &Args, report: &VerifyAtReport) -> Json {
    let VerifyAtReport { found, files } = report;
    let files = files.iter();
    let files = files.map(|(at, commit)| object! { ..path(at), commit: commit });
    let problems = found.told.iter();
    let problems =
        problems.map(|problem| object! { file: problem.file, why: problem.why.to_string() });
    let purged = found.purged.iter();
    let purged = purged.map(|(why, files)| object! { ..why.to_json(), files: files });
    let expired = found.expired.iter();
    let expired = expired.map(|(why, files)| object! { ..why.to_json(), files: files });
    object! {
        ok: found.is_ok(),
        sample_percent: args.sample,
        found.{packs, objects, bytes, reads},
        damaged_files: found.problems,
        problems: Json::List(problems.collect()),
        found.{missing},
        expired: Json::List(expired.collect()),
        purged: Json::List(purged.collect()),
        purged_chunks_stored: found.unpurged,
        files: Json::List(files.collect()),
    }
}

fn print(
    context: &Context,
    args: &Args,
    name: &str,
    report: &VerifyAtReport,
) -> Result<(), Failure> {
    let VerifyAtReport {
        found: report,
        files,
    } = report;
    let mut out = context.ui.out();
    let (packs, size) = (count(report.packs, "pack", "packs"), bytes(report.bytes));
    if args.dry_run {
        let reads = count(report.reads, "request", "requests");
        let more = MoreRequests {
            reads: report.reads,
            received: report.bytes,
            ..MoreRequests::default()
        };
        let cost = dollars(context, more)?;
        writeln!(out, "{packs}: would read {size} in {reads}, about ${cost}")?;
        return Ok(());
    }
    for problem in &report.told {
        writeln!(out, "{}: {}", clean(&problem.file), problem.why)?;
    }
    if report.missing > 0 {
        let missing = count(report.missing, "object is", "objects are");
        writeln!(
            out,
            "{missing} missing or damaged that the branches of {name} need"
        )?;
    }
    for (path, commit) in files {
        let (path, commit) = (escape(path), commit.short(SHORT_ID));
        writeln!(out, "affected: {path} (in commit {commit})")?;
    }
    for (why, files) in &report.expired {
        let files = count(*files, "content", "contents");
        writeln!(out, "{files} absent: {}", expiry_words(why))?;
    }
    for (why, files) in &report.purged {
        let files = count(*files, "content", "contents");
        writeln!(out, "{files} absent: {}", purge_words(why))?;
    }
    if report.unpurged > 0 {
        let chunks = count(report.unpurged, "purged chunk", "purged chunks");
        let purge = hint!("dmv purge --at {}", Argument::value(name));
        writeln!(out, "up to {chunks} not removed yet ({purge})")?;
    }
    let objects = count(report.objects, "object", "objects");
    if report.is_ok() {
        if !context.ui.quiet() {
            let sample = args.sample.map_or(String::new(), |percent| {
                format!("; of larger packs, a sample of about {percent} % of the content")
            });
            writeln!(
                out,
                "no damage found at {name}: {packs}, {objects} and {size} read{sample}"
            )?;
        }
        return Ok(());
    }
    let files = count(report.problems, "file", "files");
    writeln!(out, "{files} damaged or missing of {packs}")?;
    context
        .ui
        .note("hint: restore the files if the bucket keeps versions, or push to a new place");
    Ok(())
}
