//! Checks a bucket: whether every pack has what its table says, and whether all that the refs lead to
//! is there.
//!
//! Metadata is always read, decoded and hashed. Of packs with chunks alone, either the tables are read,
//! or all frames, or some of them that chance picks.

use super::catalog::{Catalog, SHORT, check_root};
use super::may_be_absent::MayBeAbsent;
use super::range_reader::{NotRead, Stop};
use super::{BucketSource, refs_of};
use crate::files::FileFailure;
use crate::format::{Name, Row};
use crate::frames::{Cut, Cuts, Tables};
use crate::ranges::{Range, Terms, plan};
use dmv_core::hash::ObjectId;
use dmv_core::job::{Bound, Job};
use dmv_core::object::ObjectType;
use dmv_core::object::commit::Commit;
use dmv_core::object::conflict::Conflict;
use dmv_core::object::list::ListNode;
use dmv_core::object::tree::{Kind, Node};
use dmv_core::repo::{Expiry, Purge};
use dmv_core::store::{CheckedRecord, PACK_HEADER_BYTES, RepositoryId, SegmentTail, random_bytes};
use dmv_net::session::NetError;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// The most bytes of one read.
const READ_BYTES: u64 = 16 << 20;
/// The most problems that are described. All are counted.
const MAX_TOLD: usize = 100;

/// The most missing objects that are noted. All are counted.
const MAX_MISSING: usize = 10_000;

/// How much of the content is read.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum BucketDepth {
    /// None: the tables of the packs say what is there.
    Quick,
    /// About this share of the frames, from 0 to 1, and at least one frame.
    Sample(f64),
    /// All of it.
    Full,
}

/// What is wrong with a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BucketProblem {
    /// The file, below the bucket's prefix.
    pub file: String,
    /// What is wrong.
    pub why: String,
}

/// What a check of a bucket has found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BucketReport {
    /// The number of packs.
    pub packs: u64,
    /// The number of objects that were decoded and hashed.
    pub objects: u64,
    /// The bytes that were read, or would be.
    pub bytes: u64,
    /// The number of reads, or how many there would be.
    pub reads: u64,
    /// The number of files with problems.
    pub problems: u64,
    /// The first of them.
    pub told: Vec<BucketProblem>,
    /// The number of objects that refs lead to and that are in no pack, or only damaged.
    pub missing: u64,
    /// Which.
    pub missing_ids: MissingIds,
    /// The number of purged chunks that files need which were not purged.
    pub contested: u64,
    /// How many contents of the newest and older commits were purged, by reason.
    pub purged: Vec<(Purge, u64)>,
    /// How many have expired, by the rule and the time.
    pub expired: Vec<(Expiry, u64)>,
    /// How many purged chunks files of the bucket may still have.
    pub unpurged: u64,
}

/// Some of the objects that a bucket lacks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MissingIds(HashSet<Key>);

impl MissingIds {
    /// Returns whether an object is one of them. Another object with half of the id seems to be.
    pub fn has(&self, ty: ObjectType, id: &ObjectId) -> bool {
        self.0.contains(&key(ty, id))
    }

    fn note(&mut self, key: Key) {
        if self.0.len() < MAX_MISSING {
            self.0.insert(key);
        }
    }
}

impl BucketReport {
    /// Returns whether nothing is wrong.
    pub fn is_ok(&self) -> bool {
        self.problems == 0 && self.missing == 0
    }
}

