//! The exchange of claims at the beginning of each session, and pushes that keep to claims.

use super::buckets::{BucketClaims, ClaimTarget, PushTarget};
use super::caller::{Caller, ClaimsNews, buckets_of};
use crate::session::{Client, NetError};
use crate::transport::{Purpose, Url};
use dmv_core::claims::{ClaimBook, RuleChange};
use dmv_core::hash::ObjectId;
use dmv_core::job::Job;
use dmv_core::object::ObjectType;
use dmv_core::repo::{
    ClaimInfo, ClaimsThere, DisplacedClaim, OfferedRefs, OperationRequest, PushedInto, RefChange,
    RefUpdate, Refusal, Repo, RepoError, ToldClaims,
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
            client.claims_there = match exchange_at_bucket(repo, url, purpose, caller, job) {
                // A fetch does not fail because of claims.
                Err(NetError::Bucket { .. }) => None,
                there => Some(there?),
            };
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
fn asks_bucket(repo: &Repo, url: &Url, caller: &dyn Caller) -> Result<bool, NetError> {
    if !repo.claim_book()?.is_empty() {
        return Ok(true);
    }
    Ok(known_claims(repo, url, caller)?.rules.keeps_to_claims)
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

/// The same at a bucket, where this side does all of it. Returns what the bucket has.
fn exchange_at_bucket(
    repo: &Repo,
    url: &Url,
    purpose: Purpose,
    caller: &dyn Caller,
    job: &Job,
) -> Result<ClaimsThere, NetError> {
    let name = name_of(url, caller)?;
    let mut there = known_at(repo, name.as_deref())?;
    if repo.refs().is_read_only() {
        return Ok(there);
    }
    let request = caller.reach(url, purpose)?.request;
    at_bucket(url, caller, job, &mut |target| {
        let told = tell_bucket(repo, target, name.as_deref(), None, &request)?;
        tell_news(caller, &told.displaced);
        there = told.there;
        Ok(())
    })?;
    Ok(there)
}

fn known_at(repo: &Repo, name: Option<&str>) -> Result<ClaimsThere, NetError> {
    let known = name.map(|name| repo.claims_at(name));
    Ok(known.transpose()?.unwrap_or_default())
}

/// A push to a bucket that looks at the claims there.
pub(super) struct AskingPush<'a> {
    pub repo: &'a Repo,
    pub url: &'a Url,
    pub caller: &'a dyn Caller,
    pub job: &'a Job,
    /// Whether it tells nothing, and notes nothing.
    pub dry_run: bool,
}

impl AskingPush<'_> {
    /// Returns what a push of these updates has to keep to.
    ///
    /// Each push asks: somebody may have claimed a path there, or told the bucket to keep to claims, and this clone
    /// has not heard of it yet. If the claims cannot be read, the push keeps to what was known of them: a damaged
    /// file is to stop neither those who may push nor those who wait for a path.
    pub fn ask(
        &self,
        bucket: &mut dyn PushTarget,
        updates: &[RefUpdate],
    ) -> Result<ClaimsThere, NetError> {
        if updates.iter().all(|update| update.new.is_none()) {
            return Ok(ClaimsThere::default());
        }
        let there = match bucket.take_claims() {
            Some(Ok(found)) => self.heard(found),
            Some(Err(e)) => Err(e),
            None => self.look(),
        };
        match there {
            Err(e @ NetError::Bucket { .. }) => {
                self.caller.heard_of_claims(ClaimsNews::Unreadable(&e));
                known_claims(self.repo, self.url, self.caller)
            }
            there => there,
        }
    }

    /// Asks now.
    fn look(&self) -> Result<ClaimsThere, NetError> {
        if !self.dry_run {
            return exchange_at_bucket(self.repo, self.url, Purpose::Write, self.caller, self.job);
        }
        let mut there = ClaimsThere::default();
        at_bucket(self.url, self.caller, self.job, &mut |target| {
            there = target.tell(&[], None)?.there;
            Ok(())
        })?;
        Ok(there)
    }

    /// Notes what was read, and tells the bucket what it lacks.
    fn heard(&self, found: BucketClaims) -> Result<ClaimsThere, NetError> {
        let there = found.there.clone();
        if self.dry_run || self.repo.refs().is_read_only() {
            return Ok(there);
        }
        if self
            .repo
            .claim_book()?
            .lists()
            .any(|list| !found.lists.contains(list))
        {
            return self.look();
        }
        let request = self.caller.reach(self.url, Purpose::Write)?.request;
        let told = ToldClaims {
            remote: name_of(self.url, self.caller)?,
            lists: found.lists,
            there: found.there,
        };
        tell_news(self.caller, &self.repo.note_claims(&told, &request)?);
        Ok(there)
    }
}

