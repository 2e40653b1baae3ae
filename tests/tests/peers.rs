//! Peers through the library: whole sessions between repositories, cuts, and bad peers.

use dmv_core::hash::ObjectId;
use dmv_core::job::Job;
use dmv_core::object::ObjectType;
use dmv_core::object::commit::{Commit, Person};
use dmv_core::object::tree::empty_tree_id;
use dmv_core::repo::{Offered, RefUpdate, Refusal, Repo, VerifyDepth};
use dmv_net::session::{Client, Link, NetError, serve};
use dmv_net::sync::SyncError;
use dmv_net::wire::{
    Access, Code, Filter, Frame, Hello, Message, Outcome, Refs, Unasked, Update, Want, put_object,
};
use dmv_tests::rng::Rng;
use dmv_tests::scratch::{asked, commit, fast_dir, files_of};
use std::error::Error;
use std::io::{self, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use tempfile::TempDir;

type Done = Result<(), Box<dyn Error>>;

/// A repository with a directory of its own.
struct Place {
    dir: TempDir,
    repo: Repo,
}

impl Place {
    fn new() -> Result<Place, Box<dyn Error>> {
        let dir = fast_dir()?;
        let repo = Repo::init(dir.path(), "main", false, asked("init"))?;
        Ok(Place { dir, repo })
    }

    fn with_files(seed: u64, files: usize, bytes: usize) -> Result<Place, Box<dyn Error>> {
        let place = Place::new()?;
        let mut rng = Rng::new(seed);
        for n in 0..files {
            place.write(&format!("d{}/f{n}", n % 5), &rng.bytes(bytes))?;
        }
        place.commit("first")?;
        Ok(place)
    }

    fn write(&self, name: &str, content: &[u8]) -> io::Result<()> {
        let path = self.dir.path().join(name);
        std::fs::create_dir_all(path.parent().expect("files are in directories"))?;
        std::fs::write(path, content)
    }

    fn commit(&self, message: &str) -> Result<ObjectId, Box<dyn Error>> {
        let made = commit(&self.repo, message)?.commit;
        Ok(made.ok_or("nothing to commit")?)
    }

    fn tip(&self) -> Result<ObjectId, Box<dyn Error>> {
        Ok(self.repo.resolve("main")?)
    }

    fn again(&self) -> Result<Repo, Box<dyn Error>> {
        Ok(Repo::open(self.dir.path())?)
    }

    fn is_sound(&self) -> Done {
        let report = self.again()?.verify(VerifyDepth::Full, &Job::default())?;
        assert!(report.is_ok(), "{report:?}");
        Ok(())
    }

    fn objects(&self) -> Result<u64, Box<dyn Error>> {
        Ok(self.again()?.store().table_stats().1)
    }
}

fn serving(place: &Place, link: Link, access: Access) -> Result<JoinHandle<()>, Box<dyn Error>> {
    let repo = place.again()?;
    Ok(std::thread::spawn(move || {
        let _ = serve(
            &repo,
            link,
            access,
            &asked("push from a peer"),
            &Job::default(),
        );
    }))
}

/// A client of `server` on behalf of `client`, within this process.
fn connect<'r>(
    client: &'r Repo,
    server: &Place,
    job: &'r Job,
) -> Result<Client<'r>, Box<dyn Error>> {
    let (ours, theirs) = Link::pair();
    serving(server, theirs, Access::Write)?;
    Ok(Client::connect(client, ours, job)?)
}

fn tips(offered: &Offered) -> Vec<ObjectId> {
    offered.refs.iter().map(|(_, id)| *id).collect()
}

fn fetch(client: &Place, server: &Place) -> Result<u64, Box<dyn Error>> {
    let job = Job::default();
    let mut session = connect(&client.repo, server, &job)?;
    session.fetch(&tips(&session.offered))?;
    client.repo.note_remote(
        "origin",
        &session.offered,
        &Default::default(),
        &asked("fetch"),
    )?;
    Ok(session.finish(Vec::new()).traffic.round_trips)
}

fn update(old: Option<ObjectId>, new: ObjectId, force: bool) -> RefUpdate {
    RefUpdate {
        key: "branch/main".into(),
        old,
        new,
        force,
    }
}

#[test]
fn a_fetch_brings_all_and_the_next_only_what_is_new() -> Done {
    let (theirs, ours) = (Place::with_files(1, 40, 3000)?, Place::new()?);
    theirs.write("large", &Rng::new(2).bytes(3 << 20))?;
    let first = theirs.commit("large")?;
    assert!(fetch(&ours, &theirs)? <= 3);
    assert_eq!(ours.repo.resolve("origin/main")?, first);
    assert_eq!(
        files_of(&ours.repo, &first)?,
        files_of(&theirs.repo, &first)?
    );
    ours.is_sound()?;

    let mut large = Rng::new(2).bytes(3 << 20);
    large.splice(1_000_000..1_000_000, Rng::new(3).bytes(1000));
    theirs.write("large", &large)?;
    let second = theirs.commit("inserted")?;
    let job = Job::default();
    let mut session = connect(&ours.repo, &theirs, &job)?;
    session.fetch(&[second])?;
    let traffic = session.finish(Vec::new()).traffic;
    assert!(traffic.bytes_received < 600_000, "{traffic:?}");
    assert!(traffic.round_trips <= 4, "{traffic:?}");
    ours.repo.note_remote(
        "origin",
        &Offered {
            head: None,
            refs: vec![("branch/main".into(), second)],
        },
        &Default::default(),
        &asked("fetch"),
    )?;
    assert_eq!(
        files_of(&ours.repo, &second)?,
        files_of(&theirs.repo, &second)?
    );
    ours.is_sound()?;
    assert_eq!(fetch(&ours, &theirs)?, 1, "nothing new is one question");
    Ok(())
}

