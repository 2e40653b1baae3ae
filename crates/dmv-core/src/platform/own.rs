//! DMV's own files: all below a repository's directory, and those of caches.
//!
//! Another user may have made them, or a copy or an archive may have replaced them. So every one of
//! them is opened by [`open_own`], and none in another way (`tests/tests/tidy.rs` checks that).

use super::{FileKind, stat_at_unfollowed, stat_of, system};
use std::fs::{File, OpenOptions};
use std::io;
use std::path::Path;

/// How often a file that appears and disappears is opened again.
const TRIES: usize = 32;

/// How many bytes are copied at a time.
const COPY_BYTES: usize = 256 << 10;

/// How a file of DMV's own is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnAccess {
    /// An existing file, for reading.
    Read,
    /// An existing file, for reading and writing.
    Write,
    /// A file that must not exist, for reading and writing.
    CreateNew,
    /// A file that may exist, for reading and writing.
    Create,
}

/// The error for an entry that is no regular file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it is {found}, not a {wanted}")]
pub struct OddKind {
    found: &'static str,
    wanted: &'static str,
}

impl OddKind {
    /// Returns the error for an entry of this kind where a regular file should be; `None` for one.
    pub(crate) fn of_file(kind: FileKind) -> Option<OddKind> {
        let wanted = "regular file";
        (kind != FileKind::File).then(|| OddKind {
            found: kind.words(),
            wanted,
        })
    }

    /// The same where a directory should be.
    pub(crate) fn of_dir(kind: FileKind) -> Option<OddKind> {
        let wanted = "directory";
        (kind != FileKind::Dir).then(|| OddKind {
            found: kind.words(),
            wanted,
        })
    }

    /// Returns what an error says about the kind of an entry, if it is about that.
    pub fn in_error(e: &io::Error) -> Option<OddKind> {
        e.get_ref()?.downcast_ref::<OddKind>().copied()
    }
}

impl From<OddKind> for io::Error {
    fn from(e: OddKind) -> io::Error {
        io::Error::new(io::ErrorKind::InvalidInput, e)
    }
}

impl FileKind {
    /// Returns the words for an entry of this kind.
    fn words(self) -> &'static str {
        match self {
            FileKind::File => "a regular file",
            FileKind::Symlink => "a symbolic link, which dmv does not follow inside a repository",
            FileKind::Dir => "a directory",
            FileKind::Fifo => "a named pipe",
            FileKind::Socket => "a socket",
            FileKind::Device => "a device",
            FileKind::Unknown => "something unknown",
        }
    }
}

