//! Takes stored blocks in their order, and makes trees and commits of them.

use super::PointersTaken;
use super::content::{StoredBlock, StoredChunk};
use super::lfs::{LfsObjects, Pointer};
use super::returned::ReturnedTrees;
use super::trees::{LeftOut, NotYet, TreeMaker, known_tree};
use super::{Problem, Trouble};
use crate::commit::{CommitPlace, Form, GitOrigin, MAX_PARENTS, to_dmv, to_git};
use crate::error::GitError;
use crate::id::{Algorithm, GitId, GitType};
use crate::map::{Became, IdMap, KnownObject};
use crate::object::GitCommit;
use crate::source::GitSource;
use dmv_core::ObjectId;
use dmv_core::job::Job;
use dmv_core::object::commit::Commit;
use dmv_core::object::list::{Blob, ListBuilder};
use dmv_core::object::tree::TreeSummary;
use dmv_core::object::{ObjectType, ObjectWrite};
use dmv_core::repo::Repo;
use dmv_core::store::MetaWriter;
use dmv_core::worktree::content::store_content;
use std::collections::{HashMap, HashSet};

/// Bytes of trees that wait for their commit. Beyond them, those are converted whose entries are known.
const MOST_WAITING_BYTES: usize = 64 << 20;
/// A longer blob is not looked at as a symlink's target.
const MAX_TARGET_BYTES: usize = 4095;
/// Directories in each other that a path can have: docs/format/objects.md, "Names".
const MAX_DEPTH: usize = 1024;

/// Why content of Git LFS is not taken.
const DAMAGED: &str = "the content of Git LFS is damaged: it does not fit its pointer";
/// Why an export gives a commit another id.
const HEADERS_TOO_LONG: &str = "its headers are too long to be kept; an export gives it another id";

/// What lasts over the portions of an import.
pub struct Progress<'i> {
    /// What is converted.
    pub map: &'i mut IdMap,
    /// The texts of the pointers of Git LFS whose content was taken.
    pub pointers: HashMap<GitId, Vec<u8>>,
    /// The commits up to which everything is converted.
    pub heads: HashSet<GitId>,
    /// Where the content of Git LFS is, if it is wanted.
    pub lfs: Option<LfsObjects>,
    /// The algorithm of Git's ids.
    pub algorithm: Algorithm,
    /// Finds commits that were exported.
    returned_trees: ReturnedTrees<'i>,
    /// Counts what is done.
    pub job: &'i Job,
    /// Commits that were not known before.
    pub commits: u64,
    /// Commits that were made by DMV and came back.
    pub returned: u64,
    /// Contents that were read.
    pub files: u64,
    /// Pointers of Git LFS that were taken because their content is not wanted.
    pub pointers_taken: PointersTaken,
    /// What could not be taken as it is.
    pub problems: Vec<Problem>,
}

impl<'i> Progress<'i> {
    /// Returns the beginning of an import from `source` into `repo`.
    pub fn new(
        source: &'i GitSource,
        repo: &'i Repo,
        map: &'i mut IdMap,
        lfs: Option<LfsObjects>,
        job: &'i Job,
    ) -> Result<Progress<'i>, GitError> {
        Ok(Progress {
            pointers: map.pointers()?,
            map,
            heads: HashSet::new(),
            lfs,
            algorithm: source.algorithm(),
            returned_trees: ReturnedTrees::new(source, repo),
            job,
            commits: 0,
            returned: 0,
            files: 0,
            pointers_taken: PointersTaken::default(),
            problems: Vec::new(),
        })
    }
}

/// Converts one portion.
pub struct Builder<'b, 'i> {
    pub all: &'b mut Progress<'i>,
    lane: MetaWriter<'b>,
    /// The chunks of the blob that has not ended.
    list: ListBuilder,
    /// Trees that are not converted.
    waiting: HashMap<GitId, Vec<u8>>,
    /// Their ids, each before those of its entries.
    order: Vec<GitId>,
    waiting_bytes: usize,
    /// The last commit, whose trees are coming.
    commit: Option<WaitingCommit>,
}

