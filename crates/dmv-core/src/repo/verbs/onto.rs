//! Commits without a worktree: files from elsewhere become a commit on a branch.
//!
//! Reads no content, and of the trees only those of directories that change. So it works where a repository holds
//! nothing else. A worktree that is on the branch sees what it sees after a push: its branch has moved.

use crate::diff::diff_trees;
use crate::hash::ObjectId;
use crate::job::Job;
use crate::merge::{Edits, edit_tree, entry_of};
use crate::object::commit::Commit;
use crate::object::conflict::Term;
use crate::object::name::RepoPath;
use crate::object::tree::{
    Kind, TreeEntry, TreeSummary, empty_tree_id, lookup_path, put_empty_tree,
};
use crate::object::{ObjectError, ObjectRead, ObjectType, ObjectWrite};
use crate::path::PathError;
use crate::refs::{Change, Effect, RefsError, Timestamp};
use crate::repo::base::error::{BranchError, LookError, RepoError, VerbError};
use crate::repo::base::publish::OperationRequest;
use crate::repo::base::repo::Repo;
use crate::repo::base::transaction::Transaction;
use crate::repo::base::worktree;
use crate::repo::conflict::at::{conflict_paths, list_conflicts};
use crate::repo::conflict::names::last_name;
use crate::repo::files::commit::{CommitSize, generation};
use crate::repo::files::who::Who;
use crate::repo::verbs::merge::check_names_in;
use crate::worktree::content::{ContentError, store_content};
use std::collections::BTreeSet;
use std::io::{self, Read};
use std::ops::ControlFlow;

/// How often a commit begins again because the branch has moved.
const TRIES: usize = 20;

/// What to commit the files as.
#[derive(Clone, Debug)]
pub struct OntoOptions {
    /// The branch.
    pub branch: String,
    /// The commit that the files were made from. `None`: the branch's.
    pub base: Option<ObjectId>,
    /// The message.
    pub message: String,
    /// Who made the files. `None`: who commits.
    pub author: Option<Who>,
    /// When they were made. `None`: now.
    pub date: Option<Timestamp>,
    /// Who commits.
    pub committer: Who,
    /// Whether to commit even if nothing changes.
    pub allow_empty: bool,
    /// Whether new names must be portable.
    pub portable_names: bool,
    /// What the operation log records about the request.
    pub request: OperationRequest,
}

/// What a commit without a worktree did.
#[derive(Debug, Default)]
pub struct OntoReport {
    /// The new commit. `None` if there was nothing to commit.
    pub commit: Option<ObjectId>,
    /// The number of files that differ from the branch's former commit.
    pub files: u64,
    /// The size of its tree.
    pub size: CommitSize,
}

/// Files for a commit, which are stored as they come.
pub struct OntoFiles<'r> {
    repo: &'r Repo,
    /// Stores content, until the first attempt to commit it.
    content: Option<Transaction<'r>>,
    edits: Edits,
    /// Directories that are to be there.
    dirs: BTreeSet<RepoPath>,
    /// The branch's commit when it was first seen, if it had one: before the files were read, or else at the first
    /// attempt.
    seen: Option<Option<ObjectId>>,
    /// Bytes of content that the store did not have.
    new_bytes: u64,
    /// Bytes in packs that the content takes.
    stored_bytes: u64,
}

impl Repo {
    /// Begins to collect files for a commit on a branch, within the repository's budget.
    pub fn files_for_branch(&self, request: &OperationRequest) -> Result<OntoFiles<'_>, RepoError> {
        Ok(OntoFiles {
            repo: self,
            content: Some(Transaction::within_budget(self, request)?),
            edits: Edits::new(),
            dirs: BTreeSet::new(),
            seen: None,
            new_bytes: 0,
            stored_bytes: 0,
        })
    }
}

