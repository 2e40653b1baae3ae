//! Blame: the commit from which each line of a file comes.
//!
//! The walk goes from a commit to its ancestors (`history::paths`), and reads only versions of the
//! file that differ. Each version answers for some lines of the final text. It passes on those that
//! a parent has, too; the others are its own. As in Git, a parent with the same content gets all
//! lines, and otherwise the parents are asked in order.

use crate::diff::blame::{Span, differences, line_count, sort, split};
use crate::hash::ObjectId;
use crate::history::paths::{FindFormerPath, PathLog, Version, VisitedCommit};
use crate::job::Job;
use crate::limits::{MAX_BLAME_BYTES, MAX_BLAME_CACHE_BYTES, MAX_DIFF_LINES};
use crate::object::list::{Blob, BlobChunks};
use crate::object::name::RepoPath;
use crate::object::root::{Lack, Root};
use crate::object::tree::{Kind, TreeEntry};
use crate::repo::base::error::{AbsentError, LookError, RepoError};
use crate::repo::base::repo::Repo;
use crate::repo::look::content::read_chunk;
use crate::repo::look::entries::{Location, blob_of};
use std::collections::{HashMap, HashSet, VecDeque};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Adjacent lines of a file that come from the same place of the same version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlamedLines {
    /// The first line, from 0.
    pub line: usize,
    /// The number of lines.
    pub len: usize,
    /// The commit that made them what they are.
    pub commit: ObjectId,
    /// The path of the file in that commit.
    pub path: RepoPath,
    /// The first of these lines in that commit, from 0.
    pub at: usize,
    /// Whether the commit only ends the history that is stored here, or follows a version whose content
    /// was purged. Then the lines may be older.
    pub is_boundary: bool,
}

/// A file with the origin of its lines.
#[derive(Debug)]
pub struct Blame {
    /// The content of the file.
    pub text: Vec<u8>,
    /// The requested lines, in order.
    pub lines: Vec<BlamedLines>,
}

impl Repo {
    /// Returns the origin of lines of the file at `path` in `commit`: of all, or of those in `range`,
    /// which counts from 0.
    ///
    /// Fails for something that is no text, for a text over the limit of `MAX_BLAME_BYTES`, and with
    /// [`AbsentError::Lacking`] if content is absent, of which the error names all. Earlier versions whose
    /// content was purged pass no lines on.
    pub fn blame(
        &self,
        commit: ObjectId,
        path: &RepoPath,
        range: Option<Range<usize>>,
        job: &Job,
    ) -> Result<Blame, RepoError> {
        let entry = file_at(self, &commit, path)?;
        let mut purged = HashSet::new();
        if self.is_partial() {
            purged = check_versions_here(self, (&commit, path, &entry.id), job)?;
        }
        let mut texts = Texts::new(self);
        let text = texts.read(blob_of(&entry))?;
        let wrong = |what| {
            RepoError::Look(LookError::WrongKind {
                path: path.clone(),
                what,
            })
        };
        if text.bytes.contains(&0) {
            return Err(wrong("a binary file, without lines of text"));
        }
        let count = line_count(&text.bytes);
        if count > MAX_DIFF_LINES {
            return Err(wrong("a file with too many lines"));
        }
        let range = range.unwrap_or(0..count);
        let range = range.start.min(count)..range.end.min(count);
        let mut search = Search {
            repo: self,
            job,
            texts,
            pending: HashMap::new(),
            found: Vec::new(),
            purged,
        };
        let first = PendingLines {
            blob: blob_of(&entry),
            // Without a commit of its own, a version answers for itself.
            instead: None,
            is_cut: false,
            spans: vec![Span {
                line: range.start,
                at: range.start,
                len: range.len(),
            }],
        };
        search.add((commit, path.clone()), first);
        search.run(&commit, path)?;
        let mut lines = search.found;
        lines.retain(|lines| lines.len > 0);
        lines.sort_unstable_by_key(|lines| lines.line);
        Ok(Blame {
            text: text.bytes.clone(),
            lines,
        })
    }
}

