//! The side that takes objects in.

use super::haves::Haves;
use super::{Output, SyncError};
use crate::wire::{
    self, LITTLE_BYTES, MAX_IDS, MAX_NEEDS, MAX_ROUNDS, Message, Unasked, Want, from_wire_objects,
    to_wire, to_wire_objects,
};
use dmv_core::hash::ObjectId;
use dmv_core::job::Bound;
use dmv_core::object::root::Root;
use dmv_core::object::{ObjectError, ObjectRead, ObjectType};
use dmv_core::reach::{Detail, Filter, Reach};
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

/// Steps of a walk between two chances to stop.
const STEPS: usize = 4096;
/// Ids in the first request after a cut; each further one has twice as many. Few ids make the
/// sender send single objects, so that also a line that is cut within every frame gets on.
const FIRST_IDS: usize = 2;
/// Bytes of objects that came though they were here, beyond as many that were new. A peer that
/// passes this only fills the line.
const MAX_REPEATED_BYTES: u64 = 256 << 20;

/// What an object counts for besides its bytes: an empty one has to be looked at, too.
const OBJECT_COST_BYTES: u64 = 64;
/// Objects that the sender may lack before it is given up.
const MAX_ABSENT: usize = 64 << 10;
/// Objects that came, or did not, between two looks at what they lead to. Each is remembered.
const MAX_PARKED: usize = 64 << 10;

/// What a receiver is after.
#[derive(Clone, Debug, Default)]
pub struct Goal {
    /// The commits wanted.
    pub tips: Vec<ObjectId>,
    /// Commits that are here with everything they need.
    pub complete: Vec<ObjectId>,
    /// Whether the store holds nothing at all.
    pub empty: bool,
    /// The part of it all that is wanted.
    pub filter: Filter,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Naming haves.
    Negotiating,
    /// Taking what comes unasked.
    Streaming,
    /// Looking at what is here and asking for the rest.
    Asking,
    /// Over.
    Done,
}

/// The receiving half of a transfer.
pub struct Receiver {
    phase: Phase,
    goal: Goal,
    unasked: Unasked,
    haves: Haves,
    rounds: usize,
    reach: Reach,
    /// What was asked for and has not come.
    asked: HashMap<ObjectId, ObjectType>,
    /// How many messages with it have not been answered.
    open_needs: usize,
    /// Ids that the next one may hold.
    batch: usize,
    /// What the sender does not have of what was asked for.
    absent: BTreeMap<ObjectId, ObjectType>,
    /// The objects were named by their ids, and what the sender lacks is left to others.
    picks: bool,
    /// Answers to the message that begins which have not come.
    openings: usize,
    /// Objects admitted since everything that had come was looked at.
    admitted: u64,
    new_bytes: u64,
    repeated_bytes: u64,
    /// Bytes of chunks that are known to come.
    ahead: u64,
    /// How far that is known; `None`: not at all.
    bound: Option<Bound>,
    /// Bytes of chunks that came with metadata.
    little: u64,
    /// Whether chunks have come unasked.
    has_chunks: bool,
    out: VecDeque<Output>,
    /// Times that an answer had to be waited for with nothing else under way.
    round_trips: u64,
}

