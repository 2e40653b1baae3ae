//! The log pack: one append-only file of operation records.
//!
//! It is written inside the transaction of `refs`, whose write lock admits one writer only. Its id
//! is the repository's.

use super::error::StoreError;
use super::layout::{
    Encoding, LayoutError, PACK_HEADER_BYTES, PackHeader, PackKind, RecordHeader, RecordType,
};
use super::random_id::RepositoryId;
use super::scan::{ScannedPart, scan};
use crate::path::PathContext;
use crate::vfs::{OpenMode, Vfs, VfsFile};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The open log pack.
pub struct LogPack {
    path: PathBuf,
    file: Arc<dyn VfsFile>,
}

impl LogPack {
    fn path_in(packs_dir: &Path, repo: RepositoryId) -> PathBuf {
        packs_dir.join(format!("{}.pack", repo.log_pack()))
    }

    /// Creates the log pack of a new repository, durably.
    pub(crate) fn create(
        vfs: &dyn Vfs,
        packs_dir: &Path,
        repo: RepositoryId,
    ) -> Result<LogPack, StoreError> {
        let path = Self::path_in(packs_dir, repo);
        let file = vfs
            .open(&path, OpenMode::CreateNew)
            .context("create", &path)?;
        let header = PackHeader {
            kind: PackKind::Log,
            repo,
            id: repo.log_pack(),
        };
        file.write_at(&header.encode(), 0)
            .context("write to", &path)?;
        file.sync().context("sync", &path)?;
        vfs.sync_dir(packs_dir).context("sync", packs_dir)?;
        Ok(LogPack { path, file })
    }

    /// Opens the log pack, for appending or only for reading.
    pub fn open(
        vfs: &dyn Vfs,
        packs_dir: &Path,
        repo: RepositoryId,
        how: OpenMode,
    ) -> Result<LogPack, StoreError> {
        let path = Self::path_in(packs_dir, repo);
        let file = vfs.open(&path, how).context("open", &path)?;
        let log = LogPack { path, file };
        match log.header()? {
            Err(LayoutError::TooNew(version)) => Err(StoreError::TooNew {
                path: log.path,
                version,
            }),
            // A damaged header does not affect the operations after it.
            _ => Ok(log),
        }
    }

    fn header(&self) -> Result<Result<PackHeader, LayoutError>, StoreError> {
        let mut header = [0; PACK_HEADER_BYTES as usize];
        let n = self
            .file
            .read_at(&mut header, 0)
            .context("read", &self.path)?;
        Ok(PackHeader::decode(&header[..n]))
    }

    /// Makes the complete content of the file durable, also what other processes wrote.
    pub(crate) fn sync(&self) -> Result<(), StoreError> {
        Ok(self.file.sync().context("sync", &self.path)?)
    }

    /// Returns whether the file's header is intact. Only [`open`](Self::open) depends on it.
    pub(crate) fn is_header_intact(&self) -> Result<bool, StoreError> {
        Ok(self.header()?.is_ok())
    }

    /// Writes the header again, durably, if it is damaged. `repo` is the repository of this log.
    pub(crate) fn mend_header(&self, repo: RepositoryId) -> Result<(), StoreError> {
        if self.is_header_intact()? {
            return Ok(());
        }
        let header = PackHeader {
            kind: PackKind::Log,
            repo,
            id: repo.log_pack(),
        };
        let written = self.file.write_at(&header.encode(), 0);
        written.context("write to", &self.path)?;
        self.sync()
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the offset of the next operation.
    pub fn len(&self) -> Result<u64, StoreError> {
        let len = self.file.len().context("measure", &self.path)?;
        Ok(len.max(PACK_HEADER_BYTES))
    }

    /// Returns whether it contains no operation.
    pub fn is_empty(&self) -> Result<bool, StoreError> {
        Ok(self.len()? == PACK_HEADER_BYTES)
    }

    /// Returns whether the log pack of the repository is still this file.
    pub(crate) fn is_in_place(&self) -> Result<bool, StoreError> {
        Ok(self.file.is_at(&self.path).context("find", &self.path)?)
    }

    /// Appends one operation and makes it durable. Returns the file's new length.
    ///
    /// The operation goes to the present end of the file. Bytes that an earlier crash left there
    /// stay.
    pub(crate) fn append(&self, payload: &[u8]) -> Result<u64, StoreError> {
        let len = u32::try_from(payload.len()).expect("operations are bounded by MAX_OP_BYTES");
        let header = RecordHeader::new(RecordType::Operation, Encoding::Raw, 0, len, len, &[]);
        let mut record = header.encode().to_vec();
        record.extend_from_slice(payload);
        record.extend_from_slice(&header.payload_check(payload));
        let at = self.len()?;
        self.file
            .write_at(&record, at)
            .context("write to", &self.path)?;
        self.file.sync().context("sync", &self.path)?;
        Ok(at + record.len() as u64)
    }

    /// Removes everything after offset `len`, durably.
    ///
    /// Only the process that appended it may do so, in the same turn, before another process can
    /// have read it.
    pub(crate) fn take_back(&self, len: u64) -> Result<(), StoreError> {
        self.file.cut(len).context("shorten", &self.path)?;
        self.sync()
    }

    /// Returns every intact operation payload, in file order.
    ///
    /// Bytes between them do not indicate damage: a crash leaves such bytes, too.
    pub fn operations(&self) -> Result<Vec<Vec<u8>>, StoreError> {
        self.operations_within(PACK_HEADER_BYTES, self.len()?)
    }

    /// Returns whether the file has bytes from `from` on that are not an intact operation, because
    /// of damage or a crash.
    pub(crate) fn has_gaps(&self, from: u64) -> Result<bool, StoreError> {
        let end = self.file.len().context("measure", &self.path)?;
        let mut found = false;
        scan(&*self.file, &self.path, from, end, &mut |_, item| {
            found |= !matches!(item, ScannedPart::Operation(_));
            Ok(())
        })?;
        Ok(found)
    }

    /// Returns every intact operation payload of a stretch of the file.
    pub(crate) fn operations_within(
        &self,
        from: u64,
        end: u64,
    ) -> Result<Vec<Vec<u8>>, StoreError> {
        let end = end.min(self.file.len().context("measure", &self.path)?);
        let mut found = Vec::new();
        scan(&*self.file, &self.path, from, end, &mut |_, item| {
            if let ScannedPart::Operation(payload) = item {
                found.push(payload);
            }
            Ok(())
        })?;
        Ok(found)
    }
}