#[test]
fn a_push_moves_a_branch_forward_and_no_other_way() -> Done {
    let (server, one, two) = (Place::new()?, Place::with_files(4, 20, 900)?, Place::new()?);
    let job = Job::default();
    let base = one.tip()?;
    let mut session = connect(&one.repo, &server, &job)?;
    let moved = session.push(&[update(None, base, false)])?;
    assert_eq!(moved[0].refused, None);
    let traffic = session.finish(moved).traffic;
    assert!(
        traffic.round_trips <= 4 && traffic.objects_sent > 20,
        "{traffic:?}"
    );
    assert_eq!(server.tip()?, base);
    server.is_sound()?;

    // Both go on from there; the second to push has lost.
    fetch(&two, &server)?;
    two.repo.create_ref(
        dmv_core::repo::RefKind::Branch,
        "work",
        base,
        asked("branch"),
    )?;
    one.write("one", b"1")?;
    let first = one.commit("one")?;
    two.write("two", b"2")?;
    let second = two.commit("two")?;
    let push = |place: &Place, update| -> Result<Option<Refusal>, Box<dyn Error>> {
        let mut session = connect(&place.repo, &server, &job)?;
        Ok(session.push(&[update])?[0].refused)
    };
    assert_eq!(push(&one, update(Some(base), first, false))?, None);
    assert_eq!(
        push(&two, update(Some(base), second, false))?,
        Some(Refusal::Moved)
    );
    assert_eq!(
        push(&two, update(Some(first), second, false))?,
        Some(Refusal::NotForward)
    );
    assert_eq!(server.tip()?, first);
    assert_eq!(push(&two, update(Some(first), second, true))?, None);
    assert_eq!(server.tip()?, second);
    let bad = RefUpdate {
        key: "remote/../x".into(),
        ..update(None, first, true)
    };
    assert_eq!(push(&one, bad)?, Some(Refusal::BadName));
    server.is_sound()
}

#[test]
fn many_push_at_once_and_each_is_told_the_truth() -> Done {
    let server = Place::with_files(20, 5, 500)?;
    let base = server.tip()?;
    let mut pushing = Vec::new();
    for n in 0..4 {
        let (place, again) = (Place::new()?, server.again()?);
        pushing.push(std::thread::spawn(move || -> Result<usize, String> {
            let run = || -> Result<usize, Box<dyn Error>> {
                let job = Job::default();
                let (ours, theirs) = Link::pair();
                let asked_there = asked("push from a peer");
                let serving = std::thread::spawn(move || {
                    serve(&again, theirs, Access::Write, &asked_there, &Job::default())
                });
                let mut session = Client::connect(&place.repo, ours, &job)?;
                session.fetch(&[base])?;
                place
                    .repo
                    .note_remote("o", &session.offered, &Default::default(), &asked("x"))?;
                place.write(&format!("f{n}"), &Rng::new(n).bytes(100_000))?;
                let tip = place.commit("mine")?;
                let own = RefUpdate {
                    key: format!("branch/own{n}"),
                    ..update(None, tip, false)
                };
                let moved = session.push(&[own, update(Some(base), tip, true)])?;
                session.finish(Vec::new());
                drop(serving.join());
                assert_eq!(moved[0].refused, None);
                Ok(usize::from(moved[1].refused.is_none()))
            };
            run().map_err(|e| e.to_string())
        }));
    }
    let mut won = 0;
    for thread in pushing {
        won += thread.join().map_err(|_| "a pusher panicked")??;
    }
    assert_eq!(
        won, 1,
        "one of them moved the branch, the others were told that they did not"
    );
    let refs = server.again()?.offered()?.refs;
    assert_eq!(refs.len(), 5, "{refs:?}");
    server.is_sound()
}

#[test]
fn who_may_only_read_moves_nothing() -> Done {
    let (server, client) = (Place::new()?, Place::with_files(5, 3, 100)?);
    let job = Job::default();
    let (ours, theirs) = Link::pair();
    serving(&server, theirs, Access::Read)?;
    let mut session = Client::connect(&client.repo, ours, &job)?;
    assert!(!session.may_push());
    let moved = session.push(&[update(None, client.tip()?, true)])?;
    assert_eq!(moved[0].refused, Some(Refusal::BadName));
    assert_eq!(server.objects()?, 0);
    assert!(server.repo.offered()?.refs.is_empty());
    Ok(())
}

/// Lets some bytes through and then ends.
struct Cut<R> {
    inner: R,
    left: u64,
    passed: Arc<AtomicU64>,
}

