//! The bytes of the protocol: frames, messages and their limits. docs/protocol.md specifies them.
//!
//! This room knows `dmv-core` and nothing else of this crate. [`sync`](crate::sync),
//! [`session`](crate::session) and the transports use it. It compares each length with its limit
//! before it allocates memory. Lists stop at their limit, because the smallest items take many
//! times their encoded size in memory. A message that decodes is within its limits. Whether it is
//! allowed at that moment is decided by [`sync`](crate::sync) and [`session`](crate::session).

mod hello;
mod lists;

use dmv_core::hash::ObjectId;
use dmv_core::limits::{MAX_SUBSET_BYTES, MAX_UNION_BYTES, MAX_UNION_SUBSETS};
use dmv_core::object::ObjectType;
use dmv_core::object::codec::{Decoder, put_varint};
use dmv_core::reach;
use dmv_core::store::CheckedRecord;
use dmv_core::subset::{Subset, Union};
pub use hello::*;
use lists::at_most;
use serde::{Deserialize, Serialize};

/// The line that each side sends first.
pub const LINE: &str = "dmv-sync 1\n";
/// The protocol version that [`LINE`] names.
pub const VERSION: u32 = 1;
/// The maximum number of bytes that a side reads while it waits for the other side's first line.
pub const MAX_LINE_BYTES: usize = 64;
/// The maximum number of bytes of a frame after its length field. A pack record of the greatest
/// size fits.
pub const MAX_FRAME_BYTES: usize = 4 << 20;
/// The maximum number of bytes of a frame that holds a message, without its length field.
pub const MAX_MESSAGE_BYTES: usize = 1 << 20;
/// The maximum number of ids in one message.
pub const MAX_IDS: usize = 4096;
/// The maximum number of refs, updates or outcomes in one message.
pub const MAX_REFS_IN_MESSAGE: usize = 1024;
/// The maximum number of refs of a repository. A push must not create more.
pub const MAX_REFS: usize = 65_536;
/// The maximum number of bytes of a text in a message.
pub const MAX_TEXT_BYTES: usize = 1024;
/// The maximum number of extensions in a Hello.
pub const MAX_EXTENSIONS: usize = 64;
/// The maximum number of [`Message::Need`] messages that may be open, which means not answered yet.
pub const MAX_NEEDS: usize = 8;
/// The maximum number of rounds of haves in one negotiation.
pub const MAX_ROUNDS: usize = 16;
/// The maximum number of files that may wait for the server's answer to [`Message::Keep`].
pub const MAX_KEEPS: usize = 1 << 20;
/// The maximum number of files whose content has expired in a server.
pub const MAX_EXPIRED: usize = dmv_core::limits::MAX_SLICE_DROPPED;
/// The maximum number of files that a side has purged.
pub const MAX_PURGED: usize = dmv_core::limits::MAX_SLICE_PURGED;
/// The maximum number of lists of claims that a side tells.
pub const MAX_CLAIM_LISTS: usize = dmv_core::claims::MAX_LISTS;
/// The maximum number of bytes of chunks that a sender may send unasked to a receiver that wants
/// metadata.
pub const LITTLE_BYTES: u64 = 128 << 10;
/// The bytes of objects that a sender puts into one frame. Only a single object may be larger.
pub const OBJECTS_TARGET_BYTES: usize = 256 << 10;

/// An id in the form in which messages carry it.
pub type WireId = [u8; 32];
/// The name of an object in a message: the number of its type, and its id.
pub type WireObject = (u8, WireId);

/// An error: bytes that the protocol does not allow. The text says what is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct WireError(pub &'static str);

/// One frame: a message, or objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame {
    /// An encoded [`Message`].
    Message(Vec<u8>),
    /// A pack record, as stored.
    Record(Vec<u8>),
    /// A record that this process has already decoded and hashed. It is sent like
    /// [`Record`](Self::Record); no received bytes decode to it.
    Checked(CheckedRecord),
    /// Objects, one after the other, as [`put_object`] writes them.
    Objects(Vec<u8>),
}

/// The bytes before a frame's body: its length (4) and its kind (1).
pub const FRAME_HEAD_BYTES: usize = 5;

