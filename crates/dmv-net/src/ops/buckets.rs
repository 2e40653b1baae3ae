//! What a command needs of object stores. No program serves the repository in a bucket, and this crate knows
//! no store: `dmv-bucket` implements [`Buckets`], and the program that calls a command supplies it.

use super::forecast::PushForecast;
use super::remote::Remote;
use super::session_error::SessionError;
use crate::session::{Link, NetError, PurgeAnswer, Summary};
use crate::transport::{BucketAddress, Purpose};
use dmv_core::claims::{RuleChange, SignedList};
use dmv_core::job::Job;
use dmv_core::repo::{
    ClaimsThere, KnownPurge, OfferedRefs, OperationRequest, RefChange, RefUpdate, Repo,
};
use std::path::Path;

/// Repositories in object stores.
pub trait Buckets {
    /// Opens a bucket as the other side of a session. The directory `copies` gets copies of what is read.
    /// For [`Purpose::Write`], a bucket without a repository counts as an empty one.
    fn connect(
        &self,
        address: &BucketAddress,
        purpose: Purpose,
        copies: &Path,
    ) -> Result<Link, NetError>;

    /// Opens a bucket for a push. An empty place gets a repository, unless this is a dry run.
    fn open_for_push<'b>(
        &'b self,
        repo: &'b Repo,
        address: &BucketAddress,
        opening: PushOpening,
        job: &'b Job,
    ) -> Result<Box<dyn PushTarget + 'b>, Box<SessionError>>;

    /// Calls `work` with the claims of a bucket.
    fn with_claims(
        &self,
        address: &BucketAddress,
        job: &Job,
        work: &mut dyn FnMut(&mut dyn ClaimTarget) -> Result<(), NetError>,
    ) -> Result<(), NetError>;

    /// Purges at a bucket what was purged in `repo`.
    fn purge(
        &self,
        repo: &Repo,
        remote: &Remote,
        purges: &[KnownPurge],
        request: &OperationRequest,
        job: &Job,
    ) -> Result<PurgeAnswer, Box<SessionError>>;
}

/// How a bucket is opened for a push.
#[derive(Clone, Copy, Debug, Default)]
pub struct PushOpening {
    /// Whether nothing is to change.
    pub dry_run: bool,
    /// Whether the claims are read at the same time as the root: a push that asks for them later takes longer.
    pub reads_claims: bool,
}

/// The claims of a bucket.
pub trait ClaimTarget {
    /// Tells the bucket lists of claims, and changes a rule for pushes, if one is to change. Returns
    /// what it has then. A bucket that cannot be written to only answers.
    fn tell(
        &mut self,
        lists: &[SignedList],
        change: Option<RuleChange>,
    ) -> Result<BucketClaims, NetError>;
}

/// What a bucket has of claims.
pub struct BucketClaims {
    /// The lists.
    pub lists: Vec<SignedList>,
    /// What holds there.
    pub there: ClaimsThere,
    /// Why it has not taken what was told, if it has not.
    pub untold: Option<NetError>,
}

/// A bucket that is open for a push: no program accepts the push there, so this side does all of it.
pub trait PushTarget {
    /// Returns the refs that the bucket has.
    fn offered(&self) -> &OfferedRefs;

    /// Returns the claims there, once, if they were read when the bucket was opened.
    fn take_claims(&mut self) -> Option<Result<BucketClaims, NetError>>;

    /// Returns whether there was no push yet, so that the next push fills a new repository.
    fn is_unused(&self) -> bool;

    /// Returns the refs that an earlier push has moved that had no answer.
    fn landed_unanswered(&self) -> Result<Vec<RefChange>, Box<SessionError>>;

    /// Returns what a push of these updates would do.
    fn foresee(&self, updates: &[RefUpdate]) -> Result<BucketForecast, Box<SessionError>>;

    /// Moves refs as far as the rules for refs allow it, and uploads first what that needs.
    fn push(
        &mut self,
        updates: &[RefUpdate],
        request: &OperationRequest,
    ) -> Result<Vec<RefChange>, Box<SessionError>>;

    /// Returns what was transferred.
    fn finish(self: Box<Self>) -> Summary;
}

/// What a push to a bucket would do.
#[derive(Default)]
pub struct BucketForecast {
    /// What becomes of each update.
    pub moved: Vec<RefChange>,
    /// What would be sent.
    pub foreseen: PushForecast,
    /// The requests that write.
    pub writes: u64,
    /// The further requests that read.
    pub reads: u64,
}
