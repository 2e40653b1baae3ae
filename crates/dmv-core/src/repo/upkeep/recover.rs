//! Recovery: rebuilds the databases from the packs.
//!
//! [`recover`] works on the files of a repository, also if it cannot be opened. It uses the store,
//! the operation log and the rooms below to find refs, operations and lost commits.

pub mod heads;
pub mod unnamed;

use crate::job::Job;
use crate::locks;
use crate::path::{PathContext, PathError};
use crate::platform::{OwnAccess, copy_own, open_own, rename, sync_dir, try_lock};
use crate::refs::{DatabaseLock, Operation, Refs, RefsError, newest_chain};
use crate::repo::base::error::{PlaceError, RepoError};
use crate::repo::base::head::Head;
use crate::repo::base::keeping::keep_unopened;
use crate::repo::base::layout::{Format, REFS_FILE, RepositoryLocation, check_parts, is_absent};
use crate::repo::base::level::{commits_of, decoded};
use crate::repo::base::repo::Repo;
use crate::repo::base::{layout, publish, slice};
use crate::repo::upkeep::forks::keep_lost;
use crate::repo::upkeep::recover::heads::mend_heads;
use crate::repo::upkeep::recover::unnamed::{LogCompleteness, Search, branches_for};
use crate::repo::upkeep::verify::LostPack;
use crate::store::{
    Catalogue, LogPack, NoSource, PACK_HEADER_BYTES, PackId, RepositoryId, Store, StoreError,
    add_closed_segments, recover_store, repository_of,
};
use crate::vfs::{OpenMode, OsVfs, Vfs};
use std::cell::OnceCell;
use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// What a recovery restored.
#[derive(Debug, Default)]
pub struct RecoverReport {
    /// The number of branches, tags and other refs.
    pub refs: usize,
    /// The number of operations in the log.
    pub operations: usize,
    /// The number of packs scanned.
    pub packs: usize,
    /// Packs that the former database lists and whose files are gone.
    pub lost_packs: Vec<LostPack>,
    /// The number of objects in intact indexes.
    pub objects: u64,
    /// The number of objects whose index was lost and that are indexed again.
    pub reindexed: u64,
    /// Ranges of packs without any intact data: file, offset, bytes.
    pub garbage: Vec<(PathBuf, u64, u64)>,
    /// Files in `packs/` that do not belong to this repository.
    pub foreign: Vec<PathBuf>,
    /// Whether the `format` file was lost or damaged and was written again.
    pub format: bool,
    /// The path of a copy of the former database.
    pub former: Option<PathBuf>,
    /// Packs that another process is writing to. Recovery leaves their open segments to that
    /// process.
    pub busy: Vec<PathBuf>,
    /// The number of operations that only the database had and that were written to the log pack.
    pub relogged: usize,
    /// Branches made for commits of a diverged history that the newest operations do not come from.
    pub kept: Vec<String>,
    /// Branches made for commits that only the packs still contain.
    pub found: Vec<String>,
    /// The heads that were found again for worktrees, by worktree name.
    pub heads: Vec<(String, Head)>,
}

/// Rebuilds `refs.db` of the repository at `place` from its packs. Other commands may run
/// meanwhile.
///
/// If the database opens, one transaction replaces its content, so every process that has it open
/// sees the new content. If the database is lost or damaged, one rename puts a new one in its
/// place, and a process that still has the former one open cannot publish to it. A copy of the
/// former database is kept. Packs only gain index records; the log pack only gains operations that
/// the database alone had. A crash at any point leaves either the state before or the state after.
pub fn recover(place: &RepositoryLocation, job: &Job) -> Result<RecoverReport, RepoError> {
    recover_on(place, Arc::new(OsVfs), job)
}

/// The files of a repository that is being recovered.
struct Site<'a> {
    dmv: &'a Path,
    packs: &'a Path,
    vfs: &'a Arc<dyn Vfs>,
    format: Format,
    /// Whether the `format` file is lost or damaged, so that `format` comes from the packs.
    lost_format: bool,
}

