//! The index: the catalogue as it was last loaded, with its tables open, and the tables of jobs that are not
//! published yet.
//!
//! An [`OpenCatalogue`] never changes. A newer one takes its place, so a reader that keeps one sees one
//! state. What other processes change does not come in by itself. This module knows which places are listed,
//! not whether their bytes are intact: its callers say which places are damaged.

use super::bad_places::BadPlaces;
use super::catalogue::{Catalogue, PackRow};
use super::error::{StoreError, refusal};
use super::filter::IdFilter;
use super::finished_job::FinishedJob;
use super::index_entry::Place;
use super::layout::PackKind;
use super::random_id::{IndexId, PackId};
use super::shared::{SharedValue, read, write};
use super::store_files::StoreFiles;
use super::table::Table;
use crate::hash::{ID_BYTES, ObjectId, decode_hex};
use crate::limits::PACK_FULL_BYTES;
use crate::memory::Budget;
use crate::object::ObjectType;
use crate::path::PathError;
use std::collections::HashSet;
use std::ops::ControlFlow;
use std::sync::{Arc, RwLock, Weak};

/// What a catalogue lists, with its tables open.
#[derive(Clone, Default)]
pub struct OpenCatalogue {
    /// How many catalogues were loaded before this one.
    pub(super) number: u64,
    pub(super) packs: Vec<PackRow>,
    pub(super) tables: Vec<Arc<Table>>,
    /// Why tables did not open. Their objects seem absent.
    pub(super) broken: Vec<Arc<StoreError>>,
    /// The merged index files that are missing or do not open. The tables of their segments can replace
    /// them.
    pub(crate) unusable: Vec<IndexId>,
    /// The packs whose files are gone. Their objects count as absent.
    pub(crate) lost: Vec<PackRow>,
}

impl OpenCatalogue {
    /// Opens the tables of a catalogue. Only a file of a newer version is an error here.
    pub(super) fn open(
        files: &StoreFiles,
        catalogue: Catalogue,
    ) -> Result<OpenCatalogue, StoreError> {
        let mut unusable = Vec::new();
        let listed = packs_of(&catalogue.packs);
        let lost = files.missing(&catalogue.packs);
        let gone = packs_of(&lost);
        let merged = catalogue.indexes.iter().map(|row| {
            let in_use = |id: &PackId| listed.contains(id) && !gone.contains(id);
            let table = files.merged_table(row.id, Some(row.entries), &in_use);
            // An index over a lost pack may hide copies that other packs have.
            let is_over_lost = |table: &Table| table.packs().iter().any(|id| gone.contains(id));
            let is_usable = table.as_ref().is_ok_and(|table| !is_over_lost(table));
            unusable.extend((!is_usable).then_some(row.id));
            table
        });
        let segments = catalogue.segments.iter();
        let own = segments.filter(|segment| !gone.contains(&segment.pack));
        let own = own.map(|segment| files.table_of(segment));
        let (mut tables, mut broken) = (Vec::new(), Vec::new());
        for table in merged.chain(own) {
            match table {
                Ok(table) => tables.push(Arc::new(table)),
                Err(e @ StoreError::TooNew { .. }) => return Err(e),
                Err(e) => broken.push(Arc::new(e)),
            }
        }
        Ok(OpenCatalogue {
            number: 0,
            packs: catalogue.packs,
            tables,
            broken,
            unusable,
            lost,
        })
    }

    /// Returns whether all tables could be opened.
    pub(crate) fn is_open(&self) -> bool {
        self.broken.is_empty() && self.lost.is_empty()
    }

