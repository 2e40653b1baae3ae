//! Previews: `/preview/REV/PATH`, made by `dmv-preview` in a process without rights. As `?json`, the
//! facts of a file and the reason why nothing is shown.

use crate::answer::{Answer, RAW_POLICY, answer, json, set, whole};
use crate::kinds::sort_of;
use crate::ondisk::{self, OnDisk};
use crate::pages::parts::{label, root_of};
use crate::pages::places::place;
use crate::program::Stop;
use crate::range::is_known;
use crate::raw::{asked_pending, asked_version};
use crate::site::Ask;
use dmv_core::object::list::Blob;
use dmv_core::object::name::RepoPath;
use dmv_core::object::tree::TreeEntry;
use dmv_core::repo::{Location, Repo, blob_of};
use dmv_preview::{Kind, Maker, Preview, PreviewKind, ReadAt, Reason, Source};
use hyper::StatusCode;
use hyper::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, ETAG, IF_NONE_MATCH};
use maud::html;
use serde_json::{Value, json as value};
use std::io;

/// Sends a preview. Where there is none, a picture in its place says the format.
pub fn send(ask: &Ask<'_>) -> Result<Answer, Stop> {
    if ask.revision()? == ondisk::REVISION {
        return match asked_pending(ask)? {
            Some((path, entry)) => stored(ask, &path, &entry, false),
            None => on_disk(ask),
        };
    }
    let place = place(ask, 2)?;
    let entry = match &place.located {
        Location::Entry(entry) => asked_version(ask, &place, entry)?,
        Location::Root { .. } => return Err(Stop::NoPage),
    };
    stored(ask, &place.path, &entry, place.is_fixed)
}

/// Sends the preview of a file whose content is stored. `is_fixed`: its address always means these bytes.
fn stored(
    ask: &Ask<'_>,
    path: &RepoPath,
    entry: &TreeEntry,
    is_fixed: bool,
) -> Result<Answer, Stop> {
    if !entry.kind.is_blob() {
        return Err(Stop::NoPage);
    }
    if ask.target.json() {
        let facts = make(ask, path, entry, PreviewKind::Metadata);
        let wanted = wanted(ask).0;
        // The one that is asked for comes first.
        let sizes = [wanted, PreviewKind::Large, PreviewKind::Thumbnail];
        let known = sizes.iter().find_map(|size| known(ask, path, entry, *size));
        let make = || facts.is_err().then(|| make(ask, path, entry, wanted));
        return Ok(json(StatusCode::OK, &told(&facts, known.or_else(make))));
    }
    let (wanted, size) = wanted(ask);
    let tag = format!("\"{}-{size}\"", entry.id);
    if is_known(ask.header(IF_NONE_MATCH), &tag) {
        return Ok(answer(StatusCode::NOT_MODIFIED, "text/plain", whole("")));
    }
    Ok(match make(ask, path, entry, wanted) {
        Ok(preview) => {
            let mut sent = picture(preview);
            set(&mut sent, ETAG, &tag);
            let cache = if is_fixed {
                "private, max-age=31536000, immutable"
            } else {
                "private, no-cache"
            };
            set(&mut sent, CACHE_CONTROL, cache);
            sent
        }
        Err(_) => stand_in(path.as_bytes()),
    })
}

/// Which preview is asked for, and its word in tags.
fn wanted(ask: &Ask<'_>) -> (PreviewKind, String) {
    let stops = ask.target.text("stops").and_then(|n| n.parse().ok());
    match (ask.target.text("size"), stops) {
        (Some("large"), Some(0) | None) => (PreviewKind::Large, "large".to_owned()),
        (Some("large"), Some(stops)) => (PreviewKind::Exposed { stops }, format!("large{stops}")),
        _ => (PreviewKind::Thumbnail, "thumb".to_owned()),
    }
}

fn picture(preview: Preview) -> Answer {
    let mut sent = answer(StatusCode::OK, preview.form.mime(), whole(preview.bytes));
    set(&mut sent, CONTENT_SECURITY_POLICY, RAW_POLICY);
    sent
}

/// Sends the preview of a file of the worktree. Nobody keeps it: the file may change at any time.
fn on_disk(ask: &Ask<'_>) -> Result<Answer, Stop> {
    let file = OnDisk::open(&ask.repo, &ask.target.path_from(2))?;
    let name = String::from_utf8_lossy(file.path.file_name().unwrap_or_default()).into_owned();
    let source = Source {
        id: "",
        name: &name,
        len: file.size,
        bytes: &file,
    };
    let make = |wanted| match &ask.site.previews {
        Some(maker) => maker.make_once(&source, wanted),
        None => Err(Reason::new(Kind::NoWorker, "no previews are made here")),
    };
    let wanted = wanted(ask).0;
    if ask.target.json() {
        let facts = make(PreviewKind::Metadata);
        let picture = facts.is_err().then(|| make(wanted));
        return Ok(json(StatusCode::OK, &told(&facts, picture)));
    }
    Ok(match make(wanted) {
        Ok(preview) => picture(preview),
        Err(_) => stand_in(file.path.as_bytes()),
    })
}

