//! The differences that a switch has to remove: those between two slices of trees, and the paths
//! that interrupted switches have left.

use crate::diff::{Slice, diff_slices, is_wanted};
use crate::hash::ObjectId;
use crate::job::Job;
use crate::object::name::RepoPath;
use crate::object::tree::{TreeEntry, lookup_path};
use crate::repo::base::error::RepoError;
use crate::repo::base::repo::Repo;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::rc::Rc;

pub type Visit<'v> =
    dyn FnMut(&RepoPath, Option<&TreeEntry>, Option<&TreeEntry>) -> Result<(), RepoError> + 'v;

/// The range from the base's slice to the target's slice.
pub struct Span<'a> {
    pub repo: &'a Repo,
    pub old: Slice<'a>,
    pub new: Slice<'a>,
    pub job: &'a Job,
}

impl Span<'_> {
    /// Returns the target's entry at `path`, if the worktree will have it or something below it.
    pub fn new_entry(&self, path: &[u8]) -> Result<Option<TreeEntry>, RepoError> {
        entry_in(self.repo, self.new, path)
    }

    /// Visits the differences.
    pub fn each(&self, visit: &mut Visit<'_>) -> Result<(), RepoError> {
        let mut visitor = |path: &RepoPath, old: Option<&TreeEntry>, new: Option<&TreeEntry>| {
            self.job.check()?;
            visit(path, old, new)?;
            Ok::<_, RepoError>(ControlFlow::Continue(()))
        };
        // The visitor never breaks off.
        diff_slices(self.repo.objects(), self.old, self.new, &mut visitor).map(|_| ())
    }
}

/// Returns a slice's entry at `path`.
pub fn entry_in(
    repo: &Repo,
    slice: Slice<'_>,
    path: &[u8],
) -> Result<Option<TreeEntry>, RepoError> {
    let (Some(tree), Ok(path)) = (slice.tree, RepoPath::parse(path)) else {
        return Ok(None);
    };
    let found = lookup_path(repo.objects(), &tree, &path)?;
    Ok(found.filter(|entry| is_wanted(slice.subset, &path, entry)))
}

/// A path as an interrupted switch has left it.
pub struct InterruptedPath {
    /// The target tree of the switch. `None` if the switch has ended but could not write this path.
    pub tree: Option<ObjectId>,
    /// The entry that the switch made there. `None` if it removed the path.
    pub entry: Option<TreeEntry>,
    /// Whether the file is incomplete because the switch was writing it.
    pub begun: bool,
}

/// The paths that interrupted switches have left.
pub type LeftPaths = BTreeMap<Vec<u8>, InterruptedPath>;

/// The differences that a switch has to remove: see
/// [`Switch::differences`](super::switch::Switch::differences).
pub struct Differences<'a> {
    pub span: Span<'a>,
    pub left: Rc<LeftPaths>,
}

impl Differences<'_> {
    /// Visits all paths that have to change.
    pub fn each(&self, visit: &mut Visit<'_>) -> Result<(), RepoError> {
        let left = &self.left;
        self.span.each(&mut |path, old, new| {
            let left = left.get(path.as_bytes());
            // The path is gone, as it should be. Its directory may still exist.
            let is_gone = left.is_some_and(|left| left.entry.is_none()) && new.is_none();
            if left.is_none() || is_gone {
                visit(path, old, new)
            } else {
                Ok(())
            }
        })?;
        for (path, left) in left.iter() {
            let new = self.span.new_entry(path)?;
            let done = match (&left.entry, &new) {
                (Some(old), Some(new)) => old.same_content(new),
                (old, new) => old.is_none() && new.is_none(),
            };
            if let (false, Ok(path)) = (done && !left.begun, RepoPath::parse(path)) {
                visit(&path, left.entry.as_ref(), new.as_ref())?;
            }
        }
        Ok(())
    }
}
