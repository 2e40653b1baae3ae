//! `dmv push`

use crate::context::{Context, quoted};
use crate::error::{EXIT_OK, EXIT_OTHER, EXIT_REFUSED, Failure};
use crate::peers::{
    Report, Standing, closed, done_to, name, now_there, offered, remote, standing, update,
    with_client_to_push,
};
use dmv_core::hash::ObjectId;
use dmv_core::repo::{Offered, OwnBranches, RefMoved, RefUpdate, Refusal, Repo, RepoError};

/// Send branches and tags to a remote
///
/// Without BRANCH, sends the current branch. If the remote branch has commits that yours does not have,
/// dmv refuses: pull first, or use --force to overwrite it.
///
/// --delete deletes branches and tags on the remote, not your local ones. dmv refuses to delete the branch
/// that the remote is on. Without --force, it also refuses if no other branch or tag on the remote has
/// the commits. 'dmv undo', run on the remote, restores a deleted branch.
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  dmv push\n  dmv push origin main regrade\n  dmv push origin --delete \
                  regrade"
)]
pub struct Args {
    /// The remote to push to [default: origin, or the only remote]
    #[arg(value_name = "REMOTE")]
    remote: Option<String>,
    /// The branches or tags to send [default: the current branch]
    #[arg(value_name = "BRANCH")]
    branches: Vec<String>,
    /// Delete these branches or tags on the remote
    #[arg(short, long, value_name = "NAME", num_args = 1..)]
    delete: Vec<String>,
    /// Overwrite or delete even if the remote branch loses commits
    #[arg(short, long)]
    force: bool,
}

/// Runs the command.
pub fn run(context: &Context, args: &Args) -> Result<u8, Failure> {
    let repo = context.repo()?;
    let remote = remote(context, args.remote.as_deref())?;
    let wanted = match args.branches.is_empty() && !args.delete.is_empty() {
        true => Vec::new(),
        false => wanted(&repo, &args.branches)?,
    };
    // Judged with what is here; where the other side knows better it refuses.
    let mut report = Report::default();
    let asked = context.asked()?;
    let (summary, pushed) = with_client_to_push(context, &repo, &remote.url, |mut client| {
        report.closed = (!client.may_push()).then(|| closed(&remote.url, client.read_only));
        let deletions = match deletions(&client.offered, &args.delete, args.force) {
            Ok(deletions) => deletions,
            Err(missing) => return Ok((client.finish(Vec::new()), Err(missing))),
        };
        let (mut updates, mut moved) = (Vec::new(), Vec::new());
        // A push that was cut off may have moved them there, and not noted it here.
        let mut there_already = Vec::new();
        for (key, new) in &wanted {
            let old = offered(&client.offered, key);
            let stands = standing(&repo, *new, old)?;
            match stands {
                Standing::Same => there_already.push((key.clone(), *new)),
                Standing::Ahead => updates.push(update(key, old, *new, args.force)),
                _ if args.force => updates.push(update(key, old, *new, true)),
                Standing::Behind | Standing::Parted => moved.push(RefMoved {
                    key: key.clone(),
                    old,
                    new: Some(*new),
                    refused: Some(Refusal::NotForward),
                }),
            }
        }
        if !updates.is_empty() {
            moved.extend(client.push(&updates)?);
        }
        if !deletions.is_empty() {
            // When the others have moved: what they name now is not lost.
            moved.extend(client.push(&deletions)?);
        }
        let mut there = now_there(&moved);
        there.refs.extend(there_already);
        let gone = OwnBranches {
            forget: deleted(&moved),
            ..OwnBranches::default()
        };
        repo.note_remote(&remote.name, &there, &gone, &asked)?;
        Ok((client.finish(Vec::new()), Ok(moved)))
    })?;
    let pushed = pushed.map_err(|missing| {
        let message = format!(
            "{} has no branch or tag '{missing}'; nothing was pushed or deleted",
            remote.name
        );
        let hint = format!("dmv fetch --prune {}", quoted(&remote.name));
        Failure::new("no-ref", EXIT_OTHER, message).hint(hint)
    })?;
    let gone = deleted(&pushed);
    report.add(summary, pushed);
    report.idle = Some(format!("already up to date with {}", remote.name));
    report.print(context, &[])?;
    for name in gone {
        // Else the next sync makes it there once more, to the user's surprise.
        if repo.ref_at(&format!("branch/{name}"))?.is_some() {
            let hint = format!("dmv branch -d {}", quoted(&name));
            let note = format_args!("your local branch {name} stays; to delete it, too: {hint}");
            context.ui.note(note);
        }
    }
    refusal(&repo, &report, &remote.name)?;
    Ok(EXIT_OK)
}

