//! Extended attributes of a file: docs/format/objects.md, "Extended attributes".
//!
//! A set has names and values within the limits, so that it always fits into an entry. Only names of users can
//! be written down: those that begin with `user.`, without this beginning.

use crate::limits::{MAX_XATTR_NAME_BYTES, MAX_XATTRS, MAX_XATTRS_BYTES};
use crate::object::codec::{DecodeError, Decoder, put_bytes};
use std::collections::{BTreeMap, BTreeSet};

/// The extended attributes of a file: names without `user.`, and their values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Xattrs(BTreeMap<String, Vec<u8>>);

/// What the names of users begin with. The set does not have it.
pub const XATTR_PREFIX: &str = "user.";

/// What names begin with that a file system or a container obeys: such an attribute can show another file, none, or
/// another owner.
const OBEYED: [&str; 3] = ["containers.", "fuseoverlayfs.", "overlay."];

/// The attributes are too many or too large for an entry, or one has a name that an entry cannot have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the extended attributes are too many, have more than {MAX_XATTRS_BYTES} bytes or a bad name"
)]
pub struct XattrsTooLarge;

impl Xattrs {
    /// Returns a set of these names, without `user.`, and values.
    pub fn new(all: impl IntoIterator<Item = (String, Vec<u8>)>) -> Result<Xattrs, XattrsTooLarge> {
        let set = Xattrs(all.into_iter().collect());
        let names_fit = set.0.keys().all(|name| Xattrs::can_name(name));
        let fits = set.0.len() <= MAX_XATTRS && set.encode().len() <= MAX_XATTRS_BYTES;
        if names_fit && fits {
            Ok(set)
        } else {
            Err(XattrsTooLarge)
        }
    }

    /// Returns whether a set can have this name, which is without `user.`.
    pub fn can_name(name: &str) -> bool {
        (1..=MAX_XATTR_NAME_BYTES).contains(&name.len())
            && !name.contains(char::is_control)
            && !OBEYED.iter().any(|prefix| name.starts_with(prefix))
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the names, without `user.`, and the values, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.0.iter().map(|(name, value)| (&name[..], &value[..]))
    }

    /// Returns those whose names are `wanted`.
    pub fn only(&self, wanted: impl Fn(&str) -> bool) -> Xattrs {
        let kept = self.0.iter().filter(|(name, _)| wanted(name));
        Xattrs(kept.map(|(n, v)| (n.clone(), v.clone())).collect())
    }

    /// Returns these and those of `others` whose names are not among these.
    pub fn and(&self, others: &Xattrs) -> Result<Xattrs, XattrsTooLarge> {
        let mut all = others.0.clone();
        all.extend(self.0.clone());
        Xattrs::new(all)
    }

    /// Returns the names whose values differ, or that only one of the two has, by name.
    pub fn differing<'a>(&'a self, other: &'a Xattrs) -> Vec<&'a str> {
        let names: BTreeSet<&String> = self.0.keys().chain(other.0.keys()).collect();
        let differ = |name: &&String| self.0.get(*name) != other.0.get(*name);
        names.into_iter().filter(differ).map(|n| &n[..]).collect()
    }

    /// Merges each attribute by itself: what one side has changed counts. If both have, the greater value does,
    /// by its bytes, and any value is greater than none, so that it does not matter who merges. Of more than an
    /// entry can have, the first by name stay.
    pub(super) fn merge(base: &Xattrs, ours: &Xattrs, theirs: &Xattrs) -> Xattrs {
        let names: BTreeSet<&String> = ours.0.keys().chain(theirs.0.keys()).collect();
        let mut merged = Xattrs::default();
        for name in names {
            let [base, ours, theirs] = [base, ours, theirs].map(|side| side.0.get(name));
            let value = match () {
                () if ours == base => theirs,
                () if theirs == base => ours,
                () => ours.max(theirs),
            };
            let Some(value) = value else { continue };
            merged.0.insert(name.clone(), value.clone());
            if merged.0.len() > MAX_XATTRS || merged.encode().len() > MAX_XATTRS_BYTES {
                merged.0.remove(name);
            }
        }
        merged
    }

