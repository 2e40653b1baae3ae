//! The stats of the worktree's files when they were last seen equal to the base commit.
//!
//! The file consists of sections, one for each directory (docs/format/statcache.md). It is derived
//! and never synced: a file or section whose check fails counts as absent. Reading needs only
//! `&self`, and memory for the table and one section at a time.

use super::compare_dirs;
use crate::fsutil::{FileKind, FileStat, FileTime, Fingerprint, Listing, SafeDir};
use crate::hash::{ObjectId, check};
use crate::limits::{MAX_DIR_ENTRIES, MAX_NAME_BYTES};
use crate::object::codec::{DecodeError, Decoder, put_bytes, put_varint};
use crate::object::tree::Kind;
use crate::path::PathError;
use crate::platform::{LISTS_STATS, read_exact_at, write_all_at};
use crate::store::RepositoryId;
use crate::subset::Subset;
use std::cmp::Ordering;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::sync::{PoisonError, RwLock};

const MAGIC: &[u8; 8] = b"DMVSTAT\n";
const VERSION: u16 = 2;
const HEADER_BYTES: usize = 72;
const ROW_BYTES: usize = 36;
const TRAILER_BYTES: usize = 24;
const WRITE_BUFFER_BYTES: usize = 256 << 10;
/// How many nanoseconds older than a scan's start a file must be to be trusted.
pub(crate) const RACY_NANOS: u64 = 20_000_000;
/// The same on file systems whose times have whole seconds only.
const COARSE_RACY_NANOS: u64 = 2_000_000_000;

/// Distinguishes subsets: docs/format/statcache.md.
pub(crate) type SubsetCheck = [u8; 8];

/// Returns the check of a subset; zero for everything.
pub(crate) fn subset_check(subset: &Subset) -> SubsetCheck {
    if subset.is_everything() {
        [0; 8]
    } else {
        check(&[&subset.text()])
    }
}

/// Returns the fingerprint to store for a file that a scan found equal to the base commit.
///
/// `started` is the scan's start on the file system's clock. The result is [`Fingerprint::SUSPECT`]
/// if the file is so young that it could change again without a change of its stat, or if the next scan might
/// not see a change. `stat` must have been taken before the content was read.
pub(crate) fn trusted_fingerprint(stat: &FileStat, started: FileTime) -> Fingerprint {
    // A commit may have brought a time without a fraction. No program can set the other one.
    let margin = match stat.mtime.nanos.max(stat.ctime.nanos) {
        0 => COARSE_RACY_NANOS,
        _ => RACY_NANOS,
    };
    let line = started.minus_nanos(margin);
    // A listing would not show a change through another name.
    let is_shown = stat.nlink <= 1 || !LISTS_STATS;
    if is_shown && stat.mtime < line && stat.ctime < line {
        stat.fingerprint()
    } else {
        Fingerprint::SUSPECT
    }
}

/// All entries of one directory in the base commit's tree, sorted by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Section {
    names: Vec<u8>,
    /// Where each name ends. Apart from the rest, so that a search reads little memory.
    name_ends: Vec<u32>,
    entries: Vec<Row>,
    dir: Fingerprint,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Row {
    kind: Kind,
    fingerprint: Fingerprint,
}

/// One entry of a [`Section`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnownEntry<'a> {
    /// Its name.
    pub name: &'a [u8],
    /// Its kind in the base commit.
    pub kind: Kind,
    /// The fingerprint of the file when it was equal to the base commit.
    pub fingerprint: Fingerprint,
}

impl Section {
    /// Returns the directory's own fingerprint at a time when it had exactly these names, of these
    /// kinds.
    pub(crate) fn dir_fingerprint(&self) -> Fingerprint {
        self.dir
    }

    /// Sets what `dir_fingerprint` returns.
    pub fn set_dir_fingerprint(&mut self, fingerprint: Fingerprint) {
        self.dir = fingerprint;
    }

