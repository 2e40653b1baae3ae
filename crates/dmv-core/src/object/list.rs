//! Blobs: the content of a file, as one chunk or as a list over several chunks.
//!
//! A list is a Merkle tree. Its nodes end at places that content chooses, so it depends on the
//! sequence of chunks alone, and a small change makes few new nodes. Reading and writing hold one
//! node per level in memory, whatever the size of the file.

use super::boundary::ends_after;
use super::codec::{DecodeError, Decoder, EncodeError, put_header, put_varint};
use super::{ObjectError, ObjectRead, ObjectType, ObjectWrite};
use crate::hash::ObjectId;
use crate::limits::{MAX_CHUNK_BYTES, MAX_NODE_LEVEL, NODE_MAX};

/// No file has this many bytes or more.
const SIZE_BOUND: u64 = 1 << 63;

/// One child of a list node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListEntry {
    /// The id of a chunk (at level 0) or of a list node.
    pub id: ObjectId,
    /// Bytes of the file below this child.
    pub len: u64,
}

/// A node of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListNode {
    /// 0 if the entries are chunks, otherwise one more than the entries' level.
    pub level: u8,
    /// The children, in the order of the file.
    pub entries: Vec<ListEntry>,
}

impl ListNode {
    /// Returns the node's encoding.
    pub fn encode(&self) -> Vec<u8> {
        encode(self.level, &self.entries)
    }

    /// Decodes a node. Fails for bytes that [`encode`](Self::encode) does not make, and for a node
    /// that does not end by the boundary rule.
    pub fn decode(bytes: &[u8]) -> Result<ListNode, DecodeError> {
        let mut input = Decoder::new(bytes);
        input.header(ObjectType::List)?;
        let level = input.u8()?;
        if level > MAX_NODE_LEVEL {
            return Err(input.error("level too high"));
        }
        let count = input.varint_up_to(NODE_MAX as u64, "too many entries")? as usize;
        if count == 0 {
            return Err(input.error("list node without entries"));
        }
        let longest = match level {
            0 => MAX_CHUNK_BYTES as u64,
            _ => SIZE_BOUND - 1,
        };
        let mut entries = Vec::with_capacity(count);
        let mut size = 0u64;
        for n in 1..=count {
            let id = input.id()?;
            let len = input.varint_up_to(longest, "child too long")?;
            if len == 0 {
                return Err(input.error("child without bytes"));
            }
            // Both terms are below 2^63, so the sum does not overflow.
            size += len;
            if size >= SIZE_BOUND {
                return Err(input.error("lengths exceed 63 bits"));
            }
            if n < count && ends_after(n, || id.low_u32()) {
                return Err(input.error("node goes on behind its end"));
            }
            entries.push(ListEntry { id, len });
        }
        input.finish()?;
        Ok(ListNode { level, entries })
    }

    /// Returns the bytes of the file below this node.
    pub fn size(&self) -> u64 {
        size(&self.entries)
    }
}

fn encode(level: u8, entries: &[ListEntry]) -> Vec<u8> {
    let mut out = Vec::with_capacity(8 + entries.len() * 40);
    put_header(&mut out, ObjectType::List);
    out.push(level);
    put_varint(&mut out, entries.len() as u64);
    for entry in entries {
        out.extend_from_slice(entry.id.as_bytes());
        put_varint(&mut out, entry.len);
    }
    out
}

fn size(entries: &[ListEntry]) -> u64 {
    entries.iter().map(|entry| entry.len).sum()
}

/// The content of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Blob {
    /// The single chunk, or the root node of the list.
    pub id: ObjectId,
    /// Whether `id` is a list node.
    pub is_list: bool,
    /// Length in bytes.
    pub size: u64,
}

impl Blob {
    /// Returns the type of the object that `id` names.
    pub fn ty(&self) -> ObjectType {
        if self.is_list {
            ObjectType::List
        } else {
            ObjectType::Chunk
        }
    }

    /// Returns the object that `id` names.
    pub fn root(&self) -> (ObjectType, ObjectId) {
        (self.ty(), self.id)
    }
}

/// Builds a blob from its chunks in order.
#[derive(Debug, Default)]
pub struct ListBuilder {
    /// The open node of each level. If level n + 1 exists, a node of level n has been closed.
    open: Vec<Vec<ListEntry>>,
    size: u64,
}

impl ListBuilder {
    /// Returns a builder without chunks.
    pub fn new() -> ListBuilder {
        ListBuilder::default()
    }

