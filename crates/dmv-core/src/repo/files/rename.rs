//! Renames: files that were moved between two commits, or between a commit and the worktree.

use crate::chunker::{Cutter, MAX_CUT_BYTES};
use crate::diff::rename::{Candidate, Contents, Pair, Side, Sketch, Sketcher, pair, sketch_of};
use crate::diff::{DiffVisitor, diff_trees};
use crate::fsutil::FileKind;
use crate::hash::ObjectId;
use crate::job::Job;
use crate::limits::{MAX_MERGE_TEXT_BYTES, MAX_RENAME_PATHS};
use crate::object::list::BlobChunks;
use crate::object::name::RepoPath;
use crate::object::tree::{TreeEntry, lookup_path};
use crate::object::{ObjectError, ObjectType};
use crate::platform::read_exact_at;
use crate::repo::base::change::{ChangeKind, PathChange};
use crate::repo::base::error::RepoError;
use crate::repo::base::repo::Repo;
use crate::repo::files::diff::{DiskFile, WorktreeChange, WorktreeSide, chunks_of};
use crate::repo::look::entries::blob_of;
use crate::worktree::select::Paths;
use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{self, Read as _};
use std::ops::ControlFlow;

/// The most files with the same size and first chunk whose last chunk is compared with one file.
const MAX_ALIKE: usize = 16;

/// A file that was removed at one path and added at another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rename {
    /// The former path.
    pub from: RepoPath,
    /// The new path.
    pub to: RepoPath,
    /// The former entry.
    pub entry: TreeEntry,
    /// How much of the content is the same, in percent. 100 means all of it.
    pub percent: u8,
}

/// Files that were moved.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Renames {
    /// The renames. Each file is in one of them at most.
    pub list: Vec<Rename>,
    /// Whether there were too many files to compare all of them, so that some renames may be
    /// missing.
    pub is_limited: bool,
}

/// A removed file.
struct Gone {
    path: RepoPath,
    entry: TreeEntry,
}

/// An added file, and where its content is.
struct New {
    path: RepoPath,
    size: u64,
    /// The id of its content, if it can be computed cheaply.
    id: Option<ObjectId>,
    /// The entry of a commit. `None` if the file is only on disk.
    entry: Option<TreeEntry>,
}

/// Removed and added files whose entries are stored.
struct Collect<'a> {
    repo: &'a Repo,
    paths: &'a Paths,
    job: &'a Job,
    from: Vec<Gone>,
    to: Vec<New>,
    is_limited: bool,
}

impl DiffVisitor for Collect<'_> {
    type Error = RepoError;

    fn joins_kinds(&self) -> bool {
        true
    }

    fn enter(&mut self, _: &RepoPath, sides: [Option<ObjectId>; 2]) -> bool {
        self.repo.holds_trees(sides)
    }

    fn change(
        &mut self,
        path: &RepoPath,
        old: Option<&TreeEntry>,
        new: Option<&TreeEntry>,
    ) -> Result<ControlFlow<()>, RepoError> {
        self.job.check()?;
        if !self.paths.includes(path.as_bytes()) {
            return Ok(ControlFlow::Continue(()));
        }
        let is_full = match (old, new) {
            (Some(_), None) => self.from.len() >= MAX_RENAME_PATHS,
            (None, Some(_)) => self.to.len() >= MAX_RENAME_PATHS,
            _ => return Ok(ControlFlow::Continue(())),
        };
        self.is_limited |= is_full;
        if is_full {
            return Ok(ControlFlow::Continue(()));
        }
        let path = path.clone();
        match (old, new) {
            (Some(entry), _) => {
                let entry = entry.clone();
                self.from.push(Gone { path, entry });
            }
            (None, Some(entry)) => self.to.push(of_tree(path, entry)),
            (None, None) => {}
        }
        Ok(ControlFlow::Continue(()))
    }
}

impl Repo {
    /// Finds renames among the changes of the worktree against its base.
    ///
    /// Two files count as equal if they have the same size, first chunk and last chunk. The chunks
    /// between are not read, so that a moved film costs no more than a moved note. The result is
    /// only for display: a commit stores what is there. Each file is in one pair at most. Empty
    /// files and symlinks are in none.
    pub fn renames(&self, changes: &[PathChange], job: &Job) -> Result<Renames, RepoError> {
        let of = |kind| changes.iter().filter(move |change| change.kind == kind);
        let most = MAX_RENAME_PATHS;
        let any = |kind| of(kind).next().is_some();
        let (true, true, Some(base)) = (
            any(ChangeKind::Deleted),
            any(ChangeKind::Added),
            self.base_commit()?,
        ) else {
            return Ok(Renames::default());
        };
        let tree = self.read_commit(&base)?.tree;
        let mut gone = Vec::new();
        for change in of(ChangeKind::Deleted).take(most) {
            job.check()?;
            if let Some(entry) = lookup_path(self.objects(), &tree, &change.path)? {
                let path = change.path.clone();
                gone.push(Gone { path, entry });
            }
        }
        let mut new = Vec::new();
        for change in of(ChangeKind::Added).take(most) {
            job.check()?;
            // A file that cannot be examined is not reported as moved.
            let stat = self.stat_worktree(&change.path).ok();
            if let Some(stat) = stat.filter(|stat| stat.kind == FileKind::File) {
                new.push(New {
                    path: change.path.clone(),
                    size: stat.size,
                    id: None,
                    entry: None,
                });
            }
        }
        let kinds = [ChangeKind::Deleted, ChangeKind::Added];
        let is_limited = kinds.into_iter().any(|kind| of(kind).count() > most);
        pair_files(self, gone, new, is_limited, job)
    }

