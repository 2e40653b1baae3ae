//! Commands about claims at remotes: claiming where a remote arbitrates, and telling it.

use super::caller::Caller;
use super::claim_exchange::{at_bucket, tell_bucket, tell_news};
use super::dial::session;
use super::remote::Remote;
use super::session_error::SessionError;
use crate::session::NetError;
use crate::transport::{Purpose, Url};
use dmv_core::job::Job;
use dmv_core::object::name::RepoPath;
use dmv_core::repo::{ClaimOptions, ClaimOutcome, DisplacedClaim, OperationRequest, Repo};

/// How often a remote is told of a claim that it has not taken.
const TELLS: usize = 3;

/// What became of a request to claim at a remote.
#[derive(Debug)]
pub struct ClaimReport {
    /// What became of the paths.
    pub outcome: ClaimOutcome,
    /// Whether the remote's dmv knows claims.
    pub is_known: bool,
}

/// Claims paths where a remote arbitrates. If another device was faster there, nothing stays claimed.
///
/// If the connection is lost, the paths may be claimed here, and the next connection tells it.
pub fn claim(
    repo: &Repo,
    remote: &Remote,
    options: &ClaimOptions,
    caller: &dyn Caller,
    job: &Job,
) -> Result<ClaimReport, Box<SessionError>> {
    let (url, request) = (&remote.url, &options.request);
    let name = (!remote.once).then_some(&remote.name[..]);
    if let Url::Bucket(_) = url {
        let mut outcome = None;
        let told = at_bucket(url, caller, job, &mut |target| {
            let mut tell = || {
                let (displaced, _) = tell_bucket(repo, target, name, None, request)?;
                Ok(displaced)
            };
            tell_news(caller, &tell()?);
            outcome = Some(claim_by(repo, options, &mut tell)?);
            Ok(())
        });
        told.map_err(|e| SessionError::unanswered(url, e))?;
        let outcome = outcome.expect("it was claimed or refused");
        let is_known = true;
        return Ok(ClaimReport { outcome, is_known });
    }
    session(repo, url, Purpose::Write, caller, job, |mut client| {
        let is_known = client.knows_claims();
        let outcome = if is_known {
            let mut tell = || client.exchange_claims(name, true, request);
            claim_by(repo, options, &mut tell)?
        } else {
            repo.claim(options)?
        };
        client.finish(Vec::new());
        Ok(ClaimReport { outcome, is_known })
    })
}

/// Claims here, and then where `tell` tells it.
fn claim_by(
    repo: &Repo,
    options: &ClaimOptions,
    tell: &mut dyn FnMut() -> Result<Vec<DisplacedClaim>, NetError>,
) -> Result<ClaimOutcome, NetError> {
    let new = unclaimed(repo, &options.paths)?;
    let outcome = repo.claim(options)?;
    if let ClaimOutcome::Refused(_) = outcome {
        return Ok(outcome);
    }
    // What is displaced now is told as the outcome.
    tell()?;
    let mut lost = repo.claims_in_the_way(&options.paths)?;
    for _ in 1..TELLS {
        if !lost.is_empty() || is_held(repo, options)? {
            break;
        }
        // Others have changed the claims there at the same moment, again and again.
        tell()?;
        lost = repo.claims_in_the_way(&options.paths)?;
    }
    if lost.is_empty() {
        return Ok(outcome);
    }
    if !new.is_empty() {
        repo.release(&new, &options.request)?;
        tell()?;
    }
    Ok(ClaimOutcome::Refused(lost))
}

/// Returns whether some remote holds the claims of this repository on all of the paths.
fn is_held(repo: &Repo, options: &ClaimOptions) -> Result<bool, NetError> {
    let table = repo.claims()?;
    let is_held = |path: &RepoPath| {
        let mut claims = table.claims().iter();
        claims.any(|info| info.is_here && info.claim.path == *path && !info.held_at.is_empty())
    };
    Ok(options.paths.iter().all(is_held))
}

/// Returns the paths on which this repository has no claim of this device.
fn unclaimed(repo: &Repo, paths: &[RepoPath]) -> Result<Vec<RepoPath>, NetError> {
    let table = repo.claims()?;
    let is_own = |path: &RepoPath| {
        let mut claims = table.claims().iter();
        claims.any(|info| info.is_here && info.claim.path == *path)
    };
    let new = paths.iter().filter(|path| !is_own(path));
    Ok(new.cloned().collect())
}

/// Exchanges claims with a remote, and does nothing else. Returns whether its dmv knows claims.
pub fn exchange_claims(
    repo: &Repo,
    remote: &Remote,
    caller: &dyn Caller,
    job: &Job,
) -> Result<bool, Box<SessionError>> {
    let url = &remote.url;
    if let Url::Bucket(_) = url {
        let request = caller.reach(url, Purpose::Write);
        let told =
            request.and_then(|reach| tell_all(repo, remote, None, &reach.request, caller, job));
        return told
            .map(|()| true)
            .map_err(|e| SessionError::unanswered(url, e));
    }
    session(repo, url, Purpose::Write, caller, job, |client| {
        let is_known = client.knows_claims();
        client.finish(Vec::new());
        Ok(is_known)
    })
}

/// Sets whether pushes to a bucket keep to the claims that hold there.
pub fn enforce_claims(
    repo: &Repo,
    remote: &Remote,
    enforced: bool,
    request: &OperationRequest,
    caller: &dyn Caller,
    job: &Job,
) -> Result<(), Box<SessionError>> {
    let told = tell_all(repo, remote, Some(enforced), request, caller, job);
    told.map_err(|e| SessionError::unanswered(&remote.url, e))
}

fn tell_all(
    repo: &Repo,
    remote: &Remote,
    enforced: Option<bool>,
    request: &OperationRequest,
    caller: &dyn Caller,
    job: &Job,
) -> Result<(), NetError> {
    let name = (!remote.once).then_some(&remote.name[..]);
    at_bucket(&remote.url, caller, job, &mut |target| {
        let (displaced, _) = tell_bucket(repo, target, name, enforced, request)?;
        tell_news(caller, &displaced);
        Ok(())
    })
}
