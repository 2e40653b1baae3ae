//! moto, an S3 server in Python: another reading of what a store does.
//!
//! It checks a condition first, and then writes: of writers at the same moment, several may win. So dmv is
//! right to refuse it, but a race is a matter of chance. For one writer after the other it will do.

use super::{KEY, SECRET, note_remote, place};
use crate::place::{Outcome, Place};
use dmv_random::skip;
use dmv_tests::server::Server;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;

/// Starts a server with one bucket, `film`; `None`, and a line that says so, where it is not installed.
fn start() -> Outcome<Option<Server>> {
    let started = Server::start(|port, _| {
        let mut command = Command::new("moto_server");
        command.args(["-H", "127.0.0.1", "-p", &port.to_string()]);
        Ok(command)
    });
    let server = match started {
        Ok(server) => server,
        Err(e) => {
            skip(format_args!(
                "moto_server cannot be started: pip install 'moto[server,s3]': {e}"
            ));
            return Ok(None);
        }
    };
    let mut stream = TcpStream::connect(server.host())?;
    let request =
        "PUT /film HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
    stream.write_all(request.as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    Ok(Some(server))
}

/// Adds a bucket as the remote `studio`, also one that was refused for a race.
fn add(place: &Place, bucket: &str, endpoint: &str) -> Outcome {
    let done = place.run(&["remote", "add", "studio", bucket, "--endpoint", endpoint])?;
    if done.status.success() {
        return Ok(());
    }
    let said = String::from_utf8(done.stderr)?;
    assert_eq!(done.status.code(), Some(5), "{said}");
    let is_race = ["of 8 writers at the same moment", "after a race"];
    assert!(is_race.iter().any(|words| said.contains(words)), "{said}");
    note_remote(place, "studio", bucket, endpoint)
}

/// Lets a clone push to a store that was refused.
fn note_as_tested(place: &Place, bucket: &str, endpoint: &str) -> Outcome {
    let file = place.work().join(".dmv/config.toml");
    let config = fs::read_to_string(&file)?;
    let head = "[remote.origin]\n";
    let noted = format!("{head}tested = \"{bucket} {endpoint} 2026-11-01\"\n");
    assert!(config.contains(head), "{config}");
    Ok(fs::write(file, config.replace(head, &noted))?)
}

#[test]
fn another_server_is_refused_for_its_races_alone_and_serves_one_writer_at_a_time() -> Outcome {
    let Some(moto) = start()? else {
        return Ok(());
    };
    let ada = place()?;
    let bucket = "s3://film/x";
    add(&ada, bucket, &moto.endpoint())?;
    // The last one goes up in parts.
    let large: Vec<u8> = (0..5_000_000_u32)
        .flat_map(|n| {
            n.wrapping_mul(0x9e37_79b9)
                .rotate_left(n % 32)
                .to_le_bytes()
        })
        .collect();
    for n in 0..9 {
        ada.write("d/file", format!("version {n}"))?;
        if n == 8 {
            ada.write("large", &large)?;
        }
        ada.commit(&format!("commit {n}"))?;
        ada.ok(&["push", "studio"])?;
    }
    let mut bob = Place::new()?;
    bob.env.push(("AWS_ACCESS_KEY_ID", KEY.into()));
    bob.env.push(("AWS_SECRET_ACCESS_KEY", SECRET.into()));
    bob.ok(&["clone", bucket, ".", "--endpoint", &moto.endpoint()])?;
    assert_eq!(fs::read(bob.work().join("large"))?, large);
    note_as_tested(&bob, bucket, &moto.endpoint())?;
    bob.write("d/file", "of bob")?;
    bob.commit("of bob")?;
    bob.ok(&["push"])?;
    ada.ok(&["undo", "--at", "studio"])?;
    ada.ok(&["redo", "--at", "studio"])?;
    ada.ok(&["pull", "studio"])?;
    let joined = ada.json(&["repack", "--at", "studio", "--json"])?;
    assert!(
        joined["packs_after"].as_u64() < joined["packs_before"].as_u64(),
        "{joined}"
    );
    ada.ok(&["gc", "--at", "studio", "--grace", "0"])?;
    ada.ok(&["verify", "--at", "studio", "--full"])?;
    bob.ok(&["fetch"])?;
    Ok(())
}
