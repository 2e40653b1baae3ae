//! Two versions side by side: `/compare?a=REV:PATH&b=REV:PATH`. Of two directories, the files that
//! differ.

mod text;

use super::layout::{self, Part};
use super::parts::{
    class_of, commit_line, has_preview, label, path_value, picture_link, thumb, time,
};
use super::places::{Place, link_id, place_of};
use crate::address::{compare_link, link};
use crate::answer::Answer;
use crate::kinds::{Sort, looks_like_text, sort_of};
use crate::program::Stop;
use crate::site::Ask;
use crate::words::{bytes, count, kind_word, number, shown, subject};
use dmv_core::diff::chunks::{ByChunks, ChunkAt};
use dmv_core::diff::diff_trees;
use dmv_core::hash::ObjectId;
use dmv_core::object::ObjectError;
use dmv_core::object::list::BlobChunks;
use dmv_core::object::name::RepoPath;
use dmv_core::object::tree::TreeEntry;
use dmv_core::repo::{Repo, blob_of};
use maud::{Markup, html};
use serde_json::{Value, json};
use std::ops::ControlFlow;

/// Changed files that are listed.
const MAX_CHANGES: usize = 400;
/// Texts up to this size are compared by lines.
const MAX_TEXT: u64 = 2 << 20;
/// Ranges of bytes that are listed.
const MAX_RANGES: usize = 20;
/// Chunks of a file that are compared.
const MAX_CHUNKS: usize = 400_000;

/// Shows a comparison.
pub fn show(ask: &Ask<'_>) -> Result<Answer, Stop> {
    let text = |name| {
        ask.target
            .value(name)
            .ok_or(Stop::Bad("name two places: a=REV:PATH and b=REV:PATH"))
    };
    let a = place_of(&ask.repo, text("a")?)?;
    let b = place_of(&ask.repo, text("b")?)?;
    let found = match (a.located.tree(), b.located.tree()) {
        (Some(old), Some(new)) => Found::Trees(changes(&ask.repo, old, new)?),
        _ => file_difference(ask, &a, &b)?,
    };
    let comparison = Comparison { a, b, found };
    let title = match comparison.b.path.file_name() {
        Some(name) => format!("Compare {}", shown(name)),
        None => "Compare".to_owned(),
    };
    Ok(layout::answer(
        ask,
        Part::Log,
        &title,
        || comparison.values(),
        || comparison.page(ask),
    ))
}

struct Comparison {
    a: Place,
    b: Place,
    found: Found,
}

enum Found {
    /// The same content.
    Same,
    /// Files that differ, and whether there are more.
    Trees((Vec<Change>, bool)),
    /// Two pictures that browsers show.
    Pictures,
    /// Two sounds.
    Sounds,
    /// Two films.
    Films,
    /// Two texts.
    Texts(text::Unified),
    /// Anything else, by chunks.
    Bytes(ByChunks),
    /// One of them cannot be compared, for this reason.
    Not(String),
}

struct Change {
    path: RepoPath,
    old: Option<TreeEntry>,
    new: Option<TreeEntry>,
}

impl Change {
    fn word(&self) -> &'static str {
        match (&self.old, &self.new) {
            (None, _) => "added",
            (_, None) => "deleted",
            (Some(old), Some(new)) if old.kind.is_blob() != new.kind.is_blob() => "type",
            _ => "modified",
        }
    }
}

fn changes(repo: &Repo, old: ObjectId, new: ObjectId) -> Result<(Vec<Change>, bool), Stop> {
    let (mut all, mut has_more) = (Vec::new(), false);
    let mut keep = |path: &RepoPath, old: Option<&TreeEntry>, new: Option<&TreeEntry>| {
        if all.len() == MAX_CHANGES {
            has_more = true;
            return Ok::<_, ObjectError>(ControlFlow::Break(()));
        }
        all.push(Change {
            path: path.clone(),
            old: old.cloned(),
            new: new.cloned(),
        });
        Ok(ControlFlow::Continue(()))
    };
    let _ = diff_trees(repo.objects(), Some(old), Some(new), &mut keep)?;
    Ok((all, has_more))
}

