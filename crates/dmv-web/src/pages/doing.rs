//! A change that takes longer than a moment: how far it is, and a button that stops it.

use super::layout::{self, Part};
use super::parts::secret;
use crate::answer::{Answer, redirect};
use crate::doing::{Note, Outcome, Seen};
use crate::program::{Stop, Told};
use crate::site::{Ask, Site};
use crate::words::{bytes, count};
use maud::{Markup, html};
use serde_json::{Value, json};

/// Shows the change. When it has ended, it leads to the page that the form named.
pub fn show(ask: &Ask<'_>) -> Result<Answer, Stop> {
    let seen = ask.site.doing.seen();
    if let (Some(seen), false) = (&seen, ask.target.json())
        && let Some(outcome) = seen.outcome.clone()
    {
        return Ok(lead_back(ask.site, &seen.back, outcome));
    }
    let title = seen.as_ref().map_or("No change", |seen| title(seen.verb));
    Ok(layout::answer(
        ask,
        Part::None,
        title,
        || seen.as_ref().map_or(json!({"state": "idle"}), values),
        || page(ask, seen.as_ref()),
    ))
}

/// Leads to a page, with a note of what happened.
pub fn lead_back(site: &Site, page: &str, outcome: Outcome) -> Answer {
    let note = outcome.unwrap_or_else(|(_, told)| failed(told));
    let number = site.keep_note(note);
    let mark = if page.contains('?') { '&' } else { '?' };
    redirect(&format!("{page}{mark}note={number}"))
}

/// A failed change as a note.
fn failed(told: Told) -> Note {
    Note {
        failed: true,
        text: told.message,
        more: told
            .hint
            .into_iter()
            .map(|hint| format!("To do: {hint}"))
            .collect(),
    }
}

/// The values of a change under way, or of the last one.
pub fn values(seen: &Seen) -> Value {
    let (state, text, more) = match &seen.outcome {
        None => ("under way", None, Vec::new()),
        Some(Ok(note)) if note.failed => ("failed", Some(note.text.clone()), note.more.clone()),
        Some(Ok(note)) => ("done", Some(note.text.clone()), note.more.clone()),
        Some(Err((_, told))) => ("failed", Some(told.message.clone()), Vec::new()),
    };
    json!({
        "state": state,
        "verb": seen.verb,
        "bytes": seen.bytes,
        "total_bytes": seen.total_bytes,
        "files": seen.files,
        "seconds": seen.time.as_secs(),
        "progress": progress(seen),
        "text": text,
        "more": more,
    })
}

fn title(verb: &str) -> &'static str {
    match verb {
        "commit" => "Committing your files",
        "undo" => "Undoing the last change",
        "redo" => "Redoing what was undone",
        "resolve" => "Resolving a conflict",
        "restore" => "Restoring a version",
        _ => "A change is under way",
    }
}

/// How far it is, in words.
fn progress(seen: &Seen) -> String {
    let mut out = match (seen.bytes, seen.total_bytes) {
        (0, _) => "It has begun".to_owned(),
        (done, total) if total > done => format!("{} of {}", bytes(done), bytes(total)),
        (done, _) => bytes(done),
    };
    if seen.files > 0 {
        out.push_str(", ");
        out.push_str(&count(seen.files, "file", "files"));
    }
    out
}

fn page(ask: &Ask<'_>, seen: Option<&Seen>) -> Markup {
    let Some(seen) = seen else {
        return html! {
            h1 { "No change" }
            p.empty { "No change is under way." }
        };
    };
    html! {
        h1 { (title(seen.verb)) }
        section.card.wide data-doing aria-label="Progress" {
            p { progress aria-label=(title(seen.verb)) {} }
            p data-progress { (progress(seen)) }
            p.quiet { "You can leave this page: the work goes on, and other pages can be read meanwhile." }
            p.unscripted { a.button href="/doing" { "Look again" } }
            @if !ask.site.read_only {
                form.stop method="post" action="/stop" {
                    (secret(ask.site, "/doing"))
                    button type="submit" { "Stop" }
                    span.quiet { " Nothing is lost. The overview says what is left to do." }
                }
            }
        }
    }
}