/// Returns the entry of a file that can be blamed.
fn file_at(repo: &Repo, commit: &ObjectId, path: &RepoPath) -> Result<TreeEntry, RepoError> {
    let revision = commit.short(12);
    let found = repo.locate(&revision, &repo.read_commit(commit)?, path)?;
    let wrong = |what| {
        RepoError::Look(LookError::WrongKind {
            path: path.clone(),
            what,
        })
    };
    let entry = match found {
        Location::Root { .. } => return Err(wrong("a directory")),
        Location::Entry(entry) => entry,
    };
    match entry.kind {
        Kind::Directory => Err(wrong("a directory")),
        Kind::Symlink => Err(wrong("a symlink, without lines of text")),
        Kind::Conflict => Err(wrong("an unresolved conflict")),
        Kind::File | Kind::Executable if entry.size > MAX_BLAME_BYTES => {
            Err(wrong("a file that is too long to compare its lines"))
        }
        Kind::File | Kind::Executable => Ok(entry),
    }
}

/// Fails with [`AbsentError::Lacking`] if content of a version that may be read is absent. Returns the
/// earlier versions whose content is absent because it was purged.
fn check_versions_here(
    repo: &Repo,
    (commit, path, newest): (&ObjectId, &RepoPath, &ObjectId),
    job: &Job,
) -> Result<HashSet<ObjectId>, RepoError> {
    // An unreadable slice must not stop a command that only reads. Other commands report it.
    let slice = repo.slice().unwrap_or_default();
    let mut purged = HashSet::new();
    let changed = repo.changed_paths(std::slice::from_ref(path));
    let mut log = PathLog::of_versions(repo.objects(), &changed, commit, path)?;
    let (mut known, mut lacks) = (HashSet::new(), Vec::new());
    while let Some(visited) = log.advance(Some(&mut moved(repo, job)))? {
        job.check()?;
        // A commit that did not change the file has a version that is known by a child, unless it
        // is the first one.
        if !visited.shown && !known.is_empty() {
            continue;
        }
        for version in visited
            .versions
            .iter()
            .chain(visited.before.iter().flatten())
        {
            let Some(entry) = version.entry.as_ref().filter(|entry| is_text(entry)) else {
                continue;
            };
            let root = Root::of(entry);
            if known.insert(entry.id) && !repo.has_root(root)? {
                if entry.id != *newest && slice.purge_of(&entry.id).is_some() {
                    purged.insert(entry.id);
                    continue;
                }
                let path = version.path.clone();
                lacks.push(Lack { path, root });
            }
        }
    }
    if lacks.is_empty() {
        Ok(purged)
    } else {
        Err(AbsentError::Lacking(lacks).into())
    }
}

/// Returns whether an entry is a file whose lines can be compared.
fn is_text(entry: &TreeEntry) -> bool {
    entry.kind.is_blob() && entry.size <= MAX_BLAME_BYTES
}

/// Finds the former paths of files.
fn moved<'a>(
    repo: &'a Repo,
    job: &'a Job,
) -> impl FnMut(&ObjectId, &ObjectId, &RepoPath) -> Result<Option<RepoPath>, RepoError> + 'a {
    move |old, new, path| repo.path_before(old, new, path, job)
}

/// A file in a commit.
type At = (ObjectId, RepoPath);

/// Lines for which a version has to answer.
struct PendingLines {
    /// The content of the version.
    blob: Blob,
    /// The version that answers in its place, and where these lines are in it. Set where a commit
    /// has an open conflict, which is no text: a child that resolved it stands for it. Also set where the
    /// content of a commit was purged.
    instead: Option<At>,
    /// Whether a version between them cannot be read, so that the lines may be of that one.
    is_cut: bool,
    /// The lines.
    spans: Vec<Span>,
}

impl PendingLines {
    /// Returns whether the lines of both can be asked for together.
    fn is_like(&self, other: &PendingLines) -> bool {
        let is_same = self.blob == other.blob && self.instead == other.instead;
        is_same && self.is_cut == other.is_cut
    }
}

