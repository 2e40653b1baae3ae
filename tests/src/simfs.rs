//! A file layer in memory that forgets data that was not synced.
//!
//! [`SimVfs`] keeps two states of every file and directory: the state that programs see, and the
//! durable state. [`SimVfs::crash`] makes a new layer from the durable state and a random part of
//! the difference:
//!
//! - Each unsynced write survives intact, torn or not at all, in any combination.
//! - A file's length may be ahead of its bytes or behind them.
//! - Names that were created, changed or removed since the directory's last sync may exist or not.
//! - Locks are gone.
//!
//! Simplifications: a new directory is durable at once, and a sync of a file does not make its name
//! durable (POSIX promises no more).

use crate::rng::Rng;
use dmv_core::vfs::{OpenMode, Vfs, VfsFile};
use std::collections::{BTreeMap, HashMap};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

/// The size of a sector in bytes. Media write a sector completely or not at all.
const SECTOR: usize = 512;

/// A kind of operation that a fault can hit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Creating a file.
    Create,
    /// Opening a file for reading. It changes nothing, so no crash comes at one.
    Open,
    /// Writing to a file. A write that fails has written a part.
    Write,
    /// Syncing a file. After a failure, the unsynced data never becomes durable, even if later
    /// syncs succeed: Linux marks the pages clean.
    Sync,
    /// Syncing a directory.
    SyncDir,
    /// Renaming a file.
    Rename,
    /// Removing a file.
    Remove,
}

/// An error that will happen.
#[derive(Clone, Copy, Debug)]
pub struct Fault {
    /// The kind of operation that fails.
    pub op: Op,
    /// How many of these operations still succeed before.
    pub after: u64,
    /// Whether all later ones fail, too.
    pub forever: bool,
    /// The system's error number.
    pub errno: i32,
}

/// How much of the unsynced data survives a crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Survival {
    /// Nothing.
    Nothing,
    /// Everything, but it is no more durable than before: the process was killed, and the machine
    /// still runs.
    Everything,
    /// A random part.
    Some,
}

/// Decides whether a sync does nothing, from the path of the file or directory and the content of
/// the file.
pub type Lie = Arc<dyn Fn(&Path, &[u8]) -> bool + Send + Sync>;

#[derive(Clone)]
struct Write {
    at: usize,
    data: Vec<u8>,
}

#[derive(Clone, Default)]
struct Content {
    seen: Vec<u8>,
    durable: Vec<u8>,
    pending: Vec<Write>,
}

#[derive(Clone)]
enum NameOp {
    Create(PathBuf, usize),
    Rename(PathBuf, PathBuf, usize),
    Remove(PathBuf),
}

impl NameOp {
    fn dir(&self) -> Option<&Path> {
        match self {
            NameOp::Create(path, _) | NameOp::Remove(path) | NameOp::Rename(_, path, _) => {
                path.parent()
            }
        }
    }

    fn apply(&self, names: &mut BTreeMap<PathBuf, usize>) {
        match self {
            NameOp::Create(path, file) => {
                names.insert(path.clone(), *file);
            }
            NameOp::Rename(from, to, file) => {
                names.remove(from);
                names.insert(to.clone(), *file);
            }
            NameOp::Remove(path) => {
                names.remove(path);
            }
        }
    }
}

#[derive(Default)]
struct Disk {
    files: Vec<Content>,
    names: BTreeMap<PathBuf, usize>,
    durable_names: BTreeMap<PathBuf, usize>,
    pending_names: Vec<NameOp>,
    /// The handle that has the lock of each file.
    locks: HashMap<usize, u64>,
    handles: u64,
    operations: u64,
    crash_at: Option<u64>,
    crashed: bool,
    faults: Vec<Fault>,
    lie: Option<Lie>,
}

impl Disk {
    /// Counts an operation. Returns the error that the caller must return after it has applied the
    /// effect, if there is one.
    fn step(&mut self, op: Op) -> io::Result<Option<io::Error>> {
        if self.crashed {
            return Err(crashed());
        }
        self.operations += 1;
        if self.crash_at.is_some_and(|at| self.operations >= at) {
            self.crashed = true;
            return Ok(Some(crashed()));
        }
        Ok(self.failure(op))
    }

