//! A connection: frames in, frames out, both through short queues that push back.
//!
//! Whoever waits for the other side loses patience when it moves nearly nothing: a peer that is
//! silent, that trickles, or that never reads, ends its session and takes nothing from others.

use super::NetError;
use super::inlet::{Inlet, read_some};
use super::outlet::{Outlet, Part, Plain};
use super::queue::{Giver, Nothing, Refused, Taker, queue};
use super::waiting::{Counted, Signs, Waiting, is_working};
use crate::wire::{FRAME_HEAD_BYTES, Frame, Hello, LINE, MAX_LINE_BYTES, Message, VERSION};
use dmv_core::job::Job;
use dmv_core::store::FRAME_TARGET_BYTES;
use std::io::{self, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Bytes of a frame that are written together with its head.
const FIRST_WRITE_BYTES: usize = 64 << 10;
/// How often somebody who waits looks whether the job was cancelled.
const LOOK: Duration = Duration::from_millis(50);
/// How long this side waits for another process that moves nearly nothing, unless told otherwise.
pub const PATIENCE: Duration = Duration::from_secs(300);
/// How often in a row the other side may say that it works, with nothing between: as often as it
/// need, until somebody has waited for [`LONGEST`](super::waiting::LONGEST) patiences.
const MAX_WORKING: u32 = 100_000;

/// What went over a connection, as this side saw it.
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
    /// Times that an answer had to be waited for.
    pub round_trips: u64,
}

/// Where frames go.
enum Outgoing {
    /// To the other end's queue.
    Inside(Giver<Result<Frame, NetError>>),
    /// To a thread that writes them.
    Outside(Giver<Frame>),
}

impl Outgoing {
    fn give(&self, frame: Frame, wait: Duration) -> Result<(), Refused<Frame>> {
        let bytes = frame.size();
        match self {
            Outgoing::Outside(to) => to.give(frame, bytes, wait),
            Outgoing::Inside(to) => to.give(Ok(frame), bytes, wait).map_err(|e| match e {
                Refused::Full(Ok(frame)) => Refused::Full(frame),
                Refused::Full(Err(_)) | Refused::Gone => Refused::Gone,
            }),
        }
    }

    fn wait(&self, bytes: usize, wait: Duration) -> Result<(), Refused<()>> {
        match self {
            Outgoing::Outside(to) => to.wait(bytes, wait),
            Outgoing::Inside(to) => to.wait(bytes, wait),
        }
    }
}

/// One end of a connection.
pub struct Link {
    incoming: Taker<Result<Frame, NetError>>,
    outgoing: Option<Outgoing>,
    /// Ends when the writing thread does.
    writing: Option<Taker<()>>,
    waiting: Waiting,
    /// Of the job that this end is used for, as soon as it is known.
    cancel: Option<Arc<AtomicBool>>,
    /// Whether the other side knows [`Message::Total`].
    pub says_totals: bool,
    /// Whether the other side takes a little content with metadata.
    pub gives_little: bool,
    /// What went over it.
    pub traffic: Traffic,
}

impl Link {
    /// Both ends of a connection within this process.
    pub fn pair() -> (Link, Link) {
        let (to_b, from_a) = queue();
        let (to_a, from_b) = queue();
        let end = |outgoing, incoming| Link {
            incoming,
            outgoing: Some(Outgoing::Inside(outgoing)),
            writing: None,
            waiting: Waiting::default(),
            cancel: None,
            says_totals: false,
            gives_little: false,
            traffic: Traffic::default(),
        };
        (end(to_b, from_b), end(to_a, from_a))
    }

    /// A connection over two streams of bytes, one each way. Its other end is given [`PATIENCE`].
    pub fn over(reader: impl Read + Send + 'static, writer: impl Write + Send + 'static) -> Link {
        Link::through(Plain(reader), Plain(writer))
    }

