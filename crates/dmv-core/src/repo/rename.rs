//! Files that were moved: between two commits, or from a commit to the worktree.

use super::diff::{WorktreeChange, WorktreeSide, chunks_of};
use super::{ChangeKind, PathChange, Repo, RepoError};
use crate::chunker::{Cutter, MAX_CUT_BYTES};
use crate::diff::rename::{Candidate, Pieces, Side, pair, pieces_of};
use crate::diff::{DiffVisitor, diff_trees};
use crate::fsutil::FileKind;
use crate::hash::ObjectId;
use crate::job::Job;
use crate::limits::{MAX_MERGE_TEXT_BYTES, MAX_RENAME_BYTES, MAX_RENAME_PATHS};
use crate::object::ObjectType;
use crate::object::list::BlobChunks;
use crate::object::name::RepoPath;
use crate::object::tree::{TreeEntry, lookup_path};
use crate::repo::look::blob_of;
use crate::worktree::select::Paths;
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read};
use std::ops::ControlFlow;
use std::os::unix::fs::FileExt;

/// A file that is gone in one place and new in another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rename {
    /// Where it was.
    pub from: Vec<u8>,
    /// Where it is.
    pub to: Vec<u8>,
    /// What it was.
    pub entry: TreeEntry,
    /// How much of it is the same, in percent; 100: all of it.
    pub percent: u8,
}

/// A file that is gone.
struct Gone {
    path: Vec<u8>,
    entry: TreeEntry,
}

/// A file that is new, and where its content is.
struct New {
    path: Vec<u8>,
    size: u64,
    /// The id of its content, as far as that can be told cheaply.
    id: Option<ObjectId>,
    /// The entry of a commit, or else it is on disk.
    entry: Option<TreeEntry>,
}

/// Files that came or went, as far as they are here.
struct Collect<'a> {
    repo: &'a Repo,
    paths: &'a Paths,
    job: &'a Job,
    from: Vec<Gone>,
    to: Vec<New>,
}

impl DiffVisitor for Collect<'_> {
    type Error = RepoError;

    fn enter(&mut self, _: &RepoPath, sides: [Option<ObjectId>; 2]) -> bool {
        self.repo.holds_trees(sides)
    }

    fn change(
        &mut self,
        path: &RepoPath,
        old: Option<&TreeEntry>,
        new: Option<&TreeEntry>,
    ) -> Result<ControlFlow<()>, RepoError> {
        if self.job.is_cancelled() {
            return Err(RepoError::Cancelled);
        }
        if !self.paths.includes(path.as_bytes()) {
            return Ok(ControlFlow::Continue(()));
        }
        let path = path.as_bytes().to_vec();
        match (old, new) {
            (Some(entry), None) => {
                let entry = entry.clone();
                self.from.push(Gone { path, entry });
            }
            (None, Some(entry)) => self.to.push(of_tree(path, entry)),
            _ => {}
        }
        Ok(
            match self.from.len().max(self.to.len()) > MAX_RENAME_PATHS {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            },
        )
    }
}

impl Repo {
    /// Renames among the changes of the worktree against its base.
    ///
    /// A file of the same size with the same first and last chunk counts as equal: what is between
    /// is not read, so that a look at a moved film costs no more than one at a moved note. It is for
    /// showing only: a commit stores what is there. Each file is in one pair at most; empty files
    /// and symlinks are in none.
    pub fn renames(&self, changes: &[PathChange], job: &Job) -> Result<Vec<Rename>, RepoError> {
        let of = |kind| changes.iter().filter(move |change| change.kind == kind);
        let any = |kind| of(kind).next().is_some();
        let (true, true, Some(base)) = (
            any(ChangeKind::Deleted),
            any(ChangeKind::Added),
            self.base_commit()?,
        ) else {
            return Ok(Vec::new());
        };
        let tree = self.read_commit(&base)?.tree;
        let mut gone = Vec::new();
        for change in of(ChangeKind::Deleted) {
            let path = Repo::parse_path(&change.path)?;
            if let Some(entry) = lookup_path(self.objects(), &tree, &path)? {
                let path = change.path.clone();
                gone.push(Gone { path, entry });
            }
        }
        let mut new = Vec::new();
        for change in of(ChangeKind::Added) {
            // What cannot be looked at is just not known to have been moved.
            let path = Repo::parse_path(&change.path)?;
            let stat = self.stat_worktree(&path).ok();
            if let Some(stat) = stat.filter(|stat| stat.kind == FileKind::File) {
                new.push(New {
                    path: change.path.clone(),
                    size: stat.size,
                    id: None,
                    entry: None,
                });
            }
        }
        self.pair_files(gone, new, job)
    }

