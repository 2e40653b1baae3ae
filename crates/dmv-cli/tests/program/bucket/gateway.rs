//! versitygw, an S3 server over a directory, for the time of a test.

use super::note_remote;
use crate::place::{Outcome, Place};
use dmv_random::skip;
use dmv_tests::server::{Server, go_program};
use std::fs;
use std::io::Write;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// How the names begin that nobody but the reader of the access log asks for.
const QUESTION: &str = "is-the-log-complete-";

/// A running server with one bucket, `film`.
pub struct Gateway {
    server: Server,
    pub endpoint: String,
}

/// Requests by class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Logged {
    pub get: u64,
    pub put: u64,
    pub list: u64,
    pub delete: u64,
}

impl Logged {
    /// What has come since then.
    pub fn since(&self, before: &Logged) -> Logged {
        Logged {
            get: self.get - before.get,
            put: self.put - before.put,
            list: self.list - before.list,
            delete: self.delete - before.delete,
        }
    }
}

impl Gateway {
    /// Starts a server; `None`, and a line that says so, where it is not installed.
    pub fn start(key: &str, secret: &str) -> Outcome<Option<Gateway>> {
        Gateway::start_program("versitygw", ".ci/run installs it with go", key, secret)
    }

    /// The same with another version of the program. `install` says how to get it.
    pub fn start_program(
        name: &str,
        install: &str,
        key: &str,
        secret: &str,
    ) -> Outcome<Option<Gateway>> {
        let Some(program) = go_program(name, &|_| true) else {
            skip(format_args!("{name} is not installed; {install}"));
            return Ok(None);
        };
        let server = Server::start(|port, dir| {
            fs::create_dir_all(dir.join("data/film"))?;
            let mut command = Command::new(program);
            let place = format!("127.0.0.1:{port}");
            command.args(["--port", &place, "--quiet", "--keep-alive"]);
            command.args(["--access", key, "--secret", secret]);
            command.arg("--access-log").arg(dir.join("log"));
            // With a sidecar, it keeps the states of files apart from them, and reads mix them.
            command.arg("posix").arg(dir.join("data"));
            Ok(command)
        })?;
        let endpoint = server.endpoint();
        Ok(Some(Gateway { server, endpoint }))
    }

    /// Adds a bucket of it as a remote whose store was tested before.
    pub fn add(&self, place: &Place, name: &str, bucket: &str) -> Outcome {
        note_remote(place, name, bucket, &self.endpoint)
    }

    /// The same by the command, which tests the store with hundreds of requests.
    pub fn test_and_add(&self, place: &Place, name: &str, bucket: &str) -> Outcome {
        place.ok(&["remote", "add", name, bucket, "--endpoint", &self.endpoint])?;
        Ok(())
    }

    /// The requests that the server has logged.
    pub fn logged(&self) -> Outcome<Logged> {
        let mut logged = Logged::default();
        for line in self.log()?.lines() {
            if line.starts_with("log starts") || line.contains(QUESTION) {
                continue;
            }
            let action = line.split_whitespace().find(|word| word.starts_with("s3_"));
            let class = match action.ok_or_else(|| format!("no action: {line}"))? {
                "s3_GetObject" | "s3_HeadObject" => &mut logged.get,
                "s3_DeleteObject" | "s3_DeleteObjects" | "s3_AbortMultipartUpload" => {
                    &mut logged.delete
                }
                action if action.starts_with("s3_List") => &mut logged.list,
                _ => &mut logged.put,
            };
            *class += 1;
        }
        Ok(logged)
    }

    /// The access log. The server writes it beside its answers: it is complete once it has a last question of our
    /// own, and nothing more comes.
    fn log(&self) -> Outcome<String> {
        static ASKED: AtomicUsize = AtomicUsize::new(0);
        let question = format!("{QUESTION}{}-", ASKED.fetch_add(1, Ordering::SeqCst));
        let mut stream = TcpStream::connect(self.server.host())?;
        write!(
            stream,
            "GET /film/{question} HTTP/1.1\r\nhost: film\r\nconnection: close\r\n\r\n"
        )?;
        std::io::copy(&mut stream, &mut std::io::sink())?;
        let file = self.server.dir().join("log");
        let mut text = String::new();
        loop {
            let now = fs::read_to_string(&file)?;
            if now == text && now.contains(&question) && now.ends_with('\n') {
                return Ok(now);
            }
            text = now;
            std::thread::sleep(Duration::from_millis(30));
        }
    }

    /// How many files a bucket has.
    pub fn files(&self, bucket: &str) -> Outcome<usize> {
        count(&self.path(bucket))
    }

    /// The directory of a bucket.
    pub fn path(&self, bucket: &str) -> PathBuf {
        self.server.dir().join("data").join(bucket)
    }
}

fn count(dir: &Path) -> Outcome<usize> {
    let mut files = 0;
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        files += if path.is_dir() { count(&path)? } else { 1 };
    }
    Ok(files)
}
