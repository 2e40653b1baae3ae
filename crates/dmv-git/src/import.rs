//! Taking the history of a Git repository into a DMV repository.
//!
//! Git lists the objects, and they are taken in portions. Of each portion, Git reads the blobs in the order in
//! which it stores them, the newest at the end, and then the trees and commits in theirs. Several threads store the
//! blobs, and one makes trees and commits of the rest. After each portion everything is durable and the
//! map of ids knows it, so that an import that was cut short goes on there. At the end one operation names the
//! branches and tags.

mod builder;
mod content;
pub(crate) mod lfs;
mod naming;
mod pace;
mod plan;
mod returned;
mod tags;
pub(crate) mod trees;

use crate::choice::BranchChoice;
use crate::error::GitError;
use crate::id::{GitId, GitType};
use crate::map::IdMap;
use crate::source::{
    GitRef, GitSource, ObjectHeader, ObjectList, ObjectStream, OtherRefs, SourceError,
};
use builder::{Builder, Progress};
use content::{BLOCK_BYTES, Block, StoredBlock, store_blocks};
use crossbeam_channel::{Receiver, bounded};
use dmv_core::job::{Bound, Job};
use dmv_core::object::{ObjectRead, ObjectType};
use dmv_core::refs::check_ref_name;
use dmv_core::repo::{CheckoutOptions, OperationRequest, Repo, RepoError};
use dmv_core::store::IncomingObjects;
use dmv_core::threads::start_in;
use dmv_core::worktree::content::Pieces;
use lfs::{LfsObjects, Pointer};
use naming::NamePlan;
use std::collections::{BTreeMap, HashSet};
use tags::{AnnotatedTag, convert_tags, long_tags, put_tags, read_tags};

pub use naming::{RefNews, RewrittenBranch};
pub use plan::{ImportPlan, plan};

/// The usual [`ImportOptions::portion_bytes`].
pub const PORTION_BYTES: u64 = 1 << 30;
/// Objects after which what was taken is made durable, at the next commit: until then, all their ids are in memory.
const PORTION_OBJECTS: usize = 1 << 19;
/// Blobs of a portion from which their order pays: to find it, Git lists all objects that it has.
const SORTED_BLOBS: usize = 1 << 14;
/// A tree, commit or tag of more bytes is refused. Git's own limit for what it checks is smaller.
const MAX_METADATA_BYTES: u64 = 256 << 20;
/// Why a branch or tag is left out.
const NOT_UTF8: &str = "its name is not UTF-8";
/// Blobs of more bytes are passed on in pieces.
const WHOLE_BYTES: u64 = 4 << 20;

/// What to import.
#[derive(Debug)]
pub struct ImportOptions {
    /// The name under which the branches of the source are recorded, as of a remote.
    pub remote: String,
    /// Only branches that match one of these patterns, and no tags beyond what they lead to; all, if
    /// there is none.
    pub branches: Vec<String>,
    /// What becomes of pointers of Git LFS.
    pub lfs: LfsPolicy,
    /// Whether recorded branches are forgotten that the source no longer has.
    pub prune: bool,
    /// Bytes of content after which what was taken is made durable, at the next commit.
    pub portion_bytes: u64,
    /// How a worktree without a commit gets the files of the branch that the source is on, if it does.
    pub check_out: Option<CheckoutOptions>,
}

/// What becomes of pointers of Git LFS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LfsPolicy {
    /// They are taken as they are, unless their content is here.
    Pointers,
    /// Their content is taken.
    Content,
    /// As before: the content, if an import or export has kept pointers with it.
    AsBefore,
}

impl LfsPolicy {
    /// Returns where the content is, if it is taken.
    fn objects(self, source: &GitSource, map: &IdMap) -> Result<Option<LfsObjects>, GitError> {
        let takes_content = match self {
            LfsPolicy::Pointers => false,
            LfsPolicy::Content => true,
            LfsPolicy::AsBefore => map.has_pointers()?,
        };
        let dir = takes_content.then(|| source.git_dir()).transpose()?;
        Ok(dir.as_deref().map(LfsObjects::of))
    }
}

