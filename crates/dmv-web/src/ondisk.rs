//! Files of the worktree as they are now. Addresses have `:` for their revision, which no commit has for
//! a name. They are reached through directory handles, never through a symlink.

use crate::address::encoded;
use crate::program::Stop;
use dmv_core::object::name::RepoPath;
use dmv_core::repo::Repo;
use dmv_preview::ReadAt;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::sync::{Mutex, PoisonError};

/// The revision of files of the worktree in addresses.
pub const REVISION: &str = ":";

/// A file of the worktree, open.
pub struct OnDisk {
    /// Its path.
    pub path: RepoPath,
    /// Its bytes when it was opened.
    pub size: u64,
    file: Mutex<File>,
}

impl OnDisk {
    /// Opens the file at `path`.
    pub fn open(repo: &Repo, path: &[u8]) -> Result<OnDisk, Stop> {
        let path = Repo::parse_path(path)?;
        let size = size_of(repo, &path).ok_or_else(|| Stop::NoFile(path.clone()))?;
        let file = repo.open_worktree_file(&path)?;
        Ok(OnDisk {
            path,
            size,
            file: Mutex::new(file),
        })
    }

    /// The bytes of a range of the file.
    pub fn range(&self, range: std::ops::Range<u64>) -> io::Result<Vec<u8>> {
        let mut out = vec![0; usize::try_from(range.end - range.start).unwrap_or(usize::MAX)];
        self.read_at(range.start, &mut out)?;
        Ok(out)
    }

    /// Reads the file from its start, as far as it reached when it was opened.
    pub fn reader(&self) -> impl Read + '_ {
        Reader { file: self, at: 0 }
    }
}

struct Reader<'a> {
    file: &'a OnDisk,
    at: u64,
}

impl Read for Reader<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let left = self.file.size - self.at;
        let n = left.min(buf.len() as u64);
        self.file.read_at(self.at, &mut buf[..n as usize])?;
        self.at += n;
        Ok(n as usize)
    }
}

impl ReadAt for OnDisk {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        file.seek(SeekFrom::Start(offset))?;
        file.read_exact(buf)
    }
}

/// The bytes of the regular file at `path`; `None` if there is none.
pub fn size_of(repo: &Repo, path: &RepoPath) -> Option<u64> {
    if path.is_root() || repo.worktree_root().is_none() {
        return None;
    }
    let stat = repo.stat_worktree(path).ok()?;
    (stat.kind == dmv_core::fsutil::FileKind::File).then_some(stat.size)
}

/// The address of a comparison of a file of the commit `revision` with the one in the worktree.
pub fn compare_link<P: AsRef<[u8]> + ?Sized>(revision: &str, path: &P) -> String {
    let path = path.as_ref();
    let place = |revision: &[u8]| encoded(&[revision, b":", path].concat());
    format!("/compare?a={}&b={}", place(revision.as_bytes()), place(b""))
}
