//! Files that are gone in one place and new in another, perhaps changed on the way.
//!
//! A file is found by the id of its content, then by how much of its content is left: at least half
//! of the longer of the two, as in Git. Nothing here says that a user moved it: it is for showing.

use crate::hash::{ObjectId, chunk_id};
use crate::limits::{MAX_MERGE_TEXT_BYTES, MAX_RENAME_BYTES, MAX_RENAME_CHUNKS, MAX_RENAME_PAIRS};
use crate::object::list::{Blob, BlobChunks};
use crate::object::tree::TreeEntry;
use crate::object::{ObjectError, ObjectRead, ObjectType};
use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};

/// Bytes after which a line is taken for over, so that content without lines has pieces too.
const PIECE_BYTES: usize = 64;
/// The least part of the longer content that has to be shared, in percent.
const MIN_PERCENT: u8 = 50;

/// A file that is gone, or new.
#[derive(Clone, Copy, Debug)]
pub struct Candidate<'a> {
    /// Its path.
    pub path: &'a [u8],
    /// Its size in bytes; empty files are never paired.
    pub size: u64,
    /// The id of its content, where it is known.
    pub id: Option<ObjectId>,
}

impl<'a> Candidate<'a> {
    /// A file of a tree.
    pub fn of_entry(path: &'a [u8], entry: &TreeEntry) -> Candidate<'a> {
        Candidate {
            path,
            size: entry.size,
            id: Some(entry.id),
        }
    }

    fn name(&self) -> &[u8] {
        self.path.rsplit(|b| *b == b'/').next().unwrap_or_default()
    }
}

/// One file, by its place in the lists, before and after.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair {
    /// Which of those that are gone.
    pub from: usize,
    /// Which of those that are new.
    pub to: usize,
    /// How much of the longer content is in both, in percent; 100 only for equal content.
    pub percent: u8,
}

/// Which list a file is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Side {
    /// Those that are gone.
    Gone,
    /// Those that are new.
    New,
}

