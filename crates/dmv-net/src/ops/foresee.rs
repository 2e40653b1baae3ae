//! What a clone of a bucket would receive.

use super::bucket::at_bucket;
use super::caller::Caller;
use super::clone::CloneOptions;
use super::error::OpsError;
pub use crate::session::CloneForecast;
use crate::session::{History, foresee_clone};
use crate::transport::{Purpose, shelf};

/// Returns whether a clone with these options can be foreseen: a complete one, or one without content. What
/// other clones need is known only once they have read the directories.
pub fn is_foreseeable(options: &CloneOptions) -> bool {
    options.subset.is_everything() && options.history == History::New
}

/// Returns what a clone of a bucket would receive. Writes nothing.
///
/// Fails if the source is no bucket. The options have to be [foreseeable](is_foreseeable).
pub fn foreseen_clone(
    options: &CloneOptions,
    caller: &dyn Caller,
) -> Result<CloneForecast, OpsError> {
    let url = &options.source;
    let done = at_bucket(url, Purpose::Read, "dmv du", caller, |address, reach| {
        foresee_clone(shelf(address, &reach)?, options.metadata_only)
    });
    Ok(done?)
}
