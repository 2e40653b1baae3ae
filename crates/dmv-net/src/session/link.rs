//! One end of a connection: frames in, frames out, through short queues that push back.
//!
//! A [`Link`] runs over two byte streams, or within the process. It knows frames and the first
//! line, not the phases of the protocol. Client, server and transfer use it.
//!
//! A side that waits for the other loses patience if hardly any bytes move. A peer that is silent,
//! that sends a byte now and then, or that never reads ends its own session and takes nothing from
//! other sessions.

use super::NetError;
use super::inlet::{Inlet, read_some};
use super::outlet::{Outlet, Part, Plain};
use super::queue::{Giver, NoItem, QueueRefusal, Taker, queue};
use super::waiting::{CountedStream, Signs, WaitTime, is_working};
use crate::sync::Clue;
use crate::wire::{FRAME_HEAD_BYTES, Frame, Hello, LINE, MAX_LINE_BYTES, Message, VERSION};
use dmv_core::job::Job;
use dmv_core::store::FRAME_TARGET_BYTES;
use dmv_core::threads::{self, NoThread};
use std::io::{self, Read, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The bytes of a frame that are written together with its head.
const FIRST_WRITE_BYTES: usize = 64 << 10;
/// How often a waiting side checks whether its job was cancelled.
const LOOK: Duration = Duration::from_millis(50);
/// The default patience: how long this side waits for another process that moves hardly any bytes.
pub const PATIENCE: Duration = Duration::from_secs(300);
/// How many [`Message::Working`] in a row the other side may send. Honest peers stay below this
/// number: the wait ends before, after [`LONGEST`](super::waiting::LONGEST) times the patience.
const MAX_WORKING: u32 = 100_000;

/// What went over a connection, counted on this side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Bytes sent.
    pub bytes_sent: u64,
    /// Bytes received.
    pub bytes_received: u64,
    /// Objects sent.
    pub objects_sent: u64,
    /// Objects received.
    pub objects_received: u64,
    /// How often this side had to wait for an answer.
    pub round_trips: u64,
}

/// Where frames go.
enum FrameSink {
    /// Into the queue of the other end, in the same process.
    Inside(Giver<Result<Frame, NetError>>),
    /// To the thread that writes them.
    Outside(Giver<Frame>),
}

impl FrameSink {
    fn give(&self, frame: Frame, wait: Duration) -> Result<(), QueueRefusal<Frame>> {
        let bytes = frame.size();
        match self {
            FrameSink::Outside(to) => to.give(frame, bytes, wait),
            FrameSink::Inside(to) => to.give(Ok(frame), bytes, wait).map_err(|e| match e {
                QueueRefusal::Full(Ok(frame)) => QueueRefusal::Full(frame),
                QueueRefusal::Full(Err(_)) | QueueRefusal::Gone => QueueRefusal::Gone,
            }),
        }
    }

    fn wait(&self, bytes: usize, wait: Duration) -> Result<(), QueueRefusal<()>> {
        match self {
            FrameSink::Outside(to) => to.wait(bytes, wait),
            FrameSink::Inside(to) => to.wait(bytes, wait),
        }
    }
}

/// Clues about requested chunks, which both ends of a connection within this process share.
type Clues = Arc<Mutex<Vec<Clue>>>;

/// One end of a connection.
pub struct Link {
    incoming: Taker<Result<Frame, NetError>>,
    outgoing: Option<FrameSink>,
    /// A queue that closes when the writing thread ends, or the other end if that is to be waited for.
    writing: Option<Taker<()>>,
    /// What the other end waits for when it closes.
    until_done: Option<Giver<()>>,
    waiting: WaitTime,
    /// The cancel flag of the job that uses this end, once it is known.
    cancel: Option<Arc<AtomicBool>>,
    /// Where to leave clues for the other end, which is in this process, if it wants any.
    clues: Option<Clues>,
    /// Whether the other side knows [`Message::Total`].
    pub says_totals: bool,
    /// Whether the other side accepts small content with metadata.
    pub gives_little: bool,
    /// Whether the other side takes frames with bases and knows [`Message::NeedPlain`].
    pub gives_bases: bool,
    /// Whether the other side has frames with bases.
    pub gets_bases: bool,
    /// What went over this connection.
    pub traffic: Traffic,
}