/// Something that could not be taken as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The commit, or the blob.
    pub object: GitId,
    /// What it is about.
    pub about: Trouble,
    /// A path of the object, if it is content.
    pub path: Option<Vec<u8>>,
    /// What is wrong.
    pub why: String,
}

/// What a problem is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// A name in a tree that is left out.
    Name(Vec<u8>),
    /// Content of Git LFS that is missing. Its pointer is taken.
    Content {
        /// The bytes that are missing.
        bytes: u64,
        /// The SHA-256 of the content, by which Git LFS knows it.
        sha256: String,
    },
    /// A commit or an annotated tag that an export gives another id.
    Id,
}

impl Problem {
    /// Returns a problem about an object without a path.
    fn new(object: GitId, about: Trouble, why: impl Into<String>) -> Problem {
        let (path, why) = (None, why.into());
        Problem {
            object,
            about,
            path,
            why,
        }
    }

    /// Returns the bytes of content that are missing.
    pub fn missing_bytes(&self) -> u64 {
        match self.about {
            Trouble::Content { bytes, .. } => bytes,
            Trouble::Name(_) | Trouble::Id => 0,
        }
    }
}

/// A branch or tag that was not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftRef {
    /// The full name in Git.
    pub name: String,
    /// The reason.
    pub why: String,
}

/// Pointers of Git LFS that came as they are, because their content was not asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PointersTaken {
    /// How many.
    pub count: u64,
    /// Bytes of the content that they stand for.
    pub bytes: u64,
}

impl PointersTaken {
    fn add(&mut self, pointer: &Pointer) {
        self.count += 1;
        self.bytes = self.bytes.saturating_add(pointer.size);
    }
}

/// What an import did.
#[derive(Debug, Default)]
pub struct ImportReport {
    /// Commits that were not known before.
    pub commits: u64,
    /// Of these, commits that were exported from here and came back.
    pub returned: u64,
    /// Contents of files that Git passed on.
    pub files: u64,
    /// Their bytes, with those of Git LFS that were taken.
    pub bytes: u64,
    /// Pointers of Git LFS that were taken as they are.
    pub pointers_taken: PointersTaken,
    /// What is new of the branches and tags.
    pub news: RefNews,
    /// Branches and tags that were not taken.
    pub left: Vec<LeftRef>,
    /// Other refs, which are never taken.
    pub others: Vec<OtherRefs>,
    /// What could not be taken as it is.
    pub problems: Vec<Problem>,
    /// The branch that the source is on.
    pub head: Option<String>,
    /// Why its files were not written: uncommitted files are in the way.
    pub not_written: Option<RepoError>,
    /// Whether the source replaces objects by others, which the import does not follow.
    pub has_replacements: bool,
}

/// The refs of a source that are wanted, with the commits that they lead to.
#[derive(Default)]
struct WantedRefs {
    refs: BTreeMap<String, GitId>,
    tags: Vec<AnnotatedTag>,
    left: Vec<LeftRef>,
    /// The names of all branches of the source, also of those that are not wanted.
    branches: HashSet<String>,
}

impl WantedRefs {
    /// Leaves a branch or tag out.
    fn leave(&mut self, found: GitRef, why: &str) {
        let (name, why) = (found.name, why.to_owned());
        self.left.push(LeftRef { name, why });
    }

    fn tips(&self) -> Vec<GitId> {
        self.refs
            .values()
            .copied()
            .collect::<HashSet<_>>()
            .into_iter()
            .collect()
    }

    /// Returns the commit of the branch that the source is on, or all, if that is not wanted.
    fn newest(&self, source: &GitSource) -> Vec<GitId> {
        let head = source.head();
        let head = head.and_then(|head| self.refs.get(&format!("branch/{head}")));
        head.map_or_else(|| self.tips(), |commit| vec![*commit])
    }
}

