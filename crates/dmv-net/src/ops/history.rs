//! The history of a bucket, without fetching it.

use super::bucket::{at_bucket, unanswered};
use super::caller::{Caller, Remote};
use super::error::OpsError;
use crate::session::BucketHistory;
use crate::transport::{Purpose, Url, shelf};
use dmv_core::hash::ObjectId;
use dmv_core::object::ObjectRead;
use dmv_core::repo::{Repo, RepoError};

/// The history of a remote that is a bucket. Its commits are read when somebody asks for them.
pub struct HistoryAt<'r> {
    url: Url,
    history: BucketHistory<'r>,
}

/// Reads which branches and tags a remote has. The remote has to be a bucket. Commits that `repo` has are
/// not read there; nothing is stored in it but copies of the bucket's root and its pages.
pub fn history_at<'r>(
    repo: Option<&'r Repo>,
    remote: &Remote,
    caller: &dyn Caller,
) -> Result<HistoryAt<'r>, OpsError> {
    let done = at_bucket(
        &remote.url,
        Purpose::Read,
        "dmv log",
        caller,
        |address, reach| {
            let mut shelf = shelf(address, &reach)?;
            shelf.copies = repo.map(|repo| repo.dmv_dir().to_owned());
            let here = repo.map(|repo| repo.objects() as &dyn ObjectRead);
            BucketHistory::open(shelf, here)
        },
    );
    Ok(HistoryAt {
        url: remote.url.clone(),
        history: done?,
    })
}

impl HistoryAt<'_> {
    /// Returns the commits.
    pub fn commits(&self) -> &dyn ObjectRead {
        &self.history
    }

    /// Returns the branches and tags, with their keys in the view, such as `branch/main`; sorted.
    pub fn refs(&self) -> &[(String, ObjectId)] {
        self.history.refs()
    }

    /// Returns the commits whose ids begin with these lower-case digits. Reads all commits.
    pub fn with_prefix(&self, hex: &str) -> Result<Vec<ObjectId>, RepoError> {
        Ok(self.history.with_prefix(hex)?)
    }

    /// Returns a failure of work with these commits: that of the bucket, if it caused the failure.
    pub fn explain(&self, e: RepoError) -> OpsError {
        match e {
            RepoError::Object(e) => match self.history.explain(e) {
                Ok(e) => unanswered(&self.url, e).into(),
                Err(e) => RepoError::from(e).into(),
            },
            e => e.into(),
        }
    }
}
