//! The primitives of DMV's encoding: docs/format/README.md, "Conventions".
//!
//! Each value has one encoding, and the decoder refuses every other. It allocates memory for a
//! length only after it has compared the length with a limit and with the remaining input. The
//! decoders of `object`, `store` and `refs` use it, and so do other formats.

use super::ObjectType;
use crate::hash::{ID_BYTES, ObjectId};
use crate::limits::MAX_OBJECT_BYTES;
use std::ops::RangeInclusive;

/// An encoding that no encoder would have written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} at byte {at}")]
pub struct DecodeError {
    /// What is wrong.
    pub what: &'static str,
    /// Offset of the fault in bytes from the start of the input.
    pub at: usize,
}

const TOO_NEW: &str = "format too new";

impl DecodeError {
    /// Returns whether the bytes have a later version, so that they may be valid for a newer
    /// program.
    pub fn is_too_new(&self) -> bool {
        self.what == TOO_NEW
    }
}

/// A value without an encoding, because it breaks a rule or limit of the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}")]
pub struct EncodeError {
    /// The broken rule.
    pub what: &'static str,
}

/// The version of all object types except chunks.
pub(crate) const OBJECT_VERSION: u8 = 1;

/// Appends the two bytes at the start of every object except chunks.
pub(crate) fn put_header(out: &mut Vec<u8>, ty: ObjectType) {
    out.extend_from_slice(&[ty as u8, OBJECT_VERSION]);
}

/// Appends an unsigned LEB128 number.
pub fn put_varint(out: &mut Vec<u8>, mut n: u64) {
    while n >= 0x80 {
        out.push(n as u8 | 0x80);
        n >>= 7;
    }
    out.push(n as u8);
}

/// Appends the length of `bytes` and then `bytes`.
pub fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Reads values from the front of a slice.
#[derive(Clone)]
pub struct Decoder<'a> {
    input: &'a [u8],
    at: usize,
}

impl<'a> Decoder<'a> {
    /// Returns a decoder at the start of `input`.
    pub fn new(input: &'a [u8]) -> Decoder<'a> {
        Decoder { input, at: 0 }
    }

    /// Returns how many bytes have been read.
    pub fn position(&self) -> usize {
        self.at
    }

    /// Returns how many bytes are left.
    pub fn remaining(&self) -> usize {
        self.input.len() - self.at
    }

    /// Returns an error at the current position.
    pub fn error(&self, what: &'static str) -> DecodeError {
        DecodeError { what, at: self.at }
    }

    /// Reads the next `n` bytes.
    #[inline]
    pub fn take(&mut self, n: usize) -> Result<&'a [u8], DecodeError> {
        if n > self.remaining() {
            return Err(self.error("input ends too soon"));
        }
        let out = &self.input[self.at..self.at + n];
        self.at += n;
        Ok(out)
    }