/// What takes the named branches or tags away, as the other side has them; or the name that it does
/// not have.
fn deletions(there: &Offered, names: &[String], force: bool) -> Result<Vec<RefUpdate>, String> {
    let mut out: Vec<RefUpdate> = Vec::new();
    for name in names {
        let keys = [format!("branch/{name}"), format!("tag/{name}")];
        let found = keys
            .into_iter()
            .find_map(|key| offered(there, &key).map(|id| (key, id)));
        let (key, old) = found.ok_or_else(|| name.clone())?;
        if out.iter().all(|update| update.key != key) {
            out.push(RefUpdate {
                key,
                old: Some(old),
                new: None,
                force,
            });
        }
    }
    Ok(out)
}

/// Names of the branches that are gone from the other side.
fn deleted(moved: &[RefMoved]) -> Vec<String> {
    let gone = moved
        .iter()
        .filter(|moved| moved.new.is_none() && moved.refused.is_none());
    gone.filter_map(|moved| moved.key.strip_prefix("branch/"))
        .map(str::to_owned)
        .collect()
}

/// Keys and commits of the branches or tags named; of the current branch without any.
fn wanted(repo: &Repo, names: &[String]) -> Result<Vec<(String, ObjectId)>, Failure> {
    let mut out = Vec::new();
    let current = match (names, repo.head()?.branch()) {
        ([], Some(branch)) => vec![branch.to_owned()],
        ([], None) => {
            let failure = Failure::usage("no branch is checked out: name the branch to push");
            return Err(failure.hint("dmv push REMOTE BRANCH"));
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
fn refusal(repo: &Repo, report: &Report, remote: &str) -> Result<(), Failure> {
    let refused = report.refused();
    let Some((first, why)) = refused.first().and_then(|m| Some((m, m.refused?))) else {
        return Ok(());
    };
    let name = name(first);
    let more = match refused.len() {
        1 => String::new(),
        n => format!(", and {} more", n - 1),
    };
    let ((done, at), because) = (done_to(first), report.why(first));
    let message = format!("{name} was not {done} {at} {remote}: {because}{more}");
    let code = match why {
        Refusal::InUse => "in-use",
        Refusal::BadName => "refused",
        _ => "not-forward",
    };
    let failure = match (&report.closed, why) {
        (Some(closed), Refusal::BadName) => Failure::new("not-allowed", closed.exit, message),
        _ => Failure::new(code, EXIT_REFUSED, message),
    };
    Err(match (why, first.new) {
        (Refusal::BadName | Refusal::InUse, _) => failure,
        (Refusal::NotForward, None) => {
            let (remote, name) = (quoted(remote), quoted(name));
            failure.hint(format!("dmv push {remote} --force --delete {name}"))
        }
        (Refusal::Moved, None) => failure.hint(format!("dmv fetch {}", quoted(remote))),
        _ => failure.hint(match was_replaced(repo, remote, first) {
            true => way_past_replaced(remote, name),
            false => format!("dmv pull {}", quoted(remote)),
        }),
    })
}

/// Whether the other side's branch is known not to go on from what it was: a pull would refuse.
fn was_replaced(repo: &Repo, remote: &str, moved: &RefMoved) -> bool {
    let branch = moved.key.strip_prefix("branch/");
    let both = branch.zip(moved.new.zip(moved.old));
    both.is_some_and(|(branch, both)| is_replaced(repo, remote, branch, both))
}

/// Whether `theirs` is known to lack what the remote's branch had and `ours` has. What is not here
/// cannot be told; then the pull says it.
pub fn is_replaced(repo: &Repo, remote: &str, branch: &str, both: (ObjectId, ObjectId)) -> bool {
    let found = repo.replaced_commit(remote, branch, both);
    found.is_ok_and(|commit| commit.is_some())
}

/// What to run where a remote's branch was replaced.
pub fn way_past_replaced(remote: &str, branch: &str) -> String {
    let name = quoted(&format!("{remote}/{branch}"));
    format!("dmv pull --reset, to use {name} as it is; or dmv merge {name}, to keep both")
}