/// Checks a bucket. With `only_plan`, reads no packs and returns how much would be read.
pub fn verify_bucket(
    source: BucketSource,
    depth: BucketDepth,
    only_plan: bool,
    job: &Job,
) -> Result<BucketReport, NetError> {
    check_root(&source.place, &*source.files)?;
    let mut catalog = source.open()?;
    let data = catalog.data()?;
    let log = catalog.root.log_pages.clone();
    catalog.pages(&log)?;
    let (mut forward, mut tails) = (Vec::new(), Vec::new());
    for row in &catalog.meta {
        forward.push((*row, PACK_HEADER_BYTES));
    }
    for row in &data {
        match depth {
            BucketDepth::Full => forward.push((*row, PACK_HEADER_BYTES)),
            _ => tails.push(*row),
        }
    }
    let mut check = Check::new(catalog.meta.len() + data.len(), job);
    let tables: Vec<Range> = tails
        .iter()
        .map(|row| range(row, row.tail, row.len))
        .collect();
    if only_plan {
        check.foretell(&forward, &tables, &tails, depth);
        return Ok(check.report);
    }
    let bytes: u64 = forward.iter().map(|(row, from)| row.len - from).sum();
    job.progress.foresee(bytes, Bound::AtMost);
    let picked = check.read_tables(&mut catalog, &tails, &tables, depth)?;
    check.read_forward(&mut catalog, &forward)?;
    check.read_picked(&mut catalog, picked)?;
    let absent = MayBeAbsent {
        purges: catalog.purges()?,
        expired: catalog.expired()?,
    };
    check.report.unpurged = catalog.root.purges.unpurged;
    if catalog.root.slice.is_empty() {
        let tips = refs_of(&catalog)?.into_iter().map(|(_, id)| id);
        check.find_missing(tips.collect(), &absent);
    }
    check.report.problems = check.bad.len() as u64;
    let repository = catalog.repository();
    let told = check.bad.iter().take(MAX_TOLD);
    let told = told.map(|(name, why)| BucketProblem {
        file: name.path(repository),
        why: (*why).to_owned(),
    });
    check.report.told = told.collect();
    Ok(check.report)
}

/// What packs have that no root lists.
#[derive(Clone, Debug, Default)]
pub struct RowsReport {
    /// Packs that are damaged or missing, and why.
    pub bad: BTreeMap<Name, &'static str>,
    /// For each of the sets of commits, the number of objects that the other packs lack.
    pub missing: Vec<u64>,
    /// For each of them, the number of purged chunks that files need which were not purged.
    pub contested: Vec<u64>,
    /// The files that have expired and are complete in the packs: they need not count as expired.
    pub complete: BTreeSet<ObjectId>,
}

/// Checks the packs of `rows` as [`verify_bucket`] does without reading content, and whether they have all that
/// sets of commits lead to. What damaged packs have does not count.
pub fn verify_rows(
    source: &BucketSource,
    repository: RepositoryId,
    rows: &[Row],
    tips: &[Vec<ObjectId>],
    absent: &MayBeAbsent,
    job: &Job,
) -> Result<RowsReport, NetError> {
    let mut report = RowsReport::default();
    let mut rows = rows.to_vec();
    loop {
        let mut catalog = Catalog::of_rows(&source.place, source.files.clone(), repository, &rows);
        let data = catalog.data()?;
        let forward: Vec<(Row, u64)> = catalog
            .meta
            .iter()
            .map(|r| (*r, PACK_HEADER_BYTES))
            .collect();
        let tables: Vec<Range> = data.iter().map(|r| range(r, r.tail, r.len)).collect();
        let mut check = Check::new(rows.len(), job);
        check.read_tables(&mut catalog, &data, &tables, BucketDepth::Quick)?;
        check.read_forward(&mut catalog, &forward)?;
        if check.bad.is_empty() {
            check.chunks.sort_unstable();
            let expired = absent.expired.values().flatten().copied();
            report.complete = expired.filter(|id| check.has_file(id)).collect();
            let mut absent = absent.clone();
            absent.take_back(&report.complete);
            for tips in tips {
                (check.report.missing, check.report.contested) = (0, 0);
                check.find_missing(tips.clone(), &absent);
                report.missing.push(check.report.missing);
                report.contested.push(check.report.contested);
            }
            return Ok(report);
        }
        // Each time there are fewer.
        rows.retain(|row| !check.bad.contains_key(&row.name));
        report.bad.append(&mut check.bad);
    }
}

fn range(row: &Row, from: u64, to: u64) -> Range {
    Range {
        file: row.name,
        offset: from,
        len: to - from,
    }
}

/// Half of an id, which stands for it: 63 bits, and whether it is a chunk's.
type Key = u64;

