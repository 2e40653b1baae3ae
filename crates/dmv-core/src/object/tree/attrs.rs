//! The optional attributes of an entry: docs/format/objects.md, "Attributes".
//!
//! They are kept encoded, because attributes that this version does not know stay as they are.

use crate::limits::MAX_ATTR_BYTES;
use crate::object::codec::{DecodeError, Decoder, put_bytes, put_varint};
use crate::object::tree::xattrs::Xattrs;
use std::ops::RangeInclusive;

/// Encoded attributes: one or more, or none.
pub type Attrs = Option<Box<[u8]>>;

/// When the content of a file was changed for the last time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ModifiedTime {
    /// Seconds since 1970 UTC.
    pub seconds: i64,
    /// Nanoseconds in that second, below 10^9.
    pub nanos: u32,
}

/// The tag of the modification time.
const TAG_MTIME: u64 = 1;
/// The seconds from the beginning of the year 1 to the end of 9999. Other programs do not know other times.
const YEARS: RangeInclusive<i64> = -62_135_596_800..=253_402_300_799;
/// The tag of the extended attributes.
const TAG_XATTRS: u64 = 2;
/// The tag of a file that only its owner may read. Its value is empty.
const TAG_PRIVATE: u64 = 4;

/// Checks that `attrs` is one or more attributes with rising tags, and the values that are known.
pub(super) fn check_attrs(attrs: &[u8]) -> Result<(), DecodeError> {
    let mut input = Decoder::new(attrs);
    if attrs.is_empty() || attrs.len() > MAX_ATTR_BYTES {
        return Err(input.error("attributes are empty or too long"));
    }
    let mut last = None;
    while input.remaining() > 0 {
        let (tag, value) = take_attr(&mut input)?;
        if last.is_some_and(|last| last >= tag) {
            return Err(input.error("attribute tags do not rise"));
        }
        last = Some(tag);
        match tag {
            TAG_MTIME => {
                let mut value = Decoder::new(value);
                value.i64()?;
                if value.u32()? >= 1_000_000_000 {
                    return Err(input.error("nanoseconds exceed a second"));
                }
                value.finish()?;
            }
            TAG_XATTRS => drop(Xattrs::decode(value)?),
            TAG_PRIVATE if !value.is_empty() => {
                return Err(input.error("the attribute of private files has a value"));
            }
            _ => {}
        }
    }
    Ok(())
}

fn take_attr<'a>(input: &mut Decoder<'a>) -> Result<(u64, &'a [u8]), DecodeError> {
    let tag = input.varint()?;
    Ok((tag, input.bytes(MAX_ATTR_BYTES, "attribute is too long")?))
}

/// Returns the tags and values of attributes that were checked.
fn each(attrs: Option<&[u8]>) -> impl Iterator<Item = (u64, &[u8])> {
    let mut input = Decoder::new(attrs.unwrap_or_default());
    std::iter::from_fn(move || match input.remaining() {
        0 => None,
        _ => take_attr(&mut input).ok(),
    })
}

/// Returns the value of an attribute.
fn value(attrs: Option<&[u8]>, tag: u64) -> Option<&[u8]> {
    each(attrs)
        .find(|(found, _)| *found == tag)
        .map(|(_, value)| value)
}

/// Returns attributes that have this value for `tag`, or none. The others stay as they are, as far as there is
/// room.
fn with_value(attrs: Attrs, tag: u64, new: Option<&[u8]>) -> Attrs {
    if value(attrs.as_deref(), tag) == new {
        return attrs;
    }
    let others = each(attrs.as_deref()).filter(|(found, _)| *found != tag);
    let mut all: Vec<(u64, &[u8])> = others.chain(new.map(|new| (tag, new))).collect();
    all.sort_unstable_by_key(|(tag, _)| *tag);
    let mut out = encode(&all);
    if out.len() > MAX_ATTR_BYTES {
        // What is known is more important than what others may have put there.
        all.retain(|(tag, _)| [TAG_MTIME, TAG_XATTRS, TAG_PRIVATE].contains(tag));
        out = encode(&all);
    }
    (!out.is_empty()).then(|| out.into_boxed_slice())
}

fn encode(attrs: &[(u64, &[u8])]) -> Vec<u8> {
    let mut out = Vec::new();
    for (tag, value) in attrs {
        put_varint(&mut out, *tag);
        put_bytes(&mut out, value);
    }
    out
}

/// Returns whether attributes say that only its owner may read a file.
pub(super) fn is_private(attrs: Option<&[u8]>) -> bool {
    value(attrs, TAG_PRIVATE).is_some()
}

/// Returns attributes that say whether only its owner may read a file.
pub(super) fn with_privacy(attrs: Attrs, private: bool) -> Attrs {
    with_value(attrs, TAG_PRIVATE, private.then_some(b""))
}

/// Returns the time of the last change, if it is in the years that count.
pub(super) fn modified(attrs: Option<&[u8]>) -> Option<ModifiedTime> {
    let mut value = Decoder::new(value(attrs, TAG_MTIME)?);
    let time = ModifiedTime {
        seconds: value.i64().ok()?,
        nanos: value.u32().ok()?,
    };
    YEARS.contains(&time.seconds).then_some(time)
}

/// Returns attributes with this time of the last change, or without one.
pub(super) fn with_modified(attrs: Attrs, time: Option<ModifiedTime>) -> Attrs {
    let time = time.filter(|time| YEARS.contains(&time.seconds));
    let mut value = Vec::new();
    if let Some(ModifiedTime { seconds, nanos }) = time {
        value.extend_from_slice(&seconds.to_le_bytes());
        value.extend_from_slice(&nanos.to_le_bytes());
    }
    with_value(attrs, TAG_MTIME, time.map(|_| &value[..]))
}