struct WaitingCommit {
    id: GitId,
    bytes: Vec<u8>,
}

impl<'b, 'i> Builder<'b, 'i> {
    /// Returns a builder that stores through `lane`.
    pub fn new(all: &'b mut Progress<'i>, lane: MetaWriter<'b>) -> Builder<'b, 'i> {
        Builder {
            all,
            lane,
            list: ListBuilder::new(),
            waiting: HashMap::new(),
            order: Vec::new(),
            waiting_bytes: 0,
            commit: None,
        }
    }

    /// Takes the next block.
    pub fn take(&mut self, stored: StoredBlock) -> Result<(), GitError> {
        let StoredBlock {
            block,
            chunks,
            counts,
        } = stored;
        let mut chunks = &chunks[..];
        for (item, count) in block.items.iter().zip(counts) {
            let (own, rest) = chunks.split_at(count as usize);
            chunks = rest;
            let bytes = &block.bytes[item.bytes.clone()];
            match item.ty {
                GitType::Blob => self.blob(item.id, bytes, own, item.is_last)?,
                GitType::Tree => self.tree(item.id, bytes)?,
                GitType::Commit => {
                    self.end_commit()?;
                    self.commit = Some(WaitingCommit {
                        id: item.id,
                        bytes: bytes.to_vec(),
                    });
                }
                // Tags are read by themselves.
                GitType::Tag => {}
            }
        }
        Ok(())
    }

    /// Ends the portion, after its last block.
    pub fn finish(mut self) -> Result<(), GitError> {
        self.end_commit()?;
        Ok(self.lane.flush()?)
    }

    fn blob(
        &mut self,
        id: GitId,
        bytes: &[u8],
        chunks: &[StoredChunk],
        is_last: bool,
    ) -> Result<(), GitError> {
        for chunk in chunks {
            self.list
                .push(chunk.id, u64::from(chunk.len), &mut self.lane)?;
        }
        Job::add(&self.all.job.progress.bytes, bytes.len() as u64);
        if !is_last {
            return Ok(());
        }
        self.all.files += 1;
        let mut blob = std::mem::take(&mut self.list).finish(&mut self.lane)?;
        // It has its content already, as another commit has that came before, or that was exported.
        if self.all.pointers.contains_key(&id) && self.all.map.get(&id)?.is_some() {
            return Ok(());
        }
        if blob.size == bytes.len() as u64
            && let Some(content) = self.lfs_content(id, bytes)?
        {
            blob = content;
        }
        let has_nul = bytes.len() <= MAX_TARGET_BYTES && bytes.contains(&0);
        let became = Became::Blob {
            size: blob.size,
            is_list: blob.is_list,
            has_nul,
        };
        self.all.map.add(
            id,
            KnownObject {
                id: blob.id,
                became,
            },
        );
        Ok(())
    }

    /// Returns the content for which a blob is a pointer of Git LFS; `None` if it is no pointer, or if the
    /// content is not wanted or not there.
    fn lfs_content(&mut self, id: GitId, bytes: &[u8]) -> Result<Option<Blob>, GitError> {
        let Some(pointer) = Pointer::parse(bytes) else {
            return Ok(None);
        };
        let Some(lfs) = &self.all.lfs else {
            self.all.pointers_taken.add(&pointer);
            return Ok(None);
        };
        let Some(object) = lfs.open(&pointer) else {
            self.all.problems.push(missing_content(id, &pointer));
            return Ok(None);
        };
        let mut hash = super::lfs::ContentHash::default();
        let blob = store_content(object, &mut self.lane, |piece| hash.update(piece))?;
        if !hash.fits(&pointer) || blob.size != pointer.size {
            let mut problem = missing_content(id, &pointer);
            problem.why = DAMAGED.to_owned();
            self.all.problems.push(problem);
            return Ok(None);
        }
        let more = blob.size.saturating_sub(bytes.len() as u64);
        Job::add(&self.all.job.progress.bytes, more);
        self.all.map.keep_pointer(&id, bytes)?;
        self.all.pointers.insert(id, bytes.to_vec());
        Ok(Some(blob))
    }

