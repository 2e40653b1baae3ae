//! What is stored of a file's content, found by its root, and what it takes in packs.

use crate::hash::ObjectId;
use crate::object::list::{Blob, BlobChunks};
use crate::object::{ObjectError, ObjectRead, ObjectType};
use crate::repo::base::error::RepoError;
use crate::repo::base::repo::Repo;
use crate::store::{Mark, StoreError};

/// Returns the type of the object stored as the root of a file's content, if it is stored.
pub fn stored_type(repo: &Repo, id: &ObjectId) -> Result<Option<ObjectType>, RepoError> {
    for ty in [ObjectType::List, ObjectType::Chunk] {
        if repo.holds(ty, id)? {
            return Ok(Some(ty));
        }
    }
    Ok(None)
}

/// Returns whether all chunks below the root of a file's content are stored.
pub fn is_complete(repo: &Repo, ty: ObjectType, id: ObjectId) -> Result<bool, RepoError> {
    each_below(repo, ty, id, &mut |is_here| is_here)
}

/// Returns whether any chunk below the root of a file's content is stored.
pub fn has_chunks(repo: &Repo, ty: ObjectType, id: ObjectId) -> Result<bool, RepoError> {
    Ok(!each_below(repo, ty, id, &mut |is_here| !is_here)?)
}

/// Visits whether each chunk below a root is stored, until `goes_on` says no. Returns whether it went
/// through all of them.
fn each_below(
    repo: &Repo,
    ty: ObjectType,
    id: ObjectId,
    goes_on: &mut dyn FnMut(bool) -> bool,
) -> Result<bool, RepoError> {
    let mut stack = vec![(ty, id)];
    while let Some((ty, id)) = stack.pop() {
        if ty == ObjectType::Chunk {
            if !goes_on(repo.holds(ty, &id)?) {
                return Ok(false);
            }
            continue;
        }
        match repo.read(ty, &id)? {
            Some(bytes) => {
                let links = ty.links(&bytes);
                stack.extend(links.map_err(|e| ObjectError::undecodable(ty, &id, e))?);
            }
            None if goes_on(false) => {}
            None => return Ok(false),
        }
    }
    Ok(true)
}

/// Returns what a chunk takes in its pack. A chunk that is absent, or whose frame is damaged, counts as
/// nothing.
pub fn stored_len(repo: &Repo, id: &ObjectId) -> Result<u64, RepoError> {
    match repo.store.stored_len(id) {
        Err(StoreError::DamagedFile { .. }) => Ok(0),
        found => Ok(found?.unwrap_or(0)),
    }
}

/// Returns what the contents of files take in packs. Each chunk counts once.
pub fn stored_bytes(repo: &Repo, blobs: impl IntoIterator<Item = Blob>) -> Result<u64, RepoError> {
    let mut seen = repo.store().marks();
    let mut lens = StoredLens::new(repo);
    let mut bytes = 0;
    let mut add = |(), len: u64| bytes += len;
    for blob in blobs {
        for chunk in BlobChunks::new(repo.objects(), blob) {
            match chunk {
                Ok((_, id, _)) if seen.mark(&id)? == Mark::New => lens.ask(id, (), &mut add)?,
                Ok(_) => {}
                Err(ObjectError::Missing { .. }) => break,
                Err(e) => return Err(e.into()),
            }
        }
    }
    lens.finish(&mut add)?;
    Ok(bytes)
}

/// How many chunks are looked up together: some 10 MiB.
const ASKED_TOGETHER: usize = 64 << 10;

/// Finds out what chunks take in packs, many at a time, so that the packs are read in order. Each chunk
/// has a note for the caller. Chunks that are absent, or whose frame is damaged, take nothing.
pub struct StoredLens<'r, N> {
    repo: &'r Repo,
    chunks: Vec<(ObjectType, ObjectId)>,
    notes: Vec<N>,
}

impl<'r, N> StoredLens<'r, N> {
    pub fn new(repo: &'r Repo) -> StoredLens<'r, N> {
        StoredLens {
            repo,
            chunks: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// Asks for a chunk. Now and then calls `visit` with the answers so far: notes and stored bytes.
    pub fn ask(
        &mut self,
        id: ObjectId,
        note: N,
        visit: &mut dyn FnMut(N, u64),
    ) -> Result<(), RepoError> {
        self.chunks.push((ObjectType::Chunk, id));
        self.notes.push(note);
        if self.chunks.len() < ASKED_TOGETHER {
            return Ok(());
        }
        self.answer(visit)
    }

    /// Calls `visit` with the last answers.
    pub fn finish(mut self, visit: &mut dyn FnMut(N, u64)) -> Result<(), RepoError> {
        self.answer(visit)
    }

    fn answer(&mut self, visit: &mut dyn FnMut(N, u64)) -> Result<(), RepoError> {
        let lens = self.repo.store.stored_lens(&self.chunks)?;
        self.chunks.clear();
        for (note, len) in self.notes.drain(..).zip(lens) {
            visit(note, len);
        }
        Ok(())
    }
}