impl Frame {
    /// Returns the frame's head and body.
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

    /// Returns the length of the body that follows `head`. Fails if the kind is unknown, or the
    /// length is zero or too large for the kind.
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

    /// Makes the frame from its head and body. Fails if the kind is unknown.
    pub fn from_parts(head: &[u8; FRAME_HEAD_BYTES], body: Vec<u8>) -> Result<Frame, WireError> {
        match head[4] {
            1 => Ok(Frame::Message(body)),
            2 => Ok(Frame::Record(body)),
            3 => Ok(Frame::Objects(body)),
            _ => Err(WireError("frame of an unknown kind")),
        }
    }

    /// Returns the bytes that the frame has on the wire.
    pub fn wire_len(&self) -> u64 {
        let (head, body) = self.parts();
        (head.len() + body.len()) as u64
    }

    /// Returns about how many bytes the frame takes in memory.
    pub fn size(&self) -> usize {
        match self {
            Frame::Checked(record) => record.size(),
            other => other.wire_len() as usize,
        }
    }
}

/// Appends an object to the body of a [`Frame::Objects`]: u8 type, varint length, bytes.
pub fn put_object(body: &mut Vec<u8>, ty: ObjectType, bytes: &[u8]) {
    body.push(ty as u8);
    put_varint(body, bytes.len() as u64);
    body.extend_from_slice(bytes);
}

/// Reads the objects in the body of a [`Frame::Objects`], one at a time.
///
/// The smallest objects take two bytes in the body and many times that in memory. The iterator ends
/// after the first failure.
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

/// A summary of the slice that a server stores of its commits. The default means everything.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SliceSummary {
    /// The patterns of the subset whose paths are stored. Empty means all paths.
    #[serde(deserialize_with = "at_most::<_, _, MAX_SUBSET_BYTES>")]
    pub subset: Vec<Vec<u8>>,
    /// Whether no chunks are stored.
    pub metadata_only: bool,
    /// The number of commits at which the history of the server's refs ends.
    pub boundary: u32,
    /// The number of files whose content was dropped.
    pub dropped: u32,
}

impl SliceSummary {
    /// Decodes the value of an extension. Returns `None` if it is malformed, has bytes after its
    /// end, or exceeds the limit of the patterns.
    pub fn decode(bytes: &[u8]) -> Option<SliceSummary> {
        let (held, rest) = postcard::take_from_bytes::<SliceSummary>(bytes).ok()?;
        let text: usize = held.subset.iter().map(|pattern| pattern.len() + 1).sum();
        (rest.is_empty() && text <= MAX_SUBSET_BYTES).then_some(held)
    }

    /// Encodes the summary as the value of an extension.
    pub fn encode(&self) -> Vec<u8> {
        postcard::to_allocvec(self).expect("it holds nothing that cannot be encoded")
    }
}

/// The server's refs, or one page of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refs {
    /// The branch that a clone checks out.
    pub head: Option<String>,
    /// Refs as `branch/NAME` or `tag/NAME`, each with its commit.
    #[serde(deserialize_with = "at_most::<_, _, MAX_REFS_IN_MESSAGE>")]
    pub refs: Vec<(String, WireId)>,
    /// Whether another page follows.
    pub more: bool,
}

/// What the sender sends without a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum UnaskedObjects {
    /// Commits only.
    Commits,
    /// Commits, trees, lists and conflicts.
    Metadata,
    /// All of these, and chunks.
    All,
}

impl From<UnaskedObjects> for reach::Detail {
    fn from(unasked: UnaskedObjects) -> reach::Detail {
        match unasked {
            UnaskedObjects::Commits => reach::Detail::Commits,
            UnaskedObjects::Metadata => reach::Detail::Metadata,
            UnaskedObjects::All => reach::Detail::All,
        }
    }
}

/// The part of the tips' objects that a receiver wants. The default is everything.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Filter {
    /// The patterns of one or more subsets whose paths are wanted. Empty means all paths.
    #[serde(deserialize_with = "at_most::<_, _, MAX_UNION_SUBSETS>")]
    pub subsets: Vec<Vec<Vec<u8>>>,
    /// The maximum number of commits on the shortest line from a tip; the tip counts as the first.
    /// 0 means all.
    pub depth: u32,
    /// A time in seconds since 1970. A commit with an earlier time is the last one of its line.
    pub since: Option<i64>,
    /// Whether no chunks are wanted.
    pub metadata_only: bool,
}

