//! Two versions beside each other: `/compare?a=REV:PATH&b=REV:PATH`. Of two directories, the files that
//! differ. Without a revision (`:PATH`), it is the file in the worktree.

mod text;
mod view;

use super::layout::{self, Part};
use super::parts::{path_value, picture_link};
use super::places::{CommitPath, place_of};
use crate::address::{encoded, link};
use crate::answer::Answer;
use crate::kinds::{Sort, looks_like_text, sort_of};
use crate::ondisk::{self, OnDisk};
use crate::program::Stop;
use crate::raw::{pending_version, version};
use crate::site::Ask;
use crate::words::{bytes, shown};
use dmv_core::diff::chunks::{ByChunks, ChunkAt};
use dmv_core::diff::{ForDisplay, diff_trees};
use dmv_core::escape::Argument;
use dmv_core::hash::ObjectId;
use dmv_core::hint;
use dmv_core::job::Job;
use dmv_core::object::ObjectError;
use dmv_core::object::list::BlobChunks;
use dmv_core::object::name::RepoPath;
use dmv_core::object::tree::{Kind, TreeEntry};
use dmv_core::repo::{Location, Repo, blob_of, chunks_of};
use serde_json::{Value, json};
use std::ops::ControlFlow;

/// Changed files that are listed.
const MAX_CHANGES: usize = 400;
/// Texts up to this size are compared by lines.
const MAX_TEXT: u64 = 2 << 20;
/// Ranges of bytes that are listed.
const MAX_RANGES: usize = 20;
/// Files of the worktree up to this size are compared by chunks: all of them is read for that.
const MAX_ON_DISK: u64 = 256 << 20;
/// Chunks of a file that are compared.
const MAX_CHUNKS: usize = 400_000;

