//! The bytes of the protocol: frames and messages. docs/protocol.md is the authority.
//!
//! Lengths are compared with their limits before anything is allocated, and lists end where they
//! may: the smallest items take many times their bytes in memory. A message that decodes is within
//! the limits of its fields, but says nothing about whether it makes sense now: that is
//! for [`sync`](crate::sync) and [`session`](crate::session).

mod lists;

use dmv_core::hash::ObjectId;
use dmv_core::limits::{MAX_SUBSET_BYTES, MAX_UNION_BYTES, MAX_UNION_SUBSETS};
use dmv_core::object::ObjectType;
use dmv_core::object::codec::{Decoder, put_varint};
use dmv_core::reach;
use dmv_core::store::CheckedRecord;
use dmv_core::subset::{Subset, Union};
use lists::at_most;
use serde::{Deserialize, Serialize};

/// The line that each side sends first.
pub const LINE: &str = "dmv-sync 1\n";
/// The version in it.
pub const VERSION: u32 = 1;
/// Bytes of the other side's first line that are read.
pub const MAX_LINE_BYTES: usize = 64;
/// Bytes of a frame after its length: a record of a pack at its limits fits.
pub const MAX_FRAME_BYTES: usize = 4 << 20;
/// Bytes of a frame with a message.
pub const MAX_MESSAGE_BYTES: usize = 1 << 20;
/// Ids in one message.
pub const MAX_IDS: usize = 4096;
/// Refs in one message.
pub const MAX_REFS_IN_MESSAGE: usize = 1024;
/// Refs of a repository, and updates in one push.
pub const MAX_REFS: usize = 65_536;
/// Bytes of a text in a message.
pub const MAX_TEXT_BYTES: usize = 1024;
/// Extensions in a hello.
pub const MAX_EXTENSIONS: usize = 64;
/// [`Message::Need`] messages that may wait for their answers.
pub const MAX_NEEDS: usize = 8;
/// Rounds of haves.
pub const MAX_ROUNDS: usize = 16;
/// Files that a client asks a server to keep before it answers.
pub const MAX_KEEPS: usize = 1 << 20;
/// The extension of a side that knows [`Message::Keep`]. It has no value.
pub const KEEPS: u16 = 1;
/// The extension of a side that knows [`Message::Working`]. Its value: how many milliseconds the
/// side waits for another that says nothing, as a little-endian u32.
pub const WORKS: u16 = 2;
/// The extension of a side that knows [`Message::Total`]. It has no value.
pub const TOTALS: u16 = 3;
/// The extension of a server that takes refs away: see [`Update::new`]. It has no value.
pub const DELETES: u16 = 4;
/// The extension of a server that says what it holds: a [`Held`].
pub const HOLDS: u16 = 5;
/// The extension of a side that, as a receiver, takes a little content with metadata. It has no
/// value.
pub const LITTLE: u16 = 6;
/// The extension of a server that says why it can only be fetched from: a [`ReadOnly`].
pub const READ_ONLY: u16 = 7;
/// Bytes of chunks that a sender may send unasked where metadata was wanted.
pub const LITTLE_BYTES: u64 = 128 << 10;
/// Bytes of objects that one frame holds, unless a single one is larger.
pub const OBJECTS_TARGET_BYTES: usize = 256 << 10;

/// An id as it travels.
pub type WireId = [u8; 32];
/// An object as it is named: its type's number and its id.
pub type WireObject = (u8, WireId);

/// Why bytes are not what the protocol allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct WireError(pub &'static str);

/// What is sent: a message, or objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame {
    /// An encoded [`Message`].
    Message(Vec<u8>),
    /// A record of a pack, as it is stored.
    Record(Vec<u8>),
    /// The same, taken apart and hashed by this process. It travels as [`Record`](Self::Record), and
    /// nothing that was read decodes to it.
    Checked(CheckedRecord),
    /// Objects one after the other: see [`put_object`].
    Objects(Vec<u8>),
}

/// Bytes before a frame's body: its length and kind.
pub const FRAME_HEAD_BYTES: usize = 5;

impl Frame {
    /// The frame's head and body.
    pub fn parts(&self) -> ([u8; FRAME_HEAD_BYTES], &[u8]) {
        let (kind, body) = match self {
            Frame::Message(body) => (1, &body[..]),
            Frame::Record(body) => (2, &body[..]),
            Frame::Checked(record) => (2, record.as_bytes()),
            Frame::Objects(body) => (3, &body[..]),
        };
        let len = u32::try_from(body.len() + 1).expect("senders keep to MAX_FRAME_BYTES");
        let mut head = [0; FRAME_HEAD_BYTES];
        head[..4].copy_from_slice(&len.to_le_bytes());
        head[4] = kind;
        (head, body)
    }

