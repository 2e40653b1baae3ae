//! gc at a bucket: docs/format/bucket.md, "gc".
//!
//! [`free`] drives the state machine of [`machines`](crate::machines) over [`Files`]. It marks with the
//! metadata of this device: all commits of the view and of the kept part of the log must be here,
//! with their trees and lists. If anything cannot be read, nothing is freed.
//!
//! A purge is gc that also says what was purged, and makes packs anew that have any of it.

use super::attempt_note::AttemptNote;
use super::cache::Cache;
use super::client::BucketClient;
use super::drive::Drive;
use super::parallel::parallel;
use super::push::{PushError, frames_of, ids_of};
use super::undo::newest;
use crate::files::{FileFailure, Files};
use crate::format::{Expirations, Name, Purges, Root, Row, RowKind, View};
use crate::machines::{Collect, CollectEnd, Limits, Mark, MarkResult, Stamp, Step, Tag};
use crate::work::access::BucketAccess;
use dmv_core::hash::ObjectId;
use dmv_core::object::ObjectType;
use dmv_core::reach::{Detail, Filter, Reach};
use dmv_core::repo::Purge;
use dmv_core::store::{SegmentTail, random_bytes};
use dmv_net::trouble::Trouble;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// Tables that are read at the same time.
const AT_ONCE: usize = 8;
/// Bytes before the metadata of a joint pack that have the table of a usual push of chunks.
const NEAR_BYTES: u64 = 64 << 10;
/// Length of a segment's trailer.
const TRAILER_BYTES: u64 = 32;
/// Absent objects that are reported.
const MAX_LACKING: usize = 64;

/// In so many seconds after a purge, gc does not spare young files: they may be uploads of purged content
/// that had begun before.
const AFTER_PURGE: i64 = 7 * 86_400;

/// What gc is to do.
#[derive(Clone, Debug)]
pub struct FreeOptions {
    /// Who does it.
    pub stamp: Stamp,
    /// Operations before this time, in seconds since 1970, may leave the log.
    pub forget_before: Option<i64>,
    /// Files that no root names stay if they were written after this time.
    pub young_from: i64,
    /// Which packs to join, too.
    pub joins: Joins,
    /// Files to purge, each named by its root, and why; with none, what earlier purges had to leave.
    /// `None`: gc only.
    pub purge: Option<BTreeMap<ObjectId, Purge>>,
    /// Whether to report only.
    pub dry_run: bool,
    /// How much of the log stays in any case.
    pub limits: Limits,
}

/// Which packs gc joins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Joins {
    /// None, except those with purged chunks.
    #[default]
    None,
    /// Those of which less than the half is needed.
    Wasted,
    /// Small ones, and large ones of which little is needed.
    Small,
}

/// Says at a root which files expire.
pub trait Expirer {
    /// Returns which files expire besides those that may be `absent`; `None` if nothing is to be done at all. A
    /// file that a tip of `view` has must not expire.
    fn choose(
        &mut self,
        view: &View,
        absent: &BTreeSet<ObjectId>,
    ) -> Result<Option<Expirations>, PushError>;

    /// Called right before it is published. Fails if a copy on which the choice relies is not kept any more.
    fn confirm(&mut self) -> Result<(), PushError>;
}

/// gc without an expiry.
struct NothingExpires;

impl Expirer for NothingExpires {
    fn choose(
        &mut self,
        _: &View,
        _: &BTreeSet<ObjectId>,
    ) -> Result<Option<Expirations>, PushError> {
        Ok(Some(Expirations::new()))
    }

    fn confirm(&mut self) -> Result<(), PushError> {
        Ok(())
    }
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
    /// What was purged.
    pub buried: Tally,
    /// Whether all of the files are deleted. The next gc finds the others.
    pub all_deleted: bool,
    /// Objects that were fetched first, because others had pushed them.
    pub fetched: u64,
}

/// Frees what nothing in a bucket leads to. `known` is the root as this device has seen it last.
pub fn free(
    with: &BucketAccess<'_>,
    known: Option<(Root, Tag)>,
    options: &FreeOptions,
) -> Result<FreeReport, PushError> {
    Ok(run(with, known, options, &mut NothingExpires)?.0)
}

