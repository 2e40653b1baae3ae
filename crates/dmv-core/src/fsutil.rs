//! Files and directories that are reached through directory handles.
//!
//! A [`SafeDir`] is an open directory. Every path below it is opened from that handle, one
//! component at a time and without following symlinks. So an operation cannot leave the directory,
//! even if another process replaces a path meanwhile. Every error names its path. The system's calls
//! are in `platform`. The module knows neither objects nor the worktree's rules. `worktree`, `refs`
//! and `repo` use it.

mod spelling;
mod swap;
mod times;

pub use self::swap::LastingStat;
pub(crate) use self::swap::mark_time;
pub(crate) use self::times::{fs_now, machine_now, notice_mapped_writes, wait_for_write};

pub use crate::platform::name_of as os_str;
pub(crate) use crate::platform::stat_of as stat_file;
pub use crate::platform::{FileKind, FileStat, FileTime, Inode, set_permissions};

use self::spelling::ListedNames;
use crate::path::PathError;
use crate::platform::{self, Cause, Dir, SystemError};
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// Bytes of names that one [`Listing`] can hold.
const MAX_LISTING_BYTES: usize = u32::MAX as usize;
/// Prefix of the names of temporary files; sixteen hex digits follow.
const TEMP_PREFIX: &[u8] = b".dmv-tmp-";
/// How often an operation is tried again because its temporary name is in use.
const RETRIES: usize = 32;

impl FileTime {
    /// Returns this time minus `nanos` nanoseconds.
    pub(crate) fn minus_nanos(self, nanos: u64) -> FileTime {
        let total = i128::from(self.seconds) * 1_000_000_000 + i128::from(self.nanos);
        let total = total - i128::from(nanos);
        FileTime {
            seconds: i64::try_from(total.div_euclid(1_000_000_000)).unwrap_or(i64::MIN),
            nanos: total.rem_euclid(1_000_000_000) as u32,
        }
    }
}

impl FileStat {
    /// Returns whether only its owner has any permission for a file or directory. `None` if its permissions
    /// do not tell what the user wants: where the umask withholds everything new from others, and of
    /// symlinks and the like.
    pub fn privacy(&self) -> Option<bool> {
        let tells = matches!(self.kind, FileKind::File | FileKind::Dir)
            && platform::umask() & 0o077 != 0o077;
        tells.then_some(self.mode & 0o077 == 0)
    }

    /// Returns the fingerprint of this state of the file, which is never [`Fingerprint::SUSPECT`].
    ///
    /// The device number does not count: it changes when disks are attached in another order.
    pub fn fingerprint(&self) -> Fingerprint {
        let kind = u64::from(self.kind as u8) << 1 | u64::from(self.exec);
        // So the fingerprints of all other files are those of versions that did not know privacy.
        let kind = kind | u64::from(self.privacy() == Some(true)) << 32;
        let nanos = u64::from(self.mtime.nanos) << 32 | u64::from(self.ctime.nanos);
        let (mtime, ctime) = (self.mtime.seconds as u64, self.ctime.seconds as u64);
        let hash = [kind, self.size, mtime, ctime, nanos, self.ino]
            .into_iter()
            .fold(0, |hash, word| mix(hash ^ word));
        Fingerprint(hash.max(1))
    }
}

