//! Which paths each commit changed, as far as `repack` has compared (docs/format/changed-paths.md).
//!
//! The table answers "did this commit change that path?" with "no" or "perhaps", without reading
//! trees. It knows no files and no store: `repo` reads and writes its bytes.

use crate::hash::{ObjectId, check, chunk_id};
use crate::object::name::RepoPath;
use std::collections::HashSet;
use std::ops::Range;

const MAGIC: &[u8; 8] = b"DMVPATH\n";
const VERSION: u32 = 1;
/// Magic, version, two counts.
const COUNTS_END: usize = 20;
const HEADER: usize = COUNTS_END + 8;
const KEY: usize = 16;
const END: usize = 4;
const MAX_COMMITS: usize = 1 << 21;
const MAX_FILTERS: usize = 128 << 20;
/// The greatest accepted size of the file, in bytes.
pub(crate) const MAX_FILE: usize = HEADER + MAX_COMMITS * (KEY + END) + MAX_FILTERS;
/// A commit that changed more paths has no filter of its own.
const MAX_PATHS: usize = 512;
/// The numbers of Git's filters (gitformat-commit-graph, "Changed path Bloom filters").
const BITS_PER_PATH: usize = 10;
const HASHES: u64 = 7;

/// The hash of a path, for asking often.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct PathHash(u64, u64);

impl PathHash {
    /// Hashes a path. The root has no hash, since no table tells of it.
    pub fn of(path: &RepoPath) -> Option<PathHash> {
        (!path.is_root()).then(|| PathHash::of_bytes(path.as_bytes()))
    }

    fn of_bytes(path: &[u8]) -> PathHash {
        let hash = chunk_id(path);
        let half = |at: usize| {
            let mut bytes = [0; 8];
            bytes.copy_from_slice(&hash.as_bytes()[at..at + 8]);
            u64::from_le_bytes(bytes)
        };
        PathHash(half(0), half(8))
    }

    /// The bits of the path in a filter of `bits` bits.
    fn bits(self, bits: u64) -> impl Iterator<Item = (usize, u8)> {
        (0..HASHES).map(move |i| {
            let bit = self.0.wrapping_add(i.wrapping_mul(self.1)) % bits;
            ((bit / 8) as usize, 1 << (bit % 8))
        })
    }
}

/// The paths that one commit changed.
#[derive(Default)]
pub struct Changes {
    paths: HashSet<PathHash>,
    too_many: bool,
}

impl Changes {
    /// Adds a path, and the directories above it. Returns false if there are too many paths already,
    /// and more need not be added.
    pub fn add(&mut self, path: &RepoPath) -> bool {
        let bytes = path.as_bytes();
        let slashes = (0..bytes.len()).filter(|at| bytes[*at] == b'/');
        for end in slashes.chain([bytes.len()]) {
            self.paths.insert(PathHash::of_bytes(&bytes[..end]));
        }
        self.too_many |= self.paths.len() > MAX_PATHS;
        !self.too_many
    }

    fn filter(&self) -> Vec<u8> {
        if self.too_many {
            return Vec::new();
        }
        let len = (self.paths.len() * BITS_PER_PATH).div_ceil(8).max(1);
        let mut filter = vec![0; len];
        for path in &self.paths {
            for (byte, bit) in path.bits(8 * len as u64) {
                filter[byte] |= bit;
            }
        }
        filter
    }
}

/// Why bytes are not used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unusable {
    /// They have a later version.
    Later,
    /// They are damaged, or something else.
    Damaged,
}

/// The table. By default it knows no commit.
#[derive(Default)]
pub struct ChangedPaths {
    bytes: Vec<u8>,
    commits: usize,
}

impl ChangedPaths {
    /// Checks the bytes of the file.
    pub fn decode(bytes: Vec<u8>) -> Result<ChangedPaths, Unusable> {
        let header = bytes.get(..HEADER).ok_or(Unusable::Damaged)?;
        if !header.starts_with(MAGIC) {
            return Err(Unusable::Damaged);
        }
        match number(header, 8) {
            VERSION => {}
            version if version > VERSION => return Err(Unusable::Later),
            _ => return Err(Unusable::Damaged),
        }
        let (commits, filters) = (number(header, 12) as usize, number(header, 16) as usize);
        let is_bounded = commits <= MAX_COMMITS && filters <= MAX_FILTERS;
        if !is_bounded || bytes.len() != HEADER + commits * (KEY + END) + filters {
            return Err(Unusable::Damaged);
        }
        if header[COUNTS_END..] != check(&[&bytes[..COUNTS_END], &bytes[HEADER..]]) {
            return Err(Unusable::Damaged);
        }
        let table = ChangedPaths { bytes, commits };
        let keys_rise = (1..commits).all(|n| table.key(n - 1) < table.key(n));
        let ends_rise = (1..commits).all(|n| table.end(n - 1) <= table.end(n));
        let last = commits.checked_sub(1).map_or(0, |last| table.end(last));
        if keys_rise && ends_rise && last == filters {
            Ok(table)
        } else {
            Err(Unusable::Damaged)
        }
    }

