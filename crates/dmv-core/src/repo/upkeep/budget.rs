//! Setting the limit on the repository's size.

use crate::refs::Effect;
use crate::repo::base::budget::budget;
use crate::repo::base::error::RepoError;
use crate::repo::base::handle::Handle;
use crate::repo::base::keys::BUDGET;
use crate::repo::base::publish::OperationRequest;
use crate::repo::base::transaction::Transaction;

/// Sets or removes the limit. Returns the former one.
pub fn set_budget(
    repo: &Handle,
    bytes: Option<u64>,
    request: OperationRequest,
) -> Result<Option<u64>, RepoError> {
    let old = budget(repo)?;
    if old != bytes {
        let value = bytes.map(|bytes| bytes.to_string().into_bytes());
        let mut tx = Transaction::begin(repo, &request);
        tx.set(BUDGET.to_owned(), value)?;
        tx.publish(Effect::Kept)?;
    }
    Ok(old)
}