/// Mixes 64-bit numbers: each input bit flips about half of the output bits (the finalizer of
/// SplitMix64). Chained calls lose no information and cost a fifth of the shortest cryptographic
/// hash. A collision that users provoke among their own files harms only them.
fn mix(x: u64) -> u64 {
    let x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// A digest of a stat: while it stays equal, the file is untouched. The default is
/// [`SUSPECT`](Self::SUSPECT).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Fingerprint(pub u64);

impl Fingerprint {
    /// Differs from every file's fingerprint: the content must be compared.
    pub const SUSPECT: Fingerprint = Fingerprint(0);
}

/// The names in a directory, in the file system's order.
#[derive(Debug, Default)]
pub struct Listing {
    names: Vec<u8>,
    entries: Vec<ListEntry>,
    /// The fingerprints of the first entries; those of all others are unknown.
    fingerprints: Vec<Fingerprint>,
}

#[derive(Clone, Copy, Debug)]
struct ListEntry {
    start: u32,
    len: u16,
    kind: FileKind,
}

impl Listing {
    /// Returns a listing of the names that follow each other in `names`. `entries` gives the end of
    /// each name and its kind. Panics if a name is longer than 64 KiB.
    pub(crate) fn from_sorted(
        names: Vec<u8>,
        entries: impl Iterator<Item = (u32, FileKind)>,
    ) -> Listing {
        let mut start = 0;
        let entry = |(end, kind)| {
            let len = u16::try_from(end - start).expect("a name is short");
            let entry = ListEntry { start, len, kind };
            start = end;
            entry
        };
        let entries = entries.map(entry).collect();
        Listing {
            names,
            entries,
            fingerprints: Vec::new(),
        }
    }

    /// Returns the number of names.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns whether the directory is empty.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns the name at `index`.
    pub fn name(&self, index: usize) -> &[u8] {
        let ListEntry { start, len, .. } = self.entries[index];
        &self.names[start as usize..][..usize::from(len)]
    }

    /// Returns the kind of the entry at `index`, as the directory reports it.
    pub fn kind(&self, index: usize) -> FileKind {
        self.entries[index].kind
    }

    /// Returns the fingerprint of the entry at `index`, or [`Fingerprint::SUSPECT`] if the directory does not tell it.
    pub(crate) fn fingerprint(&self, index: usize) -> Fingerprint {
        self.fingerprints.get(index).copied().unwrap_or_default()
    }

    /// Returns all names with their kinds.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], FileKind)> {
        (0..self.len()).map(|i| (self.name(i), self.kind(i)))
    }

    /// Adds a name. Fails with `E2BIG` if the names together exceed 4 GiB.
    pub fn push(&mut self, name: &[u8], kind: FileKind) -> Result<(), SystemError> {
        if self.names.len() + name.len() > MAX_LISTING_BYTES {
            return Err(SystemError::TOO_BIG);
        }
        let start = self.names.len() as u32;
        let len = u16::try_from(name.len()).map_err(|_| SystemError::NAME_TOO_LONG)?;
        self.names.extend_from_slice(name);
        self.entries.push(ListEntry { start, len, kind });
        Ok(())
    }

    /// Notes the fingerprint of the name that was added last.
    fn note_fingerprint(&mut self, print: Fingerprint) {
        let before = self.entries.len() - 1;
        self.fingerprints.resize(before, Fingerprint::SUSPECT);
        self.fingerprints.push(print);
    }
}

/// An open directory.
#[derive(Debug)]
pub struct SafeDir {
    handle: Dir,
    /// The path, for messages only. Nothing is opened by it.
    path: Vec<u8>,
    /// The names that count, if others that the file system takes for them do not.
    names: Option<Arc<ListedNames>>,
}

impl SafeDir {
    /// Opens the directory at `path`. Follows symlinks on the way, because the caller trusts the
    /// path.
    pub fn open_root(path: &Path) -> Result<SafeDir, PathError> {
        let bytes = platform::bytes_of(path);
        let handle = Dir::open(path).map_err(|e| PathError::new("open directory", bytes, e))?;
        let (path, names) = (bytes.to_vec(), None);
        Ok(SafeDir {
            handle,
            path,
            names,
        })
    }

    /// Returns the path by which the directory was opened, for messages.
    pub fn path(&self) -> &[u8] {
        &self.path
    }

    /// Returns the path of `name` below this directory, for messages.
    pub fn path_of(&self, name: &[u8]) -> Vec<u8> {
        [&self.path, &b"/"[..], name].concat()
    }

    /// Returns another handle of the same directory.
    ///
    /// The directory is opened again, because a duplicated handle would share the position in the
    /// list of names.
    pub fn try_clone(&self) -> Result<SafeDir, PathError> {
        let handle = self.handle.reopen().map_err(|e| self.own("reopen", e))?;
        Ok(SafeDir {
            handle,
            path: self.path.clone(),
            names: self.names.clone(),
        })
    }

