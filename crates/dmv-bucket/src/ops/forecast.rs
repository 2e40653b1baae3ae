//! What a clone of a bucket would receive.

use super::caller::{BucketCaller, source_of};
use super::push::at_bucket;
pub use crate::peer::CloneForecast;
use crate::peer::{foresee_clone, foresee_content};
use crate::store::Settings;
use dmv_core::fsutil::SafeDir;
use dmv_core::hash::encode_hex;
use dmv_core::job::Job;
use dmv_core::object::ObjectType;
use dmv_core::reach::{Detail, Reach};
use dmv_core::repo::{Repo, RepoError};
use dmv_core::store::random_bytes;
use dmv_net::ops::{CloneDir, CloneError, CloneOptions, KnownSource};
use dmv_net::session::{Clue, History};
use dmv_net::transport::{BucketAddress, Purpose, Url};
use std::collections::HashMap;
use std::path::PathBuf;

/// Returns what a clone of a bucket would receive. Writes nothing into its directory.
///
/// Which content a part of the paths or of the history needs is known only from the directories. So this
/// receives these, into a temporary directory that it removes. Fails if the source is no bucket.
pub fn foreseen_clone(
    options: &CloneOptions,
    caller: &dyn BucketCaller,
    job: &Job,
) -> Result<CloneForecast, CloneError> {
    let url = &options.source;
    if options.subset.is_everything() && options.history == History::New {
        let work = |address: &BucketAddress, settings: Settings| {
            let source = source_of(address, &settings)?;
            let mut forecast = foresee_clone(source, options.metadata_only)?;
            // The claims.
            forecast.reads += 1;
            Ok(forecast)
        };
        return Ok(at_bucket(url, Purpose::Read, "dmv du", caller, work)?);
    }
    let counters = match url {
        Url::Bucket(address) => caller.store(address).ok().map(|settings| settings.counters),
        _ => None,
    };
    let received = || {
        counters
            .as_ref()
            .map_or(0, |counters| counters.now().received)
    };
    let before = received();
    let place = Temporary::new()?;
    let directories = CloneOptions {
        dir: place.0.clone(),
        bare: true,
        metadata_only: true,
        ..options.clone()
    };
    let new = CloneDir::look(&directories)?.begin(&directories, KnownSource::Nothing)?;
    let cloned = new.run(&directories, caller, job)?;
    let again = received() - before;
    let mut forecast = CloneForecast::default();
    if !options.metadata_only {
        let clues = content_of(&cloned.repo, options.history, job)?;
        let copies = cloned.repo.dmv_dir().to_owned();
        let work = |address: &BucketAddress, settings: Settings| {
            let mut source = source_of(address, &settings)?;
            source.copies = Some(copies);
            foresee_content(source, clues)
        };
        forecast = at_bucket(url, Purpose::Read, "dmv du", caller, work)?;
    }
    Ok(CloneForecast { again, ..forecast })
}

/// Returns the chunks that a clone of this history needs, each once.
fn content_of(repo: &Repo, history: History, job: &Job) -> Result<Vec<Clue>, RepoError> {
    let mut filter = repo.wanted()?;
    filter.metadata_only = false;
    match history {
        History::New | History::All => {}
        History::Depth(depth) => filter.depth = depth,
        History::Since(time) => filter.since = Some(time),
    }
    let tips = repo.offered()?.refs.into_iter().map(|(_, id)| id);
    let mut reach = Reach::filtered(tips, [], Detail::All, filter).skipping_chunks();
    let mut clues = HashMap::new();
    while let Some(found) = reach.next(repo.objects())? {
        job.check()?;
        if let (ObjectType::Chunk, Some(above)) = (found.ty, found.above) {
            let (chunk, len) = (found.id, found.len);
            clues.insert(chunk, Clue { chunk, len, above });
        }
    }
    Ok(clues.into_values().collect())
}

/// A directory that is removed at the end.
struct Temporary(PathBuf);

impl Temporary {
    /// Makes one that only its owner can read: names of files are in it.
    fn new() -> Result<Temporary, RepoError> {
        let random: [u8; 16] = random_bytes();
        let name = format!("dmv-clone-{}", encode_hex(&random));
        let dir = std::env::temp_dir();
        SafeDir::open_root(&dir)?.create_dir(name.as_bytes(), true)?;
        Ok(Temporary(dir.join(name)))
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        // If this fails, a directory stays in the place for temporary files.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
