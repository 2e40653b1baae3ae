//! The optional attributes of an entry: docs/format/objects.md, "Attributes".
//!
//! They are kept encoded, because attributes that this version does not know stay as they are.

use crate::limits::MAX_ATTR_BYTES;
use crate::object::codec::{DecodeError, Decoder, put_bytes, put_varint};

/// Encoded attributes: one or more, or none.
pub type Attrs = Option<Box<[u8]>>;

/// The tag of the modification time.
const TAG_MTIME: u64 = 1;
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

/// Returns whether attributes say that only its owner may read a file.
pub(super) fn is_private(attrs: Option<&[u8]>) -> bool {
    each(attrs).any(|(tag, _)| tag == TAG_PRIVATE)
}

/// Returns attributes that say whether only its owner may read a file. The others stay as they are, as
/// far as there is room.
pub(super) fn with_privacy(attrs: Attrs, private: bool) -> Attrs {
    if is_private(attrs.as_deref()) == private {
        return attrs;
    }
    let mut all: Vec<(u64, &[u8])> = each(attrs.as_deref())
        .filter(|(tag, _)| *tag != TAG_PRIVATE)
        .collect();
    if private {
        all.push((TAG_PRIVATE, b""));
        all.sort_unstable_by_key(|(tag, _)| *tag);
    }
    let encode = |all: &[(u64, &[u8])]| {
        let mut out = Vec::new();
        for (tag, value) in all {
            put_varint(&mut out, *tag);
            put_bytes(&mut out, value);
        }
        out
    };
    let mut out = encode(&all);
    if out.len() > MAX_ATTR_BYTES {
        // Privacy is more important than what others may have put there.
        out = encode(&[(TAG_PRIVATE, b"")]);
    }
    (!out.is_empty()).then(|| out.into_boxed_slice())
}

/// Merges attributes. If both sides changed them, ours count.
pub(crate) fn merge_attrs(
    base: Option<&Attrs>,
    ours: Option<&Attrs>,
    theirs: Option<&Attrs>,
) -> Attrs {
    match (ours, theirs) {
        (Some(ours), Some(theirs)) if base == Some(ours) => theirs.clone(),
        (Some(ours), _) => ours.clone(),
        (None, theirs) => theirs.cloned().flatten(),
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
}