/// Imports what is new in a Git repository.
///
/// Records its branches as those of the remote `options.remote`, adds its tags, and creates the branches
/// that this repository does not have. Its own branches stay where they are.
pub fn import(
    repo: &Repo,
    source: &GitSource,
    options: &ImportOptions,
    request: &OperationRequest,
    job: &Job,
) -> Result<ImportReport, GitError> {
    let wanted = wanted(source, options)?;
    let mut map = IdMap::open(repo.dmv_dir())?;
    if is_outdated(repo, &mut map)? {
        map.forget()?;
    }
    let done = match take_and_name(repo, source, options, &wanted, &mut map, request, job) {
        // Some of what the map names is gone. Then everything is read again.
        Err(GitError::Stale | GitError::Repo(RepoError::Absent(_))) => {
            map.forget()?;
            job.begin_part();
            take_and_name(repo, source, options, &wanted, &mut map, request, job)
        }
        done => done,
    };
    done.map_err(|e| e.unless_cancelled(job))
}

/// Returns whether an import begins anew: its commits are gone, or an undo has taken all of them back. It can take
/// other content then.
fn is_outdated(repo: &Repo, map: &mut IdMap) -> Result<bool, GitError> {
    if map.is_empty() {
        return Ok(false);
    }
    for head in map.heads()? {
        let Some(commit) = map.get(&head)? else {
            return Ok(true);
        };
        if !repo.store().holds(ObjectType::Commit, &commit.id)? {
            return Ok(true);
        }
    }
    Ok(repo.has_lost_imports()?)
}

fn take_and_name(
    repo: &Repo,
    source: &GitSource,
    options: &ImportOptions,
    wanted: &WantedRefs,
    map: &mut IdMap,
    request: &OperationRequest,
    job: &Job,
) -> Result<ImportReport, GitError> {
    // What nothing named before need not be looked for at the end: it all comes now, and nothing of it is freed.
    let _keeping = map.is_empty().then(|| repo.keep_all().ok()).flatten();
    let mut report = take(repo, source, options, wanted, map, job)?;
    let tags = put_tags(repo, convert_tags(repo, wanted, map)?)?;
    report.problems.extend(long_tags(wanted));
    report.left.clone_from(&wanted.left);
    report.head = source.head();
    report.others = source.other_refs()?;
    report.has_replacements = source.has_replacements()?;
    let names = NamePlan::new(repo, options, wanted, report.head.as_deref(), |key, git| {
        let known = map.get(git)?.ok_or(GitError::Stale)?;
        Ok(tags.get(key).copied().unwrap_or(known.id))
    })?;
    (report.news, report.not_written) =
        names.publish(repo, options, report.commits, request, job)?;
    if report.commits > 0 {
        // Without it, only the log of a path takes longer, so a failure is no news.
        let _ = repo.note_changed_paths(job);
    }
    Ok(report)
}

/// Takes all objects that `wanted` leads to.
fn take(
    repo: &Repo,
    source: &GitSource,
    options: &ImportOptions,
    wanted: &WantedRefs,
    map: &mut IdMap,
    job: &Job,
) -> Result<ImportReport, GitError> {
    let known = source.commits_among(&map.heads()?)?;
    let tips = wanted.tips();
    let commits = source.count_commits(&tips, &known)?;
    let mut report = ImportReport::default();
    if commits == 0 {
        return Ok(report);
    }
    job.progress.expect(commits, 0, Bound::AtMost);
    let lfs = options.lfs.objects(source, map)?;
    let mut progress = Progress::new(source, repo, map, lfs, job)?;
    let mut listed = WantedObjects {
        source,
        list: source.list(&tips, &known)?,
        next: None,
        newest: None,
    };
    listed.advance()?;
    while listed.next.is_some() {
        let objects = source.read(&listed.portion(wanted, options.portion_bytes, job)?)?;
        let incoming = repo.incoming()?;
        portion(&incoming, objects, &mut progress)?;
        repo.keep_incoming(incoming)?;
        let heads: Vec<GitId> = progress.heads.iter().copied().collect();
        progress.map.save(&heads)?;
        job.check()?;
    }
    report.commits = progress.commits;
    report.returned = progress.returned;
    report.files = progress.files;
    report.pointers_taken = progress.pointers_taken;
    report.problems = progress.problems;
    find_paths(source, &mut report.problems, &tips, &known)?;
    report.bytes = job
        .progress
        .bytes
        .load(std::sync::atomic::Ordering::Relaxed);
    listed.list.end()?;
    Ok(report)
}

