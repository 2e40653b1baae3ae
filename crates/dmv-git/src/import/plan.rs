//! What an import would take.

use super::lfs::{LfsObjects, MAX_POINTER_BYTES, Pointer};
use super::{ImportOptions, LeftRef, wanted};
use crate::error::GitError;
use crate::id::{GitId, GitType};
use crate::map::IdMap;
use crate::source::GitSource;
use dmv_core::repo::Repo;

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
    /// Branches and tags of the source.
    pub refs: u64,
    /// Branches and tags that would not be taken.
    pub left: Vec<LeftRef>,
}

/// Returns what [`import`](super::import) would do. Reads no content, except pointers of Git LFS.
pub fn plan(
    repo: Option<&Repo>,
    source: &GitSource,
    options: &ImportOptions,
) -> Result<ImportPlan, GitError> {
    let wanted = wanted(source, options)?;
    let known = match repo {
        Some(repo) => source.present(&IdMap::open(repo.dmv_dir())?.heads()?)?,
        None => Vec::new(),
    };
    let tips = wanted.tips();
    let mut plan = ImportPlan {
        commits: source.count_commits(&tips, &known)?,
        refs: wanted.refs.len() as u64,
        left: wanted.left,
        ..ImportPlan::default()
    };
    if plan.commits == 0 {
        return Ok(plan);
    }
    let mut small = Vec::new();
    let mut list = source.list(&tips, &known)?;
    while let Some(object) = list.next_object()? {
        if object.ty == GitType::Blob {
            plan.files += 1;
            plan.bytes += object.size;
            if options.lfs && object.size <= MAX_POINTER_BYTES as u64 {
                small.push(object.id);
            }
        }
    }
    list.end()?;
    if !small.is_empty() {
        add_lfs(source, &small, &mut plan)?;
    }
    Ok(plan)
}

/// Adds the content for which blobs are pointers.
fn add_lfs(source: &GitSource, blobs: &[GitId], plan: &mut ImportPlan) -> Result<(), GitError> {
    let lfs = LfsObjects::of(&source.git_dir()?);
    let mut objects = source.read(blobs)?;
    let mut bytes = Vec::new();
    while let Some(object) = objects.next_object()? {
        bytes.clear();
        objects.content(&mut bytes, MAX_POINTER_BYTES as u64)?;
        let Some(pointer) = Pointer::parse(&bytes) else {
            continue;
        };
        if lfs.open(&pointer).is_some() {
            plan.bytes = (plan.bytes - object.size).saturating_add(pointer.size);
        } else {
            plan.missing_lfs.push((object.id, pointer.size));
        }
    }
    Ok(objects.end()?)
}
