//! A repository that one device serves by key, on this machine, and others that use it.

use crate::place::running::Running;
use crate::place::{Outcome, Place};
use serde_json::Value;
use std::process::{Child, Stdio};

fn key(place: &Place) -> Outcome<String> {
    Ok(place.ok(&["id"])?.trim().to_owned())
}

#[test]
fn a_served_repository_is_cloned_and_pushed_to_by_those_who_may() -> Outcome {
    let (desk, lap) = (Place::with_repository()?, Place::new()?);
    desk.write("a", "one\n")?;
    desk.commit("first")?;
    desk.ok(&["trust", &key(&lap)?, "--name", "lap"])?;
    let server = Running::serve(&desk, &[])?;
    let at = server.address()?;
    assert!(at.contains("@127.0.0.1:"), "alone by default: {at}");
    assert_eq!(server.ready["key"], key(&desk)?);

    let done = lap.json(&["clone", &at, "film", "--json"])?;
    assert_eq!((&done["files"], &done["bytes"]), (&1.into(), &4.into()));
    std::fs::write(lap.work().join("film/b"), "two\n")?;
    lap.ok(&["-C", "film", "commit", "-m", "second"])?;
    // It may read, and nothing else.
    lap.fails(12, &["-C", "film", "push"])?;
    desk.ok(&["trust", &key(&lap)?, "--write"])?;
    lap.ok(&["-C", "film", "push"])?;
    assert_eq!(desk.records(&["log", "--json"])?.len(), 2);
    let log = desk.ok(&["op", "log", "-n", "1"])?;
    assert!(log.contains("push from lap ("), "{log}");

    let stranger = Place::new()?;
    let said = stranger.fails(12, &["clone", &at, "x"])?;
    assert!(said.contains("does not trust this device"), "{said}");
    assert!(!stranger.work().join("x").exists(), "nothing is left");
    let wrong = at.replace(&key(&desk)?, &key(&stranger)?);
    let said = lap.fails(12, &["clone", &wrong, "x"])?;
    assert!(said.contains("has another key"), "{said}");
    let (exit, said, events) = server.stop_and_hear()?;
    assert_eq!(exit, Some(0), "{said}");
    is_told(&events, &key(&lap)?, &key(&stranger)?);
    assert!(
        said.contains(&format!("dmv trust {}", key(&stranger)?)),
        "{said}"
    );
    assert!(
        said.contains("lap (") && said.contains("moved branch/main"),
        "{said}"
    );
    for what in ["fetched 3 objects (", "pushed 3 objects ("] {
        assert!(said.contains(what), "{said}");
    }
    desk.ok(&["verify"])?;
    Ok(())
}

#[test]
fn twenty_clones_with_one_key_wait_their_turn() -> Outcome {
    const CLONES: usize = 20;
    let (desk, lap) = (Place::with_repository()?, Place::new()?);
    desk.write("a", "one\n")?;
    desk.commit("first")?;
    desk.ok(&["trust", &key(&lap)?])?;
    let server = Running::serve(&desk, &[])?;
    let at = server.address()?;
    let clone = |n: usize| {
        let mut command = lap.command(&["clone", &at, &format!("copy-{n}")]);
        command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn()
    };
    let clones: Vec<Child> = (0..CLONES).map(clone).collect::<Result<_, _>>()?;
    for (n, clone) in clones.into_iter().enumerate() {
        let done = clone.wait_with_output()?;
        let said = String::from_utf8(done.stderr)?;
        assert_eq!(done.status.code(), Some(0), "{said}");
        let content = std::fs::read_to_string(lap.work().join(format!("copy-{n}/a")))?;
        assert_eq!(content, "one\n");
    }
    server.stop()?;
    Ok(())
}

#[test]
fn why_a_remote_takes_nothing_is_told_as_far_as_it_says() -> Outcome {
    let (desk, lap) = (Place::with_repository()?, Place::new()?);
    desk.write("a", "one\n")?;
    desk.commit("first")?;
    desk.ok(&["trust", &key(&lap)?])?;
    let server = Running::serve(&desk, &[])?;
    lap.ok(&["clone", &server.address()?, "film"])?;
    std::fs::write(lap.work().join("film/b"), "two\n")?;
    lap.ok(&["-C", "film", "commit", "-m", "second"])?;
    let said = lap.fails(12, &["-C", "film", "push"])?;
    let why = format!(
        "allows this device only to fetch (to allow it, run there: dmv trust {} --write)",
        key(&lap)?
    );
    assert!(said.contains(&why), "{said}");
    let said = lap.ok(&["-C", "film", "remote", "show"])?;
    assert!(said.contains(&format!("fetch only: it {why}")), "{said}");
    let shown = lap.json(&["-C", "film", "remote", "show", "--json"])?;
    assert_eq!(
        (&shown["access"], &shown["read_only"]),
        (&"read".into(), &"key".into())
    );
    desk.ok(&["trust", &key(&lap)?, "--write"])?;
    let shown = lap.json(&["-C", "film", "remote", "show", "--json"])?;
    assert_eq!(
        (&shown["access"], &shown["read_only"]),
        (&"write".into(), &Value::Null)
    );
    server.stop()?;
    Ok(())
}

