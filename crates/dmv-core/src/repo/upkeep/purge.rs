//! `purge`: removes the content of files from all history, and refuses to store it again.
//!
//! Commits, trees and lists stay, and so do the ids. The slice notes durably which files are purged,
//! by whom and why, and which chunks only they needed (docs/format/slice.md, "Purged content"). From
//! then on no writer stores these chunks. Then every pack whose file may have bytes of them goes, after
//! what stays has moved to other packs. A crash in between leaves bytes that are noted as purged: the
//! next purge removes them.

mod find;

pub use find::{PurgeWhat, Purgeable};

use crate::hash::ObjectId;
use crate::job::Job;
use crate::limits::{MAX_SLICE_PURGED, MAX_SLICE_TOLD, MAX_SLICE_TOLD_REASONS};
use crate::object::list::Blob;
use crate::object::{ObjectRead, ObjectType};
use crate::refs::{Effect, Operation};
use crate::repo::base::error::RepoError;
use crate::repo::base::keys::LOG_PURGED;
use crate::repo::base::leaving::is_linked;
use crate::repo::base::publish::OperationRequest;
use crate::repo::base::repo::Repo;
use crate::repo::base::slice::{Purge, PurgesElsewhere, RepoSlice};
use crate::repo::base::transaction::Transaction;
use crate::repo::base::window::LIFTED;
use crate::repo::base::{leftovers, refused};
use crate::repo::look::stored::{has_chunks, is_complete, stored_type};
use crate::repo::upkeep::drop::{FreedSpace, FreeingLock, Plan, each_chunk};
use crate::store::{PackId, PackRow, StoreError};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

/// How often a purge starts again because other commands commit meanwhile.
const ROUNDS: usize = 16;

/// Files to purge, and why.
#[derive(Clone, Debug)]
pub struct ToPurge {
    /// The contents, each named by its root, by the reason: who purges, when and why. A content that
    /// was purged before keeps its reason.
    pub files: BTreeMap<Purge, BTreeMap<ObjectId, ObjectType>>,
    /// For the operation log.
    pub request: OperationRequest,
}

/// What a purge did.
#[derive(Clone, Debug, Default)]
pub struct PurgeReport {
    /// The number of contents that are purged now and were not before.
    pub files: u64,
    /// The bytes of chunks that are gone.
    pub bytes: u64,
    /// The bytes of chunks that other files need as well. They stay.
    pub shared_bytes: u64,
    /// The bytes by which the packs got smaller.
    pub freed_bytes: u64,
    /// How many of the removed packs another repository on this file system still has.
    pub linked_packs: u64,
    /// Why bytes may still be in packs.
    pub left: Vec<String>,
    /// The operation that records it.
    pub operation: Option<Operation>,
}

/// A purge that was carried out, here or at a remote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownPurge {
    /// Who has purged, when and why.
    pub why: Purge,
    /// The contents.
    pub files: BTreeSet<ObjectId>,
    /// How many chunks must not be stored.
    pub pieces: u64,
    /// How many of these chunks are still stored.
    pub stored: u64,
}

impl Repo {
    /// Returns the purges that were carried out here, the oldest first.
    pub fn purges(&self) -> Result<Vec<KnownPurge>, RepoError> {
        // Another process may have removed chunks since.
        self.store.refresh()?;
        let slice = self.slice()?;
        let mut out: BTreeMap<&Purge, KnownPurge> = BTreeMap::new();
        for (id, why) in &slice.purged {
            let known = out.entry(why).or_insert_with(|| KnownPurge {
                why: Purge::clone(why),
                files: BTreeSet::new(),
                pieces: 0,
                stored: 0,
            });
            known.files.insert(*id);
        }
        for (id, why) in &slice.pieces {
            let Some(known) = out.get_mut(&**why) else {
                continue;
            };
            known.stored += u64::from(self.holds(ObjectType::Chunk, id)?);
            known.pieces += 1;
        }
        Ok(out.into_values().collect())
    }

