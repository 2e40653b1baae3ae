//! Settling conflicts: the files of a worktree are made what was chosen; the next commit records it.

mod steps;

use super::checkout::SwitchTo;
use super::checkout::switch::Switch;
use super::choices::{Chosen, Record, stem_and_ending};
use super::conflict::{Form, Shown, last_name};
use super::lack::refuse;
use super::saved::saved_changes;
use super::settle::stat_of;
use super::status::same_as;
use super::worktree::{Tree, settled_key};
use super::{
    Asked, ChangeKind, ConflictAt, LackOf, Located, MergeOptions, MergeReport, PathChange, Repo,
    RepoError, StatusOptions, Wanted, WorktreeSettings, change,
};
use crate::fsutil::FileStat;
use crate::hash::ObjectId;
use crate::job::Job;
use crate::merge::{Merged, edit_tree, entry_of};
use crate::object::ObjectWrite;
use crate::object::commit::Commit;
use crate::object::conflict::Term;
use crate::object::name::RepoPath;
use crate::object::root::Lack;
use crate::object::tree::{Kind, TreeEntry};
use crate::refs::Effect;
use crate::store::{MetaWriter, Sealed};
use crate::subset::Subset;
use crate::worktree::select::{Paths, is_under};
use crate::worktree::snapshot::Problem;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use steps::Steps;

/// How a conflict is to be settled.
#[derive(Clone, Debug)]
pub enum Choice {
    /// What the side merged into has, also if that is nothing.
    Ours,
    /// What the side that was merged has.
    Theirs,
    /// What both started from.
    Base,
    /// Every side: ours under the name, others beside it.
    Both,
    /// A copy of this file.
    With(PathBuf),
}

/// What a resolve did.
#[derive(Debug, Default)]
pub struct ResolveReport {
    /// The conflicts, with the paths that hold what was chosen; none where it is deleted.
    pub settled: Vec<(RepoPath, Vec<RepoPath>)>,
    /// Conflicts of the worktree that are still open.
    pub open: Vec<Vec<u8>>,
    /// Files that stay because somebody changed them.
    pub kept: Vec<Problem>,
}

impl Repo {
    /// Settles the conflicts at or under `paths` in the worktree.
    ///
    /// Inside of the worktree's subset the files are made what was chosen. Outside, also if only of
    /// the files beside the conflict, the choice is kept by path, as an operation. Either way the next commit takes it, and a conflict can be
    /// settled again until then.
    ///
    /// It is an operation: what the files were before is kept, and an undo brings it back. A conflict's
    /// file that was edited by hand is not overwritten: then nothing is touched and
    /// [`RepoError::EditedByHand`] lists the paths.
    pub fn resolve_conflicts(
        &self,
        paths: &[Vec<u8>],
        choice: &Choice,
        settings: &WorktreeSettings,
        asked: Asked,
        job: &Job,
    ) -> Result<ResolveReport, RepoError> {
        let _lock = self.lock_worktree()?;
        let mut tree = self.tree(settings)?;
        let base = tree.base.ok_or(RepoError::NoCommit)?;
        let commit = self.read_commit(&base)?;
        let (all, unseen) = self.conflicts_here(&commit)?;
        refuse(under(unseen, paths))?;
        let these = choose(all, paths, choice)?;
        let form = tree.form.take().unwrap_or(Form::plain(commit.tree));
        let all_in = form.shown.iter().filter(|s| s.is_all_in(&tree.subset));
        let all_in: BTreeMap<&RepoPath, &Shown> = all_in.map(|s| (&s.at.path, s)).collect();
        let (mut with_file, mut without) = (Vec::new(), Vec::new());
        for at in these {
            match all_in.get(&at.path) {
                Some(shown) => with_file.push(*shown),
                None => without.push(at),
            }
        }
        self.check_choice_here(&with_file, choice)?;
        let mut switch = Switch::new(self, &tree, &form, &tree.subset, job);
        switch.find_dirty(settings)?;
        let open: BTreeSet<Vec<u8>> = open_of(&tree, &form, switch.dirty.clone())
            .into_iter()
            .collect();
        let (file, stored) = match with_file.is_empty() {
            true => (None, None),
            false => self.chosen_file(choice, job)?,
        };
        let mut report = ResolveReport::default();
        let mut steps = Steps::new(self, &tree, &form, &switch.dirty);
        for shown in with_file {
            let path = &shown.at.path;
            let is_open = open.contains(path.as_bytes());
            let made = steps.settle(shown, is_open, (choice, file))?;
            report.settled.push((path.clone(), made));
        }
        report.kept.append(&mut steps.kept);
        if !steps.lost.is_empty() {
            let settled = steps.lost.iter().all(|path| !open.contains(path));
            let paths = steps.lost.into_iter().collect();
            return Err(RepoError::EditedByHand { paths, settled });
        }
        let (moves, overwrites) = steps.finish();
        let how = (WHAT, settings.keep, &asked);
        let (kept, _) = self.keep_for(&mut switch, overwrites, how, job)?;
        let kept = kept.map(|(id, sealed)| match stored {
            Some(stored) => (id, stored.join(sealed)),
            None => (id, sealed),
        });
        if !without.is_empty() {
            let place = (&tree, &form, &commit);
            self.keep_choice(
                place,
                &without,
                (choice, kept),
                settings,
                &asked,
                &mut report,
                job,
            )?;
        } else if let Some((id, sealed)) = kept {
            let changes = saved_changes(self, &tree.name, id)?;
            self.publish(asked.clone(), Some(sealed), changes, Effect::Written)?;
        }
        switch.bring_all(&moves)?;
        report.kept.append(&mut switch.refused);
        report.settled.sort();
        let tree = self.tree(settings)?;
        let changes = self.changes_by_path(&tree, settings, job)?;
        if let Some(form) = &tree.form {
            report.open = open_of(&tree, form, changes);
        }
        Ok(report)
    }