    /// Returns the error of an operation that is to fail.
    fn failure(&mut self, op: Op) -> Option<io::Error> {
        let mut failed = None;
        for fault in self.faults.iter_mut().filter(|f| f.op == op) {
            if fault.after == 0 {
                failed = Some(io::Error::from_raw_os_error(fault.errno));
            }
            // A fault that has hit once is spent: its countdown wraps to the greatest number.
            if fault.after > 0 || !fault.forever {
                fault.after = fault.after.wrapping_sub(1);
            }
        }
        failed
    }

    fn alive(&self) -> io::Result<()> {
        if self.crashed { Err(crashed()) } else { Ok(()) }
    }

    fn lies(&self, path: &Path, content: &[u8]) -> bool {
        self.lie.as_ref().is_some_and(|lie| lie(path, content))
    }
}

fn crashed() -> io::Error {
    io::Error::other("the machine has crashed")
}

/// Files in memory, below one directory.
#[derive(Clone)]
pub struct SimVfs {
    disk: Arc<Mutex<Disk>>,
    root: PathBuf,
}

impl SimVfs {
    /// Makes an empty layer below `root`.
    pub fn new(root: &Path) -> SimVfs {
        SimVfs {
            disk: Arc::default(),
            root: root.to_owned(),
        }
    }

    /// Reads the real files of a directory into the layer, as durable files.
    pub fn import(&self, dir: &Path) -> io::Result<()> {
        for entry in std::fs::read_dir(dir)? {
            let path = entry?.path();
            let bytes = std::fs::read(&path)?;
            let mut disk = self.disk();
            let file = disk.files.len();
            disk.files.push(Content {
                seen: bytes.clone(),
                durable: bytes,
                pending: Vec::new(),
            });
            let name = self.relative(&path);
            disk.names.insert(name.clone(), file);
            disk.durable_names.insert(name, file);
        }
        Ok(())
    }

    fn disk(&self) -> MutexGuard<'_, Disk> {
        self.disk
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn relative(&self, path: &Path) -> PathBuf {
        path.strip_prefix(&self.root).unwrap_or(path).to_owned()
    }

    /// Returns how many operations have changed something so far.
    pub fn operations(&self) -> u64 {
        self.disk().operations
    }

    /// Sets the layer to crash in the middle of operation number `at`, counted from 1.
    pub fn crash_at(&self, at: u64) {
        self.disk().crash_at = Some(at);
    }

    /// Counts as an operation and does nothing: a crash point between two steps of the caller.
    pub fn checkpoint(&self) -> io::Result<()> {
        match self.disk().step(Op::Rename)? {
            Some(e) => Err(e),
            None => Ok(()),
        }
    }

    /// Returns whether the layer has crashed.
    pub fn has_crashed(&self) -> bool {
        self.disk().crashed
    }

    /// Adds a fault.
    pub fn fail(&self, fault: Fault) {
        self.disk().faults.push(fault);
    }

    /// Removes all faults, permanent ones included.
    pub fn clear_faults(&self) {
        self.disk().faults.clear();
    }

    /// Sets which syncs do nothing and report success.
    pub fn lie(&self, lie: Option<Lie>) {
        self.disk().lie = lie;
    }

    /// Returns every file's content as programs see it.
    pub fn seen(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let disk = self.disk();
        let seen =
            |(path, file): (&PathBuf, &usize)| (path.clone(), disk.files[*file].seen.clone());
        disk.names.iter().map(seen).collect()
    }

