//! Finds the paths and commits that need an object: those that damage affects, and those of content
//! that is absent.

use crate::hash::ObjectId;
use crate::job::Job;
use crate::object::list::ListNode;
use crate::object::name::RepoPath;
use crate::object::tree::Node;
use crate::object::{ObjectRead, ObjectType};
use crate::repo::base::error::RepoError;
use crate::repo::base::keys::{NamedObject, named_by};
use crate::repo::base::repo::Repo;
use crate::repo::upkeep::verify::{AffectedPath, DamagedObject, VerifyReport};
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};

/// The most paths, commits and refs reported for one object.
const MAX_USES: usize = 8;

/// Adds to each object of a report, and to each of `healed`, what needs it, and to the report which paths are
/// affected and how much content is lost. Does nothing if nothing is damaged and healed.
pub fn name_uses(
    repo: &Repo,
    report: &mut VerifyReport,
    healed: &mut [DamagedObject],
    job: &Job,
) -> Result<(), RepoError> {
    let broken = report.damaged.iter_mut().chain(&mut report.missing);
    let mut objects: Vec<_> = broken.collect();
    let broken = objects.iter().map(|object| object.id).collect();
    objects.extend(healed);
    let wanted = objects.iter().map(|object| (object.id, (*object).clone()));
    let mut search = Search {
        repo,
        wanted: wanted.collect(),
        broken,
        sizes: HashMap::new(),
        affected: BTreeMap::new(),
        seen: HashSet::new(),
    };
    if search.wanted.is_empty() {
        return Ok(());
    }
    search.run(job)?;
    for object in objects {
        if let Some(found) = search.wanted.get(&object.id) {
            *object = found.clone();
        }
    }
    report.lost_bytes = search.sizes.into_values().sum();
    let affected = search.affected.into_iter();
    report.affected = affected
        .map(|(path, commit)| AffectedPath { path, commit })
        .collect();
    Ok(())
}

struct Search<'r> {
    repo: &'r Repo,
    wanted: HashMap<ObjectId, DamagedObject>,
    /// The objects among these that are damaged or missing.
    broken: HashSet<ObjectId>,
    /// The lengths of the chunks among these.
    sizes: HashMap<ObjectId, u64>,
    /// The paths that they affect, each with the first commit that was found to have it.
    affected: BTreeMap<RepoPath, Option<ObjectId>>,
    /// Trees and lists that have been searched, with their paths.
    seen: HashSet<(RepoPath, ObjectId)>,
}

impl Search<'_> {
    fn run(&mut self, job: &Job) -> Result<(), RepoError> {
        let (mut commits, mut seen) = (Vec::new(), HashSet::new());
        for (key, value) in self.repo.refs.with_prefix("")? {
            for named in named_by(&key, &value) {
                match named {
                    NamedObject::Commit(id) => {
                        if let Some(damaged) = self.wanted.get_mut(&id) {
                            note(&mut damaged.refs, key.clone());
                        }
                        commits.push(id);
                    }
                    NamedObject::Perhaps(_) => {}
                }
            }
        }
        while let Some(id) = commits.pop() {
            job.check()?;
            if !seen.insert(id) {
                continue;
            }
            // The search ends at a commit that cannot be read. The report has it by its own id.
            let Ok(commit) = self.repo.read_commit(&id) else {
                continue;
            };
            for parent in &commit.parents {
                if let Some(damaged) = self.wanted.get_mut(parent) {
                    note(&mut damaged.commits, id);
                }
            }
            commits.extend(commit.parents);
            self.look_through(commit.tree, Some(id));
        }
        Ok(())
    }

    /// Searches a root directory, except for parts that were searched at the same path.
    fn look_through(&mut self, tree: ObjectId, commit: Option<ObjectId>) {
        let Search {
            repo,
            wanted,
            broken,
            sizes,
            affected,
            seen,
        } = self;
        each_below(repo, tree, seen, &mut |path, found| {
            let Some(damaged) = wanted.get_mut(&found.id) else {
                return;
            };
            note(&mut damaged.paths, path.clone());
            if let Some(commit) = commit {
                note(&mut damaged.commits, commit);
            }
            if broken.contains(&found.id) {
                affected.entry(path.clone()).or_insert(commit);
                if found.ty == ObjectType::Chunk {
                    sizes.insert(found.id, found.content_bytes);
                }
            }
        });
    }
}

