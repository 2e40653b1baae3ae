//! Peers on the local network, found by multicast DNS.
//!
//! An announcement proves nothing: whoever is dialled after it still has to prove the key.

use super::QuicError;
use dmv_core::repo::PeerKey;
use iroh::{EndpointId, SecretKey};
use iroh_mdns_address_lookup::{DiscoveryEvent, MdnsAddressLookup};
use n0_future::StreamExt;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

/// What is announced: names of services in the sense of DNS-SD.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Service {
    /// A repository is served.
    Repository,
    /// A device wants to be paired.
    Pairing,
}

impl Service {
    fn name(self) -> &'static str {
        match self {
            Service::Repository => "dmv",
            Service::Pairing => "dmv-pair",
        }
    }
}

/// A peer that announces itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The key that it claims to have.
    pub key: PeerKey,
    /// Where it says it can be reached.
    pub addresses: Vec<SocketAddr>,
    /// What it calls itself.
    pub label: String,
}

/// More announcements than these are not kept: a network can be full of lies.
const MAX_FOUND: usize = 1000;

/// Collects the announcements of a service for some time. Inside a tokio runtime.
pub async fn look_around(service: Service, time: Duration) -> Result<Vec<Found>, QuicError> {
    // Nobody hears of this key.
    let watch = Watch::start(lookup(service, SecretKey::generate().public(), false)?).await;
    let mut watch = watch;
    let _ = tokio::time::timeout(time, async { while watch.next().await.is_some() {} }).await;
    Ok(watch.all())
}

/// Starts looking for a service, and announcing it.
pub(super) fn lookup(
    service: Service,
    own: EndpointId,
    announce: bool,
) -> Result<MdnsAddressLookup, QuicError> {
    MdnsAddressLookup::builder()
        .service_name(service.name())
        .advertise(announce)
        .build(own)
        .map_err(|e| QuicError::Local(e.to_string()))
}

type Events = std::pin::Pin<Box<dyn n0_future::Stream<Item = DiscoveryEvent> + Send>>;

/// Who is announced now.
pub(super) struct Watch {
    events: Events,
    found: BTreeMap<PeerKey, Found>,
    _lookup: MdnsAddressLookup,
}

impl Watch {
    /// Listens to what `lookup` hears.
    pub(super) async fn start(lookup: MdnsAddressLookup) -> Watch {
        Watch {
            events: Box::pin(lookup.subscribe().await),
            found: BTreeMap::new(),
            _lookup: lookup,
        }
    }

    /// Waits for the next announcement that says something new; `None`: no more will come.
    pub(super) async fn next(&mut self) -> Option<Found> {
        loop {
            match self.events.next().await? {
                DiscoveryEvent::Discovered { endpoint_info, .. } => {
                    let key = PeerKey::from_bytes(*endpoint_info.endpoint_id.as_bytes());
                    let label = endpoint_info.data.user_data();
                    let found = Found {
                        key,
                        addresses: endpoint_info.data.ip_addrs().copied().collect(),
                        label: label.map(|l| l.to_string()).unwrap_or_default(),
                    };
                    let is_known = self.found.contains_key(&key);
                    if !is_known && self.found.len() == MAX_FOUND {
                        continue;
                    }
                    self.found.insert(key, found.clone());
                    return Some(found);
                }
                DiscoveryEvent::Expired { endpoint_id } => {
                    let key = PeerKey::from_bytes(*endpoint_id.as_bytes());
                    self.found.remove(&key);
                }
                _ => {}
            }
        }
    }

    /// All that are announced, by key.
    pub(super) fn all(self) -> Vec<Found> {
        self.found.into_values().collect()
    }
}