    /// Adds the next chunk, which the caller stores before or afterwards.
    ///
    /// An empty chunk adds nothing: an empty file has no chunks here.
    pub fn push(
        &mut self,
        chunk: ObjectId,
        len: u64,
        objects: &mut dyn ObjectWrite,
    ) -> Result<(), ObjectError> {
        if len == 0 {
            return Ok(());
        }
        self.size = self.size.saturating_add(len);
        if self.size >= SIZE_BOUND {
            let what = "a file of 2^63 bytes or more";
            return Err(EncodeError { what }.into());
        }
        self.add(0, ListEntry { id: chunk, len }, objects)
    }

    /// Stores the nodes that are still open and returns the blob. Without chunks it stores the
    /// empty chunk and returns the empty blob.
    pub fn finish(mut self, objects: &mut dyn ObjectWrite) -> Result<Blob, ObjectError> {
        for level in 0.. {
            let Some(open) = self.open.get(level) else {
                break;
            };
            if let [only] = open[..]
                && level + 1 == self.open.len()
            {
                return Ok(Blob {
                    id: only.id,
                    is_list: level > 0,
                    size: self.size,
                });
            }
            if !open.is_empty() {
                self.close(level, objects)?;
            }
        }
        let id = objects.put(ObjectType::Chunk, b"")?;
        Ok(Blob {
            id,
            is_list: false,
            size: 0,
        })
    }

    fn add(
        &mut self,
        level: usize,
        entry: ListEntry,
        objects: &mut dyn ObjectWrite,
    ) -> Result<(), ObjectError> {
        if level == self.open.len() {
            self.open.push(Vec::new());
        }
        self.open[level].push(entry);
        if ends_after(self.open[level].len(), || entry.id.low_u32()) {
            self.close(level, objects)
        } else {
            Ok(())
        }
    }

    fn close(&mut self, level: usize, objects: &mut dyn ObjectWrite) -> Result<(), ObjectError> {
        // There are fewer than 2^63 chunks, and every closed node has at least NODE_MIN (2^5)
        // entries, except the last one of a level. So no level reaches MAX_NODE_LEVEL.
        let entries = &mut self.open[level];
        let id = objects.put(ObjectType::List, &encode(level as u8, entries))?;
        let len = size(entries);
        entries.clear();
        self.add(level + 1, ListEntry { id, len }, objects)
    }
}

/// The chunks of a blob in order: `(offset in the file, chunk, length)`.
///
/// It reads each node when it reaches it, and ends after an error. An empty file has one chunk, the
/// empty one.
pub struct BlobChunks<'a> {
    objects: &'a dyn ObjectRead,
    /// The blob, until its root has been read.
    start: Option<Blob>,
    /// The remaining entries of the nodes on the way down, with their levels.
    stack: Vec<(u8, std::vec::IntoIter<ListEntry>)>,
    /// Offset of the next entry in the file.
    offset: u64,
    /// Bytes to skip before the first chunk that is returned.
    skip: u64,
}

/// Returns a blob's bytes; `None` if a part of it is absent, or if there are more than `most`.
pub(crate) fn read_blob(
    objects: &dyn ObjectRead,
    blob: Blob,
    most: u64,
) -> Result<Option<Vec<u8>>, ObjectError> {
    if blob.size > most {
        return Ok(None);
    }
    let mut out = Vec::new();
    for chunk in BlobChunks::new(objects, blob) {
        let (_, id, _) = match chunk {
            Err(ObjectError::Missing { .. }) => return Ok(None),
            chunk => chunk?,
        };
        let Some(bytes) = objects.read(ObjectType::Chunk, &id)? else {
            return Ok(None);
        };
        // The stored content may be longer than its entry says. The limit applies to it, too.
        if (out.len() + bytes.len()) as u64 > most {
            return Ok(None);
        }
        out.extend_from_slice(&bytes);
    }
    Ok(Some(out))
}

impl<'a> BlobChunks<'a> {
    /// Returns all chunks of `blob`.
    pub fn new(objects: &'a dyn ObjectRead, blob: Blob) -> BlobChunks<'a> {
        BlobChunks::starting_at(objects, blob, 0)
    }

    /// Returns the chunks from the one that contains the byte at `offset`; none if the blob ends
    /// before it.
    ///
    /// Does not read nodes that lie completely before `offset`.
    pub(crate) fn starting_at(
        objects: &'a dyn ObjectRead,
        blob: Blob,
        offset: u64,
    ) -> BlobChunks<'a> {
        BlobChunks {
            objects,
            start: Some(blob),
            stack: Vec::new(),
            offset: 0,
            skip: offset,
        }
    }

