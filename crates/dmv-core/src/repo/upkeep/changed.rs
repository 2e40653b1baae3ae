//! Finds out which paths commits changed, for `log -- PATH` and `blame`.
//!
//! `repack` and imports do this. Who may free packs writes the file, so one command at a time does.

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
use crate::repo::base::keeping::{self, RightToFree};
use crate::repo::base::repo::Repo;
use crate::repo::look;
use crate::threads::{cores, start_in};
use crate::vfs::{OsVfs, write_durably_by};
use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::time::Instant;

/// Commits that are compared before anything stops.
const PORTION: usize = 4096;

/// What was found out.
#[derive(Clone, Copy, Debug, Default)]
pub struct ChangeTable {
    /// The number of commits whose changes are known now and were not before.
    pub commits: u64,
    /// Whether no commit is left, but for those that cannot be compared.
    pub finished: bool,
}

/// Compares each commit of the repository's history with its first parent, unless that is done, and
/// writes the table. Stops at `until`, and keeps what it has.
pub fn find(
    repo: &Repo,
    _: &RightToFree,
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
        // Only one process has the right, so the name is free, or left by one that was killed.
        let temp = path.with_extension("new");
        let written = write_durably_by(&OsVfs, &path, &temp, &builder.encode());
        written.context("write", &path).map_err(RepoError::Io)?;
    }
    Ok(ChangeTable { commits, finished })
}

impl Repo {
    /// Notes which paths commits changed, for `log -- PATH` and `blame`, as `repack` does. Does nothing if another
    /// command frees space.
    pub fn note_changed_paths(&self, job: &Job) -> Result<(), RepoError> {
        match keeping::free_alone(self) {
            Ok(right) => find(self, &right, None, job).map(|_| ()),
            Err(RepoError::Busy(_)) => Ok(()),
            Err(e) => Err(e),
        }
    }
}

/// Adds the commits that the table lacks. Returns false if the time was over.
fn add_all(
    repo: &Repo,
    builder: &mut Builder,
    until: Option<Instant>,
    job: &Job,
) -> Result<bool, RepoError> {
    job.begin_part();
    let tips: BTreeSet<ObjectId> = repo.complete_commits()?.into_iter().collect();
    let mut walk = Ancestors::new(repo.objects(), tips);
    loop {
        let mut portion = Vec::new();
        while portion.len() < PORTION {
            match walk.next() {
                Some(Ok((id, _))) if builder.knows(&id) => {}
                Some(Ok(found)) => portion.push(found),
                Some(Err(e)) if is_unreadable(&e) => break,
                Some(Err(e)) => return Err(e.into()),
                None => break,
            }
        }
        if portion.is_empty() || builder.is_full() {
            return Ok(true);
        }
        job.check()?;
        if until.is_some_and(|until| Instant::now() >= until) {
            return Ok(false);
        }
        add_portion(repo.objects(), builder, &portion)?;
    }
}

/// Adds commits, which all cores compare.
fn add_portion(
    reader: &dyn ObjectRead,
    builder: &mut Builder,
    commits: &[(ObjectId, Commit)],
) -> Result<(), RepoError> {
    let threads = cores();
    let each = commits.len().div_ceil(threads);
    std::thread::scope(|scope| {
        let compare = |part: &'_ [(ObjectId, Commit)]| {
            let found = part.iter().map(|(_, commit)| changes(reader, commit));
            found.collect::<Result<Vec<_>, RepoError>>()
        };
        let parts = commits.chunks(each);
        let started = parts.map(|part| start_in(scope, move || compare(part)));
        let started = started.collect::<Result<Vec<_>, _>>()?;
        let mut ids = commits.iter().map(|(id, _)| id);
        for thread in started {
            let found = thread.join().expect("comparing does not panic")?;
            for (changes, id) in found.iter().zip(&mut ids) {
                if let Some(changes) = changes {
                    builder.add(id, changes);
                }
            }
        }
        Ok(())
    })
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
