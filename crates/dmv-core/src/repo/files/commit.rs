//! Commits: the state of the worktree, or of a part of it, becomes a new commit.
//!
//! [`commit`] reads the changed files into the store and publishes the commit together with the
//! worktree's new base. `verbs` uses [`generation`] and [`advance`] for its own commits.

mod conflicts;

use self::conflicts::{end_choices, end_settled, still_open, without_forms};
use crate::diff;
use crate::fsutil::fs_now;
use crate::hash::ObjectId;
use crate::history::load_commit;
use crate::job::Job;
use crate::object::commit::{Commit, Person};
use crate::object::name::RepoPath;
use crate::object::tree::{TreeEntry, TreeSummary, put_empty_tree};
use crate::object::{ObjectError, ObjectType, ObjectWrite};
use crate::refs::{Change, Effect, Timestamp};
use crate::repo::base::error::{LookError, RepoError, WorktreeError};
use crate::repo::base::handle::Handle;
use crate::repo::base::head::Head;
use crate::repo::base::keys::{base_key, notes_key};
use crate::repo::base::moved::BranchPosition;
use crate::repo::base::publish::OperationRequest;
use crate::repo::base::worktree::WorktreeSettings;
use crate::repo::base::{budget, keys, publish, worktree};
use crate::repo::conflict::at::list_conflicts;
use crate::repo::conflict::choices::ConflictResolution;
use crate::repo::conflict::settle::{MarkersLeft, UnsettledConflict};
use crate::repo::files::open_worktree::OpenWorktree;
use crate::repo::files::pending::Which;
use crate::repo::files::who::Who;
use crate::repo::files::{
    dropped, notes, open_worktree, pending, private, unfinished, untouched, untracked, unwritten,
};
use crate::repo::look::history_use::{CompressedFile, saved_compressed};
use crate::repo::look::moved::{moved, refused};
use crate::store::{FinishedJob, MetaWriter, StoreWriter};
use crate::worktree::cacheupdate::CacheUpdate;
use crate::worktree::not_kept::NotKept;
use crate::worktree::scan::{BaseEntries, Select};
use crate::worktree::select::Paths;
use crate::worktree::snapshot::{Problem, Snapshot, SnapshotInput, snapshot};
use std::collections::{BTreeSet, HashMap};
use std::ops::ControlFlow;
use std::sync::atomic::Ordering;

/// The most removed or added files among which a commit looks for moved files.
const MAX_PAIRED: usize = 256 << 10;

/// The most changed files of a commit that are examined for compression.
const MAX_LOOKED_AT: u64 = 256;

/// What to commit, and how.
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
    /// The number of files in the complete tree.
    pub tree_files: u64,
    /// The bytes of all files in the complete tree.
    pub bytes: u64,
    /// The bytes of content that the store did not have before.
    pub new_bytes: u64,
    /// The bytes appended to packs.
    pub stored_bytes: u64,
    /// Files that the commit has as they were in the previous commit, and why.
    pub problems: Vec<Problem>,
    /// Those of the `problems` that an earlier command could not write. The files on disk are from
    /// another commit.
    pub unwritten: Vec<RepoPath>,
    /// Committed files that only their owner may read, although others may read new files: their
    /// number and the first path. This worktree keeps them private; a commit does not store that.
    pub private: (u64, Vec<u8>),
    /// Properties of committed files that no commit stores.
    pub not_kept: NotKept,
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
    /// Files beside settled conflicts that have to be removed.
    leftover: Vec<(RepoPath, TreeEntry)>,
    /// Files that this commit leaves out although they may be on disk, in path order.
    pub untracked: Vec<RepoPath>,
    /// Committed changes of files that ignore rules cover: their number and the first path.
    pub tracked_ignored: (u64, Vec<u8>),
    /// The largest committed file that is saved compressed and shares little with its previous version,
    /// if there are few changed files.
    pub compressed: Option<CompressedFile>,
    /// The paths of all conflicts that no commit has, this one included.
    still_pending: BTreeSet<RepoPath>,
    /// Choices without files that this commit does not use.
    waiting: Vec<ConflictResolution>,
    /// Files on disk outside the worktree's subset, which are never committed. A directory stands
    /// for everything in it.
    pub outside: Vec<Vec<u8>>,
    /// Set if another worktree or a push moved the branch. The new commit then follows the commit
    /// that the files come from, and is on no branch until `Repo::merge_moved` runs.
    pub moved: Option<BranchPosition>,
}

