//! Two devices that learn to trust each other by a short code.
//!
//! Each end proves that it knows the code without telling anything about it (SPAKE2), over a
//! connection whose two keys and secrets go into the proof. So somebody between the two, or anybody
//! else on the network, has one guess for each try, and there are few tries. docs/trust.md has the
//! messages, docs/decisions.md the reasons.

use super::lan::{Ear, Found, Service};
use super::node::{Connection, Node, NodeOptions};
use super::relay::RELAY_TIME;
use super::{Listen, PeerAddress, QuicError, closing};
use crate::identity::DeviceKey;
use dmv_core::repo::{Access, MAX_PEER_NAME_BYTES, PeerKey};
use iroh::endpoint::{RecvStream, SendStream, VarInt};
use spake2::{Ed25519Group, Identity, Password, Spake2};
use std::collections::BTreeMap;
use std::future::Future;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, timeout, timeout_at};

/// The protocol's name in the handshake.
const PROTOCOL: &[u8] = b"dmv-pair/1";
/// Wrong codes before a code is of no more use.
const TRIES: u32 = 3;
/// For all messages that wait for no human.
const EXCHANGE_TIME: Duration = Duration::from_secs(8);
/// For somebody to look at a screen and say yes.
const CONFIRM_TIME: Duration = Duration::from_secs(120);
/// Between two attempts to reach somebody who was announced.
const AGAIN: Duration = Duration::from_secs(1);
/// How long to look for another device when one has another code.
const LOOK_ON: Duration = Duration::from_secs(3);

/// A code: what one device shows and the other is told.
#[derive(Clone, PartialEq, Eq)]
pub struct Code(String);

/// Text that is no code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a code is 6 to 32 letters and digits")]
pub struct NotACode;

impl Code {
    /// A new one of eight digits.
    pub fn random() -> Result<Code, getrandom::Error> {
        let mut bytes = [0; 8];
        getrandom::fill(&mut bytes)?;
        Ok(Code(format!(
            "{:08}",
            u64::from_le_bytes(bytes) % 100_000_000
        )))
    }

    /// The code as it is shown, in groups of four.
    pub fn shown(&self) -> String {
        let chars: Vec<char> = self.0.chars().collect();
        let groups: Vec<String> = chars.chunks(4).map(|c| c.iter().collect()).collect();
        groups.join("-")
    }
}

impl FromStr for Code {
    type Err = NotACode;

    fn from_str(text: &str) -> Result<Code, NotACode> {
        let plain: String = text
            .chars()
            .filter(|c| !matches!(c, '-' | ' '))
            .map(|c| c.to_ascii_lowercase())
            .collect();
        let is_code =
            (6..=32).contains(&plain.len()) && plain.chars().all(|c| c.is_ascii_alphanumeric());
        is_code.then_some(Code(plain)).ok_or(NotACode)
    }
}

/// What one end brings.
#[derive(Clone)]
pub struct PairOptions {
    /// The code.
    pub code: Code,
    /// Whether the code comes from the other device. Who has been told a code looks for the other;
    /// who shows one waits.
    pub told: bool,
    /// Where to listen; `None`: where the system likes.
    pub listen: Option<Listen>,
    /// Relays of the user's choice, as URLs.
    pub relays: Vec<String>,
    /// Whether to look for the other on the local network.
    pub lan: bool,
    /// Where the other is, if that is known.
    pub peer: Option<PeerAddress>,
    /// What this device calls itself.
    pub name: String,
    /// What the other may do here; `None`: there is no repository here.
    pub gives: Option<Access>,
    /// When to give up.
    pub time: Duration,
}

/// The other device, proved to know the code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Paired {
    /// Its key.
    pub key: PeerKey,
    /// What it calls itself.
    pub name: String,
    /// What we may do there; `None`: there is no repository.
    pub gives: Option<Access>,
}

/// What happens meanwhile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PairEvent {
    /// We can be reached.
    Ready(Vec<PeerAddress>),
    /// Somebody has another code; so many tries are left.
    OtherCode(PeerKey, u32),
}

