//! `repack`: joins packs, and the frames of many small commits.
//!
//! Everything that the old packs list is copied, needed or not: only gc decides what goes. A copy is as
//! old as what it copies, to the day, so repack makes no garbage older, and none much younger. Packs are
//! replaced in small sets. Each set is copied, the copies are published, and the old packs are taken out
//! of use in the way of gc. So repack may be interrupted at any moment: each pack is as before, or
//! replaced by copies of everything that it listed.
//!
//! Last, repack finds out which paths commits changed, so that `log -- PATH` need not.

mod ages;
mod choose;

use crate::job::{Bound, Job, Moment};
use crate::refs::{RefsError, Timestamp};
use crate::repo::base::error::RepoError;
use crate::repo::base::keeping::{self, RightToFree};
use crate::repo::base::leaving::{self, LockedPack, free_packs, lock_pack};
use crate::repo::base::repo::Repo;
use crate::repo::base::{level, publish};
use crate::repo::look::ages::ages;
use crate::repo::upkeep::changed;
use crate::repo::upkeep::repack::ages::{Group, groups};
use crate::repo::upkeep::repack::choose::{Candidate, Set, choose};
use crate::store::{PackId, PackRow, RepackRefusal, RepackResult, SegmentRow, StoreError};
use std::collections::{HashMap, HashSet};
use std::time::Instant;

/// How often repack tries to take packs out of use while others commit just then.
const TRIES: usize = 64;
/// Number of small segments from which repack pays. A commit leaves two of them. Measured with 600 files:
/// after 100 commits, repack saves a third of the packs' bytes, and `log -- PATH` takes 1.4 times as long
/// without it; after 270 commits these are a half and 1.7 times, after 2,000 two thirds and 4 times.
const PAYS_SEGMENTS: u64 = 500;
/// Number of packs that would be joined from which repack pays.
const PAYS_PACKS: usize = 16;
/// For one in this many operations, as a power of two, the program asks whether repack pays.
const ASK_SHIFT: u32 = 6;

/// What `Repo::repack` may do.
#[derive(Clone, Copy, Debug)]
pub struct RepackOptions {
    /// The present time.
    pub now: Timestamp,
    /// When to stop. What is joined until then stays joined.
    pub until: Option<Instant>,
    /// Whether only to count.
    pub dry_run: bool,
}

/// What repack did, or what it would do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RepackReport {
    /// The bytes of all packs before.
    pub before_bytes: u64,
    /// The bytes of all packs afterwards. A dry run tells the most that it may be.
    pub after_bytes: u64,
    /// The number of packs before.
    pub packs_before: u64,
    /// The number of packs afterwards.
    pub packs_after: u64,
    /// The bytes of the copies.
    pub copied_bytes: u64,
    /// The number of commits whose changed paths are known now and were not before.
    pub commits_compared: u64,
    /// Whether everything was done. If not, the time was over or other commands committed too quickly,
    /// and a later run continues.
    pub finished: bool,
    /// Why packs stayed as they were although they were worth it.
    pub why_not: Vec<String>,
    /// Whether packs stayed because of an error, such as damage. That another command writes to a pack
    /// is none.
    pub failed: bool,
}