/// Returns the extended attributes, if there are any.
pub(super) fn xattrs(attrs: Option<&[u8]>) -> Option<Xattrs> {
    Xattrs::decode(value(attrs, TAG_XATTRS)?).ok()
}

/// Returns attributes with these extended attributes.
pub(super) fn with_xattrs(attrs: Attrs, xattrs: &Xattrs) -> Attrs {
    let value = xattrs.encode();
    with_value(attrs, TAG_XATTRS, (!xattrs.is_empty()).then_some(&value))
}

/// Merges attributes. If both sides changed them, ours count; of two times, the later one. Extended attributes
/// merge by themselves.
pub(crate) fn merge_attrs(
    base: Option<&Attrs>,
    ours: Option<&Attrs>,
    theirs: Option<&Attrs>,
) -> Attrs {
    let merged = match (ours, theirs) {
        (Some(ours), Some(theirs)) if base == Some(ours) => theirs.clone(),
        (Some(ours), _) => ours.clone(),
        (None, theirs) => theirs.cloned().flatten(),
    };
    let merged = match (ours, theirs) {
        (Some(ours), Some(theirs)) => {
            let of = |attrs: &Attrs| xattrs(attrs.as_deref()).unwrap_or_default();
            let base = base.map(of).unwrap_or_default();
            with_xattrs(merged, &Xattrs::merge(&base, &of(ours), &of(theirs)))
        }
        _ => merged,
    };
    let [base, ours, theirs] =
        [base, ours, theirs].map(|side| side.and_then(|attrs| modified(attrs.as_deref())));
    match (ours, theirs) {
        (Some(a), Some(b)) if Some(a) != base && Some(b) != base => {
            with_modified(merged, Some(a.max(b)))
        }
        (Some(a), Some(b)) => with_modified(merged, Some(if Some(a) == base { b } else { a })),
        _ => merged,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attrs(bytes: &[u8]) -> Attrs {
        Some(bytes.into())
    }

    #[test]
    fn privacy_is_one_attribute_among_others() {
        assert_eq!(with_privacy(None, true), attrs(&[4, 0]));
        assert_eq!(with_privacy(attrs(&[4, 0]), false), None);
        let git = [3, 1, 3];
        let both = with_privacy(attrs(&git), true);
        assert_eq!(both, attrs(&[3, 1, 3, 4, 0]));
        assert!(is_private(both.as_deref()) && !is_private(Some(&git)));
        assert_eq!(with_privacy(both.clone(), true), both);
        assert_eq!(with_privacy(both, false), attrs(&git));
        assert_eq!(
            with_privacy(attrs(&[9, 1, 0]), true),
            attrs(&[4, 0, 9, 1, 0])
        );
    }

    #[test]
    fn what_leaves_no_room_for_privacy_gives_way_to_it() {
        let mut full = vec![9];
        put_bytes(&mut full, &[7; MAX_ATTR_BYTES - 3]);
        assert_eq!(full.len(), MAX_ATTR_BYTES);
        assert!(check_attrs(&full).is_ok());
        assert_eq!(with_privacy(attrs(&full), true), attrs(&[4, 0]));
    }

    #[test]
    fn a_private_file_has_no_value_for_it() {
        assert!(check_attrs(&[4, 0]).is_ok());
        assert!(check_attrs(&[4, 1, 1]).is_err());
        assert!(check_attrs(&[4, 0, 4, 0]).is_err());
        assert!(check_attrs(&[4, 0, 3, 0]).is_err());
    }

    fn at(seconds: i64, nanos: u32) -> Option<ModifiedTime> {
        Some(ModifiedTime { seconds, nanos })
    }

    #[test]
    fn times_keep_their_place_and_have_whole_nanoseconds() {
        let both = with_modified(attrs(&[4, 0]), at(-1, 999_999_999));
        assert_eq!(modified(both.as_deref()), at(-1, 999_999_999));
        assert!(is_private(both.as_deref()) && check_attrs(both.as_deref().unwrap_or(&[])).is_ok());
        assert_eq!(with_modified(both, None), attrs(&[4, 0]));
        let wrong = with_modified(None, at(0, 1_000_000_000));
        assert!(check_attrs(wrong.as_deref().unwrap_or(&[])).is_err());
        for seconds in [i64::MIN, *YEARS.start() - 1, *YEARS.end() + 1, i64::MAX] {
            assert_eq!(with_modified(None, at(seconds, 0)), None);
            let mut absurd = vec![1, 12];
            absurd.extend(seconds.to_le_bytes());
            absurd.extend([0; 4]);
            assert!(check_attrs(&absurd).is_ok());
            assert_eq!(modified(Some(&absurd)), None);
        }
    }

    #[test]
    fn of_two_new_times_the_later_counts_and_of_one_that_one() {
        let with = |n: i64| with_modified(None, at(n, 0));
        let merged = |base: Option<i64>, ours: i64, theirs: i64| {
            let base = base.map(with);
            let merged = merge_attrs(base.as_ref(), Some(&with(ours)), Some(&with(theirs)));
            modified(merged.as_deref()).map(|time| time.seconds)
        };
        assert_eq!(merged(Some(5), 7, 9), Some(9));
        assert_eq!(merged(Some(5), 9, 7), Some(9));
        assert_eq!(merged(None, 2, 3), Some(3));
        assert_eq!(merged(Some(5), 5, 3), Some(3));
        assert_eq!(merged(Some(5), 3, 5), Some(3));
    }
}
