//! Rebuilding the databases from the packs.

use super::layout::{Format, Place, check_parts};
use super::{REFS_FILE, RepoError};
use crate::refs::{Operation, Refs, RefsError, newest_chain};
use crate::store::{LogPack, recover_store};
use crate::vfs::{Open, OsVfs, Vfs};
use std::path::{Path, PathBuf};

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
    /// Where the former database was put.
    pub former: Option<PathBuf>,
}

/// Rebuilds `refs.db` of the repository at `place` from its packs.
///
/// The former database, if any, is kept beside the new one. Packs only gain index records. The new
/// database takes its place in one rename: a crash before leaves everything as it was.
pub fn recover(place: &Place) -> Result<RecoverReport, RepoError> {
    recover_on(place, &OsVfs)
}

/// The same, with packs that lie in `vfs`.
pub fn recover_on(place: &Place, vfs: &dyn Vfs) -> Result<RecoverReport, RepoError> {
    let dmv = &place.dmv;
    check_parts(dmv)?;
    let format = Format::read(dmv)?;
    let packs = dmv.join("packs");
    let store = recover_store(vfs, &packs, format.id)?;
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
