//! How much room a command needs that failed because the disk is full.

use crate::failure::Failure;
use crate::format::text::bytes;
use dmv_core::job::Job;
use dmv_core::platform::free_bytes;
use std::path::Path;
use std::sync::atomic::Ordering;

/// The code of a failure because the disk of this repository is full.
pub const DISK_FULL: &str = "disk-full";

/// Says how much a command would have stored and written below `dir`, and how much is free, if the disk was
/// too full for it.
pub fn told(job: &Job, dir: &Path, mut failure: Failure) -> Failure {
    let total = job.progress.total_bytes.load(Ordering::Relaxed);
    if failure.code == DISK_FULL
        && total > 0
        && let Ok(free) = free_bytes(dir)
    {
        let (total, free) = (bytes(total), bytes(free));
        let text = format!(
            "this command needs up to {total} in all, and {free} are free now; what has arrived stays"
        );
        failure.details = [text].into();
    }
    failure
}
