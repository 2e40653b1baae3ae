//! A file of a commit: `/file/REV/PATH`, with a large view and a strip of all its versions.

use super::claims;
use super::copies;
use super::layout::{self, Part};
use super::parts::{
    commit_line, commit_value, crumbs, path_field, path_value, secret, signature, thumb, time,
};
use super::places::{CommitPath, link_id, place};
use super::view::{FileView, words};
use crate::address::{link, log_link};
use crate::answer::{Answer, redirect};
use crate::ondisk;
use crate::preview::known_reason;
use crate::program::Stop;
use crate::site::Ask;
use crate::words::{bytes, day, number, shown, subject};
use dmv_core::hash::ObjectId;
use dmv_core::history::paths::{FindFormerPath, PathLog};
use dmv_core::object::commit::Commit;
use dmv_core::object::name::RepoPath;
use dmv_core::object::root::{Lack, Root};
use dmv_core::object::tree::{Kind, TreeEntry};
use dmv_core::repo::{LackOf, Location, Purge, Repo, RepoError, Selection, blob_of};
use dmv_core::subset::Subset;
use maud::{Markup, html};
use serde_json::{Value, json};
use std::cell::RefCell;

/// Versions in the strip.
const MAX_VERSIONS: usize = 24;
/// Commits that are looked at for them.
const MAX_VISITED: usize = 20_000;
/// From so many files on, nobody counts what is absent below a directory.
const MAX_COUNTED: u64 = 20_000;

/// Shows a file.
pub fn show(ask: &Ask<'_>) -> Result<Answer, Stop> {
    let place = place(ask, 2)?;
    let Some(entry) = place.entry().cloned() else {
        return Ok(redirect(&link("tree", &place.link(), b"")));
    };
    if entry.kind == Kind::Directory {
        return Ok(redirect(&link(
            "tree",
            &place.link(),
            place.path.as_bytes(),
        )));
    }
    let versions = versions(&ask.repo, &place)?;
    let page = FilePage {
        is_newest: is_newest(&ask.repo, &place)?,
        place,
        entry,
        versions,
    };
    let title = page.place.path.file_name().map(shown).unwrap_or_default();
    Ok(layout::answer(
        ask,
        Part::Files,
        &title,
        || page.values(),
        || page.page(ask),
    ))
}

/// Whether the worktree's commit has the same file at this path, so that restoring it would change nothing.
fn is_newest(repo: &Repo, place: &CommitPath) -> Result<bool, Stop> {
    let Some(base) = repo.base_commit()? else {
        return Ok(false);
    };
    let commit = repo.read_commit(&base)?;
    let there = repo.locate("", &commit, &place.path);
    Ok(match (there, place.entry()) {
        (Ok(Location::Entry(there)), Some(here)) => there.same_content(here),
        _ => false,
    })
}

/// A version of the file.
struct Version {
    id: ObjectId,
    commit: Commit,
    path: RepoPath,
    entry: TreeEntry,
}

struct FilePage {
    place: CommitPath,
    entry: TreeEntry,
    versions: Vec<Version>,
    /// Whether the worktree's commit has the same file.
    is_newest: bool,
}

impl FilePage {
    fn path(&self) -> &[u8] {
        self.place.path.as_bytes()
    }

    fn values(&self) -> Value {
        let mut out = path_value(self.path());
        let versions = self.versions.iter().map(|v| {
            let mut value = path_value(v.path.as_bytes());
            value.insert("commit".to_owned(), commit_value(&v.id, &v.commit));
            value.insert("id".to_owned(), json!(v.entry.id.to_string()));
            value.insert("size".to_owned(), json!(v.entry.size));
            Value::Object(value)
        });
        let versions: Vec<Value> = versions.collect();
        out.insert("commit".to_owned(), json!(self.place.id.to_string()));
        out.insert("kind".to_owned(), json!(self.entry.kind.word()));
        out.insert("size".to_owned(), json!(self.entry.size));
        out.insert("id".to_owned(), json!(self.entry.id.to_string()));
        out.insert(
            "raw".to_owned(),
            json!(link("raw", &self.place.link(), self.path())),
        );
        out.insert("versions".to_owned(), json!(versions));
        Value::Object(out)
    }

