//! Which paths take the space, over all history, and which files share little with their versions.

use crate::diff::diff_trees;
use crate::hash::ObjectId;
use crate::job::Job;
use crate::object::list::{Blob, BlobChunks};
use crate::object::name::RepoPath;
use crate::object::tree::{Kind, TreeEntry};
use crate::object::{ObjectError, ObjectType};
use crate::reach::{Detail, Reach};
use crate::repo::base::error::{AbsentError, RepoError};
use crate::repo::base::repo::Repo;
use crate::repo::base::slice::RepoSlice;
use crate::repo::look::entries::blob_of;
use crate::repo::look::stored::StoredLens;
use crate::worktree::select::is_under;
use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;

/// The most bytes at the start of a file that tell its format.
const MAGIC_BYTES: usize = 8;
/// The smallest file in bytes whose format is looked at. Smaller ones have few chunks to share.
const LARGE: u64 = 1 << 20;

/// The versions of one path in all history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathUse {
    /// The path.
    pub path: RepoPath,
    /// The number of different contents that it has had.
    pub versions: u64,
    /// Bytes of all versions.
    pub bytes: u64,
    /// Bytes of the newest version.
    pub newest_bytes: u64,
    /// Bytes of chunks that no newer version of any path has. Content that several paths share
    /// counts once.
    pub unique_bytes: u64,
    /// What those of them that are stored here take in packs. Each chunk has its part of its frame.
    pub stored_bytes: u64,
    /// The same, without the newest version.
    pub earlier_stored_bytes: u64,
    /// The number of versions whose content was dropped, has expired or was purged.
    pub given_up: u64,
    /// The compression of the newest version, if it is compressed as a whole, so that an edit changes
    /// most of it (see [`compressed_as`]). Only known for files of at least 1 MiB with several versions.
    pub compressed: Option<&'static str>,
}

impl PathUse {
    /// Returns how much of the earlier versions is also in other versions, in percent. `None` for
    /// fewer than two versions, or if they are empty.
    pub fn shared_percent(&self) -> Option<u64> {
        let earlier = self.bytes.checked_sub(self.newest_bytes)?;
        let shared = self.bytes.saturating_sub(self.unique_bytes).min(earlier);
        (self.versions > 1 && earlier > 0).then(|| shared * 100 / earlier)
    }
}

/// The space that all history takes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HistoryUse {
    /// The paths, the largest `stored_bytes` first.
    pub paths: Vec<PathUse>,
    /// The number of commits.
    pub commits: u64,
    /// Whether directories or file lists are not stored here, so that some versions do not count.
    pub is_partial: bool,
}

impl Repo {
    /// Adds up the versions of all paths at or under `limits` in the history of all branches, tags
    /// and worktrees; without limits, of all paths. Reads metadata, and the first chunk of each
    /// large file with several versions.
    ///
    /// Memory: some 32 bytes for each different chunk, and 40 for each version of a file or directory.
    pub fn history_use(&self, limits: &[RepoPath], job: &Job) -> Result<HistoryUse, RepoError> {
        let mut walk = Walk {
            repo: self,
            limits,
            job,
            // Damage of this file stops nothing that only counts: `verify` reports it.
            slice: self.slice().unwrap_or_default(),
            dirs: PathContents::default(),
            files: PathContents::default(),
            chunks: HashSet::new(),
            lens: StoredLens::new(self),
            newest: Vec::new(),
            out: HistoryUse::default(),
        };
        let mut reach = Reach::new(self.complete_commits()?, [], Detail::Commits);
        while let Some(found) = reach.next(self.objects())? {
            if found.here {
                walk.out.commits += 1;
                walk.tree(self.read_commit(&found.id)?.tree)?;
            }
        }
        let Walk {
            lens,
            newest,
            mut out,
            ..
        } = walk;
        lens.finish(&mut |part, len| out.add_stored(part, len))?;
        for (used, newest) in out.paths.iter_mut().zip(newest) {
            if used.versions > 1 && used.newest_bytes >= LARGE {
                used.compressed = compressed(self, newest)?;
            }
        }
        out.paths.sort_by(|a, b| {
            let by_size = b.stored_bytes.cmp(&a.stored_bytes);
            by_size.then_with(|| a.path.cmp(&b.path))
        });
        Ok(out)
    }
}

impl HistoryUse {
    fn add_stored(&mut self, part: PathPart, stored_bytes: u64) {
        let used = &mut self.paths[part.path];
        used.stored_bytes += stored_bytes;
        used.earlier_stored_bytes += if part.is_earlier { stored_bytes } else { 0 };
    }
}

/// Where a chunk counts.
#[derive(Clone, Copy)]
struct PathPart {
    /// The position of the path in the list.
    path: usize,
    /// Whether the chunk is in an earlier version than the newest.
    is_earlier: bool,
}

