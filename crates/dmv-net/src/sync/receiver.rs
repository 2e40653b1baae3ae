//! The receiving half of a transfer. See docs/protocol.md, "Negotiation" to "Requests". `session`
//! drives it; it must not know connections or stores.

use super::haves::Haves;
use super::{Output, SyncError};
use crate::wire::{
    self, LITTLE_BYTES, MAX_IDS, MAX_NEEDS, MAX_ROUNDS, Message, UnaskedObjects, Want,
    from_wire_objects, to_wire, to_wire_objects,
};
use dmv_core::hash::ObjectId;
use dmv_core::job::Bound;
use dmv_core::object::root::Root;
use dmv_core::object::{ObjectError, ObjectRead, ObjectType};
use dmv_core::reach::{Detail, Filter, Reach};
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

/// How many steps a walk makes before the driver gets a chance to stop.
const STEPS: usize = 4096;
/// The number of ids in the first request after a cut transfer. Each further request has twice as
/// many. For few ids the sender sends single objects, so a transfer progresses even on a line that
/// breaks within each frame.
const FIRST_IDS: usize = 2;
/// Bytes of received objects that were stored already, beyond the bytes of new objects. A peer that
/// exceeds this only fills the line.
const MAX_REPEATED_BYTES: u64 = 256 << 20;

/// Bytes that each object counts in addition to its own: even an empty object causes work.
const OBJECT_COST_BYTES: u64 = 64;
/// The number of objects that the sender may lack before the transfer fails.
const MAX_ABSENT: usize = 64 << 10;
/// The number of parked objects at which the walk pauses. These were requested, and the walk has
/// not looked at the objects that they name. The walk remembers each of them.
const MAX_PARKED: usize = 64 << 10;

/// What a receiver wants, and what it has.
#[derive(Clone, Debug, Default)]
pub struct Goal {
    /// The wanted commits.
    pub tips: Vec<ObjectId>,
    /// The commits that are complete here.
    pub complete: Vec<ObjectId>,
    /// Whether the store has no objects.
    pub empty: bool,
    /// The part of the wanted objects that the receiver wants.
    pub filter: Filter,
}

/// Which object names a requested chunk. A sender that has no table of chunks finds it there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clue {
    /// The chunk.
    pub chunk: ObjectId,
    /// Its length in bytes.
    pub len: u64,
    /// The tree, list or conflict that names it.
    pub above: ObjectId,
}

enum Phase {
    /// The receiver names haves.
    Negotiating {
        haves: Haves,
        /// The messages with haves until now.
        rounds: usize,
    },
    /// The receiver stores what arrives unasked.
    Streaming {
        /// The bytes of chunks that came with metadata.
        little_bytes: u64,
        /// Whether chunks have come.
        has_chunks: bool,
    },
    /// The receiver walks through its own store and requests the objects that it lacks.
    Asking(FirstAnswer),
    /// Over.
    Done,
}

/// What the sender still has to answer to the first message before it answers requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FirstAnswer {
    /// Common and End: nothing was negotiated.
    Common,
    /// End.
    End,
    /// Nothing.
    Over,
}

/// A requested object: its type, and how many were requested before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct AskedObject {
    ty: ObjectType,
    number: u64,
}

/// The requests of a transfer.
#[derive(Default)]
struct Requests {
    /// Requested objects that have not arrived.
    asked: HashMap<ObjectId, AskedObject>,
    /// The number of objects that were requested until now.
    count: u64,
    /// The number of open requests.
    open: usize,
    /// The number of ids that the next request may have.
    batch: usize,
    /// Where the chunks of the last request are named; `None`: the answer does not matter.
    clues: Option<Vec<Clue>>,
}

impl Requests {
    /// Notes that an object is requested. Returns whether it was not already.
    fn add(&mut self, ty: ObjectType, id: ObjectId) -> bool {
        let number = self.count;
        self.count += 1;
        self.asked.insert(id, AskedObject { ty, number }).is_none()
    }