    fn page(&self, ask: &Ask<'_>) -> Markup {
        let revision = self.place.link();
        let raw = link("raw", &revision, self.path());
        let absent = absent_part(ask, &self.place, &|back| secret(ask.site, back));
        let is_here = absent.0.is_empty();
        html! {
            (crumbs(&revision, self.path(), false))
            div.bar {
                h1 { (self.place.path.file_name().map(shown).unwrap_or_default()) }
                p.quiet { (bytes(self.entry.size)) }
                div.tools {
                    a.button href=(log_link(self.path())) { "History" }
                    @if ondisk::size_of(&ask.repo, &self.place.path).is_some() && self.entry.kind.is_blob() {
                        a.button href=(ondisk::compare_link(&revision, self.path())) { "Compare with your file" }
                    }
                    @if is_here && self.entry.kind != Kind::Conflict {
                        a.button href={ (raw) "?download" } download { "Download" }
                    }
                    @if self.is_newest {
                        span.button.off aria-disabled="true" { "This is the newest version" }
                    } @else if !ask.site.read_only && ask.repo.worktree_root().is_some() {
                        form method="post" action="/restore" {
                            (secret(ask.site, &link("file", &revision, self.path())))
                            input type="hidden" name="revision" value=(revision);
                            (path_field(self.path()))
                            button type="submit" { "Restore this version" }
                        }
                    }
                }
            }
            p.incommit { "In commit " (commit_line(&self.place.id, &self.place.commit)) (signature(ask, &self.place.id, &self.place.commit)) }
            @if is_here {
                (self.viewer(ask))
            } @else {
                (absent)
            }
            (self.strip(ask))
            (claims::section(ask, &self.place.path, &link("file", &revision, self.path())))
            (self.facts(ask, is_here))
        }
    }

    fn viewer(&self, ask: &Ask<'_>) -> Markup {
        match self.entry.kind {
            Kind::Conflict => {
                return html! { div.stage.words {
                    p { "This file has an unresolved conflict." }
                    p { a.button href="/conflicts" { "Show the conflict" } }
                } };
            }
            Kind::Symlink => return self.symlink(ask),
            _ => {}
        }
        self.view(ask, |view| view.show(ask))
    }

