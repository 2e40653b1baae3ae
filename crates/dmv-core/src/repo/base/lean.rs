//! Lean worktrees: content that a file of the worktree has, and no pack.
//!
//! In a lean worktree, `dmv lean on` frees the content of unchanged files once a remote has confirmed that
//! it keeps them, as `dmv drop` does. The slice says so, in the same lines. This module finds such content
//! again in the files. Where each chunk lies is derived from the base commit and the stat cache when the
//! first chunk is asked for. So there is no table on the disk that could be wrong.
//!
//! A file may change at any moment. Bytes from one count only if they hash to the id; all others are absent,
//! not damaged.

use crate::diff::entries_in;
use crate::fsutil::{FileKind, Fingerprint, SafeDir};
use crate::hash::ObjectId;
use crate::history::load_commit;
use crate::limits::MAX_OBJECT_BYTES;
use crate::object::list::{Blob, BlobChunks};
use crate::object::name::RepoPath;
use crate::object::tree::{Kind, TreeEntry};
use crate::object::{ObjectError, ObjectRead, ObjectType};
use crate::repo::base::error::RepoError;
use crate::repo::base::repo::Repo;
use crate::repo::base::worktree::own_dir;
use crate::worktree::base::TreeBase;
use crate::worktree::cacheupdate::STAT_NAME;
use crate::worktree::scan::BaseEntries;
use crate::worktree::split_path;
use crate::worktree::statcache::StatCache;
use std::collections::HashMap;
use std::io::{Read, Seek, SeekFrom};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

/// What a repository knows of the content that only files of its worktree have.
#[derive(Default)]
pub struct LeanFiles {
    is_on: AtomicBool,
    /// Where chunks lie. Made when first needed.
    known: Mutex<Option<Arc<ChunkPlaces>>>,
    /// Files that this process has moved since: their former and their present paths.
    moved: RwLock<HashMap<Vec<u8>, Vec<u8>>>,
}

/// Where one chunk lies. A table of them is the only memory that grows with the content of lean files.
#[derive(Clone, Copy)]
struct ChunkPlace {
    /// The first bytes of the id. The bytes read decide, so two ids may have the same.
    id_start: u64,
    offset: u64,
    len: u32,
    /// The number of the path.
    file: u32,
}

/// Chunks that no pack has and that lie in unchanged files, sorted by `id_start`.
struct ChunkPlaces {
    /// The base commit that they were found for.
    base: ObjectId,
    /// The number of the catalogue whose packs did not have them.
    catalogue: u64,
    root: SafeDir,
    paths: Vec<Vec<u8>>,
    places: Vec<ChunkPlace>,
}

fn id_start(id: &ObjectId) -> u64 {
    let (start, _) = id.as_bytes().split_first_chunk().expect("an id is longer");
    u64::from_le_bytes(*start)
}

impl Repo {
    /// Lets the files of the worktree stand in for content that no pack has, until the repository is
    /// closed. Commands then store such content before they replace or remove the file.
    pub fn be_lean(&self) {
        self.lean.is_on.store(true, Ordering::Relaxed);
    }

    /// Returns whether files of the worktree stand in for content that no pack has.
    pub fn is_lean(&self) -> bool {
        self.lean.is_on.load(Ordering::Relaxed)
    }

    /// Notes that a file of the worktree has moved.
    pub(crate) fn note_lean_move(&self, from: &[u8], to: &[u8]) {
        if self.is_lean() {
            let mut moved = self
                .lean
                .moved
                .write()
                .unwrap_or_else(PoisonError::into_inner);
            moved.insert(from.to_vec(), to.to_vec());
        }
    }

    /// Forgets where chunks lie, after packs or files have changed.
    pub(crate) fn forget_lean_places(&self) {
        *lock(&self.lean.known) = None;
        let mut moved = self
            .lean
            .moved
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        moved.clear();
    }

    /// Returns whether a file of the worktree seems to have a chunk that no pack has.
    pub(crate) fn is_in_lean_file(&self, id: &ObjectId) -> bool {
        self.lean_places_of(id).is_some()
    }