/// Returns what was last known of the claims at a remote.
fn known_claims(repo: &Repo, url: &Url, caller: &dyn Caller) -> Result<ClaimsThere, NetError> {
    known_at(repo, name_of(url, caller)?.as_deref())
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

/// What a bucket was told, and has.
pub(super) struct TellReport {
    /// The own claims that somebody else is before now.
    pub displaced: Vec<DisplacedClaim>,
    /// What holds there.
    pub there: ClaimsThere,
    /// Why it has not taken the claims, if it has not.
    pub untold: Option<NetError>,
}

/// Tells a bucket all claims that are known here, and notes what it has.
pub(super) fn tell_bucket(
    repo: &Repo,
    target: &mut dyn ClaimTarget,
    remote: Option<&str>,
    change: Option<RuleChange>,
    request: &OperationRequest,
) -> Result<TellReport, NetError> {
    let lists: Vec<_> = repo.claim_book()?.lists().cloned().collect();
    let BucketClaims {
        lists,
        there,
        untold,
    } = target.tell(&lists, change)?;
    let told = ToldClaims {
        remote: remote.map(str::to_owned),
        lists,
        there: there.clone(),
    };
    Ok(TellReport {
        displaced: repo.note_claims(&told, request)?,
        there,
        untold,
    })
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

/// A ref that stays because of a claim.
#[derive(Clone, Debug)]
pub struct HeldRef {
    /// What was to be done.
    pub moved: RefChange,
    /// The claim of another device.
    pub claim: ClaimInfo,
}

/// Returns which claims keep refs as they are, as far as this side knows.
pub(super) fn held_refs(
    repo: &Repo,
    moved: &[RefChange],
    offered: &OfferedRefs,
    there: Option<&ClaimsThere>,
) -> Result<Vec<HeldRef>, RepoError> {
    let mut found = Vec::new();
    let Some(there) = there else {
        return Ok(found);
    };
    let (branches, book) = (offered.branches(), repo.claim_book()?);
    let into = pushed_into(repo, &book, &branches, there);
    for moved in moved
        .iter()
        .filter(|moved| moved.refused == Some(Refusal::Held))
    {
        let update = RefUpdate {
            key: moved.key.clone(),
            old: moved.old,
            new: moved.new,
            force: false,
        };
        let claim = repo.claim_against_push(&update, &into)?;
        found.extend(claim.map(|claim| HeldRef {
            moved: moved.clone(),
            claim,
        }));
    }
    Ok(found)
}

fn pushed_into<'a>(
    repo: &Repo,
    book: &'a ClaimBook,
    branches: &'a [ObjectId],
    there: &'a ClaimsThere,
) -> PushedInto<'a> {
    PushedInto {
        book,
        branches,
        held: &there.held,
        device: repo.own_device(),
    }
}

/// Returns the updates of a push that do not pass what others hold, and the others as refused.
pub(super) fn passable(
    repo: &Repo,
    updates: Vec<RefUpdate>,
    offered: &OfferedRefs,
    there: &ClaimsThere,
) -> Result<Passable, NetError> {
    let mut out = Passable::default();
    let (branches, book) = (offered.branches(), repo.claim_book()?);
    let into = pushed_into(repo, &book, &branches, there);
    for update in updates {
        if there.rules.keeps_to_claims && repo.claim_against_push(&update, &into)?.is_some() {
            out.refused.push(RefChange {
                key: update.key,
                old: update.old,
                new: update.new,
                refused: Some(Refusal::Held),
            });
        } else {
            out.updates.push(update);
        }
    }
    Ok(out)
}

/// Fails if updates bring a commit without a good signature to a bucket that wants them. Nobody is there to check
/// it, so the user's own knowledge counts.
pub(super) fn check_signatures(
    repo: &Repo,
    updates: &[RefUpdate],
    offered: &OfferedRefs,
    there: &ClaimsThere,
    caller: &dyn Caller,
) -> Result<(), NetError> {
    if !there.rules.needs_signatures {
        return Ok(());
    }
    let new = updates
        .iter()
        .filter_map(|update| Some((update.new?, update.key.clone())))
        .collect();
    let known = offered.refs.iter().map(|(_, id)| *id).collect();
    Ok(repo.check_pushed_signatures(new, known, &caller.known_signers()?)?)
}

/// What a push may do where claims are kept to.
#[derive(Default)]
pub(super) struct Passable {
    /// The updates that may be made.
    pub updates: Vec<RefUpdate>,
    /// The others.
    pub refused: Vec<RefChange>,
}
