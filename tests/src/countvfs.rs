//! The system's files, with a count of the bytes that are read from packs.

use dmv_core::vfs::{Open, OsVfs, Vfs, VfsFile};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A file layer that counts what is read.
#[derive(Clone, Default)]
pub struct CountVfs {
    read: Arc<AtomicU64>,
}

impl CountVfs {
    /// Bytes read since the last call.
    pub fn take(&self) -> u64 {
        self.read.swap(0, Ordering::Relaxed)
    }
}

impl Vfs for CountVfs {
    fn open(&self, path: &Path, how: Open) -> io::Result<Arc<dyn VfsFile>> {
        let (file, read) = (OsVfs.open(path, how)?, self.read.clone());
        Ok(Arc::new(CountFile { file, read }))
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        OsVfs.list(dir)
    }

    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        OsVfs.create_dir_all(dir)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        OsVfs.sync_dir(dir)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        OsVfs.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        OsVfs.remove(path)
    }
}

struct CountFile {
    file: Arc<dyn VfsFile>,
    read: Arc<AtomicU64>,
}

impl VfsFile for CountFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let n = self.file.read_at(buf, offset)?;
        self.read.fetch_add(n as u64, Ordering::Relaxed);
        Ok(n)
    }

    fn write_at(&self, data: &[u8], offset: u64) -> io::Result<()> {
        self.file.write_at(data, offset)
    }

    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync()
    }

    fn start_writeback(&self, offset: u64, len: u64) {
        self.file.start_writeback(offset, len);
    }

    fn try_lock(&self) -> io::Result<bool> {
        self.file.try_lock()
    }
}
