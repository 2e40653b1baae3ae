//! What an import would take.

use super::builder::{id_problems, missing_content};
use super::lfs::{LfsObjects, MAX_POINTER_BYTES, Pointer};
use super::naming::{NamePlan, RefNews};
use super::pace::{Work, take_content, take_sample};
use super::tags::{convert_tags, long_tags};
use super::trees::{Doubts, LeftOut, NO_TARGET, is_target};
use super::{
    ImportOptions, LeftRef, MAX_METADATA_BYTES, PointersTaken, Problem, Trouble, WantedRefs,
    find_paths, is_outdated, wanted,
};
use crate::commit::{CommitPlace, MAX_PARENTS, to_dmv};
use crate::error::GitError;
use crate::id::{GitId, GitType};
use crate::map::IdMap;
use crate::object::GitCommit;
use crate::source::{GitSource, OtherRefs};
use dmv_core::ObjectId;
use dmv_core::job::Job;
use dmv_core::limits::MAX_SYMLINK_BYTES;
use dmv_core::object::tree::{TreeSummary, empty_tree_id};
use dmv_core::repo::Repo;
use std::collections::{HashMap, HashSet};
use std::fs::File;

/// Objects that are listed before they are read: until then, their ids are in memory.
const MOST_LISTED: usize = 1 << 19;
/// A commit of fewer bytes has neither too many parents nor headers that are too long.
const MIN_ODD_COMMIT_BYTES: u64 = 40 * MAX_PARENTS as u64;
/// Stands for every commit that is not known yet.
const UNKNOWN: ObjectId = ObjectId::from_bytes([0xff; 32]);

/// What an import would do.
#[derive(Debug, Default)]
pub struct ImportPlan {
    /// Commits that are not known.
    pub commits: u64,
    /// Contents of files that they have and known commits do not.
    pub files: u64,
    /// The bytes of these, with those of Git LFS if they are wanted.
    pub bytes: u64,
    /// Pointers of Git LFS that would be taken as they are.
    pub pointers_taken: PointersTaken,
    /// What could not be taken as it is. Each name that would be left out comes once, with the first commit that has
    /// it.
    pub problems: Vec<Problem>,
    /// About how many seconds the import would take on this machine, without the checkout, if that is known.
    pub seconds: Option<f64>,
    /// Branches and tags of the source.
    pub refs: u64,
    /// Branches and tags that would not be taken.
    pub left: Vec<LeftRef>,
    /// Other refs, which are never taken.
    pub others: Vec<OtherRefs>,
    /// What would be new of the branches and tags.
    pub news: RefNews,
    /// Whether the source replaces objects by others, which the import does not follow.
    pub has_replacements: bool,
}

/// Returns what [`import`](super::import) would do. Reads directories, symlinks and pointers of Git LFS.
///
/// Takes the beginning of the history into `scratch`, a new repository, to see how long that takes.
pub fn plan(
    repo: Option<&Repo>,
    source: &GitSource,
    options: &ImportOptions,
    scratch: &Repo,
    job: &Job,
) -> Result<ImportPlan, GitError> {
    look(repo, source, options, scratch, job).map_err(|e| e.unless_cancelled(job))
}

fn look(
    repo: Option<&Repo>,
    source: &GitSource,
    options: &ImportOptions,
    scratch: &Repo,
    job: &Job,
) -> Result<ImportPlan, GitError> {
    let wanted = wanted(source, options)?;
    // A repository that does not exist yet has nothing, as `scratch`.
    let here = repo.unwrap_or(scratch);
    let mut map = IdMap::open(here.dmv_dir())?;
    if is_outdated(here, &mut map)? {
        map = IdMap::open(scratch.dmv_dir())?;
    }
    let known = source.commits_among(&map.heads()?)?;
    let news = foresee(here, source, options, &wanted, &mut map)?;
    let tips = wanted.tips();
    let lfs = options.lfs.objects(source, &map)?;
    let mut look = Look::new(source, lfs);
    look.plan = ImportPlan {
        commits: source.count_commits(&tips, &known)?,
        refs: wanted.refs.len() as u64,
        others: source.other_refs()?,
        has_replacements: source.has_replacements()?,
        problems: long_tags(&wanted).collect(),
        left: wanted.left,
        news,
        ..ImportPlan::default()
    };
    if look.plan.commits == 0 {
        return Ok(look.plan);
    }
    look.list(&tips, &known, job)?;
    look.end()?;
    find_paths(source, &mut look.plan.problems, &tips, &known)?;
    let sample = take_sample(source, &tips, scratch, job)?;
    let mut seconds = sample.seconds_of(look.work);
    if let Some(content) = look.content.take() {
        let more = take_content(content, scratch)?.seconds_of(look.content_work);
        seconds = seconds.map(|seconds| seconds + more.unwrap_or(0.0));
    }
    look.plan.seconds = seconds;
    Ok(look.plan)
}

