//! Carrying out a change of the worktree from one tree to another.

use crate::diff::Slice;
use crate::fsutil::{FileKind, FileStat, FileTime, Fingerprint, fs_now, sync_filesystem};
use crate::hash::ObjectId;
use crate::job::{Job, Moment};
use crate::limits::MAX_DIR_ENTRIES;
use crate::object::list::Blob;
use crate::object::tree::{Kind, TreeEntry, empty_tree_id};
use crate::repo::base::change::{ChangeKind, PathChange};
use crate::repo::base::error::RepoError;
use crate::repo::base::handle::Handle;
use crate::repo::base::worktree::WorktreeSettings;
use crate::repo::base::{path, slice};
use crate::repo::conflict::form::Form;
use crate::repo::conflict::settle::find_settled;
use crate::repo::files::checkout::dirs::{add_dirs, by_dir, is_dir, sorted};
use crate::repo::files::checkout::span::{LeftPaths, Span, entry_in};
use crate::repo::files::checkout::target::SwitchTo;
use crate::repo::files::checkout::written::Written;
use crate::repo::files::open_worktree::Tree;
use crate::repo::files::private::Private;
use crate::repo::files::saved::{Overwrites, Return, Step};
use crate::repo::files::seen::{Expected, Seen};
use crate::repo::files::status::StatusOptions;
use crate::repo::files::stored::{Counted, StoreContent};
use crate::repo::files::unfinished::Unfinished;
use crate::repo::files::{private, status};
use crate::repo::look::entries::blob_of;
use crate::repo::look::lack::refuse;
use crate::repo::look::{content, entries, lack};
use crate::subset::{Extent, Subset};
use crate::worktree::base::entry_at;
use crate::worktree::checkout::{
    CheckoutError, Move, NewFile, NewSymlink, Plan, Refusal, Refused, Removal, ReplacedEntries,
    Report, apply_plan,
};
use crate::worktree::select::Paths;
use crate::worktree::snapshot::Problem;
use crate::worktree::{join, split_path};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ops::ControlFlow;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Files in one plan: what bounds memory.
pub(in crate::repo) const PLAN_FILES: usize = 64 << 10;

/// Directories that are remembered not to be there. One that was forgotten is looked for again.
const MAX_ABSENT_DIRS: usize = 16 << 10;

/// Up to this many files are synced one by one; more are synced with their file system, which
/// also waits for what other programs have written.
const SYNC_EACH: usize = 64;

/// A change of the worktree from one tree to another.
pub(in crate::repo) struct Switch<'a> {
    pub(in crate::repo) repo: &'a Handle,
    pub(in crate::repo) tree: &'a Tree,
    pub(in crate::repo) target: ObjectId,
    /// How the target shows conflicts.
    pub(in crate::repo) form: &'a Form,
    /// Sides of conflicts that are not shown: a file of the user's has the name.
    pub(in crate::repo) unshown: BTreeSet<Vec<u8>>,
    /// Files of the user's that stay where the subset now has a path.
    pub(in crate::repo) adopted: BTreeSet<Vec<u8>>,
    /// The paths that the worktree will have of it.
    pub(in crate::repo) subset: &'a Subset,
    pub(in crate::repo) job: &'a Job,
    /// Tracked paths that are not as the base has them, and untracked ones.
    pub(in crate::repo) dirty: BTreeMap<Vec<u8>, ChangeKind>,
    /// Conflicts of the base that are settled.
    pub(in crate::repo) settled: Vec<(Vec<u8>, ObjectId)>,
    /// What `force` overwrites: see [`saved`](crate::repo::saved).
    pub(in crate::repo) overwrites: Overwrites,
    /// What stands where something of another kind will be written, and goes first.
    pub(in crate::repo) in_the_way: BTreeSet<Vec<u8>>,
    /// What the scan saw of files that are as the base has them.
    pub(in crate::repo) scanned: Option<Seen<'a>>,
    /// When the scan began, on the clock of the file system.
    pub(in crate::repo) started: Option<FileTime>,
    /// What was at other paths when it was decided to overwrite them; `None`: nothing.
    pub(in crate::repo) seen: BTreeMap<Vec<u8>, Option<Fingerprint>>,
    /// What an undo brings back, and so decides about its paths.
    pub(in crate::repo) brings: Option<&'a Return>,
    pub(in crate::repo) written: Written,
    /// The private paths; read from the disk when they are first needed.
    private: Option<Private>,
    /// What was replaced and removed.
    asides: ReplacedEntries<'a>,
    /// Directories that were planned since plans were last carried out.
    made_dirs: BTreeSet<Vec<u8>>,
    /// Paths that got a file that was elsewhere before.
    pub(in crate::repo) moved: BTreeSet<Vec<u8>>,
    /// Switches that were cut off, and the paths that they have left.
    pub(in crate::repo) unfinished: Option<Unfinished>,
    pub(in crate::repo) left: Rc<LeftPaths>,
    pub(in crate::repo) files: u64,
    pub(in crate::repo) bytes: u64,
    pub(in crate::repo) removed: u64,
    pub(in crate::repo) refused: Vec<Problem>,
}

