//! One transfer: runs the engine of [`sync`](crate::sync) between a connection and a store.
//!
//! [`receive`] and [`pick`] drive a receiver, [`send`] a sender. Client and server use all of them.

use super::NetError;
use super::link::Link;
use crate::sync::{Goal, Output, Receiver, Sender};
use crate::wire::{Code, Frame, Message, OBJECTS_TARGET_BYTES, objects, put_object};
use dmv_core::hash::ObjectId;
use dmv_core::job::{Bound, Job};
use dmv_core::object::root::Root;
use dmv_core::object::{ObjectRead, ObjectType};
use dmv_core::repo::{AbsentError, BusyError, Purge, Repo, RepoError};
use dmv_core::store::{
    CheckedObject, CheckedRecord, FrameCollector, GivenBases, IncomingObjects, OutgoingItem,
    ReceivedRecord,
};
use std::collections::BTreeSet;

/// Bytes of received objects after which they are made durable for the first time. After that, they
/// are made durable at each doubling, up to [`KEEP_BYTES`].
const FIRST_KEEP_BYTES: u64 = 1 << 20;
/// The greatest number of received bytes that are not durable. A power loss costs at most these.
const KEEP_BYTES: u64 = 256 << 20;

/// Received bytes for each time that what has come is made readable because a frame needs it: a peer must
/// not cause that for every few bytes.
const KEEP_FOR_BASES_BYTES: u64 = 1 << 20;

/// How many bases may be read that are stored with bases themselves, before anything has come, and received
/// bytes for each further one. To read one may take 10 MiB of decoding, which a peer must not cause for a few
/// bytes. Versions in a frame of 1 MiB have some 16 bases.
const FIRST_READS_WITH_BASES: u64 = 64;
const BYTES_PER_READ_WITH_BASES: u64 = 32 << 10;

/// Receives everything that `goal` wants. When it returns, all objects are stored and verified.
/// Returns the files that the goal's filter left out although the commits need them.
///
/// If it is cut, it keeps the objects that it has checked, unless the peer was malicious.
pub fn receive(
    repo: &Repo,
    link: &mut Link,
    goal: Goal,
    job: &Job,
) -> Result<BTreeSet<ObjectId>, NetError> {
    let receiver = Receiver::new(goal, repo.objects())?;
    let receiver = take_all(repo, repo.objects(), link, receiver, job)?;
    Ok(receiver.left_out())
}

/// Receives what is under `roots` and absent from `objects`, as far as the other side has it.
/// Returns the objects that the other side lacks.
pub fn pick(
    repo: &Repo,
    objects: &dyn ObjectRead,
    link: &mut Link,
    roots: Vec<Root>,
    job: &Job,
) -> Result<Vec<(ObjectType, ObjectId)>, NetError> {
    let receiver = Receiver::picking(roots, objects)?;
    let receiver = take_all(repo, objects, link, receiver, job)?;
    Ok(receiver.absent().collect())
}

fn take_all(
    repo: &Repo,
    objects: &dyn ObjectRead,
    link: &mut Link,
    receiver: Receiver,
    job: &Job,
) -> Result<Receiver, NetError> {
    let incoming = incoming(repo, link.gets_bases)?;
    let receiver = receiver.expecting_bases(link.gives_bases, link.gets_bases);
    let receiver = if link.takes_clues() {
        receiver.with_clues()
    } else {
        receiver
    };
    let mut taking = ReceiveJob {
        repo,
        objects,
        job,
        receiver,
        incoming: Some(incoming),
        gets_bases: link.gets_bases,
        kept_for_bases: 0,
        read_with_bases: 0,
        bytes: 0,
        kept_bytes: 0,
    };
    let done = taking.run(link);
    link.traffic.round_trips += taking.receiver.round_trips();
    match done {
        // Each received object was checked. But a malicious peer's last ones are not worth a sync.
        Err(e) if e.is_malice() => Err(e),
        Err(e @ NetError::Repo(RepoError::OverBudget)) => {
            drop(taking.incoming.take());
            // If this fails, `gc` frees it later.
            let _ = repo.give_back_arrivals();
            Err(e)
        }
        Err(e) => {
            // A failure here is ignored: the first failure is the one to report.
            let _ = taking.keep();
            Err(e)
        }
        Ok(()) => {
            taking.keep()?;
            // Record where history ends before any ref names commits above.
            let (ends, passed) = (taking.receiver.boundary(), taking.receiver.passed());
            repo.note_boundary(&ends, passed)?;
            Ok(taking.receiver)
        }
    }
}