/// Returns what would be new of the branches and tags.
fn foresee(
    repo: &Repo,
    source: &GitSource,
    options: &ImportOptions,
    wanted: &WantedRefs,
    map: &mut IdMap,
) -> Result<RefNews, GitError> {
    let tags = convert_tags(repo, wanted, map)?.last;
    let head = source.head();
    let names = NamePlan::new(repo, options, wanted, head.as_deref(), |key, git| {
        let known = map.get(git)?.map_or(UNKNOWN, |known| known.id);
        Ok(tags.get(key).copied().unwrap_or(known))
    })?;
    let mut news = names.foresee(repo, |branch, old| {
        let new = wanted.refs.get(&format!("branch/{branch}"));
        let old = source.commits_among(&map.all_git_of(old)?)?;
        match (new, old.first()) {
            (Some(new), Some(old)) => Ok(source.count_commits(&[*old], &[*new])? == 0),
            // The source has it no more.
            _ => Ok(false),
        }
    })?;
    for change in &mut news.refs {
        change.new = change.new.filter(|new| *new != UNKNOWN);
    }
    Ok(news)
}

/// A look at the objects that an import would take.
struct Look<'s> {
    source: &'s GitSource,
    lfs: Option<LfsObjects>,
    plan: ImportPlan,
    work: Work,
    /// The first content of Git LFS.
    content: Option<File>,
    /// The work for all of them.
    content_work: Work,
    /// Trees that are not read yet, each with the commit that brings it.
    trees: Vec<(GitId, GitId)>,
    /// Blobs that may be pointers of Git LFS and are not read yet.
    small: Vec<GitId>,
    /// Commits that may have too much to be kept.
    commits: Vec<GitId>,
    /// Symlinks: the blob, the first commit that has it, and its name there.
    links: HashMap<GitId, (GitId, Vec<u8>)>,
    /// The names in `plan.problems`.
    named: HashSet<Vec<u8>>,
}