    /// Returns the number of entries.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns about how much memory it takes.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.names.capacity()
            + self.name_ends.capacity() * size_of::<u32>()
            + self.entries.capacity() * size_of::<Row>()
    }

    /// Returns the entry at `index`.
    pub fn get(&self, index: usize) -> KnownEntry<'_> {
        let Row { kind, fingerprint } = self.entries[index];
        KnownEntry {
            name: self.name(index),
            kind,
            fingerprint,
        }
    }

    fn name(&self, index: usize) -> &[u8] {
        let start = match index {
            0 => 0,
            _ => self.name_ends[index - 1],
        };
        &self.names[start as usize..self.name_ends[index] as usize]
    }

    /// Returns the index of the entry of this name.
    pub fn position(&self, name: &[u8]) -> Option<usize> {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low.midpoint(high);
            match self.name(middle).cmp(name) {
                Ordering::Less => low = middle + 1,
                Ordering::Greater => high = middle,
                Ordering::Equal => return Some(middle),
            }
        }
        None
    }

    /// Sets the fingerprint of the entry at `index`.
    pub(crate) fn set_fingerprint(&mut self, index: usize, fingerprint: Fingerprint) {
        self.entries[index].fingerprint = fingerprint;
    }

    /// Returns the entries in order.
    pub fn iter(&self) -> impl Iterator<Item = KnownEntry<'_>> {
        (0..self.len()).map(|i| self.get(i))
    }

    /// Adds an entry after all others.
    ///
    /// Panics if its name is not greater than theirs. Callers take names from sorted trees.
    pub fn push(&mut self, name: &[u8], kind: Kind, fingerprint: Fingerprint) {
        if let Some(last) = self.len().checked_sub(1) {
            assert!(self.name(last) < name, "names must rise");
        }
        self.names.extend_from_slice(name);
        self.push_row(kind, fingerprint);
    }

    fn push_row(&mut self, kind: Kind, fingerprint: Fingerprint) {
        // MAX_DIR_ENTRIES names of MAX_NAME_BYTES just fit.
        let name_end = u32::try_from(self.names.len()).expect("a directory's names fit 4 GiB");
        self.name_ends.push(name_end);
        self.entries.push(Row { kind, fingerprint });
    }

    /// Returns this section with `changes` applied, which are sorted by name. Each change adds,
    /// replaces or (`None`) removes an entry. The result lacks the directory's own fingerprint.
    pub fn updated<'a>(
        &self,
        changes: impl IntoIterator<Item = (&'a [u8], Option<(Kind, Fingerprint)>)>,
    ) -> Section {
        let mut out = Section::default();
        let mut old = self.iter().peekable();
        for (name, change) in changes {
            while let Some(e) = old.next_if(|e| e.name < name) {
                out.push(e.name, e.kind, e.fingerprint);
            }
            old.next_if(|e| e.name == name);
            if let Some((kind, fingerprint)) = change {
                out.push(name, kind, fingerprint);
            }
        }
        old.for_each(|e| out.push(e.name, e.kind, e.fingerprint));
        out
    }

    /// Returns the names as a directory would list them. The kind of file that stands for a
    /// conflict is unknown.
    pub(crate) fn as_listing(&self) -> Listing {
        Listing::from_sorted(
            self.names.clone(),
            self.entries.iter().zip(&self.name_ends).map(|(row, end)| {
                let kind = match row.kind {
                    Kind::File | Kind::Executable => FileKind::File,
                    Kind::Symlink => FileKind::Symlink,
                    Kind::Directory => FileKind::Dir,
                    Kind::Conflict => FileKind::Unknown,
                };
                (*end, kind)
            }),
        )
    }

    fn encode(&self, out: &mut Vec<u8>) {
        let mut before: &[u8] = b"";
        for entry in self.iter() {
            let shared = before.iter().zip(entry.name).take_while(|(a, b)| a == b);
            let shared = shared.count();
            put_varint(out, shared as u64);
            put_bytes(out, &entry.name[shared..]);
            out.push(entry.kind as u8);
            if entry.kind != Kind::Directory {
                out.extend_from_slice(&entry.fingerprint.0.to_le_bytes());
            }
            before = entry.name;
        }
    }

    /// Decodes a section. Fails for bytes that `encode` does not make.
    fn decode(bytes: &[u8], count: u32) -> Result<Section, DecodeError> {
        // An entry takes at least four bytes, so a wrong count cannot reserve much.
        let room = (count as usize).min(bytes.len() / 4);
        let mut section = Section {
            entries: Vec::with_capacity(room),
            name_ends: Vec::with_capacity(room),
            names: Vec::with_capacity(bytes.len()),
            dir: Fingerprint::SUSPECT,
        };
        let mut input = Decoder::new(bytes);
        let mut before = 0..0;
        for _ in 0..count {
            let row = RawRow::decode(&mut input, &section.names[before.clone()])?;
            let start = section.names.len();
            section
                .names
                .extend_from_within(before.start..before.start + row.shared);
            section.names.extend_from_slice(row.rest);
            before = start..section.names.len();
            section.push_row(row.kind, row.fingerprint);
        }
        input.finish()?;
        Ok(section)
    }
}

