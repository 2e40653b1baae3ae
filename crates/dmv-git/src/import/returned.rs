//! Whether a Git tree is what an export writes of a tree of DMV.
//!
//! Git has no empty directories, private files, times and conflicts, and it may have pointers of Git LFS and lines in
//! an attribute file. Such a tree becomes another one of DMV, but its commit is still the one that was exported.

use super::MAX_METADATA_BYTES;
use super::lfs::{ContentHash, MAX_POINTER_BYTES, Pointer};
use super::trees::{ATTR_SUBMODULE, git_attribute};
use crate::error::GitError;
use crate::export::lfs::{ATTRIBUTES, MAX_ATTRIBUTES_BYTES, is_with_lines};
use crate::id::GitId;
use crate::map::{Became, IdMap};
use crate::object::{GitEntry, GitTree, ModeKind};
use crate::source::GitSource;
use dmv_core::ObjectId;
use dmv_core::object::commit::Commit;
use dmv_core::object::list::{Blob, BlobChunks};
use dmv_core::object::tree::{Kind, TreeEntry, TreeIter};
use dmv_core::object::{ObjectError, ObjectRead, ObjectType};
use dmv_core::repo::{Repo, RepoError};
use std::collections::{HashMap, HashSet};

/// Compares trees of a source with those of a repository.
pub struct ReturnedTrees<'r> {
    source: &'r GitSource,
    repo: &'r Repo,
    /// Pairs that were found to fit.
    same: HashSet<(GitId, ObjectId)>,
}

/// A directory on both sides.
struct Pair {
    git: GitId,
    own: ObjectId,
    is_root: bool,
}

