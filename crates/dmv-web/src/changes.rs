//! What forms change: commit, discard, undo, redo, resolve, restore, get, claim, release, push, fetch, pull. Each is
//! the verb of the command of this name, and leads back to a page with a note of what happened.

mod claim;
mod discard;
mod get;
mod transfer;

use crate::answer::{Answer, json, redirect};
use crate::doing::{Lane, Note, Outcome, Turn};
use crate::pages;
use crate::pages::places::place_at;
use crate::program::{Program, ShownFailure, Stop, merge_options};
use crate::rows::PickedRows;
use crate::site::{Ask, Post, Site};
use crate::stopped;
use crate::words::{SHORT_ID, clean, count, shown};
use dmv_core::hash::decode_hex;
use dmv_core::job::Job;
use dmv_core::object::commit::tidy_message;
use dmv_core::object::name::RepoPath;
use dmv_core::repo::{
    Choice, CommitOptions, CommitReport, Head, Repo, RepoError, UndoOptions, UndoWhat,
};
use dmv_core::threads;
use dmv_core::worktree::snapshot::Problem;
use dmv_net::ops;
use hyper::StatusCode;
use percent_encoding::percent_decode;
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;

/// How long a form waits for its change.
const SOON: Duration = Duration::from_millis(1500);
/// Lines that a note has below its first one.
const MAX_LINES: usize = 12;

/// The work of one form.
type Work = fn(&ChangeJob) -> Result<Note, Stop>;

/// Carries out a form. What takes longer than a moment goes on after the answer, which leads to a page about it.
pub fn change(ask: &Ask<'_>, post: &Post) -> Result<Answer, Stop> {
    let [verb] = &ask.target.segments[..] else {
        return Err(Stop::NoPage);
    };
    let verb = std::str::from_utf8(verb).map_err(|_| Stop::NoPage)?;
    if verb == "stop" {
        let lane = match post.text("of") {
            Some("transfer") => Lane::Transfers,
            _ => Lane::Files,
        };
        ask.site.lane(lane).cancel();
        return Ok(under_way(ask, lane));
    }
    let (verb, work): (_, Work) = match verb {
        "commit" => ("commit", commit),
        "discard" => ("discard", discard::discard),
        "choose-again" => ("choose-again", discard::choose_again),
        "undo" => ("undo", undo),
        "redo" => ("redo", redo),
        "resolve" => ("resolve", resolve),
        "restore" => ("restore", restore),
        "get" => ("get", get_it),
        "claim" => ("claim", claim::claim),
        "release" => ("release", claim::release),
        "push" => ("push", transfer::push),
        "fetch" => ("fetch", transfer::fetch),
        "pull" => ("pull", transfer::pull),
        _ => return Err(Stop::NoPage),
    };
    if ask.site.read_only {
        return Err(Stop::Told(ShownFailure {
            code: "read-only".to_owned(),
            exit: 12,
            message: "these pages were started with --read-only".to_owned(),
            hint: Some("dmv web".to_owned()),
        }));
    }
    let page = post.text("back").filter(|back| is_page(back));
    let page = page.unwrap_or("/");
    let Some(outcome) = begin(ask, post, verb, page, work) else {
        return Ok(under_way(ask, Lane::of(verb)));
    };
    Ok(match outcome {
        Ok(note) if ask.target.json() => json(
            StatusCode::OK,
            &json!({ "done": !note.failed, "text": note.text, "more": note.more }),
        ),
        Err((status, told)) if ask.target.json() => json(status, &told.values()),
        outcome => pages::doing::lead_back(ask.site, verb, page, outcome),
    })
}

