//! gc at a bucket: docs/format/bucket.md, "gc".
//!
//! [`free`] drives the state machine of [`core`](crate::bucket::core) over [`Files`]. It marks with the
//! metadata of this device: all commits of the view and of the kept part of the log must be here,
//! with their trees and lists. If anything cannot be read, nothing is freed.

use super::ask::{Desk, stays};
use super::log::newest;
use super::write::{PushError, frames_of, wait};
use crate::bucket::core::{
    Collect, CollectEnd, Fault, Limits, Mark, MarkResult, Request, Stamp, Step, Tag,
};
use crate::bucket::files::{FileFailure, Files};
use crate::bucket::format::{Name, Root, Row, RowKind};
use crate::bucket::trouble::Trouble;
use dmv_core::hash::ObjectId;
use dmv_core::job::Job;
use dmv_core::object::ObjectType;
use dmv_core::reach::{Detail, Reach};
use dmv_core::store::{SegmentTail, Store, random_bytes};
use dmv_core::threads;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::Path;
use std::sync::Mutex;

/// Tables that are read at the same time.
const AT_ONCE: usize = 8;
/// Bytes before the metadata of a joint pack that have the table of a usual push of chunks.
const NEAR_BYTES: u64 = 64 << 10;
/// Length of a segment's trailer.
const TRAILER_BYTES: u64 = 32;
/// Absent objects that are reported.
const MAX_LACKING: usize = 64;

/// What gc works with.
pub struct Collector<'a> {
    /// The bucket.
    pub files: &'a dyn Files,
    /// The objects of this device.
    pub store: &'a Store,
    /// Progress, and whether the user has cancelled.
    pub job: &'a Job,
    /// A directory of this device for notes about the bucket.
    pub dir: Option<&'a Path>,
}

/// What gc is to do.
#[derive(Clone, Debug)]
pub struct FreeOptions {
    /// Who does it.
    pub stamp: Stamp,
    /// Operations before this time, in seconds since 1970, may leave the log.
    pub forget_before: Option<i64>,
    /// Files that no root names stay if they were written after this time.
    pub young_from: i64,
    /// Whether to join packs, too: small ones, and those of which little is needed.
    pub joins: bool,
    /// Whether to report only.
    pub dry_run: bool,
    /// How much of the log stays in any case.
    pub limits: Limits,
}

/// What gc did, or would do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FreeReport {
    /// Packs that nothing needs.
    pub packs: u64,
    /// Files that no root names, such as those of killed pushes.
    pub strays: u64,
    /// The bytes of both.
    pub bytes: u64,
    /// The packs in which something is needed.
    pub kept: u64,
    /// Their bytes.
    pub kept_bytes: u64,
    /// What was joined.
    pub joined: JoinReport,
    /// Whether all of the files are deleted. The next gc finds the others.
    pub all_deleted: bool,
}

/// Frees what nothing in a bucket leads to. `known` is the root as this device has seen it last.
pub fn free(
    with: &Collector<'_>,
    mut known: Option<(Root, Tag)>,
    options: &FreeOptions,
) -> Result<FreeReport, PushError> {
    let waits = |time| wait(with.job, time);
    let mut desk = Desk::new(with.files, &waits);
    if let Some((root, _)) = &known {
        desk.know(root.repository);
    }
    let mut forget = 0;
    if let Some(before) = options.forget_before {
        let (root, tag) = newest(&mut desk, known.take())?;
        forget = forgettable(&mut desk, &root, before)?;
        known = Some((root, tag));
    }
    let mut machine = Collect::new(options.stamp.clone(), forget, known, options.limits);
    let fresh = &mut random_bytes;
    let mut step = Step::Ask(machine.start());
    let mut report = FreeReport::default();
    let mut made: Option<NewPacks> = None;
    let mut may_land = false;
    loop {
        step = match step {
            Step::Ask(request) => {
                let replaces = matches!(request, Request::PutRoot { .. });
                if replaces && desk.is_denied() {
                    return Err(desk.failure().into());
                }
                if with.job.is_cancelled() {
                    return Err(PushError::Cancelled);
                }
                let answer = desk.answer(&request);
                let unclear = desk.trouble().is_some_and(|trouble| !stays(trouble));
                may_land |= replaces && unclear;
                machine.answer(answer, fresh)
            }
            Step::Work(mark) => {
                let marked = marked(with, &mut desk, &mark, options, &mut made)?;
                if let Some((found, _)) = &marked {
                    report = *found;
                }
                match marked {
                    Some(_) if options.dry_run => return Ok(report),
                    marked => machine.marked(marked.map(|(_, marked)| marked), fresh),
                }
            }
            Step::Done(CollectEnd::Nothing) => {
                report.all_deleted = true;
                return Ok(report);
            }
            Step::Done(CollectEnd::Freed { all_deleted, .. }) => {
                report.all_deleted = all_deleted;
                if let Some(made) = made {
                    made.keep_hints(with);
                }
                return Ok(report);
            }
            Step::Done(CollectEnd::Failed(fault)) => {
                return Err(match (fault, desk.trouble()) {
                    (Fault::Unreachable, Some(trouble)) => trouble.clone().into(),
                    (Fault::Unknown, Some(trouble)) if desk.is_denied() && !may_land => {
                        trouble.clone().into()
                    }
                    (fault, _) => PushError::Fault(fault),
                });
            }
        };
    }
}