    /// Renames among what differs between a commit and the worktree.
    pub fn renames_among(
        &self,
        changes: &[WorktreeChange],
        job: &Job,
    ) -> Result<Vec<Rename>, RepoError> {
        let (mut gone, mut new) = (Vec::new(), Vec::new());
        for change in changes {
            let path = change.path.as_bytes().to_vec();
            match (&change.old, &change.new) {
                (Some(entry), None) => {
                    let entry = entry.clone();
                    gone.push(Gone { path, entry });
                }
                (None, Some(WorktreeSide::Entry(entry))) => new.push(of_tree(path, entry)),
                (None, Some(WorktreeSide::Disk(stat))) if stat.kind == FileKind::File => {
                    new.push(New {
                        path,
                        size: stat.size,
                        id: None,
                        entry: None,
                    });
                }
                _ => {}
            }
        }
        self.pair_files(gone, new, job)
    }

    /// Renames under `paths` from one tree to another; none where too many files came or went.
    pub fn renames_between(
        &self,
        old: Option<ObjectId>,
        new: Option<ObjectId>,
        paths: &Paths,
        job: &Job,
    ) -> Result<Vec<Rename>, RepoError> {
        let mut collect = Collect {
            repo: self,
            paths,
            job,
            from: Vec::new(),
            to: Vec::new(),
        };
        match diff_trees(self.objects(), old, new, &mut collect)? {
            ControlFlow::Continue(()) => self.pair_files(collect.from, collect.to, job),
            ControlFlow::Break(()) => Ok(Vec::new()),
        }
    }

    /// Where the file at `path` in the tree `new` was in the tree `old`, if it was moved.
    pub fn path_before(
        &self,
        old: &ObjectId,
        new: &ObjectId,
        path: &RepoPath,
        job: &Job,
    ) -> Result<Option<RepoPath>, RepoError> {
        let all = Paths::default();
        let renames = self.renames_between(Some(*old), Some(*new), &all, job)?;
        let found = renames.into_iter().find(|r| r.to == path.as_bytes());
        found
            .map(|rename| Repo::parse_path(&rename.from))
            .transpose()
    }

    fn pair_files(
        &self,
        mut gone: Vec<Gone>,
        mut new: Vec<New>,
        job: &Job,
    ) -> Result<Vec<Rename>, RepoError> {
        gone.retain(|file| file.entry.kind.is_blob());
        new.retain(|file| file.entry.as_ref().is_none_or(|e| e.kind.is_blob()));
        if gone.is_empty() || new.is_empty() {
            return Ok(Vec::new());
        }
        self.know_by_ends(&gone, &mut new, job)?;
        let before: Vec<Candidate<'_>> = gone
            .iter()
            .map(|file| Candidate::of_entry(&file.path, &file.entry))
            .collect();
        let after: Vec<Candidate<'_>> = new
            .iter()
            .map(|file| Candidate {
                path: &file.path,
                size: file.size,
                id: file.id,
            })
            .collect();
        let mut budget = MAX_RENAME_BYTES;
        let mut pieces = |side, n: usize| {
            if job.is_cancelled() {
                return Err(RepoError::Cancelled);
            }
            let entry = match side {
                Side::Gone => Some(&gone[n].entry),
                Side::New => new[n].entry.as_ref(),
            };
            match entry {
                Some(entry) => Ok(pieces_of(self.objects(), blob_of(entry))?),
                None => Ok(self.pieces_on_disk(&new[n], &mut budget, job)),
            }
        };
        let pairs = pair(&before, &after, &mut pieces)?;
        let rename = |pair: crate::diff::rename::Pair| Rename {
            from: gone[pair.from].path.clone(),
            to: new[pair.to].path.clone(),
            entry: gone[pair.from].entry.clone(),
            percent: pair.percent,
        };
        Ok(pairs.into_iter().map(rename).collect())
    }

