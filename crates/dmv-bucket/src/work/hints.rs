//! Which frames of a bucket's packs hold which chunks, as far as this device knows.
//!
//! A push needs it for the places of what others, or this device earlier, have uploaded
//! (docs/format/bucket.md, "Places"). Everything here is derived and a hint: a reader hashes what it
//! finds, so a wrong place costs time only. Files that cannot be read count as absent.
//!
//! The hints lie in files of sorted records of one length. A new file is joined with those before
//! it that are not much larger, so there are few files, and a look-up reads little of each.

use crate::format::Name;
use dmv_core::hash::{ObjectId, encode_hex};
use dmv_core::object::ObjectType;
use dmv_core::platform::{OwnAccess, create_own_dirs, open_own, rename};
use dmv_core::store::{CheckedRecord, random_bytes};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// The directory of the hints below the copies of a bucket.
pub const DIR: &str = "known";
const MAGIC: &[u8; 8] = b"DMVHINT\n";
const VERSION: u32 = 1;
/// Magic, version, number of packs, number of records.
const HEADER_BYTES: u64 = 24;
const PACK_BYTES: usize = 16;
/// The first bytes of an id: as good as random.
const KEY_BYTES: usize = 16;
/// Key, number of the pack, offset, length.
const RECORD_BYTES: usize = KEY_BYTES + 4 + 8 + 4;
/// A file is joined with the one before if that has at most this many times its records.
const RATIO: u64 = 2;
/// Records that a look-up reads at once, when it has come near.
const NEAR: u64 = 64;
/// Hints that are gathered in memory before they are written: 8 MiB.
const PORTION: usize = 1 << 17;
/// The greatest number of packs and of records in one file.
const MAX_PACKS: u64 = 1 << 24;
const MAX_RECORDS: u64 = 1 << 36;

type Key = [u8; KEY_BYTES];

/// A frame of a pack in the bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FrameOf {
    /// The pack.
    pub pack: Name,
    /// Where its record begins.
    pub offset: u64,
    /// The length of its record.
    pub len: u32,
}

/// The hints in a directory.
pub struct HintFiles {
    dir: Option<PathBuf>,
    /// The largest first.
    files: Vec<SortedFile>,
    /// The packs that count; `None`: all.
    only: Option<HashSet<Name>>,
}

impl HintFiles {
    /// Returns no hints, and keeps none.
    pub fn none() -> HintFiles {
        HintFiles {
            dir: None,
            files: Vec::new(),
            only: None,
        }
    }

    /// Forgets, for the look-ups that follow, what lies in other packs.
    pub fn only_in(&mut self, packs: HashSet<Name>) {
        self.only = Some(packs);
    }

    /// Opens the hints in `dir`, which need not exist.
    pub fn open(dir: &Path) -> HintFiles {
        let mut files: Vec<SortedFile> = Vec::new();
        for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
            if entry.path().extension().is_some_and(|end| end == "hints") {
                files.extend(SortedFile::open(entry.path()));
            }
        }
        files.sort_by_key(|file| std::cmp::Reverse(file.records));
        HintFiles {
            dir: Some(dir.to_owned()),
            files,
            only: None,
        }
    }

    /// Returns for each id a frame that holds its object, if one is known.
    pub fn find(&mut self, ids: &[ObjectId]) -> Vec<Option<FrameOf>> {
        let mut out = vec![None; ids.len()];
        for file in self.files.iter_mut().rev() {
            for (id, found) in ids
                .iter()
                .zip(&mut out)
                .filter(|(_, found)| found.is_none())
            {
                let only = self.only.as_ref();
                let counts = |frame: &FrameOf| only.is_none_or(|only| only.contains(&frame.pack));
                *found = file.find(&key(id)).ok().flatten().filter(counts);
            }
        }
        out
    }

    /// Adds hints. If they cannot be written, they are not known to later commands.
    pub fn add(&mut self, hints: Vec<(ObjectId, FrameOf)>) -> io::Result<()> {
        let Some(dir) = self.dir.clone().filter(|_| !hints.is_empty()) else {
            return Ok(());
        };
        create_own_dirs(&dir)?;
        let mut numbers: HashMap<Name, u32> = HashMap::new();
        let mut packs = Vec::new();
        let mut records: Vec<Record> = Vec::with_capacity(hints.len());
        for (id, frame) in hints {
            let pack = *numbers.entry(frame.pack).or_insert_with(|| {
                packs.push(frame.pack);
                packs.len() as u32 - 1
            });
            let (offset, len) = (frame.offset, frame.len);
            let key = key(&id);
            records.push(Record {
                key,
                pack,
                offset,
                len,
            });
        }
        records.sort_unstable_by_key(|record| record.key);
        records.dedup_by_key(|record| record.key);
        let count = records.len() as u64;
        let mut new = write(&dir, &packs, count, records.into_iter().map(Ok))?;
        while let Some(last) = self.files.last()
            && last.records <= RATIO * new.records
        {
            let joined = join(&dir, last, &new)?;
            let last = self.files.pop().expect("it was looked at above");
            for old in [last, new] {
                // A file that stays has the same hints again.
                let _ = std::fs::remove_file(&old.path);
            }
            new = joined;
        }
        self.files.push(new);
        self.files
            .sort_by_key(|file| std::cmp::Reverse(file.records));
        Ok(())
    }
}

