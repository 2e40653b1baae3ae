//! Resolve: settles conflicts. The worktree's files get the chosen content, and the next commit
//! records it. In a bare repository, the choice is committed at once.

pub mod steps;

use crate::fsutil::SafeDir;
use crate::job::Job;
use crate::merge::{MergeResult, edit_tree, entry_of};
use crate::object::ObjectWrite;
use crate::object::conflict::Term;
use crate::object::name::RepoPath;
use crate::object::root::Lack;
use crate::path::DiskPath;
use crate::refs::Effect;
use crate::repo::base::change::{ChangeKind, PathChange};
use crate::repo::base::error::{AbsentError, ConflictError, FilesError, LookError, RepoError};
use crate::repo::base::publish::OperationRequest;
use crate::repo::base::repo::Repo;
use crate::repo::base::transaction::Transaction;
use crate::repo::base::worktree;
use crate::repo::base::worktree::WorktreeSettings;
use crate::repo::conflict::at::{ConflictAt, FoundConflicts};
use crate::repo::conflict::choice::Choice;
use crate::repo::conflict::choices::{ConflictResolution, edits_of};
use crate::repo::conflict::form::{Form, Shown};
use crate::repo::conflict::names::{last_name, stem_and_ending};
use crate::repo::conflict::pending::{PendingConflict, noted};
use crate::repo::conflict::settle::stat_of;
use crate::repo::conflict::{at, choices, form, settle};
use crate::repo::files::checkout::restore;
use crate::repo::files::checkout::switch::Switch;
use crate::repo::files::checkout::target::{SwitchResult, SwitchTo};
use crate::repo::files::open_worktree::OpenWorktree;
use crate::repo::files::pending::{PutAside, Which};
use crate::repo::files::saved::set_steps;
use crate::repo::files::status::StatusOptions;
use crate::repo::files::steps::StoredSteps;
use crate::repo::files::{checkout, open_worktree, status};
use crate::repo::look::entries::{Location, Selection};
use crate::repo::look::lack::{LackOf, refuse};
use crate::repo::verbs::merge;
use crate::repo::verbs::merge::{MergeOptions, MergeReport};
use crate::repo::verbs::resolve::steps::Steps;
use crate::subset::Subset;
use crate::worktree::select::{Paths, is_under};
use crate::worktree::snapshot::Problem;
use std::collections::{BTreeMap, BTreeSet};

/// What a resolve did.
#[derive(Debug, Default)]
pub struct ResolveReport {
    /// The conflicts, with the paths that have the chosen content. There are none if the choice
    /// deletes the file.
    pub settled: Vec<(RepoPath, Vec<RepoPath>)>,
    /// Conflicts of the worktree that are still open.
    pub open: Vec<RepoPath>,
    /// Files that stay because the user changed them.
    pub kept: Vec<Problem>,
    /// Paths that could not be written or removed.
    pub refused: Vec<Problem>,
}

