//! The map of ids: which Git object became which DMV object. It lies in `git.db` of the repository.
//!
//! The map saves work, and can be built again by importing again.

use crate::id::GitId;
use dmv_core::ObjectId;
use dmv_core::platform::{OwnAccess, open_own};
use rusqlite::{Connection, OpenFlags, OptionalExtension, params};
use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};

/// The name of the file in the repository.
pub const FILE: &str = "git.db";
const VERSION: i32 = 2;
/// Hexadecimal digits of the longest id.
const MAX_DIGITS: usize = 64;
/// Entries that are kept in memory, about 120 bytes each.
const MOST_IN_MEMORY: usize = 1 << 20;

/// What became of a Git object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Became {
    /// A blob of one chunk, or of a list if `is_list`. `has_nul`: it is no target of a symlink.
    Blob {
        /// Bytes of the content.
        size: u64,
        /// Whether the id is that of a list.
        is_list: bool,
        /// Whether the content has a NUL byte; only looked at in short ones.
        has_nul: bool,
    },
    /// A tree.
    Tree {
        /// Bytes below it.
        bytes: u64,
        /// Files below it.
        files: u64,
    },
    /// A commit.
    Commit {
        /// Its generation.
        generation: u64,
    },
}

/// A DMV object that stands for a Git object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnownObject {
    /// The DMV object.
    pub id: ObjectId,
    /// What it is.
    pub became: Became,
}

impl KnownObject {
    /// Returns the number of the kind and two numbers, as the table has them.
    fn columns(&self) -> (u8, i64, i64) {
        let (kind, first, second) = match self.became {
            Became::Blob {
                size,
                is_list,
                has_nul,
            } => (1 + u8::from(is_list) + 2 * u8::from(has_nul), size, 0),
            Became::Tree { bytes, files } => (5, bytes, files),
            Became::Commit { generation } => (6, generation, 0),
        };
        // SQLite has no greater integers; the numbers keep their bits.
        (kind, first.cast_signed(), second.cast_signed())
    }

    fn from_columns(id: &[u8], kind: u8, first: i64, second: i64) -> Option<KnownObject> {
        let id = ObjectId::from_bytes(id.try_into().ok()?);
        let (first, second) = (first.cast_unsigned(), second.cast_unsigned());
        let became = match kind {
            1..=4 => Became::Blob {
                size: first,
                is_list: (kind - 1) & 1 != 0,
                has_nul: (kind - 1) & 2 != 0,
            },
            5 => Became::Tree {
                bytes: first,
                files: second,
            },
            6 => Became::Commit { generation: first },
            _ => return None,
        };
        Some(KnownObject { id, became })
    }
}

/// The map cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[error("{}: {error}", path.display())]
pub struct MapError {
    /// The file.
    pub path: PathBuf,
    /// What is wrong.
    #[source]
    pub error: MapFault,
}

impl MapError {
    /// Returns whether the file holds no map that can be used: the next import makes another one.
    pub fn is_damage(&self) -> bool {
        use rusqlite::ErrorCode::{DatabaseCorrupt, NotADatabase};
        match &self.error {
            MapFault::Database(e) => {
                matches!(e.sqlite_error_code(), Some(DatabaseCorrupt | NotADatabase))
            }
            MapFault::File(_) => false,
        }
    }
}

