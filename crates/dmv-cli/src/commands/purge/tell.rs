//! What `dmv purge` prints.

use super::{ContentValue, Document, PeerValue, exit_of};
use crate::context::Context;
use crate::failure::{EXIT_OK, Failure};
use crate::format::json::PathValue;
use crate::format::text::{bytes, clean, count, day, rfc3339};
use crate::partial::purge_words;
use crate::peers::{Call, remotes, session_failure};
use crate::supply::some_of;
use crate::whose::path_argument;
use dmv_core::escape::Hint;
use dmv_core::hash::ObjectId;
use dmv_core::hint;
use dmv_core::object::list::Blob;
use dmv_core::object::name::{RepoPath, escape};
use dmv_core::repo::{KnownPurge, Purge, PurgeReport, Purgeable, Repo};
use dmv_net::ops::purges_at;
use serde::Serialize;
use std::collections::BTreeSet;
use std::io::Write;

/// What a purge never reaches.
const OUT_OF_REACH: &str = "dmv cannot purge backups, snapshots of file systems, exported files, \
                            clones that never come back, or freed blocks of the disk";

/// What a purge never reaches at a bucket.
const OUT_OF_REACH_AT_BUCKETS: &str = "at a bucket, dmv cannot purge older versions that the store keeps, or \
                                       uploads that have not ended; the store's own tools can";

/// Says what a purge would remove, and what was purged before.
pub fn foretell(context: &Context, repo: &Repo, found: &Purgeable) -> Result<(), Failure> {
    let known = repo.slice()?.purged;
    let new = found.files.iter().filter(|(id, _)| !known.contains_key(id));
    let size: u64 = new.map(|(_, (_, blob))| blob.size).sum();
    let files = found.files.len() as u64 - found.known;
    if context.globals.json {
        context.ui.json(&Document {
            files,
            known: found.known,
            bytes: size,
            ..document(repo, found)
        })?;
        return Ok(());
    }
    let mut out = context.ui.out();
    for (id, (path, blob)) in &found.files {
        let (size, path) = (bytes(blob.size), escape(path.as_bytes()));
        let why = known
            .get(id)
            .map(|why| format!("  (already {})", purge_words(why)));
        writeln!(out, "{id} {size:>10}  {path}{}", why.unwrap_or_default())?;
    }
    let already = match found.known {
        1 => "1 content is already purged".to_owned(),
        n => format!("{n} contents are already purged"),
    };
    match (files, found.known) {
        (0, _) => writeln!(out, "nothing to purge: {already}")?,
        (files, known) => {
            let files = count(files, "content", "contents");
            writeln!(out, "{files} ({}) would be purged", bytes(size))?;
            if known > 0 {
                writeln!(out, "{already}")?;
            }
        }
    }
    drop(out);
    if files > 0 {
        tell_others(context, repo, found);
    }
    Ok(())
}

/// Says that a content is purged already.
pub fn already(context: &Context, id: &ObjectId, why: &Purge) -> Result<u8, Failure> {
    if context.globals.json {
        context.ui.json(&Document {
            known: 1,
            ..Document::default()
        })?;
    } else {
        writeln!(
            context.ui.out(),
            "{id}  (already {})\nnothing to purge: 1 content is already purged",
            purge_words(why)
        )?;
    }
    Ok(EXIT_OK)
}

/// Says what a purge did, and returns the exit code.
pub(super) fn done(
    context: &Context,
    repo: &Repo,
    found: Option<&Purgeable>,
    done: PurgeReport,
    peers: Vec<PeerValue>,
) -> Result<u8, Failure> {
    let document = Document {
        files: done.files,
        bytes: done.bytes,
        shared_bytes: done.shared_bytes,
        freed_bytes: done.freed_bytes,
        linked_packs: done.linked_packs,
        left: done.left,
        peers,
        ..found.map(|found| document(repo, found)).unwrap_or_default()
    };
    if context.globals.json {
        context.ui.json(&document)?;
        return Ok(exit_of(&document));
    }
    if !context.ui.quiet() {
        print(context, &document)?;
    }
    if let Some(found) = found {
        tell_others(context, repo, found);
    }
    if document.linked_packs > 0 {
        context.ui.warn(
            "another repository on this file system shares packs with this one and still has the \
             content; purge there, too",
        );
    }
    for peer in document.peers.iter().filter(|peer| peer.linked_packs > 0) {
        context.ui.warn(format_args!(
            "another repository on the file system of {} shares packs with it and still has the \
             content; purge there, too",
            clean(&peer.name)
        ));
    }
    for peer in document.peers.iter().filter(|peer| peer.outcome != "done") {
        context.ui.warn(format_args!(
            "'{}' has not purged all of it ({}); to ask again: dmv purge --everywhere",
            clean(&peer.name),
            peer.outcome
        ));
    }
    if !document.peers.is_empty() {
        tell_cut(context, repo)?;
    }
    if document.peers.iter().any(|peer| peer.is_bucket) {
        context
            .ui
            .note(format_args!("note: {OUT_OF_REACH_AT_BUCKETS}"));
    }
    for why in &document.left {
        context
            .ui
            .warn(format_args!("not removed yet: {}", clean(why)));
    }
    if !document.left.is_empty() {
        context
            .ui
            .note("hint: dmv purge, to remove the rest when other commands have ended");
    }
    if found.is_some() {
        context.ui.note(format_args!("note: {OUT_OF_REACH}"));
    }
    Ok(exit_of(&document))
}

