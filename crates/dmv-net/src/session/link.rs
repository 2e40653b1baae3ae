//! A connection: frames in, frames out, both through short queues that push back.

use super::NetError;
use crate::wire::{FRAME_HEAD_BYTES, Frame, LINE, MAX_LINE_BYTES, Message, VERSION};
use dmv_core::job::Job;
use std::io::{self, Read, Write};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// Frames that may lie in a queue. More than a receiver's open requests, so that a sender that is
/// busy sending never keeps its receiver from asking: neither waits for the other.
const QUEUE: usize = 16;
/// How often somebody who waits looks whether the job was cancelled.
const LOOK: Duration = Duration::from_millis(50);

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
    Inside(SyncSender<Result<Frame, NetError>>),
    /// To a thread that writes them.
    Outside(SyncSender<Frame>),
}

impl Outgoing {
    fn send(&self, frame: Frame) -> Result<(), NetError> {
        match self {
            Outgoing::Inside(to) => to.send(Ok(frame)).map_err(|_| NetError::Closed),
            Outgoing::Outside(to) => to.send(frame).map_err(|_| NetError::Closed),
        }
    }
}

/// One end of a connection.
pub struct Link {
    incoming: Receiver<Result<Frame, NetError>>,
    outgoing: Option<Outgoing>,
    writing: Option<JoinHandle<()>>,
    /// What went over it.
    pub traffic: Traffic,
}

impl Link {
    /// Both ends of a connection within this process.
    pub fn pair() -> (Link, Link) {
        let (to_b, from_a) = sync_channel(QUEUE);
        let (to_a, from_b) = sync_channel(QUEUE);
        let end = |outgoing, incoming| Link {
            incoming,
            outgoing: Some(Outgoing::Inside(outgoing)),
            writing: None,
            traffic: Traffic::default(),
        };
        (end(to_b, from_b), end(to_a, from_a))
    }

    /// A connection over two streams of bytes, one each way.
    pub fn over(reader: impl Read + Send + 'static, writer: impl Write + Send + 'static) -> Link {
        let (to_us, incoming) = sync_channel(QUEUE);
        std::thread::spawn(move || read_frames(reader, &to_us));
        let (outgoing, queue) = sync_channel(QUEUE);
        let writing = std::thread::spawn(move || {
            // A peer that has gone is noticed by whoever waits for its answer.
            let _ = write_frames(writer, &queue);
        });
        Link {
            incoming,
            outgoing: Some(Outgoing::Outside(outgoing)),
            writing: Some(writing),
            traffic: Traffic::default(),
        }
    }

    /// Sends a frame, waiting for room.
    pub fn send(&mut self, frame: Frame) -> Result<(), NetError> {
        self.traffic.bytes_sent += frame.wire_len();
        let outgoing = self.outgoing.as_ref().ok_or(NetError::Closed)?;
        outgoing
            .send(frame)
            .map_err(|_| match self.incoming.try_recv() {
                // Why it closed may have been said before.
                Ok(Ok(Frame::Message(bytes))) => match Message::decode(&bytes) {
                    Ok(Message::Failed(code, why)) => NetError::Peer(code, why),
                    _ => NetError::Closed,
                },
                Ok(Err(e)) => e,
                _ => NetError::Closed,
            })
    }

    /// Sends a message.
    pub fn say(&mut self, message: &Message) -> Result<(), NetError> {
        self.send(message.frame())
    }

    /// The next frame, waiting for it. A peer's [`Message::Failed`] is an error.
    pub fn receive(&mut self, job: &Job) -> Result<Frame, NetError> {
        loop {
            if job.is_cancelled() {
                return Err(NetError::Cancelled);
            }
            match self.incoming.recv_timeout(LOOK) {
                Ok(frame) => return self.take(frame?),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Err(NetError::Closed),
            }
        }
    }

    /// The next frame, if it has come.
    pub fn try_receive(&mut self) -> Result<Option<Frame>, NetError> {
        match self.incoming.try_recv() {
            Ok(frame) => self.take(frame?).map(Some),
            Err(_) => Ok(None),
        }
    }

    fn take(&mut self, frame: Frame) -> Result<Frame, NetError> {
        self.traffic.bytes_received += frame.wire_len();
        if let Frame::Message(bytes) = &frame
            && let Ok(Message::Failed(code, why)) = Message::decode(bytes)
        {
            return Err(NetError::Peer(code, why));
        }
        Ok(frame)
    }

    /// The next message, waiting for it.
    pub fn hear(&mut self, job: &Job) -> Result<Message, NetError> {
        match self.receive(job)? {
            Frame::Message(bytes) => Ok(Message::decode(&bytes)?),
            _ => Err(NetError::Protocol("objects where a message belongs")),
        }
    }

    /// Ends the connection after everything said has been handed to the transport.
    pub fn close(mut self) {
        self.outgoing = None;
        if let Some(writing) = self.writing.take() {
            // It ends when the last frame is out or the peer is gone.
            let _ = writing.join();
        }
    }
}

fn write_frames(mut writer: impl Write, queue: &Receiver<Frame>) -> io::Result<()> {
    writer.write_all(LINE.as_bytes())?;
    writer.flush()?;
    let mut whole = Vec::new();
    for frame in queue {
        let (head, body) = frame.parts();
        // One write for a frame: two small ones may wait for each other on a network.
        whole.clear();
        whole.extend_from_slice(&head);
        whole.extend_from_slice(body);
        writer.write_all(&whole)?;
        writer.flush()?;
    }
    Ok(())
}

fn read_frames(mut reader: impl Read, to: &SyncSender<Result<Frame, NetError>>) {
    let mut result = read_line(&mut reader);
    while result.is_ok() {
        result = match read_frame(&mut reader) {
            Ok(Some(frame)) => match to.send(Ok(frame)) {
                Ok(()) => Ok(()),
                Err(_) => return,
            },
            Ok(None) => return,
            Err(e) => Err(e),
        };
    }
    if let Err(e) = result {
        // Nobody may be left to hear it.
        let _ = to.send(Err(e));
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
fn read_frame(reader: &mut impl Read) -> Result<Option<Frame>, NetError> {
    let mut head = [0; FRAME_HEAD_BYTES];
    if !fill(reader, &mut head)? {
        return Ok(None);
    }
    let len = Frame::body_len(&head)?;
    // Grows as the bytes arrive: a length is only a claim.
    let mut body = Vec::new();
    let read = reader.take(len as u64).read_to_end(&mut body);
    match read {
        Ok(n) if n == len => Ok(Some(Frame::from_parts(&head, body)?)),
        _ => Err(NetError::Closed),
    }
}

/// Fills `buffer`; `false` at the end, which may only come before its first byte.
fn fill(reader: &mut impl Read, buffer: &mut [u8]) -> Result<bool, NetError> {
    let mut n = 0;
    while n < buffer.len() {
        match reader.read(&mut buffer[n..]) {
            Ok(0) if n == 0 => return Ok(false),
            Ok(0) => return Err(NetError::Closed),
            Ok(read) => n += read,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return Err(NetError::Closed),
        }
    }
    Ok(true)
}
