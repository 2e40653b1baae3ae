//! Stashes: uncommitted changes that are put aside, and come back into the files later.
//!
//! A stash is a commit whose parent is the base that the changes were made on. A key of the view
//! names it (docs/format/layout.md, "Stashes"). Its tree is the worktree as it was, with files in
//! place of conflicts. `push` makes the files equal to the base again; `pop` and `apply` merge the
//! change into the files as they are. Neither makes a moment at which some content of the user is
//! in no file and in no commit that the view names.

mod apply;

pub use apply::{StashApplyReport, StashAt, StashOptions};

use crate::diff::diff_trees;
use crate::fsutil::{FileKind, FileStat};
use crate::hash::ObjectId;
use crate::history::load_commit;
use crate::job::Job;
use crate::merge::Edits;
use crate::object::ObjectError;
use crate::object::commit::Commit;
use crate::object::name::RepoPath;
use crate::object::tree::{Kind, TreeEntry, TreeSummary};
use crate::refs::{Change, Effect};
use crate::repo::base::error::{LookError, RepoError, WorktreeError};
use crate::repo::base::head::Head;
use crate::repo::base::keys::{STASH, stash_key};
use crate::repo::base::publish::set;
use crate::repo::base::repo::Repo;
use crate::repo::base::transaction::Transaction;
use crate::repo::base::worktree;
use crate::repo::base::worktree::WorktreeSettings;
use crate::repo::conflict::form::Form;
use crate::repo::conflict::pending::PendingConflict;
use crate::repo::files::checkout::dirs::is_whole;
use crate::repo::files::checkout::target::{SwitchResult, SwitchTo};
use crate::repo::files::commit::generation;
use crate::repo::files::open_worktree::OpenWorktree;
use crate::repo::files::saved::{empty_above, empty_dir, stat_at, store_made};
use crate::repo::files::untracked::UntrackNotes;
use crate::repo::files::{checkout, open_worktree, pending, snapshot_of, steps, unfinished};
use crate::worktree::base::entry_at;
use crate::worktree::scan::Select;
use crate::worktree::select::is_under;
use crate::worktree::snapshot::Problem;
use crate::worktree::split_path;
use crate::worktree::statcache::StatCache;
use std::collections::BTreeSet;
use std::ops::ControlFlow;

/// A stash.
#[derive(Clone, Debug)]
pub struct StashInfo {
    /// The key of the view that names it. Empty if it comes from another repository.
    pub(crate) key: String,
    /// Its commit.
    pub commit: ObjectId,
    /// Its message: the branch and what the user said, or the commit that the changes were made on.
    pub message: String,
    /// When it was made, in seconds since 1970-01-01 UTC.
    pub seconds: i64,
}

/// What a push to the stash did.
#[derive(Debug)]
pub struct StashPushReport {
    /// The new stash. `None` if there were no changes.
    pub stash: Option<StashInfo>,
    /// The number of files with changes.
    pub changed: u64,
    /// The number of files and symlinks written.
    pub files: u64,
    /// The number of files and symlinks removed.
    pub removed: u64,
    /// Paths that could not be read, or not be put back, and why.
    pub problems: Vec<Problem>,
}

impl Repo {
    /// Returns all stashes, newest first.
    pub fn stashes(&self) -> Result<Vec<StashInfo>, RepoError> {
        let mut out = Vec::new();
        for (key, value) in self.refs.with_prefix(STASH)? {
            let commit = worktree::id_value(self, &key, &value)?;
            let stored = load_commit(self.objects(), &commit)?;
            out.push(StashInfo {
                key,
                commit,
                message: stored.message,
                seconds: stored.committer.seconds,
            });
        }
        out.reverse();
        Ok(out)
    }

    /// Puts the uncommitted changes under `select` aside, and makes these files equal to the base.
    ///
    /// The changes are those that a commit would take, also new files. They are stored and named
    /// before the first file changes.
    pub fn stash_push(
        &self,
        select: &dyn Select,
        message: Option<&str>,
        options: &StashOptions,
        job: &Job,
    ) -> Result<StashPushReport, RepoError> {
        let _lock = worktree::lock_worktree(self)?;
        let tree = open_worktree::open(self, &options.settings)?;
        let (Some(base), Some(before), Some(form)) = (tree.base, tree.base_tree, &tree.form) else {
            return Err(LookError::NoCommit.into());
        };
        refuse_unfinished(self, &tree)?;
        let mut tx = Transaction::within_budget(self, &options.request)?;
        let select = TrackedSelection {
            select,
            untracked: &tree.untracked,
            in_conflict: with_conflicts(self, &tree, select)?,
        };
        let made = snapshot_of::snapshot_of(&mut tx, &tree, &select, &options.settings, job)?;
        let mut report = StashPushReport {
            stash: None,
            changed: made.changed_files,
            files: 0,
            removed: 0,
            problems: made.problems,
        };
        let Some(summary) = made.tree.filter(|made| made.id != before) else {
            return Ok(report);
        };
        store_form(&mut tx, form)?;
        let commit = stash_commit(self, base, &summary, message, options)?;
        let id = tx.put_commit(&commit)?;
        let sides = keep(&mut tx, &tree, form, summary.id)?;
        let key = next_key(self)?;
        tx.change([set(key.clone(), id.as_bytes().to_vec())]);
        steps::set_done(&mut tx, &tree.name, sides)?;
        // The switch writes this cache anew, and some file systems replace no file that is open.
        tree.cache.iter().for_each(StatCache::close);
        let done = put_back(self, form, &summary, options, job, || {
            tx.publish(Effect::Written).map(drop)
        })?;
        report.files = done.files;
        report.removed = done.removed;
        report.problems.extend(done.refused);
        report.stash = Some(StashInfo {
            key,
            commit: id,
            message: commit.message,
            seconds: commit.committer.seconds,
        });
        Ok(report)
    }
}

