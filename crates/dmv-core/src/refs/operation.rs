//! Operations: every change of the view, with its author and the values that it replaced.
//!
//! An operation is written to the log pack before the database knows it (docs/format/pack.md), so
//! the database is never the only copy. The old values make every operation reversible.

use super::{NewOperation, RefsError};
use crate::limits::{MAX_OP_BYTES, MAX_OP_CHANGES, MAX_PATH_BYTES};
use crate::object::codec::{DecodeError, Decoder, put_bytes, put_varint};
use crate::store::random_bytes;
use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const VERSION: u8 = 2;
/// The version of records without [`Origin`]. It can still be read.
const VERSION_1: u8 = 1;
/// Greatest number of an operation: the next number still fits SQLite's integers.
const MAX_SEQ: u64 = i64::MAX as u64 - 1;
/// Most bytes of a key or a short text in an operation.
const MAX_KEY_BYTES: usize = 1024;
/// Most bytes of a value: a subset's patterns or a path.
const MAX_VALUE_BYTES: usize = 4 * MAX_PATH_BYTES;

/// A point in time with its time zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timestamp {
    /// Seconds since 1970-01-01 UTC.
    pub seconds: i64,
    /// Nanoseconds within the second.
    pub nanos: u32,
    /// Offset of the time zone from UTC, in minutes to the east.
    pub tz_minutes: i16,
}

impl Timestamp {
    /// Returns the day in its time zone, as 2026-11-21.
    pub fn date(&self) -> String {
        let seconds = self.seconds.saturating_add(60 * i64::from(self.tz_minutes));
        // Days since 0000-03-01, in years that end with February.
        let days = seconds.div_euclid(86_400).saturating_add(719_468);
        let (era, day) = (days.div_euclid(146_097), days.rem_euclid(146_097));
        let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
        let day = day - (365 * year + year / 4 - year / 100);
        let month = (5 * day + 2) / 153;
        let day = day - (153 * month + 2) / 5 + 1;
        let (month, next) = if month < 10 {
            (month + 3, 0)
        } else {
            (month - 9, 1)
        };
        format!("{:04}-{month:02}-{day:02}", era * 400 + year + next)
    }
}

impl From<SystemTime> for Timestamp {
    /// Converts a time, in UTC. A time too far from 1970 becomes the nearest one that can be
    /// stored.
    fn from(time: SystemTime) -> Timestamp {
        let seconds = |span: Duration| i64::try_from(span.as_secs()).unwrap_or(i64::MAX);
        let (seconds, nanos) = match time.duration_since(UNIX_EPOCH) {
            Ok(after) => (seconds(after), after.subsec_nanos()),
            Err(before) => match before.duration() {
                span if span.subsec_nanos() == 0 => (-seconds(span), 0),
                span => (-seconds(span) - 1, 1_000_000_000 - span.subsec_nanos()),
            },
        };
        Timestamp {
            seconds,
            nanos,
            tz_minutes: 0,
        }
    }
}

/// One key of the view, with its values before and after.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The key.
    pub key: String,
    /// The value before; `None` if the key was absent.
    pub old: Option<Vec<u8>>,
    /// The value after; `None` if the key is absent.
    pub new: Option<Vec<u8>>,
}

/// The effect of an operation on the files of worktrees. `undo` must reverse it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Effect {
    /// No effect.
    #[default]
    Kept,
    /// The files of its worktree were made equal to the new base and subset.
    Written,
    /// A worktree was added, removed or moved.
    Worktree,
}

impl Effect {
    fn from_number(n: u8) -> Option<Effect> {
        [Effect::Kept, Effect::Written, Effect::Worktree]
            .into_iter()
            .find(|effect| *effect as u8 == n)
    }
}

/// Where an operation was made, and what it changed apart from the view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// Name of the worktree; empty if it was made outside a worktree.
    pub worktree: String,
    /// The effect on files.
    pub effect: Effect,
}

/// A recorded change of the view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operation {
    /// Position in the repository's log, from 1.
    pub seq: u64,
    /// Random id.
    pub id: [u8; 16],
    /// Id of the operation before it; zeros for the first.
    pub previous: [u8; 16],
    /// The time of the change.
    pub time: Timestamp,
    /// The user who made it.
    pub who: String,
    /// The command line.
    pub command: String,
    /// Number of the operation that this one undoes; 0 if none.
    pub undoes: u64,
    /// Where it was made, and its effect; `None` in records of version 1.
    pub origin: Option<Origin>,
    /// The changes, by key.
    pub changes: Vec<Change>,
}