/// An entry as a section has it: the name without the bytes that it shares with the name before.
struct RawRow<'i> {
    shared: usize,
    rest: &'i [u8],
    kind: Kind,
    fingerprint: Fingerprint,
}

impl<'i> RawRow<'i> {
    fn decode(input: &mut Decoder<'i>, name_before: &[u8]) -> Result<RawRow<'i>, DecodeError> {
        let most = name_before.len() as u64;
        let shared = input.varint_up_to(most, "shared bytes of a name")? as usize;
        let rest = input.bytes(MAX_NAME_BYTES - shared, "a name")?;
        let rises = match (rest.first(), name_before.get(shared)) {
            (Some(first), Some(next)) => first > next,
            (first, None) => first.is_some(),
            (None, Some(_)) => false,
        };
        if !rises {
            return Err(input.error("names out of order"));
        }
        let kind = Kind::from_number(input.u8()?).ok_or_else(|| input.error("unknown kind"))?;
        let fingerprint = match kind {
            Kind::Directory => Fingerprint::SUSPECT,
            _ => Fingerprint(input.u64()?),
        };
        Ok(RawRow {
            shared,
            rest,
            kind,
            fingerprint,
        })
    }
}

/// Why a section could not be read.
#[derive(Debug, thiserror::Error)]
pub enum StatCacheError {
    /// The section's bytes are wrong. The directory's entries must be taken from the tree.
    #[error("the stat cache is damaged")]
    Damaged,
    /// The file could not be read.
    #[error(transparent)]
    Path(#[from] PathError),
    /// The file was closed, because another takes its place.
    #[error("the stat cache is closed")]
    Closed,
}

/// An open stat cache.
#[derive(Debug)]
pub struct StatCache {
    /// `None` once it is closed.
    file: RwLock<Option<File>>,
    path: Vec<u8>,
    base_tree: ObjectId,
    subset: SubsetCheck,
    /// The table, followed by the paths.
    table: Vec<u8>,
    rows: usize,
}

/// One row of the table.
struct TableRow<'a> {
    dir: &'a [u8],
    offset: u64,
    len: u32,
    entries: u32,
    fingerprint: Fingerprint,
    check: [u8; 8],
}

impl StatCache {
    /// Opens the stat cache `name` in `dir`. Returns `None` if it is missing or damaged, or belongs
    /// to another repository.
    pub fn open(dir: &SafeDir, name: &[u8], repo: &RepositoryId) -> Option<StatCache> {
        let (file, stat) = dir.open_file_read(name).ok()?;
        let mut header = [0; HEADER_BYTES];
        read_exact_at(&file, &mut header, 0).ok()?;
        let (mut base_tree, mut rest) = ([0; 32], &header[..]);
        base_tree.copy_from_slice(&header[32..64]);
        let subset = *header.last_chunk()?;
        let known = take(&mut rest) == Some(MAGIC)
            && take(&mut rest) == Some(&VERSION.to_le_bytes())
            && take(&mut rest) == Some(&[0; 6])
            && take(&mut rest) == Some(repo.as_bytes());
        if !known {
            return None;
        }
        let trailer_start = stat.size.checked_sub(TRAILER_BYTES as u64)?;
        let mut trailer = [0; TRAILER_BYTES];
        read_exact_at(&file, &mut trailer, trailer_start).ok()?;
        let mut rest = &trailer[..];
        let table_start = u64::from_le_bytes(*take(&mut rest)?);
        let rows = u32::from_le_bytes(*take(&mut rest)?) as usize;
        let path_bytes = u32::from_le_bytes(*take(&mut rest)?) as usize;
        // The sum is compared with the file's size first, so no more than that is allocated.
        let table_bytes = rows.checked_mul(ROW_BYTES)?.checked_add(path_bytes)?;
        if table_start < HEADER_BYTES as u64
            || table_start.checked_add(table_bytes as u64) != Some(trailer_start)
        {
            return None;
        }
        let mut table = vec![0; table_bytes];
        read_exact_at(&file, &mut table, table_start).ok()?;
        if check(&[&header, &table, &trailer[..16]]) != trailer[16..] {
            return None;
        }
        let cache = StatCache {
            file: RwLock::new(Some(file)),
            path: dir.path_of(name),
            base_tree: ObjectId::from_bytes(base_tree),
            subset,
            table,
            rows,
        };
        cache.is_sound(table_start).then_some(cache)
    }

