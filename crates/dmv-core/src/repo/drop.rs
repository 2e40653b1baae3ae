//! Giving up bytes that others hold: `drop`.
//!
//! First it is noted durably which files are given up, then packs go that hold nothing but what only
//! such files need; then those go of which that is the larger part, after the rest was copied. A
//! crash in between leaves bytes that are noted as given up, or copies, which harms nobody. What else
//! shares a pack with something that is needed stays until packs are rewritten.

use super::choices::Record;
use super::keep::Exclusive;
use super::verify::{names_choices, names_commit};
use super::{Repo, RepoError, Wanted};
use crate::hash::ObjectId;
use crate::job::Job;
use crate::object::list::{Blob, BlobChunks, ListNode};
use crate::object::name::RepoPath;
use crate::object::root::has_blob;
use crate::object::tree::Kind;
use crate::object::{ObjectError, ObjectRead, ObjectType};
use crate::repo::look::blob_of;
use crate::store::{
    CheckedObject, CheckedRecord, FileId, Gather, Incoming, IoContext, Mark, Marks, Outgoing,
    PackKind, PackRow, Store, StoreError,
};
use crate::vfs::{Open, VfsFile};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ops::ControlFlow;
use std::sync::Arc;

/// How often marking begins anew because other commands commit meanwhile.
const TRIES: usize = 3;
/// Operations read at a time.
const PAGE: usize = 256;

/// Files whose content can be given up.
#[derive(Debug, Default)]
pub struct Droppable {
    /// Files that were chosen, with their content. Content may come more than once.
    pub files: Vec<(RepoPath, Blob)>,
    /// Files that were chosen and whose content is not here.
    pub absent: u64,
    /// Content that was given up before and that is here in whole or in part: it waits to be freed,
    /// or has come again.
    pub earlier: Vec<(ObjectType, ObjectId)>,
}

/// What became of the space.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Freed {
    /// Bytes of packs that are gone.
    pub freed_bytes: u64,
    /// Bytes of content that nothing needs any more, in packs with more that is needed.
    pub waiting_bytes: u64,
    /// Bytes of content that other files need as well.
    pub shared_bytes: u64,
    /// Why nothing was moved out of packs that hold little else, if that failed.
    pub why_not_moved: Option<String>,
}

/// A pack, and its lock.
type Locked = (PackRow, Arc<dyn VfsFile>);

/// The right to free space in a repository; nobody else frees there, and no peer counts on it.
pub struct Freeing<'r> {
    repo: &'r Repo,
    _exclusive: Exclusive,
}

impl Repo {
    /// Begins to free space. [`RepoError::Freeing`]: somebody else does, or a peer counts on what is
    /// here.
    pub fn begin_to_free(&self) -> Result<Freeing<'_>, RepoError> {
        let exclusive = self.keep_exclusively()?;
        Ok(Freeing {
            repo: self,
            _exclusive: exclusive,
        })
    }

    /// Takes files off the list of those given up whose content is here: it is to stay.
    pub fn no_longer_dropped(&self, wanted: Wanted<'_>) -> Result<(), RepoError> {
        let mut back = BTreeSet::new();
        let dropped = self.slice()?.dropped;
        if dropped.is_empty() {
            return Ok(());
        }
        self.each_file(wanted, &mut |_, blob| {
            if dropped.contains(&blob.id) && has_blob(self, blob)? {
                back.insert(blob.id);
            }
            Ok(())
        })?;
        if !back.is_empty() {
            self.change_slice(|slice| slice.dropped.retain(|id| !back.contains(id)))?;
        }
        Ok(())
    }

    fn each_file(
        &self,
        wanted: Wanted<'_>,
        visit: &mut dyn FnMut(&RepoPath, Blob) -> Result<(), RepoError>,
    ) -> Result<(), RepoError> {
        self.list_wanted(wanted, &mut |listed| {
            // What has no bytes frees none. A symlink is needed to make the files of a commit.
            let is_file = matches!(listed.entry.kind, Kind::File | Kind::Executable);
            if is_file && listed.entry.size > 0 {
                visit(&listed.path, blob_of(&listed.entry))?;
            }
            Ok(ControlFlow::Continue(()))
        })
    }
}

