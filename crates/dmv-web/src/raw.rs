//! Files as they are: `/raw/COMMIT/PATH`, whole or a range of bytes.

use crate::address::encoded;
use crate::answer::{Answer, RAW_POLICY, answer, line, set, whole};
use crate::body;
use crate::kinds::sort_of;
use crate::ondisk::{self, OnDisk};
use crate::pages::places::{CommitPath, place};
use crate::program::Stop;
use crate::range::{Part, is_known, may_be_part, part};
use crate::site::Ask;
use crate::words::turns;
use dmv_core::merge::entry_of;
use dmv_core::object::conflict::Term;
use dmv_core::object::name::{RepoPath, SafeName};
use dmv_core::object::tree::{Kind, TreeEntry};
use dmv_core::repo::{ConflictAt, Location, LookError, Repo, RepoError, blob_of};
use hyper::StatusCode;
use hyper::header::{
    ACCEPT_RANGES, CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_LENGTH, CONTENT_RANGE,
    CONTENT_SECURITY_POLICY, ETAG, HeaderName, IF_NONE_MATCH, IF_RANGE, RANGE,
};
use std::ops::Range;
use std::sync::Arc;

/// Sends the file, or a part of it.
pub fn send(ask: &Ask<'_>) -> Result<Answer, Stop> {
    if ask.revision()? == ondisk::REVISION {
        return match asked_pending(ask)? {
            Some((path, entry)) => stored(
                ask,
                &StoredFile {
                    path: &path,
                    entry: &entry,
                    is_fixed: false,
                },
            ),
            None => on_disk(ask),
        };
    }
    let place = place(ask, 2)?;
    let entry = match &place.located {
        Location::Entry(entry) => asked_version(ask, &place, entry)?,
        Location::Root { .. } => return Err(wrong(&place.path, "a directory")),
    };
    stored(
        ask,
        &StoredFile {
            path: &place.path,
            entry: &entry,
            is_fixed: place.is_fixed,
        },
    )
}

/// A file whose content is stored.
pub struct StoredFile<'a> {
    /// Its path.
    pub path: &'a RepoPath,
    /// Its entry.
    pub entry: &'a TreeEntry,
    /// Whether its address always means these bytes.
    pub is_fixed: bool,
}

/// Sends such a file, or a part of it.
pub fn stored(ask: &Ask<'_>, place: &StoredFile<'_>) -> Result<Answer, Stop> {
    let entry = place.entry;
    if entry.kind == Kind::Symlink {
        return link(ask, place);
    }
    if !matches!(entry.kind, Kind::File | Kind::Executable) {
        return Err(wrong(place.path, "a directory"));
    }
    let tag = format!("\"{}\"", entry.id);
    if is_known(ask.header(IF_NONE_MATCH), &tag) {
        let mut known = answer(StatusCode::NOT_MODIFIED, TEXT, whole(""));
        describe(&mut known, place.path.as_bytes(), ask);
        describe_version(&mut known, place, &tag);
        return Ok(known);
    }
    let header = ask
        .header(RANGE)
        .filter(|_| may_be_part(ask.header(IF_RANGE), &tag));
    let (status, range) = match part(header, entry.size) {
        Part::Whole => (StatusCode::OK, 0..entry.size),
        Part::Bytes(range) => (StatusCode::PARTIAL_CONTENT, range),
        Part::Beyond => return Ok(beyond(entry.size)),
    };
    // What is absent is said before anything is sent.
    ask.repo
        .check_range_here(place.path, blob_of(entry), range.clone())?;
    let from = body::From::Commit(ask.repo.clone(), blob_of(entry));
    let mut sent = content(
        ask,
        place.path.as_bytes(),
        from,
        (status, range),
        entry.size,
    );
    describe_version(&mut sent, place, &tag);
    Ok(sent)
}

/// Sends a file of the worktree. It may change at any time, so nobody keeps it, and only a range that
/// names no version of it is served.
fn on_disk(ask: &Ask<'_>) -> Result<Answer, Stop> {
    let file = OnDisk::open(&ask.repo, &ask.target.path_from(2))?;
    let (path, size) = (file.path.as_bytes().to_vec(), file.size);
    let header = ask.header(RANGE).filter(|_| ask.header(IF_RANGE).is_none());
    let which = match part(header, size) {
        Part::Whole => (StatusCode::OK, 0..size),
        Part::Bytes(range) => (StatusCode::PARTIAL_CONTENT, range),
        Part::Beyond => return Ok(beyond(size)),
    };
    let from = body::From::Disk(Arc::new(file));
    Ok(content(ask, &path, from, which, size))
}

/// Bytes of a file with the headers that describe them.
fn content(
    ask: &Ask<'_>,
    path: &[u8],
    bytes: body::From,
    (status, range): (StatusCode, Range<u64>),
    size: u64,
) -> Answer {
    let kind = sort_of(path).1.unwrap_or(BYTES);
    let (from, to) = (range.start, range.end);
    let mut sent = answer(status, kind, body::of_file(bytes, range));
    describe(&mut sent, path, ask);
    set(&mut sent, CONTENT_LENGTH, &(to - from).to_string());
    if status == StatusCode::PARTIAL_CONTENT {
        let span = format!("bytes {from}-{}/{size}", to - 1);
        set(&mut sent, CONTENT_RANGE, &span);
    }
    sent
}