/// Like [`recover`], with packs in `vfs`.
pub fn recover_on(
    place: &RepositoryLocation,
    vfs: Arc<dyn Vfs>,
    job: &Job,
) -> Result<RecoverReport, RepoError> {
    let dmv = &place.dmv;
    check_parts(dmv)?;
    let packs = dmv.join("packs");
    let is_gone = |e: io::Error| e.kind() == io::ErrorKind::NotFound;
    if vfs.list(&packs).is_err_and(is_gone) {
        return Err(PlaceError::NoPacks(packs).into());
    }
    let (format, lost_format) = read_or_rebuild(dmv, &*vfs, &packs)?;
    let site = Site {
        dmv,
        packs: &packs,
        vfs: &vfs,
        format,
        lost_format,
    };
    // Packs that are being removed would be listed again without their files.
    let _kept = keep_unopened(dmv)?;
    // Without a readable database, such packs are listed again, and stay until the next gc.
    let leaving = open_former(&dmv.join(REFS_FILE))?.and_then(|refs| refs.leaving().ok());
    let leaving = leaving.unwrap_or_default();
    let owners = &site.format.owners;
    let scanned = recover_store(&*vfs, &packs, owners, &leaving, &mut |read, all| {
        job.progress.bytes.store(read, Ordering::Relaxed);
        job.progress.total_bytes.store(all, Ordering::Relaxed);
        !job.is_cancelled()
    })?;
    let mut report = RecoverReport {
        reindexed: scanned.reindexed,
        garbage: scanned.garbage,
        foreign: scanned.foreign,
        busy: scanned.busy,
        ..Default::default()
    };
    let packs = (scanned.catalogue, &scanned.shared);
    let (found, operations) = rebuild(&site, packs, &leaving, &mut report, job)?;
    // The operations below belong to no worktree; otherwise an undo in the worktree would reverse
    // them.
    let bare = RepositoryLocation {
        worktree: None,
        ..place.clone()
    };
    let repo = Repo::open_place_on(bare, vfs.clone())?;
    if !scanned.unlisted.is_empty() {
        let sealed = repo.store.store_unlisted(&scanned.unlisted)?;
        let segments = sealed.segments.iter();
        report.reindexed += segments.map(|row| u64::from(row.entries)).sum::<u64>();
        publish::keep(&repo, sealed)?;
    }
    report.kept = keep_lost(&repo, &found, &operations)?;
    report.heads = mend_heads(&repo, place)?;
    for prefix in ["branch/", "tag/", "remote/"] {
        report.refs += repo.refs.with_prefix(prefix)?.len();
    }
    Ok(report)
}

/// Rebuilds the database from a scan of the packs, while no command can publish. Returns all operations
/// that were found, and those that the database now has.
fn rebuild(
    site: &Site<'_>,
    (mut catalogue, shared): (Catalogue, &HashSet<PackId>),
    leaving: &[PackId],
    report: &mut RecoverReport,
    job: &Job,
) -> Result<(Vec<Operation>, Vec<Operation>), RepoError> {
    let (dmv, packs, owners) = (site.dmv, site.packs, &site.format.owners);
    let db = dmv.join(REFS_FILE);
    let lock = DatabaseLock::take(&db, locks::PATIENCE)?;
    // From here on nobody publishes. Anything published since the scan is in the packs and the log.
    add_closed_segments(&**site.vfs, packs, owners, &mut catalogue, leaving, true)?;
    report.former = keep_former(dmv)?;
    let former = open_former(&db)?;
    report.lost_packs = lost_since(former.as_ref(), &catalogue, leaving);
    let log = open_or_create(&**site.vfs, packs, owners.own())?;
    let from = (&catalogue, shared);
    let (found, operations) = operations(site, from, former.as_ref(), &log, report, job)?;
    let poisoned = former.as_ref().map(|refs| refs.poisoned());
    for pack in poisoned.unwrap_or_default() {
        let row = catalogue.packs.iter_mut().find(|row| row.id == pack);
        row.into_iter().for_each(|row| row.poisoned = true);
    }
    let end = log.len()?;
    let rebuild = |refs: &Refs, lock: &DatabaseLock| {
        refs.rebuild(lock, &catalogue, leaving, &operations, end)
    };
    if !former.is_some_and(|refs| rebuild_in_place(&refs, &lock, &rebuild)) {
        replace(dmv, &rebuild)?;
    }
    if site.lost_format {
        // The format file comes last, as in a new repository. Without it the directory is no
        // repository.
        site.format.write(dmv)?;
        report.format = true;
    }
    remove_merged_indexes(dmv);
    sync_directory(dmv)?;
    drop(lock);
    report.packs = catalogue.packs.len();
    report.operations = operations.len();
    report.objects = catalogue
        .segments
        .iter()
        .map(|s| u64::from(s.entries))
        .sum();
    Ok((found, operations))
}

