//! The first message of each side: who it is, what it may do, and which additions it knows.

use super::lists::at_most;
use super::{MAX_EXTENSIONS, SliceSummary};
use serde::{Deserialize, Serialize};

/// The tag of the extension that says: this side knows [`Message::Keep`](super::Message::Keep). It has no value.
pub const KEEPS: u16 = 1;
/// The tag of the extension that says: this side knows [`Message::Working`](super::Message::Working). Its value is the
/// side's patience with a silent peer, in milliseconds, as a little-endian u32.
pub const WORKS: u16 = 2;
/// The tag of the extension that says: this side knows [`Message::Total`](super::Message::Total). It has no value.
pub const TOTALS: u16 = 3;
/// The tag of the extension that says: this server can delete refs (see [`Update::new`](super::Update::new)). It has no
/// value.
pub const DELETES: u16 = 4;
/// The tag of the extension in which a server summarizes its slice. Its value is a [`SliceSummary`].
pub const HOLDS: u16 = 5;
/// The tag of the extension that says: as a receiver, this side accepts small content with
/// metadata. It has no value. See [`LITTLE_BYTES`](super::LITTLE_BYTES).
pub const LITTLE: u16 = 6;
/// The tag of the extension in which a server says why its access is read. Its value is a
/// [`ReadOnly`].
pub const READ_ONLY: u16 = 7;
/// The tag of the extension that says: content of this server has expired, and it answers
/// [`Message::AskExpired`](super::Message::AskExpired). It has no value.
pub const EXPIRES: u16 = 8;
/// The tag of the extension that says: this side knows [`Message::AskPurged`](super::Message::AskPurged) and [`Message::Purge`](super::Message::Purge).
/// Its value is one byte: 1 if content of this side was purged, otherwise 0.
pub const PURGES: u16 = 9;
/// The tag of the extension that says: this side takes frames with bases and knows
/// [`Message::NeedPlain`](super::Message::NeedPlain). Its value is one byte: 1 if this side has such frames, otherwise 0.
pub const BASES: u16 = 10;

/// The tag of the extension that says: this side knows [`Message::TellClaims`](super::Message::TellClaims). The value of
/// a server is a digest of the claims that it knows, or nothing if it has to be asked. That of a client is the key of
/// its device, or nothing.
pub const CLAIMS: u16 = 11;

/// An addition to the Hello that needs no new protocol version. Receivers ignore unknown tags.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Extension {
    /// Which extension it is.
    pub tag: u16,
    /// Its value, in a form that depends on the tag.
    pub value: Vec<u8>,
}

/// What a peer may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Access {
    /// Fetch.
    Read,
    /// Fetch and push.
    Write,
}

/// Why a client may only fetch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadOnly {
    /// The client itself has no more rights.
    Client = 1,
    /// The server was started with `--read-only`.
    Server = 2,
    /// The server cannot write to its repository.
    Repository = 3,
}

/// The first message of each side.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// The program and its version, for messages to people.
    pub agent: String,
    /// The id of the side's repository.
    pub repository: [u8; 16],
    /// The name of the cutter, as in the repository's `format` file.
    pub chunker: String,
    /// What the server allows. A client sends [`Access::Read`].
    pub access: Access,
    /// Additions, see [`Extension`].
    #[serde(deserialize_with = "at_most::<_, _, MAX_EXTENSIONS>")]
    pub extensions: Vec<Extension>,
}

impl Hello {
    /// Returns whether the side knows [`Message::Keep`](super::Message::Keep).
    pub fn keeps(&self) -> bool {
        self.value(KEEPS).is_some()
    }

    /// Returns whether the side knows [`Message::Total`](super::Message::Total).
    pub fn hears_totals(&self) -> bool {
        self.value(TOTALS).is_some()
    }

    /// Returns whether the server can delete refs.
    pub fn deletes(&self) -> bool {
        self.value(DELETES).is_some()
    }

    /// Returns the server's summary of its slice; `None` if it is absent or malformed.
    pub fn held(&self) -> Option<SliceSummary> {
        SliceSummary::decode(self.value(HOLDS)?)
    }

    /// Returns whether the side, as a receiver, accepts small content with metadata.
    pub fn takes_little(&self) -> bool {
        self.value(LITTLE).is_some()
    }