/// Begins the work of a form on a thread of its own, and waits for it a moment. `None` if it takes longer.
fn begin(
    ask: &Ask<'_>,
    post: &Post,
    verb: &'static str,
    page: &str,
    work: Work,
) -> Option<Outcome> {
    let site = ask.site;
    let lane = site.lane(Lane::of(verb));
    let Some(turn) = Turn::begin(lane, verb, page) else {
        let what = Lane::of(verb).word();
        return Some(Err(site.told(Stop::Told(ShownFailure {
            code: "busy".to_owned(),
            exit: 11,
            message: format!("another {what} from these pages is under way"),
            hint: Some("wait until it has ended, or stop it".to_owned()),
        }))));
    };
    let number = turn.number;
    let it = ChangeJob {
        site: site.clone(),
        repo: ask.repo.clone(),
        post: post.clone(),
        job: turn.job.clone(),
    };
    let started = threads::start(move || {
        let done = work(&it);
        it.site.forget();
        let done = done.map_err(|stop| it.failed(verb, stop, turn.is_stopped()));
        turn.end(done);
    });
    match started {
        Ok(_) => lane.wait(number, SOON),
        Err(e) => Some(Err(site.told(Stop::from(RepoError::from(e))))),
    }
}

/// Leads to the page about the change under way.
fn under_way(ask: &Ask<'_>, lane: Lane) -> Answer {
    match (ask.target.json(), ask.site.lane(lane).seen()) {
        (true, Some(seen)) => json(StatusCode::ACCEPTED, &pages::doing::values(&seen)),
        (true, None) => json(StatusCode::OK, &json!({"state": "idle"})),
        (false, _) => redirect(lane.page()),
    }
}

/// Whether a text is the address of a page of ours, and of nothing else.
fn is_page(address: &str) -> bool {
    let plain = |b: u8| b.is_ascii_graphic() && b != b'\\' && b != b'#';
    address.starts_with('/') && !address.starts_with("//") && address.bytes().all(plain)
}

/// A change under way.
struct ChangeJob {
    site: Arc<Site>,
    repo: Arc<Repo>,
    post: Post,
    job: Arc<Job>,
}

impl ChangeJob {
    fn repo(&self) -> &Repo {
        &self.repo
    }

    fn program(&self) -> &dyn Program {
        &*self.site.program
    }

    /// The failure in words, and its status. An interrupted change says who interrupted it.
    fn failed(&self, verb: &str, stop: Stop, is_stopped: bool) -> (StatusCode, ShownFailure) {
        let failed = self.site.told(stop);
        if failed.1.exit != stopped::INTERRUPTED {
            return failed;
        }
        if is_stopped {
            return (StatusCode::CONFLICT, stopped::after(verb));
        }
        failed
    }

    /// Runs `work`, after fetching what it turns out to lack.
    fn supplied<T>(&self, work: impl FnMut() -> Result<T, RepoError>) -> Result<T, Stop> {
        let caller = self.program().caller();
        let supplied = ops::supplied(self.repo(), &*caller, &self.job, work);
        Ok(supplied.map_err(Stop::Ops)?.done?)
    }

    /// The field `path` as a path of the repository.
    fn path(&self) -> Result<RepoPath, Stop> {
        let path = decoded_path(&self.post).ok_or(Stop::Bad("a path is needed"))?;
        Ok(Repo::parse_path(&path)?)
    }
}

/// The field `path`, which is encoded as in addresses.
fn decoded_path(post: &Post) -> Option<Vec<u8>> {
    Some(percent_decode(post.value("path")?).collect())
}