    /// The file of a choice, with what was stored for it.
    fn chosen_file(
        &self,
        choice: &Choice,
        job: &Job,
    ) -> Result<(Option<Term>, Option<Sealed>), RepoError> {
        let writer = self.store.writer()?;
        let Some(file) = self.take_chosen_file(choice, &writer, job)? else {
            return Ok((None, None));
        };
        let sealed = self.seal(writer)?;
        self.store.preview(&sealed);
        Ok((Some(file), Some(sealed)))
    }

    fn changes_by_path(
        &self,
        tree: &Tree,
        settings: &WorktreeSettings,
        job: &Job,
    ) -> Result<BTreeMap<Vec<u8>, ChangeKind>, RepoError> {
        let select = Paths::default();
        let options = StatusOptions {
            select: &select,
            settings: settings.clone(),
        };
        let changes = self.changes_of(tree, &options, job)?.into_iter();
        let by_path = changes.map(|PathChange { path, kind }| (path, kind));
        Ok(by_path.collect())
    }

    /// Keeps a choice for conflicts that have no file, and publishes that, together with what is kept
    /// of files that others are settled by.
    #[expect(clippy::too_many_arguments, reason = "one step of its only caller")]
    fn keep_choice(
        &self,
        (tree, form, commit): (&Tree, &Form, &Commit),
        these: &[ConflictAt],
        (choice, kept): (&Choice, Option<(ObjectId, Sealed)>),
        settings: &WorktreeSettings,
        asked: &Asked,
        report: &mut ResolveReport,
        job: &Job,
    ) -> Result<(), RepoError> {
        let (again, others): (Vec<Chosen>, Vec<Chosen>) = form
            .chosen
            .iter()
            .cloned()
            .partition(|chosen| these.iter().any(|at| at.path == chosen.path));
        let former: BTreeSet<&RepoPath> = again
            .iter()
            .flat_map(|chosen| &chosen.beside)
            .map(|(path, _)| path)
            .collect();
        let is_free = |path: &RepoPath| {
            former.contains(path) || stat_of(&tree.root, path.as_bytes()).is_none()
        };
        let writer = match &kept {
            Some((_, before)) => self.store.writer_after(before)?,
            None => self.store.writer()?,
        };
        let file = self.take_chosen_file(choice, &writer, job)?;
        let (edits, settled) =
            self.choose(form.stored, (&others, these), (choice, file), &is_free)?;
        let mut meta = MetaWriter::new(&writer);
        let to = edit_tree(self.objects(), &mut meta, form.stored, &edits)?.id;
        meta.flush()?;
        drop(meta);
        let sealed = self.seal(writer)?;
        // It is read before it is published.
        self.store.preview(&sealed);
        let record = Record {
            from: form.stored,
            to,
        };
        let switch_to = SwitchTo {
            what: WHAT,
            asked,
            form: self.form_with(commit, Some(record))?,
            subset: &tree.subset,
            force: false,
            adopts: false,
            leaves: false,
            brings: None,
            settings,
        };
        let key = settled_key(&tree.name);
        let done = self.switch_files(tree, &switch_to, job, |saved| {
            let mut changes = vec![change(&self.refs, key, Some(record.value()))?];
            changes.extend(saved);
            let sealed = match kept {
                Some((id, before)) => {
                    changes.extend(saved_changes(self, &tree.name, id)?);
                    before.join(sealed)
                }
                None => sealed,
            };
            self.publish(asked.clone(), Some(sealed), changes, Effect::Written)?;
            Ok(())
        })?;
        report.kept.extend(done.refused);
        report.settled.extend(settled);
        Ok(())
    }

