//! Commits for WebDAV clients, to read: `/dav/REV/PATH` ([RFC 4918](https://www.rfc-editor.org/rfc/rfc4918), class 1).
//!
//! A file manager, a player or a program that copies sees a commit as a directory. It logs in with a name and a password
//! of this run. Nothing here changes anything, and what a client writes as XML is not read: every listing has the same
//! few properties. A symlink or a conflict has no form that such a client knows, so listings leave it out.

use crate::address::{Target, encoded};
use crate::answer::{Answer, RAW_POLICY, answer, line, set, whole};
use crate::body;
use crate::kinds::sort_of;
use crate::pages::places::place;
use crate::program::Stop;
use crate::raw::{StoredFile, stored};
use crate::site::Ask;
use dmv_core::hash::ObjectId;
use dmv_core::object::commit::Commit;
use dmv_core::object::tree::{Kind, TreeEntry, TreeIter};
use dmv_core::repo::{RefKind, Repo};
use http_body_util::{BodyExt, Limited};
use hyper::StatusCode;
use hyper::body::Incoming;
use hyper::header::{
    ALLOW, CONTENT_SECURITY_POLICY, HeaderMap, HeaderName, HeaderValue, WWW_AUTHENTICATE,
};
use hyper::http::request::Parts;
use jiff::Timestamp;
use jiff::fmt::rfc2822::DateTimePrinter;
use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// The first segment of the addresses.
pub const PAGE: &[u8] = b"dav";
/// Bytes of what a client may say about the listing that it wants.
const MAX_WISH_BYTES: usize = 64 << 10;
/// How long it may take to say so.
const WISH_TIME: Duration = Duration::from_secs(10);
/// Branches and tags that are listed.
const MAX_REVISIONS: usize = 10_000;
/// Entries of a directory that are read for one piece of a listing.
const ENTRIES_AT_ONCE: usize = 500;

const METHODS: &str = "OPTIONS, GET, HEAD, PROPFIND";
const XML: &str = "application/xml; charset=utf-8";
const DAV: HeaderName = HeaderName::from_static("dav");
const AUTHOR_VIA: HeaderName = HeaderName::from_static("ms-author-via");
const DEPTH: HeaderName = HeaderName::from_static("depth");

const HEAD: &str = "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<D:multistatus xmlns:D=\"DAV:\">\n";
const END: &str = "</D:multistatus>\n";
const ONLY_FINITE: &str = "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<D:error xmlns:D=\"DAV:\">\
    <D:propfind-finite-depth/></D:error>\n";

/// How a client logs in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DavLogin {
    /// The address of all branches and tags.
    pub url: String,
    /// The name.
    pub user: String,
    /// The password, which ends with this run.
    pub password: String,
}

/// Whether a request is one for this module.
pub fn is_asked(target: &Target) -> bool {
    target.segments.first().is_some_and(|page| page == PAGE)
}

/// Asks for the name and the password.
pub fn log_in() -> Answer {
    let text = "log in with the name and the password that dmv web has printed";
    let mut asking = line(StatusCode::UNAUTHORIZED, text);
    set(
        &mut asking,
        WWW_AUTHENTICATE,
        "Basic realm=\"dmv web\", charset=\"UTF-8\"",
    );
    asking
}

/// Answers a request that needs no repository: one with another method, and one for the methods.
pub fn early(head: &Parts) -> Option<Answer> {
    let mut told = match head.method.as_str() {
        "GET" | "HEAD" | "PROPFIND" => return None,
        "OPTIONS" => answer(StatusCode::OK, XML, whole("")),
        _ => line(
            StatusCode::METHOD_NOT_ALLOWED,
            "commits do not change: this can only be read",
        ),
    };
    set(&mut told, ALLOW, METHODS);
    set(&mut told, DAV, "1");
    // Without it, Windows tries another protocol first.
    set(&mut told, AUTHOR_VIA, "DAV");
    Some(told)
}

/// Reads what a client says about the listing that it wants, and forgets it.
pub async fn read_wish(body: Incoming) -> Result<(), Box<Answer>> {
    let refuse = |status, text| Err(Box::new(line(status, text)));
    let reading = Limited::new(body, MAX_WISH_BYTES).collect();
    match tokio::time::timeout(WISH_TIME, reading).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(_)) => refuse(
            StatusCode::PAYLOAD_TOO_LARGE,
            "the request is too large or cut off",
        ),
        Err(_) => refuse(
            StatusCode::REQUEST_TIMEOUT,
            "the request did not arrive in time",
        ),
    }
}