    /// Returns the renames among the differences between a commit and the worktree.
    pub fn renames_among(
        &self,
        changes: &[WorktreeChange],
        job: &Job,
    ) -> Result<Renames, RepoError> {
        let (mut gone, mut new) = (Vec::new(), Vec::new());
        for change in changes {
            let path = change.path.clone();
            match (&change.old, &change.new) {
                (Some(entry), None) => {
                    let entry = entry.clone();
                    gone.push(Gone { path, entry });
                }
                (None, Some(WorktreeSide::Entry(entry))) => new.push(of_tree(path, entry)),
                (None, Some(WorktreeSide::Disk(DiskFile { stat, .. })))
                    if stat.kind == FileKind::File =>
                {
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
        let is_limited = gone.len().max(new.len()) > MAX_RENAME_PATHS;
        gone.truncate(MAX_RENAME_PATHS);
        new.truncate(MAX_RENAME_PATHS);
        pair_files(self, gone, new, is_limited, job)
    }

    /// Returns the renames under `paths` from one tree to another.
    pub fn renames_between(
        &self,
        old: Option<ObjectId>,
        new: Option<ObjectId>,
        paths: &Paths,
        job: &Job,
    ) -> Result<Renames, RepoError> {
        let mut collect = Collect {
            repo: self,
            paths,
            job,
            from: Vec::new(),
            to: Vec::new(),
            is_limited: false,
        };
        // The result is never `Break`: files over the limit are ignored.
        let _ = diff_trees(self.objects(), old, new, &mut collect)?;
        pair_files(self, collect.from, collect.to, collect.is_limited, job)
    }

    /// Returns the path that the file at `path` in the tree `new` had in the tree `old`, if it was
    /// renamed.
    pub fn path_before(
        &self,
        old: &ObjectId,
        new: &ObjectId,
        path: &RepoPath,
        job: &Job,
    ) -> Result<Option<RepoPath>, RepoError> {
        let all = Paths::default();
        let renames = self.renames_between(Some(*old), Some(*new), &all, job)?;
        let found = renames.list.into_iter().find(|r| r.to == *path);
        Ok(found.map(|rename| rename.from))
    }
}

fn pair_files(
    repo: &Repo,
    mut gone: Vec<Gone>,
    mut new: Vec<New>,
    is_limited: bool,
    job: &Job,
) -> Result<Renames, RepoError> {
    gone.retain(|file| file.entry.kind.is_blob());
    new.retain(|file| file.entry.as_ref().is_none_or(|e| e.kind.is_blob()));
    if gone.is_empty() || new.is_empty() {
        return Ok(Renames::default());
    }
    know_by_ends(repo, &gone, &mut new, job)?;
    let before: Vec<Candidate<'_>> = gone
        .iter()
        .map(|file| Candidate::of_entry(file.path.as_bytes(), &file.entry))
        .collect();
    let after: Vec<Candidate<'_>> = new
        .iter()
        .map(|file| match &file.entry {
            Some(entry) => Candidate::of_entry(file.path.as_bytes(), entry),
            None => Candidate {
                path: file.path.as_bytes(),
                size: file.size,
                id: file.id,
                is_blob: true,
                equal_only: false,
                read_bytes: file.size,
            },
        })
        .collect();
    let mut read = Read {
        repo,
        gone: &gone,
        new: &new,
        job,
    };
    let pairs = pair(&before, &after, &mut read)?;
    let rename = |pair: Pair| Rename {
        from: gone[pair.from].path.clone(),
        to: new[pair.to].path.clone(),
        entry: gone[pair.from].entry.clone(),
        percent: pair.percent,
    };
    Ok(Renames {
        list: pairs.list.into_iter().map(rename).collect(),
        is_limited: is_limited || pairs.is_limited,
    })
}

/// Returns a sketch of the content of a file on disk, or `None` if the file cannot be read.
fn sketch_on_disk(repo: &Repo, file: &New, sketcher: Sketcher, job: &Job) -> Option<Sketch> {
    let opened = repo.open_worktree_file(&file.path).ok()?;
    if file.size > MAX_MERGE_TEXT_BYTES {
        let chunks = chunks_of(opened, job).ok()?;
        return Some(sketcher.of_chunks(chunks.into_iter().map(|(_, id, len)| (id, len))));
    }
    let mut content = Vec::new();
    opened.take(file.size).read_to_end(&mut content).ok()?;
    Some(sketcher.of_content(&content))
}

/// Finds the content ids of files on disk that have the size, the first chunk and the last chunk of
/// a removed file.
fn know_by_ends(repo: &Repo, gone: &[Gone], new: &mut [New], job: &Job) -> Result<(), RepoError> {
    let sizes: HashSet<u64> = new
        .iter()
        .filter(|file| file.entry.is_none())
        .map(|file| file.size)
        .collect();
    let mut by_start: HashMap<(u64, ObjectId), Vec<&TreeEntry>> = HashMap::new();
    let mut known = HashSet::new();
    for Gone { entry, .. } in gone {
        if entry.size == 0 || !sizes.contains(&entry.size) || !known.insert(entry.id) {
            continue;
        }
        job.check()?;
        match BlobChunks::new(repo.objects(), blob_of(entry)).next() {
            Some(Ok((_, id, _))) => by_start.entry((entry.size, id)).or_default().push(entry),
            // A list that is absent by choice shows no ends.
            Some(Err(ObjectError::Missing { .. })) | None => {}
            Some(Err(e)) => return Err(e.into()),
        }
    }
    let wanted: HashSet<u64> = by_start.keys().map(|(size, _)| *size).collect();
    for file in new.iter_mut().filter(|file| file.entry.is_none()) {
        job.check()?;
        if !wanted.contains(&file.size) {
            continue;
        }
        let Some((opened, first)) = first_chunk(repo, &file.path) else {
            continue;
        };
        let alike = by_start.get(&(file.size, first));
        for entry in alike.into_iter().flatten().take(MAX_ALIKE) {
            if ends_alike(repo, &opened, entry)? {
                file.id = Some(entry.id);
                break;
            }
        }
    }
    Ok(())
}

/// Opens a file and hashes its first chunk.
fn first_chunk(repo: &Repo, path: &RepoPath) -> Option<(File, ObjectId)> {
    let file = repo.open_worktree_file(path).ok()?;
    let mut start = Vec::new();
    let most = MAX_CUT_BYTES as u64 + 1;
    (&file).take(most).read_to_end(&mut start).ok()?;
    let cut = Cutter::new().cut(&start);
    Some((file, ObjectType::Chunk.id_of(&start[..cut])))
}

/// Returns whether the file's last chunk is the last chunk of `entry`.
fn ends_alike(repo: &Repo, file: &File, entry: &TreeEntry) -> Result<bool, RepoError> {
    let blob = blob_of(entry);
    let last = BlobChunks::starting_at(repo.objects(), blob, entry.size - 1).next();
    let (offset, id, len) = match last {
        Some(Ok(last)) => last,
        Some(Err(ObjectError::Missing { .. })) | None => return Ok(false),
        Some(Err(e)) => return Err(e.into()),
    };
    let mut end = vec![0; len as usize];
    let read: io::Result<()> = read_exact_at(file, &mut end, offset);
    Ok(read.is_ok() && ObjectType::Chunk.id_of(&end) == id)
}

/// Reads the files to compare.
struct Read<'a> {
    repo: &'a Repo,
    gone: &'a [Gone],
    new: &'a [New],
    job: &'a Job,
}

impl Contents for Read<'_> {
    type Error = RepoError;

    fn sketch(
        &mut self,
        side: Side,
        n: usize,
        sketcher: Sketcher,
    ) -> Result<Option<Sketch>, RepoError> {
        let entry = match side {
            Side::Gone => Some(&self.gone[n].entry),
            Side::New => self.new[n].entry.as_ref(),
        };
        let objects = self.repo.objects();
        Ok(match entry {
            Some(entry) => sketch_of(objects, blob_of(entry), sketcher, &mut 0)?,
            None => sketch_on_disk(self.repo, &self.new[n], sketcher, self.job),
        })
    }

    fn reading_ranks(&mut self, side: Side, files: &[usize]) -> Result<Vec<u32>, RepoError> {
        let entry = |n: &usize| match side {
            Side::Gone => Some(&self.gone[*n].entry),
            Side::New => self.new[*n].entry.as_ref(),
        };
        let roots = files
            .iter()
            .map(|n| entry(n).map(|entry| blob_of(entry).root()));
        match roots.collect::<Option<Vec<_>>>() {
            Some(roots) => Ok(self.repo.objects().reading_ranks(&roots)?),
            // Files on disk: in the order of paths.
            None => Ok(files.iter().map(|n| *n as u32).collect()),
        }
    }

    fn go_on(&mut self) -> Result<(), RepoError> {
        Ok(self.job.check()?)
    }
}

fn of_tree(path: RepoPath, entry: &TreeEntry) -> New {
    New {
        path,
        size: entry.size,
        id: Some(entry.id),
        entry: Some(entry.clone()),
    }
}
