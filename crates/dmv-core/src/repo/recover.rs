//! Rebuilding the databases from the packs.

use super::layout::{Format, Place, check_parts};
use super::{REFS_FILE, RepoError};
use crate::job::Job;
use crate::refs::{Operation, Refs, RefsError, newest_chain};
use crate::store::{LogPack, recover_store, repository_of};
use crate::vfs::{Open, OsVfs, Vfs};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

/// What was brought back.
#[derive(Debug, Default)]
pub struct RecoverReport {
    /// Branches, tags and other refs.
    pub refs: usize,
    /// Operations in the log.
    pub operations: usize,
    /// Packs scanned.
    pub packs: usize,
    /// Objects in intact indexes.
    pub objects: u64,
    /// Objects whose index was lost and that are indexed again.
    pub reindexed: u64,
    /// Stretches of packs that hold nothing intact: file, offset, bytes.
    pub garbage: Vec<(PathBuf, u64, u64)>,
    /// Files in `packs/` that belong to nobody here.
    pub foreign: Vec<PathBuf>,
    /// Whether the `format` file was lost or damaged, and was written anew.
    pub format: bool,
    /// Where the former database was put.
    pub former: Option<PathBuf>,
}

/// Rebuilds `refs.db` of the repository at `place` from its packs.
///
/// The former database, if any, is kept beside the new one. Packs only gain index records. The new
/// database takes its place in one rename: a crash before leaves everything as it was.
pub fn recover(place: &Place, job: &Job) -> Result<RecoverReport, RepoError> {
    recover_on(place, &OsVfs, job)
}

/// The same, with packs that lie in `vfs`.
pub fn recover_on(place: &Place, vfs: &dyn Vfs, job: &Job) -> Result<RecoverReport, RepoError> {
    let dmv = &place.dmv;
    check_parts(dmv)?;
    let packs = dmv.join("packs");
    let (format, is_lost) = read_or_rebuild(dmv, vfs, &packs)?;
    let store = recover_store(vfs, &packs, format.id, &mut |read, all| {
        job.progress.bytes.store(read, Ordering::Relaxed);
        job.progress.total_bytes.store(all, Ordering::Relaxed);
        !job.is_cancelled()
    })?;
    let log = LogPack::open(vfs, &packs, format.id, Open::Append)?;
    log.sync()?;
    let found = log.operations()?;
    let mut known = Vec::new();
    for bytes in &found {
        match Operation::decode(bytes) {
            Ok(operation) => known.push(operation),
            // Without it the view would be an older one than the user left.
            Err(e) if e.is_too_new() => return Err(RefsError::NewerOperation.into()),
            Err(_) => {}
        }
    }
    let operations = newest_chain(known);
    let mut report = RecoverReport {
        packs: store.catalogue.packs.len(),
        operations: operations.len(),
        objects: store
            .catalogue
            .segments
            .iter()
            .map(|s| u64::from(s.entries))
            .sum(),
        reindexed: store.reindexed,
        garbage: store.garbage,
        foreign: store.foreign,
        ..Default::default()
    };
    let fresh = dmv.join("recovering.db");
    remove_database(&fresh);
    let refs = Refs::create(&fresh)?;
    refs.restore(&store.catalogue, &operations)?;
    for prefix in ["branch/", "tag/", "remote/"] {
        report.refs += refs.with_prefix(prefix)?.len();
    }
    // Closing writes the log file back into the database, so that one file is all there is.
    drop(refs);
    let db = dmv.join(REFS_FILE);
    if db.exists() {
        let former = dmv.join("refs.former.db");
        remove_database(&former);
        for (from, to) in with_companions(&db)
            .into_iter()
            .zip(with_companions(&former))
        {
            rename_if_there(&from, &to)?;
        }
        report.former = Some(former);
    } else {
        remove_database(&db);
    }
    rename_if_there(&fresh, &db)?;
    if is_lost {
        // Last, as when a repository is made: without it this is none.
        format.write(dmv)?;
        report.format = true;
    }
    // The new database names no merged index; what lies there is nobody's.
    if let Ok(entries) = std::fs::read_dir(dmv.join("index")) {
        for entry in entries.flatten() {
            let _ = std::fs::remove_file(entry.path());
        }
    }
    let io = |source| RepoError::Io {
        action: "sync",
        path: dmv.clone(),
        source,
    };
    std::fs::File::open(dmv)
        .and_then(|dir| dir.sync_all())
        .map_err(io)?;
    Ok(report)
}

/// What the `format` file says, or would say if it were there and whole; and whether it is not.
fn read_or_rebuild(dmv: &Path, vfs: &dyn Vfs, packs: &Path) -> Result<(Format, bool), RepoError> {
    let error = match Format::read(dmv) {
        Ok(format) => return Ok((format, false)),
        Err(e @ RepoError::TooNew { .. }) => return Err(e),
        Err(RepoError::Io { source, .. }) if source.kind() != io::ErrorKind::NotFound => {
            let (action, path) = ("read", dmv.join("format"));
            return Err(RepoError::Io {
                action,
                path,
                source,
            });
        }
        Err(e) => e,
    };
    match repository_of(vfs, packs)? {
        Some(id) => Ok((Format { id }, true)),
        // Nothing tells what it was.
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
        // Nothing there is the usual case; anything worse shows when the new file is made.
        let _ = std::fs::remove_file(file);
    }
}

fn rename_if_there(from: &Path, to: &Path) -> Result<(), RepoError> {
    match std::fs::rename(from, to) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(RepoError::Io {
            action: "rename",
            path: from.to_owned(),
            source: e,
        }),
        _ => Ok(()),
    }
}