/// Sends a file, or lists a directory.
pub fn send(ask: &Ask<'_>) -> Result<Answer, Stop> {
    if ask.head.method.as_str() == "PROPFIND" {
        return match depth(&ask.head.headers) {
            Some(depth) => list(ask, depth),
            None => {
                let mut refused = answer(StatusCode::FORBIDDEN, XML, whole(ONLY_FINITE));
                set(&mut refused, CONTENT_SECURITY_POLICY, RAW_POLICY);
                Ok(refused)
            }
        };
    }
    if ask.target.segments.len() > 1 {
        let place = place(ask, 2)?;
        match place.entry() {
            Some(entry) if is_file(entry) => {
                let file = StoredFile {
                    path: &place.path,
                    entry,
                    is_fixed: place.is_fixed,
                };
                return stored(ask, &file);
            }
            Some(entry) if entry.kind != Kind::Directory => return Err(Stop::NoPage),
            _ => {}
        }
    }
    let text = "this is a directory: open the address with a program for WebDAV";
    let mut refused = line(StatusCode::METHOD_NOT_ALLOWED, text);
    set(&mut refused, ALLOW, "OPTIONS, PROPFIND");
    Ok(refused)
}

/// How much a listing has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Depth {
    /// What the address names.
    Itself,
    /// Also what is in that directory.
    Entries,
}

/// Without the header a client wants everything below, which nobody gets.
fn depth(headers: &HeaderMap) -> Option<Depth> {
    let mut given = headers.get_all(DEPTH).iter().map(HeaderValue::as_bytes);
    match (given.next(), given.next()) {
        (Some(b"0"), None) => Some(Depth::Itself),
        (Some(b"1"), None) => Some(Depth::Entries),
        _ => None,
    }
}

fn list(ask: &Ask<'_>, depth: Depth) -> Result<Answer, Stop> {
    if ask.target.segments.len() == 1 {
        return list_revisions(&ask.repo, depth);
    }
    let place = place(ask, 2)?;
    let revision = ask.revision()?;
    let mut href = format!("/dav/{}", encoded(revision.as_bytes()));
    for name in place.path.as_bytes().split(|b| *b == b'/') {
        if !name.is_empty() {
            href = format!("{href}/{}", encoded(name));
        }
    }
    let time = time_of(&place.commit);
    let mut text = HEAD.to_owned();
    match place.entry() {
        Some(entry) if is_file(entry) => push_entry(&mut text, &href, entry, time),
        Some(entry) if entry.kind != Kind::Directory => return Err(Stop::NoPage),
        entry => {
            let name = entry.map_or(revision.as_bytes(), |entry| entry.name.as_bytes());
            push_directory(&mut text, &format!("{href}/"), name, time);
        }
    }
    let tree = place.located.tree().filter(|_| depth == Depth::Entries);
    let Some(tree) = tree else {
        text.push_str(END);
        return Ok(listing(whole(text)));
    };
    Ok(listing(body::of_maker(Entries {
        repo: ask.repo.clone(),
        tree,
        href,
        time,
        head: Some(text),
        last: None,
    })))
}

/// The entries of a directory as text, made while it is sent.
struct Entries {
    repo: Arc<Repo>,
    tree: ObjectId,
    /// The address of the directory, without a slash at its end.
    href: String,
    time: Option<Timestamp>,
    /// What stands before all entries.
    head: Option<String>,
    /// The last name that was read.
    last: Option<Vec<u8>>,
}

impl body::PartMaker for Entries {
    fn next_part(&mut self) -> io::Result<Option<Vec<u8>>> {
        let mut text = match (self.head.take(), &self.last) {
            (Some(head), _) => head,
            (None, Some(_)) => String::new(),
            (None, None) => return Ok(None),
        };
        let last = self.last.take();
        let start = last.as_deref().unwrap_or_default();
        let entries = TreeIter::starting_at(self.repo.objects(), self.tree, start);
        let skipped = usize::from(last.is_some());
        for entry in entries.skip(skipped).take(ENTRIES_AT_ONCE) {
            let entry = entry.map_err(io::Error::other)?;
            let href = format!("{}/{}", self.href, encoded(entry.name.as_bytes()));
            push_entry(&mut text, &href, &entry, self.time);
            self.last = Some(entry.name.as_bytes().to_vec());
        }
        if self.last.is_none() {
            text.push_str(END);
        }
        Ok(Some(text.into_bytes()))
    }
}

/// Lists the branches and tags. One with a slash in its name has an address (`%2F`), but clients take the slash for one
/// between directories, so it is not listed.
fn list_revisions(repo: &Repo, depth: Depth) -> Result<Answer, Stop> {
    let mut text = HEAD.to_owned();
    push_directory(&mut text, "/dav/", b"dav", None);
    let mut seen = BTreeSet::new();
    for kind in [RefKind::Branch, RefKind::Tag] {
        let found = match depth {
            Depth::Itself => Vec::new(),
            Depth::Entries => repo.list_refs(kind)?,
        };
        let listed = found.into_iter().filter(|one| !one.name.contains('/'));
        for one in listed.take(MAX_REVISIONS) {
            let Some(commit) = one.commit else { continue };
            if seen.insert(one.name.clone()) {
                // A commit that is absent here has no time.
                let time = repo.read_commit(&commit).ok();
                let time = time.as_ref().and_then(time_of);
                let href = format!("/dav/{}/", encoded(one.name.as_bytes()));
                push_directory(&mut text, &href, one.name.as_bytes(), time);
            }
        }
    }
    text.push_str(END);
    Ok(listing(whole(text)))
}

