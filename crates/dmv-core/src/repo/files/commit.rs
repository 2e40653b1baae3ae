//! Commits: the state of the worktree, or of a part of it, becomes a new commit.
//!
//! [`commit`] reads the changed files into the store and publishes the commit together with the
//! worktree's new base. `verbs` uses [`generation`] and [`advance`] for its own commits.

mod conflicts;

use self::conflicts::{end_choices, marked, still_open};
use crate::diff;
use crate::fsutil::fs_now;
use crate::hash::ObjectId;
use crate::history::load_commit;
use crate::job::Job;
use crate::merge::Edits;
use crate::object::ObjectError;
use crate::object::commit::{Commit, Person};
use crate::object::name::RepoPath;
use crate::object::tree::{TreeEntry, TreeSummary, put_empty_tree};
use crate::refs::{Change, Effect, Timestamp};
use crate::repo::base::error::{LookError, RepoError, WorktreeError};
use crate::repo::base::head::Head;
use crate::repo::base::keys::base_key;
use crate::repo::base::moved::BranchPosition;
use crate::repo::base::notes::PathNotes;
use crate::repo::base::publish::OperationRequest;
use crate::repo::base::repo::Repo;
use crate::repo::base::transaction::Transaction;
use crate::repo::base::worktree::WorktreeSettings;
use crate::repo::base::{keys, worktree};
use crate::repo::conflict::at::list_conflicts;
use crate::repo::conflict::settle;
use crate::repo::conflict::settle::{MarkersLeft, SettledConflicts, UnsettledConflict};
use crate::repo::files::open_worktree::OpenWorktree;
use crate::repo::files::pending::Which;
use crate::repo::files::who::Who;
use crate::repo::files::{
    dropped, large, notes, open_worktree, pending, unfinished, untouched, untracked, unwritten,
};
use crate::repo::look::history_use::{CompressedFile, saved_compressed};
use crate::repo::look::moved::{moved, refused};
use crate::worktree::cacheupdate::CacheUpdate;
use crate::worktree::not_kept::NotKept;
use crate::worktree::scan::{BaseEntries, Select};
use crate::worktree::select::Paths;
use crate::worktree::snapshot::{Problem, Snapshot, SnapshotInput, snapshot};
use crate::worktree::split_path;
use std::collections::{BTreeSet, HashMap};
use std::ops::ControlFlow;
use std::sync::atomic::Ordering;

/// The most removed or added files among which a commit looks for moved files.
const MAX_PAIRED: usize = 256 << 10;

/// The most changed files of a commit that are examined for compression.
const MAX_LOOKED_AT: u64 = 256;

/// What to commit, and how.
#[derive(Clone)]
pub struct CommitOptions<'a> {
    /// The message.
    pub message: Option<String>,
    /// Who wrote the change.
    pub author: Option<Who>,
    /// When the change was written. `None`: now, or when the last commit was if it is amended.
    pub date: Option<Timestamp>,
    /// Who commits.
    pub committer: Who,
    /// The part of the worktree to commit.
    pub select: &'a dyn Select,
    /// Whether the commit replaces the last commit instead of following it.
    pub amend: bool,
    /// Whether to commit even if nothing changed.
    pub allow_empty: bool,
    /// Whether to commit files as they are although they still have the markers of a conflict.
    pub allow_markers: bool,
    /// Whether to fail with [`FilesError::Large`](crate::repo::FilesError::Large) where
    /// [`large_new_files`](Repo::large_new_files) with this many bytes may have a result.
    pub refuse_large: Option<u64>,
    /// How files are read into the store.
    pub settings: WorktreeSettings,
    /// What the operation log records about the request.
    pub request: OperationRequest,
}

static ALL: Paths = Paths::all();

impl CommitOptions<'static> {
    /// Returns options that commit all changes with the default settings.
    pub fn new(message: impl Into<String>, committer: Who, request: OperationRequest) -> Self {
        CommitOptions {
            message: Some(message.into()),
            author: None,
            date: None,
            committer,
            select: &ALL,
            amend: false,
            allow_empty: false,
            allow_markers: false,
            refuse_large: None,
            settings: WorktreeSettings::default(),
            request,
        }
    }
}