fn commit(it: &ChangeJob) -> Result<Note, Stop> {
    let message = tidy_message(it.post.text("message").unwrap_or_default());
    let message = message.ok_or(Stop::Bad("a commit needs a message"))?;
    let picked = PickedRows::of_form(&it.post);
    let picked = picked.ok_or(Stop::Bad("choose the files to commit"))?;
    if picked.is_empty() {
        return Err(Stop::Bad("no file is checked: check those to commit"));
    }
    let told = Stop::Told;
    it.program()
        .before_commit(it.repo(), &message)
        .map_err(told)?;
    let options = CommitOptions {
        select: &picked,
        settings: it.program().settings().map_err(told)?,
        ..CommitOptions::new(
            message,
            it.program().who().map_err(told)?,
            it.program().request("commit").map_err(told)?,
        )
    };
    let report = it.repo().commit(options, &it.job)?;
    if let Some(id) = report.commit {
        it.program()
            .after_commit(it.repo(), report.head.branch(), id);
    }
    let mut note = committed(&report);
    if report.moved.is_some() {
        let name = report.head.branch().unwrap_or_default();
        let message = format!("Merge new commits on {name}");
        let options = merge_options(it.program(), message).map_err(told)?;
        match it.supplied(|| it.repo().merge_moved(&options, &it.job)) {
            Ok(Some(merged)) if !merged.conflicts.is_empty() => {
                let conflicts = merged.conflicts.len() as u64;
                let conflicts = count(conflicts, "conflict", "conflicts");
                note.more.push(format!(
                    "Merged with the new commits on the branch; {conflicts} to resolve."
                ));
            }
            Ok(Some(_)) => note
                .more
                .push("Merged with the new commits on the branch.".to_owned()),
            Ok(None) => note
                .more
                .push("Another command moved the branch.".to_owned()),
            Err(stop) => {
                let told = it.site.told(stop).1;
                let why = match told.exit {
                    stopped::INTERRUPTED => "it was stopped".to_owned(),
                    _ => told.message,
                };
                note.failed = true;
                note.more.push(format!(
                    "Another command moved the branch. Your commit is stored, but not merged with it yet: {why}."
                ));
                note.more.push("To do: dmv commit, to merge".to_owned());
            }
        }
    }
    Ok(note)
}

/// What a commit did, as its command tells it.
fn committed(report: &CommitReport) -> Note {
    let text = match &report.commit {
        Some(id) => {
            let on = match &report.head {
                Head::Branch(name) => format!("on {}", clean(name)),
                Head::Commit(_) => "on no branch".to_owned(),
            };
            let files = count(report.files, "file", "files");
            format!("Committed {} {on}: {files} changed", id.short(SHORT_ID))
        }
        None => "Nothing to commit".to_owned(),
    };
    let mut more: Vec<String> = lines("Not committed", &report.problems);
    more.extend(lines("Not committed", &report.warnings));
    let open = report.conflicts.len() as u64;
    if open > 0 {
        let are = count(open, "conflict is", "conflicts are");
        more.push(format!("{are} unresolved."));
    }
    for left in &report.marked {
        more.push(format!("Not committed: {} is in conflict", left.path));
    }
    for path in &report.outside {
        let path = shown(path);
        more.push(format!(
            "Not committed: {path}: it is outside of the worktree's subset"
        ));
    }
    let failed = report.commit.is_none() && !more.is_empty();
    cut(Note { failed, text, more })
}

fn lines(what: &str, problems: &[Problem]) -> Vec<String> {
    let line = |p: &Problem| format!("{what}: {}: {}", shown(&p.path), p.why);
    problems.iter().map(line).collect()
}

/// Leaves lines out where there are many, and says so.
fn cut(mut note: Note) -> Note {
    let more = note.more.len().saturating_sub(MAX_LINES);
    if more > 0 {
        note.more.truncate(MAX_LINES);
        note.more.push(format!("and {more} more"));
    }
    note
}

/// Undoes the operation that the form has shown, and nothing else.
fn undo(it: &ChangeJob) -> Result<Note, Stop> {
    let shown = it.post.text("operation").and_then(decode_hex);
    let shown = shown.and_then(|id| id.try_into().ok());
    let shown = shown.ok_or(Stop::Bad("an undo names the operation that it undoes"))?;
    take_back(it, UndoWhat::LastIf(shown), "undo")
}

fn redo(it: &ChangeJob) -> Result<Note, Stop> {
    take_back(it, UndoWhat::LastUndo, "redo")
}

fn take_back(it: &ChangeJob, what: UndoWhat, command: &str) -> Result<Note, Stop> {
    let options = UndoOptions {
        what,
        settings: it.program().settings().map_err(Stop::Told)?,
        request: it.program().request(command).map_err(Stop::Told)?,
    };
    let report = it.supplied(|| it.repo().undo(&options, &it.job))?;
    let text = match &report.again {
        Some(command) => format!("Redone: {}", clean(command)),
        None => format!("Undone: {}", clean(&report.undone.command)),
    };
    let mut more = Vec::new();
    if report.kept_files {
        more.push("Your files are unchanged; what differs is uncommitted.".to_owned());
    }
    if report.files + report.removed > 0 {
        let files = count(report.files, "file", "files");
        more.push(format!("{files} written, {} removed.", report.removed));
    }
    more.extend(lines("Not restored", &report.refused));
    let failed = !report.refused.is_empty();
    Ok(cut(Note { failed, text, more }))
}

