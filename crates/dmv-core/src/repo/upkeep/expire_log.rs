//! `op expire`: shortens what undo can reach.
//!
//! The operation log keeps all operations. The view records the first one that undo can reach
//! (`base::window`). What only earlier operations name may be freed from then on.

use crate::refs::{Effect, Operation, Timestamp};
use crate::repo::base::error::RepoError;
use crate::repo::base::keys::LOG_FROM;
use crate::repo::base::publish::OperationRequest;
use crate::repo::base::repo::Repo;
use crate::repo::base::transaction::Transaction;
use crate::repo::base::{keeping, window};

/// What undo can reach after `Repo::expire_operations`.
#[derive(Clone, Debug)]
pub struct UndoReach {
    /// The number of operations that are out of reach, also since earlier.
    pub expired: u64,
    /// The number of operations within reach.
    pub left: u64,
    /// The time of the first one within reach.
    pub reaches_to: Option<Timestamp>,
    /// The operation that records this; `None` if nothing had to change.
    pub operation: Option<Operation>,
}

impl Repo {
    /// Puts the operations before the first one that is not older than `since` (in seconds since 1970) out
    /// of the reach of undo. This cannot be undone.
    ///
    /// Fails with `BusyError::Freeing` if a peer relies on the objects of this repository: what is
    /// reachable must not change meanwhile. Waits for a running undo, which counts on what it reaches.
    pub fn expire_operations(
        &self,
        since: i64,
        request: OperationRequest,
    ) -> Result<UndoReach, RepoError> {
        let _nobody_relies = keeping::keep_exclusively(self)?;
        let _nobody_undoes = keeping::reach_alone(self)?;
        let last = self.refs.seen()?.seq;
        let before = window::window_from(self)?.max(1);
        // Without such an operation, only the one that records this stays within reach.
        let mut from = last + 1;
        let mut lets_go = false;
        window::each_operation(self, 0, &mut |operation| {
            lets_go |= !window::is_expiry(operation);
            if operation.time.seconds >= since {
                from = operation.seq;
            }
        })?;
        let mut operation = None;
        if from > before && lets_go {
            let mut tx = Transaction::begin(self, &request);
            tx.record(LOG_FROM, from.to_string())?;
            operation = Some(tx.publish(Effect::Kept)?);
        }
        let from = match &operation {
            Some(_) => from,
            // Nothing has changed.
            None => before,
        };
        let last = self.refs.seen()?.seq;
        let first = self.refs.operations_before(Some(from + 1), 1)?.pop();
        Ok(UndoReach {
            expired: from - 1,
            left: (last + 1).saturating_sub(from),
            reaches_to: first.map(|operation| operation.time),
            operation,
        })
    }
}
