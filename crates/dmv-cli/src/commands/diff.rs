//! `dmv diff`

use crate::candidates;
use crate::compare::named::print_name;
use crate::compare::purges::Purges;
use crate::compare::side::Side;
use crate::compare::stat::StatTable;
use crate::compare::{Comparer, UNREADABLE, lacks};
use crate::context::{CommandUse, Context};
use crate::failure::{EXIT_ABSENT, EXIT_DIFFERS, EXIT_INCOMPLETE, EXIT_OK, Failure};
use crate::format::text::count;
use crate::revisions::{self, RevisionsAndPaths};
use crate::supply::supplied;
use dmv_core::diff::{DiffVisitor, diff_trees};
use dmv_core::hash::ObjectId;
use dmv_core::object::name::{RepoPath, escape};
use dmv_core::object::root::Lack;
use dmv_core::object::tree::TreeEntry;
use dmv_core::repo::{
    AbsentError, Rename, Renames as Found, Repo, RepoError, StatusOptions, WorktreeChange,
    WorktreeDiff, WorktreeSide,
};
use dmv_core::worktree::scan::Select;
use dmv_core::worktree::select::Paths;
use dmv_core::worktree::snapshot::Problem;
use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::ops::ControlFlow;

/// Show changes between commits, or of the worktree
///
/// Shows text files as a unified diff. For other files, shows the changed byte ranges, and how many
/// bytes are shared and new.
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  dmv diff\n  dmv diff v1.0 @ --stat\n  dmv diff --name-status v1.0 @\n  dmv diff @~2 media/scene4"
)]
pub struct Args {
    /// The old commit (default: @) and the new one (default: the worktree), or A..B; then paths
    #[arg(value_name = "A B|PATH", add = candidates::revision_or_path())]
    words: Vec<OsString>,
    /// Show one line per file
    #[arg(long)]
    stat: bool,
    /// Show only the paths that differ
    #[arg(long, conflicts_with = "stat")]
    name_only: bool,
    /// Show the paths that differ, with the letters of Git: A added, M modified, D deleted, R renamed
    /// (with the share that is the same, and both paths), T another type, U conflict
    #[arg(long, conflicts_with_all = ["stat", "name_only"])]
    name_status: bool,
    /// Exit with 1 if there are differences
    #[arg(long)]
    exit_code: bool,
    /// Compare only these files and directories
    #[arg(last = true, value_name = "PATH", add = candidates::path())]
    paths: Vec<OsString>,
}

impl Args {
    /// How the command uses the terminal: no pager shows the output if the exit code is the answer.
    pub fn command_use(&self) -> CommandUse {
        if self.exit_code {
            CommandUse::Reads
        } else {
            CommandUse::Shows
        }
    }
}

/// Runs the command.
pub fn run(context: &Context, args: &Args) -> Result<u8, Failure> {
    let repo = context.repo()?;
    let words: Vec<&OsString> = args.words.iter().collect();
    let RevisionsAndPaths { revisions, paths } =
        revisions::sort(context, &repo, &words, 2, &args.paths)?;
    let (old, new) = sides(context, &repo, &revisions)?;
    let paths = Paths::new(match new {
        Some(_) => context.paths(&repo, &paths)?,
        None => context.paths_to_look_at(&repo, &paths, old)?,
    });
    let made = new.map(|id| repo.read_commit(&id)).transpose()?;
    let names = args.name_only || args.name_status;
    let with_text = !args.stat && !names;
    let comparer = Comparer::new(context, &repo, with_text, made.as_ref())?;
    let (mut table, mut differs, mut is_complete) = (StatTable::default(), false, true);
    let mut unread = Vec::new();
    let mut show = |path: &RepoPath, renamed: Option<&Rename>, old: Side<'_>, new: Side<'_>| {
        differs = true;
        if names {
            return print_name(context, path, renamed, [old, new], args.name_status);
        }
        let diff = match comparer.compare(path, renamed, old, new) {
            // The others can be compared.
            Err(failure) if failure.code == UNREADABLE => {
                is_complete = false;
                context.ui.warn(failure);
                return Ok(());
            }
            diff => diff?,
        };
        match (context.globals.json, args.stat) {
            (true, _) => context.ui.json(&diff),
            (false, true) => table.add(context, &diff),
            (false, false) => diff.print(context),
        }
    };
    if let Some(new) = new {
        let states = States {
            old,
            new: Some(new),
        };
        each_change(context, &repo, states, &paths, with_text, &mut show)?;
    } else {
        let options = StatusOptions {
            select: &paths,
            settings: context.settings()?,
        };
        let watch = context.watch("scanning");
        let WorktreeDiff { changes, problems } =
            repo.diff_worktree(old, &paths, &options, &context.job)?;
        unread = problems;
        let renames = Renames::new(context, repo.renames_among(&changes, &context.job)?);
        drop(watch);
        bring_changes(context, &repo, &changes, with_text)?;
        for change in &changes {
            let path = &change.path;
            if change.new.is_none() && renames.is_source(path) {
                continue;
            }
            let renamed = renames.to(path).filter(|_| change.old.is_none());
            let old = Side::of_entry(change.old.as_ref());
            let new = Side::of_worktree(change.new.as_ref());
            show(&change.path, renamed, old, new)?;
        }
    }
    table.print(context)?;
    for Problem { path, why } in &unread {
        context
            .ui
            .warn(format_args!("cannot read {}: {why}", escape(path)));
    }
    Ok(match (is_complete && unread.is_empty(), differs) {
        (false, _) => EXIT_INCOMPLETE,
        (true, true) if args.exit_code => EXIT_DIFFERS,
        _ => EXIT_OK,
    })
}