/// Hints about what is being read of a bucket. They are written in portions.
#[derive(Default)]
pub struct GatheredHints {
    /// Where the hints lie; `None`: none are kept.
    dir: Option<PathBuf>,
    hints: Vec<(ObjectId, FrameOf)>,
}

impl GatheredHints {
    /// Gathers hints for the copies in a directory.
    pub fn new(dir: Option<&Path>) -> GatheredHints {
        GatheredHints {
            dir: dir.map(|dir| dir.join(DIR)),
            hints: Vec::new(),
        }
    }

    /// Notes the objects of the record that begins at `offset` in a pack.
    pub fn add(&mut self, pack: Name, offset: u64, record: &CheckedRecord) {
        if self.dir.is_none() {
            return;
        }
        let frame = FrameOf {
            pack,
            offset,
            len: record.as_bytes().len() as u32,
        };
        let chunks = record.objects().iter();
        let chunks = chunks.filter(|object| object.ty == ObjectType::Chunk);
        self.hints.extend(chunks.map(|chunk| (chunk.id, frame)));
        if self.hints.len() >= PORTION {
            self.write();
        }
    }

    /// Writes what was gathered.
    pub fn write(&mut self) {
        let hints = std::mem::take(&mut self.hints);
        if let Some(dir) = &self.dir {
            // What cannot be noted is looked for by the readers.
            let _ = HintFiles::open(dir).add(hints);
        }
    }
}

fn join(dir: &Path, old: &SortedFile, new: &SortedFile) -> io::Result<SortedFile> {
    let mut packs = old.packs.clone();
    let mut numbers: BTreeMap<Name, u32> = packs.iter().copied().zip(0..).collect();
    let mut of_new = Vec::with_capacity(new.packs.len());
    for pack in &new.packs {
        of_new.push(*numbers.entry(*pack).or_insert_with(|| {
            packs.push(*pack);
            packs.len() as u32 - 1
        }));
    }
    let mut a = old.walk()?.peekable();
    let mut b = new.walk()?.peekable();
    let joined = std::iter::from_fn(|| {
        let (x, y) = (a.peek(), b.peek());
        let (takes_new, is_same) = match (x, y) {
            (None, None) => return None,
            (Some(Ok(x)), Some(Ok(y))) => (y.key <= x.key, x.key == y.key),
            (_, y) => (y.is_some(), false),
        };
        if is_same {
            a.next();
        }
        if takes_new {
            b.next().map(|record| {
                let record = record?;
                let number = of_new.get(record.pack as usize);
                let pack = *number.ok_or_else(|| io::Error::other("no such pack"))?;
                Ok(Record { pack, ..record })
            })
        } else {
            a.next()
        }
    });
    write(dir, &packs, old.records + new.records, joined)
}

/// Writes a file of at most `most` records.
fn write(
    dir: &Path,
    packs: &[Name],
    most: u64,
    records: impl Iterator<Item = io::Result<Record>>,
) -> io::Result<SortedFile> {
    let path = dir.join(format!("{}.hints", encode_hex(&random_bytes())));
    let part = path.with_extension("part");
    let written = (|| {
        let mut out = BufWriter::with_capacity(1 << 18, open_own(&part, OwnAccess::CreateNew)?);
        out.write_all(&header(packs.len() as u64, most))?;
        for pack in packs {
            out.write_all(&pack.0)?;
        }
        let mut count = 0;
        for record in records {
            out.write_all(&record?.encode())?;
            count += 1;
        }
        let mut file = out.into_inner().map_err(io::IntoInnerError::into_error)?;
        file.seek(SeekFrom::Start(0))?;
        file.write_all(&header(packs.len() as u64, count))?;
        rename(&part, &path)
    })();
    if let Err(e) = written {
        let _ = std::fs::remove_file(&part);
        return Err(e);
    }
    SortedFile::open(path).ok_or_else(|| io::Error::other("the hints cannot be read back"))
}