/// Notes at a bucket which files have expired, and frees what nothing else leads to.
pub fn expire(
    with: &BucketAccess<'_>,
    known: Option<(Root, Tag)>,
    options: &FreeOptions,
    expirer: &mut dyn Expirer,
) -> Result<FreeReport, PushError> {
    Ok(run(with, known, options, expirer)?.0)
}

/// Frees what nothing leads to. Returns also how often something had been purged at the root that it has published;
/// `None` if it has published none.
fn run(
    with: &BucketAccess<'_>,
    mut known: Option<(Root, Tag)>,
    options: &FreeOptions,
    expirer: &mut dyn Expirer,
) -> Result<(FreeReport, Option<u64>), PushError> {
    let mut client = with.client();
    if let Some((root, _)) = &known {
        client.know(root.repository);
    }
    let mut forget = 0;
    if let Some(before) = options.forget_before {
        let (root, tag) = newest(&mut client, known.take())?;
        forget = forgettable(&mut client, &root, before)?;
        known = Some((root, tag));
    }
    let mut machine = Collect::new(options.stamp.clone(), forget, known, options.limits);
    let first = Step::Ask(machine.start());
    let drive = Drive {
        operation: options.stamp.id,
        // Run again, gc does what is left.
        note: &mut AttemptNote::none(),
    };
    let mut report = FreeReport::default();
    let mut made: Option<NewPacks> = None;
    let ended = drive.run(
        &mut client,
        &mut machine,
        first,
        &mut |client, machine, mark| {
            let mut marking = MarkRun {
                with,
                client,
                mark: &mark,
                options,
            };
            let Some(given_up) = marking.given_up(expirer)? else {
                return Ok(machine.marked(None, &mut random_bytes));
            };
            if given_up.is_refused {
                return Ok(Step::Done(CollectEnd::Nothing));
            }
            let marked = marking.run(given_up, &mut made)?;
            if let Some((found, _)) = &marked {
                report = *found;
            }
            if !options.dry_run {
                expirer.confirm()?;
            }
            Ok(match marked {
                Some(_) if options.dry_run => Step::Done(CollectEnd::Nothing),
                marked => machine.marked(marked.map(|(_, marked)| marked), &mut random_bytes),
            })
        },
    )?;
    match ended {
        CollectEnd::Nothing => {
            report.all_deleted = !options.dry_run;
            Ok((report, None))
        }
        CollectEnd::Freed { all_deleted, .. } => {
            report.all_deleted = all_deleted;
            if let Some(made) = made {
                made.keep_hints(with);
            }
            Ok((report, machine.purged()))
        }
    }
}

/// Returns the first operation that is not older than a time.
fn forgettable(client: &mut BucketClient<'_>, root: &Root, before: i64) -> Result<u64, PushError> {
    let log = client.log(root, 0).ok_or_else(|| client.failure())?;
    let young = log
        .iter()
        .find(|entry| entry.operation.time.seconds >= before);
    Ok(young.map_or(root.last.0 + 1, |entry| entry.operation.seq))
}

/// The branches and tags of a root, and what may be absent.
struct GivenUp {
    view: View,
    /// What was purged.
    purges: Purges,
    /// The files that were purged or have expired.
    absent: BTreeSet<ObjectId>,
    /// What expires now.
    expiring: Expirations,
    /// Whether nothing is to be done.
    is_refused: bool,
}

/// Finding out what may be freed at a root.
struct MarkRun<'m, 'c> {
    with: &'m BucketAccess<'m>,
    client: &'m mut BucketClient<'c>,
    mark: &'m Mark,
    options: &'m FreeOptions,
}

impl MarkRun<'_, '_> {
    /// Returns what may be absent, and what expires now. `None`: a file is missing that the root names.
    fn given_up(&mut self, expirer: &mut dyn Expirer) -> Result<Option<GivenUp>, PushError> {
        let (root, cache) = (&self.mark.root, Cache::at(self.with.dir));
        let purges = self.client.purges(root, &cache);
        let Some((purges, expired)) = purges.zip(self.client.expired(root, &cache)) else {
            return Ok(self.client.lost_or_failed().map(|()| None)?);
        };
        let view = self.client.view(root);
        let view = view.ok_or_else(|| self.client.failure())?;
        let mut absent = ids_of(&expired);
        absent.extend(purged_files(&purges));
        let expiring = expirer.choose(&view, &absent)?;
        Ok(Some(GivenUp {
            purges,
            absent,
            is_refused: expiring.is_none(),
            expiring: expiring.unwrap_or_default(),
            view,
        }))
    }

