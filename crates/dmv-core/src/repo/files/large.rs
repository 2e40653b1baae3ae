//! Large new files: what a commit would store for the first time, and its user may not mean.

use crate::fsutil::{FileKind, SafeDir};
use crate::job::Job;
use crate::object::name::RepoPath;
use crate::path::DiskPath;
use crate::repo::base::error::RepoError;
use crate::repo::base::repo::Repo;
use crate::repo::files::open_worktree::{self, OpenWorktree};
use crate::repo::files::status::StatusOptions;
use crate::worktree::join;
use crate::worktree::scan::{State, scan};
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
        let Some(base) = tree.base else {
            return Ok(Vec::new());
        };
        let least = least.max(self.read_commit(&base)?.tree_bytes / PART);
        let known = tree.known(self);
        let mut found = Vec::new();
        scan(
            &tree.root,
            &tree.scan_options(&*known, options.select, job),
            |dir| -> Result<(), RepoError> {
                let mut open: Option<SafeDir> = None;
                for (name, state) in dir.entries() {
                    if state
                        != (State::New {
                            kind: FileKind::File,
                        })
                    {
                        continue;
                    }
                    let open = match &open {
                        Some(open) => open,
                        None => open.insert(tree.root.open_dir(&dir.path)?),
                    };
                    // A file may be gone by now.
                    let stat = open.stat_opt(name)?;
                    if let Some(stat) = stat.filter(|stat| stat.size > least) {
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
