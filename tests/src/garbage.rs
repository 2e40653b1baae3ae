//! Garbage for tests: objects that nothing names, and what must never become garbage.

use crate::peers::Done;
use crate::scratch::request;
use dmv_core::hash::ObjectId;
use dmv_core::object::{ObjectRead, ObjectType};
use dmv_core::refs::testing;
use dmv_core::refs::{Change, Effect, NewOperation, Origin};
use dmv_core::repo::Repo;
use dmv_core::store::fuzzing::objects_of_pack;
use dmv_core::store::{CheckedRecord, LogPack};
use dmv_core::vfs::{OpenMode, OsVfs};
use std::collections::BTreeSet;

/// Sets keys of the view, and removes those without a value, in one operation that no command would
/// make.
pub fn set_keys(repo: &Repo, keys: &[(&str, Option<Vec<u8>>)]) -> Done<u64> {
    let store = repo.store();
    let log = LogPack::open(&OsVfs, store.packs_dir(), repo.id(), OpenMode::Append)?;
    let mut changes = Vec::new();
    for (key, new) in keys {
        changes.push(Change {
            key: (*key).to_owned(),
            old: repo.refs().get(key)?,
            new: new.clone(),
        });
    }
    let request = request("set");
    let operation = NewOperation {
        time: request.time,
        who: request.who,
        command: request.command,
        undoes: 0,
        origin: Origin {
            worktree: String::new(),
            effect: Effect::Kept,
        },
        changes,
        since: None,
    };
    Ok(testing::publish(repo.refs(), operation, &log)?.seq)
}

/// Lets undo reach nothing that was done until now.
pub fn forget_operations(repo: &Repo) -> Done {
    let next = repo.refs().last_operation()? + 1;
    set_keys(repo, &[("log/from", Some(next.to_string().into_bytes()))])?;
    Ok(())
}

/// Returns the objects that the view and the window of the operation log name, by a list of keys of
/// its own.
pub fn named(repo: &Repo) -> Done<Vec<(Option<ObjectType>, ObjectId)>> {
    let mut out = Vec::new();
    for (key, value) in repo.refs().with_prefix("")? {
        out.extend(named_by(&key, &value));
    }
    let from = repo.refs().get("log/from")?.unwrap_or_default();
    let from: u64 = String::from_utf8(from)?.parse().unwrap_or(0);
    for operation in repo.refs().operations(usize::MAX)? {
        if operation.seq >= from {
            for change in &operation.changes {
                for value in change.old.iter().chain(&change.new) {
                    out.extend(named_by(&change.key, value));
                }
            }
        }
    }
    Ok(out)
}

fn named_by(key: &str, value: &[u8]) -> Vec<(Option<ObjectType>, ObjectId)> {
    let hex = std::str::from_utf8(value).ok().and_then(ObjectId::from_hex);
    let (ids, rest) = value.as_chunks::<32>();
    if key.starts_with("peer/") || key == "log/from" {
        return Vec::new();
    }
    match (hex, ids, rest) {
        (Some(id), ..) => vec![(None, id)],
        (None, [_] | [_, _], []) => ids
            .iter()
            .map(|id| (None, ObjectId::from_bytes(*id)))
            .collect(),
        _ => Vec::new(),
    }
}

/// Returns everything that some objects need, by a plain walk with a set. Fails if something other
/// than a chunk is missing or damaged.
pub fn walk(repo: &Repo, roots: &[(Option<ObjectType>, ObjectId)]) -> Done<BTreeSet<ObjectId>> {
    let types = [
        ObjectType::Commit,
        ObjectType::Tree,
        ObjectType::List,
        ObjectType::Conflict,
    ];
    let mut seen = BTreeSet::new();
    let mut stack = Vec::new();
    for (ty, id) in roots {
        match ty {
            Some(ty) => stack.push((*ty, *id)),
            None => {
                for ty in types.into_iter().chain([ObjectType::Chunk]) {
                    if repo.store().holds(ty, id)? {
                        stack.push((ty, *id));
                    }
                }
            }
        }
    }
    while let Some((ty, id)) = stack.pop() {
        if seen.insert(id) && ty != ObjectType::Chunk {
            let bytes = repo.store().read(ty, &id)?;
            let bytes = bytes.ok_or_else(|| format!("{} {id} is missing", ty.word()))?;
            stack.extend(ty.links(&bytes)?);
        }
    }
    Ok(seen)
}

/// Returns the ids of all objects in the bytes of the packs, listed or not.
pub fn raw_objects(repo: &Repo) -> Done<BTreeSet<ObjectId>> {
    let mut out = BTreeSet::new();
    for entry in std::fs::read_dir(repo.store().packs_dir())? {
        let bytes = std::fs::read(entry?.path())?;
        for at in 0..bytes.len().saturating_sub(40) {
            if bytes[at..].starts_with(b"DMVr") && bytes[at + 4] == 1 {
                let number = |at: usize| {
                    let bytes = bytes[at..at + 4].try_into();
                    bytes.map_or(0, |bytes| u32::from_le_bytes(bytes) as usize)
                };
                let len = 32 + number(at + 16) + number(at + 12) + 8;
                let record = bytes.get(at..at + len).map(<[u8]>::to_vec);
                if let Some(Ok(record)) = record.map(CheckedRecord::new) {
                    out.extend(record.objects().iter().map(|object| object.id));
                }
            }
        }
        // Also those in frames with bases.
        out.extend(objects_of_pack(&bytes));
    }
    Ok(out)
}

/// Finds the frames with bases in a pack: their offsets, and the ids of their bases.
pub fn based_in(bytes: &[u8]) -> Done<Vec<(usize, Vec<ObjectId>)>> {
    let mut out = Vec::new();
    for at in 0..bytes.len().saturating_sub(33) {
        if bytes[at..].starts_with(b"DMVr") && bytes[at + 4..at + 6] == [1, 2] {
            let ids = bytes[at + 33..]
                .chunks_exact(32)
                .take(bytes[at + 32].into());
            let ids = ids.map(|id| Ok(ObjectId::from_bytes(id.try_into()?)));
            out.push((at, ids.collect::<Done<_>>()?));
        }
    }
    Ok(out)
}

/// Returns the objects that frames in the packs need to be decoded. They stay although nothing else needs
/// them.
pub fn bases(repo: &Repo) -> Done<BTreeSet<ObjectId>> {
    let mut out = BTreeSet::new();
    for entry in std::fs::read_dir(repo.store().packs_dir())? {
        let based = based_in(&std::fs::read(entry?.path())?)?;
        out.extend(based.into_iter().flat_map(|(_, ids)| ids));
    }
    Ok(out)
}
