//! A bucket in memory, and a small writer of its packs. The writer is as plain as the format allows: it
//! knows each place that it has written, and nothing is freed.

use crate::peers::{Done, Place};
use dmv_bucket::files::{BucketFile, FileFailure, Files};
use dmv_bucket::format::{FramePlace, Name, Node as PlacesNode, Places, ROOT, Root, Row, RowKind};
use dmv_bucket::machines::Tag;
use dmv_core::hash::ObjectId;
use dmv_core::object::list::ListNode;
use dmv_core::object::tree::Node;
use dmv_core::object::{ObjectRead, ObjectType};
use dmv_core::reach::{Detail, Reach};
use dmv_core::store::{
    FrameBuilder, FrameEncoder, PackId, RepositoryId, SealedHeader, SealedKind, SealedWriter,
};
use dmv_net::trouble::Trouble;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard};

/// Decoded bytes of a frame: small, so that small repositories have many.
const FRAME_BYTES: usize = 16 << 10;

/// A read that a bucket was asked for: the file, and the range or everything.
pub type Asked = (String, Option<Range<u64>>);

#[derive(Default)]
struct State {
    files: BTreeMap<String, (Vec<u8>, u64)>,
    writes: u64,
    requests: Vec<Asked>,
    cut_after: Option<usize>,
}

/// The files of a bucket in memory. Clones are the same bucket.
#[derive(Clone, Default)]
pub struct Memory(Arc<Mutex<State>>);

impl Memory {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("no test panics with it")
    }

    /// Writes or replaces a file.
    pub fn put(&self, name: &str, bytes: Vec<u8>) {
        let mut state = self.state();
        state.writes += 1;
        let version = state.writes;
        state.files.insert(name.to_owned(), (bytes, version));
    }

    /// Removes a file.
    pub fn remove(&self, name: &str) {
        self.state().files.remove(name);
    }

    /// Returns a file.
    pub fn get(&self, name: &str) -> Option<Vec<u8>> {
        let state = self.state();
        state.files.get(name).map(|(bytes, _)| bytes.clone())
    }

    /// Returns the reads since the last call.
    pub fn requests(&self) -> Vec<Asked> {
        std::mem::take(&mut self.state().requests)
    }

    /// Answers only so many requests from now on; `None`: all.
    pub fn cut_after(&self, requests: Option<usize>) {
        self.state().cut_after = requests;
    }

    fn ask(&self, name: &str, range: Option<Range<u64>>) -> Result<(Vec<u8>, u64), FileFailure> {
        let mut state = self.state();
        state.requests.push((name.to_owned(), range));
        if let Some(left) = &mut state.cut_after {
            *left = left
                .checked_sub(1)
                .ok_or(FileFailure::Trouble(Trouble::Unreachable(
                    "by the test".into(),
                )))?;
        }
        state.files.get(name).cloned().ok_or(FileFailure::Missing)
    }
}

fn tag(version: u64) -> Tag {
    Tag {
        etag: Some(format!("\"{version}\"")),
        version: None,
    }
}

fn refused<T>() -> Result<T, FileFailure> {
    Err(FileFailure::Trouble(Trouble::Unsupported("a test".into())))
}

impl Files for Memory {
    fn read_range(&self, name: &str, range: Range<u64>) -> Result<Vec<u8>, FileFailure> {
        let (bytes, _) = self.ask(name, Some(range.clone()))?;
        let found = bytes.get(range.start as usize..range.end as usize);
        found.map(<[u8]>::to_vec).ok_or(FileFailure::Length)
    }

    fn read_whole(&self, name: &str, known: Option<&Tag>) -> Result<(Vec<u8>, Tag), FileFailure> {
        let (bytes, version) = self.ask(name, None)?;
        if known == Some(&tag(version)) {
            Err(FileFailure::Unchanged)
        } else {
            Ok((bytes, tag(version)))
        }
    }

    fn length(&self, name: &str) -> Result<u64, FileFailure> {
        Ok(self.ask(name, None)?.0.len() as u64)
    }

    fn write(&self, name: &str, bytes: Vec<u8>) -> Result<(), FileFailure> {
        self.put(name, bytes);
        Ok(())
    }

    fn write_if(&self, _: &str, _: Vec<u8>, _: Option<&Tag>) -> Result<Tag, FileFailure> {
        refused()
    }

    fn begin_upload(&self, _: &str) -> Result<String, FileFailure> {
        refused()
    }

