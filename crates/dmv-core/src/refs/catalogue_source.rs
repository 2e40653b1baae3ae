//! What the store asks the catalogue.

use super::Refs;
use crate::store::{Catalogue, CatalogueSource, IndexId, PackId, PackRow, SegmentRow, StoreError};

impl CatalogueSource for Refs {
    fn pack(&self, id: PackId) -> Result<Option<PackRow>, StoreError> {
        Refs::pack(self, id).map_err(unreadable)
    }

    fn is_leaving(&self, id: PackId) -> Result<bool, StoreError> {
        Refs::is_leaving(self, id).map_err(unreadable)
    }

    fn newer_catalogue(&self) -> Result<Option<Catalogue>, StoreError> {
        Refs::newer_catalogue(self).map_err(unreadable)
    }

    fn catalogue_without(&self, indexes: &[IndexId]) -> Result<Catalogue, StoreError> {
        Refs::catalogue_without(self, indexes).map_err(unreadable)
    }

    fn merged_segments(&self) -> Result<Vec<SegmentRow>, StoreError> {
        Refs::merged_segments(self).map_err(unreadable)
    }
}

fn unreadable(e: super::RefsError) -> StoreError {
    StoreError::Catalogue { why: e.to_string() }
}