impl Repo {
    /// Resolves the conflicts at or under `paths` in the worktree.
    ///
    /// Inside the worktree's subset, writes the chosen version to the files. If the conflict, or
    /// only one of the files beside it, is outside, records the choice by path, as an operation.
    /// Either way, the next commit includes the choice. Until then, the conflict can be resolved
    /// again.
    ///
    /// This is an operation: it stores the former files, and an undo brings them back. It does not
    /// overwrite a conflict's file that was edited by hand: it fails with
    /// [`ConflictError::EditedByHand`](crate::repo::ConflictError::EditedByHand), which lists the
    /// paths, before it changes anything.
    pub fn resolve_conflicts(
        &self,
        paths: &[RepoPath],
        choice: &Choice,
        settings: &WorktreeSettings,
        request: OperationRequest,
        job: &Job,
    ) -> Result<ResolveReport, RepoError> {
        let _lock = worktree::lock_worktree(self)?;
        let mut tree = open_worktree::open_with_conflicts(self, settings, Which::All)?;
        let base = tree.base.ok_or(LookError::NoCommit)?;
        let commit = self.read_commit(&base)?;
        let form = tree.form.take().unwrap_or(Form::plain(commit.tree));
        refuse(under(form.unseen.clone(), paths))?;
        let these = choose(all_in(self, &form)?, paths, choice)
            .or_else(|e| Err(put_aside(self, &tree, paths)?.unwrap_or(e)))?;
        form.check_known(|path| these.iter().any(|at| at.path.as_bytes() == path))?;
        let (with_file, without) = by_file(&form, &tree.subset, these);
        check_not_nested(self, (&tree, &form), &with_file, &without, choice)?;
        check_choice_here(self, &with_file, choice)?;
        let mut switch = Switch::new(self, &tree, &form, &tree.subset, job);
        switch.find_dirty(settings)?;
        let open: BTreeSet<RepoPath> = open_of(&tree, &form, switch.known.dirty.clone())
            .into_iter()
            .collect();
        let mut tx = match choice {
            Choice::With(_) => Transaction::within_budget(self, &request)?,
            _ => Transaction::begin(self, &request),
        };
        let file = choices::take_chosen_file(&mut tx, choice, job)?;
        tx.objects()?;
        let mut report = ResolveReport::default();
        let mut steps = Steps::new(self, &tree, &form, &switch.known.dirty);
        settle_files(&mut steps, &with_file, &open, choice, file, &mut report)?;
        let (moves, overwrites) = steps.finish();
        let keep = settings.keep;
        let saved = restore::keep_for(&mut tx, &mut switch, overwrites, WHAT, keep, job)?;
        let steps = saved.steps.as_ref();
        if without.is_empty() {
            set_steps(
                &mut tx,
                &tree.name,
                steps,
                &saved.told,
                crate::repo::base::steps::Steps::default(),
            )?;
            tx.publish_changes(Effect::Written)?;
        } else {
            let chosen = choose_without_file(self, &tree, &form, &without, choice, file)?;
            let made = chosen.new.iter().map(|one| (one.path.clone(), one.paths()));
            report.settled.extend(made);
            let done = keep_choices(tx, &tree, &form, chosen, steps, settings, job)?;
            report.refused.extend(done.refused);
        }
        switch.bring_all(&moves)?;
        report.refused.append(&mut switch.progress.refused);
        report.settled.sort();
        let tree = open_worktree::open_with_conflicts(self, settings, Which::All)?;
        let changes = changes_by_path(self, &tree, settings, job)?;
        if let Some(form) = &tree.form {
            report.open = open_of(&tree, form, changes);
        }
        Ok(report)
    }
}

/// Returns the error for paths without a conflict, if a stash has put one aside there.
fn put_aside(
    repo: &Repo,
    tree: &OpenWorktree,
    paths: &[RepoPath],
) -> Result<Option<RepoError>, RepoError> {
    let noted = noted(repo, &tree.notes)?;
    let aside = PutAside::find(repo, tree, &noted)?;
    let found = paths.iter().find_map(|path| aside.first_under(path));
    Ok(found.map(|(path, stash)| {
        let path = path.clone();
        ConflictError::PutAside { path, stash }.into()
    }))
}

/// Returns all conflicts of a worktree, in path order: open ones, and those that a choice settles.
fn all_in(repo: &Repo, form: &Form) -> Result<Vec<ConflictAt>, RepoError> {
    let mut all: Vec<ConflictAt> = form.shown.iter().map(|shown| shown.at.clone()).collect();
    for chosen in &form.chosen {
        all.push(repo.conflict_of(&chosen.path, &chosen.conflict)?);
    }
    all.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(all)
}

/// Fails with [`ConflictError::NestedConflict`] if a chosen version has conflicts at paths of the worktree.
/// They would have no form there, since a form shows only the conflicts of a commit.
fn check_not_nested(
    repo: &Repo,
    (tree, form): (&OpenWorktree, &Form),
    with_file: &[&Shown],
    without: &[ConflictAt],
    choice: &Choice,
) -> Result<(), RepoError> {
    for at in with_file.iter().map(|shown| &shown.at).chain(without) {
        for (path, term) in at.wanted(choice, &|_, _| Ok(true))? {
            let entry = entry_of(&last_name(&path), &term, None);
            let mut nested = at::paths_in(repo.objects(), &path, &entry)?;
            nested.retain(|path| tree.subset.includes(path.as_bytes(), false));
            if let Some(inner) = nested.first() {
                return Err(ConflictError::NestedConflict {
                    path: at.path.clone(),
                    inner: inner.clone(),
                    shown_at: shown_at(form, at, choice).cloned(),
                }
                .into());
            }
        }
    }
    Ok(())
}

