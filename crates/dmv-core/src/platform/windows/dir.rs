//! Directories by handles.

use super::calls::{self, NameChange, OpenMode, RawStat, Volume};
use super::holder::users_of;
use super::name::{new_wide, wide};
use super::patience::{is_held, patiently};
use super::stat::{from_raw, kind};
use crate::platform::{Cause, FileKind, FileStat, FileUser, SystemError};
use std::collections::hash_map::RandomState;
use std::fs::{File, OpenOptions};
use std::hash::{BuildHasher, Hasher};
use std::os::windows::fs::OpenOptionsExt;
use std::os::windows::io::OwnedHandle;
use std::path::Path;
use windows_sys::Wdk::Storage::FileSystem::{
    FILE_CREATE, FILE_DIRECTORY_FILE, FILE_DISPOSITION_DELETE,
    FILE_DISPOSITION_IGNORE_READONLY_ATTRIBUTE, FILE_DISPOSITION_POSIX_SEMANTICS,
    FILE_NON_DIRECTORY_FILE, FILE_OPEN, FILE_OPEN_FOR_BACKUP_INTENT, FILE_OPEN_NO_RECALL,
    FILE_RENAME_IGNORE_READONLY_ATTRIBUTE, FILE_RENAME_POSIX_SEMANTICS,
    FILE_RENAME_REPLACE_IF_EXISTS, NTCREATEFILE_CREATE_OPTIONS,
};
use windows_sys::Win32::Foundation::{
    ERROR_CANNOT_MAKE, ERROR_DELETE_PENDING, ERROR_DIRECTORY, ERROR_FILE_NOT_FOUND,
    ERROR_NOT_SUPPORTED, ERROR_STOPPED_ON_SYMLINK,
};
use windows_sys::Win32::Storage::FileSystem::{
    DELETE, FILE_ATTRIBUTE_NORMAL, FILE_ATTRIBUTE_REPARSE_POINT, FILE_FLAG_BACKUP_SEMANTICS,
    FILE_GENERIC_READ, FILE_GENERIC_WRITE, FILE_LIST_DIRECTORY, FILE_READ_ATTRIBUTES,
    FILE_TRAVERSE, FILE_WRITE_ATTRIBUTES, FILE_WRITE_DATA, SYNCHRONIZE,
};

/// Size of the buffer that directory entries are read into, in units of eight bytes.
const LIST_BUFFER_UNITS: usize = 8 << 10;
const USE_DIR: u32 = FILE_LIST_DIRECTORY | FILE_TRAVERSE | FILE_READ_ATTRIBUTES;

type Result<T> = std::result::Result<T, SystemError>;

fn error<T>(code: u32) -> Result<T> {
    Err(SystemError::from_code(code as i32))
}

#[derive(Debug)]
pub struct Dir {
    handle: OwnedHandle,
    volume: Volume,
}

impl Dir {
    pub fn open(path: &Path) -> Result<Dir> {
        let opened = OpenOptions::new()
            .access_mode(USE_DIR | SYNCHRONIZE)
            .custom_flags(FILE_FLAG_BACKUP_SEMANTICS)
            .open(path);
        let handle = match opened {
            Ok(file) => OwnedHandle::from(file),
            // A path with a zero in it.
            Err(e) => return Err(SystemError::of(&e)),
        };
        let volume = calls::volume_of(&handle)?;
        Dir::of_directory(handle, volume)
    }

    /// Fails if the handle is that of anything else, also of a link to a directory.
    fn of_directory(handle: OwnedHandle, volume: Volume) -> Result<Dir> {
        let raw = calls::stat(&handle, volume)?;
        match kind(raw.attributes, raw.tag) {
            FileKind::Dir => Ok(Dir { handle, volume }),
            FileKind::File => error(ERROR_DIRECTORY),
            _ => error(ERROR_STOPPED_ON_SYMLINK),
        }
    }

