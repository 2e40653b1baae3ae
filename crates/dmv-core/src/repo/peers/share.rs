//! Sharing the packs of another repository on the same file system, instead of copying their objects
//! (docs/format/layout.md, "Shared packs").
//!
//! Bytes of a pack never change, so two repositories can use one file. What is shared counts as stored
//! and not as complete: a transfer looks at it like at what an interrupted one has left.

use crate::path::PathContext;
use crate::platform;
use crate::refs::{CatalogueRows, Timestamp};
use crate::repo::base::error::RepoError;
use crate::repo::base::layout::{Format, Whose};
use crate::repo::base::repo::Repo;
use crate::store::{MAX_SHARED_OWNERS, Owners, RepositoryId, StoreError};
use crate::vfs::Sharing;
use std::io;
use std::path::{Path, PathBuf};

/// How often sharing begins again because packs went meanwhile.
const TRIES: usize = 3;

/// What a repository shares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedPacks {
    /// The number of packs.
    pub packs: u64,
    /// Their bytes.
    pub bytes: u64,
    /// How their files are shared.
    pub how: Sharing,
}

impl Repo {
    /// Returns the repositories that have written the packs of `from`, if a repository in the directory
    /// `dir` could share them.
    ///
    /// It could not if the repository is another user's, or on another file system, or if objects are absent
    /// or known to be damaged.
    pub fn owners_to_share(&self, dir: &Path) -> Result<Option<Vec<RepositoryId>>, RepoError> {
        let owners: Vec<RepositoryId> = self.store.owners().all().collect();
        let is_fit = self.whose == Whose::Own
            && owners.len() <= MAX_SHARED_OWNERS
            && self.store.bad_places().is_empty()
            && self.slice()?.is_everything()
            && is_on_one_disk(self.store.packs_dir(), dir);
        Ok(is_fit.then_some(owners))
    }
}

fn is_on_one_disk(packs: &Path, dir: &Path) -> bool {
    let Ok(dir) = std::path::absolute(dir) else {
        return false;
    };
    let there = dir.ancestors().find_map(|dir| platform::stat_at(dir).ok());
    let packs = platform::stat_at(packs).ok();
    matches!((packs, there), (Some(packs), Some(there)) if packs.dev == there.dev)
}

impl Repo {
    /// Returns whether this repository was made to share packs of others.
    pub fn may_share_packs(&self) -> bool {
        !self.store.owners().shared().is_empty()
    }

    /// Uses the files of the packs of `from`, without copying them. No ref names their objects yet.
    ///
    /// Returns `None` if this repository has packs already or was not
    /// [created](Repo::init_sharing) to share those of `from`. Returns `None` as well, and makes this
    /// a repository that shares nothing, if others may write to the files or if the system refuses.
    pub fn share_packs(
        &self,
        from: &Repo,
        now: Timestamp,
    ) -> Result<Option<SharedPacks>, RepoError> {
        let is_known = |id| self.store.owners().has(id);
        if !self.store.packs().is_empty() || !from.store.owners().all().all(is_known) {
            return Ok(None);
        }
        let shared = share_catalogue(self, from, now)?;
        if shared.is_none() {
            // An earlier dmv can open a repository that shares nothing.
            let owners = Owners::alone(self.store.owners().own());
            Format { owners }.write(&self.dmv)?;
        }
        Ok(shared)
    }
}

/// Shares the files that the catalogue of `from` lists, and lists them here. Returns `None` and leaves
/// nothing if that is impossible.
fn share_catalogue(
    repo: &Repo,
    from: &Repo,
    now: Timestamp,
) -> Result<Option<SharedPacks>, RepoError> {
    for _ in 0..TRIES {
        let rows = from.refs.catalogue_rows()?;
        let files = files_of(repo, from, &rows);
        let how = match share_files(repo, &files) {
            Ok(Some(how)) => how,
            // The source has no packs.
            Ok(None) => return Ok(None),
            Err(e) => {
                for (_, to) in &files {
                    let _ = repo.vfs.remove(to);
                }
                match e.kind() {
                    // A pack was freed, or an index merged away.
                    io::ErrorKind::NotFound => continue,
                    _ => return Ok(None),
                }
            }
        };
        for dir in [repo.store.packs_dir(), &repo.store.files().index_dir] {
            repo.vfs
                .sync_dir(dir)
                .context("sync", dir)
                .map_err(StoreError::Io)?;
        }
        repo.refs.share_catalogue(&rows, now.seconds)?;
        repo.store.load(repo.refs.catalogue()?)?;
        return Ok(Some(SharedPacks {
            packs: rows.packs.len() as u64,
            bytes: rows.packs.iter().map(|pack| pack.len).sum(),
            how,
        }));
    }
    Ok(None)
}

/// Returns the files of a catalogue: where each is, and where it is to be.
fn files_of(repo: &Repo, from: &Repo, rows: &CatalogueRows) -> Vec<(PathBuf, PathBuf)> {
    let (ours, theirs) = (&repo.store, &from.store);
    let packs = rows.packs.iter().map(|row| row.id);
    let packs = packs.map(|id| (theirs.pack_path(id), ours.pack_path(id)));
    let indexes = rows.indexes.iter().map(|row| row.id);
    let indexes = indexes.map(|id| (theirs.files().index_path(id), ours.files().index_path(id)));
    packs.chain(indexes).collect()
}

/// Shares files. Returns how; `None` if there are none.
///
/// Fails if another user may write to one of them, also if this is the administrator, who may do
/// everything: what others change in a file, they change in all repositories that use it.
fn share_files(repo: &Repo, files: &[(PathBuf, PathBuf)]) -> io::Result<Option<Sharing>> {
    let mut how = None;
    for (from, to) in files {
        // An earlier attempt was killed. Nothing lists its files.
        if platform::stat_at_unfollowed(to).is_ok() {
            repo.vfs.remove(to)?;
        }
        let refuse_others = |path: &Path| {
            if platform::is_written_by_this_user_only(path)? {
                Ok(())
            } else {
                Err(io::Error::from(io::ErrorKind::PermissionDenied))
            }
        };
        refuse_others(from)?;
        how = Some(repo.vfs.share(from, to)?);
        // It may be another file than before.
        refuse_others(to)?;
    }
    Ok(how)
}

impl Repo {
    /// Returns the packs of other repositories that this one shares, if it does.
    pub fn shared_packs(&self) -> Option<SharedPacks> {
        let packs = self.store.packs();
        let shared: Vec<_> = (packs
            .iter()
            .filter(|row| self.store.files().is_shared(row.id)))
        .collect();
        let first = shared.first()?;
        let stat = platform::stat_at_unfollowed(&self.store.pack_path(first.id));
        Some(SharedPacks {
            packs: shared.len() as u64,
            bytes: shared.iter().map(|row| row.len).sum(),
            how: match stat {
                Ok(stat) if stat.nlink > 1 => Sharing::File,
                _ => Sharing::Blocks,
            },
        })
    }
}
