//! Peers that do not keep to the protocol, and what they say.

use crate::peers::{Done, Place, serving, tips};
use dmv_core::hash::ObjectId;
use dmv_core::job::Job;
use dmv_core::object::ObjectType;
use dmv_core::object::commit::{Commit, Person};
use dmv_net::session::{Client, Link, NetError};
use dmv_net::wire::{Access, Filter, Frame, Hello, Message, Refs, Unasked, Want, put_object};

/// The greeting of a server.
pub fn server_hello() -> Vec<Message> {
    vec![Message::Hello(Hello {
        agent: "evil".into(),
        repository: [0; 16],
        chunker: dmv_core::chunker::CHUNKER.into(),
        access: Access::Write,
        extensions: Vec::new(),
    })]
}

/// A server greets, offers one branch and begins to send.
pub fn offering(tip: ObjectId) -> Vec<Message> {
    let mut messages = server_hello();
    messages.push(Message::Refs(Refs {
        head: Some("main".into()),
        refs: vec![("branch/main".into(), *tip.as_bytes())],
        more: false,
    }));
    messages.push(Message::Common(Vec::new(), true));
    messages
}

/// A client with one commit meets a server that says just this, and then nothing.
pub fn meets(says: &[Frame], check: impl Fn(&NetError) -> bool) -> Done {
    let ours = Place::with_files(9, 3, 100)?;
    let before = (ours.objects()?, ours.repo.offered()?);
    let (link, mut evil) = Link::pair();
    for frame in says {
        evil.send(frame.clone())?;
    }
    let job = Job::default();
    let met = Client::connect(&ours.repo, link, &job).and_then(|mut session| {
        drop(evil);
        session.fetch(&tips(&session.offered))
    });
    let Err(e) = met else {
        return Err("a bad server was believed".into());
    };
    assert!(check(&e), "{e:?}");
    assert_eq!((ours.objects()?, ours.repo.offered()?), before, "{e}");
    assert!(ours.repo.refs().with_prefix("remote/")?.is_empty());
    ours.is_sound()
}

/// Messages as they are sent.
pub fn frames(messages: &[Message]) -> Vec<Frame> {
    messages.iter().map(Message::frame).collect()
}

/// What is said first, and what then.
pub fn with(mut before: Vec<Frame>, more: impl IntoIterator<Item = Frame>) -> Vec<Frame> {
    before.extend(more);
    before
}

/// Whether a failure is a breach of the protocol.
pub fn is_protocol(e: &NetError) -> bool {
    matches!(e, NetError::Protocol(_))
}

/// A frame with one object, whatever it is.
pub fn one_object(ty: ObjectType, bytes: &[u8]) -> Frame {
    let mut body = Vec::new();
    put_object(&mut body, ty, bytes);
    Frame::Objects(body)
}

/// A commit without anything but what must be.
pub fn a_commit(tree: ObjectId, parents: Vec<ObjectId>, generation: u64) -> Vec<u8> {
    let person = Person {
        name: String::new(),
        email: String::new(),
        seconds: 0,
        nanos: 0,
        tz_minutes: 0,
    };
    let commit = Commit {
        tree,
        tree_bytes: 0,
        tree_files: 0,
        parents,
        generation,
        author: person.clone(),
        committer: person,
        message: String::new(),
        extras: Vec::new(),
        signature: None,
    };
    commit.encode().expect("it is a commit")
}

/// A server with one commit meets a client that says just this.
pub fn served(says: &[Frame]) -> Done<Vec<Message>> {
    let place = Place::with_files(11, 3, 100)?;
    let before = (place.objects()?, place.repo.offered()?);
    let (mut evil, link) = Link::pair();
    let serving = serving(&place, link, Access::Write)?;
    for frame in says {
        evil.send(frame.clone())?;
    }
    let mut answers = Vec::new();
    let job = Job::default();
    let last = loop {
        match evil.hear(&job) {
            Ok(message) => answers.push(message),
            Err(NetError::Peer(code, why)) => break Message::Failed(code, why),
            Err(e) => return Err(e.into()),
        }
    };
    answers.push(last);
    drop(evil);
    let ended = serving.join().map_err(|_| "the server panicked")?;
    assert!(ended.is_err(), "a bad client was answered to the end");
    assert_eq!((place.objects()?, place.repo.offered()?), before);
    place.is_sound()?;
    Ok(answers)
}

/// The greeting of a client.
pub fn client_hello() -> Vec<Frame> {
    let Some(Message::Hello(hello)) = server_hello().pop() else {
        return Vec::new();
    };
    vec![Message::Hello(hello).frame()]
}

/// A clone of one commit.
pub fn want(tip: ObjectId) -> Message {
    Message::Want(Want {
        tips: vec![*tip.as_bytes()],
        filter: Filter::default(),
        unasked: Unasked::All,
        haves: Vec::new(),
        last: true,
        shallow: Vec::new(),
    })
}
