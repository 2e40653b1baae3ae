//! The file of claims in a bucket: who works on what, and which claims hold there.

use super::{begin, end, open};
use dmv_core::claims::{
    ClaimBook, HeldClaims, MAX_BOOK_BYTES, MAX_LISTS, PushRules, SignedList, settle,
};
use dmv_core::object::codec::{DecodeError, put_bytes, put_varint};

/// The name of the file, below the bucket's prefix.
pub const CLAIMS: &str = "claims";
/// The maximum number of bytes of the file.
pub const MAX_CLAIMS_BYTES: usize = 2 << 20;
/// The maximum number of lists, with those of later versions.
const MAX_FILE_LISTS: usize = 2 * MAX_LISTS;
const MAGIC: &[u8; 8] = b"DMVCLAIM";
const VERSION: u8 = 1;
/// The version of a file that wants signed commits.
const VERSION_WITH_SIGNATURES: u8 = 2;

/// The claims in a bucket. The default is what a bucket has to which nobody has told any.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClaimsFile {
    /// How often the file was written, with this time. So its bytes are never those of an earlier one.
    pub generation: u64,
    /// What pushes have to keep to.
    pub rules: PushRules,
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

    /// Returns whether the file is within its limits. Lists of later versions have no others.
    pub fn fits(&self) -> bool {
        self.book.lists().len() + self.later.len() <= MAX_FILE_LISTS
            && self.encode().len() <= MAX_CLAIMS_BYTES
    }

    /// Encodes the file.
    pub fn encode(&self) -> Vec<u8> {
        let version = if self.rules.needs_signatures {
            VERSION_WITH_SIGNATURES
        } else {
            VERSION
        };
        let mut out = begin(MAGIC, version);
        put_varint(&mut out, self.generation);
        out.push(self.rules.bits());
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
        let (version, mut input) = open(bytes, MAGIC, VERSION_WITH_SIGNATURES, MAX_CLAIMS_BYTES)?;
        let mut file = ClaimsFile {
            generation: input.varint()?,
            ..ClaimsFile::default()
        };
        if file.generation == 0 {
            return Err(input.error("file of claims has no generation"));
        }
        let rules = PushRules::from_bits(input.u8()?);
        let fits = |rules: &PushRules| rules.needs_signatures == (version != VERSION);
        let unknown = || input.error("file of claims has unknown flags");
        file.rules = rules.filter(fits).ok_or_else(unknown)?;
        let mut last = None;
        for _ in 0..input.varint_up_to(MAX_FILE_LISTS as u64, "too many lists of claims")? {
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
    use super::super::CHECK_BYTES;
    use super::*;
    use dmv_core::claims::MAX_LIST_BYTES;

    #[test]
    fn the_file_has_one_encoding() {
        let file = ClaimsFile {
            generation: 300,
            rules: PushRules {
                keeps_to_claims: true,
                needs_signatures: true,
            },
            later: vec![vec![9, 7]],
            ..ClaimsFile::default()
        };
        let bytes = file.encode();
        assert_eq!(ClaimsFile::decode(&bytes), Ok(file.clone()));
        for len in 0..bytes.len() {
            assert!(ClaimsFile::decode(&bytes[..len]).is_err(), "{len}");
        }
        // The check at the end finds every flipped bit. Behind it, other bytes are another file or none.
        let body = &bytes[..bytes.len() - CHECK_BYTES];
        let mut refused = 0;
        for bit in 0..body.len() * 8 {
            let mut bad = body.to_vec();
            bad[bit / 8] ^= 1 << (bit % 8);
            let unchecked = [&bad[..], &bytes[body.len()..]].concat();
            assert!(ClaimsFile::decode(&unchecked).is_err(), "{bit}");
            let bad = end(bad);
            match ClaimsFile::decode(&bad) {
                Ok(other) => {
                    assert_ne!(other, file, "{bit}");
                    assert_eq!(other.encode(), bad, "{bit}");
                }
                Err(_) => refused += 1,
            }
        }
        assert!(refused > 9 * 8, "the magic and the version are checked");
    }

    #[test]
    fn a_file_fits_if_it_can_be_read_again() {
        let later = |bytes: usize| vec![9; bytes];
        let with = |later: Vec<Vec<u8>>| ClaimsFile {
            generation: 1,
            later,
            ..ClaimsFile::default()
        };
        let reads = |file: &ClaimsFile| ClaimsFile::decode(&file.encode()).is_ok();
        let filled = |bytes: usize| {
            let mut lists = vec![later(MAX_LIST_BYTES); 15];
            lists.push(later(bytes));
            with(lists)
        };
        let rest = MAX_CLAIMS_BYTES - filled(1).encode().len();
        // The length of the last list takes two bytes more than that of one byte.
        for (bytes, fits) in [(rest - 2, true), (rest - 1, true), (rest, false)] {
            let file = filled(bytes);
            assert_eq!((file.fits(), reads(&file)), (fits, fits), "{bytes}");
        }
        for (count, fits) in [(MAX_FILE_LISTS, true), (MAX_FILE_LISTS + 1, false)] {
            let file = with(vec![later(1); count]);
            assert_eq!((file.fits(), reads(&file)), (fits, fits), "{count}");
        }
    }
}
