//! What an import would take.

use super::lfs::{LfsObjects, MAX_POINTER_BYTES, Pointer};
use super::pace::{Work, take_content, take_sample};
use super::trees::{Doubts, LeftOut, NO_TARGET, is_target};
use super::{ImportOptions, LeftRef, MAX_METADATA_BYTES, Problem, Trouble, wanted};
use crate::error::GitError;
use crate::id::{GitId, GitType};
use crate::map::IdMap;
use crate::source::{GitSource, OtherRefs};
use dmv_core::job::Job;
use dmv_core::limits::MAX_SYMLINK_BYTES;
use dmv_core::repo::Repo;
use std::collections::{HashMap, HashSet};
use std::fs::File;

/// Objects that are listed before they are read: until then, their ids are in memory.
const MOST_LISTED: usize = 1 << 19;

/// What an import would do.
#[derive(Clone, Debug, Default)]
pub struct ImportPlan {
    /// Commits that are not known.
    pub commits: u64,
    /// Contents of files that they have and known commits do not.
    pub files: u64,
    /// The bytes of these, with those of Git LFS if they are wanted.
    pub bytes: u64,
    /// Content of Git LFS that is wanted and missing: the blob of each pointer, and the bytes.
    pub missing_lfs: Vec<(GitId, u64)>,
    /// Whether the beginning of the history has pointers of Git LFS whose content is not wanted.
    pub has_pointers: bool,
    /// Names that would be left out, each once, with the first commit that has it.
    pub refused: Vec<Problem>,
    /// About how many seconds the import would take on this machine, without the checkout, if that is known.
    pub seconds: Option<f64>,
    /// Branches and tags of the source.
    pub refs: u64,
    /// Branches and tags that would not be taken.
    pub left: Vec<LeftRef>,
    /// Other refs, which are never taken.
    pub others: Vec<OtherRefs>,
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
    let wanted = wanted(source, options)?;
    let known = match repo {
        Some(repo) => source.commits_among(&IdMap::open(repo.dmv_dir())?.heads()?)?,
        None => Vec::new(),
    };
    let tips = wanted.tips();
    let mut look = Look::new(source, options)?;
    look.plan = ImportPlan {
        commits: source.count_commits(&tips, &known)?,
        refs: wanted.refs.len() as u64,
        left: wanted.left,
        others: source.other_refs()?,
        ..ImportPlan::default()
    };
    if look.plan.commits == 0 {
        return Ok(look.plan);
    }
    look.list(&tips, &known, job)?;
    look.end()?;
    let sample = take_sample(source, &tips, scratch, job)?;
    look.plan.has_pointers = sample.has_pointers && !options.lfs;
    let mut seconds = sample.pace.seconds_of(look.work);
    if let Some(content) = look.content.take() {
        let more = take_content(content, scratch)?.seconds_of(look.content_work);
        seconds = seconds.map(|seconds| seconds + more.unwrap_or(0.0));
    }
    look.plan.seconds = seconds;
    Ok(look.plan)
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
    /// Symlinks: the blob, the first commit that has it, and its name there.
    links: HashMap<GitId, (GitId, Vec<u8>)>,
    /// The names in `plan.refused`.
    named: HashSet<Vec<u8>>,
}

impl<'s> Look<'s> {
    fn new(source: &'s GitSource, options: &ImportOptions) -> Result<Look<'s>, GitError> {
        let git_dir = options.lfs.then(|| source.git_dir()).transpose()?;
        Ok(Look {
            source,
            lfs: git_dir.as_deref().map(LfsObjects::of),
            plan: ImportPlan::default(),
            work: Work::default(),
            content: None,
            content_work: Work::default(),
            trees: Vec::new(),
            small: Vec::new(),
            links: HashMap::new(),
            named: HashSet::new(),
        })
    }

    /// Counts what `tips` need and `known` have not.
    fn list(&mut self, tips: &[GitId], known: &[GitId], job: &Job) -> Result<(), GitError> {
        let mut list = self.source.list(tips, known)?;
        let mut commit = None;
        while let Some(object) = list.next_object()? {
            self.work.add(object.size);
            match object.ty {
                GitType::Commit => commit = Some(object.id),
                GitType::Tree => self.trees.push((object.id, commit.unwrap_or(object.id))),
                GitType::Blob => {
                    self.plan.files += 1;
                    self.plan.bytes += object.size;
                    if self.lfs.is_some() && object.size <= MAX_POINTER_BYTES as u64 {
                        self.small.push(object.id);
                    }
                }
                GitType::Tag => {}
            }
            if self.trees.len() + self.small.len() >= MOST_LISTED {
                self.read()?;
            }
            job.check()?;
        }
        Ok(list.end()?)
    }

    /// Reads what is listed.
    fn read(&mut self) -> Result<(), GitError> {
        self.read_trees()?;
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
            let about = Trouble::Name(name);
            self.plan.refused.push(Problem { object, about, why });
        }
    }

    /// Adds the content for which blobs are pointers.
    fn read_pointers(&mut self) -> Result<(), GitError> {
        let Some(lfs) = &self.lfs else {
            return Ok(());
        };
        let mut objects = self.source.read(&std::mem::take(&mut self.small))?;
        let mut bytes = Vec::new();
        while let Some(object) = objects.next_object()? {
            bytes.clear();
            objects.content(&mut bytes, MAX_POINTER_BYTES as u64)?;
            let Some(pointer) = Pointer::parse(&bytes) else {
                continue;
            };
            if let Some(content) = lfs.open(&pointer) {
                self.content.get_or_insert(content);
                self.content_work.add(pointer.size);
                self.plan.bytes = (self.plan.bytes - object.size).saturating_add(pointer.size);
            } else {
                self.plan.missing_lfs.push((object.id, pointer.size));
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