impl Operation {
    /// Returns the operation that follows `last`.
    pub fn after(last: Option<&Operation>, new: NewOperation) -> Operation {
        let mut changes = new.changes;
        changes.sort_by(|a, b| a.key.cmp(&b.key));
        Operation {
            seq: last.map_or(1, |op| op.seq + 1),
            id: random_bytes(),
            previous: last.map_or([0; 16], |op| op.id),
            time: new.time,
            who: clip(&new.who),
            command: clip(&new.command),
            undoes: new.undoes,
            origin: Some(new.origin),
            changes,
        }
    }

    /// Returns the name of the worktree that it was made in; empty if none.
    pub fn worktree(&self) -> &str {
        // There was only this worktree before records named it.
        self.origin
            .as_ref()
            .map_or("main", |origin| &origin.worktree)
    }

    /// Returns its effect on files. For records of version 1 see docs/format/pack.md, "Operation
    /// record".
    pub fn effect(&self) -> Effect {
        let changes = |f: fn(&str) -> bool| self.changes.iter().any(|change| f(&change.key));
        match &self.origin {
            Some(origin) => origin.effect,
            None if changes(|key| key.starts_with("branch/")) => Effect::Kept,
            None if changes(|key| key.ends_with("/base")) => Effect::Written,
            None => Effect::Kept,
        }
    }

    /// Returns the encoding.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![match self.origin {
            Some(_) => VERSION,
            None => VERSION_1,
        }];
        put_varint(&mut out, self.seq);
        out.extend_from_slice(&self.id);
        out.extend_from_slice(&self.previous);
        out.extend_from_slice(&self.time.seconds.to_le_bytes());
        out.extend_from_slice(&self.time.nanos.to_le_bytes());
        out.extend_from_slice(&self.time.tz_minutes.to_le_bytes());
        put_bytes(&mut out, self.who.as_bytes());
        put_bytes(&mut out, self.command.as_bytes());
        put_varint(&mut out, self.undoes);
        if let Some(origin) = &self.origin {
            put_bytes(&mut out, origin.worktree.as_bytes());
            out.push(origin.effect as u8);
        }
        put_varint(&mut out, self.changes.len() as u64);
        for change in &self.changes {
            put_bytes(&mut out, change.key.as_bytes());
            out.push(u8::from(change.old.is_some()) | u8::from(change.new.is_some()) << 1);
            for value in [&change.old, &change.new].into_iter().flatten() {
                put_bytes(&mut out, value);
            }
        }
        out
    }

    /// Fails if no program could read this operation again.
    pub fn check_limits(&self) -> Result<(), RefsError> {
        let too_large = |change: &Change, what| {
            let key = clip(&change.key);
            RefsError::TooLarge { key, what }
        };
        for change in &self.changes {
            if change.key.len() > MAX_KEY_BYTES {
                return Err(too_large(change, "its name"));
            }
            let values = [&change.old, &change.new];
            if values
                .into_iter()
                .flatten()
                .any(|value| value.len() > MAX_VALUE_BYTES)
            {
                return Err(too_large(change, "its value"));
            }
        }
        let is_too_long = || self.encode().len() > MAX_OP_BYTES;
        match self.changes.first() {
            Some(first) if self.changes.len() > MAX_OP_CHANGES || is_too_long() => {
                Err(too_large(first, "the change of it and others at once"))
            }
            _ => Ok(()),
        }
    }

    /// Decodes an operation. Fails for bytes that [`encode`](Self::encode) does not make.
    pub fn decode(bytes: &[u8]) -> Result<Operation, DecodeError> {
        let mut input = Decoder::new(bytes);
        if bytes.len() > MAX_OP_BYTES {
            return Err(input.error("operation is too large"));
        }
        let version = input.version(VERSION_1..=VERSION)?;
        let seq = input.varint_up_to(MAX_SEQ, "sequence number is too large")?;
        let id = input
            .take(16)?
            .try_into()
            .expect("sixteen bytes were taken");
        let previous = input
            .take(16)?
            .try_into()
            .expect("sixteen bytes were taken");
        let time = Timestamp {
            seconds: input.i64()?,
            nanos: input.u32()?,
            tz_minutes: input.i16()?,
        };
        let who = text(&mut input, MAX_KEY_BYTES)?;
        let command = text(&mut input, MAX_VALUE_BYTES)?;
        let undoes = input.varint_up_to(MAX_SEQ, "sequence number is too large")?;
        let origin = match version {
            VERSION_1 => None,
            _ => {
                let worktree = text(&mut input, MAX_KEY_BYTES)?;
                let effect = Effect::from_number(input.u8()?);
                let effect = effect.ok_or_else(|| input.error("unknown effect"))?;
                Some(Origin { worktree, effect })
            }
        };
        let count = input.varint_up_to(MAX_OP_CHANGES as u64, "too many changes")?;
        let mut changes: Vec<Change> = Vec::new();
        for _ in 0..count {
            let key = text(&mut input, MAX_KEY_BYTES)?;
            if changes.last().is_some_and(|last| last.key >= key) {
                return Err(input.error("changes are not sorted"));
            }
            let flags = input.u8()?;
            if flags > 3 {
                return Err(input.error("unknown flags"));
            }
            let mut value = |bit: u8| -> Result<Option<Vec<u8>>, DecodeError> {
                if flags & bit == 0 {
                    return Ok(None);
                }
                Ok(Some(
                    input.bytes(MAX_VALUE_BYTES, "value is too long")?.to_vec(),
                ))
            };
            let (old, new) = (value(1)?, value(2)?);
            changes.push(Change { key, old, new });
        }
        input.finish()?;
        Ok(Operation {
            seq,
            id,
            previous,
            time,
            who,
            command,
            undoes,
            origin,
            changes,
        })
    }
}

