//! Directories that are successive states of one project: each becomes a commit of everything in it.

use super::{Chain, IntakeOptions, IntakeReport, IntakeVersion, VersionKey};
use crate::fsutil::{FileTime, SafeDir, fs_now};
use crate::hash::ObjectId;
use crate::job::Job;
use crate::limits::MAX_NAME_BYTES;
use crate::object::name::{RepoPath, escape};
use crate::object::tree::{TreeIter, TreeSummary};
use crate::path::{DiskPath, PathError};
use crate::platform::bytes_of;
use crate::repo::base::error::RepoError;
use crate::repo::base::repo::Repo;
use crate::store::{MetaWriter, StoreWriter};
use crate::subset::Subset;
use crate::worktree::base::TreeBase;
use crate::worktree::cacheupdate::CacheUpdate;
use crate::worktree::ignore::IgnoreRules;
use crate::worktree::properties::PropertyRules;
use crate::worktree::scan::{EmptyBase, Everything, ScanError, ScanOptions, State, scan};
use crate::worktree::snapshot::{Snapshot, SnapshotInput, snapshot};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

impl Repo {
    /// Makes commits of directories outside of the worktree, in their order. No ref names them yet.
    ///
    /// Directories that the line of commits before `options.after` has are left out. Each commit is
    /// durable before the next begins.
    pub fn take_directories(
        &self,
        dirs: &[PathBuf],
        options: &IntakeOptions,
        job: &Job,
    ) -> Result<IntakeReport, RepoError> {
        let mut chain = Chain::open(self, options)?;
        let mut report = IntakeReport::default();
        // All are opened first, so that a wrong name stops the work before it begins.
        let opened = dirs.iter().map(|dir| SafeDir::open_root(dir));
        let opened = opened.collect::<Result<Vec<_>, _>>()?;
        for (dir, root) in dirs.iter().zip(&opened) {
            let found = survey(root, options, job)?;
            let key = VersionKey::new(&name_of(dir), found.newest);
            let is_new = if options.dry_run {
                chain.trees_of(&key).is_empty()
            } else {
                take(&mut chain, root, key, &mut report, job)?
            };
            report.commits += u64::from(is_new);
            report.versions.push(IntakeVersion {
                source: DiskPath::from(bytes_of(dir).to_vec()),
                path: RepoPath::root(),
                time: chain.date(found.newest),
                files: found.files,
                bytes: found.bytes,
                is_new,
            });
        }
        report.tip = chain.tip;
        Ok(report)
    }
}

/// Returns the last name of the directory, also of `.`, as the message of its commit.
fn name_of(dir: &Path) -> String {
    let real = dir.canonicalize();
    let real = real.as_deref().unwrap_or(dir);
    let name = real.file_name().unwrap_or(real.as_os_str());
    let name = bytes_of(Path::new(name));
    escape(&name[..name.len().min(MAX_NAME_BYTES)]).to_string()
}

/// What a directory has.
struct DirectoryCount {
    files: u64,
    bytes: u64,
    /// The time of its newest file; its own, if it has none.
    newest: FileTime,
}

/// Counts the files that a commit of the directory would have.
fn survey(root: &SafeDir, options: &IntakeOptions, job: &Job) -> Result<DirectoryCount, RepoError> {
    let ignore = ignore_rules(options);
    let everything = Subset::everything();
    let scan_options = scan_of(&EmptyBase, &ignore, &everything, job);
    let mut newest = None;
    let (mut files, mut bytes) = (0, 0);
    scan(root, &scan_options, |found| -> Result<(), SurveyError> {
        let mut dir = None;
        for (name, state) in found.entries() {
            let State::New { .. } = state else { continue };
            let dir = match &dir {
                Some(dir) => dir,
                None => dir.insert(root.open_dir(&found.path)?),
            };
            // A file that goes meanwhile does not count.
            if let Some(stat) = dir.stat_opt(name)? {
                files += 1;
                bytes += stat.size;
                newest = newest.max(Some(stat.mtime));
            }
        }
        Ok(())
    })?;
    let newest = match newest {
        Some(newest) => newest,
        None => root.stat_self()?.mtime,
    };
    Ok(DirectoryCount {
        files,
        bytes,
        newest,
    })
}

