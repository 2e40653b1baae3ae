//! Setting the limit on the repository's size.

use crate::refs::Effect;
use crate::repo::base::error::RepoError;
use crate::repo::base::keys::BUDGET;
use crate::repo::base::publish::OperationRequest;
use crate::repo::base::repo::Repo;
use crate::repo::base::transaction::Transaction;

impl Repo {
    /// Sets or removes the limit on the repository's size. Returns the former one.
    pub fn set_budget(
        &self,
        bytes: Option<u64>,
        request: OperationRequest,
    ) -> Result<Option<u64>, RepoError> {
        let old = self.budget()?;
        if old != bytes {
            let value = bytes.map(|bytes| bytes.to_string().into_bytes());
            let mut tx = Transaction::begin(self, &request);
            tx.set(BUDGET.to_owned(), value)?;
            tx.publish(Effect::Kept)?;
        }
        Ok(old)
    }
}