    /// The length of the body that follows a head, if both are allowed.
    pub fn body_len(head: &[u8; FRAME_HEAD_BYTES]) -> Result<usize, WireError> {
        let len = u32::from_le_bytes([head[0], head[1], head[2], head[3]]) as usize;
        let max = match head[4] {
            1 => MAX_MESSAGE_BYTES,
            2 | 3 => MAX_FRAME_BYTES,
            _ => return Err(WireError("frame of an unknown kind")),
        };
        match len {
            0 | 1 => Err(WireError("frame without a body")),
            len if len > max => Err(WireError("frame is too long")),
            len => Ok(len - 1),
        }
    }

    /// The frame with this head and body.
    pub fn from_parts(head: &[u8; FRAME_HEAD_BYTES], body: Vec<u8>) -> Result<Frame, WireError> {
        match head[4] {
            1 => Ok(Frame::Message(body)),
            2 => Ok(Frame::Record(body)),
            3 => Ok(Frame::Objects(body)),
            _ => Err(WireError("frame of an unknown kind")),
        }
    }

    /// Bytes that it takes on the way.
    pub fn wire_len(&self) -> u64 {
        let (head, body) = self.parts();
        (head.len() + body.len()) as u64
    }

    /// Bytes that it takes in memory, about.
    pub fn size(&self) -> usize {
        match self {
            Frame::Checked(record) => record.size(),
            other => other.wire_len() as usize,
        }
    }
}

/// Appends an object to the body of [`Frame::Objects`].
pub fn put_object(body: &mut Vec<u8>, ty: ObjectType, bytes: &[u8]) {
    body.push(ty as u8);
    put_varint(body, bytes.len() as u64);
    body.extend_from_slice(bytes);
}

/// The objects in the body of [`Frame::Objects`], one after the other: the smallest take two bytes
/// there and many times that in memory. Nothing follows a failure.
pub fn objects(body: &[u8]) -> impl Iterator<Item = Result<(ObjectType, Vec<u8>), WireError>> {
    let mut input = Some(Decoder::new(body));
    std::iter::from_fn(move || {
        let mut rest = input.take().filter(|rest| rest.remaining() > 0)?;
        let object = next_object(&mut rest);
        if object.is_ok() {
            input = Some(rest);
        }
        Some(object)
    })
}

fn next_object(input: &mut Decoder<'_>) -> Result<(ObjectType, Vec<u8>), WireError> {
    let bad = |_| WireError("objects do not decode");
    let ty = ObjectType::from_number(input.u8().map_err(bad)?);
    let ty = ty.ok_or(WireError("object of an unknown type"))?;
    let max = dmv_core::limits::MAX_OBJECT_BYTES;
    let bytes = input.bytes(max, "object is too large").map_err(bad)?;
    Ok((ty, bytes.to_vec()))
}

/// Something to be said later without a new version. Unknown tags are passed over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Extension {
    /// Which.
    pub tag: u16,
    /// Its value.
    pub value: Vec<u8>,
}

/// What a server holds of the commits that it offers. The default is everything.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held {
    /// The patterns of the subset whose paths are held; none: all paths.
    #[serde(deserialize_with = "at_most::<_, _, MAX_SUBSET_BYTES>")]
    pub subset: Vec<Vec<u8>>,
    /// No chunks.
    pub metadata_only: bool,
    /// Commits at which the history of its refs ends.
    pub boundary: u32,
    /// Files whose content was given up.
    pub dropped: u32,
}

impl Held {
    /// The value of an extension; only what [`encode`](Self::encode) makes is taken.
    pub fn decode(bytes: &[u8]) -> Option<Held> {
        let (held, rest) = postcard::take_from_bytes::<Held>(bytes).ok()?;
        let text: usize = held.subset.iter().map(|pattern| pattern.len() + 1).sum();
        (rest.is_empty() && text <= MAX_SUBSET_BYTES).then_some(held)
    }

    /// As the value of an extension.
    pub fn encode(&self) -> Vec<u8> {
        postcard::to_allocvec(self).expect("it holds nothing that cannot be encoded")
    }
}

/// What a peer may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Access {
    /// Fetch.
    Read,
    /// Fetch and push.
    Write,
}