    /// Opens the directory at `rel`: components joined by `/`, or an empty path for this directory.
    /// Fails if a component is a symlink (`ELOOP` or `ENOTDIR`), `.`, `..` or empty (`EINVAL`).
    pub fn open_dir(&self, rel: &[u8]) -> Result<SafeDir, PathError> {
        if rel.is_empty() {
            return self.try_clone();
        }
        let handle = rel
            .split(|b| *b == b'/')
            .try_for_each(component)
            .and_then(|()| self.handle.open_dir(rel))
            .map_err(|e| self.error("open directory", rel, e))?;
        self.check_way(rel)?;
        Ok(SafeDir {
            handle,
            path: self.path_of(rel),
            names: self.names.clone(),
        })
    }

    /// Reads the names in the directory, without `.` and `..`. Fails with `E2BIG` if there are more
    /// than `limit`.
    pub fn list(&self, limit: u64) -> Result<Listing, PathError> {
        let mut listing = Listing::default();
        let push = |name: &[u8], kind, stat: Option<FileStat>| {
            if listing.len() as u64 >= limit {
                return Err(SystemError::TOO_BIG);
            }
            listing.push(name, kind)?;
            if let Some(stat) = stat {
                listing.note_fingerprint(stat.fingerprint());
            }
            Ok(())
        };
        self.handle
            .each_entry(push)
            .map_err(|e| self.own("read directory", e))?;
        Ok(listing)
    }

    /// Returns the stat of the entry `name`, without following a symlink.
    pub fn stat(&self, name: &[u8]) -> Result<FileStat, PathError> {
        let stat = self
            .try_stat(name)
            .map_err(|e| self.error("stat", name, e))?;
        self.check_spelling("stat", name)?;
        Ok(stat)
    }

    /// Like [`stat`](Self::stat), but returns `None` if the entry does not exist.
    pub(crate) fn stat_opt(&self, name: &[u8]) -> Result<Option<FileStat>, PathError> {
        match self.try_stat(name) {
            Ok(stat) => Ok(self.has_spelling(name)?.then_some(stat)),
            Err(e) if e.cause() == Cause::Absent => Ok(None),
            Err(e) => Err(self.error("stat", name, e)),
        }
    }

    /// Like [`stat`](Self::stat), without the path in an error, and also of an entry with another spelling.
    pub(crate) fn try_stat(&self, name: &[u8]) -> Result<FileStat, SystemError> {
        component(name)?;
        self.handle.stat_of(name)
    }

    /// Returns the stat of a file that was opened or created in this directory.
    pub(crate) fn stat_open(&self, file: &File) -> io::Result<FileStat> {
        Ok(self.handle.stat_open(file)?)
    }

    /// Returns the stat of the directory itself.
    pub fn stat_self(&self) -> Result<FileStat, PathError> {
        self.handle.stat().map_err(|e| self.own("stat", e))
    }

    /// Returns whether the file system is known to show a change of names in the directory's stat.
    pub(crate) fn tells_name_changes(&self) -> bool {
        self.handle.tells_name_changes()
    }

    /// Opens the regular file `name` for reading, and returns it with its stat. Fails with `ELOOP`
    /// for a symlink and with `EINVAL` for any other kind. Does not wait at a named pipe.
    pub(crate) fn open_file_read(&self, name: &[u8]) -> Result<(File, FileStat), PathError> {
        let open = || {
            component(name)?;
            match self.handle.open_file(name)? {
                (file, stat) if stat.kind == FileKind::File => Ok((file, stat)),
                _ => Err(SystemError::INVALID),
            }
        };
        let opened = open().map_err(|e| self.error("open", name, e))?;
        self.check_spelling("open", name)?;
        Ok(opened)
    }

    /// Returns the target of the symlink `name`, as bytes.
    pub(crate) fn readlink(&self, name: &[u8]) -> Result<Vec<u8>, PathError> {
        component(name)
            .and_then(|()| self.handle.read_link(name))
            .map_err(|e| self.error("read link", name, e))
    }

    /// Creates the directory `name`, which must not exist. If `private`, only its owner can use it.
    pub fn create_dir(&self, name: &[u8], private: bool) -> Result<(), PathError> {
        component(name)
            .and_then(|()| self.handle.create_dir(name, private))
            .map_err(|e| self.error("create directory", name, e))?;
        self.note_new(name);
        Ok(())
    }

