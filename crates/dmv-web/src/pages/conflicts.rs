//! Conflicts: the versions side by side, each with who made it and when, and with buttons that resolve. What is settled
//! stays on the page until it is committed.

use super::layout::{self, Part};
use super::origins::Origins;
use super::parts::{
    class_of, has_preview, label, path_field, path_value, secret, thumb_of, turned,
};
use super::places::link_id;
use crate::address::{link, sides_link};
use crate::answer::Answer;
use crate::kinds::{Sort, looks_like_text, sort_of};
use crate::ondisk;
use crate::program::Stop;
use crate::site::Ask;
use crate::words::{bytes, clean, count, subject};
use dmv_core::hash::ObjectId;
use dmv_core::job::Job;
use dmv_core::merge::{ConflictKind, entry_of};
use dmv_core::object::conflict::Term;
use dmv_core::object::name::{RepoPath, SafeName};
use dmv_core::object::tree::TreeEntry;
use dmv_core::repo::{ConflictAt, StatusOptions, blob_of};
use dmv_core::worktree::select::Paths;
use maud::{Markup, html};
use serde_json::{Value, json};
use std::collections::HashSet;

/// Conflicts of one page.
const MAX_SHOWN: usize = 40;
/// Bytes of a text that are shown of each version.
const MAX_TEXT: u64 = 32 << 10;

/// Shows the conflicts that are open.
pub fn show(ask: &Ask<'_>) -> Result<Answer, Stop> {
    let conflicts = Conflicts::read(ask)?;
    Ok(layout::answer(
        ask,
        Part::Conflicts,
        "Conflicts",
        || conflicts.values(),
        || conflicts.page(ask),
    ))
}

struct Conflicts {
    commit: Option<ObjectId>,
    open: Vec<ConflictAt>,
    /// The paths of open conflicts whose versions are absent from this repository.
    unknown: Vec<RepoPath>,
    /// Those of the open ones that no commit has yet.
    pending: Vec<RepoPath>,
    /// Conflicts that files or choices settle; the next commit records them.
    settled: Vec<RepoPath>,
}

impl Conflicts {
    /// As `dmv conflicts` lists them.
    fn read(ask: &Ask<'_>) -> Result<Conflicts, Stop> {
        let has_files = ask.repo.worktree_root().is_some();
        let commit = if has_files {
            ask.repo.base_commit()?
        } else {
            ask.repo.head_commit()?
        };
        let (open, unknown, pending, settled) = if has_files {
            let options = StatusOptions {
                select: &Paths::default(),
                settings: ask.site.program.settings().map_err(Stop::Told)?,
            };
            let status = ask.repo.status(&options, &Job::default())?;
            let known: HashSet<&RepoPath> = status.unresolved.iter().map(|at| &at.path).collect();
            let mut unknown = status.conflicts.clone();
            unknown.retain(|path| !known.contains(path));
            (status.unresolved, unknown, status.pending, status.settled)
        } else {
            let (open, unknown) = match &commit {
                Some(id) => ask.repo.conflicts_here(&ask.repo.read_commit(id)?)?,
                None => Default::default(),
            };
            (open, unknown, Vec::new(), Vec::new())
        };
        Ok(Conflicts {
            commit,
            open,
            unknown,
            pending,
            settled,
        })
    }

    fn values(&self) -> Value {
        let id = |term: Option<Term>| term.map(|term| term.id.to_string());
        let open = self.open.iter().map(|at| {
            let mut out = path_value(at.path.as_bytes());
            out.insert("kind".to_owned(), json!(at.kind().word()));
            out.insert("base".to_owned(), json!(id(at.base())));
            out.insert("ours".to_owned(), json!(id(at.ours())));
            out.insert("theirs".to_owned(), json!(id(at.theirs())));
            out.insert("id".to_owned(), json!(at.id.to_string()));
            Value::Object(out)
        });
        let unknown = self.unknown.iter().map(|path| {
            let mut out = path_value(path.as_bytes());
            out.insert("kind".to_owned(), Value::Null);
            Value::Object(out)
        });
        let open: Vec<Value> = open.chain(unknown).collect();
        let settled = self
            .settled
            .iter()
            .map(|path| Value::Object(path_value(path)));
        let settled: Vec<Value> = settled.collect();
        json!({
            "commit": self.commit.map(|id| id.to_string()),
            "conflicts": open,
            "settled": settled,
        })
    }

