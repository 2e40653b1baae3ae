//! Waiting for the other side: for how long, and what counts as a sign of life.
//!
//! Bytes that move and messages show that it gets on. That it says that it works shows only that it
//! is there. Which of this all has come is counted by the threads that read and write, so that it is
//! noticed also where whole frames find no room.

use super::NetError;
use crate::wire::{Frame, Message};
use std::io::{self, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// What the other side has to move within the patience it is given, either way, or say in whole
/// messages, to get on: much less than a bad telephone line carries.
const LEAST_BYTES: u64 = 16 << 10;
/// How many patiences a side is waited for that only says that it works. Long work that says nothing
/// else, like a walk through all of a store, takes less; a place is not held for ever.
pub const LONGEST: u32 = 24;
/// How often this side says that it works, for each patience of the other's: one that comes late or
/// finds this side waiting for a moment is not missed.
const TIMES: u32 = 4;
/// But not more often.
const LEAST_PAUSE: Duration = Duration::from_millis(100);
/// And at least so often: what lies between may forget a connection that is silent.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// How often to look whether the other side has greeted.
const UNTIL_GREETED: Duration = Duration::from_millis(250);
/// Milliseconds that stand for "never".
const NEVER: u64 = u64::MAX;

/// What both sides of a connection show of themselves.
#[derive(Default)]
pub struct Signs {
    /// Bytes that went through it, both ways, but for those that say that somebody works.
    moved: AtomicU64,
    /// How often the other side has said so.
    worked: AtomicU64,
    /// This side waits for the other, and does not work.
    waits: AtomicBool,
    /// How often this side says that it works; 0: the other has not greeted.
    pause_millis: AtomicU64,
}

impl Signs {
    /// Notes whether this side waits for the other.
    pub fn is_waiting(&self, waits: bool) {
        self.waits.store(waits, Ordering::Relaxed);
    }

    /// The other side hears that this one works, if it has such patience.
    pub fn is_heard_by(&self, patience: Option<Duration>) {
        let pause = patience.map(|patience| (patience / TIMES).clamp(LEAST_PAUSE, LONGEST_PAUSE));
        let millis = pause.map_or(NEVER, |pause| pause.as_millis() as u64);
        self.pause_millis.store(millis, Ordering::Relaxed);
    }

    /// How long this side may be silent before somebody looks whether it works.
    pub fn pause(&self) -> Duration {
        match self.pause_millis.load(Ordering::Relaxed) {
            0 => UNTIL_GREETED,
            NEVER => LONGEST_PAUSE,
            millis => Duration::from_millis(millis),
        }
    }

    /// Whether this side is to say that it works.
    pub fn is_working(&self) -> bool {
        let is_heard = !matches!(self.pause_millis.load(Ordering::Relaxed), 0 | NEVER);
        is_heard && !self.waits.load(Ordering::Relaxed)
    }

    /// Notes bytes that came or went.
    pub fn moved(&self, bytes: usize) {
        self.moved.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Notes a frame that was sent.
    pub fn went(&self, frame: &Frame) {
        if is_working(frame) {
            self.moved.fetch_sub(frame.wire_len(), Ordering::Relaxed);
        }
    }

    /// Notes that the other side has said that it works.
    pub fn came_working(&self, frame: &Frame) {
        self.moved.fetch_sub(frame.wire_len(), Ordering::Relaxed);
        self.worked.fetch_add(1, Ordering::Relaxed);
    }
}

/// Whether a frame says that its sender works.
pub fn is_working(frame: &Frame) -> bool {
    // Long ones are decoded by whoever they are for.
    matches!(frame, Frame::Message(bytes)
        if bytes.len() == 1 && Message::decode(bytes) == Ok(Message::Working))
}

/// How long the other side has been waited for. Time in which nobody waits for it does not count.
#[derive(Default)]
pub struct Waiting {
    /// `None`: it is this process, which has no reason to stall.
    patience: Option<Duration>,
    /// What it shows of itself.
    pub signs: Arc<Signs>,
    /// How much had moved when it last got on.
    mark: u64,
    /// How long it has been waited for since.
    spent: Duration,
    /// How often it had said that it works when that was last looked at.
    worked: u64,
    /// How long it has been waited for since then, or since it got on.
    silent: Duration,
}

impl Waiting {
    /// Waits so long for a side that shows these signs.
    pub fn new(patience: Duration, signs: Arc<Signs>) -> Waiting {
        Waiting {
            patience: Some(patience),
            signs,
            ..Waiting::default()
        }
    }

    /// Waits for this long, where it waits for another process.
    pub fn be_patient(&mut self, time: Duration) {
        self.patience = self.patience.map(|_| time);
    }

    /// How long it waits for another process.
    pub fn patience(&self) -> Option<Duration> {
        self.patience
    }

    /// The other side has got on.
    pub fn is_answered(&mut self) {
        self.mark = self.signs.moved.load(Ordering::Relaxed);
        (self.spent, self.silent) = (Duration::ZERO, Duration::ZERO);
    }

    /// Somebody has waited for so long.
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
        match self.spent > longest {
            true => Err(NetError::Endless(longest)),
            false => Ok(()),
        }
    }
}

/// A stream whose bytes are counted as they move.
pub struct Counted<S> {
    pub(super) stream: S,
    signs: Arc<Signs>,
}

impl<S> Counted<S> {
    /// Counts into `signs`.
    pub fn new(stream: S, signs: &Arc<Signs>) -> Counted<S> {
        let signs = signs.clone();
        Counted { stream, signs }
    }

    pub(super) fn count(&self, moved: io::Result<usize>) -> io::Result<usize> {
        self.signs.moved(*moved.as_ref().unwrap_or(&0));
        moved
    }

    /// The stream, and where its bytes are counted.
    pub(super) fn parts(&mut self) -> (&mut S, &Signs) {
        (&mut self.stream, &self.signs)
    }
}

impl<S: Read> Read for Counted<S> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let read = self.stream.read(buf);
        self.count(read)
    }
}

impl<S: Write> Write for Counted<S> {
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

    fn waiting() -> Waiting {
        Waiting::new(SECOND * 10, Arc::default())
    }

    /// Waits second after second, at most `most`; what ends it, and when.
    fn ends(waiting: &mut Waiting, most: u32, each: impl Fn(&Waiting)) -> (u32, Option<NetError>) {
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
        let works = |waiting: &Waiting| waiting.signs.came_working(&Message::Working.frame());
        let moves = |n| {
            move |w: &Waiting| {
                w.signs.moved.fetch_add(n, Ordering::Relaxed);
            }
        };
        let (after, why) = ends(&mut waiting(), 1000, |_| {});
        assert!(matches!(why, Some(NetError::Stalled(_))), "{why:?}");
        assert_eq!(after, 11);
        let (after, why) = ends(&mut waiting(), 1000, |w| {
            // What says so has been counted when it was read.
            moves(6)(w);
            works(w);
        });
        assert!(matches!(why, Some(NetError::Endless(_))), "{why:?}");
        assert_eq!(after, 241);
        // A little besides is no progress either; enough of it is.
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
        // An answer lets both begin anew.
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
