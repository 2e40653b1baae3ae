//! The algebra of conflicts.
//!
//! The state of a path is a sum of terms: sides count plus one, bases minus one. A plain entry is
//! one side; a conflict is its sides minus its bases. A three-way merge is ours - base + theirs.
//! Equal terms of opposite sign cancel. So a merge over unresolved conflicts keeps what is still
//! open and drops what is settled. After Jujutsu's `Merge` (docs.jj-vcs.dev, "First-class
//! conflicts").

use crate::object::conflict::{Conflict, Term};
use crate::object::tree::{Kind, TreeEntry};

type Value = Option<Term>;

/// Sides and bases alternating: side, base, side, ... There is one more side than bases.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Terms(Vec<Value>);

impl Terms {
    /// Returns the terms of an entry. `conflict` is its conflict object, if it is one.
    pub fn of(entry: Option<&TreeEntry>, conflict: Option<Conflict>) -> Terms {
        let Some(conflict) = conflict else {
            return Terms(vec![entry.and_then(Term::of_entry)]);
        };
        let mut sides = conflict.sides.into_iter();
        let mut out = Vec::from_iter(sides.next());
        for (base, side) in conflict.bases.into_iter().zip(sides) {
            out.push(base);
            out.push(side);
        }
        Terms(out)
    }

    /// Returns ours - base + theirs, after cancelling.
    pub fn merge(base: Terms, ours: Terms, theirs: Terms) -> Terms {
        let mut out = ours.0;
        // Reversed, every term of the base is in a place of the other sign.
        out.extend(base.0.into_iter().rev());
        out.extend(theirs.0);
        let mut terms = Terms(out);
        terms.cancel();
        terms
    }

    /// Returns the open question between two answers to the conflict `open`. The base of that
    /// conflict stays the base.
    pub fn asked_again(open: Terms, ours: Terms, theirs: Terms) -> Terms {
        let base = open.0.get(1).copied().flatten();
        Terms(vec![ours.0[0], base, theirs.0[0]])
    }

    fn cancel(&mut self) {
        let terms = &mut self.0;
        let mut side = 0;
        while side < terms.len() {
            let equal = (1..terms.len())
                .step_by(2)
                .find(|base| terms[*base] == terms[side]);
            match equal {
                Some(base) => {
                    // The side after that base moves to the place of this side.
                    terms.swap(base + 1, side);
                    terms.drain(base..base + 2);
                    side = 0;
                }
                None => side += 2,
            }
        }
    }

    /// Returns the value of all sides, if they agree.
    pub fn agreed(&self) -> Option<Value> {
        let first = self.0[0];
        self.0
            .iter()
            .step_by(2)
            .all(|side| *side == first)
            .then_some(first)
    }

    /// Returns the base and both sides, if there are no other terms.
    pub fn three(&self) -> Option<[Value; 3]> {
        match self.0[..] {
            [ours, base, theirs] => Some([base, ours, theirs]),
            _ => None,
        }
    }

    /// Returns the terms as the format stores them.
    pub fn into_conflict(self) -> Conflict {
        let bases = self.0.len() / 2;
        let (mut bases, mut sides) = (Vec::with_capacity(bases), Vec::with_capacity(bases + 1));
        for (n, term) in self.0.into_iter().enumerate() {
            match n % 2 {
                0 => sides.push(term),
                _ => bases.push(term),
            }
        }
        Conflict { bases, sides }
    }
}

/// The kind of question that a conflict asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConflictKind {
    /// Both sides changed the content.
    Content,
    /// Both sides added it with different content.
    AddAdd,
    /// Ours deleted it, and theirs changed it.
    DeleteModify,
    /// Ours changed it, and theirs deleted it.
    ModifyDelete,
    /// It is a directory on one side and something else on the other.
    FileDirectory,
    /// It is a file on one side and a symlink on the other.
    Type,
    /// The content is equal, but only one side is executable or private.
    Mode,
    /// Both sides are symlinks, to different targets.
    Symlink,
    /// It has more than two sides, because conflicts were merged again.
    ManySides,
}

