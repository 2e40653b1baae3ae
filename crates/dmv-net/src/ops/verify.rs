//! Verify at a bucket.

use super::caller::{Caller, Remote, Step};
use super::dial::SessionError;
use super::error::OpsError;
use crate::bucket::trouble::Trouble;
use crate::session::{BucketDepth, BucketReport, NetError, verify_shelf};
use crate::transport::{Purpose, Url, shelf};
use dmv_core::job::Job;
use dmv_core::repo::Repo;

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

/// Checks whether a bucket has all that its refs lead to, and whether it is intact. Nothing is stored
/// here but copies of tables.
pub fn verify_at(
    repo: &Repo,
    options: &VerifyAtOptions,
    caller: &dyn Caller,
    job: &Job,
) -> Result<BucketReport, OpsError> {
    let url = &options.remote.url;
    let failed = |source| {
        Box::new(SessionError {
            url: url.clone(),
            answered: false,
            held: None,
            source,
        })
    };
    let Url::Bucket(address) = url else {
        let place = url.to_string();
        let trouble = Trouble::Settings("it is no bucket: run dmv verify there".to_owned());
        return Err(failed(NetError::Bucket { place, trouble }).into());
    };
    caller.began(Step::Work);
    let done = caller.reach(url, Purpose::Read).and_then(|mut reach| {
        reach.copies = Some(repo.dmv_dir().to_owned());
        let shelf = shelf(address, &reach)?;
        verify_shelf(shelf, options.depth, options.dry_run, job)
    });
    Ok(done.map_err(failed)?)
}