    fn tree(&mut self, id: GitId, bytes: &[u8]) -> Result<(), GitError> {
        if self.all.map.get(&id)?.is_none() && self.waiting.insert(id, bytes.to_vec()).is_none() {
            self.waiting_bytes += bytes.len();
            self.order.push(id);
        }
        if self.waiting_bytes > MOST_WAITING_BYTES {
            self.convert_ready()?;
            // What is left waits for more than it can need memory.
            self.waiting_bytes = 0;
        }
        Ok(())
    }

    /// Converts the trees whose entries are all converted: a tree comes before its entries.
    fn convert_ready(&mut self) -> Result<(), GitError> {
        for id in std::mem::take(&mut self.order).into_iter().rev() {
            if self.waiting.contains_key(&id) && !self.convert(id)?.is_empty() {
                self.order.push(id);
            }
        }
        self.order.reverse();
        Ok(())
    }

    /// Converts a waiting tree. Returns what it needs first.
    fn convert(&mut self, id: GitId) -> Result<Vec<GitId>, GitError> {
        let bytes = &self.waiting[&id];
        let mut left_out = Vec::new();
        let mut maker = TreeMaker {
            map: self.all.map,
            pointers: &self.all.pointers,
            algorithm: self.all.algorithm,
        };
        match maker.convert(bytes, &mut self.lane, &mut left_out) {
            Ok(summary) => {
                self.all.map.add(id, known_tree(&summary));
                self.waiting.remove(&id);
            }
            Err(NotYet::Needs(missing)) => return Ok(missing),
            Err(NotYet::Failed(GitError::Bad(error))) => {
                return Err(GitError::Damaged { id, error });
            }
            Err(NotYet::Failed(e)) => return Err(e),
        }
        let commit = self.commit.as_ref().map(|commit| commit.id);
        let problems = left_out.into_iter().map(|LeftOut { name, why }| {
            Problem::new(commit.unwrap_or(id), Trouble::Name(name), why)
        });
        self.all.problems.extend(problems);
        Ok(Vec::new())
    }

    /// Converts a tree and everything below it.
    fn whole_tree(&mut self, root: GitId) -> Result<TreeSummary, GitError> {
        let mut path = vec![root];
        while let Some(id) = path.last().copied() {
            if !self.waiting.contains_key(&id) {
                if self.all.map.get(&id)?.is_none() {
                    return Err(GitError::Stale);
                }
                path.pop();
                continue;
            }
            let needs = self.convert(id)?;
            if needs.is_empty() {
                path.pop();
            }
            path.extend(needs);
            if path.len() > MAX_DEPTH * MAX_DEPTH {
                let error = crate::object::BadObject("directories lie too deep in each other");
                return Err(GitError::Damaged { id: root, error });
            }
        }
        match self.all.map.get(&root)? {
            Some(KnownObject {
                id,
                became: Became::Tree { bytes, files },
            }) => Ok(TreeSummary {
                id,
                bytes,
                files,
                entries: 0,
            }),
            _ => Err(GitError::Stale),
        }
    }

