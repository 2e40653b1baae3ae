//! Merging two commits: finding their common ancestors, and making one base tree of several.

use super::{MergeError, MergeResult, Trees, merge_trees};
use crate::hash::ObjectId;
use crate::history::{best_of, load_commit, merge_bases};
use crate::limits::{MAX_BASE_DEPTH, MAX_MERGE_BASES};
use crate::object::mem::{Both, MemObjects, Tee};
use crate::object::{ObjectError, ObjectRead, ObjectWrite};
use std::collections::HashMap;
use std::sync::atomic::AtomicBool;

/// Merges the trees of two commits.
///
/// If there are several merge bases, these are merged first, the oldest ones first. Their conflicts
/// stay conflicts: those that both sides have settled since cancel. Without a merge base both sides
/// added everything. At most `MAX_MERGE_BASES` bases at a time are considered, and bases of bases
/// down to a depth of `MAX_BASE_DEPTH`; beyond that the first of them is the base.
pub fn merge_commits(
    reader: &dyn ObjectRead,
    writer: &mut dyn ObjectWrite,
    ours: &ObjectId,
    theirs: &ObjectId,
    cancel: &AtomicBool,
) -> Result<MergeResult, MergeError> {
    let tree_of = |id: &ObjectId| load_commit(reader, id).map(|commit| commit.tree);
    let bases = merge_bases(reader, ours, theirs)?;
    let (our_tree, their_tree) = (tree_of(ours)?, tree_of(theirs)?);
    let trees = |base| Trees {
        base,
        ours: our_tree,
        theirs: their_tree,
    };
    if let [] | [_] = bases[..] {
        let base = bases.first().map(tree_of).transpose()?;
        return merge_trees(reader, writer, trees(base), cancel);
    }
    let made = MemObjects::new();
    let both = Both {
        made: &made,
        reader,
    };
    let base = virtual_base(&both, writer, bases, cancel)?;
    merge_trees(&both, writer, trees(Some(base)), cancel)
}

/// Commits to be merged, with the progress so far.
struct Task {
    all: Vec<ObjectId>,
    /// How many of the commits are merged, and the resulting tree.
    merged: (usize, ObjectId),
}

/// Returns the tree that results when several commits are merged one after the other.
fn virtual_base(
    both: &Both<'_>,
    writer: &mut dyn ObjectWrite,
    bases: Vec<ObjectId>,
    cancel: &AtomicBool,
) -> Result<ObjectId, MergeError> {
    let mut known: HashMap<Vec<ObjectId>, ObjectId> = HashMap::new();
    let begin = |mut all: Vec<ObjectId>| -> Result<Task, ObjectError> {
        all.truncate(MAX_MERGE_BASES);
        let merged = (1, load_commit(both, &all[0])?.tree);
        Ok(Task { all, merged })
    };
    // Each task waits for the one above it. Bases are older than the commits they are bases of, so
    // the loop ends.
    let mut stack = vec![begin(bases)?];
    loop {
        let depth = stack.len();
        let task = stack.last_mut().expect("the last one returns");
        let (count, tree) = task.merged;
        let Some(next) = task.all.get(count).copied() else {
            let done = stack.pop().expect("it was there just before");
            if stack.is_empty() {
                return Ok(tree);
            }
            known.insert(done.all, tree);
            continue;
        };
        let mut bases = common(both, &task.all[..count], &next)?;
        bases.truncate(MAX_MERGE_BASES);
        let base = match bases[..] {
            [] => None,
            [only] => Some(load_commit(both, &only)?.tree),
            _ => match known.get(&bases) {
                Some(tree) => Some(*tree),
                None if depth >= MAX_BASE_DEPTH => Some(load_commit(both, &bases[0])?.tree),
                None => {
                    stack.push(begin(bases)?);
                    continue;
                }
            },
        };
        let trees = Trees {
            base,
            ours: tree,
            theirs: load_commit(both, &next)?.tree,
        };
        let mut tee = Tee {
            made: both.made,
            writer: &mut *writer,
        };
        let merged = merge_trees(both, &mut tee, trees, cancel)?;
        task.merged = (count + 1, merged.tree.id);
    }
}

/// Returns the merge bases of `next` and the merge of `merged`.
fn common(
    reader: &dyn ObjectRead,
    merged: &[ObjectId],
    next: &ObjectId,
) -> Result<Vec<ObjectId>, ObjectError> {
    let mut all = Vec::new();
    for one in merged {
        all.extend(merge_bases(reader, one, next)?);
    }
    best_of(reader, &all)
}
