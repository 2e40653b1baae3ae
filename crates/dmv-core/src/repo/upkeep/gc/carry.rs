//! Freeing packs one after the other: copy what stays, take the pack out of use, remove its file.

use crate::job::{Job, Moment};
use crate::repo::base::error::RepoError;
use crate::repo::base::keeping::RightToFree;
use crate::repo::base::leaving::{LockedPack, free_packs, lock_pack};
use crate::repo::base::publish;
use crate::repo::base::repo::Repo;
use crate::repo::upkeep::gc::choose::{Candidate, Plan};
use crate::repo::upkeep::gc::mark::{self, MarkRun, goes_on};
use crate::repo::upkeep::gc::{GcOptions, GcReport};
use crate::repo::upkeep::room::is_no_room;
use crate::store::{FinishedJob, PACK_HEADER_BYTES, PackId, PackRow};
use crate::vfs::VfsFile;
use std::collections::{HashMap, HashSet};
use std::mem::take;
use std::sync::Arc;

/// How often gc follows the log before a pack, because others commit just then.
const TRIES: usize = 64;

/// One pass over the packs of a plan.
pub(super) struct Run<'r> {
    repo: &'r Repo,
    options: &'r GcOptions,
    right: &'r RightToFree,
    marking: MarkRun<'r>,
    /// Packs that are locked already.
    held: HashMap<PackId, Arc<dyn VfsFile>>,
    job: &'r Job,
    done: GcReport,
    /// Packs that were worth it and have grown, or that others began to need.
    grown: Vec<PackRow>,
    /// Packs that the disk had no room to copy.
    without_room: Vec<Candidate>,
    stopped: bool,
}

/// What a pass leaves to the next one.
pub(super) struct Carry {
    pub grown: Vec<PackRow>,
    pub stopped: bool,
}

/// Locks packs. Leaves out those that another process writes to, and says so.
pub(super) fn lock_all(
    repo: &Repo,
    packs: &[PackRow],
    report: &mut GcReport,
) -> Result<Vec<LockedPack>, RepoError> {
    let mut out = Vec::new();
    for row in packs {
        match lock_pack(repo, *row)? {
            Some(locked) => out.push(locked),
            None => report.why_not.push(busy(repo, row.id)),
        }
    }
    Ok(out)
}

fn busy(repo: &Repo, pack: PackId) -> String {
    let path = repo.store.pack_path(pack);
    format!("another command is writing to {}", path.display())
}