    fn end_commit(&mut self) -> Result<(), GitError> {
        let Some(WaitingCommit { id, bytes }) = self.commit.take() else {
            return Ok(());
        };
        // Git lists commits again that are known if their dates are not in order.
        if self.all.map.get(&id)?.is_some() {
            return Ok(());
        }
        let git = GitCommit::parse(&bytes).map_err(|error| GitError::Damaged { id, error })?;
        self.commit = Some(WaitingCommit {
            id,
            bytes: Vec::new(),
        });
        self.convert_ready()?;
        let tree = self.whole_tree(git.tree)?;
        self.commit = None;
        self.order.clear();
        self.waiting_bytes = 0;
        let (mut parents, mut git_parents, mut generation) = (Vec::new(), Vec::new(), 0);
        for parent in &git.parents {
            let known = self.all.map.get(parent)?.ok_or(GitError::Stale)?;
            let Became::Commit { generation: own } = known.became else {
                return Err(GitError::Stale);
            };
            if parents.len() < MAX_PARENTS && !parents.contains(&known.id) {
                parents.push(known.id);
                git_parents.push(*parent);
                generation = generation.max(own);
            }
        }
        let known = match self.returned(&git, &bytes, &tree, &parents)? {
            Some(known) => {
                self.all.returned += 1;
                known
            }
            None => {
                let at = CommitPlace {
                    tree,
                    parents,
                    generation: generation + 1,
                    git_parents,
                };
                self.store_commit(&git, id, at)?
            }
        };
        self.all.map.add(id, known);
        for parent in &git.parents {
            self.all.heads.remove(parent);
        }
        self.all.heads.insert(id);
        self.all.commits += 1;
        Job::add(&self.all.job.progress.files, 1);
        Ok(())
    }

    fn store_commit(
        &mut self,
        git: &GitCommit<'_>,
        id: GitId,
        at: CommitPlace,
    ) -> Result<KnownObject, GitError> {
        let commit = to_dmv(git, id, at);
        self.all.problems.extend(id_problems(git, id, &commit));
        let generation = commit.generation;
        let bytes = commit
            .encode()
            .map_err(dmv_core::object::ObjectError::from)?;
        let dmv = self.lane.put(ObjectType::Commit, &bytes)?;
        let became = Became::Commit { generation };
        Ok(KnownObject { id: dmv, became })
    }

    /// Returns the commit of DMV that a commit of Git was made from, if this repository has it and if
    /// it is the same.
    fn returned(
        &mut self,
        git: &GitCommit<'_>,
        bytes: &[u8],
        tree: &TreeSummary,
        parents: &[ObjectId],
    ) -> Result<Option<KnownObject>, GitError> {
        let named = git.dmv.and_then(|hex| std::str::from_utf8(hex).ok());
        let Some(id) = named.and_then(ObjectId::from_hex) else {
            return Ok(None);
        };
        let Some(own) = self.all.returned_trees.commit(&id)? else {
            return Ok(None);
        };
        let mut is_same =
            own.parents == parents && to_git(&own, id, git.tree, &git.parents) == bytes;
        if is_same && own.tree != tree.id {
            let (trees, map) = (&mut self.all.returned_trees, &mut *self.all.map);
            is_same = trees.is_export_of(&own, git.tree, map)?;
        }
        let became = Became::Commit {
            generation: own.generation,
        };
        Ok(is_same.then_some(KnownObject { id, became }))
    }
}

/// Returns why an export gives a commit another id. `commit` stands for it.
pub fn id_problems(git: &GitCommit<'_>, id: GitId, commit: &Commit) -> Vec<Problem> {
    let mut problems = Vec::new();
    if GitOrigin::of(commit).is_some_and(|origin| origin.form == Form::TooLong) {
        problems.push(Problem::new(id, Trouble::Id, HEADERS_TOO_LONG));
    }
    if git.parents.len() > MAX_PARENTS {
        let parents = git.parents.len();
        let why = format!("it has {parents} parents; the first {MAX_PARENTS} are kept");
        problems.push(Problem::new(id, Trouble::Id, why));
    }
    problems
}

/// Returns the problem that the content of a pointer is missing, whose blob is `id`.
pub fn missing_content(id: GitId, pointer: &Pointer) -> Problem {
    let about = Trouble::Content {
        bytes: pointer.size,
        sha256: pointer.sha256.clone(),
    };
    Problem::new(id, about, "the content of Git LFS is missing")
}