/// Returns the packs that a former database lists and that the recovered catalogue does not.
fn lost_since(former: Option<&Refs>, now: &Catalogue, leaving: &[PackId]) -> Vec<LostPack> {
    let there: HashSet<PackId> = now.packs.iter().map(|row| row.id).collect();
    let is_lost = |id: &PackId| !there.contains(id) && !leaving.contains(id);
    // A damaged database may list anything.
    let Some((refs, before)) = former.and_then(|refs| Some((refs, refs.catalogue().ok()?))) else {
        return Vec::new();
    };
    let lost = before.packs.iter().filter(|row| is_lost(&row.id));
    lost.map(|row| LostPack::of(refs, row)).collect()
}

/// Completes the log. Returns all operations that were found, and those that count: the newest
/// chain, with new ones for commits that no operation names.
fn operations(
    site: &Site<'_>,
    (catalogue, shared): (&Catalogue, &HashSet<PackId>),
    former: Option<&Refs>,
    log: &LogPack,
    report: &mut RecoverReport,
    job: &Job,
) -> Result<(Vec<Operation>, Vec<Operation>), RepoError> {
    let known = former.map(Refs::readable_operations);
    let told = told_by(former, log)?;
    let objects = OnceCell::new();
    let store = || {
        if objects.get().is_none() {
            let (vfs, none) = (site.vfs.clone(), Arc::new(NoSource));
            let store = Store::open(
                vfs,
                site.dmv,
                site.format.owners.clone(),
                catalogue.clone(),
                none,
            )?;
            let _ = objects.set(store);
        }
        Ok::<&Store, RepoError>(objects.get().expect("it was just set"))
    };
    let found = brought_together(log, known.unwrap_or_default(), &|operation| {
        for commit in commits_of(operation) {
            if store()?.pack_of(&commit)?.is_none() {
                return Ok(false);
            }
        }
        Ok(true)
    })?;
    report.relogged = found.relogged;
    let mut operations = newest_chain(found.operations.clone());
    // Objects that an interrupted clone has received belong to that clone.
    if told != LogCompleteness::Everything && !layout::is_begun(site.dmv) {
        let search = Search {
            store: store()?,
            told,
            is_partial: slice::is_there(site.dmv),
            shared,
            job,
        };
        let tips = search.tips(&found.operations)?;
        let (made, names) = branches_for(&tips, &operations);
        for operation in made {
            // Every operation that counts is in the log first. After a crash here, it is found
            // there.
            log.append(&operation.encode())?;
            operations.push(operation);
        }
        report.found = names;
    }
    Ok((found.operations, operations))
}

/// Puts what was recovered into a database.
type Rebuild<'r> = dyn Fn(&Refs, &DatabaseLock) -> Result<(), RefsError> + 'r;

/// Replaces the content of a database. Returns `false` if the database is damaged or cannot be
/// written, so that another one has to take its place.
fn rebuild_in_place(refs: &Refs, lock: &DatabaseLock, rebuild: &Rebuild<'_>) -> bool {
    let is_sound = || refs.integrity().is_ok_and(|found| found.is_empty());
    let done = is_sound() && rebuild(refs, lock).is_ok() && is_sound();
    refs.write_back(lock);
    done
}