/// Says that remotes purge only named contents. They may have versions that this repository lacks.
fn tell_cut(context: &Context, repo: &Repo) -> Result<(), Failure> {
    let why = if repo.slice()?.boundary.is_empty() {
        "versions that this repository has not fetched"
    } else {
        "older versions, because history is cut off here"
    };
    context.ui.note(format_args!(
        "note: remotes purge only the contents that are listed here; they may still have {why}"
    ));
    Ok(())
}

fn print(context: &Context, document: &Document) -> Result<(), Failure> {
    let mut out = context.ui.out();
    match (document.files, document.left.is_empty()) {
        (0, true) if document.freed_bytes > 0 => {
            writeln!(out, "removed {}", bytes(document.freed_bytes))?;
        }
        (0, true) => writeln!(out, "nothing is left to purge here")?,
        (0, false) => {}
        (files, _) => {
            let (files, size) = (count(files, "content", "contents"), bytes(document.bytes));
            writeln!(out, "{files} purged from this repository ({size})")?;
        }
    }
    if document.shared_bytes > 0 {
        let shared = bytes(document.shared_bytes);
        writeln!(out, "not removed: {shared}, which other files also use")?;
    }
    for peer in &document.peers {
        let (name, why) = (clean(&peer.name), clean(&peer.why));
        match (peer.outcome, why.as_str()) {
            ("done", _) => writeln!(out, "{name}: purged")?,
            (outcome, "") => writeln!(out, "{name}: {outcome}")?,
            (outcome, why) => writeln!(out, "{name}: {outcome} ({why})")?,
        }
        if peer.shared_bytes > 0 {
            let shared = bytes(peer.shared_bytes);
            writeln!(
                out,
                "{name}: not removed: {shared}, which other files there also use"
            )?;
        }
    }
    Ok(())
}

fn document(repo: &Repo, found: &Purgeable) -> Document {
    let value = |path: &RepoPath| PathValue::new(path.as_bytes());
    let content = |(id, (path, blob)): (&ObjectId, &(RepoPath, Blob))| ContentValue {
        id: id.to_string(),
        path: (!path.is_root()).then(|| PathValue::new(path.as_bytes())),
        size: blob.size,
    };
    Document {
        contents: found.files.iter().map(content).collect(),
        also: found.also.iter().map(value).collect(),
        refs: found.refs.iter().cloned().collect(),
        in_worktree: in_worktree(repo, found)
            .iter()
            .map(PathValue::new)
            .collect(),
        ..Document::default()
    }
}

/// The paths of purged files that are still in the worktree.
fn in_worktree(repo: &Repo, found: &Purgeable) -> Vec<Vec<u8>> {
    let is_there = |path: &RepoPath, blob| repo.is_checked_out(path, blob);
    let mut out = BTreeSet::new();
    for (path, blob) in found.files.values() {
        for path in std::iter::once(path).chain(&found.also) {
            if is_there(path, blob) {
                out.insert(path.as_bytes().to_vec());
            }
        }
    }
    out.into_iter().collect()
}

/// Paths that the command names which removes them.
const MAX_REMOVED: usize = 3;

/// Says where else the content is.
fn tell_others(context: &Context, repo: &Repo, found: &Purgeable) {
    if !found.also.is_empty() {
        let also: Vec<Vec<u8>> = found
            .also
            .iter()
            .map(|path| path.as_bytes().to_vec())
            .collect();
        let text = some_of(&also);
        context.ui.note(format_args!(
            "note: other paths have the same content: {text}"
        ));
    }
    let there = in_worktree(repo, found);
    if !there.is_empty() {
        let text = some_of(&there);
        let named = there.iter().map(|path| hint!(" {}", path_argument(path)));
        let named = match there.len() {
            ..=MAX_REMOVED => Hint::join(named, ""),
            _ => hint!(" PATH"),
        };
        let remove = hint!("dmv rm{}", named);
        context.ui.note(format_args!(
            "note: still in this worktree: {text}; to remove it: {remove}, and commit"
        ));
    } else if !found.refs.is_empty() {
        let names = found
            .refs
            .iter()
            .map(|key| key.split_once('/').map_or(&key[..], |(_, name)| name));
        let names: Vec<&str> = names.take(5).collect();
        let names = clean(&names.join(", "));
        context.ui.note(format_args!(
            "note: the newest commits of {names} still name the file; a checkout leaves it out"
        ));
    }
    if found.unsearched > 0 {
        let dirs = count(found.unsearched, "directory was", "directories were");
        context.ui.note(format_args!(
            "note: {dirs} not searched, because they are absent from this partial repository"
        ));
    }
}