impl<'r> ReturnedTrees<'r> {
    /// Returns a comparison of what `source` and `repo` have.
    pub fn new(source: &'r GitSource, repo: &'r Repo) -> ReturnedTrees<'r> {
        let same = HashSet::new();
        ReturnedTrees { source, repo, same }
    }

    /// Returns a commit of DMV, if it is here.
    pub fn commit(&self, id: &ObjectId) -> Result<Option<Commit>, GitError> {
        let bytes = self.repo.store().read(ObjectType::Commit, id)?;
        Ok(bytes.and_then(|bytes| Commit::decode(&bytes).ok()))
    }

    /// Returns whether an export of `commit` writes the tree `git`. Returns `false` if that cannot be seen, because
    /// content is absent.
    pub fn is_export_of(
        &mut self,
        commit: &Commit,
        git: GitId,
        map: &mut IdMap,
    ) -> Result<bool, GitError> {
        match self.compare(commit, git, map) {
            Err(
                GitError::Object(ObjectError::Missing { .. })
                | GitError::Repo(RepoError::Absent(_)),
            ) => Ok(false),
            compared => compared,
        }
    }

    fn compare(&mut self, commit: &Commit, git: GitId, map: &mut IdMap) -> Result<bool, GitError> {
        let own = self.repo.readable_tree(commit, |_| true)?;
        let is_root = true;
        let mut level = vec![Pair { git, own, is_root }];
        let mut fitting = Vec::new();
        while !level.is_empty() {
            let ids: Vec<GitId> = level.iter().map(|pair| pair.git).collect();
            let mut below = Vec::new();
            for (pair, bytes) in level.iter().zip(self.read(&ids)?) {
                let tree = GitTree::new(&bytes, self.source.algorithm());
                let entries = tree.collect::<Result<Vec<_>, _>>()?;
                if !self.fits(pair, entries, map, &mut below)? {
                    return Ok(false);
                }
                fitting.push((pair.git, pair.own));
            }
            level = below;
        }
        self.same.extend(fitting);
        Ok(true)
    }

    /// Returns the bytes of objects.
    fn read(&self, ids: &[GitId]) -> Result<Vec<Vec<u8>>, GitError> {
        let mut stream = self.source.read(ids)?;
        let mut all = Vec::with_capacity(ids.len());
        while stream.next_object()?.is_some() {
            let mut bytes = Vec::new();
            stream.content(&mut bytes, MAX_METADATA_BYTES)?;
            all.push(bytes);
        }
        stream.end()?;
        Ok(all)
    }

    /// Compares a directory, and adds those in it that are still to be compared to `below`.
    fn fits(
        &self,
        pair: &Pair,
        entries: Vec<GitEntry<'_>>,
        map: &mut IdMap,
        below: &mut Vec<Pair>,
    ) -> Result<bool, GitError> {
        let mut there: HashMap<&[u8], GitEntry<'_>> = entries
            .into_iter()
            .map(|entry| (entry.name, entry))
            .collect();
        for own in TreeIter::new(self.repo.objects(), pair.own) {
            let own = own?;
            let Some(git) = there.remove(own.name.as_bytes()) else {
                // Git has no directories without files.
                if own.kind == Kind::Directory && own.files == 0 {
                    continue;
                }
                return Ok(false);
            };
            let kind = git.kind().map(|(kind, _)| kind);
            let fits = match (own.kind, kind) {
                (Kind::Directory, Some(ModeKind::Submodule)) => {
                    let attribute = git_attribute(own.attrs.as_deref());
                    attribute == Some((ATTR_SUBMODULE, git.id.as_bytes()))
                }
                (Kind::Directory, Some(ModeKind::Directory)) => {
                    if !self.is_known(&git.id, &own.id, map)? {
                        below.push(Pair {
                            git: git.id,
                            own: own.id,
                            is_root: false,
                        });
                    }
                    true
                }
                (Kind::File, Some(ModeKind::File { executable: false }))
                | (Kind::Executable, Some(ModeKind::File { executable: true }))
                | (Kind::Symlink, Some(ModeKind::Symlink)) => {
                    self.is_known(&git.id, &own.id, map)?
                        || self.fits_content(&git, &own, pair.is_root, map)?
                }
                _ => false,
            };
            if !fits {
                return Ok(false);
            }
        }
        let added = there.remove(ATTRIBUTES).filter(|_| pair.is_root);
        let is_added = match added {
            Some(added) => is_with_lines(&self.content_of(&added.id, map)?, b""),
            None => true,
        };
        Ok(there.is_empty() && is_added)
    }

    fn is_known(&self, git: &GitId, own: &ObjectId, map: &mut IdMap) -> Result<bool, GitError> {
        let is_known = map.get(git)?.is_some_and(|known| known.id == *own);
        Ok(is_known || self.same.contains(&(*git, *own)))
    }

    /// Returns whether a file in Git is a pointer of Git LFS for a file, or an attribute file with more lines.
    fn fits_content(
        &self,
        git: &GitEntry<'_>,
        own: &TreeEntry,
        is_root: bool,
        map: &mut IdMap,
    ) -> Result<bool, GitError> {
        let there = self.content_of(&git.id, map)?;
        if is_root && git.name == ATTRIBUTES {
            let is_small = own.size <= MAX_ATTRIBUTES_BYTES;
            return Ok(is_small && is_with_lines(&there, &self.own_content(own)?));
        }
        let pointer = Pointer::parse(&there).filter(|pointer| pointer.size == own.size);
        let Some(pointer) = pointer else {
            return Ok(false);
        };
        let mut hash = ContentHash::default();
        self.each_piece(own, |piece| hash.update(piece))?;
        Ok(hash.fits(&pointer))
    }

    /// Returns the content of a blob that may be a pointer or an attribute file; nothing of another one.
    fn content_of(&self, id: &GitId, map: &mut IdMap) -> Result<Vec<u8>, GitError> {
        let most = MAX_ATTRIBUTES_BYTES.max(MAX_POINTER_BYTES as u64);
        match map.get(id)?.map(|known| known.became) {
            Some(Became::Blob { size, .. }) if size <= most => {
                Ok(self.read(&[*id])?.pop().unwrap_or_default())
            }
            _ => Ok(Vec::new()),
        }
    }

    fn own_content(&self, entry: &TreeEntry) -> Result<Vec<u8>, GitError> {
        let mut bytes = Vec::new();
        self.each_piece(entry, |piece| bytes.extend_from_slice(piece))?;
        Ok(bytes)
    }

    fn each_piece(&self, entry: &TreeEntry, mut pass: impl FnMut(&[u8])) -> Result<(), GitError> {
        let objects = self.repo.objects();
        let blob = Blob {
            id: entry.id,
            is_list: entry.is_list,
            size: entry.size,
        };
        for chunk in BlobChunks::new(objects, blob) {
            let (_, id, _) = chunk?;
            pass(&objects.require(ObjectType::Chunk, &id)?);
        }
        Ok(())
    }
}