struct ReceiveJob<'r> {
    repo: &'r Repo,
    /// The stored objects that count as present.
    objects: &'r dyn ObjectRead,
    job: &'r Job,
    receiver: Receiver,
    incoming: Option<IncomingObjects<'r>>,
    /// Whether frames with bases may come.
    gets_bases: bool,
    /// How often what has come was made readable for the sake of a base.
    kept_for_bases: u64,
    /// How many bases were read that have bases themselves.
    read_with_bases: u64,
    /// The bytes of received objects, and below, how many of them are durable.
    bytes: u64,
    kept_bytes: u64,
}

impl<'r> ReceiveJob<'r> {
    fn run(&mut self, link: &mut Link) -> Result<(), NetError> {
        loop {
            while let Some(frame) = link.try_receive()? {
                self.take(frame, link)?;
            }
            self.foresee();
            match self.receiver.poll(self.objects)? {
                Some(Output::Send(message)) => {
                    self.check_purged(&message)?;
                    link.tell(self.receiver.take_clues());
                    link.say(&message)?;
                }
                Some(Output::Keep) => self.keep_and_go_on()?,
                Some(Output::Done) => return Ok(()),
                Some(
                    Output::Objects(_)
                    | Output::PlainObjects(_)
                    | Output::Flush
                    | Output::Ahead(_)
                    | Output::Working,
                ) => {}
                None => {
                    let frame = link.receive(self.job)?;
                    self.take(frame, link)?;
                }
            }
            self.job.check()?;
        }
    }

    /// Fails if it is about to request a chunk that must not be stored: a file that was not purged
    /// needs it.
    fn check_purged(&self, message: &Message) -> Result<(), NetError> {
        let (Message::Need(objects) | Message::NeedPlain(objects)) = message else {
            return Ok(());
        };
        let refused = self.repo.store().refused();
        let ids = objects.iter().map(|(_, id)| ObjectId::from_bytes(*id));
        let Some(id) = ids.into_iter().find(|id| refused.contains(id)) else {
            return Ok(());
        };
        let slice = self.repo.slice()?;
        let purge = slice.pieces.get(&id).map(|why| Purge::clone(why));
        Err(NetError::Repo(match purge {
            Some(purge) => RepoError::Absent(AbsentError::Purged {
                path: None,
                purge: Box::new(purge),
                place: None,
            }),
            None => RepoError::Busy(BusyError::PurgedMeanwhile),
        }))
    }

    /// Tells the job's progress how many bytes are still to come.
    fn foresee(&self) {
        if let Some((bytes, bound)) = self.receiver.ahead() {
            self.job.progress.foresee(bytes, bound);
        }
    }

    fn take(&mut self, frame: Frame, link: &mut Link) -> Result<(), NetError> {
        match frame {
            Frame::Message(bytes) => {
                let message = Message::decode(&bytes)?;
                self.receiver.handle(message, self.objects)?;
            }
            Frame::Record(record) => {
                let bytes = record.len() as u64;
                let read =
                    CheckedRecord::with_bases(record, &mut |id, out| self.read_base(id, out))?;
                match read.map_err(NetError::Protocol)? {
                    ReceivedRecord::Checked(record) => self.take_record(record, link)?,
                    ReceivedRecord::LacksBase { objects } => {
                        self.receiver.lacks_base(u64::from(objects), bytes)?;
                    }
                }
            }
            Frame::Checked(record) => self.take_record(record, link)?,
            Frame::Objects(body) => {
                for object in objects(&body) {
                    let (ty, bytes) = object?;
                    let object = CheckedObject::new(ty, bytes).map_err(NetError::Protocol)?;
                    let len = object.len() as u64;
                    self.receiver.admit(ty, &object.id(), len)?;
                    let new = self.incoming()?.add_object(&object)?;
                    self.count(1, len, new, link)?;
                }
            }
        }
        let open = self.bytes - self.kept_bytes;
        if open >= self.kept_bytes.clamp(FIRST_KEEP_BYTES, KEEP_BYTES) {
            self.keep_and_go_on()?;
        }
        Ok(())
    }

