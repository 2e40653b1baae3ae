//! Clones and fetches from a real object store, and from a plain web server.

use super::gateway::{Gateway, Logged};
use super::{KEY, SECRET, place};
use crate::place::{Outcome, Place};
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};

const BUCKET: &str = "s3://film/x";

/// An empty place with the keys.
fn reader() -> Outcome<Place> {
    let mut place = Place::new()?;
    place.env.push(("AWS_ACCESS_KEY_ID", KEY.into()));
    place.env.push(("AWS_SECRET_ACCESS_KEY", SECRET.into()));
    Ok(place)
}

/// A repository with some directories, of which one has much in it, pushed to a bucket.
fn pushed(gateway: &Gateway) -> Outcome<Place> {
    let ada = place()?;
    gateway.add(&ada, "studio", BUCKET)?;
    for n in 0..40 {
        ada.write(format!("d{}/f{n}", n % 4), format!("text {n} ").repeat(50))?;
    }
    ada.write("film/reel", noise(12 << 20))?;
    ada.commit("first")?;
    ada.write("notes", "second")?;
    ada.commit("second")?;
    ada.ok(&["push", "studio"])?;
    Ok(ada)
}

/// Bytes that do not compress.
fn noise(len: usize) -> Vec<u8> {
    let mut state = 88_172_645_463_325_252_u64;
    let next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    };
    std::iter::repeat_with(next).take(len).collect()
}

fn requests(done: &Value) -> Logged {
    let class = |class: &str| done["requests"][class].as_u64().unwrap_or(99);
    Logged {
        get: class("get"),
        put: class("put"),
        list: class("list"),
        delete: class("delete"),
    }
}

/// Runs a command with `--json`. Its own count of requests is that of the server.
fn counted(place: &Place, gateway: &Gateway, args: &[&str]) -> Outcome<Value> {
    let before = gateway.logged()?;
    let done = place.json(&[args, &["--json"]].concat())?;
    let logged = gateway.logged()?.since(&before);
    assert_eq!(requests(&done), logged, "{done}");
    assert_eq!((logged.put, logged.list, logged.delete), (0, 0, 0));
    Ok(done)
}

#[test]
fn clones_and_fetches_take_few_requests_and_list_nothing() -> Outcome {
    let Some(gateway) = Gateway::start(KEY, SECRET)? else {
        return Ok(());
    };
    let (ada, bob) = (pushed(&gateway)?, reader()?);
    let args = ["clone", BUCKET, ".", "--endpoint", &gateway.endpoint];
    let done = counted(&bob, &gateway, &args)?;
    assert!(requests(&done).get <= 6, "{done}");
    assert!(done["cost_usd"].as_f64() > Some(0.0), "{done}");
    assert_eq!(fs::read(bob.work().join("film/reel"))?, noise(12 << 20));
    bob.ok(&["verify", "--full"])?;

    let done = counted(&bob, &gateway, &["fetch"])?;
    assert_eq!(requests(&done).get, 1, "nothing is new");
    ada.write("notes", "third")?;
    ada.commit("third")?;
    ada.ok(&["push", "studio"])?;
    let done = counted(&bob, &gateway, &["pull"])?;
    assert!(requests(&done).get <= 3, "{done}");
    assert_eq!(fs::read(bob.work().join("notes"))?, b"third");
    let said = bob.ok(&["fetch", "--verbose"])?;
    assert!(
        said.contains("1 request, ") && said.contains("about $0."),
        "{said}"
    );
    Ok(())
}

