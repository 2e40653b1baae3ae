//! Claims at a bucket, as the commands of `dmv-net` see them.

use super::caller::BucketCaller;
use crate::store::Store;
use crate::work::claims::{BucketClaimsFile, ClaimsFailure, ToldFile};
use dmv_core::claims::{PLACE_BYTES, RuleChange, SignedList};
use dmv_core::job::Job;
use dmv_core::repo::ClaimsThere;
use dmv_net::ops::{BucketClaims, ClaimTarget};
use dmv_net::session::NetError;
use dmv_net::transport::BucketAddress;

/// Calls `work` with the claims of a bucket.
pub(super) fn with_claims(
    address: &BucketAddress,
    caller: &dyn BucketCaller,
    job: &Job,
    work: &mut dyn FnMut(&mut dyn ClaimTarget) -> Result<(), NetError>,
) -> Result<(), NetError> {
    let files = Store::open(address, &caller.store(address)?)?;
    let test = Box::new(|| caller.test_store(address, false));
    let file = BucketClaimsFile::new(&files, address.scheme.is_web(), test, job);
    let place = address.to_string();
    work(&mut OpenClaims { place, file })
}

/// Reads the claims of a bucket, and tells it nothing.
pub(super) fn read_claims(
    files: &Store,
    address: &BucketAddress,
    job: &Job,
) -> Result<BucketClaims, NetError> {
    let test = Box::new(|| Ok(()));
    let file = BucketClaimsFile::new(files, true, test, job);
    let place = address.to_string();
    OpenClaims { place, file }.tell(&[], None)
}

struct OpenClaims<'f> {
    place: String,
    file: BucketClaimsFile<'f>,
}

impl ClaimTarget for OpenClaims<'_> {
    fn tell(
        &mut self,
        lists: &[SignedList],
        change: Option<RuleChange>,
    ) -> Result<BucketClaims, NetError> {
        let place = &self.place;
        let failed = |trouble| NetError::Bucket {
            place: place.clone(),
            trouble,
        };
        let told = self.file.tell(lists, change).map_err(|e| match e {
            ClaimsFailure::Untested(e) => e,
            ClaimsFailure::Store(trouble) => failed(trouble),
        })?;
        let ToldFile { file: told, untold } = told;
        Ok(BucketClaims {
            lists: told.book.lists().cloned().collect(),
            untold: untold.map(failed),
            there: ClaimsThere {
                // Its root is not read for this.
                place: [0; PLACE_BYTES],
                held: told.held,
                rules: told.rules,
            },
        })
    }
}