    fn advance(&mut self) -> Result<Option<(u64, ObjectId, u64)>, ObjectError> {
        if let Some(blob) = self.start.take() {
            if self.skip > 0 && self.skip >= blob.size {
                return Ok(None);
            }
            if !blob.is_list {
                return Ok(Some((0, blob.id, blob.size)));
            }
            self.descend(blob.id, blob.size, None)?;
        }
        while let Some((level, entries)) = self.stack.last_mut() {
            let level = *level;
            let Some(entry) = entries.next() else {
                self.stack.pop();
                continue;
            };
            if self.skip >= entry.len {
                self.skip -= entry.len;
                self.offset += entry.len;
            } else if level == 0 {
                self.skip = 0;
                let offset = self.offset;
                self.offset += entry.len;
                return Ok(Some((offset, entry.id, entry.len)));
            } else {
                self.descend(entry.id, entry.len, Some(level - 1))?;
            }
        }
        Ok(None)
    }

    /// Reads a node and compares it with the entry that refers to it. No `level` means the root.
    fn descend(&mut self, id: ObjectId, len: u64, level: Option<u8>) -> Result<(), ObjectError> {
        let ty = ObjectType::List;
        let damaged = |why: String| ObjectError::Damaged { id, ty, why };
        let bytes = self.objects.require(ty, &id)?;
        let node =
            ListNode::decode(&bytes).map_err(|error| ObjectError::undecodable(ty, &id, error))?;
        let size = node.size();
        if size != len {
            return Err(damaged(format!("holds {size} bytes instead of {len}")));
        }
        match level {
            None if node.entries.len() < 2 => {
                return Err(damaged("a root with one entry".to_owned()));
            }
            Some(level) if node.level != level => {
                let found = node.level;
                return Err(damaged(format!("has level {found} instead of {level}")));
            }
            _ => self.stack.push((node.level, node.entries.into_iter())),
        }
        Ok(())
    }
}

impl Iterator for BlobChunks<'_> {
    type Item = Result<(u64, ObjectId, u64), ObjectError>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = self.advance();
        if next.is_err() {
            self.stack.clear();
        }
        next.transpose()
    }
}

impl std::iter::FusedIterator for BlobChunks<'_> {}

#[cfg(test)]
mod tests {
    use super::super::mem::MemObjects;
    use super::*;
    use crate::hash::chunk_id;
    use proptest::prelude::*;

    fn entry(seed: u64) -> ListEntry {
        ListEntry {
            id: chunk_id(&seed.to_le_bytes()),
            len: 1 + seed % 200_000,
        }
    }

    fn entries(count: u64) -> Vec<ListEntry> {
        (0..count).map(entry).collect()
    }

    fn build(entries: &[ListEntry], objects: &mut MemObjects) -> Blob {
        let mut builder = ListBuilder::new();
        for entry in entries {
            builder
                .push(entry.id, entry.len, objects)
                .expect("memory takes everything");
        }
        builder.finish(objects).expect("memory takes everything")
    }

    fn chunks(chunks: BlobChunks<'_>) -> Vec<(u64, ObjectId, u64)> {
        chunks.map(|chunk| chunk.expect("a sound list")).collect()
    }

    fn root_level(objects: &MemObjects, blob: Blob) -> u8 {
        let bytes = objects.require(ObjectType::List, &blob.id).expect("stored");
        ListNode::decode(&bytes).expect("valid").level
    }

    /// Returns an id with the boundary hash `low`.
    fn id_with(low: u32, rest: u8) -> ObjectId {
        let mut bytes = [rest; 32];
        bytes[..4].copy_from_slice(&low.to_le_bytes());
        ObjectId::from_bytes(bytes)
    }

    #[test]
    fn a_blob_of_one_chunk_is_that_chunk() -> Result<(), ObjectError> {
        let mut objects = MemObjects::default();
        let empty = ListBuilder::new().finish(&mut objects)?;
        assert_eq!(
            (empty.id, empty.is_list, empty.size),
            (chunk_id(b""), false, 0)
        );
        assert_eq!(
            build(
                &[ListEntry {
                    id: chunk_id(b""),
                    len: 0
                }],
                &mut objects
            ),
            empty
        );
        assert!(objects.read(ObjectType::Chunk, &empty.id)?.is_some());
        assert_eq!(chunks(BlobChunks::new(&objects, empty)), [(0, empty.id, 0)]);
        assert_eq!(chunks(BlobChunks::starting_at(&objects, empty, 1)), []);

        let only = entry(9);
        let blob = build(&[only], &mut objects);
        assert_eq!(
            (blob.id, blob.is_list, blob.size),
            (only.id, false, only.len)
        );
        assert_eq!(
            chunks(BlobChunks::new(&objects, blob)),
            [(0, only.id, only.len)]
        );
        assert_eq!(
            chunks(BlobChunks::starting_at(&objects, blob, only.len)),
            []
        );
        Ok(())
    }

