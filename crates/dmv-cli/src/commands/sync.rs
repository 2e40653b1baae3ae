//! `dmv sync`

use crate::commands::push::{is_replaced, way_past_replaced};
use crate::context::{Context, quoted};
use crate::error::{
    EXIT_INCOMPLETE, EXIT_INTERRUPTED, EXIT_NO_REPOSITORY, EXIT_OK, EXIT_UNREACHABLE, Failure,
};
use crate::peers::{
    Remote, Report, Standing, now_there, offered, remote, standing, tell_gone, tips, update,
    why_closed, with_client_to_push,
};
use dmv_core::repo::{RefKind, RefUpdate, Repo, RepoError};
use dmv_net::session::Client;
use dmv_net::wire::ReadOnly;
use std::collections::BTreeSet;

/// Fetch from remotes, then push all branches that are ahead
///
/// Pushes every local branch that is ahead, and every branch or tag that the remote does not have. Your
/// own branches do not move: use 'dmv pull' to update the current one. If you and the remote both have
/// new commits on a branch, dmv reports it and leaves that branch alone.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  dmv sync\n  dmv sync disk nas")]
pub struct Args {
    /// The remotes to sync with [default: all]
    #[arg(value_name = "REMOTE")]
    remotes: Vec<String>,
}

/// Runs the command.
pub fn run(context: &Context, args: &Args) -> Result<u8, Failure> {
    let repo = context.repo()?;
    let mut names = args.remotes.clone();
    if names.is_empty() {
        names = context
            .config()?
            .remotes()
            .into_iter()
            .map(|(name, _)| name)
            .collect();
    }
    if names.is_empty() {
        // Says what to do.
        remote(context, None)?;
    }
    let mut report = Report::default();
    let (mut left, mut behind) = (false, false);
    let (mut done, mut failed) = (Vec::new(), Vec::new());
    for name in &names {
        let one = remote(context, Some(name))?;
        match sync(context, &repo, &one, &mut report) {
            Ok(found) => {
                left |= found.is_left();
                behind |= !found.behind.is_empty();
                done.push(name.as_str());
                tell(context, &repo, &one, &found)?;
            }
            // It is about this repository, or the user has had enough.
            Err(e)
                if names.len() == 1 || e.exit == EXIT_INTERRUPTED || context.job.is_cancelled() =>
            {
                return Err(e);
            }
            // The others may be there.
            Err(e) => {
                context
                    .ui
                    .warn(format_args!("not synced with {name}: {}", e.message));
                if let Some(hint) = &e.hint {
                    context.ui.note(format_args!("hint: {hint}"));
                }
                failed.push((name, e));
            }
        }
    }
    if failed.len() == names.len() {
        return Err(all_failed(failed));
    }
    let refused = !report.refused().is_empty();
    report.idle = Some(match left || refused || behind {
        true => "nothing was transferred".to_owned(),
        false => format!("already up to date with {}", done.join(", ")),
    });
    report.print(context, &[])?;
    Ok(match left || refused || !failed.is_empty() {
        true => EXIT_INCOMPLETE,
        false => EXIT_OK,
    })
}

/// The failure where none of several remotes could be synced with. Each has been told of.
fn all_failed(failed: Vec<(&String, Failure)>) -> Failure {
    let names: Vec<&str> = failed.iter().map(|(name, _)| &name[..]).collect();
    let message = format!(
        "could not sync with any of the remotes: {}",
        names.join(", ")
    );
    let exits: BTreeSet<u8> = failed.iter().map(|(_, e)| e.exit).collect();
    // A disk that is not there is no repository; all of them together are out of reach.
    let exit = match exits.first() {
        Some(exit) if exits.len() == 1 && *exit != EXIT_NO_REPOSITORY => *exit,
        _ => EXIT_UNREACHABLE,
    };
    Failure::new("unreachable", exit, message)
}

/// Branches and tags that a sync with one remote could not make equal.
#[derive(Default)]
struct Found {
    /// Branches with commits there, and other ones here.
    parted: Vec<String>,
    /// Branches that have more commits there.
    behind: Vec<String>,
    /// Names of what is ahead here, and goes nowhere: the remote takes nothing.
    unsent: Vec<String>,
    /// Why, if it says so.
    read_only: Option<ReadOnly>,
}

