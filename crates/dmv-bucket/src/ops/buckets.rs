//! The buckets of a program, as the commands of `dmv-net` see them.

use super::caller::{BucketCaller, source_of};
use super::claims::with_claims;
use super::gc::purge_at;
use super::push::OpenBucket;
use crate::peer::serve_bucket;
use dmv_core::job::Job;
use dmv_core::repo::{KnownPurge, OperationRequest, Repo};
use dmv_core::threads;
use dmv_net::ops::{Buckets, ClaimTarget, PushOpening, PushTarget, Remote, SessionError};
use dmv_net::session::{Link, NetError, PurgeAnswer};
use dmv_net::transport::{BucketAddress, Purpose};
use std::path::Path;

/// The buckets of a program, for [`Caller::buckets`](dmv_net::ops::Caller::buckets).
pub struct CallerBuckets<'c>(pub &'c dyn BucketCaller);

impl Buckets for CallerBuckets<'_> {
    /// Sends nothing yet. No program answers at a bucket, so a thread of this process reads its files and
    /// answers.
    fn connect(
        &self,
        address: &BucketAddress,
        purpose: Purpose,
        copies: &Path,
    ) -> Result<Link, NetError> {
        let mut source = source_of(address, &self.0.store(address)?)?;
        source.copies = Some(copies.to_owned());
        source.may_be_empty = purpose == Purpose::Write;
        let (ours, theirs) = Link::pair_with_clues();
        threads::start(move || serve_bucket(source, theirs))?;
        Ok(ours)
    }

    fn open_for_push<'b>(
        &'b self,
        repo: &'b Repo,
        address: &BucketAddress,
        opening: PushOpening,
        job: &'b Job,
    ) -> Result<Box<dyn PushTarget + 'b>, Box<SessionError>> {
        let open = OpenBucket::open(repo, address, opening, self.0, job)?;
        Ok(Box::new(open))
    }

    fn with_claims(
        &self,
        address: &BucketAddress,
        job: &Job,
        work: &mut dyn FnMut(&mut dyn ClaimTarget) -> Result<(), NetError>,
    ) -> Result<(), NetError> {
        with_claims(address, self.0, job, work)
    }

    fn purge(
        &self,
        repo: &Repo,
        remote: &Remote,
        purges: &[KnownPurge],
        request: &OperationRequest,
        job: &Job,
    ) -> Result<PurgeAnswer, Box<SessionError>> {
        purge_at(repo, remote, purges, request, self.0, job)
    }
}
