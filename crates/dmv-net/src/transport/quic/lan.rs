//! Peers on the local network, found by multicast DNS on every interface of this machine. See
//! docs/trust.md, "The local network".
//!
//! An announcement proves nothing: the dialled peer must still prove its key.

use super::{Node, NodeOptions, QuicError};
use crate::identity::DeviceKey;
use dmv_core::repo::PeerKey;
use iroh::PublicKey;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;
use swarm_discovery::{Discoverer, DropGuard, Peer};
use tokio::runtime::Handle;
use tokio::sync::mpsc::{Receiver, channel};
use tokio::time::{Instant, timeout_at};

/// What is announced. Its name is a DNS-SD service name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Service {
    /// A device that serves a repository.
    Repository,
    /// A device that waits to be paired.
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
pub struct FoundPeer {
    /// The key that it claims.
    pub key: PeerKey,
    /// The addresses that it claims.
    pub addresses: Vec<SocketAddr>,
    /// Its name for itself.
    pub label: String,
}

/// The maximum number of announced peers that are kept, since a network can be full of false
/// announcements.
const MAX_FOUND: usize = 1000;
/// The maximum number of addresses of one peer that are kept, for the same reason.
const MAX_ADDRESSES: usize = 16;
/// The maximum number of announcements that wait in the queue. Further ones are dropped: they are
/// repeated.
const QUEUE: usize = 64;
/// The TXT attribute with the label.
const LABEL: &str = "label";
/// How often this machine's addresses are compared with the announced ones.
const REFRESH: Duration = Duration::from_secs(3);

/// Receives announcements of a service, and can announce this device. Ends when it is dropped.
pub(super) struct Announcements {
    heard: Receiver<FoundPeer>,
    guard: DropGuard,
    announces: bool,
    known: BTreeSet<SocketAddr>,
}

impl Announcements {
    /// Begins to listen. With a `label` it also announces `node` under this label. Must run inside
    /// a tokio runtime.
    pub(super) fn open(
        service: Service,
        node: &Node,
        label: Option<&str>,
    ) -> Result<Announcements, QuicError> {
        let (say, heard) = channel(QUEUE);
        let own = node.key();
        let known: BTreeSet<SocketAddr> = node.addresses().into_iter().collect();
        let mut discoverer = Discoverer::new_interactive(service.name().into(), name_of(&own))
            .with_multicast_interfaces_v4(interfaces(&known).into_iter().collect())
            .with_callback(move |name, peer| {
                let found = read(name, peer).filter(|found| found.key != own);
                // If the queue is full, the announcement is lost. It is repeated soon.
                let _ = found.map(|found| say.try_send(found));
            });
        if let Some(label) = label {
            for at in &known {
                discoverer = discoverer.with_addrs(at.port(), [at.ip()]);
            }
            let label = (LABEL.to_owned(), Some(label.to_owned()));
            discoverer = discoverer.with_txt_attributes([label]).map_err(local)?;
        }
        Ok(Announcements {
            heard,
            guard: discoverer.spawn(&Handle::current()).map_err(local)?,
            announces: label.is_some(),
            known,
        })
    }

    /// Returns the next announcement. A peer's announcement comes again when it changes.
    pub(super) async fn next(&mut self) -> Option<FoundPeer> {
        self.heard.recv().await
    }

    /// Follows this machine's addresses as it joins and leaves networks. Never returns.
    pub(super) async fn follow(&mut self, node: &Node) {
        loop {
            tokio::time::sleep(REFRESH).await;
            self.refresh(node);
        }
    }

    fn refresh(&mut self, node: &Node) {
        let now: BTreeSet<SocketAddr> = node.addresses().into_iter().collect();
        if now == self.known {
            return;
        }
        let (had, has) = (interfaces(&self.known), interfaces(&now));
        had.difference(&has)
            .for_each(|ip| self.guard.remove_interface_v4(*ip));
        has.difference(&had)
            .for_each(|ip| self.guard.add_interface_v4(*ip));
        if self.announces {
            for gone in self.known.difference(&now) {
                self.guard.remove_addr(gone.ip());
            }
            for new in now.difference(&self.known) {
                self.guard.add(new.port(), vec![new.ip()]);
            }
        }
        self.known = now;
    }
}

fn local(e: impl std::fmt::Display) -> QuicError {
    QuicError::Local(e.to_string())
}

fn interfaces(addresses: &BTreeSet<SocketAddr>) -> BTreeSet<Ipv4Addr> {
    let v4 = |at: &SocketAddr| match at.ip() {
        IpAddr::V4(ip) if !ip.is_loopback() && !ip.is_unspecified() => Some(ip),
        _ => None,
    };
    addresses.iter().filter_map(v4).collect()
}

/// Returns the key as an instance name: 52 characters in z-base-32. The 64 hex digits would exceed
/// the limit of a DNS label.
fn name_of(key: &PeerKey) -> String {
    let key = PublicKey::from_bytes(key.as_bytes()).expect("a node has a key that keys can have");
    key.to_z32()
}

/// Reads an announcement. Returns `None` if it is malformed.
fn read(name: &str, peer: &Peer) -> Option<FoundPeer> {
    let key = PublicKey::from_z32(name).ok()?;
    let is_place = |at: &SocketAddr| {
        let ip = at.ip();
        at.port() != 0 && !ip.is_loopback() && !ip.is_unspecified() && !ip.is_multicast()
    };
    let all = peer
        .addrs()
        .iter()
        .map(|(ip, port)| SocketAddr::new(*ip, *port));
    let label = peer.txt_attribute(LABEL).flatten().unwrap_or_default();
    Some(FoundPeer {
        key: PeerKey::from_bytes(*key.as_bytes()),
        addresses: all.filter(is_place).take(MAX_ADDRESSES).collect(),
        label: label.to_owned(),
    })
}

/// Collects the announcements of a service for `time`. Must run inside a tokio runtime.
pub async fn look_around(service: Service, time: Duration) -> Result<Vec<FoundPeer>, QuicError> {
    // A new key, because it is never announced.
    let node = Node::bind(&DeviceKey::generate(), &[], &NodeOptions::default()).await?;
    let mut announcements = Announcements::open(service, &node, None)?;
    let mut all: BTreeMap<PeerKey, FoundPeer> = BTreeMap::new();
    let end = Instant::now() + time;
    while let Ok(Some(found)) = timeout_at(end, announcements.next()).await {
        if found.addresses.is_empty() {
            all.remove(&found.key);
        } else if all.contains_key(&found.key) || all.len() < MAX_FOUND {
            all.insert(found.key, found);
        }
    }
    drop(announcements);
    node.close().await;
    Ok(all.into_values().collect())
}

/// Returns the addresses that the peer with this key announces. Returns none if it is silent for
/// `time`.
pub(super) async fn find(
    node: &Node,
    key: &PeerKey,
    time: Duration,
) -> Result<Vec<SocketAddr>, QuicError> {
    let mut announcements = Announcements::open(Service::Repository, node, None)?;
    let end = Instant::now() + time;
    while let Ok(Some(found)) = timeout_at(end, announcements.next()).await {
        if found.key == *key && !found.addresses.is_empty() {
            return Ok(found.addresses);
        }
    }
    Ok(Vec::new())
}