    /// Settles the conflicts at or under `paths` where there is no worktree: the choice is committed
    /// at once.
    pub fn resolve_in_commit(
        &self,
        paths: &[Vec<u8>],
        choice: &Choice,
        options: &MergeOptions,
        job: &Job,
    ) -> Result<(ResolveReport, MergeReport), RepoError> {
        let site = self.site(&options.settings)?;
        let head = site.ours.ok_or(RepoError::NoCommit)?;
        let commit = self.read_commit(&head)?;
        let (all, unseen) = self.conflicts_here(&commit)?;
        refuse(under(unseen, paths))?;
        let inherited = self.conflict_paths(&commit)?.into_iter().collect();
        let these = choose(all, paths, choice)?;
        let writer = self.store.writer()?;
        let file = self.take_chosen_file(choice, &writer, job)?;
        let sealed = self.seal(writer)?;
        self.store.preview(&sealed);
        let (edits, settled) =
            self.choose(commit.tree, (&[], &these), (choice, file), &|_| true)?;
        let mut merge = |writer: &mut dyn ObjectWrite| {
            let tree = edit_tree(self.objects(), writer, commit.tree, &edits)?;
            Ok(Merged::of_tree(tree))
        };
        let mut made = self.make(&mut merge, inherited, vec![head], options)?;
        made.sealed = sealed.join(made.sealed);
        let done = self.land(&site, made, WHAT, options, job)?;
        let open = done.conflicts.iter();
        let report = ResolveReport {
            settled,
            open: open.map(|at| at.path.as_bytes().to_vec()).collect(),
            kept: Vec::new(),
        };
        Ok((report, done))
    }

    /// The version of a conflict that its file, whose stat is `stat`, is, and nothing but that.
    pub(super) fn side_at(&self, tree: &Tree, shown: &Shown, stat: &FileStat) -> Option<TreeEntry> {
        let path = shown.at.path.as_bytes();
        let conflict = &shown.at.conflict;
        let terms = conflict.sides.iter().chain(&conflict.bases).flatten();
        let name = last_name(&shown.at.path);
        let files = terms.filter(|term| term.kind != Kind::Directory);
        // What cannot be read is somebody's.
        let is_there =
            |entry: &TreeEntry| matches!(same_as(self, &tree.root, path, entry, stat), Ok(true));
        files.map(|term| entry_of(&name, term, None)).find(is_there)
    }

    /// Refuses with [`RepoError::Lacking`] if what is chosen is not here.
    fn check_choice_here(&self, chosen: &[&Shown], choice: &Choice) -> Result<(), RepoError> {
        if !self.is_partial() {
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
                let wanted = Wanted {
                    path: &at.path,
                    located: &Located::Entry(entry),
                    subset: &Subset::everything(),
                };
                lacks.extend(self.lacking(wanted, LackOf::Content)?);
            }
        }
        match lacks.is_empty() {
            true => Ok(()),
            false => Err(RepoError::Lacking(lacks)),
        }
    }
}

impl ConflictAt {
    /// What a choice puts where; nothing for [`Choice::With`], whose file is not known here.
    ///
    /// `is_free` says whether a further version can have a name.
    pub(super) fn wanted(
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
        // One version alone has the name to itself.
        if let [(path, _)] = &mut wanted[..] {
            *path = self.path.clone();
        }
        Ok(wanted)
    }

    /// A name for another version of a file, before its ending: `shot-theirs.png`. Nothing has it.
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

/// The conflicts of a worktree that are not settled.
fn open_of(tree: &Tree, form: &Form, changes: BTreeMap<Vec<u8>, ChangeKind>) -> Vec<Vec<u8>> {
    let changes = changes.into_iter();
    let changes = changes.map(|(path, kind)| PathChange { path, kind });
    super::settle::explain(&tree.root, form, changes.collect()).open
}

/// What is being done, for messages that refuse it.
const WHAT: &str = "this resolve";

/// What is missing of the conflicts at or under any of `paths`.
fn under(mut lacks: Vec<Lack>, paths: &[Vec<u8>]) -> Vec<Lack> {
    lacks.retain(|lack| paths.iter().any(|path| is_under(&lack.path, path)));
    lacks
}

/// Of `all` the conflicts at or under each of `paths`.
fn choose(
    all: Vec<ConflictAt>,
    paths: &[Vec<u8>],
    choice: &Choice,
) -> Result<Vec<ConflictAt>, RepoError> {
    let is_at = |at: &ConflictAt, path: &[u8]| is_under(at.path.as_bytes(), path);
    for path in paths {
        if !all.iter().any(|at| is_at(at, path)) {
            return Err(RepoError::NoConflict { path: path.clone() });
        }
    }
    let mut these = all;
    these.retain(|at| paths.iter().any(|path| is_at(at, path)));
    if let (Choice::With(_), [_, _, ..]) = (choice, &these[..]) {
        return Err(RepoError::WrongKind {
            path: paths.first().cloned().unwrap_or_default(),
            what: "more than one conflict, and a file can settle only one",
        });
    }
    Ok(these)
}
