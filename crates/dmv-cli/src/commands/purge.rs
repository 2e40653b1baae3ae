//! `dmv purge`

mod report;

use crate::context::now;
use crate::lock_wait::free;
use crate::peers::{Call, remote, remotes, session_failure};
use crate::prelude::*;
use dmv_core::object::commit::tidy_message;
use dmv_core::repo::{KnownPurge, Purge, PurgeWhat, Purgeable, ToPurge, roots_of};
use dmv_net::ops::request_purge;
use dmv_net::wire::{PurgeOutcome, PurgeSums};
use std::collections::BTreeSet;

/// Remove the content of a file from all history, for good
///
/// For content that you must not keep, such as a leaked key or a file that a court has forbidden. dmv
/// removes all contents that PATH has ever had, in all commits, stashes and copies kept for 'undo', from
/// the packs of this repository at once. It also refuses to store them again. Commits, file names and
/// ids stay. Content that other files share stays, too, and dmv says how much.
///
/// This cannot be undone. Other repositories keep their copies until somebody purges there: see
/// --everywhere and --at. dmv cannot reach clones that never come back, backups, snapshots of file
/// systems, exported files, and freed blocks of the disk.
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  dmv purge keys/id_rsa --reason 'leaked key' --dry-run\n  \
                  dmv purge keys/id_rsa --reason 'leaked key' --everywhere\n  \
                  dmv purge --at studio\n  dmv purge --status\n\n\
                  Exit code 3: bytes may still be in a pack here, or at a remote; the same command \
                  continues."
)]
pub struct Args {
    /// A path from where you are, with all contents that it has ever had; or the full id of one content
    /// ('dmv ls --json' shows it). Without it, dmv removes what an earlier purge had to leave
    #[arg(value_name = "PATH|ID", add = candidates::path())]
    target: Option<OsString>,
    /// Why. Everybody who uses the repository can read this
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// Also ask all remotes to purge it
    #[arg(long)]
    everywhere: bool,
    /// Also ask this remote to purge it
    #[arg(long, value_name = "REMOTE", conflicts_with = "everywhere", add = candidates::remote())]
    at: Option<String>,
    /// Only show what would be purged
    #[arg(long, conflicts_with_all = ["everywhere", "at", "status", "lift"])]
    dry_run: bool,
    /// Show what was purged, and ask the remotes whether they have purged it
    #[arg(long, conflicts_with_all = ["target", "reason", "everywhere", "at", "lift"])]
    status: bool,
    /// Allow the content to be stored again. It does not come back by itself
    #[arg(long, requires = "target", conflicts_with_all = ["reason", "everywhere", "at"])]
    lift: bool,
}

/// What became of a purge at a remote.
struct PeerPurge {
    name: String,
    /// `done`, or a word for why not.
    outcome: &'static str,
    sums: PurgeSums,
    why: String,
    is_bucket: bool,
}

/// Runs the command.
pub fn run(context: &Context, args: &Args) -> Result<u8, Failure> {
    let repo = context.repo()?;
    if let Some(name) = &args.at {
        // An unknown name is told before anything is purged.
        remote(context, Some(name))?;
    }
    if args.status {
        return report::status(context, &repo);
    }
    if args.lift {
        return lift(context, &repo, args.target.as_deref().unwrap_or_default());
    }
    let Some(target) = &args.target else {
        return go_on(context, &repo, args);
    };
    // Nothing of it is stored any more, so a search would not find it.
    let id = target.to_str().and_then(ObjectId::from_hex);
    if let Some(id) = id
        && let Some(why) = repo.slice()?.purged.get(&id)
        && repo
            .purgeable(&PurgeWhat::Content(id), &context.job)?
            .files
            .is_empty()
    {
        return report::already(context, &repo, &id, why);
    }
    let (what, found) = find(context, &repo, target)?;
    if args.dry_run {
        report::foretell(context, &repo, &found)?;
        return Ok(EXIT_OK);
    }
    let Some(reason) = &args.reason else {
        let message = "a purge needs a reason, which everybody who uses the repository can read";
        let hint = hint!("dmv purge {} --reason TEXT", Argument::on_disk(target));
        return Err(Failure::usage(message.to_owned()).hint(hint));
    };
    let request = context.request()?;
    let why = Purge {
        at: now().seconds,
        by: request.who.clone(),
        reason: tidy_message(reason).unwrap_or_default(),
    };
    if !why.is_storable() {
        let message = "the reason of a purge is one line without control characters, and not longer \
                       than 1000 bytes; nothing was purged";
        return Err(Failure::usage(message.to_owned()).hint("--reason 'leaked key'"));
    }
    let freeing = free(context, &repo)?;
    // A commit may have brought another version since.
    let found = match what {
        PurgeWhat::Path(_) => repo.purgeable(&what, &context.job)?,
        PurgeWhat::Content(_) => found,
    };
    let files = roots_of(found.files.values().map(|(_, blob)| blob));
    let new = ToPurge {
        files: [(why, files)].into(),
        request,
    };
    let watch = context.watch("removing content");
    let done = freeing.purge(Some(new), &context.job)?;
    drop(watch);
    drop(freeing);
    let mut purges = Vec::new();
    if args.asks() {
        let ids: BTreeSet<ObjectId> = found.files.keys().copied().collect();
        purges = only(repo.purges()?, &ids);
    }
    let peers = ask_all(context, &repo, &purges, args.at.as_deref())?;
    report::done(context, &repo, Some(&found), &done, &peers)
}