impl CommitReport {
    fn note_totals(&mut self, tree: Option<&TreeSummary>) {
        self.tree_files = tree.map_or(0, |tree| tree.files);
        self.bytes = tree.map_or(0, |tree| tree.bytes);
    }

    /// Returns the report of a commit that has done nothing yet.
    fn before(start: &Start) -> CommitReport {
        CommitReport {
            commit: None,
            head: start.head.clone(),
            files: 0,
            tree_files: 0,
            bytes: 0,
            new_bytes: 0,
            stored_bytes: 0,
            problems: Vec::new(),
            unwritten: Vec::new(),
            private: Default::default(),
            not_kept: NotKept::default(),
            warnings: Vec::new(),
            control: Vec::new(),
            conflicts: Vec::new(),
            edited: Vec::new(),
            marked: Vec::new(),
            settled: Vec::new(),
            leftover: Vec::new(),
            untracked: Vec::new(),
            tracked_ignored: Default::default(),
            compressed: None,
            still_pending: BTreeSet::new(),
            waiting: Vec::new(),
            outside: Vec::new(),
            moved: start.moved,
        }
    }
}

/// How often a commit begins again because another command freed what it had found stored.
const TRIES: usize = 3;

/// Commits the worktree's changes.
pub(in crate::repo) fn commit(
    repo: &Handle,
    options: CommitOptions<'_>,
    job: &Job,
) -> Result<CommitReport, RepoError> {
    for _ in 1..TRIES {
        match commit_once(repo, &options, job) {
            Err(e) if e.may_be_gone() => job.begin_part(),
            done => return done,
        }
    }
    commit_once(repo, &options, job)
}

fn commit_once(
    repo: &Handle,
    options: &CommitOptions<'_>,
    job: &Job,
) -> Result<CommitReport, RepoError> {
    let _lock = worktree::lock_worktree(repo)?;
    let start = start(repo, options)?;
    let tree = &start.tree;
    let known = tree.known(repo);
    let mut cache = CacheUpdate::new(&tree.own, repo.id, &tree.subset, &*known);
    let writer = budget::writer(repo)?;
    let made = read_files(repo, tree, options, (&*known, &mut cache), &writer, job)?;
    let mut report = CommitReport::before(&start);
    report.private = note_private(repo, tree, &made.private)?;
    report.files = made.changed_files;
    report.new_bytes = job.progress.new_bytes.load(Ordering::Relaxed);
    let done = without_forms(repo, tree, (writer, None, made.tree), options, &mut report)?;
    let left_out = tree.untracked.selected(options.select);
    let done = without_untracked(repo, tree, done, &left_out)?;
    report.untracked = RepoPath::all_checked(left_out);
    // The tree that the files show, which the stat cache describes.
    let shown = made.tree.map(|tree| tree.id).or(tree.base_tree);
    if has_nothing(&start, options, &made, done.2.as_ref()) {
        let summary = summary(repo, done.2, tree.base)?;
        report.note_totals(summary.as_ref());
        report.files = 0;
        end_settled(repo, tree, done.0, options, &mut report, job)?;
        if let Some(shown) = shown {
            // The next scan need not read files whose stat changed but whose content did not. The
            // cache is an optimization, so the commit succeeds even if the cache cannot be written.
            let _ = cache.finish(&shown, !tree.cache_fits());
        }
        take_notes(&mut report, made);
        return Ok(report);
    }
    let (id, root, sealed, mut changes) = store_commit(repo, &start, options, done, &mut report)?;
    if job.is_cancelled() {
        return Err(RepoError::Cancelled);
    }
    if start.moved.is_some() {
        let stays = [base_key(&tree.name), notes_key(&tree.name)];
        changes.retain(|change| stays.contains(&change.key));
    }
    publish::publish(
        repo,
        options.request.clone(),
        Some(sealed),
        changes,
        Effect::Kept,
    )?;
    let _ = cache.finish(&shown.unwrap_or(root), true);
    note_commit(repo, &start, (id, root), made, &mut report)?;
    remove_leftover(repo, tree, &mut report, job)?;
    Ok(report)
}

/// Removes the unedited files beside settled conflicts.
fn remove_leftover(
    repo: &Handle,
    tree: &OpenWorktree,
    report: &mut CommitReport,
    job: &Job,
) -> Result<(), RepoError> {
    let leftover = std::mem::take(&mut report.leftover);
    if !leftover.is_empty() {
        let left = untouched::remove_untouched(repo, tree, &leftover, job)?;
        report.warnings.extend(left);
    }
    Ok(())
}

