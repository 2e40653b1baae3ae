//! Files with versions of a conflict that is in no commit: what `stash pop` writes if it cannot
//! combine two changes, and what `reset` leaves of a conflict that the new base does not have.
//!
//! To a scan such files are edits like any other. So the view names a commit whose tree has them as
//! DMV wrote them (docs/format/layout.md, "Conflicts that no commit has"). A commit leaves out the
//! files of a conflict that nobody has settled, by the rules of `settle`: a text still has one of
//! the marker lines that DMV wrote, or a file and the versions beside it are unchanged.

use crate::fsutil::FileKind;
use crate::hash::ObjectId;
use crate::history::load_commit;
use crate::merge::{Edits, edit_tree, marker_line, written_marker_len};
use crate::object::ObjectWrite;
use crate::object::name::RepoPath;
use crate::object::tree::{Kind, TreeEntry, TreeIter, TreeSummary, lookup_path};
use crate::refs::Change;
use crate::repo::base::error::{AbsentError, RepoError};
use crate::repo::base::handle::Handle;
use crate::repo::base::keys::marked_key;
use crate::repo::base::publish::{OperationRequest, change};
use crate::repo::base::{publish, worktree};
use crate::repo::conflict::form::{Form, Shown, ShownSide};
use crate::repo::conflict::settle::MAX_MARKED_BYTES;
use crate::repo::files::open_worktree::OpenWorktree;
use crate::repo::files::record::{files_in, put_record};
use crate::repo::files::same::same_as;
use crate::repo::files::saved::{stat_at, store_made};
use crate::repo::look::content;
use crate::repo::look::entries::blob_of;
use crate::store::{FinishedJob, MetaWriter};
use crate::worktree::scan::Select;
use crate::worktree::{join, split_path};
use std::collections::BTreeSet;
use std::io::Read;

/// A conflict that is in no commit and that nobody has settled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnsettledConflict {
    /// The file to look at: the conflict's own, or a version if that file is gone.
    pub path: RepoPath,
    /// What shows that nobody has settled the conflict.
    pub what: UnsettledReason,
}

/// What shows that nobody has settled a conflict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnsettledReason {
    /// The text still has a marker line. Its number is counted from 1, or `None` if the file is too
    /// long to read.
    Marker(Option<u64>),
    /// The file and the versions beside it are as DMV wrote them.
    Versions,
}

/// The files of a noted conflict, as DMV wrote them.
#[derive(Clone, Debug)]
pub(in crate::repo) struct NotedConflict {
    /// The file at the conflict's own path.
    own: Option<(RepoPath, TreeEntry)>,
    /// The versions beside it.
    beside: Vec<(RepoPath, TreeEntry)>,
}

impl NotedConflict {
    /// Returns the files that show a conflict, as far as a worktree has them.
    fn of(shown: &Shown, tree: &OpenWorktree) -> NotedConflict {
        let is_in = |path: &RepoPath, entry: &TreeEntry| {
            entry.kind != Kind::Directory && tree.subset.includes(path.as_bytes(), false)
        };
        let own = shown.entry();
        let own = own.map(|entry| (shown.at.path.clone(), entry));
        let sides = shown.sides.iter().map(ShownSide::file);
        NotedConflict {
            own: own.filter(|(path, entry)| is_in(path, entry)),
            beside: sides.filter(|(path, entry)| is_in(path, entry)).collect(),
        }
    }

    fn files(&self) -> impl Iterator<Item = &(RepoPath, TreeEntry)> {
        self.own.iter().chain(&self.beside)
    }
}

const OWN: &[u8] = b"own";
const BESIDE: &[u8] = b"beside";

/// Reads the noted conflicts of the worktree `name`.
pub(in crate::repo) fn read(repo: &Handle, name: &str) -> Result<Vec<NotedConflict>, RepoError> {
    let Some(id) = worktree::ref_id(repo, &marked_key(name))? else {
        return Ok(Vec::new());
    };
    let mut out = Vec::new();
    for group in TreeIter::new(repo.objects(), load_commit(repo.objects(), &id)?.tree) {
        let mut noted = NotedConflict {
            own: None,
            beside: Vec::new(),
        };
        for part in TreeIter::new(repo.objects(), group?.id) {
            let part = part?;
            let files = files_in(repo, part.id)?;
            match part.name.as_bytes() {
                OWN => noted.own = files.into_iter().next(),
                _ => noted.beside = files,
            }
        }
        out.push(noted);
    }
    Ok(out)
}

