//! How two states of one path differ: lines of text, or ranges of bytes.

pub mod named;
pub mod purges;
pub mod side;
pub mod stat;
mod unified;

use crate::compare::purges::Purges;
use crate::compare::side::Side;
use crate::conflict::ConflictTold;
use crate::context::Context;
use crate::failure::Failure;
use crate::format::json::{Json, ToJson, change, object, texts};
use crate::format::text::{bytes, lines, text_of};
use crate::partial_repository::purge_words;
use anstyle::{AnsiColor, Style};
use dmv_core::diff::chunks::{ByChunks, ChunkAt};
use dmv_core::diff::lines::{Edits, Lines, Numbers, edits};
use dmv_core::fsutil::FileKind;
use dmv_core::hash::ObjectId;
use dmv_core::job::Cancelled;
use dmv_core::job::Job;
use dmv_core::object::commit::Commit;
use dmv_core::object::list::BlobChunks;
use dmv_core::object::name::{RepoPath, escape};
use dmv_core::object::root::{Lack, Root};
use dmv_core::object::tree::{Kind, TreeEntry, XATTR_PREFIX};
use dmv_core::object::{ObjectError, ObjectType};
use dmv_core::repo::{AbsentError, DiskFile, Rename, Repo, RepoError, blob_of, chunks_of};
use std::io;
use std::io::{Read, Seek, SeekFrom, Write};
use std::ops::Range;

/// Files above this size are compared by chunks, whatever they hold.
const MAX_TEXT_BYTES: u64 = 4 << 20;
/// Chunks up to this many bytes are read again to find the very bytes that differ.
const MAX_NARROWED_BYTES: u64 = 16 << 20;
/// Ranges shown to people; programs get all.
const MAX_RANGES_SHOWN: usize = 20;

/// A part of one state of a path.
#[derive(Clone, Copy)]
struct Part<'a> {
    side: Side<'a>,
    start: u64,
    end: u64,
}

impl<'a> Part<'a> {
    fn of(side: Side<'a>, range: Range<u64>) -> Part<'a> {
        let (start, end) = (range.start, range.end);
        Part { side, start, end }
    }

    fn len(&self) -> u64 {
        self.end - self.start
    }

    fn is_empty(&self) -> bool {
        self.start == self.end
    }
}

/// What is needed to compare two states of a path, and not here: the content of what may be text, if
/// lines are wanted (`with_text`); of anything else the lists of its chunks. Nobody is asked for what was
/// purged.
pub fn lacks(
    purges: &Purges<'_>,
    path: &RepoPath,
    sides: [Option<&TreeEntry>; 2],
    with_text: bool,
) -> Result<Vec<Lack>, RepoError> {
    let mut lacks = Vec::new();
    let blobs: Vec<&TreeEntry> = sides
        .into_iter()
        .flatten()
        .filter(|entry| entry.kind.is_blob() || entry.kind == Kind::Symlink)
        .collect();
    let is_short = blobs.iter().all(|entry| entry.size <= MAX_TEXT_BYTES);
    for entry in blobs.into_iter().filter(|e| with_text || e.is_list) {
        if purges.of(entry)?.is_some() {
            continue;
        }
        let path = path.clone();
        let root = Root::of(entry);
        if is_short && with_text {
            if !purges.repo.has_root(root)? {
                lacks.push(Lack { path, root });
            }
            continue;
        }
        for chunk in BlobChunks::new(purges.repo.objects(), blob_of(entry)) {
            if let Err(ObjectError::Missing { id, ty }) = chunk {
                let root = Root::Object(ty, id);
                lacks.push(Lack { path, root });
                break;
            }
        }
    }
    Ok(lacks)
}

/// How two states of a path differ.
pub struct FileDiff {
    path: RepoPath,
    change: &'static str,
    renamed: Option<Rename>,
    old_kind: Option<&'static str>,
    new_kind: Option<&'static str>,
    /// What the change says about who may read the file; `None` if that stays.
    privacy: Option<Privacy>,
    /// The names of extended attributes that differ, if it is there on both sides.
    xattrs: Vec<String>,
    old_size: Option<u64>,
    new_size: Option<u64>,
    /// What the new state asks, if it is a conflict.
    conflict: Option<ConflictTold>,
    body: Body,
}

/// A change of who may read a file.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Privacy {
    /// Only its owner, from now on.
    Private,
    /// Others, too.
    Public,
}