fn beyond(size: u64) -> Answer {
    let mut beyond = line(StatusCode::RANGE_NOT_SATISFIABLE, "the file ends before");
    set(&mut beyond, CONTENT_RANGE, &format!("bytes */{size}"));
    beyond
}

const TEXT: &str = "text/plain; charset=utf-8";
const BYTES: &str = "application/octet-stream";

/// The headers of a version of a file: its id, and for how long it may be kept.
fn describe_version(sent: &mut Answer, place: &StoredFile<'_>, tag: &str) {
    set(sent, ETAG, tag);
    // The bytes behind the id of a commit never change.
    let cache = if place.is_fixed {
        "private, max-age=31536000, immutable"
    } else {
        "private, no-cache"
    };
    set(sent, CACHE_CONTROL, cache);
}

/// The headers of content: it may do nothing, and has the name of the file.
fn describe(sent: &mut Answer, path: &[u8], ask: &Ask<'_>) {
    set(sent, CONTENT_SECURITY_POLICY, RAW_POLICY);
    set(sent, ACCEPT_RANGES, "bytes");
    let shown = sort_of(path).1.is_some();
    let way = if shown && ask.target.value("download").is_none() {
        "inline"
    } else {
        "attachment"
    };
    set(
        sent,
        CONTENT_DISPOSITION,
        &disposition(way, path.rsplit(|b| *b == b'/').next()),
    );
}

/// `inline` or `attachment`, with the name of the file. Characters that break a line or turn the direction of writing
/// would make the name on disk look like another one: they become `_`.
pub fn disposition(way: &str, name: Option<&[u8]>) -> String {
    let Some(name) = name else {
        return way.to_owned();
    };
    let lies = |c: char| c.is_control() || turns(c);
    let name = match std::str::from_utf8(name) {
        Ok(text) => text.replace(lies, "_").into_bytes(),
        Err(_) => name.to_vec(),
    };
    format!("{way}; filename*=UTF-8''{}", encoded(&name))
}

/// The version of an entry that an address names.
pub fn asked_version(
    ask: &Ask<'_>,
    place: &CommitPath,
    entry: &TreeEntry,
) -> Result<TreeEntry, Stop> {
    version(&ask.repo, &place.path, entry, ask.target.text("side"))
}

/// One version of a conflict; of other entries the entry.
pub fn version(
    repo: &Repo,
    path: &RepoPath,
    entry: &TreeEntry,
    side: Option<&str>,
) -> Result<TreeEntry, Stop> {
    if entry.kind != Kind::Conflict {
        return Ok(entry.clone());
    }
    let side = side.ok_or_else(|| wrong(path, "an unresolved conflict"))?;
    let term = term_of(&repo.conflict_of(path, entry)?, side);
    Ok(entry_of(&entry.name, &term.ok_or(Stop::NoPage)?, None))
}

fn term_of(at: &ConflictAt, side: &str) -> Option<Term> {
    let mut versions = at.versions().into_iter();
    versions
        .find(|(name, _)| name == side)
        .and_then(|(_, term)| term)
}

/// One version of a conflict that no commit has yet: `/raw/:/PATH?side=SIDE`. `None`: the address asks for the file.
pub fn asked_pending(ask: &Ask<'_>) -> Result<Option<(RepoPath, TreeEntry)>, Stop> {
    let Some(side) = ask.target.text("side") else {
        return Ok(None);
    };
    pending_version(&ask.repo, &ask.target.path_from(2), side).map(Some)
}

/// One version of the conflict at a path that no commit has yet.
pub fn pending_version(
    repo: &Repo,
    path: &[u8],
    side: &str,
) -> Result<(RepoPath, TreeEntry), Stop> {
    let path = Repo::parse_path(path)?;
    let at = repo.pending_conflict(&path)?.ok_or(Stop::NoPage)?;
    let term = term_of(&at, side).ok_or(Stop::NoPage)?;
    let name = path.file_name().and_then(|name| SafeName::new(name).ok());
    let entry = entry_of(&name.ok_or(Stop::NoPage)?, &term, None);
    Ok((path, entry))
}

/// A symlink leads nowhere here: its target is text.
fn link(ask: &Ask<'_>, place: &StoredFile<'_>) -> Result<Answer, Stop> {
    let entry = place.entry;
    let target = ask.repo.link_target(entry)?;
    let mut sent = answer(StatusCode::OK, TEXT, whole(target));
    describe(&mut sent, place.path.as_bytes(), ask);
    describe_version(&mut sent, place, &format!("\"{}\"", entry.id));
    sent.headers_mut()
        .remove(HeaderName::from_static("accept-ranges"));
    Ok(sent)
}

fn wrong(path: &RepoPath, what: &'static str) -> Stop {
    Stop::Repo(RepoError::Look(LookError::WrongKind {
        path: path.clone(),
        what,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_to_save_under_does_not_look_like_another_one() {
        let told = |name: &[u8]| disposition("attachment", Some(name));
        assert_eq!(
            told("\u{e4} b.txt".as_bytes()),
            "attachment; filename*=UTF-8''%C3%A4%20b.txt"
        );
        assert_eq!(
            told("a\u{202e}gnp.exe".as_bytes()),
            "attachment; filename*=UTF-8''a_gnp.exe"
        );
        assert_eq!(told(b"a\r\nb"), "attachment; filename*=UTF-8''a__b");
        assert_eq!(told(b"\xff.bin"), "attachment; filename*=UTF-8''%FF.bin");
        assert_eq!(disposition("inline", None), "inline");
    }
}