/// Returns the former database if it opens. Fails for a database of a later version of dmv, which
/// stays unchanged.
fn open_former(db: &Path) -> Result<Option<Refs>, RepoError> {
    if is_absent(db) {
        return Ok(None);
    }
    match Refs::open(db) {
        Ok(refs) => Ok(Some(refs)),
        Err(e @ RefsError::TooNew(_)) => Err(e.into()),
        Err(e) if e.is_damage() => Ok(None),
        Err(e) => Err(e.into()),
    }
}

fn open_or_create(vfs: &dyn Vfs, packs: &Path, id: RepositoryId) -> Result<LogPack, RepoError> {
    let log = match LogPack::open(vfs, packs, id, OpenMode::Append) {
        Err(StoreError::Io(e)) if e.kind() == io::ErrorKind::NotFound => {
            LogPack::create(vfs, packs, id)?
        }
        log => log?,
    };
    log.mend_header(id)?;
    log.sync()?;
    Ok(log)
}

/// Returns how completely a database and a log record the operations of the repository.
fn told_by(former: Option<&Refs>, log: &LogPack) -> Result<LogCompleteness, RepoError> {
    let is_sound = |refs: &&Refs| refs.integrity().is_ok_and(|found| found.is_empty());
    let level = former
        .filter(is_sound)
        .and_then(|refs| refs.log_position().ok());
    Ok(match level.filter(|level| level.last.is_some()) {
        Some(level) => {
            let end = level.log_end.unwrap_or(PACK_HEADER_BYTES);
            if end <= log.len()? && !log.has_gaps(end)? {
                LogCompleteness::Everything
            } else {
                LogCompleteness::Perhaps
            }
        }
        None if log.is_empty()? || log.has_gaps(PACK_HEADER_BYTES)? => LogCompleteness::NotAll,
        None => LogCompleteness::Perhaps,
    })
}

/// The operations of a log and a database.
struct FoundOperations {
    operations: Vec<Operation>,
    /// The number of operations that were written to the log again.
    relogged: usize,
}

/// Appends operations that only the database has to the log, so that the log alone is complete.
///
/// The operations of the database are appended from the first one that the log lacks, because the
/// newest must come last. `is_whole` returns whether the packs have the objects that an operation
/// names; an operation from a damaged row would name others.
fn brought_together(
    log: &LogPack,
    known: Vec<Operation>,
    is_whole: &dyn Fn(&Operation) -> Result<bool, RepoError>,
) -> Result<FoundOperations, RepoError> {
    let mut operations = decoded(log.operations()?)?;
    let logged: HashSet<[u8; 16]> = operations.iter().map(|op| op.id).collect();
    let is_logged = |op: &Operation| logged.contains(&op.id);
    // Without a common operation, the database belongs to another repository.
    let is_ours = logged.is_empty() || known.iter().any(is_logged);
    let missing = known.iter().position(|op| !is_logged(op));
    let mut relogged = 0;
    if let Some(first) = missing.filter(|_| is_ours) {
        let mut lacking = Vec::new();
        for operation in &known[first..] {
            if logged.is_empty() || is_logged(operation) || is_whole(operation)? {
                lacking.push(operation.clone());
            }
        }
        // If the log already has all of them, nothing is missing.
        if lacking.iter().any(|op| !is_logged(op)) {
            for operation in lacking {
                log.append(&operation.encode())?;
                operations.push(operation);
                relogged += 1;
            }
        }
    }
    Ok(FoundOperations {
        operations,
        relogged,
    })
}

