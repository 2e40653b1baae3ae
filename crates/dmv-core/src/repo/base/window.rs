//! The window of the operation log: the operations that undo can reach.
//!
//! The objects that these operations name stay, as do those that the view names. What only older
//! operations name may be freed. The log still has the older operations, to be shown.

use crate::hash::encode_hex;
use crate::refs::Operation;
use crate::repo::base::error::{PlaceError, RepoError, UndoError};
use crate::repo::base::handle::Handle;
use crate::repo::base::keys::{
    LOG_EXPIRED, LOG_FROM, LOG_PURGED, LOG_UNKEPT, NamedObject, named_by,
};

/// How many operations are read at a time.
const PAGE: usize = 256;

/// Returns the number of the first operation in the window.
pub(in crate::repo) fn window_from(repo: &Handle) -> Result<u64, RepoError> {
    let Some(value) = repo.refs.get(LOG_FROM)? else {
        return Ok(0);
    };
    let text = std::str::from_utf8(&value).ok();
    let number = text.and_then(|text| text.parse().ok());
    number.ok_or_else(|| {
        RepoError::Place(PlaceError::Damaged {
            path: repo.refs.path().to_owned(),
            why: format!("{LOG_FROM} is invalid"),
        })
    })
}

/// Returns whether an operation shortened the window.
pub(in crate::repo) fn is_expiry(operation: &Operation) -> bool {
    operation
        .changes
        .iter()
        .any(|change| change.key == LOG_FROM)
}

/// Returns whether an operation gave up content. That does not come back by itself.
pub(in crate::repo) fn gave_up(operation: &Operation) -> bool {
    let mut keys = operation.changes.iter().map(|change| change.key.as_str());
    keys.any(|key| [LOG_FROM, LOG_EXPIRED, LOG_PURGED].contains(&key))
}

/// Returns whether an operation purged content.
pub(in crate::repo) fn purged(operation: &Operation) -> bool {
    let mut keys = operation.changes.iter().map(|change| change.key.as_str());
    keys.any(|key| key == LOG_PURGED)
}

/// The value of [`LOG_PURGED`] begins with this if purged content was allowed again.
pub(in crate::repo) const LIFTED: &str = "lifted";

/// Returns whether an operation allowed purged content to be stored again.
pub(in crate::repo) fn lifted(operation: &Operation) -> bool {
    let values = operation.changes.iter().filter(|c| c.key == LOG_PURGED);
    let mut values = values.filter_map(|change| change.new.as_deref());
    values.any(|value| value.starts_with(LIFTED.as_bytes()))
}

/// Returns how many files and bytes an operation overwrote that were too large to keep; `None` if it
/// kept everything.
pub(in crate::repo) fn unkept(operation: &Operation) -> Option<(u64, u64)> {
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
pub(in crate::repo) fn is_only_unkept(operation: &Operation) -> bool {
    let mut changes = operation.changes.iter();
    unkept(operation).is_some() && changes.all(|change| change.key == LOG_UNKEPT)
}

/// Fails with [`UndoError::Expired`] if undo cannot reach an operation any more.
pub(in crate::repo) fn check_reach(repo: &Handle, operation: &Operation) -> Result<(), RepoError> {
    let from = window_from(repo)?;
    if operation.seq >= from {
        return Ok(());
    }
    // The last one that let go of anything is in the window.
    let mut at = None;
    each_operation(repo, 0, &mut |later| {
        if at.is_none() && is_expiry(later) {
            at = Some(later.time);
        }
    })?;
    Err(UndoError::Expired {
        operation: encode_hex(&operation.id)[..12].to_owned(),
        at,
    }
    .into())
}

/// Visits the operations of the window with greater numbers than `after`, newest first.
pub(in crate::repo) fn each_operation(
    repo: &Handle,
    after: u64,
    visit: &mut dyn FnMut(&Operation),
) -> Result<(), RepoError> {
    let from = window_from(repo)?;
    each_after(repo, from.max(after.saturating_add(1)) - 1, visit)
}

/// Visits all operations with greater numbers than `after`, newest first, also those that have left
/// the window since.
pub(in crate::repo) fn each_after(
    repo: &Handle,
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
pub(in crate::repo) fn each_named_by(
    repo: &Handle,
    number: u64,
    visit: &mut dyn FnMut(NamedObject),
) -> Result<(), RepoError> {
    let found = repo.refs.operations_before(number.checked_add(1), 1)?;
    if let Some(operation) = found.first()
        && operation.seq == number
        && number >= window_from(repo)?
    {
        each_named(operation, visit);
    }
    Ok(())
}

/// Visits what an operation names, by old and new values. An object may be visited several times.
pub(in crate::repo) fn each_named(operation: &Operation, visit: &mut dyn FnMut(NamedObject)) {
    for change in &operation.changes {
        for value in change.old.iter().chain(&change.new) {
            named_by(&change.key, value)
                .into_iter()
                .for_each(&mut *visit);
        }
    }
}
