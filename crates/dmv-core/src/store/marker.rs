//! Marking everything that some objects need: one bit for each place, in memory that does not
//! depend on what is absent.
//!
//! Ids are looked up in sorted batches, and frames of metadata are read in order, each of them about
//! once. So the time grows with the number of objects, even if no table fits the memory. Only
//! commits are looked up one by one: a long line of them would cost one batch per commit.
//!
//! The marker works on the tables that are in use when it begins. Whatever other processes store,
//! merge or remove meanwhile, each place of the map keeps its number. Objects that are stored later
//! are followed, but have no mark.

use super::bit_set::Bits;
use super::catalogue::SegmentRow;
use super::error::StoreError;
use super::frame_map::{FrameMap, MappedFrame, PackUse};
use super::index_entry::Place;
use super::pack_reader::Frame;
use super::pack_store::Store;
use super::random_id::PackId;
use super::table::Table;
use super::table::join::WantedObject;
use crate::hash::ObjectId;
use crate::object::{ObjectError, ObjectRead, ObjectType};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Number of ids that are looked up together.
const BATCH: usize = 512 << 10;
/// Number of ids that are remembered, so that repeats are not looked up again.
const RECENT: usize = 256 << 10;
/// Most objects without a number that are followed.
const MOST_LOOSE: usize = 1 << 20;

/// Something that is needed and cannot be read.
#[derive(Debug)]
pub struct Lack {
    /// Its type.
    pub ty: ObjectType,
    /// Its id.
    pub id: ObjectId,
    /// For a commit: the child that names it.
    pub child: Option<ObjectId>,
    /// Why it cannot be read; `None` if it is not stored.
    pub damage: Option<String>,
}

/// Receives what is needed and cannot be read. Ends the work by failing.
pub(crate) type OnLack<'l> = dyn FnMut(Lack) -> Result<(), StoreError> + 'l;

/// Why [`Marker::settle`] ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MarkEnd {
    /// Everything below the roots is marked.
    All,
    /// `goes_on` ended the work. A later call continues.
    Stopped,
    /// Too many objects are not in the map.
    TooManyNew,
}

/// Marks on the places of a [`FrameMap`].
pub struct Marker<'s> {
    store: &'s Store,
    tables: Vec<Arc<Table>>,
    map: FrameMap,
    /// Places of objects that the roots need.
    marked: Bits,
    /// Marked places of objects that have not been read yet.
    open: Bits,
    /// Places that a table in use names.
    listed: Bits,
    /// First places of the frames whose bases were looked up.
    based: Bits,
    commits: Vec<(ObjectId, Option<ObjectId>)>,
    batch: Vec<WantedObject>,
    recent: Recent,
    /// Objects without a number: found, and not read yet.
    loose: Vec<WantedObject>,
    /// All of them so far.
    known_loose: HashSet<ObjectId>,
}

