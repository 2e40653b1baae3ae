//! Single files, open or by path.

use super::{FileStat, FileTime, OwnAccess, open_own, system};
use std::fs::{File, OpenOptions, Permissions};
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::OnceLock;

/// Creates a file without a name on the file system of the directory `dir`, to read and write. It goes
/// when it is closed. Fails where the file system has no such files.
pub(crate) fn unnamed_file(dir: &Path) -> io::Result<File> {
    system::unnamed_file(dir)
}

/// How two names have the same bytes without taking their space twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// Two files that share their blocks until one is written to (reflink).
    Blocks,
    /// One file with two names (hard link).
    File,
}

/// Makes the regular file `from` available at `to`, without copying its bytes. Fails if there is a file
/// at `to`, or if the file system can do neither.
pub(crate) fn share_file(from: &Path, to: &Path) -> io::Result<Sharing> {
    let source = open_own(from, OwnAccess::Read)?;
    if system::share_blocks(&source, to).is_ok() {
        return Ok(Sharing::Blocks);
    }
    std::fs::hard_link(from, to)?;
    Ok(Sharing::File)
}

/// Returns a copy of `file` without a name, which shares its blocks and which no other process can change:
/// the file as it was at one moment. The copy lies on the file system of the directory `dir`. Fails if the
/// system cannot share the blocks.
pub(crate) fn snapshot(file: &File, dir: &Path) -> io::Result<File> {
    let copy = system::unnamed_file(dir)?;
    system::clone_blocks(&copy, file)?;
    Ok(copy)
}

/// Returns whether files in two directories can share blocks. Writes to both, but leaves nothing.
pub(crate) fn can_share_blocks(from: &Path, to: &Path) -> bool {
    let share = || {
        let file = system::unnamed_file(from)?;
        system::write_all_at(&file, &[0; BLOCK_BYTES as usize], 0)?;
        snapshot(&file, to)
    };
    share().is_ok()
}

/// Returns how many bytes of a file lie in blocks that other files have, too; all if it has further names. Fails if
/// the file system does not tell it.
pub(crate) fn shared_bytes(file: &File) -> io::Result<u64> {
    let stat = stat_of(file)?;
    match stat.nlink {
        2.. => Ok(stat.size),
        _ => system::shared_bytes(file, stat.size),
    }
}

/// Bytes of a file from an offset on. They must not change.
#[derive(Clone, Copy, Debug)]
pub struct Origin<'f> {
    /// The file.
    pub file: &'f File,
    /// The offset.
    pub at: u64,
}

/// Length in bytes of a block that two files can share. Where blocks are longer, they are copied.
pub const BLOCK_BYTES: u64 = 4096;

/// Writes all of `data` at `offset`. `origin` has the same bytes. If it lies at the same place of a block, the
/// two files share the blocks between the first and the last one, where the file system can. Otherwise the
/// bytes are written.
pub fn write_shared(file: &File, data: &[u8], offset: u64, origin: Origin<'_>) -> io::Result<()> {
    let Some(blocks) = whole_blocks(offset, data.len() as u64, origin) else {
        return write_all_at(file, data, offset);
    };
    let (head, rest) = data.split_at((blocks.start - offset) as usize);
    let (shared, tail) = rest.split_at((blocks.end - blocks.start) as usize);
    // The end comes first. So the file has its length when blocks are added to it.
    write_all_at(file, tail, blocks.end)?;
    write_all_at(file, head, offset)?;
    let (from, len) = (origin.at + head.len() as u64, shared.len() as u64);
    let copied = system::copy_range(origin.file, from, file, blocks.start, len);
    copied.or_else(|_| write_all_at(file, shared, blocks.start))
}

/// Makes the `len` bytes at `offset` those of `origin`, without reading more of them than parts of the first and
/// the last block. Fails if the blocks between these cannot be shared.
pub(crate) fn share_range(
    file: &File,
    len: u64,
    offset: u64,
    origin: Origin<'_>,
) -> io::Result<()> {
    let blocks = whole_blocks(offset, len, origin).ok_or(io::ErrorKind::Unsupported)?;
    let from = |at: u64| origin.at + (at - offset);
    let copy = |part: Range<u64>| {
        let mut bytes = [0; BLOCK_BYTES as usize];
        let bytes = &mut bytes[..(part.end - part.start) as usize];
        read_exact_at(origin.file, bytes, from(part.start))?;
        write_all_at(file, bytes, part.start)
    };
    copy(blocks.end..offset + len)?;
    copy(offset..blocks.start)?;
    let shared = blocks.end - blocks.start;
    system::copy_range(origin.file, from(blocks.start), file, blocks.start, shared)
}

/// Returns where the whole blocks lie that a file can share with `origin`, if it has `len` bytes of it at `offset`.
/// `None` if there are none.
fn whole_blocks(offset: u64, len: u64, origin: Origin<'_>) -> Option<Range<u64>> {
    let end = offset + len;
    let blocks = offset.next_multiple_of(BLOCK_BYTES)..end - end % BLOCK_BYTES;
    let is_level = offset.abs_diff(origin.at).is_multiple_of(BLOCK_BYTES);
    // A length of zero would mean the rest of the file.
    (is_level && !blocks.is_empty()).then_some(blocks)
}