#[test]
fn a_part_of_a_bucket_costs_what_it_has() -> Outcome {
    let Some(gateway) = Gateway::start(KEY, SECRET)? else {
        return Ok(());
    };
    let _ada = pushed(&gateway)?;
    let clone = ["clone", BUCKET, ".", "--endpoint", &gateway.endpoint];
    let part = reader()?;
    let done = counted(&part, &gateway, &[&clone[..], &["--subset", "d1"]].concat())?;
    assert!(part.work().join("d1/f1").exists() && !part.work().join("film").exists());
    assert!(done["bytes_received"].as_u64() < Some(1 << 20), "{done}");
    part.ok(&["verify", "--full"])?;

    let shallow = reader()?;
    let args = [&clone[..], &["--depth", "1", "--bare"]].concat();
    counted(&shallow, &gateway, &args)?;
    let log = shallow.ok(&["log"])?;
    assert!(log.contains("second") && !log.contains("first"), "{log}");

    // Metadata alone, and content when a command needs it.
    let light = reader()?;
    let args = [&clone[..], &["--meta-only"]].concat();
    let done = counted(&light, &gateway, &args)?;
    assert!(requests(&done).get <= 6, "{done}");
    assert_eq!(light.ok(&["cat", "notes"])?, "second");
    light.ok(&["get", "film"])?;
    let film = light.run(&["cat", "film/reel"])?;
    assert_eq!(film.stdout, noise(12 << 20));
    assert_eq!(light.ok(&["cat", "@~1:d2/f2"])?, "text 2 ".repeat(50));
    light.ok(&["verify"])?;
    Ok(())
}

#[test]
fn a_bucket_counts_as_a_copy() -> Outcome {
    let Some(gateway) = Gateway::start(KEY, SECRET)? else {
        return Ok(());
    };
    let ada = pushed(&gateway)?;
    ada.write("new", "not pushed")?;
    ada.commit("new")?;
    ada.fails(5, &["drop", "new"])?;
    let said = ada.ok(&["drop", "film", "d2"])?;
    assert!(said.contains("11 files"), "{said}");
    fs::remove_file(ada.work().join("film/reel"))?;
    ada.ok(&["restore", "film/reel"])?;
    assert_eq!(fs::read(ada.work().join("film/reel"))?, noise(12 << 20));
    Ok(())
}

#[test]
fn what_is_wrong_with_a_bucket_is_said() -> Outcome {
    let Some(gateway) = Gateway::start(KEY, SECRET)? else {
        return Ok(());
    };
    let clone = ["clone", BUCKET, "x", "--endpoint", &gateway.endpoint];
    let said = reader()?.fails(10, &clone)?;
    assert!(said.contains("no repository in the bucket"), "{said}");
    let none = ["clone", "s3://none/x", "x", "--endpoint", &gateway.endpoint];
    reader()?.fails(10, &none)?;
    let ada = pushed(&gateway)?;
    // The largest file is the pack of chunks.
    let folder = fs::read_dir(gateway.path("film").join("x"))?
        .filter_map(Result::ok)
        .find(|entry| entry.path().is_dir())
        .ok_or("no folder")?;
    let packs = fs::read_dir(folder.path())?.filter_map(Result::ok);
    let pack = packs.max_by_key(|entry| entry.metadata().map_or(0, |file| file.len()));
    let pack = pack.ok_or("no pack")?.path();
    let good = fs::read(&pack)?;
    let mut bad = good.clone();
    bad[good.len() / 2] ^= 1;
    fs::write(&pack, bad)?;
    // 'verify' finds it if it reads the content.
    ada.ok(&["verify", "--at", "studio"])?;
    let said = ada.run(&["verify", "--at", "studio", "--full"])?;
    assert_eq!(said.status.code(), Some(7));
    let said = String::from_utf8(said.stdout)?;
    assert!(
        said.contains("a frame does not have what the table says"),
        "{said}"
    );
    let bob = reader()?;
    let said = bob.fails(7, &clone)?;
    assert!(
        said.contains("damaged: ") && said.contains("hint: "),
        "{said}"
    );
    fs::remove_file(&pack)?;
    let said = ada.run(&["verify", "--at", "studio"])?;
    assert_eq!(said.status.code(), Some(7));
    let said = String::from_utf8(said.stdout)?;
    assert!(
        said.contains("it is missing") && said.contains("objects are missing"),
        "{said}"
    );
    let said = reader()?.fails(7, &clone)?;
    assert!(said.contains("a file is lost"), "{said}");
    // What was received stays, and the same command goes on.
    fs::write(&pack, good)?;
    bob.ok(&clone)?;
    assert_eq!(fs::read(bob.work().join("x/film/reel"))?, noise(12 << 20));
    Ok(())
}

