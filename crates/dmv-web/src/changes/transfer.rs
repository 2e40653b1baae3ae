//! What goes to a remote and comes from one: `push`, `fetch` and `pull` by a form. They have a lane of their own, so that
//! the user can commit while much is on its way.

use super::{ChangeJob, cut, lines};
use crate::doing::Note;
use crate::program::{ShownFailure, Stop, merge_options};
use crate::words::{SHORT_ID, bytes, clean, count};
use dmv_core::hash::ObjectId;
use dmv_core::repo::{MergeReport, RefChange};
use dmv_net::ops::{
    self, Caller, FetchOptions, OpsError, PullOptions, PullOutcome, PushOptions, RefTip, Remote,
};
use dmv_net::session::Summary;

/// Sends a branch.
pub fn push(it: &ChangeJob) -> Result<Note, Stop> {
    let branch = it.post.text("branch");
    let branch = branch.ok_or(Stop::Bad("name the branch to send"))?;
    let tip = it.repo().ref_at(&format!("branch/{branch}"))?;
    let tip = tip.ok_or(Stop::Bad("there is no such branch"))?;
    let (remote, caller) = remote(it)?;
    let request = it.program().request("push").map_err(Stop::Told)?;
    let refs = vec![RefTip::branch(branch, tip)];
    let options = PushOptions::new(remote.clone(), refs, request);
    let report = ops::push(it.repo(), &options, &*caller, &it.job);
    let report = report.map_err(|e| it.of_remote(&remote, e))?;
    if let Some(told) = it.program().refused_push(it.repo(), &remote, &report) {
        return Err(Stop::Told(told));
    }
    let (branch, name) = (clean(branch), clean(&remote.name));
    let text = match report.moved.first() {
        None => format!("{name} already has all of {branch}"),
        Some(RefChange { old: Some(old), .. }) => match it.repo().distance(tip, *old) {
            Ok((n, _)) => format!("Sent {} of {branch} to {name}", commits(n)),
            Err(_) => format!("Sent {branch} to {name}"),
        },
        Some(_) => format!("Sent {branch} to {name}, where it is new"),
    };
    Ok(cut(Note {
        more: transferred(&report.summary),
        text,
        failed: false,
    }))
}

/// Asks a remote what is new, and fetches that. Branches and files here stay.
pub fn fetch(it: &ChangeJob) -> Result<Note, Stop> {
    let (remote, caller) = remote(it)?;
    let request = it.program().request("fetch").map_err(Stop::Told)?;
    let options = FetchOptions::new(remote.clone(), request);
    let report = ops::fetch(it.repo(), &options, &*caller, &it.job);
    let report = report.map_err(|e| it.of_remote(&remote, e))?;
    let name = clean(&remote.name);
    let mut more: Vec<String> = report.summary.refs.iter().filter_map(came).collect();
    let gone = report.gone.iter().map(|branch| {
        let branch = clean(branch);
        format!("{name} has deleted {branch}; its last commit is still known here")
    });
    more.extend(gone);
    let text = if more.is_empty() {
        format!("Nothing new at {name}")
    } else {
        format!("{name} has news")
    };
    more.extend(transferred(&report.summary));
    Ok(cut(Note {
        text,
        more,
        failed: false,
    }))
}

/// Gets the current branch of a remote: fetches it, and merges it as `dmv pull` does.
pub fn pull(it: &ChangeJob) -> Result<Note, Stop> {
    let head = it.repo().head()?;
    let branch = head.branch().ok_or(Stop::Bad(
        "no branch is checked out, so there is nothing to merge into",
    ))?;
    let (remote, caller) = remote(it)?;
    let message = format!("Merge '{}/{branch}' into {branch}", remote.name);
    let mut merge = merge_options(it.program(), message).map_err(Stop::Told)?;
    merge.request = it.program().request("pull").map_err(Stop::Told)?;
    let mut options = PullOptions::new(remote.clone(), branch, merge);
    options.integrate = it.program().integrate().map_err(Stop::Told)?;
    let before = it.repo().head_commit()?;
    let report = ops::pull(it.repo(), &options, &*caller, &it.job);
    let report = report.map_err(|e| it.of_remote(&remote, e))?;
    if let Some(told) = (it.program()).refused_pull(it.repo(), &options, &report) {
        return Err(Stop::Told(told));
    }
    let summary = transferred(&report.fetched.summary);
    let (merged, own) = match report.outcome.map_err(Stop::Ops)? {
        PullOutcome::Merged(merged) => (*merged, 0),
        PullOutcome::Rebased(picked) => (picked.merge, picked.made.len()),
        PullOutcome::Reset(reset) => (reset.merge, 0),
        // The program has said why.
        PullOutcome::NoBranch | PullOutcome::Refused => return Err(nothing_came()),
    };
    let mut note = got(it, &merged, before, &clean(&remote.name));
    if own > 0 {
        let own = commits(own);
        note.more
            .push(format!("Your {own} stand on top of them again."));
    }
    note.more.extend(summary);
    Ok(cut(note))
}

