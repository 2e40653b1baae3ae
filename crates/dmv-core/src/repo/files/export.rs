//! Export: writes the files of a commit to a directory that is not a worktree.

use crate::fsutil::SafeDir;
use crate::hash::encode_hex;
use crate::job::Job;
use crate::object::list::Blob;
use crate::object::name::RepoPath;
use crate::object::tree::{Kind, TreeEntry};
use crate::path::{PathContext, PathError};
use crate::platform::{self, NAMES_MAY_MEET};
use crate::repo::base::error::RepoError;
use crate::repo::base::repo::Repo;
use crate::repo::files::stored;
use crate::repo::files::stored::StoreContent;
use crate::repo::look::entries::{Selection, blob_of};
use crate::store::random_bytes;
use crate::worktree::checkout::{
    CheckoutError, NewFile, NewSymlink, Plan, Refusal, ReplacedEntries, WriteAccess, apply_plan,
};
use crate::worktree::compare_dirs;
use crate::worktree::properties::time_of;
use crate::worktree::snapshot::Problem;
use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::Ordering;

/// The most files in one plan. Limits memory.
const PLAN_FILES: usize = 64 << 10;

/// What an export wrote.
#[derive(Debug, Default)]
pub struct ExportReport {
    /// The number of files and symlinks.
    pub files: u64,
    /// The bytes of files.
    pub bytes: u64,
    /// Paths that could not be written, and why.
    pub refused: Vec<Problem>,
}

impl Repo {
    /// Writes a part of a commit into the directory `to`.
    ///
    /// A missing directory is filled under a temporary name beside `to` and renamed when it is
    /// complete. An existing directory must be empty; its files are renamed into place one by one.
    /// Either way, no truncated file ever has its final name. The caller checks first that all
    /// content is stored: see [`check_here`](Self::check_here).
    pub fn export(
        &self,
        wanted: Selection<'_>,
        to: &Path,
        job: &Job,
    ) -> Result<ExportReport, RepoError> {
        let to = std::path::absolute(to)
            .context("find", to)
            .map_err(RepoError::Io)?;
        let io = |action, path: &Path| {
            let path = path.to_owned();
            move |source| RepoError::Io(PathError::new(action, path, source))
        };
        if to.exists() {
            let mut entries = std::fs::read_dir(&to).map_err(io("list", &to))?;
            if entries.next().is_some() {
                let source = std::io::Error::from(std::io::ErrorKind::DirectoryNotEmpty);
                return Err(RepoError::Io(PathError::new("export to", to, source)));
            }
            return export_into(self, wanted, &open_root(&to)?, true, job);
        }
        let (Some(parent), Some(name)) = (to.parent(), to.file_name()) else {
            return Err(io("create", &to)(std::io::ErrorKind::InvalidInput.into()));
        };
        std::fs::create_dir_all(parent).map_err(io("create", parent))?;
        let mut temp_name = name.to_owned();
        temp_name.push(format!(".{}.partial", encode_hex(&random_bytes()[..4])));
        let temp = parent.join(temp_name);
        std::fs::create_dir(&temp).map_err(io("create", &temp))?;
        let done = export_into(self, wanted, &open_root(&temp)?, false, job);
        match done {
            Ok(report) => {
                platform::rename(&temp, &to).map_err(io("rename", &temp))?;
                Ok(report)
            }
            Err(e) => {
                // The export's own error is more important than a failed cleanup.
                let _ = std::fs::remove_dir_all(&temp);
                Err(e)
            }
        }
    }
}

/// Opens the directory of an export.
fn open_root(path: &Path) -> Result<SafeDir, PathError> {
    let root = SafeDir::open_root(path)?;
    Ok(if NAMES_MAY_MEET { root.exact() } else { root })
}

