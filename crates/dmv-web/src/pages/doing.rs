//! A change that takes longer than a moment: how far it is, and a button that stops it. When it has ended, the page
//! leads to the one that its form has named, with a note.

use super::layout::{self, Part};
use super::parts::secret;
use crate::answer::{Answer, redirect};
use crate::doing::{ChangeState, Lane, Note, Outcome};
use crate::program::{ShownFailure, Stop};
use crate::site::{Ask, Site};
use crate::stopped;
use crate::words::{bytes, count};
use maud::{Markup, html};
use serde_json::{Value, json};

/// Shows the change. When it has ended, it leads to the page that the form named.
pub fn show(ask: &Ask<'_>, lane: Lane) -> Result<Answer, Stop> {
    let seen = ask.site.lane(lane).seen();
    if let (Some(seen), false) = (&seen, ask.target.json())
        && let Some(outcome) = seen.outcome.clone()
    {
        return Ok(lead_back(ask.site, seen.verb, &seen.back, outcome));
    }
    let title = seen
        .as_ref()
        .map_or("Nothing to wait for", |seen| title(seen.verb));
    Ok(layout::answer(
        ask,
        Part::None,
        title,
        || seen.as_ref().map_or(json!({"state": "idle"}), values),
        || page(ask, lane, seen.as_ref()),
    ))
}

/// Leads to a page, with a note of what happened.
pub fn lead_back(site: &Site, verb: &str, page: &str, outcome: Outcome) -> Answer {
    let note = outcome.unwrap_or_else(|(_, told)| failed(verb, told));
    let number = site.keep_note(note);
    let mark = if page.contains('?') { '&' } else { '?' };
    redirect(&format!("{page}{mark}note={number}"))
}

/// A failed or stopped change as a note.
fn failed(verb: &str, told: ShownFailure) -> Note {
    let failed = told.exit != stopped::INTERRUPTED;
    let what = match verb {
        "commit" => "Not committed: ",
        "discard" => "Not discarded: ",
        "push" => "Not sent: ",
        "fetch" | "pull" => "Not fetched: ",
        "undo" => "Not undone: ",
        "redo" => "Not redone: ",
        "resolve" => "Not resolved: ",
        "claim" => "Not claimed: ",
        "release" => "Not released: ",
        "restore" | "choose-again" => "Not restored: ",
        "get" => "Not fetched: ",
        _ => "",
    };
    Note {
        failed,
        text: if failed {
            format!("{what}{}", told.message)
        } else {
            told.message
        },
        more: told
            .hint
            .into_iter()
            .map(|hint| format!("To do: {hint}"))
            .collect(),
    }
}

/// The values of a change under way, or of the last one.
pub fn values(seen: &ChangeState) -> Value {
    let mut values = json!({
        "state": "under way",
        "stopping": seen.stopped && seen.outcome.is_none(),
        "verb": seen.verb,
        "bytes": seen.bytes,
        "total_bytes": seen.total_bytes,
        "files": seen.files,
        "seconds": seen.time.as_secs(),
        "progress": progress(seen),
        "text": null,
        "more": [],
        "hint": null,
    });
    match &seen.outcome {
        None => {}
        Some(Ok(note)) => {
            values["state"] = json!(if note.failed { "failed" } else { "done" });
            values["text"] = json!(note.text);
            values["more"] = json!(note.more);
        }
        Some(Err((_, told))) => {
            let is_stopped = told.exit == stopped::INTERRUPTED;
            values["state"] = json!(if is_stopped { "stopped" } else { "failed" });
            values["text"] = json!(told.message);
            values["hint"] = json!(told.hint);
        }
    }
    values
}

fn title(verb: &str) -> &'static str {
    match verb {
        "commit" => "Committing your files",
        "discard" => "Discarding changes",
        "push" => "Sending commits",
        "fetch" => "Asking for news",
        "pull" => "Getting commits",
        "claim" => "Claiming",
        "release" => "Releasing",
        "undo" => "Undoing the last change",
        "redo" => "Redoing what was undone",
        "resolve" => "Resolving a conflict",
        "restore" => "Restoring a version",
        _ => "A change is under way",
    }
}

/// How far it is, in words.
fn progress(seen: &ChangeState) -> String {
    let mut out = match (seen.bytes, seen.total_bytes) {
        (0, _) => "Starting".to_owned(),
        (done, total) if total > done => format!("{} of {} done", bytes(done), bytes(total)),
        (done, _) => format!("{} done", bytes(done)),
    };
    if seen.files > 0 {
        out.push_str(", ");
        out.push_str(&count(seen.files, "file", "files"));
    }
    if seen.stopped {
        out.push_str(". Stopping\u{2026}");
    }
    out
}

fn page(ask: &Ask<'_>, lane: Lane, seen: Option<&ChangeState>) -> Markup {
    let Some(seen) = seen else {
        return html! {
            h1 { "Nothing to wait for" }
            p.empty { "No " (lane.word()) " is under way, and none was made since dmv web started." }
            p { a.button href="/" { "Overview" } }
        };
    };
    html! {
        h1 { (title(seen.verb)) }
        section.card.wide data-doing=(lane.page()) aria-label="Progress" {
            p { progress aria-label=(title(seen.verb)) {} }
            p data-progress { (progress(seen)) }
            p.quiet { "You can leave this page. The work goes on, and you can look at other pages meanwhile." }
            p.unscripted { a.button href=(lane.page()) { "Look again" } }
            @if !ask.site.read_only && !seen.stopped {
                form.stop method="post" action="/stop" {
                    (secret(ask.site, lane.page()))
                    input type="hidden" name="of" value=(lane.word());
                    button type="submit" { "Stop" }
                    span.quiet { " " (stopped::before(seen.verb)) }
                }
            }
        }
    }
}
