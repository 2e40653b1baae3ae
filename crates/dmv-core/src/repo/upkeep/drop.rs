//! `drop`: frees local space once peers have confirmed that they keep a copy.
//!
//! The repository first notes durably which files are given up. Then it removes packs in which only
//! such files need anything. A crash in between leaves bytes that are noted as given up, which does
//! no harm. If enough of a pack is given up, its needed objects move to another pack and the pack
//! is removed, too. In other packs the space waits.

use crate::fsutil::machine_now;
use crate::hash::ObjectId;
use crate::job::Job;
use crate::object::conflict::Conflict;
use crate::object::list::{Blob, BlobChunks, ListNode};
use crate::object::name::RepoPath;
use crate::object::root::has_blob;
use crate::object::tree::{Kind, Node};
use crate::object::{ObjectError, ObjectRead, ObjectType};
use crate::refs::SeenOperation;
use crate::repo::base::error::{RepoError, UpkeepError};
use crate::repo::base::keeping::{Exclusive, RightToFree};
use crate::repo::base::lean::each_unchanged;
use crate::repo::base::leaving::{LockedPack, free_packs, lock_pack, sweep_leftovers};
use crate::repo::base::repo::Repo;
use crate::repo::base::{keeping, publish};
use crate::repo::files::dropped;
use crate::repo::look::entries::Selection;
use crate::repo::look::stored::{has_chunks, is_complete, stored_bytes, stored_len, stored_type};
use crate::repo::upkeep::room::is_no_room;
use crate::repo::upkeep::roots;
use crate::store::{Mark, Marks, PackId, PackKind, PackRow, StoreError};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::mem::take;

/// How often marking starts again because other commands commit meanwhile.
pub(super) const TRIES: usize = 3;

/// A pack is rewritten if at least one part in this many is given up. So each freed byte costs at
/// most three copied bytes.
const WORTH_REWRITING: u64 = 4;

/// Files whose content can be given up.
#[derive(Debug, Default)]
pub struct Droppable {
    /// The selected files with stored content. The same content may appear more than once.
    pub files: Vec<(RepoPath, Blob)>,
    /// What their content takes in packs. Content that appears more than once counts once.
    pub stored_bytes: u64,
    /// The number of selected files whose content is absent.
    pub absent: u64,
    /// Content that was given up earlier and is still stored, or stored again, completely or in
    /// part.
    pub earlier: Vec<(ObjectType, ObjectId)>,
}

/// How much space was freed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FreedSpace {
    /// The bytes of removed packs, less the bytes that were stored again for that.
    pub freed_bytes: u64,
    /// What content takes in packs that nothing needs any more, but that shares packs with needed
    /// content.
    pub waiting_bytes: u64,
    /// What content takes in packs that other files need as well.
    pub shared_bytes: u64,
    /// The bytes of removed packs whose files have another name, mostly in another repository, less the
    /// bytes that were stored again. They take space until no process uses these files.
    pub linked_bytes: u64,
    /// Why a pack was not freed although it was worth it.
    pub why_not_freed: Option<String>,
    /// Whether that is because the disk has no room for a copy of what stays of a pack. What needs no copy
    /// is freed.
    pub no_room: bool,
}

/// The right to free space in a repository. While it lasts, no other process frees space there and no
/// peer may rely on the repository's objects.
pub struct FreeingLock<'r> {
    pub(super) repo: &'r Repo,
    _exclusive: Exclusive,
    right: RightToFree,
    /// Whether every pack is rewritten that has something to free.
    is_thorough: bool,
}

/// Returns the targets of the symlinks that a tree node or a conflict names.
fn symlinks_in(ty: ObjectType, bytes: &[u8]) -> HashSet<ObjectId> {
    let mut out = HashSet::new();
    match ty {
        ObjectType::Tree => {
            if let Ok(Node::Leaf(entries)) = Node::decode(bytes) {
                let links = entries.iter().filter(|entry| entry.kind == Kind::Symlink);
                out.extend(links.map(|entry| entry.id));
            }
        }
        ObjectType::Conflict => {
            if let Ok(conflict) = Conflict::decode(bytes) {
                let terms = conflict.bases.iter().chain(&conflict.sides).flatten();
                let links = terms.filter(|term| term.kind == Kind::Symlink);
                out.extend(links.map(|term| term.id));
            }
        }
        _ => {}
    }
    out
}