    /// Finds out what may be freed. `None`: a file is missing that the root names.
    fn run(
        &mut self,
        given_up: GivenUp,
        made: &mut Option<NewPacks>,
    ) -> Result<Option<(FreeReport, MarkResult)>, PushError> {
        let MarkRun {
            with,
            mark,
            options,
            ..
        } = *self;
        let (root, there) = (&mark.root, &given_up.purges);
        let tips = kept_tips(self.client, mark, &given_up.view)?;
        let wish = options.purge.as_ref();
        let mut absent = given_up.absent;
        absent.extend(wish.into_iter().flat_map(|wish| wish.keys()));
        absent.extend(given_up.expiring.values().flatten());
        let mut needed = needed(with, tips, absent)?;
        let plan = plan(with, there, wish, &needed)?;
        needed.pieces = plan.pieces;
        let uses = match uses(with, root, &mark.rows, &needed, options.joins)? {
            Ok(uses) => uses,
            Err(pack) => {
                self.client.note_loss(&pack.path(root.repository));
                return Ok(None);
            }
        };
        let unused = uses.iter().filter(|(_, used)| used.bytes == 0);
        let mut dead: BTreeSet<Name> = unused.map(|(name, _)| *name).collect();
        let mut report = report_of(&mark.rows, &dead);
        if made
            .as_ref()
            .is_some_and(|made| !made.counts(mark, &needed))
        {
            // It is a stray file now, and may have what was purged meanwhile.
            *made = None;
        }
        let strays = strays(self.client, mark, there, options, made.as_ref())?;
        report.strays = strays.len() as u64;
        report.bytes += strays.iter().map(|(_, len)| len).sum::<u64>();
        let listed: BTreeSet<Name> = strays.into_iter().map(|(name, _)| name).collect();
        let mut joined = Vec::new();
        if let Some(sources) = to_join(&mark.rows, &uses, options) {
            if options.dry_run {
                report.joined = foresee(&sources, &uses, options.joins);
            } else if made.is_none() {
                let stamp = &options.stamp;
                *made = join(with, self.client, mark, &sources, &dead, &needed, stamp)?;
            }
            if let Some(made) = made {
                report.joined = made.report;
                joined.extend_from_slice(&made.rows);
                dead.extend(made.sources.iter());
            }
        }
        let still = |(name, used): (&Name, &Use)| if dead.contains(name) { 0 } else { used.pieces };
        report.buried = plan.tally;
        report.buried.left = uses.iter().map(still).sum();
        let in_all: u64 = uses.values().map(|used| used.pieces).sum();
        let marked = MarkResult {
            // Until the files are deleted, they have it.
            unpurged: wish.map(|_| in_all + listed.len() as u64),
            purges: plan.new,
            expired: given_up.expiring,
            dead,
            listed,
            joined,
        };
        Ok(Some((report, marked)))
    }
}

/// Returns the commits that branches, tags and undo need.
fn kept_tips(
    client: &mut BucketClient<'_>,
    mark: &Mark,
    view: &View,
) -> Result<Vec<ObjectId>, PushError> {
    let log = client.log(&mark.root, mark.kept_from);
    let log = log.ok_or_else(|| client.failure())?;
    let id = |value: &Vec<u8>| Some(ObjectId::from_bytes(value.as_slice().try_into().ok()?));
    let mut tips: Vec<ObjectId> = view.values().filter_map(id).collect();
    let operations = log.iter().map(|entry| &entry.operation);
    let kept = operations.filter(|operation| operation.seq >= mark.kept_from);
    for change in kept.flat_map(|operation| &operation.changes) {
        tips.extend(change.old.iter().chain(&change.new).filter_map(id));
    }
    Ok(tips)
}

