//! The system's files, with a record of every read, optionally with a place that cannot be read or
//! with something that happens at a read.

use dmv_core::vfs::{OpenMode, OsVfs, Vfs, VfsFile};
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// One read: the file, and the range of its bytes.
pub type OneRead = (PathBuf, Range<u64>);

/// The system's error number for a medium that fails.
const EIO: i32 = 5;

/// What happens once, just before a read.
type Event = Box<dyn FnOnce() + Send>;

/// A file layer that records reads.
#[derive(Clone, Default)]
pub struct CountVfs {
    reads: Arc<Mutex<Vec<OneRead>>>,
    unreadable: Option<OneRead>,
    event: Arc<Mutex<Option<Event>>>,
}

impl CountVfs {
    /// Makes a layer whose medium fails at `place`.
    pub fn unreadable_at(place: OneRead) -> CountVfs {
        CountVfs {
            unreadable: Some(place),
            ..CountVfs::default()
        }
    }

    /// Runs `event` just before the next read.
    pub fn before_next_read(&self, event: impl FnOnce() + Send + 'static) {
        let mut waiting = self.event.lock().unwrap_or_else(PoisonError::into_inner);
        *waiting = Some(Box::new(event));
    }

    /// Returns the number of bytes that were read since the last call.
    pub fn take(&self) -> u64 {
        let reads = self.take_reads();
        reads.iter().map(|(_, range)| range.end - range.start).sum()
    }

    /// Returns the reads since the last call.
    pub fn take_reads(&self) -> Vec<OneRead> {
        std::mem::take(&mut self.reads.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Vfs for CountVfs {
    fn open(&self, path: &Path, how: OpenMode) -> io::Result<Arc<dyn VfsFile>> {
        Ok(Arc::new(CountFile {
            file: OsVfs.open(path, how)?,
            path: path.to_owned(),
            reads: self.reads.clone(),
            event: self.event.clone(),
            unreadable: match &self.unreadable {
                Some((bad, range)) if bad == path => Some(range.clone()),
                _ => None,
            },
        }))
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
    path: PathBuf,
    reads: Arc<Mutex<Vec<OneRead>>>,
    event: Arc<Mutex<Option<Event>>>,
    unreadable: Option<Range<u64>>,
}

impl VfsFile for CountFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let event = self
            .event
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(event) = event {
            event();
        }
        let n = self.file.read_at(buf, offset)?;
        let range = offset..offset + n as u64;
        if let Some(bad) = &self.unreadable
            && range.start < bad.end
            && bad.start < range.end
        {
            return Err(io::Error::from_raw_os_error(EIO));
        }
        let mut reads = self.reads.lock().unwrap_or_else(PoisonError::into_inner);
        reads.push((self.path.clone(), range));
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