    fn page(&self, ask: &Ask<'_>) -> Markup {
        let n = (self.open.len() + self.unknown.len()) as u64;
        let more = self.open.len().saturating_sub(MAX_SHOWN) as u64;
        html! {
            div.bar {
                h1 { "Conflicts" }
                @if n > 0 { p.quiet { (count(n, "file", "files")) " to settle" } }
            }
            @for path in self.unknown.iter().take(MAX_SHOWN) {
                section.conflict.card {
                    h2 { (path) }
                    p.quiet { "The versions of this conflict are absent from this repository." }
                }
            }
            @if n == 0 {
                div.stage.words {
                    @if self.settled.is_empty() { p { "There are no conflicts." } }
                    @else {
                        p { "All conflicts are settled. The next commit records that." }
                        p { a.button href="/" { "Commit" } }
                    }
                }
            }
            @for at in self.open.iter().take(MAX_SHOWN) { (self.one(ask, at)) }
            @if more > 0 { p.quiet { (count(more, "more conflict", "more conflicts")) " below; settle these first." } }
            (self.settled(ask))
        }
    }

    /// What is settled, and can be chosen again until it is committed.
    fn settled(&self, ask: &Ask<'_>) -> Markup {
        let more = self.settled.len().saturating_sub(MAX_SHOWN);
        html! {
            @if !self.settled.is_empty() {
                h2 { "Settled" }
                ul.changes.rich.settled {
                    @for path in self.settled.iter().take(MAX_SHOWN) {
                        @let size = ondisk::size_of(&ask.repo, path);
                        li {
                            @match size {
                                Some(_) => {
                                    a.name href=(link("file", ondisk::REVISION, path)) {
                                        (thumb_of(ask, ondisk::REVISION, path.as_bytes(), size))
                                        span { (path) }
                                    }
                                }
                                None => { span.name { (thumb_of(ask, "", path.as_bytes(), None)) span { (path) } } }
                            }
                            span.tag.ok { "settled" }
                            @if !ask.site.read_only {
                                form method="post" action="/choose-again" {
                                    (secret(ask.site, "/conflicts"))
                                    (path_field(path.as_bytes()))
                                    button.slim type="submit" aria-label={ "Choose again: " (path) } { "Choose again" }
                                }
                            }
                        }
                    }
                }
                @if more > 0 { p.quiet { "and " (more) " more" } }
            }
        }
    }

    fn one(&self, ask: &Ask<'_>, at: &ConflictAt) -> Markup {
        let path = at.path.as_bytes();
        let commit = self.commit.map(|id| link_id(&id)).unwrap_or_default();
        let is_pending = self.pending.contains(&at.path);
        let place = ConflictPlace {
            revision: if is_pending {
                ondisk::REVISION
            } else {
                &commit
            },
            at,
            origins: match self.commit {
                Some(commit) if !is_pending => Origins::of(&ask.repo, commit, at),
                _ => Origins::default(),
            },
        };
        html! {
            section.conflict.card {
                h2 { (at.path) }
                p.quiet { (words_of(at)) }
                div.sides {
                    @for (name, term) in at.versions() { (place.side(ask, &name, term)) }
                }
                div.choices {
                    @if !ask.site.read_only && at.ours().is_some() && at.theirs().is_some() {
                        form method="post" action="/resolve" {
                            (secret(ask.site, "/conflicts"))
                            (path_field(path))
                            button type="submit" name="choice" value="both" { "Keep both" }
                        }
                    }
                    @if at.ours().is_some() && at.theirs().is_some() {
                        a.button href=(sides_link(if is_pending { "" } else { &commit }, path)) { "Compare" }
                    }
                }
            }
        }
    }
}

/// What a conflict is about, in words.
fn words_of(at: &ConflictAt) -> &'static str {
    match (at.ours(), at.theirs()) {
        (None, Some(_)) | (Some(_), None) => {
            "One side has deleted the file, and the other has changed it."
        }
        _ => match at.kind() {
            ConflictKind::AddAdd => "Both sides have added a file of this name.",
            ConflictKind::FileDirectory => "It is a directory on one side, and none on the other.",
            ConflictKind::Type => "It is a file on one side, and a symlink on the other.",
            ConflictKind::Mode => "The content is the same, but only one side is executable.",
            ConflictKind::Symlink => "Both sides have given the symlink another target.",
            ConflictKind::ManySides => {
                "There are more than two versions, because conflicts were merged again."
            }
            ConflictKind::Content | ConflictKind::DeleteModify | ConflictKind::ModifyDelete => {
                "Both sides have changed the file."
            }
        },
    }
}

