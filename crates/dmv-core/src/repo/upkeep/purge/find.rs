//! Finding what is to be purged: all contents that a path has had, and where else they are.

use crate::hash::ObjectId;
use crate::job::Job;
use crate::merge::{entry_of, read_conflict};
use crate::object::list::{Blob, ListNode};
use crate::object::name::RepoPath;
use crate::object::tree::{Kind, TreeEntry, TreeIter, lookup_path};
use crate::object::{ObjectError, ObjectRead, ObjectType};
use crate::repo::base::error::RepoError;
use crate::repo::base::repo::Repo;
use crate::repo::look::entries::blob_of;
use crate::repo::look::stored::stored_type;
use crate::repo::upkeep::roots;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// What to purge.
#[derive(Clone, Debug)]
pub enum PurgeWhat {
    /// Everything that a file, or the files of a directory, have ever contained.
    Path(RepoPath),
    /// One content, named by its root.
    Content(ObjectId),
}

/// Contents that can be purged.
#[derive(Debug, Default)]
pub struct Purgeable {
    /// The contents, and a path of each. Each content once.
    pub files: BTreeMap<ObjectId, (RepoPath, Blob)>,
    /// Other paths of branches, tags and worktrees with the same content, in order.
    pub also: BTreeSet<RepoPath>,
    /// The keys of branches and tags whose commits have the content.
    pub refs: BTreeSet<String>,
    /// How many of the contents are purged already.
    pub known: u64,
    /// How many directories were not searched because they are absent here.
    pub unsearched: u64,
}

/// The most other paths that are noted.
const MAX_ALSO: usize = 1000;

impl Repo {
    /// Finds what a purge of a path or content would purge. Changes nothing.
    pub fn purgeable(&self, what: &PurgeWhat, job: &Job) -> Result<Purgeable, RepoError> {
        let mut search = Search {
            repo: self,
            job,
            out: Purgeable::default(),
            trees: HashSet::new(),
        };
        match what {
            PurgeWhat::Path(path) => search.all_history(path)?,
            PurgeWhat::Content(id) => search.content(id)?,
        }
        let mut out = search.out;
        let slice = self.slice()?;
        let known = out.files.keys().filter(|id| slice.purged.contains_key(id));
        out.known = known.count() as u64;
        if !out.files.is_empty() {
            find_others(self, what, &mut out, job)?;
        }
        Ok(out)
    }
}

struct Search<'a> {
    repo: &'a Repo,
    job: &'a Job,
    out: Purgeable,
    /// Directories that were searched.
    trees: HashSet<ObjectId>,
}