    /// Notes why content is absent here that a fetch has left out: the remote `place` has purged it. This has
    /// no other effect. Only files in `left_out` are noted; `None` means what a fetch into an empty
    /// repository may leave out, as far as there is space. Returns their number.
    pub fn note_told(
        &self,
        purges: &[KnownPurge],
        place: &str,
        left_out: Option<&BTreeSet<ObjectId>>,
    ) -> Result<u64, RepoError> {
        let known = self.slice()?;
        let is_asked = |id: &&ObjectId| left_out.is_none_or(|left_out| left_out.contains(id));
        let (mut told, mut dropped) = (BTreeMap::new(), BTreeSet::new());
        let mut reasons: HashSet<Arc<PurgesElsewhere>> = known.told.values().cloned().collect();
        for purge in purges {
            let why = Arc::new(PurgesElsewhere {
                purge: purge.why.clone(),
                place: place.to_owned(),
            });
            for id in purge.files.iter().filter(is_asked) {
                let is_here = match stored_type(self, id)? {
                    Some(ty) => is_complete(self, ty, *id)?,
                    None => false,
                };
                if is_here || known.is_given_up(id) || told.contains_key(id) {
                    continue;
                }
                let has_reason = reasons.contains(&why) || reasons.len() < MAX_SLICE_TOLD_REASONS;
                let has_place = known.told.len() + told.len() < MAX_SLICE_TOLD;
                if has_reason && has_place && why.is_storable() {
                    reasons.insert(why.clone());
                    told.insert(*id, why.clone());
                } else if left_out.is_some() {
                    dropped.insert(*id);
                }
            }
        }
        let count = (told.len() + dropped.len()) as u64;
        if count > 0 {
            self.change_slice(|slice| {
                slice.told.append(&mut told);
                slice.dropped.append(&mut dropped);
            })?;
        }
        Ok(count)
    }

    /// Forgets what remotes told of content that is not in `needed`. Returns how much is left.
    pub fn keep_told(&self, needed: &BTreeSet<ObjectId>) -> Result<u64, RepoError> {
        let slice = self.change_slice(|slice| {
            slice.told.retain(|id, _| needed.contains(id));
        })?;
        Ok(slice.told.len() as u64)
    }

    /// Lets purged content be stored again. It stays absent until a commit or a fetch brings it. Returns how many
    /// of these files had been purged.
    pub fn lift_purge(
        &self,
        files: &BTreeSet<ObjectId>,
        request: OperationRequest,
    ) -> Result<u64, RepoError> {
        let known = self.slice()?;
        let (lifted, stay): (BTreeSet<ObjectId>, BTreeSet<ObjectId>) =
            known.purged.keys().partition(|id| files.contains(id));
        if lifted.is_empty() {
            return Ok(0);
        }
        let mut free = chunks_of(self, &types_of(self, lifted.iter())?)?;
        // A content of one chunk.
        free.extend(&lifted);
        for id in chunks_of(self, &types_of(self, stay.iter())?)? {
            free.remove(&id);
        }
        let mut complete = BTreeSet::new();
        for id in &lifted {
            if let Some(ty) = stored_type(self, id)?
                && is_complete(self, ty, *id)?
            {
                complete.insert(*id);
            }
        }
        self.change_slice(|slice| {
            slice.purged.retain(|id, _| !lifted.contains(id));
            slice.pieces.retain(|id, _| !free.contains(id));
            slice.dropped.extend(lifted.difference(&complete));
        })?;
        refused::refresh(self);
        let count = lifted.len() as u64;
        let mut tx = Transaction::begin(self, &request);
        tx.record(LOG_PURGED, format!("{LIFTED} {count}"))?;
        tx.publish(Effect::Kept)?;
        Ok(count)
    }

    /// Returns whether any chunk below the root of a file's content is stored.
    pub fn has_content(&self, root: &ObjectId) -> Result<bool, RepoError> {
        match stored_type(self, root)? {
            Some(ty) => has_chunks(self, ty, *root),
            None => Ok(false),
        }
    }

