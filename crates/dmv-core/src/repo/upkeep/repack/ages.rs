//! Segments by age, so that copies are as old as what they copy.
//!
//! A segment has one time for all its objects. A copy has that of the youngest segment whose objects it
//! takes: garbage must not seem older than it is, because gc would free what an interrupted transfer
//! still needs. It should not seem much younger either, or a repack now and then would keep it for ever.
//! So objects are joined with those of the same day alone while they are young. These days are counted
//! from a fixed time. So the times do not drift, however often repack runs.

use crate::store::{PackId, SegmentRow};
use std::collections::{BTreeMap, HashMap};

const DAY: i64 = 24 * 60 * 60;
/// Ages up to which days are told apart: the usual time of grace of gc.
const YOUNG: i64 = 14 * DAY;
/// Days that are joined when their objects are older than that.
const MONTH: i64 = 30 * DAY;
/// Ages from which all objects count as equally old.
const OLD: i64 = 365 * DAY;

/// Segments whose objects may be joined, in the order in which they were stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Group {
    /// The time in seconds since 1970 at which the youngest was stored.
    pub at: i64,
    pub segments: Vec<SegmentRow>,
}

/// Sorts segments into groups, oldest first. `stored_at` has the time of each, by its pack and end.
pub(super) fn groups(
    segments: Vec<SegmentRow>,
    stored_at: &HashMap<(PackId, u64), i64>,
    now: i64,
) -> Vec<Group> {
    let at_of = |row: &SegmentRow| stored_at.get(&(row.pack, row.end)).copied().unwrap_or(now);
    let mut begun: HashMap<PackId, i64> = HashMap::new();
    for row in &segments {
        let at = at_of(row);
        let first = begun.entry(row.pack).or_insert(at);
        *first = at.min(*first);
    }
    let mut in_order: Vec<(i64, i64, SegmentRow)> = segments
        .into_iter()
        .map(|row| (at_of(&row), begun[&row.pack], row))
        .collect();
    in_order.sort_unstable_by_key(|(at, begun, row)| (*at, *begun, row.pack, row.start));
    let mut groups: BTreeMap<(u8, i64), Group> = BTreeMap::new();
    for (at, _, row) in in_order {
        let segments = Vec::new();
        let group = groups
            .entry(span(at, now))
            .or_insert(Group { at, segments });
        group.at = group.at.max(at);
        group.segments.push(row);
    }
    groups.into_values().collect()
}

/// Returns the span of time whose objects may be joined. Spans are in the order of time.
fn span(at: i64, now: i64) -> (u8, i64) {
    match now.saturating_sub(at) {
        age if age < YOUNG => (2, at.div_euclid(DAY)),
        age if age < OLD => (1, at.div_euclid(MONTH)),
        _ => (0, 0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::PackKind;

    fn segment(pack: u8, start: u64) -> SegmentRow {
        SegmentRow {
            pack: PackId::from_bytes([pack; 16]),
            kind: PackKind::Meta,
            start,
            end: start + 100,
            entries: 1,
        }
    }

    fn grouped(of: &[(u8, u64, i64)], now: i64) -> Vec<(i64, Vec<(u8, u64)>)> {
        let rows = of
            .iter()
            .map(|(pack, start, _)| segment(*pack, *start))
            .collect();
        let key = |pack, start: u64| (segment(pack, start).pack, start + 100);
        let times = of
            .iter()
            .map(|(pack, start, at)| (key(*pack, *start), *at))
            .collect();
        let name = |row: &SegmentRow| (row.pack.as_bytes()[0], row.start);
        let groups = groups(rows, &times, now).into_iter();
        groups
            .map(|group| (group.at, group.segments.iter().map(name).collect()))
            .collect()
    }

    #[test]
    fn objects_stay_in_their_day_while_they_are_young() {
        let now = 1_000 * DAY + 500;
        let of = [
            (1, 64, now - 900 * DAY),
            (1, 200, now - 400 * DAY),
            (1, 300, now - 13 * DAY),
            (2, 64, now - 13 * DAY - 10),
            (2, 200, now - 12 * DAY),
            (2, 300, now),
        ];
        let expected = [
            (now - 400 * DAY, vec![(1, 64), (1, 200)]),
            (now - 13 * DAY, vec![(2, 64), (1, 300)]),
            (now - 12 * DAY, vec![(2, 200)]),
            (now, vec![(2, 300)]),
        ];
        assert_eq!(grouped(&of, now), expected);
    }

    #[test]
    fn no_object_gets_older_and_none_gets_out_of_its_day_however_often() {
        let mut now = 5_000 * DAY;
        // Each day one segment is stored and everything is joined.
        let mut known: Vec<(i64, i64)> = Vec::new();
        for _ in 0..60 {
            known.push((now, now));
            let of: Vec<(u8, u64, i64)> = known
                .iter()
                .enumerate()
                .map(|(n, (_, at))| (1, n as u64 * 100, *at))
                .collect();
            for (at, members) in grouped(&of, now) {
                for (_, start) in members {
                    known[start as usize / 100].1 = at;
                }
            }
            for (real, at) in &known {
                assert!(at >= real, "it got older");
                let is_young = now - at < YOUNG;
                assert!(!is_young || at - real < DAY, "{} days", (now - real) / DAY);
            }
            now += DAY + 7;
        }
    }

    #[test]
    fn packs_of_one_time_keep_their_order_and_an_unknown_time_is_now() {
        let of = [(2, 64, 7), (1, 300, 9), (1, 64, 9), (2, 200, 9)];
        assert_eq!(
            grouped(&of, 10),
            [(9, vec![(2, 64), (2, 200), (1, 64), (1, 300)])]
        );
        let groups = groups(vec![segment(1, 64)], &HashMap::new(), 33);
        assert_eq!((groups.len(), groups[0].at), (1, 33));
        assert_eq!(super::groups(Vec::new(), &HashMap::new(), 33), []);
    }
}
