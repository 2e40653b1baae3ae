//! Checkouts of lean repositories: content comes in portions, becomes files, and goes from the packs again.
//!
//! A lean repository keeps no second copy of what lies unchanged in its worktree, once a remote has
//! confirmed that it keeps it. So the disk needs room for the files and for one portion of content.

use super::caller::{Caller, Step};
use super::error::OpsError;
use super::supply::{Suppliers, SupplyReport, supplied};
use dmv_core::job::Job;
use dmv_core::object::list::Blob;
use dmv_core::object::name::RepoPath;
use dmv_core::object::root::{Lack, Root};
use dmv_core::object::tree::Kind;
use dmv_core::platform::free_bytes;
use dmv_core::repo::{
    BusyError, CheckoutOptions, CheckoutReport, CheckoutTarget, Portions, Repo, RepoError,
    UpkeepError, blob_of,
};
use std::cell::RefCell;
use std::ops::ControlFlow;

/// The most bytes of files whose content is in packs at the same time.
const MOST_PORTION_BYTES: u64 = 1 << 30;
/// The least, however little room there is.
const LEAST_PORTION_BYTES: u64 = 64 << 20;
/// A portion takes at most one part in so many of the free space.
const PART_OF_FREE: u64 = 8;

/// Switches the worktree of a lean repository to `target`. Content that is absent comes from the caller's
/// remotes in portions, and goes from the packs when its files are written. What no remote confirms to keep
/// stays in packs.
///
/// If it is interrupted, the command `go_on` continues it.
pub fn checkout_lean(
    repo: &Repo,
    target: &CheckoutTarget,
    go_on: &str,
    options: &CheckoutOptions,
    caller: &dyn Caller,
    job: &Job,
) -> Result<SupplyReport<CheckoutReport>, OpsError> {
    let mut suppliers = Suppliers::new(repo, caller, job)?;
    let links = symlinks(repo, target, options)?;
    let left = suppliers.fetch(links)?;
    if !left.is_empty() {
        return Err(OpsError::Absent(Box::new(suppliers.absent(left))));
    }
    let free = free_bytes(repo.worktree_root().unwrap_or(repo.dmv_dir())).unwrap_or(0);
    let source = LeanSource {
        repo,
        caller,
        job,
        most_bytes: (free / PART_OF_FREE).clamp(LEAST_PORTION_BYTES, MOST_PORTION_BYTES),
        suppliers: RefCell::new(Some(suppliers)),
        failed: RefCell::new(None),
    };
    let done = supplied(repo, caller, job, || {
        repo.checkout_in_portions(target.clone(), go_on, options, &source, job)
    });
    if let Some(e) = source.failed.take() {
        return Err(e);
    }
    let mut done = done?;
    let suppliers = source.suppliers.take();
    done.skipped
        .extend(suppliers.into_iter().flat_map(Suppliers::finish));
    Ok(done)
}

/// Returns the symlinks of a target whose own targets are absent. They are short, and packs keep them.
fn symlinks(
    repo: &Repo,
    target: &CheckoutTarget,
    options: &CheckoutOptions,
) -> Result<Vec<Lack>, RepoError> {
    let commit = match target {
        CheckoutTarget::Branch(name) => repo.resolve(&format!("refs/heads/{name}"))?,
        CheckoutTarget::NewBranch(_, id) | CheckoutTarget::Commit(id) => *id,
    };
    let tree = repo.read_commit(&commit)?.tree;
    let subset = match &options.subset {
        Some(subset) => subset.clone(),
        None => repo.subset()?,
    };
    let mut links = Vec::new();
    repo.list_subset(&RepoPath::root(), tree, &subset, &mut |line| {
        let root = Root::Blob(blob_of(&line.entry));
        if line.entry.kind == Kind::Symlink && !repo.has_root(root)? {
            let path = line.path;
            links.push(Lack { path, root });
        }
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(links)
}

/// The caller's remotes as the source of a checkout in portions.
struct LeanSource<'a> {
    repo: &'a Repo,
    caller: &'a dyn Caller,
    job: &'a Job,
    most_bytes: u64,
    /// `None` once one of them could not give something.
    suppliers: RefCell<Option<Suppliers<'a>>>,
    /// Why content could not be brought. The checkout itself only hears that it ends.
    failed: RefCell<Option<OpsError>>,
}

impl LeanSource<'_> {
    fn fail(&self, e: OpsError) -> RepoError {
        *self.failed.borrow_mut() = Some(e);
        RepoError::Cancelled
    }

    fn fetch(&self, lacks: Vec<Lack>) -> Result<(), OpsError> {
        let mut suppliers = self.suppliers.borrow_mut();
        let Some(asked) = suppliers.as_mut() else {
            return Ok(());
        };
        let left = asked.fetch(lacks)?;
        if left.is_empty() {
            return Ok(());
        }
        let asked = suppliers.take().expect("it was there above");
        Err(OpsError::Absent(Box::new(asked.absent(left))))
    }
}

impl Portions for LeanSource<'_> {
    fn most_bytes(&self) -> u64 {
        self.most_bytes
    }

    fn bring(&self, files: Vec<Lack>) -> Result<(), RepoError> {
        let mut lacks = Vec::new();
        for file in files {
            if !self.repo.has_root(file.root)? {
                lacks.push(file);
            }
        }
        if !lacks.is_empty() {
            self.fetch(lacks).map_err(|e| self.fail(e))?;
            self.caller.began(Step::Work);
        }
        Ok(())
    }

    fn written(&self, blobs: &[Blob]) -> Result<(), RepoError> {
        let mut suppliers = self.suppliers.borrow_mut();
        let Some(suppliers) = suppliers.as_mut() else {
            return Ok(());
        };
        let freeing = match self.repo.begin_to_free() {
            // Somebody reads from this repository. `dmv lean on` frees the content later.
            Err(RepoError::Busy(BusyError::Freeing(_))) => return Ok(()),
            freeing => freeing?,
        };
        let kept = suppliers.kept(blobs);
        let mut still = || suppliers.still_keep();
        match freeing.drop_files(&kept, &[], &mut still, self.job) {
            // The content stays.
            Ok(_) | Err(RepoError::Upkeep(UpkeepError::Unconfirmed)) => Ok(()),
            Err(e) => Err(e),
        }
    }
}
