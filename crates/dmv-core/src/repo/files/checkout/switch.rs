//! Carries out a switch: changes the files of a worktree from one tree to another.
//!
//! A [`Switch`] has the [`stages`](super::stages) of one switch. The other files of `checkout` add their
//! steps to it.

use crate::diff::Slice;
use crate::fsutil::{FileKind, FileStat, Fingerprint, fs_now, sync_filesystem};
use crate::job::{Job, Moment};
use crate::object::list::Blob;
use crate::object::tree::{Kind, TreeEntry};
use crate::repo::base::change::{ChangeKind, PathChange};
use crate::repo::base::error::RepoError;
use crate::repo::base::repo::Repo;
use crate::repo::base::worktree::WorktreeSettings;
use crate::repo::conflict::form::Form;
use crate::repo::conflict::settle::find_settled;
use crate::repo::files::checkout::dirs::{
    KnownDirs, add_dirs, by_dir, is_dir, is_empty_dir, is_whole, sorted,
};
use crate::repo::files::checkout::durable::sync_each;
use crate::repo::files::checkout::purged;
use crate::repo::files::checkout::seen::end_of_run;
use crate::repo::files::checkout::span::{Span, entry_in};
use crate::repo::files::checkout::stages::{
    SwitchDecision, SwitchProgress, SwitchRequest, WorktreeFindings,
};
use crate::repo::files::checkout::target::SwitchTo;
use crate::repo::files::guarded::Guard;
use crate::repo::files::open_worktree::OpenWorktree;
use crate::repo::files::saved::{PathReturn, Return};
use crate::repo::files::seen::Expectation;
use crate::repo::files::status::StatusOptions;
use crate::repo::files::stored::{CountingWriter, StoreContent};
use crate::repo::files::{pending, private, status};
use crate::repo::look::entries::blob_of;
use crate::subset::{Extent, Subset};
use crate::worktree::checkout::{
    CheckoutError, NewFile, NewSymlink, Plan, Refusal, RefusedPath, Removal, Report, apply_plan,
};
use crate::worktree::properties::time_of;
use crate::worktree::select::Paths;
use crate::worktree::snapshot::Problem;
use crate::worktree::{join, split_path};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::sync::Arc;

/// The most files in one plan. Limits memory.
pub const PLAN_FILES: usize = 64 << 10;

/// Up to this many files are synced one by one. More files are synced with their file system, which
/// also waits for the writes of other programs.
const SYNC_EACH: usize = 64;

/// A change of the worktree's files from one tree to another.
pub struct Switch<'a> {
    pub request: SwitchRequest<'a>,
    pub known: WorktreeFindings<'a>,
    pub decision: SwitchDecision,
    pub progress: SwitchProgress<'a>,
}

