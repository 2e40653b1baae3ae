//! Finds out which paths commits changed, for `log -- PATH` and `blame`.

use crate::diff::diff_trees;
use crate::hash::ObjectId;
use crate::history::changed_paths::{Builder, Changes, Unusable};
use crate::history::{Ancestors, load_commit};
use crate::job::Job;
use crate::object::commit::Commit;
use crate::object::name::RepoPath;
use crate::object::tree::TreeEntry;
use crate::object::{ObjectError, ObjectRead};
use crate::path::PathContext;
use crate::repo::base::error::RepoError;
use crate::repo::base::handle::Handle;
use crate::repo::look;
use crate::vfs::{OsVfs, write_durably_by};
use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::time::Instant;

/// What was found out.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ChangeTable {
    /// The number of commits whose changes are known now and were not before.
    pub commits: u64,
    /// Whether no commit is left, but for those that cannot be compared.
    pub finished: bool,
}

/// Compares each commit of the repository's history with its first parent, unless that is done, and
/// writes the table. Stops at `until`, and keeps what it has.
pub(super) fn find(
    repo: &Handle,
    until: Option<Instant>,
    job: &Job,
) -> Result<ChangeTable, RepoError> {
    let known = match look::changed::load(repo) {
        Ok(known) => known,
        Err(Unusable::Damaged) => Default::default(),
        // A later version of the program knows more.
        Err(Unusable::Later) => {
            return Ok(ChangeTable {
                commits: 0,
                finished: true,
            });
        }
    };
    let mut builder = Builder::new(known);
    let finished = add_all(repo, &mut builder, until, job)?;
    let commits = builder.added() as u64;
    if commits > 0 {
        let path = look::changed::path(repo);
        // Only one process repacks, so the name is free, or left by one that was killed.
        let temp = path.with_extension("new");
        let written = write_durably_by(&OsVfs, &path, &temp, &builder.encode());
        written.context("write", &path).map_err(RepoError::Io)?;
    }
    Ok(ChangeTable { commits, finished })
}

/// Adds the commits that the table lacks. Returns false if the time was over.
fn add_all(
    repo: &Handle,
    builder: &mut Builder,
    until: Option<Instant>,
    job: &Job,
) -> Result<bool, RepoError> {
    job.begin_part();
    let tips: BTreeSet<ObjectId> = look::history::complete_commits(repo)?.into_iter().collect();
    for found in Ancestors::new(repo.objects(), tips) {
        let (id, commit) = match found {
            Ok(found) => found,
            Err(e) if is_unreadable(&e) => break,
            Err(e) => return Err(e.into()),
        };
        if job.is_cancelled() {
            return Err(RepoError::Cancelled);
        }
        if until.is_some_and(|until| Instant::now() >= until) {
            return Ok(false);
        }
        if builder.is_full() {
            break;
        }
        if !builder.knows(&id)
            && let Some(changes) = changes(repo.objects(), &commit)?
        {
            builder.add(&id, &changes);
        }
    }
    Ok(true)
}

/// Returns the paths that `commit` changed. `None` if a tree or the parent cannot be read.
fn changes(reader: &dyn ObjectRead, commit: &Commit) -> Result<Option<Changes>, RepoError> {
    let mut changes = Changes::default();
    let mut compare = || -> Result<(), ObjectError> {
        let parent = commit.parents.first();
        let parent = parent.map(|id| load_commit(reader, id)).transpose()?;
        let before = parent.map(|parent| parent.tree);
        let mut add = |path: &RepoPath, _: Option<&TreeEntry>, _: Option<&TreeEntry>| {
            Ok::<_, ObjectError>(if changes.add(path) {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            })
        };
        // Beyond the limit, the rest does not matter.
        let _ = diff_trees(reader, before, Some(commit.tree), &mut add)?;
        Ok(())
    };
    match compare() {
        Ok(()) => Ok(Some(changes)),
        Err(e) if is_unreadable(&e) => Ok(None),
        Err(e) => Err(e.into()),
    }
}

/// Returns whether an object is the fault. To report it is the work of others.
fn is_unreadable(e: &ObjectError) -> bool {
    use ObjectError::{Damaged, Missing, TooNew};
    matches!(e, Missing { .. } | Damaged { .. } | TooNew { .. })
}
