//! What is known of a bucket: its root, the rows of its packs, and the tables that were read.
//!
//! Tables are read when something is looked for that those already read do not have, the newest first.

use super::range_cache::RangeCache;
use super::range_reader::{NotRead, RangeReader, Stop};
use crate::files::{FileFailure, Files};
use crate::format::{
    Expirations, MAX_PAGE_BYTES, Name, Page, PageRef, Purges, ROOT, Reason, ReasonList, Root, Row,
    View, join_listed,
};
use crate::frames::Tables;
use crate::ranges::{Range, Terms, plan};
use crate::work::cache::Cache;
use crate::work::hints::GatheredHints;
use dmv_core::hash::ObjectId;
use dmv_core::object::ObjectType;
use dmv_core::object::codec::DecodeError;
use dmv_core::repo::{Expiry, Purge};
use dmv_core::store::RepositoryId;
use dmv_net::session::NetError;
use dmv_net::trouble::{RootLoss, Trouble};
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

/// A pack of at most this length is read as a whole: another request would cost more than its bytes.
pub const SMALL_BYTES: u64 = 1 << 20;
/// What is said of a pack that ends too soon.
pub const SHORT: &str = "it is shorter than the repository says";
/// How many tables are read first when something is looked for. Then come all others.
const FIRST_TABLES: usize = 16;
/// The bytes of tables of chunks that are read at once, or one table more.
const TABLE_BYTES_AT_ONCE: u64 = 16 << 20;
/// The most objects in tables of chunks that are kept in memory.
const MAX_CHUNKS: usize = 1 << 20;

/// What is known of a bucket.
pub struct Catalog {
    place: String,
    files: Arc<dyn Files>,
    /// Copies of what was read, on the disk.
    pub cache: Cache,
    /// Reads ranges.
    pub hands: RangeReader,
    /// The newest root that was read.
    pub root: Root,
    /// The branches and tags.
    pub view: View,
    /// The packs with metadata, the newest first.
    pub meta: Vec<Row>,
    /// All packs whose rows are known.
    pub rows_by_name: HashMap<Name, Row>,
    /// The packs with chunks alone, the newest first, once they are known.
    data: Option<Vec<Row>>,
    /// The tables of metadata that were read.
    pub nodes: Tables,
    /// The tables of chunks that were read.
    pub chunks: Tables,
    /// Bytes that were read and may be wanted again.
    pub held: RangeCache,
    /// Where the objects lie that were passed on, for the next push of this device.
    pub hints: GatheredHints,
    /// The first damage or loss that was met. It is told if something is lacking at the end.
    pub damage: Option<Trouble>,
    /// Packs that the root names and that do not exist.
    pub gone: BTreeSet<Name>,
    /// Says so if something was purged or has expired since the first root was read.
    pub given_up_since: Option<Trouble>,
}

impl Catalog {
    /// Reads the root and what it consists of. Returns `None` if there is no root.
    pub fn open(
        place: &str,
        files: Arc<dyn Files>,
        cache: Cache,
    ) -> Result<Option<Catalog>, NetError> {
        let Some(root) = read_root(place, &*files, &cache)? else {
            return Ok(None);
        };
        let mut catalog = Catalog::of_root(place, files, cache, root);
        catalog.spread()?;
        Ok(Some(catalog))
    }

    /// Returns some packs of a repository as if a root listed them. There are no copies, and no view.
    pub fn of_rows(
        place: &str,
        files: Arc<dyn Files>,
        repository: RepositoryId,
        rows: &[Row],
    ) -> Catalog {
        let root = Root::first(repository, [0; 16]);
        let mut catalog = Catalog::of_root(place, files, Cache::default(), root);
        let (meta, data) = rows.iter().partition(|row| row.kind.has_metadata());
        (catalog.meta, catalog.data) = (meta, Some(data));
        catalog.rows_by_name = rows.iter().map(|row| (row.name, *row)).collect();
        catalog
    }