impl Repo {
    /// Joins small packs, and the frames of many small commits.
    ///
    /// Other commands may run meanwhile. Fails with
    /// [`BusyError::Freeing`](crate::repo::BusyError::Freeing) if another command is freeing space.
    pub fn repack(&self, options: &RepackOptions, job: &Job) -> Result<RepackReport, RepoError> {
        if options.dry_run {
            return foretell(self);
        }
        self.check_own()?;
        if self.refs.is_read_only() {
            return Err(RefsError::ReadOnly(self.refs.path().to_owned()).into());
        }
        let right = keeping::free_alone(self)?;
        leaving::sweep_leftovers(self, &right)?;
        level::catch_up(&self.store, &self.refs, &self.refs.lock_database()?)?;
        let mut run = Run {
            repo: self,
            options,
            right,
            job,
            given_up: HashSet::new(),
            full: None,
            report: RepackReport {
                finished: true,
                ..RepackReport::default()
            },
        };
        (run.report.packs_before, run.report.before_bytes) = packs(self)?;
        while run.report.finished
            && let Some(set) = choose(&candidates(self, &run.given_up)?)
        {
            run.join(set)?;
        }
        let Run {
            mut report,
            full,
            right,
            ..
        } = run;
        if let Some(why) = full {
            return Err(why.into());
        }
        fold_indexes(self)?;
        if report.finished {
            let found = changed::find(self, &right, options.until, job)?;
            report.commits_compared = found.commits;
            report.finished = found.finished;
        }
        (report.packs_after, report.after_bytes) = packs(self)?;
        Ok(report)
    }
}

/// Returns how many packs there are, and their bytes.
fn packs(repo: &Repo) -> Result<(u64, u64), RepoError> {
    let packs = repo.refs.catalogue()?.packs;
    let bytes = packs.iter().map(|pack| pack.len).sum();
    Ok((packs.len() as u64, bytes))
}

/// Returns the packs that may be joined, with the number of their small segments.
fn candidates(repo: &Repo, given_up: &HashSet<PackId>) -> Result<Vec<Candidate>, RepoError> {
    let census = repo.refs.census()?;
    let packs = census.catalogue.packs.into_iter();
    // A copy of a shared pack would take space, and the pack would free none.
    let is_shared = |row: &PackRow| row.poisoned && repo.store.files().is_shared(row.id);
    let packs = packs.filter(|row| !given_up.contains(&row.id) && !is_shared(row));
    let mut out: Vec<Candidate> = packs.map(Candidate::new).collect();
    let numbers: HashMap<PackId, usize> = out
        .iter()
        .enumerate()
        .map(|(n, pack)| (pack.row.id, n))
        .collect();
    for (row, _) in &census.segments {
        if let Some(n) = numbers.get(&row.pack) {
            out[*n].add(row);
        }
    }
    Ok(out)
}

/// Counts what would be joined, as if nothing got smaller but for the indexes of small segments.
fn foretell(repo: &Repo) -> Result<RepackReport, RepoError> {
    let (packs_before, before_bytes) = packs(repo)?;
    let mut report = RepackReport {
        before_bytes,
        packs_before,
        finished: true,
        ..RepackReport::default()
    };
    let mut left = candidates(repo, &HashSet::new())?;
    let others = packs_before - left.len() as u64;
    let of_others = before_bytes - left.iter().map(|pack| pack.row.len).sum::<u64>();
    while let Some(set) = choose(&left) {
        let (go, stay): (Vec<_>, Vec<_>) = left
            .into_iter()
            .partition(|pack| set.packs.iter().any(|row| row.id == pack.row.id));
        left = stay;
        let joined = Candidate::joined(&go);
        report.copied_bytes += joined.row.len;
        left.push(joined);
    }
    report.packs_after = others + left.len() as u64;
    report.after_bytes = of_others + left.iter().map(|pack| pack.row.len).sum::<u64>();
    Ok(report)
}

impl Repo {
    /// Returns whether [`repack`](Self::repack) would pay, by what the catalogue counts.
    pub fn repack_pays(&self) -> Result<bool, RepoError> {
        let candidates = candidates(self, &HashSet::new())?;
        let loose = candidates.iter().filter(|pack| pack.is_loose());
        if loose.map(|pack| pack.small).sum::<u64>() >= PAYS_SEGMENTS {
            return Ok(true);
        }
        Ok(choose(&candidates).is_some_and(|set| set.packs.len() >= PAYS_PACKS))
    }

    /// Returns whether a program should say after a commit that [`repack`](Self::repack) would pay: once in a
    /// number of operations.
    pub fn repack_pays_now(&self) -> Result<bool, RepoError> {
        if is_turn(self.refs.last_operation()?) {
            self.repack_pays()
        } else {
            Ok(false)
        }
    }
}