#[test]
fn verify_at_a_bucket_reads_as_much_as_it_is_told() -> Outcome {
    let Some(gateway) = Gateway::start(KEY, SECRET)? else {
        return Ok(());
    };
    let ada = pushed(&gateway)?;
    let mut read = Vec::new();
    for depth in [&["--quick"][..], &["--sample", "90%"], &["--full"]] {
        let args = [&["verify", "--at", "studio"], depth].concat();
        let foretold = ada.json(&[&args[..], &["--dry-run", "--json"]].concat())?;
        let done = counted(&ada, &gateway, &args)?;
        assert_eq!(done["ok"], Value::Bool(true), "{done}");
        let bytes = |of: &Value| of["bytes"].as_u64().unwrap_or_default();
        if depth.len() == 1 {
            assert_eq!(bytes(&foretold), bytes(&done));
        }
        read.push(bytes(&done));
    }
    assert!(
        read[0] < 1 << 20 && read[0] < read[1] && read[1] <= read[2],
        "{read:?}"
    );
    assert!(read[2] > 12 << 20, "{read:?}");
    let said = ada.ok(&["verify", "--at", "studio", "--full", "--dry-run"])?;
    assert!(
        said.contains("would read 12.") && said.contains("about $0."),
        "{said}"
    );
    ada.fails(2, &["verify", "--sample", "5"])?;
    Ok(())
}

/// A web server for the files of a directory, until the test ends.
fn static_server(dir: PathBuf) -> Outcome<u16> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let port = listener.local_addr()?.port();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let dir = dir.clone();
            // A client that goes away ends its connection, and nothing else.
            std::thread::spawn(move || drop(answer(&stream, &dir)));
        }
    });
    Ok(port)
}

fn answer(stream: &TcpStream, dir: &Path) -> std::io::Result<()> {
    let (mut reader, mut writer) = (BufReader::new(stream), stream);
    loop {
        let (mut path, mut range) = (String::new(), None);
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line)? == 0 {
                return Ok(());
            }
            let line = line.trim();
            if let Some(rest) = line.strip_prefix("GET /") {
                path = rest.split(' ').next().unwrap_or_default().to_owned();
            }
            if let Some(("range", value)) = line.to_lowercase().split_once(": ") {
                let ends = value.trim_start_matches("bytes=").split_once('-');
                range = ends.and_then(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?)));
            }
            if line.is_empty() {
                break;
            }
        }
        let Ok(bytes) = fs::read(dir.join(&path)) else {
            writer.write_all(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n")?;
            continue;
        };
        let (status, from, to): (_, usize, usize) = match range {
            Some((from, to)) => ("206 Partial Content", from, to),
            None => ("200 OK", 0, bytes.len() - 1),
        };
        let (part, all) = (&bytes[from..=to], bytes.len());
        let head = format!(
            "HTTP/1.1 {status}\r\ncontent-length: {}\r\ncontent-range: bytes {from}-{to}/{all}\r\n\
             etag: \"{all}\"\r\nlast-modified: Mon, 23 Nov 2020 06:00:00 GMT\r\n\r\n",
            part.len()
        );
        writer.write_all(head.as_bytes())?;
        writer.write_all(part)?;
    }
}

#[test]
fn a_plain_web_server_is_a_bucket_for_reading() -> Outcome {
    let Some(gateway) = Gateway::start(KEY, SECRET)? else {
        return Ok(());
    };
    let _ada = pushed(&gateway)?;
    let port = static_server(gateway.path("film"))?;
    let bucket = format!("http://127.0.0.1:{port}/x");
    let bob = Place::new()?;
    bob.ok(&["clone", &bucket, "."])?;
    assert_eq!(fs::read(bob.work().join("film/reel"))?, noise(12 << 20));
    bob.ok(&["fetch"])?;
    bob.write("notes", "mine")?;
    bob.commit("mine")?;
    let said = bob.fails(5, &["push"])?;
    assert!(said.contains("web server"), "{said}");
    let none = format!("http://127.0.0.1:{port}/y");
    let said = Place::new()?.fails(10, &["clone", &none, "y"])?;
    assert!(said.contains("no repository in the bucket"), "{said}");
    Ok(())
}