    fn of_root(place: &str, files: Arc<dyn Files>, cache: Cache, root: Root) -> Catalog {
        Catalog {
            place: place.to_owned(),
            hands: RangeReader::new(files.clone()),
            hints: GatheredHints::new(cache.dir()),
            files,
            cache,
            view: View::new(),
            meta: Vec::new(),
            rows_by_name: HashMap::new(),
            data: None,
            nodes: Tables::default(),
            chunks: Tables::default(),
            held: RangeCache::default(),
            damage: None,
            gone: BTreeSet::new(),
            given_up_since: None,
            root,
        }
    }

    /// Returns the id of the repository.
    pub fn repository(&self) -> RepositoryId {
        self.root.repository
    }

    /// Reads the view and the rows of packs with metadata of the root.
    fn spread(&mut self) -> Result<(), NetError> {
        let page = self.root.view_page;
        let mut view = match self.pages(page.as_slice())?.pop() {
            Some(Page::View(view)) => view,
            Some(_) => return Err(self.damaged(page.map(|page| page.name), "another kind of page")),
            None => View::new(),
        };
        for (key, value) in &self.root.view {
            match value {
                Some(value) => view.insert(key.clone(), value.clone()),
                None => view.remove(key),
            };
        }
        self.view = view;
        let newest = self.root.rows.iter().filter(|row| row.kind.has_metadata());
        let newest = newest.copied().collect();
        self.meta = self.rows_of(&self.root.meta_pages.clone(), newest)?;
        let known = self.meta.iter().chain(&self.root.rows);
        self.rows_by_name = known.map(|row| (row.name, *row)).collect();
        self.data = None;
        Ok(())
    }

    /// Returns the packs with chunks alone, the newest first.
    pub fn data(&mut self) -> Result<Vec<Row>, NetError> {
        if let Some(data) = &self.data {
            return Ok(data.clone());
        }
        let newest = self.root.rows.iter().filter(|row| !row.kind.has_metadata());
        let newest = newest.copied().collect();
        let data = self.rows_of(&self.root.data_pages.clone(), newest)?;
        self.rows_by_name
            .extend(data.iter().map(|row| (row.name, *row)));
        self.data = Some(data.clone());
        Ok(data)
    }

    /// Returns the rows on pages and those of the root, the newest first, each pack once.
    fn rows_of(&mut self, pages: &[PageRef], mut all: Vec<Row>) -> Result<Vec<Row>, NetError> {
        for (page, found) in pages.iter().zip(self.pages(pages)?) {
            match found {
                Page::MetaRows(rows) | Page::DataRows(rows) => all.extend(rows),
                _ => return Err(self.damaged(Some(page.name), "another kind of page")),
            }
        }
        all.sort_unstable_by_key(|row| (std::cmp::Reverse(row.generation), row.name));
        let mut known = BTreeSet::new();
        all.retain(|row| known.insert(row.name));
        Ok(all)
    }

    /// Returns pages, from copies where there are any.
    pub fn pages(&mut self, pages: &[PageRef]) -> Result<Vec<Page>, NetError> {
        let mut found: Vec<Option<Page>> = Vec::new();
        let mut ranges = Vec::new();
        for page in pages {
            let copy = self.cache.file(&page.name.to_string());
            let copy = copy.filter(|bytes| bytes.len() == page.len as usize);
            let copy = copy.and_then(|bytes| Page::decode(&bytes).ok());
            if copy.is_none() {
                ranges.push(Range {
                    file: page.name,
                    offset: 0,
                    len: u64::from(page.len),
                });
            }
            found.push(copy);
        }
        let mut read = Vec::new();
        let (cache, place) = (self.cache.clone(), self.place.clone());
        let done = self
            .hands
            .read(self.root.repository, &ranges, &mut |range, bytes| {
                let bytes = bytes.map_err(|why| Stop::Read(NotRead { range: *range, why }))?;
                debug_assert!(bytes.len() <= MAX_PAGE_BYTES);
                let page = Page::decode(bytes)
                    .map_err(|e| undecodable(&place, &range.file.to_string(), &e))?;
                cache.keep_file(&range.file.to_string(), bytes);
                read.push(page);
                Ok(())
            });
        self.explain(done)?;
        let mut read = read.into_iter();
        Ok(found
            .into_iter()
            .filter_map(|copy| copy.or_else(|| read.next()))
            .collect())
    }

