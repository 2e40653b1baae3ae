//! The user's files: what has changed since the newest commit, with forms to commit and undo. It stands on
//! the overview, and alone at `/worktree` for its script and for browsers without one.

use super::layout::{self, Part};
use super::parts::{path_value, secret};
use super::places::link_id;
use crate::address::link;
use crate::answer::{Answer, page};
use crate::looking::Look;
use crate::ondisk;
use crate::program::Stop;
use crate::site::Ask;
use crate::words::{SHORT_ID, bytes, clean, count, number, shown};
use dmv_core::escape::Argument;
use dmv_core::hash::encode_hex;
use dmv_core::hint;
use dmv_core::object::name::RepoPath;
use dmv_core::refs::Operation;
use dmv_core::repo::{ChangeKind, Head, PathChange, StatusReport};
use hyper::StatusCode;
use maud::{Markup, html};
use serde_json::{Value, json};
use std::time::Duration;

/// Changed files that are listed.
const MAX_CHANGES: usize = 200;
/// Problems that are listed.
const MAX_PROBLEMS: usize = 5;
/// Bytes that are read before a page says how many.
const MUCH: u64 = 64 << 20;
/// How long the overview waits for the state of the files before it is sent without it.
const SOON: Duration = Duration::from_millis(80);
/// How long a script waits for it, before it learns how far it is and asks again.
const SOME_TIME: Duration = Duration::from_secs(5);
/// How long a program waits for it, which has no script that asks again.
const LONG: Duration = Duration::from_secs(600);

/// The state of the files, and what an undo would take back.
pub struct Files {
    look: Option<Look>,
    status: Option<StatusReport>,
    last: Option<Operation>,
}

/// A look at the files that has begun.
pub struct OpenLook(Option<Look>);

impl Files {
    /// Begins to look at the files, unless the address names a look that has begun before.
    pub fn begin(ask: &Ask<'_>) -> Result<OpenLook, Stop> {
        if ask.repo.worktree_root().is_none() {
            return Ok(OpenLook(None));
        }
        let asked = ask.target.text("look").and_then(|n| n.parse().ok());
        Ok(OpenLook(Some(
            match asked.and_then(|number| ask.site.looking.find(number)) {
                Some(known) => known,
                None => ask.site.looking.begin(&ask.repo, &*ask.site.program)?,
            },
        )))
    }
}

impl OpenLook {
    /// Waits a moment for the overview, longer for a page of its own, and for programs until the end.
    pub fn finish(self, ask: &Ask<'_>) -> Result<Files, Stop> {
        let mut files = Files {
            look: self.0,
            status: None,
            last: None,
        };
        let Some(look) = &files.look else {
            return Ok(files);
        };
        let most = match ask.target.segments.is_empty() {
            _ if ask.target.json() => LONG,
            true => SOON,
            false => SOME_TIME,
        };
        if let Some(found) = look.wait(most) {
            ask.site.looking.told(look.number);
            files.status = Some(found?);
            files.last = ask.repo.next_to_undo()?;
        }
        Ok(files)
    }
}

impl Files {
    /// The values of `status` and `undo`.
    pub fn values(&self) -> (Value, Value) {
        let undo = self
            .last
            .as_ref()
            .map(|op| json!({ "operation": encode_hex(&op.id), "command": op.command }));
        (json!(self.status.as_ref().map(status_value)), json!(undo))
    }

    /// The section. If the state takes longer, its place: it has the size that the section will have.
    pub fn section(&self, ask: &Ask<'_>) -> Markup {
        match (&self.status, &self.look) {
            (Some(status), _) => self.card(ask, status),
            (None, Some(look)) => html! {
                section.card.wide.work.late aria-labelledby="work" data-load={ "/worktree?part&look=" (look.number) } {
                    h2 #work { "Your files" }
                    p.empty role="status" {
                        "Comparing your files with the newest commit\u{2026}"
                        @if look.bytes() >= MUCH { " " (bytes(look.bytes())) " read." }
                    }
                    p.unscripted { a href="/worktree" { "Show what has changed" } }
                }
            },
            (None, None) => html! {},
        }
    }

