//! Verify at a bucket.

use super::caller::{BucketCaller, source_of};
use super::push::at_bucket;
use crate::peer::{BucketDepth, BucketReport, MissingIds, verify_bucket};
use dmv_core::hash::ObjectId;
use dmv_core::job::Job;
use dmv_core::object::name::RepoPath;
use dmv_core::reach::{Detail, Reach};
use dmv_core::repo::{Repo, RepoError};
use dmv_net::ops::{OpsError, Remote, Step};
use dmv_net::transport::Purpose;
use std::collections::HashSet;

/// What to check at a remote.
#[derive(Clone, Debug)]
pub struct VerifyAtOptions {
    /// The remote. It has to be a bucket.
    pub remote: Remote,
    /// How much of the content to read.
    pub depth: BucketDepth,
    /// Whether to report only how much would be read.
    pub dry_run: bool,
}

/// What a check at a remote has found.
#[derive(Clone, Debug, Default)]
pub struct VerifyAtReport {
    /// What was read, and what is wrong.
    pub found: BucketReport,
    /// Some of the files whose content is missing or damaged there, each with a commit that has it.
    pub files: Vec<(RepoPath, ObjectId)>,
}

/// The most objects whose files are looked for.
const MAX_NAMED: usize = 1000;

/// Checks whether a bucket has all that its refs lead to, and whether it is intact. Nothing is stored
/// here but copies of tables.
pub fn verify_at(
    repo: &Repo,
    options: &VerifyAtOptions,
    caller: &dyn BucketCaller,
    job: &Job,
) -> Result<VerifyAtReport, OpsError> {
    let url = &options.remote.url;
    let done = at_bucket(
        url,
        Purpose::Read,
        "dmv verify",
        caller,
        |address, settings| {
            caller.began(Step::Work);
            let mut source = source_of(address, &settings)?;
            source.copies = Some(repo.dmv_dir().to_owned());
            verify_bucket(source, options.depth, options.dry_run, job)
        },
    );
    let found = done?;
    let files = affected(repo, &found.missing_ids, job)?;
    Ok(VerifyAtReport { found, files })
}

/// Returns some of the files that need what a bucket lacks. This repository knows what they are called.
fn affected(
    repo: &Repo,
    missing: &MissingIds,
    job: &Job,
) -> Result<Vec<(RepoPath, ObjectId)>, RepoError> {
    if *missing == MissingIds::default() {
        return Ok(Vec::new());
    }
    let (mut reach, mut ids) = (
        Reach::new(repo.complete_commits()?, [], Detail::All).skipping_chunks(),
        HashSet::new(),
    );
    while ids.len() < MAX_NAMED
        && let Some(found) = reach.next(repo.objects())?
    {
        job.check()?;
        if missing.has(found.ty, &found.id) {
            ids.insert(found.id);
        }
    }
    repo.uses_of(&ids, job)
}
