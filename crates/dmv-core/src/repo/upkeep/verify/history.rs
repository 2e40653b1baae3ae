//! The walk over everything that history names and that this repository's slice calls for.
//!
//! `verify` and `heal` use it.

use crate::hash::ObjectId;
use crate::job::Job;
use crate::object::commit::Commit;
use crate::object::conflict::Conflict;
use crate::object::list::ListNode;
use crate::object::name::NameError;
use crate::object::tree::{Kind, Node};
use crate::object::{ObjectError, ObjectRead, ObjectType};
use crate::reach::Filter;
use crate::reach::filter::Scope;
use crate::repo::base::error::RepoError;
use crate::repo::base::keys::named_by;
use crate::repo::base::repo::Repo;
use crate::store::MAX_LOOK_UPS;
use crate::subset::Union;
use std::collections::{BTreeMap, HashSet};

/// An object that the slice calls for, and in which scope.
struct Item {
    ty: ObjectType,
    id: ObjectId,
    scope: Scope,
}

impl Item {
    fn new(ty: ObjectType, id: ObjectId) -> Item {
        let scope = Scope::All;
        Item { ty, id, scope }
    }
}

/// The objects that an object refers to.
#[derive(Default)]
struct Below {
    called_for: Vec<Item>,
    /// Objects that may be absent by choice.
    others: Vec<(ObjectType, ObjectId)>,
}

impl Below {
    fn add(&mut self, ty: ObjectType, id: ObjectId, scope: Option<Scope>) {
        match scope {
            Some(scope) => self.called_for.push(Item { ty, id, scope }),
            None => self.others.push((ty, id)),
        }
    }
}

/// A walk that visits everything that the view names and the slice calls for, once each. It notes
/// what is not stored, and can continue below an object once it is healed.
pub struct Walk {
    filter: Filter,
    seen: HashSet<ObjectId>,
    stack: Vec<Item>,
    /// Objects that could not be read. Chunks are left out, since nothing lies below them.
    stopped: Vec<Item>,
    /// Objects that a check has found damaged before the walk.
    bad: HashSet<ObjectId>,
    /// Whether a table is damaged. Objects that it hides count as missing.
    is_blind: bool,
    /// Objects that are named and not stored.
    pub missing: BTreeMap<ObjectId, ObjectType>,
    /// Objects that are stored but cannot be read.
    pub damaged: BTreeMap<ObjectId, ObjectType>,
    absent: HashSet<ObjectId>,
    absent_chunks: u64,
    /// Chunks that are to be looked up together: those that the slice calls for, and the others.
    chunks: Vec<(ObjectType, ObjectId)>,
    other_chunks: Vec<(ObjectType, ObjectId)>,
    /// Lists of files that were given up.
    given_up: HashSet<ObjectId>,
}

impl Walk {
    /// Begins at the objects that the view names.
    pub fn new(repo: &Repo, bad: HashSet<ObjectId>, is_blind: bool) -> Result<Walk, RepoError> {
        let slice = repo.slice()?;
        let filter = Filter {
            dropped: slice.given_up(),
            paths: Union::of([slice.subset]),
            metadata_only: slice.metadata_only,
            shallow: slice.boundary,
            ..Filter::default()
        };
        let mut stack = Vec::new();
        for (key, value) in repo.refs.with_prefix("")? {
            for named in named_by(&key, &value) {
                // What a value of an unknown key needs is unknown, too.
                let commit = named.commit();
                stack.extend(commit.map(|id| Item::new(ObjectType::Commit, id)));
            }
        }
        Ok(Walk {
            filter,
            seen: HashSet::new(),
            stack,
            stopped: Vec::new(),
            bad,
            is_blind,
            missing: BTreeMap::new(),
            damaged: BTreeMap::new(),
            absent: HashSet::new(),
            absent_chunks: 0,
            chunks: Vec::new(),
            other_chunks: Vec::new(),
            given_up: HashSet::new(),
        })
    }

    /// Returns the number of named objects that are absent by choice, as far as the walk has come.
    pub fn absent(&self) -> u64 {
        // An object that one place does not call for may be called for by another.
        let absent = self.absent.iter();
        let by_choice = absent.filter(|id| !self.missing.contains_key(id));
        self.absent_chunks + by_choice.count() as u64
    }

