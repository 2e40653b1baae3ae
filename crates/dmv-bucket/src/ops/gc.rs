//! gc and purges at a bucket.

use super::caller::BucketCaller;
use super::push::{at_bucket, net_error, stamp};
use crate::format::Root;
use crate::machines::{Limits, Tag};
use crate::store::{Settings, Store};
use crate::work::access::BucketAccess;
use crate::work::cache::Cache;
use crate::work::error::PushError;
use crate::work::gc::{FreeOptions, Joins, free, purge};
pub use crate::work::gc::{FreeReport, JoinReport};
use dmv_core::hash::ObjectId;
use dmv_core::job::Job;
use dmv_core::object::{ObjectRead, ObjectType};
use dmv_core::repo::{KnownPurge, OperationRequest, Repo};
use dmv_net::ops::{OpsError, Remote, SessionError, fetch_into, is_known, session};
use dmv_net::session::{NetError, PurgeAnswer, Summary};
use dmv_net::transport::{BucketAddress, Purpose};
use dmv_net::trouble::Trouble;
use dmv_net::wire::{PurgeOutcome, PurgeSums};
use std::time::Duration;

/// What to free at a remote.
#[derive(Clone, Debug)]
pub struct FreeAtOptions {
    /// The remote. It has to be a bucket.
    pub remote: Remote,
    /// Files that no root names stay if they are younger.
    pub grace: Duration,
    /// Operations that are older may leave the log of the bucket. `None`: none may.
    pub forget: Option<Duration>,
    /// Whether to join packs, too: small ones, and those of which little is needed.
    pub joins: bool,
    /// Whether to report only.
    pub dry_run: bool,
    /// For the operation log of the bucket.
    pub request: OperationRequest,
}

/// Frees what nothing in a bucket leads to. All metadata of its branches and of its log has to be here;
/// what others have pushed since the last fetch is fetched first.
pub fn free_at(
    repo: &Repo,
    options: &FreeAtOptions,
    caller: &dyn BucketCaller,
    job: &Job,
) -> Result<FreeReport, OpsError> {
    let time = options.request.time;
    let ago = |age: Duration| time.seconds.saturating_sub_unsigned(age.as_secs());
    let what = FreeOptions {
        forget_before: options.forget.map(ago),
        young_from: ago(options.grace),
        joins: if options.joins {
            Joins::Small
        } else {
            Joins::None
        },
        purge: None,
        dry_run: options.dry_run,
        limits: Limits::default(),
        stamp: stamp(&options.request),
    };
    let collection = Collection {
        repo,
        remote: &options.remote,
        command: "dmv gc",
        may_fetch: true,
        request: &options.request,
        caller,
        job,
    };
    Ok(collection.run(&mut free, &what)?)
}

/// What frees files at a bucket: [`free`], [`purge`] or an expiry.
type FreeWork<'w> = &'w mut dyn FnMut(
    &BucketAccess<'_>,
    Option<(Root, Tag)>,
    &FreeOptions,
) -> Result<FreeReport, PushError>;

/// A command that frees files at a bucket.
pub(super) struct Collection<'a> {
    pub repo: &'a Repo,
    pub remote: &'a Remote,
    pub command: &'a str,
    /// Whether it may fetch what other devices have pushed.
    pub may_fetch: bool,
    pub request: &'a OperationRequest,
    pub caller: &'a dyn BucketCaller,
    pub job: &'a Job,
}

