//! Commits without a worktree: files from elsewhere become a commit on a branch.
//!
//! Reads no content, and of the trees only those of directories that change. So it works where a repository holds
//! nothing else. A worktree that is on the branch sees what it sees after a push: its branch has moved.

mod changes;

use crate::diff::diff_trees;
use crate::fsutil::FileTime;
use crate::hash::ObjectId;
use crate::job::Job;
use crate::merge::{edit_stored_tree, entry_of};
use crate::object::commit::Commit;
use crate::object::conflict::Term;
use crate::object::list::{Blob, read_blob};
use crate::object::name::RepoPath;
use crate::object::tree::{Kind, TreeEntry, TreeSummary, put_empty_tree};
use crate::object::{ObjectError, ObjectRead, ObjectType, ObjectWrite};
use crate::path::PathError;
use crate::refs::{Change, Effect, RefsError, Timestamp};
use crate::repo::base::error::{BranchError, RepoError, VerbError};
use crate::repo::base::publish::OperationRequest;
use crate::repo::base::repo::Repo;
use crate::repo::base::transaction::Transaction;
use crate::repo::base::worktree;
use crate::repo::conflict::at::{conflict_paths, list_conflicts};
use crate::repo::conflict::names::last_name;
use crate::repo::files::commit::{CommitSize, generation};
use crate::repo::files::who::Who;
use crate::repo::verbs::merge::check_names_in;
use crate::subset::Subset;
use crate::worktree::attributes::DMVATTRIBUTES;
use crate::worktree::base::TreeBase;
use crate::worktree::content::{ContentError, store_content};
use crate::worktree::properties::{AttributeFiles, Properties, PropertyRules};
use crate::worktree::scan::BaseEntries;
use crate::worktree::split_path;
use crate::worktree::statcache::Section;
use changes::{Changes, NewFile, cannot_put};
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
    /// What commits keep of files where no attribute file says it. Extended attributes do not count here.
    pub properties: Properties,
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

/// What is known of a file besides its content.
#[derive(Clone, Copy, Debug)]
pub struct FileFacts {
    /// Its permissions, as Unix has them. A commit keeps whether it is executable and private.
    pub mode: u32,
    /// When its content was changed for the last time, for branches that keep times.
    pub modified: Option<FileTime>,
}

/// Files for a commit, which are stored as they come.
pub struct OntoFiles<'r> {
    repo: &'r Repo,
    /// Stores content, until the first attempt to commit it.
    content: Option<Transaction<'r>>,
    changes: Changes,
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
            changes: Changes::default(),
            seen: None,
            new_bytes: 0,
            stored_bytes: 0,
        })
    }
}

impl<'r> OntoFiles<'r> {
    /// Notes what the branch has now: changes of the same paths from here on are found.
    pub fn see_branch(&mut self, branch: &str) -> Result<(), RepoError> {
        self.seen = Some(tip_of(self.repo, &format!("branch/{branch}"), branch)?);
        Ok(())
    }

    /// Returns how many paths change.
    pub fn len(&self) -> usize {
        self.changes.len()
    }