    fn is_sound(&self, table_start: u64) -> bool {
        let in_file = |row: &TableRow<'_>| {
            row.offset >= HEADER_BYTES as u64
                && row
                    .offset
                    .checked_add(row.len.into())
                    .is_some_and(|end| end <= table_start)
                && u64::from(row.entries) <= MAX_DIR_ENTRIES
        };
        let mut before: Option<&[u8]> = None;
        (0..self.rows).all(|i| {
            self.row(i).is_some_and(|row| {
                let rises = before.is_none_or(|b| compare_dirs(b, row.dir) == Ordering::Less);
                before = Some(row.dir);
                rises && in_file(&row)
            })
        })
    }

    fn path_end(&self, index: usize) -> Option<usize> {
        let mut at = self.table.get(index * ROW_BYTES + 16..)?;
        Some(u32::from_le_bytes(*take(&mut at)?) as usize)
    }

    fn row(&self, index: usize) -> Option<TableRow<'_>> {
        let mut row = self.table.get(index * ROW_BYTES..)?;
        let paths = &self.table[self.rows * ROW_BYTES..];
        let start = match index {
            0 => 0,
            _ => self.path_end(index - 1)?,
        };
        let dir = paths.get(start..self.path_end(index)?)?;
        let offset = u64::from_le_bytes(*take(&mut row)?);
        let len = u32::from_le_bytes(*take(&mut row)?);
        let entries = u32::from_le_bytes(*take(&mut row)?);
        let _path_end: &[u8; 4] = take(&mut row)?;
        Some(TableRow {
            dir,
            offset,
            len,
            entries,
            fingerprint: Fingerprint(u64::from_le_bytes(*take(&mut row)?)),
            check: *take(&mut row)?,
        })
    }

    /// Returns the tree that the entries belong to.
    pub fn base_tree(&self) -> ObjectId {
        self.base_tree
    }

    /// Returns the check of the subset of the tree that is listed.
    pub fn subset(&self) -> SubsetCheck {
        self.subset
    }

    /// Returns the entries of the directory `dir`; `None` if the base tree has no such directory.
    pub fn section(&self, dir: &[u8]) -> Result<Option<Section>, StatCacheError> {
        let Some((row, bytes)) = self.read_section(dir)? else {
            return Ok(None);
        };
        let mut section =
            Section::decode(&bytes, row.entries).map_err(|_| StatCacheError::Damaged)?;
        section.dir = row.fingerprint;
        Ok(Some(section))
    }

    fn read_section(&self, dir: &[u8]) -> Result<Option<(TableRow<'_>, Vec<u8>)>, StatCacheError> {
        let Some(row) = self.find(dir) else {
            return Ok(None);
        };
        let mut bytes = vec![0; row.len as usize];
        let file = self.file.read().unwrap_or_else(PoisonError::into_inner);
        let file = file.as_ref().ok_or(StatCacheError::Closed)?;
        match read_exact_at(file, &mut bytes, row.offset) {
            Ok(()) if check(&[&bytes]) == row.check => Ok(Some((row, bytes))),
            Ok(()) => Err(StatCacheError::Damaged),
            Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => Err(StatCacheError::Damaged),
            Err(e) => Err(PathError::new("read", self.path.clone(), e).into()),
        }
    }

    /// Closes the file, because some file systems replace no file that is open.
    pub fn close(&self) {
        let mut file = self.file.write().unwrap_or_else(PoisonError::into_inner);
        *file = None;
    }

    fn find(&self, dir: &[u8]) -> Option<TableRow<'_>> {
        let (mut low, mut high) = (0, self.rows);
        while low < high {
            let middle = low.midpoint(high);
            let row = self.row(middle)?;
            match compare_dirs(row.dir, dir) {
                Ordering::Less => low = middle + 1,
                Ordering::Greater => high = middle,
                Ordering::Equal => return Some(row),
            }
        }
        None
    }
}

