//! The page of a comparison.

use super::{Change, Comparison, ComparisonKind, MAX_CHANGES, MAX_RANGES, Side};
use crate::address::{Place, compare_link, encoded, link};
use crate::kinds::{ending, sort_of};
use crate::pages::parts::{class_of, commit_line, has_preview, label, size_of, thumb, time};
use crate::site::Ask;
use crate::words::{bytes, count, number, shown, subject};
use dmv_core::diff::chunks::ByChunks;
use dmv_core::object::name::RepoPath;
use dmv_core::object::tree::Kind;
use maud::{Markup, html};

impl Comparison {
    pub(super) fn page(&self, ask: &Ask<'_>) -> Markup {
        let title = self.b.path().file_name().map(shown);
        html! {
            div.bar {
                h1 {
                    @match (&title, &self.b) {
                        (Some(name), _) => { (name) }
                        (None, Side::InCommit(place)) => { (subject(&place.commit.message)) }
                        (None, Side::OnDisk(_) | Side::Pending(_)) => {}
                    }
                }
                div.tools { a.button href=(self.turned()) { "Swap A and B" } }
            }
            dl.sides {
                (self.side_line("A", &self.a))
                (self.side_line("B", &self.b))
            }
            @match &self.found {
                ComparisonKind::Same => { p.empty { "A and B have the same content." } }
                ComparisonKind::Trees((changes, has_more)) => { (self.list(ask, changes, *has_more)) }
                ComparisonKind::Pictures => { (self.pictures()) }
                ComparisonKind::Sounds => { (self.players(ask, false)) }
                ComparisonKind::Films => { (self.players(ask, true)) }
                ComparisonKind::Texts(unified) => { (unified.page()) }
                ComparisonKind::Bytes(by) => { (self.by_chunks(by)) }
                ComparisonKind::Not(why) => { p.empty { (why) } }
            }
        }
    }

    fn turned(&self) -> String {
        let place = |side: &Side| (side.revision(), side.path().as_bytes().to_vec());
        let ((a, at_a), (b, at_b)) = (place(&self.a), place(&self.b));
        let mut out = compare_link(Place(&b, &at_b), Place(&a, &at_a));
        for (name, side) in [("a-side", &self.b), ("b-side", &self.a)] {
            if let Some(side) = side.conflict_side() {
                out += &format!("&{name}={}", encoded(side.as_bytes()));
            }
        }
        out
    }

    fn side_line(&self, name: &str, side: &Side) -> Markup {
        let place = match side {
            Side::InCommit(place) => place,
            Side::Pending(version) => {
                return html! {
                    dt { (name) }
                    dd {
                        span { (shown(version.path.as_bytes())) } (side_words(&version.side))
                        span.quiet { " \u{00b7} " (size_of(&version.entry)) }
                    }
                };
            }
            Side::OnDisk(file) => {
                return html! {
                    dt { (name) }
                    dd {
                        span { (shown(file.path.as_bytes())) } " " span.tag.modified { "your file, as it is now" }
                        span.quiet { " \u{00b7} " (bytes(file.size)) }
                    }
                };
            }
        };
        let page = match place.located.tree() {
            Some(_) => "tree",
            None => "file",
        };
        let path = place.path.as_bytes();
        html! {
            dt { (name) }
            dd {
                a href=(link(page, &place.link(), path)) { @if path.is_empty() { "all files" } @else { (shown(path)) } }
                @match place.side.as_deref() {
                    Some(side) => { (side_words(side)) }
                    None => { " in " (commit_line(&place.id, &place.commit)) }
                }
                @if let Some(entry) = place.entry() { span.quiet { " \u{00b7} " (size_of(entry)) } }
            }
        }
    }