    #[inline]
    fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        Ok(self.take(N)?.try_into().expect("take returned N bytes"))
    }

    /// Reads one byte.
    #[inline]
    pub fn u8(&mut self) -> Result<u8, DecodeError> {
        Ok(self.take(1)?[0])
    }

    /// Reads a little-endian u16.
    pub fn u16(&mut self) -> Result<u16, DecodeError> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    /// Reads a little-endian i16.
    pub fn i16(&mut self) -> Result<i16, DecodeError> {
        Ok(i16::from_le_bytes(self.array()?))
    }

    /// Reads a little-endian u32.
    pub fn u32(&mut self) -> Result<u32, DecodeError> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    /// Reads a little-endian u64.
    pub fn u64(&mut self) -> Result<u64, DecodeError> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    /// Reads a little-endian i64.
    pub fn i64(&mut self) -> Result<i64, DecodeError> {
        Ok(i64::from_le_bytes(self.array()?))
    }

    /// Reads an unsigned LEB128 number. Fails if its encoding is not the shortest.
    #[inline]
    pub fn varint(&mut self) -> Result<u64, DecodeError> {
        // The common case: most lengths and many counts take one byte.
        if let Some(&byte) = self.input.get(self.at)
            && byte < 0x80
        {
            self.at += 1;
            return Ok(u64::from(byte));
        }
        self.long_varint()
    }

    fn long_varint(&mut self) -> Result<u64, DecodeError> {
        let start = self.at;
        let mut n = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.u8()?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                return Err(DecodeError {
                    what: "number exceeds 64 bits",
                    at: start,
                });
            }
            n |= bits << shift;
            if byte & 0x80 == 0 {
                if byte == 0 && shift > 0 {
                    return Err(DecodeError {
                        what: "number is not minimal",
                        at: start,
                    });
                }
                return Ok(n);
            }
        }
        Err(DecodeError {
            what: "number exceeds 64 bits",
            at: start,
        })
    }

    /// Reads a number of at most `max`.
    #[inline]
    pub fn varint_up_to(&mut self, max: u64, what: &'static str) -> Result<u64, DecodeError> {
        let at = self.at;
        let n = self.varint()?;
        if n > max {
            Err(DecodeError { what, at })
        } else {
            Ok(n)
        }
    }

    /// Reads length-prefixed bytes, at most `max`.
    #[inline]
    pub fn bytes(&mut self, max: usize, what: &'static str) -> Result<&'a [u8], DecodeError> {
        let n = self.varint_up_to(max as u64, what)?;
        self.take(n as usize)
    }

    /// Reads the two bytes at the start of an object of type `ty`, and checks the length of the
    /// complete input.
    pub fn header(&mut self, ty: ObjectType) -> Result<(), DecodeError> {
        if self.input.len() > MAX_OBJECT_BYTES {
            return Err(self.error("object is too large"));
        }
        if self.u8()? != ty as u8 {
            return Err(self.error("object is of another type"));
        }
        self.version(OBJECT_VERSION..=OBJECT_VERSION).map(|_| ())
    }

    /// Reads a version byte, which must be in `known`. Fails with "too new" for a greater one.
    pub fn version(&mut self, known: RangeInclusive<u8>) -> Result<u8, DecodeError> {
        match self.u8()? {
            version if known.contains(&version) => Ok(version),
            version if version > *known.end() => Err(self.too_new()),
            _ => Err(self.error("unknown version")),
        }
    }

    /// Returns the error for a version that only a later program knows.
    pub fn too_new(&self) -> DecodeError {
        self.error(TOO_NEW)
    }

    /// Reads an object id.
    #[inline]
    pub fn id(&mut self) -> Result<ObjectId, DecodeError> {
        Ok(ObjectId::from_bytes(self.array::<ID_BYTES>()?))
    }

    /// Checks that the input has been read completely.
    pub fn finish(&self) -> Result<(), DecodeError> {
        if self.remaining() == 0 {
            Ok(())
        } else {
            Err(self.error("bytes after the end"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_greater_versions_are_from_the_future() {
        let read = |byte: u8| Decoder::new(&[byte]).version(1..=2);
        assert_eq!((read(1), read(2)), (Ok(1), Ok(2)));
        assert!(read(0).is_err_and(|e| !e.is_too_new()));
        assert!(read(3).is_err_and(|e| e.is_too_new()));
    }

    #[test]
    fn varints_have_one_encoding() {
        for n in [
            0,
            1,
            127,
            128,
            16_383,
            16_384,
            u64::from(u32::MAX),
            u64::MAX - 1,
            u64::MAX,
        ] {
            let mut out = Vec::new();
            put_varint(&mut out, n);
            let mut input = Decoder::new(&out);
            assert_eq!(input.varint(), Ok(n));
            assert_eq!(input.finish(), Ok(()));
            for cut in 0..out.len() {
                assert!(Decoder::new(&out[..cut]).varint().is_err());
            }
        }
        let too_long = [0x80, 0x00];
        assert_eq!(
            Decoder::new(&too_long).varint().map_err(|e| e.what),
            Err("number is not minimal")
        );
        let too_big = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02];
        assert!(Decoder::new(&too_big).varint().is_err());
    }

    #[test]
    fn lengths_are_compared_before_anything_is_taken() {
        let mut out = Vec::new();
        put_bytes(&mut out, b"abc");
        assert_eq!(Decoder::new(&out).bytes(3, "too long"), Ok(&b"abc"[..]));
        assert_eq!(
            Decoder::new(&out).bytes(2, "too long").map_err(|e| e.what),
            Err("too long")
        );
        let mut huge = Vec::new();
        put_varint(&mut huge, 1 << 62);
        assert!(Decoder::new(&huge).bytes(usize::MAX, "too long").is_err());
    }
}
