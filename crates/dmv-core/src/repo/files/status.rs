//! Status: the differences between the worktree and the commit that it is on.
//!
//! [`status`] answers the user's command. [`changes_of`] and [`changes_and_seen`] give other
//! commands of `files`, and those of `verbs`, the list of changed paths.

use crate::escape::{Hint, hint};
use crate::fsutil::{FileKind, FileStat, Fingerprint, SafeDir, fs_now, machine_now};
use crate::hash::ObjectId;
use crate::job::Job;
use crate::object::ObjectError;
use crate::object::name::RepoPath;
use crate::object::tree::{Kind, empty_tree_id};
use crate::repo::base::change::{ChangeKind, PathChange};
use crate::repo::base::error::RepoError;
use crate::repo::base::head::Head;
use crate::repo::base::layout::Whose;
use crate::repo::base::moved::BranchPosition;
use crate::repo::base::repo::Repo;
use crate::repo::base::worktree;
use crate::repo::base::worktree::WorktreeSettings;
use crate::repo::conflict::at::ConflictAt;
use crate::repo::conflict::settle;
use crate::repo::files::checkout::written::WrittenFiles;
use crate::repo::files::open_worktree::OpenWorktree;
use crate::repo::files::pending::Which;
use crate::repo::files::same::{SameError, same_in_job};
use crate::repo::files::saved::stat_at;
use crate::repo::files::seen::ScanAnswers;
use crate::repo::files::unfinished::UnfinishedSwitches;
use crate::repo::files::{open_worktree, pending, unfinished, unwritten};
use crate::repo::look::moved::moved;
use crate::subset::Subset;
use crate::worktree::base::{dir_tree, each_base_dir, entry_at};
use crate::worktree::cacheupdate::CacheUpdate;
use crate::worktree::ignore::RuleReport;
use crate::worktree::scan::{BaseEntries, DirScan, Select, State, scan};
use crate::worktree::snapshot::{Problem, special_word, unread};
use crate::worktree::statcache::trusted_fingerprint;
use crate::worktree::{Skip, join, split_path};
use std::collections::HashSet;

/// Which part of the worktree to compare, and how.
pub struct StatusOptions<'a> {
    /// The part of the worktree to compare.
    pub select: &'a dyn Select,
    /// How files are read.
    pub settings: WorktreeSettings,
}

/// The differences between the worktree and its commit.
#[derive(Debug)]
pub struct StatusReport {
    /// The head of the worktree.
    pub head: Head,
    /// The head's commit. `None` before the first commit.
    pub commit: Option<ObjectId>,
    /// Set if another worktree or a push moved the branch: how the branch's commit relates to the
    /// commit that the files come from.
    pub moved: Option<BranchPosition>,
    /// A switch to another commit that was cut off, unless a later switch has finished; or a command on
    /// uncommitted files, such as `stash pop`.
    pub unfinished: Option<UnfinishedSwitches>,
    /// The paths that differ, in path order.
    pub changes: Vec<PathChange>,
    /// Paths that differ because a command could not write them. They have not changed since.
    pub unwritten: Vec<RepoPath>,
    /// Files that the next commit leaves out, in path order. They are not in `changes`.
    pub untracking: Vec<UntrackedFile>,
    /// The worktree's subset.
    pub subset: Subset,
    /// Files on disk outside the subset, in path order. A directory stands for everything in it.
    pub outside: Vec<Vec<u8>>,
    /// Conflicts that are still open: those of the commit, and those that no commit has yet.
    pub conflicts: Vec<RepoPath>,
    /// Those of the `conflicts` that can be read here.
    pub unresolved: Vec<ConflictAt>,
    /// Those of the `conflicts` that no commit has yet.
    pub pending: Vec<RepoPath>,
    /// Conflicts that are settled by files or choices. They are also listed in `changes`, unless the
    /// file is as in the commit.
    pub settled: Vec<RepoPath>,
    /// Paths that a commit leaves out because they show a conflict that is in no commit.
    pub marked: Vec<RepoPath>,
    /// Paths that could not be examined, and why.
    pub problems: Vec<Problem>,
    /// Entries that are never versioned, such as special files.
    pub warnings: Vec<Problem>,
}

