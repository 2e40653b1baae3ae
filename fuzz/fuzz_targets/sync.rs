//! Both halves of the engine take any messages and objects in any order, or refuse them, and come
//! to an end.
#![no_main]

use dmv_core::hash::ObjectId;
use dmv_core::object::ObjectType;
use dmv_core::object::mem::MemObjects;
use dmv_net::sync::{Goal, Output, Receiver, Sender, SyncError};
use dmv_net::wire::{Message, objects};
use libfuzzer_sys::fuzz_target;

/// Outputs that one input may lead to.
const PATIENCE: usize = 10_000;

fuzz_target!(|data: &[u8]| {
    // The first object is the commit that is offered and wanted, if it is one.
    let mem = MemObjects::new();
    let mut parts = parts(data);
    let tip = match parts.next() {
        Some(first) if ObjectType::Commit.check(first).is_ok() => {
            mem.insert(ObjectType::Commit, first)
        }
        _ => ObjectId::from_bytes([7; 32]),
    };
    let parts: Vec<&[u8]> = parts.collect();
    let _ = send(&mem, tip, &parts);
    let goal = Goal {
        tips: vec![tip],
        empty: data.len().is_multiple_of(2),
        ..Goal::default()
    };
    let _ = receive(&MemObjects::new(), goal, &parts);
});

/// What lies between lengths of two bytes.
fn parts(data: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = data;
    std::iter::from_fn(move || {
        let (len, after) = rest.split_first_chunk::<2>()?;
        let len = usize::from(u16::from_le_bytes(*len)).min(after.len());
        let (part, after) = after.split_at(len);
        rest = after;
        Some(part)
    })
}

fn send(mem: &MemObjects, tip: ObjectId, parts: &[&[u8]]) -> Result<(), SyncError> {
    let mut sender = Sender::new([tip]);
    for message in parts.iter().filter_map(|part| Message::decode(part).ok()) {
        sender.handle(message, mem)?;
        for n in 0.. {
            assert!(n < PATIENCE, "it does not end");
            if matches!(sender.poll(mem)?, None | Some(Output::Done)) {
                break;
            }
        }
    }
    Ok(())
}

fn receive(mem: &MemObjects, goal: Goal, parts: &[&[u8]]) -> Result<(), SyncError> {
    let mut receiver = Receiver::new(goal, mem)?;
    for part in parts {
        match Message::decode(part) {
            Ok(message) => receiver.handle(message, mem)?,
            Err(_) => {
                for (ty, bytes) in objects(part).flatten() {
                    if ty.check(&bytes).is_err() {
                        return Ok(());
                    }
                    receiver.admit(ty, &ty.id_of(&bytes), bytes.len() as u64)?;
                    receiver.noted(1, bytes.len() as u64, true)?;
                    mem.insert(ty, &bytes);
                }
            }
        }
        for n in 0.. {
            assert!(n < PATIENCE, "it does not end");
            if matches!(receiver.poll(mem)?, None | Some(Output::Done)) {
                break;
            }
        }
    }
    Ok(())
}