fn file_difference(ask: &Ask<'_>, a: &Place, b: &Place) -> Result<Found, Stop> {
    let (Some(old), Some(new)) = (a.entry(), b.entry()) else {
        return Ok(Found::Not(
            "A directory and a file have nothing to compare.".to_owned(),
        ));
    };
    if !old.kind.is_blob() || !new.kind.is_blob() {
        let (old, new) = (kind_word(old.kind), kind_word(new.kind));
        return Ok(Found::Not(format!(
            "A is a {old}, B is a {new}: only files are compared."
        )));
    }
    if old.id == new.id {
        return Ok(Found::Same);
    }
    let is_here = |entry: &TreeEntry| {
        Ok::<_, Stop>(!ask.repo.is_partial() || ask.repo.has_root(super::parts::root_of(entry))?)
    };
    for (name, entry) in [("A", old), ("B", new)] {
        if !is_here(entry)? {
            let size = bytes(entry.size);
            return Ok(Found::Not(format!(
                "The content of {name} is not here ({size})."
            )));
        }
    }
    let sorts = [a, b].map(|place| sort_of(place.path.as_bytes()).0);
    match sorts {
        [Sort::Picture, Sort::Picture] => return Ok(Found::Pictures),
        [a, b] if a.is_image() && b.is_image() && ask.site.previews.is_some() => {
            return Ok(Found::Pictures);
        }
        [Sort::Sound, Sort::Sound] => return Ok(Found::Sounds),
        [Sort::Film, Sort::Film] => return Ok(Found::Films),
        _ => {}
    }
    if old.size <= MAX_TEXT && new.size <= MAX_TEXT {
        let (mut old_text, mut new_text) = (Vec::new(), Vec::new());
        ask.repo.cat(blob_of(old), None, &mut old_text)?;
        ask.repo.cat(blob_of(new), None, &mut new_text)?;
        if looks_like_text(&old_text) && looks_like_text(&new_text) {
            return Ok(Found::Texts(text::Unified::of(&old_text, &new_text)));
        }
    }
    let (old_chunks, new_chunks) = (chunks(&ask.repo, old)?, chunks(&ask.repo, new)?);
    Ok(match (old_chunks, new_chunks) {
        (Some(old_chunks), Some(new_chunks)) => {
            Found::Bytes(ByChunks::of(&old_chunks, &new_chunks, old.size))
        }
        _ => Found::Not("These files are too large to be compared on a page.".to_owned()),
    })
}

fn chunks(repo: &Repo, entry: &TreeEntry) -> Result<Option<Vec<ChunkAt>>, Stop> {
    let mut out = Vec::new();
    for chunk in BlobChunks::new(repo.objects(), blob_of(entry)) {
        if out.len() == MAX_CHUNKS {
            return Ok(None);
        }
        out.push(chunk?);
    }
    Ok(Some(out))
}

impl Comparison {
    fn values(&self) -> Value {
        let side = |place: &Place| {
            let mut out = path_value(place.path.as_bytes());
            out.insert("commit".to_owned(), json!(place.id.to_string()));
            out.insert(
                "id".to_owned(),
                json!(place.entry().map(|e| e.id.to_string())),
            );
            out.insert("size".to_owned(), json!(place.entry().map(|e| e.size)));
            Value::Object(out)
        };
        let mut out = json!({ "a": side(&self.a), "b": side(&self.b) });
        match &self.found {
            Found::Same => out["same"] = json!(true),
            Found::Trees((changes, has_more)) => {
                let change = |change: &Change| {
                    let mut out = path_value(change.path.as_bytes());
                    out.insert("change".to_owned(), json!(change.word()));
                    Value::Object(out)
                };
                out["changes"] = changes.iter().map(change).collect();
                out["complete"] = json!(!has_more);
            }
            Found::Bytes(by) => {
                let ranges = by.differing.iter().map(
                    |d| json!({ "old": [d.old.start, d.old.end], "new": [d.new.start, d.new.end] }),
                );
                let ranges: Vec<Value> = ranges.collect();
                out["shared_bytes"] = json!(by.shared_bytes);
                out["new_bytes"] = json!(by.new_bytes);
                out["removed_bytes"] = json!(by.removed_bytes);
                out["ranges"] = json!(ranges);
            }
            Found::Texts(unified) => out["diff"] = json!(unified.lines()),
            Found::Not(why) => out["not_compared"] = json!(why),
            Found::Pictures | Found::Sounds | Found::Films => {}
        }
        out
    }