/// The preview of a file, or the reason why there is none. Content that is not here is not fetched.
fn make(
    ask: &Ask<'_>,
    path: &RepoPath,
    entry: &TreeEntry,
    wanted: PreviewKind,
) -> Result<Preview, Reason> {
    let Some(maker) = &ask.site.previews else {
        return Err(Reason::new(Kind::NoWorker, "no previews are made here"));
    };
    if ask.repo.is_partial() && !ask.repo.has_root(root_of(entry)).unwrap_or(false) {
        return Err(Reason::new(Kind::Unreadable, "its content is not here"));
    }
    let name = path.file_name().unwrap_or_default();
    let content = Content {
        repo: &ask.repo,
        blob: blob_of(entry),
    };
    let source = Source {
        id: &entry.id.to_string(),
        name: &String::from_utf8_lossy(name),
        len: entry.size,
        bytes: &content,
    };
    maker.make(&source, wanted)
}

/// The reason why a file has no preview, if it is known already.
pub fn known_reason(maker: Option<&Maker>, entry: &TreeEntry, name: &[u8]) -> Option<Reason> {
    let name = String::from_utf8_lossy(name);
    let known = maker?.cached(&entry.id.to_string(), &name, PreviewKind::Large)?;
    known.err()
}

/// What is in the cache of a file's preview.
fn known(
    ask: &Ask<'_>,
    path: &RepoPath,
    entry: &TreeEntry,
    wanted: PreviewKind,
) -> Option<Result<Preview, Reason>> {
    let name = String::from_utf8_lossy(path.file_name().unwrap_or_default());
    let maker = ask.site.previews.as_ref()?;
    maker.cached(&entry.id.to_string(), &name, wanted)
}

/// The facts of a file as JSON, and the reason why it has no picture. A picture can fail although the head of its file is
/// intact, and a film can have a picture although nothing here reads its head; so `picture` decides if it is known.
fn told(facts: &Result<Preview, Reason>, picture: Option<Result<Preview, Reason>>) -> Value {
    let reason = match (&picture, facts) {
        (Some(Ok(_)), _) | (None, Ok(_)) => None,
        (Some(Err(reason)), _) | (None, Err(reason)) => Some(&reason.words),
    };
    let known = facts.as_ref().ok();
    let original = known.or(picture.as_ref().and_then(|made| made.as_ref().ok()));
    let original = original.and_then(|preview| preview.original);
    value!({
        "facts": known.map(|preview| &preview.facts[..]).unwrap_or_default(),
        "width": original.map(|(width, _)| width),
        "height": original.map(|(_, height)| height),
        "reason": reason,
    })
}

/// A file of a commit, as the decoder reads it.
struct Content<'a> {
    repo: &'a Repo,
    blob: Blob,
}

impl ReadAt for Content<'_> {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        let (len, mut rest) = (buf.len() as u64, &mut *buf);
        let range = offset..offset.saturating_add(len);
        let read = self.repo.cat(self.blob, Some(range), &mut rest);
        if read.map_err(io::Error::other)? == len {
            Ok(())
        } else {
            Err(io::ErrorKind::UnexpectedEof.into())
        }
    }
}

/// A picture in place of a preview: the ending of the name, in colours that fit light and dark.
fn stand_in(path: &[u8]) -> Answer {
    let text = label(path);
    let edge = if sort_of(path).0.is_image() {
        "#0b8a76"
    } else {
        "#8a7d1a"
    };
    let picture = html! {
        svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 112 80" width="112" height="80" {
            rect width="112" height="80" fill="#8a867e" fill-opacity=".16" {}
            rect width="5" height="80" fill=(edge) {}
            text x="58" y="46" text-anchor="middle" font-family="monospace" font-weight="700"
                font-size="18" fill="#88847c" { (text) }
        }
    };
    let mut sent = answer(
        StatusCode::OK,
        "image/svg+xml",
        whole(picture.into_string()),
    );
    set(&mut sent, CONTENT_SECURITY_POLICY, RAW_POLICY);
    sent
}

#[cfg(test)]
mod tests {
    use super::*;
    use dmv_preview::Form;

    fn preview(original: (u32, u32)) -> Preview {
        Preview {
            form: Form::Nothing,
            bytes: Vec::new(),
            width: 0,
            height: 0,
            original: Some(original),
            sound: None,
            facts: vec![("format".to_owned(), "TGA".to_owned())],
        }
    }

    fn none(words: &str) -> Result<Preview, Reason> {
        Err(Reason::new(Kind::Unknown, words))
    }

    #[test]
    fn a_reason_is_given_only_where_no_picture_is() {
        let whole = || Ok(preview((6, 3)));
        for (facts, picture, reason) in [
            (whole(), None, None),
            (whole(), Some(whole()), None),
            (whole(), Some(none("cut off")), Some("cut off")),
            // A film: nothing here reads its head, but `ffmpeg` finds a picture in it.
            (none("a film"), Some(whole()), None),
            (none("a film"), Some(none("no ffmpeg")), Some("no ffmpeg")),
            (none("unknown"), None, Some("unknown")),
        ] {
            let told = told(&facts, picture);
            assert_eq!(told["reason"].as_str(), reason, "{facts:?}");
            let facts = told["facts"].as_array().expect("a list");
            assert!(facts.len() <= 1);
        }
    }
}