impl<'a> Switch<'a> {
    pub fn new(
        repo: &'a Repo,
        tree: &'a OpenWorktree,
        form: &'a Form,
        subset: &'a Subset,
        job: &'a Job,
    ) -> Switch<'a> {
        Switch {
            request: SwitchRequest {
                repo,
                tree,
                target: form.tree,
                form,
                subset,
                brings: None,
                portions: None,
                job,
            },
            known: WorktreeFindings::new(repo),
            decision: SwitchDecision::default(),
            progress: SwitchProgress::new(tree),
        }
    }

    pub fn find_dirty(&mut self, settings: &WorktreeSettings) -> Result<(), RepoError> {
        let select = Paths::default();
        let options = StatusOptions {
            select: &select,
            settings: settings.clone(),
        };
        self.known.started = Some(fs_now(&self.request.tree.own));
        let found = status::changes_and_seen(
            self.request.repo,
            self.request.tree,
            &options,
            self.request.job,
        )?;
        self.known.scanned = Some(found.seen);
        for PathChange { path, kind } in found.changes {
            // An empty directory in the place of a file is a deletion and an addition. What the base
            // has there decides.
            let known = self.known.dirty.entry(path.into_bytes()).or_insert(kind);
            if *known == ChangeKind::Added {
                *known = kind;
            }
        }
        // A file that cannot be read may hold the user's work.
        for problem in found.problems {
            let entry = self.base_entry(problem.path.as_bytes())?;
            if entry.is_some_and(|entry| entry.kind != Kind::Directory) {
                let kind = ChangeKind::Modified;
                self.known
                    .dirty
                    .entry(problem.path.into_bytes())
                    .or_insert(kind);
            }
        }
        // A file that is no longer tracked is the user's, and differs from the base.
        for path in self.request.tree.untracked.paths() {
            let kind = ChangeKind::Modified;
            self.known.dirty.entry(path.clone()).or_insert(kind);
        }
        // So is the file of a conflict that no commit has yet.
        for path in pending::own_paths(self.request.repo, self.request.tree)? {
            let kind = ChangeKind::Modified;
            self.known.dirty.entry(path.into_bytes()).or_insert(kind);
        }
        // A settled conflict is a change even if its file did not change.
        for shown in self.request.tree.form.iter().flat_map(|form| &form.shown) {
            if let Some(kind) = find_settled(&self.request.tree.root, shown, &self.known.dirty) {
                let path = shown.at.path.as_bytes().to_vec();
                self.known.settled.push((path.clone(), shown.at.id));
                self.known.dirty.entry(path).or_insert(kind);
            }
        }
        Ok(())
    }

    /// Returns the stat of the entry at `path`.
    pub fn stat(&self, path: &[u8]) -> Result<Option<FileStat>, RepoError> {
        self.stat_in(path, &mut KnownDirs::default())
    }

    /// Like [`stat`](Self::stat), for one of many paths. `dirs` may be older than the answer: no directory is to be made,
    /// moved or removed as long as it is used.
    pub fn stat_in(
        &self,
        path: &[u8],
        dirs: &mut KnownDirs,
    ) -> Result<Option<FileStat>, RepoError> {
        Ok(dirs.stat(&self.request.tree.root, path)?)
    }

    pub fn span(&self) -> Span<'a> {
        Span {
            repo: self.request.repo,
            old: Slice {
                tree: self.request.tree.base_tree,
                subset: &self.request.tree.subset,
            },
            new: Slice {
                tree: Some(self.request.target),
                subset: self.request.subset,
            },
            job: self.request.job,
        }
    }

    /// Returns the base's entry at `path`, if the worktree has it or something below it.
    pub fn base_entry(&self, path: &[u8]) -> Result<Option<TreeEntry>, RepoError> {
        entry_in(self.request.repo, self.span().old, path)
    }

    /// Returns the target's entry at `path`, if the worktree will have it or something below it.
    pub fn target_entry(&self, path: &[u8]) -> Result<Option<TreeEntry>, RepoError> {
        entry_in(self.request.repo, self.span().new, path)
    }

    /// Decides whether the change can be made. Touches no file.
    pub fn find_what_is_needed(&mut self, to: &SwitchTo<'_>) -> Result<(), RepoError> {
        if !self.skips_absent() {
            self.request
                .form
                .check_known(|path| to.subset.includes(path, false))?;
        }
        self.find_left()?;
        self.decision = self.decide(to)?;
        // Content that a running transfer will store counts as stored: the transfer was started to
        // fetch everything that its worktree needs. A check for each object would wait until the
        // last one.
        if self.skips_absent() || self.request.portions.is_some() {
            return Ok(());
        }
        if self.request.repo.is_partial() && !self.request.repo.store.is_being_filled() {
            self.check_content_here(to.force)
        } else {
            Ok(())
        }
    }

    /// Removes entries first, then writes. Both use plans of limited size.
    pub fn carry_out(&mut self, force: bool) -> Result<(), RepoError> {
        let steps = self.request.brings.iter().flat_map(|brings| &brings.steps);
        for step in steps {
            let print = expect_seen(&mut self.decision.seen, step);
            // The files of the target below this directory are written before the undo brings it
            // back.
            if print.is_some() && self.makes_room(step)? {
                self.decision.in_the_way.insert(step.path.clone());
            }
        }
        let put_back = self.decision.in_the_way.clone();
        let moves = self.plan_moves()?;
        self.clear_in_the_way()?;
        self.clear_the_way(moves)?;
        let ended = std::mem::take(&mut self.decision.ended);
        self.take_away(&ended)?;
        let mut pending = PendingWrites::default();
        // Paths that differ between the commits are planned once, dirty or not.
        let mut planned = BTreeSet::new();
        self.differences().each(&mut |path, old, new| {
            let is_there = |path| {
                self.is_brought(path) || self.stays(path) || self.progress.moved.contains(path)
            };
            let at = path.as_bytes();
            let is_given_up = old.is_none() && self.decision.given_up.has(at);
            // What is in a directory has paths of its own.
            let comes = |new: &&TreeEntry| {
                let has_place = !is_there(at) || is_dir(new) && self.has_room(at);
                !is_given_up && is_whole(new) && has_place
            };
            let Some(new) = new.filter(comes) else {
                return Ok(());
            };
            if self.known.dirty.contains_key(path.as_bytes()) {
                planned.insert(path.as_bytes().to_vec());
            }
            self.add(&mut pending, path.as_bytes().to_vec(), new)
        })?;
        if force {
            let mut edited = Vec::new();
            for (path, kind) in &self.known.dirty {
                let stays = *kind == ChangeKind::Added && !put_back.contains(path);
                if stays || planned.contains(path) || self.is_brought(path) {
                    continue;
                }
                // What is in a directory has paths of its own.
                let entry = self.target_entry(path)?;
                if let Some(entry) = entry.filter(is_whole) {
                    edited.push((path.clone(), entry));
                }
            }
            self.foresee(&edited);
            for (path, entry) in edited {
                self.add(&mut pending, path, &entry)?;
            }
        }
        self.flush(&mut pending)
    }

    /// Adds these entries to the total of the progress.
    pub fn foresee(&self, entries: &[(Vec<u8>, TreeEntry)]) {
        let files = entries.iter().filter(|(_, entry)| !is_dir(entry));
        let (number, bytes) = files.fold((0, 0), |(n, bytes), (_, e)| (n + 1, bytes + e.size));
        if number > 0 {
            self.request.job.progress.foresee_files(number, bytes);
        }
    }

    /// Returns whether the target has a directory at `path` that is empty or has something in the
    /// subset.
    pub fn has_dir(&self, path: &[u8]) -> Result<bool, RepoError> {
        let entry = self.target_entry(path)?;
        let Some(entry) = entry.filter(|entry| entry.kind == Kind::Directory) else {
            return Ok(false);
        };
        if self.request.subset.extent(path) == Extent::All || is_empty_dir(&entry) {
            return Ok(true);
        }
        let mut found = false;
        let at = Repo::parse_path(path)?;
        self.request
            .repo
            .list_subset(&at, entry.id, self.request.subset, &mut |_| {
                found = true;
                Ok(ControlFlow::Break(()))
            })?;
        Ok(found)
    }

    /// Returns whether an undo brings back the former entry at `path`.
    pub fn is_brought(&self, path: &[u8]) -> bool {
        self.request.brings.is_some_and(|brings| brings.has(path))
    }

    /// Gives the paths of an undo their former entries.
    pub fn bring(&mut self) -> Result<(), RepoError> {
        match self.request.brings {
            Some(brings) => self.bring_all(brings),
            None => Ok(()),
        }
    }

    /// Gives each path in `brings` its entry.
    pub fn bring_all(&mut self, brings: &Return) -> Result<(), RepoError> {
        let (mut plan, mut gone_dirs) = (Plan::default(), BTreeSet::new());
        for path in &brings.stays {
            self.known.dirty.insert(path.clone(), ChangeKind::Modified);
        }
        // The undone command may have made a directory above what the user had removed.
        for path in &brings.gone {
            self.note_emptied(path, false, &mut gone_dirs)?;
        }
        for step in &brings.steps {
            expect_seen(&mut self.decision.seen, step);
            if step.to.is_none() && brings.empties {
                self.note_emptied(&step.path, brings.knows_empty, &mut gone_dirs)?;
            } else if step.to.is_none() {
                self.note_gone_dirs(&step.path, &mut gone_dirs)?;
            }
            let Some(there) = self.stat(&step.path)? else {
                continue;
            };
            // A file cannot replace a directory in one step, nor a directory a file.
            let goes = step.to.as_ref().is_none_or(is_dir);
            match (step.there, there.kind == FileKind::Dir) {
                // The switch has made the target's directory in the place of a file.
                (_, true) if brings.has_room(step) => {}
                (_, true) if step.to.is_none() => {
                    gone_dirs.insert(step.path.clone());
                }
                (_, true) if !goes => {
                    add_dirs(self.request.tree, step.path.clone(), &mut gone_dirs)?
                }
                (Some(seen), false) if goes => plan.remove.push(Removal {
                    path: step.path.clone(),
                    expected: seen.fingerprint(),
                }),
                _ => {}
            }
        }
        let mut dirs = KnownDirs::default();
        for dir in gone_dirs {
            let stat = self.stat_in(&dir, &mut dirs)?;
            if stat.is_some_and(|stat| stat.kind == FileKind::Dir) {
                plan.remove_dirs.push(dir);
            }
        }
        // A directory that is open could stay.
        drop(dirs);
        plan.remove_dirs = sorted(plan.remove_dirs.into_iter().collect());
        plan.remove.sort_by(|a, b| by_dir(&a.path, &b.path));
        // `written` holds entries of the target for the stat cache. The entries written here are
        // not the target's.
        let noted = std::mem::take(&mut self.progress.written);
        self.run(plan)?;
        self.progress.brings_edits = true;
        let mut pending = PendingWrites::default();
        for step in &brings.steps {
            self.known
                .dirty
                .insert(step.path.clone(), ChangeKind::Modified);
            if let Some(entry) = &step.to {
                self.add(&mut pending, step.path.clone(), entry)?;
            }
        }
        for dir in &brings.emptied {
            // Something else may be there by now.
            if let Ok(None) = self.stat(dir) {
                self.need_dirs(dir, &mut pending.dirs);
            }
        }
        self.flush(&mut pending)?;
        self.progress.brings_edits = false;
        self.sync()?;
        self.progress.written = noted;
        Ok(())
    }

    /// Plans one entry. Carries the plan out when it is large enough.
    pub fn add(
        &mut self,
        pending: &mut PendingWrites,
        path: Vec<u8>,
        entry: &TreeEntry,
    ) -> Result<(), RepoError> {
        if self.decision.adopted.contains(&path) {
            return Ok(());
        }
        if self.decision.unshown.contains(&path) {
            let why = "a file of yours has this name, so this side is not shown".to_owned();
            self.progress.refused.push(Problem::new(path, why));
            return Ok(());
        }
        if self.is_purged(entry)? {
            let why = purged::WHY.to_owned();
            self.progress.refused.push(Problem::new(path, why));
            return Ok(());
        }
        if self.skips_absent() && self.is_absent(&path, entry)? {
            let why = purged::WHY_ABSENT.to_owned();
            self.progress.refused.push(Problem::new(path, why));
            return Ok(());
        }
        let replaces = match (entry.kind, self.expected(&path, None)?) {
            (Kind::Directory, _) | (_, Expectation::Nothing) => None,
            (_, Expectation::This(print)) => Some(print),
            (_, Expectation::Other) => {
                self.refuse_changed(path);
                return Ok(());
            }
        };
        let bytes = pending.bytes.saturating_add(entry.size);
        if !pending.plan.files.is_empty() && self.is_beyond_portion(bytes) {
            self.flush(pending)?;
        }
        let parent = split_path(&path).map_or(&b""[..], |(dir, _)| dir);
        self.need_dirs(parent, &mut pending.dirs);
        let portion = self.request.job.portion(PLAN_FILES);
        let plan = &mut pending.plan;
        let guard = self.known.guard.get_or_init(|| {
            let SwitchRequest { repo, tree, .. } = self.request;
            Guard::between(repo, tree.base_tree, self.request.target)
        });
        match entry.kind {
            Kind::Directory => self.need_dirs(&path, &mut pending.dirs),
            Kind::Symlink => {
                let target = self.request.repo.link_target(entry)?;
                plan.symlinks.push(NewSymlink {
                    path,
                    target,
                    replaces,
                });
            }
            Kind::File | Kind::Executable => {
                let exec = entry.kind == Kind::Executable;
                let access = guard.access(&path, self.progress.brings_edits);
                pending.bytes = pending.bytes.saturating_add(entry.size);
                plan.files.push(NewFile {
                    path,
                    exec,
                    private: entry.is_private(),
                    modified: time_of(entry),
                    xattrs: entry.xattrs(),
                    access,
                    blob: blob_of(entry),
                    replaces,
                });
            }
            Kind::Conflict => {
                let why = "it is an unresolved conflict".to_owned();
                self.progress.refused.push(Problem::new(path, why));
            }
        }
        if plan.files.len() + plan.symlinks.len() >= portion {
            self.flush(pending)
        } else {
            Ok(())
        }
    }

    pub fn flush(&mut self, pending: &mut PendingWrites) -> Result<(), RepoError> {
        let PendingWrites { mut plan, dirs, .. } = std::mem::take(pending);
        plan.make_dirs = sorted(dirs);
        self.progress.made_dirs.clear();
        self.run(plan)
    }

    pub fn need_dirs(&mut self, dir: &[u8], dirs: &mut BTreeSet<Vec<u8>>) {
        let mut dir = dir;
        while !dir.is_empty() && self.progress.made_dirs.insert(dir.to_vec()) {
            dirs.insert(dir.to_vec());
            dir = split_path(dir).map_or(&b""[..], |(above, _)| above);
        }
    }

    pub fn refuse_changed(&mut self, path: Vec<u8>) {
        let why = Refusal::Changed.to_string();
        self.progress.refused.push(Problem::new(path, why));
    }

    pub fn run(&mut self, mut plan: Plan<Blob>) -> Result<(), RepoError> {
        self.request.job.reached(Moment::Portion);
        // In a worktree with a commit, somebody may be at work: each file appears only when
        // complete.
        plan.rename_always = self.request.tree.base.is_some();
        plan.in_use = self.request.tree.in_use.clone();
        plan.stayed = self.progress.stayed.clone();
        self.keep_lean(&plan)?;
        self.bring_portion(&plan)?;
        plan.private = self.note_private(&plan)?;
        plan.remove.sort_by(|a, b| by_dir(&a.path, &b.path));
        plan.files.sort_by(|a, b| by_dir(&a.path, &b.path));
        plan.symlinks.sort_by(|a, b| by_dir(&a.path, &b.path));
        let content = CountingWriter {
            inner: StoreContent::new(self.request.repo, &self.request.tree.root),
            job: self.request.job,
        };
        content.inner.check_sharing(&plan)?;
        let cancel = self.request.job.cancel_flag();
        let report = apply_plan(
            &self.request.tree.root,
            &plan,
            &content,
            0,
            cancel,
            &self.progress.asides,
        );
        self.take_report(&plan, report.map_err(checkout_error)?)?;
        self.end_portion(&plan)
    }

    /// Durably notes which of the entries that a plan removes are private. Returns all private
    /// paths.
    pub fn note_private<B>(&mut self, plan: &Plan<B>) -> Result<Arc<BTreeSet<Vec<u8>>>, RepoError> {
        let mut private = match self.progress.private.take() {
            Some(private) => private,
            None => private::private(self.request.repo)?,
        };
        let removed = plan.remove.iter().map(|removal| &removal.path);
        let replaced = plan.symlinks.iter().filter(|link| link.replaces.is_some());
        let gone = removed.chain(replaced.map(|link| &link.path));
        private.note_all(self.request.tree, gone.chain(&plan.remove_dirs))?;
        private::save_private(self.request.repo, &mut private)?;
        Ok(self.progress.private.insert(private).paths())
    }

    /// Adds the results of a plan to this switch.
    pub fn take_report<B>(&mut self, plan: &Plan<B>, report: Report) -> Result<(), RepoError> {
        let ended = end_of_run(&self.request.tree.own, &report);
        let files = plan.files.iter().map(|f| &f.path).zip(&report.files);
        let links = plan.symlinks.iter().map(|l| &l.path).zip(&report.symlinks);
        let done = files.chain(links).filter_map(|(path, stat)| {
            let (placed, (dir, name)) = (stat.as_ref()?, split_path(path)?);
            Some((dir, name, placed))
        });
        let mut done = done.peekable();
        while let Some((dir, ..)) = done.peek().copied() {
            let (files, bytes) = (&mut self.progress.files, &mut self.progress.bytes);
            let same_dir = std::iter::from_fn(|| {
                let (_, name, placed) = done.next_if(|(other, ..)| *other == dir)?;
                *files += 1;
                *bytes += placed.stat.size;
                let without = &self.request.job.progress.without_xattrs;
                Job::add(without, u64::from(placed.lacks_xattrs));
                Some((name, placed.fingerprint(ended)))
            });
            self.progress
                .written
                .note(&self.request.tree.own, dir, same_dir);
        }
        let mut damage = None;
        for refused in report.refused {
            match refused.why {
                // A directory that still holds files of the user stays without a message.
                Refusal::NotEmpty => {
                    if self.request.tree.root.is_exact() {
                        Arc::make_mut(&mut self.progress.stayed).insert(refused.path);
                    }
                }
                Refusal::InUse => drop(self.progress.in_use.insert(refused.path)),
                Refusal::Occupied if self.progress.in_use.contains(&refused.path) => {
                    let why = Refusal::InUse.to_string();
                    self.progress.refused.push(Problem::new(refused.path, why));
                }
                Refusal::Content(e) => match e.downcast::<RepoError>() {
                    Ok(e) => damage = damage.or(Some(*e)),
                    Err(e) => {
                        self.progress
                            .refused
                            .push(Problem::new(refused.path, e.to_string()));
                    }
                },
                why => self
                    .progress
                    .refused
                    .push(Problem::new(refused.path, why.to_string())),
            }
        }
        self.progress.removed += report.removed;
        // Damaged or absent content is a more important error than a refused path.
        damage.map_or(Ok(()), Err)
    }

    /// Makes the written files durable before the stat cache relies on them. Then removes the
    /// replaced files for good, unless they have changed since.
    pub fn sync(&mut self) -> Result<(), RepoError> {
        self.sync_written()?;
        self.request.job.reached(Moment::Written);
        for RefusedPath { path, why } in self.progress.asides.finish() {
            if let Some((dir, name)) = split_path(&path) {
                let suspect = std::iter::once((name, Fingerprint::SUSPECT));
                self.progress
                    .written
                    .note(&self.request.tree.own, dir, suspect);
            }
            let why = why.to_string();
            self.progress.refused.push(Problem::new(path, why));
        }
        Ok(())
    }

    fn sync_written(&self) -> Result<(), RepoError> {
        let root = &self.request.tree.root;
        // A sync of a moved file may not make its new name durable.
        let is_much = self.progress.written.files() > SYNC_EACH || !self.progress.moved.is_empty();
        if is_much && sync_filesystem(root)? {
            return Ok(());
        }
        let mut paths = Vec::new();
        let listed = self
            .progress
            .written
            .each(&mut |dir, name, _| paths.push(join(dir, name)));
        if let Err(e) = listed {
            return if sync_filesystem(root)? {
                Ok(())
            } else {
                Err(RepoError::Text(e.to_string()))
            };
        }
        Ok(sync_each(root, &paths)?)
    }
}

/// Notes what has to be at a path before a step changes it.
fn expect_seen(
    seen: &mut BTreeMap<Vec<u8>, Option<Fingerprint>>,
    step: &PathReturn,
) -> Option<Fingerprint> {
    // A directory is removed before anything takes its name.
    let there = step.there.filter(|stat| stat.kind != FileKind::Dir);
    let print = there.as_ref().map(FileStat::fingerprint);
    seen.insert(step.path.clone(), print);
    print
}

pub fn checkout_error(error: CheckoutError) -> RepoError {
    match error {
        CheckoutError::Cancelled => RepoError::Cancelled,
        CheckoutError::Disk(e) => RepoError::Path(e),
    }
}

/// Writes that are planned but not carried out yet.
#[derive(Default)]
pub struct PendingWrites {
    plan: Plan<Blob>,
    dirs: BTreeSet<Vec<u8>>,
    /// The sum of the sizes of the plan's files.
    bytes: u64,
}
