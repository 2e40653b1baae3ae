//! The frame of each page: head, navigation, notes, and the pages that say why there is no page.

use crate::answer::{Answer, json, page};
use crate::assets;
use crate::doing::{Lane, Note};
use crate::program::ShownFailure;
use crate::site::{Ask, Site};
use crate::words::{SHORT_ID, clean};
use dmv_core::repo::Head;
use hyper::StatusCode;
use maud::{DOCTYPE, Markup, html};
use serde_json::{Value, json as value};

/// Which part of the navigation a page belongs to.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// The first page.
    Overview,
    /// History.
    Log,
    /// Trees and files.
    Files,
    /// Who has what.
    Copies,
    /// Conflicts.
    Conflicts,
    /// None of them: the page about a change.
    None,
}

/// Answers with a page, or with its values if the request asks for JSON.
pub fn answer(
    ask: &Ask<'_>,
    part: Part,
    title: &str,
    values: impl FnOnce() -> Value,
    main: impl FnOnce() -> Markup,
) -> Answer {
    if ask.target.json() {
        return json(StatusCode::OK, &values());
    }
    let note = ask.target.text("note").and_then(|n| n.parse().ok());
    let note = note.and_then(|n| ask.site.note(n));
    let body = html! {
        (top(ask, part))
        main #main tabindex="-1" {
            @if let Some(note) = &note { (told(note)) }
            @for lane in [Lane::Files, Lane::Transfers] {
                @if part != Part::None && ask.site.lane(lane).is_busy() {
                    p.note role="status" { "A " (lane.word()) " is under way. " a href=(lane.page()) { "How far is it?" } }
                }
            }
            (main())
        }
        (foot(ask.site))
    };
    page(
        StatusCode::OK,
        frame(&format!("{title} \u{00b7} {}", name_of(ask)), body),
    )
}

/// The name of the repository: that of its directory.
pub fn name_of(ask: &Ask<'_>) -> String {
    let root = ask.repo.worktree_root().unwrap_or(ask.repo.dmv_dir());
    let root = std::fs::canonicalize(root).unwrap_or_else(|_| root.to_owned());
    let name = root.file_name().map(|name| name.to_string_lossy());
    name.map_or("repository".to_owned(), |name| clean(&name))
}

fn frame(title: &str, body: Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) }
                link rel="icon" href=(assets::icon());
                link rel="stylesheet" href=(assets::style());
                script src=(assets::script()) defer {}
                // Without this, a busy browser shows half of a page, and its parts move as the rest comes.
                link rel="expect" href="#main" blocking="render";
            }
            body {
                a.skip href="#main" { "Skip to content" }
                (body)
            }
        }
    }
}

fn top(ask: &Ask<'_>, part: Part) -> Markup {
    let item = |to: &str, is: Part, text: &str| {
        html! {
            a href=(to) aria-current=[(part == is).then_some("page")] { (text) }
        }
    };
    let on = match ask.repo.head() {
        Ok(Head::Branch(name)) => clean(&name),
        Ok(Head::Commit(id)) => id.short(SHORT_ID),
        Err(_) => String::new(),
    };
    html! {
        header.top {
            a.brand href="/" {
                img src=(assets::icon()) alt="" width="28" height="28";
                span { (name_of(ask)) }
            }
            nav.main aria-label="Main" {
                (item("/", Part::Overview, "Overview"))
                (item("/log", Part::Log, "History"))
                (item("/tree/@", Part::Files, "Files"))
                (item("/copies", Part::Copies, "Copies"))
                (item("/conflicts", Part::Conflicts, "Conflicts"))
            }
            span.on {
                span.quiet { "on " }
                strong { (on) }
                @if ask.site.read_only { span.tag { "read-only" } }
            }
        }
    }
}

fn foot(site: &Site) -> Markup {
    html! {
        footer {
            p {
                "Served by " code { "dmv web" } " on this machine, for you alone. "
                @if site.read_only { "Nothing can be changed here." }
                @else { "Every change of your files and branches can be undone." }
            }
        }
    }
}

fn told(note: &Note) -> Markup {
    html! {
        div.note.bad[note.failed] role=(if note.failed { "alert" } else { "status" }) {
            p { strong { (clean(&note.text)) } }
            @for line in &note.more { p { (clean(line)) } }
        }
    }
}

/// A page that says why there is none.
pub fn failure(site: &Site, status: StatusCode, told: &ShownFailure) -> Answer {
    let head = match status.as_u16() {
        404 => "Nothing here",
        409 => "Refused",
        503 => "Not available now",
        400 => "This address makes no sense",
        _ => "This did not work",
    };
    let body = html! {
        header.top {
            a.brand href="/" {
                img src=(assets::icon()) alt="" width="28" height="28";
                span { "DMV" }
            }
            nav.main aria-label="Main" {
                a href="/" { "Overview" }
                a href="/log" { "History" }
                a href="/tree/@" { "Files" }
                a href="/copies" { "Copies" }
                a href="/conflicts" { "Conflicts" }
            }
        }
        main #main.lone tabindex="-1" {
            h1 { (head) }
            p.lead { (clean(&told.message)) }
            @if let Some(hint) = &told.hint {
                p { "To do: " @if hint.starts_with("dmv ") { code { (clean(hint)) } } @else { (clean(hint)) } }
            }
            p { a.button href="/" { "Overview" } }
        }
        (foot(site))
    };
    page(status, frame(head, body))
}

/// What somebody without the cookie gets: nothing of the repository, not even its name.
pub fn locked(is_json: bool) -> Answer {
    let status = StatusCode::FORBIDDEN;
    const WHY: &str = "This browser has no access to these pages.";
    const WAY: &str = "Open the address that dmv web prints. It works once; to get a new one, start dmv web again.";
    if is_json {
        return json(
            status,
            &value!({"type": "error", "code": "locked", "message": WHY, "hint": WAY}),
        );
    }
    let body = html! {
        main #main.lone tabindex="-1" {
            img src=(assets::icon()) alt="" width="48" height="48";
            h1 { "Locked" }
            p.lead { (WHY) }
            p { (WAY) }
        }
    };
    page(status, frame("Locked", body))
}
