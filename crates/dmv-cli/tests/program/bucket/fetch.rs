//! Clones and fetches from a real object store, and from a plain web server.

use super::gateway::{Gateway, Logged};
use super::{KEY, SECRET, place};
use crate::place::{Outcome, Place};
use dmv_random::noise;
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
    ada.write("film/reel", noise(1, 12 << 20))?;
    ada.commit("first")?;
    ada.write("notes", "second")?;
    ada.commit("second")?;
    ada.ok(&["push", "studio"])?;
    Ok(ada)
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

/// What a clone of a part is foretold to take, and what it takes, are about the same.
fn foretold(gateway: &Gateway, options: &[&str]) -> Outcome {
    let part = reader()?;
    let temporary = tempfile::TempDir::new()?;
    let mut dry = reader()?;
    dry.env.push(("TMPDIR", temporary.path().into()));
    let clone = ["clone", BUCKET, ".", "--endpoint", &gateway.endpoint];
    let args = [&clone[..], options].concat();
    let told = dry.json(&[&args[..], &["--dry-run", "--json"]].concat())?;
    assert_eq!(fs::read_dir(dry.work())?.count(), 0, "nothing is made");
    assert_eq!(fs::read_dir(temporary.path())?.count(), 0, "nothing stays");
    let done = counted(&part, gateway, &args)?;
    let bytes = |of: &Value, name: &str| of[name].as_u64().unwrap_or_default();
    let (told_bytes, bytes) = (bytes(&told, "bytes"), bytes(&done, "bytes_received"));
    let off = told_bytes.abs_diff(bytes);
    assert!(off < 64 << 10, "{options:?}: {told} {done}");
    let (told_gets, gets) = (requests(&told).get, requests(&done).get);
    assert!(told_gets.abs_diff(gets) <= 3, "{options:?}: {told} {done}");
    assert!(told["cost_usd"].as_f64() > Some(0.0), "{told}");
    Ok(())
}

