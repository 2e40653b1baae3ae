//! Whether the bucket has the content of files: a device that drops its own copies asks.
//!
//! Lists are read from the bucket. Chunks are looked up in the tables of their packs; those that no
//! table has are read, first where this device has found or uploaded them before. Nothing is kept for the one who asks: gc frees what no ref leads to. So the
//! client checks that the refs that it was told lead to the files, and here they must not move
//! before the answer. What they lead to stays until the next push that changes refs.

use super::answers::{Clues, WantedObjects};
use super::catalog::Catalog;
use crate::format::{Name, Row, View};
use crate::ranges::Range;
use crate::work::hints::{self, HintFiles};
use crate::work::push::ids_of;
use dmv_core::hash::ObjectId;
use dmv_core::object::ObjectType;
use dmv_core::object::list::ListNode;
use dmv_core::store::CheckedRecord;
use dmv_net::session::NetError;
use dmv_net::sync::Clue;
use std::collections::{BTreeSet, HashMap, HashSet};

/// How many nodes are read at once.
const NODES: usize = 512;
/// How often everything is asked again because files were freed meanwhile.
const TRIES: usize = 3;

/// A node or chunk of a file, with the number of the file.
type Part = (ObjectId, usize);

impl Catalog {
    /// Returns those of the files whose content is not complete in the bucket; all, if a ref that was
    /// `told` to the other side has moved. That side knows to what the refs lead.
    pub fn unkept(
        &mut self,
        files: Vec<(ObjectType, ObjectId)>,
        told: &View,
    ) -> Result<Vec<(ObjectType, ObjectId)>, NetError> {
        let mut lacking = HashSet::new();
        for _ in 0..TRIES {
            let before = (self.root.age(), self.root.expired.clone());
            lacking = self.incomplete(&files)?;
            self.look_again()?;
            if told
                .iter()
                .any(|(key, value)| self.view.get(key) != Some(value))
            {
                return Ok(files);
            }
            if (self.root.age(), &self.root.expired) == (before.0, &before.1) {
                let lacking = lacking.into_iter().map(|n| files[n]);
                return Ok(lacking.collect());
            }
        }
        // Other devices free files all the time: nothing is certain.
        drop(lacking);
        Ok(files)
    }

    fn incomplete(&mut self, files: &[(ObjectType, ObjectId)]) -> Result<HashSet<usize>, NetError> {
        let mut lacking = HashSet::new();
        // What is purged or has expired goes, even if a pack still has it.
        let mut purged = HashSet::new();
        for buried in self.purges()?.into_values() {
            purged.extend(buried.files);
            purged.extend(buried.pieces);
        }
        let expired = ids_of(&self.expired()?);
        let (mut lists, mut chunks): (Vec<Part>, Vec<Part>) = (Vec::new(), Vec::new());
        for (n, (ty, id)) in files.iter().enumerate() {
            match ty {
                _ if purged.contains(id) || expired.contains(id) => {
                    lacking.insert(n);
                }
                ObjectType::List => lists.push((*id, n)),
                ObjectType::Chunk => chunks.push((*id, n)),
                // Only files can be dropped.
                _ => {
                    lacking.insert(n);
                }
            }
        }
        self.look_for(&chunks, &Clues::new(), &purged, &mut lacking)?;
        while !lists.is_empty() {
            let from = lists.len().saturating_sub(NODES);
            let round = lists.split_off(from);
            self.read_lists(&round, &mut lists, &purged, &mut lacking)?;
        }
        Ok(lacking)
    }