/// Completes the report of the published commit `id` with the tree `root`.
fn note_commit(
    repo: &Handle,
    start: &Start,
    (id, root): (ObjectId, ObjectId),
    made: Snapshot,
    report: &mut CommitReport,
) -> Result<(), RepoError> {
    let tree = &start.tree;
    // The commit is published already, so an error here is ignored. Without this step another drop
    // may free the content again if other repositories have it.
    let _ = dropped::committed_again(repo, tree.form.as_ref().map(|form| form.stored), root);
    report.commit = Some(id);
    if let Head::Commit(_) = start.head {
        report.head = Head::Commit(id);
    }
    take_notes(report, made);
    report.files = changed_files(repo, tree, root, report)?;
    report.compressed = match &tree.form {
        Some(form) if report.files <= MAX_LOOKED_AT => {
            // Only a warning depends on it.
            saved_compressed(repo, form.stored, root).ok().flatten()
        }
        _ => None,
    };
    Ok(())
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
fn start(repo: &Handle, options: &CommitOptions<'_>) -> Result<Start, RepoError> {
    let tree = open_worktree::open_with_conflicts(repo, &options.settings, Which::Live)?;
    let head = worktree::head(repo)?;
    let tip = worktree::head_commit(repo)?;
    if options.amend && tip.is_none() {
        return Err(LookError::NoCommit.into());
    }
    // A commit on top of a moved branch would silently undo the branch's new changes.
    let moved = moved(repo, tree.base, &head)?;
    if let Some(found) = moved.filter(|found| options.amend || !found.forward) {
        return Err(refused(repo, &head, found));
    }
    if let Some(unfinished) = unfinished::unfinished(repo, tree.base_tree, &tree.subset)? {
        // The files are a mix of two commits.
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
    repo: &Handle,
    tree: &OpenWorktree,
    options: &CommitOptions<'_>,
    (known, cache): (&dyn BaseEntries, &mut CacheUpdate<'_>),
    writer: &StoreWriter<'_>,
    job: &Job,
) -> Result<Snapshot, RepoError> {
    let input = SnapshotInput {
        root: &tree.root,
        reader: repo.objects(),
        base: tree.base_tree,
        scan: tree.scan_options(known, options.select, job),
        started: fs_now(&tree.own),
        portable: options.settings.portable_names,
        unwritten: &unwritten::unwritten_paths(repo, tree)?,
    };
    let mut made = snapshot(&input, writer, cache, job)?;
    unwritten::excuse(&mut made, &unwritten::purged_paths(repo, tree)?);
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

/// Stores the commit of a tree. Returns its id, its root tree, everything that was stored, and the
/// changes of the view.
fn store_commit(
    repo: &Handle,
    start: &Start,
    options: &CommitOptions<'_>,
    (writer, before, made): StoredCommit<'_>,
    report: &mut CommitReport,
) -> Result<(ObjectId, ObjectId, FinishedJob, Vec<Change>), RepoError> {
    let tree = &start.tree;
    let mut meta = MetaWriter::new(&writer);
    let summary = match summary(repo, made, tree.base)? {
        Some(summary) => summary,
        None => TreeSummary {
            id: put_empty_tree(&mut meta)?,
            bytes: 0,
            files: 0,
            entries: 0,
        },
    };
    report.note_totals(Some(&summary));
    let mut noted = tree.notes.clone();
    end_choices(&mut noted, tree, report);
    let is_left_out = |path: &[u8]| {
        let found = report
            .untracked
            .binary_search_by(|out| out.as_bytes().cmp(path));
        found.is_ok()
    };
    untracked::forget_in(&mut noted, is_left_out);
    pending::end_in(repo, &mut noted, tree, &report.still_pending)?;
    let noted = notes::put(repo, tree, &noted, &options.request, &mut meta)?;
    let open = still_open(repo, tree, report)?;
    let commit = new_commit(repo, options, tree.base, &summary, &open)?;
    let bytes = commit
        .encode()
        .map_err(|e| RepoError::Text(e.to_string()))?;
    let id = meta.put(ObjectType::Commit, &bytes)?;
    meta.flush()?;
    drop(meta);
    let sealed = publish::seal(repo, writer)?;
    let sealed = match before {
        Some(before) => before.join(sealed),
        None => sealed,
    };
    report.stored_bytes = sealed.stored_bytes;
    let mut changes = advance(tree, &start.head, start.tip, id);
    changes.extend(noted);
    Ok((id, summary.id, sealed, changes))
}

/// Returns how many files differ from the base in the committed tree `root`. A moved file counts
/// once.
fn changed_files(
    repo: &Handle,
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

/// Notes which committed files are private. Returns their number and the first path, or nothing if
/// new files in this worktree are private by default.
fn note_private(
    repo: &Handle,
    tree: &OpenWorktree,
    found: &[Vec<u8>],
) -> Result<(u64, Vec<u8>), RepoError> {
    let Some(first) = found.first() else {
        return Ok((0, Vec::new()));
    };
    let mut private = private::private(repo)?;
    private.note_all(tree, found.iter())?;
    private::save_private(repo, &mut private)?;
    Ok(if tree.own.makes_private() {
        (0, Vec::new())
    } else {
        (found.len() as u64, first.clone())
    })
}

/// Counts the files of the tree `old` that have another name in `new`. Files with the same name in
/// both trees are ignored. Each moved file counts as one change.
fn moved_files(repo: &Handle, old: ObjectId, new: ObjectId) -> Result<u64, RepoError> {
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

/// Makes what was stored so far readable. Returns another writer and what is sealed.
pub(in crate::repo) fn readable<'s>(
    repo: &'s Handle,
    writer: StoreWriter<'s>,
    before: Option<FinishedJob>,
) -> Result<(StoreWriter<'s>, FinishedJob), RepoError> {
    let sealed = publish::seal(repo, writer)?;
    let sealed = match before {
        Some(before) => before.join(sealed),
        None => sealed,
    };
    repo.store.preview(&sealed);
    Ok((budget::writer_after(repo, &sealed)?, sealed))
}

/// What a commit has stored so far: the present writer, what earlier writers have sealed, and the
/// tree. `None` for the tree means the base's.
pub(in crate::repo) type StoredCommit<'s> =
    (StoreWriter<'s>, Option<FinishedJob>, Option<TreeSummary>);

/// Removes the files that are no longer tracked from the tree to commit.
fn without_untracked<'s>(
    repo: &'s Handle,
    tree: &OpenWorktree,
    (writer, before, made): StoredCommit<'s>,
    paths: &[Vec<u8>],
) -> Result<StoredCommit<'s>, RepoError> {
    let Some(form) = tree.form.as_ref().filter(|_| !paths.is_empty()) else {
        return Ok((writer, before, made));
    };
    let (writer, before, root) = match made {
        None => (writer, before, form.stored),
        Some(made) => {
            let (writer, sealed) = readable(repo, writer, before)?;
            (writer, Some(sealed), made.id)
        }
    };
    let mut meta = MetaWriter::new(&writer);
    let summary = untracked::leave_out(repo, root, paths, &mut meta)?;
    meta.flush()?;
    drop(meta);
    Ok((writer, before, Some(summary)))
}

/// Returns the id and totals of the tree that a commit would have, or `None` if there is no tree.
fn summary(
    repo: &Handle,
    made: Option<TreeSummary>,
    base: Option<ObjectId>,
) -> Result<Option<TreeSummary>, RepoError> {
    match (made, base) {
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
pub(in crate::repo) fn generation(repo: &Handle, parents: &[ObjectId]) -> Result<u64, RepoError> {
    let mut generation = 0;
    for parent in parents {
        generation = generation.max(load_commit(repo.objects(), parent)?.generation);
    }
    Ok(generation + 1)
}

fn new_commit(
    repo: &Handle,
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
        parents = before.parents;
        extras = before.extras;
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
pub(in crate::repo) fn advance(
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

fn take_notes(report: &mut CommitReport, made: Snapshot) {
    report.problems.extend(made.problems);
    report.unwritten = RepoPath::all_checked(made.unwritten);
    report.not_kept = made.not_kept;
    report.tracked_ignored = made.tracked_ignored;
    let (_, first) = &report.tracked_ignored;
    if report.untracked.iter().any(|path| path.as_bytes() == first) {
        // It is left out, so it is not tracked any more.
        report.tracked_ignored = Default::default();
    }
    report.warnings.extend(made.warnings);
    report.control = made.control;
    report.outside = made.outside;
}
