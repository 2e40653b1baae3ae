//! Large new files: what a commit would store for the first time, and its user may not mean.

use crate::job::Job;
use crate::object::name::RepoPath;
use crate::path::DiskPath;
use crate::repo::base::error::RepoError;
use crate::repo::base::repo::Repo;
use crate::repo::files::open_worktree::{self, OpenWorktree};
use crate::repo::files::status::StatusOptions;
use crate::worktree::entry_stats::EntryStats;
use crate::worktree::join;
use crate::worktree::scan::scan;
use std::cmp::Reverse;
use std::collections::HashSet;
use std::ops::ControlFlow;

/// A new file is large if it has more bytes than this part of the last commit. So a repository of large
/// files has large files of its own size.
const PART: u64 = 10;

/// A file that a commit would store for the first time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LargeFile {
    /// Its path.
    pub path: DiskPath,
    /// Its length in bytes.
    pub bytes: u64,
}

impl Repo {
    /// Returns the files that are not in the last commit and have more than `least` bytes and more than a
    /// tenth of the bytes of the commit, the largest first. Moved files are none. Reads no content.
    ///
    /// Before the first commit there are none: it brings everything that somebody has.
    pub fn large_new_files(
        &self,
        options: &StatusOptions<'_>,
        least: u64,
        job: &Job,
    ) -> Result<Vec<LargeFile>, RepoError> {
        let tree = open_worktree::open(self, &options.settings)?;
        let Some(most) = most_new(self, &tree, Some(least))? else {
            return Ok(Vec::new());
        };
        let known = tree.known(self);
        let mut found = Vec::new();
        scan(
            &tree.root,
            &tree.scan_options(&*known, options.select, job),
            |dir| -> Result<(), RepoError> {
                let mut stats = EntryStats::new(&tree.root, &dir.path);
                for (name, state) in dir.entries() {
                    if stats.is_new_above(most, name, state)?
                        && let Some(stat) = stats.of(name)?
                    {
                        found.push(LargeFile {
                            path: join(&dir.path, name).into(),
                            bytes: stat.size,
                        });
                    }
                }
                Ok(())
            },
        )?;
        if !found.is_empty() {
            let moved = lengths_that_went(self, &tree, &found)?;
            found.retain(|file| !moved.contains(&file.bytes));
        }
        found.sort_by_key(|file| Reverse(file.bytes));
        Ok(found)
    }
}

/// Returns how many bytes a new file has at most that is not large: `least`, or a part of the last commit.
/// `None` if none is large.
pub fn most_new(
    repo: &Repo,
    tree: &OpenWorktree,
    least: Option<u64>,
) -> Result<Option<u64>, RepoError> {
    Ok(match (tree.base, least) {
        (Some(base), Some(least)) => Some(least.max(repo.read_commit(&base)?.tree_bytes / PART)),
        _ => None,
    })
}

/// Returns the lengths of `files` that files of the commit have which are no longer in the worktree: they
/// were probably moved.
fn lengths_that_went(
    repo: &Repo,
    tree: &OpenWorktree,
    files: &[LargeFile],
) -> Result<HashSet<u64>, RepoError> {
    let lengths: HashSet<u64> = files.iter().map(|file| file.bytes).collect();
    let mut went = HashSet::new();
    let Some(root) = tree.base_tree else {
        return Ok(went);
    };
    repo.list_subset(&RepoPath::root(), root, &tree.subset, &mut |listed| {
        let (kind, size) = (listed.entry.kind, listed.entry.size);
        if kind.is_blob() && lengths.contains(&size) && repo.stat_worktree(&listed.path).is_err() {
            went.insert(size);
        }
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(went)
}
