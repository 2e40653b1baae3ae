//! Marking what must stay, and following the operations that others publish meanwhile.

use crate::hash::ObjectId;
use crate::job::{Job, Moment};
use crate::object::ObjectType;
use crate::refs::{Census, SeenOperation};
use crate::repo::base::error::{RepoError, UpkeepError};
use crate::repo::base::level;
use crate::repo::base::repo::Repo;
use crate::repo::base::slice::RepoSlice;
use crate::repo::look::ages::ages;
use crate::repo::upkeep::gc::{GcOptions, GcReport};
use crate::repo::upkeep::roots::{self, Root};
use crate::repo::upkeep::verify::history::Walk;
use crate::store::{Lack, MarkEnd, Marker, PackId, SegmentRow, StoreError};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::time::Instant;

/// Marks on everything that must stay.
pub(super) struct MarkRun<'r> {
    pub marker: Marker<'r>,
    /// The newest operation that the marks include.
    pub seen: SeenOperation,
    slice: RepoSlice,
    /// When each mapped segment was stored, in seconds since 1970.
    pub stored_at: HashMap<(PackId, u64), i64>,
}

/// Returns whether work goes on. Fails if the user has ended it.
pub(super) fn goes_on(options: &GcOptions, job: &Job) -> Result<bool, RepoError> {
    job.check()?;
    Ok(options.until.is_none_or(|until| Instant::now() < until))
}

/// Adds operations to the database that only the log has: they count, so what they name is needed.
pub(super) fn catch_up(repo: &Repo) -> Result<(), RepoError> {
    let lock = repo.refs.lock_database()?;
    level::catch_up(&repo.store, &repo.refs, &lock)?;
    Ok(())
}

/// Marks everything that the view and undo need. Returns `None` if the time is over, or if too much is
/// new.
pub(super) fn mark<'r>(
    repo: &'r Repo,
    options: &GcOptions,
    report: &mut GcReport,
    job: &Job,
) -> Result<Option<MarkRun<'r>>, RepoError> {
    let ends = || !goes_on(options, job).unwrap_or(false);
    let stopped = || goes_on(options, job).map(|_| None);
    let census = load_census(repo)?;
    let slice = repo.slice()?;
    if !slice.subset.is_everything() {
        check_slice(repo, job)?;
    }
    let stored_at = ages(repo, &census.segments, options.now.seconds);
    let oldest = options
        .now
        .seconds
        .saturating_sub_unsigned(options.grace.as_secs());
    let is_young = |row: &SegmentRow| {
        !options.grace.is_zero()
            && stored_at
                .get(&(row.pack, row.end))
                .is_none_or(|at| *at > oldest)
    };
    let rows: Vec<SegmentRow> = census.segments.iter().map(|(row, _)| *row).collect();
    let packs = repo.store.packs();
    let map = repo
        .store
        .files()
        .frame_map(&packs, &rows, &is_young, &|| !ends())?;
    let Some(map) = map else { return stopped() };
    report.why_not = map.unmapped().iter().map(|(_, why)| why.clone()).collect();
    job.reached(Moment::Mapped);
    let mut marking = MarkRun {
        marker: Marker::new(&repo.store, map)?,
        seen: census.seen,
        slice,
        stored_at,
    };
    let mut view = Vec::new();
    roots::of_view(repo, &mut |root| view.push(root))?;
    if !marking.add(repo, view, &|| !ends())? {
        return stopped();
    }
    let of_view: u64 = marking
        .marker
        .uses()
        .iter()
        .map(|pack| pack.marked_bytes)
        .sum();
    let mut rest: BTreeSet<Root> = roots::of_courtesy(repo)?;
    roots::of_window(repo, &mut |root| {
        rest.insert(root);
    })?;
    let lacks = marking.add_leniently(repo, rest, &|| !ends())?;
    let Some(lacks) = lacks else { return stopped() };
    report.undo_lacks = lacks;
    let uses = marking.marker.uses();
    let of_all: u64 = uses.iter().map(|pack| pack.marked_bytes).sum();
    report.undo_bytes = of_all.saturating_sub(of_view);
    report.young_bytes = uses.iter().map(|pack| pack.young_bytes).sum();
    Ok(Some(marking))
}

