//! Peers on the local network, found by multicast DNS, on every interface of this machine.
//!
//! An announcement proves nothing: whoever is dialled after it still has to prove the key.

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
/// More addresses of one peer are not kept, for the same reason.
const MAX_ADDRESSES: usize = 16;
/// Announcements that wait to be looked at. What comes meanwhile comes again.
const QUEUE: usize = 64;
/// The attribute with the label.
const LABEL: &str = "label";
/// How often this machine's addresses are compared with what is announced.
const REFRESH: Duration = Duration::from_secs(3);

/// Listens to announcements of a service, and makes one's own. It ends when it is dropped.
pub(super) struct Ear {
    heard: Receiver<Found>,
    guard: DropGuard,
    announces: bool,
    known: BTreeSet<SocketAddr>,
}

impl Ear {
    /// Begins. `label`: announces `node` under it. Inside a tokio runtime.
    pub(super) fn open(
        service: Service,
        node: &Node,
        label: Option<&str>,
    ) -> Result<Ear, QuicError> {
        let (say, heard) = channel(QUEUE);
        let own = node.key();
        let known: BTreeSet<SocketAddr> = node.addresses().into_iter().collect();
        let mut discoverer = Discoverer::new_interactive(service.name().into(), name_of(&own))
            .with_multicast_interfaces_v4(interfaces(&known).into_iter().collect())
            .with_callback(move |name, peer| {
                let found = read(name, peer).filter(|found| found.key != own);
                // Full: it is announced again soon.
                let _ = found.map(|found| say.try_send(found));
            });
        if let Some(label) = label {
            for at in &known {
                discoverer = discoverer.with_addrs(at.port(), [at.ip()]);
            }
            let label = (LABEL.to_owned(), Some(label.to_owned()));
            discoverer = discoverer.with_txt_attributes([label]).map_err(local)?;
        }
        Ok(Ear {
            heard,
            guard: discoverer.spawn(&Handle::current()).map_err(local)?,
            announces: label.is_some(),
            known,
        })
    }

    /// The next announcement. Those of one peer come again when they change.
    pub(super) async fn next(&mut self) -> Option<Found> {
        self.heard.recv().await
    }

    /// Follows this machine as it joins and leaves networks; does not return.
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

/// A key as the name of an instance: 52 characters, where hex digits would be too many.
fn name_of(key: &PeerKey) -> String {
    let key = PublicKey::from_bytes(key.as_bytes()).expect("a node has a key that keys can have");
    key.to_z32()
}

/// What an announcement says; `None`: nothing that we understand.
fn read(name: &str, peer: &Peer) -> Option<Found> {
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
    Some(Found {
        key: PeerKey::from_bytes(*key.as_bytes()),
        addresses: all.filter(is_place).take(MAX_ADDRESSES).collect(),
        label: label.to_owned(),
    })
}

/// Collects the announcements of a service for some time. Inside a tokio runtime.
pub async fn look_around(service: Service, time: Duration) -> Result<Vec<Found>, QuicError> {
    // Nobody hears of this key.
    let node = Node::bind(&DeviceKey::generate(), &[], &NodeOptions::default()).await?;
    let mut ear = Ear::open(service, &node, None)?;
    let mut all: BTreeMap<PeerKey, Found> = BTreeMap::new();
    let end = Instant::now() + time;
    while let Ok(Some(found)) = timeout_at(end, ear.next()).await {
        if found.addresses.is_empty() {
            all.remove(&found.key);
        } else if all.contains_key(&found.key) || all.len() < MAX_FOUND {
            all.insert(found.key, found);
        }
    }
    drop(ear);
    node.close().await;
    Ok(all.into_values().collect())
}

/// Where the peer with this key says it can be reached; empty if it is silent for `time`.
pub(super) async fn find(
    node: &Node,
    key: &PeerKey,
    time: Duration,
) -> Result<Vec<SocketAddr>, QuicError> {
    let mut ear = Ear::open(Service::Repository, node, None)?;
    let end = Instant::now() + time;
    while let Ok(Some(found)) = timeout_at(end, ear.next()).await {
        if found.key == *key && !found.addresses.is_empty() {
            return Ok(found.addresses);
        }
    }
    Ok(Vec::new())
}