/// Returns where a worktree shows the version that a choice takes.
fn shown_at<'f>(form: &'f Form, at: &ConflictAt, choice: &Choice) -> Option<&'f RepoPath> {
    let label = match choice {
        Choice::Ours => "ours",
        Choice::Theirs => "theirs",
        Choice::Base => "base",
        Choice::Both | Choice::With(_) => return None,
    };
    let shown = form.shown.iter().find(|shown| shown.at.path == at.path)?;
    let versions = at.versions().into_iter().filter(|(_, term)| term.is_some());
    let n = versions.take_while(|(one, _)| one != label).count();
    shown.sides.get(n).map(|side| &side.path)
}

/// Splits conflicts into those whose files are all in the worktree, and all others.
fn by_file<'f>(
    form: &'f Form,
    subset: &Subset,
    these: Vec<ConflictAt>,
) -> (Vec<&'f Shown>, Vec<ConflictAt>) {
    // A choice without a file is about a conflict of a commit.
    let has_file = |s: &&Shown| s.is_pending || s.is_all_in(subset);
    let all_in = form.shown.iter().filter(has_file);
    let all_in: BTreeMap<&RepoPath, &Shown> = all_in.map(|s| (&s.at.path, s)).collect();
    let (mut with_file, mut without) = (Vec::new(), Vec::new());
    for at in these {
        match all_in.get(&at.path) {
            Some(shown) => with_file.push(*shown),
            None => without.push(at),
        }
    }
    (with_file, without)
}

/// Plans the steps for conflicts that have files. Fails if the user has edited any of these files.
fn settle_files(
    steps: &mut Steps<'_>,
    these: &[&Shown],
    open: &BTreeSet<RepoPath>,
    choice: &Choice,
    file: Option<Term>,
    report: &mut ResolveReport,
) -> Result<(), RepoError> {
    for shown in these {
        let path = &shown.at.path;
        let made = steps.settle(shown, open.contains(path), choice, file)?;
        report.settled.push((path.clone(), made));
    }
    report.kept.append(&mut steps.kept);
    if !steps.in_the_way.is_empty() {
        let paths = std::mem::take(&mut steps.in_the_way);
        let (what, paths) = (WHAT, DiskPath::all(paths));
        return Err(FilesError::WouldLose { what, paths }.into());
    }
    if steps.lost.is_empty() {
        return Ok(());
    }
    let in_dirs = steps.lost_in_dirs()?;
    let lost = std::mem::take(&mut steps.lost);
    let is_open = |path: &[u8]| open.iter().any(|open| open.as_bytes() == path);
    let settled = !lost.iter().any(|path| is_open(path));
    if !settled && !in_dirs.is_empty() {
        let (what, paths) = (WHAT, DiskPath::all(in_dirs));
        return Err(FilesError::WouldLose { what, paths }.into());
    }
    let paths = DiskPath::all(lost);
    Err(ConflictError::EditedByHand { paths, settled }.into())
}

fn changes_by_path(
    repo: &Repo,
    tree: &OpenWorktree,
    settings: &WorktreeSettings,
    job: &Job,
) -> Result<BTreeMap<Vec<u8>, ChangeKind>, RepoError> {
    let select = Paths::default();
    let options = StatusOptions {
        select: &select,
        settings: settings.clone(),
    };
    let changes = status::changes_of(repo, tree, &options, job)?.into_iter();
    let by_path = changes.map(|PathChange { path, kind }| (path.into_bytes(), kind));
    Ok(by_path.collect())
}

/// Publishes choices for conflicts that have no file. The same operation publishes the `steps` that keep
/// the files that other conflicts overwrite.
fn keep_choices(
    tx: Transaction<'_>,
    tree: &OpenWorktree,
    form: &Form,
    chosen: NewChoices,
    steps: Option<&StoredSteps>,
    settings: &WorktreeSettings,
    job: &Job,
) -> Result<SwitchResult, RepoError> {
    let (repo, request) = (tx.repo(), tx.request().clone());
    let base = tree.base.ok_or(LookError::NoCommit)?;
    let commit = repo.read_commit(&base)?;
    let mut noted = tree.notes.clone();
    choices::note_in(&mut noted, &[chosen.new, chosen.others].concat());
    let pending = form.shown.iter().filter(|shown| shown.is_pending);
    let pending = pending.map(PendingConflict::of).collect();
    // The files of conflicts that no commit has stay as they are.
    let form = form::form_with(repo, &commit, &noted)?.with_pending(repo, pending)?;
    let switch_to = SwitchTo {
        notes: &noted,
        steps,
        ..SwitchTo::new(WHAT, &request, form, tree, settings)
    };
    checkout::switch_files(tx, tree, &switch_to, job, |tx| {
        tx.publish_changes(Effect::Written)
    })
}

