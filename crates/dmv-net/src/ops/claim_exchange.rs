//! The exchange of claims at the beginning of each session, and pushes that keep to claims.

use super::buckets::ClaimTarget;
use super::caller::{Caller, ClaimsNews, buckets_of};
use crate::session::{Client, NetError};
use crate::transport::{Purpose, Url};
use dmv_core::job::Job;
use dmv_core::object::ObjectType;
use dmv_core::repo::{
    ClaimsThere, DisplacedClaim, OfferedRefs, OperationRequest, RefChange, RefUpdate, Refusal,
    Repo, ToldClaims,
};

/// Exchanges the claims of both sides, as every session does first.
pub(super) fn exchange(
    repo: &Repo,
    url: &Url,
    purpose: Purpose,
    caller: &dyn Caller,
    client: &mut Client<'_>,
    job: &Job,
) -> Result<(), NetError> {
    if let Url::Bucket(_) = url {
        // Each request costs. Where nobody has claimed anything, only news are a reason to ask.
        if asks_bucket(repo, url, caller)? || has_news(repo, &client.offered)? {
            exchange_at_bucket(repo, url, purpose, caller, job)?;
        }
        return Ok(());
    }
    // No transfer fails because of claims.
    let Ok(book) = repo.claim_book() else {
        return Ok(());
    };
    if client.lacks_claims(&book) || repo.refs().is_read_only() {
        return Ok(());
    }
    if !client.knows_claims() {
        let own = repo.own_device();
        let mut claims = book.claims();
        if claims.any(|(writer, _)| Some(writer.device) == own) {
            caller.heard_of_claims(ClaimsNews::Unknown);
        }
        return Ok(());
    }
    let name = name_of(url, caller)?;
    let request = caller.reach(url, purpose)?.request;
    let displaced = client.exchange_claims(name.as_deref(), false, &request)?;
    tell_news(caller, &displaced);
    Ok(())
}

/// Returns whether a claim is known here, or that a bucket keeps to them.
pub(super) fn asks_bucket(repo: &Repo, url: &Url, caller: &dyn Caller) -> Result<bool, NetError> {
    if !repo.claim_book()?.is_empty() {
        return Ok(true);
    }
    let there = name_of(url, caller)?.map(|name| repo.claims_at(&name));
    Ok(there.transpose()?.is_some_and(|there| there.enforced))
}

/// Returns whether a remote has commits that are not stored here.
fn has_news(repo: &Repo, offered: &OfferedRefs) -> Result<bool, NetError> {
    for (_, id) in &offered.refs {
        if !repo.objects().holds(ObjectType::Commit, id)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The same at a bucket, where this side does all of it. Returns what the bucket has; `None` if it cannot be
/// told: a transfer does not fail for this.
pub(super) fn exchange_at_bucket(
    repo: &Repo,
    url: &Url,
    purpose: Purpose,
    caller: &dyn Caller,
    job: &Job,
) -> Result<Option<ClaimsThere>, NetError> {
    if repo.refs().is_read_only() {
        return Ok(None);
    }
    let name = name_of(url, caller)?;
    let request = caller.reach(url, purpose)?.request;
    let mut there = None;
    let told = at_bucket(url, caller, job, &mut |target| {
        let (displaced, found) = tell_bucket(repo, target, name.as_deref(), None, &request)?;
        tell_news(caller, &displaced);
        there = Some(found);
        Ok(())
    });
    match told {
        Err(NetError::Bucket { .. }) => Ok(None),
        told => told.map(|()| there),
    }
}

/// Calls `work` with the claims of a bucket. Does nothing if the address is none.
pub(super) fn at_bucket(
    url: &Url,
    caller: &dyn Caller,
    job: &Job,
    work: &mut dyn FnMut(&mut dyn ClaimTarget) -> Result<(), NetError>,
) -> Result<(), NetError> {
    let Url::Bucket(address) = url else {
        return Ok(());
    };
    buckets_of(caller, url)?.with_claims(address, job, work)
}

/// Tells a bucket all claims that are known here, and notes what it has.
pub(super) fn tell_bucket(
    repo: &Repo,
    target: &mut dyn ClaimTarget,
    remote: Option<&str>,
    enforced: Option<bool>,
    request: &OperationRequest,
) -> Result<(Vec<DisplacedClaim>, ClaimsThere), NetError> {
    let lists: Vec<_> = repo.claim_book()?.lists().cloned().collect();
    let told = target.tell(&lists, enforced)?;
    let there = told.there.clone();
    let told = ToldClaims {
        remote: remote.map(str::to_owned),
        lists: told.lists,
        there: told.there,
    };
    Ok((repo.note_claims(&told, request)?, there))
}

/// Returns the name of the remote at an address, if it has one.
fn name_of(url: &Url, caller: &dyn Caller) -> Result<Option<String>, NetError> {
    let remotes = caller.remotes()?.list.into_iter();
    let mut named = remotes.filter(|remote| remote.url == *url && !remote.once);
    Ok(named.next().map(|remote| remote.name))
}

/// Says which own claims somebody else is before now.
pub(super) fn tell_news(caller: &dyn Caller, displaced: &[DisplacedClaim]) {
    if !displaced.is_empty() {
        caller.heard_of_claims(ClaimsNews::Displaced(displaced));
    }
}

/// Returns the updates of a push that do not pass what others hold, and the others as refused.
pub(super) fn passable(
    repo: &Repo,
    updates: Vec<RefUpdate>,
    offered: &OfferedRefs,
    there: Option<&ClaimsThere>,
) -> Result<Passable, NetError> {
    let mut out = Passable::default();
    let there = there.filter(|there| there.enforced);
    let tips: Vec<_> = offered.refs.iter().map(|(_, id)| *id).collect();
    for update in updates {
        let held = match there {
            Some(there) => {
                let device = repo.own_device();
                repo.claim_against_push(&update, &tips, &there.held, device)?
            }
            None => None,
        };
        match held {
            Some(_) => out.refused.push(RefChange {
                key: update.key,
                old: update.old,
                new: update.new,
                refused: Some(Refusal::Held),
            }),
            None => out.updates.push(update),
        }
    }
    Ok(out)
}

/// What a push may do where claims are kept to.
#[derive(Default)]
pub(super) struct Passable {
    /// The updates that may be made.
    pub updates: Vec<RefUpdate>,
    /// The others.
    pub refused: Vec<RefChange>,
}