    /// Listing the names opens the directory again each time, so two handles of it share no position.
    pub fn reopen(&self) -> Result<Dir> {
        let handle = self.handle.try_clone().map_err(|e| SystemError::of(&e))?;
        Ok(Dir {
            handle,
            volume: self.volume,
        })
    }

    pub fn open_dir(&self, rel: &[u8]) -> Result<Dir> {
        let mut names = rel.split(|b| *b == b'/');
        let first = names.next().expect("split yields at least one part");
        let mut dir = self.open_one(first)?;
        for name in names {
            dir = dir.open_one(name)?;
        }
        Ok(dir)
    }

    fn open_one(&self, name: &[u8]) -> Result<Dir> {
        // Without the option that it must be a directory, so that the error tells what it is.
        let handle = self.existing(
            name,
            USE_DIR,
            FILE_OPEN_FOR_BACKUP_INTENT | FILE_OPEN_NO_RECALL,
        )?;
        Dir::of_directory(handle, self.volume)
    }

    /// Opens an entry that exists.
    fn existing(
        &self,
        name: &[u8],
        access: u32,
        options: NTCREATEFILE_CREATE_OPTIONS,
    ) -> Result<OwnedHandle> {
        let how = OpenMode {
            access,
            disposition: FILE_OPEN,
            options,
        };
        match calls::open_at(&self.handle, &wide(name)?, how) {
            // It is as good as gone.
            Err(e) if e.code() == ERROR_DELETE_PENDING as i32 => error(ERROR_FILE_NOT_FOUND),
            done => done,
        }
    }

    /// Creates an entry that does not exist.
    fn create(
        &self,
        name: &[u8],
        access: u32,
        options: NTCREATEFILE_CREATE_OPTIONS,
    ) -> Result<OwnedHandle> {
        let how = OpenMode {
            access,
            disposition: FILE_CREATE,
            options,
        };
        calls::open_at(&self.handle, &new_wide(name)?, how)
    }

    /// The listing of a directory tells what a stat does, and costs a tenth of it. The system may note a change there
    /// only when the program that makes it closes the file, and one through another name of a file never.
    pub fn each_entry(
        &self,
        mut each: impl FnMut(&[u8], FileKind, Option<FileStat>) -> Result<()>,
    ) -> Result<()> {
        // An empty name is the directory itself.
        let own = calls::open_at(
            &self.handle,
            &[],
            OpenMode {
                access: FILE_LIST_DIRECTORY,
                disposition: FILE_OPEN,
                options: FILE_DIRECTORY_FILE | FILE_OPEN_FOR_BACKUP_INTENT,
            },
        )?;
        let mut buffer = vec![0; LIST_BUFFER_UNITS];
        while calls::list(&own, &mut buffer)? {
            let bytes: Vec<u8> = buffer.iter().flat_map(|unit| unit.to_le_bytes()).collect();
            let mut rest = &bytes[..];
            loop {
                let entry = ListEntry::parse(rest).ok_or(SystemError::INVALID)?;
                let name = String::from_utf16(&entry.name);
                let (kind, stat) = (entry.kind(), entry.stat(self.volume));
                match name.as_deref() {
                    Ok("." | "..") => {}
                    Ok(name) => each(name.as_bytes(), kind, stat)?,
                    // A name that is no valid text. As bytes it is no UTF-8, so nothing can open it by them.
                    Err(_) => each(&invalid_bytes(&entry.name), kind, stat)?,
                }
                match entry.next {
                    0 => break,
                    next => rest = rest.get(next..).ok_or(SystemError::INVALID)?,
                }
            }
        }
        Ok(())
    }

    pub fn stat(&self) -> Result<FileStat> {
        Ok(from_raw(&calls::stat(&self.handle, self.volume)?))
    }

    pub fn stat_open(&self, file: &File) -> Result<FileStat> {
        Ok(from_raw(&calls::stat(file, self.volume)?))
    }

