//! The user's files: what has changed since the newest commit, with forms to commit and discard. It stands on
//! the overview, and alone at `/worktree` for its script and for browsers without one.

use super::claims::WorkMarks;
use super::layout::{self, Part};
use super::parts::{path_value, secret, thumb, thumb_of};
use super::places::{CommitPath, link_id, place_at};
use super::undo::LastChange;
use crate::address::link;
use crate::answer::{Answer, page};
use crate::looking::{Look, WorktreeState};
use crate::ondisk;
use crate::program::Stop;
use crate::rows::{ChangeRow, ChangeRows, RowKey, each_file};
use crate::site::Ask;
use crate::words::{bytes, clean, count, number, shown};
use dmv_core::object::name::RepoPath;
use dmv_core::repo::{ChangeKind, StatusReport};
use dmv_core::worktree::select::Paths;
use hyper::StatusCode;
use maud::{Markup, html};
use serde_json::{Value, json};
use std::time::Duration;

/// Rows of changed files that are listed.
const MAX_ROWS: usize = 200;
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

/// The state of the files.
pub struct Files {
    look: Option<Look>,
    state: Option<WorktreeState>,
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
            state: None,
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
            files.state = Some(found?);
        }
        Ok(files)
    }
}

impl Files {
    /// The values of `status`.
    pub fn values(&self) -> Value {
        json!(self.state.as_ref().map(status_value))
    }