impl<'a> Switch<'a> {
    pub(in crate::repo) fn new(
        repo: &'a Handle,
        tree: &'a Tree,
        form: &'a Form,
        subset: &'a Subset,
        job: &'a Job,
    ) -> Switch<'a> {
        Switch {
            repo,
            tree,
            target: form.tree,
            form,
            unshown: BTreeSet::new(),
            adopted: BTreeSet::new(),
            subset,
            job,
            dirty: BTreeMap::new(),
            settled: Vec::new(),
            overwrites: Overwrites::new(),
            in_the_way: BTreeSet::new(),
            scanned: None,
            started: None,
            seen: BTreeMap::new(),
            brings: None,
            written: Written::default(),
            private: None,
            asides: ReplacedEntries::new(&tree.root),
            made_dirs: BTreeSet::new(),
            moved: BTreeSet::new(),
            unfinished: None,
            left: Rc::default(),
            files: 0,
            bytes: 0,
            removed: 0,
            refused: Vec::new(),
        }
    }

    pub(in crate::repo) fn find_dirty(
        &mut self,
        settings: &WorktreeSettings,
    ) -> Result<(), RepoError> {
        let select = Paths::default();
        let options = StatusOptions {
            select: &select,
            settings: settings.clone(),
        };
        self.started = Some(fs_now(&self.tree.own));
        let (changes, seen) = status::changes_and_seen(self.repo, self.tree, &options, self.job)?;
        self.scanned = Some(seen);
        self.dirty = changes
            .into_iter()
            .map(|PathChange { path, kind }| (path, kind))
            .collect();
        // That a conflict was settled is a change, also where its file is as it was.
        for shown in self.tree.form.iter().flat_map(|form| &form.shown) {
            if let Some(kind) = find_settled(&self.tree.root, shown, &self.dirty) {
                let path = shown.at.path.as_bytes().to_vec();
                self.settled.push((path.clone(), shown.at.id));
                self.dirty.entry(path).or_insert(kind);
            }
        }
        Ok(())
    }

    /// The entry at `path`, without asking again below directories that are not there.
    pub(in crate::repo) fn stat(
        &self,
        path: &[u8],
        absent: &mut BTreeSet<Vec<u8>>,
    ) -> Result<Option<FileStat>, RepoError> {
        let Some((dir, name)) = split_path(path) else {
            return Ok(None);
        };
        let mut end = Some(dir.len());
        while let Some(at) = end {
            if absent.contains(&dir[..at]) {
                return Ok(None);
            }
            end = dir[..at].iter().rposition(|b| *b == b'/');
        }
        match self.tree.root.open_dir(dir) {
            Ok(dir) => Ok(dir.stat_opt(name)?),
            Err(e) if !e.is_absent() => Err(e.into()),
            Err(_) => {
                if absent.len() >= MAX_ABSENT_DIRS {
                    absent.clear();
                }
                absent.insert(dir.to_vec());
                Ok(None)
            }
        }
    }

    pub(in crate::repo) fn span(&self) -> Span<'a> {
        Span {
            repo: self.repo,
            old: Slice {
                tree: self.tree.base_tree,
                subset: &self.tree.subset,
            },
            new: Slice {
                tree: Some(self.target),
                subset: self.subset,
            },
            job: self.job,
        }
    }

    /// What the base has at `path`, if the worktree has it or something below it.
    pub(in crate::repo) fn base_entry(&self, path: &[u8]) -> Result<Option<TreeEntry>, RepoError> {
        entry_in(self.repo, self.span().old, path)
    }

    /// The same of the target.
    pub(in crate::repo) fn target_entry(
        &self,
        path: &[u8],
    ) -> Result<Option<TreeEntry>, RepoError> {
        entry_in(self.repo, self.span().new, path)
    }

    /// Decides whether the change can be made; touches nothing.
    pub(in crate::repo) fn find_what_is_needed(
        &mut self,
        to: &SwitchTo<'_>,
    ) -> Result<(), RepoError> {
        self.form
            .check_known(|path| to.subset.includes(path, false))?;
        self.find_left()?;
        self.check(to)?;
        // What is still coming counts as here: whoever asked for it asked for all that its worktree
        // needs. To ask for each object first would be to wait for the last of them.
        match slice::is_partial(self.repo) && !self.repo.store.is_being_filled() {
            true => self.check_content_here(to.force),
            false => Ok(()),
        }
    }

    /// Refuses with all content that is needed and not here.
    pub(in crate::repo) fn check_content_here(&self, force: bool) -> Result<(), RepoError> {
        let mut lacks = Vec::new();
        self.differences().each(&mut |path, _, new| {
            if let Some(new) = new {
                lacks.extend(lack::lack_at(self.repo, path.as_bytes(), new)?);
            }
            Ok(())
        })?;
        for path in self.dirty.keys().filter(|_| force) {
            if let Some(entry) = self.target_entry(path)? {
                lacks.extend(lack::lack_at(self.repo, path, &entry)?);
            }
        }
        lacks.sort_by(|a, b| a.path.cmp(&b.path));
        lacks.dedup_by(|a, b| a.path == b.path);
        refuse(lacks)
    }

    /// Removes first, then writes; both in bounded portions.
    pub(in crate::repo) fn carry_out(&mut self, force: bool) -> Result<(), RepoError> {
        let steps = self.brings.iter().flat_map(|brings| &brings.steps);
        for step in steps {
            let print = expect_seen(&mut self.seen, step);
            // What the target has in a directory is written before that is brought.
            if print.is_some() && step.to.as_ref().is_some_and(is_dir) {
                self.in_the_way.insert(step.path.clone());
            }
        }
        let put_back = self.in_the_way.clone();
        let moves = self.plan_moves()?;
        self.clear_in_the_way()?;
        self.clear_the_way(moves)?;
        let mut pending = Pending::default();
        // What differs between the commits is planned once, dirty or not.
        let mut planned = BTreeSet::new();
        self.differences().each(&mut |path, _, new| {
            let is_there = |path| self.is_brought(path) || self.moved.contains(path);
            let Some(new) = new.filter(|_| !is_there(path.as_bytes())) else {
                return Ok(());
            };
            if self.dirty.contains_key(path.as_bytes()) {
                planned.insert(path.as_bytes().to_vec());
            }
            self.add(&mut pending, path.as_bytes().to_vec(), new)
        })?;
        if force {
            for (path, kind) in self.dirty.clone() {
                let stays = kind == ChangeKind::Added && !put_back.contains(&path);
                if stays || planned.contains(&path) || self.is_brought(&path) {
                    continue;
                }
                if let Some(entry) = self.target_entry(&path)? {
                    self.add(&mut pending, path, &entry)?;
                }
            }
        }
        self.flush(&mut pending)
    }

    /// Takes away what the target does not have, by `moves` or for good, and what stands where
    /// something else will.
    fn clear_the_way(&mut self, moves: Vec<Move>) -> Result<(), RepoError> {
        let moving: HashSet<&[u8]> = moves.iter().map(|one| &one.from[..]).collect();
        let mut absent = BTreeSet::new();
        let mut plan = Plan::default();
        let mut gone_dirs: BTreeSet<Vec<u8>> = BTreeSet::new();
        let job = self.job;
        let portion = job.portion(PLAN_FILES);
        self.differences().each(&mut |path, old, new| {
            let (bytes, is_dir) = (path.as_bytes(), |e: &TreeEntry| e.kind == Kind::Directory);
            if new.is_some() {
                job.progress.total_files.fetch_add(1, Ordering::Relaxed);
            }
            if new.is_some_and(|new| !is_dir(new)) {
                self.note_dirs_in_the_way(bytes, &mut gone_dirs)?;
            }
            if old.is_none() {
                return Ok(());
            }
            if new.is_none() {
                self.note_gone_dirs(bytes, &mut gone_dirs)?;
            }
            let Some(stat) = self.stat(bytes, &mut absent)? else {
                return Ok(());
            };
            if stat.kind == FileKind::Dir {
                if !new.is_some_and(is_dir) {
                    gone_dirs.insert(bytes.to_vec());
                }
            } else if self
                .brings
                .is_some_and(|brings| brings.step(bytes).is_some())
            {
                // What it gets is planned on its own.
            } else if moving.contains(bytes) {
                // It goes when directories have given way.
            } else if new.is_none_or(is_dir) && !old.is_some_and(is_dir) {
                let path = bytes.to_vec();
                match self.expected(bytes, old)? {
                    Expected::This(expected) => plan.remove.push(Removal { path, expected }),
                    // What has come since is the user's, and stays.
                    Expected::Nothing => {}
                    Expected::Other => self.refuse_changed(path),
                }
                if plan.remove.len() >= portion {
                    self.run(std::mem::take(&mut plan))?;
                }
            }
            Ok(())
        })?;
        // A directory in whose place something else stands already is gone.
        let mut there = BTreeSet::new();
        for dir in gone_dirs {
            let stat = self.stat(&dir, &mut absent)?;
            if stat.is_some_and(|stat| stat.kind == FileKind::Dir) {
                there.insert(dir);
            }
        }
        let there = sorted(there);
        if moves.is_empty() {
            plan.remove_dirs = there;
            return self.run(plan);
        }
        self.run(plan)?;
        self.carry_out_moves(moves, there)
    }

    /// Notes the base's directories at and below `path`, as far as they are on disk: of one whose
    /// content is outside of the subset no difference tells.
    fn note_dirs_in_the_way(
        &self,
        path: &[u8],
        gone: &mut BTreeSet<Vec<u8>>,
    ) -> Result<(), RepoError> {
        let Some(base) = self.tree.base_tree else {
            return Ok(());
        };
        let mut dirs = vec![path.to_vec()];
        while let Some(dir) = dirs.pop() {
            let Ok(opened) = self.tree.root.open_dir(&dir) else {
                continue;
            };
            let entry = entry_at(self.repo.objects(), &base, &dir)?;
            if entry.is_none_or(|entry| entry.kind != Kind::Directory) {
                continue;
            }
            for (name, kind) in opened.list(MAX_DIR_ENTRIES)?.iter() {
                if kind == FileKind::Dir {
                    dirs.push(join(&dir, name));
                }
            }
            gone.insert(dir);
        }
        Ok(())
    }

    /// Notes the directories above `path` that the target does not have.
    fn note_gone_dirs(&self, path: &[u8], gone: &mut BTreeSet<Vec<u8>>) -> Result<(), RepoError> {
        let mut path = path;
        while let Some((dir, _)) = split_path(path) {
            if dir.is_empty() || gone.contains(dir) {
                return Ok(());
            }
            // One that only leads to the subset goes, too, if nothing is left in it.
            if self.subset.includes(dir, true) && !self.form.is_side(dir) && self.has_dir(dir)? {
                return Ok(());
            }
            gone.insert(dir.to_vec());
            path = dir;
        }
        Ok(())
    }

    /// Whether the target has a directory at `path`, with something of the subset in it or empty.
    fn has_dir(&self, path: &[u8]) -> Result<bool, RepoError> {
        let entry = self.target_entry(path)?;
        let Some(entry) = entry.filter(|entry| entry.kind == Kind::Directory) else {
            return Ok(false);
        };
        if self.subset.extent(path) == Extent::All || entry.id == empty_tree_id() {
            return Ok(true);
        }
        let mut found = false;
        let at = path::parse_path(path)?;
        entries::list_subset(self.repo, &at, entry.id, self.subset, &mut |_| {
            found = true;
            Ok(ControlFlow::Break(()))
        })?;
        Ok(found)
    }

    /// Whether an undo brings back what was at `path`.
    pub(in crate::repo) fn is_brought(&self, path: &[u8]) -> bool {
        self.brings.is_some_and(|brings| brings.has(path))
    }

    /// Gives the paths of an undo what they had.
    pub(in crate::repo) fn bring(&mut self) -> Result<(), RepoError> {
        match self.brings {
            Some(brings) => self.bring_all(brings),
            None => Ok(()),
        }
    }

    /// Gives some paths what they are to have.
    pub(in crate::repo) fn bring_all(&mut self, brings: &Return) -> Result<(), RepoError> {
        let (mut plan, mut gone_dirs) = (Plan::default(), BTreeSet::new());
        for step in &brings.steps {
            expect_seen(&mut self.seen, step);
            if step.to.is_none() {
                self.note_gone_dirs(&step.path, &mut gone_dirs)?;
            }
            let Some(there) = self.stat(&step.path, &mut BTreeSet::new())? else {
                continue;
            };
            // A file cannot take the place of a directory in one step, nor the reverse.
            let goes = step.to.as_ref().is_none_or(is_dir);
            match (step.there, there.kind == FileKind::Dir) {
                (_, true) if step.to.is_none() => {
                    gone_dirs.insert(step.path.clone());
                }
                (_, true) if !goes => add_dirs(self.tree, step.path.clone(), &mut gone_dirs)?,
                (Some(seen), false) if goes => plan.remove.push(Removal {
                    path: step.path.clone(),
                    expected: seen.fingerprint(),
                }),
                _ => {}
            }
        }
        let mut absent = BTreeSet::new();
        for dir in gone_dirs {
            let stat = self.stat(&dir, &mut absent)?;
            if stat.is_some_and(|stat| stat.kind == FileKind::Dir) {
                plan.remove_dirs.push(dir);
            }
        }
        plan.remove_dirs = sorted(plan.remove_dirs.into_iter().collect());
        plan.remove.sort_by(|a, b| by_dir(&a.path, &b.path));
        // What the target is given is noted for the stat cache; this is not as the target has it.
        let noted = std::mem::take(&mut self.written);
        self.run(plan)?;
        let mut pending = Pending::default();
        for step in &brings.steps {
            self.dirty.insert(step.path.clone(), ChangeKind::Modified);
            if let Some(entry) = &step.to {
                self.add(&mut pending, step.path.clone(), entry)?;
            }
        }
        self.flush(&mut pending)?;
        self.sync()?;
        self.written = noted;
        Ok(())
    }

    /// Plans one entry, and carries the plan out when it is large enough.
    pub(in crate::repo) fn add(
        &mut self,
        pending: &mut Pending,
        path: Vec<u8>,
        entry: &TreeEntry,
    ) -> Result<(), RepoError> {
        if self.adopted.contains(&path) {
            return Ok(());
        }
        if self.unshown.contains(&path) {
            let why = "a file of yours has this name, so this side is not shown".to_owned();
            self.refused.push(Problem { path, why });
            return Ok(());
        }
        let replaces = match (entry.kind, self.expected(&path, None)?) {
            (Kind::Directory, _) | (_, Expected::Nothing) => None,
            (_, Expected::This(print)) => Some(print),
            (_, Expected::Other) => {
                self.refuse_changed(path);
                return Ok(());
            }
        };
        let parent = split_path(&path).map_or(&b""[..], |(dir, _)| dir);
        self.need_dirs(parent, &mut pending.dirs);
        let portion = self.job.portion(PLAN_FILES);
        let plan = &mut pending.plan;
        match entry.kind {
            Kind::Directory => self.need_dirs(&path, &mut pending.dirs),
            Kind::Symlink => {
                let target = content::link_target(self.repo, entry)?;
                plan.symlinks.push(NewSymlink {
                    path,
                    target,
                    replaces,
                });
            }
            Kind::File | Kind::Executable => {
                let exec = entry.kind == Kind::Executable;
                plan.files.push(NewFile {
                    path,
                    exec,
                    blob: blob_of(entry),
                    replaces,
                });
            }
            Kind::Conflict => {
                let why = "it is an unresolved conflict".to_owned();
                self.refused.push(Problem { path, why });
            }
        }
        match plan.files.len() + plan.symlinks.len() >= portion {
            true => self.flush(pending),
            false => Ok(()),
        }
    }

    pub(in crate::repo) fn flush(&mut self, pending: &mut Pending) -> Result<(), RepoError> {
        let Pending { mut plan, dirs } = std::mem::take(pending);
        plan.make_dirs = sorted(dirs);
        self.made_dirs.clear();
        self.run(plan)
    }

    pub(in crate::repo) fn need_dirs(&mut self, dir: &[u8], dirs: &mut BTreeSet<Vec<u8>>) {
        let mut dir = dir;
        while !dir.is_empty() && self.made_dirs.insert(dir.to_vec()) {
            dirs.insert(dir.to_vec());
            dir = split_path(dir).map_or(&b""[..], |(above, _)| above);
        }
    }

    pub(in crate::repo) fn refuse_changed(&mut self, path: Vec<u8>) {
        let why = Refusal::Changed.to_string();
        self.refused.push(Problem { path, why });
    }

    pub(in crate::repo) fn run(&mut self, mut plan: Plan<Blob>) -> Result<(), RepoError> {
        self.job.reached(Moment::Portion);
        // In a worktree that somebody may be at work in, a file appears when it is complete.
        plan.rename_always = self.tree.base.is_some();
        plan.private = self.note_private(&plan)?;
        plan.remove.sort_by(|a, b| by_dir(&a.path, &b.path));
        plan.files.sort_by(|a, b| by_dir(&a.path, &b.path));
        plan.symlinks.sort_by(|a, b| by_dir(&a.path, &b.path));
        let content = Counted {
            inner: StoreContent(self.repo),
            job: self.job,
        };
        let cancel = self.job.cancel_flag();
        let report = apply_plan(&self.tree.root, &plan, &content, 0, cancel, &self.asides);
        self.take_report(&plan, report.map_err(checkout_error)?)
    }

    /// Durably notes which entries are private among those that a plan removes. Returns all private paths.
    pub(in crate::repo) fn note_private<B>(
        &mut self,
        plan: &Plan<B>,
    ) -> Result<Arc<BTreeSet<Vec<u8>>>, RepoError> {
        let mut private = match self.private.take() {
            Some(private) => private,
            None => private::private(self.repo)?,
        };
        let removed = plan.remove.iter().map(|removal| &removal.path);
        let replaced = plan.symlinks.iter().filter(|link| link.replaces.is_some());
        let gone = removed.chain(replaced.map(|link| &link.path));
        private.note_all(self.tree, gone.chain(&plan.remove_dirs))?;
        private::save_private(self.repo, &mut private)?;
        Ok(self.private.insert(private).paths())
    }

    /// Notes how a plan went.
    pub(in crate::repo) fn take_report<B>(
        &mut self,
        plan: &Plan<B>,
        report: Report,
    ) -> Result<(), RepoError> {
        let ended = fs_now(&self.tree.own);
        let files = plan.files.iter().map(|f| &f.path).zip(&report.files);
        let links = plan.symlinks.iter().map(|l| &l.path).zip(&report.symlinks);
        let done = files.chain(links).filter_map(|(path, stat)| {
            let (placed, (dir, name)) = (stat.as_ref()?, split_path(path)?);
            Some((dir, name, placed))
        });
        let mut done = done.peekable();
        while let Some((dir, ..)) = done.peek().copied() {
            let (files, bytes) = (&mut self.files, &mut self.bytes);
            let same_dir = std::iter::from_fn(|| {
                let (_, name, placed) = done.next_if(|(other, ..)| *other == dir)?;
                *files += 1;
                *bytes += placed.stat.size;
                Some((name, placed.fingerprint(ended)))
            });
            self.written.note(&self.tree.own, dir, same_dir);
        }
        let mut damage = None;
        for refused in report.refused {
            match refused.why {
                // A directory that still holds somebody's files stays, without a word.
                Refusal::NotEmpty => {}
                Refusal::Content(e) => match e.downcast::<RepoError>() {
                    Ok(e) => damage = damage.or(Some(*e)),
                    Err(e) => {
                        self.refused.push(Problem {
                            path: refused.path,
                            why: e.to_string(),
                        });
                    }
                },
                why => self.refused.push(Problem {
                    path: refused.path,
                    why: why.to_string(),
                }),
            }
        }
        self.removed += report.removed;
        // Wrong or absent content is worse news than any path.
        damage.map_or(Ok(()), Err)
    }

    /// Makes the written files durable before the stat cache vouches for them, and removes for good
    /// what they have replaced, unless somebody has changed it since.
    pub(in crate::repo) fn sync(&mut self) -> Result<(), RepoError> {
        self.sync_written()?;
        self.job.reached(Moment::Written);
        for Refused { path, why } in self.asides.finish() {
            if let Some((dir, name)) = split_path(&path) {
                let suspect = std::iter::once((name, Fingerprint::SUSPECT));
                self.written.note(&self.tree.own, dir, suspect);
            }
            let why = why.to_string();
            self.refused.push(Problem { path, why });
        }
        Ok(())
    }

    fn sync_written(&self) -> Result<(), RepoError> {
        // A sync of a file that was moved may leave its names as they are.
        if self.written.files() > SYNC_EACH || !self.moved.is_empty() {
            return Ok(sync_filesystem(&self.tree.root)?);
        }
        let mut paths = Vec::new();
        let listed = self
            .written
            .each(&mut |dir, name, _| paths.push(join(dir, name)));
        if listed.is_err() {
            return Ok(sync_filesystem(&self.tree.root)?);
        }
        for path in &paths {
            let Some((dir, name)) = split_path(path) else {
                continue;
            };
            // A symlink does not open, and needs no sync of its own.
            let opened = self.tree.root.open_dir(dir);
            let Ok((file, _)) = opened.and_then(|dir| dir.open_file_read(name)) else {
                continue;
            };
            file.sync_data()
                .map_err(|e| crate::fsutil::PathError::new("sync", path.clone(), e))?;
        }
        Ok(())
    }
}

/// Notes what has to be at a path before it gets what a step says.
fn expect_seen(
    seen: &mut BTreeMap<Vec<u8>, Option<Fingerprint>>,
    step: &Step,
) -> Option<Fingerprint> {
    // A directory gives way before anything takes its name.
    let there = step.there.filter(|stat| stat.kind != FileKind::Dir);
    let print = there.as_ref().map(FileStat::fingerprint);
    seen.insert(step.path.clone(), print);
    print
}

pub(in crate::repo) fn checkout_error(error: CheckoutError) -> RepoError {
    match error {
        CheckoutError::Cancelled => RepoError::Cancelled,
        CheckoutError::Disk(e) => RepoError::Path(e),
    }
}

/// Writes that wait to be carried out together.
#[derive(Default)]
pub(in crate::repo) struct Pending {
    plan: Plan<Blob>,
    dirs: BTreeSet<Vec<u8>>,
}