/// Writes a new stat cache. If it is dropped before [`finish`](Self::finish), the old one stays.
#[derive(Debug)]
pub struct StatCacheWriter {
    /// The temporary file; `None` once finished.
    temp: Option<Temp>,
    header: [u8; HEADER_BYTES],
    offset: u64,
    rows: Vec<NewRow>,
    scratch: Vec<u8>,
}

#[derive(Debug)]
struct Temp {
    dir: SafeDir,
    name: Vec<u8>,
    out: BufWriter<File>,
}

#[derive(Debug)]
struct NewRow {
    dir: Box<[u8]>,
    offset: u64,
    len: u32,
    entries: u32,
    fingerprint: Fingerprint,
    check: [u8; 8],
}

impl StatCacheWriter {
    /// Begins a stat cache in `dir`.
    pub fn create(dir: &SafeDir, repo: &RepositoryId) -> Result<StatCacheWriter, PathError> {
        let mut header = [0; HEADER_BYTES];
        header[..8].copy_from_slice(MAGIC);
        header[8..10].copy_from_slice(&VERSION.to_le_bytes());
        header[16..32].copy_from_slice(repo.as_bytes());
        let (file, name) = dir.create_own_temp()?;
        let mut writer = StatCacheWriter {
            temp: Some(Temp {
                dir: dir.try_clone()?,
                name,
                out: BufWriter::with_capacity(WRITE_BUFFER_BYTES, file),
            }),
            header,
            offset: 0,
            rows: Vec::new(),
            scratch: Vec::new(),
        };
        writer.write(&header)?;
        Ok(writer)
    }

    /// Adds the directory `dir`, which must not have been added yet.
    pub fn section(&mut self, dir: &[u8], section: &Section) -> Result<(), PathError> {
        let mut bytes = std::mem::take(&mut self.scratch);
        bytes.clear();
        section.encode(&mut bytes);
        let row = NewRow {
            dir: dir.into(),
            offset: self.offset,
            len: 0,
            // No directory has more: MAX_DIR_ENTRIES is checked when it is listed.
            entries: section.len() as u32,
            fingerprint: section.dir,
            check: check(&[&bytes]),
        };
        let result = self.raw_section(row, &bytes);
        self.scratch = bytes;
        result
    }

    /// Adds the directory `dir` as it is in `old`. Returns whether it is there.
    #[cfg(test)]
    pub(crate) fn copy_section(
        &mut self,
        old: &StatCache,
        dir: &[u8],
    ) -> Result<bool, StatCacheError> {
        let Some((row, bytes)) = old.read_section(dir)? else {
            return Ok(false);
        };
        let row = NewRow {
            dir: dir.into(),
            offset: self.offset,
            len: 0,
            entries: row.entries,
            fingerprint: row.fingerprint,
            check: row.check,
        };
        self.raw_section(row, &bytes)?;
        Ok(true)
    }