/// Why no pair came about.
#[derive(Debug, thiserror::Error)]
pub enum PairError {
    /// The connection.
    #[error(transparent)]
    Quic(#[from] QuicError),
    /// The codes are not the same, or somebody tried to guess.
    #[error("the other device has another code")]
    OtherCode,
    /// Nobody was there.
    #[error("no device to pair with was found")]
    Nobody,
    /// One of the two said no.
    #[error("{0} declined")]
    Declined(&'static str),
    /// The user asked to stop.
    #[error("interrupted")]
    Stopped,
}

/// Asks the user whether this is the device they mean. May block.
pub type Confirm = Arc<dyn Fn(&Paired) -> bool + Send + Sync>;

/// Waits for the other device, or looks for it, and exchanges keys. Inside a tokio runtime.
///
/// When this returns a device, both users have confirmed it. Nothing is stored.
pub async fn pair(
    key: &DeviceKey,
    options: PairOptions,
    confirm: Confirm,
    event: impl Fn(PairEvent),
    stop: impl Future<Output = ()>,
) -> Result<Paired, PairError> {
    let node_options = NodeOptions {
        listen: options.listen.clone(),
        relays: options.relays.clone(),
    };
    let node = Node::bind(key, &[PROTOCOL], &node_options).await?;
    let meeting = Meeting {
        node: &node,
        options,
        confirm,
        tries: TRIES,
        others: BTreeMap::new(),
    };
    let done = tokio::select! {
        done = async {
            node.meet_relay(RELAY_TIME).await;
            meeting.run(&event).await
        } => done,
        () = stop => Err(PairError::Stopped),
    };
    node.close().await;
    done
}

/// More devices that want to be paired are not looked at.
const MAX_OTHERS: usize = 100;
/// Labels in announcements.
const TOLD: &str = "told";
const SHOWS: &str = "shows";

struct Meeting<'n> {
    node: &'n Node,
    options: PairOptions,
    confirm: Confirm,
    tries: u32,
    /// Who was announced, and whether they are still worth dialling.
    others: BTreeMap<PeerKey, (Found, bool)>,
}

/// What came of talking to somebody.
enum Talk {
    Paired(Paired),
    /// Codes differ, or they went away when they had heard our proof: a guess, at worst.
    OtherCode(PeerKey),
    /// Nothing was learned by either.
    Nothing,
}

impl Meeting<'_> {
    async fn run(mut self, event: &impl Fn(PairEvent)) -> Result<Paired, PairError> {
        let role = if self.options.told { TOLD } else { SHOWS };
        let mut ear = match self.options.lan {
            true => Some(Ear::open(Service::Pairing, self.node, Some(role))?),
            false => None,
        };
        event(PairEvent::Ready(self.node.own_addresses()));
        let mut end = Instant::now() + self.options.time;
        let mut met_other_code = false;
        let mut again = tokio::time::interval(AGAIN);
        loop {
            let heard = async {
                match &mut ear {
                    Some(ear) => ear.next().await,
                    None => None,
                }
            };
            let talk = tokio::select! {
                () = tokio::time::sleep_until(end) => {
                    return Err(if met_other_code { PairError::OtherCode } else { PairError::Nobody });
                }
                incoming = self.node.endpoint.accept() => match incoming {
                    Some(incoming) => self.receive(incoming).await?,
                    None => return Err(PairError::Stopped),
                },
                Some(found) = heard => {
                    self.hear(found);
                    Talk::Nothing
                }
                _ = again.tick() => self.call_somebody().await?,
            };
            match talk {
                Talk::Paired(paired) => return Ok(paired),
                Talk::Nothing => {}
                Talk::OtherCode(key) => {
                    met_other_code = true;
                    self.tries -= 1;
                    event(PairEvent::OtherCode(key, self.tries));
                    if self.tries == 0 {
                        return Err(PairError::OtherCode);
                    }
                    if self.options.told {
                        let is_there_another = self.others.values().any(|(_, worth)| *worth);
                        let wait = if is_there_another {
                            self.options.time
                        } else {
                            LOOK_ON
                        };
                        end = end.min(Instant::now() + wait);
                    }
                }
            }
        }
    }

    fn hear(&mut self, found: Found) {
        if found.addresses.is_empty() {
            self.others.remove(&found.key);
        } else if let Some((known, _)) = self.others.get_mut(&found.key) {
            *known = found;
        } else if self.others.len() < MAX_OTHERS {
            self.others.insert(found.key, (found, true));
        }
    }

    /// Dials the next device that may be the one; only if we are to be the one who dials.
    async fn call_somebody(&mut self) -> Result<Talk, PairError> {
        if let Some(address) = self.options.peer.clone() {
            let dialled = self.node.dial(&address, PROTOCOL).await;
            return self.prove_to(dialled).await;
        }
        if !self.options.told {
            return Ok(Talk::Nothing);
        }
        let own = self.node.key();
        let dials = |found: &Found| found.label != TOLD || own < found.key;
        let next = self
            .others
            .values()
            .find(|(found, worth)| *worth && dials(found));
        let Some((found, _)) = next else {
            return Ok(Talk::Nothing);
        };
        let (key, place) = (found.key, None);
        let address = PeerAddress { key, place };
        let dialled = self.node.dial_at(&address, &found.addresses, PROTOCOL);
        let dialled = dialled.await;
        self.prove_to(dialled).await
    }

