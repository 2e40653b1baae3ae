//! The sending half of a transfer. See docs/protocol.md, "Negotiation" to "Requests". `session`
//! drives it; it must not know connections or stores.

use super::{Output, SyncError};
use crate::wire::{
    LITTLE_BYTES, MAX_NEEDS, MAX_ROUNDS, Message, UnaskedObjects, WireId, WireObject, from_wire,
    from_wire_objects, to_wire, to_wire_objects,
};
use dmv_core::hash::ObjectId;
use dmv_core::object::{ObjectRead, ObjectType};
use dmv_core::reach::{Detail, Filter, Reach};
use std::collections::{BTreeSet, VecDeque};

/// The maximum number of objects that the driver gets at once.
const PORTION: usize = 1024;

enum Phase {
    /// No message has arrived.
    Waiting,
    /// The receiver names haves.
    Negotiating {
        common: BTreeSet<ObjectId>,
        rounds: usize,
    },
    /// The sender sends what the receiver did not request.
    Streaming(Box<UnaskedWalks>),
    /// The sender answers requests.
    Answering,
    /// Over.
    Done,
}

/// The walks to what the receiver did not request: first to metadata, then to chunks.
struct UnaskedWalks {
    /// The walk that is under way; `None`: it has ended.
    walk: Option<Reach>,
    /// The walk to chunks. `None`: it has begun, or no chunks are sent unasked.
    chunks: Option<Reach>,
    /// Whether the walk to chunks has begun.
    is_at_chunks: bool,
    /// The bytes of chunks that may still be sent unasked.
    room: u64,
}

/// How many absent objects a sender notes for the message about them.
const MAX_UNMET: usize = 64;

const OUT_OF_PLACE: SyncError = SyncError::Broken("a message that does not belong here");

/// Objects that the receiver requests.
struct Request {
    objects: Vec<(ObjectType, ObjectId)>,
    /// Whether it takes no frames with bases.
    is_plain: bool,
}

/// The sending half of a transfer.
pub struct Sender {
    phase: Phase,
    offered: BTreeSet<ObjectId>,
    tips: Vec<ObjectId>,
    unasked: UnaskedObjects,
    filter: Filter,
    /// Whether the receiver knows [`Message::Total`].
    says_total: bool,
    /// Whether the receiver accepts small content with metadata.
    gives_little: bool,
    needs: VecDeque<Request>,
    out: VecDeque<Output>,
    /// The first objects that the receiver needs and that are absent here.
    unmet: Vec<(ObjectType, ObjectId)>,
    turns: u64,
}

impl Sender {
    /// Returns objects that the receiver needs and that are absent here: the first of them.
    pub fn unmet(&self) -> &[(ObjectType, ObjectId)] {
        &self.unmet
    }

    /// Makes a sender that may send what the `offered` commits need.
    pub fn new(offered: impl IntoIterator<Item = ObjectId>) -> Sender {
        Sender {
            phase: Phase::Waiting,
            offered: offered.into_iter().collect(),
            tips: Vec::new(),
            unasked: UnaskedObjects::Commits,
            filter: Filter::default(),
            says_total: false,
            gives_little: false,
            needs: VecDeque::new(),
            out: VecDeque::new(),
            unmet: Vec::new(),
            turns: 0,
        }
    }

    /// Sets whether the receiver knows [`Message::Total`].
    pub fn saying_total(mut self, is_known: bool) -> Sender {
        self.says_total = is_known;
        self
    }

    /// Sets whether the receiver accepts small content with metadata.
    pub fn giving_little(mut self, is_taken: bool) -> Sender {
        self.gives_little = is_taken;
        self
    }

    /// Returns how often the sender had to wait for the receiver.
    pub fn round_trips(&self) -> u64 {
        self.turns
    }

    /// Handles a message from the receiver. Fails if the message is not allowed now, or if a wanted
    /// commit is not offered.
    pub fn handle(&mut self, message: Message, objects: &dyn ObjectRead) -> Result<(), SyncError> {
        match (&self.phase, message) {
            // A receiver that wants no commits may send requests at once.
            (Phase::Streaming(_) | Phase::Answering, Message::Need(objects)) => {
                self.request(&objects, false)?;
            }
            (Phase::Streaming(_) | Phase::Answering, Message::NeedPlain(objects)) => {
                self.request(&objects, true)?;
            }
            (Phase::Waiting, Message::Want(want)) => {
                self.filter = want.filter.to_walk(&want.shallow)?;
                self.tips = from_wire(&want.tips);
                if let Some(tip) = self.tips.iter().find(|tip| !self.offered.contains(tip)) {
                    return Err(SyncError::NotOffered(*tip));
                }
                self.unasked = want.unasked;
                self.phase = Phase::Negotiating {
                    common: BTreeSet::new(),
                    rounds: 0,
                };
                self.have(&want.haves, want.last, objects)?;
            }
            (_, Message::Have(haves, last)) => self.have(&haves, last, objects)?,
            (Phase::Answering, Message::Complete) if self.needs.is_empty() => {
                self.phase = Phase::Done;
                self.out.push_back(Output::Done);
            }
            _ => return Err(OUT_OF_PLACE),
        }
        Ok(())
    }

    fn request(&mut self, objects: &[WireObject], is_plain: bool) -> Result<(), SyncError> {
        if self.needs.len() >= MAX_NEEDS {
            return Err(SyncError::Broken("too many requests at once"));
        }
        let objects = from_wire_objects(objects)?;
        self.needs.push_back(Request { objects, is_plain });
        Ok(())
    }

