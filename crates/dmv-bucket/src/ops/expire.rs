//! `expire` at a bucket: its keep rules and its commits decide which files may be absent from then on.

use super::caller::BucketCaller;
use super::gc::Collection;
use super::push::{id_of, stamp};
use crate::format::{Expirations, View};
use crate::machines::Limits;
use crate::work::error::PushError;
use crate::work::gc::{Expirer, FreeOptions, FreeReport, Joins, expire};
use dmv_core::hash::ObjectId;
use dmv_core::job::Job;
use dmv_core::object::{ObjectRead, ObjectType};
use dmv_core::repo::{
    ElsewhereView, Expirable, ExpireOptions, Expiry, KeepRules, OperationRequest, Repo, UpkeepError,
};
use dmv_net::ops::{OpsError, Remote, supplied};
use std::collections::BTreeSet;
use std::time::Duration;

/// What to expire at a remote.
#[derive(Clone, Debug)]
pub struct ExpireAtOptions {
    /// The remote. It has to be a bucket.
    pub remote: Remote,
    /// Which versions.
    pub what: ExpireOptions,
    /// Files that no root names stay if they are younger.
    pub grace: Duration,
    /// Whether to report only.
    pub dry_run: bool,
    /// For the operation log of the bucket.
    pub request: OperationRequest,
}

/// Decides whether the versions that the rules give up may go, and holds the copies on which this relies.
pub trait ExpiryJudge {
    /// Fails if one of them must not go. It may be called several times.
    fn approve(
        &mut self,
        found: &Expirable,
    ) -> Result<(), Box<dyn std::error::Error + Send + Sync>>;

    /// Returns whether the copies are still kept.
    fn still(&mut self) -> bool;
}

/// What an expiry at a remote did, or would do.
#[derive(Debug, Default)]
pub struct ExpireAtReport {
    /// The branch whose newest commit has the rules; `None` if there is no `main` or `master` and more than one
    /// branch.
    pub branch: Option<String>,
    /// The rules. If one is unclear or there are none, nothing was done.
    pub rules: KeepRules,
    /// The versions that the rules give up.
    pub found: Expirable,
    /// What was freed.
    pub freed: FreeReport,
}

impl ExpireAtReport {
    /// Returns whether the rules can be carried out.
    pub fn has_clear_rules(&self) -> bool {
        let mut problems = self.rules.problems.iter();
        !self.rules.lines.is_empty() && !problems.any(|problem| problem.is_fatal)
    }
}

/// Notes at a bucket which versions have expired by the keep rules of its main branch, and frees what nothing
/// else there needs. All metadata of its branches and of its log has to be here; what others have pushed
/// since the last fetch is fetched first.
pub fn expire_at(
    repo: &Repo,
    options: &ExpireAtOptions,
    judge: &mut dyn ExpiryJudge,
    caller: &dyn BucketCaller,
    job: &Job,
) -> Result<ExpireAtReport, OpsError> {
    let ago = options.grace.as_secs();
    let what = FreeOptions {
        forget_before: None,
        young_from: options.request.time.seconds.saturating_sub_unsigned(ago),
        joins: Joins::Wasted,
        purge: None,
        dry_run: options.dry_run,
        limits: Limits::default(),
        stamp: stamp(&options.request),
    };
    let collection = Collection {
        repo,
        remote: &options.remote,
        command: "dmv expire",
        may_fetch: true,
        request: &options.request,
        caller,
        job,
    };
    let mut chooser = Chooser {
        repo,
        options,
        judge,
        caller,
        job,
        report: ExpireAtReport::default(),
    };
    let freed = collection.run(
        &mut |with, known, what| expire(with, known, what, &mut chooser),
        &what,
    )?;
    Ok(ExpireAtReport {
        freed,
        ..chooser.report
    })
}

struct Chooser<'a> {
    repo: &'a Repo,
    options: &'a ExpireAtOptions,
    judge: &'a mut dyn ExpiryJudge,
    caller: &'a dyn BucketCaller,
    job: &'a Job,
    report: ExpireAtReport,
}

impl Expirer for Chooser<'_> {
    fn choose(
        &mut self,
        view: &View,
        absent: &BTreeSet<ObjectId>,
    ) -> Result<Option<Expirations>, PushError> {
        self.report = ExpireAtReport::default();
        let there = self.tips_of(view, absent)?;
        let Some((branch, commit)) = branch_with_rules(view) else {
            return Ok(None);
        };
        self.report.branch = Some(branch);
        // A repository without content lacks the files with the rules.
        let rules = supplied(self.repo, self.caller, self.job, || {
            self.repo.keep_rules_of(&commit)
        });
        let rules = rules.map_err(|e| PushError::Caller(Box::new(e)))?;
        self.report.rules = rules.done?;
        if !self.report.has_clear_rules() {
            return Ok(None);
        }
        let (repo, rules) = (self.repo, &self.report.rules);
        self.report.found =
            repo.expirable_elsewhere(rules, &there, &self.options.what, self.job)?;
        let found = &self.report.found;
        if !self.options.dry_run && !found.files.is_empty() {
            self.judge.approve(found).map_err(PushError::Caller)?;
        }
        let mut expiring = Expirations::new();
        for file in &found.files {
            let why = Expiry::clone(&file.why);
            expiring.entry(why).or_default().insert(file.blob.id);
        }
        Ok(Some(expiring))
    }

    fn confirm(&mut self) -> Result<(), PushError> {
        if self.report.found.files.is_empty() || self.judge.still() {
            Ok(())
        } else {
            Err(PushError::Repo(UpkeepError::Unconfirmed.into()))
        }
    }
}

impl Chooser<'_> {
    /// Returns the tips of branches and tags. Fails with [`PushError::Lacking`] if one is absent here.
    fn tips_of(
        &self,
        view: &View,
        absent: &BTreeSet<ObjectId>,
    ) -> Result<ElsewhereView, PushError> {
        let mut there = ElsewhereView {
            absent: absent.clone(),
            ..ElsewhereView::default()
        };
        let mut lacking = Vec::new();
        for (key, value) in view {
            let Some(id) = id_of(value) else {
                continue;
            };
            if !self.repo.store().holds(ObjectType::Commit, &id)? {
                lacking.push((ObjectType::Commit, id));
            }
            if key.starts_with("branch/") {
                there.branches.insert(id);
            } else {
                there.tags.insert(id);
            }
        }
        if lacking.is_empty() {
            Ok(there)
        } else {
            Err(PushError::Lacking(lacking))
        }
    }
}

/// Returns the branch that a clone would be on, or else the only one, with its newest commit.
fn branch_with_rules(view: &View) -> Option<(String, ObjectId)> {
    let branches = view.iter().filter_map(|(key, value)| {
        let name = key.strip_prefix("branch/")?;
        Some((name.to_owned(), id_of(value)?))
    });
    let mut branches: Vec<(String, ObjectId)> = branches.collect();
    let usual = ["main", "master"].into_iter();
    let at = usual.filter_map(|usual| branches.iter().position(|(name, _)| name == usual));
    match (at.min(), branches.len()) {
        (Some(at), _) => Some(branches.swap_remove(at)),
        (None, 1) => branches.pop(),
        (None, _) => None,
    }
}
