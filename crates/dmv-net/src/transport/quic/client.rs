//! A session's connection to a repository that a peer serves. [`connect`](super::super::connect())
//! uses this.

use super::blocking::runtime;
use super::pump::{Sink, Source};
use super::{Connection, Node, NodeOptions, PeerAddress, QuicError, SESSION};
use crate::identity::DeviceKey;
use crate::session::{Link, NetError};
use crate::wire::Code;
use std::time::Duration;
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;

/// How long to wait until the peer has received our last message and ended its stream.
const LAST_WORD_TIME: Duration = Duration::from_secs(2);

/// The settings of this device for dialling a peer by its key.
#[derive(Clone, Debug)]
pub struct Device {
    /// This device's key.
    pub key: DeviceKey,
    /// The relays that the user has set, as URLs.
    pub relays: Vec<String>,
}

/// The objects that keep a connection up.
pub struct Helper {
    connection: Connection,
    /// Ends when the other side has ended its stream.
    hearing: Option<JoinHandle<()>>,
    node: Option<Node>,
    runtime: Option<Runtime>,
}

/// Dials the peer at `address` and opens a stream.
pub fn connect(address: &PeerAddress, device: &Device) -> Result<(Link, Helper), NetError> {
    let runtime = runtime()?;
    let options = NodeOptions {
        relays: device.relays.clone(),
        ..Default::default()
    };
    let dialled = runtime.block_on(async {
        let node = Node::bind(&device.key, &[], &options).await?;
        let opened = async {
            let connection = node.dial(address, SESSION).await?;
            let stream = connection.open().await?;
            Ok::<_, QuicError>((connection, stream))
        };
        match opened.await {
            Ok((connection, stream)) => Ok((node, connection, stream)),
            Err(e) => {
                node.close().await;
                Err(e)
            }
        }
    });
    let (node, connection, (send, recv)) = dialled?;
    let handle = runtime.handle();
    let (source, hearing) = Source::new(recv, handle);
    let link = Link::through(source, Sink::new(send, handle))?;
    let helper = Helper {
        connection,
        hearing: Some(hearing),
        node: Some(node),
        runtime: Some(runtime),
    };
    Ok((link, helper))
}

impl Helper {
    /// Returns the cause of a session's failure, if the peer or the network ended the connection.
    pub fn explain(mut self, e: NetError) -> NetError {
        // No further bytes will arrive.
        self.hearing = None;
        match e {
            NetError::Closed => self.connection.why_ended().map_or(e, NetError::from),
            e => e,
        }
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        if let (Some(hearing), Some(runtime)) = (self.hearing.take(), &self.runtime) {
            // Closing a connection drops data in transit, and the other side would take this for a
            // cut. So this end waits: the other side ends its stream when it has received our last
            // message.
            let heard = async { tokio::time::timeout(LAST_WORD_TIME, hearing).await };
            let _ = runtime.block_on(heard);
        }
        self.connection.finish();
        if let (Some(node), Some(runtime)) = (self.node.take(), self.runtime.take()) {
            runtime.block_on(node.close());
            // The link's threads may still wait for a stream that has just ended.
            runtime.shutdown_background();
        }
    }
}

impl From<QuicError> for NetError {
    fn from(e: QuicError) -> NetError {
        let why = e.to_string();
        match e {
            QuicError::WrongKey { peer } => {
                let why = "the device at this address has another key".to_owned();
                NetError::NotLetIn { place: peer, why }
            }
            QuicError::NotTrusted { peer } => {
                let why = "it does not trust this device".to_owned();
                NetError::NotLetIn { place: peer, why }
            }
            QuicError::Myself(key) => {
                let place = format!("dmv://{key}");
                let why = "this is the key of this device itself".to_owned();
                NetError::NotLetIn { place, why }
            }
            QuicError::Busy { .. } => NetError::Peer(Code::Busy, why),
            QuicError::Unreachable { peer, why } => NetError::Unreachable { place: peer, why },
            QuicError::NotAtRelay { peer, why, met } => {
                let place = peer;
                NetError::NotAtRelay { place, why, met }
            }
            QuicError::Stopped { peer } => {
                let why = "it has stopped serving".to_owned();
                NetError::Unreachable { place: peer, why }
            }
            QuicError::Bind { .. } => NetError::Listen(why),
            QuicError::Local(_) => {
                let place = "the network".to_owned();
                NetError::Unreachable { place, why }
            }
        }
    }
}