/// What is wrong with the file of a map.
#[derive(Debug, thiserror::Error)]
pub enum MapFault {
    /// It cannot be opened, or something else is in its place.
    #[error(transparent)]
    File(#[from] io::Error),
    /// What SQLite says.
    #[error(transparent)]
    Database(#[from] rusqlite::Error),
}

/// Opens the database, and nothing that is there in its place. SQLite opens the files beside it by their names, and
/// would wait for a named pipe.
fn connect(path: &Path) -> Result<Connection, MapError> {
    for end in ["db-journal", "db-wal", "db-shm"] {
        let beside = path.with_extension(end);
        match open_own(&beside, OwnAccess::Read) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => {
                return Err(MapError {
                    path: beside,
                    error: MapFault::File(e),
                });
            }
            _ => {}
        }
    }
    let own = open_own(path, OwnAccess::Create).and_then(|_| path.canonicalize());
    let real = own.map_err(|error| MapError {
        path: path.to_owned(),
        error: MapFault::File(error),
    })?;
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_NOFOLLOW;
    Connection::open_with_flags(real, flags).map_err(|error| MapError {
        path: path.to_owned(),
        error: error.into(),
    })
}

/// The open map.
pub struct IdMap {
    path: PathBuf,
    db: Connection,
    /// New entries, and some of those that were read.
    memory: HashMap<GitId, KnownObject>,
    /// The entries that the file lacks.
    new: Vec<GitId>,
    /// Whether the file has entries.
    has_rows: bool,
}

const SCHEMA: &str = "
    CREATE TABLE object (git BLOB PRIMARY KEY, kind INTEGER NOT NULL, dmv BLOB NOT NULL,
                         first INTEGER NOT NULL, second INTEGER NOT NULL) WITHOUT ROWID;
    CREATE TABLE head (git BLOB PRIMARY KEY) WITHOUT ROWID;
    CREATE TABLE pointer (git BLOB PRIMARY KEY, text BLOB NOT NULL) WITHOUT ROWID;
";

impl IdMap {
    /// Opens the map in the directory of a repository. Makes an empty one if there is none, or if it is of
    /// another version.
    pub fn open(dmv_dir: &Path) -> Result<IdMap, MapError> {
        let path = dmv_dir.join(FILE);
        let context = |error: rusqlite::Error| MapError {
            path: path.clone(),
            error: error.into(),
        };
        let mut db = connect(&path)?;
        let open = |db: &mut Connection| {
            db.pragma_update(None, "journal_mode", "TRUNCATE")?;
            db.pragma_update(None, "synchronous", "NORMAL")?;
            let version: i32 = db.pragma_query_value(None, "user_version", |row| row.get(0))?;
            if version != VERSION {
                let change = db.transaction()?;
                for table in ["object", "head", "tag", "pointer"] {
                    change.execute_batch(&format!("DROP TABLE IF EXISTS {table}"))?;
                }
                change.execute_batch(SCHEMA)?;
                change.pragma_update(None, "user_version", VERSION)?;
                change.commit()?;
            }
            db.query_row("SELECT EXISTS (SELECT 1 FROM object)", [], |row| row.get(0))
        };
        let has_rows = open(&mut db).map_err(context)?;
        Ok(IdMap {
            path,
            db,
            memory: HashMap::new(),
            new: Vec::new(),
            has_rows,
        })
    }

    fn context<T>(&self, result: rusqlite::Result<T>) -> Result<T, MapError> {
        result.map_err(|error| MapError {
            path: self.path.clone(),
            error: error.into(),
        })
    }

    /// Returns whether nothing was imported yet.
    pub fn is_empty(&self) -> bool {
        !self.has_rows && self.memory.is_empty()
    }

    /// Returns what became of a Git object.
    pub fn get(&mut self, git: &GitId) -> Result<Option<KnownObject>, MapError> {
        if let Some(known) = self.memory.get(git) {
            return Ok(Some(*known));
        }
        if !self.has_rows {
            return Ok(None);
        }
        let read = || -> rusqlite::Result<Option<KnownObject>> {
            let mut select = self
                .db
                .prepare_cached("SELECT dmv, kind, first, second FROM object WHERE git = ?1")?;
            let row = select
                .query_row([git.as_bytes()], |row| {
                    let id = row.get_ref(0)?.as_blob()?;
                    Ok(KnownObject::from_columns(
                        id,
                        row.get(1)?,
                        row.get(2)?,
                        row.get(3)?,
                    ))
                })
                .optional()?;
            Ok(row.flatten())
        };
        let known = self.context(read())?;
        if let Some(known) = known {
            if self.memory.len() >= MOST_IN_MEMORY + self.new.len() {
                self.forget_old();
            }
            self.memory.insert(*git, known);
        }
        Ok(known)
    }

    /// Returns a Git object that stands for a DMV object.
    pub fn git_of(&self, id: &ObjectId) -> Result<Option<GitId>, MapError> {
        Ok(self.all_git_of(id)?.into_iter().next())
    }

    /// Returns the Git objects that stand for a DMV object, without pointers of Git LFS. There are several if exports
    /// to several repositories gave it different ids.
    pub fn all_git_of(&self, id: &ObjectId) -> Result<Vec<GitId>, MapError> {
        let read = || {
            let mut select = self.db.prepare_cached(
                "SELECT git FROM object WHERE substr(dmv, 1, 8) = substr(?1, 1, 8) AND dmv = ?1
                 AND NOT EXISTS (SELECT 1 FROM pointer WHERE pointer.git = object.git)",
            )?;
            let rows = select.query_map([id.as_bytes()], |row| {
                Ok(GitId::new(row.get_ref(0)?.as_blob()?))
            })?;
            rows.collect::<rusqlite::Result<Vec<_>>>()
        };
        Ok(self.context(read())?.into_iter().flatten().collect())
    }