    fn upload_part(&self, _: &str, _: &str, _: usize, _: Vec<u8>) -> Result<String, FileFailure> {
        refused()
    }

    fn end_upload(&self, _: &str, _: &str, _: &[String], _: u64) -> Result<(), FileFailure> {
        refused()
    }

    fn drop_upload(&self, _: &str, _: &str) -> Result<(), FileFailure> {
        refused()
    }

    fn delete_all(&self, _: &[String]) -> Result<(), FileFailure> {
        refused()
    }

    fn list_folders(&self) -> Result<Vec<String>, FileFailure> {
        refused()
    }

    fn list_all(&self, _: &str) -> Result<Vec<BucketFile>, FileFailure> {
        refused()
    }
}

/// How a push is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packs {
    /// As one pack with everything.
    Joint,
    /// As a pack of chunks and a pack of metadata.
    Apart,
    /// The same without places.
    WithoutPlaces,
}

/// Writes commits of a repository to a bucket.
pub struct BucketWriter {
    /// The bucket.
    pub files: Memory,
    /// Its root.
    pub root: Root,
    places: HashMap<ObjectId, (Name, u64, u32)>,
    names: u8,
}

impl BucketWriter {
    /// Begins a bucket without commits.
    pub fn new() -> Done<BucketWriter> {
        let root = Root::first(RepositoryId::from_bytes([9; 16]), [1; 16]);
        let files = Memory::default();
        files.put(ROOT, root.encode()?);
        Ok(BucketWriter {
            files,
            root,
            places: HashMap::new(),
            names: 0,
        })
    }

    fn name(&mut self) -> Name {
        self.names += 1;
        Name([self.names; 16])
    }

    /// Returns the path of a pack.
    pub fn path(&self, row: &Row) -> String {
        row.name.path(self.root.repository)
    }

    /// Uploads what the tip of a branch needs and the bucket's tips do not, and moves the branch.
    pub fn push(&mut self, place: &Place, branch: &str, packs: Packs) -> Done {
        let repo = place.again()?;
        let (objects, tip) = (repo.objects(), repo.resolve(branch)?);
        let hidden = self.root.view.values().flatten();
        let hidden: Result<Vec<_>, _> = hidden.map(|id| id[..].try_into()).collect();
        let hidden = hidden?.into_iter().map(ObjectId::from_bytes);
        let mut reach = Reach::new([tip], hidden, Detail::All);
        let (mut chunks, mut nodes) = (Vec::new(), Vec::new());
        while let Some(found) = reach.next(objects)? {
            match found.ty {
                ObjectType::Chunk => chunks.push((found.ty, found.id)),
                ty => nodes.push((ty, found.id)),
            }
        }
        nodes.sort_by_key(|(ty, _)| match ty {
            ObjectType::Commit => 0,
            ObjectType::Tree => 1,
            _ => 2,
        });
        let mut rows = Vec::new();
        let first = self.begin(if packs == Packs::Joint {
            RowKind::Joint
        } else {
            RowKind::Data
        })?;
        let (name, mut pack) = first;
        self.add(name, &mut pack, &chunks, objects)?;
        let mut tail = pack.end_segment(None)?;
        if packs == Packs::Joint {
            rows.push(self.end(RowKind::Joint, name, pack, &nodes, objects, true)?);
        } else {
            let (bytes, len) = pack.finish()?;
            self.files.put(&name.path(self.root.repository), bytes);
            rows.push((RowKind::Data, name, [tail, tail, tail, len]));
            let (name, pack) = self.begin(RowKind::Meta)?;
            let places = packs == Packs::Apart;
            rows.push(self.end(RowKind::Meta, name, pack, &nodes, objects, places)?);
        }
        tail = self.root.generation + 1;
        for (kind, name, [metadata, commits_end, end, len]) in rows {
            self.root.rows.push(Row {
                generation: tail,
                name,
                kind,
                metadata,
                commits_end,
                tail: end,
                len,
            });
        }
        let key = format!("branch/{branch}");
        self.root.view.insert(key, Some(tip.as_bytes().to_vec()));
        self.publish()
    }

    /// Writes the root as a new one.
    pub fn publish(&mut self) -> Done {
        self.root.generation += 1;
        self.root.previous = self.root.write;
        self.root.write = [self.root.generation as u8; 16];
        self.files.put(ROOT, self.root.encode()?);
        Ok(())
    }