impl Link {
    /// Makes both ends of a connection within this process.
    pub fn pair() -> (Link, Link) {
        let (to_b, from_a) = queue();
        let (to_a, from_b) = queue();
        let end = |outgoing, incoming| Link {
            incoming,
            outgoing: Some(FrameSink::Inside(outgoing)),
            writing: None,
            until_done: None,
            waiting: WaitTime::default(),
            cancel: None,
            clues: None,
            says_totals: false,
            gives_little: false,
            gives_bases: false,
            gets_bases: false,
            traffic: Traffic::default(),
        };
        (end(to_b, from_b), end(to_a, from_a))
    }

    /// Makes both ends of a connection within this process. The first leaves [clues](Clue) to the
    /// chunks that it requests, which the second takes.
    ///
    /// [`close`](Self::close) of the first waits until the second has ended: the program may end
    /// right afterwards, and what the second notes for later sessions would be lost.
    pub fn pair_with_clues() -> (Link, Link) {
        let (mut a, mut b) = Link::pair();
        let (until_done, done) = queue();
        (a.writing, b.until_done) = (Some(done), Some(until_done));
        let clues = Clues::default();
        (a.clues, b.clues) = (Some(clues.clone()), Some(clues));
        (a, b)
    }

    /// Returns whether the other end wants clues.
    pub fn takes_clues(&self) -> bool {
        self.clues.is_some()
    }

    /// Leaves clues to the chunks of the next request.
    pub fn tell(&self, found: Vec<Clue>) {
        if let Some(clues) = self.clues.as_ref().filter(|_| !found.is_empty()) {
            let mut clues = clues.lock().unwrap_or_else(PoisonError::into_inner);
            clues.extend(found);
        }
    }