    /// Returns whether the table knows `commit`.
    pub fn knows(&self, commit: &ObjectId) -> bool {
        self.find(commit).is_some()
    }

    /// Returns whether the table knows no commit.
    pub fn is_empty(&self) -> bool {
        self.commits == 0
    }

    /// Returns true if `commit` certainly has the same at the path as its first parent.
    pub(crate) fn is_unchanged(&self, commit: &ObjectId, path: PathHash) -> bool {
        let Some(at) = self.find(commit) else {
            return false;
        };
        let filter = &self.bytes[self.filter(at)];
        let bits = 8 * filter.len() as u64;
        bits > 0 && path.bits(bits).any(|(byte, bit)| filter[byte] & bit == 0)
    }

    fn find(&self, commit: &ObjectId) -> Option<usize> {
        let wanted = &commit.as_bytes()[..KEY];
        let (mut from, mut to) = (0, self.commits);
        while from < to {
            let middle = from.midpoint(to);
            match self.key(middle).cmp(wanted) {
                std::cmp::Ordering::Less => from = middle + 1,
                std::cmp::Ordering::Greater => to = middle,
                std::cmp::Ordering::Equal => return Some(middle),
            }
        }
        None
    }

    fn key(&self, n: usize) -> &[u8] {
        &self.bytes[HEADER + n * KEY..][..KEY]
    }

    /// Where the filter of commit `n` ends among the filters.
    fn end(&self, n: usize) -> usize {
        number(&self.bytes, HEADER + self.commits * KEY + n * END) as usize
    }

    fn filter(&self, n: usize) -> Range<usize> {
        let filters = HEADER + self.commits * (KEY + END);
        let start = n.checked_sub(1).map_or(0, |before| self.end(before));
        filters + start..filters + self.end(n)
    }
}

fn number(bytes: &[u8], at: usize) -> u32 {
    let mut number = [0; 4];
    number.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(number)
}

/// Adds commits to a table.
pub struct Builder {
    known: ChangedPaths,
    /// The keys of the new commits, each with its filter's place in `filters`.
    added: Vec<([u8; KEY], Range<u32>)>,
    filters: Vec<u8>,
}

impl Builder {
    /// Begins with what a table knows.
    pub fn new(known: ChangedPaths) -> Builder {
        Builder {
            known,
            added: Vec::new(),
            filters: Vec::new(),
        }
    }

    /// Returns whether the table that the builder began with knows `commit`.
    pub fn knows(&self, commit: &ObjectId) -> bool {
        self.known.knows(commit)
    }

    /// Returns the number of commits that were added.
    pub fn added(&self) -> usize {
        self.added.len()
    }

    /// Returns whether no further commit has room.
    pub fn is_full(&self) -> bool {
        let known = &self.known;
        let last = known.commits.checked_sub(1).map_or(0, |n| known.end(n));
        known.commits + self.added.len() >= MAX_COMMITS
            || last + self.filters.len() + MAX_PATHS * BITS_PER_PATH > MAX_FILTERS
    }

    /// Adds a commit that the table does not know yet. Does nothing if it has no room.
    pub fn add(&mut self, commit: &ObjectId, changes: &Changes) {
        if self.is_full() {
            return;
        }
        let start = self.filters.len() as u32;
        self.filters.extend(changes.filter());
        let mut key = [0; KEY];
        key.copy_from_slice(&commit.as_bytes()[..KEY]);
        self.added.push((key, start..self.filters.len() as u32));
    }