    fn begin(&mut self, kind: RowKind) -> Done<(Name, SealedWriter<Vec<u8>>)> {
        let name = self.name();
        let header = SealedHeader {
            kind: match kind {
                RowKind::Data => SealedKind::Data,
                RowKind::Meta => SealedKind::Meta,
                RowKind::Joint => SealedKind::Joint,
            },
            repo: self.root.repository,
            id: PackId::from_bytes(name.0),
        };
        Ok((name, SealedWriter::begin(Vec::new(), &header)?))
    }

    fn add(
        &mut self,
        name: Name,
        pack: &mut SealedWriter<Vec<u8>>,
        wanted: &[(ObjectType, ObjectId)],
        objects: &dyn ObjectRead,
    ) -> Done {
        let mut encoder = FrameEncoder::default();
        let mut frame = FrameBuilder::default();
        for (n, (ty, id)) in wanted.iter().enumerate() {
            let bytes = objects.read(*ty, id)?.ok_or("an object is absent")?;
            frame.push(*id, *ty, &bytes);
            let is_last = wanted.get(n + 1).is_none_or(|next| next.0 != *ty);
            if frame.raw.len() >= FRAME_BYTES || is_last {
                let at = pack.add_objects(&mut encoder, &frame.raw, &frame.objects)?;
                for object in &frame.objects {
                    self.places.insert(object.id, (name, at.offset, at.len));
                }
                frame.clear();
            }
        }
        Ok(())
    }

    /// Adds the metadata of a pack, ends it and uploads it.
    fn end(
        &mut self,
        kind: RowKind,
        name: Name,
        mut pack: SealedWriter<Vec<u8>>,
        nodes: &[(ObjectType, ObjectId)],
        objects: &dyn ObjectRead,
        with_places: bool,
    ) -> Done<(RowKind, Name, [u64; 4])> {
        let metadata = pack.position();
        let commits = nodes.iter().take_while(|(ty, _)| *ty == ObjectType::Commit);
        let (commits, others) = nodes.split_at(commits.count());
        self.add(name, &mut pack, commits, objects)?;
        let commits_end = pack.position();
        self.add(name, &mut pack, others, objects)?;
        let table: Vec<(ObjectId, ObjectType)> = pack.table().map(|(id, ty, _)| (id, ty)).collect();
        let places = if with_places {
            Some(self.places_of(&table, objects)?.encode()?)
        } else {
            None
        };
        let tail = pack.end_segment(places.as_deref())?;
        let (bytes, len) = pack.finish()?;
        self.files.put(&name.path(self.root.repository), bytes);
        Ok((kind, name, [metadata, commits_end, tail, len]))
    }

    fn places_of(
        &self,
        table: &[(ObjectId, ObjectType)],
        objects: &dyn ObjectRead,
    ) -> Done<Places> {
        let mut found = Vec::new();
        for (ordinal, (id, ty)) in table.iter().enumerate() {
            let children = children(*ty, id, objects)?;
            let frames = children.iter().filter_map(|child| self.places.get(child));
            let frames: BTreeSet<_> = frames.copied().collect();
            if !frames.is_empty() {
                found.push((ordinal as u32, frames));
            }
        }
        let packs = found.iter().flat_map(|(_, frames)| frames);
        let packs: BTreeSet<Name> = packs.map(|(pack, ..)| *pack).collect();
        let packs: Vec<Name> = packs.into_iter().collect();
        let place = |(pack, offset, len): (Name, u64, u32)| FramePlace {
            pack: packs.partition_point(|known| *known < pack) as u32,
            offset,
            len,
        };
        let nodes = found.iter().map(|(ordinal, frames)| PlacesNode {
            ordinal: *ordinal,
            frames: frames.iter().copied().map(place).collect(),
        });
        Ok(Places {
            nodes: nodes.collect(),
            packs,
        })
    }
}

fn children(ty: ObjectType, id: &ObjectId, objects: &dyn ObjectRead) -> Done<Vec<ObjectId>> {
    let bytes = objects.read(ty, id)?.ok_or("an object is absent")?;
    Ok(match ty {
        ObjectType::List => {
            let node = ListNode::decode(&bytes)?;
            node.entries.iter().map(|entry| entry.id).collect()
        }
        ObjectType::Tree => match Node::decode(&bytes)? {
            Node::Leaf(entries) => entries.iter().map(|entry| entry.id).collect(),
            Node::Inner { children, .. } => children.iter().map(|child| child.id).collect(),
        },
        _ => Vec::new(),
    })
}