    /// Returns whether content of the server has expired, so that it answers
    /// [`Message::AskExpired`](super::Message::AskExpired).
    pub fn expires(&self) -> bool {
        self.value(EXPIRES).is_some()
    }

    /// Returns whether the side knows [`Message::AskPurged`](super::Message::AskPurged) and [`Message::Purge`](super::Message::Purge), and whether content of
    /// it was purged.
    pub fn purges(&self) -> Option<bool> {
        match self.value(PURGES)? {
            [0] => Some(false),
            [1] => Some(true),
            _ => None,
        }
    }

    /// Returns whether the side has frames with bases; `None` if it does not take them and does not know
    /// [`Message::NeedPlain`](super::Message::NeedPlain).
    pub fn bases(&self) -> Option<bool> {
        match self.value(BASES)? {
            [0] => Some(false),
            [1] => Some(true),
            _ => None,
        }
    }

    /// Returns the digest of a server's claims, or the key of a client's device; `None` if the side does not know
    /// claims.
    pub fn claims(&self) -> Option<&[u8]> {
        self.value(CLAIMS)
    }

    /// Returns why the server's access is read; `None` if the server does not say.
    pub fn read_only(&self) -> Option<ReadOnly> {
        let all = [ReadOnly::Client, ReadOnly::Server, ReadOnly::Repository];
        let value = self.value(READ_ONLY)?;
        all.into_iter().find(|why| value == [*why as u8])
    }

    /// Returns the side's patience with a silent peer, in milliseconds; `None` if it does not know
    /// [`Message::Working`](super::Message::Working).
    pub fn patience_millis(&self) -> Option<u32> {
        let millis = <[u8; 4]>::try_from(self.value(WORKS)?).ok()?;
        Some(u32::from_le_bytes(millis))
    }

    fn value(&self, tag: u16) -> Option<&[u8]> {
        let found = self.extensions.iter().find(|known| known.tag == tag);
        found.map(|known| &known.value[..])
    }
}

impl Extension {
    /// Says that the side knows [`Message::Keep`](super::Message::Keep).
    pub fn keeps() -> Extension {
        Extension::plain(KEEPS)
    }

    /// Says that the side knows [`Message::Total`](super::Message::Total).
    pub fn hears_totals() -> Extension {
        Extension::plain(TOTALS)
    }

    /// Says that the server can delete refs.
    pub fn deletes() -> Extension {
        Extension::plain(DELETES)
    }

    /// Says what the server stores.
    pub fn holds(held: &SliceSummary) -> Extension {
        Extension {
            tag: HOLDS,
            value: held.encode(),
        }
    }

    /// Says that the side, as a receiver, accepts small content with metadata.
    pub fn takes_little() -> Extension {
        Extension::plain(LITTLE)
    }

    /// Says that content of the server has expired.
    pub fn expires() -> Extension {
        Extension::plain(EXPIRES)
    }

    /// Says that the side knows [`Message::AskPurged`](super::Message::AskPurged), and whether content of it was purged.
    pub fn purges(has_purged: bool) -> Extension {
        Extension {
            tag: PURGES,
            value: vec![u8::from(has_purged)],
        }
    }

    /// Says that the side takes frames with bases and knows [`Message::NeedPlain`](super::Message::NeedPlain), and whether it has such
    /// frames.
    pub fn bases(has_bases: bool) -> Extension {
        Extension {
            tag: BASES,
            value: vec![u8::from(has_bases)],
        }
    }

    /// Says that the side knows claims, with the digest of a server or the key of a client.
    pub fn claims(value: Vec<u8>) -> Extension {
        let tag = CLAIMS;
        Extension { tag, value }
    }

    /// Says why the server's access is read.
    pub fn read_only(why: ReadOnly) -> Extension {
        Extension {
            tag: READ_ONLY,
            value: vec![why as u8],
        }
    }

    fn plain(tag: u16) -> Extension {
        Extension {
            tag,
            value: Vec::new(),
        }
    }

    /// Says that the side knows [`Message::Working`](super::Message::Working), and how long it waits for a silent peer.
    pub fn works(patience_millis: u32) -> Extension {
        Extension {
            tag: WORKS,
            value: patience_millis.to_le_bytes().to_vec(),
        }
    }
}
