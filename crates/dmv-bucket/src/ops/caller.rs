//! What a command at a bucket needs from the program that calls it.

use crate::peer::BucketSource;
use crate::store::probe::TestCost;
use crate::store::{Settings, Store};
use dmv_net::ops::Caller;
use dmv_net::session::NetError;
use dmv_net::transport::BucketAddress;
use std::sync::Arc;

/// The program that calls a command at a bucket.
pub trait BucketCaller: Caller {
    /// Returns the settings of the store at an address. A command asks for them before each connection.
    ///
    /// If the program's own settings are unusable, this fails with [`NetError::Caller`].
    fn store(&self, address: &BucketAddress) -> Result<Settings, NetError>;

    /// Called before a command replaces the root of a bucket, or makes the first one (`is_first`). May test
    /// the store, and fail. The default does nothing.
    fn test_store(&self, address: &BucketAddress, is_first: bool) -> Result<(), NetError> {
        let _ = (address, is_first);
        Ok(())
    }

    /// Returns what that test would cost.
    fn cost_of_test(&self, address: &BucketAddress, is_first: bool) -> Result<TestCost, NetError> {
        let _ = (address, is_first);
        Ok(TestCost::default())
    }
}

/// Returns a bucket to be read. Sends nothing yet.
pub(super) fn source_of(
    address: &BucketAddress,
    settings: &Settings,
) -> Result<BucketSource, NetError> {
    Ok(BucketSource {
        place: address.to_string(),
        files: Arc::new(Store::open(address, settings)?),
        copies: None,
        is_read_only: address.scheme.is_web(),
        may_be_empty: false,
    })
}