    /// The same where what is written may stay in memory for a while.
    pub fn through(
        reader: impl Inlet + Send + 'static,
        writer: impl Outlet + Send + 'static,
    ) -> Link {
        let signs = Arc::new(Signs::default());
        let (reader, writer) = (Counted::new(reader, &signs), Counted::new(writer, &signs));
        let (to_us, incoming) = queue();
        let seen = signs.clone();
        std::thread::spawn(move || read_frames(reader, &to_us, &seen));
        let (outgoing, frames) = queue();
        let (until_written, writing) = queue();
        let given = signs.clone();
        std::thread::spawn(move || {
            // A peer that has gone is noticed by whoever waits for its answer.
            let _ = write_frames(writer, &frames, &given);
            drop(until_written);
        });
        Link {
            incoming,
            outgoing: Some(Outgoing::Outside(outgoing)),
            writing: Some(writing),
            waiting: Waiting::new(PATIENCE, signs),
            cancel: None,
            says_totals: false,
            gives_little: false,
            traffic: Traffic::default(),
        }
    }

    /// Whether the other end is in this process.
    pub fn is_inside(&self) -> bool {
        matches!(self.outgoing, Some(Outgoing::Inside(_)))
    }

    /// Gives another process this long, where it moves nearly nothing.
    pub fn be_patient(&mut self, time: Duration) {
        self.waiting.be_patient(time);
    }

    /// How many milliseconds that is; `None` within this process.
    pub fn patience_millis(&self) -> Option<u32> {
        let patience = self.waiting.patience()?;
        Some(u32::try_from(patience.as_millis()).unwrap_or(u32::MAX))
    }

    /// The other side has greeted: from now on it hears of this side when that works for long, and
    /// how much comes.
    pub fn greeted(&mut self, hello: &Hello) {
        self.says_totals = hello.hears_totals();
        self.gives_little = hello.takes_little();
        let millis = hello.patience_millis().map(u64::from);
        let patience = millis.map(Duration::from_millis);
        self.waiting.signs.is_heard_by(patience);
    }

    /// Sends a frame, waiting for room.
    pub fn send(&mut self, frame: Frame) -> Result<(), NetError> {
        let bytes = frame.wire_len();
        self.until_done(frame, |to, frame| to.give(frame, LOOK))?;
        self.traffic.bytes_sent += bytes;
        Ok(())
    }

    /// Waits until there is room for a frame of the usual size, and keeps it for the next frame. What
    /// is made only then does not wait in memory.
    pub fn make_room(&mut self) -> Result<(), NetError> {
        self.until_done((), |to, ()| to.wait(FRAME_TARGET_BYTES, LOOK))
    }

    /// Tries to do something with an item until there is room for that.
    fn until_done<T>(
        &mut self,
        mut item: T,
        attempt: impl Fn(&Outgoing, T) -> Result<(), Refused<T>>,
    ) -> Result<(), NetError> {
        loop {
            let outgoing = self.outgoing.as_ref().ok_or(NetError::Closed)?;
            let from = Instant::now();
            item = match attempt(outgoing, item) {
                Ok(()) => return Ok(()),
                Err(Refused::Full(item)) => item,
                Err(Refused::Gone) => return Err(self.why_closed()),
            };
            self.is_cancelled()?;
            self.waiting.spent(from.elapsed())?;
        }
    }

    /// Why it closed may have been said before.
    fn why_closed(&self) -> NetError {
        while let Ok(frame) = self.incoming.take(Duration::ZERO) {
            match frame.and_then(failed) {
                Ok(_) => {}
                Err(e) => return e,
            }
        }
        NetError::Closed
    }

    /// Sends a message.
    pub fn say(&mut self, message: &Message) -> Result<(), NetError> {
        self.send(message.frame())
    }

    /// Says something before the end, without waiting until there is room for it.
    pub fn say_last(&mut self, message: &Message) {
        let frame = message.frame();
        let bytes = frame.size();
        match &self.outgoing {
            Some(Outgoing::Outside(to)) => to.give_last(frame, bytes),
            Some(Outgoing::Inside(to)) => to.give_last(Ok(frame), bytes),
            None => {}
        }
    }

    /// The next frame, waiting for it. A peer's [`Message::Failed`] is an error.
    pub fn receive(&mut self, job: &Job) -> Result<Frame, NetError> {
        self.cancel.get_or_insert_with(|| job.cancel_handle());
        self.waiting.signs.is_waiting(true);
        let received = self.next(job);
        self.waiting.signs.is_waiting(false);
        received
    }