/// What a program that watches the server learns.
fn is_told(events: &[Value], lap: &str, stranger: &str) {
    let of =
        |event: &str| -> Vec<&Value> { events.iter().filter(|e| e["event"] == event).collect() };
    let (came, done) = (of("connected"), of("done"));
    assert_eq!((came.len(), done.len()), (3, 3), "{events:?}");
    assert!(
        came.iter()
            .chain(&done)
            .all(|e| e["key"] == lap && e["name"] == "lap")
    );
    assert!(done[0]["bytes_sent"].as_u64() > done[0]["bytes_received"].as_u64());
    assert_eq!(done[0]["objects_sent"], 3);
    assert_eq!(
        (&done[2]["objects_received"], &done[2]["refs"][0]["name"]),
        (&3.into(), &"branch/main".into())
    );
    assert_eq!(of("turned-away")[0]["key"], stranger);
    let last = events.last().map(|e| (&e["event"], &e["sessions"]));
    assert_eq!(last, Some((&"stopped".into(), &3.into())));
}

#[test]
fn a_server_that_only_gives_and_one_whose_repository_is_gone() -> Outcome {
    let (desk, lap) = (Place::with_repository()?, Place::new()?);
    desk.write("a", "one\n")?;
    desk.commit("first")?;
    desk.ok(&["trust", &key(&lap)?, "--write"])?;
    let server = Running::serve(&desk, &["--read-only", "--listen", "127.0.0.1"])?;
    let at = server.address()?;
    lap.ok(&["clone", &at, "film"])?;
    std::fs::write(lap.work().join("film/b"), "two\n")?;
    lap.ok(&["-C", "film", "commit", "-m", "second"])?;
    let said = lap.fails(12, &["-C", "film", "push"])?;
    assert!(said.contains("it was started with --read-only"), "{said}");
    let said = lap.ok(&["-C", "film", "remote", "show"])?;
    assert!(
        said.contains("fetch only: it was started with --read-only"),
        "{said}"
    );
    let shown = lap.json(&["-C", "film", "remote", "show", "--json"])?;
    assert_eq!(shown["read_only"], "server");
    std::fs::rename(desk.work().join(".dmv/format"), desk.work().join("format"))?;
    lap.fails(10, &["clone", &at, "again"])?;
    server.stop()?;
    Place::new()?.fails(10, &["serve"])?;
    lap.fails(2, &["serve", "--listen", "nowhere"])?;
    lap.fails(2, &["serve", "--stdio"])?;
    lap.fails(20, &["clone", "dmv://abc", "x"])?;
    Ok(())
}

#[test]
fn content_is_brought_and_given_up_over_the_network() -> Outcome {
    let (desk, mut lap) = (Place::with_repository()?, Place::new()?);
    let large: Vec<u8> = (0..300_000u32).flat_map(u32::to_le_bytes).collect();
    desk.write("raw/large", &large)?;
    desk.commit("first")?;
    desk.ok(&["trust", &key(&lap)?])?;
    let server = Running::serve(&desk, &[])?;
    lap.ok(&["clone", &server.address()?, "film"])?;
    let done = lap.json(&["-C", "film", "drop", "raw", "--json"])?;
    assert_eq!(
        (&done["files"], &done["peers"][0]),
        (&1.into(), &"origin".into())
    );
    assert!(done["freed_bytes"].as_u64() > Some(0), "{done}");
    let cat = lap.run(&["-C", "film", "cat", "@:raw/large"])?;
    assert_eq!(cat.stdout, large);
    lap.ok(&["-C", "film", "drop", "raw"])?;
    let (exit, said) = server.stop()?;
    assert_eq!(exit, Some(0), "{said}");
    lap.env.push(("DMV_NET_PATIENCE", "1".into()));
    lap.fails(6, &["-C", "film", "get", "raw"])?;
    Ok(())
}

/// A relay on this machine, until it is dropped.
struct Relay(std::process::Child, String);