/// Why a client can only fetch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadOnly {
    /// The client may do no more.
    Client = 1,
    /// The server was told to give, and to take nothing.
    Server = 2,
    /// Nothing can be written into its repository.
    Repository = 3,
}

/// The first message of each side.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// The program, for messages.
    pub agent: String,
    /// The repository's id.
    pub repository: [u8; 16],
    /// The cutter's name, as in the repository's `format` file.
    pub chunker: String,
    /// What the server allows; [`Access::Read`] from a client.
    pub access: Access,
    /// See [`Extension`].
    #[serde(deserialize_with = "at_most::<_, _, MAX_EXTENSIONS>")]
    pub extensions: Vec<Extension>,
}

/// Refs of the server, in one message or several.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refs {
    /// The branch that a clone should begin with.
    pub head: Option<String>,
    /// `branch/NAME` or `tag/NAME`, with the commit.
    #[serde(deserialize_with = "at_most::<_, _, MAX_REFS_IN_MESSAGE>")]
    pub refs: Vec<(String, WireId)>,
    /// Whether more messages of this kind follow.
    pub more: bool,
}

/// How deep the sender goes unasked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Unasked {
    /// Commits alone.
    Commits,
    /// And trees, lists and conflicts.
    Metadata,
    /// And chunks.
    All,
}

impl From<Unasked> for reach::Detail {
    fn from(unasked: Unasked) -> reach::Detail {
        match unasked {
            Unasked::Commits => reach::Detail::Commits,
            Unasked::Metadata => reach::Detail::Metadata,
            Unasked::All => reach::Detail::All,
        }
    }
}

/// The part of what is wanted that is wanted indeed. The default is everything.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Filter {
    /// The patterns of one or more subsets, whose paths are wanted; none: all paths.
    #[serde(deserialize_with = "at_most::<_, _, MAX_UNION_SUBSETS>")]
    pub subsets: Vec<Vec<Vec<u8>>>,
    /// Commits along the shortest line from a tip, which is the first; 0: all.
    pub depth: u32,
    /// Commits made before this time, in seconds since 1970, are the last of their line.
    pub since: Option<i64>,
    /// No chunks.
    pub metadata_only: bool,
}

impl Filter {
    /// What of `filter` a sender is told.
    pub fn of(filter: &reach::Filter) -> Filter {
        let patterns = |subset: &Subset| subset.patterns().map(<[u8]>::to_vec).collect();
        Filter {
            subsets: match filter.paths.is_everything() {
                true => Vec::new(),
                false => filter.paths.parts().iter().map(patterns).collect(),
            },
            depth: filter.depth,
            since: filter.since,
            metadata_only: filter.metadata_only,
        }
    }

    /// What a walk has to keep to, with the receiver's shallow commits.
    pub fn to_walk(&self, shallow: &[WireId]) -> Result<reach::Filter, WireError> {
        let subset = |patterns: &Vec<Vec<u8>>| {
            let subset = Subset::new(patterns.iter().map(Vec::as_slice));
            subset.map_err(|_| WireError("a filter with patterns that make no sense"))
        };
        Ok(reach::Filter {
            paths: match self.subsets.is_empty() {
                true => Union::default(),
                false => Union::of(
                    self.subsets
                        .iter()
                        .map(subset)
                        .collect::<Result<Vec<_>, _>>()?,
                ),
            },
            metadata_only: self.metadata_only,
            depth: self.depth,
            since: self.since,
            shallow: from_wire(shallow).into_iter().collect(),
            ..reach::Filter::default()
        })
    }

    fn is_within_limits(&self) -> bool {
        let bytes: usize = self.subsets.iter().flatten().map(|p| p.len() + 1).sum();
        self.subsets.len() <= MAX_UNION_SUBSETS && bytes <= MAX_UNION_BYTES
    }
}

/// The receiver's first message of a transfer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Want {
    /// The commits wanted, with all that they need.
    #[serde(deserialize_with = "at_most::<_, _, MAX_IDS>")]
    pub tips: Vec<WireId>,
    /// How much of that.
    pub filter: Filter,
    /// What is to be sent without being asked for.
    pub unasked: Unasked,
    /// Commits that the receiver has, with all that they need.
    #[serde(deserialize_with = "at_most::<_, _, MAX_IDS>")]
    pub haves: Vec<WireId>,
    /// Whether the receiver has no more to name.
    pub last: bool,
    /// Commits that the receiver has, and whose parents it does not have by its own choice.
    #[serde(deserialize_with = "at_most::<_, _, MAX_IDS>")]
    pub shallow: Vec<WireId>,
}

