//! Files and directories that are reached through directory handles.
//!
//! A [`SafeDir`] is an open directory. Every path below it is opened from that handle, one
//! component at a time and without following symlinks. So an operation cannot leave the directory,
//! even if another process replaces a path meanwhile. Every error names its path. The module knows
//! neither objects nor the worktree's rules. `worktree`, `refs` and `repo` use it.

mod open;
mod swap;
mod times;

pub use self::open::open_unfollowed;
pub use self::swap::{Untouched, mark_time, set_permissions};
pub use self::times::{fs_now, machine_now, notice_mapped_writes, wait_for_write};

use crate::escape::escape;
use rustix::fs::{AtFlags, Mode, OFlags, RenameFlags, ResolveFlags};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// Size of the buffer that directory entries are read into.
const LIST_BUFFER_BYTES: usize = 64 << 10;
/// Bytes of names that one [`Listing`] can hold.
const MAX_LISTING_BYTES: usize = u32::MAX as usize;
/// Prefix of the names of temporary files; sixteen hex digits follow.
const TEMP_PREFIX: &[u8] = b".dmv-tmp-";
/// How often an operation on a busy path, or with a temporary name in use, is tried again.
const RETRIES: usize = 32;

const OPEN_DIR: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

/// A failed file operation: what was attempted, on which path, and why it failed.
#[derive(Debug, thiserror::Error)]
#[error("cannot {op} {}: {source}", escape(path))]
pub struct PathError {
    /// The path, as bytes.
    pub path: Vec<u8>,
    /// The operation, as a verb: `open`, `rename`.
    pub op: &'static str,
    /// The system's error.
    pub source: io::Error,
}

impl PathError {
    /// Returns an error for `path`.
    pub fn new(op: &'static str, path: impl Into<Vec<u8>>, source: impl Into<io::Error>) -> Self {
        let (path, source) = (path.into(), source.into());
        PathError { path, op, source }
    }

    /// Returns the kind of the system's error.
    pub fn kind(&self) -> io::ErrorKind {
        self.source.kind()
    }

    /// Returns whether a directory could not be opened because it does not exist, is something else, or
    /// is closed to this user. Other errors, such as a lack of memory, say nothing about its entries.
    pub fn is_absent(&self) -> bool {
        let of = |errno: &Errno| self.source.raw_os_error() == Some(errno.raw_os_error());
        [
            Errno::NOENT,
            Errno::NOTDIR,
            Errno::LOOP,
            Errno::ACCESS,
            Errno::NAMETOOLONG,
        ]
        .iter()
        .any(of)
    }
}

/// What a directory entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum FileKind {
    /// A regular file.
    File = 1,
    /// A symbolic link.
    Symlink = 2,
    /// A directory.
    Dir = 3,
    /// A named pipe.
    Fifo = 4,
    /// A socket.
    Socket = 5,
    /// A block or character device.
    Device = 6,
    /// Not reported by the file system; a stat shows the kind.
    Unknown = 7,
}

impl From<rustix::fs::FileType> for FileKind {
    fn from(ty: rustix::fs::FileType) -> FileKind {
        use rustix::fs::FileType as T;
        match ty {
            T::RegularFile => FileKind::File,
            T::Symlink => FileKind::Symlink,
            T::Directory => FileKind::Dir,
            T::Fifo => FileKind::Fifo,
            T::Socket => FileKind::Socket,
            T::CharacterDevice | T::BlockDevice => FileKind::Device,
            T::Unknown => FileKind::Unknown,
        }
    }
}

/// A point in time on the clock of some file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FileTime {
    /// Seconds since 1970.
    pub seconds: i64,
    /// Nanoseconds in that second, below 10^9.
    pub nanos: u32,
}

impl FileTime {
    /// Returns this time minus `nanos` nanoseconds.
    pub fn minus_nanos(self, nanos: u64) -> FileTime {
        let total = i128::from(self.seconds) * 1_000_000_000 + i128::from(self.nanos);
        let total = total - i128::from(nanos);
        FileTime {
            seconds: i64::try_from(total.div_euclid(1_000_000_000)).unwrap_or(i64::MIN),
            nanos: total.rem_euclid(1_000_000_000) as u32,
        }
    }
}

