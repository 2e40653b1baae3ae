//! Sync: fetch from a remote, then push every branch and tag that is ahead of it.

use super::buckets::PushOpening;
use super::caller::{Caller, ComingPush, buckets_of};
use super::claim_exchange::{AskingPush, HeldRef, check_signatures, held_refs, passable};
use super::dial::session;
use super::error::OpsError;
use super::fetch::FetchReport;
use super::lacked::PushGoal;
use super::lacked::with_content;
use super::refs::{BranchStanding, RefTip, moved_there, standing, tip_at, tips, update};
use super::remote::Remote;
use crate::session::{Client, NetError, Summary, Traffic};
use crate::transport::{BucketAddress, Purpose, Url};
use crate::wire::ReadOnly;
use dmv_core::job::Job;
use dmv_core::repo::{
    OfferedRefs, OperationRequest, OwnBranches, RefChange, RefKind, RefUpdate, Repo, RepoError,
};

/// What to sync with.
#[derive(Clone, Debug)]
pub struct SyncOptions {
    /// The remote.
    pub remote: Remote,
    /// For the operation log.
    pub request: OperationRequest,
}

impl SyncOptions {
    /// Returns the options of a sync with `remote`.
    pub fn new(remote: Remote, request: OperationRequest) -> SyncOptions {
        SyncOptions { remote, request }
    }
}

/// What a sync did, and what it left as it was.
#[derive(Clone, Debug)]
pub struct SyncReport {
    /// What was transferred, and the refs that changed here.
    pub summary: Summary,
    /// The result for each branch and tag that was pushed.
    pub pushed: Vec<RefChange>,
    /// The claims that keep some of them as they are, as far as they are known.
    pub held: Vec<HeldRef>,
    /// Branches with commits on both sides that the other side lacks.
    pub diverged: Vec<String>,
    /// Branches for which the remote has more commits.
    pub behind: Vec<String>,
    /// Branches and tags that were not pushed, because the remote accepts no push.
    pub unsent: Vec<String>,
    /// Why the remote accepts no push, if it says so.
    pub read_only: Option<ReadOnly>,
    /// Branches that the remote has deleted.
    pub gone: Vec<String>,
}

impl From<FetchReport> for SyncReport {
    /// A sync of a mirror, which pushes nothing.
    fn from(fetched: FetchReport) -> SyncReport {
        SyncReport {
            summary: fetched.summary,
            pushed: Vec::new(),
            held: Vec::new(),
            diverged: Vec::new(),
            behind: Vec::new(),
            unsent: Vec::new(),
            read_only: None,
            gone: fetched.gone,
        }
    }
}

impl SyncReport {
    /// Returns whether the user has to do something that a pull does not do.
    pub fn is_left(&self) -> bool {
        !self.diverged.is_empty() || !self.unsent.is_empty()
    }
}

/// Exchanges commits with one remote, in both directions. Local branches do not move.
pub fn sync(
    repo: &Repo,
    options: &SyncOptions,
    caller: &dyn Caller,
    job: &Job,
) -> Result<SyncReport, OpsError> {
    let url = &options.remote.url;
    // Also what moved before the push was refused, or tried again.
    let mut received = Vec::new();
    let report = with_content(repo, &options.remote, caller, job, |goal| {
        if let Url::Bucket(address) = url {
            return sync_bucket(repo, options, address, caller, job, goal, &mut received);
        }
        let report = session(repo, url, Purpose::Write, caller, job, |client| {
            sync_with(
                repo,
                options,
                client,
                &mut received,
                &mut |client, updates| {
                    before_push(repo, options, caller, updates)?;
                    goal.note(updates, &client.offered);
                    client.push(updates)
                },
            )
        })?;
        Ok(report)
    });
    caller.fetched(repo, &options.remote, &received);
    report
}

fn before_push(
    repo: &Repo,
    options: &SyncOptions,
    caller: &dyn Caller,
    updates: &[RefUpdate],
) -> Result<(), NetError> {
    let tip = |update: &RefUpdate| {
        let key = update.key.clone();
        update.new.map(|commit| RefTip { key, commit })
    };
    let refs: Vec<RefTip> = updates.iter().filter_map(tip).collect();
    if refs.is_empty() {
        return Ok(());
    }
    caller.before_push(&ComingPush {
        repo,
        remote: &options.remote,
        refs: &refs,
        delete: &[],
    })
}

/// No program takes a push at a bucket, so this side does all of it.
fn sync_bucket(
    repo: &Repo,
    options: &SyncOptions,
    address: &BucketAddress,
    caller: &dyn Caller,
    job: &Job,
    goal: &mut PushGoal,
    received: &mut Vec<RefChange>,
) -> Result<SyncReport, OpsError> {
    let url = &options.remote.url;
    let asking = AskingPush {
        repo,
        url,
        caller,
        job,
        dry_run: false,
    };
    let mut sent = Traffic::default();
    let mut report = session(repo, url, Purpose::Write, caller, job, |client| {
        sync_with(repo, options, client, received, &mut |client, updates| {
            before_push(repo, options, caller, updates)?;
            let buckets = buckets_of(caller, url)?;
            let opening = PushOpening {
                dry_run: false,
                reads_claims: true,
            };
            let opened = buckets.open_for_push(repo, address, opening, job);
            let mut bucket = opened.map_err(|e| e.source)?;
            // What the session has heard is as old as its fetch.
            let there = asking.ask(&mut *bucket, updates)?;
            let passable = passable(repo, updates.to_vec(), bucket.offered(), &there)?;
            let updates = &passable.updates;
            check_signatures(repo, updates, bucket.offered(), &there, caller)?;
            client.claims_there = Some(there);
            goal.note(&passable.updates, bucket.offered());
            let moved = bucket.push(&passable.updates, &options.request);
            let mut moved = moved.map_err(|e| e.source)?;
            moved.extend(passable.refused);
            sent = bucket.finish().traffic;
            Ok(moved)
        })
    })?;
    let traffic = &mut report.summary.traffic;
    traffic.objects_sent += sent.objects_sent;
    traffic.bytes_sent += sent.bytes_sent;
    traffic.bytes_received += sent.bytes_received;
    traffic.round_trips += sent.round_trips;
    Ok(report)
}