/// What a push asks for one ref.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Update {
    /// `branch/NAME` or `tag/NAME`.
    pub key: String,
    /// What it must name now.
    pub old: Option<WireId>,
    /// What it is to name; `None` takes the ref away, for a server that [says](DELETES) it does so.
    pub new: Option<WireId>,
    /// Also where commits would be lost.
    pub force: bool,
}

/// What became of an update.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome {
    /// The ref is as asked.
    Done,
    /// It names something else than was believed.
    Moved,
    /// The new commit does not descend from the one it names.
    NotForward,
    /// No ref can have this name.
    BadName,
    /// Not allowed.
    Refused,
    /// It was to go, and a worktree is on it.
    InUse,
}

/// Why a side ends the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Code {
    /// The other side broke the protocol.
    Protocol,
    /// There is no repository at the place asked for.
    NoRepository,
    /// The repository or the protocol is of another version.
    Version,
    /// The other side may not do that.
    Denied,
    /// The side cannot do what was asked.
    Unsupported,
    /// A commit was wanted that is not offered.
    NotOffered,
    /// What is stored is damaged.
    Damaged,
    /// Another command holds something.
    Busy,
    /// Storage is full.
    Full,
    /// Anything else.
    Failed,
    /// What is needed is not there.
    Absent,
}

