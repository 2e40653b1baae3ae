//! The encoding that records of a worktree share, and how the view stores one: as a chain of commits
//! (docs/format/notes.md).

use crate::history::load_commit;
use crate::limits::{MAX_ATTR_BYTES, MAX_EXTRA_VALUE_BYTES, MAX_PATH_BYTES};
use crate::object::codec::{DecodeError, Decoder, put_bytes, put_varint};
use crate::object::name::{RepoPath, SafeName};
use crate::object::tree::{Kind, TreeEntry};
use crate::repo::base::error::{PlaceError, RepoError};
use crate::repo::base::repo::Repo;
use crate::repo::base::worktree;
use std::collections::BTreeMap;
use std::ops::RangeInclusive;

/// The version that is written.
const VERSION: u8 = 1;

/// The versions that are read.
const KNOWN: RangeInclusive<u8> = VERSION..=VERSION;

/// The key of the commit extra that has a part of the encoding.
pub const RECORD_KEY: &[u8] = b"record";

/// The most bytes of one part.
pub const PART_BYTES: usize = MAX_EXTRA_VALUE_BYTES;

const FLAG_LIST: u8 = 1;
const FLAG_ATTRS: u8 = 2;

/// An item about a path. A [`Record`] adds the path and the order.
pub trait Item: Sized {
    /// The place of the item among those of its path.
    fn kind(&self) -> u8;

    /// Appends everything but the path and the kind.
    fn put(&self, out: &mut Vec<u8>);

    /// Reads an item of this kind at `path`.
    fn take(kind: u8, path: &RepoPath, input: &mut Decoder<'_>) -> Result<Self, DecodeError>;
}

/// Items about paths: at most one of each kind for a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record<T>(BTreeMap<(RepoPath, u8), T>);

impl<T> Default for Record<T> {
    fn default() -> Record<T> {
        Record(BTreeMap::new())
    }
}

impl<T: Item> Record<T> {
    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the paths with their items, in path order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&RepoPath, &T)> {
        self.0.iter().map(|((path, _), item)| (path, item))
    }

    /// Adds items. Each replaces the item of the same kind at its path.
    pub fn extend(&mut self, items: impl IntoIterator<Item = (RepoPath, T)>) {
        let items = items.into_iter();
        let keyed = items.map(|(path, item)| ((path, item.kind()), item));
        self.0.extend(keyed);
    }

    /// Removes the items for which `stays` returns false.
    pub fn retain(&mut self, stays: impl Fn(&RepoPath, &T) -> bool) {
        self.0.retain(|(path, _), item| stays(path, item));
    }

    /// Returns the bytes of docs/format/notes.md.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![VERSION];
        put_varint(&mut out, self.0.len() as u64);
        for (path, item) in self.iter() {
            put_path(&mut out, path);
            out.push(item.kind());
            item.put(&mut out);
        }
        out
    }

    /// Decodes a record.
    pub fn decode(bytes: &[u8]) -> Result<Record<T>, DecodeError> {
        let mut input = Decoder::new(bytes);
        input.version(KNOWN)?;
        let count = input.varint()?;
        let mut out = BTreeMap::new();
        for _ in 0..count {
            let path = take_path(&mut input)?;
            let kind = input.u8()?;
            let item = T::take(kind, &path, &mut input)?;
            let key = (path, kind);
            if out.last_key_value().is_some_and(|(last, _)| *last >= key) {
                return Err(input.error("paths are not in order"));
            }
            out.insert(key, item);
        }
        input.finish()?;
        Ok(Record(out))
    }
}

impl<T: Item> FromIterator<(RepoPath, T)> for Record<T> {
    fn from_iter<I: IntoIterator<Item = (RepoPath, T)>>(items: I) -> Record<T> {
        let mut out = Record::default();
        out.extend(items);
        out
    }
}

/// Appends a path.
pub fn put_path(out: &mut Vec<u8>, path: &RepoPath) {
    put_bytes(out, path.as_bytes());
}

/// Reads a path that is not the root.
pub fn take_path(input: &mut Decoder<'_>) -> Result<RepoPath, DecodeError> {
    match take_path_or_root(input)? {
        path if path.is_root() => Err(input.error("not a path")),
        path => Ok(path),
    }
}

/// Reads a path.
pub fn take_path_or_root(input: &mut Decoder<'_>) -> Result<RepoPath, DecodeError> {
    let bytes = input.bytes(MAX_PATH_BYTES, "path is too long")?;
    RepoPath::parse(bytes).map_err(|_| input.error("not a path"))
}

/// Appends the entry at a path, or that there is none.
pub fn put_entry(out: &mut Vec<u8>, entry: Option<&TreeEntry>) {
    let Some(entry) = entry else {
        out.push(0);
        return;
    };
    let list = if entry.is_list { FLAG_LIST } else { 0 };
    let attrs = if entry.attrs.is_some() { FLAG_ATTRS } else { 0 };
    out.extend_from_slice(&[entry.kind as u8, list | attrs]);
    put_varint(out, entry.size);
    put_varint(out, entry.files);
    out.extend_from_slice(entry.id.as_bytes());
    if let Some(attrs) = &entry.attrs {
        put_bytes(out, attrs);
    }
}

/// Reads the entry at `path`; `None` if there is none.
pub fn take_entry(
    path: &RepoPath,
    input: &mut Decoder<'_>,
) -> Result<Option<TreeEntry>, DecodeError> {
    let number = input.u8()?;
    if number == 0 {
        return Ok(None);
    }
    let kind = Kind::from_number(number).ok_or_else(|| input.error("unknown kind"))?;
    let flags = input.u8()?;
    if flags & !(FLAG_LIST | FLAG_ATTRS) != 0 {
        return Err(input.error("unknown flags"));
    }
    let (size, files, id) = (input.varint()?, input.varint()?, input.id()?);
    let attrs = match flags & FLAG_ATTRS {
        0 => None,
        _ => Some(
            input
                .bytes(MAX_ATTR_BYTES, "attributes are too long")?
                .into(),
        ),
    };
    let name = SafeName::new(path.file_name().unwrap_or_default());
    let entry = TreeEntry {
        name: name.map_err(|_| input.error("not a path"))?,
        kind,
        is_list: flags & FLAG_LIST != 0,
        id,
        size,
        files,
        attrs,
    };
    entry.check().map_err(|e| input.error(e.what))?;
    Ok(Some(entry))
}

/// Reads an entry that must be there.
pub fn take_some(path: &RepoPath, input: &mut Decoder<'_>) -> Result<TreeEntry, DecodeError> {
    take_entry(path, input)?.ok_or_else(|| input.error("no entry"))
}

/// Reads the record that a value of the view's key `key` names.
pub fn read<T: Item>(repo: &Repo, key: &str, value: &[u8]) -> Result<Record<T>, RepoError> {
    let (mut parts, mut next) = (Vec::new(), Some(worktree::id_value(repo, key, value)?));
    while let Some(id) = next {
        let commit = load_commit(repo.objects(), &id)?;
        next = commit.parents.first().copied();
        let mut extras = commit.extras.into_iter();
        parts.extend(extras.find(|(key, _)| key == RECORD_KEY));
    }
    let bytes: Vec<u8> = parts.into_iter().rev().flat_map(|(_, part)| part).collect();
    Record::decode(&bytes).map_err(|e| {
        RepoError::Place(PlaceError::Damaged {
            path: repo.refs.path().to_owned(),
            why: format!("{key} is invalid: {e}"),
        })
    })
}