/// Returns whether a path in the worktree is known to have no file.
fn is_nothing_at(root: &SafeDir, path: &RepoPath) -> bool {
    matches!(stat_of(root, path.as_bytes()), Ok(None))
}

/// The choices for conflicts that have no file.
struct NewChoices {
    new: Vec<ConflictResolution>,
    /// Earlier choices that still count.
    others: Vec<ConflictResolution>,
}

/// Makes a choice for conflicts that have no file.
fn choose_without_file(
    repo: &Repo,
    tree: &OpenWorktree,
    form: &Form,
    these: &[ConflictAt],
    choice: &Choice,
    file: Option<Term>,
) -> Result<NewChoices, RepoError> {
    let (again, others): (Vec<ConflictResolution>, Vec<ConflictResolution>) = form
        .chosen
        .iter()
        .cloned()
        .partition(|chosen| these.iter().any(|at| at.path == chosen.path));
    let former: BTreeSet<&RepoPath> = again
        .iter()
        .flat_map(|chosen| &chosen.beside)
        .map(|(path, _)| path)
        .collect();
    let is_free = |path: &RepoPath| former.contains(path) || is_nothing_at(&tree.root, path);
    let new = choices::choose(repo, form.stored, &others, these, choice, file, &is_free)?;
    Ok(NewChoices { new, others })
}

impl Repo {
    /// Settles the conflicts at or under `paths` in a repository without a worktree: commits the choice
    /// at once.
    pub fn resolve_in_commit(
        &self,
        paths: &[RepoPath],
        choice: &Choice,
        options: &MergeOptions,
        job: &Job,
    ) -> Result<(ResolveReport, MergeReport), RepoError> {
        let site = merge::site(self, &options.settings)?;
        let head = site.ours.ok_or(LookError::NoCommit)?;
        let commit = self.read_commit(&head)?;
        let FoundConflicts { here: all, unseen } = at::conflicts_here(self, &commit)?;
        refuse(under(unseen, paths))?;
        let inherited = at::conflict_paths(self, &commit)?.into_iter().collect();
        let these = choose(all, paths, choice)?;
        let mut tx = Transaction::within_budget(self, &options.request)?;
        let file = choices::take_chosen_file(&mut tx, choice, job)?;
        tx.objects()?;
        let chosen = choices::choose(self, commit.tree, &[], &these, choice, file, &|_| true)?;
        let edits = edits_of(&chosen);
        let mut merge = |writer: &mut dyn ObjectWrite| {
            let tree = edit_tree(self.objects(), writer, commit.tree, &edits)?;
            Ok(MergeResult::of_tree(tree))
        };
        let made = merge::make(&mut tx, &mut merge, inherited, vec![head], options)?;
        let done = merge::land(tx, &site, made, WHAT, options, job)?;
        let open = done.conflicts.iter();
        let settled = chosen.into_iter().map(|one| (one.paths(), one.path));
        let report = ResolveReport {
            settled: settled.map(|(paths, path)| (path, paths)).collect(),
            open: open.map(|at| at.path.clone()).collect(),
            kept: Vec::new(),
            refused: Vec::new(),
        };
        Ok((report, done))
    }
}

/// Fails with [`AbsentError::Lacking`] if the chosen content is not stored.
fn check_choice_here(repo: &Repo, chosen: &[&Shown], choice: &Choice) -> Result<(), RepoError> {
    if !repo.is_partial() {
        return Ok(());
    }
    let mut lacks = Vec::new();
    for Shown { at, .. } in chosen {
        let terms = match choice {
            Choice::Ours => vec![at.ours()],
            Choice::Theirs => vec![at.theirs()],
            Choice::Base => vec![at.base()],
            Choice::Both => at.conflict.sides.clone(),
            Choice::With(_) => Vec::new(),
        };
        for term in terms.iter().flatten() {
            let entry = entry_of(&last_name(&at.path), term, None);
            let wanted = Selection {
                path: &at.path,
                located: &Location::Entry(entry),
                subset: &Subset::everything(),
            };
            lacks.extend(repo.lacking(wanted, LackOf::Content)?);
        }
    }
    if lacks.is_empty() {
        Ok(())
    } else {
        Err(AbsentError::Lacking(lacks).into())
    }
}