    /// Takes the clues that the other end has left.
    pub fn take_clues(&self) -> Vec<Clue> {
        let Some(clues) = &self.clues else {
            return Vec::new();
        };
        std::mem::take(&mut clues.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Ends the connection to an end in this process, which gets this error.
    pub fn fail(self, e: NetError) {
        if let Some(FrameSink::Inside(to)) = &self.outgoing {
            to.give_last(Err(e), 0);
        }
    }

    /// Makes a connection over two byte streams. Waits for the other side with [`PATIENCE`].
    ///
    /// Fails if the system starts no thread for them.
    pub fn over(
        reader: impl Read + Send + 'static,
        writer: impl Write + Send + 'static,
    ) -> Result<Link, NoThread> {
        Link::through(Plain(reader), Plain(writer))
    }

    /// Makes a connection over streams that read or hold complete bodies: see [`Inlet`] and [`Outlet`].
    pub fn through(
        reader: impl Inlet + Send + 'static,
        writer: impl Outlet + Send + 'static,
    ) -> Result<Link, NoThread> {
        let signs = Arc::new(Signs::default());
        let (reader, writer) = (
            CountedStream::new(reader, &signs),
            CountedStream::new(writer, &signs),
        );
        let (to_us, incoming) = queue();
        let seen = signs.clone();
        threads::start(move || read_frames(reader, &to_us, &seen))?;
        let (outgoing, frames) = queue();
        let (until_written, writing) = queue();
        let given = signs.clone();
        threads::start(move || {
            // A failure is ignored: a side that waits for the peer's answer notices that the peer
            // is gone.
            let _ = write_frames(writer, &frames, &given);
            drop(until_written);
        })?;
        Ok(Link {
            incoming,
            outgoing: Some(FrameSink::Outside(outgoing)),
            writing: Some(writing),
            until_done: None,
            waiting: WaitTime::new(PATIENCE, signs),
            cancel: None,
            clues: None,
            says_totals: false,
            gives_little: false,
            gives_bases: false,
            gets_bases: false,
            traffic: Traffic::default(),
        })
    }

    /// Returns whether the other end is in this process.
    pub fn is_inside(&self) -> bool {
        matches!(self.outgoing, Some(FrameSink::Inside(_)))
    }

    /// Sets this side's patience with another process.
    pub fn be_patient(&mut self, time: Duration) {
        self.waiting.be_patient(time);
    }

    /// Returns the patience in milliseconds; `None` if the other end is in this process.
    pub fn patience_millis(&self) -> Option<u32> {
        let patience = self.waiting.patience()?;
        Some(u32::try_from(patience.as_millis()).unwrap_or(u32::MAX))
    }

    /// Takes note of the other side's Hello: which messages it knows. From now on, this side sends
    /// Working while it is busy.
    pub fn greeted(&mut self, hello: &Hello) {
        self.says_totals = hello.hears_totals();
        self.gives_little = hello.takes_little();
        self.gives_bases = hello.bases().is_some();
        self.gets_bases = hello.bases() == Some(true);
        let millis = hello.patience_millis().map(u64::from);
        let patience = millis.map(Duration::from_millis);
        self.waiting.signs.is_heard_by(patience);
    }

    /// Sends a frame. Waits until there is room for it.
    pub fn send(&mut self, frame: Frame) -> Result<(), NetError> {
        let bytes = frame.wire_len();
        self.until_done(frame, |to, frame| to.give(frame, LOOK))?;
        self.traffic.bytes_sent += bytes;
        Ok(())
    }

    /// Waits until there is room for a frame of the usual size, and reserves it for the next frame.
    /// So a sender reads a frame from the store only once there is room to send it.
    pub fn make_room(&mut self) -> Result<(), NetError> {
        self.until_done((), |to, ()| to.wait(FRAME_TARGET_BYTES, LOOK))
    }

    /// Repeats `attempt` with the item until there is room for it.
    fn until_done<T>(
        &mut self,
        mut item: T,
        attempt: impl Fn(&FrameSink, T) -> Result<(), QueueRefusal<T>>,
    ) -> Result<(), NetError> {
        loop {
            let outgoing = self.outgoing.as_ref().ok_or(NetError::Closed)?;
            let from = Instant::now();
            item = match attempt(outgoing, item) {
                Ok(()) => return Ok(()),
                Err(QueueRefusal::Full(item)) => item,
                Err(QueueRefusal::Gone) => return Err(self.why_closed()),
            };
            self.is_cancelled()?;
            self.waiting.spent(from.elapsed())?;
        }
    }

    /// Returns why the connection closed: the other side's Failed may have arrived already.
    fn why_closed(&self) -> NetError {
        while let Ok(frame) = self.incoming.take(Duration::ZERO) {
            match frame.and_then(failed) {
                Ok(_) => {}
                Err(e) => return e,
            }
        }
        NetError::Closed
    }

    /// Sends a message. Waits until there is room for it.
    pub fn say(&mut self, message: &Message) -> Result<(), NetError> {
        self.send(message.frame())
    }

    /// Sends a message before the end, even if there is no room for it.
    pub fn say_last(&mut self, message: &Message) {
        let frame = message.frame();
        let bytes = frame.size();
        match &self.outgoing {
            Some(FrameSink::Outside(to)) => to.give_last(frame, bytes),
            Some(FrameSink::Inside(to)) => to.give_last(Ok(frame), bytes),
            None => {}
        }
    }

    /// Waits for the next frame and returns it. Fails with [`NetError::Peer`] if it is a
    /// [`Message::Failed`].
    pub fn receive(&mut self, job: &Job) -> Result<Frame, NetError> {
        self.cancel.get_or_insert_with(|| job.cancel_handle());
        self.waiting.signs.is_waiting(true);
        let received = self.next(job);
        self.waiting.signs.is_waiting(false);
        received
    }

    fn next(&mut self, job: &Job) -> Result<Frame, NetError> {
        loop {
            job.check()?;
            let from = Instant::now();
            let taken = self.incoming.take(LOOK);
            let frame = match taken {
                Ok(frame) => Some(self.take(frame?)?),
                // A side to which nothing can be written will not answer.
                Err(NoItem::Yet) if self.is_deaf() => return Err(NetError::Closed),
                Err(NoItem::Yet) => None,
                Err(NoItem::Ever) => return Err(NetError::Closed),
            };
            // Objects alone do not reset the time: a peer could send small ones forever.
            if !matches!(frame, Some(Frame::Message(_))) {
                self.waiting.spent(from.elapsed())?;
            }
            if let Some(frame) = frame {
                return Ok(frame);
            }
        }
    }

    /// Returns the next frame if it has arrived. Does not wait.
    pub fn try_receive(&mut self) -> Result<Option<Frame>, NetError> {
        match self.incoming.take(Duration::ZERO) {
            Ok(frame) => self.take(frame?).map(Some),
            Err(_) => Ok(None),
        }
    }

    fn take(&mut self, frame: Frame) -> Result<Frame, NetError> {
        self.traffic.bytes_received += frame.wire_len();
        let frame = failed(frame)?;
        if matches!(frame, Frame::Message(_)) {
            // The protocol bounds the number of messages. Objects can be as small as the peer
            // likes.
            self.waiting.is_answered();
        }
        Ok(frame)
    }

    /// Returns whether writing to the other side has failed.
    fn is_deaf(&self) -> bool {
        let writing = self.writing.as_ref();
        writing.is_some_and(|writing| writing.take(Duration::ZERO) == Err(NoItem::Ever))
    }

    fn is_cancelled(&self) -> Result<(), NetError> {
        let cancelled = self.cancel.as_ref();
        if cancelled.is_some_and(|cancel| cancel.load(Ordering::Relaxed)) {
            Err(NetError::Cancelled)
        } else {
            Ok(())
        }
    }

    /// Waits for the next message and returns it. Fails if objects arrive instead.
    pub fn hear(&mut self, job: &Job) -> Result<Message, NetError> {
        match self.receive(job)? {
            Frame::Message(bytes) => Ok(Message::decode(&bytes)?),
            _ => Err(NetError::Protocol("objects where a message belongs")),
        }
    }

    /// Ends the connection once everything sent was handed to the transport, or once the other
    /// side's time to accept it is over.
    pub fn close(mut self) {
        self.outgoing = None;
        drop(self.until_done.take());
        let Some(writing) = self.writing.take() else {
            return;
        };
        loop {
            let from = Instant::now();
            if writing.take(LOOK) == Err(NoItem::Ever)
                || self.is_cancelled().is_err()
                || self.waiting.spent(from.elapsed()).is_err()
            {
                return;
            }
        }
    }
}

/// Returns the frame, or an error if it is a [`Message::Failed`].
fn failed(frame: Frame) -> Result<Frame, NetError> {
    if let Frame::Message(bytes) = &frame
        && let Ok(Message::Failed(code, why)) = Message::decode(bytes)
    {
        return Err(NetError::Peer(code, why));
    }
    Ok(frame)
}

fn write_frames(mut writer: impl Outlet, frames: &Taker<Frame>, signs: &Signs) -> io::Result<()> {
    writer.write_all(LINE.as_bytes())?;
    writer.flush()?;
    let mut first = Vec::new();
    loop {
        let (frame, held) = match frames.take_held(signs.pause()) {
            Ok((frame, held)) => (frame, Some(held)),
            Err(NoItem::Ever) => return Ok(()),
            Err(NoItem::Yet) if signs.is_working() => (Message::Working.frame(), None),
            Err(NoItem::Yet) => continue,
        };
        let (head, body) = frame.parts();
        // The head is written together with a fair part of the body. Two small writes may wait for
        // each other on a network. The rest of a large frame is not copied for this.
        let begin = &body[..body.len().min(FIRST_WRITE_BYTES)];
        first.clear();
        first.extend_from_slice(&head);
        first.extend_from_slice(begin);
        writer.write_all(&first)?;
        signs.went(&frame);
        if let Some(held) = held
            && begin.len() < body.len()
        {
            let begun = begin.len();
            write_part(&mut writer, Part::of(frame, held, begun))?;
        }
        writer.flush()?;
    }
}

fn write_part(writer: &mut impl Outlet, mut part: Part) -> io::Result<()> {
    while !part.as_ref().is_empty() {
        match writer.write_part(&part) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(n) => part.pass(n),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

fn read_frames(mut reader: impl Inlet, to: &Giver<Result<Frame, NetError>>, signs: &Signs) {
    let mut result = read_line(&mut reader);
    let mut in_a_row = 0;
    while result.is_ok() {
        result = match read_frame(&mut reader) {
            // Working is not passed on: a waiting side continues to wait.
            Ok(Some(frame)) if is_working(&frame) => {
                in_a_row += 1;
                signs.came_working(&frame);
                if in_a_row > MAX_WORKING {
                    Err(NetError::Protocol("nothing but that it works"))
                } else {
                    Ok(())
                }
            }
            Ok(Some(frame)) => {
                in_a_row = 0;
                let bytes = frame.wire_len() as usize;
                if to.give_patiently(Ok(frame), bytes) {
                    Ok(())
                } else {
                    return;
                }
            }
            Ok(None) => return,
            Err(e) => Err(e),
        };
    }
    if let Err(e) = result {
        // The other end of the queue may be gone.
        to.give_patiently(Err(e), 0);
    }
}

/// Reads the other side's first line. Text that a login script prints before it makes it invalid.
fn read_line(reader: &mut impl Read) -> Result<(), NetError> {
    let mut line = Vec::new();
    while line.len() < MAX_LINE_BYTES && line.last() != Some(&b'\n') {
        let mut byte = [0];
        if !fill(reader, &mut byte)? {
            break;
        }
        line.push(byte[0]);
    }
    let text = String::from_utf8_lossy(&line).trim().to_owned();
    let version = text.strip_prefix("dmv-sync ").map(str::parse::<u32>);
    match version {
        // A side with a later version continues with ours when it reads our line.
        Some(Ok(version)) if version >= VERSION => Ok(()),
        Some(_) => Err(NetError::Version(text)),
        None if text.is_empty() => Err(NetError::Closed),
        None => Err(NetError::NotDmv(text)),
    }
}

/// Reads the next frame. Returns `None` at the end of the stream.
fn read_frame(reader: &mut impl Inlet) -> Result<Option<Frame>, NetError> {
    let mut head = [0; FRAME_HEAD_BYTES];
    if !fill(reader, &mut head)? {
        return Ok(None);
    }
    let len = Frame::body_len(&head)?;
    // The length is only the peer's claim, but memory that was never written to costs next to
    // nothing. A vector that grows would copy each frame.
    let mut body = Vec::with_capacity(len);
    let whole = reader.append(&mut body, len, &mut |_| {});
    if !whole.map_err(|_| NetError::Closed)? {
        return Err(NetError::Closed);
    }
    Ok(Some(Frame::from_parts(&head, body)?))
}

/// Fills `buffer`. Returns `false` if the stream ends before its first byte. Fails if it ends
/// later.
fn fill(reader: &mut impl Read, buffer: &mut [u8]) -> Result<bool, NetError> {
    let mut n = 0;
    while n < buffer.len() {
        match read_some(reader, &mut buffer[n..]) {
            Ok(0) if n == 0 => return Ok(false),
            Ok(0) | Err(_) => return Err(NetError::Closed),
            Ok(read) => n += read,
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closing_waits_until_an_end_in_this_process_has_done_its_notes()
    -> Result<(), Box<dyn std::error::Error>> {
        let (ours, theirs) = Link::pair_with_clues();
        let noted = Arc::new(AtomicBool::new(false));
        let note = noted.clone();
        let thread = std::thread::spawn(move || {
            let mut theirs = theirs;
            // The other end is closing.
            let heard = theirs.hear(&Job::default());
            std::thread::yield_now();
            note.store(true, Ordering::SeqCst);
            theirs.close();
            heard.is_err()
        });
        ours.close();
        assert!(noted.load(Ordering::SeqCst));
        assert!(thread.join().is_ok_and(|closed| closed));
        Ok(())
    }
}