/// Opens a file of DMV's own. Fails with [`OddKind`] if it is not a regular file.
///
/// Follows no symlink at the end of the path, and waits for no other process. A file that it creates
/// gets the permissions that its directory demands ([`share_new`]).
pub fn open_own(path: &Path, access: OwnAccess) -> io::Result<File> {
    if access != OwnAccess::Create {
        return open_once(path, access);
    }
    for _ in 0..TRIES {
        match open_once(path, OwnAccess::Write) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            done => return done,
        }
        match open_once(path, OwnAccess::CreateNew) {
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
            done => return done,
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

fn open_once(path: &Path, access: OwnAccess) -> io::Result<File> {
    let mut how = OpenOptions::new();
    how.read(true).write(access != OwnAccess::Read);
    if access == OwnAccess::CreateNew {
        how.create_new(true);
        system::readable_by_all(&mut how);
    } else {
        // Opening a device could already have an effect.
        refuse_odd(stat_at_unfollowed(path)?.kind)?;
    }
    let file = system::open_unfollowed(&mut how, path)?;
    refuse_odd(stat_of(&file)?.kind)?;
    if access == OwnAccess::CreateNew {
        share_new(&file, path);
    }
    Ok(file)
}

fn refuse_odd(kind: FileKind) -> io::Result<()> {
    OddKind::of_file(kind).map_or(Ok(()), |odd| Err(odd.into()))
}

/// Opens for reading a file that the user has made or named, such as settings. Follows symlinks, and
/// waits for no other process. Fails with [`OddKind`] if it is not a regular file.
pub fn open_named(path: &Path) -> io::Result<File> {
    refuse_odd(super::stat_at(path)?.kind)?;
    let file = system::open_without_waiting(OpenOptions::new().read(true), path)?;
    refuse_odd(stat_of(&file)?.kind)?;
    Ok(file)
}

/// Copies a file of DMV's own to `to`, which must not exist, with its permissions. What was never written
/// in it is not written in the copy either, so a file costs what it has and not what it claims.
pub(crate) fn copy_own(from: &Path, to: &Path) -> io::Result<File> {
    let source = open_own(from, OwnAccess::Read)?;
    let copy = open_own(to, OwnAccess::CreateNew)?;
    let stat = stat_of(&source)?;
    let mut part = vec![0; COPY_BYTES];
    let mut at = 0;
    while let Some((start, end)) = system::next_data(&source, at, stat.size) {
        at = start;
        while at < end {
            let wanted = part.len().min((end - at) as usize);
            match super::read_at(&source, &mut part[..wanted], at)? {
                0 => break,
                n => super::write_all_at(&copy, &part[..n], at)?,
            }
            at = end.min(at + wanted as u64);
        }
        at = end;
    }
    copy.set_len(stat.size)?;
    system::set_permissions(&copy, stat.mode | stat_of(&copy)?.mode)?;
    Ok(copy)
}

/// Gives a new file of DMV's own the permissions that its directory demands. If that fails, other
/// users of a shared repository cannot use the file, and their commands say so.
pub fn share_new(file: &File, path: &Path) {
    if let Some(dir) = path.parent().and_then(|dir| super::stat_at(dir).ok()) {
        let _ = share_like(file, dir.mode);
    }
}

/// Lets the other users of a shared directory with the mode `dir` use a file in it as they may use the
/// directory, whatever the umask is. A directory is shared if others than its owner may write to it.
pub(crate) fn share_like(file: &File, dir: u32) -> io::Result<()> {
    let own = stat_of(file)?.mode;
    match own | shared_bits(dir) {
        all if all == own => Ok(()),
        all => system::set_permissions(file, all),
    }
}

/// Returns the permissions of others that a directory of this mode demands for a file in it.
fn shared_bits(dir: u32) -> u32 {
    const OTHERS_WRITE: u32 = 0o022;
    const OTHERS_READ_OR_WRITE: u32 = 0o066;
    if dir & OTHERS_WRITE == 0 {
        0
    } else {
        dir & OTHERS_READ_OR_WRITE
    }
}

/// Creates a directory and its missing parents inside of a repository. A new one gets the permissions
/// that the directory above it demands, if that is shared.
pub fn create_own_dirs(dir: &Path) -> io::Result<()> {
    match std::fs::create_dir(dir) {
        Ok(()) => {}
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            create_own_dirs(dir.parent().ok_or(e)?)?;
            return create_own_dirs(dir);
        }
        // A symlink to a directory may lead out of the repository.
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
            let odd = OddKind::of_dir(stat_at_unfollowed(dir)?.kind);
            return odd.map_or(Ok(()), |odd| Err(odd.into()));
        }
        Err(e) => return Err(e),
    }
    if let Some(above) = dir.parent() {
        let (own, above) = (super::stat_at(dir)?.mode, super::stat_at(above)?.mode);
        if shared_bits(above) != 0 {
            // Without the bits that only a file system gives, such as that of the group.
            let all = own | above & 0o077;
            system::set_directory_permissions(dir, all)?;
        }
    }
    Ok(())
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn set_mode(path: &Path, mode: u32) -> io::Result<()> {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))
    }

    fn mode(path: &Path) -> io::Result<u32> {
        Ok(stat_at_unfollowed(path)?.mode)
    }

    #[test]
    fn only_a_regular_file_is_opened_and_nothing_is_made_elsewhere() -> io::Result<()> {
        let temp = tempfile::tempdir()?;
        let at = |name: &str| temp.path().join(name);
        std::fs::create_dir(at("dir"))?;
        std::os::unix::fs::symlink(at("outside"), at("nowhere"))?;
        std::fs::write(at("file"), "x")?;
        std::os::unix::fs::symlink(at("file"), at("link"))?;
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        rustix::fs::mkfifoat(rustix::fs::CWD, at("pipe"), mode)?;
        let _socket = std::os::unix::net::UnixListener::bind(at("socket"))?;
        let all = [OwnAccess::Read, OwnAccess::Write, OwnAccess::Create];
        for name in ["dir", "nowhere", "link", "pipe", "socket"] {
            for access in all {
                let e = open_own(&at(name), access).expect_err(name);
                assert!(OddKind::in_error(&e).is_some(), "{name}: {e}");
            }
            assert!(open_own(&at(name), OwnAccess::CreateNew).is_err());
        }
        assert!(open_own(Path::new("/dev/null"), OwnAccess::Read).is_err());
        assert!(!at("outside").exists());
        for access in all {
            open_own(&at("file"), access)?;
        }
        open_named(&at("link"))?;
        for name in ["dir", "pipe", "socket"] {
            let e = open_named(&at(name)).expect_err(name);
            assert!(OddKind::in_error(&e).is_some(), "{name}: {e}");
        }
        let absent = open_own(&at("absent"), OwnAccess::Write).expect_err("it is absent");
        assert_eq!(absent.kind(), io::ErrorKind::NotFound);
        open_own(&at("absent"), OwnAccess::Create)?;
        Ok(())
    }

    #[test]
    fn what_is_made_in_a_shared_directory_is_shared_in_the_same_way() -> io::Result<()> {
        for (dir, file, inner) in [
            (0o700, 0o600, 0o700),
            (0o755, 0o600, 0o700),
            (0o770, 0o660, 0o770),
            (0o775, 0o664, 0o775),
            (0o777, 0o666, 0o777),
        ] {
            let temp = tempfile::tempdir()?;
            set_mode(temp.path(), dir)?;
            let path = temp.path().join("f");
            // As under a umask that leaves others nothing.
            let made = File::create(&path)?;
            system::set_permissions(&made, 0o600)?;
            share_like(&made, dir)?;
            assert_eq!(mode(&path)?, file, "{dir:o}");
            let deep = temp.path().join("a/b");
            create_own_dirs(&deep)?;
            create_own_dirs(&deep)?;
            for part in [temp.path().join("a"), deep] {
                assert_eq!(mode(&part)? & inner, inner, "{dir:o}");
            }
        }
        Ok(())
    }

    #[test]
    fn a_copy_costs_what_the_file_has() -> io::Result<()> {
        let temp = tempfile::tempdir()?;
        let (from, to) = (temp.path().join("from"), temp.path().join("to"));
        let file = open_own(&from, OwnAccess::CreateNew)?;
        let parts: [(u64, &[u8]); 3] = [(0, b"begin"), (5 << 20, b"middle"), (1 << 40, b"end")];
        for (at, bytes) in parts {
            super::super::write_all_at(&file, bytes, at)?;
        }
        file.set_len(2 << 40)?;
        drop(copy_own(&from, &to)?);
        let copy = open_own(&to, OwnAccess::Read)?;
        assert_eq!(stat_of(&copy)?.size, 2 << 40);
        for (at, bytes) in parts {
            let mut read = vec![1; bytes.len() + 1];
            super::super::read_exact_at(&copy, &mut read, at)?;
            assert_eq!(read, [bytes, b"\0"].concat());
        }
        assert!(copy_own(&from, &to).is_err(), "it replaces nothing");
        Ok(())
    }

    #[test]
    fn no_directory_is_made_through_a_link() -> io::Result<()> {
        let temp = tempfile::tempdir()?;
        let link = temp.path().join("link");
        std::fs::create_dir(temp.path().join("real"))?;
        std::os::unix::fs::symlink(temp.path().join("real"), &link)?;
        assert!(create_own_dirs(&link).is_err());
        Ok(())
    }
}