/// What a commit did.
#[derive(Debug)]
pub struct CommitReport {
    /// The new commit. `None` if there was nothing to commit.
    pub commit: Option<ObjectId>,
    /// The head of the worktree.
    pub head: Head,
    /// The number of files that differ from the previous commit.
    pub files: u64,
    /// The size of its tree.
    pub size: CommitSize,
    /// Files that the commit has as they were in the previous commit, and why.
    pub problems: Vec<Problem>,
    /// Those of the `problems` that an earlier command could not write. The files on disk are from
    /// another commit.
    pub unwritten: Vec<RepoPath>,
    /// What the user may want to know about committed files.
    pub remarks: FileRemarks,
    /// Files left out on purpose that the user should know about.
    pub warnings: Vec<Problem>,
    /// Control directories that were skipped.
    pub control: Vec<Vec<u8>>,
    /// Conflicts of the base that stay open in the new commit.
    pub conflicts: Vec<RepoPath>,
    /// Those of the `conflicts` whose file was edited but still has marker lines. The edit stays in
    /// the worktree, uncommitted.
    pub edited: Vec<MarkersLeft>,
    /// Conflicts that no commit has, this one included, and that are not settled. The commit leaves
    /// their files out.
    pub marked: Vec<UnsettledConflict>,
    /// Conflicts that this commit settles.
    pub settled: Vec<RepoPath>,
    /// Files that this commit leaves out although they may be on disk, in path order.
    pub untracked: Vec<RepoPath>,
    /// Files on disk outside the worktree's subset, which are never committed. A directory stands
    /// for everything in it.
    pub outside: Vec<Vec<u8>>,
    /// Set if another worktree or a push moved the branch. The new commit then follows the commit
    /// that the files come from, and is on no branch until `Repo::merge_moved` runs.
    pub moved: Option<BranchPosition>,
}

/// The size of a commit.
#[derive(Clone, Copy, Debug, Default)]
pub struct CommitSize {
    /// The number of files in the complete tree.
    pub tree_files: u64,
    /// The bytes of all files in the complete tree.
    pub bytes: u64,
    /// The bytes of content that the store did not have before.
    pub new_bytes: u64,
    /// The bytes appended to packs.
    pub stored_bytes: u64,
}

/// What the user may want to know about committed files.
#[derive(Debug, Default)]
pub struct FileRemarks {
    /// Properties of files that no commit stores.
    pub not_kept: NotKept,
    /// Changes of files that ignore rules cover: their number and the first path.
    pub tracked_ignored: (u64, Vec<u8>),
    /// The largest file that is saved compressed and shares little with its previous version, if there
    /// are few changed files.
    pub compressed: Option<CompressedFile>,
}

/// How often a commit begins again because another command freed what it had found stored.
const TRIES: usize = 3;

impl Repo {
    /// Commits the worktree's changes.
    ///
    /// Files that cannot be read keep their former state, and the report names them. Everything
    /// else is committed. Nothing is visible before the commit point. After an interruption, the
    /// repository is as before, and the next attempt reuses what was stored.
    pub fn commit(&self, options: CommitOptions<'_>, job: &Job) -> Result<CommitReport, RepoError> {
        for _ in 1..TRIES {
            match commit_once(self, &options, job) {
                Err(e) if e.may_be_gone() => job.begin_part(),
                done => return done,
            }
        }
        commit_once(self, &options, job)
    }
}

