//! What differs between two commits, file by file.

use crate::compare::purges::Purges;
use crate::compare::side::Side;
use crate::compare::stat::StatTable;
use crate::compare::{Comparer, FileDiff, lacks};
use crate::prelude::*;
use dmv_core::diff::{DiffVisitor, diff_trees};
use dmv_core::object::commit::Commit;
use dmv_core::object::root::Lack;
use dmv_core::object::tree::TreeEntry;
use dmv_core::repo::{AbsentError, Rename, Renames as FoundRenames};
use dmv_core::worktree::scan::Select;
use dmv_core::worktree::select::Paths;
use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;

/// How much of a commit's changes is shown.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Detail {
    /// One line for each file, and sums.
    Stat,
    /// All of it.
    Full,
}

/// A commit that is shown.
#[derive(Clone, Copy)]
pub struct CommitAt<'a> {
    /// Its id.
    pub id: &'a ObjectId,
    /// What it says.
    pub commit: &'a Commit,
}

/// Shows what a commit changed under `paths` against its first parent; for JSON it is returned.
pub fn changes(
    context: &Context,
    repo: &Repo,
    shown: CommitAt<'_>,
    paths: &Paths,
    detail: Detail,
) -> Result<Vec<FileDiff>, Failure> {
    let mut changes = Vec::new();
    let parent = shown.commit.parents.first().copied();
    if let Some(parent) = parent
        && let Err(RepoError::Absent(AbsentError::Object { .. })) = repo.read_commit(&parent)
    {
        let text = "note: changes not shown: the parent commit is absent from this repository";
        context.ui.note(text);
        return Ok(changes);
    }
    let with_text = detail == Detail::Full;
    let comparer = Comparer::new(context, repo, with_text, Some(shown.commit))?;
    let mut table = StatTable::default();
    let mut show = |path: &RepoPath, renamed: Option<&Rename>, old: Side<'_>, new: Side<'_>| {
        let diff = comparer.compare(path, renamed, old, new)?;
        match (context.ui.is_json(), detail) {
            (true, _) => changes.push(diff),
            (false, Detail::Stat) => table.add(context, &diff)?,
            (false, Detail::Full) => diff.print(context)?,
        }
        Ok(())
    };
    let states = States {
        old: parent,
        new: Some(*shown.id),
    };
    each_change(context, repo, states, paths, with_text, &mut show)?;
    table.print(context)?;
    Ok(changes)
}

/// Says so where renamed files may be missing.
pub fn tell_limited(context: &Context, found: &FoundRenames) {
    if found.is_limited {
        let text = "note: too many files were added or deleted to find all renames; some appear as deleted and added";
        context.ui.note(text);
    }
}

/// Takes one path that differs: the path, what it was renamed from, and both states.
type Show<'a> =
    dyn FnMut(&RepoPath, Option<&Rename>, Side<'_>, Side<'_>) -> Result<(), Failure> + 'a;

/// Renames, found by their paths.
pub struct Renames {
    to: HashMap<RepoPath, Rename>,
    from: HashSet<RepoPath>,
}

impl Renames {
    /// Sorts what was found. Says if renamed files may be missing.
    pub fn new(context: &Context, found: FoundRenames) -> Renames {
        tell_limited(context, &found);
        let renames = found.list;
        let from = renames.iter().map(|rename| rename.from.clone()).collect();
        let by_path = |rename: Rename| (rename.to.clone(), rename);
        let to = renames.into_iter().map(by_path).collect();
        Renames { to, from }
    }

    /// Returns the rename to a path.
    pub fn to(&self, path: &RepoPath) -> Option<&Rename> {
        self.to.get(path)
    }

    /// Returns whether what was at `path` is printed with its new path.
    pub fn is_source(&self, path: &RepoPath) -> bool {
        self.from.contains(path)
    }
}

/// Two commits that are compared; `None`: the empty state before the first one.
pub struct States {
    /// The old state.
    pub old: Option<ObjectId>,
    /// The new state.
    pub new: Option<ObjectId>,
}

