//! A repository that is served by key, and whoever comes.

use dmv_core::hash::ObjectId;
use dmv_core::job::Job;
use dmv_core::repo::{
    Access, CheckoutOptions, CheckoutTarget, Peer, RefKind, RefUpdate, Refusal, Repo, VerifyDepth,
    discover,
};
use dmv_net::identity::DeviceKey;
use dmv_net::session::{Client, NetError};
use dmv_net::transport::quic::blocking::serve_repository;
use dmv_net::transport::quic::{Device, Limits, Listen, PeerAddress, ServeEvent, ServeOptions};
use dmv_net::transport::{Connection, Reach, Url, connect};
use dmv_net::wire::Code;
use dmv_tests::rng::Rng;
use dmv_tests::scratch::{asked, commit, fast_dir, files_of};
use std::error::Error;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread::JoinHandle;
use tempfile::TempDir;

type Done<T = ()> = Result<T, Box<dyn Error>>;

/// A repository with some commits, on one branch.
fn repository(seed: u64, files: usize, bytes: usize) -> Done<(TempDir, Repo)> {
    let dir = fast_dir()?;
    let repo = Repo::init(dir.path(), "main", false, asked("init"))?;
    let mut rng = Rng::new(seed);
    for n in 0..files {
        std::fs::write(dir.path().join(format!("f{n}")), rng.bytes(bytes))?;
    }
    if files > 0 {
        commit(&repo, "first")?;
    }
    Ok((dir, repo))
}

/// A served repository.
struct Server {
    dir: TempDir,
    repo: Repo,
    address: PeerAddress,
    job: Arc<Job>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    fn start(dir: TempDir, repo: Repo, read_only: bool) -> Done<Server> {
        let (say, ready) = channel();
        let options = ServeOptions {
            listen: Listen::loopback(),
            lan: false,
            label: String::new(),
            relays: Vec::new(),
            read_only,
            limits: Limits::default(),
            asked: Box::new(|peer| asked(&format!("push from {}", peer.name))),
            event: Box::new(move |event| {
                if let ServeEvent::Ready(at) = event {
                    let _ = say.send(at[0].clone());
                }
            }),
        };
        let job = Arc::new(Job::default());
        let (watched, place) = (job.clone(), discover(dir.path())?);
        let thread = std::thread::spawn(move || {
            serve_repository(&DeviceKey::generate(), &place, options, &watched)
                .expect("it can be served");
        });
        Ok(Server {
            address: ready.recv()?,
            dir,
            repo,
            job,
            thread: Some(thread),
        })
    }

    fn trust(&self, key: &DeviceKey, access: Access) -> Done {
        let peer = Peer {
            key: key.public(),
            name: "lap".into(),
            access,
        };
        self.repo.trust(&peer, asked("trust"))?;
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
        asked: asked("fetch"),
        ssh: Vec::new(),
        remote_program: String::new(),
        device: Some(Device {
            key: key.clone(),
            relays: Vec::new(),
        }),
    };
    connect(&Url::Quic(address.clone()), &reach)
}