    pub fn stat_of(&self, name: &[u8]) -> Result<FileStat> {
        let options = FILE_OPEN_FOR_BACKUP_INTENT | FILE_OPEN_NO_RECALL;
        let handle = self.existing(name, FILE_READ_ATTRIBUTES, options)?;
        Ok(from_raw(&calls::stat(&handle, self.volume)?))
    }

    pub fn open_file(&self, name: &[u8]) -> Result<(File, FileStat)> {
        let handle = patiently(|| {
            let options = FILE_OPEN_FOR_BACKUP_INTENT | FILE_OPEN_NO_RECALL;
            self.existing(name, FILE_GENERIC_READ, options)
        })?;
        let raw = calls::stat(&handle, self.volume)?;
        match kind(raw.attributes, raw.tag) {
            FileKind::Unknown => error(ERROR_STOPPED_ON_SYMLINK),
            _ => Ok((File::from(handle), from_raw(&raw))),
        }
    }

    pub fn create_file(&self, name: &[u8], _exec: bool) -> Result<File> {
        let access = FILE_GENERIC_WRITE | FILE_READ_ATTRIBUTES;
        let handle = self.create(name, access, FILE_NON_DIRECTORY_FILE)?;
        Ok(File::from(handle))
    }

    /// A handle that has the right to append and not the one to write does only that.
    pub fn create_growing(&self, name: &[u8], _exec: bool) -> Result<File> {
        let access = FILE_GENERIC_WRITE & !FILE_WRITE_DATA | FILE_READ_ATTRIBUTES;
        let handle = self.create(name, access, FILE_NON_DIRECTORY_FILE)?;
        Ok(File::from(handle))
    }

    pub fn create_dir(&self, name: &[u8], _private: bool) -> Result<()> {
        self.create(name, FILE_READ_ATTRIBUTES, FILE_DIRECTORY_FILE)
            .map(drop)
    }

    pub fn read_link(&self, _: &[u8]) -> Result<Vec<u8>> {
        error(ERROR_NOT_SUPPORTED)
    }

    pub fn create_symlink(&self, _: &[u8], _: &[u8]) -> Result<()> {
        error(ERROR_NOT_SUPPORTED)
    }

    pub fn hard_link(&self, from: &[u8], to: &[u8]) -> Result<()> {
        let to = new_wide(to)?;
        let options = FILE_NON_DIRECTORY_FILE;
        let file = self.existing(from, FILE_WRITE_ATTRIBUTES, options)?;
        calls::set_name(&file, &self.handle, &to, NameChange::Link)
    }

    pub fn rename(&self, from: &[u8], to: &[u8]) -> Result<()> {
        self.rename_to(from, self, to)
    }

    pub fn rename_to(&self, from: &[u8], dir: &Dir, to: &[u8]) -> Result<()> {
        self.respell(from, dir, to, true)
    }

    pub fn rename_new(&self, from: &[u8], dir: &Dir, to: &[u8]) -> Result<()> {
        self.respell(from, dir, to, false)
    }

    /// Renames as POSIX has it: the file that is replaced may be open, and goes at once. Where the file system cannot,
    /// renames in the plain way.
    fn name_anew(&self, from: &[u8], dir: &Dir, to: &[u8], replace: bool) -> Result<()> {
        let units = new_wide(to)?;
        let mut flags = FILE_RENAME_POSIX_SEMANTICS | FILE_RENAME_IGNORE_READONLY_ATTRIBUTE;
        if replace {
            flags |= FILE_RENAME_REPLACE_IF_EXISTS;
        }
        patiently(|| {
            let file = self.existing(
                from,
                DELETE | FILE_READ_ATTRIBUTES,
                FILE_OPEN_FOR_BACKUP_INTENT,
            )?;
            let named = calls::set_name(&file, &dir.handle, &units, NameChange::Rename(flags));
            or_else_unsupported(named, || {
                calls::set_name(
                    &file,
                    &dir.handle,
                    &units,
                    NameChange::PlainRename { replace },
                )
            })
        })
    }