/// Makes the files equal to the base's `form`, from the state `from` that was just stored. A file
/// that has changed since then is refused before anything changes. `first` runs after this check.
fn put_back(
    repo: &Repo,
    form: &Form,
    from: &TreeSummary,
    options: &StashOptions,
    job: &Job,
    first: impl FnOnce() -> Result<(), RepoError>,
) -> Result<SwitchResult, RepoError> {
    let tree = as_if_on(repo, from.id, &options.settings)?;
    let to = SwitchTo::new(
        "this stash",
        &options.request,
        form.clone(),
        &tree,
        &options.settings,
    );
    // The switch writes the stat cache of its target, which is the worktree's real base.
    checkout::switch_uncommitted(repo, &tree, &to, job, true, first, |_| Ok(()))
}

/// Returns the worktree as if its base had the tree `from`: what the files are like now.
fn as_if_on(
    repo: &Repo,
    from: ObjectId,
    settings: &WorktreeSettings,
) -> Result<OpenWorktree, RepoError> {
    let mut tree = open_worktree::open(repo, settings)?;
    tree.base_tree = Some(from);
    tree.form = Some(Form::plain(from));
    tree.untracked = UntrackNotes::default();
    tree.pending = Vec::new();
    Ok(tree)
}

fn refuse_unfinished(repo: &Repo, tree: &OpenWorktree) -> Result<(), RepoError> {
    match unfinished::unfinished(repo, tree.base_tree, &tree.subset)? {
        // The files are a mix of two commits, which nobody made on purpose.
        Some(unfinished) => Err(WorktreeError::Unfinished {
            command: unfinished.command,
        }
        .into()),
        None => Ok(()),
    }
}

/// Stores the files that show conflicts and that are not stored: the stash names them.
fn store_form(tx: &mut Transaction<'_>, form: &Form) -> Result<(), RepoError> {
    // Only its id counts.
    let path = Repo::parse_path(b"files")?;
    let root = TreeEntry {
        id: form.tree,
        ..empty_dir(&path)
    };
    store_made(tx, &root)
}

fn stash_commit(
    repo: &Repo,
    base: ObjectId,
    tree: &TreeSummary,
    message: Option<&str>,
    options: &StashOptions,
) -> Result<Commit, RepoError> {
    let on = match repo.head()? {
        Head::Branch(name) => name,
        Head::Commit(_) => "no branch".to_owned(),
    };
    let about = match message {
        Some(message) => message.to_owned(),
        None => {
            let subject = load_commit(repo.objects(), &base)?.message;
            let subject = subject.lines().next().unwrap_or_default().to_owned();
            format!("{} {subject}", base.short(12))
        }
    };
    let person = options.committer.at(options.request.time);
    Ok(Commit {
        tree: tree.id,
        tree_bytes: tree.bytes,
        tree_files: tree.files,
        generation: generation(repo, &[base])?,
        parents: vec![base],
        author: person.clone(),
        committer: person,
        message: format!("on {on}: {about}"),
        extras: Vec::new(),
        signature: None,
    })
}