    #[test]
    fn chunks_come_back_in_order() {
        for count in [2, 31, 32, 33, 160, 511, 512, 513, 5_000, 70_000] {
            let mut objects = MemObjects::default();
            let entries = entries(count);
            let blob = build(&entries, &mut objects);
            assert!(blob.is_list);
            assert_eq!(blob.size, size(&entries));
            let mut offset = 0;
            let mut want = Vec::new();
            for entry in &entries {
                want.push((offset, entry.id, entry.len));
                offset += entry.len;
            }
            assert_eq!(
                chunks(BlobChunks::new(&objects, blob)),
                want,
                "{count} chunks"
            );
        }
    }

    #[test]
    fn lists_are_a_function_of_the_chunk_sequence() {
        let (mut first, mut second) = (MemObjects::default(), MemObjects::default());
        let entries = entries(3_000);
        // The other content of the store and the order of its arrival must not matter.
        build(&entries[1_000..], &mut second);
        assert_eq!(build(&entries, &mut first), build(&entries, &mut second));
        let mut swapped = entries.clone();
        swapped.swap(10, 11);
        assert_ne!(build(&entries, &mut first), build(&swapped, &mut first));
    }

    #[test]
    fn one_more_chunk_makes_few_new_nodes() {
        let mut objects = MemObjects::default();
        let entries = entries(20_000);
        let blob = build(&entries, &mut objects);
        let levels = usize::from(root_level(&objects, blob)) + 1;
        for at in [0, 1, 40, 9_999, 15_000, 19_999, 20_000] {
            let before = objects.len();
            let mut more = entries.clone();
            more.insert(at, entry(1_000_000 + at as u64));
            build(&more, &mut objects);
            let new = objects.len() - before;
            assert!(
                new >= 2 && new <= 4 * levels,
                "{new} new nodes for an insertion at {at}"
            );
        }
    }

    #[test]
    fn equal_chunks_make_a_flat_list_of_few_nodes() {
        // First with a boundary after every entry, then without any boundary.
        for low in [0, 1] {
            let mut objects = MemObjects::default();
            let chunk = id_with(low, 7);
            let mut builder = ListBuilder::new();
            for _ in 0..1_000_000 {
                builder
                    .push(chunk, 262_144, &mut objects)
                    .expect("memory takes everything");
            }
            let blob = builder
                .finish(&mut objects)
                .expect("memory takes everything");
            assert_eq!(blob.size, 1_000_000 * 262_144);
            let level = root_level(&objects, blob);
            assert!(level <= 3, "level {level}");
            // One full node and one last node on each level.
            assert!(
                objects.len() <= 2 * (usize::from(level) + 1),
                "{}",
                objects.len()
            );
            assert_eq!(BlobChunks::new(&objects, blob).count(), 1_000_000);
        }
    }

    #[test]
    fn starting_at_reads_only_the_nodes_on_the_way() {
        let mut objects = MemObjects::default();
        let entries = entries(20_000);
        let blob = build(&entries, &mut objects);
        let all = chunks(BlobChunks::new(&objects, blob));
        let levels = u64::from(root_level(&objects, blob)) + 1;
        let (middle, _, len) = all[12_345];
        let last = blob.size - 1;
        for offset in [
            0,
            1,
            middle - 1,
            middle,
            middle + len - 1,
            middle + len,
            last,
        ] {
            objects.reset_reads();
            let mut found = BlobChunks::starting_at(&objects, blob, offset);
            let skipped = all.iter().filter(|(at, _, len)| at + len > offset);
            let first = found.next().and_then(Result::ok);
            assert_eq!(first.as_ref(), skipped.clone().next(), "from {offset}");
            assert_eq!(objects.reads(), levels, "from {offset}");
            let rest = chunks(found);
            assert!(rest.iter().eq(skipped.skip(1)), "from {offset}");
        }
        assert_eq!(
            chunks(BlobChunks::starting_at(&objects, blob, blob.size)),
            []
        );
        assert_eq!(
            chunks(BlobChunks::starting_at(&objects, blob, u64::MAX)),
            []
        );
    }