/// What a merge of new commits did.
fn got(it: &ChangeJob, merged: &MergeReport, before: Option<ObjectId>, remote: &str) -> Note {
    if merged.up_to_date {
        return Note {
            text: format!("Nothing new at {remote}"),
            ..Note::default()
        };
    }
    let new = before.and_then(|before| it.repo().distance(merged.commit, before).ok());
    let text = match new {
        // A merge is a commit of this repository.
        Some((n, _)) if !merged.fast_forward && n > 1 => {
            format!("Got {} from {remote}", commits(n - 1))
        }
        Some((n, _)) => format!("Got {} from {remote}", commits(n)),
        None => format!("Got new commits from {remote}"),
    };
    let mut more = Vec::new();
    if merged.files + merged.removed > 0 {
        let files = count(merged.files, "file", "files");
        more.push(format!("{files} written, {} removed.", merged.removed));
    }
    let open = (merged.conflicts.len() + merged.unseen.len()) as u64;
    if open > 0 {
        let conflicts = count(open, "conflict", "conflicts");
        more.push(format!("{conflicts} to settle: see Conflicts."));
    }
    more.extend(lines("Not written", &merged.refused));
    Note {
        failed: !merged.refused.is_empty(),
        text,
        more,
    }
}

fn nothing_came() -> Stop {
    Stop::Told(ShownFailure {
        code: "no-ref".to_owned(),
        exit: 20,
        message: "nothing was merged".to_owned(),
        hint: None,
    })
}

/// The remote that the form names, and what reaches it.
fn remote(it: &ChangeJob) -> Result<(Remote, Box<dyn Caller>), Stop> {
    let name = it.post.text("remote").unwrap_or_default();
    let caller = it.program().caller();
    let known = caller.remotes().map_err(|e| Stop::Ops(OpsError::Net(e)))?;
    let found = known.list.into_iter().find(|remote| remote.name == name);
    let remote = found.ok_or(Stop::Bad("there is no such remote"))?;
    Ok((remote, caller))
}

/// A branch of a remote that has moved.
fn came(moved: &RefChange) -> Option<String> {
    let name = clean(moved.key.strip_prefix("remote/").unwrap_or(&moved.key));
    let short = |id: ObjectId| id.short(SHORT_ID);
    match (moved.refused, moved.old, moved.new) {
        (None, Some(old), Some(new)) => {
            Some(format!("{name}: {} \u{2192} {}", short(old), short(new)))
        }
        (None, None, Some(new)) => Some(format!("{name}: new, at {}", short(new))),
        _ => None,
    }
}

fn transferred(summary: &Summary) -> Vec<String> {
    let traffic = &summary.traffic;
    let parts = [
        ("sent", traffic.bytes_sent),
        ("received", traffic.bytes_received),
    ];
    let parts = parts.iter().filter(|(_, n)| *n > 0);
    let parts: Vec<String> = parts
        .map(|(word, n)| format!("{} {word}", bytes(*n)))
        .collect();
    if parts.is_empty() {
        return Vec::new();
    }
    vec![format!("{}.", parts.join(", "))]
}

fn commits(n: usize) -> String {
    count(n as u64, "commit", "commits")
}

impl ChangeJob {
    /// The failure of a command with a remote.
    fn of_remote(&self, remote: &Remote, e: OpsError) -> Stop {
        Stop::Told(self.program().explain_remote(remote, e))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_of_a_remote_is_clean() {
        let moved = RefChange {
            key: "remote/nas/a\u{202e}b".to_owned(),
            old: None,
            new: Some(ObjectId::from_bytes([1; 32])),
            refused: None,
        };
        let told = came(&moved).expect("it has moved");
        assert!(
            !told.contains('\u{202e}') && told.contains("nas/"),
            "{told}"
        );
    }
}
