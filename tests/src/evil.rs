//! Peers that do not keep to the protocol, and what they say.

use crate::peers::{Done, Place, serving, tips, update};
use dmv_core::hash::{ObjectId, check};
use dmv_core::job::Job;
use dmv_core::object::ObjectType;
use dmv_core::object::codec::put_varint;
use dmv_core::object::commit::{Commit, Person};
use dmv_core::repo::RefUpdate;
use dmv_net::session::{Client, Link, NetError};
use dmv_net::wire::{Access, Filter, Frame, Hello, Message, Refs, Unasked, Want, put_object};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

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
    left(says, LISTENS, check, |session| {
        session.fetch(&tips(&session.offered))
    })
}

/// The same with a server that has gone when it has said that.
pub fn is_left_by(says: &[Frame]) -> Done {
    let is_closed = |e: &NetError| matches!(e, NetError::Closed);
    left(says, Duration::ZERO, is_closed, |session| {
        session.fetch(&tips(&session.offered))
    })
}

/// How long a server that has said all listens. Then it goes.
const LISTENS: Duration = Duration::from_secs(3);

/// The same for a client that pushes its commit as `branch/other`.
pub fn pushes_to(says: &[Frame], check: impl Fn(&NetError) -> bool) -> Done {
    left(says, LISTENS, check, |session| {
        let update = RefUpdate {
            key: "branch/other".into(),
            ..update(None, pushed()?, false)
        };
        session.push(&[update]).map(drop)
    })
}

/// What [`pushes_to`] pushes.
pub fn pushed() -> Result<ObjectId, NetError> {
    static TIP: OnceLock<ObjectId> = OnceLock::new();
    let tip = || client().and_then(|place| place.tip());
    Ok(*TIP.get_or_init(|| tip().expect("it has a commit")))
}

fn client() -> Done<Place> {
    Place::with_files(9, 3, 100)
}

fn left(
    says: &[Frame],
    listens: Duration,
    check: impl Fn(&NetError) -> bool,
    session: impl FnOnce(&mut Client<'_>) -> Result<(), NetError>,
) -> Done {
    let ours = client()?;
    let before = (ours.objects()?, ours.repo.offered()?);
    let (link, mut evil) = Link::pair();
    let says = says.to_vec();
    let saying = std::thread::spawn(move || {
        let said = says.into_iter().try_for_each(|frame| evil.send(frame));
        let until = Arc::new(Job::default());
        let end = until.clone();
        std::thread::spawn(move || {
            std::thread::sleep(listens);
            end.cancel();
        });
        while said.is_ok() && evil.receive(&until).is_ok() {}
    });
    let job = Job::default();
    let met = Client::connect(&ours.repo, link, &job).and_then(|mut client| session(&mut client));
    saying.join().map_err(|_| "the server panicked")?;
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

/// A server with one commit meets a client that says just this. Returns what it answers; the last is
/// why it left.
pub fn served(says: &[Frame]) -> Done<Vec<Message>> {
    served_at(&server()?, says)
}

/// What [`served`] meets, if nobody else has it yet.
pub fn server() -> Done<Place> {
    Place::with_files(11, 3, 100)
}

/// Requests without an answer yet, at most: more of them, and two sides that both wait for room to
/// write would wait for ever.
const MAX_OPEN_NEEDS: usize = 12;

/// The same with the server of `place`.
pub fn served_at(place: &Place, says: &[Frame]) -> Done<Vec<Message>> {
    let before = (place.objects()?, place.repo.offered()?);
    let (mut evil, link) = Link::pair();
    let serving = serving(place, link, Access::Write)?;
    let mut answers = Vec::new();
    let job = Job::default();
    let mut says = says.iter();
    let mut open_needs = 0;
    let ended = loop {
        let frame = match open_needs < MAX_OPEN_NEEDS {
            true => says.next(),
            false => None,
        };
        let next = match frame.map(|frame| evil.send(frame.clone())) {
            Some(Ok(())) => evil.try_receive(),
            Some(Err(e)) => Err(e),
            None => evil.receive(&job).map(Some),
        };
        if let Some(Frame::Message(bytes)) = frame
            && matches!(Message::decode(bytes), Ok(Message::Need(_)))
        {
            open_needs += 1;
        }
        match next {
            Ok(Some(Frame::Message(bytes))) => {
                let message = Message::decode(&bytes)?;
                open_needs -= usize::from(message == Message::NeedEnd && open_needs > 0);
                answers.push(message);
            }
            Ok(_) => {}
            Err(NetError::Closed) if says.len() > 0 => says = [].iter(),
            Err(e) => break e,
        }
    };
    let NetError::Peer(code, why) = ended else {
        return Err(ended.into());
    };
    answers.push(Message::Failed(code, why));
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

/// One message of every kind, in their order; but for [`Message::Failed`], which ends a connection,
/// and [`Message::Working`], which has its place everywhere.
pub fn every_message() -> Vec<Message> {
    let id = [7; 32];
    let mut all = server_hello();
    all.extend([
        Message::Refs(Refs {
            head: None,
            refs: Vec::new(),
            more: false,
        }),
        want(ObjectId::from_bytes(id)),
        Message::Have(vec![id], false),
        Message::Common(Vec::new(), true),
        Message::End,
        Message::Need(vec![(1, id)]),
        Message::Absent(vec![(1, id)]),
        Message::NeedEnd,
        Message::Complete,
        Message::Push(Vec::new()),
        Message::Pushed(Vec::new()),
        Message::Bye,
        Message::Keep(vec![(1, id)], true),
        Message::Unkept(Vec::new(), true),
        Message::Total(1),
    ]);
    all
}

/// A record of a pack with the header's check put right, whatever its fields say.
pub fn record(encoding: u8, lens: &[(ObjectType, u32)], raw_len: u32, payload: &[u8]) -> Frame {
    let mut table = Vec::new();
    for (ty, len) in lens {
        table.push(*ty as u8);
        put_varint(&mut table, u64::from(*len));
    }
    let mut head = b"DMVr".to_vec();
    head.extend([1, encoding]);
    head.extend((lens.len() as u16).to_le_bytes());
    head.extend(raw_len.to_le_bytes());
    head.extend((payload.len() as u32).to_le_bytes());
    head.extend((table.len() as u32).to_le_bytes());
    head.extend([0; 4]);
    let sum = check(&[&head, &table]);
    head.extend(sum);
    head.extend(table);
    head.extend(payload);
    head.extend(match encoding {
        0 => [0; 8],
        _ => check(&[payload]),
    });
    Frame::Record(head)
}

/// A zstd frame of `blocks` times 128 KiB of zeros, of 4 bytes each, that says it has `says` bytes.
pub fn zeros(blocks: usize, says: u32) -> Vec<u8> {
    // Magic, "single segment, a size of four bytes", the size (RFC 8878, 3.1.1).
    let mut frame = vec![0x28, 0xb5, 0x2f, 0xfd, 0xa0];
    frame.extend(says.to_le_bytes());
    for n in 1..=blocks {
        // A block that repeats one byte, and whether it is the last.
        let head = (128 << 10) << 3 | 1 << 1 | u32::from(n == blocks);
        frame.extend(&head.to_le_bytes()[..3]);
        frame.push(0);
    }
    frame
}
