//! Compares `refs.db` with the log pack and the packs, from which it can be rebuilt.

use crate::refs::{Operation, RefsError, view_of};
use crate::repo::base::error::{BusyError, RepoError};
use crate::repo::base::head::Head;
use crate::repo::base::keys::head_key;
use crate::repo::base::layout::MAIN;
use crate::repo::base::level::{catch_up, decoded, open_log};
use crate::repo::base::repo::Repo;
use crate::store::{IndexId, PackId, PackKind, PackRow, SegmentRow};
use crate::vfs::OpenMode;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// Checks that the log pack exists and is at least as long as the database says.
///
/// A running command may have written an operation that it has not committed yet. So any further
/// operations are examined while this check holds the database lock, and applied as any other
/// command would do.
pub fn check_log(repo: &Repo, found: &mut Vec<String>) -> Result<(), RepoError> {
    let known = repo.refs.log_position()?.log_end;
    let log = match open_log(&repo.store, OpenMode::Read) {
        Err(RepoError::Refs(e @ RefsError::LogBehind(_))) => {
            found.push(said(&e));
            return Ok(());
        }
        log => log?,
    };
    if !log.is_header_intact()? {
        found.push("the operation log's header is damaged".into());
    }
    // The database was read first, so it never knows more than the log pack has.
    let Some(known) = known else {
        return Ok(());
    };
    if log.len()? < known {
        let path = log.path().to_owned();
        found.push(said(&RefsError::LogBehind(path)));
        return Ok(());
    }
    if log.len()? == known || repo.refs.is_read_only() || repo.refs.is_copy() {
        return Ok(());
    }
    let lock = repo.refs.lock_database().map_err(RepoError::from);
    match lock.and_then(|lock| catch_up(&repo.store, &repo.refs, &lock)) {
        Err(RepoError::Refs(e)) if e.is_damage() => found.push(said(&e)),
        // A running command is no sign of damage. Operations that cannot be applied now wait for
        // the next command.
        Err(RepoError::Refs(RefsError::Busy(_)) | RepoError::Busy(BusyError::Freeing(_))) => {}
        Err(RepoError::Refs(RefsError::Disk { .. } | RefsError::Lock(_))) => {}
        Err(RepoError::Io(_)) => {}
        other => drop(other?),
    }
    Ok(())
}

/// Checks that each worktree has a head. A repository is made with heads, and nothing removes them.
pub fn check_heads(repo: &Repo, found: &mut Vec<String>) -> Result<(), RepoError> {
    let view = repo.refs.with_prefix("worktree/")?;
    let mut names = BTreeSet::from([MAIN]);
    names.extend(view.iter().filter_map(|(key, _)| worktree_of(key)));
    for name in names {
        let key = head_key(name);
        let value = repo.refs.get(&key)?;
        if value.as_deref().and_then(Head::parse).is_none() {
            found.push(format!(
                "refs.db: {key} is missing or invalid, so the branch of this worktree is unknown"
            ));
        }
    }
    Ok(())
}

/// Returns the name of the worktree whose path is stored at `key`.
fn worktree_of(key: &str) -> Option<&str> {
    key.strip_prefix("worktree/")?.strip_suffix("/path")
}

fn said(e: &RefsError) -> String {
    e.to_string().replace("; nothing was changed", "")
}

/// Checks the database: its file, and its rows against the log pack and the packs.
pub fn check(repo: &Repo, found: &mut Vec<String>) -> Result<(), RepoError> {
    let before = found.len();
    let lines = repo.refs.integrity()?;
    found.extend(lines.into_iter().map(|line| format!("refs.db: {line}")));
    if found.len() > before {
        // The rows are unreliable, and may even be unreadable.
        return Ok(());
    }
    let rows = repo.refs.rows()?;
    let operations = check_operations(repo, &rows.operations, found)?;
    check_view(&operations, &rows.view, found);
    check_catalogue(repo, &rows.packs, &rows.segments, found);
    let used: HashSet<IndexId> = rows.indexes.iter().map(|row| row.id).collect();
    let lost = rows.merged.iter().filter(|id| !used.contains(id)).count();
    if lost > 0 {
        found.push(format!(
            "refs.db: {lost} segments count as merged into an index that is not listed"
        ));
    }
    Ok(())
}