impl StatusReport {
    /// Returns the command that takes back what was interrupted. `None` if nothing was, and where there is no way
    /// back: in a clone no files were there before, and a checkout that updates the files can only go on.
    pub fn way_back(&self) -> Option<Hint> {
        let cut = self.unfinished.as_ref()?;
        if cut.is_undoable {
            return Some(hint!("dmv undo"));
        }
        let had_files = self.moved.as_ref().is_none_or(|moved| moved.base.is_some());
        let back = self.head.checkout_command();
        (had_files && back.as_str() != cut.command).then_some(back)
    }
}

/// A file that the next commit leaves out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UntrackedFile {
    /// The path.
    pub path: RepoPath,
    /// Whether the file is on disk, where it stays.
    pub on_disk: bool,
}

impl Repo {
    /// Compares the worktree with its base.
    ///
    /// Reads content only where a file's stat has changed. Files that turn out equal are added to
    /// the stat cache if it can be written.
    pub fn status(
        &self,
        options: &StatusOptions<'_>,
        job: &Job,
    ) -> Result<StatusReport, RepoError> {
        // A reader that cannot take the lock works without updating the stat cache.
        let lock = if self.refs.is_read_only() {
            None
        } else {
            worktree::try_lock_worktree(self).unwrap_or(None)
        };
        let tree = open_worktree::open_with_conflicts(self, &options.settings, Which::Live)?;
        let known = tree.known(self);
        let (mut out, cache) = survey(self, &tree, &*known, options, job, None)?;
        let unwritten = unwritten::unwritten_paths(self, &tree)?;
        if let Some(form) = &tree.form {
            let changes = std::mem::take(&mut out.changes);
            let mut told = settle::explain(&tree.root, form, changes);
            pending::against_commit(self, &tree, form, &mut told)?;
            pending::open_unwritten(form, &unwritten, &mut told);
            out.marked = pending::left_out(form, &told);
            let open: HashSet<&RepoPath> = told.open.iter().collect();
            let shown = form.shown.iter().map(|shown| &shown.at);
            out.unresolved = shown
                .filter(|at| open.contains(&at.path))
                .cloned()
                .collect();
            let pending = form.shown.iter().filter(|shown| shown.is_pending);
            let pending = pending.map(|shown| &shown.at.path);
            out.pending = pending
                .filter(|path| open.contains(path))
                .cloned()
                .collect();
            (out.changes, out.conflicts, out.settled) = (told.changes, told.open, told.settled);
        }
        out.untracking = untracking(&tree, options.select, &mut out.changes)?;
        let differs = |change: &PathChange| unwritten.contains(change.path.as_bytes());
        let of_others = out.changes.extract_if(.., |change| differs(change));
        out.unwritten = of_others.map(|change| change.path).collect();
        // A directory in the place of a file is a deletion and an addition.
        out.unwritten.dedup();
        join_kinds(&mut out.changes);
        if let (Some(_lock), Some(cache), Some(tree_id)) = (lock, cache, tree.base_tree) {
            // The stat cache is an optimization. On a full disk the answer is the same.
            let _ = cache.finish(&tree_id, !tree.cache_fits());
        }
        Ok(out)
    }
}

/// Makes one change of a path that was deleted and added: an empty directory and something else have replaced each
/// other.
fn join_kinds(changes: &mut Vec<PathChange>) {
    changes.dedup_by(|next, first| {
        let is_same = next.path == first.path;
        if is_same {
            first.kind = ChangeKind::Type;
        }
        is_same
    });
}

