//! Garbage for tests: objects that nothing names, and what must never become garbage.

use crate::peers::Done;
use crate::scratch::asked;
use dmv_core::refs::{Change, Effect, NewOperation, Origin};
use dmv_core::repo::Repo;
use dmv_core::store::LogPack;
use dmv_core::vfs::{Open, OsVfs};

/// Sets keys of the view, and removes those without a value, in one operation that no command would
/// make.
pub fn set_keys(repo: &Repo, keys: &[(&str, Option<Vec<u8>>)]) -> Done<u64> {
    let store = repo.store();
    let log = LogPack::open(&OsVfs, store.packs_dir(), repo.id(), Open::Append)?;
    let mut changes = Vec::new();
    for (key, new) in keys {
        changes.push(Change {
            key: (*key).to_owned(),
            old: repo.refs().get(key)?,
            new: new.clone(),
        });
    }
    let asked = asked("set");
    let operation = NewOperation {
        time: asked.time,
        who: asked.who,
        command: asked.command,
        undoes: 0,
        origin: Origin {
            worktree: String::new(),
            effect: Effect::Kept,
        },
        changes,
        since: None,
    };
    Ok(repo.refs().publish(operation, &[], &[], &[], &log)?.seq)
}

/// Lets undo reach nothing that was done until now.
pub fn forget_operations(repo: &Repo) -> Done {
    let next = repo.refs().last_operation()? + 1;
    set_keys(repo, &[("log/from", Some(next.to_string().into_bytes()))])?;
    Ok(())
}
