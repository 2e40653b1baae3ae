//! The system's files, with something that happens just before one of the operations on them.

use dmv_core::vfs::{OpenMode, OsVfs, Vfs, VfsFile};
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// What happens once.
type Event = Box<dyn FnOnce() + Send>;

/// A file layer that counts operations.
#[derive(Clone, Default)]
pub struct HookVfs {
    count: Arc<AtomicUsize>,
    event: Arc<Mutex<Option<(usize, Event)>>>,
}

impl HookVfs {
    /// Counts from now on, and runs `event` just before the operation number `at`. The first one has
    /// the number 0.
    pub fn before(&self, at: usize, event: impl FnOnce() + Send + 'static) {
        let mut waiting = self.event.lock().unwrap_or_else(PoisonError::into_inner);
        self.count.store(0, Ordering::SeqCst);
        *waiting = Some((at, Box::new(event)));
    }

    /// Returns how many operations there were.
    pub fn count(&self) -> usize {
        self.count.load(Ordering::SeqCst)
    }

    fn step(&self) {
        let number = self.count.fetch_add(1, Ordering::SeqCst);
        let mut waiting = self.event.lock().unwrap_or_else(PoisonError::into_inner);
        let event = waiting.take_if(|(at, _)| *at == number);
        drop(waiting);
        if let Some((_, event)) = event {
            event();
        }
    }
}

impl Vfs for HookVfs {
    fn open(&self, path: &Path, how: OpenMode) -> io::Result<Arc<dyn VfsFile>> {
        self.step();
        let file = OsVfs.open(path, how)?;
        let vfs = self.clone();
        Ok(Arc::new(HookFile { file, vfs }))
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.step();
        OsVfs.list(dir)
    }

    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        self.step();
        OsVfs.create_dir_all(dir)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.step();
        OsVfs.sync_dir(dir)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.step();
        OsVfs.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.step();
        OsVfs.remove(path)
    }
}

struct HookFile {
    file: Arc<dyn VfsFile>,
    vfs: HookVfs,
}

impl VfsFile for HookFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.vfs.step();
        self.file.read_at(buf, offset)
    }

    fn write_at(&self, data: &[u8], offset: u64) -> io::Result<()> {
        self.vfs.step();
        self.file.write_at(data, offset)
    }

    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn sync(&self) -> io::Result<()> {
        self.vfs.step();
        self.file.sync()
    }

    fn start_writeback(&self, offset: u64, len: u64) {
        self.file.start_writeback(offset, len);
    }

    fn try_lock(&self) -> io::Result<bool> {
        self.vfs.step();
        self.file.try_lock()
    }
}