    fn view<T>(&self, ask: &Ask<'_>, work: impl FnOnce(&FileView<'_>) -> T) -> T {
        let name = self.place.path.file_name().unwrap_or_default();
        let reason = known_reason(ask.site.previews.as_ref(), &self.entry, name);
        let start = |len| {
            let mut start = Vec::new();
            let read = ask.repo.cat(blob_of(&self.entry), Some(0..len), &mut start);
            read.is_ok().then_some(start)
        };
        work(&FileView {
            revision: &self.place.link(),
            path: self.path(),
            size: self.entry.size,
            reason: reason.map(|reason| reason.words),
            start: &start,
        })
    }

    fn symlink(&self, ask: &Ask<'_>) -> Markup {
        match ask.repo.link_target(&self.entry) {
            Ok(target) => {
                html! { div.stage.words { p { "A symlink to " code { (shown(&target)) } } } }
            }
            Err(_) => words(self.path(), "The target of this symlink cannot be read."),
        }
    }

    /// All versions, newest first; any two can be compared.
    fn strip(&self, ask: &Ask<'_>) -> Markup {
        if self.versions.is_empty() {
            return html! {};
        }
        let here = |v: &Version| v.entry.id == self.entry.id;
        let newest_here = self.versions.iter().position(here);
        let text = |v: &Version| String::from_utf8_lossy(v.path.as_bytes()).into_owned();
        let place = |v: &Version| format!("{}:{}", link_id(&v.id), text(v));
        let is_text = |v: &Version| std::str::from_utf8(v.path.as_bytes()).is_ok();
        html! {
            section.versions aria-labelledby="versions" {
                form action="/compare" {
                    div.bar {
                        h2 #versions { "Versions" }
                        @if self.versions.len() > 1 {
                            div.tools { button type="submit" { "Compare A with B" } }
                        }
                    }
                    ol.strip {
                        @for (n, v) in self.versions.iter().enumerate() {
                            li.now[Some(n) == newest_here] {
                                a href=(link("file", &link_id(&v.id), v.path.as_bytes()))
                                    aria-current=[(Some(n) == newest_here).then_some("true")] {
                                    (thumb(ask, &link_id(&v.id), v.path.as_bytes(), &v.entry))
                                    span.label { (subject(&v.commit.message)) }
                                    span.quiet { (time(&v.commit.author)) " \u{00b7} " span.size { (bytes(v.entry.size)) } }
                                }
                                @if self.versions.len() > 1 && is_text(v) {
                                    span.pick {
                                        label { input type="radio" name="a" value=(place(v)) checked[n == 1]; " A" }
                                        label { input type="radio" name="b" value=(place(v)) checked[n == 0]; " B" }
                                    }
                                }
                            }
                        }
                    }
                    @if self.versions.len() == MAX_VERSIONS {
                        p.quiet { "Older versions: " a href=(log_link(self.path())) { "History" } }
                    }
                }
            }
        }
    }

    fn facts_link(&self, ask: &Ask<'_>) -> Option<String> {
        let is_file = self.entry.kind.is_blob();
        is_file.then(|| self.view(ask, |view| view.facts_link(ask)))?
    }

    fn facts(&self, ask: &Ask<'_>, is_here: bool) -> Markup {
        html! {
            section aria-labelledby="facts" {
                h2 #facts { "Details" }
                dl.facts data-facts=[self.facts_link(ask)] {
                    dt { "Path" } dd { (shown(self.path())) }
                    dt { "Kind" } dd { (self.entry.kind.word()) }
                    dt { "Size" } dd { (bytes(self.entry.size)) " (" (number(self.entry.size)) " bytes)" }
                    dt { "Content id" } dd { code { (self.entry.id.to_string()) } }
                    dt { "Commit" } dd { code { (self.place.id.to_string()) } }
                    (copies::of_file(ask, &self.place, is_here))
                }
            }
        }
    }
}

/// The address of the versions of a file.
pub fn versions_link(revision: &str, path: &[u8]) -> String {
    link("file", revision, path) + "#versions"
}

/// What is absent at a place, with a button that gets it; nothing if all is here.
pub fn absent_part(ask: &Ask<'_>, place: &CommitPath, secret: &dyn Fn(&str) -> Markup) -> Markup {
    let all = Subset::everything();
    let wanted = Selection {
        path: &place.path,
        located: &place.located,
        subset: &all,
    };
    if !ask.repo.is_partial() {
        return html! {};
    }
    let slice = ask.repo.slice().unwrap_or_default();
    if let Some(purge) = place.entry().and_then(|entry| slice.purge_of(&entry.id)) {
        return purged_part(purge);
    }
    if slice.is_complete() {
        return html! {};
    }
    let is_purged = |lack: &Lack| match lack.root {
        Root::Blob(blob) => slice.purge_of(&blob.id).is_some(),
        _ => false,
    };
    let is_countable = wanted.totals().1 <= MAX_COUNTED;
    let lacks = match is_countable.then(|| ask.repo.lacking(wanted, LackOf::Content)) {
        Some(Ok(mut lacks)) => {
            lacks.retain(|lack| !is_purged(lack));
            if lacks.is_empty() {
                return html! {};
            }
            lacks
        }
        _ => Vec::new(),
    };
    let (is_busy, ended) = ask.site.getting.told(place.path.as_bytes());
    let size: u64 = lacks
        .iter()
        .map(|lack| match lack.root {
            Root::Blob(blob) => blob.size,
            Root::Directory { bytes, .. } => bytes,
            _ => 0,
        })
        .sum();
    let names: Vec<String> = ask
        .site
        .program
        .remotes()
        .unwrap_or_default()
        .into_iter()
        .map(|(name, _)| name)
        .collect();
    let page = if place.entry().is_some_and(|e| e.kind != Kind::Directory) {
        "file"
    } else {
        "tree"
    };
    html! {
        div.stage.words.absent data-getting[is_busy] {
            p { strong {
                @if lacks.is_empty() { "Some of this content may not be here." }
                @else { "Not here: " (bytes(size)) }
            } }
            @match &ended {
                Some(Err(told)) => { p.bad role="alert" { (shown(told.message.as_bytes())) } }
                _ => {
                    p.quiet {
                        @if names.is_empty() { "No remote is configured that may have it." }
                        @else { "It may be at " (shown(names.join(", ").as_bytes())) "." }
                    }
                }
            }
            @if is_busy {
                p { progress aria-label="Getting content" {} " " span.quiet data-progress { "on its way" } }
            } @else if !ask.site.read_only && !names.is_empty() {
                form method="post" action="/get" {
                    (secret(&link(page, &place.link(), place.path.as_bytes())))
                    input type="hidden" name="revision" value=(place.link());
                    (path_field(place.path.as_bytes()))
                    button.primary type="submit" { "Get it" }
                }
            }
        }
    }
}

