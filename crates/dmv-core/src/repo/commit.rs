//! Committing: the worktree's state, or a part of it, becomes a new commit.

use super::worktree::{Head, base_key};
use super::{Asked, Repo, RepoError, WorktreeSettings};
use crate::fsutil::fs_now;
use crate::hash::ObjectId;
use crate::history::load_commit;
use crate::job::Job;
use crate::object::commit::{Commit, Person};
use crate::object::tree::{TreeSummary, put_empty_tree};
use crate::object::{ObjectType, ObjectWrite};
use crate::refs::{Effect, Timestamp};
use crate::store::MetaWriter;
use crate::worktree::cacheupdate::CacheUpdate;
use crate::worktree::scan::{ScanOptions, Select};
use crate::worktree::snapshot::{Problem, Snapshot, SnapshotInput, snapshot};
use std::sync::atomic::Ordering;

/// A name and an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Who {
    /// The person's name.
    pub name: String,
    /// Their e-mail address; may be empty.
    pub email: String,
}

impl Who {
    fn at(&self, time: Timestamp) -> Person {
        Person {
            name: self.name.clone(),
            email: self.email.clone(),
            seconds: time.seconds,
            nanos: time.nanos,
            tz_minutes: time.tz_minutes,
        }
    }
}

/// What to commit.
pub struct CommitOptions<'a> {
    /// The message.
    pub message: Option<String>,
    /// Who wrote the change.
    pub author: Option<Who>,
    /// Who commits.
    pub committer: Who,
    /// The part of the worktree to take.
    pub select: &'a dyn Select,
    /// Replace the last commit instead of following it.
    pub amend: bool,
    /// Commit even when nothing changed.
    pub allow_empty: bool,
    /// How files are taken in.
    pub settings: WorktreeSettings,
    /// For the operation log.
    pub asked: Asked,
}

/// What became of it.
#[derive(Debug)]
pub struct CommitReport {
    /// The new commit; `None`: there was nothing to commit.
    pub commit: Option<ObjectId>,
    /// What the worktree is on.
    pub head: Head,
    /// Files that differ from the commit before.
    pub files: u64,
    /// Files and bytes in the whole tree.
    pub tree_files: u64,
    /// Bytes in the whole tree.
    pub bytes: u64,
    /// Bytes of content that the store did not have.
    pub new_bytes: u64,
    /// Bytes appended to packs.
    pub stored_bytes: u64,
    /// Files left as they were before, and why.
    pub problems: Vec<Problem>,
    /// Things left out on purpose that deserve a word.
    pub warnings: Vec<Problem>,
    /// Control directories that were passed by.
    pub control: Vec<Vec<u8>>,
}