    /// Takes a requested object off. Returns whether it was requested.
    fn remove(&mut self, ty: ObjectType, id: &ObjectId) -> bool {
        self.asked.remove(id).map(|asked| asked.ty) == Some(ty)
    }
}

/// Whether frames with bases may come, and whether they are of use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum BasesUse {
    /// The sender does not know [`Message::NeedPlain`], and may send none.
    #[default]
    Forbidden,
    /// This side probably lacks their bases, so it requests none.
    Unwanted,
    /// This side probably has their bases, and the sender had some when the session began. No request was
    /// answered yet.
    Untried,
    /// This side probably has their bases.
    Wanted,
}

/// What is known of the frames with bases in a transfer.
#[derive(Default)]
struct BasedFrames {
    usage: BasesUse,
    /// The number of objects in those that were decoded.
    decoded: u64,
    /// The number of objects in those that lacked a base.
    lacked: u64,
    /// How many of these the open requests may have named.
    undecoded: usize,
    /// Objects to be requested once more, without such frames, while such requests are to be sent or are
    /// open. Nothing else is requested meanwhile.
    again: Option<VecDeque<(ObjectType, ObjectId)>>,
}

impl BasedFrames {
    /// Returns how many requests may be open: the first answer tells whether its frames are of use here.
    fn most_needs(&self) -> usize {
        match self.usage {
            BasesUse::Untried => 1,
            BasesUse::Forbidden | BasesUse::Unwanted | BasesUse::Wanted => MAX_NEEDS,
        }
    }

    /// Returns whether requests do without them.
    fn are_useless(&self) -> bool {
        match self.usage {
            BasesUse::Forbidden => false,
            BasesUse::Unwanted => true,
            BasesUse::Untried | BasesUse::Wanted => self.lacked > self.decoded,
        }
    }

    /// Returns whether requests may be answered with them.
    fn are_wanted(&self) -> bool {
        matches!(self.usage, BasesUse::Untried | BasesUse::Wanted)
    }
}

/// The bytes of received objects.
#[derive(Default)]
struct ReceivedBytes {
    new: u64,
    /// Those of objects that were stored already.
    repeated: u64,
}

/// The receiving half of a transfer.
pub struct Receiver {
    phase: Phase,
    goal: Goal,
    unasked: UnaskedObjects,
    reach: Reach,
    requests: Requests,
    /// Frames with bases that have come.
    bases: BasedFrames,
    /// The requested objects that the sender lacks.
    absent: BTreeMap<ObjectId, ObjectType>,
    /// Whether objects were requested by id. Absent objects are then left to other peers.
    picks: bool,
    /// The number of objects that were admitted since the walk last looked at all that had arrived.
    admitted: u64,
    received: ReceivedBytes,
    /// The bytes of chunks that are known to be still to come, and how exact that is, if it is known.
    ahead: Option<(u64, Bound)>,
    out: VecDeque<Output>,
    /// How often the receiver waited for an answer while nothing else was in transit.
    round_trips: u64,
}