/// Returns the files that the next commit leaves out, and removes them from the `changes`. A file
/// that the user has deleted is an ordinary change.
fn untracking(
    tree: &OpenWorktree,
    select: &dyn Select,
    changes: &mut Vec<PathChange>,
) -> Result<Vec<UntrackedFile>, RepoError> {
    let noted = tree.untracked.selected(select);
    if noted.is_empty() {
        return Ok(Vec::new());
    }
    let is_deleted = |change: &PathChange| change.kind == ChangeKind::Deleted;
    let deleted = changes.iter().filter(|change| is_deleted(change));
    let deleted: HashSet<RepoPath> = deleted.map(|change| change.path.clone()).collect();
    changes.retain(|change| is_deleted(change) || !tree.untracked.has(change.path.as_bytes()));
    let mut out = Vec::new();
    for path in noted {
        let path = RepoPath::from_checked(path);
        if !deleted.contains(&path) {
            let on_disk = stat_at(tree, path.as_bytes())?.is_some();
            out.push(UntrackedFile { path, on_disk });
        }
    }
    out.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(out)
}

/// Returns the paths that differ from the base's form. The caller holds the worktree's lock.
/// Removes temporary files that a killed checkout has left.
pub fn changes_of(
    repo: &Repo,
    tree: &OpenWorktree,
    options: &StatusOptions<'_>,
    job: &Job,
) -> Result<Vec<PathChange>, RepoError> {
    let known = tree.known(repo);
    let mut compared = WrittenFiles::default();
    let told = survey(repo, tree, &*known, options, job, Some(&mut compared))?;
    Ok(told.0.changes)
}

/// What a scan found, for a command that changes files.
pub struct ScanResult<'a> {
    pub changes: Vec<PathChange>,
    /// Paths that could not be examined.
    pub problems: Vec<Problem>,
    /// What the scan saw of all other files.
    pub seen: ScanAnswers<'a>,
}

/// Like [`changes_of`], and also returns what the scan saw of all other files.
pub fn changes_and_seen<'a>(
    repo: &'a Repo,
    tree: &'a OpenWorktree,
    options: &StatusOptions<'_>,
    job: &Job,
) -> Result<ScanResult<'a>, RepoError> {
    let known = tree.known(repo);
    let mut compared = WrittenFiles::default();
    let told = survey(repo, tree, &*known, options, job, Some(&mut compared))?;
    Ok(ScanResult {
        changes: told.0.changes,
        problems: told.0.problems,
        seen: ScanAnswers::new(known, compared),
    })
}

/// Compares the worktree with its base. If the caller holds the lock, it passes `compared`: then
/// leftovers of other commands are removed, and `compared` gets the fingerprints of files whose
/// content turned out to be equal.
fn survey<'a>(
    repo: &'a Repo,
    tree: &'a OpenWorktree,
    known: &'a dyn BaseEntries,
    options: &StatusOptions<'_>,
    job: &'a Job,
    compared: Option<&'a mut WrittenFiles>,
) -> Result<(StatusReport, Option<CacheUpdate<'a>>), RepoError> {
    let (head, commit) = (repo.head()?, repo.head_commit()?);
    let mut status = Status {
        repo,
        base: tree.base_tree,
        tree,
        known,
        cache: CacheUpdate::new(&tree.own, repo.id, &tree.subset, known),
        cache_failed: repo.whose == Whose::Foreign,
        own: &tree.own,
        compared,
        job,
        started: match repo.whose {
            Whose::Own => fs_now(&tree.own),
            Whose::Foreign => machine_now(),
        },
        rules: RuleReport::default(),
        out: StatusReport {
            moved: moved(repo, tree.base, &head)?,
            unfinished: unfinished::cut_off(repo, tree)?,
            head,
            commit,
            changes: Vec::new(),
            unwritten: Vec::new(),
            untracking: Vec::new(),
            subset: tree.subset.clone(),
            outside: Vec::new(),
            conflicts: Vec::new(),
            unresolved: Vec::new(),
            pending: Vec::new(),
            settled: Vec::new(),
            marked: Vec::new(),
            problems: Vec::new(),
            warnings: Vec::new(),
        },
    };
    let scan_options = tree.scan_options(known, options.select, job);
    scan(&tree.root, &scan_options, |dir| {
        status.dir(dir, options.select)
    })?;
    let Status {
        mut out,
        cache,
        cache_failed,
        rules,
        ..
    } = status;
    rules.finish(&mut out.problems, &mut out.warnings);
    out.outside
        .sort_by(|a, b| crate::worktree::compare_dirs(a, b));
    out.changes.sort_by(|a, b| a.path.cmp(&b.path));
    Ok((out, (!cache_failed).then_some(cache)))
}