impl OntoFiles<'_> {
    /// Notes what the branch has now: changes of the same paths from here on are found.
    pub fn see_branch(&mut self, branch: &str) -> Result<(), RepoError> {
        self.seen = Some(tip_of(self.repo, &format!("branch/{branch}"), branch)?);
        Ok(())
    }

    /// Returns how many paths change.
    pub fn len(&self) -> usize {
        self.edits.len() + self.dirs.len()
    }

    /// Returns whether no path changes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Stores a file that gets the path `path` and, of the permissions `mode` of Unix, what a commit keeps. A later one
    /// with the same path counts.
    pub fn put(
        &mut self,
        path: RepoPath,
        mode: u32,
        content: impl Read,
        job: &Job,
    ) -> Result<(), RepoError> {
        let content = WatchedRead { content, job };
        let stored = store_content(content, &mut self.writer()?, |_| {});
        let blob = stored.map_err(|e| match e {
            ContentError::Read(_) if job.is_cancelled() => RepoError::Cancelled,
            ContentError::Read(e) => RepoError::Io(PathError::new("read", path.as_bytes(), e)),
            ContentError::Store(e) => e.into(),
        })?;
        Job::add(&job.progress.files, 1);
        let term = Term {
            kind: match mode & 0o100 {
                0 => Kind::File,
                _ => Kind::Executable,
            },
            is_list: blob.is_list,
            is_private: mode & 0o077 == 0,
            id: blob.id,
            size: blob.size,
            files: 0,
        };
        self.edit(path, Some(&term))
    }

    /// Stores a symlink that gets the path `path`.
    pub fn put_link(&mut self, path: RepoPath, target: &[u8]) -> Result<(), RepoError> {
        if target.contains(&0) {
            return Err(cannot_put(
                &path,
                "the target of the symlink has a zero byte",
            ));
        }
        let term = Term {
            kind: Kind::Symlink,
            is_list: false,
            is_private: false,
            id: self.writer()?.put(ObjectType::Chunk, target)?,
            size: target.len() as u64,
            files: 0,
        };
        self.edit(path, Some(&term))
    }

    /// Asks for a directory, which may be there already.
    pub fn put_directory(&mut self, path: RepoPath) {
        if !path.is_root() {
            self.dirs.insert(path);
        }
    }

    /// Removes a file, or a directory with everything in it.
    pub fn remove(&mut self, path: RepoPath) -> Result<(), RepoError> {
        self.edit(path, None)
    }

    fn edit(&mut self, path: RepoPath, term: Option<&Term>) -> Result<(), RepoError> {
        if path.is_root() {
            return Err(cannot_put(&path, "it is the root of the repository"));
        }
        let entry = term.map(|term| entry_of(&last_name(&path), term, None));
        if let Some(entry) = &entry {
            entry.check().map_err(|e| RepoError::Text(e.to_string()))?;
        }
        self.edits.insert(path, entry);
        Ok(())
    }

    fn writer(&mut self) -> Result<CountingWriter<'_>, RepoError> {
        match &mut self.content {
            Some(content) => Ok(CountingWriter {
                repo: self.repo,
                content,
                new_bytes: &mut self.new_bytes,
            }),
            None => Err(RepoError::Text(
                "the files are committed already".to_owned(),
            )),
        }
    }

    /// Commits the files. May be called again if it fails: the files are stored.
    ///
    /// If the branch moves meanwhile, or has moved since `options.base`, the files go onto its new commit. Fails with
    /// [`VerbError::ChangedOnBranch`] if that has changed one of the same paths, and with [`VerbError::CannotPut`] if
    /// something else is in the way of a file.
    pub fn commit(&mut self, options: &OntoOptions) -> Result<OntoReport, RepoError> {
        let mut tries = TRIES;
        loop {
            let mut tx = match self.content.take() {
                Some(content) => content,
                None => Transaction::within_budget(self.repo, &options.request)?,
            };
            match self.attempt(&mut tx, options) {
                Ok(report) => {
                    tx.end();
                    return Ok(report);
                }
                Err(e) => {
                    let (has_moved, kept) = (
                        matches!(e, RepoError::Refs(RefsError::Moved { .. })),
                        tx.keep(),
                    );
                    if !has_moved || tries == 0 {
                        // It is more important than a failure to keep what was stored.
                        return Err(e);
                    }
                    self.stored_bytes += kept?;
                    tries -= 1;
                }
            }
        }
    }

    fn attempt(
        &mut self,
        tx: &mut Transaction<'_>,
        options: &OntoOptions,
    ) -> Result<OntoReport, RepoError> {
        let repo = self.repo;
        let key = format!("branch/{}", options.branch);
        let tip = tip_of(repo, &key, &options.branch)?;
        let seen = *self.seen.get_or_insert(tip);
        self.check_untouched(options, options.base.or(seen), tip)?;
        let before = tip.map(|id| repo.read_commit(&id)).transpose()?;
        let root = match &before {
            Some(before) => before.tree,
            None => put_empty_tree(tx)?,
        };
        if !self.dirs.is_empty() {
            put_empty_tree(tx)?;
        }
        if before.is_none() {
            // So that the empty tree can be read.
            tx.objects()?;
        }
        let (edits, files) = self.fitting(repo.objects(), root)?;
        let tree = edit_tree(repo.objects(), tx, root, &edits)?;
        if tree.id == root && !options.allow_empty {
            return Ok(OntoReport::default());
        }
        if options.portable_names {
            check_names_in(repo, tx.objects()?, &[root], tree.id)?;
        }
        let mut commit = new_commit(repo, options, tip, &tree)?;
        if let Some(before) = &before {
            let mut open = conflict_paths(repo, before)?;
            open.retain(|path| !edits.keys().any(|edit| path.starts_with(edit)));
            list_conflicts(&mut commit.extras, &open);
        }
        let id = tx.put_own_commit(&mut commit)?;
        let stored_bytes = self.stored_bytes + tx.stored_bytes()?;
        let bytes = |id: ObjectId| id.as_bytes().to_vec();
        tx.change([Change {
            key,
            old: tip.map(bytes),
            new: Some(bytes(id)),
        }]);
        tx.try_to_publish(Effect::Kept)?;
        Ok(OntoReport {
            commit: Some(id),
            files,
            size: CommitSize {
                tree_files: tree.files,
                bytes: tree.bytes,
                new_bytes: self.new_bytes,
                stored_bytes,
            },
        })
    }

    /// Fails if the branch has changed a path that is about to change, or one above or below it.
    fn check_untouched(
        &self,
        options: &OntoOptions,
        base: Option<ObjectId>,
        tip: Option<ObjectId>,
    ) -> Result<(), RepoError> {
        let tree = |id: Option<ObjectId>| {
            let commit = id.map(|id| self.repo.read_commit(&id)).transpose()?;
            Ok::<_, RepoError>(commit.map(|commit| commit.tree))
        };
        let mut met = None;
        let mut look = |path: &RepoPath, _: Option<&TreeEntry>, _: Option<&TreeEntry>| {
            if self.meets(path) {
                met = Some(path.clone());
                return Ok::<_, RepoError>(ControlFlow::Break(()));
            }
            Ok(ControlFlow::Continue(()))
        };
        // It ends early where the sides meet.
        let _ = diff_trees(self.repo.objects(), tree(base)?, tree(tip)?, &mut look)?;
        match met {
            Some(path) => Err(VerbError::ChangedOnBranch {
                branch: options.branch.clone(),
                path,
            }
            .into()),
            None => Ok(()),
        }
    }

    fn meets(&self, path: &RepoPath) -> bool {
        let mut above = Some(path.clone());
        while let Some(at) = above.filter(|at| !at.is_root()) {
            if self.edits.contains_key(&at) {
                return true;
            }
            above = at.parent();
        }
        self.is_edited_below(path)
    }

    fn is_edited_below(&self, path: &RepoPath) -> bool {
        let mut from = self.edits.range::<RepoPath, _>(path..);
        from.next().is_some_and(|(edit, _)| edit.starts_with(path))
    }

    /// Returns the edits for the tree `root`, and how many files they change. Fails if something is in the way of a file.
    fn fitting(&self, objects: &dyn ObjectRead, root: ObjectId) -> Result<(Edits, u64), RepoError> {
        let find = |path: &RepoPath| lookup_path(objects, &root, path);
        let (mut edits, mut files) = (self.edits.clone(), 0);
        for (path, entry) in &self.edits {
            let old = find(path)?;
            // What nobody was asked about stays.
            let new = (entry.clone().zip(old.as_ref())).filter(|(new, old)| {
                new.kind.is_blob() && old.kind.is_blob() && !old.xattrs().is_empty()
            });
            let new = new.map(|(new, old)| new.with_xattrs(&old.xattrs()));
            if let Some(new) = &new {
                edits.insert(path.clone(), Some(new.clone()));
            }
            files += match (old, new.as_ref().or(entry.as_ref())) {
                (None, None) => {
                    return Err(LookError::NoSuchPath {
                        revision: "the branch".to_owned(),
                        path: path.into(),
                    }
                    .into());
                }
                (Some(old), Some(_)) if old.kind == Kind::Directory => {
                    return Err(cannot_put(path, "a directory is there"));
                }
                (Some(old), Some(new)) if old.same_content(new) => 0,
                (Some(old), None) => old.file_count(),
                (_, Some(_)) => 1,
            };
            if entry.is_some() {
                self.check_above(path, &find)?;
            }
        }
        for dir in &self.dirs {
            if self.edits.get(dir).is_some_and(Option::is_some) {
                return Err(cannot_put(dir, "it is both a file and a directory"));
            }
            let is_above = |next: &RepoPath| next.starts_with(dir);
            let is_made = self.is_edited_below(dir)
                || self
                    .dirs
                    .range::<RepoPath, _>(dir..)
                    .nth(1)
                    .is_some_and(is_above);
            match find(dir)? {
                Some(old) if old.kind != Kind::Directory => {
                    return Err(cannot_put(dir, "a file is there"));
                }
                None if !is_made => {
                    self.check_above(dir, &find)?;
                    edits.insert(dir.clone(), Some(empty_directory(dir)));
                }
                _ => {}
            }
        }
        Ok((edits, files))
    }

    /// Fails unless everything above a path is a directory, or nothing.
    fn check_above(
        &self,
        path: &RepoPath,
        find: &dyn Fn(&RepoPath) -> Result<Option<TreeEntry>, ObjectError>,
    ) -> Result<(), RepoError> {
        let mut above = path.parent();
        while let Some(at) = above.filter(|at| !at.is_root()) {
            let old = find(&at)?;
            let is_file = old.as_ref().is_some_and(|old| old.kind != Kind::Directory);
            let why = match self.edits.get(&at) {
                Some(None) => "it is below a path that is removed",
                Some(Some(_)) => "a file is where it needs a directory",
                None if is_file => "a file is where it needs a directory",
                None => {
                    above = at.parent();
                    continue;
                }
            };
            return Err(cannot_put(path, why));
        }
        Ok(())
    }
}