/// Compares the database's operations with those in the log pack. Returns the database's
/// operations.
fn check_operations(
    repo: &Repo,
    records: &[(u64, Vec<u8>)],
    found: &mut Vec<String>,
) -> Result<Vec<Operation>, RepoError> {
    let mut operations = Vec::new();
    let mut previous = [0; 16];
    for (seq, record) in records {
        match Operation::decode(record) {
            Ok(op) if op.seq == *seq => {
                if op.previous != previous {
                    found.push(format!(
                        "refs.db: operation {seq} does not follow the one before"
                    ));
                }
                previous = op.id;
                operations.push(op);
            }
            _ => found.push(format!("refs.db: operation {seq} is invalid")),
        }
    }
    let Ok(log) = open_log(&repo.store, OpenMode::Read) else {
        // The report says so already.
        return Ok(operations);
    };
    // The log is read after the database, so it must contain every operation of the database.
    let logged = decoded(log.operations()?)?;
    let logged: HashMap<[u8; 16], &Operation> = logged.iter().map(|op| (op.id, op)).collect();
    let lacking = |op: &&Operation| logged.get(&op.id) != Some(op);
    let lost: Vec<u64> = operations.iter().filter(lacking).map(|op| op.seq).collect();
    if let Some(first) = lost.first() {
        let count = lost.len();
        found.push(format!(
            "{count} operations in refs.db are not in the operation log, or differ there, from number {first} on"
        ));
    }
    Ok(operations)
}

/// Compares the view with the result of all operations.
fn check_view(operations: &[Operation], view: &BTreeMap<String, Vec<u8>>, found: &mut Vec<String>) {
    let mut made = view_of(operations);
    for (key, value) in view {
        match made.remove(&**key) {
            Some(right) if right == &**value => {}
            Some(_) => found.push(format!(
                "refs.db: {key} is not what the last operation made it"
            )),
            None => found.push(format!("refs.db: no operation created {key}")),
        }
    }
    for key in made.keys() {
        found.push(format!("refs.db: {key} is missing"));
    }
}

/// Compares the catalogue with the packs.
fn check_catalogue(
    repo: &Repo,
    packs: &[PackRow],
    segments: &[SegmentRow],
    found: &mut Vec<String>,
) {
    let mut ends: BTreeMap<PackId, u64> = BTreeMap::new();
    let kinds: HashMap<PackId, PackKind> = packs.iter().map(|row| (row.id, row.kind)).collect();
    for row in segments {
        let end = ends.entry(row.pack).or_default();
        *end = row.end.max(*end);
        let kind = kinds.get(&row.pack);
        if kind.is_none() && repo.refs.pack(row.pack).is_ok_and(|now| now.is_none()) {
            found.push(format!(
                "refs.db: pack {} has segments and no row",
                row.pack
            ));
        }
        if kind.is_some_and(|kind| *kind != row.kind) || !repo.store.files().has_segment(row) {
            // A pack that another process has removed meanwhile is no damage.
            if repo.refs.pack(row.pack).is_ok_and(|now| now.is_some()) {
                let (pack, end) = (row.pack, row.end);
                found.push(format!(
                    "refs.db: pack {pack} has no such segment as the one that ends at {end}"
                ));
            }
        }
    }
    for row in packs {
        let end = ends.get(&row.id).copied();
        if end.is_some_and(|end| end != row.len) {
            found.push(format!(
                "refs.db: pack {} does not end at {}",
                row.id, row.len
            ));
        }
    }
}
