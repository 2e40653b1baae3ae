//! What a pull does and why it refuses, also for the pages of `dmv web`.

use crate::prelude::*;
use crate::print::replaced_branches::way_past_replaced;
use dmv_core::history::is_ancestor;
use dmv_net::ops::{Integrate, PullOptions, PullOutcome, PullReport};

/// Commits that are named one by one.
const MAX_NAMED: usize = 5;

/// The failure of a pull that has changed no branch, if it has not.
pub fn refused(repo: &Repo, options: &PullOptions, done: &PullReport) -> Option<Failure> {
    let (remote, branch) = (&options.remote.name, &options.branch);
    match done.outcome {
        Ok(PullOutcome::NoBranch) => {
            let message = format!("{remote} has no branch '{branch}'");
            Some(Failure::new("no-ref", EXIT_OTHER, message).hint("dmv push"))
        }
        Ok(PullOutcome::Refused) => {
            let why = rewritten(repo, options, done).unwrap_or_default();
            let message = format!("{why}; nothing was merged");
            let failure = Failure::new("remote-replaced", EXIT_REFUSED, message);
            Some(failure.hint(way_past_replaced(remote, branch)))
        }
        _ => None,
    }
}

/// What is said of a remote's branch that no longer has a commit that it had.
pub fn rewritten(repo: &Repo, options: &PullOptions, done: &PullReport) -> Option<String> {
    let (remote, branch) = (&options.remote.name, &options.branch);
    let old = done.rewritten?;
    let what = if went_back(repo, options.remote.recorded(), branch, &old) {
        "went back to an earlier commit"
    } else {
        "was rewritten"
    };
    let old = old.short(SHORT_ID);
    Some(format!(
        "{remote}/{branch} {what}: it no longer has commit {old}, which your branch {branch} has"
    ))
}

/// How a pull without options integrates what it has fetched.
pub fn default_integrate(context: &Context) -> Result<Integrate, Failure> {
    Ok(if context.config()?.is_set("pull.rebase")? {
        Integrate::Rebase
    } else {
        Integrate::Merge
    })
}

/// Whether a remote's branch lacks a commit because a push was undone there: it has nothing new.
fn went_back(repo: &Repo, remote: &str, branch: &str, old: &ObjectId) -> bool {
    let now = repo.ref_at(&format!("remote/{remote}/{branch}"));
    let is_before = |now| is_ancestor(repo.objects(), &now, old).unwrap_or(false);
    now.ok().flatten().is_some_and(is_before)
}

/// Names the commits that are no longer on the branch, and says how to get them back.
pub fn tell_left(context: &Context, repo: &Repo, left: &[ObjectId]) -> Result<(), Failure> {
    let Some(newest) = left.first() else {
        return Ok(());
    };
    let ui = &context.ui;
    let n = left.len();
    let are = count(n as u64, "commit is", "commits are");
    ui.note(format_args!("{are} no longer on the branch:"));
    for id in left.iter().take(MAX_NAMED) {
        let message = repo.read_commit(id)?.message;
        ui.note(format_args!(
            "  {} {}",
            id.short(SHORT_ID),
            subject(&message)
        ));
    }
    if n > MAX_NAMED {
        ui.note(format_args!("  and {} more", n - MAX_NAMED));
    }
    ui.note(hint!(
        "to restore them: dmv undo; to keep them on another branch: dmv branch NAME {}",
        Argument::value(newest.short(SHORT_ID))
    ));
    Ok(())
}
