//! Keys, the allow-list and pairing, as a user meets them.

use crate::place::running::Running;
use crate::place::{Outcome, Place};
use std::fs;
use std::net::UdpSocket;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

#[test]
fn the_key_of_a_device_is_one_word_that_stays() -> Outcome {
    let place = Place::new()?;
    let key = place.ok(&["id"])?;
    assert_eq!((key.len(), key.trim().len()), (65, 64), "{key}");
    assert_eq!(place.ok(&["id"])?, key);
    assert_eq!(place.json(&["id", "--json"])?["key"], key.trim());
    assert_ne!(Place::new()?.ok(&["id"])?, key);

    let file = place.home().join("config/dmv/device-key");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644))?;
    let said = place.fails(12, &["id"])?;
    assert!(said.contains("hint: chmod 600 "), "{said}");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600))?;
    let secret = fs::read_to_string(&file)?;
    let secret = secret.lines().nth(1).ok_or("no second line")?.to_owned();
    fs::write(&file, format!("{secret}\n"))?;
    let said = place.fails(12, &["id"])?;
    assert!(said.contains("is not a key file"), "{said}");
    assert!(!said.contains(&secret[..16]), "the secret is not shown");
    Ok(())
}

#[test]
fn who_may_use_a_repository_is_said_listed_and_taken_back() -> Outcome {
    let place = Place::with_repository()?;
    let (a, b) = ("a1".repeat(32), "b2".repeat(32));
    place.ok(&["trust", &a, "--name", "nas"])?;
    place.ok(&["trust", &format!("dmv://{b}@192.0.2.1:5"), "--write"])?;
    let peer = |key: &str, name: &str, access: &str| serde_json::json!({"key": key, "name": name, "address": null, "access": access});
    let peers = || place.records(&["peers", "--json"]);
    assert_eq!(peers()?, [peer(&a, "nas", "read"), peer(&b, "", "write")]);
    place.ok(&["trust", &a, "--write"])?;
    assert_eq!(peers()?, [peer(&a, "nas", "write"), peer(&b, "", "write")]);
    place.ok(&["undo"])?;
    assert_eq!(peers()?, [peer(&a, "nas", "read"), peer(&b, "", "write")]);
    place.ok(&["untrust", "nas"])?;
    place.ok(&["untrust", &b[..8]])?;
    assert!(peers()?.is_empty());
    place.fails(20, &["untrust", &a])?;
    place.fails(2, &["trust", "abc"])?;
    place.fails(20, &["trust", &a, "--name", "\u{1b}[2J"])?;
    Place::new()?.fails(10, &["peers"])?;
    Ok(())
}

/// Both ends on this machine, at an address: no local network is needed.
#[test]
fn two_devices_pair_by_a_code() -> Outcome {
    let (desk, lap) = (Place::with_repository()?, Place::with_repository()?);
    let listen = ["pair", "--write", "--json", "--listen", "127.0.0.1"];
    let pairing = Running::start(&mut desk.command(&listen))?;
    let (code, at) = (pairing.ready["code"].clone(), pairing.address()?);
    let code = code.as_str().ok_or("no code")?;
    assert_eq!(code.len(), 9, "{code}");
    let wrong = lap.fails(12, &["pair", "000000", "--peer", &at])?;
    assert!(wrong.contains("codes of the two devices differ"), "{wrong}");
    lap.ok(&["pair", code, "--peer", &at, "--name", "desk"])?;
    let (exit, out) = pairing.rest()?;
    assert_eq!(exit, Some(0), "{out}");

    let keys = [desk.ok(&["id"])?, lap.ok(&["id"])?];
    let keys = keys.map(|key| key.trim().to_owned());
    let there = desk.records(&["peers", "--json"])?;
    assert_eq!(
        (&there[0]["key"], &there[0]["access"]),
        (&keys[1].clone().into(), &"write".into())
    );
    let here = lap.records(&["peers", "--json"])?;
    assert_eq!(
        (&here[0]["key"], &here[0]["access"]),
        (&keys[0].clone().into(), &"read".into())
    );
    assert_eq!(here[0]["name"], "desk");
    let log = lap.ok(&["op", "log"])?;
    assert!(!log.contains(code), "the code is not kept: {log}");
    Ok(())
}

/// The time that a loaded machine may add to a wait.
const SLACK: Duration = Duration::from_secs(5);

#[test]
fn pairing_waits_no_longer_than_it_says() -> Outcome {
    let place = Place::with_repository()?;
    let key = Place::new()?.ok(&["id"])?;
    // Nobody reads from this socket, so nothing answers.
    let silent = UdpSocket::bind("127.0.0.1:0")?;
    let peer = format!("dmv://{}@{}", key.trim(), silent.local_addr()?);
    let pair = [
        "pair",
        "--wait",
        "2",
        "--code",
        "4829-1370",
        "--peer",
        &peer,
    ];
    let began = Instant::now();
    let said = place.fails(13, &pair)?;
    assert!(said.contains("waiting up to 2 s"), "{said}");
    assert!(said.contains("no other device was found"), "{said}");
    let took = began.elapsed();
    assert!(took < Duration::from_secs(2) + SLACK, "{took:?}");

    // Nobody comes.
    let said = place.fails(13, &["pair", "--listen", "127.0.0.1", "--wait", "0"])?;
    assert!(said.contains("no other device was found"), "{said}");
    place.fails(2, &["pair", "12"])?;
    place.fails(2, &["pair", "--peer", "192.0.2.1:5"])?;
    Ok(())
}
