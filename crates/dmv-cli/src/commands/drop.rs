//! `dmv drop`

use crate::context::Context;
use crate::failure::{EXIT_OK, EXIT_REFUSED, Failure};
use crate::format::text::{bytes, clean, count, quoted};
use crate::peers::{Call, remotes, why_silent};
use crate::places::chosen;
use crate::supply::some_of;
use dmv_core::hash::ObjectId;
use dmv_core::object::ObjectType;
use dmv_core::object::list::Blob;
use dmv_core::repo::{Droppable, Freed, Repo};
use dmv_net::ops::Peer;
use dmv_net::session::NetError;
use dmv_net::transport::{Purpose, Url, open_at};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::io::Write;

/// Free local space: remove content that a remote also has
///
/// dmv first asks the remotes. It removes content only after a remote has confirmed that it keeps a
/// complete copy. If no remote confirms this, dmv removes nothing.
///
/// History and the files in the worktree stay. 'dmv get', or any command that needs the content, fetches
/// it again; 'dmv undo' does not. To remove files from the worktree, use 'dmv subset remove'.
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  dmv drop media/raw\n  dmv drop '*.mov'\n  dmv drop @~5:media/clip.mov\n\n\
                  Exit code 5: this may be the last copy of a file, so nothing was dropped."
)]
pub struct Args {
    /// Files, directories or wildcard patterns, in the commit REV (default: @)
    #[arg(value_name = "[REV:]PATH", required = true)]
    paths: Vec<OsString>,
}

#[derive(Serialize)]
struct Document {
    files: u64,
    bytes: u64,
    freed_bytes: u64,
    waiting_bytes: u64,
    shared_bytes: u64,
    in_worktree: u64,
    peers: Vec<String>,
    why_not_freed: Option<String>,
}

/// Runs the command.
pub fn run(context: &Context, args: &Args) -> Result<u8, Failure> {
    let repo = context.repo()?;
    let chosen = chosen(context, &repo, &args.paths)?;
    let freeing = repo.begin_to_free()?;
    let watch = context.watch("scanning");
    let wanted: Vec<_> = chosen.iter().map(|chosen| chosen.wanted()).collect();
    let droppable = freeing.droppable(&wanted)?;
    drop(watch);
    if droppable.files.is_empty() {
        return finish(context, &repo, &droppable, Freed::default(), Vec::new());
    }
    let watch = context.watch("asking remotes");
    let call = Call::new(context);
    let mut peers = Peer::all(remotes(context)?, &repo, &call, &context.job);
    let asked = ask(context, &repo, &mut peers, &droppable)?;
    drop(watch);
    if let Some(failure) = asked.refusal(&droppable) {
        end(peers);
        return Err(failure);
    }
    let unkept: BTreeSet<ObjectId> = asked.unkept.iter().map(|(_, id)| *id).collect();
    let mut earlier = droppable.earlier.clone();
    earlier.retain(|(_, id)| !unkept.contains(id));
    let blobs: Vec<Blob> = droppable.files.iter().map(|(_, blob)| *blob).collect();
    let mut still = || {
        let mut keepers = peers
            .iter_mut()
            .filter(|peer| asked.keepers.contains(&peer.remote.name));
        keepers.all(|peer| peer.ask(|client| client.unkept(&[])).is_some())
    };
    let watch = context.watch("freeing space");
    let freed = freeing.drop_files(&blobs, &earlier, &mut still, &context.job)?;
    drop(watch);
    end(peers);
    finish(context, &repo, &droppable, freed, asked.keepers)
}

/// Ends all connections. That somebody did not answer has been said already.
fn end(peers: Vec<Peer<'_>>) {
    peers.into_iter().for_each(|peer| drop(peer.finish()));
}

/// What peers said.
struct Asked {
    /// Those that keep something; what they keep is not asked of others.
    keepers: Vec<String>,
    /// What nobody keeps.
    unkept: Vec<(ObjectType, ObjectId)>,
    /// What each of the others said.
    said: Vec<String>,
}