/// Returns the first operation that is not older than a time.
fn forgettable(desk: &mut Desk<'_>, root: &Root, before: i64) -> Result<u64, PushError> {
    let log = desk.log(root, 0).ok_or_else(|| desk.failure())?;
    let young = log
        .iter()
        .find(|entry| entry.operation.time.seconds >= before);
    Ok(young.map_or(root.last.0 + 1, |entry| entry.operation.seq))
}

/// Finds out what may be freed. `None`: a file is missing that the root names.
fn marked(
    with: &Collector<'_>,
    desk: &mut Desk<'_>,
    mark: &Mark,
    options: &FreeOptions,
    made: &mut Option<NewPacks>,
) -> Result<Option<(FreeReport, MarkResult)>, PushError> {
    let root = &mark.root;
    let view = desk.view(root).ok_or_else(|| desk.failure())?;
    let log = desk
        .log(root, mark.kept_from)
        .ok_or_else(|| desk.failure())?;
    let id = |value: &Vec<u8>| Some(ObjectId::from_bytes(value.as_slice().try_into().ok()?));
    let mut tips: Vec<ObjectId> = view.values().filter_map(id).collect();
    let operations = log.iter().map(|entry| &entry.operation);
    let kept = operations.filter(|operation| operation.seq >= mark.kept_from);
    for change in kept.flat_map(|operation| &operation.changes) {
        tips.extend(change.old.iter().chain(&change.new).filter_map(id));
    }
    let needed = needed(with, tips)?;
    let Some(uses) = uses(with, root, &mark.rows, &needed)? else {
        return Ok(None);
    };
    let unused = uses.iter().filter(|(_, used)| **used == 0);
    let mut dead: BTreeSet<Name> = unused.map(|(name, _)| *name).collect();
    let mut report = FreeReport {
        packs: dead.len() as u64,
        kept: (mark.rows.len() - dead.len()) as u64,
        ..FreeReport::default()
    };
    for row in &mark.rows {
        match dead.contains(&row.name) {
            true => report.bytes += row.len,
            false => report.kept_bytes += row.len,
        }
    }
    let named: BTreeSet<Name> = mark.rows.iter().map(|row| row.name).collect();
    let pages: BTreeSet<Name> = root.pages().map(|page| page.name).collect();
    let mut listed = BTreeSet::new();
    let folder = root.repository.to_string();
    for file in desk.repeat(|files| files.list_all(&folder))? {
        let name = file.name.rsplit('/').next().and_then(Name::from_hex);
        let Some(name) = name.filter(|_| file.written < options.young_from) else {
            continue;
        };
        let is_made = made.as_ref().is_some_and(|made| made.has(&name));
        if !named.contains(&name) && !pages.contains(&name) && !is_made {
            report.strays += 1;
            report.bytes += file.len;
            listed.insert(name);
        }
    }
    let mut joined = Vec::new();
    if options.joins {
        let sources = sources(&mark.rows, &uses);
        if options.dry_run {
            report.joined = foresee(&sources, &uses);
        } else if !made.as_ref().is_some_and(|made| made.counts(mark, &needed)) {
            *made = join(with, desk, mark, (&sources, &dead), &needed, &options.stamp)?;
        }
        if let Some(made) = made {
            report.joined = made.report;
            joined.extend_from_slice(&made.rows);
            dead.extend(made.sources.iter());
        }
    }
    let marked = MarkResult {
        dead,
        listed,
        joined,
    };
    Ok(Some((report, marked)))
}

/// The first bytes of ids, sorted. Another object with the same ones only keeps a pack.
pub(super) struct NeededIds(Vec<u64>);

impl NeededIds {
    /// Returns whether an object is needed.
    pub fn has(&self, id: &ObjectId) -> bool {
        self.has_start(start_of(id))
    }

    /// Returns whether an object whose id begins so is needed.
    pub fn has_start(&self, start: u64) -> bool {
        self.0.binary_search(&start).is_ok()
    }
}

/// Returns the first bytes of an id.
pub(super) fn start_of(id: &ObjectId) -> u64 {
    u64::from_le_bytes(id.as_bytes()[..8].try_into().expect("eight bytes"))
}

