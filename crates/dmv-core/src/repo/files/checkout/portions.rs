//! A checkout in portions: the content of some files is fetched, the files are written, and the content goes
//! again before the next files come. So the disk needs little more room than the files.
//!
//! `dmv-net` uses it for lean clones.

use crate::fsutil::sync_filesystem;
use crate::object::list::Blob;
use crate::object::name::RepoPath;
use crate::object::root::{Lack, Root};
use crate::repo::base::error::RepoError;
use crate::repo::files::checkout::durable::sync_each;
use crate::repo::files::checkout::switch::Switch;
use crate::worktree::checkout::{NewFile, Plan};

/// Where a checkout in portions gets content from.
pub trait Portions {
    /// Returns the most bytes of files in one portion. A larger file is a portion of its own.
    fn most_bytes(&self) -> u64;

    /// Makes sure that the content of these files can be read.
    fn bring(&self, files: Vec<Lack>) -> Result<(), RepoError>;

    /// Hears that files with this content were written, and are durable.
    fn written(&self, blobs: &[Blob]) -> Result<(), RepoError>;
}

impl Switch<'_> {
    /// Returns whether files of so many bytes are too large for one portion.
    pub fn is_beyond_portion(&self, bytes: u64) -> bool {
        self.request
            .portions
            .is_some_and(|portions| bytes > portions.most_bytes())
    }

    /// Brings the content of a plan's files.
    pub fn bring_portion(&self, plan: &Plan<Blob>) -> Result<(), RepoError> {
        let Some(portions) = self.request.portions.filter(|_| !plan.files.is_empty()) else {
            return Ok(());
        };
        let lack = |file: &NewFile<Blob>| Lack {
            path: RepoPath::from_checked(file.path.clone()),
            root: Root::Blob(file.blob),
        };
        portions.bring(plan.files.iter().map(lack).collect())
    }

    /// Makes the files of a plan durable, and tells that they were written.
    pub fn end_portion(&self, plan: &Plan<Blob>) -> Result<(), RepoError> {
        let Some(portions) = self.request.portions.filter(|_| !plan.files.is_empty()) else {
            return Ok(());
        };
        // Freeing makes the journal of the file system durable, and with it the names of files whose bytes are not.
        let root = &self.request.tree.root;
        if !sync_filesystem(root)? {
            let paths: Vec<&[u8]> = plan.files.iter().map(|file| &file.path[..]).collect();
            sync_each(root, &paths)?;
        }
        let blobs: Vec<Blob> = plan.files.iter().map(|file| file.blob).collect();
        portions.written(&blobs)
    }
}
