//! `dmv push`

use crate::context::{Context, quoted};
use crate::error::{EXIT_OK, EXIT_REFUSED, Failure};
use crate::peers::{
    Report, Standing, now_there, offered, remote, say, standing, update, with_client,
};
use dmv_core::hash::ObjectId;
use dmv_core::repo::{RefMoved, Refusal, Repo, RepoError};

/// Send branches to a remote
///
/// A branch there is only moved forward: where it has commits that yours lacks, nothing is moved,
/// unless with --force. Without BRANCH the current one is sent.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  dmv push\n  dmv push origin main regrade")]
pub struct Args {
    /// The remote; origin, or the only one, by default
    #[arg(value_name = "REMOTE")]
    remote: Option<String>,
    /// Branches or tags
    #[arg(value_name = "BRANCH")]
    branches: Vec<String>,
    /// Also where the remote then loses commits
    #[arg(short, long)]
    force: bool,
}

/// Runs the command.
pub fn run(context: &Context, args: &Args) -> Result<u8, Failure> {
    let repo = context.repo()?;
    let remote = remote(context, args.remote.as_deref())?;
    let wanted = wanted(&repo, &args.branches)?;
    // Judged with what is here; where the other side knows better it refuses.
    let mut report = Report::default();
    let asked = context.asked()?;
    let (summary, pushed) = with_client(context, &repo, &remote.url, |mut client| {
        let (mut updates, mut moved) = (Vec::new(), Vec::new());
        for (key, new) in &wanted {
            let old = offered(&client.offered, key);
            let stands = standing(&repo, *new, old)?;
            match stands {
                Standing::Same => {}
                Standing::Ahead => updates.push(update(key, old, *new, args.force)),
                _ if args.force => updates.push(update(key, old, *new, true)),
                Standing::Behind | Standing::Parted => moved.push(RefMoved {
                    key: key.clone(),
                    old,
                    new: *new,
                    refused: Some(Refusal::NotForward),
                }),
            }
        }
        if !updates.is_empty() {
            moved.extend(client.push(&updates)?);
        }
        let there = now_there(&moved);
        repo.note_remote(&remote.name, &there, &Default::default(), &asked)?;
        Ok((client.finish(Vec::new()), moved))
    })?;
    report.add(summary, pushed);
    report.print(context, &[])?;
    refusal(&report, &remote.name)?;
    Ok(EXIT_OK)
}

/// Keys and commits of the branches or tags named; of the current branch without any.
fn wanted(repo: &Repo, names: &[String]) -> Result<Vec<(String, ObjectId)>, Failure> {
    let mut out = Vec::new();
    let current = match (names, repo.head()?.branch()) {
        ([], Some(branch)) => vec![branch.to_owned()],
        ([], None) => {
            return Err(Failure::usage(
                "no branch is checked out: which is to be sent?",
            ));
        }
        (names, _) => names.to_vec(),
    };
    for name in current {
        let branch = repo.ref_at(&format!("branch/{name}"))?;
        let found = match branch {
            Some(id) => Some((format!("branch/{name}"), id)),
            None => repo
                .ref_at(&format!("tag/{name}"))?
                .map(|id| (format!("tag/{name}"), id)),
        };
        out.push(match found {
            Some(found) => found,
            None if names.is_empty() => return Err(RepoError::NoCommit.into()),
            None => {
                let kind = "branch";
                return Err(RepoError::NoRef { kind, name }.into());
            }
        });
    }
    Ok(out)
}

/// The failure for refs that the other side did not move.
pub fn refusal(report: &Report, remote: &str) -> Result<(), Failure> {
    let refused = report.refused();
    let Some((first, why)) = refused.first().and_then(|m| Some((m, m.refused?))) else {
        return Ok(());
    };
    let name = first
        .key
        .split_once('/')
        .map_or(first.key.as_str(), |(_, name)| name);
    let more = match refused.len() {
        1 => String::new(),
        n => format!(", and {} more", n - 1),
    };
    let message = format!("{name} was not moved at {remote}: {}{more}", say(why));
    let failure = Failure::new("not-forward", EXIT_REFUSED, message);
    Err(match why {
        Refusal::BadName => failure,
        _ => failure.hint(format!("dmv pull {}", quoted(remote))),
    })
}
