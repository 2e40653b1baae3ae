//! Frames with bases that the receiver lacks.

use super::*;

#[test]
fn what_comes_in_frames_that_cannot_be_decoded_is_requested_once_more() -> Outcome {
    let mut dice = Rng::new(7);
    let mut there = Peer::default();
    there.commit("b0", 0, &mut dice)?;
    let old = there.refs["b0"].0;
    let ours = Peer::default();
    let mut plain = 0;
    for _ in 0..2 {
        let trouble = Trouble {
            lacks_bases: true,
            ..Trouble::default()
        };
        let tip = there.refs["b0"].0;
        let complete = if tip == old { vec![] } else { vec![old] };
        let goal = goal(&[tip], &complete, &ours.objects);
        let done = transfer(&there.objects, &ours.objects, goal, trouble, &mut dice)?;
        assert!(done.done);
        closure(&ours.objects, &[tip])?;
        plain += done.plain;
        there.commit("b0", 1, &mut dice)?;
    }
    assert!(plain > 0);
    Ok(())
}

/// The requests of a receiver that wants everything that a commit needs, or a part of the history.
fn requests(depth: u32) -> Result<Vec<Message>, SyncError> {
    let (from, to) = (MemObjects::default(), MemObjects::default());
    let files: Files = (0..100).map(|n| ((0, n), n)).collect();
    let tip = put_commit(&from, &[], &files, "many files")?;
    for (ty, id) in closure(&from, &[tip])? {
        if ty != ObjectType::Chunk {
            to.insert(ty, &from.require(ty, &id)?);
        }
    }
    // It has a complete commit, so that it requests chunks.
    let first = put_commit(&to, &[], &Files::new(), "first")?;
    let mut goal = goal(&[tip], &[first], &to);
    goal.filter.depth = depth;
    let mut receiver = Receiver::new(goal, &to)?.expecting_bases(true, true);
    receiver.handle(Message::Common(Vec::new(), true), &to)?;
    receiver.handle(Message::End, &to)?;
    let sent = sent(&mut receiver, &to)?;
    let is_need = |message: &Message| matches!(message, Message::Need(_) | Message::NeedPlain(_));
    Ok(sent.into_iter().filter(is_need).collect())
}

#[test]
fn who_wants_a_part_of_the_history_requests_no_frames_with_bases() -> Outcome {
    let is_plain = |message: &Message| matches!(message, Message::NeedPlain(_));
    let part = requests(1)?;
    assert!(!part.is_empty() && part.iter().all(is_plain), "{part:?}");
    let all = requests(0)?;
    assert!(!all.is_empty() && !all.iter().any(is_plain), "{all:?}");
    // The first answer may be in vain, so there is one request until it comes.
    assert_eq!(all.len(), 1);
    Ok(())
}

/// A receiver that has requested `asked` chunks, and whether its sender may send frames with bases.
fn asking(may_come: bool) -> Result<(Receiver, MemObjects, Vec<ObjectId>), SyncError> {
    asking_one(may_come, may_come)
}

/// The same for a sender that has such frames when the session begins, or not.
fn asking_one(
    may_come: bool,
    has_some: bool,
) -> Result<(Receiver, MemObjects, Vec<ObjectId>), SyncError> {
    let (from, to) = (MemObjects::default(), MemObjects::default());
    let files = Files::from([((0, 0), 39)]);
    let tip = put_commit(&from, &[], &files, "many chunks")?;
    let mut chunks = Vec::new();
    for (ty, id) in closure(&from, &[tip])? {
        match ty {
            ObjectType::Chunk => chunks.push(id),
            _ => drop(to.insert(ty, &from.require(ty, &id)?)),
        }
    }
    let goal = goal(&[tip], &[], &to);
    let mut receiver = Receiver::new(goal, &to)?.expecting_bases(may_come, has_some);
    receiver.handle(Message::Common(Vec::new(), true), &to)?;
    receiver.handle(Message::End, &to)?;
    // The first requests name few objects.
    while receiver.poll(&to)?.is_some() {}
    Ok((receiver, to, chunks))
}

/// Everything that waits to be sent.
fn sent(receiver: &mut Receiver, to: &MemObjects) -> Result<Vec<Message>, SyncError> {
    let mut out = Vec::new();
    while let Some(output) = receiver.poll(to)? {
        if let Output::Send(message) = output {
            out.push(message);
        }
    }
    Ok(out)
}

#[test]
fn a_sender_may_get_frames_with_bases_while_it_answers() -> Outcome {
    let (mut receiver, to, chunks) = asking_one(true, false)?;
    receiver.lacks_base(chunks.len() as u64, 16)?;
    let mut again = Vec::new();
    while again.is_empty() {
        receiver.handle(Message::NeedEnd, &to)?;
        again = sent(&mut receiver, &to)?;
    }
    let Message::NeedPlain(objects) = &again[0] else {
        return Err(SyncError::Broken("they are requested without such frames"));
    };
    assert_eq!((again.len(), objects.len()), (1, chunks.len()));
    Ok(())
}

#[test]
fn a_sender_cannot_hide_behind_frames_that_cannot_be_decoded() -> Outcome {
    // It does not say that it has such frames.
    let (mut receiver, ..) = asking(false)?;
    assert!(receiver.lacks_base(1, 16).is_err());
    // It leaves out more than was in them.
    let (mut receiver, to, chunks) = asking(true)?;
    receiver.lacks_base(chunks.len() as u64 - 1, 16)?;
    let mut answers = 0;
    let ended = loop {
        answers += 1;
        if let Err(e) = receiver.handle(Message::NeedEnd, &to) {
            break e;
        }
    };
    assert!(matches!(ended, SyncError::Broken(_)), "{answers}");
    // It sends something of what is to be requested once more before it is.
    let (mut receiver, to, chunks) = asking(true)?;
    receiver.lacks_base(chunks.len() as u64, 16)?;
    while receiver.handle(Message::NeedEnd, &to).is_ok() {}
    assert!(receiver.admit(ObjectType::Chunk, &chunks[0], 16).is_err());
    // It leaves out what was requested once more, or sends such a frame again.
    let (mut receiver, to, chunks) = asking(true)?;
    receiver.lacks_base(chunks.len() as u64, 16)?;
    while receiver.handle(Message::NeedEnd, &to).is_ok() && sent(&mut receiver, &to)?.is_empty() {}
    assert!(receiver.lacks_base(1, 16).is_err());
    assert!(receiver.handle(Message::NeedEnd, &to).is_err());
    // It sends them without end.
    let (mut receiver, ..) = asking(true)?;
    let mut frames = 0;
    while receiver.lacks_base(100, 2 << 20).is_ok() {
        frames += 1;
        assert!(frames < 1_000, "256 MiB are enough");
    }
    // What counts is its length as it came, so an honest sender may send differences from much.
    let (mut receiver, ..) = asking(true)?;
    for _ in 0..10_000 {
        receiver.lacks_base(30, 10_000)?;
    }
    Ok(())
}