impl<'r> Run<'r> {
    pub fn new(
        repo: &'r Repo,
        (options, right): (&'r GcOptions, &'r RightToFree),
        marking: MarkRun<'r>,
        held: Vec<LockedPack>,
        job: &'r Job,
    ) -> Run<'r> {
        Run {
            repo,
            options,
            right,
            marking,
            held: held.into_iter().map(|(row, file)| (row.id, file)).collect(),
            job,
            done: GcReport::default(),
            grown: Vec::new(),
            without_room: Vec::new(),
            stopped: false,
        }
    }

    /// Ends the pass and adds what it did to the report.
    pub fn end(self, report: &mut GcReport) -> Carry {
        let done = self.done;
        report.freed_bytes =
            (report.freed_bytes + done.freed_bytes).saturating_sub(done.copied_bytes);
        report.freed_objects += done.freed_objects;
        report.packs_removed += done.packs_removed;
        report.packs_rewritten += done.packs_rewritten;
        report.copied_bytes += done.copied_bytes;
        report.why_not.extend(done.why_not);
        report.linked_bytes += done.linked_bytes;
        report.no_room_bytes += done.no_room_bytes;
        report.no_room = done.no_room.or(report.no_room.take());
        Carry {
            grown: self.grown,
            stopped: self.stopped,
        }
    }

    /// Frees the packs of a plan: first those that need no room.
    pub fn free(&mut self, plan: &Plan) -> Result<(), RepoError> {
        let mut empty = Vec::new();
        for pack in &plan.remove {
            if let Some(lock) = self.begin(pack)? {
                empty.push((*pack, lock));
            }
        }
        let freed = self.condemn(&empty)?;
        self.done.packs_removed += freed;
        drop(empty);
        let mut packs = plan.rewrite.clone();
        loop {
            let freed = self.done.freed_bytes;
            self.rewrite_all(&packs)?;
            // What was freed behind a pack may be room enough for its copy.
            packs = take(&mut self.without_room);
            if self.stopped || packs.is_empty() || self.done.freed_bytes == freed {
                break;
            }
            (self.done.no_room, self.done.no_room_bytes) = (None, 0);
        }
        Ok(())
    }

    fn rewrite_all(&mut self, packs: &[Candidate]) -> Result<(), RepoError> {
        for pack in packs {
            if !goes_on(self.options, self.job)? {
                self.stopped = true;
            }
            if self.stopped {
                return Ok(());
            }
            self.rewrite(pack)?;
        }
        Ok(())
    }

    /// Locks a pack; `None` if it must stay for now.
    fn begin(&mut self, pack: &Candidate) -> Result<Option<Arc<dyn VfsFile>>, RepoError> {
        let row = pack.usage.row;
        let lock = match self.held.remove(&row.id) {
            Some(lock) => Some(lock),
            None => lock_pack(self.repo, row)?.map(|(_, file)| file),
        };
        let Some(lock) = lock else {
            self.done.why_not.push(busy(self.repo, row.id));
            return Ok(None);
        };
        // Its length is certain only now: whoever wrote to it has published.
        match self.repo.refs.pack(row.id)? {
            Some(now) if now.len == row.len => Ok(Some(lock)),
            Some(_) => {
                self.grown.push(row);
                Ok(None)
            }
            None => Ok(None),
        }
    }

    /// Copies what stays of a pack, and frees the pack.
    fn rewrite(&mut self, pack: &Candidate) -> Result<(), RepoError> {
        let id = pack.usage.row.id;
        let Some(lock) = self.begin(pack)? else {
            return Ok(());
        };
        if !self.follow_log()? {
            return Ok(());
        }
        let stays = self.stays(id);
        let sealed = match self.copy(id) {
            Ok(Some(sealed)) => sealed,
            Ok(None) => {
                self.stopped = true;
                return Ok(());
            }
            Err(RepoError::Cancelled) => return Err(RepoError::Cancelled),
            Err(e) => {
                self.leave(pack, &e);
                return Ok(());
            }
        };
        let copied = sealed.stored_bytes;
        let new: HashSet<PackId> = sealed.segments.iter().map(|row| row.pack).collect();
        let at = self.age_of(id);
        match publish::keep_rewritten(self.repo, sealed, at) {
            Err(e) if is_no_room(&e) => {
                self.leave(pack, &e);
                return Ok(());
            }
            kept => kept?,
        }
        self.job.reached(Moment::Copied);
        self.done.copied_bytes += copied + new.len() as u64 * PACK_HEADER_BYTES;
        // An object that others began to need meanwhile was perhaps not copied.
        if !self.follow_log()? {
            return Ok(());
        }
        if self.stays(id) != stays {
            self.grown.push(pack.usage.row);
            return Ok(());
        }
        match self.condemn(&[(*pack, lock)]) {
            // The copy stays and counts from the next run on.
            Err(e) if is_no_room(&e) => self.leave(pack, &e),
            condemned => self.done.packs_rewritten += condemned?,
        }
        Ok(())
    }

    /// Notes why a pack stays: the disk is full, or something is damaged. Others are freed.
    fn leave(&mut self, pack: &Candidate, why: &RepoError) {
        if is_no_room(why) {
            self.done.no_room = Some(why.to_string());
            self.done.no_room_bytes += pack.garbage_bytes();
            self.without_room.push(*pack);
        } else {
            self.done.why_not.push(why.to_string());
        }
    }

    fn copy(&self, pack: PackId) -> Result<Option<FinishedJob>, RepoError> {
        let store = &self.repo.store;
        let mut moved = |bytes| {
            Job::add(&self.job.progress.bytes, bytes);
            goes_on(self.options, self.job).unwrap_or(false)
        };
        let sealed = store.carry(pack, &self.marking.marker, &mut moved);
        let Some(sealed) = sealed? else {
            return goes_on(self.options, self.job).map(|_| None);
        };
        if let Err(e) = store.check_carried(pack, &self.marking.marker, &sealed) {
            store.discard(sealed);
            return Err(e.into());
        }
        Ok(Some(sealed))
    }

    /// Returns how many objects of a pack must stay.
    fn stays(&self, pack: PackId) -> u64 {
        let usage = self.marking.marker.use_of(pack);
        usage.map_or(0, |usage| usage.stays)
    }

    /// Returns when the youngest segment of a pack was stored. A copy is as old as that.
    fn age_of(&self, pack: PackId) -> i64 {
        let segments = self.marking.stored_at.iter();
        let of_pack = segments.filter(|((of, _), _)| *of == pack);
        of_pack.map(|(_, at)| *at).max().unwrap_or(0)
    }

    /// Marks what others named meanwhile. Returns `false` if the pass must end.
    fn follow_log(&mut self) -> Result<bool, RepoError> {
        let (options, job) = (self.options, self.job);
        let goes_on = || goes_on(options, job).unwrap_or(false);
        let done = self.marking.follow_log(self.repo, &goes_on)?;
        if !done {
            self.stopped = true;
            // A job that the user has ended fails.
            mark::goes_on(options, job)?;
        }
        Ok(done)
    }

    /// Takes packs out of use in which nothing stays, or whose copies are published, and removes their
    /// files. Returns how many.
    fn condemn(&mut self, packs: &[(Candidate, Arc<dyn VfsFile>)]) -> Result<u64, RepoError> {
        let id = |pack: &Candidate| pack.usage.row.id;
        let stays = packs
            .iter()
            .map(|(pack, _)| (id(pack), self.stays(id(pack))));
        let before: HashMap<PackId, u64> = stays.collect();
        for _ in 0..TRIES {
            if !self.follow_log()? {
                return Ok(0);
            }
            // A pack that others need now stays for now.
            let (go, stay): (Vec<_>, Vec<_>) = packs
                .iter()
                .partition(|(pack, _)| self.stays(id(pack)) == before[&id(pack)]);
            let locked: Vec<LockedPack> = go
                .iter()
                .map(|(pack, file)| (pack.usage.row, file.clone()))
                .collect();
            self.job.reached(Moment::Condemning);
            let seen = self.marking.seen;
            if let Some(gone) = free_packs(self.repo, self.right, &locked, seen)? {
                self.job.reached(Moment::Unlinked);
                self.done.why_not.extend(gone.why_left);
                for (pack, _) in &go {
                    self.marking.marker.forget(id(pack));
                }
                self.done.freed_bytes += gone.bytes;
                let linked = go.iter().filter(|(pack, _)| pack.is_linked);
                self.done.linked_bytes += linked.map(|(pack, _)| pack.garbage_bytes()).sum::<u64>();
                self.done.freed_objects +=
                    go.iter().map(|(pack, _)| pack.usage.others).sum::<u64>();
                self.grown
                    .extend(stay.iter().map(|(pack, _)| pack.usage.row));
                return Ok(go.len() as u64);
            }
            if self.repo.refs.seen()? == seen && self.have_grown(&locked)? {
                break;
            }
        }
        self.grown
            .extend(packs.iter().map(|(pack, _)| pack.usage.row));
        Ok(0)
    }

    fn have_grown(&self, packs: &[LockedPack]) -> Result<bool, RepoError> {
        for (row, _) in packs {
            if self
                .repo
                .refs
                .pack(row.id)?
                .is_none_or(|now| now.len != row.len)
            {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