/// Why a survey ended.
#[derive(Debug, thiserror::Error)]
enum SurveyError {
    #[error(transparent)]
    Scan(#[from] ScanError),
    #[error(transparent)]
    Path(#[from] PathError),
}

impl From<SurveyError> for RepoError {
    fn from(e: SurveyError) -> RepoError {
        match e {
            SurveyError::Scan(e) => e.into(),
            SurveyError::Path(e) => e.into(),
        }
    }
}

fn ignore_rules(options: &IntakeOptions) -> IgnoreRules {
    let settings = &options.settings;
    IgnoreRules::new(settings.global_ignore.as_deref(), settings.git_ignore)
}

fn scan_of<'a>(
    known: &'a dyn crate::worktree::scan::BaseEntries,
    ignore: &'a IgnoreRules,
    subset: &'a Subset,
    job: &'a Job,
) -> ScanOptions<'a> {
    ScanOptions {
        known,
        ignore,
        select: &Everything,
        subset,
        list_ignored: false,
        one_file_system: false,
        threads: 0,
        cancel: job.cancel_flag(),
    }
}

/// Makes a commit of the directory, unless the line has it. Returns whether it did. The commit is durable
/// then, so that an interrupted intake has less to do again.
fn take(
    chain: &mut Chain<'_>,
    root: &SafeDir,
    key: VersionKey,
    report: &mut IntakeReport,
    job: &Job,
) -> Result<bool, RepoError> {
    let repo = chain.repo;
    let writer = super::writer(repo)?;
    let made = read_in(chain, root, &writer, job)?;
    report.problems.extend(made.problems);
    report.warnings.extend(made.warnings);
    let mut meta = MetaWriter::new(&writer);
    let tree = match made.tree {
        Some(tree) => tree,
        None => totals(repo, chain.root(&mut meta)?, chain.tree.is_none())?,
    };
    if chain.trees_of(&key).contains(&tree.id) {
        return Ok(false);
    }
    chain.add(key, &tree, &mut meta)?;
    meta.flush()?;
    drop(meta);
    super::keep(repo, writer)?;
    Ok(true)
}

/// Returns the totals of a tree. An empty one need not be stored yet.
fn totals(repo: &Repo, id: ObjectId, is_empty: bool) -> Result<TreeSummary, RepoError> {
    let mut tree = TreeSummary {
        id,
        bytes: 0,
        files: 0,
        entries: 0,
    };
    if !is_empty {
        for entry in TreeIter::new(repo.objects(), id) {
            let entry = entry?;
            tree.bytes += entry.size;
            tree.files += entry.file_count();
            tree.entries += 1;
        }
    }
    Ok(tree)
}

/// Reads the files into the store that differ from the last commit.
fn read_in(
    chain: &Chain<'_>,
    root: &SafeDir,
    writer: &StoreWriter<'_>,
    job: &Job,
) -> Result<Snapshot, RepoError> {
    let (repo, options) = (chain.repo, chain.options);
    let ignore = ignore_rules(options);
    let everything = Subset::everything();
    // No stat cache is of this directory: every file is compared by its content.
    let known = TreeBase::new(repo.objects(), chain.tree, None, &everything);
    let own = SafeDir::open_root(&repo.dmv)?;
    let unwritten = BTreeSet::new();
    let input = SnapshotInput {
        root,
        reader: repo.objects(),
        base: chain.tree,
        scan: scan_of(&known, &ignore, &everything, job),
        started: fs_now(&own),
        portable: options.settings.portable_names,
        properties: &PropertyRules::new(options.settings.properties.clone()),
        unwritten: &unwritten,
        most_new: None,
    };
    // It is never finished, so it writes nothing that counts.
    let mut cache = CacheUpdate::new(&own, repo.id, &everything, &known);
    Ok(snapshot(&input, writer, &mut cache, job)?)
}