    fn have(
        &mut self,
        haves: &[WireId],
        last: bool,
        objects: &dyn ObjectRead,
    ) -> Result<(), SyncError> {
        let Phase::Negotiating { common, rounds } = &mut self.phase else {
            return Err(OUT_OF_PLACE);
        };
        *rounds += 1;
        if *rounds > MAX_ROUNDS {
            return Err(SyncError::Broken("negotiation does not end"));
        }
        let mut found = Vec::new();
        for id in from_wire(haves) {
            if objects.holds(ObjectType::Commit, &id)? {
                found.push(id);
            }
        }
        common.extend(&found);
        let begin = last || !common.is_empty();
        let message = Message::Common(to_wire(&found), begin);
        self.out.push_back(Output::Send(message));
        if begin {
            let common = std::mem::take(common);
            self.phase = Phase::Streaming(Box::new(self.unasked_walks(&common)));
        } else {
            self.turns += 1;
        }
        Ok(())
    }

    /// Returns the walks from the wanted commits to those that the receiver has.
    fn unasked_walks(&self, common: &BTreeSet<ObjectId>) -> UnaskedWalks {
        let walk = |detail| {
            let (tips, common) = (self.tips.iter().copied(), common.iter().copied());
            Reach::filtered(tips, common, detail, self.filter.clone()).skipping_moved()
        };
        let detail = Detail::from(self.unasked);
        let metadata_only = self.filter.metadata_only;
        // Chunks come last: a receiver that has the trees can write files while their content
        // arrives.
        let metadata = walk(detail.min(Detail::Metadata));
        let may_give = detail == Detail::Metadata && self.gives_little;
        let gives_chunks = (detail == Detail::All || may_give) && !metadata_only;
        // The driver looks for each chunk that it sends. It must not count one that is absent here,
        // where the number of bytes is limited.
        let chunk_walk = || {
            if may_give {
                walk(Detail::All)
            } else {
                walk(Detail::All).skipping_chunks()
            }
        };
        UnaskedWalks {
            walk: Some(if metadata_only {
                metadata
            } else {
                metadata.counting()
            }),
            chunks: gives_chunks.then(chunk_walk),
            is_at_chunks: false,
            room: if may_give { LITTLE_BYTES } else { u64::MAX },
        }
    }

    /// Returns the next action; `None`: wait for the receiver.
    pub fn poll(&mut self, objects: &dyn ObjectRead) -> Result<Option<Output>, SyncError> {
        if let Some(output) = self.out.pop_front() {
            return Ok(Some(output));
        }
        match &self.phase {
            Phase::Streaming(_) => self.stream(objects),
            Phase::Answering => self.answer(objects),
            Phase::Waiting | Phase::Negotiating { .. } | Phase::Done => Ok(None),
        }
    }

    fn stream(&mut self, objects: &dyn ObjectRead) -> Result<Option<Output>, SyncError> {
        let Phase::Streaming(walks) = &mut self.phase else {
            return Ok(None);
        };
        let Some(walk) = &mut walks.walk else {
            walks.walk = walks.chunks.take();
            if walks.walk.is_some() {
                walks.is_at_chunks = true;
            } else {
                self.phase = Phase::Answering;
                self.turns += 1;
                self.out.push_back(Output::Send(Message::End));
            }
            return Ok(Some(Output::Flush));
        };
        let mut portion = Vec::new();
        for _ in 0..PORTION {
            let Some(found) = walk.next(objects)? else {
                let content = walk.content();
                walks.walk = None;
                self.foretell(content);
                break;
            };
            // The receiver requests objects that are absent here, and the answer reports them
            // as absent.
            let is_chunk = found.ty == ObjectType::Chunk;
            if !found.here || walks.is_at_chunks != is_chunk {
                continue;
            }
            if is_chunk {
                match walks.room.checked_sub(found.len) {
                    Some(room) => walks.room = room,
                    // The sum was too low. The receiver requests this chunk.
                    None => continue,
                }
            }
            portion.push((found.ty, found.id));
        }
        Ok(Some(Output::Objects(portion)))
    }

    /// Announces how many bytes of chunks are ahead, after the walk that has counted them. Cancels
    /// the chunks if they are too large to come with metadata.
    fn foretell(&mut self, content: u64) {
        let Phase::Streaming(walks) = &mut self.phase else {
            return;
        };
        if walks.is_at_chunks {
            return;
        }
        if self.unasked == UnaskedObjects::Metadata && content > walks.room {
            walks.chunks = None;
        }
        if content == 0 {
            return;
        }
        self.out.push_back(Output::Ahead(content));
        if self.says_total && self.unasked == UnaskedObjects::All {
            self.out.push_back(Output::Send(Message::Total(content)));
        }
    }

    fn answer(&mut self, objects: &dyn ObjectRead) -> Result<Option<Output>, SyncError> {
        let Some(need) = self.needs.pop_front() else {
            return Ok(None);
        };
        let (mut here, mut absent) = (Vec::new(), Vec::new());
        let held = objects.holds_all(&need.objects)?;
        for (object, is_here) in need.objects.into_iter().zip(held) {
            if is_here {
                here.push(object)
            } else {
                absent.push(object)
            }
        }
        self.out.push_back(if need.is_plain {
            Output::PlainObjects(here)
        } else {
            Output::Objects(here)
        });
        self.out.push_back(Output::Flush);
        if !absent.is_empty() {
            let room = MAX_UNMET.saturating_sub(self.unmet.len());
            self.unmet.extend(absent.iter().take(room));
            let absent = Message::Absent(to_wire_objects(&absent));
            self.out.push_back(Output::Send(absent));
        }
        self.out.push_back(Output::Send(Message::NeedEnd));
        if self.needs.is_empty() {
            self.turns += 1;
        }
        Ok(self.out.pop_front())
    }
}