impl Receiver {
    /// Begins a transfer: the first output is the message to send.
    pub fn new(goal: Goal, objects: &dyn ObjectRead) -> Result<Receiver, SyncError> {
        let mut holds_tip = false;
        for tip in &goal.tips {
            holds_tip |= objects.holds(ObjectType::Commit, tip)?;
        }
        // What was received before a cut need not come again, so it is not sent unasked. Commits
        // are small, and without them each would cost a round trip.
        let unasked = match (goal.complete.is_empty(), goal.empty) {
            (true, true) => Unasked::All,
            (true, false) => Unasked::Commits,
            (false, _) if holds_tip => Unasked::Commits,
            (false, _) => Unasked::Metadata,
        };
        let mut haves = Haves::new(&goal.complete, &goal.filter.shallow);
        let (ids, last) = haves.round(objects)?;
        let want = Want {
            tips: to_wire(&goal.tips),
            filter: wire::Filter::of(&goal.filter),
            unasked,
            haves: to_wire(&ids),
            last,
            // What is not said costs time: the sender takes more for known than is.
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
            phase: Phase::Negotiating,
            goal,
            unasked,
            haves,
            rounds: 1,
            reach,
            asked: HashMap::new(),
            open_needs: 0,
            batch: match unasked {
                Unasked::Commits => FIRST_IDS,
                Unasked::Metadata | Unasked::All => MAX_IDS,
            },
            absent: BTreeMap::new(),
            picks: false,
            openings: 0,
            admitted: 0,
            new_bytes: 0,
            repeated_bytes: 0,
            ahead: 0,
            bound: None,
            little: 0,
            has_chunks: false,
            out: VecDeque::from([Output::Send(Message::Want(want))]),
            round_trips: 1,
        })
    }

    /// Begins a transfer of what is under `roots`. What the sender does not have is no failure: see
    /// [`absent`](Self::absent).
    ///
    /// No commit is wanted, so nothing comes unasked and the first requests follow at once.
    pub fn picking(
        roots: impl IntoIterator<Item = Root>,
        objects: &dyn ObjectRead,
    ) -> Result<Receiver, SyncError> {
        let nothing = Receiver::new(Goal::default(), objects)?;
        Ok(Receiver {
            phase: Phase::Asking,
            reach: Reach::under(roots),
            batch: MAX_IDS,
            picks: true,
            openings: 2,
            round_trips: 0,
            ..nothing
        })
    }

    /// What the sender was asked for and does not have.
    pub fn absent(&self) -> impl Iterator<Item = (ObjectType, ObjectId)> {
        self.absent.iter().map(|(id, ty)| (*ty, *id))
    }

    /// Times that an answer had to be waited for with nothing else under way.
    pub fn round_trips(&self) -> u64 {
        self.round_trips
    }

    /// Takes a message of the sender.
    pub fn handle(&mut self, message: Message, objects: &dyn ObjectRead) -> Result<(), SyncError> {
        match (self.phase, message) {
            (Phase::Negotiating, Message::Common(_, true)) => self.phase = Phase::Streaming,
            (Phase::Negotiating, Message::Common(_, false)) => {
                if self.rounds >= MAX_ROUNDS {
                    return Err(SyncError::Broken("negotiation does not end"));
                }
                self.rounds += 1;
                self.round_trips += 1;
                let (ids, last) = self.haves.round(objects)?;
                let last = last || self.rounds == MAX_ROUNDS;
                let have = Message::Have(to_wire(&ids), last);
                self.out.push_back(Output::Send(have));
            }
            (Phase::Streaming, Message::Total(bytes))
                if self.unasked == Unasked::All && self.bound.is_none() && !self.has_chunks =>
            {
                (self.ahead, self.bound) = (bytes, Some(Bound::AtMost));
            }
            (Phase::Streaming, Message::End) => {
                (self.ahead, self.bound) = (0, None);
                self.out.push_back(Output::Keep);
                self.phase = Phase::Asking;
            }
            (Phase::Asking, Message::Common(_, true)) if self.openings == 2 => self.openings = 1,
            (Phase::Asking, Message::End) if self.openings == 1 => self.openings = 0,
            (Phase::Asking, Message::Absent(gone)) => {
                for (ty, id) in from_wire_objects(&gone)? {
                    if self.asked.remove(&id) != Some(ty) {
                        return Err(SyncError::Broken("absence of what was not asked for"));
                    }
                    self.absent.insert(id, ty);
                }
                if !self.picks && self.absent.len() > MAX_ABSENT {
                    return self.lacking();
                }
            }
            (Phase::Asking, Message::NeedEnd) if self.open_needs > 0 && self.openings == 0 => {
                self.open_needs -= 1;
                if self.open_needs == 0 && !self.asked.is_empty() {
                    return Err(SyncError::Broken("an answer lacks what was asked for"));
                }
            }
            _ => return Err(SyncError::Broken("a message that does not belong here")),
        }
        Ok(())
    }

    /// Whether an object of `len` bytes that has come and is what its id says may be kept.
    pub fn admit(&mut self, ty: ObjectType, id: &ObjectId, len: u64) -> Result<(), SyncError> {
        let welcome = match self.phase {
            Phase::Streaming => match self.unasked {
                Unasked::Commits => ty == ObjectType::Commit,
                Unasked::Metadata => ty != ObjectType::Chunk || self.is_little(len),
                Unasked::All => true,
            },
            Phase::Asking => self.openings == 0 && self.asked.remove(id) == Some(ty),
            Phase::Negotiating | Phase::Done => false,
        };
        self.admitted += u64::from(welcome);
        if ty == ObjectType::Chunk {
            self.has_chunks = true;
            self.ahead = self.ahead.saturating_sub(len);
        }
        match welcome {
            true => Ok(()),
            false => Err(SyncError::Broken("an object that was not asked for")),
        }
    }

    /// Whether so much more content may come with metadata.
    fn is_little(&mut self, len: u64) -> bool {
        self.little += len;
        self.little <= LITTLE_BYTES
    }

    /// Notes whether what was admitted was new here: so many objects, and their bytes.
    pub fn noted(&mut self, objects: u64, bytes: u64, new: bool) -> Result<(), SyncError> {
        let bytes = bytes + objects * OBJECT_COST_BYTES;
        match new {
            true => self.new_bytes += bytes,
            false => self.repeated_bytes += bytes,
        }
        match self.repeated_bytes > self.new_bytes + MAX_REPEATED_BYTES {
            true => Err(SyncError::Broken("the same objects over and over")),
            false => Ok(()),
        }
    }

    /// The bytes of content that are still to come, as far as is known; `None`: not at all.
    pub fn ahead(&self) -> Option<(u64, Bound)> {
        self.bound.map(|bound| (self.ahead, bound))
    }

    /// What is to be done next; `None`: wait for the sender.
    pub fn poll(&mut self, objects: &dyn ObjectRead) -> Result<Option<Output>, SyncError> {
        if let Some(output) = self.out.pop_front() {
            return Ok(Some(output));
        }
        if self.phase != Phase::Asking || self.open_needs >= MAX_NEEDS {
            return Ok(None);
        }
        // More is looked for when what these lead to is known. Of what was picked nobody knows how
        // much is absent, but the commits that it is part of are here and bound it.
        let mut is_over = !self.picks && self.reach.parked() >= MAX_PARKED;
        let mut need = Vec::new();
        for _ in 0..if is_over { 0 } else { STEPS } {
            match self.reach.next(objects).map_err(|e| unfit(e, objects))? {
                None => {
                    is_over = true;
                    break;
                }
                Some(found) if found.here || self.absent.contains_key(&found.id) => {}
                Some(found) => {
                    if self.asked.insert(found.id, found.ty).is_none() {
                        self.ahead = self.ahead.saturating_add(found.len);
                        need.push((found.ty, found.id));
                    }
                    if need.len() >= self.batch {
                        break;
                    }
                }
            }
        }
        // Under what is parked there is more.
        let is_all = is_over && self.reach.parked() == 0;
        self.bound = Some(match is_all {
            true => Bound::Exact,
            false => Bound::AtLeast,
        });
        if !need.is_empty() {
            if self.open_needs == 0 {
                self.round_trips += 1;
            }
            self.open_needs += 1;
            self.batch = (self.batch * 2).min(MAX_IDS);
            return Ok(Some(Output::Send(Message::Need(to_wire_objects(&need)))));
        }
        if !is_over {
            return Ok(Some(Output::Working));
        }
        if self.open_needs > 0 || self.openings > 0 {
            return Ok(None);
        }
        if !self.picks {
            self.lacking()?;
        }
        // Of what is parked only what has come meanwhile leads on.
        let came = std::mem::take(&mut self.admitted) > 0;
        if (came || !self.picks) && self.reach.retry() {
            return Ok(Some(Output::Keep));
        }
        self.phase = Phase::Done;
        self.out.push_back(Output::Done);
        Ok(Some(Output::Send(Message::Complete)))
    }

    /// Where the filter ends history: see [`Reach::boundary`]. This side's own walk tells, whatever
    /// the sender says.
    pub fn boundary(&self) -> BTreeSet<ObjectId> {
        self.reach.boundary()
    }

    /// Where history went on: see [`Reach::passed`].
    pub fn passed(&self) -> &BTreeSet<ObjectId> {
        self.reach.passed()
    }

    /// Fails if the sender lacks anything.
    fn lacking(&self) -> Result<(), SyncError> {
        let Some((id, ty)) = self.absent.first_key_value() else {
            return Ok(());
        };
        let (ty, id, count) = (*ty, *id, self.absent.len());
        Err(SyncError::Absent { id, ty, count })
    }

    /// The commits that were wanted.
    pub fn tips(&self) -> &[ObjectId] {
        &self.goal.tips
    }
}

/// What is read here was checked when it came: if it does not fit together, its sender made it so. If
/// it cannot be read as it came, this side's store is at fault.
fn unfit(e: ObjectError, objects: &dyn ObjectRead) -> SyncError {
    match e {
        ObjectError::Damaged { id, ty, .. } => match objects.read(ty, &id) {
            Ok(_) => SyncError::Unfit(e),
            Err(ours) => SyncError::Object(ours),
        },
        e => SyncError::Object(e),
    }
}
