//! Parts of several pages: pictures in rows, breadcrumbs, forms, values of commits and paths.

use super::places::link_id;
use crate::address::{encoded, link, log_link};
use crate::kinds::{Sort, ending, sort_of};
use crate::program::{ShownFailure, SignatureWords};
use crate::site::{Ask, Site};
use crate::words::{bytes, minute, rfc3339, shown, subject, turns};
use data_encoding::BASE64;
use dmv_core::hash::ObjectId;
use dmv_core::object::commit::{Commit, Person};
use dmv_core::object::tree::{Kind, TreeEntry};
use dmv_core::repo::SignatureState;
use dmv_preview::Maker;
use maud::{Markup, html};
use serde_json::{Map, Value, json};

/// Pictures up to this size stand in rows as they are.
const MAX_ROW_PICTURE: u64 = 768 << 10;
/// The same where a preview is to be had.
const MAX_TINY_PICTURE: u64 = 48 << 10;

/// A small picture of a file: the file itself if it is a small picture, else a mark for its sort.
/// It is decoration: the name beside it says what it is.
pub fn thumb(ask: &Ask<'_>, revision: &str, path: &[u8], entry: &TreeEntry) -> Markup {
    if entry.kind == Kind::Directory {
        return html! { span.thumb.mark.dir aria-hidden="true" {} };
    }
    if entry.kind == Kind::Conflict {
        return html! { span.thumb.mark.clash aria-hidden="true" { "!" } };
    }
    let is_here = !ask.repo.is_partial() || ask.repo.has_root(root_of(entry)).unwrap_or(false);
    thumb_of(ask, revision, path, is_here.then_some(entry.size))
}

/// The same of a file with so many bytes, or without any bytes that are stored here.
pub fn thumb_of(ask: &Ask<'_>, revision: &str, path: &[u8], size: Option<u64>) -> Markup {
    let (sort, _) = sort_of(path);
    let size = size.filter(|size| *size > 0);
    if sort == Sort::Picture && size.is_some_and(|size| size <= most_as_it_is(path)) {
        return small(&link("raw", revision, path));
    }
    if size.is_some() && has_preview(ask, path) {
        return small(&link("preview", revision, path));
    }
    html! { span.thumb.mark.(class_of(sort)) aria-hidden="true" { (label(path)) } }
}

/// Up to which size a picture stands in rows as it is: if previews know its format, they are smaller.
fn most_as_it_is(path: &[u8]) -> u64 {
    match &ending(path)[..] {
        "svg" | "avif" | "ico" => MAX_ROW_PICTURE,
        _ => MAX_TINY_PICTURE,
    }
}

fn small(address: &str) -> Markup {
    html! {
        img.thumb src=(address) alt="" loading="lazy" decoding="async" width="56" height="40";
    }
}

/// Whether a preview may be made of a file, as far as its name tells.
pub fn has_preview(ask: &Ask<'_>, path: &[u8]) -> bool {
    let by_name = match sort_of(path).0 {
        Sort::Picture | Sort::Raster | Sort::Sound => true,
        Sort::Film => Maker::shows_films(),
        Sort::Scene => ending(path) == "blend",
        _ => matches!(&ending(path)[..], "ttf" | "otf" | "woff" | "woff2"),
    };
    by_name && ask.site.previews.is_some()
}

/// The address of a picture to look at: the file itself if browsers show it, else its preview.
pub fn picture_link(revision: &str, path: &[u8]) -> String {
    match sort_of(path).0 {
        Sort::Picture => link("raw", revision, path),
        _ => link("preview", revision, path) + "?size=large",
    }
}

/// The content of an entry, to ask whether it is here.
pub fn root_of(entry: &TreeEntry) -> dmv_core::object::root::Root {
    dmv_core::object::root::Root::of(entry)
}

/// Says that a text has characters that turn the direction of writing. Content is shown as it is; names are not.
pub fn turned(text: &str) -> Markup {
    html! {
        @if text.contains(turns) {
            p.note.bad { "This text has characters that turn the direction of writing. It may look different from what programs read." }
        }
    }
}

/// The size of an entry for people. A conflict has none: each of its sides does.
pub fn size_of(entry: &TreeEntry) -> String {
    match entry.kind {
        Kind::Conflict => "in conflict".to_owned(),
        _ => bytes(entry.size),
    }
}

/// The class of a sort.
pub fn class_of(sort: Sort) -> &'static str {
    match sort {
        Sort::Picture | Sort::Raster => "pic",
        Sort::Sound => "snd",
        Sort::Film => "mov",
        Sort::Text => "txt",
        Sort::Scene => "scn",
        Sort::Archive => "zip",
        Sort::Other => "any",
    }
}

/// The ending of a name as a mark.
pub fn label(path: &[u8]) -> String {
    let ending = ending(path).to_uppercase();
    match ending.len() {
        1..=5 if ending.is_ascii() => ending,
        _ => "\u{2022}".to_owned(),
    }
}