fn listing(body: crate::answer::Body) -> Answer {
    let mut listing = answer(StatusCode::MULTI_STATUS, XML, body);
    set(&mut listing, CONTENT_SECURITY_POLICY, RAW_POLICY);
    set(&mut listing, DAV, "1");
    listing
}

fn is_file(entry: &TreeEntry) -> bool {
    matches!(entry.kind, Kind::File | Kind::Executable)
}

/// Adds one entry of a directory; nothing for what such a client does not know.
fn push_entry(text: &mut String, href: &str, entry: &TreeEntry, time: Option<Timestamp>) {
    let name = entry.name.as_bytes();
    if entry.kind == Kind::Directory {
        return push_directory(text, &format!("{href}/"), name, time);
    }
    if !is_file(entry) {
        return;
    }
    let own = entry
        .modified()
        .and_then(|time| Timestamp::new(time.seconds, i32::try_from(time.nanos).ok()?).ok());
    let kind = sort_of(name).1.unwrap_or("application/octet-stream");
    begin(text, href, name, own.or(time));
    text.push_str("<D:resourcetype/>");
    text.push_str(&format!(
        "<D:getcontentlength>{}</D:getcontentlength><D:getcontenttype>{kind}</D:getcontenttype>\
         <D:getetag>\"{}\"</D:getetag>",
        entry.size, entry.id
    ));
    end(text);
}

fn push_directory(text: &mut String, href: &str, name: &[u8], time: Option<Timestamp>) {
    begin(text, href, name, time);
    text.push_str("<D:resourcetype><D:collection/></D:resourcetype>");
    end(text);
}

/// The begin of an entry. An address has no characters that mean something in XML.
fn begin(text: &mut String, href: &str, name: &[u8], time: Option<Timestamp>) {
    text.push_str("<D:response><D:href>");
    text.push_str(href);
    text.push_str("</D:href><D:propstat><D:prop><D:displayname>");
    push_text(text, name);
    text.push_str("</D:displayname>");
    let time = time.and_then(|time| {
        let shown = DateTimePrinter::new().timestamp_to_rfc9110_string(&time);
        Some((shown.ok()?, time))
    });
    if let Some((shown, time)) = time {
        text.push_str(&format!(
            "<D:getlastmodified>{shown}</D:getlastmodified><D:creationdate>{time:.0}</D:creationdate>"
        ));
    }
}

fn end(text: &mut String) {
    text.push_str("</D:prop><D:status>HTTP/1.1 200 OK</D:status></D:propstat></D:response>\n");
}

/// Adds a name as XML may have it: bytes that are no text, and characters that XML does not know, become `\u{fffd}`.
fn push_text(out: &mut String, name: &[u8]) {
    for c in String::from_utf8_lossy(name).chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
}

fn time_of(commit: &Commit) -> Option<Timestamp> {
    let person = &commit.committer;
    Timestamp::new(person.seconds, i32::try_from(person.nanos).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_text_in_xml() {
        let told = |name: &[u8]| {
            let mut text = String::new();
            push_text(&mut text, name);
            text
        };
        assert_eq!(told(b"<a>&\"]]>"), "&lt;a&gt;&amp;&quot;]]&gt;");
        assert_eq!(
            told(b"a\xff\x01\x1b\x7f"),
            "a\u{fffd}\u{fffd}\u{fffd}\u{fffd}"
        );
        assert_eq!(
            told("a\u{ffff}\u{85}\u{1f600}".as_bytes()),
            "a\u{fffd}\u{fffd}\u{1f600}"
        );
    }

    #[test]
    fn only_a_small_depth_is_one() {
        let depth_of = |given: &[&'static str]| {
            let mut headers = HeaderMap::new();
            for one in given {
                headers.append(DEPTH, HeaderValue::from_static(one));
            }
            depth(&headers)
        };
        assert_eq!(depth_of(&["0"]), Some(Depth::Itself));
        assert_eq!(depth_of(&["1"]), Some(Depth::Entries));
        for other in [
            &[][..],
            &["infinity"],
            &["2"],
            &["-1"],
            &["99999999999999999999"],
            &["1", "1"],
            &["1,noroot"],
        ] {
            assert_eq!(depth_of(other), None, "{other:?}");
        }
    }

    #[test]
    fn what_would_write_is_refused() {
        let told = |method: &str| {
            let request = hyper::Request::builder()
                .method(method)
                .body(())
                .expect("a request");
            early(&request.into_parts().0).map(|answer| answer.status())
        };
        for method in [
            "PUT",
            "DELETE",
            "MKCOL",
            "COPY",
            "MOVE",
            "PROPPATCH",
            "LOCK",
            "UNLOCK",
            "POST",
            "X",
        ] {
            assert_eq!(
                told(method),
                Some(StatusCode::METHOD_NOT_ALLOWED),
                "{method}"
            );
        }
        assert_eq!(told("OPTIONS"), Some(StatusCode::OK));
        for method in ["GET", "HEAD", "PROPFIND"] {
            assert_eq!(told(method), None);
        }
    }
}