impl Filter {
    /// Makes the message form of `filter`. It leaves out the shallow commits, which [`Want`]
    /// carries.
    pub fn of(filter: &reach::Filter) -> Filter {
        let patterns = |subset: &Subset| subset.patterns().map(<[u8]>::to_vec).collect();
        Filter {
            subsets: if filter.paths.is_everything() {
                Vec::new()
            } else {
                filter.paths.parts().iter().map(patterns).collect()
            },
            depth: filter.depth,
            since: filter.since,
            metadata_only: filter.metadata_only,
        }
    }

    /// Makes the filter that a walk uses, with the receiver's shallow commits. Fails if a pattern
    /// is malformed.
    pub fn to_walk(&self, shallow: &[WireId]) -> Result<reach::Filter, WireError> {
        let subset = |patterns: &Vec<Vec<u8>>| {
            let subset = Subset::new(patterns.iter().map(Vec::as_slice));
            subset.map_err(|_| WireError("a filter with patterns that make no sense"))
        };
        Ok(reach::Filter {
            paths: if self.subsets.is_empty() {
                Union::default()
            } else {
                Union::of(
                    self.subsets
                        .iter()
                        .map(subset)
                        .collect::<Result<Vec<_>, _>>()?,
                )
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
    /// The commits that the receiver wants, with everything they need.
    #[serde(deserialize_with = "at_most::<_, _, MAX_IDS>")]
    pub tips: Vec<WireId>,
    /// The part of these objects that the receiver wants.
    pub filter: Filter,
    /// What the sender sends without a request.
    pub unasked: UnaskedObjects,
    /// Commits that are complete at the receiver.
    #[serde(deserialize_with = "at_most::<_, _, MAX_IDS>")]
    pub haves: Vec<WireId>,
    /// Whether the receiver has no more haves.
    pub last: bool,
    /// Commits that the receiver stores without their parents, by its own choice.
    #[serde(deserialize_with = "at_most::<_, _, MAX_IDS>")]
    pub shallow: Vec<WireId>,
}

/// What a push requests for one ref.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Update {
    /// The ref: `branch/NAME` or `tag/NAME`.
    pub key: String,
    /// The commit that the ref must have now; `None`: the ref must not exist.
    pub old: Option<WireId>,
    /// The ref's new commit; `None`: the server deletes the ref. Sent only to a server with the
    /// extension [`DELETES`].
    pub new: Option<WireId>,
    /// Whether a branch may move other than forward, a tag may move, and a deletion may lose
    /// commits.
    pub force: bool,
}

/// The result of an update.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome {
    /// The ref was updated.
    Done,
    /// The ref has another commit than the client expected.
    Moved,
    /// The new commit does not descend from the ref's current commit.
    NotForward,
    /// No ref can have this name.
    BadName,
    /// The update is not allowed.
    Refused,
    /// The ref cannot be deleted: a worktree is on it, or clones of a bare repository start with
    /// it.
    InUse,
    /// The commits change a path that another device holds. Sent only to a client with the extension
    /// [`CLAIMS`].
    Held,
}

/// Why a side ends the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Code {
    /// The other side broke the protocol.
    Protocol,
    /// There is no repository at the requested place.
    NoRepository,
    /// The repository or the protocol has another version.
    Version,
    /// The other side lacks the right to do that.
    Denied,
    /// The side cannot do what the other side requested.
    Unsupported,
    /// The receiver wants a commit that the sender does not offer.
    NotOffered,
    /// Stored objects are damaged.
    Damaged,
    /// Another command holds a lock.
    Busy,
    /// The storage is full.
    Full,
    /// Any other failure.
    Failed,
    /// Objects that the transfer needs are absent.
    Absent,
}

/// Every message of the protocol. docs/protocol.md lists them with their senders.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Message {
    /// The first message of each side.
    Hello(Hello),
    /// The server's refs, after its Hello.
    Refs(Refs),
    /// The receiver begins a transfer.
    Want(Want),
    /// The receiver names more haves: their ids, and whether these are the last.
    Have(
        #[serde(deserialize_with = "at_most::<_, _, MAX_IDS>")] Vec<WireId>,
        bool,
    ),
    /// The sender answers a round of haves: which of them it has, and whether it begins to send.
    Common(
        #[serde(deserialize_with = "at_most::<_, _, MAX_IDS>")] Vec<WireId>,
        bool,
    ),
    /// The sender has sent everything that it sends unasked.
    End,
    /// The receiver requests objects.
    Need(#[serde(deserialize_with = "at_most::<_, _, MAX_IDS>")] Vec<WireObject>),
    /// The sender lacks these of the requested objects.
    Absent(#[serde(deserialize_with = "at_most::<_, _, MAX_IDS>")] Vec<WireObject>),
    /// The sender has answered the oldest open [`Message::Need`].
    NeedEnd,
    /// The receiver has everything that it wanted, and has verified it.
    Complete,
    /// The client requests updates of refs.
    Push(#[serde(deserialize_with = "at_most::<_, _, MAX_REFS_IN_MESSAGE>")] Vec<Update>),
    /// The result of each update, in order.
    Pushed(#[serde(deserialize_with = "at_most::<_, _, MAX_REFS_IN_MESSAGE>")] Vec<Outcome>),
    /// The client ends the session.
    Bye,
    /// The side gives up and ends the connection. The text says why.
    Failed(Code, String),
    /// The client wants to drop its copies of these files' content. It asks whether the server has
    /// the content, and whether it keeps it while the connection lasts. The flag says whether these
    /// are the last.
    Keep(Vec<WireObject>, bool),
    /// The server keeps all of the files except these. The flag says whether these are the last.
    Unkept(Vec<WireObject>, bool),
    /// The side is alive and busy. Allowed in every phase.
    Working,
    /// An upper bound on the bytes of chunks that the sender sends unasked.
    Total(u64),
    /// The client asks which content of the server has expired.
    AskExpired,
    /// Content of the server that has expired. The flag says whether this is the last.
    Expired(ExpiredFiles, bool),
    /// The client asks which content of the server was purged.
    AskPurged,
    /// Content of the server that was purged. The flag says whether this is the last.
    Purged(PurgedFiles, bool),
    /// The client requests that the server purges this content. The flag says whether this is the
    /// last.
    Purge(PurgedFiles, bool),
    /// What became of the request, how much is purged by it and what stays, and a text for people.
    PurgeDone(PurgeOutcome, PurgeSums, String),
    /// The receiver requests objects, and takes no frames with bases in the answer.
    NeedPlain(#[serde(deserialize_with = "at_most::<_, _, MAX_IDS>")] Vec<WireObject>),
    /// Signed lists of claims that the client knows. The flag says whether these are the last.
    TellClaims(
        #[serde(deserialize_with = "at_most::<_, _, MAX_CLAIM_LISTS>")] Vec<Vec<u8>>,
        bool,
    ),
    /// Those that the server knows and that the client has not told. The last message has the end.
    Claims(
        #[serde(deserialize_with = "at_most::<_, _, MAX_CLAIM_LISTS>")] Vec<Vec<u8>>,
        Option<ClaimsEnd>,
    ),
}

/// What holds at a server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClaimsEnd {
    /// The claims that hold there, encoded.
    pub held: Vec<u8>,
    /// Whether it refuses pushes that change what others hold.
    pub enforced: bool,
}

/// Files that one user has purged at one time, for one reason.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PurgedFiles {
    /// When, in seconds since 1970.
    pub at: i64,
    /// Who.
    pub by: String,
    /// The reason.
    pub reason: String,
    /// The content of each file, named by its root.
    #[serde(deserialize_with = "at_most::<_, _, MAX_IDS>")]
    pub files: Vec<WireId>,
    /// How many chunks of them the server still stores and has to remove. 0 in a request.
    pub stored: u64,
}

/// What a purge did in numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PurgeSums {
    /// The files that were not purged before.
    pub files: u64,
    /// The bytes of chunks that stay, because other files also need them.
    pub shared_bytes: u64,
    /// The packs that another repository on the server's file system still has.
    pub linked_packs: u64,
}

/// What became of a request to purge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PurgeOutcome {
    /// No pack has bytes of it any more.
    Done,
    /// It is noted, but packs may still have bytes of it. The text says why.
    Incomplete,
    /// The client may not request it. Nothing was changed.
    Refused,
    /// Another command is freeing space there, or relies on the server's objects. Nothing was
    /// changed.
    Busy,
}

/// Files whose content has expired at one time, by one keep rule.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExpiredFiles {
    /// When, in seconds since 1970.
    pub at: i64,
    /// The rule.
    pub rule: String,
    /// The pattern of the rule.
    pub pattern: String,
    /// The content of each file, named by its root.
    #[serde(deserialize_with = "at_most::<_, _, MAX_IDS>")]
    pub files: Vec<WireId>,
}