/// Notes the conflicts of `form`, and keeps the earlier notes about other files. Returns the change
/// of the view and what has to be published with it; `None` if there is nothing to note. `stored` is
/// what the command has stored so far.
pub(in crate::repo) fn note(
    repo: &Handle,
    tree: &OpenWorktree,
    form: &Form,
    stored: Option<FinishedJob>,
    request: &OperationRequest,
) -> Result<(Option<Change>, Option<FinishedJob>), RepoError> {
    let shown = form
        .shown
        .iter()
        .map(|shown| NotedConflict::of(shown, tree));
    let mut all: Vec<NotedConflict> = shown.filter(|new| new.files().next().is_some()).collect();
    if all.is_empty() {
        return Ok((None, stored));
    }
    let writer = match &stored {
        Some(before) => repo.store.writer_after(before)?,
        None => repo.store.writer()?,
    };
    let mut meta = MetaWriter::new(&writer);
    let files = all.iter().flat_map(NotedConflict::files);
    let mut paths = BTreeSet::new();
    for (path, entry) in files {
        store_made(repo, entry, &mut meta)?;
        paths.insert(path.clone());
    }
    let earlier = read(repo, &tree.name)?.into_iter();
    all.extend(earlier.filter(|old| old.files().all(|(path, _)| !paths.contains(path))));
    let change = put(repo, &tree.name, &all, request, &mut meta)?;
    meta.flush()?;
    drop(meta);
    let sealed = publish::seal(repo, writer)?;
    let stored = match stored {
        Some(before) => before.join(sealed),
        None => sealed,
    };
    Ok((Some(change), Some(stored)))
}

/// Stores notes and returns the change of the view.
fn put(
    repo: &Handle,
    name: &str,
    all: &[NotedConflict],
    request: &OperationRequest,
    meta: &mut MetaWriter<'_>,
) -> Result<Change, RepoError> {
    let mut edits = Edits::new();
    for (n, noted) in all.iter().enumerate() {
        let own = noted.own.iter().map(|file| (OWN, file));
        for (part, (path, entry)) in own.chain(noted.beside.iter().map(|file| (BESIDE, file))) {
            let dir = join(format!("{n:06}").as_bytes(), part);
            // A path too long for a note is not worth the failure of the command.
            if let Ok(path) = RepoPath::parse(&join(&dir, path.as_bytes())) {
                edits.insert(path, Some(entry.clone()));
            }
        }
    }
    let mut value = None;
    if !edits.is_empty() {
        let message = format!("Conflicts in files: {}", request.command);
        let id = put_record(repo, &edits, message, request, meta)?;
        value = Some(id.as_bytes().to_vec());
    }
    Ok(change(&repo.refs, marked_key(name), value)?)
}

/// The noted conflicts of a commit that is being made.
#[derive(Debug, Default)]
pub(in crate::repo) struct NotedConflicts {
    /// Conflicts that nobody has settled.
    pub left: Vec<UnsettledConflict>,
    /// The paths that the commit leaves out.
    pub paths: Vec<RepoPath>,
    /// Unedited versions beside settled conflicts. They are among `paths`, and have to be removed.
    pub leftover: Vec<(RepoPath, TreeEntry)>,
    /// The notes that stay after the commit, if it ends some of them.
    stay: Option<Vec<NotedConflict>>,
}

impl NotedConflicts {
    /// Returns the change of the view after the commit. `None` if the notes stay as they are.
    pub fn after_commit(
        &self,
        repo: &Handle,
        tree: &OpenWorktree,
        request: &OperationRequest,
        meta: &mut MetaWriter<'_>,
    ) -> Result<Option<Change>, RepoError> {
        let stay = self.stay.as_ref();
        let change = stay.map(|stay| put(repo, &tree.name, stay, request, meta));
        change.transpose()
    }
}