impl Receiver {
    /// Begins a transfer. The first output is the message Want.
    pub fn new(goal: Goal, objects: &dyn ObjectRead) -> Result<Receiver, SyncError> {
        let mut holds_tip = false;
        for tip in &goal.tips {
            holds_tip |= objects.holds(ObjectType::Commit, tip)?;
        }
        // After a cut transfer, the objects that have arrived must not come again, so they are not
        // sent unasked. Commits are sent: they are small, and requests for them would cost a round
        // trip for each generation.
        let unasked = match (goal.complete.is_empty(), goal.empty) {
            (true, true) => UnaskedObjects::All,
            (true, false) => UnaskedObjects::Commits,
            (false, _) if holds_tip => UnaskedObjects::Commits,
            (false, _) => UnaskedObjects::Metadata,
        };
        let mut haves = Haves::new(&goal.complete, &goal.filter.shallow);
        let (ids, last) = haves.round(objects)?;
        let want = Want {
            tips: to_wire(&goal.tips),
            filter: wire::Filter::of(&goal.filter),
            unasked,
            haves: to_wire(&ids),
            last,
            // A commit that is left out only costs time: the sender then assumes that more is known
            // here.
            shallow: goal
                .filter
                .shallow
                .iter()
                .take(MAX_IDS)
                .map(|id| *id.as_bytes())
                .collect(),
        };
        let (tips, hidden) = (goal.tips.clone(), goal.complete.clone());
        let reach = Reach::filtered(tips, hidden, Detail::All, goal.filter.clone());
        Ok(Receiver {
            phase: Phase::Negotiating { haves, rounds: 1 },
            goal,
            unasked,
            reach,
            requests: Requests {
                batch: match unasked {
                    UnaskedObjects::Commits => FIRST_IDS,
                    UnaskedObjects::Metadata | UnaskedObjects::All => MAX_IDS,
                },
                ..Requests::default()
            },
            bases: BasedFrames::default(),
            absent: BTreeMap::new(),
            picks: false,
            admitted: 0,
            received: ReceivedBytes::default(),
            ahead: None,
            out: VecDeque::from([Output::Send(Message::Want(want))]),
            round_trips: 1,
        })
    }

    /// Begins a transfer of the objects under `roots`. Objects that the sender lacks are no
    /// failure: see [`absent`](Self::absent).
    ///
    /// No commit is wanted, so nothing comes unasked, and the first requests need not wait.
    pub fn picking(
        roots: impl IntoIterator<Item = Root>,
        objects: &dyn ObjectRead,
    ) -> Result<Receiver, SyncError> {
        let nothing = Receiver::new(Goal::default(), objects)?;
        Ok(Receiver {
            phase: Phase::Asking(FirstAnswer::Common),
            reach: Reach::under(roots),
            requests: Requests {
                batch: MAX_IDS,
                ..Requests::default()
            },
            picks: true,
            round_trips: 0,
            ..nothing
        })
    }

    /// Sets whether the sender may send frames with bases, so that it knows [`Message::NeedPlain`], and whether
    /// it has any now.
    ///
    /// This side requests none if it wants a part of the commits or certain files: it then probably lacks
    /// the bases.
    pub fn expecting_bases(mut self, may_come: bool, has_some: bool) -> Receiver {
        let filter = &self.goal.filter;
        let is_part = filter.depth > 0 || filter.since.is_some() || filter.metadata_only;
        let is_part = is_part || !filter.paths.is_everything() || self.picks;
        self.bases.usage = match (may_come, is_part, has_some) {
            (false, ..) => BasesUse::Forbidden,
            (true, true, _) => BasesUse::Unwanted,
            // A `repack` there may make some at any time.
            (true, false, false) => BasesUse::Wanted,
            (true, false, true) => BasesUse::Untried,
        };
        self
    }

    /// Also notes [`clues`](Self::take_clues) from now on.
    pub fn with_clues(mut self) -> Receiver {
        self.requests.clues = Some(Vec::new());
        self
    }

    /// Returns what names the chunks that were requested since the last call.
    pub fn take_clues(&mut self) -> Vec<Clue> {
        let clues = self.requests.clues.as_mut();
        clues.map(std::mem::take).unwrap_or_default()
    }

    /// Returns the requested objects that the sender lacks.
    pub fn absent(&self) -> impl Iterator<Item = (ObjectType, ObjectId)> {
        self.absent.iter().map(|(id, ty)| (*ty, *id))
    }

    /// Returns how often the receiver waited for an answer while nothing else was in transit.
    pub fn round_trips(&self) -> u64 {
        self.round_trips
    }

