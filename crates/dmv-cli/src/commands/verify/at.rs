//! `dmv verify --at REMOTE`: a bucket has nobody who checks it, so a device does it.

use super::Args;
use crate::bucket;
use crate::context::Context;
use crate::failure::{EXIT_DAMAGE, EXIT_OK, Failure};
use crate::format::json::base64_unless_text;
use crate::format::text::{SHORT_ID, bytes, clean, count, rfc3339};
use crate::partial::purge_words;
use crate::peers::{Call, remote};
use crate::supply::remote_failure;
use dmv_bucket::ops::{VerifyAtOptions, VerifyAtReport, verify_at};
use dmv_bucket::peer::BucketDepth;
use dmv_core::escape::Argument;
use dmv_core::hint;
use dmv_core::object::name::escape;
use std::io::Write;

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
    if context.globals.json {
        print_json(context, args, &report)?;
    } else {
        print(context, args, &clean(&remote.name), &report)?;
    }
    Ok(if report.found.is_ok() {
        EXIT_OK
    } else {
        EXIT_DAMAGE
    })
}

fn print_json(context: &Context, args: &Args, report: &VerifyAtReport) -> Result<(), Failure> {
    let VerifyAtReport {
        found: report,
        files,
    } = report;
    let files = files.iter().map(|(path, commit)| {
        let text = String::from_utf8_lossy(path.as_bytes());
        let mut file = serde_json::json!({ "path": text, "commit": commit.to_string() });
        if let Some(bytes) = base64_unless_text(path.as_bytes()) {
            file["path_b64"] = bytes.into();
        }
        file
    });
    let problems = report
        .told
        .iter()
        .map(|problem| serde_json::json!({ "file": problem.file, "why": problem.why }));
    let purged = report.purged.iter().map(|(why, files)| {
        serde_json::json!({
            "time": rfc3339(why.at, 0, 0), "by": why.by, "reason": why.reason, "files": files,
        })
    });
    let mut document = serde_json::json!({
        "ok": report.is_ok(),
        "sample_percent": args.sample,
        "packs": report.packs,
        "objects": report.objects,
        "bytes": report.bytes,
        "reads": report.reads,
        "damaged_files": report.problems,
        "problems": problems.collect::<Vec<_>>(),
        "missing": report.missing,
        "purged": purged.collect::<Vec<_>>(),
        "purged_chunks_stored": report.unpurged,
        "files": files.collect::<Vec<_>>(),
    });
    if let Some(cost) = bucket::cost(context)? {
        cost.add_to(&mut document);
    }
    context.ui.json(&document)
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
        let cost = bucket::dollars(context, 0, report.reads, report.bytes)?;
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
    drop(out);
    context
        .ui
        .note("hint: restore the files if the bucket keeps versions, or push to a new place");
    Ok(())
}