fn empty_directory(path: &RepoPath) -> TreeEntry {
    let term = Term {
        kind: Kind::Directory,
        is_list: false,
        is_private: false,
        id: empty_tree_id(),
        size: 0,
        files: 0,
    };
    entry_of(&last_name(path), &term, None)
}

fn cannot_put(path: &RepoPath, why: &'static str) -> RepoError {
    let path = path.clone();
    VerbError::CannotPut { path, why }.into()
}

/// Content that counts as progress, and ends if the job is cancelled.
struct WatchedRead<'j, R> {
    content: R,
    job: &'j Job,
}

impl<R: Read> Read for WatchedRead<'_, R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if self.job.is_cancelled() {
            return Err(io::Error::other("cancelled"));
        }
        let read = self.content.read(buf)?;
        Job::add(&self.job.progress.bytes, read as u64);
        Ok(read)
    }
}

/// Stores content, and counts what the repository did not have before.
struct CountingWriter<'w> {
    repo: &'w Repo,
    content: &'w mut dyn ObjectWrite,
    new_bytes: &'w mut u64,
}

impl ObjectWrite for CountingWriter<'_> {
    fn put(&mut self, ty: ObjectType, bytes: &[u8]) -> Result<ObjectId, ObjectError> {
        let id = self.content.put(ty, bytes)?;
        if ty == ObjectType::Chunk && !self.repo.holds(ty, &id)? {
            *self.new_bytes += bytes.len() as u64;
        }
        Ok(id)
    }
}

fn new_commit(
    repo: &Repo,
    options: &OntoOptions,
    tip: Option<ObjectId>,
    tree: &TreeSummary,
) -> Result<Commit, RepoError> {
    let parents = Vec::from_iter(tip);
    let author = options.author.as_ref().unwrap_or(&options.committer);
    Ok(Commit {
        tree: tree.id,
        tree_bytes: tree.bytes,
        tree_files: tree.files,
        generation: generation(repo, &parents)?,
        parents,
        author: author.at(options.date.unwrap_or(options.request.time)),
        committer: options.committer.at(options.request.time),
        message: options.message.clone(),
        extras: Vec::new(),
        signature: None,
    })
}

/// Returns the commit of a branch; `None` for the branch of a repository without any commit.
fn tip_of(repo: &Repo, key: &str, branch: &str) -> Result<Option<ObjectId>, RepoError> {
    let tip = worktree::ref_id(repo, key)?;
    if tip.is_none() && repo.head()?.branch() != Some(branch) {
        return Err(BranchError::NoRef {
            kind: "branch",
            name: branch.to_owned(),
        }
        .into());
    }
    Ok(tip)
}
