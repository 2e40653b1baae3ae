//! Bad peers: what breaks the protocol ends the connection and leaves no trace.

use dmv_core::hash::ObjectId;
use dmv_core::job::Job;
use dmv_core::object::ObjectType;
use dmv_core::object::tree::empty_tree_id;
use dmv_net::session::{Client, Link, NetError};
use dmv_net::sync::SyncError;
use dmv_net::wire::{Code, Frame, Message, Outcome, Refs, Update};
use dmv_tests::evil::{
    a_commit, client_hello, frames, is_protocol, meets, offering, one_object, served, server_hello,
    want, with,
};
use dmv_tests::peers::{Done, Place};
use std::io::{self, Write};

#[test]
fn a_server_that_talks_nonsense_is_left() -> Done {
    let tip = ObjectId::from_bytes([7; 32]);
    meets(&[Frame::Message(vec![0xff; 40])], is_protocol)?;
    meets(&[Frame::Record(vec![0; 100])], is_protocol)?;
    meets(&frames(&[Message::End]), is_protocol)?;
    let mut strange = Message::Bye.frame();
    if let Frame::Message(bytes) = &mut strange {
        bytes.push(0);
    }
    meets(&[strange], is_protocol)?;
    for name in [
        "branch/../x",
        "branch/",
        "worktree/main/head",
        "tag/a b",
        "branch/-x",
    ] {
        let refs = vec![(name.to_owned(), *tip.as_bytes())];
        let page = Message::Refs(Refs {
            head: None,
            refs,
            more: false,
        });
        meets(&with(frames(&server_hello()), [page.frame()]), is_protocol)?;
    }
    let refused = Message::Failed(Code::Denied, "\u{1b}[2Jno".into());
    meets(&[refused.frame()], |e| {
        matches!(e, NetError::Peer(Code::Denied, _))
    })
}

#[test]
fn objects_that_are_not_what_they_should_be_leave_no_trace() -> Done {
    let good = a_commit(empty_tree_id(), Vec::new(), 1);
    let tip = ObjectType::Commit.id_of(&good);
    let offer = frames(&offering(tip));
    let nasty = {
        // A tree with the name "..": 1 entry, level 0.
        let mut bytes = vec![3, 1, 0, 1, 2];
        bytes.extend(b"..");
        bytes.extend([1, 0]);
        bytes.extend([0; 32]);
        bytes.push(0);
        bytes
    };
    let bad: Vec<Frame> = vec![
        one_object(ObjectType::Tree, &nasty),
        one_object(ObjectType::Commit, b"no commit"),
        one_object(ObjectType::Chunk, b"chunks come when asked for"),
        Frame::Objects(vec![9, 1, 0]),
        Frame::Objects(vec![1, 0xff, 0xff, 0xff, 0xff, 0x0f]),
        Frame::Record(vec![0; 64]),
        Frame::Record(b"DMVr".repeat(20)),
    ];
    for frame in bad {
        meets(&with(offer.clone(), [frame]), is_protocol)?;
    }
    // It ends before it has sent what it offered.
    let end = Message::End.frame();
    meets(&offer, |e| matches!(e, NetError::Closed))?;
    meets(&with(offer.clone(), [end.clone()]), |e| {
        matches!(e, NetError::Closed)
    })?;
    // An answer to what was not asked yet.
    let absent = Message::Absent(vec![(5, *tip.as_bytes())]).frame();
    meets(&with(offer, [end, absent]), is_protocol)
}

#[test]
fn a_history_that_cannot_be_is_not_believed() -> Done {
    // A generation that does not follow from the parent's; a parent that never comes; totals that
    // are not the tree's.
    let first = a_commit(empty_tree_id(), Vec::new(), 1);
    let wrong = a_commit(empty_tree_id(), vec![ObjectType::Commit.id_of(&first)], 9);
    let ours = Place::with_files(10, 3, 100)?;
    let tip = ObjectType::Commit.id_of(&wrong);
    let (link, mut evil) = Link::pair();
    for frame in frames(&offering(tip)) {
        evil.send(frame)?;
    }
    evil.send(one_object(ObjectType::Commit, &wrong))?;
    evil.send(one_object(ObjectType::Commit, &first))?;
    evil.send(Message::End.frame())?;
    let job = Job::default();
    let mut session = Client::connect(&ours.repo, link, &job)?;
    let fetched = session.fetch(&[tip]);
    assert!(
        matches!(fetched, Err(NetError::Sync(SyncError::Unfit(_)))),
        "{fetched:?}"
    );
    assert!(ours.repo.refs().with_prefix("remote/")?.is_empty());
    ours.is_sound()
}

