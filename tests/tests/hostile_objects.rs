//! Bad peers: objects that are not what they should be, too many of them, or without end.

use dmv_core::job::Job;
use dmv_core::object::ObjectType;
use dmv_core::object::tree::empty_tree_id;
use dmv_net::session::{Client, Link, NetError};
use dmv_net::sync::SyncError;
use dmv_net::wire::{Code, Frame, Message, Update};
use dmv_tests::evil::{
    a_commit, client_hello, frames, is_left_by, is_protocol, meets, offering, one_object, served,
    with,
};
use dmv_tests::peers::{Done, Place};

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
    is_left_by(&offer)?;
    is_left_by(&with(offer.clone(), [end.clone()]))?;
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
