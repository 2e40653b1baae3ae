//! A DMV tree becomes a Git tree.

use crate::error::GitError;
use crate::id::{GitId, GitType};
use crate::import::lfs::{ContentHash, Pointer};
use crate::import::trees::{ATTR_EMPTY, ATTR_MODE, ATTR_POINTER, ATTR_SUBMODULE, git_attribute};
use crate::map::{Became, IdMap, KnownObject};
use crate::object::{BadObject, GitEntry, ModeKind, kind_of, order_key, put_entry, usual_mode};
use crate::pack::PackWriter;
use crate::source::GitSource;
use dmv_core::ObjectId;
use dmv_core::object::list::{Blob, BlobChunks};
use dmv_core::object::tree::{Kind, Totals, TreeEntry, TreeIter, empty_tree_id};
use dmv_core::object::{ObjectRead, ObjectType};
use dmv_core::platform::sync_dir;
use dmv_core::repo::Repo;
use std::collections::HashMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Directories in each other that a path can have.
const MAX_DEPTH: usize = 1024;

/// Converts trees, each once.
pub struct TreeExport<'e> {
    objects: &'e dyn ObjectRead,
    /// Trees and blobs that the target has. A directory without anything that Git can have is `None`.
    done: HashMap<ObjectId, Option<GitId>>,
    /// Pointers of Git LFS that the target has, by the content's id.
    pointers: HashMap<ObjectId, GitId>,
    /// Where the content of pointers goes, if pointers are wanted.
    lfs: Option<PathBuf>,
    empty_directories: u64,
    private_files: u64,
    unwanted_pointers: u64,
}

/// An entry of a Git tree.
struct NewEntry {
    mode: Vec<u8>,
    name: Vec<u8>,
    id: GitId,
    is_directory: bool,
}