fn commit_once(
    repo: &Repo,
    options: &CommitOptions<'_>,
    job: &Job,
) -> Result<CommitReport, RepoError> {
    let _lock = worktree::lock_worktree(repo)?;
    let start = start(repo, options)?;
    let tree = &start.tree;
    let known = tree.known(repo);
    let mut cache = CacheUpdate::new(&tree.own, repo.id, &tree.subset, &*known);
    let mut tx = Transaction::within_budget(repo, &options.request)?;
    let made = read_files(&mut tx, tree, options, &*known, &mut cache, job)?;
    // The tree that the files show, which the stat cache describes.
    let shown = made.tree.map(|tree| tree.id).or(tree.base_tree);
    let content = content(&mut tx, tree, made.tree, options)?;
    let new = if has_nothing(&start, options, &made, content.tree.as_ref()) {
        None
    } else {
        Some(put_commit(&mut tx, &start, options, &content)?)
    };
    let noted = notes_after(repo, tree, &content, new.is_some())?;
    notes::put(&mut tx, tree, &noted)?;
    let mut report = report(&start, options, &content, made);
    report.size.new_bytes = job.progress.new_bytes.load(Ordering::Relaxed);
    if new.is_some() {
        report.size.stored_bytes = tx.stored_bytes()?;
        job.check()?;
    }
    tx.publish_changes(Effect::Kept)?;
    // The next scan need not read files whose stat changed but whose content did not. The cache is an
    // optimization, so the commit succeeds even if the cache cannot be written.
    if let Some(shown) = shown.or(new.as_ref().map(|new| new.tree.id)) {
        let _ = cache.finish(&shown, new.is_some() || !tree.cache_fits());
    }
    match &new {
        Some(new) => report_commit(repo, &start, new, &mut report)?,
        None => report_nothing(&mut report, summary(repo, &content, tree.base)?),
    }
    if !content.conflicts.leftover.is_empty() {
        let left = untouched::remove_untouched(repo, tree, &content.conflicts.leftover, job)?;
        report.warnings.extend(left);
    }
    Ok(report)
}

/// Returns the report of a commit that is not published yet.
fn report(
    start: &Start,
    options: &CommitOptions<'_>,
    content: &CommitContent,
    made: Snapshot,
) -> CommitReport {
    let conflicts = &content.conflicts;
    let mut tracked_ignored = made.tracked_ignored;
    let is_first = |path: &RepoPath| path.as_bytes() == tracked_ignored.1;
    if content.untracked.iter().any(is_first) {
        // It is left out, so it is not tracked any more.
        tracked_ignored = Default::default();
    }
    let covered = conflicts.covered.iter().map(|path| {
        let why = "this directory is in the place of an unresolved conflict";
        Problem::new(path, why)
    });
    CommitReport {
        commit: None,
        head: start.head.clone(),
        files: made.changed_files,
        size: CommitSize::default(),
        problems: covered.chain(made.problems).collect(),
        unwritten: RepoPath::all_checked(made.unwritten),
        remarks: FileRemarks {
            not_kept: made.not_kept,
            tracked_ignored,
            ..FileRemarks::default()
        },
        warnings: made.warnings,
        control: made.control,
        conflicts: conflicts.open_paths(),
        edited: conflicts.edited.clone(),
        marked: marked(&start.tree, conflicts, options.select),
        settled: conflicts.settled.clone(),
        untracked: content.untracked.clone(),
        outside: made.outside,
        moved: start.moved,
    }
}

/// Completes the report of a commit that was published.
fn report_commit(
    repo: &Repo,
    start: &Start,
    new: &NewCommit,
    report: &mut CommitReport,
) -> Result<(), RepoError> {
    let form = start.tree.form.as_ref();
    // The commit is published already, so an error here is ignored. Without this step another drop
    // may free the content again if other repositories have it.
    let _ = dropped::committed_again(repo, form.map(|form| form.stored), new.tree.id);
    report.commit = Some(new.id);
    if let Head::Commit(_) = start.head {
        report.head = Head::Commit(new.id);
    }
    (report.size.tree_files, report.size.bytes) = (new.tree.files, new.tree.bytes);
    report.files = changed_files(repo, &start.tree, new.tree.id, report)?;
    report.remarks.compressed = match form {
        Some(form) if report.files <= MAX_LOOKED_AT => {
            // Only a warning depends on it.
            let saved = saved_compressed(repo, form.stored, new.tree.id);
            saved.ok().flatten()
        }
        _ => None,
    };
    Ok(())
}

/// Completes the report of a commit for which there is nothing. `tree` is the base's.
fn report_nothing(report: &mut CommitReport, tree: Option<TreeSummary>) {
    report.files = 0;
    if let Some(tree) = tree {
        (report.size.tree_files, report.size.bytes) = (tree.files, tree.bytes);
    }
}

/// The state that a commit starts from.
struct Start {
    tree: OpenWorktree,
    head: Head,
    /// The commit of the head. It differs from the worktree's base if the branch was moved.
    tip: Option<ObjectId>,
    moved: Option<BranchPosition>,
}