    /// Returns the texts of the pointers of Git LFS that stand for content.
    pub fn pointers_of(&self, content: &ObjectId) -> Result<Vec<Vec<u8>>, MapError> {
        let read = || {
            let mut select = self.db.prepare_cached(
                "SELECT text FROM object JOIN pointer USING (git)
                 WHERE substr(dmv, 1, 8) = substr(?1, 1, 8) AND dmv = ?1",
            )?;
            let rows = select.query_map([content.as_bytes()], |row| row.get(0))?;
            rows.collect()
        };
        self.context(read())
    }

    /// Returns at most `most` commits whose ids in Git begin with `hex`, which has only lower-case digits.
    pub fn commits_with_prefix(&self, hex: &str, most: usize) -> Result<Vec<ObjectId>, MapError> {
        // Ids compare as their bytes do; what may follow the digits lies between these two.
        let first = filled(hex, '0', hex.len().next_multiple_of(2));
        let (Some(first), Some(last)) = (first, filled(hex, 'f', MAX_DIGITS)) else {
            return Ok(Vec::new());
        };
        let read = || {
            let mut select = self.db.prepare_cached(
                "SELECT dmv FROM object WHERE git >= ?1 AND git <= ?2 AND kind = 6 LIMIT ?3",
            )?;
            let rows = select.query_map(params![&first[..], &last[..], most as i64], |row| {
                let id = row.get_ref(0)?.as_blob()?.try_into().ok();
                Ok(id.map(ObjectId::from_bytes))
            })?;
            rows.collect::<rusqlite::Result<Vec<_>>>()
        };
        Ok(self.context(read())?.into_iter().flatten().collect())
    }

    /// Makes [`git_of`](Self::git_of) fast.
    pub fn index_by_dmv(&self) -> Result<(), MapError> {
        // The first bytes are enough, and take half of the space.
        let index = "DROP INDEX IF EXISTS by_dmv;
                     CREATE INDEX IF NOT EXISTS by_dmv_start ON object (substr(dmv, 1, 8))";
        self.context(self.db.execute_batch(index))
    }

    /// Adds an entry, in memory until [`save`](Self::save).
    pub fn add(&mut self, git: GitId, known: KnownObject) {
        if self.memory.insert(git, known).is_none() {
            self.new.push(git);
        }
    }

    /// Returns how many entries are not saved yet.
    pub fn unsaved(&self) -> usize {
        self.new.len()
    }

    /// Writes the new entries, and the commits `heads` up to which everything is in the map.
    ///
    /// Everything that the entries name must be durable in the store.
    pub fn save(&mut self, heads: &[GitId]) -> Result<(), MapError> {
        let mut new = std::mem::take(&mut self.new);
        // In their order, SQLite fills its pages one after the other.
        new.sort_unstable();
        let memory = &self.memory;
        let save = |db: &mut Connection| -> rusqlite::Result<()> {
            let change = db.transaction()?;
            {
                let mut insert = change.prepare_cached(
                    "INSERT OR REPLACE INTO object (git, kind, dmv, first, second) VALUES (?1, ?2, ?3, ?4, ?5)",
                )?;
                for git in &new {
                    let known = &memory[git];
                    let (kind, first, second) = known.columns();
                    insert.execute(params![
                        git.as_bytes(),
                        kind,
                        known.id.as_bytes(),
                        first,
                        second
                    ])?;
                }
                let mut insert = change.prepare_cached("INSERT OR IGNORE INTO head VALUES (?1)")?;
                for head in heads {
                    insert.execute([head.as_bytes()])?;
                }
            }
            change.commit()
        };
        let saved = save(&mut self.db);
        self.context(saved)?;
        self.has_rows |= !new.is_empty();
        if self.memory.len() >= MOST_IN_MEMORY {
            self.forget_old();
        }
        Ok(())
    }

    /// Frees the memory of entries that the file has.
    fn forget_old(&mut self) {
        let kept = self.new.iter().map(|git| (*git, self.memory[git]));
        self.memory = kept.collect();
    }

    /// Returns the commits up to which everything is in the map.
    pub fn heads(&self) -> Result<Vec<GitId>, MapError> {
        let read = || {
            let mut select = self.db.prepare("SELECT git FROM head")?;
            let rows = select.query_map([], |row| Ok(GitId::new(row.get_ref(0)?.as_blob()?)))?;
            rows.collect::<rusqlite::Result<Vec<_>>>()
        };
        let heads = self.context(read())?;
        Ok(heads.into_iter().flatten().collect())
    }

    /// Forgets all objects: the next import reads everything again.
    pub fn forget(&mut self) -> Result<(), MapError> {
        self.memory.clear();
        self.new.clear();
        self.has_rows = false;
        let forget = "DELETE FROM object; DELETE FROM head; DELETE FROM pointer;";
        self.context(self.db.execute_batch(forget))
    }

