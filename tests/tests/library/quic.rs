//! A repository that is served by key, and its clients.

use dmv_core::hash::ObjectId;
use dmv_core::job::Job;
use dmv_core::repo::{
    Access, CheckoutOptions, CheckoutTarget, Peer, RefKind, Refusal, Repo, discover,
};
use dmv_net::identity::DeviceKey;
use dmv_net::session::{Client, NetError};
use dmv_net::transport::quic::blocking::serve_repository;
use dmv_net::transport::quic::{
    Device, Limits, ListenAddress, PeerAddress, ServeEvent, ServeOptions,
};
use dmv_net::transport::{Connection, Purpose, Reach, Url, connect};
use dmv_net::wire::Code;
use dmv_tests::peers::{Done, Place, tips, update};
use dmv_tests::scratch::{commit, files_of, request};
use std::io::{Write, stdout};
use std::sync::mpsc::channel;
use std::sync::{Arc, Barrier, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A served repository.
struct Server {
    place: Place,
    address: PeerAddress,
    job: Arc<Job>,
    /// How sessions ended.
    ended: Arc<Mutex<Vec<Result<u64, String>>>>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    fn start(place: Place, read_only: bool) -> Done<Server> {
        let (say, ready) = channel();
        let ended: Arc<Mutex<Vec<_>>> = Arc::default();
        let endings = ended.clone();
        let options = ServeOptions {
            listen: ListenAddress::loopback(),
            lan: false,
            label: String::new(),
            relays: Vec::new(),
            read_only,
            limits: Limits::default(),
            request: Box::new(|peer| request(&format!("push from {}", peer.name))),
            event: Box::new(move |event| {
                if let ServeEvent::Ready(at) = &event {
                    let _ = say.send(at[0].clone());
                }
                if let ServeEvent::Session(_, ended) = event {
                    let ended = ended.map(|served| served.traffic.objects_sent);
                    let mut endings = endings.lock().expect("it is whole");
                    endings.push(ended.map_err(|e| e.to_string()));
                }
            }),
        };
        let job = Arc::new(Job::default());
        let (watched, at) = (job.clone(), discover(place.dir.path())?);
        let thread = std::thread::spawn(move || {
            serve_repository(&DeviceKey::generate(), &at, options, &watched)
                .expect("it can be served");
        });
        Ok(Server {
            address: ready.recv()?,
            place,
            job,
            ended,
            thread: Some(thread),
        })
    }

    fn trust(&self, key: &DeviceKey, access: Access) -> Done {
        let peer = Peer {
            key: key.public(),
            name: "lap".into(),
            access,
        };
        self.place.repo.trust(&peer, request("trust"))?;
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.job.cancel();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn dial(address: &PeerAddress, key: &DeviceKey) -> Result<Connection, NetError> {
    let reach = Reach {
        purpose: Purpose::Write,
        device: Some(Device {
            key: key.clone(),
            relays: Vec::new(),
        }),
        ..Reach::new(request("fetch"))
    };
    connect(&Url::Quic(address.clone()), &reach)
}

/// Fetches everything and returns the first tip.
fn fetch(repo: &Repo, address: &PeerAddress, key: &DeviceKey) -> Result<ObjectId, NetError> {
    let mut connection = dial(address, key)?;
    let job = Job::default();
    let session = connection.take_link().and_then(|link| {
        let mut client = Client::connect(repo, link, &job)?;
        let tips = tips(&client.offered);
        client.fetch(&tips)?;
        let request = request("fetch");
        repo.note_remote("origin", &client.offered, &Default::default(), &request)?;
        client.finish(Vec::new());
        Ok(tips[0])
    });
    session.map_err(|e| connection.explain(e))
}

fn push(
    repo: &Repo,
    address: &PeerAddress,
    key: &DeviceKey,
    old: Option<ObjectId>,
    new: ObjectId,
) -> Result<Option<Refusal>, NetError> {
    let mut connection = dial(address, key)?;
    let job = Job::default();
    let session = connection.take_link().and_then(|link| {
        let mut client = Client::connect(repo, link, &job)?;
        let moved = client.push(&[update(old, new, false)])?;
        client.finish(Vec::new());
        Ok(moved[0].refused)
    });
    session.map_err(|e| connection.explain(e))
}

#[test]
fn a_trusted_peer_fetches_and_pushes() -> Done {
    let place = Place::with_files(1, 30, 100_000)?;
    let server = Server::start(place, false)?;
    let key = DeviceKey::generate();
    server.trust(&key, Access::Write)?;
    let ours = Place::new()?;
    let first = fetch(&ours.repo, &server.address, &key)?;
    assert_eq!(
        files_of(&ours.repo, &first)?,
        files_of(&server.place.repo, &first)?
    );
    ours.is_sound()?;

    ours.repo
        .create_ref(RefKind::Branch, "other", first, request("branch"))?;
    let options = CheckoutOptions {
        subset: None,
        force: false,
        settings: Default::default(),
        request: request("checkout"),
    };
    let other = CheckoutTarget::Branch("other".into());
    ours.repo.checkout(other, &options, &Job::default())?;
    ours.write("new", b"new\n")?;
    let second = ours.commit("second")?;
    let refused = push(&ours.repo, &server.address, &key, Some(first), second)?;
    assert_eq!(refused, None);
    let there = server.place.again()?;
    assert_eq!(there.resolve("main")?, second);
    server.place.is_sound()?;
    let log = there.refs().operations(1)?;
    assert_eq!(log[0].command, "push from lap");
    Ok(())
}

#[test]
fn a_client_that_has_finished_is_not_said_to_be_cut_off() -> Done {
    const FETCHES: usize = 20;
    let place = Place::with_files(7, 3, 1000)?;
    let server = Server::start(place, false)?;
    let key = DeviceKey::generate();
    server.trust(&key, Access::Read)?;
    for _ in 0..FETCHES {
        fetch(&Place::new()?.repo, &server.address, &key)?;
    }
    let ended = server.ended.clone();
    drop(server);
    let ended = ended.lock().expect("it is whole");
    let all = ended.iter().filter(|ended| matches!(ended, Ok(1..)));
    assert_eq!(all.count(), FETCHES, "{ended:?}");
    Ok(())
}

#[test]
fn who_may_read_cannot_push_and_who_is_unknown_can_do_nothing() -> Done {
    let place = Place::with_files(3, 3, 1000)?;
    let server = Server::start(place, false)?;
    let (reader, stranger) = (DeviceKey::generate(), DeviceKey::generate());
    server.trust(&reader, Access::Read)?;
    let ours = Place::with_files(4, 2, 1000)?;
    let tip = ours.tip()?;
    let theirs = fetch(&ours.repo, &server.address, &reader)?;
    let refused = push(&ours.repo, &server.address, &reader, Some(theirs), tip)?;
    assert!(refused.is_some());

    let refused = fetch(&ours.repo, &server.address, &stranger);
    assert!(
        matches!(refused, Err(NetError::NotLetIn { .. })),
        "{refused:?}"
    );
    assert_eq!(server.place.again()?.resolve("main")?, theirs);

    // A key that is removed from the allow-list is refused.
    server
        .place
        .repo
        .untrust(&reader.public(), request("untrust"))?;
    let refused = fetch(&ours.repo, &server.address, &reader);
    assert!(
        matches!(refused, Err(NetError::NotLetIn { .. })),
        "{refused:?}"
    );
    Ok(())
}

#[test]
fn a_server_that_only_gives_takes_nothing_from_anybody() -> Done {
    let place = Place::with_files(5, 3, 1000)?;
    let server = Server::start(place, true)?;
    let key = DeviceKey::generate();
    server.trust(&key, Access::Write)?;
    let ours = Place::with_files(6, 2, 1000)?;
    let theirs = fetch(&ours.repo, &server.address, &key)?;
    let tip = ours.tip()?;
    assert!(push(&ours.repo, &server.address, &key, Some(theirs), tip)?.is_some());
    Ok(())
}

#[test]
fn a_wrong_key_and_a_repository_that_is_gone_are_told_apart() -> Done {
    let place = Place::with_files(7, 2, 1000)?;
    let server = Server::start(place, false)?;
    let key = DeviceKey::generate();
    server.trust(&key, Access::Read)?;
    let ours = Place::new()?;
    let mut wrong = server.address.clone();
    wrong.key = DeviceKey::generate().public();
    let refused = fetch(&ours.repo, &wrong, &key);
    assert!(
        matches!(refused, Err(NetError::NotLetIn { .. })),
        "{refused:?}"
    );
    std::fs::remove_file(server.place.dir.path().join(".dmv/format"))?;
    let refused = fetch(&ours.repo, &server.address, &key);
    assert!(
        matches!(
            refused,
            Err(NetError::Peer(Code::NoRepository | Code::Failed, _))
        ),
        "{refused:?}"
    );
    Ok(())
}

#[test]
fn many_fetch_while_commits_are_made() -> Done {
    many_fetch(8, 20)
}

/// Takes about ten seconds and 2 GB of disk space.
#[test]
#[ignore]
fn fifty_fetch_while_commits_are_made() -> Done {
    many_fetch(50, 400)
}

/// Many clients fetch while this side commits. Each client must get a complete state, and none may
/// wait much longer than the others.
fn many_fetch(peers: usize, files: usize) -> Done {
    let place = Place::with_files(9, files, 50_000)?;
    let server = Server::start(place, false)?;
    let keys: Vec<DeviceKey> = (0..peers).map(|_| DeviceKey::generate()).collect();
    for key in &keys {
        server.trust(key, Access::Read)?;
    }
    let begun = Barrier::new(peers + 1);
    let fetched: Vec<Result<Duration, String>> = std::thread::scope(|scope| {
        let begun = &begun;
        let one = |key: &DeviceKey| -> Done<Duration> {
            let ours = Place::new();
            begun.wait();
            let start = Instant::now();
            let ours = ours?;
            let tip = fetch(&ours.repo, &server.address, key)?;
            let took = start.elapsed();
            files_of(&ours.repo, &tip)?;
            ours.is_sound()?;
            Ok(took)
        };
        let all: Vec<_> = keys
            .iter()
            .map(|key| scope.spawn(move || one(key).map_err(|e| e.to_string())))
            .collect();
        begun.wait();
        for n in 0..10 {
            std::fs::write(server.place.dir.path().join("changing"), format!("{n}\n"))
                .expect("written");
            commit(&server.place.repo, "meanwhile").expect("a commit");
        }
        all.into_iter()
            .map(|one| one.join().expect("no panic"))
            .collect()
    });
    assert!(fetched.iter().all(Result::is_ok), "{fetched:?}");
    let mut took: Vec<Duration> = fetched.into_iter().flatten().collect();
    took.sort_unstable();
    let (middle, last) = (took[peers / 2], took[peers - 1]);
    writeln!(stdout(), "half had it after {middle:?}, all after {last:?}")?;
    // Busy machines stretch short times.
    assert!(last < middle * 4 + Duration::from_secs(2), "{took:?}");
    server.place.is_sound()
}