    /// Returns the layer that the next start finds, below `root`. The old layer fails from now on.
    pub fn crash(&self, root: &Path, survival: Survival, rng: &mut Rng) -> SimVfs {
        let mut disk = self.disk();
        disk.crashed = true;
        if survival == Survival::Everything {
            let after = Disk {
                files: disk.files.clone(),
                names: disk.names.clone(),
                durable_names: disk.durable_names.clone(),
                pending_names: disk.pending_names.clone(),
                ..Disk::default()
            };
            return SimVfs {
                disk: Arc::new(Mutex::new(after)),
                root: root.to_owned(),
            };
        }
        let mut names = disk.durable_names.clone();
        for op in &disk.pending_names {
            if survival == Survival::Some && rng.one_in(2) {
                op.apply(&mut names);
            }
        }
        let mut after = Disk::default();
        for (path, file) in names {
            let bytes = surviving(&disk.files[file], survival, rng);
            let number = after.files.len();
            after.files.push(Content {
                seen: bytes.clone(),
                durable: bytes,
                pending: Vec::new(),
            });
            after.names.insert(path.clone(), number);
            after.durable_names.insert(path, number);
        }
        SimVfs {
            disk: Arc::new(Mutex::new(after)),
            root: root.to_owned(),
        }
    }
}

/// Returns what a crash leaves of a file.
fn surviving(file: &Content, survival: Survival, rng: &mut Rng) -> Vec<u8> {
    let mut out = file.durable.clone();
    if survival == Survival::Nothing {
        return out;
    }
    if rng.one_in(3) {
        // The writes survive in order and are cut somewhere, as on file systems that allocate late.
        let writes = file.pending.iter();
        writes.for_each(|write| put(&mut out, write.at, &write.data));
        let extra = out.len() - file.durable.len();
        out.truncate(file.durable.len() + rng.below(extra as u64 + 1) as usize);
        return out;
    }
    if rng.one_in(3) && !file.pending.is_empty() {
        // All writes but one survive. Data that was written later must not vouch for the lost one.
        let lost = rng.below(file.pending.len() as u64) as usize;
        out.resize(file.seen.len(), 0);
        let kept = file.pending.iter().enumerate().filter(|w| w.0 != lost);
        kept.for_each(|(_, write)| put(&mut out, write.at, &write.data));
        return out;
    }
    let mut writes: Vec<&Write> = file.pending.iter().collect();
    rng.shuffle(&mut writes);
    for write in writes {
        let len = write.data.len();
        match rng.below(6) {
            0 | 1 => {}
            2 | 3 => put(&mut out, write.at, &write.data),
            4 => {
                let cut = rng.below(len as u64 + 1) as usize;
                put(&mut out, write.at, &write.data[..cut]);
            }
            _ => {
                let mut from = 0;
                while from < len {
                    let to = len.min((write.at + from) / SECTOR * SECTOR + SECTOR - write.at);
                    if rng.one_in(2) {
                        put(&mut out, write.at + from, &write.data[from..to]);
                    }
                    from = to;
                }
            }
        }
    }
    match rng.below(3) {
        0 if out.len() < file.seen.len() => out.resize(file.seen.len(), 0),
        1 if out.len() > file.durable.len() => {
            let extra = (out.len() - file.durable.len()) as u64;
            out.truncate(file.durable.len() + rng.below(extra + 1) as usize);
        }
        _ => {}
    }
    out
}

fn put(out: &mut Vec<u8>, at: usize, data: &[u8]) {
    if data.is_empty() {
        return;
    }
    if out.len() < at + data.len() {
        out.resize(at + data.len(), 0);
    }
    out[at..at + data.len()].copy_from_slice(data);
}

impl Vfs for SimVfs {
    fn open(&self, path: &Path, how: OpenMode) -> io::Result<Arc<dyn VfsFile>> {
        let path = self.relative(path);
        let mut disk = self.disk();
        disk.alive()?;
        let file = match (how, disk.names.get(&path).copied()) {
            (OpenMode::CreateNew, Some(_)) => return Err(io::ErrorKind::AlreadyExists.into()),
            (OpenMode::CreateNew, None) => {
                let failed = disk.step(Op::Create)?;
                if failed.is_some() && !disk.crashed {
                    return Err(failed.unwrap_or_else(crashed));
                }
                let file = disk.files.len();
                disk.files.push(Content::default());
                disk.names.insert(path.clone(), file);
                disk.pending_names.push(NameOp::Create(path.clone(), file));
                if let Some(e) = failed {
                    return Err(e);
                }
                file
            }
            (OpenMode::Read, Some(file)) => match disk.failure(Op::Open) {
                Some(e) => return Err(e),
                None => file,
            },
            (_, Some(file)) => file,
            (_, None) => return Err(io::ErrorKind::NotFound.into()),
        };
        disk.handles += 1;
        Ok(Arc::new(SimFile {
            vfs: self.clone(),
            path,
            file,
            handle: disk.handles,
            writable: how != OpenMode::Read,
        }))
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let dir = self.relative(dir);
        let disk = self.disk();
        disk.alive()?;
        let here = disk
            .names
            .keys()
            .filter(|p| p.parent() == Some(dir.as_path()));
        let names = here.filter_map(|p| p.file_name()?.to_str());
        Ok(names.map(str::to_owned).collect())
    }

