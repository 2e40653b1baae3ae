//! A scan's answers for files that equal the base.
//!
//! The answers come from the stat cache, and for files that the cache did not know from a
//! [`WrittenFiles`]. So memory does not grow with the number of files.

use crate::fsutil::{FileTime, Fingerprint};
use crate::object::tree::Kind;
use crate::repo::base::error::RepoError;
use crate::repo::files::checkout::written::WrittenFiles;
use crate::worktree::scan::{BaseEntries, ScanError};
use crate::worktree::split_path;
use crate::worktree::statcache::Section;

/// What has to be at a path before it is replaced or removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expectation {
    /// Nothing.
    Nothing,
    /// A file with this fingerprint.
    This(Fingerprint),
    /// Something else is there already.
    Other,
}

/// A scan's answers for files that equal the base.
pub struct ScanAnswers<'a> {
    pub known: Box<dyn BaseEntries + 'a>,
    /// Files that were compared by content. The cache knows nothing about them.
    pub compared: WrittenFiles,
    /// The sections of the directory that was last asked for, and of those above it.
    open: Vec<(Vec<u8>, Option<Section>)>,
    pub now: Option<FileTime>,
    pub waits: u32,
}

impl<'a> ScanAnswers<'a> {
    /// Returns the answers of a scan against `known`. `compared` has the files that the scan found
    /// equal by content.
    pub fn new(known: Box<dyn BaseEntries + 'a>, mut compared: WrittenFiles) -> ScanAnswers<'a> {
        compared.sort();
        ScanAnswers {
            known,
            compared,
            open: Vec::new(),
            now: None,
            waits: 0,
        }
    }

    /// Returns the fingerprint with which the scan accepted the file at `path`. Returns `None` if
    /// the base has no file there.
    pub fn accepted(&mut self, path: &[u8]) -> Result<Option<Fingerprint>, RepoError> {
        let Some((dir, name)) = split_path(path) else {
            return Ok(None);
        };
        let is_above = |above: &[u8]| {
            let rest = dir.strip_prefix(above);
            above.is_empty() || rest.is_some_and(|rest| rest.is_empty() || rest[0] == b'/')
        };
        while self.open.last().is_some_and(|(above, _)| !is_above(above)) {
            self.open.pop();
        }
        if self.open.last().is_none_or(|(last, _)| last != dir) {
            let mut section = self.known.section(dir).map_err(|source| {
                RepoError::from(ScanError::Base {
                    dir: dir.to_vec(),
                    source,
                })
            })?;
            if let Some(section) = &mut section {
                // Without these fingerprints, files are compared by content again.
                let _ = self.compared.apply(dir, section);
            }
            self.open.push((dir.to_vec(), section));
        }
        let section = self.open.last().and_then(|(_, section)| section.as_ref());
        Ok(section.and_then(|section| {
            let entry = section.get(section.position(name)?);
            (entry.kind != Kind::Directory).then_some(entry.fingerprint)
        }))
    }
}