    fn list(&self, ask: &Ask<'_>, changes: &[Change], has_more: bool) -> Markup {
        let (a, b) = (self.a.link(), self.b.link());
        let full = |at: &Side, path: &RepoPath| {
            if at.path().is_root() {
                path.as_bytes().to_vec()
            } else {
                [at.path().as_bytes(), b"/", path.as_bytes()].concat()
            }
        };
        html! {
            @if let Side::InCommit(place) = &self.b && !place.commit.message.trim().is_empty() && place.path.is_root() {
                pre.message { (shown_message(&place.commit.message)) }
                p.meta {
                    span { (shown(place.commit.author.name.as_bytes())) }
                    (time(&place.commit.author))
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
                                a.name href=(compare_link(Place(&a, &at_a), Place(&b, &at_b))) {
                                    (thumb(ask, &b, &at_b, new)) span { (shown(change.path.as_bytes())) }
                                }
                                span.quiet { (size_of(old)) " \u{2192} " (size_of(new)) }
                            }
                            (None, Some(new)) => {
                                a.name href=(link("file", &b, &at_b)) {
                                    (thumb(ask, &b, &at_b, new)) span { (shown(change.path.as_bytes())) }
                                }
                                span.quiet { (size_of(new)) }
                            }
                            (Some(old), None) => {
                                a.name href=(link("file", &a, &at_a)) {
                                    (thumb(ask, &a, &at_a, old)) span { (shown(change.path.as_bytes())) }
                                }
                                span.quiet { (size_of(old)) }
                            }
                            (None, None) => {}
                        }
                        @if change.new.as_ref().is_some_and(|new| new.kind == Kind::Conflict) {
                            span.tag.deleted { "conflict" }
                        } @else {
                            span.tag.(word) { (word) }
                        }
                    }
                }
            }
        }
    }

    fn sizes(&self) -> [u64; 2] {
        [&self.a, &self.b].map(Side::size)
    }

    /// Two pictures. Without the script they stand side by side.
    fn pictures(&self) -> Markup {
        let [a, b] = [&self.a, &self.b].map(Side::picture_link);
        let [size_a, size_b] = self.sizes();
        let has_light =
            [&self.a, &self.b].map(|p| matches!(&ending(p.path().as_bytes())[..], "exr" | "hdr"));
        let light = |n: usize| has_light[n].then_some("yes");
        let channel = |key: &str, value: &str, text: &str| {
            html! {
                button type="button" data-channel=(value) aria-pressed=(value == "all") {
                    (text) kbd { (key) }
                }
            }
        };
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
                    span.switch role="group" aria-label="Channels" {
                        (channel("C", "all", "Colour")) (channel("R", "r", "Red"))
                        (channel("G", "g", "Green")) (channel("B", "b", "Blue"))
                        (channel("A", "a", "Alpha"))
                    }
                    label.slide {
                        "Exposure" kbd { "[" } kbd { "]" }
                        input type="range" min="-8" max="8" step="1" value="0" data-exposure;
                        output.stops data-stops { "0" }
                    }
                    // Last, so that nothing moves when it comes and goes.
                    label.slide hidden { span data-slide-name { "Position" }
                        input type="range" min="0" max="100" value="50" data-slide; }
                }
                div.panes {
                    figure.a {
                        div.pane tabindex="0" role="group" aria-label="Picture A" { img src=(a) data-light=[light(0)] alt={ "Picture A, " (bytes(size_a)) } draggable="false"; }
                        figcaption { "A \u{00b7} " (bytes(size_a)) " " span data-size {} }
                    }
                    figure.b {
                        div.pane tabindex="0" role="group" aria-label="Picture B" { img src=(b) data-light=[light(1)] alt={ "Picture B, " (bytes(size_b)) } draggable="false"; }
                        figcaption { "B \u{00b7} " (bytes(size_b)) " " span data-size {} }
                    }
                }
                p.quiet data-told role="status" {}
                // Light is multiplied as light, and a channel is shown as grey.
                svg.filters width="0" height="0" aria-hidden="true" {
                    filter #look x="0" y="0" width="1" height="1" {
                        feComponentTransfer color-interpolation-filters="linearRGB" {
                            feFuncR type="linear" slope="1" {} feFuncG type="linear" slope="1" {} feFuncB type="linear" slope="1" {}
                        }
                        feColorMatrix color-interpolation-filters="sRGB" type="matrix" values="1 0 0 0 0 0 1 0 0 0 0 0 1 0 0 0 0 0 1 0" {}
                    }
                }
            }
        }
    }

    fn players(&self, ask: &Ask<'_>, is_film: bool) -> Markup {
        let [a, b] = [&self.a, &self.b].map(|place| {
            let wave = !is_film && has_preview(ask, place.path().as_bytes());
            (place.raw_link(), wave.then(|| place.picture_link()))
        });
        let [size_a, size_b] = self.sizes();
        html! {
            div.players data-players data-bytes=(size_a.max(size_b)) {
                div.toolbar hidden role="toolbar" aria-label="Both players" {
                    button type="button" data-play { "Play both" kbd { "Space" } }
                    @if is_film {
                        button type="button" data-step="-1" { "Frame back" kbd { "," } }
                        button type="button" data-step="1" { "Frame on" kbd { "." } }
                    } @else {
                        button type="button" data-ab aria-pressed="false" { "Hear B" kbd { "B" } }
                        label.slide hidden { "Position" input type="range" min="0" max="1" step="any" value="0" data-position; }
                        output.stops data-time hidden {}
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
                p.quiet data-told role="status" {}
            }
        }
    }

    fn by_chunks(&self, by: &ByChunks) -> Markup {
        let [_, size] = self.sizes();
        let share = (by.shared_bytes * 100).checked_div(size).unwrap_or(0);
        let path = self.b.path().as_bytes();
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

/// Which version of a conflict it is.
fn side_words(side: &str) -> Markup {
    let words = match side {
        "ours" => "one side of the conflict".to_owned(),
        "theirs" => "the other side of the conflict".to_owned(),
        side => format!("in the conflict: {side}"),
    };
    html! { " " span.tag.modified { (words) } }
}