    /// Handles a message from the sender. Fails if the message is not allowed now.
    pub fn handle(&mut self, message: Message, objects: &dyn ObjectRead) -> Result<(), SyncError> {
        match (&mut self.phase, message) {
            (Phase::Negotiating { .. }, Message::Common(_, true)) => {
                self.phase = Phase::Streaming {
                    little_bytes: 0,
                    has_chunks: false,
                };
            }
            (Phase::Negotiating { haves, rounds }, Message::Common(_, false)) => {
                if *rounds >= MAX_ROUNDS {
                    return Err(SyncError::Broken("negotiation does not end"));
                }
                *rounds += 1;
                self.round_trips += 1;
                let (ids, last) = haves.round(objects)?;
                let last = last || *rounds == MAX_ROUNDS;
                let have = Message::Have(to_wire(&ids), last);
                self.out.push_back(Output::Send(have));
            }
            (Phase::Streaming { has_chunks, .. }, Message::Total(bytes))
                if self.unasked == UnaskedObjects::All && self.ahead.is_none() && !*has_chunks =>
            {
                self.ahead = Some((bytes, Bound::AtMost));
            }
            (Phase::Streaming { .. }, Message::End) => {
                self.ahead = None;
                self.out.push_back(Output::Keep);
                self.phase = Phase::Asking(FirstAnswer::Over);
            }
            (Phase::Asking(first_answer @ FirstAnswer::Common), Message::Common(_, true)) => {
                *first_answer = FirstAnswer::End;
            }
            (Phase::Asking(first_answer @ FirstAnswer::End), Message::End) => {
                *first_answer = FirstAnswer::Over
            }
            (Phase::Asking(_), Message::Absent(gone)) => {
                for (ty, id) in from_wire_objects(&gone)? {
                    if !self.requests.remove(ty, &id) {
                        return Err(SyncError::Broken("absence of what was not asked for"));
                    }
                    self.absent.insert(id, ty);
                }
                if !self.picks && self.absent.len() > MAX_ABSENT {
                    return self.lacking();
                }
            }
            (Phase::Asking(FirstAnswer::Over), Message::NeedEnd) if self.requests.open > 0 => {
                self.requests.open -= 1;
                if self.bases.usage == BasesUse::Untried {
                    self.bases.usage = BasesUse::Wanted;
                }
                if self.requests.open == 0 {
                    self.all_answered()?;
                }
            }
            _ => return Err(SyncError::Broken("a message that does not belong here")),
        }
        Ok(())
    }

    /// Handles the last answer of all open requests. What is missing may have been in frames with bases that
    /// could not be decoded: it is requested once more.
    fn all_answered(&mut self) -> Result<(), SyncError> {
        let missing = self.requests.asked.len();
        let undecoded = std::mem::take(&mut self.bases.undecoded);
        let again = self.bases.again.take();
        if missing > undecoded || again.is_some() && missing > 0 {
            return Err(SyncError::Broken("an answer lacks what was asked for"));
        }
        let mut missing: Vec<_> = self.requests.asked.drain().collect();
        // In the order of the walk: it is that of the sender's packs, more or less.
        missing.sort_unstable_by_key(|(_, asked)| asked.number);
        let mut again = again.unwrap_or_default();
        again.extend(missing.into_iter().map(|(id, asked)| (asked.ty, id)));
        self.bases.again = (!again.is_empty()).then_some(again);
        Ok(())
    }

    /// Notes a frame with bases that was decoded, after its objects were admitted.
    pub fn decoded_with_bases(&mut self, objects: u64) {
        self.bases.decoded += objects;
    }

    /// Notes a frame with bases that cannot be decoded, as a base is not here. Fails if such a frame may not
    /// come now, or if too many came. `bytes` is its length as it came.
    pub fn lacks_base(&mut self, objects: u64, bytes: u64) -> Result<(), SyncError> {
        let bases = &mut self.bases;
        let welcome = match &mut self.phase {
            Phase::Streaming { little_bytes, .. } => match self.unasked {
                UnaskedObjects::Commits => false,
                UnaskedObjects::Metadata => is_little(little_bytes, bytes),
                UnaskedObjects::All => true,
            },
            Phase::Asking(_) => {
                bases.undecoded += objects as usize;
                self.requests.open > 0 && bases.are_wanted() && bases.again.is_none()
            }
            Phase::Negotiating { .. } | Phase::Done => false,
        };
        if !welcome || bases.usage == BasesUse::Forbidden {
            return Err(SyncError::Broken("a frame with bases that are not here"));
        }
        bases.lacked += objects;
        self.noted(objects, bytes, false)
    }

