//! A repository that this machine reaches as files: another directory, a USB disk, a share.
//!
//! Nobody answers there, so this process runs both halves. Packs and database are locked as for
//! any two commands, so others may use the repository at the same time.

use crate::session::{Grant, Link, NetError, serve};
use dmv_core::job::Job;
use dmv_core::repo::{Asked, DMV_DIR, Repo, RepoError, Trust, discover_trusting};
use std::path::Path;

/// What a repository is opened for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Purpose {
    /// To read it. Into another user's nothing is written then.
    #[default]
    Read,
    /// To write to it, too, as far as its files let this user.
    Write,
}

/// Opens the repository in exactly this directory, bare or not. To name it is consent to open it,
/// whoever it belongs to.
pub fn open_at(path: &Path, purpose: Purpose) -> Result<Repo, RepoError> {
    let trust = Trust {
        named: true,
        is_safe: &|_| purpose == Purpose::Write,
    };
    let (place, whose) = discover_trusting(path, &trust)?;
    let absolute = std::path::absolute(path).map_err(|source| RepoError::Io {
        action: "find",
        path: path.to_owned(),
        source,
    })?;
    if place.dmv != absolute
        && place.dmv != absolute.join(DMV_DIR)
        && !absolute.join(DMV_DIR).is_file()
    {
        return Err(RepoError::NotFound(absolute));
    }
    Repo::open_as(place, whose)
}

/// Connects to the repository in `path`, answered by a thread of this process.
pub fn connect(path: &Path, asked: Asked, purpose: Purpose) -> Result<Link, NetError> {
    let repo = open_at(path, purpose)?;
    let grant = Grant::of(&repo, None);
    let (ours, theirs) = Link::pair();
    std::thread::spawn(move || {
        // Its failures are told over the link; it ends when the other end is dropped.
        let _ = serve(&repo, theirs, grant, &asked, &Job::default());
    });
    Ok(ours)
}