struct Search<'a> {
    repo: &'a Repo,
    job: &'a Job,
    texts: Texts<'a>,
    /// By commit: the versions in it that have to answer.
    pending: HashMap<ObjectId, Vec<(RepoPath, PendingLines)>>,
    found: Vec<BlamedLines>,
    /// The contents that were purged.
    purged: HashSet<ObjectId>,
}

impl Search<'_> {
    fn add(&mut self, at: At, new: PendingLines) {
        if new.spans.is_empty() {
            return;
        }
        let (commit, path) = at;
        let all = self.pending.entry(commit).or_default();
        let same = all
            .iter_mut()
            .find(|(at, old)| *at == path && old.is_like(&new));
        match same {
            Some((_, old)) => old.spans.extend(new.spans),
            None => all.push((path, new)),
        }
    }

    fn run(&mut self, commit: &ObjectId, path: &RepoPath) -> Result<(), RepoError> {
        let (repo, job) = (self.repo, self.job);
        let changed = repo.changed_paths(std::slice::from_ref(path));
        let mut log = PathLog::of_versions(repo.objects(), &changed, commit, path)?;
        let mut moved = moved(repo, job);
        while !self.pending.is_empty() {
            job.check()?;
            let moved: &mut FindFormerPath<'_, RepoError> = &mut moved;
            let pending = &self.pending;
            let is_wanted = |id: &ObjectId, path: &RepoPath| {
                let all = pending.get(id);
                all.is_some_and(|all| all.iter().any(|(at, _)| at == path))
            };
            let Some(visited) = log.advance_where(Some(moved), &is_wanted)? else {
                break;
            };
            self.visit(&visited)?;
        }
        Ok(())
    }

    /// Passes the lines of a version on to its parents, and keeps its own.
    fn visit(&mut self, visited: &VisitedCommit) -> Result<(), RepoError> {
        let Some(version) = visited.versions.first() else {
            return Ok(());
        };
        let at = (visited.id, version.path.clone());
        let parents = visited.followed.iter().zip(&visited.before);
        let parents: Vec<(ObjectId, &Version)> = parents
            .filter_map(|(id, before)| Some((*id, before.first()?)))
            .collect();
        let all = self.pending.remove(&visited.id).unwrap_or_default();
        let (here, others) = all.into_iter().partition(|(path, _)| *path == at.1);
        let (here, others): (Vec<_>, Vec<_>) = (here, others);
        if !others.is_empty() {
            self.pending.insert(visited.id, others);
        }
        for (_, mut pending) in here {
            if let (false, [(parent, same)]) = (visited.shown, &parents[..]) {
                // It has the same content, and the same conflict if it has one.
                self.add((*parent, same.path.clone()), pending);
                continue;
            }
            sort(&mut pending.spans);
            self.job.progress.files.fetch_add(1, Ordering::Relaxed);
            self.pass(&at, &parents, &mut pending)?;
            let is_end = parents.is_empty() && !visited.commit.parents.is_empty();
            let is_boundary = is_end || pending.is_cut;
            self.keep(at.clone(), pending, is_boundary);
        }
        Ok(())
    }

    fn pass(
        &mut self,
        at: &At,
        parents: &[(ObjectId, &Version)],
        pending: &mut PendingLines,
    ) -> Result<(), RepoError> {
        // A file that was only moved, or made executable, is the same in a parent.
        let same = parents.iter().find(|(_, version)| {
            let entry = version.entry.as_ref();
            entry.is_some_and(|e| e.kind.is_blob() && blob_of(e) == pending.blob)
        });
        if let Some((parent, version)) = same {
            let next = PendingLines {
                blob: pending.blob,
                instead: None,
                is_cut: false,
                spans: std::mem::take(&mut pending.spans),
            };
            self.add((*parent, version.path.clone()), next);
            return Ok(());
        }
        let mut asked = HashSet::new();
        for (parent, version) in parents {
            let entry = version.entry.as_ref().filter(|entry| is_text(entry));
            let Some(entry) = entry.filter(|entry| asked.insert(entry.id)) else {
                continue;
            };
            if pending.spans.is_empty() {
                return Ok(());
            }
            if self.purged.contains(&entry.id) {
                continue;
            }
            let blob = blob_of(entry);
            let new = self.texts.read(pending.blob)?;
            let old = self.texts.read_like(blob, &new)?;
            let edits = differences(&old.bytes, &new.bytes, self.job.cancel_flag());
            let edits = edits.map_err(|_| RepoError::Cancelled)?;
            let spans = split(&mut pending.spans, &edits);
            let next = PendingLines {
                blob,
                instead: None,
                is_cut: false,
                spans,
            };
            self.add((*parent, version.path.clone()), next);
        }
        let unread = parents.iter().find_map(|(parent, version)| {
            let entry = version.entry.as_ref()?;
            let is_purged = self.purged.contains(&entry.id);
            let is_unread = entry.kind == Kind::Conflict || is_purged;
            is_unread.then(|| (*parent, version.path.clone(), is_purged))
        });
        if let Some((parent, path, is_purged)) = unread.filter(|_| !pending.spans.is_empty()) {
            // An open conflict has the lines of its sides, which are in its parents. So may a version
            // that was purged.
            let next = PendingLines {
                blob: pending.blob,
                instead: Some(pending.instead.clone().unwrap_or_else(|| at.clone())),
                is_cut: pending.is_cut || is_purged,
                spans: std::mem::take(&mut pending.spans),
            };
            self.add((parent, path), next);
        }
        Ok(())
    }

    /// Notes lines that come from a version.
    fn keep(&mut self, at: At, pending: PendingLines, is_boundary: bool) {
        let (commit, path) = pending.instead.unwrap_or(at);
        for span in pending.spans {
            self.found.push(BlamedLines {
                line: span.line,
                len: span.len,
                commit,
                path: path.clone(),
                at: span.at,
                is_boundary,
            });
        }
    }
}