fn key(id: &ObjectId) -> Key {
    let mut key = [0; KEY_BYTES];
    key.copy_from_slice(&id.as_bytes()[..KEY_BYTES]);
    key
}

fn header(packs: u64, records: u64) -> Vec<u8> {
    let mut out = MAGIC.to_vec();
    out.extend_from_slice(&VERSION.to_le_bytes());
    out.extend_from_slice(&(packs as u32).to_le_bytes());
    out.extend_from_slice(&records.to_le_bytes());
    out
}

#[derive(Clone, Copy)]
struct Record {
    key: Key,
    pack: u32,
    offset: u64,
    len: u32,
}

impl Record {
    fn encode(&self) -> [u8; RECORD_BYTES] {
        let mut out = [0; RECORD_BYTES];
        out[..16].copy_from_slice(&self.key);
        out[16..20].copy_from_slice(&self.pack.to_le_bytes());
        out[20..28].copy_from_slice(&self.offset.to_le_bytes());
        out[28..].copy_from_slice(&self.len.to_le_bytes());
        out
    }

    fn decode(b: &[u8]) -> Record {
        let mut key = [0; KEY_BYTES];
        key.copy_from_slice(&b[..16]);
        let word = |at: usize| u32::from_le_bytes([b[at], b[at + 1], b[at + 2], b[at + 3]]);
        Record {
            key,
            pack: word(16),
            offset: u64::from(word(20)) | u64::from(word(24)) << 32,
            len: word(28),
        }
    }
}

/// A file of sorted records.
struct SortedFile {
    path: PathBuf,
    file: File,
    packs: Vec<Name>,
    records: u64,
    /// Where the first record stands.
    at: u64,
}

impl SortedFile {
    /// Opens a file; `None` if it is not one of these.
    fn open(path: PathBuf) -> Option<SortedFile> {
        let mut file = open_own(&path, OwnAccess::Read).ok()?;
        let mut head = [0; HEADER_BYTES as usize];
        file.read_exact(&mut head).ok()?;
        let word = |at: usize| {
            let bytes = head[at..at + 4].try_into().expect("four bytes");
            u64::from(u32::from_le_bytes(bytes))
        };
        let (count, records) = (word(12), word(16) | word(20) << 32);
        let is_known = head[..8] == *MAGIC && word(8) == u64::from(VERSION);
        if !is_known || count > MAX_PACKS || records > MAX_RECORDS || records == 0 {
            return None;
        }
        let at = HEADER_BYTES + count * PACK_BYTES as u64;
        if file.metadata().ok()?.len() != at + records * RECORD_BYTES as u64 {
            return None;
        }
        let mut names = vec![0; count as usize * PACK_BYTES];
        file.read_exact(&mut names).ok()?;
        let name = |b: &[u8]| Name(b.try_into().expect("sixteen bytes"));
        let packs = names.chunks_exact(PACK_BYTES).map(name).collect();
        Some(SortedFile {
            path,
            file,
            packs,
            records,
            at,
        })
    }

    fn read(&mut self, from: u64, count: u64) -> io::Result<Vec<Record>> {
        let mut bytes = vec![0; count as usize * RECORD_BYTES];
        let at = self.at + from * RECORD_BYTES as u64;
        self.file.seek(SeekFrom::Start(at))?;
        self.file.read_exact(&mut bytes)?;
        Ok(bytes
            .chunks_exact(RECORD_BYTES)
            .map(Record::decode)
            .collect())
    }

    fn find(&mut self, key: &Key) -> io::Result<Option<FrameOf>> {
        let (mut from, mut to) = (0, self.records);
        // A number in the order of keys.
        let first = |key: &Key| {
            let bytes = key[..8].try_into().expect("eight bytes");
            u64::from_le_bytes(bytes).swap_bytes()
        };
        let (mut least, mut most) = (0_u64, u64::MAX);
        let mut guesses = true;
        while to - from > NEAR {
            // Keys are random, so the place of one can be guessed. If that does not help, halve.
            let middle = from + (to - from) / 2;
            let guess = if guesses {
                let (span, part) = (u128::from(most - least) + 1, first(key) - least);
                let guess = u128::from(part) * u128::from(to - from) / span;
                let guess = from + (guess as u64).min(to - from - 1);
                guess.saturating_sub(NEAR / 2).max(from)
            } else {
                middle
            };
            guesses = !guesses;
            let count = NEAR.min(to - guess);
            let near = self.read(guess, count)?;
            let (head, tail) = (near[0], near[near.len() - 1]);
            if *key < head.key {
                (to, most) = (guess, first(&head.key).max(least));
            } else if *key > tail.key {
                (from, least) = (guess + count, first(&tail.key).min(most));
            } else {
                return Ok(self.pick(&near, key));
            }
            if !(least..=most).contains(&first(key)) {
                return Ok(None);
            }
        }
        let near = self.read(from, to - from)?;
        Ok(self.pick(&near, key))
    }