/// Returns purges without the contents that are not in `ids`.
fn only(mut purges: Vec<KnownPurge>, ids: &BTreeSet<ObjectId>) -> Vec<KnownPurge> {
    for purge in &mut purges {
        purge.files.retain(|id| ids.contains(id));
    }
    purges.retain(|purge| !purge.files.is_empty());
    purges
}

/// Returns what an argument names. Fails if no commit has it.
fn find(context: &Context, repo: &Repo, target: &OsStr) -> Result<(PurgeWhat, Purgeable), Failure> {
    let id = target.to_str().and_then(ObjectId::from_hex);
    let what = match id {
        Some(id) => PurgeWhat::Content(id),
        None => PurgeWhat::Path(context.path(repo, target)?),
    };
    let watch = context.watch("searching all history");
    let found = repo.purgeable(&what, &context.job)?;
    drop(watch);
    if let PurgeWhat::Path(path) = &what
        && path.is_root()
    {
        let message = "this would purge all content of the repository: name a path in it";
        return Err(Failure::usage(message.to_owned()));
    }
    if found.files.is_empty() {
        let (message, hint) = match &what {
            PurgeWhat::Path(path) => (
                format!(
                    "no commit in this repository has a file with content at '{}'; nothing was purged",
                    escape(path.as_bytes())
                ),
                "dmv ls -r, or dmv log -- PATH",
            ),
            _ => (
                format!(
                    "no file content {} is stored here; nothing was purged",
                    clean(&target.to_string_lossy())
                ),
                "dmv ls --json, to see the ids of files; or name a path",
            ),
        };
        return Err(Failure::new("no-such-path", EXIT_OTHER, message).hint(hint));
    }
    Ok((what, found))
}

/// Removes what earlier purges had to leave, here and at remotes.
fn go_on(context: &Context, repo: &Repo, args: &Args) -> Result<u8, Failure> {
    if args.reason.is_some() || args.dry_run {
        let message = "name what to purge: a path, or the id of a content";
        return Err(Failure::usage(message.to_owned()).hint("dmv purge PATH --reason TEXT"));
    }
    let freeing = free(context, repo)?;
    let watch = context.watch("removing content");
    let done = freeing.purge(None, &context.job)?;
    drop(watch);
    drop(freeing);
    let purges = if args.asks() {
        repo.purges()?
    } else {
        Vec::new()
    };
    let peers = ask_all(context, repo, &purges, args.at.as_deref())?;
    report::done(context, repo, None, &done, &peers)
}

impl Args {
    /// Returns whether remotes are asked to purge, too.
    fn asks(&self) -> bool {
        self.everywhere || self.at.is_some()
    }
}

/// Asks all remotes to purge, too, or the one that is named.
fn ask_all(
    context: &Context,
    repo: &Repo,
    purges: &[KnownPurge],
    at: Option<&str>,
) -> Result<Vec<PeerPurge>, Failure> {
    let mut out = Vec::new();
    if purges.is_empty() {
        return Ok(out);
    }
    let call = Call::to(context, "asking remotes to purge");
    let request = context.request()?;
    let list = match at {
        Some(name) => vec![remote(context, Some(name))?],
        None => remotes(context)?,
    };
    for remote in list {
        let answer = request_purge(repo, &remote, purges, &request, &call, &context.job);
        context.job.check()?;
        let (outcome, sums, why) = match answer {
            Ok(Some(answer)) => (word(answer.outcome), answer.sums, answer.why),
            Ok(None) => (
                "too-old",
                PurgeSums::default(),
                "its dmv does not know 'purge'".to_owned(),
            ),
            Err(e) => {
                let word = if e.answered { "failed" } else { "offline" };
                (word, PurgeSums::default(), session_failure(*e).message)
            }
        };
        out.push(PeerPurge {
            is_bucket: remote.url.is_bucket(),
            name: remote.name,
            outcome,
            sums,
            why,
        });
    }
    Ok(out)
}

fn word(outcome: PurgeOutcome) -> &'static str {
    match outcome {
        PurgeOutcome::Done => "done",
        PurgeOutcome::Incomplete => "incomplete",
        PurgeOutcome::Refused => "refused",
        PurgeOutcome::Busy => "busy",
    }
}

/// Allows purged content to be stored again.
fn lift(context: &Context, repo: &Repo, target: &OsStr) -> Result<u8, Failure> {
    let known = repo.slice()?.purged;
    let files: BTreeSet<ObjectId> = match target.to_str().and_then(ObjectId::from_hex) {
        Some(id) => [id].into(),
        None => {
            let (_, found) = find(context, repo, target)?;
            found.files.into_keys().collect()
        }
    };
    if !files.iter().any(|id| known.contains_key(id)) {
        let message = format!(
            "no content of '{}' is purged",
            clean(&target.to_string_lossy())
        );
        let failure = Failure::new("not-purged", EXIT_OTHER, message);
        return Err(failure.hint("dmv purge --status"));
    }
    let lifted = repo.lift_purge(&files, context.request()?)?;
    context.ui.report(
        || object! { lifted: lifted },
        |_| {
            let lifted = count(lifted, "content", "contents");
            context.ui.note(format_args!(
                "{lifted} may be stored again; 'dmv get' or a commit brings it, if somebody still has it"
            ));
            Ok(())
        },
    )?;
    Ok(EXIT_OK)
}
