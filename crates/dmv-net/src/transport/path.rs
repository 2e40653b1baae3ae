//! Connections to a repository that this machine reaches as files: another directory, a USB disk, a
//! share.
//!
//! There is no server, so this process runs both halves. Packs and database are locked as for any
//! two commands, so other commands may use the repository at the same time.

use super::Reach;
use crate::session::{Grant, Link, NetError, serve};
use dmv_core::job::Job;
use dmv_core::path::PathContext;
use dmv_core::repo::{
    DMV_DIR, OperationRequest, PlaceError, Repo, RepoError, Trust, Vacancy, discover_trusting,
};
use dmv_core::threads;
use std::path::Path;

/// Why a repository is opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Purpose {
    /// To read it. DMV then writes nothing into a repository that belongs to another user.
    #[default]
    Read,
    /// To read and write it, as far as this user has the right to write its files.
    Write,
}

/// Opens the repository in exactly this directory, bare or not. By naming the directory the user
/// consents to open it, also if another user owns it.
///
/// Fails if the directory has no repository of its own.
pub fn open_at(path: &Path, purpose: Purpose) -> Result<Repo, RepoError> {
    let trust = Trust {
        named: true,
        is_safe: &|_| purpose == Purpose::Write,
    };
    let (place, whose) = discover_trusting(path, &trust)?;
    let absolute = std::path::absolute(path)
        .context("find", path)
        .map_err(RepoError::Io)?;
    if place.dmv != absolute
        && place.dmv != absolute.join(DMV_DIR)
        && !absolute.join(DMV_DIR).is_file()
    {
        return Err(PlaceError::NotFound(absolute).into());
    }
    Repo::open_as(place, whose)
}

/// Opens the repository in exactly this directory, to write to it. If there is none, creates a bare
/// one that is on `branch`.
///
/// It creates one directory at most: a missing parent may be a disk that is not connected. Fails if
/// the directory has other files.
pub fn create_at(path: &Path, branch: &str, request: OperationRequest) -> Result<Repo, RepoError> {
    match open_at(path, Purpose::Write) {
        Err(RepoError::Place(PlaceError::NotFound(_))) => {}
        opened => return opened,
    }
    let dir = std::path::absolute(path)
        .context("find", path)
        .map_err(RepoError::Io)?;
    let parent = dir.parent().unwrap_or(&dir);
    if !parent.is_dir() {
        return Err(PlaceError::NoParent(parent.to_owned()).into());
    }
    match Vacancy::of(&dir, true) {
        Vacancy::Missing | Vacancy::Free => Repo::init(&dir, branch, true, request),
        Vacancy::Repository | Vacancy::Taken => Err(PlaceError::Taken(dir).into()),
    }
}

/// Connects to the repository in `path`. A thread of this process serves it.
pub(super) fn connect(path: &Path, reach: &Reach) -> Result<Link, NetError> {
    let request = reach.request.clone();
    let repo = match &reach.create {
        Some(branch) => create_at(path, branch, request.clone())?,
        None => open_at(path, reach.purpose)?,
    };
    let grant = Grant::of(&repo, None);
    let (ours, theirs) = Link::pair();
    threads::start(move || {
        // The link reports its failures. The thread ends when the other end is dropped.
        let _ = serve(&repo, theirs, grant, &request, &Job::default());
    })?;
    Ok(ours)
}
