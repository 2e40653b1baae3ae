//! What `dmv purge` prints.

use super::PeerPurge;
use crate::format::text::day;
use crate::on_demand::some_of;
use crate::partial_repository::purge_words;
use crate::peers::{Call, remotes, session_failure};
use crate::prelude::*;
use dmv_core::repo::{KnownPurge, Purge, PurgeReport, Purgeable};
use dmv_net::ops::purges_at;
use std::collections::BTreeSet;

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
    let done = PurgeReport {
        files: found.files.len() as u64 - found.known,
        bytes: new.map(|(_, (_, blob))| blob.size).sum(),
        ..PurgeReport::default()
    };
    let document = || document(repo, &done, Some(found), &[]);
    context.ui.show(document, |out| {
        for (id, (path, blob)) in &found.files {
            let (size, path) = (bytes(blob.size), escape(path));
            let why = known
                .get(id)
                .map(|why| format!("  (already {})", purge_words(why)));
            writeln!(out, "{id} {size:>10}  {path}{}", why.unwrap_or_default())?;
        }
        let already = match found.known {
            1 => "1 content is already purged".to_owned(),
            n => format!("{n} contents are already purged"),
        };
        if done.files == 0 {
            writeln!(out, "nothing to purge: {already}")?;
            return Ok(());
        }
        let files = count(done.files, "content", "contents");
        writeln!(out, "{files} ({}) would be purged", bytes(done.bytes))?;
        if found.known > 0 {
            writeln!(out, "{already}")?;
        }
        tell_others(context, repo, found);
        Ok(())
    })
}

/// Says that a content is purged already.
pub fn already(context: &Context, repo: &Repo, id: &ObjectId, why: &Purge) -> Result<u8, Failure> {
    let found = Purgeable {
        known: 1,
        ..Purgeable::default()
    };
    context.ui.show(
        || document(repo, &PurgeReport::default(), Some(&found), &[]),
        |out| {
            writeln!(out, "{id}  (already {})", purge_words(why))?;
            Ok(writeln!(
                out,
                "nothing to purge: 1 content is already purged"
            )?)
        },
    )?;
    Ok(EXIT_OK)
}