/// Returns what a commit has to leave out of the tree `made`, which can be read, because of the
/// conflicts in `notes`, as far as `select` includes their files. With `allow`, it leaves out none.
pub(in crate::repo) fn held(
    repo: &Handle,
    tree: &OpenWorktree,
    notes: Vec<NotedConflict>,
    (select, allow): (&dyn Select, bool),
    made: ObjectId,
) -> Result<NotedConflicts, RepoError> {
    let is_selected = |path: &RepoPath| is_selected(select, path);
    let look = PendingTree {
        repo,
        tree,
        select,
        made,
    };
    let mut out = NotedConflicts::default();
    let (before, mut stay) = (notes.len(), Vec::new());
    for noted in notes {
        if !noted.files().any(|(path, _)| is_selected(path)) {
            stay.push(noted);
            continue;
        }
        if allow {
            continue;
        }
        let State { left, untouched } = state(repo, &noted, &look)?;
        let sides = untouched.iter().map(|(path, _)| path.clone());
        out.paths.extend(sides.filter(is_selected));
        match left {
            Some(left) => {
                let own = noted.own.iter().map(|(path, _)| path.clone());
                out.paths.extend(own.filter(is_selected));
                out.left.push(left);
                stay.push(noted);
            }
            None => out.leftover.extend(untouched),
        }
    }
    out.stay = (stay.len() < before).then_some(stay);
    Ok(out)
}

/// Writes the tree `made` with the base's entries in place of what the commit leaves out.
pub(in crate::repo) fn leave_out(
    repo: &Handle,
    tree: &OpenWorktree,
    made: ObjectId,
    held: &NotedConflicts,
    writer: &mut dyn ObjectWrite,
) -> Result<TreeSummary, RepoError> {
    let mut edits = Edits::new();
    for path in &held.paths {
        edits.insert(path.clone(), base_entry(repo, tree, path)?);
    }
    Ok(edit_tree(repo.objects(), writer, made, &edits)?)
}

fn base_entry(
    repo: &Handle,
    tree: &OpenWorktree,
    path: &RepoPath,
) -> Result<Option<TreeEntry>, RepoError> {
    match tree.base_tree {
        Some(base) => Ok(lookup_path(repo.objects(), &base, path)?),
        None => Ok(None),
    }
}

/// What a noted file is like now.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Now {
    /// As DMV wrote it.
    AsWritten,
    /// A file with other content.
    Edited,
    /// Gone, as in the base, or no file.
    Other,
}

/// Where the noted files are looked at.
trait Look {
    fn now(&self, path: &RepoPath, wrote: &TreeEntry) -> Result<Now, RepoError>;

    /// Returns a file's text; `None` if it is too long, or cannot be read.
    fn text(&self, path: &RepoPath) -> Result<Option<Vec<u8>>, RepoError>;
}

/// The tree of a commit that is being made. Paths that it does not select are looked at on disk.
struct PendingTree<'a> {
    repo: &'a Handle,
    tree: &'a OpenWorktree,
    select: &'a dyn Select,
    made: ObjectId,
}

impl Look for PendingTree<'_> {
    fn now(&self, path: &RepoPath, wrote: &TreeEntry) -> Result<Now, RepoError> {
        let PendingTree { repo, tree, .. } = *self;
        if !is_selected(self.select, path) {
            return OnDisk { repo, tree }.now(path, wrote);
        }
        let was = base_entry(repo, tree, path)?;
        Ok(match lookup_path(repo.objects(), &self.made, path)? {
            None => Now::Other,
            Some(now) if was.is_some_and(|was| was.same_content(&now)) => Now::Other,
            Some(now) if now.same_content(wrote) => Now::AsWritten,
            Some(now) if now.kind.is_blob() => Now::Edited,
            Some(_) => Now::Other,
        })
    }

    fn text(&self, path: &RepoPath) -> Result<Option<Vec<u8>>, RepoError> {
        let PendingTree { repo, tree, .. } = *self;
        if !is_selected(self.select, path) {
            return OnDisk { repo, tree }.text(path);
        }
        match lookup_path(repo.objects(), &self.made, path)? {
            Some(now) => stored_text(repo, &now),
            None => Ok(None),
        }
    }
}

/// The files of the worktree.
struct OnDisk<'a> {
    repo: &'a Handle,
    tree: &'a OpenWorktree,
}