impl Freeing<'_> {
    /// What can be given up of what is wanted, and what was given up earlier.
    pub fn droppable(&self, wanted: &[Wanted<'_>]) -> Result<Droppable, RepoError> {
        let mut out = Droppable::default();
        for wanted in wanted {
            self.repo.each_file(*wanted, &mut |path, blob| {
                match has_blob(self.repo, blob)? {
                    true => out.files.push((path.clone(), blob)),
                    false => out.absent += 1,
                }
                Ok(())
            })?;
        }
        let chosen: BTreeSet<ObjectId> = out.files.iter().map(|(_, blob)| blob.id).collect();
        for id in self.repo.slice()?.dropped {
            if !chosen.contains(&id)
                && let Some(ty) = self.type_of(&id)?
                && self.has_chunks((ty, id))?
            {
                out.earlier.push((ty, id));
            }
        }
        Ok(out)
    }

    /// Whether any bytes of a file's content are here.
    fn has_chunks(&self, (ty, id): (ObjectType, ObjectId)) -> Result<bool, RepoError> {
        let mut any = false;
        each_chunk(self.repo, &BTreeMap::from([(id, ty)]), &mut |chunk, _| {
            any = any || self.repo.holds(ObjectType::Chunk, chunk)?;
            Ok(())
        })?;
        Ok(any)
    }

    /// What is stored as the root of a file's content, if it is.
    fn type_of(&self, id: &ObjectId) -> Result<Option<ObjectType>, RepoError> {
        for ty in [ObjectType::List, ObjectType::Chunk] {
            if self.repo.holds(ty, id)? {
                return Ok(Some(ty));
            }
        }
        Ok(None)
    }

    /// Gives up `files`, and frees what only they and `earlier` ones need: all of these must have
    /// just been confirmed by peers that keep them. `still`: asked once more, just before.
    pub fn drop_files(
        &self,
        files: &[Blob],
        earlier: &[(ObjectType, ObjectId)],
        still: &mut dyn FnMut() -> bool,
        job: &Job,
    ) -> Result<Freed, RepoError> {
        let mut roots: BTreeMap<ObjectId, ObjectType> =
            earlier.iter().map(|(ty, id)| (*id, *ty)).collect();
        roots.extend(files.iter().map(|blob| (blob.id, blob.ty())));
        for _ in 0..TRIES {
            self.repo.store().refresh()?;
            let last = self.repo.refs().last_operation()?;
            let plan = self.plan(&roots, job)?;
            if !still() {
                return Err(RepoError::Unconfirmed);
            }
            let ids = files.iter().map(|blob| blob.id);
            self.repo.change_slice(|slice| slice.dropped.extend(ids))?;
            let whole = self.lock(&plan.packs)?;
            let Some(mut freed_bytes) = self.free(&whole, last)? else {
                continue;
            };
            let mut gone: BTreeSet<FileId> = whole.iter().map(|(row, _)| row.id).collect();
            let mut why_not_moved = None;
            match self.move_out(&plan, last, job) {
                Ok((packs, bytes)) => {
                    gone.extend(packs);
                    freed_bytes += bytes;
                }
                Err(RepoError::Cancelled) => return Err(RepoError::Cancelled),
                // A disk without room, perhaps. What could be freed without it is free.
                Err(e) => why_not_moved = Some(e.to_string()),
            }
            let waits = plan.chunks.iter().filter(|(pack, _)| !gone.contains(pack));
            return Ok(Freed {
                freed_bytes,
                waiting_bytes: waits.map(|(_, bytes)| bytes).sum(),
                shared_bytes: plan.shared_bytes,
                why_not_moved,
            });
        }
        // They are noted as given up; the space is freed another time.
        Ok(Freed {
            waiting_bytes: self.bytes_of(&roots)?,
            ..Freed::default()
        })
    }

    /// Copies what stays out of packs of which at least half is given up, and frees them. Returns
    /// them, and the bytes won.
    fn move_out(&self, plan: &Plan, last: u64, job: &Job) -> Result<(Vec<FileId>, u64), RepoError> {
        let store = self.repo.store();
        let locked = self.lock(&plan.mostly)?;
        let leaving: HashSet<FileId> = locked.iter().map(|(row, _)| row.id).collect();
        if leaving.is_empty() {
            return Ok((Vec::new(), 0));
        }
        let before = self.packs_len()?;
        let mut copies = Incoming::new(store.mover(leaving.clone())?);
        let mut gather = Gather::new(store);
        plan.each_that_stays(&leaving, &mut |id, ty| {
            if job.is_cancelled() {
                return Err(StoreError::Cancelled);
            }
            gather.add(ty, *id, &mut |out| copy(store, &mut copies, out))?;
            Ok(())
        })?;
        gather.flush(&mut |out| copy(store, &mut copies, out))?;
        // Durable and in the catalogue before the other copies go.
        self.repo.keep_incoming(copies)?;
        let elsewhere = |id: &ObjectId, _| match store.has_outside(id, &leaving)? {
            true => Ok(()),
            false => Err(not_copied(store, "an object could not be copied")),
        };
        plan.each_that_stays(&leaving, &mut { elsewhere })?;
        let taken = self.packs_len()? - before;
        Ok(match self.free(&locked, last)? {
            Some(bytes) => (leaving.into_iter().collect(), bytes.saturating_sub(taken)),
            None => (Vec::new(), 0),
        })
    }

    fn packs_len(&self) -> Result<u64, RepoError> {
        let packs = self.repo.refs().catalogue()?.packs;
        Ok(packs.iter().map(|pack| pack.len).sum())
    }

    fn bytes_of(&self, roots: &BTreeMap<ObjectId, ObjectType>) -> Result<u64, RepoError> {
        let mut bytes = 0;
        let mut marks = self.repo.store().marks();
        each_chunk(self.repo, roots, &mut |id, len| {
            bytes += if marks.mark(id)? == Mark::New { len } else { 0 };
            Ok(())
        })?;
        Ok(bytes)
    }

    /// Finds the packs of chunks that hold nothing but what only `roots` need.
    fn plan(&self, roots: &BTreeMap<ObjectId, ObjectType>, job: &Job) -> Result<Plan, RepoError> {
        let repo = self.repo;
        let mut given_up = repo.store().marks();
        each_chunk(repo, roots, &mut |id, _| {
            given_up.mark(id)?;
            Ok(())
        })?;
        let needed = self.mark_needed(&given_up, roots, job)?;
        let mut kept: BTreeSet<FileId> = BTreeSet::new();
        given_up.each(&mut |id, _, pack, marked| {
            if !marked || needed.has(id)? {
                kept.insert(pack);
            }
            Ok(())
        })?;
        let (mut chunks, mut shared_bytes) = (HashMap::<FileId, u64>::new(), 0);
        let mut counted = given_up.blank();
        each_chunk(repo, roots, &mut |id, len| {
            if counted.mark(id)? != Mark::New {
                return Ok(());
            }
            if needed.has(id)? {
                shared_bytes += len;
            } else if let Some(pack) = repo.store().pack_of(id)? {
                *chunks.entry(pack).or_default() += len;
            }
            Ok(())
        })?;
        let mut data = repo.store().packs();
        data.retain(|row| row.kind == PackKind::Data);
        let (mostly, packs): (Vec<PackRow>, Vec<PackRow>) =
            data.into_iter().partition(|row| kept.contains(&row.id));
        let is_mostly_given_up = |row: &PackRow| {
            chunks
                .get(&row.id)
                .is_some_and(|bytes| *bytes >= row.len / 2)
        };
        Ok(Plan {
            mostly: mostly.into_iter().filter(is_mostly_given_up).collect(),
            packs,
            given_up,
            needed,
            chunks,
            shared_bytes,
        })
    }

    /// Marks what everything but `roots` needs: of all commits that refs, worktrees and the log of
    /// operations name, and that they descend from.
    fn mark_needed(
        &self,
        given_up: &Marks,
        roots: &BTreeMap<ObjectId, ObjectType>,
        job: &Job,
    ) -> Result<Marks, RepoError> {
        let mut needed = given_up.blank();
        let mut stack: Vec<(ObjectType, ObjectId)> = self.named()?.into_iter().collect();
        while let Some((ty, id)) = stack.pop() {
            if job.is_cancelled() {
                return Err(RepoError::Cancelled);
            }
            // What is absent needs nothing that is here, but for what is found on other ways.
            if needed.mark(&id)? != Mark::New || ty == ObjectType::Chunk {
                continue;
            }
            let Some(bytes) = self.repo.store().read(ty, &id)? else {
                continue;
            };
            let links = ty.links(&bytes);
            let links = links.map_err(|e| ObjectError::undecodable(ty, &id, e))?;
            // The same bytes may be a given-up file and a part of another.
            let names_files = matches!(ty, ObjectType::Tree | ObjectType::Conflict);
            let is_given_up = |(ty, id): &(ObjectType, ObjectId)| roots.get(id) == Some(ty);
            stack.extend(
                links
                    .into_iter()
                    .filter(|link| !(names_files && is_given_up(link))),
            );
        }
        Ok(needed)
    }

    /// The commits and trees that the view and the log of operations name.
    fn named(&self) -> Result<BTreeSet<(ObjectType, ObjectId)>, RepoError> {
        let refs = self.repo.refs();
        let mut named = BTreeSet::new();
        let mut note = |key: &str, value: &[u8]| {
            if let Some(Record { from, to }) = names_choices(key, value) {
                named.extend([from, to].map(|tree| (ObjectType::Tree, tree)));
            } else if let (true, Ok(bytes)) = (names_commit(key), <[u8; 32]>::try_from(value)) {
                named.insert((ObjectType::Commit, ObjectId::from_bytes(bytes)));
            }
        };
        for (key, value) in refs.with_prefix("")? {
            note(&key, &value);
        }
        let mut before = None;
        loop {
            let page = refs.operations_before(before, PAGE)?;
            let Some(oldest) = page.last() else {
                return Ok(named);
            };
            before = Some(oldest.seq);
            for change in page.iter().flat_map(|operation| &operation.changes) {
                for value in change.old.iter().chain(&change.new) {
                    note(&change.key, value);
                }
            }
        }
    }

    /// Takes the locks of packs; those that somebody is writing to are left out.
    fn lock(&self, rows: &[PackRow]) -> Result<Vec<Locked>, RepoError> {
        let mut out = Vec::new();
        for row in rows.iter().copied() {
            let path = self.repo.store().pack_path(row.id);
            let file = self.repo.vfs.open(&path, Open::Append).at("open", &path)?;
            if file.try_lock().at("lock", &path)? {
                out.push((row, file));
            }
        }
        Ok(out)
    }

    /// Takes packs, whose locks are held, out of the repository. Returns their bytes; `None`:
    /// something was committed meanwhile, so nothing was done.
    fn free(&self, packs: &[Locked], last: u64) -> Result<Option<u64>, RepoError> {
        if packs.is_empty() {
            return Ok(Some(0));
        }
        let store = self.repo.store();
        let rows: Vec<PackRow> = packs.iter().map(|(row, _)| *row).collect();
        let Some(indexes) = self.repo.refs().remove_packs(&rows, last)? else {
            return Ok(None);
        };
        // From here on nobody finds them. A crash leaves files that the next job takes up again.
        let mut bytes = 0;
        for (row, file) in packs {
            let path = store.pack_path(row.id);
            bytes += file.len().at("measure", &path)?;
            self.repo.vfs.remove(&path).at("remove", &path)?;
        }
        let dir = store.packs_dir();
        self.repo.vfs.sync_dir(dir).at("sync", dir)?;
        store.remove_indexes(&indexes);
        store.load(self.repo.refs().catalogue()?)?;
        self.repo.merge_tables();
        Ok(Some(bytes))
    }
}

