//! The view of a bucket: keys and values, complete or as changes of a page.

use super::{MAX_KEY_BYTES, MAX_VALUE_BYTES};
use dmv_core::object::codec::{DecodeError, Decoder, put_bytes, put_varint};
use std::collections::BTreeMap;

/// The branches and tags of a bucket, as keys and values of a repository's view.
pub type View = BTreeMap<String, Vec<u8>>;

/// Keys with their new value; `None` if the key is removed.
pub type ViewChanges = BTreeMap<String, Option<Vec<u8>>>;

/// The most keys of a view, and likewise of changes.
const MAX_KEYS: u64 = 65_536;

pub(super) fn put_view(out: &mut Vec<u8>, view: &View) {
    put_varint(out, view.len() as u64);
    for (key, value) in view {
        put_bytes(out, key.as_bytes());
        put_bytes(out, value);
    }
}

pub(super) fn view(input: &mut Decoder) -> Result<View, DecodeError> {
    pairs(input, value)
}

pub(super) fn put_changes(out: &mut Vec<u8>, changes: &ViewChanges) {
    put_varint(out, changes.len() as u64);
    for (key, value) in changes {
        put_bytes(out, key.as_bytes());
        out.push(u8::from(value.is_some()));
        if let Some(value) = value {
            put_bytes(out, value);
        }
    }
}

pub(super) fn changes(input: &mut Decoder) -> Result<ViewChanges, DecodeError> {
    pairs(input, |input| match input.u8()? {
        0 => Ok(None),
        1 => value(input).map(Some),
        _ => Err(input.error("unknown flag")),
    })
}

fn value(input: &mut Decoder) -> Result<Vec<u8>, DecodeError> {
    Ok(input.bytes(MAX_VALUE_BYTES, "value is too long")?.to_vec())
}

fn pairs<T>(
    input: &mut Decoder,
    value: impl Fn(&mut Decoder) -> Result<T, DecodeError>,
) -> Result<BTreeMap<String, T>, DecodeError> {
    let mut pairs: BTreeMap<String, T> = BTreeMap::new();
    for _ in 0..input.varint_up_to(MAX_KEYS, "too many keys")? {
        let key = input.bytes(MAX_KEY_BYTES, "key is too long")?.to_vec();
        let key = String::from_utf8(key).map_err(|_| input.error("key is not UTF-8"))?;
        if pairs.last_key_value().is_some_and(|(last, _)| *last >= key) {
            return Err(input.error("keys are not sorted"));
        }
        pairs.insert(key, value(input)?);
    }
    Ok(pairs)
}