    /// Returns what was purged.
    pub fn purges(&mut self) -> Result<Purges, NetError> {
        self.listed::<Purge>(&self.root.purges.pages.clone())
    }

    /// Returns the files that have expired.
    pub fn expired(&mut self) -> Result<Expirations, NetError> {
        self.listed::<Expiry>(&self.root.expired.clone())
    }

    fn listed<R: Reason>(&mut self, pages: &[PageRef]) -> Result<ReasonList<R>, NetError> {
        let mut all = ReasonList::<R>::new();
        for (page, found) in pages.iter().zip(self.pages(pages)?) {
            let Some(found) = R::listed_on(&found) else {
                return Err(self.damaged(Some(page.name), "another kind of page"));
            };
            join_listed::<R>(&mut all, found);
        }
        Ok(all)
    }

    /// Reads the root again. Returns whether it has changed.
    pub fn look_again(&mut self) -> Result<bool, NetError> {
        let write = self.root.write;
        let Some(root) = read_root(&self.place, &*self.files, &self.cache)? else {
            return Err(self.failed(Trouble::LostRoot(RootLoss::Gone)));
        };
        if root.write == write {
            return Ok(false);
        }
        if root.purges.count != self.root.purges.count {
            self.given_up_since = Some(Trouble::Purged);
        } else if root.expired != self.root.expired {
            self.given_up_since.get_or_insert(Trouble::ContentExpired);
        }
        self.root = root;
        self.gone.clear();
        self.damage = None;
        self.spread()?;
        Ok(true)
    }

    /// Returns whether the root lists a pack.
    pub fn lists(&mut self, pack: &Name) -> Result<bool, NetError> {
        if !self.rows_by_name.contains_key(pack) {
            self.data()?;
        }
        Ok(self.rows_by_name.contains_key(pack))
    }

    /// Returns the row of a pack, if it is known.
    pub fn row(&self, pack: &Name) -> Option<&Row> {
        self.rows_by_name.get(pack)
    }

    /// Reads tables of metadata until they are `enough`, or until there are no more.
    pub fn read_nodes_until(&mut self, enough: &dyn Fn(&Tables) -> bool) -> Result<(), NetError> {
        let mut at_once = FIRST_TABLES;
        while !enough(&self.nodes) {
            let new = self
                .meta
                .iter()
                .filter(|row| self.is_unread(&self.nodes, row));
            let new: Vec<Row> = new.take(at_once).copied().collect();
            if new.is_empty() {
                break;
            }
            self.read_tables(&new, true)?;
            at_once = usize::MAX;
        }
        Ok(())
    }

    fn is_unread(&self, tables: &Tables, row: &Row) -> bool {
        !tables.has(&row.name) && !self.gone.contains(&row.name)
    }

    /// Looks chunks up in the tables of packs, and calls `found` for each chunk with its frame. Reads
    /// the tables in portions, until everything was found. Some that were read before may be
    /// forgotten.
    pub fn find_chunks(
        &mut self,
        mut wanted: Vec<ObjectId>,
        packs: &[Row],
        found: &mut dyn FnMut(ObjectId, Range),
    ) -> Result<(), NetError> {
        let mut packs = packs.iter().peekable();
        loop {
            wanted.retain(|id| {
                let frame = self.chunks.find(ObjectType::Chunk, id);
                if let Some(frame) = frame {
                    found(*id, frame);
                }
                frame.is_none()
            });
            if wanted.is_empty() || packs.peek().is_none() {
                return Ok(());
            }
            if self.chunks.objects() > MAX_CHUNKS {
                self.chunks = Tables::default();
            }
            let (mut portion, mut bytes) = (Vec::new(), 0);
            while bytes < TABLE_BYTES_AT_ONCE
                && let Some(row) = packs.next()
            {
                if self.is_unread(&self.chunks, row) {
                    bytes += row.len - row.tail;
                    portion.push(*row);
                }
            }
            self.read_tables(&portion, false)?;
        }
    }

