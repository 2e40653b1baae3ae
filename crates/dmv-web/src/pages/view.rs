//! A file as a page can show it: pictures, sounds, films, texts, previews; and words in place of others.

use super::parts::{class_of, has_preview, label, picture_link, turned};
use crate::address::link;
use crate::kinds::{Sort, looks_like_text, sort_of};
use crate::site::Ask;
use crate::words::{bytes, shown};
use maud::{Markup, html};

/// Bytes of a text that are shown.
const MAX_TEXT: u64 = 256 << 10;

/// A file of a commit or of the worktree.
pub struct FileView<'a> {
    /// Its revision in addresses.
    pub revision: &'a str,
    /// Its path.
    pub path: &'a [u8],
    /// Its bytes.
    pub size: u64,
    /// Why it has no preview, if that is known already.
    pub reason: Option<String>,
    /// Reads so many bytes of its beginning. `None`: they cannot be read.
    pub start: &'a dyn Fn(u64) -> Option<Vec<u8>>,
}

impl FileView<'_> {
    /// Shows it.
    pub fn show(&self, ask: &Ask<'_>) -> Markup {
        let name = self.name();
        if self.size == 0 {
            return words(self.path, "This file is empty.");
        }
        let raw = link("raw", self.revision, self.path);
        let picture = || picture_link(self.revision, self.path);
        match sort_of(self.path).0 {
            Sort::Picture => html! {
                div.stage { img.view src=(raw) alt={ (name) ", " (bytes(self.size)) }; }
            },
            Sort::Sound => html! {
                div.stage.words {
                    @if has_preview(ask, self.path) {
                        img.wave src=(picture()) alt="Waveform";
                    }
                    audio controls preload="metadata" src=(raw) aria-label=(name) {}
                }
            },
            Sort::Film => html! {
                div.stage {
                    video.view controls preload="metadata" src=(raw) data-film
                        poster=[has_preview(ask, self.path).then(picture)] {
                        "This browser plays no films."
                    }
                    p.quiet.unplayable hidden {
                        "This browser cannot play this film: it does not know its format. Download it, and open it in a player."
                    }
                }
            },
            _ if has_preview(ask, self.path) => self.preview(&picture()),
            Sort::Raster => words(
                self.path,
                "Browsers do not show pictures of this format. Download it, and open it in your program.",
            ),
            Sort::Scene => words(
                self.path,
                "Scenes and models are not shown. Download it, and open it in your program.",
            ),
            Sort::Archive => words(
                self.path,
                "Archives are not shown. Download it to look inside.",
            ),
            Sort::Text | Sort::Other => self.text(),
        }
    }

    /// Where the script finds what a decoder knows about the file.
    pub fn facts_link(&self, ask: &Ask<'_>) -> Option<String> {
        // The reason belongs to the picture that the page shows.
        let link = || link("preview", self.revision, self.path) + "?json&size=large";
        (self.size > 0 && has_preview(ask, self.path)).then(link)
    }

    fn name(&self) -> String {
        let name = self.path.rsplit(|b| *b == b'/').next();
        shown(name.unwrap_or_default())
    }

    /// A preview of what browsers do not show, or why there is none.
    fn preview(&self, picture: &str) -> Markup {
        if let Some(reason) = &self.reason {
            return words(self.path, &format!("No preview: {reason}."));
        }
        let alt = format!("Preview of {}, {}", self.name(), bytes(self.size));
        html! {
            div.stage {
                img.view src=(picture) alt=(alt);
                p.quiet data-reason role="status" {}
            }
        }
    }

    /// The lines of a text. Other bytes are not shown, in words.
    fn text(&self) -> Markup {
        let Some(start) = (self.start)(self.size.min(MAX_TEXT)) else {
            let why = "The content cannot be read: dmv verify says more.";
            return words(self.path, why);
        };
        if !looks_like_text(&start) {
            let why = "This file is not a text, and its format cannot be shown.";
            return words(self.path, why);
        }
        let text = String::from_utf8_lossy(&start);
        html! {
            (turned(&text))
            pre.text tabindex="0" aria-label="Content" { code { (text) } }
            @if self.size > MAX_TEXT {
                p.quiet { "Only the first " (bytes(MAX_TEXT)) " are shown." }
            }
        }
    }
}

/// In place of a view: a mark for the sort, and why nothing is shown.
pub fn words(path: &[u8], why: &str) -> Markup {
    html! {
        div.stage.words {
            span.thumb.mark.big.(class_of(sort_of(path).0)) aria-hidden="true" { (label(path)) }
            p { (why) }
        }
    }
}