/// Returns whether the program asks after the operation number `seq`. The numbers are spread evenly, also
/// over every second or third operation: a push may follow each commit.
fn is_turn(seq: u64) -> bool {
    const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
    seq.wrapping_mul(GOLDEN) >> (u64::BITS - ASK_SHIFT) == 0
}

struct Run<'r> {
    repo: &'r Repo,
    options: &'r RepackOptions,
    right: RightToFree,
    job: &'r Job,
    /// Packs that stay as they are in this run.
    given_up: HashSet<PackId>,
    /// Why there was no room for a copy. Smaller packs may have found room.
    full: Option<StoreError>,
    report: RepackReport,
}

impl Run<'_> {
    fn goes_on(&self) -> bool {
        let is_late = self
            .options
            .until
            .is_some_and(|until| Instant::now() >= until);
        !self.job.is_cancelled() && !is_late
    }

    /// Leaves packs as they are in this run because of an error, and says why.
    fn give_up(&mut self, packs: impl IntoIterator<Item = PackId>, why: String) {
        self.report.failed = true;
        self.leave(packs, why);
    }

    /// Leaves packs as they are in this run, and says why.
    fn leave(&mut self, packs: impl IntoIterator<Item = PackId>, why: String) {
        self.given_up.extend(packs);
        self.report.why_not.push(why);
    }

    /// Replaces the packs of a set.
    fn join(&mut self, set: Set) -> Result<(), RepoError> {
        let locked = self.lock(&set)?;
        if locked.is_empty() || locked.len() == 1 && !set.is_worth_alone {
            self.given_up.extend(set.packs.iter().map(|row| row.id));
            return Ok(());
        }
        // Their lengths are certain only now: whoever wrote to them has published.
        let ids: HashSet<PackId> = locked.iter().map(|(row, _)| row.id).collect();
        let census = self.repo.refs.census()?;
        let rows: HashMap<PackId, PackRow> = census
            .catalogue
            .packs
            .iter()
            .map(|row| (row.id, *row))
            .collect();
        let locked: Vec<LockedPack> = locked
            .into_iter()
            .filter_map(|(row, file)| Some((*rows.get(&row.id)?, file)))
            .collect();
        let mut segments = census.segments;
        segments.retain(|(row, _)| ids.contains(&row.pack));
        let stored_at = ages(self.repo, &segments, self.options.now.seconds);
        let rows = segments.into_iter().map(|(row, _)| row).collect();
        let groups = groups(rows, &stored_at, self.options.now.seconds);
        match self.copy(set, &groups) {
            Ok(copies) => self.replace(&locked, &groups, copies),
            Err(RepackRefusal::Stopped) if self.job.is_cancelled() => Err(RepoError::Cancelled),
            Err(RepackRefusal::Stopped) => {
                self.report.finished = false;
                Ok(())
            }
            Err(RepackRefusal::Stays(pack, why)) => {
                self.give_up([pack], why.to_string());
                Ok(())
            }
            Err(RepackRefusal::Failed(why)) if is_full(&why) => {
                self.given_up.extend(ids);
                self.full = Some(why);
                Ok(())
            }
            Err(RepackRefusal::Failed(why)) => {
                self.give_up(ids, why.to_string());
                Ok(())
            }
        }
    }

    /// Locks the packs of a set. Leaves out those that another process writes to.
    fn lock(&mut self, set: &Set) -> Result<Vec<LockedPack>, RepoError> {
        let mut locked = Vec::new();
        for row in &set.packs {
            match lock_pack(self.repo, *row) {
                Ok(Some(pack)) => locked.push(pack),
                Ok(None) => {
                    let path = self.repo.store.pack_path(row.id);
                    let why = format!("another command is writing to {}", path.display());
                    self.leave([row.id], why);
                }
                Err(e) => self.give_up([row.id], e.to_string()),
            }
        }
        Ok(locked)
    }

    /// Stores everything again that the packs of a set list, and checks that nothing lacks.
    fn copy(&mut self, set: Set, groups: &[Group]) -> Result<RepackResult, RepackRefusal> {
        let store = &self.repo.store;
        store.refresh().map_err(RepackRefusal::Failed)?;
        self.job.begin_part();
        let bytes = set.packs.iter().map(|row| row.len).sum();
        self.job.progress.foresee(bytes, Bound::AtMost);
        let of_groups: Vec<Vec<SegmentRow>> =
            groups.iter().map(|group| group.segments.clone()).collect();
        let mut moved = |bytes| {
            Job::add(&self.job.progress.bytes, bytes);
            self.goes_on()
        };
        let copies = store.repack(set.kind, &of_groups, &mut moved)?;
        match store.check_repacked(&of_groups.concat(), &copies.job) {
            Ok(()) => Ok(copies),
            Err(e) => {
                store.discard(copies.job);
                Err(e)
            }
        }
    }

    /// Publishes copies, and takes the packs out of use from which they come.
    fn replace(
        &mut self,
        packs: &[LockedPack],
        groups: &[Group],
        copies: RepackResult,
    ) -> Result<(), RepoError> {
        self.report.copied_bytes += copies.job.stored_bytes;
        let at: Vec<i64> = copies
            .groups
            .iter()
            .map(|number| groups[*number].at)
            .collect();
        publish::keep_moved(self.repo, copies.job, &at)?;
        self.job.reached(Moment::Copied);
        let ids = packs.iter().map(|(row, _)| row.id);
        for _ in 0..TRIES {
            self.job.check()?;
            // What the newest operation needs of these packs is in the copies, whatever it is.
            let seen = self.repo.refs.seen()?;
            self.job.reached(Moment::Condemning);
            let Some(gone) = free_packs(self.repo, &self.right, packs, seen)? else {
                continue;
            };
            self.job.reached(Moment::Unlinked);
            self.report.why_not.extend(gone.why_left);
            if let Some(why) = gone.why_not {
                self.give_up(ids, why);
            }
            return Ok(());
        }
        self.given_up.extend(ids);
        self.report.finished = false;
        Ok(())
    }
}

