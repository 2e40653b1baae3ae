//! Writing a new stat cache after a scan, if anything in it has changed.

use super::base::each_base_dir;
use super::scan::BaseEntries;
use super::statcache::{Section, StatCacheWriter, SubsetCheck, subset_check, trusted_fingerprint};
use crate::fsutil::{FileStat, FileTime, Fingerprint, SafeDir};
use crate::hash::ObjectId;
use crate::object::tree::Kind;
use crate::path::PathError;
use crate::store::RepositoryId;
use crate::subset::Subset;
use std::sync::Arc;

/// The file name of the stat cache in the worktree's directory under `.dmv`.
pub(crate) const STAT_NAME: &[u8] = b"stat";

/// Collects sections during a scan. It writes nothing while all sections stay as they were.
pub struct CacheUpdate<'a> {
    dir: &'a SafeDir,
    repo: RepositoryId,
    subset: SubsetCheck,
    known: &'a dyn BaseEntries,
    writer: Option<StatCacheWriter>,
    /// Directories whose sections stay as `known` has them.
    unchanged: Vec<Arc<[u8]>>,
    /// Directories that were not scanned, with everything below them.
    unseen: Vec<Vec<u8>>,
}

impl<'a> CacheUpdate<'a> {
    /// Returns an update for the worktree with the directory `dir` under `.dmv` and the subset
    /// `subset`.
    pub fn new(
        dir: &'a SafeDir,
        repo: RepositoryId,
        subset: &Subset,
        known: &'a dyn BaseEntries,
    ) -> CacheUpdate<'a> {
        CacheUpdate {
            dir,
            repo,
            subset: subset_check(subset),
            known,
            writer: None,
            unchanged: Vec::new(),
            unseen: Vec::new(),
        }
    }

    /// Keeps the section of a directory.
    pub fn keep(&mut self, dir: Arc<[u8]>) {
        self.unchanged.push(dir);
    }

    /// Updates a directory whose entries are the known ones. `rows` are those with other
    /// fingerprints.
    ///
    /// `exact` is the directory's own stat, if the names on disk are exactly the known ones.
    pub fn refresh<'r>(
        &mut self,
        dir: Arc<[u8]>,
        known: &Section,
        rows: impl Iterator<Item = (&'r [u8], Option<(Kind, Fingerprint)>)>,
        exact: Option<FileStat>,
        started: FileTime,
    ) -> Result<(), PathError> {
        let mut rows = rows.peekable();
        let print = exact.map_or(Fingerprint::SUSPECT, |s| trusted_fingerprint(&s, started));
        let dir_is_news = print != Fingerprint::SUSPECT && print != known.dir_fingerprint();
        if rows.peek().is_none() && !dir_is_news {
            self.keep(dir);
            return Ok(());
        }
        let mut section = known.updated(rows);
        section.set_dir_fingerprint(print);
        self.replace(&dir, &section)
    }

    /// Keeps the sections of a directory and of everything below it, because it was not scanned.
    pub(crate) fn keep_all_under(&mut self, dir: Vec<u8>) {
        self.unseen.push(dir);
    }

    /// Sets the section of a directory.
    pub fn replace(&mut self, dir: &[u8], section: &Section) -> Result<(), PathError> {
        if self.writer.is_none() {
            self.writer = Some(StatCacheWriter::create(self.dir, &self.repo)?);
        }
        self.writer
            .as_mut()
            .expect("made just above")
            .section(dir, section)
    }

    /// Returns whether the cache differs from the old one.
    pub fn is_changed(&self) -> bool {
        self.writer.is_some()
    }

    /// Writes the cache for `tree`. If nothing has changed, it is only written with `force`: for a
    /// new base, or if there was no usable cache.
    pub fn finish(
        mut self,
        tree: &ObjectId,
        force: bool,
    ) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        if self.writer.is_none() && !force {
            return Ok(());
        }
        let mut writer = match self.writer.take() {
            Some(writer) => writer,
            None => StatCacheWriter::create(self.dir, &self.repo)?,
        };
        for dir in &self.unchanged {
            if let Some(section) = self.known.section(dir)? {
                writer.section(dir, &section)?;
            }
        }
        for dir in &self.unseen {
            each_base_dir(self.known, dir, &mut |dir, section| {
                Ok(writer.section(dir, &section)?)
            })?;
        }
        self.known.close();
        Ok(writer.finish(STAT_NAME, tree, self.subset)?)
    }
}