    /// Returns contents with the types of their roots, as [`ToPurge`](crate::repo::ToPurge) has them.
    pub fn content_types(
        &self,
        roots: &BTreeSet<ObjectId>,
    ) -> Result<BTreeMap<ObjectId, ObjectType>, RepoError> {
        types_of(self, roots.iter())
    }
}

/// Returns the types of contents. A root that is not stored counts as a list: if it is one, nobody
/// may refuse its id as that of a chunk.
fn types_of<'i>(
    repo: &Repo,
    ids: impl Iterator<Item = &'i ObjectId>,
) -> Result<BTreeMap<ObjectId, ObjectType>, RepoError> {
    ids.map(|id| Ok((*id, stored_type(repo, id)?.unwrap_or(ObjectType::List))))
        .collect()
}

/// Returns the chunks of contents.
fn chunks_of(
    repo: &Repo,
    roots: &BTreeMap<ObjectId, ObjectType>,
) -> Result<BTreeSet<ObjectId>, RepoError> {
    let mut out = BTreeSet::new();
    each_chunk(repo, roots, &mut |id, _| {
        out.insert(*id);
        Ok(())
    })?;
    Ok(out)
}

impl ToPurge {
    /// Returns the files by the reason that they have once they are purged.
    fn by_reason(&self, known: &RepoSlice) -> BTreeMap<Arc<Purge>, BTreeMap<ObjectId, ObjectType>> {
        let mut seen = BTreeSet::new();
        let mut out: BTreeMap<Arc<Purge>, BTreeMap<ObjectId, ObjectType>> = BTreeMap::new();
        for (why, files) in &self.files {
            let why = Arc::new(why.clone());
            for (id, ty) in files.iter().filter(|(id, _)| seen.insert(**id)) {
                let why = known.purged.get(id).unwrap_or(&why).clone();
                out.entry(why).or_default().insert(*id, *ty);
            }
        }
        out
    }
}

