//! What there is before and after a command: the view, the worktrees' files, and the commits' files.

use super::plain::Path;
use crate::peers::Done;
use crate::scratch::{Files, Item, files_in};
use dmv_core::hash::ObjectId;
use dmv_core::object::name::RepoPath;
use dmv_core::object::tree::{Kind, TreeEntry};
use dmv_core::repo::{Head, Repo, blob_of};
use dmv_core::subset::{Extent, Subset};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::rc::Rc;

/// What a commit has. It was read when the commit was new.
#[derive(Debug, Default)]
pub struct KnownCommit {
    /// Its files and empty directories, without those in conflict.
    pub files: Files,
    /// The paths of its conflicts.
    pub conflicts: BTreeSet<Path>,
    /// Its parents.
    pub parents: Vec<ObjectId>,
}

/// All commits of all sites.
#[derive(Default)]
pub struct World {
    commits: HashMap<ObjectId, Rc<KnownCommit>>,
    /// Contents, which may be absent in a repository by now.
    contents: HashMap<ObjectId, Vec<u8>>,
}

impl World {
    /// Returns a commit that was read.
    pub fn known(&self, id: &ObjectId) -> Option<Rc<KnownCommit>> {
        self.commits.get(id).cloned()
    }

    /// Reads a commit and its ancestors, if they are new.
    pub fn learn(&mut self, repo: &Repo, id: ObjectId) -> Done {
        let mut stack = vec![id];
        while let Some(id) = stack.pop() {
            if self.commits.contains_key(&id) {
                continue;
            }
            let known = self.read(repo, &id)?;
            stack.extend(&known.parents);
            self.commits.insert(id, Rc::new(known));
        }
        Ok(())
    }

    fn read(&mut self, repo: &Repo, id: &ObjectId) -> Done<KnownCommit> {
        let commit = repo.read_commit(id)?;
        let mut entries: Vec<(Path, TreeEntry)> = Vec::new();
        repo.list(&RepoPath::root(), commit.tree, true, &mut |listed| {
            entries.push((listed.path.as_bytes().to_vec(), listed.entry));
            Ok(ControlFlow::Continue(()))
        })?;
        let mut known = KnownCommit {
            parents: commit.parents,
            ..KnownCommit::default()
        };
        for (path, entry) in entries {
            let item = match entry.kind {
                Kind::File | Kind::Executable => {
                    Item::File(self.content(repo, &entry)?, entry.kind == Kind::Executable)
                }
                Kind::Symlink => Item::Symlink(self.content(repo, &entry)?),
                Kind::Directory => Item::EmptyDir,
                Kind::Conflict => {
                    known.conflicts.insert(path);
                    continue;
                }
            };
            known.files.insert(path, item);
        }
        Ok(known)
    }

    /// Returns the content of a file or symlink.
    fn content(&mut self, repo: &Repo, entry: &TreeEntry) -> Done<Vec<u8>> {
        if let Some(bytes) = self.contents.get(&entry.id) {
            return Ok(bytes.clone());
        }
        let bytes = if entry.kind == Kind::Symlink {
            repo.link_target(entry)?
        } else {
            let mut bytes = Vec::new();
            repo.cat(blob_of(entry), None, &mut bytes)?;
            bytes
        };
        self.contents.insert(entry.id, bytes.clone());
        Ok(bytes)
    }

    /// Returns a commit and everything that leads to it.
    pub fn ancestors(&self, id: ObjectId) -> BTreeSet<ObjectId> {
        let (mut seen, mut stack) = (BTreeSet::new(), vec![id]);
        while let Some(id) = stack.pop() {
            if seen.insert(id) {
                stack.extend(
                    self.commits
                        .get(&id)
                        .iter()
                        .flat_map(|known| &known.parents),
                );
            }
        }
        seen
    }

    /// Returns the only best common ancestor of two commits.
    pub fn base(&self, a: ObjectId, b: ObjectId) -> Option<ObjectId> {
        let common = &self.ancestors(a) & &self.ancestors(b);
        let above: BTreeSet<ObjectId> = common
            .iter()
            .filter_map(|id| self.commits.get(id))
            .flat_map(|known| known.parents.iter().flat_map(|id| self.ancestors(*id)))
            .collect();
        let mut best = common.difference(&above);
        match (best.next(), best.next()) {
            (Some(only), None) => Some(*only),
            _ => None,
        }
    }
}

/// A worktree as it is.
#[derive(Clone)]
pub struct WorkState {
    /// Its directory.
    pub dir: PathBuf,
    /// What it is on.
    pub head: Head,
    /// The commit that its head names.
    pub tip: Option<ObjectId>,
    /// The commit that its files come from.
    pub base: Option<ObjectId>,
    /// The paths that it has.
    pub subset: Subset,
    /// Its files.
    pub disk: Files,
    /// The conflicts that its commit has.
    pub conflicts: BTreeSet<Path>,
    /// Whether files are not tracked any more or belong to conflicts of no commit, conflicts are settled
    /// without files, files could not be written, or somebody else has moved the branch.
    pub has_notes: bool,
}

impl WorkState {
    /// Returns whether the worktree's subset has the file.
    pub fn has(&self, path: &[u8]) -> bool {
        self.subset.includes(path, false)
    }
}

