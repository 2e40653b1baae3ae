//! Object ids, checks and hex. This is the only module that calls BLAKE3.
//!
//! An object's id is the BLAKE3 hash of its bytes: plain for chunks, and in derive-key mode with
//! one context per type for every other object (docs/format/objects.md). So objects of different
//! types never share an id. The module uses no other module of this crate, and every room that
//! handles objects uses it.

use std::fmt;

/// Length of an id in bytes.
pub const ID_BYTES: usize = 32;

/// Names one object by the hash of its bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectId([u8; ID_BYTES]);

impl ObjectId {
    /// Wraps 32 bytes that already are an id.
    pub const fn from_bytes(bytes: [u8; ID_BYTES]) -> ObjectId {
        ObjectId(bytes)
    }

    /// Returns the id's bytes.
    pub const fn as_bytes(&self) -> &[u8; ID_BYTES] {
        &self.0
    }

    /// Returns the first four bytes as a little-endian number.
    ///
    /// The numbers are uniformly distributed. They choose node boundaries and shards.
    pub(crate) fn low_u32(&self) -> u32 {
        u32::from_le_bytes([self.0[0], self.0[1], self.0[2], self.0[3]])
    }

    /// Parses exactly 64 hex digits of either case; `None` for anything else.
    pub fn from_hex(hex: &str) -> Option<ObjectId> {
        let bytes = decode_hex(hex)?;
        Some(ObjectId(bytes.try_into().ok()?))
    }

    /// Returns the first `digits` lower-case hex digits, at most 64.
    pub fn short(&self, digits: usize) -> String {
        let mut hex = self.to_string();
        hex.truncate(digits);
        hex
    }
}

impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|b| write!(f, "{b:02x}"))
    }
}

impl fmt::Debug for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.short(12))
    }
}

/// Decodes hex digits of either case. Returns `None` for an odd number of digits or any other byte.
pub fn decode_hex(hex: &str) -> Option<Vec<u8>> {
    if !hex.len().is_multiple_of(2) {
        return None;
    }
    let digit = |b: u8| (b as char).to_digit(16).map(|d| d as u8);
    hex.as_bytes()
        .chunks_exact(2)
        .map(|pair| Some(digit(pair[0])? << 4 | digit(pair[1])?))
        .collect()
}

/// Encodes bytes as lower-case hex.
pub fn encode_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

/// Returns the id of a chunk: plain BLAKE3 of its bytes, as `b3sum` prints it.
pub fn chunk_id(bytes: &[u8]) -> ObjectId {
    ObjectId(*blake3::hash(bytes).as_bytes())
}

/// Returns the id of `bytes` under `context`: BLAKE3 in derive-key mode.
pub(crate) fn derived_id(context: &'static str, bytes: &[u8]) -> ObjectId {
    // A single call, not a `Hasher`: it halves the time for an object of a few KiB.
    ObjectId(blake3::derive_key(context, bytes))
}

/// Returns the first eight bytes of BLAKE3 over `parts` in order.
///
/// This is the check that protects stored structures which have no id.
pub fn check(parts: &[&[u8]]) -> [u8; 8] {
    if let [part] = parts {
        return first_bytes(&blake3::hash(part));
    }
    let mut check = Check::default();
    parts.iter().for_each(|part| check.update(part));
    check.finish()
}

/// Computes a [`check`] over bytes that arrive piece by piece.
#[derive(Default)]
pub struct Check(blake3::Hasher);

impl Check {
    /// Adds the next bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// Returns the check of all bytes added so far.
    pub fn finish(&self) -> [u8; 8] {
        first_bytes(&self.0.finalize())
    }
}

fn first_bytes(hash: &blake3::Hash) -> [u8; 8] {
    let mut out = [0; 8];
    out.copy_from_slice(&hash.as_bytes()[..8]);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hex_round_trips_and_refuses_other_text() {
        let id = chunk_id(b"abc");
        assert_eq!(ObjectId::from_hex(&id.to_string()), Some(id));
        assert_eq!(ObjectId::from_hex(&id.to_string().to_uppercase()), Some(id));
        for bad in [
            "",
            "abc",
            &id.short(62),
            &format!("{id}00"),
            &"g".repeat(64),
        ] {
            assert_eq!(ObjectId::from_hex(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_check_does_not_depend_on_where_its_bytes_are_cut() {
        let bytes: Vec<u8> = (0..5000u32).map(|n| n as u8).collect();
        for cut in [0, 1, 1024, 4999, 5000] {
            let (a, b) = bytes.split_at(cut);
            assert_eq!(check(&[a, b]), check(&[&bytes]));
        }
    }

    #[test]
    fn chunk_id_is_plain_blake3() {
        // The first test vector published with BLAKE3: the hash of no bytes.
        let want = "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262";
        assert_eq!(chunk_id(b"").to_string(), want);
    }

    #[test]
    fn contexts_separate_ids() {
        assert_ne!(
            derived_id("dmv v1 tree", b"x"),
            derived_id("dmv v1 list", b"x")
        );
        assert_ne!(derived_id("dmv v1 tree", b"x"), chunk_id(b"x"));
    }
}
