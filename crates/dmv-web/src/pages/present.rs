//! A file of the worktree as it is now: `/file/:/PATH`. New files have no other page.

use super::file::versions_link;
use super::layout::{self, Part};
use super::parts::path_value;
use super::places::{link_id, place_at};
use super::view::FileView;
use crate::address::{link, log_link};
use crate::answer::Answer;
use crate::ondisk::{self, OnDisk};
use crate::program::Stop;
use crate::site::Ask;
use crate::words::{bytes, number, shown};
use maud::{Markup, html};
use serde_json::{Value, json};

/// Shows a file of the worktree.
pub fn show(ask: &Ask<'_>) -> Result<Answer, Stop> {
    let file = OnDisk::open(&ask.repo, &ask.target.path_from(2))?;
    let head = ask.repo.head_commit()?.map(|id| link_id(&id));
    let place = head.and_then(|id| place_at(&ask.repo, &id, file.path.as_bytes()).ok());
    let newest = place.filter(|place| place.entry().is_some_and(|entry| entry.kind.is_blob()));
    let page = PresentFile {
        newest: newest.map(|place| place.link()),
        file,
    };
    let title = page.file.path.file_name().map(shown).unwrap_or_default();
    Ok(layout::answer(
        ask,
        Part::Overview,
        &title,
        || page.values(),
        || page.page(ask),
    ))
}

struct PresentFile {
    file: OnDisk,
    /// The newest commit, if it has a file at this path.
    newest: Option<String>,
}

impl PresentFile {
    fn path(&self) -> &[u8] {
        self.file.path.as_bytes()
    }

    fn values(&self) -> Value {
        let mut out = path_value(self.path());
        out.insert("size".to_owned(), json!(self.file.size));
        out.insert(
            "raw".to_owned(),
            json!(link("raw", ondisk::REVISION, self.path())),
        );
        out.insert("commit".to_owned(), json!(self.newest));
        Value::Object(out)
    }

    fn page(&self, ask: &Ask<'_>) -> Markup {
        let raw = link("raw", ondisk::REVISION, self.path());
        let start = |len| self.file.range(0..len).ok();
        let view = FileView {
            revision: ondisk::REVISION,
            path: self.path(),
            size: self.file.size,
            reason: None,
            start: &start,
        };
        html! {
            div.bar {
                h1 { (self.file.path.file_name().map(shown).unwrap_or_default()) }
                p.quiet { (bytes(self.file.size)) }
                div.tools {
                    @if let Some(newest) = &self.newest {
                        a.button href=(log_link(self.path())) { "History" }
                        a.button href=(ondisk::compare_link(newest, self.path())) { "Compare with the newest version" }
                        a.button href=(versions_link(newest, self.path())) { "Versions" }
                    }
                    a.button href={ (raw) "?download" } download { "Download" }
                }
            }
            p.incommit {
                span.tag.modified { "your file, as it is now" } " "
                @if self.newest.is_none() { "The newest commit does not have it. " }
                a href="/" { "What has changed" }
            }
            (view.show(ask))
            section aria-labelledby="facts" {
                h2 #facts { "Details" }
                dl.facts data-facts=[view.facts_link(ask)] {
                    dt { "Path" } dd { (shown(self.path())) }
                    dt { "Size" } dd { (bytes(self.file.size)) " (" (number(self.file.size)) " bytes)" }
                }
            }
        }
    }
}