    /// Returns whether no path changes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Stores a file that gets the path `path`. A later one with the same path counts.
    pub fn put(
        &mut self,
        path: RepoPath,
        facts: FileFacts,
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
            kind: match facts.mode & 0o100 {
                0 => Kind::File,
                _ => Kind::Executable,
            },
            is_list: blob.is_list,
            is_private: facts.mode & 0o077 == 0,
            id: blob.id,
            size: blob.size,
            files: 0,
        };
        let modified = facts.modified;
        self.change(path, Some(NewFile { term, modified }))
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
        let modified = None;
        self.change(path, Some(NewFile { term, modified }))
    }

    /// Asks for a directory, which may be there already.
    pub fn put_directory(&mut self, path: RepoPath) {
        if !path.is_root() {
            self.changes.put_directory(path);
        }
    }

    /// Removes a file, or a directory with everything in it. What was or will be put below it stays.
    pub fn remove(&mut self, path: RepoPath) -> Result<(), RepoError> {
        self.change(path, None)
    }

    fn change(&mut self, path: RepoPath, file: Option<NewFile>) -> Result<(), RepoError> {
        if path.is_root() {
            return Err(cannot_put(&path, "it is the root of the repository"));
        }
        if let Some(file) = &file {
            let entry = entry_of(&last_name(&path), &file.term, None);
            entry.check().map_err(|e| RepoError::Text(e.to_string()))?;
        }
        self.changes.put(path, file);
        Ok(())
    }

    fn writer(&mut self) -> Result<CountingWriter<'_, 'r>, RepoError> {
        match &mut self.content {
            Some(content) => Ok(CountingWriter {
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
    pub fn commit(&mut self, options: &OntoOptions, job: &Job) -> Result<OntoReport, RepoError> {
        let mut tries = TRIES;
        loop {
            let mut tx = match self.content.take() {
                Some(content) => content,
                None => Transaction::within_budget(self.repo, &options.request)?,
            };
            match self.attempt(&mut tx, options, job) {
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
        job: &Job,
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
        if self.changes.has_directories() {
            put_empty_tree(tx)?;
        }
        if before.is_none() || self.changes.brings(DMVATTRIBUTES) {
            // So that the empty tree and the new rules can be read.
            tx.objects()?;
        }
        let rules = BranchRules::new(repo.objects(), root, &self.changes, &options.properties);
        let keeps_time = |path: &RepoPath| rules.keep_time(path);
        let fit = self
            .changes
            .fit(repo.objects(), &options.branch, root, &keeps_time, job)?;
        let tree = edit_stored_tree(repo.objects(), tx, root, &fit)?;
        let files = fit.files;
        if tree.id == root && !options.allow_empty {
            return Ok(OntoReport::default());
        }
        if options.portable_names {
            check_names_in(repo, tx.objects()?, &[root], tree.id)?;
        }
        let mut commit = new_commit(repo, options, tip, &tree)?;
        if let Some(before) = &before {
            let mut open = conflict_paths(repo, before)?;
            open.retain(|path| !self.changes.covers(path));
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
            if self.changes.meets(path) {
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
}

/// Which files of a branch keep their times: its attribute files and those that come say it, and the settings.
struct BranchRules<'a> {
    rules: PropertyRules,
    everything: Subset,
    files: NewAttributeFiles<'a>,
}

/// The attribute files that a branch will have.
struct NewAttributeFiles<'a> {
    objects: &'a dyn ObjectRead,
    root: ObjectId,
    changes: &'a Changes,
}

impl<'a> BranchRules<'a> {
    fn new(
        objects: &'a dyn ObjectRead,
        root: ObjectId,
        changes: &'a Changes,
        by_default: &Properties,
    ) -> BranchRules<'a> {
        BranchRules {
            rules: PropertyRules::new(by_default.clone()),
            everything: Subset::everything(),
            files: NewAttributeFiles {
                objects,
                root,
                changes,
            },
        }
    }

    fn keep_time(&self, path: &RepoPath) -> bool {
        let files = AttributeFiles {
            root: None,
            known: &self.files,
            subset: &self.everything,
        };
        let (dir, name) = split_path(path.as_bytes()).unwrap_or((b"", path.as_bytes()));
        self.rules.of(&files, dir, name).times
    }
}

impl BaseEntries for NewAttributeFiles<'_> {
    fn section(
        &self,
        _: &[u8],
    ) -> Result<Option<Section>, Box<dyn std::error::Error + Send + Sync>> {
        Ok(None)
    }

    fn file(&self, path: &[u8], most: u64) -> Result<Option<Vec<u8>>, String> {
        let parsed = RepoPath::parse(path).map_err(|e| e.to_string())?;
        let new = match self.changes.at(&parsed) {
            None => {
                let everything = Subset::everything();
                let old = TreeBase::new(self.objects, Some(self.root), None, &everything);
                return old.file(path, most);
            }
            Some(new) => new.filter(|new| new.term.kind.is_blob()),
        };
        let blob = new.map(|NewFile { term, .. }| Blob {
            id: term.id,
            is_list: term.is_list,
            size: term.size,
        });
        let content = blob.map(|blob| read_blob(self.objects, blob, most));
        Ok(content.transpose().map_err(|e| e.to_string())?.flatten())
    }
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
struct CountingWriter<'w, 'r> {
    content: &'w mut Transaction<'r>,
    new_bytes: &'w mut u64,
}

impl ObjectWrite for CountingWriter<'_, '_> {
    fn put(&mut self, ty: ObjectType, bytes: &[u8]) -> Result<ObjectId, ObjectError> {
        let (id, is_new) = self.content.put_new(ty, bytes)?;
        if ty == ObjectType::Chunk && is_new {
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