impl Repo {
    /// Starts to free space.
    ///
    /// Fails with [`BusyError::Freeing`](crate::repo::BusyError::Freeing) if another command is freeing
    /// space, or if a peer relies on objects of this repository.
    pub fn begin_to_free(&self) -> Result<FreeingLock<'_>, RepoError> {
        let exclusive = keeping::keep_exclusively(self)?;
        let right = keeping::free_alone(self)?;
        sweep_leftovers(self, &right)?;
        Ok(FreeingLock {
            repo: self,
            _exclusive: exclusive,
            right,
            is_thorough: false,
        })
    }

    /// Returns what the content of files takes in packs, as far as it is stored. Each chunk counts once.
    pub fn stored_under(&self, wanted: Selection<'_>) -> Result<u64, RepoError> {
        let mut blobs = BTreeMap::new();
        dropped::each_file(self, wanted, &mut |_, blob| {
            blobs.insert(blob.id, blob);
            Ok(())
        })?;
        stored_bytes(self, blobs.into_values())
    }
}

impl FreeingLock<'_> {
    /// From here on every pack is rewritten that has something to free, whatever must be copied for it.
    pub fn be_thorough(&mut self) {
        self.is_thorough = true;
    }

    /// Returns which of the `wanted` files can be given up, and which were given up earlier.
    pub fn droppable(&self, wanted: &[Selection<'_>]) -> Result<Droppable, RepoError> {
        let mut out = Droppable::default();
        for wanted in wanted {
            dropped::each_file(self.repo, *wanted, &mut |path, blob| {
                if has_blob(self.repo, blob)? {
                    out.files.push((path.clone(), blob));
                } else {
                    out.absent += 1;
                }
                Ok(())
            })?;
        }
        self.complete(out)
    }

    /// Returns which content can be given up because files of the worktree have it, and what was given up
    /// earlier.
    pub fn in_worktree(&self) -> Result<Droppable, RepoError> {
        let mut out = Droppable::default();
        each_unchanged(self.repo, &mut |path, blob| {
            if has_blob(self.repo, blob)? {
                out.files.push((path.clone(), blob));
            } else {
                out.absent += 1;
            }
            Ok(())
        })?;
        self.complete(out)
    }

    /// Adds what packs have of the files, and what was given up earlier.
    fn complete(&self, mut out: Droppable) -> Result<Droppable, RepoError> {
        let blobs = out.files.iter().map(|(_, blob)| *blob);
        out.stored_bytes = stored_bytes(self.repo, blobs)?;
        let chosen: BTreeSet<ObjectId> = out.files.iter().map(|(_, blob)| blob.id).collect();
        for id in self.repo.slice()?.dropped {
            if !chosen.contains(&id)
                && let Some(ty) = stored_type(self.repo, &id)?
                && has_chunks(self.repo, ty, id)?
            {
                out.earlier.push((ty, id));
            }
        }
        Ok(out)
    }

    /// Gives up `files`, and frees the space that only they and the `earlier` files need. Peers
    /// must just have confirmed that they keep all of these. `still` asks them once more just
    /// before.
    pub fn drop_files(
        &self,
        files: &[Blob],
        earlier: &[(ObjectType, ObjectId)],
        still: &mut dyn FnMut() -> bool,
        job: &Job,
    ) -> Result<FreedSpace, RepoError> {
        let mut roots: BTreeMap<ObjectId, ObjectType> =
            earlier.iter().map(|(ty, id)| (*id, *ty)).collect();
        roots.extend(files.iter().map(|blob| (blob.id, blob.ty())));
        let mut freed = FreedSpace::default();
        for _ in 0..TRIES {
            // Anything published after this makes a new plan necessary. So the store must be
            // refreshed after it is read: the plan knows the objects of all operations up to it.
            let seen = self.repo.refs().seen()?;
            self.repo.store().refresh()?;
            // A pack with a damaged index would seem to hold nothing that is needed.
            self.repo.store().check_tables()?;
            let mut plan = self.plan(&roots, job)?;
            if !still() {
                return Err(UpkeepError::Unconfirmed.into());
            }
            self.repo.change_slice(|slice| {
                // A repository that calls for no content says so in one line.
                if !slice.metadata_only {
                    slice.dropped.extend(files.iter().map(|blob| blob.id));
                }
            })?;
            self.repo.forget_lean_places();
            freed.why_not_freed = plan.why_not.take();
            if self.carry_out(&mut plan, seen, &mut freed, job)? {
                freed.waiting_bytes = plan.chunks.values().sum();
                freed.shared_bytes = plan.shared_bytes;
                return Ok(freed);
            }
        }
        // The files are noted as given up. A later run frees the space.
        freed.waiting_bytes = self.bytes_of(&roots)?;
        freed.why_not_freed = Some("other commands keep changing the repository".into());
        Ok(freed)
    }

    /// Frees the packs of a plan whose locks are free, and removes them from the plan. Returns
    /// `false` if something was committed meanwhile, so that a new plan is needed.
    pub(super) fn carry_out(
        &self,
        plan: &mut Plan,
        seen: SeenOperation,
        freed: &mut FreedSpace,
        job: &Job,
    ) -> Result<bool, RepoError> {
        let packs = self.lock(take(&mut plan.packs), freed)?;
        if !self.free(plan, &packs, seen, 0, freed)? {
            return Ok(false);
        }
        // Packs are rewritten one by one, since there may be little space for the copies.
        let rewrite = take(&mut plan.rewrite);
        let leaving: HashSet<PackId> = rewrite.iter().map(|row| row.id).collect();
        for row in rewrite {
            let packs = self.lock(vec![row], freed)?;
            if packs.is_empty() {
                continue;
            }
            let moved_bytes = match self.move_out(plan, &row, &leaving, job) {
                Ok(moved_bytes) => moved_bytes,
                Err(RepoError::Cancelled) => return Err(RepoError::Cancelled),
                // The disk is full, or something is damaged. The pack stays; other packs are freed.
                Err(e) => {
                    freed.no_room |= is_no_room(&e);
                    freed.why_not_freed = Some(e.to_string());
                    continue;
                }
            };
            if !self.free(plan, &packs, seen, moved_bytes, freed)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Stores the needed objects of a pack again and returns the bytes stored. The caller holds the
    /// pack's lock. Copies in packs that are `leaving` do not count: the plan may know only one
    /// place of an object that is in several of them.
    fn move_out(
        &self,
        plan: &Plan,
        row: &PackRow,
        leaving: &HashSet<PackId>,
        job: &Job,
    ) -> Result<u64, RepoError> {
        let store = self.repo.store();
        let mut frames = BTreeSet::new();
        plan.given_up.each(&mut |id, pack, place, marked| {
            if pack == row.id && plan.stays(id, marked)? {
                frames.insert(place.offset);
            }
            Ok(())
        })?;
        let stays = |id: &ObjectId| plan.stays(id, plan.given_up.has(id)?);
        let moved = store.move_out(row.id, leaving, &frames, &stays, &mut |bytes| {
            Job::add(&job.progress.bytes, bytes);
            !job.is_cancelled()
        });
        let sealed = moved.and_then(|sealed| sealed.ok_or(StoreError::Cancelled));
        let sealed = publish::noting_failed_sync(self.repo, sealed)?;
        let before = self.packs_len()?;
        // Tables are merged once the pack is out of use.
        publish::keep_rewritten(self.repo, sealed, machine_now().seconds)?;
        let stored_bytes = self.packs_len()?.saturating_sub(before);
        // Whatever went wrong, no needed object may go unless another pack has it.
        plan.given_up.each(&mut |id, pack, place, marked| {
            let is_lost =
                pack == row.id && plan.stays(id, marked)? && !store.has_outside(id, leaving)?;
            if is_lost {
                Err(StoreError::DamagedFile {
                    path: store.pack_path(row.id),
                    offset: place.offset,
                    why: "an object could not be copied",
                })
            } else {
                Ok(())
            }
        })?;
        Ok(stored_bytes)
    }

    fn packs_len(&self) -> Result<u64, RepoError> {
        let packs = self.repo.refs().catalogue()?.packs;
        Ok(packs.iter().map(|pack| pack.len).sum())
    }

    pub(super) fn bytes_of(
        &self,
        roots: &BTreeMap<ObjectId, ObjectType>,
    ) -> Result<u64, RepoError> {
        let mut bytes = 0;
        let mut marks = self.repo.store().marks();
        each_chunk(self.repo, roots, &mut |id, _| {
            if marks.mark(id)? == Mark::New {
                bytes += stored_len(self.repo, id)?;
            }
            Ok(())
        })?;
        Ok(bytes)
    }

    /// Finds the packs of chunks in which only `roots` need anything.
    pub(super) fn plan(
        &self,
        roots: &BTreeMap<ObjectId, ObjectType>,
        job: &Job,
    ) -> Result<Plan, RepoError> {
        let repo = self.repo;
        let mut given_up = repo.store().marks();
        each_chunk(repo, roots, &mut |id, _| {
            given_up.mark(id)?;
            Ok(())
        })?;
        let mut needed = given_up.blank();
        // Without its other chunks, a file of which only some are here is no reason to keep these. A
        // repository that calls for no content has many such files: versions that share chunks with the
        // one that is checked out.
        let calls_for_none = repo.slice()?.metadata_only;
        let is_part = |ty: ObjectType, id| {
            let is_content = matches!(ty, ObjectType::Chunk | ObjectType::List);
            // What cannot be read counts as needed.
            calls_for_none && is_content && !is_complete(repo, ty, id).unwrap_or(true)
        };
        // The same bytes may be a given-up file and a part of another file.
        let is_given_up =
            |(ty, id): &(ObjectType, ObjectId)| roots.get(id) == Some(ty) || is_part(*ty, *id);
        self.each_needed(&mut needed, &is_given_up, &mut |_| (), job)?;
        self.mark_bases(&given_up, &mut needed)?;
        let mut plan = Plan::new(given_up, needed);
        let kept = plan.kept()?;
        let mut counted = plan.given_up.blank();
        each_chunk(repo, roots, &mut |id, _| {
            if counted.mark(id)? != Mark::New {
                return Ok(());
            }
            let len = stored_len(repo, id)?;
            if plan.needed.has(id)? {
                plan.shared_bytes += len;
            } else {
                for pack in plan.given_up.packs_of(id)? {
                    *plan.chunks.entry(pack).or_default() += len;
                }
            }
            Ok(())
        })?;
        for row in repo.store().packs() {
            let waits = plan.chunks.get(&row.id).copied().unwrap_or_default();
            match row.kind {
                PackKind::Data if !kept.contains(&row.id) => plan.packs.push(row),
                PackKind::Data if self.is_worth_rewriting(waits, row.len) => plan.rewrite.push(row),
                _ => {}
            }
        }
        plan.rewrite
            .sort_by_key(|row| Reverse(plan.chunks.get(&row.id).copied()));
        if plan.packs.is_empty() && plan.rewrite.is_empty() {
            return Ok(plan);
        }
        self.leave_last_copies(&mut plan, job)?;
        Ok(plan)
    }

    fn is_worth_rewriting(&self, waits: u64, len: u64) -> bool {
        if self.is_thorough {
            waits > 0
        } else {
            waits >= len / WORTH_REWRITING
        }
    }

    /// Removes packs from the plan whose needed objects have no other intact copy, although the
    /// tables name another place for them.
    pub(super) fn leave_last_copies(&self, plan: &mut Plan, job: &Job) -> Result<(), RepoError> {
        let (packs, rewrite) = (take(&mut plan.packs), take(&mut plan.rewrite));
        for row in packs {
            if self.may_go(plan, row.id, job)? {
                plan.packs.push(row);
            }
        }
        for row in rewrite {
            if self.may_go(plan, row.id, job)? {
                plan.rewrite.push(row);
            }
        }
        Ok(())
    }

    /// Returns whether another pack has an intact copy of every needed object that a merged index
    /// hides in this pack. If not, sets the plan's reason.
    fn may_go(&self, plan: &mut Plan, pack: PackId, job: &Job) -> Result<bool, RepoError> {
        let store = self.repo.store();
        for segment in self.repo.refs().segments_of(pack)? {
            let mut last = None;
            let walked = store.files().each_of_segment(&segment, &mut |id, place| {
                job.check()?;
                let stays = last.is_none() && plan.stays(id, plan.given_up.has(id)?)?;
                if stays
                    && !plan.given_up.is_placed(id, pack, place)?
                    && !store.is_intact_outside(id, pack)?
                {
                    last = Some(*id);
                }
                Ok(())
            });
            let path = store.pack_path(pack);
            plan.why_not = match (walked, last) {
                (Ok(()), None) => continue,
                (Err(StoreError::Cancelled), _) => return Err(RepoError::Cancelled),
                (Ok(()), Some(id)) => Some(format!(
                    "{} has the only intact copy of {}",
                    path.display(),
                    id.short(12)
                )),
                (Err(e), _) => Some(e.to_string()),
            };
            return Ok(false);
        }
        Ok(true)
    }

    /// Marks the chunks that stored frames need to be decoded, if something in these frames stays.
    fn mark_bases(&self, given_up: &Marks, needed: &mut Marks) -> Result<(), RepoError> {
        let store = self.repo.store();
        for row in store.packs() {
            if !row.id.may_have_bases() {
                continue;
            }
            let segments = self.repo.refs().segments_of(row.id)?;
            let stays = |id: &ObjectId| Ok(!given_up.has(id)? || needed.has(id)?);
            for base in store.bases_of_staying(row.id, &segments, &stays)? {
                needed.mark(&base)?;
            }
        }
        Ok(())
    }

    /// Marks everything that is needed by objects other than files that are given up, and visits the
    /// chunks among that, some of them several times. It starts at all commits that refs, worktrees and
    /// the operation log name, and includes their ancestors.
    pub(super) fn each_needed(
        &self,
        needed: &mut Marks,
        is_given_up: &dyn Fn(&(ObjectType, ObjectId)) -> bool,
        visit_chunk: &mut dyn FnMut(&ObjectId),
        job: &Job,
    ) -> Result<(), RepoError> {
        let mut stack = self.roots()?;
        stack.retain(|root| !is_given_up(root));
        while let Some((ty, id)) = stack.pop() {
            job.check()?;
            if ty == ObjectType::Chunk {
                visit_chunk(&id);
            }
            // An absent object needs nothing that is stored, except for objects reached in other
            // ways.
            if needed.mark(&id)? != Mark::New || ty == ObjectType::Chunk {
                continue;
            }
            let Some(bytes) = self.repo.store().read(ty, &id)? else {
                continue;
            };
            let links = ty.links(&bytes);
            let links = links.map_err(|e| ObjectError::undecodable(ty, &id, e))?;
            let names_files = matches!(ty, ObjectType::Tree | ObjectType::Conflict);
            let symlinks = symlinks_in(ty, &bytes);
            stack.extend(links.into_iter().filter(|link| {
                let goes = names_files && is_given_up(link);
                // A symlink may have the bytes of such a file, and stays.
                !goes || symlinks.contains(&link.1)
            }));
        }
        Ok(())
    }

    /// Returns the objects that the view, the operations that undo can reach and interrupted
    /// commands name.
    fn roots(&self) -> Result<Vec<(ObjectType, ObjectId)>, RepoError> {
        let mut named = BTreeSet::new();
        let mut note = |root| {
            named.insert(root);
        };
        roots::of_view(self.repo, &mut note)?;
        roots::of_window(self.repo, &mut note)?;
        named.extend(roots::of_courtesy(self.repo)?);
        let mut out = Vec::new();
        for root in named {
            out.extend(root.object(self.repo.store())?);
        }
        Ok(out)
    }

    /// Locks packs. Leaves out packs that another process writes to, and notes that in `freed`.
    fn lock(
        &self,
        rows: Vec<PackRow>,
        freed: &mut FreedSpace,
    ) -> Result<Vec<LockedPack>, RepoError> {
        let mut out = Vec::new();
        for row in rows {
            let locked = lock_pack(self.repo, row)?;
            if locked.is_none() {
                let path = self.repo.store().pack_path(row.id);
                let why = format!("another command is writing to {}", path.display());
                freed.why_not_freed = Some(why);
            }
            out.extend(locked);
        }
        Ok(out)
    }

    /// Removes packs from the repository and from the plan, after `moved_bytes` were stored again.
    /// The caller holds their locks. Returns `false` and removes nothing if something was committed
    /// meanwhile.
    fn free(
        &self,
        plan: &mut Plan,
        packs: &[LockedPack],
        seen: SeenOperation,
        moved_bytes: u64,
        freed: &mut FreedSpace,
    ) -> Result<bool, RepoError> {
        let Some(gone) = free_packs(self.repo, &self.right, packs, seen)? else {
            return Ok(false);
        };
        publish::merge_tables(self.repo);
        freed.freed_bytes += gone.bytes.saturating_sub(moved_bytes);
        freed.linked_bytes += gone.linked_bytes.saturating_sub(moved_bytes);
        if gone.why_not.is_none() {
            for (row, _) in packs {
                plan.chunks.remove(&row.id);
            }
        }
        let why_not = gone.why_not.or(gone.why_left);
        if why_not.is_some() {
            freed.why_not_freed = why_not;
        }
        Ok(true)
    }
}

pub(super) struct Plan {
    /// Packs that can go.
    pub(super) packs: Vec<PackRow>,
    /// Packs that can go once their needed objects are moved, the most worthwhile first.
    pub(super) rewrite: Vec<PackRow>,
    /// Why a pack stays although it could go.
    pub(super) why_not: Option<String>,
    /// What chunks take in packs that nothing needs any more, by pack.
    pub(super) chunks: HashMap<PackId, u64>,
    pub(super) shared_bytes: u64,
    /// The chunks of files that are given up.
    given_up: Marks,
    /// The objects that everything else needs.
    needed: Marks,
}

impl Plan {
    /// Returns a plan that frees no pack.
    pub(super) fn new(given_up: Marks, needed: Marks) -> Plan {
        Plan {
            packs: Vec::new(),
            rewrite: Vec::new(),
            why_not: None,
            chunks: HashMap::new(),
            shared_bytes: 0,
            given_up,
            needed,
        }
    }

    /// Returns the packs with something that stays, as far as the tables show.
    pub(super) fn kept(&self) -> Result<BTreeSet<PackId>, RepoError> {
        let mut kept = BTreeSet::new();
        self.given_up.each(&mut |id, pack, _, marked| {
            if self.stays(id, marked)? {
                kept.insert(pack);
            }
            Ok(())
        })?;
        Ok(kept)
    }

    /// Returns whether an object must stay. An object that nothing names stays, since it may belong
    /// to another job.
    fn stays(&self, id: &ObjectId, given_up: bool) -> Result<bool, StoreError> {
        Ok(!given_up || self.needed.has(id)?)
    }
}

/// Visits the chunks under `roots` with their lengths. Skips what lies under absent lists.
pub(super) fn each_chunk(
    repo: &Repo,
    roots: &BTreeMap<ObjectId, ObjectType>,
    visit: &mut dyn FnMut(&ObjectId, u64) -> Result<(), RepoError>,
) -> Result<(), RepoError> {
    for (id, ty) in roots {
        if *ty == ObjectType::Chunk {
            let len = match repo.read(*ty, id).map_err(RepoError::from) {
                // Peers have an intact copy, and the local one is no longer needed.
                Err(RepoError::Object(ObjectError::Damaged { .. })) => 0,
                read => read?.map_or(0, |bytes| bytes.len() as u64),
            };
            visit(id, len)?;
            continue;
        }
        let Some(bytes) = repo.read(*ty, id)? else {
            continue;
        };
        let node = ListNode::decode(&bytes);
        let blob = Blob {
            id: *id,
            is_list: true,
            size: node
                .map_err(|e| ObjectError::undecodable(*ty, id, e))?
                .size(),
        };
        for chunk in BlobChunks::new(repo.objects(), blob) {
            match chunk {
                Ok((_, id, len)) => visit(&id, len)?,
                Err(ObjectError::Missing { .. }) => break,
                Err(e) => return Err(e.into()),
            }
        }
    }
    Ok(())
}