impl FreeingLock<'_> {
    /// Purges files: notes that their content must not be stored, and removes every pack file that has
    /// bytes that only they need. Without `new` files, it removes what earlier purges had to leave.
    ///
    /// What other files need stays.
    pub fn purge(&self, new: Option<ToPurge>, job: &Job) -> Result<PurgeReport, RepoError> {
        let mut done = PurgeReport::default();
        match &new {
            Some(new) => self.note_purged(new, &mut done, job)?,
            None => self.note_more(&mut done, job)?,
        }
        let known = self.repo.slice()?;
        if known.purged.is_empty() {
            return Ok(done);
        }
        let mut freed = FreedSpace::default();
        let mut linked = BTreeSet::new();
        let mut is_clean = false;
        for _ in 0..ROUNDS {
            let seen = self.repo.refs().seen()?;
            self.repo.store().refresh()?;
            // A pack with a damaged index would seem to hold nothing that is needed.
            self.repo.store().check_tables()?;
            let gone = self.unneeded(&known, job)?;
            leftovers::remove_unlisted(self.repo, &|_| false)?;
            let mut plan = self.plan_purge(&gone, job)?;
            let rows = plan.packs.iter().chain(&plan.rewrite);
            linked.extend(
                rows.map(|row| row.id)
                    .filter(|id| is_linked(self.repo, *id)),
            );
            if let Some(why) = plan.why_not.take() {
                freed.why_not_freed = Some(why);
            }
            if self.carry_out(&mut plan, seen, &mut freed, job)? {
                self.forget_needed(&known, &gone)?;
                done.left = self.left_of(&gone, freed.why_not_freed.take(), job)?;
                is_clean = true;
                break;
            }
        }
        if !is_clean {
            let why = "other commands keep changing the repository".to_owned();
            done.left.push(why);
        }
        done.freed_bytes = freed.freed_bytes;
        let packs: HashSet<PackId> = self.repo.store().packs().iter().map(|row| row.id).collect();
        linked.retain(|id| !packs.contains(id));
        done.linked_packs = linked.len() as u64;
        Ok(done)
    }

    /// Notes durably what is purged, and records it in the operation log.
    fn note_purged(
        &self,
        new: &ToPurge,
        done: &mut PurgeReport,
        job: &Job,
    ) -> Result<(), RepoError> {
        if !new.files.keys().all(Purge::is_storable) {
            let text = "the reason of a purge, and the name of who purges, are one line each \
                        without control characters, and not longer than 1000 bytes; \
                        nothing was purged";
            return Err(RepoError::Text(text.to_owned()));
        }
        let repo = self.repo;
        let before = repo.slice()?;
        let (mut after, mut request) = (before.clone(), new.by_reason(&before));
        for (why, files) in &request {
            let known = files.keys().map(|id| (*id, why.clone()));
            after.purged.extend(known);
        }
        done.files = (after.purged.len() - before.purged.len()) as u64;
        repo.store().refresh()?;
        repo.store().check_tables()?;
        let chunks = chunks_of(
            repo,
            &request.values().flatten().map(|(k, v)| (*k, *v)).collect(),
        )?;
        let more = chunks.iter().filter(|id| !before.pieces.contains_key(id));
        if more.count() + before.pieces.len() > MAX_SLICE_PURGED {
            let text = "these files have more chunks than one repository can refuse \
                        (about 64 GiB); nothing was purged";
            return Err(RepoError::Text(text.to_owned()));
        }
        let only = self.only_purged(&after, chunks, job)?;
        let mut gone: BTreeMap<ObjectId, Arc<Purge>> = BTreeMap::new();
        let mut counted = BTreeSet::new();
        for (why, files) in std::mem::take(&mut request) {
            each_chunk(repo, &files, &mut |id, len| {
                if !counted.insert(*id) {
                    return Ok(());
                }
                let (is_gone, is_here) = (only.contains(id), repo.holds(ObjectType::Chunk, id)?);
                done.bytes += if is_gone && is_here { len } else { 0 };
                done.shared_bytes += if is_gone || !is_here { 0 } else { len };
                if is_gone {
                    gone.insert(*id, why.clone());
                }
                Ok(())
            })?;
        }
        // A crash behind this leaves an operation that has purged nothing yet. Run again, the command does
        // the same.
        if done.files > 0 {
            let mut tx = Transaction::begin(repo, &new.request);
            tx.record(LOG_PURGED, format!("{} {}", done.files, done.bytes))?;
            done.operation = Some(tx.publish(Effect::Kept)?);
        }
        repo.change_slice(|slice| {
            for (id, why) in after.purged {
                slice.purged.entry(id).or_insert(why);
            }
            for (id, why) in gone {
                slice.pieces.entry(id).or_insert(why);
            }
        })?;
        // A crash behind this leaves bytes that the next purge removes.
        refused::refresh(repo);
        Ok(())
    }

    /// Notes chunks that other files needed at the time of a purge, and that they need no longer.
    /// Counts what other files still need.
    fn note_more(&self, done: &mut PurgeReport, job: &Job) -> Result<(), RepoError> {
        self.repo.store().refresh()?;
        self.repo.store().check_tables()?;
        let mut found = BTreeMap::new();
        let known = self.repo.slice()?;
        for purge in self.repo.purges()? {
            let why = Arc::new(purge.why);
            let files = types_of(self.repo, purge.files.iter())?;
            each_chunk(self.repo, &files, &mut |id, len| {
                if !known.pieces.contains_key(id) && self.repo.holds(ObjectType::Chunk, id)? {
                    found.insert(*id, (why.clone(), len));
                }
                Ok(())
            })?;
        }
        if found.is_empty() {
            return Ok(());
        }
        let gone = self.only_purged(&known, found.keys().copied().collect(), job)?;
        let shared = found.iter().filter(|(id, _)| !gone.contains(id));
        done.shared_bytes = shared.map(|(_, (_, len))| *len).sum();
        found.retain(|id, _| gone.contains(id));
        let found = found.into_iter().map(|(id, (why, _))| (id, why));
        self.repo.change_slice(|slice| slice.pieces.extend(found))?;
        refused::refresh(self.repo);
        Ok(())
    }

    /// Returns the refused chunks that nothing needs.
    fn unneeded(&self, known: &RepoSlice, job: &Job) -> Result<BTreeSet<ObjectId>, RepoError> {
        let chunks = known.pieces.keys().copied().collect();
        self.only_purged(known, chunks, job)
    }

    /// Returns those of `chunks` that only purged files need.
    fn only_purged(
        &self,
        slice: &RepoSlice,
        mut chunks: BTreeSet<ObjectId>,
        job: &Job,
    ) -> Result<BTreeSet<ObjectId>, RepoError> {
        let is_purged = |(ty, id): &(ObjectType, ObjectId)| {
            matches!(ty, ObjectType::List | ObjectType::Chunk) && slice.purged.contains_key(id)
        };
        let mut seen = self.repo.store().marks();
        let mut needed = |id: &ObjectId| {
            chunks.remove(id);
        };
        self.each_needed(&mut seen, &is_purged, &mut needed, job)?;
        Ok(chunks)
    }

    /// Finds the packs whose files may have bytes of chunks that are to go.
    fn plan_purge(&self, gone: &BTreeSet<ObjectId>, job: &Job) -> Result<Plan, RepoError> {
        let mut given_up = self.repo.store().marks();
        for id in gone {
            given_up.mark(id)?;
        }
        let needed = given_up.blank();
        let mut plan = Plan::new(given_up, needed);
        let kept = plan.kept()?;
        for row in self.repo.store().packs() {
            if self.may_have(&row, gone, job)? {
                if kept.contains(&row.id) {
                    plan.rewrite.push(row)
                } else {
                    plan.packs.push(row)
                }
            }
        }
        self.leave_last_copies(&mut plan, job)?;
        Ok(plan)
    }

    fn may_have(
        &self,
        row: &PackRow,
        gone: &BTreeSet<ObjectId>,
        job: &Job,
    ) -> Result<bool, RepoError> {
        let segments = self.repo.refs().segments_of(row.id)?;
        let goes_on = || !job.is_cancelled();
        let store = self.repo.store();
        match store.may_have_bytes_of(row, &segments, gone, &goes_on) {
            Err(StoreError::Cancelled) => Err(RepoError::Cancelled),
            // A damaged pack may have them.
            Err(StoreError::DamagedFile { .. }) => Ok(true),
            found => Ok(found?),
        }
    }

    /// Returns why bytes of chunks may still be in packs.
    fn left_of(
        &self,
        gone: &BTreeSet<ObjectId>,
        why: Option<String>,
        job: &Job,
    ) -> Result<Vec<String>, RepoError> {
        let mut left = Vec::new();
        for row in self.repo.store().packs() {
            // Packs that were written meanwhile have none, unless a job has not ended yet.
            if self.may_have(&row, gone, job)? {
                let path = self.repo.store().pack_path(row.id);
                left.push(format!("{} may still have bytes of it", path.display()));
            }
        }
        for id in leftovers::unlisted(self.repo)? {
            let path = self.repo.store().pack_path(id);
            left.push(format!("another command is writing to {}", path.display()));
        }
        if !left.is_empty() {
            left.extend(why);
        }
        Ok(left)
    }

    /// Allows chunks that another command needed after all: it had begun before the purge.
    fn forget_needed(&self, known: &RepoSlice, gone: &BTreeSet<ObjectId>) -> Result<(), RepoError> {
        let is_needed = |id: &ObjectId| known.pieces.contains_key(id) && !gone.contains(id);
        if gone.len() < known.pieces.len() {
            self.repo
                .change_slice(|slice| slice.pieces.retain(|id, _| !is_needed(id)))?;
            refused::refresh(self.repo);
        }
        Ok(())
    }
}

/// Returns contents in the form in which [`ToPurge`] has them.
pub fn roots_of<'b>(files: impl IntoIterator<Item = &'b Blob>) -> BTreeMap<ObjectId, ObjectType> {
    files.into_iter().map(|blob| (blob.id, blob.ty())).collect()
}