/// Magic numbers of file systems on which every change of a name changes the directory's mtime:
/// ext2/3/4, XFS, Btrfs, F2FS, ZFS, tmpfs.
const TELLING: [u64; 6] = [
    0xef53,
    0x5846_5342,
    0x9123_683e,
    0xf2f5_2010,
    0x2fc1_2fc1,
    0x0102_1994,
];

/// The parts of an entry's stat that DMV uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileStat {
    /// What the entry is.
    pub kind: FileKind,
    /// Whether its owner may execute it.
    pub exec: bool,
    /// Its permissions: the lowest twelve bits of its mode.
    pub mode: u32,
    /// Number of names (hard links) that the file has.
    pub nlink: u32,
    /// Size in bytes.
    pub size: u64,
    /// Time of the last change of its content.
    pub mtime: FileTime,
    /// Time of the last change of its content or attributes. No program can set it.
    pub ctime: FileTime,
    /// Inode number.
    pub ino: u64,
    /// Device number of its file system.
    pub dev: u64,
}

impl FileStat {
    // The widths of the fields differ between machines, so some casts have no effect on some of
    // them.
    #[allow(clippy::unnecessary_cast)]
    fn from_stat(stat: &rustix::fs::Stat) -> FileStat {
        FileStat {
            kind: rustix::fs::FileType::from_raw_mode(stat.st_mode).into(),
            exec: stat.st_mode & 0o100 != 0,
            mode: stat.st_mode as u32 & 0o7777,
            nlink: stat.st_nlink as u32,
            size: stat.st_size as u64,
            mtime: FileTime {
                seconds: stat.st_mtime as i64,
                nanos: stat.st_mtime_nsec as u32,
            },
            ctime: FileTime {
                seconds: stat.st_ctime as i64,
                nanos: stat.st_ctime_nsec as u32,
            },
            ino: stat.st_ino as u64,
            dev: stat.st_dev as u64,
        }
    }

    /// Returns whether only its owner has any permission for it.
    pub fn is_private(&self) -> bool {
        self.mode & 0o077 == 0
    }

    /// Returns the fingerprint of this state of the file, which is never [`Fingerprint::SUSPECT`].
    ///
    /// The device number does not count: it changes when disks are attached in another order.
    pub fn fingerprint(&self) -> Fingerprint {
        let kind = u64::from(self.kind as u8) << 1 | u64::from(self.exec);
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
        Listing { names, entries }
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

    /// Returns all names with their kinds.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], FileKind)> {
        (0..self.len()).map(|i| (self.name(i), self.kind(i)))
    }

    /// Adds a name. Fails with `E2BIG` if the names together exceed 4 GiB.
    pub fn push(&mut self, name: &[u8], kind: FileKind) -> io::Result<()> {
        if self.names.len() + name.len() > MAX_LISTING_BYTES {
            return Err(Errno::TOOBIG.into());
        }
        let start = self.names.len() as u32;
        let len = u16::try_from(name.len()).map_err(|_| Errno::NAMETOOLONG)?;
        self.names.extend_from_slice(name);
        self.entries.push(ListEntry { start, len, kind });
        Ok(())
    }
}

/// An open directory.
#[derive(Debug)]
pub struct SafeDir {
    fd: OwnedFd,
    /// The path, for messages only. Nothing is opened by it.
    path: Vec<u8>,
}