/// Says what a purge did, and returns the exit code.
pub(super) fn done(
    context: &Context,
    repo: &Repo,
    found: Option<&Purgeable>,
    done: &PurgeReport,
    peers: &[PeerPurge],
) -> Result<u8, Failure> {
    let all_done = peers.iter().all(|peer| peer.outcome == "done");
    let exit = if done.left.is_empty() && all_done {
        EXIT_OK
    } else {
        EXIT_INCOMPLETE
    };
    if context.ui.is_json() {
        context.ui.json(&document(repo, done, found, peers))?;
        return Ok(exit);
    }
    context.ui.text(|out| print(out, done, peers))?;
    if let Some(found) = found {
        tell_others(context, repo, found);
    }
    let ui = &context.ui;
    if done.linked_packs > 0 {
        ui.warn(
            "another repository on this file system shares packs with this one and still has the \
             content; purge there, too",
        );
    }
    for peer in peers.iter().filter(|peer| peer.sums.linked_packs > 0) {
        ui.warn(format_args!(
            "another repository on the file system of {} shares packs with it and still has the \
             content; purge there, too",
            clean(&peer.name)
        ));
    }
    for peer in peers.iter().filter(|peer| peer.outcome != "done") {
        ui.warn(format_args!(
            "'{}' has not purged all of it ({}); to ask again: dmv purge --everywhere",
            clean(&peer.name),
            peer.outcome
        ));
    }
    if !peers.is_empty() {
        tell_cut(context, repo)?;
    }
    if peers.iter().any(|peer| peer.is_bucket) {
        ui.note(format_args!("note: {OUT_OF_REACH_AT_BUCKETS}"));
    }
    for why in &done.left {
        ui.warn(format_args!("not removed yet: {}", clean(why)));
    }
    if !done.left.is_empty() {
        ui.note("hint: dmv purge, to remove the rest when other commands have ended");
    }
    if found.is_some() {
        ui.note(format_args!("note: {OUT_OF_REACH}"));
    }
    Ok(exit)
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

fn print(out: &mut impl Write, done: &PurgeReport, peers: &[PeerPurge]) -> Result<(), Failure> {
    match (done.files, done.left.is_empty()) {
        (0, true) if done.freed_bytes > 0 => {
            writeln!(out, "removed {}", bytes(done.freed_bytes))?;
        }
        (0, true) => writeln!(out, "nothing is left to purge here")?,
        (0, false) => {}
        (files, _) => {
            let (files, size) = (count(files, "content", "contents"), bytes(done.bytes));
            writeln!(out, "{files} purged from this repository ({size})")?;
        }
    }
    if done.shared_bytes > 0 {
        let shared = bytes(done.shared_bytes);
        writeln!(out, "not removed: {shared}, which other files also use")?;
    }
    for peer in peers {
        let (name, why) = (clean(&peer.name), clean(&peer.why));
        match (peer.outcome, why.as_str()) {
            ("done", _) => writeln!(out, "{name}: purged")?,
            (outcome, "") => writeln!(out, "{name}: {outcome}")?,
            (outcome, why) => writeln!(out, "{name}: {outcome} ({why})")?,
        }
        if peer.sums.shared_bytes > 0 {
            let shared = bytes(peer.sums.shared_bytes);
            writeln!(
                out,
                "{name}: not removed: {shared}, which other files there also use"
            )?;
        }
    }
    Ok(())
}

fn document(
    repo: &Repo,
    done: &PurgeReport,
    found: Option<&Purgeable>,
    peers: &[PeerPurge],
) -> Json {
    let none = Purgeable::default();
    let found = found.unwrap_or(&none);
    let contents = found.files.iter().map(|(id, (at, blob))| {
        let path = (!at.is_root()).then(|| path(at));
        object! { id: id, path: path, blob.{size} }
    });
    let peers = peers.iter().map(|peer| {
        let sums = &peer.sums;
        object! { peer.{name, outcome}, sums.{files, shared_bytes, linked_packs}, peer.{why} }
    });
    object! {
        done.{files},
        found.{known},
        contents: Json::List(contents.collect()),
        done.{bytes, shared_bytes, freed_bytes, linked_packs, left},
        also: paths(&found.also),
        refs: texts(&found.refs),
        in_worktree: paths(&in_worktree(repo, found)),
        peers: Json::List(peers.collect()),
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

/// What a remote has purged.
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
    let document = || {
        let value = |purge: &KnownPurge| {
            object! {
                ..purge.why.to_json(),
                files: texts(&purge.files),
                chunks: purge.pieces,
                chunks_stored: purge.stored,
            }
        };
        let peer =
            |peer: &PeerStatus| object! { peer.{name, outcome, missing, chunks_stored, why} };
        object! {
            purges: Json::List(purges.iter().map(value).collect()),
            peers: Json::List(peers.iter().map(peer).collect()),
        }
    };
    context
        .ui
        .show(document, |out| print_status(out, &purges, &peers))?;
    Ok(EXIT_OK)
}

fn print_status(
    out: &mut impl Write,
    purges: &[KnownPurge],
    peers: &[PeerStatus],
) -> Result<(), Failure> {
    if purges.is_empty() {
        return Ok(writeln!(out, "nothing was purged here")?);
    }
    for purge in purges {
        let files = count(purge.files.len() as u64, "content", "contents");
        let (by, reason) = (clean(&purge.why.by), clean(&purge.why.reason));
        writeln!(out, "{}  {files} by {by}: {reason}", day(purge.why.at))?;
        for id in &purge.files {
            writeln!(out, "  {id}")?;
        }
        if purge.stored > 0 {
            let stored = count(purge.stored, "chunk is", "chunks are");
            writeln!(out, "  {stored} not removed yet (dmv purge)")?;
        }
    }
    for peer in peers {
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
    Ok(())
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
        context.job.check()?;
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
