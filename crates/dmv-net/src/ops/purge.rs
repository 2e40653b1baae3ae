//! Purge: remotes that purge, too, and what they have purged.

use super::caller::{Caller, buckets_of};
use super::dial::session;
use super::remote::Remote;
use super::session_error::SessionError;
use crate::session::PurgeAnswer;
use crate::transport::{Purpose, Url};
use dmv_core::job::Job;
use dmv_core::repo::{KnownPurge, OperationRequest, Repo};

/// Requests that a remote purges what was purged here. At a bucket, where no program answers, this device
/// does it. Returns `None` if its dmv is too old.
pub fn request_purge(
    repo: &Repo,
    remote: &Remote,
    purges: &[KnownPurge],
    request: &OperationRequest,
    caller: &dyn Caller,
    job: &Job,
) -> Result<Option<PurgeAnswer>, Box<SessionError>> {
    if let Url::Bucket(_) = &remote.url {
        let unanswered = |e| SessionError::unanswered(&remote.url, e);
        let buckets = buckets_of(caller, &remote.url).map_err(unanswered)?;
        return buckets.purge(repo, remote, purges, request, job).map(Some);
    }
    let purpose = Purpose::Write;
    session(repo, &remote.url, purpose, caller, job, |mut client| {
        let answer = client.request_purge(purges)?;
        client.finish(Vec::new());
        Ok(answer)
    })
}

/// Returns what a remote has purged, or `None` if its dmv is too old.
pub fn purges_at(
    repo: &Repo,
    remote: &Remote,
    caller: &dyn Caller,
    job: &Job,
) -> Result<Option<Vec<KnownPurge>>, Box<SessionError>> {
    let purpose = Purpose::Read;
    session(repo, &remote.url, purpose, caller, job, |mut client| {
        let purges = client.purges_there()?.to_vec();
        let knows = client.knows_purges();
        client.finish(Vec::new());
        Ok(knows.then_some(purges))
    })
}
