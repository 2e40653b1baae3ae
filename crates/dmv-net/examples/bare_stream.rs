//! Bytes over one bare QUIC stream, with the settings of DMV's own connections. A benchmark
//! compares `dmv clone dmv://KEY` with this.
//!
//! `bare_stream send` prints an address, and then sends each client as many bytes as it requests.
//! `bare_stream take ADDRESS BYTES` receives that many bytes and drops them.

use dmv_core::repo::{Access, PeerKey};
use dmv_net::identity::DeviceKey;
use dmv_net::transport::quic::{
    Limits, ListenAddress, Node, NodeOptions, PeerAddress, Service, TimedStream, serve,
};
use iroh::endpoint::{RecvStream, SendStream};
use std::io::Write;
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

type Outcome = Result<(), Box<dyn std::error::Error>>;

const PROTOCOL: &[u8] = b"dmv-bare/1";
/// The size of a session's frames.
const WRITE_BYTES: usize = 1 << 20;

/// A service that sends each client as many bytes as it requests.
struct Bytes;

impl Service for Bytes {
    fn access(&self, _key: &PeerKey) -> Option<Access> {
        Some(Access::Read)
    }

    async fn answer(
        self: Arc<Self>,
        _key: PeerKey,
        _access: Access,
        mut incoming: TimedStream<RecvStream>,
        mut outgoing: TimedStream<SendStream>,
    ) {
        let Ok(mut left) = incoming.read_u64().await else {
            return;
        };
        let bytes = vec![0x5a; WRITE_BYTES];
        while left > 0 {
            let n = left.min(WRITE_BYTES as u64);
            if outgoing.write_all(&bytes[..n as usize]).await.is_err() {
                return;
            }
            left -= n;
        }
        let _ = outgoing.shutdown().await;
    }
}

async fn send() -> Outcome {
    let options = NodeOptions {
        listen: Some(ListenAddress::loopback()),
        ..Default::default()
    };
    let node = Node::bind(&DeviceKey::generate(), &[PROTOCOL], &options).await?;
    for address in node.own_addresses() {
        writeln!(std::io::stdout(), "{address}")?;
    }
    serve(
        &node,
        Arc::new(Bytes),
        Limits::default(),
        std::future::pending(),
    )
    .await;
    Ok(())
}

async fn take(address: &PeerAddress, bytes: u64) -> Outcome {
    let node = Node::bind(&DeviceKey::generate(), &[], &NodeOptions::default()).await?;
    let connection = node.dial(address, PROTOCOL).await?;
    let (mut send, mut recv) = connection.open().await?;
    send.write_u64(bytes).await?;
    let mut buffer = vec![0; WRITE_BYTES];
    let mut came = 0;
    loop {
        match AsyncReadExt::read(&mut recv, &mut buffer).await? {
            0 => break,
            n => came += n as u64,
        }
    }
    connection.finish();
    node.close().await;
    if came == bytes {
        Ok(())
    } else {
        Err(format!("{came} of {bytes} bytes came").into())
    }
}

fn main() -> Outcome {
    // The number of threads of a session.
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args.as_slice() {
        ["send"] => runtime.block_on(send()),
        ["take", address, bytes] => runtime.block_on(take(&address.parse()?, bytes.parse()?)),
        _ => Err("usage: bare_stream send | bare_stream take ADDRESS BYTES".into()),
    }
}
