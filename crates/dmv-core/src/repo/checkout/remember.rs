//! What the stat cache says after a checkout.

use super::switch::{Switch, Written};
use crate::fsutil::Fingerprint;
use crate::object::tree::Kind;
use crate::repo::ChangeKind;
use crate::worktree::cacheupdate::CacheUpdate;
use crate::worktree::join;
use crate::worktree::known::TreeKnown;
use crate::worktree::scan::Known;
use crate::worktree::statcache::Section;
use std::collections::{BTreeMap, HashMap};

impl Switch<'_> {
    /// Writes the stat cache for the target.
    pub(super) fn remember(&self) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        let tree = TreeKnown::new(
            self.repo.objects(),
            Some(self.target),
            self.tree.cache.as_ref(),
            self.subset,
        );
        let known = Remembered {
            tree,
            written: &self.written,
            dirty: &self.dirty,
        };
        let mut cache = CacheUpdate::new(&self.tree.own, self.repo.id.0, self.subset, &known);
        cache.keep_all_under(Vec::new());
        cache.finish(&self.target, true)
    }
}

/// A name, and what the stat cache says of it from now on.
type Row = (Vec<u8>, Option<(Kind, Fingerprint)>);

/// What the stat cache may say after a checkout.
struct Remembered<'a> {
    tree: TreeKnown<'a>,
    written: &'a Written,
    dirty: &'a BTreeMap<Vec<u8>, ChangeKind>,
}

impl Known for Remembered<'_> {
    fn section(
        &self,
        dir: &[u8],
    ) -> Result<Option<Section>, Box<dyn std::error::Error + Send + Sync>> {
        let Some(section) = self.tree.section(dir)? else {
            return Ok(None);
        };
        let none = HashMap::new();
        let written = self.written.get(dir).unwrap_or(&none);
        let mut rows: Vec<Row> = Vec::new();
        for entry in section.iter() {
            if let Some(print) = written.get(entry.name) {
                rows.push((entry.name.to_vec(), Some((entry.kind, *print))));
            } else if self.dirty.contains_key(&join(dir, entry.name)) {
                let suspect = Some((entry.kind, Fingerprint::SUSPECT));
                rows.push((entry.name.to_vec(), suspect));
            }
        }
        if rows.is_empty() {
            return Ok(Some(section));
        }
        Ok(Some(section.updated(
            rows.iter().map(|(name, row)| (name.as_slice(), *row)),
        )))
    }
}