impl SafeDir {
    /// Opens the directory at `path`. Follows symlinks on the way, because the caller trusts the
    /// path.
    pub fn open_root(path: &Path) -> Result<SafeDir, PathError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let bytes = path.as_os_str().as_bytes();
        let fd = rustix::fs::open(path, flags, Mode::empty())
            .map_err(|e| PathError::new("open directory", bytes, e))?;
        Ok(SafeDir {
            fd,
            path: bytes.to_vec(),
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
        let fd = rustix::fs::openat(&self.fd, c".", OPEN_DIR, Mode::empty())
            .map_err(|e| PathError::new("reopen", self.path.clone(), e))?;
        let path = self.path.clone();
        Ok(SafeDir { fd, path })
    }

    /// Opens the directory at `rel`: components joined by `/`, or an empty path for this directory.
    /// Fails if a component is a symlink (`ELOOP` or `ENOTDIR`), `.`, `..` or empty (`EINVAL`).
    pub fn open_dir(&self, rel: &[u8]) -> Result<SafeDir, PathError> {
        if rel.is_empty() {
            return self.try_clone();
        }
        let fd = self
            .open_below(rel)
            .map_err(|e| self.error("open directory", rel, e))?;
        let path = self.path_of(rel);
        Ok(SafeDir { fd, path })
    }

    fn open_below(&self, rel: &[u8]) -> Result<OwnedFd, Errno> {
        let mut components = rel.split(|b| *b == b'/');
        components.clone().try_for_each(component)?;
        if !rel.contains(&b'/') {
            return rustix::fs::openat(&self.fd, rel, OPEN_DIR, Mode::empty());
        }
        let beneath =
            ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        for _ in 0..RETRIES {
            match rustix::fs::openat2(&self.fd, rel, OPEN_DIR, Mode::empty(), beneath) {
                // A rename took place during the lookup, so the kernel cannot guarantee the path.
                Err(Errno::AGAIN) => continue,
                // The call does not exist here, or the path is too long for it: go component by
                // component.
                Err(Errno::NOSYS | Errno::PERM | Errno::INVAL | Errno::NAMETOOLONG) => break,
                other => return other,
            }
        }
        let first = components.next().expect("split yields at least one part");
        let mut fd = rustix::fs::openat(&self.fd, first, OPEN_DIR, Mode::empty())?;
        for name in components {
            fd = rustix::fs::openat(&fd, name, OPEN_DIR, Mode::empty())?;
        }
        Ok(fd)
    }

    /// Reads the names in the directory, without `.` and `..`. Fails with `E2BIG` if there are more
    /// than `limit`.
    pub fn list(&self, limit: u64) -> Result<Listing, PathError> {
        let fail = |e: io::Error| PathError::new("read directory", self.path.clone(), e);
        let mut listing = Listing::default();
        rustix::fs::seek(&self.fd, rustix::fs::SeekFrom::Start(0)).map_err(|e| fail(e.into()))?;
        let mut buffer = Vec::with_capacity(LIST_BUFFER_BYTES);
        let mut entries = rustix::fs::RawDir::new(&self.fd, buffer.spare_capacity_mut());
        while let Some(entry) = entries.next() {
            let entry = entry.map_err(|e| fail(e.into()))?;
            let name = entry.file_name().to_bytes();
            if name == b"." || name == b".." {
                continue;
            }
            if listing.len() as u64 >= limit {
                return Err(fail(Errno::TOOBIG.into()));
            }
            listing.push(name, entry.file_type().into()).map_err(fail)?;
        }
        Ok(listing)
    }

    /// Returns the stat of the entry `name`, without following a symlink.
    pub fn stat(&self, name: &[u8]) -> Result<FileStat, PathError> {
        self.stat_errno(name)
            .map_err(|e| self.error("stat", name, e))
    }

    /// Like [`stat`](Self::stat), but returns `None` if the entry does not exist.
    pub fn stat_opt(&self, name: &[u8]) -> Result<Option<FileStat>, PathError> {
        match self.stat_errno(name) {
            Ok(stat) => Ok(Some(stat)),
            Err(Errno::NOENT) => Ok(None),
            Err(e) => Err(self.error("stat", name, e)),
        }
    }

    pub(crate) fn stat_errno(&self, name: &[u8]) -> Result<FileStat, Errno> {
        component(name)?;
        let stat = rustix::fs::statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW)?;
        Ok(FileStat::from_stat(&stat))
    }

    /// Returns the stat of the directory itself.
    pub fn stat_self(&self) -> Result<FileStat, PathError> {
        let stat = rustix::fs::fstat(&self.fd)
            .map_err(|e| PathError::new("stat", self.path.clone(), e))?;
        Ok(FileStat::from_stat(&stat))
    }

    /// Returns whether the file system is known to show a change of names in the directory's stat.
    // The type of the field differs between machines.
    #[allow(clippy::unnecessary_cast)]
    pub fn tells_name_changes(&self) -> bool {
        let magic = rustix::fs::fstatfs(&self.fd).map(|fs| fs.f_type as u64 & 0xffff_ffff);
        magic.is_ok_and(|magic| TELLING.contains(&magic))
    }