    /// Creates the new file `name` for writing; executable, within the umask, if `exec` is set.
    /// Fails if the name exists.
    pub fn create_new(&self, name: &[u8], exec: bool) -> Result<File, PathError> {
        let file = component(name)
            .and_then(|()| self.handle.create_file(name, exec))
            .map_err(|e| self.error("create", name, e))?;
        self.note_new(name);
        Ok(file)
    }

    /// Creates a file with an unpredictable temporary name, for writing. Returns the file and its
    /// name.
    pub(crate) fn create_temp(&self, exec: bool) -> Result<(File, Vec<u8>), PathError> {
        self.with_temp_name("create", |name| self.handle.create_file(name, exec))
    }

    /// Creates a temporary file like [`create_temp`](Self::create_temp), for a file of DMV's own: it gets
    /// the permissions that a shared repository demands.
    pub(crate) fn create_own_temp(&self) -> Result<(File, Vec<u8>), PathError> {
        let (file, name) = self.create_temp(false)?;
        let dir = self.stat_self()?;
        // If this fails, other users cannot read the file.
        let _ = platform::share_like(&file, dir.mode);
        Ok((file, name))
    }

    /// Creates a symlink to `target` with an unpredictable temporary name, and returns the name.
    pub(crate) fn symlink_temp(&self, target: &[u8]) -> Result<Vec<u8>, PathError> {
        self.with_temp_name("create symlink", |name| {
            self.handle.create_symlink(target, name)
        })
        .map(|((), name)| name)
    }

    fn with_temp_name<T>(
        &self,
        op: &'static str,
        create: impl Fn(&[u8]) -> Result<T, SystemError>,
    ) -> Result<(T, Vec<u8>), PathError> {
        let mut tries = 0;
        loop {
            let name = temp_name();
            match create(&name) {
                Ok(made) => return Ok((made, name)),
                Err(e) if e.cause() == Cause::Exists && tries < RETRIES => tries += 1,
                Err(e) => return Err(self.error(op, &name, e)),
            }
        }
    }

    /// Renames the entry `from` to `to`, and replaces an entry that has this name.
    pub fn rename(&self, from: &[u8], to: &[u8]) -> Result<(), PathError> {
        component(from)
            .and_then(|()| component(to))
            .and_then(|()| self.handle.rename(from, to))
            .map_err(|e| self.move_error(from, self, to, e))?;
        self.note_gone(from);
        Ok(())
    }

    /// Renames the entry `from` to `to`. Fails with `EEXIST` if that name is in use.
    ///
    /// On a file system that cannot do this in one step, files are linked and unlinked; directories
    /// cannot be renamed there.
    pub(crate) fn rename_noreplace(&self, from: &[u8], to: &[u8]) -> Result<(), PathError> {
        let rename = || {
            component(from)?;
            component(to)?;
            match self.handle.rename_new(from, &self.handle, to) {
                Err(e) if e.cause() == Cause::Unsupported => {
                    self.handle.hard_link(from, to)?;
                    self.handle.remove_file(from)
                }
                other => other,
            }
        };
        rename().map_err(|e| self.move_error(from, self, to, e))?;
        self.note_gone(from);
        self.note_new(to);
        Ok(())
    }

    /// Makes the content of the file `name` durable, once [`sync_settled`](Self::sync_settled) has been called. An
    /// entry of another kind needs no sync.
    pub(crate) fn sync_file(&self, name: &[u8]) -> Result<(), PathError> {
        component(name)
            .and_then(|()| self.handle.sync_file(name))
            .map_err(|e| self.error("sync", name, e))
    }

    /// Makes durable what was synced in this way, on the same file system.
    pub(crate) fn sync_settled(&self) -> Result<(), PathError> {
        let synced = self.handle.sync_settled();
        synced.map_err(|e| self.own("sync", e))
    }

    /// Removes the entry `name`, which is not a directory.
    pub fn unlink(&self, name: &[u8]) -> Result<(), PathError> {
        self.check_spelling("remove", name)?;
        component(name)
            .and_then(|()| self.handle.remove_file(name))
            .map_err(|e| self.error("remove", name, e))?;
        self.note_gone(name);
        Ok(())
    }

