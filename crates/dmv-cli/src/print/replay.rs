//! What a cherry-pick or rebase did.

use crate::prelude::*;
use crate::print::merge::{merge_value, tell_merge};
use crate::print::signatures;
use dmv_core::repo::{PickReport, ReplayedCommit};

/// Prints what a cherry-pick or rebase did. `done`: what it came to, in words. Returns the exit code.
pub fn print_replay(
    context: &Context,
    repo: &Repo,
    report: &PickReport,
    done: &str,
) -> Result<u8, Failure> {
    if context.ui.is_json() {
        context.ui.json(&replay_value(repo, report)?)?;
    }
    tell_replay(context, repo, report, done)
}

/// What a cherry-pick or rebase did, in JSON.
pub fn replay_value(repo: &Repo, report: &PickReport) -> Result<Json, Failure> {
    let made = report.made.iter();
    let made = made.map(|one| object! { commit: one.commit, from: one.from });
    let mut value = merge_value(&report.merge);
    value.add("commits", Json::List(made.collect()));
    value.add("dropped", &report.dropped);
    value.add("unsigned", lost(repo, report)?);
    Ok(value.sorted())
}

/// The commits whose signatures the commits made from them do not have.
fn lost(repo: &Repo, report: &PickReport) -> Result<Vec<ObjectId>, Failure> {
    let mut lost = Vec::new();
    for one in &report.made {
        if repo.loses_signature(&one.from, &one.commit)? {
            lost.push(one.from);
        }
    }
    Ok(lost)
}

/// Prints as text what a cherry-pick or rebase did. Returns the exit code.
pub fn tell_replay(
    context: &Context,
    repo: &Repo,
    report: &PickReport,
    done: &str,
) -> Result<u8, Failure> {
    context.ui.text(|out| {
        let has = match &report.merge.head {
            Head::Branch(name) => clean(name),
            Head::Commit(_) => "the new base".to_owned(),
        };
        for id in &report.dropped {
            let message = repo.read_commit(id)?.message;
            let (id, subject) = (id.short(SHORT_ID), clean(subject(&message)));
            writeln!(
                out,
                "left out {id} {subject} ({has} already has this change)"
            )?;
        }
        Ok(())
    })?;
    signatures::tell_lost(context, &lost(repo, report)?);
    tell_merge(context, &report.merge, done)
}

/// What a rebase came to, in words.
pub fn rebase_word(report: &PickReport) -> String {
    let is_new = |one: &&ReplayedCommit| one.from != one.commit;
    match (report.merge.up_to_date, report.merge.fast_forward) {
        (true, _) => "already up to date".to_owned(),
        (_, true) => "fast-forward".to_owned(),
        _ => {
            let new = report.made.iter().filter(is_new).count();
            format!("rebased {}", count(new as u64, "commit", "commits"))
        }
    }
}

/// The failure for an option that continues or aborts a command, as in Git.
pub fn never_stops(verb: &str) -> Failure {
    let message = format!("a {verb} always completes: there is nothing to continue or abort");
    Failure::usage(message).hint("dmv undo, to take it back; dmv conflicts, to see its conflicts")
}