    /// Notes that some objects are intact now. The walk continues below them.
    pub fn is_intact_now(&mut self, healed: &HashSet<ObjectId>) {
        self.missing.retain(|id, _| !healed.contains(id));
        self.damaged.retain(|id, _| !healed.contains(id));
        self.bad.retain(|id| !healed.contains(id));
        let goes_on = |item: &mut Item| healed.contains(&item.id);
        for item in self.stopped.extract_if(.., goes_on) {
            self.seen.remove(&item.scope.key(&item.id));
            self.stack.push(item);
        }
    }

    /// Continues as far as possible.
    pub fn run(&mut self, repo: &Repo, job: &Job) -> Result<(), RepoError> {
        while let Some(item) = self.stack.pop() {
            job.check()?;
            let (ty, id) = (item.ty, item.id);
            // Chunks are many and have nothing below them: checking twice is cheaper than
            // remembering.
            if ty == ObjectType::Chunk {
                if !self.bad.contains(&id) {
                    self.chunks.push((ty, id));
                }
                self.look_up_chunks(repo, MAX_LOOK_UPS)?;
                continue;
            }
            if !self.seen.insert(item.scope.key(&id)) {
                continue;
            }
            if self.bad.contains(&id) {
                self.stopped.push(item);
                continue;
            }
            match references(repo, &self.filter, &item) {
                Ok(Some(below)) => {
                    self.stack.extend(below.called_for);
                    for (ty, id) in below.others {
                        self.count_absent(repo, ty, id)?;
                    }
                    self.look_up_chunks(repo, MAX_LOOK_UPS)?;
                    continue;
                }
                Ok(None) => self.missing.insert(id, ty),
                Err(ObjectError::Damaged { id, ty, .. }) => self.damaged.insert(id, ty),
                // A damaged table is in the report already. Objects that it hides count as missing.
                Err(ObjectError::Store(_)) if self.is_blind => self.missing.insert(id, ty),
                Err(e) => return Err(e.into()),
            };
            self.stopped.push(item);
        }
        self.look_up_chunks(repo, 1)
    }

    /// Looks up the collected chunks, if they are at least this many.
    fn look_up_chunks(&mut self, repo: &Repo, least: usize) -> Result<(), RepoError> {
        if self.chunks.len() >= least {
            let chunks = std::mem::take(&mut self.chunks);
            let held = self.are_stored(repo, &chunks)?;
            let missing = chunks.iter().zip(held).filter(|(_, held)| !held);
            self.missing.extend(missing.map(|((ty, id), _)| (*id, *ty)));
        }
        if self.other_chunks.len() >= least {
            let chunks = std::mem::take(&mut self.other_chunks);
            let held = self.are_stored(repo, &chunks)?;
            self.absent_chunks += held.iter().filter(|held| !**held).count() as u64;
        }
        Ok(())
    }

    /// Counts an object and the chunks under it, as far as they are absent by choice.
    fn count_absent(&mut self, repo: &Repo, ty: ObjectType, id: ObjectId) -> Result<(), RepoError> {
        if ty == ObjectType::Chunk {
            self.other_chunks.push((ty, id));
        } else if self.absent.contains(&id) || self.given_up.contains(&id) {
            // The object has been counted.
        } else if !self.is_stored(repo, &id)? {
            self.absent.insert(id);
        } else if ty == ObjectType::List {
            self.given_up.insert(id);
            self.count_absent_chunks(repo, id)?;
        }
        Ok(())
    }

    /// Counts the chunks under a list that are not stored. Skips lists that cannot be read.
    fn count_absent_chunks(&mut self, repo: &Repo, list: ObjectId) -> Result<(), RepoError> {
        let mut stack = vec![list];
        while let Some(id) = stack.pop() {
            // The check of its pack reports a damaged list.
            let Ok(Some(bytes)) = repo.store.read(ObjectType::List, &id) else {
                continue;
            };
            for (ty, id) in ObjectType::List.links(&bytes).unwrap_or_default() {
                match ty {
                    ObjectType::List => stack.push(id),
                    _ => self.other_chunks.push((ty, id)),
                }
            }
            self.look_up_chunks(repo, MAX_LOOK_UPS)?;
        }
        Ok(())
    }