    fn take_record(&mut self, record: CheckedRecord, link: &mut Link) -> Result<(), NetError> {
        for object in record.objects() {
            let len = u64::from(object.len);
            self.receiver.admit(object.ty, &object.id, len)?;
        }
        let (all, bytes) = (record.objects().len() as u64, u64::from(record.raw_len()));
        if record.has_bases() {
            self.receiver.decoded_with_bases(all);
        }
        let (new, new_bytes) = self.incoming()?.add_record(record)?;
        self.count(new, new_bytes, true, link)?;
        self.count(all - new, bytes - new_bytes, false, link)
    }

    /// Appends the bytes of a chunk that is stored here in a frame with bases itself, within a bound.
    fn read_with_bases(&mut self, id: &ObjectId, out: &mut Vec<u8>) -> bool {
        let most = FIRST_READS_WITH_BASES + self.bytes / BYTES_PER_READ_WITH_BASES;
        if self.read_with_bases >= most {
            return false;
        }
        let len = out.len();
        // A damaged copy is of no use, either.
        let read = self.repo.store().read_into(ObjectType::Chunk, id, out);
        let is_read = read.unwrap_or(false);
        self.read_with_bases += u64::from(is_read);
        out.truncate(if is_read { out.len() } else { len });
        is_read
    }

    /// Appends the bytes of a chunk that is stored here, or that has come before. Returns whether there is
    /// one.
    fn read_base(&mut self, id: &ObjectId, out: &mut Vec<u8>) -> Result<bool, NetError> {
        if self.repo.store().read_without_bases(id, out)? || self.read_with_bases(id, out) {
            return Ok(true);
        }
        let has_come = |incoming: &IncomingObjects<'_>| incoming.has_taken(id);
        let may_keep = self.bytes >= self.kept_for_bases * KEEP_FOR_BASES_BYTES;
        if !may_keep || !self.incoming.as_ref().is_some_and(has_come) {
            return Ok(false);
        }
        self.kept_for_bases += 1;
        self.keep()?;
        Ok(self.repo.store().read_without_bases(id, out)?)
    }

    fn incoming(&mut self) -> Result<&mut IncomingObjects<'r>, NetError> {
        if self.incoming.is_none() {
            self.incoming = Some(incoming(self.repo, self.gets_bases)?);
        }
        Ok(self.incoming.as_mut().expect("it was set above"))
    }

    fn count(&mut self, n: u64, bytes: u64, new: bool, link: &mut Link) -> Result<(), NetError> {
        link.traffic.objects_received += n;
        self.receiver.noted(n, bytes, new)?;
        self.bytes += bytes;
        let progress = &self.job.progress;
        Job::add(&progress.objects, n);
        Job::add(&progress.bytes, bytes);
        if new {
            Job::add(&progress.new_bytes, bytes);
        }
        Ok(())
    }

    /// Makes the received objects durable and readable.
    fn keep(&mut self) -> Result<(), NetError> {
        self.kept_bytes = self.bytes;
        match self.incoming.take() {
            Some(incoming) => Ok(self.repo.keep_incoming(incoming)?),
            None => Ok(()),
        }
    }

    fn keep_and_go_on(&mut self) -> Result<(), NetError> {
        if self.bytes == self.kept_bytes {
            return Ok(());
        }
        self.keep()
    }
}

/// Starts to receive objects from a peer that may send frames with bases, or not.
fn incoming(repo: &Repo, gets_bases: bool) -> Result<IncomingObjects<'_>, NetError> {
    Ok(if gets_bases {
        repo.incoming_with_bases()?
    } else {
        repo.incoming()?
    })
}

/// Sends the objects that a receiver requests. `want` is its first message, already received.
pub fn send(
    repo: &Repo,
    link: &mut Link,
    want: Message,
    offered: impl IntoIterator<Item = ObjectId>,
    job: &Job,
) -> Result<(), NetError> {
    let mut sender = Sender::new(offered)
        .saying_total(link.says_totals)
        .giving_little(link.gives_little);
    let mut giving = FrameSender {
        made_room: 0,
        link,
        job,
        body: Vec::new(),
    };
    let done = give(repo, &mut giving, &mut sender, want, job);
    giving.link.traffic.round_trips += sender.round_trips();
    match done {
        Err(NetError::Peer(Code::Absent, _)) if !sender.unmet().is_empty() => {
            Err(NetError::Lacking(sender.unmet().to_vec()))
        }
        done => done,
    }
}

