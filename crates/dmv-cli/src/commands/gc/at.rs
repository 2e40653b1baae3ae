//! `dmv gc --at REMOTE`: a bucket has nobody who frees its space, so a device does it.

use super::Args;
use crate::bucket;
use crate::context::Context;
use crate::failure::{EXIT_ABSENT, EXIT_INCOMPLETE, EXIT_OK, Failure};
use crate::format::text::{bytes, clean, count};
use crate::peers::{Call, remote};
use crate::supply::remote_failure;
use dmv_bucket::ops::{FreeAtOptions, FreeReport, free_at};
use dmv_core::escape::Argument;
use dmv_core::hint;
use dmv_net::ops::{OpsError, Remote};
use dmv_net::session::NetError;
use std::io::Write;

/// Runs the command for a remote.
pub fn run(context: &Context, args: &Args, name: &str) -> Result<u8, Failure> {
    let repo = context.repo()?;
    let remote = remote(context, Some(name))?;
    let options = FreeAtOptions {
        remote: remote.clone(),
        grace: args.grace,
        forget: args.forget,
        joins: false,
        dry_run: args.dry_run,
        request: context.request()?,
    };
    let call = Call::new(context);
    let done = free_at(&repo, &options, &call, &context.job);
    drop(call);
    let freed = done.map_err(|e| failure(context, &remote, e))?;
    if context.globals.json {
        print_json(context, args, &freed)?
    } else {
        print(context, args, &remote, &freed)?
    }
    Ok(if freed.all_deleted || args.dry_run {
        EXIT_OK
    } else {
        EXIT_INCOMPLETE
    })
}

/// The failure of gc or repack at a remote.
pub fn failure(context: &Context, remote: &Remote, e: OpsError) -> Failure {
    let lacks = match &e {
        OpsError::Session(e) => matches!(e.source, NetError::Lacking(_)),
        _ => false,
    };
    if !lacks {
        return remote_failure(context, remote, e);
    }
    let message = format!(
        "freeing space at {} needs the history and the directories of all its branches, and some are absent here",
        clean(&remote.name)
    );
    let hint = hint!(
        "dmv fetch {}, in a repository that stores all history",
        Argument::value(&remote.name)
    );
    Failure::new("absent", EXIT_ABSENT, message).hint(hint)
}

fn print_json(context: &Context, args: &Args, freed: &FreeReport) -> Result<(), Failure> {
    let mut document = serde_json::json!({
        "freed_bytes": freed.bytes,
        "packs_removed": freed.packs,
        "files_removed": freed.strays,
        "kept_bytes": freed.kept_bytes,
        "finished": freed.all_deleted || args.dry_run,
        "fetched_objects": freed.fetched,
    });
    if let Some(cost) = bucket::cost(context)? {
        cost.add_to(&mut document);
    }
    context.ui.json(&document)
}

/// Says that something was fetched first.
pub fn tell_fetched(context: &Context, remote: &str, freed: &FreeReport) {
    if freed.fetched > 0 {
        let objects = count(freed.fetched, "object", "objects");
        context.ui.note(format_args!(
            "fetched {objects} from {} first, which this repository lacked",
            clean(remote)
        ));
    }
}

fn print(
    context: &Context,
    args: &Args,
    remote: &Remote,
    freed: &FreeReport,
) -> Result<(), Failure> {
    if context.ui.quiet() {
        return Ok(());
    }
    tell_fetched(context, &remote.name, freed);
    let name = clean(&remote.name);
    let mut out = context.ui.out();
    if freed.packs + freed.strays == 0 {
        writeln!(out, "nothing to free at {name}")?;
    } else {
        let size = bytes(freed.bytes);
        let done = if args.dry_run {
            format!("{size} can be freed at {name}")
        } else {
            format!("freed {size} at {name}")
        };
        let packs = count(freed.packs, "pack", "packs");
        let strays = count(freed.strays, "file", "files");
        writeln!(out, "{done}: {packs}, and {strays} of unfinished pushes")?;
        writeln!(out, "kept {}", bytes(freed.kept_bytes))?;
    }
    drop(out);
    if args.forget.is_some() && freed.packs == 0 {
        let note =
            "note: the newest 256 operations stay in the log of the bucket, and what they lead to";
        context.ui.note(note);
    }
    if !freed.all_deleted && !args.dry_run {
        let note = "some files could not be deleted; the next gc deletes them";
        context.ui.note(note);
    }
    Ok(())
}