/// Returns the report for packs of which those in `dead` go.
fn report_of(rows: &[Row], dead: &BTreeSet<Name>) -> FreeReport {
    let mut report = FreeReport {
        packs: dead.len() as u64,
        kept: (rows.len() - dead.len()) as u64,
        ..FreeReport::default()
    };
    for row in rows {
        if dead.contains(&row.name) {
            report.bytes += row.len;
        } else {
            report.kept_bytes += row.len;
        }
    }
    report
}

/// Returns the files that nothing names, with their bytes. Young ones may belong to a push that is
/// under way, so they stay, unless a purge has to reach all files.
fn strays(
    client: &mut BucketClient<'_>,
    mark: &Mark,
    there: &Purges,
    options: &FreeOptions,
    made: Option<&NewPacks>,
) -> Result<Vec<(Name, u64)>, PushError> {
    let root = &mark.root;
    let newest_purge = there.keys().map(|why| why.at).max();
    let now = options.stamp.time.seconds;
    let is_after_purge = newest_purge.is_some_and(|at| now < at.saturating_add(AFTER_PURGE));
    let spares = options.purge.is_none() && !is_after_purge;
    let named: BTreeSet<Name> = mark.rows.iter().map(|row| row.name).collect();
    let pages: BTreeSet<Name> = root.pages().map(|page| page.name).collect();
    // An operation has let these go already, and could not delete them.
    let burnt = root.log.iter().flat_map(|entry| &entry.left);
    let burnt: BTreeSet<&Name> = burnt.collect();
    let mut strays = Vec::new();
    let folder = root.repository.to_string();
    for file in client.repeat(|files| files.list_all(&folder))? {
        let name = file.name.rsplit('/').next().and_then(Name::from_hex);
        let is_young = file.written >= options.young_from;
        let is_spared = |name: &Name| spares && is_young && !burnt.contains(name);
        let Some(name) = name.filter(|name| !is_spared(name)) else {
            continue;
        };
        let is_made = made.is_some_and(|made| made.has(&name));
        if !named.contains(&name) && !pages.contains(&name) && !is_made {
            strays.push((name, file.len));
        }
    }
    Ok(strays)
}

/// Returns the packs to join, if any are to be joined: those that hold what was purged, otherwise
/// small ones and those of which little is needed.
fn to_join(rows: &[Row], uses: &BTreeMap<Name, Use>, options: &FreeOptions) -> Option<Vec<Row>> {
    let held = held(rows, uses);
    if !held.is_empty() {
        return Some(held);
    }
    match options.joins {
        Joins::None => None,
        Joins::Wasted => Some(wasted(rows, uses)),
        Joins::Small => Some(sources(rows, uses)),
    }
}

/// The first bytes of ids, sorted. Another object with the same ones only keeps a pack.
pub(super) struct NeededIds {
    starts: Vec<u64>,
    /// Chunks that must not be stored.
    pub pieces: BTreeSet<ObjectId>,
}

impl NeededIds {
    /// Returns whether an object is needed.
    pub fn has(&self, id: &ObjectId) -> bool {
        self.has_start(start_of(id)) && !self.pieces.contains(id)
    }

    /// Returns whether an object whose id begins so is needed.
    pub fn has_start(&self, start: u64) -> bool {
        self.starts.binary_search(&start).is_ok()
    }
}

/// What of a pack is needed, and what was purged.
#[derive(Clone, Copy, Debug, Default)]
struct Use {
    /// The bytes of the frames of its last segment in which something is needed; at least 1 if anything in
    /// the pack is.
    bytes: u64,
    /// The bytes of such frames in the first segment of a joint pack, if that was asked for.
    chunk_bytes: u64,
    /// The bytes of all frames that were looked at.
    frame_bytes: u64,
    /// The purged chunks.
    pieces: u64,
}

impl Use {
    /// Returns the bytes of all frames in which something is needed.
    fn all_bytes(&self) -> u64 {
        self.bytes + self.chunk_bytes
    }
}

/// Returns the first bytes of an id.
pub(super) fn start_of(id: &ObjectId) -> u64 {
    u64::from_le_bytes(id.as_bytes()[..8].try_into().expect("eight bytes"))
}

