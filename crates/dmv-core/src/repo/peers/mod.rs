//! What other repositories see of this one, and what their objects and refs change here.
//!
//! Uses `base` and `look`. It knows no network: `dmv-net` calls it.

pub(in crate::repo) mod allow;
pub(in crate::repo) mod exchange;
pub(in crate::repo) mod half;
pub(in crate::repo) mod keep;
pub(in crate::repo) mod wanted;
