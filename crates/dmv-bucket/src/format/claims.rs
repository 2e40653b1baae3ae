//! The file of claims in a bucket: who works on what, and which claims hold there.

use super::{begin, end, open};
use dmv_core::claims::{ClaimBook, HeldClaims, MAX_BOOK_BYTES, MAX_LISTS, SignedList, settle};
use dmv_core::object::codec::{DecodeError, put_bytes, put_varint};

/// The name of the file, below the bucket's prefix.
pub const CLAIMS: &str = "claims";
/// The maximum number of bytes of the file.
pub const MAX_CLAIMS_BYTES: usize = 2 << 20;
const MAGIC: &[u8; 8] = b"DMVCLAIM";
const VERSION: u8 = 1;

/// The claims in a bucket. The default is what a bucket has to which nobody has told any.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClaimsFile {
    /// How often the file was written, with this time. So its bytes are never those of an earlier one.
    pub generation: u64,
    /// Whether pushes keep to the claims that hold.
    pub enforced: bool,
    /// The newest list of each writer.
    pub book: ClaimBook,
    /// Lists of later versions, which only later programs understand.
    pub later: Vec<Vec<u8>>,
    /// The claims that hold.
    pub held: HeldClaims,
}

impl ClaimsFile {
    /// Returns the file with further lists, as far as there is room for them, and what holds then. `before` is
    /// what held before.
    pub fn with(&self, lists: &[SignedList], before: &HeldClaims) -> ClaimsFile {
        let book = self.book.with_room_for(lists.iter().cloned());
        let held = settle(&book, before);
        ClaimsFile {
            book,
            held,
            ..self.clone()
        }
    }

    /// Encodes the file.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = begin(MAGIC, VERSION);
        put_varint(&mut out, self.generation);
        out.push(u8::from(self.enforced));
        put_varint(
            &mut out,
            (self.book.lists().len() + self.later.len()) as u64,
        );
        for list in self.book.lists() {
            put_bytes(&mut out, list.as_bytes());
        }
        for list in &self.later {
            put_bytes(&mut out, list);
        }
        put_bytes(&mut out, &self.held.encode());
        end(out)
    }

    /// Decodes the file. Each list must be signed by its device.
    pub fn decode(bytes: &[u8]) -> Result<ClaimsFile, DecodeError> {
        let (_, mut input) = open(bytes, MAGIC, VERSION, MAX_CLAIMS_BYTES)?;
        let mut file = ClaimsFile {
            generation: input.varint()?,
            ..ClaimsFile::default()
        };
        if file.generation == 0 {
            return Err(input.error("file of claims has no generation"));
        }
        file.enforced = match input.u8()? {
            0 => false,
            1 => true,
            _ => return Err(input.error("file of claims has unknown flags")),
        };
        let mut last = None;
        for _ in 0..input.varint_up_to(2 * MAX_LISTS as u64, "too many lists of claims")? {
            let list = input.bytes(MAX_BOOK_BYTES, "list of claims is too long")?;
            match SignedList::decode(list) {
                Err(e) if e.is_too_new() => file.later.push(list.to_vec()),
                list => {
                    let list = list?;
                    let writer = list.list().writer;
                    if last.is_some_and(|last| last >= writer) || !file.later.is_empty() {
                        return Err(input.error("lists of claims are not in order"));
                    }
                    last = Some(writer);
                    let joined = file.book.join(list);
                    joined.map_err(|_| input.error("too many claims"))?;
                }
            }
        }
        file.held = HeldClaims::decode(input.bytes(MAX_CLAIMS_BYTES, "too many claims hold")?)?;
        input.finish()?;
        Ok(file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_has_one_encoding() {
        let file = ClaimsFile {
            generation: 300,
            enforced: true,
            later: vec![vec![2, 7]],
            ..ClaimsFile::default()
        };
        let bytes = file.encode();
        assert_eq!(ClaimsFile::decode(&bytes), Ok(file));
        for len in 0..bytes.len() {
            assert!(ClaimsFile::decode(&bytes[..len]).is_err(), "{len}");
        }
        for bit in 0..bytes.len() * 8 {
            let mut bad = bytes.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(ClaimsFile::decode(&bad).is_err(), "{bit}");
        }
    }
}