impl ConflictAt {
    /// Returns which version a choice puts at which path. Returns nothing for [`Choice::With`],
    /// whose file is not known here.
    ///
    /// `is_free` returns whether a path is free for a further version.
    pub(crate) fn wanted(
        &self,
        choice: &Choice,
        is_free: &dyn Fn(&RepoPath, &Term) -> Result<bool, RepoError>,
    ) -> Result<Vec<(RepoPath, Term)>, RepoError> {
        let here = |term: Option<Term>| Vec::from_iter(term.map(|t| (self.path.clone(), t)));
        let mut wanted = match choice {
            Choice::Ours => here(self.ours()),
            Choice::Theirs => here(self.theirs()),
            Choice::Base => here(self.base()),
            Choice::With(_) => Vec::new(),
            Choice::Both => {
                let mut all = Vec::new();
                let sides = &self.conflict.sides;
                for (n, side) in sides.iter().enumerate() {
                    let Some(side) = side else { continue };
                    let is_free = |path: &RepoPath| is_free(path, side);
                    let path = match n {
                        0 => self.path.clone(),
                        n if n + 1 == sides.len() => self.version_name("theirs", &is_free)?,
                        n => self.version_name(&format!("side{}", n + 1), &is_free)?,
                    };
                    all.push((path, *side));
                }
                all
            }
        };
        // A single version gets the conflict's own name.
        if let [(path, _)] = &mut wanted[..] {
            *path = self.path.clone();
        }
        Ok(wanted)
    }

    /// Returns a free name for another version of a file. The label goes before the ending:
    /// `shot-theirs.png`.
    fn version_name(
        &self,
        label: &str,
        is_free: &dyn Fn(&RepoPath) -> Result<bool, RepoError>,
    ) -> Result<RepoPath, RepoError> {
        let (stem, ending) = stem_and_ending(&self.path);
        let dir = self.path.parent().unwrap_or_default();
        for n in 1u32.. {
            let number = if n > 1 { n.to_string() } else { String::new() };
            let middle = format!("-{label}{number}");
            let room = crate::limits::MAX_NAME_BYTES - (middle.len() + ending.len()).min(200);
            let stem = &stem[..stem.len().min(room)];
            let name = [stem, middle.as_bytes(), ending].concat();
            let path = Repo::parse_path(&crate::worktree::join(dir.as_bytes(), &name))?;
            if is_free(&path)? {
                return Ok(path);
            }
        }
        unreachable!("a directory has fewer names than numbers")
    }
}

/// Returns the conflicts of a worktree that are not settled.
fn open_of(
    tree: &OpenWorktree,
    form: &Form,
    changes: BTreeMap<Vec<u8>, ChangeKind>,
) -> Vec<RepoPath> {
    let changes = changes.into_iter();
    let changes = changes.map(|(path, kind)| PathChange {
        path: RepoPath::from_checked(path),
        kind,
    });
    settle::explain(&tree.root, form, changes.collect()).open
}

/// Names the action in messages that refuse it.
const WHAT: &str = "this resolve";

/// Returns the lacking content of the conflicts at or under any of `paths`.
fn under(mut lacks: Vec<Lack>, paths: &[RepoPath]) -> Vec<Lack> {
    lacks.retain(|lack| {
        paths
            .iter()
            .any(|path| is_under(lack.path.as_bytes(), path.as_bytes()))
    });
    lacks
}

/// Returns the conflicts at or under each of `paths`.
fn choose(
    all: Vec<ConflictAt>,
    paths: &[RepoPath],
    choice: &Choice,
) -> Result<Vec<ConflictAt>, RepoError> {
    let is_at = |at: &ConflictAt, path: &RepoPath| at.path.starts_with(path);
    for path in paths {
        if !all.iter().any(|at| is_at(at, path)) {
            let path = path.clone();
            return Err(ConflictError::NoConflict { path }.into());
        }
    }
    let mut these = all;
    these.retain(|at| paths.iter().any(|path| is_at(at, path)));
    if let (Choice::With(_), [_, _, ..]) = (choice, &these[..]) {
        return Err(LookError::WrongKind {
            path: paths[0].clone(),
            what: "more than one conflict, and a file can settle only one",
        }
        .into());
    }
    Ok(these)
}