/// Puts a new database in the place of a lost or damaged one.
fn replace(dmv: &Path, rebuild: &Rebuild<'_>) -> Result<(), RepoError> {
    let (fresh, db) = (dmv.join("recovering.db"), dmv.join(REFS_FILE));
    remove_database(&fresh);
    let refs = Refs::create(&fresh)?;
    rebuild(&refs, &refs.lock_database()?)?;
    // SQLite's log is removed below, so everything has to be in the one file.
    refs.close_complete()?;
    for left in &with_companions(&fresh)[1..] {
        let _ = std::fs::remove_file(left);
    }
    let _ = std::fs::remove_file(fresh.with_extension("lock"));
    open_own(&fresh, OwnAccess::Write)
        .and_then(|file| file.sync_all())
        .context("sync", &fresh)
        .map_err(RepoError::Io)?;
    // SQLite must not use files of a former database with the new one.
    for left in &with_companions(&db)[1..] {
        let _ = std::fs::remove_file(left);
    }
    rename(&fresh, &db)
        .context("rename", &fresh)
        .map_err(RepoError::Io)
}

/// Copies the database together with its SQLite log, and returns the path of the copy. The copy of
/// an earlier database is removed only when this one is complete.
fn keep_former(dmv: &Path) -> Result<Option<PathBuf>, RepoError> {
    let (db, former) = (dmv.join(REFS_FILE), dmv.join("refs.former.db"));
    if is_absent(&db) {
        return Ok(None);
    }
    let fresh = dmv.join("refs.former.new.db");
    remove_database(&fresh);
    let copied = with_companions(&db)
        .iter()
        .zip(with_companions(&fresh))
        .take(2)
        .try_for_each(|(from, to)| copy_durably(from, &to));
    if let Err(e) = copied {
        remove_database(&fresh);
        return Err(e);
    }
    // SQLite must not use the log of another database with this copy.
    remove_database(&former);
    for (from, to) in with_companions(&fresh).iter().zip(with_companions(&former)) {
        match rename(from, &to) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => {
                remove_database(&fresh);
                // Whatever stands in its place is what has to be looked at.
                return Err(RepoError::Io(PathError::new("replace", &to, source)));
            }
            _ => {}
        }
    }
    Ok(Some(former))
}

/// Copies a file if it exists, durably.
fn copy_durably(from: &Path, to: &Path) -> Result<(), RepoError> {
    let copied = || match copy_own(from, to) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(e) => Err(e),
        Ok(copy) => copy.sync_all(),
    };
    copied().context("copy", from).map_err(RepoError::Io)
}

/// Removes the merged index files, since the database names none any more. Keeps those that a
/// process may be about to register.
fn remove_merged_indexes(dmv: &Path) {
    let Ok(entries) = std::fs::read_dir(dmv.join("index")) else {
        return;
    };
    for entry in entries.flatten() {
        let file = open_own(&entry.path(), OwnAccess::Read);
        if file.is_ok_and(|file| try_lock(&file).is_ok()) {
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

fn sync_directory(dmv: &Path) -> Result<(), RepoError> {
    sync_dir(dmv).context("sync", dmv).map_err(RepoError::Io)
}

/// Returns the content of the `format` file, or what it must have been if it is missing or damaged.
/// The flag says which.
fn read_or_rebuild(dmv: &Path, vfs: &dyn Vfs, packs: &Path) -> Result<(Format, bool), RepoError> {
    let error = match Format::read(dmv) {
        Ok(format) => return Ok((format, false)),
        Err(e @ RepoError::Place(PlaceError::TooNew { .. })) => return Err(e),
        Err(RepoError::Io(e)) if e.kind() != io::ErrorKind::NotFound => {
            return Err(RepoError::Io(e));
        }
        Err(e) => e,
    };
    match repository_of(vfs, packs)? {
        Some(owners) => Ok((Format { owners }, true)),
        // Nothing shows what the format was.
        None => Err(error),
    }
}

fn with_companions(db: &Path) -> [PathBuf; 3] {
    [
        db.to_owned(),
        db.with_extension("db-wal"),
        db.with_extension("db-shm"),
    ]
}

fn remove_database(db: &Path) {
    for file in with_companions(db) {
        // Usually there is no such file. A worse error shows when the new file is made.
        let _ = std::fs::remove_file(file);
    }
}
