//! Storing damaged and missing objects again, from the files of the worktree.

use super::{Damaged, Repo, RepoError, VerifyReport, WorktreeSettings};
use crate::fsutil::fs_now;
use crate::hash::ObjectId;
use crate::job::Job;
use crate::object::ObjectRead;
use crate::worktree::cacheupdate::CacheUpdate;
use crate::worktree::known::TreeKnown;
use crate::worktree::scan::{Known, ScanOptions};
use crate::worktree::select::Paths;
use crate::worktree::snapshot::{SnapshotInput, snapshot};
use crate::worktree::statcache::Section;
use std::collections::HashSet;

impl Repo {
    /// Stores again what `report` found damaged or missing and the worktree's files have; returns
    /// what can be read now.
    ///
    /// Every file is read, as for a first commit, but only objects that are wanted are stored. The
    /// damaged bytes stay in their packs, and are not asked for any more.
    pub fn heal(
        &self,
        report: &VerifyReport,
        settings: &WorktreeSettings,
        job: &Job,
    ) -> Result<Vec<Damaged>, RepoError> {
        let all = || report.damaged.iter().chain(&report.missing);
        let wanted: HashSet<ObjectId> = all().map(|d| d.id).collect();
        if wanted.is_empty() || self.worktree_root().is_none() {
            return Ok(Vec::new());
        }
        self.store_again(wanted, settings, job)?;
        let can_be_read = |d: &&Damaged| matches!(self.store.read(d.ty, &d.id), Ok(Some(_)));
        Ok(all().filter(can_be_read).cloned().collect())
    }

    fn store_again(
        &self,
        wanted: HashSet<ObjectId>,
        settings: &WorktreeSettings,
        job: &Job,
    ) -> Result<(), RepoError> {
        let _lock = self.lock_worktree()?;
        let tree = match self.tree(settings) {
            Ok(tree) => tree,
            // The commit that the worktree is on is among the damage: no file can bring it back.
            Err(RepoError::Object(_) | RepoError::Absent { .. }) => return Ok(()),
            Err(e) => return Err(e),
        };
        let known = Unvouched(TreeKnown::new(
            self.objects(),
            tree.base_tree,
            None,
            &tree.subset,
        ));
        let input = SnapshotInput {
            root: &tree.root,
            reader: self.objects(),
            base: None,
            scan: ScanOptions {
                known: &known,
                ignore: &tree.ignore,
                select: &Paths::default(),
                subset: &tree.subset,
                list_ignored: false,
                one_file_system: false,
                threads: 0,
                cancel: job.cancel_flag(),
            },
            started: fs_now(&tree.own),
            portable: false,
        };
        let mut cache = CacheUpdate::new(&tree.own, self.id.0, &tree.subset, &known);
        let writer = self.store.mender(wanted)?;
        // What it says of files that could not be read is not asked for here.
        snapshot(&input, &writer, &mut cache, job)?;
        let sealed = self.seal(writer)?;
        if !sealed.segments.is_empty() {
            self.refs.add_segments(&sealed.segments, &sealed.relied)?;
            self.store.adopt(&sealed);
        }
        Ok(())
    }
}

/// What the base has, with nothing vouched for, so that every file is read.
struct Unvouched<'a>(TreeKnown<'a>);

impl Known for Unvouched<'_> {
    fn section(
        &self,
        dir: &[u8],
    ) -> Result<Option<Section>, Box<dyn std::error::Error + Send + Sync>> {
        // A directory that cannot be read may be one of those that are wanted.
        Ok(self.0.section(dir).unwrap_or(None))
    }
}