/// The commits to compare; without a new one it is the worktree.
fn sides(
    context: &Context,
    repo: &Repo,
    revisions: &[String],
) -> Result<(Option<ObjectId>, Option<ObjectId>), Failure> {
    let revision = |text: &String| context.revision(repo, "diff", text);
    Ok(match revisions {
        // Not what the branch is at: that may have been moved from elsewhere.
        [] => (repo.base_commit()?, None),
        [old, new, ..] => (Some(revision(old)?), Some(revision(new)?)),
        [old] => match context.range(repo, "diff", old)? {
            Some((old, new)) => (Some(old), Some(new)),
            None => (Some(revision(old)?), None),
        },
    })
}

/// Says so where renamed files may be missing.
pub fn tell_limited(context: &Context, found: &Found) {
    if found.is_limited {
        let text = "note: too many files were added or deleted to find all renames; some appear as deleted and added";
        context.ui.note(text);
    }
}

/// Takes one path that differs: the path, what it was renamed from, and both states.
type Show<'a> =
    dyn FnMut(&RepoPath, Option<&Rename>, Side<'_>, Side<'_>) -> Result<(), Failure> + 'a;

/// Renames, found by their paths.
struct Renames {
    to: HashMap<RepoPath, Rename>,
    from: HashSet<RepoPath>,
}

impl Renames {
    fn new(context: &Context, found: Found) -> Renames {
        tell_limited(context, &found);
        let renames = found.list;
        let from = renames.iter().map(|rename| rename.from.clone()).collect();
        let by_path = |rename: Rename| (rename.to.clone(), rename);
        let to = renames.into_iter().map(by_path).collect();
        Renames { to, from }
    }

    fn to(&self, path: &RepoPath) -> Option<&Rename> {
        self.to.get(path)
    }

    /// Whether what was at `path` is told with its new path.
    fn is_source(&self, path: &RepoPath) -> bool {
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
fn bring(
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

/// Brings what is needed to compare changes of the worktree and is not here.
fn bring_changes(
    context: &Context,
    repo: &Repo,
    changes: &[WorktreeChange],
    with_text: bool,
) -> Result<(), Failure> {
    if !repo.is_partial() {
        return Ok(());
    }
    bring(context, repo, || {
        let everything = Paths::default();
        let mut needs = Needs::new(repo, &everything, with_text);
        for WorktreeChange { path, old, new } in changes {
            let new = match new {
                Some(WorktreeSide::Entry(entry)) => Some(entry),
                _ => None,
            };
            needs.add(path, [old.as_ref(), new])?;
        }
        needs.answer()
    })
}

/// What is needed to compare, and not here.
struct Needs<'a> {
    repo: &'a Repo,
    purges: Purges<'a>,
    paths: &'a Paths,
    with_text: bool,
    lacks: Vec<Lack>,
}

impl<'a> Needs<'a> {
    fn new(repo: &'a Repo, paths: &'a Paths, with_text: bool) -> Needs<'a> {
        Needs {
            repo,
            purges: Purges::known_to(repo),
            paths,
            with_text,
            lacks: Vec::new(),
        }
    }

    fn add(&mut self, path: &RepoPath, sides: [Option<&TreeEntry>; 2]) -> Result<(), RepoError> {
        self.lacks
            .extend(lacks(&self.purges, path, sides, self.with_text)?);
        Ok(())
    }

    fn answer(self) -> Result<(), RepoError> {
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
