//! moto, an S3 server in Python: another reading of what a store does.

use super::{KEY, SECRET, place};
use crate::place::{Outcome, Place};
use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A running server with one bucket, `film`.
struct Moto {
    server: Child,
    endpoint: String,
}

impl Moto {
    /// Starts a server; `None`, and a line that says so, where it is not installed.
    fn start() -> Outcome<Option<Moto>> {
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let server = Command::new("moto_server")
            .args(["-H", "127.0.0.1", "-p", &port.to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let Ok(server) = server else {
            // Past the capture of test output, so that it is seen.
            let why = "skipped: moto_server is not installed: pip install 'moto[server,s3]'";
            writeln!(std::io::stderr(), "{why}")?;
            return Ok(None);
        };
        let mut moto = Moto {
            server,
            endpoint: format!("http://127.0.0.1:{port}"),
        };
        let end = Instant::now() + Duration::from_secs(60);
        let mut stream = loop {
            if let Some(status) = moto.server.try_wait()? {
                writeln!(std::io::stderr(), "skipped: moto_server ends with {status}")?;
                return Ok(None);
            }
            if let Ok(stream) = TcpStream::connect(("127.0.0.1", port)) {
                break stream;
            }
            assert!(Instant::now() < end, "moto_server does not start");
            std::thread::sleep(Duration::from_millis(50));
        };
        let request = "PUT /film HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
        stream.write_all(request.as_bytes())?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        Ok(Some(moto))
    }
}

impl Drop for Moto {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

#[test]
fn another_server_passes_the_canary_and_serves_a_team() -> Outcome {
    let Some(moto) = Moto::start()? else {
        return Ok(());
    };
    let ada = place()?;
    let bucket = "s3://film/x";
    ada.ok(&[
        "remote",
        "add",
        "studio",
        bucket,
        "--endpoint",
        &moto.endpoint,
    ])?;
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
    bob.ok(&["clone", bucket, ".", "--endpoint", &moto.endpoint])?;
    assert_eq!(fs::read(bob.work().join("large"))?, large);
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