struct Status<'a> {
    repo: &'a Repo,
    base: Option<ObjectId>,
    tree: &'a OpenWorktree,
    known: &'a dyn BaseEntries,
    cache: CacheUpdate<'a>,
    /// Whether the stat cache cannot be written. Then the results of this scan are not stored.
    cache_failed: bool,
    own: &'a SafeDir,
    /// Gets the files whose content turned out to be equal. Set by commands that hold the lock.
    compared: Option<&'a mut WrittenFiles>,
    job: &'a Job,
    started: crate::fsutil::FileTime,
    rules: RuleReport,
    out: StatusReport,
}

impl Status<'_> {
    fn dir(&mut self, scan: DirScan, select: &dyn Select) -> Result<(), RepoError> {
        if let Some(why) = unread(&scan.outcome) {
            self.out.problems.push(Problem::new(scan.path.clone(), why));
            self.cache.keep_all_under(scan.path);
            return Ok(());
        }
        for dir in scan.left_out(select) {
            self.cache.keep_all_under(dir);
        }
        self.rules.note(&scan);
        let mut equal = Vec::new();
        for (name, state) in scan.entries() {
            let path = join(&scan.path, name);
            match state {
                State::Suspect { kind, stat } => match self.compare(&path, kind, stat)? {
                    Some(true) => equal.push((name, kind, trusted_fingerprint(stat, self.started))),
                    Some(false) => self.change(path, ChangeKind::Modified),
                    None => {}
                },
                State::New { .. } => self.change(path, ChangeKind::Added),
                State::Gone { kind } => self.gone(path, kind)?,
                State::TypeChanged { was, now } => self.type_changed(path, was, now)?,
                State::Dir { known } => {
                    if known && !select.enters(&path) {
                        self.cache.keep_all_under(path);
                    }
                }
                State::Ignored { .. } | State::Held { .. } => {}
                State::Outside { .. } => self.out.outside.push(path),
                State::Skipped { known, reason } => self.skipped(path, known, reason),
            }
        }
        if scan.is_new_and_empty() {
            if self.out.subset.includes(&scan.path, true) {
                self.change(scan.path.clone(), ChangeKind::Added)
            } else {
                self.out.outside.push(scan.path.clone())
            }
        }
        self.remember(&scan, &equal);
        Ok(())
    }

    /// Remembers which entries of a directory turned out to be equal to the base.
    fn remember(&mut self, scan: &DirScan, equal: &[(&[u8], Kind, Fingerprint)]) {
        if let (Some(compared), false) = (&mut self.compared, equal.is_empty()) {
            let prints = equal.iter().map(|(name, _, print)| (*name, *print));
            compared.note(self.own, &scan.path, prints);
        }
        let Some(known) = &scan.known else {
            return;
        };
        let trusted = |row: &&(&[u8], Kind, Fingerprint)| row.2 != Fingerprint::SUSPECT;
        let rows = equal.iter().filter(trusted);
        let rows = rows.map(|(name, kind, print)| (*name, Some((*kind, *print))));
        if !self.cache_failed {
            let dir = scan.path.clone().into();
            let kept = (self.cache).refresh(dir, known, rows, scan.exact, self.started);
            self.cache_failed = kept.is_err();
        }
    }

    /// Notes a path of the base that is gone.
    fn gone(&mut self, path: Vec<u8>, kind: Kind) -> Result<(), RepoError> {
        if kind == Kind::Directory {
            self.gone_dir(&path)?;
            // The directory may come back unchanged.
            self.cache.keep_all_under(path);
        } else {
            self.change(path, ChangeKind::Deleted);
        }
        Ok(())
    }

    /// Notes a path of the base with an entry of another type.
    fn type_changed(&mut self, path: Vec<u8>, was: Kind, now: FileKind) -> Result<(), RepoError> {
        if was == Kind::Directory {
            self.gone_dir(&path)?;
            self.cache.keep_all_under(path.clone());
        }
        self.change(
            path,
            match (was, now) {
                (Kind::Directory, _) => ChangeKind::Added,
                (_, FileKind::Dir) => ChangeKind::Deleted,
                _ => ChangeKind::Type,
            },
        );
        Ok(())
    }

    fn change(&mut self, path: Vec<u8>, kind: ChangeKind) {
        let path = RepoPath::from_checked(path);
        self.out.changes.push(PathChange { path, kind });
    }

    /// Notes everything that the commit has in a removed directory.
    fn gone_dir(&mut self, dir: &[u8]) -> Result<(), RepoError> {
        let visited = each_base_dir(self.known, dir, &mut |dir, section| {
            if section.is_empty() && self.is_empty_in_base(dir)? {
                self.change(dir.to_vec(), ChangeKind::Deleted);
            }
            for entry in section.iter().filter(|e| e.kind != Kind::Directory) {
                self.change(join(dir, entry.name), ChangeKind::Deleted);
            }
            Ok(())
        });
        visited.map_err(|source| {
            RepoError::from(crate::worktree::scan::ScanError::Base {
                dir: dir.to_vec(),
                source,
            })
        })
    }

    /// Returns whether the commit has nothing in a directory. The subset may only leave out all of it.
    fn is_empty_in_base(&self, dir: &[u8]) -> Result<bool, ObjectError> {
        let Some(base) = self.base else {
            return Ok(false);
        };
        let tree = dir_tree(self.repo.objects(), &base, dir)?;
        Ok(tree == Some(empty_tree_id()))
    }

    fn skipped(&mut self, path: Vec<u8>, known: Option<Kind>, reason: Skip) {
        match reason {
            Skip::Special(kind) => {
                let why = format!("a {} cannot be committed", special_word(kind));
                self.out.warnings.push(Problem::new(path.clone(), why));
                if known.is_some() {
                    self.change(path, ChangeKind::Deleted);
                }
            }
            Skip::BadName(why) => {
                let why = format!("its name cannot be stored: {why}");
                self.out.problems.push(Problem::new(path, why));
            }
            Skip::Unreadable(errno) => {
                let why = std::io::Error::from_raw_os_error(errno).to_string();
                self.out.problems.push(Problem::new(path, why));
            }
            Skip::Temporary if self.compared.is_some() => {
                // The process that made this file has ended, since it had the worktree's lock. A
                // failure to remove the file does no harm.
                let _ = split_path(&path).map(|(dir, name)| {
                    self.tree
                        .root
                        .open_dir(dir)
                        .and_then(|dir| dir.unlink(name))
                });
            }
            Skip::Control | Skip::Temporary => {}
        }
    }

    /// Returns whether a file equals the commit's entry, or `None` if that is unknown.
    fn compare(
        &mut self,
        path: &[u8],
        kind: Kind,
        stat: &FileStat,
    ) -> Result<Option<bool>, RepoError> {
        let Some(base) = self.base else {
            return Ok(Some(false));
        };
        let Some(entry) = entry_at(self.repo.objects(), &base, path)? else {
            return Ok(Some(false));
        };
        if kind == Kind::Conflict {
            return Ok(Some(false));
        }
        match same_in_job(self.repo, self.tree, path, &entry, stat, self.job) {
            Ok(same) => Ok(Some(same)),
            Err(SameError::Path(e)) => {
                self.out.problems.push(Problem::new(path, e.why()));
                Ok(None)
            }
            Err(SameError::Repo(e)) => Err(e),
        }
    }
}
