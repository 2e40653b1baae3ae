//! `dmv sync`

use crate::context::{Context, quoted};
use crate::error::{EXIT_INCOMPLETE, EXIT_OK, Failure};
use crate::peers::{
    Remote, Report, Standing, now_there, offered, remote, standing, tell_gone, tips, update,
    with_client,
};
use dmv_core::repo::{RefKind, Repo};

/// Fetch from remotes, then send what is ahead here
///
/// Every branch that has commits which the remote lacks is sent, and branches and tags that the
/// remote does not have are made there. Branches that have parted are told and left alone.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  dmv sync\n  dmv sync disk nas")]
pub struct Args {
    /// Remotes; all by default
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
    let (mut parted, mut failed, mut synced) = (false, None, 0);
    for name in &names {
        let one = remote(context, Some(name))?;
        match sync(context, &repo, &one, &mut report) {
            Ok(branches) => {
                synced += 1;
                for branch in branches {
                    parted = true;
                    context.ui.warn(format_args!(
                        "{branch} and {name}/{branch} have parted; see them with: dmv log --graph \
                         {}",
                        quoted(&format!("{name}/{branch}"))
                    ));
                }
            }
            // The others may be there.
            Err(e) if names.len() > 1 && e.exit == crate::error::EXIT_UNREACHABLE => {
                context.ui.warn(format_args!("{name}: {}", e.message));
                failed = Some(e);
            }
            Err(e) => return Err(e),
        }
    }
    if let (Some(e), 0) = (failed.take_if(|_| synced == 0), synced) {
        return Err(e);
    }
    report.print(context, &[])?;
    let refused = !report.refused().is_empty();
    Ok(match parted || refused || failed.is_some() {
        true => EXIT_INCOMPLETE,
        false => EXIT_OK,
    })
}

/// Exchanges both ways with one remote; returns the branches that have parted.
fn sync(
    context: &Context,
    repo: &Repo,
    remote: &Remote,
    report: &mut Report,
) -> Result<Vec<String>, Failure> {
    let asked = context.asked()?;
    let done = with_client(context, repo, &remote.url, |mut client| {
        client.fetch(&tips(&client.offered))?;
        let (mut updates, mut parted) = (Vec::new(), Vec::new());
        if client.may_push() {
            for info in repo.list_refs(RefKind::Branch)? {
                let Some(id) = info.commit else {
                    continue;
                };
                let key = format!("branch/{}", info.name);
                let theirs = offered(&client.offered, &key);
                match standing(repo, id, theirs)? {
                    Standing::Ahead => updates.push(update(&key, theirs, id, false)),
                    Standing::Parted => parted.push(info.name),
                    Standing::Same | Standing::Behind => {}
                }
            }
            for info in repo.list_refs(RefKind::Tag)? {
                let key = format!("tag/{}", info.name);
                if let (Some(id), None) = (info.commit, offered(&client.offered, &key)) {
                    updates.push(update(&key, None, id, false));
                }
            }
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
        Ok((client.finish(refs), pushed, parted, gone))
    })?;
    let (summary, pushed, parted, gone) = done;
    tell_gone(context, &remote.name, &gone, false);
    report.add(summary, pushed);
    Ok(parted)
}