    fn create_dir_all(&self, _dir: &Path) -> io::Result<()> {
        self.disk().alive()
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        let dir = self.relative(dir);
        let mut disk = self.disk();
        if let Some(e) = disk.step(Op::SyncDir)? {
            return Err(e);
        }
        if disk.lies(&dir, &[]) {
            return Ok(());
        }
        let ops = std::mem::take(&mut disk.pending_names);
        for op in ops {
            if op.dir() == Some(dir.as_path()) {
                op.apply(&mut disk.durable_names);
            } else {
                disk.pending_names.push(op);
            }
        }
        Ok(())
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let (from, to) = (self.relative(from), self.relative(to));
        let mut disk = self.disk();
        let failed = disk.step(Op::Rename)?;
        if failed.is_some() && !disk.crashed {
            return Err(failed.unwrap_or_else(crashed));
        }
        let Some(file) = disk.names.remove(&from) else {
            return Err(io::ErrorKind::NotFound.into());
        };
        disk.names.insert(to.clone(), file);
        disk.pending_names.push(NameOp::Rename(from, to, file));
        failed.map_or(Ok(()), Err)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let path = self.relative(path);
        let mut disk = self.disk();
        if !disk.names.contains_key(&path) {
            return Err(io::ErrorKind::NotFound.into());
        }
        let failed = disk.step(Op::Remove)?;
        if failed.is_some() && !disk.crashed {
            return Err(failed.unwrap_or_else(crashed));
        }
        disk.names.remove(&path);
        disk.pending_names.push(NameOp::Remove(path));
        failed.map_or(Ok(()), Err)
    }
}

struct SimFile {
    vfs: SimVfs,
    path: PathBuf,
    file: usize,
    handle: u64,
    writable: bool,
}

impl VfsFile for SimFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let disk = self.vfs.disk();
        disk.alive()?;
        let seen = &disk.files[self.file].seen;
        let from = usize::try_from(offset)
            .unwrap_or(usize::MAX)
            .min(seen.len());
        let n = buf.len().min(seen.len() - from);
        buf[..n].copy_from_slice(&seen[from..from + n]);
        Ok(n)
    }

    fn write_at(&self, data: &[u8], offset: u64) -> io::Result<()> {
        if !self.writable {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        let mut disk = self.vfs.disk();
        let failed = disk.step(Op::Write)?;
        let data = match (&failed, disk.crashed) {
            (Some(_), false) => &data[..data.len() / 2],
            _ => data,
        };
        let at = usize::try_from(offset).map_err(io::Error::other)?;
        let file = &mut disk.files[self.file];
        put(&mut file.seen, at, data);
        let data = data.to_vec();
        file.pending.push(Write { at, data });
        failed.map_or(Ok(()), Err)
    }

    fn len(&self) -> io::Result<u64> {
        let disk = self.vfs.disk();
        disk.alive()?;
        Ok(disk.files[self.file].seen.len() as u64)
    }

    fn sync(&self) -> io::Result<()> {
        let mut disk = self.vfs.disk();
        if let Some(e) = disk.step(Op::Sync)? {
            if !disk.crashed {
                disk.files[self.file].pending.clear();
            }
            return Err(e);
        }
        if disk.lies(&self.path, &disk.files[self.file].seen) {
            return Ok(());
        }
        let file = &mut disk.files[self.file];
        for write in std::mem::take(&mut file.pending) {
            put(&mut file.durable, write.at, &write.data);
        }
        Ok(())
    }

    fn start_writeback(&self, _offset: u64, _len: u64) {}

    fn try_lock(&self) -> io::Result<bool> {
        let mut disk = self.vfs.disk();
        disk.alive()?;
        let owner = *disk.locks.entry(self.file).or_insert(self.handle);
        Ok(owner == self.handle)
    }
}

