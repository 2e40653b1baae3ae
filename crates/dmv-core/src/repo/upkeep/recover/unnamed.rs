//! Finds commits that no operation names.
//!
//! If the operation log or its end may be lost together with the database, only the packs still
//! contain these commits. `recover` uses it.

use crate::hash::ObjectId;
use crate::history::load_commit;
use crate::job::Job;
use crate::object::commit::{Commit, Person};
use crate::object::{ObjectRead, ObjectType};
use crate::refs::{Change, Effect, NewOperation, Operation, Origin, view_of};
use crate::repo::base::error::RepoError;
use crate::repo::base::keys::{NamedObject, named_by};
use crate::repo::base::publish::set;
use crate::repo::upkeep::recover::heads::now;
use crate::store::{Mark, Marks, PackId, Store, StoreError};
use std::collections::{BTreeSet, HashSet};

/// How complete the found operations are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogCompleteness {
    /// The database and the log confirm each other.
    Everything,
    /// No loss shows, but nothing proves that the last operation found was the last one.
    Perhaps,
    /// Something was lost.
    NotAll,
}

/// A search for commits that no operation names and no other commit has as a parent, with
/// everything that they need.
pub struct Search<'s> {
    pub store: &'s Store,
    pub told: LogCompleteness,
    /// Whether objects may be absent by choice.
    pub is_partial: bool,
    /// Packs that another repository has written. What lies only in them may be what that one has
    /// thrown away.
    pub shared: &'s HashSet<PackId>,
    pub job: &'s Job,
}

/// A commit that gets a branch.
pub struct Tip {
    id: ObjectId,
    committer: Person,
}

/// The most branches that one operation makes.
const MOST_BRANCHES: usize = 1000;

impl Search<'_> {
    /// Returns the newest commits of each history that no operation of `found` leads to.
    ///
    /// Commits in shared packs do not count, unless no operation names anything any more.
    ///
    /// If something was lost, damaged commits count as well: they may be the only copies.
    /// Otherwise an incomplete commit comes from a killed command and is left out.
    pub fn tips(&self, found: &[Operation]) -> Result<Vec<Tip>, RepoError> {
        let mut reached = self.store.marks();
        let named: Vec<ObjectId> = found.iter().flat_map(ids_in).collect();
        // Without a name, everything here would be lost with the other repository.
        let none = HashSet::new();
        let shared = if named.is_empty() { &none } else { self.shared };
        for id in named {
            self.mark_history(id, &mut reached)?;
        }
        let mut followed = reached.blank();
        self.each_unnamed(&reached, shared, &mut |_, commit| {
            for parent in &commit.parents {
                followed.mark(parent)?;
            }
            Ok(())
        })?;
        let mut tips: Vec<Tip> = Vec::new();
        self.each_unnamed(&reached, shared, &mut |id, commit| {
            if !followed.has(id)? {
                tips.push(Tip {
                    id: *id,
                    committer: commit.committer,
                });
            }
            Ok(())
        })?;
        tips.sort_by_key(|tip| tip.id);
        tips.dedup_by_key(|tip| tip.id);
        if self.told == LogCompleteness::Perhaps {
            let mut whole = Vec::new();
            for tip in tips {
                if self.is_whole(tip.id, &reached)? {
                    whole.push(tip);
                }
            }
            tips = whole;
        }
        Ok(tips)
    }

    /// Marks a commit and its ancestors.
    fn mark_history(&self, id: ObjectId, reached: &mut Marks) -> Result<(), StoreError> {
        let mut stack = vec![id];
        while let Some(id) = stack.pop() {
            self.job.check()?;
            // The parents of a damaged commit are unknown.
            if reached.mark(&id)? == Mark::New
                && let Ok(commit) = load_commit(self.store, &id)
            {
                stack.extend(commit.parents);
            }
        }
        Ok(())
    }

    /// Visits the unmarked commits outside the packs `shared` whose tree is stored. Visits a commit
    /// twice if it is stored twice.
    fn each_unnamed(
        &self,
        reached: &Marks,
        shared: &HashSet<PackId>,
        visit: &mut dyn FnMut(&ObjectId, Commit) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        reached.each(&mut |id, pack, place, is_marked| {
            self.job.check()?;
            if is_marked || place.ty != ObjectType::Commit || shared.contains(&pack) {
                return Ok(());
            }
            let Ok(commit) = load_commit(self.store, id) else {
                return Ok(());
            };
            match self.store.pack_of(&commit.tree)? {
                Some(_) => visit(id, commit),
                None => Ok(()),
            }
        })
    }

    /// Returns whether everything that a commit needs is stored, up to the marked history.
    fn is_whole(&self, id: ObjectId, reached: &Marks) -> Result<bool, RepoError> {
        let mut seen = reached.blank();
        let mut stack = vec![(ObjectType::Commit, id)];
        while let Some((ty, id)) = stack.pop() {
            self.job.check()?;
            if ty == ObjectType::Commit && reached.has(&id)? {
                continue;
            }
            match seen.mark(&id)? {
                Mark::Absent if !self.is_partial => return Ok(false),
                Mark::New if ty != ObjectType::Chunk => {}
                _ => continue,
            }
            let bytes = self.store.read(ty, &id).ok().flatten();
            match bytes.and_then(|bytes| ty.links(&bytes).ok()) {
                Some(links) => stack.extend(links),
                None => return Ok(false),
            }
        }
        Ok(true)
    }
}

/// Returns every object that an operation names. Former values count: a ref that was removed from
/// the view is not lost.
fn ids_in(operation: &Operation) -> impl Iterator<Item = ObjectId> + use<'_> {
    let named = |change: &Change| {
        let values = change.old.iter().chain(&change.new);
        let named = values.flat_map(|value| named_by(&change.key, value));
        named.map(NamedObject::id).collect::<Vec<_>>()
    };
    operation.changes.iter().flat_map(named)
}

/// Returns the operations that make branches for `tips`, to follow those of `chain`, and the
/// branches' names.
pub fn branches_for(tips: &[Tip], chain: &[Operation]) -> (Vec<Operation>, Vec<String>) {
    let view = view_of(chain);
    let (mut made, mut names): (Vec<Operation>, BTreeSet<String>) = Default::default();
    for some in tips.chunks(MOST_BRANCHES) {
        let mut changes = Vec::new();
        for tip in some {
            let short = format!("recovered/{}", tip.id.short(12));
            let is_taken = view.contains_key(&*key_of(&short)) || names.contains(&short);
            let name = if is_taken {
                format!("recovered/{}", tip.id)
            } else {
                short
            };
            changes.push(set(key_of(&name), tip.id.as_bytes().to_vec()));
            names.insert(name);
        }
        let newest = some.iter().map(|tip| &tip.committer);
        let newest = newest.max_by_key(|person| person.seconds);
        let who = newest.map_or_else(String::new, |p| format!("{} <{}>", p.name, p.email));
        let new = NewOperation {
            time: now(),
            who,
            command: "dmv recover".to_owned(),
            undoes: 0,
            // The operation belongs to no worktree, so that no undo there reverses it.
            origin: Origin {
                worktree: String::new(),
                effect: Effect::Kept,
            },
            changes,
            since: None,
        };
        made.push(Operation::after(made.last().or(chain.last()), new));
    }
    (made, names.into_iter().collect())
}

fn key_of(name: &str) -> String {
    format!("branch/{name}")
}
