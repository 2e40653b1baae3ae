//! Push: send branches and tags to a remote, or delete them there.

use super::buckets::PushOpening;
use super::caller::{Caller, ComingPush, buckets_of};
use super::claim_exchange::{AskingPush, HeldRef, check_signatures, held_refs, passable};
use super::dial::session_creating;
use super::error::OpsError;
use super::forecast::{PushForecast, measure};
use super::lacked::{PushGoal, with_content};
use super::refs::{BranchStanding, RefTip, moved_there, standing, tip_at, update};
use super::remote::Remote;
use super::session_error::SessionError;
use crate::session::{Client, NetError, Summary};
use crate::transport::{BucketAddress, Purpose, Url};
use crate::wire::ReadOnly;
use dmv_core::hash::ObjectId;
use dmv_core::job::Job;
use dmv_core::reach::{Detail, Reach};
use dmv_core::repo::{
    OfferedRefs, OperationRequest, OwnBranches, RefChange, RefUpdate, Refusal, Repo, RepoError,
};

/// What to push.
#[derive(Clone, Debug)]
pub struct PushOptions {
    /// The remote.
    pub remote: Remote,
    /// The branches and tags to send.
    pub refs: Vec<RefTip>,
    /// Names of branches and tags to delete on the remote.
    pub delete: Vec<String>,
    /// Whether the remote may lose commits.
    pub force: bool,
    /// Whether to report only what would be sent.
    pub dry_run: bool,
    /// If there is nothing at the address: the branch of the bare repository to create there. The first
    /// push to a bucket creates one anyway.
    pub create: Option<String>,
    /// Whether a repository that has other branches or tags is left alone.
    pub only_new: bool,
    /// For the operation log.
    pub request: OperationRequest,
}

impl PushOptions {
    /// Returns the options of a push of `refs` that deletes nothing and loses no commit.
    pub fn new(remote: Remote, refs: Vec<RefTip>, request: OperationRequest) -> PushOptions {
        PushOptions {
            remote,
            refs,
            delete: Vec::new(),
            force: false,
            dry_run: false,
            create: None,
            only_new: false,
            request,
        }
    }
}

/// What a push did.
#[derive(Clone, Debug)]
pub struct PushReport {
    /// What was transferred.
    pub summary: Summary,
    /// The result for each branch and tag that was not on the remote already.
    pub moved: Vec<RefChange>,
    /// The claims that keep some of them as they are, as far as they are known.
    pub held: Vec<HeldRef>,
    /// Whether the push has created the repository there.
    pub created: bool,
    /// Whether the remote accepts pushes.
    pub may_push: bool,
    /// Why it accepts none, if it says so.
    pub read_only: Option<ReadOnly>,
    /// What would be sent, if that was asked.
    pub foreseen: Option<PushForecast>,
    /// How many requests would write to a bucket, if that was asked.
    pub writes: u64,
    /// How many further requests would read there: a test of the store.
    pub reads: u64,
}

impl PushReport {
    /// Returns the names of the branches that the push has deleted.
    pub fn deleted(&self) -> Vec<String> {
        deleted(&self.moved)
    }
}

/// Sends branches and tags, and deletes others.
///
/// Content that the push needs and that is absent here is fetched from the caller's other remotes.
///
/// If the remote does not have a name that is to be deleted, this changes nothing and fails with
/// [`OpsError::NoSuchRef`].
pub fn push(
    repo: &Repo,
    options: &PushOptions,
    caller: &dyn Caller,
    job: &Job,
) -> Result<PushReport, OpsError> {
    if options.dry_run {
        return push_once(repo, options, caller, job, &mut PushGoal::default());
    }
    caller.before_push(&ComingPush {
        repo,
        remote: &options.remote,
        refs: &options.refs,
        delete: &options.delete,
    })?;
    with_content(repo, &options.remote, caller, job, |goal| {
        push_once(repo, options, caller, job, goal)
    })
}

fn push_once(
    repo: &Repo,
    options: &PushOptions,
    caller: &dyn Caller,
    job: &Job,
    goal: &mut PushGoal,
) -> Result<PushReport, OpsError> {
    let url = &options.remote.url;
    if let Url::Bucket(address) = url {
        return push_to_bucket(repo, options, address, caller, job, goal);
    }
    let create = options.create.as_deref();
    let plan = |there: &OfferedRefs| {
        refuse_known(options, there)?;
        plan_deletions(options, there)
    };
    let work = |client: Client<'_>, created| match plan(&client.offered) {
        Ok(deletions) if options.dry_run => {
            Ok(Ok(foresee(repo, options, client, &deletions, job)?))
        }
        Ok(deletions) => {
            let report = push_to(repo, options, client, &deletions, goal)?;
            Ok(Ok(PushReport { created, ..report }))
        }
        Err(refused) => {
            client.finish(Vec::new());
            Ok(Err(refused))
        }
    };
    session_creating(repo, url, Purpose::Write, create, caller, job, work)?
}