    /// Returns the packs of a kind that have room and may be written to.
    pub(super) fn unfilled_packs(&self, kind: PackKind) -> impl Iterator<Item = PackId> + '_ {
        let fits = move |p: &&PackRow| p.kind == kind && !p.poisoned && p.len <= PACK_FULL_BYTES;
        self.packs.iter().filter(fits).map(|pack| pack.id)
    }

    /// Fails if this process may not read a table. Such a table is not damaged, and what it lists is not
    /// absent.
    pub(crate) fn refuse_unreadable(&self) -> Result<(), StoreError> {
        for broken in &self.broken {
            if let StoreError::Io(e) = &**broken
                && let Some(source) = refusal(&e.source)
            {
                return Err(PathError::new(e.op, e.path.clone(), source).into());
            }
        }
        Ok(())
    }

    /// Checks every table and returns the faults.
    pub(crate) fn damaged_tables(&self) -> Vec<String> {
        let broken = self.broken.iter().map(|e| e.to_string());
        let checked = self.tables.iter().filter_map(|table| table.verify().err());
        broken.chain(checked.map(|e| e.to_string())).collect()
    }

    /// Returns the merged indexes of which less than half of the entries count.
    pub(crate) fn worn_indexes(&self) -> Vec<IndexId> {
        let is_worn = |table: &&Arc<Table>| table.live_entries() < table.entries() / 2;
        let worn = self.tables.iter().filter(is_worn);
        worn.filter_map(|table| table.index_id()).collect()
    }

    /// Returns the ids that begin with `hex` (at least four digits), at most `limit` of them.
    pub fn with_prefix(
        &self,
        hex: &str,
        limit: usize,
    ) -> Result<Vec<(ObjectId, ObjectType)>, StoreError> {
        let (whole, last) = hex.split_at(hex.len() & !1);
        let half = last.chars().next().and_then(|digit| digit.to_digit(16));
        let Some(prefix) = decode_hex(whole) else {
            return Ok(Vec::new());
        };
        if prefix.len() > ID_BYTES || last.is_empty() != half.is_none() {
            return Ok(Vec::new());
        }
        let mut found = HashSet::new();
        for table in &self.tables {
            found.extend(table.with_prefix(&prefix, half.map(|half| half as u8), limit)?);
        }
        Ok(found.into_iter().collect())
    }
}

/// The index of one store.
///
/// Each lock is held for single steps only, but for that of the filter, which is held during look-ups in
/// tables.
pub(super) struct Index {
    current: SharedValue<OpenCatalogue>,
    /// Tables of jobs that are not published yet. Only reads use them, until their jobs end.
    unpublished: RwLock<Vec<Weak<Table>>>,
    /// The budget for tables in memory.
    pub budget: Budget,
    /// Rules out tables when an id is looked for that is in none.
    pub filter: IdFilter,
}

impl Default for Index {
    fn default() -> Index {
        Index {
            current: SharedValue::default(),
            unpublished: RwLock::default(),
            budget: Budget::for_tables(),
            filter: IdFilter::default(),
        }
    }
}

impl Index {
    /// Returns the catalogue that is in use now.
    pub fn current(&self) -> Arc<OpenCatalogue> {
        self.current.get()
    }

    /// Replaces the catalogue. Returns the former one.
    pub fn load(&self, next: OpenCatalogue) -> Arc<OpenCatalogue> {
        self.current.replace(|before| OpenCatalogue {
            number: before.number + 1,
            ..next
        })
    }

    /// Lets reads use the tables of a job, until `job` is dropped. No writer relies on them.
    pub fn preview(&self, job: &FinishedJob) {
        let mut unpublished = write(&self.unpublished);
        unpublished.retain(|table| table.strong_count() > 0);
        for table in job.tables.iter().map(Arc::downgrade) {
            if !unpublished.iter().any(|known| known.ptr_eq(&table)) {
                unpublished.push(table);
            }
        }
    }

    /// Returns whether no job has unpublished tables.
    pub fn has_no_previews(&self) -> bool {
        read(&self.unpublished).is_empty()
    }

    /// Takes the published tables and packs of a job into use.
    pub fn adopt(&self, job: &FinishedJob) {
        self.current.replace(|before| {
            let mut next = before.clone();
            for table in &job.tables {
                if !next.tables.iter().any(|known| Arc::ptr_eq(known, table)) {
                    next.tables.push(table.clone());
                }
            }
            for segment in &job.segments {
                match next.packs.iter_mut().find(|row| row.id == segment.pack) {
                    Some(row) => row.len = row.len.max(segment.end),
                    None => next.packs.push(PackRow::ending_with(segment)),
                }
            }
            next
        });
    }

    /// Returns where a job has written `id` itself. An object that it found stored does not count.
    pub fn place_in(
        &self,
        job: &FinishedJob,
        id: &ObjectId,
    ) -> Result<Option<(PackId, Place)>, StoreError> {
        for table in &job.tables {
            if let Some(found) = table.lookup(id, &self.budget)? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// Returns the places of `id` that tables in use name, damaged or not.
    pub fn copies<'i>(
        &'i self,
        id: &'i ObjectId,
    ) -> impl Iterator<Item = Result<(PackId, Place), StoreError>> + 'i {
        let current = self.current();
        let numbers = 0..current.tables.len();
        numbers.filter_map(move |n| current.tables[n].lookup(id, &self.budget).transpose())
    }