fn key(ty: ObjectType, id: &ObjectId) -> Key {
    let mut first = [0; 8];
    first.copy_from_slice(&id.as_bytes()[..8]);
    u64::from_le_bytes(first) & !1 | u64::from(ty == ObjectType::Chunk)
}

struct Check<'j> {
    report: BucketReport,
    bad: BTreeMap<Name, &'static str>,
    /// Where the children of each node are in `children`.
    edges: HashMap<Key, (usize, usize)>,
    children: Vec<Key>,
    /// The chunks that are there.
    chunks: Vec<Key>,
    job: &'j Job,
}

impl<'j> Check<'j> {
    fn new(packs: usize, job: &'j Job) -> Check<'j> {
        Check {
            report: BucketReport {
                packs: packs as u64,
                ..BucketReport::default()
            },
            bad: BTreeMap::new(),
            edges: HashMap::new(),
            children: Vec::new(),
            chunks: Vec::new(),
            job,
        }
    }
}

impl Check<'_> {
    fn foretell(
        &mut self,
        forward: &[(Row, u64)],
        tables: &[Range],
        tails: &[Row],
        depth: BucketDepth,
    ) {
        let (mut bytes, mut reads) = (0, 0);
        for (row, from) in forward {
            bytes += row.len - from;
            reads += (row.len - from).div_ceil(READ_BYTES);
        }
        bytes += tables.iter().map(|range| range.len).sum::<u64>();
        reads += tables.len() as u64;
        if let BucketDepth::Sample(share) = depth {
            let all: u64 = tails.iter().map(|row| row.tail).sum();
            let some = (all as f64 * share) as u64;
            bytes += some;
            // A frame has about 1 MiB.
            reads += some.div_ceil(1 << 20);
        }
        (self.report.bytes, self.report.reads) = (bytes, reads);
    }

    fn blame(&mut self, file: Name, why: &'static str) {
        self.bad.entry(file).or_insert(why);
    }