    /// Gives an entry a name that may differ from the old one in upper and lower case only. Some systems say that this
    /// is done and leave the old name, so it is looked at.
    fn respell(&self, from: &[u8], dir: &Dir, to: &[u8], replace: bool) -> Result<()> {
        self.name_anew(from, dir, to, replace)?;
        if !differs_in_case_only(from, to) || dir.lists(to)? {
            return Ok(());
        }
        // The name tells people what it is for, and is not one of those that a later command removes.
        let between = format!("dmv-renaming-{:016x}", random()).into_bytes();
        self.name_anew(from, dir, &between, false)?;
        if let Err(e) = dir.name_anew(&between, dir, to, false) {
            dir.name_anew(&between, self, from, false)?;
            return Err(e);
        }
        if dir.lists(to)? {
            Ok(())
        } else {
            error(ERROR_CANNOT_MAKE)
        }
    }

    /// Returns whether the directory lists an entry with this very name.
    fn lists(&self, wanted: &[u8]) -> Result<bool> {
        let mut found = false;
        self.each_entry(|name, _, _| {
            found |= name == wanted;
            Ok(())
        })?;
        Ok(found)
    }

    /// Windows has no such call, whatever the names are.
    pub fn exchange(&self, _: &[u8], _: &[u8]) -> Result<()> {
        error(ERROR_NOT_SUPPORTED)
    }

    pub fn remove_file(&self, name: &[u8]) -> Result<()> {
        self.remove(name, FILE_NON_DIRECTORY_FILE)
    }

    pub fn remove_dir(&self, name: &[u8]) -> Result<()> {
        if self.stat_of(name)?.kind == FileKind::Unknown {
            return error(ERROR_DIRECTORY);
        }
        self.remove(name, FILE_DIRECTORY_FILE)
    }

    fn remove(&self, name: &[u8], options: NTCREATEFILE_CREATE_OPTIONS) -> Result<()> {
        let flags = FILE_DISPOSITION_DELETE
            | FILE_DISPOSITION_POSIX_SEMANTICS
            | FILE_DISPOSITION_IGNORE_READONLY_ATTRIBUTE;
        patiently(|| {
            let file = self.existing(name, DELETE | FILE_READ_ATTRIBUTES, options)?;
            or_else_unsupported(calls::remove(&file, Some(flags)), || {
                match calls::remove(&file, None) {
                    // Perhaps it is only read-only.
                    Err(e) if e.cause() == Cause::Denied => {
                        let writable = self.existing(name, FILE_WRITE_ATTRIBUTES, options)?;
                        calls::set_attributes(&writable, FILE_ATTRIBUTE_NORMAL)?;
                        calls::remove(&file, None)
                    }
                    done => done,
                }
            })
        })
    }

    pub fn users_of(&self, name: &[u8], why: SystemError) -> Vec<FileUser> {
        if !is_held(why) {
            return Vec::new();
        }
        let options = FILE_OPEN_FOR_BACKUP_INTENT | FILE_OPEN_NO_RECALL;
        let file = self.existing(name, FILE_READ_ATTRIBUTES, options);
        file.map_or_else(|_| Vec::new(), |file| users_of(&file))
    }

    /// A user may not flush a volume, so each file is flushed on its own: see [`Dir::sync_file`].
    pub fn sync_filesystem(&self) -> Result<()> {
        error(ERROR_NOT_SUPPORTED)
    }

    pub fn sync_file(&self, name: &[u8]) -> Result<()> {
        // Without the option that it must be a file: a directory is no error.
        let options = FILE_OPEN_FOR_BACKUP_INTENT | FILE_OPEN_NO_RECALL;
        let access = FILE_WRITE_DATA | FILE_READ_ATTRIBUTES;
        let file = patiently(|| self.existing(name, access, options))?;
        let raw = calls::stat(&file, self.volume)?;
        if kind(raw.attributes, raw.tag) != FileKind::File {
            return Ok(());
        }
        // `NtFlushBuffersFileEx` could leave the caches of the medium to `sync_settled`. Wine 8 ends a process that calls
        // it.
        File::from(file)
            .sync_data()
            .map_err(|e| SystemError::of(&e))
    }

