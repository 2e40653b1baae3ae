//! The files of a bucket: with a server that loses answers and cuts files, and with a real store
//! where one is installed.

use dmv_bucket::files::{FileFailure, Files};
use dmv_bucket::store::{Settings, Store};
use dmv_net::transport::BucketAddress;
use dmv_net::trouble::Trouble;
use dmv_random::skip;
use dmv_tests::server::{Server, go_program};
use std::error::Error;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

const KEY: &str = "AKIATESTKEY";
const SECRET: &str = "a5ecretThatNobodyMayRead";

/// Opens a place, with an environment that has keys and nothing else.
fn open(address: &str, endpoint: Option<&str>, patience: Duration) -> Outcome<(Store, Settings)> {
    let address = BucketAddress::parse(address).ok_or("no address")??;
    let mut settings = Settings::new(patience);
    settings.endpoint = endpoint.map(str::to_owned);
    let env = |name: &str| match name {
        "AWS_ACCESS_KEY_ID" => Some(KEY.to_owned()),
        "AWS_SECRET_ACCESS_KEY" => Some(SECRET.to_owned()),
        _ => None,
    };
    let store = Store::open_in(&address, &settings, &env)?;
    Ok((store, settings))
}

/// Serves one connection after another with these raw answers, and reports the first lines of the
/// requests. An empty answer ends the connection.
fn serve(answers: Vec<Vec<u8>>) -> Outcome<(String, Receiver<String>)> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let endpoint = format!("http://127.0.0.1:{}", listener.local_addr()?.port());
    let (told, lines) = channel();
    std::thread::spawn(move || {
        for answer in answers {
            let Ok((stream, _)) = listener.accept() else {
                return;
            };
            let Ok(line) = read_request(&stream) else {
                return;
            };
            // The test may have ended.
            let _ = told.send(line);
            let _ = (&stream).write_all(&closing(&answer));
            let _ = stream.shutdown(std::net::Shutdown::Both);
        }
    });
    Ok((endpoint, lines))
}

/// The same answer, which says that the connection ends. Otherwise the client may send its next request
/// over it.
fn closing(answer: &[u8]) -> Vec<u8> {
    match answer.split_inclusive(|byte| *byte == b'\n').next() {
        Some(status) => [status, b"connection: close\r\n", &answer[status.len()..]].concat(),
        None => Vec::new(),
    }
}

fn read_request(stream: &TcpStream) -> std::io::Result<String> {
    let mut reader = BufReader::new(stream);
    let (mut first, mut range, mut length) = (String::new(), String::new(), 0);
    reader.read_line(&mut first)?;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let line = line.trim().to_lowercase();
        if line.is_empty() {
            break;
        }
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap_or_default();
        } else if let Some(value) = line.strip_prefix("range:") {
            range = value.trim().to_owned();
        }
    }
    std::io::copy(&mut reader.take(length), &mut std::io::sink())?;
    Ok(format!("{} {range}", first.trim()).trim().to_owned())
}

/// An answer with a body, of which the header may promise more.
fn answer(status: &str, headers: &str, promised: usize, body: &[u8]) -> Vec<u8> {
    let head = format!("HTTP/1.1 {status}\r\n{headers}content-length: {promised}\r\n\r\n");
    [head.as_bytes(), body].concat()
}

#[test]
fn bulk_requests_are_repeated_and_counted_and_those_for_the_root_are_not() -> Outcome {
    let slow = answer("503 Slow Down", "", 0, b"");
    let good = answer("200 OK", "etag: \"1\"\r\n", 0, b"");
    let (endpoint, lines) = serve(vec![slow.clone(), Vec::new(), good.clone(), slow, good])?;
    let (store, settings) = open("s3://film/x", Some(&endpoint), Duration::from_secs(20))?;
    store
        .write("pack", vec![1; 1000])
        .map_err(|e| format!("{e:?}"))?;
    let counted = settings.counters.now();
    assert_eq!((counted.put, counted.retried), (3, 2));
    assert_eq!(counted.sent, 3000, "what was sent again was sent");
    let root = store.write_if("root", vec![2; 10], None);
    assert_eq!(root, Err(FileFailure::Trouble(Trouble::Busy)));
    assert_eq!(
        settings.counters.now().put,
        4,
        "a conditional write is sent once"
    );
    let lines: Vec<String> = lines.try_iter().collect();
    assert_eq!(lines.len(), 4, "{lines:?}");
    assert!(
        lines.iter().all(|line| line.starts_with("PUT /film/x/")),
        "{lines:?}"
    );
    Ok(())
}