impl Look for OnDisk<'_> {
    fn now(&self, path: &RepoPath, wrote: &TreeEntry) -> Result<Now, RepoError> {
        let OnDisk { repo, tree } = *self;
        let Some(stat) = stat_at(tree, path.as_bytes())? else {
            return Ok(Now::Other);
        };
        // A file that cannot be read counts as other content.
        let is = |entry: &TreeEntry| {
            let same = same_as(repo, &tree.root, path.as_bytes(), entry, &stat);
            same.unwrap_or(false)
        };
        Ok(match base_entry(repo, tree, path)? {
            Some(was) if is(&was) => Now::Other,
            _ if is(wrote) => Now::AsWritten,
            _ if stat.kind == FileKind::File => Now::Edited,
            _ => Now::Other,
        })
    }

    fn text(&self, path: &RepoPath) -> Result<Option<Vec<u8>>, RepoError> {
        let Some((dir, name)) = split_path(path.as_bytes()) else {
            return Ok(None);
        };
        let opened = self.tree.root.open_dir(dir);
        let Ok((file, stat)) = opened.and_then(|dir| dir.open_file_read(name)) else {
            return Ok(None);
        };
        let mut text = Vec::new();
        let read = file.take(MAX_MARKED_BYTES).read_to_end(&mut text);
        Ok((stat.size <= MAX_MARKED_BYTES && read.is_ok()).then_some(text))
    }
}

fn is_selected(select: &dyn Select, path: &RepoPath) -> bool {
    split_path(path.as_bytes()).is_some_and(|(dir, name)| select.takes(dir, name))
}

/// Returns a stored text; `None` if it is too long, or was dropped since.
fn stored_text(repo: &Handle, entry: &TreeEntry) -> Result<Option<Vec<u8>>, RepoError> {
    if entry.size > MAX_MARKED_BYTES {
        return Ok(None);
    }
    let mut text = Vec::new();
    match content::cat(repo, blob_of(entry), None, &mut text) {
        Ok(_) => Ok(Some(text)),
        Err(
            RepoError::Absent(AbsentError::Lacking(_))
            | RepoError::Absent(AbsentError::Object { .. }),
        ) => Ok(None),
        Err(e) => Err(e),
    }
}

/// The state of a noted conflict.
struct State {
    /// Set if nobody has settled it.
    left: Option<UnsettledConflict>,
    /// The versions beside it that are unchanged.
    untouched: Vec<(RepoPath, TreeEntry)>,
}

fn state(repo: &Handle, noted: &NotedConflict, look: &dyn Look) -> Result<State, RepoError> {
    let mut untouched = Vec::new();
    for (path, wrote) in &noted.beside {
        if look.now(path, wrote)? == Now::AsWritten {
            untouched.push((path.clone(), wrote.clone()));
        }
    }
    let left = |path: &RepoPath, what| UnsettledConflict {
        path: path.clone(),
        what,
    };
    let first = untouched.first().map(|(path, _)| path);
    let left = match &noted.own {
        None => first.map(|path| left(path, UnsettledReason::Versions)),
        Some((path, wrote)) => match (look.now(path, wrote)?, marker_len_of(repo, wrote)?) {
            (Now::Other, _) => None,
            (_, Some(len)) => match look.text(path)? {
                Some(text) => marker_line(&text, len).map(Some),
                None => Some(None),
            }
            .map(|line| left(path, UnsettledReason::Marker(line))),
            (Now::AsWritten, None) => first.map(|_| left(path, UnsettledReason::Versions)),
            (Now::Edited, None) => None,
        },
    };
    Ok(State { left, untouched })
}

/// Returns how many characters the markers in a text have that DMV wrote. `None` if it has none, or
/// if its content was dropped since.
fn marker_len_of(repo: &Handle, wrote: &TreeEntry) -> Result<Option<usize>, RepoError> {
    let text = if wrote.kind.is_blob() {
        stored_text(repo, wrote)?
    } else {
        None
    };
    Ok(text.and_then(|text| written_marker_len(&text)))
}

/// Returns the paths that a commit of all files would leave out because of noted conflicts.
pub(in crate::repo) fn left_out(
    repo: &Handle,
    tree: &OpenWorktree,
) -> Result<Vec<RepoPath>, RepoError> {
    let mut out = Vec::new();
    for noted in read(repo, &tree.name)? {
        let State { left, untouched } = state(repo, &noted, &OnDisk { repo, tree })?;
        let own = noted.own.filter(|_| left.is_some());
        let files = own.into_iter().chain(untouched);
        out.extend(files.map(|(path, _)| path));
    }
    out.sort();
    Ok(out)
}