#[test]
fn a_bucket_is_read_whole_and_in_part_verified_and_counts_as_a_copy() -> Outcome {
    // A clone of a part is foretold without a trace.
    let Some(gateway) = Gateway::start(KEY, SECRET)? else {
        return Ok(());
    };
    let ada = pushed(&gateway)?;
    foretold(&gateway, &["--subset", "d1"])?;
    foretold(&gateway, &["--subset", "film"])?;
    foretold(&gateway, &["--depth", "1"])?;
    foretold(&gateway, &["--since", "1970-01-02"])?;
    foretold(&gateway, &["--depth", "1", "--subset", "film", "notes"])?;
    foretold(&gateway, &["--depth", "1", "--meta-only"])?;
    let lost = reader()?;
    let clone = ["clone", BUCKET, ".", "--endpoint", &gateway.endpoint];
    let said = lost.fails(
        20,
        &[&clone[..], &["--subset", "none", "--dry-run"]].concat(),
    )?;
    assert!(said.contains("none"), "{said}");

    // A part of a bucket costs what it has.
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
    let said = light.ok(&[&args[..], &["--dry-run"]].concat())?;
    assert!(
        said.contains("nothing was made: a clone would receive ") && said.contains("about $0."),
        "{said}"
    );
    let done = counted(&light, &gateway, &args)?;
    assert!(requests(&done).get <= 6, "{done}");
    assert_eq!(light.ok(&["cat", "notes"])?, "second");
    light.ok(&["get", "film"])?;
    let film = light.run(&["cat", "film/reel"])?;
    assert_eq!(film.stdout, noise(1, 12 << 20));
    assert_eq!(light.ok(&["cat", "@~1:d2/f2"])?, "text 2 ".repeat(50));
    light.ok(&["verify"])?;

    // A sample reads some content and says that it is one.
    let verify = ["verify", "--at", "studio"];
    let objects = |more: &[&str]| -> Outcome<u64> {
        let done = ada.json(&[&verify[..], more, &["--json"]].concat())?;
        done["objects"]
            .as_u64()
            .ok_or_else(|| format!("{done}").into())
    };
    let sample = objects(&["--sample", "0.0001"])?;
    assert!(sample > objects(&[])?, "at least one frame is read");
    let said = ada.ok(&[&verify[..], &["--sample", "5"]].concat())?;
    assert!(
        said.contains("a sample of about 5 % of the content"),
        "{said}"
    );

    // Verify at a bucket reads as much as it is told.
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

    // A plain web server is a bucket for reading.
    let port = static_server(gateway.path("film"))?;
    let bucket = format!("http://127.0.0.1:{port}/x");
    let bob = Place::new()?;
    bob.ok(&["clone", &bucket, "."])?;
    assert_eq!(fs::read(bob.work().join("film/reel"))?, noise(1, 12 << 20));
    bob.ok(&["fetch"])?;
    bob.write("notes", "mine")?;
    bob.commit("mine")?;
    let said = bob.fails(12, &["push"])?;
    assert!(said.contains("web server"), "{said}");
    let none = format!("http://127.0.0.1:{port}/y");
    let said = Place::new()?.fails(10, &["clone", &none, "y"])?;
    assert!(said.contains("no repository in the bucket"), "{said}");

    // Clones and fetches take few requests and list nothing.
    let bob = reader()?;
    let args = ["clone", BUCKET, ".", "--endpoint", &gateway.endpoint];
    let foretold = bob.json(&[&args[..], &["--dry-run", "--json"]].concat())?;
    assert!(!bob.work().join(".dmv").exists(), "nothing is made");
    let done = counted(&bob, &gateway, &args)?;
    assert_eq!(requests(&foretold), requests(&done), "{foretold} {done}");
    let bytes = |of: &Value, name: &str| of[name].as_u64().unwrap_or_default();
    let off = bytes(&foretold, "bytes").abs_diff(bytes(&done, "bytes_received"));
    assert!(off < 4096, "{foretold} {done}");
    assert!(foretold["cost_usd"].as_f64() > Some(0.0), "{foretold}");
    assert!(requests(&done).get <= 6, "{done}");
    assert!(done["cost_usd"].as_f64() > Some(0.0), "{done}");
    assert_eq!(fs::read(bob.work().join("film/reel"))?, noise(1, 12 << 20));
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

    // A bucket counts as a copy.
    ada.write("new", "not pushed")?;
    ada.commit("new")?;
    ada.fails(5, &["drop", "new"])?;
    // It is in a pack, but only a deleted branch leads to it: a gc may free it.
    ada.ok(&["branch", "side"])?;
    ada.ok(&["push", "studio", "side"])?;
    ada.ok(&["push", "studio", "--force", "--delete", "side"])?;
    let said = ada.fails(5, &["drop", "new"])?;
    assert!(said.contains("studio does not keep a copy"), "{said}");
    ada.ok(&["push", "studio", "main"])?;
    ada.ok(&["drop", "new"])?;
    ada.ok(&["gc", "--at", "studio", "--grace", "0", "--forget", "0"])?;
    ada.ok(&["restore", "new"])?;
    assert_eq!(fs::read(ada.work().join("new"))?, b"not pushed");
    let said = ada.ok(&["drop", "film", "d2"])?;
    assert!(said.contains("11 files"), "{said}");
    fs::remove_file(ada.work().join("film/reel"))?;
    ada.ok(&["restore", "film/reel"])?;
    assert_eq!(fs::read(ada.work().join("film/reel"))?, noise(1, 12 << 20));
    Ok(())
}

/// How many chunks a device knows the place of in a bucket.
fn hints(place: &Place) -> Outcome<u64> {
    let mut count = 0;
    for bucket in fs::read_dir(place.work().join(".dmv/buckets"))? {
        for file in fs::read_dir(bucket?.path().join("known"))? {
            let bytes = fs::read(file?.path())?;
            count += u64::from_le_bytes(bytes[16..24].try_into()?);
        }
    }
    Ok(count)
}

