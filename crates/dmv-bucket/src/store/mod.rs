//! Object stores: `s3://`, `gs://`, `az://`, and web servers for reading.
//!
//! - [`profile`], [`credentials`], `keys`, `service`: which keys sign requests. No message, address or log shows one.
//! - `clients`: the clients of the library `object_store` for an address.
//! - [`counting`]: counts each request below the library, and remembers refusals.
//! - [`answer`]: what a refusal means.
//! - `files`: reading and writing files of a bucket. It blocks the calling thread.
//! - [`probe`]: tests whether a store keeps the promises that a bucket needs.
//!
//! The room knows nothing of repositories. Its async runtime stays inside.

pub mod answer;
mod clients;
pub mod counting;
pub mod credentials;
mod files;
mod keys;
pub mod probe;
pub mod profile;
mod service;

pub use clients::check_endpoint;
pub use counting::{Counters, RequestCounts};
pub use files::Store;

use dmv_net::session::NetError;
use dmv_net::transport::BucketAddress;
use dmv_net::trouble::Trouble;
use std::sync::Arc;
use std::time::Duration;

/// What a store needs in addition to the address.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where the store is, if not where the address says.
    pub endpoint: Option<String>,
    /// Whether the bucket's name stands in the path, not in the host name.
    pub path_style: bool,
    /// The region of the bucket.
    pub region: Option<String>,
    /// The profile of the AWS tools whose keys to use.
    pub profile: Option<String>,
    /// How long to wait for a store that sends nothing.
    pub patience: Duration,
    /// Where requests are counted.
    pub counters: Arc<Counters>,
}

impl Settings {
    /// Returns settings that leave everything to the environment.
    pub fn new(patience: Duration) -> Settings {
        Settings {
            endpoint: None,
            path_style: false,
            region: None,
            profile: None,
            patience,
            counters: Arc::default(),
        }
    }
}

/// Returns the error for trouble with the store at an address.
fn failed(address: &BucketAddress, trouble: Trouble) -> NetError {
    NetError::Bucket {
        place: address.to_string(),
        trouble,
    }
}