    /// Counts what was read. Returns `None` and notes it if a file is missing or too short.
    fn came<'b>(
        &mut self,
        read: &Range,
        bytes: Result<&'b mut Vec<u8>, FileFailure>,
    ) -> Result<Option<&'b [u8]>, Stop> {
        self.job.check().map_err(NetError::from)?;
        self.report.reads += 1;
        match bytes {
            Ok(bytes) => {
                self.report.bytes += bytes.len() as u64;
                Job::add(&self.job.progress.bytes, bytes.len() as u64);
                Ok(Some(bytes))
            }
            Err(FileFailure::Missing) => {
                self.blame(read.file, "it is missing");
                Ok(None)
            }
            Err(FileFailure::Length) => {
                self.blame(read.file, SHORT);
                Ok(None)
            }
            Err(why) => Err(Stop::Read(NotRead { range: *read, why })),
        }
    }

    /// Reads the tables of packs. Returns the frames that chance picks.
    fn read_tables(
        &mut self,
        catalog: &mut Catalog,
        rows: &[Row],
        tables: &[Range],
        depth: BucketDepth,
    ) -> Result<Vec<(Range, Vec<ObjectId>)>, NetError> {
        let by_name: HashMap<Name, &Row> = rows.iter().map(|row| (row.name, row)).collect();
        let share = match depth {
            BucketDepth::Sample(share) => share.clamp(0.0, 1.0),
            _ => 0.0,
        };
        let seed = random_bytes()[..8]
            .iter()
            .fold(0, |seed, byte| seed << 8 | u64::from(*byte));
        let mut picked = Vec::new();
        // The frame that chance comes nearest to, if it picks none.
        let mut nearest: Option<(u64, Range, Vec<ObjectId>)> = None;
        let repository = catalog.repository();
        let done = catalog.hands.read(repository, tables, &mut |read, bytes| {
            let Some(bytes) = self.came(read, bytes)? else {
                return Ok(());
            };
            let mut table = Tables::default();
            if let Err(why) = table.add(by_name[&read.file], bytes) {
                self.blame(read.file, why);
                return Ok(());
            }
            let mut frames: BTreeMap<Range, Vec<ObjectId>> = BTreeMap::new();
            for (id, frame) in table.all(ObjectType::Chunk) {
                self.chunks.push(key(ObjectType::Chunk, &id));
                let rank = rank(seed, &frame);
                if (rank as f64) < share * u64::MAX as f64 {
                    frames.entry(frame).or_default().push(id);
                    continue;
                }
                match &mut nearest {
                    Some((_, known, ids)) if *known == frame => ids.push(id),
                    Some((least, ..)) if *least <= rank => {}
                    _ => nearest = Some((rank, frame, vec![id])),
                }
            }
            picked.extend(frames);
            Ok(())
        });
        catalog.explain(done)?;
        if let (true, true, Some((_, frame, ids))) = (share > 0.0, picked.is_empty(), nearest) {
            picked.push((frame, ids));
        }
        Ok(picked)
    }

    /// Reads frames, and compares them with what their tables say.
    fn read_picked(
        &mut self,
        catalog: &mut Catalog,
        picked: Vec<(Range, Vec<ObjectId>)>,
    ) -> Result<(), NetError> {
        let frames: Vec<Range> = picked.iter().map(|(frame, _)| *frame).collect();
        let mut wanted: HashMap<Range, Vec<ObjectId>> = picked.into_iter().collect();
        let reads = plan(frames.clone(), Terms::default());
        let mut cut = Cut::new(frames);
        let repository = catalog.repository();
        let done = catalog.hands.read(repository, &reads, &mut |read, bytes| {
            let Some(bytes) = self.came(read, bytes)? else {
                return Ok(());
            };
            cut.take(read, bytes, &mut |frame, bytes| -> Result<(), Stop> {
                let ids = wanted.remove(frame).unwrap_or_default();
                match whole(bytes) {
                    Err(why) => self.blame(frame.file, why),
                    Ok(record) => {
                        self.report.objects += record.objects().len() as u64;
                        let found: HashSet<ObjectId> =
                            record.objects().iter().map(|object| object.id).collect();
                        if !ids.iter().all(|id| found.contains(id)) {
                            self.blame(frame.file, OTHER);
                        }
                    }
                }
                Ok(())
            })
        });
        catalog.explain(done)
    }

    /// Reads packs from their first frame to their end.
    fn read_forward(
        &mut self,
        catalog: &mut Catalog,
        packs: &[(Row, u64)],
    ) -> Result<(), NetError> {
        let terms = Terms {
            gap: 0,
            most: READ_BYTES,
        };
        let reads: Vec<Range> = packs
            .iter()
            .flat_map(|(row, from)| plan(vec![range(row, *from, row.len)], terms))
            .collect();
        let rows: HashMap<Name, Row> = packs.iter().map(|(row, _)| (row.name, *row)).collect();
        let mut open: Option<Forward> = None;
        let repository = catalog.repository();
        let done = catalog.hands.read(repository, &reads, &mut |read, bytes| {
            let bytes = self.came(read, bytes)?;
            let pack = match &mut open {
                Some(pack) if pack.row.name == read.file => pack,
                other => other.insert(Forward::new(rows[&read.file])),
            };
            match bytes {
                Some(bytes) => pack.take(read.offset, bytes, self),
                None => pack.is_over = true,
            }
            if read.offset + read.len == pack.row.len && !pack.is_over {
                pack.end(self);
            }
            Ok(())
        });
        catalog.explain(done)
    }

    /// Notes an object: what it names, or that it is there.
    fn note(&mut self, ty: ObjectType, id: &ObjectId, bytes: &[u8]) {
        let own = key(ty, id);
        if ty == ObjectType::Chunk {
            self.chunks.push(own);
        } else if !self.edges.contains_key(&own) {
            let from = self.children.len();
            self.children.extend(below(ty, bytes));
            self.edges.insert(own, (from, self.children.len()));
        }
    }

    /// Returns whether the packs have all of a file. The chunks have to be sorted.
    fn has_file(&self, root: &ObjectId) -> bool {
        let has = |chunk: &Key| self.chunks.binary_search(chunk).is_ok();
        let mut stack = vec![key(ObjectType::List, root)];
        if !self.edges.contains_key(&stack[0]) {
            return has(&key(ObjectType::Chunk, root));
        }
        while let Some(next) = stack.pop() {
            match self.edges.get(&next) {
                Some((from, to)) => stack.extend(&self.children[*from..*to]),
                None if has(&next) => {}
                None => return false,
            }
        }
        true
    }

    /// Counts what some commits lead to and no pack has.
    fn find_missing(&mut self, tips: Vec<ObjectId>, absent: &MayBeAbsent) {
        let (mut given_up, mut pieces) = (HashSet::new(), HashSet::new());
        let mut singles = HashSet::new();
        let purged = absent.purges.values().flat_map(|buried| &buried.files);
        for id in purged.chain(absent.expired.values().flatten()) {
            given_up.insert(key(ObjectType::List, id));
            singles.insert(key(ObjectType::Chunk, id));
        }
        for buried in absent.purges.values() {
            let chunks = buried.pieces.iter();
            pieces.extend(chunks.map(|id| key(ObjectType::Chunk, id)));
        }
        let mut met = HashSet::new();
        self.chunks.sort_unstable();
        let tips = tips.iter().map(|id| key(ObjectType::Commit, id));
        let mut stack: Vec<Key> = tips.collect();
        let mut seen: HashSet<Key> = HashSet::new();
        while let Some(next) = stack.pop() {
            if next & 1 == 1 {
                let is_here = self.chunks.binary_search(&next).is_ok();
                let is_single = singles.contains(&next);
                if pieces.contains(&next) && !is_single && seen.insert(next) {
                    self.report.contested += 1;
                }
                if !is_here && (is_single || pieces.contains(&next)) {
                    met.insert(next);
                } else if !is_here && seen.insert(next) {
                    self.report.missing += 1;
                    self.report.missing_ids.note(next);
                }
                continue;
            }
            // What is below a file that was purged or has expired may be absent.
            if given_up.contains(&next) {
                met.insert(next);
                continue;
            }
            if !seen.insert(next) {
                continue;
            }
            match self.edges.get(&next) {
                Some((from, to)) => stack.extend(&self.children[*from..*to]),
                None => {
                    self.report.missing += 1;
                    self.report.missing_ids.note(next);
                }
            }
        }
        let count = |ids: &BTreeSet<ObjectId>| {
            let keys = ids
                .iter()
                .flat_map(|id| [ObjectType::List, ObjectType::Chunk].map(|ty| key(ty, id)));
            keys.filter(|key| met.contains(key)).count() as u64
        };
        let purged = absent.purges.iter();
        let purged = purged.map(|(why, buried)| (why.clone(), count(&buried.files)));
        self.report.purged = purged.filter(|(_, files)| *files > 0).collect();
        let expired = absent.expired.iter();
        let expired = expired.map(|(why, files)| (why.clone(), count(files)));
        self.report.expired = expired.filter(|(_, files)| *files > 0).collect();
    }
}

