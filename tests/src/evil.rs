//! Peers that break the protocol, and the messages that they send.

use crate::peers::{Done, Place, serving, tips, update};
use dmv_core::hash::{ObjectId, check};
use dmv_core::job::Job;
use dmv_core::object::ObjectType;
use dmv_core::object::codec::put_varint;
use dmv_core::object::commit::{Commit, Person};
use dmv_core::repo::RefUpdate;
use dmv_net::session::{Client, Link, NetError};
use dmv_net::wire::{
    Access, Filter, Frame, Hello, Message, Refs, UnaskedObjects, Want, put_object,
};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Returns the Hello of a server.
pub fn server_hello() -> Vec<Message> {
    vec![Message::Hello(Hello {
        agent: "evil".into(),
        repository: [0; 16],
        chunker: dmv_core::chunker::CHUNKER.into(),
        access: Access::Write,
        extensions: Vec::new(),
    })]
}

/// Returns the messages of a server up to the start of a transfer: Hello, one branch, Common.
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

/// Connects a client with one commit to a server that sends exactly these frames and then nothing.
/// Checks the client's error, and that its repository is unchanged.
pub fn meets(says: &[Frame], check: impl Fn(&NetError) -> bool) -> Done {
    left(says, LISTENS, check, |session| {
        session.fetch(&tips(&session.offered))
    })
}

/// Does the same with a server that disconnects after these frames. The client must fail with
/// [`NetError::Closed`].
pub fn is_left_by(says: &[Frame]) -> Done {
    let is_closed = |e: &NetError| matches!(e, NetError::Closed);
    left(says, Duration::ZERO, is_closed, |session| {
        session.fetch(&tips(&session.offered))
    })
}

/// How long a server listens after its last frame. Then it disconnects.
/// Clients on a busy machine take seconds to come so far.
const LISTENS: Duration = Duration::from_secs(20);

/// Does the same as [`meets`] for a client that pushes its commit as `branch/other`.
pub fn pushes_to(says: &[Frame], check: impl Fn(&NetError) -> bool) -> Done {
    left(says, LISTENS, check, |session| {
        let update = RefUpdate {
            key: "branch/other".into(),
            ..update(None, pushed()?, false)
        };
        session.push(&[update]).map(drop)
    })
}

/// Returns the commit that [`pushes_to`] pushes.
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

/// Returns the frames that carry these messages.
pub fn frames(messages: &[Message]) -> Vec<Frame> {
    messages.iter().map(Message::frame).collect()
}

/// Appends frames.
pub fn with(mut before: Vec<Frame>, more: impl IntoIterator<Item = Frame>) -> Vec<Frame> {
    before.extend(more);
    before
}

/// Returns whether an error says that the peer broke the protocol.
pub fn is_protocol(e: &NetError) -> bool {
    matches!(e, NetError::Protocol(_))
}

/// Returns a frame with one object, valid or not.
pub fn one_object(ty: ObjectType, bytes: &[u8]) -> Frame {
    let mut body = Vec::new();
    put_object(&mut body, ty, bytes);
    Frame::Objects(body)
}

/// Returns a commit with empty optional fields.
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

/// Connects a server with one commit to a client that sends exactly these frames. Returns the
/// server's answers. The last one is why it disconnected.
pub fn served(says: &[Frame]) -> Done<Vec<Message>> {
    served_at(&server()?, says)
}

/// Makes the repository of [`served`].
pub fn server() -> Done<Place> {
    Place::with_files(11, 3, 100)
}

/// The maximum number of requests without an answer. With more of them, both sides might wait for
/// room to write, forever.
const MAX_OPEN_NEEDS: usize = 12;

/// Does the same as [`served`] with the repository in `place`.
pub fn served_at(place: &Place, says: &[Frame]) -> Done<Vec<Message>> {
    let before = (place.objects()?, place.repo.offered()?);
    let (mut evil, link) = Link::pair();
    let serving = serving(place, link, Access::Write)?;
    let mut answers = Vec::new();
    let job = Job::default();
    let mut says = says.iter();
    let mut open_needs = 0;
    let ended = loop {
        let frame = if open_needs < MAX_OPEN_NEEDS {
            says.next()
        } else {
            None
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

/// Returns the Hello of a client.
pub fn client_hello() -> Vec<Frame> {
    let Some(Message::Hello(hello)) = server_hello().pop() else {
        return Vec::new();
    };
    vec![Message::Hello(hello).frame()]
}

/// Returns the Want of a clone of one commit.
pub fn want(tip: ObjectId) -> Message {
    Message::Want(Want {
        tips: vec![*tip.as_bytes()],
        filter: Filter::default(),
        unasked: UnaskedObjects::All,
        haves: Vec::new(),
        last: true,
        shallow: Vec::new(),
    })
}

/// Returns one message of each type in their order, without two: [`Message::Failed`], which ends a
/// connection, and [`Message::Working`], which is allowed everywhere.
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
        Message::NeedPlain(vec![(1, id)]),
    ]);
    all
}

/// Returns a pack record with a correct header check, whatever its fields say.
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

/// Returns a zstd frame that decodes to `blocks` times 128 KiB of zeros, with 4 bytes for each. Its
/// header claims `says` bytes.
pub fn zeros(blocks: usize, says: u32) -> Vec<u8> {
    // Magic number, "single segment, 4-byte size", the size (RFC 8878, section 3.1.1).
    let mut frame = vec![0x28, 0xb5, 0x2f, 0xfd, 0xa0];
    frame.extend(says.to_le_bytes());
    for n in 1..=blocks {
        // A block that repeats one byte. One bit marks the last block.
        let head = (128 << 10) << 3 | 1 << 1 | u32::from(n == blocks);
        frame.extend(&head.to_le_bytes()[..3]);
        frame.push(0);
    }
    frame
}
