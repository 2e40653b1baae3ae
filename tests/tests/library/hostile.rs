//! Hostile peers: a peer that breaks the protocol is disconnected and leaves no trace.

use dmv_core::hash::ObjectId;
use dmv_core::job::Job;
use dmv_core::object::ObjectType;
use dmv_core::object::tree::empty_tree_id;
use dmv_core::repo::{RefUpdate, Refusal};
use dmv_net::session::{Client, Link, NetError};
use dmv_net::sync::SyncError;
use dmv_net::wire::{Code, Frame, MAX_REFS, Message, Outcome, Refs, Update};
use dmv_tests::evil::{
    a_commit, client_hello, every_message, frames, is_left_by, is_protocol, meets, offering,
    one_object, pushed, pushes_to, served, served_at, server, server_hello, want, with,
};
use dmv_tests::peers::{Done, Place, connect, fetch, update};
use dmv_tests::scratch::request;
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
fn bytes_that_are_no_protocol_are_reported_with_what_they_say() -> Done {
    let ours = Place::new()?;
    let meets = |bytes: &[u8]| -> Done<NetError> {
        let ((down, mut to_us), (_up, to_them)) = (io::pipe()?, io::pipe()?);
        to_us.write_all(bytes)?;
        drop(to_us);
        let job = Job::default();
        let met = Client::connect(&ours.repo, Link::over(down, to_them)?, &job);
        Ok(met.err().ok_or("nonsense was believed")?)
    };
    assert!(matches!(meets(b"")?, NetError::Closed));
    assert!(matches!(meets(b"Welcome to nas!\n")?, NetError::NotDmv(text) if text.contains("nas")));
    assert!(matches!(meets(&[b'x'; 10_000])?, NetError::NotDmv(text) if text.len() <= 64));
    assert!(matches!(meets(b"dmv-sync 0\n")?, NetError::Version(_)));
    let line = b"dmv-sync 1\n".to_vec();
    // A length of zero, a length beyond all limits, an unknown kind, and an end in the middle.
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

/// The messages that a side accepts in one state. Any other message ends the connection.
struct State {
    name: &'static str,
    /// The frames that bring the other side into this state.
    before: Vec<Frame>,
    /// The numbers of the allowed messages, in the order of docs/protocol.md.
    allowed: &'static [usize],
    /// Whether objects are allowed.
    objects: bool,
}

const BYE: usize = 12;
const KEEP: usize = 14;
const NEED_PLAIN: usize = 24;

/// Sends every message in every state that does not allow it, and objects where they are not
/// allowed.
fn nothing_else_is_heard(states: Vec<State>, is_left: impl Fn(&str, &[Frame]) -> Done) -> Done {
    for state in &states {
        for message in every_message() {
            let Frame::Message(bytes) = message.frame() else {
                return Err("a message travels in a frame of its own kind".into());
            };
            // The first byte is the message's number.
            if !state.allowed.contains(&usize::from(bytes[0])) {
                let name = format!("{} and then {message:?}", state.name);
                is_left(&name, &with(state.before.clone(), [message.frame()]))?;
            }
        }
        if !state.objects {
            let name = format!("{} and then objects", state.name);
            let objects = [one_object(ObjectType::Chunk, b"unasked")];
            is_left(&name, &with(state.before.clone(), objects))?;
        }
    }
    Ok(())
}

fn state(name: &'static str, before: Vec<Frame>, allowed: &'static [usize]) -> State {
    State {
        name,
        before,
        allowed,
        objects: false,
    }
}

#[test]
fn a_server_hears_in_each_state_what_belongs_there_and_nothing_else() -> Done {
    let place = server()?;
    let tip = place.tip()?;
    let new = a_commit(empty_tree_id(), Vec::new(), 1);
    let push = Message::Push(vec![Update {
        key: "branch/other".into(),
        old: None,
        new: Some(*ObjectType::Commit.id_of(&new).as_bytes()),
        force: false,
    }]);
    let Message::Want(mut asks) = want(tip) else {
        return Err("it wants".into());
    };
    asks.last = false;
    let after = |messages: &[Message]| with(client_hello(), frames(messages));
    let pushing = with(after(&[push]), frames(&[Message::Common(Vec::new(), true)]));
    let states = vec![
        state("before a greeting", Vec::new(), &[0, BYE]),
        state("greeted", client_hello(), &[2, 10, BYE, KEEP]),
        state("naming haves", after(&[Message::Want(asks)]), &[3]),
        state("asking", after(&[want(tip)]), &[6, 9, NEED_PLAIN]),
        state(
            "fetched",
            after(&[want(tip), Message::Complete]),
            &[2, 10, BYE, KEEP],
        ),
        State {
            objects: true,
            ..state("giving unasked", pushing.clone(), &[5])
        },
        state("answering", with(pushing, [Message::End.frame()]), &[]),
    ];
    nothing_else_is_heard(states, |name, says| {
        let answers = served_at(&place, says)?;
        let told = answers.last();
        let is_told = matches!(told, Some(Message::Failed(Code::Protocol, _)));
        assert!(is_told, "{name}: {told:?}");
        Ok(())
    })
}

#[test]
fn a_client_hears_in_each_state_what_belongs_there_and_nothing_else() -> Done {
    let tip = ObjectId::from_bytes([7; 32]);
    let (hello, offer) = (frames(&server_hello()), frames(&offering(tip)));
    let offered = offer[..2].to_vec();
    let ended = with(offer.clone(), [Message::End.frame()]);
    let states = vec![
        state("before a greeting", Vec::new(), &[0]),
        state("greeted", hello, &[1]),
        state("naming haves", offered.clone(), &[4]),
        State {
            objects: true,
            ..state("taking unasked", offer, &[5])
        },
        state("taking answers", ended, &[]),
    ];
    nothing_else_is_heard(states, |name, says| {
        meets(says, is_protocol).map_err(|e| format!("{name}: {e}").into())
    })?;
    let Message::Want(mut asks) = want(pushed()?) else {
        return Err("it wants".into());
    };
    let wants = with(offered.clone(), [Message::Want(asks.clone()).frame()]);
    asks.last = false;
    let negotiates = with(offered.clone(), [Message::Want(asks).frame()]);
    let gave = with(wants.clone(), [Message::Complete.frame()]);
    let states = vec![
        state("pushing", offered, &[2, 11]),
        state("hearing haves", negotiates, &[3]),
        state("giving", wants, &[6, 9, NEED_PLAIN]),
        state("gave", gave, &[2, 11]),
    ];
    nothing_else_is_heard(states, |name, says| {
        pushes_to(says, is_protocol).map_err(|e| format!("{name}: {e}").into())
    })
}

#[test]
fn a_server_that_lies_about_refs_is_left() -> Done {
    let refs = |refs, more| {
        let head = None;
        Message::Refs(Refs { head, refs, more })
    };
    let some = |from: usize, n: usize| -> Vec<(String, [u8; 32])> {
        let name = |n| (format!("branch/b{n}"), [7; 32]);
        (from..from + n).map(name).collect()
    };
    let hello = frames(&server_hello());
    let pages = |n: usize, size: usize, more: bool| -> Vec<Frame> {
        let page = |p| refs(some(p * size, size), more || p + 1 < n).frame();
        (0..n).map(page).collect()
    };
    // The client accepts the greatest number of refs. It disconnects later, because the server is
    // silent.
    is_left_by(&with(hello.clone(), pages(64, 1024, false)))?;
    meets(&with(hello.clone(), pages(65, 1024, false)), is_protocol)?;
    meets(&with(hello.clone(), pages(1, 1025, false)), is_protocol)?;
    meets(
        &with(hello.clone(), [refs(Vec::new(), true).frame()]),
        is_protocol,
    )?;
    let long = vec![(format!("branch/{}", "x".repeat(1020)), [7; 32])];
    meets(
        &with(hello.clone(), [refs(long, false).frame()]),
        is_protocol,
    )?;
    let head = Message::Refs(Refs {
        head: Some("../../etc".into()),
        refs: Vec::new(),
        more: false,
    });
    meets(&with(hello, [head.frame()]), is_protocol)
}

#[test]
fn a_side_that_lies_about_what_it_has_gains_nothing() -> Done {
    let tip = ObjectId::from_bytes([7; 32]);
    let offered = frames(&offering(tip)[..2]);
    // The server claims that all commits are common, and sends nothing.
    let common = Message::Common(vec![[7; 32], [8; 32]], true);
    let absent = Message::Absent(vec![(5, [7; 32])]);
    let says = frames(&[common, Message::End, absent, Message::NeedEnd]);
    meets(&with(offered.clone(), says), |e| {
        matches!(
            e,
            NetError::Sync(SyncError::Absent { .. }) | NetError::Protocol(_)
        )
    })?;
    // The server asks for more haves forever.
    let more = Message::Common(Vec::new(), false);
    meets(&with(offered, frames(&vec![more; 17])), is_protocol)?;
    // The client names haves that do not exist, forever.
    let place = server()?;
    let Message::Want(mut asks) = want(place.tip()?) else {
        return Err("it wants".into());
    };
    asks.last = false;
    let haves = vec![Message::Have(vec![[1; 32]; 4096], false); 17];
    let says = with(client_hello(), [Message::Want(asks.clone()).frame()]);
    is_told(&place, &with(says, frames(&haves)), Code::Protocol)?;
    // More tips than a message may name, and a commit that is not offered.
    asks.tips = vec![*place.tip()?.as_bytes(); 4097];
    let says = [Message::Want(asks).frame()];
    is_told(&place, &with(client_hello(), says), Code::Protocol)?;
    let hidden = place.repo.read_commit(&place.tip()?)?.tree;
    let says = [want(hidden).frame()];
    is_told(&place, &with(client_hello(), says), Code::NotOffered)?;
    // Thousands of small requests for the same object are answered one after the other.
    let needs = vec![Message::Need(vec![(5, *place.tip()?.as_bytes())]); 5000];
    let says = with(client_hello(), [want(place.tip()?).frame()]);
    let says = with(with(says, frames(&needs)), [Message::End.frame()]);
    let answers = served_at(&place, &says)?;
    let ends = answers.iter().filter(|said| **said == Message::NeedEnd);
    assert_eq!(ends.count(), 5000);
    Ok(())
}

fn is_told(place: &Place, says: &[Frame], code: Code) -> Done {
    let answers = served_at(place, says)?;
    let told = answers.last();
    assert!(
        matches!(told, Some(Message::Failed(c, _)) if *c == code),
        "{told:?}"
    );
    Ok(())
}

#[test]
fn a_push_can_name_branches_and_tags_and_nothing_else() -> Done {
    let place = server()?;
    let (tip, tree) = (place.tip()?, place.repo.read_commit(&place.tip()?)?.tree);
    let update = |key: &str, new: ObjectId| Update {
        key: key.into(),
        old: None,
        new: Some(*new.as_bytes()),
        force: true,
    };
    let bad = [
        "",
        "branch/",
        "branch",
        "HEAD",
        "branch/../main",
        "branch/a b",
        "branch/-x",
        "branch/x\u{1b}[2J",
        "branch/x\0y",
        "remote/origin/main",
        "worktree/main/head",
        "worktree/main/base",
        "peer/8f",
        "subset/main",
        "config/ssh.command",
        "../config.toml",
        "tag/../branch/main",
    ];
    let push = Message::Push(bad.iter().map(|key| update(key, tip)).collect());
    let mut says = with(client_hello(), [push.frame()]);
    // A message that fails, so that the session ends.
    says.push(Message::End.frame());
    let answers = served_at(&place, &says)?;
    let refused = vec![Outcome::BadName; bad.len()];
    assert!(answers.contains(&Message::Pushed(refused)), "{answers:?}");
    // A ref that would not name a commit, a ref that is named twice, and too many updates.
    for updates in [
        vec![update("branch/x", tree)],
        vec![update("branch/x", tip), update("branch/x", tip)],
        vec![update("branch/x", tip); 1025],
    ] {
        let absent = Message::Absent(vec![(5, *tree.as_bytes())]);
        let says = [
            Message::Push(updates),
            Message::Common(Vec::new(), true),
            Message::End,
            absent,
            Message::NeedEnd,
        ];
        is_told(&place, &with(client_hello(), frames(&says)), Code::Protocol)?;
    }
    Ok(())
}

/// A push cannot delete a branch in use, a ref with unique commits, or a key that is not a branch
/// or tag.
#[test]
fn a_push_takes_away_no_more_than_it_may() -> Done {
    let place = server()?;
    let tip = place.tip()?;
    let job = Job::default();
    let name = |key: &str, old, new, force| RefUpdate {
        key: key.into(),
        old,
        new,
        force,
    };
    let make = |key: &str| name(key, None, Some(tip), false);
    let refused = |updates: &[RefUpdate]| -> Done<Vec<Option<Refusal>>> {
        let mut session = connect(&place.repo, &place, &job)?;
        let moved = session.push(updates)?;
        session.finish(Vec::new());
        Ok(moved.iter().map(|moved| moved.refused).collect())
    };
    let gone = |key: &str, force| name(key, Some(tip), None, force);
    // The repository is on main.
    for force in [false, true] {
        assert_eq!(
            refused(&[gone("branch/main", force)])?,
            [Some(Refusal::InUse)]
        );
    }
    refused(&[make("branch/a"), make("branch/b"), make("tag/t")])?;
    let other = ObjectId::from_bytes([7; 32]);
    let bad = [
        (
            name("branch/a", Some(other), None, true),
            Some(Refusal::Moved),
        ),
        (name("branch/a", None, None, true), Some(Refusal::BadName)),
        (
            name("worktree/main/head", Some(tip), None, true),
            Some(Refusal::BadName),
        ),
        // The ref does not exist, which is what the client wants.
        (name("branch/c", Some(tip), None, true), None),
    ];
    for (update, why) in bad {
        assert_eq!(refused(std::slice::from_ref(&update))?, [why], "{update:?}");
    }
    assert_eq!(place.again()?.offered()?.refs.len(), 4);
    assert_eq!(
        refused(&[gone("branch/a", false), gone("tag/t", false)])?,
        [None; 2]
    );
    assert_eq!(place.again()?.offered()?.refs.len(), 2);
    Ok(())
}

#[test]
fn a_repository_takes_no_more_refs_than_can_be_fetched() -> Done {
    let place = server()?;
    let tip = place.tip()?;
    let job = Job::default();
    let updates = |from: usize, n: usize| -> Vec<RefUpdate> {
        let one = |n| RefUpdate {
            key: format!("tag/t{n}"),
            ..update(None, tip, false)
        };
        (from..from + n).map(one).collect()
    };
    // One branch exists, and there is room for one more.
    place
        .repo
        .accept_push(&updates(0, MAX_REFS - 2), None, &request("push"))?;
    let mut session = connect(&place.repo, &place, &job)?;
    let moved = session.push(&updates(MAX_REFS, 2))?;
    assert_eq!(
        (moved[0].refused, moved[1].refused),
        (None, Some(Refusal::BadName))
    );
    assert_eq!(place.again()?.offered()?.refs.len(), MAX_REFS);
    session.finish(Vec::new());
    let ours = Place::new()?;
    fetch(&ours, &place)?;
    assert_eq!(ours.repo.resolve("origin/main")?, tip);
    Ok(())
}