/// Numbers for paths, and which contents each has had.
#[derive(Default)]
struct PathContents {
    numbers: HashMap<RepoPath, u32>,
    contents: HashSet<(u32, ObjectId)>,
}

impl PathContents {
    /// Returns the number of the path, and whether it has this content for the first time.
    fn note(&mut self, path: &RepoPath, id: ObjectId) -> (usize, bool) {
        let number = match self.numbers.get(path) {
            Some(number) => *number,
            None => {
                let number = self.numbers.len() as u32;
                self.numbers.insert(path.clone(), number);
                number
            }
        };
        (number as usize, self.contents.insert((number, id)))
    }
}

struct Walk<'a> {
    repo: &'a Repo,
    limits: &'a [RepoPath],
    job: &'a Job,
    slice: RepoSlice,
    dirs: PathContents,
    /// The numbers are positions in `out.paths`.
    files: PathContents,
    chunks: HashSet<ObjectId>,
    lens: StoredLens<'a, PathPart>,
    /// The newest version of each path in `out.paths`.
    newest: Vec<Blob>,
    out: HistoryUse,
}

impl Walk<'_> {
    /// Visits the directories of a commit that no commit before it had at the same path.
    fn tree(&mut self, root: ObjectId) -> Result<(), RepoError> {
        let mut stack = vec![(RepoPath::root(), root)];
        while let Some((path, id)) = stack.pop() {
            self.job.check()?;
            if !self.dirs.note(&path, id).1 {
                continue;
            }
            let listed = self.repo.list(&path, id, false, &mut |listed| {
                match listed.entry.kind {
                    Kind::Directory if self.leads_to(&listed.path) => {
                        stack.push((listed.path, listed.entry.id));
                    }
                    kind if kind.is_blob() && self.is_asked_for(&listed.path) => {
                        self.file(&listed.path, &listed.entry)?;
                    }
                    _ => {}
                }
                Ok(ControlFlow::Continue(()))
            });
            self.unless_absent(listed)?;
        }
        Ok(())
    }

    fn is_asked_for(&self, path: &RepoPath) -> bool {
        let is_in = |limit: &RepoPath| is_under(path.as_bytes(), limit.as_bytes());
        self.limits.is_empty() || self.limits.iter().any(is_in)
    }

    fn leads_to(&self, dir: &RepoPath) -> bool {
        let is_above = |limit: &RepoPath| is_under(limit.as_bytes(), dir.as_bytes());
        self.is_asked_for(dir) || self.limits.iter().any(is_above)
    }

    fn file(&mut self, path: &RepoPath, entry: &TreeEntry) -> Result<(), RepoError> {
        let (number, is_new) = self.files.note(path, entry.id);
        if !is_new {
            return Ok(());
        }
        if number == self.out.paths.len() {
            self.out.paths.push(PathUse {
                path: path.clone(),
                versions: 0,
                bytes: 0,
                newest_bytes: entry.size,
                unique_bytes: 0,
                stored_bytes: 0,
                earlier_stored_bytes: 0,
                given_up: 0,
                compressed: None,
            });
            self.newest.push(blob_of(entry));
        }
        let part = PathPart {
            path: number,
            is_earlier: self.out.paths[number].versions > 0,
        };
        let counted = self.count_new(blob_of(entry), part);
        self.unless_absent(counted)?;
        let used = &mut self.out.paths[number];
        used.versions += 1;
        used.given_up += u64::from(self.slice.is_given_up(&entry.id));
        used.bytes += entry.size;
        Ok(())
    }

    /// Counts those chunks of a file that were not counted yet.
    fn count_new(&mut self, blob: Blob, part: PathPart) -> Result<(), RepoError> {
        for chunk in BlobChunks::new(self.repo.objects(), blob) {
            let (_, id, len) = chunk?;
            if self.chunks.insert(id) {
                self.out.paths[part.path].unique_bytes += len;
                let out = &mut self.out;
                let mut add = |part, len| out.add_stored(part, len);
                self.lens.ask(id, part, &mut add)?;
            }
        }
        Ok(())
    }

    /// Metadata that a partial repository does not store makes the result incomplete.
    fn unless_absent(&mut self, done: Result<(), RepoError>) -> Result<(), RepoError> {
        match done {
            Err(RepoError::Absent(AbsentError::Object { .. })) => {
                self.out.is_partial = true;
                Ok(())
            }
            done => done,
        }
    }
}

/// A large file that is saved compressed as a whole, so that its versions share little.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompressedFile {
    /// The path.
    pub path: RepoPath,
    /// The compression, such as `zstd`.
    pub compressed: &'static str,
    /// How much of the new version the old one has, too, in percent.
    pub shared_percent: u64,
}