/// A repository and its worktrees.
pub struct Site {
    /// The directory of the main worktree.
    pub main: PathBuf,
    /// The directories that further worktrees may have.
    pub further: Vec<PathBuf>,
    /// The keys of the view and their values.
    pub view: BTreeMap<String, Vec<u8>>,
    /// The worktrees by directory.
    pub works: BTreeMap<PathBuf, WorkState>,
    /// The number of the last operation.
    pub operation: u64,
}

/// Keys that undo does not restore: what is known of remotes, and where worktrees are.
fn is_bookkeeping(key: &str) -> bool {
    key.starts_with("remote/") || key.starts_with("log/") || key.ends_with("/path")
}

impl Site {
    /// Makes a site without reading it.
    pub fn new(main: PathBuf, further: Vec<PathBuf>) -> Site {
        Site {
            main,
            further,
            view: BTreeMap::new(),
            works: BTreeMap::new(),
            operation: 0,
        }
    }

    /// Reads everything anew, with the commits that are new.
    pub fn look(&mut self, world: &mut World) -> Done {
        let repo = Repo::open(&self.main)?;
        self.view = repo.refs().with_prefix("")?.into_iter().collect();
        self.operation = repo.refs().last_operation()?;
        for (key, value) in &self.view {
            let is_commit = ["branch/", "tag/", "remote/", "stash/"]
                .iter()
                .any(|p| key.starts_with(p));
            if let (true, Ok(id)) = (
                is_commit || key.ends_with("/base"),
                <[u8; 32]>::try_from(&value[..]),
            ) {
                world.learn(&repo, ObjectId::from_bytes(id))?;
            }
        }
        self.works.clear();
        let dirs = [&self.main].into_iter().chain(&self.further);
        for dir in dirs.filter(|dir| dir.join(".dmv").exists()) {
            let work = look_at(dir, world)?;
            self.works.insert(dir.clone(), work);
        }
        Ok(())
    }

    /// Returns what undo restores of the view.
    pub fn restored_view(&self) -> BTreeMap<&String, &Vec<u8>> {
        self.view
            .iter()
            .filter(|(key, _)| !is_bookkeeping(key))
            .collect()
    }

    /// Returns the files of all worktrees, without empty directories of which the subset leaves something out: for
    /// a status it is the same whether such a directory is there.
    pub fn disks(&self) -> BTreeMap<PathBuf, Files> {
        let works = self.works.iter();
        works
            .map(|(dir, work)| {
                let mut files = work.disk.clone();
                let is_part = |path: &[u8]| work.subset.extent(path) == Extent::Part;
                files.retain(|path, item| *item != Item::EmptyDir || !is_part(path));
                (dir.clone(), files)
            })
            .collect()
    }

    /// Returns the commits of branches and tags.
    pub fn tips(&self) -> Vec<ObjectId> {
        let names = self.view.iter().filter(|(key, _)| {
            key.starts_with("branch/") || key.starts_with("tag/") || key.starts_with("remote/")
        });
        names
            .filter_map(|(_, value)| Some(ObjectId::from_bytes(value[..].try_into().ok()?)))
            .collect()
    }

    /// Returns the commit of a branch.
    pub fn branch(&self, name: &str) -> Option<ObjectId> {
        let value = self.view.get(&format!("branch/{name}"))?;
        Some(ObjectId::from_bytes(value[..].try_into().ok()?))
    }

    /// Returns a directory that no worktree has.
    pub fn free_dir(&self) -> Option<PathBuf> {
        self.further.iter().find(|dir| !dir.exists()).cloned()
    }

    /// Returns a further worktree that is not the one in `dir`.
    pub fn other_dir(&self, dir: &PathBuf) -> Option<PathBuf> {
        self.further
            .iter()
            .find(|other| *other != dir && other.exists())
            .cloned()
    }

    /// Returns the commits of the stashes, the newest first.
    pub fn stashes(&self) -> Vec<ObjectId> {
        let stashes = self
            .view
            .iter()
            .rev()
            .filter(|(key, _)| key.starts_with("stash/"));
        stashes
            .filter_map(|(_, value)| Some(ObjectId::from_bytes(value[..].try_into().ok()?)))
            .collect()
    }
}

fn look_at(dir: &std::path::Path, world: &mut World) -> Done<WorkState> {
    let repo = Repo::open(dir)?;
    let (head, tip, base) = (repo.head()?, repo.head_commit()?, repo.base_commit()?);
    for id in [tip, base].into_iter().flatten() {
        world.learn(&repo, id)?;
    }
    let conflicts = match base {
        Some(id) => {
            let found = repo.conflicts(&repo.read_commit(&id)?)?;
            found
                .into_iter()
                .map(|conflict| conflict.path.as_bytes().to_vec())
                .collect()
        }
        None => BTreeSet::new(),
    };
    // The name of a worktree among the keys of the view.
    let unwritten = repo.unwritten(&Default::default())?;
    let mut has_notes = tip != base || !unwritten.is_empty();
    for worktree in repo
        .worktrees()?
        .into_iter()
        .filter(|worktree| worktree.current)
    {
        let key = format!("worktree/{}/notes", worktree.name);
        has_notes |= repo.refs().get(&key)?.is_some();
    }
    Ok(WorkState {
        dir: dir.to_path_buf(),
        head,
        tip,
        base,
        subset: repo.subset()?,
        disk: files_in(dir)?,
        conflicts,
        has_notes,
    })
}