/// Pairs files of equal content, then those that are most alike; each is in one pair at most.
///
/// `pieces` is asked for the content of what is near in size; `None` from it: this file is in no
/// pair. With more than [`MAX_RENAME_PAIRS`] to compare or [`MAX_RENAME_BYTES`] to read only equal
/// content is paired.
pub fn pair<E>(
    gone: &[Candidate<'_>],
    new: &[Candidate<'_>],
    pieces: &mut dyn FnMut(Side, usize) -> Result<Option<Pieces>, E>,
) -> Result<Vec<Pair>, E> {
    let mut out = equal(gone, new);
    let used: BTreeSet<usize> = out.iter().map(|pair| pair.from).collect();
    let taken: BTreeSet<usize> = out.iter().map(|pair| pair.to).collect();
    let open = |list: &[Candidate<'_>], done: &BTreeSet<usize>| -> Vec<usize> {
        (0..list.len())
            .filter(|n| !done.contains(n) && list[*n].size > 0)
            .collect()
    };
    let (from, mut to) = (open(gone, &used), open(new, &taken));
    to.sort_by_key(|n| new[*n].size);
    let mut near = Vec::new();
    for a in from {
        let size = gone[a].size;
        let first = to.partition_point(|b| new[*b].size < size.div_ceil(2));
        for b in &to[first..] {
            if new[*b].size > size.saturating_mul(2) {
                break;
            }
            near.push((a, *b));
            if near.len() > MAX_RENAME_PAIRS {
                return Ok(out);
            }
        }
    }
    let mut sizes: HashMap<(Side, usize), u64> = HashMap::new();
    for (a, b) in &near {
        sizes.insert((Side::Gone, *a), gone[*a].size);
        sizes.insert((Side::New, *b), new[*b].size);
    }
    let short = sizes.values().filter(|size| **size <= MAX_MERGE_TEXT_BYTES);
    if short.sum::<u64>() > MAX_RENAME_BYTES {
        return Ok(out);
    }
    let mut known: HashMap<(Side, usize), Option<Pieces>> = HashMap::new();
    let mut scored = Vec::new();
    for (a, b) in near {
        for key in [(Side::Gone, a), (Side::New, b)] {
            if let std::collections::hash_map::Entry::Vacant(slot) = known.entry(key) {
                slot.insert(pieces(key.0, key.1)?);
            }
        }
        let (Some(x), Some(y)) = (&known[&(Side::Gone, a)], &known[&(Side::New, b)]) else {
            continue;
        };
        let longer = gone[a].size.max(new[b].size).max(1);
        let percent = u128::from(x.shared_with(y)) * 100 / u128::from(longer);
        let percent = percent.min(99) as u8;
        if percent >= MIN_PERCENT {
            let other_name = gone[a].name() != new[b].name();
            scored.push((Reverse(percent), other_name, a, b));
        }
    }
    scored.sort_unstable();
    let (mut used, mut taken) = (BTreeSet::new(), BTreeSet::new());
    for (Reverse(percent), _, from, to) in scored {
        if !used.contains(&from) && !taken.contains(&to) {
            used.insert(from);
            taken.insert(to);
            out.push(Pair { from, to, percent });
        }
    }
    Ok(out)
}

/// Pairs files of one content, those of one name first.
fn equal(gone: &[Candidate<'_>], new: &[Candidate<'_>]) -> Vec<Pair> {
    let mut by_id: HashMap<ObjectId, Vec<usize>> = HashMap::new();
    // The last comes out of each list first.
    for (n, file) in new.iter().enumerate().rev() {
        if let Some(id) = file.id.filter(|_| file.size > 0) {
            by_id.entry(id).or_default().push(n);
        }
    }
    let mut out = Vec::new();
    let mut used = BTreeSet::new();
    for same_name in [true, false] {
        for (from, file) in gone.iter().enumerate() {
            let Some(fits) = file.id.and_then(|id| by_id.get_mut(&id)) else {
                continue;
            };
            let at = fits
                .iter()
                .rposition(|n| !same_name || new[*n].name() == file.name());
            if let (Some(at), false) = (at, used.contains(&from)) {
                let to = fits.remove(at);
                used.insert(from);
                let percent = 100;
                out.push(Pair { from, to, percent });
            }
        }
    }
    out
}

/// How many bytes of each piece a content holds. Pieces are lines or, of long files, chunks.
#[derive(Debug, Default)]
pub struct Pieces(HashMap<[u8; 16], u64>);

impl Pieces {
    /// Of content that is short enough to be looked at line by line: up to
    /// [`MAX_MERGE_TEXT_BYTES`].
    pub fn of_content(content: &[u8]) -> Pieces {
        let mut out = Pieces::default();
        for line in content.split_inclusive(|b| *b == b'\n') {
            for piece in line.chunks(PIECE_BYTES) {
                out.add(&chunk_id(piece), piece.len() as u64);
            }
        }
        out
    }

    /// Of a longer content, by its chunks.
    pub fn of_chunks(chunks: impl IntoIterator<Item = (ObjectId, u64)>) -> Pieces {
        let mut out = Pieces::default();
        for (id, len) in chunks {
            out.add(&id, len);
        }
        out
    }

    fn add(&mut self, piece: &ObjectId, bytes: u64) {
        let mut key = [0; 16];
        key.copy_from_slice(&piece.as_bytes()[..16]);
        *self.0.entry(key).or_default() += bytes;
    }

    /// Bytes that both have.
    pub fn shared_with(&self, other: &Pieces) -> u64 {
        let (few, many) = match self.0.len() <= other.0.len() {
            true => (&self.0, &other.0),
            false => (&other.0, &self.0),
        };
        few.iter()
            .filter_map(|(piece, bytes)| many.get(piece).map(|other| bytes.min(other)))
            .sum()
    }
}

/// The pieces of a stored file; `None` when it has too many chunks or is not all here.
pub fn pieces_of(reader: &dyn ObjectRead, blob: Blob) -> Result<Option<Pieces>, ObjectError> {
    let mut chunks = Vec::new();
    for chunk in BlobChunks::new(reader, blob) {
        let (_, id, len) = match chunk {
            Err(ObjectError::Missing { .. }) => return Ok(None),
            chunk => chunk?,
        };
        if chunks.len() >= MAX_RENAME_CHUNKS {
            return Ok(None);
        }
        chunks.push((id, len));
    }
    if blob.size > MAX_MERGE_TEXT_BYTES {
        return Ok(Some(Pieces::of_chunks(chunks)));
    }
    let mut content = Vec::new();
    for (id, _) in chunks {
        match reader.read(ObjectType::Chunk, &id)? {
            Some(bytes) => content.extend_from_slice(&bytes),
            None => return Ok(None),
        }
    }
    Ok(Some(Pieces::of_content(&content)))
}

#[cfg(test)]
mod tests {
    use super::*;

    type Listed<'a> = (&'a str, &'a [u8]);

    fn candidate<'a>((path, content): &Listed<'a>) -> Candidate<'a> {
        Candidate {
            path: path.as_bytes(),
            size: content.len() as u64,
            id: Some(chunk_id(content)),
        }
    }

    fn pairs(gone: &[Listed<'_>], new: &[Listed<'_>]) -> Vec<(usize, usize, u8)> {
        let a: Vec<_> = gone.iter().map(candidate).collect();
        let b: Vec<_> = new.iter().map(candidate).collect();
        let mut pieces = |side, n: usize| {
            let content = match side {
                Side::Gone => gone[n].1,
                Side::New => new[n].1,
            };
            Ok::<_, ObjectError>(Some(Pieces::of_content(content)))
        };
        let found = pair(&a, &b, &mut pieces).expect("nothing fails");
        found.iter().map(|p| (p.from, p.to, p.percent)).collect()
    }

    const LINES: &[u8] = b"one\ntwo\nthree\nfour\nfive\nsix\nseven\neight\n";

    #[test]
    fn equal_content_is_paired_by_name_first() {
        let gone = [("a/x", LINES), ("a/y", LINES)];
        let new = [("b/y", LINES), ("b/z", LINES)];
        assert_eq!(pairs(&gone, &new), [(1, 0, 100), (0, 1, 100)]);
        assert_eq!(pairs(&[("a", b"")], &[("b", b"")]), []);
    }

    #[test]
    fn what_shares_half_is_paired_the_most_alike_first() {
        let edited = [LINES, b"nine\n"].concat();
        let more = [&edited[..], b"ten\neleven\n"].concat();
        let gone = [("a", LINES)];
        let found = pairs(&gone, &[("b", &more), ("c", &edited)]);
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].0, found[0].1), (0, 1));
        assert!((80..99).contains(&found[0].2), "{found:?}");
        assert_eq!(
            pairs(
                &gone,
                &[("b", b"something else of the same length, really\n")]
            ),
            []
        );
    }
}
