//! What a bucket may lack, whatever its commits lead to.

use crate::format::{Expirations, Purges};
use dmv_core::hash::ObjectId;
use std::collections::BTreeSet;

/// Files that commits may lead to although they are absent.
#[derive(Clone, Debug, Default)]
pub struct MayBeAbsent {
    /// What was purged.
    pub purges: Purges,
    /// What has expired.
    pub expired: Expirations,
}

impl MayBeAbsent {
    /// Makes files count as present that had expired.
    pub fn take_back(&mut self, files: &BTreeSet<ObjectId>) {
        for expired in self.expired.values_mut() {
            expired.retain(|id| !files.contains(id));
        }
        self.expired.retain(|_, expired| !expired.is_empty());
    }
}
