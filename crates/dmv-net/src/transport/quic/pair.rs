//! Pairing: two devices exchange keys after both prove that they know a short code.
//!
//! Each end proves that it knows the code without revealing anything about it (SPAKE2). The proof
//! includes both keys and a secret of the connection. So an attacker between the two, or anywhere
//! on the network, has one guess for each try, and there are few tries. docs/trust.md specifies the
//! messages, docs/decisions/security.md has the reasons. `blocking` runs this.

use super::lan::{Announcements, FoundPeer, Service};
use super::node::{Connection, Node, NodeOptions};
use super::relay::RELAY_TIME;
use super::{ListenAddress, PeerAddress, QuicError, closing};
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

/// The ALPN name of pairing.
const PROTOCOL: &[u8] = b"dmv-pair/1";
/// The number of wrong codes after which a code is useless.
const TRIES: u32 = 3;
/// The time for all messages that wait for no person.
const EXCHANGE_TIME: Duration = Duration::from_secs(8);
/// The time for a person to look at the screen and confirm.
const CONFIRM_TIME: Duration = Duration::from_secs(120);
/// The time between two attempts to reach an announced device.
const AGAIN: Duration = Duration::from_secs(1);
/// How long to look for another device after one with another code.
const LOOK_ON: Duration = Duration::from_secs(3);

/// A code: one device shows it, and the user types it on the other.
#[derive(Clone, PartialEq, Eq)]
pub struct Code(String);

/// An error: text that is not a code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a code is 6 to 32 letters and digits")]
pub struct NotACode;

impl Code {
    /// Makes a random code of eight digits. Fails if the system gives no random bytes.
    pub fn random() -> Result<Code, getrandom::Error> {
        let mut bytes = [0; 8];
        getrandom::fill(&mut bytes)?;
        Ok(Code(format!(
            "{:08}",
            u64::from_le_bytes(bytes) % 100_000_000
        )))
    }

    /// Returns the code as it is shown, in groups of four.
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

/// What one end contributes.
#[derive(Clone)]
pub struct PairOptions {
    /// The code.
    pub code: Code,
    /// Whether the code comes from the other device. An end that was given a code looks for the
    /// other. An end that shows one waits.
    pub told: bool,
    /// Where to listen. `None`: the system chooses.
    pub listen: Option<ListenAddress>,
    /// The relays that the user has set, as URLs.
    pub relays: Vec<String>,
    /// Whether to look for the other device on the local network.
    pub lan: bool,
    /// The other device's address, if it is known.
    pub peer: Option<PeerAddress>,
    /// This device's name for itself.
    pub name: String,
    /// What the other device may do here. `None`: there is no repository here.
    pub gives: Option<Access>,
    /// How long to try. Only a device that has proved the code may take longer.
    pub time: Duration,
}

/// The other device. It has proved that it knows the code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PairedDevice {
    /// Its key.
    pub key: PeerKey,
    /// Its name for itself.
    pub name: String,
    /// What we may do there. `None`: there is no repository there.
    pub gives: Option<Access>,
}

/// An event while devices pair.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PairEvent {
    /// The other device can reach us at these addresses.
    Ready(Vec<PeerAddress>),
    /// A device has another code. The number is how many tries are left.
    OtherCode(PeerKey, u32),
}

