//! Patterns of a worktree's subset that match nothing any more, for example after a directory was
//! renamed.
//!
//! Checkouts and merges report them.

use crate::diff::rename::{Candidate, pair_equal};
use crate::diff::{DiffVisitor, diff_trees};
use crate::hash::ObjectId;
use crate::limits::MAX_RENAME_PATHS;
use crate::object::ObjectError;
use crate::object::name::RepoPath;
use crate::object::tree::{Kind, TreeEntry, lookup_path};
use crate::repo::base::error::{AbsentError, RepoError};
use crate::repo::base::repo::Repo;
use crate::subset::Subset;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::ops::ControlFlow;

/// A pattern that matches nothing in a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdlePattern {
    /// The pattern.
    pub pattern: Vec<u8>,
    /// The path in the commit whose name is the text of the pattern: `take[01]` is a path and also a
    /// pattern that does not match it.
    pub namesake: Option<RepoPath>,
}

/// Returns the path in the tree `root` that has the text of a pattern as its name.
pub fn namesake(
    repo: &Repo,
    root: ObjectId,
    pattern: &[u8],
) -> Result<Option<RepoPath>, RepoError> {
    let name = pattern.strip_prefix(b"!").unwrap_or(pattern);
    let name = name.strip_suffix(b"/").unwrap_or(name);
    let Ok(path) = RepoPath::parse(name.strip_prefix(b"/").unwrap_or(name)) else {
        return Ok(None);
    };
    match lookup_path(repo.objects(), &root, &path) {
        Ok(found) => Ok(found.map(|_| path)),
        // What is in an absent directory is unknown.
        Err(ObjectError::Missing { .. }) => Ok(None),
        Err(e) => Err(e.into()),
    }
}

/// A pattern of a subset that matched something in the former commit and matches nothing in the new
/// one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EmptiedPattern {
    /// The pattern.
    pub pattern: Vec<u8>,
    /// The present path of most of what it matched, if it is known.
    pub moved_to: Option<RepoPath>,
}

/// Returns the patterns of `subset` that match something in the tree `old` and nothing in `new`.
/// Skips patterns that lead to absent directories.
pub fn emptied(repo: &Repo, old: ObjectId, new: ObjectId, subset: &Subset) -> Vec<EmptiedPattern> {
    let mut out = Vec::new();
    for (alone, text) in subset.each().iter().zip(subset.patterns()) {
        let matches = |tree| matches_in(repo, tree, alone);
        if text.starts_with(b"!") || !matches!((matches(old), matches(new)), (Ok(true), Ok(false)))
        {
            continue;
        }
        out.push(EmptiedPattern {
            pattern: text.to_vec(),
            moved_to: moved_to(repo, old, new, text).unwrap_or(None),
        });
    }
    out
}

/// Returns whether a subset includes anything of a tree. An absent directory counts as a match.
pub fn matches_in(repo: &Repo, tree: ObjectId, subset: &Subset) -> Result<bool, RepoError> {
    let mut found = false;
    let looked = repo.list_subset(&RepoPath::root(), tree, subset, &mut |_| {
        found = true;
        Ok(ControlFlow::Break(()))
    });
    match looked {
        Err(RepoError::Absent(AbsentError::Object { .. })) => Ok(true),
        looked => looked.map(|()| found),
    }
}

/// Returns the path in `new` of the file or directory that a pattern matched in `old`.
fn moved_to(
    repo: &Repo,
    old: ObjectId,
    new: ObjectId,
    pattern: &[u8],
) -> Result<Option<RepoPath>, RepoError> {
    let pattern = pattern.strip_prefix(b"/").unwrap_or(pattern);
    let pattern = pattern.strip_suffix(b"/").unwrap_or(pattern);
    let Ok(path) = RepoPath::parse(pattern) else {
        return Ok(None);
    };
    let Some(entry) = lookup_path(repo.objects(), &old, &path)? else {
        return Ok(None);
    };
    let mut search = Search {
        repo,
        path: &path,
        entry: &entry,
        found: None,
        gone: Vec::new(),
        added: Vec::new(),
    };
    // The result is never `Break`: files over the limit are ignored.
    let _ = diff_trees(repo.objects(), Some(old), Some(new), &mut search)?;
    Ok(search.found.take().or_else(|| search.most_likely()))
}

/// A search for one file or directory, and for the files in it.
struct Search<'a> {
    repo: &'a Repo,
    path: &'a RepoPath,
    entry: &'a TreeEntry,
    /// The first directory with the same content.
    found: Option<RepoPath>,
    gone: Vec<(RepoPath, TreeEntry)>,
    added: Vec<(RepoPath, TreeEntry)>,
}

impl DiffVisitor for Search<'_> {
    type Error = ObjectError;

    fn enter(&mut self, dir: &RepoPath, sides: [Option<ObjectId>; 2]) -> bool {
        if sides == [None, Some(self.entry.id)] && self.entry.kind == Kind::Directory {
            self.found.get_or_insert_with(|| dir.clone());
        }
        self.repo.holds_trees(sides)
    }

    fn change(
        &mut self,
        path: &RepoPath,
        old: Option<&TreeEntry>,
        new: Option<&TreeEntry>,
    ) -> Result<ControlFlow<()>, ObjectError> {
        let (list, entry) = match (old, new) {
            (Some(old), None) if path.starts_with(self.path) => (&mut self.gone, old),
            (None, Some(new)) => (&mut self.added, new),
            _ => return Ok(ControlFlow::Continue(())),
        };
        if entry.kind.is_blob() && list.len() < MAX_RENAME_PATHS {
            list.push((path.clone(), entry.clone()));
        }
        Ok(ControlFlow::Continue(()))
    }
}

impl Search<'_> {
    /// Returns the path at which most of the equal files are, each at its former place relative to
    /// `path`.
    fn most_likely(&self) -> Option<RepoPath> {
        let gone = candidates_of(&self.gone);
        let new = candidates_of(&self.added);
        let Ok(pairs) = pair_equal(&gone, &new, &mut |_, _| Ok::<_, Infallible>(true));
        let mut votes: BTreeMap<&[u8], usize> = BTreeMap::new();
        for (from, to) in pairs {
            let (from, to) = (self.gone[from].0.as_bytes(), self.added[to].0.as_bytes());
            if let Some(place) = to.strip_suffix(&from[self.path.as_bytes().len()..]) {
                *votes.entry(place).or_default() += 1;
            }
        }
        let (place, _) = votes.into_iter().max_by_key(|(_, votes)| *votes)?;
        RepoPath::parse(place).ok().filter(|place| !place.is_root())
    }
}

fn candidates_of(list: &[(RepoPath, TreeEntry)]) -> Vec<Candidate<'_>> {
    let files = list.iter();
    files
        .map(|(path, entry)| Candidate::of_entry(path.as_bytes(), entry))
        .collect()
}