impl Search<'_> {
    /// Finds all contents that `path` has in any commit that is stored and named: also by operations
    /// that undo cannot reach any more.
    fn all_history(&mut self, path: &RepoPath) -> Result<(), RepoError> {
        let mut named = roots::of_courtesy(self.repo)?;
        roots::of_view(self.repo, &mut |root| {
            named.insert(root);
        })?;
        roots::of_operations_after(self.repo, 0, &mut |root| {
            named.insert(root);
        })?;
        let mut stack = Vec::new();
        for root in named {
            stack.extend(root.object(&self.repo.store)?);
        }
        let (mut seen, mut trees) = (HashSet::new(), HashSet::new());
        while let Some((ty, id)) = stack.pop() {
            self.job.check()?;
            let tree = match ty {
                ObjectType::Commit if seen.insert(id) && self.repo.holds(ty, &id)? => {
                    let commit = self.repo.read_commit(&id)?;
                    let parents = commit.parents.iter();
                    stack.extend(parents.map(|id| (ObjectType::Commit, *id)));
                    commit.tree
                }
                ObjectType::Tree => id,
                _ => continue,
            };
            if trees.insert(tree) {
                self.in_tree(&tree, path)?;
            }
        }
        Ok(())
    }

    fn in_tree(&mut self, tree: &ObjectId, path: &RepoPath) -> Result<(), RepoError> {
        if path.is_root() {
            return self.in_dir(tree, path);
        }
        match lookup_path(self.repo.objects(), tree, path) {
            Ok(Some(entry)) => self.entry(path, &entry),
            Ok(None) => Ok(()),
            Err(ObjectError::Missing { .. }) => {
                self.out.unsearched += 1;
                Ok(())
            }
            Err(e) => Err(e.into()),
        }
    }

    fn entry(&mut self, path: &RepoPath, entry: &TreeEntry) -> Result<(), RepoError> {
        let mut stack = vec![(path.clone(), entry.clone())];
        while let Some((path, entry)) = stack.pop() {
            match entry.kind {
                Kind::File | Kind::Executable if entry.size > 0 => {
                    let blob = blob_of(&entry);
                    self.out.files.entry(blob.id).or_insert((path, blob));
                }
                Kind::Directory => self.in_dir(&entry.id, &path)?,
                Kind::Conflict if self.repo.holds(ObjectType::Conflict, &entry.id)? => {
                    let conflict = read_conflict(self.repo, &entry.id)?;
                    let terms = conflict.bases.iter().chain(&conflict.sides).flatten();
                    let terms = terms.map(|term| entry_of(&entry.name, term, None));
                    stack.extend(terms.map(|term| (path.clone(), term)));
                }
                Kind::Conflict => self.out.unsearched += 1,
                Kind::File | Kind::Executable | Kind::Symlink => {}
            }
        }
        Ok(())
    }

    fn in_dir(&mut self, tree: &ObjectId, path: &RepoPath) -> Result<(), RepoError> {
        let mut dirs = vec![(path.clone(), *tree)];
        while let Some((dir, tree)) = dirs.pop() {
            self.job.check()?;
            if !self.trees.insert(tree) {
                continue;
            }
            for entry in TreeIter::new(self.repo.objects(), tree) {
                let entry = match entry {
                    Err(ObjectError::Missing { .. }) => {
                        self.out.unsearched += 1;
                        break;
                    }
                    entry => entry?,
                };
                let Ok(path) = dir.join(&entry.name) else {
                    continue;
                };
                match entry.kind {
                    Kind::Directory => dirs.push((path, entry.id)),
                    _ => self.entry(&path, &entry)?,
                }
            }
        }
        Ok(())
    }

    fn content(&mut self, id: &ObjectId) -> Result<(), RepoError> {
        let blob = match stored_type(self.repo, id)? {
            Some(ty @ ObjectType::List) => {
                let bytes = self.repo.objects().require(ty, id)?;
                let node = ListNode::decode(&bytes);
                Blob {
                    id: *id,
                    is_list: true,
                    size: node
                        .map_err(|e| ObjectError::undecodable(ty, id, e))?
                        .size(),
                }
            }
            Some(ty) => Blob {
                id: *id,
                is_list: false,
                size: self.repo.objects().require(ty, id)?.len() as u64,
            },
            None => return Ok(()),
        };
        self.out.files.insert(*id, (RepoPath::root(), blob));
        Ok(())
    }
}

/// Finds where the newest commits have the contents.
fn find_others(
    repo: &Repo,
    what: &PurgeWhat,
    out: &mut Purgeable,
    job: &Job,
) -> Result<(), RepoError> {
    let mut others = Others {
        repo,
        job,
        out,
        what,
        known: HashMap::new(),
    };
    for prefix in ["branch/", "tag/", "worktree/"] {
        for (key, value) in repo.refs.with_prefix(prefix)? {
            let is_tip = prefix != "worktree/" || key.ends_with("/base");
            let id = <[u8; 32]>::try_from(&value[..])
                .ok()
                .map(ObjectId::from_bytes);
            let Some(id) = id.filter(|_| is_tip) else {
                continue;
            };
            if repo.holds(ObjectType::Commit, &id)? {
                let tree = repo.read_commit(&id)?.tree;
                if others.has(&RepoPath::root(), tree)? && prefix != "worktree/" {
                    others.out.refs.insert(key);
                }
            }
        }
    }
    Ok(())
}

struct Others<'a> {
    repo: &'a Repo,
    job: &'a Job,
    out: &'a mut Purgeable,
    what: &'a PurgeWhat,
    /// Directories, and whether they have one of the contents.
    known: HashMap<ObjectId, bool>,
}

impl Others<'_> {
    /// Returns whether a directory has one of the contents. The nesting of directories is bounded by the
    /// length of paths.
    fn has(&mut self, dir: &RepoPath, tree: ObjectId) -> Result<bool, RepoError> {
        if let Some(has) = self.known.get(&tree) {
            return Ok(*has);
        }
        self.job.check()?;
        let mut found = false;
        for entry in TreeIter::new(self.repo.objects(), tree) {
            let entry = match entry {
                Err(ObjectError::Missing { .. }) => break,
                entry => entry?,
            };
            let Ok(path) = dir.join(&entry.name) else {
                continue;
            };
            if entry.kind == Kind::Directory {
                found |= self.has(&path, entry.id)?;
            } else if let Some((known, _)) = self.out.files.get_mut(&entry.id) {
                found = true;
                if known.is_root() {
                    *known = path;
                    continue;
                }
                let is_asked_for = match self.what {
                    PurgeWhat::Path(asked) => path.starts_with(asked),
                    PurgeWhat::Content(_) => *known == path,
                };
                if !is_asked_for && self.out.also.len() < MAX_ALSO {
                    self.out.also.insert(path);
                }
            }
        }
        self.known.insert(tree, found);
        Ok(found)
    }
}