fn resolve(it: &ChangeJob) -> Result<Note, Stop> {
    let path = it.path()?;
    let (choice, word) = match it.post.text("choice") {
        Some("ours") => (Choice::Ours, "ours"),
        Some("theirs") => (Choice::Theirs, "theirs"),
        Some("base") => (Choice::Base, "base"),
        Some("both") => (Choice::Both, "both"),
        _ => return Err(Stop::Bad("choose ours, theirs, base or both")),
    };
    let paths = [path.clone()];
    let report = match it.repo().worktree_root() {
        Some(_) => {
            let settings = it.program().settings().map_err(Stop::Told)?;
            let request = it.program().request("resolve").map_err(Stop::Told)?;
            it.supplied(|| {
                let request = request.clone();
                it.repo()
                    .resolve_conflicts(&paths, &choice, &settings, request, &it.job)
            })?
        }
        None => {
            let message = format!("Resolve {path}: {word}");
            let options = merge_options(it.program(), message).map_err(Stop::Told)?;
            let resolved = || {
                it.repo()
                    .resolve_in_commit(&paths, &choice, &options, &it.job)
            };
            it.supplied(resolved)?.0
        }
    };
    let mut more = match report.open.len() as u64 {
        0 if it.repo().worktree_root().is_some() => {
            vec!["No conflicts left. A commit records the resolution.".to_owned()]
        }
        0 => vec!["No conflicts left.".to_owned()],
        n => vec![format!("{} left.", count(n, "conflict", "conflicts"))],
    };
    more.extend(lines("Not written", &report.refused));
    more.extend(lines("Kept", &report.kept));
    Ok(cut(Note {
        failed: !report.refused.is_empty(),
        text: format!("Resolved {path}: {word}"),
        more,
    }))
}

fn restore(it: &ChangeJob) -> Result<Note, Stop> {
    let revision = it
        .post
        .text("revision")
        .ok_or(Stop::Bad("a revision is needed"))?;
    let from = it.repo().resolve(revision)?;
    let path = it.path()?;
    let settings = it.program().settings().map_err(Stop::Told)?;
    let request = it.program().request("restore").map_err(Stop::Told)?;
    let paths = [path.clone()];
    let report = it.supplied(|| {
        let request = request.clone();
        it.repo()
            .restore(Some(from), &paths, &settings, request, &it.job)
    })?;
    let mut more = lines("Not restored", &report.refused);
    if report.overwritten.files > 0 {
        more.push(if report.overwritten.kept {
            "It overwrote uncommitted changes; undo brings them back.".to_owned()
        } else {
            "It overwrote uncommitted changes that were too large to keep.".to_owned()
        });
    }
    let id = from.short(SHORT_ID);
    let text = match report.files {
        0 if report.refused.is_empty() => format!("{path} is already as in {id}"),
        0 => format!("{path} was not restored from {id}"),
        _ => format!("Restored {path} from {id}. It is uncommitted until you commit."),
    };
    Ok(cut(Note {
        failed: !report.refused.is_empty(),
        text,
        more,
    }))
}

fn get_it(it: &ChangeJob) -> Result<Note, Stop> {
    let revision = it.post.text("revision").unwrap_or("@");
    let path = decoded_path(&it.post).unwrap_or_default();
    let place = place_at(&it.repo, revision, &path)?;
    let (site, repo) = (&it.site, it.repo.clone());
    let text = get::start(site, repo, place.path, place.located).map_err(Stop::Told)?;
    Ok(Note {
        text,
        ..Note::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_form_leads_to_pages_of_ours_only() {
        for fits in ["/", "/file/main/a%20b", "/log?from=1"] {
            assert!(is_page(fits), "{fits}");
        }
        for not in [
            "",
            "//evil.example",
            "http://x",
            "/\\evil",
            "/a\r\nSet-Cookie: x",
            "/a#b",
        ] {
            assert!(!is_page(not), "{not}");
        }
    }
}