    fn raw_section(&mut self, mut row: NewRow, bytes: &[u8]) -> Result<(), PathError> {
        row.len = u32::try_from(bytes.len()).map_err(|_| {
            let too_big = io::Error::from(io::ErrorKind::FileTooLarge);
            PathError::new("remember directory", &row.dir[..], too_big)
        })?;
        self.write(bytes)?;
        self.rows.push(row);
        Ok(())
    }

    /// Completes the file for the entries of `base_tree` in `subset`, and renames it to `name`, in
    /// place of an older one.
    ///
    /// Fails with `InvalidInput` if one directory was added twice.
    pub fn finish(
        mut self,
        name: &[u8],
        base_tree: &ObjectId,
        subset: SubsetCheck,
    ) -> Result<(), PathError> {
        self.header[32..64].copy_from_slice(base_tree.as_bytes());
        self.header[64..].copy_from_slice(&subset);
        let table_start = self.offset;
        let mut rows = std::mem::take(&mut self.rows);
        rows.sort_unstable_by(|a, b| compare_dirs(&a.dir, &b.dir));
        let refuse = |why| {
            let error = io::Error::new(io::ErrorKind::InvalidInput, why);
            Err(PathError::new("write stat cache", name, error))
        };
        if rows.windows(2).any(|pair| pair[0].dir == pair[1].dir) {
            return refuse("a directory was added twice");
        }
        let mut table = Vec::new();
        let mut path_bytes = 0;
        for row in &rows {
            path_bytes += row.dir.len();
            table.extend_from_slice(&row.offset.to_le_bytes());
            table.extend_from_slice(&row.len.to_le_bytes());
            table.extend_from_slice(&row.entries.to_le_bytes());
            table.extend_from_slice(&(path_bytes as u32).to_le_bytes());
            table.extend_from_slice(&row.fingerprint.0.to_le_bytes());
            table.extend_from_slice(&row.check);
        }
        let (Ok(count), Ok(path_bytes)) = (u32::try_from(rows.len()), u32::try_from(path_bytes))
        else {
            return refuse("too many directories");
        };
        rows.iter()
            .for_each(|row| table.extend_from_slice(&row.dir));
        let mut trailer = [0; TRAILER_BYTES];
        trailer[..8].copy_from_slice(&table_start.to_le_bytes());
        trailer[8..12].copy_from_slice(&count.to_le_bytes());
        trailer[12..16].copy_from_slice(&path_bytes.to_le_bytes());
        let sum = check(&[&self.header, &table, &trailer[..16]]);
        trailer[16..].copy_from_slice(&sum);
        self.write(&table)?;
        self.write(&trailer)?;
        let temp = self.temp.as_mut().expect("taken only here, at the end");
        temp.out
            .flush()
            .and_then(|()| write_all_at(temp.out.get_ref(), &self.header, 0))
            .map_err(|e| temp.dir.error("write", &temp.name, e))?;
        temp.dir.rename(&temp.name, name)?;
        self.temp = None;
        Ok(())
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), PathError> {
        let temp = self.temp.as_mut().expect("taken only by finish");
        temp.out
            .write_all(bytes)
            .map_err(|e| temp.dir.error("write", &temp.name, e))?;
        self.offset += bytes.len() as u64;
        Ok(())
    }
}

impl Drop for StatCacheWriter {
    fn drop(&mut self) {
        if let Some(Temp { dir, name, .. }) = &self.temp {
            // A file that stays does no harm: the next collection of temporary files removes it.
            let _ = dir.unlink(name);
        }
    }
}

fn take<'a, const N: usize>(bytes: &mut &'a [u8]) -> Option<&'a [u8; N]> {
    let (first, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(first)
}

#[cfg(test)]
mod tests;
