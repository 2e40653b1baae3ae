//! Writing the stat cache anew after a scan, if anything in it has changed.

use super::known::each_known_dir;
use super::scan::Known;
use super::statcache::{Section, StatCacheWriter, SubsetCheck, subset_check, trusted_fingerprint};
use crate::fsutil::{FileStat, FileTime, Fingerprint, PathError, SafeDir};
use crate::hash::ObjectId;
use crate::object::tree::Kind;
use crate::subset::Subset;
use std::sync::Arc;

/// The name of the stat cache in a worktree's own directory.
pub const STAT_NAME: &[u8] = b"stat";

/// Collects sections during a scan. Nothing is written while all of them stay as they were.
pub struct CacheUpdate<'a> {
    dir: &'a SafeDir,
    repo: [u8; 16],
    subset: SubsetCheck,
    known: &'a dyn Known,
    writer: Option<StatCacheWriter>,
    /// Directories whose sections stay as `known` has them.
    unchanged: Vec<Arc<[u8]>>,
    /// Directories that were not looked into, with all below them.
    unseen: Vec<Vec<u8>>,
}

impl<'a> CacheUpdate<'a> {
    /// For the worktree whose own directory under `.dmv` is `dir`, and which has `subset`.
    pub fn new(
        dir: &'a SafeDir,
        repo: [u8; 16],
        subset: &Subset,
        known: &'a dyn Known,
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

    /// The directory's section stays.
    pub fn keep(&mut self, dir: Arc<[u8]>) {
        self.unchanged.push(dir);
    }

    /// The directory's entries are the known ones, some of them (`rows`) with other fingerprints,
    /// and its own stat was `exact`, if the names on disk are just the known ones.
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

    /// The directory and all below it were not looked at; their sections stay.
    pub fn keep_all_under(&mut self, dir: Vec<u8>) {
        self.unseen.push(dir);
    }

    /// The directory has this section now.
    pub fn replace(&mut self, dir: &[u8], section: &Section) -> Result<(), PathError> {
        if self.writer.is_none() {
            self.writer = Some(StatCacheWriter::create(self.dir, &self.repo)?);
        }
        self.writer
            .as_mut()
            .expect("made just above")
            .section(dir, section)
    }

    /// Whether the cache differs from what it was.
    pub fn is_changed(&self) -> bool {
        self.writer.is_some()
    }

    /// Writes the cache for `tree`. Without any change it is written only when `force`d: a new
    /// base, or no usable cache before.
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
            each_known_dir(self.known, dir, &mut |dir, section| {
                Ok(writer.section(dir, &section)?)
            })?;
        }
        Ok(writer.finish(STAT_NAME, tree, self.subset)?)
    }
}