#[derive(Serialize)]
struct StatusDocument {
    purges: Vec<PurgeValue>,
    peers: Vec<PeerStatus>,
}

#[derive(Serialize)]
struct PurgeValue {
    time: String,
    by: String,
    reason: String,
    files: Vec<String>,
    chunks: u64,
    chunks_stored: u64,
}

#[derive(Serialize)]
struct PeerStatus {
    name: String,
    outcome: &'static str,
    missing: u64,
    /// How many chunks it still has to remove.
    chunks_stored: u64,
    why: String,
}

/// Shows what was purged here, and asks the remotes.
pub fn status(context: &Context, repo: &Repo) -> Result<u8, Failure> {
    let purges = repo.purges()?;
    let peers = ask(context, repo, &purges)?;
    if context.globals.json {
        let value = |purge: &KnownPurge| PurgeValue {
            time: rfc3339(purge.why.at, 0, 0),
            by: purge.why.by.clone(),
            reason: purge.why.reason.clone(),
            files: purge.files.iter().map(ToString::to_string).collect(),
            chunks: purge.pieces,
            chunks_stored: purge.stored,
        };
        let purges = purges.iter().map(value).collect();
        context.ui.json(&StatusDocument { purges, peers })?;
        return Ok(EXIT_OK);
    }
    let mut out = context.ui.out();
    if purges.is_empty() {
        writeln!(out, "nothing was purged here")?;
        return Ok(EXIT_OK);
    }
    for purge in &purges {
        let files = count(purge.files.len() as u64, "content", "contents");
        let (day, by, reason) = (
            day(purge.why.at),
            clean(&purge.why.by),
            clean(&purge.why.reason),
        );
        writeln!(out, "{day}  {files} by {by}: {reason}")?;
        for id in &purge.files {
            writeln!(out, "  {id}")?;
        }
        if purge.stored > 0 {
            let stored = count(purge.stored, "chunk is", "chunks are");
            writeln!(out, "  {stored} not removed yet (dmv purge)")?;
        }
    }
    for peer in &peers {
        let (name, why) = (clean(&peer.name), clean(&peer.why));
        let missing = count(peer.missing, "content", "contents");
        match peer.outcome {
            "done" => writeln!(out, "{name}: purged")?,
            "incomplete" => {
                let stored = count(peer.chunks_stored, "chunk is", "chunks are");
                writeln!(out, "{name}: {stored} not removed yet")?;
            }
            "not-purged" => writeln!(out, "{name}: has not purged {missing}")?,
            outcome => writeln!(out, "{name}: {outcome} ({why})")?,
        }
    }
    Ok(EXIT_OK)
}

/// Asks the remotes what they have purged.
fn ask(context: &Context, repo: &Repo, purges: &[KnownPurge]) -> Result<Vec<PeerStatus>, Failure> {
    let mut out = Vec::new();
    if purges.is_empty() || context.is_offline()? {
        return Ok(out);
    }
    let call = Call::to(context, "asking remotes");
    for remote in remotes(context)? {
        let answer = purges_at(repo, &remote, &call, &context.job);
        if context.job.is_cancelled() {
            return Err(dmv_net::session::NetError::Cancelled.into());
        }
        let (outcome, missing, stored, why) = match answer {
            Ok(Some(there)) => {
                let here: BTreeSet<_> = purges.iter().flat_map(|purge| &purge.files).collect();
                let ours = |purge: &&KnownPurge| purge.files.iter().any(|id| here.contains(id));
                let stored = there.iter().filter(ours).map(|purge| purge.stored);
                // A bucket has one count for all its purges.
                let stored = if remote.url.is_bucket() {
                    stored.max().unwrap_or_default()
                } else {
                    stored.sum()
                };
                let there: BTreeSet<_> = there.iter().flat_map(|purge| &purge.files).collect();
                let missing = here.iter().filter(|id| !there.contains(*id)).count() as u64;
                let outcome = match (missing, stored) {
                    (0, 0) => "done",
                    (0, _) => "incomplete",
                    _ => "not-purged",
                };
                (outcome, missing, stored, String::new())
            }
            Ok(None) => ("too-old", 0, 0, "its dmv does not know 'purge'".to_owned()),
            Err(e) => {
                let word = if e.answered { "failed" } else { "offline" };
                (word, 0, 0, session_failure(*e).message)
            }
        };
        out.push(PeerStatus {
            name: remote.name,
            outcome,
            missing,
            chunks_stored: stored,
            why,
        });
    }
    Ok(out)
}