/// What is said of a pack whose table is about other objects.
const OTHER: &str = "a frame does not have what the table says";

/// What is said of a pack with chunks that are not those of their index.
const CHUNKS: &str = "its chunks are damaged";
/// The fewest bytes that tell how long a record is.
const HEAD_BYTES: usize = 32;
/// The length of a segment's trailer.
const TRAILER_BYTES: usize = 32;
/// The most bytes of a joint pack that are kept after its last intact frame.
const MAX_INDEX_BYTES: usize = 64 << 20;

/// Returns a number for a frame that chance makes: those with the lowest ones are picked.
fn rank(seed: u64, frame: &Range) -> u64 {
    let mut mixed = seed ^ frame.offset;
    for byte in frame.file.0 {
        mixed = (mixed ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    }
    mixed ^= mixed >> 29;
    mixed = mixed.wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed ^ (mixed >> 32)
}

/// Decodes and hashes the record at the beginning of some bytes.
fn whole(bytes: &[u8]) -> Result<CheckedRecord, &'static str> {
    let len = CheckedRecord::len_of(bytes)? as usize;
    CheckedRecord::new(bytes.get(..len).ok_or("a frame ends too soon")?.to_vec())
}

/// Returns what an object names. It decodes: it was checked.
fn below(ty: ObjectType, bytes: &[u8]) -> Vec<Key> {
    let entry = |kind: Kind, is_list: bool, id: &ObjectId| {
        let ty = match kind {
            Kind::Directory => ObjectType::Tree,
            Kind::Conflict => ObjectType::Conflict,
            _ if is_list => ObjectType::List,
            _ => ObjectType::Chunk,
        };
        key(ty, id)
    };
    match ty {
        ObjectType::Commit => Commit::decode(bytes).map_or_else(
            |_| Vec::new(),
            |commit| {
                let parents = commit.parents.iter();
                let parents = parents.map(|id| key(ObjectType::Commit, id));
                parents
                    .chain([key(ObjectType::Tree, &commit.tree)])
                    .collect()
            },
        ),
        ObjectType::Tree => match Node::decode(bytes) {
            Ok(Node::Leaf(entries)) => {
                let keys = entries.iter().map(|e| entry(e.kind, e.is_list, &e.id));
                keys.collect()
            }
            Ok(Node::Inner { children, .. }) => {
                let keys = children
                    .iter()
                    .map(|child| key(ObjectType::Tree, &child.id));
                keys.collect()
            }
            Err(_) => Vec::new(),
        },
        ObjectType::List => ListNode::decode(bytes).map_or_else(
            |_| Vec::new(),
            |node| {
                let ty = match node.level {
                    0 => ObjectType::Chunk,
                    _ => ObjectType::List,
                };
                node.entries.iter().map(|e| key(ty, &e.id)).collect()
            },
        ),
        ObjectType::Conflict => Conflict::decode(bytes).map_or_else(
            |_| Vec::new(),
            |conflict| {
                let terms = conflict.bases.iter().chain(&conflict.sides).flatten();
                terms
                    .map(|term| entry(term.kind, term.is_list, &term.id))
                    .collect()
            },
        ),
        ObjectType::Chunk => Vec::new(),
    }
}

