//! The operation log of a bucket, and undo there.

use super::caller::BucketCaller;
use super::error::AtBucketError;
use super::push::{at_bucket, moved, net_error, stamp};
use crate::store::Store;
use crate::work::access::BucketAccess;
use crate::work::cache::Cache;
use crate::work::client::BucketClient;
pub use crate::work::undo::{NotUndone, Which};
use crate::work::undo::{UndoError, each_operation, newest, undo};
use dmv_core::job::Job;
use dmv_core::refs::Operation;
use dmv_core::repo::{OperationRequest, RefChange, Repo};
use dmv_net::ops::{OpsError, Remote};
use dmv_net::transport::Purpose;
use std::ops::ControlFlow;

/// An operation in the log of a bucket.
#[derive(Debug)]
pub struct OperationAt<'o> {
    /// The operation.
    pub operation: &'o Operation,
    /// Whether it has been undone.
    pub is_undone: bool,
    /// The number of files that it let go.
    pub freed: usize,
}

impl OperationAt<'_> {
    /// Returns the branches and tags that it has moved.
    pub fn moved(&self) -> Vec<RefChange> {
        self.operation.changes.iter().map(moved).collect()
    }
}

/// Takes an operation. Decides whether to go on.
pub type EachOperation<'v> = &'v mut dyn FnMut(OperationAt<'_>) -> ControlFlow<()>;

/// Visits the operations in the log of a remote, newest first. The remote has to be a bucket.
pub fn operations_at(
    repo: &Repo,
    remote: &Remote,
    caller: &dyn BucketCaller,
    job: &Job,
    visit: EachOperation<'_>,
) -> Result<(), OpsError> {
    let command = "dmv op log";
    let done = at_bucket(
        &remote.url,
        Purpose::Read,
        command,
        caller,
        |address, settings| {
            let files = Store::open(address, &settings)?;
            let cache = Cache::open(Some(repo.dmv_dir()), &address.to_string());
            let mut client = BucketClient::new(&files, job);
            let visited = newest(&mut client, cache.root()).and_then(|(root, tag)| {
                cache.keep_root(&root, &tag);
                each_operation(&mut client, &root, &mut |entry, is_undone| {
                    visit(OperationAt {
                        operation: &entry.operation,
                        is_undone,
                        freed: entry.left.len(),
                    })
                })
            });
            visited.map_err(|e| net_error(address, e))
        },
    );
    Ok(done?)
}

/// What to undo at a remote.
#[derive(Clone, Debug)]
pub struct UndoAtOptions {
    /// The remote. It has to be a bucket.
    pub remote: Remote,
    /// The operation to take back.
    pub which: Which,
    /// For the operation log of the bucket.
    pub request: OperationRequest,
}

/// What an undo at a remote has done.
#[derive(Clone, Debug)]
pub struct UndoAtReport {
    /// The id of the new operation.
    pub id: [u8; 16],
    /// The operation that was taken back.
    pub undone: Operation,
    /// What that one had taken back itself, if it was an undo.
    pub original: Option<Operation>,
    /// The branches and tags that have moved.
    pub moved: Vec<RefChange>,
}

/// Takes an operation back at a bucket: all the refs that it has moved, or none. Changes nothing in this
/// repository; a fetch then records the branches of the remote as they are.
pub fn undo_at(
    repo: &Repo,
    options: &UndoAtOptions,
    caller: &dyn BucketCaller,
    job: &Job,
) -> Result<UndoAtReport, AtBucketError<NotUndone>> {
    let url = &options.remote.url;
    let done = at_bucket(
        url,
        Purpose::Write,
        "dmv undo",
        caller,
        |address, settings| {
            caller.test_store(address, false)?;
            let files = Store::open(address, &settings)?;
            let cache = Cache::open(Some(repo.dmv_dir()), &address.to_string());
            let known = cache.root();
            let with = BucketAccess::new(&files, repo.store(), job, cache.dir());
            match undo(&with, known, &options.which, stamp(&options.request)) {
                Ok(done) => {
                    let (root, tag) = &*done.root;
                    cache.keep_root(root, tag);
                    Ok(Ok(UndoAtReport {
                        id: done.id,
                        undone: done.undone,
                        original: done.original,
                        moved: done.changes.iter().map(moved).collect(),
                    }))
                }
                Err(UndoError::Refused(why)) => Ok(Err(why)),
                Err(UndoError::Failed(e)) => Err(net_error(address, e)),
            }
        },
    );
    done?.map_err(AtBucketError::Refused)
}