impl<R: Read> Read for Cut<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let len = (buf.len() as u64).min(self.left) as usize;
        let n = self.inner.read(&mut buf[..len])?;
        self.left -= n as u64;
        self.passed.fetch_add(n as u64, Ordering::Relaxed);
        Ok(n)
    }
}

#[test]
fn a_transfer_that_is_cut_again_and_again_ends_and_repeats_little() -> Done {
    cut_again_and_again(10 << 20, 600_000..3_000_000, 4)
}

#[test]
fn a_line_that_is_cut_within_every_frame_gets_on() -> Done {
    cut_again_and_again(6 << 20, 100_000..500_000, 15)
}

/// Takes a minute or two.
#[test]
#[ignore]
fn a_thousand_cuts() -> Done {
    cut_again_and_again(200 << 20, 50_000..500_000, 600)
}

/// A transfer of some large file that is cut after so many bytes, over and over.
fn cut_again_and_again(large: usize, after: std::ops::Range<u64>, at_least: u64) -> Done {
    let theirs = Place::with_files(6, 60, 20_000)?;
    theirs.write("large", &Rng::new(7).bytes(large))?;
    let tip = theirs.commit("large")?;
    let whole = {
        let fresh = Place::new()?;
        let job = Job::default();
        let mut session = connect(&fresh.repo, &theirs, &job)?;
        session.fetch(&[tip])?;
        session.finish(Vec::new()).traffic.bytes_received
    };
    let ours = Place::new()?;
    let mut rng = Rng::new(8);
    let (passed, mut cuts) = (Arc::new(AtomicU64::new(0)), 0);
    loop {
        let ((down, to_us), (up, to_them)) = (io::pipe()?, io::pipe()?);
        serving(&theirs, Link::over(up, to_us), Access::Read)?;
        let down = Cut {
            inner: down,
            left: after.start + rng.below(after.end - after.start),
            passed: passed.clone(),
        };
        let job = Job::default();
        let done = Client::connect(&ours.repo, Link::over(down, to_them), &job)
            .and_then(|mut session| session.fetch(&[tip]));
        match done {
            Ok(()) => break,
            Err(NetError::Closed) => cuts += 1,
            Err(e) => return Err(e.into()),
        }
        assert!(cuts < 5000);
    }
    assert!(cuts >= at_least, "{cuts}");
    let offered = Offered {
        head: None,
        refs: vec![("branch/main".into(), tip)],
    };
    ours.repo
        .note_remote("origin", &offered, &Default::default(), &asked("fetch"))?;
    assert_eq!(files_of(&ours.repo, &tip)?, files_of(&theirs.repo, &tip)?);
    ours.is_sound()?;
    // A frame that was cut in its middle comes again, and the greeting and the commits.
    let frame = if after.end < 1_000_000 {
        300_000
    } else {
        1_200_000
    };
    let allowed = whole + whole / 100 + cuts * frame;
    let came = passed.load(Ordering::Relaxed);
    assert!(came <= allowed, "{came} of {whole} after {cuts} cuts");
    Ok(())
}

// ---- Bad peers.

fn server_hello() -> Vec<Message> {
    vec![Message::Hello(Hello {
        agent: "evil".into(),
        repository: [0; 16],
        chunker: dmv_core::chunker::CHUNKER.into(),
        access: Access::Write,
        extensions: Vec::new(),
    })]
}

fn offering(tip: ObjectId) -> Vec<Message> {
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
fn meets(says: &[Frame], check: impl Fn(&NetError) -> bool) -> Done {
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

fn frames(messages: &[Message]) -> Vec<Frame> {
    messages.iter().map(Message::frame).collect()
}

fn with(mut before: Vec<Frame>, more: impl IntoIterator<Item = Frame>) -> Vec<Frame> {
    before.extend(more);
    before
}

fn is_protocol(e: &NetError) -> bool {
    matches!(e, NetError::Protocol(_))
}

fn one_object(ty: ObjectType, bytes: &[u8]) -> Frame {
    let mut body = Vec::new();
    put_object(&mut body, ty, bytes);
    Frame::Objects(body)
}

fn a_commit(tree: ObjectId, parents: Vec<ObjectId>, generation: u64) -> Vec<u8> {
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

/// A server with one commit meets a client that says just this.
fn served(says: &[Frame]) -> Result<Vec<Message>, Box<dyn Error>> {
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
    serving.join().map_err(|_| "the server panicked")?;
    assert_eq!((place.objects()?, place.repo.offered()?), before);
    place.is_sound()?;
    Ok(answers)
}

fn client_hello() -> Vec<Frame> {
    let Some(Message::Hello(hello)) = server_hello().pop() else {
        return Vec::new();
    };
    vec![Message::Hello(hello).frame()]
}

fn want(tip: ObjectId) -> Message {
    Message::Want(Want {
        tips: vec![*tip.as_bytes()],
        filter: Filter::default(),
        unasked: Unasked::All,
        haves: Vec::new(),
        last: true,
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
    let meets = |bytes: &[u8]| -> Result<NetError, Box<dyn Error>> {
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