    fn page(&self, ask: &Ask<'_>) -> Markup {
        let title = self.b.path.file_name().map(shown);
        html! {
            div.bar {
                h1 { @match &title { Some(name) => { (name) } None => { (subject(&self.b.commit.message)) } } }
                div.tools { a.button href=(self.turned()) { "Swap A and B" } }
            }
            dl.sides {
                (self.side_line("A", &self.a))
                (self.side_line("B", &self.b))
            }
            @match &self.found {
                Found::Same => { p.empty { "A and B have the same content." } }
                Found::Trees((changes, has_more)) => { (self.list(ask, changes, *has_more)) }
                Found::Pictures => { (self.pictures()) }
                Found::Sounds => { (self.players(ask, false)) }
                Found::Films => { (self.players(ask, true)) }
                Found::Texts(unified) => { (unified.page()) }
                Found::Bytes(by) => { (self.by_chunks(by)) }
                Found::Not(why) => { p.empty { (why) } }
            }
        }
    }

    fn turned(&self) -> String {
        let place = |p: &Place| (link_id(&p.id), p.path.as_bytes().to_vec());
        let ((a, at_a), (b, at_b)) = (place(&self.a), place(&self.b));
        compare_link((&b, &at_b), (&a, &at_a))
    }

    fn side_line(&self, name: &str, place: &Place) -> Markup {
        let page = if place.located.tree().is_some() {
            "tree"
        } else {
            "file"
        };
        let path = place.path.as_bytes();
        html! {
            dt { (name) }
            dd {
                a href=(link(page, &place.link(), path)) { @if path.is_empty() { "all files" } @else { (shown(path)) } }
                " in " (commit_line(&place.id, &place.commit))
                @if let Some(entry) = place.entry() { span.quiet { " \u{00b7} " (bytes(entry.size)) } }
            }
        }
    }

    fn list(&self, ask: &Ask<'_>, changes: &[Change], has_more: bool) -> Markup {
        let (a, b) = (self.a.link(), self.b.link());
        let full = |at: &Place, path: &RepoPath| match at.path.is_root() {
            true => path.as_bytes().to_vec(),
            false => [at.path.as_bytes(), b"/", path.as_bytes()].concat(),
        };
        html! {
            @if !self.b.commit.message.trim().is_empty() && self.b.path.is_root() {
                pre.message { (shown_message(&self.b.commit.message)) }
                p.meta {
                    span { (shown(self.b.commit.author.name.as_bytes())) }
                    (time(&self.b.commit.author))
                    a href=(link("tree", &b, b"")) { "All files of B" }
                }
            }
            h2 { (count(changes.len() as u64, "file differs", "files differ")) }
            @if has_more { p.note { "There are more; only the first " (MAX_CHANGES) " are listed." } }
            @if changes.is_empty() { p.empty { "A and B have the same files." } }
            ul.changes.rich {
                @for change in changes {
                    @let (at_a, at_b) = (full(&self.a, &change.path), full(&self.b, &change.path));
                    @let word = change.word();
                    li {
                        @match (&change.old, &change.new) {
                            (Some(old), Some(new)) => {
                                a.name href=(compare_link((&a, &at_a), (&b, &at_b))) {
                                    (thumb(ask, &b, &at_b, new)) span { (shown(change.path.as_bytes())) }
                                }
                                span.quiet { (bytes(old.size)) " \u{2192} " (bytes(new.size)) }
                            }
                            (None, Some(new)) => {
                                a.name href=(link("file", &b, &at_b)) {
                                    (thumb(ask, &b, &at_b, new)) span { (shown(change.path.as_bytes())) }
                                }
                                span.quiet { (bytes(new.size)) }
                            }
                            (Some(old), None) => {
                                a.name href=(link("file", &a, &at_a)) {
                                    (thumb(ask, &a, &at_a, old)) span { (shown(change.path.as_bytes())) }
                                }
                                span.quiet { (bytes(old.size)) }
                            }
                            (None, None) => {}
                        }
                        span.tag.(word) { (word) }
                    }
                }
            }
        }
    }

    fn sizes(&self) -> [u64; 2] {
        [&self.a, &self.b].map(|p| p.entry().map_or(0, |entry| entry.size))
    }

