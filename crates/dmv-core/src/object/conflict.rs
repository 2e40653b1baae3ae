//! Conflicts: the open question of a merge, stored as data (docs/format/objects.md).

use super::ObjectType;
use super::codec::{DecodeError, Decoder, EncodeError, put_header, put_varint};
use super::tree::{FLAG_LIST, FLAG_PRIVATE, Kind, TreeEntry, check_value};
use crate::hash::ObjectId;
use crate::limits::MAX_CONFLICT_TERMS;

/// The version that one side or base has at the path of the conflict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Term {
    /// Its kind; never a conflict.
    pub kind: Kind,
    /// Whether `id` is a list node. Only for files and executables.
    pub is_list: bool,
    /// Whether only its owner may read it. Only for files and executables.
    pub is_private: bool,
    /// The id of its object.
    pub id: ObjectId,
    /// Bytes of content.
    pub size: u64,
    /// Number of files below a directory; 0 for other kinds.
    pub files: u64,
}

impl Term {
    /// Returns the term for `entry`; `None` for a conflict, whose own terms the caller must use.
    pub fn of_entry(entry: &TreeEntry) -> Option<Term> {
        (entry.kind != Kind::Conflict).then_some(Term {
            kind: entry.kind,
            is_list: entry.is_list,
            is_private: entry.is_private(),
            id: entry.id,
            size: entry.size,
            files: entry.files,
        })
    }
}

/// What all sides started from, and what each side made of it. `None` is an absent version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// The versions that the sides started from.
    pub bases: Vec<Option<Term>>,
    /// The versions of the sides: one more than there are bases.
    pub sides: Vec<Option<Term>>,
}

impl Conflict {
    /// Returns the encoding. Fails if a rule or limit of the format is broken.
    pub fn encode(&self) -> Result<Vec<u8>, EncodeError> {
        if self.bases.is_empty() || self.bases.len() > MAX_CONFLICT_TERMS {
            return Err(EncodeError { what: BASES });
        }
        if self.sides.len() != self.bases.len() + 1 {
            return Err(EncodeError { what: SIDES });
        }
        let mut out = Vec::new();
        put_header(&mut out, ObjectType::Conflict);
        for terms in [&self.bases, &self.sides] {
            put_varint(&mut out, terms.len() as u64);
            for term in terms {
                put_term(&mut out, term.as_ref()).map_err(|what| EncodeError { what })?;
            }
        }
        Ok(out)
    }

    /// Decodes a conflict.
    pub fn decode(bytes: &[u8]) -> Result<Conflict, DecodeError> {
        let mut input = Decoder::new(bytes);
        input.header(ObjectType::Conflict)?;
        let count = input.varint_up_to(MAX_CONFLICT_TERMS as u64, BASES)?;
        if count == 0 {
            return Err(input.error(BASES));
        }
        // A merge may make as many conflicts as there are files, so their lists have no spare room.
        let terms = |input: &mut Decoder<'_>, count: u64| {
            let mut terms = Vec::with_capacity(count as usize);
            for _ in 0..count {
                terms.push(take_term(input)?);
            }
            Ok::<_, DecodeError>(terms)
        };
        let bases = terms(&mut input, count)?;
        if input.varint()? != count + 1 {
            return Err(input.error(SIDES));
        }
        let sides = terms(&mut input, count + 1)?;
        input.finish()?;
        Ok(Conflict { bases, sides })
    }
}

const BASES: &str = "conflict has no base or too many";
const SIDES: &str = "conflict has not one side more than bases";
const ABSENT: u8 = 0;

fn check_term(term: &Term) -> Result<(), &'static str> {
    if term.kind == Kind::Conflict {
        return Err("a conflict's term is a conflict");
    }
    if term.is_private && !term.kind.is_blob() {
        return Err("only a file can be private");
    }
    check_value(term.kind, term.is_list, term.size, term.files)
}