impl Message {
    /// Returns the frame that carries the message.
    pub fn frame(&self) -> Frame {
        let bytes =
            postcard::to_allocvec(self).expect("messages hold nothing that cannot be encoded");
        Frame::Message(bytes)
    }

    /// Decodes a message. Fails if the bytes are malformed or do not end with the message, or if a
    /// field exceeds its limit.
    pub fn decode(bytes: &[u8]) -> Result<Message, WireError> {
        if bytes.len() >= MAX_MESSAGE_BYTES {
            return Err(WireError("message is too long"));
        }
        let decoded = postcard::take_from_bytes::<Message>(bytes);
        let (message, rest) = decoded.map_err(|_| WireError("message does not decode"))?;
        if !rest.is_empty() {
            return Err(WireError("message has bytes after its end"));
        }
        if message.is_within_limits() {
            Ok(message)
        } else {
            Err(WireError("message exceeds a limit"))
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
            Message::Need(objects) | Message::Absent(objects) | Message::NeedPlain(objects) => {
                !objects.is_empty() && objects.len() <= MAX_IDS
            }
            Message::Push(updates) => {
                updates.len() <= MAX_REFS_IN_MESSAGE && updates.iter().all(|u| text(&u.key))
            }
            Message::Pushed(outcomes) => outcomes.len() <= MAX_REFS_IN_MESSAGE,
            Message::Failed(_, why) => text(why),
            Message::Expired(expired, _) => {
                text(&expired.rule) && text(&expired.pattern) && expired.files.len() <= MAX_IDS
            }
            Message::Purged(purged, _) | Message::Purge(purged, _) => {
                text(&purged.by) && text(&purged.reason) && purged.files.len() <= MAX_IDS
            }
            Message::PurgeDone(_, _, why) => text(why),
            Message::TellClaims(lists, _) | Message::Claims(lists, _) => {
                lists.len() <= MAX_CLAIM_LISTS
            }
            Message::End
            | Message::AskPurged
            | Message::NeedEnd
            | Message::Complete
            | Message::Bye
            | Message::Working
            | Message::Total(_)
            | Message::AskExpired => true,
        }
    }
}

/// Converts ids to the form in messages.
pub fn to_wire(ids: &[ObjectId]) -> Vec<WireId> {
    ids.iter().map(|id| *id.as_bytes()).collect()
}

/// Converts ids from the form in messages.
pub fn from_wire(ids: &[WireId]) -> Vec<ObjectId> {
    ids.iter().map(|id| ObjectId::from_bytes(*id)).collect()
}

/// Converts types and ids to the form in messages.
pub fn to_wire_objects(objects: &[(ObjectType, ObjectId)]) -> Vec<WireObject> {
    let wire = |(ty, id): &(ObjectType, ObjectId)| (*ty as u8, *id.as_bytes());
    objects.iter().map(wire).collect()
}

/// Converts types and ids from the form in messages. Fails if a type is unknown.
pub fn from_wire_objects(objects: &[WireObject]) -> Result<Vec<(ObjectType, ObjectId)>, WireError> {
    let object = |(ty, id): &WireObject| {
        let ty = ObjectType::from_number(*ty).ok_or(WireError("object of an unknown type"))?;
        Ok((ty, ObjectId::from_bytes(*id)))
    };
    objects.iter().map(object).collect()
}