fn text(input: &mut Decoder, max: usize) -> Result<String, DecodeError> {
    let bytes = input.bytes(max, "text is too long")?;
    String::from_utf8(bytes.to_vec()).map_err(|_| input.error("text is not UTF-8"))
}

/// Cuts a text, between characters, to the length that an operation can hold.
fn clip(text: &str) -> String {
    let mut end = text.len().min(MAX_KEY_BYTES);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text[..end].to_owned()
}

/// Returns the keys and values that `operations` leave when they are applied in order.
pub(crate) fn view_of(operations: &[Operation]) -> BTreeMap<&str, &[u8]> {
    let mut view = BTreeMap::new();
    for change in operations.iter().flat_map(|op| &op.changes) {
        match &change.new {
            Some(value) => view.insert(&*change.key, &**value),
            None => view.remove(&*change.key),
        };
    }
    view
}

/// Returns the operations that count, in order, out of all operations found in a log.
///
/// A crash between the log and the database leaves an operation that the next one does not name as
/// its predecessor; it does not count. If it is the last one, it counts, because its data is
/// durable. If damage destroyed a predecessor, the chain continues with the operation before that
/// one.
pub fn newest_chain(found: Vec<Operation>) -> Vec<Operation> {
    let mut by_id: std::collections::HashMap<[u8; 16], usize> = Default::default();
    for (n, operation) in found.iter().enumerate() {
        by_id.insert(operation.id, n);
    }
    let mut chain = Vec::new();
    let mut next = found.len().checked_sub(1);
    let mut found: Vec<Option<Operation>> = found.into_iter().map(Some).collect();
    while let Some((n, operation)) = next.and_then(|n| Some((n, found[n].take()?))) {
        next = by_id.get(&operation.previous).copied().or_else(|| {
            // The lost operation had the number seq - 1. Another one with that number does not
            // count.
            let before = |op: &Operation| op.seq + 1 < operation.seq;
            let lost = operation.previous != [0; 16];
            let mut earlier = (0..n).rev().filter(|_| lost);
            earlier.find(|n| found[*n].as_ref().is_some_and(before))
        });
        chain.push(operation);
    }
    chain.reverse();
    chain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_shows_its_day_in_its_zone() {
        let date = |seconds, tz_minutes| {
            let nanos = 0;
            Timestamp {
                seconds,
                nanos,
                tz_minutes,
            }
            .date()
        };
        for (seconds, tz_minutes, day) in [
            (0, 0, "1970-01-01"),
            (-1, 0, "1969-12-31"),
            (-1, 60, "1970-01-01"),
            (951_782_399, 0, "2000-02-28"),
            (951_782_400, 0, "2000-02-29"),
            (951_868_800, 0, "2000-03-01"),
            (4_107_542_400, 0, "2100-03-01"),
            (1_796_166_000, 0, "2026-12-01"),
            (1_796_166_000, -1_440, "2026-11-30"),
        ] {
            assert_eq!(date(seconds, tz_minutes), day, "{seconds}");
        }
        // A damaged clock shows anything, without a panic.
        date(i64::MAX, 0);
        date(i64::MIN, -600);
    }

    #[test]
    fn a_system_time_keeps_its_nanoseconds_before_and_after_1970() {
        let half = Duration::from_millis(500);
        for (time, seconds, nanos) in [
            (UNIX_EPOCH, 0, 0),
            (UNIX_EPOCH + half * 3, 1, 500_000_000),
            (UNIX_EPOCH - half, -1, 500_000_000),
            (UNIX_EPOCH - half * 4, -2, 0),
        ] {
            let stamp = Timestamp::from(time);
            assert_eq!((stamp.seconds, stamp.nanos), (seconds, nanos));
        }
    }

    fn operation(seq: u64, id: u8, previous: u8) -> Operation {
        Operation {
            seq,
            id: [id; 16],
            previous: [previous; 16],
            time: Timestamp {
                seconds: -5,
                nanos: 7,
                tz_minutes: -90,
            },
            who: "Ann".into(),
            command: "dmv commit".into(),
            undoes: 0,
            origin: Some(Origin {
                worktree: "main".into(),
                effect: Effect::Written,
            }),
            changes: vec![
                Change {
                    key: "branch/a".into(),
                    old: None,
                    new: Some(vec![1; 32]),
                },
                Change {
                    key: "branch/b".into(),
                    old: Some(vec![2; 32]),
                    new: None,
                },
            ],
        }
    }

    #[test]
    fn operations_round_trip_and_other_bytes_are_refused() {
        let good = operation(3, 9, 8).encode();
        assert_eq!(Operation::decode(&good), Ok(operation(3, 9, 8)));
        let first = Operation {
            origin: None,
            ..operation(3, 9, 8)
        };
        assert_eq!(Operation::decode(&first.encode()), Ok(first.clone()));
        for good in [good, first.encode()] {
            for cut in 0..good.len() {
                assert!(Operation::decode(&good[..cut]).is_err(), "cut at {cut}");
            }
            assert!(Operation::decode(&[good, vec![0]].concat()).is_err());
        }
    }

    #[test]
    fn an_operation_of_version_1_tells_its_effect_by_its_keys() {
        let of = |keys: &[&str]| {
            let change = |key: &&str| Change {
                key: (*key).into(),
                old: None,
                new: Some(vec![1; 32]),
            };
            let operation = Operation {
                origin: None,
                changes: keys.iter().map(change).collect(),
                ..operation(1, 1, 0)
            };
            assert_eq!(operation.worktree(), "main");
            operation.effect()
        };
        assert_eq!(of(&["branch/main", "worktree/main/base"]), Effect::Kept);
        assert_eq!(
            of(&["worktree/main/base", "worktree/main/head"]),
            Effect::Written
        );
        assert_eq!(of(&["worktree/main/head"]), Effect::Kept);
        assert_eq!(of(&["tag/v1"]), Effect::Kept);
    }

    #[test]
    fn an_operation_that_nobody_built_on_drops_out() {
        let log = vec![operation(1, 1, 0), operation(2, 2, 1), operation(2, 3, 1)];
        let ids = |ops: Vec<Operation>| ops.into_iter().map(|op| op.id[0]).collect::<Vec<_>>();
        assert_eq!(ids(newest_chain(log.clone())), [1, 3]);
        assert_eq!(ids(newest_chain(log[..2].to_vec())), [1, 2]);
        assert_eq!(ids(newest_chain(vec![])), [0u8; 0]);
    }

    #[test]
    fn a_number_that_has_no_successor_is_refused() {
        let last = operation(MAX_SEQ, 9, 8);
        assert_eq!(Operation::decode(&last.encode()), Ok(last.clone()));
        assert_eq!(newest_chain(vec![last.clone(), last]).len(), 1);
        for seq in [MAX_SEQ + 1, u64::MAX] {
            assert!(Operation::decode(&operation(seq, 9, 8).encode()).is_err());
            let mut undo = operation(3, 9, 8);
            undo.undoes = seq;
            assert!(Operation::decode(&undo.encode()).is_err());
        }
    }

    #[test]
    fn an_operation_lost_to_damage_takes_none_before_it_along() {
        // Number 3 is lost; 9 was another number 3, which no operation followed.
        let log = [(1, 1, 0), (2, 2, 1), (3, 9, 2), (4, 4, 3), (5, 5, 4)];
        let log = log.map(|(seq, id, previous)| operation(seq, id, previous));
        let ids: Vec<u8> = newest_chain(log.to_vec())
            .iter()
            .map(|op| op.id[0])
            .collect();
        assert_eq!(ids, [1, 2, 4, 5]);
    }
}