    /// The section. If the state takes longer, its place: it has the size that the section will have.
    pub fn section(&self, ask: &Ask<'_>) -> Markup {
        match (&self.state, &self.look) {
            (Some(state), _) => card(ask, state),
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
}

fn card(ask: &Ask<'_>, state: &WorktreeState) -> Markup {
    let status = &state.status;
    let open = status.conflicts.len() as u64;
    let rows = ChangeRows::of(&status.changes, &state.renames, MAX_ROWS);
    let files = rows.files as u64;
    html! {
        section.card.wide.work aria-labelledby="work" {
            h2 #work { "Your files" }
            @if let Some(cut) = &status.unfinished {
                p.note.bad {
                    "A change of your files was interrupted: it has reached some of them. Nothing is lost. To continue: "
                    code { (clean(&cut.command)) }
                    @if let Some(back) = status.way_back() { ". To go back: " code { (back) } }
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
            @if files == 0 && open == 0 && status.commit.is_none() {
                p.empty { "There are no files and no commits yet. Put files into this directory; then commit them here." }
            } @else if files == 0 && open == 0 {
                p.empty { "Nothing has changed since the newest commit." }
            } @else if files > 0 {
                (changed(ask, status, &rows))
            }
        }
    }
}

/// The files that have changed, with the form that commits them or some of them.
fn changed(ask: &Ask<'_>, status: &StatusReport, rows: &ChangeRows<'_>) -> Markup {
    let may_change = !ask.site.read_only;
    let may_discard = may_change && status.commit.is_some();
    html! {
        div.bar {
            p { (count(rows.files as u64, "file has", "files have")) " changed since the newest commit." }
            @if may_change && rows.shown.len() > 1 {
                div.tools hidden data-picks {
                    button type="button" data-pick="all" { "Check all" }
                    button type="button" data-pick="none" { "Check none" }
                }
            }
        }
        (change_list(ask, status, rows, may_discard))
        @if may_discard {
            p.quiet.small {
                "Discard puts a file back as it is in the newest commit; a new file is removed. Undo brings back what you had."
            }
            // Each button of a row belongs to this form, so that the Enter key in the other one never discards.
            form #discard method="post" action="/discard" {
                (secret(ask.site, "/"))
                input type="hidden" name="shown" value=(rows.field());
            }
        }
        @if may_change {
            form.commit #commit method="post" action="/commit" data-files=(rows.files) {
                (secret(ask.site, "/"))
                input type="hidden" name="shown" value=(rows.field());
                @if rows.rest > 0 { input type="hidden" name="has_rest" value="yes"; }
                label for="message" { "What did you change?" }
                textarea #message name="message" rows="2" required maxlength="20000" {}
                button.primary type="submit" { "Commit" }
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
    let last = LastChange::read(ask)?;
    let values = || json!({ "status": files.values(), "undo": last.values() });
    let main = || {
        html! {
            h1 { "Your files" }
            @if ask.repo.worktree_root().is_none() {
                p.empty { "This repository has no worktree." }
            }
            div.stack {
                (files.section(ask))
                (last.card(ask))
            }
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

fn change_list(
    ask: &Ask<'_>,
    status: &StatusReport,
    rows: &ChangeRows<'_>,
    may_discard: bool,
) -> Markup {
    let paths = |row: &ChangeRow<'_>| -> Vec<RepoPath> {
        let changes = row.changes.iter();
        changes.map(|change| change.path.clone()).collect()
    };
    let listed = rows.shown.iter().flat_map(&paths);
    let listed = Paths::new(listed);
    let marks = WorkMarks::read(ask, status.commit, &listed);
    html! {
        ul.changes.rich.picks tabindex="0" aria-label="Changed files" {
            @for (n, row) in rows.shown.iter().enumerate() {
                @let name = name_of(row);
                li {
                    @if !ask.site.read_only {
                        input type="checkbox" form="commit" name="n" value=(n) checked
                            data-count=(row.changes.len()) aria-label={ "Commit " (name) };
                    }
                    (linked(ask, status, row, &name))
                    (size_now(ask, row))
                    span.tag.(word_of(row)) { (word_of(row)) }
                    (marks.of_all(ask, paths(row).iter()).tags())
                    @if may_discard {
                        button.slim type="submit" form="discard" name="row" value=(n) aria-label={ "Discard " (name) } { "Discard" }
                    }
                }
            }
            @if rows.rest > 0 {
                li.quiet {
                    label {
                        @if !ask.site.read_only {
                            input type="checkbox" form="commit" name="rest" value="yes" checked data-count=(rows.rest);
                            " "
                        }
                        "and " (number(rows.rest as u64)) " more"
                    }
                }
            }
        }
    }
}

/// The name of a row: a path, or the pattern of frames and their numbers.
fn name_of(row: &ChangeRow<'_>) -> String {
    match (&row.key, row.span()) {
        (RowKey::Frames(frames), Some((first, last))) => format!(
            "{}####{} {first}\u{2013}{last}",
            shown(&frames.stem),
            shown(&frames.tail)
        ),
        (RowKey::Moved { from, to }, _) => format!("{} \u{2192} {}", shown(from), shown(to)),
        _ => row
            .changes
            .first()
            .map(|c| shown(&c.path))
            .unwrap_or_default(),
    }
}

/// What has happened to the files of a row, in a word.
fn word_of(row: &ChangeRow<'_>) -> &'static str {
    let mut words = row.changes.iter().map(|change| change.kind.word());
    let first = words.next().unwrap_or_default();
    match row.rename {
        Some(_) => "renamed",
        None if words.all(|word| word == first) => first,
        None => "changed",
    }
}

/// A small picture and the name of a row, as a link to where it can be looked at. The first file stands for frames.
fn linked(ask: &Ask<'_>, status: &StatusReport, row: &ChangeRow<'_>, name: &str) -> Markup {
    let Some(change) = row.changes.first() else {
        return html! {};
    };
    let commit = status.commit.map(|id| link_id(&id));
    let path = change.path.as_bytes();
    let size = ondisk::size_of(&ask.repo, &change.path);
    let to = match (&commit, change.kind, size) {
        (Some(id), ChangeKind::Modified, Some(_)) => Some(ondisk::compare_link(id, path)),
        (_, _, Some(_)) => Some(link("file", ondisk::REVISION, path)),
        (Some(id), kind, None) if kind != ChangeKind::Added => Some(link("file", id, path)),
        _ => None,
    };
    let picture = match (size, &commit) {
        (Some(_), _) => thumb_of(ask, ondisk::REVISION, path, size),
        (None, Some(id)) => {
            let before = place_at(&ask.repo, id, path).ok();
            let before = before.as_ref().and_then(CommitPath::entry);
            match before {
                Some(entry) => thumb(ask, id, path, entry),
                None => thumb_of(ask, id, path, None),
            }
        }
        (None, None) => thumb_of(ask, "", path, None),
    };
    html! {
        @match to {
            Some(to) => { a.name href=(to) { (picture) span { (name) } } }
            None => { span.name { (picture) span { (name) } } }
        }
    }
}

/// The bytes of a file, or the number of frames.
fn size_now(ask: &Ask<'_>, row: &ChangeRow<'_>) -> Markup {
    let size = match &row.changes[..] {
        [change] => ondisk::size_of(&ask.repo, &change.path).map(bytes),
        changes => Some(count(changes.len() as u64, "file", "files")),
    };
    html! { @if let Some(size) = size { span.quiet { (size) } } }
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

fn status_value(state: &WorktreeState) -> Value {
    let status = &state.status;
    let change = |row: &ChangeRow<'_>| {
        let path = row.changes.first().map(|change| path_value(&change.path));
        let mut out = path.unwrap_or_default();
        out.insert("change".to_owned(), json!(word_of(row)));
        if let Some(rename) = row.rename {
            let from = String::from_utf8_lossy(rename.from.as_bytes());
            out.insert("from".to_owned(), json!(from));
            out.insert("similarity".to_owned(), json!(rename.percent));
        }
        Value::Object(out)
    };
    let files = each_file(&status.changes, &state.renames);
    let changes: Vec<Value> = files.iter().map(change).collect();
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
            "go_back": status.way_back().map(|back| back.to_string()),
        })),
    })
}
