//! versitygw, an S3 server over a directory, for the time of a test.

use crate::place::{Outcome, Place};
use std::fs::{self, File};
use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Where CI installs it, if not in PATH: `go install` puts it there.
const GO_BIN: &str = "go/bin";

/// A running server with one bucket, `film`.
pub struct Gateway {
    dir: TempDir,
    server: Child,
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
            // Past the capture of test output, so that it is seen.
            let why = format!("skipped: {name} is not installed; {install}");
            writeln!(std::io::stderr(), "{why}")?;
            return Ok(None);
        };
        let dir = TempDir::new()?;
        fs::create_dir_all(dir.path().join("data/film"))?;
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let server = Command::new(program)
            .args([
                "--port",
                &format!("127.0.0.1:{port}"),
                "--quiet",
                "--keep-alive",
            ])
            .args(["--access", key, "--secret", secret])
            .arg("--access-log")
            .arg(dir.path().join("log"))
            // With a sidecar, it keeps the states of files apart from them, and reads mix them.
            .arg("posix")
            .arg(dir.path().join("data"))
            .stdin(Stdio::null())
            .stdout(File::create(dir.path().join("out"))?)
            .stderr(File::create(dir.path().join("errors"))?)
            .spawn()?;
        let gateway = Gateway {
            dir,
            server,
            endpoint: format!("http://127.0.0.1:{port}"),
        };
        let end = Instant::now() + Duration::from_secs(20);
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            let errors = fs::read_to_string(gateway.dir.path().join("errors"))?;
            assert!(Instant::now() < end, "versitygw does not start: {errors}");
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(Some(gateway))
    }

    /// Adds a bucket of it as a remote.
    pub fn add(&self, place: &Place, name: &str, bucket: &str) -> Outcome {
        place.ok(&["remote", "add", name, bucket, "--endpoint", &self.endpoint])?;
        Ok(())
    }

    /// The requests that the server has logged.
    pub fn logged(&self) -> Outcome<Logged> {
        let mut logged = Logged::default();
        for line in self.log()?.lines() {
            if line.starts_with("log starts") {
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

    /// The access log. The server writes it after its answers: once nothing more comes, it is complete.
    fn log(&self) -> Outcome<String> {
        let file = self.dir.path().join("log");
        let mut text = fs::read_to_string(&file)?;
        loop {
            std::thread::sleep(Duration::from_millis(300));
            let now = fs::read_to_string(&file)?;
            if now == text && (now.is_empty() || now.ends_with('\n')) {
                return Ok(now);
            }
            text = now;
        }
    }

    /// How many files a bucket has.
    pub fn files(&self, bucket: &str) -> Outcome<usize> {
        count(&self.path(bucket))
    }

    /// The directory of a bucket.
    pub fn path(&self, bucket: &str) -> PathBuf {
        self.dir.path().join("data").join(bucket)
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.server.kill();
        let _ = self.server.wait();
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

/// A program in PATH, or where `go install` puts it, that fits.
pub fn go_program(name: &str, fits: &dyn Fn(&Path) -> bool) -> Option<PathBuf> {
    let home = std::env::var_os("HOME").map(|home| Path::new(&home).join(GO_BIN));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let dirs = std::env::split_paths(&path).chain(home);
    dirs.map(|dir| dir.join(name))
        .find(|file| file.is_file() && fits(file))
}