impl Collection<'_> {
    /// Does the work. If it lacks commits, fetches them and does it again.
    pub fn run(
        &self,
        work: FreeWork<'_>,
        what: &FreeOptions,
    ) -> Result<FreeReport, Box<SessionError>> {
        let mut before = Vec::new();
        let mut fetched = 0;
        loop {
            let failed = match self.run_once(work, what) {
                Err(e) => e,
                Ok(done) => return Ok(FreeReport { fetched, ..done }),
            };
            let NetError::Lacking(objects) = &failed.source else {
                return Err(failed);
            };
            let is_commit = |(ty, _): &(ObjectType, ObjectId)| *ty == ObjectType::Commit;
            let slice = self.repo.slice();
            let is_partial = slice.is_ok_and(|slice| !slice.boundary.is_empty());
            if *objects == before || is_partial || !objects.iter().all(is_commit) {
                return Err(failed);
            }
            before.clone_from(objects);
            let commits: Vec<ObjectId> = objects.iter().map(|(_, id)| *id).collect();
            match self.fetch(&commits)? {
                Some(summary) => fetched += summary.traffic.objects_received,
                None => return Err(failed),
            }
        }
    }

    fn run_once(
        &self,
        work: FreeWork<'_>,
        what: &FreeOptions,
    ) -> Result<FreeReport, Box<SessionError>> {
        let run = |address: &BucketAddress, settings: Settings| {
            if !what.dry_run {
                self.caller.test_store(address, false)?;
            }
            let files = Store::open(address, &settings)?;
            let cache = Cache::open(Some(self.repo.dmv_dir()), &address.to_string());
            let with = BucketAccess::new(&files, self.repo.store(), self.job, cache.dir());
            let what = FreeOptions {
                stamp: stamp(self.request),
                ..what.clone()
            };
            let kept = self.repo.keep_all()?;
            let done = work(&with, cache.root(), &what);
            drop(kept);
            done.map_err(|e| net_error(address, e))
        };
        let (url, purpose) = (&self.remote.url, Purpose::Write);
        at_bucket(url, purpose, self.command, self.caller, run)
    }

    /// Fetches what the work lacks. Returns `None` if it may not.
    ///
    /// If branches of the bucket lead to commits that are absent here, another device has pushed since the
    /// last fetch. If only the log of the bucket leads to the lacking commits, this fetches their metadata: a
    /// fetch does not bring them, and gc here frees them.
    fn fetch(&self, commits: &[ObjectId]) -> Result<Option<Summary>, Box<SessionError>> {
        let Collection { repo, remote, .. } = self;
        let (url, purpose) = (&remote.url, Purpose::Read);
        session(repo, url, purpose, self.caller, self.job, |mut client| {
            let mut refs = client.offered.refs.iter();
            let has = |id| repo.store().holds(ObjectType::Commit, id);
            if refs.all(|(_, id)| has(id).unwrap_or(false)) {
                client.fetch_metadata(commits)?;
                return Ok(Some(client.finish(Vec::new())));
            }
            // A user who has never fetched from it may not want all of it.
            if !self.may_fetch || !is_known(repo, remote.recorded()) {
                client.finish(Vec::new());
                return Ok(None);
            }
            fetch_into(repo, remote, self.request, client).map(Some)
        })
    }
}

/// Purges at a bucket what was purged here. All metadata of its branches and of its log has to be here,
/// apart from purged files.
pub(super) fn purge_at(
    repo: &Repo,
    remote: &Remote,
    purges: &[KnownPurge],
    request: &OperationRequest,
    caller: &dyn BucketCaller,
    job: &Job,
) -> Result<PurgeAnswer, Box<SessionError>> {
    let of_purge = |purge: &KnownPurge| {
        let ids: Vec<_> = purge.files.iter().copied().collect();
        ids.into_iter().zip(std::iter::repeat(purge.why.clone()))
    };
    let what = FreeOptions {
        forget_before: None,
        // Purged content does not wait.
        young_from: i64::MAX,
        joins: Joins::None,
        purge: Some(purges.iter().flat_map(of_purge).collect()),
        dry_run: false,
        limits: Limits::default(),
        stamp: stamp(request),
    };
    let collection = Collection {
        repo,
        remote,
        command: "dmv purge",
        // What another device has pushed meanwhile may need the content: its user decides after a fetch.
        may_fetch: false,
        request,
        caller,
        job,
    };
    match collection.run(&mut purge, &what) {
        Ok(done) => Ok(answer(&done)),
        Err(e) => match e.source {
            NetError::Bucket {
                trouble: Trouble::Denied(why),
                ..
            } => Ok(refusal(why)),
            NetError::Bucket {
                trouble: Trouble::Mirror,
                ..
            } => Ok(refusal(Trouble::Mirror.to_string())),
            NetError::Lacking(_) => Ok(refusal(
                "this needs the history and the directories of all its branches, and some are absent \
                 here: fetch first, in a repository that stores all history"
                    .to_owned(),
            )),
            _ => Err(e),
        },
    }
}

fn refusal(why: String) -> PurgeAnswer {
    PurgeAnswer {
        outcome: PurgeOutcome::Refused,
        sums: PurgeSums::default(),
        why,
    }
}

/// Returns what to answer after a purge.
fn answer(done: &FreeReport) -> PurgeAnswer {
    let mut why = Vec::new();
    if !done.all_deleted {
        why.push("not all files are deleted yet; the same command continues".to_owned());
    }
    if done.buried.unknown > 0 {
        why.push(format!(
            "the chunks of {} of the contents are not known here",
            done.buried.unknown
        ));
    }
    let outcome = if why.is_empty() {
        PurgeOutcome::Done
    } else {
        PurgeOutcome::Incomplete
    };
    PurgeAnswer {
        outcome,
        sums: PurgeSums {
            files: done.buried.files,
            shared_bytes: done.buried.shared_bytes,
            linked_packs: 0,
        },
        why: why.join("; "),
    }
}