    /// Reads the last segments' tables of packs.
    fn read_tables(&mut self, packs: &[Row], is_meta: bool) -> Result<(), NetError> {
        let mut ranges = Vec::new();
        for row in packs {
            let copy = self.cache.file(&row.name.to_string());
            let copy = copy.filter(|tail| tail.len() as u64 == row.len - row.tail);
            if let Some(tail) = copy {
                self.add_table(row, &tail, is_meta);
                continue;
            }
            let whole = row.len <= SMALL_BYTES;
            let offset = if whole { 0 } else { row.tail };
            ranges.push(Range {
                file: row.name,
                offset,
                len: row.len - offset,
            });
        }
        ranges.retain(|range| match self.held.get(range) {
            Some(bytes) => {
                let row = self.rows_by_name[&range.file];
                let tail = bytes[(row.tail - range.offset) as usize..].to_vec();
                self.keep_table(&row, &tail, is_meta);
                false
            }
            None => true,
        });
        let ranges = plan(ranges, Terms::default());
        let mut tails: HashMap<Name, Vec<u8>> = HashMap::new();
        let mut hands = self.take_hands();
        let done = hands.read(self.root.repository, &ranges, &mut |range, bytes| {
            let row = self.rows_by_name[&range.file];
            let bytes = match bytes {
                Ok(bytes) => bytes,
                Err(FileFailure::Missing) => {
                    self.note_loss(&range.file);
                    return Ok(());
                }
                Err(FileFailure::Length) => {
                    self.note_damage(&range.file, SHORT);
                    self.gone.insert(range.file);
                    return Ok(());
                }
                Err(why) => return Err(Stop::Read(NotRead { range: *range, why })),
            };
            let from = row.tail.max(range.offset) - range.offset;
            let tail = tails.entry(row.name).or_default();
            tail.extend_from_slice(&bytes[(from as usize).min(bytes.len())..]);
            if range.offset == 0 && range.len == row.len {
                self.held.add(*range, std::mem::take(bytes));
            }
            if range.offset + range.len == row.len {
                let tail = tails.remove(&row.name).unwrap_or_default();
                self.keep_table(&row, &tail, is_meta);
            }
            Ok(())
        });
        self.give_back_hands(hands);
        self.explain(done)
    }

    /// Returns what reads, for a series in which everything else may change.
    pub fn take_hands(&mut self) -> RangeReader {
        std::mem::replace(&mut self.hands, RangeReader::new(self.files.clone()))
    }

    /// Takes back what reads.
    pub fn give_back_hands(&mut self, hands: RangeReader) {
        self.hands = hands;
    }

    /// Adds a table of a pack, and keeps a copy of it.
    pub fn keep_table(&mut self, row: &Row, tail: &[u8], is_meta: bool) {
        if self.add_table(row, tail, is_meta) {
            self.cache.keep_file(&row.name.to_string(), tail);
        }
    }

    fn add_table(&mut self, row: &Row, tail: &[u8], is_meta: bool) -> bool {
        let tables = if is_meta {
            &mut self.nodes
        } else {
            &mut self.chunks
        };
        match tables.add(row, tail) {
            Ok(()) => true,
            Err(why) => {
                self.note_damage(&row.name, why);
                self.gone.insert(row.name);
                false
            }
        }
    }

    /// Notes that a pack is damaged.
    pub fn note_damage(&mut self, pack: &Name, why: &str) {
        let path = pack.path(self.root.repository);
        self.damage
            .get_or_insert_with(|| Trouble::Damaged(format!("{path}: {why}")));
    }

    /// Notes that a pack does not exist although the root lists it.
    pub fn note_loss(&mut self, pack: &Name) {
        let path = pack.path(self.root.repository);
        self.damage.get_or_insert(Trouble::Lost(path));
        self.gone.insert(*pack);
    }

    /// Forgets copies of files that the root does not name.
    pub fn tidy_cache(&mut self) {
        let pages = self.root.pages().map(|page| page.name.to_string());
        let packs = self.rows_by_name.keys().map(Name::to_string);
        // Tables of chunks are known only if the rows of their packs are.
        if self.data.is_some() || self.root.data_pages.is_empty() {
            let data = self.root.rows.iter().map(|row| row.name.to_string());
            let stays: BTreeSet<String> = pages.chain(packs).chain(data).collect();
            self.cache.keep_only(&|name| stays.contains(name));
        }
    }