/// Reads which operations and tables count, and loads these tables.
fn load_census(repo: &Repo) -> Result<Census, RepoError> {
    let mut census = repo.refs.census()?;
    loop {
        let load = || {
            repo.store.load(census.catalogue.clone())?;
            repo.store.check_tables()
        };
        let Err(e) = load() else {
            return Ok(census);
        };
        // Another command may have merged the tables and removed their files meanwhile.
        let now = repo.refs.census()?;
        if now.catalogue.indexes == census.catalogue.indexes {
            return Err(e.into());
        }
        census = now;
    }
}

impl MarkRun<'_> {
    /// Marks what other commands have named meanwhile. Returns `false` if `goes_on` ended the work, or
    /// if it is too much.
    pub fn follow_log(
        &mut self,
        repo: &Repo,
        goes_on: &dyn Fn() -> bool,
    ) -> Result<bool, RepoError> {
        let seen = repo.refs.seen()?;
        if seen == self.seen {
            return Ok(true);
        }
        repo.store.refresh()?;
        let mut named = BTreeSet::new();
        // An `op expire` meanwhile takes operations out of reach whose values the view still has.
        roots::of_operations_after(repo, self.seen.seq, &mut |root| {
            named.insert(root);
        })?;
        let done = self.add(repo, named, goes_on)?;
        if done {
            self.seen = seen;
        }
        Ok(done)
    }

    /// Marks what must stay and be whole. Returns `false` if the work was ended.
    fn add(
        &mut self,
        repo: &Repo,
        roots: impl IntoIterator<Item = Root>,
        goes_on: &dyn Fn() -> bool,
    ) -> Result<bool, RepoError> {
        self.begin(repo, roots)?;
        let mut lost = None;
        let slice = &self.slice;
        let settled = self.marker.settle(goes_on, &mut |lack| {
            if may_lack(slice, &lack) {
                return Ok(());
            }
            lost = Some(lack);
            Err(StoreError::Cancelled)
        });
        match (lost, settled) {
            (Some(lack), _) => Err(nothing_freed(&lack)),
            (None, settled) => Ok(settled? == MarkEnd::All),
        }
    }

    /// Marks what should stay, as far as it is there. Returns how many objects are missing or damaged;
    /// `None` if the work was ended.
    fn add_leniently(
        &mut self,
        repo: &Repo,
        roots: impl IntoIterator<Item = Root>,
        goes_on: &dyn Fn() -> bool,
    ) -> Result<Option<u64>, RepoError> {
        self.begin(repo, roots)?;
        let mut lacks: HashSet<ObjectId> = HashSet::new();
        let slice = &self.slice;
        let settled = self.marker.settle(goes_on, &mut |lack| {
            if !may_lack(slice, &lack) {
                lacks.insert(lack.id);
            }
            Ok(())
        })?;
        Ok((settled == MarkEnd::All).then_some(lacks.len() as u64))
    }

    fn begin(
        &mut self,
        repo: &Repo,
        roots: impl IntoIterator<Item = Root>,
    ) -> Result<(), RepoError> {
        for root in roots {
            if let Some((ty, id)) = root.object(&repo.store)? {
                self.marker.root(ty, id);
            }
        }
        Ok(())
    }
}

/// Returns whether an object may be absent by choice. Whether a subset calls for it has been checked.
fn may_lack(slice: &RepoSlice, lack: &Lack) -> bool {
    match lack.ty {
        _ if lack.damage.is_some() => false,
        ObjectType::Commit => {
            let child = lack.child.as_ref();
            child.is_some_and(|child| slice.may_lack_parents(child))
        }
        ObjectType::List if slice.is_given_up(&lack.id) => true,
        _ => !slice.subset.is_everything(),
    }
}

/// Fails if something is lost that the slice of this repository calls for.
fn check_slice(repo: &Repo, job: &Job) -> Result<(), RepoError> {
    let mut walk = Walk::new(repo, HashSet::new(), false)?;
    walk.run(repo, job)?;
    let damage = walk.damaged.first_key_value().map(|found| (found, true));
    let missing = walk
        .missing
        .iter()
        .find(|(_, ty)| **ty != ObjectType::Chunk);
    match damage.or(missing.map(|found| (found, false))) {
        None => Ok(()),
        Some(((id, ty), is_damaged)) => Err(nothing_freed(&Lack {
            ty: *ty,
            id: *id,
            child: None,
            damage: is_damaged.then(String::new),
        })),
    }
}

fn nothing_freed(lack: &Lack) -> RepoError {
    RepoError::Upkeep(UpkeepError::NothingFreed {
        ty: lack.ty,
        id: lack.id,
        is_damaged: lack.damage.is_some(),
    })
}