/// The smallest file in bytes that a commit warns of.
const WORTH_A_WARNING: u64 = 8 << 20;
/// A version that shares at least this much with the one before is worth no warning, in percent.
const MUCH_SHARED: u64 = 10;
/// The most chunks of each version that are compared: some 4 GiB.
const MAX_COMPARED: usize = 64 << 10;

/// The most changed files that are looked at: the largest ones.
const MAX_LOOKED_AT: usize = 1024;

/// A large file that two commits have with different contents.
struct LargeChange {
    path: RepoPath,
    old: Blob,
    new: Blob,
}

/// Returns the largest file that differs between two root trees, is saved compressed, and shares
/// little with its previous version. Reads the first chunk of large files and no other content.
pub fn saved_compressed(
    repo: &Repo,
    old: ObjectId,
    new: ObjectId,
) -> Result<Option<CompressedFile>, RepoError> {
    for change in large_changes(repo, old, new)? {
        let Some(compressed) = compressed(repo, change.new)? else {
            continue;
        };
        let shared_percent = shared_percent(repo, &change)?;
        if shared_percent < MUCH_SHARED {
            return Ok(Some(CompressedFile {
                path: change.path,
                compressed,
                shared_percent,
            }));
        }
    }
    Ok(None)
}

/// Returns the large files that differ between two root trees, the largest first.
fn large_changes(repo: &Repo, old: ObjectId, new: ObjectId) -> Result<Vec<LargeChange>, RepoError> {
    let mut changes: Vec<LargeChange> = Vec::new();
    let shorten = |changes: &mut Vec<LargeChange>| {
        changes.sort_by_key(|change| Reverse(change.new.size));
        changes.truncate(MAX_LOOKED_AT);
    };
    let mut note = |path: &RepoPath, old: Option<&TreeEntry>, new: Option<&TreeEntry>| {
        if let (Some(old), Some(new)) = (old, new)
            && old.kind.is_blob()
            && new.kind.is_blob()
            && new.size >= WORTH_A_WARNING
        {
            if changes.len() >= 2 * MAX_LOOKED_AT {
                shorten(&mut changes);
            }
            changes.push(LargeChange {
                path: path.clone(),
                old: blob_of(old),
                new: blob_of(new),
            });
        }
        Ok::<_, ObjectError>(ControlFlow::Continue(()))
    };
    let _ = diff_trees(repo.objects(), Some(old), Some(new), &mut note)?;
    shorten(&mut changes);
    Ok(changes)
}

/// Returns how much of the new version the old one has, too, in percent.
fn shared_percent(repo: &Repo, change: &LargeChange) -> Result<u64, RepoError> {
    let mut known = HashSet::new();
    for chunk in BlobChunks::new(repo.objects(), change.old).take(MAX_COMPARED) {
        known.insert(chunk?.1);
    }
    let (mut all, mut shared) = (0, 0);
    for chunk in BlobChunks::new(repo.objects(), change.new).take(MAX_COMPARED) {
        let (_, id, len) = chunk?;
        all += len;
        shared += if known.contains(&id) { len } else { 0 };
    }
    Ok(shared * 100 / all.max(1))
}

/// Returns the name of the compression of a file, if it is compressed as a whole and its content
/// is stored here.
fn compressed(repo: &Repo, blob: Blob) -> Result<Option<&'static str>, RepoError> {
    let first = match BlobChunks::new(repo.objects(), blob).next().transpose() {
        Ok(Some((_, id, _))) => id,
        _ => return Ok(None),
    };
    let start = repo.objects().read(ObjectType::Chunk, &first)?;
    Ok(start.and_then(|start| compressed_as(&start[..start.len().min(MAGIC_BYTES)])))
}

/// Returns the name of the compression that a file begins with. These compress a whole document, so
/// that an edit changes everything behind it. Formats of pictures, sound and video are not among
/// them: without their compression they would be larger than all versions together.
///
/// Sources: RFC 1952 (gzip), RFC 8878 (zstd), .ZIP File Format Specification 4.3.7, The .xz File
/// Format 2.1.1.1, bzip2's and 7-Zip's documentation.
pub fn compressed_as(start: &[u8]) -> Option<&'static str> {
    let magics: [(&[u8], &str); 6] = [
        (b"\x1f\x8b\x08", "gzip"),
        (b"\x28\xb5\x2f\xfd", "zstd"),
        (b"PK\x03\x04", "zip"),
        (b"\xfd7zXZ\x00", "xz"),
        (b"BZh", "bzip2"),
        (b"7z\xbc\xaf\x27\x1c", "7z"),
    ];
    let found = magics.iter().find(|(magic, _)| start.starts_with(magic));
    found.map(|(_, name)| *name)
}