impl<'s> Look<'s> {
    fn new(source: &'s GitSource, lfs: Option<LfsObjects>) -> Look<'s> {
        Look {
            source,
            lfs,
            plan: ImportPlan::default(),
            work: Work::default(),
            content: None,
            content_work: Work::default(),
            trees: Vec::new(),
            small: Vec::new(),
            commits: Vec::new(),
            links: HashMap::new(),
            named: HashSet::new(),
        }
    }

    /// Counts what `tips` need and `known` have not.
    fn list(&mut self, tips: &[GitId], known: &[GitId], job: &Job) -> Result<(), GitError> {
        let mut list = self.source.list(tips, known)?;
        let mut commit = None;
        while let Some(object) = list.next_object()? {
            self.work.add(object.size);
            match object.ty {
                GitType::Commit => {
                    commit = Some(object.id);
                    if object.size >= MIN_ODD_COMMIT_BYTES {
                        self.commits.push(object.id);
                    }
                }
                GitType::Tree => self.trees.push((object.id, commit.unwrap_or(object.id))),
                GitType::Blob => {
                    self.plan.files += 1;
                    self.plan.bytes = self.plan.bytes.saturating_add(object.size);
                    if object.size <= MAX_POINTER_BYTES as u64 {
                        self.small.push(object.id);
                    }
                }
                GitType::Tag => {}
            }
            if self.trees.len() + self.small.len() + self.commits.len() >= MOST_LISTED {
                self.read()?;
            }
            job.check()?;
        }
        Ok(list.end()?)
    }

    /// Reads what is listed.
    fn read(&mut self) -> Result<(), GitError> {
        self.read_trees()?;
        self.read_commits()?;
        self.read_pointers()
    }

    fn read_trees(&mut self) -> Result<(), GitError> {
        let trees = std::mem::take(&mut self.trees);
        let ids: Vec<GitId> = trees.iter().map(|(id, _)| *id).collect();
        let mut objects = self.source.read(&ids)?;
        let mut bytes = Vec::new();
        for (id, commit) in trees {
            if objects.next_object()?.is_none() {
                break;
            }
            bytes.clear();
            objects.content(&mut bytes, MAX_METADATA_BYTES)?;
            let doubts = Doubts::of(&bytes, self.source.algorithm()).map_err(|e| match e {
                GitError::Bad(error) => GitError::Damaged { id, error },
                e => e,
            })?;
            for left_out in doubts.left_out {
                self.refuse(commit, left_out);
            }
            for (name, blob) in doubts.links {
                self.links.entry(blob).or_insert((commit, name));
            }
        }
        Ok(objects.end()?)
    }

    fn refuse(&mut self, object: GitId, LeftOut { name, why }: LeftOut) {
        if self.named.insert(name.clone()) {
            let problem = Problem::new(object, Trouble::Name(name), why);
            self.plan.problems.push(problem);
        }
    }

    /// Finds the commits that an export gives another id.
    fn read_commits(&mut self) -> Result<(), GitError> {
        let mut objects = self.source.read(&std::mem::take(&mut self.commits))?;
        let mut bytes = Vec::new();
        while let Some(object) = objects.next_object()? {
            bytes.clear();
            objects.content(&mut bytes, MAX_METADATA_BYTES)?;
            let id = object.id;
            let git = GitCommit::parse(&bytes).map_err(|error| GitError::Damaged { id, error })?;
            let mut git_parents: Vec<GitId> = Vec::new();
            for parent in &git.parents {
                if git_parents.len() < MAX_PARENTS && !git_parents.contains(parent) {
                    git_parents.push(*parent);
                }
            }
            // Only the length of what is kept of it counts.
            let at = CommitPlace {
                tree: TreeSummary {
                    id: empty_tree_id(),
                    bytes: 0,
                    files: 0,
                    entries: 0,
                },
                parents: Vec::new(),
                generation: 1,
                git_parents,
            };
            let commit = to_dmv(&git, id, at);
            self.plan.problems.extend(id_problems(&git, id, &commit));
        }
        Ok(objects.end()?)
    }

    /// Adds the content for which blobs are pointers.
    fn read_pointers(&mut self) -> Result<(), GitError> {
        let mut objects = self.source.read(&std::mem::take(&mut self.small))?;
        let mut bytes = Vec::new();
        while let Some(object) = objects.next_object()? {
            bytes.clear();
            objects.content(&mut bytes, MAX_POINTER_BYTES as u64)?;
            let Some(pointer) = Pointer::parse(&bytes) else {
                continue;
            };
            let Some(lfs) = &self.lfs else {
                self.plan.pointers_taken.add(&pointer);
                continue;
            };
            if let Some(content) = lfs.open(&pointer) {
                self.content.get_or_insert(content);
                self.content_work.add(pointer.size);
                self.plan.bytes = (self.plan.bytes - object.size).saturating_add(pointer.size);
            } else {
                self.plan
                    .problems
                    .push(missing_content(object.id, &pointer));
            }
        }
        Ok(objects.end()?)
    }

    /// Reads the targets of symlinks.
    fn read_links(&mut self) -> Result<(), GitError> {
        let links = std::mem::take(&mut self.links);
        let ids: Vec<GitId> = links.keys().copied().collect();
        let mut objects = self.source.read(&ids)?;
        let mut bytes = Vec::new();
        while let Some(object) = objects.next_object()? {
            bytes.clear();
            if object.size <= MAX_SYMLINK_BYTES as u64 {
                objects.content(&mut bytes, MAX_SYMLINK_BYTES as u64)?;
            }
            if let Some((commit, name)) = links.get(&object.id)
                && !is_target(object.size, bytes.contains(&0))
            {
                let (name, why) = (name.clone(), NO_TARGET.to_owned());
                self.refuse(*commit, LeftOut { name, why });
            }
        }
        Ok(objects.end()?)
    }

    fn end(&mut self) -> Result<(), GitError> {
        self.read()?;
        self.read_links()
    }
}