impl<'e> TreeExport<'e> {
    /// Returns a converter of the trees of `repo`.
    pub fn new(repo: &'e Repo, target: &GitSource, lfs: bool) -> Result<TreeExport<'e>, GitError> {
        let git_dir = lfs.then(|| target.git_dir()).transpose()?;
        Ok(TreeExport {
            objects: repo.objects(),
            done: HashMap::new(),
            pointers: HashMap::new(),
            lfs: git_dir.map(|dir| dir.join("lfs").join("objects")),
            empty_directories: 0,
            private_files: 0,
            unwanted_pointers: 0,
        })
    }

    /// Returns the number of directories that Git cannot have.
    pub fn empty_directories(&self) -> u64 {
        self.empty_directories
    }

    /// The number of private files, which others may read in Git.
    pub fn private_files(&self) -> u64 {
        self.private_files
    }

    /// The number of files that came as pointers of Git LFS and go as content.
    pub fn unwanted_pointers(&self) -> u64 {
        self.unwanted_pointers
    }

    /// Notes that the target has a tree and everything below it, as far as `map` knows their ids.
    pub fn has(&mut self, tree: ObjectId, map: &IdMap) -> Result<(), GitError> {
        let mut trees = vec![tree];
        while let Some(tree) = trees.pop() {
            // Whether Git has an empty directory depends on the entry.
            if self.done.contains_key(&tree) || tree == empty_tree_id() {
                continue;
            }
            if let Some(git) = map.git_of(&tree)? {
                self.done.insert(tree, Some(git));
            }
            for entry in TreeIter::new(self.objects, tree) {
                let entry = entry?;
                if entry.kind == Kind::Directory {
                    trees.push(entry.id);
                } else if !self.done.contains_key(&entry.id)
                    && let Some(git) = map.git_of(&entry.id)?
                {
                    self.done.insert(entry.id, Some(git));
                }
            }
        }
        Ok(())
    }

    /// Converts the tree of a commit, and writes what the target lacks.
    pub fn root(
        &mut self,
        tree: ObjectId,
        map: &mut IdMap,
        pack: &mut PackWriter<'_>,
    ) -> Result<GitId, GitError> {
        match self.tree(tree, Totals::default(), 0, map, pack)? {
            Some(git) => Ok(git),
            None => pack.add(GitType::Tree, b""),
        }
    }

    /// Returns `None` for a directory without anything that Git can have.
    fn tree(
        &mut self,
        tree: ObjectId,
        totals: Totals,
        depth: usize,
        map: &mut IdMap,
        pack: &mut PackWriter<'_>,
    ) -> Result<Option<GitId>, GitError> {
        if tree == empty_tree_id() {
            return Ok(None);
        }
        if let Some(done) = self.done.get(&tree) {
            return Ok(*done);
        }
        if depth > MAX_DEPTH {
            return Err(BadObject("directories lie too deep in each other").into());
        }
        let mut entries = Vec::new();
        for entry in TreeIter::new(self.objects, tree) {
            entries.extend(self.entry(&entry?, depth, map, pack)?);
        }
        let git = if entries.is_empty() {
            None
        } else {
            entries.sort_by_cached_key(|made: &NewEntry| order_key(&made.name, made.is_directory));
            let mut bytes = Vec::new();
            for made in &entries {
                put_entry(&mut bytes, made.entry());
            }
            let git = pack.add(GitType::Tree, &bytes)?;
            if depth > 0 && map.get(&git)?.is_none() {
                let became = Became::Tree {
                    bytes: totals.bytes,
                    files: totals.files,
                };
                map.add(git, KnownObject { id: tree, became });
            }
            Some(git)
        };
        self.done.insert(tree, git);
        Ok(git)
    }

    fn entry(
        &mut self,
        entry: &TreeEntry,
        depth: usize,
        map: &mut IdMap,
        pack: &mut PackWriter<'_>,
    ) -> Result<Option<NewEntry>, GitError> {
        let attribute = git_attribute(entry.attrs.as_deref());
        let name = entry.name.as_bytes().to_vec();
        let made = |mode: &[u8], id: GitId| NewEntry {
            mode: mode.to_vec(),
            is_directory: kind_of(mode).is_some_and(|(kind, _)| kind == ModeKind::Directory),
            name,
            id,
        };
        if entry.kind == Kind::Directory {
            if let Some((ATTR_SUBMODULE, id)) = attribute
                && let Some(id) = GitId::new(id).filter(|_| entry.files == 0)
                && id.algorithm() == pack.algorithm()
            {
                return Ok(Some(made(b"160000", id)));
            }
            let totals = Totals {
                entries: 0,
                bytes: entry.size,
                files: entry.files,
            };
            let mode = mode_of(attribute, ModeKind::Directory);
            return match self.tree(entry.id, totals, depth + 1, map, pack)? {
                Some(id) => Ok(Some(made(mode, id))),
                None if matches!(attribute, Some((ATTR_EMPTY, _))) => {
                    Ok(Some(made(mode, pack.add(GitType::Tree, b"")?)))
                }
                None => {
                    self.empty_directories += 1;
                    Ok(None)
                }
            };
        }
        self.private_files += u64::from(entry.is_private());
        let kind = match entry.kind {
            Kind::Symlink => ModeKind::Symlink,
            kind => ModeKind::File {
                executable: kind == Kind::Executable,
            },
        };
        let mode = mode_of(attribute, kind);
        if let Some((ATTR_POINTER, text)) = attribute
            && let Some(id) = self.pointer(entry, text, pack)?
        {
            return Ok(Some(made(mode, id)));
        }
        Ok(Some(made(mode, self.blob(entry, map, pack)?)))
    }

    /// Writes the content of a file or a symlink's target.
    fn blob(
        &mut self,
        entry: &TreeEntry,
        map: &mut IdMap,
        pack: &mut PackWriter<'_>,
    ) -> Result<GitId, GitError> {
        if let Some(Some(git)) = self.done.get(&entry.id) {
            return Ok(*git);
        }
        let mut object = pack.begin_object(GitType::Blob, entry.size)?;
        let mut has_nul = false;
        self.read(entry, |bytes| {
            has_nul |= bytes.contains(&0);
            object.write(bytes)
        })?;
        let git = object.end()?;
        self.done.insert(entry.id, Some(git));
        if map.get(&git)?.is_none() {
            let became = Became::Blob {
                size: entry.size,
                is_list: entry.is_list,
                has_nul,
            };
            let id = entry.id;
            map.add(git, KnownObject { id, became });
        }
        Ok(git)
    }

    /// Passes the content of an entry on, piece by piece.
    fn read(
        &self,
        entry: &TreeEntry,
        mut pass: impl FnMut(&[u8]) -> Result<(), GitError>,
    ) -> Result<(), GitError> {
        let blob = Blob {
            id: entry.id,
            is_list: entry.is_list,
            size: entry.size,
        };
        for chunk in BlobChunks::new(self.objects, blob) {
            let (_, id, _) = chunk?;
            pass(&self.objects.require(ObjectType::Chunk, &id)?)?;
        }
        Ok(())
    }

    /// Writes a pointer of Git LFS, and the content for it where Git LFS looks for it. Returns `None` if
    /// pointers are not wanted, or if this one does not fit the content.
    fn pointer(
        &mut self,
        entry: &TreeEntry,
        text: &[u8],
        pack: &mut PackWriter<'_>,
    ) -> Result<Option<GitId>, GitError> {
        let Some(lfs) = &self.lfs else {
            self.unwanted_pointers += 1;
            return Ok(None);
        };
        if let Some(git) = self.pointers.get(&entry.id) {
            return Ok(Some(*git));
        }
        let Some(pointer) = Pointer::parse(text).filter(|pointer| pointer.size == entry.size)
        else {
            return Ok(None);
        };
        let name = &pointer.sha256;
        let dir = lfs.join(&name[..2]).join(&name[2..4]);
        let mut hash = ContentHash::default();
        if dir.join(name).exists() {
            self.read(entry, |bytes| {
                hash.update(bytes);
                Ok(())
            })?;
            if !hash.fits(&pointer) {
                return Ok(None);
            }
        } else if !self.keep_content(entry, &dir, &pointer)? {
            return Ok(None);
        }
        let git = pack.add(GitType::Blob, text)?;
        self.pointers.insert(entry.id, git);
        Ok(Some(git))
    }

    /// Writes the content of a pointer into `dir`. Returns whether it fits.
    fn keep_content(
        &self,
        entry: &TreeEntry,
        dir: &Path,
        pointer: &Pointer,
    ) -> Result<bool, GitError> {
        fs::create_dir_all(dir).map_err(GitError::Read)?;
        // Others may read it as they may read other files of Git.
        let file = tempfile::Builder::new().make_in(dir, |path| fs::File::create_new(path));
        let mut file = file.map_err(GitError::Read)?;
        let mut hash = ContentHash::default();
        self.read(entry, |bytes| {
            hash.update(bytes);
            file.write_all(bytes).map_err(GitError::Read)
        })?;
        if !hash.fits(pointer) {
            return Ok(false);
        }
        // The pointer in Git must not outlive it.
        file.as_file().sync_all().map_err(GitError::Read)?;
        let path = dir.join(&pointer.sha256);
        file.persist(path).map_err(|e| GitError::Read(e.error))?;
        let mut above = dir.ancestors().take(4);
        above.try_for_each(sync_dir).map_err(GitError::Read)?;
        Ok(true)
    }
}

/// Returns the mode of an entry: the one that Git had, if it says the same as the entry, or the usual one.
///
/// The attribute may come from a peer. A mode is written before the name, so it must be nothing else.
fn mode_of(attribute: Option<(u8, &[u8])>, kind: ModeKind) -> &[u8] {
    match attribute {
        Some((ATTR_MODE, mode)) if kind_of(mode).is_some_and(|(said, _)| said == kind) => mode,
        _ => usual_mode(kind),
    }
}

impl NewEntry {
    fn entry(&self) -> GitEntry<'_> {
        GitEntry {
            mode: &self.mode,
            name: &self.name,
            id: self.id,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mode_of_a_peer_is_a_mode_or_is_not_written() {
        let file = ModeKind::File { executable: false };
        for (mode, kind, want) in [
            (&b"100664"[..], file, &b"100664"[..]),
            (b"040000", ModeKind::Directory, b"040000"),
            // Another kind than the entry's.
            (b"120000", file, b"100644"),
            (b"100755", file, b"100644"),
            (b"160000", ModeKind::Directory, b"40000"),
            // More than a mode: it would bring a name of its own.
            (b"100644 .git\0", file, b"100644"),
            (b"", ModeKind::Symlink, b"120000"),
        ] {
            let mode = mode_of(Some((ATTR_MODE, mode)), kind);
            assert_eq!(mode, want, "{}", mode.escape_ascii());
        }
        assert_eq!(mode_of(None, file), b"100644");
    }
}