/// Moves refs at the other side.
type PushRefs<'p> =
    dyn FnMut(&mut Client<'_>, &[RefUpdate]) -> Result<Vec<RefChange>, NetError> + 'p;

fn sync_with(
    repo: &Repo,
    options: &SyncOptions,
    mut client: Client<'_>,
    received: &mut Vec<RefChange>,
    push: &mut PushRefs<'_>,
) -> Result<SyncReport, NetError> {
    client.fetch(&tips(&client.offered))?;
    let Plan {
        mut updates,
        diverged,
        behind,
    } = Plan::new(repo, &client.offered)?;
    let (mut unsent, mut read_only) = (Vec::new(), None);
    if !client.may_push() {
        let keys = updates.drain(..).map(|update| update.key);
        let names = keys.filter_map(|key| Some(key.split_once('/')?.1.to_owned()));
        unsent = names.collect();
        read_only = client.read_only();
    }
    let pushed = if updates.is_empty() {
        Ok(Vec::new())
    } else {
        push(&mut client, &updates)
    };
    // Also if the push has failed: what was fetched is recorded.
    let there = with_pushed(&client.offered, pushed.as_deref().unwrap_or_default());
    let remote = options.remote.recorded();
    let mut gone = repo.gone_from(remote, &there)?;
    let mut ours = OwnBranches::default();
    if options.remote.once {
        // They were perhaps those of another address.
        ours.forget = std::mem::take(&mut gone);
    }
    let refs = client.name(|| repo.note_remote(remote, &there, &ours, &options.request))?;
    let by_us = pushed.as_deref().unwrap_or_default();
    let moved = refs
        .iter()
        .filter_map(|moved| without_push(moved, by_us, &client.offered));
    received.extend(moved);
    let pushed = pushed?;
    let asked = client.claims_there.as_ref();
    Ok(SyncReport {
        held: held_refs(repo, &pushed, &client.offered, asked)?,
        pushed,
        summary: client.finish(refs),
        diverged,
        behind,
        unsent,
        read_only,
        gone,
    })
}

/// Returns how far a ref of the remote has moved here before the own push. `None`: only that has moved it.
fn without_push(
    moved: &RefChange,
    by_us: &[RefChange],
    offered: &OfferedRefs,
) -> Option<RefChange> {
    let parts = moved
        .key
        .strip_prefix("remote/")
        .and_then(|rest| rest.split_once('/'));
    let Some((_, name)) = parts else {
        return Some(moved.clone());
    };
    let key = format!("branch/{name}");
    let mut own = by_us.iter().filter(|pushed| pushed.refused.is_none());
    if !own.any(|pushed| pushed.key == key) {
        return Some(moved.clone());
    }
    let new = tip_at(offered, &key);
    let has_moved = new.is_some() && new != moved.old;
    has_moved.then(|| RefChange {
        new,
        ..moved.clone()
    })
}

/// Returns the refs of a server after a push.
fn with_pushed(offered: &OfferedRefs, pushed: &[RefChange]) -> OfferedRefs {
    let mut there = offered.clone();
    for (key, id) in moved_there(pushed).refs {
        there.refs.retain(|(known, _)| *known != key);
        there.refs.push((key, id));
    }
    there
}

/// What a sync has to push, and the branches that it cannot make equal.
#[derive(Default)]
struct Plan {
    updates: Vec<RefUpdate>,
    diverged: Vec<String>,
    behind: Vec<String>,
}

impl Plan {
    fn new(repo: &Repo, offered: &OfferedRefs) -> Result<Plan, RepoError> {
        let mut plan = Plan::default();
        for info in repo.list_refs(RefKind::Branch)? {
            let Some(id) = info.commit else {
                continue;
            };
            let tip = RefTip::branch(&info.name, id);
            let theirs = tip_at(offered, &tip.key);
            match standing(repo, id, theirs)? {
                BranchStanding::Ahead => plan.updates.push(update(&tip, theirs, false)),
                BranchStanding::Diverged => plan.diverged.push(info.name),
                BranchStanding::Behind => plan.behind.push(info.name),
                BranchStanding::Same => {}
            }
        }
        for info in repo.list_refs(RefKind::Tag)? {
            let Some(id) = info.commit else {
                continue;
            };
            let tip = RefTip::tag(&info.name, id);
            if tip_at(offered, &tip.key).is_none() {
                plan.updates.push(update(&tip, None, false));
            }
        }
        Ok(plan)
    }
}