/// Fetches everything and returns the first tip.
fn fetch(repo: &Repo, address: &PeerAddress, key: &DeviceKey) -> Result<ObjectId, NetError> {
    let mut connection = dial(address, key)?;
    let job = Job::default();
    let session = connection.take_link().and_then(|link| {
        let mut client = Client::connect(repo, link, &job)?;
        let tips: Vec<ObjectId> = client.offered.refs.iter().map(|(_, id)| *id).collect();
        client.fetch(&tips)?;
        repo.note_remote(
            "origin",
            &client.offered,
            &Default::default(),
            &asked("fetch"),
        )?;
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
    let update = RefUpdate {
        key: "branch/main".into(),
        old,
        new,
        force: false,
    };
    let session = connection.take_link().and_then(|link| {
        let mut client = Client::connect(repo, link, &job)?;
        let moved = client.push(&[update])?;
        client.finish(Vec::new());
        Ok(moved[0].refused)
    });
    session.map_err(|e| connection.explain(e))
}

fn is_sound(repo: &Repo) -> Done {
    let report = repo.verify(VerifyDepth::Full, &Job::default())?;
    assert!(report.is_ok(), "{report:?}");
    Ok(())
}

#[test]
fn a_trusted_peer_fetches_and_pushes() -> Done {
    let (dir, repo) = repository(1, 30, 100_000)?;
    let server = Server::start(dir, repo, false)?;
    let key = DeviceKey::generate();
    server.trust(&key, Access::Write)?;
    let (work, ours) = repository(2, 0, 0)?;
    let first = fetch(&ours, &server.address, &key)?;
    assert_eq!(files_of(&ours, &first)?, files_of(&server.repo, &first)?);
    is_sound(&ours)?;

    ours.create_ref(RefKind::Branch, "other", first, asked("branch"))?;
    let options = CheckoutOptions {
        subset: None,
        force: false,
        settings: Default::default(),
        asked: asked("checkout"),
    };
    let other = CheckoutTarget::Branch("other".into());
    ours.checkout(other, &options, &Job::default())?;
    std::fs::write(work.path().join("new"), "new\n")?;
    let second = commit(&ours, "second")?.commit.ok_or("a commit")?;
    let refused = push(&ours, &server.address, &key, Some(first), second)?;
    assert_eq!(refused, None);
    let there = Repo::open(server.dir.path())?;
    assert_eq!(there.resolve("main")?, second);
    is_sound(&there)?;
    let log = there.refs().operations(1)?;
    assert_eq!(log[0].command, "push from lap");
    Ok(())
}

#[test]
fn who_may_read_cannot_push_and_who_is_unknown_can_do_nothing() -> Done {
    let (dir, repo) = repository(3, 3, 1000)?;
    let server = Server::start(dir, repo, false)?;
    let (reader, stranger) = (DeviceKey::generate(), DeviceKey::generate());
    server.trust(&reader, Access::Read)?;
    let (_work, ours) = repository(4, 2, 1000)?;
    let tip = ours.resolve("main")?;
    let theirs = fetch(&ours, &server.address, &reader)?;
    let refused = push(&ours, &server.address, &reader, Some(theirs), tip)?;
    assert!(refused.is_some());

    let refused = fetch(&ours, &server.address, &stranger);
    assert!(
        matches!(refused, Err(NetError::NotLetIn { .. })),
        "{refused:?}"
    );
    assert_eq!(Repo::open(server.dir.path())?.resolve("main")?, theirs);

    // Off the list, on the other hand.
    server.repo.untrust(&reader.public(), asked("untrust"))?;
    let refused = fetch(&ours, &server.address, &reader);
    assert!(
        matches!(refused, Err(NetError::NotLetIn { .. })),
        "{refused:?}"
    );
    Ok(())
}

#[test]
fn a_server_that_only_gives_takes_nothing_from_anybody() -> Done {
    let (dir, repo) = repository(5, 3, 1000)?;
    let server = Server::start(dir, repo, true)?;
    let key = DeviceKey::generate();
    server.trust(&key, Access::Write)?;
    let (_work, ours) = repository(6, 2, 1000)?;
    let theirs = fetch(&ours, &server.address, &key)?;
    let tip = ours.resolve("main")?;
    assert!(push(&ours, &server.address, &key, Some(theirs), tip)?.is_some());
    Ok(())
}

#[test]
fn a_wrong_key_and_a_repository_that_is_gone_are_told_apart() -> Done {
    let (dir, repo) = repository(7, 2, 1000)?;
    let server = Server::start(dir, repo, false)?;
    let key = DeviceKey::generate();
    server.trust(&key, Access::Read)?;
    let (_work, ours) = repository(8, 0, 0)?;
    let mut wrong = server.address.clone();
    wrong.key = DeviceKey::generate().public();
    let refused = fetch(&ours, &wrong, &key);
    assert!(
        matches!(refused, Err(NetError::NotLetIn { .. })),
        "{refused:?}"
    );
    std::fs::remove_file(server.dir.path().join(".dmv/format"))?;
    let refused = fetch(&ours, &server.address, &key);
    assert!(
        matches!(
            refused,
            Err(NetError::Peer(Code::NoRepository | Code::Failed, _))
        ),
        "{refused:?}"
    );
    Ok(())
}

/// Local commits go on while many fetch, and all get a whole state.
#[test]
fn many_fetch_while_commits_are_made() -> Done {
    let (dir, repo) = repository(9, 20, 50_000)?;
    let server = Server::start(dir, repo, false)?;
    let keys: Vec<DeviceKey> = (0..8).map(|_| DeviceKey::generate()).collect();
    for key in &keys {
        server.trust(key, Access::Read)?;
    }
    let fetched: Vec<Result<(), String>> = std::thread::scope(|scope| {
        let one = |key: &DeviceKey| -> Done {
            let (_dir, ours) = repository(10, 0, 0)?;
            let tip = fetch(&ours, &server.address, key)?;
            files_of(&ours, &tip)?;
            is_sound(&ours)
        };
        let all: Vec<_> = keys
            .iter()
            .map(|key| scope.spawn(move || one(key).map_err(|e| e.to_string())))
            .collect();
        for n in 0..10 {
            std::fs::write(server.dir.path().join("changing"), format!("{n}\n")).expect("written");
            commit(&server.repo, "meanwhile").expect("a commit");
        }
        all.into_iter()
            .map(|one| one.join().expect("no panic"))
            .collect()
    });
    assert!(fetched.iter().all(Result::is_ok), "{fetched:?}");
    is_sound(&server.repo)
}