    /// Returns the failure of a series of reads as what the other side is told.
    pub fn explain(&self, done: Result<(), Stop>) -> Result<(), NetError> {
        match done {
            Ok(()) => Ok(()),
            Err(Stop::Net(e)) => Err(e),
            Err(Stop::Read(NotRead { range, why })) => Err(self.not_read(&range.file, why)),
        }
    }

    /// Returns the error for a file that cannot be read.
    pub fn not_read(&self, file: &Name, why: FileFailure) -> NetError {
        let path = file.path(self.root.repository);
        self.failed(match why {
            FileFailure::Missing => Trouble::Lost(path),
            FileFailure::Length => Trouble::Damaged(format!("{path}: {SHORT}")),
            why => trouble_of(why),
        })
    }

    fn damaged(&self, file: Option<Name>, why: &str) -> NetError {
        let path = file.map_or(ROOT.to_owned(), |file| file.path(self.root.repository));
        self.failed(Trouble::Damaged(format!("{path}: {why}")))
    }

    /// Returns the error for trouble with the store.
    pub fn failed(&self, trouble: Trouble) -> NetError {
        failed(&self.place, trouble)
    }
}

fn failed(place: &str, trouble: Trouble) -> NetError {
    NetError::Bucket {
        place: place.to_owned(),
        trouble,
    }
}

fn trouble_of(why: FileFailure) -> Trouble {
    match why {
        FileFailure::Trouble(trouble) => trouble,
        FileFailure::Missing => Trouble::NoRoot,
        FileFailure::Length => {
            Trouble::Damaged("a file has another length than it should".to_owned())
        }
        FileFailure::Unchanged | FileFailure::Refused => {
            Trouble::Other("an answer to another question".to_owned())
        }
    }
}

fn undecodable(place: &str, file: &str, e: &DecodeError) -> NetError {
    let trouble = if e.is_too_new() {
        Trouble::TooNew
    } else if file == ROOT {
        Trouble::LostRoot(RootLoss::Damaged(e.to_string()))
    } else {
        Trouble::Damaged(format!("{file}: {e}"))
    };
    failed(place, trouble)
}

/// Reads the whole root, whatever the state is of which there is a copy: a store that has damaged the file
/// may call it unchanged. Fails if it does not decode.
pub fn check_root(place: &str, files: &dyn Files) -> Result<(), NetError> {
    match files.read_whole(ROOT, None) {
        Ok((bytes, _)) => match Root::decode(&bytes) {
            Ok(_) => Ok(()),
            Err(e) => Err(undecodable(place, ROOT, &e)),
        },
        // The next read of it reports the reason.
        Err(FileFailure::Missing) => Ok(()),
        Err(why) => Err(failed(place, trouble_of(why))),
    }
}

/// Reads the root, unless it is still the one of which there is a copy. `None`: there is none.
fn read_root(place: &str, files: &dyn Files, cache: &Cache) -> Result<Option<Root>, NetError> {
    let known = cache.root();
    match files.read_whole(ROOT, known.as_ref().map(|(_, tag)| tag)) {
        Ok((bytes, tag)) => {
            let root = Root::decode(&bytes).map_err(|e| undecodable(place, ROOT, &e))?;
            if known.is_some_and(|(known, _)| !root.can_follow(&known)) {
                return Err(failed(place, Trouble::Forked));
            }
            cache.keep_root(&root, &tag);
            Ok(Some(root))
        }
        Err(FileFailure::Unchanged) => match known {
            Some((root, _)) => Ok(Some(root)),
            None => Err(failed(place, trouble_of(FileFailure::Unchanged))),
        },
        Err(FileFailure::Missing) if known.is_some() => {
            Err(failed(place, Trouble::LostRoot(RootLoss::Gone)))
        }
        Err(FileFailure::Missing) => Ok(None),
        Err(why) => Err(failed(place, trouble_of(why))),
    }
}