/// Opens the worktree. Refuses states in which a commit would record what the user did not make on purpose.
fn start(repo: &Repo, options: &CommitOptions<'_>) -> Result<Start, RepoError> {
    let tree = open_worktree::open_with_conflicts(repo, &options.settings, Which::Live)?;
    let head = repo.head()?;
    let tip = repo.head_commit()?;
    if options.amend && tip.is_none() {
        return Err(LookError::NoCommit.into());
    }
    // A commit on top of a moved branch would silently undo the branch's new changes.
    let moved = moved(repo, tree.base, &head)?;
    if let Some(found) = moved.filter(|found| options.amend || !found.forward) {
        return Err(refused(repo, &head, found));
    }
    if let Some(unfinished) = unfinished::cut_off(repo, &tree)? {
        // The files are a mix of two commits, or of edits and a stash.
        return Err(WorktreeError::Unfinished {
            command: unfinished.command,
        }
        .into());
    }
    Ok(Start {
        tree,
        head,
        tip,
        moved,
    })
}

/// Reads the changed files into the store and builds the tree that the files show.
fn read_files(
    tx: &mut Transaction<'_>,
    tree: &OpenWorktree,
    options: &CommitOptions<'_>,
    known: &dyn BaseEntries,
    cache: &mut CacheUpdate<'_>,
    job: &Job,
) -> Result<Snapshot, RepoError> {
    let repo = tx.repo();
    let input = SnapshotInput {
        root: &tree.root,
        reader: repo.objects(),
        base: tree.base_tree,
        scan: tree.scan_options(known, options.select, job),
        started: fs_now(&tree.own),
        portable: options.settings.portable_names,
        properties: &tree.properties,
        unwritten: &unwritten::unwritten_paths(repo, tree)?,
        most_new: large::most_new(repo, tree, options.refuse_large)?,
    };
    let mut made = snapshot(&input, tx.writer()?, cache, job)?;
    let mut purged = unwritten::purged_paths(repo, tree)?;
    // Without an ignore file, new files are left out.
    let is_ignore_file = |path: &Vec<u8>| {
        let name = split_path(path).map(|(_, name)| name);
        name.is_some_and(|name| tree.ignore.is_ignore_file(name))
    };
    purged.retain(|path| !is_ignore_file(path));
    unwritten::excuse(&mut made, &purged);
    Ok(made)
}

/// Returns whether there is nothing to commit. `tree` is the tree to commit; `None` means the
/// base's.
fn has_nothing(
    start: &Start,
    options: &CommitOptions<'_>,
    made: &Snapshot,
    tree: Option<&TreeSummary>,
) -> bool {
    if options.allow_empty {
        return false;
    }
    let stored = start.tree.form.as_ref().map(|form| form.stored);
    let is_same = !options.amend && tree.is_none_or(|tree| stored == Some(tree.id));
    // Empty directories are content, too.
    let is_first = start.tree.base.is_none();
    is_same || is_first && made.tree.is_none_or(|tree| tree.entries == 0)
}

/// A commit that is not published yet.
struct NewCommit {
    id: ObjectId,
    tree: TreeSummary,
}

/// Adds the commit to `tx`, and that the worktree's base and head become this commit.
fn put_commit(
    tx: &mut Transaction<'_>,
    start: &Start,
    options: &CommitOptions<'_>,
    content: &CommitContent,
) -> Result<NewCommit, RepoError> {
    let (repo, worktree) = (tx.repo(), &start.tree);
    let tree = match summary(repo, content, worktree.base)? {
        Some(tree) => tree,
        None => TreeSummary {
            id: put_empty_tree(tx)?,
            bytes: 0,
            files: 0,
            entries: 0,
        },
    };
    let open = still_open(repo, worktree, &content.conflicts)?;
    let mut commit = new_commit(repo, options, worktree.base, &tree, &open)?;
    let id = tx.put_own_commit(&mut commit)?;
    let mut changes = advance(worktree, &start.head, start.tip, id);
    if start.moved.is_some() {
        changes.retain(|change| change.key == base_key(&worktree.name));
    }
    tx.change(changes);
    Ok(NewCommit { id, tree })
}

