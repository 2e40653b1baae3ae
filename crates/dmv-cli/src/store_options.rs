//! How options of a command say where the store of a bucket is, and what a command counts there.

use crate::failure::Failure;
use dmv_bucket::store::{Counters, check_endpoint};
use dmv_net::transport::Url;
use std::cell::{Cell, OnceCell};
use std::sync::Arc;

/// What a command knows of buckets.
#[derive(Default)]
pub struct Buckets {
    /// The requests of the command.
    pub counters: Arc<Counters>,
    /// How to reach an address that no remote has yet.
    pub named: OnceCell<Reach>,
    /// Whether the user knows what the requests cost.
    pub is_told: Cell<bool>,
    /// Whether the command has tested the store that it writes to.
    pub is_tested: Cell<bool>,
}

/// How to reach a store, as options of a command say it.
#[derive(clap::Args, Clone, Debug, Default, PartialEq, Eq)]
pub struct Reach {
    /// For a bucket: the address of its store, if that is not Amazon's
    #[arg(long, value_name = "URL")]
    pub endpoint: Option<String>,
    /// For a bucket: put its name into the path, not into the host name
    #[arg(long)]
    pub path_style: bool,
}

impl Reach {
    /// What a remote's settings say of it.
    pub fn noted(&self) -> Vec<(&'static str, toml_edit::Value)> {
        let endpoint = self.endpoint.as_ref();
        let endpoint = endpoint.map(|endpoint| ("endpoint", endpoint.as_str().into()));
        let path_style = self.path_style.then(|| ("path-style", true.into()));
        endpoint.into_iter().chain(path_style).collect()
    }

    /// Fails if it is given for an address that is no bucket's, or is no endpoint.
    pub fn check(&self, url: &Url) -> Result<(), Failure> {
        if *self == Reach::default() {
            return Ok(());
        }
        if !url.is_bucket() {
            let message = format!("--endpoint and --path-style are for buckets, and {url} is none");
            return Err(Failure::usage(message));
        }
        match self.endpoint.as_deref().map(check_endpoint) {
            Some(Err(why)) => Err(Failure::usage(format!("--endpoint: {why}"))),
            _ => Ok(()),
        }
    }
}