#[test]
fn a_client_that_talks_nonsense_is_told_so_and_left() -> Done {
    let strange = ObjectId::from_bytes([9; 32]);
    let says: Vec<(Vec<Frame>, Code)> = vec![
        (vec![Frame::Message(vec![0xee; 9])], Code::Protocol),
        (vec![Frame::Objects(vec![1, 1, 1])], Code::Protocol),
        (vec![want(strange).frame()], Code::Protocol),
        (
            with(client_hello(), [want(strange).frame()]),
            Code::NotOffered,
        ),
        (with(client_hello(), [Message::End.frame()]), Code::Protocol),
        (
            with(client_hello(), [Message::Complete.frame()]),
            Code::Protocol,
        ),
        (
            with(client_hello(), [Message::Need(vec![(1, [0; 32])]).frame()]),
            Code::Protocol,
        ),
        (
            with(
                client_hello(),
                [Message::Pushed(vec![Outcome::Done]).frame()],
            ),
            Code::Protocol,
        ),
    ];
    for (frames, code) in says {
        let answers = served(&frames)?;
        let told = answers.last();
        assert!(
            matches!(told, Some(Message::Failed(c, _)) if *c == code),
            "{answers:?}"
        );
    }
    Ok(())
}

#[test]
fn a_push_without_its_objects_moves_nothing() -> Done {
    let good = a_commit(empty_tree_id(), Vec::new(), 1);
    let push = Message::Push(vec![Update {
        key: "branch/other".into(),
        old: None,
        new: Some(*ObjectType::Commit.id_of(&good).as_bytes()),
        force: true,
    }]);
    let begin = with(
        client_hello(),
        [push.frame(), Message::Common(Vec::new(), true).frame()],
    );
    // What the commit needs never comes; a chunk comes instead; what comes is no object.
    let absent = Message::Absent(vec![(5, *ObjectType::Commit.id_of(&good).as_bytes())]);
    let lacking = [
        Message::End.frame(),
        absent.frame(),
        Message::NeedEnd.frame(),
    ];
    let endings: Vec<Vec<Frame>> = vec![
        lacking.to_vec(),
        vec![one_object(ObjectType::Chunk, b"unasked")],
        vec![one_object(ObjectType::Tree, b"no tree")],
        vec![Message::Push(Vec::new()).frame()],
    ];
    for ending in endings {
        let answers = served(&with(begin.clone(), ending))?;
        let told = answers.last();
        assert!(
            matches!(told, Some(Message::Failed(Code::Protocol, _))),
            "{answers:?}"
        );
    }
    Ok(())
}

#[test]
fn bytes_that_are_no_protocol_are_reported_with_what_they_say() -> Done {
    let ours = Place::new()?;
    let meets = |bytes: &[u8]| -> Done<NetError> {
        let ((down, mut to_us), (_up, to_them)) = (io::pipe()?, io::pipe()?);
        to_us.write_all(bytes)?;
        drop(to_us);
        let job = Job::default();
        let met = Client::connect(&ours.repo, Link::over(down, to_them), &job);
        Ok(met.err().ok_or("nonsense was believed")?)
    };
    assert!(matches!(meets(b"")?, NetError::Closed));
    assert!(matches!(meets(b"Welcome to nas!\n")?, NetError::NotDmv(text) if text.contains("nas")));
    assert!(matches!(meets(&[b'x'; 10_000])?, NetError::NotDmv(text) if text.len() <= 64));
    assert!(matches!(meets(b"dmv-sync 0\n")?, NetError::Version(_)));
    let line = b"dmv-sync 1\n".to_vec();
    // A length of nothing, one beyond all bounds, an unknown kind, and an end in the middle.
    for (tail, cut) in [
        (vec![0, 0, 0, 0, 1], false),
        (vec![0xff, 0xff, 0xff, 0xff, 1], false),
        (vec![0xff, 0xff, 0xff, 0xff, 2], false),
        (vec![9, 0, 0, 0, 77], false),
        (vec![9, 0, 0], true),
        (vec![9, 0, 0, 0, 1, 5], true),
    ] {
        let e = meets(&[line.clone(), tail.clone()].concat())?;
        assert_eq!(matches!(e, NetError::Closed), cut, "{tail:?}: {e:?}");
        assert_eq!(is_protocol(&e), !cut, "{tail:?}: {e:?}");
    }
    Ok(())
}