    async fn prove_to(
        &mut self,
        dialled: Result<Connection, QuicError>,
    ) -> Result<Talk, PairError> {
        let connection = match dialled {
            Ok(connection) => connection,
            Err(e @ QuicError::Myself(_)) => return Err(e.into()),
            // An announcement may lie; an address that the user gave is to be right.
            Err(e @ QuicError::WrongKey { .. }) if self.options.peer.is_some() => {
                return Err(e.into());
            }
            // They may not have come yet, or have gone.
            Err(_) => return Ok(Talk::Nothing),
        };
        let talk = timeout(EXCHANGE_TIME, self.prove_first(&connection)).await;
        let talk = self
            .conclude(&connection, talk.unwrap_or(Proof::Broken))
            .await;
        if let Ok(Talk::OtherCode(key)) = &talk {
            match self.others.get_mut(key) {
                Some((_, worth)) => *worth = false,
                // The one and only address has another code: the user has to look again.
                None => return Err(PairError::OtherCode),
            }
        }
        talk
    }

    async fn receive(&mut self, incoming: iroh::endpoint::Incoming) -> Result<Talk, PairError> {
        let Ok(accepting) = incoming.accept() else {
            return Ok(Talk::Nothing);
        };
        let Ok(Ok(conn)) = timeout(EXCHANGE_TIME, accepting).await else {
            return Ok(Talk::Nothing);
        };
        let connection = Connection::accepted(conn);
        let talk = timeout(EXCHANGE_TIME, self.prove_second(&connection)).await;
        self.conclude(&connection, talk.unwrap_or(Proof::Nothing))
            .await
    }

    /// The dialling end: proves first, so that whoever answers a dial learns one guess at most.
    async fn prove_first(&self, connection: &Connection) -> Proof {
        let Ok((mut send, mut recv)) = connection.conn.open_bi().await else {
            return Proof::Nothing;
        };
        let (client, server) = (self.node.key(), connection.key());
        let (state, message) = Spake2::<Ed25519Group>::start_a(
            &Password::new(&self.options.code.0),
            &Identity::new(client.as_bytes()),
            &Identity::new(server.as_bytes()),
        );
        let Some(theirs) = swap(&mut send, &mut recv, &message).await else {
            return Proof::Nothing;
        };
        let Some(macs) = Macs::new(connection, state, &theirs, &client, &server) else {
            return Proof::Broken;
        };
        // From here on the other end can check one guess.
        if send.write_all(macs.client.as_bytes()).await.is_err() {
            return Proof::Broken;
        }
        match read_hash(&mut recv).await {
            Some(mac) if mac == macs.server => Proof::Good(send, recv),
            _ => Proof::Broken,
        }
    }

    /// The answering end: shows its proof to nobody who has not proved the code.
    async fn prove_second(&self, connection: &Connection) -> Proof {
        let Ok((mut send, mut recv)) = connection.conn.accept_bi().await else {
            return Proof::Nothing;
        };
        let (client, server) = (connection.key(), self.node.key());
        let (state, message) = Spake2::<Ed25519Group>::start_b(
            &Password::new(&self.options.code.0),
            &Identity::new(client.as_bytes()),
            &Identity::new(server.as_bytes()),
        );
        let Some(theirs) = swap(&mut send, &mut recv, &message).await else {
            return Proof::Nothing;
        };
        let Some(macs) = Macs::new(connection, state, &theirs, &client, &server) else {
            return Proof::Broken;
        };
        match read_hash(&mut recv).await {
            Some(mac) if mac == macs.client => {}
            Some(_) => return Proof::Broken,
            None => return Proof::Nothing,
        }
        match send.write_all(macs.server.as_bytes()).await {
            Ok(()) => Proof::Good(send, recv),
            Err(_) => Proof::Nothing,
        }
    }