/// Finds the paths of content that is missing.
fn find_paths(
    source: &GitSource,
    problems: &mut [Problem],
    tips: &[GitId],
    known: &[GitId],
) -> Result<(), SourceError> {
    let is_content = |problem: &Problem| matches!(problem.about, Trouble::Content { .. });
    let blobs = problems.iter().filter(|problem| is_content(problem));
    let blobs: HashSet<GitId> = blobs.map(|problem| problem.object).collect();
    if blobs.is_empty() {
        return Ok(());
    }
    let mut paths = source.paths_of(&blobs, tips, known)?;
    for problem in problems.iter_mut().filter(|problem| is_content(problem)) {
        problem.path = paths.remove(&problem.object);
    }
    Ok(())
}

/// The list of objects, with the one that was read last.
struct WantedObjects<'s> {
    source: &'s GitSource,
    list: ObjectList,
    next: Option<ObjectHeader>,
    /// What the branch has that the source is on. It is stored together, for checkouts, and becomes the base of
    /// older versions.
    newest: Option<Vec<GitId>>,
}

impl WantedObjects<'_> {
    fn advance(&mut self) -> Result<(), SourceError> {
        self.next = self.list.next_object()?;
        Ok(())
    }

    /// Returns the objects of the next portion, which ends before a commit, in the order in which they are read.
    fn portion(
        &mut self,
        wanted: &WantedRefs,
        most: u64,
        job: &Job,
    ) -> Result<Vec<GitId>, SourceError> {
        let (mut blobs, mut others, mut bytes) = (Vec::new(), Vec::new(), 0);
        while let Some(ObjectHeader { id, ty, size }) = self.next {
            let count = blobs.len() + others.len();
            let is_full = bytes >= most || count >= PORTION_OBJECTS;
            if ty == GitType::Commit && count > 0 && (is_full || job.is_cancelled()) {
                break;
            }
            bytes += size;
            match ty {
                GitType::Blob => blobs.push(id),
                _ => others.push(id),
            }
            self.advance()?;
        }
        if blobs.len() >= SORTED_BLOBS {
            let newest = match self.newest.take() {
                Some(newest) => newest,
                None => self.source.content_of(&wanted.newest(self.source))?,
            };
            self.source.sort_as_stored(&mut blobs, &newest)?;
            self.newest = Some(newest);
        }
        blobs.append(&mut others);
        Ok(blobs)
    }
}

/// Takes the objects of a portion.
fn portion(
    incoming: &IncomingObjects<'_>,
    objects: ObjectStream,
    progress: &mut Progress<'_>,
) -> Result<(), GitError> {
    let job = progress.job;
    let workers = std::thread::available_parallelism().map_or(2, |n| n.get().max(2));
    let (block_in, block_out) = bounded::<Block>(workers);
    let (done_in, done_out) = bounded::<Result<StoredBlock, GitError>>(2 * workers);
    std::thread::scope(|scope| {
        for _ in 0..workers {
            let (blocks, done) = (block_out.clone(), done_in.clone());
            start_in(scope, move || store_blocks(incoming, &blocks, &done))?;
        }
        // Only the threads' own ends may keep the channels open.
        drop((block_out, done_in));
        let building = start_in(scope, move || build(incoming, progress, &done_out))?;
        let read = read_portion(objects, job, |block| block_in.send(block).is_ok());
        drop(block_in);
        let built = building.join().expect("the builder does not panic");
        // The builder's own error says why the reader had to stop.
        built?;
        read
    })
}

/// Converts blocks in their order.
fn build(
    incoming: &IncomingObjects<'_>,
    progress: &mut Progress<'_>,
    done: &Receiver<Result<StoredBlock, GitError>>,
) -> Result<(), GitError> {
    let mut builder = Builder::new(progress, incoming.lane());
    let mut early = BTreeMap::new();
    let mut next = 0;
    for stored in done {
        let stored = stored?;
        early.insert(stored.block.number, stored);
        while let Some(stored) = early.remove(&next) {
            builder.take(stored)?;
            next += 1;
        }
    }
    builder.finish()
}