/// Walks over everything that commits lead to.
fn needed(with: &Collector<'_>, mut tips: Vec<ObjectId>) -> Result<NeededIds, PushError> {
    tips.sort_unstable();
    tips.dedup();
    let mut reach = Reach::new(tips, [], Detail::All).skipping_chunks();
    let (mut needed, mut lacking) = (Vec::new(), Vec::new());
    while let Some(found) = reach.next(with.store)? {
        if with.job.is_cancelled() {
            return Err(PushError::Cancelled);
        }
        needed.push(start_of(&found.id));
        // Chunks need not be here.
        if !found.here && found.ty != ObjectType::Chunk {
            lacking.push((found.ty, found.id));
            if lacking.len() >= MAX_LACKING {
                break;
            }
        }
    }
    if !lacking.is_empty() {
        return Err(PushError::Lacking(lacking));
    }
    needed.sort_unstable();
    needed.dedup();
    Ok(NeededIds(needed))
}

/// Returns for each pack the bytes of the frames of its last segment in which something is needed, at
/// least 1 if anything in the pack is. `None`: one of the packs is missing.
fn uses(
    with: &Collector<'_>,
    root: &Root,
    rows: &[Row],
    needed: &NeededIds,
) -> Result<Option<BTreeMap<Name, u64>>, PushError> {
    let (next, uses) = (Mutex::new(rows.iter()), Mutex::new(BTreeMap::new()));
    let failed: Mutex<Option<FileFailure>> = Mutex::new(None);
    let work = || {
        loop {
            let row = next.lock().ok().and_then(|mut next| next.next());
            let Some(row) = row.filter(|_| !with.job.is_cancelled()) else {
                return;
            };
            match used(with.files, root, row, needed) {
                Ok(used) => drop(uses.lock().map(|mut uses| uses.insert(row.name, used))),
                Err(e) => drop(
                    failed
                        .lock()
                        .map(|mut failed| failed.get_or_insert(e).clone()),
                ),
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..AT_ONCE.min(rows.len()) {
            // Without further threads it takes longer.
            let _ = threads::start_in(scope, work);
        }
        work();
    });
    if with.job.is_cancelled() {
        return Err(PushError::Cancelled);
    }
    match failed.into_inner() {
        Ok(Some(FileFailure::Missing)) => Ok(None),
        Ok(Some(e)) => Err(e.into()),
        _ => Ok(uses.into_inner().ok()),
    }
}

/// Returns the bytes of the frames of a pack's last segment in which something is needed. If this is none,
/// returns 1 if anything in its other segment is.
fn used(files: &dyn Files, root: &Root, row: &Row, needed: &NeededIds) -> Result<u64, FileFailure> {
    let path = row.name.path(root.repository);
    let tail = files.read_range(&path, row.tail..row.len)?;
    let tail = SegmentTail::decode(&tail, row.tail).map_err(|why| damaged(row, why))?;
    let mut frames: BTreeMap<u64, u64> = BTreeMap::new();
    for (id, at) in frames_of(&tail, row.tail) {
        if needed.has(&id) {
            frames.insert(at.offset, u64::from(at.len));
        }
    }
    let used: u64 = frames.values().sum();
    if used > 0 || row.kind != RowKind::Joint {
        return Ok(used);
    }
    let has_needed = |bytes: &[u8], at: u64| match SegmentTail::decode(bytes, at) {
        Ok(tail) => Ok(u64::from(
            tail.entries.iter().any(|entry| needed.has(&entry.id)),
        )),
        Err(why) => Err(damaged(row, why)),
    };
    let (near, bytes) = before(files, &path, row, NEAR_BYTES)?;
    let at = index_at(&bytes).filter(|at| *at < row.metadata);
    let at = at.ok_or_else(|| damaged(row, "no trailer"))?;
    match at.checked_sub(near.start) {
        Some(skip) => has_needed(&bytes[skip as usize..], at),
        None => has_needed(&files.read_range(&path, at..row.metadata)?, at),
    }
}

/// Returns where the index of a segment is that ends with these bytes.
pub(super) fn index_at(bytes: &[u8]) -> Option<u64> {
    let trailer = bytes.len().checked_sub(TRAILER_BYTES as usize)?;
    let at = bytes.get(trailer + 8..trailer + 16)?;
    Some(u64::from_le_bytes(at.try_into().ok()?))
}

/// Reads the last bytes before the metadata of a joint pack.
fn before(
    files: &dyn Files,
    path: &str,
    row: &Row,
    most: u64,
) -> Result<(Range<u64>, Vec<u8>), FileFailure> {
    let range = row.metadata.saturating_sub(most)..row.metadata;
    Ok((range.clone(), files.read_range(path, range)?))
}

/// Returns the failure for a pack that is damaged.
pub(super) fn damaged(row: &Row, why: &str) -> FileFailure {
    FileFailure::Trouble(Trouble::Damaged(format!("pack {}: {why}", row.name)))
}

mod join;

pub use join::JoinReport;
use join::{NewPacks, foresee, join, sources};

#[cfg(test)]
mod tests;