    /// Removes the empty directory `name`.
    pub fn remove_dir(&self, name: &[u8]) -> Result<(), PathError> {
        self.check_spelling("remove directory", name)?;
        component(name)
            .and_then(|()| self.handle.remove_dir(name))
            .map_err(|e| self.error("remove directory", name, e))?;
        self.note_gone(name);
        Ok(())
    }

    /// Creates the symlink `name`, which must not exist, to `target`.
    pub fn symlink(&self, target: &[u8], name: &[u8]) -> Result<(), PathError> {
        component(name)
            .and_then(|()| self.handle.create_symlink(target, name))
            .map_err(|e| self.error("create symlink", name, e))?;
        self.note_new(name);
        Ok(())
    }

    pub(crate) fn error(
        &self,
        op: &'static str,
        name: &[u8],
        e: impl Into<io::Error>,
    ) -> PathError {
        let mut error = PathError::new(op, self.path_of(name), e);
        let why = SystemError::of(&error.source);
        error.users = self.handle.users_of(name, why);
        error
    }

    /// Returns the error of a move of `name` to `dir` as `to`. Either of the two entries may be in use.
    fn move_error(&self, name: &[u8], dir: &SafeDir, to: &[u8], e: SystemError) -> PathError {
        let mut error = dir.error("rename to", to, e);
        if error.users.is_empty() {
            error.users = self.handle.users_of(name, e);
        }
        error
    }

    /// Returns an error for the directory itself.
    fn own(&self, op: &'static str, e: SystemError) -> PathError {
        PathError::new(op, self.path.clone(), e)
    }
}

/// Enlarges a pipe's buffer to a good part of a frame, so that its two ends wake each other less
/// often. Does nothing if `pipe` is no pipe or may not be larger.
pub fn widen_pipe(pipe: impl platform::AsHandle) {
    const ROOM_BYTES: usize = 1 << 20;
    platform::widen_pipe(pipe, ROOM_BYTES);
}

/// Makes everything durable that was written so far to the file system of `dir`. Returns `false` if the system lets no
/// user do that.
pub(crate) fn sync_filesystem(dir: &SafeDir) -> Result<bool, PathError> {
    match dir.handle.sync_filesystem() {
        Ok(()) => Ok(true),
        Err(e) if e.cause() == Cause::Unsupported => Ok(false),
        Err(e) => Err(dir.own("sync", e)),
    }
}

/// Returns whether `name` is that of a temporary file. A killed command may have left such a file.
pub(crate) fn is_temp_name(name: &[u8]) -> bool {
    name.strip_prefix(TEMP_PREFIX)
        .is_some_and(|rest| rest.len() == 16 && rest.iter().all(u8::is_ascii_hexdigit))
}

/// Returns a new temporary name. A file that a killed command leaves under it is never committed.
pub fn temp_name() -> Vec<u8> {
    static SECRET: OnceLock<u64> = OnceLock::new();
    static COUNT: AtomicU64 = AtomicU64::new(0);
    // Without randomness the names are predictable. `O_EXCL` makes that a nuisance, not a danger.
    let secret =
        *SECRET.get_or_init(|| getrandom::u64().unwrap_or_else(|_| u64::from(std::process::id())));
    let number = mix(secret.wrapping_add(COUNT.fetch_add(1, Ordering::Relaxed)));
    [TEMP_PREFIX, format!("{number:016x}").as_bytes()].concat()
}