    /// Returns the bytes of the file.
    pub fn encode(mut self) -> Vec<u8> {
        self.added.sort_unstable_by_key(|(key, _)| *key);
        self.added.dedup_by_key(|(key, _)| *key);
        let known = &self.known;
        let rows = known.commits + self.added.len();
        let mut out = Vec::with_capacity(HEADER + rows * (KEY + END) + known.bytes.len());
        out.resize(HEADER, 0);
        let mut order = Vec::with_capacity(rows);
        let mut old = 0;
        for (key, filter) in &self.added {
            while old < known.commits && known.key(old) < &key[..] {
                order.push(&known.bytes[known.filter(old)]);
                out.extend_from_slice(known.key(old));
                old += 1;
            }
            order.push(&self.filters[filter.start as usize..filter.end as usize]);
            out.extend_from_slice(key);
        }
        for n in old..known.commits {
            order.push(&known.bytes[known.filter(n)]);
            out.extend_from_slice(known.key(n));
        }
        let mut end = 0;
        for filter in &order {
            end += filter.len() as u32;
            out.extend_from_slice(&end.to_le_bytes());
        }
        order
            .iter()
            .for_each(|filter| out.extend_from_slice(filter));
        out[..8].copy_from_slice(MAGIC);
        out[8..12].copy_from_slice(&VERSION.to_le_bytes());
        out[12..16].copy_from_slice(&(rows as u32).to_le_bytes());
        out[16..20].copy_from_slice(&end.to_le_bytes());
        let checked = check(&[&out[..COUNTS_END], &out[HEADER..]]);
        out[COUNTS_END..HEADER].copy_from_slice(&checked);
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::encode_hex;
    use proptest::collection::{hash_set, vec};
    use proptest::prelude::*;

    fn path(text: &str) -> RepoPath {
        RepoPath::parse(text.as_bytes()).expect("a path")
    }

    fn hash(text: &str) -> PathHash {
        PathHash::of(&path(text)).expect("not the root")
    }

    fn commit(n: u32) -> ObjectId {
        chunk_id(&n.to_le_bytes())
    }

    fn changes(paths: &[RepoPath]) -> Changes {
        let mut changes = Changes::default();
        paths.iter().for_each(|path| {
            changes.add(path);
        });
        changes
    }

    fn table(rows: &[(ObjectId, Changes)]) -> Vec<u8> {
        let mut builder = Builder::new(ChangedPaths::default());
        rows.iter().for_each(|(id, of)| builder.add(id, of));
        builder.encode()
    }

    #[test]
    fn golden_bytes() {
        let rows = [
            (commit(1), changes(&[path("a/b.txt")])),
            (commit(2), changes(&[])),
        ];
        let expected = include_str!("../../../../docs/format/vectors/changed-paths.txt");
        assert_eq!(encode_hex(&table(&rows)), expected.trim());
    }

    #[test]
    fn too_many_paths_may_all_differ() -> Result<(), Unusable> {
        let many: Vec<RepoPath> = (0..600).map(|n| path(&format!("f{n}"))).collect();
        let table = ChangedPaths::decode(table(&[(commit(1), changes(&many))]))?;
        assert!(table.knows(&commit(1)));
        assert!(!table.is_unchanged(&commit(1), hash("other")));
        assert!(!changes(&many).add(&path("one more")));
        Ok(())
    }

    #[test]
    fn a_later_version_is_told_from_damage() {
        let mut bytes = table(&[(commit(1), changes(&[]))]);
        bytes[8] = 2;
        assert_eq!(ChangedPaths::decode(bytes).err(), Some(Unusable::Later));
    }

    fn some_paths() -> impl Strategy<Value = Vec<RepoPath>> {
        let text = vec("[a-c]{1,2}", 1..4).prop_map(|parts| path(&parts.join("/")));
        vec(text, 0..8)
    }

    proptest! {
        #[test]
        fn what_changed_is_never_called_unchanged(
            all in vec(some_paths(), 1..30), split in 0usize..30,
        ) {
            let rows: Vec<(ObjectId, &Vec<RepoPath>)> =
                all.iter().enumerate().map(|(n, paths)| (commit(n as u32), paths)).collect();
            // In two steps, as two repacks do it.
            let (first, second) = rows.split_at(split.min(rows.len()));
            let mut builder = Builder::new(ChangedPaths::default());
            first.iter().for_each(|(id, paths)| builder.add(id, &changes(paths)));
            let known = ChangedPaths::decode(builder.encode()).expect("what was encoded");
            let mut builder = Builder::new(known);
            second.iter().for_each(|(id, paths)| builder.add(id, &changes(paths)));
            let table = ChangedPaths::decode(builder.encode()).expect("what was encoded");
            for (id, paths) in &rows {
                prop_assert!(table.knows(id));
                for path in *paths {
                    let mut above = path.clone();
                    while let Some(hash) = PathHash::of(&above) {
                        prop_assert!(!table.is_unchanged(id, hash));
                        above.pop();
                    }
                }
                // With no change, the answer is certain.
                let other = hash("elsewhere/at/all");
                prop_assert!(!paths.is_empty() || table.is_unchanged(id, other));
            }
            prop_assert!(!table.is_unchanged(&commit(1000), hash("a")));
        }

        #[test]
        fn a_changed_byte_is_noticed(
            names in hash_set("[a-z]{1,9}", 0..20), at in any::<prop::sample::Index>(), bit in 0u8..8,
        ) {
            let rows: Vec<_> = names.iter().enumerate()
                .map(|(n, name)| (commit(n as u32), changes(&[path(name)]))).collect();
            let mut bytes = table(&rows);
            let at = at.index(bytes.len());
            bytes[at] ^= 1 << bit;
            prop_assert!(ChangedPaths::decode(bytes.clone()).is_err());
            bytes.truncate(at);
            prop_assert!(ChangedPaths::decode(bytes).is_err());
        }

        #[test]
        fn any_bytes_are_refused_without_harm(bytes in vec(any::<u8>(), 0..200)) {
            prop_assert!(ChangedPaths::decode(bytes).is_err());
        }
    }

    #[test]
    fn about_one_in_a_hundred_is_a_false_perhaps() -> Result<(), Unusable> {
        let many: Vec<RepoPath> = (0..300).map(|n| path(&format!("f{n}"))).collect();
        let table = ChangedPaths::decode(table(&[(commit(1), changes(&many))]))?;
        let perhaps = (0..10_000)
            .map(|n| hash(&format!("g{n}")))
            .filter(|hash| !table.is_unchanged(&commit(1), *hash))
            .count();
        assert!((20..200).contains(&perhaps), "{perhaps} of 10,000");
        Ok(())
    }
}