    pub fn sync_settled(&self) -> Result<()> {
        Ok(())
    }

    /// What other programs have seen so far does not count: the system may note the time later.
    pub fn tells_name_changes(&self) -> bool {
        false
    }
}

fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// Returns a name that scans recognise as that of a temporary file.
pub fn temporary_name() -> String {
    format!(".dmv-tmp-{:016x}", random())
}

/// Returns whether two names are those of one entry for a system that ignores upper and lower case, or nearly so.
fn differs_in_case_only(a: &[u8], b: &[u8]) -> bool {
    let lower = |name: &[u8]| String::from_utf8_lossy(name).to_lowercase();
    a != b && lower(a) == lower(b)
}

/// Does it in another way if the file system does not know the first one. Other errors stand.
fn or_else_unsupported(done: Result<()>, otherwise: impl FnOnce() -> Result<()>) -> Result<()> {
    match done {
        Err(e) if e.cause() == Cause::Unsupported => otherwise(),
        done => done,
    }
}

/// One structure `FILE_ID_BOTH_DIR_INFO`.
struct ListEntry {
    /// Where the next one begins, from the beginning of this one; 0 for none.
    next: usize,
    attributes: u32,
    tag: u32,
    written: i64,
    changed: i64,
    size: u64,
    id: u64,
    name: Vec<u16>,
}

impl ListEntry {
    fn parse(bytes: &[u8]) -> Option<ListEntry> {
        const WRITTEN: usize = 24;
        const CHANGED: usize = 32;
        const SIZE: usize = 40;
        const ATTRIBUTES: usize = 56;
        const NAME_BYTES: usize = 60;
        /// Of a reparse point, its tag is where others have the size of their attributes.
        const TAG: usize = 64;
        const ID: usize = 96;
        const NAME: usize = 104;
        let number = |at: usize| {
            let four = bytes.get(at..at + 4)?;
            Some(u32::from_le_bytes(four.try_into().ok()?))
        };
        let long = |at: usize| {
            let eight = bytes.get(at..at + 8)?;
            Some(u64::from_le_bytes(eight.try_into().ok()?))
        };
        let len = number(NAME_BYTES)? as usize;
        let name = bytes.get(NAME..)?.get(..len)?;
        let units = name.as_chunks().0.iter();
        Some(ListEntry {
            next: number(0)? as usize,
            attributes: number(ATTRIBUTES)?,
            tag: number(TAG)?,
            written: long(WRITTEN)? as i64,
            changed: long(CHANGED)? as i64,
            size: long(SIZE)?,
            id: long(ID)?,
            name: units.map(|two| u16::from_le_bytes(*two)).collect(),
        })
    }

    fn kind(&self) -> FileKind {
        kind(self.attributes, self.tag)
    }

    /// Returns the stat of a file, as far as the entry tells it. A file system without ids has zeros in their place.
    fn stat(&self, volume: Volume) -> Option<FileStat> {
        let is_plain = self.kind() == FileKind::File
            && self.attributes & FILE_ATTRIBUTE_REPARSE_POINT == 0
            && self.id != 0
            && !volume.has_long_ids;
        is_plain.then(|| {
            from_raw(&RawStat {
                attributes: self.attributes,
                tag: 0,
                written: self.written,
                changed: self.changed,
                size: self.size,
                links: 1,
                volume: volume.serial,
                id: u128::from(self.id),
            })
        })
    }
}

/// Returns bytes for a name with halves of characters, as the standard library has them.
fn invalid_bytes(units: &[u16]) -> Vec<u8> {
    use std::os::windows::ffi::OsStringExt;
    std::ffi::OsString::from_wide(units).into_encoded_bytes()
}