impl<'s> Marker<'s> {
    /// Returns a marker without a mark. The store must not have loaded a catalogue that is older
    /// than the map.
    pub fn new(store: &'s Store, map: FrameMap) -> Result<Marker<'s>, StoreError> {
        let bits = || Bits::new(map.places());
        let mut marker = Marker {
            store,
            tables: store.current().tables.clone(),
            marked: bits(),
            open: bits(),
            listed: bits(),
            based: bits(),
            commits: Vec::new(),
            batch: Vec::new(),
            recent: Recent::default(),
            loose: Vec::new(),
            known_loose: HashSet::new(),
            map,
        };
        for table in &marker.tables {
            table.walk(&mut |entry, pack| {
                if let Some(number) = marker.map.number(pack, entry.place) {
                    marker.listed.set(number);
                }
                Ok(())
            })?;
        }
        Ok(marker)
    }

    /// Returns the map.
    pub fn map(&self) -> &FrameMap {
        &self.map
    }

    /// Forgets a pack whose file is gone: what it had is elsewhere, or nothing needs it. The file takes
    /// space as long as a table has it open.
    pub fn forget(&mut self, pack: PackId) {
        self.map.forget(pack);
        self.tables.retain(|table| !table.is_in(pack));
    }

    /// Adds an object that is needed, with everything below it.
    pub fn root(&mut self, ty: ObjectType, id: ObjectId) {
        match ty {
            ObjectType::Commit => self.commits.push((id, None)),
            _ => self.want(ty, id),
        }
    }

    /// Marks everything that the roots need, in all copies.
    pub fn settle(
        &mut self,
        goes_on: &dyn Fn() -> bool,
        lacking: &mut OnLack<'_>,
    ) -> Result<MarkEnd, StoreError> {
        loop {
            if !goes_on() {
                return Ok(MarkEnd::Stopped);
            }
            if self.known_loose.len() > MOST_LOOSE {
                return Ok(MarkEnd::TooManyNew);
            }
            if let Some((id, child)) = self.commits.pop() {
                self.follow_commit(id, child, lacking)?;
            } else if let Some(wanted) = self.loose.pop() {
                self.follow_loose(wanted, lacking)?;
            } else if !self.batch.is_empty() {
                self.look_up_batch()?;
            } else if !self.open_frames(goes_on, lacking)? {
                // Nothing is left to follow, or `goes_on` has ended the work.
                if self.open.last_below(self.map.places()).is_none() && !self.want_bases() {
                    return self.mark_hidden(goes_on);
                }
            }
            if self.batch.len() >= BATCH {
                self.look_up_batch()?;
            }
        }
    }

    /// Returns whether a place is marked; `None` if the map does not have it.
    pub fn is_marked(&self, pack: PackId, place: Place) -> Option<bool> {
        Some(self.marked.has(self.map.number(pack, place)?))
    }

    /// Returns how each mapped pack is used.
    pub fn uses(&self) -> Vec<PackUse> {
        let all = self.map.packs().iter();
        all.filter_map(|pack| self.use_of(pack.row.id)).collect()
    }

    /// Returns how one pack is used; `None` if it is not mapped.
    pub(crate) fn use_of(&self, pack: PackId) -> Option<PackUse> {
        let (at, _) = self.map.pack(pack)?;
        let marked = |places| self.marked.count_in(places);
        let share = |pack, frame: &MappedFrame, len| {
            let exactly = self.share_of(pack, frame, len);
            // A damaged frame counts as if its objects had the same length.
            let part = || len * marked(frame.places.clone()) as u64 / frame.places.len() as u64;
            exactly.unwrap_or_else(|_| part())
        };
        Some(self.map.use_of(at, &marked, &share))
    }

    /// Returns how many of the `len` bytes of a frame its marked objects take.
    fn share_of(&self, pack: PackId, frame: &MappedFrame, len: u64) -> Result<u64, StoreError> {
        let table = self.store.reader.table(pack, frame.offset)?;
        let objects = table.objects.iter().zip(frame.places.clone());
        let marked = objects.filter(|(_, number)| self.marked.has(*number));
        let bytes: u64 = marked.map(|((_, range), _)| range.len() as u64).sum();
        Ok(len * bytes / u64::from(table.header.raw_len).max(1))
    }

    /// Returns the number of marked places.
    pub fn marked(&self) -> usize {
        self.marked.count_in(0..self.map.places())
    }

    /// Visits the frames of a mapped pack in which something stays, in order: the offset of each, and
    /// for each of its places whether it stays. Everything in a young segment stays.
    pub(super) fn staying_frames(
        &self,
        pack: PackId,
    ) -> impl Iterator<Item = (u64, Vec<bool>)> + use<'_, 's> {
        let at = self.map.pack(pack).map(|(at, _)| at);
        let frames = at.into_iter().flat_map(|at| self.map.frames(at));
        frames.filter_map(|(segment, frame, _)| {
            let is_needed = segment.is_young || self.marked.any_in(frame.places.clone());
            let stays = |place| segment.is_young || self.marked.has(place);
            is_needed.then(|| (frame.offset, frame.places.map(stays).collect()))
        })
    }

    /// Visits the ids of a mapped pack that stay, in batches that are sorted by id.
    pub(super) fn staying_ids(
        &self,
        pack: PackId,
        visit: &mut dyn FnMut(&[WantedObject]) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let Some((_, mapped)) = self.map.pack(pack) else {
            return Ok(());
        };
        for segment in &mapped.segments {
            for row in &segment.rows {
                let mut ids = Vec::new();
                let table = self.store.files().table_of(row)?;
                table.walk(&mut |entry, _| {
                    let number = self.map.number(pack, entry.place);
                    if segment.is_young || number.is_some_and(|number| self.marked.has(number)) {
                        let (id, ty) = (entry.id, entry.place.ty);
                        ids.push(WantedObject { id, ty });
                    }
                    Ok(())
                })?;
                visit(&ids)?;
            }
        }
        Ok(())
    }

    fn want(&mut self, ty: ObjectType, id: ObjectId) {
        if self.recent.is_new(&id) {
            self.batch.push(WantedObject { id, ty });
        }
    }

    /// Adds the bases of all frames that stay. Returns whether there are new ones.
    ///
    /// Without these marks nothing is lost: a frame whose bases do not stay is stored without them. But
    /// then it takes more space than they do.
    fn want_bases(&mut self) -> bool {
        let mut found = Vec::new();
        for (at, pack) in self.map.packs().iter().enumerate() {
            if !pack.row.id.may_have_bases() {
                continue;
            }
            for (segment, frame, _) in self.map.frames(at) {
                let first = frame.places.start;
                if self.based.has(first)
                    || !segment.is_young && !self.marked.any_in(frame.places.clone())
                {
                    continue;
                }
                self.based.set(first);
                // A damaged frame is not copied, so its pack stays as it is.
                if let Ok(table) = self.store.reader.table(pack.row.id, frame.offset) {
                    found.extend(&table.base);
                }
            }
        }
        let before = self.batch.len();
        for id in found {
            self.want(ObjectType::Chunk, id);
        }
        self.batch.len() > before
    }

    fn add_links(&mut self, id: &ObjectId, links: Vec<(ObjectType, ObjectId)>) {
        for (ty, link) in links {
            match ty {
                ObjectType::Commit => self.commits.push((link, Some(*id))),
                _ => self.want(ty, link),
            }
        }
    }

    /// Reads an object wherever it is, and follows its links.
    fn follow(
        &mut self,
        ty: ObjectType,
        id: ObjectId,
        child: Option<ObjectId>,
        lacking: &mut OnLack<'_>,
    ) -> Result<bool, StoreError> {
        let damage = match self.store.read(ty, &id) {
            Ok(Some(bytes)) => match ty.links(&bytes) {
                Ok(links) => {
                    self.add_links(&id, links);
                    return Ok(true);
                }
                Err(e) => Some(ObjectError::undecodable(ty, &id, e).to_string()),
            },
            Ok(None) => None,
            Err(e) => Some(e.to_string()),
        };
        let lack = Lack {
            ty,
            id,
            child,
            damage,
        };
        lacking(lack).map(|()| false)
    }

    fn follow_commit(
        &mut self,
        id: ObjectId,
        child: Option<ObjectId>,
        lacking: &mut OnLack<'_>,
    ) -> Result<(), StoreError> {
        let (mut has_number, mut is_new) = (false, false);
        for table in &self.tables {
            if let Some((pack, place)) = table.lookup(&id, &self.store.index.budget)?
                && let Some(number) = self.map.number(pack, place)
            {
                has_number = true;
                is_new |= self.marked.set(number);
            }
        }
        if is_new || !has_number && !self.known_loose.contains(&id) {
            let is_here = self.follow(ObjectType::Commit, id, child, lacking)?;
            if !has_number && is_here {
                self.known_loose.insert(id);
            }
        }
        Ok(())
    }

    fn follow_loose(
        &mut self,
        wanted: WantedObject,
        lacking: &mut OnLack<'_>,
    ) -> Result<(), StoreError> {
        let WantedObject { id, ty } = wanted;
        if !self.known_loose.contains(&id) && self.follow(ty, id, None, lacking)? {
            self.known_loose.insert(id);
        }
        Ok(())
    }

    /// Marks the objects of the batch.
    fn look_up_batch(&mut self) -> Result<(), StoreError> {
        let mut batch = std::mem::take(&mut self.batch);
        batch.sort_unstable();
        batch.dedup_by_key(|wanted| wanted.id);
        let mut has_number = Bits::new(batch.len());
        for table in &self.tables {
            table.join(&batch, &mut |at, pack, place| {
                if let Some(number) = self.map.number(pack, place) {
                    has_number.set(at);
                    if self.marked.set(number) && place.ty != ObjectType::Chunk {
                        self.open.set(number);
                    }
                }
                Ok(())
            })?;
        }
        // Nothing lies below a chunk, so a chunk without a number needs nothing.
        for (at, wanted) in batch.iter().enumerate() {
            if wanted.ty != ObjectType::Chunk && !has_number.has(at) {
                self.loose.push(*wanted);
            }
        }
        batch.clear();
        self.batch = batch;
        Ok(())
    }

    /// Reads each frame with open places once, those at the ends of packs first: writers store
    /// children before parents. Returns whether there was any.
    fn open_frames(
        &mut self,
        goes_on: &dyn Fn() -> bool,
        lacking: &mut OnLack<'_>,
    ) -> Result<bool, StoreError> {
        let mut any = false;
        let mut end = self.map.places();
        while let Some(number) = self.open.last_below(end) {
            if !goes_on() {
                return Ok(any);
            }
            any = true;
            let frame = self.map.frame_with(number);
            end = frame.places.start;
            let pack = self.map.packs()[frame.pack].row.id;
            match self.store.whole_frame(pack, frame.offset) {
                Ok(read) => self.follow_frame(&frame, &read, lacking)?,
                Err(_) => self.follow_copies(&frame, lacking)?,
            }
            if self.batch.len() >= BATCH {
                self.look_up_batch()?;
            }
        }
        Ok(any)
    }

    /// Follows the links of a frame's open objects. Links within the frame are followed at once, so
    /// that the frame of a commit is read once and not once per level of its tree.
    fn follow_frame(
        &mut self,
        frame: &MappedFrame,
        read: &Frame,
        lacking: &mut OnLack<'_>,
    ) -> Result<(), StoreError> {
        let first = frame.places.start;
        let objects: Vec<(ObjectType, &[u8])> = read.objects().collect();
        if objects.len() < frame.places.len() {
            return self.follow_copies(frame, lacking);
        }
        let ids: Vec<ObjectId> = objects[..frame.places.len()]
            .iter()
            .map(|(ty, bytes)| ty.id_of(bytes))
            .collect();
        let numbers = ids.iter().zip(frame.places.clone());
        let by_id: HashMap<ObjectId, usize> = numbers.map(|(id, number)| (*id, number)).collect();
        let mut todo: Vec<usize> = Vec::new();
        let mut is_damaged = false;
        for number in frame.places.clone().filter(|n| self.open.has(*n)) {
            if !read.has_no_check() || self.is_listed(&ids[number - first], number)? {
                todo.push(number)
            } else {
                is_damaged = true
            }
        }
        while let Some(number) = todo.pop() {
            self.open.clear(number);
            let ((ty, bytes), id) = (objects[number - first], ids[number - first]);
            let links = match ty.links(bytes) {
                Ok(links) => links,
                Err(e) => {
                    let damage = Some(ObjectError::undecodable(ty, &id, e).to_string());
                    let child = None;
                    lacking(Lack {
                        ty,
                        id,
                        child,
                        damage,
                    })?;
                    continue;
                }
            };
            for (ty, link) in &links {
                if let Some(number) = by_id.get(link)
                    && *ty != ObjectType::Commit
                    && self.marked.set(*number)
                {
                    todo.push(*number);
                }
            }
            // Other copies need marks, too.
            self.add_links(&id, links);
        }
        if is_damaged {
            self.follow_copies(frame, lacking)
        } else {
            Ok(())
        }
    }

    /// Returns whether a table names the place with this number for an object.
    fn is_listed(&self, id: &ObjectId, number: usize) -> Result<bool, StoreError> {
        for table in &self.tables {
            if let Some((pack, place)) = table.lookup(id, &self.store.index.budget)?
                && self.map.number(pack, place) == Some(number)
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Follows the open objects of a damaged frame, as far as other copies can be read.
    fn follow_copies(
        &mut self,
        frame: &MappedFrame,
        lacking: &mut OnLack<'_>,
    ) -> Result<(), StoreError> {
        let pack = &self.map.packs()[frame.pack];
        let rows = pack.segments.iter().flat_map(|segment| &segment.rows);
        let is_here = |row: &&SegmentRow| (row.start..row.end).contains(&frame.offset);
        let mut found = Vec::new();
        for row in rows.filter(is_here) {
            let table = self.store.files().table_of(row)?;
            table.walk(&mut |entry, _| {
                let number = frame.places.start + usize::from(entry.place.ordinal);
                if entry.place.offset == frame.offset && self.open.has(number) {
                    found.push((entry.place.ty, entry.id));
                }
                Ok(())
            })?;
        }
        for number in frame.places.clone() {
            self.open.clear(number);
        }
        for (ty, id) in found {
            self.follow(ty, id, None, lacking)?;
        }
        Ok(())
    }

    /// Marks the copies of marked objects that merged indexes hide.
    fn mark_hidden(&mut self, goes_on: &dyn Fn() -> bool) -> Result<MarkEnd, StoreError> {
        let mut hidden: Vec<(ObjectId, usize)> = Vec::new();
        let mut segments = Vec::new();
        for pack in self.map.packs() {
            for segment in &pack.segments {
                let places = segment.places(pack);
                if self.listed.count_in(places.clone()) < places.len() {
                    segments.extend(&segment.rows);
                }
            }
        }
        for row in segments {
            if !goes_on() {
                return Ok(MarkEnd::Stopped);
            }
            let table = self.store.files().table_of(&row)?;
            table.walk(&mut |entry, pack| {
                let number = self.map.number(pack, entry.place);
                let is_hidden = |n: &usize| !self.listed.has(*n) && !self.marked.has(*n);
                hidden.extend(number.filter(is_hidden).map(|number| (entry.id, number)));
                Ok(())
            })?;
            if hidden.len() >= BATCH {
                self.mark_if_needed(&mut hidden)?;
            }
        }
        self.mark_if_needed(&mut hidden)?;
        Ok(MarkEnd::All)
    }

    /// Marks those of `hidden` that are marked at another place, and empties it.
    fn mark_if_needed(&mut self, hidden: &mut Vec<(ObjectId, usize)>) -> Result<(), StoreError> {
        hidden.sort_unstable();
        let ty = ObjectType::Chunk;
        let mut ids: Vec<WantedObject> = hidden
            .iter()
            .map(|(id, _)| WantedObject { id: *id, ty })
            .collect();
        ids.dedup();
        let mut needed = Bits::new(ids.len());
        for table in &self.tables {
            table.join(&ids, &mut |at, pack, place| {
                // A place without a number may be needed, unless it is gone.
                let number = self.map.number(pack, place);
                let is_needed = match number {
                    Some(number) => self.marked.has(number),
                    None => !self.map.is_gone(pack),
                };
                if is_needed {
                    needed.set(at);
                }
                Ok(())
            })?;
        }
        for (id, number) in hidden.drain(..) {
            let at = ids.binary_search(&WantedObject { id, ty });
            if at.is_ok_and(|at| needed.has(at)) {
                self.marked.set(number);
            }
        }
        Ok(())
    }
}

/// Ids that came up lately.
struct Recent(Vec<ObjectId>);

impl Default for Recent {
    fn default() -> Recent {
        Recent(vec![ObjectId::from_bytes([0; 32]); RECENT])
    }
}

impl Recent {
    /// Notes an id. Returns `false` if it is certain that it came up before.
    fn is_new(&mut self, id: &ObjectId) -> bool {
        let bytes = id.as_bytes();
        let number = u32::from_le_bytes(super::layout::array(&bytes[8..12])) as usize;
        let slot = &mut self.0[number % RECENT];
        std::mem::replace(slot, *id) != *id
    }
}
