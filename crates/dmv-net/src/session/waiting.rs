//! Waiting for the other side: for how long, and which signs count as progress.
//!
//! Bytes that move, and messages, show progress. A Working message only shows that the peer is
//! alive. The threads that read and write count these signs, so that they are noticed even when no
//! complete frame finds room in a queue. [`Link`](super::Link) uses this.

use super::NetError;
use crate::wire::{Frame, Message};
use std::io::{self, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// The bytes that the other side must move within the patience, in either direction, unless it
/// sends a complete message. Even a bad telephone line carries much more.
const LEAST_BYTES: u64 = 16 << 10;
/// How many times its patience a side waits for a peer that only sends Working. Long silent work,
/// such as a walk through a complete store, takes less. But the peer does not keep its place
/// forever.
pub const LONGEST: u32 = 24;
/// How often this side sends Working within the other side's patience. The other side then
/// tolerates one that is late, or one that is left out because this side was just waiting.
const TIMES: u32 = 4;
/// The shortest time between two Working messages.
const LEAST_PAUSE: Duration = Duration::from_millis(100);
/// The longest time between two Working messages: a device on the way may forget a silent
/// connection.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// How often to check whether the other side's Hello has arrived.
const UNTIL_GREETED: Duration = Duration::from_millis(250);
/// A pause that means: never send Working.
const NEVER: u64 = u64::MAX;

/// What both sides of a connection show of their activity. The link's threads share it.
#[derive(Default)]
pub struct Signs {
    /// The bytes that moved in either direction, without those of Working messages.
    moved: AtomicU64,
    /// How many Working messages have arrived.
    worked: AtomicU64,
    /// Whether this side waits for the other, so that it is not busy.
    waits: AtomicBool,
    /// How often this side sends Working, in milliseconds. 0: the other side's Hello has not
    /// arrived.
    pause_millis: AtomicU64,
}

impl Signs {
    /// Records whether this side waits for the other.
    pub fn is_waiting(&self, waits: bool) {
        self.waits.store(waits, Ordering::Relaxed);
    }

    /// Records the other side's patience; `None` if it does not know Working.
    pub fn is_heard_by(&self, patience: Option<Duration>) {
        let pause = patience.map(|patience| (patience / TIMES).clamp(LEAST_PAUSE, LONGEST_PAUSE));
        let millis = pause.map_or(NEVER, |pause| pause.as_millis() as u64);
        self.pause_millis.store(millis, Ordering::Relaxed);
    }

    /// Returns how long this side may be silent before it must check whether to send Working.
    pub fn pause(&self) -> Duration {
        match self.pause_millis.load(Ordering::Relaxed) {
            0 => UNTIL_GREETED,
            NEVER => LONGEST_PAUSE,
            millis => Duration::from_millis(millis),
        }
    }

    /// Returns whether this side should send Working.
    pub fn is_working(&self) -> bool {
        let is_heard = !matches!(self.pause_millis.load(Ordering::Relaxed), 0 | NEVER);
        is_heard && !self.waits.load(Ordering::Relaxed)
    }

    /// Counts bytes that arrived or were sent.
    pub fn moved(&self, bytes: usize) {
        self.moved.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Counts a frame that was sent. The bytes of Working do not count.
    pub fn went(&self, frame: &Frame) {
        if is_working(frame) {
            self.moved.fetch_sub(frame.wire_len(), Ordering::Relaxed);
        }
    }

    /// Counts a Working message that arrived.
    pub fn came_working(&self, frame: &Frame) {
        self.moved.fetch_sub(frame.wire_len(), Ordering::Relaxed);
        self.worked.fetch_add(1, Ordering::Relaxed);
    }
}

/// Returns whether a frame is a [`Message::Working`].
pub fn is_working(frame: &Frame) -> bool {
    // Only a message of one byte can be Working. Longer ones are not decoded twice.
    matches!(frame, Frame::Message(bytes)
        if bytes.len() == 1 && Message::decode(bytes) == Ok(Message::Working))
}

/// How long this side has waited for the other. Only time that is spent waiting counts.
#[derive(Default)]
pub struct WaitTime {
    /// This side's patience. `None`: the other side is in this process and cannot stall.
    patience: Option<Duration>,
    /// The signs that both sides show.
    pub signs: Arc<Signs>,
    /// The moved bytes at the other side's last progress.
    mark: u64,
    /// The time spent waiting since then.
    spent: Duration,
    /// The number of Working messages at the last check.
    worked: u64,
    /// The time spent waiting since the last Working message or the last progress.
    silent: Duration,
}

impl WaitTime {
    /// Waits with this patience for a side that shows these signs.
    pub fn new(patience: Duration, signs: Arc<Signs>) -> WaitTime {
        WaitTime {
            patience: Some(patience),
            signs,
            ..WaitTime::default()
        }
    }

    /// Sets the patience, unless the other side is in this process.
    pub fn be_patient(&mut self, time: Duration) {
        self.patience = self.patience.map(|_| time);
    }

    /// Returns the patience; `None` if the other side is in this process.
    pub fn patience(&self) -> Option<Duration> {
        self.patience
    }

    /// Records progress: both times start again.
    pub fn is_answered(&mut self) {
        self.mark = self.signs.moved.load(Ordering::Relaxed);
        (self.spent, self.silent) = (Duration::ZERO, Duration::ZERO);
    }

    /// Adds `time` spent waiting. Fails with [`NetError::Stalled`] if the other side was silent for
    /// longer than the patience. Fails with [`NetError::Endless`] if it only sent Working for
    /// [`LONGEST`] times the patience.
    pub fn spent(&mut self, time: Duration) -> Result<(), NetError> {
        let moved = self.signs.moved.load(Ordering::Relaxed);
        if moved.saturating_sub(self.mark) >= LEAST_BYTES {
            self.is_answered();
            return Ok(());
        }
        let worked = self.signs.worked.load(Ordering::Relaxed);
        if worked != self.worked {
            (self.worked, self.silent) = (worked, Duration::ZERO);
        }
        self.spent += time;
        self.silent += time;
        let Some(patience) = self.patience else {
            return Ok(());
        };
        if self.silent > patience {
            return Err(NetError::Stalled(patience));
        }
        let longest = patience.saturating_mul(LONGEST);
        if self.spent > longest {
            Err(NetError::Endless(longest))
        } else {
            Ok(())
        }
    }
}

/// A stream whose bytes are counted as they move.
pub struct CountedStream<S> {
    pub(super) stream: S,
    signs: Arc<Signs>,
}

impl<S> CountedStream<S> {
    /// Counts the bytes of `stream` in `signs`.
    pub fn new(stream: S, signs: &Arc<Signs>) -> CountedStream<S> {
        let signs = signs.clone();
        CountedStream { stream, signs }
    }

    pub(super) fn count(&self, moved: io::Result<usize>) -> io::Result<usize> {
        self.signs.moved(*moved.as_ref().unwrap_or(&0));
        moved
    }

    /// Returns the stream, and where its bytes are counted.
    pub(super) fn parts(&mut self) -> (&mut S, &Signs) {
        (&mut self.stream, &self.signs)
    }
}

impl<S: Read> Read for CountedStream<S> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let read = self.stream.read(buf);
        self.count(read)
    }
}