impl Found {
    /// Whether something waits for the user beyond what a pull brings.
    fn is_left(&self) -> bool {
        !self.parted.is_empty() || !self.unsent.is_empty()
    }
}

/// Says what was not made equal, and how it is.
fn tell(context: &Context, repo: &Repo, remote: &Remote, found: &Found) -> Result<(), Failure> {
    let name = &remote.name;
    let head = repo.head()?;
    let is_current = |branch: &String| head.branch() == Some(branch);
    let pull = format!("dmv pull {}", quoted(name));
    for branch in &found.parted {
        let ours = repo.ref_at(&format!("branch/{branch}"))?;
        let theirs = repo.ref_at(&format!("remote/{name}/{branch}"))?;
        let both = ours.zip(theirs);
        let pull = match both.is_some_and(|both| is_replaced(repo, name, branch, both)) {
            true => way_past_replaced(name, branch),
            false => pull.clone(),
        };
        let join = match is_current(branch) {
            true => pull,
            false => format!("dmv checkout {}, then {pull}", quoted(branch)),
        };
        context.ui.warn(format_args!(
            "you and {name} both have new commits on {branch}; to combine them: {join}"
        ));
    }
    for branch in found.behind.iter().filter(|branch| is_current(branch)) {
        context.ui.note(format_args!(
            "{branch} is behind {name}/{branch}; to update it: {pull}"
        ));
    }
    if !found.unsent.is_empty() {
        let unsent = found.unsent.join(", ");
        let why = why_closed(&remote.url, found.read_only);
        context
            .ui
            .warn(format_args!("not pushed to {name}: {unsent}; {why}"));
    }
    Ok(())
}

/// What is ahead here of what `client` offers, as a push; the rest is noted in `found`.
fn ahead(repo: &Repo, client: &Client<'_>, found: &mut Found) -> Result<Vec<RefUpdate>, RepoError> {
    let mut updates = Vec::new();
    for info in repo.list_refs(RefKind::Branch)? {
        let Some(id) = info.commit else {
            continue;
        };
        let key = format!("branch/{}", info.name);
        let theirs = offered(&client.offered, &key);
        match standing(repo, id, theirs)? {
            Standing::Ahead => updates.push(update(&key, theirs, id, false)),
            Standing::Parted => found.parted.push(info.name),
            Standing::Behind => found.behind.push(info.name),
            Standing::Same => {}
        }
    }
    for info in repo.list_refs(RefKind::Tag)? {
        let key = format!("tag/{}", info.name);
        if let (Some(id), None) = (info.commit, offered(&client.offered, &key)) {
            updates.push(update(&key, None, id, false));
        }
    }
    Ok(updates)
}

/// Exchanges both ways with one remote.
fn sync(
    context: &Context,
    repo: &Repo,
    remote: &Remote,
    report: &mut Report,
) -> Result<Found, Failure> {
    let asked = context.asked()?;
    let done = with_client_to_push(context, repo, &remote.url, |mut client| {
        client.fetch(&tips(&client.offered))?;
        let mut found = Found::default();
        let mut updates = ahead(repo, &client, &mut found)?;
        if !client.may_push() {
            let keys = updates.drain(..).map(|update| update.key);
            let names = keys.filter_map(|key| Some(key.split_once('/')?.1.to_owned()));
            found.unsent = names.collect();
            found.read_only = client.read_only;
        }
        let pushed = match updates.is_empty() {
            true => Ok(Vec::new()),
            false => client.push(&updates),
        };
        // What was fetched is noted also where nothing could be pushed.
        let mut there = client.offered.clone();
        for (key, id) in pushed.iter().flat_map(|moved| now_there(moved).refs) {
            there.refs.retain(|(known, _)| *known != key);
            there.refs.push((key, id));
        }
        let gone = repo.gone_from(&remote.name, &there)?;
        let refs = repo.note_remote(&remote.name, &there, &Default::default(), &asked)?;
        let pushed = pushed?;
        Ok((client.finish(refs), pushed, found, gone))
    })?;
    let (summary, pushed, found, gone) = done;
    tell_gone(context, &remote.name, &gone, false);
    report.add(summary, pushed);
    Ok(found)
}