#[test]
fn the_first_push_after_a_clone_says_where_the_unchanged_files_lie() -> Outcome {
    let Some(gateway) = Gateway::start(KEY, SECRET)? else {
        return Ok(());
    };
    let (ada, bob) = (pushed(&gateway)?, reader()?);
    let clone = ["clone", BUCKET, ".", "--endpoint", &gateway.endpoint];
    bob.ok(&clone)?;
    let stored = bob.json(&["stats", "--json"])?;
    assert_eq!(Some(hints(&bob)?), stored["chunks"].as_u64());
    // One file of ten in its directory. The places of the others stand in its pack.
    bob.write("d1/f5", "changed by bob")?;
    bob.commit("of bob")?;
    bob.ok(&["push"])?;
    let part = [&clone[..], &["--subset", "d1", "--depth", "1"]].concat();
    let eve = reader()?;
    let of_bob = requests(&counted(&eve, &gateway, &part)?);
    assert_eq!(fs::read(eve.work().join("d1/f5"))?, b"changed by bob");
    // The same by who has pushed all of it.
    ada.ok(&["pull", "studio"])?;
    let known = hints(&ada)?;
    ada.write("d1/f5", "changed by ada")?;
    ada.commit("of ada")?;
    ada.ok(&["push", "studio"])?;
    assert!(hints(&ada)? > known);
    let eve = reader()?;
    let of_ada = requests(&counted(&eve, &gateway, &part)?);
    assert_eq!(fs::read(eve.work().join("d1/f5"))?, b"changed by ada");
    // Without the table, readers have to look for what did not change.
    let carol = reader()?;
    carol.ok(&clone)?;
    for bucket in fs::read_dir(carol.work().join(".dmv/buckets"))? {
        fs::remove_dir_all(bucket?.path().join("known"))?;
    }
    carol.write("d1/f5", "changed by carol")?;
    carol.commit("of carol")?;
    carol.ok(&["push"])?;
    let of_carol = requests(&counted(&reader()?, &gateway, &part)?);
    assert!(of_carol.get > of_ada.get, "{of_carol:?} {of_ada:?}");
    assert!(of_ada.get <= of_bob.get + 1, "one more pack: {of_ada:?}");
    Ok(())
}

#[test]
fn what_a_device_has_pushed_itself_it_does_not_read_again() -> Outcome {
    let Some(gateway) = Gateway::start(KEY, SECRET)? else {
        return Ok(());
    };
    let ada = place()?;
    gateway.add(&ada, "studio", BUCKET)?;
    for n in 0..20 {
        ada.write("f", format!("n{n:02}"))?;
        ada.write(format!("d/{n}"), format!("other {n}"))?;
        ada.commit("next")?;
        ada.ok(&["push", "studio"])?;
    }
    let bob = reader()?;
    bob.ok(&["clone", BUCKET, ".", "--endpoint", &gateway.endpoint])?;
    bob.write("g", "from bob")?;
    bob.commit("bob")?;
    bob.ok(&["push"])?;
    let asked = |place: &Place, args: &[&str]| -> Outcome<u64> {
        let before = gateway.logged()?;
        place.ok(args)?;
        let logged = gateway.logged()?.since(&before);
        Ok(logged.get + logged.put + logged.list + logged.delete)
    };
    let fetched = asked(&ada, &["fetch", "studio"])?;
    assert!(fetched <= 3, "{fetched} requests");
    // The content of a small file lies in a joint pack, whose table of chunks is not at its end.
    let dropped = asked(&ada, &["drop", "f"])?;
    assert!(dropped <= 6, "{dropped} requests");
    let dropped = asked(&bob, &["drop", "f"])?;
    assert!(dropped <= 6, "{dropped} requests");
    Ok(())
}