impl<S: Write> Write for CountedStream<S> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.stream.write(bytes);
        self.count(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn waiting() -> WaitTime {
        WaitTime::new(SECOND * 10, Arc::default())
    }

    /// Spends seconds waiting, at most `most`. Returns how many passed and the error that ended it.
    fn ends(
        waiting: &mut WaitTime,
        most: u32,
        each: impl Fn(&WaitTime),
    ) -> (u32, Option<NetError>) {
        for n in 1..=most {
            each(waiting);
            if let Err(e) = waiting.spent(SECOND) {
                return (n, Some(e));
            }
        }
        (most, None)
    }

    #[test]
    fn who_says_that_it_works_is_waited_for_longer_and_not_for_ever() {
        let works = |waiting: &WaitTime| waiting.signs.came_working(&Message::Working.frame());
        let moves = |n| {
            move |w: &WaitTime| {
                w.signs.moved.fetch_add(n, Ordering::Relaxed);
            }
        };
        let (after, why) = ends(&mut waiting(), 1000, |_| {});
        assert!(matches!(why, Some(NetError::Stalled(_))), "{why:?}");
        assert_eq!(after, 11);
        let (after, why) = ends(&mut waiting(), 1000, |w| {
            // The reader counts the bytes of a Working frame before it is known to be one.
            moves(6)(w);
            works(w);
        });
        assert!(matches!(why, Some(NetError::Endless(_))), "{why:?}");
        assert_eq!(after, 241);
        // A few more bytes are no progress either. Enough bytes are.
        let (after, why) = ends(&mut waiting(), 1000, |w| {
            moves(6 + 40)(w);
            works(w);
        });
        assert!(matches!(why, Some(NetError::Endless(_))), "{why:?}");
        assert_eq!(after, 241);
        assert!(
            ends(&mut waiting(), 1000, moves(LEAST_BYTES / 9))
                .1
                .is_none()
        );
        // An answer starts both times again.
        let mut waiting = waiting();
        assert!(ends(&mut waiting, 10, |_| {}).1.is_none());
        waiting.is_answered();
        assert!(ends(&mut waiting, 10, |_| {}).1.is_none());
        assert!(ends(&mut waiting, 1, |_| {}).1.is_some());
    }

    #[test]
    fn a_side_says_that_it_works_as_often_as_the_other_needs() {
        let signs = Signs::default();
        assert_eq!(signs.pause(), UNTIL_GREETED);
        assert!(!signs.is_working());
        for (patience, pause) in [
            (Duration::ZERO, LEAST_PAUSE),
            (SECOND * 8, SECOND * 2),
            (SECOND * 300, SECOND * 60),
            (Duration::from_millis(u64::from(u32::MAX)), LONGEST_PAUSE),
        ] {
            signs.is_heard_by(Some(patience));
            assert_eq!(signs.pause(), pause);
            assert!(signs.is_working());
        }
        signs.is_waiting(true);
        assert!(!signs.is_working());
        signs.is_waiting(false);
        signs.is_heard_by(None);
        assert!(!signs.is_working());
    }
}