    /// After the proofs: names and rights, and both users' yes.
    async fn conclude(&self, connection: &Connection, proof: Proof) -> Result<Talk, PairError> {
        let close = |code| connection.conn.close(VarInt::from_u32(code), b"");
        let (mut send, mut recv) = match proof {
            Proof::Good(send, recv) => (send, recv),
            Proof::Broken => {
                close(closing::NOT_TRUSTED);
                return Ok(Talk::OtherCode(connection.key()));
            }
            Proof::Nothing => {
                close(closing::PROTOCOL);
                return Ok(Talk::Nothing);
            }
        };
        let greeting = greeting(&self.options.name, self.options.gives);
        let greeted = async {
            send.write_all(&greeting).await.ok()?;
            read_greeting(&mut recv).await
        };
        let Ok(Some((name, gives))) = timeout(EXCHANGE_TIME, greeted).await else {
            close(closing::PROTOCOL);
            return Ok(Talk::Nothing);
        };
        let key = connection.key();
        let paired = Paired { key, name, gives };
        let (confirm, asked) = (self.confirm.clone(), paired.clone());
        let own = tokio::task::spawn_blocking(move || confirm(&asked));
        let end = Instant::now() + CONFIRM_TIME;
        let own = matches!(timeout_at(end, own).await, Ok(Ok(true)));
        let mut answer = [0];
        let swapped = async {
            send.write_all(&[u8::from(own)]).await.ok()?;
            recv.read_exact(&mut answer).await.ok()
        };
        let theirs = matches!(timeout_at(end, swapped).await, Ok(Some(()))) && answer == [1];
        // The one that dialled says goodbye, when its last byte has arrived: closing drops what is on
        // its way.
        let _ = send.finish();
        let goodbye = async {
            match connection.was_dialled() {
                true => drop(send.stopped().await),
                false => drop(connection.conn.closed().await),
            }
        };
        let _ = timeout(EXCHANGE_TIME, goodbye).await;
        close(closing::DONE);
        match (own, theirs) {
            (true, true) => Ok(Talk::Paired(paired)),
            (false, _) => Err(PairError::Declined("this device")),
            (true, false) => Err(PairError::Declined("the other device")),
        }
    }
}

/// How the proof went.
enum Proof {
    Good(SendStream, RecvStream),
    /// Not the same code; or gone at a point where that may have been a guess.
    Broken,
    /// Gone before anything could be learned.
    Nothing,
}

/// What each end sends to prove that it has the shared secret.
struct Macs {
    client: blake3::Hash,
    server: blake3::Hash,
}

impl Macs {
    /// `None`: the other side's message is none.
    fn new(
        connection: &Connection,
        state: Spake2<Ed25519Group>,
        theirs: &[u8],
        client: &PeerKey,
        server: &PeerKey,
    ) -> Option<Macs> {
        let secret: [u8; 32] = state.finish(theirs).ok()?.try_into().ok()?;
        // A secret of this very connection: proofs of another one do not fit.
        let mut channel = [0; 32];
        let label = b"dmv-pair/1 channel";
        let exported = connection
            .conn
            .export_keying_material(&mut channel, label, b"");
        exported.ok()?;
        let mac = |role: &[u8]| {
            let mut hasher = blake3::Hasher::new_keyed(&secret);
            for part in [role, &channel, client.as_bytes(), server.as_bytes()] {
                hasher.update(part);
            }
            hasher.finalize()
        };
        Some(Macs {
            client: mac(b"dmv-pair/1 client"),
            server: mac(b"dmv-pair/1 server"),
        })
    }
}

/// A SPAKE2 message: the side's letter and a point.
const MESSAGE_BYTES: usize = 33;

async fn swap(
    send: &mut SendStream,
    recv: &mut RecvStream,
    message: &[u8],
) -> Option<[u8; MESSAGE_BYTES]> {
    send.write_all(message).await.ok()?;
    let mut theirs = [0; MESSAGE_BYTES];
    recv.read_exact(&mut theirs).await.ok()?;
    Some(theirs)
}

/// Hashes compare in constant time.
async fn read_hash(recv: &mut RecvStream) -> Option<blake3::Hash> {
    let mut bytes = [0; 32];
    recv.read_exact(&mut bytes).await.ok()?;
    Some(blake3::Hash::from_bytes(bytes))
}

fn greeting(name: &str, gives: Option<Access>) -> Vec<u8> {
    let name = fit(name);
    let mut out = vec![match gives {
        None => 0,
        Some(Access::Read) => 1,
        Some(Access::Write) => 2,
    }];
    out.push(u8::try_from(name.len()).expect("it is at most 64 bytes long"));
    out.extend(name.as_bytes());
    out
}

/// As much of a name as the allow-list takes.
fn fit(name: &str) -> String {
    let mut out = String::new();
    for c in name.chars().filter(|c| !c.is_control()) {
        if out.len() + c.len_utf8() > MAX_PEER_NAME_BYTES {
            break;
        }
        out.push(c);
    }
    out
}

async fn read_greeting(recv: &mut RecvStream) -> Option<(String, Option<Access>)> {
    let mut head = [0; 2];
    recv.read_exact(&mut head).await.ok()?;
    let gives = match head[0] {
        0 => None,
        1 => Some(Access::Read),
        2 => Some(Access::Write),
        _ => return None,
    };
    let len = usize::from(head[1]);
    if len > MAX_PEER_NAME_BYTES {
        return None;
    }
    let mut name = vec![0; len];
    recv.read_exact(&mut name).await.ok()?;
    Some((fit(&String::from_utf8(name).ok()?), gives))
}

#[cfg(test)]
mod tests;
