//! Versions that somebody kept by hand become commits: directories, and numbered copies of files.
//!
//! Each version is a commit with the date of its newest file. The history itself says which versions it
//! has: those whose message and date a commit has. So nothing else has to be kept, and an intake that was
//! interrupted begins again without doubled commits. Nothing here names the commits, or changes a file.

pub mod directories;
pub mod pattern;
pub mod series;

use crate::fsutil::FileTime;
use crate::hash::ObjectId;
use crate::history::load_commit;
use crate::object::commit::Commit;
use crate::object::name::RepoPath;
use crate::object::tree::{TreeSummary, put_empty_tree};
use crate::object::{ObjectType, ObjectWrite};
use crate::path::DiskPath;
use crate::refs::Timestamp;
use crate::repo::base::error::RepoError;
use crate::repo::base::repo::Repo;
use crate::repo::base::worktree::WorktreeSettings;
use crate::repo::base::{budget, publish, refused};
use crate::repo::files::who::Who;
use crate::store::StoreWriter;
use crate::worktree::snapshot::Problem;
use std::collections::HashMap;

/// How versions become commits.
pub struct IntakeOptions {
    /// The last commit of earlier versions. The new ones follow it.
    pub after: Option<ObjectId>,
    /// The author and committer.
    pub who: Who,
    /// The time zone of the dates.
    pub tz_minutes: i16,
    /// How files are read into the store.
    pub settings: WorktreeSettings,
    /// Whether to report only what would become a commit.
    pub dry_run: bool,
}

/// A directory or a file that is a version.
#[derive(Clone, Debug)]
pub struct IntakeVersion {
    /// Where it is on disk.
    pub source: DiskPath,
    /// The path that it has in its commit; the root for a directory.
    pub path: RepoPath,
    /// The date of its newest file.
    pub time: Timestamp,
    /// Number of files.
    pub files: u64,
    /// Bytes of these files.
    pub bytes: u64,
    /// Whether the history did not have it.
    pub is_new: bool,
}

/// What an intake found and did.
#[derive(Debug, Default)]
pub struct IntakeReport {
    /// All versions, in the order of the commits.
    pub versions: Vec<IntakeVersion>,
    /// The last commit, if there is one. No ref names it yet.
    pub tip: Option<ObjectId>,
    /// Number of new commits.
    pub commits: u64,
    /// Files that are not in a commit as they are on disk, and why.
    pub problems: Vec<Problem>,
    /// Entries that were left out on purpose: special files, errors in ignore files.
    pub warnings: Vec<Problem>,
}

/// What tells a version from others: the message and the date of its commit.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct VersionKey {
    message: String,
    seconds: i64,
    nanos: u32,
}

impl VersionKey {
    fn new(message: &str, time: FileTime) -> VersionKey {
        VersionKey {
            message: message.to_owned(),
            seconds: time.seconds,
            nanos: time.nanos,
        }
    }
}

/// Begins to store versions, within the repository's budget.
fn writer(repo: &Repo) -> Result<StoreWriter<'_>, RepoError> {
    let room = budget::room(repo)?;
    Ok(repo.store.writer()?.within(room))
}

/// Makes what was stored durable and visible to this repository's commands. No ref names it yet.
fn keep(repo: &Repo, writer: StoreWriter<'_>) -> Result<(), RepoError> {
    let sealed = publish::noting_failed_sync(repo, writer.finish())?;
    refused::check_job(repo, &sealed)?;
    budget::check_job(repo, &sealed)?;
    publish::keep(repo, sealed)
}

/// A line of commits, each after the other.
struct Chain<'r> {
    repo: &'r Repo,
    options: &'r IntakeOptions,
    /// The trees of the versions that the line has.
    known: HashMap<VersionKey, Vec<ObjectId>>,
    tip: Option<ObjectId>,
    generation: u64,
    tree: Option<ObjectId>,
}

impl<'r> Chain<'r> {
    /// Reads the line that ends with `options.after`.
    fn open(repo: &'r Repo, options: &'r IntakeOptions) -> Result<Chain<'r>, RepoError> {
        let mut chain = Chain {
            repo,
            options,
            known: HashMap::new(),
            tip: options.after,
            generation: 0,
            tree: None,
        };
        let mut next = options.after;
        while let Some(id) = next {
            let commit = load_commit(repo.objects(), &id)?;
            if chain.tree.is_none() {
                chain.tree = Some(commit.tree);
                chain.generation = commit.generation;
            }
            next = commit.parents.first().copied();
            let key = VersionKey {
                message: commit.message,
                seconds: commit.author.seconds,
                nanos: commit.author.nanos,
            };
            chain.known.entry(key).or_default().push(commit.tree);
        }
        Ok(chain)
    }

    /// Returns the trees of the commits of a version.
    fn trees_of(&self, key: &VersionKey) -> &[ObjectId] {
        self.known.get(key).map_or(&[], Vec::as_slice)
    }

    fn date(&self, time: FileTime) -> Timestamp {
        Timestamp {
            seconds: time.seconds,
            nanos: time.nanos,
            tz_minutes: self.options.tz_minutes,
        }
    }

    /// Returns the tree of the last commit, which is empty before the first.
    fn root(&self, writer: &mut dyn ObjectWrite) -> Result<ObjectId, RepoError> {
        match self.tree {
            Some(tree) => Ok(tree),
            None => Ok(put_empty_tree(writer)?),
        }
    }

    /// Stores a commit of `tree` after the last one.
    fn add(
        &mut self,
        key: VersionKey,
        tree: &TreeSummary,
        writer: &mut dyn ObjectWrite,
    ) -> Result<(), RepoError> {
        let who = self.options.who.at(Timestamp {
            seconds: key.seconds,
            nanos: key.nanos,
            tz_minutes: self.options.tz_minutes,
        });
        self.generation += 1;
        let commit = Commit {
            tree: tree.id,
            tree_bytes: tree.bytes,
            tree_files: tree.files,
            parents: Vec::from_iter(self.tip),
            generation: self.generation,
            author: who.clone(),
            committer: who,
            message: key.message.clone(),
            extras: Vec::new(),
            signature: None,
        };
        let bytes = commit.encode();
        let bytes = bytes.map_err(|e| RepoError::Text(e.to_string()))?;
        self.tip = Some(writer.put(ObjectType::Commit, &bytes)?);
        self.tree = Some(tree.id);
        self.known.entry(key).or_default().push(tree.id);
        Ok(())
    }
}