    /// Returns whether a table in use gives this place in `pack` for `id`.
    pub fn is_placed(&self, id: &ObjectId, pack: PackId, place: Place) -> Result<bool, StoreError> {
        let mut failed = None;
        for found in self.copies(id) {
            match found {
                Ok(found) if found == (pack, place) => return Ok(true),
                Ok(_) => {}
                Err(e) => failed = Some(e),
            }
        }
        failed.map_or(Ok(false), Err)
    }

    /// Returns a place of `id` that is listed or that an unpublished job has written: one that is not in
    /// `bad`, if there is one.
    pub fn locate(
        &self,
        id: &ObjectId,
        bad: &BadPlaces,
    ) -> Result<Option<(PackId, Place)>, StoreError> {
        match self.locate_listed(id, bad) {
            Ok(Some((pack, place))) if !bad.has(pack, place.offset) => Ok(Some((pack, place))),
            // Damaged, absent, or unknown because of an error.
            other => match self.locate_unpublished(id)? {
                Some(found) => Ok(Some(found)),
                None => other,
            },
        }
    }

    /// Returns a place of `id` according to the catalogue: one that is not in `bad`, if there is one.
    pub fn locate_listed(
        &self,
        id: &ObjectId,
        bad: &BadPlaces,
    ) -> Result<Option<(PackId, Place)>, StoreError> {
        let mut answer = Answer::default();
        let is_sound = |pack: PackId, place: Place| !bad.has(pack, place.offset);
        for table in &self.current().tables {
            if answer
                .ask(table.lookup(id, &self.budget), &is_sound)
                .is_break()
            {
                break;
            }
        }
        let Answer { sound, other, .. } = answer.checked()?;
        Ok(sound.or(other))
    }

    /// Returns a place of `id` that is not in `bad`, outside the packs `leaving`.
    pub fn undamaged_place_of(
        &self,
        id: &ObjectId,
        leaving: &HashSet<PackId>,
        bad: &BadPlaces,
    ) -> Result<Option<(PackId, Place)>, StoreError> {
        let mut answer = Answer::default();
        let is_sound =
            |pack: PackId, place: Place| !leaving.contains(&pack) && !bad.has(pack, place.offset);
        let current = self.current();
        self.filter.each_with(id, &current.tables, &mut |table| {
            answer.ask(table.lookup(id, &self.budget), &is_sound)
        });
        Ok(answer.checked()?.sound)
    }

    /// Returns the place of an object that a job has stored and not published yet.
    fn locate_unpublished(&self, id: &ObjectId) -> Result<Option<(PackId, Place)>, StoreError> {
        for table in read(&self.unpublished).iter().filter_map(Weak::upgrade) {
            if let Some(found) = table.lookup(id, &self.budget)? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }
}

/// What several tables say about an object.
#[derive(Default)]
struct Answer {
    /// A place to rely on.
    sound: Option<(PackId, Place)>,
    /// Another place.
    other: Option<(PackId, Place)>,
    failed: Option<StoreError>,
}

impl Answer {
    /// Adds the answer of a table. Ends at the first sound place: another copy may be intact, and another table
    /// may have what a damaged one hides.
    fn ask(
        &mut self,
        found: Result<Option<(PackId, Place)>, StoreError>,
        is_sound: &dyn Fn(PackId, Place) -> bool,
    ) -> ControlFlow<()> {
        match found {
            Ok(Some((pack, place))) if is_sound(pack, place) => {
                self.sound = Some((pack, place));
                return ControlFlow::Break(());
            }
            Ok(Some(other)) => self.other = Some(other),
            Ok(None) => {}
            Err(e) => self.failed = Some(e),
        }
        ControlFlow::Continue(())
    }

    /// Fails if no place is known and a table could not be read.
    fn checked(mut self) -> Result<Answer, StoreError> {
        match self.failed.take() {
            Some(e) if self.sound.is_none() && self.other.is_none() => Err(e),
            _ => Ok(self),
        }
    }
}

/// Returns the ids of some packs.
pub(super) fn packs_of(rows: &[PackRow]) -> HashSet<PackId> {
    rows.iter().map(|row| row.id).collect()
}
