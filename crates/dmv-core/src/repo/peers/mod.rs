//! What other repositories see of this one, and what changes here when their objects and refs
//! arrive.
//!
//! This room uses `base` and `look`. It knows no network: `dmv-net` calls it.

pub mod allow;
pub mod claim_progress;
pub mod claimed_paths;
pub mod claims;
pub mod exchange;
pub mod half;
pub mod keep;
pub mod pushed_signatures;
pub mod ref_rules;
pub mod share;
pub mod signatures;
pub mod wanted;
