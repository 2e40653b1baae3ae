//! The walk over everything that history names and this repository's slice calls for.

use super::{Damaged, VerifyReport, names_commit};
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
use crate::repo::{Repo, RepoError};
use crate::subset::Union;
use std::collections::HashSet;

/// An object that is called for, and as what.
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

/// What an object refers to.
#[derive(Default)]
struct Below {
    called_for: Vec<Item>,
    /// What may be absent by choice.
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

impl Repo {
    /// Walks everything that the view names and the slice calls for, once each, and notes what is
    /// not there; counts what is named and absent by choice.
    pub(super) fn verify_history(
        &self,
        report: &mut VerifyReport,
        job: &Job,
    ) -> Result<(), RepoError> {
        let slice = self.slice()?;
        let filter = Filter {
            paths: Union::of([slice.subset]),
            metadata_only: slice.metadata_only,
            shallow: slice.boundary,
            dropped: slice.dropped,
            ..Filter::default()
        };
        let mut seen: HashSet<ObjectId> = HashSet::new();
        let mut stack: Vec<Item> = Vec::new();
        let mut absent: HashSet<ObjectId> = HashSet::new();
        // Lists of files that were given up.
        let mut given_up: HashSet<ObjectId> = HashSet::new();
        let bad: HashSet<ObjectId> = report.damaged.iter().map(|d| d.id).collect();
        for (key, value) in self.refs.with_prefix("")? {
            if let (true, Ok(bytes)) = (names_commit(&key), <[u8; 32]>::try_from(value)) {
                let id = ObjectId::from_bytes(bytes);
                stack.push(Item::new(ObjectType::Commit, id));
            }
        }
        while let Some(item) = stack.pop() {
            if job.is_cancelled() {
                return Err(RepoError::Cancelled);
            }
            let (ty, id) = (item.ty, item.id);
            let gone = || Damaged {
                id,
                ty,
                paths: Vec::new(),
            };
            // Chunks are many and have nothing below them: asking twice costs less than remembering.
            if ty == ObjectType::Chunk {
                if !bad.contains(&id) && !self.is_stored(&id, report)? {
                    report.missing.push(gone());
                }
                continue;
            }
            if !seen.insert(item.scope.key(&id)) || bad.contains(&id) {
                continue;
            }
            match self.references(&filter, &item) {
                Ok(Some(below)) => {
                    stack.extend(below.called_for);
                    for (ty, id) in below.others {
                        if ty == ObjectType::Chunk {
                            report.absent += u64::from(!self.is_stored(&id, report)?);
                            continue;
                        }
                        if absent.contains(&id) || given_up.contains(&id) {
                            continue;
                        }
                        if !self.is_stored(&id, report)? {
                            absent.insert(id);
                        } else if ty == ObjectType::List {
                            given_up.insert(id);
                            report.absent += self.absent_chunks(id, report)?;
                        }
                    }
                }
                Ok(None) => report.missing.push(gone()),
                Err(ObjectError::Damaged { id, ty, .. }) => {
                    let paths = Vec::new();
                    report.damaged.push(Damaged { id, ty, paths });
                }
                // A damaged table is in the report already; what it hides counts as missing.
                Err(ObjectError::Store(_)) if !report.files.is_empty() => {
                    report.missing.push(gone());
                }
                Err(e) => return Err(e.into()),
            }
        }
        // What one place does not call for may be called for by another.
        let missing: HashSet<ObjectId> = report.missing.iter().map(|d| d.id).collect();
        report.absent += absent.difference(&missing).count() as u64;
        Ok(())
    }

    /// How many chunks under a list are not stored, as far as lists are.
    fn absent_chunks(&self, list: ObjectId, report: &VerifyReport) -> Result<u64, RepoError> {
        let (mut absent, mut stack) = (0, vec![list]);
        while let Some(id) = stack.pop() {
            // A list that is damaged is in the report, by the check of its pack.
            let Ok(Some(bytes)) = self.store.read(ObjectType::List, &id) else {
                continue;
            };
            for (ty, id) in ObjectType::List.links(&bytes).unwrap_or_default() {
                match ty {
                    ObjectType::List => stack.push(id),
                    _ => absent += u64::from(!self.is_stored(&id, report)?),
                }
            }
        }
        Ok(absent)
    }

    fn is_stored(&self, id: &ObjectId, report: &VerifyReport) -> Result<bool, RepoError> {
        let found = match self.store.pack_of(id) {
            Err(_) if !report.files.is_empty() => None,
            found => found?,
        };
        Ok(found.is_some() || self.store.has(id).unwrap_or(false))
    }

    /// What an object refers to; `None` when it is not stored.
    fn references(&self, filter: &Filter, item: &Item) -> Result<Option<Below>, ObjectError> {
        let Item { ty, id, scope } = item;
        let Some(bytes) = self.store.read(*ty, id)? else {
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
}

/// Adds what an entry or a side of a conflict stands for.
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
            let ty = match is_list {
                true => ObjectType::List,
                false => ObjectType::Chunk,
            };
            below.add(ty, id, scope.filter(|_| is_held(ty)));
        }
    }
}