impl ConflictKind {
    /// Returns the kind of a conflict.
    pub fn of(conflict: &Conflict) -> ConflictKind {
        let kinds = || {
            let terms = conflict.bases.iter().chain(&conflict.sides);
            terms.flatten().map(|term| term.kind)
        };
        let ([base], [ours, theirs]) = (&conflict.bases[..], &conflict.sides[..]) else {
            return ConflictKind::ManySides;
        };
        let blob = |kind: Kind| kind.is_blob();
        let mode = |term: &Term| (term.kind, term.is_private);
        match (base, ours, theirs) {
            _ if kinds().any(|kind| kind == Kind::Directory) => ConflictKind::FileDirectory,
            (_, None, _) => ConflictKind::DeleteModify,
            (_, _, None) => ConflictKind::ModifyDelete,
            (_, Some(a), Some(b)) if a.id == b.id && mode(a) != mode(b) => ConflictKind::Mode,
            (_, Some(a), Some(b)) if blob(a.kind) != blob(b.kind) => ConflictKind::Type,
            (_, Some(a), _) if a.kind == Kind::Symlink => ConflictKind::Symlink,
            (None, ..) => ConflictKind::AddAdd,
            _ => ConflictKind::Content,
        }
    }

    /// Returns the word for it.
    pub fn word(self) -> &'static str {
        match self {
            ConflictKind::Content => "content",
            ConflictKind::AddAdd => "add/add",
            ConflictKind::DeleteModify => "delete/modify",
            ConflictKind::ModifyDelete => "modify/delete",
            ConflictKind::FileDirectory => "file/directory",
            ConflictKind::Type => "type",
            ConflictKind::Mode => "mode",
            ConflictKind::Symlink => "symlink",
            ConflictKind::ManySides => "many-sides",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::ObjectId;
    use proptest::prelude::*;

    fn term(n: u8) -> Value {
        (n > 0).then(|| Term {
            kind: Kind::File,
            is_list: false,
            is_private: false,
            id: ObjectId::from_bytes([n; 32]),
            size: 1,
            files: 0,
        })
    }

    fn plain(n: u8) -> Terms {
        Terms(vec![term(n)])
    }

    fn merge(base: &Terms, ours: &Terms, theirs: &Terms) -> Terms {
        Terms::merge(base.clone(), ours.clone(), theirs.clone())
    }

    #[test]
    fn one_sided_and_equal_changes_are_agreed_on() {
        let (a, b, c) = (plain(1), plain(2), plain(3));
        assert_eq!(merge(&a, &a, &b).agreed(), Some(term(2)));
        assert_eq!(merge(&a, &b, &a).agreed(), Some(term(2)));
        assert_eq!(merge(&a, &b, &b).agreed(), Some(term(2)));
        assert_eq!(merge(&a, &b, &c).agreed(), None);
        assert_eq!(merge(&a, &plain(0), &plain(0)).agreed(), Some(None));
    }

    #[test]
    fn a_conflict_is_kept_by_a_merge_that_does_not_touch_it() {
        let open = merge(&plain(1), &plain(2), &plain(3));
        assert_eq!(merge(&plain(9), &open, &plain(9)), open);
        assert_eq!(merge(&open, &open, &plain(4)).agreed(), Some(term(4)));
        assert_eq!(merge(&open, &plain(4), &open).agreed(), Some(term(4)));
        assert_eq!(open.clone().into_conflict().sides, [term(2), term(3)]);
    }

    #[test]
    fn a_further_side_is_added_and_the_base_in_between_drops_out() {
        // ours: unresolved (2 - 1 + 3); theirs changed 3 to 4.
        let open = merge(&plain(1), &plain(2), &plain(3));
        let more = merge(&plain(3), &open, &plain(4));
        assert_eq!(more, merge(&plain(1), &plain(2), &plain(4)));
    }

    proptest! {
        #[test]
        fn sums_of_terms_are_kept(values in prop::collection::vec(0u8..4, 9)) {
            let three = |at: usize| merge(&plain(values[at]), &plain(values[at + 1]), &plain(values[at + 2]));
            let (base, ours, theirs) = (three(0), three(3), three(6));
            let sum = |terms: &Terms, n: u8| -> i32 {
                terms.0.iter().enumerate().filter(|(_, t)| **t == term(n)).map(|(at, _)| 1 - 2 * (at as i32 % 2)).sum()
            };
            let merged = merge(&base, &ours, &theirs);
            for n in 0..4 {
                prop_assert_eq!(sum(&merged, n), sum(&ours, n) - sum(&base, n) + sum(&theirs, n));
            }
            // No terms remain that could cancel.
            for side in merged.0.iter().step_by(2) {
                prop_assert!(!merged.0.iter().skip(1).step_by(2).any(|base| base == side));
            }
        }
    }
}
