//! Opening a repository: assembling its parts and checking them against each other.

use crate::refs::{Refs, RefsError};
use crate::repo::base::arrived::ArrivedPacks;
use crate::repo::base::error::{PlaceError, RepoError};
use crate::repo::base::keys::{NamedObject, named_by};
use crate::repo::base::layout::{Format, REFS_FILE, RepositoryLocation, Whose};
use crate::repo::base::lean::LeanFiles;
use crate::repo::base::made::MadeObjects;
use crate::repo::base::relying::RelianceList;
use crate::repo::base::remembered::RememberedFacts;
use crate::repo::base::repo::{CallerAnswers, Repo};
use crate::repo::base::{layout, level, refused, worktree};
use crate::store::{Owners, Store};
use crate::vfs::{OpenMode, ReadingVfs, Vfs};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

impl Repo {
    /// Opens a repository and reaches its packs and indexes through `vfs`. For tests and tools that
    /// simulate a disk.
    pub fn open_place_on(place: RepositoryLocation, vfs: Arc<dyn Vfs>) -> Result<Repo, RepoError> {
        layout::check_parts(&place.dmv)?;
        let format = Format::read(&place.dmv)?;
        let db = place.dmv.join(REFS_FILE);
        if layout::is_absent(&db) {
            return Err(PlaceError::NoDatabase(db).into());
        }
        let refs = Refs::open(&db)?;
        assemble(place.dmv, format.owners, vfs, refs, place.worktree)
    }
}

/// Opens another user's repository. Writes nothing into it, not even a lock.
pub fn open_to_read(place: RepositoryLocation) -> Result<Repo, RepoError> {
    layout::check_parts(&place.dmv)?;
    let format = Format::read(&place.dmv)?;
    let refs = Refs::open_to_read(&place.dmv.join(REFS_FILE))?;
    let vfs = Arc::new(ReadingVfs);
    let mut repo = assemble(place.dmv, format.owners, vfs, refs, place.worktree)?;
    repo.whose = Whose::Foreign;
    repo.made = MadeObjects::new(None);
    Ok(repo)
}

/// Assembles the parts of a repository, and restores the operations that the database lost.
pub fn assemble(
    dmv: PathBuf,
    owners: Owners,
    vfs: Arc<dyn Vfs>,
    refs: Refs,
    worktree: Option<(PathBuf, String)>,
) -> Result<Repo, RepoError> {
    let refs = Arc::new(refs);
    let id = owners.own();
    let store = Store::open(vfs.clone(), &dmv, owners, refs.catalogue()?, refs.clone())?;
    let unusable = store.current().unusable.clone();
    if !unusable.is_empty() {
        store.load(refs.catalogue_without(&unusable)?)?;
        // The next commit merges the tables again. Until then, every command that opens the
        // repository repeats this step.
        let _ = refs.forget_indexes(&unusable);
    }
    check_consistency(&store, &refs)?;
    let caught_up = catch_up_if_free(&store, &refs);
    // Leftovers of killed commands are removed from a worktree's own directory only.
    let own = worktree.as_ref();
    let own = own.map(|(_, name)| worktree::own_dir_in(&dmv, name));
    let repo = Repo {
        dmv,
        id,
        vfs,
        store,
        made: MadeObjects::new(own),
        refs,
        log: Mutex::new(None),
        relied: RelianceList::default(),
        arrived: ArrivedPacks::default(),
        worktree,
        coming: None,
        whose: Whose::Own,
        caught_up,
        caller: CallerAnswers::default(),
        lean: LeanFiles::default(),
        remembered: RememberedFacts::default(),
    };
    refused::refresh(&repo);
    Ok(repo)
}

/// Fails if the database has a write-ahead log from another time. Then one table names what another
/// lacks.
fn check_consistency(store: &Store, refs: &Refs) -> Result<(), RepoError> {
    if !refs.may_be_inconsistent() {
        return Ok(());
    }
    refs.check_tables()?;
    for (key, value) in refs.with_prefix("")? {
        for id in named_by(&key, &value)
            .into_iter()
            .filter_map(NamedObject::commit)
        {
            // Check again: another command may have published it since.
            if !store.has(&id)? && store.current().is_open() {
                return Err(RefsError::inconsistent().into());
            }
        }
    }
    refs.note_fit();
    Ok(())
}

/// Restores the operations that the database lost, unless another command holds the database lock.
/// That command may have written an operation that it has not committed yet.
fn catch_up_if_free(store: &Store, refs: &Refs) -> usize {
    let is_level = || -> Result<bool, RepoError> {
        let log = level::open_log(store, OpenMode::Read)?;
        Ok(refs.log_position()?.log_end == Some(log.len()?))
    };
    if refs.is_read_only() || refs.is_copy() || is_level().unwrap_or(true) {
        return 0;
    }
    // If this fails, the next publication fails in the same way and reports the reason. Until then,
    // everything is readable.
    let Ok(Some(lock)) = refs.try_lock_database() else {
        return 0;
    };
    let done = level::catch_up(store, refs, &lock).unwrap_or(0);
    if let Ok(catalogue) = refs.catalogue() {
        let _ = store.load(catalogue);
    }
    done
}