    /// Returns the error for a list with the given root and one child.
    fn complaint(child: &ListNode, stated: u64, root_level: u8, size: u64) -> String {
        let mut objects = MemObjects::default();
        let id = objects
            .put(ObjectType::List, &child.encode())
            .expect("memory");
        let other = ListEntry { id, len: stated };
        let root = ListNode {
            level: root_level,
            entries: vec![other, other],
        };
        let id = objects
            .put(ObjectType::List, &root.encode())
            .expect("memory");
        let blob = Blob {
            id,
            is_list: true,
            size,
        };
        let mut found = BlobChunks::new(&objects, blob);
        let error = found.find_map(Result::err).expect("an error");
        assert!(found.next().is_none());
        error.to_string()
    }

    #[test]
    fn nodes_that_contradict_each_other_are_damage() {
        let leaf = ListNode {
            level: 0,
            entries: vec![entry(1), entry(2)],
        };
        let n = leaf.size();
        assert!(complaint(&leaf, n, 2, 2 * n).contains("has level 0 instead of 1"));
        assert!(complaint(&leaf, n + 1, 1, 2 * n + 2).contains("bytes instead of"));
        assert!(complaint(&leaf, n, 1, 2 * n + 1).contains("bytes instead of"));
    }

    #[test]
    fn a_root_with_one_entry_and_a_missing_node_are_reported() {
        let mut objects = MemObjects::default();
        let root = ListNode {
            level: 0,
            entries: vec![entry(1)],
        };
        let id = objects
            .put(ObjectType::List, &root.encode())
            .expect("memory");
        let blob = Blob {
            id,
            is_list: true,
            size: root.size(),
        };
        let error = BlobChunks::new(&objects, blob).find_map(Result::err);
        assert!(
            matches!(error, Some(ObjectError::Damaged { .. })),
            "{error:?}"
        );

        let blob = build(&entries(100), &mut objects);
        let elsewhere = MemObjects::default();
        let error = BlobChunks::new(&elsewhere, blob).find_map(Result::err);
        assert!(matches!(error, Some(ObjectError::Missing { id, .. }) if id == blob.id));
    }

    #[test]
    fn what_no_builder_writes_is_rejected() {
        let why = |level, entries: &[ListEntry]| {
            ListNode::decode(&encode(level, entries))
                .map_err(|e| e.what)
                .err()
        };
        let id = id_with(1, 0);
        let of = |len| ListEntry { id, len };
        let max = MAX_CHUNK_BYTES as u64;
        assert_eq!(why(0, &[of(max)]), None);
        assert_eq!(why(MAX_NODE_LEVEL, &[of(SIZE_BOUND - 1)]), None);
        assert_eq!(why(0, &vec![of(1); NODE_MAX]), None);
        assert_eq!(why(0, &[]), Some("list node without entries"));
        assert_eq!(why(0, &[of(0)]), Some("child without bytes"));
        assert_eq!(why(0, &[of(max + 1)]), Some("child too long"));
        assert_eq!(why(1, &[of(SIZE_BOUND)]), Some("child too long"));
        assert_eq!(
            why(1, &[of(SIZE_BOUND - 1), of(1)]),
            Some("lengths exceed 63 bits")
        );
        assert_eq!(why(MAX_NODE_LEVEL + 1, &[of(1)]), Some("level too high"));
        assert_eq!(why(0, &vec![of(1); NODE_MAX + 1]), Some("too many entries"));
        let end = ListEntry {
            id: id_with(0x80, 0),
            len: 1,
        };
        assert_eq!(why(0, &[end; 32]), None);
        assert_eq!(why(0, &[end; 33]), Some("node goes on behind its end"));
    }

    proptest! {
        #[test]
        fn nodes_round_trip_and_mutations_do_not_pass_unseen(
            level in 0..=MAX_NODE_LEVEL,
            parts in prop::collection::vec((1..1u64 << 20, any::<u8>()), 1..40),
            at: prop::sample::Index, flip in 1..=255u8, cut: prop::sample::Index,
        ) {
            let entries = parts.iter().map(|(len, b)| ListEntry { id: id_with(1, *b), len: *len });
            let node = ListNode { level, entries: entries.collect() };
            let bytes = node.encode();
            prop_assert_eq!(ListNode::decode(&bytes), Ok(node));
            prop_assert!(ListNode::decode(&bytes[..cut.index(bytes.len())]).is_err());
            let mut mutated = bytes.clone();
            mutated[at.index(bytes.len())] ^= flip;
            if let Ok(other) = ListNode::decode(&mutated) {
                prop_assert_eq!(other.encode(), mutated);
            }
            mutated = bytes;
            mutated.push(flip);
            prop_assert!(ListNode::decode(&mutated).is_err());
        }
    }
}