    /// Two pictures. Without the script they stand side by side.
    fn pictures(&self) -> Markup {
        let [a, b] = [&self.a, &self.b].map(|p| picture_link(&p.link(), p.path.as_bytes()));
        let [size_a, size_b] = self.sizes();
        let mode = |key: &str, value: &str, text: &str| {
            html! {
                button type="button" data-mode=(value) aria-pressed=(value == "side") {
                    (text) kbd { (key) }
                }
            }
        };
        html! {
            div.compare data-compare data-show="side" {
                div.toolbar hidden role="toolbar" aria-label="How to compare" {
                    span.switch {
                        (mode("1", "side", "Side by side")) (mode("2", "swipe", "Swipe"))
                        (mode("3", "onion", "Onion skin")) (mode("4", "difference", "Difference"))
                        (mode("5", "blink", "Blink"))
                    }
                    span.switch {
                        button type="button" data-zoom="out" aria-label="Zoom out" { "\u{2212}" }
                        button type="button" data-zoom="fit" { "Fit" }
                        button type="button" data-zoom="one" { "1:1" }
                        button type="button" data-zoom="in" aria-label="Zoom in" { "+" }
                    }
                    label.slide { span data-slide-name { "Position" }
                        input type="range" min="0" max="100" value="50" data-slide; }
                    label.slide { "Brightness" input type="range" min="-4" max="4" step="0.5" value="0" data-bright; }
                }
                div.panes {
                    figure.a {
                        div.pane tabindex="0" role="group" aria-label="Picture A" { img src=(a) alt={ "Picture A, " (bytes(size_a)) } draggable="false"; }
                        figcaption { "A \u{00b7} " (bytes(size_a)) " " span data-size {} }
                    }
                    figure.b {
                        div.pane tabindex="0" role="group" aria-label="Picture B" { img src=(b) alt={ "Picture B, " (bytes(size_b)) } draggable="false"; }
                        figcaption { "B \u{00b7} " (bytes(size_b)) " " span data-size {} }
                    }
                }
                p.quiet data-told role="status" {}
            }
        }
    }

    fn players(&self, ask: &Ask<'_>, is_film: bool) -> Markup {
        let [a, b] = [&self.a, &self.b].map(|place| {
            let (path, revision) = (place.path.as_bytes(), place.link());
            let wave = !is_film && has_preview(ask, path);
            let wave = wave.then(|| picture_link(&revision, path));
            (link("raw", &revision, path), wave)
        });
        let [size_a, size_b] = self.sizes();
        html! {
            div.players data-players {
                div.toolbar hidden role="toolbar" aria-label="Both players" {
                    button type="button" data-play { "Play both" kbd { "Space" } }
                    @if is_film {
                        button type="button" data-step="-1" { "Frame back" kbd { "," } }
                        button type="button" data-step="1" { "Frame on" kbd { "." } }
                    } @else {
                        button type="button" data-ab aria-pressed="false" { "Hear B" kbd { "B" } }
                    }
                }
                div.panes {
                    @for (name, (src, wave), size) in [("A", a, size_a), ("B", b, size_b)] {
                        figure {
                            @if let Some(wave) = wave { img.wave src=(wave) alt={ "Waveform of " (name) }; }
                            @if is_film { video.view controls preload="metadata" src=(src) aria-label=(name) {} }
                            @else { audio controls preload="metadata" src=(src) aria-label=(name) {} }
                            figcaption { (name) " \u{00b7} " (bytes(size)) }
                        }
                    }
                }
            }
        }
    }

    fn by_chunks(&self, by: &ByChunks) -> Markup {
        let [_, size] = self.sizes();
        let share = (by.shared_bytes * 100).checked_div(size).unwrap_or(0);
        let path = self.b.path.as_bytes();
        html! {
            div.stage.words {
                span.thumb.mark.big.(class_of(sort_of(path).0)) aria-hidden="true" { (label(path)) }
                p { strong { "B shares " (share) " % with A." } }
                p { meter min="0" max="100" value=(share) aria-label="Shared" {} }
                p.quiet {
                    (bytes(by.shared_bytes)) " shared, " (bytes(by.new_bytes)) " new, "
                    (bytes(by.removed_bytes)) " gone"
                }
            }
            h2 { "Changed ranges" }
            table.files {
                thead { tr { th scope="col" { "In A" } th scope="col" { "In B" } th.num scope="col" { "Bytes" } } }
                tbody {
                    @for d in by.differing.iter().take(MAX_RANGES) {
                        tr {
                            td { (number(d.old.start)) "\u{2013}" (number(d.old.end)) }
                            td { (number(d.new.start)) "\u{2013}" (number(d.new.end)) }
                            td.num { (bytes(d.new.end - d.new.start)) }
                        }
                    }
                }
            }
            @if by.differing.len() > MAX_RANGES {
                p.quiet { "and " (number((by.differing.len() - MAX_RANGES) as u64)) " more" }
            }
        }
    }
}

/// A message with its lines.
fn shown_message(message: &str) -> String {
    let lines: Vec<String> = message.trim().lines().map(crate::words::clean).collect();
    lines.join("\n")
}