struct Plan {
    /// What can go.
    packs: Vec<PackRow>,
    /// What could go if a smaller part of it was elsewhere.
    mostly: Vec<PackRow>,
    /// Chunks of the files that are given up, and what anything else needs.
    given_up: Marks,
    needed: Marks,
    /// Bytes of chunks that nothing needs any more, by their pack.
    chunks: HashMap<FileId, u64>,
    shared_bytes: u64,
}

impl Plan {
    /// Visits what stays of what lies in these packs.
    fn each_that_stays(
        &self,
        packs: &HashSet<FileId>,
        visit: &mut dyn FnMut(&ObjectId, ObjectType) -> Result<(), StoreError>,
    ) -> Result<(), RepoError> {
        self.given_up
            .each(&mut |id, ty, pack, marked| match packs.contains(&pack)
                && (!marked || self.needed.has(id)?)
            {
                true => visit(id, ty),
                false => Ok(()),
            })?;
        Ok(())
    }
}

fn not_copied(store: &Store, why: &'static str) -> StoreError {
    StoreError::DamagedFile {
        path: store.packs_dir().to_owned(),
        offset: 0,
        why,
    }
}

/// Puts what comes out of a pack that will go into another one, after checking it.
fn copy(store: &Store, to: &mut Incoming<'_>, out: Outgoing) -> Result<(), StoreError> {
    let damaged = |why| not_copied(store, why);
    match out {
        Outgoing::Record(record, _) => {
            let record = CheckedRecord::new(record).map_err(damaged)?;
            to.add_record(&record).map(drop)
        }
        Outgoing::Object(ty, bytes) => {
            let object = CheckedObject::new(ty, bytes).map_err(damaged)?;
            to.add_object(&object).map(drop)
        }
    }
}

/// Visits the chunks under `roots` with their lengths, as far as lists are here.
fn each_chunk(
    repo: &Repo,
    roots: &BTreeMap<ObjectId, ObjectType>,
    visit: &mut dyn FnMut(&ObjectId, u64) -> Result<(), RepoError>,
) -> Result<(), RepoError> {
    for (id, ty) in roots {
        if *ty == ObjectType::Chunk {
            let len = match repo.read(*ty, id).map_err(RepoError::from) {
                // Others have it whole, and here it need not be any more.
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
