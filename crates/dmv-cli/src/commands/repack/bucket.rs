//! `dmv repack --at REMOTE`: many pushes leave many small packs in a bucket. A device joins them.

use super::Args;
use crate::cost::{print_with_cost, tell_cost};
use crate::peers::{Call, remote};
use crate::prelude::*;
use crate::print::bucket_space::{free_failure, tell_fetched};
use dmv_bucket::ops::{FreeAtOptions, FreeReport, free_at};
use std::time::Duration;

/// Files of unfinished pushes stay this long, as with gc.
const GRACE: Duration = Duration::from_secs(14 * 24 * 3600);

/// Runs the command for a remote.
pub fn run(context: &Context, args: &Args, name: &str) -> Result<u8, Failure> {
    let repo = context.repo()?;
    let remote = remote(context, Some(name))?;
    let options = FreeAtOptions {
        remote: remote.clone(),
        grace: GRACE,
        forget: None,
        joins: true,
        dry_run: args.dry_run,
        request: context.request()?,
    };
    let watch = context.watch("repacking");
    let call = Call::new(context);
    let done = free_at(&repo, &options, &call, &context.job);
    drop((call, watch));
    let done = done.map_err(|e| free_failure(context, &remote, e))?;
    if context.ui.is_json() {
        print_with_cost(context, document(args, &done))?;
    }
    let name = clean(&remote.name);
    context
        .ui
        .text(|out| print(context, out, args, &name, &done))?;
    Ok(if done.all_deleted || args.dry_run {
        EXIT_OK
    } else {
        EXIT_INCOMPLETE
    })
}

fn document(args: &Args, done: &FreeReport) -> Json {
    let joined = &done.joined;
    object! {
        before_bytes: done.bytes + done.kept_bytes,
        after_bytes: (done.kept_bytes + joined.new_bytes).saturating_sub(joined.bytes),
        packs_before: done.packs + done.kept,
        packs_after: (done.kept + joined.new_packs).saturating_sub(joined.packs),
        copied_bytes: joined.new_bytes,
        joined.{read_bytes},
        finished: done.all_deleted || args.dry_run,
        fetched_objects: done.fetched,
    }
}

fn print(
    context: &Context,
    out: &mut impl Write,
    args: &Args,
    name: &str,
    done: &FreeReport,
) -> Result<(), Failure> {
    tell_fetched(context, name, done);
    let joined = &done.joined;
    let (packs, new) = (
        count(joined.packs, "pack", "packs"),
        count(joined.new_packs, "pack", "packs"),
    );
    let (size, new_size) = (bytes(joined.bytes), bytes(joined.new_bytes));
    match (joined.packs, args.dry_run) {
        (0, _) => writeln!(out, "no packs of {name} are worth joining")?,
        (_, true) => writeln!(
            out,
            "{packs} of {name} ({size}) would become about {new} ({new_size})"
        )?,
        (_, false) => writeln!(out, "{packs} of {name} ({size}) became {new} ({new_size})")?,
    }
    if done.packs > 0 {
        let free = count(done.packs, "pack", "packs");
        let verb = if args.dry_run {
            "can be freed"
        } else {
            "freed"
        };
        writeln!(out, "{free} that nothing needs {verb}")?;
    }
    if !done.all_deleted && !args.dry_run {
        let note = "some files could not be deleted; the next gc deletes them";
        context.ui.note(note);
    }
    tell_cost(context);
    Ok(())
}
