//! The limit on the repository's size, a value of the view, and jobs that stay within it.
//!
//! A job counts each byte before it writes it, and the size is looked at once more before the job is
//! published. What steps back or frees space has no limit: `undo`, what undo keeps of overwritten files,
//! `gc` and its kin.

use crate::path::PathError;
use crate::repo::base::error::{PlaceError, RepoError};
use crate::repo::base::keys::BUDGET;
use crate::repo::base::repo::Repo;
use crate::store::FinishedJob;
use std::io::ErrorKind;
use std::path::Path;

impl Repo {
    /// Returns the most bytes that the repository is to take on disk, if there is a limit.
    pub fn budget(&self) -> Result<Option<u64>, RepoError> {
        let Some(value) = self.refs.get(BUDGET)? else {
            return Ok(None);
        };
        let text = std::str::from_utf8(&value).ok();
        let bytes = text.and_then(|text| text.parse().ok());
        let bytes = bytes.ok_or_else(|| {
            RepoError::Place(PlaceError::Damaged {
                path: self.refs.path().to_owned(),
                why: format!("{BUDGET} is invalid"),
            })
        })?;
        Ok(Some(bytes))
    }
}

/// Returns how many bytes the budget leaves, if there is one.
pub fn room(repo: &Repo) -> Result<Option<u64>, RepoError> {
    let Some(limit) = repo.budget()? else {
        return Ok(None);
    };
    let (_, mut used) = disk_size(&repo.dmv)?;
    if used >= limit {
        // Commands that were killed may have left something.
        repo.remove_leftovers()?;
        used = disk_size(&repo.dmv)?.1;
    }
    Ok(Some(limit.saturating_sub(used)))
}

/// Fails if the repository has outgrown its budget, and the job is limited. Other commands may have
/// written meanwhile.
pub fn check_job(repo: &Repo, sealed: &FinishedJob) -> Result<(), RepoError> {
    if sealed.is_limited
        && !sealed.segments.is_empty()
        && let Some(limit) = repo.budget()?
        && disk_size(&repo.dmv)?.1 > limit
    {
        return Err(RepoError::OverBudget);
    }
    Ok(())
}

/// Returns the number of a repository's own files and their bytes, below the directory `.dmv` that has
/// them. Files that go meanwhile do not count.
pub fn disk_size(dmv: &Path) -> Result<(u64, u64), RepoError> {
    let (mut files, mut bytes) = (0, 0);
    let mut dirs = vec![dmv.to_owned()];
    while let Some(dir) = dirs.pop() {
        let io = |source| RepoError::Io(PathError::new("list", &dir, source));
        for entry in std::fs::read_dir(&dir).map_err(io)? {
            let entry = entry.map_err(io)?;
            let meta = match entry.metadata() {
                Err(e) if e.kind() == ErrorKind::NotFound => continue,
                meta => meta.map_err(io)?,
            };
            if meta.is_dir() {
                dirs.push(entry.path())
            } else {
                files += 1;
                bytes += meta.len();
            }
        }
    }
    Ok((files, bytes))
}