/// Shows a comparison.
pub fn show(ask: &Ask<'_>) -> Result<Answer, Stop> {
    let text = |name| {
        ask.target
            .value(name)
            .ok_or(Stop::Bad("name two places: a=REV:PATH and b=REV:PATH"))
    };
    let a = Side::of(ask, text("a")?, ask.target.text("a-side"))?;
    let b = Side::of(ask, text("b")?, ask.target.text("b-side"))?;
    let found = match (a.tree(), b.tree()) {
        (Some(old), Some(new)) => ComparisonKind::Trees(changes(&ask.repo, old, new)?),
        _ => file_difference(ask, &a, &b)?,
    };
    let comparison = Comparison { a, b, found };
    let title = match comparison.b.path().file_name() {
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
    a: Side,
    b: Side,
    found: ComparisonKind,
}

/// What is compared.
enum Side {
    /// A file or directory of a commit.
    InCommit(Box<CommitPath>),
    /// A file of the worktree.
    OnDisk(OnDisk),
    /// One version of a conflict that no commit has.
    Pending(PendingSide),
}

/// One version of a conflict that no commit has.
struct PendingSide {
    path: RepoPath,
    entry: TreeEntry,
    /// Which version it is.
    side: String,
}

impl Side {
    /// `side`: which version of a conflict.
    fn of(ask: &Ask<'_>, text: &[u8], side: Option<&str>) -> Result<Side, Stop> {
        if let Some(path) = text.strip_prefix(b":") {
            return match side {
                Some(side) => {
                    let (path, entry) = pending_version(&ask.repo, path, side)?;
                    let side = side.to_owned();
                    Ok(Side::Pending(PendingSide { path, entry, side }))
                }
                None => Ok(Side::OnDisk(OnDisk::open(&ask.repo, path)?)),
            };
        }
        let mut place = place_of(&ask.repo, text)?;
        if let (Some(side), Location::Entry(entry)) = (side, &place.located)
            && entry.kind == Kind::Conflict
        {
            let entry = version(&ask.repo, &place.path, entry, Some(side))?;
            place.located = Location::Entry(entry);
            place.side = Some(side.to_owned());
        }
        Ok(Side::InCommit(Box::new(place)))
    }

    /// Which version of a conflict it is.
    fn conflict_side(&self) -> Option<&str> {
        match self {
            Side::InCommit(place) => place.side.as_deref(),
            Side::Pending(version) => Some(&version.side),
            Side::OnDisk(_) => None,
        }
    }

    /// The address of its bytes.
    fn raw_link(&self) -> String {
        let mut out = link("raw", &self.link(), self.path().as_bytes());
        if let Some(side) = self.conflict_side() {
            out += &format!("?side={}", encoded(side.as_bytes()));
        }
        out
    }

    /// The address of its picture.
    fn picture_link(&self) -> String {
        let mut out = picture_link(&self.link(), self.path().as_bytes());
        if let Some(side) = self.conflict_side() {
            out.push(if out.contains('?') { '&' } else { '?' });
            out += &format!("side={}", encoded(side.as_bytes()));
        }
        out
    }

    fn path(&self) -> &RepoPath {
        match self {
            Side::InCommit(place) => &place.path,
            Side::OnDisk(file) => &file.path,
            Side::Pending(version) => &version.path,
        }
    }

    /// The revision for addresses of pictures and bytes.
    fn link(&self) -> String {
        match self {
            Side::InCommit(place) => place.link(),
            Side::OnDisk(_) | Side::Pending(_) => ondisk::REVISION.to_owned(),
        }
    }

    /// The revision for the address of a comparison.
    fn revision(&self) -> String {
        match self {
            Side::InCommit(place) => place.link(),
            Side::OnDisk(_) | Side::Pending(_) => String::new(),
        }
    }

    fn tree(&self) -> Option<ObjectId> {
        match self {
            Side::InCommit(place) => place.located.tree(),
            Side::OnDisk(_) | Side::Pending(_) => None,
        }
    }

    fn entry(&self) -> Option<&TreeEntry> {
        match self {
            Side::InCommit(place) => place.entry(),
            Side::Pending(version) => Some(&version.entry),
            Side::OnDisk(_) => None,
        }
    }

    fn size(&self) -> u64 {
        match self {
            Side::OnDisk(file) => file.size,
            stored => stored.entry().map_or(0, |entry| entry.size),
        }
    }

    /// Why it cannot be compared with a file, if it cannot.
    fn hindrance(&self, name: &str, ask: &Ask<'_>) -> Result<Option<String>, Stop> {
        if let Side::OnDisk(_) = self {
            return Ok(None);
        }
        let Some(entry) = self.entry() else {
            let why = "A directory and a file have nothing to compare.";
            return Ok(Some(why.to_owned()));
        };
        if !entry.kind.is_blob() {
            let kind = entry.kind.word();
            return Ok(Some(format!(
                "{name} is a {kind}: only files are compared."
            )));
        }
        if ask.repo.is_partial() && !ask.repo.has_root(super::parts::root_of(entry))? {
            let size = bytes(entry.size);
            return Ok(Some(format!("The content of {name} is not here ({size}).")));
        }
        Ok(None)
    }

    /// All bytes.
    fn content(&self, repo: &Repo) -> Result<Vec<u8>, Stop> {
        let mut out = Vec::new();
        match self {
            Side::OnDisk(file) => out = file.range(0..file.size).map_err(|_| CHANGING)?,
            stored => {
                if let Some(entry) = stored.entry() {
                    repo.cat(blob_of(entry), None, &mut out)?;
                }
            }
        }
        Ok(out)
    }

    /// Whether too much would have to be read.
    fn is_large_on_disk(&self) -> bool {
        matches!(self, Side::OnDisk(file) if file.size > MAX_ON_DISK)
    }

    /// Where its chunks begin and end. `None` if it is too large.
    fn chunks(&self, repo: &Repo) -> Result<Option<Vec<ChunkAt>>, Stop> {
        match self {
            Side::OnDisk(_) if self.is_large_on_disk() => Ok(None),
            Side::OnDisk(file) => {
                let found = chunks_of(file.reader(), &Job::default());
                Ok(Some(found.map_err(|_| CHANGING)?))
            }
            stored => match stored.entry() {
                Some(entry) => chunks(repo, entry),
                None => Ok(None),
            },
        }
    }
}

/// A file of the worktree that cannot be read as it was when it was opened.
const CHANGING: Stop =
    Stop::Bad("the file in the worktree cannot be read, or changes just now; try again");

enum ComparisonKind {
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
    Texts(text::UnifiedDiff),
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
    let keep = |path: &RepoPath, old: Option<&TreeEntry>, new: Option<&TreeEntry>| {
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
    let _ = diff_trees(repo.objects(), Some(old), Some(new), &mut ForDisplay(keep))?;
    Ok((all, has_more))
}

fn file_difference(ask: &Ask<'_>, a: &Side, b: &Side) -> Result<ComparisonKind, Stop> {
    for (name, side) in [("A", a), ("B", b)] {
        if let Some(why) = side.hindrance(name, ask)? {
            return Ok(ComparisonKind::Not(why));
        }
    }
    if let (Some(old), Some(new)) = (a.entry(), b.entry())
        && old.id == new.id
    {
        return Ok(ComparisonKind::Same);
    }
    let sorts = [a, b].map(|side| sort_of(side.path().as_bytes()).0);
    match sorts {
        [Sort::Picture, Sort::Picture] => return Ok(ComparisonKind::Pictures),
        [a, b] if a.is_image() && b.is_image() && ask.site.previews.is_some() => {
            return Ok(ComparisonKind::Pictures);
        }
        [Sort::Sound, Sort::Sound] => return Ok(ComparisonKind::Sounds),
        [Sort::Film, Sort::Film] => return Ok(ComparisonKind::Films),
        _ => {}
    }
    if a.size() <= MAX_TEXT && b.size() <= MAX_TEXT {
        let (old, new) = (a.content(&ask.repo)?, b.content(&ask.repo)?);
        if old == new {
            return Ok(ComparisonKind::Same);
        }
        if looks_like_text(&old) && looks_like_text(&new) {
            return Ok(ComparisonKind::Texts(text::UnifiedDiff::of(&old, &new)));
        }
    }
    let (old, new) = (a.chunks(&ask.repo)?, b.chunks(&ask.repo)?);
    Ok(match (old, new) {
        (Some(old), Some(new)) => {
            let found = ByChunks::of(&old, &new, a.size());
            if found.new_bytes == 0
                && a.size() == b.size()
                && found.removed_bytes == 0
                && old.iter().map(|c| c.1).eq(new.iter().map(|c| c.1))
            {
                ComparisonKind::Same
            } else {
                ComparisonKind::Bytes(found)
            }
        }
        _ => ComparisonKind::Not(match [a, b].iter().find(|side| side.is_large_on_disk()) {
            Some(side) => format!(
                "Your file has {}: it is too large to be read for a page. To compare it: {}",
                bytes(side.size()),
                hint!(
                    "dmv diff -- {}",
                    Argument::path(side.path().as_bytes(), true)
                )
            ),
            None => "These files are too large to be compared on a page.".to_owned(),
        }),
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
        let side = |side: &Side| {
            let mut out = path_value(side.path().as_bytes());
            let commit = match side {
                Side::InCommit(place) => Some(place.id.to_string()),
                Side::OnDisk(_) | Side::Pending(_) => None,
            };
            let size = match side {
                Side::OnDisk(file) => Some(file.size),
                stored => stored.entry().map(|entry| entry.size),
            };
            out.insert("commit".to_owned(), json!(commit));
            out.insert(
                "id".to_owned(),
                json!(side.entry().map(|e| e.id.to_string())),
            );
            out.insert("size".to_owned(), json!(size));
            Value::Object(out)
        };
        let mut out = json!({ "a": side(&self.a), "b": side(&self.b) });
        match &self.found {
            ComparisonKind::Same => out["same"] = json!(true),
            ComparisonKind::Trees((changes, has_more)) => {
                let change = |change: &Change| {
                    let mut out = path_value(change.path.as_bytes());
                    out.insert("change".to_owned(), json!(change.word()));
                    Value::Object(out)
                };
                out["changes"] = changes.iter().map(change).collect();
                out["complete"] = json!(!has_more);
            }
            ComparisonKind::Bytes(by) => {
                let ranges = by.differing.iter().map(
                    |d| json!({ "old": [d.old.start, d.old.end], "new": [d.new.start, d.new.end] }),
                );
                let ranges: Vec<Value> = ranges.collect();
                out["shared_bytes"] = json!(by.shared_bytes);
                out["new_bytes"] = json!(by.new_bytes);
                out["removed_bytes"] = json!(by.removed_bytes);
                out["ranges"] = json!(ranges);
            }
            ComparisonKind::Texts(unified) => out["diff"] = json!(unified.lines()),
            ComparisonKind::Not(why) => out["not_compared"] = json!(why),
            ComparisonKind::Pictures | ComparisonKind::Sounds | ComparisonKind::Films => {}
        }
        out
    }
}
