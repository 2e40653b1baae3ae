//! The operations in the log of a bucket.

use super::attempt_note::NotedOperation;
use super::client::BucketClient;
use super::error::PushError;
use crate::format::{Entry, Root};
use dmv_core::refs::Operation;
use std::collections::HashSet;
use std::ops::ControlFlow;

/// Pages of the log that are read at once, after the first one.
const PAGES: usize = 8;

/// Visits an operation, with whether it has been undone.
pub type Visit<'v> = &'v mut dyn FnMut(&Entry, bool) -> ControlFlow<()>;

/// Visits the operations in the log of a root, newest first.
pub fn each_operation(
    client: &mut BucketClient<'_>,
    root: &Root,
    visit: Visit<'_>,
) -> Result<(), PushError> {
    let mut undone: HashSet<u64> = HashSet::new();
    let mut visit = |entries: &[Entry]| {
        for entry in entries.iter().rev() {
            let operation = &entry.operation;
            let is_undone = undone.remove(&operation.seq);
            // The undo of an undo restores what the first undo reversed.
            if operation.undoes != 0 && !is_undone {
                undone.insert(operation.undoes);
            }
            if visit(entry, is_undone).is_break() {
                return true;
            }
        }
        false
    };
    if visit(&root.log) {
        return Ok(());
    }
    let mut left = &root.log_pages[..];
    let mut at_once = 1;
    while !left.is_empty() {
        let (older, now) = left.split_at(left.len().saturating_sub(at_once));
        let entries = client.log_pages(now).ok_or_else(|| client.failure())?;
        if visit(&entries) {
            return Ok(());
        }
        (left, at_once) = (older, PAGES);
    }
    Ok(())
}

/// Returns an operation whose end was unknown, if the log has it.
pub fn find_id(
    client: &mut BucketClient<'_>,
    root: &Root,
    noted: &NotedOperation,
) -> Result<Option<Operation>, PushError> {
    let mut found = None;
    each_operation(client, root, &mut |entry, _| {
        if entry.operation.id == noted.id {
            found = Some(entry.operation.clone());
        }
        if found.is_some() || entry.operation.seq <= noted.attempt.seq {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    })?;
    Ok(found)
}

/// Returns the operation with a number, if the log has it.
pub fn find(
    client: &mut BucketClient<'_>,
    root: &Root,
    seq: u64,
) -> Result<Option<Operation>, PushError> {
    let mut found = None;
    each_operation(client, root, &mut |entry, _| {
        let operation = &entry.operation;
        if operation.seq == seq {
            found = Some(operation.clone());
        }
        if operation.seq <= seq {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    })?;
    Ok(found)
}