fn put_term(out: &mut Vec<u8>, term: Option<&Term>) -> Result<(), &'static str> {
    let Some(term) = term else {
        out.push(ABSENT);
        return Ok(());
    };
    check_term(term)?;
    let list = if term.is_list { FLAG_LIST } else { 0 };
    let private = if term.is_private { FLAG_PRIVATE } else { 0 };
    out.extend_from_slice(&[term.kind as u8, list | private]);
    out.extend_from_slice(term.id.as_bytes());
    put_varint(out, term.size);
    if term.kind == Kind::Directory {
        put_varint(out, term.files);
    }
    Ok(())
}

fn take_term(input: &mut Decoder<'_>) -> Result<Option<Term>, DecodeError> {
    let kind = match input.u8()? {
        ABSENT => return Ok(None),
        number => Kind::from_number(number).ok_or_else(|| input.error("unknown kind"))?,
    };
    let flags = input.u8()?;
    if flags & !(FLAG_LIST | FLAG_PRIVATE) != 0 {
        return Err(input.error("unknown flag"));
    }
    let id = input.id()?;
    let size = input.varint()?;
    let files = if kind == Kind::Directory {
        input.varint()?
    } else {
        0
    };
    let term = Term {
        kind,
        is_list: flags & FLAG_LIST != 0,
        is_private: flags & FLAG_PRIVATE != 0,
        id,
        size,
        files,
    };
    check_term(&term).map_err(|what| input.error(what))?;
    Ok(Some(term))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    prop_compose! {
        fn arb_term()(
            kind in 1u8..=4,
            list in any::<bool>(),
            private in any::<bool>(),
            id in any::<[u8; 32]>(),
            size in 1u64..4096,
            files in any::<u64>(),
        ) -> Term {
            let kind = Kind::from_number(kind).expect("1 to 4 are kinds");
            Term {
                kind,
                is_list: list && kind.is_blob(),
                is_private: private && kind.is_blob(),
                id: ObjectId::from_bytes(id),
                size,
                files: if kind == Kind::Directory { files } else { 0 },
            }
        }
    }

    fn arb_conflict() -> impl Strategy<Value = Conflict> {
        let term = || prop::option::weighted(0.8, arb_term());
        (1usize..5)
            .prop_flat_map(move |n| (vec(term(), n), vec(term(), n + 1)))
            .prop_map(|(bases, sides)| Conflict { bases, sides })
    }

    proptest! {
        #[test]
        fn conflicts_round_trip(conflict in arb_conflict()) {
            let bytes = conflict.encode().expect("the strategy makes valid conflicts");
            prop_assert_eq!(Conflict::decode(&bytes), Ok(conflict));
        }

        #[test]
        fn changed_bytes_fail_or_are_another_conflicts_encoding(
            conflict in arb_conflict(),
            at in any::<prop::sample::Index>(),
            byte in any::<u8>(),
            cut in any::<bool>(),
        ) {
            let mut bytes = conflict.encode().expect("the strategy makes valid conflicts");
            let at = at.index(bytes.len());
            if cut {
                bytes.truncate(at);
            } else {
                bytes[at] = byte;
            }
            if let Ok(conflict) = Conflict::decode(&bytes) {
                prop_assert_eq!(conflict.encode(), Ok(bytes));
            }
        }
    }

    #[test]
    fn conflicts_that_break_a_rule_are_refused() {
        let none = |n: usize| vec![None; n];
        let term = Term {
            kind: Kind::Conflict,
            is_list: false,
            is_private: false,
            id: ObjectId::from_bytes([1; 32]),
            size: 0,
            files: 0,
        };
        let private = |kind| Term {
            kind,
            is_private: true,
            size: 1,
            ..term
        };
        for (bases, sides) in [
            (none(0), none(1)),
            (none(1), none(1)),
            (none(1), none(3)),
            (none(65), none(66)),
            (vec![Some(term)], none(2)),
            (vec![Some(private(Kind::Directory))], none(2)),
            (vec![Some(private(Kind::Symlink))], none(2)),
        ] {
            assert!(Conflict { bases, sides }.encode().is_err());
        }
        let full = Conflict {
            bases: none(64),
            sides: none(65),
        };
        let bytes = full.encode().expect("64 bases are allowed");
        assert_eq!(Conflict::decode(&bytes), Ok(full));
    }
}