fn give(
    repo: &Repo,
    giving: &mut FrameSender<'_>,
    sender: &mut Sender,
    want: Message,
    job: &Job,
) -> Result<(), NetError> {
    let (is_inside, gives_bases) = (giving.link.is_inside(), giving.link.gives_bases);
    let collector = || FrameCollector::new(repo.store(), is_inside);
    let (mut frames, mut plain) = (collector(), collector());
    let given = |after_end: bool| match (gives_bases, after_end) {
        (false, _) => GivenBases::None,
        (true, false) => GivenBases::Sent,
        (true, true) => GivenBases::All,
    };
    frames.give_bases(given(false));
    sender.handle(want, repo.objects())?;
    loop {
        job.check()?;
        match sender.poll(repo.objects())? {
            Some(Output::Send(message)) => {
                if message == Message::End {
                    frames.give_bases(given(true));
                }
                giving.link.say(&message)?;
            }
            Some(Output::Objects(objects)) => {
                for (ty, id) in objects {
                    frames.add(ty, id, &mut |out| giving.put_next(out))?;
                }
            }
            Some(Output::PlainObjects(objects)) => {
                for (ty, id) in objects {
                    plain.add(ty, id, &mut |out| giving.put_next(out))?;
                }
            }
            Some(Output::Flush) => {
                plain.flush(&mut |out| giving.put_next(out))?;
                frames.flush(&mut |out| giving.put_next(out))?;
                giving.flush()?;
            }
            Some(Output::Ahead(bytes)) => job.progress.foresee(bytes, Bound::AtMost),
            Some(Output::Done) => return Ok(()),
            Some(Output::Keep | Output::Working) => {}
            None => match giving.link.receive(job)? {
                Frame::Message(bytes) => sender.handle(Message::decode(&bytes)?, repo.objects())?,
                _ => return Err(NetError::Protocol("objects from the receiver")),
            },
        }
    }
}

/// Objects on their way into frames.
struct FrameSender<'l> {
    link: &'l mut Link,
    job: &'l Job,
    body: Vec<u8>,
    /// The value of `bytes_sent` when there was last room for another frame.
    made_room: u64,
}

impl FrameSender<'_> {
    /// Sends objects, and waits for room before the next ones are read from the store. So a sender that
    /// waits for a slow peer holds no frame in memory.
    fn put_next(&mut self, out: OutgoingItem) -> Result<(), NetError> {
        self.job.check()?;
        self.put(out)?;
        self.make_room()
    }

    fn make_room(&mut self) -> Result<(), NetError> {
        if self.made_room != self.link.traffic.bytes_sent {
            self.link.make_room()?;
            self.made_room = self.link.traffic.bytes_sent;
        }
        Ok(())
    }

    fn put(&mut self, out: OutgoingItem) -> Result<(), NetError> {
        let (objects, bytes) = match &out {
            OutgoingItem::Record {
                objects, raw_len, ..
            } => (u64::from(*objects), u64::from(*raw_len)),
            OutgoingItem::Checked(record) => {
                (record.objects().len() as u64, u64::from(record.raw_len()))
            }
            OutgoingItem::Object(_, bytes) => (1, bytes.len() as u64),
        };
        Job::add(&self.job.progress.objects, objects);
        Job::add(&self.job.progress.bytes, bytes);
        self.link.traffic.objects_sent += objects;
        match out {
            OutgoingItem::Record { record, .. } => self.link.send(Frame::Record(record)),
            OutgoingItem::Checked(record) => self.link.send(Frame::Checked(record)),
            OutgoingItem::Object(ty, bytes) => {
                if !self.body.is_empty() && self.body.len() + bytes.len() > OBJECTS_TARGET_BYTES {
                    self.flush()?;
                }
                put_object(&mut self.body, ty, &bytes);
                Ok(())
            }
        }
    }

    fn flush(&mut self) -> Result<(), NetError> {
        if self.body.is_empty() {
            Ok(())
        } else {
            self.link
                .send(Frame::Objects(std::mem::take(&mut self.body)))
        }
    }
}