/// Returns whether there was no room for a file.
fn is_full(e: &StoreError) -> bool {
    use std::io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    let (StoreError::Io(failure)
    | StoreError::SyncFailed {
        source: failure, ..
    }) = e
    else {
        return false;
    };
    matches!(failure.kind(), StorageFull | QuotaExceeded | FileTooLarge)
}

/// Merges tables, also of merged indexes that name mostly packs that are gone.
fn fold_indexes(repo: &Repo) -> Result<(), RepoError> {
    repo.store.refresh()?;
    let mut worn = repo.store.current().worn_indexes();
    worn.retain(|index| {
        leaving::why_they_must_stay(repo, &[*index]).is_ok_and(|why| why.is_none())
    });
    if !worn.is_empty() {
        repo.refs.forget_indexes(&worn)?;
        repo.store.load(repo.refs.catalogue()?)?;
        repo.store.remove_indexes(&worn);
    }
    loop {
        let before = tables(repo)?;
        publish::merge_tables(repo);
        if tables(repo)? >= before {
            break;
        }
    }
    repo.store.load(repo.refs.catalogue()?)?;
    Ok(())
}

fn tables(repo: &Repo) -> Result<usize, RepoError> {
    let catalogue = repo.refs.catalogue()?;
    Ok(catalogue.segments.len() + catalogue.indexes.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_comes_between_commits_the_question_comes_soon_and_seldom() {
        for step in 1..=5 {
            for start in 0..500 {
                let turns = (0..250).filter(|n| is_turn(start + step * n)).count();
                assert!((1..=10).contains(&turns), "{start}, {step}: {turns}");
            }
        }
    }
}
