//! Errors of freeing space: room `upkeep`.

use crate::hash::ObjectId;
use crate::object::ObjectType;

/// Space could not be freed.
#[derive(Debug, thiserror::Error)]
pub enum UpkeepError {
    /// A peer confirmed that it keeps objects, and is no longer connected.
    #[error(
        "a remote that had confirmed its copies no longer answers, so dmv stopped freeing space"
    )]
    Unconfirmed,
    /// Something that is needed is damaged or missing, so nothing shows what else is needed.
    #[error(
        "nothing was freed: {} {} is {}",
        ty.word(),
        id.short(12),
        if *is_damaged { "damaged" } else { "missing" }
    )]
    NothingFreed {
        /// Its type.
        ty: ObjectType,
        /// Its id.
        id: ObjectId,
        /// Whether it is stored, and damaged.
        is_damaged: bool,
    },
}
