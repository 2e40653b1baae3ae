//! How fast this machine imports: the beginning of a history is taken into a scratch repository.

use super::builder::Progress;
use super::lfs::ContentHash;
use super::portion;
use crate::error::GitError;
use crate::id::{GitId, GitType};
use crate::map::IdMap;
use crate::source::{GitSource, ObjectHeader};
use dmv_core::job::Job;
use dmv_core::repo::Repo;
use dmv_core::worktree::content::store_content;
use std::fs::File;
use std::io::Read;
use std::time::Instant;

/// Bytes after which a sample ends.
const SAMPLE_BYTES: u64 = 32 << 20;
/// A sample ends before an object of more bytes.
const MAX_OBJECT_BYTES: u64 = 64 << 20;
/// The most objects of a sample.
const SAMPLE_OBJECTS: usize = 10_000;
/// As much work as an object of this many bytes is any object, beside its bytes. A guess that fits a history of 20,000
/// commits of text.
const OBJECT_BYTES: u64 = 4096;

/// How much is to be done.
#[derive(Clone, Copy, Debug, Default)]
pub struct Work {
    objects: u64,
    bytes: u64,
}

impl Work {
    /// Adds an object of `bytes` bytes.
    pub fn add(&mut self, bytes: u64) {
        self.objects += 1;
        self.bytes = self.bytes.saturating_add(bytes);
    }

    fn cost(self) -> f64 {
        self.bytes as f64 + self.objects as f64 * OBJECT_BYTES as f64
    }
}

/// What a sample took.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pace {
    work: Work,
    seconds: f64,
}

impl Pace {
    /// Returns about how long `work` takes; `None` if the sample is empty.
    pub fn seconds_of(self, work: Work) -> Option<f64> {
        let is_known = self.work.objects > 0;
        is_known.then(|| self.seconds * work.cost() / self.work.cost())
    }
}

/// Takes the beginning of the history that leads to `tips` into the new repository `scratch`.
pub fn take_sample(
    source: &GitSource,
    tips: &[GitId],
    scratch: &Repo,
    job: &Job,
) -> Result<Pace, GitError> {
    let objects = beginning(source, tips)?;
    let mut work = Work::default();
    objects.iter().for_each(|object| work.add(object.size));
    let ids: Vec<GitId> = objects.iter().map(|object| object.id).collect();
    let mut map = IdMap::open(scratch.dmv_dir())?;
    let begin = Instant::now();
    let incoming = scratch.incoming()?;
    let mut progress = Progress::new(source, scratch, &mut map, None, job)?;
    portion(&incoming, source.read(&ids)?, &mut progress)?;
    scratch.keep_incoming(incoming)?;
    let seconds = begin.elapsed().as_secs_f64();
    Ok(Pace { work, seconds })
}

/// Takes the beginning of a content of Git LFS into `scratch`.
pub fn take_content(content: File, scratch: &Repo) -> Result<Pace, GitError> {
    let (mut work, mut hash) = (Work::default(), ContentHash::default());
    let begin = Instant::now();
    let incoming = scratch.incoming()?;
    let mut lane = incoming.lane();
    let blob = store_content(content.take(SAMPLE_BYTES), &mut lane, |piece| {
        hash.update(piece)
    })?;
    lane.flush()?;
    drop(lane);
    scratch.keep_incoming(incoming)?;
    work.add(blob.size);
    let seconds = begin.elapsed().as_secs_f64();
    Ok(Pace { work, seconds })
}

/// Returns the first objects up to the end of a commit, or blobs of the first commit if it has more; blobs first, as
/// an import reads them.
fn beginning(source: &GitSource, tips: &[GitId]) -> Result<Vec<ObjectHeader>, GitError> {
    let mut list = source.list(tips, &[])?;
    let (mut objects, mut whole, mut bytes) = (Vec::new(), 0, 0);
    loop {
        let next = list.next_object()?;
        if next.is_none_or(|object| object.ty == GitType::Commit) {
            whole = objects.len();
        }
        let is_full = bytes >= SAMPLE_BYTES || objects.len() >= SAMPLE_OBJECTS;
        let Some(object) = next.filter(|object| !is_full && object.size <= MAX_OBJECT_BYTES) else {
            break;
        };
        bytes += object.size;
        objects.push(object);
    }
    if whole == 0 {
        objects.retain(|object| object.ty == GitType::Blob);
    } else {
        objects.truncate(whole);
    }
    objects.sort_by_key(|object| object.ty != GitType::Blob);
    Ok(objects)
}