    /// The pieces of a file on disk, unless that cannot be read or is more than the budget allows.
    fn pieces_on_disk(&self, file: &New, budget: &mut u64, job: &Job) -> Option<Pieces> {
        *budget = budget.checked_sub(file.size)?;
        let path = RepoPath::parse(&file.path).ok()?;
        let opened = self.open_worktree_file(&path).ok()?;
        if file.size > MAX_MERGE_TEXT_BYTES {
            let chunks = chunks_of(opened, job).ok()?;
            return Some(Pieces::of_chunks(
                chunks.into_iter().map(|(_, id, len)| (id, len)),
            ));
        }
        let mut content = Vec::new();
        opened.take(file.size).read_to_end(&mut content).ok()?;
        Some(Pieces::of_content(&content))
    }

    /// Tells the content of files on disk that have the size, the first and the last chunk of one
    /// that is gone.
    fn know_by_ends(&self, gone: &[Gone], new: &mut [New], job: &Job) -> Result<(), RepoError> {
        let mut by_size: HashMap<u64, Vec<&TreeEntry>> = HashMap::new();
        for file in gone.iter().filter(|file| file.entry.size > 0) {
            by_size
                .entry(file.entry.size)
                .or_default()
                .push(&file.entry);
        }
        let mut starts: HashMap<ObjectId, ObjectId> = HashMap::new();
        for file in new.iter_mut().filter(|file| file.entry.is_none()) {
            if job.is_cancelled() {
                return Err(RepoError::Cancelled);
            }
            let Some(list) = by_size.get(&file.size) else {
                continue;
            };
            let Some((opened, first)) = self.first_chunk(&file.path) else {
                continue;
            };
            for entry in list {
                let start = match starts.get(&entry.id) {
                    Some(start) => *start,
                    None => {
                        let first = BlobChunks::new(self.objects(), blob_of(entry)).next();
                        let Some((_, id, _)) = first.transpose()? else {
                            continue;
                        };
                        starts.insert(entry.id, id);
                        id
                    }
                };
                if start == first && self.ends_alike(&opened, entry)? {
                    file.id = Some(entry.id);
                    break;
                }
            }
        }
        Ok(())
    }

    /// Opens a file and hashes its first chunk.
    fn first_chunk(&self, path: &[u8]) -> Option<(File, ObjectId)> {
        let file = self.open_worktree_file(&RepoPath::parse(path).ok()?).ok()?;
        let mut start = Vec::new();
        let most = MAX_CUT_BYTES as u64 + 1;
        (&file).take(most).read_to_end(&mut start).ok()?;
        let cut = Cutter::new().cut(&start);
        Some((file, ObjectType::Chunk.id_of(&start[..cut])))
    }

    /// Whether the file's last chunk is that of `entry`.
    fn ends_alike(&self, file: &File, entry: &TreeEntry) -> Result<bool, RepoError> {
        let blob = blob_of(entry);
        let last = BlobChunks::starting_at(self.objects(), blob, entry.size - 1).next();
        let Some((offset, id, len)) = last.transpose()? else {
            return Ok(false);
        };
        let mut end = vec![0; len as usize];
        let read: io::Result<()> = file.read_exact_at(&mut end, offset);
        Ok(read.is_ok() && ObjectType::Chunk.id_of(&end) == id)
    }
}

fn of_tree(path: Vec<u8>, entry: &TreeEntry) -> New {
    New {
        path,
        size: entry.size,
        id: Some(entry.id),
        entry: Some(entry.clone()),
    }
}