/// The way from the root to a path, in a commit. The last part is where the page is.
pub fn crumbs(revision: &str, path: &[u8], is_log: bool) -> Markup {
    let names: Vec<&[u8]> = path
        .split(|b| *b == b'/')
        .filter(|n| !n.is_empty())
        .collect();
    let to = |at: usize| {
        let part = names[..at].join(&b'/');
        if is_log {
            log_link(&part)
        } else {
            link("tree", revision, &part)
        }
    };
    html! {
        nav.crumbs aria-label="Path" {
            @if names.is_empty() {
                span aria-current="page" { "all files" }
            } @else {
                a href=(to(0)) { "all files" }
            }
            @for (n, name) in names.iter().enumerate() {
                span.sep aria-hidden="true" { "/" }
                @if n + 1 == names.len() {
                    span aria-current="page" { (shown(name)) }
                } @else {
                    a href=(to(n + 1)) { (shown(name)) }
                }
            }
        }
    }
}

/// The hidden fields of each form: the token, and the page to come back to.
pub fn secret(site: &Site, back: &str) -> Markup {
    html! {
        input type="hidden" name="token" value=(site.secrets.form_token());
        input type="hidden" name="back" value=(back);
    }
}

/// A commit in one line: message, author, time, id.
pub fn commit_line(id: &ObjectId, commit: &Commit) -> Markup {
    html! {
        span.subject { (subject(&commit.message)) }
        span.meta {
            span { (shown(commit.author.name.as_bytes())) }
            (time(&commit.author))
            code { (id.short(8)) }
        }
    }
}

/// Who has signed a commit, for one that is signed.
pub fn signature(ask: &Ask<'_>, id: &ObjectId, commit: &Commit) -> Markup {
    let found = commit.signature.as_ref();
    let found = found.map(|_| ask.site.program.signature(&ask.repo, id));
    html! { @if let Some(found) = found { " " (signature_words(found)) } }
}

/// Who has signed a tag, for one that is signed.
pub fn tag_signature(ask: &Ask<'_>, name: &str) -> Markup {
    let found = ask.site.program.tag_signature(&ask.repo, name);
    let is_signed = |found: &SignatureWords| found.state != SignatureState::None;
    html! { @if found.as_ref().map_or(true, is_signed) { " " (signature_words(found)) } }
}

fn signature_words(found: Result<SignatureWords, ShownFailure>) -> Markup {
    let class = |state| match state {
        SignatureState::Good => "tag ok",
        SignatureState::Bad => "tag deleted",
        SignatureState::UnknownKey | SignatureState::None => "tag",
    };
    match found {
        Ok(found) => html! { span class=(class(found.state)) { (found.told) } },
        Err(told) => html! { span.tag { (told.message) } },
    }
}

/// A time for people, with the exact one for programs.
pub fn time(person: &Person) -> Markup {
    let exact = rfc3339(person);
    // To the second: a page has many of them.
    let (to_second, zone) = match (exact.split_once('.'), exact.len().checked_sub(6)) {
        (Some((to_second, _)), Some(at)) => (to_second, exact.get(at..).unwrap_or_default()),
        _ => (&exact[..], ""),
    };
    html! { time datetime={ (to_second) (zone) } { (minute(person)) } }
}

/// A path that programs read: text, and its bytes where they are not text.
pub fn path_value<P: AsRef<[u8]> + ?Sized>(path: &P) -> Map<String, Value> {
    let path = path.as_ref();
    let mut out = Map::new();
    out.insert("path".to_owned(), json!(String::from_utf8_lossy(path)));
    if std::str::from_utf8(path).is_err() {
        out.insert("path_b64".to_owned(), json!(BASE64.encode(path)));
    }
    out
}

/// A commit as `log --json` has it.
pub fn commit_value(id: &ObjectId, commit: &Commit) -> Value {
    let person = |p: &Person| format!("{} <{}>", p.name, p.email);
    let parents: Vec<String> = commit.parents.iter().map(ToString::to_string).collect();
    json!({
        "id": id.to_string(),
        "parents": parents,
        "tree": commit.tree.to_string(),
        "author": person(&commit.author),
        "time": rfc3339(&commit.author),
        "committer": person(&commit.committer),
        "commit_time": rfc3339(&commit.committer),
        "message": commit.message,
        "bytes": commit.tree_bytes,
        "files": commit.tree_files,
    })
}

/// The address of what an entry shows.
pub fn entry_link(id: &ObjectId, path: &[u8], kind: Kind) -> String {
    match kind {
        Kind::Directory => link("tree", &link_id(id), path),
        _ => link("file", &link_id(id), path),
    }
}

/// The hidden field with a path, encoded as in addresses: forms carry text only.
pub fn path_field(path: &[u8]) -> Markup {
    html! { input type="hidden" name="path" value=(encoded(path)); }
}