impl Privacy {
    /// The change between two states. A new file that others may read is nothing to tell.
    fn of(old: Side<'_>, new: Side<'_>) -> Option<Privacy> {
        match (old.privacy(), new.privacy()?) {
            (Some(false) | None, true) => Some(Privacy::Private),
            (Some(true), false) => Some(Privacy::Public),
            _ => None,
        }
    }

    fn words(self) -> &'static str {
        match self {
            Privacy::Private => "private: only its owner may read it",
            Privacy::Public => "no longer private: others may read it",
        }
    }
}

/// The full names of extended attributes that differ between two states of one file.
fn differing_xattrs(old: Side<'_>, new: Side<'_>) -> Vec<String> {
    let (Some(old), Some(new)) = (old.xattrs(), new.xattrs()) else {
        return Vec::new();
    };
    let names = old.differing(&new).into_iter();
    names.map(|name| [XATTR_PREFIX, name].concat()).collect()
}

enum Body {
    /// Content is the same, or there is none.
    None,
    Text {
        insertions: u64,
        deletions: u64,
        /// The lines, if they are wanted.
        diff: Option<Vec<u8>>,
        /// Whether the texts differ too much to find all lines that they share.
        is_coarse: bool,
    },
    Absent(AbsentSides),
    Bytes {
        /// Bytes of the new state in chunks that the old one has too.
        shared_bytes: u64,
        /// The others.
        new_bytes: u64,
        /// Bytes of the old state in chunks that the new one does not have.
        removed_bytes: u64,
        /// Where the new state has other bytes, half-open.
        ranges: Vec<(u64, u64)>,
    },
}

impl ToJson for FileDiff {
    fn to_json(&self) -> Json {
        object! {
            ..change(self.path.as_bytes(), self.change, self.renamed.as_ref()),
            self.{old_kind, new_kind, old_size, new_size},
            private?: self.privacy.map(|privacy| privacy == Privacy::Private),
            xattrs?: (!self.xattrs.is_empty()).then(|| texts(&self.xattrs)),
            conflict?: self.conflict,
            ..self.body.to_json(),
        }
    }
}

impl ToJson for Body {
    fn to_json(&self) -> Json {
        match self {
            Body::None => object! {},
            Body::Text {
                insertions,
                deletions,
                diff,
                is_coarse,
            } => object! {
                insertions: insertions,
                deletions: deletions,
                diff?: diff.as_ref().map(text_of),
                coarse?: is_coarse.then_some(true),
            },
            Body::Absent(absent) => object! { absent: object! { absent.{old, new} } },
            Body::Bytes {
                shared_bytes,
                new_bytes,
                removed_bytes,
                ranges,
            } => object! {
                shared_bytes: shared_bytes,
                new_bytes: new_bytes,
                removed_bytes: removed_bytes,
                ranges: Json::List(ranges.iter().map(|(from, to)| [*from, *to][..].to_json()).collect()),
            },
        }
    }
}

/// Which states have content that is needed to compare them and that is absent.
struct AbsentSides {
    old: bool,
    new: bool,
    /// When and why one of them was purged.
    purged: Option<String>,
}

impl AbsentSides {
    fn words(&self) -> String {
        let which = match (self.old, self.new) {
            (true, false) => "old content",
            (false, true) => "new content",
            _ => "content",
        };
        match &self.purged {
            Some(purged) => format!("{which} {purged}"),
            None => format!("{which} is absent from this repository"),
        }
    }
}

/// How much of a file stayed the same when it was moved; nothing is said where all of it did.
pub fn share(rename: &Rename) -> String {
    match rename.percent {
        100 => String::new(),
        percent => format!(" ({percent} % the same)"),
    }
}

/// The word for a change of one path.
fn change_word(renamed: Option<&Rename>, old: &Side<'_>, new: &Side<'_>) -> &'static str {
    let is_plain = |kind: Option<Kind>| kind.is_some_and(Kind::is_blob);
    match (old.kind(), new.kind()) {
        _ if renamed.is_some() => "renamed",
        (None, _) => "added",
        (_, None) => "deleted",
        (a, b) if a == b || is_plain(a) && is_plain(b) => "modified",
        _ => "type",
    }
}

