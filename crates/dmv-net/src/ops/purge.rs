//! Purge: remotes that purge, too, and what they have purged.

use super::caller::{Caller, Remote};
use super::dial::{SessionError, session};
use crate::session::PurgeAnswer;
use crate::transport::Purpose;
#[cfg(feature = "store")]
use crate::transport::Url;
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
    #[cfg(feature = "store")]
    if let Url::Bucket(_) = &remote.url {
        return super::free::purge_at(repo, remote, purges, request, caller, job).map(Some);
    }
    let _ = request;
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
