//! `dmv purge --from REMOTE`: purges here what a remote has purged, after it has listed that.

use super::tell;
use crate::context::Context;
use crate::failure::{EXIT_OK, EXIT_TOO_NEW, Failure};
use crate::format::text::{bytes, clean, day};
use crate::patience::free;
use crate::peers::{Call, remote, session_failure};
use dmv_core::hash::ObjectId;
use dmv_core::object::name::escape;
use dmv_core::repo::{KnownPurge, PurgeWhat, Purgeable, Repo, ToPurge};
use dmv_net::ops::purges_at;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;

/// Lists what a remote has purged and this repository stores, and purges that unless it is a `dry_run`.
pub(super) fn run(
    context: &Context,
    repo: &Repo,
    name: &str,
    dry_run: bool,
) -> Result<u8, Failure> {
    let remote = remote(context, Some(name))?;
    let call = Call::to(context, "asking").with(&remote);
    let there = purges_at(repo, &remote, &call, &context.job);
    drop(call);
    let there = there.map_err(|e| session_failure(*e))?;
    let mut there = there.ok_or_else(|| {
        let message = format!("the dmv of {} does not know 'purge'", remote.name);
        Failure::new("too-new", EXIT_TOO_NEW, message)
    })?;
    let known = repo.slice()?.purged;
    let mut here = BTreeSet::new();
    for id in there.iter().flat_map(|purge| &purge.files) {
        if !known.contains_key(id) && repo.has_content(id)? {
            here.insert(*id);
        }
    }
    for purge in &mut there {
        purge.files.retain(|id| here.contains(id));
    }
    there.retain(|purge| !purge.files.is_empty());
    let watch = context.watch("searching the newest commits");
    let found = repo.purgeable(&PurgeWhat::Contents(here), &context.job)?;
    drop(watch);
    if dry_run || found.files.is_empty() {
        if !context.globals.json {
            list(context, &there, &found)?;
        }
        tell::foretell_all(context, repo, &found)?;
        return Ok(EXIT_OK);
    }
    if !context.globals.json && !context.ui.quiet() {
        list(context, &there, &found)?;
        context.ui.finish()?;
    }
    let files = |purge: KnownPurge| -> Result<_, Failure> {
        Ok((purge.why, repo.content_types(&purge.files)?))
    };
    let files: Result<BTreeMap<_, _>, Failure> = there.into_iter().map(files).collect();
    let new = ToPurge {
        files: files?,
        request: context.request()?,
    };
    let freeing = free(context, repo)?;
    let watch = context.watch("removing content");
    let done = freeing.purge(Some(new), &context.job)?;
    drop(watch);
    drop(freeing);
    tell::done(context, repo, Some(&found), done, Vec::new())
}

/// Lists purges, each with the contents that are stored here.
fn list(context: &Context, purges: &[KnownPurge], found: &Purgeable) -> Result<(), Failure> {
    let mut out = context.ui.out();
    for purge in purges {
        let (by, reason) = (clean(&purge.why.by), clean(&purge.why.reason));
        writeln!(out, "{}  by {by}: {reason}", day(purge.why.at))?;
        for id in &purge.files {
            writeln!(out, "  {}", line(id, found))?;
        }
    }
    Ok(())
}

fn line(id: &ObjectId, found: &Purgeable) -> String {
    match found.files.get(id) {
        Some((path, blob)) if path.is_root() => {
            format!("{id} {:>10}  (only in older commits)", bytes(blob.size))
        }
        Some((path, blob)) => {
            let path = escape(path.as_bytes());
            format!("{id} {:>10}  {path}", bytes(blob.size))
        }
        None => id.to_string(),
    }
}