/// All that is said.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Message {
    /// Each side, first.
    Hello(Hello),
    /// The server, after its hello.
    Refs(Refs),
    /// The receiver begins a transfer.
    Want(Want),
    /// The receiver names more commits that it has: ids, and whether that was all.
    Have(
        #[serde(deserialize_with = "at_most::<_, _, MAX_IDS>")] Vec<WireId>,
        bool,
    ),
    /// The sender answers a round: which of them it has, too, and whether it begins to send.
    Common(
        #[serde(deserialize_with = "at_most::<_, _, MAX_IDS>")] Vec<WireId>,
        bool,
    ),
    /// The sender has sent what it sends unasked.
    End,
    /// The receiver asks for objects.
    Need(#[serde(deserialize_with = "at_most::<_, _, MAX_IDS>")] Vec<WireObject>),
    /// Some of what was asked for is not here.
    Absent(#[serde(deserialize_with = "at_most::<_, _, MAX_IDS>")] Vec<WireObject>),
    /// The oldest [`Message::Need`] has been answered.
    NeedEnd,
    /// The receiver has all it wanted, verified.
    Complete,
    /// The client wants refs moved.
    Push(#[serde(deserialize_with = "at_most::<_, _, MAX_REFS_IN_MESSAGE>")] Vec<Update>),
    /// What became of each.
    Pushed(#[serde(deserialize_with = "at_most::<_, _, MAX_REFS_IN_MESSAGE>")] Vec<Outcome>),
    /// The client is done.
    Bye,
    /// The side ends the connection.
    Failed(Code, String),
    /// The client wants to give up its copies of these files' contents: does the server have them,
    /// and will it keep them while the connection lasts? And whether that is all.
    Keep(Vec<WireObject>, bool),
    /// The server keeps all of them but these. And whether that is all.
    Unkept(Vec<WireObject>, bool),
    /// The side has nothing to say yet and is at work. Has its place everywhere.
    Working,
    /// The sender will send so many bytes of chunks unasked, at most.
    Total(u64),
}

impl Hello {
    /// Whether the side knows [`Message::Keep`].
    pub fn keeps(&self) -> bool {
        self.value(KEEPS).is_some()
    }

    /// Whether the side knows [`Message::Total`].
    pub fn hears_totals(&self) -> bool {
        self.value(TOTALS).is_some()
    }

    /// Whether the server takes refs away.
    pub fn deletes(&self) -> bool {
        self.value(DELETES).is_some()
    }

    /// What the server holds, if it says so.
    pub fn held(&self) -> Option<Held> {
        Held::decode(self.value(HOLDS)?)
    }

    /// Whether the side takes a little content with metadata.
    pub fn takes_little(&self) -> bool {
        self.value(LITTLE).is_some()
    }

    /// Why the server can only be fetched from, if it says so.
    pub fn read_only(&self) -> Option<ReadOnly> {
        let all = [ReadOnly::Client, ReadOnly::Server, ReadOnly::Repository];
        let value = self.value(READ_ONLY)?;
        all.into_iter().find(|why| value == [*why as u8])
    }

    /// How many milliseconds the side waits for another that says nothing, if it knows
    /// [`Message::Working`].
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
    /// The side knows [`Message::Keep`].
    pub fn keeps() -> Extension {
        Extension::plain(KEEPS)
    }

    /// The side knows [`Message::Total`].
    pub fn hears_totals() -> Extension {
        Extension::plain(TOTALS)
    }

    /// The server takes refs away.
    pub fn deletes() -> Extension {
        Extension::plain(DELETES)
    }

    /// The server holds this.
    pub fn holds(held: &Held) -> Extension {
        Extension {
            tag: HOLDS,
            value: held.encode(),
        }
    }

    /// The side takes a little content with metadata.
    pub fn takes_little() -> Extension {
        Extension::plain(LITTLE)
    }

    /// The server can only be fetched from, for this reason.
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

    /// The side knows [`Message::Working`] and waits so long.
    pub fn works(patience_millis: u32) -> Extension {
        Extension {
            tag: WORKS,
            value: patience_millis.to_le_bytes().to_vec(),
        }
    }
}

impl Message {
    /// The frame that carries it.
    pub fn frame(&self) -> Frame {
        let bytes =
            postcard::to_allocvec(self).expect("messages hold nothing that cannot be encoded");
        Frame::Message(bytes)
    }

    /// Decodes a message and compares its fields with their limits.
    pub fn decode(bytes: &[u8]) -> Result<Message, WireError> {
        if bytes.len() >= MAX_MESSAGE_BYTES {
            return Err(WireError("message is too long"));
        }
        let decoded = postcard::take_from_bytes::<Message>(bytes);
        let (message, rest) = decoded.map_err(|_| WireError("message does not decode"))?;
        if !rest.is_empty() {
            return Err(WireError("message has bytes after its end"));
        }
        match message.is_within_limits() {
            true => Ok(message),
            false => Err(WireError("message exceeds a limit")),
        }
    }

    fn is_within_limits(&self) -> bool {
        let text = |text: &String| text.len() <= MAX_TEXT_BYTES;
        let all_texts =
            |mut texts: std::slice::Iter<'_, (String, WireId)>| texts.all(|(t, _)| text(t));
        match self {
            Message::Hello(hello) => {
                text(&hello.agent)
                    && text(&hello.chunker)
                    && hello.extensions.len() <= MAX_EXTENSIONS
            }
            Message::Refs(refs) => {
                refs.head.as_ref().is_none_or(text)
                    && refs.refs.len() <= MAX_REFS_IN_MESSAGE
                    && all_texts(refs.refs.iter())
            }
            Message::Want(want) => {
                want.tips.len() <= MAX_IDS
                    && want.haves.len() <= MAX_IDS
                    && want.shallow.len() <= MAX_IDS
                    && want.filter.is_within_limits()
            }
            Message::Have(ids, _) | Message::Common(ids, _) => ids.len() <= MAX_IDS,
            Message::Keep(objects, _) | Message::Unkept(objects, _) => objects.len() <= MAX_IDS,
            Message::Need(objects) | Message::Absent(objects) => {
                !objects.is_empty() && objects.len() <= MAX_IDS
            }
            Message::Push(updates) => {
                updates.len() <= MAX_REFS_IN_MESSAGE && updates.iter().all(|u| text(&u.key))
            }
            Message::Pushed(outcomes) => outcomes.len() <= MAX_REFS_IN_MESSAGE,
            Message::Failed(_, why) => text(why),
            Message::End
            | Message::NeedEnd
            | Message::Complete
            | Message::Bye
            | Message::Working
            | Message::Total(_) => true,
        }
    }
}

/// Ids as they travel.
pub fn to_wire(ids: &[ObjectId]) -> Vec<WireId> {
    ids.iter().map(|id| *id.as_bytes()).collect()
}

/// Ids that have travelled.
pub fn from_wire(ids: &[WireId]) -> Vec<ObjectId> {
    ids.iter().map(|id| ObjectId::from_bytes(*id)).collect()
}

/// Objects as they are named on the way.
pub fn to_wire_objects(objects: &[(ObjectType, ObjectId)]) -> Vec<WireObject> {
    let wire = |(ty, id): &(ObjectType, ObjectId)| (*ty as u8, *id.as_bytes());
    objects.iter().map(wire).collect()
}

/// Objects that were named.
pub fn from_wire_objects(objects: &[WireObject]) -> Result<Vec<(ObjectType, ObjectId)>, WireError> {
    let object = |(ty, id): &WireObject| {
        let ty = ObjectType::from_number(*ty).ok_or(WireError("object of an unknown type"))?;
        Ok((ty, ObjectId::from_bytes(*id)))
    };
    objects.iter().map(object).collect()
}
