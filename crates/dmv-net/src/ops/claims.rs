//! Commands about claims at remotes: claiming where a remote arbitrates, and telling it.

use super::caller::Caller;
use super::claim_exchange::{TellReport, at_bucket, tell_bucket, tell_news};
use super::dial::session;
use super::remote::Remote;
use super::session_error::SessionError;
use crate::session::NetError;
use crate::transport::{Purpose, Url};
use dmv_core::claims::{ClaimBook, ClaimRef, RuleChange, Writer};
use dmv_core::job::Job;
use dmv_core::object::name::RepoPath;
use dmv_core::repo::{
    ClaimOptions, ClaimOutcome, ClaimsThere, DisplacedClaim, OperationRequest, Repo,
};
use std::collections::BTreeSet;

/// How often a remote is told of a claim that it has not taken.
const TELLS: usize = 3;

/// What became of a request to claim at a remote.
#[derive(Debug)]
pub struct ClaimReport {
    /// What became of the paths.
    pub outcome: ClaimOutcome,
    /// Whether the remote's dmv knows claims.
    pub is_known: bool,
    /// Why the remote has not taken the claims, if it has not and says so.
    pub untold: Option<NetError>,
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
        let (mut outcome, mut untold) = (None, None);
        let told = at_bucket(url, caller, job, &mut |target| {
            let mut tell = || {
                let told = tell_bucket(repo, target, name, None, request)?;
                untold = told.untold;
                Ok(told.displaced)
            };
            tell_news(caller, &tell()?);
            outcome = Some(claim_by(repo, options, &mut tell)?);
            Ok(())
        });
        told.map_err(|e| SessionError::unanswered(url, e))?;
        let outcome = outcome.expect("it was claimed or refused");
        return Ok(ClaimReport {
            outcome,
            is_known: true,
            untold,
        });
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
        Ok(ClaimReport {
            outcome,
            is_known,
            untold: None,
        })
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
        // The remote held somebody else's claim when it was told, and that one has ended since; or it has no room,
        // and then the next time changes nothing.
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
    let table = repo.claims_on(options.paths.iter())?;
    let is_held = |path: &RepoPath| {
        let mut claims = table.claims().iter();
        claims.any(|info| info.is_here && info.claim.path == *path && !info.held_at.is_empty())
    };
    Ok(options.paths.iter().all(is_held))
}

/// Returns the paths on which this repository has no claim of this device.
fn unclaimed(repo: &Repo, paths: &[RepoPath]) -> Result<Vec<RepoPath>, NetError> {
    let table = repo.claims_on(paths.iter())?;
    let is_own = |path: &RepoPath| {
        let mut claims = table.claims().iter();
        claims.any(|info| info.is_here && info.claim.path == *path)
    };
    let new = paths.iter().filter(|path| !is_own(path));
    Ok(new.cloned().collect())
}

/// What a remote has made of the claims that it was told.
#[derive(Debug)]
pub enum TellOutcome {
    /// It has them.
    Told,
    /// It has not taken them.
    Untold(NetError),
    /// It still holds claims that have ended: it could not store what it heard.
    NotStored,
    /// Its dmv does not know claims.
    Unknown,
}

/// Exchanges claims with a remote, and does nothing else.
pub fn exchange_claims(
    repo: &Repo,
    remote: &Remote,
    caller: &dyn Caller,
    job: &Job,
) -> Result<TellOutcome, Box<SessionError>> {
    let url = &remote.url;
    if let Url::Bucket(_) = url {
        let request = caller.reach(url, Purpose::Write);
        let told =
            request.and_then(|reach| tell_all(repo, remote, None, &reach.request, caller, job));
        return match told.map_err(|e| SessionError::unanswered(url, e))? {
            Some(why) => Ok(TellOutcome::Untold(why)),
            None => Ok(TellOutcome::Told),
        };
    }
    session(repo, url, Purpose::Write, caller, job, |mut client| {
        let is_known = client.knows_claims();
        let there = client.claims_there.take().unwrap_or_default();
        client.finish(Vec::new());
        Ok(if !is_known {
            TellOutcome::Unknown
        } else if holds_ended(&there, &repo.claim_book()?) {
            TellOutcome::NotStored
        } else {
            TellOutcome::Told
        })
    })
}

/// Returns whether a claim holds there that its writer has ended, as the book here says.
fn holds_ended(there: &ClaimsThere, book: &ClaimBook) -> bool {
    let live: BTreeSet<(Writer, &RepoPath)> = book
        .claims()
        .map(|(writer, claim)| (writer, &claim.path))
        .collect();
    let has_ended = |held: &ClaimRef| {
        book.get(&held.writer).is_some() && !live.contains(&(held.writer, &held.path))
    };
    there.held.iter().any(has_ended)
}

/// Changes a rule for pushes to a bucket.
pub fn change_push_rule(
    repo: &Repo,
    remote: &Remote,
    change: RuleChange,
    request: &OperationRequest,
    caller: &dyn Caller,
    job: &Job,
) -> Result<(), Box<SessionError>> {
    let told = tell_all(repo, remote, Some(change), request, caller, job);
    // The bucket has the setting, perhaps without the claims.
    told.map(drop)
        .map_err(|e| SessionError::unanswered(&remote.url, e))
}

/// Tells a bucket everything. Returns why it has not taken the claims, if it has not.
fn tell_all(
    repo: &Repo,
    remote: &Remote,
    change: Option<RuleChange>,
    request: &OperationRequest,
    caller: &dyn Caller,
    job: &Job,
) -> Result<Option<NetError>, NetError> {
    let name = (!remote.once).then_some(&remote.name[..]);
    let mut why = None;
    at_bucket(&remote.url, caller, job, &mut |target| {
        let TellReport {
            displaced, untold, ..
        } = tell_bucket(repo, target, name, change, request)?;
        tell_news(caller, &displaced);
        why = untold;
        Ok(())
    })?;
    Ok(why)
}