/// Walks over everything that commits lead to, without purged files.
fn needed(
    with: &BucketAccess<'_>,
    mut tips: Vec<ObjectId>,
    purged: BTreeSet<ObjectId>,
) -> Result<NeededIds, PushError> {
    tips.sort_unstable();
    tips.dedup();
    let filter = Filter {
        dropped: purged,
        ..Filter::default()
    };
    let mut reach = Reach::filtered(tips, [], Detail::All, filter).skipping_chunks();
    let (mut needed, mut lacking) = (Vec::new(), Vec::new());
    while let Some(found) = reach.next(with.store)? {
        with.job.check()?;
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
    Ok(NeededIds {
        starts: needed,
        pieces: BTreeSet::new(),
    })
}

/// Returns for each pack what of it is needed, or a pack that is missing.
fn uses(
    with: &BucketAccess<'_>,
    root: &Root,
    rows: &[Row],
    needed: &NeededIds,
    joins: Joins,
) -> Result<Result<BTreeMap<Name, Use>, Name>, PushError> {
    let each = |row: &Row| {
        if with.job.is_cancelled() {
            return Err(None);
        }
        let used = used(with.files, root, row, needed, joins == Joins::Wasted);
        let used = used.map_err(|e| Some((row.name, e)))?;
        Ok((row.name, used))
    };
    match parallel(AT_ONCE, rows, each) {
        Ok(uses) => Ok(Ok(uses.into_iter().collect())),
        Err(None) => Err(PushError::Cancelled),
        Err(Some((pack, FileFailure::Missing))) => Ok(Err(pack)),
        Err(Some((_, e))) => Err(e.into()),
    }
}

/// Returns what of a pack is needed; of a joint pack `exactly`, although that may take another read.
fn used(
    files: &dyn Files,
    root: &Root,
    row: &Row,
    needed: &NeededIds,
    exactly: bool,
) -> Result<Use, FileFailure> {
    let path = row.name.path(root.repository);
    let of_index = |index: &[u8], at: u64| {
        let tail = SegmentTail::decode(index, at).map_err(|why| damaged(row, why))?;
        let mut frames: BTreeMap<u64, (u64, bool)> = BTreeMap::new();
        let mut used = Use::default();
        for (id, at) in frames_of(&tail, at) {
            let (_, is_needed) = frames
                .entry(at.offset)
                .or_insert((u64::from(at.len), false));
            *is_needed |= needed.has(&id);
            used.pieces += u64::from(needed.pieces.contains(&id));
        }
        for (len, is_needed) in frames.into_values() {
            used.frame_bytes += len;
            used.bytes += if is_needed { len } else { 0 };
        }
        Ok::<Use, FileFailure>(used)
    };
    let last = of_index(&files.read_range(&path, row.tail..row.len)?, row.tail)?;
    let is_known = last.bytes > 0 && needed.pieces.is_empty() && !exactly;
    if is_known || row.kind != RowKind::Joint {
        return Ok(last);
    }
    let (near, found) = before(files, &path, row, NEAR_BYTES)?;
    let at = index_at(&found).filter(|at| *at < row.metadata);
    let at = at.ok_or_else(|| damaged(row, "no trailer"))?;
    let chunks = match at.checked_sub(near.start) {
        Some(skip) => of_index(&found[skip as usize..], at)?,
        None => of_index(&files.read_range(&path, at..row.metadata)?, at)?,
    };
    Ok(Use {
        bytes: last.bytes.max(u64::from(chunks.bytes > 0)),
        chunk_bytes: chunks.bytes,
        frame_bytes: last.frame_bytes + chunks.frame_bytes,
        pieces: last.pieces + chunks.pieces,
    })
}

/// Returns where the index of a segment is that ends with these bytes.
pub(in crate::work) fn index_at(bytes: &[u8]) -> Option<u64> {
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
mod purge;

pub use join::JoinReport;
use join::{NewPacks, foresee, held, join, sources, wasted};
pub use purge::{Tally, purge};
use purge::{plan, purged_files};

#[cfg(test)]
mod expiry_tests;
#[cfg(test)]
mod tests;