/// An object below a directory.
struct Below {
    ty: ObjectType,
    id: ObjectId,
    /// Bytes of content below it, as its parent says; 0 if that says nothing.
    content_bytes: u64,
}

/// Calls `found` with the path of each object below a root directory, except for those below what is in
/// `seen`. Passes over what cannot be read.
fn each_below(
    repo: &Repo,
    tree: ObjectId,
    seen: &mut HashSet<(RepoPath, ObjectId)>,
    found: &mut dyn FnMut(&RepoPath, &Below),
) {
    let root = Below {
        ty: ObjectType::Tree,
        id: tree,
        content_bytes: 0,
    };
    let mut stack = vec![(RepoPath::root(), root)];
    while let Some((path, object)) = stack.pop() {
        found(&path, &object);
        let Below { ty, id, .. } = object;
        if ty == ObjectType::Chunk || !seen.insert((path.clone(), id)) {
            continue;
        }
        let Ok(Some(bytes)) = repo.read(ty, &id) else {
            continue;
        };
        let links = ty.links(&bytes).unwrap_or_default().into_iter();
        let below = |(ty, id), content_bytes| Below {
            ty,
            id,
            content_bytes,
        };
        let list = (ty == ObjectType::List).then(|| ListNode::decode(&bytes));
        let node = (ty == ObjectType::Tree).then(|| Node::decode(&bytes));
        match (node, list) {
            (Some(Ok(Node::Leaf(entries))), _) => {
                for (entry, link) in entries.iter().zip(links) {
                    let path = path.join(&entry.name);
                    stack.extend(path.map(|path| (path, below(link, entry.size))));
                }
            }
            (_, Some(Ok(list))) => {
                let links = list.entries.iter().zip(links);
                stack.extend(links.map(|(entry, link)| (path.clone(), below(link, entry.len))));
            }
            _ => stack.extend(links.map(|link| (path.clone(), below(link, 0)))),
        }
    }
}

/// The most commits that [`uses_of`] searches: it is for a message.
const MAX_COMMITS: usize = 1000;

impl Repo {
    /// Returns some of the files that have one of `objects`, each with a commit that has it.
    ///
    /// Searches up to a thousand commits, so it may find none.
    pub fn uses_of(
        &self,
        objects: &HashSet<ObjectId>,
        job: &Job,
    ) -> Result<Vec<(RepoPath, ObjectId)>, RepoError> {
        let (mut commits, mut seen) = (VecDeque::new(), HashSet::new());
        for (key, value) in self.refs.with_prefix("")? {
            commits.extend(
                named_by(&key, &value)
                    .into_iter()
                    .filter_map(NamedObject::commit),
            );
        }
        let (mut searched, mut uses) = (HashSet::new(), BTreeMap::new());
        while let Some(id) = commits.pop_front() {
            job.check()?;
            if searched.len() >= MAX_COMMITS || uses.len() >= MAX_USES {
                break;
            }
            if !searched.insert(id) {
                continue;
            }
            let Ok(commit) = self.read_commit(&id) else {
                continue;
            };
            commits.extend(commit.parents);
            each_below(self, commit.tree, &mut seen, &mut |path, object| {
                if objects.contains(&object.id) && uses.len() < MAX_USES {
                    uses.entry(path.clone()).or_insert(id);
                }
            });
        }
        Ok(uses.into_iter().collect())
    }
}

/// Adds an item to a list that does not have it, if the list is short.
fn note<T: PartialEq>(list: &mut Vec<T>, item: T) {
    if list.len() < MAX_USES && !list.contains(&item) {
        list.push(item);
    }
}