#[test]
fn a_file_that_is_cut_is_read_on_and_a_short_one_is_found() -> Outcome {
    let part = |from: usize, to: usize, sent: &[u8]| {
        let range = format!(
            "etag: \"1\"\r\ncontent-range: bytes {from}-{}/100\r\n",
            to - 1
        );
        let headers = format!("{range}last-modified: Mon, 23 Nov 2026 06:00:00 GMT\r\n");
        answer("206 Partial", &headers, to - from, sent)
    };
    let bytes: Vec<u8> = (10..30).collect();
    let (endpoint, lines) = serve(vec![
        part(10, 30, &bytes[..8]),
        part(18, 30, &bytes[8..]),
        answer("416 Range", "", 0, b""),
        answer("404 Not Found", "", 0, b""),
    ])?;
    let (store, settings) = open("s3://film/x", Some(&endpoint), Duration::from_secs(20))?;
    assert_eq!(store.read_range("pack", 10..30), Ok(bytes));
    assert_eq!(
        (settings.counters.now().get, settings.counters.now().retried),
        (2, 1)
    );
    assert_eq!(store.read_range("pack", 200..300), Err(FileFailure::Length));
    assert_eq!(store.read_range("pack", 0..5), Err(FileFailure::Missing));
    assert_eq!(store.read_range("pack", 5..5), Ok(Vec::new()));
    let lines: Vec<String> = lines.try_iter().collect();
    assert_eq!(lines[0], "GET /film/x/pack HTTP/1.1 bytes=10-29");
    assert_eq!(lines[1], "GET /film/x/pack HTTP/1.1 bytes=18-29");
    Ok(())
}

#[test]
fn an_answer_that_names_no_file_does_not_mean_that_a_file_is_missing() -> Outcome {
    let unknown = b"<Error><Code>XAdminUserNotFound</Code></Error>";
    let refusal = || answer("404 Not Found", "", unknown.len(), unknown);
    let page = answer("404 Not Found", "content-type: text/html\r\n", 6, b"<html>");
    let (endpoint, _lines) = serve(vec![refusal(), refusal(), refusal(), refusal(), page])?;
    let (store, _) = open("s3://film/x", Some(&endpoint), Duration::from_secs(20))?;
    let names = ["a", "b"].map(str::to_owned);
    let refused = [
        store.read_whole("root", None).map(|_| ()),
        store.write_if("root", vec![1], None).map(|_| ()),
        store.delete_all(&names),
        store.delete_all(&names[..1]),
    ];
    for refused in refused {
        let is_keys = matches!(&refused, Err(FileFailure::Trouble(Trouble::Keys(_))));
        assert!(is_keys, "{refused:?}");
    }
    let page = store.read_range("pack", 0..5);
    assert_eq!(page, Err(FileFailure::Trouble(Trouble::Page)));
    Ok(())
}

#[test]
fn a_file_that_is_cut_for_good_is_a_lost_connection() -> Outcome {
    // Without the name of its state, the rest of a file is not asked for.
    let cut = answer("200 OK", "content-type: x\r\n", 100, b"short");
    let range = "content-range: bytes 0-99/100\r\n";
    let part = answer("206 Partial Content", range, 100, b"short");
    let (endpoint, lines) = serve(vec![cut, part])?;
    let (store, _) = open("s3://film/x", Some(&endpoint), Duration::from_secs(20))?;
    for done in [
        store.read_whole("root", None).map(|_| ()),
        store.read_range("pack", 0..100).map(|_| ()),
    ] {
        let is_cut = matches!(&done, Err(FileFailure::Trouble(Trouble::Cut(_))));
        assert!(is_cut, "{done:?}");
    }
    assert_eq!(lines.try_iter().count(), 2);
    Ok(())
}

#[test]
fn an_endpoint_may_have_a_path() -> Outcome {
    let none = b"<Error><Code>NoSuchBucket</Code></Error>";
    let none = answer("404 Not Found", "", none.len(), none);
    let (endpoint, lines) = serve(vec![none])?;
    let endpoint = format!("{endpoint}/s3/");
    let (store, settings) = open("s3://film/x", Some(&endpoint), Duration::from_secs(20))?;
    let root = store.read_whole("root", None).map(|_| ());
    assert_eq!(root, Err(FileFailure::Trouble(Trouble::NoBucket)));
    assert_eq!(settings.counters.now().get, 1);
    let lines: Vec<String> = lines.try_iter().collect();
    assert!(lines[0].starts_with("GET /s3/film/x/root "), "{lines:?}");
    Ok(())
}