    /// Returns the value of the attribute of an entry.
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for (name, value) in &self.0 {
            put_bytes(&mut out, name.as_bytes());
            put_bytes(&mut out, value);
        }
        out
    }

    /// Reads the value of the attribute of an entry. The errors are those of `input`, which holds the value alone.
    pub(super) fn decode(value: &[u8]) -> Result<Xattrs, DecodeError> {
        let mut input = Decoder::new(value);
        if value.is_empty() || value.len() > MAX_XATTRS_BYTES {
            return Err(input.error("extended attributes are empty or too long"));
        }
        let mut all = BTreeMap::new();
        while input.remaining() > 0 {
            let long = "the name of an extended attribute is too long";
            let name = input.bytes(MAX_XATTR_NAME_BYTES, long)?;
            let name = std::str::from_utf8(name)
                .ok()
                .filter(|name| Xattrs::can_name(name));
            let name = name.ok_or_else(|| input.error("an extended attribute has a bad name"))?;
            let value = input.bytes(MAX_XATTRS_BYTES, "an extended attribute is too long")?;
            let rises = all
                .last_key_value()
                .is_none_or(|(l, _): (&String, _)| &l[..] < name);
            if !rises || all.len() >= MAX_XATTRS {
                return Err(input.error("extended attributes do not rise or are too many"));
            }
            all.insert(name.to_owned(), value.to_vec());
        }
        Ok(Xattrs(all))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(all: &[(&str, &str)]) -> Xattrs {
        let all = all.iter();
        Xattrs::new(all.map(|(n, v)| ((*n).to_owned(), v.as_bytes().to_vec()))).expect("it fits")
    }

    #[test]
    fn a_set_has_one_encoding() {
        let two = set(&[("b", ""), ("a", "1")]);
        assert_eq!(two.encode(), b"\x01a\x011\x01b\x00");
        assert_eq!(Xattrs::decode(&two.encode()), Ok(two));
        for bad in [
            &b""[..],
            b"\x00\x00",
            b"\x01a",
            b"\x01a\x02x",
            b"\x01b\x00\x01a\x00",
            b"\x01a\x00\x01a\x00",
            b"\x01\n\x00",
            b"\x01\xff\x00",
            b"\x01a\x81\x00x",
            b"\x0boverlay.foo\x00",
        ] {
            assert!(Xattrs::decode(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn limits_hold_on_both_ways() {
        let large = |n: usize| Xattrs::new([("a".to_owned(), vec![7; n])]);
        // One byte for the length of the name, one for the name, two for the length of the value.
        let most = large(MAX_XATTRS_BYTES - 4).expect("it fits");
        assert_eq!(Xattrs::decode(&most.encode()), Ok(most.clone()));
        assert_eq!(large(MAX_XATTRS_BYTES - 3), Err(XattrsTooLarge));
        let mut long = most.encode();
        long.extend(b"\x01b\x00");
        assert!(Xattrs::decode(&long).is_err());
        let many = |n: usize| Xattrs::new((0..n).map(|n| (format!("{n:03}"), Vec::new())));
        let most = many(MAX_XATTRS).expect("they fit").encode();
        assert!(Xattrs::decode(&most).is_ok());
        assert_eq!(many(MAX_XATTRS + 1), Err(XattrsTooLarge));
        assert!(Xattrs::decode(&[&most[..], b"\x03999\x00"].concat()).is_err());
        let named = |n: usize| Xattrs::new([("x".repeat(n), Vec::new())]);
        let most = named(MAX_XATTR_NAME_BYTES).expect("it fits");
        assert_eq!(Xattrs::decode(&most.encode()), Ok(most));
        assert_eq!(named(MAX_XATTR_NAME_BYTES + 1), Err(XattrsTooLarge));
        assert_eq!(named(0), Err(XattrsTooLarge));
    }

    #[test]
    fn each_attribute_merges_by_itself_whoever_merges() {
        let base = set(&[("a", "1"), ("b", "1"), ("c", "1"), ("d", "1")]);
        let ours = set(&[("a", "2"), ("b", "1"), ("c", "7"), ("new", "x")]);
        let theirs = set(&[("a", "1"), ("c", "9"), ("d", "3")]);
        let want = set(&[("a", "2"), ("c", "9"), ("d", "3"), ("new", "x")]);
        assert_eq!(Xattrs::merge(&base, &ours, &theirs), want);
        assert_eq!(Xattrs::merge(&base, &theirs, &ours), want);
        let half = |name: &str| Xattrs::new([(name.to_owned(), vec![1; MAX_XATTRS_BYTES / 2])]);
        let (a, b) = (half("a").expect("it fits"), half("b").expect("it fits"));
        let none = Xattrs::default();
        assert_eq!(Xattrs::merge(&none, &a, &b), a);
        assert_eq!(Xattrs::merge(&none, &b, &a), a);
    }

    #[test]
    fn differences_name_what_is_new_gone_or_other() {
        let old = set(&[("a", "1"), ("b", "1"), ("c", "1")]);
        let new = set(&[("b", "2"), ("c", "1"), ("d", "")]);
        assert_eq!(old.differing(&new), ["a", "b", "d"]);
        assert_eq!(old.only(|name| name > "a"), set(&[("b", "1"), ("c", "1")]));
        assert_eq!(
            new.and(&old),
            Ok(set(&[("a", "1"), ("b", "2"), ("c", "1"), ("d", "")]))
        );
    }
}