    /// Appends a chunk that lies in a file of the worktree to `out`. Returns `false`, and appends nothing,
    /// if no file has it.
    pub(crate) fn read_lean(&self, id: &ObjectId, out: &mut Vec<u8>) -> bool {
        let Some(places) = self.lean_places_of(id) else {
            return false;
        };
        let start = out.len();
        for place in places.of(id) {
            let path = &places.paths[place.file as usize];
            let moved = self
                .lean
                .moved
                .read()
                .unwrap_or_else(PoisonError::into_inner);
            let path = moved.get(path).unwrap_or(path);
            let read = read_at(&places.root, path, place.offset, place.len, out);
            if read.is_some() && ObjectType::Chunk.id_of(&out[start..]) == *id {
                return true;
            }
            out.truncate(start);
        }
        false
    }

    /// Returns the places of chunks, if a chunk with this id is among them.
    fn lean_places_of(&self, id: &ObjectId) -> Option<Arc<ChunkPlaces>> {
        if !self.is_lean() {
            return None;
        }
        let mut known = lock(&self.lean.known);
        // What is found is checked when it is read, so nothing needs to be newer.
        if let Some(places) = &*known
            && !places.of(id).is_empty()
        {
            return Some(places.clone());
        }
        // Another command may have freed packs or changed files since.
        let (base, catalogue) = (
            self.base_commit().ok().flatten()?,
            self.store.catalogue_number(),
        );
        let is_new = |places: &ChunkPlaces| (places.base, places.catalogue) == (base, catalogue);
        if known.as_deref().is_some_and(is_new) {
            return None;
        }
        // Whatever is wrong with the files or the base, the content is absent, and a remote has it.
        *known = find_places(self, base, catalogue).ok()?.map(Arc::new);
        let places = known.as_ref()?;
        (!places.of(id).is_empty()).then(|| places.clone())
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    // A table is put there when it is complete.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl ChunkPlaces {
    fn of(&self, id: &ObjectId) -> &[ChunkPlace] {
        let start = id_start(id);
        let from = self.places.partition_point(|place| place.id_start < start);
        let len = self.places[from..].partition_point(|place| place.id_start == start);
        &self.places[from..from + len]
    }
}

/// Finds the chunks that no pack has and that unchanged files have; `None` without a worktree.
fn find_places(
    repo: &Repo,
    base: ObjectId,
    catalogue: u64,
) -> Result<Option<ChunkPlaces>, RepoError> {
    let Some(root) = repo.worktree_root() else {
        return Ok(None);
    };
    let refused = repo.store.refused();
    let mut found = ChunkPlaces {
        base,
        catalogue,
        root: SafeDir::open_root(root)?,
        paths: Vec::new(),
        places: Vec::new(),
    };
    each_unchanged(repo, &mut |path, blob| {
        let (file, before) = (found.paths.len() as u32, found.places.len());
        for chunk in BlobChunks::new(&repo.store, blob) {
            let (offset, id, len) = match chunk {
                Err(ObjectError::Missing { .. }) => break,
                chunk => chunk?,
            };
            // What was purged is gone, whatever the worktree has.
            let is_readable = len <= MAX_OBJECT_BYTES as u64 && !refused.contains(&id);
            if is_readable && !repo.store.holds(ObjectType::Chunk, &id)? {
                found.places.push(ChunkPlace {
                    id_start: id_start(&id),
                    offset,
                    len: len as u32,
                    file,
                });
            }
        }
        if found.places.len() > before {
            found.paths.push(path.as_bytes().to_vec());
        }
        Ok(())
    })?;
    found.places.sort_unstable_by_key(|place| place.id_start);
    Ok(Some(found))
}

/// Appends `len` bytes of a file to `out`; `None` if it does not have them.
fn read_at(root: &SafeDir, path: &[u8], offset: u64, len: u32, out: &mut Vec<u8>) -> Option<()> {
    let (dir, name) = split_path(path)?;
    let (mut file, _) = root.open_dir(dir).ok()?.open_file_read(name).ok()?;
    file.seek(SeekFrom::Start(offset)).ok()?;
    let read = file.take(u64::from(len)).read_to_end(out).ok()?;
    (read == len as usize).then_some(())
}

/// Visits the files of the base commit that lie unchanged in the worktree, with their content. Empty files
/// and symlinks are left out: freeing them would free nothing.
///
/// A file whose stat does not show that it is unchanged is read.
pub fn each_unchanged(
    repo: &Repo,
    visit: &mut dyn FnMut(&RepoPath, Blob) -> Result<(), RepoError>,
) -> Result<(), RepoError> {
    let Some(root) = repo.worktree_root() else {
        return Ok(());
    };
    let Some(base) = repo.base_commit()? else {
        return Ok(());
    };
    let root = SafeDir::open_root(root)?;
    let own = SafeDir::open_root(&own_dir(repo)?)?;
    let tree = load_commit(&repo.store, &base)?.tree;
    let subset = repo.subset()?;
    let cache = StatCache::open(&own, STAT_NAME, &repo.id);
    let known = TreeBase::new(&repo.store, Some(tree), cache.as_ref(), &subset);
    let mut dirs = vec![(RepoPath::root(), tree)];
    while let Some((path, id)) = dirs.pop() {
        let Ok(dir) = root.open_dir(path.as_bytes()) else {
            continue;
        };
        let entries = match entries_in(&repo.store, &id, &subset, &path) {
            Err(ObjectError::Missing { .. }) => continue,
            entries => entries?,
        };
        // Without fingerprints, files are read.
        let section = known.section(path.as_bytes()).unwrap_or_default();
        let section = section.unwrap_or_default();
        for entry in entries {
            let Ok(at) = path.join(&entry.name) else {
                continue;
            };
            if entry.kind == Kind::Directory {
                dirs.push((at, entry.id));
                continue;
            }
            let name = entry.name.as_bytes();
            let print = section.position(name);
            let print = print.map_or(Fingerprint::SUSPECT, |n| section.get(n).fingerprint);
            if let Some(blob) = content_of(&entry)
                && is_unchanged(repo, &dir, name, blob, print)?
            {
                visit(&at, blob)?;
            }
        }
    }
    Ok(())
}

/// Returns the content of a file that is not empty.
fn content_of(entry: &TreeEntry) -> Option<Blob> {
    let is_file = matches!(entry.kind, Kind::File | Kind::Executable) && entry.size > 0;
    is_file.then_some(Blob {
        id: entry.id,
        is_list: entry.is_list,
        size: entry.size,
    })
}

/// Returns whether a file has the content `blob`. `print` is the fingerprint that it had when it was found
/// equal.
fn is_unchanged(
    repo: &Repo,
    dir: &SafeDir,
    name: &[u8],
    blob: Blob,
    print: Fingerprint,
) -> Result<bool, RepoError> {
    let Ok(Some(stat)) = dir.stat_opt(name) else {
        return Ok(false);
    };
    if stat.kind != FileKind::File || stat.size != blob.size {
        return Ok(false);
    }
    if print != Fingerprint::SUSPECT && stat.fingerprint() == print {
        return Ok(true);
    }
    let Ok((mut file, _)) = dir.open_file_read(name) else {
        return Ok(false);
    };
    let mut bytes = Vec::new();
    for chunk in BlobChunks::new(&repo.store, blob) {
        let (_, id, len) = match chunk {
            Err(ObjectError::Missing { .. }) => return Ok(false),
            chunk => chunk?,
        };
        if len > MAX_OBJECT_BYTES as u64 {
            return Ok(false);
        }
        bytes.clear();
        let read = (&mut file).take(len).read_to_end(&mut bytes);
        if read.is_err() || ObjectType::Chunk.id_of(&bytes) != id {
            return Ok(false);
        }
    }
    Ok(true)
}