impl Drop for SimFile {
    fn drop(&mut self) {
        let mut disk = self.vfs.disk();
        if disk.locks.get(&self.file) == Some(&self.handle) {
            disk.locks.remove(&self.file);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dmv_core::vfs::write_durably;

    type Done = io::Result<()>;

    #[test]
    fn what_was_synced_survives_and_nothing_else_must() -> Done {
        let vfs = SimVfs::new(Path::new("/r"));
        let (a, b) = (Path::new("/r/d/a"), Path::new("/r/d/b"));
        let file = vfs.open(a, OpenMode::CreateNew)?;
        file.write_at(b"one", 0)?;
        file.sync()?;
        vfs.sync_dir(Path::new("/r/d"))?;
        file.write_at(b"two", 3)?;
        vfs.open(b, OpenMode::CreateNew)?.sync()?;
        let mut rng = Rng::new(1);
        let after = vfs.crash(Path::new("/r"), Survival::Nothing, &mut rng);
        let want = BTreeMap::from([(PathBuf::from("d/a"), b"one".to_vec())]);
        assert_eq!(after.seen(), want);
        assert!(file.len().is_err() && vfs.open(a, OpenMode::Read).is_err());
        let all = vfs.crash(Path::new("/r"), Survival::Everything, &mut rng);
        assert_eq!(all.seen()[Path::new("d/a")], b"onetwo");
        Ok(())
    }

    #[test]
    fn a_crash_in_a_durable_write_leaves_the_old_file_or_the_new_one() -> Done {
        let path = Path::new("/r/d/format");
        for at in 1..20 {
            for seed in 0..50 {
                let vfs = SimVfs::new(Path::new("/r"));
                write_durably(&vfs, path, &[1; 1500])?;
                vfs.crash_at(vfs.operations() + at);
                let done = write_durably(&vfs, path, &[2; 2500]);
                let mut rng = Rng::new(seed);
                let after = vfs.crash(Path::new("/r"), Survival::Some, &mut rng).seen();
                let found = &after[Path::new("d/format")];
                let is_new = *found == [2; 2500];
                assert!(is_new || *found == [1; 1500], "operation {at}, seed {seed}");
                assert!(is_new || done.is_err(), "operation {at}, seed {seed}");
            }
        }
        Ok(())
    }

    #[test]
    fn data_whose_sync_failed_is_lost_though_the_next_sync_succeeds() -> Done {
        let vfs = SimVfs::new(Path::new("/r"));
        let file = vfs.open(Path::new("/r/a"), OpenMode::CreateNew)?;
        vfs.sync_dir(Path::new("/r"))?;
        file.write_at(b"one", 0)?;
        let fault = Fault {
            op: Op::Sync,
            after: 0,
            forever: false,
            errno: 5,
        };
        vfs.fail(fault);
        assert!(file.sync().is_err());
        file.sync()?;
        let after = vfs.crash(Path::new("/r"), Survival::Some, &mut Rng::new(1));
        // The file may have its length without its bytes.
        assert!(after.seen()[Path::new("a")].iter().all(|b| *b == 0));
        Ok(())
    }

    #[test]
    fn a_lock_ends_with_its_handle() -> Done {
        let vfs = SimVfs::new(Path::new("/r"));
        let one = vfs.open(Path::new("/r/a"), OpenMode::CreateNew)?;
        let two = vfs.open(Path::new("/r/a"), OpenMode::Append)?;
        assert!(one.try_lock()? && !two.try_lock()? && one.try_lock()?);
        drop(one);
        assert!(two.try_lock()?);
        Ok(())
    }
}