impl Repo {
    /// Commits the worktree's changes.
    ///
    /// Files that cannot be read are named in the report and keep their former state; everything
    /// else is committed. Until the very end nothing is visible; cut off at any point, the
    /// repository is as before and what was stored is used by the next attempt.
    pub fn commit(&self, options: CommitOptions<'_>, job: &Job) -> Result<CommitReport, RepoError> {
        let _lock = self.lock_worktree()?;
        let tree = self.tree(&options.settings)?;
        let head = self.head()?;
        let parent = self.head_commit()?;
        if options.amend && parent.is_none() {
            return Err(RepoError::NoCommit);
        }
        if tree.base != parent {
            // Building on the moved branch would silently take its new changes back.
            let name = head.branch().unwrap_or("the head").to_owned();
            return Err(RepoError::Moved { name });
        }
        if let Some(unfinished) = self.unfinished(tree.base_tree)? {
            // A mix of two commits is not what anybody has made.
            return Err(RepoError::Unfinished {
                command: unfinished.command,
            });
        }
        let known = tree.known(self);
        let input = SnapshotInput {
            root: &tree.root,
            reader: self.objects(),
            base: tree.base_tree,
            scan: ScanOptions {
                known: &*known,
                ignore: &tree.ignore,
                select: options.select,
                list_ignored: false,
                one_file_system: false,
                threads: 0,
                cancel: job.cancel_flag(),
            },
            started: fs_now(&tree.own),
            portable: options.settings.portable_names,
        };
        let mut cache = CacheUpdate::new(&tree.own, self.id.0, &*known);
        let writer = self.store.writer()?;
        let made = snapshot(&input, &writer, &mut cache, job)?;
        let mut report = CommitReport {
            commit: None,
            head: head.clone(),
            files: made.changed_files,
            tree_files: 0,
            bytes: 0,
            new_bytes: job.progress.new_bytes.load(Ordering::Relaxed),
            stored_bytes: 0,
            problems: Vec::new(),
            warnings: Vec::new(),
            control: Vec::new(),
        };
        let summary = self.summary(&made, tree.base)?;
        report.tree_files = summary.map_or(0, |s| s.files);
        report.bytes = summary.map_or(0, |s| s.bytes);
        let nothing = made.tree.is_none_or(|t| tree.base_tree == Some(t.id))
            && tree.base == parent
            && !options.allow_empty
            && !options.amend;
        // Empty directories are content, too.
        let first_and_empty = parent.is_none()
            && made.tree.is_none_or(|tree| tree.entries == 0)
            && !options.allow_empty;
        if nothing || first_and_empty {
            report.files = 0;
            if let Some(tree_id) = tree.base_tree {
                // Files that were only touched need not be read next time. The cache is a
                // convenience: failing to write it is not failing to commit.
                let _ = cache.finish(&tree_id, !tree.cache_fits());
            }
            take_notes(&mut report, made);
            return Ok(report);
        }
        let mut meta = MetaWriter::new(&writer);
        let summary = match summary {
            Some(summary) => summary,
            None => {
                let id = put_empty_tree(&mut meta)?;
                TreeSummary {
                    id,
                    bytes: 0,
                    files: 0,
                    entries: 0,
                }
            }
        };
        let commit = self.new_commit(&options, parent, &summary)?;
        let bytes = commit
            .encode()
            .map_err(|e| RepoError::Text(e.to_string()))?;
        let id = meta.put(ObjectType::Commit, &bytes)?;
        meta.flush()?;
        if job.is_cancelled() {
            return Err(RepoError::Cancelled);
        }
        let sealed = self.seal(writer)?;
        report.stored_bytes = sealed.stored_bytes;
        // From what was read at the beginning: an undo elsewhere does not wait for our lock.
        let mut changes = vec![crate::refs::Change {
            key: base_key(&tree.name),
            old: tree.base.map(|base| base.as_bytes().to_vec()),
            new: Some(id.as_bytes().to_vec()),
        }];
        let old = parent.map(|p| p.as_bytes().to_vec());
        changes.push(match &head {
            Head::Branch(name) => crate::refs::Change {
                key: format!("branch/{name}"),
                old,
                new: Some(id.as_bytes().to_vec()),
            },
            Head::Commit(_) => crate::refs::Change {
                key: super::worktree::head_key(&tree.name),
                old: Some(head.value()),
                new: Some(Head::Commit(id).value()),
            },
        });
        self.publish(options.asked, Some(sealed), changes, Effect::Kept)?;
        let _ = cache.finish(&summary.id, true);
        report.commit = Some(id);
        if let Head::Commit(_) = head {
            report.head = Head::Commit(id);
        }
        take_notes(&mut report, made);
        Ok(report)
    }

    /// Id and totals of the tree that a commit would have; `None` for nothing at all.
    fn summary(
        &self,
        made: &Snapshot,
        base: Option<ObjectId>,
    ) -> Result<Option<TreeSummary>, RepoError> {
        match (made.tree, base) {
            (Some(tree), _) => Ok(Some(tree)),
            (None, Some(base)) => {
                let commit = load_commit(self.objects(), &base)?;
                let (id, bytes, files) = (commit.tree, commit.tree_bytes, commit.tree_files);
                Ok(Some(TreeSummary {
                    id,
                    bytes,
                    files,
                    entries: 0,
                }))
            }
            (None, None) => Ok(None),
        }
    }

    fn new_commit(
        &self,
        options: &CommitOptions<'_>,
        parent: Option<ObjectId>,
        tree: &TreeSummary,
    ) -> Result<Commit, RepoError> {
        let time = options.asked.time;
        let committer = options.committer.at(time);
        let mut author = options
            .author
            .as_ref()
            .unwrap_or(&options.committer)
            .at(time);
        let mut message = options.message.clone().unwrap_or_default();
        let mut parents = Vec::from_iter(parent);
        let mut extras = Vec::new();
        if let (true, Some(parent)) = (options.amend, parent) {
            let before = load_commit(self.objects(), &parent)?;
            parents = before.parents;
            extras = before.extras;
            if options.author.is_none() {
                author = before.author;
            }
            if options.message.is_none() {
                message = before.message;
            }
        }
        let mut generation = 0;
        for parent in &parents {
            generation = generation.max(load_commit(self.objects(), parent)?.generation);
        }
        Ok(Commit {
            tree: tree.id,
            tree_bytes: tree.bytes,
            tree_files: tree.files,
            parents,
            generation: generation + 1,
            author,
            committer,
            message,
            extras,
            signature: None,
        })
    }
}

fn take_notes(report: &mut CommitReport, made: Snapshot) {
    report.problems = made.problems;
    report.warnings = made.warnings;
    report.control = made.control;
}