#[test]
fn commands_at_a_bucket_say_what_they_cost_that_it_is_empty_or_damaged() -> Outcome {
    // An empty bucket is shown as empty.
    let Some(gateway) = Gateway::start(KEY, SECRET)? else {
        return Ok(());
    };
    let ada = place()?;
    gateway.add(&ada, "studio", BUCKET)?;
    let said = ada.ok(&["remote", "show"])?;
    assert!(
        said.contains("empty: the first push makes a repository"),
        "{said}"
    );
    let shown = ada.json(&["remote", "show", "studio", "--json"])?;
    assert_eq!(
        (&shown["reachable"], &shown["branches"]),
        (&true.into(), &0.into())
    );

    // Every command tells programs what it costs.
    ada.write("d/f", "one")?;
    ada.commit("one")?;
    ada.ok(&["push", "studio"])?;
    let bob = reader()?;
    bob.ok(&[
        "clone",
        BUCKET,
        ".",
        "--meta-only",
        "--endpoint",
        &gateway.endpoint,
    ])?;
    for args in [
        &["get", "d/f"][..],
        &["drop", "d/f"],
        &["verify", "--at", "origin"],
        &["gc", "--at", "origin"],
        &["repack", "--at", "origin", "--dry-run"],
        &["remote", "check", "origin"],
    ] {
        let before = gateway.logged()?;
        let done = bob.json(&[args, &["--json"]].concat())?;
        let logged = gateway.logged()?.since(&before);
        assert_eq!(requests(&done), logged, "{args:?}: {done}");
        assert!(logged.get > 0, "{args:?}: {done}");
        // Only a collection lists what is there.
        let lists = matches!(args[0], "gc" | "repack");
        assert_eq!(logged.list > 0, lists, "{args:?}: {done}");
        assert!(done["bytes_received"].is_u64(), "{args:?}: {done}");
    }
    for args in [
        &["op", "log", "--at", "origin"][..],
        &["subset", "add", "d"],
    ] {
        let done = bob.run(&[args, &["--json"]].concat())?;
        let said = String::from_utf8(done.stderr)?;
        let told = said.lines().find_map(|line| {
            let value: Value = serde_json::from_str(line).ok()?;
            (value["type"] == "cost").then_some(value)
        });
        let told = told.ok_or_else(|| format!("{args:?}: {said}"))?;
        assert!(told["cost_usd"].is_number(), "{told}");
    }
    ada.ok(&["remote", "add", "gone", "/no/such/place"])?;
    let done = ada.run(&["sync", "studio", "gone", "--json"])?;
    let done: Value = serde_json::from_slice(&done.stdout)?;
    assert_eq!(done["failed"][0]["remote"], "gone", "{done}");

    // A damaged root is noticed beside the copy of an intact one.
    ada.write("f", "one")?;
    ada.commit("one")?;
    ada.ok(&["push", "studio"])?;
    ada.ok(&["verify", "--at", "studio"])?;
    // The store keeps the name of the state apart from the bytes, and calls them unchanged.
    let root = gateway.path("film").join("x/root");
    let mut bytes = fs::read(&root)?;
    bytes[30] ^= 1;
    fs::write(&root, bytes)?;
    for depth in [&[][..], &["--full"], &["--dry-run"]] {
        let said = ada.fails(7, &[&["verify", "--at", "studio"][..], depth].concat())?;
        assert!(said.contains("root"), "{said}");
    }
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
    assert_eq!(
        fs::read(bob.work().join("x/film/reel"))?,
        noise(1, 12 << 20)
    );
    Ok(())
}

#[test]
fn damage_in_a_small_pack_is_called_damage_and_its_files_are_named() -> Outcome {
    let Some(gateway) = Gateway::start(KEY, SECRET)? else {
        return Ok(());
    };
    let ada = place()?;
    gateway.add(&ada, "studio", BUCKET)?;
    ada.write("film/first", noise(1, 3_000_000))?;
    ada.write(
        "film/second",
        noise(1, 3_000_000).into_iter().rev().collect::<Vec<_>>(),
    )?;
    ada.commit("films")?;
    ada.ok(&["push", "studio"])?;
    ada.ok(&["verify", "--at", "studio"])?;
    let folder = fs::read_dir(gateway.path("film").join("x"))?
        .filter_map(Result::ok)
        .find(|entry| entry.path().is_dir())
        .ok_or("no folder")?;
    let pack = fs::read_dir(folder.path())?
        .next()
        .ok_or("no pack")??
        .path();
    let good = fs::read(&pack)?;
    // In the first chunk; in the head of the first frame, so that what follows is hard to find.
    for at in [100_000, 64] {
        let mut bad = good.clone();
        bad[at] ^= 1;
        fs::write(&pack, bad)?;
        let done = ada.run(&["verify", "--at", "studio", "--json"])?;
        assert_eq!(done.status.code(), Some(7));
        let done: Value = serde_json::from_slice(&done.stdout)?;
        assert_eq!(
            done["problems"][0]["why"], "its chunks are damaged",
            "{done}"
        );
        assert_eq!(done["damaged_files"], 1);
        let files = done["files"].as_array().ok_or("files")?;
        let paths: Vec<&str> = files.iter().filter_map(|f| f["path"].as_str()).collect();
        assert_eq!(paths.len(), 1, "one film is intact: {done}");
        assert!(paths[0].starts_with("film/"), "{done}");
    }
    let said = ada.run(&["verify", "--at", "studio"])?;
    let said = String::from_utf8(said.stdout)?;
    assert!(
        said.contains("affected: film/") && said.contains("(in commit "),
        "{said}"
    );
    fs::write(&pack, good)?;
    ada.ok(&["verify", "--at", "studio"])?;
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