    /// Admits an object that has arrived and matches its id. Fails if the object was neither
    /// requested nor covered by `unasked`. `len` is its length in bytes.
    pub fn admit(&mut self, ty: ObjectType, id: &ObjectId, len: u64) -> Result<(), SyncError> {
        let is_chunk = ty == ObjectType::Chunk;
        let welcome = match &mut self.phase {
            Phase::Streaming {
                little_bytes,
                has_chunks,
            } => {
                *has_chunks |= is_chunk;
                match self.unasked {
                    UnaskedObjects::Commits => ty == ObjectType::Commit,
                    UnaskedObjects::Metadata => !is_chunk || is_little(little_bytes, len),
                    UnaskedObjects::All => true,
                }
            }
            Phase::Asking(FirstAnswer::Over) => self.requests.remove(ty, id),
            Phase::Asking(_) | Phase::Negotiating { .. } | Phase::Done => false,
        };
        if !welcome {
            return Err(SyncError::Broken("an object that was not asked for"));
        }
        self.admitted += 1;
        if let (true, Some((ahead, _))) = (is_chunk, &mut self.ahead) {
            *ahead = ahead.saturating_sub(len);
        }
        Ok(())
    }

    /// Counts admitted objects and their bytes, and whether they were new here. Fails if the peer
    /// repeats too much.
    pub fn noted(&mut self, objects: u64, bytes: u64, new: bool) -> Result<(), SyncError> {
        let bytes = bytes + objects * OBJECT_COST_BYTES;
        let received = &mut self.received;
        if new {
            received.new += bytes
        } else {
            received.repeated += bytes
        }
        if received.repeated > received.new + MAX_REPEATED_BYTES {
            Err(SyncError::Broken("the same objects over and over"))
        } else {
            Ok(())
        }
    }

    /// Returns the bytes of chunks still to come, and how exact this is; `None` if it is unknown.
    pub fn ahead(&self) -> Option<(u64, Bound)> {
        self.ahead
    }

    /// Returns the next action; `None`: wait for the sender.
    pub fn poll(&mut self, objects: &dyn ObjectRead) -> Result<Option<Output>, SyncError> {
        if let Some(output) = self.out.pop_front() {
            return Ok(Some(output));
        }
        let Phase::Asking(first_answer) = self.phase else {
            return Ok(None);
        };
        if self.requests.open >= self.bases.most_needs() {
            return Ok(None);
        }
        if let Some(again) = &mut self.bases.again {
            let objects: Vec<_> = again.drain(..again.len().min(MAX_IDS)).collect();
            return Ok(self.ask_again(&objects));
        }
        // The walk pauses until it knows what the parked objects lead to. Picked objects have no
        // such limit: any number may be absent, but the commits that they belong to are stored here
        // and bound it.
        let mut is_over = !self.picks && self.reach.parked() >= MAX_PARKED;
        let mut ahead = self.ahead.map_or(0, |(bytes, _)| bytes);
        let mut need = Vec::new();
        for _ in 0..if is_over { 0 } else { STEPS } {
            match self.reach.next(objects).map_err(|e| unfit(e, objects))? {
                None => {
                    is_over = true;
                    break;
                }
                Some(found) if found.here || self.absent.contains_key(&found.id) => {}
                Some(found) => {
                    if self.requests.add(found.ty, found.id) {
                        ahead = ahead.saturating_add(found.len);
                        need.push((found.ty, found.id));
                        let clues = &mut self.requests.clues;
                        if let (Some(clues), Some(above)) = (clues, found.above) {
                            let (chunk, len) = (found.id, found.len);
                            clues.push(Clue { chunk, len, above });
                        }
                    }
                    if need.len() >= self.requests.batch {
                        break;
                    }
                }
            }
        }
        // Parked objects may lead to more objects.
        let is_all = is_over && self.reach.parked() == 0;
        let bound = if is_all { Bound::Exact } else { Bound::AtLeast };
        self.ahead = Some((ahead, bound));
        if !need.is_empty() {
            self.requests.batch = (self.requests.batch * 2).min(MAX_IDS);
            let is_plain = self.bases.are_useless();
            return Ok(Some(self.request(&need, is_plain)));
        }
        if !is_over {
            return Ok(Some(Output::Working));
        }
        if self.requests.open > 0 || first_answer != FirstAnswer::Over {
            return Ok(None);
        }
        if !self.picks {
            self.lacking()?;
        }
        // A picked object that has not arrived leads nowhere. So the parked objects are visited
        // again only if some arrived.
        let came = std::mem::take(&mut self.admitted) > 0;
        if (came || !self.picks) && self.reach.retry() {
            return Ok(Some(Output::Keep));
        }
        self.phase = Phase::Done;
        self.out.push_back(Output::Done);
        Ok(Some(Output::Send(Message::Complete)))
    }