impl Relay {
    /// `None`: there is no such program here (cargo install iroh-relay --features server).
    fn start(place: &Place) -> Outcome<Option<Relay>> {
        let free = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        let settings = place.home().join("relay.toml");
        let text = format!("http_bind_addr = \"{free}\"\nenable_metrics = false\n");
        std::fs::write(&settings, text)?;
        let mut command = std::process::Command::new("iroh-relay");
        command.arg("--dev").arg("--config-path").arg(settings);
        let none = std::process::Stdio::null;
        command.stdin(none()).stdout(none()).stderr(none());
        let Ok(child) = command.spawn() else {
            return Ok(None);
        };
        let relay = Relay(child, format!("http://{free}/"));
        for _ in 0..100 {
            if std::net::TcpStream::connect(free).is_ok() {
                return Ok(Some(relay));
            }
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        Err("the relay does not start".into())
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Nobody announces anything, and no place is given: there is no way but the relay.
#[test]
fn peers_meet_at_a_relay_of_their_own() -> Outcome {
    let (mut desk, mut lap) = (Place::with_repository()?, Place::new()?);
    let Some(relay) = Relay::start(&desk)? else {
        dmv_random::skip("no iroh-relay here (cargo install iroh-relay --features server)");
        return Ok(());
    };
    for place in [&mut desk, &mut lap] {
        place.env.push(("DMV_NET_RELAY", relay.1.clone().into()));
    }
    desk.write("a", "one\n")?;
    desk.commit("first")?;
    desk.ok(&["trust", &key(&lap)?, "--write"])?;
    let server = Running::serve(&desk, &[])?;
    let at = format!("dmv://{}", key(&desk)?);
    let all = server.ready["addresses"].as_array().ok_or("no addresses")?;
    assert_eq!(all.last(), Some(&at.as_str().into()), "{all:?}");
    lap.ok(&["clone", &at, "film"])?;
    std::fs::write(lap.work().join("film/b"), "two\n")?;
    lap.ok(&["-C", "film", "commit", "-m", "second"])?;
    lap.ok(&["-C", "film", "push"])?;
    assert_eq!(desk.records(&["log", "--json"])?.len(), 2);
    let url = relay.1.clone();
    drop(relay);
    let said = lap.fails(13, &["-C", "film", "fetch"])?;
    assert!(
        said.contains(&format!("the relay {url} does not answer")),
        "{said}"
    );
    assert!(
        said.contains("hint: dmv config set --user net.relay"),
        "{said}"
    );
    let (_, said, events) = server.stop_and_hear()?;
    let states: Vec<&Value> = events.iter().filter(|e| e["event"] == "relay").collect();
    assert_eq!(
        (&states[0]["state"], &states[1]["state"]),
        (&"reached".into(), &"silent".into())
    );
    assert!(
        said.contains("devices can connect through the relay"),
        "{said}"
    );
    Ok(())
}

#[test]
fn what_is_no_relay_is_refused() -> Outcome {
    let place = Place::new()?;
    for wrong in ["relay.example.org", "ftp://x", "http://"] {
        let said = place.fails(20, &["config", "set", "--user", "net.relay", wrong])?;
        assert!(said.contains("http://HOST:PORT or https://HOST"), "{said}");
    }
    place.ok(&[
        "config",
        "set",
        "--user",
        "net.relay",
        "https://relay.example.org",
    ])?;
    place.ok(&["config", "set", "--user", "net.relay", ""])?;
    Ok(())
}

#[test]
fn a_server_repacks_when_its_setting_says_so() -> Outcome {
    let (desk, lap) = (Place::with_repository()?, Place::new()?);
    desk.write("a", "one\n")?;
    desk.commit("first")?;
    desk.ok(&["trust", &key(&lap)?, "--name", "lap", "--write"])?;
    desk.ok(&["config", "set", "serve.repack-after", "1"])?;
    let server = Running::serve(&desk, &[])?;
    lap.ok(&["clone", &server.address()?, "film"])?;
    let packs = || -> Outcome<u64> {
        let stats = desk.json(&["stats", "--json"])?;
        Ok(stats["packs"].as_u64().ok_or("no packs")?)
    };
    // Each push stores its objects by themselves.
    for n in 0..4 {
        std::fs::write(lap.work().join("film/a"), format!("{n}\n"))?;
        lap.ok(&["-C", "film", "commit", "-m", "more"])?;
        lap.ok(&["-C", "film", "push"])?;
    }
    let begin = std::time::Instant::now();
    let is_joined =
        || -> Outcome<bool> { Ok(desk.ok(&["repack", "--dry-run"])?.contains("nothing")) };
    while !is_joined()? && begin.elapsed().as_secs() < 60 {
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    assert!(is_joined()?, "{} packs", packs()?);
    let (exit, said, events) = server.stop_and_hear()?;
    assert_eq!(exit, Some(0), "{said}");
    let repacked = events.iter().find(|event| event["event"] == "repacked");
    let repacked = repacked.ok_or_else(|| format!("{events:?}"))?;
    assert!(
        repacked["packs_after"].as_u64() <= repacked["packs_before"].as_u64(),
        "{repacked}"
    );
    desk.ok(&["verify"])?;
    Ok(())
}
