//! Expiring in the simulation: gc that also lists objects which may be absent from then on, unless a branch or
//! tag has them at its tip.

use super::purge::{id, object};
use super::*;
use crate::format::Expirations;
use dmv_core::repo::Expiry;

impl World {
    /// Begins to expire those of some objects that no branch has.
    pub fn expire(&mut self, actor: usize, files: BTreeSet<Object>) {
        self.collect(actor, 0, false);
        self.actors[actor].expires = files;
    }

    /// Returns the expired objects of a root; `None` if a page is missing.
    pub(super) fn expired_at(&self, root: &Root) -> Option<BTreeSet<Object>> {
        let mut expired = BTreeSet::new();
        for page in &root.expired {
            let Page::Expired(listed) = self.page(page.name)? else {
                return None;
            };
            expired.extend(listed.values().flatten().map(object));
        }
        Some(expired)
    }

    /// Returns those of the objects to expire that the log leads to, and no branch.
    pub(super) fn expiring(
        &self,
        actor: usize,
        root: &Root,
        tips: &BTreeSet<Object>,
        absent: &BTreeSet<Object>,
    ) -> BTreeSet<Object> {
        let mut files = self.actors[actor].expires.clone();
        let of_log = self.walk(tips.iter().copied(), absent);
        files.retain(|object| of_log.contains(object) && !self.commits.contains(object));
        if self.broken != Some(Broken::ExpireTips) {
            let of_view = self.tips(root, u64::MAX).unwrap_or_default();
            let stays = self.walk(of_view, absent);
            files.retain(|object| !stays.contains(object));
        }
        files
    }

    /// Returns what the root is told of expired objects.
    pub(super) fn expirations(files: &BTreeSet<Object>) -> Expirations {
        let why = Expiry {
            at: 0,
            rule: "none".to_owned(),
            pattern: "*".to_owned(),
        };
        let ids: BTreeSet<_> = files.iter().map(|object| id(*object)).collect();
        let listed = (!ids.is_empty()).then_some((why, ids));
        listed.into_iter().collect()
    }

    /// Returns the expired objects that new tips have: a push brings them.
    pub(super) fn back(
        &self,
        tips: &[Object],
        expired: &BTreeSet<Object>,
        purged: &BTreeSet<Object>,
    ) -> BTreeSet<Object> {
        let mut back = self.walk(tips.iter().copied(), purged);
        back.retain(|object| expired.contains(object));
        back
    }

    /// Checks that no branch has an expired object at its tip.
    pub(super) fn check_expired(
        &self,
        root: &Root,
        expired: &BTreeSet<Object>,
        purged: &BTreeSet<Object>,
    ) -> Result<(), Hole> {
        let tips = self.tips(root, u64::MAX).ok_or("the view cannot be read")?;
        let named = self.walk(tips, purged);
        match expired.intersection(&named).next() {
            Some(object) => Err(format!("object {object} of a branch counts as expired")),
            None => Ok(()),
        }
    }
}
