//! What a push has not done, and why, also for the pages of `dmv web`.

use crate::ownership::path_argument;
#[cfg(feature = "web")]
use crate::peers::closed;
use crate::prelude::*;
use crate::print::replaced_branches::{is_replaced, way_past_replaced};
use crate::traffic::{Report, done_to, name};
use dmv_core::repo::{RefChange, Refusal};
#[cfg(feature = "web")]
use dmv_net::ops::PushReport;
use dmv_net::ops::Remote;
use dmv_net::transport::Url;

/// What helps where --create creates nothing.
pub const NOT_CREATED: &str =
    "run the same command again when the directory above it exists and it is missing or empty";

/// The failure for what a push has not done, if there is something; for a page, which prints nothing else.
#[cfg(feature = "web")]
pub fn refused(repo: &Repo, to: &Remote, done: &PushReport) -> Option<Failure> {
    let mut report = Report::default();
    report.closed = (!done.may_push).then(|| closed(&to.url, done.read_only));
    report.add(done.summary.clone(), done.moved.clone());
    report.held.clone_from(&done.held);
    refusal(repo, &report, to).err()
}

/// The failure for refs that the other side did not move.
pub fn refusal(repo: &Repo, report: &Report, to: &Remote) -> Result<(), Failure> {
    let remote = &to.name[..];
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
        Refusal::Held => "held",
        Refusal::BadName => "refused",
        _ => "not-forward",
    };
    let failure = match (&report.closed, why) {
        (Some(closed), Refusal::BadName) => Failure::new("not-allowed", closed.exit, message),
        _ => Failure::new(code, EXIT_REFUSED, message),
    };
    Err(match (why, first.new) {
        (Refusal::BadName, _) => failure,
        (Refusal::InUse, _) => failure.hint(way_off_branch(&to.url)),
        (Refusal::Held, _) => failure.hint(match report.claim_on(first) {
            Some(claim) => {
                let path = path_argument(claim.claim.path.as_bytes());
                hint!("ask them, or: dmv claim --take {}", path)
            }
            None => "dmv claims --refresh, then: dmv claim --take PATH".into(),
        }),
        (Refusal::NotForward, None) => {
            let (remote, name) = (Argument::value(remote), Argument::value(name));
            failure.hint(hint!("dmv push {} --force --delete {}", remote, name))
        }
        (Refusal::NotForward, _) if first.key.starts_with("tag/") => {
            let (remote, tag) = (Argument::value(remote), Argument::value(name));
            failure.hint(hint!(
                "dmv push {} {} --force, to replace it there; or dmv tag -d {}, then dmv fetch {}",
                remote,
                tag,
                tag,
                remote
            ))
        }
        (Refusal::Moved, None) => failure.hint(hint!("dmv fetch {}", Argument::value(remote))),
        _ => failure.hint(if was_replaced(repo, remote, first) {
            way_past_replaced(remote, name)
        } else {
            hint!("dmv pull {}", Argument::value(remote))
        }),
    })
}

/// The command that puts the remote repository on another branch.
fn way_off_branch(url: &Url) -> Hint {
    let command = match url {
        Url::Path(path) => {
            let path = Argument::on_disk(path);
            hint!("dmv -C {} checkout BRANCH", path)
        }
        _ => "dmv checkout BRANCH, run in the remote repository".into(),
    };
    hint!(
        "{}, to put it on another branch; then run the same command again",
        command
    )
}

/// Whether the other side's branch is known not to go on from what it was: a pull would refuse.
fn was_replaced(repo: &Repo, remote: &str, moved: &RefChange) -> bool {
    let branch = moved.key.strip_prefix("branch/");
    let (Some(branch), Some(ours), Some(theirs)) = (branch, moved.new, moved.old) else {
        return false;
    };
    is_replaced(repo, remote, branch, ours, theirs)
}