/// Stores the steps of a command that replaces the entries of `now` with those of `shown`. Returns their
/// record. Paths outside the worktree's subset have no files.
fn keep(
    tx: &mut Transaction<'_>,
    worktree: &OpenWorktree,
    shown: &Form,
    now: ObjectId,
) -> Result<ObjectId, RepoError> {
    tx.objects()?;
    let repo = tx.repo();
    let (mut old, mut new, mut come) = (Edits::new(), Edits::new(), Vec::new());
    let mut failed = None;
    each_difference(repo, now, shown.tree, &mut |path, before, after| {
        let is_dir = !before.is_some_and(is_file) && !after.is_some_and(is_file);
        if before.is_none() {
            // An ignored file is not in `now`. If it is as `after` has it, it stays, and if not, the
            // switch refuses to overwrite it. What is of another kind is a difference of its own.
            let same = |stat: FileStat| (stat.kind == FileKind::Dir) != after.is_some_and(is_file);
            // A side of a conflict is not shown where ignored files of the user have its name.
            let is_unshown = || -> Result<bool, RepoError> {
                let own = entry_at(repo.objects(), &now, path.as_bytes())?;
                Ok(own.is_none() && shown.is_side(path.as_bytes()))
            };
            let stays = stat_at(worktree, path.as_bytes()).and_then(|stat| match stat {
                Some(stat) => Ok(same(stat) || is_unshown()?),
                None => Ok(false),
            });
            match stays {
                Ok(true) => return,
                Ok(false) => {}
                Err(e) => drop(failed.get_or_insert(e)),
            }
        }
        if !worktree.subset.includes(path.as_bytes(), is_dir) {
            return;
        }
        if before.is_none() {
            come.push(path.clone());
        }
        // Only a part of a full directory may be in the subset: what it has comes by paths of its own.
        let whole = |entry: &&TreeEntry| is_whole(entry);
        let edit = |entry: &TreeEntry| (path.clone(), Some(entry.clone()));
        old.extend(before.filter(whole).map(edit));
        new.extend(after.filter(whole).map(edit));
    })?;
    if let Some(e) = failed {
        return Err(e);
    }
    let mut looked = BTreeSet::new();
    for path in come {
        // Part of a tree does not show that its directory is there and empty.
        if let Some(dir) = empty_above(worktree, path.as_bytes(), &mut looked)? {
            let entry = empty_dir(&dir);
            old.entry(dir).or_insert(Some(entry));
        }
    }
    let steps = steps::between(repo, &old, &new)?;
    Ok(steps::put(tx, steps)?.id)
}

/// Receives a path and its entries in both trees.
type Visit<'v> = dyn FnMut(&RepoPath, Option<&TreeEntry>, Option<&TreeEntry>) + 'v;

/// Visits the files, symlinks and empty directories that differ between two trees.
fn each_difference(
    repo: &Repo,
    from: ObjectId,
    to: ObjectId,
    visit: &mut Visit<'_>,
) -> Result<(), RepoError> {
    let mut note = |path: &RepoPath, old: Option<&TreeEntry>, new: Option<&TreeEntry>| {
        visit(path, old, new);
        Ok::<_, ObjectError>(ControlFlow::Continue(()))
    };
    // The result is never `Break`, because `note` accepts everything.
    let _ = diff_trees(repo.objects(), Some(from), Some(to), &mut note)?;
    Ok(())
}

/// Returns the key of a new stash. It is greater than all earlier ones, and no operation in the log
/// has used it.
fn next_key(repo: &Repo) -> Result<String, RepoError> {
    let last = repo.refs.operations_before(None, 1)?;
    let next = last.first().map_or(0, |operation| operation.seq) + 1;
    Ok(stash_key(next))
}

/// Returns the change that removes a stash.
fn removal(stash: &StashInfo) -> Change {
    Change {
        key: stash.key.clone(),
        old: Some(stash.commit.as_bytes().to_vec()),
        new: None,
    }
}

/// Returns the files of conflicts that no commit has and of which a file is selected: they are put aside together.
fn with_conflicts(
    repo: &Repo,
    tree: &OpenWorktree,
    select: &dyn Select,
) -> Result<BTreeSet<Vec<u8>>, RepoError> {
    let is_selected = |path: &RepoPath| {
        let split = split_path(path.as_bytes());
        split.is_some_and(|(dir, name)| select.takes(dir, name))
    };
    let mut live = pending::live_in(repo, tree)?;
    live.retain(|one| one.paths().any(is_selected));
    let paths = live.iter().flat_map(PendingConflict::paths);
    Ok(paths.map(|path| path.as_bytes().to_vec()).collect())
}

/// The selected paths without the files that are no longer tracked: no commit takes them.
struct TrackedSelection<'a> {
    select: &'a dyn Select,
    untracked: &'a UntrackNotes,
    /// Paths that are selected with others, and everything below them.
    in_conflict: BTreeSet<Vec<u8>>,
}

impl TrackedSelection<'_> {
    fn is_in_conflict(&self, path: &[u8]) -> bool {
        let mut paths = self.in_conflict.iter();
        paths.any(|own| is_under(path, own))
    }
}

impl Select for TrackedSelection<'_> {
    fn enters(&self, dir: &[u8]) -> bool {
        self.select.enters(dir) || self.is_in_conflict(dir)
    }

    fn takes(&self, dir: &[u8], name: &[u8]) -> bool {
        let path = crate::worktree::join(dir, name);
        let is_selected = self.select.takes(dir, name) || self.is_in_conflict(&path);
        is_selected && !self.untracked.has(&path)
    }

    fn takes_all(&self, dir: &[u8]) -> bool {
        let mut untracked = self.untracked.paths();
        self.select.takes_all(dir) && !untracked.any(|path| is_under(path, dir))
    }
}

/// Returns whether an entry is a file or a symlink.
fn is_file(entry: &TreeEntry) -> bool {
    entry.kind != Kind::Directory
}