    fn are_stored(
        &self,
        repo: &Repo,
        objects: &[(ObjectType, ObjectId)],
    ) -> Result<Vec<bool>, RepoError> {
        match repo.store.holds_all(objects) {
            Ok(held) => Ok(held),
            // Single look-ups tell which of them are affected.
            Err(_) => {
                let held = |(_, id): &(ObjectType, ObjectId)| self.is_stored(repo, id);
                objects.iter().map(held).collect()
            }
        }
    }

    fn is_stored(&self, repo: &Repo, id: &ObjectId) -> Result<bool, RepoError> {
        let found = match repo.store.pack_of(id) {
            Err(_) if self.is_blind => None,
            found => found?,
        };
        Ok(found.is_some() || repo.store.has(id).unwrap_or(false))
    }
}

/// Returns the objects that an object refers to, or `None` if it is not stored.
fn references(repo: &Repo, filter: &Filter, item: &Item) -> Result<Option<Below>, ObjectError> {
    let Item { ty, id, scope } = item;
    let Some(bytes) = repo.store.read(*ty, id)? else {
        return Ok(None);
    };
    let undecodable = |e| ObjectError::undecodable(*ty, id, e);
    let damaged = |e: NameError| ObjectError::Damaged {
        id: *id,
        ty: *ty,
        why: e.why().to_owned(),
    };
    let mut below = Below::default();
    match ty {
        ObjectType::Chunk => {}
        ObjectType::Commit => {
            let commit = Commit::decode(&bytes).map_err(undecodable)?;
            let goes_on = !filter.shallow.contains(id);
            for parent in commit.parents {
                let scope = goes_on.then_some(Scope::All);
                below.add(ObjectType::Commit, parent, scope);
            }
            below.add(ObjectType::Tree, commit.tree, filter.root());
        }
        ObjectType::List => {
            let node = ListNode::decode(&bytes).map_err(undecodable)?;
            let (ty, is_wanted) = match node.level {
                0 => (ObjectType::Chunk, !filter.metadata_only),
                _ => (ObjectType::List, true),
            };
            for entry in &node.entries {
                below.add(ty, entry.id, is_wanted.then_some(Scope::All));
            }
        }
        ObjectType::Tree => match Node::decode(&bytes).map_err(undecodable)? {
            Node::Inner { children, .. } => {
                for child in children {
                    below.add(ObjectType::Tree, child.id, Some(scope.clone()));
                }
            }
            Node::Leaf(entries) => {
                for entry in entries {
                    let scope = filter.below(scope, &entry).map_err(damaged)?;
                    target(
                        filter,
                        &mut below,
                        entry.kind,
                        entry.is_list,
                        entry.id,
                        scope,
                    );
                }
            }
        },
        ObjectType::Conflict => {
            let conflict = Conflict::decode(&bytes).map_err(undecodable)?;
            for term in conflict.bases.iter().chain(&conflict.sides).flatten() {
                let scope = filter.side(scope, term.kind);
                target(filter, &mut below, term.kind, term.is_list, term.id, scope);
            }
        }
    }
    Ok(Some(below))
}

/// Adds the object that an entry or a side of a conflict names.
fn target(
    filter: &Filter,
    below: &mut Below,
    kind: Kind,
    is_list: bool,
    id: ObjectId,
    scope: Option<Scope>,
) {
    let is_held = |ty| {
        let left_out = ty == ObjectType::Chunk && filter.metadata_only;
        !left_out && !filter.dropped.contains(&id)
    };
    match kind {
        Kind::Directory => below.add(ObjectType::Tree, id, scope),
        Kind::Conflict => below.add(ObjectType::Conflict, id, scope),
        _ => {
            let ty = if is_list {
                ObjectType::List
            } else {
                ObjectType::Chunk
            };
            below.add(ty, id, scope.filter(|_| is_held(ty)));
        }
    }
}