fn ask(
    context: &Context,
    repo: &Repo,
    peers: &mut [Peer<'_>],
    droppable: &Droppable,
) -> Result<Asked, Failure> {
    let files = droppable.files.iter().map(|(_, blob)| (blob.id, blob.ty()));
    let earlier = droppable.earlier.iter().map(|(ty, id)| (*id, *ty));
    let all: BTreeMap<ObjectId, ObjectType> = files.chain(earlier).collect();
    let mut asked = Asked {
        keepers: Vec::new(),
        unkept: all.into_iter().map(|(id, ty)| (ty, id)).collect(),
        said: Vec::new(),
    };
    for peer in peers {
        if asked.unkept.is_empty() {
            break;
        }
        let name = peer.remote.name.clone();
        if is_itself(repo, &peer.remote.url) {
            asked.said.push(format!("{name} is this repository itself"));
            continue;
        }
        let answer = peer.ask(|client| client.unkept(&asked.unkept));
        if context.job.is_cancelled() {
            return Err(NetError::Cancelled.into());
        }
        match answer {
            None => {
                let why = peer.no_answer().map(why_silent).unwrap_or_default();
                asked.said.push(format!("{name} did not answer ({why})"));
            }
            Some(unkept) => {
                if !unkept.is_empty() {
                    asked.said.push(format!("{name} does not keep a copy"));
                }
                if unkept.len() < asked.unkept.len() {
                    asked.keepers.push(name);
                }
                asked.unkept = unkept;
            }
        }
    }
    Ok(asked)
}

/// Whether an address leads to the very files of this repository.
fn is_itself(repo: &Repo, url: &Url) -> bool {
    let Url::Path(path) = url else {
        // Over any other way it finds its own lock taken.
        return false;
    };
    let real = |repo: &Repo| std::fs::canonicalize(repo.dmv_dir()).ok();
    open_at(path, Purpose::Read)
        .is_ok_and(|other| real(&other).is_some() && real(&other) == real(repo))
}

impl Asked {
    /// Why nothing may be dropped, if a chosen file is kept by nobody.
    fn refusal(&self, droppable: &Droppable) -> Option<Failure> {
        let unkept: BTreeSet<&ObjectId> = self.unkept.iter().map(|(_, id)| id).collect();
        let files = droppable.files.iter();
        let last = files.filter(|(_, blob)| unkept.contains(&blob.id));
        let paths: Vec<Vec<u8>> = last.map(|(path, _)| path.as_bytes().to_vec()).collect();
        if paths.is_empty() {
            return None;
        }
        let said = if self.said.is_empty() {
            "no remote is configured".to_owned()
        } else {
            self.said.join("; ")
        };
        let what = some_of(&paths);
        let message = format!("nothing was dropped: this may be the last copy of {what}; {said}");
        let hint = if self.said.is_empty() {
            "dmv remote add NAME URL"
        } else {
            "dmv push"
        };
        let mut failure = Failure::new("last-copy", EXIT_REFUSED, message).hint(hint);
        failure.paths = paths;
        Some(failure)
    }
}

fn finish(
    context: &Context,
    repo: &Repo,
    droppable: &Droppable,
    freed: Freed,
    peers: Vec<String>,
) -> Result<u8, Failure> {
    let in_worktree = droppable
        .files
        .iter()
        .filter(|(path, blob)| repo.is_checked_out(path, blob));
    let document = Document {
        files: droppable.files.len() as u64,
        bytes: droppable.files.iter().map(|(_, blob)| blob.size).sum(),
        freed_bytes: freed.freed_bytes,
        waiting_bytes: freed.waiting_bytes,
        shared_bytes: freed.shared_bytes,
        in_worktree: in_worktree.count() as u64,
        peers,
        why_not_freed: freed.why_not_freed,
    };
    if context.globals.json {
        context.ui.json(&document)?;
        return Ok(EXIT_OK);
    }
    if context.ui.quiet() {
        return Ok(EXIT_OK);
    }
    let mut out = context.ui.out();
    if document.files == 0 {
        writeln!(out, "nothing to drop: this content is already absent")?;
        return Ok(EXIT_OK);
    }
    let files = count(document.files, "file", "files");
    let keepers = clean(&document.peers.join(", "));
    let total = bytes(document.bytes);
    writeln!(out, "{files} dropped ({total}), kept by {keepers}")?;
    writeln!(out, "freed now: {}", bytes(freed.freed_bytes))?;
    if freed.waiting_bytes > 0 {
        let waiting = bytes(freed.waiting_bytes);
        writeln!(
            out,
            "not freed yet: {waiting}, in packs that also contain other files"
        )?;
    }
    if freed.shared_bytes > 0 {
        let shared = bytes(freed.shared_bytes);
        writeln!(
            out,
            "not freed: {shared}, which other files or versions also use"
        )?;
    }
    drop(out);
    if let Some(why) = &document.why_not_freed {
        let text = format_args!("some packs could not be freed: {why}");
        context.ui.warn(text);
    }
    if document.in_worktree > 0 {
        let stay = count(document.in_worktree, "file stays", "files stay");
        let path = droppable.files.first().map(|(path, _)| path.to_string());
        let path = quoted(&path.unwrap_or_default());
        context.ui.note(format_args!(
            "note: {stay} in the worktree; to remove them there: dmv subset remove {path}"
        ));
    }
    Ok(EXIT_OK)
}