    fn request(&mut self, objects: &[(ObjectType, ObjectId)], is_plain: bool) -> Output {
        if self.requests.open == 0 {
            self.round_trips += 1;
        }
        self.requests.open += 1;
        let objects = to_wire_objects(objects);
        Output::Send(if is_plain {
            Message::NeedPlain(objects)
        } else {
            Message::Need(objects)
        })
    }

    /// Requests objects once more, without frames with bases.
    fn ask_again(&mut self, objects: &[(ObjectType, ObjectId)]) -> Option<Output> {
        for (ty, id) in objects {
            self.requests.add(*ty, *id);
        }
        (!objects.is_empty()).then(|| self.request(objects, true))
    }

    /// Returns where the filter ends history: see [`Reach::boundary`]. This side's own walk finds
    /// it, whatever the sender says.
    pub fn boundary(&self) -> BTreeSet<ObjectId> {
        self.reach.boundary()
    }

    /// Returns the unwanted files that the commits need: see [`Reach::left_out`].
    pub fn left_out(&self) -> BTreeSet<ObjectId> {
        self.reach.left_out().keys().copied().collect()
    }

    /// Returns where history went on: see [`Reach::passed`].
    pub fn passed(&self) -> &BTreeSet<ObjectId> {
        self.reach.passed()
    }

    /// Fails if the sender lacks any object.
    fn lacking(&self) -> Result<(), SyncError> {
        let Some((id, ty)) = self.absent.first_key_value() else {
            return Ok(());
        };
        let (ty, id, count) = (*ty, *id, self.absent.len());
        Err(SyncError::Absent { id, ty, count })
    }

    /// Returns the wanted commits.
    pub fn tips(&self) -> &[ObjectId] {
        &self.goal.tips
    }
}

/// Counts the bytes of a chunk that came with metadata. Returns whether all of these are within the limit.
fn is_little(little_bytes: &mut u64, len: u64) -> bool {
    *little_bytes += len;
    *little_bytes <= LITTLE_BYTES
}

/// Finds the cause of objects that contradict each other. Each object was checked when it arrived:
/// if it can be read, its sender made it so. If it cannot be read, this side's store is damaged.
fn unfit(e: ObjectError, objects: &dyn ObjectRead) -> SyncError {
    match e {
        ObjectError::Damaged { id, ty, .. } => match objects.read(ty, &id) {
            Ok(_) => SyncError::Unfit(e),
            Err(ours) => SyncError::Object(ours),
        },
        e => SyncError::Object(e),
    }
}