/// Returns the stat of an open file.
#[inline]
pub fn stat_of(file: &File) -> io::Result<FileStat> {
    system::stat_of(file)
}

/// Returns the stat of the file at `path`. Follows symlinks.
pub(crate) fn stat_at(path: &Path) -> io::Result<FileStat> {
    system::stat_at(path)
}

/// Returns the stat of the entry at `path`, without following a symlink there.
pub(crate) fn stat_at_unfollowed(path: &Path) -> io::Result<FileStat> {
    system::stat_at_unfollowed(path)
}

/// Returns whether a file of this size has a hole: a range that was never written and reads as zeros.
/// Moves the position of `file`.
pub(crate) fn has_hole(file: &File, size: u64) -> bool {
    system::has_hole(file, size)
}

/// Returns where the next data begins in `file` at or after `at`: there, or after a hole. Moves the
/// position of `file`.
pub(crate) fn skip_hole(file: &File, at: u64) -> u64 {
    let Ok(size) = system::stat_of(file).map(|stat| stat.size) else {
        return at;
    };
    match system::next_data(file, at, size) {
        Some((start, _)) => start,
        None => size.max(at),
    }
}

/// Gives a file the permissions `mode`, without setuid, setgid and sticky bits.
pub fn set_permissions(file: &File, mode: u32) -> io::Result<()> {
    system::set_permissions(file, mode)
}

/// Returns the permissions that the system withholds from new files of this process. They are read once.
pub(crate) fn umask() -> u32 {
    static UMASK: OnceLock<u32> = OnceLock::new();
    *UMASK.get_or_init(system::umask)
}

/// Sets the mtime of a file, and leaves the time of its last access.
pub fn set_modified(file: &File, mtime: FileTime) -> io::Result<()> {
    system::set_modified(file, mtime)
}

/// The step of the times that files can have.
pub(crate) const TIME_STEP_NANOS: u32 = system::TIME_STEP_NANOS;

/// Returns a handle of the file of which every write goes to the file's end.
pub fn append_only(file: File) -> io::Result<File> {
    system::append_only(file)
}

/// Returns another handle of what `stream` is, without the buffer that the standard library has for it.
pub fn same_file(stream: impl system::AsHandle) -> io::Result<File> {
    system::same_file(stream)
}

/// Lets only its owner use a file that is created in this way, where the directory does not say who may.
pub fn closed_to_others(how: &mut OpenOptions) {
    system::closed_to_others(how);
}

/// Returns the permissions that the umask makes the usual ones, for those who would choose others.
pub fn usual_permissions() -> Option<Permissions> {
    system::usual_permissions()
}

/// Renames the file `from` to `to`, and replaces a file that has this name, also one that is open.
pub fn rename(from: &Path, to: &Path) -> io::Result<()> {
    system::rename(from, to)
}

/// Reads bytes at `offset`, and returns how many. Zero bytes mean the end of the file.
#[inline]
pub fn read_at(file: &File, buf: &mut [u8], offset: u64) -> io::Result<usize> {
    system::read_at(file, buf, offset)
}

/// Fills `buf` from `offset`. Fails with `UnexpectedEof` if the file ends before.
#[inline]
pub fn read_exact_at(file: &File, buf: &mut [u8], offset: u64) -> io::Result<()> {
    system::read_exact_at(file, buf, offset)
}

/// Writes all of `data` at `offset`.
#[inline]
pub fn write_all_at(file: &File, data: &[u8], offset: u64) -> io::Result<()> {
    system::write_all_at(file, data, offset)
}

/// Whether a sync that is to last needs a call of its own. SQLite is told so.
pub(crate) const FULL_SYNC: bool = system::FULL_SYNC;

/// Gives a file's bytes and length to the medium. They are durable once any file of the same file system has been
/// synced with [`File::sync_data`] after that. Where that is one call, this is it.
pub(crate) fn settle(file: &File) -> io::Result<()> {
    system::settle(file)
}

/// Makes a file's bytes and length durable, also if it was opened for reading only.
pub(crate) fn sync(file: &File) -> io::Result<()> {
    system::sync(file)
}

/// Makes the names in a directory durable.
pub fn sync_dir(dir: &Path) -> io::Result<()> {
    system::sync_dir(dir)
}

/// Asks the system to start writing `len` bytes from `offset` of a file to the medium. If the system
/// cannot, it does nothing.
pub fn start_writeback(file: &File, offset: u64, len: u64) {
    system::start_writeback(file, offset, len);
}

/// Asks the system to write a file of `size` bytes to the medium in such a way that the next write
/// through a memory map changes the file's times. If the system cannot, it does nothing.
pub(crate) fn write_mapped_pages_back(file: &File, size: u64) {
    system::write_mapped_pages_back(file, size);
}

/// Waits for a write to `file` that is in progress, and returns whether it could. Sets the file's
/// position to its beginning.
pub(crate) fn wait_for_write(file: &File) -> bool {
    system::wait_for_write(file)
}

/// Returns whether nobody can read any more what is written to a pipe.
pub fn is_reader_gone(pipe: impl system::AsHandle) -> bool {
    system::is_reader_gone(pipe)
}

/// Enlarges a pipe's buffer to `bytes`. Does nothing if `pipe` is no pipe or may not be larger.
pub fn widen_pipe(pipe: impl system::AsHandle, bytes: usize) {
    system::widen_pipe(pipe, bytes);
}
