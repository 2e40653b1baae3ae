//! The operation log, newest operation first.

use crate::hash::encode_hex;
use crate::refs::{Change, Operation};
use crate::repo::base::error::{RepoError, UndoError};
use crate::repo::base::keys::{CLAIMS_AT, notes_key, steps_key, worktree_of};
use crate::repo::base::notes::{Note, notes_in};
use crate::repo::base::record;
use crate::repo::base::repo::Repo;
use crate::repo::base::steps::Steps;
use std::collections::{BTreeMap, HashSet};
use std::ops::ControlFlow;

/// The number of operations read at a time.
const PAGE: usize = 256;

/// How many operations tell when remotes were last heard of.
const CONTACT_OPERATIONS: usize = 400;

/// The fewest hex digits that name an operation.
const MIN_PREFIX: usize = 4;

impl Repo {
    /// Visits operations, newest first, each with whether it has been undone.
    ///
    /// Some operations only announce that a command will overwrite files. These are skipped if the
    /// command has continued.
    pub fn each_operation(
        &self,
        visit: &mut dyn FnMut(Operation, bool) -> Result<ControlFlow<()>, RepoError>,
    ) -> Result<(), RepoError> {
        let mut undone: HashSet<u64> = HashSet::new();
        let mut before = None;
        loop {
            let page = self.refs.operations_before(before, PAGE)?;
            let Some(oldest) = page.last() else {
                return Ok(());
            };
            before = Some(oldest.seq);
            for operation in page {
                let is_undone = undone.remove(&operation.seq);
                // The undo of an undo restores what the first undo reversed.
                if operation.undoes != 0 && !is_undone {
                    undone.insert(operation.undoes);
                }
                if is_over(self, &operation)? {
                    continue;
                }
                if visit(operation, is_undone)?.is_break() {
                    return Ok(());
                }
            }
        }
    }

    /// Returns when each remote was last heard of, in seconds since 1970, as far as the newest operations
    /// tell.
    pub fn last_contacts(&self) -> Result<BTreeMap<String, i64>, RepoError> {
        let (mut contacts, mut n) = (BTreeMap::new(), 0);
        self.each_operation(&mut |operation, _| {
            n += 1;
            for change in &operation.changes {
                let of_branch = change.key.strip_prefix("remote/");
                let of_branch = of_branch.and_then(|key| Some(key.split_once('/')?.0));
                let of_claims = change.key.strip_prefix(CLAIMS_AT);
                let of_claims = of_claims.and_then(|key| Some(key.split_once('/')?.0));
                if let Some(name) = of_branch.or(of_claims) {
                    let time = operation.time.seconds;
                    contacts.entry(name.to_owned()).or_insert(time);
                }
            }
            Ok(match n {
                CONTACT_OPERATIONS.. => ControlFlow::Break(()),
                _ => ControlFlow::Continue(()),
            })
        })?;
        Ok(contacts)
    }
}

/// Returns the operation whose id begins with `prefix`.
///
/// Fails with [`UndoError::NoOperation`].
pub fn find_operation(repo: &Repo, prefix: &str) -> Result<Operation, RepoError> {
    let hex = prefix.to_ascii_lowercase();
    let is_prefix = hex.len() >= MIN_PREFIX && hex.bytes().all(|b| b.is_ascii_hexdigit());
    let mut found: Vec<Operation> = Vec::new();
    if is_prefix {
        repo.each_operation(&mut |operation, _| {
            if encode_hex(&operation.id).starts_with(&hex) {
                found.push(operation);
            }
            Ok(match found.len() {
                0 | 1 => ControlFlow::Continue(()),
                _ => ControlFlow::Break(()),
            })
        })?;
    }
    match (found.pop(), found.is_empty()) {
        (Some(one), true) => Ok(one),
        (found, _) => Err(UndoError::NoOperation {
            id: prefix.to_owned(),
            ambiguous: found.is_some(),
        }
        .into()),
    }
}

/// Returns whether an operation only announced what a command would overwrite, and the command has
/// continued. The command's result is an operation of its own.
fn is_over(repo: &Repo, operation: &Operation) -> Result<bool, RepoError> {
    if !is_intent(operation) {
        return Ok(false);
    }
    let change = &operation.changes[0];
    Ok(repo.refs.get(&change.key)? != change.new)
}

/// Returns whether an operation only announces what a command will overwrite.
pub fn is_intent(operation: &Operation) -> bool {
    let is_begun = |key: &str| key.starts_with("worktree/") && key.ends_with("/begun");
    matches!(&operation.changes[..], [only] if is_begun(&only.key))
}

impl Repo {
    /// Returns the steps that an operation has taken in a worktree; `None` if it names none.
    pub fn steps_of(&self, operation: &Operation) -> Result<Option<Steps>, RepoError> {
        let is_steps = |change: &&Change| {
            worktree_of(&change.key).is_some_and(|name| change.key == steps_key(name))
        };
        let change = operation.changes.iter().find(is_steps);
        match change.and_then(|change| Some((&change.key, change.new.as_deref()?))) {
            Some((key, value)) => Ok(Some(record::read(self, key, value)?)),
            None => Ok(None),
        }
    }

    /// Returns whether an operation has changed choices for conflicts that have no file.
    pub fn changes_choices(&self, operation: &Operation) -> Result<bool, RepoError> {
        for change in &operation.changes {
            if let Some(name) =
                worktree_of(&change.key).filter(|name| change.key == notes_key(name))
            {
                let [mut old, mut new] = [
                    notes_in(self, name, change.old.as_deref())?,
                    notes_in(self, name, change.new.as_deref())?,
                ];
                for notes in [&mut old, &mut new] {
                    notes.retain(|_, note| matches!(note, Note::Choice { .. }));
                }
                return Ok(old != new);
            }
        }
        Ok(false)
    }
}
