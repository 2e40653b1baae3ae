//! Settling conflicts: the files of a worktree are made what was chosen; the next commit records it.

use super::checkout::SwitchTo;
use super::checkout::switch::{Pending, Switch};
use super::choices::{Chosen, Record, no_file, stem_and_ending};
use super::conflict::{Form, Shown, last_name};
use super::lack::refuse;
use super::settle::stat_of;
use super::status::same_as;
use super::worktree::{Tree, settled_key};
use super::{
    Asked, ChangeKind, ConflictAt, LackOf, Located, MergeOptions, MergeReport, PathChange, Repo,
    RepoError, StatusOptions, Wanted, WorktreeSettings, change,
};
use crate::fsutil::FileStat;
use crate::job::Job;
use crate::merge::{Merged, edit_tree, entry_of};
use crate::object::ObjectWrite;
use crate::object::commit::Commit;
use crate::object::conflict::Term;
use crate::object::name::RepoPath;
use crate::object::root::Lack;
use crate::object::tree::{Kind, TreeEntry, lookup_path};
use crate::refs::Effect;
use crate::store::MetaWriter;
use crate::subset::Subset;
use crate::worktree::select::{Paths, is_under};
use crate::worktree::snapshot::Problem;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

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
    /// A conflict's file that was edited by hand is not overwritten: then nothing is touched and
    /// [`RepoError::WouldLose`] lists the paths.
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
        let has_file = |at: &ConflictAt| {
            let shown = form.shown.iter().find(|shown| shown.at.path == at.path);
            shown.is_some_and(|shown| shown.is_all_in(&tree.subset))
        };
        let (with_file, without): (Vec<_>, Vec<_>) = these.into_iter().partition(has_file);
        let shown = |at: ConflictAt| form.shown.iter().find(|shown| shown.at.path == at.path);
        let with_file: Vec<&Shown> = with_file.into_iter().filter_map(shown).collect();
        let mut switch = Switch::new(self, &tree, &form, &tree.subset, job);
        switch.find_dirty(settings)?;
        let open = open_of(&tree, &form, switch.dirty.clone());
        let mut lost = Vec::new();
        for shown in &with_file {
            let path = shown.at.path.as_bytes();
            if !switch.dirty.contains_key(path) {
                continue;
            }
            match stat_of(&tree.root, path) {
                Some(stat) if self.is_a_side(&tree, shown, &stat)? => {
                    switch.note_found(path, &stat);
                }
                Some(_) => lost.push(path.to_vec()),
                None => {}
            }
        }
        if !lost.is_empty() {
            return Err(RepoError::WouldLose {
                what: WHAT,
                paths: lost,
            });
        }
        self.check_choice_here(&with_file, choice)?;
        let mut report = ResolveReport::default();
        if !without.is_empty() {
            let place = (&tree, &form, &commit);
            self.keep_choice(place, &without, choice, settings, asked, &mut report, job)?;
        }
        for shown in with_file {
            let is_open = open.iter().any(|path| path == shown.at.path.as_bytes());
            let mut beside = shown.sides.clone();
            if !is_open {
                beside.extend(self.left_beside(&tree, &shown.at)?);
            }
            let made = match choice {
                Choice::With(file) => copy_in(&mut switch, &shown.at.path, file)?,
                choice => self.put_chosen(&tree, &mut switch, shown, choice)?,
            };
            beside.retain(|(path, _)| !made.contains(path));
            let left = self.remove_untouched(&tree, &beside, job)?;
            report.kept.extend(left);
            report.settled.push((shown.at.path.clone(), made));
        }
        switch.sync()?;
        report.kept.append(&mut switch.refused);
        report.settled.sort();
        let tree = self.tree(settings)?;
        let changes = self.changes_by_path(&tree, settings, job)?;
        if let Some(form) = &tree.form {
            report.open = open_of(&tree, form, changes);
        }
        Ok(report)
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

    /// Keeps a choice for conflicts that have no file, and publishes that.
    #[expect(clippy::too_many_arguments, reason = "one step of its only caller")]
    fn keep_choice(
        &self,
        (tree, form, commit): (&Tree, &Form, &Commit),
        these: &[ConflictAt],
        choice: &Choice,
        settings: &WorktreeSettings,
        asked: Asked,
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
        let writer = self.store.writer()?;
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
            asked: &asked,
            form: self.form_with(commit, Some(record))?,
            subset: &tree.subset,
            force: false,
            brings: None,
            settings,
        };
        let key = settled_key(&tree.name);
        let done = self.switch_files(tree, &switch_to, job, |saved| {
            let mut changes = vec![change(&self.refs, key, Some(record.value()))?];
            changes.extend(saved);
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

    /// Whether a conflict's file, whose stat is `stat`, is nothing but what one of its sides has.
    pub(super) fn is_a_side(
        &self,
        tree: &Tree,
        shown: &Shown,
        stat: &FileStat,
    ) -> Result<bool, RepoError> {
        let path = shown.at.path.as_bytes();
        let conflict = &shown.at.conflict;
        let terms = conflict.sides.iter().chain(&conflict.bases).flatten();
        let name = last_name(&shown.at.path);
        for term in terms.filter(|term| term.kind != Kind::Directory) {
            let entry = entry_of(&name, term, None);
            // What cannot be read is somebody's.
            if let Ok(true) = same_as(self, &tree.root, path, &entry, stat) {
                return Ok(true);
            }
        }
        Ok(false)
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

    /// Writes what was chosen; returns where.
    fn put_chosen(
        &self,
        tree: &Tree,
        switch: &mut Switch<'_>,
        shown: &Shown,
        choice: &Choice,
    ) -> Result<Vec<RepoPath>, RepoError> {
        let at = &shown.at;
        let wanted = at.wanted(choice, &|path, term| self.is_free(tree, path, term))?;
        let is_kept = wanted
            .iter()
            .any(|(path, term)| *path == at.path && term.kind != Kind::Directory);
        if !is_kept {
            switch.remove_file(&at.path)?;
        }
        let mut pending = Pending::default();
        for (path, term) in &wanted {
            let entry = entry_of(&last_name(path), term, None);
            switch.allow_same(path, &entry);
            if term.kind != Kind::Directory {
                switch.add(&mut pending, path.as_bytes().to_vec(), &entry)?;
                continue;
            }
            switch.add(&mut pending, path.as_bytes().to_vec(), &entry)?;
            let mut below: Vec<(RepoPath, TreeEntry)> = Vec::new();
            self.list(path, term.id, true, &mut |listed| {
                below.push((listed.path, listed.entry));
                Ok(ControlFlow::Continue(()))
            })?;
            for (path, entry) in below {
                switch.allow_same(&path, &entry);
                switch.add(&mut pending, path.as_bytes().to_vec(), &entry)?;
            }
        }
        switch.flush(&mut pending)?;
        Ok(wanted.into_iter().map(|(path, _)| path).collect())
    }

    /// Whether a further version can be put at `path`: nothing is there, or that version already.
    fn is_free(&self, tree: &Tree, path: &RepoPath, term: &Term) -> Result<bool, RepoError> {
        let in_tree = match tree.base_tree {
            Some(base) => lookup_path(self.objects(), &base, path)?.is_some(),
            None => false,
        };
        let is_there = stat_of(&tree.root, path.as_bytes()).is_some();
        Ok(!in_tree && (!is_there || self.is_version(tree, path, term)))
    }

    /// Whether the file at `path` is what one side of a conflict has.
    fn is_version(&self, tree: &Tree, path: &RepoPath, term: &Term) -> bool {
        let entry = entry_of(&last_name(path), term, None);
        let stat = stat_of(&tree.root, path.as_bytes());
        // What cannot be read is somebody's.
        stat.is_some_and(|stat| {
            let same = same_as(self, &tree.root, path.as_bytes(), &entry, &stat);
            matches!(same, Ok(true))
        })
    }

    /// The files beside a conflict that was settled by [`Choice::Both`]; none if it was not, or if
    /// somebody has changed one of them since.
    fn left_beside(
        &self,
        tree: &Tree,
        at: &ConflictAt,
    ) -> Result<Vec<(RepoPath, TreeEntry)>, RepoError> {
        let is_free = |path: &RepoPath, term: &Term| self.is_free(tree, path, term);
        let mut all = at.wanted(&Choice::Both, &is_free)?;
        if !all
            .iter()
            .all(|(path, term)| self.is_version(tree, path, term))
        {
            return Ok(Vec::new());
        }
        all.retain(|(path, _)| *path != at.path);
        let entry = |(path, term): (RepoPath, Term)| {
            let entry = entry_of(&last_name(&path), &term, None);
            (path, entry)
        };
        Ok(all.into_iter().map(entry).collect())
    }
}

/// Puts a copy of `file` at `path`.
fn copy_in(
    switch: &mut Switch<'_>,
    path: &RepoPath,
    file: &PathBuf,
) -> Result<Vec<RepoPath>, RepoError> {
    let io = |source| RepoError::Io {
        action: "read",
        path: file.clone(),
        source,
    };
    let meta = std::fs::metadata(file).map_err(io)?;
    if !meta.is_file() {
        return Err(io(no_file()));
    }
    let exec = meta.permissions().mode() & 0o100 != 0;
    switch.copy_in(path, file, exec)?;
    Ok(vec![path.clone()])
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