/// Answers every request of every connection, and counts the connections.
fn serve_and_count() -> Outcome<(String, Arc<AtomicUsize>)> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let endpoint = format!("http://127.0.0.1:{}", listener.local_addr()?.port());
    let told = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&told);
    std::thread::spawn(move || {
        let good = answer("200 OK", "etag: \"1\"\r\n", 0, b"");
        for stream in listener.incoming().flatten() {
            count.fetch_add(1, Relaxed);
            let good = good.clone();
            std::thread::spawn(move || {
                while read_request(&stream).is_ok_and(|line| !line.is_empty())
                    && (&stream).write_all(&good).is_ok()
                {}
            });
        }
    });
    Ok((endpoint, told))
}

/// Sends three requests one after another, and returns how many connections they took.
fn connections_of_three_requests() -> Outcome<usize> {
    let (endpoint, connections) = serve_and_count()?;
    let (store, _) = open("s3://film/x", Some(&endpoint), Duration::from_secs(20))?;
    store.write("pack", vec![1]).map_err(|e| format!("{e:?}"))?;
    store
        .write_if("root", vec![2], None)
        .map_err(|e| format!("{e:?}"))?;
    store
        .write("pack2", vec![3])
        .map_err(|e| format!("{e:?}"))?;
    Ok(connections.load(Relaxed))
}

/// On a busy machine the client may begin a second connection before it sees that the first one is
/// free again, so the best of several tries counts.
#[test]
fn all_requests_of_one_thread_use_one_connection() -> Outcome {
    let mut least = usize::MAX;
    for _ in 0..5 {
        least = least.min(connections_of_three_requests()?);
        if least == 1 {
            break;
        }
    }
    assert_eq!(least, 1, "a second connection costs trips");
    Ok(())
}

#[test]
fn a_silent_store_does_not_hang_a_command() -> Outcome {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let endpoint = format!("http://127.0.0.1:{}", listener.local_addr()?.port());
    let (store, _) = open("s3://film/x", Some(&endpoint), Duration::from_secs(1))?;
    let start = Instant::now();
    let root = store.write_if("root", vec![1], None);
    assert!(
        matches!(root, Err(FileFailure::Trouble(Trouble::Cut(_)))),
        "{root:?}"
    );
    assert!(start.elapsed() < Duration::from_secs(10));
    drop(listener);
    Ok(())
}

#[test]
fn a_web_server_that_sends_whole_files_only_is_read_too() -> Outcome {
    let body: Vec<u8> = (0..100).collect();
    let whole = answer("200 OK", "", 100, &body);
    let page = answer("200 OK", "content-type: text/html\r\n", 4, b"<a/>");
    let (endpoint, lines) = serve(vec![whole.clone(), whole.clone(), whole, page])?;
    let address = format!("{endpoint}/films/a");
    let (store, settings) = open(&address, None, Duration::from_secs(20))?;
    assert_eq!(store.read_range("pack", 40..60), Ok(body[40..60].to_vec()));
    let root = store
        .read_whole("root", None)
        .map_err(|e| format!("{e:?}"))?;
    assert_eq!(root.0, body);
    let page = store.read_whole("root", None).map(|_| ());
    assert_eq!(page, Err(FileFailure::Trouble(Trouble::Page)));
    assert_eq!(settings.counters.now().get, 4);
    assert!(
        store.begin_upload("pack").is_err(),
        "a web server takes no files"
    );
    let lines: Vec<String> = lines.try_iter().collect();
    assert_eq!(lines[2], "GET /films/a/root HTTP/1.1");
    Ok(())
}

#[test]
fn a_real_store_keeps_files_parts_and_conditions() -> Outcome {
    let Some(program) = go_program("versitygw", &|_| true) else {
        skip("versitygw is not installed; .ci/run installs it with go");
        return Ok(());
    };
    let gateway = Server::start(|port, dir| {
        std::fs::create_dir_all(dir.join("data/film"))?;
        let mut command = Command::new(program);
        command.args(["--port", &format!("127.0.0.1:{port}"), "--quiet"]);
        command.args(["--access", KEY, "--secret", SECRET, "posix"]);
        command.arg(dir.join("data"));
        Ok(command)
    })?;
    let endpoint = gateway.endpoint();
    let (store, settings) = open("s3://film/a/b", Some(&endpoint), Duration::from_secs(60))?;
    exercise(&store).map_err(|e| format!("{e:?}"))?;
    let counted = settings.counters.now();
    assert_eq!((counted.list, counted.delete, counted.retried), (2, 4, 0));
    let (other, _) = open("s3://none/a", Some(&endpoint), Duration::from_secs(60))?;
    let missing = other.read_whole("root", None).map(|_| ());
    assert_eq!(missing, Err(FileFailure::Trouble(Trouble::NoBucket)));
    Ok(())
}