/// Why two devices did not pair.
#[derive(Debug, thiserror::Error)]
pub enum PairError {
    /// The connection failed.
    #[error(transparent)]
    Quic(#[from] QuicError),
    /// The codes differ, or an attacker made a guess.
    #[error("the codes of the two devices differ")]
    OtherCode,
    /// No other device was found.
    #[error("no other device was found to pair with")]
    Nobody,
    /// One of the two users declined.
    #[error("{0} declined")]
    Declined(&'static str),
    /// The user interrupted the command.
    #[error("interrupted")]
    Stopped,
}

/// Asks the user whether this is the right device. May block.
pub type Confirm = Arc<dyn Fn(&PairedDevice) -> bool + Send + Sync>;

/// Waits for the other device, or looks for it, and exchanges keys. Must run inside a tokio
/// runtime.
///
/// When this returns a device, both users have confirmed it. Nothing is stored. Fails as
/// [`PairError`] says; `stop` interrupts it.
pub async fn pair(
    key: &DeviceKey,
    options: PairOptions,
    confirm: Confirm,
    event: impl Fn(PairEvent),
    stop: impl Future<Output = ()>,
) -> Result<PairedDevice, PairError> {
    let end = Instant::now() + options.time;
    let node_options = NodeOptions {
        listen: options.listen.clone(),
        relays: options.relays.clone(),
    };
    let node = Node::bind(key, &[PROTOCOL], &node_options).await?;
    let meeting = PairingJob {
        node: &node,
        end,
        options,
        confirm,
        tries: TRIES,
        others: BTreeMap::new(),
    };
    let done = tokio::select! {
        done = async {
            let _ = timeout_at(end, node.meet_relay(RELAY_TIME)).await;
            meeting.run(&event).await
        } => done,
        () = stop => Err(PairError::Stopped),
    };
    node.close().await;
    done
}

/// The maximum number of announced devices that are remembered.
const MAX_OTHERS: usize = 100;
/// The labels in announcements.
const TOLD: &str = "told";
const SHOWS: &str = "shows";

struct PairingJob<'n> {
    node: &'n Node,
    /// When to stop looking for the other device. A dial or an exchange ends then, too.
    end: Instant,
    options: PairOptions,
    confirm: Confirm,
    tries: u32,
    /// The announced devices, and whether each is still worth dialling.
    others: BTreeMap<PeerKey, (FoundPeer, bool)>,
}

/// The result of a connection to one device.
enum Talk {
    Paired(PairedDevice),
    /// The codes differ, or the device left after it had received our proof. At worst this was a
    /// guess.
    OtherCode(PeerKey),
    /// Neither side learned anything.
    Nothing,
}

impl PairingJob<'_> {
    async fn run(mut self, event: &impl Fn(PairEvent)) -> Result<PairedDevice, PairError> {
        let role = if self.options.told { TOLD } else { SHOWS };
        let mut announcements = if self.options.lan {
            Some(Announcements::open(
                Service::Pairing,
                self.node,
                Some(role),
            )?)
        } else {
            None
        };
        event(PairEvent::Ready(self.node.own_addresses()));
        let mut met_other_code = false;
        let mut again = tokio::time::interval(AGAIN);
        loop {
            let heard = async {
                match &mut announcements {
                    Some(announcements) => announcements.next().await,
                    None => None,
                }
            };
            let talk = tokio::select! {
                () = tokio::time::sleep_until(self.end) => {
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
                _ = again.tick() => self.call_next().await?,
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
                        self.end = self.end.min(Instant::now() + wait);
                    }
                }
            }
        }
    }

    fn hear(&mut self, found: FoundPeer) {
        if found.addresses.is_empty() {
            self.others.remove(&found.key);
        } else if let Some((known, _)) = self.others.get_mut(&found.key) {
            *known = found;
        } else if self.others.len() < MAX_OTHERS {
            self.others.insert(found.key, (found, true));
        }
    }

    /// Dials the next device that may be the right one, if it is this end's turn to dial.
    async fn call_next(&mut self) -> Result<Talk, PairError> {
        if let Some(address) = self.options.peer.clone() {
            let dialling = self.node.dial(&address, PROTOCOL);
            return match timeout_at(self.end, dialling).await {
                Ok(dialled) => self.prove_to(dialled).await,
                Err(_) => Ok(Talk::Nothing),
            };
        }
        if !self.options.told {
            return Ok(Talk::Nothing);
        }
        let own = self.node.key();
        let dials = |found: &FoundPeer| found.label != TOLD || own < found.key;
        let next = self
            .others
            .values()
            .find(|(found, worth)| *worth && dials(found));
        let Some((found, _)) = next else {
            return Ok(Talk::Nothing);
        };
        let (key, place) = (found.key, None);
        let address = PeerAddress { key, place };
        let dialling = self.node.dial_at(&address, &found.addresses, PROTOCOL);
        match timeout_at(self.end, dialling).await {
            Ok(dialled) => self.prove_to(dialled).await,
            Err(_) => Ok(Talk::Nothing),
        }
    }

    /// When an exchange that begins now must have ended.
    fn exchange_end(&self) -> Instant {
        self.end.min(Instant::now() + EXCHANGE_TIME)
    }

    async fn prove_to(
        &mut self,
        dialled: Result<Connection, QuicError>,
    ) -> Result<Talk, PairError> {
        let connection = match dialled {
            Ok(connection) => connection,
            Err(e @ QuicError::Myself(_)) => return Err(e.into()),
            // An announcement may be false. An address from the user must be right.
            Err(e @ QuicError::WrongKey { .. }) if self.options.peer.is_some() => {
                return Err(e.into());
            }
            // The device may not be ready yet, or it has left.
            Err(_) => return Ok(Talk::Nothing),
        };
        let proof = match timeout_at(self.exchange_end(), self.prove_first(&connection)).await {
            Ok(proof) => proof,
            // Our own time is up. That says nothing about the code.
            Err(_) if self.end <= Instant::now() => Proof::Nothing,
            Err(_) => Proof::Broken,
        };
        let talk = self.conclude(&connection, proof).await;
        if let Ok(Talk::OtherCode(key)) = &talk {
            match self.others.get_mut(key) {
                Some((_, worth)) => *worth = false,
                // The only known address has another code. The user must check the code.
                None => return Err(PairError::OtherCode),
            }
        }
        talk
    }

    async fn receive(&mut self, incoming: iroh::endpoint::Incoming) -> Result<Talk, PairError> {
        let Ok(accepting) = incoming.accept() else {
            return Ok(Talk::Nothing);
        };
        let Ok(Ok(conn)) = timeout_at(self.exchange_end(), accepting).await else {
            return Ok(Talk::Nothing);
        };
        let connection = Connection::accepted(conn);
        let talk = timeout_at(self.exchange_end(), self.prove_second(&connection)).await;
        self.conclude(&connection, talk.unwrap_or(Proof::Nothing))
            .await
    }

    /// Runs the proof as the dialling end. This end proves first, so a device that answers gets at
    /// most one guess.
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

    /// Runs the proof as the answering end. It sends its proof only after the other end has proved
    /// the code.
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
            // An invalid message contains no guess, and this end has proved nothing to its sender.
            return Proof::Nothing;
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

    /// Ends the exchange after the proofs: names, access rights, and the confirmation of both
    /// users.
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
        let paired = PairedDevice { key, name, gives };
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
        // The end that dialled ends the exchange once its last byte has arrived, because closing
        // drops data in transit.
        let _ = send.finish();
        let goodbye = async {
            if connection.was_dialled() {
                drop(send.stopped().await)
            } else {
                drop(connection.conn.closed().await)
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

/// The result of the proofs.
enum Proof {
    Good(SendStream, RecvStream),
    /// The codes differ, or the other end left at a point where this may have been a guess.
    Broken,
    /// The other end left before it could learn anything.
    Nothing,
}

/// The proofs of both ends that they have the shared secret.
struct Macs {
    client: blake3::Hash,
    server: blake3::Hash,
}

impl Macs {
    /// Computes the proofs (docs/trust.md, "Pairing"). Returns `None` if the other end's message is
    /// malformed.
    fn new(
        connection: &Connection,
        state: Spake2<Ed25519Group>,
        theirs: &[u8],
        client: &PeerKey,
        server: &PeerKey,
    ) -> Option<Macs> {
        let secret: [u8; 32] = state.finish(theirs).ok()?.try_into().ok()?;
        // A secret of this connection. Proofs from another connection do not match.
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

/// The length of a SPAKE2 message: the letter of the side and a point.
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

/// Reads a proof. `blake3::Hash` compares in constant time.
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

/// Returns as much of a name as the allow-list accepts, without control characters.
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