    fn next(&mut self, job: &Job) -> Result<Frame, NetError> {
        loop {
            if job.is_cancelled() {
                return Err(NetError::Cancelled);
            }
            let from = Instant::now();
            let taken = self.incoming.take(LOOK);
            let frame = match taken {
                Ok(frame) => Some(self.take(frame?)?),
                // Who takes nothing any more will not answer.
                Err(Nothing::Yet) if self.is_deaf() => return Err(NetError::Closed),
                Err(Nothing::Yet) => None,
                Err(Nothing::Ever) => return Err(NetError::Closed),
            };
            // Also where objects have come: they may come in small pieces for ever.
            if !matches!(frame, Some(Frame::Message(_))) {
                self.waiting.spent(from.elapsed())?;
            }
            if let Some(frame) = frame {
                return Ok(frame);
            }
        }
    }

    /// The next frame, if it has come.
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
            // How many of them make sense is bounded; objects can be as small as the peer likes.
            self.waiting.is_answered();
        }
        Ok(frame)
    }

    /// Whether writing to the other side has failed.
    fn is_deaf(&self) -> bool {
        let writing = self.writing.as_ref();
        writing.is_some_and(|writing| writing.take(Duration::ZERO) == Err(Nothing::Ever))
    }

    fn is_cancelled(&self) -> Result<(), NetError> {
        let cancelled = self.cancel.as_ref();
        match cancelled.is_some_and(|cancel| cancel.load(Ordering::Relaxed)) {
            true => Err(NetError::Cancelled),
            false => Ok(()),
        }
    }

    /// The next message, waiting for it.
    pub fn hear(&mut self, job: &Job) -> Result<Message, NetError> {
        match self.receive(job)? {
            Frame::Message(bytes) => Ok(Message::decode(&bytes)?),
            _ => Err(NetError::Protocol("objects where a message belongs")),
        }
    }

    /// Ends the connection after everything said has been handed to the transport, or the other
    /// side does not take it.
    pub fn close(mut self) {
        self.outgoing = None;
        let Some(writing) = self.writing.take() else {
            return;
        };
        loop {
            let from = Instant::now();
            if writing.take(LOOK) == Err(Nothing::Ever)
                || self.is_cancelled().is_err()
                || self.waiting.spent(from.elapsed()).is_err()
            {
                return;
            }
        }
    }
}

/// A frame that is no [`Message::Failed`].
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
            Err(Nothing::Ever) => return Ok(()),
            Err(Nothing::Yet) if signs.is_working() => (Message::Working.frame(), None),
            Err(Nothing::Yet) => continue,
        };
        let (head, body) = frame.parts();
        // The head goes with as much as makes a fair write: two small ones may wait for each other
        // on a network. The rest of a large frame need not be moved for that.
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
            // It is for nobody else: whoever waits, waits on.
            Ok(Some(frame)) if is_working(&frame) => {
                in_a_row += 1;
                signs.came_working(&frame);
                match in_a_row > MAX_WORKING {
                    true => Err(NetError::Protocol("nothing but that it works")),
                    false => Ok(()),
                }
            }
            Ok(Some(frame)) => {
                in_a_row = 0;
                let bytes = frame.wire_len() as usize;
                match to.give_patiently(Ok(frame), bytes) {
                    true => Ok(()),
                    false => return,
                }
            }
            Ok(None) => return,
            Err(e) => Err(e),
        };
    }
    if let Err(e) = result {
        // Nobody may be left to hear it.
        to.give_patiently(Err(e), 0);
    }
}

/// Reads the other side's first line. What a login prints before it makes it another.
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
        // A later version speaks ours when it hears it.
        Some(Ok(version)) if version >= VERSION => Ok(()),
        Some(_) => Err(NetError::Version(text)),
        None if text.is_empty() => Err(NetError::Closed),
        None => Err(NetError::NotDmv(text)),
    }
}

/// The next frame; `None` at the end.
fn read_frame(reader: &mut impl Inlet) -> Result<Option<Frame>, NetError> {
    let mut head = [0; FRAME_HEAD_BYTES];
    if !fill(reader, &mut head)? {
        return Ok(None);
    }
    let len = Frame::body_len(&head)?;
    // Touched only as the bytes arrive: a length is a claim, and room that nobody has touched costs
    // next to nothing. To grow instead would move each frame.
    let mut body = Vec::with_capacity(len);
    let whole = reader.append(&mut body, len, &mut |_| {});
    if !whole.map_err(|_| NetError::Closed)? {
        return Err(NetError::Closed);
    }
    Ok(Some(Frame::from_parts(&head, body)?))
}

/// Fills `buffer`; `false` at the end, which may only come before its first byte.
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