/// Compares files of one repository.
pub struct Comparer<'a> {
    context: &'a Context,
    repo: &'a Repo,
    purges: Purges<'a>,
    with_text: bool,
    /// Commits that a conflict's versions may come from.
    origins: Vec<ObjectId>,
}

impl<'a> Comparer<'a> {
    /// `with_text`: the lines themselves are wanted, not only their number. `new` is the commit of
    /// the new states, if they are a commit's.
    pub fn new(
        context: &'a Context,
        repo: &'a Repo,
        with_text: bool,
        new: Option<&Commit>,
    ) -> Result<Comparer<'a>, Failure> {
        let origins = new.map(|commit| repo.merged_by(commit)).transpose()?;
        Ok(Comparer {
            context,
            repo,
            purges: Purges::known_to(repo),
            with_text,
            origins: origins.unwrap_or_default(),
        })
    }

    /// Compares two states of `path`, the old one perhaps of another path.
    pub fn compare(
        &self,
        path: &RepoPath,
        renamed: Option<&Rename>,
        old: Side<'_>,
        new: Side<'_>,
    ) -> Result<FileDiff, Failure> {
        let old = renamed.map_or(old, |rename| Side::Entry(&rename.entry));
        let (old_kind, new_kind) = (old.kind(), new.kind());
        let change = change_word(renamed, &old, &new);
        let word = |kind: Option<Kind>| kind.map(Kind::word);
        Ok(FileDiff {
            path: path.clone(),
            change,
            renamed: renamed.cloned(),
            old_kind: word(old_kind),
            new_kind: word(new_kind),
            privacy: Privacy::of(old, new),
            xattrs: differing_xattrs(old, new),
            old_size: old.size(),
            new_size: new.size(),
            conflict: match new {
                Side::Entry(entry) if entry.kind == Kind::Conflict => {
                    Some(ConflictTold::read(self.repo, path, entry, &self.origins)?)
                }
                _ => None,
            },
            body: self.body(path, renamed, old, new)?,
        })
    }

    fn body(
        &self,
        path: &RepoPath,
        renamed: Option<&Rename>,
        old: Side<'_>,
        new: Side<'_>,
    ) -> Result<Body, Failure> {
        let has_content = |side: &Side<'_>| match side.kind() {
            None | Some(Kind::Directory | Kind::Conflict) => false,
            Some(Kind::File | Kind::Executable | Kind::Symlink) => true,
        };
        if !has_content(&old) && !has_content(&new) || new.kind() == Some(Kind::Conflict) {
            return Ok(Body::None);
        }
        if let (Side::Entry(old), Side::Entry(new)) = (&old, &new)
            && (old.id, old.is_list) == (new.id, new.is_list)
        {
            return Ok(Body::None);
        }
        if let Some(absent) = self.absent(path, &old, &new)? {
            return Ok(Body::Absent(absent));
        }
        let fits = |side: &Side<'_>| side.size().unwrap_or(0) <= MAX_TEXT_BYTES;
        // Numbers can be told of content that is not here; lines cannot.
        let is_here = self.with_text || self.is_here(old)? && self.is_here(new)?;
        if is_here && fits(&old) && fits(&new) {
            let (a, b) = (self.read(path, old)?, self.read(path, new)?);
            if a == b {
                return Ok(Body::None);
            }
            if !a.contains(&0) && !b.contains(&0) {
                let before = renamed.map_or(path.as_bytes(), |r| r.from.as_bytes());
                let name = |prefix: &str, side: Side<'_>, path: &[u8]| match side.kind() {
                    None => "/dev/null".to_owned(),
                    Some(_) => format!("{prefix}/{}", escape(path)),
                };
                let names = (name("a", old, before), name("b", new, path.as_bytes()));
                let texts = Lines::of([&a, &b]);
                if !texts.iter().any(Lines::is_coarse) {
                    return self.text(&names, &texts);
                }
            }
        }
        self.bytes(path, old, new, is_here)
    }

    /// Which of two states cannot be compared, because content is absent.
    fn absent(
        &self,
        path: &RepoPath,
        old: &Side<'_>,
        new: &Side<'_>,
    ) -> Result<Option<AbsentSides>, Failure> {
        if !self.repo.is_partial() {
            return Ok(None);
        }
        let (old, new) = (old.entry(), new.entry());
        let purge = |entry: Option<&TreeEntry>| match entry {
            Some(entry) => self.purges.of(entry),
            None => Ok(None),
        };
        let (old_purge, new_purge) = (purge(old)?, purge(new)?);
        if let Some(newest) = new_purge.or(old_purge) {
            return Ok(Some(AbsentSides {
                old: old_purge.is_some(),
                new: new_purge.is_some(),
                purged: Some(purge_words(newest)),
            }));
        }
        let lacks = |sides| lacks(&self.purges, path, sides, self.with_text);
        if lacks([old, new])?.is_empty() {
            return Ok(None);
        }
        Ok(Some(AbsentSides {
            old: !lacks([old, None])?.is_empty(),
            new: !lacks([None, new])?.is_empty(),
            purged: None,
        }))
    }

    /// Whether the bytes of a state can be read.
    fn is_here(&self, side: Side<'_>) -> Result<bool, Failure> {
        let Side::Entry(entry) = side else {
            return Ok(true);
        };
        let objects = self.repo.objects();
        let held = |id: &ObjectId| objects.holds(ObjectType::Chunk, id);
        if !entry.is_list {
            let content = entry.kind.is_blob() || entry.kind == Kind::Symlink;
            return Ok(!content || held(&entry.id)?);
        }
        for chunk in BlobChunks::new(objects, blob_of(entry)) {
            if !held(&chunk?.1)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn text(&self, names: &(String, String), texts: &[Lines<'_>; 2]) -> Result<Body, Failure> {
        let edits = compare_lines(texts, &self.context.job)?;
        let (mut insertions, mut deletions) = (0, 0);
        for edit in &edits.list {
            deletions += edit.old.len() as u64;
            insertions += edit.new.len() as u64;
        }
        let mut diff = Vec::new();
        if self.with_text && !edits.list.is_empty() {
            unified::write(names, texts, &edits.list, &mut diff)?;
        }
        Ok(Body::Text {
            insertions,
            deletions,
            diff: self.with_text.then_some(diff),
            is_coarse: edits.is_coarse,
        })
    }

    /// Compares by chunks; `exact`: the bytes at the ends of what differs are looked at, too.
    fn bytes(
        &self,
        path: &RepoPath,
        old: Side<'_>,
        new: Side<'_>,
        exact: bool,
    ) -> Result<Body, Failure> {
        let size = new.size().unwrap_or(0);
        if let Side::Nothing = old {
            return Ok(Body::Bytes {
                shared_bytes: 0,
                new_bytes: size,
                removed_bytes: 0,
                ranges: vec![(0, size)],
            });
        }
        if let Side::Nothing = new {
            return Ok(Body::Bytes {
                shared_bytes: 0,
                new_bytes: 0,
                removed_bytes: old.size().unwrap_or(0),
                ranges: Vec::new(),
            });
        }
        let (a, b) = (self.chunks(path, old)?, self.chunks(path, new)?);
        let chunks = ByChunks::of(&a, &b, old.size().unwrap_or(0));
        let mut ranges = Vec::new();
        for differs in chunks.differing {
            let range = if exact {
                let (from, to) = (Part::of(old, differs.old), Part::of(new, differs.new));
                self.narrow(path, from, to)?
            } else {
                (differs.new.start, differs.new.end)
            };
            if range.0 < range.1 {
                ranges.push(range);
            }
        }
        Ok(Body::Bytes {
            shared_bytes: chunks.shared_bytes,
            new_bytes: chunks.new_bytes,
            removed_bytes: chunks.removed_bytes,
            ranges,
        })
    }

    /// Leaves out of a range of the new state the bytes at both ends that the old one has as well.
    fn narrow(&self, path: &RepoPath, old: Part<'_>, new: Part<'_>) -> Result<(u64, u64), Failure> {
        let (start, end) = (new.start, new.end);
        if old.is_empty() || old.len() + new.len() > MAX_NARROWED_BYTES {
            return Ok((start, end));
        }
        for part in [old, new] {
            if let Side::Entry(entry) = part.side
                && let Err(RepoError::Absent(AbsentError::Lacking(_))) =
                    self.repo
                        .check_range_here(path, blob_of(entry), part.start..part.end)
            {
                // Not worth bringing.
                return Ok((start, end));
            }
        }
        let a = self.read_range(path, old.side, old.start, old.end)?;
        let b = self.read_range(path, new.side, start, end)?;
        let ahead = a.iter().zip(&b).take_while(|(x, y)| x == y).count();
        let (a, b) = (&a[ahead..], &b[ahead..]);
        let behind = a.iter().rev().zip(b.iter().rev());
        let behind = behind.take_while(|(x, y)| x == y).count();
        Ok((start + ahead as u64, end - behind as u64))
    }

    fn chunks(&self, path: &RepoPath, side: Side<'_>) -> Result<Vec<ChunkAt>, Failure> {
        match side {
            Side::Entry(entry) if entry.kind.is_blob() || entry.kind == Kind::Symlink => {
                let chunks = BlobChunks::new(self.repo.objects(), blob_of(entry));
                Ok(chunks.collect::<Result<_, _>>()?)
            }
            Side::Disk(DiskFile { stat, .. }) if stat.kind == FileKind::File => {
                let file = self.repo.open_worktree_file(path);
                let file = file.map_err(|e| unopened(path, e))?;
                let chunks = chunks_of(file, &self.context.job);
                self.context.job.check()?;
                chunks.map_err(|e| unreadable(path, &e))
            }
            _ => {
                let content = self.read(path, side)?;
                let chunks = chunks_of(&content[..], &self.context.job);
                chunks.map_err(|e| unreadable(path, &e))
            }
        }
    }

    fn read(&self, path: &RepoPath, side: Side<'_>) -> Result<Vec<u8>, Failure> {
        self.read_range(path, side, 0, u64::MAX)
    }

    fn read_range(
        &self,
        path: &RepoPath,
        side: Side<'_>,
        from: u64,
        to: u64,
    ) -> Result<Vec<u8>, Failure> {
        let mut out = Vec::new();
        let cut = |content: Vec<u8>| {
            let len = content.len() as u64;
            content[from.min(len) as usize..to.min(len) as usize].to_vec()
        };
        match side {
            Side::Nothing => {}
            Side::Entry(entry) => match entry.kind {
                Kind::Directory | Kind::Conflict => {}
                Kind::Symlink => out = cut(self.repo.link_target(entry)?),
                Kind::File | Kind::Executable => {
                    self.repo.cat(blob_of(entry), Some(from..to), &mut out)?;
                }
            },
            Side::Disk(DiskFile { stat, .. }) => match stat.kind {
                FileKind::Symlink => {
                    let target = self.repo.worktree_link(path);
                    out = cut(target.map_err(|e| unopened(path, e))?);
                }
                FileKind::File => {
                    let file = self.repo.open_worktree_file(path);
                    let mut file = file.map_err(|e| unopened(path, e))?;
                    file.seek(SeekFrom::Start(from))
                        .and_then(|_| file.take(to - from).read_to_end(&mut out))
                        .map_err(|e| unreadable(path, &e))?;
                }
                _ => {}
            },
        }
        Ok(out)
    }
}

/// What makes one text of the other.
fn compare_lines(texts: &[Lines<'_>; 2], job: &Job) -> Result<Edits, RepoError> {
    let cancel = job.cancel_flag();
    let compared = || {
        let mut numbers = Numbers::with_room(texts[0].len() + texts[1].len());
        let (a, b) = (
            numbers.of(&texts[0], cancel)?,
            numbers.of(&texts[1], cancel)?,
        );
        let count = numbers.count();
        drop(numbers);
        edits([&a, &b], count, cancel)
    };
    compared().map_err(|Cancelled| RepoError::Cancelled)
}

fn unreadable(path: &RepoPath, e: &io::Error) -> Failure {
    let message = format!("cannot read {}: {e}", escape(path.as_bytes()));
    Failure::new(UNREADABLE, crate::failure::EXIT_OTHER, message)
}

/// The failure where a file of the worktree could not be opened.
fn unopened(path: &RepoPath, e: RepoError) -> Failure {
    match e {
        RepoError::Path(e) => unreadable(path, &e.source),
        e => e.into(),
    }
}

/// The code of the failure for a file of the worktree that cannot be read.
pub const UNREADABLE: &str = "unreadable";

impl FileDiff {
    /// Prints the difference in full.
    pub fn print(&self, context: &Context) -> Result<(), Failure> {
        let ui = &context.ui;
        let name = escape(self.path.as_bytes()).to_string();
        let bold = Style::new().bold();
        let before = match &self.renamed {
            Some(rename) => escape(&rename.from).to_string(),
            None => name.clone(),
        };
        let head = ui.paint(bold, format_args!("diff a/{before} b/{name}"));
        writeln!(ui.out(), "{head}")?;
        if let Some(rename) = &self.renamed {
            writeln!(ui.out(), "renamed{}", share(rename))?;
        }
        match (self.old_kind, self.new_kind) {
            (None, Some(kind)) => writeln!(ui.out(), "new {kind}")?,
            (Some(kind), None) => writeln!(ui.out(), "deleted {kind}")?,
            (Some(old), Some(new)) if old != new => writeln!(ui.out(), "{old} became {new}")?,
            _ => {}
        }
        if let Some(privacy) = self.privacy {
            writeln!(ui.out(), "{}", privacy.words())?;
        }
        if !self.xattrs.is_empty() {
            let names = escape(self.xattrs.join(", ").as_bytes()).to_string();
            writeln!(ui.out(), "extended attributes differ: {names}")?;
        }
        if let Some(conflict) = &self.conflict {
            return conflict.print(context);
        }
        match &self.body {
            Body::None => Ok(()),
            Body::Text {
                diff, is_coarse, ..
            } => {
                if *is_coarse {
                    let text = format_args!(
                        "note: {name} has too many changes; the diff may show unchanged lines as changed"
                    );
                    ui.note(text);
                }
                print_hunks(context, diff.as_deref().unwrap_or_default())
            }
            Body::Absent(absent) => {
                writeln!(ui.out(), "{}", absent.words())?;
                Ok(())
            }
            Body::Bytes { ranges, .. } => {
                writeln!(ui.out(), "{}", self.in_bytes())?;
                if self.change == "added" {
                    return Ok(());
                }
                let shown = if ui.verbose() {
                    ranges.len()
                } else {
                    ranges.len().min(MAX_RANGES_SHOWN)
                };
                for (from, to) in &ranges[..shown] {
                    writeln!(ui.out(), "  bytes {from}-{to} ({})", bytes(to - from))?;
                }
                if shown < ranges.len() {
                    writeln!(ui.out(), "  and {} more ranges", ranges.len() - shown)?;
                }
                Ok(())
            }
        }
    }

    fn in_bytes(&self) -> String {
        let Body::Bytes {
            shared_bytes,
            new_bytes,
            removed_bytes,
            ..
        } = &self.body
        else {
            return String::new();
        };
        match (self.old_size, self.new_size) {
            (None, Some(size)) => format!("{} new", bytes(size)),
            (Some(size), None) => format!("{} removed", bytes(size)),
            (old, new) => format!(
                "{} -> {}; {} shared, {} new, {} replaced or removed",
                bytes(old.unwrap_or(0)),
                bytes(new.unwrap_or(0)),
                bytes(*shared_bytes),
                bytes(*new_bytes),
                bytes(*removed_bytes),
            ),
        }
    }
}

/// Hunks go out as they are, for `patch`; on a terminal they are coloured and harmless.
fn print_hunks(context: &Context, raw: &[u8]) -> Result<(), Failure> {
    let ui = &context.ui;
    if !ui.colored() && !ui.is_terminal() {
        return Ok(ui.out().write_all(raw)?);
    }
    for line in lines(&String::from_utf8_lossy(raw)).lines() {
        let color = match line.as_bytes().first() {
            Some(b'+') => Some(AnsiColor::Green),
            Some(b'-') => Some(AnsiColor::Red),
            Some(b'@') => Some(AnsiColor::Cyan),
            _ => None,
        };
        let style = Style::new().fg_color(color.map(Into::into));
        writeln!(ui.out(), "{}", ui.paint(style, line))?;
    }
    Ok(())
}