/// Fails if the repository there is to be new, and has refs that this push does not send.
fn refuse_known(options: &PushOptions, there: &OfferedRefs) -> Result<(), OpsError> {
    let is_ours = |(key, id): &(String, ObjectId)| {
        let mut ours = options.refs.iter();
        ours.any(|tip| tip.key == *key && tip.commit == *id)
    };
    // Its own refs are those of a push whose answer was lost.
    if options.only_new && !there.refs.iter().all(is_ours) {
        let remote = options.remote.name.clone();
        return Err(OpsError::NotNew { remote });
    }
    Ok(())
}

fn plan_deletions(options: &PushOptions, there: &OfferedRefs) -> Result<Vec<RefUpdate>, OpsError> {
    let deletions = deletions(there, &options.delete, options.force);
    deletions.map_err(|name| OpsError::NoSuchRef {
        remote: options.remote.name.clone(),
        name,
    })
}

fn push_to_bucket(
    repo: &Repo,
    options: &PushOptions,
    address: &BucketAddress,
    caller: &dyn Caller,
    job: &Job,
    goal: &mut PushGoal,
) -> Result<PushReport, OpsError> {
    let url = &options.remote.url;
    let buckets = buckets_of(caller, url).map_err(|e| SessionError::unanswered(url, e))?;
    let opening = PushOpening {
        dry_run: options.dry_run,
        reads_claims: has_news(repo, options)?,
    };
    let mut bucket = buckets.open_for_push(repo, address, opening, job)?;
    refuse_known(options, bucket.offered())?;
    let landed = if options.dry_run {
        Vec::new()
    } else {
        bucket.landed_unanswered()?
    };
    let (options, mut moved) = without_landed(options, landed);
    let options = &options;
    let deletions = plan_deletions(options, bucket.offered())?;
    let created = bucket.is_unused();
    let Plan {
        mut updates,
        there_already,
        refused,
    } = Plan::new(repo, options, bucket.offered())?;
    updates.extend(deletions);
    moved.extend(refused);
    let asking = AskingPush {
        repo,
        url,
        caller,
        job,
        dry_run: options.dry_run,
    };
    let there = asking.ask(&mut *bucket, &updates);
    let there = there.map_err(|e| SessionError::unanswered(url, e))?;
    let passable = passable(repo, updates, bucket.offered(), &there)?;
    updates = passable.updates;
    check_signatures(repo, &updates, bucket.offered(), &there, caller)
        .map_err(|e| SessionError::unanswered(url, e))?;
    let held = held_refs(repo, &passable.refused, bucket.offered(), Some(&there))?;
    moved.extend(passable.refused);
    if options.dry_run {
        let forecast = bucket.foresee(&updates)?;
        moved.extend(forecast.moved);
        return Ok(PushReport {
            created: false,
            may_push: true,
            read_only: None,
            summary: bucket.finish(),
            moved,
            held,
            foreseen: Some(forecast.foreseen),
            writes: forecast.writes,
            reads: forecast.reads,
        });
    }
    goal.note(&updates, bucket.offered());
    moved.extend(bucket.push(&updates, &options.request)?);
    note(repo, options, &moved, there_already)?;
    Ok(PushReport {
        created,
        may_push: true,
        read_only: None,
        summary: bucket.finish(),
        moved,
        held,
        foreseen: None,
        writes: 0,
        reads: 0,
    })
}

