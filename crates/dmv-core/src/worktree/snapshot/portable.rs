//! Names that some systems cannot hold, or not beside each other: a snapshot leaves them out if the
//! user asks for that.

use super::{Builder, Dir, EntryChange, Problem, SnapshotError};
use crate::hash::ObjectId;
use crate::object::name::{FoldedNames, portability};
use crate::object::tree::TreeIter;
use crate::worktree::join;
use std::collections::BTreeSet;

impl Builder<'_, '_> {
    /// Returns whether a new name may be read in; reports it if not.
    pub(super) fn admit(&mut self, dir: &[u8], name: &[u8]) -> bool {
        let refused = if self.input.portable {
            portability(name).err()
        } else {
            None
        };
        if let Some(why) = refused {
            let why = format!("its name is not portable: {why}");
            self.out.problems.push(Problem::new(join(dir, name), why));
        }
        refused.is_none()
    }

    /// Removes new entries from `order` that some systems cannot hold, or not beside the others, and
    /// reports them.
    pub(super) fn leave_out_unportable(
        &mut self,
        base: Option<ObjectId>,
        dir: &Dir,
        order: &mut Vec<u32>,
    ) -> Result<(), SnapshotError> {
        let is_gone = |change: &EntryChange| matches!(change, EntryChange::Gone);
        let changes = || order.iter().map(|i| dir.changes.get(*i));
        if changes().all(|(_, change)| is_gone(change)) {
            return Ok(());
        }
        let gone = changes().filter(|(_, change)| is_gone(change));
        let gone: BTreeSet<&[u8]> = gone.map(|(name, _)| name).collect();
        let (mut names, mut old) = (FoldedNames::default(), BTreeSet::new());
        if let Some(base) = base {
            for entry in TreeIter::new(self.input.reader, base) {
                let entry = entry?;
                let name = entry.name.as_bytes();
                old.insert(name.to_vec());
                if !gone.contains(name) {
                    // The base may have both of two such names.
                    let _ = names.add(name);
                }
            }
        }
        let problems = &mut self.out.problems;
        order.retain(|i| {
            let (name, change) = dir.changes.get(*i);
            if is_gone(change) || old.contains(name) {
                return true;
            }
            let own = portability(name).map_err(str::to_owned);
            let Err(why) = own.and_then(|()| names.add(name)) else {
                return true;
            };
            let why = format!("its name is not portable: {why}");
            problems.push(Problem::new(join(&dir.path, name), why));
            false
        });
        Ok(())
    }
}
