//! Which packs `gc` removes, and which it rewrites first.
//!
//! This is arithmetic only: it decides what is worth its price, not what is safe.

use crate::store::PackUse;

/// A pack is rewritten if at least one part in this many of it is garbage.
const WORTH_REWRITING: u64 = 20;

/// Most bytes that are copied for each byte that is freed, over all packs together.
const COPIED_PER_FREED: u64 = 3;

/// A pack, and how its bytes are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Candidate {
    /// What its tables and marks show.
    pub usage: PackUse,
    /// The length of its file. Bytes after the last segment are garbage.
    pub file_bytes: u64,
    /// Whether the file has another name, so that its removal frees no space.
    pub is_linked: bool,
}

impl Candidate {
    /// Returns the bytes that go if the pack goes and everything that stays is copied.
    pub fn garbage_bytes(&self) -> u64 {
        self.file_bytes.saturating_sub(self.usage.staying_bytes())
    }

    fn is_empty(&self) -> bool {
        self.usage.stays == 0
    }

    /// Returns whether there is garbage at all, and not only the frame of the file.
    fn has_garbage(&self) -> bool {
        self.usage.others > 0 || self.file_bytes > self.usage.row.len
    }
}

/// What to do with packs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Plan {
    /// Packs in which nothing stays.
    pub remove: Vec<Candidate>,
    /// Packs to rewrite, the most worthwhile first.
    pub rewrite: Vec<Candidate>,
    /// The bytes of garbage in all other packs.
    pub waiting_bytes: u64,
}

/// Chooses among packs. With `thorough`, every pack with garbage is rewritten.
pub(super) fn choose(packs: &[Candidate], thorough: bool) -> Plan {
    let mut plan = Plan::default();
    let (empty, mut others): (Vec<Candidate>, Vec<Candidate>) =
        packs.iter().partition(|pack| pack.is_empty());
    others.retain(Candidate::has_garbage);
    // The pack that costs the least for what it gives comes first: by copied bytes per freed byte.
    others.sort_by(|a, b| {
        let cost = |of: &Candidate, by: &Candidate| {
            u128::from(of.usage.staying_bytes()) * u128::from(by.garbage_bytes())
        };
        cost(a, b)
            .cmp(&cost(b, a))
            .then(b.garbage_bytes().cmp(&a.garbage_bytes()))
            .then(a.usage.row.id.cmp(&b.usage.row.id))
    });
    let mut freed: u64 = empty.iter().map(Candidate::garbage_bytes).sum();
    let mut copied = 0;
    for pack in others {
        let garbage = pack.garbage_bytes();
        let (would_copy, would_free) = (copied + pack.usage.staying_bytes(), freed + garbage);
        let is_worth_it = garbage >= pack.file_bytes / WORTH_REWRITING
            && would_copy <= would_free.saturating_mul(COPIED_PER_FREED);
        if thorough || is_worth_it {
            (copied, freed) = (would_copy, would_free);
            plan.rewrite.push(pack);
        } else {
            plan.waiting_bytes += garbage
        }
    }
    plan.remove = empty;
    plan
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{PackId, PackKind, PackRow};

    fn pack(n: u8, len: u64, staying: u64, tail: u64) -> Candidate {
        let row = PackRow {
            id: PackId::from_bytes([n; 16]),
            kind: PackKind::Data,
            len,
            poisoned: false,
        };
        Candidate {
            usage: PackUse {
                row,
                marked_bytes: staying,
                marked: staying,
                young_bytes: 0,
                stays: staying,
                others: u64::from(len > staying + 100),
            },
            file_bytes: len + tail,
            is_linked: false,
        }
    }

    fn ids(packs: &[Candidate]) -> Vec<u8> {
        let ids = packs.iter().map(|pack| pack.usage.row.id.as_bytes()[0]);
        ids.collect()
    }

    #[test]
    fn what_holds_nothing_goes_and_the_cheapest_is_rewritten_first() {
        let packs = [
            pack(1, 10_000, 5_000, 0),
            pack(2, 10_000, 0, 0),
            pack(3, 10_000, 2_000, 0),
            pack(4, 10_000, 9_950, 0),
            pack(5, 10_000, 9_700, 0),
        ];
        let plan = choose(&packs, false);
        assert_eq!(
            (ids(&plan.remove), ids(&plan.rewrite)),
            (vec![2], vec![3, 1])
        );
        // The pack without garbage is not counted; the fifth is not worth it.
        assert_eq!(plan.waiting_bytes, 300);
        let plan = choose(&packs, true);
        assert_eq!(ids(&plan.rewrite), [3, 1, 5]);
        assert_eq!(plan.waiting_bytes, 0);
    }

    #[test]
    fn each_freed_byte_costs_at_most_three_copied_ones_over_all_packs() {
        for garbage in [500, 1_000, 2_000, 2_500, 4_000, 9_000] {
            let packs: Vec<Candidate> = (0..40)
                .map(|n| pack(n, 10_000, 10_000 - garbage * u64::from(n % 4 + 1) / 4, 0))
                .collect();
            let plan = choose(&packs, false);
            let copied: u64 = plan.rewrite.iter().map(|p| p.usage.staying_bytes()).sum();
            let chosen = plan.rewrite.iter().chain(&plan.remove);
            let freed: u64 = chosen.map(Candidate::garbage_bytes).sum();
            assert!(copied <= 3 * freed, "{garbage}: {copied} for {freed}");
            let all: u64 = packs.iter().map(Candidate::garbage_bytes).sum();
            assert_eq!(freed + plan.waiting_bytes, all, "{garbage}");
        }
        // Packs that cost nothing pay for others.
        let mut packs = vec![pack(1, 10_000, 9_000, 0)];
        assert_eq!(choose(&packs, false).rewrite, []);
        packs.push(pack(2, 10_000, 0, 0));
        assert_eq!(ids(&choose(&packs, false).rewrite), [1]);
    }

    #[test]
    fn a_torn_tail_is_garbage_and_the_frame_of_a_file_is_none() {
        assert_eq!(choose(&[pack(1, 1_000, 930, 0)], true), Plan::default());
        let plan = choose(&[pack(1, 1_000, 930, 4_000)], false);
        assert_eq!(ids(&plan.rewrite), [1]);
        assert_eq!(choose(&[], true), Plan::default());
    }
}