/// Visits what differs between two commits under `paths`. What is needed and not here is brought:
/// content, if lines are wanted (`with_text`), and directories that were asked for by path; others
/// are named.
pub fn each_change(
    context: &Context,
    repo: &Repo,
    states: States,
    paths: &Paths,
    with_text: bool,
    show: &mut Show<'_>,
) -> Result<(), Failure> {
    let tree_of = |commit: Option<ObjectId>| match commit {
        Some(id) => repo.read_commit(&id).map(|commit| Some(commit.tree)),
        None => Ok(None),
    };
    let (old, new) = (tree_of(states.old)?, tree_of(states.new)?);
    if repo.is_partial() {
        bring(context, repo, || {
            let mut needs = Needs::new(repo, paths, with_text);
            // Never `Break`: everything is looked at.
            let _ = diff_trees(repo.objects(), old, new, &mut needs)?;
            needs.answer()
        })?;
    }
    let renames = Renames::new(
        context,
        repo.renames_between(old, new, paths, &context.job)?,
    );
    let mut visitor = Visitor {
        paths,
        renames: &renames,
        show,
        repo,
        absent: Vec::new(),
    };
    // Never `Break`: everything is shown.
    let _ = diff_trees(repo.objects(), old, new, &mut visitor)?;
    let absent = visitor.absent;
    if let Some(first) = absent.first() {
        let (n, first) = (absent.len() as u64, escape(first.as_bytes()));
        let what = count(n, "directory", "directories");
        let all = if n == 1 { "" } else { " and others" };
        let text = format_args!(
            "note: also changed, but absent from this repository: {first}{all} ({what})"
        );
        context.ui.note(text);
    }
    Ok(())
}

/// Brings what `find` lacks. What no remote in reach has stays absent, and the comparison marks it.
pub fn bring(
    context: &Context,
    repo: &Repo,
    find: impl FnMut() -> Result<(), RepoError>,
) -> Result<(), Failure> {
    match supplied(context, repo, "reading", find) {
        Err(failure) if failure.exit == EXIT_ABSENT => {
            context.ui.note(format_args!("note: {}", failure.message));
            Ok(())
        }
        done => done,
    }
}

/// What is needed to compare, and not here.
pub struct Needs<'a> {
    repo: &'a Repo,
    purges: Purges<'a>,
    paths: &'a Paths,
    with_text: bool,
    lacks: Vec<Lack>,
}

impl<'a> Needs<'a> {
    /// Returns an empty list. `with_text`: the lines themselves are needed.
    pub fn new(repo: &'a Repo, paths: &'a Paths, with_text: bool) -> Needs<'a> {
        Needs {
            repo,
            purges: Purges::known_to(repo),
            paths,
            with_text,
            lacks: Vec::new(),
        }
    }

    /// Adds what is needed to compare two states of a path.
    pub fn add(
        &mut self,
        path: &RepoPath,
        sides: [Option<&TreeEntry>; 2],
    ) -> Result<(), RepoError> {
        self.lacks
            .extend(lacks(&self.purges, path, sides, self.with_text)?);
        Ok(())
    }

    /// Fails if something is absent.
    pub fn answer(self) -> Result<(), RepoError> {
        if self.lacks.is_empty() {
            Ok(())
        } else {
            Err(AbsentError::Lacking(self.lacks).into())
        }
    }
}

impl DiffVisitor for Needs<'_> {
    type Error = RepoError;

    fn enter(&mut self, dir: &RepoPath, sides: [Option<ObjectId>; 2]) -> bool {
        let is_all = self.paths.includes(b"");
        self.paths.enters(dir.as_bytes()) && (!is_all || self.repo.holds_trees(sides))
    }

    fn change(
        &mut self,
        path: &RepoPath,
        old: Option<&TreeEntry>,
        new: Option<&TreeEntry>,
    ) -> Result<ControlFlow<()>, RepoError> {
        if self.paths.includes(path.as_bytes()) {
            self.add(path, [old, new])?;
        }
        Ok(ControlFlow::Continue(()))
    }
}

struct Visitor<'a> {
    paths: &'a Paths,
    renames: &'a Renames,
    show: &'a mut Show<'a>,
    repo: &'a Repo,
    /// Directories that differ, and that are not here.
    absent: Vec<RepoPath>,
}

impl DiffVisitor for Visitor<'_> {
    type Error = Failure;

    fn joins_kinds(&self) -> bool {
        true
    }

    fn enter(&mut self, dir: &RepoPath, sides: [Option<ObjectId>; 2]) -> bool {
        if !self.paths.enters(dir.as_bytes()) {
            return false;
        }
        let here = self.repo.holds_trees(sides);
        if !here {
            self.absent.push(dir.clone());
        }
        here
    }

    fn change(
        &mut self,
        path: &RepoPath,
        old: Option<&TreeEntry>,
        new: Option<&TreeEntry>,
    ) -> Result<ControlFlow<()>, Failure> {
        let bytes = path.as_bytes();
        let told = new.is_none() && self.renames.is_source(path);
        if self.paths.includes(bytes) && !told {
            let renamed = self.renames.to(path).filter(|_| old.is_none());
            (self.show)(path, renamed, Side::of_entry(old), Side::of_entry(new))?;
        }
        Ok(ControlFlow::Continue(()))
    }
}