/// A pack that is read from its first frame to its end.
struct Forward {
    row: Row,
    /// The chunks before the metadata.
    chunks: Chunks,
    frames: Cuts,
    tail: Vec<u8>,
    /// The objects that were found in frames of the last segment.
    found: HashSet<ObjectId>,
    is_over: bool,
}

impl Forward {
    fn new(row: Row) -> Forward {
        Forward {
            row,
            chunks: Chunks::default(),
            frames: Cuts::default(),
            tail: Vec::new(),
            found: HashSet::new(),
            is_over: false,
        }
    }

    fn take(&mut self, offset: u64, bytes: &[u8], check: &mut Check<'_>) {
        if self.is_over {
            return;
        }
        let row = self.row;
        let end = offset + bytes.len() as u64;
        let within = |at: u64| (at.clamp(offset, end) - offset) as usize;
        // In a pack with chunks alone, the last segment is the only one.
        let from = if row.kind.has_metadata() {
            row.metadata
        } else {
            PACK_HEADER_BYTES
        };
        let before = &bytes[within(PACK_HEADER_BYTES)..within(from)];
        self.chunks.take(before, check);
        let frames = &bytes[within(from)..within(row.tail)];
        if let Err(why) = take_records(&mut self.frames, frames, check, &mut self.found) {
            check.blame(row.name, why);
            self.is_over = true;
        }
        self.tail.extend_from_slice(&bytes[within(row.tail)..]);
    }

    /// Compares what was found with the tables.
    fn end(&mut self, check: &mut Check<'_>) {
        if self.row.metadata > PACK_HEADER_BYTES
            && self.row.kind.has_metadata()
            && !self.chunks.end(check)
        {
            check.blame(self.row.name, CHUNKS);
        }
        match SegmentTail::decode(&self.tail, self.row.tail) {
            Err(why) => check.blame(self.row.name, why),
            Ok(tail) => {
                let is_here = |id: &ObjectId| self.found.contains(id);
                if !self.frames.is_whole() || !tail.entries.iter().all(|e| is_here(&e.id)) {
                    check.blame(self.row.name, OTHER);
                }
            }
        }
    }
}