fn export_into(
    repo: &Repo,
    wanted: Selection<'_>,
    root: &SafeDir,
    rename_always: bool,
    job: &Job,
) -> Result<ExportReport, RepoError> {
    let mut export = Export {
        repo,
        root,
        rename_always,
        job,
        plan: Plan::default(),
        dirs: BTreeSet::new(),
        last_dir: RepoPath::root(),
        report: ExportReport::default(),
    };
    let (bytes, files) = wanted.totals();
    job.progress.total_bytes.store(bytes, Ordering::Relaxed);
    job.progress.total_files.store(files, Ordering::Relaxed);
    repo.list_wanted(wanted, &mut |listed| {
        export.add(listed.path, &listed.entry)?;
        Ok(ControlFlow::Continue(()))
    })?;
    export.flush()?;
    Ok(export.report)
}

struct Export<'a> {
    repo: &'a Repo,
    root: &'a SafeDir,
    /// Whether each file gets its name only when complete. Needed if the whole directory is not
    /// renamed at the end.
    rename_always: bool,
    job: &'a Job,
    plan: Plan<Blob>,
    dirs: BTreeSet<Vec<u8>>,
    last_dir: RepoPath,
    report: ExportReport,
}

impl Export<'_> {
    fn add(&mut self, path: RepoPath, entry: &TreeEntry) -> Result<(), RepoError> {
        self.job.check()?;
        let parent = path.parent().unwrap_or_default();
        if parent != self.last_dir {
            self.need(&parent);
            self.last_dir = parent;
        }
        let bytes = path.as_bytes().to_vec();
        let replaces = None;
        match entry.kind {
            Kind::Directory => self.need(&path),
            Kind::Symlink => {
                let target = self.repo.link_target(entry)?;
                self.plan.symlinks.push(NewSymlink {
                    path: bytes,
                    target,
                    replaces,
                });
            }
            Kind::File | Kind::Executable => {
                let exec = entry.kind == Kind::Executable;
                let blob = blob_of(entry);
                self.plan.files.push(NewFile {
                    path: bytes,
                    exec,
                    private: entry.is_private(),
                    modified: time_of(entry),
                    xattrs: entry.xattrs(),
                    access: WriteAccess::Usual,
                    blob,
                    replaces,
                });
            }
            Kind::Conflict => {
                let why = "it is an unresolved conflict".to_owned();
                self.report.refused.push(Problem::new(bytes, why));
            }
        }
        if self.plan.files.len() >= PLAN_FILES {
            self.flush()
        } else {
            Ok(())
        }
    }

    fn need(&mut self, dir: &RepoPath) {
        let mut dir = dir.clone();
        while !dir.is_root() && self.dirs.insert(dir.as_bytes().to_vec()) {
            dir.pop();
        }
    }

    fn flush(&mut self) -> Result<(), RepoError> {
        let mut plan = std::mem::take(&mut self.plan);
        plan.rename_always = self.rename_always;
        plan.make_dirs = std::mem::take(&mut self.dirs).into_iter().collect();
        plan.make_dirs.sort_by(|a, b| compare_dirs(a, b));
        self.last_dir = RepoPath::root();
        let content = stored::CountingWriter {
            inner: StoreContent::new(self.repo, self.root),
            job: self.job,
        };
        content.inner.check_sharing(&plan)?;
        let asides = ReplacedEntries::new(self.root);
        let cancel = self.job.cancel_flag();
        let report = apply_plan(self.root, &plan, &content, 0, cancel, &asides);
        let report = report.map_err(|e| match e {
            CheckoutError::Cancelled => RepoError::Cancelled,
            CheckoutError::Disk(e) => RepoError::Path(e),
        })?;
        for placed in report.files.iter().chain(&report.symlinks).flatten() {
            self.report.files += 1;
            self.report.bytes += placed.stat.size;
            let without = &self.job.progress.without_xattrs;
            Job::add(without, u64::from(placed.lacks_xattrs));
        }
        for refused in report.refused {
            match refused.why {
                Refusal::Content(e) => match e.downcast::<RepoError>() {
                    Ok(e) => return Err(*e),
                    Err(e) => {
                        let why = e.to_string();
                        self.report.refused.push(Problem::new(refused.path, why));
                    }
                },
                why => {
                    let why = why.to_string();
                    self.report.refused.push(Problem::new(refused.path, why));
                }
            }
        }
        Ok(())
    }
}
