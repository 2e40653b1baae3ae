//! The catalogue: which packs, segments and merged indexes are in use, and who knows it.
//!
//! The values are plain data. Another room keeps the catalogue and answers questions about its
//! present state through [`CatalogueSource`]; the store knows nothing of that room.

use super::error::StoreError;
use super::layout::PackKind;
use super::random_id::{IndexId, PackId};

/// A pack in the catalogue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PackRow {
    /// Its id, which names its file.
    pub id: PackId,
    /// The kind of its objects.
    pub kind: PackKind,
    /// Offset of the end of its last committed segment. The bytes after it belong to no committed
    /// job.
    pub len: u64,
    /// Whether it is never written to again: a sync of it failed once, or repack has made it.
    pub poisoned: bool,
}

impl PackRow {
    /// Returns the row of a pack whose last segment is `segment`.
    pub(super) fn ending_with(segment: &SegmentRow) -> PackRow {
        PackRow {
            id: segment.pack,
            kind: segment.kind,
            len: segment.end,
            poisoned: false,
        }
    }
}

/// A committed segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentRow {
    /// Its pack.
    pub pack: PackId,
    /// The kind of the pack.
    pub kind: PackKind,
    /// Offset of its first record.
    pub start: u64,
    /// Offset after its trailer.
    pub end: u64,
    /// Number of objects in its table.
    pub entries: u32,
}

/// A merged index file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndexRow {
    /// Its id, which names its file.
    pub id: IndexId,
    /// Number of objects in it, in packs that are in use.
    pub entries: u32,
}

/// What the store may read, and where it may append.
#[derive(Clone, Debug, Default)]
pub struct Catalogue {
    /// All packs in use.
    pub packs: Vec<PackRow>,
    /// Segments whose own tables are in use.
    pub segments: Vec<SegmentRow>,
    /// Merged index files in use.
    pub indexes: Vec<IndexRow>,
}

/// Answers what the catalogue holds now, also after other processes have changed it.
///
/// The store asks; it never changes the catalogue.
pub trait CatalogueSource: Send + Sync {
    /// Returns the current row of one pack; `None` if the catalogue does not list it.
    fn pack(&self, id: PackId) -> Result<Option<PackRow>, StoreError>;

    /// Returns whether a pack was taken out of use and its file may still be there.
    fn is_leaving(&self, id: PackId) -> Result<bool, StoreError>;

    /// Returns the catalogue if another process has changed it since the last call.
    fn newer_catalogue(&self) -> Result<Option<Catalogue>, StoreError>;

    /// Returns the catalogue with the segments' own tables in place of some merged indexes.
    fn catalogue_without(&self, indexes: &[IndexId]) -> Result<Catalogue, StoreError>;

    /// Returns the segments whose own tables are not in use, because merged indexes replace them.
    fn merged_segments(&self) -> Result<Vec<SegmentRow>, StoreError>;
}

/// The source of a catalogue that nothing changes while the store is open: a repository without a
/// database. It lists no pack, so a writer begins new ones.
pub(crate) struct NoSource;

impl CatalogueSource for NoSource {
    fn pack(&self, _: PackId) -> Result<Option<PackRow>, StoreError> {
        Ok(None)
    }

    fn is_leaving(&self, _: PackId) -> Result<bool, StoreError> {
        Ok(false)
    }

    fn newer_catalogue(&self) -> Result<Option<Catalogue>, StoreError> {
        Ok(None)
    }

    fn catalogue_without(&self, _: &[IndexId]) -> Result<Catalogue, StoreError> {
        Ok(Catalogue::default())
    }

    fn merged_segments(&self) -> Result<Vec<SegmentRow>, StoreError> {
        Ok(Vec::new())
    }
}