fn exercise(store: &Store) -> Result<(), FileFailure> {
    assert_eq!(
        store.read_whole("root", None).map(|_| ()),
        Err(FileFailure::Missing)
    );
    let first = store.write_if("root", b"one".to_vec(), None)?;
    assert_eq!(
        store.write_if("root", b"two".to_vec(), None),
        Err(FileFailure::Refused)
    );
    let second = store.write_if("root", b"two".to_vec(), Some(&first))?;
    assert_eq!(
        store.write_if("root", b"x".to_vec(), Some(&first)),
        Err(FileFailure::Refused)
    );
    assert_eq!(
        store.write_if("none", b"x".to_vec(), Some(&first)),
        Err(FileFailure::Refused)
    );
    assert_eq!(
        store.read_whole("root", Some(&first))?,
        (b"two".to_vec(), second.clone())
    );
    let same = store.read_whole("root", Some(&second)).map(|_| ());
    assert_eq!(same, Err(FileFailure::Unchanged));

    let part = |n: u8, len: usize| vec![n; len];
    let upload = store.begin_upload("id/pack")?;
    // Parts may come in any order, from several threads.
    let parts = Mutex::new(vec![String::new(); 3]);
    std::thread::scope(|scope| {
        for n in [2_u8, 0, 1] {
            let (parts, upload) = (&parts, &upload);
            scope.spawn(move || {
                let len = if n == 2 { 100 } else { 5 << 20 };
                let id = store.upload_part("id/pack", upload, n.into(), part(n, len));
                let mut parts = parts.lock().expect("nobody panics");
                parts[usize::from(n)] = id.expect("the part arrives");
            });
        }
    });
    let parts = parts.into_inner().expect("nobody panics");
    assert_eq!(
        store.length("id/pack"),
        Err(FileFailure::Missing),
        "it is not there before its end"
    );
    let len = (10 << 20) + 100;
    store.end_upload("id/pack", &upload, &parts, len)?;
    store.end_upload("id/pack", &upload, &parts, len)?;
    assert_eq!(store.length("id/pack")?, len);
    let middle = store.read_range("id/pack", (5 << 20) - 2..(5 << 20) + 2)?;
    assert_eq!(middle, [0, 0, 1, 1]);
    assert_eq!(
        store.read_range("id/pack", len - 50..len + 50),
        Err(FileFailure::Length)
    );
    let given_up = store.begin_upload("id/other")?;
    store.drop_upload("id/other", &given_up)?;
    store.drop_upload("id/other", &given_up)?;

    store.write("id/page", b"page".to_vec())?;
    let mut found: Vec<_> = store
        .list_all("id")?
        .into_iter()
        .map(|f| (f.name, f.len))
        .collect();
    found.sort();
    assert_eq!(
        found,
        [("id/pack".to_owned(), len), ("id/page".to_owned(), 4)]
    );
    let names = ["id/pack", "id/page", "id/none"].map(str::to_owned);
    store.delete_all(&names)?;
    store.delete_all(&names[..1])?;
    assert_eq!(store.list_all("id")?, []);
    Ok(())
}

#[test]
fn the_store_alone_has_encryption() -> Result<(), Box<dyn std::error::Error>> {
    // In a build of the workspace, the crates of QUIC switch on what buckets lack.
    let tree = std::process::Command::new(env!("CARGO"))
        .args([
            "tree",
            "--offline",
            "--locked",
            "-p",
            "dmv-bucket",
            "--prefix",
            "none",
        ])
        .args([
            "--no-default-features",
            "--features",
            "store",
            "-e",
            "normal",
        ])
        .args(["--format", "{p} {f}"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()?;
    let said = String::from_utf8(tree.stderr)?;
    assert!(tree.status.success(), "{said}");
    let tree = String::from_utf8(tree.stdout)?;
    let client = tree.lines().find(|line| line.starts_with("reqwest "));
    let client = client.ok_or("no reqwest")?;
    assert!(client.contains("rustls-no-provider"), "{client}");
    assert!(!tree.contains("iroh"), "QUIC is in it");
    Ok(())
}