/// A conflict on its page.
struct ConflictPlace<'a> {
    /// What addresses name for the revision of its versions.
    revision: &'a str,
    at: &'a ConflictAt,
    origins: Origins,
}

impl ConflictPlace<'_> {
    /// One version: who made it and when, what it looks like, and the button that chooses it.
    fn side(&self, ask: &Ask<'_>, name: &str, term: Option<Term>) -> Markup {
        let path = self.at.path.as_bytes();
        let raw = format!("{}?side={name}", link("raw", self.revision, path));
        let entry = term.and_then(|term| {
            let name = SafeName::new(self.at.path.file_name()?).ok()?;
            Some(entry_of(&name, &term, None))
        });
        let origin = self.origins.find(name);
        let title = match (name, origin) {
            ("base", _) => "Before both changes".to_owned(),
            (_, Some(origin)) => origin.who(),
            ("ours", None) => "Your version".to_owned(),
            ("theirs", None) => "The other version".to_owned(),
            (other, None) => clean(other),
        };
        let button = match (name, &entry) {
            ("ours" | "theirs", Some(_)) => Some("Use this version"),
            ("ours" | "theirs", None) => Some("Delete the file"),
            ("base", Some(_)) => Some("Go back to this"),
            _ => None,
        };
        html! {
            figure {
                figcaption {
                    strong { (title) }
                    @if let Some(origin) = origin {
                        span {
                            @if name == "base" { (origin.who()) " \u{00b7} " }
                            "\u{201c}" (subject(&origin.commit.message)) "\u{201d}"
                            @if let Some(branch) = &origin.branch { " on " (clean(branch)) }
                        }
                    }
                }
                @match &entry {
                    None if name == "base" => { p.nothing { "There was no such file." } }
                    None => { p.nothing { "Deleted" } }
                    Some(entry) => {
                        (shown_side(ask, path, entry, &raw, &title))
                        p.quiet {
                            (entry.kind.word()) ", " (bytes(entry.size)) " \u{00b7} "
                            a href={ (raw) "&download" } download { "Download" }
                        }
                    }
                }
                @if let (Some(text), false) = (button, ask.site.read_only) {
                    form method="post" action="/resolve" {
                        (secret(ask.site, "/conflicts"))
                        (path_field(path))
                        button type="submit" name="choice" value=(name) aria-label={ (text) ": " (title) ", " (self.at.path) } { (text) }
                    }
                }
            }
        }
    }
}

/// One version, as far as a page can show it.
fn shown_side(ask: &Ask<'_>, path: &[u8], entry: &TreeEntry, raw: &str, title: &str) -> Markup {
    if !entry.kind.is_blob() {
        return html! { p.quiet { (entry.kind.word()) } };
    }
    match sort_of(path).0 {
        Sort::Picture => {
            html! { img.view src=(raw) alt={ (title) ", " (bytes(entry.size)) } loading="lazy"; }
        }
        Sort::Sound => html! { audio controls preload="metadata" src=(raw) aria-label=(title) {} },
        Sort::Film => {
            html! { video.view controls preload="metadata" src=(raw) aria-label=(title) {} }
        }
        Sort::Raster if has_preview(ask, path) => {
            // The same address, of the preview.
            let large = raw.replacen("/raw/", "/preview/", 1) + "&size=large";
            html! { img.view src=(large) alt={ (title) ", " (bytes(entry.size)) } loading="lazy"; }
        }
        sort => {
            let mut start = Vec::new();
            let range = 0..entry.size.min(MAX_TEXT);
            let read = ask.repo.cat(blob_of(entry), Some(range), &mut start);
            let is_text = read.is_ok() && looks_like_text(&start);
            html! {
                @if is_text {
                    (turned(&String::from_utf8_lossy(&start)))
                    pre.text tabindex="0" aria-label=(title) { code { (String::from_utf8_lossy(&start)) } }
                } @else {
                    span.thumb.mark.big.(class_of(sort)) aria-hidden="true" { (label(path)) }
                    @if read.is_err() { p.quiet { "Its content is not here." } }
                }
            }
        }
    }
}