    /// Keeps the text of a pointer of Git LFS whose content was taken instead.
    pub fn keep_pointer(&self, git: &GitId, text: &[u8]) -> Result<(), MapError> {
        let insert = "INSERT OR REPLACE INTO pointer VALUES (?1, ?2)";
        let kept = self.db.execute(insert, params![git.as_bytes(), text]);
        self.context(kept).map(drop)
    }

    /// Returns whether content stands for pointers of Git LFS.
    pub fn has_pointers(&self) -> Result<bool, MapError> {
        let select = "SELECT EXISTS (SELECT 1 FROM pointer)";
        self.context(self.db.query_row(select, [], |row| row.get(0)))
    }

    /// Returns the texts of the pointers of Git LFS.
    pub fn pointers(&self) -> Result<HashMap<GitId, Vec<u8>>, MapError> {
        let read = || {
            let mut select = self.db.prepare("SELECT git, text FROM pointer")?;
            let rows = select.query_map([], |row| {
                let git = GitId::new(row.get_ref(0)?.as_blob()?);
                Ok((git, row.get::<_, Vec<u8>>(1)?))
            })?;
            rows.collect::<rusqlite::Result<Vec<_>>>()
        };
        let rows = self.context(read())?;
        let known = rows
            .into_iter()
            .filter_map(|(git, text)| Some((git?, text)));
        Ok(known.collect())
    }
}

/// Returns the bytes of hexadecimal digits that go on with `digit` up to the length `digits`; `None` if they
/// are longer than that, or no digits.
fn filled(hex: &str, digit: char, digits: usize) -> Option<Vec<u8>> {
    let digits: String = hex
        .chars()
        .chain(std::iter::repeat(digit))
        .take(digits)
        .collect();
    let is_hex = digits.starts_with(hex) && digits.bytes().all(|b| b.is_ascii_hexdigit());
    let pairs = (0..digits.len()).step_by(2).filter(|_| is_hex);
    let bytes = pairs.map(|at| u8::from_str_radix(digits.get(at..at + 2)?, 16).ok());
    is_hex.then(|| bytes.collect()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn git(n: u8) -> GitId {
        GitId::new(&[n; 20]).expect("20 bytes")
    }

    #[test]
    fn what_is_saved_is_there_after_opening_again() {
        let dir = tempfile::tempdir().expect("a directory");
        let id = ObjectId::from_bytes([9; 32]);
        let all = [
            Became::Blob {
                size: 5,
                is_list: false,
                has_nul: true,
            },
            Became::Blob {
                size: 1 << 40,
                is_list: true,
                has_nul: false,
            },
            Became::Tree { bytes: 7, files: 3 },
            Became::Commit { generation: 12 },
        ];
        let mut map = IdMap::open(dir.path()).expect("a map");
        assert!(map.is_empty());
        for (n, became) in all.into_iter().enumerate() {
            map.add(git(n as u8), KnownObject { id, became });
        }
        assert_eq!(map.unsaved(), 4);
        map.save(&[git(3)]).expect("saved");
        map.add(git(9), KnownObject { id, became: all[0] });
        map.keep_pointer(&git(1), b"version").expect("kept");
        drop(map);
        let mut map = IdMap::open(dir.path()).expect("a map");
        assert!(!map.is_empty());
        map.index_by_dmv().expect("an index");
        let found = map.git_of(&id).expect("read").expect("it is there");
        assert_eq!(
            map.get(&found).expect("read").map(|known| known.id),
            Some(id)
        );
        let mut other = *id.as_bytes();
        other[31] ^= 1;
        assert_eq!(
            map.git_of(&ObjectId::from_bytes(other)).expect("read"),
            None
        );
        for (n, became) in all.into_iter().enumerate() {
            assert_eq!(
                map.get(&git(n as u8)).expect("read"),
                Some(KnownObject { id, became })
            );
        }
        assert_eq!(map.get(&git(9)).expect("read"), None, "it was not saved");
        assert_eq!(map.heads().expect("read"), [git(3)]);
        assert_eq!(map.pointers().expect("read")[&git(1)], b"version");
        let found = |hex: &str| map.commits_with_prefix(hex, 9).expect("read").len();
        assert_eq!(
            [
                found("0"),
                found("030"),
                found("0303"),
                found(&"03".repeat(20))
            ],
            [1; 4]
        );
        assert_eq!(
            [
                found("02"),
                found("04"),
                found("031"),
                found(&"03".repeat(21))
            ],
            [0; 4]
        );
        assert_eq!([found("03x"), found(&"03".repeat(33))], [0; 2], "no ids");
        map.forget().expect("forgotten");
        assert!(map.is_empty());
        assert_eq!(map.get(&git(0)).expect("read"), None);
    }
}
