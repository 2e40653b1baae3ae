//! Small questions and answers over one connection: how many a second?
//!
//! ```sh
//! cargo run --release -p dmv-net --features quic --example exchanges
//! ```
//!
//! A client asks a server, one question after the other, whether it keeps a file. Each question waits
//! for the answer to the one before. The connections: a queue within the process, pipes as with ssh,
//! TCP on the loopback interface as the system sets it up (with Nagle's algorithm), and QUIC.
//!
//! A program that writes the head of a message and then its body waits 40 to 200 ms for each message
//! in TCP. The last line shows it: the same connection, with each write cut in two.

use dmv_core::job::Job;
use dmv_core::object::ObjectType;
use dmv_core::refs::Timestamp;
use dmv_core::repo::{Access as Right, CommitOptions, OperationRequest, Peer, Repo, Who, discover};
use dmv_core::worktree::select::Paths;
use dmv_net::identity::DeviceKey;
use dmv_net::session::{Client, Link, serve};
use dmv_net::transport::quic::blocking::serve_repository;
use dmv_net::transport::quic::{Device, Limits, ListenAddress, ServeEvent, ServeOptions};
use dmv_net::transport::{Reach, Url, connect};
use dmv_net::wire::Access;
use std::io::{self, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Instant;

type Outcome<T = ()> = Result<T, Box<dyn std::error::Error>>;

const QUESTIONS: usize = 20_000;
/// Questions over the connection that waits.
const SLOW_QUESTIONS: usize = 50;
/// Bytes of the first part of a write that is cut in two.
const HEAD_BYTES: usize = 5;

fn main() -> Outcome {
    let (server, client) = (tempfile::tempdir()?, tempfile::tempdir()?);
    let served = Repo::init(server.path(), "main", false, request("init"))?;
    let content = b"a small file";
    std::fs::write(server.path().join("small"), content)?;
    commit(&served)?;
    let ours = Repo::init(client.path(), "main", false, request("init"))?;
    let file = (ObjectType::Chunk, ObjectType::Chunk.id_of(content));

    let ask = |what: &str, link: Link, count: usize| -> Outcome {
        let job = Job::default();
        let mut session = Client::connect(&ours, link, &job)?;
        let started = Instant::now();
        for _ in 0..count {
            if !session.unkept(&[file])?.is_empty() {
                return Err("the server does not keep its file".into());
            }
        }
        let each = started.elapsed() / u32::try_from(count)?;
        let rate = 1.0 / each.as_secs_f64();
        session.finish(Vec::new());
        Ok(writeln!(
            io::stdout(),
            "| {what} | {rate:.0} | {each:.1?} |"
        )?)
    };
    writeln!(io::stdout(), "| connection | exchanges/s | each |")?;
    writeln!(io::stdout(), "|---|---:|---:|")?;

    let (near, far) = Link::pair();
    answer(server.path(), far);
    ask("within the process", near, QUESTIONS)?;

    let ((down, to_us), (up, to_them)) = (io::pipe()?, io::pipe()?);
    answer(server.path(), Link::over(up, to_us)?);
    ask("pipes", Link::over(down, to_them)?, QUESTIONS)?;

    let (near, far) = tcp()?;
    answer(server.path(), Link::over(far.try_clone()?, far)?);
    ask(
        "TCP, with Nagle's algorithm",
        Link::over(near.try_clone()?, near)?,
        QUESTIONS,
    )?;

    over_quic(&served, server.path(), |link| ask("QUIC", link, QUESTIONS))?;

    let (near, far) = tcp()?;
    answer(server.path(), Link::over(far.try_clone()?, InTwo(far))?);
    let near = Link::over(near.try_clone()?, InTwo(near))?;
    ask("TCP, each write cut in two", near, SLOW_QUESTIONS)
}

/// Answers a client on a thread.
fn answer(at: &Path, link: Link) {
    let at = at.to_owned();
    std::thread::spawn(move || {
        let repo = Repo::open(&at).expect("it was made above");
        // The client tells how a session that fails ended.
        let _ = serve(&repo, link, Access::Read, &request("push"), &Job::default());
    });
}

fn tcp() -> Outcome<(TcpStream, TcpStream)> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let near = TcpStream::connect(listener.local_addr()?)?;
    Ok((near, listener.accept()?.0))
}

/// Writes the first bytes by themselves, as a program does that sends a head and then a body.
struct InTwo(TcpStream);

impl Write for InTwo {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let (head, body) = bytes.split_at(bytes.len().min(HEAD_BYTES));
        self.0.write_all(head)?;
        self.0.write_all(body)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Serves the repository by key on the loopback interface while `client` uses a connection to it.
fn over_quic(served: &Repo, at: &Path, client: impl FnOnce(Link) -> Outcome) -> Outcome {
    let key = DeviceKey::generate();
    let peer = Peer {
        key: key.public(),
        name: "client".into(),
        access: Right::Read,
    };
    served.trust(&peer, request("trust"))?;
    let (say, ready) = channel();
    let options = ServeOptions {
        listen: ListenAddress::loopback(),
        lan: false,
        label: String::new(),
        relays: Vec::new(),
        read_only: true,
        limits: Limits::default(),
        request: Box::new(|_| request("push")),
        event: Box::new(move |event| {
            if let ServeEvent::Ready(at) = event {
                let _ = say.send(at[0].clone());
            }
        }),
    };
    let job = Arc::new(Job::default());
    let (watched, at) = (job.clone(), discover(at)?);
    let server = std::thread::spawn(move || {
        serve_repository(&DeviceKey::generate(), &at, options, &watched)
            .map(|_| ())
            .map_err(|e| e.to_string())
    });
    let reach = Reach {
        device: Some(Device {
            key,
            relays: Vec::new(),
        }),
        ..Reach::new(request("ask"))
    };
    let mut connection = connect(&Url::Quic(ready.recv()?), &reach)?;
    let done = client(connection.take_link()?);
    drop(connection);
    job.cancel();
    server.join().map_err(|_| "the server panicked")??;
    done
}

fn commit(repo: &Repo) -> Outcome {
    let options = CommitOptions {
        message: Some("a small file".to_owned()),
        author: None,
        date: None,
        committer: Who {
            name: "Bench".into(),
            email: String::new(),
        },
        select: &Paths::default(),
        amend: false,
        allow_empty: false,
        allow_markers: false,
        refuse_large: None,
        settings: Default::default(),
        request: request("commit"),
    };
    repo.commit(options, &Job::default())?;
    Ok(())
}

fn request(command: &str) -> OperationRequest {
    OperationRequest {
        time: Timestamp {
            seconds: 1_700_000_000,
            nanos: 0,
            tz_minutes: 0,
        },
        who: "bench".into(),
        command: command.into(),
    }
}