    fn pick(&self, near: &[Record], key: &Key) -> Option<FrameOf> {
        let at = near.binary_search_by_key(key, |record| record.key).ok()?;
        let Record {
            pack, offset, len, ..
        } = near[at];
        let pack = *self.packs.get(pack as usize)?;
        Some(FrameOf { pack, offset, len })
    }

    fn walk(&self) -> io::Result<impl Iterator<Item = io::Result<Record>> + use<>> {
        let mut file = BufReader::with_capacity(1 << 18, open_own(&self.path, OwnAccess::Read)?);
        file.seek(SeekFrom::Start(self.at))?;
        let mut left = self.records;
        Ok(std::iter::from_fn(move || {
            left = left.checked_sub(1)?;
            let mut bytes = [0; RECORD_BYTES];
            Some(file.read_exact(&mut bytes).map(|()| Record::decode(&bytes)))
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dmv_core::object::ObjectType;
    use dmv_core::store::{FrameBuilder, FrameEncoder};

    fn id(n: u32) -> ObjectId {
        ObjectType::Chunk.id_of(&n.to_le_bytes())
    }

    fn frame(n: u32) -> FrameOf {
        FrameOf {
            pack: Name([(n % 7) as u8; 16]),
            offset: u64::from(n) << 20,
            len: n + 1,
        }
    }

    #[test]
    fn what_was_added_is_found_and_nothing_else_in_few_files() {
        let dir = tempfile::tempdir().expect("a directory");
        let dir = dir.path().join("known");
        let mut known = HintFiles::open(&dir);
        let mut next = 0;
        for round in 0..60_u32 {
            let count = [1, 3, 500, 40][round as usize % 4];
            let hints = (next..next + count).map(|n| (id(n), frame(n)));
            known.add(hints.collect()).expect("it is written");
            next += count;
        }
        assert!(known.files.len() < 12, "{} files", known.files.len());
        for mut known in [known, HintFiles::open(&dir)] {
            let ids: Vec<ObjectId> = (0..next + 1000).map(id).collect();
            for (n, found) in (0..).zip(known.find(&ids)) {
                assert_eq!(found, (n < next).then(|| frame(n)), "{n} of {next}");
            }
        }
    }

    #[test]
    fn what_is_gathered_is_found_once_it_is_written() {
        let dir = tempfile::tempdir().expect("a directory");
        let objects = [b"one", b"two"].map(|text| text.to_vec());
        let ids: Vec<ObjectId> = objects.iter().map(|o| ObjectType::Chunk.id_of(o)).collect();
        let record = record_of(&objects);
        let len = record.as_bytes().len() as u32;
        for kept in [None, Some(dir.path())] {
            let mut gathered = GatheredHints::new(kept);
            gathered.add(Name([4; 16]), 64, &record);
            gathered.write();
            let mut known = HintFiles::open(&dir.path().join(DIR));
            let there = FrameOf {
                pack: Name([4; 16]),
                offset: 64,
                len,
            };
            let expected = kept.map(|_| there);
            assert_eq!(known.find(&ids), vec![expected; 2]);
        }
    }

    fn record_of(objects: &[Vec<u8>]) -> CheckedRecord {
        let mut frame = FrameBuilder::default();
        for bytes in objects {
            frame.push(ObjectType::Chunk.id_of(bytes), ObjectType::Chunk, bytes);
        }
        let mut encoder = FrameEncoder::default();
        let made = encoder.encode(&frame.raw, &frame.objects).expect("memory");
        let bytes = [&made.head[..], made.payload, &made.check].concat();
        CheckedRecord::new(bytes).expect("it was just made")
    }

    #[test]
    fn the_last_place_of_an_object_counts_and_damage_is_absence() {
        let dir = tempfile::tempdir().expect("a directory");
        let mut known = HintFiles::open(dir.path());
        known.add(vec![(id(1), frame(1))]).expect("it is written");
        known.add(vec![(id(1), frame(2))]).expect("it is written");
        assert_eq!(known.find(&[id(1)]), [Some(frame(2))]);
        for entry in std::fs::read_dir(dir.path()).expect("it is there") {
            let path = entry.expect("it is there").path();
            let bytes = std::fs::read(&path).expect("it is there");
            std::fs::write(&path, &bytes[..bytes.len() - 1]).expect("it is written");
        }
        assert_eq!(HintFiles::open(dir.path()).find(&[id(1)]), [None]);
    }
}