/// The segment of chunks of a joint pack: frames, and then their index. The row does not say where the
/// index begins.
#[derive(Default)]
struct Chunks {
    /// What was not taken yet: the beginning of a record, or the index.
    open: Vec<u8>,
    /// The length of the frames that were taken.
    len: u64,
    is_over: bool,
    found: HashSet<ObjectId>,
}

impl Chunks {
    /// Takes the next bytes of the segment.
    fn take(&mut self, bytes: &[u8], check: &mut Check<'_>) {
        self.open.extend_from_slice(bytes);
        let mut at = 0;
        while !self.is_over && self.open.len() - at >= HEAD_BYTES {
            match CheckedRecord::len_of(&self.open[at..]) {
                // The index, or damage. Its end tells.
                Err(_) => self.is_over = true,
                Ok(len) => match self.open.get(at..at + len as usize) {
                    Some(record) => {
                        self.found.extend(note_record(record, check));
                        at += len as usize;
                    }
                    None => break,
                },
            }
        }
        self.open.drain(..at);
        self.len += at as u64;
        if self.is_over && self.open.len() > MAX_INDEX_BYTES {
            // No index is so long: the rest of the frames cannot be found.
            self.open.clear();
        }
    }

    /// Returns whether all that the index lists was found. If the frames ended too soon, takes those
    /// first that the index names.
    fn end(&mut self, check: &mut Check<'_>) -> bool {
        let begin = PACK_HEADER_BYTES + self.len;
        if let Ok(tail) = SegmentTail::decode(&self.open, begin) {
            return tail.entries.iter().all(|e| self.found.contains(&e.id));
        }
        let trailer = self.open.len().checked_sub(TRAILER_BYTES);
        let at = trailer.and_then(|at| self.open.get(at + 8..at + 16));
        let at = at.and_then(|bytes| Some(u64::from_le_bytes(bytes.try_into().ok()?)));
        let index = at.and_then(|at| {
            let skip = usize::try_from(at.checked_sub(begin)?).ok()?;
            SegmentTail::decode(self.open.get(skip..)?, at).ok()
        });
        let offsets = index.iter().flat_map(|tail| &tail.entries);
        let offsets: BTreeSet<u64> = offsets.map(|entry| entry.place.offset).collect();
        for offset in offsets.range(begin..) {
            let record = self.open.get((offset - begin) as usize..);
            let record = record.filter(|rest| rest.len() >= HEAD_BYTES);
            let len = record.and_then(|rest| CheckedRecord::len_of(rest).ok());
            if let (Some(rest), Some(len)) = (record, len)
                && let Some(record) = rest.get(..len as usize)
            {
                self.found.extend(note_record(record, check));
            }
        }
        false
    }
}

/// Notes the objects of a record. Returns them; none if it is damaged.
fn note_record(record: &[u8], check: &mut Check<'_>) -> Vec<ObjectId> {
    let Ok(record) = CheckedRecord::new(record.to_vec()) else {
        return Vec::new();
    };
    for (n, object) in record.objects().iter().enumerate() {
        check.report.objects += 1;
        Job::add(&check.job.progress.objects, 1);
        let bytes = record.bytes_of(n).unwrap_or_default();
        check.note(object.ty, &object.id, bytes);
    }
    record.objects().iter().map(|object| object.id).collect()
}

/// Takes the records that are complete with the next bytes.
fn take_records(
    cuts: &mut Cuts,
    bytes: &[u8],
    check: &mut Check<'_>,
    found: &mut HashSet<ObjectId>,
) -> Result<(), &'static str> {
    let taken = cuts.take(bytes, &mut |_, record| {
        let record = CheckedRecord::new(record.to_vec())?;
        for (n, object) in record.objects().iter().enumerate() {
            check.report.objects += 1;
            Job::add(&check.job.progress.objects, 1);
            check.note(
                object.ty,
                &object.id,
                record.bytes_of(n).unwrap_or_default(),
            );
            found.insert(object.id);
        }
        Ok(())
    });
    match taken {
        Ok(ended) => ended,
        Err(why) => Err(why),
    }
}