/// Reads objects into blocks and passes these on, until `pass` returns false. If the job is cancelled, it ends before
/// the next commit, or at once if the first one is not read.
fn read_portion(
    mut objects: ObjectStream,
    job: &Job,
    pass: impl FnMut(Block) -> bool,
) -> Result<(), GitError> {
    let mut blocks = BlockFiller {
        block: Block::default(),
        pass,
    };
    let mut commits = 0;
    while let Some(ObjectHeader { id, ty, size }) = objects.next_object()? {
        if ty == GitType::Commit {
            if commits > 0 && job.is_cancelled() {
                blocks.pass_on();
                return Ok(());
            }
            commits += 1;
        }
        let goes_on = if ty == GitType::Blob && size > WHOLE_BYTES {
            blocks.add_pieces(id, &mut objects, job)?
        } else {
            let start = blocks.block.bytes.len();
            objects.content(&mut blocks.block.bytes, MAX_METADATA_BYTES)?;
            blocks.block.end_item(id, ty, start, true);
            let is_full = blocks.block.is_full();
            if is_full && commits == 0 && job.is_cancelled() {
                return Err(GitError::Cancelled);
            }
            !is_full || blocks.pass_on()
        };
        if !goes_on {
            return Ok(());
        }
    }
    if !blocks.block.items.is_empty() {
        blocks.pass_on();
    }
    Ok(objects.end()?)
}

/// Numbers blocks and passes them on.
struct BlockFiller<P> {
    /// The block that is being filled.
    block: Block,
    pass: P,
}

impl<P: FnMut(Block) -> bool> BlockFiller<P> {
    /// Adds a large blob, in several blocks. Returns whether anybody takes them.
    fn add_pieces(
        &mut self,
        id: GitId,
        objects: &mut ObjectStream,
        job: &Job,
    ) -> Result<bool, GitError> {
        let mut pieces = Pieces::new(objects);
        loop {
            let start = self.block.bytes.len();
            let is_last = pieces.next(&mut self.block.bytes).map_err(GitError::Read)?;
            self.block.end_item(id, GitType::Blob, start, is_last);
            let goes_on = self.pass_on();
            if is_last || !goes_on {
                return Ok(goes_on);
            }
            job.check()?;
        }
    }

    /// Passes the block on and begins the next one. Returns whether anybody takes it.
    fn pass_on(&mut self) -> bool {
        let next = Block {
            number: self.block.number + 1,
            bytes: Vec::with_capacity(BLOCK_BYTES + (BLOCK_BYTES >> 2)),
            ..Block::default()
        };
        (self.pass)(std::mem::replace(&mut self.block, next))
    }
}

/// Returns the wanted refs, and reads the annotated tags.
fn wanted(source: &GitSource, options: &ImportOptions) -> Result<WantedRefs, GitError> {
    let mut wanted = WantedRefs::default();
    let mut annotated: Vec<GitRef> = Vec::new();
    let choice = BranchChoice::parse(&options.branches)?;
    let refs = source.refs()?;
    let branches = refs
        .iter()
        .filter_map(|found| found.name.strip_prefix("refs/heads/"));
    choice.check(branches.clone())?;
    wanted.branches = branches.map(str::to_owned).collect();
    for found in refs {
        let (kind, name) = match (
            found.name.strip_prefix("refs/heads/"),
            found.name.strip_prefix("refs/tags/"),
        ) {
            (Some(name), _) => ("branch", name),
            (None, Some(name)) => ("tag", name),
            (None, None) => continue,
        };
        let key = format!("{kind}/{name}");
        if !choice.wants(&key) {
            continue;
        }
        let why = match check_ref_name(name) {
            Err(e) => Some(e.to_string()),
            Ok(()) if name.contains(char::REPLACEMENT_CHARACTER) => Some(NOT_UTF8.to_owned()),
            Ok(()) => None,
        };
        if let Some(why) = why {
            wanted.leave(found, &why);
            continue;
        }
        match found.ty {
            GitType::Commit => {
                wanted.refs.insert(key, found.id);
            }
            GitType::Tag => annotated.push(found),
            GitType::Blob | GitType::Tree => {
                let why = format!("it names a {}, not a commit", found.ty.word());
                wanted.leave(found, &why);
            }
        }
    }
    read_tags(source, annotated, &mut wanted)?;
    Ok(wanted)
}