/// Returns whether the remote lacks something that is to be pushed, as far as this side knows.
fn has_news(repo: &Repo, options: &PushOptions) -> Result<bool, RepoError> {
    let remote = options.remote.recorded();
    for tip in &options.refs {
        let known = match tip.key.strip_prefix("branch/") {
            Some(branch) => repo.ref_at(&format!("remote/{remote}/{branch}"))?,
            None => None,
        };
        if known != Some(tip.commit) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns the options without what an earlier push has done that had no answer, and what that was of it: a
/// push by force that is run again must not take back what others have pushed since.
fn without_landed(
    options: &PushOptions,
    mut landed: Vec<RefChange>,
) -> (PushOptions, Vec<RefChange>) {
    let mut options = options.clone();
    let is_of = |change: &RefChange, name: &String| {
        let (_, of) = change.key.split_once('/').unwrap_or_default();
        change.new.is_none() && of == name
    };
    let moves =
        |change: &RefChange, tip: &RefTip| change.key == tip.key && change.new == Some(tip.commit);
    landed.retain(|change| {
        options.refs.iter().any(|tip| moves(change, tip))
            || options.delete.iter().any(|name| is_of(change, name))
    });
    let is_new = |tip: &RefTip| !landed.iter().any(|change| moves(change, tip));
    options.refs.retain(is_new);
    let is_there = |name: &String| !landed.iter().any(|change| is_of(change, name));
    options.delete.retain(is_there);
    (options, landed)
}

/// Records the refs that the remote has now.
fn note(
    repo: &Repo,
    options: &PushOptions,
    moved: &[RefChange],
    there_already: Vec<(String, ObjectId)>,
) -> Result<(), RepoError> {
    if options.remote.once {
        return Ok(());
    }
    let mut there = moved_there(moved);
    there.refs.extend(there_already);
    let gone = OwnBranches {
        forget: deleted(moved),
        ..OwnBranches::default()
    };
    repo.note_remote(&options.remote.name, &there, &gone, &options.request)?;
    Ok(())
}

fn push_to(
    repo: &Repo,
    options: &PushOptions,
    mut client: Client<'_>,
    deletions: &[RefUpdate],
    goal: &mut PushGoal,
) -> Result<PushReport, NetError> {
    let Plan {
        updates,
        there_already,
        refused: mut moved,
    } = Plan::new(repo, options, &client.offered)?;
    goal.note(&updates, &client.offered);
    if !updates.is_empty() {
        moved.extend(client.push(&updates)?);
    }
    if !deletions.is_empty() {
        // After the other refs have moved: the commits that those name now are not lost.
        moved.extend(client.push(deletions)?);
    }
    note(repo, options, &moved, there_already)?;
    let there = client.claims_there.as_ref();
    let held = held_refs(repo, &moved, &client.offered, there)?;
    Ok(PushReport {
        created: false,
        may_push: client.may_push(),
        read_only: client.read_only(),
        summary: client.finish(Vec::new()),
        moved,
        held,
        foreseen: None,
        writes: 0,
        reads: 0,
    })
}

/// Returns what a push would do, as far as this side knows.
fn foresee(
    repo: &Repo,
    options: &PushOptions,
    client: Client<'_>,
    deletions: &[RefUpdate],
    job: &Job,
) -> Result<PushReport, NetError> {
    let Plan {
        updates,
        refused: mut moved,
        ..
    } = Plan::new(repo, options, &client.offered)?;
    let wanted: Vec<ObjectId> = updates.iter().filter_map(|update| update.new).collect();
    let there: Vec<ObjectId> = client.offered.refs.iter().map(|(_, id)| *id).collect();
    let reach = Reach::new(wanted, there, Detail::All);
    // What is absent here the other side has, or a push fails for it.
    let (foreseen, _) = measure(repo.store(), reach, job)?;
    moved.extend(updates.iter().chain(deletions).map(|update| RefChange {
        key: update.key.clone(),
        old: update.old,
        new: update.new,
        refused: None,
    }));
    Ok(PushReport {
        created: false,
        may_push: client.may_push(),
        read_only: client.read_only(),
        summary: client.finish(Vec::new()),
        moved,
        held: Vec::new(),
        foreseen: Some(foreseen),
        writes: 0,
        reads: 0,
    })
}

/// What a push has to do for each ref. This repository decides with the commits that it has. If the
/// server knows more, it refuses.
#[derive(Default)]
struct Plan {
    updates: Vec<RefUpdate>,
    /// Refs that the server has already. An interrupted push may have moved them there without a
    /// note of it here.
    there_already: Vec<(String, ObjectId)>,
    refused: Vec<RefChange>,
}

impl Plan {
    fn new(repo: &Repo, options: &PushOptions, offered: &OfferedRefs) -> Result<Plan, RepoError> {
        let mut plan = Plan::default();
        for tip in &options.refs {
            let old = tip_at(offered, &tip.key);
            match standing(repo, tip.commit, old)? {
                BranchStanding::Same => plan.there_already.push((tip.key.clone(), tip.commit)),
                BranchStanding::Ahead => plan.updates.push(update(tip, old, options.force)),
                _ if options.force => plan.updates.push(update(tip, old, true)),
                BranchStanding::Behind | BranchStanding::Diverged => plan.refused.push(RefChange {
                    key: tip.key.clone(),
                    old,
                    new: Some(tip.commit),
                    refused: Some(Refusal::NotForward),
                }),
            }
        }
        Ok(plan)
    }
}

/// Returns the updates that delete `names` as the server has them, or the name that it does not
/// have.
fn deletions(there: &OfferedRefs, names: &[String], force: bool) -> Result<Vec<RefUpdate>, String> {
    let mut out: Vec<RefUpdate> = Vec::new();
    for name in names {
        let keys = [format!("branch/{name}"), format!("tag/{name}")];
        let found = keys
            .into_iter()
            .find_map(|key| tip_at(there, &key).map(|id| (key, id)));
        let (key, old) = found.ok_or_else(|| name.clone())?;
        if out.iter().all(|update| update.key != key) {
            out.push(RefUpdate {
                key,
                old: Some(old),
                new: None,
                force,
            });
        }
    }
    Ok(out)
}

fn deleted(moved: &[RefChange]) -> Vec<String> {
    let gone = moved
        .iter()
        .filter(|moved| moved.new.is_none() && moved.refused.is_none());
    gone.filter_map(|moved| moved.key.strip_prefix("branch/"))
        .map(str::to_owned)
        .collect()
}