/// The content of a version, and where its chunks are in it.
struct Text {
    blob: Blob,
    bytes: Vec<u8>,
    chunks: HashMap<ObjectId, Range<usize>>,
}

/// Reads the content of versions. It keeps the last ones, because the next comparison needs one of
/// them, and copies chunks that two versions share instead of reading them again.
struct Texts<'a> {
    repo: &'a Repo,
    last: VecDeque<Arc<Text>>,
}

impl<'a> Texts<'a> {
    fn new(repo: &'a Repo) -> Texts<'a> {
        Texts {
            repo,
            last: VecDeque::new(),
        }
    }

    fn read(&mut self, blob: Blob) -> Result<Arc<Text>, RepoError> {
        self.load(blob, None)
    }

    /// Reads a version that has much in common with `like`.
    fn read_like(&mut self, blob: Blob, like: &Text) -> Result<Arc<Text>, RepoError> {
        self.load(blob, Some(like))
    }

    fn load(&mut self, blob: Blob, like: Option<&Text>) -> Result<Arc<Text>, RepoError> {
        if let Some(at) = self.last.iter().position(|text| text.blob == blob) {
            let found = self.last[at].clone();
            self.last.swap(at, 0);
            return Ok(found);
        }
        let mut bytes = Vec::with_capacity(usize::try_from(blob.size).unwrap_or(0));
        let mut chunks = HashMap::new();
        for chunk in BlobChunks::new(self.repo.objects(), blob) {
            let (_, id, len) = chunk?;
            let start = bytes.len();
            match like.and_then(|like| Some((like, like.chunks.get(&id)?))) {
                Some((like, range)) => bytes.extend_from_slice(&like.bytes[range.clone()]),
                None => {
                    read_chunk(self.repo, &id, len, &mut bytes)?;
                }
            }
            chunks.insert(id, start..bytes.len());
        }
        let text = Arc::new(Text {
            blob,
            bytes,
            chunks,
        });
        self.last.push_front(text.clone());
        let mut size = 0;
        let kept = self.last.iter().take_while(|text| {
            size += text.bytes.len() as u64;
            size <= MAX_BLAME_CACHE_BYTES
        });
        let kept = kept.count().max(1);
        self.last.truncate(kept);
        Ok(text)
    }
}