    /// Opens the regular file `name` for reading, and returns it with its stat. Fails with `ELOOP`
    /// for a symlink and with `EINVAL` for any other kind. Does not wait at a named pipe.
    pub fn open_file_read(&self, name: &[u8]) -> Result<(File, FileStat), PathError> {
        let flags =
            OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK;
        let open = || {
            component(name)?;
            let fd = rustix::fs::openat(&self.fd, name, flags, Mode::empty())?;
            let stat = FileStat::from_stat(&rustix::fs::fstat(&fd)?);
            match stat.kind {
                FileKind::File => Ok((File::from(fd), stat)),
                _ => Err(Errno::INVAL),
            }
        };
        open().map_err(|e| self.error("open", name, e))
    }

    /// Returns the target of the symlink `name`, as bytes.
    pub fn readlink(&self, name: &[u8]) -> Result<Vec<u8>, PathError> {
        component(name)
            .and_then(|()| rustix::fs::readlinkat(&self.fd, name, Vec::new()))
            .map(std::ffi::CString::into_bytes)
            .map_err(|e| self.error("read link", name, e))
    }

    /// Creates the directory `name`, which must not exist. If `private`, only its owner can use it.
    pub fn create_dir(&self, name: &[u8], private: bool) -> Result<(), PathError> {
        let mode = Mode::from_raw_mode(if private { 0o700 } else { 0o777 });
        component(name)
            .and_then(|()| rustix::fs::mkdirat(&self.fd, name, mode))
            .map_err(|e| self.error("create directory", name, e))
    }

    /// Creates the new file `name` for writing; executable, within the umask, if `exec` is set.
    /// Fails if the name exists.
    pub fn create_new(&self, name: &[u8], exec: bool) -> Result<File, PathError> {
        self.create_errno(name, exec)
            .map_err(|e| self.error("create", name, e))
    }

    fn create_errno(&self, name: &[u8], exec: bool) -> Result<File, Errno> {
        component(name)?;
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode(if exec { 0o777 } else { 0o666 });
        rustix::fs::openat(&self.fd, name, flags, mode).map(File::from)
    }

    /// Creates a file with an unpredictable temporary name, for writing. Returns the file and its
    /// name.
    pub fn create_temp(&self, exec: bool) -> Result<(File, Vec<u8>), PathError> {
        self.with_temp_name("create", |name| self.create_errno(name, exec))
    }

    /// Returns whether new files here are private by default, because of the umask or an ACL.
    pub fn makes_private(&self) -> bool {
        let Ok((file, name)) = self.create_temp(false) else {
            return false;
        };
        // If this fails, a later command removes the file.
        let _ = self.unlink(&name);
        stat_file(&file).is_ok_and(|stat| stat.is_private())
    }

    /// Creates a symlink to `target` with an unpredictable temporary name, and returns the name.
    pub fn symlink_temp(&self, target: &[u8]) -> Result<Vec<u8>, PathError> {
        self.with_temp_name("create symlink", |name| {
            rustix::fs::symlinkat(target, &self.fd, name)
        })
        .map(|((), name)| name)
    }

    fn with_temp_name<T>(
        &self,
        op: &'static str,
        create: impl Fn(&[u8]) -> Result<T, Errno>,
    ) -> Result<(T, Vec<u8>), PathError> {
        let mut tries = 0;
        loop {
            let name = temp_name();
            match create(&name) {
                Ok(made) => return Ok((made, name)),
                Err(Errno::EXIST) if tries < RETRIES => tries += 1,
                Err(e) => return Err(self.error(op, &name, e)),
            }
        }
    }

    /// Renames the entry `from` to `to`, and replaces an entry that has this name.
    pub fn rename(&self, from: &[u8], to: &[u8]) -> Result<(), PathError> {
        component(from)
            .and_then(|()| component(to))
            .and_then(|()| rustix::fs::renameat(&self.fd, from, &self.fd, to))
            .map_err(|e| self.error("rename to", to, e))
    }