/// Checks that `name` is a single component and leads nowhere else.
fn component(name: &[u8]) -> Result<(), SystemError> {
    match name {
        b"" | b"." | b".." => Err(SystemError::INVALID),
        _ if name.contains(&b'/') => Err(SystemError::INVALID),
        _ => Ok(()),
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn root() -> (tempfile::TempDir, SafeDir) {
        let temp = tempfile::tempdir().expect("a temporary directory");
        let dir = SafeDir::open_root(temp.path()).expect("opens");
        (temp, dir)
    }

    #[test]
    fn symlinks_and_dots_lead_nowhere() -> Result<(), Box<dyn std::error::Error>> {
        let (temp, dir) = root();
        std::fs::create_dir_all(temp.path().join("a/b"))?;
        std::fs::write(temp.path().join("a/b/f"), "x")?;
        symlink("a", temp.path().join("link"))?;
        symlink("../b", temp.path().join("a/b/up"))?;
        symlink("f", temp.path().join("a/b/lf"))?;
        dir.open_dir(b"a/b")?.open_file_read(b"f")?;
        for bad in [
            "link", "link/b", "a/b/up", "a/../a", "a//b", "/", "/tmp", ".",
        ] {
            assert!(dir.open_dir(bad.as_bytes()).is_err(), "{bad}");
        }
        let b = dir.open_dir(b"a/b")?;
        assert!(b.open_file_read(b"lf").is_err());
        assert!(b.open_file_read(b"../b/f").is_err());
        assert_eq!(b.stat(b"lf")?.kind, FileKind::Symlink);
        assert_eq!(b.readlink(b"lf")?, b"f");
        assert!(b.unlink(b"../b/f").is_err());
        Ok(())
    }

    #[test]
    fn directories_deeper_than_a_path_may_be_long_are_opened() -> Result<(), PathError> {
        let (_temp, dir) = root();
        let name = [b'n'; 200];
        let mut here = dir.try_clone()?;
        for _ in 0..30 {
            here.create_dir(&name, false)?;
            here = here.open_dir(&name)?;
        }
        let path = [&name[..]; 30].join(&b'/');
        assert_eq!(dir.open_dir(&path)?.stat_self()?.ino, here.stat_self()?.ino);
        Ok(())
    }

    #[test]
    fn pipes_are_refused_without_waiting() -> Result<(), PathError> {
        let (temp, dir) = root();
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        rustix::fs::mkfifoat(rustix::fs::CWD, temp.path().join("p"), mode).expect("a pipe");
        assert!(dir.open_file_read(b"p").is_err());
        assert_eq!(dir.stat(b"p")?.kind, FileKind::Fifo);
        Ok(())
    }

    #[test]
    fn rename_noreplace_keeps_what_is_there() -> Result<(), Box<dyn std::error::Error>> {
        let (temp, dir) = root();
        let (mut file, name) = dir.create_temp(false)?;
        file.write_all(b"new")?;
        assert!(is_temp_name(&name) && !is_temp_name(b".dmv-tmp-x"));
        std::fs::write(temp.path().join("taken"), "old")?;
        let refused = dir.rename_noreplace(&name, b"taken").expect_err("taken");
        assert_eq!(refused.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(std::fs::read(temp.path().join("taken"))?, b"old");
        dir.rename_noreplace(&name, b"free")?;
        assert_eq!(std::fs::read(temp.path().join("free"))?, b"new");
        Ok(())
    }

    #[test]
    fn fingerprints_follow_the_stat() -> Result<(), Box<dyn std::error::Error>> {
        let (temp, dir) = root();
        let path = temp.path().join("f");
        std::fs::write(&path, "one")?;
        let before = dir.stat(b"f")?;
        assert_eq!(before.fingerprint(), dir.stat(b"f")?.fingerprint());
        assert!(!before.exec);
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755))?;
        let after = dir.stat(b"f")?;
        assert!(after.exec);
        assert_ne!(before.fingerprint(), after.fingerprint());
        let mut changed = after;
        changed.dev += 1;
        assert_eq!(changed.fingerprint(), after.fingerprint());
        changed.mtime.nanos ^= 1;
        assert_ne!(changed.fingerprint(), after.fingerprint());
        Ok(())
    }

    #[test]
    fn errors_name_the_path_escaped() {
        let (_temp, dir) = root();
        let error = dir.stat(b"a\x1b[2J\xff\xe2\x80\xae").expect_err("absent");
        let text = error.to_string();
        assert!(
            text.ends_with("a\\u{1b}[2J\\xff\\u{202e}: No such file or directory (os error 2)")
        );
        assert!(text.starts_with("cannot stat /"), "{text}");
    }

    #[test]
    fn the_file_systems_clock_is_near() -> Result<(), PathError> {
        let (_temp, dir) = root();
        let (first, second) = (fs_now(&dir), fs_now(&dir));
        assert!(first <= second);
        assert!(dir.list(10)?.is_empty());
        let back = second.minus_nanos(1_500_000_000);
        assert!(back < second && second.seconds - back.seconds <= 2);
        Ok(())
    }
}
