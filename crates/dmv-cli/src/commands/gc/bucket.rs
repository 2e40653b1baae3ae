//! `dmv gc --at REMOTE`: a bucket cannot free its space itself, so a device does it.

use super::Args;
use crate::cost::print_with_cost;
use crate::peers::{Call, remote};
use crate::prelude::*;
use crate::print::bucket_space::{free_failure, tell_fetched};
use dmv_bucket::ops::{self, FreeAtOptions, FreeReport};
use dmv_net::ops::Remote;

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
    let done = ops::free_at(&repo, &options, &call, &context.job);
    drop(call);
    let freed = done.map_err(|e| free_failure(context, &remote, e))?;
    if context.ui.is_json() {
        let document = object! {
            freed_bytes: freed.bytes,
            packs_removed: freed.packs,
            files_removed: freed.strays,
            freed.{kept_bytes},
            finished: freed.all_deleted || args.dry_run,
            fetched_objects: freed.fetched,
        };
        print_with_cost(context, document)?;
    }
    context
        .ui
        .text(|out| print(context, out, args, &remote, &freed))?;
    Ok(if freed.all_deleted || args.dry_run {
        EXIT_OK
    } else {
        EXIT_INCOMPLETE
    })
}

fn print(
    context: &Context,
    out: &mut impl Write,
    args: &Args,
    remote: &Remote,
    freed: &FreeReport,
) -> Result<(), Failure> {
    tell_fetched(context, &remote.name, freed);
    let name = clean(&remote.name);
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