    /// Renames the entry `from` to `to`. Fails with `EEXIST` if that name is in use.
    ///
    /// On a file system that cannot do this in one step, files are linked and unlinked; directories
    /// cannot be renamed there.
    pub fn rename_noreplace(&self, from: &[u8], to: &[u8]) -> Result<(), PathError> {
        let rename = || {
            component(from)?;
            component(to)?;
            match rustix::fs::renameat_with(&self.fd, from, &self.fd, to, RenameFlags::NOREPLACE) {
                Err(Errno::NOSYS | Errno::INVAL) => {
                    rustix::fs::linkat(&self.fd, from, &self.fd, to, AtFlags::empty())?;
                    rustix::fs::unlinkat(&self.fd, from, AtFlags::empty())
                }
                other => other,
            }
        };
        rename().map_err(|e| self.error("rename to", to, e))
    }

    /// Removes the entry `name`, which is not a directory.
    pub fn unlink(&self, name: &[u8]) -> Result<(), PathError> {
        component(name)
            .and_then(|()| rustix::fs::unlinkat(&self.fd, name, AtFlags::empty()))
            .map_err(|e| self.error("remove", name, e))
    }

    /// Removes the empty directory `name`.
    pub fn remove_dir(&self, name: &[u8]) -> Result<(), PathError> {
        component(name)
            .and_then(|()| rustix::fs::unlinkat(&self.fd, name, AtFlags::REMOVEDIR))
            .map_err(|e| self.error("remove directory", name, e))
    }

    /// Creates the symlink `name`, which must not exist, to `target`.
    pub fn symlink(&self, target: &[u8], name: &[u8]) -> Result<(), PathError> {
        component(name)
            .and_then(|()| rustix::fs::symlinkat(target, &self.fd, name))
            .map_err(|e| self.error("create symlink", name, e))
    }

    pub(crate) fn error(
        &self,
        op: &'static str,
        name: &[u8],
        e: impl Into<io::Error>,
    ) -> PathError {
        PathError::new(op, self.path_of(name), e)
    }
}

impl AsFd for SafeDir {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Makes an open file executable for every user who may read it, or for none.
pub fn set_exec(file: &File, exec: bool) -> io::Result<()> {
    let mode = rustix::fs::fstat(file)?.st_mode & 0o777;
    let mode = if exec {
        mode | (mode & 0o444) >> 2
    } else {
        mode & !0o111
    };
    Ok(rustix::fs::fchmod(file, Mode::from_raw_mode(mode))?)
}

/// Enlarges a pipe's buffer to a good part of a frame, so that its two ends wake each other less
/// often. Does nothing if `pipe` is no pipe or may not be larger.
pub fn widen_pipe(pipe: impl AsFd) {
    const ROOM_BYTES: usize = 1 << 20;
    let _ = rustix::pipe::fcntl_setpipe_size(pipe, ROOM_BYTES);
}

/// Returns the stat of an open file.
pub fn stat_file(file: &File) -> io::Result<FileStat> {
    Ok(FileStat::from_stat(&rustix::fs::fstat(file)?))
}

/// Makes everything durable that was written so far to the file system of `dir`.
pub fn sync_filesystem(dir: &SafeDir) -> Result<(), PathError> {
    rustix::fs::syncfs(dir).map_err(|e| PathError::new("sync", dir.path.clone(), e))
}

/// Returns whether `name` is that of a temporary file. A killed command may have left such a file.
pub fn is_temp_name(name: &[u8]) -> bool {
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
fn component(name: &[u8]) -> Result<(), Errno> {
    match name {
        b"" | b"." | b".." => Err(Errno::INVAL),
        _ if name.contains(&b'/') => Err(Errno::INVAL),
        _ => Ok(()),
    }
}

/// Returns `name` as the standard library's type.
pub fn os_str(name: &[u8]) -> &OsStr {
    OsStr::from_bytes(name)
}

#[cfg(test)]
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
        let (_temp, dir) = root();
        rustix::fs::mkfifoat(&dir, "p", Mode::from_raw_mode(0o600)).expect("a pipe");
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
    fn set_exec_follows_the_read_bits() -> Result<(), Box<dyn std::error::Error>> {
        let (temp, dir) = root();
        let path = temp.path().join("f");
        std::fs::write(&path, "")?;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640))?;
        let mode = || std::fs::metadata(&path).map(|m| m.permissions().mode() & 0o7777);
        let (file, _) = dir.open_file_read(b"f")?;
        set_exec(&file, true)?;
        assert_eq!(mode()?, 0o750);
        set_exec(&file, false)?;
        assert_eq!(mode()?, 0o640);
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
