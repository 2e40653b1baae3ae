//! The window of the operation log: the operations that undo can reach.
//!
//! The objects that these operations name stay, as do those that the view names. What only older
//! operations name may be freed. The log still has the older operations, to be shown.

use crate::hash::encode_hex;
use crate::refs::Operation;
use crate::repo::base::error::{PlaceError, RepoError, UndoError};
use crate::repo::base::keys::{
    LOG_EXPIRED, LOG_FORGOTTEN, LOG_FROM, LOG_PURGED, LOG_UNKEPT, NamedObject, forgotten_key,
    is_about_claims_of_others, named_by,
};
use crate::repo::base::repo::Repo;
use std::collections::BTreeSet;

/// How many operations are read at a time.
const PAGE: usize = 256;

/// The operations that undo can reach, by number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UndoWindow {
    /// The first one.
    from: u64,
    /// Those after it that were forgotten.
    forgotten: BTreeSet<u64>,
}

impl UndoWindow {
    /// Returns whether undo can reach the operation with this number.
    pub fn has(&self, number: u64) -> bool {
        number >= self.from && !self.forgotten.contains(&number)
    }
}

impl Repo {
    /// Returns the operations that undo can reach.
    pub fn undo_window(&self) -> Result<UndoWindow, RepoError> {
        let from = window_from(self)?;
        let mut forgotten = BTreeSet::new();
        for (key, _) in self.refs.with_prefix(LOG_FORGOTTEN)? {
            forgotten.insert(number(self, &key, &key[LOG_FORGOTTEN.len()..])?);
        }
        Ok(UndoWindow { from, forgotten })
    }
}

/// Returns the number of the first operation in the window.
pub fn window_from(repo: &Repo) -> Result<u64, RepoError> {
    match repo.refs.get(LOG_FROM)? {
        Some(value) => number(repo, LOG_FROM, std::str::from_utf8(&value).unwrap_or("")),
        None => Ok(0),
    }
}

fn number(repo: &Repo, key: &str, text: &str) -> Result<u64, RepoError> {
    text.parse().map_err(|_| {
        RepoError::Place(PlaceError::Damaged {
            path: repo.refs.path().to_owned(),
            why: format!("{key} is invalid"),
        })
    })
}

/// Returns whether an operation took others out of the window.
pub fn is_expiry(operation: &Operation) -> bool {
    operation.changes.iter().any(|change| shortens(&change.key))
}

fn shortens(key: &str) -> bool {
    key == LOG_FROM || key.starts_with(LOG_FORGOTTEN)
}

/// Returns whether an operation gave up content. That does not come back by itself.
pub fn gave_up(operation: &Operation) -> bool {
    let mut keys = operation.changes.iter().map(|change| change.key.as_str());
    keys.any(|key| shortens(key) || [LOG_EXPIRED, LOG_PURGED].contains(&key))
}

/// Returns whether an operation purged content.
pub fn purged(operation: &Operation) -> bool {
    let mut keys = operation.changes.iter().map(|change| change.key.as_str());
    keys.any(|key| key == LOG_PURGED)
}

/// The value of [`LOG_PURGED`] begins with this if purged content was allowed again.
pub const LIFTED: &str = "lifted";

/// Returns whether an operation allowed purged content to be stored again.
pub fn lifted(operation: &Operation) -> bool {
    let values = operation.changes.iter().filter(|c| c.key == LOG_PURGED);
    let mut values = values.filter_map(|change| change.new.as_deref());
    values.any(|value| value.starts_with(LIFTED.as_bytes()))
}

/// Returns how many files and bytes an operation overwrote that were too large to keep; `None` if it
/// kept everything.
pub fn unkept(operation: &Operation) -> Option<(u64, u64)> {
    let mut changes = operation.changes.iter();
    let change = changes.find(|change| change.key == LOG_UNKEPT)?;
    let text = std::str::from_utf8(change.new.as_deref()?).ok()?;
    let mut numbers = text.split(' ').map(str::parse);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(files)), Some(Ok(bytes))) => Some((files, bytes)),
        _ => None,
    }
}

/// Returns whether all that an operation did was to overwrite files that were too large to keep. So
/// an undo of it could bring nothing back.
pub fn is_only_unkept(operation: &Operation) -> bool {
    let mut changes = operation.changes.iter();
    unkept(operation).is_some() && changes.all(|change| change.key == LOG_UNKEPT)
}

/// Returns whether an operation changed only what is known of others: remote branches and claims. An import also
/// notes that it was one, so it does not count.
pub fn is_about_others(repo: &Repo, operation: &Operation) -> bool {
    let is_of_others = |key: &str| {
        key.starts_with("remote/") || is_about_claims_of_others(key, repo.id.as_bytes())
    };
    operation.changes.iter().all(|c| is_of_others(&c.key))
}

/// Fails with [`UndoError::Expired`] if undo cannot reach an operation any more.
pub fn check_reach(repo: &Repo, operation: &Operation) -> Result<(), RepoError> {
    let window = repo.undo_window()?;
    if window.has(operation.seq) {
        return Ok(());
    }
    let (key, by) = if operation.seq < window.from {
        (LOG_FROM.to_owned(), "dmv op expire")
    } else {
        (forgotten_key(operation.seq), "dmv op forget")
    };
    // The last one that did it is in the window, unless it was given up as well.
    let mut at = None;
    each_operation(repo, 0, &mut |later| {
        if at.is_none() && later.changes.iter().any(|change| change.key == key) {
            at = Some(later.time);
        }
    })?;
    Err(UndoError::Expired {
        operation: encode_hex(&operation.id)[..12].to_owned(),
        by,
        at,
    }
    .into())
}

/// Visits the operations of the window with greater numbers than `after`, newest first.
pub fn each_operation(
    repo: &Repo,
    after: u64,
    visit: &mut dyn FnMut(&Operation),
) -> Result<(), RepoError> {
    let window = repo.undo_window()?;
    let after = window.from.max(after.saturating_add(1)) - 1;
    each_after(repo, after, &mut |operation| {
        if window.has(operation.seq) {
            visit(operation);
        }
    })
}

/// Visits all operations with greater numbers than `after`, newest first, also those that have left
/// the window since.
pub fn each_after(
    repo: &Repo,
    after: u64,
    visit: &mut dyn FnMut(&Operation),
) -> Result<(), RepoError> {
    let first = after.saturating_add(1);
    let mut before = None;
    loop {
        let page = repo.refs.operations_before(before, PAGE)?;
        let Some(oldest) = page.last() else {
            return Ok(());
        };
        let within = page.iter().take_while(|operation| operation.seq >= first);
        within.for_each(&mut *visit);
        if oldest.seq <= first {
            return Ok(());
        }
        before = Some(oldest.seq);
    }
}

/// Visits what the operation with a number names, if it is in the window.
pub fn each_named_by(
    repo: &Repo,
    number: u64,
    visit: &mut dyn FnMut(NamedObject),
) -> Result<(), RepoError> {
    let found = repo.refs.operations_before(number.checked_add(1), 1)?;
    if let Some(operation) = found.first()
        && operation.seq == number
        && repo.undo_window()?.has(number)
    {
        each_named(operation, visit);
    }
    Ok(())
}

/// Visits what an operation names, by old and new values. An object may be visited several times.
pub fn each_named(operation: &Operation, visit: &mut dyn FnMut(NamedObject)) {
    for change in &operation.changes {
        for value in change.old.iter().chain(&change.new) {
            named_by(&change.key, value)
                .into_iter()
                .for_each(&mut *visit);
        }
    }
}