    /// Reads nodes of lists, adds the nodes below to `lists`, and looks for the chunks.
    fn read_lists(
        &mut self,
        round: &[Part],
        lists: &mut Vec<Part>,
        purged: &HashSet<ObjectId>,
        lacking: &mut HashSet<usize>,
    ) -> Result<(), NetError> {
        let mut wanted: WantedObjects = round
            .iter()
            .map(|(id, _)| (*id, ObjectType::List))
            .collect();
        let mut read: HashMap<ObjectId, ListNode> = HashMap::new();
        self.give(&mut wanted, &Clues::new(), 0, &mut |record, wanted| {
            for (n, object) in record.objects().iter().enumerate() {
                let bytes = record.bytes_of(n).unwrap_or_default();
                if wanted.get(&object.id) == Some(&object.ty)
                    && let Ok(node) = ListNode::decode(bytes)
                {
                    wanted.remove(&object.id);
                    read.insert(object.id, node);
                }
            }
            Ok(())
        })?;
        let (mut chunks, mut clues) = (Vec::new(), Clues::new());
        for (id, n) in round {
            let Some(node) = read.get(id) else {
                lacking.insert(*n);
                continue;
            };
            for entry in &node.entries {
                if node.level > 0 {
                    lists.push((entry.id, *n));
                    continue;
                }
                chunks.push((entry.id, *n));
                clues.insert(
                    entry.id,
                    Clue {
                        chunk: entry.id,
                        len: entry.len,
                        above: *id,
                    },
                );
            }
        }
        self.look_for(&chunks, &clues, purged, lacking)
    }

    /// Looks for chunks that are not purged: first in tables of the packs that places name, then by reading.
    fn look_for(
        &mut self,
        chunks: &[Part],
        clues: &Clues,
        purged: &HashSet<ObjectId>,
        lacking: &mut HashSet<usize>,
    ) -> Result<(), NetError> {
        let mut wanted: WantedObjects = chunks
            .iter()
            .map(|(id, _)| (*id, ObjectType::Chunk))
            .collect();
        let above: BTreeSet<ObjectId> = clues.values().map(|clue| clue.above).collect();
        let packs: BTreeSet<Name> = above
            .iter()
            .flat_map(|node| self.nodes.below(node))
            .map(|frame| frame.file)
            .collect();
        let data = self.data()?;
        let near: Vec<Row> = if clues.is_empty() {
            data
        } else {
            data.into_iter()
                .filter(|row| packs.contains(&row.name))
                .collect()
        };
        let ids = wanted.keys().copied().collect();
        let mut found = Vec::new();
        self.find_chunks(ids, &near, &mut |id, frame| found.push((id, frame.file)))?;
        for (id, file) in found {
            if !self.gone.contains(&file) {
                wanted.remove(&id);
            }
        }
        let known = self.known_frames(&wanted)?;
        self.read_frames(known, &mut wanted, &mut strike)?;
        self.give(&mut wanted, clues, 0, &mut strike)?;
        let lacks = chunks
            .iter()
            .filter(|(id, _)| wanted.contains_key(id) || purged.contains(id));
        lacking.extend(lacks.map(|(_, n)| *n));
        Ok(())
    }

    /// Returns where this device has found or uploaded wanted chunks, in packs that are there.
    fn known_frames(&mut self, wanted: &WantedObjects) -> Result<Vec<Range>, NetError> {
        let Some(dir) = self.cache.dir().filter(|_| !wanted.is_empty()) else {
            return Ok(Vec::new());
        };
        let ids: Vec<ObjectId> = wanted.keys().copied().collect();
        let found = HintFiles::open(&dir.join(hints::DIR)).find(&ids);
        let mut frames = BTreeSet::new();
        for frame in found.into_iter().flatten() {
            if self.lists(&frame.pack)? {
                frames.insert(Range {
                    file: frame.pack,
                    offset: frame.offset,
                    len: frame.len.into(),
                });
            }
        }
        Ok(frames.into_iter().collect())
    }
}

/// Notes that what a record has was found.
fn strike(record: CheckedRecord, wanted: &mut WantedObjects) -> Result<(), NetError> {
    for object in record.objects() {
        wanted.remove(&object.id);
    }
    Ok(())
}