    fn card(&self, ask: &Ask<'_>, status: &StatusReport) -> Markup {
        let open = status.conflicts.len() as u64;
        let changes = status.changes.len() as u64;
        html! {
            section.card.wide.work aria-labelledby="work" {
                h2 #work { "Your files" }
                @if let Some(cut) = &status.unfinished {
                    p.note.bad {
                        "A change of your files was interrupted: some are from another commit. Nothing is lost. To continue: "
                        code { (clean(&cut.command)) } ". To go back: " code { (go_back(&status.head)) }
                    }
                }
                @if status.moved.is_some() {
                    p.note { "Another command moved this branch; your files come from an older commit." }
                }
                @if open > 0 {
                    p.note.bad {
                        (count(open, "file is", "files are")) " in conflict. "
                        a href="/conflicts" { "Resolve" }
                    }
                }
                (problems(status))
                @if changes == 0 && open == 0 && status.commit.is_none() {
                    p.empty { "There are no files and no commits yet. Put files into this directory; then commit them here." }
                } @else if changes == 0 && open == 0 {
                    p.empty { "Nothing has changed since the newest commit." }
                } @else if changes > 0 {
                    p { (count(changes, "file has", "files have")) " changed since the newest commit." }
                    (change_list(status))
                }
                @if !ask.site.read_only { (self.forms(ask, changes > 0)) }
            }
        }
    }

    fn forms(&self, ask: &Ask<'_>, has_changes: bool) -> Markup {
        html! {
            @if has_changes {
                form.commit method="post" action="/commit" {
                    (secret(ask.site, "/"))
                    label for="message" { "What did you change?" }
                    textarea #message name="message" rows="2" required maxlength="20000" {}
                    button.primary type="submit" { "Commit" }
                }
            }
            @if let Some(op) = &self.last {
                form.undo method="post" action="/undo" {
                    (secret(ask.site, "/"))
                    input type="hidden" name="operation" value=(encode_hex(&op.id));
                    button type="submit" { "Undo" }
                    span.quiet { " the last change: " code { (clean(&op.command)) } }
                }
            }
        }
    }
}

/// Shows the section alone: `?part` without a page around it, for the script.
pub fn show(ask: &Ask<'_>) -> Result<Answer, Stop> {
    let files = Files::begin(ask)?.finish(ask)?;
    if ask.target.value("part").is_some() && !ask.target.json() {
        return Ok(page(StatusCode::OK, files.section(ask)));
    }
    let values = || {
        let (status, undo) = files.values();
        json!({ "status": status, "undo": undo })
    };
    let main = || {
        html! {
            h1 { "Your files" }
            @if ask.repo.worktree_root().is_none() {
                p.empty { "This repository has no worktree." }
            }
            (files.section(ask))
        }
    };
    Ok(layout::answer(
        ask,
        Part::Overview,
        "Your files",
        values,
        main,
    ))
}

fn change_list(status: &StatusReport) -> Markup {
    let id = status.commit.map(|id| link_id(&id));
    let more = status.changes.len().saturating_sub(MAX_CHANGES) as u64;
    html! {
        ul.changes tabindex="0" aria-label="Changed files" {
            @for change in status.changes.iter().take(MAX_CHANGES) {
                li {
                    span.tag.(change.kind.word()) { (change.kind.word()) }
                    @match (&id, change.kind) {
                        (Some(id), ChangeKind::Modified) => {
                            a href=(ondisk::compare_link(id, &change.path)) { (shown(&change.path)) }
                        }
                        (Some(id), kind) if kind != ChangeKind::Added => {
                            a href=(link("file", id, &change.path)) { (shown(&change.path)) }
                        }
                        _ => { span { (shown(&change.path)) } }
                    }
                }
            }
            @if more > 0 { li.quiet { "and " (number(more)) " more" } }
        }
    }
}

/// What could not be examined: a command says it, too.
fn problems(status: &StatusReport) -> Markup {
    let all = || status.problems.iter().chain(&status.warnings);
    let more = all().count().saturating_sub(MAX_PROBLEMS);
    html! {
        @if all().next().is_some() {
            div.note.bad {
                @for problem in all().take(MAX_PROBLEMS) {
                    p { (shown(&problem.path)) ": " (clean(&problem.why)) }
                }
                @if more > 0 { p { "and " (more) " more" } }
            }
        }
    }
}

/// The command that puts the files back as they were before a change was interrupted.
fn go_back(head: &Head) -> String {
    let to = match head {
        Head::Branch(name) => Argument::value(name),
        Head::Commit(id) => Argument::value(id.short(SHORT_ID)),
    };
    hint!("dmv checkout {}", to).to_string()
}

fn status_value(status: &StatusReport) -> Value {
    let change = |change: &PathChange| {
        let mut out = path_value(&change.path);
        out.insert("change".to_owned(), json!(change.kind.word()));
        Value::Object(out)
    };
    let changes: Vec<Value> = status.changes.iter().map(change).collect();
    let paths = |paths: &[RepoPath]| -> Vec<Value> {
        let values = paths.iter().map(|path| Value::Object(path_value(path)));
        values.collect()
    };
    json!({
        "changes": changes,
        "conflicts": paths(&status.conflicts),
        "settled": paths(&status.settled),
        "moved": status.moved.is_some(),
        "unfinished": status.unfinished.as_ref().map(|cut| json!({
            "go_on": cut.command,
            "go_back": go_back(&status.head),
        })),
    })
}
