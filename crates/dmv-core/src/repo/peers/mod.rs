//! What other repositories see of this one, and what changes here when their objects and refs
//! arrive.
//!
//! This room uses `base` and `look`. It knows no network: `dmv-net` calls it.

pub(in crate::repo) mod allow;
pub(in crate::repo) mod exchange;
pub(in crate::repo) mod half;
pub(in crate::repo) mod keep;
pub(in crate::repo) mod ref_rules;
pub(in crate::repo) mod share;
pub(in crate::repo) mod wanted;