/// Returns the worktree's notes after the commit.
fn notes_after(
    repo: &Repo,
    tree: &OpenWorktree,
    content: &CommitContent,
    is_new: bool,
) -> Result<PathNotes, RepoError> {
    let mut noted = tree.notes.clone();
    if is_new {
        end_choices(&mut noted, tree, &content.conflicts);
        let mut left_out = content.untracked.iter().map(RepoPath::as_bytes);
        let left_out: BTreeSet<&[u8]> = left_out.by_ref().collect();
        untracked::forget_in(&mut noted, |path| left_out.contains(path));
    }
    let left = content.conflicts.left_out.iter();
    let left = left.map(|left| left.path.clone()).collect();
    pending::end_in(repo, &mut noted, tree, &left)?;
    Ok(noted)
}

/// Returns how many files differ from the base in the committed tree `root`. A moved file counts
/// once.
fn changed_files(
    repo: &Repo,
    tree: &OpenWorktree,
    root: ObjectId,
    report: &CommitReport,
) -> Result<u64, RepoError> {
    let Some(form) = &tree.form else {
        return Ok(report.files);
    };
    // The scan also counted files beside conflicts, and not those that are left out.
    let files = if form.has_conflicts() || !report.untracked.is_empty() {
        diff::changes(repo.objects(), Some(form.stored), Some(root))?.len() as u64
    } else {
        report.files
    };
    Ok(files - moved_files(repo, form.stored, root)?.min(files))
}

/// Counts the files of the tree `old` that have another name in `new`. Files with the same name in
/// both trees are ignored. Each moved file counts as one change.
fn moved_files(repo: &Repo, old: ObjectId, new: ObjectId) -> Result<u64, RepoError> {
    let mut gone: HashMap<ObjectId, u64> = HashMap::new();
    let mut come: HashMap<ObjectId, u64> = HashMap::new();
    let mut note = |_: &RepoPath, old: Option<&TreeEntry>, new: Option<&TreeEntry>| {
        let (list, entry) = match (old, new) {
            (Some(old), None) => (&mut gone, old),
            (None, Some(new)) => (&mut come, new),
            _ => return Ok(ControlFlow::Continue(())),
        };
        if entry.kind.is_blob() && entry.size > 0 {
            *list.entry(entry.id).or_default() += 1;
        }
        // Pairing more files is not worth the memory. They count as removed and added.
        Ok::<_, ObjectError>(if gone.len().max(come.len()) < MAX_PAIRED {
            ControlFlow::Continue(())
        } else {
            ControlFlow::Break(())
        })
    };
    let ended = diff::diff_trees(repo.objects(), Some(old), Some(new), &mut note)?;
    if ended.is_break() {
        return Ok(0);
    }
    let pairs = gone
        .iter()
        .map(|(id, n)| *n.min(come.get(id).unwrap_or(&0)));
    Ok(pairs.sum())
}

/// What a commit has of the files, and what it leaves out.
struct CommitContent {
    /// The tree. `None` for the base's.
    tree: Option<TreeSummary>,
    conflicts: SettledConflicts,
    /// Files that are no longer tracked.
    untracked: Vec<RepoPath>,
}

/// Returns what to commit of the tree `files` that the files show: in one edit, open conflicts become
/// entries again, and the files go that are no longer tracked.
fn content(
    tx: &mut Transaction<'_>,
    tree: &OpenWorktree,
    files: Option<TreeSummary>,
    options: &CommitOptions<'_>,
) -> Result<CommitContent, RepoError> {
    let untracked = tree.untracked.selected(options.select);
    let mut content = CommitContent {
        tree: files,
        conflicts: SettledConflicts::default(),
        untracked: RepoPath::all_checked(untracked),
    };
    let Some(form) = &tree.form else {
        return Ok(content);
    };
    let (repo, allows) = (tx.repo(), options.allow_markers);
    let (mut root, mut edits) = (files.map(|tree| tree.id), Edits::new());
    if !form.has_conflicts() && content.untracked.is_empty() {
        return Ok(content);
    }
    tx.objects()?;
    if form.has_conflicts() {
        if root.is_none() && form.chosen.is_empty() && !allows {
            content.conflicts = settle::unchanged(repo, form)?;
        } else {
            let root = *root.get_or_insert(form.tree);
            let settled = settle::take_back(repo, form, root, options.select, allows, &mut edits);
            content.conflicts = settled?;
        }
    }
    if !content.untracked.is_empty() {
        let root = root.get_or_insert(form.stored);
        let has_above = |path: &RepoPath| edits.keys().any(|above| path.starts_with(above));
        if content.untracked.iter().any(has_above) {
            // Of two edits of which one is above the other, only the upper one would count.
            *root = tx.edit_tree(*root, &edits)?.id;
            edits.clear();
            tx.objects()?;
        }
        untracked::leave_out(repo, *root, &content.untracked, &mut edits)?;
    }
    if let Some(root) = root {
        content.tree = Some(tx.edit_tree(root, &edits)?);
    }
    if allows {
        pending::store_files(tx, form)?;
    }
    Ok(content)
}