/// Says that content was purged: no button gets it.
fn purged_part(purge: &Purge) -> Markup {
    let Purge { at, by, reason } = purge;
    html! {
        div.stage.words.absent {
            p { strong { "Purged " (day(*at)) " by " (shown(by.as_bytes())) } }
            p.quiet { (shown(reason.as_bytes())) }
        }
    }
}

/// The versions of the file, newest first, from the commit of the place and its branch on.
fn versions(repo: &Repo, place: &CommitPath) -> Result<Vec<Version>, Stop> {
    // From the newest commit if that has this history, so that later versions are in the strip.
    let head = repo.head_commit()?.unwrap_or(place.id);
    let newest = match repo.read_commit(&head) {
        Ok(commit) if repo.locate("", &commit, &place.path).is_ok() => head,
        _ => place.id,
    };
    let found = versions_from(repo, newest, &place.path)?;
    let here = place.entry().map(|entry| entry.id);
    let has_it = found.iter().any(|v| Some(v.entry.id) == here);
    if newest != place.id && !has_it && found.len() < MAX_VERSIONS {
        return versions_from(repo, place.id, &place.path);
    }
    Ok(found)
}

fn versions_from(repo: &Repo, tip: ObjectId, path: &RepoPath) -> Result<Vec<Version>, Stop> {
    let paths = [path.clone()];
    let changed = repo.changed_paths(&paths);
    let mut log = PathLog::new(repo.objects(), &changed, &[tip], &paths)?;
    let now = RefCell::new(path.clone());
    let job = dmv_core::Job::default();
    let moved = |parent: &ObjectId, child: &ObjectId, path: &RepoPath| {
        let before = repo.path_before(parent, child, path, &job)?;
        Ok::<_, RepoError>(before)
    };
    let mut out: Vec<Version> = Vec::new();
    let mut visited_count = 0;
    while out.len() < MAX_VERSIONS && visited_count < MAX_VISITED {
        let before = RefCell::new(None);
        let mut noted = |parent: &ObjectId, child: &ObjectId, path: &RepoPath| {
            let found = moved(parent, child, path)?;
            if found.is_some() {
                *before.borrow_mut() = found.clone();
            }
            Ok(found)
        };
        let follow: &mut FindFormerPath<'_, RepoError> = &mut noted;
        let Some(visited) = log.advance(Some(follow))? else {
            break;
        };
        visited_count += 1;
        if visited.shown {
            let path = now.borrow().clone();
            // A commit that deleted the file has no version of it.
            if let Ok(Location::Entry(entry)) = repo.locate("", &visited.commit, &path) {
                out.push(Version {
                    id: visited.id,
                    commit: visited.commit,
                    path,
                    entry,
                });
            }
        }
        if let Some(found) = before.into_inner() {
            *now.borrow_mut() = found;
        }
    }
    Ok(out)
}
