//! What work at a bucket needs, whatever the work is.

use super::client::BucketClient;
use crate::files::Files;
use dmv_core::hash::ObjectId;
use dmv_core::job::Job;
use dmv_core::repo::Purge;
use dmv_core::store::Store;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// A bucket, and the device that works there.
pub struct BucketAccess<'a> {
    /// The bucket.
    pub files: &'a dyn Files,
    /// The objects of this device.
    pub store: &'a Store,
    /// Progress, and whether the user has cancelled.
    pub job: &'a Job,
    /// A directory of this device for notes about the bucket.
    pub dir: Option<&'a Path>,
    /// The files that were purged on this device, each named by its root, and why: a push leaves them out.
    pub purged: BTreeMap<ObjectId, Arc<Purge>>,
}

impl<'a> BucketAccess<'a> {
    /// Returns a bucket where nothing is left out.
    pub fn new(
        files: &'a dyn Files,
        store: &'a Store,
        job: &'a Job,
        dir: Option<&'a Path>,
    ) -> BucketAccess<'a> {
        BucketAccess {
            files,
            store,
            job,
            dir,
            purged: BTreeMap::new(),
        }
    }

    /// Returns a client of the bucket.
    pub fn client(&self) -> BucketClient<'a> {
        BucketClient::new(self.files, self.job)
    }
}