/// Returns the id and totals of the tree that a commit would have, or `None` if there is no tree.
fn summary(
    repo: &Repo,
    content: &CommitContent,
    base: Option<ObjectId>,
) -> Result<Option<TreeSummary>, RepoError> {
    match (content.tree, base) {
        (Some(tree), _) => Ok(Some(tree)),
        (None, Some(base)) => {
            let commit = load_commit(repo.objects(), &base)?;
            let (id, bytes, files) = (commit.tree, commit.tree_bytes, commit.tree_files);
            Ok(Some(TreeSummary {
                id,
                bytes,
                files,
                entries: 0,
            }))
        }
        (None, None) => Ok(None),
    }
}

/// Returns the generation of a commit with these parents.
pub fn generation(repo: &Repo, parents: &[ObjectId]) -> Result<u64, RepoError> {
    let mut generation = 0;
    for parent in parents {
        generation = generation.max(load_commit(repo.objects(), parent)?.generation);
    }
    Ok(generation + 1)
}

fn new_commit(
    repo: &Repo,
    options: &CommitOptions<'_>,
    parent: Option<ObjectId>,
    tree: &TreeSummary,
    open: &[RepoPath],
) -> Result<Commit, RepoError> {
    let time = options.request.time;
    let committer = options.committer.at(time);
    let who = options.author.as_ref().unwrap_or(&options.committer);
    let mut author = who.at(options.date.unwrap_or(time));
    let mut message = options.message.clone().unwrap_or_default();
    let mut parents = Vec::from_iter(parent);
    let mut extras = Vec::new();
    if let (true, Some(parent)) = (options.amend, parent) {
        let before = load_commit(repo.objects(), &parent)?;
        extras = before.lasting_extras();
        parents = before.parents;
        let given = |is_given| if is_given { &author } else { &before.author };
        let who = given(options.author.is_some());
        let when = given(options.date.is_some());
        author = Person {
            name: who.name.clone(),
            email: who.email.clone(),
            ..when.clone()
        };
        if options.message.is_none() {
            message = before.message;
        }
    }
    list_conflicts(&mut extras, open);
    let generation = generation(repo, &parents)?;
    Ok(Commit {
        tree: tree.id,
        tree_bytes: tree.bytes,
        tree_files: tree.files,
        parents,
        generation,
        author,
        committer,
        message,
        extras,
        signature: None,
    })
}

/// Returns what a new commit of a worktree changes in the view: its base, and its branch or head.
///
/// The old values are those read at the start, because an undo in another worktree does not wait
/// for this worktree's lock.
pub fn advance(
    tree: &OpenWorktree,
    head: &Head,
    parent: Option<ObjectId>,
    id: ObjectId,
) -> Vec<Change> {
    let value = |id: ObjectId| id.as_bytes().to_vec();
    let base = Change {
        key: base_key(&tree.name),
        old: tree.base.map(value),
        new: Some(value(id)),
    };
    let moved = match head {
        Head::Branch(name) => Change {
            key: format!("branch/{name}"),
            old: parent.map(value),
            new: Some(value(id)),
        },
        Head::Commit(_) => Change {
            key: keys::head_key(&tree.name),
            old: Some(head.value()),
            new: Some(Head::Commit(id).value()),
        },
    };
    let subset = tree.has_implied_subset.then(|| Change {
        key: keys::subset_key(&tree.name),
        old: None,
        new: Some(tree.subset.text()),
    });
    [base, moved].into_iter().chain(subset).collect()
}
